/* What users get wrong, and what they are told of it. */
#define _GNU_SOURCE /* sched_setaffinity */

#include "tests/fixture/json_read.h"
#include "tests/fixture/run_cli.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "data/source.h"
#include "engine/config/run_options.h"
#include "layers/registry.h"
#include "memory/policy.h"
#include "memory/remat/remat.h"
#include "session/human.h"
#include "tools/args.h"

#define LENET "[model]\nname = lenet5\n[data]\nsamples = 64\n[train]\nbatch = 16\nsteps = 1\n"

static const char *lenet(void)
{
    return cli_file("lenet.ini", LENET);
}

static cJSON *plan_json(const char *words, const char *file)
{
    ran r = cli_run(words, file);
    assert_code(&r, 0);
    cJSON *o = json_of(r.out, strlen(r.out));
    cli_done(&r);
    return o;
}

static const char *wide_heads(void)
{
    return cli_file("heads.ini",
        "[model]\nname = gpt2\nlayers = 1\nwidth = 256\nheads = 2\ncontext = 16\nvocab = 64\n"
        "[data]\nsource = synthetic\n[train]\nbatch = 2\n");
}

/* A block of backward takes 105,472 bytes for heads of 128 channels in fp32. */
static void heads_that_a_card_has_no_room_for_are_refused_where_they_are_planned(void **state)
{
    NEED_BINARY();
    static const struct {
        const char *sets;
        int code;
    } all[] = {
        {"--set device.card=rtx3090", DT_E_CONFIG},
        {"--set device.card=rtx3090 --set train.precision=bf16", 0},
        {"--set device.card=rtx3090 --set model.heads=4", 0},
        {"--set device.card=h100", 0},
    };
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        char words[256];
        snprintf(words, sizeof words, "plan FILE --set device.kind=cuda %s", all[i].sets);
        ran r = cli_run(words, wide_heads());
        if (strstr(r.err, "built without") == NULL) {
            assert_code(&r, all[i].code);
            assert_true((strstr(r.err, "takes 105472 bytes of shared memory") != NULL) ==
                        (all[i].code != 0));
        }
        cli_done(&r);
    }
}

/* ---- the machine ---- */

static void a_file_is_written_into_a_folder_that_is_there(void **state)
{
    NEED_BINARY();
    ran r = cli_run("plan FILE --map /nope/x.svg", lenet());
    assert_code(&r, DT_E_IO);
    assert_has(r.err,
        "'/nope/x.svg' cannot be written: No such file or directory; name a file in a folder that "
        "is there");
    cli_done(&r);
}

static void a_missing_folder_of_the_disk_tier_is_no_lack_of_memory(void **state)
{
    NEED_BINARY();
    ran r = cli_run("FILE --set memory.policy=vdnn_all --set memory.tier=disk "
                    "--set memory.disk_path=/nope",
        lenet());
    assert_code(&r, DT_E_IO);
    assert_has(r.err, "there is no folder '/nope' for the disk tier's file: create it, or name");
    assert_has(r.err, "--set memory.disk_path=FOLDER");
    assert_has_not(r.err, "which this machine does not give");
    cli_done(&r);
    const char *plan = "plan FILE --set memory.policy=vdnn_all --set memory.tier=disk "
                       "--set memory.disk_path=/nope";
    r = cli_run(plan, lenet());
    assert_code(&r, 0);
    assert_has(r.out, ": CANNOT START");
    assert_has_not(r.out, "fits here");
    assert_has(
        r.out, "\ndisk folder  '/nope': No such file or directory; a run here would be refused");
    assert_has(r.out, "memory.disk_path=FOLDER");
    cli_done(&r);
    r = cli_run("plan FILE --set memory.disk_path=/nope", lenet()); /* nothing is moved */
    assert_code(&r, 0);
    assert_has_not(r.out, "/nope");
    cli_done(&r);
}

static void a_plan_tells_what_this_machine_lacks(void **state)
{
    NEED_BINARY();
    ran r = cli_run(
        "plan FILE --set train.batch=8192", cli_file("large.ini", "[model]\nname = resnet50\n"));
    assert_code(&r, 0);
    assert_has(r.out, "no budget given");
    assert_has(r.out, "\nthis machine has less: ");
    cli_done(&r);
    r = cli_run("plan FILE", lenet());
    assert_code(&r, 0);
    assert_has_not(r.out, "this machine");
    cli_done(&r);
    for (int large = 0; large < 2; large++) {
        cJSON *o = plan_json(large ? "plan FILE --json --set train.batch=8192" : "plan FILE --json",
            cli_file("large.ini", large ? "[model]\nname = resnet50\n" : LENET));
        const cJSON *m = cJSON_GetObjectItemCaseSensitive(o, "machine");
        const cJSON *fits = cJSON_GetObjectItemCaseSensitive(m, "fits");
        assert_true(large ? cJSON_IsFalse(fits) : cJSON_IsTrue(fits));
        const cJSON *memory = cJSON_GetObjectItemCaseSensitive(m, "memory"),
                    *needed = cJSON_GetObjectItemCaseSensitive(m, "needed");
        assert_true(cJSON_IsNumber(memory) && cJSON_IsNumber(needed));
        assert_true((needed->valuedouble > memory->valuedouble) == (large != 0));
        assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "fits"))); /* the budgets */
        cJSON_Delete(o);
    }
}

/* What it takes, whether that is there, and what it costs, before anything else. */
static void a_plan_begins_with_the_answer(void **state)
{
    NEED_BINARY();
    static const struct {
        const char *sets, *says[2];
        int code;
    } all[] = {
        {"", {" on the device: fits here; nothing is moved or computed again\n", NULL}, 0},
        {"--set memory.device_budget=1GiB", {" on the device: fits the budget; ", NULL}, 0},
        {"--set memory.device_budget=100KiB", {" on the device: DOES NOT FIT the budget; ", NULL},
            4},
        {"--set memory.policy=vdnn_all", {" on the host", "; a step moves "}, 0},
        {"--set memory.policy=chen_sqrt --set memory.simulate=p100",
            {" % again, a step takes ", " s (simulated)\n"}, 0},
        {"--set memory.policy=gist --set train.precision=fp32", {"results change", NULL}, 0},
        {"--set device.card=rtx3090 --set device.kind=cuda", {": fits that card; ", NULL}, 0},
    };
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        char words[256], answer[1024];
        snprintf(words, sizeof words, "plan FILE %s", all[i].sets);
        ran r = cli_run(words, lenet());
        if (strstr(all[i].sets, "card") != NULL && r.code == DT_E_CONFIG) {
            cli_done(&r); /* built without CUDA */
            continue;
        }
        assert_code(&r, all[i].code);
        const char *end = strstr(r.out, "\n\n");
        assert_non_null(end);
        size_t n = 0;
        for (const char *c = r.out; c <= end && n + 1 < sizeof answer; c++)
            answer[n++] = c < end && *c == '\n' ? ' ' : *c; /* it may be two lines */
        answer[n] = '\0';
        for (size_t k = 0; k < 2 && all[i].says[k] != NULL; k++)
            assert_has(answer, all[i].says[k]);
        cli_done(&r);
    }
}

/* ---- words ---- */

/* What has nothing to do with each other in one run of the program; @file NULL: lenet(). */
typedef struct mistake {
    const char *words, *file, *says[4], *not ;
} mistake;

static void make(const mistake *m)
{
    const char *path = m->file != NULL ? cli_file("wrong.ini", m->file) : lenet();
    ran r = cli_run(m->words, path);
    assert_code(&r, DT_E_CONFIG);
    for (size_t i = 0; i < DT_COUNT(m->says) && m->says[i] != NULL; i++)
        if (strstr(r.err, m->says[i]) == NULL)
            fail_msg("%s: '%s' is not in:\n%s", m->words, m->says[i], r.err);
    if (m->not != NULL && strstr(r.err, m->not ) != NULL)
        fail_msg("%s: '%s' is in:\n%s", m->words, m->not, r.err);
    cli_done(&r);
}

