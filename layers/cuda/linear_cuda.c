/* The linear layer on the card, and the products of rows that fc is as well. */
#include "layers/cuda/linear_cuda.h"

#include <string.h>

#include "engine/base/alloc.h"
#include "layers/cpu/cpu.h"
#include "layers/cuda/libraries_cuda.h"
#include "layers/cuda/pieces_cuda.h"
#include "layers/cuda/weighted_cuda.h"
#include "layers/weighted/weighted.h"
#include "layers/weighted/linear.h"

static dti_cublas_problem rows_problem(const dti_rows *r, const dt_call *c)
{
    return (dti_cublas_problem){.direction = c->form == DT_BACKWARD    ? DTI_CUBLAS_WEIGHTS
                                             : c->form == DT_BACKWARD2 ? DTI_CUBLAS_DATA
                                                                       : DTI_CUBLAS_FORWARD,
        .rows = c->n * r->rows,
        .in = r->in,
        .out = r->out,
        .bias = r->bias,
        .bf16 = c->dtype == DT_BF16,
        .tf32 = dti_cuda_tf32(c)};
}

dt_status dti_rows_facts(const dti_rows *r, const dt_call *c, dt_facts *f, dt_err *err)
{
    *f = (dt_facts){.impl = "to_bf16"};
    if (dti_cuda_derives(c))
        return DT_OK;
    const dti_cublas_problem p = rows_problem(r, c);
    dti_cublas_facts own;
    DT_TRY(err, dti_pieces_ask(dti_cuda_cublas(c), &p, &own, err), "layer '%s'", c->node->name);
    f->work_bytes = own.work_bytes;
    if (r->bias && c->form == DT_BACKWARD) { /* after the product, in the same scratch */
        const size_t sums = dti_cuda_columns_work(p.rows, p.out);
        f->work_bytes = sums > f->work_bytes ? sums : f->work_bytes;
    }
    if (c->dtype == DT_BF16 && c->form != DT_BACKWARD)
        f->derived_bytes = (size_t)(r->in * r->out) * sizeof(dt_bf16);
    memcpy(f->impl, own.impl, sizeof f->impl);
    return DT_OK;
}
_Static_assert(sizeof((dt_facts){0}.impl) == sizeof((dti_cublas_facts){0}.impl), "copied whole");

/* @product: NULL for forms that derive */
typedef struct rows_state {
    dti_rows r;
    dti_pieces *product;
} rows_state;

dt_status dti_rows_create(const dti_rows *r, const dt_call *c, void **state, dt_err *err)
{
    const dti_cublas_problem p = rows_problem(r, c);
    *state = NULL;
    rows_state *s = dt_alloc(1, sizeof *s);
    if (s == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "layer '%s': no memory to prepare it", c->node->name);
    s->r = *r;
    const dt_status st =
        dti_cuda_derives(c) ? DT_OK : dti_pieces_create(dti_cuda_cublas(c), &s->product, &p, err);
    if (st != DT_OK) {
        dt_free(s);
        DT_TRY(err, st, "layer '%s'", c->node->name);
    }
    *state = s;
    return DT_OK;
}

void dti_rows_destroy(void *state)
{
    rows_state *s = state;
    if (s == NULL)
        return;
    dti_pieces_destroy(s->product);
    dt_free(s);
}

static dt_status rows_backward_weights(
    const dt_call *c, const rows_state *s, const dt_args *a, dt_err *err)
{
    const dti_cublas_bytes b = {.x = a->port[DT_X],
        .y = a->port[DT_DY],
        .weight = a->port[DT_DP],
        .work = a->port[DT_WORK]};
    DT_CHECK(dti_pieces_run(s->product, a->queue, &b, err));
    if (!s->r.bias)
        return DT_OK;
    return dti_cuda_columns(
        a->queue, c->dtype, b.y, c->n * s->r.rows, s->r.out, a->port[DT_DP + 1], b.work, err);
}

static dt_status rows_run_form(const dt_call *c, const rows_state *s, const dt_args *a, dt_err *err)
{
    DT_ASSERT(a->n == c->n);
    if (dti_cuda_derives(c))
        return dti_cuda_to_bf16(a->queue, a->port[c->form == DT_DERIVE_F ? DT_D : DT_D + 1],
            a->port[DT_P], s->r.in * s->r.out, err);
    if (c->form == DT_BACKWARD)
        return rows_backward_weights(c, s, a, err);
    const bool data = c->form == DT_BACKWARD2;
    const dti_cublas_bytes b = {.x = a->port[data ? DT_DX : DT_X],
        .y = a->port[data ? DT_DY : DT_Y],
        .weight = a->port[data ? DT_D + 1 : DT_D],
        .bias = a->port[DT_P + 1],
        .work = a->port[DT_WORK]};
    return dti_pieces_run(s->product, a->queue, &b, err);
}

dt_status dti_rows_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    DT_TRY(err, rows_run_form(c, state, a, err), "layer '%s'", c->node->name);
    return DT_OK;
}

/* Every position of a sequence is a row. */
static dti_rows linear_rows(const dt_call *c)
{
    const dt_linear *o = c->node->opts;
    const dt_shape x = dti_call_x(c);
    return (dti_rows){x.h * x.w, x.c, o->out, o->bias};
}

static dt_status linear_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    const dti_rows r = linear_rows(c);
    return dti_rows_facts(&r, c, f, err);
}

static dt_status linear_create(const dt_call *c, void **state, dt_err *err)
{
    const dti_rows r = linear_rows(c);
    return dti_rows_create(&r, c, state, err);
}

/* Files may have the weight as [in, out]. */
static bool linear_is_transposed(const dt_call *c, int i)
{
    const dt_linear *o = c->node->opts;
    return i == 0 && o->in_out;
}

static dt_status linear_param_put(
    const dt_call *c, int i, dt_rows rows, float *plain, void *lives, dt_err *err)
{
    const dt_linear *o = c->node->opts;
    const int64_t in = dti_call_x(c).c, row = i == 0 ? in : 1;
    (void)err;
    if (linear_is_transposed(c, i))
        dti_weight_columns_put(plain, lives, rows, in, o->out);
    else
        memcpy((float *)lives + rows.at * row, plain, (size_t)(rows.n * row) * sizeof *plain);
    return DT_OK;
}

static dt_status linear_param_get(
    const dt_call *c, int i, dt_rows rows, const void *lives, float *plain, dt_err *err)
{
    const dt_linear *o = c->node->opts;
    const int64_t in = dti_call_x(c).c, row = i == 0 ? in : 1;
    (void)err;
    if (linear_is_transposed(c, i))
        dti_weight_columns_get(lives, plain, rows, in, o->out);
    else
        memcpy(plain, (const float *)lives + rows.at * row, (size_t)(rows.n * row) * sizeof *plain);
    return DT_OK;
}

const dt_kernels dt_linear_cuda = {
    .facts = linear_facts,
    .create = linear_create,
    .destroy = dti_rows_destroy,
    .run = dti_rows_run,
    .param_put = linear_param_put,
    .param_get = linear_param_get,
};
