/* What linear and fc share on the CUDA device: products of rows, with a weight that lives as
 * [out][in] in fp32. Ops on bf16 read a copy of it in bf16, made by the forms that derive; its
 * gradient is fp32 always. */
#ifndef DT_LAYERS_CUDA_LINEAR_CUDA_H
#define DT_LAYERS_CUDA_LINEAR_CUDA_H

#include "engine/kernels.h"

/* The same for all samples; @rows: of one. */
typedef struct dti_rows {
    int64_t rows, in, out;
    bool bias;
} dti_rows;

dt_status dti_rows_facts(
    const dti_rows *r, const dt_call *c, dt_facts *f, dt_err *err) DT_NODISCARD;
dt_status dti_rows_create(
    const dti_rows *r, const dt_call *c, void **state, dt_err *err) DT_NODISCARD;
void dti_rows_destroy(void *state);
dt_status dti_rows_run(const dt_call *c, void *state, const dt_args *a, dt_err *err) DT_NODISCARD;

#endif
