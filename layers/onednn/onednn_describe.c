/* What the library is asked for: descriptions of memories, and of each direction's primitive. */
#include <inttypes.h>
#include <pthread.h>

#include "layers/onednn/onednn_parts.h"

#if DNNL_VERSION_MAJOR != 2
#error "written for the operation descriptors of oneDNN 2; version 3 creates primitives differently"
#endif

dt_status dti_dnnl_failed(dnnl_status_t s, const char *call, dt_err *err)
{
    const char *why = s == dnnl_out_of_memory       ? "out of memory"
                      : s == dnnl_invalid_arguments ? "invalid arguments"
                      : s == dnnl_unimplemented     ? "not available for this shape"
                                                    : "failed";
    const dt_status code = s == dnnl_out_of_memory       ? DT_E_NOMEM
                           : s == dnnl_invalid_arguments ? DT_E_INTERNAL
                                                         : DT_E_DEVICE;
    return DT_FAIL(err, code, "oneDNN: %s: %s (%d)", call, why, (int)s);
}

dti_dnnl_library dti_dnnl;
static dnnl_status_t started;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void start(void)
{
    started = dnnl_engine_create(&dti_dnnl.engine, dnnl_cpu, 0);
    if (started == dnnl_success)
        started = dnnl_primitive_attr_create(&dti_dnnl.attr);
    if (started == dnnl_success)
        started = dnnl_primitive_attr_set_scratchpad_mode(dti_dnnl.attr, dnnl_scratchpad_mode_user);
}

dt_status dti_dnnl_ready(dt_err *err)
{
    pthread_once(&once, start);
    return started == dnnl_success ? DT_OK : dti_dnnl_failed(started, "starting its engine", err);
}

dt_status dti_dnnl_weight(
    const dt_dnnl_problem *p, bool plain, bool bf16, dnnl_memory_desc_t *d, dt_err *err)
{
    const dnnl_dims_t fc = {p->out, p->c}, dense = {p->out, p->c, p->kernel, p->kernel};
    const dnnl_dims_t grouped = {
        p->groups, p->out / p->groups, p->c / p->groups, p->kernel, p->kernel};
    const int rank = p->fc ? 2 : p->groups > 1 ? 5 : 4;
    const dnnl_format_tag_t tag = !plain      ? dnnl_format_tag_any
                                  : rank == 2 ? dnnl_ab
                                  : rank == 4 ? dnnl_abcd
                                              : dnnl_abcde;
    DT_ONEDNN_TRY(err, dnnl_memory_desc_init_by_tag(d, rank,
                           rank == 2   ? fc
                           : rank == 4 ? dense
                                       : grouped,
                           bf16 ? dnnl_bf16 : dnnl_f32, tag));
    return DT_OK;
}

/* The weight of one tap in columns of DT_DNNL_PANEL input channels. */
dt_status dti_dnnl_panels(const dt_dnnl_problem *p, dnnl_memory_desc_t *d, dt_err *err)
{
    DT_ASSERT(p->groups == 1 && p->kernel == 1 && p->c % DT_DNNL_PANEL == 0);
    DT_CHECK(dti_dnnl_weight(p, true, false, d, err));
    dnnl_blocking_desc_t *b = &d->format_desc.blocking;
    b->strides[0] = b->strides[2] = b->strides[3] = DT_DNNL_PANEL;
    b->strides[1] = DT_DNNL_PANEL * p->out;
    b->inner_nblks = 1;
    b->inner_blks[0] = DT_DNNL_PANEL;
    b->inner_idxs[0] = 1;
    return DT_OK;
}

dt_status dti_dnnl_taps(const dt_dnnl_problem *p, dnnl_memory_desc_t *d, dt_err *err)
{
    const dnnl_dims_t dims = {p->out, p->c, p->kernel, p->kernel};
    DT_ONEDNN_TRY(err, dnnl_memory_desc_init_by_tag(d, 4, dims, dnnl_f32, dnnl_hwio));
    return DT_OK;
}

