/* What the kernels of attention share. Work is done on tiles of 64 positions, copied into scratch
 * as fp32: rows of a head's channels, padded to whole vectors, or turned, so that positions lie in
 * the lanes. No sum runs across tasks, so the bits do not depend on the team. */
#ifndef DT_LAYERS_CPU_ATTENTION_TASKS_H
#define DT_LAYERS_CPU_ATTENTION_TASKS_H

#include "engine/kernels.h"
#include "layers/cpu/tasks.h"
#include "layers/blocked/tile.h"

/* One execution.
 * @t @c @d @pad: positions, channels, those of a head, padded to vectors
 * @tiles: of positions
 * @room:  floats of scratch a thread has
 * @scale: of scores */
typedef struct dti_attend {
    const dt_args *a;
    dt_dtype type;
    bool causal;
    int64_t t, c, d, pad, heads, tiles, room;
    float scale;
    dt_tile_fn *product;
} dti_attend;

/* One head of one sample, with the scratch of the task's thread. */
typedef struct dti_head {
    const dti_attend *j;
    int64_t sample, h;
    float *work;
} dti_head;

/* A matrix of positions by channels of a head: its first element, and the distance of positions. */
typedef struct dti_positions {
    void *p;
    int64_t at, row;
} dti_positions;

/* Head i of the batch. */
dti_head dti_head_of(const dti_attend *j, int64_t i);

/* Part 0, 1, 2 (q, k, v) of what has three; a head of what has one. */
dti_positions dti_part_of(const dti_head *h, int port, int part);
dti_positions dti_whole_of(const dti_head *h, int port);

/* Positions [first, first + n) as rows of fp32, scaled, each padded with zeros. */
void dti_load_rows(const dti_attend *j, const dti_positions *from, int64_t first, int64_t n,
    float scale, float *to);
/* A tile of them turned: channel i of position r at to[i * lanes + r], zero where there is none.
 * @room has space for four rows. */
void dti_load_turned(const dti_attend *j, const dti_positions *from, int64_t first, float scale,
    float *to, int64_t lanes, float *room);
/* Rows of fp32 to where they belong, row r times factor[r] (NULL: 1) times scale. */
void dti_store_rows(const dti_attend *j, const dti_positions *to, int64_t first, int64_t n,
    float *from, const float *factor, float scale);

/* The tasks of each kind: floats of scratch, and the task. Of the efficient kind's forward a task
 * is a tile of queries of a head; of all others, a head. */
int64_t dti_efficient_room(const dti_attend *j);
int64_t dti_naive_room(const dti_attend *j);
int64_t dti_backward_room(const dti_attend *j);
dti_task dti_efficient_task, dti_naive_task, dti_efficient_backward_task, dti_naive_backward_task;

/* Positions of the tile that begins at @first. */
static inline int64_t dti_left(const dti_attend *j, int64_t first)
{
    return j->t - first < DT_TILE ? j->t - first : DT_TILE;
}

/* The next @n floats of a task's scratch. */
static inline float *dti_carve(float **work, int64_t n)
{
    float *p = *work;
    *work += n;
    return p;
}

#endif
