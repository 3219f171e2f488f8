/* Attention on the processor: what a call is cut into, forward and backward of both kinds, and what
 * multiplies. Work is done on tiles of 64 positions, copied into scratch as fp32: rows of a head's
 * channels, padded to whole vectors, or transposed, so that positions lie in the lanes; or, where
 * products are those of bf16, read as they lie and packed once for all products of a tile. No sum
 * runs across tasks, so the bits do not depend on the team. */
#include "layers/sequence/attention.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "engine/base/numbers.h"
#include "engine/implementations.h"
#include "layers/blocked/tile.h"
#include "layers/blocked/transpose.h"
#include "layers/cpu/cpu.h"
#include "layers/cpu/values.h"
#include "layers/elementwise/curves.h"

enum { T = DTI_TILE_SIDE };

/* One execution.
 * @t @c @d @pad: positions, channels, those of a head, padded to vectors
 * @tiles: of positions
 * @factor: floats of a tile of positions, as rows, transposed or packed
 * @tasks: in which it is done, @each of a head
 * @scratch: floats of it that a thread has, or a task where these are fewer: so many @copies
 * @scale: of scores
 * @direct: the product reads rows of bf16, which are whole vectors, where they lie */
typedef struct attend_job {
    const dt_args *a;
    dt_dtype type;
    bool causal;
    int64_t t, c, d, pad, heads, tiles, factor, tasks, each, scratch, copies;
    float scale;
    dti_tile_fn *product;
    bool direct;
} attend_job;

/* One head of one sample, with a task's scratch. */
typedef struct head {
    const attend_job *j;
    int64_t sample, h;
    float *work;
} head;

/* A matrix of positions by channels of a head: its first element, and the distance of positions. */
typedef struct positions {
    void *p;
    int64_t at, row;
} positions;

/* Positions of the tile that begins at @first. */
static int64_t left(const attend_job *j, int64_t first)
{
    return j->t - first < DTI_TILE_SIDE ? j->t - first : DTI_TILE_SIDE;
}

/* The next @n floats of a task's scratch. */
static float *carve(float **work, int64_t n)
{
    float *p = *work;
    *work += n;
    return p;
}

/* --- positions to scratch and back --- */

/* The head of the batch that task i is of. */
static head head_of(const attend_job *j, int64_t i)
{
    const int64_t at = j->tasks > j->copies ? dt_team_member() : i, h = i / j->each;
    float *work = (float *)j->a->port[DT_WORK] + at * j->scratch;
    return (head){j, h / j->heads, h % j->heads, work};
}

/* Part 0, 1, 2 (q, k, v) of what has three; a head of what has one. */
static positions part_of(const head *h, int port, int part)
{
    const attend_job *j = h->j;
    return (positions){
        j->a->port[port], (h->sample * j->t * 3 + part) * j->c + h->h * j->d, 3 * j->c};
}

static positions whole_of(const head *h, int port)
{
    const attend_job *j = h->j;
    return (positions){j->a->port[port], h->sample * j->t * j->c + h->h * j->d, j->c};
}

/* Positions [first, first + n) as rows of fp32, each padded with zeros. */
DT_CLONES static void load_rows(
    const attend_job *j, const positions *from, int64_t first, int64_t n, float *to)
{
    for (int64_t r = 0; r < n; r++) {
        float *row = to + r * j->pad;
        const float *x =
            dti_values_read(j->type, from->p, from->at + (first + r) * from->row, row, j->d);
        if (x != row)
            memcpy(row, x, (size_t)j->d * sizeof *row);
        for (int64_t i = j->d; i < j->pad; i++)
            row[i] = 0;
    }
}

/* A tile of them transposed: channel i of position r at to[i * lanes + r], zero where there is
 * none. @rows has space for four rows. */
