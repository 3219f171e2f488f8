#include "layers/attention.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "layers/cpu.h"
#include "layers/exp.h"
#include "layers/tile.h"
#include "layers/values.h"

/* Work is done on tiles of 64 positions, copied into scratch as fp32: rows of a head's channels,
 * padded to whole vectors, or turned, so that positions lie in the lanes. No sum runs across tasks,
 * so the bits do not depend on the team.
 *
 * efficient, forward: a task is 64 queries of one head. It goes over the keys tile by tile, with
 * scores as [key][query]: each lane keeps its query's largest score and sum so far (the online
 * softmax). Backward: a task is a head. For each tile of keys it goes over the queries, with scores
 * as [query][key], computes the probabilities again from the saved logarithm of the sum, and adds
 * up dk and dv for the tile, dq for all queries.
 *
 * naive, forward: a task is a head; it computes all scores of a query, then their softmax, and
 * keeps them. Backward is the same but for where probabilities come from. */

enum { T = DT_TILE };

typedef float four __attribute__((vector_size(16)));

struct job {
    const dt_args *a;
    dt_dtype type;
    bool causal;
    int64_t t, c, d, pad, heads; /* positions, channels, those of a head, padded to vectors */
    int64_t tiles, room;         /* of positions; floats of scratch a thread has */
    float scale;
    dt_tile_fn *product;
};

/* One head of one sample. */
typedef struct head {
    const struct job *j;
    int64_t sample, h;
    float *work;
} head;

static int64_t padded(int64_t n, int64_t to)
{
    return dt_ceil_div(n, to) * to;
}

static int64_t forward_room(const struct job *j, bool naive)
{
    const int64_t all = j->tiles * T;
    if (naive)
        return j->d * all + all * j->pad + T * all + 2 * T * j->pad;
    return j->d * T + 3 * T * j->pad + T * T + 3 * T;
}

static int64_t backward_room(const struct job *j)
{
    return 2 * j->d * T + 3 * T * j->pad + 2 * T * T + j->tiles * T * (3 * j->pad + 1);
}

static struct job job_of(const dt_call *c, const dt_args *a)
{
    const dt_attention *o = c->node->opts;
    const dt_shape x = dt_call_x(c);
    struct job j = {.a = a,
        .type = c->dtype,
        .causal = o->causal,
        .t = x.h * x.w,
        .c = x.c / 3,
        .d = x.c / 3 / o->heads,
        .heads = o->heads,
        .tiles = dt_ceil_div(x.h * x.w, T)};
    j.pad = padded(j.d, DT_TILE_LANES);
    j.room = c->form == DT_BACKWARD ? backward_room(&j)
                                    : forward_room(&j, o->kind == DT_ATTENTION_NAIVE);
    j.room = padded(j.room, DT_TILE_LANES);
    j.scale = (float)(1 / sqrt((double)j.d));
    j.product = dt_tile_best();
    return j;
}

static head head_of(const struct job *j, int64_t i)
{
    float *work = (float *)j->a->port[DT_WORK] + omp_get_thread_num() * j->room;
    return (head){j, i / j->heads, i % j->heads, work};
}

/* The next @n floats of a task's scratch. */
static float *take(float **work, int64_t n)
{
    float *p = *work;
    *work += n;
    return p;
}

/* A matrix of positions by channels of a head: part 0, 1, 2 is q, k, v of x. */
typedef struct rows {
    void *p;
    int64_t at, row; /* first element; from one position to the next */
} rows;

static rows part_of(const head *h, int port, int part)
{
    const struct job *j = h->j;
    return (rows){j->a->port[port], (h->sample * j->t * 3 + part) * j->c + h->h * j->d, 3 * j->c};
}

static rows whole_of(const head *h, int port)
{
    const struct job *j = h->j;
    return (rows){j->a->port[port], h->sample * j->t * j->c + h->h * j->d, j->c};
}

static int64_t left(const struct job *j, int64_t first)
{
    return j->t - first < T ? j->t - first : T;
}

/* Positions [first, first + n) as rows of fp32, scaled, each padded with zeros. */
DT_CLONES static void load_rows(
    const struct job *j, const rows *from, int64_t first, int64_t n, float scale, float *to)
{
    for (int64_t r = 0; r < n; r++) {
        const int64_t at = from->at + (first + r) * from->row;
        float *row = to + r * j->pad;
        const float *x = dt_values_read(j->type, from->p, at, row, j->d);
#pragma omp simd
        for (int64_t i = 0; i < j->d; i++)
            row[i] = scale * x[i];
        for (int64_t i = j->d; i < j->pad; i++)
            row[i] = 0;
    }
}

