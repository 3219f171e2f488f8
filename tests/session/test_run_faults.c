/* What goes wrong while a run is going, and odd but good data: the exit code, the message, and that
 * the weights of the last whole step are kept. Numbers are those of docs/faults.md. */
#include "tests/fixture/json_read.h"
#include "tests/fixture/run_cli.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/driver.h"
#include "engine/base/io.h"
#include "engine/checkpoint/safetensors.h"
#include "tests/fixture/data_files.h"
#include "tests/fixture/workspace.h"
#include "tools/tools.h"

#define TINY                                                                                       \
    "[model]\nimage = 4\nclasses = 2\n[fc f]\nout = 2\n[data]\nsource = images\npath = set\n"      \
    "[train]\nbatch = 4\nsteps = 3\n[run]\ndir = out\n"

/* The summary's status and exit code; its error, when there is one, is a text. */
static void check_summary(int code)
{
    cJSON *o = json_file(in_workspace("out/summary.json"));
    assert_string_equal(json_text(o, "status"), code == 0 ? "done" : "failed");
    assert_int_equal((int)json_number(o, "exit_code"), code);
    if (code != 0)
        (void)json_text(o, "error");
    cJSON_Delete(o);
}

/* All weights a run has left, one after the other; every one is finite. */
static size_t saved_weights(float *to, size_t room)
{
    dt_st_file *f = NULL;
    dt_err err = {0};
    size_t n = 0;
    assert_ok(dt_st_open(&f, in_workspace("out/checkpoints/model.safetensors"), &err), &err);
    for (size_t i = 0; i < dti_st_count(f); i++) {
        const dt_st_entry *e = dti_st_at(f, i);
        const size_t count = e->bytes / sizeof *to;
        assert_true(n + count <= room);
        assert_ok(dt_st_read(f, e, 0, to + n, e->bytes, &err), &err);
        n += count;
    }
    dt_st_close(f);
    for (size_t i = 0; i < n; i++)
        assert_true(isfinite(to[i]));
    return n;
}

static int lines_of(const char *below)
{
    int n = 0;
    char *text = cli_text(in_workspace(below));
    for (const char *s = text; (s = strchr(s, '\n')) != NULL; s++)
        n++;
    dt_free(text);
    return n;
}

/* A run that starts, then ends with @code. It leaves a summary, metrics and finite weights, which
 * are then removed; nothing else has changed. */
typedef struct course {
    const char *ini, *words;
    int code, steps;
    const char *want[3];
} course;

static void run_course(const course *c)
{
    char words[1024];
    float w[4096];
    put_text("c.ini", c->ini != NULL ? c->ini : TINY);
    char *before = snapshot("");
    snprintf(words, sizeof words, "c.ini %s", c->words != NULL ? c->words : "");
    ran r = cli_run(words, NULL);
    assert_code(&r, c->code);
    for (size_t i = 0; i < DT_COUNT(c->want) && c->want[i] != NULL; i++)
        assert_has(r.err, c->want[i]);
    check_summary(c->code);
    assert_true(saved_weights(w, DT_COUNT(w)) > 0);
    if (c->steps >= 0)
        assert_int_equal(lines_of("out/metrics.jsonl"), c->steps);
    char *metrics = cli_text(in_workspace("out/metrics.jsonl"));
    assert_has_not(metrics, "nan");
    assert_has_not(metrics, "inf");
    dt_free(metrics);
    cli_done(&r);
    remove_all("out");
    assert_unchanged(before, "");
}

/* --- pictures --- */

static void put_blob(const char *below, blob b)
{
    put_file(in_workspace(below), b.p, b.n);
    blob_free(&b);
}

static void put_picture(const char *below)
{
    const uint8_t px[4 * 4 * 3] = {200, 100, 50, 7};
    put_blob(below, make_rgb_png(px, 4, 4));
}

/* Eight good pictures in two classes. */
static void put_pictures(const char *folder)
{
    char path[256];
    remove_all(folder);
    for (int i = 0; i < 8; i++) {
        snprintf(path, sizeof path, "%s/%c/%d.png", folder, 'a' + i % 2, i);
        put_picture(path);
    }
}

static blob png_of(png_opts o, size_t row_bytes)
{
    uint8_t rows[64] = {0};
    const uint8_t plte[6] = {10, 20, 30, 200, 100, 50};
    assert_true(o.h * (1 + row_bytes) <= sizeof rows);
    if (o.kind == 3) {
        o.plte = plte;
        o.plte_n = sizeof plte;
    }
    return make_png(&o, rows, o.h * (1 + row_bytes));
}

