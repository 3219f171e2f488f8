/* A tier that fails, at any of its calls and on any thread: the run ends with an error that says
 * what was being moved, what is learnt is untouched, and the next run is right. */
#include <inttypes.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/codec.h"
#include "tests/fixture/check.h"
#include "tests/fixture/fake_tier.h"
#include "tests/fixture/trainee.h"

enum { STEPS = 2 };

static const struct way {
    const char *name;
    dt_trainee_opts o;
} ways[] = {
    {"inline", {.tier = DT_TIER_HOST, .desc = &dt_fake_tier}},
    {"threads", {.tier = DT_TIER_HOST, .desc = &dt_fake_tier, .copy_threads = true}},
    {"disk", {.tier = DT_TIER_DISK, .desc = &dt_fake_tier}},
    {"disk, late", {.tier = DT_TIER_DISK, .desc = &dt_fake_tier, .delay_seed = 5}},
};

/* The n-th copy of a plan, counted from 1; NULL when there are fewer. */
static const dt_row *copy_row(const dt_plan *p, dt_row_kind kind, dt_tier tier, long n)
{
    for (size_t i = 0; i < p->n_row; i++)
        if (p->row[i].kind == kind && p->row[i].tier == tier && --n == 0)
            return &p->row[i];
    return NULL;
}

static unsigned char *state_of(const dt_trainee *t)
{
    unsigned char *state = dt_alloc(t->map->bytes, 1);
    assert_non_null(state);
    return memcpy(state, dt_runner_home(t->runner, 0), t->map->bytes);
}

/* Parameters, running statistics and optimizer state. */
static void assert_nothing_is_lost(dt_trainee *t, const unsigned char *before)
{
    for (size_t i = 0; i < t->map->n; i++) {
        const dt_home *h = &t->map->home[i];
        if (h->port == DT_P || h->port == DT_M)
            assert_memory_equal(dt_runner_home(t->runner, (int32_t)i), before + h->off, h->bytes);
    }
}

static void arm(dt_row_kind kind, long n)
{
    dt_fake_state.fail_write = kind == DT_ROW_COPY_OUT ? dt_fake_state.writes + n : 0;
    dt_fake_state.fail_read = kind == DT_ROW_COPY_IN ? dt_fake_state.reads + n : 0;
}

static void disarm(void)
{
    dt_fake_state.fail_write = dt_fake_state.fail_read = dt_fake_state.spoil_read = 0;
}

static void assert_names_the_copy(const dt_plan *p, const dt_row *row, const dt_err *err)
{
    char text[256];
    snprintf(text, sizeof text, "copy %s %s the %s tier: slot at byte %" PRIu64 ", %" PRIu64,
        p->tensor[row->tensor].name, row->kind == DT_ROW_COPY_OUT ? "out to" : "in from",
        dt_tier_name(row->tier), row->slot, row->stored);
    if (strstr(err->text, text) == NULL)
        fail_msg("'%s' is not in\n%s", text, err->text);
}

/* Each copy of one kind fails in its turn. Returns how many there are. */
static long fail_each(dt_trainee *t, dt_row_kind kind, dt_tier tier)
{
    const dt_plan *p = t->plan[DT_PROGRAM_FIRST];
    dt_err err = {0};
    unsigned char *before = state_of(t);
    assert_ok(dt_trainee_run(t, DT_PROGRAM_FIRST, &err), &err);
    unsigned char *right = state_of(t);
    long n = 1;
    for (const dt_row *row; (row = copy_row(p, kind, tier, n)) != NULL; n++) {
        err = (dt_err){0};
        arm(kind, n);
        assert_fails(dt_trainee_run(t, DT_PROGRAM_FIRST, &err), DT_E_IO, &err, "the fake tier is ");
        disarm();
        assert_names_the_copy(p, row, &err);
        assert_int_equal(err.n, 2);
        assert_nothing_is_lost(t, before);
        err = (dt_err){0};
        assert_ok(dt_trainee_run(t, DT_PROGRAM_FIRST, &err), &err);
        dt_trainee_same(t, right, dt_runner_home(t->runner, 0), "the run after a failure");
    }
    dt_free(before);
    dt_free(right);
    return n - 1;
}

static void any_write_or_read_may_fail(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(ways); i++) {
        dt_trainee t = dt_trainee_open(dt_trainee_plain(), &ways[i].o);
        const long out = fail_each(&t, DT_ROW_COPY_OUT, ways[i].o.tier);
        const long in = fail_each(&t, DT_ROW_COPY_IN, ways[i].o.tier);
        assert_true(out >= 5 && in == out);
        dt_trainee_close(&t);
    }
}

/* After failures in the middle of a training run that is carried on, it ends as one without. */
static void a_failed_run_can_be_run_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(ways); i++) {
        dt_trainee t = dt_trainee_open(dt_trainee_plain(), &ways[i].o);
        unsigned char *right = dt_trainee_train(&t, STEPS);
        dt_err err = {0};
        assert_ok(dt_runner_init(t.runner, &err), &err);
        for (int64_t step = 0; step < STEPS; step++) {
            err = (dt_err){0};
            arm(step % 2 == 0 ? DT_ROW_COPY_OUT : DT_ROW_COPY_IN, 2 + step);
            assert_int_equal(dt_trainee_step(&t, step, &err), DT_E_IO);
            disarm();
            err = (dt_err){0};
            assert_ok(dt_trainee_step(&t, step, &err), &err);
        }
        dt_trainee_same(&t, right, dt_runner_home(t.runner, 0), ways[i].name);
        dt_free(right);
        dt_trainee_close(&t);
    }
}

static void bytes_that_no_codec_wrote_are_an_error(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(ways); i++) {
        dt_trainee_opts o = ways[i].o;
        o.codec = dti_codec_find("zvc");
        o.density = 1;
        dt_trainee t = dt_trainee_open(dt_trainee_plain(), &o);
        const dt_plan *p = t.plan[DT_PROGRAM_FIRST];
        dt_err err = {0};
        for (long n = 1; n <= 3; n++) {
            const dt_row *row = copy_row(p, DT_ROW_COPY_IN, o.tier, n);
            char text[192];
            assert_non_null(row);
            if (row->codec == 0)
                continue;
            snprintf(text, sizeof text, "copy %s in from", p->tensor[row->tensor].name);
            err = (dt_err){0};
            dt_fake_state.spoil_read = dt_fake_state.reads + n;
            assert_fails(dt_trainee_run(&t, DT_PROGRAM_FIRST, &err), DT_E_DATA, &err, text);
            disarm();
            err = (dt_err){0};
            assert_ok(dt_trainee_run(&t, DT_PROGRAM_FIRST, &err), &err);
        }
        dt_trainee_close(&t);
    }
}

DT_TEST_GROUP(runner_faults)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_write_or_read_may_fail),
        cmocka_unit_test(a_failed_run_can_be_run_again),
        cmocka_unit_test(bytes_that_no_codec_wrote_are_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
