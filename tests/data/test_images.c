/* Pictures in folders, and their decoding. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/decode.h"
#include "engine/base/alloc.h"
#include "tests/fixture/check.h"
#include "tests/fixture/data_files.h"

/* ---- decoding ---- */

static void decode_fails(const blob *b, const char *text)
{
    const long live = dti_alloc_live();
    dt_err err = {0};
    dti_picture p;
    assert_fails(dti_decode(&p, "file.x", b->p, b->n, &err), DT_E_DATA, &err, text);
    assert_null(p.px);
    assert_int_equal(dti_alloc_live(), live);
}

/* Takes the file away. */
static dti_picture decoded(blob b)
{
    dt_err err = {0};
    dti_picture p;
    assert_ok(dti_decode(&p, "file.x", b.p, b.n, &err), &err);
    blob_free(&b);
    return p;
}

enum { PW = 5, PH = 3 };
static const uint8_t *pattern(void)
{
    static uint8_t px[PW * PH * 3];
    for (size_t i = 0; i < sizeof px; i++)
        px[i] = (uint8_t)(i * 5 + 7);
    return px;
}

static void png_and_bmp_give_their_pixels(void **state)
{
    (void)state;
    const uint8_t *px = pattern();
    for (int k = 0; k < 2; k++) {
        dti_picture p = decoded(k == 0 ? make_rgb_png(px, PW, PH) : make_bmp(px, PW, PH));
        assert_int_equal(p.w, PW);
        assert_int_equal(p.h, PH);
        assert_int_equal(p.c, 3);
        assert_memory_equal(p.px, px, PW * PH * 3);
        dt_free(p.px);
    }
}

static void jpeg_gives_about_its_pixels(void **state)
{
    (void)state;
    enum { S = 32 };
    static uint8_t px[S * S * 3];
    for (int i = 0; i < S * S * 3; i++)
        px[i] = (uint8_t)(40 + i / 3 % S * 4 + i % 3 * 20);
    dti_picture p = decoded(make_jpeg(px, S, S));
    assert_int_equal(p.c, 3);
    for (int i = 0; i < S * S * 3; i++)
        assert_in_range(p.px[i], px[i] - 8, px[i] + 8);
    dt_free(p.px);
}

static void check_pixel(dti_picture p, int channels, int r, int g, int b)
{
    const int want[3] = {r, g, b};
    assert_int_equal(p.c, channels);
    for (int c = 0; c < channels; c++)
        assert_in_range(p.px[c], want[c] > 1 ? want[c] - 1 : 0, want[c] + 1);
    dt_free(p.px);
}

static void grey_rgb_and_cmyk_jpegs_are_converted_as_documented(void **state)
{
    (void)state;
    const int grey[1] = {90}, ycc[3] = {100, 128, 128}, rgb[3] = {10, 200, 60};
    const int cmyk[4] = {250, 130, 30, 128}; /* as Adobe stores it: 255 is no ink */
    check_pixel(decoded(make_flat_jpeg(grey, 1, 0)), 1, 90, 0, 0);
    check_pixel(decoded(make_flat_jpeg(ycc, 3, 0)), 3, 100, 100, 100);
    check_pixel(decoded(make_flat_jpeg(rgb, 3, 1)), 3, 10, 200, 60);
    check_pixel(decoded(make_flat_jpeg(cmyk, 4, 1)), 3, 125, 65, 15);
}