/* Four rows of four floats, turned. */
static inline void turn_four(
    const float *const x[4], int64_t i, float scale, float *to, int64_t row)
{
    four v[4], t[4];
    for (int k = 0; k < 4; k++)
        memcpy(&v[k], x[k] + i, sizeof v[k]);
    t[0] = __builtin_shufflevector(v[0], v[1], 0, 4, 1, 5);
    t[1] = __builtin_shufflevector(v[0], v[1], 2, 6, 3, 7);
    t[2] = __builtin_shufflevector(v[2], v[3], 0, 4, 1, 5);
    t[3] = __builtin_shufflevector(v[2], v[3], 2, 6, 3, 7);
    v[0] = scale * __builtin_shufflevector(t[0], t[2], 0, 1, 4, 5);
    v[1] = scale * __builtin_shufflevector(t[0], t[2], 2, 3, 6, 7);
    v[2] = scale * __builtin_shufflevector(t[1], t[3], 0, 1, 4, 5);
    v[3] = scale * __builtin_shufflevector(t[1], t[3], 2, 3, 6, 7);
    for (int k = 0; k < 4; k++)
        memcpy(to + k * row, &v[k], sizeof v[k]);
}

/* The same turned: channel i of position r at to[i * lanes + r], zero where there is none. @room
 * has space for four rows. */
static void load_turned(const struct job *j, const rows *from, int64_t first, float scale,
    float *to, int64_t lanes, float *room)
{
    const int64_t n = left(j, first);
    for (int64_t r = 0; r < T; r += 4) {
        const float *x[4];
        for (int k = 0; k < 4; k++) {
            float *row = room + k * j->pad;
            memset(row, 0, (size_t)j->d * sizeof *row);
            x[k] = r + k < n ? dt_values_read(j->type, from->p,
                                   from->at + (first + r + k) * from->row, row, j->d)
                             : row;
        }
        int64_t i = 0;
        for (; i + 4 <= j->d; i += 4)
            turn_four(x, i, scale, to + i * lanes + r, lanes);
        for (; i < j->d; i++)
            for (int k = 0; k < 4; k++)
                to[i * lanes + r + k] = scale * x[k][i];
    }
}

/* Rows of fp32 to where they belong, row r times factor[r] (NULL: 1) times scale. */
DT_CLONES static void store_rows(const struct job *j, const rows *to, int64_t first, int64_t n,
    float *from, const float *factor, float scale)
{
    for (int64_t r = 0; r < n; r++) {
        const int64_t at = to->at + (first + r) * to->row;
        const float f = factor == NULL ? scale : scale * factor[r];
        float *row = from + r * j->pad, *y = dt_values_room(j->type, to->p, at, row);
#pragma omp simd
        for (int64_t i = 0; i < j->d; i++)
            y[i] = f * row[i];
        dt_values_write(j->type, to->p, at, y, j->d);
    }
}

/* --- efficient forward --- */

/* Of each query (a lane): its largest score, the sum of exponentials so far, and the factor by
 * which an older sum shrinks. */
typedef struct online {
    float *most, *sum, *shrink;
} online;

/* Scores [key][query] to exponentials. */
DT_CLONES static void online_softmax(float *s, int64_t keys, const online *o)
{
    float most[T], sum[T];
#pragma omp simd
    for (int q = 0; q < T; q++)
        most[q] = o->most[q];
    for (int64_t k = 0; k < keys; k++)
#pragma omp simd
        for (int q = 0; q < T; q++)
            most[q] = s[k * T + q] > most[q] ? s[k * T + q] : most[q];
#pragma omp simd
    for (int q = 0; q < T; q++) {
        o->shrink[q] = dt_exp(o->most[q] - most[q]);
        o->most[q] = most[q];
        sum[q] = o->sum[q] * o->shrink[q];
    }
    for (int64_t k = 0; k < keys; k++)
#pragma omp simd
        for (int q = 0; q < T; q++) {
            const float p = dt_exp(s[k * T + q] - most[q]);
            s[k * T + q] = p;
            sum[q] += p;
        }
#pragma omp simd
    for (int q = 0; q < T; q++)
        o->sum[q] = sum[q];
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
        lse[q] = o->most[q] + logf(o->sum[q]);
}

/* A tile of queries: turned q, scratch for a tile of keys, the scores, the output so far. */
typedef struct queries {
    int64_t tile, n;
    float *q, *k, *v, *s, *y;
    online o;
} queries;

/* The tile of keys that begins at @first. In fp32 k needs no copy: it is only read element by
 * element. */
