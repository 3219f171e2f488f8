/* Sources of pictures with a label for every pixel: synthetic, tensors; and the refusals of those
 * whose pictures have one label each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/held.h"
#include "data/source.h"
#include "engine/label.h"
#include "engine/base/alloc.h"
#include "engine/checkpoint/safetensors.h"
#include "tests/fixture/check.h"
#include "tests/fixture/data_files.h"

enum { SIDE = 24, PIXELS = SIDE * SIDE, CHANNELS = 3, CLASSES = 5, SAMPLES = 400 };

static dt_source_opts synthetic_opts(int64_t labels)
{
    return (dt_source_opts){.shape = {1, SIDE, SIDE, CHANNELS},
        .classes = CLASSES,
        .labels = labels,
        .samples = SAMPLES,
        .seed = 3};
}

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

/* What is labelled with the picture's own class is that picture; the rest is another. */
static void synthetic_labels_say_which_texture_a_pixel_belongs_to(void **state)
{
    (void)state;
    const dt_source_opts one = synthetic_opts(1), all = synthetic_opts(PIXELS);
    dt_source *plain = opened("synthetic", &one), *s = opened("synthetic", &all);
    int64_t other = 0;
    bool seen[CLASSES] = {false};
    for (int64_t i = 0; i < 40; i++) {
        float x[PIXELS * CHANNELS], want[PIXELS * CHANNELS];
        int32_t label[PIXELS], own;
        read_sample(plain, i, want, &own);
        read_sample(s, i, x, label);
        for (int64_t p = 0; p < PIXELS; p++) {
            const size_t bytes = CHANNELS * sizeof *x;
            const bool same = memcmp(x + p * CHANNELS, want + p * CHANNELS, bytes) == 0;
            assert_in_range(label[p], 0, CLASSES - 1);
            if (label[p] != own)
                assert_false(same);
            other += label[p] != own;
            seen[label[p]] = true;
        }
    }
    for (int c = 0; c < CLASSES; c++)
        assert_true(seen[c]);
    assert_true(other > 2 * PIXELS && other < 20 * PIXELS);
    s->desc->close(s);
    plain->desc->close(plain);
}

static void a_synthetic_picture_depends_on_seed_split_and_index_alone(void **state)
{
    (void)state;
    dt_source_opts o = synthetic_opts(PIXELS);
    static float x[3][PIXELS * CHANNELS];
    static int32_t label[3][PIXELS];
    for (int k = 0; k < 3; k++) { /* the second time after another picture */
        o.eval = k == 2;
        dt_source *s = opened("synthetic", &o);
        if (k == 1)
            read_sample(s, 8, x[1], label[1]);
        read_sample(s, 7, x[k], label[k]);
        s->desc->close(s);
    }
    assert_memory_equal(x[0], x[1], sizeof x[0]);
    assert_memory_equal(label[0], label[1], sizeof label[0]);
    assert_memory_not_equal(x[0], x[2], sizeof x[0]);
    assert_memory_not_equal(label[0], label[2], sizeof label[0]);
}

static void every_allocation_of_a_picture_may_fail(void **state)
{
    (void)state;
    const dt_source_opts o = synthetic_opts(PIXELS);
    dt_source *s = opened("synthetic", &o);
    const long live = dti_alloc_live();
    float x[PIXELS * CHANNELS];
    int32_t label[PIXELS];
    dt_status st = DT_E_NOMEM;
    long k = 0;
    while (st != DT_OK) {
        dt_err err = {0};
        dti_alloc_fail_at(++k);
        st = s->desc->read(s, 1, 0, x, label, &err);
        dti_alloc_fail_at(0);
        assert_true(st == DT_OK || (st == DT_E_NOMEM && err.n > 0));
        assert_int_equal(dti_alloc_live(), live);
    }
    assert_true(k > 3);
    s->desc->close(s);
}

/* --- tensors --- */

enum { STEPS = 2, BATCH = 2, H = 4, ALL = STEPS * BATCH * H * H };

