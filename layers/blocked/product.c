/* Products of large matrices of fp32: cut into blocks, panels copied, tiles multiplied. */
#include "layers/blocked/product.h"

#include <omp.h>
#include <string.h>

#include "layers/cpu/tasks.h"
#include "layers/blocked/tile.h"
#include "layers/blocked/transpose.h"

/* A task is a block of c, which it sums up in scratch, DEPTH elements of the sums at a time. Of
 * b it copies that many rows, in panels of as many columns as the tile reads best, which fit the
 * first cache; a is read where it lies; if it lies transposed, it is copied in strips of STRIP
 * rows. */
enum { STRIP = 16, DEPTH = 128, ROWS = 384, COLUMNS = 192, TASKS = 8 };
enum { LEAST_ROWS = 96, LEAST_COLUMNS = 64 };

typedef struct blocks {
    int64_t rows, columns, down, across; /* of a block; blocks */
} blocks;

struct job {
    const dti_product_opts *p;
    dti_tile_fn *tile;
    int64_t panel; /* columns of b */
    blocks cut;
    int64_t scratch; /* floats of scratch a thread has */
};

static int64_t padded(int64_t n)
{
    return dti_ceil_div(n, DTI_TILE_LANES) * DTI_TILE_LANES;
}

/* Large blocks copy less; small matrices are cut finer, so that there are tasks for a team. */
static blocks cut(int64_t m, int64_t n)
{
    blocks b = {.rows = ROWS, .columns = COLUMNS};
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
    b.rows = b.rows < m ? b.rows : padded(m);
    b.columns = b.columns < n ? b.columns : padded(n);
    return b;
}

static int64_t scratch_of(const blocks *b)
{
    return b->rows * b->columns + DEPTH * (b->columns + b->rows);
}

size_t dti_product_bytes(int64_t m, int64_t n)
{
    const blocks b = cut(m, n);
    return (size_t)scratch_of(&b) * (size_t)omp_get_max_threads() * sizeof(float);
}

/* A block's part of the sums: elements [first, first + depth). */
typedef struct part {
    dti_span rows, columns;
    int64_t first, depth, panel;
    float *a, *b, *c; /* scratch; a NULL: read where it lies */
    float *sums;      /* scratch for those of the rows; NULL: not asked */
} part;

static int64_t count(dti_span s)
{
    return s.end - s.begin;
}

/* @n floats of each of @rows rows, padded to @width with zeros. Copies are of a fixed size: what
 * compilers make of others is slower. */
