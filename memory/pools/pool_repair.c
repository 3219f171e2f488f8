/* Ejection chains, as in local searches for strip packing: what ends above the goal is taken out,
 * and the hardest of what is out goes where it drives out what is easiest, which is then out
 * itself. What has been driven out before is harder to drive out again, so that no chain goes round
 * for ever, and goes earlier when it is out. It ends when nothing is out, or when steps have run
 * out.
 *
 * What an interval would drive out at an offset is the sum over those that live when it does and
 * begin below its end, less the sum over those that end below its beginning; so two sorted lists,
 * merged, tell it of all offsets in one pass. In here intervals are numbered by when they begin. */
#include "memory/pools/pool_repair.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"

enum { DIGIT = 8 }; /* bits of offsets that are sorted at a time */
/* A step is a look at an interval that turns out to lie elsewhere. One that is near takes so many,
 * and counting digits so many more. */
enum { NEAR = 12, SORT = 512 };
/* Each time it is driven out an interval gains so much of its hardness as cost, and then so much of
 * it as hardness, up to where products might overflow. */
static const double AGAIN = 0.3, HARDER = 0.05, HARDEST = 1e100;
static const uint64_t nowhere = UINT64_MAX;

/* Where an interval begins or ends, and what driving it out costs. */
typedef struct edge {
    uint64_t at;
    double cost;
} edge;

/* What is asked of each neighbour, side by side in memory, as neighbours are many and scattered:
 * from off (nowhere: it is out) to before end, living until upper. */
typedef struct placed {
    uint64_t off, end;
    double cost; /* to drive it out */
    int64_t upper;
} placed;

/**
 * struct repair - a placement on its way; of intervals in the order in which they begin:
 * @who: which of the caller's
 * @lower @need @align: as they are
 * @at: where they are
 * @hard: to place
 * @start @width @first @alive: the time in spans of so many instants; those that live in span k are
 * alive[first[k] .. first[k + 1]]
 * @near @n_near: those that lie somewhere and live when the one at hand does
 * @low @high @sorted: their beginnings and ends, and room to sort them
 * @bits: of the goal
 * @out @n_out: those that are out, a heap: none is harder than that at half of its place
 */
typedef struct repair {
    size_t n;
    uint64_t goal;
    int64_t steps;
    uint32_t *who, *alive, *near, *out;
    int64_t *lower;
    uint64_t *need, *align;
    placed *at;
    double *hard;
    size_t *first, n_span, n_near, n_out;
    int64_t start;
    uint64_t width;
    edge *low, *high, *sorted;
    int bits;
} repair;

/* ---- who lives when ---- */

typedef struct starting {
    int64_t lower;
    uint32_t who;
} starting;

static int by_lower(const void *a, const void *b)
{
    const starting *p = a, *q = b;
    if (p->lower != q->lower)
        return p->lower > q->lower ? 1 : -1;
    return (p->who > q->who) - (p->who < q->who);
}

static bool number_by_start(
    repair *r, const dt_interval *v, const double *hard, const uint64_t *off)
{
    starting *s = dt_alloc(r->n, sizeof *s);
    if (s == NULL)
        return false;
    for (size_t i = 0; i < r->n; i++)
        s[i] = (starting){v[i].lower, (uint32_t)i};
    qsort(s, r->n, sizeof *s, by_lower);
    for (size_t i = 0; i < r->n; i++) {
        const uint32_t who = s[i].who;
        r->who[i] = who;
        r->lower[i] = v[who].lower;
        r->need[i] = dti_interval_need(&v[who]);
        r->align[i] = v[who].align;
        r->hard[i] = hard[who];
        r->at[i] = (placed){off[who], off[who] + r->need[i], hard[who], v[who].upper};
    }
    dt_free(s);
    return true;
}

static size_t span_of(const repair *r, int64_t when)
{
    return (size_t)(((uint64_t)when - (uint64_t)r->start) / r->width);
}

/* Spans of a quarter of a life in the mean, so that an interval is in few of them, and no more of
 * them than intervals. */
static bool cut_time(repair *r)
{
    int64_t end = INT64_MIN;
    double lives = 0;
    r->start = r->lower[0];
    for (size_t i = 0; i < r->n; i++) {
        end = r->at[i].upper > end ? r->at[i].upper : end;
        lives += (double)((uint64_t)r->at[i].upper - (uint64_t)r->lower[i]);
    }
    const uint64_t whole = (uint64_t)end - (uint64_t)r->start;
    const double quarter = lives / (double)r->n / 4, least = (double)whole / (double)r->n;
    const double width = quarter > least ? quarter : least;
    r->width = width < (double)whole / 2 ? (uint64_t)width + 1 : whole;
    r->n_span = (size_t)((whole - 1) / r->width) + 1;
    r->first = dt_alloc(r->n_span + 2, sizeof *r->first);
    return r->first != NULL;
}

