/* Lists of implementations: which is chosen, why those before it are not. Made-up lists, and a
 * convolution's and the LSTM's on the processor. */
#include <string.h>

#include "engine/context.h"
#include "layers/blocked/amx.h"
#include "layers/weighted/conv.h"
#include "layers/sequence/lstm.h"
#include "tests/fixture/check.h"

/* --- made-up lists --- */

static int created, destroyed;
static const char *ran;

static bool takes_even(const dt_call *c, dt_why *why)
{
    return c->n % 2 == 0 || dt_refuse(why, "%d samples, needs an even number", (int)c->n);
}

static bool takes_none(const dt_call *c, dt_why *why)
{
    (void)c;
    return dt_refuse(why, "is never right");
}

static dt_status tell(dt_facts *f, const char *name, size_t bytes)
{
    f->work_bytes = bytes;
    snprintf(f->impl, sizeof f->impl, "%s", name);
    return DT_OK;
}

static dt_status large_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)c, (void)err;
    return tell(f, "large", 100);
}

static dt_status larger_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)c, (void)err;
    return tell(f, "larger", 200);
}

static dt_status small_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)c, (void)err;
    return tell(f, "small", 10);
}

static dt_status large_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)c, (void)a, (void)err;
    assert_null(state);
    ran = "large";
    return DT_OK;
}

static dt_status small_create(const dt_call *c, void **state, dt_err *err)
{
    (void)c, (void)err;
    *state = &created;
    created++;
    return DT_OK;
}

static void small_destroy(void *state)
{
    assert_ptr_equal(state, &created);
    destroyed++;
}

static dt_status small_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)c, (void)a, (void)err;
    assert_ptr_equal(state, &created);
    ran = "small";
    return DT_OK;
}

static const dt_impl list[] = {
    {.name = "never", .accepts = takes_none, .facts = large_facts, .run = large_run},
    {.name = "gradient", .forms = DT_FORM_BIT(DT_BACKWARD), .facts = larger_facts},
    {.name = "large",
        .accepts = takes_even,
        .yields = true,
        .facts = large_facts,
        .run = large_run},
    {.name = "in vain", .yields = true, .facts = larger_facts},
    {.name = "small",
        .facts = small_facts,
        .create = small_create,
        .destroy = small_destroy,
        .run = small_run},
    {0},
};
DT_IMPLS(list);
static const dt_kernels made_up = {DT_BY_IMPLS(list)};

static dt_choice choose(const dt_call *c)
{
    dt_choice choice;
    dt_err err = {0};
    assert_ok(dti_impl_choose(list, c, &choice, &err), &err);
    return choice;
}

static void the_first_that_accepts_is_taken(void **state)
{
    (void)state;
    dt_choice c = choose(&(dt_call){.form = DT_FORWARD, .n = 2});
    assert_string_equal(c.taken->name, "large");
    assert_int_equal(c.n, 1);
    assert_string_equal(c.refused[0].impl->name, "never");
    assert_string_equal(c.refused[0].why.text, "is never right");
    c = choose(&(dt_call){.form = DT_FORWARD, .n = 3});
    assert_string_equal(c.taken->name, "in vain");
    assert_int_equal(c.n, 2);
    assert_string_equal(c.refused[1].impl->name, "large");
    assert_string_equal(c.refused[1].why.text, "3 samples, needs an even number");
    c = choose(&(dt_call){.form = DT_BACKWARD, .n = 2});
    assert_string_equal(c.taken->name, "gradient");
}

/* Layouts are made for who reads them; recomputes and evaluation go with forward. */
static void ops_go_with_the_one_they_serve(void **state)
{
    (void)state;
    static const struct {
        dt_form_kind form;
        const char *name;
    } cases[] = {{DT_RECOMPUTE, "large"}, {DT_EVAL, "large"}, {DT_DERIVE_F, "large"},
        {DT_DERIVE_B, "large"}, {DT_BACKWARD2, "large"}, {DT_RESTORE, "gradient"}};
    for (size_t i = 0; i < DT_COUNT(cases); i++)
        assert_string_equal(
            choose(&(dt_call){.form = cases[i].form, .n = 2}).taken->name, cases[i].name);
}

static dt_choice within(size_t limit)
{
    return choose(&(dt_call){.form = DT_FORWARD, .n = 2, .workspace_limit = limit});
}

