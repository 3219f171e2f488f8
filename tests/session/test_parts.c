/* Batches in parts that a policy chooses: how many, when, and that a run is then what it would be
 * if the configuration had said so. */
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "session/open.h"
#include "session/session.h"
#include "tests/fixture/json_read.h"
#include "tests/fixture/run_cli.h"
#include "tests/fixture/workspace.h"

static const char text[] =
    "[model]\nname = resnet20\nimage = 16\n[data]\nsource = synthetic\nsamples = 48\n"
    "[train]\nbatch = 48\nsteps = 2\nlr = 0.01\nprecision = fp32\n[device]\nkind = cpu\n"
    "[memory]\npolicy = modnn\n";

/* The part that is chosen within so many MiB (0: no budget), with one more setting. */
static int64_t part_of(int mib, const char *set)
{
    char budget[64];
    dt_session *s = NULL;
    dt_err err = {0};
    snprintf(budget, sizeof budget, "memory.device_budget=%dMiB", mib);
    const char *const sets[] = {budget, set};
    assert_ok(dt_session_open(&s, cli_file("parts.ini", text), sets, 2, &err), &err);
    const int64_t micro = s->micro_batch;
    assert_int_equal(dt_session_request(s).micro_batch, micro);
    assert_true(s->note[0] == '\0' || s->opts.train.micro_batch == 48); /* as it was asked for */
    assert_true((strstr(s->note, "train.micro_batch = ") != NULL) == (micro < 48 && mib > 0));
    dt_session_close(s);
    return micro;
}

static void larger_budgets_give_larger_parts(void **state)
{
    (void)state;
    int64_t before = 1, different = 0;
    for (int mib = 2; mib <= 128; mib *= 2) {
        const int64_t part = part_of(mib, "train.seed=1");
        assert_int_equal(48 % part, 0);
        assert_true(part >= before);
        different += part > before;
        before = part;
    }
    assert_int_equal(before, 48);
    assert_true(different >= 2);
}

/* What the configuration says stands; without a budget, by other policies and where updates are
 * early a batch is taken whole. */
static void parts_are_chosen_where_nothing_else_is_said(void **state)
{
    (void)state;
    assert_true(part_of(4, "train.micro_batch=0") < 48);
    assert_int_equal(part_of(0, "train.seed=1"), 48);
    assert_int_equal(part_of(0, "train.micro_batch=24"), 24);
    const char *const others[][3] = {{"memory.device_budget=4MiB", "memory.policy=capuchin", ""},
        {"memory.device_budget=4MiB", "train.update=early", "train.finite=off"}};
    for (size_t i = 0; i < DT_COUNT(others); i++) {
        dt_session *s = NULL;
        dt_err err = {0};
        assert_ok(dt_session_open(&s, cli_file("parts.ini", text), others[i],
                      others[i][2][0] != '\0' ? 3 : 2, &err),
            &err);
        assert_int_equal(s->micro_batch, 48);
        dt_session_close(s);
    }
}

/* The weights after two steps by some settings. */
static char *trained(const char *sets, size_t *bytes)
{
    char words[512], *weights = NULL;
    dt_err err = {0};
    snprintf(words, sizeof words, "p.ini --set run.dir=out --set run.overwrite=on %s", sets);
    ran r = cli_run(words, NULL);
    assert_code(&r, 0);
    cli_done(&r);
    assert_ok(dt_read_file(&weights, bytes, in_workspace("out/checkpoints/model.safetensors"),
                  1 << 24, DT_E_DATA, &err),
        &err);
    return weights;
}

/* The same bits as with the number in the configuration and all kept; it is in the summary; and a
 * run that goes on with parts of another size is refused. */
