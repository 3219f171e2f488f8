/* Revolve's table and Rotor's dynamic program: values worked out by hand, one against the other,
 * and each sequence replayed from the definition. */
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/philox.h"
#include "memory/remat/chain.h"
#include "tests/fixture/check.h"

static dt_err err;

/* --- a graph as a chain --- */

enum { FORWARD = 40 };

/* A chain whose backward reads all of forward, with some values read further on, and bytes of which
 * many are alike. */
static dt_remat_graph cut_graph(uint64_t seed)
{
    enum { OPS = 2 * FORWARD };
    uint64_t bytes[OPS], cost[OPS];
    uint8_t backward[OPS];
    dti_remat_edge edge[3 * OPS];
    uint32_t n = 0;
    for (uint32_t v = 0; v < OPS; v++) {
        const dt_u32x4 x = dt_random(seed, DT_RANDOM_TEST, 0, 0, v);
        bytes[v] = x.v[0] % 4;
        cost[v] = 1;
        backward[v] = v >= FORWARD;
        if (v > 0)
            edge[n++] = (dti_remat_edge){v - 1, v};
        if (v > FORWARD)
            edge[n++] = (dti_remat_edge){OPS - 1 - v, v};
        if (v > 4 && v < FORWARD && x.v[1] % 3 == 0)
            edge[n++] = (dti_remat_edge){v - 2 - x.v[2] % 3, v};
    }
    dt_remat_graph g;
    assert_ok(dti_remat_graph_init(&g, OPS, bytes, cost, backward, n, edge, &err), &err);
    return g;
}

static uint64_t bytes_of(const dt_remat_graph *g, uint32_t from, uint32_t to)
{
    uint64_t sum = 0;
    for (uint32_t v = from; v < to; v++)
        sum += g->bytes[v];
    return sum;
}

/* Too many cuts are given up one by one, each time the first of those whose neighbours make the
 * least bytes together. */
static void the_least_neighbours_are_merged_first(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        dt_remat_graph g = cut_graph(seed);
        dti_chain_stages all;
        assert_ok(dti_chain_of_graph(&all, &g, DTI_CHAIN_LINEAR, UINT32_MAX, NULL, &err), &err);
        uint32_t n = all.chain.n, *first = all.first;
        assert_true(n > 8);
        for (uint32_t most = n; most >= 1; most--) {
            dti_chain_stages some;
            assert_ok(dti_chain_of_graph(&some, &g, DTI_CHAIN_LINEAR, most, NULL, &err), &err);
            assert_int_equal(some.chain.n, n);
            assert_memory_equal(some.first, first, (n + 1) * sizeof *first);
            dti_chain_stages_deinit(&some);
            uint32_t least = 1;
            for (uint32_t k = 2; k < n; k++)
                if (bytes_of(&g, first[k - 1], first[k + 1]) <
                    bytes_of(&g, first[least - 1], first[least + 1]))
                    least = k;
            memmove(first + least, first + least + 1, (n - least) * sizeof *first);
            n--;
        }
        dti_chain_stages_deinit(&all);
        dt_remat_graph_deinit(&g);
    }
}

static void revolve_is_its_table_and_its_recurrence(void **state)
{
    (void)state;
    static const uint64_t table[][9] = {{8, 28, 14, 11, 10, 9, 8, 7, 7},
        {10, 45, 20, 15, 14, 13, 12, 11, 10}, {16, 120, 45, 33, 27, 25, 24, 23, 22}};
    for (size_t i = 0; i < DT_COUNT(table); i++)
        for (uint64_t s = 1; s <= 8; s++)
            assert_int_equal(dt_revolve_extra(table[i][0], s), table[i][s]);
    static uint64_t t[61][13];
    for (uint64_t n = 1; n <= 60; n++)
        for (uint64_t s = 1; s <= 12; s++) {
            t[n][s] = n * (n - 1) / 2;
            for (uint64_t k = 1; k < n && s > 1; k++) {
                const uint64_t cost = k + t[k][s] + t[n - k][s - 1];
                t[n][s] = cost < t[n][s] ? cost : t[n][s];
            }
            assert_int_equal(dt_revolve_extra(n, s), t[n][s]);
        }
    assert_int_equal(dt_revolve_extra(100000, 1), (uint64_t)100000 * 99999 / 2);
    assert_int_equal(dt_revolve_extra(100000, 1000000), 99999);
}