static void png_kinds_are_converted_as_documented(void **state)
{
    (void)state;
    static const uint8_t palette[] = {1, 2, 3, 200, 100, 50};
    static const struct {
        png_opts o;
        uint8_t row[16];
        size_t n;
        int channels, rgb[3];
    } cases[] = {
        {{.w = 1, .h = 1, .bits = 8, .kind = 0}, {0, 77}, 2, 1, {77}},
        {{.w = 1, .h = 1, .bits = 16, .kind = 0}, {0, 77, 255}, 3, 1, {77}}, /* the upper 8 bits */
        {{.w = 1, .h = 1, .bits = 1, .kind = 0}, {0, 0x80}, 2, 1, {255}},    /* one bit */
        {{.w = 1, .h = 1, .bits = 16, .kind = 2}, {0, 9, 0, 8, 0, 7, 0}, 7, 3, {9, 8, 7}},
        {{.w = 1, .h = 1, .bits = 8, .kind = 3, .plte = palette, .plte_n = 6}, {0, 1}, 2, 3,
            {200, 100, 50}},
        {{.w = 1, .h = 1, .bits = 8, .kind = 4}, {0, 66, 0}, 3, 1, {66}}, /* alpha 0 is dropped */
        {{.w = 1, .h = 1, .bits = 8, .kind = 6}, {0, 60, 70, 80, 0}, 5, 3, {60, 70, 80}},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++)
        check_pixel(decoded(make_png(&cases[i].o, cases[i].row, cases[i].n)), cases[i].channels,
            cases[i].rgb[0], cases[i].rgb[1], cases[i].rgb[2]);
}

static void a_picture_cut_anywhere_is_an_error(void **state)
{
    (void)state;
    static uint8_t px[32 * 32 * 3];
    for (size_t i = 0; i < sizeof px; i++)
        px[i] = (uint8_t)(i * i / 7);
    blob files[] = {make_jpeg(px, 32, 32), make_rgb_png(px, 32, 32), make_bmp(px, 32, 32)};
    for (size_t k = 0; k < DT_COUNT(files); k++) {
        for (size_t n = 0; n < files[k].n; n += n < 200 || n + 40 > files[k].n ? 1 : 37) {
            /* a copy of just these bytes, so that a sanitizer sees reads beyond */
            blob cut = {0};
            blob_put(&cut, files[k].p, n);
            cut.p = realloc(cut.p, n > 0 ? n : 1);
            decode_fails(&cut, "file.x: ");
            blob_free(&cut);
        }
        blob_free(&files[k]);
    }
}

static void flipped_bits_never_do_harm_and_show_in_png(void **state)
{
    (void)state;
    static uint8_t px[24 * 24 * 3];
    for (size_t i = 0; i < sizeof px; i++)
        px[i] = (uint8_t)(i * i / 11);
    blob files[] = {make_jpeg(px, 24, 24), make_rgb_png(px, 24, 24), make_bmp(px, 24, 24)};
    for (size_t k = 0; k < DT_COUNT(files); k++) {
        for (size_t i = 0; i < 3000; i++) {
            const size_t at = i * 7919 % (files[k].n * 8);
            const uint8_t bit = (uint8_t)(1u << (at % 8));
            const long live = dti_alloc_live();
            dti_picture p;
            files[k].p[at / 8] ^= bit;
            const dt_status st = dti_decode(&p, "file.x", files[k].p, files[k].n, NULL);
            files[k].p[at / 8] ^= bit;
            assert_true(k == 1 ? st == DT_E_DATA : st == DT_OK || st == DT_E_DATA);
            dt_free(p.px);
            assert_int_equal(dti_alloc_live(), live);
        }
        blob_free(&files[k]);
    }
}

