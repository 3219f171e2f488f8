/* The loader, on a source whose samples say what they are. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "data/loader.h"
#include "engine/label.h"
#include "engine/base/alloc.h"
#include "tests/fixture/check.h"

/* Sample i is {i, low bits of its key} with label i; the listed ones fail. */
typedef struct fake {
    dt_source base;
    int64_t count;
    dt_status status; /* of the bad ones */
    int64_t bad[8];
    int n_bad;
    long nap; /* nanoseconds that sample 0 takes */
} fake;

static atomic_long bad_reads, reads; /* of all fakes */

static int64_t fake_count(const dt_source *s)
{
    return ((const fake *)s)->count;
}

static dt_status fake_read(
    const dt_source *s, int64_t i, uint64_t key, float *x, int32_t *label, dt_err *err)
{
    const fake *f = (const fake *)s;
    atomic_fetch_add(&reads, 1);
    DT_ASSERT(i >= 0 && i < f->count);
    if (f->nap > 0 && i == 0)
        nanosleep(&(struct timespec){.tv_nsec = f->nap}, NULL);
    x[0] = -1;
    for (int k = 0; k < f->n_bad; k++)
        if (f->bad[k] == i) {
            atomic_fetch_add(&bad_reads, 1);
            return DT_FAIL(err, f->status, "sample %d is bad", (int)i);
        }
    x[0] = (float)i;
    x[1] = (float)(key & 0xFFFF);
    *label = (int32_t)i;
    return DT_OK;
}

static const dt_source_desc fake_desc = {.name = "fake", .count = fake_count, .read = fake_read};

static void make_fake(fake *f, int64_t count)
{
    *f = (fake){.base = {.desc = &fake_desc, .opts = {.shape = {1, 1, 1, 2}, .classes = 1000}},
        .count = count,
        .status = DT_E_DATA};
    atomic_store(&bad_reads, 0);
}

static dt_loader *created(const fake *f, const dt_loader_opts *o)
{
    dt_err err = {0};
    dt_loader *l = NULL;
    assert_ok(dt_loader_create(&l, &f->base, o, &err), &err);
    return l;
}

static dt_batch next(dt_loader *l)
{
    dt_err err = {0};
    dt_batch b = {0};
    assert_ok(dt_loader_feed(l)->next(dt_loader_feed(l)->self, &b, &err), &err);
    for (int64_t i = 0; i < b.n; i++)
        assert_true(b.x[2 * i] == (float)b.labels[i] || b.labels[i] == DT_LABEL_NONE);
    return b;
}

static void next_fails(dt_loader *l, dt_status want, const char *text)
{
    dt_err err = {0};
    dt_batch b = {0};
    assert_fails(dt_loader_feed(l)->next(dt_loader_feed(l)->self, &b, &err), want, &err, text);
}

static void seek(dt_loader *l, int64_t epoch)
{
    dt_err err = {0};
    assert_ok(dt_loader_feed(l)->seek(dt_loader_feed(l)->self, epoch, &err), &err);
}

/* Labels of the next n samples, batch by batch; sizes of the batches are checked. */
static void take(dt_loader *l, int32_t *labels, int64_t n, int64_t batch)
{
    for (int64_t at = 0; at < n;) {
        const dt_batch b = next(l);
        assert_int_equal(b.n, n - at < batch ? n - at : batch);
        memcpy(labels + at, b.labels, (size_t)b.n * sizeof *labels);
        at += b.n;
    }
}

static void without_shuffling_samples_come_in_order_and_again(void **state)
{
    (void)state;
    fake f;
    make_fake(&f, 7);
    dt_loader *l = created(&f, &(dt_loader_opts){.batch = 3, .ahead = 2});
    assert_int_equal(dt_loader_feed(l)->samples, 7);
    assert_int_equal(dt_loader_feed(l)->batch, 3);
    for (int epoch = 0; epoch < 5; epoch++) {
        int32_t got[7];
        take(l, got, 7, 3);
        for (int i = 0; i < 7; i++)
            assert_int_equal(got[i], i);
    }
    dt_loader_destroy(l);
}

