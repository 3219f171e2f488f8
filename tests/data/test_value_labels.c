/* Labels that are values: of tensors, of synthetic pictures, and the input's own. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/loader.h"
#include "engine/base/alloc.h"
#include "engine/checkpoint/safetensors.h"
#include "tests/fixture/check.h"
#include "tests/fixture/data_files.h"

enum { STEPS = 2, BATCH = 3, H = 2, W = 3, C = 4, PLANE = H * W, EACH = PLANE * C };
enum { SAMPLES = STEPS * BATCH, ALL = SAMPLES * EACH };

static dt_source *opened(const char *name, const dt_source_opts *o)
{
    dt_err err = {0};
    dt_source *s = NULL;
    assert_ok(dt_source_find(name)->open(dt_source_find(name), &s, o, &err), &err);
    return s;
}

static void read_sample(const dt_source *s, int64_t i, float *x, int32_t *label)
{
    dt_err err = {0};
    assert_ok(s->desc->read(s, i, 9, x, label, &err), &err);
}

/* ---- tensors ---- */

/* x is one value a sample, its number. */
typedef struct value_file {
    float x[SAMPLES];
    const void *y;
} value_file;

static dt_status value_bytes(
    void *arg, size_t i, size_t at, const void **bytes, size_t *n, dt_err *err)
{
    (void)n, (void)err;
    const value_file *f = arg;
    *bytes = (const char *)(i == 0 ? (const void *)f->x : f->y) + at;
    return DT_OK;
}

static const char *put_values(dt_st_out y, const void *bytes)
{
    value_file f = {.y = bytes};
    const dt_st_out entries[2] = {{"x", DT_ST_F32, 5, {STEPS, BATCH, 1, 1, 1}}, y};
    const char *path = dt_temp_path("values.safetensors");
    dt_err err = {0};
    for (int i = 0; i < SAMPLES; i++)
        f.x[i] = (float)i;
    put_folder(dt_temp_path("."));
    assert_ok(dt_st_write(path, entries, 2, NULL, 0, value_bytes, &f, NULL, &err), &err);
    return path;
}

static dt_source_opts value_opts(const char *path, dt_label_kind kind, dt_shape values)
{
    return (dt_source_opts){.path = path,
        .shape = {1, 1, 1, 1},
        .classes = values.c,
        .labels = dt_shape_sample(&values),
        .label_kind = kind,
        .values = values,
        .batch = BATCH};
}

/* The file has channels first. */
static void maps_of_values_come_in_the_layout_of_the_network(void **state)
{
    (void)state;
    const dt_shape map = {1, H, W, C};
    float y[ALL];
    for (int i = 0; i < ALL; i++)
        y[i] = (float)i / 8 - 5;
    y[EACH + PLANE + 2] = NAN; /* sample 1, channel 1, row 0, column 2 */
    const char *path = put_values((dt_st_out){"y", DT_ST_F32, 5, {STEPS, BATCH, C, H, W}}, y);
    const dt_source_opts o = value_opts(path, DT_LABEL_VALUE, map);
    dt_source *s = opened("tensors", &o);
    char text[200];
    assert_int_equal(s->desc->count(s), SAMPLES);
    for (int i = 0; i < SAMPLES; i++) {
        float x;
        int32_t label[EACH];
        read_sample(s, i, &x, label);
        assert_true(x == (float)i);
        for (int p = 0; p < PLANE; p++)
            for (int c = 0; c < C; c++) {
                const float want = y[i * EACH + c * PLANE + p];
                assert_int_equal(label[p * C + c], dt_label_of_value(want));
            }
    }
    s->desc->describe(s, text, sizeof text);
    assert_string_equal(
        text, "2 steps of 3 samples, in order; of 144 values of y 1 are NaN and do not count");
    s->desc->close(s);
}

/* More values than are read at a time. */
static void a_long_row_of_values_is_read_whole(void **state)
{
    (void)state;
    enum { LONG = 1300 };
    static float y[SAMPLES * LONG];
    static int32_t label[LONG];
    for (int i = 0; i < SAMPLES * LONG; i++)
        y[i] = (float)i;
    const char *path = put_values((dt_st_out){"y", DT_ST_F32, 3, {STEPS, BATCH, LONG}}, y);
    const dt_source_opts o = value_opts(path, DT_LABEL_VALUE, (dt_shape){1, 1, 1, LONG});
    dt_source *s = opened("tensors", &o);
    for (int i = 0; i < SAMPLES; i++) {
        float x;
        read_sample(s, i, &x, label);
        for (int k = 0; k < LONG; k++)
            assert_true(dt_label_value(label[k]) == y[i * LONG + k]);
    }
    s->desc->close(s);
}

