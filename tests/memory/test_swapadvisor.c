/* SwapAdvisor: the paper's examples of crossing, what holds of any search, and orders of ops. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/policies/swapadvisor_search.h"
#include "memory/reorder.h"
#include "tests/fixture/check.h"
#include "tests/fixture/planned.h"
#include "tests/fixture/random_graph.h"

/* ---- figure 5 ---- */

static void orders_cross_as_published(void **state)
{
    (void)state;
    static const int32_t first[] = {0, 4, 1, 2, 3}, second[] = {1, 2, 3, 0, 4};
    static const int32_t want[] = {1, 2, 3, 0, 4};
    int32_t got[5];
    bool seen[5];
    dti_orders_cross(second, first, 3, 5, seen, got);
    assert_memory_equal(got, want, sizeof want);
}

/* Sizes of 1 to 4 MB in 12 MB: the mixture of classes 1 1 1 1 and 1 2 2 2 behind the second entry,
 * of counts 4 and 8 1. */
static void pools_cross_as_published(void **state)
{
    (void)state;
    uint64_t size[] = {1, 2, 3, 4};
    const dti_swap_problem p = {.n_size = 4, .size = size, .limit = 12};
    int32_t one[] = {0, 1, 0, 0}, other[] = {0, 0, 1, 1}, count[4];
    static const int32_t want_one[] = {0, 1, 1, 1}, want_other[] = {0, 0, 1, 1};
    static const int32_t of_one[] = {8, 1, 4, 4}, of_other[] = {4, 4, 1, 1};
    dti_classes_repair(one, 4);
    dti_classes_repair(other, 4);
    assert_memory_equal(one, want_one, sizeof want_one);
    assert_memory_equal(other, want_other, sizeof want_other);
    dti_counts_from_sizes(&p, one, of_one, count); /* 8 and 3 are 20 MB: 4 MB less of each */
    assert_true(count[0] == 4 && count[1] == 2);
    dti_counts_from_sizes(&p, other, of_other, count);
    assert_true(count[0] == 4 && count[1] == 1);
}

static void repaired_classes_are_valid(void **state)
{
    (void)state;
    dt_dice d = {5, 0};
    for (int round = 0; round < 500; round++) {
        int32_t class[9];
        for (int i = 0; i < 9; i++)
            class[i] = (int32_t)dt_roll(&d, 7);
        dti_classes_repair(class, 9);
        assert_int_equal(class[0], 0);
        for (int i = 1; i < 9; i++)
            assert_in_range(class[i] - class[i - 1], 0, 1);
    }
}

/* ---- the planner ---- */

enum { OPS = 24, TENSORS = 16, SIZES = 5 };

/* Each op makes a tensor, or none any more, and reads some of those that are there. */
typedef struct made_up {
    double seconds[OPS], out[TENSORS], in[TENSORS];
    int32_t arg_at[OPS + 1], arg[4 * OPS], after_at[OPS + 1], after[4 * OPS], size_of[TENSORS];
    uint64_t size[SIZES], beside[OPS];
    dti_swap_problem p;
} made_up;

static void make_up(made_up *m, uint64_t seed)
{
    dt_dice d = {seed, 0};
    int32_t n = 0, n_after = 0, maker[TENSORS], made = 0;
    memset(m, 0, sizeof *m);
    for (int i = 0; i < SIZES; i++)
        m->size[i] = (uint64_t)(i + 1);
    for (int32_t k = 0; k < OPS; k++) {
        m->seconds[k] = (double)dt_roll_in(&d, 1, 5);
        m->beside[k] = (uint64_t)k % 4;
        for (int32_t t = 0; t < made; t++)
            if (dt_roll(&d, 8) == 0 && n - m->arg_at[k] < 3)
                m->arg[n++] = t;
        if (made < TENSORS && dt_roll(&d, 3) > 0) {
            m->size_of[made] = (int32_t)dt_roll(&d, SIZES);
            m->out[made] = m->in[made] = (double)m->size[m->size_of[made]];
            maker[made] = k;
            m->arg[n++] = made++;
        }
        m->arg_at[k + 1] = n;
    }
    for (int32_t k = 0; k < OPS; k++) { /* whoever reads stays behind who made it */
        for (int32_t op = k + 1; op < OPS; op++)
            for (int32_t a = m->arg_at[op]; a < m->arg_at[op + 1]; a++)
                if (maker[m->arg[a]] == k && n_after < 4 * OPS)
                    m->after[n_after++] = op;
        m->after_at[k + 1] = n_after;
    }
    m->p = (dti_swap_problem){.n_op = OPS,
        .n_tensor = (size_t)made,
        .n_size = SIZES,
        .seconds = m->seconds,
        .out = m->out,
        .in = m->in,
        .arg_at = m->arg_at,
        .arg = m->arg,
        .after_at = m->after_at,
        .after = m->after,
        .size_of = m->size_of,
        .size = m->size,
        .limit = 20 + seed % 20,
        .beside = m->beside,
        .common = seed % 2 == 1,
        .guard = (int32_t)(seed % 3),
        .inlined = seed % 4 == 0};
}

