/* Made-up intervals, by a generator that gives the same on every machine. */
#include "memory/pools/pool_random.h"

#include "engine/base/alloc.h"
#include "engine/base/mix.h"

enum { UNIT = 512, LARGEST = 65536, SHARE = 10 };

/* 2 to the power of a number of 64 bits behind the point, of which 24 count; by products alone,
 * which are the same on every machine. */
static double power(uint64_t fraction)
{
    static const double root[24] = {1.4142135623730951, 1.189207115002721, 1.0905077326652577,
        1.0442737824274138, 1.0218971486541166, 1.0108892860517005, 1.0054299011128027,
        1.0027112750502025, 1.0013547198921082, 1.0006771306930664, 1.0003385080526823,
        1.0001692397053021, 1.0000846162726944, 1.0000423072413958, 1.0000211533969647,
        1.0000105766425498, 1.0000052883072919, 1.0000026441501502, 1.0000013220742012,
        1.0000006610368821, 1.0000003305183864, 1.0000001652591795, 1.0000000826295863,
        1.0000000413147923};
    double p = 1;
    for (int bit = 0; bit < 24; bit++)
        if (fraction >> (63 - bit) & 1)
            p *= root[bit];
    return p;
}

/* 1 to most, each order of magnitude as often as any other: draws are thrown away that fall beyond.
 */
static uint64_t draw_spread(uint64_t *state, uint64_t most)
{
    uint64_t octaves = 1;
    while (most >> octaves > 0)
        octaves++;
    for (;;) {
        const uint64_t octave = dt_mix_next(state) % octaves;
        const uint64_t x = (uint64_t)(power(dt_mix_next(state)) * (double)((uint64_t)1 << octave));
        if (x <= most)
            return x;
    }
}

dt_status dt_pool_random(dt_interval **v, size_t n, uint64_t seed, dt_err *err)
{
    *v = dt_alloc(n, sizeof **v);
    if (*v == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for %zu intervals", n);
    const uint64_t longest = n >= SHARE ? n / SHARE : 1;
    for (size_t i = 0; i < n; i++) {
        const int64_t lower = (int64_t)(dt_mix_next(&seed) % n);
        const uint64_t length = draw_spread(&seed, longest);
        (*v)[i] = (dt_interval){.id = (int64_t)i,
            .lower = lower,
            .upper = lower + (int64_t)length,
            .bytes = UNIT * draw_spread(&seed, LARGEST),
            .align = 1};
    }
    return DT_OK;
}
