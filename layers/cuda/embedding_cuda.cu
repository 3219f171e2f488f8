/* Embedding and positions on the card; gradients of a row are added in the order of tokens. */
#include "layers/cuda/cuda_kernel.cuh"

DT_C_HEADERS
#include "layers/sequence/embedding.h"
DT_C_HEADERS_END

/* Embedding and position. Token ids are always fp32: they are the network's input. A kernel cannot
 * refuse one: what is no token gives a row of NaN, which fails the step, and no gradient. A token
 * of another tile gives a row of zeros, and no gradient. */
enum { NO_TOKEN = -1, OF_ANOTHER = -2 };

typedef struct token_job {
    const float *ids, *weight;
    const void *x, *dy;
    void *y;
    float *dweight;
    int64_t rows, vocab, channels, groups; /* positions of all samples; tokens */
    int64_t first, weights;                /* tokens that the weight has rows of */
    bool wide;
} token_job;

/* The row of the weight. */
DT_DEVICE int64_t token_of(const token_job *j, int64_t row)
{
    const float id = j->ids[row];
    if (!(id >= 0 && id < (float)j->vocab) || id != (float)(int64_t)id)
        return NO_TOKEN;
    const int64_t at = (int64_t)id - j->first;
    return at >= 0 && at < j->weights ? at : OF_ANOTHER;
}

DT_DEVICE void token_forward(const token_job *j, dt_dtype t)
{
    for (int64_t i = dti_first(); i < j->rows * j->groups; i += dti_stride()) {
        const int64_t row = dti_quotient(i, j->groups), c = (i - row * j->groups) * DTI_FEW;
        const int64_t token = token_of(j, row);
        const int n = dti_few(c, j->channels);
        float v[DTI_FEW];
        dti_take(j->weight, (token < 0 ? 0 : token) * j->channels + c, n, j->wide, DT_F32, v);
        DT_UNROLL(8)
        for (int k = 0; k < DTI_FEW; k++)
            v[k] = token == NO_TOKEN ? NAN : token < 0 ? 0.0f : v[k];
        dti_put(j->y, row * j->channels + c, n, j->wide, t, v);
    }
}

DT_KERNELS(token_forward, token_job)

/* Blocks are rows; that of a token's first row adds up all rows of the token, in their order. It
 * looks at as many ids at a time as it has threads, and lists those that are the same. dweight is
 * zero before, for tokens that do not occur.
 *
 * The other blocks end where they find the first row. So all ids are looked at once for every token
 * that occurs, which is rows * tokens / DTI_THREADS turns of a block: of 8192 rows with 2000 tokens
 * 64,000, or some 60 for each of a thousand blocks at once. That grows with the square of the rows
 * only until all of the vocabulary occurs. Sorting rows by token would be linear from the start,
 * and take scratch and a launch for every step of the sort. */
typedef struct token_list {
    int n[DTI_THREADS / DTI_WARP]; /* of each warp's share */
    int rows[DTI_THREADS];
} token_list;

/* The rows of [at, at + threads) with this token, in order, and how many. All threads call. */
DT_DEVICE int token_rows(const token_job *j, int64_t token, int64_t at, token_list *list)
{
    const int tid = (int)threadIdx.x, warp = tid / DTI_WARP;
    const bool same = at + tid < j->rows && token_of(j, at + tid) == token;
    const unsigned all = __ballot_sync(0xFFFFFFFFu, same);
    int before = 0, n = 0;
    for (unsigned m = all & ((1u << tid % DTI_WARP) - 1u); m != 0; m &= m - 1)
        before++;
    for (unsigned m = all; m != 0; m &= m - 1)
        n++;
    __syncthreads();
    if (tid % DTI_WARP == 0)
        list->n[warp] = n;
    __syncthreads();
    n = 0;
    for (int w = 0; w < DTI_THREADS / DTI_WARP; w++) {
        before += w < warp ? list->n[w] : 0;
        n += list->n[w];
    }
    if (same)
        list->rows[before] = tid;
    __syncthreads();
    return n;
}

DT_DEVICE void token_add(const token_job *j, int64_t token, int64_t at, const token_list *list,
    int n, bool first, dt_dtype t)
{
    for (int64_t c = threadIdx.x; c < j->channels; c += DTI_THREADS) {
        float *to = j->dweight + token * j->channels + c;
        float sum = first ? 0.0f : *to;
        DT_UNROLL(4)
        for (int i = 0; i < n; i++)
            sum += dti_load(j->dy, (at + list->rows[i]) * j->channels + c, t);
        *to = sum;
    }
}

DT_DEVICE void token_backward(const token_job *j, dt_dtype t)
{
    __shared__ token_list list;
    for (int64_t row = blockIdx.x; row < j->rows; row += gridDim.x) {
        const int64_t token = token_of(j, row);
        bool first = token >= 0;
        for (int64_t at = 0; at < row && first; at += DTI_THREADS) {
            const int n = token_rows(j, token, at, &list);
            first = n == 0 || at + list.rows[0] >= row;
        }
        for (int64_t at = row / DTI_THREADS * DTI_THREADS; at < j->rows && first;
             at += DTI_THREADS) {
            const int n = token_rows(j, token, at, &list);
            if (n > 0)
                token_add(j, token, at, &list, n, at <= row, t);
        }
        __syncthreads();
    }
}

