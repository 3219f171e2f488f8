/* The search for canonical placements: skyline, valleys, what is tried and taken back. */
#include "memory/pools/pool_canonical.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers.h"

enum { WORD = 64 }; /* sections in a word */
static const uint64_t not_put = UINT64_MAX;
static const uint32_t nobody = UINT32_MAX;

/* Items of live[from..to), by low, that meet in time none of those not yet put but each other, and
 * live during sections [first, last). */
typedef struct stretch {
    size_t from, to;
    uint32_t first, last;
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
    const size_t words = n_section / WORD + 1;
    *c = (dti_canon){.n = n,
        .n_section = n_section,
        .item = dt_alloc(n, sizeof *c->item),
        .off = dt_alloc(n, sizeof *c->off),
        .low = dt_alloc(n, sizeof *c->low),
        .live = dt_alloc(n, sizeof *c->live),
        .twin = dt_alloc(n, sizeof *c->twin),
        .by_kind = dt_alloc(n, sizeof *c->by_kind),
        .total = dt_alloc(n_section, sizeof *c->total),
        .floor = dt_alloc(n_section, sizeof *c->floor),
        .failed = dt_alloc(n_section, sizeof *c->failed),
        .flat = dt_alloc(n_section + 1, sizeof *c->flat),
        .cross = dt_alloc(n_section + 1, sizeof *c->cross),
        .open = dt_alloc(words, sizeof *c->open),
        .ground = dt_alloc(words, sizeof *c->ground),
        .mixed = dt_alloc(words, sizeof *c->mixed),
        .spare = dt_alloc(n, sizeof *c->spare),
        .raised = dt_alloc(n, sizeof *c->raised)};
    return c->item != NULL && c->off != NULL && c->low != NULL && c->live != NULL &&
           c->twin != NULL && c->by_kind != NULL && c->total != NULL && c->floor != NULL &&
           c->failed != NULL && c->flat != NULL && c->cross != NULL && c->open != NULL &&
           c->ground != NULL && c->mixed != NULL && c->spare != NULL && c->raised != NULL;
}

