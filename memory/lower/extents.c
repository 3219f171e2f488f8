/* Extents in blocks: one is found by halving twice, and a change moves those of its block alone. */
#include "memory/lower/extents.h"

#include <string.h>

#include "engine/base/alloc.h"

enum { BLOCK = 64 };

typedef struct dti_extent_block {
    size_t n;
    dti_extent v[BLOCK];
} extent_block;

/* Before an extent, or behind all: block n. */
typedef struct spot {
    size_t block, at;
} spot;

void dti_extents_close(dti_extents *r)
{
    for (size_t i = 0; i < r->n; i++)
        dt_free(r->block[i]);
    dt_free(r->block);
    *r = (dti_extents){0};
}

/* ---- finding ---- */

/* The extent at a spot; NULL behind all. */
static dti_extent *extent_at(const dti_extents *r, spot s)
{
    return s.block < r->n ? &r->block[s.block]->v[s.at] : NULL;
}

static spot next(const dti_extents *r, spot s)
{
    return s.at + 1 < r->block[s.block]->n ? (spot){s.block, s.at + 1} : (spot){s.block + 1, 0};
}

/* The first extent that ends behind @at. */
static spot first_behind(const dti_extents *r, uint64_t at)
{
    size_t low = 0, high = r->n;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        const extent_block *b = r->block[mid];
        if (b->v[b->n - 1].to > at)
            high = mid;
        else
            low = mid + 1;
    }
    const size_t block = low;
    for (low = 0, high = block < r->n ? r->block[block]->n : 0; low < high;) {
        const size_t mid = low + (high - low) / 2;
        if (r->block[block]->v[mid].to > at)
            high = mid;
        else
            low = mid + 1;
    }
    return (spot){block, low};
}

void dti_extents_over(const dti_extents *r, uint64_t from, uint64_t to, dti_clock *need)
{
    const dti_extent *x;
    for (spot s = first_behind(r, from); (x = extent_at(r, s)) != NULL && x->from < to;
         s = next(r, s))
        dti_clock_join(need, &x->last);
}

/* ---- changing ---- */

/* A block of none at a place of the list. */
static bool open_block(dti_extents *r, size_t at)
{
    extent_block *b = dt_alloc(1, sizeof *b);
    if (b == NULL || !dt_grow(&r->block, &r->cap, r->n, sizeof(extent_block *))) {
        dt_free(b);
        return false;
    }
    memmove(r->block + at + 1, r->block + at, (r->n - at) * sizeof(extent_block *));
    r->block[at] = b;
    r->n++;
    return true;
}

/* Half of a block that is full becomes the next one. */
static bool split_block(dti_extents *r, spot *s)
{
    const size_t half = BLOCK / 2;
    if (!open_block(r, s->block + 1))
        return false;
    extent_block *b = r->block[s->block], *behind = r->block[s->block + 1];
    memcpy(behind->v, b->v + half, (BLOCK - half) * sizeof *b->v);
    behind->n = BLOCK - half;
    b->n = half;
    if (s->at > half)
        *s = (spot){s->block + 1, s->at - half};
    return true;
}

/* Before the spot, which is then behind it. */
static bool insert(dti_extents *r, spot *s, dti_extent x)
{
    if (s->block == r->n) { /* behind all: to the last block */
        if (r->n == 0 && !open_block(r, 0))
            return false;
        *s = (spot){r->n - 1, r->block[r->n - 1]->n};
    }
    if (r->block[s->block]->n == BLOCK && !split_block(r, s))
        return false;
    extent_block *b = r->block[s->block];
    memmove(b->v + s->at + 1, b->v + s->at, (b->n - s->at) * sizeof *b->v);
    b->v[s->at] = x;
    b->n++;
    *s = next(r, *s);
    return true;
}

/* The extent at a spot, which is then before the next one. */
static void take_out(dti_extents *r, spot *s)
{
    extent_block *b = r->block[s->block];
    b->n--;
    memmove(b->v + s->at, b->v + s->at + 1, (b->n - s->at) * sizeof *b->v);
    if (b->n == 0) {
        dt_free(b);
        r->n--;
        memmove(r->block + s->block, r->block + s->block + 1,
            (r->n - s->block) * sizeof(extent_block *));
    } else if (s->at == b->n) {
        *s = (spot){s->block + 1, 0};
    }
}

/* Put @with where the @gone extents from the spot on are. */
static bool replace(dti_extents *r, spot s, size_t gone, const dti_extent *with, size_t n)
{
    size_t k = 0;
    for (; k < n && k < gone; k++) {
        *extent_at(r, s) = with[k];
        s = next(r, s);
    }
    for (size_t more = k; more < n; more++)
        if (!insert(r, &s, with[more]))
            return false;
    for (; k < gone; k++)
        take_out(r, &s);
    return true;
}

bool dti_extents_add(dti_extents *r, dti_extent x)
{
    const spot at = first_behind(r, x.from);
    const dti_extent *first = extent_at(r, at), *last = NULL, *o;
    size_t gone = 0, n = 0;
    dti_extent with[3];
    if (x.from == x.to)
        return true;
    for (spot s = at; (o = extent_at(r, s)) != NULL && o->from < x.to; s = next(r, s), gone++) {
        dti_clock_join(&x.last, &o->last);
        last = o;
    }
    if (last != NULL && first->from < x.from)
        with[n++] = (dti_extent){first->from, x.from, first->last};
    with[n++] = x;
    if (last != NULL && last->to > x.to)
        with[n++] = (dti_extent){x.to, last->to, last->last};
    return replace(r, at, gone, with, n);
}
