/* The LSTM on the processor. What does not wait for a step is done for a chunk of steps at once:
 * the products of x by its weight, and in backward those of the gates' gradients. The rest goes
 * step by step, in pieces: some samples by some channels of the state, all four gates of them.
 * Where a thread's cache holds the weight, a task takes some samples through all steps of the
 * chunk, so that threads do not wait for each other; else a task is a piece of one step.
 *
 * Rows of a chunk are sorted by step, then by sample. A gate is the product of x's row and its
 * weight, the biases and then that of the last h, in this order, however many rows are computed
 * together; so backward makes the same bits of it again. In bf16 a step reads the h that y holds,
 * rounded; all else between steps is fp32. */
#include "layers/sequence/lstm.h"

#include <inttypes.h>
#include <omp.h>
#include <string.h>

#include "engine/implementations.h"
#include "layers/blocked/product.h"
#include "layers/blocked/tile.h"
#include "layers/cpu/cpu.h"
#include "layers/cpu/scratch.h"
#include "layers/cpu/values.h"
#include "layers/elementwise/curves.h"

enum { GATES = 4, I = 0, F, G, O };
enum { UNITS = 32, SAMPLES = 32, FEW_SAMPLES = 8, CHUNK_ROWS = 512, COPY_ROWS = 64 };
enum { CACHED = 1 << 18 }; /* elements of a weight that a thread's cache holds beside all else */

/**
 * struct job - one execution.
 * @n @steps @in @out: samples, positions, channels of x and of y
 * @groups @each @blocks: of samples, so many each; of channels
 * @apart:  a task has a group for all steps of the chunk
 * @chunk:  steps at a time
 * @first @many @step: of the chunk at hand, its first step and how many; the step at hand
 * @bias:   [4 out], the sums of both
 * @hh:     weight_hh for steps forward, by UNITS channels: [out][4][those], and
 * @back:   for steps back: [4 out][those]
 * @x @gate: rows of the chunk, [in] and [4 out]: sums of gates, then gates, in backward then their
 * gradients
 * @before: rows of the chunk, [out]: the h before each (backward)
 * @h:      [n][out], of the last step and of this one, in turn (forward)
 * @cell:   [n][out]: c so far; in backward its gradient
 * @next:   [n][4 out]: gradients of the gates of the first step behind the chunk (backward)
 * @tiles:  of each thread, SAMPLES by four times UNITS
 */
typedef struct job {
    const dt_call *call;
    const dt_args *a;
    dt_dtype type;
    dti_tile_fn *product;
    bool apart;
    int64_t n, steps, in, out, groups, each, blocks;
    int64_t chunk, first, many, step;
    float *bias, *hh, *back, *x, *gate, *before, *h[2], *cell, *next, *tiles;
    float *work;
} job;

/* --- scratch --- */

static bool makes_gates(const dt_call *c)
{
    const dt_lstm *o = c->node->opts;
    return c->form == DT_BACKWARD && o->keep == DTI_LSTM_KEEP_CELLS;
}

/* Bytes of scratch of the largest product. */
static size_t product_bytes(const job *j)
{
    const int64_t rows = j->chunk * j->n, gates = GATES * j->out;
    const bool back = j->call->form == DT_BACKWARD;
    const size_t all[] = {!back || makes_gates(j->call) ? dti_product_bytes(rows, gates) : 0,
        back ? dti_product_bytes(rows, j->in) : 0, back ? dti_product_bytes(gates, j->in) : 0,
        back ? dti_product_bytes(gates, j->out) : 0};
    size_t most = 0;
    for (size_t i = 0; i < DT_COUNT(all); i++)
        most = all[i] > most ? all[i] : most;
    return most;
}

