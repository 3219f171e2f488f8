/* Batch normalisation on the processor, with the ReLU behind it or without. */
#include "layers/norm/batchnorm.h"

#include <math.h>

#include "layers/cpu/batchnorm_rows.h"
#include "layers/cpu/cpu.h"
#include "layers/cpu/lanes.h"
#include "layers/cpu/mask.h"

/* A value is rows of channels. Rows are cut into parts by size alone; each part leaves two sums a
 * channel in scratch, in double precision, and these are combined in the order of parts. Inside a
 * part, blocks of rows are added up in single precision. */
enum {
    TILE = DTI_TILE,
    BLOCK_ROWS = 64,       /* more would cost accuracy */
    PART_SIZE = 128 << 10, /* elements, at least, before there is a second part */
    MOST_PARTS = 32,
    VISIT = 1 << 10, /* bytes of rows that are added up together: so near that one stream of the
                        processor's fetches them */
    FINISH = 64,     /* channels of a task that combines the parts */
    LEAST_ROWS = 32  /* of a piece of elementwise work: finding its factors costs a row or two */
};

struct job {
    const dt_args *a;
    const dt_batchnorm *o;
    const dti_batchnorm_rows *on;
    dt_dtype t;
    int64_t rows, channels;
    int64_t part_rows, parts;
    int64_t piece_rows; /* of elementwise work */
    int64_t visit_rows;
    const float *mean, *istd;
    const float *var; /* evaluation: istd is made from it */
};

static int64_t clamp(int64_t x, int64_t least, int64_t most)
{
    return x < least ? least : x > most ? most : x;
}

static struct job job_of(const dt_call *c, int64_t n)
{
    const dt_shape x = dti_call_x(c);
    struct job j = {.o = c->node->opts, .t = c->dtype, .rows = n * x.h * x.w, .channels = x.c};
    j.part_rows = dti_ceil_div(j.rows, clamp(j.rows * j.channels / PART_SIZE, 1, MOST_PARTS));
    j.parts = dti_ceil_div(j.rows, j.part_rows);
    j.piece_rows = clamp(DTI_GRAIN / j.channels, LEAST_ROWS, DTI_GRAIN);
    const int64_t visit = VISIT / (j.channels * (int64_t)dt_dtype_bytes(j.t)) / 4 * 4;
    j.visit_rows = clamp(visit, 4, BLOCK_ROWS);
    return j;
}

/* The two sums of part i. */
static double *part_of(const struct job *j, int64_t i)
{
    return (double *)j->a->port[DT_WORK] + 2 * j->channels * i;
}

static const float *port(const struct job *j, int p)
{
    return j->a->port[p];
}

/* Channels [begin, end) of TILE at most. */
static int width(const struct job *j, int64_t c)
{
    return (int)clamp(j->channels - c, 1, TILE);
}

/* n values of x from row r, channel c on. */
static const void *x_at(const struct job *j, int64_t r, int64_t c)
{
    return dti_from(port(j, DT_X), r * j->channels + c, j->t);
}

/* Where distances are taken from: near the mean, so that a large mean costs no accuracy. Behind as
 * many rows again their mean will do: were it far off, then so is the mean of the block, and what
 * rounding loses is small beside the distance of the two. */
static void find_middle(const struct job *j, dti_span rows, int64_t c, int64_t before,
    const double *mean, float *middle)
{
    const int64_t n = rows.end - rows.begin;
    for (int k = 0; k < width(j, c); k++)
        middle[k] = before >= n ? (float)mean[k] : 0;
    if (before >= n)
        return;
    for (int64_t r = rows.begin; r < rows.end; r += j->visit_rows)
        j->on->add_rows(
            x_at(j, r, c), clamp(rows.end - r, 1, j->visit_rows), j->channels, width(j, c), middle);
    for (int k = 0; k < width(j, c); k++)
        middle[k] *= 1.0f / (float)n;
}

/* The mean and the sum of squared distances from it of @before rows and those of a block become one
 * as Chan, Golub and LeVeque do it (1983). */
DT_CLONES static void join_block(int64_t rows, int64_t before, int n, const float *middle,
    const float *sum, const float *squares, double *mean, double *m2)
{
    const double here = (double)rows, all = here + (double)before;
    const double over = 1 / here, toward = here / all, apart = (double)before * here / all;
#pragma omp simd
    for (int c = 0; c < n; c++) {
        const double s = (double)sum[c], delta = (double)middle[c] + s * over - mean[c];
        m2[c] += (double)squares[c] - s * s * over + delta * delta * apart;
        mean[c] += delta * toward;
    }
}

