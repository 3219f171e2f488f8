/* Batch normalisation on the card, with the ReLU behind it or without. */
#include "layers/cuda/norm.cuh"
#include "layers/cuda/relu_sign.cuh"

DT_C_HEADERS
#include "layers/norm/batchnorm.h"
DT_C_HEADERS_END

/* Forward leaves sums of x and x^2 a channel and part, backward those of dy (where the ReLU was on)
 * and of dy times the distance of x from the mean. Backward finds the sign of the ReLU's input from
 * x by the very arithmetic of forward, written so that no compiler may round it otherwise. */
typedef struct bn_job {
    dti_norm_job n;
    const float *var;    /* evaluation: the spread is made from it */
    const float *old[2]; /* running statistics to go on from */
    float *pending[2];
    double momentum;
    bool relu;
} bn_job;

DT_DEVICE float bn_norm(float apart, float scale, float bias)
{
    return fmaf(apart, scale, bias);
}

DT_DEVICE void bn_params(const bn_job *j, int64_t c, int n, float *mean, float *scale, float *bias)
{
    float weight[DTI_FEW], istd[DTI_FEW];
    dti_take(j->n.mean, c, n, dti_wide(j->n.mean), DT_F32, mean);
    dti_take(j->n.weight, c, n, dti_wide(j->n.weight), DT_F32, weight);
    const float *spread = j->var == NULL ? j->n.istd : j->var;
    dti_take(spread, c, n, dti_wide(spread), DT_F32, istd);
    DT_UNROLL(8)
    for (int k = 0; k < DTI_FEW; k++) {
        if (j->var != NULL)
            istd[k] = (float)(1 / sqrt((double)istd[k] + j->n.eps));
        scale[k] = istd[k] * weight[k];
        bias[k] = 0;
    }
    if (j->n.bias != NULL)
        dti_take(j->n.bias, c, n, dti_wide(j->n.bias), DT_F32, bias);
}

DT_DEVICE void bn_statistics_begin(
    const void *job, int64_t row, int64_t c, int n, float (*state)[DTI_FEW], dt_dtype t)
{
    const bn_job *j = (const bn_job *)job;
    dti_take(j->n.x, row * j->n.s.channels + c, n, j->n.wide, t, state[0]);
}

DT_DEVICE void bn_statistics_add(const void *job, int64_t row, int64_t c, int n, bool wide,
    float (*state)[DTI_FEW], float *first, float *second, dt_dtype t)
{
    const bn_job *j = (const bn_job *)job;
    float x[DTI_FEW];
    dti_take(j->n.x, row * j->n.s.channels + c, n, wide, t, x);
    DT_UNROLL(8)
    for (int k = 0; k < DTI_FEW; k++) {
        const float d = x[k] - state[0][k];
        first[k] += d;
        second[k] += d * d;
    }
}

DT_DEVICE void bn_statistics(const bn_job *j, dt_dtype t)
{
    dti_columns_sum(&j->n.s, j, bn_statistics_begin, bn_statistics_add, true, t);
}

DT_KERNELS(bn_statistics, bn_job)

/* Statistics for this op, its backward and the running ones. */
DT_KERNEL(bn_finish, bn_job)
{
    int64_t c;
    double sum, squares;
    if (!dti_columns_total(&given.n.s, &c, &sum, &squares))
        return;
    const double n = (double)given.n.s.rows, mean = sum / n;
    const double apart = squares - sum * mean, m2 = apart < 0 ? 0 : apart;
    const double now[2] = {mean, m2 / (n > 1 ? n - 1 : 1)};
    given.n.mean[c] = (float)mean;
    given.n.istd[c] = (float)(1 / sqrt(m2 / n + given.n.eps));
    for (int i = 0; i < 2; i++)
        given.pending[i][c] =
            (float)((1 - given.momentum) * (double)given.old[i][c] + given.momentum * now[i]);
}

/* A thread's first row, and how far its next one is. */
DT_DEVICE int64_t bn_step(const bn_job *j)
{
    return (int64_t)gridDim.y * (DTI_THREADS / j->n.s.across);
}

