/* Slots of tiers. A move that names no tier goes to the host; when the host's budget does not hold
 * them all and there is a disk, those stay on the host that are away for the shortest time, since
 * the others have more of it to come back from the disk. */
#include <stdlib.h>

#include "engine/base/alloc.h"
#include "memory/lower/lowering.h"

static void collect(dti_lowering *l)
{
    const dt_program *p = l->p;
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op *in = &p->op[p->order[i]];
        if (in->kind != DT_OP_IN)
            continue;
        l->slot_of[in->pair] = l->slot_of[p->order[i]] = (int32_t)l->n_slot;
        dti_slot *s = &l->slot[l->n_slot++];
        s->free = in->tier == DT_TIER_INPUT;
        s->tier = !s->free ? in->tier : l->o->tier == DT_TIER_DISK ? DT_TIER_DISK : DT_TIER_HOST;
        s->at = (dt_interval){
            .lower = dt_pos(p, in->pair), .upper = (int64_t)i + 1, .bytes = in->stored};
    }
}

/* Place the slots of one tier; or only say what they need at least, when that is above @most. */
static dt_status place(dti_lowering *l, dt_tier tier, uint64_t most, uint64_t *peak, dt_err *err)
{
    size_t n = 0;
    dt_interval *at = dt_alloc(l->n_slot + 1, sizeof *at);
    if (at == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for lowering");
    for (size_t i = 0; i < l->n_slot; i++)
        if (l->slot[i].tier == tier) {
            at[n] = l->slot[i].at;
            at[n++].align = dt_tier_align(tier);
        }
    *peak = dt_pool_lower_bound(at, n);
    const bool all = n > 0 && *peak <= most;
    const dt_status st = all ? l->o->pool->place(at, n, peak, err) : DT_OK;
    for (size_t i = l->n_slot; i-- > 0;)
        if (l->slot[i].tier == tier)
            l->slot[i].at = at[--n];
    dt_free(at);
    return st;
}

static int shortest_first(const void *va, const void *vb)
{
    const dti_slot *a = *(dti_slot *const *)va, *b = *(dti_slot *const *)vb;
    const int64_t x = a->at.upper - a->at.lower, y = b->at.upper - b->at.lower;
    return x != y ? (x > y) - (x < y) : (a->at.lower > b->at.lower) - (a->at.lower < b->at.lower);
}

/* These stay on the host if it holds them with those that stay already; otherwise one half of them
 * is looked at, then the other. So there are few placements where one slot after the other would
 * take one each, of a time that grows with the slots as well. */
static dt_status keep(dti_lowering *l, dti_slot **order, size_t n, dt_err *err)
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
    dti_slot **order = dt_alloc(l->n_slot + 1, sizeof(dti_slot *));
    if (order == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for lowering");
    for (size_t i = 0; i < l->n_slot; i++)
        if (l->slot[i].free && l->slot[i].tier == DT_TIER_HOST) {
            order[n++] = &l->slot[i];
            l->slot[i].tier = DT_TIER_DISK;
        }
    qsort(order, n, sizeof(dti_slot *), shortest_first);
    const dt_status st = keep(l, order, n, err);
    dt_free(order);
    return st;
}

dt_status dti_tiers(dti_lowering *l, dt_err *err)
{
    const size_t n = l->p->n_op;
    l->slot = dt_alloc(n, sizeof *l->slot);
    l->slot_of = dt_alloc(n, sizeof *l->slot_of);
    if (l->slot == NULL || l->slot_of == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for lowering");
    for (size_t i = 0; i < n; i++)
        l->slot_of[i] = -1;
    collect(l);
    DT_CHECK(place(l, DT_TIER_HOST, UINT64_MAX, &l->plan->host_peak, err));
    if (l->o->spill && l->plan->host_peak > l->o->host_budget) {
        DT_CHECK(spill(l, err));
        DT_CHECK(place(l, DT_TIER_HOST, UINT64_MAX, &l->plan->host_peak, err));
    }
    return place(l, DT_TIER_DISK, UINT64_MAX, &l->plan->disk_peak, err);
}
