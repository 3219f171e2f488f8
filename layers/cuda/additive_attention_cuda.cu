/* Additive attention on the card: products of matrices (product.cuh), and between them kernels that
 * go over pairs of positions. Backward makes every tanh twice where none was kept, once for the
 * queries' sums and once for the keys', so that no two threads add to the same place. */
#include "layers/cuda/product.cuh"

DT_C_HEADERS
#include "layers/sequence/additive_attention.h"
DT_C_HEADERS_END

/**
 * struct additive_job - one execution.
 * @x @dx @pos @in: keys and queries, their positions and channels
 * @part:   W h_i and U q_j, rows of [hidden]; in backward of naive NULL
 * @dpart:  their gradients
 * @prob:   [n][queries][keys]
 * @ds:     gradients of the probabilities, then of the scores
 * @tanh_of: of naive: [n][queries][keys][hidden]
 * @rows:   fp32, the part of the keys' gradients that does not come of their values
 * @dscore: of score_weight, [n][queries][hidden]
 */
typedef struct additive_job {
    const void *x[2], *dy;
    void *dx[2], *y;
    const float *weight[3];
    float *dweight[3], *part[2], *dpart[2], *prob, *ds, *tanh_of, *rows, *dscore;
    int64_t n, pos[2], in[2], hidden;
    bool causal, naive;
    dt_dtype type;
} additive_job;

DT_DEVICE int64_t additive_seen(const additive_job *j, int64_t query)
{
    return j->causal && query + 1 < j->pos[0] ? query + 1 : j->pos[0];
}

/* Row @row of [n][queries]: the sample it belongs to, and its query. */
DT_DEVICE int64_t additive_sample(const additive_job *j, int64_t row, int64_t *query)
{
    const int64_t sample = dti_quotient(row, j->pos[1]);
    *query = row - sample * j->pos[1];
    return sample;
}

/* tanh of a pair's hidden value @k, kept or made again. */
DT_DEVICE float additive_tanh(
    const additive_job *j, int64_t sample, int64_t row, int64_t key, int64_t k)
{
    if (j->part[0] == NULL)
        return j->tanh_of[(row * j->pos[0] + key) * j->hidden + k];
    return dti_curve_tanh(
        j->part[0][(sample * j->pos[0] + key) * j->hidden + k] + j->part[1][row * j->hidden + k]);
}

/* A warp makes the score of one pair. */
DT_DEVICE void additive_score(const additive_job *j, int64_t sample, int64_t row, int64_t key)
{
    float sum = 0;
    for (int64_t k = threadIdx.x % DTI_WARP; k < j->hidden; k += DTI_WARP) {
        const float t = additive_tanh(j, sample, row, key, k);
        sum += j->weight[2][k] * t;
        if (j->tanh_of != NULL)
            j->tanh_of[(row * j->pos[0] + key) * j->hidden + k] = t;
    }
    const float all = (float)dti_warp_sum((double)sum);
    if (threadIdx.x % DTI_WARP == 0)
        j->prob[row * j->pos[0] + key] = all;
}

/* Scores to probabilities, by a block. */
DT_DEVICE void additive_softmax(float *s, int64_t n, int64_t all, double *shared)
{
    double most = -(double)INFINITY, sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
        most = (double)s[i] > most ? (double)s[i] : most;
    const float top = (float)dti_block_max(most, shared);
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
        s[i] = dti_curve_exp(s[i] - top);
        sum += (double)s[i];
    }
    const float over = (float)(1 / dti_block_sum(sum, shared));
    for (int64_t i = threadIdx.x; i < all; i += blockDim.x)
        s[i] = i < n ? s[i] * over : 0.0f;
}

/* Blocks are rows of [n][queries]. */
DT_KERNEL(additive_scores, additive_job)
{
    __shared__ double shared[DTI_THREADS / DTI_WARP];
    const additive_job *j = &given;
    for (int64_t row = blockIdx.x; row < j->n * j->pos[1]; row += gridDim.x) {
        int64_t query;
        const int64_t sample = additive_sample(j, row, &query), n = additive_seen(j, query);
        for (int64_t key = threadIdx.x / DTI_WARP; key < n; key += DTI_THREADS / DTI_WARP)
            additive_score(j, sample, row, key);
        if (j->tanh_of != NULL)
            for (int64_t i = n * j->hidden + threadIdx.x; i < j->pos[0] * j->hidden;
                 i += blockDim.x)
                j->tanh_of[row * j->pos[0] * j->hidden + i] = 0.0f;
        __syncthreads();
        additive_softmax(j->prob + row * j->pos[0], n, j->pos[0], shared);
        __syncthreads();
    }
}

