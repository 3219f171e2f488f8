/* Runs that learn numbers: against what a hand computes, under policies and in bf16; what they
 * report, and what is refused. */
#include <dnntrain.h>
#include <dnntrain/source.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "data/source.h"
#include "engine/checkpoint/safetensors.h"
#include "session/run.h"
#include "tests/fixture/data_files.h"
#include "tests/fixture/json_read.h"
#include "tests/fixture/run_cli.h"
#include "tests/fixture/workspace.h"

/* ---- data ---- */

enum { STEPS = 4, BATCH = 6, IN = 3, OUT = 2, SAMPLES = STEPS * BATCH };

typedef struct rows {
    float x[SAMPLES][IN], y[SAMPLES][OUT];
} rows;

static dt_status rows_bytes(
    void *arg, size_t i, size_t at, const void **bytes, size_t *n, dt_err *err)
{
    const rows *r = arg;
    (void)n, (void)err;
    *bytes = (const char *)(i == 0 ? (const void *)r->x : r->y) + at;
    return DT_OK;
}

static const char *put_rows(const char *below, rows *r)
{
    const dt_st_out entries[2] = {
        {"x", DT_ST_F32, 5, {STEPS, BATCH, IN, 1, 1}}, {"y", DT_ST_F32, 3, {STEPS, BATCH, OUT}}};
    const char *path = in_workspace(below);
    dt_err err = {0};
    assert_ok(dt_st_write(path, entries, 2, NULL, 0, rows_bytes, r, NULL, &err), &err);
    return path;
}

/* Outputs that a linear layer can give, from 0 to 1; every seventh is missing. */
static void fill(rows *r)
{
    for (int i = 0; i < SAMPLES; i++) {
        for (int k = 0; k < IN; k++)
            r->x[i][k] = (float)((i * 7 + k * 5) % 11) / 5 - 1;
        for (int k = 0; k < OUT; k++) {
            const float y = 0.5f + 0.2f * r->x[i][0] - 0.1f * (float)(k + 1) * r->x[i][2];
            r->y[i][k] = (i * OUT + k) % 7 == 3 ? NAN : y;
        }
    }
}

/* ---- runs ---- */

#define LINEAR                                                                                     \
    "[model]\nimage = 1\nchannels = 3\n[data]\nsource = tensors\npath = rows.st\n"                 \
    "eval_path = rows.st\n[train]\nbatch = 6\nmomentum = 0\nweight_decay = 0\nprecision = fp32\n"  \
    "[device]\nthreads = 1\nkind = cpu\n[run]\noverwrite = on\n[fc f]\nout = 2\n"

#define PICTURES                                                                                   \
    "[model]\nimage = 8\n[data]\nsource = synthetic\nsamples = 48\n[train]\nbatch = 8\n"           \
    "steps = 6\nlr = 0.05\nprecision = fp32\n[device]\nthreads = 1\nkind = cpu\n"                  \
    "[run]\noverwrite = on\n[conv c1]\nout = 8\nkernel = 3\npad = 1\n[relu r1]\n"                  \
    "[conv c2]\nout = 8\nkernel = 3\npad = 1\n[relu r2]\n"

/* @text and then layers; @sets: assignments, a blank between them, or NULL. */
static dt_status open_run(
    dt_run **run, const char *text, const char *layers, const char *sets, dt_err *err)
{
    char all[2048], words[512] = "";
    const char *set[16];
    size_t n = 0;
    snprintf(all, sizeof all, "%s%s", text, layers);
    if (sets != NULL)
        snprintf(words, sizeof words, "%s", sets);
    for (char *rest, *w = strtok_r(words, " ", &rest); w != NULL; w = strtok_r(NULL, " ", &rest)) {
        assert_true(n < DT_COUNT(set));
        set[n++] = w;
    }
    return dt_run_open_text(run, "net", all, strlen(all), set, n, err);
}

static dt_status train(dt_run *run, dt_err *err)
{
    DT_CHECK(dt_run_begin(run, NULL, err));
    return dt_run_end(run, dt_run_train(run, 0, err), err);
}

/* The run's folder is "out". */
static void train_ok(const char *text, const char *layers, const char *sets)
{
    dt_err err = {0};
    dt_run *run = NULL;
    assert_ok(open_run(&run, text, layers, sets, &err), &err);
    assert_ok(train(run, &err), &err);
    dt_run_close(run);
}

