#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "layers/cpu.h"
#include "layers/team.h"

/* What forward finds out about one row of scores (a sample, or one position of a sequence), kept in
 * scratch until all are there: metrics are added up in the order of rows. */
struct verdict {
    double loss;
    int64_t before; /* classes ranked before the label */
};

struct job {
    const dt_args *a;
    int64_t classes, rows, positions; /* of all samples; rows of a sample */
};

/* The loss in double precision from single-precision logits; prob may be NULL. */
static double softmax(const float *x, int64_t n, int32_t label, float *prob)
{
    float most = x[0];
    for (int64_t i = 1; i < n; i++)
        most = x[i] > most ? x[i] : most;
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)x[i] - (double)most);
    for (int64_t i = 0; prob != NULL && i < n; i++)
        prob[i] = (float)(exp((double)x[i] - (double)most) / sum);
    return log(sum) - ((double)x[label] - (double)most);
}

/* A class comes before the label if its logit is greater, or equal with a lower index. With a NaN
 * anywhere there is no ranking, and the answer counts as wrong. */
static int64_t rank(const float *x, int64_t n, int32_t label)
{
    int64_t before = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(x[i]))
            return n < 5 ? 5 : n;
        before += x[i] > x[label] || (x[i] == x[label] && i < label);
    }
    return before;
}

static void forward_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const float *x = (const float *)j->a->port[DT_X] + i * j->classes;
    const int32_t label = ((const int32_t *)j->a->port[DT_LABELS])[i];
    float *prob = j->a->port[DT_S];
    struct verdict *v = (struct verdict *)j->a->port[DT_WORK] + i;
    v->loss = softmax(x, j->classes, label, prob == NULL ? NULL : prob + i * j->classes);
    v->before = rank(x, j->classes, label);
}

static void backward_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const float *prob = (const float *)j->a->port[DT_S] + i * j->classes;
    const int32_t label = ((const int32_t *)j->a->port[DT_LABELS])[i];
    float *dx = (float *)j->a->port[DT_DX] + i * j->classes;
    const float over = (float)(j->a->step_samples * j->positions);
    for (int64_t c = 0; c < j->classes; c++)
        dx[c] = (prob[c] - (c == label ? 1.0f : 0.0f)) / over;
}

static void add_up(dt_metrics *m, const struct verdict *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        m->loss_sum += v[i].loss;
        m->nonfinite += !isfinite(v[i].loss);
        m->top1 += v[i].before < 1;
        m->top5 += v[i].before < 5;
    }
    m->count += n;
}

static dt_status check_labels(const struct job *j, dt_err *err)
{
    const int32_t *label = j->a->port[DT_LABELS];
    for (int64_t i = 0; i < j->rows; i++)
        if (label[i] < 0 || label[i] >= j->classes)
            return DT_FAIL(err, DT_E_DATA,
                "sample %" PRId64 " of the step has label %" PRId32
                ", but the network has classes 0 to %" PRId64,
                j->a->sample0 + i / j->positions, label[i], j->classes - 1);
    return DT_OK;
}

static dt_status facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    const dt_shape x = dt_call_x(c);
    f->work_bytes = c->form == DT_BACKWARD ? 0 : (size_t)(c->n * x.h) * sizeof(struct verdict);
    return DT_OK;
}

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const dt_shape x = dt_call_x(c);
    const struct job j = {a, x.c, a->n * x.h, x.h};
    if (c->form == DT_BACKWARD) {
        dt_team(j.rows, backward_task, &j);
        return DT_OK;
    }
    DT_CHECK(check_labels(&j, err));
    dt_team(j.rows, forward_task, &j);
    dt_metrics *m = a->port[DT_METRICS];
    if (!a->accumulate)
        memset(m, 0, sizeof *m);
    add_up(m, a->port[DT_WORK], j.rows);
    return DT_OK;
}

const dt_kernels dt_cross_entropy_cpu = {.facts = facts, .run = run};
