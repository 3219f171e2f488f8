/* Loss, its gradient and the counts of hits on the processor. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "layers/cpu/cpu.h"
#include "layers/cpu/exponentials.h"
#include "layers/cpu/labels.h"
#include "layers/value.h"

/* Scores come in rows, one a label: of a sample, of a position of a sequence, or of a pixel. A line
 * is what lies side by side: one row, or as many as the map is wide. What forward finds out about a
 * line is kept in scratch until all are there: metrics are added up in the order of lines. */
struct verdict {
    double loss;
    int16_t rows, top1, top5; /* whose label counts; is ranked first; among the first five */
};

enum { CHUNK = 512, MOST_WIDE = INT16_MAX }; /* what a verdict counts to */

struct job {
    const dt_args *a;
    int64_t classes, wide; /* scores of a row; rows of a line */
    int64_t lines;         /* of all samples */
    dt_dtype type;         /* of scores and their gradients */
    float smooth;          /* share of a label that is spread over all classes */
    bool counts;           /* pixels of each class */
};

/* The loss of a row; prob may be NULL. Exponentials are in single precision, sums in double. */
DT_INLINE double softmax(
    const void *x, int64_t n, int32_t label, float smooth, float *prob, dt_dtype t)
{
    const float most = dti_greatest(x, n, t);
    double below;
    const double sum = dti_exponentials(x, n, most, t, prob, &below);
    const float over = (float)(1 / sum);
    if (prob != NULL)
#pragma omp simd
        for (int64_t k = 0; k < n; k++)
            prob[k] *= over;
    const double loss = log(sum) - ((double)dti_load(x, label, t) - (double)most);
    if (smooth == 0)
        return loss; /* not a term with 0 times infinity */
    return (1 - (double)smooth) * loss + (double)smooth * (log(sum) - below / (double)n);
}

DT_CLONES static double softmax_of_any(
    const void *x, int64_t n, int32_t label, float smooth, float *prob, dt_dtype t)
{
    return t == DT_BF16 ? softmax(x, n, label, smooth, prob, DT_BF16)
                        : softmax(x, n, label, smooth, prob, DT_F32);
}

/* A class comes before the label if its logit is greater, or equal with a lower index. With a NaN
 * anywhere there is no ranking, and the answer counts as wrong. */
DT_INLINE int64_t rank(const void *x, int64_t n, int32_t label, dt_dtype t)
{
    const float own = dti_load(x, label, t);
    int32_t before = 0, nan = 0; /* there are at most 2^20 classes */
#pragma omp simd reduction(+ : before, nan)
    for (int64_t i = 0; i < label; i++) {
        const float v = dti_load(x, i, t);
        before += v >= own;
        nan += v != v;
    }
#pragma omp simd reduction(+ : before, nan)
    for (int64_t i = label; i < n; i++) {
        const float v = dti_load(x, i, t);
        before += v > own;
        nan += v != v;
    }
    if (nan > 0)
        return n < 5 ? 5 : n;
    return before;
}

DT_CLONES static int64_t rank_of_any(const void *x, int64_t n, int32_t label, dt_dtype t)
{
    return t == DT_BF16 ? rank(x, n, label, DT_BF16) : rank(x, n, label, DT_F32);
}

/* A whole number is the same in whatever order it is added up. */
static void count_nonfinite(const struct job *j)
{
    dt_metrics *m = j->a->port[DT_METRICS];
#pragma omp atomic
    m->nonfinite++;
}

static void forward_row(const struct job *j, int64_t i, struct verdict *v)
{
    const void *x = dti_from(j->a->port[DT_X], i * j->classes, j->type);
    const int32_t label = ((const int32_t *)j->a->port[DT_LABELS])[i];
    float *prob = j->a->port[DT_S];
    if (label == DT_LABEL_NONE)
        return;
    const double loss = softmax_of_any(
        x, j->classes, label, j->smooth, prob == NULL ? NULL : prob + i * j->classes, j->type);
    const int64_t before = rank_of_any(x, j->classes, label, j->type);
    v->loss += loss;
    if (!isfinite(loss))
        count_nonfinite(j);
    v->top1 = (int16_t)(v->top1 + (before < 1));
    v->top5 = (int16_t)(v->top5 + (before < 5));
    v->rows++;
}

/* The first class of the greatest score; -1 with a NaN anywhere. */
DT_INLINE int32_t greatest_class(const void *x, int64_t n, dt_dtype t)
{
    int32_t at = 0, nan = 0;
    float most = dti_load(x, 0, t);
    for (int64_t i = 0; i < n; i++) {
        const float v = dti_load(x, i, t);
        at = v > most ? (int32_t)i : at;
        most = v > most ? v : most;
        nan += v != v;
    }
    return nan > 0 ? -1 : at;
}

static int32_t predicted_class(const struct job *j, int64_t i)
{
    const void *x = dti_from(j->a->port[DT_X], i * j->classes, j->type);
    return j->type == DT_BF16 ? greatest_class(x, j->classes, DT_BF16)
                              : greatest_class(x, j->classes, DT_F32);
}

/* @n pixels that are alike, of a label that counts. */
static void add_pixels(const struct job *j, int32_t label, int32_t predicted, int64_t n)
{
    dt_class_count *of = (dt_class_count *)((dt_metrics *)j->a->port[DT_METRICS] + 1);
#pragma omp atomic
    of[label].labelled += n;
    if (predicted < 0)
        return;
#pragma omp atomic
    of[predicted].predicted += n;
    if (predicted != label)
        return;
#pragma omp atomic
    of[label].both += n;
}

