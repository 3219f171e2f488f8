/* What an allocator at run time would do, as in the frameworks' caches: intervals come and go in
 * time order, nothing of the future is known. At equal times frees come first. A newcomer takes the
 * hole that fits best, of equal ones the lowest; if there is none the block grows at its end. */
#include "engine/base/alloc.h"
#include "engine/base/mix.h"
#include "engine/base/numbers.h"
#include "memory/pools/pool.h"

static const size_t none = SIZE_MAX;

/* A piece of the block: an interval's, or a hole. Holes never touch one another. They are in a tree
 * as well, by size and then by offset, of which each has a higher rank than what is below it: a
 * treap (Aragon and Seidel 1989). */
typedef struct piece {
    uint64_t off, end;
    size_t below, above; /* its neighbours */
    size_t left, right;  /* of a hole: in the tree */
} piece;

/* The last hole has no end and is not in the tree: growing is taking from it. Its part below @peak,
 * once used and free again, is a hole like any other. */
typedef struct heap {
    piece *piece; /* those of the n intervals, and behind them the holes, of which the first is the
                     last one */
    size_t n, n_hole;
    size_t spare; /* holes that are none, linked by above */
    size_t root;
    uint64_t peak;
} heap;

static bool is_hole(const heap *h, size_t i)
{
    return i != none && i >= h->n;
}

/* ---- the tree ---- */

static uint64_t size_of(const heap *h, size_t i)
{
    return h->piece[i].end - h->piece[i].off;
}

static uint64_t rank(size_t i)
{
    uint64_t state = i;
    return dt_mix_next(&state);
}

static bool before(const heap *h, size_t i, uint64_t size, uint64_t off)
{
    return size_of(h, i) != size ? size_of(h, i) < size : h->piece[i].off < off;
}

static void insert(heap *h, size_t i)
{
    piece *x = &h->piece[i];
    const uint64_t size = size_of(h, i);
    size_t *at = &h->root, *left = &x->left, *right = &x->right;
    while (*at != none && rank(*at) > rank(i))
        at = before(h, *at, size, x->off) ? &h->piece[*at].right : &h->piece[*at].left;
    for (size_t rest = *at; rest != none;) {
        size_t **side = before(h, rest, size, x->off) ? &left : &right;
        **side = rest;
        *side = side == &left ? &h->piece[rest].right : &h->piece[rest].left;
        rest = **side;
    }
    *left = *right = none;
    *at = i;
}

static void take_out(heap *h, size_t i)
{
    const piece *x = &h->piece[i];
    const uint64_t size = size_of(h, i);
    size_t *at = &h->root, left = x->left, right = x->right;
    while (*at != i)
        at = before(h, *at, size, x->off) ? &h->piece[*at].right : &h->piece[*at].left;
    while (left != none && right != none) {
        const bool upper = rank(left) > rank(right);
        *at = upper ? left : right;
        at = upper ? &h->piece[left].right : &h->piece[right].left;
        left = upper ? *at : left;
        right = upper ? right : *at;
    }
    *at = left != none ? left : right;
}

/* The first in the tree that is so large and, of those of that size, so high, or none. */
static size_t first_from(const heap *h, uint64_t size, uint64_t off)
{
    size_t best = none;
    for (size_t at = h->root; at != none;) {
        const bool low = before(h, at, size, off);
        best = low ? best : at;
        at = low ? h->piece[at].right : h->piece[at].left;
    }
    return best;
}

/* ---- pieces ---- */

static bool fits(uint64_t off, uint64_t end, uint64_t need, uint64_t align)
{
    return dt_round_up(off, align, &off) && off <= end && end - off >= need;
}

