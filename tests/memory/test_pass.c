/* What policies are made of: gaps, and the rewrites that set a gap's fate. Mostly on the toy
 * network; what the rewrites lead to at large is for test_random_plans. */
#include <dnntrain/policy.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "layers/norm/batchnorm.h"
#include "layers/shape/concat.h"
#include "layers/weighted/conv.h"
#include "layers/weighted/fc.h"
#include "layers/plain.h"
#include "memory/lower/lower.h"
#include "memory/pass.h"
#include "memory/policy.h"
#include "memory/program_key.h"
#include "memory/verify/verify.h"
#include "tests/fixture/check.h"
#include "tests/fixture/planned.h"
#include "tests/fixture/random_graph.h"
#include "tests/fixture/random_pass.h"
#include "tests/fixture/toy.h"

static int32_t op(const dt_program *p, const char *name)
{
    return dt_toy_op(p, name);
}

static int32_t tensor(const dt_program *p, const char *name)
{
    return dt_toy_tensor(p, name);
}

/* Names of the ops in order, with blanks between. */
static const char *order(const dt_program *p)
{
    static char text[4096];
    size_t n = 0;
    text[0] = '\0';
    for (size_t i = 0; i < p->n_order; i++)
        n += (size_t)snprintf(
            text + n, sizeof text - n, "%s%s", i > 0 ? " " : "", p->op[p->order[i]].name);
    return text;
}

/* "TENSOR FROM>TO" of all gaps, those over the loss marked. */
static const char *gaps(const dt_program *p)
{
    static char text[4096];
    size_t n = 0;
    dti_gap g;
    text[0] = '\0';
    for (size_t t = 0; t < p->n_tensor; t++)
        for (int32_t i = 0; dti_gap_next(p, (int32_t)t, &i, &g);)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s %s>%s%s", n > 0 ? ", " : "",
                p->tensor[t].name, p->op[g.from].name, p->op[g.to].name, g.crosses_loss ? "!" : "");
    return text;
}

/* The first gap of a tensor that goes over the loss, or the first at all. */
static dti_gap gap(const dt_program *p, const char *name, bool crosses)
{
    dti_gap g;
    for (int32_t i = 0; dti_gap_next(p, tensor(p, name), &i, &g);)
        if (g.crosses_loss == crosses)
            return g;
    fail_msg("%s has no such gap", name);
    return g;
}

static dt_plan *lowered(dt_program *p)
{
    dt_plan *plan;
    dt_err err = {0};
    const dt_lower_opts o = {.pool = dt_pool_find("greedy"), .policy = "test"};
    assert_ok(dt_lower(&plan, p, &o, &err), &err);
    assert_ok(dt_verify(plan, &err), &err);
    return plan;
}

static void still_sound(dt_program *p)
{
    dt_plan_destroy(lowered(p));
}

static void gaps_are_where_bytes_lie_idle(void **state)
{
    (void)state;
    dt_toy t = dt_toy_open(false);
    assert_string_equal(gaps(t.first),
        "x conv1.f>conv1.bw!, conv1.y bn1.f>bn1.b!, bn1.mean bn1.f>bn1.b!, "
        "bn1.istd bn1.f>bn1.b!, relu1.y conv2.f>conv2.bw!, relu1.y conv2.bw>relu1.b, "
        "conv2.y conv2.f>loss.f"); /* the labels come between */
    dt_toy_close(&t);
}

static void a_copy_goes_out_after_the_gap_begins_and_back_before_it_ends(void **state)
{
    (void)state;
    dt_toy t = dt_toy_open(false);
    dt_err err = {0};
    const dti_gap g = gap(t.first, "conv1.y", true);
    assert_ok(dti_offload(t.first, &g, NULL, &err), &err);
    assert_string_equal(order(t.first),
        "fetch.x conv1.f bn1.f out.conv1.y relu1.f conv2.f fetch.labels loss.f loss.b conv2.bw "
        "conv2.bd relu1.b in.conv1.y bn1.b conv1.bw");
    const dt_op *in = &t.first->op[op(t.first, "in.conv1.y")];
    assert_int_equal(in->pair, op(t.first, "out.conv1.y"));
    const int32_t y = tensor(t.first, "conv1.y");
    assert_true(dti_resident(t.first, y, dt_pos(t.first, op(t.first, "bn1.f"))));
    assert_false(dti_resident(t.first, y, dt_pos(t.first, op(t.first, "loss.f"))));
    assert_true(dti_resident(t.first, y, dt_pos(t.first, op(t.first, "bn1.b"))));
    assert_int_equal(
        dti_definition(t.first, y, dt_pos(t.first, op(t.first, "loss.f"))), op(t.first, "conv1.f"));
    assert_int_equal(dti_definition(t.first, y, dt_pos(t.first, op(t.first, "bn1.b"))),
        op(t.first, "in.conv1.y"));
    still_sound(t.first);
    dt_toy_close(&t);
}

/* The index as it was brought up to date says what one made anew does. */
static void assert_index_right(dt_program *p)
{
    dt_err err = {0};
    dt_program *anew = NULL;
    assert_ok(dt_program_copy(&anew, p, &err), &err);
    for (size_t i = 0; i < p->n_op; i++)
        assert_int_equal(dt_pos(p, (int32_t)i), dt_pos(anew, (int32_t)i));
    for (size_t t = 0; t < p->n_tensor; t++) {
        int32_t n, n_anew;
        const dt_access *a = dt_accesses(p, (int32_t)t, &n);
        const dt_access *b = dt_accesses(anew, (int32_t)t, &n_anew);
        assert_int_equal(n, n_anew);
        for (int32_t i = 0; i < n; i++)
            assert_true(a[i].op == b[i].op && a[i].mode == b[i].mode);
    }
    dt_program_destroy(anew);
}

static void inserting_keeps_the_index_right(void **state)
{
    (void)state;
    dt_toy t = dt_toy_open(true);
    dt_program *p = t.first;
    dt_err err = {0};
    const size_t n = p->n_tensor;
    size_t moved = 0;
    dti_gap g;
    for (size_t k = 0; k < n; k++)
        for (int32_t i = 0; dti_gap_next(p, (int32_t)k, &i, &g);)
            if (g.crosses_loss) { /* encodes make tensors, moves do not */
                int32_t packed;
                if (moved++ % 2 == 0 && dt_packs(&p->tensor[k]))
                    assert_ok(dti_encode(p, &g, dti_codec_find("zvc"), 0.5, &packed, &err), &err);
                else
                    assert_ok(dti_offload(p, &g, NULL, &err), &err);
                assert_index_right(p);
                break;
            }
    assert_true(moved > 4);
    still_sound(p);
    dt_toy_close(&t);
}