typedef struct pixel_file {
    float x[ALL];
    int64_t y[ALL];
} pixel_file;

static dt_status pixel_bytes(
    void *arg, size_t i, size_t at, const void **bytes, size_t *n, dt_err *err)
{
    (void)at, (void)n, (void)err; /* at once */
    const pixel_file *f = arg;
    *bytes = i == 0 ? (const void *)f->x : f->y;
    return DT_OK;
}

/* Widths of pictures and of their labels. */
static const char *put_pixels(pixel_file *f, int64_t x_wide, int64_t wide)
{
    const dt_st_out entries[2] = {{"x", DT_ST_F32, 5, {STEPS, BATCH, 1, H * H / x_wide, x_wide}},
        {"y", DT_ST_I64, 4, {STEPS, BATCH, H * H / wide, wide}}};
    const char *path = dt_temp_path("pixels.safetensors");
    dt_err err = {0};
    put_folder(dt_temp_path("."));
    assert_ok(dt_st_write(path, entries, 2, NULL, 0, pixel_bytes, f, NULL, &err), &err);
    return path;
}

static void fill(pixel_file *f)
{
    for (int i = 0; i < ALL; i++) {
        f->x[i] = (float)i;
        f->y[i] = i * 3 % CLASSES;
    }
}

static dt_source_opts tensor_opts(const char *path)
{
    return (dt_source_opts){.path = path,
        .shape = {1, H, H, 1},
        .classes = CLASSES,
        .labels = H * H,
        .ignore_label = 255,
        .batch = BATCH};
}

static void pixels_come_in_file_order(int64_t wide)
{
    pixel_file f;
    fill(&f);
    dt_source_opts o = tensor_opts(put_pixels(&f, wide, wide));
    o.shape = (dt_shape){1, H * H / wide, wide, 1};
    dt_source *s = opened("tensors", &o);
    assert_int_equal(s->desc->count(s), STEPS * BATCH);
    for (int64_t i = 0; i < STEPS * BATCH; i++) {
        float x[H * H];
        int32_t label[H * H];
        read_sample(s, i, x, label);
        for (int64_t k = 0; k < H * H; k++) {
            assert_true(x[k] == (float)(i * H * H + k));
            assert_int_equal(label[k], (i * H * H + k) * 3 % CLASSES);
        }
    }
    s->desc->close(s);
}

/* Of one column, too, which is no sequence of tokens. */
static void tensors_of_pixels_come_in_file_order(void **state)
{
    (void)state;
    pixels_come_in_file_order(H);
    pixels_come_in_file_order(1);
}

static void tensors_that_do_not_fit_the_pixels_are_refused(void **state)
{
    (void)state;
    pixel_file f;
    fill(&f);
    dt_source_opts o = tensor_opts(put_pixels(&f, H, 2 * H));
    open_fails("tensors", &o, DT_E_DATA, "a label a pixel, [steps, N, 4, 4]");
    o = tensor_opts(put_pixels(&f, H, H));
    o.labels = 1;
    open_fails("tensors", &o, DT_E_DATA, "y is [2, 2, 4, 4], the network takes [steps, N]");
    f.y[H * H * BATCH + H + 2] = CLASSES;
    o = tensor_opts(put_pixels(&f, H, H));
    open_fails("tensors", &o, DT_E_DATA,
        "y[1][0][1][2] is 5, must be in [0, 5) or data.ignore_label, 255");
}

static void a_pixel_may_not_count(void **state)
{
    (void)state;
    pixel_file f;
    fill(&f);
    f.y[H * H + 3] = 255;
    dt_source_opts o = tensor_opts(put_pixels(&f, H, H));
    dt_source *s = opened("tensors", &o);
    float x[H * H];
    int32_t label[H * H];
    read_sample(s, 1, x, label);
    for (int k = 0; k < H * H; k++)
        assert_int_equal(label[k], k == 3 ? DT_LABEL_NONE : (H * H + k) * 3 % CLASSES);
    s->desc->close(s);
    o.ignore_label = 0; /* a class may be left out as well */
    open_fails("tensors", &o, DT_E_DATA, "y[0][1][0][3] is 255, must be in [0, 5)");
}

