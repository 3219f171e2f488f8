/* SuperNeurons (Wang et al., PPoPP 2018, sections 3.2 to 3.5). Layers that are dear to compute are
 * checkpoints, and so is whatever joins or forks. All between two checkpoints is a segment, whose
 * values are dropped in forward and computed again in backward: once for all of its layers
 * (speed-centric), where what that takes is no more than the largest layer takes anyway; else anew
 * for each layer, with all dropped in between (memory-centric). Outputs of convolutions wait on the
 * host, gone when the next convolution begins and fetched when backward reaches the convolution
 * behind it. The last one's stays. Under a budget the tensor cache takes the place of that: nothing
 * moves before the load would exceed it, and then what was used least recently goes first.
 *
 * Ours differs:
 * - The cache is replayed on the load curve before the run, and its decisions are copies of the
 *   plan: a copy out begins when the value was used last, not when an allocation fails, and one
 *   back early enough to hide. The release of its authors blocks for both. Where bytes between
 *   others are lost, the replay has a lower limit and goes on. Where it still comes to more than
 *   the budget, what the convolutions make leaves as without one, if that is less.
 * - The largest layer is that of our ops, which read less in backward than the paper's, without
 *   their workspaces, and no gradient of a response norm is counted twice.
 * memory/accounts/superneurons.h has their count.
 * - Dropout draws the same mask again. The release draws another one.
 * - Workspaces by the bytes that are free (section 3.5) are memory.algorithms = fit, which any
 *   policy may have.
 * - The input is not kept but fetched again. */
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/gap/replay.h"
#include "memory/policies/chen.h"

enum { OFF, AWARE, SPEED, MEMORY };

typedef struct options {
    int recompute;
    bool offload, prefetch, cache;
    uint64_t budget, least;
} options;

static const char *const modes[] = {
    [OFF] = "off", [AWARE] = "aware", [SPEED] = "speed", [MEMORY] = "memory", NULL};

#define AT(f) offsetof(options, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"recompute", DT_OPT_ENUM,  AT(recompute), "aware", 0, 0, modes, NULL, "how segments of cheap layers run again; off: not at all; speed: once for their whole backward; memory: anew for each layer; aware: once where that takes no more than the largest layer, else anew"},
    {"offload",   DT_OPT_BOOL,  AT(offload),   "on",    0, 0, NULL, NULL, "move outputs of convolutions to the host until backward"},
    {"prefetch",  DT_OPT_BOOL,  AT(prefetch),  "on",    0, 0, NULL, NULL, "fetch them back one convolution ahead; off: when they are read"},
    {"cache",     DT_OPT_BOOL,  AT(cache),     "on",    0, 0, NULL, NULL, "with a budget, move only what does not fit, the least recently used first"},
    {"budget",    DT_OPT_BYTES, AT(budget),    "0",     0, 0, NULL, NULL, "size of the cache; 0: memory.device_budget"},
    {"least",     DT_OPT_BYTES, AT(least),     "64KiB", 0, 0, NULL, NULL, "bytes of the smallest tensor that the cache moves"},
    {NULL,        DT_OPT_I64,   0,             NULL,    0, 0, NULL, NULL, NULL},
};
/* clang-format on */

/* ---- segments ---- */

/* A value that is dropped: @rank: from 1 on within its segment, 0: it is none; @before: the member
 * that it is made from, DT_NONE for the first; @now: the tensor that is read from here on. */
typedef struct member {
    int32_t segment, rank, before, now;
} member;

/* @last: the member behind which there is none; @top: the last one that backward reads, or DT_NONE;
 * @have: rank of the member up to which it was computed again last. */
typedef struct segment {
    int32_t last, top, have, reason;
    bool anew;
} segment;

