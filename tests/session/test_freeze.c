/* Layers that stay as they are (train.freeze): what becomes of them, of their gradients and of what
 * is kept for them; under every kind of policy the same bits. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/checkpoint/safetensors.h"
#include "tests/fixture/json_read.h"
#include "tests/fixture/run_cli.h"
#include "tests/fixture/workspace.h"

/* Of the layers the first five can be frozen: batch norm and dropout are among them. */
#define LAYERS HEAD(3)
#define HEAD(classes)                                                                              \
    "[conv base.c1]\nout = 8\nkernel = 3\npad = 1\n[batchnorm base.n1]\n[relu base.r1]\n"          \
    "[conv base.c2]\nout = 8\nkernel = 3\npad = 1\n[dropout base.d]\nrate = 0.5\n"                 \
    "[conv head.c]\nout = 6\nkernel = 3\npad = 1\n[relu head.r]\n[global_avgpool head.g]\n"        \
    "[fc head.f]\nout = " #classes "\n"
#define TRAIN                                                                                      \
    "[model]\nimage = 8\nclasses = 3\n[data]\nsource = synthetic\nsamples = 32\n[train]\n"         \
    "batch = 8\nlr = 0.1\nmomentum = 0.9\neval_every = 0\nprecision = fp32\n[device]\n"            \
    "threads = 1\n[run]\noverwrite = on\n"
#define FROZEN "--set train.freeze=base.* "
#define BEGIN "--set model.weights=base/checkpoints/model.safetensors "

static void run_well(const char *sets)
{
    char words[512];
    snprintf(words, sizeof words, "net.ini %s", sets);
    ran r = cli_run(words, NULL);
    assert_code(&r, 0);
    cli_done(&r);
}

static void refused(const char *sets, const char *says)
{
    char words[512];
    snprintf(words, sizeof words, "net.ini %s", sets);
    ran r = cli_run(words, NULL);
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, says);
    cli_done(&r);
}

/* A base that has learned something, in base/. */
static void learn_base(void)
{
    put_text("net.ini", TRAIN LAYERS);
    run_well("--set train.steps=6 --set run.dir=base");
}

static dt_st_file *tensors(const char *below)
{
    dt_st_file *f = NULL;
    dt_err err = {0};
    assert_ok(dt_st_open(&f, in_workspace(below), &err), &err);
    return f;
}

static void *read_tensor(const dt_st_file *f, const char *name, size_t *bytes)
{
    const dt_st_entry *e = dt_st_find(f, name);
    dt_err err = {0};
    if (e == NULL)
        fail_msg("no tensor %s", name);
    void *v = malloc(e->bytes);
    assert_non_null(v);
    assert_ok(dt_st_read(f, e, 0, v, e->bytes, &err), &err);
    *bytes = e->bytes;
    return v;
}

static bool same_tensor(const dt_st_file *a, const dt_st_file *b, const char *name)
{
    size_t na, nb;
    void *va = read_tensor(a, name, &na), *vb = read_tensor(b, name, &nb);
    const bool same = na == nb && memcmp(va, vb, na) == 0;
    free(va);
    free(vb);
    return same;
}

#define LEFT(run) run "/checkpoints/model.safetensors"

/* All that begins with "base." is as it was, statistics too, and all else is not. */
static void what_is_frozen_stays_as_it_is(void **state)
{
    NEED_BINARY();
    learn_base();
    run_well(BEGIN FROZEN "--set train.steps=5 --set run.dir=tuned");
    dt_st_file *before = tensors(LEFT("base")), *after = tensors(LEFT("tuned"));
    int stayed = 0, changed = 0;
    for (size_t i = 0; i < dti_st_count(before); i++) {
        const char *name = dti_st_at(before, i)->name;
        const bool frozen = strncmp(name, "base.", strlen("base.")) == 0;
        if (same_tensor(before, after, name) != frozen)
            fail_msg("%s is %s", name, frozen ? "changed" : "as it was");
        stayed += frozen;
        changed += !frozen;
    }
    assert_true(stayed == 8 && changed == 4);
    assert_int_equal(dti_st_count(after), dti_st_count(before));
    dt_st_close(before);
    dt_st_close(after);
}

