/* Slots of tiers. A move that names no tier goes to the host; when the host's budget does not hold
 * them all and there is a disk, those stay on the host that are away for the shortest time, since
 * the others have more of it to come back from the disk. */
#include <stdlib.h>

#include "engine/alloc.h"
#include "memory/lowering.h"

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

/* Place the slots of one tier. */
static dt_status place(dti_lowering *l, dt_tier tier, uint64_t *peak, dt_err *err)
{
    size_t n = 0;
    *peak = 0;
    dt_interval *at = dt_alloc(l->n_slot + 1, sizeof *at);
    if (at == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for lowering");
    for (size_t i = 0; i < l->n_slot; i++)
        if (l->slot[i].tier == tier) {
            at[n] = l->slot[i].at;
            at[n++].align = dt_tier_align(tier);
        }
    const dt_status st = n > 0 ? l->o->pool->place(at, n, peak, err) : DT_OK;
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

/* One after the other, each stays on the host if it still holds them all. */
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
    dt_status st = DT_OK;
    for (size_t i = 0; i < n && st == DT_OK; i++) {
        uint64_t peak;
        order[i]->tier = DT_TIER_HOST;
        st = place(l, DT_TIER_HOST, &peak, err);
        if (peak > l->o->host_budget)
            order[i]->tier = DT_TIER_DISK;
    }
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
    DT_CHECK(place(l, DT_TIER_HOST, &l->plan->host_peak, err));
    if (l->o->spill && l->plan->host_peak > l->o->host_budget) {
        DT_CHECK(spill(l, err));
        DT_CHECK(place(l, DT_TIER_HOST, &l->plan->host_peak, err));
    }
    return place(l, DT_TIER_DISK, &l->plan->disk_peak, err);
}
