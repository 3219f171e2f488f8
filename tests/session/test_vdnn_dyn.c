/* The ladder vdnn_dyn: at every budget the first rung that fits, as the paper's section III-C has
 * them, and the same run as if the rung had been asked for by its own name. */
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/sha256.h"
#include "tests/fixture/run_cli.h"
#include "session/open.h"
#include "session/run_plans.h"
#include "session/session.h"

typedef struct rung {
    const char *policy, *algorithms;
} rung;
/* The least of the fit rungs is small. */
static const rung rungs[] = {{"keep_all", "fast"}, {"vdnn_conv", "fast"}, {"vdnn_all", "fast"},
    {"vdnn_conv", "fit"}, {"vdnn_all", "fit"}};

/* A network whose fast convolutions take scratch at the peak: rungs apart by their bytes. */
static const char *config(void)
{
#define CONV(name, out)                                                                            \
    "[conv " name "]\nout = " out "\nkernel = 3\npad = 1\nbias = off\n[relu " name ".relu]\n"
    return cli_file("dyn.ini",
        "[model]\nimage = 16\nclasses = 10\nfuse = off\n[data]\nsource = synthetic\n"
        "[train]\nbatch = 16\nsteps = 2\nlr = 0.01\n[device]\nkind = cpu\n" CONV("a", "64")
            CONV("b", "64") CONV("c", "128") "[maxpool d]\nkernel = 2\n" CONV("e", "128")
                CONV("f", "128") "[global_avgpool g]\n[fc h]\nout = 10\n[cross_entropy loss]\n");
#undef CONV
}

/* Peaks of device and host as planned; both 0 when the configuration is refused for its budget. */
typedef struct planned {
    uint64_t device, host;
    char policy[DT_POLICY_LIST];
    int algorithms;
} planned;

static planned plan(const char *policy, const char *algorithms, uint64_t budget, uint64_t host)
{
    char set[4][96];
    const char *sets[4] = {set[0], set[1], set[2], set[3]};
    dt_err err = {0};
    dt_session *s = NULL;
    planned p = {0};
    snprintf(set[0], sizeof set[0], "memory.policy=%s", policy);
    snprintf(set[1], sizeof set[1], "memory.device_budget=%llu", (unsigned long long)budget);
    snprintf(set[2], sizeof set[2], "memory.host_budget=%llu", (unsigned long long)host);
    snprintf(set[3], sizeof set[3], "memory.algorithms=%s", algorithms);
    assert_ok(dt_session_open(&s, config(), sets, algorithms[0] != '\0' ? 4 : 3, &err), &err);
    assert_ok(dt_session_plan_run(s, true, 0, 0, &err), &err);
    p.device = dt_plan_set_peak(s->plans);
    p.host = dt_plan_set_tier_peak(s->plans, DT_TIER_HOST);
    p.algorithms = (int)s->plans->algorithms;
    snprintf(p.policy, sizeof p.policy, "%s", dt_session_policy(s));
    assert_string_equal(
        s->opts.memory.policy, strcmp(policy, "vdnn_dyn") == 0 ? "vdnn_dyn" : policy);
    dt_session_close(s);
    return p;
}

/* What every rung takes by itself, asked once. */
static const planned *taken_by(size_t i)
{
    static planned all[DT_COUNT(rungs)];
    const bool fit = strcmp(rungs[i].algorithms, "fit") == 0;
    if (all[i].device == 0)
        all[i] = plan(rungs[i].policy, fit ? "small" : "fast", 0, 0);
    return &all[i];
}

/* What brute force over the rungs, in their order, says. */
static size_t first_that_fits(uint64_t budget, uint64_t host)
{
    for (size_t i = 0; i < DT_COUNT(rungs); i++)
        if (taken_by(i)->device <= budget && (host == 0 || taken_by(i)->host <= host))
            return i;
    return DT_COUNT(rungs);
}

static void check_budget(uint64_t budget, uint64_t host, bool taken[])
{
    const size_t want = first_that_fits(budget, host);
    const planned got = plan("vdnn_dyn", "", budget, host);
    const rung *r = &rungs[want < DT_COUNT(rungs) ? want : DT_COUNT(rungs) - 1];
    assert_string_equal(got.policy, r->policy);
    assert_int_equal(
        got.algorithms, strcmp(r->algorithms, "fit") == 0 ? DT_ALGORITHMS_FIT : DT_ALGORITHMS_FAST);
    assert_true(
        (got.device <= budget && (host == 0 || got.host <= host)) == (want < DT_COUNT(rungs)));
    if (want < DT_COUNT(rungs))
        taken[want] = true;
}

/* At the peak of every rung, a byte below it, and between. */
static void at_every_budget_the_first_rung_that_fits_is_taken(void **state)
{
    (void)state;
    bool taken[DT_COUNT(rungs)] = {false};
    size_t n = 0;
    for (size_t i = 0; i < DT_COUNT(rungs); i++) {
        check_budget(taken_by(i)->device, 0, taken);
        check_budget(taken_by(i)->device - 1, 0, taken);
    }
    for (size_t i = 0; i < DT_COUNT(rungs); i++) {
        bool less = true; /* than all before it: others are never the first */
        for (size_t k = 0; k < i; k++)
            less = less && taken_by(i)->device < taken_by(k)->device;
        assert_int_equal(taken[i], less);
        n += taken[i];
    }
    assert_true(n >= 3);
}

