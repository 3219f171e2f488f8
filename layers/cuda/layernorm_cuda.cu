/* Layer normalisation on the card: a warp a row. */
#include "layers/cuda/columns.cuh"

DT_C_HEADERS
#include "layers/layernorm.h"
DT_C_HEADERS_END

/* A warp works on a row. The gradients of the parameters are sums over rows, as in columns.cuh. */
typedef struct ln_job {
    dt_columns s;
    const void *x, *dy;
    void *to; /* y or dx */
    const float *weight, *bias, *mean, *istd;
    float *stash[2], *dweight, *dbias;
    double eps;
    bool wide;
} ln_job;

/* The first row of a thread's warp, and how many rows further its next one is. */
DT_DEVICE int64_t ln_first(void)
{
    return dti_first() / DT_WARP;
}

DT_DEVICE int64_t ln_step(void)
{
    return dti_stride() / DT_WARP;
}

DT_DEVICE int64_t ln_lane(void)
{
    return threadIdx.x % DT_WARP * DT_FEW;
}

/* The mean over a row of x - middle or of its square. */
DT_DEVICE double ln_moment(const ln_job *j, int64_t row, bool square, float middle, dt_dtype t)
{
    float sum = 0, v[DT_FEW];
    for (int64_t c = ln_lane(); c < j->s.channels; c += DT_WARP * DT_FEW) {
        const int n = dti_few(c, j->s.channels);
        dti_take(j->x, row * j->s.channels + c, n, j->wide, t, v);
        DT_UNROLL(8)
        for (int k = 0; k < DT_FEW; k++) {
            const float d = k < n ? v[k] - middle : 0.0f;
            sum += square ? d * d : d;
        }
    }
    return dti_warp_sum((double)sum) / (double)j->s.channels;
}

DT_DEVICE void ln_forward(const ln_job *j, dt_dtype t)
{
    float v[DT_FEW], weight[DT_FEW], bias[DT_FEW];
    for (int64_t row = ln_first(); row < j->s.rows; row += ln_step()) {
        const float mean = (float)ln_moment(j, row, false, 0.0f, t);
        const float istd = (float)(1 / sqrt(ln_moment(j, row, true, mean, t) + j->eps));
        for (int64_t c = ln_lane(); c < j->s.channels; c += DT_WARP * DT_FEW) {
            const int n = dti_few(c, j->s.channels);
            dti_take(j->x, row * j->s.channels + c, n, j->wide, t, v);
            dti_take(j->weight, c, n, dt_wide(j->weight), DT_F32, weight);
            dti_take(j->bias, c, n, dt_wide(j->bias), DT_F32, bias);
            DT_UNROLL(8)
            for (int k = 0; k < DT_FEW; k++)
                v[k] = (v[k] - mean) * istd * weight[k] + bias[k];
            dti_put(j->to, row * j->s.channels + c, n, j->wide, t, v);
        }
        if (threadIdx.x % DT_WARP == 0 && j->stash[0] != NULL)
            j->stash[0][row] = mean;
        if (threadIdx.x % DT_WARP == 0 && j->stash[1] != NULL)
            j->stash[1][row] = istd;
    }
}

DT_KERNELS(ln_forward, ln_job)

/* dx = istd (g - shift - slope xn), where g = weight dy and xn is x normalised; shift and slope are
 * the means of g and of g xn. dx may be dy. */
DT_DEVICE void ln_backward(const ln_job *j, dt_dtype t)
{
    float x[DT_FEW], g[DT_FEW], weight[DT_FEW];
    for (int64_t row = ln_first(); row < j->s.rows; row += ln_step()) {
        const float mean = j->mean[row], istd = j->istd[row];
        float sum = 0, products = 0;
        for (int64_t c = ln_lane(); c < j->s.channels; c += DT_WARP * DT_FEW) {
            const int n = dti_few(c, j->s.channels);
            dti_take(j->x, row * j->s.channels + c, n, j->wide, t, x);
            dti_take(j->dy, row * j->s.channels + c, n, j->wide, t, g);
            dti_take(j->weight, c, n, dt_wide(j->weight), DT_F32, weight);
            DT_UNROLL(8)
            for (int k = 0; k < DT_FEW; k++) {
                g[k] *= weight[k]; /* zero behind the end */
                sum += g[k];
                products += g[k] * ((x[k] - mean) * istd);
            }
        }
        const float shift = (float)(dti_warp_sum((double)sum) / (double)j->s.channels);
        const float slope = (float)(dti_warp_sum((double)products) / (double)j->s.channels);
        for (int64_t c = ln_lane(); c < j->s.channels; c += DT_WARP * DT_FEW) {
            const int n = dti_few(c, j->s.channels);
            dti_take(j->x, row * j->s.channels + c, n, j->wide, t, x);
            dti_take(j->dy, row * j->s.channels + c, n, j->wide, t, g);
            dti_take(j->weight, c, n, dt_wide(j->weight), DT_F32, weight);
            DT_UNROLL(8)
            for (int k = 0; k < DT_FEW; k++)
                g[k] = istd * (weight[k] * g[k] - shift - (x[k] - mean) * istd * slope);
            dti_put(j->to, row * j->s.channels + c, n, j->wide, t, g);
        }
    }
}

