/* The bound of a step. Seconds and bytes are the least of what any policy could make of them: each
 * op's least cost among what backward may read and among forward and its repetition; values packed
 * as small as zeros allow; nothing for workspaces, statistics, masks and layouts of weights. */
#include "memory/step_bound.h"

#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/policies/chen.h"
#include "memory/remat/moments.h"
#include "memory/remat/of_program.h"

/**
 * struct least - what is known of the program.
 * @once @again: seconds by op, of it in order, and of it when it runs again
 * @own: by op of the graph, bytes of its output while it runs; 0 where that may lie over an input
 * @bounds: of what must run again
 * @tier: by tier, values may wait there
 * @rate: bytes a second that leave the device and come back
 * @price: seconds that a byte which leaves and comes back takes from the ops, as it slows them
 * @behind: by op, it does not run before the input is there
 * @fetch: seconds of the inputs' copies; @fetched: by op of the graph, of its own; 0: it is none
 * @first @repeat: by op of the graph, seconds of its ops that are behind, and of it when it runs
 * again
 * @apart: by op of the graph, some of its ops run before what comes before it, or do not wait for
 * the input
 */
typedef struct least {
    const dt_pass_env *env;
    double *once, *again, compute, rate, price;
    bool tier[DT_TIERS];
    dti_remat_program r;
    uint64_t *own;
    dti_remat_bounds *bounds;
    bool *behind;
    double fetch, *first, *repeat, *fetched;
    uint8_t *apart;
} least;

static dt_status no_memory(dt_err *err)
{
    return DT_FAIL(err, DT_E_NOMEM, "no memory for a lower bound");
}

/* A copy in which backward reads no values where it can do without. */
static dt_status without_values(dt_program **out, const dt_program *p, dt_err *err)
{
    DT_CHECK(dt_program_copy(out, p, err));
    return dti_choose_value_free(*out, err);
}

/* Seconds of the ops that have names of @p's, where they are less. */
static dt_status take_less(least *l, dt_program *q, size_t n_op, dt_err *err)
{
    double *seconds = dt_alloc(q->n_op + 1, sizeof *seconds);
    if (seconds == NULL)
        return no_memory(err);
    const dt_status st = dti_pass_least_seconds(l->env, q, seconds, err);
    for (size_t i = 0; st == DT_OK && i < q->n_order; i++) {
        const int32_t op = q->order[i];
        const bool again = q->op[op].kind == DT_OP_RECOMPUTE;
        const int32_t of = again ? q->op[op].recompute_of : op;
        if ((size_t)of >= n_op)
            continue;
        if (!again)
            l->once[of] = fmin(l->once[of], seconds[op]);
        l->again[of] = fmin(l->again[of], seconds[op]);
    }
    dt_free(seconds);
    return st;
}

/* All of forward runs again, so that what that takes is seen. */
static dt_status all_again(least *l, const dt_program *p, dt_err *err)
{
    dt_program *q = NULL;
    dti_chen c = {0};
    int32_t reason;
    dt_status st = dt_program_copy(&q, p, err);
    if (st == DT_OK)
        st = dti_chen_open(&c, q, err);
    if (st == DT_OK)
        st = dt_reasons_add(&q->reasons, &reason, err, "for a lower bound");
    for (size_t i = 0; st == DT_OK && i < c.n; i++) {
        c.dropped[c.value[i].tensor] = true;
        c.reason[c.value[i].tensor] = reason;
    }
    if (st == DT_OK)
        st = dti_chen_rewrite(&c, err);
    dti_chen_close(&c);
    if (st == DT_OK)
        st = take_less(l, q, p->n_op, err);
    dt_program_destroy(q);
    return st;
}

/* Bytes that a value takes at least, wherever it is: codecs leave zeros out. */
static double packed_bytes(const least *l, const dt_tensor *t)
{
    const dt_densities *d = l->env->dense || !dt_packs(t) ? NULL : l->env->density;
    const double left = d != NULL ? dt_densities_mean(d, t->name) : -1;
    return (left >= 0 ? fmin(1, left) : 1) * (double)t->bytes;
}

