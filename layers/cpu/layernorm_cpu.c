/* Layer normalisation on the processor, and root mean square normalisation, which is it with a mean
 * and a bias of zero. */
#include "layers/norm/layernorm.h"

#include <math.h>
#include <string.h>

#include "layers/cpu/cpu.h"
#include "layers/cpu/values.h"
#include "layers/norm/rmsnorm.h"

/* Forward's tasks are a few positions each. Backward's are parts of all positions, cut by their
 * number alone; each keeps sums of its own for the gradients of the parameters, which are added up
 * in the order of parts. */
enum { ROWS = 16, MOST_PARTS = 32, CHUNK = 512, LANES = 16, CHANNELS = 256 };

struct job {
    const dt_call *call;
    const dt_args *a;
    dt_dtype type;
    int64_t rows, channels, part_rows, parts;
    double eps;
    bool rms;
    float *mean, *istd; /* of each row; mean: NULL of rms, both where forward leaves none */
};

static const float zeros[CHUNK];

/* @a: NULL for facts alone. */
static struct job job_of(const dt_call *c, const dt_args *a, double eps, bool rms)
{
    const dt_shape x = dti_call_x(c);
    struct job j = {.call = c, .a = a, .type = c->dtype, .channels = x.c, .eps = eps, .rms = rms};
    if (a != NULL) {
        j.mean = rms ? NULL : a->port[DT_S];
        j.istd = a->port[rms ? DT_S : DT_S + 1];
    }
    j.rows = c->n * x.h * x.w;
    j.part_rows = dti_ceil_div(j.rows, MOST_PARTS);
    j.part_rows = j.part_rows < ROWS ? ROWS : j.part_rows;
    j.parts = dti_ceil_div(j.rows, j.part_rows);
    return j;
}

static int64_t chunk_at(const struct job *j, int64_t c)
{
    return j->channels - c < CHUNK ? j->channels - c : CHUNK;
}

/* Sums in lanes of a fixed number, so that the bits are the same for every width of vectors. */
typedef struct lanes {
    float v[LANES];
} lanes;

static double total(const lanes *s)
{
    double sum = 0;
    for (int k = 0; k < LANES; k++)
        sum += (double)s->v[k];
    return sum;
}

DT_INLINE void add_values(lanes *s, const float *x, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
#pragma omp simd
        for (int k = 0; k < LANES; k++)
            s->v[k] += x[i + k];
    for (int k = 0; i < n; i++, k++)
        s->v[k] += x[i];
}

DT_INLINE void add_squares(lanes *s, const float *x, float mean, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
#pragma omp simd
        for (int k = 0; k < LANES; k++)
            s->v[k] += (x[i + k] - mean) * (x[i + k] - mean);
    for (int k = 0; i < n; i++, k++)
        s->v[k] += (x[i] - mean) * (x[i] - mean);
}

DT_INLINE void statistics(const struct job *j, int64_t at, float *mean, float *istd)
{
    float buffer[CHUNK];
    lanes sum = {{0}}, squares = {{0}};
    for (int64_t c = 0; c < j->channels && !j->rms; c += CHUNK) {
        const int64_t n = chunk_at(j, c);
        add_values(&sum, dti_values_read(j->type, j->a->port[DT_X], at + c, buffer, n), n);
    }
    *mean = (float)(total(&sum) / (double)j->channels);
    for (int64_t c = 0; c < j->channels; c += CHUNK) {
        const int64_t n = chunk_at(j, c);
        add_squares(
            &squares, dti_values_read(j->type, j->a->port[DT_X], at + c, buffer, n), *mean, n);
    }
    *istd = (float)(1 / sqrt(total(&squares) / (double)j->channels + j->eps));
}

/* y may be x. */
DT_CLONES static void normalise(const struct job *j, int64_t row)
{
    const float *weight = j->a->port[DT_P], *biases = j->rms ? NULL : j->a->port[DT_P + 1];
    const int64_t at = row * j->channels;
    float mean, istd, buffer[2][CHUNK];
    statistics(j, at, &mean, &istd);
    for (int64_t c = 0; c < j->channels; c += CHUNK) {
        const int64_t n = chunk_at(j, c);
        const float *x = dti_values_read(j->type, j->a->port[DT_X], at + c, buffer[0], n);
        const float *bias = biases != NULL ? biases + c : zeros;
        float *y = dti_values_target(j->type, j->a->port[DT_Y], at + c, buffer[1]);
#pragma omp simd
        for (int64_t k = 0; k < n; k++)
            y[k] = (x[k] - mean) * istd * weight[c + k] + bias[k];
        dti_values_write(j->type, j->a->port[DT_Y], at + c, y, n);
    }
    if (j->mean != NULL)
        j->mean[row] = mean;
    if (j->istd != NULL)
        j->istd[row] = istd;
}

static void forward_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span s = dti_span_of(j->rows, ROWS, i);
    for (int64_t r = s.begin; r < s.end; r++)
        normalise(j, r);
}