static bool list_alive(repair *r)
{
    for (size_t i = 0; i < r->n; i++)
        for (size_t k = span_of(r, r->lower[i]); k <= span_of(r, r->at[i].upper - 1); k++)
            r->first[k + 2]++;
    for (size_t k = 2; k < r->n_span + 2; k++)
        r->first[k] += r->first[k - 1];
    r->alive = dt_alloc(r->first[r->n_span + 1], sizeof *r->alive);
    if (r->alive == NULL)
        return false;
    for (size_t i = 0; i < r->n; i++)
        for (size_t k = span_of(r, r->lower[i]); k <= span_of(r, r->at[i].upper - 1); k++)
            r->alive[r->first[k + 1]++] = (uint32_t)i;
    return true;
}

/* The first that begins at or behind an instant. */
static size_t first_from(const repair *r, int64_t when)
{
    size_t low = 0, high = r->n;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (r->lower[mid] >= when)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

/* Those that live when x begins, and those that begin while it lives. */
static void look_around(repair *r, uint32_t x)
{
    const int64_t lower = r->lower[x];
    const size_t k = span_of(r, lower), from = first_from(r, lower + 1),
                 to = first_from(r, r->at[x].upper);
    size_t n = 0;
    for (size_t a = r->first[k]; a < r->first[k + 1] && r->alive[a] < from; a++) {
        const uint32_t y = r->alive[a];
        r->near[n] = y;
        n += (size_t)((r->at[y].upper > lower) & (r->at[y].off != nowhere));
    }
    for (size_t y = from; y < to; y++) {
        r->near[n] = (uint32_t)y;
        n += r->at[y].off != nowhere;
    }
    r->n_near = n;
    r->steps -= (int64_t)(r->first[k + 1] - r->first[k] + (to - from));
}

/* ---- where one goes ---- */

/* By two digits of the upper bits of a goal, the lower one first; the few that share both are put
 * in order behind. */
static void sort_edges(repair *r, edge *a, size_t n)
{
    enum { DIGITS = 1 << DIGIT };
    const int shift = r->bits > 2 * DIGIT ? r->bits - 2 * DIGIT : 0;
    uint32_t low[DIGITS + 1] = {0}, high[DIGITS + 1] = {0};
    edge *b = r->sorted;
    for (size_t i = 0; i < n; i++) {
        const uint64_t key = a[i].at >> shift;
        low[key % DIGITS + 1]++;
        high[key / DIGITS + 1]++;
    }
    for (size_t d = 1; d < DIGITS; d++) {
        low[d] += low[d - 1];
        high[d] += high[d - 1];
    }
    for (size_t i = 0; i < n; i++)
        b[low[(a[i].at >> shift) % DIGITS]++] = a[i];
    for (size_t i = 0; i < n; i++)
        a[high[(b[i].at >> shift) / DIGITS]++] = b[i];
    for (size_t i = 1; i < n; i++) {
        const edge x = a[i];
        size_t k = i;
        for (; k > 0 && a[k - 1].at > x.at; k--)
            a[k] = a[k - 1];
        a[k] = x;
        r->steps -= (int64_t)(i - k);
    }
}

/* Behind each list stands what is never reached. Of the ends the first is the bottom. */
static void list_edges(repair *r)
{
    const size_t n = r->n_near;
    r->high[0] = (edge){0, 0};
    for (size_t i = 0; i < n; i++) {
        const placed *y = &r->at[r->near[i]];
        r->low[i] = (edge){y->off, y->cost};
        r->high[i + 1] = (edge){y->end, y->cost};
    }
    sort_edges(r, r->low, n);
    sort_edges(r, r->high, n + 1);
    r->low[n] = r->high[n + 1] = (edge){nowhere, 0};
}

/* An offset, and what it costs. */
typedef struct place {
    uint64_t off;
    double cost;
} place;

/* The cheapest place on another, or at the bottom; or, if that is cheaper, right below another.
 * Ends, and so much behind them as is needed, are merged with beginnings: what has begun and not
 * ended is in the way. */
static uint64_t cheapest(const repair *r, uint32_t x)
{
    const uint64_t need = r->need[x], rest = r->align[x] - 1, last = r->goal - need;
    place best[2] = {{nowhere, HUGE_VAL}, {nowhere, HUGE_VAL}}; /* below, on */
    double begun = 0, ended = 0;
    const edge *low = r->low, *high = r->high;
    for (;;) {
        const uint64_t above = high->at <= last ? (high->at + rest) & ~rest : nowhere;
        const bool on = above <= last && above + need <= low->at;
        if (!on && low->at == nowhere)
            break;
        const double cost = begun - (ended + (on ? high->cost : 0));
        if (cost < best[on].cost && (on || low->at >= need)) {
            if (on && cost <= 1e-9 * begun)
                return above;
            best[on] = (place){on ? above : (low->at - need) & ~rest, cost};
        }
        begun += on ? 0 : low->cost;
        ended += on ? high->cost : 0;
        low += !on;
        high += on;
    }
    return best[0].cost < best[1].cost ? best[0].off : best[1].off;
}

/* ---- what is out ---- */

static void put_out(repair *r, uint32_t x)
{
    size_t at = ++r->n_out;
    for (; at > 1 && r->hard[r->out[at / 2]] < r->hard[x]; at /= 2)
        r->out[at] = r->out[at / 2];
    r->out[at] = x;
    r->at[x].off = nowhere;
}

static uint32_t take_hardest(repair *r)
{
    const uint32_t top = r->out[1], x = r->out[r->n_out--];
    size_t at = 1;
    for (size_t next = 2; next <= r->n_out; next = 2 * at) {
        next += next < r->n_out && r->hard[r->out[next]] < r->hard[r->out[next + 1]];
        if (!(r->hard[x] < r->hard[r->out[next]]))
            break;
        r->out[at] = r->out[next];
        at = next;
    }
    r->out[at] = x;
    return top;
}

/* Put it there; what is in the way is out. */
static void settle(repair *r, uint32_t x)
{
    look_around(r, x);
    list_edges(r);
    const uint64_t off = cheapest(r, x), end = off + r->need[x];
    r->steps -= (int64_t)r->n_near * NEAR + SORT;
    for (size_t i = 0; i < r->n_near; i++) {
        const uint32_t y = r->near[i];
        if (r->at[y].off >= end || r->at[y].end <= off)
            continue;
        r->at[y].cost += AGAIN * r->hard[y];
        if (r->hard[y] < HARDEST)
            r->hard[y] += HARDER * r->hard[y];
        put_out(r, y);
    }
    r->at[x].off = off;
    r->at[x].end = end;
}

/* ---- all of it ---- */

static bool init(repair *r, const dt_interval *v, const double *hard, const uint64_t *off)
{
    r->who = dt_alloc(r->n, sizeof *r->who);
    r->near = dt_alloc(r->n + 1, sizeof *r->near);
    r->out = dt_alloc(r->n + 2, sizeof *r->out);
    r->lower = dt_alloc(r->n, sizeof *r->lower);
    r->need = dt_alloc(r->n, sizeof *r->need);
    r->align = dt_alloc(r->n, sizeof *r->align);
    r->at = dt_alloc(r->n, sizeof *r->at);
    r->hard = dt_alloc(r->n, sizeof *r->hard);
    r->low = dt_alloc(r->n + 2, sizeof *r->low);
    r->high = dt_alloc(r->n + 2, sizeof *r->high);
    r->sorted = dt_alloc(r->n + 2, sizeof *r->sorted);
    if (r->who == NULL || r->near == NULL || r->out == NULL || r->lower == NULL ||
        r->need == NULL || r->align == NULL || r->at == NULL || r->hard == NULL || r->low == NULL ||
        r->high == NULL || r->sorted == NULL)
        return false;
    while (r->bits < 64 && r->goal >> r->bits > 0)
        r->bits++;
    return number_by_start(r, v, hard, off) && cut_time(r) && list_alive(r);
}

static void deinit(repair *r)
{
    dt_free(r->who);
    dt_free(r->alive);
    dt_free(r->near);
    dt_free(r->out);
    dt_free(r->lower);
    dt_free(r->need);
    dt_free(r->align);
    dt_free(r->at);
    dt_free(r->hard);
    dt_free(r->first);
    dt_free(r->low);
    dt_free(r->high);
    dt_free(r->sorted);
}

bool dti_pool_repair(const dt_interval *v, size_t n, double *hard, uint64_t goal, int64_t *steps,
    uint64_t *off, bool *done)
{
    repair r = {.n = n, .goal = goal, .steps = *steps};
    *done = false;
    if (goal > UINT64_MAX / 2) /* rounding up may go round */
        return true;
    const bool ok = init(&r, v, hard, off);
    for (uint32_t i = 0; ok && i < n; i++)
        if (r.at[i].end > goal)
            put_out(&r, i);
    while (ok && r.n_out > 0 && r.steps > 0)
        settle(&r, take_hardest(&r));
    *done = ok && r.n_out == 0;
    for (size_t i = 0; *done && i < n; i++)
        off[r.who[i]] = r.at[i].off;
    for (size_t i = 0; ok && i < n; i++)
        hard[r.who[i]] = sqrt(hard[r.who[i]] * r.hard[i]);
    *steps = r.steps;
    deinit(&r);
    return ok;
}
