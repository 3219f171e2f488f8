/* Runs whose steps are planned anew behind an epoch: said once for each change, the same bits, and
 * within what was planned at first. */
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "tests/fixture/run_cli.h"
#include "tests/fixture/workspace.h"

#define INI                                                                                        \
    "[model]\nimage = 16\nclasses = 3\n[conv a]\nout = 16\nkernel = 3\npad = 1\n[relu ar]\n"       \
    "[conv b]\nout = 16\nkernel = 3\npad = 1\n[relu br]\n[conv c]\nout = 16\nkernel = 3\n"         \
    "pad = 1\n[relu cr]\n[global_avgpool g]\n[fc f]\nout = 3\n[cross_entropy loss]\n"              \
    "[data]\nsource = synthetic\nsamples = 16\n"                                                   \
    "[train]\nbatch = 8\nepochs = 3\nlr = 0.05\nprecision = fp32\neval_every = 0\n"                \
    "[device]\nkind = cpu\nthreads = 1\n[memory]\nsimulate = p100\ncopy_threads = on\n"            \
    "[run]\ndir = out\noverwrite = on\n"

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
        assert_memory_equal(kept, other, n);
        dt_free(said);
        dt_free(other);
    }
    dt_free(kept);
}

DT_TEST_GROUP(replan)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(epochs_are_planned_by_what_they_hold, clean_workspace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
