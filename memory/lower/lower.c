/* Lowering in its steps: live intervals and who takes whose bytes, addresses, slots of tiers,
 * tables and rows; waits come last (sync.c). */
#include "memory/lower/lower.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/cpu.h"
#include "engine/base/numbers_text.h"
#include "memory/codec.h"
#include "memory/lower/stays.h"
#include "memory/lower/sync.h"

enum { MANY_BLOCKS = 10000 };

/* One live interval of a transient tensor, or a stay of one whose home is a tier: the places of its
 * first and last op. Segments that share bytes by being in place belong to one block, which is what
 * a pool places. */
typedef struct live_segment {
    int32_t tensor, first, last;
    int32_t block;
    int32_t over;  /* segment whose bytes it takes, or -1 */
    int32_t under; /* segment that takes its bytes, or -1 */
    int32_t home;  /* place of the op behind which it is copied home, or -1 */
    bool fetch;    /* it is copied in from home */
} live_segment;

/* Room in a tier, from the copy out to the end of the copy back. */
typedef struct tier_slot {
    dt_interval at;
    dt_tier tier;
    bool free; /* to go to whichever tier has room */
} tier_slot;

typedef struct lowering {
    dt_program *p;
    const dt_lower_opts *o;
    uint64_t ahead[DT_TIERS];
    const dt_pool_desc *pool; /* of the two in @o, known with the plan's bound */
    size_t n_segment, n_block, n_slot;
    live_segment *segment; /* by tensor, then by place */
    int32_t *first;        /* by tensor: its first segment; n_tensor + 1 of them */
    dt_interval *block;    /* then one interval a group */
    tier_slot *slot;       /* by IN op, in order */
    int32_t *slot_of;      /* by op, OUT and IN: index into slot, or -1 */
    dt_plan *plan;
    dt_reasons reasons; /* of the plan's rows, in the order in which they first give them */
} lowering;

/* ---- segments: live intervals, and who takes whose bytes ---- */

/* The segment of a tensor that is alive at a place; -1 for those at home on the device. */
static int32_t segment_at(const lowering *l, int32_t tensor, int32_t pos)
{
    for (int32_t s = l->first[tensor]; s < l->first[tensor + 1]; s++)
        if (l->segment[s].first <= pos && pos <= l->segment[s].last)
            return s;
    return -1;
}

/* What brings bytes back begins a new interval. */
static bool begins(const dt_program *p, const dt_access *a, int32_t i)
{
    const dt_op_kind k = p->op[a->op].kind;
    return i == 0 || k == DT_OP_FETCH || k == DT_OP_IN ||
           (k == DT_OP_DECODE && a->mode == DT_WRITE);
}

static void tensor_segments(lowering *l, int32_t tensor)
{
    const dt_program *p = l->p;
    int32_t n;
    const dt_access *a = dt_accesses(p, tensor, &n);
    live_segment *s = NULL;
    for (int32_t i = 0; i < n; i++) {
        const int32_t pos = dt_pos(p, a[i].op);
        if (begins(p, &a[i], i)) {
            if (s != NULL && s->last >= pos)
                s->last = pos - 1; /* it was to be released later, but is brought back now */
            s = &l->segment[l->n_segment++];
            *s =
                (live_segment){.tensor = tensor, .first = pos, .over = -1, .under = -1, .home = -1};
        }
        const dt_op *op = &p->op[a[i].op];
        int32_t last = pos;
        if (op->kind == DT_OP_OUT && op->release_after != DT_NONE &&
            dt_pos(p, op->release_after) > last)
            last = dt_pos(p, op->release_after);
        if (last > s->last)
            s->last = last;
    }
}

/* Stays from *at on, those of one tensor. */
static void stay_segments(lowering *l, const dti_stays *all, size_t *at, int32_t tensor)
{
    for (; *at < all->n && all->stay[*at].tensor == tensor; ++*at) {
        const dti_stay *s = &all->stay[*at];
        l->segment[l->n_segment++] = (live_segment){.tensor = tensor,
            .first = s->from,
            .last = s->last,
            .over = -1,
            .under = -1,
            .home = s->home,
            .fetch = s->fetch};
    }
}

/* Whether segment out, written by the op, may lie over segment in, which the op reads last. */
static bool may_lie_over(const lowering *l, const dt_op *op, int32_t pos, int32_t o, int32_t i)
{
    if (o < 0 || i < 0 || o == i)
        return false;
    const live_segment *out = &l->segment[o], *in = &l->segment[i];
    const dt_tensor *to = &l->p->tensor[out->tensor], *ti = &l->p->tensor[in->tensor];
    const bool whole = op->count > 0 || op->n1 - op->n0 == l->p->n;
    return whole && out->first == pos && in->last == pos && in->first < pos && out->over < 0 &&
           in->under < 0 && to->bytes == ti->bytes && to->group == ti->group && !out->fetch &&
           in->home < 0;
}

