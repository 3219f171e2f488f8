/* The whole program with device.kind = cuda: what it says without a card, and, with one, that a run
 * ends with the same bits under every exact policy, with its copies on the way and its graphs
 * replayed, and near those of the processor. */
#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/sha256.h"
#include "memory/codec.h"
#include "tests/fixture/gpu_check.h"
#include "tests/fixture/run_cli.h"

#define NEED_BUILT()                                                                               \
    do {                                                                                           \
        NEED_BINARY();                                                                             \
        if (!dt_device_built(DT_CUDA))                                                             \
            skip();                                                                                \
    } while (0)

/* For what is said without a card, of which nothing is asked where there is one. */
#define NEED_NO_GPU()                                                                              \
    do {                                                                                           \
        NEED_BUILT();                                                                              \
        if (dt_device_answers(DT_CUDA, NULL))                                                      \
            skip();                                                                                \
    } while (0)

static const char *config(void)
{
    return cli_file("cuda.ini",
        "[model]\nname = lenet5\n[data]\nsource = synthetic\n[train]\nbatch = 16\nsteps = 6\n"
        "precision = fp32\nlr = 0.02\nmomentum = 0.9\n[device]\nkind = cuda\n");
}

static void a_program_without_it_says_so(void **state)
{
    NEED_BINARY();
    if (dt_device_built(DT_CUDA))
        skip();
    ran r = cli_run("FILE", config());
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "cuda.ini:12: [device] kind = cuda: this program was built without CUDA");
    assert_has(r.err, "auto");
    cli_done(&r);
}

static void without_a_card_a_run_ends_with_8_and_says_what_to_do(void **state)
{
    NEED_NO_GPU();
    ran r = cli_run("FILE", config());
    assert_code(&r, DT_E_DEVICE);
    assert_has(r.err, "device.kind = cpu");
    assert_has(r.err, "cuda.ini:12: [device] kind = cuda");
    cli_done(&r);
}

static void without_a_card_plans_are_made_and_verified(void **state)
{
    NEED_BUILT();
    static const char *const policies[] = {
        "keep_all", "vdnn_all", "gist_lossless", "chen_sqrt", "cdma", "network_wide"};
    for (size_t i = 0; i < DT_COUNT(policies); i++) {
        char words[256];
        snprintf(words, sizeof words, "plan FILE --json --set memory.policy=%s", policies[i]);
        ran r = cli_run(words, config());
        assert_code(&r, 0);
        assert_has(r.out, "\"device_kind\":\t\"cuda\"");
        cli_done(&r);
    }
}

static void tf32_is_of_cuda_devices(void **state)
{
    NEED_BINARY();
    ran r = cli_run("plan FILE --set train.precision=tf32 --set device.kind=cpu", config());
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "precision = tf32: tf32 is of cuda devices; set train.precision = fp32");
    cli_done(&r);
    if (!dt_device_built(DT_CUDA))
        return;
    r = cli_run("plan FILE --json --set train.precision=tf32", config());
    assert_code(&r, 0);
    assert_has(r.out, "\"precision\":\t\"tf32\"");
    cli_done(&r);
}

static void auto_takes_the_processor_without_a_card(void **state)
{
    NEED_NO_GPU();
    ran r = cli_run("plan FILE --json --set device.kind=auto", config());
    assert_code(&r, 0);
    assert_has(r.out, "\"device_kind\":\t\"cpu\"");
    cli_done(&r);
}

static void devices_are_listed_with_the_reason(void **state)
{
    NEED_BUILT();
    ran r = cli_run("list devices", NULL);
    assert_code(&r, 0);
    assert_has(r.out, "cuda");
    assert_has(
        r.out, dt_device_answers(DT_CUDA, NULL) ? "compute capability" : "not to be used here: ");
    cli_done(&r);
}

/* ---- for a card that is not here ---- */

static char *plan_for(const char *sets)
{
    char words[512];
    snprintf(words, sizeof words, "plan FILE --json %s", sets);
    ran r = cli_run(words, config());
    assert_code(&r, 0);
    char *out = r.out;
    r.out = NULL;
    cli_done(&r);
    return out;
}

static double number(const char *json, const char *section, const char *key)
{
    cJSON *o = cJSON_Parse(json);
    const cJSON *of = cJSON_GetObjectItem(o, section);
    const double v = cJSON_GetNumberValue(cJSON_GetObjectItem(of, key));
    cJSON_Delete(o);
    return v;
}

