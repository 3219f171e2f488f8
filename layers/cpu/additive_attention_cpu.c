/* Additive attention on the processor. Whatever is a product of matrices is one (product.h), of
 * rows copied into scratch as fp32; between them, tasks go over pairs of positions. A forward task
 * has some queries of a sample, a backward task a whole sample, as every query adds to the keys'
 * gradients. Sums run over keys, queries and samples in their order, those over hidden values in a
 * fixed number of lanes. */
#include "layers/sequence/additive_attention.h"

#include <string.h>

#include "layers/blocked/product.h"
#include "layers/cpu/cpu.h"
#include "layers/cpu/scratch.h"
#include "layers/cpu/values.h"
#include "layers/elementwise/curves.h"

enum { QUERIES = 8, COPY_ROWS = 64, LANES = 16 };
enum { KEY, QUERY, SCORE }; /* parameters; the first two are inputs as well */

/**
 * struct job - one execution.
 * @n @pos @in: samples; positions and channels of both inputs
 * @hidden: values of which a score is made
 * @rows:   of both inputs, as fp32, later their gradients
 * @part:   W h_i and U q_j, rows of [hidden]
 * @dy:     rows of the gradient of y
 * @dprob:  gradients of the probabilities, [n][queries][keys]
 * @dpart:  gradients of @part
 * @dscore: of score_weight, [n][hidden]
 */
typedef struct job {
    const dt_call *call;
    const dt_args *a;
    dt_dtype type;
    bool causal, naive;
    int64_t n, pos[2], in[2], hidden;
    float *rows[2], *part[2], *y, *dy, *dprob, *dpart[2], *dscore, *work;
} job;

/* --- scratch --- */

static void at_least(size_t *most, int64_t m, int64_t n)
{
    const size_t bytes = dti_product_bytes(m, n);
    *most = bytes > *most ? bytes : *most;
}

static size_t product_bytes(const job *j, bool back)
{
    size_t most = 0;
    for (int i = 0; i < 2; i++) {
        at_least(&most, j->n * j->pos[i], j->hidden);
        if (back) {
            at_least(&most, j->hidden, j->in[i]);
            at_least(&most, j->n * j->pos[i], j->in[i]);
        }
    }
    at_least(&most, j->pos[QUERY], back ? j->pos[KEY] : j->in[KEY]);
    if (back)
        at_least(&most, j->pos[KEY], j->in[KEY]);
    return most;
}

/* Gives every part its space; returns the bytes of all. */
static size_t lay_out(job *j)
{
    const bool back = j->call->form == DT_BACKWARD;
    int64_t at = 0;
    for (int i = 0; i < 2; i++) {
        j->rows[i] = dti_scratch_take(j->a, &at, j->n * j->pos[i] * j->in[i]);
        if (!back || !j->naive)
            j->part[i] = dti_scratch_take(j->a, &at, j->n * j->pos[i] * j->hidden);
        if (back)
            j->dpart[i] = dti_scratch_take(j->a, &at, j->n * j->pos[i] * j->hidden);
    }
    j->y = dti_scratch_take(j->a, &at, j->n * j->pos[QUERY] * j->in[KEY]);
    j->dprob = dti_scratch_take(j->a, &at, j->n * j->pos[QUERY] * j->pos[KEY]);
    if (back)
        j->dscore = dti_scratch_take(j->a, &at, j->n * j->hidden);
    j->work = dti_scratch_take(j->a, &at, 0);
    return (size_t)at * sizeof(float) + product_bytes(j, back);
}

static job job_of(const dt_call *c, const dt_args *a)
{
    const dt_additive_attention *o = c->node->opts;
    job j = {.call = c,
        .a = a,
        .type = c->dtype,
        .causal = o->causal,
        .naive = o->kind == DTI_ATTENTION_NAIVE,
        .n = c->n,
        .hidden = o->hidden};
    for (int i = 0; i < 2; i++) {
        const dt_shape x = dt_graph_shape(c->graph, c->node->in[i]);
        j.pos[i] = x.h * x.w;
        j.in[i] = x.c;
    }
    return j;
}

/* --- rows of fp32 --- */

/* Rows of a value to scratch, or back. */
typedef struct copy {
    dt_dtype type;
    void *value;
    float *rows;
    int64_t n, width;
    bool back;
} copy;

