/* Layer normalisation and root mean square normalisation on the card: a warp a row. */
#include "layers/cuda/norm.cuh"

DT_C_HEADERS
#include "layers/norm/layernorm.h"
#include "layers/norm/rmsnorm.h"
DT_C_HEADERS_END

/* The first row of a thread's warp, and how many rows further its next one is. */
DT_DEVICE int64_t ln_first(void)
{
    return dti_first() / DTI_WARP;
}

DT_DEVICE int64_t ln_step(void)
{
    return dti_stride() / DTI_WARP;
}

DT_DEVICE int64_t ln_lane(void)
{
    return threadIdx.x % DTI_WARP * DTI_FEW;
}

/* In backward. */
DT_DEVICE float ln_mean(const dti_norm_job *j, int64_t row)
{
    return j->rms ? 0.0f : j->mean[row];
}

/* The mean over a row of x - middle or of its square. */
DT_DEVICE double ln_moment(
    const dti_norm_job *j, int64_t row, bool square, float middle, dt_dtype t)
{
    float sum = 0, v[DTI_FEW];
    for (int64_t c = ln_lane(); c < j->s.channels; c += DTI_WARP * DTI_FEW) {
        const int n = dti_few(c, j->s.channels);
        dti_take(j->x, row * j->s.channels + c, n, j->wide, t, v);
        DT_UNROLL(8)
        for (int k = 0; k < DTI_FEW; k++) {
            const float d = k < n ? v[k] - middle : 0.0f;
            sum += square ? d * d : d;
        }
    }
    return dti_warp_sum((double)sum) / (double)j->s.channels;
}

DT_DEVICE void ln_forward(const dti_norm_job *j, dt_dtype t)
{
    float v[DTI_FEW], weight[DTI_FEW], bias[DTI_FEW] = {0};
    for (int64_t row = ln_first(); row < j->s.rows; row += ln_step()) {
        const float mean = j->rms ? 0.0f : (float)ln_moment(j, row, false, 0.0f, t);
        const float istd = (float)(1 / sqrt(ln_moment(j, row, true, mean, t) + j->eps));
        for (int64_t c = ln_lane(); c < j->s.channels; c += DTI_WARP * DTI_FEW) {
            const int n = dti_few(c, j->s.channels);
            dti_take(j->x, row * j->s.channels + c, n, j->wide, t, v);
            dti_take(j->weight, c, n, dti_wide(j->weight), DT_F32, weight);
            if (!j->rms)
                dti_take(j->bias, c, n, dti_wide(j->bias), DT_F32, bias);
            DT_UNROLL(8)
            for (int k = 0; k < DTI_FEW; k++)
                v[k] = (v[k] - mean) * istd * weight[k] + bias[k];
            dti_put(j->to, row * j->s.channels + c, n, j->wide, t, v);
        }
        if (threadIdx.x % DTI_WARP == 0 && j->mean != NULL)
            j->mean[row] = mean;
        if (threadIdx.x % DTI_WARP == 0 && j->istd != NULL)
            j->istd[row] = istd;
    }
}

DT_KERNELS(ln_forward, dti_norm_job)

/* dx = istd (g - shift - slope xn), where g = weight dy and xn is x normalised; shift and slope are
 * the means of g and of g xn. dx may be dy. */
