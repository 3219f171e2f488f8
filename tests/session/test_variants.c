/* Variants of a configuration: which there are, which keys matter to which list, what is refused,
 * and which of them train the same. */
#include <string.h>

#include "engine/base/alloc.h"
#include "session/variants.h"
#include "tests/fixture/run_cli.h"

static const char *config(void)
{
    return cli_file("variants.ini", "[model]\nname = lenet5\n[train]\nbatch = 8\nsteps = 2\n");
}

/* Keys whose values are literals. */
#define KEY(of, name_, ...)                                                                        \
    {                                                                                              \
        .name = of "." name_, .section = of, .key = name_,                                         \
        .n = sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), .value = (const char *[])     \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

static dt_status open_lists(
    dt_variants *v, const dt_vary *keys, const char *const *lists, size_t n, dt_err *err)
{
    const dt_variants_of of = {.path = config(), .lists = lists, .n_lists = n};
    return dt_variants_open(v, keys, &of, err);
}

static size_t pairs_of(const dt_variants *v, size_t list)
{
    size_t n = 0;
    for (size_t i = 0; i < v->n_pair; i++)
        n += v->pair[i].list == list;
    return n;
}

static void without_keys_there_is_the_configuration_alone(void **state)
{
    (void)state;
    static const char *const lists[] = {"keep_all", "gist", "auto"};
    const dt_vary none = {.n = 0};
    dt_variants v;
    dt_err err = {0};
    assert_ok(open_lists(&v, &none, lists, 3, &err), &err);
    assert_int_equal(v.n, 1);
    assert_int_equal(v.n_pair, 3);
    assert_int_equal(v.n_group, 1);
    assert_int_equal(v.variant[0].session->inside, 0);
    dti_variants_close(&v);
}

static void several_keys_give_their_product(void **state)
{
    (void)state;
    static const char *const lists[] = {"keep_all", "chen_sqrt"};
    const dt_vary keys = {.n = 2,
        .key = {
            KEY("train", "micro_batch", "8", "4", "2"), KEY("memory", "pool", "greedy", "bfc")}};
    dt_variants v;
    dt_err err = {0};
    assert_ok(open_lists(&v, &keys, lists, 2, &err), &err);
    assert_int_equal(v.n, 6);
    assert_int_equal(v.n_pair, 12);
    assert_int_equal(v.n_group, 3); /* a pool changes no bit, sums over micro-batches do */
    for (size_t i = 0; i < v.n; i++) {
        const dt_session *s = v.variant[i].session;
        char text[128];
        assert_string_equal(s->opts.memory.pool, keys.key[1].value[v.variant[i].value[1]]);
        assert_int_equal(s->micro_batch, 8 >> v.variant[i].value[0]);
        assert_int_equal(v.variant[i].group, (size_t)v.variant[i].value[0]);
        assert_int_equal(dti_variants_for(&v, i, 1), i);
        dt_variant_text(&keys, &v.variant[i], text, sizeof text);
        assert_has(text, "train.micro_batch = ");
        assert_has(text, ", memory.pool = ");
    }
    dti_variants_close(&v);
}

static void options_of_a_policy_matter_to_its_lists_alone(void **state)
{
    (void)state;
    static const char *const lists[] = {"keep_all", "gist", "vdnn_conv,gist", "chen_sqrt"};
    const dt_vary keys = {.n = 2,
        .key = {
            KEY("policy.gist", "dpr", "fp16", "fp8"), KEY("train", "precision", "fp32", "fp32 ")}};
    dt_variants v;
    dt_err err = {0};
    assert_ok(open_lists(&v, &keys, lists, 4, &err), &err);
    assert_int_equal(pairs_of(&v, 0), 2);
    assert_int_equal(pairs_of(&v, 1), 4);
    assert_int_equal(pairs_of(&v, 2), 4);
    assert_int_equal(pairs_of(&v, 3), 2);
    assert_int_equal(v.n, 2 + 4);
    assert_int_equal(v.n_group, 1);
    for (size_t i = 0; i < v.n; i++) {
        const dt_variant *kept = &v.variant[dti_variants_for(&v, i, 0)];
        assert_true(kept->value[0] < 0);
        assert_int_equal(kept->value[1], v.variant[i].value[1]);
    }
    dti_variants_close(&v);
}