static void damaged_pictures_end_the_run(void **state) /* case 21 */
{
    NEED_BINARY();
    put_pictures("set");
    const uint8_t px[8 * 8 * 3] = {9};
    blob b = make_jpeg(px, 8, 8);
    b.n /= 2;
    put_blob("set/a/cut.jpg", b);
    run_course(&(course){NULL, "--set train.epochs=1 --set train.steps=0", DT_E_DATA, -1,
        {"/w/set/a/cut.jpg: ", "dnntrain: step ", "data.on_error = skip leaves out bad samples"}});
    remove_all("set/a/cut.jpg");
    b = make_rgb_png(px, 8, 8);
    b.p[b.n / 2] ^= 0x55;
    put_blob("set/b/bits.png", b);
    run_course(&(course){
        NULL, "--set train.epochs=1 --set train.steps=0", DT_E_DATA, -1, {"/w/set/b/bits.png: "}});
}

/* Of made-up pictures there are as many classes as samples are enough for; see test_mistakes. */
static void classes_that_do_not_occur_are_told(void **state)
{
    NEED_BINARY();
    put_pictures("set");
    run_course(&(course){
        "[model]\nimage = 4\nclasses = 3\n[fc f]\nout = 3\n[data]\nsource = images\npath = set\n"
        "[train]\nbatch = 4\nsteps = 1\n[run]\ndir = out\n",
        NULL, 0, -1, {"warning   2 classes occur in the data, of 3 that the network tells apart"}});
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (const char *s = text; (s = strstr(s, what)) != NULL; s++)
        n++;
    return n;
}

/* What the network gives for those that can be read, in their order. */
static void assert_outputs_of_ten(const char *run)
{
    float y[10 * 2];
    dt_err err = {0};
    dt_st_file *f;
    ran r = cli_run("eval FILE --outputs y.safetensors", in_workspace(run));
    assert_code(&r, 0);
    assert_has(r.out, "samples   8 in ");
    cli_done(&r);
    assert_ok(dt_st_open(&f, in_workspace("y.safetensors"), &err), &err);
    assert_ok(dt_st_read(f, dt_st_find(f, "y"), 0, y, sizeof y, &err), &err);
    dt_st_close(f);
    int bad = 0;
    for (int i = 0; i < 10; i++) {
        bad += isnan(y[2 * i]);
        assert_true(isnan(y[2 * i]) == isnan(y[2 * i + 1]));
    }
    assert_int_equal(bad, 2);
}

static void skipped_pictures_are_told_once(void **state) /* case 21 */
{
    NEED_BINARY();
    put_pictures("set");
    put_text("set/a/text.png", "no picture");
    put_text("set/b/void.jpg", "");
    put_text("c.ini", TINY);
    ran r =
        cli_run("c.ini --set data.on_error=skip --set train.epochs=5 --set train.steps=0", NULL);
    assert_code(&r, 0);
    assert_int_equal(count(r.err, "skipped "), 2);
    assert_int_equal(count(r.err, "/w/set/a/text.png: "), 1);
    assert_int_equal(count(r.err, "/w/set/b/void.jpg: "), 1);
    cli_done(&r);
    /* Two in each of five epochs; and of what takes their place, which may be bad as well. */
    char *left = cli_text(in_workspace("out/summary.json"));
    assert_has(left, "\"samples_skipped\":\t12,");
    dt_free(left);
    left = cli_text(in_workspace("out/report.html"));
    assert_has(left, "12 times a sample was left out, as it could not be read");
    dt_free(left);
    remove_all("out");
    r = cli_run("c.ini --set data.on_error=skip --set data.eval_path=set --set train.eval_every=1 "
                "--set train.epochs=2 --set train.steps=0",
        NULL);
    assert_code(&r, 0);
    assert_int_equal(count(r.err, "skipped "), 4);
    assert_int_equal(count(r.err, "; the evaluation counts one less"), 2);
    char *told = cli_text(in_workspace("out/metrics.jsonl"));
    assert_int_equal(count(told, "\"split\": \"eval\""), 2);
    assert_int_equal(count(told, "\"samples\": 8,"), 2); /* of ten files, two bad */
    dt_free(told);
    cli_done(&r);
    assert_outputs_of_ten("out");
    r = cli_run("eval out --json", NULL);
    assert_code(&r, 0);
    assert_int_equal(count(r.err, "skipped "), 2);
    assert_int_equal(count(r.err, "/w/set/b/void.jpg: "), 1);
    assert_has(r.out, "\"skipped\":\t2,");
    cli_done(&r);
    remove_all("out");
    run_course(&(course){NULL,
        "--set data.on_error=skip --set data.max_skips=1 --set train.epochs=1 --set train.steps=0",
        DT_E_DATA, -1, {"2 bad samples, at most 1 may be skipped"}});
}

