/* Plans on a device that works on its own, played by a thread: the same bits as on the processor
 * itself, in whatever order it takes its work, with what was kept done again or not. */
#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/codec.h"
#include "tests/fixture/check.h"
#include "tests/fixture/fake_driver.h"
#include "tests/fixture/trainee.h"

enum { STEPS = 4, SEEDS = 6 };

typedef struct device {
    const dt_driver *d;
    void *self;
} device;

static device opened(uint64_t seed)
{
    device v = {.d = dt_fake_driver(&(dt_fake_opts){.seed = seed})};
    dt_err err = {0};
    assert_ok(v.d->open(3, &v.self, &err), &err);
    assert_ok(v.d->events(v.self, 4, &err), &err);
    return v;
}

/* Queue 1 copies a to b when queue 2 has filled a; queue 0 copies b to c after that. */
static void put_chain(const device *v, char *a, char *b, char *c, bool wait)
{
    dt_err err = {0};
    assert_ok(v->d->fill(v->self, 2, a, 'x', 8, &err), &err);
    assert_ok(v->d->signal(v->self, 2, 0, &err), &err);
    if (wait)
        assert_ok(v->d->wait(v->self, 1, 0, &err), &err);
    assert_ok(v->d->copy(v->self, 1, b, a, 8, &err), &err);
    assert_ok(v->d->signal(v->self, 1, 1, &err), &err);
    assert_ok(v->d->wait(v->self, 0, 1, &err), &err);
    assert_ok(v->d->copy(v->self, 0, c, b, 8, &err), &err);
}

static void queues_obey_events_and_nothing_else(void **state)
{
    (void)state;
    dt_err err = {0};
    int early = 0;
    for (uint64_t seed = 0; seed < 40; seed++)
        for (int wait = 0; wait < 2; wait++) {
            char a[8] = "", b[8] = "", c[8] = "";
            device v = opened(seed);
            put_chain(&v, a, b, c, wait == 1);
            assert_ok(v.d->finish(v.self, &err), &err);
            assert_memory_equal(a, "xxxxxxxx", 8);
            if (wait == 1)
                assert_memory_equal(c, "xxxxxxxx", 8);
            early += wait == 0 && c[0] != 'x';
            v.d->close(v.self);
        }
    assert_in_range(early, 5, 39); /* without the wait it goes either way */
}

static void what_was_kept_is_done_again_between_what_is_around_it(void **state)
{
    (void)state;
    dt_err err = {0};
    for (uint64_t seed = 0; seed < 20; seed++) {
        char a[8] = "", b[8] = "", c[8] = "", d[8] = "";
        device v = opened(seed);
        void *kept;
        assert_ok(v.d->record(v.self, &err), &err);
        put_chain(&v, a, b, c, true);
        assert_ok(v.d->recorded(v.self, &kept, &err), &err);
        assert_ok(v.d->finish(v.self, &err), &err);
        assert_int_equal(c[0], 0); /* recording does nothing */
        for (int again = 0; again < 3; again++) {
            assert_ok(v.d->fill(v.self, 0, c, 'y', 8, &err), &err);
            assert_ok(v.d->replay(v.self, kept, &err), &err);
            assert_ok(v.d->copy(v.self, 0, d, c, 8, &err), &err);
            assert_ok(v.d->finish(v.self, &err), &err);
            assert_memory_equal(d, "xxxxxxxx", 8);
        }
        v.d->forget(v.self, kept);
        v.d->close(v.self);
    }
}

static void what_is_kept_cannot_wait_for_what_is_not(void **state)
{
    (void)state;
    device v = opened(1);
    dt_err err = {0};
    void *kept;
    assert_ok(v.d->signal(v.self, 1, 2, &err), &err);
    assert_ok(v.d->record(v.self, &err), &err);
    assert_int_equal(v.d->wait(v.self, 0, 2, &err), DT_E_INTERNAL);
    assert_ok(v.d->recorded(v.self, &kept, &err), &err);
    v.d->forget(v.self, kept);
    v.d->close(v.self);
}

static const dt_trainee_opts ways[] = {
    {.policies = "keep_all"},
    {.policies = "vdnn_all"},
    {.policies = "chen_sqrt"},
    {.policies = "vdnn_conv"},
    {.policies = "keep_all", .tight = true},
    {.policies = "keep_all", .tight = true, .tier = DT_TIER_DISK},
};

static unsigned char *right_bits(dt_graph *(*net)(void), const dt_trainee_opts *way)
{
    dt_trainee t = dt_trainee_open(net(), way);
    unsigned char *right = dt_trainee_train(&t, STEPS);
    dt_trainee_close(&t);
    return right;
}

