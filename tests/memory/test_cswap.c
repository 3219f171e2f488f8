/* CSWAP: what is packed by the equations, the paper's decisions for VGG-16, that plans pack what
 * gains, and that none is slower than where nothing or all is packed. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "memory/policies/cswap_gain.h"
#include "memory/time/card_costs.h"
#include "tests/fixture/check.h"
#include "tests/fixture/planned.h"
#include "tests/fixture/random_graph.h"

/* Seconds for a tensor, of whose values a share is zero, when nothing hides but @hidden each way.
 */
static double gain(double bytes, double zeros, double rate, double codec, double hidden)
{
    const double copy = bytes / rate, packed = (1 - zeros) * copy;
    return dti_swap_gain(&(dti_swap_times){.out = copy,
        .in = copy,
        .packed_out = packed,
        .packed_in = packed,
        .pack = codec / 2,
        .unpack = codec / 2,
        .hidden_out = hidden,
        .hidden_in = hidden});
}

/* Both copies take 10 s and a codec 4: it gains from a fifth of zeros on, never where the copies
 * hide, and no more than what does not hide. */
static void it_pays_from_the_break_even_on(void **state)
{
    (void)state;
    assert_true(fabs(gain(100, 0.2, 10, 4, 0)) < 1e-12);
    assert_true(gain(100, 0.19, 10, 4, 0) < 0 && gain(100, 0.21, 10, 4, 0) > 0);
    for (double zeros = 0; zeros <= 1; zeros += 0.125)
        assert_true(gain(100, zeros, 10, 4, 10) <= -4 && gain(100, zeros, 10, 4, 7) <= 2);
}

/* VGG-16 at batch 128 on a V100: MiB, milliseconds of the swap as it is (figure 3), and the least
 * and the most zeros in 50 epochs (figure 1). PACKED: from the first epochs on; LATER: at some of
 * them; NEVER (figure 9). */
enum { PACKED, LATER, NEVER };
static const struct {
    double mib, raw, least, most;
    int when;
} vgg16[] = {{1568, 182, .50, .58, PACKED}, {392, 64, .25, .45, LATER},
    {784, 127, .48, .64, PACKED}, {196, 32, .45, .58, LATER}, {392, 63, .55, .76, PACKED},
    {392, 63, .50, .80, PACKED}, {98, 15, .42, .65, LATER}, {196, 31, .57, .73, PACKED},
    {196, 32, .58, .68, PACKED}, {49, 15, .35, .48, NEVER}, {49, 15, .50, .78, NEVER},
    {49, 15, .47, .76, NEVER}};

/* Milliseconds to pack and unpack: some, and some more for every MB. */
typedef struct codec_ms {
    double once, of_mb;
} codec_ms;

/* Copies at 11.7 and 10.6 GB/s; what hides is what they are longer than the figure has, half each
 * way. */
static double vgg16_gain(size_t i, double zeros, codec_ms c)
{
    const double mb = vgg16[i].mib * 1.048576;
    dti_swap_times s = {.out = mb / 11.7, .in = mb / 10.6, .pack = (c.once + c.of_mb * mb) / 2};
    const double hidden = fmax(s.out + s.in - vgg16[i].raw, 0) / 2;
    s.unpack = s.pack;
    s.packed_out = (1 - zeros) * s.out;
    s.packed_in = (1 - zeros) * s.in;
    s.hidden_out = s.hidden_in = hidden;
    return dti_swap_gain(&s);
}

/* Whether such a codec leads to another decision than the published one, at the least zeros or at
 * the most. */
static bool differs(size_t i, codec_ms c)
{
    return (vgg16_gain(i, vgg16[i].least, c) > 0) != (vgg16[i].when == PACKED) ||
           (vgg16_gain(i, vgg16[i].most, c) > 0) != (vgg16[i].when != NEVER);
}

/* Section IV-D has one time of the codec: 44 ms for 500 MB, half of them zeros. By the size alone
 * eight of the twelve tensors are packed when they are in the paper; the others are near the
 * margin, within 3 ms: the first pooling's (1) is never packed, the second largest (2) not at its
 * fewest zeros, and two of 49 MiB (10 and 11) are at their most. What of the 44 ms is taken for any
 * size is not published, nor is what hides, which is from figure 3. Were it 3 ms, all but the first
 * pooling's are the published ones. */
static void decisions_are_the_published_ones_but_near_the_margin(void **state)
{
    (void)state;
    const codec_ms published = {0, 44.0 / 500}, in_part_for_any_size = {3, (44.0 - 3) / 500};
    for (size_t i = 0; i < DT_COUNT(vgg16); i++) {
        assert_true(differs(i, published) == (i == 1 || i == 2 || i == 10 || i == 11));
        assert_true(differs(i, in_part_for_any_size) == (i == 1));
        for (int k = 0; k < 2 && differs(i, published); k++) {
            const double gain = vgg16_gain(i, k == 0 ? vgg16[i].least : vgg16[i].most, published);
            const bool packed = k == 0 ? vgg16[i].when == PACKED : vgg16[i].when != NEVER;
            assert_true((gain > 0) == packed || fabs(gain) < 3);
        }
    }
}