static dt_status try_train(const char *text, const char *layers, const char *sets, dt_err *err)
{
    dt_run *run = NULL;
    dt_status st = open_run(&run, text, layers, sets, err);
    if (st == DT_OK)
        st = train(run, err);
    dt_run_close(run);
    return st;
}

/* ---- by hand ---- */

/* One step of gradient descent on the mean over all values that count. */
static void step_by_hand(const rows *r, const float *w, const float *b, double lr, double *to)
{
    double counted = 0, sum[OUT * (IN + 1)] = {0};
    for (int i = 0; i < BATCH; i++)
        for (int o = 0; o < OUT; o++) {
            double y = (double)b[o];
            if (isnan(r->y[i][o]))
                continue;
            for (int k = 0; k < IN; k++)
                y += (double)w[o * IN + k] * (double)r->x[i][k];
            const double slope = 2 * (y - (double)r->y[i][o]);
            for (int k = 0; k < IN; k++)
                sum[o * IN + k] += slope * (double)r->x[i][k];
            sum[OUT * IN + o] += slope;
            counted++;
        }
    for (int i = 0; i < OUT * (IN + 1); i++)
        to[i] = (double)(i < OUT * IN ? w[i] : b[i - OUT * IN]) - lr * sum[i] / counted;
}

static void read_weights(dt_run *run, float *w, float *b)
{
    dt_err err = {0};
    assert_ok(dt_run_read_weight(run, "f.weight", w, OUT * IN, &err), &err);
    assert_ok(dt_run_read_weight(run, "f.bias", b, OUT, &err), &err);
}

static void a_step_is_that_of_the_mean_over_the_values_that_count(void **state)
{
    (void)state;
    static const char *const sets[] = {
        "train.steps=1 train.lr=0.1", "train.steps=1 train.lr=0.1 train.micro_batch=2"};
    static rows r;
    fill(&r);
    put_rows("rows.st", &r);
    for (size_t i = 0; i < DT_COUNT(sets); i++) {
        float w[OUT * IN], b[OUT], after[OUT * IN], bias[OUT];
        double want[OUT * (IN + 1)];
        dt_err err = {0};
        dt_run *run = NULL;
        assert_ok(open_run(&run, LINEAR, "[mse loss]\n", sets[i], &err), &err);
        assert_ok(dt_run_begin(run, NULL, &err), &err);
        read_weights(run, w, b);
        step_by_hand(&r, w, b, 0.1, want);
        assert_ok(dt_run_end(run, dt_run_train(run, 0, &err), &err), &err);
        read_weights(run, after, bias);
        for (int k = 0; k < OUT * (IN + 1); k++) {
            const double got = (double)(k < OUT * IN ? after[k] : bias[k - OUT * IN]);
            if (!(fabs(got - want[k]) < 1e-6))
                fail_msg("%s: weight %d is %g, not %g", sets[i], k, got, want[k]);
        }
        dt_run_close(run);
    }
}

static void a_linear_function_is_learned(void **state)
{
    (void)state;
    static rows r;
    float y[SAMPLES][OUT];
    dt_err err = {0};
    dt_run *run = NULL;
    dt_eval_report e;
    fill(&r);
    put_rows("rows.st", &r);
    assert_ok(open_run(&run, LINEAR, "[mse loss]\n", "train.steps=400 train.lr=0.5", &err), &err);
    assert_ok(train(run, &err), &err);
    assert_ok(dt_run_evaluate(run, NULL, &e, &err), &err);
    assert_true(e.values && !e.probabilities && !e.pixels);
    assert_true(e.loss < 1e-6);
    assert_int_equal(e.samples, SAMPLES);
    assert_ok(dt_run_scores(run, &r.x[0][0], SAMPLES, &y[0][0], SAMPLES * OUT, &err), &err);
    for (int i = 0; i < SAMPLES; i++)
        for (int k = 0; k < OUT; k++)
            assert_true(isnan(r.y[i][k]) || fabsf(y[i][k] - r.y[i][k]) < 1e-2f);
    assert_fails(dt_run_scores(run, &r.x[0][0], 3, &y[0][0], 7, &err), DT_E_CONFIG, &err,
        "3 samples of 2 values have other than 7 values");
    dt_run_close(run);
}

