/* The gradient of a weight as a product: what a task multiplies is packed into panels first. */
#include "layers/blocked/implicit_gemm.h"

#include <inttypes.h>
#include <omp.h>
#include <string.h>

#include "layers/blocked/amx.h"
#include "layers/blocked/bf16.h"
#include "layers/blocked/pairs.h"
#include "layers/cpu/lanes.h"
#include "layers/cpu/tasks.h"

/* A word is what factors are multiplied by at once: a value of fp32, or a pair of bf16 of two
 * results, side by side; where that does not pay, values of bf16 are widened to fp32. A task has a
 * block of one tap's matrix, ROWS channels of x by COLUMNS of dy or fewer, and packs some results
 * or pairs of them at a time: a panel of columns and a STRIP of rows fit the first cache, all of
 * them the second. Where there are fewer than TASKS blocks, each is made in parts of the results,
 * added up in order. With AVX2 panels are as wide as its registers hold sums of six rows, and twice
 * as long. */
enum { STRIP = 16, ROWS = 128, COLUMNS = 256, WORDS = 64, DEPTH = 2 * WORDS, TASKS = 16 };

/* In fp32 with AVX-512 the library is as fast but for strided kernels and many results. Of bf16 it
 * multiplies pairs alone. */
bool dti_implicit_gemm_accepts(const dti_weight_gradient *g, dt_why *why)
{
    enum { MANY_RESULTS = 28 * 28 };
    if (dti_lane_set() < DTI_LANES_AVX2)
        return dt_refuse(why, "there is no AVX2 to use");
    if (g->bf16 && dti_amx_here())
        return dt_refuse(why, "the processor has AMX");
    if (!g->bf16 && dti_lane_set() > DTI_LANES_AVX2 && g->kernel == 1 && g->p * g->q < MANY_RESULTS)
        return dt_refuse(why, "kernel 1 in fp32: the library is as fast");
    if (g->kernel != 1 && g->stride == 1)
        return dt_refuse(why, "kernel %" PRId64 " and stride 1: others are as fast", g->kernel);
    if (g->c % STRIP != 0 || g->out % STRIP != 0)
        return dt_refuse(why, "%" PRId64 " channels, needs a multiple of %d",
            g->c % STRIP != 0 ? g->c : g->out, (int)STRIP);
    return true;
}

/* --- blocks --- */

/* @rows @columns: of a block; @down: blocks of a tap; @across; @parts of @each results
 * @sums @left @right: of a block's sums, and words that are packed, @words of a row or a column,
 * and of @panel columns side by side */
typedef struct cut {
    int64_t rows, columns, down, across, parts, each;
    int64_t sums, left, right, words, panel;
} cut;

static int64_t whole(int64_t n, int64_t of)
{
    return dti_ceil_div(n, of) * of;
}

/* Of so many as are needed, alike in size. */
static int64_t alike(int64_t n, int64_t most)
{
    return whole(dti_ceil_div(n, dti_ceil_div(n, most)), STRIP);
}

static int64_t results(const dti_weight_gradient *g)
{
    return g->n * g->p * g->q;
}

static int64_t blocks(const dti_weight_gradient *g, const cut *k)
{
    return g->kernel * g->kernel * k->down * k->across;
}

static cut cut_of(const dti_weight_gradient *g)
{
    const bool avx2 = dti_lane_set() < DTI_LANES_AVX512;
    cut k = {.rows = alike(g->c, ROWS),
        .columns = alike(g->out, COLUMNS),
        .words = avx2 ? 2 * WORDS : WORDS,
        .panel = avx2 ? 16 : 64};
    k.down = dti_ceil_div(g->c, k.rows);
    k.across = dti_ceil_div(g->out, k.columns);
    const int64_t parts = blocks(g, &k) < TASKS ? dti_ceil_div(TASKS, blocks(g, &k)) : 1;
    k.each = whole(dti_ceil_div(results(g), parts), DEPTH);
    k.parts = dti_ceil_div(results(g), k.each);
    k.sums = k.rows * k.columns;
    k.left = k.words * k.rows;
    k.right = k.words * k.columns;
    return k;
}

/* Sums of all parts, or of a thread's block; and what a thread has packed. */
static int64_t sums_floats(const dti_weight_gradient *g, const cut *k)
{
    return (k->parts > 1 ? k->parts * blocks(g, k) : omp_get_max_threads()) * k->sums;
}

size_t dti_implicit_gemm_work(const dti_weight_gradient *g)
{
    const cut k = cut_of(g);
    const int64_t packed = omp_get_max_threads() * (k.left + k.right);
    return (size_t)sums_floats(g, &k) * sizeof(float) + (size_t)packed * sizeof(uint32_t);
}

