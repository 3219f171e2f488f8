#include "layers/conv.h"

#include <stdio.h>

#include "layers/blocked/amx_conv.h"
#include "layers/blocked/amx_weights.h"
#include "layers/cpu/cpu.h"
#include "layers/blocked/pixels.h"
#include "layers/cpu/weighted.h"
#include "layers/blocked/winograd.h"

/* The gradient of the weight in bf16, by our own kernel where there is one. With one pixel a result
 * the library's product of matrices is as fast. */
static bool by_amx(const dt_call *c, dt_amx_weights *s)
{
    const dt_conv *o = c->node->opts;
    const dt_shape x = dt_call_x(c), y = c->node->info.y;
    *s = (dt_amx_weights){c->n, x.c, x.h, x.w, y.c, y.h, y.w, o->kernel, o->stride, o->pad};
    return c->dtype == DT_BF16 && !o->bias && o->groups == 1 && o->dilation == 1 &&
           !(o->kernel == 1 && o->stride == 1) && dt_amx_weights_can(s);
}

/* Whether Winograd's algorithm is a way of the layer's besides the library's, which takes fewer
 * bytes and is slower. The rule knows the shape of one sample only, so every batch has the weight
 * in the same order. With few channels the transforms cost more than they save. */
static bool has_winograd(const dt_call *c, dt_winograd *s)
{
    enum { LEAST = 64, WHOLE = 16 };
    const dt_conv *o = c->node->opts;
    const dt_shape x = dt_call_x(c), y = c->node->info.y;
    *s = (dt_winograd){c->n, x.h, x.w, x.c, y.h, y.w, y.c, o->pad};
    return c->dtype == DT_F32 && o->kernel == 3 && o->stride == 1 && o->dilation == 1 &&
           o->groups == 1 && o->pad <= 2 && x.c >= LEAST && y.c >= LEAST && x.c % WHOLE == 0 &&
           y.c % WHOLE == 0;
}

