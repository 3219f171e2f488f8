/* The sources that need no picture files: synthetic, tensors, cifar10 and idx. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/cifar10.h"
#include "engine/base/alloc.h"
#include "engine/checkpoint/safetensors.h"
#include "tests/fixture/check.h"
#include "tests/fixture/data_files.h"

static dt_source *opened(const char *name, const dt_source_opts *o)
{
    dt_err err = {0};
    dt_source *s = NULL;
    assert_non_null(dt_source_find(name));
    assert_ok(dt_source_find(name)->open(dt_source_find(name), &s, o, &err), &err);
    return s;
}

static int32_t read_sample(const dt_source *s, int64_t i, uint64_t key, float *x)
{
    dt_err err = {0};
    int32_t label = -1;
    assert_ok(s->desc->read(s, i, key, x, &label, &err), &err);
    return label;
}

static bool close_to(float got, double want)
{
    return fabs((double)got - want) <= 1e-4; /* false for NaN */
}

static void every_source_is_listed_and_found(void **state)
{
    (void)state;
    size_t n;
    const dt_source_desc *const *all = dt_source_all(&n);
    assert_true(n >= 5);
    for (size_t i = 0; i < n; i++) {
        assert_ptr_equal(dt_source_find(all[i]->name), all[i]);
        assert_true(i == 0 || strcmp(all[i - 1]->name, all[i]->name) < 0);
        assert_true(strlen(all[i]->summary) > 0);
    }
    assert_null(dt_source_find("imagenet"));
}

/* Sequences have rules of their own; see the tests of text. */
static void wrong_options_are_refused_by_every_source_of_pictures(void **state)
{
    (void)state;
    const float zero[3] = {0}, nan3[3] = {NAN, NAN, NAN};
    size_t n;
    const dt_source_desc *const *all = dt_source_all(&n);
    for (size_t i = 0; i < n; i++) {
        dt_source_opts o = {.path = "/", .shape = {1, 8, 8, 3}, .classes = 2, .samples = 8};
        if (strcmp(all[i]->name, "text") == 0)
            continue;
        o.shape.h = 0;
        open_fails(all[i]->name, &o, DT_E_CONFIG, "image 0x8");
        o.shape.h = 8;
        o.classes = 0;
        open_fails(all[i]->name, &o, DT_E_CONFIG, "0 classes");
        o.classes = 2;
        o.std = zero;
        open_fails(all[i]->name, &o, DT_E_CONFIG, "data.std");
        o.std = NULL;
        o.mean = nan3;
        open_fails(all[i]->name, &o, DT_E_CONFIG, "data.mean");
    }
}

/* ---- synthetic ---- */

static dt_source_opts textures(int64_t side, int64_t classes)
{
    return (dt_source_opts){
        .shape = {1, side, side, 3}, .classes = classes, .samples = 4096, .seed = 11};
}

static void synthetic_samples_are_pure_functions_of_seed_split_and_index(void **state)
{
    (void)state;
    enum { N = 20 * 20 * 3 };
    float a[N], b[N];
    dt_source_opts o = textures(20, 4);
    dt_source *s = opened("synthetic", &o), *again = opened("synthetic", &o);
    o.eval = true;
    dt_source *held_out = opened("synthetic", &o);
    o.seed = 12;
    dt_source *other = opened("synthetic", &o);
    assert_int_equal(read_sample(s, 6, 0, a), 2);
    read_sample(again, 5, 0, b);
    read_sample(again, 6, 1, b);
    assert_memory_equal(a, b, sizeof a);
    read_sample(s, 10, 0, b);
    assert_memory_not_equal(a, b, sizeof a);
    read_sample(held_out, 6, 0, b);
    assert_memory_not_equal(a, b, sizeof a);
    read_sample(other, 6, 0, a);
    assert_memory_not_equal(a, b, sizeof a);
    dt_source *all[] = {s, again, held_out, other};
    for (size_t i = 0; i < 4; i++)
        all[i]->desc->close(all[i]);
}

static void synthetic_counts_and_classes_follow_samples(void **state)
{
    (void)state;
    static const struct {
        int64_t samples, classes, train, eval;
        const char *text;
    } cases[] = {
        {4096, 10, 4096, 512, "of 10 classes"},
        {4096, 1000, 4096, 512,
            "synthetic pictures, in which 64 of the network's 1000 classes occur (one per "
            "64 samples, at least 2): raise data.samples for more"},
        {3, 10, 3, 256, "2 of the network's 10 classes occur"},
        {100, 1, 100, 256, "of 1 classes"},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        dt_source_opts o = textures(8, cases[i].classes);
        o.samples = cases[i].samples;
        for (int eval = 0; eval < 2; eval++) {
            o.eval = eval;
            dt_source *s = opened("synthetic", &o);
            char text[256];
            s->desc->describe(s, text, sizeof text);
            assert_non_null(strstr(text, cases[i].text));
            assert_int_equal(s->desc->count(s), eval ? cases[i].eval : cases[i].train);
            s->desc->close(s);
        }
    }
    dt_source_opts o = textures(8, 10);
    o.samples = 0;
    open_fails("synthetic", &o, DT_E_CONFIG, "data.samples");
}