/* A batch of three that begins with sample @from, of so many values each. */
static dt_batch taken(dt_loader *l, int32_t from, size_t values)
{
    dt_err err = {0};
    dt_batch b = {0};
    assert_ok(dt_loader_feed(l)->next(dt_loader_feed(l)->self, &b, &err), &err);
    assert_int_equal(b.n, 3);
    for (int32_t i = 0; i < 3; i++) {
        assert_int_equal(b.labels[i], from + i);
        assert_true(b.x[(size_t)i * values] == (float)(from + i));
    }
    return b;
}

static void let_it_decode(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

static void a_batch_stays_until_the_next_one_is_asked_for(void **state)
{
    (void)state;
    fake f;
    make_fake(&f, 64);
    dt_loader *l = created(&f, &(dt_loader_opts){.batch = 4, .ahead = 3});
    for (int batches = 1; batches <= 9; batches++) {
        dt_batch b = {0};
        seek(l, batches);
        for (int i = 0; i < batches; i++)
            b = next(l);
        let_it_decode();
        seek(l, 0);
        let_it_decode();
        for (int k = 0; k < 4; k++) {
            assert_int_equal(b.labels[k], 4 * (batches - 1) + k);
            assert_true(b.x[2 * k] == (float)b.labels[k]);
        }
    }
    dt_loader_destroy(l);
}

static dt_batch peek(dt_loader *l)
{
    return dt_loader_feed(l)->peek(dt_loader_feed(l)->self);
}

static void looking_at_what_comes_changes_nothing(void **state)
{
    (void)state;
    fake f;
    make_fake(&f, 64);
    dt_loader *l = created(&f, &(dt_loader_opts){.batch = 4, .ahead = 2});
    uint64_t last = 0;
    for (int i = 0; i < 40; i++) {
        const dt_batch b = next(l);
        const int64_t at = dt_loader_feed(l)->at;
        while (peek(l).x == NULL)
            let_it_decode();
        const dt_batch comes = peek(l), again = peek(l);
        assert_true(b.id != 0 && b.id != last && comes.id != b.id);
        assert_true(comes.x != b.x && comes.labels != b.labels);
        assert_true(comes.x == again.x && comes.id == again.id);
        assert_int_equal(dt_loader_feed(l)->at, at);
        let_it_decode();
        for (int k = 0; k < 4; k++) { /* both are there, and stay */
            assert_int_equal(b.labels[k], 4 * i % 64 + k);
            assert_int_equal(comes.labels[k], 4 * (i + 1) % 64 + k);
        }
        const bool take_it = i % 3 == 0;
        const dt_batch then = take_it ? next(l) : peek(l);
        assert_true(then.x == comes.x && then.labels == comes.labels && then.n == comes.n);
        assert_true(then.id == comes.id);
        i += take_it;
        last = b.id;
    }
    dt_loader_destroy(l);
}

static void what_is_not_decoded_does_not_come(void **state)
{
    (void)state;
    fake f;
    make_fake(&f, 6);
    f.nap = 300000000;
    f.bad[f.n_bad++] = 4;
    dt_loader *l = created(&f, &(dt_loader_opts){.batch = 3, .ahead = 2});
    assert_null(peek(l).x); /* does not wait for it */
    const uint64_t id = next(l).id;
    let_it_decode();
    assert_null(peek(l).x);
    next_fails(l, DT_E_DATA, "sample 4 is bad");
    seek(l, 0);
    assert_null(peek(l).x);
    assert_true(next(l).id != id); /* the same samples, in the same place, but not the same batch */
    dt_loader_destroy(l);
}

static void dropping_the_last_leaves_only_full_batches(void **state)
{
    (void)state;
    fake f;
    make_fake(&f, 7);
    dt_loader *l = created(&f, &(dt_loader_opts){.batch = 3, .ahead = 1, .drop_last = true});
    assert_int_equal(dt_loader_feed(l)->samples, 6);
    int32_t got[12];
    take(l, got, 12, 3);
    for (int i = 0; i < 12; i++)
        assert_int_equal(got[i], i % 6);
    dt_loader_destroy(l);
}

static void a_source_smaller_than_a_batch_makes_one_partial_batch(void **state)
{
    (void)state;
    fake f;
    make_fake(&f, 2);
    dt_loader *l = created(&f, &(dt_loader_opts){.batch = 10, .ahead = 1, .shuffle = true});
    for (int i = 0; i < 4; i++) {
        const dt_batch b = next(l);
        assert_int_equal(b.n, 2);
        assert_int_equal(b.labels[0] + b.labels[1], 1);
    }
    dt_loader_destroy(l);
}

static void each_epoch_is_another_permutation(void **state)
{
    (void)state;
    enum { N = 100 };
    fake f;
    make_fake(&f, N);
    dt_loader *l =
        created(&f, &(dt_loader_opts){.batch = 8, .ahead = 2, .shuffle = true, .seed = 5});
    int32_t got[2][N];
    int same = 0;
    for (int e = 0; e < 2; e++) {
        bool seen[N] = {0};
        take(l, got[e], N, 8);
        for (int i = 0; i < N; i++) {
            assert_false(seen[got[e][i]]);
            seen[got[e][i]] = true;
        }
    }
    for (int i = 0; i < N; i++)
        same += got[0][i] == got[1][i];
    assert_true(same < 10);
    dt_loader_destroy(l);
}

static void a_source_of_fixed_order_is_not_shuffled(void **state)
{
    (void)state;
    fake f;
    make_fake(&f, 20);
    f.base.fixed_order = true;
    dt_loader *l = created(&f, &(dt_loader_opts){.batch = 5, .ahead = 2, .shuffle = true});
    int32_t got[20];
    take(l, got, 20, 5);
    for (int i = 0; i < 20; i++)
        assert_int_equal(got[i], i);
    dt_loader_destroy(l);
}

/* Keys included: what is decoded depends on seed, epoch and sample alone. */
static void seeking_gives_what_a_straight_run_gives(void **state)
{
    (void)state;
    enum { N = 23, BATCH = 4, EPOCHS = 4, PER = 6 };
    static float want[EPOCHS][PER][BATCH * 2];
    fake f;
    make_fake(&f, N);
    dt_loader_opts o = {.batch = BATCH, .ahead = 3, .shuffle = true, .seed = 9};
    dt_loader *l = created(&f, &o);
    for (int e = 0; e < EPOCHS; e++)
        for (int b = 0; b < PER; b++) {
            const dt_batch got = next(l);
            memcpy(want[e][b], got.x, (size_t)got.n * 2 * sizeof(float));
        }
    assert_memory_not_equal(want[0], want[1], sizeof want[0]);
    dt_loader_destroy(l);
    o.ahead = 1;
    o.threads = 3;
    l = created(&f, &o);
    for (int i = 0; i < 40; i++) {
        const int e = i * 7 % EPOCHS, stop = i % (PER + 1);
        seek(l, e);
        for (int b = 0; b < stop; b++) {
            const dt_batch got = next(l);
            assert_memory_equal(want[e][b], got.x, (size_t)got.n * 2 * sizeof(float));
        }
    }
    dt_loader_destroy(l);
}

static void another_seed_gives_another_order_and_other_keys(void **state)
{
    (void)state;
    fake f;
    make_fake(&f, 50);
    dt_loader *a = created(&f, &(dt_loader_opts){.batch = 50, .ahead = 1, .seed = 1});
    dt_loader *b = created(&f, &(dt_loader_opts){.batch = 50, .ahead = 1, .seed = 2});
    const dt_batch x = next(a), y = next(b);
    int same = 0;
    for (int i = 0; i < 50; i++)
        same += x.x[2 * i + 1] == y.x[2 * i + 1];
    assert_true(same < 5);
    dt_loader_destroy(a);
    dt_loader_destroy(b);
}

static void the_same_sample_is_augmented_anew_each_epoch(void **state)
{
    (void)state;
    fake f;
    make_fake(&f, 50);
    dt_loader *l = created(&f, &(dt_loader_opts){.batch = 50, .ahead = 1});
    float first[100];
    memcpy(first, next(l).x, sizeof first);
    const dt_batch b = next(l);
    int same = 0;
    for (int i = 0; i < 50; i++)
        same += first[2 * i + 1] == b.x[2 * i + 1];
    assert_true(same < 5);
    dt_loader_destroy(l);
}

static void an_error_comes_after_the_good_batches_and_goes_with_seek(void **state)
{
    (void)state;
    fake f;
    make_fake(&f, 12);
    f.bad[f.n_bad++] = 7;
    dt_loader *l = created(&f, &(dt_loader_opts){.batch = 3, .ahead = 4});
    assert_int_equal(next(l).labels[0], 0);
    assert_int_equal(next(l).labels[0], 3);
    next_fails(l, DT_E_DATA, "sample 7 is bad");
    next_fails(l, DT_E_DATA, "sample 7 is bad");
    seek(l, 0);
    assert_int_equal(next(l).labels[0], 0);
    assert_int_equal(dt_loader_feed(l)->skipped, 0);
    assert_null(dt_loader_skipped(l, 0));
    dt_loader_destroy(l);
}

static void a_skipped_sample_makes_room_for_the_next(void **state)
{
    (void)state;
    fake f;
    make_fake(&f, 10);
    f.bad[f.n_bad++] = 2;
    f.bad[f.n_bad++] = 7;
    f.base.opts.skip_bad = true;
    f.base.opts.max_skips = 2;
    dt_loader *l = created(&f, &(dt_loader_opts){.batch = 4, .ahead = 2, .threads = 2});
    /* the end is filled from the epoch's own beginning, so that batches keep their sizes */
    static const int want[] = {0, 1, 3, 4, 5, 6, 8, 9, 0, 1};
    for (int epoch = 0; epoch < 3; epoch++) {
        int32_t got[10];
        take(l, got, 10, 4);
        for (int i = 0; i < 10; i++)
            assert_int_equal(got[i], want[i]);
        assert_int_equal(dt_loader_feed(l)->skipped, 2 * (epoch + 1));
    }
    assert_string_equal(dt_loader_skipped(l, 0), "sample 2 is bad");
    assert_string_equal(dt_loader_skipped(l, 1), "sample 7 is bad");
    assert_null(dt_loader_skipped(l, 2));
    dt_loader_destroy(l);
}

/* What fills the end is there for the batch's size alone. */
static void in_evaluation_none_counts_twice(void **state)
{
    (void)state;
    fake f;
    make_fake(&f, 10);
    f.bad[f.n_bad++] = 2;
    f.bad[f.n_bad++] = 9;
    f.base.opts.skip_bad = true;
    f.base.opts.max_skips = 2;
    dt_loader *l =
        created(&f, &(dt_loader_opts){.batch = 4, .ahead = 2, .threads = 2, .once = true});
    static const int want[] = {0, 1, 3, 4, 5, 6, 7, 8, DT_LABEL_NONE, DT_LABEL_NONE};
    for (int epoch = 0; epoch < 3; epoch++) {
        int32_t got[10];
        take(l, got, 10, 4);
        for (int i = 0; i < 10; i++)
            assert_int_equal(got[i], want[i]);
        seek(l, 0);
    }
    dt_loader_destroy(l);
}

static void a_known_bad_sample_is_not_read_again(void **state)
{
    (void)state;
    fake f;
    make_fake(&f, 4);
    f.bad[f.n_bad++] = 1;
    f.base.opts.skip_bad = true;
    f.base.opts.max_skips = 1;
    dt_loader *l = created(&f, &(dt_loader_opts){.batch = 4, .ahead = 1});
    for (int i = 0; i < 10; i++)
        next(l);
    dt_loader_destroy(l);
    /* once, and once more for the text of the error */
    assert_int_equal(atomic_load(&bad_reads), 2);
}

static void more_bad_samples_than_allowed_fail_the_run(void **state)
{
    (void)state;
    fake f;
    make_fake(&f, 20);
    f.bad[f.n_bad++] = 2;
    f.bad[f.n_bad++] = 9;
    f.bad[f.n_bad++] = 15;
    f.base.opts.skip_bad = true;
    f.base.opts.max_skips = 2;
    dt_loader *l = created(&f, &(dt_loader_opts){.batch = 5, .ahead = 1});
    next(l); /* 0 1 3 4 5 */
    next(l); /* 6 7 8 10 11 */
    next_fails(l, DT_E_DATA,
        "3 bad samples, at most 2 may be skipped (data.max_skips); the last one: sample 15 is bad");
    seek(l, 0);
    next_fails(l, DT_E_DATA, "3 bad samples");
    dt_loader_destroy(l);
}

static void when_all_samples_are_bad_it_ends(void **state)
{
    (void)state;
    fake f;
    make_fake(&f, 3);
    for (int i = 0; i < 3; i++)
        f.bad[f.n_bad++] = i;
    f.base.opts.skip_bad = true;
    f.base.opts.max_skips = 100;
    dt_loader *l = created(&f, &(dt_loader_opts){.batch = 2, .ahead = 1, .shuffle = true});
    next_fails(l, DT_E_DATA, "all 3 samples are bad; the first one: sample");
    dt_loader_destroy(l);
}

static void faults_of_the_machine_are_never_skipped(void **state)
{
    (void)state;
    static const dt_status faults[] = {DT_E_IO, DT_E_NOMEM};
    for (size_t i = 0; i < DT_COUNT(faults); i++) {
        fake f;
        make_fake(&f, 10);
        f.bad[f.n_bad++] = 1;
        f.status = faults[i];
        f.base.opts.skip_bad = true;
        f.base.opts.max_skips = 100;
        dt_loader *l = created(&f, &(dt_loader_opts){.batch = 2, .ahead = 1});
        next_fails(l, faults[i], "sample 1 is bad");
        dt_loader_destroy(l);
    }
}

static void options_out_of_range_are_refused(void **state)
{
    (void)state;
    static const struct {
        dt_loader_opts o;
        int64_t count;
        dt_status want;
        const char *text;
    } cases[] = {
        {{.batch = 0, .ahead = 1}, 5, DT_E_CONFIG, "batch 0"},
        {{.batch = 1, .ahead = 0}, 5, DT_E_CONFIG, "0 batches ahead"},
        {{.batch = 1, .ahead = 1, .threads = -1}, 5, DT_E_CONFIG, "-1 threads"},
        {{.batch = 1, .ahead = 1}, 0, DT_E_DATA, "no sample"},
        {{.batch = 6, .ahead = 1, .drop_last = true}, 5, DT_E_DATA, "no full batch of 6"},
        {{.batch = INT64_MAX / 2, .ahead = 4}, 5, DT_E_NOMEM, "no memory"},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        const long live = dti_alloc_live();
        fake f;
        make_fake(&f, cases[i].count);
        dt_err err = {0};
        dt_loader *l = NULL;
        assert_fails(
            dt_loader_create(&l, &f.base, &cases[i].o, &err), cases[i].want, &err, cases[i].text);
        assert_int_equal(dti_alloc_live(), live);
    }
    fake f;
    make_fake(&f, 5);
    dt_err err = {0};
    dt_loader *l = created(&f, &(dt_loader_opts){.batch = 1, .ahead = 1});
    dt_feed *feed = dt_loader_feed(l);
    assert_fails(feed->seek(feed->self, -1, &err), DT_E_CONFIG, &err, "epoch -1");
    dt_loader_destroy(l);
    dt_loader_destroy(NULL);
}

/* A feed that rests reads nothing, holds no batch, and begins where it is sought. */
static void a_feed_that_rests_holds_nothing(void **state)
{
    (void)state;
    enum { SIDE = 256 };
    fake f;
    make_fake(&f, 12);
    f.base.opts.shape = (dt_shape){1, SIDE, SIDE, 2};
    atomic_store(&reads, 0);
    dt_loader *l = created(&f, &(dt_loader_opts){.batch = 3, .ahead = 2, .rests = true});
    dt_feed *feed = dt_loader_feed(l);
    let_it_decode();
    assert_int_equal(atomic_load(&reads), 0);
    next_fails(l, DT_E_INTERNAL, "is sought before its next batch");
    for (int epoch = 0; epoch < 3; epoch++) {
        seek(l, epoch);
        const dt_batch first = taken(l, 0, 2 * SIDE * SIDE);
        float *x = (float *)(uintptr_t)first.x; /* the ring, of which it was the first slot */
        assert_true(x[2 * SIDE * SIDE] == 1);
        feed->rest(feed->self);
        const long read = atomic_load(&reads);
        assert_null(feed->peek(feed->self).x);
        for (size_t page = SIDE; page < 2 * SIDE * SIDE; page += SIDE)
            assert_true(x[page] == 0);
        assert_true(x[2 * SIDE * SIDE] == 0);
        next_fails(l, DT_E_INTERNAL, "is sought before its next batch");
        feed->rest(feed->self);
        let_it_decode();
        assert_int_equal(atomic_load(&reads), read);
    }
    dt_err err = {0};
    assert_ok(feed->seek_to(feed->self, 0, 2, 6, &err), &err);
    (void)taken(l, 6, 2 * SIDE * SIDE);
    (void)taken(l, 9, 2 * SIDE * SIDE);
    seek(l, 1);
    feed->rest(feed->self); /* before any of what was sought is there */
    seek(l, 1);
    (void)taken(l, 0, 2 * SIDE * SIDE);
    feed->rest(feed->self);
    dt_loader_destroy(l);
}

static void waiting_is_counted(void **state)
{
    (void)state;
    fake f;
    make_fake(&f, 2);
    f.nap = 20000000;
    dt_loader *l = created(&f, &(dt_loader_opts){.batch = 1, .ahead = 1});
    for (int i = 0; i < 6; i++)
        next(l);
    assert_true(dt_loader_feed(l)->wait_seconds > 0.02);
    assert_true(dt_loader_feed(l)->wait_seconds < 60);
    dt_loader_destroy(l);
}

/* Destroyed and sought at any moment, with a slow sample on its way. */
static void it_can_be_left_at_any_moment(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++) {
        fake f;
        make_fake(&f, 9);
        f.nap = 300000;
        dt_loader *l =
            created(&f, &(dt_loader_opts){.batch = 2, .ahead = 1 + i % 3, .threads = 1 + i % 3});
        for (int k = 0; k < i % 4; k++) {
            next(l);
            seek(l, k);
        }
        dt_loader_destroy(l);
    }
}