static void attend(const head *h, const queries *w, int64_t first)
{
    const struct job *j = h->j;
    const int64_t keys = left(j, first);
    const rows k = part_of(h, DT_X, 1), v = part_of(h, DT_X, 2);
    const bool direct = j->type == DT_F32;
    const float *a = direct ? (const float *)k.p + k.at + first * k.row : w->k;
    const int64_t a_row = direct ? k.row : j->pad;
    if (!direct)
        load_rows(j, &k, first, keys, 1, w->k);
    load_rows(j, &v, first, keys, 1, w->v);
    j->product(&(dt_tile){.a = a,
        .row = a_row,
        .step = 1,
        .b = w->q,
        .b_row = T,
        .c = w->s,
        .c_row = T,
        .m = keys,
        .n = T,
        .depth = j->d});
    if (j->causal && first == w->tile * T)
        mask_keys(w->s, keys);
    online_softmax(w->s, keys, &w->o);
    shrink_rows(w->y, w->n, j->pad, w->o.shrink);
    j->product(&(dt_tile){.a = w->s,
        .row = 1,
        .step = T,
        .b = w->v,
        .b_row = j->pad,
        .c = w->y,
        .c_row = j->pad,
        .m = w->n,
        .n = j->pad,
        .depth = keys,
        .add = true});
}

static void efficient_task(const void *job, int64_t i)
{
    const struct job *j = job;
    head h = head_of(j, i / j->tiles);
    queries w = {.tile = i % j->tiles, .n = left(j, i % j->tiles * T)};
    w.q = take(&h.work, j->d * T);
    w.k = take(&h.work, T * j->pad);
    w.v = take(&h.work, T * j->pad);
    w.y = take(&h.work, T * j->pad);
    w.s = take(&h.work, T * T);
    w.o = (online){take(&h.work, T), take(&h.work, T), take(&h.work, T)};
    const rows q = part_of(&h, DT_X, 0), y = whole_of(&h, DT_Y);
    load_turned(j, &q, w.tile * T, j->scale, w.q, T, w.k);
    memset(w.y, 0, (size_t)(T * j->pad) * sizeof *w.y);
    for (int l = 0; l < T; l++) {
        w.o.most[l] = -INFINITY;
        w.o.sum[l] = 0;
    }
    for (int64_t at = 0; at <= (j->causal ? w.tile : j->tiles - 1); at++)
        attend(&h, &w, at * T);
    save_sums(&h, w.tile * T, &w.o);
    for (int l = 0; l < T; l++)
        w.o.sum[l] = 1 / w.o.sum[l];
    store_rows(j, &y, w.tile * T, w.n, w.y, w.o.sum, 1);
}

/* --- naive forward --- */

/* Softmax of n scores; what lies behind them becomes 0. Sums in lanes of a fixed number. */
DT_CLONES static void softmax(float *s, int64_t n, int64_t room)
{
    enum { LANES = DT_TILE_LANES };
    float most[LANES], sum[LANES] = {0}, m = -INFINITY;
    for (int64_t i = n; i < room; i++)
        s[i] = -INFINITY;
    for (int k = 0; k < LANES; k++)
        most[k] = -INFINITY;
    for (int64_t i = 0; i < room; i += LANES)
#pragma omp simd
        for (int k = 0; k < LANES; k++)
            most[k] = s[i + k] > most[k] ? s[i + k] : most[k];
    for (int k = 0; k < LANES; k++)
        m = most[k] > m ? most[k] : m;
    for (int64_t i = 0; i < room; i += LANES)
#pragma omp simd
        for (int k = 0; k < LANES; k++) {
            s[i + k] = dt_exp(s[i + k] - m);
            sum[k] += s[i + k];
        }
    float all = 0;
    for (int k = 0; k < LANES; k++)
        all += sum[k];
    const float over = 1 / all;
#pragma omp simd
    for (int64_t i = 0; i < room; i++)
        s[i] *= over;
}