static void compare(dt_graph *(*net)(void), dt_trainee_opts way, const unsigned char *right)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        char what[96];
        way.replay = seed % 2 == 0;
        way.driver = dt_fake_driver(&(dt_fake_opts){.seed = seed});
        dt_trainee t = dt_trainee_open(net(), &way);
        unsigned char *got = dt_trainee_train(&t, STEPS);
        const dt_fake_counts seen = dt_fake_count();
        snprintf(what, sizeof what, "%s, seed %d%s", way.policies, (int)seed,
            way.tier == DT_TIER_DISK ? ", disk" : "");
        dt_trainee_same(&t, right, got, what);
        assert_int_equal(way.replay, seen.recorded > 0);
        assert_int_equal(way.replay, seen.replayed > 0);
        dt_free(got);
        dt_trainee_close(&t);
        assert_int_equal(dt_fake_count().live, 0);
    }
}

static void the_bits_are_those_of_the_processor(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(ways); i++) {
        unsigned char *right = right_bits(dt_trainee_plain, &ways[i]);
        compare(dt_trainee_plain, ways[i], right);
        dt_free(right);
    }
    unsigned char *right = right_bits(dt_trainee_resnet, &ways[1]);
    compare(dt_trainee_resnet, ways[1], right);
    dt_free(right);
}

static void packed_moves_too(void **state)
{
    (void)state;
    dt_trainee_opts way = {.policies = "keep_all", .tight = true, .density = 1};
    way.codec = dti_codec_find("zvc");
    assert_non_null(way.codec);
    for (int disk = 0; disk < 2; disk++) {
        way.tier = disk == 1 ? DT_TIER_DISK : DT_TIER_HOST;
        way.driver = NULL;
        unsigned char *right = right_bits(dt_trainee_plain, &way);
        compare(dt_trainee_plain, way, right);
        dt_free(right);
    }
}

static void what_does_not_fit_is_told_after_the_run(void **state)
{
    (void)state;
    dt_trainee_opts way = {.policies = "keep_all", .tight = true, .density = 0.01};
    way.codec = dti_codec_find("zvc");
    for (uint64_t seed = 1; seed <= 4; seed++) {
        way.driver = dt_fake_driver(&(dt_fake_opts){.seed = seed});
        way.replay = seed % 2 == 0;
        dt_trainee t = dt_trainee_open(dt_trainee_plain(), &way);
        dt_err err = {0};
        for (int run = 0; run < 3; run++) {
            assert_ok(dt_trainee_run(&t, DT_PROGRAM_FIRST, &err), &err);
            assert_true(dti_runner_overflowed(t.runner));
        }
        assert_ok(dt_trainee_run(&t, DT_PROGRAM_UPDATE, &err), &err);
        assert_false(dti_runner_overflowed(t.runner));
        dt_trainee_close(&t);
    }
}

static void the_planned_peak_is_the_measured_one(void **state)
{
    (void)state;
    dt_trainee_opts way = ways[1];
    way.driver = dt_fake_driver(&(dt_fake_opts){.seed = 3});
    dt_trainee t = dt_trainee_open(dt_trainee_plain(), &way);
    dt_err err = {0};
    dt_measure m;
    const dt_run_args a = dt_trainee_args(&t, 0, 0);
    assert_ok(dt_runner_check(t.runner, t.id[DT_PROGRAM_FIRST], &a, &m, &err), &err);
    assert_int_equal(m.peak, t.plan[DT_PROGRAM_FIRST]->peak);
    dt_trainee_close(&t);
}

/* A WAIT before a copy out: to take it out sends bytes away before they are there. */
static void drop_wait(dt_plan *p, void *arg)
{
    const int *n = arg;
    int left = *n;
    for (size_t i = 0; i < p->n_row; i++)
        if (p->row[i].kind == DT_ROW_WAIT && p->stream[p->row[i].stream].kind == DT_STREAM_OUT &&
            left-- == 0) {
            memmove(&p->row[i], &p->row[i + 1], (p->n_row - i - 1) * sizeof *p->row);
            p->n_row--;
            return;
        }
    fail_msg("no such wait");
}

static void a_wait_that_is_missing_is_noticed(void **state)
{
    (void)state;
    unsigned char *right = right_bits(dt_trainee_plain, &ways[4]);
    for (int n = 0; n < 3; n++) {
        bool noticed = false;
        for (uint64_t seed = 1; seed <= 60 && !noticed; seed++) {
            dt_trainee_opts way = ways[4];
            way.driver = dt_fake_driver(&(dt_fake_opts){.seed = seed});
            way.edit = drop_wait;
            way.arg = &n;
            dt_trainee t = dt_trainee_open(dt_trainee_plain(), &way);
            unsigned char *got = dt_trainee_train(&t, STEPS);
            noticed = !dt_trainee_same(&t, right, got, NULL);
            dt_free(got);
            dt_trainee_close(&t);
        }
        assert_true(noticed);
    }
    dt_free(right);
}