/* Of a step with @freeze the gradients are those of some weights, and the same. */
static void same_gradients(const char *freeze, size_t of_all, size_t of_some)
{
    char words[512];
    run_well("--set train.steps=1 --set run.dir=all --set train.dump_gradients=all.safetensors");
    snprintf(words, sizeof words,
        "--set train.freeze=%s --set train.steps=1 --set run.dir=some "
        "--set train.dump_gradients=some.safetensors",
        freeze);
    run_well(words);
    dt_st_file *all = tensors("all.safetensors"), *some = tensors("some.safetensors");
    assert_int_equal(dti_st_count(all), of_all);
    assert_int_equal(dti_st_count(some), of_some);
    for (size_t i = 0; i < dti_st_count(some); i++)
        assert_true(same_tensor(all, some, dti_st_at(some, i)->name));
    dt_st_close(all);
    dt_st_close(some);
}

/* Without norms over the batch and dropout, which frozen layers compute otherwise. The output layer
 * of GPT-2 has the weight of its embedding, and gives on no more than the gradient of what it
 * reads.
 */
static void gradients_of_the_rest_are_those_of_the_whole(void **state)
{
    NEED_BINARY();
    char text[2001];
    put_text("net.ini",
        TRAIN "[conv base.c1]\nout = 8\nkernel = 3\npad = 1\n[relu base.r1]\n[maxpool base.p]\n"
              "kernel = 2\n[conv head.c]\nout = 6\nkernel = 3\n[relu head.r]\n[fc head.f]\n"
              "out = 3\n");
    same_gradients("base.*", 6, 4);
    for (int i = 0; i < 2000; i++)
        text[i] = (char)('a' + (i * i / 3 + i / 7) % 18);
    text[2000] = '\0';
    put_text("corpus.txt", text);
    put_text("net.ini",
        "[model]\nname = gpt2\nlayers = 2\nwidth = 16\nheads = 2\nvocab = 18\ncontext = 8\n"
        "dropout = 0\n[data]\nsource = text\npath = corpus.txt\n[train]\nbatch = 4\n"
        "precision = fp32\neval_every = 0\n[device]\nthreads = 1\n[run]\noverwrite = on\n");
    same_gradients("wte,wpe,h.0.*", 28, 14);
}

/* Eight samples of 3 x 8 x 8 values, in one step. */
static void put_samples(const char *below)
{
    enum { N = 8, EACH = 3 * 8 * 8 };
    static const char header[] =
        "{\"x\":{\"dtype\":\"F32\",\"shape\":[1,8,3,8,8],\"data_offsets\":[0,6144]},"
        "\"y\":{\"dtype\":\"I64\",\"shape\":[1,8],\"data_offsets\":[6144,6208]}}";
    const uint64_t bytes = strlen(header);
    float x[N * EACH];
    int64_t y[N];
    for (int i = 0; i < N * EACH; i++)
        x[i] = (float)(i * 37 % 101) / 50 - (float)(i / EACH % 3) / 4;
    for (int i = 0; i < N; i++)
        y[i] = i % 3;
    FILE *f = fopen(in_workspace(below), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(&bytes, sizeof bytes, 1, f), 1);
    assert_int_equal(fwrite(header, strlen(header), 1, f), 1);
    assert_int_equal(fwrite(x, sizeof x, 1, f), 1);
    assert_int_equal(fwrite(y, sizeof y, 1, f), 1);
    assert_int_equal(fclose(f), 0);
}

/* The loss of the first step, in metrics.jsonl. */
static double first_loss(const char *below)
{
    char *text = cli_text(in_workspace(below));
    const char *at = strstr(text, "\"loss\":");
    assert_non_null(at);
    const double loss = strtod(at + strlen("\"loss\":"), NULL);
    dt_free(text);
    return loss;
}

/* Where all with norms and dropout is frozen, a step's loss is that of an evaluation of the same
 * samples; where it is not, it is another. */
