#include "tests/exactness.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/cpu.h"
#include "engine/graph_fuse.h"
#include "engine/runner/runner.h"
#include "layers/attention.h"
#include "layers/onednn/onednn.h"
#include "layers/plain.h"
#include "memory/lower/lower.h"
#include "memory/policies/layers.h"
#include "memory/tier.h"
#include "memory/verify/verify.h"
#include "models/ini.h"
#include "tests/check.h"
#include "tests/random_graph.h"

enum { STEPS = 4, BATCH = 4, CLASSES = 10, MOST_MICRO = 2, IMAGE = 32, NETWORKS = 5, WIDE = 7 };

/* A model, in small; or a file of configs/. @recipe: instead of the model's own. */
typedef struct network {
    const char *name, *file, *model;
    const void *recipe;
    dt_model_opts o;
} network;

static const int few_blocks = 2;
static const int few_layers[] = {2, 2, 2, 2};

static const network networks[NETWORKS + WIDE] = {{"lenet5", .model = "lenet5", .o = {.image = 28}},
    {"resnet18", .model = "resnet18", .o = {.image = IMAGE, .width = 8}},
    {"vgg11", .model = "vgg11", .o = {.image = 224, .width = 8}},
    {"densenet_small", .file = "configs/densenet_small.ini"},
    {"unet_small", .file = "configs/unet_small.ini"},
    {"gpt2, efficient", .model = "gpt2",
        .o = {.layers = 2,
            .heads = 2,
            .width = 16,
            .context = 24,
            .attention = DT_ATTENTION_EFFICIENT}},
    {"gpt2, naive", .model = "gpt2",
        .o =
            {.layers = 2, .heads = 2, .width = 16, .context = 24, .attention = DT_ATTENTION_NAIVE}},
    {"vit_small", .model = "vit_small",
        .o = {.layers = 3, .heads = 2, .width = 48, .image = 4 * IMAGE}},
    {"googlenet", .model = "googlenet", .o = {.image = IMAGE, .width = 8}},
    {"densenet", .model = "densenet121", few_layers, {.image = IMAGE, .width = 16}},
    {"preact", .model = "resnet1001", &few_blocks, {.image = IMAGE, .width = 16}},
    {"unet", .model = "unet", .o = {.image = IMAGE, .width = 8}}};

/* @ini: sections that go with it. Room for packed values is made too small on purpose in some, so
 * that steps are run again. */
typedef struct method {
    const char *name, *policies, *ini;
} method;

static const method methods[] = {
    {"network_wide", "network_wide", ""},
    {"vdnn_conv", "vdnn_conv", ""},
    {"vdnn_all", "vdnn_all", ""},
    {"cdma", "cdma", ""},
    {"cdma, room for 60 %", "cdma", "[policy.cdma]\ndensity = 0.6\n"},
    {"chen_sqrt", "chen_sqrt", ""},
    {"chen_cheap", "chen_cheap", ""},
    {"chen_budget", "chen_budget", ""},
    {"chen_recursive", "chen_recursive", ""},
    {"gist_lossless", "gist_lossless", ""},
    {"gist_lossless, room for 70 %", "gist_lossless", "[policy.gist_lossless]\ndensity = 0.7\n"},
    {"gist_lossless, vdnn_all", "gist_lossless,vdnn_all",
        "[policy.gist_lossless]\ndensity = 0.75\n"},
    {"gist_lossless, chen_cheap", "gist_lossless,chen_cheap", ""},
    {"chen_sqrt, vdnn_conv", "chen_sqrt,vdnn_conv", ""},
    {"vdnn_conv, chen_sqrt", "vdnn_conv,chen_sqrt", ""},
    {"chen_cheap, cdma", "chen_cheap,cdma", ""},
    {"move, recompute by name", "keep_all", "[memory.layers]\n* = recompute\n*1* = move\n"},
    {"encode, move packed by name", "keep_all",
        "[memory.layers]\n* = encode csr\n*1* = move zvc\nloss = keep\n"},
    {"encode and move by name", "keep_all",
        "[memory.layers]\n* = encode csr move disk\n*1* = encode zvc move\n"},
    {"encode by name, vdnn_all", "vdnn_all", "[memory.layers]\n*1* = encode zvc\n"},
};