static void pack(least *l, const dt_program *p)
{
    for (uint32_t v = 0; v < l->r.graph.n_op; v++) {
        const int32_t t = l->r.tensor[v];
        if (l->r.op[v] == DT_NONE) /* statistics, masks: not with every choice */
            l->r.graph.bytes[v] = 0;
        else if (t != DT_NONE && l->r.graph.bytes[v] != 0) /* 0: it lies in another one */
            l->r.graph.bytes[v] = (uint64_t)packed_bytes(l, &p->tensor[t]);
    }
}

/* Whether the output of an op may lie in the bytes of an input. */
static bool may_lie_over(const dt_program *p, int32_t op)
{
    return p->op[op].desc != NULL && p->op[op].desc->form[p->op[op].form].n_over > 0;
}

static dt_status find_own(least *l, const dt_program *p, dt_err *err)
{
    const dt_remat_graph *g = &l->r.graph;
    l->own = dt_alloc((size_t)g->n_op + 1, sizeof *l->own);
    if (l->own == NULL)
        return no_memory(err);
    for (uint32_t v = 0; v < g->n_op; v++) {
        const int32_t op = l->r.tensor[v] != DT_NONE ? dti_producer(p, l->r.tensor[v]) : DT_NONE;
        const bool alone = op != DT_NONE && op == l->r.op[v];
        l->own[v] = alone && !may_lie_over(p, op) ? g->bytes[v] : 0;
    }
    return DT_OK;
}

/* ---- links ---- */

/* By the team or a thread of the tier's, whichever is faster. */
static dt_link link_of(const least *l, int tier, int way)
{
    const dt_costs *c = dti_pass_costs(l->env);
    const dt_link *a = &c->link[tier][way], *b = &c->thread_link[tier][way];
    return (dt_link){fmin(a->latency, b->latency), fmax(a->rate, b->rate)};
}

static int stream_of(int tier, int way)
{
    const dt_stream s = {
        .kind = way == DT_TO_TIER ? DT_STREAM_OUT : DT_STREAM_IN, .tier = (uint8_t)tier};
    return dt_usual_stream_of(&s);
}

/* Of a second in which a stream copies, the share that the ops lose by that at least. Beside
 * several streams they get on by the product of 1 ÷ slow, which is more than what each takes would
 * leave if it were added up: so shares are less, by what is right for all streams at once. While
 * the ops stand still, they lose more. */
static void find_losses(const least *l, double loss[DT_USUAL_STREAMS])
{
    const dt_costs *c = dti_pass_costs(l->env);
    double left = 1, sum = 0;
    for (int tier = DT_TIER_HOST; tier < DT_TIERS; tier++)
        for (int way = 0; way < DT_TIER_DIRECTIONS; way++) {
            const int k = stream_of(tier, way);
            loss[k] = l->tier[tier] ? 1 - 1 / fmax(1, c->slow[DT_USUAL_COMPUTE][k]) : 0;
            left *= 1 - loss[k];
            sum += loss[k];
        }
    for (int k = 0; k < DT_USUAL_STREAMS && sum > 0; k++)
        loss[k] *= (1 - left) / sum;
}

/* What a byte takes of the links and of the ops; all tiers beside each other, and by the one where
 * it takes least. */
static void open_links(least *l)
{
    double loss[DT_USUAL_STREAMS] = {0};
    l->tier[DT_TIER_DISK] = true; /* and there alone where moves go there */
    l->tier[DT_TIER_HOST] = dti_pass_lower_opts(l->env).tier != DT_TIER_DISK;
    find_losses(l, loss);
    l->price = HUGE_VAL;
    for (int tier = DT_TIER_HOST; tier < DT_TIERS; tier++) {
        const double out = link_of(l, tier, DT_TO_TIER).rate,
                     in = link_of(l, tier, DT_FROM_TIER).rate;
        if (!l->tier[tier] || !(out > 0 && in > 0))
            continue;
        l->rate += 1 / (1 / out + 1 / in);
        l->price = fmin(l->price,
            loss[stream_of(tier, DT_TO_TIER)] / out + loss[stream_of(tier, DT_FROM_TIER)] / in);
    }
}