static void synthetic_values_have_about_zero_mean_and_unit_variance(void **state)
{
    (void)state;
    enum { SIDE = 32, N = SIDE * SIDE * 3 };
    float x[N];
    double sum = 0, squares = 0;
    const dt_source_opts o = textures(SIDE, 10);
    dt_source *s = opened("synthetic", &o);
    for (int64_t i = 0; i < 200; i++) {
        read_sample(s, i, 0, x);
        for (int k = 0; k < N; k++) {
            sum += (double)x[k];
            squares += (double)x[k] * (double)x[k];
        }
    }
    const double mean = sum / (200.0 * N), std = sqrt(squares / (200.0 * N) - mean * mean);
    assert_true(fabs(mean) < 0.15 && std > 0.6 && std < 1.3);
    s->desc->close(s);
}

/* What a small network could compute: the energy of differences to neighbours, near and far, by
 * channel and between channels, over the whole picture. */
enum { LOCAL = 4 * 2 * 6 };
static void local_energy(const float *x, int side, double *f)
{
    static const int dx[4] = {1, 0, 1, 1}, dy[4] = {0, 1, 1, -1};
    static const int pair[6][2] = {{0, 0}, {1, 1}, {2, 2}, {0, 1}, {1, 2}, {0, 2}};
    memset(f, 0, LOCAL * sizeof *f);
    for (int k = 0; k < LOCAL; k++) {
        const int step = k / 24 + 1, d = k / 6 % 4, a = pair[k % 6][0], b = pair[k % 6][1];
        for (int y = 2; y < side - 2; y++)
            for (int i = 0; i < side - 2; i++) {
                const float *p = x + (y * side + i) * 3,
                            *q = x + ((y + step * dy[d]) * side + i + step * dx[d]) * 3;
                f[k] += ((double)q[a] - (double)p[a]) * ((double)q[b] - (double)p[b]);
            }
    }
}

/* Share of the held-out split whose class has the nearest mean of features, each in its own spread.
 */
static double nearest_mean(bool local)
{
    enum { SIDE = 16, K = 10, PIXELS = SIDE * SIDE * 3, TRAIN = 1000, EVAL = 300 };
    static double mean[K][PIXELS], spread[PIXELS], f[PIXELS];
    static float x[PIXELS];
    const int n = local ? LOCAL : PIXELS;
    dt_source_opts o = textures(SIDE, K);
    dt_source *train = opened("synthetic", &o);
    o.eval = true;
    dt_source *eval = opened("synthetic", &o);
    memset(mean, 0, sizeof mean);
    memset(spread, 0, sizeof spread);
    int right = 0;
    for (int64_t i = 0; i < TRAIN + EVAL; i++) {
        const int32_t label =
            i < TRAIN ? read_sample(train, i, 0, x) : read_sample(eval, i - TRAIN, 0, x);
        for (int k = 0; k < n && !local; k++)
            f[k] = (double)x[k];
        if (local)
            local_energy(x, SIDE, f);
        double best = HUGE_VAL;
        int which = -1;
        for (int c = 0; c < K && i >= TRAIN; c++) {
            double d = 0;
            for (int k = 0; k < n; k++)
                d += (f[k] - mean[c][k]) * (f[k] - mean[c][k]) / spread[k];
            if (d < best) {
                best = d;
                which = c;
            }
        }
        right += i >= TRAIN && which == label;
        for (int k = 0; k < n && i < TRAIN; k++) {
            mean[label][k] += f[k] * K / TRAIN;
            spread[k] += f[k] * f[k] / TRAIN;
        }
    }
    train->desc->close(train);
    eval->desc->close(eval);
    return (double)right / EVAL;
}

static void synthetic_classes_show_in_local_patterns_more_than_in_pixels(void **state)
{
    (void)state;
    const double local = nearest_mean(true), pixels = nearest_mean(false);
    print_message(
        "nearest mean of 10 classes: %.2f by local patterns, %.2f by pixels\n", local, pixels);
    assert_true(local > 0.5);
    assert_true(pixels < 0.75 * local);
}

/* ---- tensors ---- */

enum { STEPS = 3, BATCH = 2, C = 3, H = 2, W = 4, SAMPLE = C * H * W };