static void tf32_is_simulated_between_fp32_and_bf16(void **state)
{
    NEED_BUILT();
    static const char *const precisions[] = {"bf16", "tf32", "fp32"};
    double before = 0;
    for (size_t i = 0; i < DT_COUNT(precisions); i++) {
        char sets[128];
        snprintf(sets, sizeof sets,
            "--set memory.simulate=h100 --set model.name=vgg16 --set train.precision=%s",
            precisions[i]);
        char *plan = plan_for(sets);
        assert_true(number(plan, "predicted", "step_seconds") > 1.2 * before);
        before = number(plan, "predicted", "step_seconds");
        dt_free(plan);
    }
}

static void plans_are_made_for_a_card_by_name(void **state)
{
    NEED_BUILT();
    char *h200 = plan_for("--set device.card=h200"), *less = plan_for("");
    assert_has(h200, "\"card\":\t\"h200\"");
    /* scratch is in it, which without a card and a name is in no plan */
    if (!dt_device_answers(DT_CUDA, NULL))
        assert_true(number(h200, "device", "peak") >= number(less, "device", "peak") + 32e6);
    /* the card's memory, but a GiB */
    assert_true(number(h200, "device", "budget") == 143052.0 * 0x1p20 - 0x1p30);
    dt_free(h200);
    dt_free(less);
    char *small = plan_for("--set device.card=h200 --set memory.device_budget=1GiB");
    assert_true(number(small, "device", "budget") == 0x1p30);
    dt_free(small);
    ran r = cli_run("plan FILE --set device.card=rtx4090", config());
    assert_code(&r, 0);
    assert_has(r.out, "device cuda: GeForce RTX 4090");
    cli_done(&r);
    r = cli_run("plan FILE --set device.card=rtx4090 --set memory.simulate=a100", config());
    assert_has(r.out, "A100 40GB, a card's constants, and not those of device.card =\n");
    cli_done(&r);
    r = cli_run("plan FILE --set device.card=rtx4090 --set memory.simulate=rtx4090", config());
    assert_has(r.out, "GeForce RTX 4090, a card's constants\n");
    cli_done(&r);
    r = cli_run("list cards", NULL);
    assert_code(&r, 0);
    assert_has(r.out, "h200       H200: 139.7 GiB; reaches 50.2 TFLOP/s (16 bits: 494), 3600 GB/s, "
                      "link 50 GB/s; compute capability 9.0\n");
    cli_done(&r);
    r = cli_run("help rtx3090", NULL);
    assert_code(&r, 0);
    assert_has(r.out, "--set memory.simulate=rtx3090\n");
    assert_has(r.out, "--set device.card=rtx3090\n");
    cli_done(&r);
    r = cli_run("help own", NULL);
    assert_code(&r, 0);
    assert_has(r.out, "[card]\n");
    cli_done(&r);
}

static void a_card_that_is_too_small_is_told_before_it_is_rented(void **state)
{
    NEED_BUILT();
    ran r = cli_run("plan FILE --set device.card=l4 --set model.name=alexnet --set "
                    "train.batch=8192",
        config());
    assert_code(&r, DT_E_BUDGET);
    assert_has(r.err, "all of l4 but what CUDA needs");
    assert_has(r.err, "fits if: [memory] policy = ");
    cli_done(&r);
    r = cli_run("sweep FILE --set device.card=l4 --policies keep_all", config());
    assert_code(&r, 0);
    assert_has(r.out, "largest batch in a device budget of 20.90 GiB (22,440,574,976 bytes)");
    cli_done(&r);
    r = cli_run("sweep FILE --set device.card=rtx3060 --policies keep_all",
        cli_file("wide.ini", "[model]\nname = gpt2\nlayers = 1\nwidth = 16384\nheads = 256\n"
                             "vocab = 64\ncontext = 16\n[data]\nsource = synthetic\n[train]\n"
                             "precision = fp32\n"));
    assert_code(&r, DT_E_BUDGET);
    assert_has(r.err, "memory.device_budget is 10.60 GiB (all of rtx3060 but what CUDA needs): no "
                      "policy trains a single sample in it");
    cli_done(&r);
}

/* As plan refuses them as memory.device_budget; evenly spread ones end at what the card has. */
static void budgets_beyond_the_card_are_no_budgets(void **state)
{
    NEED_BUILT();
    ran r = cli_run("compare FILE --set device.card=rtx3090 --policies keep_all --budgets "
                    "1GiB,100GiB",
        config());
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "--budgets 100.00 GiB");
    assert_has(r.err, ": a GeForce RTX 3090 has 23.50 GiB");
    cli_done(&r);
    r = cli_run("compare FILE --json --set device.card=rtx3090 --policies chen_sqrt --budgets 2 "
                "--set memory.device_budget=33MiB",
        config());
    assert_code(&r, 0);
    cJSON *all = cJSON_Parse(r.out);
    const cJSON *row;
    double most = 0;
    cJSON_ArrayForEach(row, all) most =
        fmax(most, cJSON_GetNumberValue(cJSON_GetObjectItem(row, "budget")));
    assert_true(most == 33 * 0x1p20);
    cJSON_Delete(all);
    cli_done(&r);
}