static void words_of_others_are_translated(void **state)
{
    NEED_BINARY();
    static const mistake all[] = {
        {"plan FILE --set device.kind=gpu", NULL, {"did you mean 'cuda'?"}, NULL},
        {"plan FILE --set train.batch_size=4", NULL, {"did you mean 'batch'?"}, NULL},
        {"plan FILE --set train.learning_rate=4", NULL, {"did you mean 'lr'?"}, NULL},
        {"plan FILE --set optimizer.lr=4", NULL, {"'train'? As in train.lr"}, NULL},
        {"plan FILE --set train.precision=fp16", NULL, {"did you mean 'bf16'?"}, NULL},
        {"plan FILE --set memory.policy=none", NULL, {"did you mean 'keep_all'?"}, NULL},
        {"plan FILE --set memory.policy=vdnn", NULL, {"did you mean 'vdnn_all'?"}, NULL},
        {"plan FILE --set memory.policy=chen", NULL, {"did you mean 'chen_sqrt'?"}, NULL},
        {"plan FILE --set memory.policy=gradient_checkpointing", NULL,
            {"did you mean 'chen_sqrt'?"}, NULL},
        {"plan FILE --set memory.policy=chen_cheap+vdnn_all", NULL,
            {"several are separated by commas: NAME, NAME"}, NULL},
        {"plan FILE --set memory.policy=chen_cheap;vdnn_all", NULL,
            {"several are separated by commas: NAME, NAME"}, NULL},
        {"plan FILE --set memory.policy=save_on_cpu", NULL, {"did you mean 'vdnn_all'?"}, NULL},
        {"plan FILE --set memory.policy=deepspeed", NULL, {"did you mean 'zero_offload'?"}, NULL},
        {"plan FILE --set device.kind=cuda:0", NULL, {"did you mean 'cuda'?"}, NULL},
        {"plan FILE --set device.card=3090", NULL, {"did you mean 'rtx3090'?"}, NULL},
        {"plan FILE --set train.precision=float32", NULL, {"did you mean 'fp32'?"}, NULL},
        {"plan FILE --set train.schedule=cosine_annealing", NULL, {"did you mean 'cosine'?"}, NULL},
        {"plan FILE --set memory.layers.conv1=swap", NULL, {"did you mean 'offload'?"}, NULL},
        {"list policy", NULL, {"did you mean 'policies'?"}, NULL},
        {"plan FILE --set memory.tier=ssd", NULL, {"did you mean 'disk'?"}, NULL},
        {"plan FILE --set train.policy=chen_sqrt", NULL, {"it is one of [memory]"}, NULL},
        {"plan FILE --set batch=4", NULL, {"did you mean --set train.batch=4?"}, NULL},
        {"plan FILE --batch 4", NULL, {"--set train.batch=VALUE"}, NULL},
        {"plan --config FILE", NULL, {"named without one"}, NULL},
        {"plan FILE", "[model]\nimage = 8\n[dense f]\nout = 2\n", {"did you mean 'fc'?"},
            "unknown key"},
        {"evaluate FILE", NULL, {"did you mean 'eval'?"}, NULL},
        {"fit FILE", NULL, {"did you mean 'train'?"}, NULL},
        {"resume RUN", NULL, {"`dnntrain CONFIG --resume [RUN]`"}, "did you mean"},
        {"generate FILE", NULL, {"--generate N"}, "did you mean"},
        {"export FILE", NULL, {"tools/weights.py to-torch"}, "did you mean"},
        {"-v", NULL, {"dnntrain --version"}, "unknown flag"},
        {"plan FILE", "[model]\nname = lenet5\n[train]\noptimizer = rmsprop\n",
            {":4: [train] optimizer = rmsprop: must be one of sgd, adam, adamw, lion",
                "did you mean 'adam'?"},
            NULL},
        {"plan FILE", "[model]\nname = lenet5\n[train]\noptimizer = adam\nalpha = 0.99\n",
            {":5: [train] unknown key 'alpha', did you mean 'beta2'?"}, NULL},
        {"plan FILE --set model.name=vit", NULL, {"did you mean 'vit_small'?"}, NULL},
        {"plan FILE --set data.num_workers=2", NULL, {"did you mean 'ahead'?"}, NULL},
        {"plan FILE --gpu", NULL, {"--set device.kind=VALUE"}, NULL},
        {"plan FILE --memory.policy=gist", NULL, {"--set memory.policy=VALUE"}, NULL},
        {"plan FILE --set memory.policy=[vdnn_all]", NULL, {"several are separated by commas"},
            NULL},
    };
    for (size_t i = 0; i < DT_COUNT(all); i++)
        if (dt_picked(i, 3, 3, 1))
            make(&all[i]);
}

/* Numbers as other programs, and people, write them. */
static void numbers_written_otherwise_are_told_rightly(void **state)
{
    NEED_BINARY();
    static const mistake all[] = {
        {"plan FILE --set train.batch=1e3", NULL, {"not a whole number; write 1000; must be 1.."},
            NULL},
        {"plan FILE --set train.batch=64,000", NULL, {"; write 64000;"}, NULL},
        {"plan FILE --set train.batch=64_000", NULL, {"; write 64000;"}, NULL},
        {"plan FILE --set train.batch=1.5e0", NULL, {"not a whole number; must be"}, "write"},
        {"plan FILE --set train.batch=8;", NULL, {"; write 8;"}, NULL},
        {"plan FILE --set memory.device_budget=2gib", NULL, {"; write 2GiB\n"}, NULL},
        {"plan FILE --set memory.host_budget=1.5G", NULL, {"; write 1.5GiB\n"}, NULL},
        {"plan FILE --set memory.device_budget=8mb", NULL, {"; write 8MB\n"}, NULL},
        {"plan FILE --set memory.device_budget=8pb", NULL, {"; write bytes as 512"}, NULL},
        {"plan FILE", "[model]\nname = lenet5\n[train]\nschedule = step\nmilestones = 3 6\n",
            {":5: ", "commas between them"}, NULL},
        {"plan FILE --set train.batch=1e30", NULL, {"not a whole number; must be"}, "write"},
        {"plan FILE --set train.batch=many", NULL, {"not a whole number; must be"}, "write"},
        {"plan FILE --set data.cutout=16x16", NULL, {"; write 16;"}, NULL},
        {"plan FILE --set data.cutout=16x8", NULL,
            {"not a whole number; must be 0..16384; cutout: side of a square, at a random place"},
            "write"},
        {"plan FILE --set data.cutout=32,48", NULL, {"must be 0..16384; cutout: side of a square"},
            "write"},
        {"plan FILE --set model.image=32,48", NULL, {"; write 32x48;"}, NULL},
        {"plan FILE --set train.lr=1e-3f", NULL, {"; write 0.001;"}, NULL},
        {"plan FILE --set train.lr=1/1000", NULL, {"; write 0.001;"}, NULL},
        {"plan FILE --set train.lr=1/0", NULL, {"not a finite decimal number; must"}, "write"},
        {"plan FILE", "[model]\nname = lenet5\n[train]\nbatch = 4 // small\n", {"; write 4;"},
            NULL},
    };
    for (size_t i = 0; i < DT_COUNT(all); i++)
        make(&all[i]);
}

/* Words for what other programs have and this one has not: what to do instead. */
static void what_is_absent_is_told_with_what_to_do_instead(void **state)
{
    NEED_BINARY();
    static const mistake all[] = {
        {"plan FILE --set train.loss=mse", NULL, {"unknown key 'loss': the loss is the last layer"},
            "known:"},
        {"plan FILE --set train.min_delta=0.1", NULL,
            {"unknown key 'min_delta': an evaluation is better by any difference"}, "did you mean"},
        {"plan FILE --set train.Early-Stopping=3", NULL, {"did you mean 'patience'?"}, "known:"},
        {"plan FILE --set data.val_split=0.2", NULL, {"did you mean 'eval_share'?"}, "known:"},
        {"plan FILE --set data.source=csv", NULL,
            {"no such source: rows of a table", "; there are: cifar10, idx"}, "did you mean"},
        {"plan FILE --set memory.pool=tflite", NULL, {"no such pool: ", "; there are: best_fit"},
            NULL},
        {"plan FILE", "[model]\nimage = 8\n[conv3d c]\nout = 2\n",
            {":3: [conv3d c]: unknown layer 'conv3d': there is no such layer"}, "did you mean"},
        {"plan FILE --set train.accum_steps=4", NULL, {"did you mean 'micro_batch'?"}, NULL},
        {"plan FILE --set data.flip=on", NULL, {"did you mean 'augment'?"}, "clip"},
    };
    for (size_t i = 0; i < DT_COUNT(all); i++)
        make(&all[i]);
    static const char *const help[] = {
        "help focal_loss", "help min delta", "help CSV", "help class-weights"};
    for (size_t i = 0; i < DT_COUNT(help); i++) {
        ran r = cli_run(help[i], NULL);
        assert_code(&r, 0);
        assert_has(r.out, "there is none; ");
        cli_done(&r);
    }
}

/* What stands where a key of the configuration should. */
static void assignments_out_of_place_are_put_right(void **state)
{
    NEED_BINARY();
    static const mistake all[] = {
        {"plan FILE batch=4", NULL, {"one argument too many; write --set train.batch=4\n"}, NULL},
        {"plan FILE train.batch=4", NULL, {"one argument too many; write --set train.batch=4\n"},
            NULL},
        {"plan FILE --set train.batch 4", NULL, {"too many; write --set train.batch=4\n"}, NULL},
        {"FILE batch=4", NULL, {"one argument too many; write --set train.batch=4\n"}, NULL},
        {"--set train.batch 4 FILE", NULL, {"too many; write --set train.batch=4\n"}, NULL},
        {"plan FILE", "[model]\nname = lenet5\n[train]\nbatch 16\n",
            {":4: 'batch 16' is neither [section] nor key = value; write batch = 16\n"}, NULL},
        {"FILE --set train.batch 4", NULL, {"too many; write --set train.batch=4\n"}, NULL},
        {"plan FILE again.ini", NULL, {"one argument too many; usage:"}, NULL},
        {"plan FILE nothing=4", NULL, {"one argument too many; usage:"}, NULL},
    };
    for (size_t i = 0; i < DT_COUNT(all); i++)
        make(&all[i]);
}