typedef struct tensor_file {
    float x[STEPS * BATCH * SAMPLE];
    int64_t y[STEPS * BATCH];
} tensor_file;

static dt_status tensor_bytes(
    void *arg, size_t i, size_t at, const void **bytes, size_t *n, dt_err *err)
{
    (void)at, (void)n, (void)err; /* at once */
    tensor_file *f = arg;
    *bytes = i == 0 ? (const void *)f->x : (const void *)f->y;
    return DT_OK;
}

static const char *put_tensors(const char *name, tensor_file *f, const dt_st_out entries[2])
{
    const char *path = dt_temp_path(name);
    dt_err err = {0};
    put_folder(dt_temp_path("."));
    assert_ok(dt_st_write(path, entries, 2, NULL, 0, tensor_bytes, f, NULL, &err), &err);
    return path;
}

static const dt_st_out good_entries[2] = {
    {"x", DT_ST_F32, 5, {STEPS, BATCH, C, H, W}}, {"y", DT_ST_I64, 2, {STEPS, BATCH}}};

static dt_source_opts tensor_opts(const char *path)
{
    return (dt_source_opts){
        .path = path, .shape = {1, H, W, C}, .classes = 5, .ignore_label = -100, .batch = BATCH};
}

static void fill_tensors(tensor_file *f)
{
    for (int i = 0; i < STEPS * BATCH * SAMPLE; i++)
        f->x[i] = (float)i;
    for (int i = 0; i < STEPS * BATCH; i++)
        f->y[i] = i % 5;
}

static void tensors_come_in_file_order_and_as_nhwc(void **state)
{
    (void)state;
    tensor_file f;
    fill_tensors(&f);
    const dt_source_opts o = tensor_opts(put_tensors("good.safetensors", &f, good_entries));
    dt_source *s = opened("tensors", &o);
    assert_true(s->fixed_order);
    assert_int_equal(s->desc->count(s), STEPS * BATCH);
    for (int64_t i = 0; i < STEPS * BATCH; i++) {
        float x[SAMPLE];
        assert_int_equal(read_sample(s, i, 9, x), i % 5);
        for (int64_t y = 0; y < H; y++)
            for (int64_t w = 0; w < W; w++)
                for (int64_t c = 0; c < C; c++)
                    assert_true(
                        x[(y * W + w) * C + c] == (float)(i * SAMPLE + (c * H + y) * W + w));
    }
    s->desc->close(s);
}

/* The same without steps are samples that may be shuffled, in any batch. */
static void tensors_without_steps_are_samples(void **state)
{
    (void)state;
    enum { ALL = STEPS * BATCH };
    static const dt_st_out entries[2] = {
        {"x", DT_ST_F32, 4, {ALL, C, H, W}}, {"y", DT_ST_I64, 1, {ALL}}};
    tensor_file f;
    fill_tensors(&f);
    dt_source_opts o = tensor_opts(put_tensors("steps.safetensors", &f, good_entries));
    dt_source *steps = opened("tensors", &o);
    o = tensor_opts(put_tensors("samples.safetensors", &f, entries));
    o.batch = 5;
    dt_source *samples = opened("tensors", &o);
    assert_false(samples->fixed_order);
    assert_int_equal(samples->desc->count(samples), ALL);
    for (int64_t i = 0; i < ALL; i++) {
        float x[2][SAMPLE];
        assert_int_equal(read_sample(samples, i, 9, x[0]), read_sample(steps, i, 9, x[1]));
        assert_memory_equal(x[0], x[1], sizeof x[0]);
    }
    char text[80];
    samples->desc->describe(samples, text, sizeof text);
    assert_string_equal(text, "6 samples");
    samples->desc->close(samples);
    steps->desc->close(steps);
}

/* Values of one pixel may be written as a vector, with steps and without. */
static void a_vector_needs_no_height_and_width(void **state)
{
    (void)state;
    static const dt_st_out entries[][2] = {
        {{"x", DT_ST_F32, 2, {STEPS * BATCH, SAMPLE}}, {"y", DT_ST_I64, 1, {STEPS * BATCH}}},
        {{"x", DT_ST_F32, 3, {STEPS, BATCH, SAMPLE}}, {"y", DT_ST_I64, 2, {STEPS, BATCH}}}};
    tensor_file f;
    fill_tensors(&f);
    for (size_t i = 0; i < DT_COUNT(entries); i++) {
        dt_source_opts o = tensor_opts(put_tensors("vector.safetensors", &f, entries[i]));
        o.shape = (dt_shape){1, 1, 1, SAMPLE};
        dt_source *s = opened("tensors", &o);
        float x[SAMPLE];
        assert_int_equal(read_sample(s, 3, 9, x), 3);
        assert_memory_equal(x, f.x + 3 * SAMPLE, sizeof x);
        s->desc->close(s);
        o.shape = (dt_shape){1, 1, 1, SAMPLE - 1};
        open_fails("tensors", &o, DT_E_DATA, "the network takes [N, 23] or [steps, N, 23]");
    }
}

