/* Plans as files: what `plan --text` writes is all that a run takes, comes back as it was, and
 * trains the bits that the run trains which plans itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/base/sha256.h"
#include "memory/plan_text/plan_text.h"
#include "tests/fixture/run_cli.h"

enum { WORDS = 2048 };

/* 22 samples: two steps of two micro-batches, and one of what is left. */
#define DATA "[data]\nsource = synthetic\nsamples = 22\naugment = off\n"
#define TRAIN "[train]\nbatch = 8\nmicro_batch = 4\nepochs = 0\nsteps = 3\nlr = 0.01\n"

typedef struct subject {
    const char *name, *model, *data;
} subject;

static const subject resnet20 = {
    "resnet20", "[model]\nname = resnet20\nimage = 8\nwidth = 8\nclasses = 4\n", DATA};

/* The file of a network; unet_small.ini where it gives no model, smaller. */
static void write_network(const subject *s, char file[512])
{
    char text[WORDS];
    if (s->model == NULL) {
        char *from = cli_text(dt_source_path("configs/unet_small.ini"));
        char *layers = strstr(from, "[conv ");
        assert_non_null(layers);
        char *whole = dt_alloc(strlen(layers) + WORDS, 1);
        assert_non_null(whole);
        snprintf(whole, strlen(layers) + WORDS,
            "[model]\nimage = 16\nclasses = 10\n" DATA TRAIN "%s", layers);
        snprintf(file, 512, "%s", cli_file("network.ini", whole));
        dt_free(whole);
        dt_free(from);
        return;
    }
    const char *text_of = s->data != NULL ? "" : dt_source_path("LICENSE");
    snprintf(text, sizeof text, "%s%s%s%s" TRAIN, s->model,
        s->data != NULL ? s->data : "[data]\nsource = text\npath = ", text_of,
        s->data != NULL ? "" : "\n");
    snprintf(file, 512, "%s", cli_file("network.ini", text));
}

/* What a run into a folder has trained. */
static void train(const char *words, const char *file, char sum[DT_SHA256_TEXT])
{
    char line[WORDS], folder[512], path[1024];
    uint64_t bytes;
    dt_err err = {0};
    snprintf(folder, sizeof folder, "%s", dt_temp_path("plan_file_run"));
    snprintf(line, sizeof line, "FILE --set run.dir=%s --set run.overwrite=on %s", folder, words);
    ran r = cli_run(line, file);
    if (r.code != 0)
        fail_msg("%s: exit %d: %s", line, r.code, r.err);
    cli_done(&r);
    snprintf(path, sizeof path, "%s/checkpoints/model.safetensors", folder);
    assert_ok(dti_sha256_file(path, sum, &bytes, DT_E_CONFIG, &err), &err);
}

/* Parsed and printed again a file is the same, so no field is lost. */
static void check_text(const char *path)
{
    char *text = cli_text(path), *again = NULL;
    size_t bytes = 0;
    dt_plans all;
    dt_err err = {0};
    assert_ok(dt_plans_parse(&all, path, text, strlen(text), &err), &err);
    assert_true(all.n >= 4); /* a step in parts, its update, an evaluation */
    FILE *f = open_memstream(&again, &bytes);
    assert_non_null(f);
    for (size_t i = 0; i < all.n; i++)
        dt_plan_print(all.plan[i], f);
    assert_int_equal(fclose(f), 0);
    assert_string_equal(again, text);
    free(again);
    dt_free(text);
    dt_plans_deinit(&all);
}

static void trains_the_same(const subject *s, const char *policy)
{
    char words[WORDS], plans[512], file[512];
    char planned[DT_SHA256_TEXT], given[DT_SHA256_TEXT];
    snprintf(plans, sizeof plans, "%s", dt_temp_path("run.plans"));
    write_network(s, file);
    snprintf(words, sizeof words, "plan FILE --set memory.policy=%s --text %s", policy, plans);
    ran r = cli_run(words, file);
    assert_code(&r, 0);
    cli_done(&r);
    check_text(plans);
    snprintf(words, sizeof words, "--set memory.policy=%s", policy);
    train(words, file, planned);
    snprintf(words, sizeof words, "--plan %s", plans); /* whatever the policy says */
    train(words, file, given);
    if (strcmp(planned, given) != 0)
        fail_msg(
            "%s, %s: %s by its own plans, %s by those of a file", s->name, policy, planned, given);
}