static void in_place(lowering *l)
{
    for (int32_t pos = 0; pos < (int32_t)l->p->n_order; pos++) {
        const dt_op *op = &l->p->op[l->p->order[pos]];
        const dt_form *f = op->desc != NULL ? &op->desc->form[op->form] : NULL;
        for (int k = 0; f != NULL && k < f->n_over; k++) {
            const int32_t out = dt_op_tensor(op, f->over[k].out);
            const int32_t in = dt_op_tensor(op, f->over[k].in);
            if (out == DT_NONE || in == DT_NONE)
                continue;
            const int32_t o = segment_at(l, out, pos), i = segment_at(l, in, pos);
            if (may_lie_over(l, op, pos, o, i)) {
                l->segment[o].over = i;
                l->segment[i].under = o;
            }
        }
    }
}

/* Live intervals. */
static dt_status all_segments(lowering *l, const dti_stays *stays, dt_err *err)
{
    const dt_program *p = l->p;
    size_t most = stays->n, at = 0;
    for (size_t t = 0; t < p->n_tensor; t++) {
        int32_t n;
        dt_accesses(p, (int32_t)t, &n);
        most += p->tensor[t].home == DT_NONE ? (size_t)n : 0;
    }
    l->segment = dt_alloc(most, sizeof *l->segment);
    l->first = dt_alloc(p->n_tensor + 1, sizeof *l->first);
    if (l->segment == NULL || l->first == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for lowering");
    for (size_t t = 0; t < p->n_tensor; t++) {
        l->first[t] = (int32_t)l->n_segment;
        if (p->tensor[t].home == DT_NONE)
            tensor_segments(l, (int32_t)t);
        else
            stay_segments(l, stays, &at, (int32_t)t);
    }
    l->first[p->n_tensor] = (int32_t)l->n_segment;
    return DT_OK;
}

/* And who takes whose bytes. */
static dt_status segments(lowering *l, dt_err *err)
{
    dti_stays stays;
    dt_status st = dti_stays_find(&stays, l->p, l->ahead, err);
    if (st == DT_OK)
        st = all_segments(l, &stays, err);
    dti_stays_deinit(&stays);
    if (st == DT_OK)
        in_place(l);
    return st;
}

/* ---- addresses in the arena ---- */

/* What is to be placed in the arena: blocks first, then groups, which all segments of a group
 * share. */
static dt_status blocks(lowering *l, dt_err *err)
{
    const int32_t steps = (int32_t)l->p->n_order;
    l->block = dt_alloc(l->n_segment + (size_t)l->p->n_group, sizeof *l->block);
    if (l->block == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for lowering");
    for (size_t s = 0; s < l->n_segment; s++) {
        if (l->segment[s].over >= 0 || l->p->tensor[l->segment[s].tensor].group != DT_NONE)
            continue;
        int32_t end = (int32_t)s; /* follow the chain to its last taker */
        for (int32_t k = (int32_t)s; k >= 0; k = l->segment[k].under) {
            l->segment[k].block = (int32_t)l->n_block;
            end = k;
        }
        l->block[l->n_block++] = (dt_interval){.lower = l->segment[s].first,
            .upper = l->segment[end].last + 1,
            .bytes = l->p->tensor[l->segment[s].tensor].bytes,
            .align = DT_ALIGN};
    }
    for (int32_t k = 0; k < l->p->n_group; k++)
        l->block[l->n_block + (size_t)k] =
            (dt_interval){.lower = 0, .upper = steps > 0 ? steps : 1, .align = DT_ALIGN};
    for (size_t s = 0; s < l->n_segment; s++) {
        const dt_tensor *t = &l->p->tensor[l->segment[s].tensor];
        if (t->group == DT_NONE)
            continue;
        l->segment[s].block = (int32_t)l->n_block + t->group;
        dt_interval *b = &l->block[l->segment[s].block];
        b->bytes = t->bytes > b->bytes ? t->bytes : b->bytes;
    }
    l->n_block += (size_t)l->p->n_group;
    return DT_OK;
}

/* By what stands for the pool, if that comes to no more than is there anyway: some pools try for
 * seconds. Of few blocks the peak is worth telling. */
static dt_status place_quickly(lowering *l, uint64_t *peak, bool *done, dt_err *err)
{
    *done = false;
    if (l->n_block < MANY_BLOCKS || l->o->enough <= l->p->map->bytes || l->pool->quick == NULL)
        return DT_OK;
    DT_CHECK(l->pool->quick->place(l->block, l->n_block, peak, err));
    *done = *peak <= l->o->enough - l->p->map->bytes;
    return DT_OK;
}

/* Addresses there. */
static dt_status place_blocks(lowering *l, dt_err *err)
{
    const dt_lower_opts *o = l->o;
    uint64_t peak = 0;
    bool done;
    l->plan->bound = l->p->map->bytes + dt_pool_lower_bound(l->block, l->n_block);
    l->pool = o->pool_above != NULL && l->plan->bound > o->above ? o->pool_above : o->pool;
    DT_CHECK(place_quickly(l, &peak, &done, err));
    if (!done)
        DT_CHECK(dti_pool_memo_place(o->memo, l->pool, l->block, l->n_block, &peak, err));
    l->plan->persistent = l->p->map->bytes;
    l->plan->peak = l->p->map->bytes + peak;
    return DT_OK;
}

static uint64_t segment_off(const lowering *l, int32_t segment)
{
    return l->p->map->bytes + l->block[l->segment[segment].block].off;
}

/* ---- slots of tiers ---- */

static void collect(lowering *l)
{
    const dt_program *p = l->p;
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op *in = &p->op[p->order[i]];
        if (in->kind != DT_OP_IN)
            continue;
        l->slot_of[in->pair] = l->slot_of[p->order[i]] = (int32_t)l->n_slot;
        tier_slot *s = &l->slot[l->n_slot++];
        s->free = in->tier == DT_TIER_INPUT;
        s->tier = !s->free ? in->tier : l->o->tier == DT_TIER_DISK ? DT_TIER_DISK : DT_TIER_HOST;
        s->at = (dt_interval){
            .lower = dt_pos(p, in->pair), .upper = (int64_t)i + 1, .bytes = in->stored};
    }
}

/* Place the slots of one tier above what is at home there; or only say what they need at least,
 * when that is above @most. */
static dt_status place(lowering *l, dt_tier tier, uint64_t most, uint64_t *peak, dt_err *err)
{
    size_t n = 0;
    const uint64_t homes = l->p->map->tier_bytes[tier];
    dt_interval *at = dt_alloc(l->n_slot + 1, sizeof *at);
    if (at == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for lowering");
    for (size_t i = 0; i < l->n_slot; i++)
        if (l->slot[i].tier == tier) {
            at[n] = l->slot[i].at;
            at[n++].align = dt_tier_align(tier);
        }
    *peak = dt_pool_lower_bound(at, n);
    const bool all = n > 0 && *peak <= most && homes <= most - *peak;
    const dt_status st = all ? dti_pool_memo_place(l->o->memo, l->pool, at, n, peak, err) : DT_OK;
    *peak += homes;
    for (size_t i = l->n_slot; i-- > 0;)
        if (l->slot[i].tier == tier)
            l->slot[i].at = at[--n];
    dt_free(at);
    return st;
}

static int shortest_first(const void *va, const void *vb)
{
    const tier_slot *a = *(tier_slot *const *)va, *b = *(tier_slot *const *)vb;
    const int64_t x = a->at.upper - a->at.lower, y = b->at.upper - b->at.lower;
    return x != y ? (x > y) - (x < y) : (a->at.lower > b->at.lower) - (a->at.lower < b->at.lower);
}

/* These stay on the host if it holds them with those that stay already; otherwise one half of them
 * is looked at, then the other. So there are few placements where one slot after the other would
 * take one each, of a time that grows with the slots as well. */
static dt_status keep(lowering *l, tier_slot **order, size_t n, dt_err *err)
{
    uint64_t peak;
    for (size_t i = 0; i < n; i++)
        order[i]->tier = DT_TIER_HOST;
    DT_CHECK(place(l, DT_TIER_HOST, l->o->host_budget, &peak, err));
    if (peak <= l->o->host_budget)
        return DT_OK;
    for (size_t i = 0; i < n; i++)
        order[i]->tier = DT_TIER_DISK;
    if (n < 2)
        return DT_OK;
    DT_CHECK(keep(l, order, n / 2, err));
    return keep(l, order + n / 2, n - n / 2, err);
}

static dt_status spill(lowering *l, dt_err *err)
{
    size_t n = 0;
    tier_slot **order = dt_alloc(l->n_slot + 1, sizeof(tier_slot *));
    if (order == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for lowering");
    for (size_t i = 0; i < l->n_slot; i++)
        if (l->slot[i].free && l->slot[i].tier == DT_TIER_HOST) {
            order[n++] = &l->slot[i];
            l->slot[i].tier = DT_TIER_DISK;
        }
    qsort(order, n, sizeof(tier_slot *), shortest_first);
    const dt_status st = keep(l, order, n, err);
    dt_free(order);
    return st;
}

/* Which copies go to which tier, and addresses there. */
static dt_status tiers(lowering *l, dt_err *err)
{
    const size_t n = l->p->n_op;
    l->slot = dt_alloc(n, sizeof *l->slot);
    l->slot_of = dt_alloc(n, sizeof *l->slot_of);
    if (l->slot == NULL || l->slot_of == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for lowering");
    for (size_t i = 0; i < n; i++)
        l->slot_of[i] = -1;
    collect(l);
    DT_CHECK(place(l, DT_TIER_HOST, UINT64_MAX, &l->plan->tier_peak[DT_TIER_HOST], err));
    if (l->o->spill && l->plan->tier_peak[DT_TIER_HOST] > l->o->host_budget) {
        DT_CHECK(spill(l, err));
        DT_CHECK(place(l, DT_TIER_HOST, UINT64_MAX, &l->plan->tier_peak[DT_TIER_HOST], err));
    }
    return place(l, DT_TIER_DISK, UINT64_MAX, &l->plan->tier_peak[DT_TIER_DISK], err);
}

/* ---- tables and rows, in the program's order ---- */

static void tensor_table(lowering *l)
{
    const dt_program *p = l->p;
    for (size_t t = 0; t < p->n_tensor; t++) {
        dt_plan_tensor *to = &l->plan->tensor[t];
        memcpy(to->name, p->tensor[t].name, sizeof to->name);
        to->role = (uint16_t)p->tensor[t].role;
        to->bytes = p->tensor[t].bytes;
        to->persistent = p->tensor[t].home != DT_NONE;
        if (!to->persistent)
            continue;
        const dt_home *home = &p->map->home[p->tensor[t].home];
        to->tier = (uint8_t)home->tier;
        to->home = home->off + p->tensor[t].from;
        to->next = home->next + p->tensor[t].from;
    }
    l->plan->n_tensor = p->n_tensor;
}

/* Bytes of the tensor that the op touches: its samples' part of a batched port, and of what it
 * updates the elements that it is for. */
static dt_plan_arg plan_arg(const dt_program *p, const dt_op *op, const dt_operand *a)
{
    const dt_tensor *t = &p->tensor[a->tensor];
    dt_plan_arg g = {a->tensor, a->mode, a->port, 0, t->bytes};
    if (t->sample_bytes > 0 && op->count == 0 && op->n1 - op->n0 != p->n) {
        g.from = (uint64_t)op->n0 * t->sample_bytes;
        g.to = (uint64_t)op->n1 * t->sample_bytes;
    }
    const dt_store store = t->home != DT_NONE ? p->map->home[t->home].store : DT_STORE_F32;
    const uint64_t bytes = dt_stored_bytes(store, op->count);
    if (op->kind == DT_OP_UPDATE && t->bytes > bytes) {
        g.from = dt_stored_bytes(store, op->first);
        g.to = g.from + bytes;
    }
    return g;
}

/* The algorithm that this op takes, where it has a choice that was limited. */
static dt_status plan_algorithm(const dt_program *p, const dt_op *op, dt_plan_op *to, dt_err *err)
{
    dt_algorithms all;
    dt_facts f;
    if (dt_op_call(p, op).workspace_limit == DT_LIMIT_ANY)
        return DT_OK;
    DT_CHECK(dt_op_algorithms(p, op, &all, err));
    if (all.n < 2)
        return DT_OK;
    DT_CHECK(dt_op_facts(p, op, &f, err));
    memcpy(to->algorithm, f.impl, sizeof to->algorithm);
    to->work = f.work_bytes;
    return DT_OK;
}

/* Which kernel, and all that it is told. */
static void name_kernel(const dt_program *p, const dt_op *op, const int32_t *node, dt_plan_op *to)
{
    snprintf(to->layer, sizeof to->layer, "%s", op->desc->name);
    to->node = op->node == DT_NONE ? DT_NONE : node[op->node];
    to->form = (uint8_t)op->form;
    to->alt = op->node == DT_NONE ? 0 : p->alt[op->node];
    to->dtype = (uint8_t)op->dtype;
    to->needs_dx = op->node != DT_NONE && p->needs_dx[op->node];
    to->vector = op->vector;
    to->on_host = op->on_host;
    to->codec = dti_codec_number(op->codec);
    to->packed = op->stored;
    to->n0 = op->n0;
    to->n1 = op->n1;
    to->count = op->count;
    to->limit = dt_op_call(p, op).workspace_limit;
}

/* Bytes of the options of all layers, each ended by NUL. */
static size_t options_bytes(const dt_graph *g)
{
    size_t n = 0;
    for (size_t i = 0; i < g->n_node; i++)
        n += strlen(g->node[i].opts_text) + 1;
    return n;
}

/* The layers whose ops the program has, in the order of the graph. */
static void add_nodes(lowering *l, int32_t *node)
{
    const dt_program *p = l->p;
    dt_plan *plan = l->plan;
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op *op = &p->op[p->order[i]];
        if (op->desc != NULL && op->node != DT_NONE)
            node[op->node] = 1;
    }
    for (size_t i = 0; i < p->graph->n_node; i++) {
        if (node[i] == 0)
            continue;
        const dt_node *from = &p->graph->node[i];
        const size_t bytes = strlen(from->opts_text) + 1;
        dt_plan_node *to = &plan->node[plan->n_node];
        memcpy(to->name, from->name, sizeof to->name);
        to->opts = plan->n_text;
        to->work = from->info.work;
        memcpy(plan->text + plan->n_text, from->opts_text, bytes);
        plan->n_text += bytes;
        node[i] = (int32_t)plan->n_node++;
    }
}

/* In @node, by node of the graph: its row. */
static dt_status node_table(lowering *l, int32_t **node, dt_err *err)
{
    const dt_graph *g = l->p->graph;
    *node = dt_alloc(g->n_node + 1, sizeof **node);
    l->plan->node = dt_alloc(g->n_node + 1, sizeof *l->plan->node);
    l->plan->text = dt_alloc(options_bytes(g) + 1, 1);
    if (*node == NULL || l->plan->node == NULL || l->plan->text == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a plan");
    add_nodes(l, *node);
    return DT_OK;
}

static dt_status op_table(lowering *l, const int32_t *node, dt_err *err)
{
    const dt_program *p = l->p;
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op *op = &p->op[p->order[i]];
        if (op->desc == NULL)
            continue;
        dt_plan_op *to = &l->plan->op[l->plan->n_op++];
        memcpy(to->name, op->name, sizeof to->name);
        to->kind = (uint16_t)op->kind;
        to->flops = op->flops;
        name_kernel(p, op, node, to);
        to->first = (int32_t)l->plan->n_arg;
        for (int a = 0; a < op->n_arg; a++)
            l->plan->arg[l->plan->n_arg++] = plan_arg(p, op, &op->arg[a]);
        to->n = (int32_t)l->plan->n_arg - to->first;
        const dt_form *f = &op->desc->form[op->form];
        for (int k = 0; k < f->n_over; k++) {
            const int32_t out = dt_op_tensor(op, f->over[k].out);
            const int32_t in = dt_op_tensor(op, f->over[k].in);
            if (out == DT_NONE || in == DT_NONE || out == in)
                continue;
            to->safe[to->n_safe].out = out;
            to->safe[to->n_safe++].in = in;
        }
        DT_TRY(err, plan_algorithm(p, op, to, err), "%s", op->name);
    }
    return DT_OK;
}

/* Why the algorithm that the op takes: how far its limit goes. */
static void algorithm_reason(const dt_plan_op *op, char to[DT_REASON_BYTES])
{
    if (op->limit <= DT_LIMIT_LEAST)
        snprintf(to, DT_REASON_BYTES, "algorithm %.40s: the least scratch", op->algorithm);
    else
        dt_snprintf(to, DT_REASON_BYTES, "algorithm %.40s: fastest within %.1f MiB", op->algorithm,
            (double)op->limit / (1 << 20));
}

/* What the row of an op gives as its reason: that of the policy, that of its algorithm, or both. */
static dt_status op_reason(
    lowering *l, const dt_op *op, const dt_plan_op *with, int32_t *reason, dt_err *err)
{
    int32_t number = 0;
    char algorithm[DT_REASON_BYTES] = "";
    const char *policy = dt_reason_text(&l->p->reasons, op->reason);
    if (with != NULL && with->algorithm[0] != '\0')
        algorithm_reason(with, algorithm);
    if (policy[0] != '\0' || algorithm[0] != '\0')
        DT_CHECK(dt_reasons_add(&l->reasons, &number, err, "%s%s%s", policy,
            policy[0] != '\0' && algorithm[0] != '\0' ? "; " : "", algorithm));
    *reason = number - 1;
    return DT_OK;
}

static dt_row *add_row(lowering *l, dt_row_kind kind, int32_t segment)
{
    dt_row *r = &l->plan->row[l->plan->n_row++];
    *r = (dt_row){
        .kind = (uint16_t)kind, .op = -1, .tensor = -1, .over = -1, .event = -1, .reason = -1};
    if (segment >= 0) {
        r->tensor = l->segment[segment].tensor;
        r->bytes = l->p->tensor[r->tensor].bytes;
        r->off = segment_off(l, segment);
    }
    return r;
}

static dt_status place_row(lowering *l, int32_t segment, dt_err *err)
{
    const live_segment *g = &l->segment[segment];
    dt_row *r = add_row(l, DT_ROW_PLACE, segment);
    int32_t number = 0;
    if (g->over >= 0) {
        r->over = l->segment[g->over].tensor;
        DT_CHECK(dt_reasons_add(&l->reasons, &number, err, "in place: the last reader of %.60s",
            l->p->tensor[r->over].name));
    }
    r->reason = number - 1;
    return DT_OK;
}

static dt_row *copy_row(lowering *l, const dt_op *op, int32_t id, int32_t pos)
{
    const int32_t s = segment_at(l, op->arg[0].tensor, pos);
    const bool out = op->kind == DT_OP_OUT;
    dt_row *r = add_row(l, out ? DT_ROW_COPY_OUT : DT_ROW_COPY_IN, s);
    if (op->kind == DT_OP_FETCH) {
        r->stream = (uint8_t)dt_plan_stream(l->plan, DT_STREAM_IN, DT_TIER_HOST);
        r->tier = DT_TIER_INPUT;
        r->slot = op->arg[0].port == DT_LABELS ? 1 : 0;
        l->plan->in_bytes += r->bytes;
        return r;
    }
    const tier_slot *slot = &l->slot[l->slot_of[id]];
    r->stream =
        (uint8_t)dt_plan_stream(l->plan, out ? DT_STREAM_OUT : DT_STREAM_IN, (int)slot->tier);
    r->tier = (uint8_t)slot->tier;
    r->slot = l->p->map->tier_bytes[slot->tier] + slot->at.off;
    r->stored = slot->at.bytes;
    r->codec = dti_codec_number(op->codec);
    *(out ? &l->plan->out_bytes : &l->plan->in_bytes) += r->stored;
    return r;
}

/* Whether an earlier stay of the segment's tensor has sent it home. */
static bool sent_before(const lowering *l, int32_t segment)
{
    for (int32_t s = l->first[l->segment[segment].tensor]; s < segment; s++)
        if (l->segment[s].home >= 0)
            return true;
    return false;
}

/* A copy of a stay's tensor from home or home. */
static dt_status home_row(lowering *l, int32_t segment, bool out, dt_err *err)
{
    const dt_tensor *t = &l->p->tensor[l->segment[segment].tensor];
    const dt_home *home = &l->p->map->home[t->home];
    dt_row *r = add_row(l, out ? DT_ROW_COPY_OUT : DT_ROW_COPY_IN, segment);
    int32_t number = 0;
    r->stream =
        (uint8_t)dt_plan_stream(l->plan, out ? DT_STREAM_OUT : DT_STREAM_IN, (int)home->tier);
    r->tier = (uint8_t)home->tier;
    r->slot = (out || sent_before(l, segment) ? home->next : home->off) + t->from;
    r->stored = r->bytes;
    *(out ? &l->plan->out_bytes : &l->plan->in_bytes) += r->bytes;
    DT_CHECK(dt_reasons_add(
        &l->reasons, &number, err, "its home is the %s", dt_tier_name((int)home->tier)));
    r->reason = number - 1;
    return DT_OK;
}

/* Segments in the order of a place of theirs: by place, at[place] .. at[place + 1]. */
typedef struct by_place {
    int32_t *at, *segment;
} by_place;

typedef enum which_place { FIRST, LAST, HOME } which_place;

/* -1: it has no such place. */
static int32_t place_of(const live_segment *s, which_place which)
{
    return which == FIRST ? s->first : which == LAST ? s->last : s->home;
}

static bool sort_by_place(const lowering *l, which_place which, by_place *b)
{
    const size_t n = l->p->n_order;
    b->at = dt_alloc(n + 2, sizeof *b->at);
    b->segment = dt_alloc(l->n_segment, sizeof *b->segment);
    if (b->at == NULL || b->segment == NULL)
        return false;
    for (size_t s = 0; s < l->n_segment; s++)
        if (place_of(&l->segment[s], which) >= 0)
            b->at[place_of(&l->segment[s], which) + 2]++;
    for (size_t i = 2; i < n + 2; i++)
        b->at[i] += b->at[i - 1];
    for (size_t s = 0; s < l->n_segment; s++)
        if (place_of(&l->segment[s], which) >= 0)
            b->segment[b->at[place_of(&l->segment[s], which) + 1]++] = (int32_t)s;
    return true;
}

/* What comes before the op at a place. */
static dt_status rows_before(lowering *l, const by_place *begin, int32_t pos, dt_err *err)
{
    for (int32_t k = begin->at[pos]; k < begin->at[pos + 1]; k++) {
        DT_CHECK(place_row(l, begin->segment[k], err));
        if (l->segment[begin->segment[k]].fetch)
            DT_CHECK(home_row(l, begin->segment[k], false, err));
    }
    return DT_OK;
}

/* What comes behind it. */
static dt_status rows_behind(
    lowering *l, const by_place *home, const by_place *end, int32_t pos, dt_err *err)
{
    for (int32_t k = home->at[pos]; k < home->at[pos + 1]; k++)
        DT_CHECK(home_row(l, home->segment[k], true, err));
    for (int32_t k = end->at[pos]; k < end->at[pos + 1]; k++)
        if (l->segment[end->segment[k]].under < 0)
            add_row(l, DT_ROW_RELEASE, end->segment[k]);
    return DT_OK;
}

/* What the program asks a stream to wait for besides what its rows need: such a row has no event
 * yet. */
static void wait_row(lowering *l, uint8_t stream, int32_t tensor)
{
    dt_row *r = add_row(l, DT_ROW_WAIT, -1);
    r->stream = stream;
    r->tensor = tensor;
}

/* Copies back that are awaited before an op. @coming: those under way that some op waits for, @n of
 * them. */
static void await_rows(lowering *l, int32_t before, int32_t *coming, size_t *n)
{
    const dt_program *p = l->p;
    size_t left = 0;
    for (size_t i = 0; i < *n; i++) {
        const dt_op *in = &p->op[coming[i]];
        if (in->join_before == before)
            wait_row(l, DT_MAIN_STREAM, in->arg[0].tensor);
        else
            coming[left++] = coming[i];
    }
    *n = left;
}

/* The row of a copy; one that is joined to the ops begins behind those before it. */
static dt_row *copy_rows(lowering *l, int32_t pos, int32_t *coming, size_t *n)
{
    const int32_t id = l->p->order[pos];
    const dt_op *op = &l->p->op[id];
    if (op->join_before > 0) {
        const int tier = op->kind == DT_OP_FETCH ? DT_TIER_HOST : (int)l->slot[l->slot_of[id]].tier;
        wait_row(l, (uint8_t)dt_plan_stream(l->plan, DT_STREAM_IN, tier), -1);
        coming[(*n)++] = id;
    }
    return copy_row(l, op, id, pos);
}

/* The host's processor makes what is on the host beside a device whose memory it does not reach. */
static bool beside_device(const dt_program *p, const dt_op *op)
{
    return op->on_host && p->map->device != DT_CPU;
}

static bool host_computes(const dt_program *p)
{
    for (size_t i = 0; i < p->n_order; i++)
        if (beside_device(p, &p->op[p->order[i]]))
            return true;
    return false;
}

static uint8_t compute_stream(const lowering *l, const dt_op *op)
{
    return beside_device(l->p, op)
               ? (uint8_t)dt_plan_stream(l->plan, DT_STREAM_COMPUTE, DT_TIER_HOST)
               : DT_MAIN_STREAM;
}

/* @by: by first, last and home place; @coming: room for as many as there are ops */
static dt_status rows(lowering *l, const by_place by[], int32_t *coming, dt_err *err)
{
    const dt_program *p = l->p;
    int32_t compute = 0;
    size_t n_coming = 0;
    for (int32_t pos = 0; pos < (int32_t)p->n_order; pos++) {
        const dt_op *op = &p->op[p->order[pos]];
        await_rows(l, p->order[pos], coming, &n_coming);
        DT_CHECK(rows_before(l, &by[FIRST], pos, err));
        const dt_plan_op *with = op->desc != NULL ? &l->plan->op[compute] : NULL;
        dt_row *r =
            with != NULL ? add_row(l, DT_ROW_COMPUTE, -1) : copy_rows(l, pos, coming, &n_coming);
        if (with != NULL) {
            r->op = compute++;
            r->stream = compute_stream(l, op);
        }
        DT_CHECK(op_reason(l, op, with, &r->reason, err));
        DT_CHECK(rows_behind(l, &by[HOME], &by[LAST], pos, err));
    }
    return DT_OK;
}

static dt_status add_rows(lowering *l, dt_err *err)
{
    enum { PLACES = HOME + 1 };
    by_place by[PLACES] = {{0}};
    bool ok = true;
    for (int i = 0; i < PLACES; i++)
        ok = sort_by_place(l, (which_place)i, &by[i]) && ok;
    int32_t *coming = dt_alloc(l->p->n_order, sizeof *coming);
    dt_status st = ok && coming != NULL ? rows(l, by, coming, err)
                                        : DT_FAIL(err, DT_E_NOMEM, "no memory for a plan");
    dt_free(coming);
    l->plan->reason = l->reasons.text;
    l->plan->n_reason = l->reasons.n;
    l->reasons.text = NULL;
    for (int i = 0; i < PLACES; i++) {
        dt_free(by[i].at);
        dt_free(by[i].segment);
    }
    return st;
}

/* What the plan is of and made by. */
static void describe(const lowering *l)
{
    const dt_program *p = l->p;
    dt_plan *plan = l->plan;
    snprintf(plan->net, sizeof plan->net, "%s", p->graph->name);
    snprintf(plan->policy, sizeof plan->policy, "%s", l->o->policy);
    snprintf(plan->pool, sizeof plan->pool, "%s", l->pool->name);
    snprintf(
        plan->device, sizeof plan->device, "%s", dt_device_name(dt_context_device(p->context)));
    snprintf(plan->program, sizeof plan->program, "%s", dt_program_kind_name(p->kind));
    plan->batch = p->n;
    plan->home_n = p->map->home_n;
    plan->threads = dt_context_device(p->context) == DT_CPU ? dt_cpu_threads() : 0;
    plan->n_stream = dt_usual_streams(plan->stream, host_computes(p));
}

/* Room for all tables and for rows; dti_sync makes its own for WAITs. */
static bool make_tables(const lowering *l)
{
    const dt_program *p = l->p;
    dt_plan *plan = l->plan;
    size_t args = 0;
    for (size_t i = 0; i < p->n_order; i++)
        args += (size_t)p->op[p->order[i]].n_arg;
    plan->tensor = dt_alloc(p->n_tensor, sizeof *plan->tensor);
    plan->op = dt_alloc(p->n_order, sizeof *plan->op);
    plan->arg = dt_alloc(args, sizeof *plan->arg);
    plan->row = dt_alloc(
        3 * p->n_order + 4 * l->n_segment, sizeof *plan->row); /* with two waits for a copy */
    return plan->tensor != NULL && plan->op != NULL && plan->arg != NULL && plan->row != NULL;
}

/* Tables and rows; of WAITs only those that the program asks for. */
static dt_status lower_rows(lowering *l, dt_err *err)
{
    describe(l);
    if (!make_tables(l))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a plan");
    tensor_table(l);
    int32_t *node = NULL;
    dt_status st = node_table(l, &node, err);
    if (st == DT_OK)
        st = op_table(l, node, err);
    dt_free(node);
    return st == DT_OK ? add_rows(l, err) : st;
}

/* ---- a plan ---- */

/* Everything but addresses. */
static dt_status lay_out(lowering *l, dt_err *err)
{
    DT_CHECK(dt_program_index(l->p, err));
    DT_CHECK(segments(l, err));
    return blocks(l, err);
}

static void drop_layout(lowering *l)
{
    dt_free(l->segment);
    dt_free(l->first);
    dt_free(l->block);
    l->segment = NULL;
    l->first = NULL;
    l->block = NULL;
    l->n_segment = l->n_block = 0;
}

/* Half as many bytes ahead; false where none came. */
static bool come_later(lowering *l)
{
    enum { FEW = 64 << 10 };
    bool any = false;
    for (int t = 0; t < DT_TIERS; t++)
        if (l->p->map->tier_bytes[t] > 0 && l->ahead[t] > 0) {
            const uint64_t all = l->p->map->tier_bytes[t]; /* more is as much */
            l->ahead[t] = (l->ahead[t] < all ? l->ahead[t] : all) / 2;
            l->ahead[t] = l->ahead[t] < FEW ? 0 : l->ahead[t];
            any = true;
        }
    return any;
}

/* Everything but addresses, with as many bytes ahead as may leave the plan within what it keeps to.
 */
static dt_status lay_out_within(lowering *l, dt_err *err)
{
    memcpy(l->ahead, l->o->ahead, sizeof l->ahead);
    DT_CHECK(lay_out(l, err));
    const uint64_t room = l->o->keep_to > l->p->map->bytes ? l->o->keep_to - l->p->map->bytes : 0;
    while (l->o->keep_to > 0 && dt_pool_lower_bound(l->block, l->n_block) > room && come_later(l)) {
        drop_layout(l);
        DT_CHECK(lay_out(l, err));
    }
    return DT_OK;
}

/* A pool may leave holes, and be above the bound by as much. */
static dt_status place_within(lowering *l, dt_err *err)
{
    DT_CHECK(lay_out_within(l, err));
    DT_CHECK(place_blocks(l, err));
    while (l->o->keep_to > 0 && l->plan->peak > l->o->keep_to && come_later(l)) {
        drop_layout(l);
        DT_CHECK(lay_out(l, err));
        DT_CHECK(place_blocks(l, err));
    }
    return DT_OK;
}

static dt_status lower(lowering *l, dt_err *err)
{
    DT_CHECK(place_within(l, err));
    DT_CHECK(tiers(l, err));
    DT_CHECK(lower_rows(l, err));
    return dti_sync(l->plan, err);
}

static void deinit(lowering *l)
{
    drop_layout(l);
    dt_free(l->slot);
    dt_free(l->slot_of);
    dt_reasons_deinit(&l->reasons);
}

dt_status dt_lower(dt_plan **out, dt_program *p, const dt_lower_opts *o, dt_err *err)
{
    *out = NULL;
    lowering l = {.p = p, .o = o, .plan = dt_alloc(1, sizeof(dt_plan))};
    dt_status st =
        l.plan != NULL ? lower(&l, err) : DT_FAIL(err, DT_E_NOMEM, "no memory for a plan");
    if (st == DT_OK) {
        *out = l.plan;
        l.plan = NULL;
    }
    dt_plan_destroy(l.plan);
    deinit(&l);
    return st;
}

dt_status dti_lower_peak_by(uint64_t *peak, dt_program *p, const dt_lower_opts *o, dt_err *err)
{
    dt_plan plan = {.peak = 0};
    lowering l = {.p = p, .o = o, .plan = &plan};
    const dt_status st = place_within(&l, err);
    *peak = plan.peak;
    deinit(&l);
    return st;
}

dt_status dt_lower_peak(
    uint64_t *peak, dt_program *p, const dt_pool_desc *pool, dt_memo *memo, dt_err *err)
{
    const dt_lower_opts o = {.pool = pool, .memo = memo};
    return dti_lower_peak_by(peak, p, &o, err);
}

dt_status dti_lower_bound(uint64_t *bound, dt_program *p, dt_err *err)
{
    const dt_lower_opts o = {0};
    lowering l = {.p = p, .o = &o};
    const dt_status st = lay_out(&l, err);
    if (st == DT_OK)
        *bound = p->map->bytes + dt_pool_lower_bound(l.block, l.n_block);
    deinit(&l);
    return st;
}
