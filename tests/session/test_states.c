/* Moments in 8 bits (train.states): what they take, that a run leaves the same bits wherever they
 * live and whatever it is stopped by, and that it learns as one with moments in fp32 does. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/state_codes.h"
#include "session/open.h"
#include "session/run_plans.h"
#include "session/session.h"
#include "tests/fixture/json_read.h"
#include "tests/fixture/planned.h"
#include "tests/fixture/run_cli.h"
#include "tests/fixture/workspace.h"

/* A weight that is larger than two slices, one of no whole block, and small ones. */
#define NETWORK                                                                                    \
    "[model]\nimage = 16\nclasses = 3\n[conv c]\nout = 8\nkernel = 3\npad = 1\n[batchnorm b]\n"    \
    "[relu r]\n[conv e]\nout = 64\nkernel = 3\npad = 1\n[relu s]\n[maxpool m]\nkernel = 2\n"       \
    "stride = 2\n[fc f]\nout = 520\n[fc g]\nout = 3\n"
#define TRAIN                                                                                      \
    "[data]\nsamples = 32\n[device]\nthreads = 1\n[memory]\nslice = 1MiB\nchecksum = on\n"         \
    "disk_path = .\n[train]\nbatch = 8\nlr = 0.001\nseed = 3\nsteps = 4\nstates = 8bit\n"

#define EARLY "--set train.update=early --set train.finite=off "

static const char *const optimizers[] = {"train.optimizer=adamw", "train.optimizer=lion",
    "train.optimizer=sgd --set train.momentum=0.9", "train.optimizer=adam"};

/* @homes: lines of [memory.layers] */
static void run_well(const char *dir, const char *homes, const char *sets)
{
    char ini[1024], words[1024];
    snprintf(ini, sizeof ini, NETWORK TRAIN "[memory.layers]\n%s", homes);
    put_text("c.ini", ini);
    snprintf(words, sizeof words, "c.ini --set run.dir=%s %s", dir, sets);
    ran r = cli_run(words, NULL);
    assert_code(&r, 0);
    cli_done(&r);
}

static char *left_by(const char *dir, const char *below, size_t *n)
{
    char path[128], *text;
    dt_err err = {0};
    snprintf(path, sizeof path, "%s/checkpoints/%s", dir, below);
    assert_ok(dt_read_file(&text, n, in_workspace(path), 1 << 27, DT_E_DATA, &err), &err);
    return text;
}

static void same_file(const char *a, const char *b, const char *below, const char *why)
{
    size_t n, m;
    char *x = left_by(a, below, &n), *y = left_by(b, below, &m);
    if (n != m || memcmp(x, y, n) != 0)
        fail_msg("%s: other bits", why);
    dt_free(x);
    dt_free(y);
}

#define MODEL "model.safetensors"

/* All values of the optimizer's state, and nothing of the time that was taken. */
static void same_states(const char *a, const char *b, const char *why)
{
    dt_st_file *f[2];
    dt_err err = {0};
    int moments = 0;
    for (int i = 0; i < 2; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/checkpoints/step-00000004/state.safetensors", i ? b : a);
        assert_ok(dt_st_open(&f[i], in_workspace(path), &err), &err);
    }
    for (size_t i = 0; i < dti_st_count(f[0]); i++) {
        const dt_st_entry *e = dti_st_at(f[0], i), *o = dt_st_find(f[1], e->name);
        if (strncmp(e->name, "optimizer.", strlen("optimizer.")) != 0)
            continue;
        char *x = malloc(e->bytes), *y = malloc(e->bytes);
        assert_true(x != NULL && y != NULL && o != NULL && o->bytes == e->bytes);
        assert_ok(dt_st_read(f[0], e, 0, x, e->bytes, &err), &err);
        assert_ok(dt_st_read(f[1], o, 0, y, e->bytes, &err), &err);
        if (memcmp(x, y, e->bytes) != 0)
            fail_msg("%s: %s has other bits", why, e->name);
        free(x);
        free(y);
        moments++;
    }
    assert_true(moments > 0);
    dt_st_close(f[0]);
    dt_st_close(f[1]);
}

/* Planned equals measured on every tier, or the run fails. */
static void the_bits_are_the_same_wherever_moments_live(void **state)
{
    NEED_BINARY();
    static const struct {
        const char *homes, *sets;
    } ways[] = {{"*.moments = home host\n", ""}, {"* = home disk\n", ""},
        {"* = home disk\n", "--set memory.slice=0"}, {"", "--set memory.policy=zero_offload"},
        {"", "--set memory.policy=zero_infinity,chen_sqrt"}, {"", EARLY},
        {"", EARLY "--set memory.policy=zero_infinity"},
        {"* = home disk\n", EARLY "--set memory.generations=2 --set train.clip=1e6"}};
    for (size_t o = 0; o < DT_COUNT(optimizers); o++) {
        char sets[512];
        snprintf(sets, sizeof sets, "--set %s", optimizers[o]);
        run_well("kept", "", sets);
        for (size_t i = 0; i < DT_COUNT(ways); i++) {
            if (!dt_picked(o + i, 4, 2, 1))
                continue;
            snprintf(sets, sizeof sets, "--set %s %s", optimizers[o], ways[i].sets);
            run_well("away", ways[i].homes, sets);
            same_file("kept", "away", MODEL, sets);
            same_states("kept", "away", sets);
            remove_all("away");
        }
        remove_all("kept");
    }
}