static void one_that_yields_is_passed_over_by_the_limit(void **state)
{
    (void)state;
    dt_algorithms all;
    dt_err err = {0};
    const dt_call call = {.form = DT_FORWARD, .n = 2};
    assert_string_equal(within(DT_LIMIT_ANY).taken->name, "large");
    assert_string_equal(within(100).taken->name, "large");
    assert_int_equal(within(100).n, 1); /* what comes after it is not told of */
    dt_choice c = within(99);
    assert_string_equal(c.taken->name, "small"); /* not the one that takes more than the first */
    assert_int_equal(c.n, 2);
    assert_string_equal(c.refused[1].impl->name, "large");
    assert_string_equal(c.refused[1].why.text, "takes 100 bytes of scratch, above the limit");
    assert_string_equal(within(DT_LIMIT_LEAST).taken->name, "small");
    assert_ok(made_up.algorithms(&call, &all, &err), &err);
    assert_int_equal(all.n, 2);
    assert_string_equal(all.algorithm[0].impl, "large");
    assert_string_equal(all.algorithm[1].impl, "small");
    assert_ok(made_up.algorithms(&(dt_call){.form = DT_BACKWARD}, &all, &err), &err);
    assert_int_equal(all.n, 0);
    assert_ok(made_up.algorithms(&(dt_call){.form = DT_DERIVE_F}, &all, &err), &err);
    assert_int_equal(all.n, 0);
}

/* Though the limit should change in between. */
static void what_was_created_runs(void **state)
{
    (void)state;
    dt_call c = {.form = DT_FORWARD, .n = 2, .workspace_limit = DT_LIMIT_LEAST};
    const dt_args a = {0};
    dt_facts f = {.derived_bytes = 7};
    dt_err err = {0};
    void *op;
    assert_ok(made_up.facts(&c, &f, &err), &err);
    assert_string_equal(f.impl, "small");
    assert_int_equal(dt_facts_bytes(&f), 10);
    assert_ok(made_up.create(&c, &op, &err), &err);
    c.workspace_limit = DT_LIMIT_ANY;
    assert_ok(made_up.run(&c, op, &a, &err), &err);
    assert_string_equal(ran, "small");
    made_up.destroy(op);
    assert_int_equal(created, 1);
    assert_int_equal(destroyed, 1);
    assert_ok(made_up.create(&c, &op, &err), &err);
    assert_ok(made_up.run(&c, op, &a, &err), &err);
    assert_string_equal(ran, "large");
    made_up.destroy(op);
    assert_int_equal(destroyed, 1);
    made_up.destroy(NULL);
}

static void none_that_accepts_is_an_error(void **state)
{
    (void)state;
    static const dt_impl none[] = {{.name = "never", .accepts = takes_none}, {0}};
    dt_choice choice;
    dt_err err = {0};
    assert_fails(dti_impl_choose(none, &(dt_call){.form = DT_FORWARD}, &choice, &err),
        DT_E_INTERNAL, &err, "is never right");
}

/* --- the processor's --- */

/* A 3 x 3 convolution, its one deviation from what Winograd's takes, and the reason, which in bf16
 * is one only where the processor has AMX. */
static const struct row {
    dt_conv o;
    int64_t c;
    dt_dtype dtype;
    const char *why; /* NULL: taken */
} rows[] = {
    {{64, 3, 1, 1, 1, 1, true}, 64, DT_F32, NULL},
    {{64, 3, 1, 1, 1, 1, true}, 64, DT_BF16, "bf16, for which AMX is faster"},
    {{64, 5, 1, 1, 1, 1, true}, 64, DT_F32, "kernel 5, needs 3"},
    {{64, 3, 2, 1, 1, 1, true}, 64, DT_F32, "stride 2, needs 1"},
    {{64, 3, 1, 3, 1, 1, true}, 64, DT_F32, "padding 3, at most 2"},
    {{64, 3, 1, 1, 2, 1, true}, 64, DT_F32, "dilation 2, needs 1"},
    {{64, 3, 1, 1, 1, 2, true}, 64, DT_F32, "2 groups, needs 1"},
    {{64, 3, 1, 1, 1, 1, true}, 16, DT_F32, "16 channels, needs at least 32"},
    {{32, 3, 1, 1, 1, 1, true}, 32, DT_F32, NULL},
    {{63, 3, 1, 1, 1, 1, true}, 64, DT_F32, "63 channels, needs a multiple of 16"},
    {{72, 3, 1, 1, 1, 1, true}, 64, DT_F32, "72 channels, needs a multiple of 16"},
};

/* Of a form of a layer that reads x. */
static dt_choice choose_layer(
    const dt_layer_desc *layer, const void *opts, dt_shape x, dt_form_kind form, dt_dtype dtype)
{
    const int32_t in = DT_GRAPH_INPUT;
    dt_graph *g;
    dt_choice c;
    int32_t id;
    dt_err err = {0};
    assert_ok(dt_graph_create(&g, "one", x, 10, &err), &err);
    assert_ok(dt_graph_add(g, layer, "layer", opts, &in, 1, &id, &err), &err);
    const dt_call call = {
        .node = &g->node[id], .graph = g, .form = form, .dtype = dtype, .n = 2, .home_n = 2};
    assert_ok(dti_call_choice(&call, layer, &c, &err), &err);
    dt_graph_destroy(g);
    return c;
}

