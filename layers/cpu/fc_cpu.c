/* The fully connected layer on the processor: the library's inner product. */
#include "layers/fc.h"

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

static dt_status facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    const dt_dnnl_problem p = problem(c);
    return dti_weighted_facts(&p, c, f, err);
}

static dt_status create(const dt_call *c, void **state, dt_err *err)
{
    const dt_dnnl_problem p = problem(c);
    return dti_weighted_create(&p, c, state, err);
}

static dt_status param_bytes(const dt_call *c, int i, size_t *bytes, dt_err *err)
{
    const dt_dnnl_problem p = problem(c);
    return dti_weighted_bytes(&p, c, i, bytes, err);
}

static int64_t param_rows(const dt_call *c, int i)
{
    const dt_dnnl_problem p = problem(c);
    return dti_weighted_rows(&p, c, i);
}

/* Room for rows of the weight with their columns in the order h, w, c; PyTorch has c, h, w. */
static dt_status take_rows(const dt_call *c, dt_rows rows, float **hwc, dt_err *err)
{
    *hwc = dt_alloc((size_t)(rows.n * problem(c).c), sizeof **hwc);
    if (*hwc == NULL)
        return DT_FAIL(
            err, DT_E_NOMEM, "layer '%s': no memory to transpose its weight", c->node->name);
    return DT_OK;
}

static dt_status param_put(
    const dt_call *c, int i, dt_rows rows, const float *plain, void *lives, dt_err *err)
{
    const dt_dnnl_problem p = problem(c);
    const dt_shape x = dti_fc_image(c);
    float *hwc;
    if (i > 0 || x.h * x.w == 1)
        return dti_weighted_put(&p, c, i, rows, plain, lives, err);
    DT_CHECK(take_rows(c, rows, &hwc, err));
    dti_weight_transpose(plain, hwc, rows.n, x.c, x.h * x.w);
    const dt_status st = dti_weighted_put(&p, c, i, rows, hwc, lives, err);
    dt_free(hwc);
    return st;
}

static dt_status param_get(
    const dt_call *c, int i, dt_rows rows, const void *lives, float *plain, dt_err *err)
{
    const dt_dnnl_problem p = problem(c);
    const dt_shape x = dti_fc_image(c);
    float *hwc;
    if (i > 0 || x.h * x.w == 1)
        return dti_weighted_get(&p, c, i, rows, lives, plain, err);
    DT_CHECK(take_rows(c, rows, &hwc, err));
    const dt_status st = dti_weighted_get(&p, c, i, rows, lives, hwc, err);
    if (st == DT_OK)
        dti_weight_transpose(hwc, plain, rows.n, x.h * x.w, x.c);
    dt_free(hwc);
    return st;
}

const dt_kernels dt_fc_cpu = {
    .facts = facts,
    .create = create,
    .destroy = dti_weighted_destroy,
    .run = dti_weighted_run,
    .param_bytes = param_bytes,
    .param_put = param_put,
    .param_get = param_get,
    .param_rows = param_rows,
};