/* No kernel of a card packs by it, which is known before anything is planned. */
static void no_plan_for_a_card_packs_by_lz4(void **state)
{
    NEED_BUILT();
    static const char *const sections[] = {
        "[memory]\npolicy = cswap\n[policy.cswap]\ncodec = lz4\n",
        "[memory.layers]\nrelu* = encode lz4\n", "[memory.layers]\nrelu* = offload lz4\n"};
    for (size_t i = 0; i < DT_COUNT(sections) && dt_codec_wants("lz4") == NULL; i++) {
        char text[512];
        snprintf(text, sizeof text, "[model]\nname = lenet5\n[data]\nsource = synthetic\n%s",
            sections[i]);
        ran r = cli_run("plan FILE --set device.card=rtx3090", cli_file("lz4.ini", text));
        assert_code(&r, DT_E_CONFIG);
        assert_has(r.err, "no cuda kernels");
        assert_has(r.err, "as zvc");
        cli_done(&r);
    }
}

static void a_named_card_is_for_plans_alone(void **state)
{
    NEED_BUILT();
    ran r = cli_run("FILE --set device.card=h200", config());
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "[device] card = h200 is for plans");
    cli_done(&r);
    r = cli_run("plan FILE --set device.card=h20", config());
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "card = h20: no such card; did you mean 'h200'?");
    cli_done(&r);
    r = cli_run("plan FILE --set device.card=h200 --set device.kind=cpu", config());
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "device.kind = cpu excludes it");
    cli_done(&r);
}

static void without_a_card_or_a_name_a_plan_says_what_it_lacks(void **state)
{
    NEED_NO_GPU();
    ran r = cli_run("plan FILE", config());
    assert_code(&r, 0);
    assert_has(r.out, "on the device: no card here to fit; ");
    assert_has(r.out, "no card answers here");
    assert_has(r.out, "dnntrain list cards");
    cli_done(&r);
    char *json = plan_for("");
    cJSON *o = cJSON_Parse(json);
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(o, "fits")));
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(cJSON_GetObjectItem(o, "machine"), "fits")));
    cJSON_Delete(o);
    dt_free(json);
}

static void without_a_card_or_a_name_others_say_what_their_plans_lack(void **state)
{
    NEED_NO_GPU();
    static const char *const words[] = {
        "sweep FILE --policies keep_all --set memory.device_budget=64MiB",
        "compare FILE --policies keep_all --budgets 1", "explain FILE conv1"};
    for (size_t i = 0; i < DT_COUNT(words); i++) {
        ran r = cli_run(words[i], config());
        assert_code(&r, 0);
        assert_has(r.err, "no card answers here, so plans lack the scratch");
        cli_done(&r);
    }
}

/* ---- on a card ---- */

typedef struct result {
    char sum[DT_SHA256_TEXT]; /* of the weights */
    double loss;
} result;

static result train(const char *sets)
{
    char words[2048], dir[512], path[600];
    dt_err err = {0};
    result got;
    uint64_t bytes;
    snprintf(dir, sizeof dir, "%s", dt_temp_path("cuda-run"));
    snprintf(words, sizeof words, "FILE %s --set run.dir=%s --set run.overwrite=on", sets, dir);
    ran r = cli_run(words, config());
    assert_code(&r, 0);
    cli_done(&r);
    snprintf(path, sizeof path, "%s/summary.json", dir);
    char *summary = cli_text(path);
    cJSON *o = cJSON_Parse(summary);
    got.loss = cJSON_GetNumberValue(cJSON_GetObjectItem(o, "final_loss"));
    cJSON_Delete(o);
    dt_free(summary);
    snprintf(path, sizeof path, "%s/checkpoints/model.safetensors", dir);
    assert_ok(dti_sha256_file(path, got.sum, &bytes, DT_E_IO, &err), &err);
    return got;
}

#define RESNET " --set model.name=resnet20 --set train.batch=8"

/* @sets: overrides of the configuration
 * @here: by which the processor trains the same
 * @near: the share by which the losses may differ: bf16 has eight bits, TF32's products eleven */
typedef struct model {
    const char *sets, *here;
    double near;
} model;

#define BF16 " --set train.precision=bf16"

