/* TFLMS (Le et al., TFLMS: Large Model Support in TensorFlow by Graph Rewriting, arXiv:1807.02037,
 * and its second version, ISMM 2019), after Meng et al. (Training Deeper Models by GPU Memory
 * Optimization on TensorFlow, ML Systems at NIPS 2017): a value is swapped where its reader is far
 * behind, and comes back as soon as a given op, its trigger, is done. Far and near are levels of
 * the graph, that is ops on the longest path; neither bytes a second nor seconds are looked at.
 *
 *     threshold  a reader so many levels behind the op that made the value is near
 *     ahead      the trigger is an op on the reader's longest path, one level more before it than
 *                that
 *     groupby    readers whose levels differ by no more than that share one swap
 *     sync       ops wait for copies out (1), in (2), both (3), or for neither beforehand (0)
 *
 * What is not given is found by trials: the largest threshold with which a plan fits, each larger
 * sync where none does, then the largest ahead, then the largest groupby. Without a budget, or when
 * nothing fits, the plan is that of the fewest bytes: the smallest of the distances, and sync = 3.
 *
 * Ours differs:
 * - The order of the ops is fixed, so copies begin where the plan has them and never before.
 * - Where no trigger lies behind the gap's begin, the value is not swapped. The authors copy it
 *   back right before its reader then, so that the largest ahead, which they search for, is none
 *   at all.
 * - A trial is the most that is alive at any time by the program's own lives; the authors simulate
 *   levels and leave a tenth of the memory free. Ours places what it takes, and where that is above
 *   the budget, tries lower limits; of those whose plans fit, it takes the fastest.
 * - What is read again after a swap and swapped again is copied out again.
 * - The input is not copied out, but fetched again. */
#include "engine/base/alloc.h"
#include "memory/gap/least.h"
#include "memory/memo.h"
#include "memory/policies/levels.h"
#include "memory/policy.h"
#include "memory/remat/aim.h"

enum { DELAY = 3 }; /* levels after which a copy out is taken to be done */

typedef struct options {
    int64_t threshold, ahead, groupby, sync;
    uint64_t budget, least;
} options;

#define AT(f) offsetof(options, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"threshold", DT_OPT_I64,   AT(threshold), "-1", -1, 1e6, NULL, NULL, "swap values whose readers are more than this many levels after the op that made them; -1: the most that fits"},
    {"ahead",     DT_OPT_I64,   AT(ahead),     "-1", -1, 1e6, NULL, NULL, "levels before its reader at which a value is fetched; -1: the most that fits"},
    {"groupby",   DT_OPT_I64,   AT(groupby),   "-1", -1, 1e6, NULL, NULL, "readers within this many levels of each other share one swap; -1: the most that fits"},
    {"sync",      DT_OPT_I64,   AT(sync),      "-1", -1, 3,   NULL, NULL, "copies that ops wait for; 0: none, 1: out, 2: back, 3: both; -1: as few as fit"},
    {"budget",    DT_OPT_BYTES, AT(budget),    "0",  0,  0,   NULL, NULL, "most device memory to use; 0: memory.device_budget. Without a budget all is swapped that can be"},
    {"least",     DT_OPT_BYTES, AT(least),     "64KiB", 0, 0, NULL, NULL, "bytes of the smallest tensor that is swapped"},
    {NULL,        DT_OPT_I64,   0,             NULL, 0,  0,   NULL, NULL, NULL},
};
/* clang-format on */

enum { OUT_WAITS = 1, IN_WAITS = 2, ROUNDS = 4 };

typedef struct setting {
    int64_t threshold, ahead, groupby, sync;
} setting;

/* @bounds: bytes that swaps were found to take at least, as most settings swap what another does;
 * @limit: of a trial; @best: what is taken, with what comes of it, if one was @found */
typedef struct tflms {
    dt_program *p;
    const dt_pass_env *env;
    const options *o;
    uint64_t budget, limit;
    dti_levels levels;
    dti_load_curve curve;
    dti_least least;
    dti_level_swap *swap;
    size_t n_swap;
    dt_memo *bounds;
    setting best;
    dti_pass_cost cost;
    bool found;
} tflms;

/* ---- swaps of a setting ---- */