DT_CLONES static void copy_task(const void *job_, int64_t i)
{
    const copy *c = job_;
    const dti_span s = dti_span_of(c->n, COPY_ROWS, i);
    const int64_t at = s.begin * c->width, n = (s.end - s.begin) * c->width;
    float *rows = c->rows + at;
    if (c->type != DT_BF16)
        memcpy(c->back ? (float *)c->value + at : rows, c->back ? rows : (float *)c->value + at,
            (size_t)n * sizeof *rows);
    else if (c->back)
        dti_values_write(c->type, c->value, at, rows, n);
    else
        (void)dti_values_read(c->type, c->value, at, rows, n);
}

static void copy_rows(
    const job *j, int port, float *rows, int64_t positions, int64_t width, bool back)
{
    const copy c = {j->type, j->a->port[port], rows, j->n * positions, width, back};
    dti_run_tasks(dti_ceil_div(c.n, COPY_ROWS), copy_task, &c);
}

/* --- products --- */

static const float *weight(const job *j, int param)
{
    return j->a->port[DT_P + param];
}

/* W h_i and U q_j. */
static void project(const job *j)
{
    for (int i = 0; i < 2; i++) {
        copy_rows(j, DT_X + i, j->rows[i], j->pos[i], j->in[i], false);
        if (j->part[i] != NULL)
            dti_product_run(&(dti_product_opts){.m = j->n * j->pos[i],
                .n = j->hidden,
                .k = j->in[i],
                .a = {j->rows[i], j->in[i], 1},
                .b = {weight(j, i), 1, j->in[i]},
                .c = j->part[i],
                .c_row = j->hidden,
                .work = j->work});
    }
}

/* y_j of each sample; p_ij times h_i. */
static void multiply_keys(const job *j, const float *prob)
{
    const int64_t keys = j->pos[KEY], queries = j->pos[QUERY], in = j->in[KEY];
    for (int64_t s = 0; s < j->n; s++)
        dti_product_run(&(dti_product_opts){.m = queries,
            .n = in,
            .k = keys,
            .a = {prob + s * queries * keys, keys, 1},
            .b = {j->rows[KEY] + s * keys * in, in, 1},
            .c = j->y + s * queries * in,
            .c_row = in,
            .work = j->work});
}

/* Gradients of the probabilities: dy_j . h_i. */
static void multiply_dy(const job *j)
{
    const int64_t keys = j->pos[KEY], queries = j->pos[QUERY], in = j->in[KEY];
    for (int64_t s = 0; s < j->n; s++)
        dti_product_run(&(dti_product_opts){.m = queries,
            .n = keys,
            .k = in,
            .a = {j->dy + s * queries * in, in, 1},
            .b = {j->rows[KEY] + s * keys * in, 1, in},
            .c = j->dprob + s * queries * keys,
            .c_row = keys,
            .work = j->work});
}

/* Gradients of the weights; then those of the inputs take the inputs' place. */
static void multiply_parts(const job *j, int i)
{
    dti_product_run(&(dti_product_opts){.m = j->hidden,
        .n = j->in[i],
        .k = j->n * j->pos[i],
        .a = {j->dpart[i], 1, j->hidden},
        .b = {j->rows[i], j->in[i], 1},
        .c = j->a->port[DT_DP + i],
        .c_row = j->in[i],
        .add = j->call->add >> i & 1,
        .work = j->work});
    dti_product_run(&(dti_product_opts){.m = j->n * j->pos[i],
        .n = j->in[i],
        .k = j->hidden,
        .a = {j->dpart[i], j->hidden, 1},
        .b = {weight(j, i), j->in[i], 1},
        .c = j->rows[i],
        .c_row = j->in[i],
        .work = j->work});
}

/* What the keys' gradients get as values, p_ij dy_j, to what they have. */
static void add_values(const job *j, const float *prob)
{
    const int64_t keys = j->pos[KEY], queries = j->pos[QUERY], in = j->in[KEY];
    for (int64_t s = 0; s < j->n; s++)
        dti_product_run(&(dti_product_opts){.m = keys,
            .n = in,
            .k = queries,
            .a = {prob + s * queries * keys, 1, keys},
            .b = {j->dy + s * queries * in, in, 1},
            .add = 1,
            .c = j->rows[KEY] + s * keys * in,
            .c_row = in,
            .work = j->work});
}

/* --- pairs of positions --- */

