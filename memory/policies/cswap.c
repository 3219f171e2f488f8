/* CSWAP (Chen et al., CLUSTER 2021): vDNN's swaps, each of which is packed or not, by what the
 * codec takes and what it saves. A copy counts by what it is longer than the ops beside it, the
 * codec in full; of the codecs that there are the one is taken that gains the most, and none where
 * none gains. That is decided anew at the end of every epoch, by the share of values not zero in
 * its last step: as a network learns, its activations have more zeros, and more are packed.
 *
 * Ours differs:
 * - LZ4's bytes by density are those of single zeros far apart, so it is seldom chosen: how a
 *   tensor's zeros lie is not measured. The paper has it from samples.
 * - Seconds of codecs are those of the machine's costs, by codec, direction and density, between
 *   which lines are drawn: the paper fits pieces of such lines. It also tunes the launch of its
 *   kernels, which ours have no choice of.
 * - Packed bytes are those of the codec, its masks and indices included, which the paper leaves
 * out.
 * - A copy out hides beside the ops from the one that makes the value to the last that reads it in
 *   forward, a copy back beside those from its beginning to its first reader.
 * - On the processor whoever copies packs, so that a codec's time may hide as well: what is
 *   predicted is never less than what a step takes.
 * - The room of what is packed is an eighth of the tensor more than its values fill, so that plans
 *   change when decisions do. A step whose values need more is run again, as with cdma. */
#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/gap/rewrite.h"
#include "memory/policies/cswap_gain.h"
#include "memory/policies/vdnn_pass.h"

enum { SLOTS = 8 };

typedef struct options {
    int moves, codec;
    double density;
    int64_t every;
} options;

static const char *const moves[] = {"conv", "all", NULL};
static const char *const codecs[] = {"best", "zvc", "csr", "rle", "lz4", NULL};

#define AT(f) offsetof(options, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"moves",   DT_OPT_ENUM, AT(moves),   "conv", 0, 0,   moves,  NULL, "what moves: as vdnn_conv or vdnn_all"},
    {"codec",   DT_OPT_ENUM, AT(codec),   "best", 0, 0,   codecs, NULL, "what packs: the one that gains the most, or one alone"},
    {"density", DT_OPT_F64,  AT(density), "1",    0, 1,   NULL,   NULL, "share of values not zero of what a ReLU made, until it is measured; at 1 nothing is packed before that"},
    {"every",   DT_OPT_I64,  AT(every),   "1",    0, 1e6, NULL,   "epochs", "after which densities are measured and the step is planned anew; 0: never"},
    {NULL,      DT_OPT_I64,  0,           NULL,   0, 0,   NULL,   NULL, NULL},
};
/* clang-format on */

/* By tensor: what packs it, with room for which density. */
typedef struct decision {
    const dt_codec *codec;
    double density;
} decision;

typedef struct cswap {
    const dt_pass_env *env;
    const options *o;
    decision *of;
    size_t n;
} cswap;

double dti_swap_gain(const dti_swap_times *s)
{
    const double raw = fmax(s->out - s->hidden_out, 0) + fmax(s->in - s->hidden_in, 0);
    const double packed =
        fmax(s->packed_out - s->hidden_out, 0) + fmax(s->packed_in - s->hidden_in, 0);
    return raw - (s->pack + s->unpack + packed);
}

/* ---- what is decided ---- */

/* Of so many bytes, to where values wait or back. */
static double copy_seconds(const cswap *x, dt_row_kind kind, uint64_t bytes)
{
    return dti_pass_copy_seconds(x->env, dti_offload_tier(x->env), kind, bytes);
}

/* Shares of values not zero: to make room for, and by which seconds go. Below 0: not known. */
static void densities_of(const cswap *x, const dt_program *p, int32_t t, double *room, double *mean)
{
    const dt_tensor *of = &p->tensor[t];
    const bool zeros = of->node != DT_NONE && dti_often_zero(p, of->node);
    const double otherwise = zeros && x->o->density < 1 ? x->o->density : -1;
    const double known =
        x->env->density != NULL ? dt_densities_mean(x->env->density, of->name) : -1;
    *room = dti_pass_density(x->env, of, otherwise);
    *mean = known >= 0 ? known : *room;
}

