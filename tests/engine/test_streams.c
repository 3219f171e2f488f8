/* Streams: events order what threads do; a failure wakes everybody and is told once; the next run
 * knows nothing of it. */
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "engine/base/alloc.h"
#include "engine/runner/streams.h"
#include "tests/fixture/check.h"

enum { STREAMS = 4, ROUNDS = 300, ALL = 1 << 1 | 1 << 2 | 1 << 3 };
static const int team[DT_MAX_STREAMS] = {0, 1, 1, 1};

typedef struct work {
    dt_streams *s;
    int order[ROUNDS * STREAMS]; /* who was when; events order the writes */
    int n, fails;                /* the stream that fails in the middle; -1 */
    atomic_int began;            /* bodies */
} work;

/* Streams in turn, each waiting for the one before it. */
static dt_status in_turn(void *arg, int stream, dt_err *err)
{
    work *w = arg;
    atomic_fetch_add(&w->began, 1);
    for (int i = 0; i < ROUNDS; i++) {
        const int32_t turn = i * STREAMS + stream;
        if (turn > 0)
            dti_stream_wait(w->s, stream, turn - 1);
        if (dti_streams_stopped(w->s))
            return DT_OK;
        if (w->fails == stream && i == ROUNDS / 2)
            return DT_FAIL(err, DT_E_IO, "stream %d has had enough", stream);
        w->order[w->n++] = turn;
        dti_stream_signal(w->s, turn);
    }
    return DT_OK;
}

static work open_work(void)
{
    work w = {.fails = -1};
    dt_err err = {0};
    assert_ok(dti_streams_create(&w.s, team, &err), &err);
    assert_ok(dti_streams_events(w.s, ROUNDS * STREAMS, &err), &err);
    return w;
}

static void runs_in_turn(work *w)
{
    dt_err err = {0};
    w->n = 0;
    w->fails = -1;
    assert_ok(dti_streams_run(w->s, ALL, in_turn, w, &err), &err);
    assert_int_equal(w->n, ROUNDS * STREAMS);
    for (int i = 0; i < w->n; i++)
        assert_int_equal(w->order[i], i);
}

static void events_order_what_threads_do(void **state)
{
    (void)state;
    work w = open_work();
    for (int i = 0; i < 20; i++)
        runs_in_turn(&w);
    assert_int_equal(dti_streams_runs(w.s), 20);
    dti_streams_destroy(w.s);
}

static void a_failure_of_any_stream_ends_the_run_and_only_that(void **state)
{
    (void)state;
    work w = open_work();
    for (int fails = 0; fails < STREAMS; fails++) {
        char text[64];
        dt_err err = {0};
        w.n = 0;
        w.fails = fails;
        snprintf(text, sizeof text, "stream %d has had enough", fails);
        assert_fails(dti_streams_run(w.s, ALL, in_turn, &w, &err), DT_E_IO, &err, text);
        assert_int_equal(err.n, 1);
        assert_int_equal(w.n, ROUNDS / 2 * STREAMS + fails);
        w.n = 0;
        assert_int_equal(
            dti_streams_run(w.s, ALL, in_turn, &w, NULL), DT_E_IO); /* no one to tell */
        runs_in_turn(&w);
    }
    dti_streams_destroy(w.s);
}

/* All of them fail at once. */
static dt_status all_fail(void *arg, int stream, dt_err *err)
{
    (void)arg;
    return DT_FAIL(err, DT_E_DATA, "stream %d", stream);
}

/* Stream 2 fails, and the rest because of that. */
static dt_status fail_in_turn(void *arg, int stream, dt_err *err)
{
    if (stream == 2)
        return DT_FAIL(err, DT_E_IO, "the cause");
    dti_stream_wait(((work *)arg)->s, stream, 0);
    return DT_FAIL(err, DT_E_DATA, "an effect");
}