/* Gives every part its space; returns the bytes of all. */
static size_t lay_out(job *j)
{
    const bool back = j->call->form == DT_BACKWARD, gates = !back || makes_gates(j->call);
    const int64_t rows = j->chunk * j->n, state = j->n * j->out, wide = dti_tile_padded(j->out);
    int64_t at = 0;
    j->x = dti_scratch_take(j->a, &at, rows * j->in);
    j->gate = dti_scratch_take(j->a, &at, rows * GATES * j->out);
    j->cell = dti_scratch_take(j->a, &at, state);
    j->tiles =
        dti_scratch_take(j->a, &at, (int64_t)omp_get_max_threads() * SAMPLES * GATES * UNITS);
    if (gates) {
        j->bias = dti_scratch_take(j->a, &at, GATES * j->out);
        j->hh = dti_scratch_take(j->a, &at, j->out * GATES * wide);
    }
    if (back) {
        j->back = dti_scratch_take(j->a, &at, GATES * j->out * wide);
        j->before = dti_scratch_take(j->a, &at, rows * j->out);
        j->next = dti_scratch_take(j->a, &at, state * GATES);
    } else {
        j->h[0] = dti_scratch_take(j->a, &at, state);
        j->h[1] = dti_scratch_take(j->a, &at, state);
    }
    j->work = dti_scratch_take(j->a, &at, 0);
    return (size_t)at * sizeof(float) + product_bytes(j);
}

static job job_of(const dt_call *c, const dt_args *a, bool apart)
{
    const dt_lstm *o = c->node->opts;
    const dt_shape x = dti_call_x(c);
    job j = {.call = c,
        .a = a,
        .type = c->dtype,
        .product = dti_tile_best(),
        .apart = apart,
        .n = c->n,
        .steps = x.h * x.w,
        .in = x.c,
        .out = o->out};
    j.blocks = dti_ceil_div(j.out, UNITS);
    j.each = j.apart ? FEW_SAMPLES : SAMPLES;
    j.groups = dti_ceil_div(j.n, j.each);
    j.chunk = dti_ceil_div(CHUNK_ROWS, j.n);
    j.chunk = j.chunk < j.steps ? j.chunk : j.steps;
    return j;
}

/* --- what a task works on --- */

/* Some samples by some channels of the state at a step. @wide: a whole number of vectors. */
typedef struct piece {
    dti_span samples, units;
    int64_t wide, step;
    float *tile;
} piece;

static piece piece_of(const job *j, int64_t step, int64_t group, int64_t block)
{
    piece p = {.samples = dti_span_of(j->n, j->each, group),
        .units = dti_span_of(j->out, UNITS, block),
        .step = step,
        .tile = j->tiles + (int64_t)dt_team_member() * SAMPLES * GATES * UNITS};
    p.wide = dti_tile_padded(p.units.end - p.units.begin);
    return p;
}

static int64_t width(const piece *p)
{
    return p->units.end - p->units.begin;
}

/* Element of [n][steps][out], a sample's first channel. */
static int64_t at_step(const job *j, int64_t sample, int64_t step)
{
    return (sample * j->steps + step) * j->out;
}

/* Where the row of a sample begins at a step of the chunk. */
static float *gates_at(const job *j, int64_t sample, int64_t step)
{
    return j->gate + ((step - j->first) * j->n + sample) * GATES * j->out;
}

typedef void piece_fn(const job *j, const piece *p);

/* Task @i of the step at hand. */
static void one_step(const job *j, int64_t i, piece_fn *go)
{
    const piece p = piece_of(j, j->step, i % j->groups, i / j->groups);
    go(j, &p);
}

/* All channels of a group at a step. */
static void all_channels(const job *j, int64_t step, int64_t group, piece_fn *go)
{
    for (int64_t block = 0; block < j->blocks; block++) {
        const piece p = piece_of(j, step, group, block);
        go(j, &p);
    }
}

/* --- weights, copied so that a task reads them in a row --- */

static const float *weight_hh(const job *j)
{
    return j->a->port[DT_P + 1];
}

/* Row @k of [4][wide] are the weights of h's channel k. */
static void pack_forward(const void *job_, int64_t i)
{
    const job *j = job_;
    const dti_span u = dti_span_of(j->out, UNITS, i);
    const int64_t n = u.end - u.begin, wide = dti_tile_padded(n), row = GATES * wide;
    float *to = j->hh + u.begin * GATES * j->out;
    for (int g = 0; g < GATES; g++) {
        const float *from = weight_hh(j) + (g * j->out + u.begin) * j->out;
        for (int64_t k = 0; k < j->out; k++)
            for (int64_t c = 0; c < wide; c++)
                to[k * row + g * wide + c] = c < n ? from[c * j->out + k] : 0;
    }
}