/* Of a network with branches, whose readers change with each recompute; some values are made again
 * more than once. */
static void recomputing_keeps_the_index_right(void **state)
{
    (void)state;
    for (int dropping = 0; dropping < 2; dropping++) {
        dt_lowered m = dt_program_of(dt_standard("resnet20"), DT_PROGRAM_FIRST, 2);
        dt_program *p = m.program;
        dt_err err = {0};
        const size_t n = p->n_tensor;
        bool *dropped = dt_alloc(n, sizeof *dropped);
        size_t made = 0;
        dti_gap g;
        assert_non_null(dropped);
        for (size_t k = 0; k < n; k++)
            dropped[k] = k % 3 > 0;
        for (size_t k = n; k-- > 0;)
            for (int32_t i = 0; dti_gap_next(p, (int32_t)k, &i, &g);)
                if (g.crosses_loss && dti_repeatable(p, (int32_t)k)) {
                    const size_t before = p->n_op;
                    assert_ok(dti_recompute(p, &g, dropping ? dropped : NULL, &err), &err);
                    assert_index_right(p);
                    made += p->n_op - before;
                    break;
                }
        assert_true(made > 40);
        still_sound(p);
        dt_free(dropped);
        dt_lowered_close(&m);
    }
}

/* Gaps of the program at random, each with ops at random between which it is away. */
static size_t some_offloads(
    const dt_program *p, dt_dice *dice, dti_gap *gap_of, dti_offload_opt *opt, size_t most)
{
    size_t n = 0;
    dti_gap g;
    for (size_t k = 0; k < p->n_tensor; k++)
        for (int32_t i = 0; n < most && dti_gap_next(p, (int32_t)k, &i, &g);) {
            if (dt_roll(dice, 4) == 0)
                continue;
            const int64_t release = dt_roll_in(dice, g.from_pos, g.to_pos - 1);
            const int64_t before = dt_roll_in(dice, release + 1, g.to_pos);
            gap_of[n] = g;
            opt[n++] = (dti_offload_opt){
                .release_after = dt_roll(dice, 2) == 0 ? DT_NONE : p->order[release],
                .fetch_before = dt_roll(dice, 2) == 0 ? DT_NONE : p->order[before]};
        }
    return n;
}

static void assert_same_program(const dt_program *a, const dt_program *b)
{
    assert_int_equal(a->n_op, b->n_op);
    assert_int_equal(a->n_order, b->n_order);
    assert_memory_equal(a->order, b->order, a->n_order * sizeof *a->order);
    for (size_t i = 0; i < a->n_op; i++) {
        assert_string_equal(a->op[i].name, b->op[i].name);
        assert_int_equal(a->op[i].kind, b->op[i].kind);
        assert_int_equal(a->op[i].pair, b->op[i].pair);
        assert_int_equal(a->op[i].stored, b->op[i].stored);
        assert_int_equal(a->op[i].release_after, b->op[i].release_after);
        assert_int_equal(a->op[i].arg[0].tensor, b->op[i].arg[0].tensor);
        assert_int_equal(a->op[i].arg[0].port, b->op[i].arg[0].port);
    }
}

static void offloads_at_once_are_those_one_by_one(void **state)
{
    (void)state;
    enum { MOST = 400 };
    static dti_gap gap_of[MOST];
    static dti_offload_opt opt[MOST];
    dt_err err = {0};
    size_t all_in_all = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        dt_dice dice = {seed + dt_test_seed(), 0};
        dt_lowered m = dt_program_of(dt_random_graph(dice.seed), DT_PROGRAM_FIRST, 4);
        dt_program *q = NULL;
        dti_offloads at_once = {0};
        assert_ok(dt_program_index(m.program, &err), &err);
        assert_ok(dt_program_copy(&q, m.program, &err), &err);
        const size_t n = some_offloads(q, &dice, gap_of, opt, MOST);
        for (size_t k = 0; k < n; k++)
            assert_ok(dti_offloads_add(&at_once, q, &gap_of[k], &opt[k], &err), &err);
        assert_ok(dti_offloads_end(&at_once, q, DT_OK, &err), &err);
        assert_index_right(q);
        for (size_t k = 0; k < n; k++) {
            gap_of[k].from_pos = dt_pos(m.program, gap_of[k].from);
            gap_of[k].to_pos = dt_pos(m.program, gap_of[k].to);
            assert_ok(dti_offload(m.program, &gap_of[k], &opt[k], &err), &err);
        }
        assert_same_program(m.program, q);
        all_in_all += n;
        dt_program_destroy(q);
        dt_lowered_close(&m);
    }
    assert_true(all_in_all > 200);
}

static void offloads_after_a_failure_are_left_out(void **state)
{
    (void)state;
    dt_toy t = dt_toy_open(true);
    dt_err err = {0};
    dti_offloads all = {0};
    const dti_gap g = gap(t.first, "relu1.y", true);
    const size_t n = t.first->n_order;
    assert_ok(dti_offloads_add(&all, t.first, &g, NULL, &err), &err);
    assert_int_equal(t.first->n_order, n);
    assert_int_equal(dti_offloads_end(&all, t.first, DT_E_NOMEM, &err), DT_E_NOMEM);
    assert_int_equal(t.first->n_order, n);
    dt_toy_close(&t);
}

/* Place of the first row of a kind, for a tensor or op of that name, from @from on. */
static size_t row(const dt_plan *p, dt_row_kind kind, const char *name, size_t from)
{
    for (size_t i = from; i < p->n_row; i++) {
        const dt_row *r = &p->row[i];
        if (r->kind == kind &&
            (kind == DT_ROW_COMPUTE
                    ? strcmp(p->op[r->op].name, name) == 0
                    : r->tensor >= 0 && strcmp(p->tensor[r->tensor].name, name) == 0))
            return i;
    }
    fail_msg("the plan has no %s of %s", dt_row_name((int)kind), name);
    return 0;
}

