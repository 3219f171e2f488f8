/* The whole program with device.kind = cuda, on a model of a card (tests/card): CUDA's driver, as
 * it is, and the kernels' own sources train real networks. In whatever order the card takes its
 * work, a run ends with the same bits, under every exact policy, fresh or resumed, and near the
 * processor's; what it leaves on the card, or asks of it against CUDA's rules, fails it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/sha256.h"
#include "tests/fixture/json_read.h"
#include "tests/fixture/run_cli.h"

/* Three steps, of which the second is captured and the third is replayed, and an evaluation. */
#define TRAIN                                                                                      \
    "[device]\nkind = cuda\n[train]\nbatch = 2\nsteps = 3\nprecision = fp32\nlr = 0.02\n"          \
    "momentum = 0.9\n"
#define PICTURES "[data]\nsource = synthetic\nsamples = 16\n" TRAIN
#define LENET "[model]\nname = lenet5\n" PICTURES
#define RESNET "[model]\nname = resnet20\nwidth = 16\nimage = 8\n" PICTURES
/* A residual block, then one in the form of U-Net, of most kinds of layers. */
#define CONV(name, more)                                                                           \
    "[conv " name "]\nout = 8\nkernel = 3\npad = 1\nbias = off\n" more "[batchnorm " name          \
    ".norm]\n"                                                                                     \
    "[relu " name ".relu]\n"
/* clang-format off */
#define BLOCKS                                                                                     \
    "[model]\nimage = 12\nclasses = 10\n" PICTURES                                                 \
    CONV("stem", "") CONV("one", "") CONV("two", "")                                               \
    "[add sum]\ninput = two.relu, stem.relu\n[relu sum.relu]\n[maxpool down]\nkernel = 2\n"         \
    CONV("low", "groups = 2\n")                                                                    \
    "[upsample up]\n[concat join]\ninput = up, sum.relu\n[avgpool last]\nkernel = 2\n"             \
    "[zero_pad border]\n[dropout drop]\n[fc f]\nout = 10\n"
/* clang-format on */
/* Numbers are learned: of the picture itself, and several labels. */
#define ITSELF                                                                                     \
    "[model]\nimage = 12\n[data]\nsource = synthetic\nsamples = 16\ntarget = input\n" TRAIN CONV(  \
        "one", "") CONV("two", "") "[conv last]\nout = 3\nkernel = 1\n[mse loss]\n"
#define SEVERAL                                                                                    \
    "[model]\nimage = 12\n" PICTURES CONV("one", "") CONV("two", "") "[fc f]\nout = 5\n[bce "      \
                                                                     "loss]\n"
#define GPT2                                                                                       \
    "[model]\nname = gpt2\nlayers = 1\nwidth = 16\nheads = 2\nvocab = 128\ncontext = 16\n"         \
    "dropout = 0.1\n[data]\nsource = text\npath = card.txt\n" TRAIN                                \
    "optimizer = adamw\nclip = 1\n"
#define LSTMS                                                                                      \
    "[model]\nname = lstm_attention\nlayers = 2\nwidth = 16\nvocab = 128\ncontext = 12\n"          \
    "dropout = 0.1\n[data]\nsource = text\npath = card.txt\n" TRAIN                                \
    "optimizer = adamw\nclip = 1\n"
#define HALF_FROZEN "--set train.freeze=stem*,one*,two*,sum*"
#define PACKED                                                                                     \
    "--set train.optimizer=adamw --set train.states=8bit --set train.lr=0.001 "                    \
    "--set train.rates=*:0.5,fc*:2"
#define BF16 "--set train.precision=bf16"

typedef struct result {
    char sum[DT_SHA256_TEXT]; /* of the weights */
    double loss;
} result;

static const char *run_dir(void)
{
    static char dir[512];
    snprintf(dir, sizeof dir, "%s", dt_temp_path("card-run"));
    return dir;
}

/* What a run that ended well has left. */
static result result_of_run(void)
{
    char path[600];
    dt_err err = {0};
    result got;
    uint64_t bytes;
    snprintf(path, sizeof path, "%s/summary.json", run_dir());
    char *summary = cli_text(path);
    cJSON *o = cJSON_Parse(summary);
    got.loss = json_number(o, "final_loss");
    assert_true(isfinite(got.loss) && json_number(o, "device_peak_planned") > 0);
    assert_true(json_number(o, "device_peak_planned") == json_number(o, "device_peak_measured"));
    cJSON_Delete(o);
    dt_free(summary);
    snprintf(path, sizeof path, "%s/checkpoints/model.safetensors", run_dir());
    assert_ok(dti_sha256_file(path, got.sum, &bytes, DT_E_IO, &err), &err);
    return got;
}