static void statistics_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span rows = dti_span_of(j->rows, j->part_rows, i);
    double *mean = part_of(j, i), *m2 = mean + j->channels;
    float middle[TILE];
    for (int64_t c = 0; c < 2 * j->channels; c++)
        mean[c] = 0;
    for (int64_t b = rows.begin; b < rows.end; b += BLOCK_ROWS)
        for (int64_t c = 0; c < j->channels; c += TILE) {
            const int64_t end = rows.end - b < BLOCK_ROWS ? rows.end : b + BLOCK_ROWS;
            float sum[TILE] = {0}, squares[TILE] = {0};
            find_middle(j, (dti_span){b, end}, c, b - rows.begin, mean + c, middle);
            for (int64_t r = b; r < end; r += j->visit_rows)
                j->on->add_distances(x_at(j, r, c), clamp(end - r, 1, j->visit_rows), j->channels,
                    width(j, c), middle, sum, squares);
            join_block(
                end - b, b - rows.begin, width(j, c), middle, sum, squares, mean + c, m2 + c);
        }
}

static float commit_later(const struct job *j, int which, int64_t c, double now)
{
    const float *base = port(j, (j->a->accumulate ? DT_Q : DT_P) + which);
    return (float)((1 - j->o->momentum) * (double)base[c] + j->o->momentum * now);
}

/* Join the parts, channel by channel. */
DT_CLONES static void join_parts(
    const struct job *j, int64_t first, int n, double *mean, double *m2)
{
    double before = 0;
    for (int64_t p = 0; p < j->parts; p++) {
        const dti_span rows = dti_span_of(j->rows, j->part_rows, p);
        const double here = (double)(rows.end - rows.begin), all = before + here;
        const double toward = here / all, apart = before * here / all;
        const double *part = part_of(j, p) + first, *squares = part + j->channels;
#pragma omp simd
        for (int c = 0; c < n; c++) {
            const double delta = part[c] - mean[c];
            m2[c] += squares[c] + delta * delta * apart;
            mean[c] += delta * toward;
        }
        before = all;
    }
}

/* Statistics of some channels for this op, its backward and the running ones. */
static void finish_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span span = dti_span_of(j->channels, FINISH, i);
    const double n = (double)j->rows;
    double mean[FINISH] = {0}, m2[FINISH] = {0};
    join_parts(j, span.begin, (int)(span.end - span.begin), mean, m2);
    for (int64_t c = span.begin; c < span.end; c++) {
        const double middle = mean[c - span.begin], squares = m2[c - span.begin];
        ((float *)j->a->port[DT_S])[c] = (float)middle;
        ((float *)j->a->port[DT_S + 1])[c] = (float)(1 / sqrt(squares / n + j->o->eps));
        ((float *)j->a->port[DT_Q + 2])[c] = commit_later(j, 2, c, middle);
        ((float *)j->a->port[DT_Q + 3])[c] = commit_later(j, 3, c, squares / (n > 1 ? n - 1 : 1));
    }
}

/* Fills scale for the channels that begin with @c. */
static dti_norm norm_of(const struct job *j, int64_t c, float scale[TILE])
{
    const float *weight = port(j, DT_P);
    for (int k = 0; k < width(j, c); k++) {
        const float istd =
            j->var == NULL ? j->istd[c + k] : (float)(1 / sqrt((double)j->var[c + k] + j->o->eps));
        scale[k] = istd * weight[c + k];
    }
    const float *bias = port(j, DT_P + 1); /* not bound where there is no ReLU to undo */
    return (dti_norm){.mean = j->mean + c, .scale = scale, .bias = bias == NULL ? NULL : bias + c};
}

static void normalise_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span rows = dti_span_of(j->rows, j->piece_rows, i);
    float scale[TILE];
    for (int64_t c = 0; c < j->channels; c += TILE) {
        const dti_norm p = norm_of(j, c, scale);
        const int64_t at = rows.begin * j->channels + c;
        j->on->normalise(x_at(j, rows.begin, c), dti_to(j->a->port[DT_Y], at, j->t),
            rows.end - rows.begin, j->channels, width(j, c), &p);
    }
}

static void sums_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span rows = dti_span_of(j->rows, j->part_rows, i);
    double *dbias = part_of(j, i), *dweight = dbias + j->channels;
    float scale[TILE];
    for (int64_t c = 0; c < 2 * j->channels; c++)
        dbias[c] = 0;
    for (int64_t c = 0; c < j->channels; c += TILE) {
        const dti_norm p = norm_of(j, c, scale);
        for (int64_t b = rows.begin; b < rows.end; b += BLOCK_ROWS) {
            const int64_t end = rows.end - b < BLOCK_ROWS ? rows.end : b + BLOCK_ROWS;
            float sum[TILE] = {0}, products[TILE] = {0};
            for (int64_t r = b; r < end; r += j->visit_rows)
                j->on->add_products(x_at(j, r, c),
                    dti_from(port(j, DT_DY), r * j->channels + c, j->t),
                    clamp(end - r, 1, j->visit_rows), j->channels, width(j, c), &p, sum, products);
            for (int k = 0; k < width(j, c); k++) {
                dbias[c + k] += (double)sum[k];
                dweight[c + k] += (double)products[k];
            }
        }
    }
}