typedef struct segments {
    dt_program *p;
    dti_chen c;
    int32_t *value_of; /* by tensor as the program came */
    member *member;    /* by value */
    segment *segment;
    int32_t *version;      /* room for a request */
    uint64_t *of_backward; /* by node: bytes */
    dti_remakes remakes;
    size_t n;
} segments;

/* What layers join, and what several read, is kept: a fork's copies are one value here. */
static bool cheap(const dt_program *p, const dti_chen_value *v)
{
    const dt_node *nd = &p->graph->node[p->op[v->op].node];
    return nd->n_in == 1 && !dti_chen_dear(p, v->op) && dti_chen_readers(p, v->tensor) == 1;
}

static void add_member(segments *s, size_t value)
{
    const dti_chen_value *v = &s->c.value[value];
    const int32_t x = dt_op_tensor(&s->p->op[v->op], DT_X);
    const int32_t before = x != DT_NONE ? s->value_of[x] : DT_NONE;
    const bool first = before == DT_NONE || s->member[before].rank == 0;
    if (first)
        s->segment[s->n++] = (segment){.top = DT_NONE};
    member *m = &s->member[value];
    m->segment = first ? (int32_t)s->n - 1 : s->member[before].segment;
    m->rank = first ? 1 : s->member[before].rank + 1;
    m->before = first ? DT_NONE : before;
    m->now = v->tensor;
    segment *to = &s->segment[m->segment];
    to->last = (int32_t)value;
    if (v->read_back)
        to->top = (int32_t)value;
}

static dt_status open_segments(segments *s, dt_program *p, dt_err *err)
{
    *s = (segments){.p = p};
    DT_CHECK(dti_chen_open(&s->c, p, err));
    s->value_of = dt_alloc(p->n_tensor + 1, sizeof *s->value_of);
    s->member = dt_alloc(s->c.n + 1, sizeof *s->member);
    s->segment = dt_alloc(s->c.n + 1, sizeof *s->segment);
    s->version = dt_alloc(s->c.n + 1, sizeof *s->version);
    s->of_backward = dt_alloc((size_t)p->graph->n_node + 1, sizeof *s->of_backward);
    if (s->value_of == NULL || s->member == NULL || s->segment == NULL || s->version == NULL ||
        s->of_backward == NULL)
        return dti_pass_no_memory(err);
    memset(s->value_of, 0xff, p->n_tensor * sizeof *s->value_of);
    for (size_t i = 0; i < s->c.n; i++)
        s->value_of[s->c.value[i].tensor] = (int32_t)i;
    for (size_t i = 0; i < s->c.n; i++)
        if (cheap(p, &s->c.value[i]))
            add_member(s, i);
    return DT_OK;
}

static void close_segments(segments *s)
{
    dt_free(s->value_of);
    dt_free(s->member);
    dt_free(s->segment);
    dt_free(s->version);
    dt_free(s->of_backward);
    dti_chen_close(&s->c);
}

/* ---- what a layer takes ---- */

/* Values, gradients and stashes that an op reads and writes. */
static uint64_t op_bytes(const dt_program *p, const dt_op *op)
{
    uint64_t sum = 0;
    for (int a = 0; a < op->n_arg; a++) {
        const dt_tensor *t = &p->tensor[op->arg[a].tensor];
        bool seen =
            t->home != DT_NONE || t->role == DT_ROLE_WORKSPACE || t->role == DT_ROLE_DERIVED;
        for (int b = 0; b < a && !seen; b++)
            seen = op->arg[b].tensor == op->arg[a].tensor;
        sum += seen ? 0 : t->bytes;
    }
    return sum;
}

/* By node the most that an op of its backward takes; and the most that any layer's op does. */
static uint64_t find_most(const dt_program *p, uint64_t *of_backward)
{
    uint64_t largest = 0;
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op *op = &p->op[p->order[i]];
        if (op->desc == NULL)
            continue;
        const uint64_t bytes = op_bytes(p, op);
        largest = bytes > largest ? bytes : largest;
        if (op->kind == DT_OP_BACKWARD && op->node != DT_NONE && bytes > of_backward[op->node])
            of_backward[op->node] = bytes;
    }
    return largest;
}