/* Of every type that numbers can be stored in. */
static void values_of_any_type_are_read(void **state)
{
    (void)state;
    static const uint16_t half[SAMPLES] = {0x0000, 0x8001, 0x3C00, 0xC100, 0x7BFF, 0x7E00};
    static const float half_is[SAMPLES] = {0, -0x1p-24f, 1, -2.5f, 65504, NAN};
    static const uint16_t brain[SAMPLES] = {0x3F80, 0xC000, 0x0001, 0x7FC0, 0x4049, 0x8000};
    static const float brain_is[SAMPLES] = {1, -2, 0x1p-133f, NAN, 3.140625f, -0.0f};
    static const double wide[SAMPLES] = {0.1, -1e30, 1e-50, (double)NAN, 3, 4};
    static const float wide_is[SAMPLES] = {0.1f, -1e30f, 0, NAN, 3, 4};
    static const float whole_is[SAMPLES] = {0, 1, 2, 3, 100, 5};
    static const int64_t i64[SAMPLES] = {0, 1, 2, 3, 100, 5};
    static const int32_t i32[SAMPLES] = {0, 1, 2, 3, 100, 5};
    static const int16_t i16[SAMPLES] = {0, 1, 2, 3, 100, 5};
    static const int8_t i8[SAMPLES] = {0, 1, 2, 3, 100, 5};
    static const uint8_t u8[SAMPLES] = {0, 1, 2, 3, 100, 5};
    static const uint8_t flag[SAMPLES] = {0, 1, 1, 0, 1, 0};
    static const float flag_is[SAMPLES] = {0, 1, 1, 0, 1, 0};
    const struct {
        dt_st_type type;
        const void *bytes;
        const float *want;
    } all[] = {{DT_ST_F16, half, half_is}, {DT_ST_BF16, brain, brain_is},
        {DT_ST_F64, wide, wide_is}, {DT_ST_I64, i64, whole_is}, {DT_ST_I32, i32, whole_is},
        {DT_ST_I16, i16, whole_is}, {DT_ST_I8, i8, whole_is}, {DT_ST_U8, u8, whole_is},
        {DT_ST_BOOL, flag, flag_is}};
    for (size_t k = 0; k < DT_COUNT(all); k++) {
        const char *path =
            put_values((dt_st_out){"y", all[k].type, 2, {STEPS, BATCH}}, all[k].bytes);
        const dt_source_opts o = value_opts(path, DT_LABEL_VALUE, (dt_shape){1, 1, 1, 1});
        dt_source *s = opened("tensors", &o);
        for (int i = 0; i < SAMPLES; i++) {
            float x;
            int32_t label;
            read_sample(s, i, &x, &label);
            assert_int_equal(label, dt_label_of_value(all[k].want[i]));
        }
        s->desc->close(s);
    }
}

static void a_vector_may_be_written_in_each_of_its_shapes(void **state)
{
    (void)state;
    float y[SAMPLES * C];
    for (int i = 0; i < SAMPLES * C; i++)
        y[i] = (float)i;
    const dt_st_out vector[] = {
        {"y", DT_ST_F32, 3, {STEPS, BATCH, C}}, {"y", DT_ST_F32, 5, {STEPS, BATCH, C, 1, 1}}};
    const dt_st_out number[] = {{"y", DT_ST_F32, 2, {STEPS, BATCH}},
        {"y", DT_ST_F32, 3, {STEPS, BATCH, 1}}, {"y", DT_ST_F32, 5, {STEPS, BATCH, 1, 1, 1}}};
    for (size_t k = 0; k < DT_COUNT(vector) + DT_COUNT(number); k++) {
        const bool one = k >= DT_COUNT(vector);
        const dt_shape shape = {1, 1, 1, one ? 1 : C};
        const char *path = put_values(one ? number[k - DT_COUNT(vector)] : vector[k], y);
        const dt_source_opts o = value_opts(path, DT_LABEL_VALUE, shape);
        dt_source *s = opened("tensors", &o);
        float x;
        int32_t label[C];
        read_sample(s, 4, &x, label);
        for (int64_t c = 0; c < shape.c; c++)
            assert_true(dt_label_value(label[c]) == y[4 * shape.c + c]);
        s->desc->close(s);
    }
}

