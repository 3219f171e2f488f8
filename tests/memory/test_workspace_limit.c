/* Layers that several algorithms can compute: the list of them, the two of a 3x3 convolution on the
 * processor, and fit, which is compared with a choice that plans every step of its own. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/cpu.h"
#include "layers/weighted/conv.h"
#include "layers/onednn/onednn.h"
#include "layers/plain.h"
#include "memory/fit.h"
#include "session/open.h"
#include "session/rig.h"
#include "session/run_plans.h"
#include "tests/fixture/check.h"
#include "tests/fixture/layer_check.h"
#include "tests/fixture/planned.h"
#include "tests/fixture/random_graph.h"

static void slower_algorithms_take_fewer_bytes(void **state)
{
    (void)state;
    dt_algorithms w = {0};
    dt_algorithms_add(&w, "a", 100);
    dt_algorithms_add(&w, "as large", 100);
    dt_algorithms_add(&w, "b", 40);
    dt_algorithms_add(&w, "c", 0);
    assert_int_equal(w.n, 3);
    assert_int_equal(dti_algorithms_within(&w, DT_LIMIT_ANY), 0);
    assert_int_equal(dti_algorithms_within(&w, 100), 0);
    assert_int_equal(dti_algorithms_within(&w, 99), 1);
    assert_int_equal(dti_algorithms_within(&w, 39), 2);
    assert_int_equal(dti_algorithms_within(&w, DT_LIMIT_LEAST), 2);
    for (size_t i = 0; i < 2 * DT_MAX_ALGORITHMS; i++)
        dt_algorithms_add(&w, "later", 90 - i);
    assert_int_equal(w.n, 3);
    w.algorithm[2].bytes = 30;
    for (size_t i = 0; i < 2 * DT_MAX_ALGORITHMS; i++)
        dt_algorithms_add(&w, "later", 29 - i);
    assert_int_equal(w.n, DT_MAX_ALGORITHMS);
    assert_int_equal(w.algorithm[DT_MAX_ALGORITHMS - 1].bytes, 29 - 2 * DT_MAX_ALGORITHMS + 1);
    assert_int_equal(dti_algorithms_within(&w, DT_LIMIT_LEAST), DT_MAX_ALGORITHMS - 1);
}

/* --- the processor's convolutions --- */

/* One node, whose algorithms are asked for. */
typedef struct single {
    dt_graph *g;
    dt_call call;
} single;

static single open_single(const dt_conv *o, int64_t c)
{
    const int32_t in = DT_GRAPH_INPUT;
    int32_t id;
    single s;
    dt_err err = {0};
    assert_ok(dt_graph_create(&s.g, "single", (dt_shape){1, 9, 9, c}, 10, &err), &err);
    assert_ok(dt_graph_add(s.g, &dt_layer_conv, "layer", o, &in, 1, &id, &err), &err);
    s.call = (dt_call){.node = &s.g->node[id], .graph = s.g, .n = 2, .home_n = 2, .needs_dx = true};
    return s;
}

static dt_facts facts_in(single *s, dt_form_kind form, size_t limit)
{
    dt_facts f;
    dt_err err = {0};
    s->call.form = form;
    s->call.workspace_limit = limit;
    assert_ok(dti_call_facts(&s->call, &dt_layer_conv, &f, &err), &err);
    return f;
}

static void the_limit_decides_between_winograd_and_the_library(void **state)
{
    (void)state;
    if (!dti_onednn_avx512()) /* where the library may want more */
        skip();
    const dt_conv o = {64, 3, 1, 1, 1, 1, true};
    single s = open_single(&o, 64);
    dt_err err = {0};
    for (int k = 0; k < DT_DIRECTIONS; k++) {
        dt_algorithms w;
        s.call.form = dti_direction_form(k);
        assert_ok(dti_call_algorithms(&s.call, &dt_layer_conv, &w, &err), &err);
        assert_int_equal(w.n, 2);
        for (int i = 0; i < w.n; i++) {
            const dt_facts f = facts_in(&s, dti_direction_form(k), w.algorithm[i].bytes);
            assert_string_equal(f.impl, w.algorithm[i].impl);
            assert_int_equal(dt_facts_bytes(&f), w.algorithm[i].bytes);
        }
        assert_string_equal(facts_in(&s, dti_direction_form(k), w.algorithm[0].bytes - 1).impl,
            w.algorithm[1].impl);
        assert_string_equal(
            facts_in(&s, dti_direction_form(k), DT_LIMIT_ANY).impl, "winograd:4x4_3x3");
        assert_null(strstr(facts_in(&s, dti_direction_form(k), DT_LIMIT_LEAST).impl, "winograd"));
    }
    assert_string_equal(
        facts_in(&s, DT_EVAL, DT_LIMIT_LEAST).impl, facts_in(&s, DT_FORWARD, DT_LIMIT_LEAST).impl);
    dt_graph_destroy(s.g);
}

