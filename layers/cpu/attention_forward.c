/* Attention forward: the naive kind and the efficient one. */
#include "layers/cpu/attention_tasks.h"

#include <math.h>
#include <string.h>

#include "layers/cpu/exp.h"

enum { T = DT_TILE };

/* --- naive --- */

/* A task computes all scores of a query, then their softmax, and keeps them. */
int64_t dti_naive_room(const dti_attend *j)
{
    const int64_t all = j->tiles * T;
    return j->d * all + all * j->pad + T * all + 2 * T * j->pad;
}

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
            s[i + k] = dti_exp(s[i + k] - m);
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

static void naive_tile(
    const dti_head *h, int64_t first, const float *k, const float *v, float *work)
{
    const dti_attend *j = h->j;
    const int64_t n = dti_left(j, first), all = j->tiles * T;
    float *s = dti_carve(&work, T * all), *q = dti_carve(&work, T * j->pad),
          *y = dti_carve(&work, T * j->pad);
    const dti_positions xq = dti_part_of(h, DT_X, 0), to = dti_whole_of(h, DT_Y);
    float *prob = j->a->port[DT_S];
    dti_load_rows(j, &xq, first, n, j->scale, q);
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
    dti_store_rows(j, &to, first, n, y, NULL, 1);
}

void dti_naive_task(const void *job, int64_t i)
{
    const dti_attend *j = job;
    const int64_t all = j->tiles * T;
    dti_head h = dti_head_of(j, i);
    float *k = dti_carve(&h.work, j->d * all), *v = dti_carve(&h.work, all * j->pad);
    const dti_positions xk = dti_part_of(&h, DT_X, 1), xv = dti_part_of(&h, DT_X, 2);
    for (int64_t at = 0; at < j->tiles; at++)
        dti_load_turned(j, &xk, at * T, 1, k + at * T, all, v);
    dti_load_rows(j, &xv, 0, j->t, 1, v);
    for (int64_t at = 0; at < j->tiles; at++)
        naive_tile(&h, at * T, k, v, h.work);
}

/* --- efficient --- */

/* A task goes over the keys tile by tile, with scores as [key][query]: each lane keeps its query's
 * largest score and sum so far (the online softmax). */
int64_t dti_efficient_room(const dti_attend *j)
{
    return j->d * T + 3 * T * j->pad + T * T + 3 * T;
}

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
        o->shrink[q] = dti_exp(o->most[q] - most[q]);
        o->most[q] = most[q];
        sum[q] = o->sum[q] * o->shrink[q];
    }
    for (int64_t k = 0; k < keys; k++)
#pragma omp simd
        for (int q = 0; q < T; q++) {
            const float p = dti_exp(s[k * T + q] - most[q]);
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

static void save_sums(const dti_head *h, int64_t first, const online *o)
{
    float *lse = h->j->a->port[DT_S];
    if (lse == NULL)
        return;
    lse += (h->sample * h->j->heads + h->h) * h->j->t + first;
    for (int64_t q = 0; q < dti_left(h->j, first); q++)
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
static void attend(const dti_head *h, const queries *w, int64_t first)
{
    const dti_attend *j = h->j;
    const int64_t keys = dti_left(j, first);
    const dti_positions k = dti_part_of(h, DT_X, 1), v = dti_part_of(h, DT_X, 2);
    const bool direct = j->type == DT_F32;
    const float *a = direct ? (const float *)k.p + k.at + first * k.row : w->k;
    const int64_t a_row = direct ? k.row : j->pad;
    if (!direct)
        dti_load_rows(j, &k, first, keys, 1, w->k);
    dti_load_rows(j, &v, first, keys, 1, w->v);
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

void dti_efficient_task(const void *job, int64_t i)
{
    const dti_attend *j = job;
    dti_head h = dti_head_of(j, i / j->tiles);
    queries w = {.tile = i % j->tiles, .n = dti_left(j, i % j->tiles * T)};
    w.q = dti_carve(&h.work, j->d * T);
    w.k = dti_carve(&h.work, T * j->pad);
    w.v = dti_carve(&h.work, T * j->pad);
    w.y = dti_carve(&h.work, T * j->pad);
    w.s = dti_carve(&h.work, T * T);
    w.o = (online){dti_carve(&h.work, T), dti_carve(&h.work, T), dti_carve(&h.work, T)};
    const dti_positions q = dti_part_of(&h, DT_X, 0), y = dti_whole_of(&h, DT_Y);
    dti_load_turned(j, &q, w.tile * T, j->scale, w.q, T, w.k);
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
    dti_store_rows(j, &y, w.tile * T, w.n, w.y, w.o.sum, 1);
}