static const char *bytes_file(const char *name, const char *bytes, size_t n)
{
    const char *path = dt_temp_path(name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

/* Files of another kind than the one that is asked for. */
static void files_of_other_formats_are_known(void **state)
{
    NEED_BINARY();
    static const mistake configs[] = {
        {"plan FILE", "model:\n  name: lenet5\n", {"write [model]", "write name = lenet5"}, NULL},
        {"plan FILE", "{\"model\": {\"name\": \"lenet5\"}}\n",
            {"this is JSON, and a configuration is INI"}, NULL},
        {"plan FILE", "[model]\nname: lenet5\n",
            {":2: 'name: lenet5' is neither", "write name = lenet5"}, NULL},
    };
    for (size_t i = 0; i < DT_COUNT(configs); i++)
        make(&configs[i]);
    static const struct {
        const char *bytes, *says;
        size_t n;
    } others[] = {
        {"PK\3\4\0\0\0\0\0\0", "tools/weights.py from-torch", 10},
        {"\x80\2\x8A\nl\xFC\x9C\x46\xF9 ", "tools/weights.py from-torch", 10},
        {"\2\0\0\0\0\0\0\0{}", "name them by --set model.weights=FILE", 10},
        {"\x89PNG\r\n\x1A\n\0\0", "a picture: --set data.path=FOLDER", 10},
        {"\xFF\xD8\xFF\xE0\0\0\0\0\0\0", "a picture: --set data.path=FOLDER", 10},
        {"\x1F\x8B\0\0\0\0\0\0\0\0", "unpack it", 10},
        {"\x1F\x8B", "control character 0x1f", 2},
    };
    for (size_t i = 0; i < DT_COUNT(others); i++) {
        ran r = cli_run("plan FILE", bytes_file("other.bin", others[i].bytes, others[i].n));
        assert_code(&r, DT_E_CONFIG);
        assert_has(r.err, others[i].says);
        cli_done(&r);
    }
    static const struct {
        const char *bytes, *says;
        size_t n;
    } weights[] = {
        {"PK\3\4\0\0\0\0\0\0\0\0", "one of PyTorch's: tools/weights.py from-torch", 12},
        {"\x80\2\x8A\nl\xFC\x9C\x46\xF9 j", "one of PyTorch's: tools/weights.py from-torch", 11},
        {"\x89HDF\r\n\x1A\n\0\0\0\0", "HDF5, as Keras has it", 12},
        {"GGUF\3\0\0\0\0\0\0\0", "GGUF, whose weights are packed", 12},
    };
    for (size_t i = 0; i < DT_COUNT(weights); i++) {
        char words[640];
        const char *path = bytes_file("weights.pt", weights[i].bytes, weights[i].n);
        snprintf(words, sizeof words, "eval FILE --set model.weights=%.500s", path);
        ran r = cli_run(words, lenet());
        assert_code(&r, DT_E_DATA);
        assert_has(r.err, weights[i].says);
        cli_done(&r);
    }
}

/* A safetensors file of one tensor of zeros. Its first bytes, 0x80 and 3, are those of a pickle,
 * too. */
static const char *one_tensor(const char *name, const char *type, const char *shape, size_t bytes)
{
    char header[897], text[256];
    const uint64_t n = sizeof header - 1;
    snprintf(text, sizeof text, "{\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[0,%zu]}}",
        name, type, shape, bytes);
    snprintf(header, sizeof header, "%-896s", text);
    const char *path = dt_temp_path("one.safetensors");
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(&n, sizeof n, 1, f), 1);
    assert_int_equal(fwrite(header, 1, n, f), n);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(fputc(0, f), 0);
    assert_int_equal(fclose(f), 0);
    return path;
}

static void weights_that_do_not_fit_are_told_the_way(void **state)
{
    NEED_BINARY();
    static const struct {
        const char *name, *type, *shape, *says;
        size_t bytes;
    } all[] = {
        {"fc3.bias", "F16", "[10]", "tools/weights.py from-torch FILE OUT.safetensors makes F32",
            20},
        {"fc3.bias", "F32", "[1000]", "to begin with another head, name its weights in model.fresh",
            4000},
        {"module.fc3.bias", "F32", "[10]", "have a prefix ('module.fc3.bias' for 'fc3.bias')", 40},
    };
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        char words[640];
        snprintf(words, sizeof words, "eval FILE --set model.weights=%.500s",
            one_tensor(all[i].name, all[i].type, all[i].shape, all[i].bytes));
        ran r = cli_run(words, lenet());
        assert_code(&r, DT_E_DATA);
        assert_has(r.err, all[i].says);
        cli_done(&r);
    }
}

/* A run's folder is named where its weights are meant. */
static void a_run_has_weights_in_it(void **state)
{
    NEED_BINARY();
    char words[640], folder[512];
    snprintf(folder, sizeof folder, "%.500s", dt_temp_path("arun"));
    snprintf(words, sizeof words, "FILE --set run.dir=%.500s", folder);
    ran r = cli_run(words, lenet());
    assert_code(&r, 0);
    cli_done(&r);
    snprintf(words, sizeof words, "eval FILE --set model.weights=%.500s", folder);
    r = cli_run(words, lenet());
    assert_code(&r, DT_E_DATA);
    assert_has(r.err, "arun/checkpoints/model.safetensors");
    cli_done(&r);
}

/* What goes on, but hardly as it was meant. */
static void what_is_in_vain_is_told(void **state)
{
    NEED_BINARY();
    const struct {
        const char *sets, *says, *not ;
    } all[] = {
        {"--set data.path=/pictures", "data.path is not read: data.source = synthetic", NULL},
        {"--set data.path=/pictures --set data.source=synthetic", "data.path is not read", NULL},
        {"--set data.source=synthetic", NULL, "data.path"},
        {"--set data.eval_path=/pictures", "data.eval_path is not read: data.source = synthetic",
            "data.path"},
        {"--set data.augment=on", "data.augment counts for nothing: samples of data.source = synth",
            NULL},
        {"--set data.augment=off", NULL, "data.augment"},
        {"--set data.eval_share=0.5",
            "data.eval_share counts for nothing: samples are held out already by data.source = syn",
            NULL},
        {"--set data.cutout=2 --set data.path=/pictures",
            "data.cutout counts for nothing: it is not for data.source = synthetic", NULL},
        {"--resume", "there is no run to go on with: this is a new one", NULL},
        {"--set train.warmup=3", "train.warmup = 3 is no shorter than the run of ", NULL},
        {"--set train.warmup=3 --set train.steps=1", "train.warmup = 3 is no shorter", NULL},
        {"--set train.warmup=1ep --set train.steps=2", "train.warmup = 1ep is no shorter", NULL},
        {"--set train.warmup=1 --set train.steps=2", NULL, "train.warmup"},
        {"--set train.schedule=step --set train.milestones=50,60",
            "train.milestones = 50,60: the run of 1 step ends before the first", NULL},
        {"--set train.schedule=step --set train.milestones=1 --set train.steps=5", NULL,
            "train.milestones"},
        {"--set data.ignore_label=3",
            "data.ignore_label counts for nothing: data.source = synthetic has no", NULL},
        {"--set data.vocab=x", "data.vocab counts for nothing: it is for data.source = text", NULL},
    };
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        char words[700];
        const char *file = cli_file("vain.ini", LENET "[run]\noverwrite = on\n");
        snprintf(words, sizeof words, "FILE --set run.dir=%.500s%zu %s", dt_temp_path("vain"), i,
            all[i].sets);
        ran r = cli_run(words, file);
        assert_code(&r, 0);
        if (all[i].says != NULL)
            assert_has(r.err, all[i].says);
        if (all[i].not != NULL)
            assert_has_not(r.err, all[i].not );
        cli_done(&r);
    }
}

/* What taskset does. */
static void on_one_processor(void)
{
    cpu_set_t may, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof may, &may) != 0)
        return;
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &may))
            CPU_SET(i, &one);
    (void)sched_setaffinity(0, sizeof one, &one);
}

/* Whoever computes is told once, by the processors that the process may use and not by those that
 * there are; whoever plans for another machine is not. */
static void threads_without_a_processor_are_told(void **state)
{
    NEED_BINARY();
    static const char says[] =
        "2 threads share 1 processor, and wait for each other: device.threads = 1 is faster\n";
    static const struct {
        const char *words; /* with a run directory behind them */
        bool told;
    } all[] = {{"FILE --set run.dir=", true}, {"eval ", true},
        {"bench FILE --steps 1 --set run.dir=", true},
        {"compare FILE --policies keep_all --run --set run.dir=", true},
        {"plan FILE --set run.dir=", false}};
    char file[512];
    snprintf(file, sizeof file, "%s",
        cli_file("shared.ini", "[model]\nimage = 8\nclasses = 4\n[fc f]\nout = 4\n"
                               "[data]\nsamples = 64\n[train]\nbatch = 2\nsteps = 1\n"
                               "[run]\noverwrite = on\n"));
    cli.child = on_one_processor;
    for (size_t i = 0; i < DT_COUNT(all); i++)
        for (int threads = 1; threads <= 2; threads++) {
            char words[700];
            snprintf(words, sizeof words, "%s%.500s --set device.threads=%d", all[i].words,
                dt_temp_path("shared"), threads);
            ran r = cli_run(words, file);
            assert_code(&r, 0);
            const char *at = strstr(r.err, says);
            assert_true((at != NULL) == (all[i].told && threads == 2));
            assert_true(at == NULL || strstr(at + strlen(says), "threads share") == NULL);
            cli_done(&r);
        }
    cli.child = NULL;
}

/* Typed, or in the file with the run's own optimizer or schedule; and not what a run would have
 * written. */
static void options_of_another_optimizer_or_schedule_are_told(void **state)
{
    NEED_BINARY();
    static const struct {
        const char *lines, *sets, *says;
    } all[] = {
        {"", " --set train.beta2=0.999",
            "--set: [train] beta2 = 0.999: counts for optimizer = adam"},
        {"beta1 = 0.8\n", "",
            "idle.ini:4: [train] beta1 = 0.8: counts for optimizer = adam, adamw or lion"},
        {"optimizer = adam\nmomentum = 0.95\n", "",
            "idle.ini:5: [train] momentum = 0.95: counts for"},
        {"optimizer = adam\nmomentum = 0.90\n", "", NULL},
        {"momentum = 0.95\n", " --set train.optimizer=adam", NULL},
        {"optimizer = adam\nbeta1 = 0.8\n", "", NULL},
        {"optimizer = lion\nbeta1 = 0.8\nbeta2 = 0.99\n", "", NULL},
        {"optimizer = lion\neps = 1e-6\n", "",
            "idle.ini:5: [train] eps = 1e-6: counts for optimizer = adam or adamw alone"},
        {"schedule = cosine\ngamma = 0.5\n", "",
            "idle.ini:5: [train] gamma = 0.5: counts for schedule = step alone"},
        {"schedule = step\nmilestones = 1\ngamma = 0.5\n", "", NULL},
        {"schedule = step\nmilestones = 1\ngamma = 0.5\n", " --set train.optimizer=adam", NULL},
    };
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        char text[256], words[128];
        snprintf(text, sizeof text, "[model]\nname = lenet5\n[train]\n%s", all[i].lines);
        snprintf(words, sizeof words, "plan FILE%s", all[i].sets);
        ran r = cli_run(words, cli_file("idle.ini", text));
        assert_code(&r, 0);
        if (all[i].says != NULL)
            assert_has(r.err, all[i].says);
        else
            assert_string_equal(r.err, "");
        cli_done(&r);
    }
}

/* A list in which a name changes nothing is planned, and says so. */
static void names_that_change_nothing_are_told(void **state)
{
    NEED_BINARY();
    static const struct {
        const char *list, *says;
    } all[] = {
        {"vdnn_all,vdnn_all", "'vdnn_all' stands there twice"},
        {"keep_all,chen_sqrt", "keep_all changes nothing beside others"},
        {"keep_all,chen_sqrt,chen_sqrt", "keep_all changes nothing beside others"},
        {"keep_all,chen_sqrt,chen_sqrt", "'chen_sqrt' stands there twice"},
        {"chen_cheap,vdnn_all", NULL},
        {"keep_all", NULL},
    };
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        char words[128];
        snprintf(words, sizeof words, "plan FILE --set memory.policy=%s", all[i].list);
        ran r = cli_run(words, lenet());
        assert_code(&r, 0);
        if (all[i].says != NULL)
            assert_has(r.err, all[i].says);
        else
            assert_string_equal(r.err, "");
        cli_done(&r);
    }
}

