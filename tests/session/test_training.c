/* Whole runs of the program: against PyTorch's numbers, against themselves under other policies,
 * threads and micro-batches, and against what a hand computes. */
#include "tests/fixture/json_read.h"
#include "tests/fixture/run_cli.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "engine/base/alloc.h"
#include "engine/base/sha256.h"
#include "engine/checkpoint/safetensors.h"
#include "tests/fixture/data_files.h"
#include "tests/fixture/workspace.h"

#define WEIGHTS "checkpoints/model.safetensors"

/* --- what runs leave --- */

static ran run_ok(const char *words)
{
    ran r = cli_run(words, NULL);
    assert_code(&r, 0);
    return r;
}

static void run_quietly(const char *words)
{
    ran r = run_ok(words);
    cli_done(&r);
}

static bool is_text(const cJSON *o, const char *key, const char *want)
{
    const char *v = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));
    return v != NULL && strcmp(v, want) == 0;
}

/* One number of each line of a split in metrics.jsonl; returns how many lines there are. */
static int metrics_of(const char *run, const char *split, const char *key, double *to, int room)
{
    char below[128];
    int n = 0;
    snprintf(below, sizeof below, "%s/metrics.jsonl", run);
    char *text = cli_text(in_workspace(below));
    for (const char *s = text; *s != '\0'; s += strcspn(s, "\n") + 1) {
        cJSON *o = json_of(s, strcspn(s, "\n"));
        if (is_text(o, "split", split)) {
            assert_true(n < room);
            to[n++] = json_number(o, key);
        }
        cJSON_Delete(o);
    }
    dt_free(text);
    return n;
}

static cJSON *summary_of(const char *run)
{
    char below[128];
    snprintf(below, sizeof below, "%s/summary.json", run);
    return json_file(in_workspace(below));
}

static char *weights_of(const char *run)
{
    char below[128];
    snprintf(below, sizeof below, "%s/" WEIGHTS, run);
    return dt_strdup(in_workspace(below));
}

static bool same_weights(const char *run, const char *other)
{
    const char *runs[] = {run, other};
    char sum[2][DT_SHA256_TEXT];
    for (int i = 0; i < 2; i++) {
        uint64_t bytes = 0;
        dt_err err = {0};
        char *path = weights_of(runs[i]);
        assert_ok(dti_sha256_file(path, sum[i], &bytes, DT_E_IO, &err), &err);
        assert_true(bytes > 100);
        dt_free(path);
    }
    return strcmp(sum[0], sum[1]) == 0;
}

static float *read_tensor(const dt_st_file *f, const char *name, size_t *n)
{
    const dt_st_entry *e = dt_st_find(f, name);
    dt_err err = {0};
    if (e == NULL)
        fail_msg("there is no tensor '%s'", name);
    assert_int_equal(e->type, DT_ST_F32);
    float *v = dt_alloc(e->bytes + 1, 1);
    assert_non_null(v);
    assert_ok(dt_st_read(f, e, 0, v, e->bytes, &err), &err);
    *n = e->bytes / sizeof *v;
    return v;
}

/* ||got - want|| / ||want|| of the worst of all F32 tensors of the file @want. */
static double worst_tensor(const char *got, const char *want)
{
    dt_st_file *g = NULL, *w = NULL;
    dt_err err = {0};
    double worst = 0;
    assert_ok(dt_st_open(&g, got, &err), &err);
    assert_ok(dt_st_open(&w, want, &err), &err);
    assert_true(dti_st_count(w) > 0);
    for (size_t i = 0; i < dti_st_count(w); i++) {
        const dt_st_entry *e = dti_st_at(w, i);
        size_t n, m;
        if (e->type != DT_ST_F32)
            continue;
        float *a = read_tensor(g, e->name, &n), *b = read_tensor(w, e->name, &m);
        assert_int_equal(n, m);
        const double off = dt_relative_error(a, b, n);
        if (off > worst)
            worst = off;
        dt_free(a);
        dt_free(b);
    }
    dt_st_close(g);
    dt_st_close(w);
    return worst;
}

static double weights_apart(const char *run, const char *other)
{
    char *a = weights_of(run), *b = weights_of(other);
    const double off = worst_tensor(a, b);
    dt_free(a);
    dt_free(b);
    return off;
}

static void assert_below(double got, double most, const char *what)
{
    if (!(got <= most))
        fail_msg("%s is off by %g, at most %g is allowed", what, got, most);
}

/* --- PyTorch --- */

#define REFERENCE "reference/models/resnet18_w8/"

static void put_reference_ini(void)
{
    char text[4096];
    snprintf(text, sizeof text,
        "[model]\nname = resnet18\nwidth = 8\nclasses = 10\nimage = 64\nweights = %s\n"
        "[data]\nsource = tensors\npath = %s\n"
        "[train]\nbatch = 16\nsteps = 6\nlr = 0.002\nmomentum = 0.9\nweight_decay = 1e-4\n"
        "dump_gradients = gradients.safetensors\n",
        dt_shared(REFERENCE "init.safetensors"), dt_shared(REFERENCE "batches.safetensors"));
    put_text("reference.ini", text);
}