DT_DEVICE void ln_backward(const dti_norm_job *j, dt_dtype t)
{
    float x[DTI_FEW], g[DTI_FEW], weight[DTI_FEW];
    for (int64_t row = ln_first(); row < j->s.rows; row += ln_step()) {
        const float mean = ln_mean(j, row), istd = j->istd[row];
        float sum = 0, products = 0;
        for (int64_t c = ln_lane(); c < j->s.channels; c += DTI_WARP * DTI_FEW) {
            const int n = dti_few(c, j->s.channels);
            dti_take(j->x, row * j->s.channels + c, n, j->wide, t, x);
            dti_take(j->dy, row * j->s.channels + c, n, j->wide, t, g);
            dti_take(j->weight, c, n, dti_wide(j->weight), DT_F32, weight);
            DT_UNROLL(8)
            for (int k = 0; k < DTI_FEW; k++) {
                g[k] *= weight[k]; /* zero behind the end */
                sum += g[k];
                products += k < n ? g[k] * ((x[k] - mean) * istd) : 0.0f; /* 0 * inf is NaN */
            }
        }
        const float middle = (float)(dti_warp_sum((double)sum) / (double)j->s.channels);
        const float shift = j->rms ? 0.0f : middle;
        const float slope = (float)(dti_warp_sum((double)products) / (double)j->s.channels);
        for (int64_t c = ln_lane(); c < j->s.channels; c += DTI_WARP * DTI_FEW) {
            const int n = dti_few(c, j->s.channels);
            dti_take(j->x, row * j->s.channels + c, n, j->wide, t, x);
            dti_take(j->dy, row * j->s.channels + c, n, j->wide, t, g);
            dti_take(j->weight, c, n, dti_wide(j->weight), DT_F32, weight);
            DT_UNROLL(8)
            for (int k = 0; k < DTI_FEW; k++)
                g[k] = istd * (weight[k] * g[k] - shift - (x[k] - mean) * istd * slope);
            dti_put(j->to, row * j->s.channels + c, n, j->wide, t, g);
        }
    }
}

DT_KERNELS(ln_backward, dti_norm_job)

DT_DEVICE void ln_sums_begin(
    const void *job, int64_t row, int64_t c, int n, float (*state)[DTI_FEW], dt_dtype t)
{
    (void)job, (void)row, (void)c, (void)n, (void)state, (void)t;
}

DT_DEVICE void ln_sums_add(const void *job, int64_t row, int64_t c, int n, bool wide,
    float (*state)[DTI_FEW], float *first, float *second, dt_dtype t)
{
    const dti_norm_job *j = (const dti_norm_job *)job;
    const int64_t at = row * j->s.channels + c;
    const float mean = ln_mean(j, row), istd = j->istd[row];
    float x[DTI_FEW], d[DTI_FEW];
    (void)state;
    dti_take(j->x, at, n, wide, t, x);
    dti_take(j->dy, at, n, wide, t, d);
    DT_UNROLL(8)
    for (int k = 0; k < DTI_FEW; k++) {
        first[k] += d[k];
        second[k] += d[k] * ((x[k] - mean) * istd);
    }
}

DT_DEVICE void ln_sums(const dti_norm_job *j, dt_dtype t)
{
    dti_columns_sum(&j->s, j, ln_sums_begin, ln_sums_add, false, t);
}

DT_KERNELS(ln_sums, dti_norm_job)

static dt_status ln_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    const dti_columns s = dti_norm_columns(c, c->n, NULL);
    f->work_bytes = c->form == DT_BACKWARD ? dti_columns_bytes(&s) : 0;
    return DT_OK;
}

static dt_status ln_launch(const dt_call *c, const dt_args *a, dti_norm_job j, dt_err *err)
{
    const dti_grid rows = dti_grid_of(j.s.rows * DTI_WARP);
    if (c->form != DT_BACKWARD) {
        DT_LAUNCH_OF(ln_forward, c->dtype, rows, a->queue, j);
        return dt_cuda_launched("layernorm forward", err);
    }
    DT_LAUNCH_OF(ln_sums, c->dtype, dti_columns_grid(&j.s), a->queue, j);
    dti_norm_gradients(&j, NULL, a->queue);
    if (j.to != NULL)
        DT_LAUNCH_OF(ln_backward, c->dtype, rows, a->queue, j);
    return dt_cuda_launched("layernorm backward", err);
}

static dt_status ln_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const dti_norm_job j = dti_norm_job_of(c, a, ((const dt_layernorm *)c->node->opts)->eps);
    return ln_launch(c, a, j, err);
}

static dt_status rms_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    dti_norm_job j = dti_norm_job_of(c, a, ((const dti_rmsnorm *)c->node->opts)->eps);
    j.rms = true;
    j.istd = j.mean;
    j.mean = NULL;
    j.bias = NULL;
    j.dbias = NULL;
    return ln_launch(c, a, j, err);
}

DT_CUDA_TABLE(layernorm, ln_facts, NULL, ln_run, NULL);
DT_CUDA_TABLE(rmsnorm, ln_facts, NULL, rms_run, NULL);