/* Seconds of the batch's copy to the device: by the team or a thread, whichever is faster. */
static double fetch_seconds(const least *l, uint64_t bytes)
{
    const dt_row r = {.kind = DT_ROW_COPY_IN, .tier = DT_TIER_INPUT, .bytes = bytes};
    const dt_costs *c = dti_pass_costs(l->env);
    return fmin(dti_costs_copy(c, &r, 1, true), dti_costs_copy(c, &r, 1, false));
}

/* Whether an op reads one of these tensors. */
static bool reads(const dt_op *op, const bool *those)
{
    for (int k = 0; k < op->n_arg; k++)
        if (op->arg[k].mode != DT_WRITE && those[op->arg[k].tensor])
            return true;
    return false;
}

static void mark_written(const dt_op *op, bool *those)
{
    for (int k = 0; k < op->n_arg; k++)
        if (op->arg[k].mode != DT_READ)
            those[op->arg[k].tensor] = true;
}

/* What reads the input, or what was made of it, runs behind its copy, in whatever order: the ops
 * take no less than that and those. A weight in another layout does not wait. Labels are read so
 * late that their copy may be hidden. */
static dt_status wait_for_input(least *l, const dt_program *p, dt_err *err)
{
    bool *late = dt_alloc(p->n_tensor + 1, sizeof *late);
    double behind = 0;
    l->behind = dt_alloc(p->n_op + 1, sizeof *l->behind);
    if (late == NULL || l->behind == NULL) {
        dt_free(late);
        return no_memory(err);
    }
    for (size_t i = 0; i < p->n_order; i++) {
        const int32_t number = p->order[i];
        const dt_op *op = &p->op[number];
        if (op->kind == DT_OP_FETCH) {
            const int32_t t = op->arg[0].tensor;
            late[t] = op->arg[0].port != DT_LABELS;
            l->fetch += late[t] ? fetch_seconds(l, p->tensor[t].bytes) : 0;
            continue;
        }
        l->behind[number] = reads(op, late);
        if (!l->behind[number])
            continue;
        mark_written(op, late);
        behind += l->once[number] < HUGE_VAL ? l->once[number] : 0;
    }
    l->compute = fmax(l->compute, l->fetch + behind);
    dt_free(late);
    return DT_OK;
}

/* ---- moments ---- */

/* By op of the program the op of the graph that it is, or is a part of; n_op where it is none. */
static uint32_t *find_nodes(const least *l, const dt_program *p)
{
    const uint32_t n = l->r.graph.n_op;
    uint32_t *node = dt_alloc(p->n_op + 1, sizeof *node);
    for (size_t i = 0; node != NULL && i < p->n_op; i++)
        node[i] = n;
    for (uint32_t v = 0; node != NULL && v < n; v++)
        if (l->r.op[v] != DT_NONE)
            node[l->r.op[v]] = v;
    for (size_t i = 0; node != NULL && i < p->n_order; i++) {
        const dt_op *op = &p->op[p->order[i]];
        for (int k = 0; k < op->n_arg; k++) {
            const uint32_t v = l->r.op_of[op->arg[k].tensor];
            if (op->arg[k].mode == DT_WRITE && v < n && l->r.op[v] != DT_NONE)
                node[p->order[i]] = v;
        }
    }
    return node;
}

/* A moment is the beginning of an op that begins behind all parts of those before it, and before
 * all parts of those behind it. */
