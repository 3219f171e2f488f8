/* Embedding and positions on the processor. */
#include "layers/embedding.h"

#include <inttypes.h>
#include <string.h>

#include "layers/cpu/cpu.h"
#include "layers/cpu/values.h"

/* Embedding and position. Token ids are always fp32: they are the network's input. */

enum { ROWS = 64, TILE = 64 }; /* positions of a forward task; channels of a backward one */

struct job {
    const dt_args *a;
    dt_dtype type;
    int64_t rows, vocab, channels; /* positions of all samples; rows of the weight; of a row */
};

static int64_t token(const struct job *j, int64_t row)
{
    return (int64_t)((const float *)j->a->port[DT_X])[row];
}

/* An id must be a whole number that names a row of the weight; a NaN is none. */
static dt_status check_tokens(const struct job *j, int64_t positions, dt_err *err)
{
    const float *x = j->a->port[DT_X];
    for (int64_t i = 0; i < j->rows; i++)
        if (!(x[i] >= 0 && x[i] < (float)j->vocab) || x[i] != (float)(int64_t)x[i])
            return DT_FAIL(err, DT_E_DATA,
                "sample %" PRId64 " of the step has token %g at position %" PRId64
                ", but tokens are whole numbers from 0 to %" PRId64,
                j->a->sample0 + i / positions, (double)x[i], i % positions, j->vocab - 1);
    return DT_OK;
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
    const dt_span s = dt_span_of(j->rows, ROWS, i);
    for (int64_t r = s.begin; r < s.end; r++)
        copy_row(j, r, (const float *)j->a->port[DT_P] + token(j, r) * j->channels);
}

DT_INLINE void add_row(const struct job *j, int64_t row, dt_span c, float *to)
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
DT_CLONES static void add_tokens(const struct job *j, dt_span c)
{
    float *dweight = (float *)j->a->port[DT_DP] + c.begin;
    for (int64_t v = 0; v < j->vocab; v++)
        memset(dweight + v * j->channels, 0, (size_t)(c.end - c.begin) * sizeof *dweight);
    for (int64_t r = 0; r < j->rows; r++)
        add_row(j, r, c, dweight + token(j, r) * j->channels);
}

static void gradient_task(const void *job, int64_t i)
{
    const struct job *j = job;
    add_tokens(j, dt_span_of(j->channels, TILE, i));
}

static dt_status embedding_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const dt_shape x = dti_call_x(c);
    const dt_embedding *o = c->node->opts;
    const struct job j = {a, c->dtype, a->n * x.h * x.w, o->vocab, o->out};
    if (c->form == DT_BACKWARD) {
        dti_run_tasks(dt_ceil_div(j.channels, TILE), gradient_task, &j);
        return DT_OK;
    }
    DT_CHECK(check_tokens(&j, x.h * x.w, err));
    dti_run_tasks(dt_ceil_div(j.rows, ROWS), embed_task, &j);
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
    const dt_span s = dt_span_of(j->rows, ROWS, i);
    const float *weight = j->a->port[DT_P];
    for (int64_t r = s.begin; r < s.end; r++)
        add_weight(j, r * j->channels, weight + r % j->vocab * j->channels, j->channels);
}

/* The gradient of one position: over samples in order. */
DT_CLONES static void add_samples(const struct job *j, int64_t position)
{
    float *dweight = (float *)j->a->port[DT_DP] + position * j->channels;
    memset(dweight, 0, (size_t)j->channels * sizeof *dweight);
    for (int64_t r = position; r < j->rows; r += j->vocab)
        for (int64_t c = 0; c < j->channels; c += TILE)
            add_row(j, r, dt_span_of(j->channels, TILE, c / TILE), dweight + c);
}

static void position_gradient_task(const void *job, int64_t i)
{
    add_samples(job, i);
}

static dt_status position_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const dt_shape x = dti_call_x(c);
    const struct job j = {a, c->dtype, a->n * x.h * x.w, x.h * x.w, x.c};
    if (c->form == DT_BACKWARD)
        dti_run_tasks(j.vocab, position_gradient_task, &j);
    else
        dti_run_tasks(dt_ceil_div(j.rows, ROWS), position_task, &j);
    return DT_OK;
}

const dt_kernels dt_embedding_cpu = {.run = embedding_run};
const dt_kernels dt_position_cpu = {.run = position_run};