static void the_first_failure_is_told(void **state)
{
    (void)state;
    work w = open_work();
    for (int i = 0; i < 100; i++) {
        dt_err err = {0};
        assert_fails(dti_streams_run(w.s, ALL, fail_in_turn, &w, &err), DT_E_IO, &err, "the cause");
        assert_int_equal(err.n, 1);
    }
    for (int i = 0; i < 100; i++) {
        dt_err err = {0};
        assert_fails(dti_streams_run(w.s, ALL, all_fail, &w, &err), DT_E_DATA, &err, "stream ");
        assert_int_equal(err.n, 1);
    }
    dti_streams_destroy(w.s);
}

static dt_status count(void *arg, int stream, dt_err *err)
{
    (void)err;
    atomic_fetch_add(&((work *)arg)->began, 1 << 8 * stream);
    return DT_OK;
}

static void only_streams_that_are_asked_take_part(void **state)
{
    (void)state;
    work w = open_work();
    dt_err err = {0};
    assert_true(dti_streams_threaded(w.s, 2) && !dti_streams_threaded(w.s, 0));
    assert_false(dti_streams_threaded(w.s, 5));
    assert_ok(dti_streams_run(w.s, 1 << 2, count, &w, &err), &err);
    assert_int_equal(atomic_load(&w.began), 1 << 16 | 1);
    assert_ok(dti_streams_run(w.s, 0, count, &w, &err), &err);
    assert_int_equal(atomic_load(&w.began), 1 << 16 | 2);
    dti_streams_destroy(w.s);
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

static dt_status late(void *arg, int stream, dt_err *err)
{
    (void)err;
    dt_streams *s = ((work *)arg)->s;
    if (stream == 1) {
        nap();
        dti_stream_signal(s, 0);
    } else if (stream == 2) {
        dti_stream_wait(s, stream, 0); /* not the caller's loss */
        nap();
    } else if (((work *)arg)->fails < 0) {
        dti_stream_wait(s, stream, 0);
    }
    return DT_OK;
}

static void the_caller_s_waiting_is_counted(void **state)
{
    (void)state;
    work w = open_work();
    dt_err err = {0};
    assert_ok(dti_streams_run(w.s, 1 << 1, late, &w, &err), &err);
    assert_true(dti_streams_stalled(w.s) > 0.01 && dti_streams_stalled(w.s) < 10);
    dti_streams_forget(w.s);
    assert_ok(dti_streams_run(w.s, 0, count, &w, &err), &err);
    assert_true(dti_streams_stalled(w.s) == 0);
    w.fails = 0; /* it waits at the end only */
    assert_ok(dti_streams_run(w.s, 1 << 1 | 1 << 2, late, &w, &err), &err);
    assert_true(dti_streams_stalled(w.s) > 0.02 && dti_streams_stalled(w.s) < 10);
    dti_streams_destroy(w.s);
}

static void lack_of_memory_is_told_and_nothing_is_left(void **state)
{
    (void)state;
    const long live = dti_alloc_live();
    dt_streams *s;
    dt_err err = {0};
    dti_alloc_fail_at(1);
    assert_fails(dti_streams_create(&s, team, &err), DT_E_NOMEM, &err, "no memory");
    assert_null(s);
    dti_streams_destroy(s);
    err = (dt_err){0};
    assert_ok(dti_streams_create(&s, team, &err), &err);
    dti_alloc_fail_at(1);
    assert_fails(dti_streams_events(s, 10, &err), DT_E_NOMEM, &err, "no memory");
    dti_streams_destroy(s);
    assert_int_equal(dti_alloc_live(), live);
}

DT_TEST_GROUP(streams)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_order_what_threads_do),
        cmocka_unit_test(a_failure_of_any_stream_ends_the_run_and_only_that),
        cmocka_unit_test(the_first_failure_is_told),
        cmocka_unit_test(only_streams_that_are_asked_take_part),
        cmocka_unit_test(the_caller_s_waiting_is_counted),
        cmocka_unit_test(lack_of_memory_is_told_and_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
