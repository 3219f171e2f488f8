/* Weights as pairs of bf16. */
#include "layers/blocked/weight_pairs.h"

#include "layers/blocked/pairs.h"
#include "layers/cpu/lanes.h"
#include "layers/cpu/tasks.h"

enum {
    LANES = 16,
    STEP = 2 * LANES, /* inputs of a block */
    GROUP = 8         /* blocks of a task, where a row of the weight is long */
};

bool dti_weight_pairs_can(const dti_weight_pairs *w)
{
    const bool columns = w->transposed || (w->columns > 0 && w->columns % LANES == 0);
    const bool whole = columns && w->out % LANES == 0 && w->in % STEP == 0;
#if defined(__x86_64__)
    const bool from = w->transposed ? w->hwio && w->taps == 1 : w->hwio || w->taps == 1;
    return whole && from && dti_lane_set() == DTI_LANES_BF16;
#else
    (void)whole;
    return false;
#endif
}

#if defined(__x86_64__)
struct job {
    dti_weight_pairs w;
    const float *from;
    dt_bf16 *to;
    int64_t panels, blocks, groups; /* of columns; of inputs, and of those */
};

/* Where the pairs of a block begin. */
static dt_bf16 *block_at(const struct job *j, int64_t panel, int64_t tap, int64_t block)
{
    return j->to + ((panel * j->w.taps + tap) * j->blocks + block) * STEP * j->w.columns;
}

/* Columns that there are in a panel. */
static int64_t filled(const struct job *j, int64_t panel)
{
    const int64_t left = j->w.out - panel * j->w.columns;
    return left < j->w.columns ? left : j->w.columns;
}

/* Zeros in the columns from @o on, of each pair of a block. */
DT_PAIRS static void pad(const struct job *j, dt_bf16 *block, int64_t o)
{
    for (; o < j->w.columns; o += LANES)
        for (int pair = 0; pair < LANES; pair++)
            _mm512_storeu_si512(block + (pair * j->w.columns + o) * 2, _mm512_setzero_si512());
}

/* From [taps][in][out]: a task reads STEP rows, each from end to end. */
DT_PAIRS static void put_rows(const void *job, int64_t task)
{
    const struct job *j = job;
    const int64_t out = j->w.out, tap = task / j->blocks, block = task % j->blocks;
    const float *from = j->from + (tap * j->w.in + block * STEP) * out;
    for (int64_t pair = 0; pair < LANES; pair++, from += 2 * out)
        for (int64_t panel = 0; panel < j->panels; panel++) {
            const float *x = from + panel * j->w.columns;
            dt_bf16 *to = block_at(j, panel, tap, block) + pair * 2 * j->w.columns;
            const int64_t columns = filled(j, panel);
            for (int64_t o = 0; o < columns; o += LANES)
                _mm512_storeu_si512(
                    to + 2 * o, dti_pairs_of(_mm512_loadu_ps(x + o), _mm512_loadu_ps(x + out + o)));
        }
    pad(j, block_at(j, j->panels - 1, tap, block), filled(j, j->panels - 1));
}

/* From [out][in]: a task turns tiles of columns rows. */
DT_PAIRS static void put_columns(const void *job, int64_t task)
{
    const struct job *j = job;
    const int64_t in = j->w.in, panel = task / j->groups;
    const dti_span mine = dti_span_of(j->blocks, GROUP, task % j->groups);
    const int64_t columns = filled(j, panel);
    for (int64_t o = 0; o < columns; o += LANES)
        for (int64_t block = mine.begin; block < mine.end; block++) {
            const float *from = j->from + (panel * j->w.columns + o) * in + block * STEP;
            dt_bf16 *to = block_at(j, panel, 0, block) + 2 * o;
            __m512i v[LANES];
            for (int r = 0; r < LANES; r++)
                v[r] = dti_pairs_rounded(
                    _mm512_loadu_ps(from + r * in), _mm512_loadu_ps(from + r * in + LANES));
            dti_pairs_transpose(v);
            for (int pair = 0; pair < LANES; pair++)
                _mm512_storeu_si512(to + pair * 2 * j->w.columns, v[pair]);
        }
    for (int64_t block = mine.begin; block < mine.end; block++)
        pad(j, block_at(j, panel, 0, block), columns);
}

/* From [in][out]: a task turns tiles of STEP rows, from end to end. */
DT_PAIRS static void transpose_rows(const void *job, int64_t block)
{
    const struct job *j = job;
    const int64_t out = j->w.out, in = j->w.in;
    const float *from = j->from + block * STEP * out;
    dt_bf16 *to = j->to + block * STEP;
    for (int64_t o = 0; o < out; o += LANES) {
        __m512i low[LANES], high[LANES];
        for (int r = 0; r < LANES; r++) {
            low[r] = _mm512_loadu_si512(from + r * out + o);
            high[r] = _mm512_loadu_si512(from + (LANES + r) * out + o);
        }
        dti_pairs_transpose(low);
        dti_pairs_transpose(high);
        for (int r = 0; r < LANES; r++)
            _mm512_storeu_si512(to + (o + r) * in,
                dti_pairs_rounded(_mm512_castsi512_ps(low[r]), _mm512_castsi512_ps(high[r])));
    }
}
#endif

void dti_weight_pairs_run(const dti_weight_pairs *w, const float *from, dt_bf16 *to)
{
#if defined(__x86_64__)
    struct job j = {.w = *w, .from = from, .to = to, .blocks = w->in / STEP};
    j.groups = dti_ceil_div(j.blocks, GROUP);
    j.panels = w->transposed ? 0 : dti_ceil_div(w->out, w->columns);
    if (w->transposed)
        dti_run_tasks(j.blocks, transpose_rows, &j);
    else if (w->hwio)
        dti_run_tasks(w->taps * j.blocks, put_rows, &j);
    else
        dti_run_tasks(j.panels * j.groups, put_columns, &j);
#else
    (void)w, (void)from, (void)to;
#endif
}
