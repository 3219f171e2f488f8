#include "layers/fc.h"

#include "engine/alloc.h"
#include "layers/cpu.h"
#include "layers/weighted.h"

/* x as one vector per sample, in the order it is stored (h, w, c). The library's own way of taking
 * images is slower and allocates megabytes in every call. */
static dt_dnnl_problem problem(const dt_call *c)
{
    const dt_fc *o = c->node->opts;
    const dt_shape x = dt_call_x(c);
    return (dt_dnnl_problem){.fc = 1,
        .bias = o->bias,
        .bf16 = c->dtype == DT_BF16,
        .groups = 1,
        .c = dt_shape_sample(&x),
        .h = 1,
        .w = 1,
        .out = o->out,
        .p = 1,
        .q = 1,
        .kernel = 1,
        .stride = 1,
        .dilation = 1};
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

/* The image behind the vector: a flatten in between has no op and leaves the bytes as they were. */
static dt_shape image(const dt_call *c)
{
    int32_t v = c->node->in[0];
    while (v != DT_GRAPH_INPUT && c->graph->node[v].desc->identity)
        v = c->graph->node[v].in[0];
    return dt_graph_shape(c->graph, v);
}

/* Rows of columns ordered c, h, w into rows ordered h, w, c. */
static void to_hwc(const float *chw, float *hwc, int64_t rows, const dt_shape *s)
{
    const int64_t pixels = s->h * s->w, row = pixels * s->c;
#pragma omp parallel for
    for (int64_t o = 0; o < rows; o++)
        for (int64_t p = 0; p < pixels; p++)
            for (int64_t c = 0; c < s->c; c++)
                hwc[o * row + p * s->c + c] = chw[o * row + c * pixels + p];
}

/* A row of c, h, w is a row of h, w, c of an image with height and width as channels. */
static void to_chw(const float *hwc, float *chw, int64_t rows, const dt_shape *s)
{
    const dt_shape turned = {1, s->c, 1, s->h * s->w};
    to_hwc(hwc, chw, rows, &turned);
}

/* The weight with its columns in the other order; NULL when memory is out. */
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
    const dt_dnnl_problem p = problem(c);
    const dt_shape x = image(c);
    if (i > 0 || x.h * x.w == 1)
        return dt_weighted_put(&p, c, i, plain, lives, err);
    float *hwc = turned(c);
    if (hwc == NULL)
        return no_memory(c, err);
    to_hwc(plain, hwc, p.out, &x);
    const dt_status st = dt_weighted_put(&p, c, i, hwc, lives, err);
    dt_free(hwc);
    return st;
}

static dt_status param_get(const dt_call *c, int i, const void *lives, float *plain, dt_err *err)
{
    const dt_dnnl_problem p = problem(c);
    const dt_shape x = image(c);
    if (i > 0 || x.h * x.w == 1)
        return dt_weighted_get(&p, c, i, lives, plain, err);
    float *hwc = turned(c);
    if (hwc == NULL)
        return no_memory(c, err);
    const dt_status st = dt_weighted_get(&p, c, i, lives, hwc, err);
    if (st == DT_OK)
        to_chw(hwc, plain, p.out, &x);
    dt_free(hwc);
    return st;
}

const dt_kernels dt_fc_cpu = {
    .facts = facts,
    .create = create,
    .destroy = dt_weighted_destroy,
    .run = dt_weighted_run,
    .param_bytes = param_bytes,
    .param_put = param_put,
    .param_get = param_get,
};
