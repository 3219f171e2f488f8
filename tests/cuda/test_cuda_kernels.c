/* The CUDA device's kernels, without a card: their sources are included here as C, and run on the
 * processor thread after thread (tests/fixture/cuda_host.h), beside the processor's own kernels. */
#include "tests/fixture/cuda_host.h"

#include "layers/cuda/activations_cuda.cu"
#include "layers/cuda/add_cuda.cu"
#include "layers/cuda/additive_attention_cuda.cu"
#include "layers/cuda/avgpool_cuda.cu"
#include "layers/cuda/batchnorm_cuda.cu"
#include "layers/cuda/concat_cuda.cu"
#include "layers/cuda/cross_entropy_cuda.cu"
#include "layers/cuda/dropout_cuda.cu"
#include "layers/cuda/embedding_cuda.cu"
#include "layers/cuda/groupnorm_cuda.cu"
#include "layers/cuda/layernorm_cuda.cu"
#include "layers/cuda/leaky_relu_cuda.cu"
#include "layers/cuda/lrn_cuda.cu"
#include "layers/cuda/lstm_cuda.cu"
#include "layers/cuda/max_unpool_cuda.cu"
#include "layers/cuda/maxpool_cuda.cu"
#include "layers/cuda/mean_cuda.cu"
#include "layers/cuda/mul_cuda.cu"
#include "layers/cuda/packed_updates_cuda.cu"
#include "layers/cuda/permute_cuda.cu"
#include "layers/cuda/relu_cuda.cu"
#include "layers/cuda/shortcut_cuda.cu"
#include "layers/cuda/softmax_tile_cuda.cu"
#include "layers/cuda/update_cuda.cu"
#include "layers/cuda/upsample_cuda.cu"
#include "layers/cuda/value_losses_cuda.cu"
#include "layers/cuda/zero_pad_cuda.cu"

#include <stdlib.h>

#include "layers/norm/batchnorm.h"
#include "layers/cpu/cpu.h"
#include "layers/sequence/embedding.h"
#include "layers/plain.h"
#include "tests/fixture/check.h"
#include "tests/fixture/cuda_kernels.h"
#include "tests/fixture/layer_check.h"

#define ROW(name)                                                                                  \
    {                                                                                              \
#name, &dt_##name##_host                                                                   \
    }
static const struct {
    const char *name;
    const dt_kernels *k;
} all[] = {ROW(adam), ROW(adam8), ROW(adamw), ROW(adamw8), ROW(adaptive_avgpool), ROW(add),
    ROW(add_relu), ROW(additive_attention), ROW(avgpool), ROW(batchnorm), ROW(batchnorm_relu),
    ROW(bce), ROW(commit), ROW(concat), ROW(cross_entropy), ROW(dropout), ROW(embedding), ROW(gelu),
    ROW(global_avgpool), ROW(groupnorm), ROW(hardsigmoid), ROW(hardswish), ROW(l1), ROW(layernorm),
    ROW(leaky_relu), ROW(lion), ROW(lion8), ROW(lrn), ROW(lstm), ROW(max_unpool), ROW(maxpool),
    ROW(maxpool_index), ROW(mean), ROW(mse), ROW(mul), ROW(permute), ROW(position), ROW(relu),
    ROW(relu6), ROW(rmsnorm), ROW(sgd), ROW(sgd8), ROW(shortcut), ROW(sigmoid), ROW(silu),
    ROW(smooth_l1), ROW(softmax_tile), ROW(sum), ROW(tanh), ROW(tiled_cross_entropy), ROW(upsample),
    ROW(zero_pad)};

static const dt_kernels *find(const char *name)
{
    for (size_t i = 0; i < DT_COUNT(all); i++)
        if (strcmp(all[i].name, name) == 0)
            return all[i].k;
    return NULL;
}

static dt_status run(const dt_kernels *k, const dt_call *c, const dt_args *a, dt_err *err)
{
    return k->run(c, NULL, a, err);
}

/* With threads in the other order than one at a time. */
static dt_status run_many(
    const dt_kernels *k, const dt_call *const *c, const dt_args *a, int n, dt_err *err)
{
    const unsigned long before = dt_host_launches;
    dt_host_backwards = true;
    DT_CHECK(k->run_many(c, a, n, err));
    dt_host_backwards = false;
    const bool packed =
        k == &dt_sgd8_host || k == &dt_adam8_host || k == &dt_adamw8_host || k == &dt_lion8_host;
    const int most = packed ? PACKED_TENSORS : UPDATE_TENSORS;
    assert_int_equal(dt_host_launches - before, (n + most - 1) / most);
    return DT_OK;
}

