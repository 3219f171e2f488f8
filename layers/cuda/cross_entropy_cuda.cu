/* Loss, its gradient and the counts of hits on the card. */
#include "layers/cuda/loss.cuh"

/* A block works on one row of scores: those of a label. What forward finds out about a row is kept
 * in scratch until all are there; then one block adds it up to the metrics, in a fixed order. A
 * kernel cannot refuse a label: one that is no class, but counts, gives a loss of NaN, which fails
 * the step. */
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
    int64_t rows, classes;
    int64_t first;   /* row from which a launch of backward counts */
    int64_t counted; /* classes whose pixels are counted; 0: none */
    bool eval, accumulate;
    bool wide; /* probabilities lie at 16 bytes where eight scores do */
} ce_job;

enum { CE_WARPS = DTI_THREADS / DTI_WARP, CE_SOME = 4 }; /* some: scores that a thread holds */

DT_DEVICE float ce_smooth(const ce_job *j)
{
    return j->eval ? 0.0f : j->now->hyper.label_smoothing;
}

/* A row in chunks of up to eight scores: those before the first that lies at 16 bytes, if any, then
 * eight at a time. @at: the row's first score; a chunk's first is @first of the row. */
typedef struct ce_row_of {
    int64_t at, classes, chunks;
    int head;
} ce_row_of;

typedef struct ce_chunk {
    int64_t first;
    int n;
    float v[DTI_FEW]; /* -inf where there is none */
} ce_chunk;

DT_DEVICE ce_row_of ce_chunks(const ce_job *j, int64_t row, dt_dtype t)
{
    ce_row_of r;
    const int bytes = t == DT_BF16 ? 2 : 4;
    r.at = row * j->classes;
    r.classes = j->classes;
    const int over = (int)(((uintptr_t)j->x + (uintptr_t)(r.at * bytes)) % 16);
    r.head = over == 0 ? 0 : (16 - over) / bytes;
    r.head = r.head < j->classes ? r.head : (int)j->classes;
    r.chunks = (r.head > 0) + (j->classes - r.head + DTI_FEW - 1) / DTI_FEW;
    return r;
}

DT_DEVICE ce_chunk ce_take(const ce_job *j, const ce_row_of *r, int64_t i, dt_dtype t)
{
    ce_chunk c;
    const bool head = r->head > 0 && i == 0;
    c.first = head ? 0 : r->head + (i - (r->head > 0)) * DTI_FEW;
    c.n = head ? r->head : dti_few(c.first, r->classes);
    dti_take(j->x, r->at + c.first, c.n, true, t, c.v);
    DT_UNROLL(8)
    for (int k = 0; k < DTI_FEW; k++)
        c.v[k] = k < c.n ? c.v[k] : -INFINITY;
    return c;
}

/* The first class of the greatest score; -1 with a NaN anywhere. */
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

/* What a thread's scores add up to: the greatest that is a number, exponentials of all distances
 * from that, the scores themselves; how many come before the label. */
typedef struct ce_sums {
    float most;
    double exponentials, scores;
    int before;
} ce_sums;

/* A class comes before the label if its score is greater, or equal with a lower index; with a NaN
 * anywhere there is no ranking. @smooth: the sum of scores is wanted */
DT_DEVICE void ce_add(const ce_chunk *c, float own, int64_t label, bool smooth, ce_sums *s)
{
    float most = s->most;
    DT_UNROLL(8)
    for (int k = 0; k < DTI_FEW; k++)
        most = c->v[k] > most ? c->v[k] : most;
    if (most > s->most)
        s->exponentials *= (double)dti_curve_exp(s->most - most);
    s->most = most;
    DT_UNROLL(8)
    for (int k = 0; k < DTI_FEW; k++) {
        const float v = c->v[k];
        s->exponentials += v == -INFINITY ? 0.0 : (double)dti_curve_exp(v - most);
        s->before += k < c->n && (c->first + k < label ? v >= own : v > own);
        s->before += v != v ? 5 : 0;
    }
    DT_UNROLL(8)
    for (int k = 0; k < DTI_FEW && smooth; k++)
        s->scores += k < c->n ? (double)c->v[k] : 0.0;
}

DT_DEVICE void ce_probabilities(
    const ce_job *j, const ce_row_of *r, float most, float over, dt_dtype t)
{
    for (int64_t i = threadIdx.x; i < r->chunks; i += blockDim.x) {
        ce_chunk c = ce_take(j, r, i, t);
        DT_UNROLL(8)
        for (int k = 0; k < DTI_FEW; k++)
            c.v[k] = dti_curve_exp(c.v[k] - most) * over;
        dti_put(j->prob, r->at + c.first, c.n, j->wide, DT_F32, c.v);
    }
}

/* Of one row: exponentials in single precision, sums in double. */
DT_DEVICE void ce_row(const ce_job *j, int64_t row, double *shared, dt_dtype t)
{
    const ce_row_of r = ce_chunks(j, row, t);
    const int64_t label = j->labels[row];
    const bool known = label >= 0 && label < j->classes;
    const float smooth = ce_smooth(j), own = known ? dti_load(j->x, r.at + label, t) : NAN;
    ce_sums s = {-INFINITY, 0, 0, 0};
    DT_UNROLL(2)
    for (int64_t i = threadIdx.x; i < r.chunks; i += blockDim.x) {
        const ce_chunk c = ce_take(j, &r, i, t);
        ce_add(&c, own, label, smooth != 0, &s);
    }
    const float most = (float)dti_block_max((double)s.most, shared);
    const double mine = s.exponentials * (double)dti_curve_exp(s.most - most);
    const double sum = dti_block_sum(mine, shared);
    const double below = dti_block_sum(s.scores, shared) - (double)j->classes * (double)most;
    const double ahead = dti_block_sum((double)s.before, shared);
    if (j->prob != NULL)
        ce_probabilities(j, &r, most, (float)(1 / sum), t);
    const int32_t predicted = j->counted > 0 ? ce_predicted(j, r.at, most, shared, t) : -1;
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
    loss_sums s = {0, 0, 0, 0, 0};
    for (int64_t i = threadIdx.x; i < given.rows; i += DTI_THREADS) {
        const verdict_of_row v = given.verdict[i];
        if (given.labels[i] == DT_LABEL_NONE)
            continue;
        s.rows += 1;
        s.loss += v.loss;
        s.top1 += v.top1;
        s.top5 += v.top5;
        s.nonfinite += isfinite(v.loss) ? 0 : 1;
    }
    dti_loss_tell(s, given.accumulate, given.metrics, shared);
}

/* A block for a class, which looks at all rows. */
DT_KERNEL(ce_count, ce_job)
{
    __shared__ double shared[CE_WARPS];
    for (int64_t c = blockIdx.x; c < given.counted; c += gridDim.x) {
        double labelled = 0, predicted = 0, both = 0; /* exact to 2^53 */
        for (int64_t i = threadIdx.x; i < given.rows; i += DTI_THREADS) {
            const int32_t label = given.labels[i];
            const bool is = label == c;
            const bool said = label != DT_LABEL_NONE && given.verdict[i].predicted == c;
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
    const float over = (float)j->now->step_labels;
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
                    dti_store(j->dx, at + c, t,
                        label == DT_LABEL_NONE ? 0.0f : (p[k] - (c == label ? own : base)) / over);
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
    j.first = 0;
    j.eval = c->form == DT_EVAL;
    j.counted = j.eval ? dt_counted_classes(x) : 0;
    j.accumulate = a->accumulate;
    j.wide = dti_wide(j.x) && dti_wide(j.prob);
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
