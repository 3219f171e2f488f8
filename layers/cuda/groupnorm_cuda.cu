/* Group normalisation on the card: a block a group of a sample. */
#include "layers/cuda/norm.cuh"

DT_C_HEADERS
#include "layers/norm/groupnorm.h"
DT_C_HEADERS_END

/* @each: channels of a group; @octets: of eight channels; @sums: over pixels for each channel of
 * each sample: of dy, then of dy times x normalised. */
typedef struct gn_job {
    dti_norm_job n;
    double *sums;
    int64_t samples, pixels, groups, each, octets;
} gn_job;

/* Value @i of a group's: where it lies, and its channel. */
DT_DEVICE int64_t gn_place(const gn_job *j, int64_t group, int64_t i, int64_t *c)
{
    const int64_t sample = dti_quotient(group, j->groups), pixel = dti_quotient(i, j->each);
    *c = (group - sample * j->groups) * j->each + i - pixel * j->each;
    return (sample * j->pixels + pixel) * j->n.s.channels + *c;
}

/* The mean over a group of x - middle or of its square; all threads of the block call. */
DT_DEVICE double gn_moment(
    const gn_job *j, int64_t group, bool square, float middle, double *shared, dt_dtype t)
{
    const int64_t count = j->pixels * j->each;
    double sum = 0;
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
        int64_t c;
        const float d = dti_load(j->n.x, gn_place(j, group, i, &c), t) - middle;
        sum += (double)(square ? d * d : d);
    }
    return dti_block_sum(sum, shared) / (double)count;
}

DT_DEVICE void gn_forward(const gn_job *j, dt_dtype t)
{
    __shared__ double shared[DTI_THREADS / DTI_WARP];
    for (int64_t group = blockIdx.x; group < j->samples * j->groups; group += gridDim.x) {
        const float mean = (float)gn_moment(j, group, false, 0.0f, shared, t);
        const float istd = (float)(1 / sqrt(gn_moment(j, group, true, mean, shared, t) + j->n.eps));
        for (int64_t i = threadIdx.x; i < j->pixels * j->each; i += blockDim.x) {
            int64_t c;
            const int64_t at = gn_place(j, group, i, &c);
            const float x = dti_load(j->n.x, at, t);
            dti_store(j->n.to, at, t, (x - mean) * istd * j->n.weight[c] + j->n.bias[c]);
        }
        if (threadIdx.x == 0 && j->n.mean != NULL)
            j->n.mean[group] = mean;
        if (threadIdx.x == 0 && j->n.istd != NULL)
            j->n.istd[group] = istd;
    }
}

DT_KERNELS(gn_forward, gn_job)

/* A block adds up eight channels over a sample's pixels. */
DT_DEVICE void gn_sums(const gn_job *j, dt_dtype t)
{
    __shared__ double shared[DTI_THREADS / DTI_WARP];
    for (int64_t b = blockIdx.x; b < j->samples * j->octets; b += gridDim.x) {
        const int64_t sample = dti_quotient(b, j->octets), c = (b - sample * j->octets) * DTI_FEW;
        const int n = dti_few(c, j->n.s.channels);
        double sum[DTI_FEW] = {0}, product[DTI_FEW] = {0};
        float x[DTI_FEW], dy[DTI_FEW], mean[DTI_FEW] = {0}, istd[DTI_FEW] = {0};
        for (int k = 0; k < n; k++) {
            mean[k] = j->n.mean[sample * j->groups + dti_quotient(c + k, j->each)];
            istd[k] = j->n.istd[sample * j->groups + dti_quotient(c + k, j->each)];
        }
        for (int64_t p = threadIdx.x; p < j->pixels; p += blockDim.x) {
            const int64_t at = (sample * j->pixels + p) * j->n.s.channels + c;
            dti_take(j->n.x, at, n, j->n.wide, t, x);
            dti_take(j->n.dy, at, n, j->n.wide, t, dy);
            DT_UNROLL(8)
            for (int k = 0; k < DTI_FEW; k++) {
                sum[k] += (double)dy[k];
                product[k] += (double)(dy[k] * ((x[k] - mean[k]) * istd[k]));
            }
        }
        for (int k = 0; k < n; k++) {
            double *to = j->sums + sample * j->n.s.channels + c + k;
            const double first = dti_block_sum(sum[k], shared);
            const double second = dti_block_sum(product[k], shared);
            if (threadIdx.x == 0) {
                to[0] = first;
                to[j->samples * j->n.s.channels] = second;
            }
        }
    }
}