static void values_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static float y[ALL];
    const dt_shape map = {1, H, W, C}, vector = {1, 1, 1, C}, number = {1, 1, 1, 1};
    dt_source_opts o =
        value_opts(put_values((dt_st_out){"y", DT_ST_F32, 5, {STEPS, BATCH, C, W, H}}, y),
            DT_LABEL_VALUE, map);
    open_fails("tensors", &o, DT_E_DATA,
        "y is [2, 3, 4, 3, 2], the loss takes a value for each that the network gives, "
        "[steps, N, 4, 2, 3]");
    put_values((dt_st_out){"y", DT_ST_F32, 3, {STEPS, BATCH, EACH}}, y);
    open_fails("tensors", &o, DT_E_DATA, "gives, [steps, N, 4, 2, 3]");
    put_values((dt_st_out){"y", DT_ST_I64, 2, {STEPS, BATCH}}, y);
    o = value_opts(o.path, DT_LABEL_VALUE, vector);
    open_fails("tensors", &o, DT_E_DATA, "gives, [steps, N, 4] or [steps, N, 4, 1, 1]");
    put_values((dt_st_out){"y", DT_ST_F32, 2, {BATCH, STEPS}}, y);
    o = value_opts(o.path, DT_LABEL_VALUE, number);
    open_fails("tensors", &o, DT_E_DATA, "steps and samples must agree");
    put_values((dt_st_out){"z", DT_ST_F32, 2, {STEPS, BATCH}}, y);
    open_fails("tensors", &o, DT_E_DATA, "has no tensor 'y'");
}

static void values_that_no_loss_takes_are_named_with_their_place(void **state)
{
    (void)state;
    static float y[ALL];
    const dt_st_out map = {"y", DT_ST_F32, 5, {STEPS, BATCH, C, H, W}};
    const dt_shape shape = {1, H, W, C};
    y[EACH * 4 + PLANE * 2 + 4] = INFINITY; /* of step 1, its second sample */
    dt_source_opts o = value_opts(put_values(map, y), DT_LABEL_VALUE, shape);
    open_fails(
        "tensors", &o, DT_E_DATA, "y[1][1][2][1][1] is inf, but the loss takes finite values");
    y[EACH * 4 + PLANE * 2 + 4] = 1.5f;
    put_values(map, y);
    o.label_kind = DT_LABEL_PROBABILITY;
    open_fails(
        "tensors", &o, DT_E_DATA, "y[1][1][2][1][1] is 1.5, but the loss takes values from 0 to 1");
    for (int i = 0; i < ALL; i++)
        y[i] = NAN;
    put_values(map, y);
    open_fails("tensors", &o, DT_E_DATA, "each value of y is NaN, and none counts");
}

static void every_allocation_of_values_may_fail(void **state)
{
    (void)state;
    static const float y[SAMPLES];
    const char *path = put_values((dt_st_out){"y", DT_ST_F32, 2, {STEPS, BATCH}}, y);
    const dt_source_opts o = value_opts(path, DT_LABEL_VALUE, (dt_shape){1, 1, 1, 1});
    open_with_faults(dt_source_find("tensors"), &o);
}

/* ---- synthetic ---- */

enum { SIDE = 24, PIXELS = SIDE * SIDE, COLOURS = 3 };

static dt_source_opts synthetic_opts(dt_shape values)
{
    const int64_t n = values.h * values.w * values.c;
    return (dt_source_opts){.shape = {1, SIDE, SIDE, COLOURS},
        .classes = values.c,
        .labels = n,
        .label_kind = n > 0 ? DT_LABEL_VALUE : DT_LABEL_CLASS,
        .values = values,
        .samples = 640,
        .seed = 3};
}

/* Beside the same pictures with classes. */
static void synthetic_values_say_which_class_is_seen(void **state)
{
    (void)state;
    const dt_shape shapes[] = {{1, 1, 1, 5}, {1, 1, 1, 1}, {1, SIDE, SIDE, 5}, {1, 2, 3, 5}};
    static float x[2][PIXELS * COLOURS];
    static int32_t label[PIXELS * 5], class[PIXELS];
    for (size_t k = 0; k < DT_COUNT(shapes); k++) {
        const dt_shape v = shapes[k];
        const bool pixels = v.h == SIDE;
        const dt_source_opts o = synthetic_opts(v);
        dt_source_opts plain = synthetic_opts((dt_shape){0});
        plain.classes = v.c < 2 ? 2 : v.c;
        plain.labels = pixels ? PIXELS : 1;
        dt_source *s = opened("synthetic", &o), *p = opened("synthetic", &plain);
        for (int64_t i = 0; i < 12; i++) {
            read_sample(s, i, x[0], label);
            read_sample(p, i, x[1], class);
            assert_memory_equal(x[0], x[1], sizeof x[0]);
            for (int64_t at = 0; at < v.h * v.w * v.c; at++) {
                const float want = class[pixels ? at / v.c : 0] == at % v.c ? 1 : 0;
                assert_true(dt_label_value(label[at]) == want);
            }
        }
        s->desc->close(s);
        p->desc->close(p);
    }
}