/* --- a sequence from the definition --- */

/* What steps cost, or -1 when they break a rule or take more than @budget at once. A stage's input
 * is there when it is kept, when it lies in the tape of the stage before, or when the step before
 * made it. */
static int64_t replay(const dt_chain *c, const dt_chain_plan *p, uint64_t budget)
{
    bool input[DT_CHAIN_MOST_STAGES + 1] = {true}, tape[DT_CHAIN_MOST_STAGES] = {false};
    int64_t here = -1; /* the stage whose input the step before made and nobody keeps */
    uint32_t behind = c->n;
    uint64_t cost = 0;
    for (size_t i = 0; i < p->n; i++) {
        const uint32_t k = p->step[i].stage;
        const dt_chain_stage *s = &c->stage[k];
        const bool there = input[k] || (k > 0 && tape[k - 1]) || here == k;
        uint64_t bytes = c->input;
        if (p->step[i].act == DT_CHAIN_BACKWARD) {
            if (k + 1 != behind || !tape[k] || !(input[k] || (k > 0 && tape[k - 1])))
                return -1;
            bytes += s->bytes + s->backward_extra; /* the gradient of its output */
            cost += s->backward;
        } else {
            if (!there || k >= behind)
                return -1;
            if (p->step[i].act != DT_CHAIN_FORWARD && here == k)
                input[k] = true; /* backward reads it; it lies in no tape */
            bytes += s->forward_extra;
            bytes += p->step[i].act == DT_CHAIN_FORWARD_KEEP_TAPE ? s->tape : s->bytes;
            bytes += behind < c->n ? c->stage[behind - 1].bytes : 0;
            bytes += here == k && !input[k] && k > 0 ? c->stage[k - 1].bytes : 0;
            cost += s->forward;
        }
        for (uint32_t j = 0; j < c->n; j++)
            bytes +=
                (tape[j] ? c->stage[j].tape : 0) + (j > 0 && input[j] ? c->stage[j - 1].bytes : 0);
        if (bytes > budget)
            return -1;
        here = p->step[i].act <= DT_CHAIN_FORWARD_KEEP_INPUT ? (int64_t)k + 1 : -1;
        if (p->step[i].act == DT_CHAIN_FORWARD_KEEP_TAPE)
            tape[k] = true;
        if (p->step[i].act == DT_CHAIN_BACKWARD) {
            tape[k] = false;
            if (k > 0)
                input[k] = false;
            behind = k;
        }
    }
    return behind == 0 ? (int64_t)cost : -1;
}

static dt_status solve(dt_chain_plan *p, const dt_chain *c, uint64_t budget)
{
    memset(&err, 0, sizeof err);
    return dt_chain_solve(p, c, budget, &err);
}

static void a_chain_worked_by_hand(void **state)
{
    (void)state;
    dt_chain_stage stage[] = {{4, 8, 3, 6, 0, 1}, {1, 2, 1, 3, 1, 0}, {3, 6, 2, 5, 0, 2},
        {2, 4, 1, 2, 1, 0}, {0, 0, 0, 0, 0, 0}};
    const dt_chain c = {5, 2, stage};
    static const uint64_t costs[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 39, 35, 35, 35, 35};
    for (uint64_t m = 0; m < 40; m++) { /* beside the input */
        dt_chain_plan p;
        const dt_status st = solve(&p, &c, m + 2);
        if (m < 10) {
            assert_int_equal(st, DT_E_BUDGET);
            continue;
        }
        assert_ok(st, &err);
        if (m < DT_COUNT(costs))
            assert_int_equal(p.cost, costs[m]);
        if (m >= 18)
            assert_int_equal(p.cost, 30);
        assert_int_equal(p.unit, 1);
        assert_int_equal(replay(&c, &p, m + 2), p.cost);
        dt_chain_plan_deinit(&p);
    }
    uint64_t least = 0;
    assert_ok(dt_chain_least(&c, &least, &err), &err);
    assert_int_equal(least, 12);
    assert_true(dt_chain_counts_bytes(&c, 1));
    assert_false(dt_chain_counts_bytes(&c, 2));
}

