/* Pictures cropped, resized, mirrored and normalised. */
#include <math.h>
#include <string.h>

#include "data/escape.h"
#include "data/shuffle.h"
#include "data/transform.h"
#include "engine/base/philox.h"
#include "tests/fixture/check.h"

static dt_source_opts plain(int64_t h, int64_t w, int64_t c)
{
    static const float zero[3] = {0}, scale[3] = {1 / 255.0f, 1 / 255.0f, 1 / 255.0f};
    return (dt_source_opts){.shape = {1, h, w, c}, .classes = 1, .mean = zero, .std = scale};
}

/* Values come out as 0 to 255. */
static void run(const dt_source_opts *o, const dti_picture *p, uint64_t key, float *x)
{
    dti_recipe r;
    dt_err err = {0};
    assert_ok(dti_recipe_make(&r, o, true, &err), &err);
    assert_ok(dti_transform(&r, p, key, x, &err), &err);
}

static bool close_to(float got, double want, double tolerance)
{
    return fabs((double)got - want) <= tolerance; /* false for NaN */
}

static void a_picture_of_the_right_size_is_not_touched(void **state)
{
    (void)state;
    uint8_t px[2 * 3 * 3];
    float x[DT_COUNT(px)];
    for (size_t i = 0; i < DT_COUNT(px); i++)
        px[i] = (uint8_t)(i * 14);
    const dt_source_opts o = plain(2, 3, 3);
    run(&o, &(dti_picture){px, 2, 3, 3}, 1, x);
    for (size_t i = 0; i < DT_COUNT(px); i++)
        assert_true(close_to(x[i], px[i], 1e-4));
}

static void images_are_normalised_with_imagenets_mean_by_default(void **state)
{
    (void)state;
    uint8_t px[3] = {255, 0, 51};
    float x[3];
    dt_source_opts o = plain(1, 1, 3);
    o.mean = o.std = NULL;
    run(&o, &(dti_picture){px, 1, 1, 3}, 1, x);
    assert_true(close_to(x[0], (1 - 0.485) / 0.229, 1e-5));
    assert_true(close_to(x[1], -0.456 / 0.224, 1e-5));
    assert_true(close_to(x[2], (0.2 - 0.406) / 0.225, 1e-5));
}

static void grey_is_repeated_and_colour_becomes_luma(void **state)
{
    (void)state;
    uint8_t grey[1] = {200}, colour[3] = {100, 50, 200};
    float x[3];
    const dt_source_opts rgb = plain(1, 1, 3), one = plain(1, 1, 1);
    run(&rgb, &(dti_picture){grey, 1, 1, 1}, 1, x);
    for (int c = 0; c < 3; c++)
        assert_true(close_to(x[c], 200, 1e-3));
    run(&one, &(dti_picture){colour, 1, 1, 3}, 1, x);
    assert_true(close_to(x[0], 0.299 * 100 + 0.587 * 50 + 0.114 * 200, 1e-3));
}

/* 16 pixels to 8: 7*256/224 = 8, so 8 of the 16 in a line, cut to 7 from the middle (0.5 rounds to
 * 0). The triangle of half width 2 around source position 2i+1 gives pixels 2i-1..2i+2 the weights
 * 1 3 3 1 (of 8). */
static void shrinking_averages_with_a_triangle(void **state)
{
    (void)state;
    uint8_t px[16 * 16];
    float x[7 * 7];
    for (int i = 0; i < 256; i++)
        px[i] = (uint8_t)((i % 16) * (i % 16)); /* a parabola across, the same in each row */
    const dt_source_opts o = plain(7, 7, 1);
    run(&o, &(dti_picture){px, 16, 16, 1}, 1, x);
    for (int i = 1; i < 7; i++) {
        const int a = 2 * i - 1;
        const double want =
            (a * a + 3.0 * (a + 1) * (a + 1) + 3.0 * (a + 2) * (a + 2) + 1.0 * (a + 3) * (a + 3)) /
            8;
        assert_true(close_to(x[3 * 7 + i], want, 1e-3));
    }
    /* the first has no pixel -1: 3 3 1 of 7 */
    assert_true(close_to(x[3 * 7], (3.0 * 0 + 3.0 * 1 + 1.0 * 4) / 7, 1e-3));
}

static void growing_interpolates_between_pixel_centres(void **state)
{
    (void)state;
    uint8_t px[4] = {0, 100, 0, 100};
    float x[7 * 7];
    const dt_source_opts o = plain(7, 7, 1);
    run(&o, &(dti_picture){px, 2, 2, 1}, 1, x); /* 2 to 8, of which the first 7 */
    const double want[7] = {0, 0, 12.5, 37.5, 62.5, 87.5, 100};
    for (int y = 0; y < 7; y++)
        for (int i = 0; i < 7; i++)
            assert_true(close_to(x[y * 7 + i], want[i], 1e-3));
}

