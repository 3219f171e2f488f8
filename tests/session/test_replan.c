/* Runs whose steps are planned anew behind an epoch: said once for each change, the same bits, and
 * within what was planned at first. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "session/open.h"
#include "session/row_times.h"
#include "session/run_plans.h"
#include "session/session.h"
#include "tests/fixture/check.h"
#include "tests/fixture/run_cli.h"
#include "tests/fixture/workspace.h"

#define INI_ON(simulate)                                                                           \
    "[model]\nimage = 16\nclasses = 3\n[conv a]\nout = 16\nkernel = 3\npad = 1\n[relu ar]\n"       \
    "[conv b]\nout = 16\nkernel = 3\npad = 1\n[relu br]\n[conv c]\nout = 16\nkernel = 3\n"         \
    "pad = 1\n[relu cr]\n[global_avgpool g]\n[fc f]\nout = 3\n[cross_entropy loss]\n"              \
    "[data]\nsource = synthetic\nsamples = 16\n"                                                   \
    "[train]\nbatch = 8\nepochs = 3\nlr = 0.05\nprecision = fp32\neval_every = 0\n"                \
    "[device]\nkind = cpu\nthreads = 1\n[memory]\n" simulate "copy_threads = on\n"                 \
    "[run]\ndir = out\noverwrite = on\n"

#define INI INI_ON("simulate = p100\n")

/* The weights at the end, and in *said what the run has said. */
static char *trained(const char *sets, size_t *bytes, char **said)
{
    char words[512], *weights = NULL;
    dt_err err = {0};
    snprintf(words, sizeof words, "r.ini %s", sets);
    ran r = cli_run(words, NULL);
    assert_code(&r, 0);
    *said = dt_strdup(r.err);
    assert_non_null(*said);
    cli_done(&r);
    assert_ok(dt_read_file(&weights, bytes, in_workspace("out/checkpoints/model.safetensors"),
                  1 << 22, DT_E_DATA, &err),
        &err);
    return weights;
}

static void epochs_are_planned_by_what_they_hold(void **state)
{
    NEED_BINARY();
    char *said, *other;
    size_t n, m;
    put_text("r.ini", INI);
    char *kept = trained("", &n, &said);
    assert_has_not(said, "planned   anew");
    dt_free(said);
    static const char *const ways[] = {
        "", "--set train.micro_batch=4", "--set policy.cswap.every=2"};
    for (size_t i = 0; i < DT_COUNT(ways); i++) {
        char sets[256];
        snprintf(sets, sizeof sets, "--set memory.policy=cswap %s", ways[i]);
        char *moved = trained(sets, &m, &said);
        const char *first = strstr(said, "planned   anew after step ");
        assert_non_null(first);
        assert_int_equal(first[strlen("planned   anew after step ")], i == 2 ? '4' : '2');
        if (i != 1) { /* gradients that are added up in parts have other bits */
            assert_int_equal(n, m);
            assert_memory_equal(kept, moved, n);
        }
        dt_free(moved);
        dt_free(said);
    }
    /* The third is for values that need more room than was reserved for them. */
    static const char *const stay[] = {"every=0", "every=9", "density=0.1"};
    for (size_t i = 0; i < DT_COUNT(stay); i++) {
        char sets[256];
        snprintf(sets, sizeof sets, "--set memory.policy=cswap --set policy.cswap.%s", stay[i]);
        other = trained(sets, &m, &said);
        assert_has_not(said, "planned   anew");
        if (i == 2)
            assert_has(said, "planned   as before after step 2: anew it takes ");
        else
            assert_has_not(said, "as before");
        assert_memory_equal(kept, other, n);
        dt_free(said);
        dt_free(other);
    }
    /* A step whose updates are made by then cannot be run again, as packed values may want. */
    other = trained(
        "--set memory.policy=cswap --set train.update=early --set train.finite=off", &m, &said);
    assert_has_not(said, "planned   anew");
    assert_has(said, "planned   as before after step 2: a step whose packed values do not fit");
    assert_memory_equal(kept, other, n);
    dt_free(said);
    dt_free(other);
    dt_free(kept);
}

/* Whether it plans anew hangs on the machine; no bit does. */
static void capuchin_plans_by_what_steps_took(void **state)
{
    NEED_BINARY();
    char *said;
    size_t n, m;
    put_text("r.ini", INI_ON(""));
    char *kept = trained("", &n, &said);
    dt_free(said);
    static const char *const ways[] = {"0", "1", "2"};
    for (size_t i = 0; i < DT_COUNT(ways); i++) {
        char sets[256];
        snprintf(sets, sizeof sets,
            "--set memory.policy=capuchin --set policy.capuchin.least=0 --set "
            "memory.device_budget=400KB --set policy.capuchin.every=%s",
            ways[i]);
        char *moved = trained(sets, &m, &said);
        assert_has_not(said, "once and not every epoch");
        assert_int_equal(n, m);
        assert_memory_equal(kept, moved, n);
        dt_free(moved);
        dt_free(said);
    }
    put_text("r.ini", INI);
    char *other = trained("--set memory.policy=capuchin --set policy.capuchin.every=1", &m, &said);
    assert_has(said, "once and not every epoch: memory.simulate names another machine");
    dt_free(other);
    dt_free(said);
    dt_free(kept);
}

