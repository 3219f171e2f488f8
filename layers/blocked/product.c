/* Products of large matrices: cut into blocks, panels copied, tiles multiplied. */
#include "layers/blocked/product.h"

#include <omp.h>
#include <string.h>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "layers/cpu/tasks.h"
#include "layers/blocked/tile.h"
#include "layers/blocked/transpose.h"
#include "layers/value.h"

/* A task is a block of c, which it sums up where it belongs, @depth elements of the sums at a time;
 * or in scratch, where it is added to what is there, rounded or no whole vectors. Of b it copies
 * that many rows, a panel of columns at a time, which fits the first cache. a is read where it
 * lies, or copied in strips of rows where the tile likes these better; then a block and its strips
 * fit the second cache. Of bf16 rows are copied as they lie, and columns in strips. */
typedef struct blocks {
    int64_t rows, columns, depth; /* of a block */
    int64_t down, across;         /* blocks */
} blocks;

enum { TASKS = 8, LEAST_ROWS = 96, LEAST_COLUMNS = 64, MOST_ROWS = 384 };
static const blocks in_place = {.rows = MOST_ROWS, .columns = 192, .depth = 128};
static const blocks copied = {.rows = 192, .columns = 384, .depth = 256};

enum { CHUNK = 16 };   /* floats that are copied at a time */
enum { STRIP = 16 };   /* rows, where the tile does not ask for another number */
enum { GROUP = 16 };   /* rows that are multiplied at a time, where a is not in strips */
enum { LINE = 64 };    /* bytes of a line of the cache */
enum { SUMMED = 128 }; /* elements of a row that are summed up before they are added to its sum */

struct job {
    const dti_product_opts *p;
    dti_tile_fn *tile;
    dti_tile_copies copies;
    blocks cut;
    int64_t scratch; /* floats of scratch a thread has */
};

/* Large blocks copy less; small matrices are cut finer, so that there are tasks for a team. */
static blocks cut(int64_t m, int64_t n)
{
    blocks b = dti_tile_copies_best().strip > 0 ? copied : in_place;
    for (;;) {
        b.down = dti_ceil_div(m, b.rows);
        b.across = dti_ceil_div(n, b.columns);
        if (b.down * b.across >= TASKS || (b.rows == LEAST_ROWS && b.columns == LEAST_COLUMNS))
            break;
        if (b.rows > LEAST_ROWS)
            b.rows /= 2;
        else
            b.columns = LEAST_COLUMNS;
    }
    b.rows = b.rows < m ? b.rows : dti_tile_padded(m);
    b.columns = b.columns < n ? b.columns : dti_tile_padded(n);
    return b;
}

static int64_t strip_of(const dti_tile_copies *best)
{
    return best->strip > 0 ? best->strip : STRIP;
}

static int64_t scratch_of(const blocks *b)
{
    const dti_tile_copies best = dti_tile_copies_best();
    const int64_t strip = strip_of(&best);
    return b->rows * b->columns + b->depth * (best.panel + dti_ceil_div(b->rows, strip) * strip);
}

size_t dti_product_bytes(int64_t m, int64_t n)
{
    const blocks b = cut(m, n);
    return (size_t)scratch_of(&b) * (size_t)omp_get_max_threads() * sizeof(float);
}

/* A block's part of the sums: elements [first, first + depth). */
typedef struct part {
    dti_span rows, columns;
    int64_t first, depth, panel, strip;
    bool strips;      /* a is copied in these; else row by row, or read where it lies */
    float *a, *b, *c; /* scratch; NULL: a is read where it lies, c is made where it belongs */
    float *sums;      /* scratch for those of the rows; NULL: not asked */
} part;

/* @n floats of each of @rows rows, padded to @width with zeros. Copies are of a fixed size: what
 * compilers make of others is slower. */
DT_CLONES static void copy_rows(
    const float *from, int64_t row, int64_t rows, int64_t n, float *to, int64_t width)
{
    for (int64_t r = 0; r < rows; r++, from += row, to += width) {
        int64_t i = 0;
        for (; i + CHUNK <= n; i += CHUNK) {
            __builtin_prefetch(from + i + width); /* of the next panel, or strip */
            memcpy(to + i, from + i, CHUNK * sizeof *to);
        }
        for (; i + 4 <= n; i += 4)
            memcpy(to + i, from + i, 4 * sizeof *to);
        for (; i < width; i++)
            to[i] = i < n ? from[i] : 0;
    }
}

