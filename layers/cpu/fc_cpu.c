/* The fully connected layer on the processor: the library's inner product. */
#include "layers/fc.h"

#include <omp.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "layers/cpu/cpu.h"
#include "layers/cpu/weighted.h"
#include "layers/weighted.h"

/* x as one vector per sample, in the order it is stored (h, w, c). What the library does itself
 * with images is slower and allocates megabytes in every call. */
static dt_dnnl_problem problem(const dt_call *c)
{
    const dt_fc *o = c->node->opts;
    const dt_shape x = dti_call_x(c);
    return dti_rows_problem(c, dt_shape_sample(&x), o->out, o->bias);
}

DTI_WEIGHTED_LIBRARY(problem);

/* Rows of a weight from [a][b] to [b][a], in place, each by way of a row of its thread's. */
static dt_status turn(const dt_call *c, float *rows, int64_t n, int64_t a, int64_t b, dt_err *err)
{
    const int64_t row = a * b;
    float *spare = dt_alloc((size_t)(omp_get_max_threads() * row), sizeof *spare);
    if (spare == NULL)
        return DT_FAIL(
            err, DT_E_NOMEM, "layer '%s': no memory to transpose its weight", c->node->name);
#pragma omp parallel for
    for (int64_t k = 0; k < n; k++) {
        float *mine = spare + omp_get_thread_num() * row;
        memcpy(mine, rows + k * row, (size_t)row * sizeof *mine);
        dti_matrix_transpose(mine, rows + k * row, a, b);
    }
    dt_free(spare);
    return DT_OK;
}

/* PyTorch has columns in the order c, h, w; here they are in the order h, w, c. */
static dt_status param_put(
    const dt_call *c, int i, dt_rows rows, float *plain, void *lives, dt_err *err)
{
    const dt_shape x = dti_fc_image(c);
    if (i == 0 && x.h * x.w > 1)
        DT_CHECK(turn(c, plain, rows.n, x.c, x.h * x.w, err));
    return library_put(c, i, rows, plain, lives, err);
}

static dt_status param_get(
    const dt_call *c, int i, dt_rows rows, const void *lives, float *plain, dt_err *err)
{
    const dt_shape x = dti_fc_image(c);
    DT_CHECK(library_get(c, i, rows, lives, plain, err));
    return i == 0 && x.h * x.w > 1 ? turn(c, plain, rows.n, x.h * x.w, x.c, err) : DT_OK;
}

const dt_kernels dt_fc_cpu = {
    .facts = library_facts,
    .create = library_create,
    .destroy = dti_weighted_destroy,
    .run = dti_weighted_run,
    .param_bytes = library_bytes,
    .param_put = param_put,
    .param_get = param_get,
    .param_rows = library_rows,
};