static void frozen_layers_compute_as_in_an_evaluation(void **state)
{
    NEED_BINARY();
    put_samples("eight.safetensors");
    put_text("net.ini",
        "[model]\nimage = 8\nclasses = 3\n[data]\nsource = tensors\npath = eight.safetensors\n"
        "eval_path = eight.safetensors\n[train]\nbatch = 8\nlr = 0.003\nprecision = fp32\n"
        "[device]\nthreads = 1\n[run]\noverwrite = on\n[conv base.c1]\nout = 8\nkernel = 3\n"
        "[batchnorm base.n1]\n[dropout base.d]\n[fc head.f]\nout = 3\n");
    run_well("--set train.steps=6 --set run.dir=base");
    ran r = cli_run("eval base --json", NULL);
    assert_code(&r, 0);
    cJSON *o = json_of(r.out, strlen(r.out));
    const double evaluated = json_number(o, "loss");
    cJSON_Delete(o);
    cli_done(&r);
    run_well(BEGIN FROZEN "--set train.steps=1 --set run.dir=frozen");
    run_well(BEGIN "--set train.steps=1 --set run.dir=trained");
    const double frozen = first_loss("frozen/metrics.jsonl");
    if (!(evaluated > 0 && fabs(frozen - evaluated) < 1e-6 * evaluated))
        fail_msg("a step's loss is %.9g, an evaluation's %.9g", frozen, evaluated);
    assert_true(fabs(first_loss("trained/metrics.jsonl") - evaluated) > 1e-3 * evaluated);
}

static double number_in(const char *below, const char *key)
{
    char *text = cli_text(in_workspace(below));
    cJSON *o = json_of(text, strlen(text));
    const double v = json_number(o, key);
    cJSON_Delete(o);
    dt_free(text);
    return v;
}

static void every_policy_leaves_the_same_weights(void **state)
{
    NEED_BINARY();
    static const char *const ways[] = {"--set memory.policy=chen_sqrt",
        "--set memory.policy=vdnn_all --set memory.tier=disk --set memory.disk_path=.",
        "--set memory.policy=gist_lossless", "--set memory.policy=zero_offload",
        "--set memory.policy=zero_infinity --set memory.tier=disk --set memory.disk_path=.",
        "--set memory.policy=capuchin,vdnn_all", "--set train.update=early --set train.finite=off",
        "--set memory.policy=chen_cheap --set model.fuse=off"};
    char words[512];
    learn_base();
    run_well(BEGIN FROZEN "--set train.steps=4 --set run.dir=kept");
    dt_st_file *kept = tensors(LEFT("kept"));
    for (size_t w = 0; w < DT_COUNT(ways); w++) {
        snprintf(words, sizeof words, BEGIN FROZEN "--set train.steps=4 --set run.dir=other %s",
            ways[w]);
        run_well(words);
        dt_st_file *other = tensors(LEFT("other"));
        for (size_t i = 0; i < dti_st_count(kept); i++)
            if (!same_tensor(kept, other, dti_st_at(kept, i)->name))
                fail_msg("%s: %s", ways[w], dti_st_at(kept, i)->name);
        dt_st_close(other);
        const double planned = number_in("other/summary.json", "device_peak_planned");
        assert_true(planned > 0);
        assert_true(planned - number_in("other/summary.json", "device_peak_measured") < 0.5);
        assert_true(number_in("other/summary.json", "device_peak_measured") - planned < 0.5);
    }
    dt_st_close(kept);
}

static double peak_of(const char *sets)
{
    char words[512];
    snprintf(words, sizeof words, "plan net.ini --json %s", sets);
    ran r = cli_run(words, NULL);
    assert_code(&r, 0);
    cJSON *o = json_of(r.out, strlen(r.out));
    const double v = json_number(cJSON_GetObjectItem(o, "device"), "peak");
    cJSON_Delete(o);
    cli_done(&r);
    return v;
}

