#include "layers/cpu/attention_parts.h"

#include <omp.h>
#include <string.h>

#include "layers/blocked/turn.h"
#include "layers/cpu/values.h"

dt_head dti_head_of(const dt_attend *j, int64_t i)
{
    float *work = (float *)j->a->port[DT_WORK] + omp_get_thread_num() * j->room;
    return (dt_head){j, i / j->heads, i % j->heads, work};
}

dt_rows dti_part_of(const dt_head *h, int port, int part)
{
    const dt_attend *j = h->j;
    return (dt_rows){
        j->a->port[port], (h->sample * j->t * 3 + part) * j->c + h->h * j->d, 3 * j->c};
}

dt_rows dti_whole_of(const dt_head *h, int port)
{
    const dt_attend *j = h->j;
    return (dt_rows){j->a->port[port], h->sample * j->t * j->c + h->h * j->d, j->c};
}

DT_CLONES void dti_load_rows(
    const dt_attend *j, const dt_rows *from, int64_t first, int64_t n, float scale, float *to)
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

void dti_load_turned(const dt_attend *j, const dt_rows *from, int64_t first, float scale, float *to,
    int64_t lanes, float *room)
{
    const int64_t n = dti_left(j, first);
    for (int64_t r = 0; r < DT_TILE; r += 4) {
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
            dt_turn_four(x, i, scale, to + i * lanes + r, lanes);
        for (; i < j->d; i++)
            for (int k = 0; k < 4; k++)
                to[i * lanes + r + k] = scale * x[k][i];
    }
}

DT_CLONES void dti_store_rows(const dt_attend *j, const dt_rows *to, int64_t first, int64_t n,
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
