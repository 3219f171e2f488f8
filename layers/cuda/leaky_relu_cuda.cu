/* Leaky ReLU on the card. */
#include "layers/cuda/cuda_kernel.cuh"

DT_C_HEADERS
#include "layers/elementwise/leaky_relu.h"
DT_C_HEADERS_END

/* What is above zero in @sign goes through, the rest times the slope. In forward @sign and @from
 * are x; in backward y and dy. */
typedef struct leaky_job {
    const void *sign, *from;
    void *to;
    int64_t count;
    float slope;
    bool wide;
} leaky_job;

DT_DEVICE void leaky_values(const leaky_job *j, dt_dtype t)
{
    for (int64_t at = dti_first() * DTI_FEW; at < j->count; at += dti_stride() * DTI_FEW) {
        const int n = dti_few(at, j->count);
        float sign[DTI_FEW], v[DTI_FEW];
        dti_take(j->sign, at, n, j->wide, t, sign);
        dti_take(j->from, at, n, j->wide, t, v);
        DT_UNROLL(8)
        for (int k = 0; k < DTI_FEW; k++) {
            const float below = sign[k] <= 0.0f ? j->slope * v[k] : sign[k]; /* no number */
            v[k] = sign[k] > 0.0f ? v[k] : below;
        }
        dti_put(j->to, at, n, j->wide, t, v);
    }
}

DT_KERNELS(leaky_values, leaky_job)

static dt_status leaky_relu_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const bool back = c->form == DT_BACKWARD;
    leaky_job j;
    j.sign = a->port[back ? DT_Y : DT_X];
    j.from = a->port[back ? DT_DY : DT_X];
    j.to = a->port[back ? DT_DX : DT_Y];
    j.count = a->n * dt_shape_sample(&c->node->info.y);
    j.slope = (float)((const dt_leaky_relu *)c->node->opts)->slope;
    j.wide = dti_wide(j.sign) && dti_wide(j.from) && dti_wide(j.to);
    DT_LAUNCH_OF(leaky_values, c->dtype, dti_grid_of(dti_ceil_div(j.count, DTI_FEW)), a->queue, j);
    return dt_cuda_launched("leaky_relu", err);
}

DT_CUDA_TABLE(leaky_relu, NULL, NULL, leaky_relu_run, NULL);
