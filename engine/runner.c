#include "engine/runner.h"

#include <string.h>

#include "engine/alloc.h"
#include "engine/cpu.h"
#include "engine/runner_parts.h"

dt_status dt_runner_create(dt_runner **out, const dt_runner_opts *o, dt_err *err)
{
    *out = NULL;
    dt_runner *r = dt_alloc(1, sizeof *r);
    if (r == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a runner");
    r->o = *o;
    (void)dt_cpu_setup(o->threads);
    dt_status st = dt_arena_reserve(&r->arena, o->arena_bytes, err);
    if (st == DT_OK && o->host_bytes > 0) {
        r->host = dt_alloc(o->host_bytes, 1);
        if (r->host == NULL)
            st = DT_FAIL(err, DT_E_NOMEM, "reserve %llu bytes for the host tier",
                (unsigned long long)o->host_bytes);
    }
    if (st != DT_OK) {
        dt_runner_destroy(r);
        return st;
    }
    *out = r;
    return DT_OK;
}

void dt_runner_destroy(dt_runner *r)
{
    if (r == NULL)
        return;
    for (size_t i = 0; i < r->n_plan; i++) {
        dt_free(r->plan[i].step);
        dt_free(r->plan[i].touched);
        dt_free(r->plan[i].op);
        dt_free(r->plan[i].tensor);
    }
    for (size_t i = 0; i < r->n_state; i++) {
        const dt_kernels *k = dt_kernels_of(r->state[i].desc, r->o.device);
        if (k->destroy != NULL && r->state[i].state != NULL)
            k->destroy(r->state[i].state);
    }
    dt_free(r->plan);
    dt_free(r->state);
    dt_free(r->host);
    dt_arena_release(&r->arena);
    dt_free(r);
}

static bool same_call(const dt_call *a, const dt_call *b)
{
    return a->node == b->node && a->form == b->form && a->alt == b->alt && a->n == b->n &&
           a->home_n == b->home_n && a->count == b->count && a->needs_dx == b->needs_dx;
}

/* Prepared state of a call, shared by all ops that make the same call. */
static dt_status state_of(
    dt_runner *r, const dt_layer_desc *desc, const dt_call *c, void **state, dt_err *err)
{
    const dt_kernels *k = dt_kernels_of(desc, r->o.device);
    *state = NULL;
    if (k->create == NULL)
        return DT_OK;
    for (size_t i = 0; i < r->n_state; i++)
        if (r->state[i].desc == desc && same_call(&r->state[i].call, c)) {
            *state = r->state[i].state;
            return DT_OK;
        }
    if (!dt_grow((void **)&r->state, &r->cap_state, r->n_state, sizeof *r->state))
        return DT_FAIL(err, DT_E_NOMEM, "no memory to prepare kernels");
    DT_CHECK(k->create(c, state, err));
    r->state[r->n_state++] = (dti_state){desc, *c, *state};
    return DT_OK;
}

/* Where each tensor lies as rows go by. */
typedef struct binder {
    dt_runner *r;
    const dt_program *p;
    const dt_plan *plan;
    dti_plan *to;
    uint64_t *off; /* by tensor */
    int32_t next;  /* place in the program's order of the next op with a kernel */
} binder;

static dti_step *new_step(binder *b, dti_step_kind kind)
{
    dti_step *s = &b->to->step[b->to->n_step++];
    s->kind = kind;
    s->first = (int32_t)b->to->n_touched;
    return s;
}

static void touch(binder *b, dti_step *s, int32_t tensor, bool written)
{
    b->to->touched[b->to->n_touched++] = (dti_bytes){
        b->off[tensor], b->off[tensor] + b->plan->tensor[tensor].bytes, tensor, written};
    s->n++;
}

static dt_status bind_compute(binder *b, const dt_row *row, dt_err *err)
{
    while (b->p->op[b->p->order[b->next]].desc == NULL)
        b->next++;
    const dt_op *op = &b->p->op[b->p->order[b->next++]];
    dti_step *s = new_step(b, DTI_COMPUTE);
    s->kernels = dt_kernels_of(op->desc, b->r->o.device);
    s->call = dt_op_call(b->p, op);
    s->name = b->to->op[row->op].name;
    s->args.n = op->n1 - op->n0;
    s->args.sample0 = op->n0;
    s->args.layer = op->node;
    s->args.seed = b->r->o.seed;
    if (s->kernels == NULL)
        return DT_FAIL(
            err, DT_E_DEVICE, "%s: no %s kernels", op->name, dt_device_name(b->r->o.device));
    DT_TRY(err, state_of(b->r, op->desc, &s->call, &s->state, err), "%s", op->name);
    for (int i = 0; i < op->n_arg; i++) {
        const dt_operand *a = &op->arg[i];
        const uint64_t piece = (uint64_t)op->n0 * b->p->tensor[a->tensor].sample_bytes;
        s->args.port[a->port] = b->r->arena.base + b->off[a->tensor] + piece;
        touch(b, s, a->tensor, a->mode != DT_READ);
    }
    return DT_OK;
}

static void bind_copy(binder *b, const dt_row *row)
{
    const bool fetch = row->tier == DT_TIER_INPUT;
    dti_step *s = new_step(b, fetch                          ? DTI_FETCH
                              : row->kind == DT_ROW_COPY_OUT ? DTI_COPY_OUT
                                                             : DTI_COPY_IN);
    s->device = b->r->arena.base + row->off;
    s->host = fetch ? NULL : b->r->host + row->slot;
    s->fetch = (int)row->slot;
    s->bytes = row->bytes;
    s->name = b->to->tensor[row->tensor].name;
    touch(b, s, row->tensor, row->kind == DT_ROW_COPY_IN);
}

static dt_status bind_row(binder *b, const dt_row *row, dt_err *err)
{
    switch ((dt_row_kind)row->kind) {
    case DT_ROW_PLACE:
        b->off[row->tensor] = row->off;
        return DT_OK;
    case DT_ROW_RELEASE:
        touch(b, new_step(b, DTI_END), row->tensor, false);
        return DT_OK;
    case DT_ROW_COMPUTE:
        return bind_compute(b, row, err);
    case DT_ROW_COPY_OUT:
    case DT_ROW_COPY_IN:
        bind_copy(b, row);
        return DT_OK;
    case DT_ROW_WAIT:
    case DT_ROW_KINDS:
        break; /* copies are inline: the order of rows is order enough */
    }
    return DT_OK;
}

static dt_status bind(binder *b, dt_err *err)
{
    const dt_plan *p = b->plan;
    b->off = dt_alloc(p->n_tensor, sizeof *b->off);
    b->to->step = dt_alloc(p->n_row, sizeof *b->to->step);
    b->to->touched = dt_alloc(p->n_arg + p->n_row, sizeof *b->to->touched);
    b->to->op = dt_alloc(p->n_op, sizeof *b->to->op);
    b->to->tensor = dt_alloc(p->n_tensor, sizeof *b->to->tensor);
    if (b->off == NULL || b->to->step == NULL || b->to->touched == NULL || b->to->op == NULL ||
        b->to->tensor == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to bind a plan");
    memcpy(b->to->op, p->op, p->n_op * sizeof *p->op);
    memcpy(b->to->tensor, p->tensor, p->n_tensor * sizeof *p->tensor);
    for (size_t t = 0; t < p->n_tensor; t++)
        b->off[t] = p->tensor[t].home;
    for (size_t i = 0; i < p->n_row; i++)
        DT_CHECK(bind_row(b, &p->row[i], err));
    return DT_OK;
}

dt_status dt_runner_add(
    dt_runner *r, const dt_program *p, const dt_plan *plan, int *id, dt_err *err)
{
    if (plan->peak > r->o.arena_bytes || plan->host_peak > r->o.host_bytes)
        return DT_FAIL(err, DT_E_INTERNAL, "a plan larger than the arena");
    if (!dt_grow((void **)&r->plan, &r->cap_plan, r->n_plan, sizeof *r->plan))
        return DT_FAIL(err, DT_E_NOMEM, "no memory to bind a plan");
    dti_plan *to = &r->plan[r->n_plan];
    memset(to, 0, sizeof *to);
    to->peak = plan->peak;
    to->n = p->n;
    to->again = p->kind == DT_PROGRAM_AGAIN;
    *id = (int)r->n_plan++; /* destroy frees it from here on */
    binder b = {.r = r, .p = p, .plan = plan, .to = to};
    const dt_status st = bind(&b, err);
    dt_free(b.off);
    return st;
}

dt_status dti_step_run(
    const dt_runner *r, dti_step *s, const dt_run_args *a, bool again, dt_err *err)
{
    (void)r;
    dt_args args;
    switch (s->kind) {
    case DTI_COMPUTE:
        args = s->args;
        args.sample0 += a->sample0;
        args.step = a->step;
        args.step_samples = a->step_samples;
        args.hyper = a->hyper;
        args.accumulate = again;
        DT_TRY(err, s->kernels->run(&s->call, s->state, &args, err), "%s", s->name);
        return DT_OK;
    case DTI_COPY_OUT:
        dt_cpu_copy(s->host, s->device, s->bytes);
        return DT_OK;
    case DTI_COPY_IN:
        dt_cpu_copy(s->device, s->host, s->bytes);
        return DT_OK;
    case DTI_FETCH:
        dt_cpu_copy(s->device,
            s->fetch == 0 ? (const void *)a->batch.x : (const void *)a->batch.labels, s->bytes);
        return DT_OK;
    case DTI_END:
        return DT_OK;
    }
    return DT_OK;
}

dt_status dt_runner_run(dt_runner *r, int id, const dt_run_args *a, dt_err *err)
{
    dti_plan *p = &r->plan[id];
    for (size_t i = 0; i < p->n_step; i++)
        if (p->step[i].kind != DTI_END)
            DT_CHECK(dti_step_run(r, &p->step[i], a, p->again, err));
    return DT_OK;
}

void *dt_runner_home(dt_runner *r, int32_t home)
{
    return r->arena.base + r->o.map->home[home].off;
}

int64_t dt_runner_sample(const dt_runner *r)
{
    return dt_shape_sample(&r->o.graph->input);
}
