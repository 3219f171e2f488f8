/* CSWAP (Chen et al., CLUSTER 2021): vDNN's swaps, each of which is packed or not, by what the
 * codec takes and what it saves. A copy counts by what it is longer than the ops beside it, the
 * codec in full; of the codecs that there are the one is taken that gains the most, and none where
 * none gains. That is decided anew at the end of every epoch, by the share of values not zero in
 * its last step: as a network learns, its activations have more zeros, and more are packed.
 *
 * Ours differs:
 * - The rule charges the codec as if ops waited for it. Ours packs on the copy's way, beside the
 *   ops, so the rule's plan is held against others as the machine runs them (pick = fastest): none
 *   is packed, all is whose bytes shrink, what gains by the rule with the codec beside the copy,
 *   and then single values the other way. The fastest is taken, the rule's of equals. Where no
 *   costs are known, of a profile or a card, the rule alone decides.
 * - LZ4's bytes by density are those of single zeros far apart, so it is seldom chosen: how a
 *   tensor's zeros lie is not measured. The paper has it from samples.
 * - Seconds of codecs are those of the machine's costs, by codec, direction and density, between
 *   which lines are drawn: the paper fits pieces of such lines. It also tunes the launch of its
 *   kernels, which ours have no choice of.
 * - Packed bytes are those of the codec, its masks and indices included, which the paper leaves
 *   out.
 * - A copy out hides beside the ops from the one that makes the value to the last that reads it in
 *   forward, a copy back beside those from its beginning to its first reader.
 * - The room of what is packed is an eighth of the tensor more than its values were measured to
 *   fill, so that plans change when decisions do. A step whose values need more is run again, as
 *   with cdma. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/gap/rewrite.h"
#include "memory/policies/cswap_gain.h"
#include "memory/policies/vdnn_pass.h"

enum { SLOTS = 8, FLIPS = 12 };

typedef struct options {
    int moves, codec, pick;
    double density;
    int64_t every;
} options;

enum { MOVES_CONV, MOVES_ALL };
static const char *const moves[] = {[MOVES_CONV] = "conv", [MOVES_ALL] = "all", NULL};
static const char *const codecs[] = {"best", "zvc", "csr", "rle", "lz4", NULL};
static const char *const picks[] = {"fastest", "rule", NULL};

#define AT(f) offsetof(options, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"moves",   DT_OPT_ENUM, AT(moves),   "conv", 0, 0,   moves,  NULL, "which values move: those of vdnn_conv or of vdnn_all"},
    {"codec",   DT_OPT_ENUM, AT(codec),   "best", 0, 0,   codecs, NULL, "codec that packs; best: the one that gains the most"},
    {"pick",    DT_OPT_ENUM, AT(pick),    "fastest", 0, 0, picks, NULL, "which copies are packed; fastest: as in the fastest of several plans, the paper's rule among them, where costs are known; rule: always by the paper's rule"},
    {"density", DT_OPT_F64,  AT(density), "1",    0, 1,   NULL,   NULL, "share of nonzero values in outputs of ReLUs, until it is measured; at 1 nothing is packed before that"},
    {"every",   DT_OPT_I64,  AT(every),   "1",    0, 1e6, NULL,   "epochs", "epochs after which densities are measured and the step is planned anew; 0: never"},
    {NULL,      DT_OPT_I64,  0,           NULL,   0, 0,   NULL,   NULL, NULL},
};
/* clang-format on */

/* What packs a tensor, with room for which density; no codec: it moves as it is. */
typedef struct decision {
    const dt_codec *codec;
    double density;
} decision;

/* A tensor that moves: by the rule, and by the codec whose copies are shortest; @gain: of that,
 * when it works beside the copies. */
typedef struct swap {
    int32_t tensor;
    decision by_rule, shortest;
    double gain;
} swap;

/* @of: by tensor, what is planned next, of n; @swap: n_swap of them. */
typedef struct cswap {
    const dt_pass_env *env;
    const options *o;
    const dt_program *p;
    decision *of;
    swap *swap;
    size_t n, n_swap;
} cswap;

double dti_swap_gain(const dti_swap_times *s)
{
    const double raw = fmax(s->out - s->hidden_out, 0) + fmax(s->in - s->hidden_in, 0);
    const double packed =
        fmax(s->packed_out - s->hidden_out, 0) + fmax(s->packed_in - s->hidden_in, 0);
    return raw - (s->pack + s->unpack + packed);
}