/* Neighbours are mostly alike, so a line takes few additions. */
static void count_pixels(const struct job *j, int64_t line)
{
    const int32_t *label = (const int32_t *)j->a->port[DT_LABELS] + line * j->wide;
    int32_t predicted = predicted_class(j, line * j->wide);
    int64_t first = 0;
    for (int64_t k = 1; k <= j->wide; k++) {
        const int32_t next = k < j->wide ? predicted_class(j, line * j->wide + k) : -1;
        if (k < j->wide && next == predicted && label[k] == label[first])
            continue;
        if (label[first] != DT_LABEL_NONE)
            add_pixels(j, label[first], predicted, k - first);
        predicted = next;
        first = k;
    }
}

static void forward_task(const void *job, int64_t line)
{
    const struct job *j = job;
    struct verdict v = {0};
    for (int64_t k = 0; k < j->wide; k++)
        forward_row(j, line * j->wide + k, &v);
    ((struct verdict *)j->a->port[DT_WORK])[line] = v;
    if (j->counts)
        count_pixels(j, line);
}

/* Through a buffer: dx may lie over the probabilities. */
DT_INLINE void descend(const float *prob, void *dx, int64_t n, int32_t label, float base, float own,
    float over, dt_dtype t)
{
    float p[CHUNK];
    for (int64_t at = 0; at < n; at += CHUNK) {
        const int64_t m = n - at < CHUNK ? n - at : CHUNK;
        memcpy(p, prob + at, (size_t)m * sizeof *p);
        void *to = dti_to(dx, at, t);
#pragma omp simd
        for (int64_t c = 0; c < m; c++)
            dti_store(to, c, t, (p[c] - base) / over);
        if (label >= at && label < at + m)
            dti_store(to, label - at, t, (p[label - at] - own) / over);
    }
}

DT_CLONES static void descend_any(const struct job *j, int64_t i, int32_t label)
{
    if (label == DT_LABEL_NONE) {
        memset(dti_to(j->a->port[DT_DX], i * j->classes, j->type), 0,
            (size_t)j->classes * dt_dtype_bytes(j->type));
        return;
    }
    const float *prob = (const float *)j->a->port[DT_S] + i * j->classes;
    void *dx = dti_to(j->a->port[DT_DX], i * j->classes, j->type);
    const float over = (float)j->a->step_labels;
    const float base = j->smooth / (float)j->classes, own = base + (1.0f - j->smooth);
    if (j->type == DT_BF16)
        descend(prob, dx, j->classes, label, base, own, over, DT_BF16);
    else
        descend(prob, dx, j->classes, label, base, own, over, DT_F32);
}

static void backward_task(const void *job, int64_t line)
{
    const struct job *j = job;
    for (int64_t i = line * j->wide; i < (line + 1) * j->wide; i++)
        descend_any(j, i, ((const int32_t *)j->a->port[DT_LABELS])[i]);
}

struct wave {
    const struct job *j;
    int64_t first;
};

static void wave_task(const void *job, int64_t i)
{
    const struct wave *w = job;
    backward_task(w->j, w->first + i);
}

/* Gradients in bf16 over probabilities in fp32: line i is written where line i / 2 was, so lines n
 * to 2n can go together once those before n are done. */
static void backward_in_waves(const struct job *j)
{
    for (int64_t first = 0, n = 1; first < j->lines; first += n) {
        n = first == 0 ? 1 : first;
        n = n < j->lines - first ? n : j->lines - first;
        const struct wave w = {j, first};
        dti_run_tasks(n, wave_task, &w);
    }
}

static void backward(const struct job *j)
{
    if (j->type == DT_BF16 && j->a->port[DT_DX] == j->a->port[DT_S])
        backward_in_waves(j);
    else
        dti_run_tasks(j->lines, backward_task, j);
}

static void add_up(dt_metrics *m, const struct verdict *v, const struct job *j)
{
    for (int64_t i = 0; i < j->lines; i++) {
        m->loss_sum += v[i].loss;
        m->top1 += v[i].top1;
        m->top5 += v[i].top5;
        m->count += v[i].rows;
    }
}

static dt_status facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    const dt_shape x = dti_call_x(c);
    if (x.w > MOST_WIDE)
        return DT_FAIL(err, DT_E_CONFIG,
            "layer '%s': scores of %" PRId64 " places side by side, at most %d on the processor: "
            "lower the width of model.image",
            c->node->name, x.w, (int)MOST_WIDE);
    f->work_bytes = c->form == DT_BACKWARD ? 0 : (size_t)(c->n * x.h) * sizeof(struct verdict);
    return DT_OK;
}

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const dt_shape x = dti_call_x(c);
    const float smooth = c->form == DT_EVAL ? 0.0f : a->hyper.label_smoothing;
    const int64_t counted = c->form == DT_EVAL ? dt_counted_classes(x) : 0;
    const struct job j = {a, x.c, x.w, a->n * x.h, c->dtype, smooth, counted > 0};
    if (c->form == DT_BACKWARD) {
        backward(&j);
        return DT_OK;
    }
    DT_CHECK(dti_check_labels(a, x.h * x.w, j.classes, err));
    dt_metrics *m = a->port[DT_METRICS];
    if (!a->accumulate)
        memset(m, 0, sizeof *m + (size_t)counted * sizeof(dt_class_count));
    dti_run_tasks(j.lines, forward_task, &j);
    add_up(m, a->port[DT_WORK], &j);
    return DT_OK;
}

const dt_kernels dt_cross_entropy_cpu = {.facts = facts, .run = run};
