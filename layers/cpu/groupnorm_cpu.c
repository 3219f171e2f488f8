/* Group normalisation on the processor. */
#include "layers/norm/groupnorm.h"

#include <math.h>
#include <string.h>

#include "layers/cpu/cpu.h"
#include "layers/cpu/values.h"

/* Channels at a time; pixels whose values are added in single precision, blocks of them in double;
 * channels of a task that adds up samples. */
enum { TILE = 64, BLOCK = 32, CHANNELS = 256 };

/* A task is some groups of a sample. Backward leaves sums over pixels for each channel of each
 * sample in scratch: of dy, then of dy times x normalised. */
struct job {
    const dt_call *call;
    const dt_args *a;
    dt_dtype type;
    int64_t samples, pixels, channels, groups, each; /* each: channels of a group */
    int64_t tasks;                                   /* of a sample */
    double eps;
};

/* Narrow groups are taken together, as many as a tile holds, so that loops over channels are long.
 */
static int64_t at_once(int64_t each)
{
    return each < TILE ? TILE / each : 1;
}

static struct job job_of(const dt_call *c, const dt_args *a)
{
    const dt_shape x = dti_call_x(c);
    const dti_groupnorm *o = c->node->opts;
    const int64_t each = x.c / o->groups;
    return (struct job){.call = c,
        .a = a,
        .type = c->dtype,
        .samples = a != NULL ? a->n : c->n,
        .pixels = x.h * x.w,
        .channels = x.c,
        .groups = o->groups,
        .each = each,
        .tasks = dti_ceil_div(o->groups, at_once(each)),
        .eps = o->eps};
}

/* The groups of a task. */
typedef struct part {
    int64_t sample, group, n;
} part;

static part part_of(const struct job *j, int64_t task)
{
    const int64_t most = at_once(j->each), group = task % j->tasks * most, left = j->groups - group;
    return (part){task / j->tasks, group, left < most ? left : most};
}

/* Channels [c, c + n) of a sample, TILE of them at most. */
typedef struct tile {
    int64_t sample, c;
    int n;
} tile;

static tile tile_of(const struct job *j, part p, int64_t at)
{
    const int64_t left = p.n * j->each - at;
    return (tile){p.sample, p.group * j->each + at, left < TILE ? (int)left : (int)TILE};
}

/* Which of the part's groups channel @k of a tile is of. */
static int64_t group_of(const struct job *j, part p, tile t, int k)
{
    return (t.c + k) / j->each - p.group;
}

/* What each group of the part has, for each channel of a tile. */
static void by_channel(const struct job *j, part p, tile t, const float *group, float channel[TILE])
{
    for (int k = 0; k < t.n; k++)
        channel[k] = group[group_of(j, p, t, k)];
}

DT_INLINE int64_t place(const struct job *j, tile t, int64_t p)
{
    return (t.sample * j->pixels + p) * j->channels + t.c;
}

DT_INLINE const float *read(const struct job *j, dt_port port, int64_t at, float *buffer, int n)
{
    return dti_values_read(j->type, j->a->port[port], at, buffer, n);
}

/* The sums over the pixels of a tile's channels of x - middle or of its square. */
DT_INLINE void add_up(
    const struct job *j, tile t, const float middle[TILE], bool square, double sum[TILE])
{
    float buffer[TILE];
    for (int64_t first = 0; first < j->pixels; first += BLOCK) {
        float block[TILE] = {0};
        for (int64_t p = first; p < j->pixels && p < first + BLOCK; p++) {
            const float *x = read(j, DT_X, place(j, t, p), buffer, t.n);
#pragma omp simd
            for (int k = 0; k < t.n; k++) {
                const float d = x[k] - middle[k];
                block[k] += square ? d * d : d;
            }
        }
        for (int k = 0; k < t.n; k++)
            sum[k] += (double)block[k];
    }
}

DT_INLINE void group_means(
    const struct job *j, part p, const float middle[TILE], bool square, double mean[TILE])
{
    for (int64_t g = 0; g < p.n; g++)
        mean[g] = 0;
    for (int64_t at = 0; at < p.n * j->each; at += TILE) {
        const tile t = tile_of(j, p, at);
        double sum[TILE] = {0};
        float from[TILE];
        by_channel(j, p, t, middle, from);
        add_up(j, t, from, square, sum);
        for (int k = 0; k < t.n; k++)
            mean[group_of(j, p, t, k)] += sum[k];
    }
    for (int64_t g = 0; g < p.n; g++)
        mean[g] /= (double)(j->pixels * j->each);
}

/* y may be x. */
DT_INLINE void normalise(
    const struct job *j, tile t, const float mean[TILE], const float istd[TILE])
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
            y[k] = (x[k] - mean[k]) * istd[k] * weight[k] + bias[k];
        dti_values_write(j->type, j->a->port[DT_Y], at, y, t.n);
    }
}

