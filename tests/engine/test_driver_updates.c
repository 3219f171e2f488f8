/* What a device that works on its own is given of an update, and what it is never given: launches
 * of all that stands in a row, and batches whose labels name no class. */
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/kernels.h"
#include "layers/plain.h"
#include "memory/verify/verify.h"
#include "tests/fixture/check.h"
#include "tests/fixture/fake_driver.h"
#include "tests/fixture/sanitizer.h"
#include "tests/fixture/trainee.h"

/* Of the plain network: a weight and a bias of each of four convolutions, a norm and a classifier,
 * and the norm's mean and variance. */
enum { STEPS = 3, SGD = 12, COMMITS = 2 };

/* Every run of the update program makes so many launches: the first, the one that is kept, and one
 * that does it again. */
static void assert_launches(dt_trainee_opts way, long want)
{
    for (int replay = 0; replay < 2; replay++) {
        way.driver = dt_fake_driver(&(dt_fake_opts){.seed = 6});
        way.replay = replay == 1;
        dt_trainee t = dt_trainee_open(dt_trainee_plain(), &way);
        dt_err err = {0};
        for (int run = 0; run < 3; run++) {
            const long before = dt_fake_count().launched;
            assert_ok(dt_trainee_run(&t, DT_PROGRAM_UPDATE, &err), &err);
            assert_int_equal(dt_fake_count().launched - before, want);
        }
        dt_trainee_close(&t);
    }
}

static void all_updates_are_a_launch_a_kind(void **state)
{
    (void)state;
    assert_launches((dt_trainee_opts){.policies = "keep_all"}, 2); /* sgd and commit */
}

/* The third update signals; in the end another stream waits for that. */
static void signal_third(dt_plan *p, void *arg)
{
    (void)arg;
    dt_row *row = dt_alloc(p->n_row + 1, sizeof *row);
    assert_non_null(row);
    memcpy(row, p->row, p->n_row * sizeof *row);
    dt_row *third = row;
    for (int left = 3; left > 0; third++)
        left -= third->kind == DT_ROW_COMPUTE;
    third--;
    third->event = p->n_event++;
    row[p->n_row] = *third;
    row[p->n_row].kind = DT_ROW_WAIT;
    row[p->n_row].stream = (uint8_t)dt_plan_stream(p, DT_STREAM_OUT, DT_TIER_HOST);
    row[p->n_row].op = -1;
    p->n_row++;
    dt_free(p->row);
    p->row = row;
}

static void a_signal_ends_a_launch(void **state)
{
    (void)state;
    const dt_trainee_opts way = {
        .policies = "keep_all", .edit = signal_third, .edited = DT_PROGRAM_UPDATE};
    assert_launches(way, 3); /* sgd before the signal, sgd and commit after it */
}

/* A plan that wants more room for its launches, and finds no memory for it, leaves others theirs.
 */
static void a_plan_that_is_not_bound_leaves_others_their_room(void **state)
{
    (void)state;
    const dt_trainee_opts whole = {.policies = "keep_all"};
    dt_trainee_opts cut = whole;
    cut.edit = signal_third;
    cut.edited = DT_PROGRAM_UPDATE;
    cut.driver = dt_fake_driver(&(dt_fake_opts){.seed = 6});
    dt_trainee t = dt_trainee_open(dt_trainee_plain(), &cut);
    dt_trainee other = dt_trainee_open(dt_trainee_plain(), &whole);
    bool bound = false;
    for (long k = 1; !bound; k++) {
        dt_err err = {0};
        int id;
        dti_alloc_fail_at(k);
        const dt_status st = dt_runner_add(t.runner, other.plan[DT_PROGRAM_UPDATE], &id, &err);
        bound = dti_alloc_fail_at(0) > 0;
        assert_int_equal(st, bound ? DT_OK : DT_E_NOMEM);
        dt_err_clear(&err);
        assert_ok(dt_trainee_run(&t, DT_PROGRAM_UPDATE, &err), &err);
    }
    dt_trainee_close(&other);
    dt_trainee_close(&t);
}

