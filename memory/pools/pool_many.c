/* Each interval at the lowest offset free during its life, in an order that puts those first that
 * live when most is live, are large or live long; there are several ways to weigh these, and what
 * then ends too high goes earlier in the next try; or drives out what is easier to place. This is
 * done in levels: first those that take nearly all bytes, then those that fill what is free between
 * them, as the small ones are most of all intervals and take next to no bytes. Very many are cut by
 * size into tiers, placed one on the other.
 *
 * What lives at one time is looked up in slabs of the time, each a shelf. */
#include "memory/pools/pool_many.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers.h"
#include "memory/pools/pool_repair.h"
#include "memory/pools/pool_shelf.h"

extern const dt_pool_desc dt_pool_best_fit;

enum {
    SLABS = 64,
    TIER = 200000,             /* intervals in a tier */
    SMALL = 256,               /* this part of the others' bytes, or less, is placed by best_fit */
    STEPS = 50000000,          /* looks at a placed interval or a board */
    STEPS_A_TIER = 2000000000, /* of what is not tried over and over */
    PROMOTED = 1,              /* an interval that ended too high: as if twice as large */
    REPAIRS = 2,               /* each may take this part of what is left */
    POLISH = 4                 /* what is good enough may take this part of what all may take */
};

typedef struct ranked {
    double key; /* larger goes first */
    uint32_t who;
} ranked;

/* How an order weighs the bytes that live around an interval and its own length against its size.
 */
typedef struct weighing {
    double load, length;
} weighing;
static const weighing weighings[] = {
    {20, 0.1}, {10, 0.2}, {20, 0}, {5, 0.2}, {10, 0.1}, {20, 0.2}, {5, 0.1}, {10, 0}};
enum { FILLING = 3 }; /* so many of them where smaller ones fill what is free */
/* Intervals that leave part @rest of the area to smaller ones, steps that repair them, and what is
 * good enough: a level that ends above this part of the bound of all is repaired anew. The large
 * ones are to leave some room, as those that fill what is between them end higher.
 */
static const struct {
    double rest;
    int64_t repair;
    double good;
} levels[] = {{1.0 / 32, 390000000, 0.995}, {1.0 / 1024, 980000000, 1.0095}, {0, 0, HUGE_VAL}};
/* By which intervals drive out others: the first of these, and the others where all begins anew. */
static const weighing hardness[] = {{40, 0.7}, {60, 0.7}, {40, 0.5}, {20, 0.7}, {40, 0.9}};
/* Repairs begun anew take so many steps an interval each time. All of them together take so many
 * divided by the number of intervals, as what goes before them takes the longer the more there are.
 */
static const double ANEW_EACH = 20000, ANEW_ALL = 30e12;

typedef struct tier {
    const dt_interval *v; /* n of them, all with bytes; the first fixed lie where best says */
    size_t n, fixed;
    uint64_t *off, *best; /* of this try and of the best, by interval */
    ranked *rank;
    double *load;         /* the most bytes live during an interval, by the bound */
    double *promotion;    /* of a try; while there are repairs, how hard they are to place */
    uint64_t bound, peak; /* of the n */
    int64_t start;
    uint64_t width; /* of a slab, in instants */
    size_t n_slab;
    dti_shelf slab[SLABS];
    int64_t steps; /* left */
} tier;

static size_t slab_of(const tier *t, int64_t when)
{
    return (size_t)(((uint64_t)when - (uint64_t)t->start) / t->width);
}

/* Log2 by operations that give the same on every machine: x = 2^e (1 + u), by the series of atanh.
 */
static double log_2(double x)
{
    int e;
    const double m = frexp(x, &e), z = (m - 0.70710678118654752) / (m + 0.70710678118654752);
    const double q = z * z;
    const double ln = z * (2 + q * (2.0 / 3 + q * (2.0 / 5 + q * (2.0 / 7 + q * (2.0 / 9)))));
    return (double)e - 0.5 + ln * 1.4426950408889634;
}

/* 2 to the power of x >= 0, likewise: by the series of the fraction. */
static double power_of_2(double x)
{
    const int whole = (int)x;
    const double y = (x - whole) * 0.69314718055994531;
    double sum = 1, term = 1;
    for (int k = 1; k < 18; k++) {
        term *= y / k;
        sum += term;
    }
    return ldexp(sum, whole);
}