static const dt_cuda_bench host = {find, run, run_many, true};

static int threads_forwards(void **state)
{
    (void)state;
    dt_host_backwards = false;
    return 0;
}

static void backwards(void)
{
    dt_host_backwards = true;
}

/* Each case in one of both precisions with every commit. */
static void kernels_give_the_processors_results(void **state)
{
    (void)state;
    for (size_t i = 0; i < dt_cuda_cases(); i++)
        if (dt_picked(i, 4, 2, 1))
            dt_cuda_case_compare(i, &host, DT_F32);
}

static void kernels_give_the_processors_results_in_bf16(void **state)
{
    (void)state;
    for (size_t i = 0; i < dt_cuda_cases(); i++)
        if (dt_picked(i + 1, 4, 2, 1))
            dt_cuda_case_compare(i, &host, DT_BF16);
}

static void the_order_of_threads_changes_no_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < dt_cuda_cases(); i++) {
        if (!dt_picked(i, 7, 7, 1))
            continue;
        dt_host_backwards = false;
        dt_cuda_case_repeat(i, &host, i % 2 == 0 ? DT_F32 : DT_BF16, 0, backwards);
    }
}

static void in_place_and_in_pieces_the_bits_are_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < dt_cuda_cases(); i++) {
        const dt_dtype t = i % 2 == 0 ? DT_BF16 : DT_F32;
        if (!dt_picked(i, 7, 7, 1))
            continue;
        dt_host_backwards = false;
        dt_cuda_case_repeat(i, &host, t, DT_CUDA_IN_PLACE, backwards);
        dt_host_backwards = false;
        dt_cuda_case_repeat(i, &host, t, DT_CUDA_IN_PIECES, NULL);
    }
}

static void ops_on_parameters_give_the_processors_bits(void **state)
{
    (void)state;
    dt_cuda_ops_compare(&host);
}

static void many_updates_in_few_launches_give_the_processors_bits(void **state)
{
    (void)state;
    dt_cuda_updates_compare(&host);
}

static void updates_of_moments_in_8_bits_give_the_processors_bits(void **state)
{
    (void)state;
    dt_cuda_packed_compare(&host);
}

/* A value far from zero beside its spread, twice as a step's micro-batches: the running statistics
 * go on from those of the first. */
static void batchnorm_joins_micro_batches_of_values_far_from_zero(void **state)
{
    (void)state;
    enum { N = 5, C = 11, ROWS = N * 6 * 7, COUNT = ROWS * C };
    const dt_shape x = {1, 6, 7, C};
    const dt_kernels *k[2] = {&dt_batchnorm_cpu, find("batchnorm")};
    float stats[2][4][C], *v = dt_random_values(COUNT, 1), *y = dt_random_values(COUNT, 2);
    const int32_t in = DT_GRAPH_INPUT;
    dt_err err = {0};
    dt_graph *g;
    int32_t id;
    for (int i = 0; i < COUNT; i++)
        v[i] = 1000 + v[i];
    assert_ok(dt_graph_create(&g, "g", x, 10, &err), &err);
    assert_ok(dt_graph_add(g, &dt_layer_batchnorm, "l", NULL, &in, 1, &id, &err), &err);
    for (int side = 0; side < 2; side++) {
        const dt_call c = {.node = &g->node[id], .graph = g, .n = N, .form = DT_FORWARD};
        float p[4][C] = {{0}};
        dt_args a = {.n = N};
        dt_facts f = {0};
        assert_ok(k[side]->facts(&c, &f, &err), &err);
        a.port[DT_WORK] = malloc(f.work_bytes);
        a.port[DT_X] = v;
        a.port[DT_Y] = y;
        for (int i = 0; i < 4; i++)
            a.port[DT_P + i] = p[i];
        for (int i = 0; i < 2; i++) {
            a.port[DT_S + i] = stats[side][i];
            a.port[DT_Q + 2 + i] = stats[side][2 + i];
        }
        for (int again = 0; again < 2; again++) {
            a.accumulate = again == 1;
            assert_ok(k[side]->run(&c, NULL, &a, &err), &err);
        }
        free(a.port[DT_WORK]);
    }
    for (int i = 0; i < 4; i++)
        assert_true(dt_relative_error(stats[1][i], stats[0][i], C) <= 1e-6);
    dt_graph_destroy(g);
    free(v);
    free(y);
}