static void bombs_are_refused_by_their_header(void **state) /* cases 22 and 23 */
{
    NEED_BINARY();
    static const struct {
        png_opts o;
        const char *want;
    } cases[] = {
        {{.w = 60000, .h = 1, .bits = 8, .kind = 2}, "60000"},
        {{.w = 16384, .h = 16384, .bits = 8, .kind = 2}, "16384"},
        {{.w = 0, .h = 4, .bits = 8, .kind = 2}, "/w/set/a/bomb.png: "},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        put_pictures("set");
        const uint8_t row[16] = {0};
        put_blob("set/a/bomb.png", make_png(&cases[i].o, row, sizeof row));
        run_course(&(course){NULL, "--set train.epochs=1 --set train.steps=0", DT_E_DATA, -1,
            {"/w/set/a/bomb.png: ", cases[i].want}});
    }
    put_pictures("set");
    blob b = make_flat_jpeg((int[]){90}, 1, 0);
    b.n -= 2; /* the end marker */
    for (int i = 0; i < 1000; i++)
        blob_put(&b, "\xFF\xDA\0\x08\x01\x01\0\0\x3F\0", 10);
    blob_put(&b, "\xFF\xD9", 2);
    put_blob("set/a/bomb.jpg", b);
    run_course(&(course){NULL, "--set train.epochs=1 --set train.steps=0", DT_E_DATA, -1,
        {"/w/set/a/bomb.jpg: a JPEG of 1001 scans, at most 500 are decoded",
            "data.on_error = skip leaves out bad samples"}});
}

static void pictures_of_every_kind_are_taken(void **state) /* case 22 */
{
    NEED_BINARY();
    put_pictures("set");
    put_blob("set/a/grey.png", png_of((png_opts){.w = 4, .h = 4, .bits = 8, .kind = 0}, 4));
    put_blob("set/a/palette.png", png_of((png_opts){.w = 4, .h = 4, .bits = 1, .kind = 3}, 1));
    put_blob("set/a/deep.png", png_of((png_opts){.w = 2, .h = 2, .bits = 16, .kind = 2}, 12));
    put_blob("set/a/alpha.png", png_of((png_opts){.w = 2, .h = 2, .bits = 8, .kind = 6}, 8));
    put_blob("set/b/line.png", png_of((png_opts){.w = 1, .h = 30, .bits = 8, .kind = 0}, 1));
    put_blob("set/b/grey.jpg", make_flat_jpeg((int[]){100}, 1, 0));
    put_blob("set/b/cmyk.jpg", make_flat_jpeg((int[]){100, 50, 20, 200}, 4, 1));
    run_course(&(course){
        NULL, "--set train.epochs=1 --set train.steps=0", 0, -1, {"15 pictures in 2 class"}});
}

/* --- names --- */

static void odd_names_are_taken_and_shown_escaped(void **state) /* case 25 */
{
    NEED_BINARY();
    char path[512], longest[200];
    remove_all("set");
    memset(longest, 'n', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    put_picture("set/new\nline/pict\033[31mure.png");
    put_picture("set/quo\"te/\xFF\xFEno utf8.png");
    put_picture("set/quo\"te/back\\slash.png");
    snprintf(path, sizeof path, "set/quo\"te/%s.png", longest);
    put_picture(path);
    run_course(&(course){NULL, NULL, 0, -1, {"4 pictures in 2 class"}});
    put_text("set/new\nline/b\tad\033[0m\xFF.png", "no picture");
    course c = {NULL, "--set train.epochs=1 --set train.steps=0", DT_E_DATA, -1,
        {"/w/set/new\\nline/b\\tad\\x1B[0m\\xFF.png: "}};
    run_course(&c);
    /* the program's own paths */
    put_text("c.ini", TINY);
    char *before = snapshot("");
    ran r = cli_run("FILE", "no\n\033[0mfile.ini");
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "no\\n\\x1B[0mfile.ini");
    cli_done(&r);
    assert_unchanged(before, "");
}

/* --- data that changes --- */

static void sleep_ms(long ms)
{
    const struct timespec t = {0, ms * 1000000};
    nanosleep(&t, NULL);
}

