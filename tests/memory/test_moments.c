/* The bound from several moments: below the optimum of small graphs and every plan that moves and
 * makes again values at random, and above the bound from one moment where several bind; and the
 * bound of linear programs whose optimum is known. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "memory/remat/ascent.h"
#include "memory/remat/moments.h"
#include "tests/fixture/check.h"
#include "tests/fixture/random_graph.h"

static dt_err err;

static void fresh(void)
{
    memset(&err, 0, sizeof err);
}

/* --- linear programs --- */

enum { ITEMS = 30 };

typedef struct item {
    double cost, weight;
} item;

static int cheapest_first(const void *a, const void *b)
{
    const item *x = a, *y = b;
    const double p = x->cost * y->weight, q = y->cost * x->weight;
    return (p > q) - (p < q);
}

/* So much weight at the least cost, of which the last item may be cut. */
static double covering(item *x, double wanted)
{
    double sum = 0;
    qsort(x, ITEMS, sizeof *x, cheapest_first);
    for (int i = 0; i < ITEMS && wanted > 0; i++) {
        const double share = fmin(1, wanted / x[i].weight);
        sum += share * x[i].cost;
        wanted -= share * x[i].weight;
    }
    return sum;
}

static double bound_of(const item *x, double wanted, int steps)
{
    dti_lp p = {0};
    double out;
    int column;
    fresh();
    for (int i = 0; i < ITEMS; i++)
        assert_ok(dti_lp_col(&p, 0, 1, x[i].cost, false, &column, &err), &err);
    assert_ok(dti_lp_row(&p, wanted, HUGE_VAL, &err), &err);
    for (int i = 0; i < ITEMS; i++)
        assert_ok(dti_lp_entry(&p, i, x[i].weight, &err), &err);
    assert_ok(dti_lp_bound(&p, steps, 1e-6, &out, &err), &err);
    dti_lp_deinit(&p);
    return out;
}

static void programs_of_known_optimum_are_bounded_closely(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        dt_dice dice = {seed, 0};
        item x[ITEMS];
        double all = 0;
        for (int i = 0; i < ITEMS; i++) {
            x[i] = (item){1 + dt_roll(&dice, 100), 1 + dt_roll(&dice, 100)};
            all += x[i].weight;
        }
        const double wanted = all * (1 + dt_roll(&dice, 98)) / 100;
        const double best = covering(x, wanted);
        for (int steps = 40; steps <= 4000; steps *= 10)
            assert_true(bound_of(x, wanted, steps) <= best * (1 + 1e-9));
        assert_true(bound_of(x, wanted, 4000) >= 0.998 * best);
    }
}

/* --- plans --- */

enum { OPS = 32, FEW = 14, MOST_LIVES = 4096 };

static dt_remat_graph random_graph(dt_dice *dice, uint32_t n)
{
    uint64_t bytes[OPS], cost[OPS];
    uint8_t backward[OPS] = {0};
    dti_remat_edge edge[OPS * OPS];
    uint32_t m = 0;
    for (uint32_t v = 0; v < n; v++) {
        bytes[v] = 1 + dt_roll(dice, 20);
        cost[v] = 1 + dt_roll(dice, 20);
        for (uint32_t u = 0; u < v; u++)
            if (dt_roll(dice, 100) < (u + 1 == v ? 90u : u + v + 1 == n ? 80u : 10u))
                edge[m++] = (dti_remat_edge){u, v};
    }
    dt_remat_graph g;
    fresh();
    assert_ok(dti_remat_graph_init(&g, n, bytes, cost, backward, m, edge, &err), &err);
    return g;
}

static dti_moments of_graph(const dt_remat_graph *g, uint64_t budget, double seconds[OPS])
{
    dti_moments m = {
        .g = g, .budget = budget, .in_order = true, .first = seconds, .again = seconds};
    for (uint32_t v = 0; v < g->n_op; v++) {
        seconds[v] = (double)g->cost[v];
        m.least += seconds[v];
    }
    return m;
}

static double bound(const dti_moments *m)
{
    double seconds = (double)NAN;
    fresh();
    assert_ok(dti_moments_bound(m, &seconds, &err), &err);
    return seconds;
}

