/* ZeRO-Offload's delayed update against a loop of this file's own, which asks the engine for
 * nothing but gradients: w(i+1) = w(i) - lr g(w(i-1)), without an update in the step where the
 * delay begins. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/checkpoint/safetensors.h"
#include "memory/policy.h"
#include "tests/fixture/run_cli.h"
#include "tests/fixture/workspace.h"

/* Every step sees the same eight samples, as they are. */
#define INI                                                                                        \
    "[model]\nimage = 8\nclasses = 3\n[conv c]\nout = 4\nkernel = 3\n[relu r]\n[fc f]\nout = 3\n"  \
    "[data]\nsamples = 8\nshuffle = off\naugment = off\n"                                          \
    "[train]\nbatch = 8\nlr = 0.25\nseed = 3\nmomentum = 0\nweight_decay = 0\neval_every = 0\n"    \
    "[device]\nthreads = 1\n[run]\ndir = out\noverwrite = on\n"

enum { MOST = 1024, STEPS = 6 };
static const float rate = 0.25F;

static void run_well(const char *sets)
{
    char words[512];
    snprintf(words, sizeof words, "c.ini %s", sets);
    ran r = cli_run(words, NULL);
    assert_code(&r, 0);
    cli_done(&r);
}

/* All values of a file, one tensor after the other in the order of their names in @like. */
static size_t values(const char *below, float to[MOST], const char *like)
{
    dt_st_file *f = NULL, *names = NULL;
    dt_err err = {0};
    size_t n = 0;
    assert_ok(dt_st_open(&f, in_workspace(below), &err), &err);
    assert_ok(dt_st_open(&names, in_workspace(like), &err), &err);
    for (size_t i = 0; i < dti_st_count(names); i++) {
        const dt_st_entry *e = dt_st_find(f, dti_st_at(names, i)->name);
        assert_non_null(e);
        assert_true(n + e->bytes / sizeof *to <= MOST);
        assert_ok(dt_st_read(f, e, 0, to + n, e->bytes, &err), &err);
        n += e->bytes / sizeof *to;
    }
    dt_st_close(f);
    dt_st_close(names);
    return n;
}

/* The file of weights with other values, which are behind its header. */
static void put_weights(const char *below, const char *like, const float *v, size_t n)
{
    char *text;
    size_t bytes;
    dt_err err = {0};
    assert_ok(dt_read_file(&text, &bytes, in_workspace(like), 1 << 20, DT_E_DATA, &err), &err);
    assert_true(bytes > n * sizeof *v);
    memcpy(text + bytes - n * sizeof *v, v, n * sizeof *v);
    assert_ok(dt_write_file(in_workspace(below), text, bytes, &err), &err);
    dt_free(text);
}

#define FIRST "first.safetensors"

/* By the loop: weights after so many steps. */
static size_t by_hand(int warmup, int steps, float w[MOST])
{
    float g[2][MOST] = {{0}};
    const size_t n = values(FIRST, w, FIRST);
    for (int s = 0; s < steps; s++) {
        put_weights("now.safetensors", FIRST, w, n);
        run_well("--set train.steps=1 --set model.weights=now.safetensors "
                 "--set train.dump_gradients=g.safetensors");
        assert_int_equal(values("g.safetensors", g[s % 2], FIRST), n);
        const float *taken = s < warmup ? g[s % 2] : s > warmup ? g[(s + 1) % 2] : NULL;
        for (size_t i = 0; i < n && taken != NULL; i++)
            w[i] -= rate * taken[i];
    }
    return n;
}