/* Only of steps that are learned from something has to count. */
static void a_step_without_labels_may_be_held_out_or_never_reached(void **state)
{
    (void)state;
    static rows r;
    dt_err err = {0};
    fill(&r);
    for (int i = 2 * BATCH; i < 3 * BATCH; i++)
        r.y[i][0] = r.y[i][1] = NAN;
    put_rows("rows.st", &r);
    assert_fails(try_train(LINEAR, "[mse loss]\n", "train.steps=3", &err), DT_E_DATA, &err,
        "each value of y[2] is NaN, so nothing of that step counts");
    assert_has(err.text, "[data] path = rows.st");
    train_ok(LINEAR, "[mse loss]\n", "train.steps=2");
    train_ok(LINEAR, "[mse loss]\n", "data.eval_path= data.eval_share=0.5 train.epochs=2");
}

/* ---- what is told ---- */

static void check_told(const char *loss, bool accuracy)
{
    char end[64];
    snprintf(end, sizeof end, "[fc f]\nout = 3\n[%s loss]\n", loss);
    train_ok(PICTURES, end, "run.dir=out");
    char *lines = cli_text(in_workspace("out/metrics.jsonl"));
    cJSON *summary = json_file(in_workspace("out/summary.json"));
    assert_true(isfinite(json_number(summary, "eval_loss")));
    assert_false(cJSON_HasObjectItem(summary, "eval_top1"));
    assert_has(lines, "\"split\": \"eval\"");
    assert_has_not(lines, "top1");
    assert_has_not(lines, "top5");
    if (accuracy) {
        const double share = json_number(summary, "eval_accuracy");
        assert_true(share > 0.3 && share <= 1);
        assert_has(lines, "\"accuracy\": 0.");
    } else {
        assert_false(cJSON_HasObjectItem(summary, "eval_accuracy"));
        assert_has_not(lines, "accuracy");
    }
    assert_false(is_there("out/classes.txt"));
    cJSON_Delete(summary);
    dt_free(lines);
}

static void no_class_is_told_where_numbers_are_learned(void **state)
{
    (void)state;
    check_told("mse", false);
    check_told("l1", false);
    check_told("smooth_l1", false);
    check_told("bce", true);
}

static void the_program_tells_what_there_is(void **state)
{
    NEED_BINARY();
    static const char ini[] = PICTURES "[fc f]\nout = 3\n[bce loss]\n";
    put_text("labels.ini", ini);
    ran r = cli_run("labels.ini --set run.dir=out", NULL);
    assert_code(&r, 0);
    assert_has(r.err, "image 8x8x3, gives 3 values\n");
    assert_has(r.err, "data      synthetic: 48 synthetic pictures\n");
    assert_has(r.err, "  accuracy ");
    assert_has(r.out, "eval      loss ");
    assert_has(r.out, ", accuracy ");
    assert_has_not(r.err, "top-1");
    assert_has_not(r.out, "top-1");
    cli_done(&r);
    char *page = cli_text(in_workspace("out/report.html"));
    assert_has(page, "values on the right side of 0.5");
    assert_has_not(page, "top-1");
    dt_free(page);
    r = cli_run("eval out", NULL);
    assert_code(&r, 0);
    assert_has(r.out, "\naccuracy  ");
    assert_has_not(r.out, "top-");
    cli_done(&r);
    r = cli_run("eval out --json", NULL);
    assert_code(&r, 0);
    cJSON *o = json_of(r.out, strlen(r.out));
    assert_true(json_number(o, "accuracy") > 0);
    assert_false(cJSON_HasObjectItem(o, "top1"));
    cJSON_Delete(o);
    cli_done(&r);
    r = cli_run("eval out --outputs outputs.st", NULL);
    assert_code(&r, 0);
    assert_true(is_there("outputs.st"));
    cli_done(&r);
    r = cli_run("eval out --outputs outputs.st --generate 3", NULL);
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "--outputs and --generate exclude each other");
    cli_done(&r);
    r = cli_run("show labels.ini", NULL);
    assert_code(&r, 0);
    assert_has(r.out, "labels   input 8x8x3, 3 values, ");
    cli_done(&r);
    r = cli_run("classify out labels.ini", NULL);
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "its loss, bce, tells no classes");
    cli_done(&r);
}

