/* What all pools share: the registry, the bound, and checks of what was placed. */
#include "memory/pools/pool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers.h"

#define DT_POOL(n) extern const dt_pool_desc dt_pool_##n;
#include "memory/pools/pools.def"
#undef DT_POOL

#define DT_POOL(n) #n,
static const char *const names[] = {
#include "memory/pools/pools.def"
    NULL};
#undef DT_POOL

static const dt_pool_desc *const all_pools[] = {
#define DT_POOL(n) &dt_pool_##n,
#include "memory/pools/pools.def"
#undef DT_POOL
};

const dt_pool_desc *const *dt_pool_all(size_t *n)
{
    *n = DT_COUNT(all_pools);
    return all_pools;
}

const dt_pool_desc *dt_pool_find(const char *name)
{
    for (size_t i = 0; i < DT_COUNT(all_pools); i++)
        if (strcmp(all_pools[i]->name, name) == 0)
            return all_pools[i];
    return NULL;
}

const dt_pool_desc *dti_pool_quick(void)
{
    return &dt_pool_best_fit;
}

const char *const *dt_pool_names(void)
{
    return names;
}

dt_status dti_pool_check(const dt_interval *v, size_t n, dt_err *err)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t need;
        if (v[i].bytes == 0)
            continue;
        if (v[i].lower >= v[i].upper)
            return DT_FAIL(err, DT_E_INTERNAL,
                "interval %zu lives during [%" PRId64 ", %" PRId64 "), which is empty", i,
                v[i].lower, v[i].upper);
        if (v[i].align == 0 || (v[i].align & (v[i].align - 1)) != 0)
            return DT_FAIL(err, DT_E_INTERNAL,
                "interval %zu has alignment %" PRIu64 ", which is no power of two", i, v[i].align);
        if (!dt_round_up(v[i].bytes, v[i].align, &need))
            return DT_FAIL(err, DT_E_BUDGET,
                "interval %zu: %" PRIu64 " bytes cannot be rounded up to a multiple of %" PRIu64, i,
                v[i].bytes, v[i].align);
    }
    return DT_OK;
}

static uint64_t saturating_need(const dt_interval *v)
{
    uint64_t need;
    return dt_round_up(v->bytes, v->align, &need) ? need : UINT64_MAX;
}

static uint64_t saturating_add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* The live sum is largest at some interval's start. Needs no memory, takes n * n. */
static uint64_t slow_lower_bound(const dt_interval *v, size_t n)
{
    uint64_t most = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t sum = 0;
        for (size_t j = 0; j < n; j++)
            if (v[j].lower <= v[i].lower && v[i].lower < v[j].upper && v[j].bytes > 0)
                sum = saturating_add(sum, saturating_need(&v[j]));
        most = sum > most ? sum : most;
    }
    return most;
}

static int in_turn(const void *a, const void *b)
{
    const dti_event *p = a, *q = b;
    if (p->at != q->at)
        return p->at < q->at ? -1 : 1;
    if (p->comes != q->comes)
        return p->comes ? 1 : -1;
    return (p->who > q->who) - (p->who < q->who);
}

void dti_events_sort(dti_event *e, size_t n)
{
    qsort(e, n, sizeof *e, in_turn);
}

dti_event *dti_pool_events(const dt_interval *v, size_t n, size_t *m)
{
    dti_event *e = dt_alloc(n, 2 * sizeof *e);
    *m = 0;
    if (e == NULL)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        if (v[i].bytes == 0)
            continue;
        e[(*m)++] = (dti_event){v[i].lower, i, true};
        e[(*m)++] = (dti_event){v[i].upper, i, false};
    }
    dti_events_sort(e, *m);
    return e;
}

static bool lives(const dt_interval *v)
{
    return v->bytes > 0 && v->lower < v->upper;
}

/* Instants from the first start to the last end, if there are no more than some for each interval:
 * then they are gone through one by one, as sorting takes longer. 0: there are more, or none. */
static size_t few_instants(const dt_interval *v, size_t n, int64_t *first)
{
    enum { EACH = 4 };
    int64_t last = INT64_MIN;
    *first = INT64_MAX;
    for (size_t i = 0; i < n; i++) {
        if (!lives(&v[i]))
            continue;
        *first = v[i].lower < *first ? v[i].lower : *first;
        last = v[i].upper > last ? v[i].upper : last;
    }
    const uint64_t span = last > *first ? (uint64_t)last - (uint64_t)*first : 0;
    return span > 0 && span / EACH < n ? (size_t)span + 1 : 0;
}

/* By instant: bytes that come and bytes that go there; where a sum is beyond 2^64, so is that of
 * what lives. */
static uint64_t count_through(
    const dt_interval *v, size_t n, int64_t first, size_t instants, uint64_t *come, uint64_t *go)
{
    for (size_t i = 0; i < n; i++) {
        if (!lives(&v[i]))
            continue;
        const uint64_t need = saturating_need(&v[i]);
        uint64_t *from = &come[(uint64_t)v[i].lower - (uint64_t)first];
        uint64_t *to = &go[(uint64_t)v[i].upper - (uint64_t)first];
        *from = saturating_add(*from, need);
        *to = saturating_add(*to, need);
    }
    uint64_t live = 0, most = 0;
    for (size_t k = 0; k < instants && most < UINT64_MAX; k++) {
        live = saturating_add(live - go[k], come[k]);
        most = live > most ? live : most;
    }
    return most;
}

uint64_t dt_pool_lower_bound(const dt_interval *v, size_t n)
{
    int64_t first;
    const size_t instants = few_instants(v, n, &first);
    uint64_t *come = instants > 0 ? dt_alloc(instants, 2 * sizeof *come) : NULL;
    if (come != NULL) {
        const uint64_t most = count_through(v, n, first, instants, come, come + instants);
        dt_free(come);
        return most;
    }
    size_t m;
    dti_event *e = dti_pool_events(v, n, &m);
    if (e == NULL)
        return slow_lower_bound(v, n);
    uint64_t live = 0, most = 0;
    for (size_t k = 0; k < m && most < UINT64_MAX; k++) {
        const dt_interval *x = &v[e[k].who];
        if (!lives(x))
            continue;
        live = e[k].comes ? saturating_add(live, saturating_need(x)) : live - saturating_need(x);
        most = live > most ? live : most;
    }
    dt_free(e);
    return most;
}
