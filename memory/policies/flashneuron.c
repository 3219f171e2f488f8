/* FlashNeuron (Bae et al., FAST 2021): values that forward leaves for backward wait on a
 * solid-state disk. Which ones, is decided in two phases (flashneuron_select.h): in the order in
 * which they are made until what stays fits; and if their copies take longer than forward, values
 * that cannot be packed are exchanged for ones that can. Copies out begin when forward has read a
 * value last and follow each other. In backward, what is needed next comes back as soon as there is
 * room.
 *
 * Ours differs:
 * - The paper adds up bytes; here plans say how many bytes must go, and what plans are above the
 *   budget goes as well.
 * - Sparse values are packed exactly, a bit a value and those that are not zero (the codec zvc): at
 *   a density d 32 / (32 d + 1) to one. The paper's rows of 128 have a pointer each besides, which
 *   makes it 32 / (32 d + 1.25). Its half precision between forward and backward changes results,
 *   so it has to be asked for (fp16); rows are then Gist's.
 * - A value is packed if a profile measured zeros enough, or a ReLU made it and density, the
 *   option, says that there are.
 * - The paper keeps what stays at one end of the arena and what goes at the other. Here the pool
 *   places both, knowing all lives.
 * - Of a budget's plan and those for up to an eighth less, which holes between tensors may make
 *   faster, the fastest is taken.
 * - The queue of copies is timed by the machine's costs (memory/time/costs.h); blocks and their
 *   places on the disk are the tier's affair.
 * - The input is not copied out, but fetched again. */
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/gap/curve.h"
#include "memory/gap/gaps.h"
#include "memory/policies/flashneuron_select.h"

typedef struct options {
    int tier;
    bool fp16;
    double density;
    uint64_t budget, least;
} options;

static const char *const places[] = {"disk", "host", NULL};
static const dt_tier tiers[] = {DT_TIER_DISK, DT_TIER_HOST};

#define AT(f) offsetof(options, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"tier",    DT_OPT_ENUM,  AT(tier),    "disk", 0, 0, places, NULL, "where values wait; host is the paper's comparison"},
    {"density", DT_OPT_F64,   AT(density), "1",    0, 1, NULL,   NULL, "share of nonzero values in outputs of ReLUs, where memory.profile does not say; at 1 nothing is packed"},
    {"fp16",    DT_OPT_BOOL,  AT(fp16),    "off",  0, 0, NULL,   NULL, "pack values in half precision, which changes results"},
    {"budget",  DT_OPT_BYTES, AT(budget),  "0",    0, 0, NULL,   NULL, "most device memory to use; 0: memory.device_budget. Without a budget the lowest peak"},
    {"least",   DT_OPT_BYTES, AT(least),   "1MiB", 0, 0, NULL,   NULL, "bytes of the smallest tensor that moves"},
    {NULL,      DT_OPT_I64,   0,           NULL,   0, 0, NULL,   NULL, NULL},
};
/* clang-format on */

enum { ROUNDS = 24, SHARES = 4 };

/* @value and @gap: of n tensors, in the order of production. @packed: those that can be are. @top:
 * the most that is on the device by the schedule made last. */
typedef struct flash {
    dt_program *p;
    const dt_pass_env *env;
    const options *o;
    dti_load_curve curve;
    size_t n;
    dti_flash_value *value;
    dti_idle *gap;
    uint64_t limit, top;
    double forward;
    bool packed;
} flash;

/* ---- what can go ---- */

static const dt_codec *codec_of(const flash *x, double *density, int32_t tensor)
{
    const dt_tensor *t = &x->p->tensor[tensor];
    dt_pass_env measured = *x->env;
    measured.dense = false; /* a dense plan moves the same values, as they are */
    *density = dti_pass_density(&measured, t, -1);
    if (*density < 0)
        *density = t->node != DT_NONE && dti_often_zero(x->p, t->node) ? x->o->density : 1;
    if (!dt_packs(t))
        return NULL;
    if (x->o->fp16 && x->p->graph->dtype == DT_F32)
        return dti_codec_find(*density < 1 ? "csr_fp16" : "fp16");
    return dti_codec_find("zvc");
}

static bool in_question(const flash *x, int32_t tensor, dti_gap *g)
{
    const dt_tensor *t = &x->p->tensor[tensor];
    return t->role != DT_ROLE_INPUT && dti_may_free(t, x->o->least) &&
           dti_gap_crossing(x->p, tensor, g);
}

static double copy_seconds(const flash *x, const dt_tensor *t, dt_row_kind kind)
{
    return dti_pass_copy_seconds(x->env, tiers[x->o->tier], kind, t->bytes);
}