/* The paper's figure 3: three ops of a chain, each with a weight, and as many back, in four objects
 * of one size. W3 takes the object of W1, whose next use is farthest, and A3 that of W2. */
static void a_chain_swaps_as_published(void **state)
{
    (void)state;
    enum { W1, W2, W3, A1, A2, A3, N };
    double one[N] = {1, 1, 1, 1, 1, 1};
    int32_t arg[] = {W1, A1, A1, W2, A2, A2, W3, A3, A3, A2, W3, A1, W2, W1};
    int32_t arg_at[N + 1] = {0, 2, 5, 8, 11, 13, 14}, after_at[N + 1] = {0}, after[1] = {0};
    int32_t size_of[N] = {0}, order[N] = {0, 1, 2, 3, 4, 5}, class[1] = {0}, count[1] = {4};
    uint64_t size[1] = {1};
    const dti_swap_problem p = {.n_op = N,
        .n_tensor = N,
        .n_size = 1,
        .seconds = one,
        .out = one,
        .in = one,
        .arg_at = arg_at,
        .arg = arg,
        .after_at = after_at,
        .after = after,
        .size_of = size_of,
        .size = size,
        .limit = 4};
    dti_genes g = {.order = order, .class = class, .count = count};
    dti_swap_plan s;
    dt_err err = {0};
    assert_ok(dti_swap_plan_init(&s, &p, &err), &err);
    assert_ok(dti_swap_plan_make(&s, &p, &g, &err), &err);
    assert_int_equal(g.over, 0);
    assert_int_equal(s.n, 2);
    assert_int_equal(s.swap[0].tensor, W1); /* gone behind op 1, back for the last */
    assert_true(s.swap[0].from == 0 && s.swap[0].to == 5);
    assert_int_equal(s.swap[1].tensor, W2);
    assert_true(s.swap[1].from == 1 && s.swap[1].to == 4);
    /* op 3 waits a second for the second copy out, and the last two ops one each for theirs back */
    assert_true(fabs(s.begin[2] - 3) < 1e-12 && fabs(g.seconds - 8) < 1e-12);
    dti_swap_plan_deinit(&s);
}

/* The paper's figure 1: A0 goes through conv1 to A1, and through conv2, conv3 and conv4 to A2, A3
 * and A4, which A1 is joined to. An op takes a second, so does a MB of a copy; A2 and A5 have two
 * MB, all else one, and the device ten. Weights wait on the host and are dropped, A0 is dropped,
 * what the layers made is kept for backward. Which branch had better go first
 * depends on the pool. */
enum { FIRST_USE, FILL, CONV1, CONV2, CONV3, CONV4, JOIN, BACK, OPS_OF_TWO = BACK + 4 };
enum { WEIGHT, VALUE = WEIGHT + 4, DUMMY = VALUE + 6, MOST_DUMMIES = 8, ALL_OF_TWO = DUMMY + 8 };

typedef struct branches {
    int32_t arg_at[OPS_OF_TWO + 1], arg[48], after_at[OPS_OF_TWO + 1], after[1];
    int32_t size_of[ALL_OF_TWO];
    double seconds[OPS_OF_TWO], out[ALL_OF_TWO], in[ALL_OF_TWO];
    uint64_t size[2];
    dti_swap_problem p;
} branches;