static uint64_t below(uint32_t *counter, uint32_t n)
{
    return dt_random(3, DT_RANDOM_TEST, 0, 0, (*counter)++).v[0] % n;
}

/* Its peak is what the definition lets pass, and a byte less is too little; below the least budget
 * nothing is found, and from there on something is. */
static void a_plan_has_its_peak_and_a_chain_its_least_budget(void **state)
{
    (void)state;
    uint32_t seed = 0;
    for (int round = 0; round < 40; round++) {
        dt_chain_stage stage[7] = {{0}};
        const dt_chain c = {2 + (uint32_t)below(&seed, 6), below(&seed, 4), stage};
        for (uint32_t i = 0; i + 1 < c.n; i++) {
            const uint64_t bytes = 1 + below(&seed, 5);
            stage[i] = (dt_chain_stage){1 + below(&seed, 5), 1 + below(&seed, 5), bytes,
                bytes + below(&seed, 5), below(&seed, 3) * below(&seed, 9),
                below(&seed, 3) * below(&seed, 9)};
        }
        uint64_t least = 0;
        assert_ok(dt_chain_least(&c, &least, &err), &err);
        for (uint64_t budget = 1; budget < least + 30; budget++) {
            dt_chain_plan p;
            const dt_status st = solve(&p, &c, budget);
            assert_int_equal(st, budget < least ? DT_E_BUDGET : DT_OK);
            if (st != DT_OK)
                continue;
            const uint64_t peak = dt_chain_peak(&c, &p);
            assert_true(peak <= budget);
            assert_int_equal(replay(&c, &p, peak), p.cost);
            assert_int_equal(replay(&c, &p, peak - 1), -1);
            dt_chain_plan_deinit(&p);
        }
    }
}

/* Each the least of all sequences, kept or not, by shortest paths: forward with its tape runs
 * beside the gradient of the stretch's last output, not of its own, and what runs ahead to keep an
 * input wants no room for what lies behind that. */
static void a_tape_is_made_beside_the_gradient_that_waits(void **state)
{
    (void)state;
    dt_chain_stage a[] = {
        {5, 5, 1, 10, 20, 0}, {5, 5, 9, 9, 0, 0}, {5, 5, 1, 21, 0, 0}, {1, 1, 0, 0, 0, 0}};
    dt_chain_stage b[] = {{9, 3, 4, 4, 9, 3}, {6, 1, 0, 0, 0, 0}};
    dt_chain_stage d[] = {
        {8, 1, 5, 9, 0, 0}, {7, 6, 5, 5, 0, 0}, {1, 9, 1, 6, 1, 0}, {4, 1, 0, 0, 0, 0}};
    const struct {
        dt_chain c;
        uint64_t budget, cost;
    } cases[] = {{{4, 0, a}, 31, 47}, {{2, 0, b}, 13, 19}, {{4, 2, d}, 19, 45}};
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        dt_chain_plan p;
        assert_ok(solve(&p, &cases[i].c, cases[i].budget), &err);
        assert_int_equal(p.cost, cases[i].cost);
        assert_int_equal(replay(&cases[i].c, &p, cases[i].budget), p.cost);
        dt_chain_plan_deinit(&p);
    }
}

/* Tapes so large that only the last stage keeps one. */
static void alike_stages_cost_what_revolve_says(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {3, 5, 8, 10};
    for (size_t i = 0; i < DT_COUNT(lengths); i++)
        for (uint64_t s = 2; s <= 4; s++) {
            dt_chain_stage stage[11] = {{0}};
            const uint32_t n = lengths[i];
            for (uint32_t k = 0; k < n; k++)
                stage[k] = (dt_chain_stage){1, 0, 1, s + 2, 0, 0};
            const dt_chain c = {n + 1, 1, stage};
            dt_chain_plan p;
            assert_ok(solve(&p, &c, 1 + (s - 1) + 1 + (s + 2)), &err);
            assert_int_equal(p.cost, n + dt_revolve_extra(n, s - 1));
            dt_chain_plan_deinit(&p);
        }
}

