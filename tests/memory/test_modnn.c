/* moDNN: the lower bound of its paper, parts of a batch that grow with the budget, what may leave,
 * and ops that run in pieces. */
#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "layers/plain.h"
#include "memory/policies/modnn_batch.h"
#include "tests/fixture/check.h"
#include "tests/fixture/planned.h"
#include "tests/fixture/random_graph.h"
#include "tests/fixture/toy.h"

static uint64_t need(dt_program *p, double share)
{
    uint64_t bytes = 0;
    dt_err err = {0};
    assert_ok(dti_modnn_need(p, share, &bytes, &err), &err);
    return bytes;
}

/* Parameters and their gradients, which the paper keeps. */
static uint64_t weights(const dt_map *m)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < m->n; i++)
        if (m->home[i].role == DT_ROLE_WEIGHTS || m->home[i].role == DT_ROLE_GRADIENTS)
            sum += m->home[i].bytes;
    return sum;
}

/* ---- what a run of ops needs ---- */

/* Whether the last reader of as many bytes is written over by operand @a. */
static bool takes_over(const dt_program *p, const dt_op *op, int a)
{
    const dt_form *f = &op->desc->form[op->form];
    for (int i = 0; i < f->n_over; i++) {
        int32_t n;
        const int32_t in = dt_op_tensor(op, f->over[i].in);
        if (f->over[i].out != op->arg[a].port || in == DT_NONE || p->tensor[in].home != DT_NONE)
            continue;
        const dt_access *all = dt_accesses(p, in, &n);
        if (&p->op[all[n - 1].op] == op &&
            p->tensor[in].bytes == p->tensor[op->arg[a].tensor].bytes)
            return true;
    }
    return false;
}

/* Of the ops from @from on, as the header says, with no memory of the run before. */
static uint64_t bytes_of_run(const dt_program *p, size_t from, size_t width, bool *seen)
{
    uint64_t sum = 0, scratch = 0;
    memset(seen, 0, p->n_tensor * sizeof *seen);
    for (size_t k = from, n = 0; k < p->n_order && n < width; k++) {
        const dt_op *op = &p->op[p->order[k]];
        n += op->desc != NULL;
        for (int a = 0; a < op->n_arg && op->desc != NULL; a++) {
            const dt_tensor *t = &p->tensor[op->arg[a].tensor];
            if (t->home != DT_NONE || seen[op->arg[a].tensor])
                continue;
            seen[op->arg[a].tensor] = true;
            if (t->role == DT_ROLE_WORKSPACE)
                scratch = t->bytes > scratch ? t->bytes : scratch;
            else
                sum += takes_over(p, op, a) ? 0 : t->bytes;
        }
    }
    return sum + scratch;
}

static void a_run_needs_what_its_ops_need(void **state)
{
    (void)state;
    static const double shares[] = {0, 0.05, 0.3, 1};
    for (uint64_t seed = 0; seed < (uint64_t)dt_scaled(8, 20, 60); seed++) {
        dt_lowered m = dt_program_of(dt_random_graph(seed), DT_PROGRAM_FIRST, 4);
        const uint64_t first = need(m.program, 0); /* and its index */
        size_t ops = 0;
        for (size_t k = 0; k < m.program->n_order; k++)
            ops += m.program->op[m.program->order[k]].desc != NULL;
        bool *seen = dt_alloc(m.program->n_tensor + 1, sizeof *seen);
        assert_non_null(seen);
        for (size_t i = 0; i < DT_COUNT(shares); i++) {
            const size_t width = (size_t)fmax(1, ceil(shares[i] * (double)ops));
            uint64_t most = 0;
            for (size_t k = 0; k < m.program->n_order; k++) {
                const uint64_t one = bytes_of_run(m.program, k, width, seen);
                most = one > most ? one : most;
            }
            assert_int_equal(need(m.program, shares[i]), m.program->map->bytes + most);
            assert_true(need(m.program, shares[i]) >= first);
        }
        dt_free(seen);
        dt_lowered_close(&m);
    }
}

/* Equation 7, figure 9: VGG-16 by single pictures takes 1,080 MiB, parameters, their gradients,
 * and what its first pool reads and writes in backward, 30.6; two maps of the second convolution,
 * which the notes count, are 24.5. */
