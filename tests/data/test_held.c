/* Parts of a source: what is held out, and the rest. */
#include <stdio.h>
#include <string.h>

#include "data/held.h"
#include "engine/base/alloc.h"
#include "tests/fixture/check.h"
#include "tests/fixture/data_files.h"

/* Sample i is {i} with label i % 3; counts how often it was closed. */
typedef struct numbers {
    dt_source base;
    int64_t count;
    int *closed;
} numbers;

static int64_t count(const dt_source *s)
{
    return ((const numbers *)s)->count;
}

static dt_status read(
    const dt_source *s, int64_t i, uint64_t key, float *x, int32_t *label, dt_err *err)
{
    (void)key, (void)err;
    assert_true(i >= 0 && i < count(s));
    x[0] = (float)i;
    *label = (int32_t)(i % 3);
    return DT_OK;
}

static void close_numbers(dt_source *s)
{
    ++*((numbers *)s)->closed;
    dt_free(s);
}

static int64_t three(const dt_source *s)
{
    (void)s;
    return 3;
}

static const char *name_of(const dt_source *s, int32_t label)
{
    static const char *const names[] = {"a", "b", "c"};
    (void)s;
    return names[label];
}

static void say(const dt_source *s, char *text, size_t n)
{
    snprintf(text, n, "%d numbers", (int)count(s));
}

static const dt_source_desc any = {.name = "numbers",
    .count = count,
    .read = read,
    .close = close_numbers,
    .classes = three,
    .class_name = name_of,
    .describe = say};
static const dt_source_desc fixed = {
    .name = "fixed", .count = count, .read = read, .close = close_numbers};

static dt_source *new_numbers(const dt_source_desc *d, int64_t n, int64_t batch, int *closed)
{
    numbers *s = dt_alloc(1, sizeof *s);
    assert_non_null(s);
    *s = (numbers){{.desc = d, .opts = {.batch = batch}, .fixed_order = d == &fixed}, n, closed};
    return &s->base;
}

static dt_source *part_of(
    const dt_source_desc *d, int64_t n, int64_t batch, double share, bool held, int *closed)
{
    dt_err err = {0};
    dt_source *s = new_numbers(d, n, batch, closed);
    assert_ok(dt_source_hold(&s, share, held, &err), &err);
    return s;
}

static int64_t number_at(const dt_source *s, int64_t i)
{
    float x = -1;
    int32_t label = -1;
    dt_err err = {0};
    assert_ok(s->desc->read(s, i, 0, &x, &label, &err), &err);
    assert_int_equal(label, (int64_t)x % 3);
    return (int64_t)x;
}

/* Every number is in one of both, each rising. */
static void check_parts(const dt_source *held, const dt_source *rest, int64_t n)
{
    int64_t h = 0, r = 0;
    const int64_t n_held = held->desc->count(held), n_rest = rest->desc->count(rest);
    assert_int_equal(n_held + n_rest, n);
    for (int64_t i = 0; i < n; i++)
        if (h < n_held && number_at(held, h) == i)
            h++;
        else
            assert_int_equal(number_at(rest, r++), i);
    assert_int_equal(h, n_held);
    assert_int_equal(r, n_rest);
}

static void each_sample_is_held_out_or_learned_from(void **state)
{
    (void)state;
    static const double shares[] = {1e-9, 0.1, 0.25, 0.5, 0.9};
    int closed = 0, opened = 0;
    for (int64_t n = 2; n < 300; n += 1 + n / 3)
        for (size_t i = 0; i < DT_COUNT(shares); i++) {
            dt_source *held = part_of(&any, n, 4, shares[i], true, &closed);
            dt_source *rest = part_of(&any, n, 4, shares[i], false, &closed);
            check_parts(held, rest, n);
            const double want = shares[i] * (double)n, got = (double)held->desc->count(held);
            assert_true(
                (got <= want + 0.5 || got < 1.5) && (got >= want - 0.5 || got > (double)n - 1.5));
            held->desc->close(held);
            rest->desc->close(rest);
            opened += 2;
        }
    assert_int_equal(closed, opened);
}

/* Samples that stand by class are held out of all classes. */
static void any_sample_may_be_held_out(void **state)
{
    (void)state;
    int closed = 0, in_quarter[4] = {0};
    dt_source *held = part_of(&any, 4000, 4, 0.1, true, &closed);
    assert_int_equal(held->desc->count(held), 400);
    for (int64_t i = 0; i < 400; i++)
        in_quarter[number_at(held, i) / 1000]++;
    for (int q = 0; q < 4; q++)
        assert_in_range(in_quarter[q], 60, 140); /* by chance 100 +- 9 */
    held->desc->close(held);
}