/* Revolve's own sequence, in which nothing costs bytes. */
static void revolves_sequence_has_its_number_of_steps(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 24; n++)
        for (uint64_t s = 1; s <= n; s++) {
            dt_chain_stage stage[24] = {{0}};
            for (uint32_t k = 0; k < n; k++)
                stage[k].forward = 1;
            const dt_chain c = {n, 0, stage};
            dt_chain_plan p;
            uint64_t kept = 1, most = 1;
            bool input[24] = {true};
            assert_ok(dti_revolve_steps(&p, n, s, &err), &err);
            assert_int_equal(replay(&c, &p, 0), n + dt_revolve_extra(n, s));
            for (size_t i = 0; i < p.n; i++) { /* inputs kept at once, the first one's among them */
                const uint32_t k = p.step[i].stage;
                const bool keep = p.step[i].act == DT_CHAIN_FORWARD_KEEP_INPUT;
                const bool drop = p.step[i].act == DT_CHAIN_BACKWARD && k > 0;
                kept += keep && !input[k];
                kept -= drop && input[k];
                input[k] = (input[k] || keep) && !drop;
                most = kept > most ? kept : most;
            }
            assert_true(most <= s);
            dt_chain_plan_deinit(&p);
        }
    dt_chain_plan p;
    assert_fails(dti_revolve_steps(&p, 5, 0, &err), DT_E_CONFIG, &err, "1 state or more");
}

/* --- chains within graphs --- */

/* Layers that each read the one before; backward of layer i reads layer i, what layer i read, and
 * the gradient behind it. @backwards: the edges stand in the other order. */
static dt_remat_graph layers(uint32_t n, uint64_t seed, bool backwards)
{
    uint64_t bytes[64], cost[64];
    uint8_t backward[64];
    dti_remat_edge edge[256];
    uint32_t m = 0;
    dt_remat_graph g;
    for (uint32_t v = 0; v < 2 * n; v++) {
        const dt_u32x4 a = dt_random(seed, DT_RANDOM_TEST, 0, 0, v);
        backward[v] = v >= n;
        bytes[v] = seed == 0 ? 1 : 1 + a.v[0] % 9;
        cost[v] = seed == 0 ? 1 : a.v[1] % 9;
        const uint32_t like = 2 * n - 1 - v;
        if (v >= n && like > 0)
            edge[m++] = (dti_remat_edge){like - 1, v};
        if (v >= n && like + 1 < n)
            edge[m++] = (dti_remat_edge){like, v};
        if (v > 0)
            edge[m++] = (dti_remat_edge){v - 1, v};
    }
    for (uint32_t i = 0; backwards && i < m / 2; i++) {
        const dti_remat_edge first = edge[i];
        edge[i] = edge[m - 1 - i];
        edge[m - 1 - i] = first;
    }
    assert_ok(dti_remat_graph_init(&g, 2 * n, bytes, cost, backward, m, edge, &err), &err);
    return g;
}

/* Sequences of Rotor's and Revolve's plans are valid, cost what the plans say or less, keep what
 * must not run again, and are never ahead of the optimum. */
