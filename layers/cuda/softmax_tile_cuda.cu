/* Softmax over tiles of the classes on the card, and the loss of the last state. */
#include "layers/cuda/loss.cuh"

DT_C_HEADERS
#include "layers/loss/softmax_state.h"
DT_C_HEADERS_END

/* A block works on one position. */
typedef struct tile_job {
    const void *x;
    const int32_t *labels;
    const float *x1, *y_was, *dy; /* x1: NULL for the first tile */
    float *y, *dx1;
    void *dx;
    int64_t rows, classes, first; /* positions of all samples; scores of each, and their first */
} tile_job;

enum { TILE_WARPS = DTI_THREADS / DTI_WARP };

/* ---- forward ---- */

/* The greatest score behind (score, class) in their order, and the lowest class that has it; of
 * none, -inf. All threads call, and all get it. */
DT_DEVICE void tile_next(
    const tile_job *j, int64_t at, float *score, int64_t *of, double *shared, dt_dtype t)
{
    float most = -INFINITY;
    for (int64_t c = threadIdx.x; c < j->classes; c += blockDim.x) {
        const float v = dti_load(j->x, at + c, t);
        const bool behind = v < *score || (v == *score && c > *of);
        most = behind && v > most ? v : most;
    }
    most = (float)dti_block_max((double)most, shared);
    double lowest = (double)j->classes;
    for (int64_t c = threadIdx.x; c < j->classes; c += blockDim.x) {
        const float v = dti_load(j->x, at + c, t);
        const bool behind = v < *score || (v == *score && c > *of);
        lowest = behind && v == most && (double)c < lowest ? (double)c : lowest;
    }
    *of = (int64_t)(-dti_block_max(-lowest, shared));
    *score = most;
}

DT_DEVICE void tile_begin(const tile_job *j, int64_t row, float *s)
{
    if (j->x1 == NULL) {
        dti_state_begin(s);
        return;
    }
    for (int k = 0; k < DTI_TILE_STATE; k++)
        s[k] = j->x1[row * DTI_TILE_STATE + k];
}

DT_DEVICE void tile_row(const tile_job *j, int64_t row, double *shared, dt_dtype t)
{
    const int64_t at = row * j->classes, label = (int64_t)j->labels[row] - j->first;
    float s[DTI_TILE_STATE], score = INFINITY;
    int64_t of = j->classes;
    tile_begin(j, row, s);
    for (int k = 0; k < DTI_TILE_BEST_N; k++) {
        tile_next(j, at, &score, &of, shared, t);
        if (of < j->classes)
            dti_state_insert(s, score, (float)(j->first + of));
    }
    float most = -INFINITY;
    for (int64_t c = threadIdx.x; c < j->classes; c += blockDim.x) {
        const float v = dti_load(j->x, at + c, t);
        most = v > most ? v : most;
    }
    most = (float)dti_block_max((double)most, shared);
    double sum = 0, below = 0;
    for (int64_t c = threadIdx.x; c < j->classes; c += blockDim.x) {
        const float d = dti_load(j->x, at + c, t) - most;
        sum += (double)dti_curve_exp(d);
        below += (double)d;
    }
    sum = dti_block_sum(sum, shared);
    below = dti_block_sum(below, shared);
    if (threadIdx.x > 0)
        return;
    const float before = s[DTI_TILE_MOST], all = most > before ? most : before;
    const double old =
        j->x1 != NULL ? dti_state_sum(&s[DTI_TILE_SUM]) * exp((double)before - (double)all) : 0;
    dti_state_put_sum(&s[DTI_TILE_SUM], old + sum * exp((double)most - (double)all));
    dti_state_put_sum(&s[DTI_TILE_TOTAL],
        dti_state_sum(&s[DTI_TILE_TOTAL]) + below + (double)most * (double)j->classes);
    s[DTI_TILE_MOST] = all;
    if (label >= 0 && label < j->classes)
        s[DTI_TILE_OWN] = dti_load(j->x, at + label, t);
    for (int k = 0; k < DTI_TILE_STATE; k++)
        j->y[row * DTI_TILE_STATE + k] = s[k];
}

DT_DEVICE void tile_forward(const tile_job *j, dt_dtype t)
{
    __shared__ double shared[TILE_WARPS];
    for (int64_t row = blockIdx.x; row < j->rows; row += gridDim.x)
        tile_row(j, row, shared, t);
}

DT_KERNELS(tile_forward, tile_job)

/* ---- backward ---- */

/* dx may lie over x. */
DT_DEVICE void tile_backward(const tile_job *j, dt_dtype t)
{
    for (int64_t row = blockIdx.x; row < j->rows; row += gridDim.x) {
        const float *dy = j->dy + row * DTI_TILE_STATE, *y = j->y_was + row * DTI_TILE_STATE;
        const int64_t at = row * j->classes, label = (int64_t)j->labels[row] - j->first;
        const double over = dti_state_sum(&y[DTI_TILE_SUM]);
        const float all = (float)((double)dy[DTI_TILE_MOST] / over);
        for (int64_t c = threadIdx.x; c < j->classes; c += blockDim.x) {
            const float e = dti_curve_exp(dti_load(j->x, at + c, t) - y[DTI_TILE_MOST]);
            const float d = all * e + dy[DTI_TILE_TOTAL];
            dti_store(j->dx, at + c, t, c == label ? d + dy[DTI_TILE_OWN] : d);
        }
        if (threadIdx.x > 0 || j->x1 == NULL || j->dx1 == NULL)
            continue;
        const float *x1 = j->x1 + row * DTI_TILE_STATE;
        float *dx1 = j->dx1 + row * DTI_TILE_STATE;
        const double share = dti_state_sum(&x1[DTI_TILE_SUM]) *
                             exp((double)x1[DTI_TILE_MOST] - (double)y[DTI_TILE_MOST]) / over;
        for (int k = 0; k < DTI_TILE_STATE; k++)
            dx1[k] = 0.0f;
        dx1[DTI_TILE_MOST] = (float)((double)dy[DTI_TILE_MOST] * share);
        dx1[DTI_TILE_OWN] = label >= 0 && label < j->classes ? 0.0f : dy[DTI_TILE_OWN];
        dx1[DTI_TILE_TOTAL] = dy[DTI_TILE_TOTAL];
    }
}