dt_status dti_dnnl_descs(
    const dt_dnnl_problem *p, dt_dnnl_layout way, dti_dnnl_memories *d, dt_err *err)
{
    const int64_t n = way.n;
    const dnnl_data_type_t t = p->bf16 ? dnnl_bf16 : dnnl_f32;
    const dnnl_dims_t x = {n, p->c, p->h, p->w}, y = {n, p->out, p->p, p->q}, bias = {p->out};
    const int rank = p->fc ? 2 : 4;
    const dnnl_format_tag_t tag = p->fc ? dnnl_ab : dnnl_nhwc;
    DT_ONEDNN_TRY(err, dnnl_memory_desc_init_by_tag(&d->x, rank, x, t, tag));
    DT_ONEDNN_TRY(err, dnnl_memory_desc_init_by_tag(&d->y, rank, y, t, tag));
    DT_ONEDNN_TRY(err, dnnl_memory_desc_init_by_tag(&d->bias, 1, bias, dnnl_f32, dnnl_a));
    return dti_dnnl_weight(p, false, p->bf16 && way.way != DT_DNNL_WEIGHTS, &d->weight, err);
}

/* The operation descriptors of one direction: of a convolution ... */
static dnnl_status_t conv_pd(const dt_dnnl_problem *p, const dti_dnnl_memories *d, dt_dnnl_way way,
    const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *pd)
{
    const dnnl_dims_t stride = {p->stride, p->stride}, pad = {p->pad, p->pad};
    const dnnl_dims_t gap = {p->dilation - 1, p->dilation - 1}; /* 0 is dense here */
    const dnnl_memory_desc_t *bias = p->bias ? &d->bias : NULL;
    dnnl_convolution_desc_t op;
    dnnl_status_t s;
    if (way == DT_DNNL_FORWARD)
        s = dnnl_dilated_convolution_forward_desc_init(&op, dnnl_forward_training,
            dnnl_convolution_direct, &d->x, &d->weight, bias, &d->y, stride, gap, pad, pad);
    else if (way == DT_DNNL_DATA)
        s = dnnl_dilated_convolution_backward_data_desc_init(
            &op, dnnl_convolution_direct, &d->x, &d->weight, &d->y, stride, gap, pad, pad);
    else
        s = dnnl_dilated_convolution_backward_weights_desc_init(
            &op, dnnl_convolution_direct, &d->x, &d->weight, bias, &d->y, stride, gap, pad, pad);
    return s == dnnl_success
               ? dnnl_primitive_desc_create(pd, &op, dti_dnnl.attr, dti_dnnl.engine, hint)
               : s;
}

/* ... and of an inner product. */
static dnnl_status_t fc_pd(const dt_dnnl_problem *p, const dti_dnnl_memories *d, dt_dnnl_way way,
    const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *pd)
{
    const dnnl_memory_desc_t *bias = p->bias ? &d->bias : NULL;
    dnnl_inner_product_desc_t op;
    dnnl_status_t s;
    if (way == DT_DNNL_FORWARD)
        s = dnnl_inner_product_forward_desc_init(
            &op, dnnl_forward_training, &d->x, &d->weight, bias, &d->y);
    else if (way == DT_DNNL_DATA)
        s = dnnl_inner_product_backward_data_desc_init(&op, &d->x, &d->weight, &d->y);
    else
        s = dnnl_inner_product_backward_weights_desc_init(&op, &d->x, &d->weight, bias, &d->y);
    return s == dnnl_success
               ? dnnl_primitive_desc_create(pd, &op, dti_dnnl.attr, dti_dnnl.engine, hint)
               : s;
}

/* In bf16 the backward passes of a convolution that looks at one pixel are faster as products of
 * matrices whose rows are pixels, and the library's convolution backward-weights has its threads
 * wait for each other by spinning, which on a shared machine takes up to a hundred times as long
 * (2.6.3). The weight is then plain in both. */