/* A loss, and operations of a sample, that few decimals would make zeros of. */
static void small_numbers_are_told(void **state)
{
    NEED_BINARY();
    static rows r;
    fill(&r);
    put_rows("rows.st", &r);
    put_text("linear.ini", LINEAR "[mse loss]\n");
    ran e = cli_run("linear.ini --set train.steps=400 --set train.lr=0.5 --set run.dir=out", NULL);
    assert_code(&e, 0);
    cli_done(&e);
    e = cli_run("eval out", NULL);
    assert_code(&e, 0);
    const char *at = strstr(e.out, "\nloss ");
    assert_non_null(at);
    const double loss = strtod(at + strlen("\nloss "), NULL);
    assert_true(loss > 0 && loss < 1e-6);
    cli_done(&e);
    e = cli_run("show linear.ini", NULL);
    assert_code(&e, 0);
    assert_has(e.out, "\nforward 20 FLOP and backward 18 FLOP a sample, ");
    cli_done(&e);
}

/* Channels come first there. */
static void outputs_are_written_as_files_have_them(void **state)
{
    (void)state;
    enum { HELD = 256, PLANE = 64, C = 3, ALL = HELD * PLANE * C };
    static float x[ALL], y[ALL], z[ALL];
    const dt_source_opts o = {
        .shape = {1, 8, 8, C}, .classes = 2, .labels = 1, .seed = 1, .samples = 48, .eval = true};
    dt_err err = {0};
    dt_run *run = NULL;
    dt_source *held = NULL;
    dt_st_file *f = NULL;
    assert_ok(dt_source_synthetic.open(&dt_source_synthetic, &held, &o, &err), &err);
    for (int i = 0; i < HELD; i++) {
        int32_t label;
        assert_ok(held->desc->read(held, i, 0, x + i * PLANE * C, &label, &err), &err);
    }
    held->desc->close(held);
    assert_ok(open_run(&run, PICTURES, "[conv c3]\nout = 3\nkernel = 1\n[mse loss]\n",
                  "run.dir=out data.target=input train.batch=7", &err),
        &err);
    assert_ok(dt_run_evaluate(run, NULL, NULL, &err), &err);
    assert_ok(dt_run_write_outputs(run, "outputs.st", &err), &err);
    assert_ok(dt_run_scores(run, x, HELD, y, ALL, &err), &err);
    dt_run_close(run);
    assert_ok(dt_st_open(&f, "outputs.st", &err), &err);
    const dt_st_entry *e = dt_st_find(f, "y");
    assert_non_null(e);
    assert_true(e->rank == 4 && e->d[0] == HELD && e->d[1] == C && e->d[2] == 8 && e->d[3] == 8);
    assert_ok(dt_st_read(f, e, 0, z, sizeof z, &err), &err);
    dt_st_close(f);
    for (int i = 0; i < ALL; i++) {
        const int p = i % PLANE, c = i / PLANE % C, sample = i / (PLANE * C);
        assert_true(z[i] == y[(sample * PLANE + p) * C + c]);
    }
}

/* ---- under policies, and later ---- */

static char *weights_after(const char *layers, const char *sets)
{
    train_ok(PICTURES, layers, sets);
    return snapshot("out/checkpoints/model.safetensors");
}

static void bits_are_the_same_under_every_policy_that_is_exact(void **state)
{
    (void)state;
    static const struct {
        const char *layers, *set;
    } nets[] = {{"[conv c3]\nout = 3\nkernel = 1\n[mse loss]\n", "data.target=input"},
        {"[conv c3]\nout = 3\nkernel = 1\n[bce loss]\n", "run.dir=out"}, /* of each pixel */
        {"[fc f]\nout = 4\n[smooth_l1 loss]\nbeta = 0.3\n", "train.micro_batch=2"}};
    static const char *const policies[] = {
        "keep_all", "vdnn_all", "chen_sqrt", "gist_lossless", "chen_cheap,cdma", "superneurons"};
    for (size_t i = 0; i < 2 * DT_COUNT(nets); i++) {
        char *kept = NULL;
        for (size_t k = 0; k < DT_COUNT(policies); k++) {
            char sets[256];
            snprintf(sets, sizeof sets, "run.dir=out train.precision=%s memory.policy=%s %s",
                i % 2 == 0 ? "fp32" : "bf16", policies[k], nets[i / 2].set);
            char *now = weights_after(nets[i / 2].layers, sets);
            if (kept != NULL)
                assert_string_equal(now, kept);
            dt_free(kept);
            kept = now;
        }
        dt_free(kept);
    }
}

