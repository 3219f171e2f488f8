/* A weight as pairs of bf16, against its definition and against the library's reorder. */
#include "tests/fixture/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cpu.h"
#include "layers/blocked/weight_pairs.h"
#include "layers/onednn/onednn.h"
#include "tests/fixture/layer_check.h"

static const dti_weight_pairs rows[] = {
    {16, 32, 1, 16, false, false},    /* smallest */
    {16, 32, 1, 16, true, false},     /* of rows */
    {96, 64, 1, 32, false, false},    /* panels and blocks */
    {96, 320, 1, 48, false, false},   /* more blocks than a task has */
    {192, 96, 9, 64, true, false},    /* taps */
    {64, 32, 25, 64, true, false},    /* one panel */
    {128, 288, 1, 128, false, false}, /* wide */
    {80, 64, 1, 48, false, false},    /* columns of the last panel that are none */
    {80, 64, 9, 48, true, false},     /* likewise */
    {16, 32, 1, 48, true, false},     /* a part of one panel */
    {16, 32, 1, 0, true, true},       /* transposed */
    {80, 96, 1, 0, true, true},       /* tiles both ways */
};

static size_t count_of(const dti_weight_pairs *w)
{
    return (size_t)(w->out * w->in * w->taps);
}

/* With the columns that fill the last panel. */
static size_t padded_count_of(const dti_weight_pairs *w)
{
    const int64_t n = w->transposed ? 1 : w->columns;
    return (size_t)((w->out + n - 1) / n * n * w->in * w->taps);
}

/* Values of all sizes, ties of rounding, zeros of both signs and what is not finite. */
static float *weight_of(size_t n)
{
    static const float odd[] = {0.0F, -0.0F, 1.00390625F, 1.01171875F, -1.00390625F, 3.4e38F,
        -3.4028235e38F, INFINITY, -INFINITY, 1e-37F};
    float *v = dt_random_values(n, 5);
    for (size_t i = 0; i < n; i++)
        v[i] = i % 7 == 0 ? odd[i / 7 % DT_COUNT(odd)] : ldexpf(v[i], (int)(i % 41) - 20);
    return v;
}

/* Where element o, i, tap is before and after. */
static size_t from_at(const dti_weight_pairs *w, int64_t o, int64_t i, int64_t tap)
{
    return (size_t)(w->hwio ? (tap * w->in + i) * w->out + o : o * w->in + i);
}

static size_t to_at(const dti_weight_pairs *w, int64_t o, int64_t i, int64_t tap)
{
    if (w->transposed)
        return (size_t)(o * w->in + i);
    const int64_t n = w->columns, block = (o / n * w->taps + tap) * (w->in / 32) + i / 32;
    return (size_t)(block * 32 * n + i % 32 / 2 * 2 * n + o % n * 2 + i % 2);
}

static void is_its_definition(void **state)
{
    (void)state;
    if (!dti_weight_pairs_can(&rows[0]))
        skip();
    for (size_t r = 0; r < DT_COUNT(rows); r++)
        for (int threads = 1; threads <= 3; threads += 2) {
            const dti_weight_pairs *w = &rows[r];
            float *from = weight_of(count_of(w));
            const size_t all = padded_count_of(w);
            dt_bf16 *to = malloc(all * sizeof *to);
            size_t zeros = 0;
            assert_non_null(to);
            memset(to, 0xFF, all * sizeof *to);
            dt_cpu_setup(threads);
            dti_weight_pairs_run(w, from, to);
            for (int64_t o = 0; o < w->out; o++)
                for (int64_t i = 0; i < w->in; i++)
                    for (int64_t tap = 0; tap < w->taps; tap++) {
                        const dt_bf16 want = dt_bf16_from_float(from[from_at(w, o, i, tap)]);
                        if (memcmp(&to[to_at(w, o, i, tap)], &want, sizeof want) != 0)
                            fail_msg("row %zu: output %d, input %d, tap %d", r, (int)o, (int)i,
                                (int)tap);
                    }
            for (int64_t o = w->out; o < (int64_t)(all / (size_t)(w->in * w->taps)); o++)
                for (int64_t i = 0; i < w->in; i++)
                    for (int64_t tap = 0; tap < w->taps; tap++)
                        zeros += dt_bf16_to_float(to[to_at(w, o, i, tap)]) == 0;
            assert_int_equal(zeros, all - count_of(w));
            free(from);
            free(to);
        }
}

/* Of c channels and side x side pixels to out and result x result. */
#define PROBLEM(lives_hwio, channels, side, outputs, result, k, by)                                \
    {                                                                                              \
        .bf16 = 1, .hwio = (lives_hwio), .groups = 1, .c = (channels), .h = (side), .w = (side),   \
        .out = (outputs), .p = (result), .q = (result), .kernel = (k), .stride = (by),             \
        .pad = (k) / 2, .dilation = 1                                                              \
    }

