/* ActNN against what its paper says (Chen et al., ICML 2021): how few bytes wait, that masks are
 * exact and forward loses nothing, and that gradients are right in the mean (theorem 1). Gradients
 * of one layer, with as many draws, are read below a session. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/cpu.h"
#include "engine/graph_fuse.h"
#include "layers/norm/batchnorm.h"
#include "layers/weighted/conv.h"
#include "layers/weighted/fc.h"
#include "layers/pool/maxpool.h"
#include "layers/plain.h"
#include "memory/policy.h"
#include "tests/fixture/check.h"
#include "tests/fixture/parse_config.h"
#include "tests/fixture/planned.h"

enum { BATCH = 4, SIDE = 16, CHANNELS = 4, CLASSES = 10 };

static int32_t add(
    dt_graph *g, const dt_layer_desc *desc, const char *name, const void *opts, int32_t in)
{
    int32_t id;
    dt_err err = {0};
    assert_ok(dt_graph_add(g, desc, name, opts, &in, 1, &id, &err), &err);
    return id;
}

/* conv - relu - pool - conv2 - relu2 - fc. */
static dt_graph *chain(void)
{
    static const dt_conv same = {CHANNELS, 3, 1, 1, 1, 1, true};
    static const dt_maxpool pool = {2, 2, 0, false};
    static const dt_fc scores = {CLASSES, true};
    dt_graph *g;
    dt_err err = {0};
    assert_ok(
        dt_graph_create(&g, "actnn", (dt_shape){1, SIDE, SIDE, CHANNELS}, CLASSES, &err), &err);
    int32_t at = add(g, &dt_layer_conv, "conv", &same, DT_GRAPH_INPUT);
    at = add(g, &dt_layer_relu, "relu", NULL, at);
    at = add(g, &dt_layer_maxpool, "pool", &pool, at);
    at = add(g, &dt_layer_conv, "conv2", &same, at);
    at = add(g, &dt_layer_relu, "relu2", NULL, at);
    at = add(g, &dt_layer_fc, "fc", &scores, at);
    (void)add(g, &dt_layer_cross_entropy, "loss", NULL, at);
    return g;
}

static int32_t find(const dt_program *p, const char *name)
{
    for (size_t t = 0; t < p->n_tensor; t++)
        if (strcmp(p->tensor[t].name, name) == 0)
            return (int32_t)t;
    return DT_NONE;
}

static bool waits(const dt_program *p, const char *name)
{
    dti_gap g;
    const int32_t t = find(p, name);
    return t != DT_NONE && dti_gap_crossing(p, t, &g);
}

/* ---- what waits ---- */

static void what_waits_takes_its_bits(void **state)
{
    (void)state;
    static const int bits[] = {8, 4, 2, 1};
    for (size_t i = 0; i < DT_COUNT(bits); i++) {
        char ini[64], packed[32];
        snprintf(ini, sizeof ini, "[policy.actnn]\nbits = %d\n", bits[i]);
        snprintf(packed, sizeof packed, "pool.y.int%d", bits[i]);
        dt_lowered m = dt_program_of(chain(), DT_PROGRAM_FIRST, BATCH);
        dt_rewrite_with(m.program, "actnn", ini, NULL);
        assert_false(waits(m.program, "pool.y") || waits(m.program, "relu.y"));
        assert_true(waits(m.program, packed) && waits(m.program, "relu.mask"));
        assert_true(waits(m.program, "relu2.mask") && waits(m.program, "pool.index"));
        /* 8 x 8 x 4 values are one group: a head of 32 bits and 256 codes, beside 16 bytes */
        assert_int_equal(
            m.program->tensor[find(m.program, packed)].bytes, 16 + BATCH * (4 + 256 * bits[i] / 8));
        m.plan = dt_planned_by(m.program, "actnn", "greedy");
        dt_lowered_close(&m);
    }
}

/* ---- what is learned ---- */

enum { GRADIENTS = 9 * CHANNELS * CHANNELS };

typedef struct step {
    double loss;
    float conv2[GRADIENTS], conv[GRADIENTS]; /* of their weights */
} step;

static dt_stage open(const char *policy)
{
    const dt_stage_opts o = {1u << DT_PROGRAM_FIRST, BATCH, policy, .seed = 3};
    return dt_stage_open(chain(), &o);
}

static void copy_gradient(const dt_stage *t, const char *layer, int param, float *to, size_t n)
{
    const int32_t home = dti_map_find(t->map, dt_graph_find(t->graph, layer), param, DT_DP);
    memcpy(to, dt_runner_home(t->runner, home), n * sizeof(float));
}