/* Any batch may be of this sample alone. */
static void a_sample_that_does_not_count_is_refused_in_training(void **state)
{
    (void)state;
    static const dt_st_out entries[2] = {
        {"x", DT_ST_F32, 4, {STEPS * BATCH, C, H, W}}, {"y", DT_ST_I64, 1, {STEPS * BATCH}}};
    tensor_file f;
    fill_tensors(&f);
    f.y[4] = -100;
    const dt_source_opts o = tensor_opts(put_tensors("ignored.safetensors", &f, entries));
    dt_source *s = opened("tensors", &o);
    dt_err err = {0};
    assert_fails(s->desc->check_learned(s, 1, &err), DT_E_DATA, &err,
        "each value of y[4] is data.ignore_label, -100, so nothing of that sample counts");
    s->desc->close(s);
}

static void tensors_that_do_not_fit_are_refused_with_both_numbers(void **state)
{
    (void)state;
    tensor_file f;
    fill_tensors(&f);
    const char *path = put_tensors("fit.safetensors", &f, good_entries);
    dt_source_opts o = tensor_opts(path);
    o.batch = 8;
    open_fails("tensors", &o, DT_E_DATA, "2 samples a step, train.batch is 8: set train.batch = 2");
    o = tensor_opts(path);
    o.shape = (dt_shape){1, W, H, C};
    open_fails("tensors", &o, DT_E_DATA, "[steps, N, 3, 4, 2]");
    o = tensor_opts(path);
    o.classes = 4;
    open_fails("tensors", &o, DT_E_DATA, "y[2][0] is 4, must be in [0, 4)");
    f.y[3] = -1;
    o = tensor_opts(put_tensors("negative.safetensors", &f, good_entries));
    open_fails("tensors", &o, DT_E_DATA, "y[1][1] is -1");
    o.path = NULL;
    open_fails("tensors", &o, DT_E_CONFIG, "data.path");
    o.path = dt_temp_path("none.safetensors");
    open_fails("tensors", &o, DT_E_DATA, "none.safetensors");
}

static void tensors_of_wrong_name_type_or_rank_are_refused(void **state)
{
    (void)state;
    static const struct {
        dt_st_out entries[2];
        const char *text;
    } cases[] = {
        {{{"images", DT_ST_F32, 5, {STEPS, BATCH, C, H, W}}, {"y", DT_ST_I64, 2, {STEPS, BATCH}}},
            "no tensor 'x'"},
        {{{"x", DT_ST_I32, 5, {STEPS, BATCH, C, H, W}}, {"y", DT_ST_I64, 2, {STEPS, BATCH}}},
            "must be F32"},
        {{{"x", DT_ST_F32, 4, {STEPS * BATCH, C, H, W}}, {"y", DT_ST_I64, 2, {STEPS, BATCH}}},
            "y is [3, 2], the network takes [N]"},
        {{{"x", DT_ST_F32, 5, {STEPS, BATCH, C, H, W}}, {"y", DT_ST_I64, 2, {BATCH, STEPS}}},
            "y is [2, 3]"},
        {{{"x", DT_ST_F32, 5, {STEPS, BATCH, C, H, W}}, {"y", DT_ST_F64, 2, {STEPS, BATCH}}},
            "must be I64"},
    };
    tensor_file f;
    fill_tensors(&f);
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        const dt_source_opts o = tensor_opts(put_tensors("bad.safetensors", &f, cases[i].entries));
        open_fails("tensors", &o, DT_E_DATA, cases[i].text);
    }
}

/* ---- cifar10 ---- */

static const char *put_cifar(const char *name, int records, int first_label)
{
    blob b = {0};
    for (int i = 0; i < records; i++) {
        blob_byte(&b, (unsigned)(first_label + i) % 10);
        for (unsigned k = 0; k < DTI_CIFAR_PIXELS; k++)
            blob_byte(&b, (k / 1024 * 100 + k % 1024 / 32 + (unsigned)i) & 255);
    }
    const char *path = dt_temp_path(name);
    put_file(path, b.p, b.n);
    blob_free(&b);
    return path;
}

static dt_source_opts cifar_opts(const char *path)
{
    static const float zero[3] = {0}, one[3] = {1 / 255.0f, 1 / 255.0f, 1 / 255.0f};
    return (dt_source_opts){
        .path = path, .shape = {1, 32, 32, 3}, .classes = 10, .mean = zero, .std = one};
}