static void what_waits_on_the_host_must_fit_there(void **state)
{
    (void)state;
    bool taken[DT_COUNT(rungs)] = {false};
    const planned conv = *taken_by(1);
    check_budget(conv.device, conv.host, taken);
    assert_true(taken[1]);
    assert_true(conv.host > 1);
    const planned none = plan("vdnn_dyn", "", conv.device, 1);
    assert_string_equal(none.policy, "vdnn_all"); /* the last, which is then refused */
}

static void a_run_is_that_of_the_rung(void **state)
{
    NEED_BINARY();
    const planned conv = *taken_by(1);
    char words[1024], dir[2][256], sum[2][DT_SHA256_TEXT];
    dt_err err = {0};
    uint64_t bytes;
    for (int i = 0; i < 2; i++) {
        snprintf(dir[i], sizeof dir[i], "%s", dt_temp_path(i == 0 ? "dyn" : "conv"));
        snprintf(words, sizeof words,
            "FILE --set run.dir=%s --set memory.policy=%s --set memory.device_budget=%llu", dir[i],
            i == 0 ? "vdnn_dyn" : "vdnn_conv", (unsigned long long)conv.device);
        ran r = cli_run(words, config());
        assert_code(&r, 0);
        if (i == 0)
            assert_has(
                r.err, "vdnn_conv, chosen by vdnn_dyn (exact, for the algorithms chosen with it)");
        cli_done(&r);
        snprintf(words, sizeof words, "%s/checkpoints/model.safetensors", dir[i]);
        assert_ok(dti_sha256_file(words, sum[i], &bytes, DT_E_IO, &err), &err);
    }
    assert_string_equal(sum[0], sum[1]);
    snprintf(words, sizeof words, "plan %s/config.ini", dir[0]);
    ran again = cli_run(words, NULL); /* what a run writes of itself can be read again */
    assert_code(&again, 0);
    assert_has(again.out, "policy vdnn_conv, chosen by vdnn_dyn");
    cli_done(&again);
    snprintf(words, sizeof words, "%s/summary.json", dir[0]);
    char *summary = cli_text(words);
    assert_has(summary, "\"policy\":\t\"vdnn_conv\"");
    assert_has(summary, "\"chosen_by\":\t\"vdnn_dyn\"");
    dt_free(summary);
}

static void it_stands_in_a_list_and_wants_a_budget(void **state)
{
    NEED_BINARY();
    ran r = cli_run("plan FILE --set memory.policy=vdnn_dyn", config());
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "memory.device_budget = 2GiB");
    cli_done(&r);
    r = cli_run("plan FILE --set memory.policy=vdnn_dyn --set memory.device_budget=1GiB --set "
                "memory.algorithms=small",
        config());
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "vdnn_dyn chooses the algorithms itself");
    cli_done(&r);
    r = cli_run("plan FILE --set memory.policy=gist_lossless,vdnn_dyn --set "
                "memory.device_budget=8GiB",
        config());
    assert_code(&r, 0);
    assert_has(r.out, "policy gist_lossless,keep_all, chosen by gist_lossless,vdnn_dyn");
    assert_null(strstr(r.out, "not keep_all"));
    cli_done(&r);
    r = cli_run("plan FILE --set memory.policy=vdnn_dyn --set memory.device_budget=1MiB", config());
    assert_code(&r, DT_E_BUDGET);
    assert_has(r.err, "does not fit");
    assert_has(r.out, "not keep_all by fast algorithms: the device needs ");
    assert_has(r.out, "not vdnn_all by fit algorithms: the device needs ");
    cli_done(&r);
    r = cli_run(
        "plan FILE --json --set memory.policy=vdnn_dyn --set memory.device_budget=1MiB", config());
    assert_code(&r, DT_E_BUDGET);
    assert_has(r.out, "\"refused\":");
    assert_has(r.out, "\"why\":\t\"the device needs ");
    cli_done(&r);
    char words[1024], path[512];
    snprintf(path, sizeof path, "%s", dt_temp_path("refused.txt"));
    snprintf(words, sizeof words,
        "plan FILE --text %s --set memory.policy=vdnn_dyn --set memory.device_budget=1MiB", path);
    r = cli_run(words, config());
    assert_code(&r, DT_E_BUDGET);
    char *text = cli_text(path);
    assert_has(text, "\nrefused keep_all fast the device needs ");
    assert_has(text, "\nrefused vdnn_all fit the device needs ");
    dt_free(text);
    cli_done(&r);
}

DT_TEST_GROUP(vdnn_dyn)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_every_budget_the_first_rung_that_fits_is_taken),
        cmocka_unit_test(what_waits_on_the_host_must_fit_there),
        cmocka_unit_test(a_run_is_that_of_the_rung),
        cmocka_unit_test(it_stands_in_a_list_and_wants_a_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