/* What a segment takes that is computed at once: its values, and the backward of its last layer. */
static uint64_t segment_bytes(const segments *s, const segment *g)
{
    uint64_t sum = s->of_backward[s->p->op[s->c.value[g->last].op].node];
    for (int32_t i = g->last; i != DT_NONE; i = s->member[i].before)
        sum += s->p->tensor[s->c.value[i].tensor].bytes;
    return sum;
}

static dt_status decide(segments *s, int mode, dt_err *err)
{
    const uint64_t largest = find_most(s->p, s->of_backward);
    for (size_t i = 0; i < s->n; i++) {
        segment *g = &s->segment[i];
        const uint64_t bytes = segment_bytes(s, g);
        const int32_t node = s->p->op[s->c.value[g->last].op].node;
        g->anew = mode == MEMORY || (mode == AWARE && bytes > largest);
        DT_CHECK(dt_reasons_add(&s->p->reasons, &g->reason, err,
            "%s: to %.40s, again %s: %.4g MiB at once, the largest layer %.4g", s->p->policy,
            s->p->graph->node[node].name, g->anew ? "for each layer" : "once",
            (double)bytes / 1048576, (double)largest / 1048576));
    }
    return DT_OK;
}

/* ---- computing again ---- */

/* New tensors hold values from here on. */
static void see_new(segments *s, size_t had)
{
    for (size_t t = had; t < s->p->n_tensor; t++) {
        const int32_t root = dti_root(s->p, (int32_t)t);
        const int32_t value = (size_t)root < s->c.n_tensor ? s->value_of[root] : DT_NONE;
        if (value != DT_NONE)
            s->member[value].now = (int32_t)t;
    }
}

static dt_status run_again(segments *s, segment *g, int32_t before, int32_t to, dt_err *err)
{
    const size_t had = s->p->n_tensor, n = (size_t)s->member[to].rank;
    for (int32_t i = to; i != DT_NONE; i = s->member[i].before)
        s->version[s->member[i].rank - 1] = s->member[i].now;
    g->have = s->member[to].rank;
    DT_CHECK(dti_remakes_before(&s->remakes, before, s->version, n, g->reason, err));
    see_new(s, had);
    return DT_OK;
}

/* The member that a tensor holds; DT_NONE: none, or a version of one that is another policy's. */
static int32_t member_in(const segments *s, int32_t tensor)
{
    const int32_t root = dti_root(s->p, tensor);
    const int32_t i = (size_t)root < s->c.n_tensor ? s->value_of[root] : DT_NONE;
    return i != DT_NONE && s->member[i].rank > 0 && s->member[i].now == tensor ? i : DT_NONE;
}

/* The highest member of a segment that an op reads. */
static int32_t reads(const segments *s, const dt_op *op, int32_t of)
{
    int32_t found = DT_NONE;
    for (int a = 0; a < op->n_arg; a++) {
        const int32_t i = member_in(s, op->arg[a].tensor);
        if (i == DT_NONE || s->member[i].segment != of)
            continue;
        if (found == DT_NONE || s->member[i].rank > s->member[found].rank)
            found = i;
    }
    return found;
}

/* For each segment that the op reads, what it reads is there. */
static dt_status before_op(segments *s, int32_t id, dt_err *err)
{
    for (int a = 0; a < s->p->op[id].n_arg; a++) {
        const int32_t i = member_in(s, s->p->op[id].arg[a].tensor);
        if (i == DT_NONE)
            continue;
        segment *g = &s->segment[s->member[i].segment];
        const int32_t needs = reads(s, &s->p->op[id], s->member[i].segment);
        const int32_t rank = s->member[needs].rank;
        if (!g->anew && rank > g->have)
            DT_CHECK(run_again(s, g, id, g->top, err));
        else if (g->anew && rank != g->have)
            DT_CHECK(run_again(s, g, id, needs, err));
    }
    return DT_OK;
}

