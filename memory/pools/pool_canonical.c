/* The search for canonical placements: skyline, valleys, what is tried and taken back. */
#include "memory/pools/pool_canonical.h"

#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers.h"

static const uint64_t not_put = UINT64_MAX;

/* Items of live[from..to) that meet in time none of those not yet put but each other. */
typedef struct stretch {
    size_t from, to;
} stretch;

/* The ground of a section. */
typedef struct ground {
    uint32_t section;
    uint64_t off;
} ground;

static bool put_all(dti_canon *c, stretch s);
static bool put_one(dti_canon *c, stretch s);

bool dti_canon_init(dti_canon *c, size_t n, size_t n_section)
{
    *c = (dti_canon){.n = n,
        .n_section = n_section,
        .item = dt_alloc(n, sizeof *c->item),
        .off = dt_alloc(n, sizeof *c->off),
        .low = dt_alloc(n, sizeof *c->low),
        .live = dt_alloc(n, sizeof *c->live),
        .twin = dt_alloc(n, sizeof *c->twin),
        .total = dt_alloc(n_section, sizeof *c->total),
        .floor = dt_alloc(n_section, sizeof *c->floor),
        .failed = dt_alloc(n_section, sizeof *c->failed),
        .fits = dt_alloc(n_section + 1, sizeof *c->fits),
        .flat = dt_alloc(n_section, sizeof *c->flat)};
    return c->item != NULL && c->off != NULL && c->low != NULL && c->live != NULL &&
           c->twin != NULL && c->total != NULL && c->floor != NULL && c->failed != NULL &&
           c->fits != NULL && c->flat != NULL;
}

void dti_canon_deinit(dti_canon *c)
{
    dt_free(c->item);
    dt_free(c->off);
    dt_free(c->low);
    dt_free(c->live);
    dt_free(c->twin);
    dt_free(c->total);
    dt_free(c->floor);
    dt_free(c->failed);
    dt_free(c->fits);
    dt_free(c->flat);
    dt_free(c->undo);
}

static bool meet(const dti_canon_item *x, const dti_canon_item *y)
{
    return x->first < y->last && y->first < x->last;
}

static bool lives_in(const dti_canon_item *x, uint32_t section)
{
    return x->first <= section && section < x->last;
}

/* The sections of a stretch. */
static void span(const dti_canon *c, stretch s, uint32_t *first, uint32_t *last)
{
    *first = UINT32_MAX;
    *last = 0;
    for (size_t k = s.from; k < s.to; k++) {
        const dti_canon_item *x = &c->item[c->live[k]];
        *first = x->first < *first ? x->first : *first;
        *last = x->last > *last ? x->last : *last;
    }
}

/* Floors; false when what is not yet put in a section does not fit between its floor and the
 * height. */
static bool find_floors(dti_canon *c, stretch s, uint32_t first, uint32_t last)
{
    for (uint32_t t = first; t < last; t++)
        c->floor[t] = c->height;
    for (size_t k = s.from; k < s.to; k++) {
        const dti_canon_item *x = &c->item[c->live[k]];
        const uint64_t low = c->low[c->live[k]];
        for (uint32_t t = x->first; t < x->last; t++)
            c->floor[t] = c->floor[t] < low ? c->floor[t] : low;
    }
    for (uint32_t t = first; t < last; t++)
        if (c->total[t] > c->height - c->floor[t]) {
            c->failed[t]++;
            return false;
        }
    return true;
}

static void count_fits(dti_canon *c, stretch s, uint32_t first, uint32_t last)
{
    memset(c->fits + first, 0, (last - first) * sizeof *c->fits);
    memset(c->flat + first, 0, (last - first) * sizeof *c->flat);
    for (size_t k = s.from; k < s.to; k++) {
        const dti_canon_item *x = &c->item[c->live[k]];
        const uint64_t low = c->low[c->live[k]];
        int32_t on_floor = 0;
        for (uint32_t t = x->first; t < x->last; t++) {
            c->fits[t] += c->floor[t] == low;
            on_floor += c->floor[t] == low;
        }
        if (on_floor == (int32_t)(x->last - x->first))
            for (uint32_t t = x->first; t < x->last; t++)
                c->flat[t]++;
    }
}

/* The section to decide on. All that fit on its floor must lie flat, or something could still come
 * to lie beneath them elsewhere; the lowest section is always one. */
