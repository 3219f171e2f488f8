/* Axes in another order, on the card: a thread a value of the result. */
#include "layers/cuda/cuda_kernel.cuh"

DT_C_HEADERS
#include "layers/shape/permute.h"
DT_C_HEADERS_END

typedef struct permute_job {
    const void *from;
    void *to;
    dti_permute_walk walk;
    int64_t sample, count;
} permute_job;

DT_DEVICE void permute_move(const permute_job *j, dt_dtype t)
{
    for (int64_t i = dti_first(); i < j->count; i += dti_stride()) {
        const dti_place p = dti_place_of(i, j->walk.side[0], j->walk.side[1], j->walk.side[2]);
        const int64_t from = p.sample * j->sample + p.row * j->walk.step[0] +
                             p.col * j->walk.step[1] + p.group * j->walk.step[2];
        dti_store(j->to, i, t, dti_load(j->from, from, t));
    }
}

DT_KERNELS(permute_move, permute_job)

static dt_status permute_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const bool back = c->form == DT_BACKWARD;
    const dt_shape x = dt_graph_shape(c->graph, c->node->in[0]);
    permute_job j;
    j.from = a->port[back ? DT_DY : DT_X];
    j.to = a->port[back ? DT_DX : DT_Y];
    j.walk = dti_permute_walk_of(x, ((const dti_permute *)c->node->opts)->order, back);
    j.sample = dt_shape_sample(&x);
    j.count = a->n * j.sample;
    DT_LAUNCH_OF(permute_move, c->dtype, dti_grid_of(j.count), a->queue, j);
    return dt_cuda_launched("permute", err);
}

DT_CUDA_TABLE(permute, NULL, NULL, permute_run, NULL);