static void pack_back(const void *job_, int64_t i)
{
    const job *j = job_;
    const dti_span u = dti_span_of(j->out, UNITS, i);
    const int64_t n = u.end - u.begin, wide = dti_tile_padded(n);
    float *to = j->back + u.begin * GATES * j->out;
    for (int64_t k = 0; k < GATES * j->out; k++) {
        memcpy(to + k * wide, weight_hh(j) + k * j->out + u.begin, (size_t)n * sizeof *to);
        memset(to + k * wide + n, 0, (size_t)(wide - n) * sizeof *to);
    }
}

static void prepare_forward(job *j)
{
    const dt_lstm *o = j->call->node->opts;
    const float *ih = j->a->port[DT_P + 2], *hh = j->a->port[DT_P + 3];
    for (int64_t i = 0; i < GATES * j->out; i++)
        j->bias[i] = o->bias ? ih[i] + hh[i] : 0;
    dti_run_tasks(j->blocks, pack_forward, j);
}

/* --- rows of a chunk --- */

/* Copies rows of fp32 out of a value of [n][steps][width]. */
DT_CLONES static void gather(
    const job *j, const void *from, int64_t each, int64_t delay, float *to, dti_span rows)
{
    for (int64_t r = rows.begin; r < rows.end; r++) {
        const int64_t step = j->first + r / j->n - delay, sample = r % j->n;
        float *row = to + r * each;
        if (step < 0) {
            memset(row, 0, (size_t)each * sizeof *row);
            continue;
        }
        const float *v =
            dti_values_read(j->type, from, (sample * j->steps + step) * each, row, each);
        if (v != row)
            memcpy(row, v, (size_t)each * sizeof *row);
    }
}

static void gather_x_task(const void *job_, int64_t i)
{
    const job *j = job_;
    gather(j, j->a->port[DT_X], j->in, 0, j->x, dti_span_of(j->many * j->n, COPY_ROWS, i));
}

/* The h before each step, which is 0 before the first. */
static void gather_before_task(const void *job_, int64_t i)
{
    const job *j = job_;
    gather(j, j->a->port[DT_Y], j->out, 1, j->before, dti_span_of(j->many * j->n, COPY_ROWS, i));
}

static void gather_gates_task(const void *job_, int64_t i)
{
    const job *j = job_;
    const dti_span rows = dti_span_of(j->many * j->n, COPY_ROWS, i);
    const float *saved = j->a->port[DT_S + DTI_LSTM_GATES];
    for (int64_t r = rows.begin; r < rows.end; r++)
        memcpy(j->gate + r * GATES * j->out,
            saved + GATES * at_step(j, r % j->n, j->first + r / j->n),
            (size_t)(GATES * j->out) * sizeof *saved);
}

DT_CLONES static void scatter_dx_task(const void *job_, int64_t i)
{
    const job *j = job_;
    const dti_span rows = dti_span_of(j->many * j->n, COPY_ROWS, i);
    for (int64_t r = rows.begin; r < rows.end; r++) {
        const int64_t at = (r % j->n * j->steps + j->first + r / j->n) * j->in;
        const float *row = j->x + r * j->in;
        if (j->type == DT_BF16)
            dti_values_write(j->type, j->a->port[DT_DX], at, row, j->in);
        else
            memcpy((float *)j->a->port[DT_DX] + at, row, (size_t)j->in * sizeof *row);
    }
}

static void run_rows(const job *j, dti_task *task)
{
    dti_run_tasks(dti_ceil_div(j->many * j->n, COPY_ROWS), task, j);
}

/* Of all rows of the chunk: x times its weight, and the biases. */
static void multiply_x(const job *j)
{
    dti_product_run(&(dti_product_opts){.m = j->many * j->n,
        .n = GATES * j->out,
        .k = j->in,
        .a = {j->x, j->in, 1},
        .b = {j->a->port[DT_P], 1, j->in},
        .bias = j->bias,
        .c = j->gate,
        .c_row = GATES * j->out,
        .work = j->work});
}

/* --- a step forward --- */

/* The sums of the piece's gates, into its tile: [samples][4][wide]. @h: the one before,
 * of all samples; unused at the first step. */