static void put_big16(uint8_t *p, unsigned v)
{
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

/* A JPEG whose frame header says w by h. */
static blob claim(int w, int h)
{
    const int grey[1] = {90};
    blob b = make_flat_jpeg(grey, 1, 0);
    uint8_t *sof = b.p;
    while (!(sof[0] == 0xFF && sof[1] == 0xC0))
        sof++;
    put_big16(sof + 5, (unsigned)h);
    put_big16(sof + 7, (unsigned)w);
    return b;
}

static void headers_that_claim_too_much_are_refused_unread(void **state)
{
    (void)state;
    static const struct {
        int w, h;
        const char *text;
    } cases[] = {
        {26000, 26000, "26000x26000 pixels; at most 32768 a side and 67108864"},
        {65500, 65500, "at most"},
        {40000, 10, "40000x10"},
        {10, 40000, "10x40000"},
        {4000, 4000, "bytes cannot hold them"},
        {0, 8, "cannot be decoded"},
        {8, 0, "cannot be decoded"},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        blob b = claim(cases[i].w, cases[i].h);
        decode_fails(&b, cases[i].text);
        blob_free(&b);
    }
}

static void png_data_that_inflates_past_its_size_is_refused(void **state)
{
    (void)state;
    const size_t n = 280u << 20; /* bytes, of which deflate makes 280 kB */
    uint8_t *zeros = calloc(n, 1);
    assert_non_null(zeros);
    png_opts o = {.w = 8, .h = 8, .bits = 8, .kind = 2};
    blob b = make_png(&o, zeros, n);
    decode_fails(&b, "inflates past the");
    blob_free(&b);
    o.zlib = 0x881C; /* a window of 64 KiB, which zlib has not and stb does not look at */
    b = make_png(&o, zeros, n);
    free(zeros);
    decode_fails(&b, "cannot be inflated: invalid window size");
    blob_free(&b);
}

/* A Huffman table is put in front of a good file: @count codes of each length, with or without the
 * codes. */
static blob with_table(int count, bool codes)
{
    const int grey[1] = {90};
    blob good = make_flat_jpeg(grey, 1, 0), b = {0};
    const int n = codes ? 16 * count : 0;
    blob_put(&b, "\xFF\xD8\xFF\xC4", 4);
    blob_byte(&b, (unsigned)(19 + n) >> 8);
    blob_byte(&b, (unsigned)(19 + n) & 255);
    blob_byte(&b, 0x10);
    for (int i = 0; i < 16 + n; i++)
        blob_byte(&b, (unsigned)count);
    blob_put(&b, good.p + 2, good.n - 2);
    blob_free(&good);
    return b;
}

static void huffman_tables_of_too_many_codes_are_refused(void **state)
{
    (void)state;
    blob all[] = {with_table(255, true), with_table(17, true), with_table(1, false)};
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        decode_fails(&all[i], "bad Huffman table");
        blob_free(&all[i]);
    }
    check_pixel(decoded(with_table(1, true)), 1, 90, 0, 0);
}

/* Some decoders make up what is missing, which would be trained on. */
static void a_jpeg_without_its_end_is_refused(void **state)
{
    (void)state;
    const int grey[1] = {90};
    blob b = make_flat_jpeg(grey, 1, 0);
    b.n -= 2;
    decode_fails(&b, "JPEG ends early, at byte");
    blob_free(&b);
}

static void jpegs_of_a_thousand_scans_are_refused(void **state)
{
    (void)state;
    const int grey[1] = {90};
    blob b = make_flat_jpeg(grey, 1, 0);
    b.n -= 2; /* the end marker */
    for (int i = 0; i < 1000; i++)
        blob_put(&b, "\xFF\xDA\0\x08\x01\x01\0\0\x3F\0", 10);
    blob_put(&b, "\xFF\xD9", 2);
    decode_fails(&b, "1001 scans");
    blob_free(&b);
}

static void other_files_are_refused_by_what_they_hold(void **state)
{
    (void)state;
    blob b = {0};
    decode_fails(&b, "a file of 0 bytes");
    blob_put(&b, "GIF89a..............", 20);
    decode_fails(&b, "not a JPEG, PNG or BMP");
    blob_free(&b);
}

static void decoding_without_memory_is_not_called_bad_data(void **state)
{
    (void)state;
    blob files[] = {
        make_jpeg(pattern(), PW, PH), make_rgb_png(pattern(), PW, PH), make_bmp(pattern(), PW, PH)};
    for (size_t k = 0; k < DT_COUNT(files); k++) {
        int failed = 0;
        for (long at = 1; at < 30; at++) {
            const long live = dti_alloc_live();
            dti_picture p;
            dti_alloc_fail_at(at);
            const dt_status st = dti_decode(&p, "file.x", files[k].p, files[k].n, NULL);
            dti_alloc_fail_at(0);
            assert_true(st == DT_OK || st == DT_E_NOMEM);
            failed += st != DT_OK;
            dt_free(p.px);
            assert_int_equal(dti_alloc_live(), live);
        }
        assert_true(failed > 0);
        blob_free(&files[k]);
    }
}