/* ---- the model of a codec's time ---- */

/* By hand: of 1, 3 and 8, whose mean is 4, the mean is off by 8 in all. */
static void a_relative_absolute_error_is_told_by_hand(void **state)
{
    (void)state;
    const double measured[] = {1, 3, 8}, mean[] = {4, 4, 4}, near[] = {2, 3, 7};
    const double alike[] = {5, 5}, other[] = {5, 6}, broken[] = {(double)NAN, 3, 8};
    assert_true(fabs(dt_relative_absolute_error(measured, measured, 3)) < 1e-12);
    assert_true(fabs(dt_relative_absolute_error(mean, measured, 3) - 1) < 1e-12);
    assert_true(fabs(dt_relative_absolute_error(near, measured, 3) - 0.25) < 1e-12);
    assert_true(fabs(dt_relative_absolute_error(alike, alike, 2)) < 1e-12);
    assert_true(isinf(dt_relative_absolute_error(other, alike, 2)));
    assert_true(isnan(dt_relative_absolute_error(broken, measured, 3)));
}

/* Section IV-C: pieces of lines predict a codec's seconds with an error of 3 %, where a line over
 * all densities is off by more. A codec whose seconds are as a parabola of the density, and up to 2
 * % more or less than that, as they are measured: pieces by a tenth. */
static void pieces_are_nearer_than_one_line(void **state)
{
    (void)state;
    enum { N = 180 };
    dt_costs costs = dt_costs_default;
    dt_err err = {0};
    dt_dice d = {11, 0};
    double measured[N], pieces[N], line[N];
    for (int k = 2; k <= 8; k++) {
        const double x = k / 10.0, rate = 1e9 / (1 + 4 * x * (1 - x));
        const dt_codec_rate r = {"zvc", x, rate, rate, false};
        assert_ok(dt_costs_add_rate(&costs, &r, &err), &err);
    }
    assert_ok(dt_costs_seal(&costs, &err), &err);
    for (int i = 0; i < N; i++) {
        const double bytes = 1e6 * (double)dt_roll_in(&d, 20, 2000), x = 0.2 + 0.6 * i / N;
        const double noise = 1 + ((double)dt_roll_in(&d, 0, 400) - 200) / 1e4;
        measured[i] = bytes / 1e9 * (1 + 4 * x * (1 - x)) * noise;
        pieces[i] = bytes / dt_costs_rate(&costs, "zvc", x, true);
        line[i] = bytes / 1e9 * 1.88; /* the mean: no line but a level one fits a parabola */
    }
    assert_true(dt_relative_absolute_error(pieces, measured, N) < 0.03);
    assert_true(dt_relative_absolute_error(line, measured, N) > 0.06);
    dt_costs_deinit(&costs);
}

/* ---- plans ---- */

static int packed(const char *ini, const dt_pass_env *e, int *moves, double *seconds)
{
    int n = 0;
    dt_lowered m = dt_program_of(dt_standard("vgg16"), DT_PROGRAM_FIRST, 8);
    dt_rewrite_with(m.program, "cswap", ini, e);
    m.plan = dt_lower_with(m.program, e);
    *moves = 0;
    for (size_t i = 0; i < m.plan->n_row; i++) {
        *moves += m.plan->row[i].kind == DT_ROW_COPY_OUT;
        n += m.plan->row[i].kind == DT_ROW_COPY_OUT && m.plan->row[i].codec > 0;
    }
    *seconds = dt_simulated(m.plan, e);
    dt_lowered_close(&m);
    return n;
}

/* Of what nothing is known nothing is packed; by a fast codec what is measured to hold zeros is,
 * and a step takes no longer; by a slow one nothing is. */
static void what_gains_is_packed(void **state)
{
    (void)state;
    dt_err err = {0};
    dt_costs costs;
    dt_densities half = {0};
    int moves, moved;
    double raw, fast, slow;
    dt_costs_of_card(&costs, dt_card_speed_find("p100"));
    assert_ok(dt_densities_add(&half, "*", 0.4, 0.4, &err), &err);
    dt_pass_env e = {.costs = &costs};
    assert_int_equal(packed(NULL, &e, &moves, &raw), 0);
    assert_true(moves > 5);
    e.density = &half;
    assert_true(packed(NULL, &e, &moved, &fast) > 0);
    assert_int_equal(moved, moves);
    assert_true(fast <= raw);
    costs.codec = 1e8;
    assert_int_equal(packed(NULL, &e, &moved, &slow), 0);
    dt_densities_close(&half);
    dt_costs_deinit(&costs);
}