/* conv - relu - fc, where the value between is of @words floats a sample. */
static dt_lowered narrow(int32_t words, int64_t n)
{
    const dt_conv conv = {words, 1, 1, 0, 1, 1, true};
    const dt_fc fc = {3, true};
    dt_graph *g;
    dt_err err = {0};
    assert_ok(dt_graph_create(&g, "narrow", (dt_shape){1, 1, 1, 2}, 3, &err), &err);
    dt_toy_add(g, &dt_layer_conv, "conv", &conv);
    dt_toy_add(g, &dt_layer_relu, "relu", NULL);
    dt_toy_add(g, &dt_layer_fc, "fc", &fc);
    dt_toy_add(g, &dt_layer_cross_entropy, "loss", NULL);
    return dt_program_of(g, DT_PROGRAM_FIRST, n);
}

/* The slot of packed values begins with their number, which takes more than a value that is small
 * enough. Of such a slot a limit of the value's own bytes leaves no room for the number. */
static void a_value_of_any_size_is_moved_soundly(void **state)
{
    (void)state;
    size_t n_codec, moved = 0;
    const dt_codec *const *codec = dt_codec_all(&n_codec);
    for (size_t k = 0; k < n_codec; k++)
        for (int32_t words = 1; words <= 6 && codec[k]->drawn.encode == NULL; words++)
            for (int limited = 0; limited < 2; limited++) {
                dt_lowered m = narrow(words, 1);
                dt_err err = {0};
                dti_gap g;
                const int32_t t = tensor(m.program, "relu.y");
                assert_ok(dt_program_index(m.program, &err), &err);
                const dti_offload_opt o = {.release_after = DT_NONE,
                    .fetch_before = DT_NONE,
                    .codec = codec[k],
                    .density = 0.5,
                    .most = limited ? m.program->tensor[t].bytes : 0};
                if (dti_gap_crossing(m.program, t, &g)) {
                    assert_ok(dti_offload(m.program, &g, &o, &err), &err);
                    moved++;
                }
                m.plan = dt_planned_by(m.program, "cdma", "greedy"); /* which verifies it */
                dt_lowered_close(&m);
            }
    assert_true(moved > 0);
}

static void lowering_obeys_release_after_and_fetch_before(void **state)
{
    (void)state;
    dt_toy t = dt_toy_open(false);
    dt_err err = {0};
    const dti_gap g = gap(t.first, "relu1.y", true);
    const dti_offload_opt o = {
        .release_after = op(t.first, "loss.f"), .fetch_before = op(t.first, "loss.b")};
    assert_ok(dti_offload(t.first, &g, &o, &err), &err);
    dt_plan *p = lowered(t.first);
    const size_t out = row(p, DT_ROW_COPY_OUT, "relu1.y", 0);
    const size_t release = row(p, DT_ROW_RELEASE, "relu1.y", 0);
    const size_t in = row(p, DT_ROW_COPY_IN, "relu1.y", 0);
    assert_true(row(p, DT_ROW_COMPUTE, "conv2.f", 0) < out);
    assert_true(row(p, DT_ROW_COMPUTE, "loss.f", 0) < release);
    assert_true(release < in && in < row(p, DT_ROW_COMPUTE, "loss.b", 0));
    assert_int_equal(p->out_bytes, 2048);
    assert_int_equal(p->in_bytes, 2048 + 1536 + 8); /* with x and labels */
    dt_plan_destroy(p);
    dt_toy_close(&t);
}

static void an_input_is_fetched_again_and_never_copied_out(void **state)
{
    (void)state;
    dt_toy t = dt_toy_open(false);
    dt_err err = {0};
    const dti_gap g = gap(t.first, "x", true);
    assert_ok(dti_offload(t.first, &g, NULL, &err), &err);
    dt_plan *p = lowered(t.first);
    assert_int_equal(p->out_bytes, 0);
    assert_int_equal(p->in_bytes, 2 * 1536 + 8);
    assert_int_equal(p->tier_peak[DT_TIER_HOST], 0);
    const size_t release = row(p, DT_ROW_RELEASE, "x", 0);
    assert_true(release < row(p, DT_ROW_COMPUTE, "bn1.f", 0));
    assert_true(row(p, DT_ROW_COPY_IN, "x", release) < row(p, DT_ROW_COMPUTE, "conv1.bw", 0));
    dt_plan_destroy(p);
    dt_toy_close(&t);
}

static void a_move_must_fit_into_its_gap(void **state)
{
    (void)state;
    dt_toy t = dt_toy_open(false);
    dt_err err = {0};
    const dt_program *p = t.first;
    const dti_gap g = gap(p, "relu1.y", true);
    const dti_offload_opt bad[] = {
        {.release_after = op(p, "relu1.f"), .fetch_before = DT_NONE},  /* before the gap */
        {.release_after = op(p, "conv2.bw"), .fetch_before = DT_NONE}, /* not back in time */
        {.release_after = DT_NONE, .fetch_before = op(p, "conv2.bd")}, /* behind the reader */
        {.release_after = DT_NONE, .fetch_before = op(p, "conv2.f")},  /* never away */
        {.release_after = op(p, "loss.b"),
            .fetch_before = op(p, "loss.f")}, /* back before it left */
    };
    const size_t ops = p->n_order;
    for (size_t i = 0; i < DT_COUNT(bad); i++)
        assert_fails(
            dti_offload(t.first, &g, &bad[i], &err), DT_E_CONFIG, &err, "cannot leave after");
    const dti_gap home = {tensor(p, "conv1.weight"), g.from, g.to, g.from_pos, g.to_pos, true, 0};
    assert_fails(dti_offload(t.first, &home, NULL, &err), DT_E_CONFIG, &err, "is persistent");
    assert_int_equal(p->n_order, ops);
    dt_toy_close(&t);
}

