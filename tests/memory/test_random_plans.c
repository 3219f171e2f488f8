/* Over many random networks, random fates and random homes: the verifier accepts every plan that
 * lowering makes, every schedule its events allow reads what program order says, no WAIT and no
 * copy can be left out, and training gives the same bits as when everything is kept. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/cpu.h"
#include "engine/runner/runner_internal.h"
#include "layers/plain.h"
#include "layers/loss/value_losses.h"
#include "memory/lower/lower.h"
#include "memory/tier.h"
#include "memory/verify/verify.h"
#include "tests/fixture/check.h"
#include "tests/fixture/interleave.h"
#include "tests/fixture/random_graph.h"
#include "tests/fixture/random_pass.h"
#include "tests/fixture/state.h"
#include "layers/registry.h"
#include "memory/codec_op.h"

enum {
    GRAPHS = 3000,
    EACH_AT_LEAST = 100,
    STEPS = 2,
    CLASSES = 5,
    SCHEDULES = 5,
    BRIEF_NODES = 2000
};

static const dt_plain_ops plain = {&dt_layer_sum, &dt_layer_commit, &dt_layer_sgd, NULL};

/* What all tests of this program did together; the last test looks at it. */
static struct tally {
    int64_t graphs, plans, rows, three_readers;
    dt_fates planned, trained;
    int64_t homes, dropped_waits, dropped_copies, corrupted, harmless, races, overflowed;
} tally;

static int64_t scaled(int64_t n)
{
    return n / dt_scaled(20, 24, 1);
}

/* What a sample may happen to have few of. */
static int64_t at_least(int64_t n)
{
    return n / dt_scaled(80, 96, 1);
}

/* Number of the first network; each seed has others. */
static uint64_t first_network(void)
{
    enum { APART = 1 << 16 };
    return dt_test_seed() % APART * APART;
}

static void check(bool ok, uint64_t seed, const char *what, const dt_err *err)
{
    if (!ok)
        fail_msg("network %" PRIu64 ": %s: %s", seed, what, err != NULL ? err->text : "");
}

/* A random network with its map, one that has some tensors live in tiers, and its batch. */
typedef struct subject {
    uint64_t seed;
    dt_graph *graph;
    dt_map *map, *scattered;
    int64_t n;
    int threads;
    dt_dice dice;
} subject;

/* Half of the networks have all at home on the device, as most runs do. Some of the others have
 * nothing on the disk, and updates in slices so small that all but the smallest tensors are cut. */
static void scatter(subject *s)
{
    dt_dice d = {s->seed + 2000000, 0};
    dt_err err = {0};
    const bool some = dt_roll(&d, 2) == 0, sliced = s->seed % 3 == 2;
    dt_tier *tier = dt_alloc(s->map->n, sizeof *tier);
    assert_non_null(tier);
    for (size_t i = 0; i < s->map->n; i++) {
        const uint32_t face = dt_roll(&d, 4);
        tier[i] = !some || face < 2     ? DT_AT_DEVICE
                  : face == 2 || sliced ? DT_TIER_HOST
                                        : DT_TIER_DISK;
        tally.homes += tier[i] != DT_AT_DEVICE;
    }
    check(dt_map_create(&s->scattered, s->graph, NULL, s->n, 1, &err) == DT_OK &&
              dt_map_settle(s->scattered, tier, s->seed % 3 == 1, &err) == DT_OK,
        s->seed, "homes", &err);
    s->scattered->slice = sliced ? 64 * (1 + dt_roll(&d, 4)) : 0;
    dt_free(tier);
}

/* Two of five networks learn numbers. */
static const dt_layer_desc *loss_of(uint64_t seed)
{
    const uint64_t k = seed / 2 % 5;
    return k == 1 ? &dt_layer_mse : k == 3 ? &dt_layer_bce : &dt_layer_cross_entropy;
}

static subject open_subject(uint64_t seed)
{
    subject s = {.seed = seed,
        .graph = dt_random_graph_of(seed, loss_of(seed)),
        .dice = {seed + 1000000, 0}};
    dt_err err = {0};
    s.n = dt_roll_in(&s.dice, 2, 6);
    /* What kernels need depends on how many threads there are, so it is said before planning. */
    s.threads = seed % 256 == 0 ? 2 : 1;
    check(dt_cpu_setup(s.threads) == s.threads, seed, "threads", NULL);
    check(dt_map_create(&s.map, s.graph, NULL, s.n, 1, &err) == DT_OK, seed, "map", &err);
    scatter(&s);
    return s;
}