static void find_apart(least *l, const dt_program *p, const uint32_t *node, size_t *begin)
{
    const uint32_t n = l->r.graph.n_op;
    for (uint32_t v = 0; v <= n; v++)
        begin[v] = p->n_order;
    for (size_t i = p->n_order; i-- > 0;)
        begin[node[p->order[i]]] = i;
    uint32_t most = 0; /* the last op of which a part has run */
    for (size_t i = 0; i < p->n_order; i++) {
        const uint32_t v = node[p->order[i]];
        if (v < n && v < most)
            l->apart[v] = 1;
        most = v < n && v > most ? v : most;
    }
    uint32_t open_op = n; /* the first op of which a part has not run */
    for (size_t i = p->n_order; i-- > 0;) {
        const uint32_t v = node[p->order[i]];
        open_op = v < open_op ? v : open_op;
        if (v < n && begin[v] == i && open_op < v)
            l->apart[v] = 1;
    }
}

/* What is known of each op of the graph from those of the program. */
static dt_status find_parts(least *l, const dt_program *p, dt_err *err)
{
    const size_t n = (size_t)l->r.graph.n_op + 1;
    uint32_t *node = find_nodes(l, p);
    size_t *begin = dt_alloc(n, sizeof *begin);
    l->first = dt_alloc(n, sizeof *l->first);
    l->repeat = dt_alloc(n, sizeof *l->repeat);
    l->fetched = dt_alloc(n, sizeof *l->fetched);
    l->apart = dt_alloc(n, 1);
    dt_status st = DT_OK;
    if (node == NULL || begin == NULL || l->first == NULL || l->repeat == NULL ||
        l->fetched == NULL || l->apart == NULL)
        st = no_memory(err);
    for (size_t i = 0; st == DT_OK && i < p->n_order; i++) {
        const int32_t op = p->order[i];
        if (l->behind[op] && l->once[op] < HUGE_VAL)
            l->first[node[op]] += l->once[op];
        if (!l->behind[op]) /* copies of inputs and labels among them, which run beside ops */
            l->apart[node[op]] = 1;
        l->repeat[node[op]] += l->again[op];
        if (p->op[op].kind == DT_OP_FETCH && p->op[op].arg[0].port != DT_LABELS)
            l->fetched[node[op]] = fetch_seconds(l, p->tensor[p->op[op].arg[0].tensor].bytes);
    }
    if (st == DT_OK)
        find_apart(l, p, node, begin);
    dt_free(node);
    dt_free(begin);
    return st;
}

/* All tiers beside each other, each with a share of the bytes by its rate. */
static dti_copies copies(const least *l, int way)
{
    dti_copies sum = {.latency = HUGE_VAL};
    for (int tier = DT_TIER_HOST; tier < DT_TIERS; tier++) {
        const dt_link by = link_of(l, tier, way);
        if (!l->tier[tier] || !(by.rate > 0))
            continue;
        sum.latency = fmin(sum.latency, by.latency * by.rate);
        sum.rate += by.rate;
    }
    sum.latency = sum.rate > 0 ? sum.latency / sum.rate : 0;
    return sum;
}

/* Of each op the least of what it takes in any choice, in its place and when it runs again. */
static dt_status find_seconds(least *l, const dt_program *p, dt_program *bare, dt_err *err)
{
    l->once = dt_alloc(p->n_op + 1, sizeof *l->once);
    l->again = dt_alloc(p->n_op + 1, sizeof *l->again);
    if (l->once == NULL || l->again == NULL)
        return no_memory(err);
    for (size_t i = 0; i < p->n_op; i++)
        l->once[i] = l->again[i] = HUGE_VAL;
    DT_CHECK(all_again(l, p, err));
    DT_CHECK(take_less(l, bare, p->n_op, err));
    for (size_t i = 0; i < p->n_op; i++) {
        if (p->op[i].kind == DT_OP_UPDATE && dt_context_device(p->context) != DT_CPU)
            l->once[i] = 0; /* the host may make it beside the device */
        l->compute += l->once[i] < HUGE_VAL ? l->once[i] : 0;
        l->again[i] = l->again[i] < HUGE_VAL ? l->again[i] : 0;
    }
    return wait_for_input(l, p, err);
}