static result train(const char *net, const char *sets, int seed)
{
    char words[1200], order[16];
    snprintf(order, sizeof order, "%d", seed);
    setenv("DT_CARD_SEED", order, 1);
    snprintf(
        words, sizeof words, "FILE %s --set run.dir=%s --set run.overwrite=on", sets, run_dir());
    ran r = cli_run(words, cli_file("card.ini", net));
    if (r.code != 0)
        fail_msg("%s, order %d: exit code %d\n%.600s", sets, seed, r.code,
            strlen(r.err) > 600 ? r.err + strlen(r.err) - 600 : r.err);
    cli_done(&r);
    return result_of_run();
}

/* The first of them is what the others are held against, of which every commit has some: at least
 * one. */
static void train_all(const char *net, const char *precision, const char *const *how, size_t n)
{
    const size_t part = dt_whole_scale() ? 1 : n > 4 ? 4 : n - 1;
    result first = {"", 0};
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && (i + dt_test_seed()) % part != 0)
            continue;
        char sets[600];
        snprintf(sets, sizeof sets, "%s --set memory.policy=%s", precision, how[i]);
        const result got = train(net, sets, (int)i);
        first = i == 0 ? got : first;
        if (strcmp(got.sum, first.sum) != 0)
            fail_msg("%s: weights differ from those under %s, losses %.9g and %.9g", sets, how[0],
                got.loss, first.loss);
    }
}

/* Where there is too little room for what is packed, the step is made again without. */
static const char *const all[] = {"keep_all", "keep_all", "vdnn_all", "vdnn_conv", "cdma",
    "cdma --set policy.cdma.density=0.3", "chen_sqrt", "chen_budget", "gist_lossless",
    "gist_lossless --set policy.gist_lossless.density=0.2", "gist_lossless,vdnn_conv",
    "vdnn_all --set memory.tier=disk", "keep_all --set memory.algorithms=small"};
static const char *const some[] = {
    "keep_all", "vdnn_all", "gist_lossless,vdnn_conv", "chen_sqrt", "cdma"};
static const char *const homes[] = {
    "keep_all", "zero_offload", "zero_infinity", "vdnn_all,zero_offload"};
static const char *const few[] = {"keep_all", "vdnn_all", "chen_sqrt"};
/* What rounds at random draws the same, whatever the order, and where it is launched again. */
static const char *const drawn[] = {"actnn", "actnn", "actnn,vdnn_all"};
static const char *const split[] = {"keep_all --set train.micro_batch=1",
    "vdnn_all --set train.micro_batch=1", "cdma --set train.micro_batch=1"};

#define SAME_BITS(name, net, precision, turn, how)                                                 \
    static void name(void **state)                                                                 \
    {                                                                                              \
        NEED_BINARY();                                                                             \
        dt_take_turns(turn, 2);                                                                    \
        train_all(net, precision, how, DT_COUNT(how));                                             \
    }
/* Each commit has one of both precisions. */
#define SAME_BITS_IN_BOTH(name, net, turn, how)                                                    \
    static void name(void **state)                                                                 \
    {                                                                                              \
        NEED_BINARY();                                                                             \
        for (uint64_t p = 0; p < 2; p++)                                                           \
            if (dt_picked(p + (turn), 2, 2, 1))                                                    \
                train_all(net, p == 0 ? "" : BF16, how, DT_COUNT(how));                            \
    }
SAME_BITS(blocks_end_with_the_same_bits, BLOCKS, "", 1, all)
SAME_BITS(lenet_in_bf16_ends_with_the_same_bits, LENET, BF16, 0, some)
SAME_BITS_IN_BOTH(an_autoencoder_ends_with_the_same_bits, ITSELF, 1, few)
SAME_BITS(several_labels_end_with_the_same_bits, SEVERAL, BF16, 0, few)
SAME_BITS(frozen_blocks_end_with_the_same_bits, BLOCKS, HALF_FROZEN, 0, few)
SAME_BITS(what_is_drawn_ends_with_the_same_bits, BLOCKS, "", 1, drawn)
SAME_BITS(states_in_8_bits_end_with_the_same_bits, LENET, PACKED, 0, homes)
SAME_BITS_IN_BOTH(gpt2_ends_with_the_same_bits, GPT2, 0, few)
SAME_BITS_IN_BOTH(lstms_end_with_the_same_bits, LSTMS, 1, few)
SAME_BITS(micro_batches_end_with_the_same_bits, BLOCKS, BF16, 1, split)

/* A library's call that cannot be captured: at the beginning of a capture, in it, in none so long.
 */
