/* Saving and loading go piece by piece: what they take besides the plans is counted, wherever
 * tensors live, and nothing of a value is lost on the way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/weights.h"
#include "session/open.h"
#include "session/rig.h"
#include "session/run_plans.h"
#include "tests/fixture/check.h"
#include "tests/fixture/run_cli.h"
#include "tests/fixture/state.h"
#include "tests/fixture/workspace.h"

/* The weight of f takes 32 MiB, in a layout of the library's and with its columns in another order.
 */
#define INI                                                                                        \
    "[model]\nimage = 32\nclasses = 512\n[conv c]\nout = 16\nkernel = 3\npad = 1\n[batchnorm b]\n" \
    "[relu r]\n[fc f]\nout = 512\n[data]\nsamples = 8\n"                                           \
    "[train]\nbatch = 1\nmomentum = 0.9\nprecision = fp32\nseed = %d\n"                            \
    "[memory]\ndisk_path = /var/tmp\n[device]\nthreads = 1\n[memory.layers]\n%s"

/* The weight of f takes 64 KiB by class. */
#define WIDE                                                                                       \
    "[model]\nimage = 32\nclasses = %d\n[conv c]\nout = 16\nkernel = 3\npad = 1\n"                 \
    "[relu r]\n[fc f]\nout = %d\n[data]\nsamples = 2\n[train]\nbatch = 1\nmomentum = 0.9\n"        \
    "steps = 1\nprecision = fp32\n[device]\nthreads = 1\n[run]\ndir = out\n"

/* Convolutions whose weights oneDNN lays out otherwise for one thread than for several, or may: few
 * and odd channels, and pads as wide as the kernel. */
#define ODD                                                                                        \
    "[model]\nimage = 20\nclasses = 4\n[conv a]\nout = 20\nkernel = 3\npad = 1\n[relu r]\n"        \
    "[conv b]\nout = 3\nkernel = 5\npad = 4\ndilation = 2\n[conv c]\nout = 3\nkernel = 7\n"        \
    "pad = 6\n[conv d]\nout = 5\nkernel = 4\npad = 4\n[conv e]\nout = 21\nkernel = 5\npad = 8\n"   \
    "dilation = 4\n[global_avgpool p]\n[fc f]\nout = 4\n[data]\nsource = synthetic\n"              \
    "samples = 32\n[train]\nbatch = %d\nsteps = 3\nprecision = fp32\n[device]\nthreads = %d\n"     \
    "[run]\ndir = out\n"

enum {
    WIDEST = 768 * 16 * 32 * 32 * 4,
    LARGEST = 16 * 32 * 32 * 512 * 4,
    NAMES = 1 << 20,                               /* and what else is small */
    MOST = 2 * DTI_PIECE + DT_WRITER_BYTES + NAMES /* columns in both orders */
};
_Static_assert(MOST < LARGEST, "a tensor that came whole would show");

static const char *const homes[] = {
    "", "* = home host\n", "* = home disk\n", "*.moments = home disk\nf.bias = home host\n"};

typedef struct trainee {
    dt_session *s;
    dt_rig rig;
} trainee;

static trainee open_trainee(const char *home, int seed)
{
    trainee t = {0};
    dt_err err = {0};
    char ini[2048];
    const int n = snprintf(ini, sizeof ini, INI, seed, home);
    assert_true(n < (int)sizeof ini);
    assert_ok(dti_session_open_text(&t.s, "passages", ini, (size_t)n, NULL, 0, &err), &err);
    assert_ok(dt_session_plan_run(t.s, false, 0, 0, &err), &err);
    assert_ok(dti_rig_open(&t.rig, t.s, &err), &err);
    return t;
}

static void close_trainee(trainee *t)
{
    dti_rig_close(&t->rig);
    dt_session_close(t->s);
}

static dt_trained trained(const trainee *t)
{
    return (dt_trained){t->rig.runner, t->s->graph, t->s->plans->map};
}

/* Moments, which begin as zeros: each value is of its place. */
static void put_moments(const trainee *t)
{
    const dt_map *m = t->s->plans->map;
    for (size_t i = 0; i < m->n; i++) {
        dti_passage w;
        dt_err err = {0};
        if (m->home[i].port != DT_M)
            continue;
        assert_ok(dti_passage_open(&w, t->rig.runner, (int32_t)i, &err), &err);
        while (dti_passage_next(&w)) {
            for (size_t k = 0; k < w.n; k++)
                w.piece[k] = (float)(w.at + k) + 0.5F;
            assert_ok(dti_passage_put(&w, &err), &err);
        }
        dti_passage_close(&w);
    }
}

