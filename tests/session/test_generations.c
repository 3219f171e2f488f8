/* Two generations of what lives on the disk: a step that fails at any place (a number that is none,
 * packed values without room, a disk that fails, fills, lies or is changed by somebody) leaves the
 * step before it whole, whether updates are early or not; and early updates are clipped to the same
 * bits as late ones. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "session/open.h"
#include "session/run_plans.h"
#include "session/session.h"
#include "tests/fixture/bad_disk.h"
#include "tests/fixture/planned.h"
#include "tests/fixture/run_cli.h"
#include "tests/fixture/workspace.h"

enum { STEPS = 3 };

/* Running statistics, and weights larger than what a disk takes at once of a short transfer. */
#define NETWORK                                                                                    \
    "[model]\nimage = 16\nclasses = 3\n[conv c]\nout = 4\nkernel = 3\n[batchnorm b]\n[relu r]\n"   \
    "[conv e]\nout = 4\nkernel = 3\n[relu s]\n[dropout d]\n[fc f]\nout = 3\n"
#define REST                                                                                       \
    "[data]\nsamples = 64\n[device]\nthreads = 1\n[run]\ndir = out\noverwrite = on\n[memory]\n"    \
    "disk_path = disk\n"
#define TRAIN "[train]\nbatch = 8\nlr = 0.05\nseed = 3\nsteps = %d\n%s\n"
#define EARLY "update = early\n"
#define AWAY "generations = 2\n[memory.layers]\n* = home disk\n"

/* A configuration: @train and @memory end in a line's end, or are empty. */
static const char *ini(int steps, const char *train, const char *memory)
{
    static char text[2048];
    snprintf(text, sizeof text, NETWORK TRAIN REST "%s", steps, train, memory);
    return text;
}

static char *right(int steps, const char *train, const char *memory, size_t *n)
{
    dt_err err = {0};
    disk_is_well(NULL);
    assert_ok(train_here(ini(steps, train, memory), &err), &err);
    char *w = weights_left(n);
    remove_all("out");
    return w;
}

/* ---- the same bits ---- */

static double norm_of_step(int step)
{
    char want[32];
    char *text = cli_text(in_workspace("out/metrics.jsonl"));
    snprintf(want, sizeof want, "\"step\": %d,", step);
    const char *line = strstr(text, want);
    const char *at = line != NULL ? strstr(line, "\"grad_norm\": ") : NULL;
    double norm = -1;
    assert_non_null(at);
    assert_int_equal(sscanf(at, "\"grad_norm\": %lf", &norm), 1);
    dt_free(text);
    return norm;
}

/* Norms of some of these steps are above the first bound, and of all below the last. */
static void early_updates_are_clipped_to_the_same_bits(void **state)
{
    NEED_BINARY();
    static const char *const ways[] = {"momentum = 0.9\n", "optimizer = adamw\n",
        "optimizer = adamw\nprecision = auto\n", "optimizer = lion\n"};
    static const char *const clips[] = {"", "clip = 1\n", "clip = 1e6\n"};
    static const char *const homes[] = {AWAY, "generations = 2\npolicy = zero_infinity\n",
        "generations = 2\npolicy = zero_infinity,chen_sqrt\nahead = 0\nchecksum = on\n"};
    int above = 0, below = 0;
    for (size_t w = 0; w < DT_COUNT(ways); w++)
        for (size_t c = 0; c < DT_COUNT(clips); c++) {
            char late[128], early[160];
            size_t n;
            dt_err err = {0};
            snprintf(late, sizeof late, "%s%s", ways[w], clips[c]);
            snprintf(early, sizeof early, "%s" EARLY, late);
            assert_ok(train_here(ini(STEPS, late, ""), &err), &err);
            for (int s = 1; s <= STEPS && c == 1; s++) {
                above += norm_of_step(s) > 1;
                below += norm_of_step(s) <= 1;
            }
            char *want = weights_left(&n);
            remove_all("out");
            for (size_t h = 0; h < DT_COUNT(homes); h++) {
                if (!dt_picked(w + c + h, 3, 3, 1)) /* each way, each clip and each home, once */
                    continue;
                if (train_here(ini(STEPS, early, homes[h]), &err) != DT_OK)
                    fail_msg("%s: %s", early, err.text);
                assert_weights_left(want, n);
                remove_all("out");
            }
            dt_free(want);
        }
    print_message("%d norms are clipped, %d are not\n", above, below);
    assert_true(above > 0);
}