/* p (dp - the sum of p dp), by a block. */
DT_KERNEL(additive_softmax_back, additive_job)
{
    __shared__ double shared[DTI_THREADS / DTI_WARP];
    const additive_job *j = &given;
    for (int64_t row = blockIdx.x; row < j->n * j->pos[1]; row += gridDim.x) {
        int64_t query;
        (void)additive_sample(j, row, &query);
        const int64_t n = additive_seen(j, query);
        const float *p = j->prob + row * j->pos[0];
        float *ds = j->ds + row * j->pos[0];
        double sum = 0;
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
            sum += (double)p[i] * (double)ds[i];
        const float mean = (float)dti_block_sum(sum, shared);
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
            ds[i] = p[i] * (ds[i] - mean);
    }
}

/* Sums over keys: of U q_j's gradient, and of score_weight's. */
DT_KERNEL(additive_queries, additive_job)
{
    const additive_job *j = &given;
    for (int64_t i = dti_first(); i < j->n * j->pos[1] * j->hidden; i += dti_stride()) {
        const int64_t row = dti_quotient(i, j->hidden), k = i - row * j->hidden;
        int64_t query;
        const int64_t sample = additive_sample(j, row, &query), n = additive_seen(j, query);
        float sum = 0, score = 0;
        for (int64_t key = 0; key < n; key++) {
            const float ds = j->ds[row * j->pos[0] + key];
            const float t = additive_tanh(j, sample, row, key, k);
            sum += ds * (1 - t * t);
            score += ds * t;
        }
        j->dpart[1][i] = sum * j->weight[2][k];
        j->dscore[i] = score;
    }
}

/* Sums over queries, of W h_i's gradient. */
DT_KERNEL(additive_keys, additive_job)
{
    const additive_job *j = &given;
    for (int64_t i = dti_first(); i < j->n * j->pos[0] * j->hidden; i += dti_stride()) {
        const int64_t line = dti_quotient(i, j->hidden), k = i - line * j->hidden;
        const int64_t sample = dti_quotient(line, j->pos[0]), key = line - sample * j->pos[0];
        float sum = 0;
        for (int64_t query = j->causal ? key : 0; query < j->pos[1]; query++) {
            const int64_t row = sample * j->pos[1] + query;
            const float t = additive_tanh(j, sample, row, key, k);
            sum += j->ds[row * j->pos[0] + key] * (1 - t * t);
        }
        j->dpart[0][i] = sum * j->weight[2][k];
    }
}

/* --- products --- */

static void additive_project(const additive_job *j, void *queue)
{
    for (int i = 0; i < 2 && j->part[0] != NULL; i++) {
        const dti_product_job p = dti_product_job_of(j->n * j->pos[i], j->hidden, j->in[i],
            dti_rows_of(j->x[i], j->in[i], true), dti_columns_as_rows(j->weight[i], j->in[i]),
            dti_rows_of(j->part[i], j->hidden, false));
        dti_product_launch(&p, j->type, queue);
    }
}

/* An operand of each sample. */
static dti_operand additive_each(dti_operand o, int64_t values)
{
    o.next = values;
    return o;
}

/* y_j, of each sample. */
static void additive_values(const additive_job *j, void *queue)
{
    const int64_t keys = j->pos[0], queries = j->pos[1], in = j->in[0];
    dti_product_job p = dti_product_job_of(queries, in, keys,
        additive_each(dti_rows_of(j->prob, keys, false), queries * keys),
        additive_each(dti_rows_of(j->x[0], in, true), keys * in),
        additive_each(dti_rows_of(j->y, in, true), queries * in));
    p.samples = j->n;
    dti_product_launch(&p, j->type, queue);
}

/* Gradients of the probabilities, dy_j . h_i. */
static void additive_multiply_dy(const additive_job *j, void *queue)
{
    const int64_t keys = j->pos[0], queries = j->pos[1], in = j->in[0];
    dti_operand b = dti_rows_of(j->x[0], 1, true);
    b.step = in;
    dti_product_job p = dti_product_job_of(queries, keys, in,
        additive_each(dti_rows_of(j->dy, in, true), queries * in), additive_each(b, keys * in),
        additive_each(dti_rows_of(j->ds, keys, false), queries * keys));
    p.samples = j->n;
    dti_product_launch(&p, j->type, queue);
}

/* Gradients of a weight and of its input; those of the keys to scratch, as more is to come. */
static void additive_parts(const additive_job *j, int i, void *queue)
{
    const dti_operand to =
        i == 0 ? dti_rows_of(j->rows, j->in[0], false) : dti_rows_of(j->dx[1], j->in[1], true);
    dti_product_job p = dti_product_job_of(j->hidden, j->in[i], j->n * j->pos[i],
        dti_columns_as_rows(j->dpart[i], j->hidden), dti_rows_of(j->x[i], j->in[i], true),
        dti_rows_of(j->dweight[i], j->in[i], false));
    dti_product_launch(&p, j->type, queue);
    if (j->dx[i] == NULL)
        return;
    p = dti_product_job_of(j->n * j->pos[i], j->in[i], j->hidden,
        dti_rows_of(j->dpart[i], j->hidden, false), dti_rows_of(j->weight[i], j->in[i], false), to);
    dti_product_launch(&p, j->type, queue);
}

