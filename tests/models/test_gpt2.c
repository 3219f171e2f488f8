/* GPT-2: against PyTorch's numbers over six steps of AdamW, and against itself under policies that
 * save memory and in micro-batches. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/runner/runner.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/weights.h"
#include "layers/attention.h"
#include "layers/plain.h"
#include "tests/fixture/check.h"
#include "tests/fixture/fake_driver.h"
#include "tests/fixture/json_read.h"
#include "tests/fixture/planned.h"
#include "tests/fixture/state.h"

enum { LAYERS = 2, WIDTH = 48, HEADS = 4, VOCAB = 65, CONTEXT = 32, BATCH = 3, STEPS = 6 };

static const dt_model_opts small = {.width = WIDTH,
    .dropout = -1,
    .layers = LAYERS,
    .heads = HEADS,
    .vocab = VOCAB,
    .context = CONTEXT};

static const dt_driver *device; /* of trainers; NULL: the processor itself */

/* A network ready to be trained: its plans for one size of micro-batch. */
typedef struct trainer {
    dt_stage at;
    int64_t micro;
} trainer;

static void start(trainer *t, const dt_model_opts *o, int64_t micro, const char *policies)
{
    dt_graph *g;
    dt_err err = {0};
    assert_ok(dt_model_build(dt_model_find("gpt2"), o, &g, &err), &err);
    const dt_stage_opts how = {
        1u << DT_PROGRAM_FIRST | 1u << DT_PROGRAM_AGAIN | 1u << DT_PROGRAM_UPDATE, micro, policies,
        &dt_layer_adamw, device, .seed = 5, .state = 2, .threads = 2};
    *t = (trainer){dt_stage_open(g, &how), micro};
}

static void finish(trainer *t)
{
    dt_stage_close(&t->at);
}

/* Forward and backward of a step; returns its loss. */
static double gradients(trainer *t, int64_t step, const float *x, const int32_t *y)
{
    dt_err err = {0};
    for (int64_t at = 0; at < BATCH; at += t->micro) {
        const dt_run_args a = {.batch = {x + at * CONTEXT, y + at * CONTEXT, t->micro},
            .sample0 = at,
            .step = step,
            .step_samples = BATCH};
        const int id = t->at.id[at == 0 ? DT_PROGRAM_FIRST : DT_PROGRAM_AGAIN];
        assert_ok(dt_runner_run(t->at.runner, id, &a, &err), &err);
    }
    const dt_metrics *m = dt_runner_home(t->at.runner, (int32_t)t->at.map->n - 1);
    assert_int_equal(m->count, BATCH * CONTEXT);
    return m->loss_sum / (double)m->count;
}

static void update(trainer *t, int64_t step)
{
    dt_err err = {0};
    const dt_run_args a = {.step = step,
        .hyper = {.lr = 1e-3f, .weight_decay = 0.1f, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8f}};
    assert_ok(dt_runner_run(t->at.runner, t->at.id[DT_PROGRAM_UPDATE], &a, &err), &err);
}

/* --- the reference --- */

static char *reference(const char *file)
{
    char below[128];
    snprintf(below, sizeof below, "reference/models/gpt_2x48/%s", file);
    const char *path = dt_shared(below);
    return path == NULL ? NULL : dt_strdup(path);
}

static dt_st_file *open_reference(const char *file)
{
    dt_st_file *f;
    dt_err err = {0};
    char *path = reference(file);
    assert_non_null(path);
    assert_ok(dt_st_open(&f, path, &err), &err);
    dt_free(path);
    return f;
}

/* All steps of x or y. */
static int64_t *load_tokens(const char *name)
{
    dt_st_file *f = open_reference("batches.safetensors");
    const dt_st_entry *e = dt_st_find(f, name);
    dt_err err = {0};
    assert_non_null(e);
    assert_int_equal(e->bytes, STEPS * BATCH * CONTEXT * sizeof(int64_t));
    int64_t *v = malloc(e->bytes);
    assert_non_null(v);
    assert_ok(dt_st_read(f, e, 0, v, e->bytes, &err), &err);
    dt_st_close(f);
    return v;
}

