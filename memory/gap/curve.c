/* Places of a program in time: the rows of its plan, taken back to its ops. */
#include "memory/gap/curve.h"

#include "engine/base/alloc.h"
#include "memory/lower/lower.h"

/* Copies from and to homes are lowering's; no op of the program stands for them. */
static bool stands_for_an_op(const dt_plan *p, const dt_row *r)
{
    const bool copy = r->kind == DT_ROW_COPY_OUT || r->kind == DT_ROW_COPY_IN;
    return r->kind == DT_ROW_COMPUTE || (copy && !p->tensor[r->tensor].persistent);
}

/* Each op and each copy of the program has one row, in its order. */
static void read_rows(dti_load_curve *c)
{
    const dt_plan *p = c->plan;
    const dt_timeline *t = &c->time;
    uint64_t bytes = p->persistent;
    double now = 0;
    size_t pos = 0;
    for (size_t i = 0; i < p->n_row; i++) {
        const dt_row *r = &p->row[i];
        if (r->kind == DT_ROW_PLACE)
            bytes += r->bytes - (r->over >= 0 ? p->tensor[r->over].bytes : 0);
        if (r->kind == DT_ROW_RELEASE)
            bytes -= r->bytes;
        if (!stands_for_an_op(p, r))
            continue;
        DT_ASSERT(pos < c->n);
        const bool op = r->kind == DT_ROW_COMPUTE;
        c->begin[pos] = op ? t->begin[i] : now;
        now = op ? t->end[i] : now;
        c->end[pos] = now;
        c->op[pos] = r->op;
        c->load[pos++] = bytes;
    }
    DT_ASSERT(pos == c->n);
}

dt_status dti_load_curve_open(
    dti_load_curve *out, dt_program *p, const dt_pass_env *e, uint64_t within, dt_err *err)
{
    const dt_simulate_opts machine = dti_pass_machine(e);
    dt_lower_opts o = dti_pass_lower_opts(e);
    o.above = within;
    o.pool_above = dti_pool_quick();
    *out = (dti_load_curve){.n = p->n_order};
    DT_CHECK(dt_lower(&out->plan, p, &o, err));
    out->begin = dt_alloc(out->n + 1, sizeof *out->begin);
    out->end = dt_alloc(out->n + 1, sizeof *out->end);
    out->load = dt_alloc(out->n + 1, sizeof *out->load);
    out->op = dt_alloc(out->n + 1, sizeof *out->op);
    if (out->begin == NULL || out->end == NULL || out->load == NULL || out->op == NULL)
        return dti_pass_no_memory(err);
    DT_CHECK(dt_simulate(&out->time, out->plan, dti_pass_costs(e), &machine, err));
    read_rows(out);
    return DT_OK;
}

void dti_load_curve_close(dti_load_curve *c)
{
    dt_plan_destroy(c->plan);
    dt_free(c->begin);
    dt_free(c->end);
    dt_free(c->load);
    dt_free(c->op);
    dt_timeline_deinit(&c->time);
    *c = (dti_load_curve){0};
}
