/* Average pooling to a given size on the processor. */
#include "layers/pool/adaptive_avgpool.h"

#include "layers/cpu/cpu.h"
#include "layers/value.h"

enum { TILE = 64 }; /* channels worked on at a time */

struct job {
    dt_shape x, y;
    const void *from;
    void *to;
};

/* Window i of @n when @size pixels are cut into n. The windows that hold pixel p are then
 * window(p, size, n): the formula is its own inverse. */
DT_INLINE dti_span window(int64_t i, int64_t n, int64_t size)
{
    return (dti_span){i * size / n, dti_ceil_div((i + 1) * size, n)};
}

DT_INLINE int64_t length(int64_t i, int64_t n, int64_t size)
{
    const dti_span s = window(i, n, size);
    return s.end - s.begin;
}

/* One output pixel, some channels. Sums row by row first, which keeps the error of large windows
 * small. */
DT_INLINE void average(
    const struct job *j, const void *x, dti_span h, dti_span w, void *y, int n, dt_dtype t)
{
    const float over = (float)((h.end - h.begin) * (w.end - w.begin));
    float sum[TILE] = {0};
    for (int64_t r = h.begin; r < h.end; r++) {
        float line[TILE] = {0};
        for (int64_t q = w.begin; q < w.end; q++) {
            const void *v = dti_from(x, (r * j->x.w + q) * j->x.c, t);
#pragma omp simd
            for (int c = 0; c < n; c++)
                line[c] += dti_load(v, c, t);
        }
        for (int c = 0; c < TILE; c++)
            sum[c] += line[c];
    }
#pragma omp simd
    for (int c = 0; c < n; c++)
        dti_store(y, c, t, sum[c] / over);
}

/* One pixel of dx, some channels: what each window that holds it hands back. */
DT_INLINE void gather(
    const struct job *j, const void *dy, dti_span h, dti_span w, void *dx, int n, dt_dtype t)
{
    float sum[TILE] = {0};
    for (int64_t r = h.begin; r < h.end; r++)
        for (int64_t q = w.begin; q < w.end; q++) {
            const void *v = dti_from(dy, (r * j->y.w + q) * j->y.c, t);
            const float over = (float)(length(r, j->y.h, j->x.h) * length(q, j->y.w, j->x.w));
#pragma omp simd
            for (int c = 0; c < n; c++)
                sum[c] += dti_load(v, c, t) / over;
        }
#pragma omp simd
    for (int c = 0; c < n; c++)
        dti_store(dx, c, t, sum[c]);
}

/* Row i of the results, counted through all samples. */
DT_INLINE void row(const struct job *j, int64_t i, bool back, dt_dtype t)
{
    const dt_shape *to = back ? &j->x : &j->y, *from = back ? &j->y : &j->x;
    const int64_t channels = to->c, sample = i / to->h;
    const dti_span h = window(i % to->h, to->h, from->h);
    const void *values = dti_from(j->from, sample * dt_shape_sample(from), t);
    for (int64_t q = 0; q < to->w; q++) {
        const dti_span w = window(q, to->w, from->w);
        for (int64_t c = 0; c < channels; c += TILE) {
            const int n = channels - c < TILE ? (int)(channels - c) : TILE;
            void *result = dti_to(j->to, (i * to->w + q) * channels + c, t);
            if (back)
                gather(j, dti_from(values, c, t), h, w, result, n, t);
            else
                average(j, dti_from(values, c, t), h, w, result, n, t);
        }
    }
}

#define ROW(name, back, t)                                                                         \
    DT_CLONES static void name##_clones(const struct job *j, int64_t i)                            \
    {                                                                                              \
        row(j, i, back, t);                                                                        \
    }                                                                                              \
    static void name(const void *job, int64_t i)                                                   \
    {                                                                                              \
        name##_clones(job, i);                                                                     \
    }

ROW(forward_f32, false, DT_F32)
ROW(forward_bf16, false, DT_BF16)
ROW(backward_f32, true, DT_F32)
ROW(backward_bf16, true, DT_BF16)

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    static dti_task *const tasks[2][DT_DTYPES] = {
        {forward_f32, forward_bf16}, {backward_f32, backward_bf16}};
    const bool back = c->form == DT_BACKWARD;
    const struct job j = {.x = dti_call_x(c),
        .y = c->node->info.y,
        .from = a->port[back ? DT_DY : DT_X],
        .to = a->port[back ? DT_DX : DT_Y]};
    dti_run_tasks(a->n * (back ? j.x.h : j.y.h), tasks[back][c->dtype], &j);
    return DT_OK;
}

const dt_kernels dt_adaptive_avgpool_cpu = {.run = run};
