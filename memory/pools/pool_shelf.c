/* Placed intervals in the order of their offsets, on boards of a few each. */
#include "memory/pools/pool_shelf.h"

#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers.h"

enum { PARTS = 64, TICKS = 1 << 15 };
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first of some bytes is the lowest");

bool dti_shelf_init_during(dti_shelf *s, size_t n, int64_t start, int64_t last)
{
    /* Boards come to be by halving a full one, so each but the first has half its places taken. */
    const size_t boards = n / (DTI_BOARD / 2) + 1;
    *s = (dti_shelf){.board = dt_alloc(boards, sizeof *s->board),
        .places = dt_alloc(boards, DTI_BOARD * sizeof *s->places),
        .lived = dt_alloc(boards, DTI_BOARD * sizeof *s->lived),
        .ticks = dt_alloc(boards, sizeof *s->ticks),
        .start = start};
    while (((uint64_t)last - (uint64_t)start) >> s->shift >= PARTS)
        s->shift++;
    while (((uint64_t)last - (uint64_t)start) >> s->tick >= TICKS)
        s->tick++;
    return s->board != NULL && s->places != NULL && s->lived != NULL && s->ticks != NULL;
}

bool dti_shelf_init(dti_shelf *s, const dt_interval *v, size_t n)
{
    int64_t start = INT64_MAX, end = INT64_MIN;
    for (size_t i = 0; i < n; i++) {
        if (v[i].bytes == 0)
            continue;
        start = v[i].lower < start ? v[i].lower : start;
        end = v[i].upper > end ? v[i].upper : end;
    }
    return start < end ? dti_shelf_init_during(s, n, start, end - 1)
                       : dti_shelf_init_during(s, n, 0, 0);
}

void dti_shelf_deinit(dti_shelf *s)
{
    dt_free(s->board);
    dt_free(s->places);
    dt_free(s->lived);
    dt_free(s->ticks);
}

void dti_shelf_clear(dti_shelf *s)
{
    s->n = 0;
}

/* Which part of the time an instant is in, or the nearest. */
static uint64_t part(const dti_shelf *s, int64_t when)
{
    const uint64_t at = when > s->start ? ((uint64_t)when - (uint64_t)s->start) >> s->shift : 0;
    return at < PARTS ? at : PARTS - 1;
}

/* The parts of the time that a life touches. */
static uint64_t parts(const dti_shelf *s, int64_t lower, int64_t upper)
{
    const uint64_t first = part(s, lower), last = part(s, upper - 1);
    return (UINT64_MAX << first) & (UINT64_MAX >> (PARTS - 1 - last));
}

/* The tick of an instant, or the nearest. */
static int16_t tick(const dti_shelf *s, int64_t when)
{
    const uint64_t at = when > s->start ? ((uint64_t)when - (uint64_t)s->start) >> s->tick : 0;
    return (int16_t)(at < TICKS ? at : TICKS - 1);
}

static dti_life life_of(const dti_shelf *s, const dt_interval *x)
{
    return (dti_life){x, parts(s, x->lower, x->upper), tick(s, x->lower), tick(s, x->upper - 1)};
}

/* Those of a board that share an instant with x: a bit each, the first's is the lowest. */
static uint32_t collect(const dti_shelf *s, const dti_board *b, const dti_life *l)
{
    enum { AT_ONCE = sizeof(uint64_t) };
    static const uint64_t collected = 0x0102040810204080; /* bytes of 0 and 1 to bits, at the top */
    const int16_t first = l->first, last = l->last;
    uint8_t share[DTI_BOARD];
    uint32_t found = 0;
    for (size_t i = 0; i < DTI_BOARD; i++)
        share[i] = (b->ticks->first[i] <= last) & (b->ticks->last[i] >= first);
    for (size_t i = 0; i < DTI_BOARD; i += AT_ONCE) {
        uint64_t some;
        memcpy(&some, &share[i], sizeof some);
        found |= (uint32_t)(some * collected >> 56) << i;
    }
    for (uint32_t left = s->tick == 0 ? 0 : found; left != 0; left &= left - 1) {
        const dti_lived *p = &b->lived[__builtin_ctz(left)];
        if (p->lower >= l->x->upper || p->upper <= l->x->lower)
            found &= ~(left & (~left + 1));
    }
    return found;
}