static const char *const tiers[] = {"host", "disk"};
static const char *const copies[] = {"inline", "copy threads"};
static const char *const delays[] = {"no delays", "delays"};
static const char *const micros[] = {"1 micro-batch", "2 micro-batches"};
static const char *const fusion[] = {"unfused", "fused"};
static const char *const rooms[] = {"fast ways", "small ways", "mixed ways"};

int dt_levels(dt_factor f)
{
    if (f == DT_BY_PRECISION)
        return dt_onednn_avx512() ? 2 : 1;
    if (f == DT_BY_ROOMS)
        return DT_COUNT(rooms);
    return f == DT_BY_NETWORK ? NETWORKS : f == DT_BY_POLICY ? (int)DT_COUNT(methods) : 2;
}

int dt_wide_networks(void)
{
    return WIDE;
}

const char *dt_level_name(dt_factor f, int level)
{
    static const char *const *const names[DT_FACTORS] = {[DT_BY_TIER] = tiers,
        [DT_BY_COPY] = copies,
        [DT_BY_DELAY] = delays,
        [DT_BY_MICRO] = micros,
        [DT_BY_FUSE] = fusion,
        [DT_BY_ROOMS] = rooms};
    if (f == DT_BY_PRECISION)
        return dt_dtype_name((dt_dtype)level);
    return f == DT_BY_NETWORK  ? networks[level].name
           : f == DT_BY_POLICY ? methods[level].name
                               : names[f][level];
}

void dt_way_text(const dt_way *w, char *to, int bytes)
{
    int at = 0;
    for (int f = 0; f < DT_FACTORS && at < bytes; f++)
        at += snprintf(to + at, (size_t)(bytes - at), "%s%s", f > 0 ? ", " : "",
            dt_level_name((dt_factor)f, w->level[f]));
}

/* ---- a network and its plans ---- */

typedef struct trainee {
    dt_graph *graph;
    dt_map *map;
    dt_config *config; /* of the method */
    dt_policies policies;
    dt_layer_fates fates;
    dt_program *program[2][DT_PROGRAM_KINDS]; /* [1]: for steps whose packed values did not fit */
    dt_plan *plan[2][DT_PROGRAM_KINDS];
    int id[2][DT_PROGRAM_KINDS];
    dt_runner *runner;
    float *x;
    int32_t *labels;
    dt_exactness seen;
} trainee;

static dt_graph *build(const network *net)
{
    dt_graph *g = NULL;
    dt_err err = {0};
    if (net->file == NULL) {
        dt_model_desc m = *dt_model_find(net->model);
        dt_model_opts o = net->o;
        o.classes = CLASSES;
        o.dropout = -1;
        m.recipe = net->recipe != NULL ? net->recipe : m.recipe;
        assert_ok(dt_model_build(&m, &o, &g, &err), &err);
        return g;
    }
    dt_config *c;
    assert_ok(dt_config_load(&c, dt_source_path(net->file), &err), &err);
    const dt_model_opts o = {.image = IMAGE, .dropout = -1};
    assert_ok(dt_ini_network(c, &o, &g, &err), &err);
    dt_config_destroy(c);
    return g;
}

