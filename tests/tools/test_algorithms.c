/* memory.algorithms from outside: the peaks of plans under each choice, and training by each. */
#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "layers/onednn/onednn.h"
#include "tests/fixture/json_read.h"
#include "tests/fixture/run_cli.h"

/* Many channels and few pixels, so that scratch and weights in other layouts are what is large. */
static const char *network(void)
{
    return cli_file("ways.ini",
        "[data]\nsource = synthetic\nsamples = 64\n"
        "[train]\nbatch = 4\nsteps = 6\nlr = 0.001\neval_every = 0\n"
        "[model]\nimage = 8\nclasses = 10\n"
        "[conv c1]\nout = 64\nkernel = 3\npad = 1\n[relu r1]\n"
        "[conv c2]\nout = 128\nkernel = 3\npad = 1\n[relu r2]\n"
        "[conv c3]\nout = 128\nkernel = 3\npad = 1\n[relu r3]\n"
        "[maxpool p]\nkernel = 8\n[fc f]\nout = 10\n[cross_entropy loss]\n");
}

static double number(const char *text, const char *outer, const char *key)
{
    cJSON *o = json_of(text, strlen(text));
    const double d = json_number(outer != NULL ? json_object(o, outer) : o, key);
    cJSON_Delete(o);
    return d;
}

/* The peak, and how many ops are for one way of several. */
static double plan(const char *policy, const char *algorithms, int *ways)
{
    char words[512];
    const char *to = dt_temp_path("ways.plan");
    snprintf(words, sizeof words,
        "plan FILE --json --text %.200s --set memory.policy=%s --set memory.algorithms=%s", to,
        policy, algorithms);
    ran r = cli_run(words, network());
    assert_code(&r, 0);
    const double peak = number(r.out, "device", "peak");
    cli_done(&r);
    char *text = cli_text(to);
    *ways = 0;
    for (const char *at = text; (at = strstr(at, " k:")) != NULL; at++)
        ++*ways;
    assert_true((*ways > 0) == (strstr(text, "algorithm ") != NULL)); /* the reason of its row */
    dt_free(text);
    return peak;
}

static void small_lowers_the_peak_and_fit_keeps_it(void **state)
{
    NEED_BINARY();
    if (!dti_onednn_avx512()) /* where the library may want more than Winograd */
        skip();
    static const char *const policies[] = {"keep_all", "vdnn_all", "chen_sqrt"};
    for (size_t i = 0; i < DT_COUNT(policies); i++) {
        int ways[3];
        const double fast = plan(policies[i], "fast", &ways[0]);
        const double small = plan(policies[i], "small", &ways[1]);
        const double fit = plan(policies[i], "fit", &ways[2]);
        if (!(small < fast && fit <= small))
            fail_msg("%s: fast %.0f, small %.0f, fit %.0f", policies[i], fast, small, fit);
        assert_int_equal(ways[0], 0);
        assert_true(ways[1] >= 6); /* of two convolutions, in three directions */
        assert_true(ways[2] >= 6);
    }
}

static double train(const char *policy, const char *algorithms)
{
    char words[512];
    const char *dir = dt_temp_path("ways-run");
    snprintf(words, sizeof words,
        "FILE --set run.dir=%.200s --set run.overwrite=on --set memory.policy=%s "
        "--set memory.algorithms=%s",
        dir, policy, algorithms);
    ran r = cli_run(words, network());
    assert_code(&r, 0);
    cli_done(&r);
    char *text = cli_text(dt_temp_path("ways-run/summary.json"));
    assert_true(
        number(text, NULL, "device_peak_planned") == number(text, NULL, "device_peak_measured"));
    const double loss = number(text, NULL, "final_loss");
    dt_free(text);
    return loss;
}

static void every_choice_trains(void **state)
{
    NEED_BINARY();
    const double fast = train("keep_all", "fast"), small = train("keep_all", "small");
    assert_true(fabs(small - fast) < 1e-4 * fast);
    assert_true(train("vdnn_all", "fast") == fast);
    assert_true(train("vdnn_all", "small") == small);
    assert_true(fabs(train("chen_sqrt", "fit") - fast) < 1e-4 * fast);
}

DT_TEST_GROUP(algorithms)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_lowers_the_peak_and_fit_keeps_it),
        cmocka_unit_test(every_choice_trains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