/* ---- folders ---- */

static dt_source_opts opts(const char *path)
{
    static const float zero[3] = {0}, one[3] = {1 / 255.0f, 1 / 255.0f, 1 / 255.0f};
    return (dt_source_opts){
        .path = path, .shape = {1, PH, PW, 3}, .classes = 5, .batch = 2, .mean = zero, .std = one};
}

/* A PNG of the network's size, all pixels @value. */
static void put_flat(const char *path, int value)
{
    uint8_t px[PW * PH * 3];
    memset(px, value, sizeof px);
    blob b = make_rgb_png(px, PW, PH);
    put_file(path, b.p, b.n);
    blob_free(&b);
}

static void put_in(const char *root, const char *below, int value)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", root, below);
    put_flat(path, value);
}

static dt_source *opened(const dt_source_opts *o)
{
    dt_err err = {0};
    dt_source *s = NULL;
    assert_ok(dt_source_images.open(&dt_source_images, &s, o, &err), &err);
    return s;
}

static int32_t first_value(const dt_source *s, int64_t i, float *value)
{
    float x[PW * PH * 3];
    int32_t label = -1;
    dt_err err = {0};
    assert_ok(s->desc->read(s, i, 0, x, &label, &err), &err);
    *value = x[0];
    return label;
}

/* Byte order: "B" before "a" before "b"; "10.png" before "9.png". */
static void classes_and_files_follow_byte_order(void **state)
{
    (void)state;
    const char *root = dt_temp_path("order");
    put_in(root, "b/x.png", 50);
    put_in(root, "a/9.png", 40);
    put_in(root, "a/10.PNG", 30);
    put_in(root, "a/.hidden.png", 99);
    put_in(root, "B/z.png", 20);
    put_in(root, ".trash/z.png", 99);
    put_file(dt_temp_path("order/a/notes.txt"), "x", 1);
    put_file(dt_temp_path("order/README"), "x", 1);
    const dt_source_opts o = opts(root);
    dt_source *s = opened(&o);
    static const int labels[] = {0, 1, 1, 2}, values[] = {20, 30, 40, 50};
    assert_int_equal(s->desc->count(s), 4);
    for (int i = 0; i < 4; i++) {
        float v;
        assert_int_equal(first_value(s, i, &v), labels[i]);
        assert_true(fabsf(v - (float)values[i]) < 1e-3f);
    }
    char text[200];
    s->desc->describe(s, text, sizeof text);
    assert_string_equal(text, "4 pictures in 3 class folders, 2 other files ignored");
    s->desc->close(s);
}

static void folders_without_pictures_are_refused_with_counts(void **state)
{
    (void)state;
    const char *root = dt_temp_path("empty");
    put_folder(root);
    dt_source_opts o = opts(root);
    open_fails("images", &o, DT_E_DATA, "empty: holds 0 folders and 0 files");
    put_in(root, "lonely.png", 1);
    open_fails("images", &o, DT_E_DATA, "holds 0 folders and 1 files");
    put_in(root, "a/x.png", 1);
    put_folder(dt_temp_path("empty/b"));
    open_fails("images", &o, DT_E_DATA, "empty/b: a class folder with 0 pictures");
    put_in(root, "b/deeper/x.png", 1);
    put_file(dt_temp_path("empty/b/readme.txt"), "x", 1);
    open_fails("images", &o, DT_E_DATA, "1 other files and 1 folders");
    o.path = dt_temp_path("empty/lonely.png");
    open_fails("images", &o, DT_E_DATA, "not a folder");
    o.path = dt_temp_path("no-such");
    open_fails("images", &o, DT_E_DATA, "no-such: No such file");
    o.path = NULL;
    open_fails("images", &o, DT_E_CONFIG, "set data.path = FOLDER");
}