/* There may be more of them than memory is for. */
static void labels_stay_in_the_file(void **state)
{
    (void)state;
    pixel_file f;
    fill(&f);
    const dt_source_opts o = tensor_opts(put_pixels(&f, H, H));
    dt_source *s = opened("tensors", &o);
    for (int64_t now = 2; now <= CLASSES; now += CLASSES - 2) {
        FILE *file = fopen(o.path, "r+b");
        assert_non_null(file);
        assert_int_equal(fseek(file, -(long)(H * H * sizeof now) + 8, SEEK_END), 0);
        assert_int_equal(fwrite(&now, sizeof now, 1, file), 1);
        assert_int_equal(fclose(file), 0);
        float x[H * H];
        int32_t label[H * H];
        dt_err err = {0};
        const dt_status st = s->desc->read(s, STEPS * BATCH - 1, 9, x, label, &err);
        if (now < CLASSES)
            assert_true(st == DT_OK && label[1] == now);
        else
            assert_fails(st, DT_E_DATA, &err, "y[1][1][0][1] is 5, must be in [0, 5)");
    }
    s->desc->close(s);
}

static void a_step_of_which_nothing_counts_is_refused(void **state)
{
    (void)state;
    pixel_file f;
    fill(&f);
    for (int i = 0; i < ALL / STEPS; i++)
        f.y[ALL / STEPS + i] = 255;
    dt_source_opts o = tensor_opts(put_pixels(&f, H, H));
    dt_source *s = opened("tensors", &o); /* an evaluation takes all steps together */
    dt_err err = {0};
    assert_ok(s->desc->check_learned(s, BATCH, &err), &err);
    for (int held = 0; held < 2; held++) {
        assert_fails(s->desc->check_learned(s, STEPS * BATCH, &err), DT_E_DATA, &err,
            "each value of y[1] is data.ignore_label, 255, so noth");
        err = (dt_err){0};
        if (held == 0)
            assert_ok(dt_source_hold(&s, 0.5, false, &err), &err);
    }
    s->desc->close(s);
    memcpy(f.y, f.y + ALL / STEPS, sizeof f.y / STEPS);
    o.path = put_pixels(&f, H, H);
    open_fails("tensors", &o, DT_E_DATA, "each value of y is data.ignore_label, 255, and none");
}

static void sources_of_pictures_with_one_label_refuse_a_network_of_pixels(void **state)
{
    (void)state;
    static const char *const names[] = {"images", "cifar10", "idx"};
    for (size_t i = 0; i < DT_COUNT(names); i++) {
        dt_source_opts o = synthetic_opts(PIXELS);
        o.path = dt_temp_path(".");
        open_fails(names[i], &o, DT_E_CONFIG, "a label for each of 24x24 pixels");
        open_fails(names[i], &o, DT_E_CONFIG, "data.source = tensors or synthetic");
    }
    const dt_source_opts half = synthetic_opts(PIXELS / 4);
    open_fails("synthetic", &half, DT_E_CONFIG, "144 labels a sample");
}

DT_TEST_GROUP(pixel_labels)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(synthetic_labels_say_which_texture_a_pixel_belongs_to),
        cmocka_unit_test(a_synthetic_picture_depends_on_seed_split_and_index_alone),
        cmocka_unit_test(every_allocation_of_a_picture_may_fail),
        cmocka_unit_test(tensors_of_pixels_come_in_file_order),
        cmocka_unit_test(tensors_that_do_not_fit_the_pixels_are_refused),
        cmocka_unit_test(a_pixel_may_not_count),
        cmocka_unit_test(labels_stay_in_the_file),
        cmocka_unit_test(a_step_of_which_nothing_counts_is_refused),
        cmocka_unit_test(sources_of_pictures_with_one_label_refuse_a_network_of_pixels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
