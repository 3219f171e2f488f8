/* The graph's own checks, and what it adds up. */
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/graph.h"
#include "layers/weighted/conv.h"
#include "layers/weighted/fc.h"
#include "layers/plain.h"
#include "tests/fixture/check.h"

static const int32_t input = DT_GRAPH_INPUT;

static dt_graph *new_graph(void)
{
    dt_graph *g;
    dt_err err = {0};
    assert_ok(dt_graph_create(&g, "net", (dt_shape){1, 8, 8, 3}, 10, &err), &err);
    return g;
}

static dt_status add(dt_graph *g, const dt_layer_desc *desc, const char *name, const void *opts,
    int32_t in, dt_err *err)
{
    int32_t id;
    return dt_graph_add(g, desc, name, opts, &in, 1, &id, err);
}

/* conv 3 -> 4, relu, fc -> @classes, cross_entropy */
static dt_graph *small_network(int64_t classes)
{
    const dt_conv conv = {4, 3, 1, 1, 1, 1, true};
    const dt_fc fc = {classes, true};
    dt_graph *g = new_graph();
    dt_err err = {0};
    assert_ok(add(g, &dt_layer_conv, "conv1", &conv, input, &err), &err);
    assert_ok(add(g, &dt_layer_relu, "relu", NULL, 0, &err), &err);
    assert_ok(add(g, &dt_layer_fc, "fc", &fc, 1, &err), &err);
    assert_ok(add(g, &dt_layer_cross_entropy, "loss", NULL, 2, &err), &err);
    return g;
}

static void a_whole_network_passes(void **state)
{
    (void)state;
    dt_graph *g = small_network(10);
    dt_err err = {0};
    assert_ok(dt_graph_check(g, &err), &err);
    assert_int_equal(dt_graph_parameters(g), 4 * 27 + 4 + 10 * 256 + 10);
    assert_int_equal(dt_graph_find(g, "fc"), 2);
    assert_int_equal(dt_graph_find(g, "fc2"), DT_GRAPH_INPUT - 1);
    assert_int_equal(dt_graph_shape(g, 0).c, 4);
    assert_int_equal(dt_graph_shape(g, input).h, 8);
    dt_graph_destroy(g);
}

static void options_left_out_take_their_defaults(void **state)
{
    (void)state;
    dt_graph *g = new_graph();
    dt_err err = {0};
    const dt_layer_desc *layers[] = {&dt_layer_relu, &dt_layer_conv};
    assert_ok(add(g, layers[0], "a", NULL, input, &err), &err);
    assert_fails(add(g, layers[1], "b", NULL, input, &err), DT_E_CONFIG, &err, "out 0, kernel 0");
    dt_graph_destroy(g);
}

/* Each of many is found, by nothing but its name, and its name is taken. */
static void names_of_many_layers_are_found(void **state)
{
    (void)state;
    enum { LAYERS = 50000 };
    dt_graph *g = new_graph();
    dt_err err = {0};
    char name[32];
    for (int32_t i = 0; i < LAYERS; i++) {
        snprintf(name, sizeof name, "layer%d", (int)i);
        assert_int_equal(dt_graph_find(g, name), DT_GRAPH_INPUT - 1);
        assert_ok(add(g, &dt_layer_relu, name, NULL, i - 1, &err), &err);
    }
    for (int32_t i = 0; i < LAYERS; i++) {
        snprintf(name, sizeof name, "layer%d", (int)i);
        assert_int_equal(dt_graph_find(g, name), i);
    }
    assert_fails(add(g, &dt_layer_relu, "layer77", NULL, 0, &err), DT_E_CONFIG, &err,
        "two layers are called 'layer77'");
    assert_int_equal(dt_graph_find(g, "layer"), DT_GRAPH_INPUT - 1);
    assert_int_equal(dt_graph_find(g, "layer50000"), DT_GRAPH_INPUT - 1);
    dt_graph_destroy(g);
}

static void names_are_unique_and_printable(void **state)
{
    (void)state;
    char longest[DT_NAME_BYTES + 1];
    dt_graph *g = new_graph(), *none;
    dt_err err = {0};
    memset(longest, 'a', DT_NAME_BYTES);
    longest[DT_NAME_BYTES] = '\0';
    assert_ok(add(g, &dt_layer_relu, "layer1.0-b_2", NULL, input, &err), &err);
    assert_fails(add(g, &dt_layer_relu, "layer1.0-b_2", NULL, input, &err), DT_E_CONFIG, &err,
        "two layers are called 'layer1.0-b_2'");
    assert_fails(
        add(g, &dt_layer_relu, "a b", NULL, input, &err), DT_E_CONFIG, &err, "letters, digits");
    assert_fails(
        add(g, &dt_layer_relu, "", NULL, input, &err), DT_E_CONFIG, &err, "without a name");
    assert_fails(add(g, &dt_layer_relu, longest, NULL, input, &err), DT_E_CONFIG, &err,
        "at most 95 bytes, this has 96");
    assert_ok(add(g, &dt_layer_relu, longest + 1, NULL, input, &err), &err);
    assert_fails(dt_graph_create(&none, "a/b", (dt_shape){1, 1, 1, 1}, 1, &err), DT_E_CONFIG, &err,
        "network 'a/b'");
    assert_null(none);
    assert_int_equal(g->n_node, 2);
    dt_graph_destroy(g);
}