static void other_convolutions_have_no_choice(void **state)
{
    (void)state;
    const dt_conv strided = {64, 3, 2, 1, 1, 1, true}, narrow = {8, 3, 1, 1, 1, 1, true};
    const struct {
        const dt_conv *o;
        int64_t c;
    } cases[] = {{&strided, 64}, {&narrow, 64}, {&narrow, 3}};
    dt_err err = {0};
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        single s = open_single(cases[i].o, cases[i].c);
        dt_algorithms w = {.n = -1};
        s.call.form = DT_FORWARD;
        assert_ok(dti_call_algorithms(&s.call, &dt_layer_conv, &w, &err), &err);
        assert_int_equal(w.n, 0);
        assert_string_equal(facts_in(&s, DT_FORWARD, DT_LIMIT_ANY).impl,
            facts_in(&s, DT_FORWARD, DT_LIMIT_LEAST).impl);
        dt_graph_destroy(s.g);
    }
}

/* Two algorithms, one result; and two micro-batches, so that gradients come in other layouts. */
static void algorithms_agree(void **state)
{
    (void)state;
    if (!dti_onednn_avx512())
        skip();
    enum { C = 64, OUT = 80, N = 3, SIDE = 9 };
    dt_conv o = {OUT, 3, 1, 1, 1, 1, true};
    const dt_shape x = {1, SIDE, SIDE, C}, y = {1, SIDE, SIDE, OUT};
    float *values[4] = {dt_random_values((size_t)(N * dt_shape_sample(&x)), 1),
        dt_random_values(OUT * C * 9, 2), dt_random_values(OUT, 3),
        dt_random_values((size_t)(N * dt_shape_sample(&y)), 4)};
    dt_layer_run r[3];
    for (int i = 0; i < 3; i++) {
        r[i] = (dt_layer_run){.desc = &dt_layer_conv,
            .opts = &o,
            .n = N,
            .home_n = i == 2 ? 1 : N,
            .n_x = 1,
            .x = {x},
            .workspace_limit = i == 0 ? DT_LIMIT_ANY : DT_LIMIT_LEAST,
            .in = {values[0]},
            .param = {values[1], values[2]},
            .dy = values[3]};
        dt_layer_check(&r[i]);
    }
    for (int i = 1; i < 3; i++) {
        const struct {
            const float *got, *want;
            int64_t n;
        } all[] = {{r[i].got_y, r[0].got_y, N * dt_shape_sample(&y)},
            {r[i].got_dx[0], r[0].got_dx[0], N * dt_shape_sample(&x)},
            {r[i].got_dparam[0], r[0].got_dparam[0], OUT * C * 9},
            {r[i].got_dparam[1], r[0].got_dparam[1], OUT}};
        for (size_t k = 0; k < DT_COUNT(all); k++)
            assert_true(dt_relative_error(all[k].got, all[k].want, (size_t)all[k].n) < 2e-6);
    }
    assert_memory_not_equal(r[0].got_y, r[1].got_y, sizeof(float) * N * SIDE * SIDE * OUT);
    for (int i = 0; i < 3; i++)
        dt_layer_check_free(&r[i]);
    for (int i = 0; i < 4; i++)
        free(values[i]);
}

/* --- fit --- */

enum { CONVS = 4, BATCH = 2, SEEDS = 60 };

static dt_algorithms made_up[CONVS][DT_DIRECTIONS];

static int conv_of(const dt_call *c)
{
    return c->node->name[4] - '0'; /* "conv0" */
}

static dt_status made_up_algorithms(const dt_call *c, dt_algorithms *w, dt_err *err)
{
    (void)err;
    *w = made_up[conv_of(c)][dt_form_direction(c->form)];
    return DT_OK;
}