static void more_folders_than_classes_is_an_error_and_fewer_is_not(void **state)
{
    (void)state;
    const char *root = dt_temp_path("many");
    put_in(root, "a/x.png", 1);
    put_in(root, "b/x.png", 1);
    put_in(root, "c/x.png", 1);
    dt_source_opts o = opts(root);
    o.classes = 2;
    open_fails("images", &o, DT_E_DATA, "holds 3 class folders, the network has 2 classes");
    o.classes = 3;
    dt_source *s = opened(&o);
    s->desc->close(s);
}

/* What is evaluated on may lack classes: a class has training's number, whoever else is there. */
static void classes_of_evaluation_have_the_numbers_of_training(void **state)
{
    (void)state;
    put_in(dt_temp_path("train"), "a/x.png", 1);
    put_in(dt_temp_path("train"), "b/x.png", 2);
    put_in(dt_temp_path("train"), "c/x.png", 3);
    put_in(dt_temp_path("some"), "c/x.png", 3);
    put_in(dt_temp_path("some"), "b/x.png", 2);
    char train[4096], some[4096];
    snprintf(train, sizeof train, "%s", dt_temp_path("train"));
    snprintf(some, sizeof some, "%s", dt_temp_path("some"));
    dt_source_opts o = opts(some);
    o.eval = true;
    o.train_path = train;
    dt_source *s = opened(&o);
    float v;
    assert_int_equal(s->desc->count(s), 2);
    assert_int_equal(first_value(s, 0, &v), 1);
    assert_int_equal(first_value(s, 1, &v), 2);
    char text[200];
    s->desc->describe(s, text, sizeof text);
    assert_string_equal(text, "2 pictures in 2 class folders, 0 other files ignored");
    s->desc->close(s);
    o.train_path = ""; /* nobody tells which two of five they are */
    open_fails("images", &o, DT_E_DATA, "2 class folders of the network's 5");
    o.classes = 2;
    s = opened(&o);
    s->desc->close(s);
    o.classes = 5;
    o.train_path = train;
    put_in(some, "d/x.png", 4);
    open_fails("images", &o, DT_E_DATA, "some/d: not one of the 3 classes that training has in");
}

static void links_are_followed_and_bad_ones_named(void **state)
{
    (void)state;
    const char *root = dt_temp_path("links");
    put_in(root, "a/x.png", 10);
    assert_int_equal(symlink("x.png", dt_temp_path("links/a/y.png")), 0);
    const dt_source_opts o = opts(root);
    dt_source *s = opened(&o);
    assert_int_equal(s->desc->count(s), 2);
    s->desc->close(s);
    const char *bad = dt_temp_path("links/a/z.png");
    assert_int_equal(symlink("z.png", bad), 0);
    open_fails("images", &o, DT_E_DATA, "links/a/z.png: Too many levels of symbolic links");
    assert_int_equal(unlink(bad), 0);
    assert_int_equal(symlink("gone.png", bad), 0);
    open_fails("images", &o, DT_E_DATA, "links/a/z.png: No such file");
    assert_int_equal(unlink(bad), 0);
    assert_int_equal(symlink("..", dt_temp_path("links/b")), 0); /* a folder of folders */
    open_fails("images", &o, DT_E_DATA, "links/b: a class folder with 0 pictures");
}

static void only_regular_files_are_taken(void **state)
{
    (void)state;
    const char *root = dt_temp_path("odd");
    put_in(root, "a/x.png", 10);
    assert_int_equal(mkfifo(dt_temp_path("odd/a/y.png"), 0600), 0);
    const dt_source_opts o = opts(root);
    open_fails("images", &o, DT_E_DATA, "odd/a/y.png: neither a regular file nor a folder");
    assert_int_equal(unlink(dt_temp_path("odd/a/y.png")), 0);
    assert_int_equal(symlink("/dev/zero", dt_temp_path("odd/zero")), 0);
    open_fails("images", &o, DT_E_DATA, "odd/zero: neither a regular file nor a folder");
}