static void a_run_goes_on_to_the_same_bits(void **state)
{
    (void)state;
    static const char layers[] = "[conv c3]\nout = 3\nkernel = 1\n[bce loss]\n";
    static const char sets[] = "run.dir=out train.eval_every=1 checkpoint.best=loss";
    dt_err err = {0};
    dt_run *run = NULL;
    char more[128], *whole = weights_after(layers, sets);
    remove_all("out");
    assert_ok(open_run(&run, PICTURES, layers, sets, &err), &err);
    assert_ok(dt_run_begin(run, NULL, &err), &err);
    assert_ok(dt_run_train(run, 3, &err), &err);
    assert_int_equal(dt_run_end(run, DT_E_STOPPED, &err), DT_E_STOPPED);
    dt_run_close(run);
    dt_err_clear(&err);
    snprintf(more, sizeof more, "%s checkpoint.resume=auto", sets);
    assert_ok(open_run(&run, PICTURES, layers, more, &err), &err);
    assert_ok(train(run, &err), &err);
    dt_run_close(run);
    char *later = snapshot("out/checkpoints/model.safetensors");
    assert_string_equal(later, whole);
    dt_free(later);
    dt_free(whole);
}

/* ---- refusals ---- */

static void what_does_not_go_with_numbers_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *end, *set, *says;
    } all[] = {
        {"[mse loss]\n", "train.label_smoothing=0.1", "it is for labels that are classes, and mse"},
        {"[mse loss]\n", "checkpoint.best=top1", "set checkpoint.best = loss"},
        {"[mse loss]\n", "data.target=input", "takes 8x8x3 values and gives 8x8x8; make these"},
        {"[permute t]\norder = hcw\n[conv u]\nout = 8\nkernel = 1\n[mse loss]\n",
            "data.target=input", "takes 8x8x3 values and gives"},
        {"[fc f]\nout = 2\n", "data.target=input",
            "end the network in one of values, as [mse loss]"},
        {"[mse loss]\n", "data.source=cifar10", "learns values, and samples of this source have"},
        {"[bce loss]\n", "data.source=images", "or data.target = input to learn the input itself"},
        {"[mse loss]\n", "model.classes=5", "makes 8 values for mse, and [model] classes = 5"},
        {"[smooth_l1 loss]\nbeta = 0\n", NULL, "beta"},
        {"[mse_loss loss]\n", NULL, "did you mean 'mse'?"},
        {"[mae loss]\n", NULL, "did you mean 'l1'?"},
        {"[focal_loss loss]\n", NULL, "[mse loss], [l1 loss] and [smooth_l1 loss] learn numbers"},
        {"[mse end]\n", NULL, "the loss is called 'loss': write [mse loss]"},
        {"[conv c3]\nout = 3\nkernel = 1\n[bce loss]\n", "data.target=input",
            "set data.mean = 0 and data.std = 1"},
    };
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        dt_err err = {0};
        const dt_status st = try_train(PICTURES, all[i].end, all[i].set, &err);
        if (st != DT_E_CONFIG && st != DT_E_DATA)
            fail_msg("%s %s: status %d: %s", all[i].end, all[i].set, (int)st, err.text);
        assert_has(err.text, all[i].says);
    }
}

/* Four folders of two pictures, which are no classes here; and pictures in a folder of none, to
 * evaluate on, also without those. */
static void pictures_in_folders_are_learned_themselves(void **state)
{
    (void)state;
    enum { SIDE = 10 };
    uint8_t pixels[SIDE * SIDE * 3];
    char path[64];
    dt_err err = {0};
    for (int i = 0; i < 8; i++) {
        for (size_t k = 0; k < sizeof pixels; k++)
            pixels[k] = (uint8_t)(k * 37 % 256 * (size_t)(i + 1) % 256);
        blob png = make_rgb_png(pixels, SIDE, SIDE);
        snprintf(path, sizeof path, "pictures/%c/%d.png", 'a' + i % 4, i);
        put_file(in_workspace(path), png.p, png.n);
        snprintf(path, sizeof path, "held/%d.png", i);
        put_file(in_workspace(path), png.p, png.n);
        blob_free(&png);
    }
    static const char layers[] = "[conv c3]\nout = 3\nkernel = 1\n[bce loss]\n";
    assert_ok(try_train(PICTURES, layers,
                  "run.dir=out data.source=images data.path=pictures data.eval_path=held "
                  "data.target=input data.mean=0 data.std=1",
                  &err),
        &err);
    dt_run *run = NULL;
    dt_eval_report e;
    assert_ok(open_run(&run, PICTURES, layers,
                  "data.source=images data.eval_path=held data.target=input data.mean=0 "
                  "data.std=1 model.weights=out/checkpoints/model.safetensors",
                  &err),
        &err);
    assert_ok(dt_run_evaluate(run, NULL, &e, &err), &err);
    assert_true(e.samples == 8 && e.probabilities && e.loss > 0 && e.loss < 1);
    dt_run_close(run);
    assert_false(is_there("out/classes.txt"));
}

