/* Backward of attention, twice over the scores: for dq rows are queries, for dk and dv they are
 * keys and the tiles are of queries, so that every block owns what it adds up. */
#ifndef DT_LAYERS_CUDA_ATTENTION_BACKWARD_CUDA_CUH
#define DT_LAYERS_CUDA_ATTENTION_BACKWARD_CUDA_CUH

#include "layers/cuda/attention_tiles.cuh"

/* dy . y of each row of each head, which is the sum over keys of p times dp: a warp a row. */
DT_DEVICE void multiply_rows(const attention_job *j, dt_dtype t)
{
    const int64_t step = (int64_t)gridDim.x * (ATTENTION_THREADS / DT_WARP);
    const int64_t warp =
        (int64_t)blockIdx.x * (ATTENTION_THREADS / DT_WARP) + threadIdx.x / DT_WARP;
    for (int64_t i = warp; i < j->n * j->heads * j->t; i += step) {
        const int64_t head = i / j->t, row = i % j->t;
        const int64_t at = (head / j->heads * j->t + row) * j->c + head % j->heads * j->d;
        double sum = 0;
        for (int64_t k = threadIdx.x % DT_WARP; k < j->d; k += DT_WARP)
            sum += (double)(dti_load(j->dy, at + k, t) * dti_load(j->y, at + k, t));
        sum = dti_warp_sum(sum);
        if (threadIdx.x % DT_WARP == 0)
            j->delta[i] = (float)sum;
    }
}

/* Probabilities of the block's queries for a tile of keys: computed again, or as forward kept them.
 */
DT_DEVICE void probabilities(const attention_job *j, const place *p, const tile *q, const tile *k,
    float (*s)[4], int64_t key, int keys, int d, dt_dtype t)
{
    clear(s, keys / 8);
    if (j->prob == NULL) {
        product(s, q, k, d, keys / 8, t);
        soften_again(j, p, s, key, keys);
        return;
    }
    DT_UNROLL(8)
    for (int n = 0; n < keys / 8; n++)
        DT_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        const float *from =
            prob_at(j, p, p->first + my_row() + i / 2 * 8, key + n * 8 + my_column() + i % 2);
        if (from != NULL)
            s[n][i] = *from;
    }
}

DT_DEVICE void backward_queries(const attention_job *j, dt_dtype t, int d, int keys)
{
    DT_SHARED(shared);
    unsigned char *room = shared;
    const place p = place_of(j, true);
    const tile q = take_tile(&room, ROWS, d, t), dy = take_tile(&room, ROWS, d, t);
    const tile k = take_tile(&room, keys, d, t), v = take_tile(&room, keys, d, t);
    const tile turned = take_tile(&room, d, keys, t); /* k */
    const rows xq = part_of(j, &p, j->x, 0), xk = part_of(j, &p, j->x, 1);
    const rows xv = part_of(j, &p, j->x, 2), xdy = whole_of(j, &p, j->dy);
    const rows to = part_of(j, &p, j->to, 0);
    float dq[MOST_D / 8][4], delta[2];
    const float scale[2] = {j->scale, j->scale};
    clear(dq, d / 8);
    load_tile(j, &xq, p.first, ROWS, d, &q, NULL, t);
    load_tile(j, &xdy, p.first, ROWS, d, &dy, NULL, t);
    for (int i = 0; i < 2; i++) {
        const int64_t row = p.first + my_row() + i * 8;
        delta[i] = row < j->t ? j->delta[p.row0 + row] : 0;
    }
    for (int64_t key = 0; key < keys_end(j, &p); key += keys) {
        float s[MOST_KEYS / 8][4], ds[MOST_KEYS / 8][4];
        __syncthreads();
        load_tile(j, &xk, key, keys, d, &k, &turned, t);
        load_tile(j, &xv, key, keys, d, &v, NULL, t);
        __syncthreads();
        probabilities(j, &p, &q, &k, s, key, keys, d, t);
        clear(ds, keys / 8);
        product(ds, &dy, &v, d, keys / 8, t);
        DT_UNROLL(8)
        for (int n = 0; n < keys / 8; n++)
            DT_UNROLL(4)
        for (int i = 0; i < 4; i++)
            ds[n][i] = s[n][i] * (ds[n][i] - delta[i / 2]);
        product_of(dq, ds, &turned, keys, d / 8, t);
    }
    __syncthreads();
    keep(&q, dq, scale, d / 8, t);
    __syncthreads();
    store_tile(j, &q, p.first, d, &to, j->to, t);
}