/* No gradient, no momentum, and no value of the frozen layers waits for backward. */
static void what_is_frozen_takes_less_memory(void **state)
{
    NEED_BINARY();
    put_text("net.ini", TRAIN LAYERS);
    const double all = peak_of(""), some = peak_of(FROZEN);
    const double head = peak_of(FROZEN "--set train.freeze=base.*,head.c,head.r");
    assert_true(head < some && some < 0.8 * all);
    ran r = cli_run("plan net.ini " FROZEN, NULL);
    assert_code(&r, 0);
    assert_has(r.out, "1,283 parameters, 824 frozen\n");
    assert_has(r.err, "these layers stay as they are drawn at random");
    cli_done(&r);
    /* beside what else is to be said, each on a line of its own */
    r = cli_run("plan net.ini " FROZEN "--set memory.profile=auto --set train.gamma=0.5", NULL);
    assert_code(&r, 0);
    assert_has(r.err, "dnntrain: --set: [train] gamma = 0.5: counts for schedule = step alone\n");
    assert_has(r.err, "drawn at random\ndnntrain: memory.profile = auto: there is none of this ");
    cli_done(&r);
}

static void a_run_goes_on_with_what_is_frozen(void **state)
{
    NEED_BINARY();
    learn_base();
    run_well(BEGIN FROZEN "--set train.steps=6 --set run.dir=straight");
    run_well(BEGIN FROZEN "--set train.steps=3 --set run.dir=parts");
    run_well(BEGIN FROZEN "--set train.steps=6 --set run.dir=parts --set run.overwrite=off "
                          "--set checkpoint.resume=auto");
    dt_st_file *straight = tensors(LEFT("straight")), *parts = tensors(LEFT("parts"));
    for (size_t i = 0; i < dti_st_count(straight); i++)
        assert_true(same_tensor(straight, parts, dti_st_at(straight, i)->name));
    dt_st_close(straight);
    dt_st_close(parts);
}

#define FIVE(more)                                                                                 \
    "[model]\nimage = 8\nclasses = 5\n" more                                                       \
    "[data]\nsource = synthetic\nsamples = 320\n[train]\n"                                         \
    "batch = 8\nlr = 1e-12\nmomentum = 0\neval_every = 0\nweight_decay = 0\n[device]\n"            \
    "threads = 1\n[run]\noverwrite = on\n"

/* Another number of classes: the base is the file's, the head begins as in a run without a file,
 * and what the run left is evaluated as it is, however the run began. */
static void what_is_fresh_is_not_taken_from_the_file(void **state)
{
    NEED_BINARY();
    learn_base();
    put_text("net.ini", FIVE("") HEAD(5));
    ran r = cli_run("net.ini " BEGIN, NULL);
    assert_code(&r, DT_E_DATA);
    assert_has(r.err, "in a network of layers [fc head.f] out = 3;");
    assert_has(r.err, "name its weights in model.fresh, as in head.f.*");
    cli_done(&r);
    run_well(BEGIN FROZEN "--set model.fresh=head.f.* --set train.steps=1 --set run.dir=other");
    run_well("--set train.steps=1 --set run.dir=first");
    dt_st_file *base = tensors(LEFT("base")), *other = tensors(LEFT("other")),
               *first = tensors(LEFT("first"));
    for (size_t i = 0; i < dti_st_count(other); i++) {
        const char *name = dti_st_at(other, i)->name;
        const bool fresh = strncmp(name, "head.f.", strlen("head.f.")) == 0;
        assert_true(same_tensor(fresh ? first : base, other, name));
    }
    dt_st_close(base);
    dt_st_close(other);
    dt_st_close(first);
    r = cli_run("eval other --json", NULL);
    assert_code(&r, 0);
    cJSON *o = json_of(r.out, strlen(r.out));
    const double said = number_in("other/summary.json", "eval_loss");
    assert_true(fabs(json_number(o, "loss") - said) < 1e-6 * said);
    cJSON_Delete(o);
    cli_done(&r);
    /* So it is where the configuration that it began with is asked about what it left. */
    put_text("net.ini", FIVE("fresh = head.f.*\n") HEAD(5));
    run_well(BEGIN "--set train.lr=0.1 --set train.steps=4 --set run.dir=taught");
    r = cli_run(
        "eval net.ini --json --set model.weights=taught/checkpoints/model.safetensors", NULL);
    assert_code(&r, 0);
    o = json_of(r.out, strlen(r.out));
    const double taught = number_in("taught/summary.json", "eval_loss");
    assert_true(fabs(json_number(o, "loss") - taught) < 1e-6 * taught);
    cJSON_Delete(o);
    cli_done(&r);
    put_text("net.ini", FIVE("") HEAD(5));
    refused(BEGIN "--set model.fresh=tail.*", "the network has no weight 'tail.*'");
    refused(BEGIN "--set model.fresh=tail.*", "--set: [model] fresh = tail.*\n");
    refused("--set model.fresh=head.f.*", "without model.weights all begin so");
}

