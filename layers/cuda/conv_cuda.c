/* Convolutions on the card, plain and transposed: an engine of cuDNN's, or where it has none ours
 * from the definition. */
#include "layers/weighted/conv.h"

#include <string.h>

#include "engine/base/alloc.h"
#include "engine/implementations.h"
#include "layers/weighted/conv_transpose.h"
#include "layers/cuda/conv_direct.h"
#include "layers/cpu/cpu.h"
#include "layers/cuda/libraries_cuda.h"
#include "layers/cuda/weighted_cuda.h"
#include "layers/weighted/weighted.h"

/* The weight lives as [out][height][width][c / groups] in fp32. Ops on bf16 read a copy of it in
 * bf16, made by the forms that derive; its gradient is fp32 always. */

/* A transposed convolution is the one from y to x, run backwards. By its name: descriptions of
 * layers are the program's, not the module's. */
static bool conv_transposed(const dt_call *c)
{
    return strcmp(c->node->desc->name, "conv_transpose") == 0;
}

static dti_cudnn_problem conv_shape(const dt_call *c)
{
    const dt_shape x = dti_call_x(c), y = c->node->info.y;
    if (conv_transposed(c)) {
        const dt_conv_transpose *o = c->node->opts;
        return (dti_cudnn_problem){DTI_CONV_TRANSPOSE_SHAPE(o, x, y)};
    }
    const dt_conv *o = c->node->opts;
    return (dti_cudnn_problem){DTI_CONV_SHAPE(o, x, y)};
}

static dti_cudnn_problem conv_problem(const dt_call *c, dti_cudnn_direction direction)
{
    dti_cudnn_problem p = conv_shape(c);
    p.direction = (int64_t)direction;
    p.n = c->n;
    p.bf16 = c->dtype == DT_BF16;
    p.tf32 = dti_cuda_tf32(c);
    p.many = c->workspace_limit != DT_LIMIT_ANY;
    return p;
}

static dti_cudnn_direction conv_direction(const dt_call *c)
{
    if (c->form == DT_BACKWARD)
        return DTI_CUDNN_WEIGHTS;
    return (c->form == DT_BACKWARD2) != conv_transposed(c) ? DTI_CUDNN_DATA : DTI_CUDNN_FORWARD;
}

static bool conv_has_bias(const dt_call *c)
{
    return c->node->info.n_param > 1;
}

/* Bytes of the convolution that is run: its x is y, and its y x, where this one is transposed. */
static dti_cudnn_bytes conv_bytes(const dt_call *c, void *x, void *y, void *weight, void *work)
{
    return conv_transposed(c) ? (dti_cudnn_bytes){y, x, weight, work}
                              : (dti_cudnn_bytes){x, y, weight, work};
}

static int64_t conv_weights(const dt_call *c)
{
    return dt_param_count(&c->node->info.param[0]);
}

/* Rows of y: its pixels. */
static int64_t conv_rows(const dt_call *c)
{
    return c->n * c->node->info.y.h * c->node->info.y.w;
}

static size_t conv_bias_work(const dt_call *c)
{
    const bool sums = conv_has_bias(c) && c->form == DT_BACKWARD;
    return sums ? dti_cuda_columns_work(conv_rows(c), c->node->info.y.c) : 0;
}

/* The bf16 copy of the weight, which ops on bf16 read. */
static size_t conv_derived(const dt_call *c)
{
    const bool reads = c->dtype == DT_BF16 && c->form != DT_BACKWARD;
    return reads ? (size_t)conv_weights(c) * sizeof(dt_bf16) : 0;
}

/* Of the workspace limit what is left for the engine's scratch. The sums of the bias take turns
 * with it. */
static size_t conv_limit(const dt_call *c)
{
    const size_t limit = c->workspace_limit, copy = conv_derived(c);
    const size_t sums = conv_bias_work(c), rest = limit > copy ? limit - copy : DT_LIMIT_LEAST;
    if (limit == DT_LIMIT_ANY)
        return DT_LIMIT_ANY;
    return rest > sums ? rest : sums;
}

static size_t conv_work(const dt_call *c, size_t engine)
{
    const size_t sums = conv_bias_work(c); /* after the convolution, in the same scratch */
    return engine > sums ? engine : sums;
}

/* Where the library cannot be asked, facts says so. */
static bool cudnn_accepts(const dt_call *c, dt_why *why)
{
    const dti_cudnn_problem p = conv_problem(c, conv_direction(c));
    dti_cudnn_facts f;
    if (dti_cudnn_ask(dti_cuda_cudnn(c), &p, conv_limit(c), &f, NULL) != DT_OK || !f.direct)
        return true;
    return dt_refuse(why, "has no engine that is allowed");
}

static dt_status convolution_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    *f = (dt_facts){.impl = "to_bf16"};
    if (dti_cuda_derives(c))
        return DT_OK;
    const dti_cudnn_problem p = conv_problem(c, conv_direction(c));
    dti_cudnn_facts own;
    DT_TRY(err, dti_cudnn_ask(dti_cuda_cudnn(c), &p, conv_limit(c), &own, err), "layer '%s'",
        c->node->name);
    f->work_bytes = conv_work(c, own.work_bytes);
    f->derived_bytes = conv_derived(c);
    memcpy(f->impl, own.impl, sizeof f->impl);
    return DT_OK;
}
_Static_assert(sizeof((dt_facts){0}.impl) == sizeof((dti_cudnn_facts){0}.impl), "copied whole");

