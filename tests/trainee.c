#include "tests/trainee.h"

#include <string.h>

#include "engine/base/alloc.h"
#include "layers/avgpool.h"
#include "layers/batchnorm.h"
#include "layers/conv.h"
#include "layers/fc.h"
#include "layers/plain.h"
#include "memory/lower/lower.h"
#include "memory/tier.h"
#include "memory/verify/verify.h"
#include "tests/check.h"
#include "tests/planned.h"
#include "tests/random_graph.h"

enum { CLASSES = 10 };

static void add(dt_graph *g, const dt_layer_desc *desc, const char *name, const void *opts)
{
    const int32_t in = (int32_t)g->n_node - 1;
    int32_t id;
    dt_err err = {0};
    assert_ok(dt_graph_add(g, desc, name, opts, &in, 1, &id, &err), &err);
}

dt_graph *dt_trainee_plain(void)
{
    static const dt_conv conv = {8, 3, 1, 1, 1, 1, true};
    static const dt_batchnorm norm = {.eps = 1e-5, .momentum = 0.1};
    static const dt_avgpool mean = {.kernel = 2, .stride = 2, .include_pad = true};
    static const dt_fc out = {CLASSES, true};
    dt_graph *g;
    dt_err err = {0};
    assert_ok(dt_graph_create(&g, "plain", (dt_shape){1, 32, 32, 3}, CLASSES, &err), &err);
    add(g, &dt_layer_conv, "conv1", &conv);
    add(g, &dt_layer_batchnorm, "bn1", &norm);
    add(g, &dt_layer_relu, "relu1", NULL);
    add(g, &dt_layer_conv, "conv2", &conv);
    add(g, &dt_layer_relu, "relu2", NULL);
    add(g, &dt_layer_avgpool, "pool1", &mean);
    add(g, &dt_layer_conv, "conv3", &conv);
    add(g, &dt_layer_relu, "relu3", NULL);
    add(g, &dt_layer_conv, "conv4", &conv);
    add(g, &dt_layer_relu, "relu4", NULL);
    add(g, &dt_layer_fc, "fc", &out);
    add(g, &dt_layer_cross_entropy, "loss", NULL);
    return g;
}

dt_graph *dt_trainee_resnet(void)
{
    const dt_model_opts o = {.classes = CLASSES, .image = 32, .width = 8, .dropout = -1};
    dt_graph *g;
    dt_err err = {0};
    assert_ok(dt_model_build(dt_model_find("resnet18"), &o, &g, &err), &err);
    return g;
}

static void move_tightly(dt_program *p)
{
    dt_err err = {0};
    dt_gap g;
    assert_ok(dt_program_index(p, &err), &err);
    for (size_t t = 0; t < p->n_tensor; t++)
        for (int32_t i = 0; dt_gap_next(p, (int32_t)t, &i, &g);)
            if (g.crosses_loss && p->op[g.from].kind == DT_OP_FORWARD) {
                assert_ok(dt_move(p, &g, NULL, &err), &err);
                break;
            }
}

static void pack_moves(dt_program *p, const dt_trainee_opts *o)
{
    for (size_t i = 0; o->codec != NULL && i < p->n_order; i++) {
        dt_op *op = &p->op[p->order[i]];
        const dt_tensor *t = &p->tensor[op->arg[0].tensor];
        if ((op->kind != DT_OP_OUT && op->kind != DT_OP_IN) || !dt_packs(t))
            continue;
        op->codec = o->codec;
        op->count = (int64_t)(t->bytes / sizeof(float));
        op->stored = dt_packed_bytes(o->codec, (size_t)op->count, o->density);
    }
}

static void encode_kept(dt_program *p, const dt_trainee_opts *o)
{
    dt_err err = {0};
    assert_ok(dt_program_index(p, &err), &err);
    for (size_t t = 0, n = p->n_tensor; o->encode != NULL && t < n; t++) {
        dt_gap g;
        int32_t packed;
        if (strstr(p->tensor[t].name, "relu") == NULL || !dt_packs(&p->tensor[t]))
            continue;
        for (int32_t i = 0; dt_gap_next(p, (int32_t)t, &i, &g);)
            if (g.crosses_loss) {
                assert_ok(dt_encode(p, &g, o->encode, o->encode_density, &packed, &err), &err);
                break;
            }
    }
}

static void make_plan(dt_trainee *t, int kind, const dt_trainee_opts *o)
{
    const char *policies = o->policies != NULL ? o->policies : "vdnn_all";
    dt_program **p = &t->program[kind];
    dt_err err = {0};
    const dt_program_opts po = {t->graph, t->map, DT_CPU, (dt_program_kind)kind, DT_TRAINEE_BATCH,
        DT_TRAINEE_BATCH,
        {&dt_layer_sum, &dt_layer_commit, o->optimizer != NULL ? o->optimizer : &dt_layer_sgd}};
    const dt_lower_opts lo = {.pool = dt_pool_find("greedy"), .policy = policies, .tier = o->tier};
    assert_ok(dt_program_create(p, &po, &err), &err);
    if (kind != DT_PROGRAM_UPDATE) {
        dt_rewrite(*p, policies);
        if (o->tight)
            move_tightly(*p);
        pack_moves(*p, o);
        encode_kept(*p, o);
    }
    assert_ok(dt_lower(&t->plan[kind], *p, &lo, &err), &err);
    assert_ok(dt_verify(t->plan[kind], &err), &err);
    if (kind == (int)o->edited && o->edit != NULL)
        o->edit(t->plan[kind], o->arg);
}