static dt_status made_up_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    const dt_algorithms *w = &made_up[conv_of(c)][dt_form_direction(c->form)];
    const int i = dti_algorithms_within(w, c->workspace_limit);
    f->work_bytes = w->algorithm[i].bytes;
    memcpy(f->impl, w->algorithm[i].impl, sizeof f->impl);
    return DT_OK;
}

static const dt_kernels made_up_kernels = {
    .facts = made_up_facts, .algorithms = made_up_algorithms};

static void make_up(dt_dice *d)
{
    for (int i = 0; i < CONVS; i++)
        for (int k = 0; k < DT_DIRECTIONS; k++) {
            dt_algorithms *w = &made_up[i][k];
            w->n = 0;
            size_t bytes = dt_roll(d, 16384) + 2;
            for (uint32_t n = dt_roll(d, 4) + 1; n > 0; n--) {
                char name[DT_IMPL_BYTES];
                snprintf(name, sizeof name, "algorithm %zu", bytes);
                dt_algorithms_add(w, name, bytes);
                bytes = bytes > 0 ? dt_roll(d, (uint32_t)bytes) : 0;
            }
        }
}

/* A chain of convolutions and its plans.
 * @by_bound: their peaks are the sums of live bytes, not where the pool has put them: with one more
 * byte a pool may by chance do better, and then the order of choices tells */
typedef struct chain {
    dt_graph *g;
    dt_algorithm_table table;
    const char *policies;
    bool by_bound;
    dt_map *map;
    dt_lowered made[2];
    dt_fitted all[2];
    int plans;    /* made so far */
    double price; /* seconds a byte of the peak */
} chain;

static chain open_chain(dt_dice *d, bool by_bound)
{
    static const char *const policies[] = {"keep_all", "vdnn_all", "chen_sqrt"};
    static dt_layer_desc conv;
    chain c = {.policies = policies[dt_roll(d, DT_COUNT(policies))], .by_bound = by_bound};
    dt_err err = {0};
    int32_t id = DT_GRAPH_INPUT;
    conv = dt_layer_conv;
    conv.cpu = &made_up_kernels;
    assert_ok(dt_graph_create(&c.g, "chain", (dt_shape){1, 8, 8, 3}, 10, &err), &err);
    for (int i = 0; i < CONVS; i++) {
        const bool last = i + 1 == CONVS;
        const dt_conv o = {
            last ? 10 : dt_roll(d, 16) + 1, last ? 8 : 3, 1, last ? 0 : 1, 1, 1, true};
        char name[16];
        int32_t in = id;
        snprintf(name, sizeof name, "conv%d", i);
        assert_ok(dt_graph_add(c.g, &conv, name, &o, &in, 1, &id, &err), &err);
        in = id;
        snprintf(name, sizeof name, "relu%d", i);
        if (!last)
            assert_ok(dt_graph_add(c.g, &dt_layer_relu, name, NULL, &in, 1, &id, &err), &err);
    }
    assert_ok(
        dt_graph_add(c.g, &dt_layer_cross_entropy, "loss", NULL, &(int32_t){id}, 1, &id, &err),
        &err);
    make_up(d);
    assert_ok(dt_algorithm_table_init(&c.table, c.g->n_node, DT_LIMIT_ANY, &err), &err);
    assert_ok(dt_map_create(&c.map, c.g, NULL, BATCH, 1, &err), &err);
    return c;
}

static void forget(chain *c)
{
    for (int i = 0; i < 2; i++) {
        dt_plan_destroy(c->made[i].plan);
        dt_program_destroy(c->made[i].program);
        c->made[i] = (dt_lowered){0};
    }
}

static void close_chain(chain *c)
{
    forget(c);
    dt_map_destroy(c->map);
    dt_algorithm_table_deinit(&c->table);
    dt_graph_destroy(c->g);
}