/* The same of bf16. */
DT_CLONES static void widen_rows(
    const dt_bf16 *from, int64_t row, int64_t rows, int64_t n, float *to, int64_t width)
{
    for (int64_t r = 0; r < rows; r++, from += row, to += width) {
        int64_t i = 0;
        for (; i + CHUNK <= n; i += CHUNK) {
            __builtin_prefetch(from + i + width);
#pragma omp simd
            for (int k = 0; k < CHUNK; k++)
                to[i + k] = dt_bf16_to_float(from[i + k]);
        }
        for (; i < width; i++)
            to[i] = i < n ? dt_bf16_to_float(from[i]) : 0;
    }
}

/* Rows of a matrix that begin with element @at. */
static void copy_of(
    const dti_matrix *x, int64_t at, int64_t row, int64_t rows, int64_t n, float *to, int64_t width)
{
    if (x->type == DT_BF16)
        widen_rows(dti_from(x->p, at, x->type), row, rows, n, to, width);
    else
        copy_rows(dti_from(x->p, at, x->type), row, rows, n, to, width);
}

/* The same, where a column's floats are together and columns are @row apart. */
static void copy_transposed(
    const float *from, int64_t row, int64_t rows, int64_t n, float *to, int64_t width)
{
    int64_t c = 0;
    for (; c + 4 <= n; c += 4) {
        const float *const x[4] = {
            from + c * row, from + (c + 1) * row, from + (c + 2) * row, from + (c + 3) * row};
        int64_t r = 0;
        for (; r + 4 <= rows; r += 4)
            dti_transpose_four(x, r, 1, to + r * width + c, width);
        for (; r < rows; r++)
            for (int k = 0; k < 4; k++)
                to[r * width + c + k] = x[k][r];
    }
    for (; c < width; c++)
        for (int64_t r = 0; r < rows; r++)
            to[r * width + c] = c < n ? from[c * row + r] : 0;
}

/* A panel of b, as wide as it must be, from column @at of the block on. */
static int64_t pack_panel(const dti_matrix *b, const part *w, int64_t at)
{
    const int64_t left = dti_span_count(w->columns) - at, some = left < w->panel ? left : w->panel;
    const int64_t from = w->first * b->row + (w->columns.begin + at) * b->step;
    DT_ASSERT(b->step == 1 || b->type == DT_F32);
    if (b->step == 1)
        copy_of(b, from, b->row, w->depth, some, w->b, dti_tile_padded(some));
    else
        copy_transposed(
            (const float *)b->p + from, b->step, w->depth, some, w->b, dti_tile_padded(some));
    return dti_tile_padded(some);
}

/* Strips of a, one behind the other; or its rows. */
static void pack_rows(const dti_matrix *a, const part *w)
{
    const int64_t m = dti_span_count(w->rows);
    int64_t from = w->rows.begin * a->row + w->first * a->step;
    if (!w->strips) {
        copy_of(a, from, a->row, m, w->depth, w->a, w->depth);
        return;
    }
    for (int64_t i = 0; i < m; i += w->strip, from += w->strip * a->row) {
        const int64_t some = m - i < w->strip ? m - i : w->strip;
        float *to = w->a + i * w->depth;
        if (a->row == 1)
            copy_of(a, from, a->step, w->depth, some, to, w->strip);
        else
            copy_transposed((const float *)a->p + from, a->row, w->depth, some, to, w->strip);
    }
}

/* Adds up @depth columns of m elements, @step apart. */
DT_INLINE void sum_columns(
    const void *from, dt_dtype t, int64_t step, int64_t depth, int64_t m, float *to)
{
    for (int64_t k = 0; k < depth; k++)
#pragma omp simd
        for (int64_t i = 0; i < m; i++)
            to[i] += dti_load(from, k * step + i, t);
}

/* The sums of the block's rows of a, of which elements are together that belong to different ones.
 */
