/* Group normalisation on the processor. */
#include "layers/groupnorm.h"

#include <math.h>

#include "layers/cpu/cpu.h"
#include "layers/cpu/values.h"

/* Channels at a time; pixels whose values are added in single precision, blocks of them in double;
 * channels of a task that adds up samples. */
enum { TILE = 64, BLOCK = 32, CHANNELS = 256 };

/* A task is a group of a sample. Backward leaves sums over pixels for each channel of each sample
 * in scratch: of dy, then of dy times x normalised. */
struct job {
    const dt_call *call;
    const dt_args *a;
    dt_dtype type;
    int64_t samples, pixels, channels, groups, each; /* each: channels of a group */
    double eps;
};

static struct job job_of(const dt_call *c, const dt_args *a)
{
    const dt_shape x = dti_call_x(c);
    const dti_groupnorm *o = c->node->opts;
    return (struct job){.call = c,
        .a = a,
        .type = c->dtype,
        .samples = a != NULL ? a->n : c->n,
        .pixels = x.h * x.w,
        .channels = x.c,
        .groups = o->groups,
        .each = x.c / o->groups,
        .eps = o->eps};
}

/* Channels [c, c + n) of a sample, TILE of them at most. */
typedef struct tile {
    int64_t sample, c;
    int n;
} tile;

static tile tile_of(const struct job *j, int64_t task, int64_t at)
{
    const int64_t left = j->each - at, group = task % j->groups;
    return (tile){task / j->groups, group * j->each + at, left < TILE ? (int)left : (int)TILE};
}

DT_INLINE int64_t place(const struct job *j, tile t, int64_t p)
{
    return (t.sample * j->pixels + p) * j->channels + t.c;
}

DT_INLINE const float *read(const struct job *j, dt_port port, int64_t at, float *buffer, int n)
{
    return dti_values_read(j->type, j->a->port[port], at, buffer, n);
}

/* The sum over a tile of x - middle or of its square. */
DT_INLINE double tile_sum(const struct job *j, tile t, float middle, bool square)
{
    double sum[TILE] = {0}, all = 0;
    float buffer[TILE];
    for (int64_t first = 0; first < j->pixels; first += BLOCK) {
        float part[TILE] = {0};
        for (int64_t p = first; p < j->pixels && p < first + BLOCK; p++) {
            const float *x = read(j, DT_X, place(j, t, p), buffer, t.n);
#pragma omp simd
            for (int k = 0; k < t.n; k++) {
                const float d = x[k] - middle;
                part[k] += square ? d * d : d;
            }
        }
        for (int k = 0; k < t.n; k++)
            sum[k] += (double)part[k];
    }
    for (int k = 0; k < t.n; k++)
        all += sum[k];
    return all;
}

DT_INLINE double group_mean(const struct job *j, int64_t task, float middle, bool square)
{
    double sum = 0;
    for (int64_t at = 0; at < j->each; at += TILE)
        sum += tile_sum(j, tile_of(j, task, at), middle, square);
    return sum / (double)(j->pixels * j->each);
}

/* y may be x. */
DT_INLINE void normalise(const struct job *j, tile t, float mean, float istd)
{
    const float *weight = (const float *)j->a->port[DT_P] + t.c;
    const float *bias = (const float *)j->a->port[DT_P + 1] + t.c;
    float buffer[2][TILE];
    for (int64_t p = 0; p < j->pixels; p++) {
        const int64_t at = place(j, t, p);
        const float *x = read(j, DT_X, at, buffer[0], t.n);
        float *y = dti_values_target(j->type, j->a->port[DT_Y], at, buffer[1]);
#pragma omp simd
        for (int k = 0; k < t.n; k++)
            y[k] = (x[k] - mean) * istd * weight[k] + bias[k];
        dti_values_write(j->type, j->a->port[DT_Y], at, y, t.n);
    }
}

DT_CLONES static void forward_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const float mean = (float)group_mean(j, i, 0, false);
    const float istd = (float)(1 / sqrt(group_mean(j, i, mean, true) + j->eps));
    for (int64_t at = 0; at < j->each; at += TILE)
        normalise(j, tile_of(j, i, at), mean, istd);
    if (j->a->port[DT_S] != NULL)
        ((float *)j->a->port[DT_S])[i] = mean;
    if (j->a->port[DT_S + 1] != NULL)
        ((float *)j->a->port[DT_S + 1])[i] = istd;
}

/* A sample's sums of dy, of its channels from @c on; those of dy times x normalised follow when all
 * samples have theirs. */