static void an_update_takes_the_gradients_of_the_step_before(void **state)
{
    NEED_BINARY();
    static const int warmups[] = {0, 2};
    float w[MOST], got[MOST], plain[MOST];
    put_text("c.ini", INI);
    run_well("--set train.steps=1");
    char *text;
    size_t bytes;
    dt_err err = {0};
    assert_ok(dt_read_file(&text, &bytes, in_workspace("out/checkpoints/model.safetensors"),
                  1 << 20, DT_E_DATA, &err),
        &err);
    assert_ok(dt_write_file(in_workspace(FIRST), text, bytes, &err), &err);
    dt_free(text);
    run_well("--set train.steps=6 --set model.weights=" FIRST);
    const size_t n = values("out/checkpoints/model.safetensors", plain, FIRST);
    for (size_t k = 0; k < DT_COUNT(warmups); k++) {
        char ini[2048];
        assert_int_equal(by_hand(warmups[k], STEPS, w), n);
        snprintf(ini, sizeof ini,
            INI "[memory]\npolicy = zero_offload\n[policy.zero_offload]\ndelay = on\nwarmup = %d\n",
            warmups[k]);
        put_text("d.ini", ini);
        ran r = cli_run("d.ini --set train.steps=6 --set model.weights=" FIRST, NULL);
        assert_code(&r, 0);
        assert_has(r.err, "not exact");
        cli_done(&r);
        char *told = cli_text(in_workspace("out/metrics.jsonl"));
        assert_has_not(told, "nan"); /* nor is the rate of an update that is held */
        dt_free(told);
        assert_int_equal(values("out/checkpoints/model.safetensors", got, FIRST), n);
        for (size_t i = 0; i < n; i++)
            if (!(got[i] == w[i]))
                fail_msg("warm-up %d: value %zu is %.9g, not %.9g", warmups[k], i, (double)got[i],
                    (double)w[i]);
        assert_true(memcmp(got, plain, n * sizeof *got) != 0);
    }
    remove_all("out");
}

#define LEFT "out/checkpoints/model.safetensors"

/* The gradients that wait are in the checkpoint, before, at and behind the step in which the delay
 * begins. */
static void a_run_goes_on_with_the_gradients_that_wait(void **state)
{
    NEED_BINARY();
    static float straight[MOST], got[MOST];
    put_text("d.ini", INI "[memory]\npolicy = zero_offload\n[policy.zero_offload]\ndelay = on\n"
                          "warmup = 2\n");
    ran r = cli_run("d.ini --set train.steps=6", NULL);
    assert_code(&r, 0);
    cli_done(&r);
    const size_t n = values(LEFT, straight, LEFT);
    remove_all("out");
    for (int stop = 1; stop < 6; stop++) {
        char words[256];
        snprintf(words, sizeof words, "d.ini --set train.steps=%d", stop);
        r = cli_run(words, NULL);
        assert_code(&r, 0);
        cli_done(&r);
        r = cli_run(
            "d.ini --set train.steps=6 --set checkpoint.resume=auto --set run.overwrite=off", NULL);
        assert_code(&r, 0);
        cli_done(&r);
        assert_int_equal(values(LEFT, got, LEFT), n);
        if (memcmp(got, straight, n * sizeof *got) != 0)
            fail_msg("stopped behind step %d: other bits", stop);
        remove_all("out");
    }
}

/* A delay that is asked for behind its begin begins where the run goes on; gradients that wait are
 * not given up silently. */
static void a_delay_that_is_changed_begins_anew_or_is_refused(void **state)
{
    NEED_BINARY();
    static const char on[] = "--set train.steps=6 --set checkpoint.resume=auto --set "
                             "run.overwrite=off --set policy.zero_offload.warmup=";
    static const struct {
        const char *then, *now;
    } lost[] = {{"2", "4"}, {"3", "40 --set policy.zero_offload.delay=off"}};
    static float straight[MOST], got[MOST];
    char words[256];
    put_text("d.ini", INI "[memory]\npolicy = zero_offload\n[policy.zero_offload]\ndelay = on\n"
                          "warmup = 4\n");
    ran r = cli_run("d.ini --set train.steps=6", NULL);
    assert_code(&r, 0);
    cli_done(&r);
    const size_t n = values(LEFT, straight, LEFT);
    remove_all("out");
    run_well("--set train.steps=4");
    snprintf(words, sizeof words, "d.ini %s1", on);
    r = cli_run(words, NULL);
    assert_code(&r, 0);
    cli_done(&r);
    assert_int_equal(values(LEFT, got, LEFT), n);
    assert_memory_equal(got, straight, n * sizeof *got);
    remove_all("out");
    for (size_t i = 0; i < DT_COUNT(lost); i++) {
        snprintf(words, sizeof words,
            "d.ini --set train.steps=4 --set policy.zero_offload.warmup=%s", lost[i].then);
        r = cli_run(words, NULL);
        assert_code(&r, 0);
        cli_done(&r);
        snprintf(words, sizeof words, "d.ini %s%s", on, lost[i].now);
        r = cli_run(words, NULL);
        assert_code(&r, 2);
        assert_has(r.err, "whose update is delayed");
        cli_done(&r);
        remove_all("out");
    }
}

