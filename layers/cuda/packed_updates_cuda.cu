/* The optimizers with moments in 8 bits on the card: a block of threads for a block of values,
 * eight a thread. */
#include "layers/cuda/cuda_kernel.cuh"

DT_C_HEADERS
#include "engine/state_codes.h"
#include "layers/update/update.h"
DT_C_HEADERS_END

enum {
    PACKED_TENSORS = 56, /* of a launch, as its table must be no larger than 4096 bytes */
    PACKED_BLOCKS = 1056 /* eight for each processor of a large card */
};
typedef char packed_block_fits[DTI_THREADS * DTI_FEW == DT_STATE_BLOCK ? 1 : -1];

/* @m @v: codes of the moments; @of_m @of_v: scales of their blocks
 * @first: number of its first block of values */
typedef struct packed_tensor {
    float *w, *of_m, *of_v;
    const float *dw;
    uint8_t *m, *v;
    int64_t count;
    float rate;
    int32_t first;
    bool vector, wide;
} packed_tensor;

typedef struct packed_job {
    const dt_now *now;
    int32_t n, blocks;
    bool decoupled;
    packed_tensor tensor[PACKED_TENSORS];
} packed_job;
typedef char packed_job_fits[sizeof(packed_job) <= 4096 ? 1 : -1];

typedef enum packed_op { PACKED_SGD, PACKED_ADAM, PACKED_LION } packed_op;

/* What the threads of a block share. */
typedef struct packed_shared {
    dt_state_map first, second;
    dti_adam adam;
    double most[DTI_THREADS / DTI_WARP];
} packed_shared;

/* A thread's values of one block. */
typedef struct packed_few {
    float w[DTI_FEW], d[DTI_FEW], m[DTI_FEW], v[DTI_FEW];
} packed_few;

DT_DEVICE packed_tensor packed_tensor_of(const packed_job *j, int32_t block)
{
    int i = j->n - 1;
    while (j->tensor[i].first > block)
        i--;
    return j->tensor[i];
}

DT_DEVICE void packed_take(
    const dt_state_map *map, const uint8_t *code, float scale, int64_t at, int n, float *to)
{
    DT_UNROLL(8)
    for (int k = 0; k < DTI_FEW; k++)
        to[k] = k < n ? map->share[code[at + k]] * scale : 0.0f;
}

/* All threads of the block call. A NaN counts for nothing. */
DT_DEVICE float packed_scale(const dt_state_map *map, const float *v, double *shared)
{
    float high = 0.0f, low = 0.0f;
    for (int k = 0; k < DTI_FEW; k++) {
        high = v[k] > high ? v[k] : high;
        low = -v[k] > low ? -v[k] : low;
    }
    const double most = dti_block_max((double)high, shared);
    const double least = dti_block_max((double)low, shared);
    return dt_state_scale((float)most, (float)least, map->sign);
}

DT_DEVICE void packed_put(const dt_state_map *map, const float *v, float scale, uint8_t *code,
    float *scales, int64_t at, int n)
{
    const float whole = dt_state_whole(scale);
    DT_UNROLL(8)
    for (int k = 0; k < DTI_FEW; k++)
        if (k < n)
            code[at + k] = dt_state_code(map, v[k] / whole);
    if (threadIdx.x == 0)
        scales[at / DT_STATE_BLOCK] = scale;
}

DT_DEVICE void packed_move(const packed_tensor *t, const packed_job *j, const packed_shared *s,
    packed_few *f, packed_op op)
{
    const dt_hyper *h = &j->now->hyper;
    const dti_gradient g = dti_gradient_of(h, t->vector, t->rate);
    const dti_adam adam = dti_adam_for(s->adam, g, j->decoupled);
    const dti_sgd sgd = dti_sgd_of(h, t->vector, t->rate);
    const dti_lion lion = dti_lion_of(h, t->vector, t->rate);
    DT_UNROLL(8)
    for (int k = 0; k < DTI_FEW; k++)
        if (op == PACKED_ADAM)
            dti_adam_at(&adam, f->d[k], &f->w[k], &f->m[k], &f->v[k]);
        else if (op == PACKED_SGD)
            dti_sgd_at(&sgd, f->d[k], &f->w[k], &f->m[k]);
        else
            dti_lion_at(&lion, f->d[k], &f->w[k], &f->m[k]);
}

/* Zeros behind the end, which are nobody's, move too, and count for no scale: weight and gradient
 * are 0 there. */
DT_DEVICE void packed_block(
    const packed_tensor *t, const packed_job *j, packed_shared *s, int32_t block, packed_op op)
{
    const int64_t begin = (int64_t)(block - t->first) * DT_STATE_BLOCK;
    const int64_t at = begin + threadIdx.x * DTI_FEW;
    const int n = at < t->count ? dti_few(at, t->count) : 0;
    const int64_t i = begin / DT_STATE_BLOCK;
    packed_few f;
    dti_take(t->w, at, n, t->wide, DT_F32, f.w);
    dti_take(t->dw, at, n, t->wide, DT_F32, f.d);
    packed_take(&s->first, t->m, t->of_m[i], at, n, f.m);
    if (op == PACKED_ADAM)
        packed_take(&s->second, t->v, t->of_v[i], at, n, f.v);
    packed_move(t, j, s, &f, op);
    dti_put(t->w, at, n, t->wide, DT_F32, f.w);
    const float of_m =
        packed_scale(&s->first, f.m, s->most); /* all have read the old one behind it */
    packed_put(&s->first, f.m, of_m, t->m, t->of_m, at, n);
    if (op == PACKED_ADAM) {
        const float of_v = packed_scale(&s->second, f.v, s->most);
        packed_put(&s->second, f.v, of_v, t->v, t->of_v, at, n);
    }
}

