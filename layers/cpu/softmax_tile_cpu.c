/* Softmax over tiles of the classes on the processor, and the loss of the last state. */
#include "layers/loss/softmax_state.h"

#include <string.h>

#include "layers/cpu/cpu.h"
#include "layers/cpu/exponentials.h"
#include "layers/cpu/labels.h"

enum { ROWS = 8 }; /* positions of a task */

struct job {
    const dt_args *a;
    int64_t rows, classes, first; /* positions of all samples; scores of each, and their first */
    dt_dtype type;
    bool later; /* there are tiles before */
};

static const float *state_at(const struct job *j, int port, int64_t row)
{
    return (const float *)j->a->port[port] + row * DTI_TILE_STATE;
}

static bool is_here(const struct job *j, int64_t label)
{
    return label >= 0 && label < j->classes;
}

/* ---- forward ---- */

static void find_best(const struct job *j, const void *x, float most, float *s)
{
    const float *last = &s[DTI_TILE_BEST + DTI_TILE_BEST_N - 1];
    if (most <= *last)
        return;
    for (int64_t i = 0; i < j->classes; i++) {
        const float v = dti_load(x, i, j->type);
        if (v > *last)
            dti_state_insert(s, v, (float)(j->first + i));
    }
}

DT_INLINE void sum_up(const void *x, int64_t n, float *most, double *sum, double *below, dt_dtype t)
{
    *most = dti_greatest(x, n, t);
    *sum = dti_exponentials(x, n, *most, t, NULL, below);
}

DT_CLONES static void sum_up_any(
    const void *x, int64_t n, float *most, double *sum, double *below, dt_dtype t)
{
    if (t == DT_BF16)
        sum_up(x, n, most, sum, below, DT_BF16);
    else
        sum_up(x, n, most, sum, below, DT_F32);
}

static void forward_row(const struct job *j, int64_t row)
{
    const void *x = dti_from(j->a->port[DT_X], row * j->classes, j->type);
    const int64_t label = ((const int32_t *)j->a->port[DT_LABELS])[row] - j->first;
    float s[DTI_TILE_STATE], most;
    double sum, below;
    if (j->later)
        memcpy(s, state_at(j, DT_X + 1, row), sizeof s);
    else
        dti_state_begin(s);
    sum_up_any(x, j->classes, &most, &sum, &below, j->type);
    find_best(j, x, most, s);
    const float before = s[DTI_TILE_MOST], all = most > before ? most : before;
    const double old =
        j->later ? dti_state_sum(&s[DTI_TILE_SUM]) * exp((double)before - (double)all) : 0;
    dti_state_put_sum(&s[DTI_TILE_SUM], old + sum * exp((double)most - (double)all));
    dti_state_put_sum(&s[DTI_TILE_TOTAL],
        dti_state_sum(&s[DTI_TILE_TOTAL]) + below + (double)most * (double)j->classes);
    s[DTI_TILE_MOST] = all;
    if (is_here(j, label))
        s[DTI_TILE_OWN] = dti_load(x, label, j->type);
    memcpy((float *)j->a->port[DT_Y] + row * DTI_TILE_STATE, s, sizeof s);
}

static void forward_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span s = dti_span_of(j->rows, ROWS, i);
    for (int64_t row = s.begin; row < s.end; row++)
        forward_row(j, row);
}

/* ---- backward ---- */

struct slope {
    float most, all, own, each; /* all: of the sum of exponentials; each: of any score */
    int64_t label;
};

/* Through a buffer: dx may lie over x. */
DT_INLINE void descend(const void *x, void *dx, int64_t n, const struct slope *g, dt_dtype t)
{
    float e[DTI_EXP_CHUNK];
    for (int64_t at = 0; at < n; at += DTI_EXP_CHUNK) {
        const int64_t m = n - at < DTI_EXP_CHUNK ? n - at : DTI_EXP_CHUNK;
#pragma omp simd
        for (int64_t k = 0; k < m; k++)
            e[k] = g->all * dti_curve_exp(dti_load(x, at + k, t) - g->most) + g->each;
        if (g->label >= at && g->label < at + m)
            e[g->label - at] += g->own;
#pragma omp simd
        for (int64_t k = 0; k < m; k++)
            dti_store(dx, at + k, t, e[k]);
    }
}

DT_CLONES static void descend_any(
    const void *x, void *dx, int64_t n, const struct slope *g, dt_dtype t)
{
    if (t == DT_BF16)
        descend(x, dx, n, g, DT_BF16);
    else
        descend(x, dx, n, g, DT_F32);
}