static void no_optimum_is_below_and_several_moments_are_seen(void **state)
{
    (void)state;
    int above = 0, forced = 0;
    for (uint64_t seed = 0; seed < (dt_small_scale() ? 20 : 100); seed++) {
        dt_dice dice = {seed, 0};
        double seconds[OPS];
        dt_remat_graph g = random_graph(&dice, 6 + dt_roll(&dice, FEW - 6 + 1));
        const uint64_t least = dt_remat_least_peak(&g);
        dti_remat_bounds *bounds;
        fresh();
        assert_ok(dti_remat_bounds_open(&bounds, &g, NULL, NULL, &err), &err);
        for (uint64_t budget = least; budget < least + 30; budget += 6) {
            dt_remat_sequence s = {0};
            dt_remat_taken taken;
            bool proved = false;
            fresh();
            const dt_status st =
                dti_remat_exact(&g, budget, DTI_REMAT_USUAL_STATES, NULL, &s, &proved, &err);
            assert_true(proved);
            if (st != DT_OK)
                continue;
            assert_ok(dti_remat_measure(&g, &s, &taken, &err), &err);
            const uint64_t one = dti_remat_bounds_by(bounds, budget, UINT64_MAX);
            const dti_moments m = of_graph(&g, budget, seconds);
            const double is = bound(&m);
            if (!(is <= (double)taken.cost * (1 + 1e-9)))
                fail_msg("seed %d: bound %g of %d bytes, optimum %d", (int)seed, is, (int)budget,
                    (int)taken.cost);
            forced += (double)taken.cost > m.least;
            above += is > (double)one + 0.5;
            dti_remat_sequence_deinit(&s);
        }
        dti_remat_bounds_close(bounds);
        dt_remat_graph_deinit(&g);
    }
    assert_true(dt_small_scale() || (forced > 50 && above > 10));
}

static uint64_t bound_alone(const dt_remat_graph *g, uint64_t budget)
{
    dti_remat_bounds *bounds;
    fresh();
    assert_ok(dti_remat_bounds_open(&bounds, g, NULL, NULL, &err), &err);
    const uint64_t is = dti_remat_bounds_by(bounds, budget, UINT64_MAX);
    dti_remat_bounds_close(bounds);
    return is;
}

static void many_budgets_are_answered_as_each_alone_is(void **state)
{
    (void)state;
    size_t differ = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        dt_dice dice = {seed, 0};
        dt_remat_graph g = random_graph(&dice, OPS);
        const uint64_t least = dt_remat_least_peak(&g);
        uint64_t last = 0;
        dti_remat_bounds *bounds;
        fresh();
        assert_ok(dti_remat_bounds_open(&bounds, &g, NULL, NULL, &err), &err);
        for (uint64_t budget = least + 40; budget >= least && budget > 8; budget -= 8) {
            const uint64_t is = bound_alone(&g, budget);
            assert_true(dti_remat_bounds_by(bounds, budget, is - 2) >= is - 2); /* enough */
            assert_int_equal(dti_remat_bounds_by(bounds, budget, UINT64_MAX), is);
            assert_true(is >= last); /* fewer bytes, and no less to do */
            differ += is != last;
            last = is;
        }
        dti_remat_bounds_close(bounds);
        dt_remat_graph_deinit(&g);
    }
    assert_true(differ > 20);
}

/* --- plans that move --- */

/* Bytes from one time to another. */
typedef struct life {
    double from, to, bytes;
} life;

/**
 * struct walk - a plan as it is made up: one stream of runs, a queue each way.
 * @now @out @in: when each is free
 * @there: by op, the number of the life that its value has; below 0: it has none
 * @left:  by op, when its value is away; below 0: it never left
 * @comes: by op, when its value has come back
 * @aim:   bytes that it tries to stay within
 */
typedef struct walk {
    const dt_remat_graph *g;
    const dti_moments *m;
    dt_dice dice;
    double aim, now, out, in, left[OPS], comes[OPS];
    int there[OPS], n_life;
    life life[MOST_LIVES];
} walk;

static double seconds_of(const dti_copies *c, uint64_t bytes)
{
    return c->latency + (double)bytes / c->rate;
}

static void begin_life(walk *w, uint32_t v, double from)
{
    assert_true(w->n_life < MOST_LIVES);
    w->life[w->n_life] = (life){from, HUGE_VAL, (double)w->g->bytes[v]};
    w->there[v] = w->n_life++;
}

static void end_life(walk *w, uint32_t v, double to)
{
    w->life[w->there[v]].to = to;
    w->there[v] = -1;
}

static void fetch(walk *w, uint32_t v)
{
    const double begin = fmax(fmax(w->now, w->in), w->left[v]);
    begin_life(w, v, begin);
    w->in = w->comes[v] = begin + seconds_of(&w->m->in, w->g->bytes[v]);
}

static double load(const walk *w)
{
    double sum = 0;
    for (int i = 0; i < w->n_life; i++)
        sum += w->life[i].from <= w->now && w->life[i].to > w->now ? w->life[i].bytes : 0;
    return sum;
}

static bool is_input(const dt_remat_graph *g, uint32_t op, uint32_t v)
{
    for (uint32_t i = g->in_at[op]; i < g->in_at[op + 1]; i++)
        if (g->in[i] == v)
            return true;
    return false;
}

