/* Losses of values, their gradients and the counts of right ones on the card. */
#include "layers/cuda/loss.cuh"

DT_C_HEADERS
#include "layers/loss/value_loss_curves.h"
#include "layers/loss/value_losses.h"
DT_C_HEADERS_END

/* A block works on a piece of the step's elements. What forward finds out about a piece is kept in
 * scratch until all are there; then one block adds it up to the metrics, in a fixed order. A kernel
 * cannot refuse a label: one that is no number, but counts, gives a loss that is none, which fails
 * the step. */
typedef struct piece_verdict {
    double loss;
    int32_t counted, right, nonfinite;
} piece_verdict;

typedef struct value_job {
    const void *x;
    const int32_t *labels;
    void *dx;
    piece_verdict *verdict;
    dt_metrics *metrics;
    const dt_now *now;
    int64_t count, pieces; /* elements; pieces of them */
    float beta;            /* of smooth_l1 */
    bool judged;           /* labels are probabilities, so an output is right or wrong */
    bool accumulate, wide;
} value_job;

enum { VALUE_PIECE = 4 * DTI_FEW * DTI_THREADS, VALUE_WARPS = DTI_THREADS / DTI_WARP };

/* Of up to eight elements from @at on. */
DT_DEVICE void value_add(
    const value_job *j, int64_t at, int64_t end, loss_sums *s, dti_value_loss f, dt_dtype t)
{
    float v[DTI_FEW];
    const int n = dti_few(at, end);
    dti_take(j->x, at, n, j->wide, t, v);
    for (int k = 0; k < n; k++) {
        const int32_t word = j->labels[at + k];
        const float label = dt_label_value(word), x = v[k];
        if (word == DT_LABEL_NONE)
            continue;
        const float loss = dti_value_loss_of(f, x, label, j->beta);
        const bool right = (x >= 0.0f && label >= 0.5f) || (x < 0.0f && label < 0.5f);
        s->loss += (double)loss;
        s->rows += 1;
        s->top1 += j->judged && right ? 1 : 0;
        s->nonfinite += isfinite(loss) ? 0 : 1;
    }
}

DT_DEVICE void value_forward(const value_job *j, dti_value_loss f, dt_dtype t)
{
    __shared__ double shared[VALUE_WARPS];
    for (int64_t i = blockIdx.x; i < j->pieces; i += gridDim.x) {
        const dti_span p = dti_span_of(j->count, VALUE_PIECE, i);
        loss_sums s = {0, 0, 0, 0, 0};
        for (int64_t at = p.begin + threadIdx.x * DTI_FEW; at < p.end;
             at += (int64_t)blockDim.x * DTI_FEW)
            value_add(j, at, p.end, &s, f, t);
        s.loss = dti_block_sum(s.loss, shared);
        s.rows = dti_block_sum(s.rows, shared);
        s.top1 = dti_block_sum(s.top1, shared);
        s.nonfinite = dti_block_sum(s.nonfinite, shared);
        if (threadIdx.x > 0)
            continue;
        j->verdict[i].loss = s.loss;
        j->verdict[i].counted = (int32_t)s.rows;
        j->verdict[i].right = (int32_t)s.top1;
        j->verdict[i].nonfinite = (int32_t)s.nonfinite;
    }
}

/* One block. */
DT_KERNEL(value_add_up, value_job)
{
    __shared__ double shared[VALUE_WARPS];
    loss_sums s = {0, 0, 0, 0, 0};
    for (int64_t i = threadIdx.x; i < given.pieces; i += DTI_THREADS) {
        const piece_verdict v = given.verdict[i];
        s.loss += v.loss;
        s.rows += v.counted;
        s.top1 += v.right;
        s.nonfinite += v.nonfinite;
    }
    dti_loss_tell(s, given.accumulate, given.metrics, shared);
}

/* dx may be x. */
DT_DEVICE void value_backward(const value_job *j, dti_value_loss f, dt_dtype t)
{
    const float over = (float)j->now->step_labels;
    for (int64_t at = dti_first() * DTI_FEW; at < j->count; at += dti_stride() * DTI_FEW) {
        const int n = dti_few(at, j->count);
        float v[DTI_FEW];
        dti_take(j->x, at, n, j->wide, t, v);
        DT_UNROLL(8)
        for (int k = 0; k < DTI_FEW; k++) {
            const int32_t word = k < n ? j->labels[at + k] : (int32_t)DT_LABEL_NONE;
            const float slope = dti_value_loss_slope(f, v[k], dt_label_value(word), j->beta) / over;
            v[k] = dti_select(word == DT_LABEL_NONE, 0.0f, slope);
        }
        dti_put(j->dx, at, n, j->wide, t, v);
    }
}