static dt_dnnl_problem problem(const dt_call *c)
{
    const dt_conv *o = c->node->opts;
    const dt_shape x = dt_call_x(c), y = c->node->info.y;
    dt_amx_weights amx;
    dt_winograd s;
    return (dt_dnnl_problem){.bias = o->bias,
        .taps = by_amx(c, &amx) || has_winograd(c, &s),
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

static void winograd_facts(const dt_call *c, const dt_winograd *s, dt_facts *f)
{
    const dt_winograd turned = dt_winograd_turned(s);
    const bool data = c->form == DT_BACKWARD2;
    *f = (dt_facts){0};
    snprintf(f->impl, sizeof f->impl, "winograd:2x2_3x3");
    if (c->form == DT_BACKWARD) {
        f->work_bytes = dt_winograd_gradient_work(s);
    } else if (c->form != DT_DERIVE_F && c->form != DT_DERIVE_B) {
        f->work_bytes = dt_winograd_work(data ? &turned : s);
        f->derived_bytes = dt_winograd_weight_bytes(data ? &turned : s);
    }
}

static void winograd_run(const dt_call *c, const dt_winograd *s, const dt_args *a)
{
    const dt_winograd turned = dt_winograd_turned(s);
    const dt_conv *o = c->node->opts;
    void *const *port = a->port;
    switch (c->form) {
    case DT_FORWARD:
    case DT_CLONE:
    case DT_EVAL:
        dt_winograd_run(
            s, port[DT_X], port[DT_D], o->bias ? port[DT_P + 1] : NULL, port[DT_Y], port[DT_WORK]);
        break;
    case DT_BACKWARD:
        dt_winograd_gradient(s, port[DT_X], port[DT_DY], port[DT_DP],
            o->bias ? port[DT_DP + 1] : NULL, port[DT_WORK]);
        break;
    case DT_BACKWARD2:
        dt_winograd_run(&turned, port[DT_DY], port[DT_D + 1], NULL, port[DT_DX], port[DT_WORK]);
        break;
    case DT_DERIVE_F:
        dt_winograd_weight(s, false, port[DT_P], port[DT_D]);
        break;
    case DT_DERIVE_B:
        dt_winograd_weight(&turned, true, port[DT_P], port[DT_D + 1]);
        break;
    case DT_RESTORE: /* a gradient is never in another order */
    case DT_UPDATE:
    case DT_FORMS:
        DT_ASSERT(false);
    }
}

/* Backward-data in bf16 as a convolution of dy, by our own kernel: forward the library's is as
 * fast. The weight lives as its gradient by_amx does. */
static bool by_amx_data(const dt_call *c, dt_amx_conv *s)
{
    const dt_conv *o = c->node->opts;
    const dt_shape x = dt_call_x(c), y = c->node->info.y;
    dt_amx_weights weights;
    *s = dt_amx_conv_turned(&(dt_amx_conv){c->n, x.h, x.w, x.c, y.h, y.w, y.c, o->pad});
    return (c->form == DT_BACKWARD2 || c->form == DT_DERIVE_B) && by_amx(c, &weights) &&
           o->kernel == 3 && o->stride == 1 && o->pad <= 2 && dt_amx_conv_can(s);
}

static void amx_data_facts(const dt_call *c, const dt_amx_conv *s, dt_facts *f)
{
    *f = (dt_facts){0};
    snprintf(f->impl, sizeof f->impl, "amx");
    if (c->form == DT_BACKWARD2) {
        f->work_bytes = dt_amx_conv_work(s);
        f->derived_bytes = dt_amx_conv_weight_bytes(s);
    }
}

static void amx_data_run(const dt_call *c, const dt_amx_conv *s, const dt_args *a)
{
    void *const *port = a->port;
    if (c->form == DT_DERIVE_B)
        dt_amx_conv_weight(s, true, port[DT_P], port[DT_D + 1]);
    else
        dt_amx_conv_run(s, port[DT_DY], port[DT_D + 1], port[DT_DX], port[DT_WORK]);
}

/* Of a layer that has both. */
static dt_status both(const dt_call *c, const dt_winograd *s, dt_algorithms *all, dt_err *err)
{
    const dt_dnnl_problem p = problem(c);
    dt_facts f;
    all->n = 0;
    winograd_facts(c, s, &f);
    dt_algorithms_add(all, f.impl, dt_facts_bytes(&f));
    DT_CHECK(dt_weighted_facts(&p, c, &f, err));
    dt_algorithms_add(all, f.impl, dt_facts_bytes(&f));
    return DT_OK;
}

/* The ops that bring a weight into another layout go with those that they serve. */
static dt_status algorithms(const dt_call *c, dt_algorithms *all, dt_err *err)
{
    dt_winograd s;
    all->n = 0;
    if (!has_winograd(c, &s) || c->form == DT_DERIVE_F || c->form == DT_DERIVE_B ||
        c->form == DT_RESTORE)
        return DT_OK;
    return both(c, &s, all, err);
}

/* Whether Winograd's algorithm is the one within the op's workspace limit. */
static dt_status by_winograd(const dt_call *c, dt_winograd *s, bool *yes, dt_err *err)
{
    dt_call served = *c;
    dt_algorithms all;
    *yes = has_winograd(c, s);
    if (!*yes || c->workspace_limit == DT_LIMIT_ANY)
        return DT_OK;
    served.form = dt_direction_form(dt_form_direction(c->form));
    DT_CHECK(both(&served, s, &all, err));
    *yes = dt_algorithms_within(&all, c->workspace_limit) == 0;
    return DT_OK;
}

static bool by_pixels(const dt_call *c, const dt_dnnl_problem *p)
{
    return c->form == DT_BACKWARD2 && dt_pixels_serve(p);
}

static dt_status facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    const dt_dnnl_problem p = problem(c);
    dt_winograd s;
    dt_amx_weights amx;
    dt_amx_conv data;
    bool ours;
    DT_CHECK(by_winograd(c, &s, &ours, err));
    if (ours) {
        winograd_facts(c, &s, f);
    } else if (by_amx_data(c, &data)) {
        amx_data_facts(c, &data, f);
    } else if (c->form == DT_BACKWARD && by_amx(c, &amx)) {
        *f = (dt_facts){.work_bytes = dt_amx_weights_work(&amx)};
        snprintf(f->impl, sizeof f->impl, "amx");
    } else {
        DT_CHECK(dt_weighted_facts(&p, c, f, err));
        if (by_pixels(c, &p)) {
            f->work_bytes = dt_pixels_work();
            snprintf(f->impl, sizeof f->impl, "pixels");
        }
    }
    return DT_OK;
}

/* Kernels of ours have no state. */
static dt_status create(const dt_call *c, void **state, dt_err *err)
{
    const dt_dnnl_problem p = problem(c);
    dt_winograd s;
    dt_amx_weights amx;
    dt_amx_conv data;
    bool ours;
    *state = NULL;
    DT_CHECK(by_winograd(c, &s, &ours, err));
    ours = ours || by_amx_data(c, &data) || by_pixels(c, &p) ||
           (c->form == DT_BACKWARD && by_amx(c, &amx));
    return ours ? DT_OK : dt_weighted_create(&p, c, state, err);
}

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    const dt_dnnl_problem p = problem(c);
    dt_winograd s;
    dt_amx_weights amx;
    dt_amx_conv data;
    if (state != NULL)
        return dt_weighted_run(c, state, a, err);
    if (has_winograd(c, &s))
        winograd_run(c, &s, a);
    else if (by_amx_data(c, &data))
        amx_data_run(c, &data, a);
    else if (by_pixels(c, &p))
        dt_pixels_run(
            &p, c->n, a->port[DT_DY], a->port[DT_D + 1], a->port[DT_DX], a->port[DT_WORK]);
    else if (by_amx(c, &amx))
        dt_amx_weights_run(
            &amx, a->port[DT_X], a->port[DT_DY], a->port[DT_DP], false, a->port[DT_WORK]);
    return DT_OK;
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
    .run = run,
    .param_bytes = param_bytes,
    .param_put = param_put,
    .param_get = param_get,
    .algorithms = algorithms,
};