/* Until a run has done a few steps. */
static void wait_for_steps(void)
{
    struct stat st;
    for (int i = 0; i < 6000; i++) {
        if (stat(in_workspace("out/metrics.jsonl"), &st) == 0 && st.st_size > 500)
            return;
        sleep_ms(5);
    }
    fail_msg("no steps within 30 seconds");
}

static void change_during_a_run(void (*change)(void), const char *want)
{
    float w[4096];
    put_pictures("set");
    put_text("c.ini", TINY);
    const pid_t child = cli_start("c.ini --set train.steps=1000000000", NULL);
    wait_for_steps();
    change();
    ran r = cli_wait(child);
    assert_code(&r, DT_E_DATA);
    assert_has(r.err, want);
    assert_has(r.err, "dnntrain: step ");
    check_summary(DT_E_DATA);
    assert_true(saved_weights(w, DT_COUNT(w)) == 98);
    cli_done(&r);
    remove_all("out");
}

static void remove_one(void)
{
    remove_all("set/a/4.png");
}

/* Renamed into place, so that the run never sees a state in between. */
static void shorten_one(void)
{
    put_text("shorter", "shorter");
    assert_int_equal(rename(in_workspace("shorter"), in_workspace("set/b/3.png")), 0);
}

static void replace_one_by_a_pipe(void)
{
    assert_int_equal(mkfifo(in_workspace("pipe"), 0600), 0);
    assert_int_equal(rename(in_workspace("pipe"), in_workspace("set/a/4.png")), 0);
}

static void data_that_changes_during_the_run(void **state) /* case 24 */
{
    NEED_BINARY();
    char *older = snapshot("older");
    change_during_a_run(remove_one, "/w/set/a/4.png: cannot open: No such file or directory");
    change_during_a_run(shorten_one, "/w/set/b/3.png: changed during the run: it has 7 bytes");
    change_during_a_run(replace_one_by_a_pipe, "/w/set/a/4.png: not a regular file");
    assert_unchanged(older, "older");
}

/* --- numbers --- */

/* A safetensors file of F32 tensors given as name, shape, value of all elements. */
typedef struct constant {
    const char *name, *shape;
    size_t n;
    float value;
} constant;

static void put_weights(const char *below, const constant *c, size_t n)
{
    char header[1024] = "{";
    size_t at = 0, text = 1;
    blob b = {0};
    for (size_t i = 0; i < n; i++) {
        text += (size_t)snprintf(header + text, sizeof header - text,
            "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
            i > 0 ? "," : "", c[i].name, c[i].shape, at, at + 4 * c[i].n);
        at += 4 * c[i].n;
    }
    text += (size_t)snprintf(header + text, sizeof header - text, "}");
    for (int i = 0; i < 8; i++)
        blob_byte(&b, (unsigned)(text >> (8 * i)) & 0xFF);
    blob_put(&b, header, text);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < c[i].n; k++)
            blob_put(&b, &c[i].value, sizeof c[i].value);
    put_blob(below, b);
}

/* The saved weights are those the run began with. */
static void discarded_at_once(const char *ini, const char *want)
{
    static float first[65536], last[65536];
    dt_st_file *f = NULL;
    dt_err err = {0};
    put_text("c.ini", ini);
    ran r = cli_run("c.ini --set model.weights=start.safetensors", NULL);
    assert_code(&r, DT_E_NONFINITE);
    assert_has(r.err, "dnntrain: step 1: ");
    assert_has(r.err, want);
    assert_has(r.err, "the weights are those before it. A lower train.lr often helps");
    check_summary(DT_E_NONFINITE);
    assert_int_equal(lines_of("out/metrics.jsonl"), 0);
    const size_t n = saved_weights(last, DT_COUNT(last));
    assert_ok(dt_st_open(&f, in_workspace("start.safetensors"), &err), &err);
    size_t at = 0;
    for (size_t i = 0; i < dti_st_count(f); i++) {
        const dt_st_entry *e = dti_st_at(f, i);
        assert_ok(dt_st_read(f, e, 0, first + at, e->bytes, &err), &err);
        at += e->bytes / sizeof *first;
    }
    dt_st_close(f);
    assert_int_equal(at, n);
    assert_memory_equal(first, last, n * sizeof *first);
    cli_done(&r);
    remove_all("out");
}

#define SYNTHETIC "[data]\nsamples = 64\n[run]\ndir = out\n[train]\nsteps = 3\nbatch = "