/* The short side becomes 256, the long one int(256*500/375) = 341; cuts are at (256-224)/2 and
 * round(117/2 = 58.5) = 58. A horizontal ramp shows the place. */
static void the_centre_is_cut_where_torchvision_cuts(void **state)
{
    (void)state;
    enum { H = 375, W = 500 };
    static uint8_t px[H * W];
    static float x[224 * 224];
    for (int i = 0; i < H * W; i++)
        px[i] = (uint8_t)(i % W / 2);
    const dt_source_opts o = plain(224, 224, 1);
    run(&o, &(dti_picture){px, H, W, 1}, 1, x);
    for (int i = 0; i < 224; i += 31) {
        const double at = (58 + i + 0.5) * W / 341 - 0.5; /* in source pixels */
        assert_true(close_to(x[100 * 224 + i], (at - 0.5) / 2, 0.3));
    }
    for (int i = 0; i < H * W; i++)
        px[i] = (uint8_t)(i / W / 2);
    run(&o, &(dti_picture){px, H, W, 1}, 1, x);
    for (int y = 0; y < 224; y += 31) {
        const double at = (16 + y + 0.5) * H / 256 - 0.5;
        assert_true(close_to(x[y * 224 + 100], (at - 0.5) / 2, 0.3));
    }
}

/* 8x10 covers 8x8 without resizing; 0.5 and 1.5 rows and columns to cut become 0 and 2, as in
 * Python. */
static void halves_of_a_pixel_go_to_the_even_side(void **state)
{
    (void)state;
    uint8_t px[8 * 10];
    float x[7 * 7];
    for (size_t i = 0; i < sizeof px; i++)
        px[i] = (uint8_t)i;
    const dt_source_opts o = plain(7, 7, 1);
    run(&o, &(dti_picture){px, 8, 10, 1}, 1, x);
    for (int y = 0; y < 7; y++)
        for (int i = 0; i < 7; i++)
            assert_true(close_to(x[y * 7 + i], y * 10 + i + 2, 1e-3));
}

static void one_pixel_lines_are_enlarged(void **state)
{
    (void)state;
    static uint8_t px[20000];
    static float x[32 * 32 * 3];
    memset(px, 77, sizeof px);
    const dt_source_opts o = plain(32, 32, 3);
    run(&o, &(dti_picture){px, 1, 20000, 1}, 1, x);
    for (int i = 0; i < 32 * 32 * 3; i++)
        assert_true(close_to(x[i], 77, 1e-3));
    run(&o, &(dti_picture){px, 20000, 1, 1}, 1, x);
    assert_true(close_to(x[100], 77, 1e-3));
}

/* Each pixel of the picture has its own value above 0, so a shift and a mirror can be read off. */
static void augmenting_shifts_by_up_to_four_and_mirrors(void **state)
{
    (void)state;
    enum { S = 12 };
    uint8_t px[S * S];
    float x[S * S];
    for (int i = 0; i < S * S; i++)
        px[i] = (uint8_t)(i + 1);
    dt_source_opts o = plain(S, S, 1);
    o.augment = true;
    bool seen[2][9][9] = {0};
    int found = 0;
    for (uint64_t key = 0; key < 2000; key++) {
        run(&o, &(dti_picture){px, S, S, 1}, key, x);
        const int a = (int)lroundf(x[5 * S + 5]) - 1, b = (int)lroundf(x[5 * S + 6]) - 1;
        const int flip = b < a, col = flip ? S - 1 - 5 : 5;
        const int dy = a / S - 5, dx = a % S - col;
        assert_true(dy >= -4 && dy <= 4 && dx >= -4 && dx <= 4 && (b - a == 1 || a - b == 1));
        found += !seen[flip][dy + 4][dx + 4];
        seen[flip][dy + 4][dx + 4] = true;
        if (dy > 0) /* rows below the picture are zeros */
            assert_true(x[(S - 1) * S + 5] == 0);
    }
    assert_int_equal(found, 2 * 9 * 9);
}

/* Of a picture whose columns and rows are numbered, where the part began and how long it was. */
static void find_part(const float *line, int n, int stride, double *from, double *length)
{
    const double a = (double)line[8 * stride], b = (double)line[(n - 9) * stride];
    *length = (b - a) / (n - 17) * n;
    *from = a + 0.5 - 8.5 * (b - a) / (n - 17);
}

