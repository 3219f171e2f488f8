/* Meng, Sun, Yang, Qiu and Gu, Training Deeper Models by GPU Memory Optimization on TensorFlow (ML
 * Systems at NIPS 2017), its swap: a feature map that backward reads far behind the op that made it
 * waits on the host. The graph is rewritten, f -> out -> in -> b for a reader b of f, for all of
 * f's far readers, so that its bytes on the device are free when its near readers are done. Without
 * more, `in` would run as soon as `out` has; so it waits for a trigger, a backward op that stands a
 * bounded distance before b: nearer, b would wait for the copy; farther, the bytes would be back
 * too soon. Distances are levels of the graph; neither bytes a second nor seconds are looked at,
 * nor a budget.
 *
 *     threshold  a reader so many levels behind the op that made the value is near
 *     nearest    the trigger is at least so many levels before the reader
 *     farthest   and at most so many
 *     least      smaller values stay
 *
 * The trigger is on the longest path to the reader: the farthest of its backward ops within bounds.
 *
 * Its other half, an additive attention that makes the tanh of each pair of positions again, is
 * kind = efficient of the layer additive_attention.
 *
 * Ours differs:
 * - The order of the ops is fixed, so copies begin where the plan has them and never before.
 * - Where no backward op behind the gap's begin is within bounds, the value is not swapped.
 * - A value that is read again far behind its first far reader leaves and comes back for each; it
 *   is copied out again, where theirs has the host's copy still.
 * - Any value that forward leaves for backward is a feature map; the input is fetched again and not
 *   copied out.
 * - The defaults are ours: the paper names none. */
#include "engine/base/alloc.h"
#include "memory/policies/levels.h"
#include "memory/policy.h"

typedef struct options {
    int64_t threshold, nearest, farthest;
    uint64_t least;
} options;

#define AT(f) offsetof(options, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"threshold", DT_OPT_I64,   AT(threshold), "10",    0, 1e6, NULL, NULL, "swap values whose readers are more than this many levels after the op that made them"},
    {"nearest",   DT_OPT_I64,   AT(nearest),   "1",     1, 1e6, NULL, NULL, "fewest levels between the op that triggers a copy back and the reader"},
    {"farthest",  DT_OPT_I64,   AT(farthest),  "5",     1, 1e6, NULL, NULL, "most levels between the op that triggers a copy back and the reader"},
    {"least",     DT_OPT_BYTES, AT(least),     "64KiB", 0, 0,   NULL, NULL, "bytes of the smallest tensor that is swapped"},
    {NULL,        DT_OPT_I64,   0,             NULL,    0, 0,   NULL, NULL, NULL},
};
/* clang-format on */

/* The backward op farthest before the gap's reader, within bounds and behind where the gap begins;
 * DT_NONE: there is none. */
static int32_t trigger_of(
    const dt_program *p, const dti_levels *l, const dti_gap *g, const options *o)
{
    const int32_t loss = dt_pos(p, p->loss);
    const int32_t begin = g->from_pos > loss ? g->from_pos : loss;
    int32_t op = g->to;
    int64_t steps = 0;
    for (int32_t before = l->critical[op];
         steps < o->farthest && before != DT_NONE && dt_pos(p, before) > begin;
         before = l->critical[op]) {
        op = before;
        steps++;
    }
    return steps >= o->nearest ? op : DT_NONE;
}

/* Whether the value of a gap is a feature map, and its reader far and in backward. */
static bool is_far(const dt_program *p, const dti_levels *l, const dti_gap *g, const options *o)
{
    const int32_t loss = dt_pos(p, p->loss), made = dti_definition(p, g->tensor, g->from_pos);
    return dt_pos(p, made) <= loss && g->to_pos > loss && dti_levels_behind(l, p, g) > o->threshold;
}

static void find_swaps(
    const dt_program *p, const dti_levels *l, const options *o, dti_level_swap *swap, size_t *n)
{
    for (size_t t = 0; t < p->n_tensor; t++) {
        dti_gap g;
        if (!dti_may_free(&p->tensor[t], o->least))
            continue;
        for (int32_t i = 0; dti_gap_next(p, (int32_t)t, &i, &g);) {
            const int32_t trigger = is_far(p, l, &g, o) ? trigger_of(p, l, &g, o) : DT_NONE;
            if (trigger != DT_NONE)
                swap[(*n)++] = (dti_level_swap){.gap = g,
                    .release = DT_NONE,
                    .fetch = p->order[dt_pos(p, trigger) + 1],
                    .far = dti_levels_behind(l, p, &g),
                    .ahead = l->level[g.to] - l->level[trigger]};
        }
    }
}

static dt_status check(const options *o, dt_err *err)
{
    if (o->nearest > o->farthest)
        return DT_FAIL(err, DT_E_CONFIG,
            "[policy.meng] nearest = %lld is more than farthest = %lld, so that no trigger lies "
            "between; set farthest to that or more",
            (long long)o->nearest, (long long)o->farthest);
    return DT_OK;
}

static dt_status pass(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    const options *o = env->opts;
    dti_levels levels = {0};
    size_t n = 0;
    DT_CHECK(check(o, err));
    if (p->loss == DT_NONE)
        return DT_OK;
    DT_CHECK(dt_program_index(p, err));
    dt_status st = dti_levels_find(&levels, p, err);
    dti_level_swap *swap = st == DT_OK ? dti_level_swaps_room(p) : NULL;
    if (st == DT_OK && swap == NULL)
        st = dti_pass_no_memory(err);
    if (st == DT_OK) {
        find_swaps(p, &levels, o, swap, &n);
        st = dti_level_swaps_make(p, swap, n, err);
    }
    dti_levels_release(&levels);
    dt_free(swap);
    return st;
}

const dt_policy dt_policy_meng = {
    .name = "meng",
    .summary = "swap feature maps whose readers are many levels behind (Meng et al. 2017)",
    .exact = true,
    .opts = opts,
    .opts_bytes = sizeof(options),
    .pass = pass,
};