static const dt_dnnl_problem problems[] = {
    PROBLEM(0, 64, 9, 256, 9, 1, 1),
    PROBLEM(1, 96, 14, 128, 14, 3, 1),
    PROBLEM(1, 128, 14, 64, 7, 1, 2),
    PROBLEM(1, 96, 14, 128, 14, 1, 1),
    PROBLEM(1, 512, 7, 2048, 7, 1, 1),
    PROBLEM(1, 2048, 7, 512, 7, 1, 1),
    PROBLEM(1, 48, 14, 40, 14, 3, 1),
};

enum outcome { NOT_OF_PAIRS, MISSED, REFUSED, SAME };

/* What the library makes of the same weight, where it wants pairs or plain rows. One of whole
 * panels that it pads all the same is padded in its last columns, and missed where it is none of
 * these. */
static enum outcome compare(const dt_dnnl_problem *p, dt_dnnl_kind kind)
{
    const dt_dnnl_layout from = {.kind = p->hwio ? DT_DNNL_HWIO : DT_DNNL_PLAIN};
    const dt_dnnl_layout to = {.kind = kind, .n = 4};
    dt_dnnl_facts f, move;
    dt_dnnl_op *op;
    dt_err err = {0};
    assert_int_equal(dt_dnnl_ask(p, to, &f, &err), DT_OK);
    assert_int_equal(dti_dnnl_ask_reorder(p, from, to, &move, &err), DT_OK);
    assert_int_equal(f.pairs, move.pairs);
    assert_int_equal(f.plain_rows, move.plain_rows);
    const dti_weight_pairs w = {p->out, p->c, p->kernel * p->kernel, f.pairs, .hwio = p->hwio != 0,
        .transposed = f.plain_rows};
    const bool pads = f.weight_bytes > count_of(&w) * sizeof(dt_bf16);
    if (f.pairs == 0 && !f.plain_rows)
        return pads && w.in % 32 == 0 && w.out % 16 == 0 ? MISSED : NOT_OF_PAIRS;
    if (!dti_weight_pairs_can(&w))
        return REFUSED;
    assert_int_equal(f.weight_bytes, padded_count_of(&w) * sizeof(dt_bf16));
    float *plain = weight_of(count_of(&w));
    dt_bf16 *ours = malloc(f.weight_bytes), *theirs = malloc(f.weight_bytes);
    assert_non_null(ours);
    assert_non_null(theirs);
    assert_int_equal(dti_dnnl_create_reorder(&op, p, from, to, &err), DT_OK);
    const dt_dnnl_bytes bytes = {.x = plain, .y = theirs, .work = malloc(move.work_bytes + 1)};
    assert_non_null(bytes.work);
    assert_int_equal(dt_dnnl_run(op, &bytes, &err), DT_OK);
    dti_weight_pairs_run(&w, plain, ours);
    assert_memory_equal(ours, theirs, f.weight_bytes);
    dt_dnnl_destroy(op);
    free(bytes.work);
    free(plain);
    free(ours);
    free(theirs);
    return SAME;
}

/* Which layout the library wants is its choice by processor: without AMX there may be no pairs. */
static void is_what_the_library_makes(void **state)
{
    (void)state;
    if (!dti_weight_pairs_can(&rows[0]) || !dt_onednn_bf16())
        skip();
    dt_cpu_setup(2);
    int wanted = 0, same = 0;
    for (size_t i = 0; i < DT_COUNT(problems); i++)
        for (int data = 0; data < 2; data++) {
            const enum outcome o = compare(&problems[i], data ? DT_DNNL_DATA : DT_DNNL_FORWARD);
            assert_int_not_equal(o, MISSED);
            wanted += o != NOT_OF_PAIRS;
            same += o == SAME;
        }
    if (wanted == 0)
        skip();
    assert_true(same > 0);
    assert_int_not_equal(compare(&problems[DT_COUNT(problems) - 1], DT_DNNL_FORWARD),
        SAME); /* channels that it must pad */
}

static void what_does_not_fit_is_refused(void **state)
{
    static const dti_weight_pairs bad[] = {
        {16, 32, 1, 0, true, false},   /* not of pairs */
        {16, 40, 1, 16, true, false},  /* inputs fill no block */
        {40, 32, 1, 32, true, false},  /* outputs fill no vectors of a panel */
        {24, 32, 1, 24, true, false},  /* a panel fills no vectors */
        {16, 32, 9, 16, false, false}, /* taps lie between the inputs */
        {16, 32, 9, 0, true, true},    /* likewise */
        {16, 32, 1, 0, false, true},   /* transposed already */
        {24, 32, 1, 0, true, true},    /* outputs fill no vectors */
    };
    (void)state;
    for (size_t i = 0; i < DT_COUNT(bad); i++)
        assert_false(dti_weight_pairs_can(&bad[i]));
}

DT_TEST_GROUP(weight_pairs)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_its_definition),
        cmocka_unit_test(is_what_the_library_makes),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
