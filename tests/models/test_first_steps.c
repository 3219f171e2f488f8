/* The networks that papers use, narrow and on small pictures: from the loss of a guess, a step of
 * gradient descent lowers the loss of the samples that it was made by. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/runner/runner.h"
#include "layers/plain.h"
#include "models/ini.h"
#include "models/model.h"
#include "tests/fixture/check.h"
#include "tests/fixture/planned.h"
#include "tests/fixture/random_graph.h"

enum { BATCH = 4, CLASSES = 10 };

/* @file: below configs/, of a network that is written layer by layer; its width is its own */
static const struct {
    const char *model, *file;
    int64_t image, width, layers;
} nets[] = {
    {"resnet50", NULL, 64, 8, 0},
    {"resnext50_32x4d", NULL, 64, 32, 0},
    {"wide_resnet50_2", NULL, 64, 8, 0},
    {"resnet20", NULL, 16, 16, 0},
    {"googlenet", NULL, 64, 8, 0},
    {"inception_v3", NULL, 96, 8, 0},
    {"inception_v4", NULL, 96, 8, 0},
    {"squeezenet1_0", NULL, 64, 16, 0},
    {"mobilenet_v1", NULL, 64, 16, 0},
    {"mobilenet_v2", NULL, 64, 16, 0},
    {"mobilenet_v3_small", NULL, 64, 16, 0},
    {"densenet121", NULL, 64, 16, 0},
    {"unet", NULL, 32, 4, 0},
    {"segnet", NULL, 32, 8, 0},
    {"fcn8s", NULL, 32, 8, 0},
    {"fcn_resnet50", NULL, 64, 8, 0},
    {"dcgan_discriminator", NULL, 64, 8, 0},
    {"dcgan_generator", NULL, 1, 8, 0},
    {"bert_base", NULL, 0, 24, 2},
    {NULL, "nin", 67, 0, 0},
    {NULL, "alexnet2012", 67, 0, 0},
    {NULL, "googlenet2014", 64, 0, 0},
};

static dt_graph *build(size_t i)
{
    dt_graph *g = NULL;
    dt_config *c = NULL;
    dt_err err = {0};
    char path[64];
    const dt_model_opts o = {.dropout = 0,
        .image = nets[i].image,
        .classes = nets[i].model != NULL ? CLASSES : 1000,
        .width = nets[i].width,
        .vocab = nets[i].layers > 0 ? CLASSES : 0,
        .layers = nets[i].layers,
        .heads = nets[i].layers > 0 ? 3 : 0,
        .context = nets[i].layers > 0 ? 8 : 0};
    if (nets[i].model != NULL) {
        assert_ok(dt_model_build(dt_model_find(nets[i].model), &o, &g, &err), &err);
        return g;
    }
    snprintf(path, sizeof path, "configs/papers/%s.ini", nets[i].file);
    assert_ok(dt_config_load(&c, dt_source_path(path), &err), &err);
    assert_ok(dt_ini_network(c, &o, &g, &err), &err);
    dt_config_destroy(c);
    return g;
}

static void fill(const dt_graph *g, float *x, int32_t *y)
{
    dt_dice d = {7, 0};
    const int64_t values = BATCH * dt_shape_sample(&g->input), labels = BATCH * dt_graph_labels(g);
    const int64_t words = dt_graph_vocabulary(g);
    for (int64_t i = 0; i < values; i++)
        x[i] = words > 0 ? (float)dt_roll(&d, (uint32_t)words)
                         : (float)dt_roll(&d, 2001) / 1000.0F - 1.0F;
    for (int64_t i = 0; i < labels; i++)
        y[i] = (int32_t)dt_roll(&d, (uint32_t)g->classes);
}

/* Two times the same samples, and an update between. */
static void losses(size_t i, double loss[2])
{
    const dt_stage_opts how = {.kinds = 1u << DT_PROGRAM_FIRST | 1u << DT_PROGRAM_UPDATE,
        .batch = BATCH,
        .policies = "keep_all",
        .optimizer = &dt_layer_sgd,
        .seed = 3,
        .state = 1,
        .threads = 2};
    dt_stage s = dt_stage_open(build(i), &how);
    const dt_graph *g = s.graph;
    float *x = dt_alloc((size_t)(BATCH * dt_shape_sample(&g->input)), sizeof *x);
    int32_t *y = dt_alloc((size_t)(BATCH * dt_graph_labels(g)), sizeof *y);
    dt_err err = {0};
    assert_true(x != NULL && y != NULL);
    fill(g, x, y);
    for (int step = 0; step < 2; step++) {
        dt_run_args a = {.batch = {x, y, BATCH}, .step = step, .step_samples = BATCH};
        a.hyper = (dt_hyper){.lr = 1e-4f};
        assert_ok(dt_runner_run(s.runner, s.id[DT_PROGRAM_FIRST], &a, &err), &err);
        const dt_metrics *m = dt_runner_home(s.runner, (int32_t)s.map->n - 1);
        loss[step] = m->loss_sum / (double)m->count;
        assert_ok(dt_runner_run(s.runner, s.id[DT_PROGRAM_UPDATE], &a, &err), &err);
    }
    dt_free(x);
    dt_free(y);
    dt_stage_close(&s);
}

/* One in eight; all of them where DT_TEST_SCALE is whole. */
static void a_step_lowers_the_loss(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(nets); i++) {
        double loss[2];
        if (!dt_picked(i, 8, 8, 1))
            continue;
        losses(i, loss);
        const char *name = nets[i].model != NULL ? nets[i].model : nets[i].file;
        if (!(loss[1] < loss[0]))
            fail_msg("%s: a loss of %g, and %g behind a step", name, loss[0], loss[1]);
    }
}

DT_TEST_GROUP(first_steps)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_lowers_the_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
