/* Copies on streams, to any tier, packed or not, late or not: training gives the same bits, and
 * what was moved is counted. */
#include <inttypes.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/codec.h"
#include "tests/fixture/check.h"
#include "tests/fixture/fake_driver.h"
#include "tests/fixture/fake_tier.h"
#include "tests/fixture/trainee.h"
#include "layers/registry.h"
#include "memory/codec_op.h"

enum { STEPS = 3, SEEDS = 6 };

static const struct network {
    const char *name;
    dt_graph *(*build)(void);
} networks[] = {{"plain", dt_trainee_plain}, {"resnet18", dt_trainee_resnet}};

static unsigned char *kept[DT_COUNT(networks)]; /* what keep_all trains */

static int train_keeping_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(networks); i++) {
        const dt_trainee_opts o = {.policies = "keep_all"};
        dt_trainee t = dt_trainee_open(networks[i].build(), &o);
        kept[i] = dt_trainee_train(&t, STEPS);
        dt_trainee_close(&t);
    }
    return 0;
}

static int free_kept(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(networks); i++)
        dt_free(kept[i]);
    return 0;
}

static void trains_the_same_bits(size_t network, const char *what, const dt_trainee_opts *o)
{
    char text[96];
    snprintf(text, sizeof text, "%s, %s", networks[network].name, what);
    dt_trainee t = dt_trainee_open(networks[network].build(), o);
    unsigned char *got = dt_trainee_train(&t, STEPS);
    assert_false(dti_runner_overflowed(t.runner));
    dt_trainee_same(&t, kept[network], got, text);
    dt_free(got);
    dt_trainee_close(&t);
}

static const struct way {
    const char *name;
    dt_trainee_opts o;
} ways[] = {
    {"host, inline", {.tier = DT_TIER_HOST}},
    {"host, threads", {.tier = DT_TIER_HOST, .copy_threads = true}},
    {"fake host, inline", {.tier = DT_TIER_HOST, .desc = &dt_fake_tier}},
    {"fake host, threads", {.tier = DT_TIER_HOST, .desc = &dt_fake_tier, .copy_threads = true}},
    {"tight, threads",
        {.policies = "keep_all", .tight = true, .tier = DT_TIER_HOST, .copy_threads = true}},
    {"fake disk", {.tier = DT_TIER_DISK, .desc = &dt_fake_tier}},
    {"fake disk, threads", {.tier = DT_TIER_DISK, .desc = &dt_fake_tier, .copy_threads = true}},
    {"tight, disk", {.policies = "keep_all", .tight = true, .tier = DT_TIER_DISK}},
    {"disk", {.tier = DT_TIER_DISK}},
};

static void every_way_to_move_trains_the_same_bits(void **state)
{
    (void)state;
    for (size_t n = 0; n < DT_COUNT(networks); n++)
        for (size_t i = 0; i < DT_COUNT(ways); i++)
            trains_the_same_bits(n, ways[i].name, &ways[i].o);
}

static void packing_on_the_way_changes_no_bit(void **state)
{
    (void)state;
    static const char *const codecs[] = {"zvc", "csr", "rle"};
    for (size_t n = 0; n < DT_COUNT(networks); n++)
        for (size_t i = 0; i < DT_COUNT(ways); i++) {
            char what[64];
            dt_trainee_opts o = ways[i].o;
            o.codec = dti_codec_find(codecs[(n + i) % DT_COUNT(codecs)]);
            o.density = 1;
            snprintf(what, sizeof what, "%s, %s", ways[i].name, o.codec->name);
            trains_the_same_bits(n, what, &o);
        }
}

/* The large network with the first seed only. */
static void late_streams_change_no_bit(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        for (size_t i = 0; i < DT_COUNT(ways); i++) {
            char what[64];
            dt_trainee_opts o = ways[i].o;
            if (!o.copy_threads && o.tier == DT_TIER_HOST)
                continue; /* no threads, no delays */
            if (!dt_picked(seed + i, 5, 2, 1))
                continue;
            if (seed % 2 == 0)
                o.codec = dti_codec_find("zvc");
            o.density = 1;
            o.delay_seed = seed;
            snprintf(what, sizeof what, "%s, seed %" PRIu64, ways[i].name, seed);
            trains_the_same_bits(0, what, &o);
            if (seed == 1)
                trains_the_same_bits(1, what, &o);
        }
}

static void a_checked_run_measures_what_is_planned_whatever_moves(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(ways); i++) {
        dt_trainee_opts o = ways[i].o;
        o.codec = dti_codec_find("zvc");
        o.density = 1;
        dt_trainee t = dt_trainee_open(dt_trainee_plain(), &o);
        const dt_run_args a = dt_trainee_args(&t, 0, 0);
        dt_measure m;
        dt_err err = {0};
        assert_ok(dt_runner_check(t.runner, t.id[DT_PROGRAM_FIRST], &a, &m, &err), &err);
        assert_int_equal(m.peak, t.plan[DT_PROGRAM_FIRST]->peak);
        assert_true(dt_runner_get_stats(t.runner).stall_seconds == 0); /* by no other thread */
        dt_trainee_close(&t);
    }
}

