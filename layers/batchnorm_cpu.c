#include "layers/batchnorm.h"

#include <math.h>

#include "layers/cpu.h"
#include "layers/team.h"

/* A value is rows of channels. Rows are cut into parts by size alone; each part leaves two sums a
 * channel in scratch, in double precision, and these are combined in the order of parts. Inside a
 * part, blocks of rows small enough to stay in the cache are added up in single precision. */
enum {
    TILE = 512,             /* channels worked on at a time */
    BLOCK = 1 << 14,        /* elements of a block ... */
    MOST_ROWS = 64,         /* ... which is never more rows than this, for accuracy, ... */
    LEAST_ROWS = 8,         /* ... nor less than this, for speed */
    PART_BYTES = 512 << 10, /* of input, at least, before there is a second part */
    MOST_PARTS = 32
};

struct job {
    const dt_args *a;
    const dt_batchnorm *o;
    int64_t rows, channels, block_rows;
    int64_t part_rows, parts;
    int64_t piece_rows; /* of elementwise work */
    const float *mean, *istd;
    const float *var; /* evaluation: istd is made from it */
};

static int64_t clamp(int64_t x, int64_t least, int64_t most)
{
    return x < least ? least : x > most ? most : x;
}

static struct job job_of(const dt_call *c, int64_t n)
{
    const dt_shape x = dt_call_x(c);
    struct job j = {.o = c->node->opts, .rows = n * x.h * x.w, .channels = x.c};
    const int64_t bytes = j.rows * j.channels * (int64_t)sizeof(float);
    j.part_rows = dt_ceil_div(j.rows, clamp(bytes / PART_BYTES, 1, MOST_PARTS));
    j.parts = dt_ceil_div(j.rows, j.part_rows);
    j.block_rows = clamp(BLOCK / j.channels, LEAST_ROWS, MOST_ROWS);
    j.piece_rows = clamp(DT_GRAIN / j.channels, 1, DT_GRAIN);
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

/* Rows come four at a time where there are four: then the sums are loaded and stored less often,
 * and what is a constant here lets the compiler unroll. */
DT_INLINE void add_rows(const float *x, int64_t channels, int rows, int n, float *sum)
{
#pragma omp simd
    for (int c = 0; c < n; c++) {
        float s = x[c];
        for (int r = 1; r < rows; r++)
            s += x[r * channels + c];
        sum[c] += s;
    }
}

DT_INLINE void add_distances(const float *x, int64_t channels, int rows, int n, const float *middle,
    float *sum, float *squares)
{
#pragma omp simd
    for (int c = 0; c < n; c++) {
        float s = 0, q = 0;
        for (int r = 0; r < rows; r++) {
            const float d = x[r * channels + c] - middle[c];
            s += d;
            q += d * d;
        }
        sum[c] += s;
        squares[c] += q;
    }
}

/* Mean and sum of squared distances from it of one block, joined with those of the @before rows
 * above it (Chan, Golub and LeVeque 1983). Distances are taken from the block's own mean, so a
 * large mean costs no accuracy. */
DT_CLONES static void join_block(
    const float *x, int64_t rows, int64_t channels, int n, int64_t before, double *mean, double *m2)
{
    float middle[TILE], sum[TILE], squares[TILE];
    const float over = 1.0f / (float)rows;
    for (int c = 0; c < n; c++)
        middle[c] = sum[c] = squares[c] = 0;
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4)
        add_rows(x + r * channels, channels, 4, n, middle);
    for (; r < rows; r++)
        add_rows(x + r * channels, channels, 1, n, middle);
    for (int c = 0; c < n; c++)
        middle[c] *= over;
    for (r = 0; r + 4 <= rows; r += 4)
        add_distances(x + r * channels, channels, 4, n, middle, sum, squares);
    for (; r < rows; r++)
        add_distances(x + r * channels, channels, 1, n, middle, sum, squares);
    const double here = (double)rows, all = here + (double)before;
    const double toward = here / all, apart = (double)before * here / all;
#pragma omp simd
    for (int c = 0; c < n; c++) {
        const double s = (double)sum[c], delta = (double)middle[c] + s / here - mean[c];
        m2[c] += (double)squares[c] - s * s / here + delta * delta * apart;
        mean[c] += delta * toward;
    }
}

