/* Sentinel's co-location (Ren et al., HPCA 2021, section IV): values that live within one layer lie
 * in a region of their own at the begin of the block, one over another, and all others behind it,
 * so that pages that migrate hold nothing that lives briefly.
 *
 * Where ours differs: a pool is not told of layers, so what lives for at most two ops in a row is
 * short-lived, which is a layer's own scratch, and what one op hands to the next. The region is as
 * large as the whole run needs, where theirs gives pages back within an interval. Theirs groups
 * what lives long, too: values that live in the same layers share pages, those accessed most often
 * first, and weights and inputs have pages of their own. Ours does not, as a pool is told of no
 * accesses either. Both parts are placed as greedy does. Here tensors move and not pages, so the
 * region is for comparison: what lives briefly never moves in any case, and one region for all is
 * as large or smaller, but for what greedy misses. */
#include "engine/base/alloc.h"
#include "engine/base/numbers.h"
#include "memory/pools/pool_shelf.h"

extern const dt_pool_desc dt_pool_greedy;

enum { BRIEF = 2 };

static bool is_brief(const dt_interval *x)
{
    return (uint64_t)x->upper - (uint64_t)x->lower <= BRIEF;
}

/* Of the intervals those of one part, behind @base; *end: of the highest of them, or @base. */
static dt_status place_part(dt_interval *v, size_t n, bool brief, uint64_t base, dt_interval *part,
    uint64_t *end, dt_err *err)
{
    size_t m = 0, at = 0;
    uint64_t align = 1, peak = 0;
    *end = base;
    for (size_t i = 0; i < n; i++)
        if (is_brief(&v[i]) == brief)
            part[m++] = v[i];
    DT_CHECK(dt_pool_greedy.place(part, m, &peak, err));
    for (size_t i = 0; i < m; i++)
        align = part[i].bytes > 0 && part[i].align > align ? part[i].align : align;
    base = dt_align_up(base, align);
    if (m == 0 || peak == 0)
        return DT_OK;
    if (base < *end || peak > UINT64_MAX - base)
        return DT_FAIL(
            err, DT_E_BUDGET, "pool co_located: %zu intervals need more than 2^64 bytes", n);
    for (size_t i = 0; i < n; i++)
        if (is_brief(&v[i]) == brief) {
            v[i].off = v[i].bytes > 0 ? base + part[at].off : 0;
            at++;
        }
    *end = base + peak;
    return DT_OK;
}

static dt_status place(dt_interval *v, size_t n, uint64_t *peak, dt_err *err)
{
    DT_CHECK(dti_pool_check(v, n, err));
    dt_interval *part = dt_alloc(n + 1, sizeof *part);
    uint64_t region = 0;
    if (part == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "pool co_located: out of memory for %zu intervals", n);
    for (size_t i = 0; i < n; i++)
        v[i].off = 0;
    dt_status st = place_part(v, n, true, 0, part, &region, err);
    if (st == DT_OK)
        st = place_part(v, n, false, region, part, peak, err);
    dt_free(part);
    return st;
}

const dt_pool_desc dt_pool_co_located = {
    .name = "co_located",
    .summary = "what lives for two ops at most in a region of its own: Sentinel's co-location",
    .place = place,
};
