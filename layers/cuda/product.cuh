/* Products of matrices that no library of the card's takes as they lie: with rows two levels apart,
 * of several samples at once, of values and weights of different types. A block has 64 rows by 64
 * columns of the result, which its threads sum up in registers over parts of 16 that it copies into
 * shared memory. Sums run in order and in fp32, so bits depend on nothing but the shapes. */
#ifndef DT_LAYERS_CUDA_PRODUCT_CUH
#define DT_LAYERS_CUDA_PRODUCT_CUH

#include "layers/cuda/cuda_kernel.cuh"

enum { DTI_SIDE = 64, DTI_DEEP = 16, DTI_EACH = 4 };

/* Element i, j is p[(i / each) * far + i % each * row + j * step], plus @next for each sample; each
 * = 0: all rows are @row apart. @values: of the op's type; else fp32. */
typedef struct dti_operand {
    void *p;
    int64_t row, step, each, far, next;
    bool values;
} dti_operand;

/* c[i][j] = plus + bias[j] + more[j] + the sum over t of a[i][t] b[t][j], of m rows, n columns and
 * k summands, of each of @samples; @bias, @more and @plus may be NULL. @plus lies as c, in fp32,
 * and may be c. */
typedef struct dti_product_job {
    int64_t m, n, k, samples;
    dti_operand a, b, c;
    const float *bias, *more, *plus;
} dti_product_job;

/* Rows of fp32 or of values, one behind the other. */
static inline dti_operand dti_rows_of(const void *p, int64_t width, bool values)
{
    dti_operand o;
    memset(&o, 0, sizeof o);
    memcpy(&o.p, &p, sizeof p);
    o.row = width;
    o.step = 1;
    o.values = values;
    return o;
}

/* The same matrix transposed. */
static inline dti_operand dti_columns_as_rows(const void *p, int64_t width)
{
    dti_operand o = dti_rows_of(p, 1, false);
    o.step = width;
    return o;
}

static inline dti_product_job dti_product_job_of(
    int64_t m, int64_t n, int64_t k, dti_operand a, dti_operand b, dti_operand c)
{
    dti_product_job j;
    memset(&j, 0, sizeof j);
    j.m = m, j.n = n, j.k = k, j.samples = 1;
    j.a = a, j.b = b, j.c = c;
    return j;
}

DT_DEVICE int64_t dti_element(const dti_operand *o, int64_t sample, int64_t i, int64_t j)
{
    const int64_t at = sample * o->next + j * o->step;
    if (o->each == 0)
        return at + i * o->row;
    const int64_t group = dti_quotient(i, o->each);
    return at + group * o->far + (i - group * o->each) * o->row;
}

DT_DEVICE float dti_element_of(
    const dti_operand *o, int64_t sample, int64_t i, int64_t j, dt_dtype t)
{
    return dti_load(o->p, dti_element(o, sample, i, j), o->values ? t : DT_F32);
}

/* Which of a part's elements a thread copies: neighbours take what lies together. */
DT_DEVICE void dti_copied(int i, bool deep_first, int *across, int *deep)
{
    *deep = deep_first ? i % DTI_DEEP : i / DTI_SIDE;
    *across = deep_first ? i / DTI_DEEP : i % DTI_SIDE;
}