static void compare_losses(const cJSON *expected, const char *run)
{
    const cJSON *want = cJSON_GetObjectItemCaseSensitive(expected, "loss");
    const cJSON *tolerance = cJSON_GetObjectItemCaseSensitive(expected, "tolerance");
    double loss[16];
    const int n = metrics_of(run, "train", "loss", loss, DT_COUNT(loss));
    assert_int_equal(n, cJSON_GetArraySize(want));
    for (int i = 0; i < n; i++) {
        const double w = cJSON_GetArrayItem(want, i)->valuedouble;
        assert_below(fabs(loss[i] - w) / w,
            json_number(tolerance, i == 0 ? "first_loss" : "later_loss"), "the loss");
    }
}

/* Losses, the first step's gradients and the last one's weights are those of a folder of reference
 * data; weights by the tolerance of that name. */
static void run_as_pytorch(const char *words, const char *run, const char *folder, const char *most)
{
    char all[256], below[128];
    snprintf(all, sizeof all, "%s --set run.dir=%s", words, run);
    run_quietly(all);
    snprintf(below, sizeof below, "%sexpected.json", folder);
    cJSON *expected = json_file(dt_shared(below));
    const cJSON *tolerance = cJSON_GetObjectItemCaseSensitive(expected, "tolerance");
    compare_losses(expected, run);
    snprintf(below, sizeof below, "%sgrads.safetensors", folder);
    assert_below(worst_tensor(in_workspace("gradients.safetensors"), dt_shared(below)),
        json_number(tolerance, "gradient"), "a gradient");
    char *final = weights_of(run);
    snprintf(below, sizeof below, "%sfinal.safetensors", folder);
    assert_below(worst_tensor(final, dt_shared(below)), json_number(tolerance, most), "a weight");
    dt_free(final);
    cJSON_Delete(expected);
}

/* Biases of batch norms start at 0, so after six steps they are gradients, added up, and nothing
 * else: weights and running statistics have the tolerance of gradients. */
static void six_steps_agree_with_pytorch(void **state)
{
    NEED_BINARY();
    if (dt_shared(REFERENCE) == NULL)
        skip();
    put_reference_ini();
    run_as_pytorch("reference.ini", "keep_all", REFERENCE, "gradient");
    run_as_pytorch(
        "reference.ini --set memory.policy=network_wide", "network_wide", REFERENCE, "gradient");
    assert_true(same_weights("keep_all", "network_wide"));
}

#define GPT "reference/models/gpt_2x48/"

/* AdamW takes steps of about lr whatever the gradient, so weights have the tolerance of losses. */
static void a_transformer_under_adamw_agrees_with_pytorch(void **state)
{
    NEED_BINARY();
    if (dt_shared(GPT) == NULL)
        skip();
    char ini[4096];
    snprintf(ini, sizeof ini,
        "[model]\nname = gpt2\nlayers = 2\nwidth = 48\nheads = 4\nvocab = 65\ncontext = 32\n"
        "weights = %s\n[data]\nsource = tensors\npath = %s\n"
        "[train]\nbatch = 3\nsteps = 6\noptimizer = adamw\nlr = 0.001\nbeta1 = 0.9\n"
        "beta2 = 0.95\neps = 1e-8\nweight_decay = 0.1\ndump_gradients = gradients.safetensors\n",
        dt_shared(GPT "init.safetensors"), dt_shared(GPT "batches.safetensors"));
    put_text("gpt.ini", ini);
    run_as_pytorch("gpt.ini --set model.attention=efficient", "gpt", GPT, "later_loss");
    run_as_pytorch("gpt.ini --set model.attention=naive", "gpt_naive", GPT, "later_loss");
    run_as_pytorch("gpt.ini --set train.micro_batch=1", "gpt_micro", GPT, "later_loss");
}

/* --- the same run again --- */

#define LENET                                                                                      \
    "[model]\nname = lenet5\n[data]\nsamples = 256\n[train]\nlr = 0.05\nbatch = 32\nsteps = 6\n"

static void equal_seeds_give_equal_bytes(void **state)
{
    NEED_BINARY();
    put_text("lenet.ini", LENET);
    run_quietly("lenet.ini --set run.dir=seed1");
    run_quietly("lenet.ini --set run.dir=seed1again");
    run_quietly("lenet.ini --set run.dir=seed2 --set train.seed=2");
    assert_true(same_weights("seed1", "seed1again"));
    assert_false(same_weights("seed1", "seed2"));
}

