/* Products of a few rows with a large weight: packing, and what is multiplied. */
#include "layers/blocked/few_rows.h"

#include <inttypes.h>
#include <omp.h>
#include <string.h>

#include "layers/blocked/amx.h"
#include "layers/blocked/pairs.h"
#include "layers/cpu/lanes.h"
#include "layers/cpu/tasks.h"

/* A task of forward has PANEL outputs, of which a row of the weight is long; one of the gradient of
 * x has WIDE inputs, which lie side by side. Of the weight WORDS pairs are packed at a time, for
 * MOST rows. A task of the weight's gradient has OUTPUTS by WIDE of it. */
enum {
    LANES = 16,
    PANEL = 64,
    WIDE = 256,
    WORDS = 64,
    DEPTH = 2 * WORDS,
    MOST = 128,
    OUTPUTS = 64,
    DEPTH_LINES = 3, /* as a power of two, lines of the cache that so many floats take */
    WIDE_LINES = 4
};
_Static_assert(DEPTH == LANES << DEPTH_LINES && WIDE == LANES << WIDE_LINES, "a line is a vector");

bool dti_few_rows_accepts(const dti_few_rows *s, dt_why *why)
{
    enum { LARGE = 1 << 20, STEP = 2 * LANES };
    if (dti_amx_here())
        return dt_refuse(why, "the processor has AMX");
    if (dti_lane_set() != DTI_LANES_BF16)
        return dt_refuse(why, "there is no AVX512_BF16 to use");
    if (s->in * s->out < LARGE)
        return dt_refuse(why, "%" PRId64 " weights, needs at least %d", s->in * s->out, (int)LARGE);
    if (s->in % STEP != 0 || s->out % LANES != 0)
        return dt_refuse(why,
            "%" PRId64 " inputs and %" PRId64 " outputs, needs multiples of %d and %d", s->in,
            s->out, (int)STEP, (int)LANES);
    return true;
}

/* Of a thread: what is packed, and sums. */
typedef struct scratch {
    uint32_t left[WORDS * OUTPUTS], right[WORDS * WIDE];
    float sums[MOST * WIDE];
} scratch;

size_t dti_few_rows_work(void)
{
    return sizeof(scratch) * (size_t)omp_get_max_threads();
}

/* One call. @a: rows of @depth values; @columns: of the results, @width of them a task's;
 * @transposed: they are outputs, of which a row of the weight is */
typedef struct job {
    const dti_few_rows *s;
    const dt_bf16 *a, *x, *dy;
    const float *weight, *bias;
    dt_bf16 *to;
    float *dweight, *dbias;
    int64_t depth, columns, width;
    unsigned add;
    scratch *work;
    bool transposed;
} job;

#if defined(__x86_64__)
/* --- packing --- */

/* Outputs [columns) of a weight by its inputs [values): words of two inputs, a row for each. */
DT_PAIRS static void pack_transposed(const job *j, dti_span columns, dti_span values, uint32_t *to)
{
    const int64_t in = j->s->in, n = dti_span_count(columns);
    for (int64_t o = 0; o < n; o += LANES)
        for (int64_t k = 0; k < dti_span_count(values); k += 2 * LANES) {
            const float *from = j->weight + (columns.begin + o) * in + values.begin + k;
            __m512i words[LANES];
            for (int r = 0; r < LANES; r++) {
                const float *row = from + r * in;
                words[r] = dti_pairs_rounded(_mm512_loadu_ps(row), _mm512_loadu_ps(row + LANES));
            }
            dti_pairs_transpose(words);
            for (int r = 0; r < LANES; r++)
                _mm512_storeu_si512(to + (k / 2 + r) * n + o, words[r]);
        }
}

/* Inputs [columns) by outputs [values): words of two outputs. */
DT_PAIRS static void pack_rows(const job *j, dti_span columns, dti_span values, uint32_t *to)
{
    const int64_t in = j->s->in, n = dti_span_count(columns);
    for (int64_t k = values.begin; k < values.end; k += 2) {
        const float *from = j->weight + k * in + columns.begin;
        for (int64_t i = 0; i < n; i += LANES, to += LANES)
            _mm512_storeu_si512(
                to, dti_pairs_of(_mm512_loadu_ps(from + i), _mm512_loadu_ps(from + in + i)));
    }
}

/* Columns of rows [rows) of bf16, which are @row apart: words of two rows; zeros behind the last.
 */
DT_PAIRS static void pack_samples(
    const dt_bf16 *from, int64_t row, dti_span columns, dti_span rows, uint32_t *to)
{
    const int64_t n = dti_span_count(columns);
    for (int64_t r = rows.begin; r < rows.end; r += 2, to += n) {
        const dt_bf16 *first = from + r * row + columns.begin;
        for (int64_t i = 0; i < n; i += 2 * LANES) {
            const bool all = i + LANES < n;
            const __mmask32 here = all ? UINT32_MAX : UINT16_MAX;
            const __mmask32 next = r + 1 < rows.end ? here : 0;
            __m512i words[2];
            dti_pairs_join(_mm512_maskz_loadu_epi16(here, first + i),
                _mm512_maskz_loadu_epi16(next, first + row + i), words);
            _mm512_storeu_si512(to + i, words[0]);
            if (all)
                _mm512_storeu_si512(to + i + LANES, words[1]);
        }
    }
}