static void cifar_folders_hold_five_files_and_one_for_evaluation(void **state)
{
    (void)state;
    char name[40];
    for (int i = 1; i <= 5; i++) {
        snprintf(name, sizeof name, "cifar/data_batch_%d.bin", i);
        put_cifar(name, 2, 2 * i);
    }
    put_cifar("cifar/test_batch.bin", 3, 5);
    static float x[DTI_CIFAR_PIXELS];
    dt_source_opts o = cifar_opts(dt_temp_path("cifar"));
    dt_source *s = opened("cifar10", &o);
    assert_true(s->desc->has_eval(s->desc, &o));
    assert_int_equal(s->desc->count(s), 10);
    assert_int_equal(read_sample(s, 0, 0, x), 2);
    assert_int_equal(read_sample(s, 9, 0, x), 1); /* the second of the fifth file: 10 + 1 */
    for (int i = 0; i < 1024; i++)                /* planes become channels */
        for (int c = 0; c < 3; c++)
            assert_true(close_to(x[3 * i + c], (c * 100 + i / 32 + 1) & 255));
    s->desc->close(s);
    o.eval = true;
    s = opened("cifar10", &o);
    assert_int_equal(s->desc->count(s), 3);
    assert_int_equal(read_sample(s, 1, 0, x), 6);
    s->desc->close(s);
    assert_int_equal(unlink(dt_temp_path("cifar/data_batch_4.bin")), 0);
    o.eval = false;
    open_fails("cifar10", &o, DT_E_DATA, "data_batch_4.bin: cannot open: No such file");
}

static void cifar_pictures_are_resized_for_larger_networks(void **state)
{
    (void)state;
    static float x[64 * 64 * 3];
    dt_source_opts o = cifar_opts(put_cifar("one.bin", 1, 3));
    o.shape.h = o.shape.w = 64;
    dt_source *s = opened("cifar10", &o);
    assert_false(s->desc->has_eval(s->desc, &o)); /* a file, not a folder */
    assert_int_equal(read_sample(s, 0, 0, x), 3);
    assert_true(x[0] > 0 && x[0] < 16 && x[1] > 99 && x[2] > 199);
    s->desc->close(s);
}

static void cifar_files_of_wrong_length_or_label_are_refused(void **state)
{
    (void)state;
    uint8_t bytes[3 * DTI_CIFAR_RECORD + 5] = {0};
    const char *path = dt_temp_path("cut.bin");
    dt_source_opts o = cifar_opts(path);
    put_file(path, bytes, sizeof bytes);
    open_fails("cifar10", &o, DT_E_DATA, "3 records of 3073 bytes and 5 more");
    put_file(path, bytes, 0);
    open_fails("cifar10", &o, DT_E_DATA, "0 bytes");
    bytes[2 * DTI_CIFAR_RECORD] = 10;
    put_file(path, bytes, 3 * DTI_CIFAR_RECORD);
    open_fails("cifar10", &o, DT_E_DATA, "cut.bin: record 2 has label 10, must be below 10");
    bytes[2 * DTI_CIFAR_RECORD] = 0;
    bytes[DTI_CIFAR_RECORD] = 7;
    put_file(path, bytes, 3 * DTI_CIFAR_RECORD);
    o.classes = 7;
    open_fails("cifar10", &o, DT_E_DATA, "record 1 has label 7, must be below 7");
}

/* ---- idx ---- */

enum { IDX_N = 5, IDX_H = 6, IDX_W = 4 };

typedef struct idx_pair {
    blob images, labels;
} idx_pair;

static idx_pair make_pair(void)
{
    static const uint32_t dims[3] = {IDX_N, IDX_H, IDX_W};
    uint8_t px[IDX_N * IDX_H * IDX_W], labels[IDX_N];
    for (size_t i = 0; i < sizeof px; i++)
        px[i] = (uint8_t)(i + 1);
    for (size_t i = 0; i < sizeof labels; i++)
        labels[i] = (uint8_t)(2 * i);
    return (idx_pair){make_idx(3, dims, px, sizeof px), make_idx(1, dims, labels, sizeof labels)};
}

static void free_pair(idx_pair *p)
{
    blob_free(&p->images);
    blob_free(&p->labels);
}

/* Write a pair as folder/train-...; gzip packs both. */
static void put_pair(const char *folder, const char *split, const idx_pair *p, bool gzip)
{
    char name[200];
    for (int i = 0; i < 2; i++) {
        const blob *b = i == 0 ? &p->images : &p->labels;
        blob z = {0};
        if (gzip)
            z = make_gzip(b->p, b->n);
        snprintf(name, sizeof name, "%s/%s-%s-ubyte%s", folder, split,
            i == 0 ? "images-idx3" : "labels-idx1", gzip ? ".gz" : "");
        put_file(dt_temp_path(name), gzip ? z.p : b->p, gzip ? z.n : b->n);
        blob_free(&z);
    }
}

