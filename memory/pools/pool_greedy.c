/* Offline: all intervals are known, so they are placed in a clever order rather than in time's,
 * each at the lowest offset free during its life. Several orders are tried, then the best one is
 * improved by small changes near the peak, until the lower bound is met or a budget of work is used
 * up. Measured: 3,000 intervals of a training program take 5 to 20 ms, 10,000 up to 200 ms.
 * The budget is counted in steps, never in seconds, so that the same input gives the same
 * output everywhere. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/pools/pool_many.h"
#include "memory/pools/pool_shelf.h"

extern const dt_pool_desc dt_pool_best_fit;

/* Steps are visits of one placed interval, about a nanosecond each. Of those for orders, more than
 * STEPS_OF_FEW tell that there are too many intervals to try orders of all. */
enum { STEPS_FOR_ORDERS = 160000000, STEPS_OF_FEW = 80000000, STEPS_FOR_CHANGES = 8000000 };
enum {
    FEW = 256,  /* so few intervals that the bound itself is the goal */
    MANY = 1000 /* so many that the steps for changes would pay for a handful only */
};

typedef struct key {
    uint64_t first, second; /* larger goes first */
    size_t who;             /* smaller goes first */
} key;

/* Where an interval has been placed, and the steps that it took to find. */
typedef struct spot {
    uint64_t off;
    int64_t steps;
} spot;

typedef struct search {
    dt_interval *v; /* off: the best placement so far */
    size_t n;       /* intervals that have bytes, the length of what follows */
    size_t *order, *trial;
    spot *placed, *tried; /* in the order, and in the trial, by interval */
    key *keys;
    dti_shelf shelf;
    uint64_t peak, bound; /* of the best placement; of any placement */
    uint64_t order_peak;  /* of placing in order; UINT64_MAX: there is no order yet */
    int64_t steps;        /* left */
    uint64_t random;
} search;

static bool find_spot(const search *s, const dt_interval *x, spot *to)
{
    size_t below;
    const bool found = dti_shelf_lowest(&s->shelf, x, &to->off, &below);
    to->steps = (int64_t)below + 1;
    return found;
}

/* Place in the trial order, of which the first @same are as in the order, so their spots are known.
 * The peak, or UINT64_MAX when it would be limit or more, or steps ran out. */
static uint64_t place_trial(search *s, size_t same, uint64_t limit)
{
    uint64_t peak = 0;
    dti_shelf_clear(&s->shelf);
    for (size_t m = 0; m < s->n; m++) {
        const size_t who = s->trial[m];
        const dt_interval *x = &s->v[who];
        spot *to = &s->tried[who];
        if (m < same)
            *to = s->placed[who];
        else if (!find_spot(s, x, to))
            return UINT64_MAX;
        s->steps -= to->steps;
        const uint64_t end = to->off + dti_interval_need(x);
        if (end >= limit || s->steps < 0)
            return UINT64_MAX;
        peak = end > peak ? end : peak;
        dti_shelf_put(&s->shelf, x, to->off);
    }
    return peak;
}

/* Try the trial order; keep it when its peak is below limit. */
static void attempt(search *s, size_t same, uint64_t limit)
{
    const uint64_t peak = place_trial(s, same, limit);
    if (peak == UINT64_MAX)
        return;
    size_t *old = s->order;
    spot *spots = s->placed;
    s->order = s->trial;
    s->trial = old;
    s->placed = s->tried;
    s->tried = spots;
    s->order_peak = peak;
    if (peak > s->peak)
        return;
    s->peak = peak;
    for (size_t i = 0; i < s->n; i++)
        s->v[s->order[i]].off = s->placed[s->order[i]].off;
}

static key by_length(const dt_interval *x)
{
    return (key){dti_interval_length(x), dti_interval_need(x), 0};
}

static key by_bytes(const dt_interval *x)
{
    return (key){dti_interval_need(x), dti_interval_length(x), 0};
}

static key by_stop(const dt_interval *x)
{
    return (key){(uint64_t)x->upper + ((uint64_t)1 << 63), dti_interval_length(x), 0};
}

/* Of the best placement so far: whatever is placed by it comes to lie where it was or lower. */
static key by_offset(const dt_interval *x)
{
    return (key){UINT64_MAX - x->off, 0, 0};
}

static int compare_keys(const void *a, const void *b)
{
    const key *p = a, *q = b;
    if (p->first != q->first)
        return p->first > q->first ? -1 : 1;
    if (p->second != q->second)
        return p->second > q->second ? -1 : 1;
    return (p->who > q->who) - (p->who < q->who);
}

/* Within 0.05 % of the bound more work on more than a few intervals does not pay. */
static bool near_enough(const search *s)
{
    return s->peak - s->bound <= (s->n > FEW ? s->bound / 2048 : 0);
}

static void try_orders(search *s, int64_t steps)
{
    static key (*const rules[])(const dt_interval *) = {by_length, by_bytes, by_stop, by_offset};
    s->steps = steps;
    for (size_t r = 0; r < DT_COUNT(rules) && s->steps >= 0 && !near_enough(s); r++) {
        for (size_t i = 0; i < s->n; i++) {
            s->keys[i] = rules[r](&s->v[s->order[i]]);
            s->keys[i].who = s->order[i];
        }
        qsort(s->keys, s->n, sizeof *s->keys, compare_keys);
        for (size_t i = 0; i < s->n; i++)
            s->trial[i] = s->keys[i].who;
        attempt(s, 0, s->order_peak);
    }
}