/* ---- the input's own ---- */

static dt_status next_of(dt_loader *l, dt_batch *b, dt_err *err)
{
    dt_feed *f = dt_loader_feed(l);
    return f->next(f->self, b, err);
}

static void labels_may_be_the_input_itself(void **state)
{
    (void)state;
    dt_err err = {0};
    dt_source_opts o = synthetic_opts((dt_shape){0});
    o.classes = INT32_MAX;
    o.labels = 1;
    o.unlabelled = true;
    dt_source *s = opened("synthetic", &o);
    dt_loader *l = NULL;
    dt_batch b;
    char text[200];
    dt_loader_opts with = {
        .batch = 4, .ahead = 1, .own_labels = true, .label_kind = DT_LABEL_VALUE};
    assert_ok(dt_loader_create(&l, s, &with, &err), &err);
    for (int k = 0; k < 3; k++) {
        assert_ok(next_of(l, &b, &err), &err);
        for (int64_t i = 0; i < 4 * PIXELS * COLOURS; i++)
            assert_true(dt_label_value(b.labels[i]) == b.x[i]);
    }
    dt_loader_destroy(l);
    with.by_channel = true; /* as PyTorch flattens a picture */
    assert_ok(dt_loader_create(&l, s, &with, &err), &err);
    assert_ok(next_of(l, &b, &err), &err);
    for (int64_t i = 0; i < 4; i++)
        for (int64_t p = 0; p < PIXELS; p++)
            for (int64_t c = 0; c < COLOURS; c++)
                assert_true(dt_label_value(b.labels[(i * COLOURS + c) * PIXELS + p]) ==
                            b.x[(i * PIXELS + p) * COLOURS + c]);
    dt_loader_destroy(l);
    s->desc->describe(s, text, sizeof text);
    assert_string_equal(text, "640 synthetic pictures");
    s->desc->close(s);
}

static void an_input_that_the_loss_does_not_take_is_named(void **state)
{
    (void)state;
    dt_err err = {0};
    const float zero[3] = {0, 0, 0}, one[3] = {1, 1, 1};
    dt_source_opts o = synthetic_opts((dt_shape){0});
    o.classes = 2;
    o.labels = 1;
    const dt_loader_opts with = {
        .batch = 4, .ahead = 1, .own_labels = true, .label_kind = DT_LABEL_PROBABILITY};
    for (int k = 0; k < 2; k++) {
        dt_loader *l = NULL;
        dt_batch b;
        o.mean = k == 1 ? zero : NULL;
        o.std = k == 1 ? one : NULL;
        dt_source *s = opened("synthetic", &o);
        assert_ok(dt_loader_create(&l, s, &with, &err), &err);
        const dt_status st = next_of(l, &b, &err);
        if (k == 0)
            assert_fails(st, DT_E_DATA, &err, "set data.mean = 0 and data.std = 1");
        dt_loader_destroy(l);
        s->desc->close(s);
    }
}

/* x of a file of tensors is enough then. */
static void tensors_without_labels_are_read_where_nobody_asks_for_them(void **state)
{
    (void)state;
    static const float y[SAMPLES];
    const char *path = put_values((dt_st_out){"z", DT_ST_F32, 2, {STEPS, BATCH}}, y);
    dt_source_opts o = value_opts(path, DT_LABEL_CLASS, (dt_shape){1, 1, 1, 1});
    o.unlabelled = true;
    dt_source *s = opened("tensors", &o);
    float x;
    int32_t label = 7;
    assert_int_equal(s->desc->count(s), SAMPLES);
    read_sample(s, 5, &x, &label);
    assert_true(x == 5 && label == 0);
    s->desc->close(s);
}

DT_TEST_GROUP(value_labels)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_of_values_come_in_the_layout_of_the_network),
        cmocka_unit_test(a_long_row_of_values_is_read_whole),
        cmocka_unit_test(values_of_any_type_are_read),
        cmocka_unit_test(a_vector_may_be_written_in_each_of_its_shapes),
        cmocka_unit_test(values_that_do_not_fit_are_refused),
        cmocka_unit_test(values_that_no_loss_takes_are_named_with_their_place),
        cmocka_unit_test(every_allocation_of_values_may_fail),
        cmocka_unit_test(synthetic_values_say_which_class_is_seen),
        cmocka_unit_test(labels_may_be_the_input_itself),
        cmocka_unit_test(an_input_that_the_loss_does_not_take_is_named),
        cmocka_unit_test(tensors_without_labels_are_read_where_nobody_asks_for_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