static dt_source_opts idx_opts(const char *folder)
{
    static const float zero[3] = {0}, one[3] = {1 / 255.0f, 1 / 255.0f, 1 / 255.0f};
    return (dt_source_opts){.path = dt_temp_path(folder),
        .shape = {1, IDX_H, IDX_W, 1},
        .classes = 10,
        .mean = zero,
        .std = one};
}

static void check_idx(const dt_source_opts *o)
{
    float x[IDX_H * IDX_W];
    dt_source *s = opened("idx", o);
    assert_int_equal(s->desc->count(s), IDX_N);
    for (int i = 0; i < IDX_N; i++) {
        assert_int_equal(read_sample(s, i, 0, x), 2 * i);
        for (int k = 0; k < IDX_H * IDX_W; k++)
            assert_true(close_to(x[k], i * IDX_H * IDX_W + k + 1));
    }
    s->desc->close(s);
}

static void idx_files_are_read_plain_and_gzipped_by_folder_and_by_file(void **state)
{
    (void)state;
    idx_pair p = make_pair();
    put_pair("idx-plain", "train", &p, false);
    put_pair("idx-gzip", "train", &p, true);
    put_pair("idx-gzip", "t10k", &p, true);
    dt_source_opts o = idx_opts("idx-plain");
    check_idx(&o);
    assert_false(dt_source_idx.has_eval(&dt_source_idx, &o));
    o.eval = true;
    open_fails("idx", &o, DT_E_DATA, "neither t10k-images-idx3-ubyte nor");
    o = idx_opts("idx-gzip");
    check_idx(&o);
    assert_true(dt_source_idx.has_eval(&dt_source_idx, &o));
    o.eval = true;
    check_idx(&o);
    o.eval = false;
    o.path = dt_temp_path("idx-gzip/train-images-idx3-ubyte.gz");
    check_idx(&o);
    assert_false(dt_source_idx.has_eval(&dt_source_idx, &o));
    put_file(dt_temp_path("idx-plain/pictures"), "x", 1);
    o.path = dt_temp_path("idx-plain/pictures");
    open_fails("idx", &o, DT_E_DATA, "'images' in its name");
    free_pair(&p);
}

static void several_gzip_members_are_one_file(void **state)
{
    (void)state;
    idx_pair p = make_pair();
    blob a = make_gzip(p.images.p, 20), b = make_gzip(p.images.p + 20, p.images.n - 20);
    put_pair("idx-members", "train", &p, true);
    blob_put(&a, b.p, b.n);
    put_file(dt_temp_path("idx-members/train-images-idx3-ubyte.gz"), a.p, a.n);
    const dt_source_opts o = idx_opts("idx-members");
    check_idx(&o);
    blob_free(&a);
    blob_free(&b);
    free_pair(&p);
}

static void digits_are_centred_in_larger_pictures_and_repeated_over_channels(void **state)
{
    (void)state;
    float x[8 * 7 * 3];
    idx_pair p = make_pair();
    put_pair("idx-centre", "train", &p, false);
    dt_source_opts o = idx_opts("idx-centre");
    o.shape = (dt_shape){1, 8, 7, 3};
    dt_source *s = opened("idx", &o);
    read_sample(s, 0, 0, x);
    for (int y = 0; y < 8; y++)
        for (int i = 0; i < 7; i++)
            for (int c = 0; c < 3; c++) {
                const int sy = y - 1, sx = i - 1; /* (8-6)/2, (7-4)/2 */
                const bool in = sy >= 0 && sy < IDX_H && sx >= 0 && sx < IDX_W;
                assert_true(close_to(x[(y * 7 + i) * 3 + c], in ? sy * IDX_W + sx + 1 : 0));
            }
    s->desc->close(s);
    o.shape = (dt_shape){1, 5, 7, 3};
    open_fails("idx", &o, DT_E_DATA, "6x4, the network takes 5x7");
    free_pair(&p);
}

static void digits_are_shifted_but_never_mirrored(void **state)
{
    (void)state;
    float x[IDX_H * IDX_W];
    idx_pair p = make_pair();
    put_pair("idx-augment", "train", &p, false);
    dt_source_opts o = idx_opts("idx-augment");
    o.augment = true;
    dt_source *s = opened("idx", &o);
    int moved = 0;
    for (uint64_t key = 0; key < 200; key++) {
        read_sample(s, 0, key, x);
        moved += x[0] != 1;
        for (int i = 0; i + 1 < IDX_H * IDX_W; i++)
            if (i % IDX_W + 1 < IDX_W && x[i] > 0.5f && x[i + 1] > 0.5f)
                assert_true(close_to(x[i + 1] - x[i], 1));
    }
    assert_true(moved > 150);
    s->desc->close(s);
    free_pair(&p);
}