bool dti_dnnl_by_product(const dt_dnnl_problem *p, dt_dnnl_way way)
{
    return p->bf16 && !p->fc && p->kernel == 1 && p->stride == 1 && p->pad == 0 && p->groups == 1 &&
           (way == DT_DNNL_DATA || (way == DT_DNNL_WEIGHTS && !p->bias));
}

/* dx = dy weight, or dweight = dy^T x. */
static dt_status product_pd(
    const dt_dnnl_problem *p, dt_dnnl_layout way, dnnl_primitive_desc_t *pd, dt_err *err)
{
    const bool data = way.way == DT_DNNL_DATA;
    const int64_t pixels = way.n * p->h * p->w;
    const dnnl_dims_t dy = {pixels, p->out}, turned = {p->out, pixels}, x = {pixels, p->c},
                      weight = {p->out, p->c};
    dnnl_memory_desc_t a, b, c;
    dnnl_matmul_desc_t op;
    DT_ONEDNN_TRY(err, dnnl_memory_desc_init_by_tag(
                           &a, 2, data ? dy : turned, dnnl_bf16, data ? dnnl_ab : dnnl_ba));
    DT_ONEDNN_TRY(err, dnnl_memory_desc_init_by_tag(&b, 2, data ? weight : x, dnnl_bf16, dnnl_ab));
    DT_ONEDNN_TRY(err, dnnl_memory_desc_init_by_tag(
                           &c, 2, data ? x : weight, data ? dnnl_bf16 : dnnl_f32, dnnl_ab));
    DT_ONEDNN_TRY(err, dnnl_matmul_desc_init(&op, &a, &b, NULL, &c));
    DT_ONEDNN_TRY(err, dnnl_primitive_desc_create(pd, &op, dti_dnnl.attr, dti_dnnl.engine, NULL));
    return DT_OK;
}

dt_status dti_dnnl_pd(
    const dt_dnnl_problem *p, dt_dnnl_layout way, dnnl_primitive_desc_t *pd, dt_err *err)
{
    dti_dnnl_memories d;
    *pd = NULL;
    DT_CHECK(dti_dnnl_ready(err));
    if (dti_dnnl_by_product(p, way.way))
        return product_pd(p, way, pd, err);
    DT_CHECK(dti_dnnl_descs(p, (dt_dnnl_layout){DT_DNNL_FORWARD, way.n}, &d, err));
    dnnl_primitive_desc_t forward = NULL;
    dnnl_status_t s = (p->fc ? fc_pd : conv_pd)(p, &d, DT_DNNL_FORWARD, NULL, &forward);
    if (s == dnnl_success && way.way == DT_DNNL_FORWARD) {
        *pd = forward;
        return DT_OK;
    }
    dt_status st = DT_OK;
    if (s == dnnl_success)
        st = dti_dnnl_descs(p, way, &d, err);
    if (s == dnnl_success && st == DT_OK)
        s = (p->fc ? fc_pd : conv_pd)(p, &d, way.way, forward, pd);
    if (forward != NULL)
        dnnl_primitive_desc_destroy(forward);
    if (s == dnnl_success)
        return st;
    return DT_FAIL(err, dti_dnnl_failed(s, "creating a primitive", err),
        "%s with %" PRId64 "x%" PRId64 "x%" PRId64 " -> %" PRId64 ", kernel %" PRId64 ", %" PRId64
        " samples",
        p->fc ? "fc" : "conv", p->h, p->w, p->c, p->out, p->kernel, way.n);
}

/* Which of a primitive's memories is its weight. */
const dnnl_memory_desc_t *dti_dnnl_weight_of(const_dnnl_primitive_desc_t pd, dt_dnnl_way way)
{
    return dnnl_primitive_desc_query_md(
        pd, way == DT_DNNL_WEIGHTS ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0);
}