static void close_subject(subject *s)
{
    dt_map_destroy(s->map);
    dt_map_destroy(s->scattered);
    dt_graph_destroy(s->graph);
}

/* A program of the network, as its author wrote it or with random homes; then also after the random
 * pass, if that is to tell @f. */
static dt_program *program(const subject *s, dt_program_kind kind, bool random, dt_fates *f)
{
    dt_program *p;
    dt_err err = {0};
    const dt_map *map = random ? s->scattered : s->map;
    const dt_program_opts o = {s->graph, map, NULL, kind, s->n, plain, NULL, s->seed % 2 == 0};
    check(dt_program_create(&p, &o, &err) == DT_OK, s->seed, "program", &err);
    for (size_t i = 0; random && i < p->n_op; i++)
        p->op[i].on_host = p->op[i].kind == DT_OP_UPDATE && s->seed % 4 < 2 && map->slice == 0;
    if (random && f != NULL && kind != DT_PROGRAM_UPDATE)
        check(dt_random_pass(p, s->seed * 8 + kind, f, &err) == DT_OK, s->seed, "pass", &err);
    return p;
}

static dt_plan *lowered(const subject *s, dt_program *p, const dt_pool_desc *pool)
{
    dt_plan *plan;
    dt_err err = {0};
    const uint64_t ahead = s->seed % 3 == 0 ? 0 : UINT64_C(256) << s->seed % 10;
    const dt_lower_opts o = {.pool = pool, .policy = "random", .ahead = {0, ahead, ahead}};
    check(dt_lower(&plan, p, &o, &err) == DT_OK, s->seed, "lower", &err);
    check(dt_verify(plan, &err) == DT_OK, s->seed, "verify", &err);
    check(plan->peak >= plan->bound, s->seed, "a peak below its bound", NULL);
    return plan;
}

/* The plan without one row. */
static dt_plan without(const dt_plan *p, size_t row, dt_row *rows)
{
    dt_plan less = *p;
    memcpy(rows, p->row, row * sizeof *rows);
    memcpy(rows + row, p->row + row + 1, (p->n_row - row - 1) * sizeof *rows);
    less.row = rows;
    less.n_row--;
    return less;
}

/* Each WAIT and each copy is needed. That some schedule goes wrong without a WAIT is counted, to
 * see that schedules can go wrong. */
static void drop_rows(const subject *s, const dt_plan *p, dt_row *rows)
{
    for (size_t i = 0; i < p->n_row; i++) {
        const bool copy = p->row[i].kind == DT_ROW_COPY_OUT || p->row[i].kind == DT_ROW_COPY_IN;
        if (p->row[i].kind != DT_ROW_WAIT && !copy)
            continue;
        const dt_plan less = without(p, i, rows);
        char what[64];
        snprintf(what, sizeof what, "accepted without row %zu", i);
        check(dt_verify(&less, NULL) == DT_E_DATA, s->seed, what, NULL);
        tally.dropped_waits += !copy;
        tally.dropped_copies += copy;
        if (!copy && i % 4 == 0)
            tally.races += dt_interleave(&less, s->seed, 2) != DT_INTERLEAVE_FINE;
    }
}

/* Shift a placed interval, or exchange two neighbouring rows. */
static void corrupt(dt_dice *d, const dt_plan *p, dt_row *rows)
{
    memcpy(rows, p->row, p->n_row * sizeof *rows);
    const size_t i = dt_roll(d, (uint32_t)p->n_row - 1);
    if (dt_roll(d, 2) == 0) {
        const dt_row r = rows[i];
        rows[i] = rows[i + 1];
        rows[i + 1] = r;
        return;
    }
    const int32_t t = rows[i].tensor;
    const uint64_t by = 64 * (1 + dt_roll(d, 8));
    const bool up = dt_roll(d, 2) == 0;
    for (size_t k = 0; t >= 0 && k < p->n_row; k++)
        if (rows[k].tensor == t)
            rows[k].off = up ? rows[k].off + by : rows[k].off - by;
}

/* A plan that was tampered with is refused, unless every schedule is still right. */
static void tamper(subject *s, const dt_plan *p, dt_row *rows)
{
    for (int k = 0; k < 4; k++) {
        dt_plan bad = *p;
        corrupt(&s->dice, p, rows);
        bad.row = rows;
        if (dt_verify(&bad, NULL) == DT_OK) {
            const int32_t row = dt_interleave(&bad, s->seed, SCHEDULES);
            char what[96];
            snprintf(what, sizeof what, "tampered plan %d accepted, but row %" PRId32, k, row);
            check(row == DT_INTERLEAVE_FINE, s->seed, what, NULL);
            tally.harmless++;
        }
        tally.corrupted++;
    }
}

