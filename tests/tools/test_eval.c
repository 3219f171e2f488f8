/* `dnntrain eval` from outside: it finds what training found at its end, and a network that has
 * learned a text by heart writes it. */
#include <dnntrain.h>

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "data/decode.h"
#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "tests/fixture/data_files.h"
#include "tests/fixture/json_read.h"
#include "tests/fixture/run_cli.h"

#define SENTENCE "the quick brown fox jumps over the lazy dog. "

static char config[1024], weights[2048]; /* of the network that was trained */

static const char *text_file(void)
{
    static char text[400 * sizeof SENTENCE];
    for (int i = 0; i < 400; i++)
        memcpy(text + (size_t)i * (sizeof SENTENCE - 1), SENTENCE, sizeof SENTENCE);
    return cli_file("text.txt", text);
}

/* Trains it once for all tests. */
static int train_it(void **state)
{
    (void)state;
    char ini[4096], text[1024], dir[1024];
    if (cli_binary() == NULL)
        return 0;
    snprintf(text, sizeof text, "%s", text_file());
    snprintf(dir, sizeof dir, "%s", dt_temp_path("run"));
    snprintf(ini, sizeof ini,
        "[model]\nname = gpt2\nlayers = 1\nheads = 2\nwidth = 32\ncontext = 16\nvocab = 30\n"
        "[data]\nsource = text\npath = %s\n[train]\nbatch = 24\nmicro_batch = 12\nepochs = 10\n"
        "lr = 0.1\nmomentum = 0.9\neval_every = 0\n[device]\nthreads = 1\n[run]\ndir = "
        "%s\noverwrite = on\n",
        text, dir);
    snprintf(config, sizeof config, "%s", cli_file("gpt.ini", ini));
    ran r = cli_run("FILE", config);
    assert_code(&r, 0);
    cli_done(&r);
    snprintf(weights, sizeof weights, "--set model.weights=%s/checkpoints/model.safetensors", dir);
    return 0;
}

static ran eval(const char *words)
{
    char line[4096];
    snprintf(line, sizeof line, "eval FILE %s %s", weights, words);
    return cli_run(line, config);
}

static void it_finds_what_training_found_at_its_end(void **state)
{
    NEED_BINARY();
    cJSON *summary = json_file(dt_temp_path("run/summary.json"));
    ran r = eval("--json");
    assert_code(&r, 0);
    cJSON *now = json_of(r.out, strlen(r.out));
    const float a[] = {(float)json_number(summary, "eval_loss"),
        (float)json_number(summary, "eval_top1"), (float)json_number(summary, "eval_top5")};
    const float b[] = {(float)json_number(now, "loss"), (float)json_number(now, "top1"),
        (float)json_number(now, "top5")};
    assert_true(dt_relative_error(b, a, 3) <= 1e-5);
    assert_true(json_number(now, "loss") < 0.5 && json_number(now, "top1") > 0.85);
    assert_true(fabs(json_number(now, "samples") - 112) < 0.5); /* a partial batch at the end */
    cJSON_Delete(summary);
    cJSON_Delete(now);
    cli_done(&r);
}

static void people_get_a_table(void **state)
{
    NEED_BINARY();
    ran r = eval("");
    assert_code(&r, 0);
    assert_has(r.out, "gpt2 on text: 1800 characters of 28 kinds");
    assert_has(r.out, "nats a position");
    assert_has(r.out, "\ntop-1     ");
    assert_has(r.out, "\ntop-5     ");
    assert_has(r.out, "\nsamples   112 in ");
    assert_string_equal(r.err, "");
    cli_done(&r);
}

static void without_weights_it_refuses(void **state)
{
    NEED_BINARY();
    ran r = cli_run("eval FILE", config);
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "no weights to evaluate");
    assert_has(r.err, "--random");
    assert_string_equal(r.out, "");
    cli_done(&r);
    r = cli_run("eval FILE --random --json", config);
    assert_code(&r, 0);
    cJSON *o = json_of(r.out, strlen(r.out));
    assert_true(fabs(json_number(o, "loss") - log(30)) < 0.2); /* it knows nothing */
    cJSON_Delete(o);
    cli_done(&r);
    r = eval("--random");
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "give one of them");
    cli_done(&r);
}

/* What a run left: weights, and what says of them when they were saved and how good they are. */
static void files_of_a_run_are_not_written_over(void **state)
{
    NEED_BINARY();
    static const char *const files[] = {
        "checkpoints/model.safetensors", "summary.json", "metrics.jsonl"};
    for (size_t i = 0; i < DT_COUNT(files); i++) {
        char folder[256], path[320], words[512];
        struct stat before, after;
        snprintf(folder, sizeof folder, "%s", dt_temp_path("run"));
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        snprintf(words, sizeof words, "eval FILE --outputs %s", path);
        assert_int_equal(stat(path, &before), 0);
        ran r = cli_run(words, folder);
        assert_code(&r, DT_E_CONFIG);
        assert_has(r.err, "and would be overwritten; name another file");
        assert_true(stat(path, &after) == 0 && before.st_ino == after.st_ino);
        cli_done(&r);
    }
}

/* What is in a run's folder stands for none, and is told with what does. */
static void words_that_stand_for_no_run_are_refused(void **state)
{
    NEED_BINARY();
    static const struct {
        const char *words, *says;
    } all[] = {
        {"eval run --random", "--random goes with a CONFIG, and 'run' is a run: name its 'run/"},
        {"eval run/checkpoints", "'run/checkpoints' is of the run '"},
        {"eval run/checkpoints/model.safetensors", "is of the run '"},
        {"classify run run", "'run' is a folder; name pictures, as run/* does"},
    };
    cli.folder = dt_temp_root();
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        ran r = cli_run(all[i].words, NULL);
        assert_code(&r, DT_E_CONFIG);
        assert_has(r.err, all[i].says);
        cli_done(&r);
    }
    cli.folder = NULL;
}

static void wrong_weights_are_refused(void **state)
{
    NEED_BINARY();
    char line[4096];
    snprintf(line, sizeof line, "eval FILE %s --set model.width=48 --set model.heads=3", weights);
    ran r = cli_run(line, config);
    assert_code(&r, DT_E_DATA);
    assert_has(r.err, "[model] weights");
    cli_done(&r);
}

/* At temperature 0 it goes on with the sentence, again and again, across many windows. */
static void a_text_learned_by_heart_is_written(void **state)
{
    NEED_BINARY();
    char want[256] = "";
    const char *prompt = "fox";
    for (int i = 0; i < 4; i++)
        strcat(want, SENTENCE);
    ran r = eval("--generate 90 --prompt fox --temperature 0");
    assert_code(&r, 0);
    const char *from = strstr(want, prompt);
    assert_int_equal(strlen(r.out), 3 + 90 + 1);
    assert_int_equal(strncmp(r.out, from, 93), 0);
    assert_has(r.err, "90 characters");
    cli_done(&r);
}

static void the_prompt_is_held_out_text_unless_given(void **state)
{
    NEED_BINARY();
    ran r = eval("--generate 5");
    assert_code(&r, 0);
    const size_t held = 400 * (sizeof SENTENCE - 1) / 10 * 9; /* where it begins */
    char want[256] = SENTENCE SENTENCE;
    assert_int_equal(strncmp(r.out, want + held % (sizeof SENTENCE - 1), 16), 0);
    assert_int_equal(strlen(r.out), 16 + 5 + 1);
    cli_done(&r);
}