/* Backward of an embedding, of more rows than a block has threads. */
static void a_tokens_rows_are_added_in_their_order(void **state)
{
    (void)state;
    enum { ROWS = 270, OUT = 9, VOCAB = 5 };
    const dt_shape x = {1, ROWS, 1, 1};
    const dt_embedding o = {.vocab = VOCAB, .out = OUT};
    const dt_kernels *k[2] = {&dt_embedding_cpu, find("embedding")};
    float *ids = dt_random_values(ROWS, 1), *dy = dt_random_values((size_t)ROWS * OUT, 2);
    float dweight[2][VOCAB * OUT];
    const int32_t in = DT_GRAPH_INPUT;
    dt_err err = {0};
    dt_graph *g;
    int32_t id;
    for (int i = 0; i < ROWS; i++)
        ids[i] = i < 260 ? floorf((ids[i] + 1) * 1.5f) : 3; /* one comes late, one never */
    assert_ok(dt_graph_create(&g, "g", x, 10, &err), &err);
    assert_ok(dt_graph_add(g, &dt_layer_embedding, "l", &o, &in, 1, &id, &err), &err);
    for (int side = 0; side < 2; side++) {
        const dt_call c = {.node = &g->node[id], .graph = g, .n = 1, .form = DT_BACKWARD};
        dt_args a = {.n = 1};
        a.port[DT_X] = ids;
        a.port[DT_DY] = dy;
        a.port[DT_DP] = dweight[side];
        assert_ok(k[side]->run(&c, NULL, &a, &err), &err);
    }
    assert_memory_equal(dweight[1], dweight[0], sizeof dweight[0]);
    dt_graph_destroy(g);
    free(ids);
    free(dy);
}

static void what_is_no_token_gives_a_row_of_nan_and_no_gradient(void **state)
{
    (void)state;
    enum { ROWS = 6, OUT = 3, VOCAB = 4 };
    const dt_shape x = {1, ROWS, 1, 1};
    const dt_embedding o = {.vocab = VOCAB, .out = OUT};
    float ids[ROWS] = {1, NAN, -1, 4, 1.5f, 1e30f}, dy[ROWS * OUT], y[ROWS * OUT];
    float weight[VOCAB * OUT] = {0}, dweight[VOCAB * OUT];
    const int32_t in = DT_GRAPH_INPUT;
    dt_err err = {0};
    dt_graph *g;
    int32_t id;
    for (int i = 0; i < ROWS * OUT; i++)
        dy[i] = 1;
    assert_ok(dt_graph_create(&g, "g", x, 10, &err), &err);
    assert_ok(dt_graph_add(g, &dt_layer_embedding, "l", &o, &in, 1, &id, &err), &err);
    dt_call c = {.node = &g->node[id], .graph = g, .n = 1, .form = DT_FORWARD};
    dt_args a = {.n = 1};
    a.port[DT_X] = ids;
    a.port[DT_P] = weight;
    a.port[DT_Y] = y;
    a.port[DT_DY] = dy;
    a.port[DT_DP] = dweight;
    assert_ok(find("embedding")->run(&c, NULL, &a, &err), &err);
    c.form = DT_BACKWARD;
    assert_ok(find("embedding")->run(&c, NULL, &a, &err), &err);
    for (int i = 0; i < ROWS * OUT; i++)
        assert_true(i < OUT ? y[i] == 0 : isnan(y[i]));
    for (int i = 0; i < VOCAB * OUT; i++)
        assert_true(dweight[i] == (i / OUT == 1 ? 1 : 0));
    dt_graph_destroy(g);
}

/* A loss by hand: scores, and what a run of it needs. */
typedef struct scored {
    dt_graph *g;
    dt_call c;
    dt_now now;
    dt_args a;
    dt_metrics m;
    dt_class_count of[40]; /* which follow m */
    float *x, *prob;
    int32_t *labels;
    void *work;
} scored;