DT_KERNELS(tile_backward, tile_job)

static dt_status softmax_tile_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const dt_shape x = dt_graph_shape(c->graph, c->node->in[0]);
    tile_job j;
    j.x = a->port[DT_X];
    j.labels = (const int32_t *)a->port[DT_LABELS];
    j.x1 = c->node->n_in > 1 ? (const float *)a->port[DT_X + 1] : NULL;
    j.y = (float *)a->port[DT_Y];
    j.y_was = (const float *)a->port[DT_Y];
    j.dy = (const float *)a->port[DT_DY];
    j.dx = a->port[DT_DX];
    j.dx1 = (float *)a->port[DT_DX + 1];
    j.rows = a->n * x.h;
    j.classes = x.c;
    j.first = ((const dt_softmax_tile *)c->node->opts)->first;
    const dti_grid g = {dti_blocks(j.rows, 1), 1};
    if (c->form == DT_BACKWARD)
        DT_LAUNCH_OF(tile_backward, c->dtype, g, a->queue, j);
    else
        DT_LAUNCH_OF(tile_forward, c->dtype, g, a->queue, j);
    return dt_cuda_launched("softmax_tile", err);
}

DT_CUDA_TABLE(softmax_tile, NULL, NULL, softmax_tile_run, NULL);

/* ---- the loss ---- */

typedef struct tiled_job {
    const float *x;
    const int32_t *labels;
    float *dx;
    dt_metrics *metrics;
    const dt_now *now;
    int64_t rows, classes;
    bool eval, accumulate;
} tiled_job;

/* A kernel cannot refuse a label: one that is no class, but counts, gives a loss of NaN, which
 * fails the step. */
DT_DEVICE double tiled_loss(const tiled_job *j, int64_t row, float smooth)
{
    if (j->labels[row] < 0 || j->labels[row] >= j->classes)
        return (double)NAN;
    return dti_state_loss(j->x + row * DTI_TILE_STATE, j->classes, smooth);
}

/* One block. */
DT_KERNEL(tiled_forward, tiled_job)
{
    __shared__ double shared[TILE_WARPS];
    const float smooth = given.eval ? 0.0f : given.now->hyper.label_smoothing;
    loss_sums s = {0, 0, 0, 0, 0};
    for (int64_t i = threadIdx.x; i < given.rows; i += DTI_THREADS) {
        if (given.labels[i] == DT_LABEL_NONE)
            continue;
        const double own = tiled_loss(&given, i, smooth);
        const int before = dti_state_rank(given.x + i * DTI_TILE_STATE, given.labels[i]);
        s.loss += own;
        s.rows += 1;
        s.top1 += before < 1;
        s.top5 += before < DTI_TILE_BEST_N;
        s.nonfinite += isfinite(own) ? 0 : 1;
    }
    dti_loss_tell(s, given.accumulate, given.metrics, shared);
}

DT_KERNEL(tiled_backward, tiled_job)
{
    const float over = (float)given.now->step_labels;
    const float smooth = given.now->hyper.label_smoothing;
    for (int64_t i = dti_first(); i < given.rows * DTI_TILE_STATE; i += dti_stride()) {
        const int64_t k = i % DTI_TILE_STATE;
        const bool counts = given.labels[i / DTI_TILE_STATE] != DT_LABEL_NONE;
        given.dx[i] = !counts               ? 0.0f
                      : k == DTI_TILE_MOST  ? 1 / over
                      : k == DTI_TILE_OWN   ? -(1.0f - smooth) / over
                      : k == DTI_TILE_TOTAL ? -smooth / (float)given.classes / over
                                            : 0.0f;
    }
}

static dt_status tiled_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const dt_shape x = dt_graph_shape(c->graph, c->node->in[0]);
    tiled_job j;
    j.x = (const float *)a->port[DT_X];
    j.labels = (const int32_t *)a->port[DT_LABELS];
    j.dx = (float *)a->port[DT_DX];
    j.metrics = (dt_metrics *)a->port[DT_METRICS];
    j.now = a->now;
    j.rows = a->n * x.h;
    j.classes = c->graph->classes;
    j.eval = c->form == DT_EVAL;
    j.accumulate = a->accumulate;
    const dti_grid one = {1, 1};
    if (c->form == DT_BACKWARD)
        DT_LAUNCH(tiled_backward, dti_grid_of(j.rows * DTI_TILE_STATE), DTI_THREADS, a->queue, j);
    else
        DT_LAUNCH(tiled_forward, one, DTI_THREADS, a->queue, j);
    return dt_cuda_launched("tiled_cross_entropy", err);
}

DT_CUDA_TABLE(tiled_cross_entropy, NULL, NULL, tiled_run, NULL);