/* A folder where a file is meant, and folders at another level. */
static void folders_are_told_from_what_is_in_them(void **state)
{
    NEED_BINARY();
    char folder[4096], words[640];
    snprintf(folder, sizeof folder, "%s", dt_source_path("."));
    cli.folder = folder;
    ran r = cli_run("plan configs", NULL);
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "'configs' is a folder; name one of the ");
    cli_done(&r);
    r = cli_run("configs/lenet5_mnist.ini --set data.path=nowhere", NULL);
    assert_code(&r, DT_E_DATA);
    assert_has(r.err, "`tools/get_data mnist` fetches mnist to where configs/ look for it "
                      "(wants python3: apt-get install python3)\n");
    assert_has_not(r.err, "cifar10");
    cli_done(&r);
    cli.folder = NULL;
    r = cli_run("FILE --set data.source=images --set data.path=~/pictures", lenet());
    assert_code(&r, DT_E_DATA);
    assert_has(r.err, "'~' is the shell's word for your home folder");
    cli_done(&r);
    static const struct {
        const char *path, *told;
    } paths[] = {{"$HOME/pictures", "variables are the shell's; write the whole path"},
        {"'my pictures'", "a path needs no ' around it"},
        {"C:\\me\\pictures", "folders are separated by / and not by \\"}};
    for (size_t i = 0; i < DT_COUNT(paths); i++) {
        char ini[512];
        snprintf(ini, sizeof ini,
            "[model]\nname = lenet5\n[data]\nsource = images\npath = %s\n[train]\nsteps = 1\n",
            paths[i].path);
        r = cli_run("FILE", cli_file("paths.ini", ini));
        assert_code(&r, DT_E_DATA);
        assert_has(r.err, paths[i].told);
        cli_done(&r);
    }
    static const char *const below[] = {"", "/train", "/train/a", "/val", "/val/a"};
    char root[512], path[600];
    snprintf(root, sizeof root, "%.500s", dt_temp_path("parts"));
    for (size_t i = 0; i < DT_COUNT(below); i++) {
        snprintf(path, sizeof path, "%s%s", root, below[i]);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    snprintf(words, sizeof words, "FILE --set data.source=images --set data.path=%.500s", root);
    r = cli_run(words, lenet());
    assert_code(&r, DT_E_DATA);
    assert_has(r.err, "these are parts, not classes: data.path = ");
    assert_has(r.err, "/train and data.eval_path = ");
    cli_done(&r);
}

static void what_is_far_is_not_suggested(void **state)
{
    NEED_BINARY();
    static const mistake all[] = {
        {"plan FILE --set device.card=gtx1080", NULL, {"rtx3090"}, "did you mean"},
        {"narrate FILE", NULL, {"neither a command nor a file"}, "did you mean"},
        {"plan FILE --set memory.policy=gist --set policy.gist.dpr=fp4", NULL, {"fp8"},
            "did you mean"},
    };
    for (size_t i = 0; i < DT_COUNT(all); i++)
        make(&all[i]);
}

static void configurations_are_found_by_their_names(void **state)
{
    NEED_BINARY();
    static const char *const names[] = {
        "resnet50", "resnet50.ini", "plan resnet50.ini", "plan config/resnet50.ini"};
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", dt_source_path("."));
    cli.folder = folder;
    for (size_t i = 0; i < DT_COUNT(names); i++) {
        ran r = cli_run(names[i], NULL);
        assert_code(&r, DT_E_CONFIG);
        assert_has(r.err, "did you mean 'configs/resnet50.ini'?");
        cli_done(&r);
    }
    cli.folder = NULL;
}

/* Each of foreign.def leads to a word that can be written somewhere. */
static void translations_lead_somewhere(void **state)
{
    (void)state;
    static const char *const ours[] = {
#define DT_FOREIGN(theirs, ours) #ours,
#include "engine/config/foreign.def"
#undef DT_FOREIGN
    };
    const char *words[512] = {"keep", "offload", "recompute", "encode", "host", "disk", NULL};
    size_t n = 6, k;
    for (const dt_run_section *s = dt_run_sections; s->name != NULL; s++) {
        words[n++] = s->name;
        for (const dt_opt *row = s->rows; row->key != NULL; row++) {
            words[n++] = row->key;
            for (size_t i = 0; row->choices != NULL && row->choices[i] != NULL; i++)
                words[n++] = row->choices[i];
        }
    }
    const dt_layer_desc *const *layer = dt_layer_all(&k);
    for (size_t i = 0; i < k; i++) {
        words[n++] = layer[i]->name;
        for (const dt_opt *row = layer[i]->opts; row != NULL && row->key != NULL; row++)
            words[n++] = row->key;
    }
    const dt_policy *const *policy = dt_policy_all(&k);
    for (size_t i = 0; i < k; i++)
        words[n++] = policy[i]->name;
    const dt_source_desc *const *source = dt_source_all(&k);
    for (size_t i = 0; i < k; i++)
        words[n++] = source[i]->name;
    for (const char *const *name = dti_command_names(); *name != NULL; name++)
        words[n++] = *name;
    words[n++] = "input";
    words[n++] = "policies";
    words[n++] = "models";
    assert_true(n < DT_COUNT(words));
    for (size_t i = 0; i < DT_COUNT(ours); i++) {
        bool found = false;
        for (k = 0; k < n; k++)
            found = found || strcmp(words[k], ours[i]) == 0;
        if (!found)
            fail_msg("'%s' is no word of ours", ours[i]);
    }
}

/* ---- all at once ---- */

static void every_mistake_is_told_in_one_pass(void **state)
{
    NEED_BINARY();
    static const mistake all[] = {
        {"plan FILE --set memory.policy=vdmn_all --set train.batch=x",
            "[model]\nimage = 8\nfoo = 1\n[trian]\nx = 1\n[conv c]\nfilters = 4\nkernel_size = 3\n"
            "padding = 1\n[fc f]\nout = two\n",
            {"unknown policy 'vdmn_all'; did you mean 'vdnn_all'?", "unknown key 'foo'",
                "unknown section [trian]", "[train] batch = x"},
            NULL},
        {"plan FILE",
            "[model]\nimage = 8\n[conv c]\nfilters = 4\nkernel_size = 3\npadding = 1\n"
            "[fc f]\nout = two\n",
            {"[conv c] unknown key 'kernel_size', did you mean 'kernel'?",
                "[conv c] unknown key 'filters', did you mean 'out'?", "[fc f] out = two"},
            "is required"},
    };
    for (size_t i = 0; i < DT_COUNT(all); i++)
        make(&all[i]);
}

static void options_of_a_policy_that_is_not_asked_for_are_told_so(void **state)
{
    NEED_BINARY();
    static const mistake all[] = {
        {"plan FILE --set policy.gist.dpr=fp8", NULL,
            {"[policy.gist] is of a policy that is not in memory.policy (keep_all)"},
            "unknown section"},
        {"plan FILE --set policy.jist.dpr=fp8", NULL,
            {"[policy.jist]: no such policy; did you mean 'gist'?"}, NULL},
        {"plan FILE --set memory.policy=rotor --set policy.rotor.stages=x --set "
         "policy.meng.least=1MiB",
            NULL,
            {"[policy.rotor] stages = x: not a whole number",
                "[policy.meng] is of a policy that is not in memory.policy (rotor)"},
            "unknown section"},
        {"plan FILE --set memory.policy=rotr --set policy.meng.least=1MiB --set "
         "policy.mang.least=0",
            NULL, {"unknown policy 'rotr'; did you mean 'rotor'?", "[policy.mang]: no such policy"},
            "[policy.meng]"},
        {"plan FILE --set memory.layer.a=keep", NULL, {"did you mean 'memory.layers'?"}, NULL},
        {"plan FILE",
            "[model]\nimage = 8\n[fc "
            "a23456789a23456789a23456789a23456789a23456789a23456789a23456789"
            "a23456789a23456789a23456789abcd]\nout = 4\ntiles = 2\n",
            {"its name is too long by 1"}, NULL},
        {"sweep FILE --json --csv -", NULL, {"--csv -, --html - and --json all go to stdout"},
            NULL},
        {"remat FILE --budget 60% --json --sequence -", NULL,
            {"--json and what is named - all go to stdout"}, NULL},
        {"config --check FILE --set data.source=synthetc", NULL,
            {"no such source; did you mean 'synthetic'?"}, NULL},
    };
    for (size_t i = 0; i < DT_COUNT(all); i++)
        make(&all[i]);
    ran r = cli_run("plan FILE --set memory.policy=gist --set policy.gist.dpr=fp8", lenet());
    assert_code(&r, 0);
    cli_done(&r);
}

/* ---- data ---- */

static void statistics_of_bytes_are_refused(void **state)
{
    NEED_BINARY();
    static const mistake all[] = {
        {"FILE --set data.mean=124 --set data.std=58", NULL,
            {"data.mean = 124", "divide by 255: 0.486"}, NULL},
        {"FILE --set data.mean=0.5 --set data.std=58", NULL,
            {"data.std = 58", "divide by 255: 0.227"}, NULL},
    };
    for (size_t i = 0; i < DT_COUNT(all); i++)
        make(&all[i]);
}

static void mistakes_are_told_together_in_the_order_of_lines(void **state)
{
    NEED_BINARY();
    static const char *const wants[] = {"--set: [train] unknown key 'stpes'",
        ":3: [model] unknown key 'learning_rate', did you mean [train] lr?",
        ":6: [train] key 'batch' is given again; first at line 5", ":7: [train] lr = nan",
        "unknown policy 'keepall'", ":9: [memory] policy = keepall",
        ":10: unknown section [trian], did you mean 'train'?"};
    ran r = cli_run("plan FILE --set train.stpes=3",
        cli_file("many.ini",
            "[model]\nname = mlp\nlearning_rate = 1\n[train]\nbatch = 3\nbatch = 4\n"
            "lr = nan\n[memory]\npolicy = keepall\n[trian]\nbatch = 1\n"));
    assert_code(&r, DT_E_CONFIG);
    const char *at = r.err;
    for (size_t i = 0; i < DT_COUNT(wants); i++) {
        const char *found = strstr(at, wants[i]);
        if (found == NULL)
            fail_msg("'%s' is not there, or too early, in:\n%s", wants[i], r.err);
        at = found;
    }
    int lines = 0;
    for (const char *s = r.err; (s = strchr(s, '\n')) != NULL; s++)
        lines++;
    assert_int_equal(lines, DT_COUNT(wants)); /* nothing that only follows from another */
    cli_done(&r);
}