static void other_pictures_are_cut_as_random_resized_crop_does(void **state)
{
    (void)state;
    enum { H = 200, W = 240, S = 250 }; /* enlarging only: lines stay straight */
    static uint8_t px[H * W * 3];
    static float x[S * S * 3];
    for (int i = 0; i < H * W; i++) {
        px[3 * i] = (uint8_t)(i % W);
        px[3 * i + 1] = (uint8_t)(i / W);
    }
    dt_source_opts o = plain(S, S, 3);
    o.augment = true;
    double least = 1, most = 0;
    int flips = 0, wide = 0;
    for (uint64_t key = 0; key < 400; key++) {
        double left, w, top, h;
        run(&o, &(dti_picture){px, H, W, 3}, key, x);
        find_part(x + 20 * S * 3, S, 3, &left, &w);
        find_part(x + 20 * 3 + 1, S, 3 * S, &top, &h);
        if (w < 0) { /* mirrored: the line runs from its end */
            flips++;
            left += w;
            w = -w;
        }
        assert_true(fabs(w - rint(w)) < 0.05 && fabs(h - rint(h)) < 0.05);
        assert_true(fabs(left - rint(left)) < 0.05 && fabs(top - rint(top)) < 0.05);
        assert_true(left > -0.1 && top > -0.1 && left + w < W + 0.1 && top + h < H + 0.1);
        const double share = w * h / (H * W), ratio = w / h;
        assert_true(share > 0.078 && share < 1.001 && ratio > 0.74 && ratio < 1.35);
        least = share < least ? share : least;
        most = share > most ? share : most;
        wide += ratio > 1;
    }
    assert_true(least < 0.1 && most > 0.9);
    assert_in_range(flips, 160, 240);
    assert_in_range(wide, 160, 260);
}

/* Nothing of 8 % and more of such a strip has an aspect ratio near 1: its middle, 4:3, is taken. */
static void strips_are_cut_in_the_middle(void **state)
{
    (void)state;
    enum { H = 9, W = 200, S = 12 };
    static uint8_t px[H * W];
    static float x[S * S];
    for (int i = 0; i < H * W; i++)
        px[i] = (uint8_t)(i % W);
    dt_source_opts o = plain(S, S, 1);
    o.augment = true;
    for (uint64_t key = 0; key < 40; key++) {
        run(&o, &(dti_picture){px, H, W, 1}, key, x);
        const bool flip = x[6] < x[5];
        for (int i = 1; i < S - 1; i++) /* 12 columns from 94 on */
            assert_true(close_to(x[5 * S + i], 94 + (flip ? S - 1 - i : i), 1e-3));
    }
}

static void the_same_key_gives_the_same_bits_and_eval_does_not_augment(void **state)
{
    (void)state;
    uint8_t px[40 * 30 * 3];
    float a[16 * 16 * 3], b[16 * 16 * 3];
    for (size_t i = 0; i < sizeof px; i++)
        px[i] = (uint8_t)(i * 31);
    const dti_picture p = {px, 40, 30, 3};
    dt_source_opts o = plain(16, 16, 3);
    o.augment = true;
    run(&o, &p, 5, a);
    run(&o, &p, 5, b);
    assert_memory_equal(a, b, sizeof a);
    int different = 0;
    for (uint64_t key = 0; key < 20; key++) {
        run(&o, &p, key, b);
        different += memcmp(a, b, sizeof a) != 0;
    }
    assert_true(different > 15);
    o.eval = true;
    run(&o, &p, 1, a);
    run(&o, &p, 2, b);
    assert_memory_equal(a, b, sizeof a);
}

/* A grey picture without black: what is 0 was cut out, or lies outside after a shift of up to 4. */
static void a_square_anywhere_is_cut_out(void **state)
{
    (void)state;
    enum { S = 32, SIDE = 7, BORDER = 4 };
    uint8_t px[S * S * 3];
    float x[S * S * 3];
    memset(px, 90, sizeof px);
    dt_source_opts o = plain(S, S, 3);
    o.augment = true;
    o.cutout = SIDE;
    bool begins[S] = {0};
    int whole = 0, clipped = 0;
    for (uint64_t key = 0; key < 3000; key++) {
        int n = 0, top = S, left = S, bottom = -1, right = -1;
        run(&o, &(dti_picture){px, S, S, 3}, key, x);
        for (int i = 0; i < S * S; i++) {
            const int row = i / S, col = i % S;
            assert_true(x[3 * i] == x[3 * i + 1] && x[3 * i] == x[3 * i + 2]);
            if (x[3 * i] != 0 || row < BORDER || row >= S - BORDER || col < BORDER ||
                col >= S - BORDER)
                continue;
            n++;
            top = row < top ? row : top;
            left = col < left ? col : left;
            bottom = row > bottom ? row : bottom;
            right = col > right ? col : right;
        }
        if (n > 0) {
            assert_int_equal(n, (bottom - top + 1) * (right - left + 1)); /* a rectangle */
            assert_in_range(bottom - top + 1, 1, SIDE);
            assert_in_range(right - left + 1, 1, SIDE);
            begins[left] = true;
        }
        whole += n == SIDE * SIDE;
        clipped += n < SIDE * SIDE;
    }
    assert_true(whole > 800 && clipped > 800);
    for (int i = BORDER; i < S - BORDER; i++)
        assert_true(begins[i]);
    o.eval = true;
    run(&o, &(dti_picture){px, S, S, 3}, 1, x);
    for (int i = 0; i < S * S * 3; i++)
        assert_true(x[i] != 0);
}