static dt_status plan_chain(
    void *self, const dt_algorithm_table *by, const dt_fitted **all, size_t *n, dt_err *err)
{
    chain *c = self;
    static const dt_program_kind kinds[2] = {DT_PROGRAM_FIRST, DT_PROGRAM_EVAL};
    forget(c);
    for (int i = 0; i < 2; i++) {
        const dt_program_opts o = {c->g, c->map, NULL, kinds[i], BATCH,
            {&dt_layer_sum, &dt_layer_commit, &dt_layer_sgd, NULL}, by, false};
        DT_CHECK(dt_program_create(&c->made[i].program, &o, err));
        dt_rewrite(c->made[i].program, c->policies);
        c->made[i].plan = dt_planned_by(c->made[i].program, c->policies, "greedy");
        if (c->by_bound)
            c->made[i].plan->peak = c->made[i].plan->bound;
        c->all[i] = (dt_fitted){c->made[i].program, c->made[i].plan};
    }
    c->plans++;
    *all = c->all;
    *n = 2;
    return DT_OK;
}

static uint64_t peak_now(chain *c)
{
    const dt_fitted *all;
    size_t n;
    dt_err err = {0};
    assert_ok(plan_chain(c, &c->table, &all, &n, &err), &err);
    return all[0].plan->peak > all[1].plan->peak ? all[0].plan->peak : all[1].plan->peak;
}

/* The choices in the order in which they first run; there is no gradient of the image. */
enum { CHOICES = CONVS * DT_DIRECTIONS - 1 };

static void find_choice(int i, int *conv, int *direction)
{
    const int back = i - CONVS;
    *conv = back < 0 ? i : CONVS - 1 - back / 2;
    *direction = back < 0 ? 0 : 1 + back % 2;
}

static size_t *limit_of(const chain *c, int i)
{
    int conv, direction;
    find_choice(i, &conv, &direction);
    return &c->table.limit[2 * conv][direction];
}

static const dt_algorithms *algorithms_of(int i)
{
    int conv, direction;
    find_choice(i, &conv, &direction);
    return &made_up[conv][direction];
}

static int chosen(const chain *c, int i)
{
    return dti_algorithms_within(algorithms_of(i), *limit_of(c, i));
}

/* Choice by choice, every algorithm from the fastest, a plan of each. */
static void choose_one_by_one(chain *c, uint64_t ceiling)
{
    dt_algorithm_table_set(&c->table, DT_LIMIT_LEAST);
    for (int i = 0; i < CHOICES; i++)
        for (int k = 0; k < algorithms_of(i)->n; k++) {
            const size_t bytes = algorithms_of(i)->algorithm[k].bytes;
            *limit_of(c, i) = bytes > 0 ? bytes : DT_LIMIT_LEAST;
            if (peak_now(c) <= ceiling)
                break;
        }
}

static void fit_takes_the_fastest_that_fits(void **state)
{
    (void)state;
    dt_err err = {0};
    int faster = 0, limited = 0, other = 0, asked = 0, alone = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        dt_dice d = {seed, 0};
        chain c = open_chain(&d, seed % 2 == 0);
        int taken[CHOICES];
        dt_algorithm_table_set(&c.table, DT_LIMIT_LEAST);
        const uint64_t small = peak_now(&c);
        const uint64_t budget = seed % 3 == 0 ? small + dt_roll(&d, 16384) : seed % 3 == 1 ? 1 : 0;
        const uint64_t ceiling = budget > small ? budget : small;
        const dt_fit_env e = {budget, plan_chain, &c, NULL};
        c.plans = 0;
        assert_ok(dt_fit_algorithms(&e, &c.table, &err), &err);
        asked += c.plans;
        assert_true(peak_now(&c) <= ceiling);
        for (int i = 0; i < CHOICES; i++) {
            taken[i] = chosen(&c, i);
            assert_int_equal(taken[i] == 0, *limit_of(&c, i) == DT_LIMIT_ANY);
        }
        c.plans = 0;
        choose_one_by_one(&c, ceiling);
        alone += c.plans;
        for (int i = 0; i < CHOICES; i++) {
            if (taken[i] != chosen(&c, i) && c.by_bound)
                fail_msg("seed %d, %s: choice %d: algorithm %d, one by one %d", (int)seed,
                    c.policies, i, taken[i], chosen(&c, i));
            other += taken[i] != chosen(&c, i);
            faster += taken[i] + 1 < algorithms_of(i)->n;
            limited += taken[i] > 0;
        }
        close_chain(&c);
    }
    assert_true(faster > SEEDS && limited > SEEDS); /* or nothing was put to the test */
    assert_true(other < SEEDS / 2 * CHOICES / 20);
    assert_true(asked < alone / 2);
}