static void a_chosen_alternative_changes_what_is_written_and_read(void **state)
{
    (void)state;
    dt_toy t = dt_toy_open(false);
    dt_err err = {0};
    dt_program *p = t.first;
    assert_ok(dti_choose(p, dt_graph_find(t.graph, "relu1"), 1, 0, &err), &err);
    const int32_t mask = tensor(p, "relu1.mask"), y = tensor(p, "relu1.y");
    assert_int_equal(p->tensor[mask].bytes, 2 * 32); /* a bit an element of 8x8x4, batch 2 */
    assert_int_equal(dti_op_mode(&p->op[op(p, "relu1.f")], mask), DT_WRITE);
    assert_int_equal(dti_op_mode(&p->op[op(p, "relu1.b")], mask), DT_READ);
    assert_int_equal(dti_op_mode(&p->op[op(p, "relu1.b")], y), 0);
    assert_non_null(strstr(gaps(p), "relu1.mask relu1.f>relu1.b!"));
    assert_null(strstr(gaps(p), "conv2.bw>relu1.b"));
    assert_index_right(p);
    still_sound(p);
    assert_ok(dti_choose(p, dt_graph_find(t.graph, "relu1"), 0, 0, &err), &err);
    assert_int_equal(dti_op_mode(&p->op[op(p, "relu1.b")], y), DT_READ);
    assert_int_equal(dti_op_mode(&p->op[op(p, "relu1.f")], mask), 0);
    still_sound(p);
    dt_toy_close(&t);
}

static void alternatives_stay_where_fates_are_settled(void **state)
{
    (void)state;
    dt_err err = {0};
    for (int fate = 0; fate < 3; fate++) {
        dt_toy t = dt_toy_open(false);
        const int32_t relu = dt_graph_find(t.graph, "relu1");
        const dti_gap g = gap(t.first, "relu1.y", true);
        if (fate == 0)
            assert_ok(dti_offload(t.first, &g, NULL, &err), &err);
        else if (fate == 1)
            assert_ok(dti_recompute(t.first, &g, NULL, &err), &err);
        else
            assert_ok(dti_split(t.first, op(t.first, "relu1.f"), 2, &err), &err);
        assert_ok(dti_choose(t.first, relu, 1, 0, &err), &err);
        assert_int_equal(t.first->alt[relu], 0);
        assert_fails(dti_choose(t.first, relu, 2, 0, &err), DT_E_CONFIG, &err, "no alternative 2");
        dt_toy_close(&t);
    }
}

static void key_of(const dt_program *p, char key[DT_SHA256_TEXT])
{
    dt_sha256 sum;
    dt_sha256_init(&sum);
    dti_program_key(p, &sum);
    dt_sha256_text(&sum, key);
}

/* How many nodes change their alternative. */
static int choose_one_by_one(dt_program *p)
{
    dt_err err = {0};
    int changed = 0;
    for (size_t i = 0; i < p->graph->n_node; i++) {
        const int alt = dt_value_free(p->graph->node[i].desc), before = p->alt[i];
        if (alt >= 0)
            assert_ok(dti_choose(p, (int32_t)i, alt, 0, &err), &err);
        assert_index_right(p);
        changed += p->alt[i] != before;
    }
    return changed;
}

/* On the program as it came, and with fates that keep nodes from changing. */
static void alternatives_at_once_are_those_one_by_one(void **state)
{
    (void)state;
    int changed[2] = {0, 0};
    for (uint64_t seed = 1; seed <= 40; seed++) {
        const uint64_t graph = seed + dt_test_seed();
        const bool settled = seed % 2 == 0;
        char want[DT_SHA256_TEXT], got[DT_SHA256_TEXT];
        dt_lowered m = dt_program_of(dt_random_graph(graph), DT_PROGRAM_FIRST, 4);
        dt_program *q = NULL;
        dt_fates f = {0};
        dt_err err = {0};
        assert_ok(dt_program_index(m.program, &err), &err);
        if (settled)
            assert_ok(dt_random_pass(m.program, graph, &f, &err), &err);
        assert_ok(dt_program_copy(&q, m.program, &err), &err);
        assert_ok(dt_program_index(m.program, &err), &err);
        changed[settled] += choose_one_by_one(m.program);
        assert_ok(dti_choose_value_free(q, &err), &err);
        assert_index_right(q);
        assert_same_program(m.program, q);
        key_of(m.program, want);
        key_of(q, got);
        assert_string_equal(got, want);
        still_sound(q);
        dt_program_destroy(q);
        dt_lowered_close(&m);
    }
    assert_true(changed[0] > 10 && changed[1] > 0);
}

/* Recompute relu1.y for backward, with a set of dropped values, NULL for no set at all. */
static void recompute_relu(dt_toy *t, const char *const *names, size_t n, bool derived)
{
    *t = dt_toy_open(derived);
    dt_err err = {0};
    bool *dropped = calloc(t->first->n_tensor, sizeof *dropped);
    assert_non_null(dropped);
    for (size_t i = 0; i < n; i++)
        dropped[tensor(t->first, names[i])] = true;
    const dti_gap g = gap(t->first, "relu1.y", true);
    assert_ok(dti_recompute(t->first, &g, names != NULL ? dropped : NULL, &err), &err);
    free(dropped);
    still_sound(t->first);
}

static void without_a_set_clones_go_back_to_what_is_resident(void **state)
{
    (void)state;
    dt_toy t;
    recompute_relu(&t, NULL, 0, false);
    assert_non_null(strstr(order(t.first), "loss.b bn1.f' relu1.f' conv2.bw"));
    const dt_op *bn = &t.first->op[op(t.first, "bn1.f'")];
    assert_int_equal(dt_op_tensor(bn, DT_X), tensor(t.first, "conv1.y"));
    dt_toy_close(&t);
}

static void values_outside_the_set_are_kept(void **state)
{
    (void)state;
    static const char *const only[] = {"relu1.y"};
    dt_toy t;
    recompute_relu(&t, only, 1, false);
    assert_non_null(strstr(order(t.first), "loss.b relu1.f' conv2.bw"));
    const dt_op *relu = &t.first->op[op(t.first, "relu1.f'")];
    assert_int_equal(dt_op_tensor(relu, DT_X), tensor(t.first, "bn1.y"));
    assert_true(dti_resident(t.first, tensor(t.first, "bn1.y"), t.first->index.pos[t.first->loss]));
    dt_toy_close(&t);
}