/* The library's backward-weights adds up in another order with other threads. */
static void numbers_of_threads_agree_closely(void **state)
{
    NEED_BINARY();
    put_text("lenet.ini", LENET);
    cli.threads = "1";
    run_quietly("lenet.ini --set run.dir=one_thread");
    cli.threads = "2";
    run_quietly("lenet.ini --set run.dir=two_threads");
    cli.threads = NULL;
    assert_below(weights_apart("one_thread", "two_threads"), 1e-4, "a weight");
}

/* --- micro-batches --- */

static void micro_batches_add_up_to_the_batch(void **state)
{
    NEED_BINARY();
    put_text("lenet.ini", LENET);
    run_quietly("lenet.ini --set run.dir=whole --set train.dump_gradients=whole.safetensors");
    run_quietly("lenet.ini --set run.dir=halves --set train.micro_batch=16 "
                "--set train.dump_gradients=halves.safetensors");
    run_quietly("lenet.ini --set run.dir=halves_wide --set train.micro_batch=16 "
                "--set memory.policy=network_wide");
    char *whole = dt_strdup(in_workspace("whole.safetensors"));
    assert_below(worst_tensor(in_workspace("halves.safetensors"), whole), 1e-5, "a gradient");
    dt_free(whole);
    assert_true(same_weights("halves", "halves_wide"));
}

/* Dropout's masks are drawn by the sample's place in the batch, so they are the same ones. */
/* A linear layer whose second gradient is added some rows at a time: the op that writes and the op
 * that adds are not one. */
static void a_large_gradient_adds_up(void **state)
{
    NEED_BINARY();
    put_text("large.ini", "[model]\nimage = 64\nclasses = 4\n[fc f]\nout = 320\n[relu r]\n"
                          "[fc g]\nout = 4\n[cross_entropy loss]\n[data]\nsource = synthetic\n"
                          "samples = 6\n[train]\nbatch = 6\nsteps = 1\nlr = 1\nseed = 3\n"
                          "precision = fp32\n[run]\ndir = large6\n");
    run_quietly("large.ini --set train.dump_gradients=large6.safetensors");
    run_quietly("large.ini --set run.dir=large2 --set train.micro_batch=2 "
                "--set train.dump_gradients=large2.safetensors");
    char *whole = dt_strdup(in_workspace("large6.safetensors"));
    assert_below(worst_tensor(in_workspace("large2.safetensors"), whole), 1e-5, "a gradient");
    dt_free(whole);
}

static void micro_batches_drop_the_same_values(void **state)
{
    NEED_BINARY();
    put_text("mlp.ini", "[model]\nname = mlp\nwidth = 8\ndropout = 0.5\n[data]\nsamples = 64\n"
                        "[train]\nbatch = 16\nsteps = 4\n");
    run_quietly("mlp.ini --set run.dir=drop16");
    run_quietly("mlp.ini --set run.dir=drop4 --set train.micro_batch=4");
    run_quietly("mlp.ini --set run.dir=keep16 --set model.dropout=0");
    assert_below(weights_apart("drop4", "drop16"), 1e-4, "a weight");
    assert_true(weights_apart("keep16", "drop16") > 1e-2);
}

enum { SAMPLES = 6, SIDE = 2, CHANNELS = 3, PIXELS = SIDE * SIDE };

static void put_tensors(const char *below, const float *x, const int64_t *y)
{
    char header[256];
    blob b = {0};
    const size_t xs = SAMPLES * CHANNELS * PIXELS * sizeof *x, ys = SAMPLES * sizeof *y;
    const int n = snprintf(header, sizeof header,
        "{\"x\":{\"dtype\":\"F32\",\"shape\":[1,%d,%d,%d,%d],\"data_offsets\":[0,%zu]},"
        "\"y\":{\"dtype\":\"I64\",\"shape\":[1,%d],\"data_offsets\":[%zu,%zu]}}",
        SAMPLES, CHANNELS, SIDE, SIDE, xs, SAMPLES, xs, xs + ys);
    blob_little(&b, (uint32_t)n, 4);
    blob_little(&b, 0, 4);
    blob_put(&b, header, (size_t)n);
    blob_put(&b, x, xs);
    blob_put(&b, y, ys);
    put_file(in_workspace(below), b.p, b.n);
    blob_free(&b);
}

/* PyTorch's update for each micro-batch in turn: 0.9 of the old, 0.1 of the micro-batch's mean and
 * of its unbiased variance. */
