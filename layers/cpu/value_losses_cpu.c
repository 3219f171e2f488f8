/* Losses of values, their gradients and the counts of right ones on the processor. */
#include "layers/loss/value_losses.h"

#include <string.h>

#include "engine/sample_check.h"
#include "layers/cpu/cpu.h"
#include "layers/cpu/values.h"
#include "layers/loss/value_loss_curves.h"

/* A sample is cut into pieces by its size alone. What forward finds out about a piece is kept in
 * scratch until all are there: metrics are added up in the order of samples and pieces. */
struct verdict {
    double loss;
    int32_t counted, right, nonfinite;
};

/* LANES: of sums, fixed by the element */
enum { BLOCK = 256, LANES = 8 };

/* Over a block: the loss of each element, or its slope over @over; 0 where the label does not
 * count. What is written may be x. */
typedef void loss_loop(
    const float *x, const int32_t *label, float *to, int n, float beta, float over);

typedef struct loops {
    loss_loop *loss, *slope;
} loops;

#define LOOPS(name, f)                                                                             \
    DT_CLONES static void name##_loss(                                                             \
        const float *x, const int32_t *label, float *to, int n, float beta, float over)            \
    {                                                                                              \
        (void)over;                                                                                \
        _Pragma("omp simd") for (int i = 0; i < n; i++)                                            \
        {                                                                                          \
            const float v = dti_value_loss_of(f, x[i], dt_label_value(label[i]), beta);            \
            to[i] = dti_select(label[i] == DT_LABEL_NONE, 0.0f, v);                                \
        }                                                                                          \
    }                                                                                              \
    DT_CLONES static void name##_slope(                                                            \
        const float *x, const int32_t *label, float *to, int n, float beta, float over)            \
    {                                                                                              \
        _Pragma("omp simd") for (int i = 0; i < n; i++)                                            \
        {                                                                                          \
            const float v = dti_value_loss_slope(f, x[i], dt_label_value(label[i]), beta) / over;  \
            to[i] = dti_select(label[i] == DT_LABEL_NONE, 0.0f, v);                                \
        }                                                                                          \
    }                                                                                              \
    static const loops name##_loops = {name##_loss, name##_slope};

LOOPS(bce, DTI_BCE)
LOOPS(l1, DTI_L1)
LOOPS(mse, DTI_MSE)
LOOPS(smooth_l1, DTI_SMOOTH_L1)

struct job {
    const dt_args *a;
    loss_loop *loop;
    dt_dtype t;
    float beta, over;
    bool judged;          /* labels are probabilities, so an output is right or wrong */
    int64_t each, pieces; /* elements of a sample; pieces of it */
    int64_t all, group;   /* pieces of all samples; those of a task */
};

static int64_t pieces_of(int64_t each)
{
    return dti_ceil_div(each, DTI_GRAIN);
}

static int block_at(dti_span s, int64_t at)
{
    return s.end - at < BLOCK ? (int)(s.end - at) : BLOCK;
}

DT_CLONES static double sum_of(const float *v, int n)
{
    double sum[LANES] = {0}, all = 0;
    int i = 0;
    for (; i + LANES <= n; i += LANES)
#pragma omp simd
        for (int k = 0; k < LANES; k++)
            sum[k] += (double)v[i + k];
    for (; i < n; i++)
        sum[i % LANES] += (double)v[i];
    for (int k = 0; k < LANES; k++)
        all += sum[k];
    return all;
}

/* Whole numbers are the same in whatever order they are added up. An output is right where it and
 * its label are on the same side of the middle; a NaN is on neither. Tests are joined by bits: &&
 * and
 * || are branches, and loops with branches no vectors. */
DT_CLONES static void count(
    struct verdict *v, const float *x, const int32_t *label, const float *loss, int n, bool judged)
{
    int32_t counted = 0, right = 0, nonfinite = 0;
#pragma omp simd reduction(+ : counted, right, nonfinite)
    for (int i = 0; i < n; i++) {
        const float l = dt_label_value(label[i]);
        counted += label[i] != DT_LABEL_NONE;
        nonfinite += !(loss[i] - loss[i] == 0.0f);
        right += ((x[i] >= 0.0f) & (l >= 0.5f)) | ((x[i] < 0.0f) & (l < 0.5f));
    }
    v->counted += counted;
    v->right += judged ? right : 0;
    v->nonfinite += nonfinite;
}

