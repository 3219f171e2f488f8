/* What every exact policy promises: after some steps parameters, optimizer state and buffers are,
 * bit for bit, those of keep_all; and every plan takes the bytes it says. A new policy is found in
 * the list of all; combinations are rows below. */
#include <inttypes.h>
#include <string.h>

#include "engine/alloc.h"
#include "engine/cpu.h"
#include "engine/runner.h"
#include "layers/avgpool.h"
#include "layers/conv.h"
#include "layers/dropout.h"
#include "layers/fc.h"
#include "layers/maxpool.h"
#include "layers/plain.h"
#include "memory/policy.h"
#include "tests/check.h"
#include "tests/planned.h"
#include "tests/random_graph.h"

enum { STEPS = 4, BATCH = 4, CLASSES = 10, MOST_MICRO = 2 };

/* Policies one after the other, besides each exact one by itself. */
static const char *const combinations[] = {
    "vdnn_conv,vdnn_all", "chen_sqrt,vdnn_conv", "chen_cheap,vdnn_all", "vdnn_conv,chen_sqrt"};

/* --- small networks --- */

static dt_graph *model(const char *name, int64_t image, int64_t width)
{
    const dt_model_opts o = {.classes = CLASSES, .image = image, .width = width, .dropout = -1};
    dt_graph *g;
    dt_err err = {0};
    assert_ok(dt_model_build(dt_model_find(name), &o, &g, &err), &err);
    return g;
}

static dt_graph *lenet(void)
{
    return model("lenet5", 28, 64);
}

static dt_graph *resnet(void)
{
    return model("resnet18", 32, 8);
}

static void add(dt_graph *g, const dt_layer_desc *desc, const char *name, const void *opts)
{
    const int32_t in = (int32_t)g->n_node - 1;
    int32_t id;
    dt_err err = {0};
    assert_ok(dt_graph_add(g, desc, name, opts, &in, 1, &id, &err), &err);
}

/* VGG's parts at 32 pixels: convolutions with ReLU, both pools, a classifier with dropout. */
static dt_graph *vgg(void)
{
    static const dt_conv narrow = {8, 3, 1, 1, 1, 1, true}, wide = {16, 3, 1, 1, 1, 1, true};
    static const dt_maxpool halve = {2, 2, 0, false};
    static const dt_avgpool mean = {.kernel = 2, .stride = 2, .include_pad = true};
    static const dt_fc hidden = {32, true}, out = {CLASSES, true};
    static const dt_dropout half = {0.5};
    dt_graph *g;
    dt_err err = {0};
    assert_ok(dt_graph_create(&g, "vgg", (dt_shape){1, 32, 32, 3}, CLASSES, &err), &err);
    add(g, &dt_layer_conv, "conv1", &narrow);
    add(g, &dt_layer_relu, "relu1", NULL);
    add(g, &dt_layer_conv, "conv2", &narrow);
    add(g, &dt_layer_relu, "relu2", NULL);
    add(g, &dt_layer_maxpool, "pool1", &halve);
    add(g, &dt_layer_conv, "conv3", &wide);
    add(g, &dt_layer_relu, "relu3", NULL);
    add(g, &dt_layer_dropout, "drop0", &half);
    add(g, &dt_layer_conv, "conv4", &wide);
    add(g, &dt_layer_relu, "relu4", NULL);
    add(g, &dt_layer_avgpool, "pool2", &mean);
    add(g, &dt_layer_fc, "fc1", &hidden);
    add(g, &dt_layer_relu, "relu5", NULL);
    add(g, &dt_layer_dropout, "drop1", &half);
    add(g, &dt_layer_fc, "fc2", &out);
    add(g, &dt_layer_cross_entropy, "loss", NULL);
    return g;
}

static const struct network {
    const char *name;
    dt_graph *(*build)(void);
} networks[] = {{"lenet5", lenet}, {"resnet18", resnet}, {"vgg", vgg}};

/* --- a training run --- */

typedef struct trainee {
    dt_graph *graph;
    dt_map *map;
    dt_planned planned[DT_PROGRAM_KINDS];
    int id[DT_PROGRAM_KINDS];
    dt_runner *runner;
    float *x;
    int32_t *labels;
    uint64_t moved, peak;
} trainee;

