/* Two ends, as vDNN++ places tensors (Shriram, Garg, Kulkarni, IPDPS 2019; their release,
 * memory_manager_test): in time order, what lives briefly goes into the lowest hole, and what lives
 * long to the right end of the highest one, so that the long-lived leave no holes between the
 * others. The block is as large as what is alive at most; where a request does not fit, it grows by
 * what is missing and all begins anew.
 *
 * Where ours differs: their long-lived tensors are those that are not offloaded. A pool does not
 * know that, so here they are those that live at the instant at which most tensors do: there
 * forward ends. Growth doubles after many attempts, so that it ends soon. */
#include "engine/base/alloc.h"
#include "memory/pools/pool_shelf.h"

enum { ATTEMPTS = 64 };

typedef struct two_ended {
    dti_shelf shelf;
    dt_interval *v;
    const dti_event *event;
    size_t n_event;
    int64_t middle;
    uint64_t cap;
} two_ended;

static int64_t find_middle(const two_ended *t)
{
    int64_t at = 0;
    size_t live = 0, most = 0;
    for (size_t k = 0; k < t->n_event; k++) {
        live += t->event[k].comes ? 1 : (size_t)-1;
        if (live > most) {
            most = live;
            at = t->event[k].at;
        }
    }
    return at;
}

/* The lowest hole; *missing: by how much it ends beyond the cap. */
static bool put_left(const two_ended *t, dt_interval *x, uint64_t *missing)
{
    size_t below;
    if (!dti_shelf_lowest(&t->shelf, x, &x->off, &below)) {
        *missing = UINT64_MAX;
        return false;
    }
    const uint64_t end = x->off + dti_interval_need(x);
    *missing = end > t->cap ? end - t->cap : 0;
    return *missing == 0;
}

/* The right end of the highest hole that is large enough; of the highest of all, what is missing.
 */
static bool put_right(const two_ended *t, dt_interval *x, uint64_t *missing)
{
    const uint64_t need = dti_interval_need(x);
    uint64_t from = 0, widest = 0;
    int64_t steps = 0;
    bool found = false;
    dti_shelf_walk w;
    dti_shelf_begin(&w, &t->shelf, x);
    for (const dti_placed *p = dti_shelf_next(&w, &steps);; p = dti_shelf_next(&w, &steps)) {
        const uint64_t to = p != NULL ? p->off : t->cap;
        const uint64_t off = to >= need ? (to - need) & ~(x->align - 1) : 0;
        if (to >= need && off >= from) {
            x->off = off;
            found = true;
        }
        if (to > from && to - from > widest)
            widest = to - from;
        if (p == NULL)
            break;
        from = p->end > from ? p->end : from;
    }
    *missing = need > widest ? need - widest : x->align;
    return found;
}

/* With the cap as it is; *missing: what the first request lacks that does not fit. */
static bool attempt(two_ended *t, uint64_t *missing)
{
    dti_shelf_clear(&t->shelf);
    for (size_t k = 0; k < t->n_event; k++) {
        dt_interval *x = &t->v[t->event[k].who];
        if (!t->event[k].comes)
            continue;
        const bool lasts = x->lower <= t->middle && t->middle < x->upper;
        if (lasts ? !put_right(t, x, missing) : !put_left(t, x, missing))
            return false;
        dti_shelf_put(&t->shelf, x, x->off);
    }
    return true;
}

static dt_status grow(two_ended *t, size_t n, dt_err *err)
{
    uint64_t missing;
    for (int k = 0; !attempt(t, &missing); k++) {
        const uint64_t more = k < ATTEMPTS ? missing : t->cap / 2 + missing;
        if (missing == UINT64_MAX || t->cap > UINT64_MAX / 2 - more)
            return DT_FAIL(
                err, DT_E_BUDGET, "pool two_ended: %zu intervals would end beyond 2^63 bytes", n);
        t->cap += more;
    }
    return DT_OK;
}

static dt_status place(dt_interval *v, size_t n, uint64_t *peak, dt_err *err)
{
    DT_CHECK(dti_pool_check(v, n, err));
    *peak = 0;
    for (size_t i = 0; i < n; i++)
        v[i].off = 0;
    two_ended t = {.v = v, .cap = dt_pool_lower_bound(v, n)};
    if (t.cap == UINT64_MAX)
        return DT_FAIL(err, DT_E_BUDGET, "pool two_ended: a sum of live bytes is beyond 2^64");
    dti_event *events = dti_pool_events(v, n, &t.n_event);
    t.event = events;
    dt_status st = DT_OK;
    if (!dti_shelf_init(&t.shelf, v, n) || events == NULL)
        st = DT_FAIL(err, DT_E_NOMEM, "pool two_ended: out of memory for %zu intervals", n);
    if (st == DT_OK) {
        t.middle = find_middle(&t);
        st = grow(&t, n, err);
    }
    for (size_t i = 0; i < n && st == DT_OK; i++) {
        const uint64_t end = v[i].bytes > 0 ? v[i].off + dti_interval_need(&v[i]) : 0;
        *peak = end > *peak ? end : *peak;
    }
    dti_shelf_deinit(&t.shelf);
    dt_free(events);
    return st;
}

const dt_pool_desc dt_pool_two_ended = {
    .name = "two_ended",
    .summary =
        "what lives briefly from the left, what lives long from the right: vDNN++'s placement",
    .place = place,
};