static void add(flash *x, const dti_gap *g)
{
    const dt_tensor *t = &x->p->tensor[g->tensor];
    double density;
    const dt_codec *codec = codec_of(x, &density, g->tensor);
    const size_t packed =
        codec != NULL ? dt_packed_bytes(codec, t->bytes / sizeof(uint32_t), density) : t->bytes;
    x->gap[x->n] = (dti_idle){.gap = *g,
        .bytes = t->bytes,
        .out = copy_seconds(x, t, DT_ROW_COPY_OUT),
        .in = copy_seconds(x, t, DT_ROW_COPY_IN)};
    x->value[x->n] = (dti_flash_value){
        .bytes = t->bytes, .ratio = (double)t->bytes / (double)packed, .seconds = x->gap[x->n].out};
    x->n++;
}

/* In the order of production. */
static dt_status find_values(flash *x, dt_err *err)
{
    const dt_program *p = x->p;
    x->value = dt_alloc(p->n_tensor + 1, sizeof *x->value);
    x->gap = dt_alloc(p->n_tensor + 1, sizeof *x->gap);
    if (x->value == NULL || x->gap == NULL)
        return dti_pass_no_memory(err);
    for (int32_t k = 0; k < dt_pos(p, p->loss); k++) {
        const dt_op *op = &p->op[p->order[k]];
        dti_gap g;
        for (int a = 0; a < op->n_arg; a++)
            if (dti_producer(p, op->arg[a].tensor) == p->order[k] &&
                in_question(x, op->arg[a].tensor, &g))
                add(x, &g);
    }
    return DT_OK;
}

/* ---- when copies are made ---- */

/* What is on the device at each place, without what is away. */
static void load_without(const flash *x, const dti_idle *of, size_t n, uint64_t *load)
{
    uint64_t away = 0; /* sums and differences are right modulo 2^64 */
    memset(load, 0, (x->curve.n + 1) * sizeof *load);
    for (size_t i = 0; i < n; i++)
        if (of[i].release + 1 < of[i].gap.to_pos) {
            load[of[i].release + 1] += of[i].bytes;
            load[of[i].gap.to_pos] -= of[i].bytes;
        }
    for (size_t k = 0; k < x->curve.n; k++) {
        away += load[k];
        load[k] = x->curve.load[k] - away;
    }
}

/* The places before which they come back, each as early as there is room, in the order in which
 * backward needs them; without a budget the room is what the rest takes anyway. @back: their
 * numbers, the last one's reader first. */
static void fetch_early(const flash *x, dti_idle *of, const int32_t *back, size_t n, uint64_t *load)
{
    int32_t from = dt_pos(x->p, x->p->loss) + 1;
    uint64_t room = x->limit != UINT64_MAX ? x->limit : 0;
    for (size_t k = 0; k < x->curve.n && x->limit == UINT64_MAX; k++)
        room = load[k] > room ? load[k] : room;
    for (size_t i = n; i-- > 0;) {
        dti_idle *g = &of[back[i]];
        int32_t at = g->gap.to_pos;
        const int32_t least = from > g->release + 1 ? from : g->release + 1;
        while (at > least && load[at - 1] + g->bytes <= room)
            load[--at] += g->bytes;
        g->fetch = from = at;
    }
}

/* At the end of forward all is out, whoever waits for that. */
static void end_with_forward(const flash *x, dti_idle *of, size_t n)
{
    const int32_t last = dt_pos(x->p, x->p->loss) - 1;
    for (size_t i = 0; i < n; i++)
        if (of[i].release > last)
            of[i].release = last > of[i].gap.from_pos ? last : of[i].gap.from_pos;
}

/* Of the chosen ones. Ops wait for copies out where the load would exceed the limit. */
static dt_status schedule(flash *x, dti_idle *of, size_t n, dt_err *err)
{
    dti_gaps g = {.n_place = x->curve.n,
        .n = n,
        .begin = x->curve.begin,
        .end = x->curve.end,
        .load = x->curve.load,
        .idle = of,
        .inline_copies = dti_stands_between(x->env, tiers[x->o->tier]),
        .limit = x->limit};
    uint64_t *load = dt_alloc(x->curve.n + 1, sizeof *load);
    dt_status st = load != NULL ? dti_gaps_open(&g, err) : dti_pass_no_memory(err);
    for (size_t i = 0; st == DT_OK && i < n; i++)
        dti_gaps_enqueue(&g, &of[i]);
    if (st == DT_OK) {
        dti_gaps_schedule(&g);
        end_with_forward(x, of, n);
        load_without(x, of, n, load);
        if (!g.inline_copies)
            fetch_early(x, of, g.back, n, load);
    }
    x->top = 0;
    for (size_t k = 0; st == DT_OK && k < x->curve.n; k++)
        x->top = load[k] > x->top ? load[k] : x->top;
    dti_gaps_close(&g);
    dt_free(load);
    return st;
}

