/* The fully connected layer on the card: products of rows, of samples as they lie. */
#include "layers/weighted/fc.h"

#include <string.h>

#include "layers/cpu/cpu.h"
#include "layers/cuda/linear_cuda.h"
#include "layers/cuda/weighted_cuda.h"
#include "layers/weighted/weighted.h"

/* x as one row per sample, in the order it is stored (h, w, c). */
static dti_rows fc_rows(const dt_call *c)
{
    const dt_fc *o = c->node->opts;
    const dt_shape x = dti_call_x(c);
    return (dti_rows){1, dt_shape_sample(&x), o->out, o->bias};
}

static dt_status fc_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    const dti_rows r = fc_rows(c);
    return dti_rows_facts(&r, c, f, err);
}

static dt_status fc_create(const dt_call *c, void **state, dt_err *err)
{
    const dti_rows r = fc_rows(c);
    return dti_rows_create(&r, c, state, err);
}

static dt_status fc_param_put(
    const dt_call *c, int i, dt_rows rows, float *plain, void *lives, dt_err *err)
{
    const dt_shape x = dti_fc_image(c);
    (void)err;
    if (i == 0)
        dti_weight_transpose(
            plain, (float *)lives + rows.at * dt_shape_sample(&x), rows.n, x.c, x.h * x.w);
    else
        memcpy((float *)lives + rows.at, plain, (size_t)rows.n * sizeof *plain);
    return DT_OK;
}

static dt_status fc_param_get(
    const dt_call *c, int i, dt_rows rows, const void *lives, float *plain, dt_err *err)
{
    const dt_shape x = dti_fc_image(c);
    (void)err;
    if (i == 0)
        dti_weight_transpose(
            (const float *)lives + rows.at * dt_shape_sample(&x), plain, rows.n, x.h * x.w, x.c);
    else
        memcpy(plain, (const float *)lives + rows.at, (size_t)rows.n * sizeof *plain);
    return DT_OK;
}

const dt_kernels dt_fc_cuda = {
    .facts = fc_facts,
    .create = fc_create,
    .destroy = dti_rows_destroy,
    .run = dti_rows_run,
    .param_put = fc_param_put,
    .param_get = fc_param_get,
};