static void a_seed_decides_what_is_drawn(void **state)
{
    NEED_BINARY();
    ran a = eval("--generate 80 --prompt a --temperature 8 --seed 1");
    ran b = eval("--generate 80 --prompt a --temperature 8 --seed 1");
    ran c = eval("--generate 80 --prompt a --temperature 8 --seed 2");
    assert_code(&a, 0);
    assert_code(&c, 0);
    assert_string_equal(a.out, b.out);
    assert_string_not_equal(a.out, c.out);
    for (const char *p = a.out; p[1] != '\0'; p++) /* only characters that the text has */
        assert_non_null(strchr(SENTENCE, *p));
    cli_done(&a);
    cli_done(&b);
    cli_done(&c);
}

static void wrong_arguments_are_refused(void **state)
{
    NEED_BINARY();
    static const char *const wrong[][2] = {{"--generate 0", "--generate 0"},
        {"--generate 9x", "--generate 9x"}, {"--generate 5 --temperature -1", "--temperature -1"},
        {"--generate 5 --temperature nan", "--temperature nan"},
        {"--generate 5 --seed x", "--seed"},
        {"--generate 5 --prompt the#", "byte 4 (0x23) does not occur"},
        {"--generate 5 --prompt=", "a character at least"}, {"--seed 5", "go with --generate"},
        {"--generate 5 --json", "exclude each other"},
        {"--generate 5 --set data.source=synthetic", "needs data.source = text"}};
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        ran r = eval(wrong[i][0]);
        assert_code(&r, DT_E_CONFIG);
        assert_has(r.err, wrong[i][1]);
        assert_string_equal(r.out, "");
        cli_done(&r);
    }
    ran r = cli_run("eval", NULL);
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "name a CONFIG");
    cli_done(&r);
}

static void data_without_a_held_out_part_is_refused(void **state)
{
    NEED_BINARY();
    char line[2048], folder[1024];
    snprintf(folder, sizeof folder, "%s", dt_temp_path("nothing.safetensors"));
    snprintf(line, sizeof line, "eval FILE --random --set data.source=tensors --set data.path=%s",
        folder);
    ran r = cli_run(line, cli_file("l.ini", "[model]\nname = lenet5\n[train]\nbatch = 4\n"
                                            "steps = 1\n"));
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "data.eval_path");
    cli_done(&r);
}

static void without_its_data_nothing_is_evaluated(void **state)
{
    NEED_BINARY();
    static const char *const sources[] = {"cifar10", "idx", "images"};
    for (size_t i = 0; i < DT_COUNT(sources); i++) {
        char line[128];
        snprintf(line, sizeof line, "eval FILE --random --set data.source=%s", sources[i]);
        ran r = cli_run(line, cli_file("l.ini", "[model]\nname = lenet5\n"));
        assert_code(&r, DT_E_CONFIG);
        assert_has(r.err, "data.path is missing");
        cli_done(&r);
    }
}

static void pictures_are_evaluated_too(void **state)
{
    NEED_BINARY();
    ran r = cli_run("eval FILE --random",
        cli_file("l.ini", "[model]\nname = lenet5\n[data]\nsamples = 64\n[train]\nbatch = 100\n"
                          "steps = 1\n"));
    assert_code(&r, 0);
    assert_has(r.out, "\nloss      2.");
    assert_has(r.out, "samples   256 in ");
    cli_done(&r);
}

/* A file of safetensors: F32 x and I64 y of one step, 2 pictures of 4x4 and 3 channels, black but
 * for the @first value; of the pixels a quarter is of class 0, the rest of class 2. */
static const char *pixel_file(const char *name, float first)
{
    static const char header[] =
        "{\"x\":{\"dtype\":\"F32\",\"shape\":[1,2,3,4,4],\"data_offsets\":[0,384]},"
        "\"y\":{\"dtype\":\"I64\",\"shape\":[1,2,4,4],\"data_offsets\":[384,640]}}";
    float x[96] = {first};
    int64_t y[32];
    const uint64_t length = strlen(header);
    const char *path = cli_file(name, "");
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (int i = 0; i < 32; i++)
        y[i] = i % 4 == 1 ? 0 : 2;
    assert_int_equal(fwrite(&length, sizeof length, 1, f), 1);
    assert_int_equal(fwrite(header, strlen(header), 1, f), 1);
    assert_int_equal(fwrite(x, sizeof x, 1, f), 1);
    assert_int_equal(fwrite(y, sizeof y, 1, f), 1);
    assert_int_equal(fclose(f), 0);
    return path;
}

/* Of a network that tells their pixels apart; the folder of its run. */
static void pixel_config(char file[1024], char dir[1024])
{
    char ini[4096], data[1024];
    snprintf(data, sizeof data, "%s", pixel_file("pixels.safetensors", 0));
    snprintf(dir, 1024, "%s", dt_temp_path("pixels"));
    snprintf(ini, sizeof ini,
        "[model]\nimage = 4\nclasses = 4\n[conv c]\nout = 4\nkernel = 1\nbias = off\n[data]\n"
        "source = tensors\npath = %s\neval_path = %s\n[train]\nbatch = 2\nmicro_batch = 1\n"
        "steps = 1\n[device]\nthreads = 1\n[run]\ndir = %s\noverwrite = on\n",
        data, data, dir);
    snprintf(file, 1024, "%s", cli_file("pixels.ini", ini));
}

/* All scores are equal, as the pictures are black and the network has no bias, so each pixel is
 * predicted to be of class 0. That has a quarter of the pixels, so 1/4 of the union; class 2, which
 * is never predicted, has 0; classes 1 and 3 do not occur. Their mean is 1/8. */
static void pixels_have_a_mean_intersection_over_union(void **state)
{
    NEED_BINARY();
    char dir[1024], line[4096], file[1024];
    pixel_config(file, dir);
    ran r = cli_run("FILE", file);
    assert_code(&r, 0);
    assert_has(r.err, "4 classes of pixels");
    assert_has(r.err, "top-1 25.0 % of pixels  mean IoU 12.5 %");
    assert_has(r.out, "top-1 25.00 % of pixels, mean IoU 12.50 %");
    cli_done(&r);
    cJSON *o = json_file(dt_temp_path("pixels/summary.json"));
    assert_true(fabs(json_number(o, "eval_mean_iou") - 0.125) < 1e-9);
    cJSON_Delete(o);
    char *metrics = cli_text(dt_temp_path("pixels/metrics.jsonl"));
    assert_has(metrics, "\"top5\": 1, \"mean_iou\": 0.125, \"samples\": 2");
    dt_free(metrics);
    snprintf(
        line, sizeof line, "eval FILE --set model.weights=%s/checkpoints/model.safetensors", dir);
    r = cli_run(line, file);
    assert_code(&r, 0);
    assert_has(r.out, "top-1     25.00 % of pixels");
    assert_has_not(r.out, "top-5"); /* of four classes each label is among the first five */
    assert_has(r.out, "mean IoU  12.50 %\n");
    cli_done(&r);
    strncat(line, " --json", sizeof line - strlen(line) - 1);
    r = cli_run(line, file);
    assert_code(&r, 0);
    o = json_of(r.out, strlen(r.out));
    assert_true(fabs(json_number(o, "mean_iou") - 0.125) < 1e-9);
    cJSON_Delete(o);
    cli_done(&r);
}

/* Of a layer whose three scores are the three colours: the class of a pixel is its strongest. */
static const char *colour_weights(void)
{
    static const char header[] =
        "{\"c.weight\":{\"dtype\":\"F32\",\"shape\":[4,3,1,1],\"data_offsets\":[0,48]}}  ";
    static const float w[12] = {1, 0, 0, 0, 1, 0, 0, 0, 1, -1, -1, -1};
    const uint64_t length = strlen(header);
    blob b = {0};
    blob_put(&b, &length, sizeof length);
    blob_put(&b, header, strlen(header));
    blob_put(&b, w, sizeof w);
    put_file(dt_temp_path("colours.safetensors"), b.p, b.n);
    blob_free(&b);
    return dt_temp_path("colours.safetensors");
}

