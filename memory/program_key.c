/* Member by member: what lies between them is nobody's. */
#include "memory/program_key.h"

#include <string.h>

#define ADD(sum, value) dt_sha256_add(sum, &(value), sizeof(value))

static void add_op(const dt_op *op, dt_sha256 *sum)
{
    const int64_t of[] = {op->kind, op->node, op->pair, op->release_after, op->join_before,
        op->recompute_of, op->form, op->dtype, op->tier, (int64_t)op->stored, op->n0, op->n1,
        op->count, op->vector, op->on_host, op->n_arg};
    dt_sha256_add(sum, of, sizeof of);
    dt_sha256_add_text(sum, op->desc != NULL ? op->desc->name : "");
    dt_sha256_add_text(sum, op->codec != NULL ? op->codec->name : "");
    ADD(sum, op->flops);
    for (int i = 0; i < op->n_arg; i++) {
        const int32_t arg[] = {op->arg[i].tensor, op->arg[i].port, op->arg[i].mode};
        dt_sha256_add(sum, arg, sizeof arg);
    }
}

static void add_tensor(const dt_tensor *t, dt_sha256 *sum)
{
    const int64_t of[] = {
        t->role, (int64_t)t->bytes, (int64_t)t->sample_bytes, t->home, t->node, t->of, t->group};
    dt_sha256_add(sum, of, sizeof of);
    dt_sha256_add_text(sum, t->name);
}

void dti_program_key(const dt_program *p, dt_sha256 *sum)
{
    const int64_t of[] = {p->kind, p->n, p->map->home_n, (int64_t)p->n_tensor, (int64_t)p->n_order,
        p->n_group, p->loss, p->dense};
    dt_sha256_add(sum, of, sizeof of);
    dt_sha256_add(sum, p->order, p->n_order * sizeof *p->order);
    for (size_t i = 0; i < p->n_order; i++)
        add_op(&p->op[p->order[i]], sum);
    for (size_t i = 0; i < p->n_tensor; i++)
        add_tensor(&p->tensor[i], sum);
    dt_sha256_add(sum, p->alt, p->graph->n_node);
}