/* --- products --- */

/* Words of rows: the next of a row is @step words on, the next row @apart. */
typedef struct words {
    const char *at;
    int64_t apart, step;
} words;

DT_PAIRS DT_INLINE __m512bh spread(const char *word)
{
    int32_t both;
    memcpy(&both, word, sizeof both);
    return (__m512bh)_mm512_set1_epi32(both);
}

/* What is packed next is asked for while this is multiplied, a line of it with each word: 1 <<
 * lines of them lie side by side, and the next as many a row on. It may be behind the end. */
typedef struct lines {
    uintptr_t at;
    int64_t row;
    int lines;
} lines;

DT_INLINE void fetch(const lines *l, int64_t k)
{
    const int64_t row = k >> l->lines, line = k - (row << l->lines);
    __builtin_prefetch((const void *)(l->at + (uintptr_t)(row * l->row + 64 * line)), 0, 2);
}

/* @depth words of each of @rows rows by those at b, n columns of them. */
DT_PAIRS DT_INLINE void multiply_block(words a, const uint32_t *b, int64_t n, int64_t depth,
    float *c, int64_t c_row, bool add, const lines *next, const int rows, const int vectors)
{
    const int64_t apart = a.apart * (int64_t)sizeof *b, step = a.step * (int64_t)sizeof *b;
    __m512 sum[8][4];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            sum[r][v] = add ? _mm512_loadu_ps(c + r * c_row + v * LANES) : _mm512_setzero_ps();
    for (int64_t k = 0; k < depth; k++, a.at += step, b += n) {
        __m512bh right[4];
        if (next != NULL)
            fetch(next, k);
        for (int v = 0; v < vectors; v++)
            right[v] = (__m512bh)_mm512_loadu_si512(b + v * LANES);
        for (int r = 0; r < rows; r++) {
            const __m512bh left = spread(a.at + r * apart);
            for (int v = 0; v < vectors; v++)
                sum[r][v] = _mm512_dpbf16_ps(sum[r][v], left, right[v]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            _mm512_storeu_ps(c + r * c_row + v * LANES, sum[r][v]);
}

/* @next: NULL, or what is asked for on the way, as far as there are words. */
DT_PAIRS static void multiply(words a, const uint32_t *b, int64_t n, int64_t depth, float *c,
    int64_t c_row, bool add, lines *next, int64_t rows)
{
    const int64_t row = a.apart * (int64_t)sizeof *b;
    for (; rows >= 8; rows -= 8, a.at += 8 * row, c += 8 * c_row) {
        int64_t i = 0;
        for (; i + 2 * LANES <= n; i += 2 * LANES) {
            multiply_block(a, b + i, n, depth, c + i, c_row, add, next, 8, 2);
            if (next != NULL)
                next->at += (uintptr_t)((depth >> next->lines) * next->row);
        }
        if (i < n)
            multiply_block(a, b + i, n, depth, c + i, c_row, add, NULL, 8, 1);
    }
    for (; rows > 0; rows--, a.at += row, c += c_row) {
        int64_t i = 0;
        for (; i + 4 * LANES <= n; i += 4 * LANES)
            multiply_block(a, b + i, n, depth, c + i, c_row, add, NULL, 1, 4);
        for (; i < n; i += LANES)
            multiply_block(a, b + i, n, depth, c + i, c_row, add, NULL, 1, 1);
    }
}

/* --- forward, and the gradient of x --- */

DT_PAIRS static void put_row(const float *sums, const float *bias, dt_bf16 *to, int64_t n)
{
    for (int64_t i = 0; i < n; i += LANES) {
        const __m512 b = bias == NULL ? _mm512_setzero_ps() : _mm512_loadu_ps(bias + i);
        const __m256bh v = _mm512_cvtneps_pbh(_mm512_add_ps(_mm512_loadu_ps(sums + i), b));
        memcpy(to + i, &v, sizeof v);
    }
}

/* Of the weight's part behind [values). */
static lines next_lines(const job *j, dti_span columns, dti_span values)
{
    const int64_t in = j->s->in;
    const int64_t row = j->transposed ? columns.begin : values.end;
    const int64_t column = j->transposed ? values.end : columns.begin;
    return (lines){(uintptr_t)(j->weight + row * in + column), in * (int64_t)sizeof *j->weight,
        j->transposed ? DEPTH_LINES : WIDE_LINES};
}

static void make_columns(const void *of, int64_t task)
{
    const job *j = of;
    const dti_span columns = dti_span_of(j->columns, j->width, task);
    const int64_t n = dti_span_count(columns);
    scratch *w = j->work + dt_team_member();
    for (int64_t first = 0; first < j->s->rows; first += MOST) {
        const int64_t rows = j->s->rows - first < MOST ? j->s->rows - first : MOST;
        for (int64_t k = 0; k < j->depth; k += DEPTH) {
            const dti_span values = {k, k + DEPTH < j->depth ? k + DEPTH : j->depth};
            const words a = {(const char *)(j->a + first * j->depth + k), j->depth / 2, 1};
            lines next = next_lines(j, columns, values);
            (j->transposed ? pack_transposed : pack_rows)(j, columns, values, w->right);
            multiply(a, w->right, n, dti_span_count(values) / 2, w->sums, n, k > 0, &next, rows);
        }
        for (int64_t r = 0; r < rows; r++)
            put_row(w->sums + r * n, j->bias == NULL ? NULL : j->bias + columns.begin,
                j->to + (first + r) * j->columns + columns.begin, n);
    }
}

/* --- gradients of weight and bias --- */

/* A block of the weight's gradient, of all rows. */
DT_PAIRS static void sum_block(
    const job *j, scratch *w, dti_span outputs, dti_span inputs, float *to, int64_t to_row)
{
    const words a = {(const char *)w->left, 1, dti_span_count(outputs)};
    for (int64_t first = 0; first < j->s->rows; first += DEPTH) {
        const dti_span rows = {first, first + DEPTH < j->s->rows ? first + DEPTH : j->s->rows};
        pack_samples(j->dy, j->s->out, outputs, rows, w->left);
        pack_samples(j->x, j->s->in, inputs, rows, w->right);
        multiply(a, w->right, dti_span_count(inputs), dti_ceil_div(dti_span_count(rows), 2), to,
            to_row, first > 0, NULL, dti_span_count(outputs));
    }
}

DT_PAIRS static void sum_bias(const job *j, dti_span outputs)
{
    for (int64_t o = outputs.begin; o < outputs.end; o += LANES) {
        __m512 sum = _mm512_setzero_ps();
        for (int64_t r = 0; r < j->s->rows; r++)
            sum = _mm512_add_ps(sum, dti_avx512_read(j->dy + r * j->s->out + o, DT_BF16));
        if ((j->add & 2) != 0)
            sum = _mm512_add_ps(_mm512_loadu_ps(j->dbias + o), sum);
        _mm512_storeu_ps(j->dbias + o, sum);
    }
}

DT_AVX512 static void add_rows(const float *sums, int64_t n, int64_t rows, float *to, int64_t row)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i += LANES) {
            float *at = to + r * row + i;
            _mm512_storeu_ps(
                at, _mm512_add_ps(_mm512_loadu_ps(at), _mm512_loadu_ps(sums + r * n + i)));
        }
}

static void make_gradient(const void *of, int64_t task)
{
    const job *j = of;
    const int64_t in = j->s->in, across = dti_ceil_div(in, WIDE);
    const dti_span outputs = dti_span_of(j->s->out, OUTPUTS, task / across);
    const dti_span inputs = dti_span_of(in, WIDE, task % across);
    scratch *w = j->work + dt_team_member();
    float *to = j->dweight + outputs.begin * in + inputs.begin;
    if (j->dbias != NULL && inputs.begin == 0)
        sum_bias(j, outputs);
    if ((j->add & 1) == 0) {
        sum_block(j, w, outputs, inputs, to, in);
        return;
    }
    sum_block(j, w, outputs, inputs, w->sums, dti_span_count(inputs));
    add_rows(w->sums, dti_span_count(inputs), dti_span_count(outputs), to, in);
}
#else
static void make_columns(const void *of, int64_t task)
{
    (void)of, (void)task;
}

static void make_gradient(const void *of, int64_t task)
{
    (void)of, (void)task;
}
#endif

/* --- calls --- */

void dti_few_rows_forward(const dti_few_rows *s, const void *x, const float *weight,
    const float *bias, void *y, void *work)
{
    const job j = {.s = s,
        .a = x,
        .weight = weight,
        .bias = bias,
        .to = y,
        .depth = s->in,
        .columns = s->out,
        .width = PANEL,
        .work = work,
        .transposed = true};
    dti_run_tasks(dti_ceil_div(s->out, PANEL), make_columns, &j);
}

void dti_few_rows_data(
    const dti_few_rows *s, const void *dy, const float *weight, void *dx, void *work)
{
    const job j = {.s = s,
        .a = dy,
        .weight = weight,
        .to = dx,
        .depth = s->out,
        .columns = s->in,
        .width = WIDE,
        .work = work};
    dti_run_tasks(dti_ceil_div(s->in, WIDE), make_columns, &j);
}

void dti_few_rows_gradient(const dti_few_rows *s, const void *x, const void *dy, float *dweight,
    float *dbias, unsigned add, void *work)
{
    const job j = {
        .s = s, .x = x, .dy = dy, .dweight = dweight, .dbias = dbias, .add = add, .work = work};
    dti_run_tasks(dti_ceil_div(s->out, OUTPUTS) * dti_ceil_div(s->in, WIDE), make_gradient, &j);
}