/* A ladder may come to its rungs, and auto takes the homes that others have. */
static void options_matter_to_what_may_come_to_the_policy(void **state)
{
    (void)state;
    static const char *const lists[] = {
        "keep_all", "vdnn_dyn", "auto", "chen_sqrt", "zero_infinity"};
    const dt_vary keys = {.n = 2,
        .key = {KEY("policy.vdnn_conv", "join", "reader", "layer"),
            KEY("policy.zero_infinity", "parameters", "host", "disk")}};
    dt_variants v;
    dt_err err = {0};
    assert_ok(open_lists(&v, &keys, lists, 5, &err), &err);
    assert_int_equal(pairs_of(&v, 0), 1);
    assert_int_equal(pairs_of(&v, 1), 2);
    assert_int_equal(pairs_of(&v, 2), 2);
    assert_int_equal(pairs_of(&v, 3), 1);
    assert_int_equal(pairs_of(&v, 4), 2);
    assert_true(v.variant[v.pair[1].variant].value[0] == 0);
    assert_true(v.variant[v.pair[3].variant].value[1] == 0);
    for (size_t i = 0; i < v.n; i++)
        assert_non_null(v.variant[i].session);
    dti_variants_close(&v);
}

static void what_is_refused_is_a_variant_that_says_so(void **state)
{
    (void)state;
    static const char *const lists[] = {"keep_all"};
    const dt_vary keys = {.n = 1, .key = {KEY("train", "micro_batch", "3", "4", "x")}};
    dt_variants v;
    dt_err err = {0};
    assert_ok(open_lists(&v, &keys, lists, 1, &err), &err);
    assert_int_equal(v.n, 3);
    assert_null(v.variant[0].session);
    assert_int_equal(v.variant[0].status, DT_E_CONFIG);
    assert_has(v.variant[0].refused, "micro_batch = 3 does not divide batch = 8");
    assert_non_null(v.variant[1].session);
    assert_has(v.variant[2].refused, "micro_batch = x: ");
    assert_int_equal(v.n_group, 1);
    dti_variants_close(&v);
}

/* Else a table would hold nothing but refusals for the sake of a slip. */
static void a_key_of_which_nothing_is_taken_is_a_mistake(void **state)
{
    (void)state;
    static const char *const lists[] = {"keep_all", "gist"};
    const struct {
        dt_varied key;
        const char *want;
    } wrong[] = {
        {KEY("memory", "pol", "greedy", "bfc"), "did you mean 'pool'?"},
        {KEY("memory", "pool", "gredy"), "did you mean 'greedy'?"},
        {KEY("policy.gist", "dpq", "fp8"), "unknown key 'dpq', did you mean 'dpr'?"},
        {KEY("policy.gits", "dpr", "fp8"), "policy.gits"},
        {KEY("policy.cdma", "density", "0.5"), "no list of --policies comes to cdma"},
    };
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        const dt_vary keys = {.n = 2, .key = {KEY("train", "precision", "fp32"), wrong[i].key}};
        dt_variants v;
        dt_err err = {0};
        assert_fails(open_lists(&v, &keys, lists, 2, &err), DT_E_CONFIG, &err, wrong[i].want);
        dti_variants_close(&v);
    }
}