/* The picture of a file, as it is decoded. */
static dti_picture picture_of(const char *path)
{
    dti_picture p;
    char *bytes;
    size_t n;
    dt_err err = {0};
    assert_ok(dt_read_file(&bytes, &n, path, 1 << 20, DT_E_IO, &err), &err);
    assert_ok(dti_decode(&p, path, (const uint8_t *)bytes, n, &err), &err);
    dt_free(bytes);
    return p;
}

/* Of a picture as large as the network takes, and of one that is twice as wide and three times as
 * high: their quarters are red, green, blue and red. */
static void masks_have_the_class_of_each_pixel(void **state)
{
    NEED_BINARY();
    static const uint8_t colour[4][3] = {{250, 9, 9}, {9, 250, 9}, {9, 9, 250}, {250, 9, 9}};
    static const uint8_t voc[3][3] = {{0, 0, 0}, {128, 0, 0}, {0, 128, 0}};
    static const int class[4] = {0, 1, 2, 0};
    char file[1024], dir[1024], line[4096], masks[1024];
    pixel_config(file, dir);
    snprintf(masks, sizeof masks, "%s", dt_temp_path("masks"));
    for (int k = 0; k < 2; k++) {
        const int w = k == 0 ? 4 : 8, h = k == 0 ? 4 : 12;
        uint8_t px[12 * 8 * 3];
        for (int i = 0; i < w * h; i++)
            memcpy(px + 3 * i, colour[i / w / (h / 2) * 2 + i % w / (w / 2)], 3);
        blob b = make_rgb_png(px, w, h);
        put_file(dt_temp_path(k == 0 ? "quarters.bmp.png" : "large.png"), b.p, b.n);
        blob_free(&b);
    }
    const int n = snprintf(line, sizeof line,
        "classify FILE %s %s --set model.weights=%s --set data.mean=0 --set data.std=1",
        dt_temp_path("quarters.bmp.png"), dt_temp_path("large.png"), colour_weights());
    ran r = cli_run(line, file);
    assert_code(&r, 0);
    assert_has(r.out, "class 0 50.0 %, class 1 25.0 %, class 2 25.0 %\n");
    cli_done(&r);
    snprintf(line + n, sizeof line - (size_t)n, " --json --masks %s", masks);
    r = cli_run(line, file);
    assert_code(&r, 0);
    assert_has(r.out, "/masks/quarters.bmp.png\"");
    cli_done(&r);
    for (int k = 0; k < 2; k++) {
        char path[2048];
        const int w = k == 0 ? 4 : 8, h = k == 0 ? 4 : 12;
        snprintf(path, sizeof path, "%s/%s", masks, k == 0 ? "quarters.bmp.png" : "large.png");
        dti_picture p = picture_of(path);
        assert_true(p.w == w && p.h == h && p.c == 3);
        for (int i = 0; i < w * h; i++)
            assert_memory_equal(p.px + 3 * i, voc[class[i / w / (h / 2) * 2 + i % w / (w / 2)]], 3);
        dt_free(p.px);
    }
    r = cli_run(line, file); /* nothing is written over */
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "quarters.bmp.png', is there already; name another folder with --masks");
    cli_done(&r);
}

/* What they would be of, how a picture becomes what the network takes, and where they go. */
static void masks_that_cannot_be_are_refused(void **state)
{
    NEED_BINARY();
    char file[1024], dir[1024], line[4096], start[2048];
    pixel_config(file, dir);
    snprintf(start, sizeof start, "classify FILE %s --set model.weights=%s",
        dt_temp_path("large.png"), colour_weights());
    const struct {
        const char *more, *says;
        int code;
    } wrong[] = {{"--masks masks", "or data.mean and data.std, which tell how", DT_E_CONFIG},
        {"--set data.mean=0 --set data.std=1 --masks /nowhere/masks",
            "make folder '/nowhere/masks': No such file", DT_E_IO}};
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        snprintf(line, sizeof line, "%s %s", start, wrong[i].more);
        ran r = cli_run(line, file);
        assert_code(&r, wrong[i].code);
        assert_has(r.err, wrong[i].says);
        cli_done(&r);
    }
    snprintf(line, sizeof line, "%s x/large.jpg --set data.mean=0 --set data.std=1 --masks masks",
        start);
    ran two = cli_run(line, file);
    assert_code(&two, DT_E_CONFIG);
    assert_has(two.err, "would both be 'masks/large.png'");
    cli_done(&two);
    const char *many = cli_file(
        "many.ini", "[model]\nimage = 4\nclasses = 300\n[conv c]\nout = 300\nkernel = 1\n");
    snprintf(line, sizeof line, "%s --masks masks", start);
    ran r = cli_run(line, many);
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "a mask tells 256 classes apart, and the network 300");
    cli_done(&r);
    const char *one = cli_file("one.ini", "[model]\nname = lenet5\n[data]\nsource = images\n");
    r = cli_run(line, one);
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "'lenet5' tells the class of a picture and not of its pixels");
    cli_done(&r);
    assert_false(access("masks", F_OK) == 0);
}

/* Rows of a table are pictures of one pixel with a channel for each column. The column that says
 * the class is the last, which no network of three channels would see. */
static void rows_of_a_table_are_learned_as_pixels_of_many_channels(void **state)
{
    NEED_BINARY();
    static const char header[] =
        "{\"x\":{\"dtype\":\"F32\",\"shape\":[1,4,5,1,1],\"data_offsets\":[0,80]},"
        "\"y\":{\"dtype\":\"I64\",\"shape\":[1,4],\"data_offsets\":[80,112]}}";
    const float x[20] = {[4] = 1, [9] = -1, [14] = 1, [19] = -1};
    const int64_t y[4] = {1, 0, 1, 0};
    const uint64_t length = strlen(header);
    char data[1024], ini[4096];
    snprintf(data, sizeof data, "%s", cli_file("table.safetensors", ""));
    FILE *f = fopen(data, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(&length, sizeof length, 1, f), 1);
    assert_int_equal(fwrite(header, strlen(header), 1, f), 1);
    assert_int_equal(fwrite(x, sizeof x, 1, f), 1);
    assert_int_equal(fwrite(y, sizeof y, 1, f), 1);
    assert_int_equal(fclose(f), 0);
    snprintf(ini, sizeof ini,
        "[model]\nimage = 1\nchannels = 5\nclasses = 2\n[fc f]\nout = 2\n[data]\n"
        "source = tensors\npath = %s\neval_path = %s\n[train]\nbatch = 4\nsteps = 30\n"
        "eval_every = 0\n[device]\nthreads = 1\n[run]\ndir = %s\n",
        data, data, dt_temp_path("table"));
    ran r = cli_run("FILE", cli_file("table.ini", ini));
    assert_code(&r, 0);
    assert_has(r.err, "image 1x1x5, 2 classes");
    assert_has(r.out, "top-1 100.00 %");
    cli_done(&r);
    r = cli_run("FILE --set model.channels=4", cli_file("table.ini", ini));
    assert_code(&r, DT_E_DATA);
    assert_has(r.err, "x is [1, 4, 5, 1, 1], the network takes [N, 4, 1, 1] or [steps");
    cli_done(&r);
}