/* Its loss. */
static double run_once(dt_stage *t, int64_t number)
{
    static float x[BATCH * SIDE * SIDE * CHANNELS];
    static const int32_t labels[BATCH] = {3, 7, 1, 0};
    dt_err err = {0};
    for (size_t i = 0; i < DT_COUNT(x); i++)
        x[i] = (float)((i * 2654435761u >> 7) % 1000) / 500.0F - 1.0F;
    const dt_run_args a = {.batch = {x, labels, BATCH}, .step_labels = BATCH, .step = number};
    assert_ok(dt_runner_run(t->runner, t->id[DT_PROGRAM_FIRST], &a, &err), &err);
    const dt_metrics *metrics = dt_runner_home(t->runner, (int32_t)t->map->n - 1);
    return metrics->loss_sum;
}

static step train_once(dt_stage *t, int64_t number)
{
    step s = {.loss = run_once(t, number)};
    copy_gradient(t, "conv2", 0, s.conv2, GRADIENTS);
    copy_gradient(t, "conv", 0, s.conv, GRADIENTS);
    return s;
}

static step train(const char *policy, int64_t number)
{
    dt_stage t = open(policy);
    const step s = train_once(&t, number);
    dt_stage_close(&t);
    return s;
}

/* The input is fetched again, and masks say where gradients go: conv's gradient has no noise. */
static void forward_and_masks_lose_nothing(void **state)
{
    (void)state;
    const step exact = train("keep_all", 0), lossy = train("actnn", 0);
    assert_memory_equal(&exact.loss, &lossy.loss, sizeof exact.loss);
    assert_memory_equal(exact.conv, lossy.conv, sizeof exact.conv);
    assert_memory_not_equal(exact.conv2, lossy.conv2, sizeof exact.conv2);
}

static void a_step_draws_the_same_again_and_another_step_others(void **state)
{
    (void)state;
    const step one = train("actnn", 5), again = train("actnn", 5);
    const step next = train("actnn", 6);
    assert_memory_equal(one.conv2, again.conv2, sizeof one.conv2);
    assert_memory_not_equal(one.conv2, next.conv2, sizeof one.conv2);
}

/* Theorem 1: of many steps the mean gradient is the exact one, but for chance. */
static void gradients_are_right_in_the_mean(void **state)
{
    (void)state;
    enum { TIMES = 400 };
    const step exact = train("keep_all", 0);
    double sum[GRADIENTS] = {0}, squares[GRADIENTS] = {0}, off = 0, size = 0;
    dt_stage t = open("actnn");
    for (int64_t k = 0; k < TIMES; k++) {
        const step s = train_once(&t, k);
        for (size_t i = 0; i < GRADIENTS; i++) {
            const double d = (double)s.conv2[i] - (double)exact.conv2[i];
            sum[i] += d;
            squares[i] += d * d;
        }
    }
    dt_stage_close(&t);
    for (size_t i = 0; i < GRADIENTS; i++) {
        const double mean = sum[i] / TIMES, spread = sqrt(squares[i]) / TIMES;
        if (!(fabs(mean) <= 5 * spread + 1e-7))
            fail_msg("gradient %zu is off by %.3g in the mean, of %.3g", i, mean, spread);
        off += squares[i] / TIMES;
        size += (double)exact.conv2[i] * (double)exact.conv2[i];
    }
    print_message("2 bits: a gradient of one step is off by %.1f %%, the mean of %d by chance\n",
        100 * sqrt(off / size), TIMES);
    assert_true(off > 0);
}

/* ---- signs ---- */

/* norm - relu - conv - norm2 - relu2 - fc, of which the norms have the ReLUs behind them. */
static dt_graph *normed(void)
{
    static const dt_conv same = {CHANNELS, 3, 1, 1, 1, 1, true};
    static const dt_batchnorm norm = {.eps = 1e-5, .momentum = 0.1};
    static const dt_fc scores = {CLASSES, true};
    dt_graph *g, *fused;
    dt_err err = {0};
    assert_ok(
        dt_graph_create(&g, "actnn", (dt_shape){1, SIDE, SIDE, CHANNELS}, CLASSES, &err), &err);
    int32_t at = add(g, &dt_layer_batchnorm, "norm", &norm, DT_GRAPH_INPUT);
    at = add(g, &dt_layer_relu, "relu", NULL, at);
    at = add(g, &dt_layer_conv, "conv", &same, at);
    at = add(g, &dt_layer_batchnorm, "norm2", &norm, at);
    at = add(g, &dt_layer_relu, "relu2", NULL, at);
    at = add(g, &dt_layer_fc, "fc", &scores, at);
    (void)add(g, &dt_layer_cross_entropy, "loss", NULL, at);
    assert_ok(dt_graph_fuse(&fused, g, &err), &err);
    dt_graph_destroy(g);
    return fused;
}