static void odd_names_are_read_and_escaped(void **state)
{
    (void)state;
    const char *root = dt_temp_path("names");
    char longest[256];
    memset(longest, 'n', 255);
    memcpy(longest + 251, ".png", 5);
    char below[300];
    snprintf(below, sizeof below, "a/%s", longest);
    put_in(root, below, 10);
    put_in(root, "a/\"quoted\".png", 10);
    put_in(root, "a/new\nline.png", 10);
    put_in(root, "a/\xFF\xFE.png", 10);
    const dt_source_opts o = opts(root);
    dt_source *s = opened(&o);
    assert_int_equal(s->desc->count(s), 4);
    float v;
    for (int64_t i = 0; i < 4; i++)
        first_value(s, i, &v);
    put_file(dt_temp_path("names/a/new\nline.png"), "x", 1);
    put_file(dt_temp_path("names/a/\xFF\xFE.png"), "x", 1);
    float x[PW * PH * 3];
    int32_t label;
    dt_err err = {0};
    assert_fails(s->desc->read(s, 1, 0, x, &label, &err), DT_E_DATA, &err, "new\\nline.png: ");
    assert_int_equal(err.n, 1);
    err = (dt_err){0};
    assert_fails(s->desc->read(s, 3, 0, x, &label, &err), DT_E_DATA, &err, "\\xFF\\xFE.png: ");
    s->desc->close(s);
}

static void a_file_changed_or_removed_during_the_run_is_named(void **state)
{
    (void)state;
    const char *root = dt_temp_path("change");
    put_in(root, "a/x.png", 10);
    put_in(root, "a/y.png", 10);
    put_in(root, "a/z.png", 10);
    const dt_source_opts o = opts(root);
    dt_source *s = opened(&o);
    float x[PW * PH * 3];
    int32_t label;
    dt_err err = {0};
    assert_int_equal(unlink(dt_temp_path("change/a/x.png")), 0);
    assert_fails(
        s->desc->read(s, 0, 0, x, &label, &err), DT_E_DATA, &err, "a/x.png: cannot open: No such");
    put_file(dt_temp_path("change/a/y.png"), "short", 5);
    err = (dt_err){0};
    assert_fails(s->desc->read(s, 1, 0, x, &label, &err), DT_E_DATA, &err,
        "a/y.png: changed during the run: it has 5 bytes");
    const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    assert_int_equal(utimensat(0, dt_temp_path("change/a/z.png"), times, 0), 0);
    err = (dt_err){0};
    assert_fails(s->desc->read(s, 2, 0, x, &label, &err), DT_E_DATA, &err,
        "a/z.png: changed during the run");
    s->desc->close(s);
}

static void unreadable_folders_are_named(void **state)
{
    (void)state;
    if (geteuid() == 0)
        skip(); /* root may read anything */
    const char *root = dt_temp_path("locked");
    put_in(root, "a/x.png", 10);
    const dt_source_opts o = opts(root);
    assert_int_equal(chmod(dt_temp_path("locked/a"), 0), 0);
    open_fails("images", &o, DT_E_DATA, "locked/a: cannot read the folder: Permission denied");
    assert_int_equal(chmod(dt_temp_path("locked/a"), 0700), 0);
}

static void every_failing_allocation_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    const char *root = dt_temp_path("faults");
    put_in(root, "a/x.png", 10);
    put_in(root, "a/y.png", 10);
    put_in(root, "b/z.png", 10);
    dt_source_opts o = opts(root);
    open_with_faults(&dt_source_images, &o);
    o.shape.h = o.shape.w = 12; /* with resizing */
    open_with_faults(&dt_source_images, &o);
}