static void plan_all(trainee *t, const char *policies)
{
    dt_err err = {0};
    dt_runner_opts o = {.graph = t->graph, .device = DT_CPU, .seed = 7, .threads = 1};
    for (int k = 0; k < DT_PROGRAM_KINDS; k++) {
        dt_planned *m = &t->planned[k];
        const dt_program_opts po = {t->graph, t->map, DT_CPU, (dt_program_kind)k, BATCH, BATCH,
            {&dt_layer_sum, &dt_layer_commit, &dt_layer_sgd}};
        assert_ok(dt_program_create(&m->program, &po, &err), &err);
        if (k != DT_PROGRAM_UPDATE)
            dt_rewrite(m->program, policies);
        m->plan = dt_planned_by(m->program, policies, "greedy");
        o.arena_bytes = m->plan->peak > o.arena_bytes ? m->plan->peak : o.arena_bytes;
        o.host_bytes = m->plan->host_peak > o.host_bytes ? m->plan->host_peak : o.host_bytes;
        t->moved += m->plan->out_bytes;
    }
    o.map = t->map;
    t->peak = o.arena_bytes;
    assert_ok(dt_runner_create(&t->runner, &o, &err), &err);
    for (int k = 0; k < DT_PROGRAM_KINDS; k++)
        assert_ok(
            dt_runner_add(t->runner, t->planned[k].program, t->planned[k].plan, &t->id[k], &err),
            &err);
}

static trainee open_trainee(const struct network *net, const char *policies)
{
    trainee t = {.graph = net->build()};
    dt_err err = {0};
    assert_int_equal(dt_cpu_setup(1), 1);
    assert_ok(dt_map_create(&t.map, t.graph, DT_CPU, BATCH, 1, &err), &err);
    plan_all(&t, policies);
    dt_dice d = {11, 0};
    const size_t n = MOST_MICRO * BATCH, floats = n * (size_t)dt_shape_sample(&t.graph->input);
    t.x = dt_alloc(floats, sizeof *t.x);
    t.labels = dt_alloc(n, sizeof *t.labels);
    assert_true(t.x != NULL && t.labels != NULL);
    for (size_t i = 0; i < floats; i++)
        t.x[i] = (float)dt_roll(&d, 2001) / 1000.0F - 1.0F;
    for (size_t i = 0; i < n; i++)
        t.labels[i] = (int32_t)dt_roll(&d, CLASSES);
    return t;
}

static void close_trainee(trainee *t)
{
    dt_runner_destroy(t->runner);
    for (int k = 0; k < DT_PROGRAM_KINDS; k++) {
        dt_plan_destroy(t->planned[k].plan);
        dt_program_destroy(t->planned[k].program);
    }
    dt_map_destroy(t->map);
    dt_graph_destroy(t->graph);
    dt_free(t->x);
    dt_free(t->labels);
}

static dt_run_args args_of(const trainee *t, int64_t step, int micro, int micros)
{
    return (dt_run_args){.batch = {t->x + micro * BATCH * dt_runner_sample(t->runner),
                             t->labels + micro * BATCH, BATCH},
        .sample0 = (int64_t)micro * BATCH,
        .step = step,
        .step_samples = (int64_t)micros * BATCH,
        .hyper = {0.02F, 0.9F, 0.0005F}};
}

/* What each plan that works on a batch takes is what it says. */
static void measure(trainee *t, const char *what)
{
    for (int k = 0; k < DT_PROGRAM_KINDS; k++) {
        const dt_run_args a = args_of(t, 0, 0, 1);
        dt_measure m;
        dt_err err = {0};
        assert_ok(dt_runner_check(t->runner, t->id[k], &a, &m, &err), &err);
        const uint64_t planned = t->planned[k].plan->peak;
        if (k == DT_PROGRAM_UPDATE ? m.peak > planned : m.peak != planned)
            fail_msg("%s, %s: planned %" PRIu64 " bytes, measured %" PRIu64, what,
                dt_program_kind_name((dt_program_kind)k), planned, m.peak);
    }
}

