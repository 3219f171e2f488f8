#include "layers/cpu/attention_parts.h"

#include <math.h>
#include <string.h>

#include "layers/cpu/exp.h"

/* A task goes over the keys tile by tile, with scores as [key][query]: each lane keeps its query's
 * largest score and sum so far (the online softmax). */
enum { T = DT_TILE };

int64_t dti_efficient_room(const dt_attend *j)
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

static void save_sums(const dt_head *h, int64_t first, const online *o)
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
static void attend(const dt_head *h, const queries *w, int64_t first)
{
    const dt_attend *j = h->j;
    const int64_t keys = dti_left(j, first);
    const dt_rows k = dti_part_of(h, DT_X, 1), v = dti_part_of(h, DT_X, 2);
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
    const dt_attend *j = job;
    dt_head h = dti_head_of(j, i / j->tiles);
    queries w = {.tile = i % j->tiles, .n = dti_left(j, i % j->tiles * T)};
    w.q = dti_take(&h.work, j->d * T);
    w.k = dti_take(&h.work, T * j->pad);
    w.v = dti_take(&h.work, T * j->pad);
    w.y = dti_take(&h.work, T * j->pad);
    w.s = dti_take(&h.work, T * T);
    w.o = (online){dti_take(&h.work, T), dti_take(&h.work, T), dti_take(&h.work, T)};
    const dt_rows q = dti_part_of(&h, DT_X, 0), y = dti_whole_of(&h, DT_Y);
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
