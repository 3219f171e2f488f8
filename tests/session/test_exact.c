/* What every exact policy promises: after some steps parameters, optimizer state and buffers are,
 * bit for bit, those of keep_all, and every plan takes the bytes it says. Policies, networks,
 * tiers, copy threads, delays, micro-batches, fusion and precision are combined so that every pair
 * of levels occurs; and the options of every policy take values at random within their ranges. With
 * DT_TEST_MINUTES=N in the environment random combinations are tried for so long; see tests/exact.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "memory/policy.h"
#include "memory/remat/solver.h"
#include "tests/fixture/check.h"
#include "tests/fixture/exactness.h"
#include "tests/fixture/parse_config.h"
#include "tests/fixture/planned.h"
#include "tests/fixture/random_graph.h"
#include "engine/base/clock.h"

enum { LEVELS = 128, CANDIDATES = 64 };

/* Pairs of levels of different factors that have occurred. */
static bool met[DT_FACTORS][LEVELS][DT_FACTORS][LEVELS];

static int new_pairs(const dt_way *w, bool mark)
{
    int n = 0;
    for (int a = 0; a < DT_FACTORS; a++)
        for (int b = a + 1; b < DT_FACTORS; b++) {
            bool *pair = &met[a][w->level[a]][b][w->level[b]];
            n += !*pair;
            *pair = *pair || mark;
        }
    return n;
}

/* Unless all is tried, one policy in four, which is paired with some of the networks only; in small
 * all policies, each with one network, and with no level of another factor. */
static bool left_out(int a, int i, int b, int j)
{
    if (a != DT_BY_POLICY && b != DT_BY_POLICY)
        return false;
    if (!dt_picked((uint64_t)(a == DT_BY_POLICY ? i : j), 1, 4, 1))
        return true;
    if (a != DT_BY_NETWORK)
        return dt_small_scale();
    const uint64_t apart = (uint64_t)dt_scaled(2 * dt_levels(DT_BY_NETWORK), 12, 1);
    return ((uint64_t)i + (uint64_t)j + dt_test_seed()) % apart != 0;
}

/* How many pairs are to be met. */
static int all_pairs(void)
{
    int n = 0;
    for (int a = 0; a < DT_FACTORS; a++)
        assert_in_range(dt_levels((dt_factor)a), 1, LEVELS);
    for (int a = 0; a < DT_FACTORS; a++)
        for (int b = a + 1; b < DT_FACTORS; b++)
            for (int i = 0; i < dt_levels((dt_factor)a); i++)
                for (int j = 0; j < dt_levels((dt_factor)b); j++) {
                    met[a][i][b][j] = left_out(a, i, b, j);
                    n += !met[a][i][b][j];
                }
    return n;
}

static dt_way random_way(dt_dice *d)
{
    dt_way w = {.seed = dt_roll(d, 1000)};
    for (int f = 0; f < DT_FACTORS; f++)
        w.level[f] = (int)dt_roll(d, (uint32_t)dt_levels((dt_factor)f));
    return w;
}

/* Of some random ways the one with the most pairs not met yet; it contains the first such pair. */
static dt_way next_way(dt_dice *d)
{
    int a = 0, b = 1, i = 0, j = 0;
    while (met[a][i][b][j]) {
        if (++j == dt_levels((dt_factor)b)) {
            j = 0;
            i++;
        }
        if (i == dt_levels((dt_factor)a)) {
            i = 0;
            b++;
        }
        if (b == DT_FACTORS) {
            a++;
            b = a + 1;
        }
    }
    dt_way best = {.seed = 0};
    int most = 0;
    for (int k = 0; k < CANDIDATES; k++) {
        dt_way w = random_way(d);
        w.level[a] = i;
        w.level[b] = j;
        const int n = new_pairs(&w, false);
        if (n > most) {
            most = n;
            best = w;
        }
    }
    return best;
}

static void report(const dt_way *w, const dt_exactness *x)
{
    char text[256];
    dt_way_text(w, text, sizeof text);
    print_message("%-100s peak %5.1f %% of keep_all's, %8" PRIu64 " bytes out%s\n", text,
        100.0 * (double)x->peak / (double)x->kept_peak, x->moved,
        x->reruns > 0 ? ", run again" : "");
}

