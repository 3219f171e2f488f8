#include <string.h>

#include "layers/blocked/winograd.h"
#include "layers/blocked/winograd_tiles.h"

/* The gradient is a sum over all tiles. Small weights have it made in PARTS parts, each a task with
 * all of its scratch, added up in order; large ones in one part, whose steps are tasks. Scratch for
 * the tiles it works on at a time is at most SMALL or LARGE floats; or it holds all tiles, and some
 * columns of the weight are made at a time, where that takes less. */
enum {
    PARTS = 8,
    FEW = 16,
    SMALL = 1 << 18,
    LARGE = 1 << 22,
    SMALL_WEIGHT = 128 * 128,
    COLUMNS = 2 * PANEL
};

typedef struct cut {
    int64_t parts, each, tiles;  /* tiles of a part; tiles at a time */
    int64_t columns;             /* of the weight at a time */
    int64_t v, d, u, bias, room; /* where things are in a part's scratch */
} cut;

static void lay_out(cut *k, const dt_winograd *s)
{
    k->v = s->c > s->out ? s->c : s->out;
    k->d = k->v + TAPS * pixels_step(s, k->tiles);
    k->u = k->d + panels_room(k->tiles, k->columns);
    k->bias = k->u + panels_room(s->c, k->columns);
    k->room = k->bias + s->out;
}

static cut cut_gradient(const dt_winograd *s)
{
    cut k = {.parts = s->c * s->out > SMALL_WEIGHT ? 1 : PARTS, .columns = s->out};
    k.each = dt_ceil_div(tiles(s), k.parts);
    k.parts = dt_ceil_div(tiles(s), k.each);
    const int64_t room = (k.parts > 1 ? SMALL : LARGE) / (TAPS * (s->c + s->out));
    k.tiles = least(k.each, room < FEW ? FEW : room / FEW * FEW);
    lay_out(&k, s);
    if (k.parts > 1)
        return k;
    cut narrow = k;
    narrow.tiles = k.each;
    narrow.columns = least(COLUMNS, s->out);
    lay_out(&narrow, s);
    return narrow.room < k.room ? narrow : k;
}

size_t dt_winograd_gradient_work(const dt_winograd *s)
{
    const cut k = cut_gradient(s);
    return (size_t)(k.parts * k.room) * sizeof(float);
}

/* Some tiles of a part, and some columns. */
struct step {
    const dti_winograd_call *j;
    const cut *k;
    dt_span of, columns;
    float *work;
    bool add;
};

static void take_slopes(const struct step *w, dt_span some)
{
    const dt_winograd *s = w->j->s;
    for (int64_t i = some.begin; i < some.end; i++) {
        int64_t from[4];
        const float *dy[4];
        dti_winograd_results(s, i, from);
        for (int64_t at = w->columns.begin; at < w->columns.end; at += PANEL) {
            const int64_t width = width_at(s->out, at), here = at - w->columns.begin;
            for (int k = 0; k < 4; k++)
                dy[k] = from[k] < 0 ? w->work : w->j->dy + from[k] * s->out + at;
            w->j->on->slopes(dy, width,
                w->work + w->k->d + panel_at(w->k->tiles, here) + (i - w->of.begin) * width,
                tap_step(w->k->tiles, width));
        }
    }
}

static void take_few(const void *job, int64_t i)
{
    const struct step *w = job;
    const int64_t n = w->of.end - w->of.begin;
    dt_span some = dt_span_of(n, FEW, i);
    float *to = w->work + w->k->v + some.begin * (w->j->s->c + PAD);
    some.begin += w->of.begin;
    some.end += w->of.begin;
    if (w->columns.begin == 0)
        dti_winograd_pixels(w->j, some, w->work, to, pixels_step(w->j->s, w->k->tiles));
    take_slopes(w, some);
}

/* What the tiles add to one tap's matrix, one panel of it. The tap that sums a tile's four
 * gradients gives the bias's. */