DT_KERNELS(ln_backward, ln_job)

DT_DEVICE void ln_sums_begin(
    const void *job, int64_t row, int64_t c, int n, float (*state)[DT_FEW], dt_dtype t)
{
    (void)job, (void)row, (void)c, (void)n, (void)state, (void)t;
}

DT_DEVICE void ln_sums_add(const void *job, int64_t row, int64_t c, int n, float (*state)[DT_FEW],
    float *first, float *second, dt_dtype t)
{
    const ln_job *j = (const ln_job *)job;
    const int64_t at = row * j->s.channels + c;
    const float mean = j->mean[row], istd = j->istd[row];
    float x[DT_FEW], d[DT_FEW];
    (void)state;
    dti_take(j->x, at, n, j->wide, t, x);
    dti_take(j->dy, at, n, j->wide, t, d);
    DT_UNROLL(8)
    for (int k = 0; k < DT_FEW; k++) {
        first[k] += d[k] * ((x[k] - mean) * istd);
        second[k] += d[k];
    }
}

DT_DEVICE void ln_sums(const ln_job *j, dt_dtype t)
{
    dti_columns_sum(&j->s, j, ln_sums_begin, ln_sums_add, false, t);
}

DT_KERNELS(ln_sums, ln_job)

DT_KERNEL(ln_gradients, ln_job)
{
    int64_t c;
    double dweight, dbias;
    if (!dti_columns_total(&given.s, &c, &dweight, &dbias))
        return;
    given.dweight[c] = (float)dweight;
    given.dbias[c] = (float)dbias;
}

static dt_columns ln_columns(const dt_call *c, int64_t n, void *work)
{
    const dt_shape x = dt_graph_shape(c->graph, c->node->in[0]);
    return dti_columns_of(n * x.h * x.w, x.c, work);
}

static dt_status ln_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    const dt_columns s = ln_columns(c, c->n, NULL);
    f->work_bytes = c->form == DT_BACKWARD ? dti_columns_bytes(&s) : 0;
    return DT_OK;
}

static dt_status ln_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const bool back = c->form == DT_BACKWARD;
    ln_job j;
    j.s = ln_columns(c, a->n, a->port[DT_WORK]);
    j.x = a->port[DT_X];
    j.dy = a->port[DT_DY];
    j.to = a->port[back ? DT_DX : DT_Y];
    j.weight = (const float *)a->port[DT_P];
    j.bias = (const float *)a->port[DT_P + 1];
    j.mean = j.stash[0] = (float *)a->port[DT_S];
    j.istd = j.stash[1] = (float *)a->port[DT_S + 1];
    j.dweight = (float *)a->port[DT_DP];
    j.dbias = (float *)a->port[DT_DP + 1];
    j.eps = ((const dt_layernorm *)c->node->opts)->eps;
    j.wide =
        dt_wide(j.x) && dt_wide(j.dy) && dt_wide(j.to) && dti_wide_rows(j.s.channels, c->dtype);
    const dt_grid rows = dti_grid_of(j.s.rows * DT_WARP);
    if (!back) {
        DT_LAUNCH_OF(ln_forward, c->dtype, rows, a->queue, j);
        return dt_cuda_launched("layernorm forward", err);
    }
    DT_LAUNCH_OF(ln_sums, c->dtype, dti_columns_grid(&j.s), a->queue, j);
    DT_LAUNCH(ln_gradients, dti_total_grid(&j.s), DT_THREADS, a->queue, j);
    if (j.to != NULL)
        DT_LAUNCH_OF(ln_backward, c->dtype, rows, a->queue, j);
    return dt_cuda_launched("layernorm backward", err);
}

DT_CUDA_TABLE(layernorm, ln_facts, NULL, ln_run, NULL);