static dt_graph *graph_of(const dt_way *w)
{
    dt_graph *g = build(&networks[w->level[DT_BY_NETWORK]]), *fused = g;
    dt_err err = {0};
    g->dtype = (dt_dtype)w->level[DT_BY_PRECISION];
    if (w->level[DT_BY_FUSE] == 1) {
        assert_ok(dt_graph_fuse(&fused, g, &err), &err);
        dt_graph_destroy(g);
    }
    for (size_t i = 0; i < DT_ROOMS * fused->n_node && w->level[DT_BY_ROOMS] > 0; i++)
        if (w->level[DT_BY_ROOMS] == 1 || i % 4 < 2)
            fused->node[i / DT_ROOMS].room[i % DT_ROOMS] = DT_ROOM_LEAST;
    return fused;
}

static void plan(trainee *t, const dt_way *w, bool dense, dt_program_kind k)
{
    static const char *const pools[] = {"greedy", "best_fit"};
    dt_err err = {0};
    const dt_program_opts o = {t->graph, t->map, DT_CPU, k, BATCH, BATCH,
        {&dt_layer_sum, &dt_layer_commit, &dt_layer_sgd}};
    dt_program **p = &t->program[dense][k];
    assert_ok(dt_program_create(p, &o, &err), &err);
    const dt_pass_env env = {.dense = dense};
    if (k != DT_PROGRAM_UPDATE) {
        assert_ok(dt_layer_fates_apply(&t->fates, *p, &env, &err), &err);
        assert_ok(dt_policies_apply(&t->policies, *p, &env, &err), &err);
    }
    const dt_lower_opts l = {.pool = dt_pool_find(pools[w->seed % 2]),
        .policy = "exactness",
        .tier = w->level[DT_BY_TIER] == 1 ? DT_TIER_DISK : DT_TIER_HOST};
    assert_ok(dt_lower(&t->plan[dense][k], *p, &l, &err), &err);
    assert_ok(dt_verify(t->plan[dense][k], &err), &err);
}

static void at_least(uint64_t *a, uint64_t b)
{
    *a = b > *a ? b : *a;
}

static void plan_all(trainee *t, const dt_way *w)
{
    dt_err err = {0};
    const bool slow = w->level[DT_BY_DELAY] == 1;
    dt_runner_opts o = {.graph = t->graph,
        .map = t->map,
        .device = DT_CPU,
        .tier = {[DT_TIER_HOST] = dt_tier_desc_find("host"),
            [DT_TIER_DISK] = dt_tier_desc_find("disk")},
        .disk_path = "/tmp",
        .checksum = true,
        .copy_threads = w->level[DT_BY_COPY] == 1,
        .delay_seed = slow ? w->seed + 1 : 0,
        .seed = 7,
        .threads = 1};
    for (int k = 0; k < 2 * DT_PROGRAM_KINDS; k++) {
        plan(t, w, k >= DT_PROGRAM_KINDS, (dt_program_kind)(k % DT_PROGRAM_KINDS));
        const dt_plan *p = t->plan[k / DT_PROGRAM_KINDS][k % DT_PROGRAM_KINDS];
        at_least(&o.arena_bytes, p->peak);
        at_least(&o.tier_bytes[DT_TIER_HOST], p->host_peak);
        at_least(&o.tier_bytes[DT_TIER_DISK], p->disk_peak);
        t->seen.moved += p->out_bytes;
        if (k < DT_PROGRAM_KINDS)
            at_least(&t->seen.peak, p->peak);
    }
    assert_ok(dt_runner_create(&t->runner, &o, &err), &err);
    for (int d = 0; d < 2; d++)
        for (int k = 0; k < DT_PROGRAM_KINDS; k++)
            assert_ok(dt_runner_add(t->runner, t->program[d][k], t->plan[d][k], &t->id[d][k], &err),
                &err);
}