static double *sums_of(const struct job *j, int64_t sample, int64_t c)
{
    return (double *)j->a->port[DT_WORK] + sample * j->channels + c;
}

static int64_t products_behind(const struct job *j)
{
    return j->samples * j->channels;
}

DT_INLINE void add_pixels(const struct job *j, tile t, float mean, float istd)
{
    double *sum = sums_of(j, t.sample, t.c), *product = sum + products_behind(j);
    float buffer[2][TILE];
    for (int k = 0; k < t.n; k++)
        sum[k] = product[k] = 0;
    for (int64_t first = 0; first < j->pixels; first += BLOCK) {
        float part[2][TILE] = {{0}};
        for (int64_t p = first; p < j->pixels && p < first + BLOCK; p++) {
            const int64_t at = place(j, t, p);
            const float *x = read(j, DT_X, at, buffer[0], t.n);
            const float *dy = read(j, DT_DY, at, buffer[1], t.n);
#pragma omp simd
            for (int k = 0; k < t.n; k++) {
                part[0][k] += dy[k];
                part[1][k] += dy[k] * ((x[k] - mean) * istd);
            }
        }
        for (int k = 0; k < t.n; k++) {
            sum[k] += (double)part[0][k];
            product[k] += (double)part[1][k];
        }
    }
}

/* dx = istd (g - shift - slope xn), where g = weight dy, xn is x normalised, and shift and slope
 * are the group's means of g and of g xn; dx may be dy. */
DT_INLINE void differentiate(
    const struct job *j, tile t, float mean, float istd, float shift, float slope)
{
    const float *weight = (const float *)j->a->port[DT_P] + t.c;
    float buffer[3][TILE];
    for (int64_t p = 0; p < j->pixels; p++) {
        const int64_t at = place(j, t, p);
        const float *x = read(j, DT_X, at, buffer[0], t.n);
        const float *dy = read(j, DT_DY, at, buffer[1], t.n);
        float *dx = dti_values_target(j->type, j->a->port[DT_DX], at, buffer[2]);
#pragma omp simd
        for (int k = 0; k < t.n; k++)
            dx[k] = istd * (weight[k] * dy[k] - shift - (x[k] - mean) * istd * slope);
        dti_values_write(j->type, j->a->port[DT_DX], at, dx, t.n);
    }
}

DT_CLONES static void backward_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const float mean = ((const float *)j->a->port[DT_S])[i];
    const float istd = ((const float *)j->a->port[DT_S + 1])[i];
    const float *weight = j->a->port[DT_P];
    const int64_t c = i % j->groups * j->each;
    for (int64_t at = 0; at < j->each; at += TILE)
        add_pixels(j, tile_of(j, i, at), mean, istd);
    if (j->a->port[DT_DX] == NULL)
        return;
    const double *sum = sums_of(j, i / j->groups, c), *product = sum + products_behind(j);
    double shift = 0, slope = 0;
    for (int64_t k = 0; k < j->each; k++) {
        shift += (double)weight[c + k] * sum[k];
        slope += (double)weight[c + k] * product[k];
    }
    const double count = (double)(j->pixels * j->each);
    for (int64_t at = 0; at < j->each; at += TILE)
        differentiate(
            j, tile_of(j, i, at), mean, istd, (float)(shift / count), (float)(slope / count));
}

static void sums_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span s = dti_span_of(j->channels, CHANNELS, i);
    for (int64_t c = s.begin; c < s.end; c++) {
        double dweight = 0, dbias = 0;
        for (int64_t k = 0; k < j->samples; k++) {
            dbias += *sums_of(j, k, c);
            dweight += sums_of(j, k, c)[products_behind(j)];
        }
        dti_gradient_give(j->call, j->a, 0, c, (float)dweight);
        dti_gradient_give(j->call, j->a, 1, c, (float)dbias);
    }
}

static dt_status facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    const struct job j = job_of(c, NULL);
    f->adds = true;
    f->work_bytes =
        c->form == DT_BACKWARD ? (size_t)(2 * j.samples * j.channels) * sizeof(double) : 0;
    return DT_OK;
}

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const struct job j = job_of(c, a);
    if (c->form != DT_BACKWARD) {
        dti_run_tasks(j.samples * j.groups, forward_task, &j);
        return DT_OK;
    }
    dti_run_tasks(j.samples * j.groups, backward_task, &j);
    dti_run_tasks(dti_ceil_div(j.channels, CHANNELS), sums_task, &j);
    return DT_OK;
}

const dt_kernels dt_groupnorm_cpu = {.facts = facts, .run = run};