DT_DEVICE int64_t bn_first(const bn_job *j)
{
    return (int64_t)blockIdx.y * (DTI_THREADS / j->n.s.across) + dti_lane_row(&j->n.s);
}

/* Of channel c in the row @on after row r, or in row r where there is none. */
DT_DEVICE int64_t bn_place(const bn_job *j, int64_t r, int64_t on, int64_t c)
{
    return (r + (r + on < j->n.s.rows ? on : 0)) * j->n.s.channels + c;
}

/* Each thread stays with its channels, @n from @c on, which lie at 16 bytes if @wide. Then it reads
 * two rows before it writes one, which hides more of the memory's delay. */
DT_DEVICE void bn_normalise_rows(const bn_job *j, int64_t c, int n, bool wide, dt_dtype t)
{
    const int64_t step = bn_step(j);
    float mean[DTI_FEW], scale[DTI_FEW], bias[DTI_FEW], v[2][DTI_FEW];
    const int many = wide ? 2 : 1;
    bn_params(j, c, n, mean, scale, bias);
    for (int64_t r = bn_first(j); r < j->n.s.rows; r += many * step) {
        DT_UNROLL(2)
        for (int i = 0; i < many; i++)
            dti_take(j->n.x, bn_place(j, r, i * step, c), n, wide, t, v[i]);
        DT_UNROLL(2)
        for (int i = 0; i < many; i++) {
            DT_UNROLL(8)
            for (int k = 0; k < DTI_FEW; k++) {
                const float y = bn_norm(v[i][k] - mean[k], scale[k], bias[k]);
                v[i][k] = j->relu ? dti_rectify(y) : y;
            }
            if (r + i * step < j->n.s.rows)
                dti_put(j->n.to, bn_place(j, r, i * step, c), n, wide, t, v[i]);
        }
    }
}

DT_DEVICE void bn_normalise(const bn_job *j, dt_dtype t)
{
    const int64_t c = dti_column(&j->n.s);
    const int n = dti_few(c, j->n.s.channels);
    if (j->n.wide && n == DTI_FEW)
        bn_normalise_rows(j, c, DTI_FEW, true, t);
    else if (n > 0)
        bn_normalise_rows(j, c, n, false, t);
}

DT_KERNELS(bn_normalise, bn_job)

DT_DEVICE void bn_sums_begin(
    const void *job, int64_t row, int64_t c, int n, float (*state)[DTI_FEW], dt_dtype t)
{
    (void)row, (void)t;
    bn_params((const bn_job *)job, c, n, state[0], state[1], state[2]);
}

DT_DEVICE void bn_sums_add(const void *job, int64_t row, int64_t c, int n, bool wide,
    float (*state)[DTI_FEW], float *first, float *second, dt_dtype t)
{
    const bn_job *j = (const bn_job *)job;
    const int64_t at = row * j->n.s.channels + c;
    float x[DTI_FEW], d[DTI_FEW];
    dti_take(j->n.x, at, n, wide, t, x);
    dti_take(j->n.dy, at, n, wide, t, d);
    DT_UNROLL(8)
    for (int k = 0; k < DTI_FEW; k++) {
        const float apart = x[k] - state[0][k];
        const bool off = j->relu && bn_norm(apart, state[1][k], state[2][k]) <= 0.0f;
        d[k] = off ? 0.0f : d[k];
        first[k] += d[k];
        second[k] += d[k] * apart;
    }
}

DT_DEVICE void bn_sums(const bn_job *j, dt_dtype t)
{
    dti_columns_sum(&j->n.s, j, bn_sums_begin, bn_sums_add, false, t);
}

DT_KERNELS(bn_sums, bn_job)