static void make_batch(trainee *t)
{
    dt_dice d = {11, 0};
    const size_t n = MOST_MICRO * BATCH, floats = n * (size_t)dt_shape_sample(&t->graph->input);
    t->x = dt_alloc(floats, sizeof *t->x);
    const size_t labels = n * (size_t)dt_graph_labels(t->graph);
    const bool ids = t->graph->node[0].desc->reads_ids;
    t->labels = dt_alloc(labels, sizeof *t->labels);
    assert_true(t->x != NULL && t->labels != NULL);
    for (size_t i = 0; i < floats; i++)
        t->x[i] = ids ? (float)dt_roll(&d, CLASSES) : (float)dt_roll(&d, 2001) / 1000.0F - 1.0F;
    for (size_t i = 0; i < labels; i++)
        t->labels[i] = (int32_t)dt_roll(&d, CLASSES);
}

static trainee open_trainee(const dt_way *w, const method *m)
{
    trainee t = {.graph = graph_of(w)};
    dt_err err = {0};
    char ini[512];
    snprintf(ini, sizeof ini, "[memory]\npolicy = %s\n%s", m->policies, m->ini);
    assert_int_equal(dt_cpu_setup(1), 1);
    assert_ok(dt_map_create(&t.map, t.graph, DT_CPU, BATCH, 1, &err), &err);
    assert_ok(dt_config_parse(&t.config, "method", ini, strlen(ini), &err), &err);
    assert_ok(dt_policies_open(&t.policies, m->policies, t.config, &err), &err);
    assert_ok(dt_layer_fates_open(&t.fates, t.config, t.graph, &err), &err);
    assert_true(dt_policies_exact(&t.policies) && dt_layer_fates_exact(&t.fates));
    plan_all(&t, w);
    make_batch(&t);
    return t;
}

static void close_trainee(trainee *t)
{
    dt_runner_destroy(t->runner);
    for (int d = 0; d < 2; d++)
        for (int k = 0; k < DT_PROGRAM_KINDS; k++) {
            dt_plan_destroy(t->plan[d][k]);
            dt_program_destroy(t->program[d][k]);
        }
    dt_layer_fates_close(&t->fates);
    dt_policies_close(&t->policies);
    dt_config_destroy(t->config);
    dt_map_destroy(t->map);
    dt_graph_destroy(t->graph);
    dt_free(t->x);
    dt_free(t->labels);
}

/* ---- training ---- */

static dt_run_args args_of(const trainee *t, int64_t step, int micro, int of)
{
    return (dt_run_args){.batch = {t->x + micro * BATCH * dt_runner_sample(t->runner),
                             t->labels + micro * BATCH * dt_runner_labels(t->runner), BATCH},
        .sample0 = (int64_t)micro * BATCH,
        .step = step,
        .step_samples = (int64_t)of * BATCH,
        .hyper = {.lr = 0.02F, .momentum = 0.9F, .weight_decay = 0.0005F}};
}

/* What each plan that works on a batch takes is what it says. */
static void measure(const trainee *t, const char *what)
{
    for (int i = 0; i < 2 * DT_PROGRAM_KINDS; i++) {
        const int d = i / DT_PROGRAM_KINDS, k = i % DT_PROGRAM_KINDS;
        const dt_run_args a = args_of(t, 0, 0, 1);
        dt_measure m;
        dt_err err = {0};
        assert_ok(dt_runner_check(t->runner, t->id[d][k], &a, &m, &err), &err);
        const uint64_t planned = t->plan[d][k]->peak;
        if (k == DT_PROGRAM_UPDATE ? m.peak > planned : m.peak != planned)
            fail_msg("%s, %s: planned %" PRIu64 " bytes, measured %" PRIu64, what,
                dt_program_kind_name((dt_program_kind)k), planned, m.peak);
    }
}

/* False when packed values did not fit. */
static bool gradients(const trainee *t, int dense, int64_t step, int of)
{
    dt_err err = {0};
    for (int i = 0; i < of; i++) {
        const dt_run_args a = args_of(t, step, i, of);
        const int id = t->id[dense][i == 0 ? DT_PROGRAM_FIRST : DT_PROGRAM_AGAIN];
        assert_ok(dt_runner_run(t->runner, id, &a, &err), &err);
        if (dt_runner_overflowed(t->runner))
            return false;
    }
    return true;
}

