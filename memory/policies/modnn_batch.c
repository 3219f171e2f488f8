/* The rule for sub-batches: what so many samples need at once, and numbers that kernels like. */
#include "memory/policies/modnn_batch.h"

#include <math.h>

#include "engine/base/alloc.h"

/* Ops of a run of neighbours. @seen: by tensor, the run that counted it last, from 1 on */
typedef struct window {
    const dt_program *p;
    size_t width;
    uint64_t *seen;
} window;

/* Whether what an op writes takes the bytes of what it is the last to read. */
static bool in_place(const dt_program *p, const dt_op *op, const dt_operand *out)
{
    const dt_form *form = &op->desc->form[op->form];
    for (int i = 0; i < form->n_over; i++) {
        int32_t n;
        const int32_t in = dt_op_tensor(op, form->over[i].in);
        if (form->over[i].out != out->port || in == DT_NONE || p->tensor[in].home != DT_NONE)
            continue;
        const dt_access *a = dt_accesses(p, in, &n);
        if (&p->op[a[n - 1].op] == op && p->tensor[in].bytes == p->tensor[out->tensor].bytes)
            return true;
    }
    return false;
}

/* Values of an op that the run has not counted yet, and its scratch. */
static uint64_t add_op(const window *w, const dt_op *op, uint64_t run, uint64_t *scratch)
{
    uint64_t sum = 0;
    for (int a = 0; a < op->n_arg; a++) {
        const int32_t t = op->arg[a].tensor;
        const dt_tensor *of = &w->p->tensor[t];
        if (of->home != DT_NONE || w->seen[t] == run)
            continue;
        w->seen[t] = run;
        if (of->role != DT_ROLE_WORKSPACE)
            sum += in_place(w->p, op, &op->arg[a]) ? 0 : of->bytes;
        else if (of->bytes > *scratch)
            *scratch = of->bytes;
    }
    return sum;
}

static uint64_t run_bytes(const window *w, size_t from)
{
    uint64_t sum = 0, scratch = 0;
    size_t n = 0;
    for (size_t k = from; k < w->p->n_order && n < w->width; k++) {
        const dt_op *op = &w->p->op[w->p->order[k]];
        sum += op->desc != NULL ? add_op(w, op, from + 1, &scratch) : 0;
        n += op->desc != NULL;
    }
    return sum + scratch;
}

dt_status dti_modnn_need(dt_program *p, double share, uint64_t *bytes, dt_err *err)
{
    size_t n_op = 0;
    DT_CHECK(dt_program_index(p, err));
    for (size_t k = 0; k < p->n_order; k++)
        n_op += p->op[p->order[k]].desc != NULL;
    const double width = ceil(share * (double)n_op);
    window w = {.p = p, .width = width > 1 ? (size_t)width : 1};
    w.seen = dt_alloc(p->n_tensor + 1, sizeof *w.seen);
    if (w.seen == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a policy");
    uint64_t most = 0;
    for (size_t k = 0; k < p->n_order; k++) {
        const uint64_t one = run_bytes(&w, k);
        most = one > most ? one : most;
    }
    dt_free(w.seen);
    *bytes = p->map->bytes + most;
    return DT_OK;
}

int64_t dti_modnn_round(int64_t samples)
{
    int64_t step = 64;
    while (step > samples)
        step /= 2;
    return samples / step * step;
}