struct job {
    const dti_weight_gradient *g;
    cut k;
    const char *x, *dy;
    float *dw, *sums;
    uint32_t *packed;
    bool add, pairs;
};

/* What a task makes: channels of x that a tap reads, those of dy, and results. Of the results that
 * are packed next, @next says which pixel each reads. */
typedef struct part {
    int64_t tap;
    dti_span rows, columns, results;
    uint32_t *left, *right;
    float *sums;
    int64_t next[DEPTH];
} part;

/* Results that are packed at once. */
static int64_t depth_of(const struct job *j)
{
    return j->pairs ? 2 * j->k.words : j->k.words;
}

static dti_span some_of(const struct job *j, const part *w, int64_t first)
{
    const int64_t depth = depth_of(j);
    return (dti_span){first, w->results.end - first < depth ? w->results.end : first + depth};
}

/* --- rows of x and dy --- */

/* The pixels that the tap reads for results @some; -1 outside of the image, and behind them. */
static void find_pixels(const dti_weight_gradient *g, int64_t tap, dti_span some, int64_t at[DEPTH])
{
    int64_t n = some.begin / g->q / g->p, p = some.begin / g->q % g->p, q = some.begin % g->q;
    const int64_t row = tap / g->kernel - g->pad, column = tap % g->kernel - g->pad;
    for (int64_t i = 0; i < DEPTH; i++) {
        const int64_t r = p * g->stride + row, c = q * g->stride + column;
        const bool in = i < dti_span_count(some) && r >= 0 && r < g->h && c >= 0 && c < g->w;
        at[i] = in ? (n * g->h + r) * g->w + c : -1;
        if (++q == g->q) {
            q = 0;
            if (++p == g->p) {
                p = 0;
                n++;
            }
        }
    }
}

static int64_t value_bytes(const dti_weight_gradient *g)
{
    return g->bf16 ? sizeof(dt_bf16) : sizeof(float);
}

/* Channels of pixel @pixel of x, and of result @i of dy; NULL: all are 0. */
static const void *x_row(const struct job *j, const part *w, int64_t pixel)
{
    return pixel < 0 ? NULL : j->x + (pixel * j->g->c + w->rows.begin) * value_bytes(j->g);
}

static const void *dy_row(const struct job *j, const part *w, int64_t i)
{
    return i >= w->results.end ? NULL
                               : j->dy + (i * j->g->out + w->columns.begin) * value_bytes(j->g);
}

static int64_t panel_width(const struct job *j, const part *w, int64_t at)
{
    return dti_span_count(w->columns) - at < j->k.panel ? dti_span_count(w->columns) - at
                                                        : j->k.panel;
}

/* What is fetched while a strip is multiplied by a panel, FETCHED lines with a word: memory takes
 * as long as a third of the sums, where they wait for it. */
enum { BLOCKS = 3, MOST = BLOCKS * WORDS, LINE = 64, FETCHED = 4 };
typedef struct lines {
    int n;
    const char *at[MOST];
} lines;

static void add_lines(lines *l, const char *row, int64_t bytes)
{
    for (int64_t i = 0; row != NULL && i < bytes && l->n < MOST; i += FETCHED * LINE)
        l->at[l->n++] = row + i;
}

/* Share @i of @of of the results that are packed next, from result @first on. */
static void find_lines(
    const struct job *j, const part *w, int64_t first, int64_t i, int64_t of, lines *l)
{
    const int64_t depth = depth_of(j), bytes = value_bytes(j->g);
    l->n = 0;
    for (int64_t k = depth * i / of; k < depth * (i + 1) / of; k++) {
        add_lines(l, x_row(j, w, w->next[k]), dti_span_count(w->rows) * bytes);
        add_lines(l, dy_row(j, w, first + k), dti_span_count(w->columns) * bytes);
    }
}

#if defined(__x86_64__)
/* --- of fp32 --- */

/* n values, 16 after 16, @apart from each other; NULL: zeros. */
DT_INLINE void copy_row(const float *from, int64_t n, uint32_t *to, int64_t apart)
{
    for (int64_t i = 0; i < n; i += STRIP, to += apart)
        if (from != NULL)
            memcpy(to, from + i, STRIP * sizeof *to);
        else
            memset(to, 0, STRIP * sizeof *to);
}

/* The same of bf16. */
DT_INLINE void widen_row(const dt_bf16 *from, int64_t n, uint32_t *to, int64_t apart)
{
    for (int64_t i = 0; i < n; i += STRIP, to += apart)
        if (from != NULL)
#pragma omp simd
            for (int k = 0; k < STRIP; k++)
                to[k] = (uint32_t)from[i + k] << 16;
        else
            memset(to, 0, STRIP * sizeof *to);
}

DT_INLINE void pack_row(const void *from, bool bf16, int64_t n, uint32_t *to, int64_t apart)
{
    if (bf16)
        widen_row(from, n, to, apart);
    else
        copy_row(from, n, to, apart);
}