static void a_loss_that_is_not_finite_changes_nothing(void **state) /* case 63 */
{
    NEED_BINARY();
    const constant w[] = {{"f.weight", "2,48", 96, 3e38f}, {"f.bias", "2", 2, 0}};
    put_weights("start.safetensors", w, DT_COUNT(w));
    discarded_at_once("[model]\nimage = 4\nclasses = 2\n[fc f]\nout = 2\n" SYNTHETIC "4\n",
        "of 4 samples is not finite, and the first value that is not was made by layer 'f' (fc), "
        "forward, in 'f.y'; the step is discarded");
}

/* Of many labels a sample, what is counted are those. */
static void losses_that_are_not_finite_are_counted_by_label(void **state) /* case 63 */
{
    NEED_BINARY();
    const constant w[] = {{"c.weight", "3,3,1,1", 9, 3e38f}, {"c.bias", "3", 3, 0}};
    put_weights("start.safetensors", w, DT_COUNT(w));
    discarded_at_once("[model]\nimage = 4\nclasses = 3\n[conv c]\nout = 3\nkernel = 1\n" SYNTHETIC
                      "4\n",
        "of 64 pixels is not finite");
}

/* a is 0, so logits are 0 and the loss is ln 2; b times the loss's gradient, times a pixel, is too
 * much. */
static void a_gradient_that_is_not_finite_changes_nothing(void **state) /* case 63 */
{
    NEED_BINARY();
    const constant w[] = {{"a.weight", "1,48", 48, 0}, {"a.bias", "1", 1, 0},
        {"b.weight", "2,1", 2, 3e38f}, {"b.bias", "2", 2, 0}};
    put_weights("start.safetensors", w, DT_COUNT(w));
    /* of opposite signs, or the two outputs' shares would cancel */
    FILE *f = fopen(in_workspace("start.safetensors"), "r+b");
    assert_non_null(f);
    const float minus = -3e38f;
    assert_int_equal(fseek(f, -12, SEEK_END), 0);
    assert_int_equal(fwrite(&minus, sizeof minus, 1, f), 1);
    assert_int_equal(fclose(f), 0);
    static const char says[] =
        "step 1: the gradient of a.weight is not finite, and the first value that is not was made "
        "by layer 'a' (fc), backward, in 'g.a.weight'; the step is discarded";
    discarded_at_once(
        "[model]\nimage = 4\nclasses = 2\n[fc a]\nout = 1\n[fc b]\nout = 2\n" SYNTHETIC "1\n",
        says);
    discarded_at_once(/* though no update would take it before the next step */
        "[model]\nimage = 4\nclasses = 2\n[fc a]\nout = 1\n[fc b]\nout = 2\n" SYNTHETIC
        "1\n[memory]\npolicy = zero_offload\n[policy.zero_offload]\ndelay = on\n",
        says);
}

/* The variance of what c makes is beyond a float; what bn makes of it is 0. */
static void statistics_that_are_not_finite_change_nothing(void **state) /* case 63 */
{
    NEED_BINARY();
    const constant w[] = {{"c.weight", "1,3,1,1", 3, 1e25f}, {"c.bias", "1", 1, 0},
        {"bn.weight", "1", 1, 1}, {"bn.bias", "1", 1, 0}, {"bn.running_mean", "1", 1, 0},
        {"bn.running_var", "1", 1, 1}, {"f.weight", "2,16", 32, 0}, {"f.bias", "2", 2, 0}};
    put_weights("start.safetensors", w, DT_COUNT(w));
    discarded_at_once("[model]\nimage = 4\nclasses = 2\n[conv c]\nout = 1\nkernel = 1\n"
                      "[batchnorm bn]\n[fc f]\nout = 2\n" SYNTHETIC "4\n",
        "the new value of bn.running_var is not finite");
}

/* Steps are counted from 1 in the message, as in metrics: it names the one behind their last. */
static void a_run_that_diverges_stops_before_its_weights_do(void **state) /* case 63 */
{
    NEED_BINARY();
    static float w[65536];
    put_text("c.ini", "[model]\nname = mlp\nwidth = 4\n[data]\nsamples = 64\n[train]\nlr = 1e6\n"
                      "batch = 16\nsteps = 50\n[run]\ndir = out\n");
    ran r = cli_run("c.ini", NULL);
    assert_code(&r, DT_E_NONFINITE);
    char want[64];
    const int steps = lines_of("out/metrics.jsonl");
    assert_in_range(steps, 1, 49);
    snprintf(want, sizeof want, "dnntrain: step %d: ", steps + 1);
    assert_has(r.err, want);
    char *metrics = cli_text(in_workspace("out/metrics.jsonl"));
    assert_has_not(metrics, "nan");
    assert_has_not(metrics, "inf");
    dt_free(metrics);
    assert_true(saved_weights(w, DT_COUNT(w)) > 1000);
    check_summary(DT_E_NONFINITE);
    cli_done(&r);
    remove_all("out");
}

