/* moDNN (Chen et al., DATE 2018; IEEE TPDS 30(3), 2019). A batch is taken in parts as large as a
 * rule allows (memory/policies/modnn_batch.h), whose gradients are added up. Of a part's step a
 * simulation makes the schedule: ops run in their order, and where the next one has no room, what
 * delays the step least leaves. A value may leave unless it has not been used since it was made or
 * fetched, or the next op uses it. Copies of a direction follow each other beside the ops and span
 * as many of these as they take; an op waits for those alone that it depends on, and what it reads
 * comes back so that it is there in time, and no sooner.
 *
 * Ours differs:
 * - A part is what divides train.batch, and it is chosen only where train.micro_batch says nothing:
 *   it is then part of what the run is, as a micro-batch is, for gradients added up in parts, and
 *   norms over fewer samples, have other bits.
 * - Room is counted in bytes of the load curve, and addresses are found by the run's pool; where
 *   bytes between others are lost, the simulation has a lower limit and goes on. So nothing is
 *   defragmented. Of what delays equally little the value leaves that is needed last.
 * - Copies out and copies back each follow each other on a stream of their own. The paper's share
 *   one, in the order in which they are asked for, so that it never uses a link both ways at once.
 * - A value that leaves twice is copied out twice.
 * - The paper chooses a convolution's algorithm within its schedule, by equation 10: the seconds
 *   that it saves over the smallest, less those that copies for its scratch delay this op and the
 *   next that wants something back. No pass can: the table of algorithms belongs to the run, not to
 *   a program. Weights lie as it says before any pass is called, both programs of a step,
 *   recomputes and evaluation go by one, and another algorithm rounds otherwise, while policies
 *   keep bits. So memory.algorithms = fit does (memory/fit.h), around the policy: an algorithm is
 *   taken if a step whose plans are all made anew with it, copies for its scratch and all, takes no
 *   longer than one with a smaller, which is a gain of at least 0 where both sides of equation 10
 *   are a step's. It sees delays of all later ops, where equation 10 sees two.
 * - What the paper has not: where an op's scratch is too large, the op runs in pieces with the same
 *   bits, if a schedule of that takes fewer seconds.
 * - What backward alone reads, as masks, may leave at once.
 * - Its several cards, whose gradients the host adds up, are not here. */
#include "engine/base/alloc.h"
#include "memory/gap/planner.h"
#include "memory/policies/modnn_batch.h"

typedef struct options {
    uint64_t budget, least;
    double share;
    bool split;
} options;

#define AT(f) offsetof(options, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"budget", DT_OPT_BYTES, AT(budget), "0",     0, 0, NULL, NULL, "most device memory to use; 0: memory.device_budget. Without a budget nothing moves"},
    {"least",  DT_OPT_BYTES, AT(least),  "64KiB", 0, 0, NULL, NULL, "bytes of the smallest tensor that moves"},
    {"share",  DT_OPT_F64,   AT(share),  "0.15",  0, 1, NULL, NULL, "share of the step's ops, in a row, whose values must fit at once; with train.micro_batch = 0, as many samples are computed at once as fit so"},
    {"split",  DT_OPT_BOOL,  AT(split),  "on",    0, 0, NULL, NULL, "run an op whose scratch is too large in pieces of the batch, where that is faster than making space"},
    {NULL,     DT_OPT_I64,   0,          NULL,    0, 0, NULL, NULL, NULL},
};
/* clang-format on */

static uint64_t budget_of(const dt_pass_env *env)
{
    const options *o = env->opts;
    return dti_pass_budget(env, o->budget);
}

/* ---- sub-batches ---- */

static dt_status fits(dt_program *p, const dt_pass_env *env, bool *yes, dt_err *err)
{
    const options *o = env->opts;
    const uint64_t budget = budget_of(env);
    uint64_t bytes = 0;
    if (budget > 0)
        DT_CHECK(dti_modnn_need(p, o->share, &bytes, err));
    *yes = bytes <= budget;
    return DT_OK;
}

static const dt_parts parts = {.fit = fits, .round = dti_modnn_round};

/* ---- the schedule ---- */

/* Gaps that may leave, at this place or at a later one. */
typedef struct leavers {
    dti_idle **gap;
    size_t n;
} leavers;

static bool may_leave(const dti_planner *x, const dti_gap *g)
{
    return g->from != dti_producer(x->p, g->tensor) || g->crosses_loss;
}

/* What is to leave at a place: the least delay, and of several that which is needed last. What is
 * gone, or read again by the next op, may not leave at any later place, and is let go of. */
static dti_idle *cheapest(dti_planner *x, leavers *all, int32_t k)
{
    dti_idle *found = NULL;
    double least = 0;
    size_t left = 0;
    for (size_t n = 0; n < all->n; n++) {
        dti_idle *i = all->gap[n];
        if (i->fate != DTI_KEEP || i->gap.to_pos <= k + 1)
            continue;
        all->gap[left++] = i;
        if (i->refused == k || i->gap.from_pos >= k)
            continue;
        const double delay = dti_gaps_wait_at(&x->gaps, i, k);
        const bool later = found != NULL && i->gap.to_pos > found->gap.to_pos;
        if (found == NULL || delay < least || (delay <= least && later)) {
            found = i;
            least = delay;
        }
    }
    all->n = left;
    return found;
}