/* dx = scale (dy - shift - slope (x - mean)); dx may be dy. As in bn_normalise_rows. */
DT_DEVICE void bn_differentiate_rows(const bn_job *j, int64_t c, int n, bool wide, dt_dtype t)
{
    const int64_t step = bn_step(j);
    const float over = 1.0f / (float)j->n.s.rows;
    float mean[DTI_FEW], scale[DTI_FEW], bias[DTI_FEW], shift[DTI_FEW], slope[DTI_FEW];
    float x[2][DTI_FEW], d[2][DTI_FEW];
    const int many = wide ? 2 : 1;
    bn_params(j, c, n, mean, scale, bias);
    dti_take(j->n.dbias, c, n, dti_wide(j->n.dbias), DT_F32, shift);
    dti_take(j->n.dweight, c, n, dti_wide(j->n.dweight), DT_F32, slope);
    dti_take(j->n.istd, c, n, dti_wide(j->n.istd), DT_F32, x[0]);
    DT_UNROLL(8)
    for (int k = 0; k < DTI_FEW; k++) {
        shift[k] *= over;
        slope[k] *= x[0][k] * over;
    }
    for (int64_t r = bn_first(j); r < j->n.s.rows; r += many * step) {
        DT_UNROLL(2)
        for (int i = 0; i < many; i++) {
            dti_take(j->n.x, bn_place(j, r, i * step, c), n, wide, t, x[i]);
            dti_take(j->n.dy, bn_place(j, r, i * step, c), n, wide, t, d[i]);
        }
        DT_UNROLL(2)
        for (int i = 0; i < many; i++) {
            DT_UNROLL(8)
            for (int k = 0; k < DTI_FEW; k++) {
                const float apart = x[i][k] - mean[k];
                const bool off = j->relu && bn_norm(apart, scale[k], bias[k]) <= 0.0f;
                d[i][k] = scale[k] * ((off ? 0.0f : d[i][k]) - shift[k] - apart * slope[k]);
            }
            if (r + i * step < j->n.s.rows)
                dti_put(j->n.to, bn_place(j, r, i * step, c), n, wide, t, d[i]);
        }
    }
}

DT_DEVICE void bn_differentiate(const bn_job *j, dt_dtype t)
{
    const int64_t c = dti_column(&j->n.s);
    const int n = dti_few(c, j->n.s.channels);
    if (j->n.wide && n == DTI_FEW)
        bn_differentiate_rows(j, c, DTI_FEW, true, t);
    else if (n > 0)
        bn_differentiate_rows(j, c, n, false, t);
}

DT_KERNELS(bn_differentiate, bn_job)

/* The ReLU's mask, of what forward wrote. */
DT_DEVICE void bn_mask(const relu_back *j, dt_dtype t)
{
    const int64_t groups = (j->elements + 7) / 8;
    for (int64_t s = blockIdx.y; s < j->samples; s += gridDim.y)
        for (int64_t g = dti_first(); g < groups; g += dti_stride()) {
            const int n = dti_few(g * DTI_FEW, j->elements);
            float v[DTI_FEW];
            dti_take(j->y, s * j->elements + g * DTI_FEW, n, j->wide, t, v);
            for (int k = n; k < DTI_FEW; k++)
                v[k] = 0;
            ((uint8_t *)j->dx)[s * groups + g] = relu_few(v);
        }
}

DT_KERNELS(bn_mask, relu_back)

static dt_status bn_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    const dti_columns s = dti_norm_columns(c, c->n, NULL);
    const bool sums = c->form == DT_FORWARD || c->form == DT_BACKWARD;
    f->work_bytes = sums ? dti_columns_bytes(&s) : 0;
    return DT_OK;
}

/* Scratch of the sums, up to where wide accesses may begin. */
static size_t bn_sums_bytes(const dt_call *c)
{
    const size_t wide = 16;
    const dti_columns s = dti_norm_columns(c, c->n, NULL);
    return (dti_columns_bytes(&s) + wide - 1) / wide * wide;
}

/* With a mask that nothing before the layer wants a gradient by, the masked one is scratch. */
static dt_status bn_facts_relu(const dt_call *c, dt_facts *f, dt_err *err)
{
    DT_CHECK(bn_facts(c, f, err));
    const size_t values = (size_t)(c->n * dt_shape_sample(&c->node->info.y));
    if (c->form == DT_BACKWARD && c->alt > 0 && !c->needs_dx)
        f->work_bytes = bn_sums_bytes(c) + values * dt_dtype_bytes(c->dtype);
    return DT_OK;
}