/* All that outlives a step, after training; the caller frees it. */
static unsigned char *train(trainee *t, int of)
{
    dt_err err = {0};
    assert_ok(dt_runner_init(t->runner, &err), &err);
    for (int64_t step = 0; step < STEPS; step++) {
        if (!gradients(t, 0, step, of)) {
            t->seen.reruns++;
            assert_true(gradients(t, 1, step, of));
        }
        int32_t bad;
        assert_ok(dt_runner_nonfinite(t->runner, DT_DP, &bad, &err), &err);
        assert_int_equal(bad, -1);
        const dt_run_args a = args_of(t, step, 0, of);
        assert_ok(dt_runner_run(t->runner, t->id[0][DT_PROGRAM_UPDATE], &a, &err), &err);
    }
    const dt_run_args a = args_of(t, STEPS, 0, 1);
    assert_ok(dt_runner_run(t->runner, t->id[0][DT_PROGRAM_EVAL], &a, &err), &err);
    unsigned char *state = dt_alloc(t->map->bytes, 1);
    assert_non_null(state);
    memcpy(state, dt_runner_home(t->runner, 0), t->map->bytes);
    return state;
}

/* ---- comparisons ---- */

/* What keep_all leaves; made once. */
static struct kept {
    unsigned char *state;
    uint64_t peak;
} kept[NETWORKS + WIDE][MOST_MICRO][2][DT_DTYPES][DT_COUNT(rooms)];

/* All has changed, or the comparison would compare nothing. */
static void has_trained(trainee *t, const unsigned char *state)
{
    dt_err err = {0};
    assert_ok(dt_runner_init(t->runner, &err), &err);
    const unsigned char *start = dt_runner_home(t->runner, 0);
    for (size_t i = 0; i < t->map->n; i++) {
        const dt_home *h = &t->map->home[i];
        assert_memory_not_equal(start + h->off, state + h->off, h->bytes);
    }
}

static const struct kept *keeping_all(const dt_way *w)
{
    const int micro = w->level[DT_BY_MICRO];
    struct kept *k = &kept[w->level[DT_BY_NETWORK]][micro][w->level[DT_BY_FUSE]]
                          [w->level[DT_BY_PRECISION]][w->level[DT_BY_ROOMS]];
    if (k->state != NULL)
        return k;
    static const method keep_all = {"keep_all", "keep_all", ""};
    dt_way plain = *w;
    plain.level[DT_BY_TIER] = plain.level[DT_BY_COPY] = plain.level[DT_BY_DELAY] = 0;
    trainee t = open_trainee(&plain, &keep_all);
    k->state = train(&t, micro + 1);
    k->peak = t.seen.peak;
    has_trained(&t, k->state);
    close_trainee(&t);
    return k;
}

void dt_exactness_end(void)
{
    struct kept *all = &kept[0][0][0][0][0];
    for (size_t i = 0; i < sizeof kept / sizeof *all; i++) {
        dt_free(all[i].state);
        all[i].state = NULL;
    }
}

dt_exactness dt_assert_exact(const dt_way *w)
{
    char what[256];
    dt_way_text(w, what, sizeof what);
    const struct kept *k = keeping_all(w);
    trainee t = open_trainee(w, &methods[w->level[DT_BY_POLICY]]);
    measure(&t, what);
    unsigned char *got = train(&t, w->level[DT_BY_MICRO] + 1);
    for (size_t i = 0; i < t.map->n; i++) {
        const dt_home *h = &t.map->home[i];
        if (memcmp(k->state + h->off, got + h->off, h->bytes) != 0)
            fail_msg("%s: %s has other bits than under keep_all", what, h->name);
    }
    dt_free(got);
    t.seen.kept_peak = k->peak;
    const dt_exactness seen = t.seen;
    close_trainee(&t);
    return seen;
}
