/* Dropout on the card. */
#include "layers/cuda/cuda_kernel.cuh"

DT_C_HEADERS
#include "engine/base/philox.h"
#include "layers/elementwise/dropout.h"
DT_C_HEADERS_END

/* The step and the place of the micro-batch in it are read on the device: what is launched once may
 * run in many steps. */
typedef struct dropout_job {
    const void *from;
    void *to;
    const dt_now *now;
    uint64_t seed;
    int64_t elements, samples, sample0, layer, quads; /* quads: numbers drawn for a sample, by 4 */
    uint32_t least;                                   /* 24-bit draws below it are dropped */
    float scale;
    bool keep_all, wide;
} dropout_job;

DT_DEVICE void dropout_few(const dropout_job *j, uint64_t counter, float *v)
{
    DT_UNROLL(2)
    for (int half = 0; half < 2; half++) {
        const dt_u32x4 r = dt_random(j->seed, DT_RANDOM_DROPOUT, (uint32_t)j->layer,
            (uint64_t)j->now->step, counter + (uint64_t)half);
        DT_UNROLL(4)
        for (int k = 0; k < 4; k++)
            v[4 * half + k] = r.v[k] >> 8 >= j->least ? v[4 * half + k] * j->scale : 0.0f;
    }
}

DT_DEVICE void dropout_apply(const dropout_job *j, dt_dtype t)
{
    const int64_t groups = (j->elements + 7) / 8;
    for (int64_t s = blockIdx.y; s < j->samples; s += gridDim.y)
        for (int64_t g = dti_first(); g < groups; g += dti_stride()) {
            const int n = dti_few(g * DTI_FEW, j->elements);
            const int64_t at = s * j->elements + g * DTI_FEW;
            float v[DTI_FEW];
            dti_take(j->from, at, n, j->wide, t, v);
            if (!j->keep_all) {
                const int64_t sample = j->now->sample0 + j->sample0 + s;
                dropout_few(j, (uint64_t)(sample * j->quads + 2 * g), v);
            }
            dti_put(j->to, at, n, j->wide, t, v);
        }
}

DT_KERNELS(dropout_apply, dropout_job)

static dt_status dropout_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const dt_dropout *o = (const dt_dropout *)c->node->opts;
    const bool back = c->form == DT_BACKWARD;
    dropout_job j;
    j.from = a->port[back ? DT_DY : DT_X];
    j.to = a->port[back ? DT_DX : DT_Y];
    j.now = a->now;
    j.seed = a->seed;
    j.elements = dt_shape_sample(&c->node->info.y);
    j.samples = a->n;
    j.sample0 = a->sample0;
    j.layer = a->layer;
    j.quads = (j.elements + 3) / 4;
    j.least = (uint32_t)ceil(o->rate * 0x1p24);
    j.scale = o->rate < 1 ? (float)(1 / (1 - o->rate)) : 0;
    j.keep_all = c->form == DT_EVAL;
    j.wide = dti_wide(j.from) && dti_wide(j.to) && dti_wide_rows(j.elements, c->dtype);
    if (j.keep_all && j.from == j.to)
        return DT_OK;
    DT_LAUNCH_OF(
        dropout_apply, c->dtype, dti_grid_2d((j.elements + 7) / 8, j.samples), a->queue, j);
    return dt_cuda_launched("dropout", err);
}

DT_CUDA_TABLE(dropout, NULL, NULL, dropout_run, NULL);