static void a_fixed_order_loses_its_last_batches(void **state)
{
    (void)state;
    int closed = 0;
    dt_source *held = part_of(&fixed, 40, 8, 0.3, true, &closed);
    dt_source *rest = part_of(&fixed, 40, 8, 0.3, false, &closed);
    check_parts(held, rest, 40);
    assert_int_equal(held->desc->count(held), 16); /* 1.5 batches of 5, rounded */
    assert_int_equal(number_at(held, 0), 24);
    assert_int_equal(number_at(rest, 23), 23);
    held->desc->close(held);
    rest->desc->close(rest);
}

static void too_few_to_share_are_refused(void **state)
{
    (void)state;
    static const struct {
        const dt_source_desc *d;
        int64_t n, batch;
        const char *says;
    } all[] = {{&any, 1, 1, "1 sample: too few"}, {&any, 0, 1, "0 samples: too few"},
        {&fixed, 8, 8, "1 batch: too few"}, {&fixed, 15, 8, "1 batch: too few"}};
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        int closed = 0;
        dt_err err = {0};
        dt_source *s = new_numbers(all[i].d, all[i].n, all[i].batch, &closed);
        assert_int_equal(dt_source_hold(&s, 0.5, true, &err), DT_E_CONFIG);
        assert_non_null(strstr(err.text, all[i].says));
        assert_null(s);
        assert_int_equal(closed, 1);
    }
}

static void a_part_is_what_the_whole_is(void **state)
{
    (void)state;
    int closed = 0;
    char text[256];
    dt_source *held = part_of(&any, 10, 1, 0.1, true, &closed);
    assert_string_equal(held->desc->name, "numbers");
    assert_int_equal(held->desc->classes(held), 3);
    assert_string_equal(held->desc->class_name(held, 1), "b");
    held->desc->describe(held, text, sizeof text);
    assert_string_equal(text, "10 numbers; 1 sample of them held out");
    held->desc->close(held);
    dt_source *bare = part_of(&fixed, 10, 1, 0.1, false, &closed);
    assert_null(bare->desc->classes);
    assert_null(bare->desc->class_name);
    bare->desc->describe(bare, text, sizeof text);
    assert_string_equal(text, "9 samples of them to learn from");
    bare->desc->close(bare);
}

/* As pictures are read once more without their scale, to be shown. */
static void its_desc_opens_the_same_part(void **state)
{
    (void)state;
    const uint32_t dims[] = {9, 4, 4}, one[] = {9};
    uint8_t pixel[9 * 16], label[9];
    for (int i = 0; i < 9; i++) {
        memset(pixel + 16 * i, 20 * i, 16);
        label[i] = (uint8_t)i;
    }
    blob images = make_idx(3, dims, pixel, sizeof pixel), labels = make_idx(1, one, label, 9);
    put_file(dt_temp_path("idx/train-images-idx3-ubyte"), images.p, images.n);
    put_file(dt_temp_path("idx/train-labels-idx1-ubyte"), labels.p, labels.n);
    char folder[1024];
    snprintf(folder, sizeof folder, "%s", dt_temp_path("idx"));
    const dt_source_opts o = {.path = folder, .shape = {1, 4, 4, 1}, .classes = 9, .batch = 2};
    dt_source *part, *again;
    dt_err err = {0};
    assert_ok(dt_source_idx.open(&dt_source_idx, &part, &o, &err), &err);
    assert_ok(dt_source_hold(&part, 0.4, true, &err), &err);
    assert_ok(part->desc->open(part->desc, &again, &o, &err), &err);
    assert_int_equal(part->desc->count(part), 4);
    assert_int_equal(again->desc->count(again), 4);
    for (int64_t i = 0; i < 4; i++) {
        float x[16], y[16];
        int32_t a, b;
        assert_ok(part->desc->read(part, i, 0, x, &a, &err), &err);
        assert_ok(again->desc->read(again, i, 0, y, &b, &err), &err);
        assert_int_equal(a, b);
        assert_memory_equal(x, y, sizeof x);
    }
    again->desc->close(again);
    open_with_faults(part->desc, &o);
    part->desc->close(part);
    blob_free(&images);
    blob_free(&labels);
}

DT_TEST_GROUP(held)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sample_is_held_out_or_learned_from),
        cmocka_unit_test(any_sample_may_be_held_out),
        cmocka_unit_test(a_fixed_order_loses_its_last_batches),
        cmocka_unit_test(too_few_to_share_are_refused),
        cmocka_unit_test(a_part_is_what_the_whole_is),
        cmocka_unit_test(its_desc_opens_the_same_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