static void more_rows_than_the_limit_are_refused_before_anything_is_opened(void **state)
{
    (void)state;
    static const char *const lists[] = {"keep_all", "chen_sqrt"};
    static const char *value[1000];
    static char text[1000][8];
    for (int i = 0; i < 1000; i++) {
        snprintf(text[i], sizeof text[i], "%d", i + 1);
        value[i] = text[i];
    }
    const dt_varied seeds = {
        .name = "train.seed", .section = "train", .key = "seed", .n = 1000, .value = value};
    dt_vary keys = {.n = 2, .key = {seeds, seeds}};
    dt_variants v;
    dt_err err = {0};
    dt_variants_of of = {.path = "/nonexistent", .lists = lists, .n_lists = 2};
    assert_fails(dt_variants_open(&v, &keys, &of, &err), DT_E_CONFIG, &err,
        "2000000 rows, of 2 lists of policies under their variants, are more than 512");
    dti_variants_close(&v);
    for (keys.n = 0; keys.n < DT_VARIED_KEYS; keys.n++) /* 10^48 do not fit a number */
        keys.key[keys.n] = seeds;
    err = (dt_err){0};
    assert_fails(dt_variants_open(&v, &keys, &of, &err), DT_E_CONFIG, &err, "more than 1844");
    dti_variants_close(&v);
    keys = (dt_vary){.n = 1, .key = {seeds}};
    keys.key[0].n = DT_VARIANT_ROWS / 2 + 1;
    err = (dt_err){0};
    assert_fails(dt_variants_open(&v, &keys, &of, &err), DT_E_CONFIG, &err, "514 rows");
    dti_variants_close(&v);
    keys.key[0].n = DT_VARIANT_ROWS / 2; /* as many as there may be: now the file is looked for */
    err = (dt_err){0};
    assert_fails(dt_variants_open(&v, &keys, &of, &err), DT_E_CONFIG, &err, "/nonexistent");
    dti_variants_close(&v);
}

/* Of each kind of key: whether exact plans of both values train the same bits. */
static void groups_train_the_same(void **state)
{
    (void)state;
    static const char *const lists[] = {"keep_all"};
    const struct {
        dt_varied key;
        size_t groups;
    } keys[] = {
        {KEY("memory", "pool", "greedy", "best_fit"), 1},
        {KEY("memory", "tier", "host", "disk"), 1},
        {KEY("memory", "host_budget", "1GiB", "2GiB"), 1}, {KEY("train", "report", "on", "off"), 1},
        {KEY("memory", "algorithms", "fast", "small", "fit"), 3},
        {KEY("train", "batch", "8", "16"), 2}, {KEY("train", "lr", "0.1", "0.01", "1e-2"), 2},
        {KEY("train", "seed", "1", "2"), 2}, {KEY("model", "width", "8", "16"), 2},
        {KEY("model", "fuse", "on", "off"), 2}, {KEY("device", "threads", "1", "2"), 2},
        {KEY("memory", "simulate", "p100", "v100"), 2}, /* the same bits, but no one clock */
    };
    for (size_t i = 0; i < DT_COUNT(keys); i++) {
        const dt_vary one = {.n = 1, .key = {keys[i].key}};
        dt_variants v;
        dt_err err = {0};
        const dt_status st = open_lists(&v, &one, lists, 1, &err);
        assert_ok(st, &err);
        if (v.n_group != keys[i].groups)
            fail_msg("%s: %zu groups", keys[i].key.name, v.n_group);
        dti_variants_close(&v);
    }
}

static void memory_that_is_not_there_fails_cleanly(void **state)
{
    (void)state;
    static const char *const lists[] = {"keep_all", "gist"};
    const dt_vary keys = {.n = 1, .key = {KEY("policy.gist", "dpr", "fp16", "nothing")}};
    const long live = dti_alloc_live();
    dt_status st = DT_E_NOMEM;
    for (long k = 1; st != DT_OK && k < 100000; k += k < 400 ? 1 : 37) {
        dt_variants v;
        dt_err err = {0};
        dti_alloc_fail_at(k);
        st = open_lists(&v, &keys, lists, 2, &err);
        dti_alloc_fail_at(0);
        assert_true(st == DT_OK || st == DT_E_NOMEM);
        dti_variants_close(&v);
        assert_int_equal(dti_alloc_live(), live);
    }
    assert_int_equal(st, DT_OK);
}

DT_TEST_GROUP(variants)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_keys_there_is_the_configuration_alone),
        cmocka_unit_test(several_keys_give_their_product),
        cmocka_unit_test(options_of_a_policy_matter_to_its_lists_alone),
        cmocka_unit_test(options_matter_to_what_may_come_to_the_policy),
        cmocka_unit_test(what_is_refused_is_a_variant_that_says_so),
        cmocka_unit_test(a_key_of_which_nothing_is_taken_is_a_mistake),
        cmocka_unit_test(more_rows_than_the_limit_are_refused_before_anything_is_opened),
        cmocka_unit_test(groups_train_the_same),
        cmocka_unit_test(memory_that_is_not_there_fails_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