/* What is not read with some choice is not wanted, repetitions are at their least cost. */
static dt_status find_graph(least *l, dt_program *bare, dt_err *err)
{
    const dt_lower_opts o = dti_pass_lower_opts(l->env);
    dt_plan *plan = NULL;
    dt_status st = dt_lower(&plan, bare, &o, err);
    if (st == DT_OK)
        st = dti_remat_of_program(&l->r, bare, plan, l->again, NULL, err);
    dt_plan_destroy(plan);
    DT_CHECK(st);
    pack(l, bare);
    return find_own(l, bare, err);
}

/* The abstract problem. */
static dt_status open(least *l, const dt_program *p, dt_err *err)
{
    dt_program *bare = NULL;
    open_links(l);
    dt_status st = without_values(&bare, p, err);
    if (st == DT_OK)
        st = find_seconds(l, p, bare, err);
    if (st == DT_OK)
        st = find_graph(l, bare, err);
    dt_program_destroy(bare);
    if (st == DT_OK)
        st = find_parts(l, p, err);
    return st == DT_OK ? dti_remat_bounds_open(&l->bounds, &l->r.graph, l->own, l->apart, err) : st;
}

/* Seconds of what must run again with so many bytes, as good as it takes to tell whether they are
 * @enough. An op's cost counts a unit too much. */
static double extra(const least *l, double room, double enough)
{
    uint64_t all = 0, wanted = UINT64_MAX;
    const dt_remat_graph *g = &l->r.graph;
    for (uint32_t v = 0; v < g->n_op; v++)
        all += g->cost[v];
    const uint64_t budget = room < 0x1p62 ? (uint64_t)room : (uint64_t)1 << 62;
    if (enough < HUGE_VAL)
        wanted = all + g->n_op + 1 + (uint64_t)(enough / l->r.unit);
    const uint64_t cost = dti_remat_bounds_by(l->bounds, budget, wanted);
    return fmax(0, ((double)(cost - all) - g->n_op) * l->r.unit);
}

/* So many bytes away, and seconds of what must run again beside that with the most of them. */
typedef struct share {
    double from, to, again;
} share;

/* What is beyond the room runs again or moves, and what moves has its price. The more moves, the
 * less runs again: of shares between none and all the one that may take least is cut in two, until
 * it is small. */
static void by_price(const least *l, double room, double *low)
{
    enum { SHARES = 32 };
    share all[SHARES] = {{0}};
    const double near = 1e-3 * l->compute;
    for (uint32_t v = 0; v < l->r.graph.n_op; v++)
        all[0].to += (double)l->r.graph.bytes[v];
    if (!(l->price > 0) || !(l->price < HUGE_VAL))
        return;
    size_t best = 0;
    for (size_t n = 1; n < SHARES && l->price * (all[best].to - all[best].from) > near; n++) {
        all[n] = all[best];
        all[n].from = all[best].to = (all[best].from + all[best].to) / 2;
        all[best].again = extra(l, room + all[best].to, HUGE_VAL);
        for (size_t i = best = 0; i <= n; i++)
            if (all[i].again + l->price * all[i].from < all[best].again + l->price * all[best].from)
                best = i;
    }
    *low = fmax(*low, l->compute + all[best].again + l->price * all[best].from);
}