static void every_pair_of_levels_trains_the_same_bits(void **state)
{
    (void)state;
    dt_dice d = {5 + dt_test_seed(), 0};
    const int all = all_pairs();
    int runs = 0, reruns = 0;
    uint64_t moved = 0;
    for (int pairs = 0; pairs < all; runs++) {
        const dt_way w = next_way(&d);
        const dt_exactness x = dt_assert_exact(&w);
        pairs += new_pairs(&w, true);
        report(&w, &x);
        reruns += x.reruns;
        moved += x.moved;
    }
    print_message("%d runs for %d pairs; %d steps run again\n", runs, all, reruns);
    assert_true(moved > 0 && (reruns > 0 || !dt_whole_scale()));
}

/* All but a ladder and auto, which run others and have tests of their own (test_vdnn_dyn,
 * test_auto); and but what wants a solver, where the build has none. */
static bool is_compared(const dt_policy *p)
{
    return p->exact && p->rung == NULL && strcmp(p->name, "auto") != 0 &&
           strcmp(p->name, "keep_all") != 0 && (!p->solver || dt_solver_name() != NULL);
}

/* On a network that is small, and has something for every policy to do. */
static void every_exact_policy_trains_the_same_bits(void **state)
{
    (void)state;
    size_t n;
    const dt_policy *const *all = dt_policy_all(&n);
    dt_way w = {.seed = dt_test_seed()};
    while (strcmp(dt_level_name(DT_BY_NETWORK, w.level[DT_BY_NETWORK]), "densenet_small") != 0)
        assert_true(++w.level[DT_BY_NETWORK] < dt_levels(DT_BY_NETWORK));
    for (size_t i = 0; i < n; i++) {
        const char *name = all[i]->name;
        if (!is_compared(all[i]))
            continue;
        w.level[DT_BY_POLICY] = dt_level_of_policy(name);
        if (w.level[DT_BY_POLICY] < 0)
            fail_msg("%s is exact, but not compared; add it to tests/fixture/exactness.c", name);
        const dt_exactness x = dt_assert_exact(&w);
        report(&w, &x);
        if (x.moved == 0 && x.peak == x.kept_peak)
            fail_msg("%s does nothing here that could go wrong", name);
    }
}

/* ---- options at random ---- */

/* The most of what a search looks at: more takes longer, and is no other way. */
static double most_of(const dt_opt *o)
{
    static const struct {
        const char *key;
        double most;
    } efforts[] = {{"samples", 100}, {"nodes", 100}, {"moves", 100}, {"population", 100},
        {"weights_samples", 30}, {"ops", 40}};
    for (size_t i = 0; i < DT_COUNT(efforts); i++)
        if (strcmp(o->key, efforts[i].key) == 0 && efforts[i].most < o->max)
            return efforts[i].most;
    return o->max;
}

static double pick(dt_dice *d, const double *from, size_t n)
{
    return from[dt_roll(d, (uint32_t)n)];
}

/* A number of the row's range: an end of it, or one near the lower. */
static double number(dt_dice *d, const dt_opt *o)
{
    enum { NEAR = 20, SOME = 100 };
    const double least = o->min, most = most_of(o);
    const double near = least + dt_roll(d, NEAR + 1);
    const double inside = least + (most - least) * dt_roll(d, SOME) / SOME;
    const double all[] = {least, most, near < most ? near : most, inside};
    return pick(d, all, DT_COUNT(all));
}

static void put_value(dt_dice *d, const dt_opt *o, char *to, size_t room)
{
    static const double bytes[] = {0, 1, 1 << 12, 1 << 16, 1 << 20, 1 << 30};
    static const char *const layers[] = {"*", "*1*", "*conv*"};
    size_t n = 0;
    while (o->choices != NULL && o->choices[n] != NULL)
        n++;
    switch (o->type) {
    case DT_OPT_I64:
        snprintf(to, room, "%.0f", floor(number(d, o)));
        break;
    case DT_OPT_F64:
        snprintf(to, room, "%.6g", number(d, o));
        break;
    case DT_OPT_BOOL:
        snprintf(to, room, "%s", dt_roll(d, 2) == 0 ? "on" : "off");
        break;
    case DT_OPT_ENUM:
        snprintf(to, room, "%s", o->choices[dt_roll(d, (uint32_t)n)]);
        break;
    case DT_OPT_BYTES:
        snprintf(to, room, "%.0f", pick(d, bytes, DT_COUNT(bytes)));
        break;
    case DT_OPT_LIST:
        snprintf(to, room, "%s", layers[dt_roll(d, DT_COUNT(layers))]);
        break;
    case DT_OPT_STR:
    case DT_OPT_PATH:
    case DT_OPT_SIDES:
        *to = '\0';
        break;
    }
}

