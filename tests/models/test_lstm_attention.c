/* The network of LSTMs and additive attention: it learns, the same bits under policies that save
 * memory, and takes as much less as the efficient attention keeps less. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/runner/runner.h"
#include "layers/attention.h"
#include "layers/plain.h"
#include "tests/fixture/check.h"
#include "tests/fixture/planned.h"

enum { CONTEXT = 32, BATCH = 8, WIDTH = 64, VOCAB = 12, STEPS = 150 };

static const dt_model_opts small = {
    .width = WIDTH, .dropout = 0.1, .layers = 2, .vocab = VOCAB, .context = CONTEXT};

static dt_graph *build(const dt_model_opts *o)
{
    dt_graph *g;
    dt_err err = {0};
    assert_ok(dt_model_build(dt_model_find("lstm_attention"), o, &g, &err), &err);
    return g;
}

/* A token tells what comes next together with the one before it. */
static void make_batch(int64_t step, float x[BATCH * CONTEXT], int32_t y[BATCH * CONTEXT])
{
    for (int64_t s = 0; s < BATCH; s++) {
        int32_t before = (int32_t)((s + step) % VOCAB), now = (int32_t)((3 * s + 1) % VOCAB);
        for (int64_t t = 0; t < CONTEXT; t++) {
            const int32_t next = (before + now) % VOCAB;
            x[s * CONTEXT + t] = (float)now;
            y[s * CONTEXT + t] = next;
            before = now;
            now = next;
        }
    }
}

/* The loss of each step; what persists at the end, in memory of the caller's. */
static unsigned char *train(
    const dt_model_opts *o, const char *policies, int steps, double *loss, size_t *bytes)
{
    const dt_stage_opts how = {.kinds = 1u << DT_PROGRAM_FIRST | 1u << DT_PROGRAM_UPDATE,
        .batch = BATCH,
        .policies = policies,
        .optimizer = &dt_layer_adamw,
        .seed = 3,
        .state = 2,
        .threads = 2};
    dt_stage s = dt_stage_open(build(o), &how);
    float x[BATCH * CONTEXT];
    int32_t y[BATCH * CONTEXT];
    dt_err err = {0};
    for (int step = 0; step < steps; step++) {
        make_batch(step, x, y);
        dt_run_args a = {.batch = {x, y, BATCH}, .step = step, .step_samples = BATCH};
        a.hyper = (dt_hyper){.lr = 5e-3f, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8f};
        assert_ok(dt_runner_run(s.runner, s.id[DT_PROGRAM_FIRST], &a, &err), &err);
        const dt_metrics *m = dt_runner_home(s.runner, (int32_t)s.map->n - 1);
        assert_int_equal(m->count, BATCH * CONTEXT);
        loss[step] = m->loss_sum / (double)m->count;
        assert_ok(dt_runner_run(s.runner, s.id[DT_PROGRAM_UPDATE], &a, &err), &err);
    }
    *bytes = 0;
    unsigned char *all = malloc(s.map->bytes);
    assert_non_null(all);
    for (size_t i = 0; i < s.map->n; i++) { /* without the padding between */
        memcpy(all + *bytes, dt_runner_home(s.runner, (int32_t)i), s.map->home[i].bytes);
        *bytes += s.map->home[i].bytes;
    }
    dt_stage_close(&s);
    return all;
}

static void it_learns_what_follows_two_tokens(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        dt_model_opts o = small;
        double loss[STEPS];
        size_t bytes;
        o.attention = kind;
        free(train(&o, NULL, STEPS, loss, &bytes));
        assert_true(fabs(loss[0] - log(VOCAB)) < 0.5);
        assert_true(loss[STEPS - 1] < loss[0] / 3);
    }
}

static void saving_memory_changes_nothing(void **state)
{
    (void)state;
    static const char *const policies[] = {
        "chen_sqrt", "vdnn_all", "gist_lossless", "meng", "tflms"};
    enum { FEW = 3 };
    for (int kind = 0; kind < 2; kind++) {
        dt_model_opts o = small;
        double loss[FEW];
        size_t n, m;
        o.attention = kind;
        unsigned char *want = train(&o, "keep_all", FEW, loss, &n);
        for (size_t i = 0; i < DT_COUNT(policies); i++) {
            unsigned char *got = train(&o, policies[i], FEW, loss, &m);
            assert_int_equal(n, m);
            if (memcmp(got, want, n) != 0)
                fail_msg("%s changed the outcome", policies[i]);
            free(got);
        }
        free(want);
    }
}

/* The scores of a large vocabulary are the peak; what attention keeps for backward lies beside
 * them: a tanh for each query, key and hidden value. */
static void efficient_attention_takes_as_much_less_as_it_keeps(void **state)
{
    (void)state;
    enum { LONG = 48, WIDE = 40, MANY = 3 };
    uint64_t peak[2];
    for (int kind = 0; kind < 2; kind++) {
        const dt_model_opts o = {
            .width = WIDE, .layers = 1, .vocab = 20000, .context = LONG, .attention = kind};
        dt_lowered m = dt_program_of(build(&o), DT_PROGRAM_FIRST, MANY);
        m.plan = dt_planned_by(m.program, "keep_all", "greedy");
        assert_int_equal(m.plan->peak, m.plan->bound);
        peak[kind] = m.plan->peak;
        dt_lowered_close(&m);
    }
    assert_int_equal(peak[DT_ATTENTION_NAIVE] - peak[DT_ATTENTION_EFFICIENT],
        MANY * LONG * LONG * WIDE * sizeof(float));
}

static void it_has_no_heads(void **state)
{
    (void)state;
    const dt_model_opts o = {.heads = 2};
    dt_graph *g;
    dt_err err = {0};
    assert_fails(dt_model_build(dt_model_find("lstm_attention"), &o, &g, &err), DT_E_CONFIG, &err,
        "lstm_attention has no heads");
}

DT_TEST_GROUP(lstm_attention)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_learns_what_follows_two_tokens),
        cmocka_unit_test(saving_memory_changes_nothing),
        cmocka_unit_test(efficient_attention_takes_as_much_less_as_it_keeps),
        cmocka_unit_test(it_has_no_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
