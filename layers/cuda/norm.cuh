/* What norms share on the card: what an op is given, sums over rows, and the gradients of the
 * parameters that come of them. */
#ifndef DT_LAYERS_CUDA_NORM_CUH
#define DT_LAYERS_CUDA_NORM_CUH

#include "layers/cuda/cuda_kernel.cuh"

/* --- sums over rows ---
 * A value is rows of channels, and each channel wants two sums over all rows. Rows are cut into
 * parts by shape alone; each part leaves its two sums a channel in scratch, in double precision,
 * and these are added up in the order of parts. */
enum {
    DTI_COLUMN_BLOCK = 16,    /* rows that a thread adds up in single precision */
    DTI_COLUMN_PARTS = 1056,  /* at most */
    DTI_COLUMN_BLOCKS = 1056, /* that keep a large card busy, whose last ones are few among them */
    DTI_TOTAL_CHANNELS = 8,   /* of a block that adds up parts; as many threads share the parts */
    DTI_COLUMN_STATE = 3      /* numbers a channel that threads may keep */
};

/* A block is @across groups of channels wide and 256 / @across rows high. */
typedef struct dti_columns {
    int64_t rows, channels, part_rows, parts;
    int across;
    bool wide;       /* eight values lie at 16 bytes in every row; false until it is set */
    double *partial; /* part by part, the first sum of all channels, then the second */
} dti_columns;

static inline dti_columns dti_columns_of(int64_t rows, int64_t channels, void *work)
{
    const int64_t groups = dti_ceil_div(channels, DTI_FEW);
    dti_columns s;
    s.rows = rows;
    s.channels = channels;
    s.wide = false;
    s.across = 4;
    while (s.across < 32 && s.across < groups)
        s.across *= 2;
    const int64_t high = DTI_THREADS / s.across;
    int64_t parts = dti_ceil_div(DTI_COLUMN_BLOCKS, dti_ceil_div(groups, s.across));
    if (parts > DTI_COLUMN_PARTS)
        parts = DTI_COLUMN_PARTS;
    s.part_rows = dti_ceil_div(rows, parts);
    s.part_rows = s.part_rows > 2 * high ? s.part_rows : 2 * high;
    s.parts = dti_ceil_div(rows, s.part_rows);
    s.partial = (double *)work;
    return s;
}

static inline size_t dti_columns_bytes(const dti_columns *s)
{
    return (size_t)(2 * s->parts * s->channels) * sizeof(double);
}

/* A launch of dti_columns_sum: x counts groups of channels, y parts. */
static inline dti_grid dti_columns_grid(const dti_columns *s)
{
    const dti_grid g = {
        (unsigned)dti_ceil_div(dti_ceil_div(s->channels, DTI_FEW), s->across), (unsigned)s->parts};
    return g;
}

/* Of elementwise work on rows, each thread on one group of channels. A block's rows begin at
 * blockIdx.y times its height, and it goes on by gridDim.y times that. */
static inline dti_grid dti_rows_grid(const dti_columns *s)
{
    const int64_t high = DTI_THREADS / s->across;
    const dti_grid g = {(unsigned)dti_ceil_div(dti_ceil_div(s->channels, DTI_FEW), s->across),
        dti_blocks(s->rows, high * DTI_COLUMN_BLOCK)};
    return g;
}

/* The first channel of a thread's group, and where in its block it stands. */
DT_DEVICE int64_t dti_column(const dti_columns *s)
{
    return ((int64_t)blockIdx.x * s->across + threadIdx.x % (unsigned)s->across) * DTI_FEW;
}

DT_DEVICE int64_t dti_lane_row(const dti_columns *s)
{
    return threadIdx.x / (unsigned)s->across;
}

/* What is summed up: begin sets numbers of the thread's channels before its first row; add takes
 * one row of @n channels, which lie at 16 bytes if @wide. */
typedef void dti_column_begin(
    const void *job, int64_t row, int64_t c, int n, float (*state)[DTI_FEW], dt_dtype t);
typedef void dti_column_add(const void *job, int64_t row, int64_t c, int n, bool wide,
    float (*state)[DTI_FEW], float *first, float *second, dt_dtype t);