/* Its section, with half of its options. */
static void roll_options(dt_dice *d, const dt_policy *p, char *ini, size_t room)
{
    size_t at = (size_t)snprintf(ini, room, "[policy.%s]\n", p->name);
    for (const dt_opt *o = p->opts; o != NULL && o->key != NULL; o++) {
        char value[64];
        put_value(d, o, value, sizeof value);
        if (dt_roll(d, 2) == 0 && value[0] != '\0')
            at += (size_t)snprintf(ini + at, room - at, "%s = %s\n", o->key, value);
        assert_true(at < room);
    }
}

/* Whether the policy takes them, and promises the same bits with them. Some contradict each other,
 * which a policy says when it is to plan. */
static bool is_exact_with(const dt_policy *p, const char *section)
{
    dt_config *c;
    dt_policies s;
    dt_err err = {0};
    char ini[4096];
    snprintf(ini, sizeof ini, "[memory]\npolicy = %s\n%s", p->name, section);
    assert_ok(parse_config(&c, "random", ini, strlen(ini), &err), &err);
    dt_lowered small = dt_program_of(dt_standard("lenet5"), DT_PROGRAM_FIRST, 2);
    dt_status st = dt_policies_open(&s, p->name, c, &err);
    if (st == DT_OK)
        st = dt_policies_apply(&s, small.program, NULL, &err);
    if (st != DT_OK && st != DT_E_CONFIG)
        fail_msg("%s%s", section, err.text);
    const bool is = st == DT_OK && dt_policies_exact(&s);
    dt_lowered_close(&small);
    dt_policies_close(&s);
    dt_config_destroy(c);
    return is;
}

/* Whatever its options are, within their ranges. */
static void options_at_random_train_the_same_bits(void **state)
{
    (void)state;
    size_t n;
    const dt_policy *const *all = dt_policy_all(&n);
    dt_dice d = {17 + dt_test_seed(), 0};
    for (size_t i = 0; i < n; i++)
        for (int k = 0, times = dt_scaled(1, 2, 8); k < times && is_compared(all[i]); k++) {
            dt_way w = random_way(&d);
            char ini[2048];
            w.level[DT_BY_POLICY] = dt_level_of_policy(all[i]->name);
            roll_options(&d, all[i], ini, sizeof ini);
            if (!is_exact_with(all[i], ini))
                continue;
            print_message("%s", ini);
            const dt_exactness x = dt_assert_exact_by(&w, all[i]->name, ini);
            report(&w, &x);
        }
}

static double minutes;

static void random_ways_train_the_same_bits(void **state)
{
    (void)state;
    dt_dice d = {(uint64_t)time(NULL), 0};
    print_message("seed %" PRIu64 "\n", d.seed);
    for (const double end = dt_seconds() + 60 * minutes; dt_seconds() < end;) {
        const dt_way w = random_way(&d);
        const dt_exactness x = dt_assert_exact(&w);
        report(&w, &x);
    }
}

static int end(void **state)
{
    (void)state;
    dt_exactness_end();
    return 0;
}

DT_TEST_GROUP(exact)
{
    const struct CMUnitTest sample[] = {cmocka_unit_test(random_ways_train_the_same_bits)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_exact_policy_trains_the_same_bits),
        cmocka_unit_test(options_at_random_train_the_same_bits),
        cmocka_unit_test(every_pair_of_levels_trains_the_same_bits),
    };
    const char *asked = getenv("DT_TEST_MINUTES");
    if (asked != NULL && *asked != '\0') {
        minutes = strtod(asked, NULL);
        return cmocka_run_group_tests(sample, NULL, end);
    }
    return cmocka_run_group_tests(tests, NULL, end);
}