static void attack(subject *s, const dt_plan *p)
{
    const int32_t row = dt_interleave(p, s->seed, SCHEDULES);
    char what[64];
    snprintf(what, sizeof what, "a schedule goes wrong at row %" PRId32, row);
    check(row == DT_INTERLEAVE_FINE, s->seed, what, NULL);
    dt_row *rows = dt_alloc(p->n_row, sizeof *rows);
    assert_non_null(rows);
    drop_rows(s, p, rows);
    tamper(s, p, rows);
    dt_free(rows);
}

/* A pool that searches stops early here: where lowering puts things is of any quality, and what a
 * whole search finds is test_pool's. */
static dt_status brief(dt_interval *v, size_t n, uint64_t *peak, dt_err *err)
{
    dt_pool_effort effort = {.max_nodes = BRIEF_NODES};
    return dt_pool_find("exact")->search(v, n, &effort, peak, err);
}

static dt_pool_desc pool_of(size_t i)
{
    size_t pools;
    const dt_pool_desc *const *pool = dt_pool_all(&pools);
    dt_pool_desc d = *pool[i % pools];
    if (d.search != NULL) {
        assert_string_equal(d.name, "exact");
        d.place = brief;
    }
    return d;
}

static size_t pools(void)
{
    size_t n;
    (void)dt_pool_all(&n);
    return n;
}

static void random_plans_are_sound_and_no_wait_or_copy_is_idle(void **state)
{
    (void)state;
    for (int64_t i = 0; i < scaled(GRAPHS); i++) {
        subject s = open_subject(first_network() + (uint64_t)i);
        const dt_program_kind kind = i % 8 == 5    ? DT_PROGRAM_AGAIN
                                     : i % 8 == 6  ? DT_PROGRAM_EVAL
                                     : i % 32 == 7 ? DT_PROGRAM_UPDATE
                                                   : DT_PROGRAM_FIRST;
        dt_program *p = program(&s, kind, true, &tally.planned);
        for (size_t k = 0; k < pools(); k++) {
            const dt_pool_desc pool = pool_of(k);
            dt_plan *plan = lowered(&s, p, &pool);
            attack(&s, plan);
            tally.plans++;
            tally.rows += (int64_t)plan->n_row;
            dt_plan_destroy(plan);
        }
        tally.graphs++;
        tally.three_readers += dt_most_readers(s.graph) >= 3;
        dt_program_destroy(p);
        close_subject(&s);
    }
}

/* Programs of a training step, prepared; and, for steps whose packed values do not fit, those that
 * keep everything. */
typedef struct trainee {
    dt_program *program[2 * DT_PROGRAM_KINDS];
    dt_plan *plan[2 * DT_PROGRAM_KINDS];
    int id[2 * DT_PROGRAM_KINDS];
    dt_runner *runner;
} trainee;

static trainee prepare(const subject *s, bool random)
{
    const dt_pool_desc pool = pool_of((size_t)s->seed);
    trainee t = {.runner = NULL};
    dt_err err = {0};
    dt_runner_opts o = {.graph = s->graph,
        .map = random ? s->scattered : s->map,
        .find_op = dt_layer_find,
        .codecs = &dt_codecs,
        .seed = s->seed,
        .threads = s->threads,
        .tier = {[DT_TIER_HOST] = dt_tier_desc_find("host"),
            [DT_TIER_DISK] = dt_tier_desc_find("disk")},
        .disk_path = dt_temp_root(),
        .checksum = true,
        .copy_threads = s->seed % 6 == 0};
    for (int k = 0; k < 2 * DT_PROGRAM_KINDS; k++) {
        const bool plain_one = k >= DT_PROGRAM_KINDS;
        const dt_program_kind kind = (dt_program_kind)(k % DT_PROGRAM_KINDS);
        t.program[k] = program(s, kind, random, plain_one ? NULL : &tally.trained);
        t.plan[k] = lowered(s, t.program[k], &pool);
        o.arena_bytes = t.plan[k]->peak > o.arena_bytes ? t.plan[k]->peak : o.arena_bytes;
        if (t.plan[k]->tier_peak[DT_TIER_HOST] > o.tier_bytes[DT_TIER_HOST])
            o.tier_bytes[DT_TIER_HOST] = t.plan[k]->tier_peak[DT_TIER_HOST];
        if (t.plan[k]->tier_peak[DT_TIER_DISK] > o.tier_bytes[DT_TIER_DISK])
            o.tier_bytes[DT_TIER_DISK] = t.plan[k]->tier_peak[DT_TIER_DISK];
    }
    check(dt_runner_create(&t.runner, &o, &err) == DT_OK, s->seed, "runner", &err);
    dti_runner_set_delay(t.runner, s->seed % 12 == 0 ? s->seed + 1 : 0);
    for (int k = 0; k < 2 * DT_PROGRAM_KINDS; k++)
        check(dt_runner_add(t.runner, t.plan[k], &t.id[k], &err) == DT_OK, s->seed, "add", &err);
    return t;
}