/* ---- the most bytes live during each interval ---- */

static int by_time(const void *a, const void *b)
{
    const int64_t p = *(const int64_t *)a, q = *(const int64_t *)b;
    return (p > q) - (p < q);
}

/* The first of n rising instants at or after when. */
static size_t find(const int64_t *at, size_t n, int64_t when)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (at[mid] < when)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The largest of live[from..to), from a tree whose node k has the larger of nodes 2 k and 2 k + 1.
 */
static uint64_t largest(const uint64_t *tree, size_t n, size_t from, size_t to)
{
    uint64_t most = 0;
    for (from += n, to += n; from < to; from /= 2, to /= 2) {
        if (from & 1) {
            most = tree[from] > most ? tree[from] : most;
            from++;
        }
        if (to & 1) {
            to--;
            most = tree[to] > most ? tree[to] : most;
        }
    }
    return most;
}

/* Bytes live change at starts only upwards, so those are the instants to look at. */
static bool find_loads(tier *t)
{
    int64_t *at = dt_alloc(t->n, sizeof *at);
    uint64_t *tree = dt_alloc(t->n + 1, 2 * sizeof *tree);
    size_t m = 0;
    if (at != NULL && tree != NULL) {
        for (size_t i = 0; i < t->n; i++)
            at[i] = t->v[i].lower;
        qsort(at, t->n, sizeof *at, by_time);
        for (size_t i = 0; i < t->n; i++)
            if (i == 0 || at[i] != at[m - 1])
                at[m++] = at[i];
        for (size_t i = 0; i < t->n; i++) { /* differences; they wrap round and come back */
            const uint64_t need = dti_interval_need(&t->v[i]);
            const size_t stop = find(at, m, t->v[i].upper);
            tree[m + find(at, m, t->v[i].lower)] += need;
            if (stop < m)
                tree[m + stop] -= need;
        }
        for (size_t k = 1; k < m; k++)
            tree[m + k] += tree[m + k - 1];
        for (size_t k = m; k-- > 1;)
            tree[k] = tree[2 * k] > tree[2 * k + 1] ? tree[2 * k] : tree[2 * k + 1];
        t->bound = largest(tree, m, 0, m);
        for (size_t i = 0; i < t->n; i++)
            t->load[i] =
                (double)largest(tree, m, find(at, m, t->v[i].lower), find(at, m, t->v[i].upper)) /
                (double)t->bound;
    }
    const bool ok = at != NULL && tree != NULL;
    dt_free(at);
    dt_free(tree);
    return ok;
}

/* ---- slabs ---- */

/* As many slabs as leave an interval in two of them, on the average. */
static void choose_slabs(tier *t)
{
    int64_t end = INT64_MIN;
    double lives = 0;
    t->start = INT64_MAX;
    for (size_t i = 0; i < t->n; i++) {
        t->start = t->v[i].lower < t->start ? t->v[i].lower : t->start;
        end = t->v[i].upper > end ? t->v[i].upper : end;
        lives += (double)dti_interval_length(&t->v[i]);
    }
    const uint64_t whole = (uint64_t)end - (uint64_t)t->start;
    const double slabs = (double)whole * (double)t->n / lives;
    const uint64_t n = slabs >= SLABS ? SLABS : slabs > 1 ? (uint64_t)slabs : 1;
    t->width = whole / n + (whole % n > 0);
}

static bool make_slabs(tier *t)
{
    size_t touch[SLABS + 1] = {0};
    bool ok = true;
    choose_slabs(t);
    for (size_t i = 0; i < t->n; i++) {
        const size_t first = slab_of(t, t->v[i].lower), last = slab_of(t, t->v[i].upper - 1);
        for (size_t k = first; k <= last; k++)
            touch[k]++;
        t->n_slab = last >= t->n_slab ? last + 1 : t->n_slab;
    }
    for (size_t k = 0; k < t->n_slab; k++) {
        const uint64_t from = (uint64_t)t->start + k * t->width;
        ok = dti_shelf_init_during(
                 &t->slab[k], touch[k], (int64_t)from, (int64_t)(from + t->width - 1)) &&
             ok;
    }
    return ok;
}