/* The best hole for need bytes; the last one when nothing fits without growing. */
static size_t best_hole(const heap *h, uint64_t need, uint64_t align)
{
    const piece *last = &h->piece[h->n];
    size_t i = first_from(h, need, 0);
    while (i != none && !fits(h->piece[i].off, h->piece[i].end, need, align))
        i = first_from(h, size_of(h, i), h->piece[i].off + 1);
    const bool better =
        i != none && (last->off >= h->peak || size_of(h, i) <= h->peak - last->off ||
                         !fits(last->off, h->peak, need, align));
    return better ? i : h->n;
}

/* Put a piece below another. */
static void link(heap *h, size_t i, size_t above)
{
    const size_t below = h->piece[above].below;
    h->piece[i].below = below;
    h->piece[i].above = above;
    h->piece[above].below = i;
    if (below != none)
        h->piece[below].above = i;
}

static void unlink(heap *h, size_t i)
{
    const piece *x = &h->piece[i];
    h->piece[x->above].below = x->below;
    if (x->below != none)
        h->piece[x->below].above = x->above;
}

static void add_hole(heap *h, uint64_t off, uint64_t end, size_t above)
{
    const size_t i = h->spare != none ? h->spare : h->n + h->n_hole++;
    if (i == h->spare)
        h->spare = h->piece[i].above;
    h->piece[i].off = off;
    h->piece[i].end = end;
    link(h, i, above);
    insert(h, i);
}

static void drop_hole(heap *h, size_t i)
{
    unlink(h, i);
    h->piece[i].above = h->spare;
    h->spare = i;
}

/* From the hole's beginning; what is left at both ends are holes. */
static bool take(heap *h, size_t who, uint64_t need, uint64_t align, uint64_t *off)
{
    const size_t i = best_hole(h, need, align);
    const uint64_t from = h->piece[i].off;
    if (!dt_round_up(from, align, off) || *off >= UINT64_MAX - need)
        return false;
    const uint64_t end = *off + need;
    h->peak = end > h->peak ? end : h->peak;
    if (i != h->n)
        take_out(h, i);
    h->piece[who].off = *off;
    h->piece[who].end = h->piece[i].off = end;
    link(h, who, i);
    if (end == h->piece[i].end)
        drop_hole(h, i);
    else if (i != h->n)
        insert(h, i);
    if (*off > from)
        add_hole(h, from, *off, who);
    return true;
}

static void give_back(heap *h, size_t who)
{
    const size_t below = h->piece[who].below, above = h->piece[who].above;
    uint64_t off = h->piece[who].off;
    unlink(h, who);
    if (is_hole(h, below)) {
        take_out(h, below);
        off = h->piece[below].off;
        drop_hole(h, below);
    }
    if (!is_hole(h, above)) {
        add_hole(h, off, h->piece[who].end, above);
        return;
    }
    if (above != h->n)
        take_out(h, above);
    h->piece[above].off = off;
    if (above != h->n)
        insert(h, above);
}

static dt_status run(dt_interval *v, const dti_event *e, size_t m, heap *h, dt_err *err)
{
    for (size_t k = 0; k < m; k++) {
        dt_interval *x = &v[e[k].who];
        const uint64_t need = dti_interval_need(x);
        if (!e[k].comes)
            give_back(h, e[k].who);
        else if (!take(h, e[k].who, need, x->align, &x->off))
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
    heap h = {.n = n, .n_hole = 1, .spare = none, .root = none};
    dt_status st = DT_OK;
    h.piece = n < SIZE_MAX / 2 ? dt_alloc(2 * n + 1, sizeof *h.piece) : NULL;
    if (events == NULL || h.piece == NULL) {
        st = DT_FAIL(err, DT_E_NOMEM, "pool best_fit: out of memory for %zu intervals", n);
    } else {
        h.piece[n] = (piece){.end = UINT64_MAX, .below = none, .above = none};
        st = run(v, events, m, &h, err);
        *peak = h.peak;
    }
    dt_free(events);
    dt_free(h.piece);
    return st;
}

const dt_pool_desc dt_pool_best_fit = {
    .name = "best_fit",
    .summary = "in time order, each into the hole that fits best, as a run-time allocator would",
    .place = place,
};