static void add_products(const void *job, int64_t i)
{
    const struct step *w = job;
    const dt_winograd *s = w->j->s;
    const int64_t tap = i % TAPS, here = i / TAPS * PANEL, at = w->columns.begin + here;
    const int64_t width = width_at(s->out, at);
    const int64_t n = w->of.end - w->of.begin;
    const float *d =
        w->work + w->k->d + panel_at(w->k->tiles, here) + tap * tap_step(w->k->tiles, width);
    const dt_tile t = {.a = w->work + w->k->v + tap * pixels_step(s, w->k->tiles),
        .row = 1,
        .step = s->c + PAD,
        .b = d,
        .b_row = width,
        .c = w->work + w->k->u + panel_at(s->c, here) + tap * tap_step(s->c, width),
        .c_row = width,
        .m = s->c,
        .n = width,
        .add = w->add};
    dti_winograd_multiply(t, w->j->tile, n);
    if (tap == SUM_TAP && w->j->bias_too)
        w->j->on->add_rows(d, n, width, w->work + w->k->bias + at);
}

/* A team of its own is not for a task of a team. */
static void each_task(const cut *k, int64_t n, dt_task *task, const struct step *w)
{
    if (k->parts == 1)
        dt_team(n, task, w);
    else
        for (int64_t i = 0; i < n; i++)
            task(w, i);
}

static void make_part(const void *job, int64_t part)
{
    const struct step *whole = job;
    const cut *k = whole->k;
    const dt_winograd *s = whole->j->s;
    const dt_span of = dt_span_of(tiles(s), k->each, part);
    struct step w = {
        .j = whole->j, .k = k, .columns = whole->columns, .work = whole->j->work + part * k->room};
    if (w.columns.begin == 0) {
        memset(w.work, 0, (size_t)k->v * sizeof *w.work);
        memset(w.work + k->bias, 0, (size_t)s->out * sizeof *w.work);
    }
    for (int64_t i = 0; i < dt_ceil_div(of.end - of.begin, k->tiles); i++) {
        const dt_span some = dt_span_of(of.end - of.begin, k->tiles, i);
        w.of = (dt_span){of.begin + some.begin, of.begin + some.end};
        w.add = i > 0;
        each_task(k, dt_ceil_div(some.end - some.begin, FEW), take_few, &w);
        each_task(k, TAPS * dt_ceil_div(w.columns.end - w.columns.begin, PANEL), add_products, &w);
    }
}

/* One input channel of the gradient's columns from the sum of the parts. */
static void put_gradient(const void *job, int64_t i)
{
    const struct step *w = job;
    const dt_winograd *s = w->j->s;
    const cut *k = w->k;
    for (int64_t at = w->columns.begin; at < w->columns.end; at += PANEL) {
        const int64_t width = width_at(s->out, at), here = at - w->columns.begin;
        float *g[9];
        for (int64_t t = 0; t < 9; t++)
            g[t] = w->j->y + (t * s->c + i) * s->out + at;
        w->j->on->gradients(w->j->work + k->u + panel_at(s->c, here) + i * width,
            tap_step(s->c, width), k->parts, k->room, width, g);
    }
}

static void put_bias(const dti_winograd_call *j, const cut *k, float *dbias)
{
    const int64_t n = j->s->out;
    memcpy(dbias, j->work + k->bias, (size_t)n * sizeof *dbias);
    for (int64_t p = 1; p < k->parts; p++)
        for (int64_t c = 0; c < n; c++)
            dbias[c] += j->work[p * k->room + k->bias + c];
}

void dt_winograd_gradient(const dt_winograd *s, const float *x, const float *dy, float *dweight,
    float *dbias, float *work)
{
    dti_winograd_call j = dti_winograd_new(s, work);
    const cut k = cut_gradient(s);
    struct step w = {.j = &j, .k = &k};
    j.x = x;
    j.dy = dy;
    j.y = dweight;
    j.bias_too = dbias != NULL;
    for (int64_t i = 0; i < dt_ceil_div(s->out, k.columns); i++) {
        w.columns = dt_span_of(s->out, k.columns, i);
        if (k.parts == 1)
            make_part(&w, 0);
        else
            dt_team(k.parts, make_part, &w);
        dt_team(s->c, put_gradient, &w);
    }
    if (dbias != NULL)
        put_bias(&j, &k, dbias);
}