/* Several moments at once, and the ops and copies between them. */
static dt_status by_moments(const least *l, double room, double *low, dt_err *err)
{
    const dti_moments m = {.g = &l->r.graph,
        .budget = room < 0x1p62 ? (uint64_t)room : (uint64_t)1 << 62,
        .own = l->own,
        .once = l->r.graph.backward,
        .apart = l->apart,
        .in_order = true,
        .first = l->first,
        .again = l->repeat,
        .fetch = l->fetched,
        .before = l->fetch,
        .least = l->compute,
        .out = copies(l, DT_TO_TIER),
        .in = copies(l, DT_FROM_TIER)};
    double seconds = 0;
    if (l->r.graph.n_op <= DTI_REMAT_MOST_MOMENTS)
        DT_CHECK(dti_moments_bound(&m, &seconds, err));
    *low = fmax(*low, seconds);
    return DT_OK;
}

/* Bytes of values that backward reads and forward has made, when forward ends: whatever the order
 * of each, all of them are on the device then or away. Inputs are fetched anew. */
static double bytes_at_loss(const least *l, dt_program *p)
{
    double sum = 0;
    for (size_t t = 0; t < p->n_tensor; t++) {
        const dt_tensor *of = &p->tensor[t];
        dti_gap g;
        if (of->role != DT_ROLE_INPUT && dti_gap_crossing(p, (int32_t)t, &g))
            sum += packed_bytes(l, of);
    }
    return sum;
}

/* What is beyond the room has left before that moment and comes back behind it. */
static dt_status moved_once(
    const least *l, const dt_program *kept, double room, double *seconds, dt_err *err)
{
    dt_program *p = NULL;
    dt_status st = dt_program_copy(&p, kept, err);
    const double beyond = st == DT_OK && p->loss != DT_NONE ? bytes_at_loss(l, p) - room : 0;
    *seconds = l->compute;
    if (beyond > 0)
        *seconds = l->rate > 0 ? fmax(beyond / l->rate, l->compute + beyond * l->price) : HUGE_VAL;
    dt_program_destroy(p);
    return st;
}

static void deinit(least *l)
{
    dti_remat_bounds_close(l->bounds);
    dti_remat_program_deinit(&l->r);
    dt_free(l->once);
    dt_free(l->again);
    dt_free(l->own);
    dt_free(l->behind);
    dt_free(l->first);
    dt_free(l->repeat);
    dt_free(l->fetched);
    dt_free(l->apart);
}

/* Bytes beside the persistent tensors. */
static double room_of(const dt_program *kept, uint64_t budget)
{
    const uint64_t fixed = kept->map != NULL ? kept->map->bytes : 0;
    return budget > fixed ? (double)(budget - fixed) : 0;
}

dt_status dti_step_bounds_of(const dt_program *kept, const dt_pass_env *env, uint64_t budget,
    dti_step_bounds *out, dt_err *err)
{
    least l = {.env = env};
    const double room = room_of(kept, budget);
    *out = (dti_step_bounds){0};
    dt_status st = open(&l, kept, err);
    if (st == DT_OK) {
        out->still = l.compute + extra(&l, room, HUGE_VAL);
        st = moved_once(&l, kept, room, &out->once, err);
    }
    deinit(&l);
    return st;
}

/* A step of so many seconds moves so many bytes, and runs again what must with those away. */
static double by_bytes(const least *l, double room)
{
    double low = l->compute, high = low + extra(l, room + low * l->rate, HUGE_VAL);
    while (high - low > 1e-4 * low) {
        const double at = (low + high) / 2;
        const double again = extra(l, room + at * l->rate, at - l->compute);
        *(l->compute + again >= at ? &low : &high) = at;
    }
    return low;
}

dt_status dt_step_bound(
    const dt_program *kept, const dt_pass_env *env, uint64_t budget, double *seconds, dt_err *err)
{
    least l = {.env = env};
    const double room = room_of(kept, budget);
    dt_status st = open(&l, kept, err);
    *seconds = l.compute;
    if (st == DT_OK) {
        *seconds = by_bytes(&l, room);
        by_price(&l, room, seconds);
    }
    if (st == DT_OK && *seconds < HUGE_VAL)
        st = by_moments(&l, room, seconds, err);
    deinit(&l);
    return st;
}