/* The lowest offset free during x's life; false when x would end beyond 2^64. */
static bool lowest(tier *t, const dt_interval *x, uint64_t *off)
{
    dti_shelf_walk walk[SLABS];
    const uint64_t need = dti_interval_need(x);
    const size_t first = slab_of(t, x->lower), n = slab_of(t, x->upper - 1) - first + 1;
    int64_t steps = 1;
    for (size_t k = 0; k < n; k++)
        dti_shelf_begin(&walk[k], &t->slab[first + k], x);
    bool fits = true;
    *off = 0;
    for (size_t k = 0, agree = 0; fits && agree < n; k = k + 1 < n ? k + 1 : 0) {
        const uint64_t before = *off;
        fits = dti_shelf_pass(&walk[k], need, off, &steps);
        agree = *off == before ? agree + 1 : 1;
    }
    t->steps -= steps;
    return fits && *off < UINT64_MAX - need;
}

/* ---- tries ---- */

static int by_key(const void *a, const void *b)
{
    const ranked *p = a, *q = b;
    if (p->key != q->key)
        return p->key > q->key ? -1 : 1;
    return (p->who > q->who) - (p->who < q->who);
}

static double weigh(const tier *t, weighing w, size_t i)
{
    return log_2((double)dti_interval_need(&t->v[i])) +
           w.length * log_2((double)dti_interval_length(&t->v[i])) + w.load * t->load[i];
}

static void rank(tier *t, weighing w)
{
    for (size_t i = t->fixed; i < t->n; i++)
        t->rank[i - t->fixed] = (ranked){weigh(t, w, i) + t->promotion[i], (uint32_t)i};
    qsort(t->rank, t->n - t->fixed, sizeof *t->rank, by_key);
}

/* Onto the shelves; the end of it. */
static uint64_t put(tier *t, size_t who, uint64_t off)
{
    const dt_interval *x = &t->v[who];
    t->off[who] = off;
    for (size_t k = slab_of(t, x->lower); k <= slab_of(t, x->upper - 1); k++)
        dti_shelf_put(&t->slab[k], x, off);
    return off + dti_interval_need(x);
}

/* Place in the order of ranks, and keep it if it is the best. False when steps ran out. */
static bool attempt(tier *t)
{
    uint64_t peak = 0, off;
    for (size_t k = 0; k < t->n_slab; k++)
        dti_shelf_clear(&t->slab[k]);
    for (size_t i = 0; i < t->fixed; i++) {
        const uint64_t end = put(t, i, t->best[i]);
        t->steps -= DTI_BOARD;
        peak = end > peak ? end : peak;
    }
    for (size_t m = 0; m < t->n - t->fixed; m++) {
        const uint32_t who = t->rank[m].who;
        if (t->steps < 0 || !lowest(t, &t->v[who], &off))
            return false;
        const uint64_t end = put(t, who, off);
        peak = end > peak ? end : peak;
    }
    if (peak < t->peak) {
        t->peak = peak;
        memcpy(t->best, t->off, t->n * sizeof *t->best);
    }
    return true;
}

/* Within 0.1 % of the bound more tries do not pay. */
static bool near_enough(const tier *t)
{
    return t->peak <= t->bound || t->peak - t->bound <= t->bound / 1024;
}

static void promote(tier *t)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->off[i] + dti_interval_need(&t->v[i]) > t->bound)
            t->promotion[i] += PROMOTED;
}

/* The first few weighings, of which the best is returned; DT_COUNT(weighings): steps ran out. */
static size_t try_weighings(tier *t, size_t few)
{
    size_t best = 0;
    for (size_t w = 0; w < few && !near_enough(t); w++) {
        const uint64_t before = t->peak;
        rank(t, weighings[w]);
        if (!attempt(t))
            return DT_COUNT(weighings);
        best = t->peak < before ? w : best;
    }
    return best;
}

/* Every weighing, then the best one over and over. */
static void try_all(tier *t)
{
    const size_t best = try_weighings(t, DT_COUNT(weighings));
    if (best == DT_COUNT(weighings))
        return;
    memcpy(t->off, t->best, t->n * sizeof *t->off);
    while (!near_enough(t) && t->peak < UINT64_MAX) {
        promote(t);
        rank(t, weighings[best]);
        if (!attempt(t))
            return;
    }
}

/* ---- repairs ---- */