/* Others go, or leave, until an op's output fits what the plan aims at. */
static void make_room(walk *w, uint32_t op)
{
    uint32_t v = dt_roll(&w->dice, w->g->n_op);
    for (uint32_t i = 0; i < w->g->n_op && load(w) + (double)w->g->bytes[op] > w->aim; i++) {
        v = (v + 1) % w->g->n_op;
        if (w->there[v] < 0 || w->comes[v] > w->now || is_input(w->g, op, v))
            continue;
        if (dt_roll(&w->dice, 2) == 0) {
            if (w->left[v] < 0)
                w->out = w->left[v] = fmax(w->now, w->out) + seconds_of(&w->m->out, w->g->bytes[v]);
            w->now = fmax(w->now, w->left[v]);
        }
        end_life(w, v, w->now);
    }
}

static void run(walk *w, uint32_t v);

static void have(walk *w, uint32_t v)
{
    if (w->there[v] < 0 && w->left[v] >= 0 && dt_roll(&w->dice, 3) > 0)
        fetch(w, v);
    else if (w->there[v] < 0)
        run(w, v);
    w->now = fmax(w->now, w->comes[v]);
}

static void run(walk *w, uint32_t v)
{
    const dt_remat_graph *g = w->g;
    for (bool all = false; !all;) { /* what is asked for may drive out what was there */
        all = true;
        for (uint32_t i = g->in_at[v]; i < g->in_at[v + 1]; i++)
            if (w->there[g->in[i]] < 0 || w->comes[g->in[i]] > w->now) {
                have(w, g->in[i]);
                all = false;
            }
    }
    make_room(w, v);
    if (w->there[v] < 0)
        begin_life(w, v, w->now);
    w->comes[v] = 0;
    w->now += w->m->again[v];
}

static bool is_read_behind(const dt_remat_graph *g, uint32_t ran, uint32_t v)
{
    return g->out_at[v] < g->out_at[v + 1] && g->out[g->out_at[v + 1] - 1] > ran;
}

/* Behind a run what nobody reads any more goes, and some comes back before it is asked for. */
static void stir(walk *w, uint32_t ran)
{
    for (uint32_t v = 0; v <= ran; v++) {
        const bool wanted = is_read_behind(w->g, ran, v);
        if (w->there[v] >= 0 && w->comes[v] <= w->now && !wanted)
            end_life(w, v, w->now);
        else if (w->there[v] < 0 && w->left[v] >= 0 && wanted && dt_roll(&w->dice, 8) == 0 &&
                 load(w) + (double)w->g->bytes[v] <= w->aim)
            fetch(w, v);
    }
}

static uint64_t peak_of(const walk *w)
{
    double most = 0;
    for (int i = 0; i < w->n_life; i++) {
        double sum = 0; /* when this one begins */
        for (int k = 0; k < w->n_life; k++)
            if (w->life[k].from <= w->life[i].from && w->life[k].to > w->life[i].from)
                sum += w->life[k].bytes;
        most = fmax(most, sum);
    }
    return (uint64_t)most;
}

static void no_plan_that_moves_is_below(void **state)
{
    (void)state;
    int tried = 0, binds = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        static walk w;
        if (!dt_picked(seed, 20, 10, 1))
            continue;
        double seconds[OPS];
        dt_dice dice = {seed, 0};
        dt_remat_graph g = random_graph(&dice, 8 + dt_roll(&dice, OPS - 8 + 1));
        dti_moments m = of_graph(&g, 0, seconds);
        m.out = (dti_copies){dt_roll(&dice, 3), 0.25 + 0.25 * dt_roll(&dice, 12)};
        m.in = (dti_copies){dt_roll(&dice, 3), 0.25 + 0.25 * dt_roll(&dice, 12)};
        w = (walk){.g = &g,
            .m = &m,
            .dice = dice,
            .aim = (double)dt_remat_least_peak(&g) * (1.1 + 0.2 * (double)(seed % 3))};
        for (uint32_t v = 0; v < OPS; v++) {
            w.there[v] = -1;
            w.left[v] = -1;
        }
        for (uint32_t v = 0; v < g.n_op; v++) {
            run(&w, v);
            stir(&w, v);
        }
        m.budget = peak_of(&w);
        const double is = bound(&m);
        if (!(is <= w.now * (1 + 1e-9)))
            fail_msg(
                "seed %d: bound %g of %d bytes, a plan of %g", (int)seed, is, (int)m.budget, w.now);
        binds += is > m.least * 1.01;
        tried++;
        dt_remat_graph_deinit(&g);
    }
    const int all = 200 / dt_scaled(20, 10, 1);
    assert_true(tried == all && (!dt_whole_scale() || binds > all / 20));
}

DT_TEST_GROUP(moments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_of_known_optimum_are_bounded_closely),
        cmocka_unit_test(no_optimum_is_below_and_several_moments_are_seen),
        cmocka_unit_test(many_budgets_are_answered_as_each_alone_is),
        cmocka_unit_test(no_plan_that_moves_is_below),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