static void dismiss(trainee *t)
{
    dt_runner_destroy(t->runner);
    for (int k = 0; k < 2 * DT_PROGRAM_KINDS; k++) {
        dt_plan_destroy(t->plan[k]);
        dt_program_destroy(t->program[k]);
    }
}

/* Every plan that works on a batch uses exactly the bytes it declares. */
static void measure(const subject *s, trainee *t, const dt_run_args *a)
{
    for (int k = 0; k < DT_PROGRAM_KINDS; k++) {
        dt_measure m;
        dt_err err = {0};
        check(dt_runner_check(t->runner, t->id[k], a, &m, &err) == DT_OK, s->seed, "checked run",
            &err);
        char what[96];
        snprintf(what, sizeof what, "planned %" PRIu64 " bytes, measured %" PRIu64,
            t->plan[k]->peak, m.peak);
        check(k == DT_PROGRAM_UPDATE ? m.peak <= t->plan[k]->peak : m.peak == t->plan[k]->peak,
            s->seed, what, NULL);
        check(m.tier[DT_TIER_HOST] == t->plan[k]->tier_peak[DT_TIER_HOST] &&
                  m.tier[DT_TIER_DISK] == t->plan[k]->tier_peak[DT_TIER_DISK],
            s->seed, "a tier is not used as planned", NULL);
    }
}

/* False when packed values did not fit. */
static bool run(const subject *s, trainee *t, int k, const dt_run_args *a)
{
    dt_err err = {0};
    check(dt_runner_run(t->runner, t->id[k], a, &err) == DT_OK, s->seed, "run", &err);
    return !dti_runner_overflowed(t->runner);
}

/* The gradients of a step of two micro-batches, by the programs from @from on. */
static bool gradients(
    const subject *s, trainee *t, int from, dt_run_args *a, const float *x, const int32_t *labels)
{
    const size_t image = (size_t)dti_runner_sample(t->runner) * (size_t)s->n;
    for (int micro = 0; micro < 2; micro++) {
        a->batch.x = x + (size_t)micro * image;
        a->batch.labels = labels + micro * s->n * dti_runner_labels(t->runner);
        a->sample0 = micro * s->n;
        if (!run(s, t, from + (micro == 0 ? DT_PROGRAM_FIRST : DT_PROGRAM_AGAIN), a))
            return false;
    }
    return true;
}

/* Everything that outlives a step, after some steps of two micro-batches and an evaluation. */
static unsigned char *state_after(
    const subject *s, bool random, const float *x, const int32_t *labels)
{
    trainee t = prepare(s, random);
    dt_err err = {0};
    dt_run_args a = {
        .batch = {x, labels, s->n}, .step_labels = 2 * s->n, .hyper = {0.05F, 0.9F, 0.001F}};
    a.step_labels *= dt_graph_labels(s->graph);
    measure(s, &t, &a);
    check(dt_runner_init(t.runner, &err) == DT_OK, s->seed, "init", &err);
    for (a.step = 0; a.step < STEPS; a.step++) {
        if (!gradients(s, &t, 0, &a, x, labels)) { /* the whole step again, without packing */
            tally.overflowed++;
            check(gradients(s, &t, DT_PROGRAM_KINDS, &a, x, labels), s->seed,
                "overflow without an encoder", NULL);
        }
        check(run(s, &t, DT_PROGRAM_UPDATE, &a), s->seed, "overflow in update", NULL);
        dti_runner_settle(t.runner, true);
    }
    check(run(s, &t, DT_PROGRAM_EVAL, &a) || run(s, &t, DT_PROGRAM_KINDS + DT_PROGRAM_EVAL, &a),
        s->seed, "overflow in evaluation", NULL);
    unsigned char *copy = dt_state_copy(t.runner, random ? s->scattered : s->map);
    dismiss(&t);
    return copy;
}

