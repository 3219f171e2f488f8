/* Small kernels over rows by columns that layers with a weight need on the card. */
#include "layers/cuda/cuda_kernel.cuh"

DT_C_HEADERS
#include "layers/cuda/weighted_cuda.h"
DT_C_HEADERS_END

/* A block of column sums: a warp across 32 groups of columns, and 8 rows at a time of the CHUNK or
 * more it adds up. */
enum {
    COLUMN_WARPS = DTI_THREADS / DTI_WARP,
    COLUMNS = DTI_WARP * DTI_FEW,
    COLUMN_CHUNK = 256,
    COLUMN_PARTS = 512
};

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

typedef struct rows_job {
    void *to;
    const void *from;
    int64_t to_pitch, from_pitch, rows, columns;
} rows_job;

enum { ROWS_AT_ONCE = 8 };

DT_DEVICE void copy_column(const rows_job *j, int64_t c, dt_dtype t)
{
    const int64_t step = gridDim.y;
    for (int64_t r = blockIdx.y; r < j->rows; r += ROWS_AT_ONCE * step) {
        const int64_t from = r * j->from_pitch + c, to = r * j->to_pitch + c;
        const int64_t rest = dti_quotient(j->rows - 1 - r, step) + 1; /* rows, this one too */
        float v[ROWS_AT_ONCE];
        DT_UNROLL(8)
        for (int k = 0; k < ROWS_AT_ONCE; k++)
            v[k] = k < rest ? dti_load(j->from, from + k * step * j->from_pitch, t) : 0.0f;
        DT_UNROLL(8)
        for (int k = 0; k < ROWS_AT_ONCE; k++)
            if (k < rest)
                dti_store(j->to, to + k * step * j->to_pitch, t, v[k]);
    }
}

/* Threads have columns: neighbours read and write neighbours, wherever rows begin. */
DT_DEVICE void copy_rows(const rows_job *j, dt_dtype t)
{
    for (int64_t c = dti_first(); c < j->columns; c += dti_stride())
        copy_column(j, c, t);
}

DT_KERNELS(copy_rows, rows_job)

dt_status dti_cuda_copy_rows(void *queue, dt_dtype type, void *to, int64_t to_pitch,
    const void *from, int64_t from_pitch, int64_t rows, int64_t columns, dt_err *err)
{
    const rows_job j = {to, from, to_pitch, from_pitch, rows, columns};
    const dti_grid grid = dti_grid_2d(columns, dti_ceil_div(rows, (int64_t)ROWS_AT_ONCE));
    DT_LAUNCH_OF(copy_rows, type, grid, queue, j);
    return dt_cuda_launched("copy of rows", err);
}

/* @wide: every row of y begins at 16 bytes */
typedef struct bias_job {
    void *y;
    const float *bias;
    int64_t rows, columns, pitch;
    bool wide;
} bias_job;

DT_DEVICE void add_bias(const bias_job *j, dt_dtype t)
{
    const int64_t groups = (j->columns + DTI_FEW - 1) / DTI_FEW;
    for (int64_t i = dti_first(); i < j->rows * groups; i += dti_stride()) {
        const int64_t row = dti_quotient(i, groups), c = (i - row * groups) * DTI_FEW;
        const int n = dti_few(c, j->columns);
        float v[DTI_FEW], bias[DTI_FEW];
        dti_take(j->y, row * j->pitch + c, n, j->wide, t, v);
        dti_take(j->bias, c, n, j->wide, DT_F32, bias);
        DT_UNROLL(8)
        for (int k = 0; k < DTI_FEW; k++)
            v[k] += bias[k];
        dti_put(j->y, row * j->pitch + c, n, j->wide, t, v);
    }
}

DT_KERNELS(add_bias, bias_job)

dt_status dti_cuda_add_bias(void *queue, dt_dtype type, void *y, const float *bias, int64_t rows,
    int64_t columns, int64_t pitch, dt_err *err)
{
    const bias_job j = {y, bias, rows, columns, pitch,
        dti_wide(y) && dti_wide(bias) && dti_wide_rows(pitch, type) && columns % DTI_FEW == 0};
    DT_LAUNCH_OF(add_bias, type, dti_grid_of(rows * dti_ceil_div(columns, DTI_FEW)), queue, j);
    return dt_cuda_launched("bias", err);
}

/* @part: sums of each part of the rows, part by part
 * @wide: every row begins at 16 bytes */
typedef struct column_job {
    const void *m;
    int64_t rows, columns, parts, chunk;
    float *part, *sums;
    bool wide;
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

/* Part blockIdx.y of the block's columns: each warp adds up every eighth row, and then each thread
 * what all warps have of a column. */
DT_DEVICE void sum_part(const column_job *j, dt_dtype t)
{
    __shared__ float sums[COLUMN_WARPS][COLUMNS];
    const int lane = (int)(threadIdx.x % DTI_WARP), warp = (int)(threadIdx.x / DTI_WARP);
    const int64_t begin = (int64_t)blockIdx.x * COLUMNS, c = begin + lane * DTI_FEW;
    const int64_t first = blockIdx.y * j->chunk;
    const int64_t end = first + j->chunk < j->rows ? first + j->chunk : j->rows;
    const int n = c < j->columns ? dti_few(c, j->columns) : 0;
    float sum[DTI_FEW] = {0};
    DT_UNROLL(4)
    for (int64_t r = first + warp; r < end; r += COLUMN_WARPS) {
        float v[DTI_FEW];
        dti_take(j->m, r * j->columns + c, n, j->wide, t, v);
        DT_UNROLL(8)
        for (int k = 0; k < DTI_FEW; k++)
            sum[k] += v[k];
    }
    DT_UNROLL(8)
    for (int k = 0; k < DTI_FEW; k++)
        sums[warp][lane * DTI_FEW + k] = sum[k];
    __syncthreads();
    for (int k = (int)threadIdx.x; k < COLUMNS && begin + k < j->columns; k += DTI_THREADS) {
        float all = 0;
        for (int i = 0; i < COLUMN_WARPS; i++)
            all += sums[i][k];
        j->part[blockIdx.y * j->columns + begin + k] = all;
    }
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
    const dti_grid grid = {(unsigned)dti_ceil_div(columns, (int64_t)COLUMNS), (unsigned)j.parts};
    j.m = m;
    j.wide = dti_wide(m) && dti_wide_rows(columns, type);
    j.part = j.parts == 1 ? sums : work;
    j.sums = sums;
    DT_LAUNCH_OF(sum_part, type, grid, queue, j);
    DT_CHECK(dt_cuda_launched("column sums", err));
    if (j.parts == 1)
        return DT_OK;
    DT_LAUNCH(sum_parts, dti_grid_of(columns), DTI_THREADS, queue, j);
    return dt_cuda_launched("column sums", err);
}
