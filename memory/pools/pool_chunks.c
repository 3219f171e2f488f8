/* Allocators at run time by their rules: segments, chunks, and lists of the free ones. */
#include "memory/pools/pool_chunks.h"

#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers.h"

#define NONE SIZE_MAX

typedef struct chunk {
    uint64_t off, bytes;
    size_t prev, next; /* in the segment */
    size_t list;
    bool free;
} chunk;

/* A free chunk as its list holds it. Both keys are there, so that order needs no other look-up. */
typedef struct entry {
    uint64_t first, off; /* first: bytes, or 0 where the lowest is taken */
    size_t chunk;
} entry;

typedef struct free_list {
    entry *entry; /* in order */
    size_t n;
} free_list;

typedef struct heap {
    const dti_chunk_rules *rules;
    chunk *chunks;
    size_t n;
    free_list lists[DTI_CHUNK_LISTS];
    uint64_t state, reserved;
} heap;

static entry entry_of(const heap *h, size_t at)
{
    const chunk *c = &h->chunks[at];
    return (entry){h->rules->lowest ? 0 : c->bytes, c->off, at};
}

/* The first of a list's entries that is not before x. */
static size_t find(const free_list *l, const entry *x)
{
    size_t lo = 0, hi = l->n;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        const entry *e = &l->entry[mid];
        if (e->first < x->first || (e->first == x->first && e->off < x->off))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void set_free(heap *h, size_t at)
{
    free_list *l = &h->lists[h->chunks[at].list];
    const entry x = entry_of(h, at);
    const size_t i = find(l, &x);
    memmove(&l->entry[i + 1], &l->entry[i], (l->n - i) * sizeof *l->entry);
    l->entry[i] = x;
    l->n++;
    h->chunks[at].free = true;
}

static void set_taken(heap *h, size_t at)
{
    free_list *l = &h->lists[h->chunks[at].list];
    const entry x = entry_of(h, at);
    const size_t i = find(l, &x);
    memmove(&l->entry[i], &l->entry[i + 1], (l->n - i - 1) * sizeof *l->entry);
    l->n--;
    h->chunks[at].free = false;
}

/* Cut a chunk that is not in its list after so many bytes; the upper part becomes free. */
static void cut(heap *h, size_t at, uint64_t bytes)
{
    chunk *c = &h->chunks[at];
    const size_t upper = h->n++;
    h->chunks[upper] = (chunk){.off = c->off + bytes,
        .bytes = c->bytes - bytes,
        .prev = at,
        .next = c->next,
        .list = c->list};
    if (c->next != NONE)
        h->chunks[c->next].prev = upper;
    c->next = upper;
    c->bytes = bytes;
    set_free(h, upper);
}

/* Whether need bytes at a multiple of align fit into so many at off; where they lie. */
static bool fits(uint64_t off, uint64_t bytes, uint64_t need, uint64_t align, uint64_t *at)
{
    return dt_round_up(off, align, at) && *at - off <= bytes && bytes - (*at - off) >= need;
}

static size_t choose(const heap *h, size_t list, uint64_t need, uint64_t align)
{
    const free_list *l = &h->lists[list];
    const entry least = {h->rules->lowest ? 0 : need, 0, NONE};
    for (size_t i = find(l, &least); i < l->n; i++) {
        const chunk *c = &h->chunks[l->entry[i].chunk];
        uint64_t at;
        if (fits(c->off, c->bytes, need, align, &at))
            return l->entry[i].chunk;
    }
    return NONE;
}

/* A new segment, one free chunk; NONE when it would end beyond 2^64. */
static size_t add_segment(heap *h, size_t list, uint64_t need, uint64_t align)
{
    const uint64_t bytes = h->rules->segment != NULL ? h->rules->segment(need, &h->state) : 0;
    uint64_t off;
    if (bytes == 0 || !dt_round_up(h->reserved, align, &off) || off > UINT64_MAX - bytes)
        return NONE;
    const size_t at = h->n++;
    h->chunks[at] = (chunk){.off = off, .bytes = bytes, .prev = NONE, .next = NONE, .list = list};
    h->reserved = off + bytes;
    set_free(h, at);
    return at;
}

/* The chunk that a request gets. */
static size_t take(heap *h, uint64_t need, uint64_t align)
{
    const dti_chunk_rules *r = h->rules;
    const size_t list = r->list != NULL ? r->list(need) : 0;
    size_t at = choose(h, list, need, align);
    if (at == NONE)
        at = add_segment(h, list, need, align);
    if (at == NONE)
        return NONE;
    set_taken(h, at);
    uint64_t off;
    (void)fits(h->chunks[at].off, h->chunks[at].bytes, need, align, &off);
    if (off > h->chunks[at].off) {
        const size_t below = at;
        cut(h, below, off - h->chunks[below].off);
        set_free(h, below);
        at = h->chunks[below].next;
        set_taken(h, at);
    }
    const uint64_t bytes = h->chunks[at].bytes;
    if (bytes > need && (r->splits == NULL || r->splits(bytes, need, list)))
        cut(h, at, need);
    if (r->segment == NULL && h->chunks[at].off + need > h->reserved)
        h->reserved = h->chunks[at].off + need;
    return at;
}

/* The chunk after at joins it; neither is in a list. */
static void join(heap *h, size_t at)
{
    chunk *c = &h->chunks[at];
    const chunk *next = &h->chunks[c->next];
    c->bytes += next->bytes;
    c->next = next->next;
    if (c->next != NONE)
        h->chunks[c->next].prev = at;
}

static void give_back(heap *h, size_t at)
{
    const size_t prev = h->chunks[at].prev, next = h->chunks[at].next;
    if (next != NONE && h->chunks[next].free) {
        set_taken(h, next);
        join(h, at);
    }
    if (prev != NONE && h->chunks[prev].free) {
        set_taken(h, prev);
        join(h, prev);
        at = prev;
    }
    set_free(h, at);
}

static dt_status run(heap *h, dt_interval *v, const dti_event *e, size_t m, size_t *chunk_of,
    uint64_t *peak, dt_err *err)
{
    for (size_t k = 0; k < m; k++) {
        const size_t who = e[k].who;
        dt_interval *x = &v[who];
        if (!e[k].comes) {
            give_back(h, chunk_of[who]);
            continue;
        }
        uint64_t need;
        const bool counts = dt_round_up(dti_interval_need(x), h->rules->grain, &need);
        chunk_of[who] = counts ? take(h, need, x->align) : NONE;
        if (chunk_of[who] == NONE)
            return DT_FAIL(err, DT_E_BUDGET, "pool %s: interval %zu would end beyond 2^64 bytes",
                h->rules->name, who);
        (void)dt_round_up(h->chunks[chunk_of[who]].off, x->align, &x->off);
        const uint64_t end = x->off + dti_interval_need(x);
        *peak = end > *peak ? end : *peak;
    }
    return DT_OK;
}

/* A request makes at most a segment, and cuts it twice. */
static bool init(heap *h, const dti_chunk_rules *rules, size_t n)
{
    *h = (heap){.rules = rules};
    if (n > (SIZE_MAX - 1) / 3)
        return false;
    h->chunks = dt_alloc(3 * n + 1, sizeof *h->chunks);
    for (size_t l = 0; l < DTI_CHUNK_LISTS; l++)
        if (l == 0 || rules->list != NULL)
            h->lists[l].entry = dt_alloc(3 * n + 1, sizeof *h->lists[l].entry);
    if (h->chunks == NULL || h->lists[0].entry == NULL ||
        (rules->list != NULL && h->lists[1].entry == NULL))
        return false;
    if (rules->segment == NULL) {
        h->chunks[h->n++] = (chunk){.bytes = UINT64_MAX, .prev = NONE, .next = NONE};
        set_free(h, 0);
    }
    return true;
}

static void deinit(heap *h)
{
    dt_free(h->chunks);
    for (size_t l = 0; l < DTI_CHUNK_LISTS; l++)
        dt_free(h->lists[l].entry);
}

dt_status dti_chunks_place(const dti_chunk_rules *rules, dt_interval *v, size_t n, uint64_t *peak,
    uint64_t *reserved, dt_err *err)
{
    DT_CHECK(dti_pool_check(v, n, err));
    heap h;
    size_t m;
    dti_event *events = dti_pool_events(v, n, &m);
    size_t *chunk_of = dt_alloc(n, sizeof *chunk_of);
    *peak = *reserved = 0;
    for (size_t i = 0; i < n; i++)
        v[i].off = 0;
    dt_status st = DT_OK;
    if (!init(&h, rules, n) || events == NULL || chunk_of == NULL)
        st = DT_FAIL(err, DT_E_NOMEM, "pool %s: out of memory for %zu intervals", rules->name, n);
    else
        st = run(&h, v, events, m, chunk_of, peak, err);
    *reserved = h.reserved;
    deinit(&h);
    dt_free(chunk_of);
    dt_free(events);
    return st;
}