static void chains_of_graphs_are_runs_of_their_ops(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 12; seed++) {
        if (!dt_picked(seed, 4, 2, 1))
            continue;
        dt_remat_graph g = layers(8, seed, false);
        dti_chain_stages s;
        dt_remat_sequence whole;
        dt_remat_taken base;
        assert_ok(dti_remat_in_order(&whole, &g, &err), &err);
        assert_ok(dti_remat_measure(&g, &whole, &base, &err), &err);
        assert_ok(dti_chain_of_graph(&s, &g, DTI_CHAIN_AUTO, 64, NULL, &err), &err);
        assert_true(s.points && s.chain.n == 8);
        for (uint64_t budget = 1; budget < 2 * base.peak + 20; budget++) {
            dt_chain_plan p;
            dt_remat_sequence runs, least = {0};
            dt_remat_taken took, best;
            if (solve(&p, &s.chain, budget) != DT_OK)
                continue;
            assert_ok(dti_chain_runs(&runs, &g, &s, &p, NULL, &err), &err);
            assert_ok(dti_remat_measure(&g, &runs, &took, &err), &err);
            assert_true(took.cost <= p.cost);
            if (budget % 8 == 0) {
                bool proved;
                assert_ok(dti_remat_exact(
                              &g, took.peak, DTI_REMAT_USUAL_STATES, NULL, &least, &proved, &err),
                    &err);
                assert_ok(dti_remat_measure(&g, &least, &best, &err), &err);
                assert_true(best.cost <= took.cost);
            }
            dti_remat_sequence_deinit(&runs);
            dti_remat_sequence_deinit(&least);
            dt_chain_plan_deinit(&p);
        }
        for (uint64_t states = 1; states <= 8; states++) {
            dt_chain_plan p;
            dt_remat_sequence runs;
            dt_remat_taken took;
            uint8_t once[16] = {0};
            once[3] = seed % 2 == 1;
            assert_ok(dti_revolve_steps(&p, 8, states, &err), &err);
            assert_ok(dti_chain_runs(&runs, &g, &s, &p, once, &err), &err);
            assert_ok(dti_remat_measure(&g, &runs, &took, &err), &err);
            if (seed == 0)
                assert_true(took.cost <= 16 + dt_revolve_extra(8, states));
            size_t ran = 0;
            for (size_t i = 0; i < runs.n; i++)
                ran += runs.op[i] == 3;
            assert_true(ran == 1 || once[3] == 0);
            dti_remat_sequence_deinit(&runs);
            dt_chain_plan_deinit(&p);
        }
        dti_remat_sequence_deinit(&whole);
        dti_chain_stages_deinit(&s);
        assert_ok(dti_chain_of_graph(&s, &g, DTI_CHAIN_LINEAR, 3, NULL, &err), &err);
        assert_int_equal(s.chain.n, 3);
        dti_chain_stages_deinit(&s);
        memset(g.backward, 0, g.n_op);
        assert_fails(dti_chain_of_graph(&s, &g, DTI_CHAIN_AUTO, 64, NULL, &err), DT_E_CONFIG, &err,
            "ops of backward");
        dti_chain_stages_deinit(&s);
        dt_remat_graph_deinit(&g);
    }
}

static void the_order_of_edges_says_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 4; seed++) {
        dt_remat_graph g[2];
        dti_chain_stages s[2];
        for (int k = 0; k < 2; k++) {
            g[k] = layers(8, seed, k == 1);
            assert_ok(dti_chain_of_graph(&s[k], &g[k], DTI_CHAIN_LINEAR, 64, NULL, &err), &err);
        }
        assert_int_equal(s[0].chain.n, s[1].chain.n);
        assert_memory_equal(
            s[0].chain.stage, s[1].chain.stage, s[0].chain.n * sizeof *s[0].chain.stage);
        for (int k = 0; k < 2; k++) {
            dti_chain_stages_deinit(&s[k]);
            dt_remat_graph_deinit(&g[k]);
        }
    }
}

static void more_memory_never_costs_more_and_units_stay_within(void **state)
{
    (void)state;
    uint64_t counter = 0;
    for (int i = 0; i < 60; i++) {
        dt_chain_stage stage[9] = {{0}};
        const uint64_t scale = i % 2 == 0 ? 1 : 1000003;
        uint64_t all = 10 * scale, last = UINT64_MAX;
        for (int k = 0; k < 8; k++) {
            const dt_u32x4 a = dt_random(7, DT_RANDOM_TEST, 0, 0, counter++);
            const dt_u32x4 b = dt_random(7, DT_RANDOM_TEST, 0, 0, counter++);
            const uint64_t x = 1 + a.v[2] % 9;
            stage[k] = (dt_chain_stage){a.v[0] % 20, a.v[1] % 20, x * scale + b.v[3] % scale, 0,
                b.v[1] % 3 * scale, b.v[2] % 3 * scale};
            stage[k].tape = stage[k].bytes + b.v[0] % 9 * scale;
            all += 2 * stage[k].tape + stage[k].bytes;
        }
        const dt_chain c = {9, 3 * scale, stage};
        for (uint64_t budget = 4 * scale; budget < all; budget += 1 + all / 17) {
            dt_chain_plan p;
            if (solve(&p, &c, budget) != DT_OK) {
                assert_int_equal(last, UINT64_MAX);
                continue;
            }
            assert_true(p.cost <= last);
            assert_true(scale > 1 || p.unit == 1);
            assert_int_equal(replay(&c, &p, budget), p.cost);
            last = p.unit == 1 ? p.cost : UINT64_MAX;
            dt_chain_plan_deinit(&p);
        }
    }
}

/* --- all sequences of a short chain --- */

