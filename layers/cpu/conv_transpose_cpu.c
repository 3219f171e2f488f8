/* Transposed convolutions on the processor: the library's convolution from y to x, run backwards.
 * Forward is its backward-data, backward-data its forward, and the gradient of the weight is its
 * own, with x and dy in each other's place. The bias is added, and its gradient summed, here; in
 * bf16 y is rounded before and after it. */
#include "layers/weighted/conv_transpose.h"

#include <string.h>

#include "layers/cpu/cpu.h"
#include "layers/cpu/values.h"
#include "layers/cpu/weighted.h"

/* Pixels of a task, so many at least; channels at a time; parts of all pixels that are summed. */
enum { ROWS = 64, TILE = 256, MOST_PARTS = 32 };

static dt_dnnl_problem problem(const dt_call *c)
{
    const dt_conv_transpose *o = c->node->opts;
    const dt_shape x = dti_call_x(c), y = c->node->info.y;
    return (dt_dnnl_problem){.bf16 = c->dtype == DT_BF16, DTI_CONV_TRANSPOSE_SHAPE(o, x, y)};
}

DTI_WEIGHTED_LIBRARY(problem);

/* The convolution's op that is this one. */
static dt_call convolution_of(const dt_call *c)
{
    static const dt_form_kind forms[DT_FORMS] = {[DT_FORWARD] = DT_BACKWARD2,
        [DT_RECOMPUTE] = DT_BACKWARD2,
        [DT_EVAL] = DT_BACKWARD2,
        [DT_BACKWARD] = DT_BACKWARD,
        [DT_BACKWARD2] = DT_FORWARD,
        [DT_DERIVE_F] = DT_DERIVE_B,
        [DT_DERIVE_B] = DT_DERIVE_F,
        [DT_RESTORE] = DT_RESTORE,
        [DT_UPDATE] = DT_UPDATE};
    dt_call t = *c;
    t.form = forms[c->form];
    return t;
}

/* What each port of the convolution is of ours. */
static dt_args convolution_args(const dt_args *a)
{
    dt_args t = *a;
    t.port[DT_X] = a->port[DT_DY];
    t.port[DT_DX] = a->port[DT_Y];
    t.port[DT_DY] = a->port[DT_X];
    t.port[DT_Y] = a->port[DT_DX];
    t.port[DT_D] = a->port[DT_D + 1];
    t.port[DT_D + 1] = a->port[DT_D];
    return t;
}

static bool computes_y(const dt_call *c)
{
    return c->form == DT_FORWARD || c->form == DT_RECOMPUTE || c->form == DT_EVAL;
}

static bool has_bias(const dt_call *c)
{
    return c->node->info.n_param > 1;
}

/* --- the bias --- */

struct job {
    dt_dtype type;
    int64_t rows, channels, part_rows, parts;
    void *y; /* or dy */
    const float *bias;
    double *work;
    float *dbias;
};

static struct job job_of(const dt_call *c)
{
    const dt_shape y = c->node->info.y;
    struct job j = {.type = c->dtype, .rows = c->n * y.h * y.w, .channels = y.c};
    j.part_rows = dti_ceil_div(j.rows, MOST_PARTS);
    j.part_rows = j.part_rows < ROWS ? ROWS : j.part_rows;
    j.parts = dti_ceil_div(j.rows, j.part_rows);
    return j;
}

DT_CLONES static void add_bias(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span s = dti_span_of(j->rows, ROWS, i);
    float from[TILE], to[TILE];
    for (int64_t r = s.begin; r < s.end; r++)
        for (int64_t c = 0; c < j->channels; c += TILE) {
            const int64_t n = j->channels - c < TILE ? j->channels - c : TILE;
            const int64_t at = r * j->channels + c;
            const float *v = dti_values_read(j->type, j->y, at, from, n);
            float *y = dti_values_target(j->type, j->y, at, to);
#pragma omp simd
            for (int64_t k = 0; k < n; k++)
                y[k] = v[k] + j->bias[c + k];
            dti_values_write(j->type, j->y, at, y, n);
        }
}

/* Of n channels from c on a block of rows, to the sums: in single precision no more of them are
 * added up, as a sum of many values of one sign would take up none at last. */
DT_CLONES static void add_block(
    const struct job *j, dti_span rows, int64_t c, int64_t n, double *sum)
{
    float block[TILE] = {0}, from[TILE];
    for (int64_t r = rows.begin; r < rows.end; r++) {
        const float *dy = dti_values_read(j->type, j->y, r * j->channels + c, from, n);
#pragma omp simd
        for (int64_t k = 0; k < n; k++)
            block[k] += dy[k];
    }
    for (int64_t k = 0; k < n; k++)
        sum[k] += (double)block[k];
}

/* Sums of a part, which are then added up in the order of parts. */
static void add_rows(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span part = dti_span_of(j->rows, j->part_rows, i);
    double *sum = j->work + i * j->channels;
    memset(sum, 0, (size_t)j->channels * sizeof *sum);
    for (int64_t r = part.begin; r < part.end; r += ROWS)
        for (int64_t c = 0; c < j->channels; c += TILE) {
            const dti_span rows = {r, r + ROWS < part.end ? r + ROWS : part.end};
            add_block(j, rows, c, j->channels - c < TILE ? j->channels - c : TILE, sum + c);
        }
}

static void add_parts(const struct job *j)
{
    for (int64_t c = 0; c < j->channels; c++) {
        double sum = 0;
        for (int64_t p = 0; p < j->parts; p++)
            sum += j->work[p * j->channels + c];
        j->dbias[c] = (float)sum;
    }
}

/* --- ops --- */

static dt_status facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    const dt_call t = convolution_of(c);
    DT_CHECK(library_facts(&t, f, err));
    const struct job j = job_of(c);
    const size_t sums = (size_t)(j.parts * j.channels) * sizeof(double);
    if (c->form == DT_BACKWARD && has_bias(c) && f->work_bytes < sums)
        f->work_bytes = sums; /* after the gradient of the weight, in the same scratch */
    return DT_OK;
}

static dt_status create(const dt_call *c, void **state, dt_err *err)
{
    const dt_call t = convolution_of(c);
    return library_create(&t, state, err);
}

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    const dt_call t = convolution_of(c);
    const bool reorders = c->form == DT_DERIVE_F || c->form == DT_DERIVE_B || c->form == DT_RESTORE;
    const dt_args b = convolution_args(a);
    DT_CHECK(dti_weighted_run(&t, state, &b, err));
    if (!has_bias(c) || reorders)
        return DT_OK;
    struct job j = job_of(c);
    if (computes_y(c)) {
        j.y = a->port[DT_Y];
        j.bias = a->port[DT_P + 1];
        dti_run_tasks(dti_ceil_div(j.rows, ROWS), add_bias, &j);
    } else if (c->form == DT_BACKWARD) {
        j.y = a->port[DT_DY];
        j.work = a->port[DT_WORK];
        j.dbias = a->port[DT_DP + 1];
        dti_run_tasks(j.parts, add_rows, &j);
        add_parts(&j);
    }
    return DT_OK;
}

const dt_kernels dt_conv_transpose_cpu = {
    .facts = facts,
    .create = create,
    .destroy = dti_weighted_destroy,
    .run = run,
    .param_bytes = library_bytes,
    .param_put = library_put,
    .param_get = library_get,
    .param_rows = library_rows,
};
