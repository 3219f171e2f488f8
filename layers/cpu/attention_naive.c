#include "layers/cpu/attention_parts.h"

#include <math.h>
#include <string.h>

#include "layers/cpu/exp.h"

/* A task computes all scores of a query, then their softmax, and keeps them. */
enum { T = DT_TILE };

int64_t dti_naive_room(const dt_attend *j)
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

static void naive_tile(const dt_head *h, int64_t first, const float *k, const float *v, float *work)
{
    const dt_attend *j = h->j;
    const int64_t n = dti_left(j, first), all = j->tiles * T;
    float *s = dti_take(&work, T * all), *q = dti_take(&work, T * j->pad),
          *y = dti_take(&work, T * j->pad);
    const dt_rows xq = dti_part_of(h, DT_X, 0), to = dti_whole_of(h, DT_Y);
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
    const dt_attend *j = job;
    const int64_t all = j->tiles * T;
    dt_head h = dti_head_of(j, i);
    float *k = dti_take(&h.work, j->d * all), *v = dti_take(&h.work, all * j->pad);
    const dt_rows xk = dti_part_of(&h, DT_X, 1), xv = dti_part_of(&h, DT_X, 2);
    for (int64_t at = 0; at < j->tiles; at++)
        dti_load_turned(j, &xk, at * T, 1, k + at * T, all, v);
    dti_load_rows(j, &xv, 0, j->t, 1, v);
    for (int64_t at = 0; at < j->tiles; at++)
        naive_tile(&h, at * T, k, v, h.work);
}