static void means_of_tensors_are_for_pictures_that_are_classified(void **state)
{
    NEED_BINARY();
    static const char told[] = "data.mean and data.std change nothing in training: samples of ten";
    static const char *const words[] = {"FILE", "FILE --set data.mean=0.5"};
    char dir[1024], file[1024];
    for (size_t i = 0; i < DT_COUNT(words); i++) {
        pixel_config(file, dir);
        ran r = cli_run(words[i], file);
        (i == 0 ? assert_has_not : assert_has)(r.err, told);
        cli_done(&r);
    }
}

/* It evaluates no more, and its last scores are those of its checkpoint. */
static void with_nothing_left_to_do_a_run_keeps_its_scores(void **state)
{
    NEED_BINARY();
    static const char *const words[] = {"FILE", "FILE --resume"};
    char dir[1024], file[1024];
    pixel_config(file, dir);
    for (size_t i = 0; i < DT_COUNT(words); i++) {
        ran r = cli_run(words[i], file);
        assert_code(&r, 0);
        (i > 0 ? assert_has : assert_has_not)(r.err, "the 1 step is done");
        cli_done(&r);
        cJSON *o = json_file(dt_temp_path("pixels/summary.json"));
        const cJSON *rate = cJSON_GetObjectItemCaseSensitive(o, "images_per_second");
        assert_true(fabs(json_number(o, "eval_mean_iou") - 0.125) < 1e-9);
        assert_true(fabs(json_number(o, "eval_top1") - 0.25) < 1e-9);
        assert_true(i > 0 ? cJSON_IsNull(rate) : cJSON_IsNumber(rate));
        cJSON_Delete(o);
    }
}

/* Pictures of one colour, four of red and four of blue, each a little darker than the last. */
static void put_colours(const char *part)
{
    char path[2048];
    for (int i = 0; i < 8; i++) {
        uint8_t px[8 * 8 * 3] = {0};
        for (size_t k = 0; k < sizeof px; k += 3)
            px[k + (i < 4 ? 0 : 2)] = (uint8_t)(250 - 10 * i);
        blob b = make_rgb_png(px, 8, 8);
        snprintf(path, sizeof path, "%s/%s/%d.png", dt_temp_path(part), i < 4 ? "red" : "blue", i);
        put_file(path, b.p, b.n);
        blob_free(&b);
    }
}

/* One of them in grey. */
static void put_a_grey_one(const char *part)
{
    char path[2048];
    uint8_t px[8 * 8 * 3];
    memset(px, 99, sizeof px);
    blob b = make_rgb_png(px, 8, 8);
    snprintf(path, sizeof path, "%s/red/0.png", dt_temp_path(part));
    put_file(path, b.p, b.n);
    blob_free(&b);
}

/* A network of one layer learns two colours. */
static void learn_colours(const char *train, const char *folder)
{
    char ini[4096];
    put_colours("train");
    put_colours("held");
    snprintf(ini, sizeof ini,
        "[model]\nimage = 8\nclasses = 2\n[fc f]\nout = 2\n[data]\nsource = images\npath = %s\n"
        "eval_path = %s\n[train]\nbatch = 4\nepochs = 8\nlr = 0.05\n[device]\nthreads = 1\n"
        "[checkpoint]\nevery = 4\n[run]\ndir = %s\noverwrite = on\n",
        train, dt_temp_path("held"), folder);
    ran r = cli_run("FILE", cli_file("colours.ini", ini));
    assert_code(&r, 0);
    cli_done(&r);
}

/* Whoever looks for the best weights need not read metrics. */
static void the_best_evaluation_is_told_with_its_checkpoint(void **state)
{
    NEED_BINARY();
    static const char *const by[] = {"loss", "top1"};
    char train[1024], folder[1024], line[4096], path[2048];
    snprintf(train, sizeof train, "%s", dt_temp_path("train"));
    snprintf(folder, sizeof folder, "%s", dt_temp_path("best"));
    learn_colours(train, folder);
    for (size_t i = 0; i < DT_COUNT(by); i++) {
        snprintf(line, sizeof line,
            "%s/config.ini --set checkpoint.best=%s --set checkpoint.every=0 --set "
            "run.overwrite=on",
            folder, by[i]);
        ran r = cli_run(line, NULL);
        assert_code(&r, 0);
        const char *told = strstr(r.out, "\nbest      ");
        assert_non_null(told);
        assert_has(told, i == 0 ? "best      loss 0." : "best      top-1 100.00 % after step ");
        const char *name = strstr(told, ": checkpoints/step-");
        assert_non_null(name);
        snprintf(path, sizeof path, "%s/%.*s", folder, (int)strcspn(name + 2, "\n"), name + 2);
        cli_done(&r);
        r = cli_run("eval FILE", path);
        assert_code(&r, 0);
        assert_has(r.out, "top-1     100.00 %");
        cli_done(&r);
    }
}

/* The folder of a run is enough to ask it. */
static void pictures_are_classified_by_the_run_that_learned(void **state)
{
    NEED_BINARY();
    char folder[1024], train[1024], line[4096];
    snprintf(train, sizeof train, "%s", dt_temp_path("train"));
    snprintf(folder, sizeof folder, "%s", dt_temp_path("colours"));
    learn_colours(train, folder);
    ran r = cli_run("eval FILE", folder);
    assert_code(&r, 0);
    assert_has(r.out, "top-1     100.00 %");
    cli_done(&r);
    snprintf(line, sizeof line, "classify FILE %s/red/1.png %s/blue/6.png", train, train);
    r = cli_run(line, folder);
    assert_code(&r, 0);
    assert_has(r.out, "/red/1.png");
    assert_has(strstr(r.out, "/red/1.png"), " red ");
    assert_has(strstr(r.out, "/blue/6.png"), " blue ");
    assert_true(strstr(r.out, " red ") < strstr(r.out, "/blue/6.png"));
    cli_done(&r);
    strncat(line, " --json", sizeof line - strlen(line) - 1);
    r = cli_run(line, folder);
    assert_code(&r, 0);
    cJSON *o = json_of(r.out, strlen(r.out));
    assert_int_equal(cJSON_GetArraySize(o), 2);
    const cJSON *first = cJSON_GetArrayItem(
        cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(o, 1), "classes"), 0);
    assert_string_equal(json_text(first, "name"), "blue");
    assert_true(json_number(first, "share") > 0.5 && json_number(first, "class") < 0.5);
    cJSON_Delete(o);
    cli_done(&r);
}

/* Of pictures that are moved away, or of which there are other folders now. */
static void a_run_keeps_the_names_of_its_classes(void **state)
{
    NEED_BINARY();
    char folder[1024], train[1024], moved[1024], names[1100], line[4096];
    snprintf(train, sizeof train, "%s", dt_temp_path("train"));
    snprintf(moved, sizeof moved, "%s", dt_temp_path("moved"));
    snprintf(folder, sizeof folder, "%s", dt_temp_path("colours"));
    snprintf(names, sizeof names, "%s/classes.txt", folder);
    char *text;
    size_t n;
    dt_err err = {0};
    assert_ok(dt_read_file(&text, &n, names, 64, DT_E_DATA, &err), &err);
    assert_string_equal(text, "blue\nred\n");
    dt_free(text);
    assert_int_equal(rename(train, moved), 0);
    snprintf(line, sizeof line, "classify FILE %s/red/1.png", moved);
    ran r = cli_run(line, folder);
    assert_code(&r, 0);
    assert_has(r.out, "   red ");
    assert_has_not(r.out, "class ");
    cli_done(&r);
    put_file(names, "azure\nblood\nsky\n", 16);
    r = cli_run(line, folder);
    assert_code(&r, DT_E_DATA);
    assert_has(r.err, "colours/classes.txt:3: a line more than the network has classes, 2");
    assert_has(r.err, "remove that file to have classes called by");
    cli_done(&r);
    assert_int_equal(remove(names), 0);
    r = cli_run(line, folder);
    assert_code(&r, 0);
    assert_has(r.out, "class 1");
    cli_done(&r);
    assert_int_equal(rename(moved, train), 0);
}