static void recomputes_go_through_everything_that_is_dropped(void **state)
{
    (void)state;
    static const char *const all[] = {"relu1.y", "bn1.y", "conv1.y"};
    dt_toy t;
    recompute_relu(&t, all, 3, false);
    dt_program *p = t.first;
    assert_non_null(strstr(order(p), "loss.b conv1.f' bn1.f' relu1.f' conv2.bw"));
    assert_int_equal(dt_op_tensor(&p->op[op(p, "conv1.f'")], DT_X), tensor(p, "x"));
    assert_false(dti_resident(p, tensor(p, "conv1.y"), dt_pos(p, p->loss)));
    assert_int_equal(dti_root(p, tensor(p, "conv1.y'")), tensor(p, "conv1.y"));
    dt_toy_close(&t);
}

static void readers_behind_the_gap_use_the_recomputes(void **state)
{
    (void)state;
    static const char *const all[] = {"relu1.y", "bn1.y", "conv1.y"};
    dt_toy t;
    recompute_relu(&t, all, 3, false);
    const dt_program *p = t.first;
    assert_int_equal(dt_op_tensor(&p->op[op(p, "conv2.f")], DT_X), tensor(p, "relu1.y"));
    assert_int_equal(dt_op_tensor(&p->op[op(p, "conv2.bw")], DT_X), tensor(p, "relu1.y'"));
    assert_int_equal(dt_op_tensor(&p->op[op(p, "relu1.b")], DT_Y), tensor(p, "relu1.y'"));
    assert_int_equal(dt_op_tensor(&p->op[op(p, "bn1.b")], DT_X), tensor(p, "conv1.y'"));
    dt_toy_close(&t);
}

static void a_recompute_runs_the_recompute_form_and_touches_no_state(void **state)
{
    (void)state;
    dt_toy t;
    recompute_relu(&t, NULL, 0, false);
    const dt_program *p = t.first;
    const dt_op *bn = &p->op[op(p, "bn1.f'")];
    assert_int_equal(bn->kind, DT_OP_RECOMPUTE);
    assert_int_equal(bn->form, DT_RECOMPUTE);
    assert_int_equal(bn->recompute_of, op(p, "bn1.f"));
    assert_int_equal(dti_op_mode(bn, tensor(p, "bn1.mean")), DT_READ);
    assert_int_equal(dti_op_mode(bn, tensor(p, "bn1.istd")), DT_READ);
    for (int i = 0; i < bn->n_arg; i++)
        if (p->tensor[bn->arg[i].tensor].home != DT_NONE)
            assert_int_equal(bn->arg[i].mode, DT_READ);
    dt_toy_close(&t);
}

static void a_recompute_makes_its_derived_weight_again(void **state)
{
    (void)state;
    static const char *const all[] = {"relu1.y", "bn1.y", "conv1.y"};
    dt_toy t;
    recompute_relu(&t, all, 3, true);
    dt_program *p = t.first;
    assert_non_null(strstr(order(p), "loss.b conv1.wF' conv1.f' bn1.f' relu1.f' "));
    const dt_op *conv = &p->op[op(p, "conv1.f'")];
    assert_int_equal(dt_op_tensor(conv, DT_D), tensor(p, "conv1.wF'"));
    assert_int_equal(p->tensor[dt_op_tensor(conv, DT_WORK)].bytes, 64);
    dt_toy_close(&t);
}

static void a_value_can_be_made_again_more_than_once(void **state)
{
    (void)state;
    static const char *const only[] = {"relu1.y"};
    dt_toy t;
    dt_err err = {0};
    recompute_relu(&t, only, 1, false);
    const dti_gap g = gap(t.first, "relu1.y'", false);
    assert_ok(dti_recompute(t.first, &g, NULL, &err), &err);
    assert_non_null(strstr(order(t.first), "conv2.bd bn1.f' relu1.f'' relu1.b"));
    assert_int_equal(
        dt_op_tensor(&t.first->op[op(t.first, "relu1.b")], DT_Y), tensor(t.first, "relu1.y''"));
    still_sound(t.first);
    dt_toy_close(&t);
}

static void what_cannot_be_made_again_is_refused(void **state)
{
    (void)state;
    static const char *const cannot[] = {"x", "bn1.mean", "bn1.istd"};
    dt_toy t = dt_toy_open(false);
    dt_err err = {0};
    const size_t ops = t.first->n_order;
    for (size_t i = 0; i < DT_COUNT(cannot); i++) {
        const dti_gap g = gap(t.first, cannot[i], true);
        assert_false(dti_repeatable(t.first, g.tensor));
        assert_fails(
            dti_recompute(t.first, &g, NULL, &err), DT_E_CONFIG, &err, "cannot be made again");
    }
    assert_false(dti_repeatable(t.first, tensor(t.first, "loss.prob")));
    assert_false(dti_repeatable(t.first, tensor(t.first, "d.conv2")));
    assert_false(dti_repeatable(t.first, tensor(t.first, "conv1.weight")));
    assert_int_equal(t.first->n_order, ops);
    dt_toy_close(&t);
}

/* What is copied out is now the recompute, so what is copied back is the recompute as well. */
static void recomputing_in_front_of_a_move_moves_the_recompute(void **state)
{
    (void)state;
    dt_toy t = dt_toy_open(false);
    dt_err err = {0};
    const dti_gap late = gap(t.first, "relu1.y", false);
    assert_ok(dti_offload(t.first, &late, NULL, &err), &err);
    const dti_gap early = gap(t.first, "relu1.y", true);
    assert_ok(dti_recompute(t.first, &early, NULL, &err), &err);
    const int32_t recompute = tensor(t.first, "relu1.y'");
    assert_int_equal(t.first->op[op(t.first, "out.relu1.y")].arg[0].tensor, recompute);
    assert_int_equal(t.first->op[op(t.first, "in.relu1.y")].arg[0].tensor, recompute);
    assert_int_equal(dt_op_tensor(&t.first->op[op(t.first, "relu1.b")], DT_Y), recompute);
    still_sound(t.first);
    dt_toy_close(&t);
}

/* Two branches, each a convolution of one pixel and a ReLU, which a concatenation joins; where
 * @read another one reads the first ReLU's value as well, and its backward that. */