static ground choose_ground(const dti_canon *c, uint32_t first, uint32_t last)
{
    ground best = {0, UINT64_MAX};
    uint64_t best_score = UINT64_MAX;
    for (uint32_t t = first; t < last; t++) {
        if (c->fits[t] == 0 || c->flat[t] < c->fits[t])
            continue;
        const bool may_rise = c->total[t] < c->height - c->floor[t];
        const uint64_t answers = (uint64_t)c->fits[t] - 1 + may_rise;
        const uint64_t score = (answers << 32) / (1 + c->failed[t]);
        const bool better = score != best_score ? score < best_score
                                                : c->floor[t] < best.off ||
                                                      (c->floor[t] == best.off &&
                                                          c->total[t] > c->total[best.section]);
        if (better) {
            best = (ground){t, c->floor[t]};
            best_score = score;
        }
    }
    return best;
}

static bool raise(dti_canon *c, uint32_t i, uint64_t low)
{
    if (!dt_grow(&c->undo, &c->cap_undo, c->n_undo, sizeof *c->undo)) {
        c->cut = c->no_memory = true;
        return false;
    }
    c->undo[c->n_undo++] = (dti_canon_undo){c->low[i], i};
    c->low[i] = low;
    return true;
}

static void lower_again(dti_canon *c, size_t n_undo)
{
    while (c->n_undo > n_undo) {
        c->n_undo--;
        c->low[c->undo[c->n_undo].who] = c->undo[c->n_undo].low;
    }
}

/* Raise those it meets above an item that is put. */
static bool put(dti_canon *c, stretch s, uint32_t who)
{
    const dti_canon_item *x = &c->item[who];
    const uint64_t end = c->low[who] + x->need;
    c->off[who] = c->low[who];
    for (uint32_t t = x->first; t < x->last; t++)
        c->total[t] -= x->need;
    for (size_t k = s.from; k < s.to; k++) {
        const uint32_t i = c->live[k];
        if (c->low[i] < end && meet(&c->item[i], x) &&
            !raise(c, i, dt_align_up(end, c->item[i].align)))
            return false;
    }
    return true;
}

/* An answer stays in off. */
static void take_back(dti_canon *c, uint32_t who, bool answered)
{
    const dti_canon_item *x = &c->item[who];
    for (uint32_t t = x->first; t < x->last; t++)
        c->total[t] += x->need;
    if (!answered)
        c->off[who] = not_put;
}

static void swap(dti_canon *c, size_t a, size_t b)
{
    const uint32_t x = c->live[a];
    c->live[a] = c->live[b];
    c->live[b] = x;
}

static bool fits_on(const dti_canon *c, uint32_t i, ground g)
{
    return c->low[i] == g.off && lives_in(&c->item[i], g.section);
}

/* Position of the next item from number on that fits on a ground; s.to when there is none. Of items
 * that are alike only the first is tried. */
static size_t next_on(const dti_canon *c, stretch s, ground g, uint32_t number)
{
    size_t best = s.to;
    uint32_t who = UINT32_MAX;
    for (size_t k = s.from; k < s.to; k++) {
        const uint32_t i = c->live[k];
        if (i < number || i >= who || !fits_on(c, i, g))
            continue;
        if (c->twin[i] != i && c->off[c->twin[i]] == not_put)
            continue;
        who = i;
        best = k;
    }
    return best;
}

/* Where an item that fits on a ground comes to rest at the least when nothing lies on that ground:
 * on another, which lies elsewhere in time, or here at @above or higher. UINT64_MAX: nowhere. */
static uint64_t rests_at(const dti_canon *c, stretch s, ground g, uint32_t i, uint64_t above)
{
    uint64_t least = UINT64_MAX;
    for (size_t k = s.from; k < s.to; k++) {
        const uint32_t j = c->live[k];
        const dti_canon_item *y = &c->item[j];
        if (j == i || !meet(y, &c->item[i]))
            continue;
        uint64_t low = c->low[j];
        if (lives_in(y, g.section)) {
            if (above == UINT64_MAX)
                continue;
            low = low > above ? low : above;
        }
        const uint64_t end = dt_align_up(low + y->need, c->item[i].align);
        least = end < least ? end : least;
    }
    return least;
}

/* The least offset of what lives in a section when nothing lies on its ground. */
static uint64_t next_ground(const dti_canon *c, stretch s, ground g)
{
    uint64_t least = UINT64_MAX;
    for (size_t k = s.from; k < s.to; k++) {
        const uint32_t i = c->live[k];
        if (!lives_in(&c->item[i], g.section))
            continue;
        const uint64_t off = c->low[i] > g.off ? c->low[i] : rests_at(c, s, g, i, UINT64_MAX);
        least = off < least ? off : least;
    }
    return least;
}