/* What the keys get as values: p_ij dy_j. */
static void additive_add_values(const additive_job *j, void *queue)
{
    const int64_t keys = j->pos[0], queries = j->pos[1], in = j->in[0];
    dti_product_job p = dti_product_job_of(keys, in, queries,
        additive_each(dti_columns_as_rows(j->prob, keys), queries * keys),
        additive_each(dti_rows_of(j->dy, in, true), queries * in),
        additive_each(dti_rows_of(j->dx[0], in, true), keys * in));
    p.samples = j->n;
    p.plus = j->rows;
    if (j->dx[0] != NULL)
        dti_product_launch(&p, j->type, queue);
}

/* --- ops --- */

static dti_grid additive_rows(const additive_job *j)
{
    const dti_grid g = {dti_blocks(j->n * j->pos[1], 1), 1};
    return g;
}

static dt_status additive_forward(const additive_job *j, void *queue, dt_err *err)
{
    additive_project(j, queue);
    DT_LAUNCH(additive_scores, additive_rows(j), DTI_THREADS, queue, *j);
    additive_values(j, queue);
    return dt_cuda_launched("additive attention forward", err);
}

static dt_status additive_backward(const additive_job *j, void *queue, dt_err *err)
{
    const int64_t queries = j->n * j->pos[1], keys = j->n * j->pos[0];
    additive_project(j, queue);
    additive_multiply_dy(j, queue);
    DT_LAUNCH(additive_softmax_back, additive_rows(j), DTI_THREADS, queue, *j);
    DT_LAUNCH(additive_queries, dti_grid_of(queries * j->hidden), DTI_THREADS, queue, *j);
    DT_LAUNCH(additive_keys, dti_grid_of(keys * j->hidden), DTI_THREADS, queue, *j);
    dti_sums_launch(j->dscore, queries, j->hidden, false, j->dweight[2], NULL, queue);
    for (int i = 0; i < 2; i++)
        additive_parts(j, i, queue);
    additive_add_values(j, queue);
    return dt_cuda_launched("additive attention backward", err);
}

/* Gives every part its space in scratch; returns the bytes of all. */
static size_t additive_lay_out(additive_job *j, float *work, bool back)
{
    int64_t at = 0;
    for (int i = 0; i < 2; i++) {
        const int64_t values = j->n * j->pos[i] * j->hidden;
        j->part[i] = back && j->naive ? NULL : dti_take_scratch(work, &at, values);
        j->dpart[i] = back ? dti_take_scratch(work, &at, values) : NULL;
    }
    j->ds = dti_take_scratch(work, &at, j->n * j->pos[1] * j->pos[0]);
    if (back) {
        j->dscore = dti_take_scratch(work, &at, j->n * j->pos[1] * j->hidden);
        j->rows = dti_take_scratch(work, &at, j->n * j->pos[0] * j->in[0]);
    }
    return (size_t)at * sizeof(float);
}

static additive_job additive_job_of(const dt_call *c)
{
    const dt_additive_attention *o = (const dt_additive_attention *)c->node->opts;
    additive_job j;
    memset(&j, 0, sizeof j);
    j.n = c->n;
    j.hidden = o->hidden;
    j.causal = o->causal;
    j.naive = o->kind == DTI_ATTENTION_NAIVE;
    j.type = c->dtype;
    for (int i = 0; i < 2; i++) {
        const dt_shape x = dt_graph_shape(c->graph, c->node->in[i]);
        j.pos[i] = x.h * x.w;
        j.in[i] = x.c;
    }
    return j;
}

static dt_status additive_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    additive_job j = additive_job_of(c);
    (void)err;
    f->work_bytes = additive_lay_out(&j, NULL, c->form == DT_BACKWARD);
    return DT_OK;
}

static dt_status additive_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    const bool back = c->form == DT_BACKWARD;
    additive_job j = additive_job_of(c);
    (void)state;
    DT_ASSERT(a->n == c->n);
    (void)additive_lay_out(&j, (float *)a->port[DT_WORK], back);
    for (int i = 0; i < 3; i++) {
        j.weight[i] = (const float *)a->port[DT_P + i];
        j.dweight[i] = (float *)a->port[DT_DP + i];
    }
    for (int i = 0; i < 2; i++) {
        j.x[i] = a->port[DT_X + i];
        j.dx[i] = a->port[DT_DX + i];
    }
    j.y = a->port[DT_Y];
    j.dy = a->port[DT_DY];
    j.prob = (float *)a->port[DT_S + DTI_ADDITIVE_PROB];
    j.prob = j.prob != NULL ? j.prob : j.ds;
    j.tanh_of = j.naive ? (float *)a->port[DT_S + DTI_ADDITIVE_TANH] : NULL;
    return back ? additive_backward(&j, a->queue, err) : additive_forward(&j, a->queue, err);
}

DT_CUDA_TABLE(additive_attention, additive_facts, NULL, additive_run, NULL);