/* Values that do not fit their packed room are computed again, with their updates. */
static void a_step_run_again_for_packed_values_leaves_the_same_bits(void **state)
{
    NEED_BINARY();
    size_t n;
    dt_err err = {0};
    char *want = right(STEPS, "", "", &n);
    assert_ok(train_here(ini(STEPS, EARLY,
                             "generations = 2\npolicy = cdma,zero_infinity\n"
                             "[policy.cdma]\ndensity = 0.05\n"),
                  &err),
        &err);
    assert_has(said_here(), "run again, as packed values did not fit");
    assert_weights_left(want, n);
    dt_free(want);
}

/* ---- bytes ---- */

static void two_generations_are_planned_of_what_steps_change(void **state)
{
    (void)state;
    dt_session *one = dt_session_planned(ini(STEPS, "", "[memory.layers]\n* = home disk\n"));
    dt_session *two = dt_session_planned(ini(STEPS, "", AWAY));
    uint64_t changed = 0, rest = 0;
    for (size_t i = 0; i < two->plans->map->n; i++) {
        const dt_home *h = &two->plans->map->home[i];
        const uint64_t bytes = (h->bytes + 4095) / 4096 * 4096;
        const bool lasts = h->port == DT_P || h->role == DT_ROLE_OPTIMIZER;
        if (h->tier != DT_TIER_DISK)
            continue;
        *(lasts ? &changed : &rest) += bytes;
        assert_int_equal(h->next - h->off, lasts ? bytes : 0);
    }
    assert_true(changed > 0 && rest > 0);
    assert_int_equal(dt_plan_set_tier_peak(one->plans, DT_TIER_DISK), changed + rest);
    assert_int_equal(dt_plan_set_tier_peak(two->plans, DT_TIER_DISK), 2 * changed + rest);
    assert_int_equal(dt_plan_set_peak(one->plans), dt_plan_set_peak(two->plans));
    dt_session_close(one);
    dt_session_close(two);
}

/* Frozen layers have one generation, wherever they live: nothing writes them. */
static void one_generation_is_planned_of_frozen_layers(void **state)
{
    (void)state;
    dt_session *two = dt_session_planned(ini(STEPS, "freeze = c, b\n", AWAY));
    uint64_t frozen = 0;
    for (size_t i = 0; i < two->plans->map->n; i++) {
        const dt_home *h = &two->plans->map->home[i];
        if (!h->frozen)
            continue;
        assert_int_equal(h->tier, DT_TIER_DISK);
        assert_int_equal(h->next, h->off);
        frozen += h->bytes;
    }
    assert_true(frozen > 0);
    dt_session_close(two);
}

/* Nothing spoils what no step changes, so that it may live anywhere; a step run again, too. */
static void steps_are_discarded_beside_frozen_layers_in_memory(void **state)
{
    NEED_BINARY();
    static const char *const in_memory[] = {
        "generations = 2\n[memory.layers]\ne.* = home disk\nf.* = home disk\n",
        "generations = 2\npolicy = cdma\n[policy.cdma]\ndensity = 0.05\n"
        "[memory.layers]\ne.* = home disk\nf.* = home disk\n"};
    size_t n;
    char *want = right(STEPS, "freeze = c, b\nclip = 1\n", "", &n);
    for (size_t i = 0; i < DT_COUNT(in_memory); i++) {
        dt_err err = {0};
        assert_ok(
            train_here(ini(STEPS, "freeze = c, b\nclip = 1\n" EARLY, in_memory[i]), &err), &err);
        assert_weights_left(want, n);
        remove_all("out");
    }
    dt_free(want);
}

/* ---- refused ---- */