static dt_status offload(
    const flash *x, dt_program *q, const dti_idle *i, dti_offloads *all, dt_err *err)
{
    dti_offload_opt o = {
        .release_after = i->release, .fetch_before = i->fetch, .tier = tiers[x->o->tier]};
    dti_gap g = dti_gap_now(q, i->gap);
    double density;
    const dt_codec *codec = codec_of(x, &density, g.tensor);
    const size_t bytes = x->p->tensor[g.tensor].bytes;
    if (x->packed && !x->env->dense && codec != NULL &&
        dt_packed_bytes(codec, bytes / sizeof(uint32_t), density) < bytes) {
        o.codec = codec;
        o.density = density;
        o.most = bytes;
    }
    DT_CHECK(dt_reasons_add(&q->reasons, &g.reason, err, "%s: %s, %.3g ms out%s", q->policy,
        o.codec != NULL ? "packs" : "in the order of production", 1e3 * i->out,
        x->packed ? "; as they are, copies would take longer than forward" : ""));
    return dti_offloads_add(all, q, &g, &o, err);
}

/* The gaps of the chosen values, with the seconds of their copies as these are made. */
static size_t chosen_gaps(const flash *x, dti_idle *to)
{
    size_t n = 0;
    for (size_t i = 0; i < x->n; i++) {
        if (!x->value[i].chosen)
            continue;
        to[n] = x->gap[i];
        if (x->packed && x->value[i].ratio > 1) {
            to[n].out /= x->value[i].ratio;
            to[n].in /= x->value[i].ratio;
        }
        n++;
    }
    return n;
}

/* Those that are away at some place, which alone are left. Places become ops, as copies will come
 * between these. */
static size_t keep_away(const dt_program *q, dti_idle *of, size_t n)
{
    size_t away = 0;
    for (size_t i = 0; i < n; i++)
        if (of[i].fetch > of[i].release + 1) {
            of[away] = of[i];
            of[away].release = q->order[of[i].release];
            of[away++].fetch = q->order[of[i].fetch];
        }
    return away;
}

/* Rewrite a program by what was chosen: the flash's own, or a copy. */
static dt_status rewrite(void *self, dt_program *q, dt_err *err)
{
    flash *x = self;
    dti_idle *of = dt_alloc(x->n + 1, sizeof *of);
    if (of == NULL)
        return dti_pass_no_memory(err);
    const size_t n = chosen_gaps(x, of);
    dt_status st = schedule(x, of, n, err);
    const size_t away = st == DT_OK ? keep_away(q, of, n) : 0;
    dti_offloads all = {0};
    for (size_t i = 0; i < away && st == DT_OK; i++)
        st = offload(x, q, &of[i], &all, err);
    st = dti_offloads_end(&all, q, st, err);
    dt_free(of);
    return st;
}

/* ---- how much goes ---- */

/* All goes, and no op waits for that, if it takes less than @peak, which @spill and the limit give.
 */
static dt_status choose_all(flash *x, uint64_t all, uint64_t spill, uint64_t *peak, dt_err *err)
{
    const uint64_t limit = x->limit;
    uint64_t least = 0;
    x->limit = UINT64_MAX;
    x->packed = dti_flash_select(x->value, x->n, all, x->forward);
    DT_CHECK(dti_pass_peak_if(x->env, x->p, rewrite, x, &least, err));
    if (least < *peak) {
        *peak = least;
        return DT_OK;
    }
    x->limit = limit;
    x->packed = dti_flash_select(x->value, x->n, spill, x->forward);
    return DT_OK;
}

/* What is above the limit goes as well. Where a plan is above the budget all the same, for holes
 * between tensors that no load knows, the limit sinks by as much. While the plan stays the same, a
 * step is twice the last. */
static dt_status choose(flash *x, uint64_t budget, uint64_t *peak, dt_err *err)
{
    uint64_t all = 0, spill = 0, last = 0, times = 1;
    for (size_t i = 0; i < x->n; i++)
        all += x->value[i].bytes;
    x->limit = budget;
    for (int k = 0;; k++) {
        x->packed = dti_flash_select(x->value, x->n, spill, x->forward);
        DT_CHECK(dti_pass_peak_if(x->env, x->p, rewrite, x, peak, err));
        if (*peak <= budget)
            return DT_OK;
        if (k + 1 == ROUNDS)
            return choose_all(x, all, spill, peak, err);
        times = *peak == last ? 2 * times : 1;
        last = *peak;
        const uint64_t over = x->top > x->limit ? times * (x->top - x->limit) : 0;
        const uint64_t sink = times * (*peak - budget);
        if (over > 0 && spill < all)
            spill = all - spill > over ? spill + over : all;
        else
            x->limit = x->limit > sink ? x->limit - sink : x->limit / 2;
    }
}

