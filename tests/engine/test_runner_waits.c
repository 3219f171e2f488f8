/* Order comes from events and from nothing else: with a WAIT taken out of a plan, some delay of the
 * streams gives other bits; with all of them in, none does. */
#include <inttypes.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "tests/fixture/check.h"
#include "tests/fixture/sanitizer.h"
#include "tests/fixture/trainee.h"

enum { SEEDS = 40 };

/* The row that signals an event. */
static const dt_row *signal_of(const dt_plan *p, int32_t event)
{
    for (size_t i = 0; i < p->n_row; i++)
        if (p->row[i].event == event && p->row[i].kind != DT_ROW_WAIT)
            return &p->row[i];
    fail_msg("nobody signals event %" PRId32, event);
    return NULL;
}

/* A WAIT before a copy out, or for floats from the host or on their way there: to take it out makes
 * wrong numbers, but no wrong labels, which index. */
static bool may_go(const dt_plan *p, const dt_row *r)
{
    return r->kind == DT_ROW_WAIT &&
           (p->stream[r->stream].kind == DT_STREAM_OUT ||
               (r->stream == DT_MAIN_STREAM && signal_of(p, r->event)->tier == DT_TIER_HOST));
}

/* Take out the n-th of them, counted from 0; none for -1. */
typedef struct dropped {
    int n;
    bool found;
} dropped;

static void drop(dt_plan *p, void *arg)
{
    dropped *d = arg;
    int n = d->n;
    for (size_t i = 0; i < p->n_row && !d->found; i++)
        if (may_go(p, &p->row[i]) && n-- == 0) {
            memmove(&p->row[i], &p->row[i + 1], (p->n_row - i - 1) * sizeof *p->row);
            p->n_row--;
            d->found = true;
        }
}

/* The first seed with other bits after one run; 0: none. */
static uint64_t noticed(dropped *d, const unsigned char *right, uint64_t seeds)
{
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        d->found = false;
        const dt_trainee_opts o = {.policies = "keep_all",
            .tight = true,
            .copy_threads = true,
            .delay_seed = seed,
            .edit = drop,
            .arg = d};
        dt_trainee t = dt_trainee_open(dt_trainee_plain(), &o);
        dt_err err = {0};
        assert_ok(dt_trainee_run(&t, DT_PROGRAM_FIRST, &err), &err);
        const bool same = dt_trainee_same(&t, right, dt_runner_home(t.runner, 0), NULL);
        dt_trainee_close(&t);
        if (!same)
            return seed;
        if (d->n >= 0 && !d->found)
            break; /* there are no more */
    }
    return 0;
}

static unsigned char *right_bits(void)
{
    const dt_trainee_opts o = {.policies = "keep_all"};
    dt_trainee t = dt_trainee_open(dt_trainee_plain(), &o);
    dt_err err = {0};
    assert_ok(dt_trainee_run(&t, DT_PROGRAM_FIRST, &err), &err);
    unsigned char *right = dt_alloc(t.map->bytes, 1);
    assert_non_null(right);
    memcpy(right, dt_runner_home(t.runner, 0), t.map->bytes);
    dt_trainee_close(&t);
    return right;
}

static void a_wait_that_is_missing_is_noticed(void **state)
{
    (void)state;
#if DT_THREAD_SANITIZER
    skip(); /* it would notice by itself, and end the program */
#endif
    unsigned char *right = right_bits();
    dropped d = {.n = -1};
    int seen = 0, all = 0;
    assert_int_equal(noticed(&d, right, SEEDS), 0);
    const int step = dt_scaled(2, 2, 1);
    for (d.n = (int)(dt_test_seed() % (uint64_t)step);; d.n += step) {
        const uint64_t seed = noticed(&d, right, SEEDS);
        if (!d.found)
            break;
        all++;
        seen += seed > 0;
    }
    print_message("%d of %d waits are missed within %d seeds\n", seen, all, SEEDS);
    assert_true(all >= 10 / step);
    assert_true(4 * seen >= all); /* bytes that nobody takes soon forgive */
    dt_free(right);
}

DT_TEST_GROUP(runner_waits)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_that_is_missing_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