static void a_larger_budget_never_slows_an_op(void **state)
{
    (void)state;
    dt_err err = {0};
    for (uint64_t seed = 0; seed < SEEDS / 4; seed++) {
        dt_dice d = {seed, 0};
        chain c = open_chain(&d, true);
        int before[CHOICES];
        dt_algorithm_table_set(&c.table, DT_LIMIT_LEAST);
        const uint64_t small = peak_now(&c);
        for (uint64_t more = 0; more <= 16384; more += 2048) {
            const dt_fit_env e = {small + more, plan_chain, &c, NULL};
            assert_ok(dt_fit_algorithms(&e, &c.table, &err), &err);
            for (int i = 0; i < CHOICES; i++) {
                assert_true(more == 0 || chosen(&c, i) <= before[i]);
                before[i] = chosen(&c, i);
            }
        }
        for (int i = 0; i < CHOICES; i++)
            assert_int_equal(before[i], 0);
        close_chain(&c);
    }
}

/* A second for each step down the lists, and what moving for room costs: a price by byte of the
 * peak. */
static dt_status seconds_of(void *self, double *out, dt_err *err)
{
    chain *c = self;
    uint64_t peak = 0;
    (void)err;
    *out = 0;
    for (int i = 0; i < 2; i++)
        peak = c->made[i].plan->peak > peak ? c->made[i].plan->peak : peak;
    for (int i = 0; i < CHOICES; i++)
        *out += chosen(c, i);
    *out += c->price * (double)peak;
    return DT_OK;
}

static uint64_t fit_at(chain *c, double price, bool timed)
{
    dt_err err = {0};
    const dt_fit_env e = {1 << 30, plan_chain, c, timed ? seconds_of : NULL};
    c->price = price;
    assert_ok(dt_fit_algorithms(&e, &c->table, &err), &err);
    return peak_now(c);
}

/* moDNN's rule: an algorithm is taken for what it saves, less what its scratch costs. Where room
 * costs nothing all are the fastest; where a byte costs more than all save, the peak is that of
 * small. */
static void no_algorithm_costs_more_than_it_saves(void **state)
{
    (void)state;
    uint64_t above = 0;
    for (uint64_t seed = 0; seed < SEEDS / 4; seed++) {
        dt_dice d = {seed, 0};
        chain c = open_chain(&d, true);
        dt_algorithm_table_set(&c.table, DT_LIMIT_LEAST);
        const uint64_t small = peak_now(&c), untimed = fit_at(&c, 0, false);
        assert_int_equal(fit_at(&c, 0, true), untimed);
        for (int i = 0; i < CHOICES; i++)
            assert_int_equal(chosen(&c, i), 0);
        assert_int_equal(fit_at(&c, 1e6, true), small);
        above += untimed - small;
        close_chain(&c);
    }
    assert_true(above > 0); /* or there was nothing to pay */
}

/* One convolution alone has a choice: a second is saved for a MiB of scratch. The algorithm turns
 * exactly where what the scratch costs is that second. */
static void an_algorithm_turns_where_its_scratch_costs_what_it_saves(void **state)
{
    (void)state;
    dt_dice d = {1, 0};
    chain c = open_chain(&d, true);
    for (int i = 0; i < CONVS; i++)
        for (int k = 0; k < DT_DIRECTIONS; k++) {
            dt_algorithms *w = &made_up[i][k];
            w->n = 0;
            if (i == 1 && k == 0)
                dt_algorithms_add(w, "fast", 1 << 20);
            dt_algorithms_add(w, "small", 0);
        }
    dt_algorithm_table_set(&c.table, DT_LIMIT_LEAST);
    const uint64_t small = peak_now(&c), fast = fit_at(&c, 0, true);
    assert_true(fast > small && chosen(&c, 1) == 0);
    const double even = 1 / (double)(fast - small);
    assert_int_equal(fit_at(&c, even * (1 - 1e-9), true), fast);
    assert_int_equal(fit_at(&c, even * (1 + 1e-9), true), small);
    close_chain(&c);
}

/* An op without a choice is as fast as it is; were it limited, costs would take it for slow. Nor is
 * one that takes its fastest. */
