/* The product of two values on the card. */
#include "layers/cuda/cuda_kernel.cuh"

/* A thread works on up to eight channels: of a pixel, and for the gradient of a factor of all
 * pixels of a sample. @factor: the second input is one pixel a sample. */
typedef struct mul_job {
    const void *a, *b;
    void *to;
    int64_t samples, pixels, channels, groups;
    bool factor, wide;
} mul_job;

/* to = a b, where b may be the factor. */
DT_DEVICE void mul_values(const mul_job *j, dt_dtype t)
{
    const int64_t items = j->samples * j->pixels * j->groups;
    for (int64_t i = dti_first(); i < items; i += dti_stride()) {
        const int64_t pixel = dti_quotient(i, j->groups), c = (i - pixel * j->groups) * DTI_FEW;
        const int64_t other = j->factor ? dti_quotient(pixel, j->pixels) : pixel;
        const int n = dti_few(c, j->channels);
        float u[DTI_FEW], v[DTI_FEW];
        dti_take(j->a, pixel * j->channels + c, n, j->wide, t, u);
        dti_take(j->b, other * j->channels + c, n, j->wide, t, v);
        DT_UNROLL(8)
        for (int k = 0; k < DTI_FEW; k++)
            v[k] *= u[k];
        dti_put(j->to, pixel * j->channels + c, n, j->wide, t, v);
    }
}

DT_KERNELS(mul_values, mul_job)

enum { MUL_BLOCK = 32 }; /* pixels added in single precision; blocks of them in double */

/* Adds the products of a and b over a block of pixels to @sum. */
DT_DEVICE void mul_add_block(
    const mul_job *j, int64_t sample, int64_t first, int64_t c, int n, double *sum, dt_dtype t)
{
    const int64_t end = j->pixels - first < MUL_BLOCK ? j->pixels : first + MUL_BLOCK;
    float part[DTI_FEW] = {0}, u[DTI_FEW], v[DTI_FEW];
    for (int64_t p = first; p < end; p++) {
        const int64_t at = (sample * j->pixels + p) * j->channels + c;
        dti_take(j->a, at, n, j->wide, t, u);
        dti_take(j->b, at, n, j->wide, t, v);
        DT_UNROLL(8)
        for (int k = 0; k < DTI_FEW; k++)
            part[k] += u[k] * v[k];
    }
    DT_UNROLL(8)
    for (int k = 0; k < DTI_FEW; k++)
        sum[k] += (double)part[k];
}

/* to = the sum of a b over the pixels of a sample. */
DT_DEVICE void mul_factor(const mul_job *j, dt_dtype t)
{
    for (int64_t i = dti_first(); i < j->samples * j->groups; i += dti_stride()) {
        const int64_t sample = dti_quotient(i, j->groups), c = (i - sample * j->groups) * DTI_FEW;
        const int n = dti_few(c, j->channels);
        double sum[DTI_FEW] = {0};
        float v[DTI_FEW];
        for (int64_t first = 0; first < j->pixels; first += MUL_BLOCK)
            mul_add_block(j, sample, first, c, n, sum, t);
        DT_UNROLL(8)
        for (int k = 0; k < DTI_FEW; k++)
            v[k] = (float)sum[k];
        dti_put(j->to, sample * j->channels + c, n, j->wide, t, v);
    }
}

DT_KERNELS(mul_factor, mul_job)

static mul_job mul_job_of(const dt_call *c, const dt_args *a)
{
    const dt_shape x = dt_graph_shape(c->graph, c->node->in[0]);
    const dt_shape factor = dt_graph_shape(c->graph, c->node->in[1]);
    mul_job j;
    memset(&j, 0, sizeof j);
    j.samples = a->n;
    j.pixels = x.h * x.w;
    j.channels = x.c;
    j.groups = dti_ceil_div(x.c, DTI_FEW);
    j.factor = !dt_shape_same(&x, &factor);
    return j;
}

/* to = a b; or the sums of that, if @sums. */
static dt_status mul_launch(mul_job j, const dt_args *a, dt_port first, dt_port second, dt_port to,
    bool sums, dt_dtype t, dt_err *err)
{
    j.a = a->port[first];
    j.b = a->port[second];
    j.to = a->port[to];
    if (j.to == NULL)
        return DT_OK; /* an input that is not trained has no gradient */
    j.wide = dti_wide(j.a) && dti_wide(j.b) && dti_wide(j.to) && dti_wide_rows(j.channels, t);
    if (sums)
        DT_LAUNCH_OF(mul_factor, t, dti_grid_of(j.samples * j.groups), a->queue, j);
    else
        DT_LAUNCH_OF(mul_values, t, dti_grid_of(j.samples * j.pixels * j.groups), a->queue, j);
    return dt_cuda_launched("mul", err);
}

/* dx of the first input may be dy, so it comes last. */
static dt_status mul_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const mul_job j = mul_job_of(c, a);
    const dt_port other = (dt_port)(DT_X + 1), dother = (dt_port)(DT_DX + 1);
    mul_job gradient = j;
    if (c->form != DT_BACKWARD)
        return mul_launch(j, a, DT_X, other, DT_Y, false, c->dtype, err);
    gradient.factor = false;
    DT_CHECK(mul_launch(gradient, a, DT_DY, DT_X, dother, j.factor, c->dtype, err));
    return mul_launch(j, a, DT_DY, other, DT_DX, false, c->dtype, err);
}

DT_CUDA_TABLE(mul, NULL, NULL, mul_run, NULL);