/* All that outlives a step, after training; the caller frees it. */
static unsigned char *train(trainee *t, int micros)
{
    dt_err err = {0};
    assert_ok(dt_runner_init(t->runner, &err), &err);
    for (int64_t step = 0; step < STEPS; step++) {
        dt_run_args a = {0};
        for (int i = 0; i < micros; i++) {
            a = args_of(t, step, i, micros);
            const int id = t->id[i == 0 ? DT_PROGRAM_FIRST : DT_PROGRAM_AGAIN];
            assert_ok(dt_runner_run(t->runner, id, &a, &err), &err);
        }
        assert_int_equal(dt_runner_nonfinite(t->runner, DT_DP), -1);
        assert_ok(dt_runner_run(t->runner, t->id[DT_PROGRAM_UPDATE], &a, &err), &err);
    }
    const dt_run_args a = args_of(t, STEPS, 0, 1);
    assert_ok(dt_runner_run(t->runner, t->id[DT_PROGRAM_EVAL], &a, &err), &err);
    unsigned char *state = dt_alloc(t->map->bytes, 1);
    assert_non_null(state);
    memcpy(state, dt_runner_home(t->runner, 0), t->map->bytes);
    return state;
}

/* --- comparisons --- */

/* Each network's state under keep_all, by number of micro-batches; made once. */
static unsigned char *kept[DT_COUNT(networks)][MOST_MICRO];
static uint64_t kept_peak[DT_COUNT(networks)];

static int train_keeping_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(networks); i++) {
        trainee t = open_trainee(&networks[i], "keep_all");
        kept_peak[i] = t.peak;
        for (int micros = 1; micros <= MOST_MICRO; micros++)
            kept[i][micros - 1] = train(&t, micros);
        close_trainee(&t);
    }
    return 0;
}

static int free_kept(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(networks); i++)
        for (int k = 0; k < MOST_MICRO; k++)
            dt_free(kept[i][k]);
    return 0;
}

static void same_bits(
    const dt_map *map, const unsigned char *want, const unsigned char *got, const char *what)
{
    for (size_t i = 0; i < map->n; i++) {
        const dt_home *h = &map->home[i];
        if (memcmp(want + h->off, got + h->off, h->bytes) != 0)
            fail_msg("%s: %s has other bits than under keep_all", what, h->name);
    }
}

static void trains_as_keep_all_does(const char *policies)
{
    for (size_t i = 0; i < DT_COUNT(networks); i++) {
        char what[128];
        snprintf(what, sizeof what, "%s, %s", networks[i].name, policies);
        trainee t = open_trainee(&networks[i], policies);
        measure(&t, what);
        for (int micros = 1; micros <= MOST_MICRO; micros++) {
            unsigned char *got = train(&t, micros);
            same_bits(t.map, kept[i][micros - 1], got, what);
            dt_free(got);
        }
        print_message("%-32s peak %8" PRIu64 " of %8" PRIu64 " bytes, %8" PRIu64 " copied out\n",
            what, t.peak, kept_peak[i], t.moved);
        close_trainee(&t);
    }
}

static void every_exact_policy_trains_the_same_bits(void **state)
{
    (void)state;
    size_t n, exact = 0;
    const dt_policy *const *all = dt_policy_all(&n);
    for (size_t i = 0; i < n; i++)
        if (all[i]->exact) {
            trains_as_keep_all_does(all[i]->name);
            exact++;
        }
    assert_true(exact >= 4);
}

static void combinations_train_the_same_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(combinations); i++)
        trains_as_keep_all_does(combinations[i]);
}

/* Else the comparisons would compare nothing: all has changed, and micro-batches and the steps of a
 * run differ. */
static void keep_all_trains(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(networks); i++) {
        trainee t = open_trainee(&networks[i], "keep_all");
        dt_err err = {0};
        assert_ok(dt_runner_init(t.runner, &err), &err);
        const unsigned char *start = dt_runner_home(t.runner, 0);
        for (size_t k = 0; k < t.map->n; k++) {
            const dt_home *h = &t.map->home[k];
            assert_memory_not_equal(start + h->off, kept[i][0] + h->off, h->bytes);
            if (h->port == DT_P && !t.graph->node[h->node].info.param[h->param].buffer)
                assert_memory_not_equal(kept[i][0] + h->off, kept[i][1] + h->off, h->bytes);
        }
        close_trainee(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keep_all_trains),
        cmocka_unit_test(every_exact_policy_trains_the_same_bits),
        cmocka_unit_test(combinations_train_the_same_bits),
    };
    return cmocka_run_group_tests(tests, train_keeping_all, free_kept);
}