/* Worst ||got - want|| / ||want|| over all tensors of a port; each must be in the file. */
static double worst(const trainer *t, const char *file, dt_port port)
{
    dt_st_file *f = open_reference(file);
    double most = 0;
    size_t seen = 0;
    for (size_t i = 0; i < t->at.map->n; i++) {
        const dt_home *h = &t->at.map->home[i];
        if (h->port != port)
            continue;
        const dt_node *nd = &t->at.graph->node[h->node];
        const dt_param_info *p = &nd->info.param[h->param];
        const size_t n = (size_t)dt_param_count(p);
        char name[DT_TENSOR_NAME_BYTES];
        snprintf(name, sizeof name, "%s.%s", nd->name, p->name);
        const dt_st_entry *e = dt_st_find(f, name);
        if (e == NULL || e->bytes != n * sizeof(float))
            fail_msg("%s is not in %s, or of another size", name, file);
        float *got = malloc(e->bytes), *want = malloc(e->bytes);
        dt_err err = {0};
        assert_true(got != NULL && want != NULL);
        assert_ok(dt_values_get(t->at.runner, (int32_t)i, got, &err), &err);
        assert_ok(dt_st_read(f, e, 0, want, e->bytes, &err), &err);
        const double off = dt_relative_error(got, want, n);
        most = off <= most ? most : off; /* a NaN stays */
        free(got);
        free(want);
        seen++;
    }
    assert_int_equal(seen, 4 + 12 * LAYERS);
    dt_st_close(f);
    return most;
}

static void assert_below(const char *what, double off, double most)
{
    if (!(off < most))
        fail_msg("%s is off by %g, allowed %g", what, off, most);
}

static cJSON *expected(void)
{
    char *path = reference("expected.json");
    cJSON *o = json_file(path);
    dt_free(path);
    return o;
}

static void train_as_pytorch(int attention, int64_t micro)
{
    trainer t;
    dt_model_opts o = small;
    o.attention = attention;
    start(&t, &o, micro, "keep_all");
    dt_err err = {0};
    char *init = reference("init.safetensors");
    assert_ok(dt_weights_load(t.at.runner, t.at.graph, t.at.map, init, &err), &err);
    cJSON *want = expected();
    const cJSON *most = cJSON_GetObjectItemCaseSensitive(want, "tolerance");
    const cJSON *loss = cJSON_GetObjectItemCaseSensitive(want, "loss");
    int64_t *x = load_tokens("x"), *y = load_tokens("y");
    for (int step = 0; step < STEPS; step++) {
        float ids[BATCH * CONTEXT];
        int32_t labels[BATCH * CONTEXT];
        for (size_t i = 0; i < DT_COUNT(ids); i++) {
            ids[i] = (float)x[(size_t)step * DT_COUNT(ids) + i];
            labels[i] = (int32_t)y[(size_t)step * DT_COUNT(ids) + i];
        }
        const double got = gradients(&t, step, ids, labels);
        const double should = cJSON_GetArrayItem(loss, step)->valuedouble;
        assert_below("loss", fabs(got / should - 1),
            json_number(most, step == 0 ? "first_loss" : "later_loss"));
        if (step == 0)
            assert_below(
                "gradient", worst(&t, "grads.safetensors", DT_DP), json_number(most, "gradient"));
        update(&t, step);
    }
    assert_below("weight", worst(&t, "final.safetensors", DT_P), json_number(most, "later_loss"));
    cJSON_Delete(want);
    dt_free(init);
    free(x);
    free(y);
    finish(&t);
}

static void gpt2_trains_as_in_pytorch(void **state)
{
    (void)state;
    if (dt_shared("reference/models/gpt_2x48/init.safetensors") == NULL)
        skip();
    train_as_pytorch(DT_ATTENTION_EFFICIENT, BATCH);
    train_as_pytorch(DT_ATTENTION_NAIVE, BATCH);
    train_as_pytorch(DT_ATTENTION_EFFICIENT, 1); /* gradients of three micro-batches added up */
}

/* --- itself --- */