static void vgg16_has_the_published_bound(void **state)
{
    (void)state;
    dt_err err = {0};
    dt_algorithm_table small = {0};
    dt_lowered m = dt_program_of(dt_standard("vgg16"), DT_PROGRAM_FIRST, 1);
    dt_program *p = NULL;
    assert_ok(dt_algorithm_table_init(&small, m.graph->n_node, DT_LIMIT_LEAST, &err), &err);
    const dt_program_opts o = {.graph = m.graph,
        .map = m.map,
        .n = 1,
        .ops = {&dt_layer_sum, &dt_layer_commit, &dt_layer_sgd, NULL},
        .algorithms = &small};
    assert_ok(dt_program_create(&p, &o, &err), &err);
    const double maps = (double)(need(p, 0) - m.map->bytes) / (1 << 20);
    const double all = (double)weights(m.map) / (1 << 20) + maps;
    print_message("%.2f MiB, %.2f of them values\n", all, maps);
    assert_true(maps >= 24.5 && maps < 30.7);
    assert_true(all >= 1080 && all < 1.01 * 1080);
    dt_program_destroy(p);
    dt_algorithm_table_deinit(&small);
    dt_lowered_close(&m);
}

static uint64_t most_scratch(const dt_program *p)
{
    uint64_t most = 0;
    for (size_t t = 0; t < p->n_tensor; t++)
        if (p->tensor[t].role == DT_ROLE_WORKSPACE && p->tensor[t].bytes > most)
            most = p->tensor[t].bytes;
    return most;
}

/* But for scratch, of which the library's kernel for eight samples may take less than that for
 * seven. */
static void more_samples_and_longer_runs_need_more(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 12; seed++) {
        uint64_t before = 0;
        for (int64_t n = 1; n <= 9; n++) {
            dt_lowered m = dt_program_of(dt_random_graph(seed), DT_PROGRAM_FIRST, n);
            const uint64_t now = need(m.program, 0.15);
            assert_true(now >= before);
            assert_true(need(m.program, 0) <= now && now <= need(m.program, 1));
            before = now - most_scratch(m.program);
            dt_lowered_close(&m);
        }
    }
}

static void parts_are_rounded_as_published(void **state)
{
    (void)state;
    static const int64_t table[][2] = {{1, 1}, {2, 2}, {3, 2}, {5, 4}, {7, 4}, {15, 8}, {16, 16},
        {31, 16}, {33, 32}, {63, 32}, {64, 64}, {65, 64}, {127, 64}, {128, 128}, {200, 192}};
    for (size_t i = 0; i < DT_COUNT(table); i++)
        assert_int_equal(dti_modnn_round(table[i][0]), table[i][1]);
}

/* ---- what may leave ---- */

static dt_lowered moved(uint64_t seed, const dt_pass_env *e)
{
    dt_lowered m = dt_program_of(dt_random_graph(seed), DT_PROGRAM_FIRST, 4);
    dt_rewrite_with(m.program, "modnn", "[policy.modnn]\nleast = 0\n", e);
    m.plan = dt_lower_with(m.program, e);
    return m;
}

/* The op with a kernel next to a place, in a direction. */
static int32_t kernel_from(const dt_program *p, int32_t pos, int32_t step)
{
    while (p->op[p->order[pos]].desc == NULL)
        pos += step;
    return p->order[pos];
}

/* What leaves was used since it was made, but for what forward does not read; it does not come back
 * for the next op; parameters stay. */
static void nothing_leaves_that_may_not(void **state)
{
    (void)state;
    int left = 0;
    for (uint64_t seed = 0; seed < 30; seed++) {
        const dt_pass_env e = {.budgets = {.device = 1}};
        dt_lowered m = moved(seed, &e);
        dt_program *p = m.program;
        dt_err err = {0};
        assert_ok(dt_program_index(p, &err), &err);
        for (int32_t k = 0; k < (int32_t)p->n_order; k++) {
            const dt_op *in = &p->op[p->order[k]];
            if (in->kind != DT_OP_IN)
                continue;
            const int32_t t = in->arg[0].tensor, from = dt_pos(p, in->pair);
            const int32_t user = kernel_from(p, from, -1), loss = dt_pos(p, p->loss);
            assert_int_equal(p->tensor[t].home, DT_NONE);
            assert_true(user != dti_producer(p, t) || (from < loss && k > loss));
            int32_t reader = k + 1, between = 0;
            while (dti_op_mode(&p->op[p->order[reader]], t) == 0)
                reader++;
            for (int32_t i = from; i < reader; i++)
                between += p->op[p->order[i]].desc != NULL;
            assert_true(between >= 1);
            left++;
        }
        dt_lowered_close(&m);
    }
    assert_true(left > 30);
}

