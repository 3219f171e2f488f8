/* Lowering in its steps: live intervals and who takes whose bytes, addresses, slots of tiers,
 * tables and rows (rows.c); waits come last (sync.c). */
#include "memory/lower/lower_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/lower/stays.h"
#include "memory/lower/sync.h"

enum { MANY_BLOCKS = 10000 };

/* ---- segments: live intervals, and who takes whose bytes ---- */

/* The segment of a tensor that is alive at a place; -1 for those at home on the device. */
int32_t dti_segment_at(const dti_lowering *l, int32_t tensor, int32_t pos)
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

static void tensor_segments(dti_lowering *l, int32_t tensor)
{
    const dt_program *p = l->p;
    int32_t n;
    const dt_access *a = dt_accesses(p, tensor, &n);
    dti_live_segment *s = NULL;
    for (int32_t i = 0; i < n; i++) {
        const int32_t pos = dt_pos(p, a[i].op);
        if (begins(p, &a[i], i)) {
            if (s != NULL && s->last >= pos)
                s->last = pos - 1; /* it was to be released later, but is brought back now */
            s = &l->segment[l->n_segment++];
            *s = (dti_live_segment){
                .tensor = tensor, .first = pos, .over = -1, .under = -1, .home = -1};
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
static void stay_segments(dti_lowering *l, const dti_stays *all, size_t *at, int32_t tensor)
{
    for (; *at < all->n && all->stay[*at].tensor == tensor; ++*at) {
        const dti_stay *s = &all->stay[*at];
        l->segment[l->n_segment++] = (dti_live_segment){.tensor = tensor,
            .first = s->from,
            .last = s->last,
            .over = -1,
            .under = -1,
            .home = s->home,
            .fetch = s->fetch};
    }
}

/* Whether segment out, written by the op, may lie over segment in, which the op reads last. */
static bool may_lie_over(const dti_lowering *l, const dt_op *op, int32_t pos, int32_t o, int32_t i)
{
    if (o < 0 || i < 0 || o == i)
        return false;
    const dti_live_segment *out = &l->segment[o], *in = &l->segment[i];
    const dt_tensor *to = &l->p->tensor[out->tensor], *ti = &l->p->tensor[in->tensor];
    const bool whole = op->count > 0 || op->n1 - op->n0 == l->p->n;
    return whole && out->first == pos && in->last == pos && in->first < pos && out->over < 0 &&
           in->under < 0 && to->bytes == ti->bytes && to->group == ti->group && !out->fetch &&
           in->home < 0;
}

static void in_place(dti_lowering *l)
{
    for (int32_t pos = 0; pos < (int32_t)l->p->n_order; pos++) {
        const dt_op *op = &l->p->op[l->p->order[pos]];
        const dt_form *f = op->desc != NULL ? &op->desc->form[op->form] : NULL;
        for (int k = 0; f != NULL && k < f->n_over; k++) {
            const int32_t out = dt_op_tensor(op, f->over[k].out);
            const int32_t in = dt_op_tensor(op, f->over[k].in);
            if (out == DT_NONE || in == DT_NONE)
                continue;
            const int32_t o = dti_segment_at(l, out, pos), i = dti_segment_at(l, in, pos);
            if (may_lie_over(l, op, pos, o, i)) {
                l->segment[o].over = i;
                l->segment[i].under = o;
            }
        }
    }
}

/* Live intervals. */
static dt_status all_segments(dti_lowering *l, const dti_stays *stays, dt_err *err)
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
static dt_status segments(dti_lowering *l, dt_err *err)
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
static dt_status blocks(dti_lowering *l, dt_err *err)
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
static dt_status place_quickly(dti_lowering *l, uint64_t *peak, bool *done, dt_err *err)
{
    *done = false;
    if (l->n_block < MANY_BLOCKS || l->o->enough <= l->p->map->bytes || l->pool->quick == NULL)
        return DT_OK;
    DT_CHECK(l->pool->quick->place(l->block, l->n_block, peak, err));
    *done = *peak <= l->o->enough - l->p->map->bytes;
    return DT_OK;
}

/* Addresses there. */
static dt_status place_blocks(dti_lowering *l, dt_err *err)
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

uint64_t dti_segment_off(const dti_lowering *l, int32_t segment)
{
    return l->p->map->bytes + l->block[l->segment[segment].block].off;
}

/* ---- slots of tiers ---- */

static void collect(dti_lowering *l)
{
    const dt_program *p = l->p;
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op *in = &p->op[p->order[i]];
        if (in->kind != DT_OP_IN)
            continue;
        l->slot_of[in->pair] = l->slot_of[p->order[i]] = (int32_t)l->n_slot;
        dti_tier_slot *s = &l->slot[l->n_slot++];
        s->free = in->tier == DT_TIER_INPUT;
        s->tier = !s->free ? in->tier : l->o->tier == DT_TIER_DISK ? DT_TIER_DISK : DT_TIER_HOST;
        s->at = (dt_interval){
            .lower = dt_pos(p, in->pair), .upper = (int64_t)i + 1, .bytes = in->stored};
    }
}

/* Place the slots of one tier above what is at home there; or only say what they need at least,
 * when that is above @most. */
static dt_status place(dti_lowering *l, dt_tier tier, uint64_t most, uint64_t *peak, dt_err *err)
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
    const dti_tier_slot *a = *(dti_tier_slot *const *)va, *b = *(dti_tier_slot *const *)vb;
    const int64_t x = a->at.upper - a->at.lower, y = b->at.upper - b->at.lower;
    return x != y ? (x > y) - (x < y) : (a->at.lower > b->at.lower) - (a->at.lower < b->at.lower);
}

/* These stay on the host if it holds them with those that stay already; otherwise one half of them
 * is looked at, then the other. So there are few placements where one slot after the other would
 * take one each, of a time that grows with the slots as well. */
static dt_status keep(dti_lowering *l, dti_tier_slot **order, size_t n, dt_err *err)
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

static dt_status spill(dti_lowering *l, dt_err *err)
{
    size_t n = 0;
    dti_tier_slot **order = dt_alloc(l->n_slot + 1, sizeof(dti_tier_slot *));
    if (order == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for lowering");
    for (size_t i = 0; i < l->n_slot; i++)
        if (l->slot[i].free && l->slot[i].tier == DT_TIER_HOST) {
            order[n++] = &l->slot[i];
            l->slot[i].tier = DT_TIER_DISK;
        }
    qsort(order, n, sizeof(dti_tier_slot *), shortest_first);
    const dt_status st = keep(l, order, n, err);
    dt_free(order);
    return st;
}

/* Which copies go to which tier, and addresses there. */
static dt_status tiers(dti_lowering *l, dt_err *err)
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

/* ---- a plan ---- */

/* Everything but addresses. */
static dt_status lay_out(dti_lowering *l, dt_err *err)
{
    DT_CHECK(dt_program_index(l->p, err));
    DT_CHECK(segments(l, err));
    return blocks(l, err);
}

static void drop_layout(dti_lowering *l)
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
static bool come_later(dti_lowering *l)
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
static dt_status lay_out_within(dti_lowering *l, dt_err *err)
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
static dt_status place_within(dti_lowering *l, dt_err *err)
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

static dt_status lower(dti_lowering *l, dt_err *err)
{
    DT_CHECK(place_within(l, err));
    DT_CHECK(tiers(l, err));
    DT_CHECK(dti_lower_rows(l, err));
    return dti_sync(l->plan, err);
}

static void deinit(dti_lowering *l)
{
    drop_layout(l);
    dt_free(l->slot);
    dt_free(l->slot_of);
    dt_reasons_deinit(&l->reasons);
}

dt_status dt_lower(dt_plan **out, dt_program *p, const dt_lower_opts *o, dt_err *err)
{
    *out = NULL;
    dti_lowering l = {.p = p, .o = o, .plan = dt_alloc(1, sizeof(dt_plan))};
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
    dti_lowering l = {.p = p, .o = o, .plan = &plan};
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
    dti_lowering l = {.p = p, .o = &o};
    const dt_status st = lay_out(&l, err);
    if (st == DT_OK)
        *bound = p->map->bytes + dt_pool_lower_bound(l.block, l.n_block);
    deinit(&l);
    return st;
}