/* Leaves what backward reads of a part's groups, where there is any backward. */
static void save(const struct job *j, part p, int port, const float *of)
{
    float *to = j->a->port[DT_S + port];
    if (to != NULL)
        memcpy(to + p.sample * j->groups + p.group, of, (size_t)p.n * sizeof *of);
}

DT_CLONES static void forward_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const part p = part_of(j, i);
    double middle[TILE], square[TILE];
    float mean[TILE] = {0}, istd[TILE], of[2][TILE];
    group_means(j, p, mean, false, middle);
    for (int64_t g = 0; g < p.n; g++)
        mean[g] = (float)middle[g];
    group_means(j, p, mean, true, square);
    for (int64_t g = 0; g < p.n; g++)
        istd[g] = (float)(1 / sqrt(square[g] + j->eps));
    for (int64_t at = 0; at < p.n * j->each; at += TILE) {
        const tile t = tile_of(j, p, at);
        by_channel(j, p, t, mean, of[0]);
        by_channel(j, p, t, istd, of[1]);
        normalise(j, t, of[0], of[1]);
    }
    save(j, p, 0, mean);
    save(j, p, 1, istd);
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

/* What backward knows of each channel of a tile. */
typedef struct known {
    float mean[TILE], istd[TILE], shift[TILE], slope[TILE];
} known;

DT_INLINE void add_pixels(const struct job *j, tile t, const known *of)
{
    double *sum = sums_of(j, t.sample, t.c), *product = sum + products_behind(j);
    float buffer[2][TILE];
    for (int k = 0; k < t.n; k++)
        sum[k] = product[k] = 0;
    for (int64_t first = 0; first < j->pixels; first += BLOCK) {
        float block[2][TILE] = {{0}};
        for (int64_t p = first; p < j->pixels && p < first + BLOCK; p++) {
            const int64_t at = place(j, t, p);
            const float *x = read(j, DT_X, at, buffer[0], t.n);
            const float *dy = read(j, DT_DY, at, buffer[1], t.n);
#pragma omp simd
            for (int k = 0; k < t.n; k++) {
                block[0][k] += dy[k];
                block[1][k] += dy[k] * ((x[k] - of->mean[k]) * of->istd[k]);
            }
        }
        for (int k = 0; k < t.n; k++) {
            sum[k] += (double)block[0][k];
            product[k] += (double)block[1][k];
        }
    }
}

/* dx = istd (g - shift - slope xn), where g = weight dy, xn is x normalised, and shift and slope
 * are the group's means of g and of g xn; dx may be dy. */
DT_INLINE void differentiate(const struct job *j, tile t, const known *of)
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
            dx[k] = of->istd[k] * (weight[k] * dy[k] - of->shift[k] -
                                      (x[k] - of->mean[k]) * of->istd[k] * of->slope[k]);
        dti_values_write(j->type, j->a->port[DT_DX], at, dx, t.n);
    }
}

/* The means over a group of weight dy and of weight dy xn. */
static void shift_and_slope(const struct job *j, part p, int64_t group, float *shift, float *slope)
{
    const int64_t c = (p.group + group) * j->each;
    const float *weight = (const float *)j->a->port[DT_P] + c;
    const double *sum = sums_of(j, p.sample, c), *product = sum + products_behind(j);
    const double count = (double)(j->pixels * j->each);
    double of[2] = {0};
    for (int64_t k = 0; k < j->each; k++) {
        of[0] += (double)weight[k] * sum[k];
        of[1] += (double)weight[k] * product[k];
    }
    *shift = (float)(of[0] / count);
    *slope = (float)(of[1] / count);
}

DT_CLONES static void backward_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const part p = part_of(j, i);
    const int64_t first = p.sample * j->groups + p.group;
    const float *mean = (const float *)j->a->port[DT_S] + first;
    const float *istd = (const float *)j->a->port[DT_S + 1] + first;
    float shift[TILE], slope[TILE];
    known of;
    for (int64_t at = 0; at < p.n * j->each; at += TILE) {
        const tile t = tile_of(j, p, at);
        by_channel(j, p, t, mean, of.mean);
        by_channel(j, p, t, istd, of.istd);
        add_pixels(j, t, &of);
    }
    if (j->a->port[DT_DX] == NULL)
        return;
    for (int64_t g = 0; g < p.n; g++)
        shift_and_slope(j, p, g, &shift[g], &slope[g]);
    for (int64_t at = 0; at < p.n * j->each; at += TILE) {
        const tile t = tile_of(j, p, at);
        by_channel(j, p, t, mean, of.mean);
        by_channel(j, p, t, istd, of.istd);
        by_channel(j, p, t, shift, of.shift);
        by_channel(j, p, t, slope, of.slope);
        differentiate(j, t, &of);
    }
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
        dti_run_tasks(j.samples * j.tasks, forward_task, &j);
        return DT_OK;
    }
    dti_run_tasks(j.samples * j.tasks, backward_task, &j);
    dti_run_tasks(dti_ceil_div(j.channels, CHANNELS), sums_task, &j);
    return DT_OK;
}

const dt_kernels dt_groupnorm_cpu = {.facts = facts, .run = run};