/* The line that names the policy says nothing where one of its options is wrong. */
static void an_option_of_a_policy_is_told_in_its_line(void **state)
{
    NEED_BINARY();
    ran r = cli_run("plan FILE",
        cli_file("option.ini", "[model]\nname = mlp\n[memory]\npolicy = vdnn_all,rotor\n"
                               "[policy.rotor]\nstages = x\n"));
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "option.ini:6: [policy.rotor] stages = x: not a whole number");
    assert_has_not(r.err, "[memory] policy");
    cli_done(&r);
}

static void a_file_of_another_kind_is_asked_about(void **state)
{
    NEED_BINARY();
    char text[4096] = "";
    for (int i = 0; i < 42; i++)
        strcat(text, "- **You learn** how: [five](pages)\n");
    ran r = cli_run("FILE", cli_file("text.md", text));
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "text.md:5: ");
    assert_has_not(r.err, "text.md:6: ");
    assert_has(r.err, "dnntrain: ... and 37 more: is this a configuration?\n");
    assert_has_not(r.err, "write");
    cli_done(&r);
    strcpy(text, "[model]\nname = mlp\n");
    for (int i = 0; i < 12; i++) /* slips of a configuration: all */
        strcat(text, "width: 3\n");
    r = cli_run("FILE", cli_file("slips.ini", text));
    assert_code(&r, DT_E_CONFIG);
    assert_has(
        r.err, "slips.ini:14: 'width: 3' is neither [section] nor key = value; write width = 3");
    assert_has_not(r.err, "more");
    cli_done(&r);
}

static void data_that_does_not_go_with_the_network_is_told(void **state)
{
    NEED_BINARY();
    static const struct {
        const char *sets, *says;
    } all[] = {
        {"data.samples=64", NULL}, /* made up: as many classes as samples are enough for, said */
        {"model.classes=2", NULL},
        {"model.classes=1", "warning   all samples are of one class"},
    };
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        char words[256];
        snprintf(words, sizeof words, "FILE --set run.dir=%.150s --set run.overwrite=on --set %s",
            dt_temp_path("classes"), all[i].sets);
        ran r = cli_run(words, lenet());
        assert_code(&r, 0);
        if (all[i].says != NULL)
            assert_has(r.err, all[i].says);
        else
            assert_has_not(r.err, "warning");
        cli_done(&r);
    }
}

/* Data that is no sequence is not at fault where the network takes none. */
static void a_source_that_the_network_cannot_take_is_blamed_itself(void **state)
{
    NEED_BINARY();
    static const char *const paths[] = {"", " --set data.path=/etc/passwd"};
    for (size_t i = 0; i < DT_COUNT(paths); i++) {
        char words[256];
        snprintf(words, sizeof words, "FILE --set data.source=text%s", paths[i]);
        ran r = cli_run(words, lenet());
        assert_code(&r, DT_E_CONFIG);
        assert_has(r.err, " 1 label a sample, no sequence of tokens with a label each: set "
                          "data.source = images, or use a model");
        assert_has(r.err, "--set: [data] source = text");
        assert_has_not(r.err, "[data] path");
        cli_done(&r);
    }
}

/* ---- where things go ---- */

/* `dnntrain CONFIG >results` keeps what came of it, and shows how it goes; a full disk there is no
 * fault of the run's. */
static void results_of_a_run_go_to_stdout(void **state)
{
    NEED_BINARY();
    char words[512];
    snprintf(words, sizeof words, "FILE --set run.dir=%.400s --set run.overwrite=on",
        dt_temp_path("results"));
    ran r = cli_run(words, lenet());
    assert_code(&r, 0);
    static const char *const results[] = {
        "done      after 1 of 1 step\n", "\nmemory    planned ", "\nwritten   "};
    for (size_t i = 0; i < DT_COUNT(results); i++) {
        assert_has(r.out, results[i]);
        assert_has_not(r.err, results[i]);
    }
    assert_has(r.err, "network   lenet5");
    assert_has_not(r.out, "network   ");
    cli_done(&r);
    if (access("/dev/full", W_OK) != 0)
        return;
    r = cli_run_to("/dev/full", words, lenet());
    assert_code(&r, 0);
    assert_has(r.err, "network   lenet5");
    cli_done(&r);
}

/* ---- words that changed ---- */

/* "move" was what offload is called; only what a run wrote may still say so. */
static void a_run_of_old_words_goes_on(void **state)
{
    NEED_BINARY();
    char words[1024], path[512];
    const char *dir = dt_temp_path("oldrun");
    snprintf(
        words, sizeof words, "FILE --set memory.layers.conv1=offload --set run.dir=%.400s", dir);
    ran r = cli_run(words, lenet());
    assert_code(&r, 0);
    cli_done(&r);
    snprintf(path, sizeof path, "%.400s/config.ini", dt_temp_path("oldrun"));
    char *text = cli_text(path), *at = strstr(text, "conv1 = offload");
    assert_non_null(at);
    memcpy(at, "conv1 = move   ", strlen("conv1 = offload"));
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
    dt_free(text);
    snprintf(
        words, sizeof words, "FILE --resume %.400s --set train.steps=2", dt_temp_path("oldrun"));
    r = cli_run(words, path);
    assert_code(&r, 0);
    assert_has(r.err, "after step 1, from ");
    cli_done(&r);
    make(&(mistake){"plan FILE --set memory.layers.conv1=move", NULL,
        {"must be one of keep, offload, recompute, encode, home; did you mean 'offload'?"}, NULL});
}

/* ---- what programs read ---- */

static void the_json_of_a_plan_has_what_the_table_has(void **state)
{
    NEED_BINARY();
    cJSON *o = plan_json("plan FILE --json --set train.micro_batch=8", lenet());
    const cJSON *device = cJSON_GetObjectItemCaseSensitive(o, "device"),
                *live = cJSON_GetObjectItemCaseSensitive(o, "live"),
                *programs = cJSON_GetObjectItemCaseSensitive(o, "programs"),
                *largest = cJSON_GetObjectItemCaseSensitive(o, "largest"), *e;
    const double peak = cJSON_GetObjectItemCaseSensitive(device, "peak")->valuedouble,
                 unused = cJSON_GetObjectItemCaseSensitive(
                     cJSON_GetObjectItemCaseSensitive(o, "breakdown"), "unused")
                              ->valuedouble;
    double most = 0, top = 0, last = 1e300;
    cJSON_ArrayForEach(e, live) most = e->valuedouble > most ? e->valuedouble : most;
    assert_int_equal((uint64_t)most, (uint64_t)(peak - unused));
    static const char *const names[] = {"first", "again", "update", "eval"};
    assert_int_equal(cJSON_GetArraySize(programs), DT_COUNT(names));
    size_t i = 0;
    cJSON_ArrayForEach(e, programs)
    {
        const double p = cJSON_GetObjectItemCaseSensitive(e, "peak")->valuedouble;
        assert_string_equal(
            cJSON_GetObjectItemCaseSensitive(e, "program")->valuestring, names[i++]);
        top = p > top ? p : top;
    }
    assert_true(top <= peak && top >= peak);
    assert_int_equal(cJSON_GetArraySize(largest), 8);
    cJSON_ArrayForEach(e, largest)
    {
        const double bytes = cJSON_GetObjectItemCaseSensitive(e, "bytes")->valuedouble;
        assert_true(bytes > 0 && bytes <= last);
        assert_non_null(cJSON_GetObjectItemCaseSensitive(e, "tensor")->valuestring);
        last = bytes;
    }
    cJSON_Delete(o);
}

/* Words of a network are fewer than its classes, or more. */
static void bench_feeds_words_that_the_network_has(void **state)
{
    NEED_BINARY();
    ran r = cli_run("bench FILE --steps 1",
        cli_file("words.ini", "[model]\ncontext = 8\n[embedding e]\nvocab = 5\nout = 16\n"
                              "[linear l]\nout = 40\n[train]\nbatch = 4\n"
                              "[device]\nthreads = 1\n"));
    assert_code(&r, 0);
    cli_done(&r);
}

/* A file called "-", or a picture with another format's name, is what nobody means. */
static void names_of_output_mean_what_they_say(void **state)
{
    NEED_BINARY();
    ran r = cli_run("plan FILE --map picture.png", lenet());
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "--map picture.png: what is written is SVG; name it FILE.svg");
    cli_done(&r);
    r = cli_run("plan FILE --map -", lenet());
    assert_code(&r, 0);
    assert_int_equal(strncmp(r.out, "<svg", 4), 0);
    assert_has_not(r.out, "device peak");
    cli_done(&r);
    r = cli_run("plan FILE --text -", lenet());
    assert_code(&r, 0);
    assert_int_equal(strncmp(r.out, "dt-plan ", 8), 0);
    assert_has_not(r.out, "device peak");
    cli_done(&r);
    assert_int_not_equal(access("-", F_OK), 0);
}

/* Not that it leaves small values alone, which is no matter then. */
static void a_policy_without_the_budget_that_it_wants_says_so(void **state)
{
    NEED_BINARY();
    static const char says[] = "does nothing without memory.device_budget";
    static const struct {
        const char *set;
        bool said;
    } cases[] = {{"memory.policy=swapadvisor --set policy.swapadvisor.weights=search", true},
        {"memory.policy=modnn", true}, {"memory.policy=auto", false},
        {"memory.policy=swapadvisor --set memory.device_budget=1GiB", false},
        {"memory.policy=swapadvisor --set policy.swapadvisor.budget=1GiB", false},
        {"memory.policy=capuchin", false}};
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        char words[256];
        snprintf(words, sizeof words, "plan FILE --json --set %s", cases[i].set);
        ran r = cli_run(words, lenet());
        assert_code(&r, 0);
        (cases[i].said ? assert_has : assert_has_not)(r.out, says);
        cli_done(&r);
    }
}