/* One way to damage a pair, and what the message must say. */
typedef struct damage {
    const char *text;
    bool gzip, labels; /* the damaged file is the one of labels */
    int at;            /* byte, from the end when negative */
    int value;         /* new value of the byte; -1: cut here; -2: append a byte */
} damage;

static void spoil(blob *b, const damage *d)
{
    const size_t at = d->at < 0 ? b->n - (size_t)-d->at : (size_t)d->at;
    if (d->value == -1)
        b->n = at;
    else if (d->value == -2)
        blob_byte(b, 0x55);
    else
        b->p[at] = (uint8_t)d->value;
}

static void damaged_idx_files_are_refused(void **state)
{
    (void)state;
    static const damage cases[] = {
        {"begins with 00000903, IDX images begin with 00000803", false, false, 2, 9},
        {"begins with 00000801", false, false, 3, 1},
        {"IDX labels begin with 00000801", false, true, 3, 3},
        {"cannot hold them", false, false, 4, 0xFF},
        {"cannot hold them", false, false, 7, 6},
        {"24 bytes too many", false, false, 7, IDX_N - 1},
        {"sides must be 1 to", false, false, 11, 0},
        {"sides must be 1 to", false, false, 8, 0x80},
        {"holds 0 items", false, true, 7, 0},
        {"label 200 of sample 4 must be below 10", false, true, -1, 200},
        {"ends after 2 bytes, expected 2 more", false, false, 2, -1},
        {"ends after 9 bytes, expected 7 more", false, false, 9, -1},
        {"ends after 0 bytes", false, true, 0, -1},
        {"1 byte too many", false, false, 0, -2},
        {"gzip data is cut", true, false, -30, -1},
        {"gzip data is cut", true, false, -1, -1},
        {"gzip data is cut", true, true, 5, -1},
        {"incorrect data check", true, false, -5, 0x99},
        {"incorrect length check", true, true, -1, 0x99},
        {"gzip data is damaged", true, false, 2, 0x77},
        {"1 byte too many at its end", true, false, 0, -2},
        {"not gzip, though its name says so", true, true, 0, 'x'},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        const damage *d = &cases[i];
        idx_pair p = make_pair();
        blob *hurt = d->labels ? &p.labels : &p.images;
        if (!d->gzip)
            spoil(hurt, d);
        put_pair("idx-bad", "train", &p, d->gzip);
        if (d->gzip) {
            blob z = make_gzip(hurt->p, hurt->n);
            spoil(&z, d);
            put_file(dt_temp_path(d->labels ? "idx-bad/train-labels-idx1-ubyte.gz"
                                            : "idx-bad/train-images-idx3-ubyte.gz"),
                z.p, z.n);
            blob_free(&z);
            (void)unlink(dt_temp_path("idx-bad/train-images-idx3-ubyte"));
            (void)unlink(dt_temp_path("idx-bad/train-labels-idx1-ubyte"));
        }
        const dt_source_opts o = idx_opts("idx-bad");
        open_fails("idx", &o, DT_E_DATA, d->text);
        free_pair(&p);
    }
}

static void images_and_labels_must_be_as_many(void **state)
{
    (void)state;
    idx_pair p = make_pair();
    p.labels.p[7] = IDX_N - 1;
    p.labels.n--;
    put_pair("idx-counts", "train", &p, false);
    const dt_source_opts o = idx_opts("idx-counts");
    open_fails("idx", &o, DT_E_DATA, "5 images, but ");
    open_fails("idx", &o, DT_E_DATA, "train-labels-idx1-ubyte: 4 labels");
    free_pair(&p);
}

/* A header that announces what gzip could not hold is refused before memory is taken; one that
 * announces less than comes stops there. */
static void gzip_bombs_are_refused_early(void **state)
{
    (void)state;
    static const uint32_t huge[3] = {60000, 1000, 28};
    static uint8_t zeros[4 << 20];
    idx_pair p = make_pair();
    put_pair("idx-bomb", "train", &p, true);
    blob a = make_idx(3, huge, zeros, 1000), z = make_gzip(a.p, a.n);
    const char *images = dt_temp_path("idx-bomb/train-images-idx3-ubyte.gz");
    const dt_source_opts o = idx_opts("idx-bomb");
    put_file(images, z.p, z.n);
    open_fails("idx", &o, DT_E_DATA, "announces 60000 items, 1680000000 bytes");
    blob_free(&z);
    blob_put(&p.images, zeros, sizeof zeros);
    z = make_gzip(p.images.p, p.images.n);
    put_file(images, z.p, z.n);
    open_fails("idx", &o, DT_E_DATA, "goes on after the 136 bytes its header announces");
    blob_free(&z);
    blob_free(&a);
    free_pair(&p);
}

