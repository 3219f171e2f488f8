/* Backward-data of 1 x 1 convolutions as a product over pixels. */
#include "layers/blocked/pixels.h"

#include <inttypes.h>
#include <omp.h>
#include <string.h>

#include "layers/cpu/tasks.h"
#include "layers/blocked/tile.h"

/* A task takes at most ROWS results, which stay in its second cache while panels of the weight
 * pass by, of which DEPTH rows fit the first. */
enum { PANEL = DTI_PIXELS_PANEL, DEPTH = 128, ROWS = 128, FOUR = 4 };

/* Elsewhere the library is as fast: this wins where a weight is large and pixels are few, and where
 * one panel is all, so that dy is read once. */
bool dti_pixels_accepts(const dti_pixels *s, dt_why *why)
{
    enum { FEW_PIXELS = 7 * 7, LARGE = 1 << 20, TALL = 4 * PANEL };
    const bool large = s->c * s->out >= LARGE && s->p * s->q <= FEW_PIXELS;
    const bool tall = s->c == PANEL && s->out >= TALL && s->stride == 1;
    if (s->c % PANEL != 0 || s->out % PANEL != 0)
        return dt_refuse(why, "%" PRId64 " and %" PRId64 " channels, needs multiples of %d", s->c,
            s->out, (int)PANEL);
    if (!large && !tall)
        return dt_refuse(why, "the weight is small, or pixels are many: the library is as fast");
    return true;
}

struct cleared {
    unsigned char *dx;
    size_t bytes; /* of a sample */
};

static void clear_sample(const void *job, int64_t i)
{
    const struct cleared *j = job;
    memset(j->dx + (size_t)i * j->bytes, 0, j->bytes);
}

void dti_pixels_clear(const dti_pixels *s, void *dx, size_t value_bytes)
{
    const struct cleared j = {dx, (size_t)(s->h * s->w * s->c) * value_bytes};
    dti_run_tasks(s->n, clear_sample, &j);
}

struct job {
    const dti_pixels *s;
    const float *dy, *weight;
    float *dx, *work;
    dti_tile_fn *tile;
    int64_t rows, each; /* results in all, and of a task */
};

size_t dti_pixels_work(void)
{
    return (size_t)(ROWS * PANEL * omp_get_max_threads()) * sizeof(float);
}

static void run_rows(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span of = dti_span_of(j->rows, j->each, i);
    float *sums = j->work + dt_team_member() * ROWS * PANEL;
    for (int64_t at = 0; at < j->s->c; at += PANEL) {
        dti_tile t = {.a = j->dy + of.begin * j->s->out,
            .row = j->s->out,
            .step = 1,
            .b = j->weight + at * j->s->out,
            .b_row = PANEL,
            .c = sums,
            .c_row = PANEL,
            .m = of.end - of.begin,
            .n = PANEL,
            .far = at == 0};
        for (int64_t k = 0; k < j->s->out; k += DEPTH, t.a += DEPTH, t.b += DEPTH * PANEL) {
            t.depth = j->s->out - k < DEPTH ? j->s->out - k : DEPTH;
            t.add = k > 0;
            j->tile(&t);
        }
        for (int64_t r = of.begin; r < of.end; r++)
            memcpy(j->dx + dti_pixel_at(j->s, r) + at, sums + (r - of.begin) * PANEL,
                PANEL * sizeof *sums);
    }
}

void dti_pixels_run(
    const dti_pixels *s, const float *dy, const float *weight, float *dx, float *work)
{
    struct job j = {s, dy, weight, dx, work, dti_tile_best(), s->n * s->p * s->q, 0};
    const int64_t tasks = 2 * dti_ceil_div(j.rows, 2 * ROWS); /* an even number, alike in size */
    j.each = dti_ceil_div(dti_ceil_div(j.rows, tasks), FOUR) * FOUR;
    if (s->stride > 1)
        dti_pixels_clear(s, dx, sizeof *dx);
    dti_run_tasks(dti_ceil_div(j.rows, j.each), run_rows, &j);
}
