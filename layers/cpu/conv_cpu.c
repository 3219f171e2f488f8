/* Convolutions on the processor: the library's, and kernels of ours where they are faster. */
#include "layers/weighted/conv.h"

#include <inttypes.h>
#include <stdio.h>

#include "engine/implementations.h"
#include "layers/blocked/amx.h"
#include "layers/blocked/amx_conv.h"
#include "layers/blocked/amx_weights.h"
#include "layers/blocked/bf16.h"
#include "layers/blocked/implicit_gemm.h"
#include "layers/blocked/pixel_pairs.h"
#include "layers/blocked/pixels.h"
#include "layers/blocked/product.h"
#include "layers/blocked/winograd.h"
#include "layers/cpu/cpu.h"
#include "layers/cpu/weighted.h"

/* Whether the layer is what kernels for dense 3 x 3 convolutions compute. */
static bool three_by_three(const dt_call *c, dt_why *why)
{
    enum { MOST_PAD = 2 };
    const dt_conv *o = c->node->opts;
    if (o->kernel != 3)
        return dt_refuse(why, "kernel %s, needs 3", dt_sides_print(o->kernel).s);
    if (o->stride != 1)
        return dt_refuse(why, "stride %s, needs 1", dt_sides_print(o->stride).s);
    if (o->dilation != 1)
        return dt_refuse(why, "dilation %" PRId64 ", needs 1", o->dilation);
    if (o->groups != 1)
        return dt_refuse(why, "%" PRId64 " groups, needs 1", o->groups);
    if (o->pad > MOST_PAD)
        return dt_refuse(why, "padding %s, at most %d", dt_sides_print(o->pad).s, (int)MOST_PAD);
    return true;
}

/* --- Winograd's algorithm --- */

static dti_winograd winograd_of(const dt_call *c)
{
    const dt_conv *o = c->node->opts;
    const dt_shape x = dti_call_x(c), y = c->node->info.y;
    return (dti_winograd){c->n, x.h, x.w, x.c, y.h, y.w, y.c, o->pad, c->dtype};
}

/* The rule knows the shape of one sample only, so where bytes are no limit one algorithm computes
 * batches of any size. With few channels, or tiles that reach far beyond the image, the transforms
 * cost more than they save, which is half as much where plain products of bf16 take half the time.
 */
static bool winograd_accepts(const dt_call *c, dt_why *why)
{
    enum { LEAST = 32, LEAST_BF16 = 64, WHOLE = 16 };
    const int64_t least = c->dtype == DT_BF16 && dt_bf16_pays() ? LEAST_BF16 : LEAST;
    const dt_shape y = c->node->info.y;
    const int64_t in = dti_call_x(c).c, out = c->node->info.y.c, few = in < out ? in : out;
    if (c->dtype == DT_BF16 && dti_amx_here())
        return dt_refuse(why, "bf16, for which AMX is faster");
    if (!three_by_three(c, why))
        return false;
    if (few < least)
        return dt_refuse(why, "%" PRId64 " channels, needs at least %" PRId64, few, least);
    if (in % WHOLE != 0 || out % WHOLE != 0)
        return dt_refuse(why, "%" PRId64 " channels, needs a multiple of %d",
            in % WHOLE != 0 ? in : out, (int)WHOLE);
    if (!dti_winograd_saves(y.h, y.w))
        return dt_refuse(why, "%" PRId64 " x %" PRId64 " results: tiles save too little", y.h, y.w);
    return true;
}

static dt_status winograd_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    const dti_winograd s = winograd_of(c), transposed = dti_winograd_transposed(&s);
    const bool data = c->form == DT_BACKWARD2;
    snprintf(f->impl, sizeof f->impl, "winograd:4x4_3x3");
    if (c->form == DT_BACKWARD) {
        f->work_bytes = dti_winograd_gradient_work(&s);
        f->adds = true;
    } else if (c->form != DT_DERIVE_F && c->form != DT_DERIVE_B) {
        f->work_bytes = dti_winograd_work(data ? &transposed : &s);
        f->derived_bytes = dti_winograd_weight_bytes(data ? &transposed : &s);
    }
    return DT_OK;
}