static void take(branches *b, int op, int n, const int32_t *arg)
{
    b->arg_at[op + 1] = b->arg_at[op];
    for (int i = 0; i < n; i++)
        b->arg[b->arg_at[op + 1]++] = arg[i];
}

static void draw_figure(branches *b, int dummies)
{
    static const int32_t weights[] = {0, 1, 2, 3};
    static const int32_t convs[][3] = {{VALUE, WEIGHT, VALUE + 1}, {VALUE, WEIGHT + 1, VALUE + 2},
        {VALUE + 2, WEIGHT + 2, VALUE + 3}, {VALUE + 3, WEIGHT + 3, VALUE + 4}};
    static const int32_t join[] = {VALUE + 1, VALUE + 4, VALUE + 5};
    int32_t dummy[MOST_DUMMIES];
    *b = (branches){.size = {1, 2}};
    for (int i = 0; i < MOST_DUMMIES; i++)
        dummy[i] = DUMMY + i;
    /* weights were there once, and nothing else is when the first layer begins */
    take(b, FIRST_USE, 4, weights);
    take(b, FILL, dummies, dummy);
    for (int i = 0; i < 4; i++)
        take(b, CONV1 + i, 3, convs[i]);
    take(b, JOIN, 3, join);
    for (int i = 0; i < 4; i++)
        take(b, BACK + i, 1, &(int32_t){VALUE + 4 - i});
    for (int op = CONV1; op <= JOIN; op++)
        b->seconds[op] = 1;
    for (int t = 0; t < ALL_OF_TWO; t++) {
        b->size_of[t] = t == VALUE + 2 || t == VALUE + 5;
        b->in[t] = (double)b->size[b->size_of[t]];
        b->out[t] = t > VALUE && t < DUMMY ? b->in[t] : 0;
    }
    b->p = (dti_swap_problem){.n_op = OPS_OF_TWO,
        .n_tensor = ALL_OF_TWO,
        .n_size = 2,
        .seconds = b->seconds,
        .out = b->out,
        .in = b->in,
        .arg_at = b->arg_at,
        .arg = b->arg,
        .after_at = b->after_at,
        .after = b->after,
        .size_of = b->size_of,
        .size = b->size,
        .limit = 10};
}

static void the_better_branch_goes_by_the_pool(void **state)
{
    (void)state;
    int32_t left[] = {0, 1, CONV1, CONV2, CONV3, CONV4, JOIN, 7, 8, 9, 10};
    int32_t right[] = {0, 1, CONV2, CONV3, CONV4, CONV1, JOIN, 7, 8, 9, 10};
    struct {
        int32_t *order, class[2], count[2];
        double seconds;
    } all[] = {{left, {0, 0}, {5, 0}, 6}, {right, {0, 0}, {5, 0}, 7}, {left, {0, 1}, {8, 1}, 7},
        {right, {0, 1}, {8, 1}, 6}};
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        branches b;
        dti_swap_plan s;
        dt_err err = {0};
        dti_genes g = {.order = all[i].order, .class = all[i].class, .count = all[i].count};
        draw_figure(&b, all[i].count[0]);
        assert_ok(dti_swap_plan_init(&s, &b.p, &err), &err);
        assert_ok(dti_swap_plan_make(&s, &b.p, &g, &err), &err);
        assert_int_equal(g.over, 0);
        if (!(fabs(s.end[JOIN] - all[i].seconds) < 1e-12))
            fail_msg("%zu: %g s, not %g", i, s.end[JOIN], all[i].seconds);
        dti_swap_plan_deinit(&s);
    }
}

/* Places at which a tensor has an object: from its first use to its last, without its swaps. */
static bool is_there(const made_up *m, const dti_genes *g, const dti_swap_plan *s, int32_t t, int k)
{
    int first = -1, last = -1;
    for (int i = 0; i < OPS; i++)
        for (int32_t a = m->arg_at[g->order[i]]; a < m->arg_at[g->order[i] + 1]; a++)
            if (m->arg[a] == t) {
                first = first < 0 ? i : first;
                last = i;
            }
    for (size_t i = 0; i < s->n; i++)
        if (s->swap[i].tensor == t && k > s->swap[i].from && k < s->swap[i].to)
            return false; /* perhaps still there for a while, when nobody wants its object */
    return first >= 0 && k >= first && k <= last;
}