/* Leave a ground empty. */
static bool rise(dti_canon *c, stretch s, ground g)
{
    const size_t n_undo = c->n_undo;
    const uint64_t above = next_ground(c, s, g);
    if (above >= c->height || c->total[g.section] > c->height - above)
        return false;
    bool done = true;
    /* raised ones no longer fit on g, and what they do is bounded by above in either case */
    for (size_t k = s.from; done && k < s.to; k++) {
        const uint32_t i = c->live[k];
        if (!fits_on(c, i, g))
            continue;
        const uint64_t off = rests_at(c, s, g, i, above);
        done = off < c->height && raise(c, i, off);
    }
    done = done && put_one(c, s);
    lower_again(c, n_undo);
    return done;
}

/* Decide on one ground of a stretch, and then on the others. */
static bool put_one(dti_canon *c, stretch s)
{
    uint32_t first, last;
    if (c->nodes == c->max_nodes)
        c->cut = true;
    if (c->cut)
        return false;
    c->nodes++;
    span(c, s, &first, &last);
    if (!find_floors(c, s, first, last))
        return false;
    count_fits(c, s, first, last);
    const ground g = choose_ground(c, first, last);
    const stretch rest = {s.from, s.to - 1};
    for (size_t at, number = 0; !c->cut;) {
        at = next_on(c, s, g, (uint32_t)number);
        if (at == s.to)
            break;
        const uint32_t who = c->live[at];
        const size_t n_undo = c->n_undo;
        swap(c, at, rest.to); /* those that follow change places below it only */
        const bool done = put(c, rest, who) && put_all(c, rest);
        take_back(c, who, done);
        lower_again(c, n_undo);
        if (done)
            return true;
        number = (size_t)who + 1;
    }
    return !c->cut && rise(c, s, g);
}

/* The first section at whose start none of a stretch lives on both sides: a part of it ends there.
 */
static uint32_t first_cut(dti_canon *c, stretch s)
{
    uint32_t first, last;
    int32_t *cross = c->fits, crossing = 0;
    span(c, s, &first, &last);
    memset(cross + first, 0, (last - first + 1) * sizeof *cross);
    for (size_t k = s.from; k < s.to; k++) {
        const dti_canon_item *x = &c->item[c->live[k]];
        cross[x->first + 1]++;
        cross[x->last]--;
    }
    for (uint32_t t = first + 1; t < last; t++)
        if ((crossing += cross[t]) == 0)
            return t;
    return last;
}

/* Parts of the time that nothing crosses any more are searched one by one: when one of them has no
 * answer, what the others do is of no use. */
static bool put_all(dti_canon *c, stretch s)
{
    while (s.from < s.to) {
        const uint32_t cut = first_cut(c, s);
        stretch part = {s.from, s.from};
        for (size_t k = s.from; k < s.to; k++)
            if (c->item[c->live[k]].last <= cut)
                swap(c, k, part.to++);
        if (!put_one(c, part))
            return false;
        s.from = part.to;
    }
    return true;
}

static bool alike(const dti_canon_item *x, const dti_canon_item *y)
{
    return x->first == y->first && x->last == y->last && x->need == y->need && x->align == y->align;
}

static void find_twins(dti_canon *c)
{
    for (uint32_t i = 0; i < c->n; i++) {
        c->twin[i] = i;
        for (uint32_t j = i; j-- > 0 && c->twin[i] == i;)
            if (alike(&c->item[i], &c->item[j]))
                c->twin[i] = j;
    }
}

bool dti_canon_search(dti_canon *c, uint64_t height, uint64_t max_nodes)
{
    c->height = height;
    c->max_nodes = max_nodes;
    c->nodes = 0;
    c->cut = c->no_memory = false;
    c->n_undo = 0;
    memset(c->total, 0, c->n_section * sizeof *c->total);
    memset(c->failed, 0, c->n_section * sizeof *c->failed);
    for (size_t i = 0; i < c->n; i++) {
        c->live[i] = (uint32_t)i;
        c->low[i] = 0;
        c->off[i] = not_put;
        for (uint32_t t = c->item[i].first; t < c->item[i].last; t++)
            c->total[t] += c->item[i].need;
    }
    find_twins(c);
    return put_all(c, (stretch){0, c->n});
}