/* Keys that a query sees. */
static int64_t seen(const job *j, int64_t query)
{
    return j->causal && query + 1 < j->pos[KEY] ? query + 1 : j->pos[KEY];
}

/* v . tanh(key + query); each tanh to @keep, unless that is NULL. */
DT_INLINE float score(const float *key, const float *query, const float *v, float *keep, int64_t n)
{
    float sum[LANES] = {0}, all = 0;
    int64_t at = 0;
    for (; at + LANES <= n; at += LANES) {
        float t[LANES];
#pragma omp simd
        for (int k = 0; k < LANES; k++) {
            t[k] = dti_curve_tanh(key[at + k] + query[at + k]);
            sum[k] += v[at + k] * t[k];
        }
        if (keep != NULL)
            memcpy(keep + at, t, sizeof t);
    }
    for (int64_t k = 0; at + k < n; k++) {
        const float t = dti_curve_tanh(key[at + k] + query[at + k]);
        sum[k] += v[at + k] * t;
        if (keep != NULL)
            keep[at + k] = t;
    }
    for (int k = 0; k < LANES; k++)
        all += sum[k];
    return all;
}

/* Softmax of the first @n scores; what lies behind them becomes 0. */
DT_INLINE void softmax(float *s, int64_t n, int64_t all)
{
    float most = s[0];
    double sum = 0;
    for (int64_t i = 1; i < n; i++)
        most = s[i] > most ? s[i] : most;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        s[i] = dti_curve_exp(s[i] - most);
    for (int64_t i = 0; i < n; i++)
        sum += (double)s[i];
    const float over = (float)(1 / sum);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        s[i] *= over;
    for (int64_t i = n; i < all; i++)
        s[i] = 0;
}

/* Where probabilities go: to the stash, or to scratch where none is wanted. */
static float *prob_of(const job *j)
{
    float *saved = j->a->port[DT_S + DTI_ADDITIVE_PROB];
    return saved != NULL ? saved : j->dprob;
}

static float *tanh_of(const job *j, int64_t sample, int64_t query)
{
    float *saved = j->naive ? j->a->port[DT_S + DTI_ADDITIVE_TANH] : NULL;
    if (saved == NULL)
        return NULL;
    return saved + (sample * j->pos[QUERY] + query) * j->pos[KEY] * j->hidden;
}

DT_CLONES static void forward_query(const job *j, int64_t sample, int64_t query)
{
    const int64_t keys = j->pos[KEY], hidden = j->hidden, n = seen(j, query);
    const float *key = j->part[KEY] + sample * keys * hidden;
    const float *q = j->part[QUERY] + (sample * j->pos[QUERY] + query) * hidden;
    float *s = prob_of(j) + (sample * j->pos[QUERY] + query) * keys;
    float *keep = tanh_of(j, sample, query);
    for (int64_t i = 0; i < n; i++)
        s[i] = score(
            key + i * hidden, q, weight(j, SCORE), keep == NULL ? NULL : keep + i * hidden, hidden);
    softmax(s, n, keys);
    if (keep != NULL)
        memset(keep + n * hidden, 0, (size_t)((keys - n) * hidden) * sizeof *keep);
}

static void forward_task(const void *job_, int64_t i)
{
    const job *j = job_;
    const int64_t blocks = dti_ceil_div(j->pos[QUERY], QUERIES);
    const dti_span s = dti_span_of(j->pos[QUERY], QUERIES, i % blocks);
    for (int64_t query = s.begin; query < s.end; query++)
        forward_query(j, i / blocks, query);
}

static void forward(const job *j)
{
    project(j);
    dti_run_tasks(j->n * dti_ceil_div(j->pos[QUERY], QUERIES), forward_task, j);
    multiply_keys(j, prob_of(j));
    copy_rows(j, DT_Y, j->y, j->pos[QUERY], j->in[KEY], true);
}

/* Gradients of the probabilities to those of the scores: p (dp - the sum of p dp). */
DT_INLINE void softmax_back(const float *p, float *dp, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)p[i] * (double)dp[i];
    const float mean = (float)sum;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dp[i] = p[i] * (dp[i] - mean);
}

/* One pair, by its score's gradient. What dkey and dquery get is still to be multiplied by v. */
DT_INLINE void add_pair(
    float ds, const float *t, float *dkey, float *dquery, float *dscore, int64_t n)
{
#pragma omp simd
    for (int64_t k = 0; k < n; k++) {
        const float u = ds * (1 - t[k] * t[k]);
        dkey[k] += u;
        dquery[k] += u;
        dscore[k] += ds * t[k];
    }
}

