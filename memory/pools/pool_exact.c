/* Offline, by search: from greedy's placement down to the bound, or as far as a limit on the nodes
 * looked at allows. A height is tried by a search for a placement below it, cut after some nodes;
 * then another height or another order of preference is tried, and later all of them again with
 * more nodes: most problems are easy for some order, and few are hard for all. The same input gives
 * the same output. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers.h"
#include "memory/pools/pool.h"
#include "memory/pools/pool_canonical.h"

extern const dt_pool_desc dt_pool_greedy;

enum {
    MOST = 4096,       /* intervals; greedy's placement of more is not searched further */
    FIRST_NODES = 1024 /* of an attempt in the first round; twice as many in each later one */
};
static const uint64_t work = 1600000000; /* nodes times intervals: 5 to 30 seconds */
static const uint64_t highest = (uint64_t)1 << 62;

typedef struct ranked {
    double key;
    uint32_t item;
} ranked;

typedef struct search {
    dt_interval *v; /* off: the best placement so far */
    dti_canon canon;
    dti_canon_item *item; /* by preference of nobody */
    ranked *rank;
    uint64_t *busiest; /* the most bytes live in any of an item's sections */
    uint64_t unit;     /* offsets and ends of canonical placements are multiples */
    uint64_t peak;     /* of the best placement */
    uint64_t low;      /* no placement is lower */
    uint64_t nodes, max_nodes, random;
} search;

/* Cut the time into sections, one for each largest set of intervals that live at once: two
 * intervals meet in time if and only if they share one. Returns how many. */
static size_t cut_sections(dti_canon_item *item, dti_event *e, size_t n_event)
{
    uint32_t section = 0;
    bool grown = false;
    dti_events_sort(e, n_event);
    for (size_t k = 0; k < n_event; k++) {
        if (e[k].comes) {
            item[e[k].who].first = section;
            grown = true;
            continue;
        }
        section += grown;
        grown = false;
        item[e[k].who].last = section;
    }
    return section;
}

static void find_busiest(search *s, uint64_t *load)
{
    for (size_t i = 0; i < s->canon.n; i++)
        for (uint32_t t = s->item[i].first; t < s->item[i].last; t++)
            load[t] += s->item[i].need;
    for (size_t i = 0; i < s->canon.n; i++)
        for (uint32_t t = s->item[i].first; t < s->item[i].last; t++)
            s->busiest[i] = load[t] > s->busiest[i] ? load[t] : s->busiest[i];
}

/* What the search is about: intervals that have bytes, in sections. */
static bool prepare(search *s, size_t n)
{
    dti_event *e = dt_alloc(n, 2 * sizeof *e);
    s->item = dt_alloc(n, sizeof *s->item);
    s->rank = dt_alloc(n, sizeof *s->rank);
    s->busiest = dt_alloc(n, sizeof *s->busiest);
    bool ok = e != NULL && s->item != NULL && s->rank != NULL && s->busiest != NULL;
    size_t m = 0;
    for (size_t i = 0; ok && i < n; i++) {
        if (s->v[i].bytes == 0)
            continue;
        const uint64_t need = dti_interval_need(&s->v[i]);
        s->unit = dt_gcd(need, s->unit);
        s->item[m] = (dti_canon_item){.need = need, .align = s->v[i].align, .who = (uint32_t)i};
        e[2 * m] = (dti_event){s->v[i].lower, m, true};
        e[2 * m + 1] = (dti_event){s->v[i].upper, m, false};
        m++;
    }
    for (size_t i = 0; i < m; i++)
        if (s->unit % s->item[i].align != 0)
            s->unit = dt_gcd(s->item[i].align, s->unit);
    const size_t sections = ok ? cut_sections(s->item, e, 2 * m) : 0;
    ok = ok && dti_canon_init(&s->canon, m, sections);
    if (ok)
        find_busiest(s, s->canon.total);
    dt_free(e);
    return ok;
}

static void release(search *s)
{
    dti_canon_deinit(&s->canon);
    dt_free(s->item);
    dt_free(s->rank);
    dt_free(s->busiest);
}

static double length(const search *s, size_t i)
{
    return (double)dti_interval_length(&s->v[s->item[i].who]);
}

static double by_length(const search *s, size_t i)
{
    return length(s, i);
}

static double by_area(const search *s, size_t i)
{
    return length(s, i) * (double)s->item[i].need;
}

static double by_sections(const search *s, size_t i)
{
    return (double)(s->item[i].last - s->item[i].first) * (double)s->busiest[i];
}

/* Those of the busiest sections first. */
static double by_load(const search *s, size_t i)
{
    const double load = (double)s->busiest[i];
    return load * load * load * load * by_area(s, i);
}

