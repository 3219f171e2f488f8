/* Ejection chains, as in local searches for strip packing: what ends above the goal is taken out,
 * and the hardest of what is out goes where it drives out what is easiest, which is then out
 * itself. What has been driven out before is harder to drive out again, so that no chain goes round
 * for ever. It ends when nothing is out, or when steps have run out.
 *
 * What an interval would drive out at an offset is the sum over those that live when it does and
 * begin below its end, less the sum over those that end below its beginning; so two sorted lists
 * tell it of all offsets in one pass. */
#include "memory/pools/pool_repair.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"

/* Offsets are sorted by so many of their bits, in two digits, or in three where they are few: then
 * counting takes longer than sorting. */
enum { SORTED = 22, DIGIT = 11, SHORT = 8, FEW = 1024 };
enum { LOOK = 3, LOOKS = 2 << DIGIT }; /* steps of sorting an interval, and of any sort */
static const uint64_t nowhere = UINT64_MAX;

/* Where an interval begins or ends, and what driving it out costs. */
typedef struct edge {
    uint64_t at;
    double cost;
} edge;

/**
 * struct repair - a placement on its way.
 * @by_start: intervals in the order in which they begin
 * @start @width @first @alive: the time in spans of so many instants; those that live in span k are
 * alive[first[k] .. first[k + 1]]
 * @off: nowhere: it is out
 * @times: how often it was driven out
 * @near @n_near: those that lie somewhere and live when the one at hand does
 * @low @high @sorted: their beginnings and ends, and room to sort them
 * @shift: bits of an offset that sorting leaves out
 * @out @n_out: those that are out
 */
typedef struct repair {
    const dt_interval *v;
    size_t n;
    const double *hard;
    uint64_t goal;
    int64_t steps;
    uint32_t *by_start, *alive, *near, *out, *times;
    size_t *first, n_span, n_near, n_out;
    int64_t start;
    uint64_t width;
    uint64_t *off;
    edge *low, *high, *sorted;
    int shift;
} repair;

static uint64_t end_of(const repair *r, uint32_t who)
{
    return r->off[who] + dti_interval_need(&r->v[who]);
}

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