static void a_run_by_a_file_of_plans_trains_the_same_bits(void **state)
{
    NEED_BINARY();
    const subject networks[] = {resnet20, {"unet", NULL, NULL},
        {"vgg11", "[model]\nname = vgg11\nimage = 224\nwidth = 8\nclasses = 4\ndropout = 0.5\n",
            DATA},
        {"gpt2",
            "[model]\nname = gpt2\nlayers = 2\nheads = 2\nwidth = 16\nvocab = 128\n"
            "context = 16\n",
            NULL}};
    static const char *const policies[] = {
        "keep_all", "vdnn_all", "chen_sqrt", "gist_lossless", "cdma"};
    for (size_t i = 0; i < DT_COUNT(networks); i++)
        for (size_t k = 0; k < DT_COUNT(policies); k++)
            if ((i + k + dt_test_seed()) % (uint64_t)dt_scaled(4, 2, 1) == 0)
                trains_the_same(&networks[i], policies[k]);
}

/* Write the plans of resnet20. */
static void write_plans(char plans[512], char file[512])
{
    char words[WORDS];
    snprintf(plans, 512, "%s", dt_temp_path("run.plans"));
    write_network(&resnet20, file);
    snprintf(words, sizeof words, "plan FILE --text %s", plans);
    ran r = cli_run(words, file);
    assert_code(&r, 0);
    cli_done(&r);
}

/* What keep_all takes is planned, whoever made the plans that are run. */
static void plans_of_a_file_are_held_against_those_that_keep_all(void **state)
{
    NEED_BINARY();
    static const char vain[] = "saves nothing here: keep_all takes ";
    char plans[512], file[512], words[WORDS];
    snprintf(plans, sizeof plans, "%s", dt_temp_path("run.plans"));
    write_network(&resnet20, file);
    snprintf(words, sizeof words, "plan FILE --set memory.policy=chen_sqrt --text %s", plans);
    ran r = cli_run(words, file);
    assert_code(&r, 0);
    assert_has_not(r.out, vain);
    cli_done(&r);
    snprintf(words, sizeof words, "FILE --set run.dir=%s --set run.overwrite=on --plan %s",
        dt_temp_path("plan_file_run"), plans);
    r = cli_run(words, file);
    assert_code(&r, 0);
    assert_has_not(r.err, vain);
    cli_done(&r);
}

static void refused(
    const char *plans, const char *file, const char *more, int code, const char *says)
{
    char words[WORDS];
    snprintf(words, sizeof words, "FILE --set run.dir=%s --plan %s %s",
        dt_temp_path("plan_file_refused"), plans, more);
    ran r = cli_run(words, file);
    assert_code(&r, code);
    assert_has(r.err, says);
    cli_done(&r);
    assert_int_not_equal(access(dt_temp_path("plan_file_refused"), F_OK), 0);
}

static void plans_that_are_not_of_this_run_are_refused(void **state)
{
    NEED_BINARY();
    char plans[512], file[512];
    write_plans(plans, file);
    refused(plans, file, "--set train.micro_batch=2", DT_E_CONFIG, "has no plan 'first' for 2");
    refused(plans, file, "--set train.micro_batch=2", DT_E_CONFIG,
        "`dnntrain plan CONFIG --text FILE`");
    refused(plans, file, "--set model.name=resnet32", DT_E_CONFIG, "is of network 'resnet20'");
    refused(plans, file, "--set train.optimizer=adamw --set train.nesterov=off", DT_E_CONFIG,
        "plan again");
    refused(dt_temp_path("nowhere.plans"), file, "", DT_E_CONFIG, "there is no file");
    char *text = cli_text(plans), *at = strstr(text, " do:");
    assert_non_null(at);
    at[1] = 'x';
    char broken[512];
    snprintf(broken, sizeof broken, "%s", cli_file("broken.plans", text));
    refused(broken, file, "", DT_E_DATA, "broken.plans:");
    dt_free(text);
}

static void files_of_several_plans_are_compared_plan_by_plan(void **state)
{
    NEED_BINARY();
    char plans[512], file[512], words[WORDS];
    write_plans(plans, file);
    char *text = cli_text(plans), *update = strstr(text, "program=update");
    assert_non_null(update);
    while (update > text && update[-1] != '\n')
        update--;
    *update = '\0';
    char less[512];
    snprintf(less, sizeof less, "%s", cli_file("less.plans", text));
    dt_free(text);
    snprintf(words, sizeof words, "plan --diff %s %s", plans, less);
    ran r = cli_run(words, NULL);
    assert_code(&r, 0);
    assert_has(r.out, "- plan 'update' for 4 samples\n");
    assert_has_not(r.out, "plan 'first'");
    assert_string_equal(r.err, "dnntrain: the plans differ\n");
    cli_done(&r);
}

DT_TEST_GROUP(plan_file)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_by_a_file_of_plans_trains_the_same_bits),
        cmocka_unit_test(plans_of_a_file_are_held_against_those_that_keep_all),
        cmocka_unit_test(plans_that_are_not_of_this_run_are_refused),
        cmocka_unit_test(files_of_several_plans_are_compared_plan_by_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