static void assert_common_limit_holds(const made_up *m, const dti_genes *g, const dti_swap_plan *s)
{
    for (int k = 0; k < OPS; k++) {
        uint64_t bytes = m->beside[g->order[k]];
        for (int32_t t = 0; t < (int32_t)m->p.n_tensor; t++)
            bytes += is_there(m, g, s, t, k) ? m->size[m->size_of[t]] : 0;
        assert_true(bytes <= m->p.limit);
    }
}

/* Objects that are wanted at once, by class; as many there are for the whole step. */
static void assert_limit_holds(const made_up *m, const dti_genes *g, const dti_swap_plan *s)
{
    int32_t most[SIZES] = {0};
    uint64_t bytes = 0;
    for (int k = 0; k < OPS; k++) {
        int32_t n[SIZES] = {0};
        for (int32_t t = 0; t < (int32_t)m->p.n_tensor; t++)
            n[g->class[m->size_of[t]]] += is_there(m, g, s, t, k);
        for (int c = 0; c < SIZES; c++)
            most[c] = n[c] > most[c] ? n[c] : most[c];
    }
    for (int i = 0; i < SIZES; i++)
        if (i + 1 == SIZES || g->class[i + 1] != g->class[i])
            bytes += (uint64_t)most[g->class[i]] * m->size[i];
    assert_true(bytes <= m->p.limit);
}

/* What is said to be within the limit is, a copy back follows its copy out, and the step takes no
 * less than its ops. */
static void what_is_found_is_valid(void **state)
{
    (void)state;
    int within = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        made_up m;
        dti_genes best;
        dti_swap_plan s;
        dt_err err = {0};
        double ops = 0;
        bool seen[OPS];
        make_up(&m, seed);
        const dti_swap_opts o = {.seed = seed, .samples = 300, .population = 8, .mutation = 0.1};
        const dti_dependences d = {OPS, m.after_at, m.after};
        assert_ok(dti_genes_init(&best, &m.p, &err), &err);
        assert_ok(dti_swap_plan_init(&s, &m.p, &err), &err);
        assert_ok(dti_swap_search(&m.p, &o, &best, &err), &err);
        assert_true(dti_dependences_keep(&d, best.order, seen));
        const double seconds = best.seconds;
        assert_ok(dti_swap_plan_make(&s, &m.p, &best, &err), &err);
        assert_true(best.seconds <= seconds && best.seconds >= seconds);
        for (int k = 0; k < OPS; k++)
            ops += m.seconds[k];
        assert_true(best.seconds >= ops);
        for (size_t i = 0; i < s.n; i++)
            assert_true(s.swap[i].fetched >= s.swap[i].gone);
        if (best.over == 0 && m.p.common)
            assert_common_limit_holds(&m, &best, &s);
        else if (best.over == 0)
            assert_limit_holds(&m, &best, &s);
        within += best.over == 0;
        dti_swap_plan_deinit(&s);
        dti_genes_deinit(&best);
    }
    assert_true(within > 45);
}

static void count_one(void *listener)
{
    ++*(int *)listener;
}

/* Whoever waits for a long search is told of each individual. */
static void each_individual_is_told(void **state)
{
    (void)state;
    int told = 0;
    made_up m;
    dti_genes best;
    dt_err err = {0};
    const dti_swap_opts o = {.seed = 1,
        .samples = 300,
        .population = 8,
        .mutation = 0.1,
        .tries = count_one,
        .listener = &told};
    make_up(&m, 1);
    assert_ok(dti_genes_init(&best, &m.p, &err), &err);
    assert_ok(dti_swap_search(&m.p, &o, &best, &err), &err);
    assert_int_equal(told, 300);
    dti_genes_deinit(&best);
}

static bool is_worse(const dti_genes *a, const dti_genes *b)
{
    return a->over != b->over ? a->over > b->over : !(a->seconds <= b->seconds);
}