static void running_statistics_follow_each_micro_batch(void **state)
{
    NEED_BINARY();
    float x[SAMPLES][CHANNELS][PIXELS];
    const int64_t y[SAMPLES] = {0, 1, 1, 0, 1, 0};
    for (int i = 0; i < SAMPLES * CHANNELS * PIXELS; i++)
        (&x[0][0][0])[i] = (float)((i * 37 % 101) - 50) / 16 + (float)(i / 12);
    put_tensors("x.safetensors", &x[0][0][0], y);
    put_text("bn.ini", "[model]\nimage = 2\nclasses = 2\n[batchnorm bn]\n[fc f]\nout = 2\n"
                       "[data]\nsource = tensors\npath = x.safetensors\n"
                       "[train]\nbatch = 6\nmicro_batch = 2\nsteps = 1\n[run]\ndir = bn\n");
    run_quietly("bn.ini");
    float mean[CHANNELS], var[CHANNELS];
    for (int c = 0; c < CHANNELS; c++) {
        double m = 0, v = 1;
        for (int first = 0; first < SAMPLES; first += 2) {
            double sum = 0, squares = 0;
            for (int i = 0; i < 2 * PIXELS; i++)
                sum += (double)x[first + i / PIXELS][c][i % PIXELS];
            for (int i = 0; i < 2 * PIXELS; i++) {
                const double d = (double)x[first + i / PIXELS][c][i % PIXELS] - sum / (2 * PIXELS);
                squares += d * d;
            }
            m = 0.9 * m + 0.1 * sum / (2 * PIXELS);
            v = 0.9 * v + 0.1 * squares / (2 * PIXELS - 1);
        }
        mean[c] = (float)m;
        var[c] = (float)v;
    }
    dt_st_file *f = NULL;
    dt_err err = {0};
    size_t n;
    assert_ok(dt_st_open(&f, in_workspace("bn/" WEIGHTS), &err), &err);
    float *got = read_tensor(f, "bn.running_mean", &n);
    assert_int_equal(n, CHANNELS);
    assert_below(dt_relative_error(got, mean, n), 1e-6, "the running mean");
    dt_free(got);
    got = read_tensor(f, "bn.running_var", &n);
    assert_below(dt_relative_error(got, var, n), 1e-6, "the running variance");
    dt_free(got);
    dt_st_close(f);
}

/* --- epochs --- */

static void last_partial_batches_are_trained_on(void **state)
{
    NEED_BINARY();
    double samples[8];
    put_text("lenet.ini", LENET);
#define PARTIAL "lenet.ini --set train.steps=0 --set train.epochs=2 --set train.batch=8 "
    run_quietly(PARTIAL "--set data.samples=22 --set run.dir=partial");
    run_quietly(PARTIAL "--set data.samples=22 --set run.dir=partial4 --set train.micro_batch=4");
    run_quietly(PARTIAL "--set data.samples=22 --set run.dir=dropped --set train.drop_last=on");
    cJSON *o = summary_of("partial");
    assert_true(json_number(o, "samples") == 44 && json_number(o, "steps") == 6 &&
                json_number(o, "epochs") == 2);
    cJSON_Delete(o);
    o = summary_of("dropped");
    assert_true(json_number(o, "samples") == 32 && json_number(o, "steps") == 4 &&
                json_number(o, "epochs") == 2);
    cJSON_Delete(o);
    assert_int_equal(metrics_of("partial", "train", "epoch", samples, DT_COUNT(samples)), 6);
    assert_true(samples[2] == 0 && samples[3] == 1);
    assert_below(weights_apart("partial4", "partial"), 1e-5, "a weight");
    assert_true(weights_apart("dropped", "partial") > 1e-3);
}

static void what_is_reached_first_ends_the_run(void **state)
{
    NEED_BINARY();
    static const struct {
        int steps, epochs, want;
    } cases[] = {{3, 5, 3}, {9, 2, 4}, {4, 0, 4}, {0, 3, 6}};
    put_text("lenet.ini", LENET);
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        if (!dt_picked(i, 4, 2, 1))
            continue;
        char words[256];
        double steps[16];
        remove_all("length");
        snprintf(words, sizeof words,
            "lenet.ini --set run.dir=length --set data.samples=16 --set train.batch=8 "
            "--set train.steps=%d --set train.epochs=%d",
            cases[i].steps, cases[i].epochs);
        run_quietly(words);
        assert_int_equal(
            metrics_of("length", "train", "step", steps, DT_COUNT(steps)), cases[i].want);
    }
}

/* A set smaller than the batch is one batch of its own size: its mean is over what is there. */
static void a_partial_batch_is_a_batch_of_its_size(void **state)
{
    NEED_BINARY();
    put_text("lenet.ini", LENET);
    run_quietly("lenet.ini --set data.samples=12 --set run.dir=of32");
    run_quietly("lenet.ini --set data.samples=12 --set run.dir=of12 --set train.batch=12");
    assert_below(weights_apart("of32", "of12"), 1e-5, "a weight");
    cJSON *o = summary_of("of32");
    assert_true(json_number(o, "samples") == 72);
    cJSON_Delete(o);
}

