/* vDNN++ (Shriram, Garg, Kulkarni, IPDPS 2019; and their release): vDNN's values and its prefetch,
 * but no layer ends with a wait for its copy out. The bytes of a value are given back when its copy
 * is done, and ops wait only where they would not fit otherwise; at the end of forward all copies
 * are waited for. What waits on the host may be packed, by zero-value compression into slots, each
 * an eighth of the tensor, of which one more is open than its values fill. That tensors are placed
 * from two ends is the pool two_ended, which suits any policy.
 *
 * Ours differs:
 * - What would fit is known beforehand, from the load curve; their calls wait until the pool can
 *   serve them. A copy out takes what the machine's costs say.
 * - The pool is as large as memory.device_budget says; without one as large as vDNN's plan needs.
 * - They compress in a variant of their release that stands apart (vdnn_ext_cmp), so compress is
 *   off unless asked for. Without a profile it goes by a density that is said, and a step whose
 *   values need more is run again.
 * - They compress on the host when a value has arrived, as long as forward runs, which saves room
 *   and no traffic. Here whoever copies packs. Their test for zeros takes negative values for such;
 *   ours are exact.
 * - The last layer's moves and the networks that can be run are those of vdnn_pass.c. */
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/gap/curve.h"
#include "memory/policies/vdnn_pass.h"

enum { SLOTS = 8, ROUNDS = 8 };

typedef struct options {
    int moves;
    bool join, compress;
    double density;
    uint64_t budget;
} options;

enum { ALL, CONV };
static const char *const moves[] = {[ALL] = "all", [CONV] = "conv", NULL};

#define AT(f) offsetof(options, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"moves",    DT_OPT_ENUM,  AT(moves),    "all", 0, 0, moves, NULL, "which values move: those of vdnn_all or of vdnn_conv"},
    {"join",     DT_OPT_BOOL,  AT(join),     "off", 0, 0, NULL,  NULL, "make a layer end only when its copy out does, as in vDNN"},
    {"compress", DT_OPT_BOOL,  AT(compress), "off", 0, 0, NULL,  NULL, "leave zeros out of what waits on the host, where space comes in slots, eighths of a tensor"},
    {"density",  DT_OPT_F64,   AT(density),  "0.5", 0, 1, NULL,  NULL, "share of nonzero values to reserve space for, where memory.profile does not say; below 1/8: one slot"},
    {"budget",   DT_OPT_BYTES, AT(budget),   "0",   0, 0, NULL,  NULL, "most device memory to use; 0: memory.device_budget. Without a budget what vDNN takes"},
    {NULL,       DT_OPT_I64,   0,            NULL,  0, 0, NULL,  NULL, NULL},
};
/* clang-format on */

/* A copy out of this pass: the op, the place behind which vDNN gives the bytes back, and the last
 * behind which they may be. */
typedef struct leaving {
    int32_t op, release, last;
    uint64_t bytes;
    double seconds;
} leaving;

typedef struct late {
    dt_program *p;
    const dt_pass_env *env;
    dti_load_curve curve;
    leaving *out;
    size_t n;
    uint64_t *load;
    double *clock; /* by place: when its op ends if none waits for a copy */
} late;

/* The copies behind @n_op, which was the number of ops before the pass, in their order. */
static dt_status find_copies(late *x, size_t n_op, dt_err *err)
{
    const dt_program *p = x->p;
    int32_t *back = dt_alloc(p->n_op + 1, sizeof *back); /* by op: place of its copy back */
    x->out = dt_alloc(p->n_op + 1, sizeof *x->out);
    x->load = dt_alloc(x->curve.n + 1, sizeof *x->load);
    if (back == NULL || x->out == NULL || x->load == NULL) {
        dt_free(back);
        return dti_pass_no_memory(err);
    }
    for (size_t k = 0; k < p->n_order; k++)
        if (p->op[p->order[k]].kind == DT_OP_IN)
            back[p->op[p->order[k]].pair] = (int32_t)k;
    for (size_t k = 0; k < p->n_order; k++) {
        const int32_t id = p->order[k], loss = dt_pos(p, p->loss);
        const dt_op *op = &p->op[id];
        if (op->kind != DT_OP_OUT || (size_t)id < n_op)
            continue;
        const dt_tensor *t = &p->tensor[op->arg[0].tensor];
        const dt_tier tier = op->tier == DT_TIER_INPUT ? dti_offload_tier(x->env) : op->tier;
        const int32_t release =
            op->release_after != DT_NONE ? dt_pos(p, op->release_after) : (int32_t)k;
        x->out[x->n++] = (leaving){.op = id,
            .release = release,
            .last = (back[id] <= loss ? back[id] : loss) - 1,
            .bytes = t->bytes,
            .seconds = dti_pass_copy_seconds(x->env, tier, DT_ROW_COPY_OUT, t->bytes)};
    }
    dt_free(back);
    return DT_OK;
}