/* The highest end, and the largest room between those of a board that no other covers. */
static void find_gap(dti_board *b)
{
    uint64_t end = b->place[0].end, gap = 0;
    for (size_t i = 1; i < b->n; i++) {
        const dti_placed *p = &b->place[i];
        const uint64_t room = p->off > end ? p->off - end : 0;
        gap = room > gap ? room : gap;
        end = p->end > end ? p->end : end;
    }
    b->end = end;
    b->gap = gap;
    b->known = true;
}

/* Whether x fits nowhere between those of a board, all of which it meets, nor below them: most
 * boards are such where lives lie in each other, as those of a step's values do. */
static bool leaves_no_room(dti_board *b, uint32_t found, uint64_t need, uint64_t off)
{
    if (found != UINT32_MAX >> (DTI_BOARD - b->n) || (b->off >= off && b->off - off >= need))
        return false;
    if (!b->known)
        find_gap(b);
    return b->gap < need;
}

/* Above what ends there; false beyond 2^64. */
static bool raise(uint64_t *off, uint64_t end, uint64_t align)
{
    return end <= *off || dt_round_up(end, align, off);
}

bool dti_shelf_lowest(const dti_shelf *s, const dt_interval *x, uint64_t *off, size_t *below)
{
    const uint64_t need = dti_interval_need(x);
    const dti_life l = life_of(s, x);
    *off = 0;
    *below = 0;
    for (dti_board *b = s->board; b < s->board + s->n; b++) {
        uint32_t found = (b->busy & l.parts) != 0 ? collect(s, b, &l) : 0;
        if (leaves_no_room(b, found, need, *off)) {
            found = 0;
            if (!raise(off, b->end, x->align))
                return false;
        }
        for (; found != 0; found &= found - 1) {
            const int at = __builtin_ctz(found);
            const dti_placed *p = &b->place[at];
            if (p->off >= *off && p->off - *off >= need) {
                *below += (size_t)at;
                return true;
            }
            if (!raise(off, p->end, x->align))
                return false;
        }
        *below += b->n;
    }
    return *off < UINT64_MAX - need;
}

void dti_shelf_begin(dti_shelf_walk *w, const dti_shelf *s, const dt_interval *x)
{
    *w = (dti_shelf_walk){.shelf = s, .life = life_of(s, x)};
}

/* What stands on the board after the next, which lies anywhere: processors foresee only what lies
 * in a row. */
static void fetch_early(const dti_shelf_walk *w)
{
    enum { LINE = 64, AHEAD = 1 };
    if (w->board + AHEAD >= w->shelf->n)
        return;
    const dti_board *b = &w->shelf->board[w->board + AHEAD];
    for (size_t at = 0; at < sizeof *b->ticks; at += LINE)
        __builtin_prefetch((const char *)b->ticks + at);
    for (size_t at = 0; at < b->n * sizeof *b->place; at += LINE)
        __builtin_prefetch((const char *)b->place + at);
}

/* The next board, if there is one. */
static dti_board *open_board(dti_shelf_walk *w, int64_t *steps)
{
    if (w->board == w->shelf->n)
        return NULL;
    fetch_early(w);
    dti_board *b = &w->shelf->board[w->board++];
    const bool look = (b->busy & w->life.parts) != 0;
    w->place = b->place;
    w->found = look ? collect(w->shelf, b, &w->life) : 0;
    *steps += 1 + (look ? (int64_t)b->n : 0);
    return b;
}

const dti_placed *dti_shelf_next(dti_shelf_walk *w, int64_t *steps)
{
    while (w->found == 0)
        if (open_board(w, steps) == NULL)
            return NULL;
    const dti_placed *p = &w->place[__builtin_ctz(w->found)];
    w->found &= w->found - 1;
    return p;
}

/* Over those of the board looked at, up to one that leaves room below it: *fits. False beyond 2^64.
 * Most are alike in nothing, so that there is no branch on which of two ends is higher. */