DT_CLONES static void sum_rows(const dti_matrix *a, const part *w)
{
    const int64_t m = dti_span_count(w->rows);
    for (int64_t first = 0, end; first < w->depth; first = end) {
        float some[MOST_ROWS] = {0};
        const void *from = dti_from(a->p, w->rows.begin + (w->first + first) * a->step, a->type);
        end = w->depth - first < SUMMED ? w->depth : first + SUMMED;
        if (a->type == DT_BF16)
            sum_columns(from, DT_BF16, a->step, end - first, m, some);
        else
            sum_columns(from, DT_F32, a->step, end - first, m, some);
        for (int64_t i = 0; i < m; i++)
            w->sums[i] = w->first + first == 0 ? some[i] : w->sums[i] + some[i];
    }
}

/* What is copied next: lines of @rows rows, @apart bytes from one to the next. */
typedef struct ahead {
    const char *p;
    int64_t rows, lines, apart;
} ahead;

/* The panel behind the one at column @at, or the first of the next part. */
static ahead ahead_of(const struct job *j, const part *w, int64_t at)
{
    const dti_matrix *b = &j->p->b;
    const int64_t n = dti_span_count(w->columns), size = (int64_t)dt_dtype_bytes(b->type);
    int64_t first = w->first;
    at += w->panel;
    if (at >= n) {
        at = 0;
        first += w->depth;
    }
    const int64_t depth = dt_min_i64(j->p->k - first, j->cut.depth);
    const int64_t columns = dt_min_i64(n - at, w->panel);
    if (depth <= 0)
        return (ahead){.rows = 0};
    return (ahead){dti_from(b->p, first * b->row + (w->columns.begin + at) * b->step, b->type),
        b->step == 1 ? depth : columns, dti_ceil_div((b->step == 1 ? columns : depth) * size, LINE),
        (b->step == 1 ? b->row : b->step) * size};
}

/* Memory has time for @n rows of it while a tile is multiplied. */
static void ask(ahead *x, int64_t n)
{
    for (; n > 0 && x->rows > 0; n--, x->rows--, x->p += x->apart)
        for (int64_t l = 0; l < x->lines; l++)
            __builtin_prefetch(x->p + l * LINE, 0, 2);
}

/* One panel of the block, @width columns of b from column @at of the block on. */
static void add_panel(const struct job *j, const part *w, int64_t at, int64_t width)
{
    const dti_product_opts *p = j->p;
    const int64_t m = dti_span_count(w->rows), each = w->strips ? w->strip : GROUP;
    const int64_t a_row = w->a != NULL ? w->depth : p->a.row;
    const float *a = w->a != NULL
                         ? w->a
                         : (const float *)p->a.p + w->rows.begin * p->a.row + w->first * p->a.step;
    float *c = w->c != NULL ? w->c + at * m
                            : (float *)p->c + w->rows.begin * p->c_row + w->columns.begin + at;
    dti_tile t = {.row = w->strips ? 1 : a_row,
        .step = w->strips      ? w->strip
                : w->a != NULL ? 1
                               : p->a.step,
        .b = w->b,
        .b_row = width,
        .c_row = w->c != NULL ? width : p->c_row,
        .n = width,
        .depth = w->depth,
        .add = w->first > 0,
        .far = w->a == NULL && p->a.step == 1 && at == 0};
    ahead next = ahead_of(j, w, at);
    const int64_t share = dti_ceil_div(next.rows * each, m);
    for (int64_t i = 0; i < m; i += each) {
        t.a = a + i * a_row;
        t.c = c + i * t.c_row;
        t.m = dt_min_i64(m - i, each);
        ask(&next, share);
        j->tile(&t);
    }
}

static void add_part(const struct job *j, const part *w)
{
    if (w->a != NULL)
        pack_rows(&j->p->a, w);
    if (w->sums != NULL)
        sum_rows(&j->p->a, w);
    for (int64_t at = 0; at < dti_span_count(w->columns); at += w->panel)
        add_panel(j, w, at, pack_panel(&j->p->b, w, at));
}

/* A row of sums, which are whole, to what is there. */
DT_INLINE void add_row(const float *from, float *to, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        to[i] += from[i];
}

