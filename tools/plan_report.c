#include "tools/plan_report.h"

/* Ops that repeat forward, and what they cost. */
static void add_clones(dt_report *r, const dt_plan *p, int64_t times)
{
    for (size_t i = 0; i < p->n_op; i++)
        if (p->op[i].kind == DT_OP_CLONE) {
            r->clones += times;
            r->clone_flops += (double)times * p->op[i].flops;
        }
}

/* A step is the first micro-batch, all others, and the update. */
static int64_t times_a_step(const dt_session *s, const dt_planned *p)
{
    const int64_t micro = s->opts.train.micro_batch;
    if (p->kind == DT_PROGRAM_UPDATE)
        return 1;
    if (p->n != micro || p->kind == DT_PROGRAM_EVAL)
        return 0;
    return p->kind == DT_PROGRAM_FIRST ? 1 : s->opts.train.batch / micro - 1;
}

dt_status dt_report_init(dt_report *out, const dt_session *s, dt_err *err)
{
    dt_report *r = out;
    *r = (dt_report){.session = s};
    for (size_t i = 0; i < s->n_planned; i++) {
        const dt_planned *p = &s->planned[i];
        const int64_t times = times_a_step(s, p);
        if (r->top == NULL || p->plan->peak > r->peak) {
            r->top = p;
            r->peak = p->plan->peak;
        }
        r->bound = p->plan->bound > r->bound ? p->plan->bound : r->bound;
        r->host_peak = p->plan->host_peak > r->host_peak ? p->plan->host_peak : r->host_peak;
        r->out_bytes += (uint64_t)times * p->plan->out_bytes;
        r->in_bytes += (uint64_t)times * p->plan->in_bytes;
        add_clones(r, p->plan, times);
    }
    DT_ASSERT(r->top != NULL);
    const uint64_t budget = s->opts.memory.device_budget;
    r->fits = budget == 0 || r->peak <= budget;
    return dt_plan_usage(r->top->plan, &r->usage, err);
}

void dt_report_deinit(dt_report *r)
{
    dt_usage_deinit(&r->usage);
}

const char *dt_report_peak_layer(const dt_report *r)
{
    const dt_plan *p = r->top->plan;
    if (r->usage.peak == r->usage.n_instant)
        return "";
    const dt_row *row = &p->row[r->usage.instant[r->usage.peak].row];
    return row->kind == DT_ROW_COMPUTE ? p->op[row->op].name : p->tensor[row->tensor].name;
}

const char *dt_report_precision(const dt_report *r)
{
    static const char *const names[] = {[DT_PRECISION_FP32] = "fp32"};
    return names[r->session->opts.train.precision];
}