/* Elements of piece @i, counted from the first sample's. */
static dti_span elements_of(const struct job *j, int64_t i)
{
    const int64_t sample = i / j->pieces;
    const dti_span s = dti_span_of(j->each, DTI_GRAIN, i % j->pieces);
    return (dti_span){sample * j->each + s.begin, sample * j->each + s.end};
}

static void forward_piece(const struct job *j, int64_t i)
{
    float buffer[BLOCK], loss[BLOCK];
    struct verdict v = {0};
    const dti_span s = elements_of(j, i);
    for (int64_t at = s.begin; at < s.end; at += BLOCK) {
        const int n = block_at(s, at);
        const int32_t *label = (const int32_t *)j->a->port[DT_LABELS] + at;
        const float *x = dti_values_read(j->t, j->a->port[DT_X], at, buffer, n);
        j->loop(x, label, loss, n, j->beta, 1.0f);
        v.loss += sum_of(loss, n);
        count(&v, x, label, loss, n, j->judged);
    }
    ((struct verdict *)j->a->port[DT_WORK])[i] = v;
}

static void backward_piece(const struct job *j, int64_t i)
{
    float buffer[2][BLOCK];
    void *dx = j->a->port[DT_DX];
    const dti_span s = elements_of(j, i);
    for (int64_t at = s.begin; at < s.end; at += BLOCK) {
        const int n = block_at(s, at);
        const int32_t *label = (const int32_t *)j->a->port[DT_LABELS] + at;
        const float *x = dti_values_read(j->t, j->a->port[DT_X], at, buffer[0], n);
        float *to = dti_values_target(j->t, dx, at, buffer[1]);
        j->loop(x, label, to, n, j->beta, j->over);
        dti_values_write(j->t, dx, at, to, n);
    }
}

static void forward_task(const void *job, int64_t task)
{
    const struct job *j = job;
    const dti_span s = dti_span_of(j->all, j->group, task);
    for (int64_t i = s.begin; i < s.end; i++)
        forward_piece(j, i);
}

static void backward_task(const void *job, int64_t task)
{
    const struct job *j = job;
    const dti_span s = dti_span_of(j->all, j->group, task);
    for (int64_t i = s.begin; i < s.end; i++)
        backward_piece(j, i);
}

static void add_up(dt_metrics *m, const struct verdict *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        m->loss_sum += v[i].loss;
        m->count += v[i].counted;
        m->top1 += v[i].right;
        m->nonfinite += v[i].nonfinite;
    }
}

static dt_status facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    const dt_shape x = dti_call_x(c);
    const int64_t pieces = c->n * pieces_of(dt_shape_sample(&x));
    f->work_bytes = c->form == DT_BACKWARD ? 0 : (size_t)pieces * sizeof(struct verdict);
    return DT_OK;
}

static dt_status run(const loops *f, float beta, const dt_call *c, const dt_args *a, dt_err *err)
{
    const dt_shape x = dti_call_x(c);
    const bool back = c->form == DT_BACKWARD;
    const dt_label_kind kind = c->node->desc->labels;
    struct job j = {.a = a,
        .loop = back ? f->slope : f->loss,
        .t = c->dtype,
        .beta = beta,
        .over = (float)a->step_labels,
        .judged = kind == DT_LABEL_PROBABILITY,
        .each = dt_shape_sample(&x)};
    j.pieces = pieces_of(j.each);
    j.all = a->n * j.pieces;
    j.group = j.each < DTI_GRAIN ? DTI_GRAIN / j.each : 1;
    if (!back)
        DT_CHECK(dt_check_values(kind, a->port[DT_LABELS], a->n * j.each, j.each, a->sample0, err));
    dti_run_tasks(dti_ceil_div(j.all, j.group), back ? backward_task : forward_task, &j);
    if (back)
        return DT_OK;
    dt_metrics *m = a->port[DT_METRICS];
    if (!a->accumulate)
        memset(m, 0, sizeof *m);
    add_up(m, a->port[DT_WORK], j.all);
    return DT_OK;
}

#define LAYER(name)                                                                                \
    static dt_status name##_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)      \
    {                                                                                              \
        (void)state;                                                                               \
        return run(&name##_loops, 0.0f, c, a, err);                                                \
    }                                                                                              \
    const dt_kernels dt_##name##_cpu = {.facts = facts, .run = name##_run};

LAYER(bce)
LAYER(l1)
LAYER(mse)

static dt_status smooth_l1_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const dti_smooth_l1 *o = c->node->opts;
    return run(&smooth_l1_loops, (float)o->beta, c, a, err);
}

const dt_kernels dt_smooth_l1_cpu = {.facts = facts, .run = smooth_l1_run};