static void a_network_of_two_channels_is_refused(void **state)
{
    (void)state;
    dti_recipe r;
    dt_err err = {0};
    const dt_source_opts o = {.shape = {1, 8, 8, 2}, .classes = 2};
    assert_fails(dti_recipe_make(&r, &o, true, &err), DT_E_CONFIG, &err, "takes 2");
}

static void every_sample_has_one_place_in_a_shuffled_epoch(void **state)
{
    (void)state;
    static uint8_t seen[70000];
    for (int64_t count = 1; count < 300; count++) {
        const dti_shuffle s = dti_shuffle_make(7, count, count);
        memset(seen, 0, (size_t)count);
        for (int64_t i = 0; i < count; i++) {
            const int64_t at = dti_shuffle_at(&s, i);
            assert_true(at >= 0 && at < count && !seen[at]);
            seen[at] = 1;
        }
    }
    const dti_shuffle s = dti_shuffle_make(7, 0, 65537);
    memset(seen, 0, sizeof seen);
    for (int64_t i = 0; i < 65537; i++)
        assert_false(seen[dti_shuffle_at(&s, i)]++);
}

static void orders_differ_by_epoch_and_seed_and_are_even(void **state)
{
    (void)state;
    enum { N = 10, EPOCHS = 5000 };
    int first[N] = {0};
    for (int64_t e = 0; e < EPOCHS; e++) {
        const dti_shuffle s = dti_shuffle_make(3, e, N);
        first[dti_shuffle_at(&s, 0)]++;
    }
    for (int i = 0; i < N; i++) /* five sigma around EPOCHS / N */
        assert_in_range(first[i], 500 - 106, 500 + 106);
    const dti_shuffle a = dti_shuffle_make(1, 0, 1000), b = dti_shuffle_make(2, 0, 1000);
    int same = 0;
    for (int64_t i = 0; i < 1000; i++)
        same += dti_shuffle_at(&a, i) == dti_shuffle_at(&b, i);
    assert_true(same < 10);
}

static void names_become_one_line(void **state)
{
    (void)state;
    assert_string_equal(dti_escape("a\nb\t\"c\"\\\x7F").text, "a\\nb\\t\\\"c\\\"\\\\\\x7F");
    assert_string_equal(
        dti_escape("gr\xC3\xBC\xC3\x9F \xE2\x82\xAC").text, "gr\xC3\xBC\xC3\x9F \xE2\x82\xAC");
    assert_string_equal(dti_escape("\xC3(\xC0\xAF\xED\xA0\x80\xC2\x85").text,
        "\\xC3(\\xC0\\xAF\\xED\\xA0\\x80\\xC2\\x85");
    assert_string_equal(dti_escape("").text, "");
    char longest[5001];
    memset(longest, 'a', 5000);
    memcpy(longest + 4995, "z.png", 6);
    const dti_escaped e = dti_escape(longest);
    assert_non_null(strstr(e.text, "aaa...aaa"));
    assert_string_equal(e.text + strlen(e.text) - 5, "z.png");
    memset(longest, '\n', 5000);
    assert_true(strlen(dti_escape(longest).text) < DTI_ESCAPED_BYTES);
}

DT_TEST_GROUP(transform)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_picture_of_the_right_size_is_not_touched),
        cmocka_unit_test(images_are_normalised_with_imagenets_mean_by_default),
        cmocka_unit_test(grey_is_repeated_and_colour_becomes_luma),
        cmocka_unit_test(shrinking_averages_with_a_triangle),
        cmocka_unit_test(growing_interpolates_between_pixel_centres),
        cmocka_unit_test(the_centre_is_cut_where_torchvision_cuts),
        cmocka_unit_test(halves_of_a_pixel_go_to_the_even_side),
        cmocka_unit_test(one_pixel_lines_are_enlarged),
        cmocka_unit_test(augmenting_shifts_by_up_to_four_and_mirrors),
        cmocka_unit_test(other_pictures_are_cut_as_random_resized_crop_does),
        cmocka_unit_test(strips_are_cut_in_the_middle),
        cmocka_unit_test(a_square_anywhere_is_cut_out),
        cmocka_unit_test(the_same_key_gives_the_same_bits_and_eval_does_not_augment),
        cmocka_unit_test(a_network_of_two_channels_is_refused),
        cmocka_unit_test(every_sample_has_one_place_in_a_shuffled_epoch),
        cmocka_unit_test(orders_differ_by_epoch_and_seed_and_are_even),
        cmocka_unit_test(names_become_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
