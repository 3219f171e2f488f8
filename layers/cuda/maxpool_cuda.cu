/* Max pooling on the card. */
#include "layers/cuda/cuda_kernel.cuh"

DT_C_HEADERS
#include "layers/pool/maxpool.h"
#include "layers/pool/pool.h"
DT_C_HEADERS_END

/* A thread works on one pixel (of y forward, of x backward) and up to eight channels. Backward
 * gathers: it looks which windows the pixel has won, in the order of windows. Where forward kept no
 * positions it finds them again before. */
typedef struct maxpool_job {
    const void *x, *dy;
    void *y, *dx;
    uint8_t *index;
    dti_windows p;
    dt_shape xs, ys;
    int64_t samples, groups, index_bytes;
    bool packed, wide, wide_index; /* @wide_index: eight positions are one word */
} maxpool_job;

/* Element of x, counted through all samples. */
DT_DEVICE int64_t maxpool_pixel(const maxpool_job *j, int64_t sample, int64_t r, int64_t q)
{
    return ((sample * j->xs.h + r) * j->xs.w + q) * j->xs.c;
}

/* Number of row r, column q in the window of output row, col: counted through the whole window,
 * padding included. */
DT_DEVICE int maxpool_number(const maxpool_job *j, int64_t row, int64_t col, int64_t r, int64_t q)
{
    return (int)((r - (row * j->p.h.stride - j->p.h.pad)) * j->p.w.kernel + q -
                 (col * j->p.w.stride - j->p.w.pad));
}

/* The first of equals wins, and the first NaN where there is one. */
DT_DEVICE void maxpool_find(const maxpool_job *j, int64_t sample, int64_t row, int64_t col,
    int64_t c, int n, bool wide, float *best, int *at, dt_dtype t)
{
    const dti_span h = dti_window_span(&j->p.h, row, j->xs.h),
                   w = dti_window_span(&j->p.w, col, j->xs.w);
    float v[DTI_FEW];
    DT_UNROLL(8)
    for (int k = 0; k < DTI_FEW; k++) {
        best[k] = -INFINITY;
        at[k] = maxpool_number(j, row, col, h.begin, w.begin);
    }
    for (int64_t r = h.begin; r < h.end; r++)
        for (int64_t q = w.begin; q < w.end; q++) {
            const int number = maxpool_number(j, row, col, r, q);
            dti_take(j->x, maxpool_pixel(j, sample, r, q) + c, n, wide, t, v);
            DT_UNROLL(8)
            for (int k = 0; k < DTI_FEW; k++) {
                const bool wins = !(v[k] <= best[k]) && best[k] == best[k];
                at[k] = wins ? number : at[k];
                best[k] = wins ? v[k] : best[k];
            }
        }
}

/* Positions of eight channels, a nibble each where they are packed, else a byte. */
DT_DEVICE unsigned maxpool_position(uint64_t positions, int k, bool packed)
{
    return (unsigned)(packed ? positions >> 4 * k & 15 : positions >> 8 * k & 255);
}

/* Positions of the @n channels from output @e of the sample on, which is even where they are
 * packed: bytes, of which two channels share one then. */
DT_DEVICE uint64_t maxpool_positions(const maxpool_job *j, const uint8_t *index, int64_t e, int n)
{
    const uint8_t *from = index + (j->packed ? e / 2 : e);
    if (j->wide_index)
        return j->packed ? *(const uint32_t *)(const void *)from
                         : *(const uint64_t *)(const void *)from;
    uint64_t positions = 0;
    DT_UNROLL(8)
    for (int k = 0; k < DTI_FEW; k++)
        if (k < (j->packed ? (n + 1) / 2 : n))
            positions |= (uint64_t)from[k] << 8 * k;
    return positions;
}

DT_DEVICE void maxpool_put_index(
    const maxpool_job *j, uint8_t *index, int64_t e, int n, const int *at)
{
    uint8_t *to = index + (j->packed ? e / 2 : e);
    uint64_t positions = 0;
    DT_UNROLL(8)
    for (int k = 0; k < DTI_FEW; k++)
        if (k < n)
            positions |= (uint64_t)at[k] << (j->packed ? 4 : 8) * k;
    if (j->wide_index) {
        if (j->packed)
            *(uint32_t *)(void *)to = (uint32_t)positions;
        else
            *(uint64_t *)(void *)to = positions;
        return;
    }
    DT_UNROLL(8)
    for (int k = 0; k < DTI_FEW; k++)
        if (k < (j->packed ? (n + 1) / 2 : n))
            to[k] = (uint8_t)(positions >> 8 * k);
}

