/* The linear layer on the processor: a product of matrices of ours in fp32, and in bf16 where that
 * is no faster; else the library's inner product. */
#include "layers/weighted/linear.h"

#include <string.h>

#include "engine/base/alloc.h"
#include "engine/implementations.h"
#include "layers/cpu/cpu.h"
#include "layers/cpu/rows_product.h"
#include "layers/cpu/weighted.h"
#include "layers/weighted/weighted.h"

/* --- our product --- */

/* It takes the weight as it lies, [out, in]; the library wants layouts of its own. */
static bool product_accepts(const dt_call *c, dt_why *why)
{
    return dti_rows_product_accepts(c->dtype, why);
}

static dti_rows_product rows_of(const dt_call *c, int64_t n)
{
    const dt_linear *o = c->node->opts;
    const dt_shape x = dti_call_x(c);
    return (dti_rows_product){n * x.h * x.w, x.c, o->out, o->bias, c->dtype};
}

DTI_ROWS_PRODUCT(rows_of);

/* --- the library --- */

/* To the library every position of a sequence is a sample of its own. */
static dt_dnnl_problem problem(const dt_call *c)
{
    const dt_linear *o = c->node->opts;
    return dti_rows_problem(c, dti_call_x(c).c, o->out, o->bias);
}

DTI_WEIGHTED_LIBRARY(problem);

static dt_call rows(const dt_call *c)
{
    const dt_shape x = dti_call_x(c);
    dt_call r = *c;
    r.n *= x.h * x.w;
    r.home_n *= x.h * x.w;
    return r;
}

static dt_status rows_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    const dt_call r = rows(c);
    return library_facts(&r, f, err);
}

static dt_status rows_create(const dt_call *c, void **state, dt_err *err)
{
    const dt_call r = rows(c);
    return library_create(&r, state, err);
}

static const dt_impl linear[] = {
    {.name = "product", .accepts = product_accepts, .facts = product_facts, .run = product_run},
    {.name = "oneDNN",
        .facts = rows_facts,
        .create = rows_create,
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
    const dt_call r = rows(c);
    *bytes = dti_weighted_plain_bytes(c, i);
    return lives_plain(c) ? DT_OK : library_bytes(&r, i, bytes, err);
}

/* Files may have the weight as [in, out]. */
static bool is_transposed(const dt_call *c, int i)
{
    const dt_linear *o = c->node->opts;
    return i == 0 && o->in_out;
}

static int64_t param_rows(const dt_call *c, int i)
{
    const dt_call r = rows(c);
    return lives_plain(c) ? 1 : is_transposed(c, i) ? 0 : library_rows(&r, i);
}

/* Values of the bias, or of a weight [out, in], in a row of either. */
static int64_t row_of(const dt_call *c, int i)
{
    return i == 0 ? dti_call_x(c).c : 1;
}

static void copy_rows(float *to, const float *from, int64_t values)
{
    memcpy(to, from, (size_t)values * sizeof *to);
}

/* To and from [out, in]. */
static dt_status put(const dt_call *c, int i, dt_rows some, float *plain, void *lives, dt_err *err)
{
    const dt_call r = rows(c);
    const int64_t row = row_of(c, i);
    if (!lives_plain(c))
        return library_put(&r, i, some, plain, lives, err);
    copy_rows((float *)lives + some.at * row, plain, some.n * row);
    return DT_OK;
}

static dt_status get(
    const dt_call *c, int i, dt_rows some, const void *lives, float *plain, dt_err *err)
{
    const dt_call r = rows(c);
    const int64_t row = row_of(c, i);
    if (!lives_plain(c))
        return library_get(&r, i, some, lives, plain, err);
    copy_rows(plain, (const float *)lives + some.at * row, some.n * row);
    return DT_OK;
}

/* Of a weight [in, out] in files that the library keeps in a layout of its own: outputs that can go
 * by themselves, and memory for them. */
static dt_status take_outputs(const dt_call *c, dt_rows *some, float **out_in, dt_err *err)
{
    const dt_linear *o = c->node->opts;
    const dt_call r = rows(c);
    const int64_t in = dti_call_x(c).c, unit = library_rows(&r, 0);
    *some = (dt_rows){.n = unit > 0 && unit < o->out ? unit : o->out};
    *out_in = dt_alloc((size_t)(some->n * in), sizeof **out_in);
    if (*out_in == NULL)
        return DT_FAIL(
            err, DT_E_NOMEM, "layer '%s': no memory to transpose its weight", c->node->name);
    return DT_OK;
}

static int64_t outputs_left(const dt_call *c, dt_rows some)
{
    const dt_linear *o = c->node->opts;
    return o->out - some.at < some.n ? o->out - some.at : some.n;
}

static dt_status put_transposed(const dt_call *c, const float *plain, void *lives, dt_err *err)
{
    const dt_linear *o = c->node->opts;
    const int64_t in = dti_call_x(c).c;
    dt_rows some;
    float *out_in;
    dt_status st = take_outputs(c, &some, &out_in, err);
    for (; st == DT_OK && some.at < o->out; some.at += some.n) {
        some.n = outputs_left(c, some);
        dti_weight_columns_get(plain, out_in, some, o->out, in);
        st = put(c, 0, some, out_in, lives, err);
    }
    dt_free(out_in);
    return st;
}

static dt_status get_transposed(const dt_call *c, const void *lives, float *plain, dt_err *err)
{
    const dt_linear *o = c->node->opts;
    const int64_t in = dti_call_x(c).c;
    dt_rows some;
    float *out_in;
    dt_status st = take_outputs(c, &some, &out_in, err);
    for (; st == DT_OK && some.at < o->out; some.at += some.n) {
        some.n = outputs_left(c, some);
        st = get(c, 0, some, lives, out_in, err);
        if (st == DT_OK)
            dti_weight_columns_put(out_in, plain, some, o->out, in);
    }
    dt_free(out_in);
    return st;
}

static dt_status param_put(
    const dt_call *c, int i, dt_rows some, float *plain, void *lives, dt_err *err)
{
    const dt_linear *o = c->node->opts;
    if (!is_transposed(c, i))
        return put(c, i, some, plain, lives, err);
    if (!lives_plain(c))
        return put_transposed(c, plain, lives, err);
    dti_weight_columns_put(plain, lives, some, dti_call_x(c).c, o->out);
    return DT_OK;
}

static dt_status param_get(
    const dt_call *c, int i, dt_rows some, const void *lives, float *plain, dt_err *err)
{
    const dt_linear *o = c->node->opts;
    if (!is_transposed(c, i))
        return get(c, i, some, lives, plain, err);
    if (!lives_plain(c))
        return get_transposed(c, lives, plain, err);
    dti_weight_columns_get(lives, plain, some, dti_call_x(c).c, o->out);
    return DT_OK;
}

const dt_kernels dt_linear_cpu = {
    DT_BY_IMPLS(linear),
    .param_bytes = param_bytes,
    .param_put = param_put,
    .param_get = param_get,
    .param_rows = param_rows,
};