/* The same seed gives the same; more samples are never worse, and the first individual is the
 * program's order. */
static void more_samples_are_never_worse(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        made_up m;
        dti_genes now, before, again;
        dt_err err = {0};
        make_up(&m, seed);
        assert_ok(dti_genes_init(&now, &m.p, &err), &err);
        assert_ok(dti_genes_init(&before, &m.p, &err), &err);
        assert_ok(dti_genes_init(&again, &m.p, &err), &err);
        for (uint64_t samples = 1; samples <= 256; samples *= 4) {
            const dti_swap_opts o = {
                .seed = seed, .samples = samples, .population = 8, .mutation = 0.2};
            assert_ok(dti_swap_search(&m.p, &o, &now, &err), &err);
            assert_ok(dti_swap_search(&m.p, &o, &again, &err), &err);
            assert_memory_equal(now.order, again.order, sizeof(int32_t[OPS]));
            assert_false(is_worse(&now, &again) || is_worse(&again, &now));
            assert_false(samples > 1 && is_worse(&now, &before));
            const dti_genes was = before;
            before = now;
            now = was;
        }
        dti_genes_deinit(&now);
        dti_genes_deinit(&before);
        dti_genes_deinit(&again);
    }
}

/* ---- orders of a program's ops ---- */

/* The last ready op first: as far from the program's order as there is. */
static void last_first(const dti_dependences *d, int32_t *order)
{
    int32_t *waits = dt_alloc(d->n, sizeof *waits);
    assert_non_null(waits);
    for (int32_t a = 0; a < d->first[d->n]; a++)
        waits[d->after[a]]++;
    for (size_t k = 0; k < d->n; k++) {
        int32_t take = (int32_t)d->n - 1;
        while (waits[take] != 0)
            take--;
        order[k] = take;
        waits[take] = -1;
        for (int32_t a = d->first[take]; a < d->first[take + 1]; a++)
            waits[d->after[a]]--;
    }
    dt_free(waits);
}

/* A program in another order is planned and verified; what an op reads is still made before it, and
 * orders that break a dependence are told. */
static void another_order_keeps_what_depends(void **state)
{
    (void)state;
    int changed = 0;
    for (uint64_t seed = 0; seed < 30; seed++) {
        dt_err err = {0};
        dti_dependences d;
        const dt_pass_env e = {0};
        dt_lowered m = dt_program_of(dt_random_graph(seed), DT_PROGRAM_FIRST, 3);
        assert_ok(dt_program_index(m.program, &err), &err);
        assert_ok(dti_dependences_open(&d, m.program, &err), &err);
        int32_t *order = dt_alloc(d.n, sizeof *order);
        bool *seen = dt_alloc(d.n, sizeof *seen);
        assert_true(order != NULL && seen != NULL);
        last_first(&d, order);
        assert_true(dti_dependences_keep(&d, order, seen));
        for (size_t k = 0; k < d.n; k++)
            changed += order[k] != (int32_t)k;
        assert_ok(dti_reorder(m.program, order, &err), &err);
        m.plan = dt_lower_with(m.program, &e);
        for (size_t k = 0; k < d.n; k++)
            order[k] = (int32_t)(d.n - 1 - k);
        assert_false(dti_dependences_keep(&d, order, seen));
        memset(order, 0, d.n * sizeof *order);
        assert_false(dti_dependences_keep(&d, order, seen));
        dt_free(order);
        dt_free(seen);
        dti_dependences_close(&d);
        dt_lowered_close(&m);
    }
    assert_true(changed > 0);
}

static void what_a_policy_has_placed_keeps_its_place(void **state)
{
    (void)state;
    dt_err err = {0};
    dti_dependences d;
    dt_lowered m = dt_plan_model("lenet5", "vdnn_all", 4);
    assert_ok(dt_program_index(m.program, &err), &err);
    assert_int_equal(dti_dependences_open(&d, m.program, &err), DT_E_CONFIG);
    dti_dependences_close(&d);
    dt_lowered_close(&m);
}

/* ---- where parameters live ---- */