static dt_status winograd_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const dti_winograd s = winograd_of(c), transposed = dti_winograd_transposed(&s);
    const dt_conv *o = c->node->opts;
    void *const *port = a->port;
    switch (c->form) {
    case DT_FORWARD:
    case DT_RECOMPUTE:
    case DT_EVAL:
        dti_winograd_run(&s, false, port[DT_X], port[DT_D], o->bias ? port[DT_P + 1] : NULL,
            port[DT_Y], port[DT_WORK]);
        return DT_OK;
    case DT_BACKWARD:
        dti_winograd_gradient(&s, port[DT_X], port[DT_DY], port[DT_DP],
            o->bias ? port[DT_DP + 1] : NULL, c->add, port[DT_WORK]);
        return DT_OK;
    case DT_BACKWARD2:
        dti_winograd_run(
            &transposed, true, port[DT_DY], port[DT_D + 1], NULL, port[DT_DX], port[DT_WORK]);
        return DT_OK;
    case DT_DERIVE_F:
        dti_winograd_weight(&s, false, port[DT_P], port[DT_D]);
        return DT_OK;
    case DT_DERIVE_B:
        dti_winograd_weight(&transposed, true, port[DT_P], port[DT_D + 1]);
        return DT_OK;
    case DT_RESTORE: /* a gradient is never in another order */
    case DT_UPDATE:
    case DT_FORMS:
        break;
    }
    return dti_weighted_no_form(c, err);
}

/* --- gradients of the weight --- */

/* Whether the layer is what kernels for the weight's gradient compute. */
static bool plain_and_square(const dt_call *c, dt_why *why)
{
    const dt_conv *o = c->node->opts;
    if (o->bias)
        return dt_refuse(why, "has a bias");
    if (o->groups != 1)
        return dt_refuse(why, "%" PRId64 " groups, needs 1", o->groups);
    if (o->dilation != 1)
        return dt_refuse(why, "dilation %" PRId64 ", needs 1", o->dilation);
    if (!dt_sides_square(o->kernel) || !dt_sides_square(o->stride) || !dt_sides_square(o->pad))
        return dt_refuse(why, "height and width of kernel, stride or padding differ");
    return true;
}

static dti_weight_gradient weight_gradient_of(const dt_call *c)
{
    const dt_conv *o = c->node->opts;
    const dt_shape x = dti_call_x(c), y = c->node->info.y;
    return (dti_weight_gradient){
        c->n, x.c, x.h, x.w, y.c, y.h, y.w, o->kernel, o->stride, o->pad, c->dtype == DT_BF16};
}

static bool implicit_gemm_accepts(const dt_call *c, dt_why *why)
{
    if (!plain_and_square(c, why))
        return false;
    const dti_weight_gradient g = weight_gradient_of(c);
    return dti_implicit_gemm_accepts(&g, why);
}

static dt_status implicit_gemm_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    const dti_weight_gradient g = weight_gradient_of(c);
    snprintf(f->impl, sizeof f->impl, "implicit_gemm");
    f->work_bytes = dti_implicit_gemm_work(&g);
    f->adds = true;
    return DT_OK;
}

static dt_status implicit_gemm_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    if (c->form != DT_BACKWARD) /* a gradient is never in another order */
        return dti_weighted_no_form(c, err);
    const dti_weight_gradient g = weight_gradient_of(c);
    dti_implicit_gemm_run(
        &g, a->port[DT_X], a->port[DT_DY], a->port[DT_DP], c->add != 0, a->port[DT_WORK]);
    return DT_OK;
}

/* --- AMX tiles --- */

/* The gradient of the weight. With one pixel a result the library's product of matrices is as fast.
 */
