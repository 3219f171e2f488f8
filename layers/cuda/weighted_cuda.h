/* What conv, fc and linear share on the CUDA device besides the libraries: small kernels over
 * matrices of rows by columns. Each is put on a queue (a cudaStream_t) and allocates nothing; the
 * order of every sum is fixed by the matrix's size. DT_E_DEVICE when the device refuses one. */
#ifndef DT_LAYERS_CUDA_WEIGHTED_CUDA_H
#define DT_LAYERS_CUDA_WEIGHTED_CUDA_H

#include "engine/context.h"

/* Whether products of this op, in fp32, may round what they multiply to the ten bits of TF32. */
static inline bool dti_cuda_tf32(const dt_call *c)
{
    return c->dtype != DT_BF16 && c->context->tf32;
}

/* NVIDIA's libraries want scratch at 256 bytes, the arena gives it at fewer: what to ask for so
 * that so many bytes are left from the first such place on. */
static inline size_t dti_cuda_aligned_bytes(size_t bytes)
{
    return bytes == 0 ? 0 : bytes + 255;
}

static inline char *dti_cuda_scratch(void *work)
{
    return (char *)work + (256 - (uintptr_t)work % 256) % 256;
}

/* Whether the op makes a copy of the weight, in bf16. */
static inline bool dti_cuda_derives(const dt_call *c)
{
    return c->form == DT_DERIVE_F || c->form == DT_DERIVE_B;
}

dt_status dti_cuda_to_bf16(
    void *queue, dt_bf16 *to, const float *from, int64_t count, dt_err *err) DT_NODISCARD;
dt_status dti_cuda_to_fp32(
    void *queue, float *to, const dt_bf16 *from, int64_t count, dt_err *err) DT_NODISCARD;

/* Rows of @columns values, each so many values behind the one before, to others. */
dt_status dti_cuda_copy_rows(void *queue, dt_dtype type, void *to, int64_t to_pitch,
    const void *from, int64_t from_pitch, int64_t rows, int64_t columns, dt_err *err) DT_NODISCARD;

/* y[row][column] += bias[column], rounded once more in bf16; rows lie @pitch values apart. */
dt_status dti_cuda_add_bias(void *queue, dt_dtype type, void *y, const float *bias, int64_t rows,
    int64_t columns, int64_t pitch, dt_err *err) DT_NODISCARD;

/* sums[column] = the sum over rows, in single precision; @work: dti_cuda_columns_work bytes. */
size_t dti_cuda_columns_work(int64_t rows, int64_t columns);
dt_status dti_cuda_columns(void *queue, dt_dtype type, const void *m, int64_t rows, int64_t columns,
    float *sums, float *work, dt_err *err) DT_NODISCARD;

#endif
