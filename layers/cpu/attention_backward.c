/* Attention backward, of both kinds. */
#include "layers/cpu/attention_tasks.h"

#include <string.h>

#include "layers/cpu/exp.h"

/* For each tile of keys a task goes over the queries, with scores as [query][key], and adds up dk
 * and dv for the tile, dq for all queries. The efficient kind computes the probabilities again from
 * the saved logarithm of the sum; the naive one has kept them. */
enum { T = DT_TILE };

int64_t dti_backward_room(const dti_attend *j)
{
    return 2 * j->d * T + 3 * T * j->pad + 2 * T * T + j->tiles * T * (3 * j->pad + 1);
}

/* One tile of keys: turned k and v, rows of k, the sums; scratch for one of queries; and of all
 * positions q, dy and dq as rows, and dy . y, which is the sum over keys of p times dp. */
typedef struct keys {
    int64_t tile, n;
    float *k, *v, *rows, *dk, *dv, *p, *ds;
    float *q, *dy, *dq, *delta;
} keys;

DT_CLONES static void multiply_rows(
    const float *a, const float *b, int64_t n, int64_t row, float *sums)
{
    enum { LANES = DT_TILE_LANES };
    for (int64_t r = 0; r < n; r++) {
        float sum[LANES] = {0}, all = 0;
        for (int64_t i = 0; i < row; i += LANES)
#pragma omp simd
            for (int l = 0; l < LANES; l++)
                sum[l] += a[r * row + i + l] * b[r * row + i + l];
        for (int l = 0; l < LANES; l++)
            all += sum[l];
        sums[r] = all;
    }
}

static void load_queries(const dti_head *h, const keys *k)
{
    const dti_attend *j = h->j;
    const dti_positions q = dti_part_of(h, DT_X, 0), y = dti_whole_of(h, DT_Y),
                        dy = dti_whole_of(h, DT_DY);
    dti_load_rows(j, &q, 0, j->t, j->scale, k->q);
    dti_load_rows(j, &dy, 0, j->t, 1, k->dy);
    for (int64_t at = 0; at < j->t; at += T) {
        dti_load_rows(j, &y, at, dti_left(j, at), 1, k->rows);
        multiply_rows(k->rows, k->dy + at * j->pad, dti_left(j, at), j->pad, k->delta + at);
    }
    memset(k->dq, 0, (size_t)(j->t * j->pad) * sizeof *k->dq);
}

/* Scores to probabilities p, and dp to the gradient of the scores: p (dp - delta). */
DT_CLONES static void recompute(
    float *p, float *ds, int64_t n, const float *lse, const float *delta)
{
    for (int64_t r = 0; r < n; r++)
#pragma omp simd
        for (int i = 0; i < T; i++) {
            const float e = dti_exp(p[r * T + i] - lse[r]);
            p[r * T + i] = e;
            ds[r * T + i] = e * (ds[r * T + i] - delta[r]);
        }
}

/* The same with probabilities that forward has kept, of which the first @keys of a row are there.
 */
DT_CLONES static void reuse(const float *prob, int64_t row, int64_t keys_, float *p, float *ds,
    int64_t n, const float *delta)
{
    for (int64_t r = 0; r < n; r++) {
#pragma omp simd
        for (int64_t i = 0; i < keys_; i++) {
            p[r * T + i] = prob[r * row + i];
            ds[r * T + i] = p[r * T + i] * (ds[r * T + i] - delta[r]);
        }
        for (int64_t i = keys_; i < T; i++)
            p[r * T + i] = ds[r * T + i] = 0;
    }
}

/* What a query does not see, or what is no key, has probability 0. */
static void mask_queries(const keys *k, int64_t n, bool diagonal)
{
    for (int64_t r = 0; r < n && (diagonal || k->n < T); r++) {
        const int64_t seen = diagonal && r + 1 < k->n ? r + 1 : k->n;
        memset(k->p + r * T + seen, 0, (size_t)(T - seen) * sizeof *k->p);
        memset(k->ds + r * T + seen, 0, (size_t)(T - seen) * sizeof *k->ds);
    }
}

