/* The networks that papers use, narrow and on small pictures: from the loss of a guess, a step of
 * gradient descent lowers the loss of the samples that it was made by. */
#include <dnntrain.h>

#include <stdio.h>
#include <string.h>

#include "tests/fixture/check.h"
#include "tests/fixture/workspace.h"

/* @file: below configs/, of a network that is written layer by layer; its width is its own.
 * Without dropout, of which each step has other values. */
static const struct {
    const char *model, *file;
    int64_t image, width;
} nets[] = {
    {"resnet50", NULL, 64, 8},
    {"resnext50_32x4d", NULL, 64, 32},
    {"wide_resnet50_2", NULL, 64, 8},
    {"resnet20", NULL, 16, 16},
    {"googlenet", NULL, 64, 8},
    {"inception_v3", NULL, 160, 8},
    {"inception_v4", NULL, 160, 8},
    {"squeezenet1_0", NULL, 64, 16},
    {"mobilenet_v1", NULL, 64, 16},
    {"mobilenet_v2", NULL, 64, 16},
    {"mobilenet_v3_small", NULL, 64, 16},
    {"densenet121", NULL, 64, 16},
    {"unet", NULL, 32, 4},
    {"segnet", NULL, 32, 8},
    {"fcn8s", NULL, 32, 8},
    {"fcn_resnet50", NULL, 64, 8},
    {"dcgan_discriminator", NULL, 64, 8},
    {"dcgan_generator", NULL, 1, 8},
    {NULL, "mobilenet", 64, 0},
    {NULL, "keras_unet", 64, 0},
};

static void note_loss(void *self, const dt_step_report *r)
{
    ((double *)self)[r->step - 1] = r->loss;
}

static dt_status open_run(size_t i, const char *const *set, size_t n, dt_run **run, dt_err *err)
{
    char text[512], path[64];
    if (nets[i].model == NULL) {
        snprintf(path, sizeof path, "configs/papers/%s.ini", nets[i].file);
        return dt_run_open(run, dt_source_path(path), set, n, err);
    }
    snprintf(text, sizeof text, "[model]\nname = %s\nwidth = %d\nclasses = 10\ndropout = 0\n",
        nets[i].model, (int)nets[i].width);
    return dt_run_open_text(run, "first", text, strlen(text), set, n, err);
}

/* Two times the same samples, and an update between. */
static void losses(size_t i, double loss[2])
{
    char dir[600], image[64];
    snprintf(dir, sizeof dir, "run.dir=%s", in_workspace("first"));
    snprintf(image, sizeof image, "model.image=%d", (int)nets[i].image);
    const char *const set[] = {dir, "run.overwrite=on", "data.source=synthetic", "data.samples=4",
        "data.augment=off", "train.batch=4", "train.steps=2", "train.lr=1e-4", "train.momentum=0",
        "train.eval_every=0", "train.precision=fp32", "device.kind=cpu", "memory.device_budget=0",
        image};
    const dt_run_observer o = {.self = loss, .step = note_loss};
    dt_run *run = NULL;
    dt_err err = {0};
    assert_ok(open_run(i, set, DT_COUNT(set), &run, &err), &err);
    assert_ok(dt_run_begin(run, &o, &err), &err);
    assert_ok(dt_run_train(run, 0, &err), &err);
    dt_run_close(run);
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