static bool is_asked(const cswap *x, const dt_codec *c)
{
    return c->exact && c->sparse && (x->o->codec == 0 || strcmp(c->name, codecs[x->o->codec]) == 0);
}

static void try_codec(const cswap *x, const dt_codec *c, const dt_tensor *t, double room,
    double mean, dti_swap_times s, double *best, decision *to)
{
    const dt_costs *costs = dti_pass_costs(x->env);
    const size_t words = t->bytes / sizeof(uint32_t);
    const double slots = dti_vdnn_slots(room, SLOTS);
    const size_t packed = dt_packed_bytes(c, words, mean);
    if (dt_packed_bytes(c, words, slots) >= t->bytes)
        return;
    s.packed_out = copy_seconds(x, DT_ROW_COPY_OUT, packed);
    s.packed_in = copy_seconds(x, DT_ROW_COPY_IN, packed);
    s.pack = (double)t->bytes / dt_costs_rate(costs, c->name, mean, true);
    s.unpack = (double)t->bytes / dt_costs_rate(costs, c->name, mean, false);
    const double gain = dti_swap_gain(&s);
    if (gain > *best) {
        *best = gain;
        *to = (decision){c, slots};
    }
}

static void decide(const cswap *x, const dt_program *q, int32_t t, const dti_swap_times *s)
{
    size_t n;
    double room, mean, best = 0;
    const dt_codec *const *all = dt_codec_all(&n);
    densities_of(x, q, t, &room, &mean);
    for (size_t i = 0; i < n && room >= 0 && dt_packs(&q->tensor[t]); i++)
        if (is_asked(x, all[i]))
            try_codec(x, all[i], &q->tensor[t], room, mean, *s, &best, &x->of[t]);
}

/* ---- what hides ---- */

/* Of each swap of the program as vDNN leaves it. @until: by place, the seconds of all ops before.
 */
static void decide_all(const cswap *x, const dt_program *q, const double *until)
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
        const dti_swap_times s = {.out = copy_seconds(x, DT_ROW_COPY_OUT, q->tensor[t].bytes),
            .in = copy_seconds(x, DT_ROW_COPY_IN, q->tensor[t].bytes),
            .hidden_out = until[gone + 1] - until[made + 1],
            .hidden_in = until[dti_next_access(q, t, k)] - until[k]};
        decide(x, q, t, &s);
    }
}

static dt_status look(const cswap *x, dt_program *q, dt_err *err)
{
    double *seconds = dt_alloc(q->n_op + 1, sizeof *seconds);
    double *until = dt_alloc(q->n_order + 1, sizeof *until);
    dt_status st = seconds != NULL && until != NULL
                       ? dti_pass_op_seconds(x->env, q, seconds, err)
                       : DT_FAIL(err, DT_E_NOMEM, "no memory for a policy");
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

static dt_status decide_by_vdnn(const cswap *x, const dt_program *p, dt_err *err)
{
    dt_program *q = NULL;
    const dti_vdnn_opts v = {.env = x->env, .all = x->o->moves == 1};
    dt_status st = dt_program_copy(&q, p, err);
    if (st == DT_OK)
        st = dt_program_index(q, err);
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

static dt_status check_codec(const options *o, dt_err *err)
{
    const char *wants = dt_codec_wants(codecs[o->codec]);
    if (wants == NULL)
        return DT_OK;
    return DT_FAIL(err, DT_E_CONFIG,
        "[policy.cswap] codec = %s: this program was built without %s; take another, as zvc",
        codecs[o->codec], wants);
}

static dt_status cswap_pass(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    cswap x = {.env = env, .o = env->opts, .n = p->n_tensor};
    if (p->loss == DT_NONE)
        return DT_OK;
    DT_CHECK(dt_program_index(p, err));
    DT_CHECK(check_codec(x.o, err));
    x.of = dt_alloc(x.n + 1, sizeof *x.of);
    if (x.of == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a policy");
    const dti_vdnn_opts v = {
        .env = env, .all = x.o->moves == 1, .choose = chosen, .self = &x, .slots = SLOTS};
    dt_status st = env->dense ? DT_OK : decide_by_vdnn(&x, p, err);
    if (st == DT_OK)
        st = dti_vdnn_pass(p, &v, err);
    dt_free(x.of);
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