/* On so small a network the peak is where nothing can be moved away or made again. */
static void a_policy_that_saves_nothing_says_so(void **state)
{
    NEED_BINARY();
    cJSON *o = plan_json("plan FILE --json --set memory.policy=vdnn_all", lenet());
    const double peak =
        cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(o, "device"), "peak")
            ->valuedouble;
    const double kept = cJSON_GetObjectItemCaseSensitive(o, "keep_all_peak")->valuedouble;
    const bool none = peak >= kept;
    cJSON_Delete(o);
    ran r = cli_run("plan FILE --set memory.policy=vdnn_all", lenet());
    assert_code(&r, 0);
    (none ? assert_has : assert_has_not)(r.out, "vdnn_all saves nothing here: keep_all takes ");
    cli_done(&r);
    r = cli_run("plan FILE --set model.name=resnet20 --set model.image=32 "
                "--set memory.policy=chen_sqrt",
        lenet());
    assert_code(&r, 0);
    assert_has_not(r.out, "saves nothing");
    cli_done(&r);
    r = cli_run("plan FILE --set memory.policy=network_wide", lenet());
    assert_code(&r, 0);
    assert_has(r.out, "network_wide saves nothing here: keep_all takes ");
    assert_has(r.out, ", which is less");
    cli_done(&r);
    r = cli_run("FILE --set memory.policy=network_wide --set train.steps=1", lenet());
    assert_code(&r, 0);
    assert_has(r.err, "network_wide saves nothing here: keep_all takes ");
    cli_done(&r);
    r = cli_run("plan FILE --set memory.policy=capuchin --set memory.simulate=p100", lenet());
    assert_code(&r, 0);
    assert_has(r.out, "policy.capuchin.least");
    cli_done(&r);
    r = cli_run("plan FILE --set memory.policy=capuchin --set policy.capuchin.least=1", lenet());
    assert_code(&r, 0);
    assert_has_not(r.out, "policy.capuchin.least");
    cli_done(&r);
}

/* ---- budgets and names of policies ---- */

static double device_peak(cJSON *o)
{
    return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(o, "device"), "peak")
        ->valuedouble;
}

/* Whoever gives a policy a budget is told that its plan does not keep to it, and by how much. */
static void a_budget_of_a_policy_that_is_not_kept_to_is_told(void **state)
{
    NEED_BINARY();
    static const char *const by[] = {"autotm", "vdnnpp", "superneurons", "capuchin", "chen_budget"};
    for (size_t i = dt_solver_name() != NULL ? 0 : 1; i < DT_COUNT(by); i++)
        for (int large = 0; large < 2; large++) {
            char words[256], want[128];
            snprintf(words, sizeof words,
                "plan FILE --json --set memory.policy=%s --set policy.%s.budget=%s", by[i], by[i],
                large ? "1GiB" : "1");
            cJSON *o = plan_json(words, lenet());
            const cJSON *above = cJSON_GetObjectItemCaseSensitive(o, "above");
            assert_int_equal(above == NULL, large);
            if (!large) {
                char count[64];
                snprintf(want, sizeof want, "(%s bytes) more than policy.%s.budget",
                    dt_human_count(count, (uint64_t)device_peak(o) - 1), by[i]);
                assert_has(above->valuestring, want);
            }
            cJSON_Delete(o);
        }
    ran r = cli_run("plan FILE --set memory.policy=vdnnpp --set policy.vdnnpp.budget=1", lenet());
    assert_code(&r, 0);
    assert_has(r.out, "policy.vdnnpp.budget");
    cli_done(&r);
    r = cli_run("FILE --set memory.policy=vdnnpp --set policy.vdnnpp.budget=1", lenet());
    assert_code(&r, 0);
    assert_has(r.err, "more than policy.vdnnpp.budget");
    cli_done(&r);
}

/* Which parameters live on the host is searched under the policy's own budget as under the run's.
 */
static void homes_are_searched_under_a_policys_own_budget(void **state)
{
    NEED_BINARY();
    static const char *const budget[] = {"memory.device_budget", "policy.swapadvisor.budget"};
    double peak[2], host[2];
    for (int i = 0; i < 2; i++) {
        char words[512];
        snprintf(words, sizeof words,
            "plan FILE --json --set memory.policy=swapadvisor "
            "--set policy.swapadvisor.weights=search --set policy.swapadvisor.samples=40 "
            "--set policy.swapadvisor.weights_samples=0 --set policy.swapadvisor.least=0 "
            "--set %s=1400KiB",
            budget[i]);
        cJSON *o = plan_json(words, lenet());
        peak[i] = device_peak(o);
        host[i] =
            cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(o, "host"), "peak")
                ->valuedouble;
        cJSON_Delete(o);
    }
    assert_true(host[0] > 0 && peak[0] <= 1400 * 1024);
    assert_int_equal((uint64_t)peak[0], (uint64_t)peak[1]);
    assert_int_equal((uint64_t)host[0], (uint64_t)host[1]);
}

/* A combination of nothing is no score, and weights of none go unused. */
static void weights_that_count_for_nothing_are_refused(void **state)
{
    NEED_BINARY();
    static const char *const refused[][2] = {
        {"score=combined --set policy.autoswap.w_doa=0 --set policy.autoswap.w_aoa=0 "
         "--set policy.autoswap.w_wdoa=0 --set policy.autoswap.w_swdoa=0",
            "[policy.autoswap] score = combined: w_doa, w_aoa, w_wdoa and w_swdoa are all 0"},
        {"score=doa --set policy.autoswap.w_doa=5",
            "[policy.autoswap] w_doa = 5 goes unused with score = doa; leave it out"},
        {"score=combined --set policy.autoswap.w_doa=5", NULL},
    };
    for (size_t i = 0; i < DT_COUNT(refused); i++) {
        char words[512];
        snprintf(words, sizeof words,
            "plan FILE --set memory.policy=autoswap --set policy.autoswap.%s", refused[i][0]);
        ran r = cli_run(words, lenet());
        assert_code(&r, refused[i][1] != NULL ? DT_E_CONFIG : 0);
        if (refused[i][1] != NULL)
            assert_has(r.err, refused[i][1]);
        cli_done(&r);
    }
}

/* What another option leaves unused is refused with its place, but for what it is anyway, as a
 * run's own file says all. */
static void options_that_go_unused_are_refused(void **state)
{
    NEED_BINARY();
    static const struct {
        const char *policy, *options, *says;
    } all[] = {
        {"superneurons", "offload = off\nprefetch = off",
            "unused.ini:7: [policy.superneurons] prefetch = off goes unused with offload = off; "
            "leave it out, or set offload = on"},
        {"superneurons", "offload = off\ncache = off",
            "cache = off goes unused with offload = off"},
        {"superneurons", "cache = off\nleast = 1MiB", "least = 1MiB goes unused with cache = off"},
        {"superneurons", "recompute = off\nprefetch = off\nleast = 1MiB", NULL},
        {"superneurons", "offload = off\nprefetch = on\ncache = yes\nleast = 65536", NULL},
        {"vdnnpp", "density = .3", "density = .3 goes unused with compress = off"},
        {"vdnnpp", "density = .3\ncompress = on", NULL},
        {"autotm", "mode = static\nreach = 3", "reach = 3 goes unused with mode = static"},
        {"swapadvisor", "weights_from = 1MiB", "goes unused with weights = off; leave it out"},
        {"swapadvisor", "weights = host\nweights_samples = 4", "or set weights = search"},
        {"swapadvisor", "weights = host\nweights_from = 1MiB", NULL},
        {"chen_budget", "segment = 1MiB\nbudget = 2MiB",
            "budget = 2MiB goes unused with segment = 1MiB; leave it out, or set segment = auto"},
        {"chen_budget", "segment = auto\nbudget = 2MiB", NULL},
        {"autoswap", "seed = 2", "seed = 2 goes unused with score = swdoa"},
        {"zero_offload", "warmup = 7", "warmup = 7 goes unused with delay = off; leave it out"},
        {"zero_offload", "warmup = 40", NULL},
        {"zero_offload", "delay = on\nwarmup = 7", NULL},
    };
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        char text[512];
        if (strcmp(all[i].policy, "autotm") == 0 && dt_solver_name() == NULL)
            continue;
        snprintf(text, sizeof text,
            "[model]\nname = lenet5\n[memory]\npolicy = %s\n[policy.%s]\n%s\n", all[i].policy,
            all[i].policy, all[i].options);
        ran r = cli_run("plan FILE", cli_file("unused.ini", text));
        assert_code(&r, all[i].says != NULL ? DT_E_CONFIG : 0);
        if (all[i].says != NULL)
            assert_has(r.err, all[i].says);
        cli_done(&r);
    }
}

/* A layer that is fused into another goes by both names. */
static void stages_are_named_as_their_layers_or_what_is_fused_into_them(void **state)
{
    NEED_BINARY();
    static const char *const stages[] = {"*.relu2", "*.add", "conv1"};
    double peak[3];
    for (int i = 0; i < 3; i++) {
        char words[256];
        snprintf(words, sizeof words,
            "plan FILE --json --set model.name=resnet20 --set model.image=32 "
            "--set memory.policy=memonger --set policy.memonger.stages=%s",
            stages[i]);
        cJSON *o = plan_json(words, lenet());
        peak[i] = device_peak(o);
        cJSON_Delete(o);
    }
    assert_int_equal((uint64_t)peak[0], (uint64_t)peak[1]);
    assert_int_not_equal((uint64_t)peak[0], (uint64_t)peak[2]);
    ran r = cli_run(
        "plan FILE --set memory.policy=memonger --set policy.memonger.stages=*.rel", lenet());
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "'*.rel' matches no layer; the ");
    cli_done(&r);
}

static void counts_that_a_network_has_not_are_told_whole(void **state)
{
    NEED_BINARY();
    ran r =
        cli_run("plan FILE --set model.name=googlenet --set model.image=224 --set model.counts=1,2",
            lenet());
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "googlenet has no counts; remove [model] counts = 1,2\n");
    cli_done(&r);
}

