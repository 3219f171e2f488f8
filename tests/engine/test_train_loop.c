/* Where a run stands when its observer ends it: weights and step must belong together, since both
 * are saved. */
#include "tests/fixture/check.h"

#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/train.h"
#include "tests/fixture/trainee.h"

enum { STEPS = 3, BATCH = DT_TRAINEE_BATCH * DT_TRAINEE_MICROS };

typedef struct source {
    const dt_trainee *t;
    dt_feed feed;
    int64_t handed_out, infinite; /* batches; the one whose values are none, 0: none is */
} source;

static dt_status next(void *self, dt_batch *out, dt_err *err)
{
    (void)err;
    source *s = self;
    *out = (dt_batch){.x = s->t->x, .labels = s->t->labels, .n = BATCH};
    s->feed.at += BATCH;
    s->feed.skipped++;
    if (++s->handed_out == s->infinite)
        s->t->x[0] = INFINITY;
    return DT_OK;
}

/* All batches are the same. */
static dt_status seek_to(void *self, int64_t epoch, int64_t step, int64_t at, dt_err *err)
{
    (void)epoch, (void)step, (void)err;
    source *s = self;
    s->feed.at = at;
    return DT_OK;
}

/* Fails after the step that it is told of as number 2. */
static dt_status after_step(void *self, const dt_step_report *r, dt_err *err)
{
    (void)self;
    return r->step == 2 ? DT_FAIL(err, DT_E_IO, "nobody listens any more") : DT_OK;
}

static unsigned char *state_of(const dt_trainee *t)
{
    unsigned char *state = dt_alloc(t->map->bytes, 1);
    assert_non_null(state);
    return memcpy(state, dt_runner_home(t->runner, 0), t->map->bytes);
}

/* Train to the end, or until the observer or that batch fails, from a new start. */
static dt_status train_until(dt_trainee *t, const dt_observer *o, int64_t steps, int64_t infinite,
    dt_train_point *p, dt_err *err)
{
    source s = {.t = t, .infinite = infinite};
    s.feed = (dt_feed){
        .self = &s, .next = next, .seek_to = seek_to, .samples = BATCH * STEPS, .batch = BATCH};
    const dt_ready ready[] = {{DT_PROGRAM_FIRST, DT_TRAINEE_BATCH, false, t->id[DT_PROGRAM_FIRST]},
        {DT_PROGRAM_AGAIN, DT_TRAINEE_BATCH, false, t->id[DT_PROGRAM_AGAIN]},
        {DT_PROGRAM_UPDATE, 0, false, t->id[DT_PROGRAM_UPDATE]}};
    const dt_train_opts opts = {.finite = true, .batch = BATCH, .lr = 0.02, .momentum = 0.9};
    const dt_train_job job = {.runner = t->runner,
        .map = t->map,
        .opts = &opts,
        .micro_batch = DT_TRAINEE_BATCH,
        .ready = ready,
        .n_ready = DT_COUNT(ready),
        .feed = &s.feed,
        .steps = steps,
        .steps_per_epoch = STEPS,
        .point = p,
        .observer = o};
    assert_ok(dt_runner_init(t->runner, err), err);
    return dt_train(&job, err);
}

static dt_status train(
    dt_trainee *t, const dt_observer *o, int64_t steps, dt_train_point *p, dt_err *err)
{
    return train_until(t, o, steps, 0, p, err);
}

static void the_point_is_where_the_weights_stand_when_the_observer_fails(void **state)
{
    (void)state;
    dt_trainee t = dt_trainee_open(dt_trainee_plain(), &(dt_trainee_opts){.policies = "keep_all"});
    const dt_observer silent = {0}, fails = {.step = after_step};
    dt_train_point p = {.evaluated = true}, q = p;
    dt_err err = {0};
    assert_ok(train(&t, &silent, 2, &p, &err), &err);
    unsigned char *want = state_of(&t);
    assert_true(p.step == 2 && p.at == 2 * BATCH);
    assert_fails(train(&t, &fails, STEPS, &q, &err), DT_E_IO, &err, "nobody listens");
    unsigned char *got = state_of(&t);
    assert_true(dt_trainee_same(&t, want, got, "two steps"));
    assert_true(q.step == 2 && q.at == 2 * BATCH && !q.evaluated);
    dt_free(want);
    dt_free(got);
    dt_trainee_close(&t);
}

/* A batch that was taken and not trained is taken again by who goes on, with what was left out on
 * the way to it. */
static void a_discarded_step_counts_no_sample_as_left_out(void **state)
{
    (void)state;
    dt_trainee t = dt_trainee_open(dt_trainee_plain(), &(dt_trainee_opts){.policies = "keep_all"});
    const dt_observer silent = {0};
    dt_train_point p = {.evaluated = true};
    dt_err err = {0};
    assert_fails(train_until(&t, &silent, STEPS, STEPS, &p, &err), DT_E_NONFINITE, &err, "step 3");
    assert_true(p.step == 2 && p.at == 2 * BATCH && p.skipped == 2);
    dt_trainee_close(&t);
}

DT_TEST_GROUP(train_loop)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_point_is_where_the_weights_stand_when_the_observer_fails),
        cmocka_unit_test(a_discarded_step_counts_no_sample_as_left_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
