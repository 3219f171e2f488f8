/* Fusion: what becomes of a graph, and that the fused network is the same network: its steps leave
 * the same weights (under every policy: tests/fixture/exactness.c). By hand, below a session, as
 * networks begin with each other's weights, and one has joints that no model has. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/graph_fuse.h"
#include "engine/runner/runner.h"
#include "layers/norm/batchnorm.h"
#include "layers/weighted/conv.h"
#include "layers/weighted/fc.h"
#include "layers/plain.h"
#include "layers/registry.h"
#include "tests/fixture/check.h"
#include "tests/fixture/layer_check.h"
#include "tests/fixture/planned.h"
#include "tests/fixture/random_graph.h"
#include "tests/fixture/state.h"
#include "tests/fixture/trainee.h"

enum { STEPS = 4, BATCH = 4, CLASSES = 10 };

/* --- the graph --- */

static dt_graph *fused(const dt_graph *g)
{
    dt_graph *f;
    dt_err err = {0};
    assert_ok(dt_graph_fuse(&f, g, &err), &err);
    return f;
}

static int32_t add(dt_graph *g, const dt_layer_desc *desc, const char *name, const void *opts,
    int32_t a, int32_t b)
{
    const int32_t in[] = {a, b};
    int32_t id;
    dt_err err = {0};
    assert_ok(dt_graph_add(g, desc, name, opts, in, b < DT_GRAPH_INPUT ? 1 : 2, &id, &err), &err);
    return id;
}

enum { NONE = DT_GRAPH_INPUT - 1 };

/* A residual block, and a ReLU after each thing that it may not be fused with. */
static dt_graph *block(void)
{
    static const dt_batchnorm norm = {.eps = 2e-5, .momentum = 0.2};
    static const dt_conv conv = {4, 3, 1, 1, 1, 1, false};
    static const dt_fc fc = {CLASSES, true};
    dt_graph *g;
    dt_err err = {0};
    assert_ok(dt_graph_create(&g, "block", (dt_shape){1, 8, 8, 4}, CLASSES, &err), &err);
    const int32_t r0 = add(g, &dt_layer_relu, "r0", NULL, DT_GRAPH_INPUT, NONE);
    const int32_t c1 = add(g, &dt_layer_conv, "c1", &conv, r0, NONE);
    const int32_t n1 = add(g, &dt_layer_batchnorm, "n1", &norm, c1, NONE);
    const int32_t n2 = add(g, &dt_layer_batchnorm, "n2", &norm, c1, NONE);
    const int32_t r1 = add(g, &dt_layer_relu, "r1", NULL, n1, NONE);
    const int32_t r2 = add(g, &dt_layer_relu, "r2", NULL, n2, NONE); /* n2 has two readers */
    const int32_t a1 = add(g, &dt_layer_add, "a1", NULL, r1, n2);
    const int32_t a2 = add(g, &dt_layer_add, "a2", NULL, a1, r2);
    const int32_t r3 = add(g, &dt_layer_relu, "r3", NULL, a2, NONE);
    const int32_t r4 = add(g, &dt_layer_relu, "r4", NULL, r3, NONE);
    const int32_t c2 = add(g, &dt_layer_conv, "c2", &conv, r4, NONE);
    const int32_t r5 = add(g, &dt_layer_relu, "r5", NULL, c2, NONE);
    const int32_t a3 = add(g, &dt_layer_add, "a3", NULL, r5, r5); /* two readings by one */
    const int32_t a4 = add(g, &dt_layer_add, "a4", NULL, a3, a3);
    const int32_t f = add(g, &dt_layer_fc, "f", &fc, a4, NONE);
    add(g, &dt_layer_cross_entropy, "loss", NULL, f, NONE);
    return g;
}

