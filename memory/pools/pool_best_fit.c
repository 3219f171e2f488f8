/* What an allocator at run time would do, as in the frameworks' caches: intervals come and go in
 * time order, nothing of the future is known. At equal times frees come first. A newcomer takes the
 * hole that fits best, of equal ones the lowest; if there is none the block grows at its end. */
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers.h"
#include "memory/pools/pool.h"

typedef struct hole {
    uint64_t off, end;
} hole;

/* Holes by address, never touching one another. The last has no end: growing is taking from it. Its
 * part below @peak, once used and free again, is a hole like any other. */
typedef struct heap {
    hole *holes;
    size_t n;
    uint64_t peak;
} heap;

static void drop(heap *h, size_t i)
{
    memmove(&h->holes[i], &h->holes[i + 1], (h->n - i - 1) * sizeof *h->holes);
    h->n--;
}

static void insert(heap *h, size_t i, hole x)
{
    memmove(&h->holes[i + 1], &h->holes[i], (h->n - i) * sizeof *h->holes);
    h->holes[i] = x;
    h->n++;
}

/* Index of the best hole for need bytes; the last one when nothing fits without growing. */
static size_t best_hole(const heap *h, uint64_t need, uint64_t align)
{
    size_t best = h->n - 1;
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < h->n; i++) {
        const uint64_t end = i + 1 < h->n ? h->holes[i].end : h->peak;
        uint64_t off;
        if (!dt_round_up(h->holes[i].off, align, &off) || off > end || end - off < need)
            continue;
        if (end - h->holes[i].off < least) {
            least = end - h->holes[i].off;
            best = i;
        }
    }
    return best;
}

static bool take(heap *h, uint64_t need, uint64_t align, uint64_t *off)
{
    const size_t i = best_hole(h, need, align);
    const hole old = h->holes[i];
    if (!dt_round_up(old.off, align, off) || *off >= UINT64_MAX - need)
        return false;
    const uint64_t end = *off + need;
    h->peak = end > h->peak ? end : h->peak;
    h->holes[i].off = end;
    if (end == old.end && i + 1 < h->n)
        drop(h, i);
    if (*off > old.off)
        insert(h, i, (hole){old.off, *off});
    return true;
}

static void give_back(heap *h, uint64_t off, uint64_t end)
{
    size_t lo = 0, hi = h->n - 1; /* the first hole above; the last one always is */
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (h->holes[mid].off < end)
            lo = mid + 1;
        else
            hi = mid;
    }
    const bool joins_next = h->holes[lo].off == end;
    if (lo > 0 && h->holes[lo - 1].end == off) {
        h->holes[lo - 1].end = joins_next ? h->holes[lo].end : end;
        if (joins_next)
            drop(h, lo);
    } else if (joins_next) {
        h->holes[lo].off = off;
    } else {
        insert(h, lo, (hole){off, end});
    }
}

static dt_status run(dt_interval *v, const dti_event *e, size_t m, heap *h, dt_err *err)
{
    for (size_t k = 0; k < m; k++) {
        dt_interval *x = &v[e[k].who];
        const uint64_t need = dti_interval_need(x);
        if (!e[k].comes)
            give_back(h, x->off, x->off + need);
        else if (!take(h, need, x->align, &x->off))
            return DT_FAIL(err, DT_E_BUDGET,
                "pool best_fit: interval %zu would end beyond 2^64 bytes", e[k].who);
    }
    return DT_OK;
}

static dt_status place(dt_interval *v, size_t n, uint64_t *peak, dt_err *err)
{
    DT_CHECK(dti_pool_check(v, n, err));
    for (size_t i = 0; i < n; i++)
        v[i].off = 0;
    size_t m;
    dti_event *events = dti_pool_events(v, n, &m);
    /* n intervals leave at most n + 1 holes; the last of them has no end */
    heap h = {.holes = n < SIZE_MAX ? dt_alloc(n + 1, sizeof *h.holes) : NULL, .n = 1};
    dt_status st = DT_OK;
    if (events == NULL || h.holes == NULL) {
        st = DT_FAIL(err, DT_E_NOMEM, "pool best_fit: out of memory for %zu intervals", n);
    } else {
        h.holes[0] = (hole){0, UINT64_MAX};
        st = run(v, events, m, &h, err);
        *peak = h.peak;
    }
    dt_free(events);
    dt_free(h.holes);
    return st;
}

const dt_pool_desc dt_pool_best_fit = {
    .name = "best_fit",
    .summary = "in time order, each into the hole that fits best, as a run-time allocator would",
    .place = place,
};