/* A folder that is called otherwise stands elsewhere in their order, so labels mean other classes.
 */
static void classes_that_are_others_now_are_refused(void **state)
{
    NEED_BINARY();
    static const char told[] =
        "class 0 is called 'red' in the data, and 'blue' in the run's classes.txt";
    static const char *const parts[] = {"train", "held"};
    char train[1024], folder[1024], line[4096], from[2048], to[2048];
    snprintf(train, sizeof train, "%s", dt_temp_path("train"));
    snprintf(folder, sizeof folder, "%s", dt_temp_path("renamed"));
    learn_colours(train, folder);
    for (int back = 0; back < 2; back++) {
        for (size_t i = 0; i < DT_COUNT(parts); i++) {
            snprintf(from, sizeof from, "%s/blue", dt_temp_path(parts[i]));
            snprintf(to, sizeof to, "%s/sea", dt_temp_path(parts[i]));
            assert_int_equal(back ? rename(to, from) : rename(from, to), 0);
        }
        ran r = cli_run("eval FILE", folder);
        assert_code(&r, back ? 0 : DT_E_DATA);
        (back ? assert_has_not : assert_has)(r.err, told);
        cli_done(&r);
        snprintf(line, sizeof line, "%s --resume --set train.epochs=9", folder);
        r = cli_run(line, NULL);
        assert_code(&r, back ? 0 : DT_E_DATA);
        (back ? assert_has_not : assert_has)(r.err, told);
        cli_done(&r);
        for (int anew = 0; anew < 2; anew++) { /* from its weights, with its head or another */
            snprintf(line, sizeof line,
                "%s/config.ini --set model.weights=%s/checkpoints/model.safetensors --set "
                "run.dir=%s%s",
                folder, folder, dt_temp_path("tuned"), anew ? " --set model.fresh=f.*" : "");
            r = cli_run(line, NULL);
            assert_code(&r, back || anew ? 0 : DT_E_DATA);
            (back || anew ? assert_has_not : assert_has)(r.err, told);
            (back || anew ? assert_has_not : assert_has)(r.err, "or begin with another head: mod");
            cli_done(&r);
        }
    }
}

/* The run keeps its vocabulary: a text that changed would give every token another number. */
static void text_is_written_by_the_vocabulary_that_was_learned(void **state)
{
    NEED_BINARY();
    static const char *const texts[] = {"abab", "abab", "!aba"};
    static const char write[] = "eval FILE --generate 6 --prompt a --temperature 0";
    char text[1024], folder[1024], ini[4096], line[4096], content[801] = "", *wrote = NULL;
    snprintf(text, sizeof text, "%s", dt_temp_path("changes.txt"));
    snprintf(folder, sizeof folder, "%s", dt_temp_path("text_run"));
    snprintf(ini, sizeof ini,
        "[model]\nname = gpt2\nlayers = 1\nheads = 1\nwidth = 8\ncontext = 8\nvocab = 4\n"
        "[data]\nsource = text\npath = %s\n[train]\nbatch = 8\nsteps = 4\neval_every = 0\n"
        "[device]\nthreads = 1\n[run]\ndir = %s\n",
        text, folder);
    for (size_t i = 0; i < DT_COUNT(texts); i++) {
        for (size_t k = 0; k < 200; k++)
            memcpy(content + 4 * k, texts[i], 4);
        put_file(text, content, 800);
        ran r = i == 0 ? cli_run("FILE", cli_file("text.ini", ini)) : cli_run(write, folder);
        assert_code(&r, 0);
        if (i == 1) {
            wrote = strdup(r.out);
            assert_non_null(wrote);
        }
        if (i == 2)
            assert_string_equal(r.out, wrote);
        cli_done(&r);
    }
    snprintf(line, sizeof line, "FILE --set model.vocab=257 --set run.dir=%s",
        dt_temp_path("large_vocabulary"));
    ran large = cli_run(line, cli_file("text.ini", ini));
    assert_code(&large, 0);
    assert_has(
        large.err, "a vocabulary of 257, and a text no more than 256 different bytes: model");
    cli_done(&large);
    snprintf(line, sizeof line, "%s --resume --set train.steps=5", folder);
    const char *const refused[] = {"eval FILE", "eval FILE --generate 6", line};
    for (size_t i = 0; i < DT_COUNT(refused); i++) {
        ran r = cli_run(refused[i], folder);
        assert_code(&r, DT_E_DATA);
        assert_has(r.err, "class 0 is called '!' in the data, and 'a' in the run's classes.txt");
        cli_done(&r);
    }
    assert_int_equal(remove(text), 0);
    snprintf(line, sizeof line, "%s --set model.weights=%s/checkpoints/model.safetensors", write,
        folder);
    const char *const asked[] = {folder, cli_file("text.ini", ini)};
    for (size_t i = 0; i < DT_COUNT(asked); i++) { /* the run, and its weights by another file */
        ran r = cli_run(line, asked[i]);
        assert_code(&r, 0);
        assert_string_equal(r.out, wrote);
        cli_done(&r);
    }
    free(wrote);
}

/* Of the run before: its tokens are others in a text of other bytes. */
static void weights_are_taken_with_their_vocabulary(void **state)
{
    NEED_BINARY();
    static const struct {
        const char *text, *more, *told; /* NULL: it is taken */
        bool vocab;                     /* with that of the run */
    } all[] = {
        {"abab", "", NULL, false},
        {"bbbb", "", "class 0 is called 'b' in the data, and 'a' in the run's classes.txt: the te",
            false},
        {"bbbb", " --set model.fresh=wte.*", NULL, false},
        {"bbbb", " --set model.fresh=ln_f.*", "set data.vocab to that classes.txt", false},
        {"bbbb", "", NULL, true},
        {"!aba", "", "offset 0: byte 0x21 does not occur in", true},
    };
    char folder[1024], ini[4096], line[4096], vocab[2048];
    snprintf(folder, sizeof folder, "%s", dt_temp_path("text_run"));
    snprintf(vocab, sizeof vocab, " --set data.vocab=%s/classes.txt", folder);
    snprintf(ini, sizeof ini, "%s/config.ini", folder);
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        char content[800];
        for (size_t k = 0; k < 200; k++)
            memcpy(content + 4 * k, all[i].text, 4);
        put_file(dt_temp_path("another.txt"), content, sizeof content);
        for (int eval = 0; eval < 2; eval++) {
            snprintf(line, sizeof line,
                "%s FILE --set data.path=%s --set model.weights=%s/checkpoints/%s --set "
                "run.overwrite=on --set run.dir=%s%s%s",
                eval ? "eval" : "", dt_temp_path("another.txt"), folder, "model.safetensors",
                dt_temp_path("text_again"), all[i].more, all[i].vocab ? vocab : "");
            ran r = cli_run(line, ini);
            assert_code(&r, all[i].told == NULL ? 0 : DT_E_DATA);
            if (all[i].told != NULL)
                assert_has(r.err, all[i].told);
            if (all[i].told != NULL && all[i].vocab)
                assert_has(r.err, "--set: [data] vocab = ");
            cli_done(&r);
        }
    }
}