static void gradients_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span span = dti_span_of(j->channels, FINISH, i);
    double dbias[FINISH] = {0}, dweight[FINISH] = {0};
    for (int64_t p = 0; p < j->parts; p++)
        for (int64_t c = span.begin; c < span.end; c++) {
            dbias[c - span.begin] += part_of(j, p)[c];
            dweight[c - span.begin] += part_of(j, p)[j->channels + c];
        }
    for (int64_t c = span.begin; c < span.end; c++) {
        ((float *)j->a->port[DT_DP])[c] = (float)(dweight[c - span.begin] * (double)j->istd[c]);
        ((float *)j->a->port[DT_DP + 1])[c] = (float)dbias[c - span.begin];
    }
}

static void differentiate_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span rows = dti_span_of(j->rows, j->piece_rows, i);
    const float *dweight = port(j, DT_DP), *dbias = port(j, DT_DP + 1);
    const float over = 1.0f / (float)j->rows;
    float scale[TILE], shift[TILE], slope[TILE];
    for (int64_t c = 0; c < j->channels; c += TILE) {
        dti_norm p = norm_of(j, c, scale);
        p.shift = shift;
        p.slope = slope;
        for (int k = 0; k < width(j, c); k++) {
            shift[k] = dbias[c + k] * over;
            slope[k] = dweight[c + k] * j->istd[c + k] * over;
        }
        const int64_t at = rows.begin * j->channels + c;
        j->on->differentiate(x_at(j, rows.begin, c), dti_from(port(j, DT_DY), at, j->t),
            dti_to(j->a->port[DT_DX], at, j->t), rows.end - rows.begin, j->channels, width(j, c),
            &p);
    }
}

static size_t bytes_of_sums(const struct job *j)
{
    return (size_t)(2 * j->parts * j->channels) * sizeof(double);
}

static dt_status facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    const struct job j = job_of(c, c->n);
    const bool sums = c->form == DT_FORWARD || c->form == DT_BACKWARD;
    f->work_bytes = sums ? bytes_of_sums(&j) : 0;
    return DT_OK;
}

/* With a mask that nothing before the layer wants a gradient by, the masked one is scratch. */
static dt_status relu_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    DT_CHECK(facts(c, f, err));
    const struct job j = job_of(c, c->n);
    if (c->form == DT_BACKWARD && c->alt > 0 && !c->needs_dx)
        f->work_bytes += (size_t)(j.rows * j.channels) * dt_dtype_bytes(j.t);
    return DT_OK;
}

static dt_status run(const dt_call *c, const dt_args *a, bool relu)
{
    struct job j = job_of(c, a->n);
    j.a = a;
    j.on = dti_batchnorm_rows_of(dti_lane_set(), relu, c->dtype);
    j.mean = a->port[c->form == DT_EVAL ? DT_P + 2 : DT_S];
    j.istd = a->port[DT_S + 1];
    j.var = c->form == DT_EVAL ? a->port[DT_P + 3] : NULL;
    const int64_t some = dti_ceil_div(j.channels, FINISH);
    const int64_t pieces = dti_ceil_div(j.rows, j.piece_rows);
    if (c->form == DT_BACKWARD) {
        dti_run_tasks(j.parts, sums_task, &j);
        dti_run_tasks(some, gradients_task, &j);
        if (a->port[DT_DX] != NULL)
            dt_team_run_back(pieces, differentiate_task, &j);
        return DT_OK;
    }
    if (c->form == DT_FORWARD) {
        dti_run_tasks(j.parts, statistics_task, &j);
        dti_run_tasks(some, finish_task, &j);
    }
    dt_team_run_back(pieces, normalise_task, &j);
    return DT_OK;
}

static dt_status run_plain(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    return run(c, a, false);
}

/* The ReLU's gradient, which lies where this layer's will, and then this layer's of that. */
static dt_status run_back_masked(const dt_call *c, const dt_args *a)
{
    const struct job j = job_of(c, a->n);
    dt_args of = *a;
    if (of.port[DT_DX] == NULL)
        of.port[DT_DX] = (char *)of.port[DT_WORK] + bytes_of_sums(&j);
    of.port[DT_S] = of.port[DT_S + 2];
    dti_relu_gradient(c, &of);
    of.port[DT_DY] = of.port[DT_DX];
    of.port[DT_DX] = a->port[DT_DX];
    of.port[DT_S] = a->port[DT_S];
    return run(c, &of, false);
}

static dt_status run_relu(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const bool masked = a->port[DT_S + 2] != NULL;
    if (masked && c->form == DT_BACKWARD)
        return run_back_masked(c, a);
    DT_CHECK(run(c, a, true));
    if (masked && c->form == DT_FORWARD) {
        dt_args of = *a;
        of.port[DT_X] = a->port[DT_Y];
        of.port[DT_S] = a->port[DT_S + 2];
        dti_relu_forward(c, &of);
    }
    return DT_OK;
}

const dt_kernels dt_batchnorm_cpu = {.facts = facts, .run = run_plain};
const dt_kernels dt_batchnorm_relu_cpu = {.facts = relu_facts, .run = run_relu};