static bn_job bn_job_of(const dt_call *c, const dt_args *a, bool relu)
{
    const dt_batchnorm *o = (const dt_batchnorm *)c->node->opts;
    const bool eval = c->form == DT_EVAL;
    bn_job j;
    j.n = dti_norm_job_of(c, a, o->eps);
    if (eval)
        j.n.mean = (float *)a->port[DT_P + 2];
    j.var = eval ? (const float *)a->port[DT_P + 3] : NULL;
    for (int i = 0; i < 2; i++) {
        j.old[i] = (const float *)a->port[(a->accumulate ? DT_Q : DT_P) + 2 + i];
        j.pending[i] = (float *)a->port[DT_Q + 2 + i];
    }
    j.momentum = o->momentum;
    j.relu = relu;
    return j;
}

static dt_status bn_run(const dt_call *c, const dt_args *a, bool relu, dt_err *err)
{
    const bn_job j = bn_job_of(c, a, relu);
    const dti_grid parts = dti_columns_grid(&j.n.s), all = dti_rows_grid(&j.n.s);
    if (c->form == DT_BACKWARD) {
        DT_LAUNCH_OF(bn_sums, c->dtype, parts, a->queue, j);
        dti_norm_gradients(&j.n, j.n.istd, a->queue);
        if (j.n.to != NULL)
            DT_LAUNCH_OF(bn_differentiate, c->dtype, all, a->queue, j);
        return dt_cuda_launched("batchnorm backward", err);
    }
    if (c->form == DT_FORWARD) {
        DT_LAUNCH_OF(bn_statistics, c->dtype, parts, a->queue, j);
        DT_LAUNCH(bn_finish, dti_total_grid(&j.n.s), DTI_THREADS, a->queue, j);
    }
    DT_LAUNCH_OF(bn_normalise, c->dtype, all, a->queue, j);
    return dt_cuda_launched("batchnorm forward", err);
}

static dt_status bn_run_plain(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    return bn_run(c, a, false, err);
}

/* The ReLU's gradient, which lies where this layer's will, and then this layer's of that. */
static dt_status bn_back_masked(const dt_call *c, const dt_args *a, dt_err *err)
{
    dt_args of = *a;
    if (of.port[DT_DX] == NULL)
        of.port[DT_DX] = (char *)of.port[DT_WORK] + bn_sums_bytes(c);
    of.port[DT_S] = of.port[DT_S + 2];
    DT_CHECK(relu_run_backward(c, &of, "batchnorm_relu backward", err));
    of.port[DT_DY] = of.port[DT_DX];
    of.port[DT_DX] = a->port[DT_DX];
    of.port[DT_S] = a->port[DT_S];
    return bn_run(c, &of, false, err);
}

static dt_status bn_run_mask(const dt_call *c, const dt_args *a, dt_err *err)
{
    relu_back j;
    memset(&j, 0, sizeof j);
    j.y = a->port[DT_Y];
    j.dx = a->port[DT_S + 2];
    j.elements = dt_shape_sample(&c->node->info.y);
    j.samples = a->n;
    j.wide = dti_wide(j.y) && dti_wide_rows(j.elements, c->dtype);
    DT_LAUNCH_OF(bn_mask, c->dtype, dti_grid_2d((j.elements + 7) / 8, j.samples), a->queue, j);
    return dt_cuda_launched("batchnorm_relu mask", err);
}

static dt_status bn_run_relu(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const bool masked = a->port[DT_S + 2] != NULL;
    if (masked && c->form == DT_BACKWARD)
        return bn_back_masked(c, a, err);
    DT_CHECK(bn_run(c, a, true, err));
    return masked && c->form == DT_FORWARD ? bn_run_mask(c, a, err) : DT_OK;
}

DT_CUDA_TABLE(batchnorm, bn_facts, NULL, bn_run_plain, NULL);
DT_CUDA_TABLE(batchnorm_relu, bn_facts_relu, NULL, bn_run_relu, NULL);