static void load_transposed(const attend_job *j, const positions *from, int64_t first, float *to,
    int64_t lanes, float *rows)
{
    const int64_t n = left(j, first), all = dti_tile_padded(n);
    for (int64_t r = 0; r < all; r += 4) {
        const float *x[4];
        for (int k = 0; k < 4; k++) {
            float *row = rows + k * j->pad;
            memset(row, 0, (size_t)j->d * sizeof *row);
            x[k] = r + k < n ? dti_values_read(j->type, from->p,
                                   from->at + (first + r + k) * from->row, row, j->d)
                             : row;
        }
        int64_t i = 0;
        for (; i + 4 <= j->d; i += 4)
            dti_transpose_four(x, i, 1, to + i * lanes + r, lanes);
        for (; i < j->d; i++)
            for (int k = 0; k < 4; k++)
                to[i * lanes + r + k] = x[k][i];
    }
}

/* A factor of products: rows of fp32, or of bf16 as they lie, and packed where they are a right
 * one. */
typedef struct factor {
    const float *rows;
    const dt_bf16 *bf16;
    const uint32_t *packed;
    int64_t row;
} factor;

static void as_left(dti_tile *t, const factor *f)
{
    t->a = f->rows;
    t->a_bf16 = f->bf16;
    t->row = f->row;
    t->step = 1;
}

static void as_right(dti_tile *t, const factor *f)
{
    t->b = f->rows;
    t->b_packed = f->packed;
    t->b_row = f->row;
}

static dt_bf16 *halves_at(const positions *from, int64_t first)
{
    return (dt_bf16 *)from->p + from->at + first * from->row;
}

/* @n positions as a left factor; in fp32 they need no copy, as they are read element by element. */
static factor lines_of(
    const attend_job *j, const positions *from, int64_t first, int64_t n, float *scratch)
{
    if (j->direct)
        return (factor){.bf16 = halves_at(from, first), .row = from->row};
    if (j->type == DT_F32)
        return (factor){(const float *)from->p + from->at + first * from->row, .row = from->row};
    load_rows(j, from, first, n, scratch);
    return (factor){scratch, .row = j->pad};
}

/* Positions as either factor, as rows, where load_factor has loaded them. */
static factor loaded(const attend_job *j, const positions *from, int64_t first, float *scratch)
{
    if (!j->direct)
        return (factor){scratch, .row = j->pad};
    return (factor){
        .bf16 = halves_at(from, first), .packed = (uint32_t *)scratch, .row = from->row};
}

static factor load_factor(
    const attend_job *j, const positions *from, int64_t first, int64_t n, float *scratch)
{
    const factor f = loaded(j, from, first, scratch);
    if (j->direct)
        dti_tile_pack(&(dti_tile){.b_bf16 = f.bf16, .b_row = f.row, .depth = n, .n = j->d},
            (uint32_t *)scratch);
    else
        load_rows(j, from, first, n, scratch);
    return f;
}

/* The tile of positions at @first as a right factor: their channels as rows. @spare: of four rows.
 */
static factor columns_of(
    const attend_job *j, const positions *from, int64_t first, float *scratch, float *spare)
{
    if (!j->direct) {
        load_transposed(j, from, first, scratch, T, spare);
        return (factor){scratch, .row = T};
    }
    dti_tile_pack(&(dti_tile){.b_bf16 = halves_at(from, first),
                      .b_row = from->row,
                      .b_transposed = true,
                      .depth = j->d,
                      .n = left(j, first)},
        (uint32_t *)scratch);
    return (factor){.packed = (uint32_t *)scratch};
}

/* Rows of fp32 to where they belong, row r times by[r] (NULL: 1) times scale. */
DT_CLONES static void store_rows(const attend_job *j, const positions *to, int64_t first, int64_t n,
    float *from, const float *by, float scale)
{
    for (int64_t r = 0; r < n; r++) {
        const int64_t at = to->at + (first + r) * to->row;
        const float f = by == NULL ? scale : scale * by[r];
        float *row = from + r * j->pad, *y = dti_values_target(j->type, to->p, at, row);
#pragma omp simd
        for (int64_t i = 0; i < j->d; i++)
            y[i] = f * row[i];
        dti_values_write(j->type, to->p, at, y, j->d);
    }
}

/* e^x for x up to 88: 0 below -87, where floats would lose their precision; NaN for NaN. The
 * polynomial is Cephes' of expf. */