DT_DEVICE void maxpool_forward(const maxpool_job *j, dt_dtype t)
{
    const int64_t items = j->samples * j->ys.h * j->ys.w * j->groups;
    for (int64_t i = dti_first(); i < items; i += dti_stride()) {
        const dti_place p = dti_place_of(i, j->ys.h, j->ys.w, j->groups);
        const int64_t c = p.group * DTI_FEW, e = (p.row * j->ys.w + p.col) * j->ys.c + c;
        const int n = dti_few(c, j->ys.c);
        float best[DTI_FEW];
        int at[DTI_FEW];
        maxpool_find(j, p.sample, p.row, p.col, c, n, j->wide, best, at, t);
        if (j->y != NULL)
            dti_put(j->y, p.sample * dt_shape_sample(&j->ys) + e, n, j->wide, t, best);
        if (j->index != NULL)
            maxpool_put_index(j, j->index + p.sample * j->index_bytes, e, n, at);
    }
}

DT_KERNELS(maxpool_forward, maxpool_job)

/* y are the positions themselves. */
DT_DEVICE void maxpool_places(const maxpool_job *j, dt_dtype t)
{
    const int64_t items = j->samples * j->ys.h * j->ys.w * j->groups;
    for (int64_t i = dti_first(); i < items; i += dti_stride()) {
        const dti_place p = dti_place_of(i, j->ys.h, j->ys.w, j->groups);
        const int64_t c = p.group * DTI_FEW, e = (p.row * j->ys.w + p.col) * j->ys.c + c;
        const int n = dti_few(c, j->ys.c);
        float best[DTI_FEW];
        int at[DTI_FEW];
        maxpool_find(j, p.sample, p.row, p.col, c, n, j->wide, best, at, t);
        DT_UNROLL(8)
        for (int k = 0; k < DTI_FEW; k++)
            best[k] = (float)at[k];
        dti_put(j->y, p.sample * dt_shape_sample(&j->ys) + e, n, j->wide, t, best);
    }
}

DT_KERNELS(maxpool_places, maxpool_job)

/* Where channels are odd, bytes of positions reach from pixel to pixel: a thread makes one byte. */
DT_DEVICE void maxpool_pairs(const maxpool_job *j, dt_dtype t)
{
    const int64_t outputs = dt_shape_sample(&j->ys);
    for (int64_t i = dti_first(); i < j->samples * j->index_bytes; i += dti_stride()) {
        const int64_t sample = dti_quotient(i, j->index_bytes);
        const int64_t e = 2 * (i - sample * j->index_bytes);
        unsigned byte = 0;
        for (int half = 0; half < 2 && e + half < outputs; half++) {
            const dti_place p = dti_place_of(e + half, j->ys.h, j->ys.w, j->ys.c);
            float best[DTI_FEW];
            int at[DTI_FEW];
            maxpool_find(j, sample, p.row, p.col, p.group, 1, false, best, at, t);
            byte |= (unsigned)at[0] << 4 * half;
        }
        j->index[i] = (uint8_t)byte;
    }
}

DT_KERNELS(maxpool_pairs, maxpool_job)

/* Which of the channels this window's maximum lies at row r, column q for: by the stored position.
 * Where channels are odd and packed, the first may be a byte's second half. */
DT_DEVICE unsigned maxpool_won(const maxpool_job *j, int64_t sample, int64_t e, int n, int number)
{
    const uint8_t *index = j->index + sample * j->index_bytes;
    const int skip = j->packed && e % 2 != 0 ? 1 : 0;
    const uint64_t positions = maxpool_positions(j, index, e - skip, n + skip);
    unsigned won = 0;
    DT_UNROLL(8)
    for (int k = 0; k < DTI_FEW; k++)
        won |= (maxpool_position(positions, k + skip, j->packed) == (unsigned)number ? 1u : 0u)
               << k;
    return won & ((1u << n) - 1);
}

