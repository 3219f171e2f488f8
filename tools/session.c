#include "tools/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/alloc.h"
#include "engine/cpu.h"
#include "engine/graph_fuse.h"
#include "layers/onednn.h"
#include "layers/registry.h"
#include "memory/fit.h"
#include "memory/lower.h"
#include "memory/verify.h"
#include "models/ini.h"

const char *dt_session_asked(
    char to[DT_ASKED], const dt_session *s, const char *section, const char *key)
{
    const char *file = NULL;
    int line = 0;
    char at[512];
    const char *value = dt_config_get(s->config, section, key, &file, &line);
    snprintf(to, DT_ASKED, "%s: [%s] %s = %s", dt_config_place(at, sizeof at, file, line), section,
        key, value != NULL ? value : "");
    return to;
}

static dt_status unknown_model(const dt_session *s, dt_err *err)
{
    char all[1024] = "", asked[DT_ASKED];
    for (const char *const *n = dt_model_names(); *n != NULL; n++) {
        const size_t len = strlen(all);
        snprintf(all + len, sizeof all - len, "%s%s", len > 0 ? ", " : "", *n);
    }
    const char *near = dt_nearest(s->opts.model.name, dt_model_names());
    return DT_FAIL(err, DT_E_CONFIG, "%s: no such model; %s%s%s: %s",
        dt_session_asked(asked, s, "model", "name"), near != NULL ? "did you mean '" : "",
        near != NULL ? near : "", near != NULL ? "'? There are" : "there are", all);
}

/* The network of the file's layer sections, or the model named. */
static dt_status build_graph(dt_session *s, dt_err *err)
{
    const dt_model_section *m = &s->opts.model;
    const dt_model_opts o = {.classes = m->classes,
        .image = m->image,
        .width = m->width,
        .dropout = m->dropout,
        .layers = m->layers,
        .heads = m->heads,
        .vocab = m->vocab,
        .context = m->context,
        .attention = m->attention};
    if (dt_ini_has_layers(s->config))
        return dt_ini_network(s->config, &o, &s->graph, err);
    const dt_model_desc *d = m->name != NULL ? dt_model_find(m->name) : NULL;
    if (m->name == NULL)
        return DT_FAIL(err, DT_E_CONFIG,
            "[model] name is missing; it names a model (dnntrain list models), or the file holds "
            "[KIND NAME] sections, one a layer");
    return d != NULL ? dt_model_build(d, &o, &s->graph, err) : unknown_model(s, err);
}

/* As [model] fuse says; part of what is trained, so before anything is planned. */
static dt_status fuse(dt_session *s, dt_err *err)
{
    dt_graph *fused;
    if (!s->opts.model.fuse)
        return DT_OK;
    DT_CHECK(dt_graph_fuse(&fused, s->graph, err));
    dt_graph_destroy(s->graph);
    s->graph = fused;
    return DT_OK;
}

/* The type of values that train.precision asks for, on this machine. All cards that CUDA kernels
 * are built for multiply bf16. */
static dt_status set_precision(dt_session *s, dt_err *err)
{
    char asked[DT_ASKED];
    const int wanted = s->opts.train.precision;
    if (s->device == DT_CUDA) {
        const bool tf32 = wanted == DT_PRECISION_TF32;
        dt_device_allow_tf32(s->device, tf32);
        s->graph->dtype = wanted == DT_PRECISION_FP32 || tf32 ? DT_F32 : DT_BF16;
        return DT_OK;
    }
    if (wanted == DT_PRECISION_TF32)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: tf32 is of cuda devices; set train.precision = fp32, bf16 or auto",
            dt_session_asked(asked, s, "train", "precision"));
    if (wanted == DT_PRECISION_FP32 || (wanted == DT_PRECISION_AUTO && !dt_onednn_bf16()))
        return DT_OK;
    if (!dt_onednn_avx512())
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: bf16 needs a processor with AVX-512, and %s uses none here; set train.precision = "
            "fp32, or auto",
            dt_session_asked(asked, s, "train", "precision"), dt_onednn_version());
    s->graph->dtype = DT_BF16;
    return DT_OK;
}