/* The set for evaluation has 256 pictures: 5 batches of 48 and one of 16. */
static void evaluation_covers_the_last_partial_batch(void **state)
{
    NEED_BINARY();
    static const char *const keys[] = {"loss", "top1", "top5", "samples"};
    put_text("lenet.ini", LENET);
    run_quietly("lenet.ini --set run.dir=trained");
    for (size_t i = 0; i < DT_COUNT(keys); i++) {
        double trained[4], partial[4];
        if (i == 0)
            run_quietly("lenet.ini --set model.weights=trained/" WEIGHTS
                        " --set train.steps=1 --set train.lr=1e-12 --set train.momentum=0 "
                        "--set train.batch=48 --set run.dir=evaluated");
        assert_int_equal(metrics_of("trained", "eval", keys[i], trained, DT_COUNT(trained)), 1);
        assert_int_equal(metrics_of("evaluated", "eval", keys[i], partial, DT_COUNT(partial)), 1);
        assert_below(fabs(partial[0] - trained[0]) / trained[0], i == 0 ? 1e-6 : 0, keys[i]);
        if (i == 3)
            assert_true(partial[0] == 256);
    }
}

static void weights_of_a_run_go_on_in_another(void **state)
{
    NEED_BINARY();
    double trained[4], again[4];
    put_text("lenet.ini", LENET);
    run_quietly("lenet.ini --set run.dir=from");
    run_quietly("lenet.ini --set run.dir=to --set model.weights=from/" WEIGHTS
                " --set train.steps=1 --set train.lr=1e-12 --set train.momentum=0 "
                "--set memory.policy=network_wide");
    assert_int_equal(metrics_of("from", "eval", "loss", trained, DT_COUNT(trained)), 1);
    assert_int_equal(metrics_of("to", "eval", "loss", again, DT_COUNT(again)), 1);
    assert_true(trained[0] == again[0]);
    assert_below(weights_apart("to", "from"), 1e-9, "a weight");
}

/* One step of plain SGD from the same weights: w - lr * (g + decay * w). */
static void weight_decay_takes_its_share_of_each_weight(void **state)
{
    NEED_BINARY();
    put_text("lenet.ini", LENET);
#define ONE_STEP                                                                                   \
    "lenet.ini --set model.weights=start/" WEIGHTS " --set train.steps=1 --set train.lr=0.5 "      \
    "--set train.momentum=0 "
    run_quietly("lenet.ini --set run.dir=start");
    run_quietly(ONE_STEP "--set train.weight_decay=0 --set run.dir=free");
    run_quietly(ONE_STEP "--set train.weight_decay=0.25 --set run.dir=decayed");
    dt_st_file *f[3] = {NULL};
    static const char *const files[] = {"start/" WEIGHTS, "free/" WEIGHTS, "decayed/" WEIGHTS};
    dt_err err = {0};
    for (int i = 0; i < 3; i++)
        assert_ok(dt_st_open(&f[i], in_workspace(files[i]), &err), &err);
    for (size_t t = 0; t < dti_st_count(f[0]); t++) {
        size_t n;
        float *w[3];
        for (int i = 0; i < 3; i++)
            w[i] = read_tensor(f[i], dti_st_at(f[0], t)->name, &n);
        for (size_t k = 0; k < n; k++)
            w[1][k] -= 0.5f * 0.25f * w[0][k];
        assert_below(dt_relative_error(w[2], w[1], n), 1e-6, dti_st_at(f[0], t)->name);
        for (int i = 0; i < 3; i++)
            dt_free(w[i]);
    }
    for (int i = 0; i < 3; i++)
        dt_st_close(f[i]);
}

static void no_decay_leaves_biases_alone(void **state)
{
    NEED_BINARY();
    put_text("lenet.ini", LENET);
    if (!is_there("start"))
        run_quietly("lenet.ini --set run.dir=start");
    run_quietly(ONE_STEP "--set train.weight_decay=0 --set run.dir=all_free");
    run_quietly(ONE_STEP "--set train.weight_decay=0.25 --set run.dir=all_decayed");
    run_quietly(
        ONE_STEP "--set train.weight_decay=0.25 --set train.no_decay=on --set run.dir=some");
    dt_st_file *f[3] = {NULL};
    static const char *const files[] = {
        "some/" WEIGHTS, "all_free/" WEIGHTS, "all_decayed/" WEIGHTS};
    dt_err err = {0};
    size_t biases = 0;
    for (int i = 0; i < 3; i++)
        assert_ok(dt_st_open(&f[i], in_workspace(files[i]), &err), &err);
    for (size_t t = 0; t < dti_st_count(f[0]); t++) {
        const char *name = dti_st_at(f[0], t)->name;
        const bool bias = strstr(name, "bias") != NULL;
        size_t n;
        float *w[3];
        for (int i = 0; i < 3; i++)
            w[i] = read_tensor(f[i], name, &n);
        assert_memory_equal(w[0], w[bias ? 1 : 2], n * sizeof *w[0]);
        assert_true(memcmp(w[0], w[bias ? 2 : 1], n * sizeof *w[0]) != 0);
        biases += bias;
        for (int i = 0; i < 3; i++)
            dt_free(w[i]);
    }
    assert_true(biases > 0 && biases < dti_st_count(f[0]));
    for (int i = 0; i < 3; i++)
        dt_st_close(f[i]);
}