DT_DEVICE void maxpool_backward(const maxpool_job *j, dt_dtype t)
{
    const int64_t items = j->samples * j->xs.h * j->xs.w * j->groups;
    for (int64_t i = dti_first(); i < items; i += dti_stride()) {
        const dti_place p = dti_place_of(i, j->xs.h, j->xs.w, j->groups);
        const int64_t c = p.group * DTI_FEW, at = maxpool_pixel(j, p.sample, p.row, p.col) + c;
        const int n = dti_few(c, j->xs.c);
        const dti_span row_here = {p.row, p.row + 1}, col_here = {p.col, p.col + 1};
        const dti_span rows = dti_windows_reaching(&j->p.h, row_here, j->ys.h);
        const dti_span cols = dti_windows_reaching(&j->p.w, col_here, j->ys.w);
        float sum[DTI_FEW] = {0}, d[DTI_FEW];
        for (int64_t row = rows.begin; row < rows.end; row++)
            for (int64_t col = cols.begin; col < cols.end; col++) {
                const int64_t e = (row * j->ys.w + col) * j->ys.c + c;
                const int64_t out = p.sample * dt_shape_sample(&j->ys) + e;
                const int number = maxpool_number(j, row, col, p.row, p.col);
                const unsigned won = maxpool_won(j, p.sample, e, n, number);
                if (won == 0)
                    continue;
                dti_take(j->dy, out, n, j->wide, t, d);
                DT_UNROLL(8)
                for (int k = 0; k < DTI_FEW; k++)
                    sum[k] += won & 1u << k ? d[k] : 0.0f;
            }
        dti_put(j->dx, at, n, j->wide, t, sum);
    }
}

DT_KERNELS(maxpool_backward, maxpool_job)

static maxpool_job maxpool_job_of(const dt_call *c, const dt_args *a)
{
    const dt_maxpool *o = (const dt_maxpool *)c->node->opts;
    maxpool_job j;
    j.x = a->port[DT_X];
    j.y = c->form == DT_BACKWARD ? NULL : a->port[DT_Y];
    j.dy = a->port[DT_DY];
    j.dx = a->port[DT_DX];
    j.index = (uint8_t *)a->port[c->form == DT_BACKWARD && a->port[DT_S] == NULL ? DT_WORK : DT_S];
    j.p = dti_windows_of(o->kernel, o->stride, o->pad, o->ceil);
    j.xs = dt_graph_shape(c->graph, c->node->in[0]);
    j.ys = c->node->info.y;
    j.samples = a->n;
    j.groups = dti_ceil_div(j.ys.c, DTI_FEW);
    j.index_bytes = c->node->info.n_stash > 0 ? (int64_t)c->node->info.stash[0].sample_bytes : 0;
    j.packed = dti_maxpool_packed(o);
    j.wide_index = (uintptr_t)j.index % 8 == 0 && j.index_bytes % 8 == 0 && j.ys.c % DTI_FEW == 0;
    j.wide = dti_wide(j.x) && dti_wide(j.y) && dti_wide(j.dy) && dti_wide(j.dx) &&
             dti_wide_rows(j.ys.c, c->dtype);
    return j;
}

/* Maxima and positions, where there is a place for them. */
static void maxpool_find_all(maxpool_job j, dt_dtype t, void *queue)
{
    const int64_t items = j.samples * j.ys.h * j.ys.w * j.groups;
    if (j.index != NULL && j.packed && j.ys.c % 2 != 0) {
        DT_LAUNCH_OF(maxpool_pairs, t, dti_grid_of(j.samples * j.index_bytes), queue, j);
        j.index = NULL;
    }
    if (j.index != NULL || j.y != NULL)
        DT_LAUNCH_OF(maxpool_forward, t, dti_grid_of(items), queue, j);
}

static dt_status maxpool_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    const bool again = c->form == DT_BACKWARD && c->alt == 0;
    f->work_bytes = again ? (size_t)c->n * c->node->info.stash[0].sample_bytes : 0;
    return DT_OK;
}

static dt_status maxpool_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    maxpool_job j = maxpool_job_of(c, a);
    if (c->form != DT_BACKWARD) {
        maxpool_find_all(j, c->dtype, a->queue);
        return dt_cuda_launched("maxpool forward", err);
    }
    if (a->port[DT_S] == NULL)
        maxpool_find_all(j, c->dtype, a->queue);
    const int64_t items = j.samples * j.xs.h * j.xs.w * j.groups;
    DT_LAUNCH_OF(maxpool_backward, c->dtype, dti_grid_of(items), a->queue, j);
    return dt_cuda_launched("maxpool backward", err);
}

static dt_status maxpool_index_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const maxpool_job j = maxpool_job_of(c, a);
    const int64_t items = j.samples * j.ys.h * j.ys.w * j.groups;
    DT_LAUNCH_OF(maxpool_places, c->dtype, dti_grid_of(items), a->queue, j);
    return dt_cuda_launched("maxpool_index", err);
}

DT_CUDA_TABLE(maxpool_index, NULL, NULL, maxpool_index_run, NULL);
DT_CUDA_TABLE(maxpool, maxpool_facts, NULL, maxpool_run, NULL);
