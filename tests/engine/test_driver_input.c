/* Batches on their way to a device that works on its own: the one to come is copied while the
 * device is at work on this one, and whatever is run, in whatever order, a run gets its own batch.
 */
#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/train.h"
#include "tests/fixture/check.h"
#include "tests/fixture/fake_driver.h"
#include "tests/fixture/random_graph.h"
#include "tests/fixture/trainee.h"

enum { POOL = 5, RUNS = 40, SEEDS = 8, N = DT_TRAINEE_BATCH, CLASSES = 10, WRONG = 99 };

/* Memory of batches, whose contents change as those of a loader's do. */
typedef struct pool {
    dt_batch at[POOL];
    float *x;
    int32_t *labels;
    size_t sample;
} pool;

static uint64_t last_id;

static void make(pool *p, int i, uint64_t seed, bool has_id)
{
    dt_dice d = {seed, 0};
    float *x = p->x + (size_t)i * N * p->sample;
    int32_t *labels = p->labels + (size_t)i * N;
    for (size_t k = 0; k < N * p->sample; k++)
        x[k] = (float)dt_roll(&d, 2001) / 1000.0F - 1.0F;
    for (int k = 0; k < N; k++)
        labels[k] = (int32_t)dt_roll(&d, CLASSES);
    p->at[i] = (dt_batch){x, labels, N, has_id ? ++last_id : 0};
}

static pool make_pool(const dt_trainee *t)
{
    pool p = {.sample = (size_t)dti_runner_sample(t->runner)};
    p.x = dt_alloc(POOL * N * p.sample, sizeof *p.x);
    p.labels = dt_alloc((size_t)POOL * N, sizeof *p.labels);
    assert_true(p.x != NULL && p.labels != NULL);
    for (int i = 0; i < POOL; i++)
        make(&p, i, (uint64_t)i, true);
    return p;
}

static void free_pool(pool *p)
{
    dt_free(p->x);
    dt_free(p->labels);
}

/* A run of the batch at @i, of any plan; @said to come, or nothing for -1. A few batches are wrong,
 * which is told at their own run, before it does anything. */
static void run_one(dt_trainee *t, bool device, pool *p, int i, int said, dt_dice *d)
{
    static const int kinds[] = {
        DT_PROGRAM_FIRST, DT_PROGRAM_AGAIN, DT_PROGRAM_AGAIN, DT_PROGRAM_EVAL, DT_PROGRAM_UPDATE};
    const int kind = kinds[dt_roll(d, DT_COUNT(kinds))];
    const bool wrong = p->labels[i * N + 2] == WRONG && kind != DT_PROGRAM_UPDATE;
    dt_run_args a = dt_trainee_args(t, 0, 0);
    dt_err err = {0};
    a.batch = kind == DT_PROGRAM_UPDATE ? (dt_batch){0} : p->at[i];
    if (said >= 0)
        a.coming = p->at[said];
    if (wrong && !device) /* the processor notices in the middle */
        return;
    const dt_status st = dt_runner_run(t->runner, t->id[kind], &a, &err);
    if (wrong)
        assert_fails(st, DT_E_DATA, &err, "sample 2 of the step has label 99");
    else
        assert_ok(st, &err);
}

/* Runs at random, and at every one what it has left. */
static void run_many(dt_trainee *t, bool device, uint64_t seed, unsigned char *left)
{
    dt_dice d = {seed, 0};
    dt_err err = {0};
    pool p = make_pool(t);
    assert_ok(dt_runner_init(t->runner, &err), &err);
    for (int run = 0, i = 0; run < RUNS; run++) {
        const int to_come = (int)dt_roll(&d, POOL), other = (int)dt_roll(&d, POOL);
        const uint32_t how = dt_roll(&d, 8);
        run_one(t, device, &p, i, how == 0 ? -1 : how == 1 ? other : to_come, &d);
        memcpy(left + (size_t)run * t->map->bytes, dt_runner_home(t->runner, 0), t->map->bytes);
        if (dt_roll(&d, 3) == 0) /* the memory is used again */
            make(&p, dt_roll(&d, 2) == 0 ? i : other, 100 + (uint64_t)run, dt_roll(&d, 2) > 0);
        if (dt_roll(&d, 6) == 0) {
            const int bad = (int)dt_roll(&d, POOL);
            make(&p, bad, 200 + (uint64_t)run, true);
            p.labels[bad * N + 2] = WRONG;
        }
        i = dt_roll(&d, 4) == 0 ? i : to_come; /* or once more, as after an overflow */
    }
    free_pool(&p);
}