static void score(scored *s, int64_t n, dt_shape x, dt_dtype t)
{
    dt_err err = {0};
    int32_t id;
    const int32_t in = DT_GRAPH_INPUT;
    const size_t values = (size_t)(n * dt_shape_sample(&x)), rows = (size_t)(n * x.h * x.w);
    memset(s, 0, sizeof *s);
    assert_true(dt_counted_classes(x) <= (int64_t)DT_COUNT(s->of));
    assert_ok(dt_graph_create(&s->g, "g", x, x.c, &err), &err);
    assert_ok(dt_graph_add(s->g, &dt_layer_cross_entropy, "l", NULL, &in, 1, &id, &err), &err);
    s->c =
        (dt_call){.node = &s->g->node[id], .graph = s->g, .dtype = t, .n = n, .form = DT_FORWARD};
    s->x = dt_random_values(values, 5);
    for (size_t i = 0; i < values && t == DT_BF16; i++)
        ((dt_bf16 *)(void *)s->x)[i] = dt_bf16_from_float(s->x[i]);
    s->prob = dt_random_values(values, 6);
    s->labels = malloc(rows * sizeof *s->labels);
    dt_facts f = {0};
    assert_ok(ce_facts(&s->c, &f, &err), &err);
    s->work = malloc(f.work_bytes);
    assert_true(s->labels != NULL && s->work != NULL);
    for (size_t i = 0; i < rows; i++)
        s->labels[i] = (int32_t)(i % (size_t)x.c);
    s->now = (dt_now){.step_labels = (int64_t)rows};
    s->a = (dt_args){.n = n, .now = &s->now, .step_labels = (int64_t)rows};
    s->a.port[DT_X] = s->x;
    s->a.port[DT_S] = s->prob;
    s->a.port[DT_LABELS] = s->labels;
    s->a.port[DT_METRICS] = &s->m;
    s->a.port[DT_WORK] = s->work;
}

static void unscore(scored *s)
{
    dt_graph_destroy(s->g);
    free(s->x);
    free(s->prob);
    free(s->labels);
    free(s->work);
}

static void narrow_gradients_may_lie_over_probabilities(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        const dt_shape x = {1, 7, 1, 300};
        const size_t values = 5 * 7 * 300;
        scored s;
        dt_err err = {0};
        score(&s, 5, x, DT_BF16);
        dt_bf16 *apart = malloc(values * sizeof *apart);
        assert_non_null(apart);
        s.c.form = DT_BACKWARD;
        s.a.port[DT_DX] = apart;
        assert_ok(find("cross_entropy")->run(&s.c, NULL, &s.a, &err), &err);
        s.a.port[DT_DX] = s.prob;
        dt_host_backwards = order == 1;
        assert_ok(find("cross_entropy")->run(&s.c, NULL, &s.a, &err), &err);
        assert_memory_equal(s.prob, apart, values * sizeof *apart);
        free(apart);
        unscore(&s);
    }
}

static void a_label_that_is_no_class_makes_the_loss_not_finite(void **state)
{
    (void)state;
    const dt_shape x = {1, 1, 1, 10};
    const int32_t wrong[] = {-2, 10, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        scored s;
        dt_err err = {0};
        score(&s, 4, x, DT_F32);
        s.labels[2] = wrong[i];
        assert_ok(find("cross_entropy")->run(&s.c, NULL, &s.a, &err), &err);
        assert_int_equal(s.m.nonfinite, 1);
        assert_int_equal(s.m.count, 4);
        unscore(&s);
    }
}

static void metrics_and_smoothing_are_the_processors(void **state)
{
    (void)state;
    const dt_shape x = {1, 3, 2, 37};
    dt_metrics m[2];
    for (int side = 0; side < 2; side++) {
        scored s;
        dt_err err = {0};
        const dt_kernels *k = side == 0 ? &dt_cross_entropy_cpu : find("cross_entropy");
        score(&s, 4, x, DT_F32);
        s.now.hyper.label_smoothing = 0.1f;
        for (int i = 0; i < 4 * 6 * 37; i++)
            s.x[i] = rintf(1.5f * s.x[i]); /* many are equal */
        if (side == 0)
            s.a.hyper = s.now.hyper;
        for (int again = 0; again < 2; again++) {
            s.a.accumulate = again == 1;
            assert_ok(k->run(&s.c, NULL, &s.a, &err), &err);
        }
        m[side] = s.m;
        unscore(&s);
    }
    assert_int_equal(m[1].count, 2 * 4 * 6);
    assert_int_equal(m[1].top1, m[0].top1);
    assert_int_equal(m[1].top5, m[0].top5);
    assert_true(fabs(m[1].loss_sum - m[0].loss_sum) <= 1e-9 * m[0].loss_sum);
}