/* An optimizer that does many at once, the last one first. */
static struct seen {
    long together, ops, alone;
} seen;

static dt_status run_alone(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    seen.alone++;
    return dt_layer_sgd.cpu->run(c, state, a, err);
}

static dt_status run_many(const dt_call *const *c, const dt_args *a, int n, dt_err *err)
{
    seen.together++;
    seen.ops += n;
    for (int i = n - 1; i >= 0; i--)
        DT_CHECK(dt_layer_sgd.cpu->run(c[i], NULL, &a[i], err));
    return DT_OK;
}

static unsigned char *trained(const dt_trainee_opts *way, const unsigned char *right)
{
    dt_trainee t = dt_trainee_open(dt_trainee_plain(), way);
    unsigned char *got = dt_trainee_train(&t, STEPS);
    if (right != NULL)
        dt_trainee_same(&t, right, got, "an optimizer of many at once");
    dt_trainee_close(&t);
    return got;
}

static void kernels_that_do_many_at_once_get_them_all(void **state)
{
    (void)state;
    const dt_kernels k = {.run = run_alone, .run_many = run_many};
    dt_layer_desc many = dt_layer_sgd;
    many.cpu = &k;
    dt_trainee_opts way = {.policies = "keep_all"};
    unsigned char *right = trained(&way, NULL);
    way.optimizer = &many;
    for (uint64_t seed = 1; seed < 5; seed++) {
        way.replay = seed % 2 == 0;
        way.driver = dt_fake_driver(&(dt_fake_opts){.seed = seed});
        seen = (struct seen){0};
        dt_free(trained(&way, right));
        assert_int_equal(seen.together, STEPS);
        assert_int_equal(seen.ops, STEPS * SGD);
        assert_int_equal(seen.alone, 0);
    }
    dt_free(right);
}

/* A clock or a checked run looks at every op by itself. */
static void a_run_row_by_row_does_one_at_a_time(void **state)
{
    (void)state;
    dt_trainee_opts way = {.policies = "keep_all"};
    way.driver = dt_fake_driver(&(dt_fake_opts){.seed = 2});
    dt_trainee t = dt_trainee_open(dt_trainee_plain(), &way);
    dt_err err = {0};
    dt_measure m;
    const dt_run_args a = dt_trainee_args(&t, 0, 0);
    const long before = dt_fake_count().launched;
    assert_ok(dt_runner_check(t.runner, t.id[DT_PROGRAM_UPDATE], &a, &m, &err), &err);
    assert_int_equal(dt_fake_count().launched - before, SGD + COMMITS);
    dt_trainee_close(&t);
}

/* Before anything of it goes to the device, where kernels cannot refuse it. */
static void a_label_that_is_no_class_does_not_reach_the_device(void **state)
{
    (void)state;
    static const struct {
        int32_t label;
        const char *text;
    } wrong[] = {{10, "sample 6 of the step has label 10, but the network has classes 0 to 9"},
        {-2, "sample 6 of the step has label -2, but"}};
    dt_trainee_opts way = {.policies = "keep_all"};
    way.driver = dt_fake_driver(&(dt_fake_opts){.seed = 2});
    dt_trainee t = dt_trainee_open(dt_trainee_plain(), &way);
    dt_run_args a = dt_trainee_args(&t, 0, 1);
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        dt_err err = {0};
        const long before = dt_fake_count().launched;
        t.labels[6] = wrong[i].label;
        assert_fails(dt_runner_run(t.runner, t.id[DT_PROGRAM_AGAIN], &a, &err), DT_E_DATA, &err,
            wrong[i].text);
        assert_int_equal(dt_fake_count().launched, before);
    }
    dt_err err = {0};
    t.labels[6] = 9;
    assert_ok(dt_runner_run(t.runner, t.id[DT_PROGRAM_AGAIN], &a, &err), &err);
    dt_trainee_close(&t);
}