/* ||a - b||, or ||a|| without b, over all tensors. */
static double distance(const char *a, const char *b)
{
    dt_st_file *f = NULL, *g = NULL;
    dt_err err = {0};
    double sum = 0;
    assert_ok(dt_st_open(&f, a, &err), &err);
    if (b != NULL)
        assert_ok(dt_st_open(&g, b, &err), &err);
    for (size_t t = 0; t < dti_st_count(f); t++) {
        size_t n;
        const char *name = dti_st_at(f, t)->name;
        float *v = read_tensor(f, name, &n), *w = g != NULL ? read_tensor(g, name, &n) : NULL;
        for (size_t i = 0; i < n; i++) {
            const double d = (double)v[i] - (w != NULL ? (double)w[i] : 0);
            sum += d * d;
        }
        dt_free(v);
        dt_free(w);
    }
    dt_st_close(f);
    dt_st_close(g);
    return sqrt(sum);
}

/* Plain SGD moves the weights by lr times the norm, and the norm told is that before clipping. */
static void clipping_scales_all_gradients_together(void **state)
{
    NEED_BINARY();
    double norm[2];
    put_text("lenet.ini", LENET);
    if (!is_there("start"))
        run_quietly("lenet.ini --set run.dir=start");
    run_quietly(ONE_STEP "--set train.weight_decay=0 --set run.dir=unclipped "
                         "--set train.dump_gradients=clip.safetensors");
    run_quietly(ONE_STEP "--set train.weight_decay=0 --set train.clip=0.01 --set run.dir=short");
    run_quietly(ONE_STEP "--set train.weight_decay=0 --set train.clip=1e6 --set run.dir=long");
    run_quietly(ONE_STEP "--set train.weight_decay=0 --set train.clip=0.01 --set run.dir=parts "
                         "--set train.micro_batch=8");
    const double real = distance(in_workspace("clip.safetensors"), NULL);
    assert_true(real > 0.02); /* so it is clipped */
    assert_int_equal(metrics_of("short", "train", "grad_norm", norm, 2), 1);
    assert_below(fabs(norm[0] / real - 1), 1e-6, "the norm");
    assert_int_equal(metrics_of("parts", "train", "grad_norm", norm, 2), 1);
    assert_below(fabs(norm[0] / real - 1), 1e-4, "the norm of micro-batches added up");
    char *start = weights_of("start"), *end = weights_of("short");
    assert_below(fabs(distance(end, start) / (0.5 * 0.01) - 1), 1e-3, "the way");
    dt_free(start);
    dt_free(end);
    assert_true(same_weights("long", "unclipped"));
}

static void label_smoothing_changes_the_loss_that_is_trained_on(void **state)
{
    NEED_BINARY();
    double sharp[2], smooth[2];
    put_text("lenet.ini", LENET);
    if (!is_there("start"))
        run_quietly("lenet.ini --set run.dir=start");
    run_quietly(ONE_STEP "--set run.dir=sharp");
    run_quietly(ONE_STEP "--set run.dir=smooth --set train.label_smoothing=0.5");
    assert_int_equal(metrics_of("sharp", "train", "loss", sharp, 2), 1);
    assert_int_equal(metrics_of("smooth", "train", "loss", smooth, 2), 1);
    assert_true(fabs(sharp[0] - smooth[0]) > 1e-6);
    assert_false(same_weights("sharp", "smooth"));
}

static void every_optimizer_is_exact_under_other_policies(void **state)
{
    NEED_BINARY();
    static const char *const how[] = {"adam", "adamw", "sgd --set train.nesterov=on", "lion"};
    char words[512];
    put_text("lenet.ini", LENET);
    for (size_t i = 0; i < DT_COUNT(how); i++) {
        if (!dt_picked(i, 4, 4, 1))
            continue;
        for (int k = 0; k < 2; k++) {
            snprintf(words, sizeof words,
                "lenet.ini --set run.dir=o%zu%d --set memory.policy=%s --set train.clip=0.5 "
                "--set train.lr=0.001 --set train.schedule=cosine --set train.warmup=2 "
                "--set train.optimizer=%s",
                i, k, k == 0 ? "keep_all" : "vdnn_all", how[i]);
            run_quietly(words);
        }
        char a[16], b[16];
        snprintf(a, sizeof a, "o%zu0", i);
        snprintf(b, sizeof b, "o%zu1", i);
        assert_true(same_weights(a, b));
    }
    assert_true(!dt_whole_scale() || !same_weights("o00", "o10"));
}