/* A step that auto makes faster than keep_all's takes less, and never "-0.3% more". */
static void less_is_not_called_more(void **state)
{
    NEED_BINARY();
    ran r = cli_run("plan FILE --set model.name=vgg16 --set model.image=224 --set train.batch=64 "
                    "--set memory.policy=cswap --set policy.cswap.moves=all "
                    "--set policy.cswap.density=.35 --set memory.simulate=v100 "
                    "--set memory.device_budget=4GiB --set train.precision=fp32",
        lenet());
    assert_code(&r, DT_E_BUDGET);
    assert_has(r.err, "a step takes no more than ");
    assert_has(r.err, " with all kept");
    assert_has_not(r.err, ", -");
    cli_done(&r);
}

/* Packed values may not fit, and then the step is run again, which early updates rule out: sweep
 * and compare know of that what a run says. */
static void what_a_run_refuses_is_no_plan_to_take(void **state)
{
    NEED_BINARY();
    static const char says[] = "a step whose packed values do not fit is run again",
                      remedy[] = "leave the policy out that packs values by their zeros";
    static const char *const early[] = {"plan FILE --set memory.policy=cdma",
        "sweep FILE --json --policies cdma --set memory.device_budget=1MiB",
        "compare FILE --policies cdma --budgets 1 --set memory.simulate=p100"};
    char words[512];
    for (size_t i = 0; i < DT_COUNT(early); i++) {
        snprintf(
            words, sizeof words, "%s --set train.update=early --set train.finite=off", early[i]);
        ran r = cli_run(words, lenet());
        assert_code(&r, i == 0 ? DT_E_CONFIG : 0);
        if (i < 2) {
            assert_has(i == 0 ? r.err : r.out, says);
            assert_has(i == 0 ? r.err : r.out, remedy);
        }
        if (i == 1)
            assert_has(r.out, "\"largest_batch\":\t0,");
        if (i == 2)
            assert_has(r.out, "\n !cdma ");
        cli_done(&r);
    }
}

/* Before anything is planned: what is read is not written over, nor is one file written twice, and
 * no device stands where a file is to be. */
static void files_that_are_asked_for_twice_are_refused(void **state)
{
    NEED_BINARY();
    static const struct {
        const char *words, *says;
        int code;
    } cases[] = {
        {"plan FILE --text FILE", "is what is read, and would be overwritten", DT_E_CONFIG},
        {"plan FILE --json --timeline FILE", "is what is read", DT_E_CONFIG},
        {"compare FILE --csv FILE", "is what is read", DT_E_CONFIG},
        {"sweep FILE --csv FILE", "is what is read", DT_E_CONFIG},
        {"profile FILE --out FILE", "is what is read", DT_E_CONFIG},
        {"remat FILE --budget 1 --sequence FILE", "is what is read", DT_E_CONFIG},
        {"remat --chain FILE --budget 1 --sequence FILE", "is what is read", DT_E_CONFIG},
        {"plan FILE --timeline twice.csv --intervals twice.csv",
            "'twice.csv' is to be written twice, and the second would take the place", DT_E_CONFIG},
        {"plan FILE --timeline twice.csv --intervals ./twice.csv",
            "'./twice.csv' is to be written twice", DT_E_CONFIG},
        {"compare FILE --svg /dev/null/a.svg", "cannot be written: Not a directory", DT_E_IO},
        {"compare FILE --csv /dev/null", "'/dev/null' is a device; name a regular file", DT_E_IO},
        {"sweep FILE --csv /dev/full", "'/dev/full' is a device", DT_E_IO},
        {"plan FILE --timeline=", "'' is no name of a file", DT_E_IO},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        const char *file = lenet();
        char *before = cli_text(file);
        ran r = cli_run(cases[i].words, file);
        char *after = cli_text(file);
        if (r.code != cases[i].code || strstr(r.err, cases[i].says) == NULL)
            fail_msg("%s: %d, %s", cases[i].words, r.code, r.err);
        assert_string_equal(r.out, "");
        assert_string_equal(before, after);
        dt_free(before);
        dt_free(after);
        cli_done(&r);
    }
}

/* Any file that a key names or that is read besides, whoever writes: flags, train.dump_gradients,
 * DT_TRACE. */
static void what_is_read_is_not_written_over(void **state)
{
    NEED_BINARY();
    static const struct {
        const char *words, *trace, *says;
    } cases[] = {
        {"plan c.ini --set memory.profile=d/in.bin --timeline d/in.bin", "",
            "what memory.profile names"},
        {"plan c.ini --set model.weights=d/new --html - --text d/./new", "",
            "what model.weights names"},
        {"compare c.ini --vary memory.profile=auto,d/in.bin --csv d/in.bin", "",
            "what memory.profile names"},
        {"sweep c.ini --set data.path=d/in.bin --set memory.device_budget=1GiB --csv d/in.bin", "",
            "what data.path names"},
        {"profile c.ini --set data.source=cifar10 --set data.eval_path=d --out d/in.bin", "",
            "may be of the data that data.eval_path names"},
        {"eval c.ini --set model.weights=d/in.bin --outputs d/in.bin", "",
            "what model.weights names"},
        {"eval c.ini --random --outputs new", "./new", "by --outputs and by DT_TRACE"},
        {"eval c.ini --random", "c.ini", "what is read"},
        {"c.ini --set train.dump_gradients=d/in.bin --set model.weights=d/in.bin", "",
            "what model.weights names"},
        {"c.ini --set train.dump_gradients=c.ini", "", "what is read"},
        {"c.ini --plan d/in.bin", "d/in.bin", "what is read"},
        {"c.ini --set train.dump_gradients=new", "new", "what train.dump_gradients names"},
    };
    char folder[256];
    snprintf(folder, sizeof folder, "%s", dt_temp_path("read"));
    assert_true(mkdir(folder, 0700) == 0 && mkdir(dt_temp_path("read/d"), 0700) == 0);
    cli_file("read/c.ini", LENET);
    cli.folder = folder;
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        const bool plans = strstr(cases[i].words, "--plan") != NULL;
        ran r = cli_run("plan c.ini --text -", NULL);
        const char *file = cli_file("read/d/in.bin", plans ? r.out : "[density]\n* = 0.5\n");
        char *before = cli_text(file);
        cli_done(&r);
        setenv("DT_TRACE", cases[i].trace, 1);
        r = cli_run(cases[i].words, NULL);
        unsetenv("DT_TRACE");
        char *after = cli_text(file), *config = cli_text(dt_temp_path("read/c.ini"));
        if (r.code != DT_E_CONFIG || strstr(r.err, cases[i].says) == NULL)
            fail_msg("%s: %d, %s", cases[i].words, r.code, r.err);
        assert_string_equal(before, after);
        assert_string_equal(config, LENET);
        dt_free(config);
        dt_free(before);
        dt_free(after);
        cli_done(&r);
    }
    cli.folder = NULL;
}

/* Before anything is written, and before an older run is moved aside. */
static void gradients_that_cannot_be_dumped_are_refused_ahead(void **state)
{
    NEED_BINARY();
    static const struct {
        const char *path;
        int code;
        const char *says;
    } cases[] = {
        {"new/config.ini", DT_E_CONFIG, "is run.dir or in it"},
        {"./new/checkpoints/model.safetensors", DT_E_CONFIG, "is run.dir or in it"},
        {"d/../new//lock", DT_E_CONFIG, "is run.dir or in it"},
        {"new", DT_E_CONFIG, "is run.dir or in it"},
        {"d/pipe", DT_E_IO, "/d/pipe' is a FIFO"},
        {"d", DT_E_IO, "/d' is a folder"},
        {"gone/g.safetensors", DT_E_IO, "/gone/g.safetensors' cannot be written: No such file"},
        {"/dev/null", DT_E_IO, "'/dev/null' is a device"},
    };
    char folder[256], words[256];
    snprintf(folder, sizeof folder, "%s", dt_temp_path("dump"));
    assert_true(mkdir(folder, 0700) == 0 && mkdir(dt_temp_path("dump/d"), 0700) == 0);
    assert_int_equal(mkfifo(dt_temp_path("dump/d/pipe"), 0600), 0);
    cli_file("dump/c.ini", LENET);
    cli.folder = folder;
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        snprintf(words, sizeof words, "c.ini --set run.dir=new/ --set train.dump_gradients=%s",
            cases[i].path);
        ran r = cli_run(words, NULL);
        if (r.code != cases[i].code || strstr(r.err, cases[i].says) == NULL ||
            (r.code == DT_E_IO && strstr(r.err, "[train] dump_gradients = ") == NULL))
            fail_msg("%s: %d, %s", cases[i].path, r.code, r.err);
        cli_done(&r);
        assert_int_not_equal(access(dt_temp_path("dump/new"), F_OK), 0);
    }
    cli.folder = NULL;
}

/* What comes ahead is for the list to have or not, and a part that is refused is no way out. */
static void what_comes_ahead_makes_no_list_worse(void **state)
{
    NEED_BINARY();
    static const char *const ways[] = {
        "--set train.finite=off", "--set memory.generations=2 --set train.clip=0.5"};
    for (size_t i = 0; i < DT_COUNT(ways); i++) {
        char words[256];
        snprintf(words, sizeof words,
            "plan FILE --set model.name=resnet20 --set model.image=32 --set train.batch=8 "
            "--set memory.policy=zero_infinity,chen_sqrt --set memory.tier=disk "
            "--set train.update=early %s",
            ways[i]);
        ran r = cli_run(words, lenet());
        assert_code(&r, 0);
        assert_has_not(r.out, "worse here than");
        cli_done(&r);
    }
}

/* Each policy of a list rewrites what the one before it left, and none knows what comes behind. */
static void a_list_that_is_worse_than_its_parts_says_so(void **state)
{
    NEED_BINARY();
    static const struct {
        const char *list, *says;
    } cases[] = {
        {"chen_budget,vdnn_all",
            "chen_budget,vdnn_all is worse here than vdnn_all alone, which takes "},
        {"vdnn_all", NULL},
        {"gist_lossless,vdnn_all", NULL},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        char words[256];
        snprintf(words, sizeof words,
            "plan FILE --set model.name=resnet50 --set model.image=224 --set train.batch=32 "
            "--set train.precision=fp32 --set memory.policy=%s",
            cases[i].list);
        ran r = cli_run(words, lenet());
        assert_code(&r, 0);
        if (cases[i].says != NULL)
            assert_has(r.out, cases[i].says);
        else
            assert_has_not(r.out, " alone, ");
        cli_done(&r);
    }
    ran r = cli_run("FILE --set model.name=resnet20 --set model.image=32 --set train.steps=1 "
                    "--set memory.policy=chen_sqrt,vdnn_all",
        lenet());
    assert_code(&r, 0);
    assert_has(r.err, "worse here than vdnn_all alone");
    cli_done(&r);
    r = cli_run("sweep FILE --set model.name=resnet20 --set model.image=32 "
                "--set memory.device_budget=16MiB --set memory.policy=chen_sqrt,vdnn_all",
        lenet());
    assert_code(&r, 0);
    assert_has(r.out, "chen_sqrt,vdnn_all is worse here than vdnn_all alone, whose batch is ");
    cli_done(&r);
}