static void whatever_is_run_gets_its_own_batch(void **state)
{
    (void)state;
    static const dt_trainee_opts ways[] = {{.policies = "keep_all"}, {.policies = "chen_sqrt"},
        {.policies = "vdnn_all"}, {.policies = "keep_all", .tight = true, .tier = DT_TIER_DISK}};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        dt_trainee_opts way = ways[seed % DT_COUNT(ways)];
        dt_trainee cpu = dt_trainee_open(dt_trainee_plain(), &way);
        unsigned char *want = dt_alloc(cpu.map->bytes, RUNS);
        unsigned char *got = dt_alloc(cpu.map->bytes, RUNS);
        assert_true(want != NULL && got != NULL);
        run_many(&cpu, false, seed, want);
        for (int replay = 0; replay < 2; replay++) {
            way.driver = dt_fake_driver(&(dt_fake_opts){.seed = 2 * seed + (uint64_t)replay});
            way.replay = replay == 1;
            dt_trainee t = dt_trainee_open(dt_trainee_plain(), &way);
            run_many(&t, true, seed, got);
            for (size_t run = 0; run < RUNS; run++)
                dt_trainee_same(&t, want + run * t.map->bytes, got + run * t.map->bytes, "a run");
            assert_int_equal(way.replay, dt_fake_count().replayed > 0);
            dt_trainee_close(&t);
        }
        dt_free(want);
        dt_free(got);
        dt_trainee_close(&cpu);
    }
}

/* Nobody needs a batch's own memory any more. */
static void spoil(void *arg)
{
    const dt_batch *b = arg;
    for (int64_t i = 0; b->x != NULL && i < b->n; i++) {
        ((float *)(uintptr_t)b->x)[i] = NAN;
        ((int32_t *)(uintptr_t)b->labels)[i] = WRONG;
    }
}

/* Runs of one batch after the other; what comes is spoilt before the device is waited for. */
static dt_status run_in_turn(dt_trainee *t, dt_batch *coming, bool ids, dt_err *err)
{
    pool p = make_pool(t);
    dt_status st = DT_OK;
    for (int i = 0; i < POOL && st == DT_OK; i++) {
        dt_run_args a = dt_trainee_args(t, 0, 0);
        a.batch = p.at[i];
        a.coming = i + 1 < POOL ? p.at[i + 1] : (dt_batch){0};
        a.batch.id = ids ? a.batch.id : 0;
        a.coming.id = ids ? a.coming.id : 0;
        *coming = a.coming;
        st = dt_runner_run(t->runner, t->id[i == 0 ? DT_PROGRAM_FIRST : DT_PROGRAM_AGAIN], &a, err);
    }
    *coming = (dt_batch){0};
    free_pool(&p);
    return st;
}

static void what_comes_is_copied_before_the_device_is_waited_for(void **state)
{
    (void)state;
    dt_trainee_opts way = {.policies = "keep_all"};
    dt_batch coming = {0};
    dt_err err = {0};
    dt_trainee cpu = dt_trainee_open(dt_trainee_plain(), &way);
    assert_ok(run_in_turn(&cpu, &coming, true, &err), &err);
    for (uint64_t seed = 1; seed <= 4; seed++) {
        way.replay = seed % 2 == 0;
        way.driver =
            dt_fake_driver(&(dt_fake_opts){.seed = seed, .finishing = spoil, .arg = &coming});
        dt_trainee t = dt_trainee_open(dt_trainee_plain(), &way);
        assert_ok(run_in_turn(&t, &coming, true, &err), &err);
        dt_trainee_same(&t, dt_runner_home(cpu.runner, 0), dt_runner_home(t.runner, 0), "in turn");
        assert_fails(run_in_turn(&t, &coming, false, &err), DT_E_DATA, &err, "label 99");
        err = (dt_err){0};
        dt_trainee_close(&t);
    }
    dt_trainee_close(&cpu);
}