static void add_h(const job *j, const piece *p, const float *h)
{
    const int64_t n = width(p), row = GATES * p->wide, samples = p->samples.end - p->samples.begin;
    for (int64_t s = 0; s < samples; s++)
        for (int g = 0; g < GATES; g++) {
            const float *from = gates_at(j, p->samples.begin + s, p->step) + g * j->out;
            float *to = p->tile + s * row + g * p->wide;
            memcpy(to, from + p->units.begin, (size_t)n * sizeof *to);
            memset(to + n, 0, (size_t)(p->wide - n) * sizeof *to);
        }
    if (p->step > 0)
        j->product(&(dti_tile){.a = h + p->samples.begin * j->out,
            .row = j->out,
            .step = 1,
            .b = j->hh + p->units.begin * GATES * j->out,
            .b_row = row,
            .c = p->tile,
            .c_row = row,
            .m = samples,
            .n = row,
            .depth = j->out,
            .add = true});
}

/* A sample's sums to gates. */
DT_INLINE void curve(float *z, int64_t wide)
{
#pragma omp simd
    for (int64_t i = 0; i < 2 * wide; i++)
        z[i] = dti_curve_sigmoid(z[i]);
#pragma omp simd
    for (int64_t i = G * wide; i < O * wide; i++)
        z[i] = dti_curve_tanh(z[i]);
#pragma omp simd
    for (int64_t i = O * wide; i < GATES * wide; i++)
        z[i] = dti_curve_sigmoid(z[i]);
}

/* c and h of a sample's gates @z; h is rounded as y is. */
DT_INLINE void advance(const job *j, const float *z, int64_t wide, float *c, float *h, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        c[i] = z[F * wide + i] * c[i] + z[I * wide + i] * z[G * wide + i];
        h[i] = z[O * wide + i] * dti_curve_tanh(c[i]);
    }
    if (j->type == DT_BF16)
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            h[i] = dt_bf16_to_float(dt_bf16_from_float(h[i]));
}

/* To y and to the stashes that are wanted. */
DT_INLINE void give(
    const job *j, const piece *p, int64_t sample, const float *z, const float *c, const float *h)
{
    float *gates = j->a->port[DT_S + DTI_LSTM_GATES], *cells = j->a->port[DT_S + DTI_LSTM_CELLS];
    const int64_t row = at_step(j, sample, p->step), n = width(p);
    const size_t bytes = (size_t)n * sizeof(float);
    if (j->type == DT_BF16)
        dti_values_write(j->type, j->a->port[DT_Y], row + p->units.begin, h, n);
    else
        memcpy((float *)j->a->port[DT_Y] + row + p->units.begin, h, bytes);
    if (cells != NULL)
        memcpy(cells + row + p->units.begin, c, bytes);
    for (int g = 0; g < GATES && gates != NULL; g++)
        memcpy(gates + GATES * row + g * j->out + p->units.begin, z + g * p->wide, bytes);
}

DT_CLONES static void advance_samples(const job *j, const piece *p)
{
    for (int64_t s = p->samples.begin; s < p->samples.end; s++) {
        float *z = p->tile + (s - p->samples.begin) * GATES * p->wide;
        float *c = j->cell + s * j->out + p->units.begin;
        float *h = j->h[p->step % 2] + s * j->out + p->units.begin;
        if (p->step == 0)
            memset(c, 0, (size_t)width(p) * sizeof *c);
        curve(z, p->wide);
        advance(j, z, p->wide, c, h, width(p));
        give(j, p, s, z, c, h);
    }
}

static void forward_piece(const job *j, const piece *p)
{
    add_h(j, p, j->h[(p->step + 1) % 2]);
    advance_samples(j, p);
}

static void forward_step_task(const void *job_, int64_t i)
{
    one_step(job_, i, forward_piece);
}

static void forward_group_task(const void *job_, int64_t i)
{
    const job *j = job_;
    for (int64_t step = j->first; step < j->first + j->many; step++)
        all_channels(j, step, i, forward_piece);
}

static void forward_chunk(job *j)
{
    run_rows(j, gather_x_task);
    multiply_x(j);
    if (j->apart)
        dti_run_tasks(j->groups, forward_group_task, j);
    else
        for (j->step = j->first; j->step < j->first + j->many; j->step++)
            dti_run_tasks(j->groups * j->blocks, forward_step_task, j);
}