static void what_lives_in_memory_refuses_them(void **state)
{
    NEED_BINARY();
    static const struct {
        const char *train, *memory, *says;
    } cases[] = {{EARLY, "generations = 2\n", "c.weight, whose home is the device"},
        {EARLY "clip = 1\nfinite = off\n",
            "generations = 2\n[memory.layers]\n* = home disk\nf.bias.moments = home host\n",
            "f.bias.moments, whose home is the host"},
        {EARLY, "generations = 2\n[memory.layers]\n* = home disk\nb.running_mean = home device\n",
            "b.running_mean, whose home is the device"},
        {EARLY, "policy = zero_infinity\n", "memory.generations = 2"},
        {EARLY, "generations = 3\n", "generations"}};
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        dt_err err = {0};
        assert_fails(train_here(ini(STEPS, cases[i].train, cases[i].memory), &err), DT_E_CONFIG,
            &err, cases[i].says);
        assert_has(err.text, "c.ini:");
        assert_false(is_there("out"));
    }
}

/* ---- steps that fail ---- */

/* A rate at which the loss is soon none. */
static void a_step_that_is_not_finite_is_discarded(void **state)
{
    NEED_BINARY();
    static const char *const bad[] = {
        "schedule = linear\nfinal_lr = 1e6\n", "weight_decay = 1000\nclip = 1e12\nfinite = off\n"};
    for (size_t i = 0; i < DT_COUNT(bad); i++) {
        char early[160];
        size_t n;
        dt_err want = {0}, got = {0};
        snprintf(early, sizeof early, "%s" EARLY, bad[i]);
        assert_fails(train_here(ini(60, bad[i], ""), &want), DT_E_NONFINITE, &want, "discarded");
        char *before = weights_left(&n);
        remove_all("out");
        assert_fails(train_here(ini(60, early, AWAY), &got), DT_E_NONFINITE, &got, "discarded");
        assert_string_equal(got.text, want.text); /* the same step, for the same reason */
        assert_weights_left(before, n);
        dt_free(before);
        remove_all("out");
    }
}

/* Some call and all after it fail; whether any did. */
static bool call_fails(const char *train, const char *memory, bool writes, long at,
    char *const after[STEPS], const size_t n[STEPS], int met[STEPS])
{
    dt_err err = {0};
    disk_goes_bad((bad_disk){.write = writes ? DISK_FAILS : DISK_FINE,
        .read = writes ? DISK_FINE : DISK_FAILS,
        .error = at % 2 == 0 ? EIO : ENOSPC,
        .at = at});
    const dt_status st = train_here(ini(STEPS, train, memory), &err);
    int step = 0;
    const char *where = strstr(err.text, "step ");
    assert_true(st == DT_OK || st == DT_E_IO);
    if (st != DT_OK && where != NULL && sscanf(where, "step %d", &step) == 1) {
        assert_has_not(err.text, "nothing is saved");
        step--; /* whole ones before it */
        assert_true(step < STEPS);
        met[step]++;
        if (writes && step > 0) /* what cannot be read cannot be saved either */
            assert_weights_left(after[step], n[step]);
    }
    disk_is_well(NULL);
    return st != DT_OK;
}

/* Calls all over the run, so that the failure meets every program and kind of row. */
static void any_call_fails(const char *train, const char *memory)
{
    const long tries = dt_scaled(10, 10, 24);
    size_t n[STEPS] = {0};
    char *after[STEPS] = {NULL};
    dt_err err = {0};
    disk_goes_bad((bad_disk){.at = 1});
    assert_ok(train_here(ini(STEPS, train, memory), &err), &err);
    const bad_disk calls = disk_so_far();
    for (int s = 1; s < STEPS; s++)
        after[s] = right(s, train, memory, &n[s]);
    for (int writes = 0; writes < 2; writes++) {
        int met[STEPS] = {0};
        const long by = (writes == 1 ? calls.written : calls.got) / tries + 1;
        const long first = 1 + (long)(dt_test_seed() % (uint64_t)by);
        for (long at = first; call_fails(train, memory, writes == 1, at, after, n, met); at += by)
            ;
        print_message("%s fail: %d, %d and %d in the steps\n", writes == 1 ? "writes" : "reads",
            met[0], met[1], met[2]);
        assert_true(met[0] + met[1] + met[2] > 0);
        for (int s = 0; s < STEPS && dt_whole_scale();
             s++) /* which ones a sample meets is chance */
            assert_true(met[s] > 0);
    }
    for (int s = 0; s < STEPS; s++)
        dt_free(after[s]);
}

static void a_disk_that_fails_in_a_step_leaves_the_one_before(void **state)
{
    NEED_BINARY();
    any_call_fails(EARLY "clip = 1\n", AWAY);
    any_call_fails("optimizer = adamw\n", AWAY);
}