DT_INLINE float fast_exp(float x)
{
    const float whole = 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number */
    const float t = x * 1.44269504089f + whole;
    const float n = t - whole;
    const float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    const float scale = dti_float((dti_bits(t) + 127) << 23); /* 2^n: n is in the low bits of t */
    return dti_select(x < -87.0f, 0.0f, p * scale);
}

/* --- forward, naive --- */

/* A task computes all scores of a query, then their softmax, and keeps them. */
static int64_t naive_scratch(const attend_job *j)
{
    const int64_t all = dti_tile_padded(j->t);
    return j->d * all + all * j->pad + T * all + 2 * T * j->pad;
}

/* Softmax of n scores times @scale; what lies behind them becomes 0. Sums in lanes of a fixed
 * number. */
DT_CLONES static void softmax(float *s, int64_t n, int64_t all_keys, float scale)
{
    enum { LANES = DTI_TILE_LANES };
    float most[LANES], sum[LANES] = {0}, m = -INFINITY;
    for (int64_t i = n; i < all_keys; i++)
        s[i] = -INFINITY;
    for (int k = 0; k < LANES; k++)
        most[k] = -INFINITY;
    for (int64_t i = 0; i < all_keys; i += LANES)
#pragma omp simd
        for (int k = 0; k < LANES; k++)
            most[k] = s[i + k] > most[k] ? s[i + k] : most[k];
    for (int k = 0; k < LANES; k++)
        m = most[k] > m ? most[k] : m;
    for (int64_t i = 0; i < all_keys; i += LANES)
#pragma omp simd
        for (int k = 0; k < LANES; k++) {
            s[i + k] = fast_exp(scale * (s[i + k] - m));
            sum[k] += s[i + k];
        }
    float all = 0;
    for (int k = 0; k < LANES; k++)
        all += sum[k];
    const float over = 1 / all;
#pragma omp simd
    for (int64_t i = 0; i < all_keys; i++)
        s[i] *= over;
}

static void naive_tile(const head *h, int64_t first, const float *k, const float *v, float *work)
{
    const attend_job *j = h->j;
    const int64_t n = left(j, first), all = dti_tile_padded(j->t);
    float *s = carve(&work, T * all), *q = carve(&work, T * j->pad), *y = carve(&work, T * j->pad);
    const positions xq = part_of(h, DT_X, 0), to = whole_of(h, DT_Y);
    float *prob = j->a->port[DT_S];
    load_rows(j, &xq, first, n, q);
    j->product(&(dti_tile){.a = q,
        .row = j->pad,
        .step = 1,
        .b = k,
        .b_row = all,
        .c = s,
        .c_row = all,
        .m = n,
        .n = all,
        .depth = j->d});
    for (int64_t r = 0; r < n; r++) {
        softmax(s + r * all, j->causal ? first + r + 1 : j->t, all, j->scale);
        if (prob != NULL)
            memcpy(prob + ((h->sample * j->heads + h->h) * j->t + first + r) * j->t, s + r * all,
                (size_t)j->t * sizeof *prob);
    }
    j->product(&(dti_tile){.a = s,
        .row = all,
        .step = 1,
        .b = v,
        .b_row = j->pad,
        .c = y,
        .c_row = j->pad,
        .m = n,
        .n = j->pad,
        .depth = j->t});
    store_rows(j, &to, first, n, y, NULL, 1);
}

static void naive_task(const void *job, int64_t i)
{
    const attend_job *j = job;
    const int64_t all = dti_tile_padded(j->t);
    head h = head_of(j, i);
    float *k = carve(&h.work, j->d * all), *v = carve(&h.work, all * j->pad);
    const positions xk = part_of(&h, DT_X, 1), xv = part_of(&h, DT_X, 2);
    for (int64_t at = 0; at < j->tiles; at++)
        load_transposed(j, &xk, at * T, k + at * T, all, v);
    load_rows(j, &xv, 0, j->t, v);
    for (int64_t at = 0; at < j->tiles; at++)
        naive_tile(&h, at * T, k, v, h.work);
}

/* --- forward, efficient --- */

/* A task goes over the keys tile by tile, with scores as [key][query]: each lane keeps its query's
 * largest score and sum so far (the online softmax). */