static void statistics_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dt_span rows = dt_span_of(j->rows, j->part_rows, i);
    double *mean = part_of(j, i), *m2 = mean + j->channels;
    for (int64_t c = 0; c < 2 * j->channels; c++)
        mean[c] = 0;
    for (int64_t r = rows.begin; r < rows.end; r += j->block_rows) {
        const int64_t left = rows.end - r, n = left < j->block_rows ? left : j->block_rows;
        for (int64_t c = 0; c < j->channels; c += TILE)
            join_block(port(j, DT_X) + r * j->channels + c, n, j->channels,
                (int)clamp(j->channels - c, 1, TILE), r - rows.begin, mean + c, m2 + c);
    }
}

static float commit_later(const struct job *j, int which, int64_t c, double now)
{
    const float *base = port(j, (j->a->accumulate ? DT_Q : DT_P) + which);
    return (float)((1 - j->o->momentum) * (double)base[c] + j->o->momentum * now);
}

/* All parts of TILE channels together: statistics for this op, its backward and the running ones.
 */
static void finish_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dt_span tile = dt_span_of(j->channels, TILE, i);
    const double n = (double)j->rows;
    for (int64_t c = tile.begin; c < tile.end; c++) {
        double mean = 0, m2 = 0, before = 0;
        for (int64_t p = 0; p < j->parts; p++) {
            const dt_span rows = dt_span_of(j->rows, j->part_rows, p);
            const double here = (double)(rows.end - rows.begin), all = before + here;
            const double delta = part_of(j, p)[c] - mean;
            m2 += part_of(j, p)[j->channels + c] + delta * delta * (before * here / all);
            mean += delta * (here / all);
            before = all;
        }
        ((float *)j->a->port[DT_S])[c] = (float)mean;
        ((float *)j->a->port[DT_S + 1])[c] = (float)(1 / sqrt(m2 / n + j->o->eps));
        ((float *)j->a->port[DT_Q + 2])[c] = commit_later(j, 2, c, mean);
        ((float *)j->a->port[DT_Q + 3])[c] = commit_later(j, 3, c, m2 / (n > 1 ? n - 1 : 1));
    }
}

/* y may be x */
DT_CLONES static void normalise(const float *x, float *y, int64_t rows, int64_t channels, int n,
    const float *mean, const float *scale, const float *bias)
{
    for (int64_t r = 0; r < rows; r++)
#pragma omp simd
        for (int c = 0; c < n; c++)
            y[r * channels + c] = (x[r * channels + c] - mean[c]) * scale[c] + bias[c];
}

static void normalise_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dt_span rows = dt_span_of(j->rows, j->piece_rows, i);
    const float *weight = port(j, DT_P);
    float scale[TILE];
    for (int64_t c = 0; c < j->channels; c += TILE) {
        const int n = (int)clamp(j->channels - c, 1, TILE);
        for (int k = 0; k < n; k++) {
            const float istd = j->var == NULL
                                   ? j->istd[c + k]
                                   : (float)(1 / sqrt((double)j->var[c + k] + j->o->eps));
            scale[k] = istd * weight[c + k];
        }
        const int64_t at = rows.begin * j->channels + c;
        normalise(port(j, DT_X) + at, (float *)j->a->port[DT_Y] + at, rows.end - rows.begin,
            j->channels, n, j->mean + c, scale, port(j, DT_P + 1) + c);
    }
}

DT_INLINE void add_products(const float *x, const float *dy, int64_t channels, int rows, int n,
    const float *mean, float *sum, float *products)
{
#pragma omp simd
    for (int c = 0; c < n; c++) {
        float s = 0, p = 0;
        for (int r = 0; r < rows; r++) {
            const float d = dy[r * channels + c];
            s += d;
            p += d * (x[r * channels + c] - mean[c]);
        }
        sum[c] += s;
        products[c] += p;
    }
}

/* Sums over one block of dy, and of dy times the distance of x from the mean, added to those of a
 * part. */
DT_CLONES static void add_block(const float *x, const float *dy, int64_t rows, int64_t channels,
    int n, const float *mean, double *dbias, double *dweight)
{
    float sum[TILE], products[TILE];
    for (int c = 0; c < n; c++)
        sum[c] = products[c] = 0;
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4)
        add_products(x + r * channels, dy + r * channels, channels, 4, n, mean, sum, products);
    for (; r < rows; r++)
        add_products(x + r * channels, dy + r * channels, channels, 1, n, mean, sum, products);