/* What was taken since is within what planning makes room for. */
static void assert_planned(const trainee *t, size_t before, size_t most)
{
    assert_in_range(most - before, 1, dt_plan_set_need(t->s->plans).weights + NAMES);
}

static void save(const trainee *t, const char *folder)
{
    const dt_trained what = trained(t);
    const dt_course course = {.step = 1};
    dt_err err = {0};
    (void)mkdir(folder, 0777);
    const size_t before = dti_alloc_bytes();
    (void)dti_alloc_most();
    assert_ok(dt_checkpoint_save(folder, &what, &course, NULL, 0, &err), &err);
    const size_t most = dti_alloc_most();
    assert_in_range(most - before, 1 << 20, MOST);
    assert_planned(t, before, most);
    assert_int_equal(dti_alloc_bytes(), before);
}

static void load(const trainee *t, const char *folder)
{
    const dt_trained what = trained(t);
    dt_checkpoint *c;
    dt_err err = {0};
    const size_t before = dti_alloc_bytes();
    (void)dti_alloc_most();
    assert_ok(dt_checkpoint_newest(&c, folder, NULL, &err), &err);
    assert_ok(dt_checkpoint_load(c, &what, &err), &err);
    dt_checkpoint_close(c);
    const size_t most = dti_alloc_most();
    assert_in_range(most - before, 1, MOST);
    assert_planned(t, before, most);
    assert_int_equal(dti_alloc_bytes(), before);
}

static void assert_same(const char *a, const char *b, const char *file)
{
    const char *const folder[2] = {a, b};
    char *text[2], path[4096];
    size_t n[2];
    dt_err err = {0};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/step-00000001/%s", folder[i], file);
        assert_ok(dt_read_file(&text[i], &n[i], path, 64 << 20, DT_E_DATA, &err), &err);
    }
    assert_int_equal(n[0], n[1]);
    assert_true(n[0] > LARGEST && memcmp(text[0], text[1], n[0]) == 0);
    dt_free(text[0]);
    dt_free(text[1]);
}

static void what_is_saved_and_loaded_comes_in_pieces(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(homes); i++) {
        if (!dt_picked(i, 2, 2, 1))
            continue;
        char first[256], second[256];
        snprintf(first, sizeof first, "%s", in_workspace("first"));
        snprintf(second, sizeof second, "%s", in_workspace("second"));
        trainee from = open_trainee(homes[i], 1);
        put_moments(&from);
        save(&from, first);
        close_trainee(&from);
        trainee to = open_trainee(homes[(i + 1) % DT_COUNT(homes)], 2);
        load(&to, first);
        save(&to, second);
        close_trainee(&to);
        assert_same(first, second, "model.safetensors");
        assert_same(first, second, "state.safetensors");
    }
}

/* First values are drawn by their places, in whatever pieces. */
static void first_values_take_no_more(void **state)
{
    (void)state;
    trainee all = open_trainee("", 3);
    dt_err err = {0};
    const size_t before = dti_alloc_bytes();
    (void)dti_alloc_most();
    assert_ok(dt_runner_init(all.rig.runner, &err), &err);
    assert_in_range(dti_alloc_most() - before, 1, MOST);
    close_trainee(&all);
}

/* First values are drawn in PyTorch's order, and saved in it, however many threads a weight was
 * laid out for. */
static void any_team_saves_weights_in_the_same_order(void **state)
{
    (void)state;
    for (int batch = 1; batch <= 8; batch *= 2) {
        char *first = NULL;
        size_t n = 0;
        for (int threads = 1; threads <= 3; threads++) {
            char ini[2048], *text;
            size_t bytes;
            trainee t = {0};
            dt_err err = {0};
            const int length = snprintf(ini, sizeof ini, ODD, batch, threads);
            const char *path = in_workspace("odd.safetensors");
            assert_ok(dti_session_open_text(&t.s, "odd", ini, (size_t)length, NULL, 0, &err), &err);
            assert_ok(dt_session_plan_run(t.s, false, 0, 0, &err), &err);
            assert_ok(dti_rig_open(&t.rig, t.s, &err), &err);
            assert_ok(dt_weights_save(t.rig.runner, t.s->graph, t.s->plans->map, path, &err), &err);
            close_trainee(&t);
            assert_ok(dt_read_file(&text, &bytes, path, 1 << 20, DT_E_DATA, &err), &err);
            if (first == NULL) {
                first = text;
                n = bytes;
                continue;
            }
            assert_int_equal(bytes, n);
            if (memcmp(text, first, n) != 0)
                fail_msg("batch %d: %d threads save other weights than one", batch, threads);
            dt_free(text);
        }
        dt_free(first);
    }
}