static dt_status unknown_pool(const dt_session *s, dt_err *err)
{
    size_t n;
    const dt_pool_desc *const *pool = dt_pool_all(&n);
    const char *names[16] = {NULL};
    char all[256] = "", asked[DT_ASKED];
    for (size_t i = 0; i < n && i < DT_COUNT(names) - 1; i++) {
        const size_t len = strlen(all);
        names[i] = pool[i]->name;
        snprintf(all + len, sizeof all - len, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    const char *near = dt_nearest(s->opts.memory.pool, names);
    return DT_FAIL(err, DT_E_CONFIG, "%s: no such pool; %s%s%s: %s",
        dt_session_asked(asked, s, "memory", "pool"), near != NULL ? "did you mean '" : "",
        near != NULL ? near : "", near != NULL ? "'? There are" : "there are", all);
}

/* A wrong name in one of the registries, before anything is built. */
static dt_status check_names(dt_session *s, dt_err *err)
{
    char asked[DT_ASKED];
    dt_status st = dt_policies_open(&s->policies, s->opts.memory.policy, s->config, err);
    if (st != DT_OK)
        (void)DT_FAIL(err, st, "%s", dt_session_asked(asked, s, "memory", "policy"));
    if (s->opts.device.kind == DT_DEVICE_CUDA && !dt_device_built(DT_CUDA))
        st = DT_FAIL(err, DT_E_CONFIG,
            "%s: this program was built without CUDA; device.kind = cpu, or auto, which takes "
            "what there is",
            dt_session_asked(asked, s, "device", "kind"));
    if (dt_pool_find(s->opts.memory.pool) == NULL)
        st = unknown_pool(s, err);
    return st;
}

static dt_status read_config(
    dt_session *s, const char *path, const char *const *sets, size_t n_sets, dt_err *err)
{
    DT_CHECK(dt_config_load(&s->config, path, err));
    dt_status st = DT_OK;
    for (size_t i = 0; i < n_sets; i++) {
        const dt_status one = dt_config_set(s->config, sets[i], err);
        st = st != DT_OK ? st : one;
    }
    DT_CHECK(st);
    st = dt_run_options_bind(s->config, &s->opts, err);
    dt_status names = st == DT_OK ? check_names(s, err) : st;
    dt_config_mark_known(s->config, DT_LAYER_FATES); /* its keys are globs, read with the graph */
    if (!dt_ini_has_layers(s->config)) { /* layer sections become known when the network is built */
        const dt_status known = dt_config_check_known(s->config, err);
        names = names != DT_OK ? names : known;
    }
    return names;
}

/* What device.kind says. Planning needs no card, so whether there is one is asked later. */
static dt_status choose_device(dt_session *s, dt_err *err)
{
    char asked[DT_ASKED];
    const int kind = s->opts.device.kind;
    const bool card =
        kind == DT_DEVICE_CUDA || (kind == DT_DEVICE_AUTO && dt_device_likely(DT_CUDA));
    s->device = card ? DT_CUDA : DT_CPU;
    DT_TRY(err, dt_device_load(s->device, err), "%s", dt_session_asked(asked, s, "device", "kind"));
    return DT_OK;
}

dt_status dt_session_meet(dt_session *s, dt_err *err)
{
    char asked[DT_ASKED];
    if (s->device == DT_CPU || s->card.bytes > 0)
        return DT_OK;
    DT_TRY(err, dt_device_facts(s->device, &s->card, err), "%s",
        dt_session_asked(asked, s, "device", "kind"));
    return DT_OK;
}

const char *dt_session_isa(const dt_session *s)
{
    return s->card.bytes > 0 ? s->card.about : dt_cpu_isa();
}

const char *dt_session_precision(const dt_session *s)
{
    return s->opts.train.precision == DT_PRECISION_TF32 ? "tf32" : dt_dtype_name(s->graph->dtype);
}

dt_status dt_session_open(
    dt_session **out, const char *path, const char *const *sets, size_t n_sets, dt_err *err)
{
    dt_session *s = *out = dt_alloc(1, sizeof *s);
    if (s == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a session");
    DT_CHECK(read_config(s, path, sets, n_sets, err));
    DT_CHECK(choose_device(s, err));
    s->threads = dt_cpu_setup((int)s->opts.device.threads); /* facts depend on it */
    DT_CHECK(build_graph(s, err));
    if (dt_ini_has_layers(s->config))
        DT_CHECK(dt_config_check_known(s->config, err));
    DT_CHECK(dt_config_check_dump(s->config, err));
    DT_CHECK(set_precision(s, err));
    DT_CHECK(dt_graph_check(s->graph, err));
    DT_CHECK(fuse(s, err));
    DT_CHECK(dt_layer_fates_open(&s->fates, s->config, s->graph, err));
    if (s->opts.memory.profile == NULL)
        return DT_OK;
    char asked[DT_ASKED];
    DT_TRY(err, dt_densities_open(&s->densities, s->opts.memory.profile, err), "%s",
        dt_session_asked(asked, s, "memory", "profile"));
    return DT_OK;
}

void dt_session_forget(dt_session *s)
{
    for (size_t i = 0; i < s->n_planned; i++) {
        dt_program_destroy(s->planned[i].program);
        dt_plan_destroy(s->planned[i].plan);
    }
    dt_free(s->planned);
    dt_map_destroy(s->map);
    s->planned = NULL;
    s->map = NULL;
    s->n_planned = s->cap_planned = 0;
    s->ways_chosen = false;
}

void dt_session_close(dt_session *s)
{
    if (s == NULL)
        return;
    dt_session_forget(s);
    dt_layer_fates_close(&s->fates);
    dt_densities_close(&s->densities);
    dt_policies_close(&s->policies);
    dt_graph_destroy(s->graph);
    dt_config_destroy(s->config);
    dt_free(s);
}

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
        .ops = {.sum = dt_layer_find("sum"),
            .commit = dt_layer_find("commit"),
            .optimizer = dt_layer_find(dt_optimizer_name(&s->opts.train))}};
    DT_CHECK(dt_program_create(&p->program, &o, err));
    if (p->kind != DT_PROGRAM_UPDATE) {
        const dt_pass_env env = {.device_budget = s->opts.memory.device_budget,
            .density = &s->densities,
            .dense = p->dense};
        DT_CHECK(dt_layer_fates_apply(&s->fates, p->program, &env, err));
        DT_CHECK(dt_policies_apply(&s->policies, p->program, &env, err));
    }
    const dt_lower_opts l = lower_opts(s);
    DT_CHECK(dt_lower(&p->plan, p->program, &l, err));
    return dt_verify(p->plan, err);
}

static dt_status plan_step(dt_session *s, int64_t samples, dt_err *err);

/* A step and an evaluation with the rooms as they are. */
typedef struct trial {
    dt_session s; /* another's graph and options; plans of its own */
    dt_fitted *all;
    size_t cap;
} trial;

static dt_status try_rooms(void *self, const dt_fitted **all, size_t *n, dt_err *err)
{
    trial *t = self;
    dt_session *s = &t->s;
    const dt_planned *p;
    dt_session_forget(s);
    s->ways_chosen = true;
    DT_CHECK(plan_step(s, s->opts.train.batch, err));
    DT_CHECK(dt_session_plan(s, DT_PROGRAM_UPDATE, 0, &p, err));
    DT_CHECK(dt_session_plan(s, DT_PROGRAM_EVAL, s->opts.train.micro_batch, &p, err));
    for (*n = 0; *n < s->n_planned; (*n)++) {
        if (!dt_grow((void **)&t->all, &t->cap, *n, sizeof *t->all))
            return DT_FAIL(err, DT_E_NOMEM, "no memory to choose algorithms");
        t->all[*n] = (dt_fitted){s->planned[*n].program, s->planned[*n].plan};
    }
    *all = t->all;
    return DT_OK;
}

static dt_status fit(const dt_session *s, dt_err *err)
{
    trial t = {.s = *s};
    t.s.map = NULL;
    t.s.planned = NULL;
    t.s.n_planned = t.s.cap_planned = 0;
    const dt_fit_env e = {
        .graph = s->graph, .budget = s->opts.memory.device_budget, .plan = try_rooms, .self = &t};
    const dt_status st = dt_fit_rooms(&e, err);
    dt_session_forget(&t.s);
    dt_free(t.all);
    return st;
}

/* As memory.algorithms says, once for all plans of a run. */
static dt_status choose_ways(dt_session *s, dt_err *err)
{
    const int how = s->opts.memory.algorithms;
    if (s->ways_chosen)
        return DT_OK;
    if (how == DT_ALGORITHMS_FIT)
        DT_CHECK(fit(s, err));
    else
        dt_set_rooms(s->graph, how == DT_ALGORITHMS_FAST ? DT_ROOM_ANY : DT_ROOM_LEAST);
    s->ways_chosen = true;
    return DT_OK;
}

static dt_status plan_as(
    dt_session *s, dt_program_kind kind, int64_t n, bool dense, const dt_planned **out, dt_err *err)
{
    for (size_t i = 0; i < s->n_planned; i++)
        if (s->planned[i].kind == kind && s->planned[i].n == n && s->planned[i].dense == dense) {
            *out = &s->planned[i];
            return DT_OK;
        }
    DT_CHECK(choose_ways(s, err));
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