static dt_status set_clock(late *x, dt_err *err)
{
    const dt_program *p = x->p;
    double *seconds = dt_alloc(p->n_op + 1, sizeof *seconds), now = 0;
    x->clock = dt_alloc(p->n_order + 1, sizeof *x->clock);
    dt_status st = seconds != NULL && x->clock != NULL
                       ? dti_pass_op_seconds(x->env, x->p, seconds, err)
                       : dti_pass_no_memory(err);
    for (size_t k = 0; st == DT_OK && k < p->n_order; k++)
        x->clock[k] = now += seconds[p->order[k]];
    dt_free(seconds);
    return st;
}

/* Copies follow each other; each gives its bytes back behind the op that runs when it ends, or
 * before the first that would not fit beside them. */
static void give_back_late(late *x, uint64_t limit)
{
    dt_program *p = x->p;
    double free = 0, waited = 0;
    memcpy(x->load, x->curve.load, x->curve.n * sizeof *x->load);
    for (size_t i = 0; i < x->n; i++) {
        const leaving *w = &x->out[i];
        const double from = x->clock[dt_pos(p, w->op)] + waited;
        free = (free > from ? free : from) + w->seconds;
        int32_t k = w->release;
        while (k < w->last && x->clock[k] + waited < free && x->load[k + 1] + w->bytes <= limit)
            x->load[++k] += w->bytes;
        p->op[w->op].release_after = p->order[k];
        if (x->clock[k] + waited < free) /* the next op waits */
            waited = free - x->clock[k];
    }
}

static void give_back_at_once(late *x)
{
    for (size_t i = 0; i < x->n; i++)
        x->p->op[x->out[i].op].release_after = x->p->order[x->out[i].release];
}

/* Where the plan needs more than the limit all the same, for holes between tensors, it sinks by as
 * much; and in the end it is vDNN's. */
static dt_status fit(late *x, uint64_t budget, dt_err *err)
{
    dti_pass_cost cost;
    DT_CHECK(dti_pass_cost_of(x->env, x->p, &cost, err));
    const uint64_t most = budget > cost.device ? budget : cost.device;
    uint64_t limit = most;
    for (int round = 0; round < ROUNDS; round++) {
        give_back_late(x, limit);
        DT_CHECK(dti_pass_cost_of(x->env, x->p, &cost, err));
        if (cost.device <= most)
            return DT_OK;
        const uint64_t over = cost.device - most;
        limit = limit > over ? limit - over : 0;
    }
    give_back_at_once(x);
    return DT_OK;
}

static dt_status without_joins(
    dt_program *p, const dt_pass_env *env, size_t n_op, uint64_t budget, dt_err *err)
{
    late x = {.p = p, .env = env};
    dt_status st = dti_load_curve_open(&x.curve, p, env, 0, err);
    if (st == DT_OK)
        st = find_copies(&x, n_op, err);
    if (st == DT_OK)
        st = set_clock(&x, err);
    if (st == DT_OK && x.n > 0)
        st = fit(&x, budget, err);
    dti_load_curve_close(&x.curve);
    dt_free(x.out);
    dt_free(x.load);
    dt_free(x.clock);
    return st;
}

static dt_status vdnnpp(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    const options *o = env->opts;
    const size_t n_op = p->n_op;
    const dti_vdnn_opts v = {.env = env,
        .moves = o->moves == ALL ? DTI_VDNN_ALL : DTI_VDNN_CONV,
        .codec = o->compress ? dti_codec_find("zvc") : NULL,
        .density = o->density,
        .slots = SLOTS};
    if (p->loss == DT_NONE)
        return DT_OK;
    DT_CHECK(dti_vdnn_pass(p, &v, err));
    if (o->join)
        return DT_OK;
    return without_joins(p, env, n_op, dti_pass_budget(env, o->budget), err);
}

static const dti_only_with only_with[] = {
    {"density", "compress", "on"},
    {NULL, NULL, NULL},
};

const dt_policy dt_policy_vdnnpp = {
    .name = "vdnnpp",
    .summary = "vDNN without waits for copies out where bytes allow (vDNN++ 2019)",
    .exact = true,
    .by_budget = true,
    .opts = opts,
    .opts_bytes = sizeof(options),
    .only_with = only_with,
    .pass = vdnnpp,
};