static bool amx_weights_accepts(const dt_call *c, dt_why *why)
{
    const dt_conv *o = c->node->opts;
    const dti_weight_gradient g = weight_gradient_of(c);
    if (!plain_and_square(c, why))
        return false;
    if (o->kernel == 1 && o->stride == 1)
        return dt_refuse(why, "one pixel a result: a product of matrices is as fast");
    return dti_amx_weights_can(&g, why);
}

static dt_status amx_weights_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    const dti_weight_gradient g = weight_gradient_of(c);
    snprintf(f->impl, sizeof f->impl, "amx");
    f->work_bytes = dti_amx_weights_work(&g);
    f->adds = true;
    return DT_OK;
}

static dt_status amx_weights_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const dti_weight_gradient g = weight_gradient_of(c);
    if (c->form != DT_BACKWARD) /* a gradient is never in another order */
        return dti_weighted_no_form(c, err);
    dti_amx_weights_run(
        &g, a->port[DT_X], a->port[DT_DY], a->port[DT_DP], c->add != 0, a->port[DT_WORK]);
    return DT_OK;
}

/* Backward-data as a convolution of dy. */
static dti_amx_conv amx_data_of(const dt_call *c)
{
    const dt_conv *o = c->node->opts;
    const dt_shape x = dti_call_x(c), y = c->node->info.y;
    return dti_amx_conv_transposed(&(dti_amx_conv){c->n, x.h, x.w, x.c, y.h, y.w, y.c, o->pad});
}

/* Forward the library's is as fast. The weight lives as amx_weights has it. */
static bool amx_data_accepts(const dt_call *c, dt_why *why)
{
    const dti_amx_conv s = amx_data_of(c);
    return amx_weights_accepts(c, why) && three_by_three(c, why) && dti_amx_conv_can(&s, why);
}

static dt_status amx_data_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    const dti_amx_conv s = amx_data_of(c);
    snprintf(f->impl, sizeof f->impl, "amx");
    if (c->form == DT_BACKWARD2) {
        f->work_bytes = dti_amx_conv_work(&s);
        f->derived_bytes = dti_amx_conv_weight_bytes(&s);
    }
    return DT_OK;
}

static dt_status amx_data_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const dti_amx_conv s = amx_data_of(c);
    void *const *port = a->port;
    if (c->form == DT_DERIVE_B)
        dti_amx_conv_weight(&s, true, port[DT_P], port[DT_D + 1]);
    else
        dti_amx_conv_run(&s, port[DT_DY], port[DT_D + 1], port[DT_DX], port[DT_WORK]);
    return DT_OK;
}

/* --- a product of widened pixels --- */

/* Where bf16 is what values are kept in: they are widened as the product copies them, and the
 * weight is read as it lives. */
static bool product_accepts(const dt_call *c, dt_why *why)
{
    const dt_conv *o = c->node->opts;
    if (c->dtype != DT_BF16 || dt_bf16_pays())
        return dt_refuse(why, "only for bf16, on processors without fast bf16 instructions");
    if (o->kernel != 1 || o->stride != 1 || o->pad != 0)
        return dt_refuse(why, "kernel %s, stride %s, padding %s, needs 1, 1 and 0",
            dt_sides_print(o->kernel).s, dt_sides_print(o->stride).s, dt_sides_print(o->pad).s);
    return o->groups == 1 || dt_refuse(why, "%" PRId64 " groups, needs 1", o->groups);
}

/* Of [pixels][in] and [in][out], or of [pixels][out] and that turned. */
static dti_product_opts product_of(const dt_call *c)
{
    const dt_conv *o = c->node->opts;
    const dt_shape x = dti_call_x(c);
    const int64_t pixels = c->n * x.h * x.w, in = x.c, out = o->out;
    if (c->form == DT_BACKWARD2)
        return (dti_product_opts){pixels, in, out, .a = {NULL, out, 1, DT_BF16},
            .b = {NULL, 1, out, DT_F32}, .c_row = in, .c_type = DT_BF16};
    return (dti_product_opts){pixels, out, in, .a = {NULL, in, 1, DT_BF16},
        .b = {NULL, out, 1, DT_F32}, .c_row = out, .c_type = DT_BF16};
}

