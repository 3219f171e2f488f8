/* What conv and fc share on the CPU device: a layer whose parameter 0 is a weight in a layout of
 * the library's choosing and whose parameter 1, if any, is a plain bias. The weight lives in the
 * layout of the gradient that the training micro-batch (home_n) gives, so that optimizers are
 * elementwise; or, where kernels of ours may compute the layer, in theirs. */
#ifndef DT_LAYERS_CPU_WEIGHTED_H
#define DT_LAYERS_CPU_WEIGHTED_H

#include "engine/kernels.h"
#include "layers/onednn/onednn.h"

/* An inner product of vectors of @in values, a sample each. */
dt_dnnl_problem dti_rows_problem(const dt_call *c, int64_t in, int64_t out, bool bias);

dt_status dti_weighted_facts(
    const dt_dnnl_problem *p, const dt_call *c, dt_facts *f, dt_err *err) DT_NODISCARD;
dt_status dti_weighted_create(
    const dt_dnnl_problem *p, const dt_call *c, void **state, dt_err *err) DT_NODISCARD;
void dti_weighted_destroy(void *state);
dt_status dti_weighted_run(
    const dt_call *c, void *state, const dt_args *a, dt_err *err) DT_NODISCARD;

/* What an op says that the layer does not have: DT_E_INTERNAL. */
dt_status dti_weighted_no_form(const dt_call *c, dt_err *err) DT_NODISCARD;

/* Bytes of parameter i as files have it. */
static inline size_t dti_weighted_plain_bytes(const dt_call *c, int i)
{
    return (size_t)dt_param_count(&c->node->info.param[i]) * sizeof(float);
}

/* Parameter i as it lives: its bytes, and the conversion of some rows from and to OIHW or
 * [out, in], as dt_kernels has it. Padding in the library's layout becomes zero, and stays so under
 * any elementwise optimizer. */
dt_status dti_weighted_bytes(
    const dt_dnnl_problem *p, const dt_call *c, int i, size_t *bytes, dt_err *err) DT_NODISCARD;
int64_t dti_weighted_rows(const dt_dnnl_problem *p, const dt_call *c, int i);
dt_status dti_weighted_put(const dt_dnnl_problem *p, const dt_call *c, int i, dt_rows rows,
    const float *plain, void *lives, dt_err *err) DT_NODISCARD;
dt_status dti_weighted_get(const dt_dnnl_problem *p, const dt_call *c, int i, dt_rows rows,
    const void *lives, float *plain, dt_err *err) DT_NODISCARD;

#endif