static void relu_joins_its_only_writer_in_place_of_the_first(void **state)
{
    (void)state;
    static const struct {
        const char *name, *layer;
        int32_t in[2];
    } want[] = {{"r0", "relu", {DT_GRAPH_INPUT, NONE}}, {"c1", "conv", {0, NONE}},
        {"n1", "batchnorm_relu", {1, NONE}}, {"n2", "batchnorm", {1, NONE}},
        {"r2", "relu", {3, NONE}}, {"a1", "add", {2, 3}}, {"a2", "add_relu", {5, 4}},
        {"r4", "relu", {6, NONE}}, {"c2", "conv", {7, NONE}}, {"r5", "relu", {8, NONE}},
        {"a3", "add", {9, 9}}, {"a4", "add", {10, 10}}, {"f", "fc", {11, NONE}},
        {"loss", "cross_entropy", {12, NONE}}};
    dt_graph *g = block(), *f = fused(g);
    dt_err err = {0};
    assert_int_equal(f->n_node, DT_COUNT(want));
    for (size_t i = 0; i < DT_COUNT(want); i++) {
        const dt_node *nd = &f->node[i];
        assert_string_equal(nd->name, want[i].name);
        assert_string_equal(nd->desc->name, want[i].layer);
        for (int k = 0; k < nd->n_in; k++)
            assert_int_equal(nd->in[k], want[i].in[k]);
    }
    assert_ok(dt_graph_check(f, &err), &err);
    assert_string_equal(f->name, g->name);
    assert_int_equal(dt_graph_parameters(f), dt_graph_parameters(g));
    dt_graph_destroy(g); /* the fused one needs nothing of it */
    const dt_batchnorm *o = f->node[2].opts;
    assert_true(o->eps == 2e-5 && o->momentum == 0.2);
    dt_graph_destroy(f);
}

static void a_fused_graph_is_fused_already(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 60; seed++) {
        dt_graph *g = dt_random_graph(seed), *once = fused(g), *twice = fused(once);
        assert_int_equal(once->n_node, twice->n_node);
        for (size_t i = 0; i < once->n_node; i++)
            assert_ptr_equal(once->node[i].desc, twice->node[i].desc);
        dt_graph_destroy(g);
        dt_graph_destroy(once);
        dt_graph_destroy(twice);
    }
}

/* All that a network of PyTorch's may be asked for is still there: values by the names of layers
 * with parameters, of the same shapes. */
static void parameters_keep_names_and_shapes(void **state)
{
    (void)state;
    dt_graph *g = dt_standard("resnet50"), *f = fused(g);
    assert_int_equal(dt_graph_parameters(f), dt_graph_parameters(g));
    assert_int_equal(g->n_node - f->n_node, 33 + 16); /* normalisations and sums with a ReLU */
    for (size_t i = 0; i < g->n_node; i++) {
        const dt_layer_info *want = &g->node[i].info;
        if (want->n_param == 0)
            continue;
        const int32_t at = dt_graph_find(f, g->node[i].name);
        assert_true(at >= 0);
        const dt_layer_info *got = &f->node[at].info;
        assert_int_equal(got->n_param, want->n_param);
        for (int k = 0; k < want->n_param; k++) {
            assert_string_equal(got->param[k].name, want->param[k].name);
            assert_int_equal(dt_param_count(&got->param[k]), dt_param_count(&want->param[k]));
        }
    }
    dt_graph_destroy(g);
    dt_graph_destroy(f);
}

/* --- the layers --- */

/* Numbers at the edge among others, in sums alone: one would spoil a channel of a normalisation. */
static void plant_odd_values(float *v, size_t n)
{
    static const float odd[] = {
        0.0f, -0.0f, NAN, INFINITY, -INFINITY, 0x1p-126f, -0x1p-126f, -1.0f};
    for (size_t i = 0; i < n; i += 3)
        v[i] = odd[i / 3 % DT_COUNT(odd)];
}