static int64_t efficient_scratch(const attend_job *j)
{
    return 2 * j->factor + 2 * T * j->pad + T * T + 3 * T;
}

/* Of each query (a lane): its largest score, without the scale, the sum of exponentials so far, and
 * the factor by which an older sum shrinks. */
typedef struct online {
    float *most, *sum, *shrink;
} online;

/* Scores [key][query] to exponentials of @scale times them, a vector of queries at a time. */
DT_CLONES static void online_softmax(
    float *s, int64_t keys, int64_t queries, float scale, const online *o)
{
    enum { LANES = DTI_TILE_LANES };
    for (int64_t first = 0; first < queries; first += LANES, s += LANES) {
        float most[LANES], sum[LANES];
        float *const before = o->most + first, *const shrink = o->shrink + first;
        memcpy(most, before, sizeof most);
        for (int64_t k = 0; k < keys; k++)
#pragma omp simd
            for (int q = 0; q < LANES; q++)
                most[q] = s[k * T + q] > most[q] ? s[k * T + q] : most[q];
#pragma omp simd
        for (int q = 0; q < LANES; q++) {
            shrink[q] = fast_exp(scale * (before[q] - most[q]));
            sum[q] = o->sum[first + q] * shrink[q];
        }
        for (int64_t k = 0; k < keys; k++)
#pragma omp simd
            for (int q = 0; q < LANES; q++) {
                s[k * T + q] = fast_exp(scale * (s[k * T + q] - most[q]));
                sum[q] += s[k * T + q];
            }
        memcpy(before, most, sizeof most);
        memcpy(o->sum + first, sum, sizeof sum);
    }
}

DT_CLONES static void shrink_rows(float *y, int64_t n, int64_t row, const float *by)
{
    for (int64_t r = 0; r < n; r++)
#pragma omp simd
        for (int64_t i = 0; i < row; i++)
            y[r * row + i] *= by[r];
}

/* On the diagonal a query does not see the keys after it. */
static void mask_keys(float *s, int64_t keys)
{
    for (int64_t k = 0; k < keys; k++)
        for (int64_t q = 0; q < k; q++)
            s[k * T + q] = -INFINITY;
}

static void save_sums(const head *h, int64_t first, const online *o)
{
    float *lse = h->j->a->port[DT_S];
    if (lse == NULL)
        return;
    lse += (h->sample * h->j->heads + h->h) * h->j->t + first;
    for (int64_t q = 0; q < left(h->j, first); q++)
        lse[q] = h->j->scale * o->most[q] + logf(o->sum[q]);
}

/* A tile of queries: transposed q, scratch for a tile of keys, the scores, the output so far. */
typedef struct queries {
    int64_t tile, n;
    factor q;
    float *k, *v, *s, *y;
    online o;
} queries;

/* The tile of keys that begins at @first. */
static void attend_keys(const head *h, const queries *w, int64_t first)
{
    const attend_job *j = h->j;
    const int64_t keys = left(j, first);
    const positions xk = part_of(h, DT_X, 1), xv = part_of(h, DT_X, 2);
    const factor k = lines_of(j, &xk, first, keys, w->k),
                 v = load_factor(j, &xv, first, keys, w->v);
    dti_tile scores = {.c = w->s,
        .c_row = T,
        .m = keys,
        .n = dti_tile_padded(w->n),
        .depth = j->d,
        .far = k.rows != w->k};
    dti_tile sums = {.a = w->s,
        .row = 1,
        .step = T,
        .c = w->y,
        .c_row = j->pad,
        .m = w->n,
        .n = j->pad,
        .depth = keys,
        .add = true};
    as_left(&scores, &k);
    as_right(&scores, &w->q);
    as_right(&sums, &v);
    j->product(&scores);
    if (j->causal && first == w->tile * T)
        mask_keys(w->s, keys);
    online_softmax(w->s, keys, dti_tile_padded(w->n), j->scale, &w->o);
    shrink_rows(w->y, w->n, j->pad, w->o.shrink);
    j->product(&sums);
}

