/* Embedding and positions on the processor. */
#include "layers/sequence/embedding.h"

#include <string.h>

#include "engine/sample_check.h"
#include "layers/cpu/cpu.h"
#include "layers/cpu/values.h"

/* Embedding and position. Token ids are always fp32: they are the network's input. */

enum { ROWS = 64, TILE = 64 }; /* positions of a forward task; channels of a backward one */

struct job {
    const dt_args *a;
    dt_dtype type;
    int64_t rows, vocab, channels; /* positions of all samples; tokens; channels of each */
    int64_t first, weights;        /* tokens that the weight has rows of */
    bool add;                      /* the gradient, to what is there */
};

/* The row of the weight; -1: it has none of this token. */
static int64_t token(const struct job *j, int64_t row)
{
    const int64_t i = (int64_t)((const float *)j->a->port[DT_X])[row] - j->first;
    return i >= 0 && i < j->weights ? i : -1;
}

DT_CLONES static void copy_row(const struct job *j, int64_t row, const float *weight)
{
    if (j->type == DT_BF16)
        dti_values_write(j->type, j->a->port[DT_Y], row * j->channels, weight, j->channels);
    else
        memcpy((float *)j->a->port[DT_Y] + row * j->channels, weight,
            (size_t)j->channels * sizeof *weight);
}

static void embed_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span s = dti_span_of(j->rows, ROWS, i);
    const size_t bytes = (size_t)j->channels * dt_dtype_bytes(j->type);
    for (int64_t r = s.begin; r < s.end; r++) {
        const int64_t t = token(j, r);
        if (t < 0)
            memset((char *)j->a->port[DT_Y] + (size_t)r * bytes, 0, bytes);
        else
            copy_row(j, r, (const float *)j->a->port[DT_P] + t * j->channels);
    }
}

/* Whole sums to where they belong. */
DT_INLINE void give(const struct job *j, const float *sum, int64_t n, float *to)
{
#pragma omp simd
    for (int64_t k = 0; k < n; k++)
        to[k] = j->add ? to[k] + sum[k] : sum[k];
}

DT_INLINE void add_row(const struct job *j, int64_t row, dti_span c, float *to)
{
    float buffer[TILE];
    const int64_t n = c.end - c.begin;
    const float *dy =
        dti_values_read(j->type, j->a->port[DT_DY], row * j->channels + c.begin, buffer, n);
#pragma omp simd
    for (int64_t k = 0; k < n; k++)
        to[k] += dy[k];
}

/* Each task adds up its own channels, over positions in order: the same bits on any team. */
DT_CLONES static void add_tokens(const struct job *j, dti_span c)
{
    float *dweight = (float *)j->a->port[DT_DP] + c.begin;
    for (int64_t v = 0; v < j->weights; v++)
        memset(dweight + v * j->channels, 0, (size_t)(c.end - c.begin) * sizeof *dweight);
    for (int64_t r = 0; r < j->rows; r++)
        if (token(j, r) >= 0)
            add_row(j, r, c, dweight + token(j, r) * j->channels);
}

/* To add to a gradient, a row's sum must be whole before. So positions are linked by their token:
 * in scratch, by row of the weight the first of its positions, by position the next; -1: none. */
static size_t links_bytes(const struct job *j)
{
    return (size_t)(j->weights + j->rows) * sizeof(int32_t);
}

static void link_positions(const struct job *j)
{
    int32_t *first = j->a->port[DT_WORK], *next = first + j->weights;
    for (int64_t v = 0; v < j->weights; v++)
        first[v] = -1;
    for (int64_t r = j->rows; r-- > 0;) {
        const int64_t t = token(j, r);
        if (t < 0)
            continue;
        next[r] = first[t];
        first[t] = (int32_t)r;
    }
}

/* Of all rows of the weight, as those of no position are added to as well: 0 to -0 gives 0. */
DT_CLONES static void add_linked(const struct job *j, int64_t row)
{
    const int32_t *first = j->a->port[DT_WORK], *next = first + j->weights;
    for (int64_t c = 0; c < j->channels; c += TILE) {
        const dti_span s = dti_span_of(j->channels, TILE, c / TILE);
        float sum[TILE] = {0};
        for (int64_t r = first[row]; r >= 0; r = next[r])
            add_row(j, r, s, sum);
        give(j, sum, s.end - s.begin, (float *)j->a->port[DT_DP] + row * j->channels + c);
    }
}