static void make_runner(dt_trainee *t, const dt_trainee_opts *o)
{
    const dt_tier tier = o->tier == DT_TIER_DISK ? DT_TIER_DISK : DT_TIER_HOST;
    dt_err err = {0};
    dt_runner_opts ro = {.graph = t->graph,
        .map = t->map,
        .device = DT_CPU,
        .driver = o->driver,
        .replay = o->replay,
        .disk_path = dt_temp_path(""),
        .copy_threads = o->copy_threads,
        .seed = 7,
        .delay_seed = o->delay_seed,
        .threads = 1};
    ro.tier[tier] = o->desc != NULL ? o->desc : dt_tier_desc_find(dt_tier_name((int)tier));
    for (int k = 0; k < DT_PROGRAM_KINDS; k++) {
        const dt_plan *p = t->plan[k];
        const uint64_t moved = tier == DT_TIER_DISK ? p->disk_peak : p->host_peak;
        ro.arena_bytes = p->peak > ro.arena_bytes ? p->peak : ro.arena_bytes;
        ro.tier_bytes[tier] = moved > ro.tier_bytes[tier] ? moved : ro.tier_bytes[tier];
    }
    assert_ok(dt_runner_create(&t->runner, &ro, &err), &err);
    for (int k = 0; k < DT_PROGRAM_KINDS; k++)
        assert_ok(dt_runner_add(t->runner, t->program[k], t->plan[k], &t->id[k], &err), &err);
}

dt_trainee dt_trainee_open(dt_graph *g, const dt_trainee_opts *o)
{
    dt_trainee t = {.graph = g};
    dt_err err = {0};
    assert_ok(dt_map_create(&t.map, g, DT_CPU, DT_TRAINEE_BATCH, 1, &err), &err);
    for (int k = 0; k < DT_PROGRAM_KINDS; k++)
        make_plan(&t, k, o);
    make_runner(&t, o);
    const size_t n = DT_TRAINEE_BATCH * DT_TRAINEE_MICROS;
    const size_t floats = n * (size_t)dt_shape_sample(&g->input);
    dt_dice d = {11, 0};
    t.x = dt_alloc(floats, sizeof *t.x);
    t.labels = dt_alloc(n, sizeof *t.labels);
    assert_true(t.x != NULL && t.labels != NULL);
    for (size_t i = 0; i < floats; i++)
        t.x[i] = (float)dt_roll(&d, 2001) / 1000.0F - 1.0F;
    for (size_t i = 0; i < n; i++)
        t.labels[i] = (int32_t)dt_roll(&d, CLASSES);
    assert_ok(dt_runner_init(t.runner, &err), &err);
    return t;
}

void dt_trainee_close(dt_trainee *t)
{
    dt_runner_destroy(t->runner);
    for (int k = 0; k < DT_PROGRAM_KINDS; k++) {
        dt_plan_destroy(t->plan[k]);
        dt_program_destroy(t->program[k]);
    }
    dt_map_destroy(t->map);
    dt_graph_destroy(t->graph);
    dt_free(t->x);
    dt_free(t->labels);
}

dt_run_args dt_trainee_args(const dt_trainee *t, int64_t step, int micro)
{
    return (dt_run_args){.batch = {t->x + micro * DT_TRAINEE_BATCH * dt_runner_sample(t->runner),
                             t->labels + micro * DT_TRAINEE_BATCH, DT_TRAINEE_BATCH},
        .sample0 = (int64_t)micro * DT_TRAINEE_BATCH,
        .step = step,
        .step_samples = DT_TRAINEE_MICROS * DT_TRAINEE_BATCH,
        .hyper = {0.02F, 0.9F, 0.0005F}};
}

dt_status dt_trainee_run(dt_trainee *t, dt_program_kind kind, dt_err *err)
{
    const dt_run_args a = dt_trainee_args(t, 0, 0);
    return dt_runner_run(t->runner, t->id[kind], &a, err);
}

dt_status dt_trainee_step(dt_trainee *t, int64_t step, dt_err *err)
{
    dt_run_args a = {0};
    for (int i = 0; i < DT_TRAINEE_MICROS; i++) {
        a = dt_trainee_args(t, step, i);
        const int kind = i == 0 ? DT_PROGRAM_FIRST : DT_PROGRAM_AGAIN;
        DT_CHECK(dt_runner_run(t->runner, t->id[kind], &a, err));
    }
    return dt_runner_run(t->runner, t->id[DT_PROGRAM_UPDATE], &a, err);
}

unsigned char *dt_trainee_train(dt_trainee *t, int64_t steps)
{
    dt_err err = {0};
    assert_ok(dt_runner_init(t->runner, &err), &err);
    for (int64_t step = 0; step < steps; step++)
        assert_ok(dt_trainee_step(t, step, &err), &err);
    unsigned char *state = dt_alloc(t->map->bytes, 1);
    assert_non_null(state);
    return memcpy(state, dt_runner_home(t->runner, 0), t->map->bytes);
}

bool dt_trainee_same(
    const dt_trainee *t, const unsigned char *want, const unsigned char *got, const char *what)
{
    for (size_t i = 0; i < t->map->n; i++) {
        const dt_home *h = &t->map->home[i];
        if (memcmp(want + h->off, got + h->off, h->bytes) == 0)
            continue;
        if (what != NULL)
            fail_msg("%s: %s has other bits", what, h->name);
        return false;
    }
    return true;
}