/* ---- what is decided ---- */

/* Shares of values not zero: to make room for, and by which seconds go. Below 0: not known. What
 * the user says is taken at its word, what was measured may grow by a slot. */
typedef struct shares {
    double least, room, mean;
} shares;

static shares shares_of(const cswap *x, const dt_program *p, int32_t t)
{
    const dt_tensor *of = &p->tensor[t];
    const dt_densities *d = x->env->density;
    const bool zeros = of->node != DT_NONE && dti_often_zero(p, of->node);
    const double otherwise = zeros && x->o->density < 1 ? x->o->density : -1;
    const double measured = dti_pass_density(x->env, of, -1);
    const double mean = d != NULL ? dt_densities_mean(d, of->name) : -1;
    const double least = measured >= 0 ? measured : otherwise;
    return (shares){.least = least,
        .room = measured >= 0 ? dti_vdnn_slots(measured, SLOTS) : otherwise,
        .mean = mean >= 0 ? mean : least};
}

static bool is_asked(const cswap *x, const dt_codec *c)
{
    return c->exact && c->sparse && dti_codec_is_on(c->name, dt_context_device(x->p->context)) &&
           (x->o->codec == 0 || strcmp(c->name, codecs[x->o->codec]) == 0);
}

/* The codec is charged in full, whatever runs meanwhile. */
static double gain_by_rule(
    const cswap *x, const dt_codec *c, const dt_tensor *t, double mean, dti_swap_times s)
{
    const dt_costs *costs = dti_pass_costs(x->env);
    const size_t packed = dt_packed_bytes(c, t->bytes / sizeof(uint32_t), mean);
    s.packed_out = dti_pass_store_seconds(x->env, packed);
    s.packed_in = dti_pass_fetch_seconds(x->env, packed);
    s.pack = (double)t->bytes / dt_costs_rate(costs, c->name, mean, true);
    s.unpack = (double)t->bytes / dt_costs_rate(costs, c->name, mean, false);
    return dti_swap_gain(&s);
}

/* With its codec on the way, as the simulator has it. */
static double packed_seconds(
    const cswap *x, const dt_codec *c, const dt_tensor *t, const shares *known, dt_row_kind kind)
{
    const dt_tier tier = dti_offload_tier(x->env);
    const size_t room = dt_packed_bytes(c, t->bytes / sizeof(uint32_t), known->room);
    const dt_row r = {.kind = (uint16_t)kind,
        .tier = (uint8_t)tier,
        .bytes = t->bytes,
        .stored = room < t->bytes ? room : t->bytes,
        .codec = dti_codec_number(c)};
    return dti_costs_copy(
        dti_pass_costs(x->env), &r, known->mean, dti_stands_between(x->env, tier));
}

static void decide(const cswap *x, const dt_program *q, const dti_swap_times *s, swap *to)
{
    size_t n;
    const dt_tensor *t = &q->tensor[to->tensor];
    const shares known = shares_of(x, q, to->tensor);
    const dt_codec *const *all = dt_codec_all(&n);
    double best = 0, shortest = HUGE_VAL;
    for (size_t i = 0; i < n && known.least >= 0 && dt_packs(t); i++) {
        const dt_codec *c = all[i];
        if (!is_asked(x, c) ||
            dt_packed_bytes(c, t->bytes / sizeof(uint32_t), known.least) >= t->bytes)
            continue;
        dti_swap_times beside = *s;
        beside.packed_out = packed_seconds(x, c, t, &known, DT_ROW_COPY_OUT);
        beside.packed_in = packed_seconds(x, c, t, &known, DT_ROW_COPY_IN);
        const double seconds = beside.packed_out + beside.packed_in;
        const double gain = gain_by_rule(x, c, t, known.mean, *s);
        if (gain > best)
            to->by_rule = (decision){c, known.room};
        if (seconds < shortest) {
            to->shortest = (decision){c, known.room};
            to->gain = dti_swap_gain(&beside);
        }
        best = fmax(best, gain);
        shortest = fmin(shortest, seconds);
    }
}

/* ---- what hides ---- */

/* Of each swap of the program as vDNN leaves it. @until: by place, the seconds of all ops before.
 */