/* --- memory --- */

static void allow_little(void)
{
    const struct rlimit most = {(rlim_t)600 << 20, (rlim_t)600 << 20};
    if (setrlimit(RLIMIT_AS, &most) != 0)
        _exit(125);
}

static void an_arena_the_machine_refuses(void **state) /* cases 57 and 59 */
{
    NEED_BINARY();
    NEED_LIMITS();
    put_text("c.ini", "[model]\nname = lenet5\nwidth = 512\n[train]\nbatch = 4096\nsteps = 1\n"
                      "[data]\nsamples = 4096\n[run]\ndir = out\n");
    char *before = snapshot("");
    cli.child = allow_little;
    ran r = cli_run("c.ini", NULL);
    cli.child = NULL;
    assert_code(&r, DT_E_BUDGET); /* known before it is asked for: see test_budget */
    assert_has(r.err, "RLIMIT_AS");
    cli_done(&r);
    assert_unchanged(before, ""); /* no run directory either */
    void *self, *base;
    dt_err err = {0};
    assert_ok(dt_cpu_driver.open(0, &self, &err), &err);
    assert_fails(dt_cpu_driver.reserve(self, (size_t)1 << 47, &base, &err), DT_E_NOMEM, &err,
        "reserve 140,737,488,355,328 bytes for the arena: Cannot allocate memory");
    dt_cpu_driver.close(self);
}

/* Train in this process, without a word, the k-th allocation failing; @past if there were fewer.
 * How many there are is another number each time, as the loader decodes ahead. */
static dt_status train_failing_at(const char *ini, long k, bool *past, dt_err *err)
{
    char path[4096];
    snprintf(path, sizeof path, "%s", in_workspace(ini));
    char *arg[] = {path};
    const dti_command_args a = {1, arg};
    const int quiet = open("/dev/null", O_WRONLY), loud = dup(2);
    assert_true(quiet >= 0 && loud >= 0 && dup2(quiet, 2) == 2);
    dti_alloc_fail_at(k);
    const dt_status st = dt_command_train.run(&a, err);
    *past = dti_alloc_fail_at(0) > 0;
    assert_int_equal(dup2(loud, 2), 2);
    close(quiet);
    close(loud);
    return st;
}

/* Allocations of a run fail by turns, each up to where its steps begin, then some of them:
 * DT_E_NOMEM, nothing leaked, and the next run in the same process is none the worse. Only what is
 * decoded ahead and never asked for may fail without harm. */
static void every_allocation_may_fail_in(const char *ini)
{
    enum { EACH = 300 };
    const long later = dt_small_scale() ? 31 : 7;
    const long first = EACH + (long)(dt_test_seed() % (uint64_t)later);
    const long live = dti_alloc_live();
    bool past = false;
    int failed = 0;
    for (long k = 1; !past; k += k < first ? 1 : later) {
        dt_err err = {0};
        const dt_status st = train_failing_at(ini, k, &past, &err);
        remove_all("out");
        if (st != DT_OK && (st != DT_E_NOMEM || err.code != DT_E_NOMEM))
            fail_msg("allocation %ld: '%s': %s", k, dt_status_name(st), err.text);
        if (past)
            assert_int_equal(st, DT_OK);
        if (dti_alloc_live() != live)
            fail_msg("allocation %ld leaks %ld blocks", k, dti_alloc_live() - live);
        failed += st == DT_E_NOMEM;
    }
    assert_true(failed > 150);
}

static int do_not_wait(int fd)
{
    (void)fd;
    return 0;
}

static void every_allocation_of_a_run_may_fail(void **state) /* case 57 */
{
    NEED_BINARY();
    put_pictures("set");
    put_text("mlp.ini", "[model]\nname = mlp\nwidth = 2\nimage = 4\nclasses = 2\n[data]\n"
                        "source = images\npath = set\neval_path = set\n[train]\nbatch = 6\n"
                        "micro_batch = 3\nepochs = 1\n[run]\ndir = out\n");
    put_text("lenet.ini", "[model]\nname = lenet5\nclasses = 2\n[data]\nsource = images\n"
                          "path = set\n[train]\nbatch = 4\nsteps = 1\n[run]\ndir = out\n");
    char *older = snapshot("older");
    dt_io_ops fast = dt_io_system;
    fast.fsync = do_not_wait;
    dt_io = &fast;
    every_allocation_may_fail_in("mlp.ini");
    every_allocation_may_fail_in("lenet.ini");
    dt_io = &dt_io_system;
    assert_unchanged(older, "older");
}

