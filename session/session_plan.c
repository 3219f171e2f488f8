/* The plans of a session. */
#include <inttypes.h>

#include "engine/base/alloc.h"
#include "layers/registry.h"
#include "memory/lower/lower.h"
#include "memory/verify/verify.h"
#include "session/session_parts.h"

/* Where tensors that move wait, by the configuration. */
static dt_lower_opts lower_opts(const dt_session *s)
{
    const dt_memory_opts *m = &s->opts.memory;
    return (dt_lower_opts){.pool = dt_pool_find(m->pool),
        .policy = m->policy,
        .tier = m->tier == DT_TO_DISK ? DT_TIER_DISK : DT_TIER_HOST,
        .spill = m->tier == DT_TO_AUTO && m->host_budget > 0 && m->disk_path != NULL,
        .host_budget = m->host_budget};
}

/* Whether an encoder of the program might run out of room. */
static bool may_overflow(const dt_program *p)
{
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op *op = &p->op[p->order[i]];
        if (op->codec != NULL && op->codec->sparse &&
            op->stored < dt_packed_bytes(op->codec, (size_t)op->count, 1))
            return true;
    }
    return false;
}

static dt_status make(dt_session *s, dt_planned *p, dt_err *err)
{
    const dt_program_opts o = {.graph = s->graph,
        .map = s->map,
        .device = s->device,
        .kind = p->kind,
        .n = p->n,
        .home_n = s->map->home_n,
        .algorithms = &s->algorithms,
        .ops = {.sum = dt_layer_find("sum"),
            .commit = dt_layer_find("commit"),
            .optimizer = dt_layer_find(dt_optimizer_name(&s->opts.train))}};
    DT_CHECK(dt_program_create(&p->program, &o, err));
    if (p->kind != DT_PROGRAM_UPDATE) {
        const dt_pass_env env = {.device_budget = s->opts.memory.device_budget,
            .pool = dt_pool_find(s->opts.memory.pool),
            .density = &s->densities,
            .dense = p->dense};
        DT_CHECK(dt_layer_fates_apply(&s->fates, p->program, &env, err));
        DT_CHECK(dt_policies_apply(&s->policies, p->program, &env, err));
    }
    const dt_lower_opts l = lower_opts(s);
    DT_CHECK(dt_lower(&p->plan, p->program, &l, err));
    return dt_verify(p->plan, err);
}

/* A step and an evaluation by one table. */
typedef struct trial {
    dt_session s; /* another's graph and options; plans of its own */
    dt_fitted *all;
    size_t cap;
} trial;

static dt_status try_table(
    void *self, const dt_algorithm_table *by, const dt_fitted **all, size_t *n, dt_err *err)
{
    trial *t = self;
    dt_session *s = &t->s;
    dt_session_forget(s);
    DT_CHECK(dt_algorithm_table_copy(&s->algorithms, by, err));
    DT_CHECK(dti_session_plan_all(s, err));
    for (*n = 0; *n < s->n_planned; (*n)++) {
        if (!dt_grow((void **)&t->all, &t->cap, *n, sizeof *t->all))
            return DT_FAIL(err, DT_E_NOMEM, "no memory to choose algorithms");
        t->all[*n] = (dt_fitted){s->planned[*n].program, s->planned[*n].plan};
    }
    *all = t->all;
    return DT_OK;
}

static dt_status fit(dt_session *s, dt_err *err)
{
    trial t = {.s = *s};
    t.s.map = NULL;
    t.s.planned = NULL;
    t.s.n_planned = t.s.cap_planned = 0;
    t.s.algorithms = (dt_algorithm_table){0};
    const dt_fit_env e = {.budget = s->opts.memory.device_budget, .plan = try_table, .self = &t};
    const dt_status st = dt_fit_algorithms(&e, &s->algorithms, err);
    dt_session_forget(&t.s);
    dt_free(t.all);
    return st;
}

/* As memory.algorithms says, once for all plans of a run. */
static dt_status choose_algorithms(dt_session *s, dt_err *err)
{
    if (s->algorithms.n > 0)
        return DT_OK;
    DT_CHECK(dti_session_climb(s, err));
    const int how = s->opts.memory.algorithms;
    DT_CHECK(dt_algorithm_table_init(&s->algorithms, s->graph->n_node,
        how == DT_ALGORITHMS_FAST ? DT_LIMIT_ANY : DT_LIMIT_LEAST, err));
    return how == DT_ALGORITHMS_FIT && !s->rough ? fit(s, err) : DT_OK;
}

static dt_status plan_as(
    dt_session *s, dt_program_kind kind, int64_t n, bool dense, const dt_planned **out, dt_err *err)
{
    for (size_t i = 0; i < s->n_planned; i++)
        if (s->planned[i].kind == kind && s->planned[i].n == n && s->planned[i].dense == dense) {
            *out = &s->planned[i];
            return DT_OK;
        }
    DT_CHECK(choose_algorithms(s, err));
    if (s->map == NULL)
        DT_CHECK(dt_map_create(&s->map, s->graph, s->device, s->opts.train.micro_batch,
            dt_optimizer_state(&s->opts.train), err));
    if (!dt_grow((void **)&s->planned, &s->cap_planned, s->n_planned, sizeof *s->planned))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for plans");
    dt_planned *p = &s->planned[s->n_planned];
    *p = (dt_planned){.kind = kind, .n = n, .dense = dense};
    s->n_planned++; /* close frees what was made even when making fails */
    DT_TRY(err, make(s, p, err), "plan '%s' for %" PRId64 " samples of %s",
        dt_program_kind_name(kind), n, s->graph->name);
    *out = p;
    return DT_OK;
}