static void milestones_lower_the_learning_rate(void **state)
{
    NEED_BINARY();
    double lr[32];
    put_text("lenet.ini", LENET);
    run_quietly("lenet.ini --set run.dir=steps --set data.samples=20 --set train.batch=10 "
                "--set train.steps=0 --set train.epochs=5 --set train.schedule=step "
                "--set train.milestones=1,3 --set train.gamma=0.5 --set train.lr=0.08");
    assert_int_equal(metrics_of("steps", "train", "lr", lr, DT_COUNT(lr)), 10);
    for (int i = 0; i < 10; i++) {
        const int epoch = i / 2;
        const double want = epoch < 1 ? 0.08 : epoch < 3 ? 0.04 : 0.02;
        assert_below(fabs(lr[i] - want), 1e-9, "lr");
    }
}

static void training_learns(void **state)
{
    NEED_BINARY();
    if (dt_small_scale()) /* sanitizers see in fewer steps what there is to see */
        skip();
    double loss[128], top1[16];
    put_text("lenet.ini", LENET);
    run_quietly("lenet.ini --set run.dir=learnt --set data.samples=512 --set train.steps=96");
    assert_int_equal(metrics_of("learnt", "train", "loss", loss, DT_COUNT(loss)), 96);
    const int n = metrics_of("learnt", "eval", "top1", top1, DT_COUNT(top1));
    assert_true(n > 0 && loss[95] < 0.7 * loss[0]);
    assert_true(top1[n - 1] > 0.3); /* of 8 classes, 1 in 8 by chance */
}

/* --- signals --- */

static off_t metrics_bytes(const char *run)
{
    struct stat st;
    char below[128];
    snprintf(below, sizeof below, "%s/metrics.jsonl", run);
    return stat(in_workspace(below), &st) == 0 ? st.st_size : 0;
}

/* A few steps more than @bytes of metrics tell of. */
static void wait_for_steps(const char *run, off_t bytes)
{
    for (int i = 0; i < 4000; i++) {
        if (metrics_bytes(run) > bytes + 500)
            return;
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
    fail_msg("no steps within 20 seconds");
}

static void a_signal_ends_a_run_after_saving(void **state)
{
    NEED_BINARY();
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGXCPU};
    put_text("lenet.ini", LENET);
    for (size_t i = 0; i < DT_COUNT(signals); i++) {
        if (!dt_picked(i, 5, 2, 1))
            continue;
        static double steps[1 << 20];
        remove_all("stopped");
        const pid_t child =
            cli_start("lenet.ini --set run.dir=stopped --set train.steps=1000000000", NULL);
        wait_for_steps("stopped", 0);
        assert_int_equal(kill(child, signals[i]), 0);
        for (int again = 0; again < 20 && signals[i] != SIGTERM && signals[i] != SIGINT; again++) {
            nanosleep(&(struct timespec){0, 200000}, NULL); /* as some come again by themselves */
            (void)kill(child, signals[i]);
        }
        ran r = cli_wait(child);
        assert_code(&r, DT_E_STOPPED);
        cJSON *o = summary_of("stopped");
        char discarded[64], goes_on[64];
        const int made = (int)json_number(o, "steps"); /* steps are counted from 1, everywhere */
        snprintf(discarded, sizeof discarded, "stopped in step %d, which is discarded", made + 1);
        snprintf(goes_on, sizeof goes_on, "goes on after step %d", made);
        assert_has(r.err, discarded);
        assert_has(r.err, goes_on);
        cli_done(&r);
        assert_true(is_text(o, "status", "stopped") && json_number(o, "exit_code") == DT_E_STOPPED);
        assert_int_equal(metrics_of("stopped", "train", "step", steps, DT_COUNT(steps)),
            (int)json_number(o, "steps"));
        cJSON_Delete(o);
        remove_all("go_on");
        run_quietly("lenet.ini --set run.dir=go_on --set model.weights=stopped/" WEIGHTS
                    " --set train.steps=1");
    }
}

static void ignore_hangup(void)
{
    signal(SIGHUP, SIG_IGN);
}

/* As under nohup: what the caller ignores stays ignored. */
static void a_signal_that_is_ignored_stays_so(void **state)
{
    NEED_BINARY();
    put_text("lenet.ini", LENET);
    remove_all("stopped");
    cli.child = ignore_hangup;
    const pid_t child =
        cli_start("lenet.ini --set run.dir=stopped --set train.steps=1000000000", NULL);
    cli.child = NULL;
    wait_for_steps("stopped", 0);
    assert_int_equal(kill(child, SIGHUP), 0);
    wait_for_steps("stopped", metrics_bytes("stopped"));
    assert_int_equal(kill(child, SIGTERM), 0);
    ran r = cli_wait(child);
    assert_code(&r, DT_E_STOPPED);
    cli_done(&r);
}

