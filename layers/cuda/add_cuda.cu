/* Sums of values on the card, with the ReLU behind them or without. */
#include "layers/cuda/relu_sign.cuh"

/* The add layer, the same with a ReLU behind it, and the sum op: y = x0 + x1 + ..., from left to
 * right in single precision, rounded once. y may be one of x. */
typedef struct add_job {
    const void *x[DT_MAX_IN];
    int n_in;
    void *y;
    uint8_t *mask;
    int64_t elements, samples;
    bool relu, wide;
} add_job;

/* The mask is that of the sum as it was before rounding. */
DT_DEVICE void add_forward(const add_job *j, dt_dtype t)
{
    const int64_t groups = (j->elements + 7) / 8;
    for (int64_t s = blockIdx.y; s < j->samples; s += gridDim.y)
        for (int64_t g = dti_first(); g < groups; g += dti_stride()) {
            const int n = dti_few(g * DTI_FEW, j->elements);
            const int64_t at = s * j->elements + g * DTI_FEW;
            float sum[DTI_FEW], more[DTI_FEW];
            dti_take(j->x[0], at, n, j->wide, t, sum);
            for (int i = 1; i < j->n_in; i++) {
                dti_take(j->x[i], at, n, j->wide, t, more);
                DT_UNROLL(8)
                for (int k = 0; k < DTI_FEW; k++)
                    sum[k] += more[k];
            }
            if (j->relu) {
                const uint8_t on = relu_few(sum);
                if (j->mask != NULL)
                    j->mask[s * groups + g] = on;
            }
            dti_put(j->y, at, n, j->wide, t, sum);
        }
}

DT_KERNELS(add_forward, add_job)

static dt_status add_launch(add_job j, const dt_args *a, dt_dtype t, const char *what, dt_err *err)
{
    j.y = a->port[DT_Y];
    j.wide = dti_wide(j.y);
    for (int i = 0; i < j.n_in; i++) {
        j.x[i] = a->port[DT_X + i];
        j.wide = j.wide && dti_wide(j.x[i]);
    }
    if (j.elements % 8 == 0) {
        j.elements *= j.samples;
        j.samples = 1;
    }
    j.wide = j.wide && (j.samples == 1 || dti_wide_rows(j.elements, t));
    DT_LAUNCH_OF(add_forward, t, dti_grid_2d((j.elements + 7) / 8, j.samples), a->queue, j);
    return dt_cuda_launched(what, err);
}

static add_job add_job_of(int n_in, int64_t elements, int64_t samples)
{
    add_job j;
    memset(&j, 0, sizeof j);
    j.n_in = n_in;
    j.elements = elements;
    j.samples = samples;
    return j;
}

static dt_status add_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const add_job j = add_job_of(c->node->n_in, dt_shape_sample(&c->node->info.y), a->n);
    return add_launch(j, a, c->dtype, "add forward", err);
}

static dt_status add_relu_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    if (c->form == DT_BACKWARD)
        return relu_run_backward(c, a, "add_relu backward", err);
    add_job j = add_job_of(c->node->n_in, dt_shape_sample(&c->node->info.y), a->n);
    j.relu = true;
    j.mask = (uint8_t *)a->port[DT_S];
    return add_launch(j, a, c->dtype, "add_relu forward", err);
}

static dt_status sum_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    return add_launch(add_job_of(2, c->count, 1), a, c->dtype, "sum", err);
}

DT_CUDA_TABLE(add, NULL, NULL, add_run, NULL);
DT_CUDA_TABLE(add_relu, NULL, NULL, add_relu_run, NULL);
DT_CUDA_TABLE(sum, NULL, NULL, sum_run, NULL);