/* Of the run before, whose folder may go away then. */
static void a_run_needs_no_vocabulary_but_its_own(void **state)
{
    NEED_BINARY();
    static const char *const all[] = {
        "eval FILE", "eval FILE --generate 6", "FILE --resume --set train.steps=5"};
    char folder[1024], ini[2048], lent[1024], text[1024], line[8192];
    snprintf(ini, sizeof ini, "%s/config.ini", dt_temp_path("text_run"));
    snprintf(folder, sizeof folder, "%s", dt_temp_path("borrower"));
    snprintf(lent, sizeof lent, "%s", dt_temp_path("lent.txt"));
    snprintf(text, sizeof text, "%s", dt_temp_path("borrowed.txt"));
    char content[800];
    memset(content, 'b', sizeof content);
    put_file(text, content, sizeof content);
    put_file(lent, "a\nb\n\n\n", 6);
    snprintf(line, sizeof line, "FILE --set data.path=%s --set data.vocab=%s --set run.dir=%s",
        text, lent, folder);
    ran r = cli_run(line, ini);
    assert_code(&r, 0);
    cli_done(&r);
    assert_int_equal(remove(lent), 0);
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        r = cli_run(all[i], folder);
        assert_code(&r, 0);
        cli_done(&r);
    }
    snprintf(line, sizeof line, "%s/classes.txt", folder);
    assert_int_equal(remove(line), 0);
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        r = cli_run(all[i], folder);
        assert_code(&r, DT_E_DATA);
        assert_has(r.err, "lent.txt: cannot open");
        assert_has(r.err, "/config.ini:");
        assert_has(r.err, ": [data] vocab = ");
        cli_done(&r);
    }
}

static void what_cannot_be_classified_is_told(void **state)
{
    NEED_BINARY();
    char folder[1024], train[1024], line[4096];
    snprintf(train, sizeof train, "%s", dt_temp_path("train"));
    snprintf(folder, sizeof folder, "%s", dt_temp_path("colours"));
    const struct {
        const char *words, *says;
        int code;
    } wrong[] = {{"classify FILE", "name a RUN and a PICTURE", DT_E_CONFIG},
        {"classify FILE nothing.png", "nothing.png: cannot open", DT_E_DATA},
        {"classify FILE /dev/null", "/dev/null: not a regular file", DT_E_DATA},
        {"classify FILE x.png --set data.source=synthetic",
            "--set: [data] source = synthetic: this network learned from pictures that are made "
            "up; "
            "classify wants a run with data.source = images",
            DT_E_CONFIG},
        {"classify FILE x.png --set data.source=cifar10",
            "this network learned from what is no file of a picture; classify wants", DT_E_CONFIG},
        {"classify FILE/config.ini x.png", "no weights to classify with", DT_E_CONFIG}};
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        const char *end = strstr(wrong[i].words, "FILE") + 4;
        snprintf(line, sizeof line, "classify %s%s", folder, end);
        ran r = cli_run(line, NULL);
        assert_code(&r, wrong[i].code);
        assert_has(r.err, wrong[i].says);
        assert_string_equal(r.out, "");
        cli_done(&r);
    }
    char moved[1024];
    snprintf(moved, sizeof moved, "%s", dt_temp_path("moved.safetensors"));
    snprintf(line, sizeof line, "%s/checkpoints/model.safetensors", folder);
    assert_int_equal(rename(line, moved), 0);
    snprintf(line, sizeof line, "classify %s/checkpoints x.png", folder);
    ran r = cli_run(line, NULL);
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "is of the run ");
    cli_done(&r);
    /* Weights that are named are enough. */
    snprintf(
        line, sizeof line, "classify %s %s/red/1.png --set model.weights=%s", folder, train, moved);
    r = cli_run(line, NULL);
    assert_code(&r, 0);
    assert_has(r.out, " red ");
    cli_done(&r);
    snprintf(line, sizeof line, "eval %s --set model.weights=%s", folder, moved);
    r = cli_run(line, NULL);
    assert_code(&r, 0);
    assert_has(r.out, "top-1     100.00 %");
    cli_done(&r);
    r = cli_run("classify FILE x.png --set model.weights=y.safetensors",
        cli_file(
            "g.ini", "[model]\nname = gpt2\nlayers = 1\ncontext = 16\n[data]\nsource = text\n"));
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "'gpt2' takes no pictures with a class each");
    cli_done(&r);
    r = cli_run("classify FILE x.png --set model.weights=y.safetensors",
        cli_file("four.ini", "[model]\nimage = 8\nchannels = 4\n[conv c]\nout = 2\nkernel = 1\n"));
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "takes 4 channels, and pictures have 1 or 3; `dnntrain eval RUN --outputs");
    cli_done(&r);
}

/* What such a run lacks is the weights of its end. */
static void a_run_that_was_cut_short_is_asked_by_its_newest_checkpoint(void **state)
{
    NEED_BINARY();
    char train[1024], folder[1024], line[4096], path[2048];
    snprintf(train, sizeof train, "%s", dt_temp_path("train"));
    snprintf(folder, sizeof folder, "%s", dt_temp_path("short"));
    learn_colours(train, folder);
    snprintf(path, sizeof path, "%s/checkpoints/model.safetensors", folder);
    assert_int_equal(remove(path), 0);
    ran r = cli_run("eval FILE", folder);
    assert_code(&r, 0);
    assert_has(r.err, "short' has not come to its end: these are the weights of its checkpoint");
    assert_has(r.out, "/short/checkpoints/step-00000016/model.safetensors\n");
    assert_has(r.out, "top-1     100.00 %");
    cli_done(&r);
    snprintf(path, sizeof path, "%s/checkpoints/step-00000016/model.safetensors", folder);
    put_file(path, "x", 1);
    snprintf(line, sizeof line, "classify FILE %s/red/1.png", train);
    r = cli_run(line, folder);
    assert_code(&r, 0);
    assert_has(r.err, "passed over ");
    assert_has(r.err, "/short/checkpoints/step-00000012'");
    assert_has(r.out, " red ");
    cli_done(&r);
    snprintf(path, sizeof path, "%s/checkpoints", folder);
    assert_int_equal(rename(path, dt_temp_path("gone")), 0);
    r = cli_run("eval FILE", folder);
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "has left no weights");
    cli_done(&r);
}

/* Files of a run's folder that its end writes. */
static const char *const of_the_end[] = {"summary.json", "checkpoints/model.safetensors"};

static void move_end(const char *folder, const char *aside, bool back)
{
    char there[2048], here[2048];
    for (size_t i = 0; i < DT_COUNT(of_the_end); i++) {
        snprintf(there, sizeof there, "%s/%s", folder, of_the_end[i]);
        snprintf(here, sizeof here, "%s.%zu", aside, i);
        assert_int_equal(back ? rename(here, there) : rename(there, here), 0);
    }
}

/* What a run that went on and was killed leaves: the end before, and checkpoints behind it. */
static void a_run_that_went_on_and_was_cut_short_is_asked_by_its_newest_weights(void **state)
{
    NEED_BINARY();
    char train[1024], folder[1024], aside[1024], line[4096], path[2048];
    snprintf(train, sizeof train, "%s", dt_temp_path("train"));
    snprintf(folder, sizeof folder, "%s", dt_temp_path("further"));
    snprintf(aside, sizeof aside, "%s", dt_temp_path("end"));
    learn_colours(train, folder);
    ran r = cli_run("eval FILE", folder);
    assert_code(&r, 0);
    assert_string_equal(r.err, "");
    assert_has(r.out, "/further/checkpoints/model.safetensors\n          after step 16\n");
    cli_done(&r);
    move_end(folder, aside, false);
    snprintf(line, sizeof line, "%s --resume --set train.epochs=11", folder);
    r = cli_run(line, NULL);
    assert_code(&r, 0);
    cli_done(&r);
    move_end(folder, aside, true);
    r = cli_run("eval FILE", folder);
    assert_code(&r, 0);
    assert_has(r.err, "went on from its end after step 16 and was cut short");
    assert_has(r.out, "/checkpoints/step-00000022/model.safetensors\n          after step 22\n");
    cli_done(&r);
    /* The newest that is whole counts, and the end where no other is further. */
    snprintf(path, sizeof path, "%s/checkpoints/step-00000022/model.safetensors", folder);
    put_file(path, "x", 1);
    r = cli_run("eval FILE --json", folder);
    assert_code(&r, 0);
    assert_has(r.err, "passed over ");
    assert_has(r.out, "/checkpoints/step-00000020/model.safetensors\"");
    assert_has(r.out, "\"step\":\t20");
    cli_done(&r);
}

