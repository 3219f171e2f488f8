/* Plans as files: what `plan --text` writes is all that a run takes, comes back as it was, and
 * trains the bits that the run trains which plans itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "engine/base/alloc.h"
#include "engine/base/sha256.h"
#include "memory/plan_text/plan_text.h"
#include "memory/policy.h"
#include "memory/remat/remat.h"
#include "tests/fixture/run_cli.h"
#include "tools/plan_report.h"

enum { WORDS = 2048 };

/* Networks that make different plans, as tests/frozen trains them: a step of several micro-batches,
 * few split points, random numbers, values that are read far away. The quickest come first. A word
 * each is set. */
typedef struct subject {
    const char *name, *file, *set;
} subject;

static const subject networks[] = {
    {"gpt2", "configs/gpt2_shakespeare.ini",
        "data.path=LICENSE model.layers=2 model.heads=2 model.width=64 model.context=64 "
        "model.vocab=128 train.batch=4 train.warmup=0"},
    {"unet_small", "configs/unet_small.ini", "train.batch=8 data.samples=24"},
    {"resnet20", "configs/resnet20_cifar10.ini",
        "data.source=synthetic data.samples=96 train.batch=32 train.micro_batch=8 data.augment=off "
        "train.lr=0.05 train.warmup=0"},
    {"vgg11", "configs/vgg16.ini",
        "model.name=vgg11 model.width=8 model.dropout=0.5 memory.device_budget=0 train.batch=4 "
        "data.samples=12"},
    {"resnet50", "configs/resnet50.ini", "train.batch=8 model.image=96 data.samples=24"},
};

/* 22 samples: two steps of two micro-batches, and one of what is left. */
static const char small_resnet20[] =
    "[model]\nname = resnet20\nimage = 8\nwidth = 8\nclasses = 4\n"
    "[data]\nsource = synthetic\nsamples = 22\naugment = off\n"
    "[train]\nbatch = 8\nmicro_batch = 4\nepochs = 0\nsteps = 3\nlr = 0.01\n";

static const char one_layer[] =
    "[model]\nimage = 48\nclasses = 4\n[data]\nsource = synthetic\nsamples = 22\n"
    "[train]\nbatch = 8\nsteps = 3\noptimizer = adam\n[fc f]\nout = 4\nbias = off\n";