static void efficient_task(const void *job, int64_t i)
{
    const attend_job *j = job;
    head h = head_of(j, i);
    queries w = {.tile = i % j->tiles, .n = left(j, i % j->tiles * T)};
    float *packed_q = carve(&h.work, j->factor);
    w.v = carve(&h.work, j->factor);
    w.k = carve(&h.work, T * j->pad);
    w.y = carve(&h.work, T * j->pad);
    w.s = carve(&h.work, T * T);
    w.o = (online){carve(&h.work, T), carve(&h.work, T), carve(&h.work, T)};
    const positions q = part_of(&h, DT_X, 0), y = whole_of(&h, DT_Y);
    w.q = columns_of(j, &q, w.tile * T, packed_q, w.k);
    memset(w.y, 0, (size_t)(T * j->pad) * sizeof *w.y);
    for (int l = 0; l < T; l++) {
        w.o.most[l] = -INFINITY;
        w.o.sum[l] = 0;
    }
    for (int64_t at = 0; at <= (j->causal ? w.tile : j->tiles - 1); at++)
        attend_keys(&h, &w, at * T);
    save_sums(&h, w.tile * T, &w.o);
    for (int l = 0; l < T; l++)
        w.o.sum[l] = 1 / w.o.sum[l];
    store_rows(j, &y, w.tile * T, w.n, w.y, w.o.sum, 1);
}

/* --- backward, of both kinds --- */

/* For each tile of keys a task goes over the queries, with scores as [query][key], and adds up dk
 * and dv for the tile, dq for all queries. The efficient kind computes the probabilities again from
 * the saved logarithm of the sum; the naive one has kept them. */

static int64_t backward_scratch(const attend_job *j)
{
    return 3 * j->factor + 2 * T * j->pad + 2 * T * T + j->tiles * (2 * j->factor + T * j->pad + T);
}

/* One tile of keys: transposed k and v, rows of k, and scratch for them; the sums; scratch for one
 * of queries; and of all positions q and dy, a scratch of j->factor for a tile's, dq as rows, and
 * dy . y, which is the sum over keys of p times dp. */
typedef struct keys {
    int64_t tile, n;
    factor k, v, rows;
    float *scratch[3], *dk, *dv, *p, *ds;
    float *q, *dy, *dq, *delta;
} keys;

