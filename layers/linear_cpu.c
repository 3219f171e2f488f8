#include "layers/linear.h"

#include "engine/alloc.h"
#include "layers/cpu.h"
#include "layers/weighted.h"

/* To the library every position of a sequence is a sample of its own. */
static dt_dnnl_problem problem(const dt_call *c)
{
    const dt_linear *o = c->node->opts;
    return (dt_dnnl_problem){.fc = 1,
        .bias = o->bias,
        .bf16 = c->dtype == DT_BF16,
        .groups = 1,
        .c = dt_call_x(c).c,
        .h = 1,
        .w = 1,
        .out = o->out,
        .p = 1,
        .q = 1,
        .kernel = 1,
        .stride = 1,
        .dilation = 1};
}

static dt_call rows(const dt_call *c)
{
    const dt_shape x = dt_call_x(c);
    dt_call r = *c;
    r.n *= x.h * x.w;
    r.home_n *= x.h * x.w;
    return r;
}

static dt_status facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    const dt_dnnl_problem p = problem(c);
    const dt_call r = rows(c);
    return dt_weighted_facts(&p, &r, f, err);
}

static dt_status create(const dt_call *c, void **state, dt_err *err)
{
    const dt_dnnl_problem p = problem(c);
    const dt_call r = rows(c);
    return dt_weighted_create(&p, &r, state, err);
}

static dt_status param_bytes(const dt_call *c, int i, size_t *bytes, dt_err *err)
{
    const dt_dnnl_problem p = problem(c);
    const dt_call r = rows(c);
    return dt_weighted_bytes(&p, &r, i, bytes, err);
}

static void turn(const float *from, float *to, int64_t n_rows, int64_t columns)
{
#pragma omp parallel for
    for (int64_t c = 0; c < columns; c++)
        for (int64_t r = 0; r < n_rows; r++)
            to[c * n_rows + r] = from[r * columns + c];
}

/* Room for the weight the other way round; NULL when memory is out. */
static float *turned(const dt_call *c)
{
    return dt_alloc((size_t)dt_param_count(&c->node->info.param[0]), sizeof(float));
}

static dt_status no_memory(const dt_call *c, dt_err *err)
{
    return DT_FAIL(err, DT_E_NOMEM, "layer '%s': no memory to turn its weight", c->node->name);
}

static dt_status param_put(const dt_call *c, int i, const float *plain, void *lives, dt_err *err)
{
    const dt_linear *o = c->node->opts;
    const dt_dnnl_problem p = problem(c);
    const dt_call r = rows(c);
    if (i > 0 || !o->in_out)
        return dt_weighted_put(&p, &r, i, plain, lives, err);
    float *out_in = turned(c);
    if (out_in == NULL)
        return no_memory(c, err);
    turn(plain, out_in, p.c, p.out);
    const dt_status st = dt_weighted_put(&p, &r, i, out_in, lives, err);
    dt_free(out_in);
    return st;
}

static dt_status param_get(const dt_call *c, int i, const void *lives, float *plain, dt_err *err)
{
    const dt_linear *o = c->node->opts;
    const dt_dnnl_problem p = problem(c);
    const dt_call r = rows(c);
    if (i > 0 || !o->in_out)
        return dt_weighted_get(&p, &r, i, lives, plain, err);
    float *out_in = turned(c);
    if (out_in == NULL)
        return no_memory(c, err);
    const dt_status st = dt_weighted_get(&p, &r, i, lives, out_in, err);
    if (st == DT_OK)
        turn(out_in, plain, p.out, p.c);
    dt_free(out_in);
    return st;
}

const dt_kernels dt_linear_cpu = {
    .facts = facts,
    .create = create,
    .destroy = dt_weighted_destroy,
    .run = dt_weighted_run,
    .param_bytes = param_bytes,
    .param_put = param_put,
    .param_get = param_get,
};