dt_status dt_session_plan(
    dt_session *s, dt_program_kind kind, int64_t n, const dt_planned **out, dt_err *err)
{
    if (kind == DT_PROGRAM_UPDATE)
        n = s->opts.train.micro_batch;
    DT_CHECK(plan_as(s, kind, n, false, out, err));
    if (!may_overflow((*out)->program))
        return DT_OK;
    const dt_planned *other;
    DT_CHECK(plan_as(s, kind, n, true, &other, err));
    return plan_as(s, kind, n, false, out, err); /* the list may have moved */
}

/* First and further micro-batches of a step of @samples. */
static dt_status plan_step(dt_session *s, int64_t samples, dt_err *err)
{
    const dt_planned *p;
    const int64_t micro = s->opts.train.micro_batch;
    int64_t last;
    const int64_t pieces = dt_micro_batches(samples, micro, &last);
    DT_CHECK(dt_session_plan(s, DT_PROGRAM_FIRST, pieces > 1 ? micro : last, &p, err));
    if (pieces > 2)
        DT_CHECK(dt_session_plan(s, DT_PROGRAM_AGAIN, micro, &p, err));
    if (pieces > 1)
        DT_CHECK(dt_session_plan(s, DT_PROGRAM_AGAIN, last, &p, err));
    return DT_OK;
}

dt_status dti_session_plan_all(dt_session *s, dt_err *err)
{
    const dt_planned *p;
    DT_CHECK(plan_step(s, s->opts.train.batch, err));
    DT_CHECK(dt_session_plan(s, DT_PROGRAM_UPDATE, 0, &p, err));
    return dt_session_plan(s, DT_PROGRAM_EVAL, s->opts.train.micro_batch, &p, err);
}

dt_status dt_session_plan_run(
    dt_session *s, bool eval, int64_t last, int64_t eval_last, dt_err *err)
{
    const dt_planned *p;
    DT_CHECK(plan_step(s, s->opts.train.batch, err));
    if (last > 0)
        DT_CHECK(plan_step(s, last, err));
    DT_CHECK(dt_session_plan(s, DT_PROGRAM_UPDATE, 0, &p, err));
    if (eval)
        DT_CHECK(dt_session_plan(s, DT_PROGRAM_EVAL, s->opts.train.micro_batch, &p, err));
    if (eval && eval_last > 0)
        DT_CHECK(dt_session_plan(s, DT_PROGRAM_EVAL, eval_last, &p, err));
    return DT_OK;
}

/* The first layer whose channels have one value in @n samples; NULL: there is none. */
static const dt_node *single_value(const dt_graph *g, int64_t n)
{
    for (size_t i = 0; i < g->n_node; i++) {
        const dt_shape x = dt_graph_shape(g, g->node[i].in[0]);
        if (g->node[i].desc->batch_statistics && n * x.h * x.w == 1)
            return &g->node[i];
    }
    return NULL;
}

dt_status dt_session_check_statistics(const dt_session *s, dt_err *err)
{
    const dt_train_opts *t = &s->opts.train;
    for (size_t i = 0; i < s->n_planned; i++) {
        const dt_planned *p = &s->planned[i];
        const bool trains = p->kind == DT_PROGRAM_FIRST || p->kind == DT_PROGRAM_AGAIN;
        const dt_node *bad = trains ? single_value(s->graph, p->n) : NULL;
        if (bad == NULL)
            continue;
        const char *key = t->micro_batch < t->batch ? "micro_batch" : "batch";
        char asked[DT_ASKED];
        dt_session_asked(asked, s, "train", key);
        if (p->n == t->micro_batch)
            return DT_FAIL(err, DT_E_CONFIG,
                "%s: '%s' would normalise a single value, as its pictures are 1x1; %s must be at "
                "least 2",
                asked, bad->name, key);
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: 1 sample is left at the end of an epoch, of which '%s' would normalise a single "
            "value, as its pictures are 1x1; set train.drop_last = on, or another train.batch",
            asked, bad->name);
    }
    return DT_OK;
}

uint64_t dt_session_peak(const dt_session *s)
{
    uint64_t peak = 0;
    for (size_t i = 0; i < s->n_planned; i++)
        if (s->planned[i].plan != NULL && s->planned[i].plan->peak > peak)
            peak = s->planned[i].plan->peak;
    return peak;
}

uint64_t dt_session_tier_peak(const dt_session *s, dt_tier tier)
{
    uint64_t peak = 0;
    for (size_t i = 0; i < s->n_planned; i++) {
        const dt_plan *p = s->planned[i].plan;
        const uint64_t bytes = p == NULL ? 0 : tier == DT_TIER_HOST ? p->host_peak : p->disk_peak;
        peak = bytes > peak ? bytes : peak;
    }
    return peak;
}

bool dt_session_exact(const dt_session *s)
{
    return dt_policies_exact(&s->policies) && dt_layer_fates_exact(&s->fates);
}