static void what_cannot_be_captured_is_launched_plainly(void **state)
{
    NEED_BINARY();
    dt_take_turns(0, 2);
    static const char *const spoilt[] = {"1", "7", "100000"};
    const result right = train(LENET, "--set memory.policy=vdnn_all", 1);
    for (size_t i = 0; i < DT_COUNT(spoilt); i++) {
        char words[1200];
        if (i < 2 && !dt_picked(i, 2, 2, 1))
            continue;
        setenv("DT_CARD_SPOIL", spoilt[i], 1);
        snprintf(words, sizeof words,
            "FILE --set memory.policy=vdnn_all --set run.dir=%s --set run.overwrite=on", run_dir());
        ran r = cli_run(words, cli_file("card.ini", LENET));
        unsetenv("DT_CARD_SPOIL");
        assert_code(&r, 0);
        const bool told = strstr(r.err, "launched row by row") != NULL;
        assert_int_equal(told, i < 2);
        cli_done(&r);
        assert_string_equal(result_of_run().sum, right.sum);
    }
}

/* By events on its queues; with rows launched one by one the bits are the same. */
static void a_trace_has_the_times_of_the_card(void **state)
{
    NEED_BINARY();
    static const char *const streams[] = {"compute", "out", "in", "write", "read"};
    char path[256];
    snprintf(path, sizeof path, "%s", dt_temp_path("card-rows.csv"));
    for (int disk = 0; disk < 2; disk++) {
        if (!dt_picked((uint64_t)disk, 2, 2, 1))
            continue;
        const char *how = disk == 1 ? "--set memory.policy=vdnn_all --set memory.tier=disk"
                                    : "--set memory.policy=vdnn_all";
        double until[5] = {0};
        int n = 0, copies = 0;
        const result right = train(LENET, how, 2);
        setenv("DT_TRACE", path, 1);
        const result got = train(LENET, how, 3);
        unsetenv("DT_TRACE");
        assert_string_equal(got.sum, right.sum);
        char *text = cli_text(path);
        for (const char *at = strchr(text, '\n') + 1; *at != '\0'; at = strchr(at, '\n') + 1, n++) {
            char stream[16], kind[16];
            double begin, end;
            assert_int_equal(
                sscanf(at, "%*[^,],%*[^,],%*[^,],%*[^,],%15[^,],%*[^,],%15[^,],%*[^,],%lf,%lf",
                    stream, kind, &begin, &end),
                4);
            copies += strncmp(kind, "copy", 4) == 0;
            for (int i = 0; i < 5; i++)
                if (strcmp(stream, streams[i]) == 0) {
                    assert_true(begin >= until[i] - 1e-6 && end >= begin);
                    until[i] = end;
                }
        }
        assert_true(n > 100 && copies >= 6);
        dt_free(text);
    }
}

/* How fast copies, codecs and ops are is the card's business, and not the processor's beside it.
 * What stands in the way of a measurement at all, other work on this machine, is no failure. */
static void a_profile_is_of_the_card(void **state)
{
    NEED_BINARY();
    char out[256], words[400];
    if (!dt_picked(1, 3, 3, 1)) /* it takes seconds */
        skip();
    snprintf(out, sizeof out, "%s", dt_temp_path("card.profile"));
    snprintf(words, sizeof words, "profile FILE --steps 3 --out %s", out);
    ran r = cli_run(words, cli_file("card.ini", LENET));
    if (r.code == DT_E_DEVICE && strstr(r.err, "would not hold") != NULL) {
        cli_done(&r);
        skip();
    }
    assert_code(&r, 0);
    assert_has(r.err, "steps as they are in training");
    cli_done(&r);
    char *text = cli_text(out);
    cJSON *profile = cJSON_Parse(text);
    const cJSON *codec;
    int beside = 0, across = 0;
    cJSON_ArrayForEach(codec, cJSON_GetObjectItem(profile, "codecs"))
    {
        const bool far = cJSON_IsTrue(cJSON_GetObjectItem(codec, "across"));
        beside += !far;
        across += far;
        assert_string_not_equal(
            cJSON_GetStringValue(cJSON_GetObjectItem(codec, "codec")), "lz4"); /* no kernels */
    }
    assert_true(beside > 4 && across == beside);
    const cJSON *link;
    double rate[2] = {0, 0}; /* between ops, and beside them: the same on a card */
    cJSON_ArrayForEach(link, cJSON_GetObjectItem(profile, "links"))
    {
        const char *tier = cJSON_GetStringValue(cJSON_GetObjectItem(link, "tier"));
        const char *by = cJSON_GetStringValue(cJSON_GetObjectItem(link, "by"));
        const char *direction = cJSON_GetStringValue(cJSON_GetObjectItem(link, "direction"));
        if (strcmp(tier, "host") == 0 && strcmp(direction, "out") == 0)
            rate[strcmp(by, "team") == 0] = json_number(link, "rate");
    }
    assert_true(rate[0] > 0 && rate[0] == rate[1]);
    cJSON_Delete(profile);
    dt_free(text);
    snprintf(
        words, sizeof words, "plan FILE --set memory.policy=cdma --set memory.profile=%s", out);
    r = cli_run(words, cli_file("card.ini", LENET));
    assert_code(&r, 0);
    assert_has(r.out, "predicted");
    cli_done(&r);
}

