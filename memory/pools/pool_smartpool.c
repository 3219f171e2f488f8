/* SmartPool (Zhang and others, "Efficient Memory Management for GPU-based Deep Learning Systems",
 * arXiv 1903.06631, 2019): lifetimes are known from an iteration before, and an interval graph is
 * coloured: the largest first, of equals the earlier born, each into the tightest gap between those
 * that live when it does, or behind them.
 *
 * Where ours differs: lifetimes come from the program, so no iteration is watched. Nothing lives
 * across iterations but what has a home, so no block is kept twice. The gap below the lowest
 * neighbour counts as one; their published code overlooks it as soon as there are two neighbours.
 */
#include "engine/base/numbers.h"
#include "memory/pools/pool_largest.h"

static bool tightest(void *self, const dti_shelf *s, const dt_interval *x, uint64_t *off)
{
    const uint64_t need = dti_interval_need(x);
    uint64_t end = 0, least = UINT64_MAX, at;
    int64_t steps = 0;
    dti_shelf_walk w;
    (void)self;
    dti_shelf_begin(&w, s, x);
    for (const dti_placed *p; (p = dti_shelf_next(&w, &steps)) != NULL;) {
        const bool room = dt_round_up(end, x->align, &at) && at <= p->off && p->off - at >= need;
        if (room && p->off - end < least) {
            least = p->off - end;
            *off = at;
        }
        end = p->end > end ? p->end : end;
    }
    return least < UINT64_MAX || dt_round_up(end, x->align, off);
}

static dt_status place(dt_interval *v, size_t n, uint64_t *peak, dt_err *err)
{
    return dti_largest_first("smartpool", v, n, DTI_EARLIER_BORN, tightest, NULL, peak, err);
}

const dt_pool_desc dt_pool_smartpool = {
    .name = "smartpool",
    .summary = "SmartPool: the largest first, each into the tightest gap of its lifetime",
    .place = place,
};