DT_KERNELS(gn_sums, gn_job)

/* dx = istd (g - shift - slope xn), where g = weight dy, xn is x normalised, and shift and slope
 * are the group's means of g and of g xn; dx may be dy. */
DT_DEVICE void gn_backward(const gn_job *j, dt_dtype t)
{
    __shared__ double shared[DTI_THREADS / DTI_WARP];
    const double count = (double)(j->pixels * j->each);
    for (int64_t group = blockIdx.x; group < j->samples * j->groups; group += gridDim.x) {
        const int64_t sample = dti_quotient(group, j->groups);
        const int64_t first = (group - sample * j->groups) * j->each;
        const double *sums = j->sums + sample * j->n.s.channels;
        const float mean = j->n.mean[group], istd = j->n.istd[group];
        double sum = 0, product = 0;
        for (int64_t c = first + threadIdx.x; c < first + j->each; c += blockDim.x) {
            sum += (double)j->n.weight[c] * sums[c];
            product += (double)j->n.weight[c] * sums[j->samples * j->n.s.channels + c];
        }
        const float shift = (float)(dti_block_sum(sum, shared) / count);
        const float slope = (float)(dti_block_sum(product, shared) / count);
        for (int64_t i = threadIdx.x; i < j->pixels * j->each; i += blockDim.x) {
            int64_t c;
            const int64_t at = gn_place(j, group, i, &c);
            const float x = dti_load(j->n.x, at, t), g = j->n.weight[c] * dti_load(j->n.dy, at, t);
            dti_store(j->n.to, at, t, istd * (g - shift - (x - mean) * istd * slope));
        }
    }
}

DT_KERNELS(gn_backward, gn_job)

DT_KERNEL(gn_gradients, gn_job)
{
    const gn_job *j = &given;
    for (int64_t c = dti_first(); c < j->n.s.channels; c += dti_stride()) {
        double dweight = 0, dbias = 0;
        for (int64_t k = 0; k < j->samples; k++) {
            dbias += j->sums[k * j->n.s.channels + c];
            dweight += j->sums[(j->samples + k) * j->n.s.channels + c];
        }
        j->n.dweight[c] = (float)dweight;
        j->n.dbias[c] = (float)dbias;
    }
}

static gn_job gn_job_of(const dt_call *c, const dt_args *a)
{
    const dt_shape x = dt_graph_shape(c->graph, c->node->in[0]);
    const dti_groupnorm *o = (const dti_groupnorm *)c->node->opts;
    gn_job j;
    j.n = dti_norm_job_of(c, a, o->eps);
    j.sums = (double *)a->port[DT_WORK];
    j.samples = a->n;
    j.pixels = x.h * x.w;
    j.groups = o->groups;
    j.each = x.c / o->groups;
    j.octets = dti_ceil_div(x.c, DTI_FEW);
    return j;
}

static dt_status gn_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    const dt_shape x = dt_graph_shape(c->graph, c->node->in[0]);
    f->work_bytes = c->form == DT_BACKWARD ? (size_t)(2 * c->n * x.c) * sizeof(double) : 0;
    return DT_OK;
}

static dt_status gn_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const gn_job j = gn_job_of(c, a);
    const dti_grid groups = {dti_blocks(j.samples * j.groups, 1), 1};
    const dti_grid octets = {dti_blocks(j.samples * j.octets, 1), 1};
    if (c->form != DT_BACKWARD) {
        DT_LAUNCH_OF(gn_forward, c->dtype, groups, a->queue, j);
        return dt_cuda_launched("groupnorm forward", err);
    }
    DT_LAUNCH_OF(gn_sums, c->dtype, octets, a->queue, j);
    DT_LAUNCH(gn_gradients, dti_grid_of(j.n.s.channels), DTI_THREADS, a->queue, j);
    if (j.n.to != NULL)
        DT_LAUNCH_OF(gn_backward, c->dtype, groups, a->queue, j);
    return dt_cuda_launched("groupnorm backward", err);
}

DT_CUDA_TABLE(groupnorm, gn_facts, NULL, gn_run, NULL);