/* The sums of distances from a middle, and of their squares, become those of the values. */
DT_DEVICE void dti_columns_move(
    const float *middle, double rows, volatile double (*sum)[DTI_THREADS])
{
    DT_UNROLL(8)
    for (int k = 0; k < DTI_FEW; k++) {
        const double m = (double)middle[k], first = sum[k][threadIdx.x];
        sum[DTI_FEW + k][threadIdx.x] += m * (2 * first + rows * m);
        sum[k][threadIdx.x] = first + rows * m;
    }
}

/* A thread's sums over its rows, every @high-th from @row on, to its place among those of all,
 * which is volatile lest they be kept in registers: these are what limits how many threads there
 * can be.
 */
DT_DEVICE void dti_columns_rows(const dti_columns *s, const void *job, dti_column_add *add,
    float (*state)[DTI_FEW], int64_t row, int64_t rows, int n, bool wide,
    volatile double (*sum)[DTI_THREADS], dt_dtype t)
{
    const int64_t c = dti_column(s), high = DTI_THREADS / s->across;
    for (int64_t i = 0; i < rows; i += DTI_COLUMN_BLOCK) {
        float first[DTI_FEW] = {0}, second[DTI_FEW] = {0};
        if (wide && rows - i >= DTI_COLUMN_BLOCK) {
            DT_UNROLL(4)
            for (int k = 0; k < DTI_COLUMN_BLOCK; k++)
                add(job, row + (i + k) * high, c, n, wide, state, first, second, t);
        } else {
            DT_UNROLL(1)
            for (int64_t k = i; k < rows && k < i + DTI_COLUMN_BLOCK; k++)
                add(job, row + k * high, c, n, wide, state, first, second, t);
        }
        DT_UNROLL(8)
        for (int k = 0; k < DTI_FEW; k++) {
            sum[k][threadIdx.x] += (double)first[k];
            sum[DTI_FEW + k][threadIdx.x] += (double)second[k];
        }
    }
}

/* Whole and aligned groups have a loop of their own: several rows are on their way at once only
 * where nothing is asked between their loads. */
DT_DEVICE void dti_columns_thread(const dti_columns *s, const void *job, dti_column_begin *begin,
    dti_column_add *add, bool distances, int64_t row, int64_t rows,
    volatile double (*sum)[DTI_THREADS], dt_dtype t)
{
    const int64_t c = dti_column(s);
    const int n = dti_few(c, s->channels);
    float state[DTI_COLUMN_STATE][DTI_FEW];
    begin(job, row, c, n, state, t);
    if (s->wide && n == DTI_FEW)
        dti_columns_rows(s, job, add, state, row, rows, DTI_FEW, true, sum, t);
    else
        dti_columns_rows(s, job, add, state, row, rows, n, false, sum, t);
    if (distances)
        dti_columns_move(state[0], (double)rows, sum);
}

/* One block: the sums of a part. @distances: see dti_columns_move, with middles in state[0]. */
DT_DEVICE void dti_columns_sum(const dti_columns *s, const void *job, dti_column_begin *begin,
    dti_column_add *add, bool distances, dt_dtype t)
{
    __shared__ volatile double shared[2 * DTI_FEW][DTI_THREADS];
    const int64_t high = DTI_THREADS / s->across;
    const dti_span part = dti_span_of(s->rows, s->part_rows, (int64_t)blockIdx.y);
    const int64_t row = part.begin + dti_lane_row(s);
    DT_UNROLL(16)
    for (int k = 0; k < 2 * DTI_FEW; k++)
        shared[k][threadIdx.x] = 0;
    if (row < part.end && dti_column(s) < s->channels)
        dti_columns_thread(s, job, begin, add, distances, row,
            dti_quotient(part.end - row + high - 1, high), shared, t);
    __syncthreads();
    for (int i = (int)threadIdx.x; i < 2 * DTI_FEW * s->across; i += DTI_THREADS) {
        const int k = i / s->across, group = i % s->across;
        const int64_t c = ((int64_t)blockIdx.x * s->across + group) * DTI_FEW + k % DTI_FEW;
        double all = 0;
        if (c >= s->channels)
            continue;
        for (int y = 0; y < high; y++)
            all += shared[k][y * s->across + group];
        s->partial[(2 * (int64_t)blockIdx.y + k / DTI_FEW) * s->channels + c] = all;
    }
}