/* A row of a panel to where it belongs. */
DT_INLINE void store_row(const float *from, const float *bias, float *to, int64_t n)
{
    int64_t i = 0;
    for (; i + CHUNK <= n; i += CHUNK)
        if (bias == NULL)
            memcpy(to + i, from + i, CHUNK * sizeof *to);
        else
#pragma omp simd
            for (int k = 0; k < CHUNK; k++)
                to[i + k] = from[i + k] + bias[i + k];
    for (; i < n; i++)
        to[i] = bias == NULL ? from[i] : from[i] + bias[i];
}

DT_INLINE void round_row(const float *from, const float *bias, dt_bf16 *to, int64_t n)
{
    if (bias == NULL)
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            to[i] = dt_bf16_from_float(from[i]);
    else
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            to[i] = dt_bf16_from_float(from[i] + bias[i]);
}

static void store_sums(const dti_product_opts *p, const part *w)
{
    const int64_t m = dti_span_count(w->rows);
    if ((p->add & 2) != 0)
        add_row(w->sums, p->sums + w->rows.begin, m);
    else
        memcpy(p->sums + w->rows.begin, w->sums, (size_t)m * sizeof *w->sums);
}

/* A block that was summed up in scratch. */
DT_CLONES static void store(const dti_product_opts *p, const part *w)
{
    const int64_t n = dti_span_count(w->columns), m = dti_span_count(w->rows);
    const float *from = w->c;
    for (int64_t at = 0; at < n; at += w->panel) {
        const int64_t some = n - at < w->panel ? n - at : w->panel, width = dti_tile_padded(some);
        const float *bias = p->bias == NULL ? NULL : p->bias + w->columns.begin + at;
        int64_t to = w->rows.begin * p->c_row + w->columns.begin + at;
        for (int64_t i = 0; i < m; i++, from += width, to += p->c_row)
            if (p->c_type == DT_BF16)
                round_row(from, bias, (dt_bf16 *)p->c + to, some);
            else if ((p->add & 1) != 0)
                add_row(from, (float *)p->c + to, some);
            else
                store_row(from, bias, (float *)p->c + to, some);
    }
}

/* One that was summed up where it belongs. */
DT_CLONES static void add_bias(const dti_product_opts *p, const part *w)
{
    float *c = (float *)p->c + w->rows.begin * p->c_row + w->columns.begin;
    for (int64_t i = 0; i < dti_span_count(w->rows); i++, c += p->c_row)
        add_row(p->bias + w->columns.begin, c, dti_span_count(w->columns));
}

static void task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_product_opts *p = j->p;
    float sums[MOST_ROWS];
    part w = {.rows = dti_span_of(p->m, j->cut.rows, i % j->cut.down),
        .columns = dti_span_of(p->n, j->cut.columns, i / j->cut.down),
        .panel = j->copies.panel,
        .strip = strip_of(&j->copies),
        .c = p->work + dt_team_member() * j->scratch};
    w.b = w.c + j->cut.rows * j->cut.columns;
    if (p->n % DTI_TILE_LANES == 0 && (p->add & 1) == 0 && p->c_type == DT_F32)
        w.c = NULL;
    w.strips = j->copies.strip > 0 ? p->a.type == DT_F32 || p->a.step != 1
                                   : p->a.type != DT_F32 && p->a.step != 1;
    if (w.strips || p->a.type != DT_F32)
        w.a = w.b + j->cut.depth * w.panel;
    if (p->sums != NULL && w.columns.begin == 0)
        w.sums = sums;
    for (; w.first < p->k; w.first += w.depth) {
        w.depth = p->k - w.first < j->cut.depth ? p->k - w.first : j->cut.depth;
        add_part(j, &w);
    }
    if (w.c != NULL)
        store(p, &w);
    else if (p->bias != NULL)
        add_bias(p, &w);
    if (w.sums != NULL)
        store_sums(p, &w);
}

void dti_product_run(const dti_product_opts *p)
{
    struct job j = {
        .p = p, .tile = dti_tile_best(), .copies = dti_tile_copies_best(), .cut = cut(p->m, p->n)};
    j.scratch = scratch_of(&j.cut);
    dti_run_tasks(j.cut.down * j.cut.across, task, &j);
}