/* A run reserves what its plans take, which may be far less than its budget: more would be refused
 * when it plans anew. */
static void budgets_anew_are_what_is_reserved(void **state)
{
    (void)state;
    static const char *const sets[] = {
        "memory.policy=capuchin", "policy.capuchin.least=0", "memory.device_budget=400KB"};
    const dt_planned *first;
    dt_session *s = NULL;
    dt_plan_set *anew = NULL;
    dt_err err = {0};
    assert_ok(
        dti_session_open_text(&s, "r.ini", INI, sizeof INI - 1, sets, DT_COUNT(sets), &err), &err);
    assert_ok(dti_session_plan(s, DT_PROGRAM_FIRST, s->micro_batch, &first, &err), &err);
    const uint64_t device = dt_plan_set_peak(s->plans);
    const uint64_t host = dt_plan_set_tier_peak(s->plans, DT_TIER_HOST);
    assert_true(device > 0 && device < 400000 && host > 0);
    assert_ok(dti_plan_set_again(&anew, s->plans, &err), &err);
    assert_int_equal(anew->asked.budgets.device, device);
    assert_int_equal(anew->asked.budgets.tier[DT_TIER_HOST], host);
    assert_int_equal(anew->asked.budgets.tier[DT_TIER_DISK], 1); /* 0 would be any */
    dt_plan_set_destroy(anew);
    dt_session_close(s);
}

/* Two steps are told, the second in a quarter of the time: 1 ms for an op, 2 for a copy. */
static void tell_steps(dti_row_times *t, const dt_plan *p, int id)
{
    for (int step = 0; step < 2; step++)
        for (size_t r = 0; r < p->n_row; r++) {
            const dt_row *row = &p->row[r];
            const bool compute = row->kind == DT_ROW_COMPUTE;
            const double ms = (compute ? 4 : 8) / (step == 0 ? 1.0 : 4.0);
            const dt_trace_row told = {.plan = id,
                .row = (int32_t)r,
                .bytes = row->bytes,
                .begin = 1,
                .end = 1 + ms / 1e3};
            if (compute || row->kind == DT_ROW_COPY_OUT || row->kind == DT_ROW_COPY_IN)
                t->trace.ran(t->trace.self, &told);
        }
}

/* Every op is then known, by the less of its times, and links move what they were seen to; what was
 * not seen is as before. */
static void what_was_seen_becomes_the_costs(void **state)
{
    (void)state;
    dt_session *s = NULL;
    const dt_planned *first;
    dt_err err = {0};
    dti_row_times t = {0};
    static const char *const sets[] = {"memory.policy=vdnn_all"};
    assert_ok(dti_session_open_text(
                  &s, "r.ini", INI_ON(""), sizeof INI_ON("") - 1, sets, DT_COUNT(sets), &err),
        &err);
    assert_ok(dti_session_plan(s, DT_PROGRAM_FIRST, 8, &first, &err), &err);
    const dt_plan *p = first->plan;
    assert_ok(dti_row_times_add(&t, 5, p, &err), &err);
    const dt_link disk = s->costs.thread_link[DT_TIER_DISK][DT_TO_TIER];
    tell_steps(&t, p, 4); /* of another plan */
    assert_ok(dti_row_times_keep(&t, false, &s->costs, &err), &err);
    assert_int_equal(s->costs.n_entry, 0);
    tell_steps(&t, p, 5);
    assert_ok(dti_row_times_keep(&t, false, &s->costs, &err), &err);
    double bytes = 0, seconds = 0;
    const dt_link host = s->costs.thread_link[DT_TIER_HOST][DT_TO_TIER];
    for (size_t r = 0; r < p->n_row; r++) {
        const dt_row *row = &p->row[r];
        if (row->kind == DT_ROW_COPY_OUT) {
            bytes += (double)row->bytes;
            seconds += 2e-3 - host.latency;
        }
        if (row->kind != DT_ROW_COMPUTE)
            continue;
        const dti_cost c = dti_costs_op(&s->costs, p, &p->op[row->op]);
        assert_int_equal(c.source, DT_COST_MEASURED);
        assert_true(fabs(c.seconds - 1e-3) < 1e-12);
    }
    assert_true(bytes > 0 && fabs(host.rate * seconds / bytes - 1) < 1e-12);
    assert_true(s->costs.thread_link[DT_TIER_DISK][DT_TO_TIER].rate == disk.rate);
    dti_row_times_close(&t);
    dt_session_close(s);
}

DT_TEST_GROUP(replan)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budgets_anew_are_what_is_reserved),
        cmocka_unit_test(what_was_seen_becomes_the_costs),
        cmocka_unit_test_teardown(capuchin_plans_by_what_steps_took, clean_workspace),
        cmocka_unit_test_teardown(epochs_are_planned_by_what_they_hold, clean_workspace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