DT_CLONES static void multiply_rows(
    const float *a, const float *b, int64_t n, int64_t row, float *sums)
{
    enum { LANES = DTI_TILE_LANES };
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

/* The sums have not begun yet, so that y and dy can lie there. */
static void load_queries(const head *h, const keys *k)
{
    const attend_job *j = h->j;
    const positions q = part_of(h, DT_X, 0), y = whole_of(h, DT_Y), dy = whole_of(h, DT_DY);
    for (int64_t tile = 0; tile < j->tiles; tile++) {
        const int64_t first = tile * T, n = left(j, first);
        (void)load_factor(j, &q, first, n, k->q + tile * j->factor);
        (void)load_factor(j, &dy, first, n, k->dy + tile * j->factor);
        load_rows(j, &y, first, n, k->dv);
        load_rows(j, &dy, first, n, k->dk);
        multiply_rows(k->dv, k->dk, n, j->pad, k->delta + first);
    }
    memset(k->dq, 0, (size_t)(j->t * j->pad) * sizeof *k->dq);
}

/* Scores to probabilities p, and dp to the gradient of the scaled scores: p (dp - delta). */
DT_CLONES static void recompute(float *p, float *ds, int64_t n, int64_t lanes, float scale,
    const float *lse, const float *delta)
{
    for (int64_t r = 0; r < n; r++)
#pragma omp simd
        for (int64_t i = 0; i < lanes; i++) {
            const float e = fast_exp(scale * p[r * T + i] - lse[r]);
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

/* On the diagonal a key that a query does not see has probability 0. */
static void mask_queries(const keys *k, int64_t n)
{
    for (int64_t r = 0; r + 1 < k->n && r < n; r++) {
        const size_t unseen = (size_t)(k->n - r - 1) * sizeof *k->p;
        memset(k->p + r * T + r + 1, 0, unseen);
        memset(k->ds + r * T + r + 1, 0, unseen);
    }
}

/* Of n queries and all keys, [query][key]: dp, which is dy v', or the scores, q k'. */
static void multiply_keys(
    const head *h, const keys *k, const factor *of, const factor *by, int64_t n, float *to)
{
    const attend_job *j = h->j;
    dti_tile t = {.c = to, .c_row = T, .m = n, .n = dti_tile_padded(k->n), .depth = j->d};
    as_left(&t, of);
    as_right(&t, by);
    j->product(&t);
}

/* To the sums of the keys: weights' x, of weights [query][key]. */
static void add_to_keys(
    const head *h, const keys *k, const float *weights, const factor *x, int64_t n, float *sums)
{
    const attend_job *j = h->j;
    dti_tile t = {.a = weights,
        .row = 1,
        .step = T,
        .c = sums,
        .c_row = j->pad,
        .m = k->n,
        .n = j->pad,
        .depth = n,
        .add = true};
    as_right(&t, x);
    j->product(&t);
}

static void add_to_queries(const head *h, const keys *k, int64_t n, float *sums)
{
    const attend_job *j = h->j;
    dti_tile t = {.a = k->ds,
        .row = T,
        .step = 1,
        .c = sums,
        .c_row = j->pad,
        .m = n,
        .n = j->pad,
        .depth = k->n,
        .add = true};
    as_right(&t, &k->rows);
    j->product(&t);
}

static void backward_tile(const head *h, const keys *k, int64_t tile, bool naive)
{
    const attend_job *j = h->j;
    const int64_t first = tile * T, n = left(j, first);
    const int64_t row = (h->sample * j->heads + h->h) * j->t;
    const positions xq = part_of(h, DT_X, 0), xdy = whole_of(h, DT_DY);
    const factor q = loaded(j, &xq, first, k->q + tile * j->factor);
    const factor dy = loaded(j, &xdy, first, k->dy + tile * j->factor);
    const float *s = j->a->port[DT_S];
    multiply_keys(h, k, &dy, &k->v, n, k->ds);
    if (naive) {
        reuse(s + (row + first) * j->t + k->tile * T, j->t, k->n, k->p, k->ds, n, k->delta + first);
    } else {
        multiply_keys(h, k, &q, &k->k, n, k->p);
        recompute(
            k->p, k->ds, n, dti_tile_padded(k->n), j->scale, s + row + first, k->delta + first);
        if (j->causal && tile == k->tile)
            mask_queries(k, n);
    }
    add_to_keys(h, k, k->p, &dy, n, k->dv);
    add_to_keys(h, k, k->ds, &q, n, k->dk);
    add_to_queries(h, k, n, k->dq + first * j->pad);
}

static void backward_keys(const head *h, keys *k, bool naive)
{
    const attend_job *j = h->j;
    const int64_t first = k->tile * T;
    const size_t bytes = (size_t)(T * j->pad) * sizeof(float);
    const positions xk = part_of(h, DT_X, 1), xv = part_of(h, DT_X, 2);
    const positions dxk = part_of(h, DT_DX, 1), dxv = part_of(h, DT_DX, 2);
    k->n = left(j, first);
    k->k = columns_of(j, &xk, first, k->scratch[0], k->dk);
    k->v = columns_of(j, &xv, first, k->scratch[1], k->dk);
    k->rows = load_factor(j, &xk, first, k->n, k->scratch[2]);
    memset(k->dk, 0, bytes);
    memset(k->dv, 0, bytes);
    for (int64_t at = j->causal ? k->tile : 0; at < j->tiles; at++)
        backward_tile(h, k, at, naive);
    store_rows(j, &dxk, first, k->n, k->dk, NULL, j->scale);
    store_rows(j, &dxv, first, k->n, k->dv, NULL, 1);
}

static void backward(const attend_job *j, int64_t i, bool naive)
{
    head h = head_of(j, i);
    keys k = {0};
    for (size_t r = 0; r < DT_COUNT(k.scratch); r++)
        k.scratch[r] = carve(&h.work, j->factor);
    k.dk = carve(&h.work, T * j->pad);
    k.dv = carve(&h.work, T * j->pad);
    k.p = carve(&h.work, T * T);
    k.ds = carve(&h.work, T * T);
    k.q = carve(&h.work, j->tiles * j->factor);
    k.dy = carve(&h.work, j->tiles * j->factor);
    k.dq = carve(&h.work, j->tiles * T * j->pad);
    k.delta = carve(&h.work, j->tiles * T);
    const positions dxq = part_of(&h, DT_DX, 0);
    load_queries(&h, &k);
    for (k.tile = 0; k.tile < j->tiles; k.tile++)
        backward_keys(&h, &k, naive);
    store_rows(j, &dxq, 0, j->t, k.dq, NULL, j->scale);
}

static void efficient_backward_task(const void *job, int64_t i)
{
    backward(job, i, false);
}

static void naive_backward_task(const void *job, int64_t i)
{
    backward(job, i, true);
}

/* --- ops --- */

static attend_job job_of(const dt_call *c, const dt_args *a, dti_tile_fn *product)
{
    const dt_attention *o = c->node->opts;
    const dt_shape x = dti_call_x(c);
    attend_job j = {.a = a,
        .type = c->dtype,
        .causal = o->causal,
        .t = x.h * x.w,
        .c = x.c / 3,
        .d = x.c / 3 / o->heads,
        .heads = o->heads,
        .tiles = dti_ceil_div(x.h * x.w, DTI_TILE_SIDE),
        .product = product};
    j.pad = dti_tile_padded(j.d);
    j.direct = c->dtype == DT_BF16 && product == dti_tile_bf16() && j.pad == j.d;
    const int64_t rows = T * j.pad, packed = j.direct ? dti_tile_packed_words(T, j.pad) : 0;
    j.factor = rows > packed ? rows : packed;
    j.scratch = c->form == DT_BACKWARD           ? backward_scratch(&j)
                : o->kind == DTI_ATTENTION_NAIVE ? naive_scratch(&j)
                                                 : efficient_scratch(&j);
    j.scratch = dti_tile_padded(j.scratch);
    j.each = c->form != DT_BACKWARD && o->kind != DTI_ATTENTION_NAIVE ? j.tiles : 1;
    j.tasks = c->n * j.heads * j.each;
    j.copies = dt_min_i64(j.tasks, omp_get_max_threads());
    j.scale = (float)(1 / sqrt((double)j.d));
    return j;
}

static void need(const dt_call *c, dti_tile_fn *product, dt_facts *f)
{
    const attend_job j = job_of(c, NULL, product);
    f->work_bytes = (size_t)(j.scratch * j.copies) * sizeof(float);
}

static void attend(const dt_call *c, const dt_args *a, dti_tile_fn *product)
{
    const dt_attention *o = c->node->opts;
    const attend_job j = job_of(c, a, product);
    const bool naive = o->kind == DTI_ATTENTION_NAIVE;
    if (c->form == DT_BACKWARD)
        dti_run_tasks(j.tasks, naive ? naive_backward_task : efficient_backward_task, &j);
    else
        dti_run_tasks(j.tasks, naive ? naive_task : efficient_task, &j);
}

/* Its factors are rounded to bf16. */
static bool bf16_accepts(const dt_call *c, dt_why *why)
{
    if (c->dtype != DT_BF16)
        return dt_refuse(why, "%s, needs bf16", dt_dtype_name(c->dtype));
    return dti_tile_bf16() != NULL || dt_refuse(why, "there are no fast bf16 instructions to use");
}

static dt_status bf16_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    need(c, dti_tile_bf16(), f);
    return DT_OK;
}

static dt_status bf16_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    attend(c, a, dti_tile_bf16());
    return DT_OK;
}

static dt_status fp32_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    need(c, dti_tile_best(), f);
    return DT_OK;
}

static dt_status fp32_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    attend(c, a, dti_tile_best());
    return DT_OK;
}

static const dt_impl attention[] = {
    {.name = "bf16", .accepts = bf16_accepts, .facts = bf16_facts, .run = bf16_run},
    {.name = "fp32", .facts = fp32_facts, .run = fp32_run},
    {0},
};
DT_IMPLS(attention);

const dt_kernels dt_attention_cpu = {DT_BY_IMPLS(attention)};