/* Blocks of dti_columns_total, and a channel's sums over all parts: true for the thread that has
 * them. */
static inline dti_grid dti_total_grid(const dti_columns *s)
{
    const dti_grid g = {(unsigned)dti_ceil_div(s->channels, DTI_TOTAL_CHANNELS), 1};
    return g;
}

DT_DEVICE bool dti_columns_total(const dti_columns *s, int64_t *c, double *first, double *second)
{
    enum { LANES = DTI_THREADS / DTI_TOTAL_CHANNELS };
    __shared__ double shared[2][LANES][DTI_TOTAL_CHANNELS];
    const unsigned at = threadIdx.x % DTI_TOTAL_CHANNELS, lane = threadIdx.x / DTI_TOTAL_CHANNELS;
    const int64_t channel = (int64_t)blockIdx.x * DTI_TOTAL_CHANNELS + at;
    *c = channel;
    *first = *second = 0;
    DT_UNROLL(4)
    for (int64_t p = channel < s->channels ? lane : s->parts; p < s->parts; p += LANES) {
        *first += s->partial[2 * p * s->channels + channel];
        *second += s->partial[(2 * p + 1) * s->channels + channel];
    }
    shared[0][lane][at] = *first;
    shared[1][lane][at] = *second;
    __syncthreads();
    if (lane > 0 || channel >= s->channels)
        return false;
    for (int i = 1; i < LANES; i++) {
        *first += shared[0][i][at];
        *second += shared[1][i][at];
    }
    return true;
}

/* --- norms --- */

/* What an op of a norm is given. @mean and @istd: of each channel, row or group; forward writes
 * them. @rms: the mean and the bias are zero, and there are none.
 * @wide: eight values lie at 16 bytes in every row */
typedef struct dti_norm_job {
    dti_columns s;
    const void *x, *dy;
    void *to; /* y or dx */
    const float *weight, *bias;
    float *mean, *istd, *dweight, *dbias;
    double eps;
    bool wide, rms;
} dti_norm_job;

static inline dti_columns dti_norm_columns(const dt_call *c, int64_t n, void *work)
{
    const dt_shape x = dt_graph_shape(c->graph, c->node->in[0]);
    return dti_columns_of(n * x.h * x.w, x.c, work);
}

static inline dti_norm_job dti_norm_job_of(const dt_call *c, const dt_args *a, double eps)
{
    dti_norm_job j;
    j.s = dti_norm_columns(c, a->n, a->port[DT_WORK]);
    j.x = a->port[DT_X];
    j.dy = a->port[DT_DY];
    j.to = a->port[c->form == DT_BACKWARD ? DT_DX : DT_Y];
    j.weight = (const float *)a->port[DT_P];
    j.bias = (const float *)a->port[DT_P + 1];
    j.mean = (float *)a->port[DT_S];
    j.istd = (float *)a->port[DT_S + 1];
    j.dweight = (float *)a->port[DT_DP];
    j.dbias = (float *)a->port[DT_DP + 1];
    j.eps = eps;
    j.rms = false;
    j.wide =
        dti_wide(j.x) && dti_wide(j.dy) && dti_wide(j.to) && dti_wide_rows(j.s.channels, c->dtype);
    j.s.wide = j.wide;
    return j;
}

/* The parameters' gradients, once parts have their sums of dy and of what it is multiplied by.
 * @factor: of the second, a channel; NULL: 1 */
typedef struct norm_sums {
    dti_columns s;
    const float *factor;
    float *dweight, *dbias;
} norm_sums;

DT_KERNEL(norm_gradients, norm_sums)
{
    int64_t c;
    double dbias, products;
    if (!dti_columns_total(&given.s, &c, &dbias, &products))
        return;
    given.dweight[c] =
        (float)(given.factor == NULL ? products : products * (double)given.factor[c]);
    if (given.dbias != NULL)
        given.dbias[c] = (float)dbias;
}

static inline void dti_norm_gradients(const dti_norm_job *j, const float *factor, void *queue)
{
    norm_sums sums;
    sums.s = j->s;
    sums.factor = factor;
    sums.dweight = j->dweight;
    sums.dbias = j->dbias;
    DT_LAUNCH(norm_gradients, dti_total_grid(&j->s), DTI_THREADS, queue, sums);
}

#endif