/* What a run into a folder has trained. */
static void train(const char *words, const char *file, char sum[DT_SHA256_TEXT])
{
    char line[3 * WORDS], folder[512], path[1024];
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
    assert_true(all.n >= 3); /* a step, its update, an evaluation */
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

/* One network under one policy: what is set. @tried: what the reader of a failure wants to know */
typedef struct trial {
    const subject *of;
    const char *precision, *policy;
    bool disk;
    char set[WORDS], tried[256];
} trial;

static void add_set(char set[WORDS], const char *assignment)
{
    const size_t n = strlen(set);
    assert_true(snprintf(set + n, WORDS - n, " --set %s", assignment) < (int)(WORDS - n));
}

static void settings(trial *t)
{
    char words[WORDS], one[512];
    t->set[0] = '\0';
    snprintf(words, sizeof words, "%s", t->of->set);
    char *at = NULL;
    for (char *w = strtok_r(words, " ", &at); w != NULL; w = strtok_r(NULL, " ", &at)) {
        snprintf(one, sizeof one, "data.path=%s", dt_source_path("LICENSE"));
        add_set(t->set, strcmp(w, "data.path=LICENSE") == 0 ? one : w);
    }
    add_set(t->set, "device.kind=cpu");
    add_set(t->set, "train.epochs=0");
    add_set(t->set, "train.steps=3");
    snprintf(one, sizeof one, "train.precision=%s", t->precision);
    add_set(t->set, one);
    if (t->disk) {
        snprintf(one, sizeof one, "memory.disk_path=%s", dt_temp_path("plan_file_disk"));
        add_set(t->set, "memory.tier=disk");
        add_set(t->set, one);
    }
    snprintf(t->tried, sizeof t->tried, "%s, %s, %s%s", t->of->name, t->precision, t->policy,
        t->disk ? ", to the disk" : "");
}

static uint64_t peak_that_keeps_all(const trial *t)
{
    char words[2 * WORDS];
    snprintf(words, sizeof words, "plan FILE --json%s --set memory.policy=keep_all", t->set);
    ran r = cli_run(words, dt_source_path(t->of->file));
    assert_code(&r, 0);
    cJSON *all = cJSON_Parse(r.out);
    const double peak =
        cJSON_GetNumberValue(cJSON_GetObjectItem(cJSON_GetObjectItem(all, "device"), "peak"));
    assert_true(peak > 0);
    cJSON_Delete(all);
    cli_done(&r);
    return (uint64_t)peak;
}

static int plan_into(const char *plans, const char *more, const trial *t)
{
    char words[2 * WORDS];
    snprintf(words, sizeof words, "plan FILE%s --set memory.policy=%s %s --text %s", t->set,
        t->policy, more, plans);
    ran r = cli_run(words, dt_source_path(t->of->file));
    if (r.code != 0 && r.code != DT_E_BUDGET)
        fail_msg("%s: exit %d: %s", t->tried, r.code, r.err);
    const int code = r.code;
    cli_done(&r);
    return code;
}

/* Whether two files of plans differ. */
static bool differ(const char *a, const char *b)
{
    char *text = cli_text(a), *other = cli_text(b);
    const bool yes = strcmp(text, other) != 0;
    dt_free(text);
    dt_free(other);
    return yes;
}

/* Where policies go by a budget, three quarters of what keep_all takes; where that does not fit,
 * more. False: the disk takes nothing of this plan, which is trained without it where all are. */
static bool planned_for(trial *t, const dt_policy *p, const char *plans)
{
    char budget[64] = "", other[512];
    const uint64_t all = p->by_budget || p->n_rung > 0 ? peak_that_keeps_all(t) : 0;
    for (uint64_t quarters = 3; all > 0 || quarters == 3; quarters++) {
        assert_true(quarters < 8);
        if (all > 0)
            snprintf(budget, sizeof budget, "--set memory.device_budget=%llu",
                (unsigned long long)(all / 4 * quarters));
        if (plan_into(plans, budget, t) == 0)
            break;
        assert_true(all > 0);
    }
    if (all > 0)
        add_set(t->set, budget + strlen("--set "));
    if (!t->disk || !dt_whole_scale())
        return true;
    trial host = *t;
    host.disk = false;
    settings(&host);
    snprintf(other, sizeof other, "%s", dt_temp_path("host.plans"));
    return plan_into(other, budget, &host) == 0 && differ(plans, other);
}

/* The plans of a file are run whatever the policy says, but for what it says of a run beside its
 * plans: in which parts a batch is taken, and whether updates come a step late. False: nothing was
 * trained. */
static bool trains_the_same(trial *t, const dt_policy *p)
{
    const bool says_more = p->parts != NULL || p->delay != NULL;
    char words[2 * WORDS], plans[512];
    char planned[DT_SHA256_TEXT], given[DT_SHA256_TEXT];
    snprintf(plans, sizeof plans, "%s", dt_temp_path("run.plans"));
    settings(t);
    if (!planned_for(t, p, plans))
        return false;
    if (dt_whole_scale()) /* of so many one wants to see where they are */
        print_message("%s\n", t->tried);
    check_text(plans);
    snprintf(words, sizeof words, "%s --set memory.policy=%s", t->set, t->policy);
    train(words, dt_source_path(t->of->file), planned);
    snprintf(words, sizeof words, "%s --plan %s%s%s", t->set, plans,
        says_more ? " --set memory.policy=" : "", says_more ? t->policy : "");
    train(words, dt_source_path(t->of->file), given);
    if (strcmp(planned, given) != 0)
        fail_msg("%s: %s by its own plans, %s by those of a file", t->tried, planned, given);
    return true;
}

/* Every network under every policy, to host and disk, in either precision;
 * unless all are asked for, one that trains, the commit's; at small scale of a quick network. */
static void a_run_by_a_file_of_plans_trains_the_same_bits(void **state)
{
    NEED_BINARY();
    static const char *const precisions[] = {"fp32", "bf16"};
    enum { APART = 419, QUICK = 3 }; /* by which another follows, in the end all */
    size_t n_policy;
    const dt_policy *const *policies = dt_policy_all(&n_policy);
    const uint64_t n_network = dt_small_scale() ? QUICK : DT_COUNT(networks);
    const uint64_t n = n_network * DT_COUNT(precisions) * n_policy * 2;
    int trained = 0;
    assert_true(n % APART != 0);
    assert_true(mkdir(dt_temp_path("plan_file_disk"), 0777) == 0);
    for (uint64_t k = 0; k < n && (trained == 0 || dt_whole_scale()); k++) {
        const uint64_t i = (k + dt_test_seed() % n) * APART % n, p = i / 2 % n_policy;
        const uint64_t precision = i / 2 / n_policy % DT_COUNT(precisions);
        trial t = {&networks[i / 2 / n_policy / DT_COUNT(precisions)], precisions[precision],
            policies[p]->name, i % 2 > 0, "", ""};
        if (!policies[p]->solver || dt_solver_name() != NULL)
            trained += trains_the_same(&t, policies[p]);
    }
    assert_true(trained > 0);
}

/* Write the plans of resnet20. */
static void write_plans(char plans[512], char file[512])
{
    char words[WORDS];
    snprintf(plans, 512, "%s", dt_temp_path("run.plans"));
    snprintf(file, 512, "%s", cli_file("network.ini", small_resnet20));
    snprintf(words, sizeof words, "plan FILE --text %s", plans);
    ran r = cli_run(words, file);
    assert_code(&r, 0);
    cli_done(&r);
}

/* What a run leaves is all that it takes, the homes of its parameters included. */
static void a_run_by_the_plans_of_another_trains_the_same_bits(void **state)
{
    NEED_BINARY();
    static const char *const policies[] = {"zero_offload", "zero_infinity", "vdnn_all"};
    for (size_t i = 0; i < DT_COUNT(policies); i++) {
        char file[512], plans[512], words[WORDS], own[DT_SHA256_TEXT], given[DT_SHA256_TEXT];
        snprintf(file, sizeof file, "%s", cli_file("network.ini", small_resnet20));
        snprintf(words, sizeof words, "--set memory.policy=%s", policies[i]);
        train(words, file, own);
        snprintf(plans, sizeof plans, "%s", dt_temp_path("of_run.plans"));
        assert_int_equal(rename(dt_temp_path("plan_file_run/plan.txt"), plans), 0);
        check_text(plans);
        snprintf(words, sizeof words, "--plan %s", plans);
        train(words, file, given);
        assert_string_equal(own, given);
    }
}

/* What keep_all takes is planned, whoever made the plans that are run. */
static void plans_of_a_file_are_held_against_those_that_keep_all(void **state)
{
    NEED_BINARY();
    static const char vain[] = "saves nothing here: keep_all takes ";
    char plans[512], file[512], words[WORDS];
    snprintf(plans, sizeof plans, "%s", dt_temp_path("run.plans"));
    snprintf(file, 512, "%s", cli_file("network.ini", small_resnet20));
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

/* A file of these plans, the first of which says that so many policies were refused. */
static void write_refusals(const char *plans, int n, char refusals[512])
{
    char *text = cli_text(plans), *more = NULL;
    size_t bytes = 0;
    const int header = (int)strcspn(text, "\n") + 1;
    FILE *f = open_memstream(&more, &bytes);
    assert_non_null(f);
    fprintf(f, "%.*s", header, text);
    for (int i = 0; i < n; i++)
        fputs("refused a a a\n", f);
    fputs(text + header, f);
    assert_int_equal(fclose(f), 0);
    snprintf(refusals, 512, "%s", cli_file("refusals.plans", more));
    free(more);
    dt_free(text);
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
    refused(plans, file, "--set train.optimizer=lion --set train.nesterov=off", DT_E_CONFIG,
        "planned for train.optimizer = sgd, but this run has lion");
    refused(plans, file, "--set train.precision=bf16", DT_E_CONFIG,
        "planned for values in fp32, but this run has bf16");
    refused(plans, file, "--set train.batch=4 --set train.update=early --set train.finite=off",
        DT_E_CONFIG, "planned for train.update = step, but this run has early");
    refused(dt_temp_path("nowhere.plans"), file, "", DT_E_CONFIG, "there is no file");
    char *text = cli_text(plans), *at = strstr(text, " do:");
    assert_non_null(at);
    at[1] = 'x';
    char broken[512];
    snprintf(broken, sizeof broken, "%s", cli_file("broken.plans", text));
    refused(broken, file, "", DT_E_DATA, "broken.plans:");
    write_refusals(plans, 65, broken);
    refused(broken, file, "", DT_E_DATA, "refusals.plans:66: more than 64 refusals");
    dt_free(text);
}

static void plans_of_packed_states_say_so(void **state)
{
    NEED_BINARY();
    static const char adamw[] =
        "--set train.optimizer=adamw --set train.nesterov=off --set model.width=32";
    char words[WORDS], plans[512], file[512];
    snprintf(plans, sizeof plans, "%s", dt_temp_path("packed.plans"));
    snprintf(file, sizeof file, "%s", cli_file("network.ini", small_resnet20));
    snprintf(words, sizeof words, "plan FILE --text %s --set train.states=8bit %s", plans, adamw);
    ran r = cli_run(words, file);
    assert_code(&r, 0);
    cli_done(&r);
    refused(plans, file, adamw, DT_E_CONFIG,
        "planned for train.states = 8bit, but this run has fp32: plan again");
    snprintf(file, sizeof file, "%s", cli_file("one.ini", one_layer)); /* no update but packed */
    snprintf(words, sizeof words, "plan FILE --text %s --set train.states=8bit", plans);
    r = cli_run(words, file);
    assert_code(&r, 0);
    cli_done(&r);
    refused(plans, file, "--set train.optimizer=lion", DT_E_CONFIG,
        "planned for train.optimizer = adam, but this run has lion: plan again");
}

/* What plan --diff says of the plans and others, whose @text goes to a file @name. */
static ran diff_from(const char *plans, const char *name, char *text)
{
    char other[512], words[WORDS];
    snprintf(other, sizeof other, "%s", cli_file(name, text));
    dt_free(text);
    snprintf(words, sizeof words, "plan --diff %s %s", plans, other);
    const ran r = cli_run(words, NULL);
    assert_code(&r, 0);
    return r;
}

static void files_of_several_plans_are_compared_plan_by_plan(void **state)
{
    NEED_BINARY();
    char plans[512], file[512];
    write_plans(plans, file);
    char *text = cli_text(plans), *update = strstr(text, "program=update");
    assert_non_null(update);
    while (update > text && update[-1] != '\n')
        update--;
    *update = '\0';
    ran r = diff_from(plans, "less.plans", text);
    assert_has(r.out, "- plan 'update' for 4 samples\n");
    assert_has_not(r.out, "plan 'first'");
    assert_string_equal(r.err, "dnntrain: the plans differ\n");
    cli_done(&r);
}

/* What a plan of a stranger is called is written to the terminal as it stands in the file. */
static void titles_do_not_speak_to_the_terminal(void **state)
{
    NEED_BINARY();
    char plans[512], file[512];
    write_plans(plans, file);
    char *text = cli_text(plans), *update = strstr(text, "program=update");
    assert_non_null(update);
    memcpy(update, "program=\\x1bcc", strlen("program=update")); /* ESC c resets it */
    ran r = diff_from(plans, "odd.plans", text);
    assert_has(r.out, "+ plan '\\x1bcc' for 4 samples\n");
    assert_null(strchr(r.out, '\x1b'));
    cli_done(&r);
}

/* Plans in which each row that gives no reason has one: by hand that may stand on any row. */
static dt_plans with_reasons(const char *plans, char hand[512])
{
    char *text = cli_text(plans), *more = NULL, *at = NULL;
    size_t bytes = 0;
    dt_plans all;
    dt_err err = {0};
    FILE *f = open_memstream(&more, &bytes);
    assert_non_null(f);
    for (char *line = strtok_r(text, "\n", &at); line != NULL; line = strtok_r(NULL, "\n", &at)) {
        const size_t n = strlen(line);
        const bool bare = line[0] == ' ' && n > 2 && strcmp(line + n - 2, " -") == 0;
        fprintf(f, "%.*s%s\n", (int)(bare ? n - 1 : n), line, bare ? "by hand" : "");
    }
    assert_int_equal(fclose(f), 0);
    snprintf(hand, 512, "%s", cli_file("reasons.plans", more));
    assert_ok(dt_plans_parse(&all, hand, more, bytes, &err), &err);
    free(more);
    dt_free(text);
    return all;
}

static void only_rows_that_decide_something_have_a_fate(void **state)
{
    NEED_BINARY();
    char plans[512], file[512], hand[512], words[WORDS];
    size_t seen[DT_ROW_KINDS] = {0};
    write_plans(plans, file);
    dt_plans all = with_reasons(plans, hand);
    for (size_t k = 0; k < all.n; k++)
        for (size_t i = 0; i < all.plan[k]->n_row; i++) {
            const dt_row *r = &all.plan[k]->row[i];
            const bool decides = r->kind == DT_ROW_PLACE
                                     ? r->over != DT_NONE
                                     : r->kind != DT_ROW_RELEASE && r->kind != DT_ROW_WAIT;
            assert_int_equal(dti_plan_fate(all.plan[k], r) != NULL, decides && r->reason >= 0);
            seen[r->kind] += r->reason >= 0;
        }
    assert_true(seen[DT_ROW_PLACE] > 0 && seen[DT_ROW_RELEASE] > 0 && seen[DT_ROW_WAIT] > 0);
    dt_plans_deinit(&all);
    snprintf(words, sizeof words, "--plan %s", hand);
    char sum[DT_SHA256_TEXT];
    train(words, file, sum);
    char *page = cli_text(dt_temp_path("plan_file_run/report.html"));
    assert_has(page, "by hand");
    dt_free(page);
}

DT_TEST_GROUP(plan_file)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_by_a_file_of_plans_trains_the_same_bits),
        cmocka_unit_test(a_run_by_the_plans_of_another_trains_the_same_bits),
        cmocka_unit_test(plans_of_a_file_are_held_against_those_that_keep_all),
        cmocka_unit_test(plans_that_are_not_of_this_run_are_refused),
        cmocka_unit_test(plans_of_packed_states_say_so),
        cmocka_unit_test(files_of_several_plans_are_compared_plan_by_plan),
        cmocka_unit_test(titles_do_not_speak_to_the_terminal),
        cmocka_unit_test(only_rows_that_decide_something_have_a_fate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
