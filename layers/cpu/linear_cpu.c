/* The linear layer on the processor: a product of matrices of ours in fp32, the library's inner
 * product in bf16. */
#include "layers/linear.h"

#include <string.h>

#include "engine/base/alloc.h"
#include "engine/implementations.h"
#include "layers/cpu/cpu.h"
#include "layers/blocked/product.h"
#include "layers/cpu/weighted.h"
#include "layers/weighted.h"

/* --- our product --- */

/* It takes the weight as it lies, [out, in]; the library wants layouts of its own. */
static bool product_accepts(const dt_call *c, dt_why *why)
{
    return c->dtype == DT_F32 || dt_refuse(why, "%s, needs fp32", dt_dtype_name(c->dtype));
}

/* What a form computes, but for where its operands lie. */
static dt_product product_of(const dt_call *c, int64_t n_rows)
{
    const dt_linear *o = c->node->opts;
    const int64_t in = dti_call_x(c).c, out = o->out;
    if (c->form == DT_BACKWARD)
        return (dt_product){out, in, n_rows, .a = {.row = 1, .step = out}, .b = {NULL, in, 1}};
    if (c->form == DT_BACKWARD2)
        return (dt_product){n_rows, in, out, .a = {.row = out, .step = 1}, .b = {NULL, in, 1}};
    return (dt_product){n_rows, out, in, .a = {.row = in, .step = 1}, .b = {NULL, 1, in}};
}

static dt_status product_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    const dt_shape x = dti_call_x(c);
    const dt_product p = product_of(c, c->n * x.h * x.w);
    *f = (dt_facts){.work_bytes = dti_product_bytes(p.m, p.n), .adds = true, .impl = "product"};
    return DT_OK;
}

static dt_status product_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const dt_linear *o = c->node->opts;
    const dt_shape x = dti_call_x(c);
    dt_product p = product_of(c, a->n * x.h * x.w);
    p.work = a->port[DT_WORK];
    p.c_row = p.n;
    if (c->form == DT_BACKWARD) {
        p.a.p = a->port[DT_DY];
        p.b.p = a->port[DT_X];
        p.c = a->port[DT_DP];
        p.sums = o->bias ? a->port[DT_DP + 1] : NULL;
        p.add = c->add;
    } else if (c->form == DT_BACKWARD2) {
        p.a.p = a->port[DT_DY];
        p.b.p = a->port[DT_D + 1];
        p.c = a->port[DT_DX];
    } else {
        p.a.p = a->port[DT_X];
        p.b.p = a->port[DT_D];
        p.bias = o->bias ? a->port[DT_P + 1] : NULL;
        p.c = a->port[DT_Y];
    }
    dti_product_run(&p);
    return DT_OK;
}

/* --- the library --- */

/* To the library every position of a sequence is a sample of its own. */
static dt_dnnl_problem problem(const dt_call *c)
{
    const dt_linear *o = c->node->opts;
    return dti_rows_problem(c, dti_call_x(c).c, o->out, o->bias);
}

static dt_call rows(const dt_call *c)
{
    const dt_shape x = dti_call_x(c);
    dt_call r = *c;
    r.n *= x.h * x.w;
    r.home_n *= x.h * x.w;
    return r;
}

static dt_status library_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    const dt_dnnl_problem p = problem(c);
    const dt_call r = rows(c);
    return dti_weighted_facts(&p, &r, f, err);
}

static dt_status library_create(const dt_call *c, void **state, dt_err *err)
{
    const dt_dnnl_problem p = problem(c);
    const dt_call r = rows(c);
    return dti_weighted_create(&p, &r, state, err);
}

static const dt_impl linear[] = {
    {.name = "product", .accepts = product_accepts, .facts = product_facts, .run = product_run},
    {.name = "oneDNN",
        .facts = library_facts,
        .create = library_create,
        .destroy = dti_weighted_destroy,
        .run = dti_weighted_run},
    {0},
};
DT_IMPLS(linear);

/* --- the parameters --- */

/* As our product has it, or as the library likes it. */
static bool lives_plain(const dt_call *c)
{
    return product_accepts(c, NULL);
}

static dt_status param_bytes(const dt_call *c, int i, size_t *bytes, dt_err *err)
{
    const dt_dnnl_problem p = problem(c);
    const dt_call r = rows(c);
    *bytes = dti_weighted_plain_bytes(c, i);
    return lives_plain(c) ? DT_OK : dti_weighted_bytes(&p, &r, i, bytes, err);
}

/* From and to [out, in]. */
static dt_status put(const dt_call *c, int i, const float *plain, void *lives, dt_err *err)
{
    const dt_dnnl_problem p = problem(c);
    const dt_call r = rows(c);
    if (!lives_plain(c))
        return dti_weighted_put(&p, &r, i, plain, lives, err);
    memcpy(lives, plain, dti_weighted_plain_bytes(c, i));
    return DT_OK;
}

static dt_status get(const dt_call *c, int i, const void *lives, float *plain, dt_err *err)
{
    const dt_dnnl_problem p = problem(c);
    const dt_call r = rows(c);
    if (!lives_plain(c))
        return dti_weighted_get(&p, &r, i, lives, plain, err);
    memcpy(plain, lives, dti_weighted_plain_bytes(c, i));
    return DT_OK;
}

/* Memory for the weight transposed; NULL when there is none. */
static float *transposed(const dt_call *c)
{
    return dt_alloc((size_t)dt_param_count(&c->node->info.param[0]), sizeof(float));
}

static dt_status no_memory(const dt_call *c, dt_err *err)
{
    return DT_FAIL(err, DT_E_NOMEM, "layer '%s': no memory to transpose its weight", c->node->name);
}

static dt_status param_put(const dt_call *c, int i, const float *plain, void *lives, dt_err *err)
{
    const dt_linear *o = c->node->opts;
    if (i > 0 || !o->in_out)
        return put(c, i, plain, lives, err);
    float *out_in = transposed(c);
    if (out_in == NULL)
        return no_memory(c, err);
    dti_weight_transpose(plain, out_in, 1, dti_call_x(c).c, o->out);
    const dt_status st = put(c, i, out_in, lives, err);
    dt_free(out_in);
    return st;
}

static dt_status param_get(const dt_call *c, int i, const void *lives, float *plain, dt_err *err)
{
    const dt_linear *o = c->node->opts;
    if (i > 0 || !o->in_out)
        return get(c, i, lives, plain, err);
    float *out_in = transposed(c);
    if (out_in == NULL)
        return no_memory(c, err);
    const dt_status st = get(c, i, lives, out_in, err);
    if (st == DT_OK)
        dti_weight_transpose(out_in, plain, 1, o->out, dti_call_x(c).c);
    dt_free(out_in);
    return st;
}

const dt_kernels dt_linear_cpu = {
    DT_BY_IMPLS(linear),
    .param_bytes = param_bytes,
    .param_put = param_put,
    .param_get = param_get,
};