static rlim_t most_bytes;

static void limit_files(void)
{
    const struct rlimit most = {most_bytes, most_bytes};
    if (setrlimit(RLIMIT_FSIZE, &most) != 0)
        _exit(125);
}

/* The weights do not fit: the run is told so with its exit code, and lets go of its folder. */
static void files_at_their_limit_are_failed_writes(void **state)
{
    NEED_BINARY();
    NEED_LIMITS();
    put_text("c.ini",
        "[model]\nimage = 32\nclasses = 10\n[fc f]\nout = 10\n[data]\nsource = "
        "synthetic\nsamples = 8\n[train]\nbatch = 4\nsteps = 300\n[run]\ndir = out\n");
    cli.child = limit_files;
    most_bytes = 24 << 10; /* metrics.jsonl, too, reaches it on the way */
    ran r = cli_run("c.ini", NULL);
    assert_code(&r, DT_E_IO);
    assert_has(r.err, "File too large");
    assert_has(r.out, "lines of metrics are lost");
    cli_done(&r);
    check_summary(DT_E_IO);
    assert_int_not_equal(access(in_workspace("out/lock"), F_OK), 0);
    remove_all("out");
    r = cli_run("c.ini --set memory.policy=zero_infinity", NULL);
    assert_code(&r, DT_E_IO);
    assert_has(r.err, "RLIMIT_FSIZE (ulimit -f) lets none be so large; raise it");
    assert_has_not(r.err, "another disk");
    cli.child = NULL;
    cli_done(&r);
    assert_false(is_there("out"));
}

#define LONG                                                                                       \
    "[model]\nimage = 8\nclasses = 2\n[fc f]\nout = 2\n[data]\nsource = synthetic\nsamples = 8\n"  \
    "[train]\nbatch = 4\nsteps = 1000000000\n[run]\ndir = out\n"

/* Not even the configuration can be written: nothing is left that would refuse the next start. */
static void a_start_that_failed_leaves_no_run(void **state)
{
    NEED_BINARY();
    NEED_LIMITS();
    put_text("c.ini", LONG);
    for (int made = 0; made < 2; made++) { /* by the run, by somebody else */
        if (made == 1)
            assert_int_equal(mkdir(in_workspace("out"), 0777), 0);
        cli.child = limit_files;
        most_bytes = 1000;
        ran r = cli_run("c.ini --set train.steps=3", NULL);
        assert_code(&r, DT_E_IO);
        assert_has(r.err, "File too large");
        cli_done(&r);
        assert_int_equal(access(in_workspace("out"), F_OK) == 0, made == 1);
        cli.child = NULL;
        r = cli_run("c.ini --set train.steps=3", NULL);
        assert_code(&r, 0);
        cli_done(&r);
        remove_all("out");
    }
}

/* A run that goes on until it is told to end. */
static pid_t start_long(void)
{
    put_text("c.ini", LONG);
    const pid_t child = cli_start("c.ini", NULL);
    struct stat st = {0};
    for (int i = 0; i < 4000 && st.st_size < 500; i++) {
        nanosleep(&(struct timespec){0, 5000000}, NULL);
        if (stat(in_workspace("out/metrics.jsonl"), &st) != 0)
            st.st_size = 0;
    }
    assert_true(st.st_size >= 500);
    return child;
}

/* What is put in its place is somebody else's. */
static void a_run_directory_that_is_moved_is_followed(void **state)
{
    NEED_BINARY();
    char from[512];
    const pid_t child = start_long();
    snprintf(from, sizeof from, "%s", in_workspace("out"));
    remove_all("moved");
    assert_int_equal(rename(from, in_workspace("moved")), 0);
    assert_int_equal(mkdir(from, 0777), 0);
    assert_int_equal(kill(child, SIGTERM), 0);
    ran r = cli_wait(child);
    assert_code(&r, DT_E_STOPPED);
    assert_has(r.out, "w/moved: checkpoints/model.safetensors, metrics.jsonl, summary.json");
    cli_done(&r);
    assert_int_equal(access(in_workspace("moved/summary.json"), F_OK), 0);
    assert_int_equal(access(in_workspace("moved/checkpoints/model.safetensors"), F_OK), 0);
    assert_int_not_equal(access(in_workspace("moved/lock"), F_OK), 0);
    assert_int_equal(rmdir(from), 0); /* it is empty */
    remove_all("moved");
}