static bool sort_starts(repair *r)
{
    starting *s = dt_alloc(r->n, sizeof *s);
    if (s == NULL)
        return false;
    for (size_t i = 0; i < r->n; i++)
        s[i] = (starting){r->v[i].lower, (uint32_t)i};
    qsort(s, r->n, sizeof *s, by_lower);
    for (size_t i = 0; i < r->n; i++)
        r->by_start[i] = s[i].who;
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
    r->start = INT64_MAX;
    for (size_t i = 0; i < r->n; i++) {
        r->start = r->v[i].lower < r->start ? r->v[i].lower : r->start;
        end = r->v[i].upper > end ? r->v[i].upper : end;
        lives += (double)((uint64_t)r->v[i].upper - (uint64_t)r->v[i].lower);
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
        for (size_t k = span_of(r, r->v[i].lower); k <= span_of(r, r->v[i].upper - 1); k++)
            r->first[k + 2]++;
    for (size_t k = 2; k < r->n_span + 2; k++)
        r->first[k] += r->first[k - 1];
    r->alive = dt_alloc(r->first[r->n_span + 1], sizeof *r->alive);
    if (r->alive == NULL)
        return false;
    for (size_t i = 0; i < r->n; i++)
        for (size_t k = span_of(r, r->v[i].lower); k <= span_of(r, r->v[i].upper - 1); k++)
            r->alive[r->first[k + 1]++] = (uint32_t)i;
    return true;
}

/* The first in the order of starts that begins behind an instant. */
static size_t first_behind(const repair *r, int64_t when)
{
    size_t low = 0, high = r->n;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (r->v[r->by_start[mid]].lower > when)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

/* Those that live when x begins, and those that begin while it lives. */
static void look_around(repair *r, const dt_interval *x)
{
    const size_t k = span_of(r, x->lower), from = first_behind(r, x->lower);
    size_t n = 0, i = from;
    for (size_t a = r->first[k]; a < r->first[k + 1]; a++) {
        const uint32_t y = r->alive[a];
        r->near[n] = y;
        n += (size_t)((r->v[y].lower <= x->lower) & (r->v[y].upper > x->lower) &
                      (r->off[y] != nowhere));
    }
    for (; i < r->n && r->v[r->by_start[i]].lower < x->upper; i++) {
        r->near[n] = r->by_start[i];
        n += r->off[r->by_start[i]] != nowhere;
    }
    r->n_near = n;
    r->steps -= (int64_t)(r->first[k + 1] - r->first[k] + (i - from));
}

/* ---- where one goes ---- */

/* By the digit behind so many bits. */
static void sort_by_digit(repair *r, edge **e, int shift, int bits)
{
    const size_t digits = (size_t)1 << bits;
    const edge *from = *e;
    edge *to = r->sorted;
    uint32_t at[(1 << DIGIT) + 1];
    memset(at, 0, (digits + 1) * sizeof *at);
    for (size_t i = 0; i < r->n_near; i++)
        at[((from[i].at >> shift) & (digits - 1)) + 1]++;
    for (size_t d = 0; d < digits; d++)
        at[d + 1] += at[d];
    for (size_t i = 0; i < r->n_near; i++)
        to[at[(from[i].at >> shift) & (digits - 1)]++] = from[i];
    r->sorted = *e;
    *e = to;
}

/* By the bits that count, which are the upper ones of a goal: the least come first. */
static void sort_edges(repair *r, edge **e)
{
    const int bits = r->n_near < FEW ? SHORT : DIGIT;
    for (int sorted = 0; sorted < SORTED; sorted += bits)
        sort_by_digit(r, e, r->shift + sorted, bits);
}

static void list_edges(repair *r)
{
    for (size_t i = 0; i < r->n_near; i++) {
        const uint32_t y = r->near[i];
        const double cost = r->hard[y] * (1 + (double)r->times[y]);
        r->low[i] = (edge){r->off[y], cost};
        r->high[i] = (edge){end_of(r, y), cost};
    }
    sort_edges(r, &r->low);
    sort_edges(r, &r->high);
    r->steps -= (int64_t)r->n_near * LOOK + LOOKS;
}

/* The best offset so far, and what it costs. */
typedef struct place {
    uint64_t off;
    double cost;
} place;

/* Where it lies on another, or at the bottom. */
static place on_others(const repair *r, const dt_interval *x)
{
    const uint64_t need = dti_interval_need(x);
    place best = {nowhere, HUGE_VAL};
    double begun = 0, ended = 0;
    size_t l = 0;
    for (size_t i = 0; i <= r->n_near && best.cost > 0; i++) {
        uint64_t off;
        ended += i > 0 ? r->high[i - 1].cost : 0;
        if (!dti_round_up(i > 0 ? r->high[i - 1].at : 0, x->align, &off) || off > r->goal - need)
            break;
        for (; l < r->n_near && r->low[l].at < off + need; l++)
            begun += r->low[l].cost;
        const double cost = begun - ended > 1e-9 * begun ? begun - ended : 0;
        if (cost < best.cost)
            best = (place){off, cost};
    }
    return best;
}

/* Or right below another. */
static place below_others(const repair *r, const dt_interval *x, place best)
{
    const uint64_t need = dti_interval_need(x);
    double begun = 0, ended = 0;
    size_t l = 0, h = 0;
    for (size_t i = 0; i < r->n_near && best.cost > 0; i++) {
        if (r->low[i].at < need)
            continue;
        const uint64_t off = (r->low[i].at - need) & ~(x->align - 1);
        if (off > r->goal - need)
            break;
        for (; l < r->n_near && r->low[l].at < off + need; l++)
            begun += r->low[l].cost;
        for (; h < r->n_near && r->high[h].at <= off; h++)
            ended += r->high[h].cost;
        if (begun - ended < best.cost)
            best = (place){off, begun - ended};
    }
    return best;
}

/* Put it there; what is in the way is out. */
static void settle(repair *r, uint32_t who)
{
    const dt_interval *x = &r->v[who];
    look_around(r, x);
    list_edges(r);
    const uint64_t off = below_others(r, x, on_others(r, x)).off;
    const uint64_t end = off + dti_interval_need(x);
    for (size_t i = 0; i < r->n_near; i++) {
        const uint32_t y = r->near[i];
        if (r->off[y] >= end || end_of(r, y) <= off)
            continue;
        r->off[y] = nowhere;
        r->times[y]++;
        r->out[r->n_out++] = y;
    }
    r->off[who] = off;
}

static uint32_t take_hardest(repair *r)
{
    size_t at = 0;
    for (size_t i = 1; i < r->n_out; i++)
        at = r->hard[r->out[i]] > r->hard[r->out[at]] ? i : at;
    r->steps -= (int64_t)r->n_out;
    const uint32_t who = r->out[at];
    r->out[at] = r->out[--r->n_out];
    return who;
}

/* ---- all of it ---- */

static bool init(repair *r, const uint64_t *off)
{
    r->by_start = dt_alloc(r->n, sizeof *r->by_start);
    r->near = dt_alloc(r->n + 1, sizeof *r->near);
    r->out = dt_alloc(r->n, sizeof *r->out);
    r->times = dt_alloc(r->n, sizeof *r->times);
    r->off = dt_alloc(r->n, sizeof *r->off);
    r->low = dt_alloc(r->n, sizeof *r->low);
    r->high = dt_alloc(r->n, sizeof *r->high);
    r->sorted = dt_alloc(r->n, sizeof *r->sorted);
    if (r->by_start == NULL || r->near == NULL || r->out == NULL || r->times == NULL ||
        r->off == NULL || r->low == NULL || r->high == NULL || r->sorted == NULL)
        return false;
    memcpy(r->off, off, r->n * sizeof *off);
    while (r->goal >> r->shift >> SORTED > 0)
        r->shift++;
    return sort_starts(r) && cut_time(r) && list_alive(r);
}

static void deinit(repair *r)
{
    dt_free(r->by_start);
    dt_free(r->alive);
    dt_free(r->near);
    dt_free(r->out);
    dt_free(r->times);
    dt_free(r->first);
    dt_free(r->off);
    dt_free(r->low);
    dt_free(r->high);
    dt_free(r->sorted);
}

bool dti_pool_repair(const dt_interval *v, size_t n, const double *hard, uint64_t goal,
    int64_t *steps, uint64_t *off, bool *done)
{
    repair r = {.v = v, .n = n, .hard = hard, .goal = goal, .steps = *steps};
    const bool ok = init(&r, off);
    for (size_t i = 0; ok && i < n; i++)
        if (end_of(&r, (uint32_t)i) > goal) {
            r.off[i] = nowhere;
            r.out[r.n_out++] = (uint32_t)i;
        }
    while (ok && r.n_out > 0 && r.steps > 0)
        settle(&r, take_hardest(&r));
    *done = ok && r.n_out == 0;
    if (*done)
        memcpy(off, r.off, n * sizeof *off);
    *steps = r.steps;
    deinit(&r);
    return ok;
}