static void losses_are_near_those_of_the_processor(void **state)
{
    NEED_BINARY();
    static const char *const nets[] = {LENET, RESNET, BLOCKS, GPT2, ITSELF, SEVERAL};
    for (size_t i = 0; i < DT_COUNT(nets); i++) {
        if (!dt_picked(i, 2, 2, 1))
            continue;
        const result there = train(nets[i], "", 5),
                     here = train(nets[i], "--set device.kind=cpu", 0);
        if (!(fabs(there.loss - here.loss) <= 1e-3 * fabs(here.loss)))
            fail_msg("net %zu: loss %.9g on the card, %.9g here", i, there.loss, here.loss);
    }
}

static void a_run_that_goes_on_ends_with_the_same_bits(void **state)
{
    NEED_BINARY();
    dt_take_turns(1, 2);
    static const char *const ways[] = {"", PACKED};
    for (size_t i = 0; i < DT_COUNT(ways); i++) {
        char words[1200], how[600];
        snprintf(how, sizeof how, "%s --set memory.policy=vdnn_all --set train.steps=", ways[i]);
        snprintf(words, sizeof words, "%s5", how);
        const result whole = train(LENET, words, 1);
        snprintf(words, sizeof words, "%s2", how);
        train(LENET, words, 2);
        snprintf(words, sizeof words, "FILE %s5 --set run.dir=%s --resume", how, run_dir());
        ran r = cli_run(words, cli_file("card.ini", LENET));
        assert_code(&r, 0);
        cli_done(&r);
        assert_string_equal(result_of_run().sum, whole.sum);
    }
}

/* The host updates beside the card: in pictures its ops have a lane of their own. */
static void plans_whose_host_updates_are_drawn(void **state)
{
    NEED_BINARY();
    char words[1400], map[512], page[512];
    snprintf(map, sizeof map, "%s", dt_temp_path("card.svg"));
    snprintf(page, sizeof page, "%s", dt_temp_path("card.html"));
    snprintf(words, sizeof words,
        "plan FILE --set device.card=rtx3090 --set memory.simulate=rtx3090 --set "
        "memory.policy=zero_offload --program update --map %s --html %s",
        map, page);
    ran r = cli_run(words, cli_file("card.ini", LENET));
    assert_code(&r, 0);
    cli_done(&r);
    char *svg = cli_text(map), *written = cli_text(page);
    const char *lane = strstr(svg, ">ops, host<"), *in_page = strstr(written, ">ops, host<");
    assert_non_null(lane);
    assert_non_null(in_page);
    assert_has(lane, "<title>conv1.weight.sgd, update<");
    assert_has(in_page, "<g class=\"update\" data-of=\"op\">\n<rect ");
    assert_has_not(written, "data-i=\"-1\"");
    dt_free(svg);
    dt_free(written);
}

/* Places in the text stand in it, so that no two of its lines are the same. */
static int write_text(void **state)
{
    char text[4000];
    size_t at = 0;
    (void)state;
    while (at < sizeof text - 40)
        at += (size_t)snprintf(text + at, sizeof text - at, "place %zu, not another\n", at);
    cli_file("card.txt", text);
    return 0;
}

DT_TEST_GROUP(card)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lenet_in_bf16_ends_with_the_same_bits),
        cmocka_unit_test(blocks_end_with_the_same_bits),
        cmocka_unit_test(frozen_blocks_end_with_the_same_bits),
        cmocka_unit_test(what_is_drawn_ends_with_the_same_bits),
        cmocka_unit_test(states_in_8_bits_end_with_the_same_bits),
        cmocka_unit_test(an_autoencoder_ends_with_the_same_bits),
        cmocka_unit_test(several_labels_end_with_the_same_bits),
        cmocka_unit_test(gpt2_ends_with_the_same_bits),
        cmocka_unit_test(lstms_end_with_the_same_bits),
        cmocka_unit_test(micro_batches_end_with_the_same_bits),
        cmocka_unit_test(what_cannot_be_captured_is_launched_plainly),
        cmocka_unit_test(a_trace_has_the_times_of_the_card),
        cmocka_unit_test(a_profile_is_of_the_card),
        cmocka_unit_test(losses_are_near_those_of_the_processor),
        cmocka_unit_test(a_run_that_goes_on_ends_with_the_same_bits),
        cmocka_unit_test(plans_whose_host_updates_are_drawn),
    };
    cli.program = "tests/card/dnntrain";
    cli.threads = "1"; /* kernels run on one thread as it is */
    return cmocka_run_group_tests(tests, write_text, NULL);
}
