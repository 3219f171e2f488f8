/* One way to score a program. */
#include "memory/score.h"

#include <string.h>

#include "engine/base/numbers.h"

static const dt_costs *or_default(const dt_costs *c)
{
    return c != NULL ? c : &dt_costs_default;
}

/* Values are packed on their way out, and where they stay. */
static bool packs(const dt_op *op)
{
    return op->codec != NULL && (op->kind == DT_OP_ENCODE || op->kind == DT_OP_OUT);
}

static void add_op(dt_score *s, const dt_op *op)
{
    if (packs(op))
        s->packed += (uint64_t)op->count * sizeof(float);
    if (op->kind == DT_OP_RECOMPUTE) {
        s->recomputes++;
        s->recompute_flops += op->flops;
    } else if (op->kind == DT_OP_FORWARD || op->kind == DT_OP_BACKWARD) {
        s->flops += op->flops;
    }
}

/* What can be said before anything is placed. */
static dt_score score_ops(const dt_program *p)
{
    dt_score s = {0};
    for (size_t i = 0; i < p->n_order; i++)
        add_op(&s, &p->op[p->order[i]]);
    return s;
}

static void add_limited(dt_score *s, const dt_plan_op *op)
{
    if (op->algorithm[0] == '\0')
        return;
    s->limited_flops += op->flops;
}

dt_score dt_score_plan(const dt_program *p, const dt_plan *plan)
{
    dt_score s = score_ops(p);
    s.device = plan->peak;
    s.out = plan->out_bytes;
    s.in = plan->in_bytes;
    for (size_t i = 0; i < plan->n_op; i++)
        add_limited(&s, &plan->op[i]);
    for (size_t i = 0; i < plan->n_row; i++)
        if (plan->row[i].kind == DT_ROW_COPY_OUT && plan->row[i].tier == DT_TIER_DISK)
            s.to_disk += plan->row[i].stored;
    return s;
}

/* There and back again. */
static double moved(const dt_costs *c, dt_tier tier, uint64_t bytes)
{
    return (double)bytes / c->link[tier][DT_TO_TIER].rate +
           (double)bytes / c->link[tier][DT_FROM_TIER].rate;
}

double dt_score_seconds(const dt_score *s, const dt_costs *costs)
{
    const dt_costs *c = or_default(costs);
    const double flops = s->recompute_flops + c->slower * s->limited_flops;
    return moved(c, DT_TIER_HOST, s->out - s->to_disk) + moved(c, DT_TIER_DISK, s->to_disk) +
           2 * (double)s->packed / dt_costs_rate(c, "", 1, true) +
           flops / c->flops[DT_WORK_CONV][DT_F32];
}

void dt_score_add(dt_score *to, const dt_score *s, int64_t times)
{
    const uint64_t n = (uint64_t)times;
    to->device = dt_max_u64(to->device, s->device);
    to->out += n * s->out;
    to->in += n * s->in;
    to->to_disk += n * s->to_disk;
    to->packed += n * s->packed;
    to->recomputes += times * s->recomputes;
    to->recompute_flops += (double)times * s->recompute_flops;
    to->flops += (double)times * s->flops;
    to->limited_flops += (double)times * s->limited_flops;
}

dt_status dti_score_program(
    dt_score *out, dt_program *p, const dt_pool_desc *pool, dt_memo *memo, dt_err *err)
{
    *out = score_ops(p);
    return pool != NULL ? dt_lower_peak(&out->device, p, pool, memo, err)
                        : dti_lower_bound(&out->device, p, err);
}