static double by_load_length(const search *s, size_t i)
{
    const double load = (double)s->busiest[i];
    return load * load * load * load * length(s, i);
}

static double by_bytes(const search *s, size_t i)
{
    return (double)s->item[i].need;
}

static double (*const rules[])(const search *s, size_t i) = {
    by_length, by_area, by_sections, by_load, by_load_length, by_bytes};

static int by_key(const void *a, const void *b)
{
    const ranked *p = a, *q = b;
    if (p->key != q->key)
        return p->key > q->key ? -1 : 1;
    return (p->item > q->item) - (p->item < q->item);
}

/* An order of preference. After the first round it is shaken: a factor between 1/2 and 1 on each
 * key. */
static void order(search *s, size_t rule, bool shaken)
{
    const size_t n = s->canon.n;
    for (size_t i = 0; i < n; i++) {
        const double factor = shaken ? (double)(512 + dti_pool_draw(&s->random, 512)) : 1;
        s->rank[i] = (ranked){rules[rule](s, i) * factor, (uint32_t)i};
    }
    qsort(s->rank, n, sizeof *s->rank, by_key);
    for (size_t i = 0; i < n; i++)
        s->canon.item[i] = s->item[s->rank[i].item];
}

static bool finished(const search *s)
{
    return s->low >= s->peak || s->nodes >= s->max_nodes || s->canon.no_memory;
}

static void attempt(search *s, uint64_t height, uint64_t nodes)
{
    dti_canon *c = &s->canon;
    const uint64_t left = s->max_nodes - s->nodes;
    const bool found = dti_canon_search(c, height, nodes < left ? nodes : left);
    s->nodes += c->nodes;
    if (!found) {
        if (!c->cut)
            s->low = height + s->unit;
        return;
    }
    s->peak = 0;
    for (size_t i = 0; i < c->n; i++) {
        const uint64_t end = c->off[i] + c->item[i].need;
        s->peak = end > s->peak ? end : s->peak;
        s->v[c->item[i].who].off = c->off[i];
    }
}

/* A height between the lowest that may be and the last that is of use, @part of 4 from below. */
static uint64_t between(const search *s, uint64_t part)
{
    const uint64_t units = (s->peak - s->low) / s->unit;
    return s->low + (units - (units > 0)) * part / 4 * s->unit;
}

static void rounds(search *s)
{
    for (uint64_t nodes = FIRST_NODES; !finished(s); nodes *= 2)
        for (size_t r = 0; r < DT_COUNT(rules) && !finished(s); r++) {
            order(s, r, nodes > FIRST_NODES);
            for (uint64_t part = 0, before = 0; part <= 4 && !finished(s); part += 2) {
                const uint64_t height = between(s, part);
                if (part == 0 || height > before)
                    attempt(s, height, nodes);
                before = height;
            }
        }
}

static bool can_search(const dt_interval *v, size_t n, uint64_t peak)
{
    if (n > MOST || peak > highest)
        return false;
    for (size_t i = 0; i < n; i++)
        if (v[i].bytes > 0 && v[i].align > highest)
            return false;
    return true;
}

static dt_status look_further(
    dt_interval *v, size_t n, dt_pool_effort *effort, uint64_t *peak, dt_err *err)
{
    search s = {.v = v,
        .peak = *peak,
        .low = dt_pool_lower_bound(v, n),
        .max_nodes = effort->max_nodes > 0 ? effort->max_nodes : work / (n > 0 ? n : 1),
        .random = DTI_POOL_RANDOM};
    dt_status st = DT_OK;
    if (s.low < s.peak && can_search(v, n, s.peak)) {
        if (prepare(&s, n))
            rounds(&s);
        else
            s.canon.no_memory = true;
        if (s.canon.no_memory)
            st = DT_FAIL(err, DT_E_NOMEM, "pool exact: out of memory for %zu intervals", n);
        release(&s);
    }
    *peak = s.peak;
    effort->nodes = s.nodes;
    effort->optimal = s.low >= s.peak;
    return st;
}

static dt_status search_from_greedy(
    dt_interval *v, size_t n, dt_pool_effort *effort, uint64_t *peak, dt_err *err)
{
    DT_TRY(err, dt_pool_greedy.place(v, n, peak, err), "for pool exact to begin with");
    return look_further(v, n, effort, peak, err);
}

static dt_status place(dt_interval *v, size_t n, uint64_t *peak, dt_err *err)
{
    dt_pool_effort effort = {0};
    return search_from_greedy(v, n, &effort, peak, err);
}

const dt_pool_desc dt_pool_exact = {
    .name = "exact",
    .summary =
        "searched for, from greedy's on: the lowest there is, or that some seconds of work find",
    .place = place,
    .search = search_from_greedy,
    .tries = &dt_pool_greedy,
};
