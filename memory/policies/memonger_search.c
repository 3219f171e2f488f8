/* The walk, and the nine thresholds. */
#include "memory/policies/memonger_search.h"

#include <math.h>

enum { ROUNDS = 3, GRID = 6, MIB_SHIFT = 20 };

dti_memonger_sums dti_memonger_plan(
    const uint64_t *bytes, const int32_t *stage, size_t n, uint64_t threshold, bool *keep)
{
    dti_memonger_sums s = {0, 0};
    uint64_t open = 0;
    int32_t last = DTI_STAGE_NONE;
    bool kept = false; /* the last stage */
    for (size_t i = 0; i < n; i++) {
        open += bytes[i];
        keep[i] = false;
        if (stage[i] == DTI_STAGE_NONE)
            continue;
        const bool first = stage[i] == DTI_STAGE_ALONE || stage[i] != last;
        kept = first ? open > threshold : kept;
        keep[i] = kept;
        last = stage[i];
        s.kept += kept ? bytes[i] : 0;
        if (!first || !kept)
            continue;
        s.largest = open > s.largest ? open : s.largest;
        open = 0;
    }
    return s;
}

static dt_status look(dti_memonger_try *try_it, void *ctx, uint64_t mib, dti_memonger_sums *s,
    dti_memonger_found *out, dt_err *err)
{
    uint64_t cost;
    DT_CHECK(try_it(ctx, mib, &cost, s, err));
    if (out->tried == 0 || cost < out->cost) {
        out->mib = mib;
        out->cost = cost;
    }
    out->tried++;
    return DT_OK;
}

dt_status dti_memonger_search(
    dti_memonger_try *try_it, void *ctx, dti_memonger_found *out, dt_err *err)
{
    uint64_t mib = 0, least = UINT64_MAX;
    *out = (dti_memonger_found){.cost = UINT64_MAX};
    for (int k = 0; k < ROUNDS; k++) {
        dti_memonger_sums s;
        DT_CHECK(look(try_it, ctx, mib, &s, out, err));
        const uint64_t largest = s.largest >> MIB_SHIFT;
        least = largest < least ? largest : least;
        mib = (uint64_t)sqrt((double)(s.kept >> MIB_SHIFT) * (double)largest / 2);
    }
    const double most = (double)mib * sqrt(2);
    const uint64_t step = most > (double)least ? (uint64_t)((most - (double)least) / GRID) : 0;
    for (uint64_t k = 1; step > 0 && k <= GRID; k++) {
        dti_memonger_sums s;
        DT_CHECK(look(try_it, ctx, least + k * step, &s, out, err));
    }
    return DT_OK;
}