static void a_run_directory_that_is_removed_is_told(void **state)
{
    NEED_BINARY();
    const pid_t child = start_long();
    remove_all("out");
    assert_int_equal(kill(child, SIGTERM), 0);
    ran r = cli_wait(child);
    assert_code(&r, DT_E_IO);
    assert_has(r.err, "was removed while the run went on");
    assert_has(r.out, "nothing: ");
    assert_has_not(r.out, ", summary.json");
    cli_done(&r);
    assert_int_not_equal(access(in_workspace("out"), F_OK), 0);
}

/* What is put in the place of its checkpoints leads out of the run. */
static void checkpoints_that_became_a_link_are_not_written(void **state)
{
    NEED_BINARY();
    char from[512];
    const pid_t child = start_long();
    snprintf(from, sizeof from, "%s", in_workspace("out/checkpoints"));
    assert_int_equal(mkdir(in_workspace("other"), 0777), 0);
    assert_int_equal(rename(from, in_workspace("out/before")), 0);
    assert_int_equal(symlink("../other", from), 0);
    assert_int_equal(kill(child, SIGTERM), 0);
    ran r = cli_wait(child);
    assert_code(&r, DT_E_IO);
    assert_has(r.err, "out/checkpoints' is no folder");
    cli_done(&r);
    assert_int_equal(rmdir(in_workspace("other")), 0); /* it is empty */
}

/* Another may have the folder then: the run ends at its next checkpoint, and writes nothing. */
static void a_run_whose_lock_is_removed_ends(void **state)
{
    NEED_BINARY();
    put_text("c.ini", LONG "[checkpoint]\nevery = 50\n");
    const pid_t child = cli_start("c.ini", NULL);
    wait_for_steps();
    assert_int_equal(unlink(in_workspace("out/lock")), 0);
    ran r = cli_wait(child);
    assert_code(&r, DT_E_BUSY);
    assert_has(r.err, "its lock was removed while the run went on");
    assert_int_not_equal(access(in_workspace("out/summary.json"), F_OK), 0);
    assert_int_not_equal(access(in_workspace("out/checkpoints/model.safetensors"), F_OK), 0);
    cli_done(&r);
}

/* Of a file that somebody removed nothing is said but that it is not there. */
static void metrics_that_are_removed_are_not_told_as_written(void **state)
{
    NEED_BINARY();
    const pid_t child = start_long();
    assert_int_equal(unlink(in_workspace("out/metrics.jsonl")), 0);
    assert_int_equal(kill(child, SIGTERM), 0);
    ran r = cli_wait(child);
    assert_code(&r, DT_E_STOPPED);
    assert_has(r.out, "/w/out: checkpoints/model.safetensors, summary.json, report.html\n");
    assert_has(r.out, "lines of metrics are lost");
    cli_done(&r);
}

#define T(f) cmocka_unit_test_teardown(f, clean_workspace)
DT_TEST_GROUP(run_faults)
{
    const struct CMUnitTest tests[] = {
        T(damaged_pictures_end_the_run),
        T(classes_that_do_not_occur_are_told),
        T(skipped_pictures_are_told_once),
        T(bombs_are_refused_by_their_header),
        T(pictures_of_every_kind_are_taken),
        T(odd_names_are_taken_and_shown_escaped),
        T(data_that_changes_during_the_run),
        T(a_loss_that_is_not_finite_changes_nothing),
        T(losses_that_are_not_finite_are_counted_by_label),
        T(a_gradient_that_is_not_finite_changes_nothing),
        T(statistics_that_are_not_finite_change_nothing),
        T(a_run_that_diverges_stops_before_its_weights_do),
        T(an_arena_the_machine_refuses),
        T(files_at_their_limit_are_failed_writes),
        T(a_start_that_failed_leaves_no_run),
        T(a_run_directory_that_is_moved_is_followed),
        T(a_run_directory_that_is_removed_is_told),
        T(a_run_whose_lock_is_removed_ends),
        T(checkpoints_that_became_a_link_are_not_written),
        T(metrics_that_are_removed_are_not_told_as_written),
        T(every_allocation_of_a_run_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