/* The norms that the metrics have, one behind the other. */
static size_t norms(double to[STEPS])
{
    static const char key[] = "\"grad_norm\": ";
    char *text = cli_text(in_workspace("out/metrics.jsonl"));
    size_t n = 0;
    for (const char *at = text; n < STEPS && (at = strstr(at, key)) != NULL;)
        to[n++] = strtod(at += strlen(key), NULL);
    dt_free(text);
    return n;
}

/* In the step in which the delay begins nothing is updated, so there is no norm either, neither the
 * last one again nor, of a run that goes on there, whatever memory holds. */
static void norms_are_of_gradients_that_are_taken(void **state)
{
    NEED_BINARY();
    double straight[STEPS], got[STEPS];
    put_text("d.ini", INI "[memory]\npolicy = zero_offload\n[policy.zero_offload]\ndelay = on\n"
                          "warmup = 2\n");
    ran r = cli_run("d.ini --set train.steps=6 --set train.clip=0.5", NULL);
    assert_code(&r, 0);
    cli_done(&r);
    assert_int_equal(norms(straight), STEPS - 1);
    for (size_t i = 0; i < STEPS - 1; i++)
        assert_true(straight[i] > 0);
    remove_all("out");
    r = cli_run("d.ini --set train.steps=2 --set train.clip=0.5", NULL);
    assert_code(&r, 0);
    cli_done(&r);
    r = cli_run("d.ini --set train.steps=6 --set train.clip=0.5 --set checkpoint.resume=auto --set "
                "run.overwrite=off",
        NULL);
    assert_code(&r, 0);
    cli_done(&r);
    assert_int_equal(norms(got), STEPS - 1);
    for (size_t i = 0; i < STEPS - 1; i++)
        assert_true(got[i] >= straight[i] && got[i] <= straight[i]);
    remove_all("out");
}

static void what_a_delay_cannot_go_with_is_refused(void **state)
{
    NEED_BINARY();
    static const struct {
        const char *sets, *says;
    } cases[] = {{"--set train.micro_batch=4", "set micro_batch = batch"},
        {"--set train.update=early --set train.finite=off", "set update = step"},
        {"--set train.dump_gradients=g.safetensors", "leave one of them out"},
        {"--set policy.zero_offload.warmup=-1", "warmup"}};
    put_text("d.ini", INI "[memory]\npolicy = zero_offload\n[policy.zero_offload]\ndelay = on\n");
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        char words[512];
        snprintf(words, sizeof words, "d.ini --set train.steps=2 %s", cases[i].sets);
        ran r = cli_run(words, NULL);
        assert_code(&r, DT_E_CONFIG);
        assert_has(r.err, cases[i].says);
        cli_done(&r);
    }
    put_text("d.ini", INI "[memory]\npolicy = zero_offload\n[policy.zero_offload]\ndelay = on\n"
                          "[memory.layers]\nf.*.gradient = home device\n");
    ran r = cli_run("d.ini --set train.steps=2", NULL);
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "f.weight.gradient lives on the device");
    assert_has(r.err, "d.ini:");
    assert_has(r.err, "[policy.zero_offload] delay = on");
    cli_done(&r);
}

static int64_t from_7(const void *opts)
{
    (void)opts;
    return 7;
}

/* So that a message names the section that asked, whichever policy has it. */
static void who_asks_for_a_delay_is_named(void **state)
{
    (void)state;
    static const dt_policy other = {.name = "other", .delay = from_7};
    const char *by = "";
    dt_policies s;
    dt_err err = {0};
    assert_ok(dt_policies_open(&s, "zero_offload", NULL, &err), &err);
    assert_true(dt_policies_delay(&s, &by) < 0);
    assert_null(by);
    s.pass[s.n].opts = NULL;
    s.pass[s.n++].policy = &other;
    assert_int_equal(dt_policies_delay(&s, &by), 7);
    assert_string_equal(by, "other");
    const dt_policies turned = {
        .n = 2, .pass = {s.pass[1], s.pass[0]}}; /* the last one asks for none */
    assert_int_equal(dt_policies_delay(&turned, &by), 7);
    assert_string_equal(by, "other");
    dt_policies_close(&s);
}

DT_TEST_GROUP(delayed)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_update_takes_the_gradients_of_the_step_before),
        cmocka_unit_test(a_run_goes_on_with_the_gradients_that_wait),
        cmocka_unit_test(norms_are_of_gradients_that_are_taken),
        cmocka_unit_test(a_delay_that_is_changed_begins_anew_or_is_refused),
        cmocka_unit_test(what_a_delay_cannot_go_with_is_refused),
        cmocka_unit_test(who_asks_for_a_delay_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