static dt_status run_all(segments *s, dt_err *err)
{
    dt_program *p = s->p;
    const size_t first = (size_t)dt_pos(p, p->loss) + 1, n = p->n_order;
    int32_t *order = dti_order_copy(p); /* recomputes will come between the ops */
    if (order == NULL)
        return dti_pass_no_memory(err);
    dt_status st = dti_remakes_open(&s->remakes, p, s->c.dropped, false, err);
    for (size_t i = first; i < n && st == DT_OK; i++)
        st = before_op(s, order[i], err);
    dti_remakes_close(&s->remakes);
    dt_free(order);
    return st;
}

static dt_status recompute(dt_program *p, int mode, dt_err *err)
{
    segments s;
    dt_status st = open_segments(&s, p, err);
    if (st == DT_OK)
        st = decide(&s, mode, err);
    for (size_t i = 0; st == DT_OK && i < s.c.n; i++)
        s.c.dropped[s.c.value[i].tensor] = s.member[i].rank > 0;
    if (st == DT_OK)
        st = run_all(&s, err);
    close_segments(&s);
    return st;
}

/* ---- outputs of convolutions ---- */

/* The node whose convolution an op is part of; DT_NONE: of none. */
static int32_t convolution(const dt_program *p, size_t pos, dt_op_kind kind)
{
    const dt_op *op = &p->op[p->order[pos]];
    const bool is =
        op->kind == kind && op->node != DT_NONE && dt_graph_convolves(&p->graph->node[op->node]);
    return is ? op->node : DT_NONE;
}

/* The first convolution of forward behind a place; DT_NONE: there is none. */
static int32_t next_convolution(const dt_program *p, int32_t pos)
{
    for (int32_t k = pos + 1; k < dt_pos(p, p->loss); k++)
        if (convolution(p, (size_t)k, DT_OP_FORWARD) != DT_NONE)
            return k;
    return DT_NONE;
}

/* The op with which backward of the convolution right before a place begins, behind the loss;
 * DT_NONE: there is none. */
static int32_t convolution_before(const dt_program *p, int32_t pos)
{
    const int32_t loss = dt_pos(p, p->loss), reader = p->op[p->order[pos]].node;
    int32_t node = DT_NONE, found = DT_NONE;
    for (int32_t k = pos - 1; k > loss; k--) {
        const int32_t of = convolution(p, (size_t)k, DT_OP_BACKWARD);
        if (of == DT_NONE || of == reader)
            continue;
        if (node != DT_NONE && of != node)
            break;
        node = of;
        found = p->order[k];
    }
    return found;
}

/* @conv: the node; @next: the place of the next one */
static dt_status send_away(
    dt_program *p, const options *o, int32_t conv, dti_gap *g, int32_t next, dt_err *err)
{
    dti_offload_opt with = {.release_after = DT_NONE, .fetch_before = DT_NONE};
    if (next - 1 > g->from_pos)
        with.release_after = p->order[next - 1];
    if (o->prefetch)
        with.fetch_before = convolution_before(p, g->to_pos);
    DT_CHECK(dt_reasons_add(&p->reasons, &g->reason, err,
        "%s: output of convolution %.48s, gone before %.40s", p->policy, p->graph->node[conv].name,
        p->op[p->order[next]].name));
    return dti_offload(p, g, &with, err);
}

