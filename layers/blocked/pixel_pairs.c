/* Backward-data of 1 x 1 convolutions as a product over pixels, of pairs of bf16: two channels of
 * dy lie side by side as they are, and the weight's copy has its pairs likewise. */
#include "layers/blocked/pixel_pairs.h"

#include <inttypes.h>
#include <string.h>

#include "engine/base/numbers.h"
#include "layers/blocked/amx.h"
#include "layers/blocked/bf16.h"
#include "layers/blocked/pairs.h"
#include "layers/blocked/weight_pairs.h"
#include "layers/cpu/tasks.h"

/* A task has at most ROWS results, which stay in the second cache while panels of the weight pass
 * by; the sums of BLOCK results and a panel's channels are kept in registers. */
enum {
    LANES = 16,
    LINE = 32, /* values of a line of the cache */
    PANEL = 64,
    VECTORS = PANEL / LANES,
    BLOCK = 6,
    SOME = 2,
    ROWS = 16 * BLOCK
};

static dti_weight_pairs copy_of(const dti_pixels *s)
{
    return (dti_weight_pairs){.out = s->c, .in = s->out, .taps = 1, .columns = PANEL};
}

bool dti_pixel_pairs_accepts(const dti_pixels *s, dt_why *why)
{
    const dti_weight_pairs copy = copy_of(s);
    if (dti_amx_here())
        return dt_refuse(why, "the processor has AMX");
    if (!dt_bf16_pays())
        return dt_refuse(why, "there are no fast bf16 instructions to use");
    if (s->c % LANES != 0 || s->out % LINE != 0)
        return dt_refuse(why, "%" PRId64 " and %" PRId64 " channels, needs multiples of %d and %d",
            s->c, s->out, (int)LANES, (int)LINE);
    return dti_weight_pairs_can(&copy) || dt_refuse(why, "there is no AVX512_BF16 to use");
}

size_t dti_pixel_pairs_weight_bytes(const dti_pixels *s)
{
    return (size_t)(dti_ceil_div(s->c, PANEL) * PANEL * s->out) * sizeof(dt_bf16);
}

void dti_pixel_pairs_weight(const dti_pixels *s, const float *weight, dt_bf16 *copy)
{
    const dti_weight_pairs w = copy_of(s);
    dti_weight_pairs_run(&w, weight, copy);
}

#if defined(__x86_64__)
struct job {
    const dti_pixels *s;
    const dt_bf16 *dy, *weight;
    dt_bf16 *dx;
    int64_t rows, each; /* results in all, and of a task */
};

/* Results from @dy on, which go to @to[] of dx; @weight is of a panel. */
typedef struct some_rows {
    const dt_bf16 *dy;
    const int64_t *to;
    const dt_bf16 *weight;
    dt_bf16 *dx;
    int64_t out;
} some_rows;

static int pair_at(const dt_bf16 *p)
{
    int pair;
    memcpy(&pair, p, sizeof pair);
    return pair;
}

DT_PAIRS DT_INLINE void store(dt_bf16 *to, const __m512 *sum, const int vectors)
{
    int v = 0;
    for (; v + 2 <= vectors; v += 2)
        _mm512_storeu_si512(to + v * LANES, dti_pairs_rounded(sum[v], sum[v + 1]));
    if (v < vectors)
        _mm256_storeu_si256((void *)(to + v * LANES), (__m256i)_mm512_cvtneps_pbh(sum[v]));
}

/* Sums of as many results while lines of the next are fetched, and those that get the sums: rows
 * are too short for the processor to see what comes. */
DT_PAIRS DT_INLINE void multiply(const some_rows *s, const int rows, const int vectors)
{
    __m512 sum[BLOCK][VECTORS];
    const dt_bf16 *a = s->dy, *b = s->weight, *next = a + rows * s->out;
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            sum[r][v] = _mm512_setzero_ps();
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v += LINE / LANES)
            __builtin_prefetch(s->dx + s->to[r] + v * LANES, 1);
    for (const dt_bf16 *end = a + s->out; a < end; a += LINE, next += LINE) {
        for (int r = 0; r < rows; r++)
            __builtin_prefetch(next + r * s->out);
        for (int k = 0; k < LINE; k += 2, b += 2 * PANEL) {
            __m512bh right[VECTORS];
            for (int v = 0; v < vectors; v++)
                right[v] = (__m512bh)_mm512_loadu_si512(b + 2 * v * LANES);
            for (int r = 0; r < rows; r++) {
                const __m512bh left = (__m512bh)_mm512_set1_epi32(pair_at(a + r * s->out + k));
                for (int v = 0; v < vectors; v++)
                    sum[r][v] = _mm512_dpbf16_ps(sum[r][v], left, right[v]);
            }
        }
    }
    for (int r = 0; r < rows; r++)
        store(s->dx + s->to[r], sum[r], vectors);
}

DT_PAIRS DT_INLINE void multiply_all(some_rows s, int64_t n, const int vectors)
{
    for (; n >= BLOCK; n -= BLOCK, s.dy += BLOCK * s.out, s.to += BLOCK)
        multiply(&s, BLOCK, vectors);
    for (; n >= SOME; n -= SOME, s.dy += SOME * s.out, s.to += SOME)
        multiply(&s, SOME, vectors);
    if (n > 0)
        multiply(&s, 1, vectors);
}

DT_PAIRS static void multiply_1(const some_rows *s, int64_t n)
{
    multiply_all(*s, n, 1);
}

DT_PAIRS static void multiply_2(const some_rows *s, int64_t n)
{
    multiply_all(*s, n, 2);
}

DT_PAIRS static void multiply_3(const some_rows *s, int64_t n)
{
    multiply_all(*s, n, 3);
}

DT_PAIRS static void multiply_4(const some_rows *s, int64_t n)
{
    multiply_all(*s, n, 4);
}

static void run_rows(const void *job, int64_t i)
{
    typedef void multiply_fn(const some_rows *s, int64_t n);
    static multiply_fn *const of_vectors[VECTORS] = {
        multiply_1, multiply_2, multiply_3, multiply_4};
    const struct job *j = job;
    const dti_pixels *s = j->s;
    const dti_span of = dti_span_of(j->rows, j->each, i);
    const int64_t n = dti_span_count(of);
    int64_t to[ROWS];
    for (int64_t r = 0; r < n; r++)
        to[r] = dti_pixel_at(s, of.begin + r);
    for (int64_t at = 0; at < s->c; at += PANEL) {
        const some_rows rows = {
            j->dy + of.begin * s->out, to, j->weight + at * s->out, j->dx + at, s->out};
        of_vectors[dt_min_i64(s->c - at, PANEL) / LANES - 1](&rows, n);
    }
}
#endif

void dti_pixel_pairs_run(const dti_pixels *s, const dt_bf16 *dy, const dt_bf16 *weight, dt_bf16 *dx)
{
#if defined(__x86_64__)
    struct job j = {s, dy, weight, dx, s->n * s->p * s->q, 0};
    const int64_t tasks = 2 * dti_ceil_div(j.rows, 2 * ROWS); /* an even number, alike in size */
    j.each = dti_ceil_div(dti_ceil_div(j.rows, tasks), BLOCK) * BLOCK;
    if (s->stride != 1)
        dti_pixels_clear(s, dx, sizeof *dx);
    dti_run_tasks(dti_ceil_div(j.rows, j.each), run_rows, &j);
#else
    (void)s, (void)dy, (void)weight, (void)dx;
#endif
}