/* The same with keys as rows: s is turned. @lse in units of log 2, infinite behind the last query.
 */
DT_DEVICE void turned_probabilities(const attention_job *j, const place *p, const tile *k,
    const tile *q, float (*s)[4], int64_t query, const float *lse, int queries, int d, dt_dtype t)
{
    clear(s, queries / 8);
    if (j->prob == NULL)
        product(s, k, q, d, queries / 8, t);
    DT_UNROLL(8)
    for (int n = 0; n < queries / 8; n++)
        DT_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        const int64_t key = p->first + my_row() + i / 2 * 8;
        const int column = n * 8 + my_column() + i % 2;
        if (j->prob != NULL) {
            const float *from = prob_at(j, p, query + column, key);
            s[n][i] = from != NULL ? *from : 0;
        } else {
            s[n][i] = sees(j, query + column, key)
                          ? exp2f(s[n][i] * (j->scale * 1.44269504089f) - lse[column])
                          : 0;
        }
    }
}

/* Sums of a tile of queries. */
DT_DEVICE void load_sums(
    const attention_job *j, const place *p, int64_t query, int queries, float *lse, float *delta)
{
    for (int i = (int)threadIdx.x; i < queries; i += ATTENTION_THREADS) {
        const bool there = query + i < j->t;
        const int64_t at = p->row0 + query + i;
        delta[i] = there ? j->delta[at] : 0;
        lse[i] = !there ? INFINITY : j->lse != NULL ? j->lse[at] * 1.44269504089f : 0;
    }
}

DT_DEVICE void backward_keys(const attention_job *j, dt_dtype t, int d, int queries)
{
    DT_SHARED(shared);
    unsigned char *room = shared;
    const place p = place_of(j, false);
    const tile k = take_tile(&room, ROWS, d, t), v = take_tile(&room, ROWS, d, t);
    const tile q = take_tile(&room, queries, d, t), dy = take_tile(&room, queries, d, t);
    const tile qt = take_tile(&room, d, queries, t), dyt = take_tile(&room, d, queries, t);
    float *lse = (float *)(void *)room, *delta = lse + MOST_KEYS;
    const rows xq = part_of(j, &p, j->x, 0), xk = part_of(j, &p, j->x, 1);
    const rows xv = part_of(j, &p, j->x, 2), xdy = whole_of(j, &p, j->dy);
    const rows to_k = part_of(j, &p, j->to, 1), to_v = part_of(j, &p, j->to, 2);
    float dk[MOST_D / 8][4], dv[MOST_D / 8][4];
    const float scale[2] = {j->scale, j->scale}, one[2] = {1, 1};
    clear(dk, d / 8);
    clear(dv, d / 8);
    load_tile(j, &xk, p.first, ROWS, d, &k, NULL, t);
    load_tile(j, &xv, p.first, ROWS, d, &v, NULL, t);
    for (int64_t query = j->causal ? p.first : 0; query < j->t; query += queries) {
        float s[MOST_KEYS / 8][4], ds[MOST_KEYS / 8][4];
        __syncthreads();
        load_tile(j, &xq, query, queries, d, &q, &qt, t);
        load_tile(j, &xdy, query, queries, d, &dy, &dyt, t);
        load_sums(j, &p, query, queries, lse, delta);
        __syncthreads();
        turned_probabilities(j, &p, &k, &q, s, query, lse, queries, d, t);
        product_of(dv, s, &dyt, queries, d / 8, t);
        clear(ds, queries / 8);
        product(ds, &v, &dy, d, queries / 8, t);
        DT_UNROLL(8)
        for (int n = 0; n < queries / 8; n++)
            DT_UNROLL(4)
        for (int i = 0; i < 4; i++)
            ds[n][i] = s[n][i] * (ds[n][i] - delta[n * 8 + my_column() + i % 2]);
        product_of(dk, ds, &qt, queries, d / 8, t);
    }
    __syncthreads();
    keep(&k, dk, scale, d / 8, t);
    keep(&v, dv, one, d / 8, t);
    __syncthreads();
    store_tile(j, &k, p.first, d, &to_k, j->to, t);
    store_tile(j, &v, p.first, d, &to_v, j->to, t);
}

#endif
