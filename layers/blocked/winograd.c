#include "layers/blocked/winograd.h"

#include <omp.h>
#include <string.h>

#include "layers/blocked/turn.h"
#include "layers/blocked/winograd_tiles.h"

static void put_results(
    const dti_winograd_call *j, dt_span of, const float *m, int64_t at, float *spare)
{
    const dt_winograd *s = j->s;
    const int64_t width = width_at(s->out, at), step = tap_step(j->each, width);
    for (int64_t i = of.begin; i < of.end; i++, m += width) {
        int64_t to[4];
        float *y[4];
        dti_winograd_results(s, i, to);
        for (int k = 0; k < 4; k++)
            y[k] = to[k] < 0 ? spare : j->y + to[k] * s->out + at;
        j->on->results(m, step, j->bias == NULL ? NULL : j->bias + at, width, y);
    }
}

/* Scratch of a task: transformed pixels, a panel of products, a row of zeros, a row for results
 * outside of the image. */
static int64_t run_room(const dt_winograd *s)
{
    return TAPS * (pixels_step(s, TILES) + tap_step(TILES, PANEL)) + s->c + PANEL;
}

static void run_tiles(const void *job, int64_t i)
{
    const dti_winograd_call *j = job;
    const dt_winograd *s = j->s;
    const dt_span of = dt_span_of(tiles(s), j->each, i);
    const int64_t step = pixels_step(s, j->each);
    float *v = j->work + omp_get_thread_num() * j->room, *m = v + TAPS * step;
    float *zero = m + TAPS * tap_step(j->each, PANEL), *spare = zero + s->c;
    memset(zero, 0, (size_t)s->c * sizeof *zero);
    dti_winograd_pixels(j, of, zero, v, step);
    for (int64_t at = 0; at < s->out; at += PANEL) {
        const int64_t width = width_at(s->out, at);
        dt_tile t = {.row = s->c + PAD,
            .step = 1,
            .b_row = width,
            .c_row = width,
            .m = of.end - of.begin,
            .n = width};
        for (int64_t tap = 0; tap < TAPS; tap++) {
            t.a = v + tap * step;
            t.b = j->u + panel_at(s->c, at) + tap * tap_step(s->c, width);
            t.c = m + tap * tap_step(j->each, width);
            dti_winograd_multiply(t, j->tile, s->c);
        }
        put_results(j, of, m, at, spare);
    }
}

size_t dt_winograd_work(const dt_winograd *s)
{
    return (size_t)(run_room(s) * omp_get_max_threads()) * sizeof(float);
}

void dt_winograd_run(
    const dt_winograd *s, const float *x, const float *u, const float *bias, float *y, float *work)
{
    dti_winograd_call j = dti_winograd_new(s, work);
    j.x = x;
    j.u = u;
    j.bias = bias;
    j.y = y;
    j.room = run_room(s);
    dt_team(dt_ceil_div(tiles(s), j.each), run_tiles, &j);
}

dt_winograd dt_winograd_turned(const dt_winograd *s)
{
    return (dt_winograd){s->n, s->p, s->q, s->out, s->h, s->w, s->c, 2 - s->pad};
}

size_t dt_winograd_weight_bytes(const dt_winograd *s)
{
    return (size_t)panels_room(s->c, s->out) * sizeof(float);
}

/* One input channel's taps, a panel of outputs. */
static void take_taps(const void *job, int64_t i)
{
    const dti_winograd_call *j = job;
    const dt_winograd *s = j->s;
    for (int64_t at = 0; at < s->out; at += PANEL) {
        const int64_t width = width_at(s->out, at);
        const float *g[9];
        for (int64_t k = 0; k < 9; k++)
            g[k] = j->x + (k * s->c + i) * s->out + at;
        j->on->taps(g, width, j->y + panel_at(s->c, at) + i * width, tap_step(s->c, width));
    }
}

/* 16 by 16 channels of a tap change places. */
static void turn(const float *from, int64_t row, float *to, int64_t to_row)
{
    for (int64_t i = 0; i < PAD; i += 4) {
        const float *const x[4] = {
            from + i * row, from + (i + 1) * row, from + (i + 2) * row, from + (i + 3) * row};
        for (int64_t j = 0; j < PAD; j += 4)
            dt_turn_four(x, j, 1, to + j * to_row + i, to_row);
    }
}

/* The same of a turned weight, for 16 of its input channels, which are the layer's outputs, and
 * all of its outputs. */
static void take_turned_taps(const void *job, int64_t i)
{
    const dti_winograd_call *j = job;
    const dt_winograd *s = j->s;
    float block[PAD * 9 * PAD];
    for (int64_t at = 0; at < s->out; at += PAD) {
        const int64_t panel = at / PANEL * PANEL, width = width_at(s->out, panel);
        for (int64_t k = 0; k < 9; k++)
            turn(j->x + (k * s->out + at) * s->c + PAD * i, s->c, block + (8 - k) * PAD, 9 * PAD);
        for (int64_t c = 0; c < PAD; c++) {
            const float *g[9];
            for (int64_t k = 0; k < 9; k++)
                g[k] = block + (c * 9 + k) * PAD;
            j->on->taps(g, PAD, j->y + panel_at(s->c, panel) + (PAD * i + c) * width + at - panel,
                tap_step(s->c, width));
        }
    }
}

void dt_winograd_weight(const dt_winograd *s, bool turned, const float *weight, float *to)
{
    dti_winograd_call j = dti_winograd_new(s, NULL);
    j.x = weight;
    j.y = to;
    dt_team(turned ? s->c / PAD : s->c, turned ? take_turned_taps : take_taps, &j);
}