/* It would reach into the block that is being read. */
static void run_before_a_large_one(dt_trainee *t)
{
    pool p = make_pool(t);
    dt_err err = {0};
    dt_run_args a = dt_trainee_args(t, 0, 0);
    a.batch = p.at[0];
    a.coming = p.at[1];
    assert_ok(dt_runner_run(t->runner, t->id[DT_PROGRAM_FIRST], &a, &err), &err);
    a.batch = p.at[1];
    a.coming = p.at[2];
    a.coming.n = 3 * N;
    assert_ok(dt_runner_run(t->runner, t->id[DT_PROGRAM_AGAIN], &a, &err), &err);
    free_pool(&p);
}

static void what_comes_and_is_too_large_is_not_copied(void **state)
{
    (void)state;
    dt_trainee_opts way = {.policies = "keep_all"};
    dt_trainee cpu = dt_trainee_open(dt_trainee_plain(), &way);
    run_before_a_large_one(&cpu);
    for (uint64_t seed = 1; seed <= 8; seed++) {
        way.driver = dt_fake_driver(&(dt_fake_opts){.seed = seed});
        dt_trainee t = dt_trainee_open(dt_trainee_plain(), &way);
        run_before_a_large_one(&t);
        dt_trainee_same(
            &t, dt_runner_home(cpu.runner, 0), dt_runner_home(t.runner, 0), "a large batch comes");
        dt_trainee_close(&t);
    }
    dt_trainee_close(&cpu);
}

/* ---- the training loop ---- */

enum { BATCH = DT_TRAINEE_BATCH * DT_TRAINEE_MICROS, STEPS = 7, EPOCH = 2, EVALS = 3 * N };

/* A ring of two batches, as a loader's with one batch ahead: when one is asked for, the memory of
 * the one before it holds what comes next. @hasty: the first @hasty samples of a batch that was
 * looked at are gone when it is asked for. */
typedef struct source {
    dt_feed feed;
    float *x[2];
    int32_t *labels[2];
    uint64_t id[2];
    size_t sample;
    int64_t n, taken, hasty, peeked; /* peeked: the place of the batch that was looked at last */
    uint64_t seed;
} source;

static void decode(source *s, int64_t place)
{
    const int64_t k = place % 2;
    dt_dice d = {s->seed + (uint64_t)place, 0};
    for (size_t i = 0; i < (size_t)s->n * s->sample; i++)
        s->x[k][i] = (float)dt_roll(&d, 2001) / 1000.0F - 1.0F;
    for (int64_t i = 0; i < s->n; i++)
        s->labels[k][i] = (int32_t)dt_roll(&d, CLASSES);
    s->id[k] = ++last_id;
}

static dt_batch batch_at(const source *s, int64_t place)
{
    return (dt_batch){s->x[place % 2], s->labels[place % 2], s->n, s->id[place % 2]};
}

static dt_status next(void *self, dt_batch *out, dt_err *err)
{
    source *s = self;
    (void)err;
    *out = batch_at(s, s->taken);
    if (s->hasty > 0 && s->peeked == s->taken)
        spoil(&(dt_batch){out->x, out->labels, s->hasty, 0});
    decode(s, ++s->taken);
    s->feed.at += s->n;
    return DT_OK;
}

static dt_batch peek(void *self)
{
    source *s = self;
    s->peeked = s->taken;
    return batch_at(s, s->taken);
}

static dt_status seek(void *self, int64_t epoch, dt_err *err)
{
    source *s = self;
    (void)epoch;
    (void)err;
    s->taken = 0;
    s->peeked = -1;
    decode(s, 0);
    return DT_OK;
}

static void open_source(source *s, const dt_trainee *t, int64_t n, int64_t samples, bool peeks)
{
    dt_err err = {0};
    *s = (source){.sample = (size_t)dti_runner_sample(t->runner), .n = n, .seed = 50 * (uint64_t)n};
    s->feed = (dt_feed){.self = s,
        .next = next,
        .peek = peeks ? peek : NULL,
        .seek = seek,
        .samples = samples,
        .batch = n};
    for (int k = 0; k < 2; k++) {
        s->x[k] = dt_alloc((size_t)n * s->sample, sizeof(float));
        s->labels[k] = dt_alloc((size_t)n, sizeof(int32_t));
        assert_true(s->x[k] != NULL && s->labels[k] != NULL);
    }
    assert_ok(seek(s, 0, &err), &err);
}