void dti_canon_deinit(dti_canon *c)
{
    dt_free(c->item);
    dt_free(c->off);
    dt_free(c->low);
    dt_free(c->live);
    dt_free(c->twin);
    dt_free(c->by_kind);
    dt_free(c->total);
    dt_free(c->floor);
    dt_free(c->failed);
    dt_free(c->flat);
    dt_free(c->cross);
    dt_free(c->open);
    dt_free(c->ground);
    dt_free(c->mixed);
    dt_free(c->spare);
    dt_free(c->raised);
    dt_free(c->kept);
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

/* Of sections [first, last) those in one word, a bit each. */
static uint64_t in_word(uint32_t first, uint32_t last, uint32_t word)
{
    uint64_t bits = UINT64_MAX;
    if (first / WORD == word)
        bits &= UINT64_MAX << first % WORD;
    if ((last - 1) / WORD == word)
        bits &= UINT64_MAX >> (WORD - 1 - (last - 1) % WORD);
    return bits;
}

/* ---- floors ---- */

/* Sections whose floor is not yet known: how many of them, and the first in which what is not yet
 * put does not fit between its floor and the height. */
typedef struct survey {
    uint32_t open, failing;
} survey;

/* None behind it is of interest any more. */
static void fail_at(dti_canon *c, survey *v, stretch s, uint32_t section)
{
    v->failing = section;
    v->open = 0;
    for (uint32_t w = s.first / WORD; w <= (s.last - 1) / WORD; w++) {
        c->open[w] &= w > section / WORD   ? 0
                      : w < section / WORD ? UINT64_MAX
                                           : ~(UINT64_MAX << section % WORD);
        v->open += (uint32_t)__builtin_popcountll(c->open[w]);
    }
}

/* An item is on the floor wherever nothing lower lives. */
static void lay(dti_canon *c, survey *v, stretch s, const dti_canon_item *x, uint64_t low)
{
    const uint64_t room = low < c->height ? c->height - low : 0;
    for (uint32_t w = x->first / WORD; w <= (x->last - 1) / WORD; w++) {
        uint64_t found = c->open[w] & in_word(x->first, x->last, w);
        c->open[w] ^= found;
        c->ground[w] |= found;
        for (; found != 0; found &= found - 1) {
            const uint32_t t = w * WORD + (uint32_t)__builtin_ctzll(found);
            c->floor[t] = low;
            v->open--;
            if (c->total[t] > room) {
                fail_at(c, v, s, t);
                break;
            }
        }
    }
}

/* Whether an item is on the floor all over its life, or in part. */
static void count_flat(dti_canon *c, const dti_canon_item *x)
{
    const uint32_t from = x->first / WORD, to = (x->last - 1) / WORD;
    bool flat = true;
    for (uint32_t w = from; w <= to && flat; w++)
        flat = (in_word(x->first, x->last, w) & ~c->ground[w]) == 0;
    c->flat[x->first] += flat;
    c->flat[x->last] -= flat;
    for (uint32_t w = from; w <= to && !flat; w++)
        c->mixed[w] |= in_word(x->first, x->last, w) & c->ground[w];
}

/* What lies on the floor of those live[from..to) that are the lowest in some sections. */
static void count_lowest(dti_canon *c, size_t from, size_t to)
{
    uint32_t first = UINT32_MAX, last = 0;
    for (size_t k = from; k < to; k++) {
        const dti_canon_item *x = &c->item[c->live[k]];
        count_flat(c, x);
        first = x->first < first ? x->first : first;
        last = x->last > last ? x->last : last;
    }
    for (uint32_t w = first / WORD; w <= (last - 1) / WORD; w++)
        c->ground[w] = 0;
}

/* Floors, and what lies on them, from the lowest items on; false when what is not yet put in a
 * section does not fit between its floor and the height. */
static bool find_floors(dti_canon *c, stretch s)
{
    survey v = {s.last - s.first, s.last};
    memset(c->flat + s.first, 0, (s.last - s.first + 1) * sizeof *c->flat);
    for (uint32_t w = s.first / WORD; w <= (s.last - 1) / WORD; w++) {
        c->open[w] = in_word(s.first, s.last, w);
        c->ground[w] = c->mixed[w] = 0;
    }
    for (size_t k = s.from, to = k; v.open > 0; k = to) {
        const uint64_t low = c->low[c->live[k]];
        const uint32_t before = v.open;
        for (; to < s.to && c->low[c->live[to]] == low; to++)
            lay(c, &v, s, &c->item[c->live[to]], low);
        if (v.open < before && v.failing == s.last)
            count_lowest(c, k, to);
    }
    if (v.failing == s.last)
        return true;
    c->failed[v.failing]++;
    return false;
}

/* The section to decide on. All that fit on its floor must lie flat, or something could still come
 * to lie beneath them elsewhere; the lowest section is always one. */
static ground choose_ground(const dti_canon *c, stretch s)
{
    ground best = {0, UINT64_MAX};
    uint64_t best_score = UINT64_MAX;
    uint64_t flat = 0;
    for (uint32_t t = s.first; t < s.last; t++) {
        flat += (uint64_t)(int64_t)c->flat[t];
        if (c->mixed[t / WORD] >> t % WORD & 1)
            continue;
        const bool may_rise = c->total[t] < c->height - c->floor[t];
        const uint64_t answers = flat - 1 + may_rise;
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

/* ---- what is changed and taken back ---- */

static bool out_of_memory(dti_canon *c)
{
    c->cut = c->no_memory = true;
    return false;
}

static bool raise(dti_canon *c, uint32_t i, uint64_t low)
{
    if (!dt_grow(&c->undo, &c->cap_undo, c->n_undo, sizeof *c->undo))
        return out_of_memory(c);
    c->undo[c->n_undo++] = (dti_canon_undo){c->low[i], i};
    c->low[i] = low;
    c->raised[i] = true;
    return true;
}

/* How far a search had come. */
typedef struct mark {
    size_t n_undo, n_kept;
} mark;

static mark here(const dti_canon *c)
{
    return (mark){c->n_undo, c->n_kept};
}

/* A stretch as it was at a mark. */
static void restore(dti_canon *c, stretch s, mark m)
{
    while (c->n_undo > m.n_undo) {
        c->n_undo--;
        c->low[c->undo[c->n_undo].who] = c->undo[c->n_undo].low;
        c->raised[c->undo[c->n_undo].who] = false;
    }
    if (c->n_kept > m.n_kept)
        memcpy(&c->live[s.from], &c->kept[m.n_kept], (c->n_kept - m.n_kept) * sizeof *c->live);
    c->n_kept = m.n_kept;
}

/* Keep items from a position of live on, behind what is kept. */
static bool keep(dti_canon *c, size_t from, size_t n)
{
    if (!dt_grow(&c->kept, &c->cap_kept, c->n_kept + n, sizeof *c->kept))
        return out_of_memory(c);
    memcpy(&c->kept[c->n_kept], &c->live[from], n * sizeof *c->kept);
    c->n_kept += n;
    return true;
}

/* By low; most are equal, and few fall. */
static void sort_spare(dti_canon *c, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const uint32_t x = c->spare[i];
        size_t k = i;
        for (; k > 0 && c->low[c->spare[k - 1]] > c->low[x]; k--)
            c->spare[k] = c->spare[k - 1];
        c->spare[k] = x;
    }
}

/* To where they belong go the items of a stretch that have just been raised, which all lay lower
 * than they do now; and one that leaves it to the front. */
static bool reorder(dti_canon *c, stretch s, size_t n_raised, uint32_t leaving)
{
    size_t end = s.from, to = s.from, n_spare = 0;
    for (size_t left = n_raised + (leaving != nobody); left > 0; end++)
        left -= c->raised[c->live[end]] || c->live[end] == leaving;
    if (!keep(c, s.from, end - s.from))
        return false;
    if (leaving != nobody)
        c->live[to++] = leaving;
    for (const uint32_t *was = &c->kept[c->n_kept - (end - s.from)]; was < &c->kept[c->n_kept];
         was++) {
        if (*was == leaving)
            continue;
        if (c->raised[*was])
            c->spare[n_spare++] = *was;
        else
            c->live[to++] = *was;
        c->raised[*was] = false;
    }
    sort_spare(c, n_spare);
    for (size_t k = 0; k < n_spare;) {
        if (end == s.to || c->low[c->live[end]] >= c->low[c->spare[k]])
            c->live[to++] = c->spare[k++];
        else if (keep(c, end, 1))
            c->live[to++] = c->live[end++];
        else
            return false;
    }
    return true;
}

/* ---- what is tried ---- */

/* Raise those it meets above an item that is put, which goes to the front of the stretch. */
static bool put(dti_canon *c, stretch s, uint32_t who)
{
    const dti_canon_item *x = &c->item[who];
    const uint64_t end = c->low[who] + x->need;
    const size_t n_undo = c->n_undo;
    c->off[who] = c->low[who];
    for (uint32_t t = x->first; t < x->last; t++)
        c->total[t] -= x->need;
    for (uint32_t t = x->first + 1; t < x->last; t++)
        c->cross[t]--;
    for (size_t k = s.from; k < s.to && c->low[c->live[k]] < end; k++) {
        const uint32_t i = c->live[k];
        if (i != who && meet(&c->item[i], x) && !raise(c, i, dt_align_up(end, c->item[i].align)))
            return false;
    }
    return reorder(c, s, c->n_undo - n_undo, who);
}

/* An answer stays in off. */
static void take_back(dti_canon *c, uint32_t who, bool answered)
{
    const dti_canon_item *x = &c->item[who];
    for (uint32_t t = x->first; t < x->last; t++)
        c->total[t] += x->need;
    for (uint32_t t = x->first + 1; t < x->last; t++)
        c->cross[t]++;
    if (!answered)
        c->off[who] = not_put;
}

static bool fits_on(const dti_canon *c, uint32_t i, ground g)
{
    return c->low[i] == g.off && lives_in(&c->item[i], g.section);
}

/* The first item from number on that fits on a ground, or nobody. Of items that are alike only the
 * first is tried. */
static uint32_t next_on(const dti_canon *c, stretch s, ground g, uint32_t number)
{
    uint32_t who = nobody;
    for (size_t k = s.from; k < s.to && c->low[c->live[k]] <= g.off; k++) {
        const uint32_t i = c->live[k];
        if (i < number || i >= who || !fits_on(c, i, g))
            continue;
        if (c->twin[i] != i && c->off[c->twin[i]] == not_put)
            continue;
        who = i;
    }
    return who;
}

/* Where an item that fits on a ground comes to rest at the least when nothing lies on that ground:
 * on another, which lies elsewhere in time, or here at @above or higher. UINT64_MAX: nowhere. Those
 * that have just been raised still stand among the lower ones. */
static uint64_t rests_at(const dti_canon *c, stretch s, ground g, uint32_t i, uint64_t above)
{
    uint64_t least = UINT64_MAX;
    for (size_t k = s.from; k < s.to; k++) {
        const uint32_t j = c->live[k];
        const dti_canon_item *y = &c->item[j];
        uint64_t low = c->low[j];
        if (low >= least && !c->raised[j])
            break;
        if (j == i || !meet(y, &c->item[i]))
            continue;
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
    for (size_t k = s.from; k < s.to && c->low[c->live[k]] < least; k++) {
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
    const mark before = here(c);
    const uint64_t above = next_ground(c, s, g);
    if (above >= c->height || c->total[g.section] > c->height - above)
        return false;
    bool done = true;
    /* raised ones no longer fit on g, and what they do is bounded by above in either case */
    for (size_t k = s.from;
         done && k < s.to && !(c->low[c->live[k]] > g.off && !c->raised[c->live[k]]); k++) {
        const uint32_t i = c->live[k];
        if (!fits_on(c, i, g))
            continue;
        const uint64_t off = rests_at(c, s, g, i, above);
        done = off < c->height && raise(c, i, off);
    }
    done = done && reorder(c, s, c->n_undo - before.n_undo, nobody) && put_one(c, s);
    restore(c, s, before);
    return done;
}

/* Decide on one ground of a stretch, and then on the others. */
static bool put_one(dti_canon *c, stretch s)
{
    if (c->nodes == c->max_nodes)
        c->cut = true;
    if (c->cut)
        return false;
    c->nodes++;
    if (!find_floors(c, s))
        return false;
    const ground g = choose_ground(c, s);
    const mark before = here(c);
    for (uint32_t who, number = 0; !c->cut; number = who + 1) {
        who = next_on(c, s, g, number);
        if (who == nobody)
            break;
        const bool done =
            put(c, s, who) && put_all(c, (stretch){s.from + 1, s.to, s.first, s.last});
        take_back(c, who, done);
        restore(c, s, before);
        if (done)
            return true;
    }
    return !c->cut && rise(c, s, g);
}

/* The first section that none of a stretch lives both in and before: a part of it ends there. */
static uint32_t first_cut(const dti_canon *c, stretch s)
{
    uint32_t t = s.first + 1;
    while (t < s.last && c->cross[t] > 0)
        t++;
    return t;
}

/* Those of a stretch that end by a section, which is no longer in it. */
static stretch split(dti_canon *c, stretch *s, uint32_t cut)
{
    stretch part = {s->from, s->from, s->first, cut};
    size_t n_spare = 0;
    for (size_t k = s->from; k < s->to; k++) {
        const uint32_t i = c->live[k];
        if (c->item[i].last <= cut)
            c->live[part.to++] = i;
        else
            c->spare[n_spare++] = i;
    }
    memcpy(&c->live[part.to], c->spare, n_spare * sizeof *c->live);
    s->from = part.to;
    s->first = cut;
    return part;
}

/* Without the sections at its ends in which none of it lives. */
static stretch narrow(const dti_canon *c, stretch s)
{
    while (c->total[s.first] == 0)
        s.first++;
    while (c->total[s.last - 1] == 0)
        s.last--;
    return s;
}

/* Parts of the time that nothing crosses any more are searched one by one: when one of them has no
 * answer, what the others do is of no use. */
static bool put_all(dti_canon *c, stretch s)
{
    if (s.from == s.to)
        return true;
    s = narrow(c, s);
    if (first_cut(c, s) == s.last)
        return put_one(c, s);
    const stretch whole = s;
    const mark before = here(c);
    bool done = keep(c, s.from, s.to - s.from);
    while (done && s.from < s.to) {
        s = narrow(c, s);
        done = put_one(c, split(c, &s, first_cut(c, s)));
    }
    restore(c, whole, before);
    return done;
}

static bool alike(const dti_canon_item *x, const dti_canon_item *y)
{
    return x->first == y->first && x->last == y->last && x->need == y->need && x->align == y->align;
}

/* Those that are alike side by side, earlier ones first. */
static int by_kind(const void *a, const void *b)
{
    const dti_canon_numbered *x = a, *y = b;
    const dti_canon_item *p = &x->item, *q = &y->item;
    if (p->need != q->need)
        return p->need < q->need ? -1 : 1;
    if (p->align != q->align)
        return p->align < q->align ? -1 : 1;
    if (p->first != q->first)
        return p->first < q->first ? -1 : 1;
    if (p->last != q->last)
        return p->last < q->last ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static void find_twins(dti_canon *c)
{
    dti_canon_numbered *of = c->by_kind;
    for (uint32_t i = 0; i < c->n; i++)
        of[i] = (dti_canon_numbered){c->item[i], i};
    qsort(of, c->n, sizeof *of, by_kind);
    for (size_t k = 0; k < c->n; k++) {
        const bool twin = k > 0 && alike(&of[k].item, &of[k - 1].item);
        c->twin[of[k].number] = of[twin ? k - 1 : k].number;
    }
}

bool dti_canon_search(dti_canon *c, uint64_t height, uint64_t max_nodes)
{
    c->height = height;
    c->max_nodes = max_nodes;
    c->nodes = 0;
    c->cut = c->no_memory = false;
    c->n_undo = c->n_kept = 0;
    memset(c->total, 0, c->n_section * sizeof *c->total);
    memset(c->failed, 0, c->n_section * sizeof *c->failed);
    memset(c->cross, 0, (c->n_section + 1) * sizeof *c->cross);
    for (size_t i = 0; i < c->n; i++) {
        c->live[i] = (uint32_t)i;
        c->low[i] = 0;
        c->off[i] = not_put;
        c->raised[i] = false;
        for (uint32_t t = c->item[i].first; t < c->item[i].last; t++)
            c->total[t] += c->item[i].need;
        for (uint32_t t = c->item[i].first + 1; t < c->item[i].last; t++)
            c->cross[t]++;
    }
    find_twins(c);
    return put_all(c, (stretch){0, c->n, 0, (uint32_t)c->n_section});
}