/* What the only reader in forward makes of a value, of as many bytes; DT_NONE: there is none. */
static int32_t made_of(const dt_program *p, int32_t tensor)
{
    int32_t n, reader = DT_NONE;
    const dt_access *a = dt_accesses(p, tensor, &n);
    for (int32_t i = 0; i < n; i++) {
        if ((a[i].mode & DT_READ) == 0)
            continue;
        if (reader != DT_NONE || p->op[a[i].op].kind != DT_OP_FORWARD ||
            convolution(p, (size_t)dt_pos(p, a[i].op), DT_OP_FORWARD) != DT_NONE)
            return DT_NONE;
        reader = a[i].op;
    }
    const int32_t y = reader != DT_NONE ? dt_op_tensor(&p->op[reader], DT_Y) : DT_NONE;
    return y != DT_NONE && p->tensor[y].bytes == p->tensor[tensor].bytes ? y : DT_NONE;
}

/* The gap over the loss of a convolution's output, or where backward does not read that, of what
 * lies in its bytes by then: an activation of it. */
static bool waits(const dt_program *p, int32_t output, dti_gap *g)
{
    for (int32_t t = output; t != DT_NONE; t = made_of(p, t))
        if (dti_gap_crossing(p, t, g))
            return true;
    return false;
}

static dt_status offload(dt_program *p, const options *o, dt_err *err)
{
    const size_t n = p->n_tensor;
    for (size_t t = 0; t < n; t++) {
        const int32_t maker = dti_producer(p, (int32_t)t);
        dti_gap g;
        if (maker == DT_NONE || dt_op_tensor(&p->op[maker], DT_Y) != (int32_t)t ||
            convolution(p, (size_t)dt_pos(p, maker), DT_OP_FORWARD) == DT_NONE ||
            !waits(p, (int32_t)t, &g))
            continue;
        const int32_t next = next_convolution(p, dt_pos(p, dti_producer(p, g.tensor)));
        if (next != DT_NONE)
            DT_CHECK(send_away(p, o, p->op[maker].node, &g, next, err));
    }
    return DT_OK;
}

/* ---- the tensor cache ---- */

/* Where the cache, which evicts no more than it must, comes to more than there is, all that the
 * convolutions make leaves as without it, if that is less. */
static dt_status cache_or_offload(
    dt_program *p, const dt_pass_env *env, const dti_planner_opts *cache, dt_err *err)
{
    dt_program *all = NULL;
    dti_pass_cost cached, offloaded;
    DT_CHECK(dt_program_copy(&all, p, err));
    dt_status st = dti_planner_run(p, env, cache, dti_replay_oldest, err);
    if (st == DT_OK)
        st = dti_pass_cost_of(env, p, &cached, err);
    if (st == DT_OK && cached.device > cache->budget) {
        st = offload(all, env->opts, err);
        if (st == DT_OK)
            st = dti_pass_cost_of(env, all, &offloaded, err);
        if (st == DT_OK && offloaded.device < cached.device)
            dt_program_swap(p, all);
    }
    dt_program_destroy(all);
    return st;
}

static dt_status superneurons(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    const options *o = env->opts;
    const dti_planner_opts cache = {.budget = dti_pass_budget(env, o->budget), .least = o->least};
    if (p->loss == DT_NONE)
        return DT_OK;
    DT_CHECK(dt_program_index(p, err));
    if (o->recompute != OFF)
        DT_CHECK(recompute(p, o->recompute, err));
    DT_CHECK(dti_fetch_again(p, err));
    if (!o->offload)
        return DT_OK;
    return o->cache && cache.budget > 0 ? cache_or_offload(p, env, &cache, err)
                                        : offload(p, o, err);
}

static const dti_only_with only_with[] = {
    {"prefetch", "offload", "on"},
    {"cache", "offload", "on"},
    {"least", "offload", "on"},
    {"least", "cache", "on"},
    {NULL, NULL, NULL},
};

const dt_policy dt_policy_superneurons = {
    .name = "superneurons",
    .summary =
        "convolutions' outputs move, cheap layers run again by their bytes (SuperNeurons 2018)",
    .exact = true,
    .by_budget = true,
    .opts = opts,
    .opts_bytes = sizeof(options),
    .only_with = only_with,
    .pass = superneurons,
};