static dt_graph *branches(bool read)
{
    dt_graph *g;
    dt_err err = {0};
    int32_t x = DT_GRAPH_INPUT, y[3], v;
    char name[16];
    const dt_conv conv = {.out = 4, .kernel = 1, .stride = 1, .dilation = 1, .groups = 1};
    const dt_fc fc = {2, true};
    assert_ok(dt_graph_create(&g, "branches", (dt_shape){1, 8, 8, 4}, 2, &err), &err);
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "conv%d", i);
        assert_ok(dt_graph_add(g, &dt_layer_conv, name, &conv, &x, 1, &v, &err), &err);
        snprintf(name, sizeof name, "relu%d", i);
        assert_ok(dt_graph_add(g, &dt_layer_relu, name, NULL, &v, 1, &y[i], &err), &err);
    }
    if (read)
        assert_ok(dt_graph_add(g, &dt_layer_conv, "more", &conv, &y[0], 1, &y[2], &err), &err);
    assert_ok(dt_graph_add(g, &dt_layer_concat, "concat", NULL, y, read ? 3 : 2, &v, &err), &err);
    assert_ok(dt_graph_add(g, &dt_layer_fc, "fc", &fc, &v, 1, &v, &err), &err);
    assert_ok(dt_graph_add(g, &dt_layer_cross_entropy, "loss", NULL, &v, 1, &v, &err), &err);
    return g;
}

/* A ReLU's mask is kept where a concatenation has its value and nothing else reads that again. */
static void what_a_concatenation_holds_is_not_kept_beside_it(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        const bool masks = i / 2 == 1, read = i % 2 == 1;
        dt_graph *g = branches(read);
        dt_map *map;
        dt_program *p;
        dt_err err = {0};
        assert_ok(dt_map_create(&map, g, NULL, 2, 1, &err), &err);
        const dt_program_opts o = {g, map, NULL, DT_PROGRAM_FIRST, 2,
            {&dt_layer_sum, &dt_layer_commit, &dt_layer_sgd, NULL}, NULL, masks};
        assert_ok(dt_program_create(&p, &o, &err), &err);
        for (int r = 0; r < 2; r++) {
            const bool mask = masks && !(read && r == 0);
            const dt_op *back = &p->op[op(p, r == 0 ? "relu0.b" : "relu1.b")];
            assert_int_equal(dt_op_tensor(back, DT_Y) == DT_NONE, mask);
            assert_int_equal(dt_op_tensor(back, DT_S) != DT_NONE, mask);
        }
        still_sound(p);
        dt_program_destroy(p);
        dt_map_destroy(map);
        dt_graph_destroy(g);
    }
}

enum { DIAMONDS = 16 };

/* bn, then v = v + relu(v) many times. */
static dt_graph *diamonds(void)
{
    dt_graph *g;
    dt_err err = {0};
    char name[16];
    int32_t v = DT_GRAPH_INPUT, r;
    const dt_fc fc = {2, true};
    const dt_batchnorm norm = {.eps = 1e-5, .momentum = 0.1};
    assert_ok(dt_graph_create(&g, "diamonds", (dt_shape){1, 2, 2, 4}, 2, &err), &err);
    assert_ok(dt_graph_add(g, &dt_layer_batchnorm, "bn", &norm, &v, 1, &v, &err), &err);
    for (int i = 0; i < DIAMONDS; i++) {
        snprintf(name, sizeof name, "relu%d", i);
        assert_ok(dt_graph_add(g, &dt_layer_relu, name, NULL, &v, 1, &r, &err), &err);
        snprintf(name, sizeof name, "add%d", i);
        assert_ok(dt_graph_add(g, &dt_layer_add, name, NULL, (int32_t[]){v, r}, 2, &v, &err), &err);
    }
    assert_ok(dt_graph_add(g, &dt_layer_fc, "fc", &fc, &v, 1, &v, &err), &err);
    assert_ok(dt_graph_add(g, &dt_layer_cross_entropy, "loss", NULL, &v, 1, &v, &err), &err);
    return g;
}

static void each_value_is_cloned_once_a_request(void **state)
{
    (void)state;
    dt_graph *g = diamonds();
    dt_map *map;
    dt_program *p;
    dt_err err = {0};
    assert_ok(dt_map_create(&map, g, NULL, 2, 1, &err), &err);
    const dt_program_opts o = {g, map, NULL, DT_PROGRAM_FIRST, 2,
        {&dt_layer_sum, &dt_layer_commit, &dt_layer_sgd, NULL}, NULL, false};
    assert_ok(dt_program_create(&p, &o, &err), &err);
    bool *dropped = calloc(p->n_tensor, sizeof *dropped);
    assert_non_null(dropped);
    for (size_t t = 0; t < p->n_tensor; t++)
        dropped[t] = p->tensor[t].role == DT_ROLE_ACTIVATIONS;
    const size_t before = p->n_order;
    const dti_gap last = gap(p, "add15.y", true);
    assert_ok(dti_recompute(p, &last, dropped, &err), &err);
    assert_int_equal(p->n_order - before, 1 + 2 * DIAMONDS); /* bn, and two a diamond */
    still_sound(p);
    free(dropped);
    dt_program_destroy(p);
    dt_map_destroy(map);
    dt_graph_destroy(g);
}

static void pieces_share_out_the_batch_and_its_bytes(void **state)
{
    (void)state;
    dt_toy t = dt_toy_open(true);
    dt_err err = {0};
    assert_ok(dti_split(t.first, op(t.first, "conv1.f"), 2, &err), &err);
    assert_non_null(strstr(order(t.first), "conv1.wF conv1.f[0:1] conv1.f[1:2] bn1.f"));
    dt_plan *p = lowered(t.first);
    const dt_plan_op *second = &p->op[p->row[row(p, DT_ROW_COMPUTE, "conv1.f[1:2]", 0)].op];
    int seen = 0;
    for (int32_t a = second->first; a < second->first + second->n; a++) {
        const dt_plan_arg *g = &p->arg[a];
        const char *name = p->tensor[g->tensor].name;
        if (strcmp(name, "x") == 0 || strcmp(name, "conv1.y") == 0) {
            const uint64_t half = p->tensor[g->tensor].bytes / 2;
            assert_true(g->from == half && g->to == 2 * half);
            seen++;
        } else {
            assert_true(g->from == 0 && g->to == p->tensor[g->tensor].bytes);
        }
        if (p->tensor[g->tensor].role == DT_ROLE_WORKSPACE)
            assert_int_equal(g->to, 32); /* scratch of one sample */
    }
    assert_int_equal(seen, 2);
    dt_plan_destroy(p);
    dt_toy_close(&t);
}