static void put_option(const dt_policy *p, void *opts, const char *key, const char *value)
{
    dt_err err = {0};
    const dt_opt *row = p->opts;
    while (strcmp(row->key, key) != 0)
        row++;
    assert_ok(dt_opt_read(row, value, opts, &err), &err);
}

/* How many of 64 parameters of so many bytes live on the host, by a choice, of which those before
 * came to @worth. Gradients and states live where their parameter does, be they in 8 bits. */
static int on_the_host(uint64_t bytes, const char *mutation, const double *worth, size_t choice)
{
    enum { N = 64 };
    const dt_policy *p = dt_policy_find("swapadvisor");
    void *opts = dt_alloc(1, p->opts_bytes);
    uint64_t host = UINT64_MAX;
    int n = 0;
    assert_non_null(opts);
    dt_opt_defaults(p->opts, opts);
    put_option(p, opts, "weights", "search");
    put_option(p, opts, "mutation", mutation);
    assert_int_equal(p->home_choices(opts), 7 + 32);
    p->choose_home(opts, worth, choice);
    for (int32_t i = 0; i < N; i++) {
        dt_home h = {.role = DT_ROLE_WEIGHTS, .bytes = bytes, .node = i, .param = i % 2};
        h.param_bytes = bytes;
        const dt_tier tier = p->home(opts, DT_CPU, &h, &host);
        h.role = DT_ROLE_GRADIENTS;
        assert_int_equal(p->home(opts, DT_CPU, &h, &host), tier);
        h.role = DT_ROLE_OPTIMIZER;
        h.bytes = bytes / sizeof(float);
        assert_int_equal(p->home(opts, DT_CPU, &h, &host), tier);
        n += tier == DT_TIER_HOST;
    }
    dt_free(opts);
    return n;
}

/* The first seven go by bytes. Of the two fastest, from 16 MiB and from 1 MiB on, a child has what
 * they agree on, and of what they do not some from each; mutation turns a few genes, of parameters
 * that have bytes to speak of. */
static void parameters_have_a_gene_each(void **state)
{
    (void)state;
    const uint64_t mib = 1 << 20;
    double worth[8] = {HUGE_VAL, 9, 4, 8, 5, 7, 6, 3};
    static const int from[] = {0, 64, 16, 4, 1};
    for (size_t k = 1; k < DT_COUNT(from); k++) {
        const uint64_t bytes = (uint64_t)from[k] * mib;
        assert_int_equal(on_the_host(bytes, "0.1", worth, k), 64);
        assert_int_equal(on_the_host(bytes - 1, "0.1", worth, k), 0);
    }
    assert_int_equal(on_the_host(32 * mib, "0", worth, 7), 64);
    assert_int_equal(on_the_host(1000, "0", worth, 7), 0);
    const int some = on_the_host(4 * mib, "0", worth, 7);
    assert_true(some > 16 && some < 48);
    const int turned = on_the_host(32 * mib, "0.2", worth, 7);
    assert_true(turned > 48 && turned < 64);
    assert_int_equal(on_the_host(32 * mib, "0.2", worth, 7), turned); /* the same each time */
    assert_int_equal(on_the_host(1000, "1", worth, 7), 0);
    /* its own child with the fastest by bytes keeps what all of them have */
    assert_int_equal(on_the_host(32 * mib, "0", worth, 8), 64);
    const int fewer = on_the_host(4 * mib, "0", worth, 8);
    assert_true(fewer > 0 && fewer < some);
}

DT_TEST_GROUP(swapadvisor)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_have_a_gene_each),
        cmocka_unit_test(orders_cross_as_published),
        cmocka_unit_test(pools_cross_as_published),
        cmocka_unit_test(repaired_classes_are_valid),
        cmocka_unit_test(a_chain_swaps_as_published),
        cmocka_unit_test(the_better_branch_goes_by_the_pool),
        cmocka_unit_test(what_is_found_is_valid),
        cmocka_unit_test(each_individual_is_told),
        cmocka_unit_test(more_samples_are_never_worse),
        cmocka_unit_test(another_order_keeps_what_depends),
        cmocka_unit_test(what_a_policy_has_placed_keeps_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