/* Pixels of each class, in two micro-batches; some scores are equal, one is not a number. */
static void classes_are_counted_as_by_the_processor(void **state)
{
    (void)state;
    _Static_assert(offsetof(scored, of) == offsetof(scored, m) + sizeof(dt_metrics), "a gap");
    const dt_shape x = {1, 7, 5, 37};
    dt_class_count of[3][40]; /* the third with threads in the other order */
    for (int side = 0; side < 3; side++) {
        scored s;
        dt_err err = {0};
        const dt_kernels *k = side == 0 ? &dt_cross_entropy_cpu : find("cross_entropy");
        dt_host_backwards = side == 2;
        score(&s, 4, x, DT_F32);
        s.c.form = DT_EVAL;
        memset(s.of, 7, sizeof s.of); /* left by an earlier batch */
        for (int i = 0; i < 4 * 35 * 37; i++)
            s.x[i] = rintf(1.5f * s.x[i]);
        s.x[37 * 50 + 3] = NAN;
        for (int again = 0; again < 2; again++) {
            s.a.accumulate = again == 1;
            assert_ok(k->run(&s.c, NULL, &s.a, &err), &err);
        }
        memcpy(of[side], s.of, sizeof s.of);
        unscore(&s);
    }
    dt_host_backwards = false;
    assert_memory_equal(of[1], of[0], sizeof of[0]);
    assert_memory_equal(of[2], of[0], sizeof of[0]);
    int64_t labelled = 0, predicted = 0;
    for (int c = 0; c < 37; c++) {
        labelled += of[0][c].labelled;
        predicted += of[0][c].predicted;
    }
    assert_int_equal(labelled, 2 * 4 * 35);
    assert_int_equal(predicted, labelled - 2);
}

static void scores_that_are_not_numbers_rank_nothing(void **state)
{
    (void)state;
    const dt_shape x = {1, 1, 1, 10};
    scored s;
    dt_err err = {0};
    score(&s, 2, x, DT_F32);
    s.x[13] = NAN;
    assert_ok(find("cross_entropy")->run(&s.c, NULL, &s.a, &err), &err);
    assert_int_equal(s.m.nonfinite, 1);
    assert_true(s.m.top5 <= 1);
    unscore(&s);
}

DT_TEST_GROUP(cuda_kernels)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(kernels_give_the_processors_results, threads_forwards),
        cmocka_unit_test_setup(kernels_give_the_processors_results_in_bf16, threads_forwards),
        cmocka_unit_test_setup(the_order_of_threads_changes_no_bit, threads_forwards),
        cmocka_unit_test_setup(in_place_and_in_pieces_the_bits_are_the_same, threads_forwards),
        cmocka_unit_test_setup(ops_on_parameters_give_the_processors_bits, threads_forwards),
        cmocka_unit_test_setup(
            many_updates_in_few_launches_give_the_processors_bits, threads_forwards),
        cmocka_unit_test_setup(
            updates_of_moments_in_8_bits_give_the_processors_bits, threads_forwards),
        cmocka_unit_test_setup(
            batchnorm_joins_micro_batches_of_values_far_from_zero, threads_forwards),
        cmocka_unit_test_setup(a_tokens_rows_are_added_in_their_order, threads_forwards),
        cmocka_unit_test_setup(
            what_is_no_token_gives_a_row_of_nan_and_no_gradient, threads_forwards),
        cmocka_unit_test_setup(narrow_gradients_may_lie_over_probabilities, threads_forwards),
        cmocka_unit_test_setup(
            a_label_that_is_no_class_makes_the_loss_not_finite, threads_forwards),
        cmocka_unit_test_setup(metrics_and_smoothing_are_the_processors, threads_forwards),
        cmocka_unit_test_setup(classes_are_counted_as_by_the_processor, threads_forwards),
        cmocka_unit_test_setup(scores_that_are_not_numbers_rank_nothing, threads_forwards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