DT_CLONES static void pack(const struct job *j, const part *w, dti_span some)
{
    const bool bf16 = j->g->bf16;
    for (int64_t i = 0; i < dti_span_count(some); i++) {
        const char *dy = dy_row(j, w, some.begin + i);
        pack_row(x_row(j, w, w->next[i]), bf16, dti_span_count(w->rows), w->left + i * STRIP,
            j->k.words * STRIP);
        for (int64_t at = 0; at < dti_span_count(w->columns); at += j->k.panel) {
            const int64_t width = panel_width(j, w, at);
            pack_row(dy + at * value_bytes(j->g), bf16, width,
                w->right + at * j->k.words + i * width, STRIP);
        }
    }
}

#define TARGET DT_AVX512
#define NAME(f) f##_avx512
#define SUMS __m512
#define LANES 16
#define VECTORS 4
#define ZERO _mm512_setzero_ps()
#define LOAD_SUMS _mm512_loadu_ps
#define STORE_SUMS _mm512_storeu_ps
#define FACTORS __m512
#define LOAD _mm512_loadu_ps
#define SPREAD(word) _mm512_castsi512_ps(_mm512_set1_epi32((int)(word)))
#define ADD(sum, a, b) _mm512_fmadd_ps(a, b, sum)
#include "layers/blocked/implicit_gemm_kernel.inc"

#define TARGET __attribute__((target("avx2,fma")))
#define NAME(f) f##_avx2
#define SUMS __m256
#define LANES 8
#define VECTORS 2
#define ZERO _mm256_setzero_ps()
#define LOAD_SUMS _mm256_loadu_ps
#define STORE_SUMS _mm256_storeu_ps
#define FACTORS __m256
#define LOAD(p) _mm256_loadu_ps((const float *)(p))
#define SPREAD(word) _mm256_castsi256_ps(_mm256_set1_epi32((int)(word)))
#define ADD(sum, a, b) _mm256_fmadd_ps(a, b, sum)
#include "layers/blocked/implicit_gemm_kernel.inc"

static void multiply_fp32(const uint32_t *a, const uint32_t *b, int64_t n, int64_t words, float *c,
    bool add, const lines *l)
{
    (dti_lane_set() < DTI_LANES_AVX512 ? multiply_avx2 : multiply_avx512)(
        a, b, n, words, c, add, l);
}

/* --- of pairs of bf16 --- */

DT_PAIRS DT_INLINE __m512i load_some(const dt_bf16 *p, int64_t at, bool all)
{
    if (p == NULL)
        return _mm512_setzero_si512();
    return all ? _mm512_loadu_si512(p + at)
               : _mm512_zextsi256_si512(_mm256_loadu_si256((const void *)(p + at)));
}

/* n channels of two results, 16 pairs after 16, @apart from each other; NULL: zeros. */
DT_PAIRS static void pair_rows(
    const dt_bf16 *even, const dt_bf16 *odd, int64_t n, uint32_t *to, int64_t apart)
{
    for (int64_t i = 0; i < n; i += 2 * STRIP, to += 2 * apart) {
        const bool all = i + STRIP < n;
        __m512i words[2];
        dti_pairs_join(load_some(even, i, all), load_some(odd, i, all), words);
        _mm512_storeu_si512(to, words[0]);
        if (all)
            _mm512_storeu_si512(to + apart, words[1]);
    }
}

static void pack_pairs(const struct job *j, const part *w, dti_span some)
{
    uint32_t *left = w->left;
    for (int64_t i = 0; i < dti_span_count(some); i += 2, left += STRIP) {
        const dt_bf16 *even = dy_row(j, w, some.begin + i), *odd = dy_row(j, w, some.begin + i + 1);
        pair_rows(x_row(j, w, w->next[i]), x_row(j, w, w->next[i + 1]), dti_span_count(w->rows),
            left, WORDS * STRIP);
        for (int64_t at = 0; at < dti_span_count(w->columns); at += j->k.panel) {
            const int64_t width = panel_width(j, w, at);
            pair_rows(even + at, odd == NULL ? NULL : odd + at, width,
                w->right + at * WORDS + i / 2 * width, STRIP);
        }
    }
}

#define TARGET DT_PAIRS
#define NAME(f) f##_bf16
#define SUMS __m512
#define LANES 16
#define VECTORS 4
#define ZERO _mm512_setzero_ps()
#define LOAD_SUMS _mm512_loadu_ps
#define STORE_SUMS _mm512_storeu_ps
#define FACTORS __m512bh
#define LOAD(p) ((__m512bh)_mm512_loadu_si512(p))
#define SPREAD(word) ((__m512bh)_mm512_set1_epi32((int)(word)))
#define ADD _mm512_dpbf16_ps
#include "layers/blocked/implicit_gemm_kernel.inc"
#else
static void pack(const struct job *j, const part *w, dti_span some)
{
    (void)j, (void)w, (void)some;
}

