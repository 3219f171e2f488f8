/* A trace tells every row of a plan that is executed, once and in the plan's order, with times that
 * obey the streams and what they wait for, from whatever device; and changes no bit. */
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/clock.h"
#include "tests/fixture/check.h"
#include "tests/fixture/fake_driver.h"
#include "tests/fixture/trainee.h"

enum { STEPS = 3, MOST = 1 << 14 };
#define NOTHING 1e-7 /* what adding to a clock's seconds may round */

static const struct {
    const char *name;
    dt_trainee_opts o;
    bool fake;
} ways[] = {
    {"inline", {.policies = "vdnn_all"}, false},
    {"copy threads", {.policies = "keep_all", .tight = true, .copy_threads = true}, false},
    {"disk", {.policies = "keep_all", .tight = true, .tier = DT_TIER_DISK}, false},
    {"late", {.policies = "vdnn_all", .copy_threads = true, .delay_seed = 3}, false},
    {"fake", {.policies = "vdnn_all", .replay = true}, true},
    {"fake, disk", {.policies = "keep_all", .tight = true, .tier = DT_TIER_DISK}, true},
};

typedef struct heard {
    dt_trace_row row[MOST];
    size_t n;
} heard;

static void hear(void *self, const dt_trace_row *row)
{
    heard *h = self;
    assert_true(h->n < MOST);
    h->row[h->n++] = *row;
}

static bool is_work(const dt_row *r)
{
    return r->kind == DT_ROW_COMPUTE || r->kind == DT_ROW_COPY_OUT || r->kind == DT_ROW_COPY_IN;
}

/* Those of one run stand at @of: the plan's rows, all of them and no other. */
static size_t rows_are_the_plans(const dt_plan *p, const dt_trace_row *of)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_row; i++) {
        const dt_row *r = &p->row[i];
        if (!is_work(r))
            continue;
        const dt_trace_row *t = &of[n++];
        assert_int_equal(t->row, i);
        assert_int_equal(t->kind, r->kind);
        assert_int_equal(t->stream, r->stream);
        assert_int_equal(t->op, r->op);
        assert_string_equal(t->name, r->op >= 0 ? p->op[r->op].name : p->tensor[r->tensor].name);
        if (r->op < 0)
            assert_int_equal(t->bytes, r->bytes);
        assert_true(t->end >= t->begin && t->begin > 0);
    }
    return n;
}

/* Rows of one worker are done one after the other, so those of a stream are, too. */
static void workers_do_one_thing_at_a_time(const dt_trace_row *row, size_t n, const char *what)
{
    double until[DT_MAX_STREAMS] = {0}, of_stream[DT_MAX_STREAMS] = {0};
    for (size_t i = 0; i < n; i++) {
        const dt_trace_row *t = &row[i];
        if (!(t->begin >= until[t->worker] - NOTHING && t->begin >= of_stream[t->stream] - NOTHING))
            fail_msg("%s: %s begins before what is before it has ended", what, t->name);
        until[t->worker] = of_stream[t->stream] = t->end;
    }
}

static const dt_trace_row *of_row(const dt_trace_row *row, size_t n, size_t i)
{
    for (size_t k = 0; k < n; k++)
        if (row[k].row == (int32_t)i)
            return &row[k];
    fail_msg("no row %zu", i);
    return NULL;
}

/* What is behind a WAIT begins after what signals its event has ended. Returns the waits. */
static int waits_are_respected(
    const dt_plan *p, const dt_trace_row *row, size_t n, const char *what)
{
    double signalled[1 << 12] = {0}, after[DT_MAX_STREAMS] = {0};
    int waits = 0;
    assert_true(p->n_event <= (int32_t)DT_COUNT(signalled));
    for (size_t i = 0; i < p->n_row; i++) {
        const dt_row *r = &p->row[i];
        if (r->kind == DT_ROW_WAIT) {
            assert_true(signalled[r->event] > 0);
            after[r->stream] =
                signalled[r->event] > after[r->stream] ? signalled[r->event] : after[r->stream];
            waits++;
        }
        if (!is_work(r))
            continue;
        const dt_trace_row *t = of_row(row, n, i);
        if (!(t->begin >= after[r->stream] - NOTHING))
            fail_msg("%s: %s begins before what it waits for has ended", what, t->name);
        if (r->event >= 0)
            signalled[r->event] = t->end;
    }
    return waits;
}

static int kind_of(const dt_trainee *t, int plan)
{
    for (int k = 0; k < DT_PROGRAM_KINDS; k++)
        if (t->id[k] == plan)
            return k;
    fail_msg("no plan %d", plan);
    return -1;
}

static void every_row_is_told_in_its_time(void **state)
{
    (void)state;
    heard *h = dt_alloc(1, sizeof *h);
    assert_non_null(h);
    for (size_t i = 0; i < DT_COUNT(ways); i++) {
        dt_trainee_opts o = ways[i].o;
        dt_err err = {0};
        dt_trainee plain = dt_trainee_open(dt_trainee_plain(), &o);
        unsigned char *right = dt_trainee_train(&plain, STEPS);
        if (ways[i].fake)
            o.driver = dt_fake_driver(&(dt_fake_opts){.seed = 4 + i});
        dt_trainee t = dt_trainee_open(dt_trainee_plain(), &o);
        const dt_trace trace = {h, hear};
        h->n = 0;
        assert_ok(dt_runner_set_trace(t.runner, &trace, &err), &err);
        const double began = dt_seconds();
        unsigned char *got = dt_trainee_train(&t, STEPS);
        const double ended = dt_seconds();
        dt_trainee_same(&t, right, got, ways[i].name);
        int runs = 0, waits = 0;
        for (size_t at = 0; at < h->n; runs++) {
            const dt_plan *p = t.plan[kind_of(&t, h->row[at].plan)];
            assert_int_equal(h->row[at].step, runs / 3);
            const size_t n = rows_are_the_plans(p, &h->row[at]);
            waits += waits_are_respected(p, &h->row[at], n, ways[i].name);
            at += n;
        }
        assert_int_equal(runs, 3 * STEPS); /* first, again, update */
        assert_true(waits > STEPS);
        workers_do_one_thing_at_a_time(h->row, h->n, ways[i].name);
        assert_true(h->row[0].begin >= began - NOTHING && h->row[h->n - 1].end <= ended + NOTHING);
        const size_t before = h->n;
        assert_ok(dt_runner_set_trace(t.runner, NULL, &err), &err);
        assert_ok(dt_trainee_step(&t, STEPS, &err), &err);
        assert_int_equal(h->n, before);
        dt_free(right);
        dt_free(got);
        dt_trainee_close(&plain);
        dt_trainee_close(&t);
    }
    dt_free(h);
}

/* A run that fails tells nothing, and no memory is no trace. */
static void a_trace_may_be_refused(void **state)
{
    (void)state;
    dt_trainee t = dt_trainee_open(dt_trainee_plain(), &ways[0].o);
    const dt_trace trace = {NULL, hear};
    dt_err err = {0};
    dti_alloc_fail_at(1);
    assert_fails(dt_runner_set_trace(t.runner, &trace, &err), DT_E_NOMEM, &err, "no memory");
    dti_alloc_fail_at(0);
    err = (dt_err){0};
    assert_ok(dt_trainee_step(&t, 0, &err), &err);
    dt_trainee_close(&t);
}

DT_TEST_GROUP(trace)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_told_in_its_time),
        cmocka_unit_test(a_trace_may_be_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