static int copies_of(const dt_program *p)
{
    int n = 0;
    for (size_t k = 0; k < p->n_order; k++)
        n += p->op[p->order[k]].kind == DT_OP_OUT;
    return n;
}

/* Without a budget, and with one that nothing exceeds. */
static void what_fits_stays(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 8; seed++)
        for (uint64_t budget = 0; budget <= 1; budget++) {
            const dt_pass_env e = {.budgets = {.device = budget << 40}};
            dt_lowered m = moved(seed, &e);
            assert_int_equal(copies_of(m.program), 0);
            dt_lowered_close(&m);
        }
}

/* ---- pieces ---- */

static dt_plan *toy_plan(dt_program *p, uint64_t budget, const char *ini)
{
    const dt_pass_env e = {.budgets = {.device = budget}};
    dt_rewrite_with(p, "modnn", ini, &e);
    return dt_lower_with(p, &e);
}

static bool has_op(const dt_program *p, const char *name)
{
    bool found = false;
    for (size_t k = 0; k < p->n_order; k++)
        found = found || strcmp(p->op[p->order[k]].name, name) == 0;
    return found;
}

enum { SCRATCH = 32 << 10 };

static dt_status hungry_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    f->work_bytes = SCRATCH * (size_t)c->n;
    return DT_OK;
}

/* The toy whose first convolution takes so much scratch a sample that nothing else counts. */
static dt_toy hungry_toy(dt_layer_desc *conv)
{
    static const dt_kernels kernels = {.facts = hungry_facts};
    dt_toy t = dt_toy_open(false);
    dt_err err = {0};
    dt_op *op = &t.first->op[dt_toy_op(t.first, "conv1.f")];
    *conv = *op->desc;
    conv->cpu = &kernels;
    op->desc = conv;
    assert_ok(dt_op_bind_work(t.first, op, 2 * SCRATCH, &err), &err);
    t.first->stale = true;
    return t;
}

/* An op whose scratch has no room, where nothing can leave for it, runs in pieces; where there is
 * room, whole. The plan keeps to the budget. */
static void scratch_without_room_is_halved(void **state)
{
    (void)state;
    for (int room = 0; room < 2; room++) {
        dt_layer_desc conv;
        dt_toy t = hungry_toy(&conv);
        const uint64_t budget = t.map->bytes + 8192 + (room ? 2 * SCRATCH : SCRATCH);
        dt_plan *p = toy_plan(t.first, budget, NULL);
        assert_int_equal(has_op(t.first, "conv1.f[0:1]"), !room);
        assert_int_equal(has_op(t.first, "conv1.f[1:2]"), !room);
        assert_int_equal(has_op(t.first, "conv1.f"), room);
        assert_true(p->peak <= budget);
        dt_plan_destroy(p);
        dt_toy_close(&t);
    }
}

static void pieces_can_be_switched_off(void **state)
{
    (void)state;
    dt_layer_desc conv;
    dt_toy t = hungry_toy(&conv);
    dt_plan *p = toy_plan(t.first, 1, "[policy.modnn]\nsplit = off\n");
    assert_true(has_op(t.first, "conv1.f"));
    dt_plan_destroy(p);
    dt_toy_close(&t);
}

DT_TEST_GROUP(modnn)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_needs_what_its_ops_need),
        cmocka_unit_test(vgg16_has_the_published_bound),
        cmocka_unit_test(more_samples_and_longer_runs_need_more),
        cmocka_unit_test(parts_are_rounded_as_published),
        cmocka_unit_test(nothing_leaves_that_may_not),
        cmocka_unit_test(what_fits_stays),
        cmocka_unit_test(scratch_without_room_is_halved),
        cmocka_unit_test(pieces_can_be_switched_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