static void forward(job *j)
{
    prepare_forward(j);
    for (j->first = 0; j->first < j->steps; j->first += j->many) {
        j->many = j->steps - j->first < j->chunk ? j->steps - j->first : j->chunk;
        forward_chunk(j);
    }
}

/* --- a step back --- */

/* Sums to gates. */
DT_CLONES static void curve_samples(const job *j, const piece *p)
{
    for (int64_t s = p->samples.begin; s < p->samples.end; s++) {
        float *z = p->tile + (s - p->samples.begin) * GATES * p->wide;
        curve(z, p->wide);
        for (int g = 0; g < GATES; g++)
            memcpy(gates_at(j, s, p->step) + g * j->out + p->units.begin, z + g * p->wide,
                (size_t)width(p) * sizeof *z);
    }
}

static void gates_again_task(const void *job_, int64_t i)
{
    const job *j = job_;
    const int64_t pieces = j->groups * j->blocks, step = i / pieces, k = i % pieces;
    const piece p = piece_of(j, j->first + step, k % j->groups, k / j->groups);
    add_h(j, &p, j->before + step * j->n * j->out);
    curve_samples(j, &p);
}

/* What of dh comes from the step behind: its gates' gradients times the weight. */
static void multiply_next(const job *j, const piece *p)
{
    const int64_t samples = p->samples.end - p->samples.begin, row = GATES * j->out;
    if (p->step + 1 == j->steps) {
        memset(p->tile, 0, (size_t)(samples * p->wide) * sizeof *p->tile);
        return;
    }
    const bool within = p->step + 1 < j->first + j->many;
    const float *next = within ? gates_at(j, 0, p->step + 1) : j->next;
    j->product(&(dti_tile){.a = next + p->samples.begin * row,
        .row = row,
        .step = 1,
        .b = j->back + p->units.begin * row,
        .b_row = p->wide,
        .c = p->tile,
        .c_row = p->wide,
        .m = samples,
        .n = p->wide,
        .depth = row});
}

/* A sample's channels: gates @z, [4][@row], become their gradients; @dc goes on to the step before.
 * @dh: what comes from the step behind, and from y. */
DT_INLINE void retreat(float *z, int64_t row, const float *c, const float *c_before,
    const float *dh, const float *dy, float *dc, int64_t n)
{
#pragma omp simd
    for (int64_t k = 0; k < n; k++) {
        const float i = z[I * row + k], f = z[F * row + k], g = z[G * row + k], o = z[O * row + k];
        const float t = dti_curve_tanh(c[k]), d = dh[k] + dy[k];
        const float e = dc[k] + d * o * (1 - t * t);
        z[I * row + k] = e * g * (i * (1 - i));
        z[F * row + k] = e * c_before[k] * (f * (1 - f));
        z[G * row + k] = e * i * (1 - g * g);
        z[O * row + k] = d * t * (o * (1 - o));
        dc[k] = e * f;
    }
}

DT_CLONES static void retreat_samples(const job *j, const piece *p)
{
    static const float none[UNITS] = {0};
    const float *cells = j->a->port[DT_S + DTI_LSTM_CELLS];
    const int64_t n = width(p);
    for (int64_t s = p->samples.begin; s < p->samples.end; s++) {
        const int64_t at = at_step(j, s, p->step) + p->units.begin;
        float buffer[UNITS], *dc = j->cell + s * j->out + p->units.begin;
        const float *dy = dti_values_read(j->type, j->a->port[DT_DY], at, buffer, n);
        if (p->step + 1 == j->steps)
            memset(dc, 0, (size_t)n * sizeof *dc);
        retreat(gates_at(j, s, p->step) + p->units.begin, j->out, cells + at,
            p->step > 0 ? cells + at - j->out : none, p->tile + (s - p->samples.begin) * p->wide,
            dy, dc, n);
    }
}

static void backward_piece(const job *j, const piece *p)
{
    multiply_next(j, p);
    retreat_samples(j, p);
}

static void backward_step_task(const void *job_, int64_t i)
{
    one_step(job_, i, backward_piece);
}