/* Of a row: the sum of g = weight dy, and of g times x normalised. */
DT_INLINE void add_gradients(const float *x, const float *dy, const float *weight, float mean,
    float istd, int64_t n, lanes *sum, lanes *products)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
#pragma omp simd
        for (int k = 0; k < LANES; k++) {
            const float g = weight[i + k] * dy[i + k];
            sum->v[k] += g;
            products->v[k] += g * ((x[i + k] - mean) * istd);
        }
    for (int k = 0; i < n; i++, k++) {
        const float g = weight[i] * dy[i];
        sum->v[k] += g;
        products->v[k] += g * ((x[i] - mean) * istd);
    }
}

/* dx = istd (g - shift - slope xn), where xn is x normalised; dx may be dy. The products of dy and
 * xn, and dy, are added to the part's sums. */
DT_CLONES static void differentiate(const struct job *j, int64_t row, float *dweight, float *dbias)
{
    const float *weight = j->a->port[DT_P];
    const float mean = j->rms ? 0 : j->mean[row], istd = j->istd[row];
    const int64_t at = row * j->channels;
    float buffer[3][CHUNK];
    lanes sum = {{0}}, products = {{0}};
    for (int64_t c = 0; c < j->channels; c += CHUNK) {
        const int64_t n = chunk_at(j, c);
        const float *x = dti_values_read(j->type, j->a->port[DT_X], at + c, buffer[0], n);
        const float *dy = dti_values_read(j->type, j->a->port[DT_DY], at + c, buffer[1], n);
        add_gradients(x, dy, weight + c, mean, istd, n, &sum, &products);
    }
    const float shift = j->rms ? 0 : (float)(total(&sum) / (double)j->channels);
    const float slope = (float)(total(&products) / (double)j->channels);
    for (int64_t c = 0; c < j->channels; c += CHUNK) {
        const int64_t n = chunk_at(j, c);
        const float *x = dti_values_read(j->type, j->a->port[DT_X], at + c, buffer[0], n);
        const float *dy = dti_values_read(j->type, j->a->port[DT_DY], at + c, buffer[1], n);
#pragma omp simd
        for (int64_t k = 0; k < n; k++) {
            dweight[c + k] += dy[k] * ((x[k] - mean) * istd);
            dbias[c + k] += dy[k];
        }
        if (j->a->port[DT_DX] == NULL)
            continue;
        float *dx = dti_values_target(j->type, j->a->port[DT_DX], at + c, buffer[2]);
#pragma omp simd
        for (int64_t k = 0; k < n; k++)
            dx[k] = istd * (weight[c + k] * dy[k] - shift - (x[k] - mean) * istd * slope);
        dti_values_write(j->type, j->a->port[DT_DX], at + c, dx, n);
    }
}

static float *part_of(const struct job *j, int64_t i)
{
    return (float *)j->a->port[DT_WORK] + i * 2 * j->channels;
}

static void backward_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span s = dti_span_of(j->rows, j->part_rows, i);
    float *dweight = part_of(j, i), *dbias = dweight + j->channels;
    memset(dweight, 0, 2 * (size_t)j->channels * sizeof *dweight);
    for (int64_t r = s.begin; r < s.end; r++)
        differentiate(j, r, dweight, dbias);
}

static void sums_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span s = dti_span_of(j->channels, CHANNELS, i);
    for (int64_t c = s.begin; c < s.end; c++) {
        double dweight = 0, dbias = 0;
        for (int64_t p = 0; p < j->parts; p++) {
            dweight += (double)part_of(j, p)[c];
            dbias += (double)part_of(j, p)[j->channels + c];
        }
        dti_gradient_give(j->call, j->a, 0, c, (float)dweight);
        if (!j->rms)
            dti_gradient_give(j->call, j->a, 1, c, (float)dbias);
    }
}

static dt_status facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    const struct job j = job_of(c, NULL, 0, false);
    f->adds = true;
    f->work_bytes = c->form == DT_BACKWARD ? (size_t)(2 * j.parts * j.channels) * sizeof(float) : 0;
    return DT_OK;
}

static void run(const struct job *j)
{
    if (j->call->form != DT_BACKWARD) {
        dti_run_tasks(dti_ceil_div(j->rows, ROWS), forward_task, j);
        return;
    }
    dti_run_tasks(j->parts, backward_task, j);
    dti_run_tasks(dti_ceil_div(j->channels, CHANNELS), sums_task, j);
}

static dt_status run_layernorm(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const struct job j = job_of(c, a, ((const dt_layernorm *)c->node->opts)->eps, false);
    run(&j);
    return DT_OK;
}

static dt_status run_rmsnorm(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const struct job j = job_of(c, a, ((const dti_rmsnorm *)c->node->opts)->eps, true);
    run(&j);
    return DT_OK;
}

const dt_kernels dt_layernorm_cpu = {.facts = facts, .run = run_layernorm};
const dt_kernels dt_rmsnorm_cpu = {.facts = facts, .run = run_rmsnorm};
