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

/* The functions of a dt_kernels, for a layer of which @problem tells what it is to the library:
 * library_facts, library_create, library_bytes, library_rows, library_put and library_get. A call
 * that counts samples otherwise, or has another form, may be given to them in a layer's place. */
#define DTI_WEIGHTED_LIBRARY(problem)                                                              \
    static dt_status library_facts(const dt_call *c, dt_facts *f, dt_err *err)                     \
    {                                                                                              \
        const dt_dnnl_problem p = problem(c);                                                      \
        return dti_weighted_facts(&p, c, f, err);                                                  \
    }                                                                                              \
    static dt_status library_create(const dt_call *c, void **state, dt_err *err)                   \
    {                                                                                              \
        const dt_dnnl_problem p = problem(c);                                                      \
        return dti_weighted_create(&p, c, state, err);                                             \
    }                                                                                              \
    static dt_status library_bytes(const dt_call *c, int i, size_t *bytes, dt_err *err)            \
    {                                                                                              \
        const dt_dnnl_problem p = problem(c);                                                      \
        return dti_weighted_bytes(&p, c, i, bytes, err);                                           \
    }                                                                                              \
    static int64_t library_rows(const dt_call *c, int i)                                           \
    {                                                                                              \
        const dt_dnnl_problem p = problem(c);                                                      \
        return dti_weighted_rows(&p, c, i);                                                        \
    }                                                                                              \
    static dt_status library_put(                                                                  \
        const dt_call *c, int i, dt_rows rows, float *plain, void *lives, dt_err *err)             \
    {                                                                                              \
        const dt_dnnl_problem p = problem(c);                                                      \
        return dti_weighted_put(&p, c, i, rows, plain, lives, err);                                \
    }                                                                                              \
    static dt_status library_get(                                                                  \
        const dt_call *c, int i, dt_rows rows, const void *lives, float *plain, dt_err *err)       \
    {                                                                                              \
        const dt_dnnl_problem p = problem(c);                                                      \
        return dti_weighted_get(&p, c, i, rows, lives, plain, err);                                \
    }                                                                                              \
    _Static_assert(sizeof(problem(NULL)) == sizeof(dt_dnnl_problem), "what the library is asked")

#endif