/* A run that went on from before its end has given that end up, also where it is cut short: trained
 * in this process, which leaves it without an end. */
static void an_end_that_was_given_up_is_not_asked(void **state)
{
    NEED_BINARY();
    char train[1024], folder[1024], path[2048], set[2100];
    dt_run *run = NULL;
    dt_err err = {0};
    snprintf(train, sizeof train, "%s", dt_temp_path("train"));
    snprintf(folder, sizeof folder, "%s", dt_temp_path("given_up"));
    learn_colours(train, folder);
    snprintf(set, sizeof set, "checkpoint.resume=%s/checkpoints/step-00000012", folder);
    snprintf(path, sizeof path, "%s/config.ini", folder);
    const char *const sets[] = {set};
    assert_ok(dt_run_open(&run, path, sets, 1, &err), &err);
    assert_ok(dt_run_begin(run, NULL, &err), &err);
    assert_ok(dt_run_train(run, 13, &err), &err);
    assert_ok(dt_run_save(run, &err), &err);
    dt_run_close(run);
    ran r = cli_run("eval FILE", folder);
    assert_code(&r, 0);
    assert_has(r.err, "has not come to its end: these are the weights of its checkpoint");
    assert_has(r.out, "/checkpoints/step-00000013/model.safetensors\n          after step 13\n");
    cli_done(&r);
    snprintf(path, sizeof path, "%s/checkpoints/aside-model.safetensors", folder);
    assert_int_equal(access(path, F_OK), 0);
}

static void be_quiet(void)
{
    const int nothing = open("/dev/null", O_WRONLY);
    (void)dup2(nothing, 1);
    (void)dup2(nothing, 2);
}

/* One that keeps a single checkpoint, and removes it behind each step. */
static void a_run_is_asked_while_it_trains(void **state)
{
    NEED_BINARY();
    char folder[1024], line[2048];
    struct stat st;
    int64_t steps = 0;
    snprintf(folder, sizeof folder, "%s", dt_temp_path("busy"));
    snprintf(line, sizeof line,
        "FILE --set run.dir=%s --set train.epochs=1000000 --set checkpoint.every=1 --set "
        "checkpoint.keep_last=1",
        folder);
    cli.child = be_quiet;
    const pid_t child = cli_start(line, config);
    cli.child = NULL;
    snprintf(line, sizeof line, "%s/checkpoints/step-00000002", folder);
    for (int i = 0; i < 3000 && stat(line, &st) != 0; i++)
        (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    for (int i = 0; i < 12; i++) {
        ran r = cli_run("eval FILE --json", folder);
        assert_code(&r, 0);
        cJSON *o = json_of(r.out, strlen(r.out));
        assert_true((int64_t)json_number(o, "step") >= steps);
        steps = (int64_t)json_number(o, "step");
        cJSON_Delete(o);
        cli_done(&r);
    }
    assert_int_equal(kill(child, SIGTERM), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(steps > 2);
}

/* As --resume takes it; the names of classes are those of its run. */
static void the_folder_of_a_checkpoint_has_its_weights(void **state)
{
    NEED_BINARY();
    char train[1024], folder[1024], line[4096], path[2048];
    snprintf(train, sizeof train, "%s", dt_temp_path("train"));
    snprintf(folder, sizeof folder, "%s", dt_temp_path("several"));
    learn_colours(train, folder);
    snprintf(path, sizeof path, "%s/checkpoints/step-00000012", folder);
    ran r = cli_run("eval FILE", path);
    assert_code(&r, 0);
    assert_string_equal(r.err, "");
    assert_has(r.out, "/several/checkpoints/step-00000012/model.safetensors\n");
    cli_done(&r);
    snprintf(line, sizeof line, "classify FILE %s/red/1.png", train);
    r = cli_run(line, path);
    assert_code(&r, 0);
    assert_has(r.out, " red ");
    assert_has_not(r.out, "class ");
    cli_done(&r);
    snprintf(line, sizeof line, "%s/model.safetensors", path);
    put_file(line, "x", 1);
    r = cli_run("eval FILE", path);
    assert_code(&r, DT_E_DATA);
    assert_has(r.err, "was written with ");
    cli_done(&r);
}

/* A run that holds a part of its own data out, and every evaluation of it, take the same part. */
static void a_share_of_the_data_is_held_out(void **state)
{
    NEED_BINARY();
    char ini[4096], train[1024], folder[1024];
    put_colours("shared");
    snprintf(train, sizeof train, "%s", dt_temp_path("shared"));
    snprintf(folder, sizeof folder, "%s", dt_temp_path("shares"));
    snprintf(ini, sizeof ini,
        "[model]\nimage = 8\nclasses = 2\n[fc f]\nout = 2\n[data]\nsource = images\npath = %s\n"
        "eval_share = 0.25\n[train]\nbatch = 3\nepochs = 8\nlr = 0.05\n[device]\nthreads = 1\n"
        "[run]\ndir = %s\noverwrite = on\n",
        train, folder);
    ran r = cli_run("FILE", cli_file("shares.ini", ini));
    assert_code(&r, 0);
    assert_has(r.err, "8 pictures in 2 class folders, 0 other files ignored; 6 samples of them to");
    assert_has(r.err, "8 pictures in 2 class folders, 0 other files ignored; 2 samples of them he");
    assert_has(r.out, "after 16 of 16 steps");
    cli_done(&r);
    cJSON *o = json_file(dt_temp_path("shares/summary.json"));
    const double loss = json_number(o, "eval_loss");
    cJSON_Delete(o);
    r = cli_run("eval FILE --json", folder);
    assert_code(&r, 0);
    o = cJSON_Parse(r.out);
    assert_non_null(o);
    assert_true(fabs(json_number(o, "loss") - loss) < 1e-9);
    assert_int_equal((int)json_number(o, "samples"), 2);
    cJSON_Delete(o);
    cli_done(&r);
    r = cli_run("eval FILE --set data.eval_share=0.5", folder);
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "what is held out is chosen when a run begins");
    cli_done(&r);
    r = cli_run("FILE --resume --set data.eval_share=0.5 --set train.epochs=9", folder);
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "data.eval_share");
    cli_done(&r);
    r = cli_run("FILE --set data.eval_share=0.5 --set train.batch=1 --set model.image=1 --set "
                "data.path=/none",
        cli_file("shares.ini", ini));
    assert_code(&r, DT_E_DATA);
    cli_done(&r);
}

