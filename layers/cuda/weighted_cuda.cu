/* Small kernels over rows by columns that layers with a weight need on the card. */
#include "layers/cuda/cuda_kernel.cuh"

DT_C_HEADERS
#include "layers/cuda/weighted_cuda.h"
DT_C_HEADERS_END

/* A block of column sums: a warp across 32 columns, and 8 rows at a time of the CHUNK or more it
 * adds up. */
enum { COLUMN_WARPS = DTI_THREADS / DTI_WARP, COLUMN_CHUNK = 512, COLUMN_PARTS = 512 };

/* @wide: eight values begin at 16 bytes, on both sides */
typedef struct convert_job {
    void *to;
    const void *from;
    int64_t count;
    bool wide;
} convert_job;

DT_DEVICE void convert(const convert_job *j, dt_dtype to, dt_dtype from)
{
    for (int64_t g = dti_first(); g * DTI_FEW < j->count; g += dti_stride()) {
        const int n = dti_few(g * DTI_FEW, j->count);
        float v[DTI_FEW];
        dti_take(j->from, g * DTI_FEW, n, j->wide, from, v);
        dti_put(j->to, g * DTI_FEW, n, j->wide, to, v);
    }
}

DT_KERNEL(to_bf16, convert_job)
{
    convert(&given, DT_BF16, DT_F32);
}

DT_KERNEL(to_fp32, convert_job)
{
    convert(&given, DT_F32, DT_BF16);
}

dt_status dti_cuda_to_bf16(void *queue, dt_bf16 *to, const float *from, int64_t count, dt_err *err)
{
    const convert_job j = {to, from, count, dti_wide(to) && dti_wide(from)};
    DT_LAUNCH(to_bf16, dti_grid_of(dti_ceil_div(count, DTI_FEW)), DTI_THREADS, queue, j);
    return dt_cuda_launched("conversion to bf16", err);
}

dt_status dti_cuda_to_fp32(void *queue, float *to, const dt_bf16 *from, int64_t count, dt_err *err)
{
    const convert_job j = {to, from, count, dti_wide(to) && dti_wide(from)};
    DT_LAUNCH(to_fp32, dti_grid_of(dti_ceil_div(count, DTI_FEW)), DTI_THREADS, queue, j);
    return dt_cuda_launched("conversion to fp32", err);
}

/* @wide: every row of y begins at 16 bytes */
typedef struct bias_job {
    void *y;
    const float *bias;
    int64_t rows, columns;
    bool wide;
} bias_job;

DT_DEVICE void add_bias(const bias_job *j, dt_dtype t)
{
    const int64_t groups = (j->columns + DTI_FEW - 1) / DTI_FEW;
    for (int64_t i = dti_first(); i < j->rows * groups; i += dti_stride()) {
        const int64_t row = dti_quotient(i, groups), c = (i - row * groups) * DTI_FEW;
        const int n = dti_few(c, j->columns);
        float v[DTI_FEW], bias[DTI_FEW];
        dti_take(j->y, row * j->columns + c, n, j->wide, t, v);
        dti_take(j->bias, c, n, j->wide, DT_F32, bias);
        DT_UNROLL(8)
        for (int k = 0; k < DTI_FEW; k++)
            v[k] += bias[k];
        dti_put(j->y, row * j->columns + c, n, j->wide, t, v);
    }
}

DT_KERNELS(add_bias, bias_job)

dt_status dti_cuda_add_bias(void *queue, dt_dtype type, void *y, const float *bias, int64_t rows,
    int64_t columns, dt_err *err)
{
    const bias_job j = {y, bias, rows, columns,
        dti_wide(y) && dti_wide(bias) && dti_wide_rows(columns, type) && columns % DTI_FEW == 0};
    DT_LAUNCH_OF(add_bias, type, dti_grid_of(rows * dti_ceil_div(columns, DTI_FEW)), queue, j);
    return dt_cuda_launched("bias", err);
}

/* @part: sums of each part of the rows, part by part */
typedef struct column_job {
    const void *m;
    int64_t rows, columns, parts, chunk;
    float *part, *sums;
} column_job;

static column_job column_job_of(int64_t rows, int64_t columns)
{
    column_job j;
    memset(&j, 0, sizeof j);
    j.rows = rows;
    j.columns = columns;
    j.parts = dti_ceil_div(rows, (int64_t)COLUMN_CHUNK);
    j.parts = j.parts < (int64_t)COLUMN_PARTS ? j.parts : (int64_t)COLUMN_PARTS;
    j.chunk = dti_ceil_div(rows, j.parts);
    return j;
}

/* Part blockIdx.y of 32 columns: each warp adds up every eighth row, and the first one what all
 * have. */
DT_DEVICE void sum_part(const column_job *j, dt_dtype t)
{
    __shared__ float sums[COLUMN_WARPS][DTI_WARP];
    const int lane = (int)(threadIdx.x % DTI_WARP), warp = (int)(threadIdx.x / DTI_WARP);
    const int64_t column = (int64_t)blockIdx.x * DTI_WARP + lane, first = blockIdx.y * j->chunk;
    const int64_t end = first + j->chunk < j->rows ? first + j->chunk : j->rows;
    float sum = 0;
    for (int64_t r = first + warp; r < end && column < j->columns; r += COLUMN_WARPS)
        sum += dti_load(j->m, r * j->columns + column, t);
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || column >= j->columns)
        return;
    for (int i = 1; i < COLUMN_WARPS; i++)
        sum += sums[i][lane];
    j->part[blockIdx.y * j->columns + column] = sum;
}

DT_KERNELS(sum_part, column_job)

DT_KERNEL(sum_parts, column_job)
{
    for (int64_t c = dti_first(); c < given.columns; c += dti_stride()) {
        float sum = 0;
        for (int64_t i = 0; i < given.parts; i++)
            sum += given.part[i * given.columns + c];
        given.sums[c] = sum;
    }
}

size_t dti_cuda_columns_work(int64_t rows, int64_t columns)
{
    const column_job j = column_job_of(rows, columns);
    return j.parts == 1 ? 0 : (size_t)(j.parts * columns) * sizeof(float);
}

dt_status dti_cuda_columns(void *queue, dt_dtype type, const void *m, int64_t rows, int64_t columns,
    float *sums, float *work, dt_err *err)
{
    column_job j = column_job_of(rows, columns);
    const dti_grid grid = {(unsigned)dti_ceil_div(columns, (int64_t)DTI_WARP), (unsigned)j.parts};
    j.m = m;
    j.part = j.parts == 1 ? sums : work;
    j.sums = sums;
    DT_LAUNCH_OF(sum_part, type, grid, queue, j);
    DT_CHECK(dt_cuda_launched("column sums", err));
    if (j.parts == 1)
        return DT_OK;
    DT_LAUNCH(sum_parts, dti_grid_of(columns), DTI_THREADS, queue, j);
    return dt_cuda_launched("column sums", err);
}