static void same_bits(const subject *s, const unsigned char *kept, const unsigned char *random)
{
    bool trained = false; /* some momentum is not zero */
    for (size_t i = 0; i < s->map->n; i++) {
        const dt_home *h = &s->map->home[i];
        check(memcmp(kept + h->off, random + h->off, h->bytes) == 0, s->seed, h->name, NULL);
        for (size_t k = 0; k < h->bytes && h->role == DT_ROLE_OPTIMIZER; k++)
            trained = trained || kept[h->off + k] != 0;
    }
    check(trained, s->seed, "nothing was trained", NULL);
    const dt_metrics *m = (const void *)(kept + s->map->home[s->map->n - 1].off);
    check(m->count == s->n * dt_graph_labels(s->graph), s->seed, "no evaluation was done", NULL);
}

/* Here a value was copied out, recomputed before that and encoded behind it, and the copy back
 * brought the old version. */
static const uint64_t once_wrong = 3608936678;

static void random_fates_train_the_same_bits_as_keep_all(void **state)
{
    (void)state;
    for (int64_t i = -1; i < scaled(GRAPHS) / 2; i++) {
        subject s = open_subject(i < 0 ? once_wrong : first_network() + (uint64_t)(2 * i));
        const size_t image = (size_t)dt_shape_sample(&s.graph->input), n = 2 * (size_t)s.n;
        float *x = dt_alloc(n * image, sizeof *x);
        const size_t each = (size_t)dt_graph_labels(s.graph);
        const bool classes = dt_graph_label_kind(s.graph) == DT_LABEL_CLASS;
        int32_t *labels = dt_alloc(n * each, sizeof *labels);
        assert_true(x != NULL && labels != NULL);
        for (size_t k = 0; k < n * image; k++)
            x[k] = (float)dt_roll(&s.dice, 2001) / 1000.0F - 1.0F;
        for (size_t k = 0; k < n * each; k++) {
            const uint32_t class = dt_roll(&s.dice, CLASSES);
            labels[k] = classes ? (int32_t) class : dt_label_of_value((float)class / CLASSES);
        }
        unsigned char *kept = state_after(&s, false, x, labels);
        unsigned char *random = state_after(&s, true, x, labels);
        same_bits(&s, kept, random);
        dt_free(kept);
        dt_free(random);
        dt_free(x);
        dt_free(labels);
        close_subject(&s);
    }
}

static void print(const char *where, const dt_fates *f)
{
    print_message("%s: %" PRId64 " moves (%" PRId64 " to the disk, %" PRId64 " packed), %" PRId64
                  " refetches, %" PRId64 " recomputes, %" PRId64 " repeated, %" PRId64
                  " alternatives, %" PRId64 " splits, %" PRId64 " encodes (%" PRId64 " moved)\n",
        where, f->moves, f->disk_moves, f->packed_moves, f->refetches, f->recomputes, f->repeated,
        f->alternatives, f->splits, f->encodes, f->encoded_moves);
}

static void enough(const dt_fates *f)
{
    const int64_t all[] = {f->moves, f->refetches, f->recomputes, f->repeated, f->alternatives,
        f->splits, f->encodes, f->disk_moves, f->packed_moves, f->encoded_moves};
    for (size_t i = 0; i < DT_COUNT(all); i++)
        assert_true(all[i] >= at_least(EACH_AT_LEAST));
}

static void every_kind_of_fate_has_occurred_often(void **state)
{
    (void)state;
    print("planned", &tally.planned);
    print("trained", &tally.trained);
    print_message("%" PRId64 " networks (%" PRId64 " with a value read by three layers, %" PRId64
                  " tensors at home in tiers), %" PRId64 " plans, %" PRId64
                  " rows; without one of %" PRId64 " waits or %" PRId64
                  " copies all refused, of the waits %" PRId64 " seen to go wrong; %" PRId64
                  " tampered, %" PRId64 " of them still right\n",
        tally.graphs, tally.three_readers, tally.homes, tally.plans, tally.rows,
        tally.dropped_waits, tally.dropped_copies, tally.races, tally.corrupted, tally.harmless);
    enough(&tally.planned);
    enough(&tally.trained);
    assert_true(tally.graphs >= scaled(GRAPHS));
    assert_true(tally.three_readers >= at_least(EACH_AT_LEAST));
    assert_true(tally.homes >= at_least(EACH_AT_LEAST));
    assert_true(tally.races >= at_least(EACH_AT_LEAST));
    assert_true(tally.overflowed >= at_least(EACH_AT_LEAST));
    assert_true(tally.harmless < tally.corrupted);
}

DT_TEST_GROUP(random_plans)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_plans_are_sound_and_no_wait_or_copy_is_idle),
        cmocka_unit_test(random_fates_train_the_same_bits_as_keep_all),
        cmocka_unit_test(every_kind_of_fate_has_occurred_often),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