/* Where costs are known it is the predicted step that tells which costs less: what cdma moves and
 * chen_cheap computes again is all of cdma's and more, in less time. What comes to the same says
 * so.
 */
static void a_list_and_its_parts_are_told_apart_by_seconds(void **state)
{
    NEED_BINARY();
    static const char at[] = "FILE --set memory.simulate=p100 ";
    char words[512], file[512]; /* paths are lent */
    snprintf(file, sizeof file, "%s", dt_source_path("configs/resnet50.ini"));
    snprintf(words, sizeof words,
        "sweep %s--set memory.device_budget=2GiB --policies cdma,chen_cheap;vdnn_all,vdnn_conv",
        at);
    ran r = cli_run(words, file);
    assert_code(&r, 0);
    assert_has_not(r.out, "cdma,chen_cheap is worse");
    assert_has(r.out, "vdnn_all,vdnn_conv is no better here than vdnn_all alone, whose batch is ");
    cli_done(&r);
    snprintf(words, sizeof words, "plan %s--set memory.policy=vdnn_all,vdnn_conv", at);
    r = cli_run(words, file);
    assert_code(&r, 0);
    assert_has(r.out, "vdnn_all,vdnn_conv is no better here than vdnn_all alone, which takes ");
    cli_done(&r);
}

/* A budget that checkmate misses does not change what it names, which is its lowest peak; and an
 * answer that is annealed says that it is not proved. */
static void checkmate_names_its_lowest_peak(void **state)
{
    NEED_BINARY();
    if (dt_small_scale())
        skip(); /* a refusal looks for what fits */
    static const char at[] = "plan FILE --set memory.simulate=p100 --set memory.cache=none "
                             "--set memory.policy=checkmate --json";
    static const char *const budgets[] = {"5MiB", "7.66MiB"};
    char words[512], file[512]; /* paths are lent */
    snprintf(file, sizeof file, "%s", dt_source_path("configs/tiny_ini_network.ini"));
    ran r = cli_run(at, file);
    assert_code(&r, 0);
    cJSON *o = cJSON_Parse(r.out);
    const double least = json_number(json_object(o, "device"), "peak");
    cJSON_Delete(o);
    cli_done(&r);
    for (size_t i = 0; i < DT_COUNT(budgets); i++) {
        if (!dt_picked(i, 2, 2, 1))
            continue;
        snprintf(words, sizeof words, "%s --set memory.device_budget=%s", at, budgets[i]);
        r = cli_run(words, file);
        assert_code(&r, 4);
        o = cJSON_Parse(r.out);
        assert_int_equal(json_number(json_object(o, "device"), "peak"), least);
        cJSON_Delete(o);
        cli_done(&r);
    }
    snprintf(file, sizeof file, "%s", dt_source_path("configs/resnet20_cifar10.ini"));
    r = cli_run("plan FILE --set memory.simulate=p100 --set memory.cache=none --rows --set "
                "train.batch=16 --set memory.policy=checkmate --set memory.device_budget=12MiB",
        file);
    assert_code(&r, 0);
    assert_has(r.out, "checkmate: so annealing of the same problem has it, not proved the least");
    cli_done(&r);
}

/* The room on the host is that of a step which is run again; what others take of it is told. */
static void the_room_that_packed_values_take_is_told(void **state)
{
    NEED_BINARY();
    static const char at[] = "plan FILE --set model.name=resnet20 --set model.image=32 "
                             "--set train.precision=fp32 --set memory.policy=";
    char words[256];
    snprintf(words, sizeof words, "%scdma --set policy.cdma.density=0.3", at);
    ran r = cli_run(words, lenet());
    assert_code(&r, 0);
    const char *host = strstr(r.out, "\nhost peak"), *most = strstr(r.out, "\nof the host");
    const char *out = strstr(r.out, "\nmoved out");
    assert_true(host != NULL && most != NULL && out != NULL);
    const double all = strtod(host + strlen("\nhost peak"), NULL);
    const double usual = strtod(most + strlen("\nof the host"), NULL);
    const double moved = strtod(out + strlen("\nmoved out"), NULL);
    assert_true(usual < 0.8 * all && fabs(moved - usual) < 0.05 * usual);
    cli_done(&r);
    snprintf(words, sizeof words, "%svdnn_all", at);
    r = cli_run(words, lenet());
    assert_code(&r, 0);
    assert_has_not(r.out, "of the host");
    host = strstr(r.out, "\nhost peak");
    assert_true(host != NULL && fabs(strtod(host + strlen("\nhost peak"), NULL) - all) < 0.01);
    cli_done(&r);
}

/* Where it packs nothing, nothing changes; and what cannot be packed is refused. */
static void gist_in_bf16_changes_nothing(void **state)
{
    NEED_BINARY();
    static const char at[] = "plan FILE --set memory.policy=gist --set train.precision=bf16";
    char words[256];
    cJSON *o =
        plan_json("plan FILE --json --set memory.policy=gist --set train.precision=bf16", lenet());
    assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "exact")));
    cJSON_Delete(o);
    ran r = cli_run(at, lenet());
    assert_code(&r, 0);
    assert_has_not(r.out, "results ");
    cli_done(&r);
    snprintf(words, sizeof words, "%s --set policy.gist.dpr=fp8", at);
    r = cli_run(words, lenet());
    assert_code(&r, 2);
    assert_has(r.err, "[policy.gist] dpr = fp8 rounds values of 32 bits");
    cli_done(&r);
    r = cli_run("plan FILE --set memory.policy=gist --set train.precision=fp32", lenet());
    assert_code(&r, 0);
    assert_has(r.out, "results      change: ");
    cli_done(&r);
}

DT_TEST_GROUP(mistakes)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_policy_without_the_budget_that_it_wants_says_so),
        cmocka_unit_test(a_policy_that_saves_nothing_says_so),
        cmocka_unit_test(a_budget_of_a_policy_that_is_not_kept_to_is_told),
        cmocka_unit_test(homes_are_searched_under_a_policys_own_budget),
        cmocka_unit_test(weights_that_count_for_nothing_are_refused),
        cmocka_unit_test(options_that_go_unused_are_refused),
        cmocka_unit_test(stages_are_named_as_their_layers_or_what_is_fused_into_them),
        cmocka_unit_test(counts_that_a_network_has_not_are_told_whole),
        cmocka_unit_test(less_is_not_called_more),
        cmocka_unit_test(what_a_run_refuses_is_no_plan_to_take),
        cmocka_unit_test(files_that_are_asked_for_twice_are_refused),
        cmocka_unit_test(what_is_read_is_not_written_over),
        cmocka_unit_test(gradients_that_cannot_be_dumped_are_refused_ahead),
        cmocka_unit_test(a_list_that_is_worse_than_its_parts_says_so),
        cmocka_unit_test(what_comes_ahead_makes_no_list_worse),
        cmocka_unit_test(checkmate_names_its_lowest_peak),
        cmocka_unit_test(a_list_and_its_parts_are_told_apart_by_seconds),
        cmocka_unit_test(gist_in_bf16_changes_nothing),
        cmocka_unit_test(the_room_that_packed_values_take_is_told),
        cmocka_unit_test(names_of_output_mean_what_they_say),
        cmocka_unit_test(heads_that_a_card_has_no_room_for_are_refused_where_they_are_planned),
        cmocka_unit_test(a_file_is_written_into_a_folder_that_is_there),
        cmocka_unit_test(a_missing_folder_of_the_disk_tier_is_no_lack_of_memory),
        cmocka_unit_test(a_plan_tells_what_this_machine_lacks),
        cmocka_unit_test(a_plan_begins_with_the_answer),
        cmocka_unit_test(words_of_others_are_translated),
        cmocka_unit_test(what_is_far_is_not_suggested),
        cmocka_unit_test(numbers_written_otherwise_are_told_rightly),
        cmocka_unit_test(assignments_out_of_place_are_put_right),
        cmocka_unit_test(what_is_absent_is_told_with_what_to_do_instead),
        cmocka_unit_test(files_of_other_formats_are_known),
        cmocka_unit_test(weights_that_do_not_fit_are_told_the_way),
        cmocka_unit_test(what_is_in_vain_is_told),
        cmocka_unit_test(threads_without_a_processor_are_told),
        cmocka_unit_test(options_of_another_optimizer_or_schedule_are_told),
        cmocka_unit_test(names_that_change_nothing_are_told),
        cmocka_unit_test(a_run_has_weights_in_it),
        cmocka_unit_test(folders_are_told_from_what_is_in_them),
        cmocka_unit_test(configurations_are_found_by_their_names),
        cmocka_unit_test(translations_lead_somewhere),
        cmocka_unit_test(every_mistake_is_told_in_one_pass),
        cmocka_unit_test(options_of_a_policy_that_is_not_asked_for_are_told_so),
        cmocka_unit_test(statistics_of_bytes_are_refused),
        cmocka_unit_test(a_run_of_old_words_goes_on),
        cmocka_unit_test(results_of_a_run_go_to_stdout),
        cmocka_unit_test(the_json_of_a_plan_has_what_the_table_has),
        cmocka_unit_test(bench_feeds_words_that_the_network_has),
        cmocka_unit_test(mistakes_are_told_together_in_the_order_of_lines),
        cmocka_unit_test(an_option_of_a_policy_is_told_in_its_line),
        cmocka_unit_test(a_file_of_another_kind_is_asked_about),
        cmocka_unit_test(data_that_does_not_go_with_the_network_is_told),
        cmocka_unit_test(a_source_that_the_network_cannot_take_is_blamed_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