static void bytes_are_counted_by_tier_and_as_used(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(ways); i++) {
        const dt_tier tier = ways[i].o.tier;
        dt_trainee t = dt_trainee_open(dt_trainee_plain(), &ways[i].o);
        const dt_plan *p = t.plan[DT_PROGRAM_FIRST];
        dt_err err = {0};
        assert_ok(dt_trainee_run(&t, DT_PROGRAM_FIRST, &err), &err);
        const dt_runner_stats s = dt_runner_get_stats(t.runner);
        assert_int_equal(s.out[tier], p->out_bytes);
        assert_int_equal(s.in[tier] + s.in[DT_TIER_INPUT], p->in_bytes);
        assert_true(s.in[DT_TIER_INPUT] > 0);
        assert_int_equal(s.out[DT_TIER_HOST] + s.out[DT_TIER_DISK], s.out[tier]);
        dt_runner_reset_stats(t.runner);
        const dt_runner_stats none = dt_runner_get_stats(t.runner);
        assert_true(none.out[tier] == 0 && none.in[tier] == 0 && none.copy_seconds == 0 &&
                    none.stall_seconds == 0);
        dt_trainee_close(&t);

        dt_trainee_opts o = ways[i].o;
        o.codec = dti_codec_find("zvc");
        o.density = 1;
        t = dt_trainee_open(dt_trainee_plain(), &o);
        const long written = dt_fake_state.written, read = dt_fake_state.read;
        assert_ok(dt_trainee_run(&t, DT_PROGRAM_FIRST, &err), &err);
        const dt_runner_stats packed = dt_runner_get_stats(t.runner);
        assert_true(packed.out[tier] < s.out[tier] && packed.out[tier] > 0);
        assert_true(packed.out[tier] < t.plan[DT_PROGRAM_FIRST]->out_bytes);
        assert_int_equal(packed.in[tier], packed.out[tier]);
        if (o.desc == &dt_fake_tier) {
            assert_int_equal(dt_fake_state.written - written, packed.out[tier]);
            assert_int_equal(dt_fake_state.read - read, packed.in[tier]);
        }
        dt_trainee_close(&t);
    }
}

/* tflms moves a tensor out again when another's slot is free: into that one. */
static void use_a_slot_again(dt_plan *p, void *arg)
{
    dt_row *out = NULL, *before = NULL;
    (void)arg;
    for (size_t i = 0; i < p->n_row; i++) {
        dt_row *row = &p->row[i];
        if (row->kind == DT_ROW_COPY_OUT) {
            before = out;
            out = row;
        }
    }
    assert_true(before != NULL && before->codec == out->codec && before->tensor != out->tensor &&
                before->stored == out->stored);
    for (dt_row *in = out; in < p->row + p->n_row; in++)
        if (in->kind == DT_ROW_COPY_IN && in->tensor == out->tensor)
            in->slot = before->slot;
    out->slot = before->slot;
}

/* What a run of such a plan moves out, and in again; @most: the slots. */
static uint64_t moved_out(const dt_tier_desc *desc, const dt_driver *driver, uint64_t *most)
{
    const dt_trainee_opts o = {.policies = "tflms",
        .tier = DT_TIER_HOST,
        .desc = desc,
        .codec = dti_codec_find("zvc"),
        .density = 1,
        .driver = driver,
        .edit = use_a_slot_again};
    dt_trainee t = dt_trainee_open(dt_trainee_plain(), &o);
    dt_err err = {0};
    *most = t.plan[DT_PROGRAM_FIRST]->out_bytes;
    assert_ok(dt_trainee_run(&t, DT_PROGRAM_FIRST, &err), &err);
    const dt_runner_stats s = dt_runner_get_stats(t.runner);
    assert_int_equal(s.in[DT_TIER_HOST], s.out[DT_TIER_HOST]);
    dt_trainee_close(&t);
    return s.out[DT_TIER_HOST];
}

/* A device that works later does not know all lengths: what it does not is counted as the slot. */
static void packed_bytes_are_counted_though_their_slot_is_used_again(void **state)
{
    (void)state;
    uint64_t most;
    const uint64_t written = moved_out(&dt_fake_tier, NULL, &most);
    assert_int_equal(moved_out(NULL, NULL, &most), written);
    const uint64_t later = moved_out(NULL, dt_fake_driver(&(dt_fake_opts){.seed = 1}), &most);
    assert_true(later > written && later < most);
}