/* The least cost by the definition: shortest paths are found by deepening. What is there: tapes,
 * inputs, what the step before made. */
static uint64_t least_cost(const dt_chain *c, uint64_t budget, dt_chain_plan *p, uint64_t spent,
    uint64_t best, size_t most)
{
    if (spent >= best || p->n >= most)
        return best;
    for (uint32_t k = 0; k < c->n; k++)
        for (int act = DT_CHAIN_FORWARD; act <= DT_CHAIN_BACKWARD; act++) {
            const dt_chain_stage *s = &c->stage[k];
            p->step[p->n++] = (dt_chain_step){(dt_chain_act)act, k};
            /* a beginning is allowed when only its end is missing */
            dt_chain_plan begun = *p;
            const int64_t whole = replay(c, &begun, budget);
            if (whole >= 0 && (uint64_t)whole < best)
                best = (uint64_t)whole;
            const uint64_t cost = spent + (act == DT_CHAIN_BACKWARD ? s->backward : s->forward);
            bool useful = p->n < 2 || act == DT_CHAIN_BACKWARD || p->step[p->n - 2].stage != k;
            if (whole < 0 && useful)
                best = least_cost(c, budget, p, cost, best, most);
            p->n--;
        }
    return best;
}

static void no_short_sequence_is_cheaper(void **state)
{
    (void)state;
    dt_chain_stage stage[] = {{3, 5, 2, 4, 0, 0}, {2, 3, 1, 3, 0, 0}, {0, 0, 0, 0, 0, 0}};
    const dt_chain c = {3, 1, stage};
    for (uint64_t budget = 5; budget < 12; budget++) {
        if (!dt_picked(budget, 3, 2, 1))
            continue;
        dt_chain_plan p;
        dt_chain_step steps[8];
        dt_chain_plan any = {.step = steps};
        const uint64_t least = least_cost(&c, budget, &any, 0, UINT64_MAX, 7);
        if (solve(&p, &c, budget) != DT_OK) {
            assert_true(least == UINT64_MAX);
            continue;
        }
        assert_int_equal(p.cost, least);
        dt_chain_plan_deinit(&p);
    }
}

static void a_file_that_is_no_chain_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "c:1: the file ends where 'STAGES INPUT' should stand"},
        {"0 1\n", "c:1: 0 stages and an input of 1 bytes; there may be 1 to 512 stages"},
        {"513 1\n", "c:1: 513 stages and an input of 1 bytes; there may be 1 to 512 stages"},
        {"1 17592186044417\n", "c:1: 1 stages and an input of 17592186044417 bytes"},
        {"2 1\n1 1 1 1 0 0\n", "c:3: the file ends"},
        {"1 1\n1 1 1 1 0 0\n", "c:2: the last line is that of the loss"},
        {"1 1\n17592186044417 0 0 0 0 0\n", "c:2: the costs add up to more than 2^44"},
        {"1 1\n0 0 0 0 0 0\n1\n", "c:3: more lines"},
    };
    for (size_t i = 0; i < DT_COUNT(bad); i++) {
        dt_chain c;
        memset(&err, 0, sizeof err);
        assert_fails(dti_chain_parse(&c, bad[i].text, strlen(bad[i].text), "c", &err), DT_E_DATA,
            &err, bad[i].says);
        assert_null(c.stage);
    }
}

DT_TEST_GROUP(remat_chain)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(revolve_is_its_table_and_its_recurrence),
        cmocka_unit_test(a_chain_worked_by_hand),
        cmocka_unit_test(a_plan_has_its_peak_and_a_chain_its_least_budget),
        cmocka_unit_test(a_tape_is_made_beside_the_gradient_that_waits),
        cmocka_unit_test(alike_stages_cost_what_revolve_says),
        cmocka_unit_test(revolves_sequence_has_its_number_of_steps),
        cmocka_unit_test(chains_of_graphs_are_runs_of_their_ops),
        cmocka_unit_test(the_order_of_edges_says_nothing),
        cmocka_unit_test(more_memory_never_costs_more_and_units_stay_within),
        cmocka_unit_test(no_short_sequence_is_cheaper),
        cmocka_unit_test(the_least_neighbours_are_merged_first),
        cmocka_unit_test(a_file_that_is_no_chain_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