/* A signal that comes earlier ends any program. */
static void wait_until_caught(pid_t child, int number)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/status", (int)child);
    for (int i = 0; i < 4000; i++) {
        uint64_t caught = 0;
        FILE *f = fopen(path, "r");
        assert_non_null(f);
        while (fgets(line, sizeof line, f) != NULL)
            (void)sscanf(line, "SigCgt: %" SCNx64, &caught);
        fclose(f);
        if (caught >> (number - 1) & 1)
            return;
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
    fail_msg("signal %d is not caught within 20 seconds", number);
}

/* Of a billion plans, which nobody waits for. */
static void a_signal_ends_a_search(void **state)
{
    NEED_BINARY();
    put_text("searched.ini",
        "[model]\nname = resnet20\n[data]\nsource = synthetic\n[train]\nbatch = 16\nsteps = 1\n"
        "[memory]\npolicy = swapadvisor\ndevice_budget = 20MiB\n"
        "[policy.swapadvisor]\nsamples = 1000000000\n");
    const pid_t child = cli_start("searched.ini --set run.dir=searched", NULL);
    wait_until_caught(child, SIGUSR1);
    assert_int_equal(kill(child, SIGUSR1), 0);
    ran r = cli_wait(child);
    assert_code(&r, DT_E_STOPPED);
    assert_string_equal(r.err, "dnntrain: stopped before the run began: nothing is written\n");
    cli_done(&r);
    assert_false(is_there("searched"));
}

/* Of a profile that a run without one takes first, at the end of which it would say so. */
static void a_signal_ends_a_profile(void **state)
{
    NEED_BINARY();
    put_text("profiled.ini",
        "[model]\nname = resnet20\n[data]\nsource = synthetic\n[train]\nbatch = 64\nsteps = 1\n"
        "[memory]\npolicy = capuchin\nprofile = auto\n");
    const pid_t child = cli_start("profiled.ini --set run.dir=profiled", NULL);
    wait_until_caught(child, SIGUSR1);
    assert_int_equal(kill(child, SIGUSR1), 0);
    ran r = cli_wait(child);
    assert_code(&r, DT_E_STOPPED);
    assert_has(r.err, "dnntrain: stopped before the run began: nothing is written\n");
    assert_null(strstr(r.err, "memory.profile = auto: measured"));
    assert_null(strstr(r.err, "kept for memory.profile"));
    cli_done(&r);
    assert_false(is_there("profiled"));
}

/* Both signals wait while the process is stopped, so neither can come too late. */
static void a_second_signal_ends_it_at_once(void **state)
{
    NEED_BINARY();
    put_text("lenet.ini", LENET);
    cli.threads = "1";
    const pid_t child =
        cli_start("lenet.ini --set run.dir=killed --set train.steps=1000000000", NULL);
    cli.threads = NULL;
    wait_for_steps("killed", 0);
    assert_int_equal(kill(child, SIGSTOP), 0);
    assert_int_equal(kill(child, SIGTERM), 0);
    assert_int_equal(kill(child, SIGINT), 0);
    assert_int_equal(kill(child, SIGCONT), 0);
    ran r = cli_wait(child);
    if (r.code != 128 + SIGTERM && r.code != 128 + SIGINT)
        assert_code(&r, 128 + SIGINT);
    cli_done(&r);
    assert_false(is_there("killed/" WEIGHTS));
    dt_free(snapshot("killed")); /* no temporary file is left */
    r = cli_run("lenet.ini --set run.dir=killed", NULL);
    assert_code(&r, DT_E_BUSY);
    assert_has(r.err, "holds a run that did not finish");
    cli_done(&r);
}

#define T(f) cmocka_unit_test(f)
DT_TEST_GROUP(training)
{
    const struct CMUnitTest tests[] = {
        T(six_steps_agree_with_pytorch),
        T(a_transformer_under_adamw_agrees_with_pytorch),
        T(equal_seeds_give_equal_bytes),
        T(numbers_of_threads_agree_closely),
        T(micro_batches_add_up_to_the_batch),
        T(a_large_gradient_adds_up),
        T(micro_batches_drop_the_same_values),
        T(running_statistics_follow_each_micro_batch),
        T(last_partial_batches_are_trained_on),
        T(what_is_reached_first_ends_the_run),
        T(a_partial_batch_is_a_batch_of_its_size),
        T(evaluation_covers_the_last_partial_batch),
        T(weights_of_a_run_go_on_in_another),
        T(weight_decay_takes_its_share_of_each_weight),
        T(no_decay_leaves_biases_alone),
        T(clipping_scales_all_gradients_together),
        T(label_smoothing_changes_the_loss_that_is_trained_on),
        T(every_optimizer_is_exact_under_other_policies),
        T(milestones_lower_the_learning_rate),
        T(training_learns),
        T(a_signal_ends_a_run_after_saving),
        T(a_signal_that_is_ignored_stays_so),
        T(a_second_signal_ends_it_at_once),
        T(a_signal_ends_a_search),
        T(a_signal_ends_a_profile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