/* A batch of which nothing counts, as tensors may hold. */
static void a_batch_without_a_label_is_refused(void **state)
{
    (void)state;
    static rows r;
    dt_err err = {0};
    fill(&r);
    for (int i = BATCH; i < 2 * BATCH; i++)
        r.y[i][0] = r.y[i][1] = NAN;
    put_rows("rows.st", &r);
    const dt_status st = try_train(LINEAR, "[mse loss]\n", "run.dir=none train.steps=4", &err);
    assert_fails(st, DT_E_DATA, &err, "rows.st: each value of y[1] is NaN, so nothing of that");
    assert_false(is_there("none"));
}

/* ---- from outside ---- */

static struct {
    bool nan, wrong;
    dt_learned learns;
} outside;

static dt_status count_all(void *self, const dt_samples *s, int64_t *n, dt_err *err)
{
    (void)self, (void)err;
    outside.learns = s->learns;
    *n = SAMPLES;
    return DT_OK;
}

static dt_status read_one(
    void *self, const dt_samples *s, int64_t i, float *x, int32_t *label, dt_err *err)
{
    static rows r;
    (void)self, (void)err;
    if (s->labels != OUT)
        return DT_E_CONFIG;
    fill(&r);
    memcpy(x, r.x[i], sizeof r.x[i]);
    memcpy(label, r.y[i], sizeof r.y[i]);
    if (outside.wrong && i == 4)
        memcpy(label, &(float){2}, sizeof(float));
    return DT_OK;
}

static void a_source_from_outside_gives_values_if_it_says_so(void **state)
{
    (void)state;
    static const char values[] = "data.source=values run.dir=out train.steps=4";
    dt_source_spec s = {.name = "numbers", .summary = "-", .count = count_all, .read = read_one};
    static rows r;
    dt_err err = {0};
    fill(&r);
    put_rows("rows.st", &r);
    assert_ok(dt_register_source(&s, &err), &err);
    s.name = "values";
    s.values = true;
    assert_ok(dt_register_source(&s, &err), &err);
    assert_fails(try_train(LINEAR, "[bce loss]\n", "data.source=numbers", &err), DT_E_CONFIG, &err,
        "samples of this source have none");
    dt_err_clear(&err);
    assert_ok(try_train(LINEAR, "[bce loss]\n", values, &err), &err);
    assert_int_equal(outside.learns, DT_LEARNS_PROBABILITIES);
    outside.wrong = true;
    assert_fails(try_train(LINEAR, "[bce loss]\n", values, &err), DT_E_DATA, &err,
        "value 0 of sample 4 is 2, but the loss takes values from 0 to 1, or NaN");
    outside.wrong = false;
}

static int go_there(void **state)
{
    (void)state;
    return chdir(in_workspace("."));
}

DT_TEST_GROUP(value_runs)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_that_of_the_mean_over_the_values_that_count),
        cmocka_unit_test(a_linear_function_is_learned),
        cmocka_unit_test(a_step_without_labels_may_be_held_out_or_never_reached),
        cmocka_unit_test(no_class_is_told_where_numbers_are_learned),
        cmocka_unit_test(the_program_tells_what_there_is),
        cmocka_unit_test(small_numbers_are_told),
        cmocka_unit_test(outputs_are_written_as_files_have_them),
        cmocka_unit_test(bits_are_the_same_under_every_policy_that_is_exact),
        cmocka_unit_test(a_run_goes_on_to_the_same_bits),
        cmocka_unit_test(what_does_not_go_with_numbers_is_refused),
        cmocka_unit_test(pictures_in_folders_are_learned_themselves),
        cmocka_unit_test(a_batch_without_a_label_is_refused),
        cmocka_unit_test(a_source_from_outside_gives_values_if_it_says_so),
    };
    return cmocka_run_group_tests(tests, go_there, NULL);
}