static double seconds_of(const char *model, const char *policy, const char *ini, dt_pass_env *e)
{
    dt_lowered m = dt_program_of(dt_standard(model), DT_PROGRAM_FIRST, 8);
    dt_rewrite_with(m.program, policy, ini, e);
    m.plan = dt_lower_with(m.program, e);
    const double seconds = dt_simulated(m.plan, e);
    dt_lowered_close(&m);
    return seconds;
}

static const double close_enough = 1 + 1e-8; /* sums of seconds are rounded */

/* By the user's density (@measured: NULL) or a profile's. What the rule alone loses to the better
 * of both, as a share. */
static double rule_loses(
    const char *model, const dt_costs *costs, double density, const dt_densities *measured)
{
    char conv[96], rule[96], fastest[96];
    const double said = measured == NULL ? density : 1;
    dt_pass_env e = {.costs = costs, .density = measured};
    snprintf(conv, sizeof conv, "[policy.cdma]\nbase = vdnn_conv\ndensity = %g\n", said);
    snprintf(rule, sizeof rule, "[policy.cswap]\npick = rule\ndensity = %g\n", said);
    snprintf(fastest, sizeof fastest, "[policy.cswap]\ndensity = %g\n", said);
    const double none = seconds_of(model, "vdnn_conv", NULL, &e);
    const double least = fmin(none, seconds_of(model, "cdma", conv, &e));
    const double by_rule = seconds_of(model, "cswap", rule, &e);
    const double ours = seconds_of(model, "cswap", fastest, &e);
    assert_true(ours <= least * close_enough && ours <= by_rule * close_enough);
    return by_rule / least - 1;
}

/* In simulated time on two cards, and on one whose codec is so slow that it does not pay
 * everywhere. The rule, which charges the codec as if ops waited for it, is slower than that. */
static void neither_none_nor_all_is_faster(void **state)
{
    (void)state;
    static const char *const models[] = {"vgg16", "resnet18", "squeezenet1_1"};
    static const struct {
        const char *card;
        double codec;
    } on[] = {{"v100-32", 0}, {"rtx2080ti", 0}, {"v100-32", 15e9}};
    static const double densities[] = {.2, .45, .8};
    double lost = 0;
    for (size_t k = 0; k < DT_COUNT(on); k++) {
        dt_costs costs;
        dt_costs_of_card(&costs, dt_card_speed_find(on[k].card));
        costs.codec = on[k].codec > 0 ? on[k].codec : costs.codec;
        for (size_t d = 0; d < DT_COUNT(densities); d++) {
            dt_err err = {0};
            dt_densities measured = {0};
            assert_ok(
                dt_densities_add(&measured, "*", densities[d] + .02, densities[d], &err), &err);
            for (size_t m = 0; m < DT_COUNT(models); m++) {
                lost = fmax(lost, rule_loses(models[m], &costs, densities[d], NULL));
                lost = fmax(lost, rule_loses(models[m], &costs, densities[d], &measured));
            }
            dt_densities_close(&measured);
        }
        dt_costs_deinit(&costs);
    }
    assert_true(lost > .02);
}

/* Without a card or a profile there is nothing to compare by. A codec somewhat faster than the link
 * saves time beside the copy; charged in full it does not. */
static void unknown_costs_leave_the_rule(void **state)
{
    (void)state;
    static const char *const inis[] = {
        "[policy.cswap]\ndensity = 0.8\npick = rule\n", "[policy.cswap]\ndensity = 0.8\n"};
    int n[2], moves;
    double seconds;
    dt_costs costs;
    dt_costs_of_card(&costs, dt_card_speed_find("v100-32"));
    costs.codec = 15e9;
    for (int known = 0; known < 2; known++) {
        costs.simulated = known == 1;
        const dt_pass_env e = {.costs = &costs};
        for (int i = 0; i < 2; i++)
            n[i] = packed(inis[i], &e, &moves, &seconds);
        assert_true(n[0] == 0 && (n[1] > 0) == (known == 1));
    }
    dt_costs_deinit(&costs);
}

DT_TEST_GROUP(cswap)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_pays_from_the_break_even_on),
        cmocka_unit_test(decisions_are_the_published_ones_but_near_the_margin),
        cmocka_unit_test(a_relative_absolute_error_is_told_by_hand),
        cmocka_unit_test(pieces_are_nearer_than_one_line),
        cmocka_unit_test(what_gains_is_packed),
        cmocka_unit_test(neither_none_nor_all_is_faster),
        cmocka_unit_test(unknown_costs_leave_the_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