/* Sums of the gradient where the ReLU was on are exact, as its mask is; what is multiplied by
 * values that were rounded is not. The first norm has no gradient to hand on, so what it masks lies
 * in scratch. */
static void a_norm_does_not_find_signs_in_what_was_rounded(void **state)
{
    (void)state;
    dt_lowered m = dt_program_of(normed(), DT_PROGRAM_FIRST, BATCH);
    dt_rewrite(m.program, "actnn");
    assert_true(waits(m.program, "norm.mask") && waits(m.program, "norm2.mask"));
    assert_true(waits(m.program, "conv.y.int2"));
    m.plan = dt_planned_by(m.program, "actnn", "greedy");
    dt_lowered_close(&m);
    static const char *const policies[] = {"keep_all", "actnn"};
    float bias[2][CHANNELS], weight[2][CHANNELS], first[2][CHANNELS];
    for (int i = 0; i < 2; i++) {
        const dt_stage_opts o = {1u << DT_PROGRAM_FIRST, BATCH, policies[i], .seed = 3};
        dt_stage t = dt_stage_open(normed(), &o);
        (void)run_once(&t, 0);
        copy_gradient(&t, "norm2", 0, weight[i], CHANNELS);
        copy_gradient(&t, "norm2", 1, bias[i], CHANNELS);
        copy_gradient(&t, "norm", 0, first[i], CHANNELS);
        dt_stage_close(&t);
    }
    assert_memory_equal(bias[0], bias[1], sizeof bias[0]);
    assert_memory_not_equal(weight[0], weight[1], sizeof weight[0]);
    assert_true(dt_relative_error(first[1], first[0], CHANNELS) < 1);
}

/* ---- in lists ---- */

/* What is packed may move, and another policy sees what this one has left. */
static void what_is_packed_moves_packed(void **state)
{
    (void)state;
    dt_lowered m = dt_program_of(chain(), DT_PROGRAM_FIRST, BATCH);
    dt_rewrite(m.program, "actnn,vdnn_all");
    assert_false(waits(m.program, "pool.y"));
    m.plan = dt_planned_by(m.program, "actnn,vdnn_all", "greedy");
    assert_int_equal(dt_rows_of(m.plan, DT_ROW_COPY_OUT, "pool.y.int2"), 1);
    assert_int_equal(dt_rows_of(m.plan, DT_ROW_COPY_OUT, "pool.y"), 0);
    dt_lowered_close(&m);
    const step alone = train("actnn", 2), moved = train("actnn,vdnn_all", 2);
    assert_memory_equal(alone.conv2, moved.conv2, sizeof alone.conv2);
}

/* What is made again is not packed, and is exact. */
static void what_is_recomputed_first_is_exact(void **state)
{
    (void)state;
    const step exact = train("keep_all", 0), cheap = train("chen_cheap,actnn", 0);
    assert_memory_equal(&exact.loss, &cheap.loss, sizeof exact.loss);
    dt_lowered m = dt_program_of(chain(), DT_PROGRAM_FIRST, BATCH);
    dt_rewrite(m.program, "chen_sqrt,actnn");
    m.plan = dt_planned_by(m.program, "chen_sqrt,actnn", "greedy");
    dt_lowered_close(&m);
}

static void values_of_bf16_are_refused(void **state)
{
    (void)state;
    dt_graph *g = chain();
    g->dtype = DT_BF16;
    dt_lowered m = dt_program_of(g, DT_PROGRAM_FIRST, BATCH);
    dt_policies s;
    dt_err err = {0};
    assert_ok(dt_policies_open(&s, "actnn", NULL, &err), &err);
    assert_fails(dt_policies_apply(&s, m.program, NULL, &err), DT_E_CONFIG, &err,
        "set train.precision = fp32");
    dt_policies_close(&s);
    dt_lowered_close(&m);
}

DT_TEST_GROUP(actnn)
{
    (void)dt_cpu_setup(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_waits_takes_its_bits),
        cmocka_unit_test(forward_and_masks_lose_nothing),
        cmocka_unit_test(a_step_draws_the_same_again_and_another_step_others),
        cmocka_unit_test(gradients_are_right_in_the_mean),
        cmocka_unit_test(a_norm_does_not_find_signs_in_what_was_rounded),
        cmocka_unit_test(what_is_packed_moves_packed),
        cmocka_unit_test(what_is_recomputed_first_is_exact),
        cmocka_unit_test(values_of_bf16_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