static void multiply_fp32(const uint32_t *a, const uint32_t *b, int64_t n, int64_t words, float *c,
    bool add, const lines *l)
{
    (void)a, (void)b, (void)n, (void)words, (void)c, (void)add, (void)l;
}
#define pack_pairs pack
#define multiply_bf16 multiply_fp32
#endif

/* --- tasks --- */

/* What is packed of results @some, to the sums. */
static void add_packed(const struct job *j, const part *w, dti_span some, bool add)
{
    const int64_t strips = dti_span_count(w->rows) / STRIP;
    const int64_t panels = dti_ceil_div(dti_span_count(w->columns), j->k.panel);
    const int64_t words = j->pairs ? dti_ceil_div(dti_span_count(some), 2) : dti_span_count(some);
    lines next;
    for (int64_t i = 0; i < panels * strips; i++) {
        const int64_t at = i / strips * j->k.panel, strip = i % strips, n = panel_width(j, w, at);
        find_lines(j, w, some.end, i, panels * strips, &next);
        (j->pairs ? multiply_bf16 : multiply_fp32)(w->left + strip * j->k.words * STRIP,
            w->right + at * j->k.words, n, words,
            w->sums + at * dti_span_count(w->rows) + strip * STRIP * n, add, &next);
    }
}

/* The sums of a block over @w's results; panel by panel. */
static void add_results(const struct job *j, part *w)
{
    find_pixels(j->g, w->tap, some_of(j, w, w->results.begin), w->next);
    for (int64_t at = w->results.begin; at < w->results.end; at += depth_of(j)) {
        const dti_span some = some_of(j, w, at);
        (j->pairs ? pack_pairs : pack)(j, w, some);
        find_pixels(j->g, w->tap, some_of(j, w, some.end), w->next);
        add_packed(j, w, some, at > w->results.begin);
    }
}

/* A block's sums to where they belong. */
DT_CLONES static void give(const struct job *j, const part *w)
{
    const dti_weight_gradient *g = j->g;
    const int64_t n = dti_span_count(w->columns);
    const float *from = w->sums;
    for (int64_t at = 0; at < n; at += j->k.panel) {
        const int64_t width = panel_width(j, w, at);
        for (int64_t r = w->rows.begin; r < w->rows.end; r++, from += width) {
            float *to = j->dw + (w->tap * g->c + r) * g->out + w->columns.begin + at;
            for (int64_t i = 0; i < width; i++)
                to[i] = j->add ? to[i] + from[i] : from[i];
        }
    }
}

static part part_of(const struct job *j, int64_t block, int64_t number)
{
    const dti_weight_gradient *g = j->g;
    const cut *k = &j->k;
    return (part){.tap = block / k->across / k->down,
        .rows = dti_span_of(g->c, k->rows, block / k->across % k->down),
        .columns = dti_span_of(g->out, k->columns, block % k->across),
        .results = dti_span_of(results(g), k->each, number)};
}

static void sum_part(const void *job, int64_t i)
{
    const struct job *j = job;
    const cut *k = &j->k;
    part w = part_of(j, i / k->parts, i % k->parts);
    w.left = j->packed + dt_team_member() * (k->left + k->right);
    w.right = w.left + k->left;
    w.sums = j->sums + (k->parts > 1 ? i : dt_team_member()) * k->sums;
    add_results(j, &w);
    if (k->parts == 1)
        give(j, &w);
}

/* Adds up the parts of a block. */
DT_CLONES static void join_parts(const void *job, int64_t block)
{
    const struct job *j = job;
    part w = part_of(j, block, 0);
    const int64_t n = dti_span_count(w.rows) * dti_span_count(w.columns);
    w.sums = j->sums + block * j->k.parts * j->k.sums;
    for (int64_t p = 1; p < j->k.parts; p++) {
        const float *more = w.sums + p * j->k.sums;
        for (int64_t i = 0; i < n; i++)
            w.sums[i] += more[i];
    }
    give(j, &w);
}

void dti_implicit_gemm_run(
    const dti_weight_gradient *g, const void *x, const void *dy, float *dw, bool add, void *work)
{
    struct job j = {.g = g, .k = cut_of(g), .x = x, .dy = dy, .dw = dw, .sums = work, .add = add};
    j.packed = (uint32_t *)(j.sums + sums_floats(g, &j.k));
    j.pairs = g->bf16 && dt_bf16_pays();
    dti_run_tasks(j.k.parts * blocks(g, &j.k), sum_part, &j);
    if (j.k.parts > 1)
        dti_run_tasks(blocks(g, &j.k), join_parts, &j);
}
