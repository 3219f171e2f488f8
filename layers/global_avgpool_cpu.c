#include <string.h>

#include "layers/cpu.h"
#include "layers/team.h"

enum { TILE = 64, BLOCK = 32 }; /* channels at a time; pixels added in single precision */

struct job {
    const dt_args *a;
    int64_t pixels, channels, tiles;
};

/* Blocks of pixels in single precision, blocks in double: the error does not grow with the image.
 */
DT_CLONES static void mean(const float *x, float *y, int64_t pixels, int64_t channels, int n)
{
    double sum[TILE] = {0};
    for (int64_t at = 0; at < pixels; at += BLOCK) {
        float part[TILE] = {0};
        for (int64_t p = at; p < pixels && p < at + BLOCK; p++)
#pragma omp simd
            for (int c = 0; c < n; c++)
                part[c] += x[p * channels + c];
        for (int c = 0; c < TILE; c++)
            sum[c] += (double)part[c];
    }
    for (int c = 0; c < n; c++)
        y[c] = (float)(sum[c] / (double)pixels);
}

DT_CLONES static void spread(const float *dy, float *dx, int64_t pixels, int64_t channels, int n)
{
    float part[TILE];
    for (int c = 0; c < n; c++)
        part[c] = dy[c] / (float)pixels;
    for (int64_t p = 0; p < pixels; p++)
        memcpy(dx + p * channels, part, (size_t)n * sizeof *part);
}

static void forward_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const int64_t sample = i / j->tiles, c = i % j->tiles * TILE, left = j->channels - c;
    mean((const float *)j->a->port[DT_X] + sample * j->pixels * j->channels + c,
        (float *)j->a->port[DT_Y] + sample * j->channels + c, j->pixels, j->channels,
        left < TILE ? (int)left : TILE);
}

static void backward_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const int64_t sample = i / j->tiles, c = i % j->tiles * TILE, left = j->channels - c;
    spread((const float *)j->a->port[DT_DY] + sample * j->channels + c,
        (float *)j->a->port[DT_DX] + sample * j->pixels * j->channels + c, j->pixels, j->channels,
        left < TILE ? (int)left : TILE);
}

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const dt_shape x = dt_call_x(c);
    const struct job j = {a, x.h * x.w, x.c, dt_ceil_div(x.c, TILE)};
    dt_team(a->n * j.tiles, c->form == DT_BACKWARD ? backward_task : forward_task, &j);
    return DT_OK;
}

const dt_kernels dt_global_avgpool_cpu = {.run = run};