#define VALUE_LOSS(name, f)                                                                        \
    DT_DEVICE void name##_forward(const value_job *j, dt_dtype t)                                  \
    {                                                                                              \
        value_forward(j, f, t);                                                                    \
    }                                                                                              \
    DT_DEVICE void name##_backward(const value_job *j, dt_dtype t)                                 \
    {                                                                                              \
        value_backward(j, f, t);                                                                   \
    }                                                                                              \
    DT_KERNELS(name##_forward, value_job)                                                          \
    DT_KERNELS(name##_backward, value_job)                                                         \
    static void name##_launch(const value_job *given, bool back, dt_dtype t, void *queue)          \
    {                                                                                              \
        const value_job j = *given;                                                                \
        const dti_grid pieces = {dti_blocks(j.pieces, 1), 1};                                      \
        const dti_grid all = dti_grid_of(dti_ceil_div(j.count, DTI_FEW));                          \
        if (back)                                                                                  \
            DT_LAUNCH_OF(name##_backward, t, all, queue, j);                                       \
        else                                                                                       \
            DT_LAUNCH_OF(name##_forward, t, pieces, queue, j);                                     \
    }

VALUE_LOSS(value_bce, DTI_BCE)
VALUE_LOSS(value_l1, DTI_L1)
VALUE_LOSS(value_mse, DTI_MSE)
VALUE_LOSS(value_smooth_l1, DTI_SMOOTH_L1)

typedef void value_launch(const value_job *j, bool back, dt_dtype t, void *queue);

static int64_t value_count(const dt_call *c)
{
    const dt_shape x = dt_graph_shape(c->graph, c->node->in[0]);
    return c->n * dt_shape_sample(&x);
}

static dt_status value_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    const int64_t pieces = dti_ceil_div(value_count(c), VALUE_PIECE);
    f->work_bytes = c->form == DT_BACKWARD ? 0 : (size_t)pieces * sizeof(piece_verdict);
    return DT_OK;
}

static dt_status value_run(
    value_launch *launch, float beta, const dt_call *c, const dt_args *a, dt_err *err)
{
    const bool back = c->form == DT_BACKWARD;
    const dt_shape x = dt_graph_shape(c->graph, c->node->in[0]);
    value_job j;
    j.x = a->port[DT_X];
    j.labels = (const int32_t *)a->port[DT_LABELS];
    j.dx = a->port[DT_DX];
    j.verdict = (piece_verdict *)a->port[DT_WORK];
    j.metrics = (dt_metrics *)a->port[DT_METRICS];
    j.now = a->now;
    j.count = a->n * dt_shape_sample(&x);
    j.pieces = dti_ceil_div(j.count, VALUE_PIECE);
    j.beta = beta;
    j.judged = c->node->desc->labels == DT_LABEL_PROBABILITY;
    j.accumulate = a->accumulate;
    j.wide = dti_wide(j.x) && dti_wide(j.dx);
    launch(&j, back, c->dtype, a->queue);
    if (!back) {
        const dti_grid one = {1, 1};
        DT_LAUNCH(value_add_up, one, DTI_THREADS, a->queue, j);
    }
    return dt_cuda_launched(c->node->desc->name, err);
}

#define VALUE_LAYER(name)                                                                          \
    static dt_status name##_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)      \
    {                                                                                              \
        (void)state;                                                                               \
        return value_run(value_##name##_launch, 0.0f, c, a, err);                                  \
    }                                                                                              \
    DT_CUDA_TABLE(name, value_facts, NULL, name##_run, NULL);

VALUE_LAYER(bce)
VALUE_LAYER(l1)
VALUE_LAYER(mse)

static dt_status smooth_l1_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const dti_smooth_l1 *o = (const dti_smooth_l1 *)c->node->opts;
    return value_run(value_smooth_l1_launch, (float)o->beta, c, a, err);
}

DT_CUDA_TABLE(smooth_l1, value_facts, NULL, smooth_l1_run, NULL);