static void backward_row(const struct job *j, int64_t row)
{
    const float *dy = state_at(j, DT_DY, row), *y = state_at(j, DT_Y, row);
    const double over = dti_state_sum(&y[DTI_TILE_SUM]);
    const struct slope g = {.most = y[DTI_TILE_MOST],
        .all = (float)((double)dy[DTI_TILE_MOST] / over),
        .own = dy[DTI_TILE_OWN],
        .each = dy[DTI_TILE_TOTAL],
        .label = ((const int32_t *)j->a->port[DT_LABELS])[row] - j->first};
    float before[DTI_TILE_STATE] = {0};
    if (j->later) { /* read first, should it be written over */
        const float *x1 = state_at(j, DT_X + 1, row);
        const double share = dti_state_sum(&x1[DTI_TILE_SUM]) *
                             exp((double)x1[DTI_TILE_MOST] - (double)y[DTI_TILE_MOST]) / over;
        before[DTI_TILE_MOST] = (float)((double)dy[DTI_TILE_MOST] * share);
        before[DTI_TILE_OWN] = is_here(j, g.label) ? 0.0f : dy[DTI_TILE_OWN];
        before[DTI_TILE_TOTAL] = dy[DTI_TILE_TOTAL];
    }
    const int64_t at = row * j->classes;
    descend_any(dti_from(j->a->port[DT_X], at, j->type), dti_to(j->a->port[DT_DX], at, j->type),
        j->classes, &g, j->type);
    if (j->later && j->a->port[DT_DX + 1] != NULL)
        memcpy((float *)j->a->port[DT_DX + 1] + row * DTI_TILE_STATE, before, sizeof before);
}

static void backward_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span s = dti_span_of(j->rows, ROWS, i);
    for (int64_t row = s.begin; row < s.end; row++)
        backward_row(j, row);
}

static dt_status tile_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const dt_shape x = dti_call_x(c);
    const dt_softmax_tile *o = c->node->opts;
    const struct job j = {.a = a,
        .rows = a->n * x.h,
        .classes = x.c,
        .first = o->first,
        .type = c->dtype,
        .later = c->node->n_in > 1};
    dti_run_tasks(
        dti_ceil_div(j.rows, ROWS), c->form == DT_BACKWARD ? backward_task : forward_task, &j);
    return DT_OK;
}

const dt_kernels dt_softmax_tile_cpu = {.run = tile_run};

/* ---- the loss ---- */

static dt_status forward(const dt_call *c, const dt_args *a, int64_t positions, dt_err *err)
{
    const int32_t *label = a->port[DT_LABELS];
    const float smooth = c->form == DT_EVAL ? 0.0f : a->hyper.label_smoothing;
    const int64_t classes = c->graph->classes;
    dt_metrics *m = a->port[DT_METRICS];
    DT_CHECK(dti_check_labels(a, positions, classes, err));
    if (!a->accumulate)
        memset(m, 0, sizeof *m);
    for (int64_t i = 0; i < a->n * positions; i++) {
        const float *s = (const float *)a->port[DT_X] + i * DTI_TILE_STATE;
        if (label[i] == DT_LABEL_NONE)
            continue;
        const double loss = dti_state_loss(s, classes, smooth);
        const int before = dti_state_rank(s, label[i]);
        m->loss_sum += loss;
        m->nonfinite += !isfinite(loss);
        m->top1 += before < 1;
        m->top5 += before < DTI_TILE_BEST_N;
        m->count++;
    }
    return DT_OK;
}

static void backward(const dt_call *c, const dt_args *a, int64_t positions)
{
    const int32_t *label = a->port[DT_LABELS];
    const float over = (float)a->step_labels, smooth = a->hyper.label_smoothing;
    for (int64_t i = 0; i < a->n * positions; i++) {
        float *d = (float *)a->port[DT_DX] + i * DTI_TILE_STATE;
        memset(d, 0, DTI_TILE_STATE * sizeof *d);
        if (label[i] == DT_LABEL_NONE)
            continue;
        d[DTI_TILE_MOST] = 1 / over;
        d[DTI_TILE_OWN] = -(1.0f - smooth) / over;
        d[DTI_TILE_TOTAL] = -smooth / (float)c->graph->classes / over;
    }
}

static dt_status loss_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const int64_t positions = dti_call_x(c).h;
    if (c->form != DT_BACKWARD)
        return forward(c, a, positions, err);
    backward(c, a, positions);
    return DT_OK;
}

const dt_kernels dt_tiled_cross_entropy_cpu = {.run = loss_run};