static void what_cannot_be_split_exactly_is_refused(void **state)
{
    (void)state;
    static const char *const cannot[] = {
        "fetch.x", "conv1.wF", "bn1.f", "bn1.b", "conv2.bw", "loss.f", "loss.b"};
    dt_toy t = dt_toy_open(true);
    dt_err err = {0};
    for (size_t i = 0; i < DT_COUNT(cannot); i++)
        assert_fails(dti_split(t.first, op(t.first, cannot[i]), 2, &err), DT_E_CONFIG, &err,
            "cannot be split over the batch");
    const int32_t conv = op(t.first, "conv1.f");
    assert_fails(dti_split(t.first, conv, 1, &err), DT_E_CONFIG, &err, "1 pieces of 2 samples");
    assert_fails(dti_split(t.first, conv, 3, &err), DT_E_CONFIG, &err, "3 pieces of 2 samples");
    assert_ok(dti_split(t.first, conv, 2, &err), &err);
    assert_fails(dti_split(t.first, conv, 2, &err), DT_E_CONFIG, &err, "cannot be split");
    dt_toy_close(&t);
}

/* Facts that change with the number of samples. */
static const char *impl_of_one = "same";
static uint64_t layout_of_one;
static size_t derived_of_one;

static dt_status picky_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    snprintf(f->impl, sizeof f->impl, "%s", c->n == 1 ? impl_of_one : "same");
    f->layout = c->n == 1 ? layout_of_one : 0;
    f->derived_bytes = c->n == 1 ? derived_of_one : 0;
    return DT_OK;
}

static void a_piece_must_run_the_same_code_on_the_same_layouts(void **state)
{
    (void)state;
    dt_toy t = dt_toy_open(false);
    dt_err err = {0};
    const int32_t relu = op(t.first, "relu1.f");
    dt_layer_desc picky = *t.first->op[relu].desc;
    const dt_kernels kernels = {.facts = picky_facts};
    picky.cpu = &kernels;
    t.first->op[relu].desc = &picky;
    impl_of_one = "other";
    assert_fails(dti_split(t.first, relu, 2, &err), DT_E_CONFIG, &err, "would run other code");
    impl_of_one = "same";
    layout_of_one = 1;
    assert_fails(dti_split(t.first, relu, 2, &err), DT_E_CONFIG, &err, "would run other code");
    layout_of_one = 0;
    derived_of_one = 256; /* the whole reads the weight as it lives */
    assert_fails(dti_split(t.first, relu, 2, &err), DT_E_CONFIG, &err, "would run other code");
    derived_of_one = 0;
    assert_ok(dti_split(t.first, relu, 2, &err), &err);
    dt_toy_close(&t);
}

/* Between the pieces of an op its output is not whole: that is no gap, even when another op comes
 * between. */
static void a_half_written_value_has_no_gap(void **state)
{
    (void)state;
    dt_toy t = dt_toy_open(false);
    dt_err err = {0};
    assert_ok(dti_split(t.first, op(t.first, "conv2.f"), 2, &err), &err);
    const dti_gap g = gap(t.first, "x", true);
    const dti_offload_opt o = {
        .release_after = DT_NONE, .fetch_before = op(t.first, "conv2.f[1:2]")};
    assert_ok(dti_offload(t.first, &g, &o, &err), &err);
    assert_non_null(strstr(order(t.first), "conv2.f[0:1] fetch.x conv2.f[1:2]"));
    assert_null(strstr(gaps(t.first), "conv2.y conv2.f[0:1]"));
    assert_non_null(strstr(gaps(t.first), "relu1.y conv2.f[0:1]>conv2.f[1:2]"));
    still_sound(t.first);
    dt_toy_close(&t);
}

/* What the step of a program takes, in seconds. */
static double step_of(dt_program *p, const dt_pass_env *e)
{
    dt_plan *plan = dt_lower_with(p, e);
    const double seconds = dt_simulated(plan, e);
    dt_plan_destroy(plan);
    return seconds;
}

/* A step with one value made again, less the same step with none. */
static double grows_by(dt_program *p, const dt_pass_env *e, const dt_saved *s)
{
    dt_err err = {0};
    dt_program *q;
    const double before = step_of(p, e);
    assert_ok(dt_program_copy(&q, p, &err), &err);
    assert_ok(dt_program_index(q, &err), &err);
    assert_ok(dt_saved_recompute(q, s, &err), &err);
    const double after = step_of(q, e);
    dt_program_destroy(q);
    return after - before;
}

/* As if every op had been measured, and took a time that has nothing to do with its floor. */
static dt_costs costs_of_each(dt_program *p)
{
    const dt_pass_env e = {0};
    dt_err err = {0};
    dt_costs c = dt_costs_default;
    dt_plan *plan = dt_lower_with(p, &e);
    for (size_t i = 0; i < plan->n_op; i++) {
        char signature[DT_SIGNATURE_BYTES];
        dt_cost_entry x = {.signature = signature, .seconds = (double)(1 + i % 7) * 1e-3};
        dt_cost_signature(plan, &plan->op[i], signature, &x.samples);
        assert_ok(dt_costs_add(&c, &x, &err), &err);
    }
    dt_plan_destroy(plan);
    assert_ok(dt_costs_seal(&c, &err), &err);
    return c;
}

/* Returns of how many values it is told. */
static int told_of_each(dt_program *p, const dt_costs *costs)
{
    const dt_pass_env e = {.costs = costs};
    const double labels = 1e-8;
    int n = 0;
    for (dt_saved s = {0}; dt_saved_next(p, &s);) {
        const double said = dt_saved_recompute_seconds(p, &e, &s);
        assert_true(s.repeatable ? said > 0 && said < 1 : isinf(said));
        assert_true(!s.repeatable || fabs(said - grows_by(p, &e, &s)) < labels);
        n += s.repeatable;
    }
    return n;
}

/* With all that has to run again for it, as where a ReLU lies over what it was made from; but for
 * the labels, whose copy the loss may wait for. */