/* Values in range, not flat, and different from picture to picture. */
static void check_real_pictures(const char *root, int64_t side, int64_t classes, int64_t count)
{
    dt_source_opts o = {.path = root, .shape = {1, side, side, 3}, .classes = classes};
    float *x = malloc((size_t)(side * side * 3) * sizeof *x);
    double before = 0;
    assert_non_null(x);
    for (int augment = 0; augment < 2; augment++) {
        o.augment = augment;
        dt_source *s = opened(&o);
        assert_int_equal(s->desc->count(s), count);
        for (int64_t i = 0; i < count; i += count / 20 + 1) {
            int32_t label;
            dt_err err = {0};
            assert_ok(s->desc->read(s, i, 3, x, &label, &err), &err);
            double sum = 0, squares = 0;
            const double n = (double)(side * side * 3);
            for (int64_t k = 0; k < side * side * 3; k++) {
                assert_true(x[k] > -2.2f && x[k] < 2.7f);
                sum += (double)x[k];
                squares += (double)x[k] * (double)x[k];
            }
            assert_true(squares / n - sum / n * sum / n > 0.01);
            assert_true(fabs(sum - before) > 0);
            assert_in_range(label, 0, classes - 1);
            before = sum;
        }
        s->desc->close(s);
    }
    free(x);
}

static void real_photographs_are_decoded(void **state)
{
    (void)state;
    const char *root = dt_shared("data/imagenet-sample");
    if (root == NULL)
        skip();
    check_real_pictures(root, 224, 1000, 119);
}

static void real_thumbnails_are_decoded(void **state)
{
    (void)state;
    const char *tar = dt_shared("data/cifar10-jpeg.tar.gz");
    if (tar == NULL)
        skip();
    char cmd[9000];
    const char *root = dt_temp_path("thumbs");
    put_folder(root);
    /* The beginning of the archive is enough: whole files of one class, and one that is cut. */
    snprintf(cmd, sizeof cmd,
        "head -c 60000 '%s' | tar xz -C '%s' 2>'%s/complaint'; test -d '%s/train'", tar, root, root,
        root);
    if (system(cmd) != 0)
        skip();
    dt_source_opts o = {
        .path = dt_temp_path("thumbs/train"), .shape = {1, 32, 32, 3}, .classes = 10};
    dt_source *s = opened(&o);
    const int64_t count = s->desc->count(s);
    s->desc->close(s);
    assert_true(count > 20);
    char last[40];
    snprintf(last, sizeof last, "thumbs/train/airplane/%04d.jpg", (int)count - 1);
    assert_int_equal(unlink(dt_temp_path(last)), 0);
    check_real_pictures(o.path, 32, 10, count - 1);
}

DT_TEST_GROUP(images)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(png_and_bmp_give_their_pixels),
        cmocka_unit_test(jpeg_gives_about_its_pixels),
        cmocka_unit_test(grey_rgb_and_cmyk_jpegs_are_converted_as_documented),
        cmocka_unit_test(png_kinds_are_converted_as_documented),
        cmocka_unit_test(a_picture_cut_anywhere_is_an_error),
        cmocka_unit_test(flipped_bits_never_do_harm_and_show_in_png),
        cmocka_unit_test(headers_that_claim_too_much_are_refused_unread),
        cmocka_unit_test(png_data_that_inflates_past_its_size_is_refused),
        cmocka_unit_test(huffman_tables_of_too_many_codes_are_refused),
        cmocka_unit_test(a_jpeg_without_its_end_is_refused),
        cmocka_unit_test(jpegs_of_a_thousand_scans_are_refused),
        cmocka_unit_test(other_files_are_refused_by_what_they_hold),
        cmocka_unit_test(decoding_without_memory_is_not_called_bad_data),
        cmocka_unit_test(classes_and_files_follow_byte_order),
        cmocka_unit_test(folders_without_pictures_are_refused_with_counts),
        cmocka_unit_test(more_folders_than_classes_is_an_error_and_fewer_is_not),
        cmocka_unit_test(classes_of_evaluation_have_the_numbers_of_training),
        cmocka_unit_test(links_are_followed_and_bad_ones_named),
        cmocka_unit_test(only_regular_files_are_taken),
        cmocka_unit_test(odd_names_are_read_and_escaped),
        cmocka_unit_test(a_file_changed_or_removed_during_the_run_is_named),
        cmocka_unit_test(unreadable_folders_are_named),
        cmocka_unit_test(every_failing_allocation_is_reported_and_leaks_nothing),
        cmocka_unit_test(real_photographs_are_decoded),
        cmocka_unit_test(real_thumbnails_are_decoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