static uint64_t highest(const tier *t)
{
    uint64_t peak = 0;
    for (size_t i = 0; i < t->n; i++) {
        const uint64_t end = t->best[i] + dti_interval_need(&t->v[i]);
        peak = end > peak ? end : peak;
    }
    return peak;
}

/* Part of the way from the peak to the bound, but not nearer to that than pays. */
static uint64_t choose_goal(const tier *t, double share)
{
    const uint64_t above = (uint64_t)(share * (double)(t->peak - t->bound));
    return t->bound + (above > t->bound / 1024 ? above : t->bound / 1024);
}

/* From the best try down by repairs, to nearer goals after one that failed; each learns from those
 * before it what is hard to place. Once it ends at @good or below, few steps are left, as what they
 * gain is little. @hard: room, by interval. False: no memory. */
static bool repair_best(tier *t, weighing w, double good, double *hard, int64_t steps)
{
    double share = 0.875;
    const int64_t least = steps / 256, few = steps / POLISH;
    for (size_t i = 0; i < t->n; i++)
        hard[i] = power_of_2(weigh(t, w, i));
    while (!near_enough(t) && steps > least && share < 0.999) {
        steps = (double)t->peak <= good && steps > few ? few : steps;
        const int64_t part = steps / REPAIRS;
        int64_t left = part;
        bool done;
        if (!dti_pool_repair(t->v, t->n, hard, choose_goal(t, share), &left, t->best, &done))
            return false;
        steps -= part - left;
        share = !done ? (1 + share) / 2 : share > 0.9 ? share * share : 0.8;
        t->peak = done ? highest(t) : t->peak;
    }
    return true;
}

/* While the level ends above @good, from where it is, by another measure of what is hard to place
 * and with nothing learned: what repairs end at hangs on chance, so that others often get further.
 * @left: steps; what is left of them. False: no memory. */
static bool repair_anew(tier *t, double good, double *hard, int64_t *left)
{
    bool ok = true;
    for (size_t h = 1; ok && h < DT_COUNT(hardness) && *left > 0 && (double)t->peak > good; h++) {
        const int64_t each = (int64_t)(ANEW_EACH * (double)t->n);
        const int64_t steps = each < *left ? each : *left;
        ok = repair_best(t, hardness[h], good, hard, steps);
        *left -= steps;
    }
    return ok;
}

/* How many of n, the largest first, leave but a part of the area to the others. */
static size_t count_large(const tier *t, size_t n, double part)
{
    double all = 0, rest = 0;
    for (size_t i = 0; i < n; i++)
        all += (double)dti_interval_need(&t->v[i]) * (double)dti_interval_length(&t->v[i]);
    for (; n > 1 && rest <= part * all; n--)
        rest += (double)dti_interval_need(&t->v[n - 1]) * (double)dti_interval_length(&t->v[n - 1]);
    return n;
}

/* The large ones first, among themselves, which are few and take nearly all bytes; then, level by
 * level, those that fill what is free between and above them. So a level is to end low by its own
 * bound, though that of all is higher. False: no memory. */
static bool place_levels(tier *t, double *hard)
{
    const size_t n = t->n;
    const double all = (double)t->bound;
    int64_t anew = (int64_t)(ANEW_ALL / (double)n);
    bool ok = true;
    for (size_t k = 0; ok && k < DT_COUNT(levels); k++) {
        t->fixed = k > 0 ? t->n : 0;
        t->n = levels[k].rest > 0 ? count_large(t, n, levels[k].rest) : n;
        if (t->n == t->fixed)
            continue;
        t->steps = k > 0 ? STEPS_A_TIER : STEPS;
        t->peak = UINT64_MAX;
        t->bound = dt_pool_lower_bound(t->v, t->n);
        memset(t->promotion, 0, n * sizeof *t->promotion);
        if (k == 0)
            try_all(t);
        else
            (void)try_weighings(t, FILLING);
        if (t->peak == UINT64_MAX)
            return true;
        const double good = levels[k].good * all;
        ok = repair_best(t, hardness[0], good, hard, levels[k].repair) &&
             repair_anew(t, good, hard, &anew);
    }
    return ok;
}

/* Place n intervals that have bytes, the largest first; off: from 0, by interval. UINT64_MAX: it
 * could not be done. */
