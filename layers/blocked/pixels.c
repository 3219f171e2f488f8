/* Backward-data of 1 x 1 convolutions as a product over pixels. */
#include "layers/blocked/pixels.h"

#include <inttypes.h>
#include <omp.h>
#include <string.h>

#include "layers/cpu/tasks.h"
#include "layers/blocked/tile.h"

/* A task takes at most ROWS results, which stay in its second cache while panels of the weight
 * pass by, of which DEPTH rows fit the first. */
enum { PANEL = DTI_DNNL_PANEL, DEPTH = 128, ROWS = 128, FOUR = 4 };

/* Elsewhere the library is as fast: this wins where a weight is large and pixels are few, and where
 * one panel is all, so that dy is read once. */
bool dti_pixels_accepts(const dt_dnnl_problem *p, dt_why *why)
{
    enum { FEW_PIXELS = 7 * 7, LARGE = 1 << 20, TALL = 4 * PANEL };
    const bool large = p->c * p->out >= LARGE && p->p * p->q <= FEW_PIXELS;
    const bool tall = p->c == PANEL && p->out >= TALL && p->stride == 1;
    if (p->fc || p->bf16)
        return dt_refuse(why, "needs a convolution of fp32");
    if (p->kernel != 1 || p->pad != 0)
        return dt_refuse(why, "kernel %s, padding %s, needs 1 and 0", dt_sides_print(p->kernel).s,
            dt_sides_print(p->pad).s);
    if (p->groups != 1)
        return dt_refuse(why, "%" PRId64 " groups, needs 1", p->groups);
    if (p->c % PANEL != 0 || p->out % PANEL != 0)
        return dt_refuse(why, "%" PRId64 " and %" PRId64 " channels, needs multiples of %d", p->c,
            p->out, (int)PANEL);
    if (!large && !tall)
        return dt_refuse(why, "the weight is small, or pixels are many: the library is as fast");
    return true;
}

struct job {
    const dt_dnnl_problem *p;
    const float *dy, *weight;
    float *dx, *work;
    dti_tile_fn *tile;
    int64_t rows, each; /* results in all, and of a task */
};

size_t dti_pixels_work(void)
{
    return (size_t)(ROWS * PANEL * omp_get_max_threads()) * sizeof(float);
}

static void clear_sample(const void *job, int64_t i)
{
    const struct job *j = job;
    const size_t count = (size_t)(j->p->h * j->p->w * j->p->c);
    memset(j->dx + (size_t)i * count, 0, count * sizeof *j->dx);
}

/* Where result r of the layer looked. */
static float *pixel(const struct job *j, int64_t r)
{
    const dt_dnnl_problem *p = j->p;
    const int64_t n = r / (p->p * p->q), h = r / p->q % p->p * dt_sides_h(p->stride);
    const int64_t w = r % p->q * dt_sides_w(p->stride);
    return j->dx + ((n * p->h + h) * p->w + w) * p->c;
}

static void run_rows(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span of = dti_span_of(j->rows, j->each, i);
    float *sums = j->work + dt_team_member() * ROWS * PANEL;
    for (int64_t at = 0; at < j->p->c; at += PANEL) {
        dti_tile t = {.a = j->dy + of.begin * j->p->out,
            .row = j->p->out,
            .step = 1,
            .b = j->weight + at * j->p->out,
            .b_row = PANEL,
            .c = sums,
            .c_row = PANEL,
            .m = of.end - of.begin,
            .n = PANEL};
        for (int64_t k = 0; k < j->p->out; k += DEPTH, t.a += DEPTH, t.b += DEPTH * PANEL) {
            t.depth = j->p->out - k < DEPTH ? j->p->out - k : DEPTH;
            t.add = k > 0;
            j->tile(&t);
        }
        for (int64_t r = of.begin; r < of.end; r++)
            memcpy(pixel(j, r) + at, sums + (r - of.begin) * PANEL, PANEL * sizeof *sums);
    }
}

void dti_pixels_run(const dt_dnnl_problem *p, int64_t n, const float *dy, const float *weight,
    float *dx, float *work)
{
    struct job j = {p, dy, weight, dx, work, dti_tile_best(), n * p->p * p->q, 0};
    const int64_t tasks = 2 * dti_ceil_div(j.rows, 2 * ROWS); /* an even number, alike in size */
    j.each = dti_ceil_div(dti_ceil_div(j.rows, tasks), FOUR) * FOUR;
    if (p->stride > 1)
        dti_run_tasks(n, clear_sample, &j);
    dti_run_tasks(dti_ceil_div(j.rows, j.each), run_rows, &j);
}