/* ---- by the host, beside the device ---- */

static const dt_trainee_opts beside = {.policies = "vdnn_all", .beside = true};

/* Of the update at hand, which the device does not do: its stream's waits, and itself. */
static int of_host(const dt_plan *p, dt_row_kind kind)
{
    int n = 0;
    for (size_t i = 0; i < p->n_row; i++)
        n += p->row[i].kind == kind &&
             p->row[i].stream == dt_plan_stream(p, DT_STREAM_COMPUTE, DT_TIER_HOST);
    return n;
}

static unsigned char *learned(dt_graph *(*net)(void), const dt_trainee_opts *way, size_t *bytes)
{
    dt_trainee t = dt_trainee_open(net(), way);
    unsigned char *got = dt_trainee_learn(&t, STEPS, bytes);
    if (way->beside && way->edit == NULL) {
        const dt_plan *p = t.plan[DT_PROGRAM_FIRST];
        assert_true(of_host(p, DT_ROW_COMPUTE) > 0);
        assert_true(of_host(p, DT_ROW_WAIT) >= of_host(p, DT_ROW_COMPUTE));
        assert_int_equal(p->tier_peak[DT_TIER_DISK], 0);
    }
    dt_trainee_close(&t);
    return got;
}

/* In whatever order the device takes its work and however late the threads are, the bits are those
 * of updates behind the step, by the processor alone. */
static void early_updates_by_the_host_change_no_bit(void **state)
{
    static dt_graph *(*const nets[])(void) = {dt_trainee_plain, dt_trainee_resnet};
    (void)state;
    for (size_t i = 0; i < DT_COUNT(nets); i++) {
        size_t bytes, others;
        unsigned char *right =
            learned(nets[i], &(dt_trainee_opts){.policies = "keep_all", .alone = true}, &bytes);
        for (uint64_t seed = 1; seed <= 6; seed++) {
            dt_trainee_opts way = beside;
            way.driver = dt_fake_driver(&(dt_fake_opts){.seed = seed});
            way.replay = seed % 2 == 0;
            way.delay_seed = seed % 3 == 0 ? seed : 0;
            unsigned char *got = learned(nets[i], &way, &others);
            assert_int_equal(others, bytes);
            if (memcmp(got, right, bytes) != 0)
                fail_msg("network %d, seed %d: other bits", (int)i, (int)seed);
            dt_free(got);
        }
        dt_free(right);
    }
}

/* Of the gradient's way out; others are of the parameter's way in, which long before that is over.
 */
static bool is_of_gradient(const dt_plan *p, const dt_row *wait)
{
    for (size_t i = 0; i < p->n_row; i++)
        if (p->row[i].kind == DT_ROW_COPY_OUT && p->row[i].event == wait->event)
            return true;
    return false;
}

/* The n-th time that the host's updates wait for a gradient, of those there are; one may wait for
 * several. */
typedef struct dropped {
    int n, of;
} dropped;

static void drop_wait(dt_plan *p, void *arg)
{
    dropped *d = arg;
    const int host = dt_plan_stream(p, DT_STREAM_COMPUTE, DT_TIER_HOST);
    size_t found = p->n_row;
    d->of = 0;
    for (size_t i = 0; i < p->n_row; i++)
        if (p->row[i].kind == DT_ROW_WAIT && p->row[i].stream == host &&
            is_of_gradient(p, &p->row[i]) && d->of++ == d->n)
            found = i;
    assert_true(found < p->n_row);
    memmove(&p->row[found], &p->row[found + 1], (p->n_row - found - 1) * sizeof *p->row);
    p->n_row--;
}

