/* ReLU on the card. */
#include "layers/cuda/relu_sign.cuh"

typedef struct relu_job {
    const void *x;
    void *y;
    uint8_t *mask;
    int64_t elements, samples;
    bool wide;
} relu_job;

DT_DEVICE void relu_forward(const relu_job *j, dt_dtype t)
{
    const int64_t groups = (j->elements + 7) / 8;
    for (int64_t s = blockIdx.y; s < j->samples; s += gridDim.y)
        for (int64_t g = dti_first(); g < groups; g += dti_stride()) {
            const int n = dti_few(g * DTI_FEW, j->elements);
            const int64_t at = s * j->elements + g * DTI_FEW;
            float v[DTI_FEW];
            dti_take(j->x, at, n, j->wide, t, v);
            const uint8_t on = relu_few(v);
            dti_put(j->y, at, n, j->wide, t, v);
            if (j->mask != NULL)
                j->mask[s * groups + g] = on;
        }
}

DT_KERNELS(relu_forward, relu_job)

static dt_status relu_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    if (c->form == DT_BACKWARD)
        return relu_run_backward(c, a, "relu backward", err);
    relu_job j;
    j.x = a->port[DT_X];
    j.y = a->port[DT_Y];
    j.mask = (uint8_t *)a->port[DT_S];
    j.elements = dt_shape_sample(&c->node->info.y);
    j.samples = a->n;
    if (j.elements % 8 == 0) {
        j.elements *= j.samples;
        j.samples = 1;
    }
    j.wide =
        dti_wide(j.x) && dti_wide(j.y) && (j.samples == 1 || dti_wide_rows(j.elements, c->dtype));
    DT_LAUNCH_OF(relu_forward, c->dtype, dti_grid_2d((j.elements + 7) / 8, j.samples), a->queue, j);
    return dt_cuda_launched("relu forward", err);
}

DT_CUDA_TABLE(relu, NULL, NULL, relu_run, NULL);