static void decide_all(cswap *x, const dt_program *q, const double *until)
{
    for (int32_t k = 0; k < (int32_t)q->n_order; k++) {
        const dt_op *in = &q->op[q->order[k]];
        if (in->kind != DT_OP_IN || (size_t)in->arg[0].tensor >= x->n)
            continue;
        const int32_t t = in->arg[0].tensor;
        const dt_op *out = &q->op[in->pair];
        const int32_t made = dt_pos(q, dti_producer(q, t));
        const int32_t gone =
            out->release_after != DT_NONE ? dt_pos(q, out->release_after) : dt_pos(q, in->pair);
        const dti_swap_times s = {.out = dti_pass_store_seconds(x->env, q->tensor[t].bytes),
            .in = dti_pass_fetch_seconds(x->env, q->tensor[t].bytes),
            .hidden_out = until[gone + 1] - until[made + 1],
            .hidden_in = until[dti_next_access(q, t, k)] - until[k]};
        x->swap[x->n_swap].tensor = t;
        decide(x, q, &s, &x->swap[x->n_swap++]);
    }
}

static dt_status look(cswap *x, dt_program *q, dt_err *err)
{
    double *seconds = dt_alloc(q->n_op + 1, sizeof *seconds);
    double *until = dt_alloc(q->n_order + 1, sizeof *until);
    x->swap = dt_alloc(q->n_order + 1, sizeof *x->swap);
    dt_status st = seconds != NULL && until != NULL && x->swap != NULL
                       ? dti_pass_op_seconds(x->env, q, seconds, err)
                       : dti_pass_no_memory(err);
    for (size_t k = 0; st == DT_OK && k < q->n_order; k++)
        until[k + 1] = until[k] + seconds[q->order[k]];
    if (st == DT_OK && dti_stands_between(x->env, dti_offload_tier(x->env)))
        memset(until, 0, (q->n_order + 1) * sizeof *until); /* nothing hides */
    if (st == DT_OK)
        decide_all(x, q, until);
    dt_free(seconds);
    dt_free(until);
    return st;
}

static dti_vdnn_moves moved_by_vdnn(const cswap *x)
{
    return x->o->moves == MOVES_ALL ? DTI_VDNN_ALL : DTI_VDNN_CONV;
}

static dt_status decide_by_vdnn(cswap *x, dt_err *err)
{
    dt_program *q = NULL;
    const dti_vdnn_opts v = {.env = x->env, .moves = moved_by_vdnn(x)};
    dt_status st = dt_program_copy(&q, x->p, err);
    if (st == DT_OK)
        st = dti_vdnn_pass(q, &v, err);
    if (st == DT_OK)
        st = look(x, q, err);
    dt_program_destroy(q);
    return st;
}

static const dt_codec *chosen(const void *self, int32_t tensor, double *density)
{
    const cswap *x = self;
    *density = x->of[tensor].density;
    return x->of[tensor].codec;
}

static dt_status rewrite(void *self, dt_program *q, dt_err *err)
{
    const cswap *x = self;
    const dti_vdnn_opts v = {.env = x->env, .moves = moved_by_vdnn(x), .choose = chosen, .self = x};
    return dti_vdnn_pass(q, &v, err);
}

/* ---- the fastest of several ---- */

static const double rounding = 1e-9;

typedef enum candidate { BY_RULE, NONE, ALL, BESIDE, CANDIDATES } candidate;

static decision decided(const swap *s, candidate w)
{
    const decision as_it_is = {NULL, 0};
    if (w == BY_RULE)
        return s->by_rule;
    return w == ALL || (w == BESIDE && s->gain > 0) ? s->shortest : as_it_is;
}

static void take(cswap *x, candidate w)
{
    for (size_t i = 0; i < x->n_swap; i++)
        x->of[x->swap[i].tensor] = decided(&x->swap[i], w);
}

static bool are_same(const cswap *x, candidate a, candidate b)
{
    bool same = true;
    for (size_t i = 0; i < x->n_swap && same; i++)
        same = decided(&x->swap[i], a).codec == decided(&x->swap[i], b).codec;
    return same;
}

static bool is_new(const cswap *x, candidate w)
{
    bool is = true;
    for (candidate before = BY_RULE; before < w && is; before++)
        is = !are_same(x, before, w);
    return is;
}

/* Whether what is to be planned next is better than the best so far, whose place it takes then, by
 * more than sums of seconds are rounded. */