static void what_cannot_be_frozen_is_refused(void **state)
{
    NEED_BINARY();
    put_text("net.ini", TRAIN LAYERS);
    refused("--set train.freeze=head.c", "layer 'head.c' is behind 'base.c1', which is trained");
    refused("--set train.freeze=base.c1,base.c2", "layer 'base.c2' is behind 'base.n1'");
    refused("--set train.freeze=bas.*", "'bas.*' matches no layer; the 9 layers are 'base.c1' to");
    refused("--set train.freeze=base.c3", "matches no layer, did you mean 'base.c");
    refused("--set train.freeze=base.c3 --set train.rates=zz:3", "'zz' matches no layer");
    refused("--set train.freeze=*", "no layer is left to train");
    put_text("net.ini", /* a is trained, and not on the way to c */
        TRAIN "[conv a]\ninput = image\nout = 4\nkernel = 1\n[conv b]\ninput = image\nout = 4\n"
              "kernel = 1\n[relu r]\n[conv c]\nout = 4\nkernel = 1\n[add s]\ninput = a, c\n"
              "[fc f]\nout = 3\n");
    refused("--set train.freeze=c", "layer 'c' is behind 'b', which is trained");
    put_text("net.ini",
        "[model]\nname = gpt2\nlayers = 1\nwidth = 16\nheads = 2\nvocab = 64\ncontext = 8\n"
        "[data]\nsource = synthetic\n[train]\nbatch = 2\nsteps = 1\n");
    refused("--set train.freeze=h.0.*", "is behind 'wte', which is trained");
}

/* Found before anything is planned, at the layer's section: as soon as a configuration is read. */
static void layers_that_no_gradient_reaches_are_refused(void **state)
{
    NEED_BINARY();
    put_text("net.ini", TRAIN "[conv c]\nout = 4\nkernel = 1\n[relu r]\n"
                              "[maxpool_index m]\nkernel = 1\n[fc f]\nout = 3\n");
    static const char says[] = "net.ini:20: [relu r]: no gradient reaches 'r': 'm' (maxpool_index) "
                               "reads it and gives none";
    refused("", says);
    run_well("--set train.steps=1 --set train.freeze=c --set run.dir=kept");
    put_text("net.ini", TRAIN "[conv c]\nout = 1\nkernel = 1\n"
                              "[embedding e]\nvocab = 10\nout = 4\n[fc f]\nout = 3\n");
    ran r = cli_run("config --check net.ini", NULL);
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "'e' (embedding) reads it and gives none");
    cli_done(&r);
}

DT_TEST_GROUP(freeze)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_frozen_stays_as_it_is),
        cmocka_unit_test(gradients_of_the_rest_are_those_of_the_whole),
        cmocka_unit_test(frozen_layers_compute_as_in_an_evaluation),
        cmocka_unit_test(every_policy_leaves_the_same_weights),
        cmocka_unit_test(what_is_frozen_takes_less_memory),
        cmocka_unit_test(a_run_goes_on_with_what_is_frozen),
        cmocka_unit_test(what_is_fresh_is_not_taken_from_the_file),
        cmocka_unit_test(what_cannot_be_frozen_is_refused),
        cmocka_unit_test(layers_that_no_gradient_reaches_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
