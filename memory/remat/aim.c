/* Steps by what a plan is off, between an aim whose plan fits and one whose plan does not, and
 * halves where those leave the interval. While the plan stays the same a step is four times the
 * last. */
#include "memory/remat/aim.h"

#include <stdbool.h>

/* The next aim strictly between the two. */
static uint64_t between(uint64_t low, uint64_t high, bool up, uint64_t aim, uint64_t by)
{
    const bool beyond = up ? by >= high - aim : by >= aim - low;
    return beyond ? low + (high - low) / 2 : up ? aim + by : aim - by;
}

dt_status dti_aim_search(const dti_aim *a, dti_aim_try try_at, void *ctx, dt_err *err)
{
    uint64_t low = a->least > 0 ? a->least - 1 : 0, high = a->most + 1, aim = a->first;
    uint64_t last = UINT64_MAX, times = 1;
    bool fits = false;
    aim = aim < a->least ? a->least : aim > a->most ? a->most : aim;
    for (int i = 0; i < (fits ? a->rounds : 2 * a->rounds) && low + 1 < high; i++) {
        uint64_t peak;
        DT_CHECK(try_at(ctx, aim, &peak, err));
        if (peak == a->budget)
            return DT_OK;
        const bool up = peak == UINT64_MAX || peak < a->budget;
        fits = fits || peak < a->budget;
        const uint64_t off = peak == UINT64_MAX ? (high - aim) / 2
                             : up               ? a->budget - peak
                                                : peak - a->budget;
        times = !fits && peak == last && off < (UINT64_MAX >> 2) / times ? 4 * times : 1;
        last = peak;
        *(up ? &low : &high) = aim;
        if (low + 1 < high)
            aim = between(low, high, up, aim, off > 0 ? times * off : 1);
    }
    return DT_OK;
}