DT_TEST_GROUP(loader)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_shuffling_samples_come_in_order_and_again),
        cmocka_unit_test(a_batch_stays_until_the_next_one_is_asked_for),
        cmocka_unit_test(looking_at_what_comes_changes_nothing),
        cmocka_unit_test(what_is_not_decoded_does_not_come),
        cmocka_unit_test(dropping_the_last_leaves_only_full_batches),
        cmocka_unit_test(a_source_smaller_than_a_batch_makes_one_partial_batch),
        cmocka_unit_test(each_epoch_is_another_permutation),
        cmocka_unit_test(a_source_of_fixed_order_is_not_shuffled),
        cmocka_unit_test(seeking_gives_what_a_straight_run_gives),
        cmocka_unit_test(another_seed_gives_another_order_and_other_keys),
        cmocka_unit_test(the_same_sample_is_augmented_anew_each_epoch),
        cmocka_unit_test(an_error_comes_after_the_good_batches_and_goes_with_seek),
        cmocka_unit_test(a_skipped_sample_makes_room_for_the_next),
        cmocka_unit_test(in_evaluation_none_counts_twice),
        cmocka_unit_test(a_known_bad_sample_is_not_read_again),
        cmocka_unit_test(more_bad_samples_than_allowed_fail_the_run),
        cmocka_unit_test(when_all_samples_are_bad_it_ends),
        cmocka_unit_test(faults_of_the_machine_are_never_skipped),
        cmocka_unit_test(options_out_of_range_are_refused),
        cmocka_unit_test(a_feed_that_rests_holds_nothing),
        cmocka_unit_test(waiting_is_counted),
        cmocka_unit_test(it_can_be_left_at_any_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