static dt_status is_better(cswap *x, dti_pass_cost *best, bool *yes, dt_err *err)
{
    const uint64_t budget = x->env->budgets.device > 0 ? x->env->budgets.device : UINT64_MAX;
    dti_pass_cost cost = {0};
    DT_CHECK(dti_pass_cost_if(x->env, x->p, rewrite, x, &cost, err));
    dti_pass_cost rounded_up = cost;
    rounded_up.seconds *= 1 + rounding;
    *yes = dti_pass_is_better_in_all(x->env, &rounded_up, best, budget);
    if (*yes)
        *best = cost;
    return DT_OK;
}

static int most_first(const void *va, const void *vb)
{
    const swap *a = va, *b = vb;
    const double of_a = fabs(a->gain), of_b = fabs(b->gain);
    if (of_a != of_b)
        return of_a > of_b ? -1 : 1;
    return a->tensor < b->tensor ? -1 : a->tensor > b->tensor;
}

/* Single values the other way, those first by which most is predicted to hang. */
static dt_status flip(cswap *x, dti_pass_cost *best, dt_err *err)
{
    size_t tried = 0;
    qsort(x->swap, x->n_swap, sizeof *x->swap, most_first);
    for (size_t i = 0; i < x->n_swap && tried < FLIPS; i++) {
        const swap *s = &x->swap[i];
        const decision before = x->of[s->tensor];
        bool yes = false;
        if (s->shortest.codec == NULL)
            continue;
        x->of[s->tensor] = before.codec != NULL ? (decision){NULL, 0} : s->shortest;
        DT_CHECK(is_better(x, best, &yes, err));
        if (!yes)
            x->of[s->tensor] = before;
        tried++;
    }
    return DT_OK;
}

static dt_status pick_fastest(cswap *x, dt_err *err)
{
    dti_pass_cost best = {0};
    candidate fastest = BY_RULE;
    if (are_same(x, ALL, NONE)) /* nothing packs */
        return DT_OK;
    DT_CHECK(dti_pass_cost_if(x->env, x->p, rewrite, x, &best, err));
    for (candidate w = BY_RULE + 1; w < CANDIDATES; w++) {
        bool yes = false;
        if (!is_new(x, w))
            continue;
        take(x, w);
        DT_CHECK(is_better(x, &best, &yes, err));
        fastest = yes ? w : fastest;
    }
    take(x, fastest);
    return x->env->hasty ? DT_OK : flip(x, &best, err);
}

static dt_status choose(cswap *x, dt_err *err)
{
    DT_CHECK(decide_by_vdnn(x, err));
    take(x, BY_RULE);
    return x->o->pick == 0 && dt_costs_known(dti_pass_costs(x->env)) ? pick_fastest(x, err) : DT_OK;
}

/* ---- the pass ---- */

static dt_status check_codec(const options *o, dt_device_kind device, dt_err *err)
{
    const char *wants = dt_codec_wants(codecs[o->codec]);
    if (wants == NULL && !dti_codec_is_on(codecs[o->codec], device))
        return DT_FAIL(err, DT_E_CONFIG,
            "[policy.cswap] codec = %s: it has no %s kernels; take another, as zvc",
            codecs[o->codec], dt_device_name(device));
    if (wants == NULL)
        return DT_OK;
    return DT_FAIL(err, DT_E_CONFIG,
        "[policy.cswap] codec = %s: this program was built without %s; take another, as zvc",
        codecs[o->codec], wants);
}

static dt_status cswap_pass(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    cswap x = {.env = env, .o = env->opts, .p = p, .n = p->n_tensor};
    if (p->loss == DT_NONE)
        return DT_OK;
    DT_CHECK(dt_program_index(p, err));
    DT_CHECK(check_codec(x.o, dt_context_device(p->context), err));
    x.of = dt_alloc(x.n + 1, sizeof *x.of);
    dt_status st = x.of != NULL ? DT_OK : dti_pass_no_memory(err);
    if (st == DT_OK && !env->dense)
        st = choose(&x, err);
    if (st == DT_OK)
        st = rewrite(&x, p, err);
    dt_free(x.of);
    dt_free(x.swap);
    return st;
}

static int64_t replan(const void *given)
{
    const options *o = given;
    return o->every;
}

const dt_policy dt_policy_cswap = {
    .name = "cswap",
    .summary = "vDNN whose copies are packed where that gains, decided every epoch (CSWAP 2021)",
    .exact = true,
    .opts = opts,
    .opts_bytes = sizeof(options),
    .pass = cswap_pass,
    .replan = replan,
};