static void what_has_no_choice_is_not_limited(void **state)
{
    (void)state;
    dt_err err = {0};
    int without = 0;
    for (uint64_t seed = 0; seed < SEEDS / 4; seed++) {
        dt_dice d = {seed, 0};
        chain c = open_chain(&d, true);
        const dt_fit_env e = {1, plan_chain, &c, NULL};
        assert_ok(dt_fit_algorithms(&e, &c.table, &err), &err);
        for (int i = 0; i < CHOICES; i++) {
            const int all = algorithms_of(i)->n;
            without += all == 1;
            assert_true((*limit_of(&c, i) == DT_LIMIT_ANY) == (chosen(&c, i) == 0));
        }
        close_chain(&c);
    }
    assert_true(without > SEEDS / 4);
}

static void a_plan_names_the_algorithms_it_is_for(void **state)
{
    (void)state;
    dt_dice d = {5, 0};
    chain c = open_chain(&d, true);
    for (int small = 0; small < 2; small++) {
        dt_algorithm_table_set(&c.table, small ? DT_LIMIT_LEAST : DT_LIMIT_ANY);
        (void)peak_now(&c);
        const dt_plan *p = c.made[0].plan;
        for (size_t i = 0; i < p->n_op; i++) {
            const dt_plan_op *op = &p->op[i];
            const bool conv = strncmp(op->name, "conv", 4) == 0;
            if (!small || !conv) {
                assert_string_equal(op->algorithm, "");
                continue;
            }
            const char *form = strchr(op->name, '.') + 1;
            const int direction = strcmp(form, "bw") == 0 ? 1 : strcmp(form, "bd") == 0 ? 2 : 0;
            const dt_algorithms *w = &made_up[op->name[4] - '0'][direction];
            assert_string_equal(op->algorithm, w->n > 1 ? w->algorithm[w->n - 1].impl : "");
            assert_int_equal(op->work, w->n > 1 ? w->algorithm[w->n - 1].bytes : 0);
        }
    }
    close_chain(&c);
}

static void a_plan_of_other_algorithms_is_not_run(void **state)
{
    (void)state;
    static const char ini[] =
        "[model]\nimage = 8\nclasses = 10\nfuse = off\n[train]\nbatch = 2\nprecision = fp32\n"
        "[device]\nkind = cpu\nthreads = 1\n[memory]\nalgorithms = small\n"
        "[conv a]\nout = 64\nkernel = 3\npad = 1\n[conv b]\nout = 64\nkernel = 3\npad = 1\n"
        "[fc c]\nout = 10\n[cross_entropy loss]\n";
    dt_session *s = NULL;
    dt_rig rig = {0};
    int id;
    dt_err err = {0};
    if (!dti_onednn_avx512())
        skip();
    assert_ok(dti_session_open_text(&s, "small.ini", ini, sizeof ini - 1, NULL, 0, &err), &err);
    assert_ok(dt_session_plan_run(s, false, 0, 0, &err), &err);
    assert_ok(dti_rig_open(&rig, s, &err), &err);
    dt_plan *p = s->plans->planned[0]->plan;
    assert_int_equal(dt_plan_kind(p), DT_PROGRAM_FIRST);
    assert_ok(dt_runner_add(rig.runner, p, &id, &err), &err);
    for (size_t i = 0; i < p->n_op; i++)
        if (p->op[i].kind != DT_OP_REORDER)
            p->op[i].limit = DT_LIMIT_ANY; /* and still for the algorithms of before */
    assert_fails(dt_runner_add(rig.runner, p, &id, &err), DT_E_CONFIG, &err,
        "but 'winograd:4x4_3x3' is chosen");
    dti_rig_close(&rig);
    dt_session_close(s);
}

DT_TEST_GROUP(workspace_limit)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slower_algorithms_take_fewer_bytes),
        cmocka_unit_test(the_limit_decides_between_winograd_and_the_library),
        cmocka_unit_test(other_convolutions_have_no_choice),
        cmocka_unit_test(algorithms_agree),
        cmocka_unit_test(fit_takes_the_fastest_that_fits),
        cmocka_unit_test(a_larger_budget_never_slows_an_op),
        cmocka_unit_test(no_algorithm_costs_more_than_it_saves),
        cmocka_unit_test(an_algorithm_turns_where_its_scratch_costs_what_it_saves),
        cmocka_unit_test(what_has_no_choice_is_not_limited),
        cmocka_unit_test(a_plan_names_the_algorithms_it_is_for),
        cmocka_unit_test(a_plan_of_other_algorithms_is_not_run),
    };
    dt_cpu_setup(0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
