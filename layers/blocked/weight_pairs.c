/* Weights as pairs of bf16. */
#include "layers/blocked/weight_pairs.h"

#include "layers/blocked/amx.h"
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
#ifdef DT_AMX
    return whole && (w->hwio || w->taps == 1) && dti_lane_set() == DTI_LANES_BF16;
#else
    (void)whole;
    return false;
#endif
}

#ifdef DT_AMX
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
DT_AVX512_BF16 static void put_rows(const void *job, int64_t task)
{
    static const _Alignas(64) uint16_t order[STEP] = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6,
        22, 7, 23, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const struct job *j = job;
    const int64_t out = j->w.out, tap = task / j->blocks, block = task % j->blocks;
    const float *from = j->from + (tap * j->w.in + block * STEP) * out;
    const __m512i side_by_side = _mm512_load_si512(order);
    for (int64_t pair = 0; pair < LANES; pair++, from += 2 * out)
        for (int64_t panel = 0; panel < out / j->w.columns; panel++) {
            const float *x = from + panel * j->w.columns;
            dt_bf16 *to = block_at(j, panel, tap, block) + pair * 2 * j->w.columns;
            for (int64_t o = 0; o < j->w.columns; o += LANES) {
                const __m512bh both =
                    _mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + out + o), _mm512_loadu_ps(x + o));
                _mm512_storeu_si512(
                    to + 2 * o, _mm512_permutexvar_epi16(side_by_side, (__m512i)both));
            }
        }
}

/* From [out][in]: a task turns tiles of columns rows. */
DT_AVX512_BF16 static void put_columns(const void *job, int64_t task)
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
                v[r] = (__m512i)_mm512_cvtne2ps_pbh(
                    _mm512_loadu_ps(from + r * in + LANES), _mm512_loadu_ps(from + r * in));
            dti_amx_transpose(v);
            for (int pair = 0; pair < LANES; pair++)
                _mm512_storeu_si512(to + pair * 2 * j->w.columns, v[pair]);
        }
}
#endif

void dti_weight_pairs_run(const dti_weight_pairs *w, const float *from, dt_bf16 *to)
{
#ifdef DT_AMX
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