static void linked_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span s = dti_span_of(j->weights, ROWS, i);
    for (int64_t v = s.begin; v < s.end; v++)
        add_linked(j, v);
}

static void gradient_task(const void *job, int64_t i)
{
    const struct job *j = job;
    add_tokens(j, dti_span_of(j->channels, TILE, i));
}

static struct job embedding_job(const dt_call *c, const dt_args *a, int64_t n)
{
    const dt_shape x = dti_call_x(c);
    const dt_embedding *o = c->node->opts;
    return (struct job){.a = a,
        .type = c->dtype,
        .rows = n * x.h * x.w,
        .vocab = o->vocab,
        .channels = o->out,
        .first = o->first,
        .weights = dti_embedding_rows(o),
        .add = c->add != 0};
}

/* Positions are counted in 32 bits. */
static dt_status embedding_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    const struct job j = embedding_job(c, NULL, c->n);
    f->adds = j.rows <= INT32_MAX;
    f->work_bytes = f->adds && j.add ? links_bytes(&j) : 0;
    return DT_OK;
}

static dt_status embedding_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const dt_shape x = dti_call_x(c);
    const struct job j = embedding_job(c, a, a->n);
    if (c->form == DT_BACKWARD && j.add) {
        link_positions(&j);
        dti_run_tasks(dti_ceil_div(j.weights, ROWS), linked_task, &j);
        return DT_OK;
    }
    if (c->form == DT_BACKWARD) {
        dti_run_tasks(dti_ceil_div(j.channels, TILE), gradient_task, &j);
        return DT_OK;
    }
    DT_CHECK(dt_check_tokens(a->port[DT_X], j.rows, x.h * x.w, j.vocab, a->sample0, err));
    dti_run_tasks(dti_ceil_div(j.rows, ROWS), embed_task, &j);
    return DT_OK;
}

/* One sample: @vocab positions. y may be x. */
DT_CLONES static void add_weight(const struct job *j, int64_t at, const float *weight, int64_t n)
{
    float buffer[2][TILE];
    for (int64_t i = 0; i < n; i += TILE) {
        const int64_t m = n - i < TILE ? n - i : TILE;
        const float *x = dti_values_read(j->type, j->a->port[DT_X], at + i, buffer[0], m);
        float *y = dti_values_target(j->type, j->a->port[DT_Y], at + i, buffer[1]);
#pragma omp simd
        for (int64_t k = 0; k < m; k++)
            y[k] = x[k] + weight[i + k];
        dti_values_write(j->type, j->a->port[DT_Y], at + i, y, m);
    }
}

static void position_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span s = dti_span_of(j->rows, ROWS, i);
    const float *weight = j->a->port[DT_P];
    for (int64_t r = s.begin; r < s.end; r++)
        add_weight(j, r * j->channels, weight + r % j->vocab * j->channels, j->channels);
}

/* The gradient of one position: over samples in order. */
DT_CLONES static void add_samples(const struct job *j, int64_t position)
{
    float *dweight = (float *)j->a->port[DT_DP] + position * j->channels;
    for (int64_t c = 0; c < j->channels; c += TILE) {
        const dti_span s = dti_span_of(j->channels, TILE, c / TILE);
        float sum[TILE] = {0};
        for (int64_t r = position; r < j->rows; r += j->vocab)
            add_row(j, r, s, sum);
        give(j, sum, s.end - s.begin, dweight + c);
    }
}

static dt_status position_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)c, (void)err;
    f->adds = true;
    return DT_OK;
}

static void position_gradient_task(const void *job, int64_t i)
{
    add_samples(job, i);
}

static dt_status position_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const dt_shape x = dti_call_x(c);
    const struct job j = {.a = a,
        .type = c->dtype,
        .rows = a->n * x.h * x.w,
        .vocab = x.h * x.w,
        .channels = x.c,
        .add = c->add != 0};
    if (c->form == DT_BACKWARD)
        dti_run_tasks(j.vocab, position_gradient_task, &j);
    else
        dti_run_tasks(dti_ceil_div(j.rows, ROWS), position_task, &j);
    return DT_OK;
}

const dt_kernels dt_embedding_cpu = {.facts = embedding_facts, .run = embedding_run};
const dt_kernels dt_position_cpu = {.facts = position_facts, .run = position_run};
