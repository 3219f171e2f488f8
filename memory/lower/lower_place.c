/* Addresses in the arena: chains of in-place segments become blocks, a pool places blocks; slots
 * last the whole run. */
#include "engine/base/alloc.h"
#include "memory/lower/lowering.h"

/* Blocks first, then slots, which all segments of a slot share. */
dt_status dti_blocks(dti_lowering *l, dt_err *err)
{
    const int32_t steps = (int32_t)l->p->n_order;
    l->block = dt_alloc(l->n_segment + (size_t)l->p->n_slot, sizeof *l->block);
    if (l->block == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for lowering");
    for (size_t s = 0; s < l->n_segment; s++) {
        if (l->segment[s].over >= 0 || l->p->tensor[l->segment[s].tensor].slot != DT_NONE)
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
    for (int32_t k = 0; k < l->p->n_slot; k++)
        l->block[l->n_block + (size_t)k] =
            (dt_interval){.lower = 0, .upper = steps > 0 ? steps : 1, .align = DT_ALIGN};
    for (size_t s = 0; s < l->n_segment; s++) {
        const dt_tensor *t = &l->p->tensor[l->segment[s].tensor];
        if (t->slot == DT_NONE)
            continue;
        l->segment[s].block = (int32_t)l->n_block + t->slot;
        dt_interval *b = &l->block[l->segment[s].block];
        b->bytes = t->bytes > b->bytes ? t->bytes : b->bytes;
    }
    l->n_block += (size_t)l->p->n_slot;
    return DT_OK;
}

dt_status dti_place(dti_lowering *l, dt_err *err)
{
    uint64_t peak = 0;
    DT_CHECK(l->o->pool->place(l->block, l->n_block, &peak, err));
    l->plan->persistent = l->p->map->bytes;
    l->plan->peak = l->p->map->bytes + peak;
    l->plan->bound = l->p->map->bytes + dt_pool_lower_bound(l->block, l->n_block);
    return DT_OK;
}

uint64_t dti_segment_off(const dti_lowering *l, int32_t segment)
{
    return l->p->map->bytes + l->block[l->segment[segment].block].off;
}