static void backward_tile(const dti_head *h, const keys *k, int64_t first, bool naive)
{
    const dti_attend *j = h->j;
    const int64_t n = dti_left(j, first), pad = j->pad, row = (h->sample * j->heads + h->h) * j->t;
    const float *q = k->q + first * pad, *dy = k->dy + first * pad, *s = j->a->port[DT_S];
    j->product(&(dt_tile){.a = dy,
        .row = pad,
        .step = 1,
        .b = k->v,
        .b_row = T,
        .c = k->ds,
        .c_row = T,
        .m = n,
        .n = T,
        .depth = j->d});
    if (naive) {
        reuse(s + (row + first) * j->t + k->tile * T, j->t, k->n, k->p, k->ds, n, k->delta + first);
    } else {
        j->product(&(dt_tile){.a = q,
            .row = pad,
            .step = 1,
            .b = k->k,
            .b_row = T,
            .c = k->p,
            .c_row = T,
            .m = n,
            .n = T,
            .depth = j->d});
        recompute(k->p, k->ds, n, s + row + first, k->delta + first);
        mask_queries(k, n, j->causal && first == k->tile * T);
    }
    dt_tile turned = {.a = k->p,
        .row = 1,
        .step = T,
        .b = dy,
        .b_row = pad,
        .c = k->dv,
        .c_row = pad,
        .m = k->n,
        .n = pad,
        .depth = n,
        .add = true};
    j->product(&turned);
    turned.a = k->ds;
    turned.b = q;
    turned.c = k->dk;
    j->product(&turned);
    j->product(&(dt_tile){.a = k->ds,
        .row = T,
        .step = 1,
        .b = k->rows,
        .b_row = pad,
        .c = k->dq + first * pad,
        .c_row = pad,
        .m = n,
        .n = pad,
        .depth = k->n,
        .add = true});
}

static void backward_keys(const dti_head *h, keys *k, bool naive)
{
    const dti_attend *j = h->j;
    const int64_t first = k->tile * T;
    const size_t bytes = (size_t)(T * j->pad) * sizeof(float);
    const dti_positions xk = dti_part_of(h, DT_X, 1), xv = dti_part_of(h, DT_X, 2);
    const dti_positions dxk = dti_part_of(h, DT_DX, 1), dxv = dti_part_of(h, DT_DX, 2);
    k->n = dti_left(j, first);
    dti_load_turned(j, &xk, first, 1, k->k, T, k->rows);
    dti_load_turned(j, &xv, first, 1, k->v, T, k->rows);
    dti_load_rows(j, &xk, first, k->n, 1, k->rows);
    memset(k->dk, 0, bytes);
    memset(k->dv, 0, bytes);
    for (int64_t at = j->causal ? k->tile : 0; at < j->tiles; at++)
        backward_tile(h, k, at * T, naive);
    dti_store_rows(j, &dxk, first, k->n, k->dk, NULL, 1);
    dti_store_rows(j, &dxv, first, k->n, k->dv, NULL, 1);
}

static void backward(const dti_attend *j, int64_t i, bool naive)
{
    dti_head h = dti_head_of(j, i);
    const int64_t all = j->tiles * T;
    keys k = {.k = dti_carve(&h.work, j->d * T), .v = dti_carve(&h.work, j->d * T)};
    k.rows = dti_carve(&h.work, T * j->pad);
    k.dk = dti_carve(&h.work, T * j->pad);
    k.dv = dti_carve(&h.work, T * j->pad);
    k.p = dti_carve(&h.work, T * T);
    k.ds = dti_carve(&h.work, T * T);
    k.q = dti_carve(&h.work, all * j->pad);
    k.dy = dti_carve(&h.work, all * j->pad);
    k.dq = dti_carve(&h.work, all * j->pad);
    k.delta = dti_carve(&h.work, all);
    const dti_positions dxq = dti_part_of(&h, DT_DX, 0);
    load_queries(&h, &k);
    for (k.tile = 0; k.tile < j->tiles; k.tile++)
        backward_keys(&h, &k, naive);
    dti_store_rows(j, &dxq, 0, j->t, k.dq, NULL, j->scale);
}

void dti_efficient_backward_task(const void *job, int64_t i)
{
    backward(job, i, false);
}

void dti_naive_backward_task(const void *job, int64_t i)
{
    backward(job, i, true);
}