static void naive_tile(const head *h, int64_t first, const float *k, const float *v, float *work)
{
    const struct job *j = h->j;
    const int64_t n = left(j, first), all = j->tiles * T;
    float *s = take(&work, T * all), *q = take(&work, T * j->pad), *y = take(&work, T * j->pad);
    const rows xq = part_of(h, DT_X, 0), to = whole_of(h, DT_Y);
    float *prob = j->a->port[DT_S];
    load_rows(j, &xq, first, n, j->scale, q);
    j->product(&(dt_tile){.a = q,
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
        softmax(s + r * all, j->causal ? first + r + 1 : j->t, all);
        if (prob != NULL)
            memcpy(prob + ((h->sample * j->heads + h->h) * j->t + first + r) * j->t, s + r * all,
                (size_t)j->t * sizeof *prob);
    }
    j->product(&(dt_tile){.a = s,
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
    const struct job *j = job;
    const int64_t all = j->tiles * T;
    head h = head_of(j, i);
    float *k = take(&h.work, j->d * all), *v = take(&h.work, all * j->pad);
    const rows xk = part_of(&h, DT_X, 1), xv = part_of(&h, DT_X, 2);
    for (int64_t at = 0; at < j->tiles; at++)
        load_turned(j, &xk, at * T, 1, k + at * T, all, v);
    load_rows(j, &xv, 0, j->t, 1, v);
    for (int64_t at = 0; at < j->tiles; at++)
        naive_tile(&h, at * T, k, v, h.work);
}

/* --- backward of both --- */

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

static void load_queries(const head *h, const keys *k)
{
    const struct job *j = h->j;
    const rows q = part_of(h, DT_X, 0), y = whole_of(h, DT_Y), dy = whole_of(h, DT_DY);
    load_rows(j, &q, 0, j->t, j->scale, k->q);
    load_rows(j, &dy, 0, j->t, 1, k->dy);
    for (int64_t at = 0; at < j->t; at += T) {
        load_rows(j, &y, at, left(j, at), 1, k->rows);
        multiply_rows(k->rows, k->dy + at * j->pad, left(j, at), j->pad, k->delta + at);
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
            const float e = dt_exp(p[r * T + i] - lse[r]);
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

static void backward_tile(const head *h, const keys *k, int64_t first, bool naive)
{
    const struct job *j = h->j;
    const int64_t n = left(j, first), pad = j->pad, row = (h->sample * j->heads + h->h) * j->t;
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
    j->product(&(dt_tile){.a = k->p,
        .row = 1,
        .step = T,
        .b = dy,
        .b_row = pad,
        .c = k->dv,
        .c_row = pad,
        .m = k->n,
        .n = pad,
        .depth = n,
        .add = true});
    j->product(&(dt_tile){.a = k->ds,
        .row = 1,
        .step = T,
        .b = q,
        .b_row = pad,
        .c = k->dk,
        .c_row = pad,
        .m = k->n,
        .n = pad,
        .depth = n,
        .add = true});
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

static void backward_keys(const head *h, keys *k, bool naive)
{
    const struct job *j = h->j;
    const int64_t first = k->tile * T;
    const size_t bytes = (size_t)(T * j->pad) * sizeof(float);
    const rows xk = part_of(h, DT_X, 1), xv = part_of(h, DT_X, 2);
    const rows dxk = part_of(h, DT_DX, 1), dxv = part_of(h, DT_DX, 2);
    k->n = left(j, first);
    load_turned(j, &xk, first, 1, k->k, T, k->rows);
    load_turned(j, &xv, first, 1, k->v, T, k->rows);
    load_rows(j, &xk, first, k->n, 1, k->rows);
    memset(k->dk, 0, bytes);
    memset(k->dv, 0, bytes);
    for (int64_t at = j->causal ? k->tile : 0; at < j->tiles; at++)
        backward_tile(h, k, at * T, naive);
    store_rows(j, &dxk, first, k->n, k->dk, NULL, 1);
    store_rows(j, &dxv, first, k->n, k->dv, NULL, 1);
}

static void backward(const struct job *j, int64_t i, bool naive)
{
    head h = head_of(j, i);
    const int64_t all = j->tiles * T;
    keys k = {.k = take(&h.work, j->d * T), .v = take(&h.work, j->d * T)};
    k.rows = take(&h.work, T * j->pad);
    k.dk = take(&h.work, T * j->pad);
    k.dv = take(&h.work, T * j->pad);
    k.p = take(&h.work, T * T);
    k.ds = take(&h.work, T * T);
    k.q = take(&h.work, all * j->pad);
    k.dy = take(&h.work, all * j->pad);
    k.dq = take(&h.work, all * j->pad);
    k.delta = take(&h.work, all);
    const rows dxq = part_of(&h, DT_DX, 0);
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

static dt_status facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    f->work_bytes = (size_t)job_of(c, NULL).room * (size_t)omp_get_max_threads() * sizeof(float);
    return DT_OK;
}

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const dt_attention *o = c->node->opts;
    const struct job j = job_of(c, a);
    const bool naive = o->kind == DT_ATTENTION_NAIVE;
    const int64_t n = a->n * j.heads;
    if (c->form == DT_BACKWARD)
        dt_team(n, naive ? naive_backward_task : efficient_backward_task, &j);
    else if (naive)
        dt_team(n, naive_task, &j);
    else
        dt_team(n * j.tiles, efficient_task, &j);
    return DT_OK;
}

const dt_kernels dt_attention_cpu = {.facts = facts, .run = run};