/* With a rate of next to nothing no evaluation is better than the first. */
static void a_run_ends_when_evaluations_get_no_better(void **state)
{
    NEED_BINARY();
    char ini[4096], train[1024], folder[1024], other[1024], line[2048];
    put_colours("others");
    snprintf(other, sizeof other, "%s", dt_temp_path("others"));
    put_colours("tired");
    snprintf(train, sizeof train, "%s", dt_temp_path("tired"));
    snprintf(folder, sizeof folder, "%s", dt_temp_path("ends"));
    snprintf(ini, sizeof ini,
        "[model]\nimage = 8\nclasses = 2\n[fc f]\nout = 2\n[data]\nsource = images\npath = %s\n"
        "eval_path = %s\naugment = off\n[train]\nbatch = 4\nepochs = 100\nlr = 1e-12\n"
        "eval_every = 2\npatience = 3\n[device]\nthreads = 1\n[checkpoint]\nbest = loss\n"
        "[run]\ndir = %s\noverwrite = on\n",
        train, train, folder);
    ran r = cli_run("FILE", cli_file("tired.ini", ini));
    assert_code(&r, 0);
    assert_has(r.err, "patience");
    assert_has(r.err, "the run ends: 3 evaluations were no better than that behind step 4 (loss ");
    assert_has(r.err, "checkpoints/step-00000004");
    assert_has(r.out, "after 16 of 200 steps");
    cli_done(&r);
    r = cli_run("FILE --resume", folder);
    assert_code(&r, 0);
    assert_has(r.err, "the run ends: 3 evaluations");
    assert_has(r.out, "after 16 of 200 steps");
    cli_done(&r);
    r = cli_run("FILE --resume --set train.patience=4", folder);
    assert_code(&r, 0);
    assert_has(r.out, "after 20 of 200 steps");
    cli_done(&r);
    /* one that had no best until now counts from where it goes on */
    r = cli_run("FILE --set train.patience=0 --set checkpoint.best=off --set train.epochs=10",
        cli_file("tired.ini", ini));
    assert_code(&r, 0);
    cli_done(&r);
    r = cli_run("FILE --resume --set train.patience=3 --set checkpoint.best=loss --set "
                "train.epochs=100",
        folder);
    assert_code(&r, 0);
    assert_has(r.err, "the run ends: 3 evaluations were no better than that behind step 24 (loss ");
    assert_has(r.out, "after 36 of 200 steps");
    cli_done(&r);
    /* evaluations count, however far they lie from one another */
    r = cli_run("FILE --set train.epochs=6", cli_file("tired.ini", ini));
    assert_code(&r, 0);
    assert_has(r.out, "after 12 of 12 steps");
    cli_done(&r);
    r = cli_run("FILE --resume --set train.epochs=100 --set train.eval_every=1", folder);
    assert_code(&r, 0);
    assert_has(r.err, "the run ends: 3 evaluations were no better than that behind step 4 (loss ");
    assert_has(r.out, "after 14 of 200 steps");
    cli_done(&r);
    /* the same data may lie elsewhere; of other data nothing is known */
    snprintf(line, sizeof line, "FILE --resume --set data.eval_path=%s", other);
    r = cli_run(line, folder);
    assert_code(&r, 0);
    assert_has(r.err, "the run ends: 3 evaluations were no better than that behind step 4 (loss ");
    assert_has(r.out, "after 14 of ");
    cli_done(&r);
    put_a_grey_one("others");
    snprintf(
        line, sizeof line, "FILE --resume --set data.eval_path=%s --set train.eval_every=1", other);
    r = cli_run(line, folder);
    assert_code(&r, 0);
    assert_has(r.err, "what is held out is other data now");
    assert_has(r.err, "the run ends: 3 evaluations were no better than that behind step 16 (loss ");
    assert_has(r.out, "after 22 of 200 steps");
    cli_done(&r);
    r = cli_run("profile FILE --density --steps 2", cli_file("tired.ini", ini));
    assert_code(&r, 0);
    cli_done(&r);
    r = cli_run("sweep FILE --verify --policies keep_all --set memory.device_budget=100KiB",
        cli_file("tired.ini", ini));
    assert_code(&r, 0);
    cli_done(&r);
    static const char *const wrong[][2] = {
        {"--set checkpoint.best=off", "patience needs checkpoint.best = loss or top1"},
        {"--set train.eval_every=0", "patience counts evaluations"}};
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        char words[256];
        snprintf(words, sizeof words, "FILE %s", wrong[i][0]);
        r = cli_run(words, cli_file("tired.ini", ini));
        assert_code(&r, DT_E_CONFIG);
        assert_has(r.err, wrong[i][1]);
        cli_done(&r);
    }
}

/* Then there is no best for the others to be no better than. */
static void evaluations_that_are_no_numbers_end_no_run(void **state)
{
    NEED_BINARY();
    char file[1024], dir[1024], line[4096];
    pixel_config(file, dir);
    snprintf(line, sizeof line,
        "FILE --set train.steps=8 --set train.eval_every=1 --set train.patience=3 --set "
        "checkpoint.best=loss --set data.eval_path=%s",
        pixel_file("no_number.safetensors", NAN));
    ran r = cli_run(line, file);
    assert_code(&r, 0);
    assert_has_not(r.err, "the run ends");
    assert_has(r.out, "after 8 of 8 steps");
    cli_done(&r);
}

DT_TEST_GROUP(eval)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_finds_what_training_found_at_its_end),
        cmocka_unit_test(people_get_a_table),
        cmocka_unit_test(without_weights_it_refuses),
        cmocka_unit_test(files_of_a_run_are_not_written_over),
        cmocka_unit_test(words_that_stand_for_no_run_are_refused),
        cmocka_unit_test(wrong_weights_are_refused),
        cmocka_unit_test(a_text_learned_by_heart_is_written),
        cmocka_unit_test(the_prompt_is_held_out_text_unless_given),
        cmocka_unit_test(a_seed_decides_what_is_drawn),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(data_without_a_held_out_part_is_refused),
        cmocka_unit_test(pixels_have_a_mean_intersection_over_union),
        cmocka_unit_test(masks_have_the_class_of_each_pixel),
        cmocka_unit_test(masks_that_cannot_be_are_refused),
        cmocka_unit_test(rows_of_a_table_are_learned_as_pixels_of_many_channels),
        cmocka_unit_test(with_nothing_left_to_do_a_run_keeps_its_scores),
        cmocka_unit_test(means_of_tensors_are_for_pictures_that_are_classified),
        cmocka_unit_test(without_its_data_nothing_is_evaluated),
        cmocka_unit_test(pictures_are_evaluated_too),
        cmocka_unit_test(pictures_are_classified_by_the_run_that_learned),
        cmocka_unit_test(the_best_evaluation_is_told_with_its_checkpoint),
        cmocka_unit_test(a_share_of_the_data_is_held_out),
        cmocka_unit_test(a_run_ends_when_evaluations_get_no_better),
        cmocka_unit_test(evaluations_that_are_no_numbers_end_no_run),
        cmocka_unit_test(a_run_keeps_the_names_of_its_classes),
        cmocka_unit_test(classes_that_are_others_now_are_refused),
        cmocka_unit_test(text_is_written_by_the_vocabulary_that_was_learned),
        cmocka_unit_test(weights_are_taken_with_their_vocabulary),
        cmocka_unit_test(a_run_needs_no_vocabulary_but_its_own),
        cmocka_unit_test(what_cannot_be_classified_is_told),
        cmocka_unit_test(a_run_that_was_cut_short_is_asked_by_its_newest_checkpoint),
        cmocka_unit_test(a_run_that_went_on_and_was_cut_short_is_asked_by_its_newest_weights),
        cmocka_unit_test(an_end_that_was_given_up_is_not_asked),
        cmocka_unit_test(a_run_is_asked_while_it_trains),
        cmocka_unit_test(the_folder_of_a_checkpoint_has_its_weights),
    };
    return cmocka_run_group_tests(tests, train_it, NULL);
}