static void backward_group_task(const void *job_, int64_t i)
{
    const job *j = job_;
    for (int64_t step = j->first + j->many; step-- > j->first;)
        all_channels(j, step, i, backward_piece);
}

static void go_back(job *j)
{
    if (j->apart)
        dti_run_tasks(j->groups, backward_group_task, j);
    else
        for (j->step = j->first + j->many; j->step-- > j->first;)
            dti_run_tasks(j->groups * j->blocks, backward_step_task, j);
}

/* --- backward --- */

/* A weight's gradient, of the rows of the chunk: those of the gates' times @with. The sums of the
 * gates' are a bias's. */
static void multiply_rows(const job *j, const float *with, int64_t each, int param, bool add)
{
    const dt_lstm *o = j->call->node->opts;
    dti_product_run(&(dti_product_opts){.m = GATES * j->out,
        .n = each,
        .k = j->many * j->n,
        .a = {j->gate, 1, GATES * j->out},
        .b = {with, each, 1},
        .add = add ? 3 : 0,
        .sums = o->bias ? j->a->port[DT_DP + 2 + param] : NULL,
        .c = j->a->port[DT_DP + param],
        .c_row = each,
        .work = j->work});
}

static void multiply_gates(const job *j)
{
    dti_product_run(&(dti_product_opts){.m = j->many * j->n,
        .n = j->in,
        .k = GATES * j->out,
        .a = {j->gate, GATES * j->out, 1},
        .b = {j->a->port[DT_P], j->in, 1},
        .c = j->x,
        .c_row = j->in,
        .work = j->work});
}

static void find_gates(const job *j)
{
    if (!makes_gates(j->call)) {
        run_rows(j, gather_gates_task);
        return;
    }
    multiply_x(j);
    dti_run_tasks(j->many * j->groups * j->blocks, gates_again_task, j);
}

static void backward_chunk(job *j)
{
    const bool last = j->first + j->many == j->steps;
    run_rows(j, gather_x_task);
    run_rows(j, gather_before_task);
    find_gates(j);
    go_back(j);
    memcpy(j->next, j->gate, (size_t)(j->n * GATES * j->out) * sizeof *j->next);
    multiply_rows(j, j->x, j->in, 0, !last);
    multiply_rows(j, j->before, j->out, 1, !last);
    if (j->a->port[DT_DX] == NULL)
        return;
    multiply_gates(j);
    run_rows(j, scatter_dx_task);
}

/* Chunks end where those of forward do: the last is the short one. */
static void backward(job *j)
{
    if (makes_gates(j->call))
        prepare_forward(j);
    dti_run_tasks(j->blocks, pack_back, j);
    for (int64_t i = dti_ceil_div(j->steps, j->chunk); i-- > 0;) {
        const dti_span s = dti_span_of(j->steps, j->chunk, i);
        j->first = s.begin;
        j->many = s.end - s.begin;
        backward_chunk(j);
    }
}

/* --- ops --- */

static bool samples_accept(const dt_call *c, dt_why *why)
{
    const dt_lstm *o = c->node->opts;
    const int64_t weights = GATES * o->out * o->out;
    return weights <= CACHED ||
           dt_refuse(why, "%" PRId64 " weights of h, at most %d", weights, (int)CACHED);
}

/* They take the same scratch. */
static dt_status facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    job j = job_of(c, NULL, false);
    f->work_bytes = lay_out(&j);
    return DT_OK;
}

static dt_status run(const dt_call *c, const dt_args *a, bool apart)
{
    job j = job_of(c, a, apart);
    DT_ASSERT(a->n == c->n);
    (void)lay_out(&j);
    if (c->form == DT_BACKWARD)
        backward(&j);
    else
        forward(&j);
    return DT_OK;
}

static dt_status samples_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    return run(c, a, true);
}

static dt_status steps_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    return run(c, a, false);
}

/* By what a task has: samples for all steps of the chunk, or a piece of a step. */
static const dt_impl lstm[] = {
    {.name = "samples", .accepts = samples_accept, .facts = facts, .run = samples_run},
    {.name = "steps", .facts = facts, .run = steps_run},
    {0},
};
DT_IMPLS(lstm);

const dt_kernels dt_lstm_cpu = {DT_BY_IMPLS(lstm)};