/* The same, where every tanh is made again. */
DT_INLINE void add_pair_again(float ds, const float *key, const float *query, float *dkey,
    float *dquery, float *dscore, int64_t n)
{
#pragma omp simd
    for (int64_t k = 0; k < n; k++) {
        const float t = dti_curve_tanh(key[k] + query[k]), u = ds * (1 - t * t);
        dkey[k] += u;
        dquery[k] += u;
        dscore[k] += ds * t;
    }
}

DT_CLONES static void backward_query(const job *j, int64_t sample, int64_t query)
{
    const int64_t keys = j->pos[KEY], hidden = j->hidden, n = seen(j, query);
    const int64_t row = sample * j->pos[QUERY] + query;
    const float *p = (const float *)j->a->port[DT_S + DTI_ADDITIVE_PROB] + row * keys;
    const float *keep = tanh_of(j, sample, query);
    float *ds = j->dprob + row * keys, *dkey = j->dpart[KEY] + sample * keys * hidden;
    float *dquery = j->dpart[QUERY] + row * hidden, *dscore = j->dscore + sample * hidden;
    softmax_back(p, ds, n);
    for (int64_t i = 0; i < n; i++)
        if (keep != NULL)
            add_pair(ds[i], keep + i * hidden, dkey + i * hidden, dquery, dscore, hidden);
        else
            add_pair_again(ds[i], j->part[KEY] + (sample * keys + i) * hidden,
                j->part[QUERY] + row * hidden, dkey + i * hidden, dquery, dscore, hidden);
}

DT_CLONES static void multiply_by(float *rows, int64_t n, const float *v, int64_t width)
{
    for (int64_t r = 0; r < n; r++)
#pragma omp simd
        for (int64_t k = 0; k < width; k++)
            rows[r * width + k] *= v[k];
}

static void backward_task(const void *job_, int64_t sample)
{
    const job *j = job_;
    memset(j->dscore + sample * j->hidden, 0, (size_t)j->hidden * sizeof(float));
    for (int i = 0; i < 2; i++)
        memset(j->dpart[i] + sample * j->pos[i] * j->hidden, 0,
            (size_t)(j->pos[i] * j->hidden) * sizeof(float));
    for (int64_t query = 0; query < j->pos[QUERY]; query++)
        backward_query(j, sample, query);
    for (int i = 0; i < 2; i++)
        multiply_by(
            j->dpart[i] + sample * j->pos[i] * j->hidden, j->pos[i], weight(j, SCORE), j->hidden);
}

/* score_weight's gradient: over samples in order. */
static void give_scores(const job *j)
{
    float *to = j->a->port[DT_DP + SCORE];
    const bool add = (j->call->add >> SCORE & 1) != 0;
    for (int64_t k = 0; k < j->hidden; k++) {
        double sum = 0;
        for (int64_t s = 0; s < j->n; s++)
            sum += (double)j->dscore[s * j->hidden + k];
        to[k] = add ? to[k] + (float)sum : (float)sum;
    }
}

static void backward(const job *j)
{
    const float *prob = j->a->port[DT_S + DTI_ADDITIVE_PROB];
    project(j);
    copy_rows(j, DT_DY, j->dy, j->pos[QUERY], j->in[KEY], false);
    multiply_dy(j);
    dti_run_tasks(j->n, backward_task, j);
    give_scores(j);
    for (int i = 0; i < 2; i++) {
        multiply_parts(j, i);
        if (i == KEY)
            add_values(j, prob);
        if (j->a->port[DT_DX + i] != NULL)
            copy_rows(j, DT_DX + i, j->rows[i], j->pos[i], j->in[i], true);
    }
}

/* --- ops --- */

static dt_status facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    job j = job_of(c, NULL);
    f->work_bytes = lay_out(&j);
    f->adds = true;
    return DT_OK;
}

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    job j = job_of(c, a);
    DT_ASSERT(a->n == c->n);
    (void)lay_out(&j);
    j.dy = j.y; /* in the same place */
    if (c->form == DT_BACKWARD)
        backward(&j);
    else
        forward(&j);
    return DT_OK;
}

const dt_kernels dt_additive_attention_cpu = {.facts = facts, .run = run};
