/* GPT-2: its tied head, its size, and what it refuses. What it trains, sessions show: beside
 * PyTorch (test_training.c), and under every policy (test_exact_wide.c). Here one program runs
 * below a session, whose sources have no token that is none, and which plays no device. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixture/check.h"
#include "tests/fixture/fake_driver.h"
#include "tests/fixture/planned.h"
#include "tests/fixture/state.h"

enum { LAYERS = 2, WIDTH = 48, HEADS = 4, VOCAB = 65, CONTEXT = 32, BATCH = 3 };

static dt_stage start(const dt_driver *driver)
{
    static const dt_model_opts small = {.width = WIDTH,
        .dropout = -1,
        .layers = LAYERS,
        .heads = HEADS,
        .vocab = VOCAB,
        .context = CONTEXT};
    dt_graph *g;
    dt_err err = {0};
    assert_ok(dt_model_build(dt_model_find("gpt2"), &small, &g, &err), &err);
    const dt_stage_opts o = {
        1u << DT_PROGRAM_FIRST, BATCH, .driver = driver, .seed = 5, .threads = 2};
    return dt_stage_open(g, &o);
}

static dt_status run(const dt_stage *t, const float *x, const int32_t *y, dt_err *err)
{
    const dt_run_args a = {.batch = {x, y, BATCH}, .step_labels = (int64_t)BATCH * CONTEXT};
    return dt_runner_run(t->runner, t->id[DT_PROGRAM_FIRST], &a, err);
}

/* The embedding is trained by both of its uses: what the head gives alone reaches tokens that are
 * never an input. */
static void the_tied_head_trains_the_embedding(void **state)
{
    (void)state;
    float x[BATCH * CONTEXT], dw[VOCAB * WIDTH];
    int32_t y[BATCH * CONTEXT];
    dt_err err = {0};
    dt_stage t = start(NULL);
    for (int i = 0; i < BATCH * CONTEXT; i++) {
        x[i] = (float)(i % 5);
        y[i] = 60;
    }
    assert_ok(run(&t, x, y, &err), &err);
    const int32_t wte = dt_graph_find(t.graph, "wte"), head = dt_graph_find(t.graph, "lm_head");
    assert_int_equal(t.graph->node[head].shares, wte);
    assert_int_equal(dti_map_find(t.map, head, 0, DT_P), -1);
    assert_ok(dt_values_get(t.runner, dti_map_find(t.map, wte, 0, DT_DP), dw, &err), &err);
    double used = 0, unused = 0;
    for (int c = 0; c < WIDTH; c++) {
        used += fabs((double)dw[2 * WIDTH + c]);
        unused += fabs((double)dw[60 * WIDTH + c]);
    }
    assert_true(used > 0 && unused > 0);
    dt_stage_close(&t);
}

/* By the processor's kernels; before a device has anything of the batch. */
static void what_is_no_token_is_refused(void **state)
{
    (void)state;
    static const struct {
        float x;
        int32_t y;
        const char *says;
    } bad[] = {
        {VOCAB, 0,
            "sample 1 of the step has token 65 at position 3, but tokens are whole numbers from 0 "
            "to 64"},
        {-1, 0, "has token -1 at position 3"},
        {2.5f, 0, "has token 2.5 at position 3"},
        {NAN, 0, "nan at position 3"},
        {1e30f, 0, "at position 3"},
        {0, VOCAB, "sample 1 of the step has label 65, but the network has classes 0 to 64"},
    };
    float x[BATCH * CONTEXT] = {0};
    int32_t y[BATCH * CONTEXT] = {0};
    for (int on = 0; on < 2; on++) {
        dt_stage t = start(on == 1 ? dt_fake_driver(&(dt_fake_opts){.seed = 1}) : NULL);
        dt_err err = {0};
        for (size_t i = 0; i < DT_COUNT(bad); i++) {
            x[CONTEXT + 3] = bad[i].x;
            y[CONTEXT + 3] = bad[i].y;
            assert_fails(run(&t, x, y, &err), DT_E_DATA, &err, bad[i].says);
            dt_err_clear(&err);
            assert_int_equal(on == 1 ? dt_fake_count().launched : 0, 0);
        }
        x[CONTEXT + 3] = VOCAB - 1;
        y[CONTEXT + 3] = VOCAB - 1;
        assert_ok(run(&t, x, y, &err), &err);
        dt_stage_close(&t);
    }
}

static void the_standard_gpt2_has_its_published_size(void **state)
{
    (void)state;
    dt_graph *g = dt_standard("gpt2");
    assert_int_equal(dt_graph_parameters(g), 124439808);
    dt_graph_destroy(g);
}

static void options_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        dt_model_opts o;
        const char *says;
    } bad[] = {
        {"gpt2", {.width = 50, .heads = 4}, "no multiple of heads"},
        {"gpt2", {.image = 32}, "gpt2 has no image"},
        {"gpt2", {.channels = 3}, "gpt2 has no channels"},
        {"resnet18", {.heads = 2}, "resnet18 has no heads"},
        {"resnet18", {.context = 2}, "resnet18 has no context"},
        {"mlp", {.vocab = 2}, "mlp has no vocab"},
        {"mlp", {.layers = 2}, "mlp has no layers"},
        {"resnet18", {.attention = 1}, "resnet18 has no attention"},
        {"gpt2", {.vocab = 65, .classes = 10}, "vocab = 65 is how many classes there are"},
    };
    for (size_t i = 0; i < DT_COUNT(bad); i++) {
        dt_graph *g;
        dt_err err = {0};
        assert_fails(dt_model_build(dt_model_find(bad[i].model), &bad[i].o, &g, &err), DT_E_CONFIG,
            &err, bad[i].says);
        assert_null(g);
    }
}

DT_TEST_GROUP(gpt2)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tied_head_trains_the_embedding),
        cmocka_unit_test(what_is_no_token_is_refused),
        cmocka_unit_test(the_standard_gpt2_has_its_published_size),
        cmocka_unit_test(options_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