DT_DEVICE void packed_update(const packed_job *j, packed_shared *s, packed_op op)
{
    const dt_hyper h = j->now->hyper;
    dt_state_map_fill(&s->first, true, (int)threadIdx.x, (int)blockDim.x);
    dt_state_map_fill(&s->second, false, (int)threadIdx.x, (int)blockDim.x);
    if (threadIdx.x == 0 && op == PACKED_ADAM)
        s->adam = dti_adam_of(&h);
    __syncthreads();
    for (int32_t block = (int32_t)blockIdx.x; block < j->blocks; block += (int32_t)gridDim.x) {
        const packed_tensor t = packed_tensor_of(j, block);
        packed_block(&t, j, s, block, op);
    }
}

#define PACKED_KERNEL(name, op)                                                                    \
    DT_KERNEL(name, packed_job)                                                                    \
    {                                                                                              \
        __shared__ packed_shared shared;                                                           \
        packed_update(&given, &shared, op);                                                        \
    }
PACKED_KERNEL(packed_sgd, PACKED_SGD)
PACKED_KERNEL(packed_adam, PACKED_ADAM)
PACKED_KERNEL(packed_lion, PACKED_LION)

static packed_tensor packed_tensor_for(const dt_call *c, const dt_args *a, int32_t first)
{
    packed_tensor t;
    t.w = (float *)a->port[DT_P];
    t.dw = (const float *)a->port[DT_DP];
    t.m = (uint8_t *)a->port[DT_M];
    t.v = (uint8_t *)a->port[DT_M + 1];
    t.of_m = (float *)a->port[DTI_SCALES_OF(DT_M)];
    t.of_v = (float *)a->port[DTI_SCALES_OF(DT_M + 1)];
    t.count = c->count;
    t.rate = c->rate;
    t.first = first;
    t.vector = c->vector;
    t.wide = dti_wide(t.w) && dti_wide(t.dw);
    return t;
}

/* The first of these, as many as the table holds. */
static packed_job packed_job_of(const dt_call *const *c, const dt_args *a, int n, bool decoupled)
{
    packed_job j;
    j.now = a->now;
    j.n = n < PACKED_TENSORS ? n : PACKED_TENSORS;
    j.blocks = 0;
    j.decoupled = decoupled;
    for (int i = 0; i < j.n; i++) {
        j.tensor[i] = packed_tensor_for(c[i], &a[i], j.blocks);
        j.blocks += (int32_t)dt_state_blocks(c[i]->count);
    }
    return j;
}

static dt_status packed_launch(packed_op op, const packed_job j, void *queue, dt_err *err)
{
    const dti_grid grid = {j.blocks < PACKED_BLOCKS ? (unsigned)j.blocks : PACKED_BLOCKS, 1};
    if (j.blocks == 0)
        return DT_OK;
    if (op == PACKED_SGD)
        DT_LAUNCH(packed_sgd, grid, DTI_THREADS, queue, j);
    else if (op == PACKED_ADAM)
        DT_LAUNCH(packed_adam, grid, DTI_THREADS, queue, j);
    else
        DT_LAUNCH(packed_lion, grid, DTI_THREADS, queue, j);
    return dt_cuda_launched("update", err);
}

static dt_status packed_all(
    packed_op op, bool decoupled, const dt_call *const *c, const dt_args *a, int n, dt_err *err)
{
    for (int i = 0; i < n; i += PACKED_TENSORS) {
        const packed_job j = packed_job_of(c + i, a + i, n - i, decoupled);
        DT_CHECK(packed_launch(op, j, a->queue, err));
    }
    return DT_OK;
}

#define PACKED_TABLE(name, op, decoupled)                                                          \
    static dt_status name##_run_many(                                                              \
        const dt_call *const *c, const dt_args *a, int n, dt_err *err)                             \
    {                                                                                              \
        return packed_all(op, decoupled, c, a, n, err);                                            \
    }                                                                                              \
    static dt_status name##_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)      \
    {                                                                                              \
        (void)state;                                                                               \
        return packed_all(op, decoupled, &c, a, 1, err);                                           \
    }                                                                                              \
    DT_CUDA_TABLE(name, NULL, NULL, name##_run, name##_run_many)

PACKED_TABLE(sgd8, PACKED_SGD, false);
PACKED_TABLE(adam8, PACKED_ADAM, false);
PACKED_TABLE(adamw8, PACKED_ADAM, true);
PACKED_TABLE(lion8, PACKED_LION, false);