/* The model of that number; its sets are NULL past the last. */
static model model_at(size_t i)
{
    static char gpt[1024], gpt_bf16[1100], text[300 * 48];
    size_t at = 0;
    if (gpt[0] == '\0') {
        for (int line = 0; line < 300; line++)
            at += (size_t)snprintf(
                text + at, sizeof text - at, "line %d, which is not the one before\n", line);
        snprintf(gpt, sizeof gpt,
            " --set model.name=gpt2 --set model.layers=2 --set model.width=64 --set model.heads=4 "
            "--set model.vocab=300 --set model.context=64 --set train.batch=4 --set "
            "data.source=text --set data.path=%s",
            cli_file("cuda.txt", text));
        snprintf(gpt_bf16, sizeof gpt_bf16, "%s" BF16, gpt);
    }
    const model all[] = {{"", "", 2e-3}, {RESNET, "", 2e-3}, {BF16, "", 3e-2}, {gpt, "", 2e-3},
        {RESNET BF16, "", 3e-2}, {gpt_bf16, "", 3e-2},
        {RESNET " --set train.precision=tf32", " --set train.precision=fp32", 1e-2},
        {NULL, NULL, 0}};
    return all[i];
}

static void every_exact_policy_ends_with_the_same_bits(void **state)
{
    NEED_GPU();
    static const char *const policies[] = {"keep_all", "vdnn_all", "gist_lossless", "chen_sqrt",
        "chen_budget", "cdma", "vdnn_all --set memory.tier=disk", "gist_lossless,vdnn_conv",
        "zero_offload", "zero_offload --set policy.zero_offload.parameters=device"};
    for (size_t m = 0; model_at(m).sets != NULL; m++) {
        result first = {"", 0};
        for (size_t i = 0; i < DT_COUNT(policies); i++) {
            char sets[1200];
            snprintf(sets, sizeof sets, "--set memory.policy=%s%s", policies[i], model_at(m).sets);
            const result got = train(sets);
            first = i == 0 ? got : first;
            if (strcmp(got.sum, first.sum) != 0)
                fail_msg("%s: weights differ from keep_all's, losses %.9g and %.9g", sets, got.loss,
                    first.loss);
        }
    }
}

static void a_run_is_repeated_to_the_last_bit(void **state)
{
    NEED_GPU();
    const result a = train(RESNET), b = train(RESNET);
    assert_string_equal(a.sum, b.sum);
}

static void losses_are_near_those_of_the_processor(void **state)
{
    NEED_GPU();
    for (size_t i = 0; model_at(i).sets != NULL; i++) {
        char sets[1200];
        const model m = model_at(i);
        const result there = train(m.sets);
        snprintf(sets, sizeof sets, "--set device.kind=cpu%s%s", m.sets, m.here);
        const result here = train(sets);
        if (!(fabs(there.loss - here.loss) <= m.near * fabs(here.loss)))
            fail_msg("model %zu: loss %.9g on the card, %.9g here", i, there.loss, here.loss);
    }
}

static void micro_batches_and_evaluation_run_there(void **state)
{
    NEED_GPU();
    const result got = train("--set train.micro_batch=4 --set train.eval_every=3");
    assert_true(isfinite(got.loss));
}

static void a_budget_beyond_the_card_is_refused(void **state)
{
    NEED_GPU();
    ran r = cli_run("FILE --set memory.device_budget=100TiB", config());
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "compute capability");
    cli_done(&r);
}

DT_TEST_GROUP(cuda_runs)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_without_it_says_so),
        cmocka_unit_test(without_a_card_a_run_ends_with_8_and_says_what_to_do),
        cmocka_unit_test(without_a_card_plans_are_made_and_verified),
        cmocka_unit_test(tf32_is_of_cuda_devices),
        cmocka_unit_test(tf32_is_simulated_between_fp32_and_bf16),
        cmocka_unit_test(auto_takes_the_processor_without_a_card),
        cmocka_unit_test(devices_are_listed_with_the_reason),
        cmocka_unit_test(plans_are_made_for_a_card_by_name),
        cmocka_unit_test(a_card_that_is_too_small_is_told_before_it_is_rented),
        cmocka_unit_test(budgets_beyond_the_card_are_no_budgets),
        cmocka_unit_test(no_plan_for_a_card_packs_by_lz4),
        cmocka_unit_test(a_named_card_is_for_plans_alone),
        cmocka_unit_test(without_a_card_or_a_name_a_plan_says_what_it_lacks),
        cmocka_unit_test(without_a_card_or_a_name_others_say_what_their_plans_lack),
        cmocka_unit_test(every_exact_policy_ends_with_the_same_bits),
        cmocka_unit_test(a_run_is_repeated_to_the_last_bit),
        cmocka_unit_test(losses_are_near_those_of_the_processor),
        cmocka_unit_test(micro_batches_and_evaluation_run_there),
        cmocka_unit_test(a_budget_beyond_the_card_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