DT_CLONES static void copy_rows(
    const float *from, int64_t row, int64_t rows, int64_t n, float *to, int64_t width)
{
    for (int64_t r = 0; r < rows; r++, from += row, to += width) {
        int64_t i = 0;
        for (; i + STRIP <= n; i += STRIP) {
            __builtin_prefetch(from + i + width); /* of the next panel, or strip */
            memcpy(to + i, from + i, STRIP * sizeof *to);
        }
        for (; i < width; i++)
            to[i] = i < n ? from[i] : 0;
    }
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

/* Panels of b, one behind the other, each as wide as it must be. */
static void pack_columns(const dti_matrix *b, const part *w)
{
    const int64_t n = count(w->columns);
    float *to = w->b;
    for (int64_t j = 0; j < n; j += w->panel) {
        const int64_t some = n - j < w->panel ? n - j : w->panel, width = padded(some);
        const float *from = b->p + w->first * b->row + (w->columns.begin + j) * b->step;
        if (b->step == 1)
            copy_rows(from, b->row, w->depth, some, to, width);
        else
            copy_transposed(from, b->step, w->depth, some, to, width);
        to += DEPTH * width;
    }
}

/* Strips of a, one behind the other, where it lies transposed; and the sums of its rows where
 * asked, which the tasks of the first columns make. */
DT_CLONES static void pack_rows(const dti_product_opts *p, const part *w)
{
    const int64_t m = count(w->rows);
    const float *from = p->a.p + w->rows.begin + w->first * p->a.step;
    for (int64_t i = 0; i < m; i += STRIP)
        copy_rows(
            from + i, p->a.step, w->depth, m - i < STRIP ? m - i : STRIP, w->a + i * DEPTH, STRIP);
    if (w->sums == NULL)
        return;
    for (int64_t i = 0; i < m; i += STRIP) {
        float *sums = w->sums + i, some[STRIP] = {0};
        for (int64_t t = 0; t < w->depth; t++)
#pragma omp simd
            for (int k = 0; k < STRIP; k++)
                some[k] += w->a[i * DEPTH + t * STRIP + k];
        for (int64_t k = 0; k < STRIP && i + k < m; k++)
            sums[k] = w->first == 0 ? some[k] : sums[k] + some[k];
    }
}

/* One panel of the block. */
static void add_panel(const struct job *j, const part *w, const float *b, float *c, int64_t width)
{
    const dti_product_opts *p = j->p;
    const bool direct = w->a == NULL;
    const int64_t m = count(w->rows), each = direct ? m : STRIP;
    dti_tile t = {.row = direct ? p->a.row : 1,
        .step = direct ? 1 : STRIP,
        .b = b,
        .b_row = width,
        .c_row = width,
        .n = width,
        .depth = w->depth,
        .add = w->first > 0};
    for (int64_t i = 0; i < m; i += each) {
        t.a = direct ? p->a.p + w->rows.begin * p->a.row + w->first : w->a + i * DEPTH;
        t.c = c + i * width;
        t.m = m - i < each ? m - i : each;
        j->tile(&t);
    }
}

static void add_part(const struct job *j, const part *w)
{
    const int64_t n = count(w->columns), m = count(w->rows);
    if (w->a != NULL)
        pack_rows(j->p, w);
    pack_columns(&j->p->b, w);
    for (int64_t at = 0; at < n; at += w->panel)
        add_panel(
            j, w, w->b + at * DEPTH, w->c + at * m, n - at < w->panel ? padded(n - at) : w->panel);
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
    for (; i + STRIP <= n; i += STRIP)
        if (bias == NULL)
            memcpy(to + i, from + i, STRIP * sizeof *to);
        else
#pragma omp simd
            for (int k = 0; k < STRIP; k++)
                to[i + k] = from[i + k] + bias[i + k];
    for (; i < n; i++)
        to[i] = bias == NULL ? from[i] : from[i] + bias[i];
}

DT_CLONES static void store(const dti_product_opts *p, const part *w)
{
    const int64_t n = count(w->columns), m = count(w->rows);
    const float *from = w->c;
    for (int64_t at = 0; at < n; at += w->panel) {
        const int64_t some = n - at < w->panel ? n - at : w->panel, width = padded(some);
        const float *bias = p->bias == NULL ? NULL : p->bias + w->columns.begin + at;
        float *to = p->c + w->rows.begin * p->c_row + w->columns.begin + at;
        for (int64_t i = 0; i < m; i++, from += width, to += p->c_row)
            if ((p->add & 1) != 0)
                add_row(from, to, some);
            else
                store_row(from, bias, to, some);
    }
    if (w->sums != NULL && (p->add & 2) != 0)
        add_row(w->sums, p->sums + w->rows.begin, m);
    else if (w->sums != NULL)
        memcpy(p->sums + w->rows.begin, w->sums, (size_t)m * sizeof *w->sums);
}

static void task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_product_opts *p = j->p;
    float *scratch = p->work + dt_team_member() * j->scratch, sums[ROWS];
    part w = {.rows = dti_span_of(p->m, j->cut.rows, i % j->cut.down),
        .columns = dti_span_of(p->n, j->cut.columns, i / j->cut.down),
        .panel = j->panel,
        .c = scratch};
    w.b = w.c + j->cut.rows * j->cut.columns;
    if (p->a.step != 1 || p->sums != NULL)
        w.a = w.b + DEPTH * j->cut.columns;
    if (p->sums != NULL && w.columns.begin == 0)
        w.sums = sums;
    for (; w.first < p->k; w.first += DEPTH) {
        w.depth = p->k - w.first < DEPTH ? p->k - w.first : DEPTH;
        add_part(j, &w);
    }
    store(p, &w);
}

void dti_product_run(const dti_product_opts *p)
{
    struct job j = {
        .p = p, .tile = dti_tile_best(), .panel = dti_tile_panel(), .cut = cut(p->m, p->n)};
    j.scratch = scratch_of(&j.cut);
    dti_run_tasks(j.cut.down * j.cut.across, task, &j);
}