/* The place behind the trigger of a gap's reader, or where the gap begins. */
static int32_t fetch_place(const tflms *x, const dti_gap *g, const setting *s)
{
    if ((s->sync & IN_WAITS) != 0)
        return g->to_pos;
    const int32_t op = dti_levels_back(&x->levels, x->p, g->to, s->ahead + 1, g->from_pos);
    const int32_t trigger = op != DT_NONE ? dt_pos(x->p, op) : g->from_pos;
    return (trigger > g->from_pos ? trigger : g->from_pos) + 1;
}

/* The place of the op behind which the bytes are given back. */
static int32_t release_place(const tflms *x, const dti_gap *g, const setting *s)
{
    const int32_t done = x->levels.level[g->from] + DELAY;
    return (s->sync & OUT_WAITS) != 0
               ? g->from_pos
               : dti_levels_reach(&x->levels, x->p, g->from_pos, done, g->to_pos);
}

/* Whether there is time for it. */
static bool add(tflms *x, const dti_gap *g, const setting *s, int far)
{
    const int32_t release = release_place(x, g, s), fetch = fetch_place(x, g, s);
    if (fetch <= release + 1)
        return false;
    x->swap[x->n_swap++] = (dti_level_swap){.gap = *g,
        .release = x->p->order[release],
        .fetch = x->p->order[fetch],
        .far = far,
        .ahead = (int)(x->levels.level[g->to] - x->levels.level[x->p->order[fetch - 1]])};
    return true;
}

static void find_swaps(tflms *x, const setting *s)
{
    const dt_program *p = x->p;
    x->n_swap = 0;
    for (size_t t = 0; t < p->n_tensor; t++) {
        int64_t group = INT64_MIN / 2;
        dti_gap g;
        if (!dti_may_free(&p->tensor[t], x->o->least))
            continue;
        for (int32_t i = 0; dti_gap_next(p, (int32_t)t, &i, &g);) {
            const int32_t far = dti_levels_behind(&x->levels, p, &g);
            if (far <= s->threshold || x->levels.level[g.to] - group <= s->groupby)
                continue;
            if (add(x, &g, s, far))
                group = x->levels.level[g.to];
        }
    }
}

/* ---- trials ---- */

/* By what lives in the program as it came; the places of swaps are its. */
static bool may_pass(tflms *x)
{
    dti_least_clear(&x->least);
    for (size_t k = 0; k < x->n_swap; k++) {
        const dti_level_swap *s = &x->swap[k];
        dti_least_away(&x->least, dt_pos(x->p, s->release), dt_pos(x->p, s->fetch),
            x->p->tensor[s->gap.tensor].bytes);
    }
    return dti_least_bytes(&x->least) <= x->limit;
}

static dt_status rewrite_in(void *self, dt_program *copy, dt_err *err)
{
    const tflms *x = self;
    return dti_level_swaps_make(copy, x->swap, x->n_swap, err);
}

static void add_number(dt_sha256 *sum, int32_t number)
{
    dt_sha256_add(sum, &number, sizeof number);
}

static void key_of_swaps(const tflms *x, char key[DT_SHA256_TEXT])
{
    dt_sha256 sum;
    dt_sha256_init(&sum);
    for (size_t k = 0; k < x->n_swap; k++) {
        const dti_level_swap *s = &x->swap[k];
        add_number(&sum, s->gap.tensor);
        add_number(&sum, s->gap.from_pos);
        add_number(&sum, s->gap.to_pos);
        add_number(&sum, s->release);
        add_number(&sum, s->fetch);
    }
    dt_sha256_text(&sum, key);
}

static dt_status find_bound(tflms *x, uint64_t *bytes, dt_err *err)
{
    char key[DT_SHA256_TEXT];
    key_of_swaps(x, key);
    const uint64_t *known = dti_memo_find(x->bounds, key, sizeof *known);
    if (known != NULL) {
        *bytes = *known;
        return DT_OK;
    }
    DT_CHECK(dti_pass_bound_if(x->env, x->p, rewrite_in, x, bytes, err));
    dti_memo_put(x->bounds, key, bytes, sizeof *bytes);
    return DT_OK;
}

static dt_status try_it(tflms *x, const setting *s, bool *passes, dt_err *err)
{
    uint64_t bytes = 0;
    find_swaps(x, s);
    *passes = false;
    if (!may_pass(x))
        return DT_OK;
    DT_CHECK(find_bound(x, &bytes, err));
    *passes = bytes <= x->limit;
    return DT_OK;
}