/* ---- real plans ---- */

/* What rewrites the program. */
typedef struct choice {
    uint64_t limit;
    bool packed, *chosen;
    dti_pass_cost cost;
} choice;

static void take(flash *x, const choice *c)
{
    x->limit = c->limit;
    x->packed = c->packed;
    for (size_t i = 0; i < x->n; i++)
        x->value[i].chosen = c->chosen[i];
}

/* What was chosen last, if its step is faster or none was chosen before. */
static dt_status keep_if_better(flash *x, uint64_t budget, bool first, choice *best, dt_err *err)
{
    dti_pass_cost cost = {0};
    DT_CHECK(dti_pass_cost_if(x->env, x->p, rewrite, x, &cost, err));
    if (!first && !dti_pass_is_better(&cost, &best->cost, budget))
        return DT_OK;
    best->limit = x->limit;
    best->packed = x->packed;
    best->cost = cost;
    for (size_t i = 0; i < x->n; i++)
        best->chosen[i] = x->value[i].chosen;
    return DT_OK;
}

/* Where holes turn out better in fewer bytes, the plan for those: of the budget's and of those for
 * a few shares of it the fastest. */
static dt_status choose_fastest(flash *x, uint64_t budget, dt_err *err)
{
    choice best = {.chosen = dt_alloc(x->n + 1, sizeof *best.chosen)};
    dt_status st = best.chosen != NULL ? DT_OK : dti_pass_no_memory(err);
    if (st == DT_OK)
        st = keep_if_better(x, budget, true, &best, err);
    for (uint64_t k = 1; st == DT_OK && k <= SHARES; k++) {
        uint64_t peak = 0;
        st = choose(x, budget - budget / 32 * k, &peak, err);
        if (st == DT_OK && peak <= budget)
            st = keep_if_better(x, budget, false, &best, err);
    }
    if (st == DT_OK)
        take(x, &best);
    dt_free(best.chosen);
    return st;
}

static bool any_goes(const flash *x)
{
    bool any = false;
    for (size_t i = 0; i < x->n && !any; i++)
        any = x->value[i].chosen;
    return any;
}

/* A plan for the budget, or where none was found, the one of the lowest peak. */
static dt_status choose_within(flash *x, uint64_t budget, dt_err *err)
{
    uint64_t peak = 0;
    DT_CHECK(choose(x, budget, &peak, err));
    if (budget == 1 || !any_goes(x))
        return DT_OK;
    return peak <= budget ? choose_fastest(x, budget, err) : choose(x, 1, &peak, err);
}

static dt_status flashneuron(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    const options *o = env->opts;
    const uint64_t own = dti_pass_budget(env, o->budget);
    dt_lower_opts lower;
    const dt_pass_env within = dti_pass_within(env, own, &lower);
    flash x = {.p = p, .env = &within, .o = o};
    const uint64_t budget = own > 0 ? own : 1; /* the lowest peak */
    if (p->loss == DT_NONE)
        return DT_OK;
    dt_status st = dt_program_index(p, err);
    if (st == DT_OK)
        st = dti_fetch_again(p, err);
    if (st == DT_OK)
        st = dti_load_curve_open(&x.curve, p, env, 0, err);
    if (st == DT_OK) {
        x.forward = x.curve.end[dt_pos(p, p->loss)];
        st = find_values(&x, err);
    }
    if (st == DT_OK)
        st = choose_within(&x, budget, err);
    if (st == DT_OK)
        st = rewrite(&x, p, err);
    dti_load_curve_close(&x.curve);
    dt_free(x.value);
    dt_free(x.gap);
    return st;
}

static bool changes(const void *given)
{
    return ((const options *)given)->fp16;
}

const dt_policy dt_policy_flashneuron = {
    .name = "flashneuron",
    .summary =
        "values on a solid-state disk, those that pack if copies take long (FlashNeuron 2021); "
        "fp16 = on changes results",
    .exact = true,
    .by_budget = true,
    .searches = true,
    .leaves = DT_LEAVES_RUNS,
    .to_disk = true,
    .changes = changes,
    .opts = opts,
    .opts_bytes = sizeof(options),
    .pass = flashneuron,
};