static dt_status cudnn_algorithms(const dt_call *c, dt_algorithms *all, dt_err *err)
{
    dt_algorithms engines;
    all->n = 0;
    if (dti_cuda_derives(c))
        return DT_OK;
    dti_cudnn_problem p = conv_problem(c, conv_direction(c));
    p.many = 1;
    DT_TRY(err, dti_cudnn_algorithms(dti_cuda_cudnn(c), &p, &engines, err), "layer '%s'",
        c->node->name);
    for (int i = 0; i < engines.n; i++)
        dt_algorithms_add(all, engines.algorithm[i].impl,
            conv_work(c, engines.algorithm[i].bytes) + conv_derived(c));
    return DT_OK;
}

static void cudnn_destroy(void *state)
{
    dti_cudnn_destroy(state);
}

static dt_status cudnn_create(const dt_call *c, void **state, dt_err *err)
{
    dti_cudnn_op *op = NULL;
    *state = NULL;
    if (dti_cuda_derives(c))
        return DT_OK;
    const dti_cudnn_problem p = conv_problem(c, conv_direction(c));
    DT_TRY(err, dti_cudnn_create(dti_cuda_cudnn(c), &op, &p, conv_limit(c), err), "layer '%s'",
        c->node->name);
    *state = op;
    return DT_OK;
}

/* @op: the library's; NULL: ours. */
static dt_status convolve(const dt_call *c, const dti_cudnn_op *op, const dt_args *a,
    const dti_cudnn_bytes *b, dt_err *err)
{
    const dti_cudnn_problem p = conv_problem(c, conv_direction(c));
    return op != NULL ? dti_cudnn_run(op, a->queue, b, err) : dti_conv_direct(&p, a->queue, b, err);
}

static dt_status conv_forward(
    const dt_call *c, const dti_cudnn_op *op, const dt_args *a, dt_err *err)
{
    const dti_cudnn_bytes b =
        conv_bytes(c, a->port[DT_X], a->port[DT_Y], a->port[DT_D], a->port[DT_WORK]);
    DT_CHECK(convolve(c, op, a, &b, err));
    if (!conv_has_bias(c))
        return DT_OK;
    return dti_cuda_add_bias(a->queue, c->dtype, a->port[DT_Y], a->port[DT_P + 1], conv_rows(c),
        c->node->info.y.c, c->node->info.y.c, err);
}

static dt_status conv_backward_weights(
    const dt_call *c, const dti_cudnn_op *op, const dt_args *a, dt_err *err)
{
    const dti_cudnn_bytes b =
        conv_bytes(c, a->port[DT_X], a->port[DT_DY], a->port[DT_DP], a->port[DT_WORK]);
    DT_CHECK(convolve(c, op, a, &b, err));
    if (!conv_has_bias(c))
        return DT_OK;
    return dti_cuda_columns(a->queue, c->dtype, a->port[DT_DY], conv_rows(c), c->node->info.y.c,
        a->port[DT_DP + 1], b.work, err);
}

static dt_status conv_run_form(
    const dt_call *c, const dti_cudnn_op *op, const dt_args *a, dt_err *err)
{
    DT_ASSERT(a->n == c->n);
    if (dti_cuda_derives(c))
        return dti_cuda_to_bf16(a->queue, a->port[c->form == DT_DERIVE_F ? DT_D : DT_D + 1],
            a->port[DT_P], conv_weights(c), err);
    if (c->form == DT_BACKWARD)
        return conv_backward_weights(c, op, a, err);
    if (c->form != DT_BACKWARD2)
        return conv_forward(c, op, a, err);
    const dti_cudnn_bytes b =
        conv_bytes(c, a->port[DT_DX], a->port[DT_DY], a->port[DT_D + 1], a->port[DT_WORK]);
    return convolve(c, op, a, &b, err);
}

static dt_status conv_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    DT_TRY(err, conv_run_form(c, state, a, err), "layer '%s'", c->node->name);
    return DT_OK;
}

static const dt_impl conv[] = {
    {.name = "cuDNN",
        .accepts = cudnn_accepts,
        .facts = convolution_facts,
        .create = cudnn_create,
        .destroy = cudnn_destroy,
        .run = conv_run,
        .algorithms = cudnn_algorithms},
    {.name = "direct", .facts = convolution_facts, .run = conv_run},
    {0},
};
DT_IMPLS(conv);

/* Values of a row: of the weight an output's, or of a transposed one an input's; of the bias one.
 */
static int64_t conv_row(const dt_param_info *p)
{
    return dt_param_count(p) / p->d[0];
}

static dt_status conv_param_put(
    const dt_call *c, int i, dt_rows rows, float *plain, void *lives, dt_err *err)
{
    const dt_param_info *p = &c->node->info.param[i];
    float *to = (float *)lives + rows.at * conv_row(p);
    (void)err;
    if (i == 0)
        dti_weight_transpose(plain, to, rows.n, p->d[1], p->d[2] * p->d[3]);
    else
        memcpy(to, plain, (size_t)rows.n * sizeof *plain);
    return DT_OK;
}

static dt_status conv_param_get(
    const dt_call *c, int i, dt_rows rows, const void *lives, float *plain, dt_err *err)
{
    const dt_param_info *p = &c->node->info.param[i];
    const float *from = (const float *)lives + rows.at * conv_row(p);
    (void)err;
    if (i == 0)
        dti_weight_transpose(from, plain, rows.n, p->d[2] * p->d[3], p->d[1]);
    else
        memcpy(plain, from, (size_t)rows.n * sizeof *plain);
    return DT_OK;
}

const dt_kernels dt_conv_cuda = {
    DT_BY_IMPLS(conv),
    .param_put = conv_param_put,
    .param_get = conv_param_get,
};

const dt_kernels dt_conv_transpose_cuda = {
    DT_BY_IMPLS(conv),
    .param_put = conv_param_put,
    .param_get = conv_param_get,
};