/* The largest value of one number of a setting that passes; its smallest, @least, does. */
static dt_status largest(tflms *x, setting *s, int64_t *number, int64_t least, dt_err *err)
{
    int64_t low = least, high = (int64_t)x->levels.n + 1;
    while (high - low > 1) {
        bool passes;
        *number = low + (high - low) / 2;
        DT_CHECK(try_it(x, s, &passes, err));
        *(passes ? &low : &high) = *number;
    }
    *number = low;
    return DT_OK;
}

static int64_t given(int64_t option, int64_t otherwise)
{
    return option >= 0 ? option : otherwise;
}

/* The first sync with which the smallest threshold passes. */
static dt_status find_sync(tflms *x, setting *s, bool *passes, dt_err *err)
{
    const int64_t last = given(x->o->sync, OUT_WAITS | IN_WAITS);
    for (s->sync = given(x->o->sync, 0);; s->sync++) {
        DT_CHECK(try_it(x, s, passes, err));
        if (*passes || s->sync == last)
            return DT_OK;
    }
}

static dt_status tune(tflms *x, setting *s, dt_err *err)
{
    const options *o = x->o;
    bool passes;
    *s = (setting){given(o->threshold, x->levels.n), given(o->ahead, 1), given(o->groupby, 0),
        given(o->sync, 0)};
    DT_CHECK(try_it(x, s, &passes, err));
    if (passes && o->threshold < 0)
        return DT_OK; /* nothing has to be swapped */
    if (!passes) {
        s->threshold = given(o->threshold, 1);
        DT_CHECK(find_sync(x, s, &passes, err));
    }
    if (!passes)
        return DT_OK;
    if (o->threshold < 0)
        DT_CHECK(largest(x, s, &s->threshold, 1, err));
    if (o->ahead < 0)
        DT_CHECK(largest(x, s, &s->ahead, 1, err));
    return o->groupby < 0 ? largest(x, s, &s->groupby, 0, err) : DT_OK;
}

/* The largest numbers that pass a limit, and what comes of them where tensors are placed. */
static dt_status try_limit(void *self, uint64_t limit, uint64_t *peak, dt_err *err)
{
    tflms *x = self;
    dti_pass_cost cost = {0};
    setting s;
    x->limit = limit;
    DT_CHECK(tune(x, &s, err));
    find_swaps(x, &s);
    DT_CHECK(dti_pass_cost_if(x->env, x->p, rewrite_in, x, &cost, err));
    if (!x->found || dti_pass_is_better(&cost, &x->cost, x->budget)) {
        x->best = s;
        x->cost = cost;
        x->found = true;
    }
    *peak = cost.device;
    return DT_OK;
}

/* The fastest plan within the budget, of some limits; the smallest numbers where none fits. */
static dt_status choose(tflms *x, dt_err *err)
{
    const dti_aim a = {x->budget, 0, x->budget, x->budget, ROUNDS};
    uint64_t peak;
    DT_CHECK(dti_aim_search(&a, try_limit, x, err));
    if (!x->found || x->cost.device > x->budget)
        DT_CHECK(try_limit(x, 0, &peak, err));
    find_swaps(x, &x->best);
    return DT_OK;
}

static dt_status pass(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    tflms x = {.p = p, .env = env, .o = env->opts};
    x.budget = dti_pass_budget(env, x.o->budget);
    if (p->loss == DT_NONE)
        return DT_OK;
    x.bounds = dt_memo_create();
    dt_status st = dt_program_index(p, err);
    if (st == DT_OK)
        st = dti_levels_find(&x.levels, p, err);
    if (st == DT_OK)
        st = dti_load_curve_open(&x.curve, p, env, 0, err);
    if (st == DT_OK)
        st = dti_least_open(&x.least, &x.curve, p, env, err);
    x.swap = st == DT_OK ? dti_level_swaps_room(p) : NULL;
    if (st == DT_OK && x.swap == NULL)
        st = dti_pass_no_memory(err);
    if (st == DT_OK)
        st = choose(&x, err);
    if (st == DT_OK)
        st = dti_level_swaps_make(p, x.swap, x.n_swap, err);
    dti_levels_release(&x.levels);
    dt_memo_destroy(x.bounds);
    dti_least_close(&x.least);
    dti_load_curve_close(&x.curve);
    dt_free(x.swap);
    return st;
}

const dt_policy dt_policy_tflms = {
    .name = "tflms",
    .summary = "swap values whose readers are many levels behind, as few as fit (TFLMS 2018)",
    .exact = true,
    .by_budget = true,
    .opts = opts,
    .opts_bytes = sizeof(options),
    .pass = pass,
};