static void inputs_must_exist_and_be_as_many_as_the_layer_takes(void **state)
{
    (void)state;
    const int32_t two[] = {DT_GRAPH_INPUT, DT_GRAPH_INPUT};
    int32_t id;
    dt_graph *g = new_graph();
    dt_err err = {0};
    assert_fails(dt_graph_add(g, &dt_layer_relu, "r", NULL, two, 2, &id, &err), DT_E_CONFIG, &err,
        "has 2 inputs; it takes 1");
    assert_fails(dt_graph_add(g, &dt_layer_add, "a", NULL, two, 1, &id, &err), DT_E_CONFIG, &err,
        "has 1 input; it takes 2 to 16");
    assert_fails(add(g, &dt_layer_relu, "s", NULL, 0, &err), DT_E_CONFIG, &err, "reads value 0");
    assert_fails(add(g, &dt_layer_relu, "t", NULL, -2, &err), DT_E_CONFIG, &err, "reads value -2");
    assert_int_equal(g->n_node, 0);
    dt_graph_destroy(g);
}

static void shapes_that_do_not_fit_are_named_with_both_layers(void **state)
{
    (void)state;
    const dt_conv conv = {4, 3, 1, 0, 1, 1, true};
    const int32_t both[] = {0, DT_GRAPH_INPUT};
    int32_t id;
    dt_graph *g = new_graph();
    dt_err err = {0};
    assert_ok(add(g, &dt_layer_conv, "c1", &conv, input, &err), &err);
    assert_fails(dt_graph_add(g, &dt_layer_add, "sum", NULL, both, 2, &id, &err), DT_E_CONFIG, &err,
        "in layer 'sum' (add), whose inputs are c1 (6x6x4), the input (8x8x3)");
    dt_graph_destroy(g);
}

static void sizes_that_overflow_are_refused(void **state)
{
    (void)state;
    const int64_t huge = INT64_C(1) << 31, most = INT64_MAX;
    const dt_conv conv = {1 << 20, 1, 1, 0, 1, 1, false};
    const dt_shape bad[] = {{1, huge, huge, huge}, {1, most, 1, 1}, {1, 0, 8, 3}, {1, 8, -1, 3},
        {2, 8, 8, 3}, {1, 1 << 20, 1 << 20, 2}};
    dt_graph *g;
    dt_err err = {0};
    for (size_t i = 0; i < DT_COUNT(bad); i++) {
        assert_fails(
            dt_graph_create(&g, "net", bad[i], 10, &err), DT_E_CONFIG, &err, "empty or too large");
        assert_null(g);
    }
    assert_ok(dt_graph_create(&g, "net", (dt_shape){1, 1 << 10, 1 << 10, 1 << 18}, 10, &err), &err);
    assert_fails(add(g, &dt_layer_conv, "c", &conv, input, &err), DT_E_CONFIG, &err, "too large");
    dt_graph_destroy(g);
}

static void a_network_has_one_loss_and_it_is_last(void **state)
{
    (void)state;
    dt_graph *g = new_graph();
    dt_err err = {0};
    assert_fails(dt_graph_check(g, &err), DT_E_CONFIG, &err, "has no layers");
    assert_ok(add(g, &dt_layer_relu, "relu", NULL, input, &err), &err);
    assert_fails(
        dt_graph_check(g, &err), DT_E_CONFIG, &err, "the last layer, 'relu' (relu), is no");
    dt_graph_destroy(g);
    g = small_network(10);
    assert_ok(add(g, &dt_layer_cross_entropy, "loss2", NULL, 2, &err), &err);
    assert_fails(dt_graph_check(g, &err), DT_E_CONFIG, &err, "'loss' is a loss but not the last");
    dt_graph_destroy(g);
}

static void scores_must_be_as_many_as_classes(void **state)
{
    (void)state;
    dt_graph *g = small_network(11);
    dt_err err = {0};
    assert_fails(
        dt_graph_check(g, &err), DT_E_CONFIG, &err, "'fc' gives the loss 11 scores for 10 classes");
    dt_graph_destroy(g);
}

static void every_value_must_be_read(void **state)
{
    (void)state;
    const dt_fc fc = {10, true};
    dt_graph *g = new_graph();
    dt_err err = {0};
    assert_ok(add(g, &dt_layer_relu, "lost", NULL, input, &err), &err);
    assert_ok(add(g, &dt_layer_fc, "fc", &fc, input, &err), &err);
    assert_ok(add(g, &dt_layer_cross_entropy, "loss", NULL, 1, &err), &err);
    assert_fails(dt_graph_check(g, &err), DT_E_CONFIG, &err, "no layer reads lost");
    dt_graph_destroy(g);
}

static void no_memory_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    const dt_fc fc = {10, true};
    const long before = dti_alloc_live();
    long k = 1;
    for (bool failed = true; failed; k++) {
        dt_graph *g = NULL;
        dt_err err = {0};
        dti_alloc_fail_at(k);
        dt_status st = dt_graph_create(&g, "net", (dt_shape){1, 1, 1, 3}, 10, &err);
        if (st == DT_OK)
            st = add(g, &dt_layer_fc, "fc", &fc, input, &err);
        dti_alloc_fail_at(0);
        failed = st != DT_OK;
        assert_true(st == DT_OK || st == DT_E_NOMEM);
        dt_graph_destroy(g);
        assert_int_equal(dti_alloc_live(), before);
    }
    assert_true(k > 3);
}

DT_TEST_GROUP(graph)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_network_passes),
        cmocka_unit_test(options_left_out_take_their_defaults),
        cmocka_unit_test(names_of_many_layers_are_found),
        cmocka_unit_test(names_are_unique_and_printable),
        cmocka_unit_test(inputs_must_exist_and_be_as_many_as_the_layer_takes),
        cmocka_unit_test(shapes_that_do_not_fit_are_named_with_both_layers),
        cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(a_network_has_one_loss_and_it_is_last),
        cmocka_unit_test(scores_must_be_as_many_as_classes),
        cmocka_unit_test(every_value_must_be_read),
        cmocka_unit_test(no_memory_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