static dt_status make_room(dti_planner *x, leavers *all, int32_t k, dt_err *err)
{
    dti_idle *i;
    while (x->gaps.left[k] > x->gaps.limit && (i = cheapest(x, all, k)) != NULL) {
        const double delay = dti_gaps_wait_at(&x->gaps, i, k);
        i->at = k;
        DT_CHECK(dti_planner_offload(x, i, err, "room for %.40s; delays by %.3g ms",
            x->p->op[x->p->order[k]].name, 1e3 * delay));
        if (i->fate == DTI_KEEP) /* no room on the host */
            i->refused = k;
    }
    return DT_OK;
}

static dt_status simulate(dti_planner *x, const void *given, dt_err *err)
{
    (void)given;
    leavers all = {dt_alloc(x->n_gap + 1, sizeof(dti_idle *)), 0};
    dt_status st = all.gap != NULL ? DT_OK : dti_pass_no_memory(err);
    for (size_t n = 0; n < x->n_gap && st == DT_OK; n++)
        if (may_leave(x, &x->gaps.idle[n].gap))
            all.gap[all.n++] = &x->gaps.idle[n];
    for (int32_t k = 0; k < (int32_t)x->gaps.n_place && st == DT_OK; k++)
        if (x->gaps.left[k] > x->gaps.limit)
            st = make_room(x, &all, k, err);
    dt_free(all.gap);
    return st;
}

static dt_status schedule(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    const options *o = env->opts;
    const dti_planner_opts with = {.budget = budget_of(env), .least = o->least};
    return dti_planner_run(p, env, &with, simulate, err);
}

/* ---- pieces ---- */

static uint64_t scratch_of(const dt_program *p, const dt_op *op)
{
    uint64_t bytes = 0;
    for (int a = 0; a < op->n_arg; a++)
        if (p->tensor[op->arg[a].tensor].role == DT_ROLE_WORKSPACE)
            bytes += p->tensor[op->arg[a].tensor].bytes;
    return bytes;
}

/* The fewest pieces, a power of two, whose scratch is at most @room; 1 if none has so little. */
static dt_status pieces_for(
    const dt_program *p, const dt_op *op, uint64_t room, int *pieces, dt_err *err)
{
    const int64_t n = op->n1 - op->n0;
    *pieces = 1;
    for (int64_t k = 2; k <= n && k <= 1024; k *= 2) {
        dt_facts f;
        dt_op piece = *op;
        piece.n1 = piece.n0 + (n + k - 1) / k;
        DT_CHECK(dt_op_facts(p, &piece, &f, err));
        if (f.work_bytes <= room) {
            *pieces = (int)k;
            return DT_OK;
        }
    }
    return DT_OK;
}

static dt_status split_one(
    dt_program *p, const dt_pass_env *env, int32_t id, uint64_t load, bool *any, dt_err *err)
{
    const dt_op *op = &p->op[id];
    const uint64_t scratch = scratch_of(p, op), over = load - budget_of(env);
    const bool can = op->desc != NULL && op->node != DT_NONE && op->desc->form[op->form].split;
    int pieces = 1;
    if (!can || scratch == 0)
        return DT_OK;
    DT_CHECK(pieces_for(p, op, scratch > over ? scratch - over : 0, &pieces, err));
    if (pieces == 1)
        return DT_OK;
    dt_err refused = {0}; /* pieces that would have other bits */
    const dt_status st = dti_split(p, id, pieces, &refused);
    *any = *any || st == DT_OK;
    return st == DT_OK || st == DT_E_CONFIG ? DT_OK : DT_FAIL(err, st, "no memory for a policy");
}

/* Every op in pieces whose scratch alone takes the load above the budget. */
static dt_status split_all(dt_program *p, const dt_pass_env *env, bool *any, dt_err *err)
{
    dti_load_curve c = {0};
    const size_t n = p->n_order;
    int32_t *order = dti_order_copy(p); /* pieces come between the ops */
    dt_status st =
        order != NULL ? dti_load_curve_open(&c, p, env, 0, err) : dti_pass_no_memory(err);
    for (size_t k = 0; k < n && st == DT_OK; k++)
        if (c.load[k] > budget_of(env))
            st = split_one(p, env, order[k], c.load[k], any, err);
    dti_load_curve_close(&c);
    dt_free(order);
    return st;
}

static dt_status schedule_in(void *env, dt_program *copy, dt_err *err)
{
    return schedule(copy, env, err);
}

static dt_status split_where_faster(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    dt_program *q = NULL;
    bool any = false;
    dti_pass_cost whole = {0}, split = {0};
    dt_pass_env e = *env;
    dt_status st = dt_program_copy(&q, p, err);
    if (st == DT_OK)
        st = split_all(q, env, &any, err);
    if (st == DT_OK && any)
        st = dti_pass_cost_if(env, q, schedule_in, &e, &split, err);
    dt_program_destroy(q);
    if (st != DT_OK || !any)
        return st;
    DT_CHECK(dti_pass_cost_if(env, p, schedule_in, &e, &whole, err));
    return dti_pass_is_better(&split, &whole, budget_of(env)) ? split_all(p, env, &any, err)
                                                              : DT_OK;
}

static dt_status modnn(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    const options *o = env->opts;
    if (p->loss == DT_NONE || budget_of(env) == 0)
        return DT_OK;
    DT_CHECK(dt_program_index(p, err));
    if (o->split)
        DT_CHECK(split_where_faster(p, env, err));
    return schedule(p, env, err);
}

const dt_policy dt_policy_modnn = {
    .name = "modnn",
    .summary = "parts of the batch that fit, and what delays least leaves (moDNN 2018)",
    .exact = true,
    .by_budget = true,
    .wants_budget = true,
    .opts = opts,
    .opts_bytes = sizeof(options),
    .pass = modnn,
    .parts = &parts,
};