static bool pass_board(dti_shelf_walk *w, uint64_t need, uint64_t *off, bool *fits)
{
    const uint64_t rest = w->life.x->align - 1;
    uint64_t at = *off;
    uint32_t found = w->found;
    bool ok = true;
    *fits = false;
    for (; found != 0; found &= found - 1) {
        const dti_placed *p = &w->place[__builtin_ctz(found)];
        *fits = p->off >= at && p->off - at >= need;
        ok = p->end <= UINT64_MAX - rest;
        if (*fits || !ok)
            break;
        const uint64_t end = (p->end + rest) & ~rest;
        at = end > at ? end : at;
    }
    w->found = found;
    *off = at;
    return *fits || ok;
}

bool dti_shelf_pass(dti_shelf_walk *w, uint64_t need, uint64_t *off, int64_t *steps)
{
    const uint64_t align = w->life.x->align;
    for (;;) {
        bool fits;
        if (!pass_board(w, need, off, &fits))
            return false;
        if (fits)
            return true;
        dti_board *b = open_board(w, steps);
        if (b == NULL)
            return true;
        if (leaves_no_room(b, w->found, need, *off)) {
            w->found = 0;
            if (!raise(off, b->end, align))
                return false;
        }
    }
}

/* The last board that begins at an offset or below it, or the first. */
static size_t find_board(const dti_shelf *s, uint64_t off)
{
    size_t lo = 0, hi = s->n;
    while (hi - lo > 1) {
        const size_t mid = lo + (hi - lo) / 2;
        if (s->board[mid].off <= off)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static void clear_place(const dti_board *b, size_t at)
{
    b->ticks->first[at] = INT16_MAX;
    b->ticks->last[at] = -1;
}

static dti_board *add_board(dti_shelf *s, size_t at)
{
    memmove(&s->board[at + 1], &s->board[at], (s->n - at) * sizeof *s->board);
    s->board[at] = (dti_board){.place = s->places + s->n * DTI_BOARD,
        .lived = s->lived + s->n * DTI_BOARD,
        .ticks = s->ticks + s->n};
    for (size_t i = 0; i < DTI_BOARD; i++)
        clear_place(&s->board[at], i);
    s->n++;
    return &s->board[at];
}

static void put_on(const dti_shelf *s, dti_board *b, const dti_placed *x, const dti_lived *life)
{
    size_t at = b->n++;
    for (; at > 0 && b->place[at - 1].off > x->off; at--) {
        b->place[at] = b->place[at - 1];
        b->lived[at] = b->lived[at - 1];
        b->ticks->first[at] = b->ticks->first[at - 1];
        b->ticks->last[at] = b->ticks->last[at - 1];
    }
    b->place[at] = *x;
    b->lived[at] = *life;
    b->ticks->first[at] = tick(s, life->lower);
    b->ticks->last[at] = tick(s, life->upper - 1);
    b->busy |= parts(s, life->lower, life->upper);
    b->off = b->place[0].off;
    b->known = false;
}

/* The upper half of a full board goes to a new one. */
static void halve(dti_shelf *s, size_t at)
{
    dti_board *upper = add_board(s, at + 1), *lower = &s->board[at];
    lower->busy = 0;
    lower->n = 0;
    for (size_t i = 0; i < DTI_BOARD; i++)
        put_on(s, i < DTI_BOARD / 2 ? lower : upper, &lower->place[i], &lower->lived[i]);
    for (size_t i = DTI_BOARD / 2; i < DTI_BOARD; i++)
        clear_place(lower, i);
}

void dti_shelf_put(dti_shelf *s, const dt_interval *x, uint64_t off)
{
    const dti_placed p = {off, off + dti_interval_need(x)};
    const dti_lived life = {x->lower, x->upper};
    if (s->n == 0)
        add_board(s, 0);
    size_t at = find_board(s, off);
    if (s->board[at].n == DTI_BOARD) {
        halve(s, at);
        at += s->board[at + 1].off <= off;
    }
    put_on(s, &s->board[at], &p, &life);
}
