#include "layers/conv.h"

#include "layers/cpu.h"
#include "layers/weighted.h"

static dt_dnnl_problem problem(const dt_call *c)
{
    const dt_conv *o = c->node->opts;
    const dt_shape x = dt_call_x(c), y = c->node->info.y;
    return (dt_dnnl_problem){.bias = o->bias,
        .bf16 = c->dtype == DT_BF16,
        .groups = o->groups,
        .c = x.c,
        .h = x.h,
        .w = x.w,
        .out = y.c,
        .p = y.h,
        .q = y.w,
        .kernel = o->kernel,
        .stride = o->stride,
        .pad = o->pad,
        .dilation = o->dilation};
}

static dt_status facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    const dt_dnnl_problem p = problem(c);
    return dt_weighted_facts(&p, c, f, err);
}

static dt_status create(const dt_call *c, void **state, dt_err *err)
{
    const dt_dnnl_problem p = problem(c);
    return dt_weighted_create(&p, c, state, err);
}

static dt_status param_bytes(const dt_call *c, int i, size_t *bytes, dt_err *err)
{
    const dt_dnnl_problem p = problem(c);
    return dt_weighted_bytes(&p, c, i, bytes, err);
}

static dt_status param_put(const dt_call *c, int i, const float *plain, void *lives, dt_err *err)
{
    const dt_dnnl_problem p = problem(c);
    return dt_weighted_put(&p, c, i, plain, lives, err);
}

static dt_status param_get(const dt_call *c, int i, const void *lives, float *plain, dt_err *err)
{
    const dt_dnnl_problem p = problem(c);
    return dt_weighted_get(&p, c, i, lives, plain, err);
}

const dt_kernels dt_conv_cpu = {
    .facts = facts,
    .create = create,
    .destroy = dt_weighted_destroy,
    .run = dt_weighted_run,
    .param_bytes = param_bytes,
    .param_put = param_put,
    .param_get = param_get,
};
