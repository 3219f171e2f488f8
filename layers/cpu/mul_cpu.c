/* The product of two values on the processor. */
#include "layers/elementwise/mul.h"

#include "layers/cpu/cpu.h"
#include "layers/cpu/values.h"

enum { TILE = 64, BLOCK = 32 }; /* channels at a time; pixels added in single precision */

/* A map of one pixel for each element, or of a sample's pixels, which share one factor a channel.
 */
struct job {
    const dt_args *a;
    int64_t count, pixels, channels, tiles;
};

/* to[i] = a[i] b[i] of n values, TILE at most; to may be one of both. */
DT_INLINE void multiply(dt_dtype t, const void *a, int64_t at_a, const void *b, int64_t at_b,
    void *to, int64_t at, int64_t n)
{
    float buffer[3][TILE];
    const float *u = dti_values_read(t, a, at_a, buffer[0], n);
    const float *v = dti_values_read(t, b, at_b, buffer[1], n);
    float *y = dti_values_target(t, to, at, buffer[2]);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = u[i] * v[i];
    dti_values_write(t, to, at, y, n);
}

DT_INLINE void forward_values(const struct job *j, dti_span s, dt_dtype t)
{
    void *const *port = j->a->port;
    for (int64_t i = s.begin; i < s.end; i += TILE)
        multiply(t, port[DT_X], i, port[DT_X + 1], i, port[DT_Y], i,
            s.end - i < TILE ? s.end - i : TILE);
}

/* dx of the first input may be dy, so it comes last. */
DT_INLINE void backward_values(const struct job *j, dti_span s, dt_dtype t)
{
    void *const *port = j->a->port;
    for (int64_t i = s.begin; i < s.end; i += TILE) {
        const int64_t n = s.end - i < TILE ? s.end - i : TILE;
        if (port[DT_DX + 1] != NULL)
            multiply(t, port[DT_DY], i, port[DT_X], i, port[DT_DX + 1], i, n);
        if (port[DT_DX] != NULL)
            multiply(t, port[DT_DY], i, port[DT_X + 1], i, port[DT_DX], i, n);
    }
}

/* Some channels of one sample: c to c + n of @sample. */
DT_INLINE void forward_map(const struct job *j, int64_t sample, int64_t c, int n, dt_dtype t)
{
    void *const *port = j->a->port;
    for (int64_t p = 0; p < j->pixels; p++) {
        const int64_t at = (sample * j->pixels + p) * j->channels + c;
        multiply(t, port[DT_X], at, port[DT_X + 1], sample * j->channels + c, port[DT_Y], at, n);
    }
}

/* Adds dy x of one pixel. */
DT_INLINE void add_products(const struct job *j, int64_t at, int n, float *part, dt_dtype t)
{
    float buffer[2][TILE];
    const float *dy = dti_values_read(t, j->a->port[DT_DY], at, buffer[0], n);
    const float *x = dti_values_read(t, j->a->port[DT_X], at, buffer[1], n);
#pragma omp simd
    for (int k = 0; k < n; k++)
        part[k] += dy[k] * x[k];
}

/* The factor's gradient: blocks of pixels in single precision, blocks in double. */
DT_INLINE void factor_gradient(const struct job *j, int64_t sample, int64_t c, int n, dt_dtype t)
{
    void *dfactor = j->a->port[DT_DX + 1];
    double sum[TILE] = {0};
    float buffer[TILE];
    for (int64_t first = 0; first < j->pixels; first += BLOCK) {
        float part[TILE] = {0};
        for (int64_t p = first; p < j->pixels && p < first + BLOCK; p++)
            add_products(j, (sample * j->pixels + p) * j->channels + c, n, part, t);
        for (int k = 0; k < TILE; k++)
            sum[k] += (double)part[k];
    }
    float *to = dti_values_target(t, dfactor, sample * j->channels + c, buffer);
    for (int k = 0; k < n; k++)
        to[k] = (float)sum[k];
    dti_values_write(t, dfactor, sample * j->channels + c, to, n);
}

/* The map's gradient may lie over dy, so it comes last. */
DT_INLINE void backward_map(const struct job *j, int64_t sample, int64_t c, int n, dt_dtype t)
{
    void *const *port = j->a->port;
    if (port[DT_DX + 1] != NULL)
        factor_gradient(j, sample, c, n, t);
    for (int64_t p = 0; p < j->pixels && port[DT_DX] != NULL; p++) {
        const int64_t at = (sample * j->pixels + p) * j->channels + c;
        multiply(t, port[DT_DY], at, port[DT_X + 1], sample * j->channels + c, port[DT_DX], at, n);
    }
}

/* Tasks are some elements, or some channels of one sample. */
#define FOR_FORM(form, name, t)                                                                    \
    DT_CLONES static void form##_values_##name(const void *job, int64_t i)                         \
    {                                                                                              \
        const struct job *j = job;                                                                 \
        form##_values(j, dti_span_of(j->count, DTI_GRAIN, i), t);                                  \
    }                                                                                              \
    DT_CLONES static void form##_map_##name(const void *job, int64_t i)                            \
    {                                                                                              \
        const struct job *j = job;                                                                 \
        const int64_t c = i % j->tiles * TILE, left = j->channels - c;                             \
        form##_map(j, i / j->tiles, c, left < TILE ? (int)left : TILE, t);                         \
    }

FOR_FORM(forward, f32, DT_F32)
FOR_FORM(forward, bf16, DT_BF16)
FOR_FORM(backward, f32, DT_F32)
FOR_FORM(backward, bf16, DT_BF16)

/* By type, then forward and backward. */
static dti_task *const of_values[DT_DTYPES][2] = {
    [DT_F32] = {forward_values_f32, backward_values_f32},
    [DT_BF16] = {forward_values_bf16, backward_values_bf16},
};
static dti_task *const of_map[DT_DTYPES][2] = {
    [DT_F32] = {forward_map_f32, backward_map_f32},
    [DT_BF16] = {forward_map_bf16, backward_map_bf16},
};

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const dt_shape x = dti_call_x(c), factor = dt_graph_shape(c->graph, c->node->in[1]);
    const struct job j = {a, a->n * dt_shape_sample(&x), x.h * x.w, x.c, dti_ceil_div(x.c, TILE)};
    const bool back = c->form == DT_BACKWARD;
    if (dt_shape_same(&x, &factor))
        dti_run_tasks(dti_ceil_div(j.count, DTI_GRAIN), of_values[c->dtype][back], &j);
    else
        dti_run_tasks(a->n * j.tiles, of_map[c->dtype][back], &j);
    return DT_OK;
}

const dt_kernels dt_mul_cpu = {.run = run};
