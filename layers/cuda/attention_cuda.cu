/* Attention on the card: its forward kernels, facts and launches. */
#include "layers/cuda/attention_backward_cuda.cuh"

DT_C_HEADERS
#include "layers/attention.h"
DT_C_HEADERS_END

/* Sums of products stay in registers, where dti_mma() leaves them; no sum runs across blocks, so
 * the bits are the same every time. Forward keeps each query's largest score and sum so far (the
 * online softmax); naive is the same, and writes its probabilities in a second pass. Backward
 * computes probabilities again, or reads them. */

/* Over the four lanes that share a row. */
DT_DEVICE float row_max(float v)
{
    DT_UNROLL(2)
    for (int apart = 1; apart < 4; apart *= 2) {
        const float other = (float)__shfl_xor_sync(0xFFFFFFFFu, v, apart);
        v = other > v ? other : v;
    }
    return v;
}

DT_DEVICE float row_sum(float v)
{
    DT_UNROLL(2)
    for (int apart = 1; apart < 4; apart *= 2)
        v += (float)__shfl_xor_sync(0xFFFFFFFFu, v, apart);
    return v;
}

/* Scores of one more tile to exponentials, of row i of two. What is there already shrinks. */
DT_DEVICE void soften(float (*s)[4], float (*o)[4], float *most, float *sum, int i, int keys, int d)
{
    float m = *most;
    DT_UNROLL(8)
    for (int n = 0; n < keys / 8; n++)
        DT_UNROLL(2)
    for (int k = 0; k < 2; k++)
        m = s[n][2 * i + k] > m ? s[n][2 * i + k] : m;
    m = row_max(m);
    const float shrink = exp2f(*most - m);
    *most = m;
    *sum *= shrink;
    DT_UNROLL(32)
    for (int n = 0; n < d / 8; n++) {
        o[n][2 * i] *= shrink;
        o[n][2 * i + 1] *= shrink;
    }
    DT_UNROLL(8)
    for (int n = 0; n < keys / 8; n++)
        DT_UNROLL(2)
    for (int k = 0; k < 2; k++) {
        s[n][2 * i + k] = exp2f(s[n][2 * i + k] - m);
        *sum += s[n][2 * i + k];
    }
}

/* What rows i of two leave: the sum's logarithm, and the factor of y. */
DT_DEVICE float finish_row(const attention_job *j, const place *p, float most, float sum, int i)
{
    const int64_t row = p->first + my_row() + i * 8;
    sum = row_sum(sum);
    if (j->lse != NULL && row < j->t && threadIdx.x % 4 == 0)
        j->lse[p->row0 + row] = most * 0.693147180560f + logf(sum);
    return 1 / sum;
}

DT_DEVICE void attend(const attention_job *j, dt_dtype t, int d, int keys)
{
    DT_SHARED(shared);
    unsigned char *room = shared;
    const place p = place_of(j, true);
    const tile q = take_tile(&room, ROWS, d, t), k = take_tile(&room, keys, d, t);
    const tile v = take_tile(&room, d, keys, t); /* turned */
    const rows xq = part_of(j, &p, j->x, 0), xk = part_of(j, &p, j->x, 1);
    const rows xv = part_of(j, &p, j->x, 2), to = whole_of(j, &p, j->to);
    float o[MOST_D / 8][4], most[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0}, over[2];
    clear(o, d / 8);
    load_tile(j, &xq, p.first, ROWS, d, &q, NULL, t);
    for (int64_t key = 0; key < keys_end(j, &p); key += keys) {
        float s[MOST_KEYS / 8][4];
        __syncthreads();
        load_tile(j, &xk, key, keys, d, &k, NULL, t);
        load_tile(j, &xv, key, keys, d, NULL, &v, t);
        __syncthreads();
        clear(s, keys / 8);
        product(s, &q, &k, d, keys / 8, t);
        scale_scores(j, s, p.first + my_row(), key, keys);
        soften(s, o, &most[0], &sum[0], 0, keys, d);
        soften(s, o, &most[1], &sum[1], 1, keys, d);
        product_of(o, s, &v, keys, d / 8, t);
    }
    over[0] = finish_row(j, &p, most[0], sum[0], 0);
    over[1] = finish_row(j, &p, most[1], sum[1], 1);
    __syncthreads();
    keep(&q, o, over, d / 8, t);
    __syncthreads();
    store_tile(j, &q, p.first, d, &to, j->to, t);
}