/* All that persists after two steps. */
static unsigned char *state_after(
    const char *policies, int attention, double dropout, size_t *bytes)
{
    trainer t;
    dt_model_opts o = small;
    float x[BATCH * CONTEXT];
    int32_t y[BATCH * CONTEXT];
    o.attention = attention;
    o.dropout = dropout;
    start(&t, &o, BATCH, policies);
    for (int step = 0; step < 2; step++) {
        for (int i = 0; i < BATCH * CONTEXT; i++) {
            x[i] = (float)((i * 7 + step) % VOCAB);
            y[i] = (i * 11 + step) % VOCAB;
        }
        (void)gradients(&t, step, x, y);
        update(&t, step);
    }
    *bytes = t.at.map->bytes;
    unsigned char *all = malloc(*bytes);
    assert_non_null(all);
    size_t at = 0;
    for (size_t i = 0; i < t.at.map->n; i++) { /* without the padding between */
        memcpy(all + at, dt_runner_home(t.at.runner, (int32_t)i), t.at.map->home[i].bytes);
        at += t.at.map->home[i].bytes;
    }
    *bytes = at;
    finish(&t);
    return all;
}

static void saving_memory_changes_nothing(void **state)
{
    (void)state;
    static const char *const policies[] = {"vdnn_all", "chen_sqrt", "chen_recursive"};
    for (int kind = 0; kind < 2; kind++) {
        size_t n, m;
        unsigned char *want = state_after("keep_all", kind, 0.1, &n);
        for (size_t i = 0; i < DT_COUNT(policies); i++) {
            unsigned char *got = state_after(policies[i], kind, 0.1, &m);
            assert_int_equal(n, m);
            if (memcmp(got, want, n) != 0)
                fail_msg("%s changed the outcome", policies[i]);
            free(got);
        }
        free(want);
    }
}

/* The embedding is trained by both of its uses: what the head gives alone reaches tokens that are
 * never an input. */
static void the_tied_head_trains_the_embedding(void **state)
{
    (void)state;
    trainer t;
    float x[BATCH * CONTEXT], dw[VOCAB * WIDTH];
    int32_t y[BATCH * CONTEXT];
    dt_err err = {0};
    start(&t, &small, BATCH, "keep_all");
    for (int i = 0; i < BATCH * CONTEXT; i++) {
        x[i] = (float)(i % 5);
        y[i] = 60;
    }
    (void)gradients(&t, 0, x, y);
    const int32_t wte = dti_graph_find(t.at.graph, "wte"),
                  head = dti_graph_find(t.at.graph, "lm_head");
    assert_int_equal(t.at.graph->node[head].shares, wte);
    assert_int_equal(dti_map_find(t.at.map, head, 0, DT_P), -1);
    assert_ok(dt_values_get(t.at.runner, dti_map_find(t.at.map, wte, 0, DT_DP), dw, &err), &err);
    double used = 0, unused = 0;
    for (int c = 0; c < WIDTH; c++) {
        used += fabs((double)dw[2 * WIDTH + c]);
        unused += fabs((double)dw[60 * WIDTH + c]);
    }
    assert_true(used > 0 && unused > 0);
    finish(&t);
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
        trainer t;
        device = on == 1 ? dt_fake_driver(&(dt_fake_opts){.seed = 1}) : NULL;
        start(&t, &small, BATCH, "keep_all");
        for (size_t i = 0; i < DT_COUNT(bad); i++) {
            dt_err err = {0};
            const dt_run_args a = {.batch = {x, y, BATCH}, .step_samples = BATCH};
            x[CONTEXT + 3] = bad[i].x;
            y[CONTEXT + 3] = bad[i].y;
            assert_fails(dt_runner_run(t.at.runner, t.at.id[DT_PROGRAM_FIRST], &a, &err), DT_E_DATA,
                &err, bad[i].says);
            assert_int_equal(on == 1 ? dt_fake_count().launched : 0, 0);
        }
        x[CONTEXT + 3] = VOCAB - 1;
        y[CONTEXT + 3] = VOCAB - 1;
        (void)gradients(&t, 0, x, y);
        finish(&t);
        device = NULL;
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
        {"resnet18", {.heads = 2}, "resnet18 has no heads"},
        {"resnet18", {.context = 2}, "resnet18 has no context"},
        {"mlp", {.vocab = 2}, "mlp has no vocab"},
        {"mlp", {.layers = 2}, "mlp has no layers"},
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
        cmocka_unit_test(gpt2_trains_as_in_pytorch),
        cmocka_unit_test(saving_memory_changes_nothing),
        cmocka_unit_test(the_tied_head_trains_the_embedding),
        cmocka_unit_test(what_is_no_token_is_refused),
        cmocka_unit_test(the_standard_gpt2_has_its_published_size),
        cmocka_unit_test(options_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
