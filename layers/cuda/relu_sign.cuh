/* What the layers with a ReLU share: its mask, and backward. Bit e % 8 of byte e / 8 of a sample's
 * mask says whether element e hands its gradient on. NaN goes through, as on the processor. */
#ifndef DT_LAYERS_CUDA_RELU_SIGN_CUH
#define DT_LAYERS_CUDA_RELU_SIGN_CUH

#include "layers/cuda/cuda_kernel.cuh"

/* @y: NULL where there is a mask. Samples whose masks follow without a gap count as one. */
typedef struct relu_back {
    const void *y, *dy;
    const uint8_t *mask;
    void *dx;
    int64_t elements, samples;
    bool wide;
} relu_back;

/* Rectifies, and gives the group's byte of the mask. */
DT_DEVICE uint8_t relu_few(float *v)
{
    unsigned on = 0;
    DT_UNROLL(8)
    for (int k = 0; k < DTI_FEW; k++) {
        v[k] = dti_rectify(v[k]);
        on |= (v[k] <= 0.0f ? 0u : 1u) << k;
    }
    return (uint8_t)on;
}

DT_DEVICE void relu_backward(const relu_back *j, dt_dtype t)
{
    const int64_t groups = (j->elements + 7) / 8;
    for (int64_t s = blockIdx.y; s < j->samples; s += gridDim.y)
        for (int64_t g = dti_first(); g < groups; g += dti_stride()) {
            const int n = dti_few(g * DTI_FEW, j->elements);
            const int64_t at = s * j->elements + g * DTI_FEW;
            float v[DTI_FEW], d[DTI_FEW];
            unsigned on = 0;
            dti_take(j->dy, at, n, j->wide, t, d);
            if (j->mask != NULL) {
                on = j->mask[s * groups + g];
            } else {
                dti_take(j->y, at, n, j->wide, t, v);
                on = relu_few(v);
            }
            DT_UNROLL(8)
            for (int k = 0; k < DTI_FEW; k++)
                d[k] = on & 1u << k ? d[k] : 0.0f;
            dti_put(j->dx, at, n, j->wide, t, d);
        }
}

DT_KERNELS(relu_backward, relu_back)

static inline dt_status relu_run_backward(
    const dt_call *c, const dt_args *a, const char *what, dt_err *err)
{
    relu_back j;
    j.y = a->port[DT_Y];
    j.dy = a->port[DT_DY];
    j.mask = (const uint8_t *)a->port[DT_S];
    j.dx = a->port[DT_DX];
    j.elements = dt_shape_sample(&c->node->info.y);
    j.samples = a->n;
    if (j.elements % 8 == 0) {
        j.elements *= j.samples;
        j.samples = 1;
    }
    j.wide = dti_wide(j.dy) && dti_wide(j.dx) && (j.mask != NULL || dti_wide(j.y)) &&
             (j.samples == 1 || dti_wide_rows(j.elements, c->dtype));
    DT_LAUNCH_OF(
        relu_backward, c->dtype, dti_grid_2d((j.elements + 7) / 8, j.samples), a->queue, j);
    return dt_cuda_launched(what, err);
}

#endif