/* The second pass of naive: keep all probabilities. */
DT_DEVICE void write_prob(const attention_job *j, dt_dtype t, int d, int keys)
{
    DT_SHARED(shared);
    unsigned char *room = shared;
    const place p = place_of(j, true);
    const tile q = take_tile(&room, ROWS, d, t), k = take_tile(&room, keys, d, t);
    const rows xq = part_of(j, &p, j->x, 0), xk = part_of(j, &p, j->x, 1);
    load_tile(j, &xq, p.first, ROWS, d, &q, NULL, t);
    for (int64_t key = 0; key < j->t; key += keys) {
        float s[MOST_KEYS / 8][4];
        __syncthreads();
        load_tile(j, &xk, key, keys, d, &k, NULL, t);
        __syncthreads();
        clear(s, keys / 8);
        product(s, &q, &k, d, keys / 8, t);
        soften_again(j, &p, s, key, keys);
        DT_UNROLL(8)
        for (int n = 0; n < keys / 8; n++)
            DT_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            float *to =
                prob_at(j, &p, p.first + my_row() + i / 2 * 8, key + n * 8 + my_column() + i % 2);
            if (to != NULL)
                *to = s[n][i];
        }
    }
}

/* --- the kernels of each type and width of a head --- */

#define ATTENTION_KERNELS(name, type, d, keys)                                                     \
    DT_KERNEL(attend_##name, attention_job)                                                        \
    {                                                                                              \
        attend(&given, type, d, keys);                                                             \
    }                                                                                              \
    DT_KERNEL(write_prob_##name, attention_job)                                                    \
    {                                                                                              \
        write_prob(&given, type, d, keys);                                                         \
    }                                                                                              \
    DT_KERNEL(backward_queries_##name, attention_job)                                              \
    {                                                                                              \
        backward_queries(&given, type, d, keys);                                                   \
    }                                                                                              \
    DT_KERNEL(backward_keys_##name, attention_job)                                                 \
    {                                                                                              \
        backward_keys(&given, type, d, keys);                                                      \
    }

/* clang-format off */
#define ATTENTION_WIDTHS(with) \
    with(f32_32,   DT_F32,  32,  64) \
    with(f32_64,   DT_F32,  64,  32) \
    with(f32_128,  DT_F32,  128, 16) \
    with(f32_256,  DT_F32,  256, 16) \
    with(bf16_32,  DT_BF16, 32,  64) \
    with(bf16_64,  DT_BF16, 64,  64) \
    with(bf16_128, DT_BF16, 128, 32) \
    with(bf16_256, DT_BF16, 256, 16)
/* clang-format on */

ATTENTION_WIDTHS(ATTENTION_KERNELS)
DT_KERNELS(multiply_rows, attention_job)

typedef DT_KERNEL_TYPE(attention_kernel, attention_job);

/* @d: channels of a head that there is room for */
typedef struct attention_width {
    dt_dtype type;
    int d, keys;
    attention_kernel forward, prob, queries, keys_;
} attention_width;

#define ATTENTION_ROW(name, type, d, keys)                                                         \
    {type, d, keys, DT_KERNEL_POINTER(attend_##name), DT_KERNEL_POINTER(write_prob_##name),        \
        DT_KERNEL_POINTER(backward_queries_##name), DT_KERNEL_POINTER(backward_keys_##name)},
static const attention_width widths[] = {ATTENTION_WIDTHS(ATTENTION_ROW)};

/* Bytes of shared memory: tiles of 64 rows, tiles of keys and turned ones, besides two numbers a
 * query. */
static size_t shared_bytes(const attention_width *w, int tall, int low, int turned)
{
    const int values =
        (tall * ROWS + low * w->keys) * (w->d + PAD) + turned * w->d * (w->keys + PAD);
    return (size_t)values * dt_dtype_bytes(w->type) + 2 * MOST_KEYS * sizeof(float);
}

static size_t forward_shared(const attention_width *w)
{
    return shared_bytes(w, 1, 1, 1);
}

static size_t queries_shared(const attention_width *w)
{
    return shared_bytes(w, 2, 2, 1);
}

static size_t keys_shared(const attention_width *w)
{
    return shared_bytes(w, 2, 2, 2);
}

static attention_job attention_job_of(const dt_call *c)
{
    const dt_attention *o = (const dt_attention *)c->node->opts;
    const dt_shape x = dt_graph_shape(c->graph, c->node->in[0]);
    attention_job j;
    memset(&j, 0, sizeof j);
    j.n = c->n;
    j.t = x.h * x.w;
    j.c = x.c / 3;
    j.heads = o->heads;
    j.d = j.c / j.heads;
    j.tiles = dt_ceil_div(j.t, ROWS);
    j.causal = o->causal;
    j.scale = (float)(1 / sqrt((double)j.d));
    return j;
}

/* The narrowest that fits; NULL: a head is too wide. */
static const attention_width *width_of(const attention_job *j, dt_dtype t)
{
    for (size_t i = 0; i < DT_COUNT(widths); i++)
        if (widths[i].type == t && j->d <= widths[i].d)
            return &widths[i];
    return NULL;
}

static bool is_naive(const dt_call *c)
{
    return ((const dt_attention *)c->node->opts)->kind == DT_ATTENTION_NAIVE;
}

static dt_status attention_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    const attention_job j = attention_job_of(c);
    memset(f, 0, sizeof *f);
    if (width_of(&j, c->dtype) == NULL)
        return DT_FAIL(err, DT_E_CONFIG,
            "layer '%s': a head of %lld channels; the cuda device has kernels for up to %d: set "
            "heads higher, or device.kind = cpu",
            c->node->name, (long long)j.d, (int)MOST_D);
    if (j.n * j.heads * j.tiles > INT32_MAX)
        return DT_FAIL(err, DT_E_CONFIG,
            "layer '%s': samples times heads times positions are too many for one launch; lower "
            "train.micro_batch",
            c->node->name);
    if (c->form == DT_BACKWARD || is_naive(c))
        f->work_bytes = (size_t)(j.n * j.heads * j.t) * sizeof(float);
    return DT_OK;
}

/* Kernels with more shared memory than usual have to be told so once. */
static dt_status allow_shared(const attention_width *w, dt_err *err)
{
    DT_CUDA_TRY(err, DT_ALLOW_SHARED(w->forward, forward_shared(w)));
    DT_CUDA_TRY(err, DT_ALLOW_SHARED(w->prob, forward_shared(w)));
    DT_CUDA_TRY(err, DT_ALLOW_SHARED(w->queries, queries_shared(w)));
    DT_CUDA_TRY(err, DT_ALLOW_SHARED(w->keys_, keys_shared(w)));
    return DT_OK;
}

static dt_status attention_create(const dt_call *c, void **state, dt_err *err)
{
    const attention_job j = attention_job_of(c);
    const attention_width *w = width_of(&j, c->dtype);
    *state = NULL;
    DT_ASSERT(w != NULL);
    DT_TRY(err, allow_shared(w, err),
        "layer '%s': a head of %lld channels in %s takes %zu bytes of shared memory, which the "
        "card "
        "does not have: set heads higher, or run in bf16",
        c->node->name, (long long)j.d, dt_dtype_name(c->dtype), keys_shared(w));
    return DT_OK;
}

static dt_status attention_forward(
    const dt_call *c, const dt_args *a, attention_job *j, const attention_width *w, dt_err *err)
{
    const unsigned blocks = (unsigned)(j->n * j->heads * j->tiles);
    const bool naive = is_naive(c);
    j->to = a->port[DT_Y];
    j->lse = (float *)a->port[naive ? DT_WORK : DT_S];
    j->wide = j->wide && dt_wide(j->to);
    DT_LAUNCH_POINTER(w->forward, blocks, ATTENTION_THREADS, forward_shared(w), a->queue, *j);
    DT_CHECK(dt_cuda_launched("attention forward", err));
    j->prob = naive ? (float *)a->port[DT_S] : NULL;
    if (j->prob == NULL)
        return DT_OK;
    DT_LAUNCH_POINTER(w->prob, blocks, ATTENTION_THREADS, forward_shared(w), a->queue, *j);
    return dt_cuda_launched("attention forward, probabilities", err);
}

static dt_status attention_backward(
    const dt_call *c, const dt_args *a, attention_job *j, const attention_width *w, dt_err *err)
{
    const unsigned blocks = (unsigned)(j->n * j->heads * j->tiles);
    float *saved = (float *)a->port[DT_S];
    j->y = a->port[DT_Y];
    j->dy = a->port[DT_DY];
    j->to = a->port[DT_DX];
    j->delta = (float *)a->port[DT_WORK];
    j->lse = is_naive(c) ? NULL : saved;
    j->prob = is_naive(c) ? saved : NULL;
    j->wide = j->wide && dt_wide(j->dy) && dt_wide(j->to);
    const dt_grid grid = {dti_blocks(j->n * j->heads * j->t, ATTENTION_THREADS / DT_WARP), 1};
    if (c->dtype == DT_BF16)
        DT_LAUNCH(multiply_rows_bf16, grid, ATTENTION_THREADS, a->queue, *j);
    else
        DT_LAUNCH(multiply_rows_f32, grid, ATTENTION_THREADS, a->queue, *j);
    DT_CHECK(dt_cuda_launched("attention backward, dy y", err));
    DT_LAUNCH_POINTER(w->queries, blocks, ATTENTION_THREADS, queries_shared(w), a->queue, *j);
    DT_CHECK(dt_cuda_launched("attention backward, queries", err));
    DT_LAUNCH_POINTER(w->keys_, blocks, ATTENTION_THREADS, keys_shared(w), a->queue, *j);
    return dt_cuda_launched("attention backward, keys", err);
}

static dt_status attention_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    attention_job j = attention_job_of(c);
    const attention_width *w = width_of(&j, c->dtype);
    (void)state;
    DT_ASSERT(w != NULL && a->n == c->n);
    j.x = a->port[DT_X];
    j.wide = dt_wide(j.x) && j.d % DT_FEW == 0;
    return c->form == DT_BACKWARD ? attention_backward(c, a, &j, w, err)
                                  : attention_forward(c, a, &j, w, err);
}

DT_CUDA_TABLE(attention, attention_facts, attention_create, attention_run, NULL);