#pragma omp simd
    for (int c = 0; c < n; c++) {
        dbias[c] += (double)sum[c];
        dweight[c] += (double)products[c];
    }
}

static void sums_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dt_span rows = dt_span_of(j->rows, j->part_rows, i);
    double *dbias = part_of(j, i), *dweight = dbias + j->channels;
    for (int64_t c = 0; c < 2 * j->channels; c++)
        dbias[c] = 0;
    for (int64_t r = rows.begin; r < rows.end; r += j->block_rows) {
        const int64_t left = rows.end - r, n = left < j->block_rows ? left : j->block_rows;
        for (int64_t c = 0; c < j->channels; c += TILE) {
            const int64_t at = r * j->channels + c;
            add_block(port(j, DT_X) + at, port(j, DT_DY) + at, n, j->channels,
                (int)clamp(j->channels - c, 1, TILE), j->mean + c, dbias + c, dweight + c);
        }
    }
}

static void gradients_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dt_span tile = dt_span_of(j->channels, TILE, i);
    for (int64_t c = tile.begin; c < tile.end; c++) {
        double dbias = 0, dweight = 0;
        for (int64_t p = 0; p < j->parts; p++) {
            dbias += part_of(j, p)[c];
            dweight += part_of(j, p)[j->channels + c];
        }
        ((float *)j->a->port[DT_DP])[c] = (float)(dweight * (double)j->istd[c]);
        ((float *)j->a->port[DT_DP + 1])[c] = (float)dbias;
    }
}

/* dx = scale * (dy - shift - (x - mean) * slope); dx may be dy */
DT_CLONES static void differentiate(const float *x, const float *dy, float *dx, int64_t rows,
    int64_t channels, int n, const float *mean, const float *scale, const float *shift,
    const float *slope)
{
    for (int64_t r = 0; r < rows; r++)
#pragma omp simd
        for (int c = 0; c < n; c++) {
            const int64_t at = r * channels + c;
            dx[at] = scale[c] * (dy[at] - shift[c] - (x[at] - mean[c]) * slope[c]);
        }
}

static void differentiate_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dt_span rows = dt_span_of(j->rows, j->piece_rows, i);
    const float *weight = port(j, DT_P), *dweight = port(j, DT_DP), *dbias = port(j, DT_DP + 1);
    const float over = 1.0f / (float)j->rows;
    float scale[TILE], shift[TILE], slope[TILE];
    for (int64_t c = 0; c < j->channels; c += TILE) {
        const int n = (int)clamp(j->channels - c, 1, TILE);
        for (int k = 0; k < n; k++) {
            scale[k] = weight[c + k] * j->istd[c + k];
            shift[k] = dbias[c + k] * over;
            slope[k] = dweight[c + k] * j->istd[c + k] * over;
        }
        const int64_t at = rows.begin * j->channels + c;
        differentiate(port(j, DT_X) + at, port(j, DT_DY) + at, (float *)j->a->port[DT_DX] + at,
            rows.end - rows.begin, j->channels, n, j->mean + c, scale, shift, slope);
    }
}

static dt_status facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    const struct job j = job_of(c, c->n);
    const bool sums = c->form == DT_FORWARD || c->form == DT_BACKWARD;
    f->work_bytes = sums ? (size_t)(2 * j.parts * j.channels) * sizeof(double) : 0;
    return DT_OK;
}

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    struct job j = job_of(c, a->n);
    j.a = a;
    j.mean = a->port[c->form == DT_EVAL ? DT_P + 2 : DT_S];
    j.istd = a->port[DT_S + 1];
    j.var = c->form == DT_EVAL ? a->port[DT_P + 3] : NULL;
    const int64_t tiles = dt_ceil_div(j.channels, TILE);
    const int64_t pieces = dt_ceil_div(j.rows, j.piece_rows);
    if (c->form == DT_BACKWARD) {
        dt_team(j.parts, sums_task, &j);
        dt_team(tiles, gradients_task, &j);
        if (a->port[DT_DX] != NULL)
            dt_team(pieces, differentiate_task, &j);
        return DT_OK;
    }
    if (c->form == DT_FORWARD) {
        dt_team(j.parts, statistics_task, &j);
        dt_team(tiles, finish_task, &j);
    }
    dt_team(pieces, normalise_task, &j);
    return DT_OK;
}

const dt_kernels dt_batchnorm_cpu = {.facts = facts, .run = run};