static void close_source(source *s)
{
    for (int k = 0; k < 2; k++) {
        dt_free(s->x[k]);
        dt_free(s->labels[k]);
    }
}

/* What the loop told of, as it went. */
typedef struct told {
    double loss[STEPS], eval[STEPS];
} told;

static dt_status after_step(void *self, const dt_step_report *r, dt_err *err)
{
    (void)err;
    ((told *)self)->loss[r->step - 1] = r->loss;
    return DT_OK;
}

static dt_status after_eval(void *self, const dt_eval_report *r, dt_err *err)
{
    (void)err;
    ((told *)self)->eval[r->step - 1] = r->loss;
    return DT_OK;
}

/* Steps of two micro-batches, with an evaluation of three batches after every second one; hasty:
 * only at the end, as a batch that came would wait behind those of the evaluation. */
static unsigned char *train(dt_trainee *t, bool peeks, bool hasty, told *got)
{
    source s, e;
    open_source(&s, t, BATCH, BATCH * EPOCH, peeks);
    open_source(&e, t, N, EVALS, peeks);
    s.hasty = e.hasty = hasty ? N : 0;
    dt_ready ready[DT_PROGRAM_KINDS];
    for (int k = 0; k < DT_PROGRAM_KINDS; k++)
        ready[k] = (dt_ready){(dt_program_kind)k, k == DT_PROGRAM_UPDATE ? 0 : N, false, t->id[k]};
    const dt_train_opts opts = {
        .finite = true, .batch = BATCH, .lr = 0.02, .momentum = 0.9, .eval_every = hasty ? 0 : 1};
    *got = (told){{0}, {0}};
    const dt_observer observer = {.self = got, .step = after_step, .eval = after_eval};
    const dt_train_job job = {.runner = t->runner,
        .map = t->map,
        .opts = &opts,
        .micro_batch = N,
        .ready = ready,
        .n_ready = DT_COUNT(ready),
        .feed = &s.feed,
        .eval_feed = &e.feed,
        .steps = STEPS,
        .steps_per_epoch = EPOCH,
        .observer = &observer};
    dt_err err = {0};
    assert_ok(dt_runner_init(t->runner, &err), &err);
    assert_ok(dt_train(&job, &err), &err);
    close_source(&s);
    close_source(&e);
    unsigned char *state = dt_alloc(t->map->bytes, 1);
    assert_non_null(state);
    return memcpy(state, dt_runner_home(t->runner, 0), t->map->bytes);
}

static void the_loop_hands_over_what_comes(void **state)
{
    (void)state;
    dt_trainee_opts way = {.policies = "vdnn_conv"};
    dt_trainee cpu = dt_trainee_open(dt_trainee_plain(), &way);
    told want, got;
    unsigned char *right = train(&cpu, false, false, &want);
    unsigned char *same = train(&cpu, true, false, &got);
    dt_trainee_same(&cpu, right, same, "the processor, which looks at nothing that comes");
    dt_free(same);
    for (uint64_t seed = 1; seed <= 6; seed++) {
        way.replay = seed % 2 == 0;
        way.driver = dt_fake_driver(&(dt_fake_opts){.seed = seed});
        dt_trainee t = dt_trainee_open(dt_trainee_plain(), &way);
        for (int hasty = 0; hasty < 2; hasty++) { /* also: a second training in the same runner */
            same = train(&t, true, hasty == 1, &got);
            dt_trainee_same(&t, right, same, "the loop");
            assert_memory_equal(want.loss, got.loss, sizeof want.loss);
            for (int step = 0; step < STEPS; step++)
                assert_true(got.eval[step] == want.eval[step] || (hasty && step + 1 < STEPS));
            dt_free(same);
        }
        dt_trainee_close(&t);
    }
    dt_free(right);
    dt_trainee_close(&cpu);
}

DT_TEST_GROUP(driver_input)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_is_run_gets_its_own_batch),
        cmocka_unit_test(what_comes_is_copied_before_the_device_is_waited_for),
        cmocka_unit_test(what_comes_and_is_too_large_is_not_copied),
        cmocka_unit_test(the_loop_hands_over_what_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