/* What comes back changed, or is not there any more, is never trained on. */
static void a_file_changed_under_the_run_is_found_out(void **state)
{
    NEED_BINARY();
    static const struct {
        disk_does how;
        const char *says, * or
            ; /* a write on its way makes what was cut off longer again, of zeros */
    } cases[] = {{DISK_FLIPS, "checksum", "checksum"}, {DISK_SPOILT, "checksum", "checksum"},
        {DISK_CUT, "ends there", "checksum"}};
    dt_err err = {0};
    disk_goes_bad((bad_disk){.at = 1});
    assert_ok(train_here(ini(STEPS, EARLY, "checksum = on\n" AWAY), &err), &err);
    const long reads = disk_so_far().got;
    remove_all("out");
    for (size_t i = 0; i < DT_COUNT(cases); i++)
        for (long at = reads / 8; at < reads; at += reads / 4) {
            err = (dt_err){0};
            disk_goes_bad((bad_disk){.read = cases[i].how, .at = at});
            const dt_status st = train_here(ini(STEPS, EARLY, "checksum = on\n" AWAY), &err);
            if (st != DT_E_IO ||
                (strstr(err.text, cases[i].says) == NULL && strstr(err.text, cases[i].or) == NULL))
                fail_msg("read %ld, way %zu: status %d: %s", at, i, (int)st, err.text);
            disk_is_well(NULL);
        }
}

/* However long a call takes, and in however many pieces it is made. */
static void a_slow_disk_and_short_transfers_leave_the_same_bits(void **state)
{
    NEED_BINARY();
    size_t n;
    char *want = right(STEPS, "clip = 1\n", "", &n);
    static const bad_disk ways[] = {
        {.write = DISK_LATE, .at = 1}, {.write = DISK_SHORT, .read = DISK_SHORT, .at = 1}};
    for (size_t i = 0; i < DT_COUNT(ways); i++) {
        dt_err err = {0};
        disk_goes_bad(ways[i]);
        assert_ok(train_here(ini(STEPS, EARLY "clip = 1\n", AWAY), &err), &err);
        assert_weights_left(want, n);
        disk_is_well(NULL);
    }
    dt_free(want);
}

static int full(int fd, off_t at, off_t n)
{
    (void)fd, (void)at, (void)n;
    return ENOSPC;
}

static void a_full_disk_is_known_before_the_first_step(void **state)
{
    NEED_BINARY();
    dt_err err = {0};
    disk_goes_bad((bad_disk){.at = 1})->fallocate = full;
    assert_fails(train_here(ini(STEPS, EARLY, AWAY), &err), DT_E_IO, &err, "free");
    assert_false(is_there("out"));
}

static void generations_of_nothing_are_told(void **state)
{
    NEED_BINARY();
    put_text("c.ini", ini(1, "", "generations = 2\n"));
    ran r = cli_run("c.ini", NULL);
    assert_code(&r, DT_OK);
    assert_has(r.err, "nothing lives there, so memory.generations = 2 changes nothing");
    cli_done(&r);
    put_text("c.ini", ini(1, "", AWAY));
    put_text("disk/none", ""); /* the folder */
    r = cli_run("c.ini", NULL);
    assert_code(&r, DT_OK);
    assert_has_not(r.err, "nothing lives there");
    cli_done(&r);
    remove_all("out");
}

#define T(f) cmocka_unit_test_teardown(f, disk_is_well)
DT_TEST_GROUP(generations)
{
    const struct CMUnitTest tests[] = {
        T(early_updates_are_clipped_to_the_same_bits),
        T(a_step_run_again_for_packed_values_leaves_the_same_bits),
        T(two_generations_are_planned_of_what_steps_change),
        T(one_generation_is_planned_of_frozen_layers),
        T(steps_are_discarded_beside_frozen_layers_in_memory),
        T(what_lives_in_memory_refuses_them),
        T(a_step_that_is_not_finite_is_discarded),
        T(a_disk_that_fails_in_a_step_leaves_the_one_before),
        T(a_file_changed_under_the_run_is_found_out),
        T(a_slow_disk_and_short_transfers_leave_the_same_bits),
        T(a_full_disk_is_known_before_the_first_step),
        T(generations_of_nothing_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