static void a_run_is_that_of_its_parts(void **state)
{
    NEED_BINARY();
    char same[256];
    size_t n = 0, m = 0;
    put_text("p.ini", text);
    const int64_t part = part_of(6, "train.seed=1");
    snprintf(
        same, sizeof same, "--set memory.policy=keep_all --set train.micro_batch=%d", (int)part);
    char *kept = trained(same, &n);
    char *moved = trained("--set memory.device_budget=6MiB", &m);
    assert_int_equal(n, m);
    assert_memory_equal(kept, moved, n);
    char want[64], *summary = cli_text(in_workspace("out/summary.json"));
    snprintf(want, sizeof want, "\"micro_batch\":\t%d,", (int)part);
    assert_non_null(strstr(summary, want));
    dt_free(summary);
    ran r =
        cli_run("p.ini --resume out --set train.steps=3 --set memory.device_budget=32MiB", NULL);
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "train.micro_batch");
    cli_done(&r);
    r = cli_run("p.ini --resume out --set train.steps=3 --set memory.device_budget=6MiB", NULL);
    assert_code(&r, 0);
    cli_done(&r);
    dt_free(kept);
    dt_free(moved);
}

/* A command's JSON, and what keep_all takes by it. */
static double kept_by(const char *sets)
{
    char words[512];
    snprintf(words, sizeof words, "plan FILE --json %s", sets);
    ran r = cli_run(words, cli_file("parts.ini", text));
    assert_code(&r, 0);
    cJSON *o = json_of(r.out, strlen(r.out));
    const double kept = cJSON_GetObjectItemCaseSensitive(o, "keep_all_peak")->valuedouble;
    const cJSON *by = cJSON_GetObjectItemCaseSensitive(o, "parts_by");
    assert_int_equal(by != NULL, strstr(sets, "device_budget") != NULL);
    cJSON_Delete(o);
    cli_done(&r);
    return kept;
}

/* Who asks for a whole batch is told what keep_all takes for that, and that bits are those of the
 * parts; who asks for the parts, that they cost nothing. */
static void what_parts_save_and_change_is_told(void **state)
{
    NEED_BINARY();
    char exact[128], words[512];
    const int64_t part = part_of(6, "train.seed=1");
    snprintf(exact, sizeof exact, "exact for parts of %d, as keep_all with train.micro_batch = %d",
        (int)part, (int)part);
    const double whole = kept_by("--set memory.policy=keep_all");
    const double chosen = kept_by("--set memory.device_budget=6MiB");
    assert_int_equal((uint64_t)chosen, (uint64_t)whole);
    ran r = cli_run("plan FILE --set memory.device_budget=6MiB", cli_file("parts.ini", text));
    assert_code(&r, 0);
    assert_has(r.out, exact);
    assert_has_not(r.out, "saves nothing");
    cli_done(&r);
    r = cli_run("explain FILE modnn --set memory.device_budget=6MiB", cli_file("parts.ini", text));
    assert_code(&r, 0);
    assert_has(r.out, exact + strlen("exact "));
    assert_has_not(r.out, "no bit");
    cli_done(&r);
    put_text("p.ini", text);
    r = cli_run(
        "p.ini --set run.dir=out --set run.overwrite=on --set memory.device_budget=6MiB", NULL);
    assert_code(&r, 0);
    assert_has(r.err, exact);
    assert_has_not(r.err, "do not depend on it");
    cli_done(&r);
    snprintf(words, sizeof words,
        "plan FILE --set memory.device_budget=6MiB --set train.micro_batch=%d", (int)part);
    r = cli_run(words, cli_file("parts.ini", text));
    assert_code(&r, 0);
    assert_has(r.out, "modnn saves nothing here: keep_all takes ");
    assert_has_not(r.out, "exact for parts");
    cli_done(&r);
}

DT_TEST_GROUP(parts)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(larger_budgets_give_larger_parts),
        cmocka_unit_test(parts_are_chosen_where_nothing_else_is_said),
        cmocka_unit_test_teardown(what_parts_save_and_change_is_told, clean_workspace),
        cmocka_unit_test_teardown(a_run_is_that_of_its_parts, clean_workspace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
