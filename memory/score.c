/* One way to score a program, and the costs where nothing was measured. */
#include "memory/score.h"

#include <string.h>

const dt_costs dt_costs_default = {.flops = 2e11,
    .slower = 0.5,
    .tier = {[DT_TIER_HOST] = {8e9, 8e9}, [DT_TIER_DISK] = {1.6e9, 1.6e9}},
    .codec = 5e9};

double dti_costs_op(const dt_costs *c, const char *name)
{
    for (size_t i = 0; i < c->n_op; i++)
        if (strcmp(c->op[i].name, name) == 0)
            return c->op[i].seconds;
    return -1;
}

static const dt_costs *or_default(const dt_costs *c)
{
    return c != NULL ? c : &dt_costs_default;
}

/* A share of an op's time, where that is known. */
static void add_time(dt_score *s, const dt_costs *c, const char *name, double share, double flops)
{
    const double seconds = dti_costs_op(c, name);
    if (seconds < 0)
        return;
    s->known_flops += share * flops;
    s->known_seconds += share * seconds;
}

/* Values are packed on their way out, and where they stay. */
static bool packs(const dt_op *op)
{
    return op->codec != NULL && (op->kind == DT_OP_ENCODE || op->kind == DT_OP_OUT);
}

static void add_op(dt_score *s, const dt_op *op, const dt_costs *c)
{
    if (packs(op))
        s->packed += (uint64_t)op->count * sizeof(float);
    if (op->kind == DT_OP_CLONE) {
        s->clones++;
        s->clone_flops += op->flops;
        add_time(s, c, op->name, 1, op->flops);
    } else if (op->kind == DT_OP_FORWARD || op->kind == DT_OP_BACKWARD) {
        s->flops += op->flops;
    }
}

/* What can be said before anything is placed. */
static dt_score score_ops(const dt_program *p, const dt_costs *costs)
{
    dt_score s = {0};
    for (size_t i = 0; i < p->n_order; i++)
        add_op(&s, &p->op[p->order[i]], or_default(costs));
    return s;
}

static void add_limited(dt_score *s, const dt_plan_op *op, const dt_costs *c)
{
    if (op->way[0] == '\0')
        return;
    s->limited_flops += op->flops;
    add_time(s, c, op->name, c->slower, op->flops);
}

dt_score dt_score_plan(const dt_program *p, const dt_plan *plan, const dt_costs *costs)
{
    dt_score s = score_ops(p, costs);
    s.device = plan->peak;
    s.host = plan->host_peak;
    s.disk = plan->disk_peak;
    s.out = plan->out_bytes;
    s.in = plan->in_bytes;
    for (size_t i = 0; i < plan->n_op; i++)
        add_limited(&s, &plan->op[i], or_default(costs));
    for (size_t i = 0; i < plan->n_row; i++)
        if (plan->row[i].kind == DT_ROW_COPY_OUT && plan->row[i].tier == DT_TIER_DISK)
            s.to_disk += plan->row[i].stored;
    return s;
}

/* There and back again. */
static double moved(const dt_costs *c, dt_tier tier, uint64_t bytes)
{
    return (double)bytes / c->tier[tier][DT_TO_TIER] + (double)bytes / c->tier[tier][DT_FROM_TIER];
}

double dt_score_seconds(const dt_score *s, const dt_costs *costs)
{
    const dt_costs *c = or_default(costs);
    const double flops = s->clone_flops + c->slower * s->limited_flops - s->known_flops;
    return moved(c, DT_TIER_HOST, s->out - s->to_disk) + moved(c, DT_TIER_DISK, s->to_disk) +
           2 * (double)s->packed / c->codec + flops / c->flops + s->known_seconds;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void dt_score_add(dt_score *to, const dt_score *s, int64_t times)
{
    const uint64_t n = (uint64_t)times;
    to->device = larger(to->device, s->device);
    to->host = larger(to->host, s->host);
    to->disk = larger(to->disk, s->disk);
    to->out += n * s->out;
    to->in += n * s->in;
    to->to_disk += n * s->to_disk;
    to->packed += n * s->packed;
    to->clones += times * s->clones;
    to->clone_flops += (double)times * s->clone_flops;
    to->flops += (double)times * s->flops;
    to->limited_flops += (double)times * s->limited_flops;
    to->known_flops += (double)times * s->known_flops;
    to->known_seconds += (double)times * s->known_seconds;
}

dt_status dti_score_program(
    dt_score *out, dt_program *p, const dt_pool_desc *pool, const dt_costs *costs, dt_err *err)
{
    *out = score_ops(p, costs);
    return pool != NULL ? dti_lower_peak(&out->device, p, pool, err)
                        : dti_lower_bound(&out->device, p, err);
}