static dt_status product_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    const dti_product_opts p = product_of(c);
    snprintf(f->impl, sizeof f->impl, "product");
    if (c->form != DT_DERIVE_F && c->form != DT_DERIVE_B)
        f->work_bytes = dti_product_bytes(p.m, p.n);
    return DT_OK;
}

static dt_status product_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const dt_conv *o = c->node->opts;
    void *const *port = a->port;
    dti_product_opts p = product_of(c);
    p.work = port[DT_WORK];
    if (c->form == DT_DERIVE_F || c->form == DT_DERIVE_B) /* it has no copy */
        return dti_weighted_no_form(c, err);
    if (c->form == DT_BACKWARD2) {
        p.a.p = port[DT_DY];
        p.b.p = port[DT_D + 1];
        p.c = port[DT_DX];
    } else {
        p.a.p = port[DT_X];
        p.b.p = port[DT_D];
        p.bias = o->bias ? port[DT_P + 1] : NULL;
        p.c = port[DT_Y];
    }
    dti_product_run(&p);
    return DT_OK;
}

/* --- the library --- */

/* Kernels of ours that a layer may take want its weight to live as HWIO, whichever is chosen. */
static dt_dnnl_problem problem(const dt_call *c)
{
    const dt_conv *o = c->node->opts;
    const dt_shape x = dti_call_x(c), y = c->node->info.y;
    return (dt_dnnl_problem){.bias = o->bias,
        .hwio = amx_weights_accepts(c, NULL) || winograd_accepts(c, NULL) ||
                implicit_gemm_accepts(c, NULL) || product_accepts(c, NULL),
        .bf16 = c->dtype == DT_BF16,
        DTI_CONV_SHAPE(o, x, y)};
}

DTI_WEIGHTED_LIBRARY(problem);

/* --- a product over pixels --- */

static dti_pixels pixels_of(const dt_call *c)
{
    const dt_conv *o = c->node->opts;
    const dt_shape x = dti_call_x(c), y = c->node->info.y;
    return (dti_pixels){c->n, x.h, x.w, x.c, y.h, y.w, y.c, o->stride};
}

static bool one_pixel(const dt_call *c, dt_why *why)
{
    const dt_conv *o = c->node->opts;
    if (o->kernel != 1 || o->pad != 0)
        return dt_refuse(why, "kernel %s, padding %s, needs 1 and 0", dt_sides_print(o->kernel).s,
            dt_sides_print(o->pad).s);
    return o->groups == 1 || dt_refuse(why, "%" PRId64 " groups, needs 1", o->groups);
}

_Static_assert((int)DTI_PIXELS_PANEL == (int)DTI_DNNL_PANEL, "the weight as the product reads it");

/* The library reorders the weight for it. */
static dt_dnnl_problem pixels_problem(const dt_call *c)
{
    dt_dnnl_problem p = problem(c);
    p.panels = 1;
    return p;
}

static bool pixels_accepts(const dt_call *c, dt_why *why)
{
    const dti_pixels s = pixels_of(c);
    if (c->dtype != DT_F32)
        return dt_refuse(why, "bf16, needs fp32");
    return one_pixel(c, why) && dti_pixels_accepts(&s, why);
}

static dt_status pixels_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    const dt_dnnl_problem p = pixels_problem(c);
    DT_CHECK(dti_weighted_facts(&p, c, f, err));
    if (c->form == DT_BACKWARD2) {
        f->work_bytes = dti_pixels_work();
        snprintf(f->impl, sizeof f->impl, "pixels");
    }
    return DT_OK;
}