static void a_convolution_says_why_it_is_not_winograds(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        const dt_choice c = choose_layer(
            &dt_layer_conv, &rows[i].o, (dt_shape){1, 9, 9, rows[i].c}, DT_FORWARD, rows[i].dtype);
        if (rows[i].why == NULL || (rows[i].dtype == DT_BF16 && !dti_amx_here())) {
            assert_string_equal(c.taken->name, "winograd");
            assert_int_equal(c.n, 0);
        } else {
            assert_string_equal(c.taken->name, "oneDNN");
            assert_int_equal(c.n, 2); /* the others are for other forms */
            assert_string_equal(c.refused[0].why.text, rows[i].why);
            assert_string_equal(c.refused[1].impl->name, "product");
        }
    }
}

/* Of fp32, on one pixel, of channels that fill panels: where a weight is large and pixels are few,
 * or one panel is all. */
static void a_convolution_says_why_it_is_no_product_over_pixels(void **state)
{
    (void)state;
    static const char many[] = "the weight is small, or pixels are many: the library is as fast";
    static const struct {
        dt_conv o;
        int64_t side, c;
        dt_dtype dtype;
        const char *why; /* NULL: taken */
    } cases[] = {
        {{256, 1, 1, 0, 1, 1, true}, 56, 64, DT_F32, NULL},
        {{256, 1, 1, 0, 1, 1, true}, 56, 64, DT_BF16, "bf16, needs fp32"},
        {{256, 3, 1, 1, 1, 1, true}, 56, 64, DT_F32, "kernel 3, padding 1, needs 1 and 0"},
        {{256, 1, 1, 1, 1, 1, true}, 56, 64, DT_F32, "kernel 1, padding 1, needs 1 and 0"},
        {{256, 1, 1, 0, 1, 1, true}, 56, 65, DT_F32, "65 and 256 channels, needs multiples of 64"},
        {{256, 1, 2, 0, 1, 1, true}, 56, 64, DT_F32, many},
        {{1024, 1, 1, 0, 1, 1, true}, 56, 1024, DT_F32, many},
        {{1024, 1, 8, 0, 1, 1, true}, 56, 1024, DT_F32, NULL},
        {{1024, 1, 8, 0, 1, 2, true}, 56, 1024, DT_F32, "2 groups, needs 1"},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        const dt_shape x = {1, cases[i].side, cases[i].side, cases[i].c};
        const dt_choice c =
            choose_layer(&dt_layer_conv, &cases[i].o, x, DT_BACKWARD2, cases[i].dtype);
        int k = 0;
        while (k < c.n && strcmp(c.refused[k].impl->name, "pixels") != 0)
            k++;
        if (cases[i].why == NULL)
            assert_string_equal(c.taken->name, "pixels");
        else if (k < c.n)
            assert_string_equal(c.refused[k].why.text, cases[i].why);
        else /* what stands before it takes the op */
            assert_true(
                strcmp(c.taken->name, "winograd") == 0 || strcmp(c.taken->name, "amx") == 0 ||
                strcmp(c.taken->name, "pixel_pairs") == 0 || strcmp(c.taken->name, "product") == 0);
    }
}

static void an_lstm_says_why_tasks_have_a_step(void **state)
{
    (void)state;
    static const dt_form_kind forms[] = {DT_FORWARD, DT_BACKWARD};
    for (size_t i = 0; i < DT_COUNT(forms); i++) {
        dt_lstm o = {.out = 256};
        dt_choice c = choose_layer(&dt_layer_lstm, &o, (dt_shape){1, 1, 5, 8}, forms[i], DT_F32);
        assert_non_null(c.taken);
        assert_string_equal(c.taken->name, "samples");
        assert_int_equal(c.n, 0);
        o.out = 257;
        c = choose_layer(&dt_layer_lstm, &o, (dt_shape){1, 1, 5, 8}, forms[i], DT_F32);
        assert_string_equal(c.taken->name, "steps");
        assert_int_equal(c.n, 1);
        assert_string_equal(c.refused[0].impl->name, "samples");
        assert_string_equal(c.refused[0].why.text, "264196 weights of h, at most 262144");
    }
}

DT_TEST_GROUP(implementations)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_that_accepts_is_taken),
        cmocka_unit_test(ops_go_with_the_one_they_serve),
        cmocka_unit_test(one_that_yields_is_passed_over_by_the_limit),
        cmocka_unit_test(what_was_created_runs),
        cmocka_unit_test(none_that_accepts_is_an_error),
        cmocka_unit_test(a_convolution_says_why_it_is_not_winograds),
        cmocka_unit_test(a_convolution_says_why_it_is_no_product_over_pixels),
        cmocka_unit_test(an_lstm_says_why_tasks_have_a_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
