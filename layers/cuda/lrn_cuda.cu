/* Local response normalisation on the card. */
#include "layers/cuda/cuda_kernel.cuh"

DT_C_HEADERS
#include "layers/norm/lrn.h"
DT_C_HEADERS_END

/* A block works on one pixel, channels in tiles of as many as it has threads. It holds the tile and
 * its surroundings, so results may take the bytes of what is read, which is always ahead. */
enum { LRN_HALO = DTI_LRN_MOST - 1, LRN_HELD = DTI_THREADS + 2 * LRN_HALO };

typedef struct lrn_job {
    const void *x, *dy;
    void *to;
    int64_t pixels, channels;
    int before, behind, halo;    /* channels of a window on either side; both together */
    float k, share, power, pull; /* share: alpha / size; power: -beta; pull: 2 alpha beta / size */
} lrn_job;

/* Channels [c - halo, c + threads + halo) into @shared, zeros past the ends; what the last tile has
 * overwritten comes from @shared. All threads call. */
DT_DEVICE void lrn_hold(
    const lrn_job *j, const void *v, int64_t base, int64_t c, float *shared, dt_dtype t)
{
    const int tid = (int)threadIdx.x;
    float left = 0;
    if (tid < 2 * j->halo && c > 0)
        left = shared[DTI_THREADS + tid];
    __syncthreads();
    if (tid < 2 * j->halo && c > 0)
        shared[tid] = left;
    for (int i = tid + (c > 0 ? 2 * j->halo : 0); i < DTI_THREADS + 2 * j->halo; i += DTI_THREADS) {
        const int64_t at = c - j->halo + i;
        shared[i] = at >= 0 && at < j->channels ? dti_load(v, base + at, t) : 0.0f;
    }
    __syncthreads();
}

/* The scale of the channel whose window begins at v. */
DT_DEVICE float lrn_scale(const lrn_job *j, const float *v)
{
    float sum = 0;
    for (int i = 0; i <= j->halo; i++)
        sum += v[i] * v[i];
    return j->k + j->share * sum;
}

DT_DEVICE void lrn_forward(const lrn_job *j, dt_dtype t)
{
    __shared__ float x[LRN_HELD];
    const int tid = (int)threadIdx.x;
    for (int64_t p = blockIdx.x; p < j->pixels; p += gridDim.x)
        for (int64_t c = 0; c < j->channels; c += DTI_THREADS) {
            lrn_hold(j, j->x, p * j->channels, c, x, t);
            const float scale = lrn_scale(j, x + j->halo - j->before + tid);
            const float y = x[j->halo + tid] * dti_curve_pow(scale, j->power);
            if (c + tid < j->channels)
                dti_store(j->to, p * j->channels + c + tid, t, y);
            __syncthreads();
        }
}

DT_KERNELS(lrn_forward, lrn_job)

/* dx = dy scale^-beta - pull x (the sum of dy y / scale over the channels in whose windows x is).
 * Its windows reach as far before x as forward's reach behind it. */
DT_DEVICE void lrn_backward(const lrn_job *j, dt_dtype t)
{
    __shared__ float x[LRN_HELD], dy[LRN_HELD], slope[LRN_HELD], part[LRN_HELD];
    const int tid = (int)threadIdx.x;
    for (int64_t p = blockIdx.x; p < j->pixels; p += gridDim.x)
        for (int64_t c = 0; c < j->channels; c += DTI_THREADS) {
            lrn_hold(j, j->x, p * j->channels, c, x, t);
            lrn_hold(j, j->dy, p * j->channels, c, dy, t);
            for (int i = tid; i < DTI_THREADS + j->halo; i += DTI_THREADS) {
                const float scale = lrn_scale(j, x + i);
                slope[i] = dy[j->before + i] * dti_curve_pow(scale, j->power);
                part[i] = slope[i] * x[j->before + i] / scale;
            }
            __syncthreads();
            float sum = 0;
            for (int i = 0; i <= j->halo; i++)
                sum += part[tid + i];
            if (c + tid < j->channels)
                dti_store(j->to, p * j->channels + c + tid, t,
                    slope[j->behind + tid] - j->pull * x[j->halo + tid] * sum);
            __syncthreads();
        }
}

DT_KERNELS(lrn_backward, lrn_job)

static dt_status lrn_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const dti_lrn *o = (const dti_lrn *)c->node->opts;
    const dt_shape x = dt_graph_shape(c->graph, c->node->in[0]);
    const bool back = c->form == DT_BACKWARD;
    lrn_job j;
    j.x = a->port[DT_X];
    j.dy = a->port[DT_DY];
    j.to = a->port[back ? DT_DX : DT_Y];
    j.pixels = a->n * x.h * x.w;
    j.channels = x.c;
    j.before = (int)(o->size / 2);
    j.behind = (int)((o->size - 1) / 2);
    j.halo = (int)(o->size - 1);
    j.k = (float)o->k;
    j.share = (float)(o->alpha / (double)o->size);
    j.power = (float)-o->beta;
    j.pull = (float)(2 * o->alpha * o->beta / (double)o->size);
    const dti_grid g = {dti_blocks(j.pixels, 1), 1};
    if (back)
        DT_LAUNCH_OF(lrn_backward, c->dtype, g, a->queue, j);
    else
        DT_LAUNCH_OF(lrn_forward, c->dtype, g, a->queue, j);
    return dt_cuda_launched("lrn", err);
}

DT_CUDA_TABLE(lrn, NULL, NULL, lrn_run, NULL);