static dt_status pixels_create(const dt_call *c, void **state, dt_err *err)
{
    const dt_dnnl_problem p = pixels_problem(c);
    *state = NULL;
    return c->form == DT_BACKWARD2 ? DT_OK : dti_weighted_create(&p, c, state, err);
}

static dt_status pixels_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    const dti_pixels s = pixels_of(c);
    if (c->form != DT_BACKWARD2)
        return dti_weighted_run(c, state, a, err);
    dti_pixels_run(&s, a->port[DT_DY], a->port[DT_D + 1], a->port[DT_DX], a->port[DT_WORK]);
    return DT_OK;
}

/* The same of pairs of bf16. The weight lives as its gradient by implicit_gemm has it. */
static bool pixel_pairs_accepts(const dt_call *c, dt_why *why)
{
    const dti_pixels s = pixels_of(c);
    if (c->dtype != DT_BF16)
        return dt_refuse(why, "fp32, needs bf16");
    return one_pixel(c, why) && implicit_gemm_accepts(c, why) && dti_pixel_pairs_accepts(&s, why);
}

static dt_status pixel_pairs_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    const dti_pixels s = pixels_of(c);
    snprintf(f->impl, sizeof f->impl, "pixel_pairs");
    if (c->form == DT_BACKWARD2)
        f->derived_bytes = dti_pixel_pairs_weight_bytes(&s);
    return DT_OK;
}

static dt_status pixel_pairs_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const dti_pixels s = pixels_of(c);
    void *const *port = a->port;
    if (c->form == DT_DERIVE_B)
        dti_pixel_pairs_weight(&s, port[DT_P], port[DT_D + 1]);
    else
        dti_pixel_pairs_run(&s, port[DT_DY], port[DT_D + 1], port[DT_DX]);
    return DT_OK;
}

/* Winograd's takes more bytes than the library, so a limit may forbid it. */
static const dt_impl conv[] = {
    {.name = "winograd",
        .accepts = winograd_accepts,
        .yields = true,
        .facts = winograd_facts,
        .run = winograd_run},
    {.name = "amx",
        .forms = DT_FORM_BIT(DT_BACKWARD2),
        .accepts = amx_data_accepts,
        .facts = amx_data_facts,
        .run = amx_data_run},
    {.name = "amx",
        .forms = DT_FORM_BIT(DT_BACKWARD),
        .accepts = amx_weights_accepts,
        .facts = amx_weights_facts,
        .run = amx_weights_run},
    {.name = "implicit_gemm",
        .forms = DT_FORM_BIT(DT_BACKWARD),
        .accepts = implicit_gemm_accepts,
        .facts = implicit_gemm_facts,
        .run = implicit_gemm_run},
    {.name = "product",
        .forms = DT_FORM_BIT(DT_FORWARD) | DT_FORM_BIT(DT_BACKWARD2),
        .accepts = product_accepts,
        .facts = product_facts,
        .run = product_run},
    {.name = "pixel_pairs",
        .forms = DT_FORM_BIT(DT_BACKWARD2),
        .accepts = pixel_pairs_accepts,
        .facts = pixel_pairs_facts,
        .run = pixel_pairs_run},
    {.name = "pixels",
        .forms = DT_FORM_BIT(DT_BACKWARD2),
        .accepts = pixels_accepts,
        .facts = pixels_facts,
        .create = pixels_create,
        .destroy = dti_weighted_destroy,
        .run = pixels_run},
    {.name = "oneDNN",
        .facts = library_facts,
        .create = library_create,
        .destroy = dti_weighted_destroy,
        .run = dti_weighted_run},
    {0},
};
DT_IMPLS(conv);

const dt_kernels dt_conv_cpu = {
    DT_BY_IMPLS(conv),
    .param_bytes = library_bytes,
    .param_put = library_put,
    .param_get = library_get,
    .param_rows = library_rows,
};