/* Of whatever part of a run was made where, the end is the same. */
static void a_run_that_goes_on_ends_with_the_same_bits(void **state)
{
    NEED_BINARY();
    for (size_t o = 0; o < DT_COUNT(optimizers); o++) {
        char sets[512];
        if (!dt_picked(o, 2, 2, 1))
            continue;
        snprintf(sets, sizeof sets, "--set %s", optimizers[o]);
        run_well("whole", "", sets);
        snprintf(sets, sizeof sets,
            "--set %s --set checkpoint.every=1 --set checkpoint.keep_last=0", optimizers[o]);
        run_well("part", "*.moments = home disk\n", sets);
        for (int step = 3; step > 0; step--) { /* going on removes what is behind */
            snprintf(sets, sizeof sets,
                "--set %s --set checkpoint.keep_last=0 --resume part/checkpoints/step-%08d",
                optimizers[o], step);
            run_well("part", step % 2 == 0 ? "" : "* = home host\n", sets);
            same_file("whole", "part", MODEL, sets);
            same_states("whole", "part", sets);
        }
        remove_all("whole");
        remove_all("part");
    }
}

/* Threads share out blocks, and the bits of each are its own. */
static void micro_batches_and_threads_keep_what_they_promise(void **state)
{
    NEED_BINARY();
    run_well("kept", "", "--set train.optimizer=adamw --set train.micro_batch=4");
    run_well("away", "* = home host\n",
        "--set train.optimizer=adamw --set train.micro_batch=4 --set memory.policy=vdnn_all");
    same_file("kept", "away", MODEL, "micro-batches");
    remove_all("kept");
    remove_all("away");
    cli.threads = "2";
    run_well("kept", "", "--set device.threads=2 --set train.optimizer=adamw");
    run_well("away", "",
        "--set device.threads=2 --set train.optimizer=adamw "
        "--set memory.policy=zero_infinity");
    cli.threads = NULL;
    same_file("kept", "away", MODEL, "two threads");
    remove_all("kept");
    remove_all("away");
}

/* ---- bytes ---- */

static const dt_home *home_named(const dt_session *s, const char *name)
{
    for (size_t i = 0; i < s->plans->map->n; i++)
        if (strcmp(s->plans->map->home[i].name, name) == 0)
            return &s->plans->map->home[i];
    return NULL;
}

/* 64 x 8 x 8 x 520 values of fc, 64 x 8 x 9 of the second convolution, and fewer of all others. */
static void a_moment_takes_a_byte_a_value_and_a_scale_for_each_block(void **state)
{
    (void)state;
    enum { F = 64 * 8 * 8 * 520, E = 64 * 8 * 9 };
    dt_session *s = dt_session_planned(NETWORK TRAIN "optimizer = adamw\n");
    for (int k = 0; k < 2; k++) {
        char name[64];
        snprintf(name, sizeof name, "m%d.f.weight", k);
        assert_int_equal(home_named(s, name)->bytes, F);
        snprintf(name, sizeof name, "s%d.f.weight", k);
        assert_int_equal(home_named(s, name)->bytes, F / DT_STATE_BLOCK * 4);
        snprintf(name, sizeof name, "s%d.e.weight", k);
        assert_int_equal(home_named(s, name)->bytes, (E + DT_STATE_BLOCK - 1) / DT_STATE_BLOCK * 4);
        snprintf(name, sizeof name, "m%d.g.weight", k);
        assert_int_equal(home_named(s, name)->bytes, home_named(s, "g.weight")->bytes);
        snprintf(name, sizeof name, "s%d.g.weight", k);
        assert_null(home_named(s, name));
    }
    dt_session_close(s);
}

/* Whatever their own bytes are. */
static void swapadvisor_moves_codes_and_scales_with_their_parameter(void **state)
{
    (void)state;
    static const char *const beside[] = {"f.weight", "g.f.weight", "m0.f.weight", "s1.f.weight"};
    dt_session *s = dt_session_planned(
        NETWORK "[data]\nsamples = 8\n[train]\nbatch = 8\noptimizer = adamw\nstates = 8bit\n"
                "[memory]\npolicy = swapadvisor\n[policy.swapadvisor]\nweights = host\n"
                "weights_from = 8MiB\n");
    for (size_t i = 0; i < DT_COUNT(beside); i++)
        assert_int_equal(home_named(s, beside[i])->tier, DT_TIER_HOST);
    assert_int_equal(home_named(s, "m0.e.weight")->tier, DT_AT_DEVICE);
    dt_session_close(s);
}

