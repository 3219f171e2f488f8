/* The fully connected layer on the processor: the library's inner product, and products of ours
 * with large weights, which wait for memory: the library's copies of the weight in layouts of its
 * own take as long as its products. */
#include "layers/weighted/fc.h"

#include <inttypes.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/implementations.h"
#include "layers/blocked/few_rows.h"
#include "layers/cpu/cpu.h"
#include "layers/cpu/rows_product.h"
#include "layers/cpu/weighted.h"
#include "layers/weighted/weighted.h"

/* --- ours, by products of fp32 --- */

static dti_rows_product rows_of(const dt_call *c, int64_t n)
{
    const dt_fc *o = c->node->opts;
    const dt_shape x = dti_call_x(c);
    return (dti_rows_product){n, dt_shape_sample(&x), o->out, o->bias, c->dtype};
}

static bool product_accepts(const dt_call *c, dt_why *why)
{
    enum { LARGE = 1 << 20 };
    const dti_rows_product s = rows_of(c, c->n);
    if (!dti_rows_product_accepts(c->dtype, why))
        return false;
    return c->dtype != DT_F32 || s.in * s.out >= LARGE ||
           dt_refuse(why, "%" PRId64 " weights, needs at least %d", s.in * s.out, (int)LARGE);
}

DTI_ROWS_PRODUCT(rows_of);

/* --- ours, in bf16 --- */

static dti_few_rows few_rows_of(const dt_call *c, int64_t n)
{
    const dt_fc *o = c->node->opts;
    const dt_shape x = dti_call_x(c);
    return (dti_few_rows){n, dt_shape_sample(&x), o->out};
}

static bool few_rows_accepts(const dt_call *c, dt_why *why)
{
    const dti_few_rows s = few_rows_of(c, c->n);
    if (c->dtype != DT_BF16)
        return dt_refuse(why, "%s, needs bf16", dt_dtype_name(c->dtype));
    return dti_few_rows_accepts(&s, why);
}

static dt_status few_rows_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    snprintf(f->impl, sizeof f->impl, "few_rows");
    f->work_bytes = dti_few_rows_work();
    f->adds = c->form == DT_BACKWARD;
    return DT_OK;
}

static dt_status few_rows_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const dt_fc *o = c->node->opts;
    const dti_few_rows s = few_rows_of(c, a->n);
    void *const *port = a->port;
    switch (c->form) {
    case DT_FORWARD:
    case DT_RECOMPUTE:
    case DT_EVAL:
        dti_few_rows_forward(
            &s, port[DT_X], port[DT_D], o->bias ? port[DT_P + 1] : NULL, port[DT_Y], port[DT_WORK]);
        return DT_OK;
    case DT_BACKWARD:
        dti_few_rows_gradient(&s, port[DT_X], port[DT_DY], port[DT_DP],
            o->bias ? port[DT_DP + 1] : NULL, c->add, port[DT_WORK]);
        return DT_OK;
    case DT_BACKWARD2:
        dti_few_rows_data(&s, port[DT_DY], port[DT_D + 1], port[DT_DX], port[DT_WORK]);
        return DT_OK;
    case DT_DERIVE_F: /* the weight is read as it lives */
    case DT_DERIVE_B:
    case DT_RESTORE:
    case DT_UPDATE:
    case DT_FORMS:
        break;
    }
    return dti_weighted_no_form(c, err);
}

/* --- the library --- */

/* x as one vector per sample, in the order it is stored (h, w, c). What the library does itself
 * with images is slower and allocates megabytes in every call. */
static dt_dnnl_problem problem(const dt_call *c)
{
    const dt_fc *o = c->node->opts;
    const dt_shape x = dti_call_x(c);
    dt_dnnl_problem p = dti_rows_problem(c, dt_shape_sample(&x), o->out, o->bias);
    p.plain = product_accepts(c, NULL) || few_rows_accepts(c, NULL);
    return p;
}

DTI_WEIGHTED_LIBRARY(problem);

static const dt_impl fc[] = {
    {.name = "few_rows", .accepts = few_rows_accepts, .facts = few_rows_facts, .run = few_rows_run},
    {.name = "product", .accepts = product_accepts, .facts = product_facts, .run = product_run},
    {.name = "oneDNN",
        .facts = library_facts,
        .create = library_create,
        .destroy = dti_weighted_destroy,
        .run = dti_weighted_run},
    {0},
};
DT_IMPLS(fc);

/* --- the parameters --- */

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
    DT_BY_IMPLS(fc),
    .param_bytes = library_bytes,
    .param_put = param_put,
    .param_get = param_get,
    .param_rows = library_rows,
};