DT_KERNELS(token_backward, token_job)

static token_job token_job_of(const dt_args *a, int64_t rows, int64_t vocab, int64_t channels)
{
    token_job j;
    j.ids = (const float *)a->port[DT_X];
    j.weight = (const float *)a->port[DT_P];
    j.x = a->port[DT_X];
    j.dy = a->port[DT_DY];
    j.y = a->port[DT_Y];
    j.dweight = (float *)a->port[DT_DP];
    j.rows = rows;
    j.vocab = vocab;
    j.channels = channels;
    j.groups = dti_ceil_div(channels, DTI_FEW);
    j.first = 0;
    j.weights = vocab;
    j.wide = false;
    return j;
}

static dt_status embedding_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const dt_shape x = dt_graph_shape(c->graph, c->node->in[0]);
    const dt_embedding *o = (const dt_embedding *)c->node->opts;
    token_job j = token_job_of(a, a->n * x.h * x.w, o->vocab, o->out);
    j.first = o->first;
    j.weights = dti_embedding_rows(o);
    if (c->form == DT_BACKWARD) {
        const dti_grid g = {dti_blocks(j.rows, 1), 1};
        DT_CUDA_TRY(err, cudaMemsetAsync(j.dweight, 0, (size_t)(j.weights * o->out) * sizeof(float),
                             (cudaStream_t)a->queue));
        DT_LAUNCH_OF(token_backward, c->dtype, g, a->queue, j);
        return dt_cuda_launched("embedding backward", err);
    }
    j.wide = dti_wide(j.weight) && dti_wide(j.y) && dti_wide_rows(o->out, c->dtype);
    DT_LAUNCH_OF(token_forward, c->dtype, dti_grid_of(j.rows * j.groups), a->queue, j);
    return dt_cuda_launched("embedding forward", err);
}

/* Of positions, @vocab is how many a sample has. y may be x. */
DT_DEVICE void position_forward(const token_job *j, dt_dtype t)
{
    for (int64_t i = dti_first(); i < j->rows * j->groups; i += dti_stride()) {
        const int64_t row = dti_quotient(i, j->groups), c = (i - row * j->groups) * DTI_FEW;
        const int64_t position = row - dti_quotient(row, j->vocab) * j->vocab;
        const int n = dti_few(c, j->channels);
        float v[DTI_FEW], weight[DTI_FEW];
        dti_take(j->x, row * j->channels + c, n, j->wide, t, v);
        dti_take(j->weight, position * j->channels + c, n, j->wide, DT_F32, weight);
        DT_UNROLL(8)
        for (int k = 0; k < DTI_FEW; k++)
            v[k] += weight[k];
        dti_put(j->y, row * j->channels + c, n, j->wide, t, v);
    }
}

DT_KERNELS(position_forward, token_job)

/* The gradient of one position: over samples in order. */
DT_DEVICE void position_backward(const token_job *j, dt_dtype t)
{
    for (int64_t i = dti_first(); i < j->vocab * j->groups; i += dti_stride()) {
        const int64_t position = dti_quotient(i, j->groups),
                      c = (i - position * j->groups) * DTI_FEW;
        const int n = dti_few(c, j->channels);
        float sum[DTI_FEW] = {0}, v[DTI_FEW];
        for (int64_t row = position; row < j->rows; row += j->vocab) {
            dti_take(j->dy, row * j->channels + c, n, j->wide, t, v);
            DT_UNROLL(8)
            for (int k = 0; k < DTI_FEW; k++)
                sum[k] += v[k];
        }
        dti_put(j->dweight, position * j->channels + c, n, j->wide, DT_F32, sum);
    }
}

DT_KERNELS(position_backward, token_job)

static dt_status position_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const dt_shape x = dt_graph_shape(c->graph, c->node->in[0]);
    token_job j = token_job_of(a, a->n * x.h * x.w, x.h * x.w, x.c);
    j.wide = dti_wide_rows(x.c, c->dtype);
    if (c->form == DT_BACKWARD) {
        j.wide = j.wide && dti_wide(j.dy) && dti_wide(j.dweight);
        DT_LAUNCH_OF(position_backward, c->dtype, dti_grid_of(j.vocab * j.groups), a->queue, j);
        return dt_cuda_launched("position backward", err);
    }
    j.wide = j.wide && dti_wide(j.x) && dti_wide(j.y) && dti_wide(j.weight);
    DT_LAUNCH_OF(position_forward, c->dtype, dti_grid_of(j.rows * j.groups), a->queue, j);
    return dt_cuda_launched("position forward", err);
}

DT_CUDA_TABLE(embedding, NULL, NULL, embedding_run, NULL);
DT_CUDA_TABLE(position, NULL, NULL, position_run, NULL);