/* Every call of a run fails in turn: that run says so, and the state is as it was. Only a failure
 * of keeping is none of the run's. */
static void a_failing_call_ends_the_run_and_nothing_else(void **state)
{
    (void)state;
    dt_trainee_opts way = ways[5];
    way.replay = true;
    int ended = 0, went_on = 0;
    const long apart = dt_scaled(14, 14, 7);
    for (long k = 1 + (long)(dt_test_seed() % 7), calls = k; k <= calls; k += apart) {
        dt_fake_opts o = {.seed = (uint64_t)k};
        way.driver = dt_fake_driver(&o);
        dt_trainee t = dt_trainee_open(dt_trainee_plain(), &way);
        dt_err err = {0};
        o.fail_at = k;
        dt_fake_driver(&o);
        dt_status st = DT_OK;
        for (int64_t step = 0; step < 3 && st == DT_OK; step++)
            st = dt_trainee_step(&t, step, &err);
        calls = st == DT_OK ? dt_fake_count().calls : k + apart;
        if (st != DT_OK)
            assert_int_equal(st, DT_E_DEVICE);
        else if (k <= calls)
            assert_non_null(dt_runner_not_kept(t.runner));
        ended += st != DT_OK;
        went_on += st == DT_OK && k <= calls;
        dt_trainee_close(&t);
    }
    assert_true(ended > 210 / apart && went_on > 35 / apart);
}

/* As where something on the queues cannot be captured. */
static void what_cannot_be_kept_is_launched_plainly(void **state)
{
    (void)state;
    unsigned char *right = right_bits(dt_trainee_plain, &ways[1]);
    for (int refuses = 0; refuses < 2; refuses++) {
        dt_trainee_opts way = ways[1];
        way.replay = true;
        way.driver = dt_fake_driver(&(dt_fake_opts){.seed = 9, .keeps_nothing = refuses == 1});
        dt_trainee t = dt_trainee_open(dt_trainee_plain(), &way);
        unsigned char *got = dt_trainee_train(&t, STEPS);
        dt_trainee_same(&t, right, got, "launched plainly");
        if (refuses == 1)
            assert_non_null(strstr(dt_runner_not_kept(t.runner), "recorded"));
        else
            assert_null(dt_runner_not_kept(t.runner));
        assert_int_equal(dt_fake_count().replayed > 0, refuses == 0);
        assert_in_range(dt_fake_count().recorded, 1, 40); /* and not tried again in every run */
        dt_free(got);
        dt_trainee_close(&t);
    }
    dt_free(right);
}

static void who_made_a_nan_is_found_there_too(void **state)
{
    (void)state;
    dt_trainee_opts way = ways[1];
    way.driver = dt_fake_driver(&(dt_fake_opts){.seed = 5});
    dt_trainee t = dt_trainee_open(dt_trainee_plain(), &way);
    dt_err err = {0};
    double norm;
    int32_t bad;
    t.x[5] = NAN;
    dti_runner_blame(t.runner, true);
    assert_ok(dt_trainee_run(&t, DT_PROGRAM_FIRST, &err), &err);
    dti_runner_blame(t.runner, false);
    assert_non_null(dti_runner_blamed(t.runner));
    assert_non_null(strstr(dti_runner_blamed(t.runner), "layer 'conv1'"));
    assert_ok(dti_runner_norm(t.runner, DT_DP, &norm, &bad, &err), &err);
    assert_true(bad >= 0 && !(norm >= 0));
    dt_trainee_close(&t);
}

DT_TEST_GROUP(driver)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queues_obey_events_and_nothing_else),
        cmocka_unit_test(what_was_kept_is_done_again_between_what_is_around_it),
        cmocka_unit_test(what_is_kept_cannot_wait_for_what_is_not),
        cmocka_unit_test(the_bits_are_those_of_the_processor),
        cmocka_unit_test(packed_moves_too),
        cmocka_unit_test(what_does_not_fit_is_told_after_the_run),
        cmocka_unit_test(the_planned_peak_is_the_measured_one),
        cmocka_unit_test(a_wait_that_is_missing_is_noticed),
        cmocka_unit_test(a_failing_call_ends_the_run_and_nothing_else),
        cmocka_unit_test(what_cannot_be_kept_is_launched_plainly),
        cmocka_unit_test(who_made_a_nan_is_found_there_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