static void a_policy_from_outside_is_told_what_one_recompute_adds_to_the_step(void **state)
{
    (void)state;
    int n = 0;
    for (uint64_t seed = 1; seed <= (uint64_t)dt_scaled(2, 6, 40); seed++) {
        dt_lowered m = dt_program_of(dt_random_graph(seed), DT_PROGRAM_FIRST, 4);
        dt_costs measured = costs_of_each(m.program);
        n += told_of_each(m.program, NULL);
        n += told_of_each(m.program, &measured);
        dt_costs_deinit(&measured);
        dt_lowered_close(&m);
    }
    assert_true(n > 20);
}

/* Within 8 bytes of the device and 4 of the host. */
static void the_better_cost_fits_and_is_faster(void **state)
{
    (void)state;
    const dt_pass_env e = {.budgets = {.tier[DT_TIER_HOST] = 4}};
    const dti_pass_cost slow = {.device = 8, .seconds = 2}, fast = {.device = 9, .seconds = 1};
    const dti_pass_cost small = {.device = 7, .seconds = 2}, large = {.device = 10};
    const dti_pass_cost hosted = {.device = 6, .tier[DT_TIER_HOST] = 5, .seconds = 1};
    assert_true(dti_pass_is_better(&slow, &fast, 8)); /* the one fits */
    assert_false(dti_pass_is_better(&fast, &slow, 8));
    assert_true(dti_pass_is_better(&fast, &slow, 9));  /* both do */
    assert_true(dti_pass_is_better(&fast, &large, 8)); /* neither does */
    assert_false(dti_pass_is_better(&small, &slow, 8));
    assert_false(dti_pass_is_better(&slow, &slow, 8));
    assert_true(dti_pass_is_better_in_all(&e, &small, &slow, 8)); /* as fast, and less */
    assert_true(dti_pass_is_better(&hosted, &slow, 8));
    assert_false(dti_pass_is_better_in_all(&e, &hosted, &slow, 8));
    assert_false(dti_pass_is_better_in_all(&e, &slow, &slow, 8));
}

static dt_status fetch_again(void *self, dt_program *copy, dt_err *err)
{
    (void)self;
    return dti_fetch_again(copy, err);
}

/* Whether a plan fits is what its peak says, to the byte, with homes that come ahead as well. */
static void what_fits_is_what_the_peak_says(void **state)
{
    (void)state;
    for (int homes = 0; homes < 2; homes++) {
        dt_err err = {0};
        uint64_t peak;
        dt_lowered m = {.graph = dt_standard("lenet5")};
        assert_ok(dt_map_create(&m.map, m.graph, NULL, 8, 1, &err), &err);
        dt_tier *tier = dt_alloc(m.map->n, sizeof *tier);
        assert_non_null(tier);
        for (size_t i = 0; i < m.map->n; i++)
            tier[i] = homes == 1 && m.map->home[i].port != DT_METRICS ? DT_TIER_HOST : DT_AT_DEVICE;
        assert_ok(dt_map_settle(m.map, tier, false, &err), &err);
        dt_free(tier);
        m.program = dt_program_on(m.graph, m.map, DT_PROGRAM_FIRST, 8);
        const dt_lower_opts lower = {
            .pool = dt_pool_find("greedy"), .policy = "", .ahead = {[DT_TIER_HOST] = 1 << 20}};
        const dt_pass_env e = {.lower = &lower};
        assert_ok(dti_pass_peak_if(&e, m.program, fetch_again, NULL, &peak, &err), &err);
        for (uint64_t budget = peak - 1; budget <= peak + 1; budget++) {
            bool fits;
            assert_ok(
                dti_pass_fits_if(&e, m.program, fetch_again, NULL, budget, &fits, &err), &err);
            assert_int_equal(fits, budget >= peak);
        }
        dt_lowered_close(&m);
    }
}

DT_TEST_GROUP(pass)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_better_cost_fits_and_is_faster),
        cmocka_unit_test(what_fits_is_what_the_peak_says),
        cmocka_unit_test(a_policy_from_outside_is_told_what_one_recompute_adds_to_the_step),
        cmocka_unit_test(gaps_are_where_bytes_lie_idle),
        cmocka_unit_test(a_copy_goes_out_after_the_gap_begins_and_back_before_it_ends),
        cmocka_unit_test(inserting_keeps_the_index_right),
        cmocka_unit_test(recomputing_keeps_the_index_right),
        cmocka_unit_test(offloads_at_once_are_those_one_by_one),
        cmocka_unit_test(offloads_after_a_failure_are_left_out),
        cmocka_unit_test(a_value_of_any_size_is_moved_soundly),
        cmocka_unit_test(lowering_obeys_release_after_and_fetch_before),
        cmocka_unit_test(an_input_is_fetched_again_and_never_copied_out),
        cmocka_unit_test(a_move_must_fit_into_its_gap),
        cmocka_unit_test(a_chosen_alternative_changes_what_is_written_and_read),
        cmocka_unit_test(alternatives_stay_where_fates_are_settled),
        cmocka_unit_test(alternatives_at_once_are_those_one_by_one),
        cmocka_unit_test(without_a_set_clones_go_back_to_what_is_resident),
        cmocka_unit_test(values_outside_the_set_are_kept),
        cmocka_unit_test(recomputes_go_through_everything_that_is_dropped),
        cmocka_unit_test(readers_behind_the_gap_use_the_recomputes),
        cmocka_unit_test(a_recompute_runs_the_recompute_form_and_touches_no_state),
        cmocka_unit_test(a_recompute_makes_its_derived_weight_again),
        cmocka_unit_test(a_value_can_be_made_again_more_than_once),
        cmocka_unit_test(what_cannot_be_made_again_is_refused),
        cmocka_unit_test(recomputing_in_front_of_a_move_moves_the_recompute),
        cmocka_unit_test(what_a_concatenation_holds_is_not_kept_beside_it),
        cmocka_unit_test(each_value_is_cloned_once_a_request),
        cmocka_unit_test(pieces_share_out_the_batch_and_its_bytes),
        cmocka_unit_test(what_cannot_be_split_exactly_is_refused),
        cmocka_unit_test(a_piece_must_run_the_same_code_on_the_same_layouts),
        cmocka_unit_test(a_half_written_value_has_no_gap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
