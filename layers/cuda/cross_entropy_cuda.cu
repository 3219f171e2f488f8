/* Loss, its gradient and the counts of hits on the card. */
#include "layers/cuda/loss.cuh"

/* A block works on one row of scores: those of a label. What forward finds out about a row is kept
 * in scratch until all are there; then one block adds it up to the metrics, in a fixed order. A
 * kernel cannot refuse a label: one that is no class gives a loss of NaN, which fails the step. */
typedef struct verdict_of_row {
    double loss;
    int16_t top1, top5;
    int32_t predicted; /* the first class of the greatest score, -1 for none; where pixels count */
} verdict_of_row;

typedef struct ce_job {
    const void *x;
    const int32_t *labels;
    float *prob;
    void *dx;
    verdict_of_row *verdict;
    dt_metrics *metrics;
    const dt_now *now;
    int64_t rows, classes, positions; /* positions: rows of a sample */
    int64_t first;                    /* row from which a launch of backward counts */
    int64_t counted;                  /* classes whose pixels are counted; 0: none */
    bool eval, accumulate;
} ce_job;

enum { CE_WARPS = DTI_THREADS / DTI_WARP, CE_SOME = 4 }; /* some: scores that a thread holds */

DT_DEVICE float ce_smooth(const ce_job *j)
{
    return j->eval ? 0.0f : j->now->hyper.label_smoothing;
}

/* The greatest score that is a number. */
DT_DEVICE float ce_greatest(const ce_job *j, int64_t at, double *shared, dt_dtype t)
{
    float most = -INFINITY;
    DT_UNROLL(4)
    for (int64_t c = threadIdx.x; c < j->classes; c += blockDim.x) {
        const float v = dti_load(j->x, at + c, t);
        most = v > most ? v : most;
    }
    return (float)dti_block_max((double)most, shared);
}

/* Its first class; -1 with a NaN anywhere. */
DT_DEVICE int32_t ce_predicted(const ce_job *j, int64_t at, float most, double *shared, dt_dtype t)
{
    double first = (double)j->classes, nan = 0;
    for (int64_t c = threadIdx.x; c < j->classes; c += blockDim.x) {
        const float v = dti_load(j->x, at + c, t);
        first = v == most && (double)c < first ? (double)c : first;
        nan += v != v ? 1 : 0;
    }
    first = -dti_block_max(-first, shared);
    nan = dti_block_sum(nan, shared);
    return nan > 0 ? -1 : (int32_t)first;
}

/* Of one row: exponentials in single precision, sums in double. A class comes before the label if
 * its score is greater, or equal with a lower index; with a NaN anywhere there is no ranking. */
DT_DEVICE void ce_row(const ce_job *j, int64_t row, double *shared, dt_dtype t)
{
    const int64_t at = row * j->classes;
    const int32_t label = j->labels[row];
    const bool known = label >= 0 && label < j->classes;
    const float most = ce_greatest(j, at, shared, t), smooth = ce_smooth(j);
    const float own = known ? dti_load(j->x, at + label, t) : NAN;
    double sum = 0, below = 0;
    int64_t before = 0;
    DT_UNROLL(4)
    for (int64_t c = threadIdx.x; c < j->classes; c += blockDim.x) {
        const float v = dti_load(j->x, at + c, t), d = v - most;
        sum += (double)dti_curve_exp(d);
        below += (double)d;
        before += c < label ? v >= own : v > own;
        before += v != v ? 5 : 0;
    }
    sum = dti_block_sum(sum, shared);
    below = dti_block_sum(below, shared);
    const double ahead = dti_block_sum((double)before, shared);
    const float over = (float)(1 / sum);
    if (j->prob != NULL)
        for (int64_t c = threadIdx.x; c < j->classes; c += blockDim.x)
            j->prob[at + c] = dti_curve_exp(dti_load(j->x, at + c, t) - most) * over;
    const int32_t predicted = j->counted > 0 ? ce_predicted(j, at, most, shared, t) : -1;
    if (threadIdx.x > 0)
        return;
    double loss = log(sum) - ((double)own - (double)most);
    if (smooth != 0) /* else not a term with 0 times infinity */
        loss =
            (1 - (double)smooth) * loss + (double)smooth * (log(sum) - below / (double)j->classes);
    j->verdict[row].loss = loss;
    j->verdict[row].top1 = known && ahead < 1;
    j->verdict[row].top5 = known && ahead < 5;
    j->verdict[row].predicted = predicted;
}

DT_DEVICE void ce_forward(const ce_job *j, dt_dtype t)
{
    __shared__ double shared[CE_WARPS];
    for (int64_t row = blockIdx.x; row < j->rows; row += gridDim.x)
        ce_row(j, row, shared, t);
}

DT_KERNELS(ce_forward, ce_job)

/* One block. */
DT_KERNEL(ce_add_up, ce_job)
{
    __shared__ double shared[CE_WARPS];
    loss_sums s = {0, 0, 0, 0};
    for (int64_t i = threadIdx.x; i < given.rows; i += DTI_THREADS) {
        const verdict_of_row v = given.verdict[i];
        s.loss += v.loss;
        s.top1 += v.top1;
        s.top5 += v.top5;
        s.nonfinite += isfinite(v.loss) ? 0 : 1;
    }
    dti_loss_tell(s, given.rows, given.accumulate, given.metrics, shared);
}