/* Position of one of the intervals that end at the peak. */
static size_t pick_top(search *s)
{
    size_t seen = 0, at = 0;
    for (size_t i = 0; i < s->n; i++) {
        const dt_interval *x = &s->v[s->order[i]];
        if (x->off + dti_interval_need(x) == s->peak && dti_pool_draw(&s->random, ++seen) == 0)
            at = i;
    }
    return at;
}

/* Position of one that was placed before it and is in its way; its own when there is none. */
static size_t pick_rival(search *s, size_t top)
{
    const dt_interval *x = &s->v[s->order[top]];
    size_t seen = 0, at = top;
    for (size_t i = 0; i < top; i++) {
        const dt_interval *y = &s->v[s->order[i]];
        if (y->lower < x->upper && x->lower < y->upper && dti_pool_draw(&s->random, ++seen) == 0)
            at = i;
    }
    return at;
}

/* An order that differs a little from the best: an interval goes before an earlier one, or they
 * change places. Every other time it is one at the peak and one in its way. Returned is how many at
 * the beginning stay as they are. */
static size_t change(search *s)
{
    size_t late, early;
    if (dti_pool_draw(&s->random, 2) == 0) {
        late = pick_top(s);
        early = pick_rival(s, late);
    } else {
        late = dti_pool_draw(&s->random, s->n);
        early = dti_pool_draw(&s->random, late + 1);
    }
    memcpy(s->trial, s->order, s->n * sizeof *s->trial);
    if (dti_pool_draw(&s->random, 2) == 0)
        s->trial[late] = s->order[early];
    else
        memmove(&s->trial[early + 1], &s->order[early], (late - early) * sizeof *s->trial);
    s->trial[early] = s->order[late];
    return early < late ? early : s->n;
}

/* Changes that do no harm are kept as well, to get off plateaus. */
static void improve(search *s)
{
    s->steps = STEPS_FOR_CHANGES;
    for (size_t round = 0; round / 8 < s->n && !near_enough(s) && s->steps > 0; round++) {
        const size_t same = change(s);
        attempt(s, same, s->order_peak + 1);
    }
}

static bool allocate(search *s, size_t n)
{
    const bool shelf = dti_shelf_init(&s->shelf, s->v, n);
    s->order = dt_alloc(n, sizeof *s->order);
    s->trial = dt_alloc(n, sizeof *s->trial);
    s->placed = dt_alloc(n, sizeof *s->placed);
    s->tried = dt_alloc(n, sizeof *s->tried);
    s->keys = dt_alloc(n, sizeof *s->keys);
    return s->order != NULL && s->trial != NULL && s->placed != NULL && s->tried != NULL &&
           s->keys != NULL && shelf;
}

static void release(search *s)
{
    dt_free(s->order);
    dt_free(s->trial);
    dt_free(s->placed);
    dt_free(s->tried);
    dt_free(s->keys);
    dti_shelf_deinit(&s->shelf);
}

/* Several orders, and what there are too many for by one order in slabs of the time; then, unless
 * it is to be brief, what takes long. False: no memory. */
static bool search_orders(search *s, size_t n, bool brief)
{
    const int64_t steps = brief ? STEPS_OF_FEW : STEPS_FOR_ORDERS;
    try_orders(s, steps);
    const bool many = steps - s->steps > STEPS_OF_FEW;
    if (many && !dti_pool_many(s->v, n, true, &s->peak))
        return false;
    if (many && brief)
        return true;
    if (s->steps < 0)
        return near_enough(s) || dti_pool_many(s->v, n, false, &s->peak);
    if (s->order_peak == s->peak && s->peak < UINT64_MAX && s->n < MANY)
        improve(s);
    return true;
}

/* Start from what best_fit makes of it, so as never to be worse. */
static dt_status place_by(dt_interval *v, size_t n, bool brief, uint64_t *peak, dt_err *err)
{
    search s = {.v = v,
        .peak = UINT64_MAX,
        .bound = dt_pool_lower_bound(v, n),
        .order_peak = UINT64_MAX,
        .random = DTI_POOL_RANDOM};
    DT_CHECK(dti_pool_check(v, n, err));
    dt_status st = dt_pool_best_fit.place(v, n, &s.peak, NULL);
    if (st == DT_E_BUDGET)
        s.peak = UINT64_MAX;
    bool room = st != DT_E_NOMEM && allocate(&s, n);
    if (room) {
        for (size_t i = 0; i < n; i++)
            if (v[i].bytes > 0)
                s.order[s.n++] = i;
        room = search_orders(&s, n, brief);
    }
    release(&s);
    *peak = s.peak;
    if (!room)
        return DT_FAIL(err, DT_E_NOMEM, "pool greedy: out of memory for %zu intervals", n);
    if (s.peak == UINT64_MAX)
        return DT_FAIL(err, DT_E_BUDGET, "pool greedy: %zu intervals need more than 2^64 bytes", n);
    return DT_OK;
}

static dt_status place(dt_interval *v, size_t n, uint64_t *peak, dt_err *err)
{
    return place_by(v, n, false, peak, err);
}

static dt_status place_briefly(dt_interval *v, size_t n, uint64_t *peak, dt_err *err)
{
    return place_by(v, n, true, peak, err);
}

/* What searches place with: the same but for very many intervals. */
static const dt_pool_desc brief_greedy = {
    .name = "brief greedy",
    .summary = "greedy, and little of it",
    .place = place_briefly,
    .quick = &dt_pool_best_fit,
};

const dt_pool_desc dt_pool_greedy = {
    .name = "greedy",
    .summary = "knowing all lifetimes: the best of several orders, improved at the peak (default)",
    .place = place,
    .tries = &brief_greedy,
    .quick = &dt_pool_best_fit,
};
