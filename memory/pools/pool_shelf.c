/* Placed intervals in the order of their offsets, on boards of a few each. */
#include "memory/pools/pool_shelf.h"

#include <string.h>

#include "engine/base/alloc.h"

enum { PARTS = 64 };

bool dti_shelf_init_during(dti_shelf *s, size_t n, int64_t start, int64_t last)
{
    /* Boards come to be by halving a full one, so each but the first has half its places taken. */
    const size_t boards = n / (DTI_BOARD / 2) + 1;
    *s = (dti_shelf){.board = dt_alloc(boards, sizeof *s->board),
        .places = dt_alloc(boards, DTI_BOARD * sizeof *s->places),
        .start = start};
    while (((uint64_t)last - (uint64_t)start) >> s->shift >= PARTS)
        s->shift++;
    return s->board != NULL && s->places != NULL;
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

/* Those of a board that share an instant with x, without a branch: which do is hard to guess. */
static size_t collect(const dti_board *b, const dt_interval *x, size_t *hits)
{
    const int64_t lower = x->lower, upper = x->upper;
    size_t n = 0;
    for (size_t i = 0; i < b->n; i++) {
        hits[n] = i;
        n += (size_t)((b->place[i].lower < upper) & (b->place[i].upper > lower));
    }
    return n;
}

bool dti_shelf_lowest(const dti_shelf *s, const dt_interval *x, uint64_t *off, size_t *below)
{
    const uint64_t need = dti_interval_need(x), life = parts(s, x->lower, x->upper);
    size_t hits[DTI_BOARD];
    *off = 0;
    *below = 0;
    for (const dti_board *b = s->board; b < s->board + s->n; b++) {
        const size_t n = (b->busy & life) != 0 ? collect(b, x, hits) : 0;
        for (size_t k = 0; k < n; k++) {
            const dti_placed *p = &b->place[hits[k]];
            if (p->off >= *off && p->off - *off >= need) {
                *below += hits[k];
                return true;
            }
            if (p->end > *off && !dti_round_up(p->end, x->align, off))
                return false;
        }
        *below += b->n;
    }
    return *off < UINT64_MAX - need;
}

void dti_shelf_begin(dti_shelf_walk *w, const dti_shelf *s, const dt_interval *x)
{
    w->shelf = s;
    w->life = parts(s, x->lower, x->upper);
    w->board = w->hit = w->n_hit = 0;
}

const dti_placed *dti_shelf_next(dti_shelf_walk *w, const dt_interval *x, int64_t *steps)
{
    while (w->hit == w->n_hit) {
        if (w->board == w->shelf->n)
            return NULL;
        const dti_board *b = &w->shelf->board[w->board++];
        w->place = b->place;
        w->hit = w->n_hit = 0;
        ++*steps;
        if ((b->busy & w->life) == 0)
            continue;
        w->n_hit = collect(b, x, w->hits);
        *steps += (int64_t)b->n;
    }
    return &w->place[w->hits[w->hit++]];
}

/* The last board that begins at an offset or below it, or the first. */
static size_t find_board(const dti_shelf *s, uint64_t off)
{
    size_t lo = 0, hi = s->n;
    while (hi - lo > 1) {
        const size_t mid = lo + (hi - lo) / 2;
        if (s->board[mid].place[0].off <= off)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static dti_board *add_board(dti_shelf *s, size_t at)
{
    memmove(&s->board[at + 1], &s->board[at], (s->n - at) * sizeof *s->board);
    s->board[at] = (dti_board){.place = s->places + s->n * DTI_BOARD};
    s->n++;
    return &s->board[at];
}

static void put_on(const dti_shelf *s, dti_board *b, const dti_placed *x)
{
    size_t at = b->n++;
    for (; at > 0 && b->place[at - 1].off > x->off; at--)
        b->place[at] = b->place[at - 1];
    b->place[at] = *x;
    b->busy |= parts(s, x->lower, x->upper);
}

/* The upper half of a full board goes to a new one. */
static void halve(dti_shelf *s, size_t at)
{
    dti_board *upper = add_board(s, at + 1), *lower = &s->board[at];
    lower->busy = 0;
    lower->n = 0;
    for (size_t i = 0; i < DTI_BOARD; i++)
        put_on(s, i < DTI_BOARD / 2 ? lower : upper, &lower->place[i]);
}

void dti_shelf_put(dti_shelf *s, const dt_interval *x, uint64_t off)
{
    const dti_placed p = {off, off + dti_interval_need(x), x->lower, x->upper};
    if (s->n == 0)
        add_board(s, 0);
    size_t at = find_board(s, off);
    if (s->board[at].n == DTI_BOARD) {
        halve(s, at);
        at += s->board[at + 1].place[0].off <= off;
    }
    put_on(s, &s->board[at], &p);
}
