/* Concatenation on the card. */
#include "layers/cuda/cuda_kernel.cuh"

/* One input a launch: its channels of each pixel, between it and the wide side (y or dy), where
 * they stand from @at on. */
typedef struct concat_job {
    const void *from;
    void *to;
    int64_t pixels, channels, all, at, groups;
    bool back, wide;
} concat_job;

DT_DEVICE void concat_move(const concat_job *j, dt_dtype t)
{
    for (int64_t i = dti_first(); i < j->pixels * j->groups; i += dti_stride()) {
        const int64_t pixel = dti_quotient(i, j->groups), c = (i - pixel * j->groups) * DTI_FEW;
        const int64_t part = pixel * j->channels + c, wide = pixel * j->all + j->at + c;
        const int n = dti_few(c, j->channels);
        float v[DTI_FEW];
        dti_take(j->from, j->back ? wide : part, n, j->wide, t, v);
        dti_put(j->to, j->back ? part : wide, n, j->wide, t, v);
    }
}

DT_KERNELS(concat_move, concat_job)

static dt_status concat_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const dt_shape y = c->node->info.y;
    int64_t at = 0;
    for (int k = 0; k < c->node->n_in; k++) {
        concat_job j;
        j.back = c->form == DT_BACKWARD;
        j.from = a->port[j.back ? DT_DY : DT_X + k];
        j.to = a->port[j.back ? DT_DX + k : DT_Y];
        j.pixels = a->n * y.h * y.w;
        j.channels = dt_graph_shape(c->graph, c->node->in[k]).c;
        j.all = y.c;
        j.at = at;
        j.groups = dti_ceil_div(j.channels, DTI_FEW);
        j.wide = dti_wide(j.from) && dti_wide(j.to) && dti_wide_rows(j.channels, c->dtype) &&
                 dti_wide_rows(j.all, c->dtype) && dti_wide_rows(j.at, c->dtype);
        at += j.channels;
        if (j.to == NULL)
            continue; /* an input that is not trained has no gradient */
        DT_LAUNCH_OF(concat_move, c->dtype, dti_grid_of(j.pixels * j.groups), a->queue, j);
        DT_CHECK(dt_cuda_launched("concat", err));
    }
    return DT_OK;
}

DT_CUDA_TABLE(concat, NULL, NULL, concat_run, NULL);