/* A block for a class, which looks at all rows. */
DT_KERNEL(ce_count, ce_job)
{
    __shared__ double shared[CE_WARPS];
    for (int64_t c = blockIdx.x; c < given.counted; c += gridDim.x) {
        double labelled = 0, predicted = 0, both = 0; /* exact to 2^53 */
        for (int64_t i = threadIdx.x; i < given.rows; i += DTI_THREADS) {
            const bool is = given.labels[i] == c, said = given.verdict[i].predicted == c;
            labelled += is ? 1 : 0;
            predicted += said ? 1 : 0;
            both += is && said ? 1 : 0;
        }
        labelled = dti_block_sum(labelled, shared);
        predicted = dti_block_sum(predicted, shared);
        both = dti_block_sum(both, shared);
        if (threadIdx.x > 0)
            continue;
        dt_class_count *of = (dt_class_count *)(given.metrics + 1) + c;
        if (!given.accumulate)
            memset(of, 0, sizeof *of);
        of->labelled += (int64_t)labelled;
        of->predicted += (int64_t)predicted;
        of->both += (int64_t)both;
    }
}

/* dx may lie over the probabilities, narrower than they: all threads read some of them before any
 * writes. */
DT_DEVICE void ce_backward(const ce_job *j, dt_dtype t)
{
    const float smooth = ce_smooth(j), base = smooth / (float)j->classes;
    const float own = base + (1.0f - smooth);
    const float over = (float)(j->now->step_samples * j->positions);
    for (int64_t row = j->first + blockIdx.x; row < j->rows; row += gridDim.x) {
        const int64_t at = row * j->classes, label = j->labels[row];
        for (int64_t first = threadIdx.x; first - threadIdx.x < j->classes;
             first += CE_SOME * (int64_t)blockDim.x) {
            float p[CE_SOME];
            DT_UNROLL(4)
            for (int k = 0; k < CE_SOME; k++) {
                const int64_t c = first + k * (int64_t)blockDim.x;
                p[k] = c < j->classes ? j->prob[at + c] : 0.0f;
            }
            __syncthreads();
            DT_UNROLL(4)
            for (int k = 0; k < CE_SOME; k++) {
                const int64_t c = first + k * (int64_t)blockDim.x;
                if (c < j->classes)
                    dti_store(j->dx, at + c, t, (p[k] - (c == label ? own : base)) / over);
            }
        }
    }
}

DT_KERNELS(ce_backward, ce_job)

static dt_status ce_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    const dt_shape x = dt_graph_shape(c->graph, c->node->in[0]);
    f->work_bytes =
        c->form == DT_BACKWARD ? 0 : (size_t)(c->n * x.h * x.w) * sizeof(verdict_of_row);
    return DT_OK;
}

/* Threads for a row: few where it is short. */
static unsigned ce_threads(int64_t classes)
{
    unsigned threads = DTI_WARP;
    while (threads < DTI_THREADS && threads * 8 < classes)
        threads *= 2;
    return threads;
}

#define CE_LAUNCH(name, t, blocks, classes, queue, given)                                          \
    do {                                                                                           \
        const dti_grid ce_grid = {dti_blocks((blocks), 1), 1};                                     \
        if ((t) == DT_BF16)                                                                        \
            DT_LAUNCH(name##_bf16, ce_grid, ce_threads(classes), queue, given);                    \
        else                                                                                       \
            DT_LAUNCH(name##_f32, ce_grid, ce_threads(classes), queue, given);                     \
    } while (0)

/* Gradients in bf16 over probabilities in fp32: row i is written where row i / 2 was, so rows n to
 * 2n can go together once those before n are done. A launch has no more blocks than rows, and no
 * block goes on to a second. */
static dt_status ce_run_backward(ce_job j, const dt_call *c, void *queue, dt_err *err)
{
    if (c->dtype != DT_BF16 || j.dx != (void *)j.prob) {
        CE_LAUNCH(ce_backward, c->dtype, j.rows, j.classes, queue, j);
        return dt_cuda_launched("cross_entropy backward", err);
    }
    const int64_t all = j.rows;
    for (int64_t n = 1; j.first < all; j.first = j.rows) {
        n = j.first == 0 ? 1 : j.first;
        if (n > DTI_MOST_BLOCKS)
            n = DTI_MOST_BLOCKS;
        j.rows = n < all - j.first ? j.first + n : all;
        CE_LAUNCH(ce_backward, DT_BF16, j.rows - j.first, j.classes, queue, j);
        DT_CHECK(dt_cuda_launched("cross_entropy backward", err));
    }
    return DT_OK;
}

static dt_status ce_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const dt_shape x = dt_graph_shape(c->graph, c->node->in[0]);
    ce_job j;
    j.x = a->port[DT_X];
    j.labels = (const int32_t *)a->port[DT_LABELS];
    j.prob = (float *)a->port[DT_S];
    j.dx = a->port[DT_DX];
    j.verdict = (verdict_of_row *)a->port[DT_WORK];
    j.metrics = (dt_metrics *)a->port[DT_METRICS];
    j.now = a->now;
    j.rows = a->n * x.h * x.w;
    j.classes = x.c;
    j.positions = x.h * x.w;
    j.first = 0;
    j.eval = c->form == DT_EVAL;
    j.counted = j.eval ? dt_counted_classes(x) : 0;
    j.accumulate = a->accumulate;
    if (c->form == DT_BACKWARD)
        return ce_run_backward(j, c, a->queue, err);
    const dti_grid one = {1, 1};
    CE_LAUNCH(ce_forward, c->dtype, j.rows, j.classes, a->queue, j);
    DT_LAUNCH(ce_add_up, one, DTI_THREADS, a->queue, j);
    if (j.counted > 0) {
        const dti_grid classes = {dti_blocks(j.counted, 1), 1};
        DT_LAUNCH(ce_count, classes, DTI_THREADS, a->queue, j);
    }
    return dt_cuda_launched("cross_entropy forward", err);
}

DT_CUDA_TABLE(cross_entropy, ce_facts, NULL, ce_run, NULL);