static void time_lost_is_told_apart(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(ways); i++) {
        const dt_trainee_opts *o = &ways[i].o;
        if (o->desc == NULL)
            continue;
        const bool threads = o->copy_threads || o->tier == DT_TIER_DISK;
        dt_trainee t = dt_trainee_open(dt_trainee_plain(), o);
        dt_err err = {0};
        dt_fake_state.slow = 2;
        assert_ok(dt_trainee_run(&t, DT_PROGRAM_FIRST, &err), &err);
        dt_fake_state.slow = 0;
        const dt_runner_stats s = dt_runner_get_stats(t.runner);
        if (threads)
            assert_true(s.stall_seconds > 0.002);
        else
            assert_true(s.stall_seconds == 0 && s.copy_seconds > 0.002);
        if (o->copy_threads)
            assert_true(s.copy_seconds == 0);
        dt_trainee_close(&t);
    }
}

/* Values kept packed, or moved packed, into room for a hundredth of them. */
static void packed_bytes_that_do_not_fit_are_told(void **state)
{
    (void)state;
    const dt_codec *zvc = dti_codec_find("zvc");
    for (size_t i = 0; i <= DT_COUNT(ways); i++) {
        dt_trainee_opts o = {.policies = "keep_all", .encode = zvc, .encode_density = 0.01};
        if (i < DT_COUNT(ways)) {
            o = ways[i].o;
            o.codec = zvc;
            o.density = 0.01;
        }
        dt_trainee t = dt_trainee_open(dt_trainee_plain(), &o);
        const dt_run_args a = dt_trainee_args(&t, 0, 0);
        dt_err err = {0};
        for (int again = 0; again < 2; again++) {
            assert_ok(dt_trainee_run(&t, DT_PROGRAM_FIRST, &err), &err);
            assert_true(dti_runner_overflowed(t.runner));
            assert_ok(dt_runner_run(t.runner, t.id[DT_PROGRAM_EVAL], &a, &err), &err);
            assert_false(dti_runner_overflowed(t.runner)); /* nothing is packed there */
        }
        dt_trainee_close(&t);
    }
}

static void values_kept_packed_train_the_same_bits(void **state)
{
    (void)state;
    const dt_trainee_opts o = {
        .policies = "keep_all", .encode = dti_codec_find("zvc"), .encode_density = 0.9};
    trains_the_same_bits(0, "encoded", &o);
}

static void a_tier_hears_what_is_asked_and_its_note_is_kept(void **state)
{
    (void)state;
    dt_err err = {0};
    const dt_trainee_opts to = {.policies = "keep_all"};
    dt_trainee t = dt_trainee_open(dt_trainee_plain(), &to);
    dt_runner_opts o = {.graph = t.graph,
        .map = t.map,
        .find_op = dt_layer_find,
        .codecs = &dt_codecs,
        .arena_bytes = t.plan[DT_PROGRAM_FIRST]->peak,
        .tier_bytes = {[DT_TIER_DISK] = 4096},
        .checksum = true,
        .threads = 1};
    dt_runner *r;
    assert_fails(dt_runner_create(&r, &o, &err), DT_E_INTERNAL, &err, "no such tier");
    assert_null(r);
    o.tier[DT_TIER_DISK] = &dt_fake_tier;
    err = (dt_err){0};
    assert_ok(dt_runner_create(&r, &o, &err), &err);
    assert_int_equal(dt_fake_state.reserved.bytes, 4096);
    assert_true(dt_fake_state.reserved.checksum);
    assert_string_equal(dt_runner_note(r, DT_TIER_DISK), "made of memory");
    assert_null(dt_runner_note(r, DT_TIER_HOST));
    dt_runner_destroy(r);
    const long live = dti_alloc_live();
    for (long k = 1; k <= 5; k++) { /* the runner, the tier, the device, its numbers, streams */
        err = (dt_err){0};
        dti_alloc_fail_at(k);
        assert_fails(dt_runner_create(&r, &o, &err), DT_E_NOMEM, &err, "no memory");
        assert_null(r);
        assert_int_equal(dti_alloc_live(), live);
    }
    dti_alloc_fail_at(0);
    dt_trainee_close(&t);
}

DT_TEST_GROUP(runner_moves)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_to_move_trains_the_same_bits),
        cmocka_unit_test(packing_on_the_way_changes_no_bit),
        cmocka_unit_test(late_streams_change_no_bit),
        cmocka_unit_test(a_checked_run_measures_what_is_planned_whatever_moves),
        cmocka_unit_test(bytes_are_counted_by_tier_and_as_used),
        cmocka_unit_test(packed_bytes_are_counted_though_their_slot_is_used_again),
        cmocka_unit_test(time_lost_is_told_apart),
        cmocka_unit_test(packed_bytes_that_do_not_fit_are_told),
        cmocka_unit_test(values_kept_packed_train_the_same_bits),
        cmocka_unit_test(a_tier_hears_what_is_asked_and_its_note_is_kept),
    };
    return cmocka_run_group_tests(tests, train_keeping_all, free_kept);
}
