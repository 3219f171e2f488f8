/* Local response normalisation on the processor, without workspace. */
#include "layers/norm/lrn.h"

#include "layers/cpu/cpu.h"
#include "layers/elementwise/curves.h"
#include "layers/value.h"

/* Channels are worked on in tiles, of which a window of values around them is held: results may
 * then take the bytes of what is read, which is always ahead. */
enum { TILE = 64, HALO = DTI_LRN_MOST - 1, HELD = TILE + 2 * HALO };

/* Tasks are runs of pixels, counted through all samples. */
struct job {
    int64_t pixels, each, channels;
    int before, behind, halo;    /* channels of a window on either side; both together */
    float k, share, power, pull; /* share: alpha / size; power: -beta; pull: 2 alpha beta / size */
    const void *x, *dy;
    void *to;
};

/* Values of channels [c - halo, c + n + halo), with zeros past the ends. */
typedef struct held {
    float v[HELD];
} held;

/* Put @n channels from c on behind @at held values. */
DT_INLINE void hold(
    const struct job *j, held *h, int at, const void *v, int64_t c, int n, dt_dtype t)
{
    const int64_t left = j->channels - c;
    const int real = left < 0 ? 0 : left < n ? (int)left : n;
#pragma omp simd
    for (int i = 0; i < real; i++)
        h->v[at + i] = dti_load(v, c + i, t);
    for (int i = real; i < n; i++)
        h->v[at + i] = 0.0f;
}

/* The first tile and its surroundings. */
DT_INLINE void hold_first(const struct job *j, held *h, const void *v, dt_dtype t)
{
    for (int i = 0; i < j->halo; i++)
        h->v[i] = 0.0f;
    hold(j, h, j->halo, v, 0, TILE + j->halo, t);
}

/* On to the tile that begins at channel c. */
DT_INLINE void hold_next(const struct job *j, held *h, const void *v, int64_t c, dt_dtype t)
{
    memmove(h->v, h->v + TILE, (size_t)(2 * j->halo) * sizeof *h->v);
    hold(j, h, 2 * j->halo, v, c + j->halo, TILE, t);
}

/* out[i] = v[i] + ... + v[i + halo] for n places. */
DT_INLINE void add_windows(const struct job *j, const float *v, float *restrict out, int n)
{
#pragma omp simd
    for (int i = 0; i < n; i++)
        out[i] = v[i];
    for (int k = 1; k <= j->halo; k++)
#pragma omp simd
        for (int i = 0; i < n; i++)
            out[i] += v[i + k];
}

/* The scales of n channels, the window of the first of which begins at v. */
DT_INLINE void scales(const struct job *j, const float *v, float *restrict scale, int n)
{
    float square[HELD];
#pragma omp simd
    for (int i = 0; i < n + j->halo; i++)
        square[i] = v[i] * v[i];
    add_windows(j, square, scale, n);
#pragma omp simd
    for (int i = 0; i < n; i++)
        scale[i] = j->k + j->share * scale[i];
}

DT_INLINE void forward_tile(const struct job *j, const held *x, void *y, int n, dt_dtype t)
{
    float scale[HELD];
    scales(j, x->v + j->halo - j->before, scale, n);
#pragma omp simd
    for (int i = 0; i < n; i++)
        scale[i] = x->v[j->halo + i] * dti_curve_pow(scale[i], j->power);
#pragma omp simd
    for (int i = 0; i < n; i++)
        dti_store(y, i, t, scale[i]);
}

/* dx = dy scale^-beta - pull x (the sum of dy y / scale over the channels in whose windows x is).
 * Its windows reach as far before x as forward's reach behind it. */
DT_INLINE void backward_tile(
    const struct job *j, const held *x, const held *dy, void *dx, int n, dt_dtype t)
{
    float scale[HELD], part[HELD], sum[TILE];
    const float *xs = x->v + j->before, *dys = dy->v + j->before; /* where the windows begin */
    const int reach = n + j->halo;
    scales(j, x->v, scale, reach);
#pragma omp simd
    for (int i = 0; i < reach; i++) {
        const float slope = dys[i] * dti_curve_pow(scale[i], j->power);
        part[i] = slope * xs[i] / scale[i];
        scale[i] = slope;
    }
    add_windows(j, part, sum, n);
#pragma omp simd
    for (int i = 0; i < n; i++)
        dti_store(dx, i, t, scale[j->behind + i] - j->pull * x->v[j->halo + i] * sum[i]);
}

DT_INLINE void pixels(const struct job *j, int64_t task, bool back, dt_dtype t)
{
    const dti_span s = dti_span_of(j->pixels, j->each, task);
    held xs, dys;
    for (int64_t p = s.begin; p < s.end; p++) {
        const void *x = dti_from(j->x, p * j->channels, t);
        const void *dy = back ? dti_from(j->dy, p * j->channels, t) : NULL;
        void *to = dti_to(j->to, p * j->channels, t);
        for (int64_t c = 0; c < j->channels; c += TILE) {
            const int n = j->channels - c < TILE ? (int)(j->channels - c) : TILE;
            if (c == 0)
                hold_first(j, &xs, x, t);
            else
                hold_next(j, &xs, x, c, t);
            if (back && c == 0)
                hold_first(j, &dys, dy, t);
            else if (back)
                hold_next(j, &dys, dy, c, t);
            if (back)
                backward_tile(j, &xs, &dys, dti_to(to, c, t), n, t);
            else
                forward_tile(j, &xs, dti_to(to, c, t), n, t);
        }
    }
}

#define PIXELS(name, back, t)                                                                      \
    DT_CLONES static void name##_clones(const struct job *j, int64_t i)                            \
    {                                                                                              \
        pixels(j, i, back, t);                                                                     \
    }                                                                                              \
    static void name(const void *job, int64_t i)                                                   \
    {                                                                                              \
        name##_clones(job, i);                                                                     \
    }

PIXELS(forward_f32, false, DT_F32)
PIXELS(forward_bf16, false, DT_BF16)
PIXELS(backward_f32, true, DT_F32)
PIXELS(backward_bf16, true, DT_BF16)

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    static dti_task *const tasks[2][DT_DTYPES] = {
        {forward_f32, forward_bf16}, {backward_f32, backward_bf16}};
    const dti_lrn *o = c->node->opts;
    const dt_shape x = dti_call_x(c);
    const bool back = c->form == DT_BACKWARD;
    struct job j = {.pixels = a->n * x.h * x.w,
        .each = dti_ceil_div(DTI_GRAIN, x.c),
        .channels = x.c,
        .before = (int)(o->size / 2),
        .behind = (int)((o->size - 1) / 2),
        .halo = (int)(o->size - 1),
        .k = (float)o->k,
        .share = (float)(o->alpha / (double)o->size),
        .power = (float)-o->beta,
        .pull = (float)(2 * o->alpha * o->beta / (double)o->size),
        .x = a->port[DT_X],
        .dy = a->port[DT_DY],
        .to = a->port[back ? DT_DX : DT_Y]};
    dti_run_tasks(dti_ceil_div(j.pixels, j.each), tasks[back][c->dtype], &j);
    return DT_OK;
}

const dt_kernels dt_lrn_cpu = {.run = run};