/* A layer and then a ReLU, each checked alone, against the fused one: bits. */
static void as_one_after_the_other(
    const dt_layer_desc *first, const dt_layer_desc *both, int n_x, dt_shape x, int64_t n)
{
    const size_t count = (size_t)(n * dt_shape_sample(&x));
    float *in[3], *dy = dt_random_values(count, 9), *param[DT_MAX_PARAM];
    dt_layer_run a = {.desc = first, .n = n, .n_x = n_x}, r = {.desc = &dt_layer_relu, .n = n};
    for (int i = 0; i < n_x; i++) {
        a.in[i] = in[i] = dt_random_values(count, (uint32_t)i);
        if (first == &dt_layer_add && i == 0)
            plant_odd_values(in[i], count);
        a.x[i] = x;
    }
    for (int i = 0; i < DT_MAX_PARAM; i++)
        a.param[i] = param[i] = dt_random_values((size_t)x.c, 20 + (uint32_t)i);
    dt_layer_run one = a;
    one.desc = both;
    one.dy = dy;
    a.forward_only = true;
    dt_layer_check(&a);
    r.n_x = 1;
    r.x[0] = x;
    r.in[0] = a.got_y;
    r.dy = dy;
    dt_layer_check(&r);
    dt_layer_check_free(&a);
    a.forward_only = false;
    a.dy = r.got_dx[0];
    dt_layer_check(&a);
    for (one.alt = 0; one.alt < both->n_alt; one.alt++) {
        dt_layer_check(&one);
        assert_memory_equal(one.got_y, r.got_y, count * sizeof(float));
        for (int i = 0; i < n_x; i++)
            assert_memory_equal(one.got_dx[i], a.got_dx[i], count * sizeof(float));
        for (int i = 0; i < one.info.n_param; i++)
            assert_memory_equal(one.info.param[i].buffer ? one.got_pending[i] : one.got_dparam[i],
                one.info.param[i].buffer ? a.got_pending[i] : a.got_dparam[i],
                (size_t)x.c * sizeof(float));
        dt_layer_check_free(&one);
    }
    dt_layer_check_free(&a);
    dt_layer_check_free(&r);
    for (int i = 0; i < n_x; i++)
        free(in[i]);
    for (int i = 0; i < DT_MAX_PARAM; i++)
        free(param[i]);
    free(dy);
}

static void fused_layers_give_the_bits_of_their_parts(void **state)
{
    (void)state;
    static const dt_shape shapes[] = {{1, 1, 1, 1}, {1, 3, 5, 7}, {1, 28, 27, 70}, {1, 3, 3, 1030}};
    for (size_t i = 0; i < DT_COUNT(shapes); i++) {
        as_one_after_the_other(&dt_layer_batchnorm, &dt_layer_batchnorm_relu, 1, shapes[i], 5);
        as_one_after_the_other(&dt_layer_add, &dt_layer_add_relu, 2, shapes[i], 3);
        as_one_after_the_other(&dt_layer_add, &dt_layer_add_relu, 3, shapes[i], 3);
    }
}

/* --- the program --- */

static int32_t op_named(const dt_program *p, const char *name)
{
    for (size_t i = 0; i < p->n_op; i++)
        if (strcmp(p->op[i].name, name) == 0)
            return (int32_t)i;
    fail_msg("no op %s", name);
    return DT_NONE;
}

/* Backward of a fused sum writes one gradient, which all its inputs' gradients are or begin with.
 */
static void inputs_of_a_fused_sum_share_one_gradient(void **state)
{
    (void)state;
    dt_graph *g = block();
    dt_lowered m = dt_program_of(fused(g), DT_PROGRAM_FIRST, 2);
    const dt_program *p = m.program;
    const dt_op *op = &p->op[op_named(p, "a2.b")];
    int written = 0;
    for (int i = 0; i < op->n_arg; i++)
        written += op->arg[i].mode == DT_WRITE;
    const int32_t dx = dt_op_tensor(op, DT_DX);
    assert_int_equal(written, 1);
    assert_int_equal(dt_op_tensor(op, DT_DX + 1), DT_NONE);
    /* n1's comes through a1, which shares it on; r2's is it; n2 adds two. */
    assert_int_equal(dt_op_tensor(&p->op[op_named(p, "n1.b")], DT_DY), dx);
    assert_int_equal(dt_op_tensor(&p->op[op_named(p, "r2.b")], DT_DY), dx);
    assert_int_not_equal(dt_op_tensor(&p->op[op_named(p, "n2.b")], DT_DY), dx);
    m.plan = dt_planned_by(m.program, "keep_all", "greedy");
    dt_lowered_close(&m);
    dt_graph_destroy(g);
}

/* Dropout behind a fused sum: backward reads only whether values are above zero, and dropout's
 * output says it too, so that the sum's own need not stay. */
static void a_fused_sum_reads_its_sign_behind_dropout(void **state)
{
    (void)state;
    static const dt_fc fc = {CLASSES, true};
    dt_graph *g;
    dt_err err = {0};
    assert_ok(dt_graph_create(&g, "g", (dt_shape){1, 1, 1, 8}, CLASSES, &err), &err);
    const int32_t f = add(g, &dt_layer_fc, "f", &fc, DT_GRAPH_INPUT, NONE);
    const int32_t s = add(g, &dt_layer_add_relu, "s", NULL, f, f);
    const int32_t d = add(g, dt_layer_find("dropout"), "d", NULL, s, NONE);
    add(g, &dt_layer_cross_entropy, "loss", NULL, add(g, &dt_layer_fc, "out", &fc, d, NONE), NONE);
    dt_lowered m = dt_program_of(g, DT_PROGRAM_FIRST, 2);
    const dt_program *p = m.program;
    assert_int_equal(dt_op_tensor(&p->op[op_named(p, "s.b")], DT_Y),
        dt_op_tensor(&p->op[op_named(p, "d.f")], DT_Y));
    dt_lowered_close(&m);
}