/* ---- a whole process ---- */

/* Of a summary. */
static uint64_t number(const char *run, const char *key)
{
    char path[512], want[64];
    snprintf(path, sizeof path, "%s/summary.json", in_workspace(run));
    snprintf(want, sizeof want, "\"%s\":\t", key);
    char *text = cli_text(path);
    const char *at = strstr(text, want);
    assert_non_null(at);
    const uint64_t n = strtoull(at + strlen(want), NULL, 10);
    dt_free(text);
    return n;
}

/* What a run that goes on, or begins, takes at its peak besides its plan. */
static uint64_t beside(const char *words)
{
    ran r = cli_run(words, NULL);
    if (r.code != 0)
        fail_msg("'%s' ends with %d: %s", words, r.code, r.err);
    cli_done(&r);
    return number("out", "process_peak") - number("out", "device_peak_planned");
}

/* The line of an evaluation that has the loss. */
static void loss_of(const char *words, char to[256])
{
    ran r = cli_run(words, NULL);
    const char *at = strstr(r.out, "loss ");
    if (r.code != 0 || at == NULL)
        fail_msg("'%s' ends with %d: %s%s", words, r.code, r.out, r.err);
    snprintf(to, 256, "%.*s", (int)strcspn(at, "\n"), at);
    cli_done(&r);
}

/* What two threads trained and saved is the same network to one, whose kernels are others. */
static void a_network_is_the_same_to_any_team(void **state)
{
    NEED_BINARY();
    char ini[2048], one[256], two[256];
    snprintf(ini, sizeof ini, ODD, 1, 2);
    put_text("odd.ini", ini);
    ran r = cli_run("odd.ini --set train.lr=0.05", NULL);
    assert_int_equal(r.code, 0);
    cli_done(&r);
    loss_of("eval out --set device.threads=2", two);
    loss_of("eval out --set device.threads=1", one);
    assert_string_equal(one, two);
    remove_all("out");
}

/* What planning makes room for besides the plans, of the wide network of so many classes. */
static uint64_t need_of(int classes)
{
    char ini[2048];
    const int n = snprintf(ini, sizeof ini, WIDE, classes, classes);
    dt_session *s = NULL;
    dt_err err = {0};
    put_text("wide.ini", ini);
    assert_ok(dti_session_open_text(&s, "wide", ini, (size_t)n, NULL, 0, &err), &err);
    assert_ok(dt_session_plan_run(s, true, 0, 0, &err), &err);
    const uint64_t need = dt_plan_set_need(s->plans).weights;
    dt_session_close(s);
    return need;
}

/* Beside its plan and what any run takes, of which one of a tiny network tells, no more than was
 * made room for, and no weight as a whole. */
static void a_run_that_goes_on_loads_within_what_was_planned(void **state)
{
    NEED_BINARY();
    NEED_LIMITS();
    (void)need_of(2);
    const uint64_t any = beside("wide.ini");
    remove_all("out");
    const uint64_t most = any + need_of(768) + DTI_PIECE; /* freed, and not fit for the next */
    assert_true(most < any + WIDEST);
    assert_in_range(beside("wide.ini"), 1, most);
    assert_in_range(beside("wide.ini --resume out --set train.steps=2"), 1, most);
    remove_all("out");
}

/* A processor's host is the same memory as its device, so what the plan has there is the plan's. */
static void what_the_plan_has_on_the_host_is_not_outside_it(void **state)
{
    NEED_BINARY();
    (void)need_of(2);
    (void)beside("wide.ini --set memory.policy=zero_offload");
    const uint64_t host = number("out", "host_peak_planned");
    assert_true(host > 0);
    assert_int_equal(number("out", "outside_arena_bytes"),
        number("out", "process_peak") - number("out", "device_peak_planned") - host);
    remove_all("out");
}

DT_TEST_GROUP(passages)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_saved_and_loaded_comes_in_pieces),
        cmocka_unit_test(first_values_take_no_more),
        cmocka_unit_test(any_team_saves_weights_in_the_same_order),
        cmocka_unit_test(a_network_is_the_same_to_any_team),
        cmocka_unit_test(a_run_that_goes_on_loads_within_what_was_planned),
        cmocka_unit_test(what_the_plan_has_on_the_host_is_not_outside_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