DT_DEVICE void dti_product_tile(const dti_product_job *j, int64_t sample, int64_t row,
    int64_t column, float (*a)[DTI_SIDE + 1], float (*b)[DTI_SIDE + 1], dt_dtype t)
{
    const int down = (int)threadIdx.x / DTI_DEEP, across = (int)threadIdx.x % DTI_DEEP;
    float sum[DTI_EACH][DTI_EACH] = {{0}};
    for (int64_t first = 0; first < j->k; first += DTI_DEEP) {
        for (int i = (int)threadIdx.x; i < DTI_SIDE * DTI_DEEP; i += DTI_THREADS) {
            int at, deep;
            dti_copied(i, j->a.step == 1, &at, &deep);
            a[deep][at] = row + at < j->m && first + deep < j->k
                              ? dti_element_of(&j->a, sample, row + at, first + deep, t)
                              : 0.0f;
            dti_copied(i, j->b.step != 1, &at, &deep);
            b[deep][at] = column + at < j->n && first + deep < j->k
                              ? dti_element_of(&j->b, sample, first + deep, column + at, t)
                              : 0.0f;
        }
        __syncthreads();
        for (int deep = 0; deep < DTI_DEEP; deep++) {
            DT_UNROLL(4)
            for (int r = 0; r < DTI_EACH; r++) {
                DT_UNROLL(4)
                for (int c = 0; c < DTI_EACH; c++)
                    sum[r][c] += a[deep][down + r * DTI_DEEP] * b[deep][across + c * DTI_DEEP];
            }
        }
        __syncthreads();
    }
    for (int r = 0; r < DTI_EACH; r++)
        for (int c = 0; c < DTI_EACH; c++) {
            const int64_t i = row + down + r * DTI_DEEP, k = column + across + c * DTI_DEEP;
            if (i >= j->m || k >= j->n)
                continue;
            const int64_t at = dti_element(&j->c, sample, i, k);
            const float bias =
                (j->bias != NULL ? j->bias[k] : 0.0f) + (j->more != NULL ? j->more[k] : 0.0f);
            const float plus = j->plus != NULL ? j->plus[at] : 0.0f;
            dti_store(j->c.p, at, j->c.values ? t : DT_F32, sum[r][c] + bias + plus);
        }
}

DT_DEVICE void dti_product(const dti_product_job *j, dt_dtype t)
{
    __shared__ float a[DTI_DEEP][DTI_SIDE + 1], b[DTI_DEEP][DTI_SIDE + 1];
    const int64_t down = dti_ceil_div(j->m, DTI_SIDE), across = dti_ceil_div(j->n, DTI_SIDE);
    for (int64_t i = blockIdx.x; i < down * across * j->samples; i += gridDim.x) {
        const int64_t line = dti_quotient(i, across), sample = dti_quotient(line, down);
        dti_product_tile(
            j, sample, (line - sample * down) * DTI_SIDE, (i - line * across) * DTI_SIDE, a, b, t);
    }
}

DT_KERNELS(dti_product, dti_product_job)

static inline void dti_product_launch(const dti_product_job *j, dt_dtype t, void *queue)
{
    const int64_t tiles = dti_ceil_div(j->m, DTI_SIDE) * dti_ceil_div(j->n, DTI_SIDE) * j->samples;
    const dti_grid grid = {dti_blocks(tiles, 1), 1};
    if (tiles > 0)
        DT_LAUNCH_OF(dti_product, t, grid, queue, *j);
}

/* Sums of the columns of rows of fp32, added to what is there if asked. */
typedef struct dti_sums_job {
    const float *from;
    float *to, *copy; /* copy: NULL, or where they go as well */
    int64_t rows, width;
    bool add;
} dti_sums_job;

DT_KERNEL(dti_sums, dti_sums_job)
{
    const dti_sums_job *j = &given;
    for (int64_t c = dti_first(); c < j->width; c += dti_stride()) {
        double sum = 0;
        for (int64_t r = 0; r < j->rows; r++)
            sum += (double)j->from[r * j->width + c];
        const float all = j->add ? j->to[c] + (float)sum : (float)sum;
        j->to[c] = all;
        if (j->copy != NULL)
            j->copy[c] = all;
    }
}

static inline void dti_sums_launch(
    const float *from, int64_t rows, int64_t width, bool add, float *to, float *copy, void *queue)
{
    dti_sums_job j;
    memset(&j, 0, sizeof j);
    j.from = from, j.to = to, j.copy = copy;
    j.rows = rows, j.width = width, j.add = add;
    DT_LAUNCH(dti_sums, dti_grid_of(width), DTI_THREADS, queue, j);
}

/* The next @n floats of scratch; NULL where there is none yet, and they are counted. */
static inline float *dti_take_scratch(float *work, int64_t *at, int64_t n)
{
    float *p = work == NULL ? NULL : work + *at;
    *at += n;
    return p;
}

#endif