/* --- training --- */

static dt_stage open_trainee(dt_graph *g)
{
    const dt_stage_opts o = {1u << DT_PROGRAM_FIRST | 1u << DT_PROGRAM_UPDATE, BATCH, .seed = 7};
    return dt_stage_open(g, &o);
}

/* Persistent entry @i in PyTorch's layout; the caller frees it. */
static float *plain_of(const dt_stage *t, size_t i, size_t *count)
{
    const dt_home *h = &t->map->home[i];
    dt_err err = {0};
    *count = (size_t)dt_param_count(&t->graph->node[h->node].info.param[h->param]);
    float *v = malloc(*count * sizeof *v);
    assert_non_null(v);
    assert_ok(dt_values_get(t->runner, (int32_t)i, v, &err), &err);
    return v;
}

static size_t home_named(const dt_map *m, const char *name)
{
    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->home[i].name, name) == 0)
            return i;
    fail_msg("nothing persistent is called %s", name);
    return 0;
}

/* Random numbers are keyed by a node's place, so a fused network begins elsewhere. */
static void copy_weights(const dt_stage *from, dt_stage *to)
{
    for (size_t i = 0; i < to->map->n; i++) {
        size_t count;
        dt_err err = {0};
        if (to->map->home[i].port != DT_P)
            continue;
        float *v = plain_of(from, home_named(from->map, to->map->home[i].name), &count);
        assert_ok(dt_values_put(to->runner, (int32_t)i, v, &err), &err);
        free(v);
    }
}

static void train(dt_stage *t)
{
    const size_t n = BATCH * (size_t)dt_shape_sample(&t->graph->input);
    dt_err err = {0};
    for (int64_t step = 0; step < STEPS; step++) {
        float *x = dt_random_values(n, 40 + (uint32_t)step);
        const int32_t labels[BATCH] = {1, 7, (int32_t)step, 3};
        const dt_run_args a = {.batch = {x, labels, BATCH},
            .step = step,
            .step_labels = BATCH,
            .hyper = {0.02F, 0.9F, 0.0005F}};
        assert_ok(dt_runner_run(t->runner, t->id[DT_PROGRAM_FIRST], &a, &err), &err);
        assert_ok(dt_runner_run(t->runner, t->id[DT_PROGRAM_UPDATE], &a, &err), &err);
        free(x);
    }
}

static void trains_alike(dt_graph *(*build)(void))
{
    dt_graph *g = build();
    dt_stage a = open_trainee(build()), b = open_trainee(fused(g));
    dt_graph_destroy(g);
    copy_weights(&a, &b);
    train(&a);
    train(&b);
    for (size_t i = 0; i < b.map->n; i++) {
        size_t count, same;
        if (b.map->home[i].port != DT_P && b.map->home[i].port != DT_DP)
            continue;
        float *want = plain_of(&a, home_named(a.map, b.map->home[i].name), &count);
        float *got = plain_of(&b, i, &same);
        assert_int_equal(count, same);
        const double off = dt_relative_error(got, want, count);
        if (!(off < 1e-6))
            fail_msg("%s is off by %g", b.map->home[i].name, off);
        free(want);
        free(got);
    }
    dt_stage_close(&a);
    dt_stage_close(&b);
}

static void a_fused_network_trains_as_the_original(void **state)
{
    (void)state;
    trains_alike(dt_trainee_resnet);
    trains_alike(block);
}

DT_TEST_GROUP(fuse)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(relu_joins_its_only_writer_in_place_of_the_first),
        cmocka_unit_test(a_fused_graph_is_fused_already),
        cmocka_unit_test(parameters_keep_names_and_shapes),
        cmocka_unit_test(fused_layers_give_the_bits_of_their_parts),
        cmocka_unit_test(inputs_of_a_fused_sum_share_one_gradient),
        cmocka_unit_test(a_fused_sum_reads_its_sign_behind_dropout),
        cmocka_unit_test(a_fused_network_trains_as_the_original),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