/* An update that does not wait takes the gradient of the step before. */
static void an_update_that_does_not_wait_is_noticed(void **state)
{
    (void)state;
    size_t bytes;
    if (DT_THREAD_SANITIZER) /* which notices more */
        skip();
    unsigned char *right = learned(
        dt_trainee_plain, &(dt_trainee_opts){.policies = "keep_all", .alone = true}, &bytes);
    dropped drop = {.of = 1};
    for (; drop.n < drop.of; drop.n += 3) {
        bool noticed = false;
        for (uint64_t seed = 1; seed <= 20 && !noticed; seed++) {
            dt_trainee_opts way = beside;
            dt_err err = {0};
            way.driver = dt_fake_driver(&(dt_fake_opts){.seed = seed, .lazy = true});
            way.edit = drop_wait;
            way.arg = &drop;
            dt_trainee t = dt_trainee_open(dt_trainee_plain(), &way);
            assert_int_equal(dt_verify(t.plan[DT_PROGRAM_FIRST], &err), DT_E_DATA);
            unsigned char *got = dt_trainee_learn(&t, STEPS, &bytes);
            noticed = memcmp(got, right, bytes) != 0;
            dt_free(got);
            dt_trainee_close(&t);
        }
        if (!noticed)
            fail_msg("wait %d of the host's stream is not missed", drop.n);
    }
    assert_true(drop.of > SGD / 3);
    dt_free(right);
}

static void what_it_takes_is_planned_and_measured(void **state)
{
    (void)state;
    dt_trainee_opts way = beside;
    way.driver = dt_fake_driver(&(dt_fake_opts){.seed = 3});
    dt_trainee t = dt_trainee_open(dt_trainee_plain(), &way);
    const dt_run_args a = dt_trainee_args(&t, 0, 0);
    dt_err err = {0};
    dt_measure m;
    assert_ok(dt_runner_check(t.runner, t.id[DT_PROGRAM_FIRST], &a, &m, &err), &err);
    assert_int_equal(m.peak, t.plan[DT_PROGRAM_FIRST]->peak);
    assert_int_equal(m.tier[DT_TIER_HOST], t.plan[DT_PROGRAM_FIRST]->tier_peak[DT_TIER_HOST]);
    dt_trainee_close(&t);
}

/* The binder takes no row on the other one of the two streams. */
static void to_device(dt_plan *p, void *arg)
{
    (void)arg;
    for (size_t i = 0; i < p->n_row; i++)
        if (p->row[i].kind == DT_ROW_COMPUTE && p->op[p->row[i].op].on_host)
            p->row[i].stream = DT_MAIN_STREAM;
}

static void an_op_of_the_host_is_on_its_stream(void **state)
{
    (void)state;
    dt_trainee_opts way = beside;
    way.driver = dt_fake_driver(&(dt_fake_opts){.seed = 3});
    dt_trainee t = dt_trainee_open(dt_trainee_plain(), &way);
    dt_err err = {0};
    int id;
    to_device(t.plan[DT_PROGRAM_FIRST], NULL);
    assert_fails(dt_runner_add(t.runner, t.plan[DT_PROGRAM_FIRST], &id, &err), DT_E_DATA, &err,
        "not on the host's stream");
    dt_trainee_close(&t);
}

DT_TEST_GROUP(driver_updates)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_updates_are_a_launch_a_kind),
        cmocka_unit_test(a_signal_ends_a_launch),
        cmocka_unit_test(a_plan_that_is_not_bound_leaves_others_their_room),
        cmocka_unit_test(kernels_that_do_many_at_once_get_them_all),
        cmocka_unit_test(a_run_row_by_row_does_one_at_a_time),
        cmocka_unit_test(a_label_that_is_no_class_does_not_reach_the_device),
        cmocka_unit_test(early_updates_by_the_host_change_no_bit),
        cmocka_unit_test(an_update_that_does_not_wait_is_noticed),
        cmocka_unit_test(what_it_takes_is_planned_and_measured),
        cmocka_unit_test(an_op_of_the_host_is_on_its_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