/* ---- what all share ---- */

static void missing_and_irregular_paths_are_named(void **state)
{
    (void)state;
    dt_source_opts o = {.shape = {1, 8, 8, 1}, .classes = 2, .batch = 1};
    static const char *const sources[] = {"idx", "cifar10", "tensors"};
    put_folder(dt_temp_path("."));
    const char *fifo = dt_temp_path("fifo-images");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(mkfifo(dt_temp_path("fifo-labels"), 0600), 0);
    for (size_t i = 0; i < DT_COUNT(sources); i++) {
        o.path = dt_temp_path("not\nthere");
        open_fails(sources[i], &o, DT_E_DATA, i < 2 ? "not\\nthere: No such file" : "No such file");
        o.path = NULL;
        open_fails(sources[i], &o, DT_E_CONFIG, "data.path is missing: data.source = ");
        o.path = fifo;
        open_fails(sources[i], &o, DT_E_DATA, "not a regular file");
    }
    if (geteuid() == 0)
        return; /* root may read anything */
    put_file(dt_temp_path("secret-images"), "x", 1);
    assert_int_equal(chmod(dt_temp_path("secret-images"), 0), 0);
    o.path = dt_temp_path("secret-images");
    for (size_t i = 0; i < DT_COUNT(sources); i++)
        open_fails(sources[i], &o, DT_E_DATA, "Permission denied");
}

static void every_failing_allocation_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    tensor_file f;
    fill_tensors(&f);
    dt_source_opts o = tensor_opts(put_tensors("faults.safetensors", &f, good_entries));
    open_with_faults(dt_source_find("tensors"), &o);
    o = cifar_opts(put_cifar("faults.bin", 4, 0));
    o.batch = 2;
    open_with_faults(dt_source_find("cifar10"), &o);
    o.shape.h = o.shape.w = 40;
    open_with_faults(dt_source_find("cifar10"), &o);
    idx_pair p = make_pair();
    put_pair("idx-faults", "train", &p, true);
    o = idx_opts("idx-faults");
    o.batch = 2;
    open_with_faults(dt_source_find("idx"), &o);
    free_pair(&p);
    o = textures(8, 3);
    o.batch = 2;
    open_with_faults(dt_source_find("synthetic"), &o);
}

DT_TEST_GROUP(data)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_source_is_listed_and_found),
        cmocka_unit_test(wrong_options_are_refused_by_every_source_of_pictures),
        cmocka_unit_test(synthetic_samples_are_pure_functions_of_seed_split_and_index),
        cmocka_unit_test(synthetic_counts_and_classes_follow_samples),
        cmocka_unit_test(synthetic_values_have_about_zero_mean_and_unit_variance),
        cmocka_unit_test(synthetic_classes_show_in_local_patterns_more_than_in_pixels),
        cmocka_unit_test(tensors_come_in_file_order_and_as_nhwc),
        cmocka_unit_test(tensors_without_steps_are_samples),
        cmocka_unit_test(a_vector_needs_no_height_and_width),
        cmocka_unit_test(a_sample_that_does_not_count_is_refused_in_training),
        cmocka_unit_test(tensors_that_do_not_fit_are_refused_with_both_numbers),
        cmocka_unit_test(tensors_of_wrong_name_type_or_rank_are_refused),
        cmocka_unit_test(cifar_folders_hold_five_files_and_one_for_evaluation),
        cmocka_unit_test(cifar_pictures_are_resized_for_larger_networks),
        cmocka_unit_test(cifar_files_of_wrong_length_or_label_are_refused),
        cmocka_unit_test(idx_files_are_read_plain_and_gzipped_by_folder_and_by_file),
        cmocka_unit_test(several_gzip_members_are_one_file),
        cmocka_unit_test(digits_are_centred_in_larger_pictures_and_repeated_over_channels),
        cmocka_unit_test(digits_are_shifted_but_never_mirrored),
        cmocka_unit_test(damaged_idx_files_are_refused),
        cmocka_unit_test(images_and_labels_must_be_as_many),
        cmocka_unit_test(gzip_bombs_are_refused_early),
        cmocka_unit_test(missing_and_irregular_paths_are_named),
        cmocka_unit_test(every_failing_allocation_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