/* Slices of a MiB are of four; a slice has its part of the codes, and scales come once for all. */
static void slices_cut_codes_and_leave_scales_whole(void **state)
{
    (void)state;
    dt_err err = {0};
    const dt_planned *p = NULL;
    dt_session *s = dt_session_planned(
        NETWORK TRAIN "optimizer = adamw\n[memory.layers]\n*.moments = home disk\n");
    assert_ok(dti_session_plan(s, DT_PROGRAM_UPDATE, 8, &p, &err), &err);
    static const char *const cut[] = {"m0.f.weight.from0", "m0.f.weight.from1048576",
        "m1.f.weight.from2097152", "s0.f.weight", "s1.f.weight"};
    for (size_t i = 0; i < DT_COUNT(cut); i++) {
        assert_int_equal(dt_rows_of(p->plan, DT_ROW_COPY_IN, cut[i]), 1);
        assert_int_equal(dt_rows_of(p->plan, DT_ROW_COPY_OUT, cut[i]), 1);
    }
    assert_int_equal(dt_rows_of(p->plan, DT_ROW_COPY_IN, "m0.f.weight"), 0);
    dt_session_close(s);
}

/* ---- what is learned ---- */

static double last_loss(const char *dir)
{
    char below[64];
    double loss = (double)NAN;
    snprintf(below, sizeof below, "%s/metrics.jsonl", dir);
    char *text = cli_text(in_workspace(below));
    for (const char *at = text; (at = strstr(at, "\"loss\": ")) != NULL; at++)
        if (strncmp(at + strlen("\"loss\": "), "null", 4) != 0)
            loss = atof(at + strlen("\"loss\": "));
    dt_free(text);
    return loss;
}

/* As near as another order of the samples would leave it: 8 bits are not the same, and do as well.
 */
static void it_learns_as_with_moments_in_fp32(void **state)
{
    NEED_BINARY();
    for (size_t o = 0; o < DT_COUNT(optimizers); o++) {
        char sets[512];
        double loss[2];
        if (!dt_picked(o, 2, 2, 1))
            continue;
        for (int i = 0; i < 2; i++) {
            snprintf(sets, sizeof sets,
                "--set %s --set train.steps=40 --set train.lr=%s --set "
                "train.states=%s",
                optimizers[o], o == 2 ? "0.001" : "0.0003", i == 0 ? "fp32" : "8bit");
            run_well("out", "", sets);
            loss[i] = last_loss("out");
            remove_all("out");
        }
        print_message("%s: %.4f in fp32, %.4f in 8 bits\n", optimizers[o], loss[0], loss[1]);
        assert_true(loss[0] != loss[1] && loss[0] < 1.05 && fabs(loss[0] - loss[1]) < 0.05);
    }
}

static void refused(const char *sets, const char *says)
{
    char words[512];
    put_text("c.ini", NETWORK TRAIN);
    snprintf(words, sizeof words, "c.ini --set run.dir=out %s", sets);
    ran r = cli_run(words, NULL);
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, says);
    cli_done(&r);
}

static void what_there_is_no_state_for_is_refused(void **state)
{
    NEED_BINARY();
    refused("--set train.momentum=0", "sgd without momentum keeps no moments");
    refused("--set train.states=4bit", "must be one of fp32, 8bit");
}

/* Of a plan for moments in fp32, and the other way round. */
static void plans_of_other_states_are_refused(void **state)
{
    NEED_BINARY();
    put_text("c.ini", NETWORK TRAIN);
    for (int i = 0; i < 2; i++) {
        const char *planned = i == 0 ? "fp32" : "8bit", *run = i == 0 ? "8bit" : "fp32";
        char words[512];
        snprintf(words, sizeof words, "plan c.ini --set train.states=%s --text p.plans", planned);
        ran r = cli_run(words, NULL);
        assert_code(&r, 0);
        cli_done(&r);
        snprintf(words, sizeof words,
            "c.ini --plan p.plans --set run.dir=out --set train.states=%s", run);
        r = cli_run(words, NULL);
        assert_code(&r, DT_E_CONFIG);
        cli_done(&r);
    }
}

DT_TEST_GROUP(states)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_are_the_same_wherever_moments_live),
        cmocka_unit_test(a_run_that_goes_on_ends_with_the_same_bits),
        cmocka_unit_test(micro_batches_and_threads_keep_what_they_promise),
        cmocka_unit_test(a_moment_takes_a_byte_a_value_and_a_scale_for_each_block),
        cmocka_unit_test(swapadvisor_moves_codes_and_scales_with_their_parameter),
        cmocka_unit_test(slices_cut_codes_and_leave_scales_whole),
        cmocka_unit_test(it_learns_as_with_moments_in_fp32),
        cmocka_unit_test(what_there_is_no_state_for_is_refused),
        cmocka_unit_test(plans_of_other_states_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