static bool place_tier(const dt_interval *v, size_t n, bool once, uint64_t *off, uint64_t *peak)
{
    tier t = {
        .v = v, .n = n, .best = off, .peak = UINT64_MAX, .steps = once ? STEPS_A_TIER : STEPS};
    t.off = dt_alloc(n, sizeof *t.off);
    t.rank = dt_alloc(n, sizeof *t.rank);
    t.load = dt_alloc(n, sizeof *t.load);
    t.promotion = dt_alloc(n, sizeof *t.promotion);
    bool ok = t.off != NULL && t.rank != NULL && t.load != NULL && t.promotion != NULL &&
              find_loads(&t) && make_slabs(&t);
    if (ok && once)
        (void)try_weighings(&t, 1);
    else if (ok)
        ok = place_levels(&t, t.promotion);
    *peak = t.peak;
    for (size_t k = 0; k < t.n_slab; k++)
        dti_shelf_deinit(&t.slab[k]);
    dt_free(t.off);
    dt_free(t.rank);
    dt_free(t.load);
    dt_free(t.promotion);
    return ok;
}

typedef struct sized {
    uint64_t need, length;
    size_t who;
} sized;

static int by_size(const void *a, const void *b)
{
    const sized *p = a, *q = b;
    if (p->need != q->need)
        return p->need > q->need ? -1 : 1;
    if (p->length != q->length)
        return p->length > q->length ? -1 : 1;
    return (p->who > q->who) - (p->who < q->who);
}

/* Largest first, those without bytes left out; returns how many. */
static size_t sort_sizes(sized *s, const dt_interval *v, size_t n)
{
    size_t m = 0;
    for (size_t i = 0; i < n; i++)
        if (v[i].bytes > 0)
            s[m++] = (sized){dti_interval_need(&v[i]), dti_interval_length(&v[i]), i};
    qsort(s, m, sizeof *s, by_size);
    return m;
}

/* Intervals that take next to nothing, by the quick pool. */
static bool place_rest(dt_interval *v, size_t n, uint64_t *off, uint64_t *peak)
{
    const dt_status st = dt_pool_best_fit.place(v, n, peak, NULL);
    for (size_t i = 0; i < n; i++)
        off[i] = v[i].off;
    if (st != DT_OK)
        *peak = UINT64_MAX;
    return st != DT_E_NOMEM;
}

/* Tiers begin at multiples of the largest align, so that each is as if it began at 0. @part: room
 * for n intervals. */
static bool place_tiers(const dt_interval *v, const sized *s, size_t n, bool once,
    dt_interval *part, uint64_t *off, uint64_t *peak)
{
    const size_t tiers = (n + TIER - 1) / TIER;
    uint64_t base = 0, align = 1, high = 0;
    bool ok = true;
    for (size_t i = 0; i < n; i++)
        align = v[s[i].who].align > align ? v[s[i].who].align : align;
    *peak = 0;
    for (size_t from = 0, to; ok && from < n && *peak < UINT64_MAX; from = to) {
        for (size_t i = from; i < n; i++)
            part[i - from] = v[s[i].who];
        const bool small = from > 0 && dt_pool_lower_bound(part, n - from) <= base / SMALL;
        to = small || n - from < 2 * (n / tiers) ? n : from + n / tiers;
        ok = small ? place_rest(part, to - from, off + from, &high)
                   : place_tier(part, to - from, once || tiers > 1, off + from, &high);
        if (!dt_round_up(base, align, &base) || high > UINT64_MAX - base) {
            *peak = UINT64_MAX;
        } else {
            for (size_t i = from; i < to; i++)
                off[i] += base;
            *peak = base += high;
        }
    }
    return ok;
}

bool dti_pool_many(dt_interval *v, size_t n, bool once, uint64_t *peak)
{
    sized *s = dt_alloc(n, sizeof *s);
    uint64_t *off = dt_alloc(n, sizeof *off), found = UINT64_MAX;
    dt_interval *part = dt_alloc(n, sizeof *part);
    const bool room = s != NULL && off != NULL && part != NULL && n <= UINT32_MAX;
    const size_t m = room ? sort_sizes(s, v, n) : 0;
    const bool ok = room && place_tiers(v, s, m, once, part, off, &found);
    if (ok && found < *peak) {
        *peak = found;
        for (size_t i = 0; i < m; i++)
            v[s[i].who].off = off[i];
    }
    dt_free(s);
    dt_free(off);
    dt_free(part);
    return ok;
}
