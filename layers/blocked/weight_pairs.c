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
    const bool whole =
        w->columns > 0 && w->columns % LANES == 0 && w->out % w->columns == 0 && w->in % STEP == 0;
#if defined(__x86_64__)
    return whole && (w->hwio || w->taps == 1) && dti_lane_set() == DTI_LANES_BF16;
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
    int64_t blocks, groups; /* along the inputs */
};

/* Where the pairs of a block begin. */
static dt_bf16 *block_at(const struct job *j, int64_t panel, int64_t tap, int64_t block)
{
    return j->to + ((panel * j->w.taps + tap) * j->blocks + block) * STEP * j->w.columns;
}

/* From [taps][in][out]: a task reads STEP rows, each from end to end. */
DT_PAIRS static void put_rows(const void *job, int64_t task)
{
    const struct job *j = job;
    const int64_t out = j->w.out, tap = task / j->blocks, block = task % j->blocks;
    const float *from = j->from + (tap * j->w.in + block * STEP) * out;
    for (int64_t pair = 0; pair < LANES; pair++, from += 2 * out)
        for (int64_t panel = 0; panel < out / j->w.columns; panel++) {
            const float *x = from + panel * j->w.columns;
            dt_bf16 *to = block_at(j, panel, tap, block) + pair * 2 * j->w.columns;
            for (int64_t o = 0; o < j->w.columns; o += LANES)
                _mm512_storeu_si512(
                    to + 2 * o, dti_pairs_of(_mm512_loadu_ps(x + o), _mm512_loadu_ps(x + out + o)));
        }
}

/* From [out][in]: a task turns tiles of columns rows. */
DT_PAIRS static void put_columns(const void *job, int64_t task)
{
    const struct job *j = job;
    const int64_t in = j->w.in, panel = task / j->groups;
    const dti_span mine = dti_span_of(j->blocks, GROUP, task % j->groups);
    for (int64_t o = 0; o < j->w.columns; o += LANES)
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
}
#endif

void dti_weight_pairs_run(const dti_weight_pairs *w, const float *from, dt_bf16 *to)
{
#if defined(__x86_64__)
    struct job j = {.w = *w, .from = from, .to = to, .blocks = w->in / STEP};
    j.groups = dti_ceil_div(j.blocks, GROUP);
    if (w->hwio)
        dti_run_tasks(w->taps * j.blocks, put_rows, &j);
    else
        dti_run_tasks(w->out / w->columns * j.groups, put_columns, &j);
#else
    (void)w, (void)from, (void)to;
#endif
}
