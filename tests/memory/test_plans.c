/* Plans of the real networks: how close to the bound, how fast to make, and what network_wide says.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers.h"
#include "layers/weighted/fc.h"
#include "layers/plain.h"
#include "layers/registry.h"
#include "memory/lower/lower.h"
#include "memory/plan_text/plan_text.h"
#include "memory/policy.h"
#include "memory/verify/verify.h"
#include "models/ini.h"
#include "tests/fixture/check.h"
#include "tests/fixture/planned.h"

typedef struct made {
    dt_graph *graph;
    dt_map *map;
    dt_program *program;
    dt_plan *plan;
} made;

static void destroy(made *m)
{
    dt_plan_destroy(m->plan);
    dt_program_destroy(m->program);
    dt_map_destroy(m->map);
    dt_graph_destroy(m->graph);
}

static void make(made *m, const dt_model_desc *d, const dt_model_opts *o, const char *policy,
    const char *pool, int64_t n)
{
    dt_err err = {0};
    memset(m, 0, sizeof *m);
    assert_ok(dt_model_build(d, o, &m->graph, &err), &err);
    assert_ok(dt_map_create(&m->map, m->graph, NULL, n, 1, &err), &err);
    const dt_program_opts po = {.graph = m->graph,
        .map = m->map,
        .kind = DT_PROGRAM_FIRST,
        .n = n,
        .ops = {dt_layer_find("sum"), dt_layer_find("commit"), dt_layer_find("sgd")}};
    assert_ok(dt_program_create(&m->program, &po, &err), &err);
    dt_policies passes;
    assert_ok(dt_policies_open(&passes, policy, NULL, &err), &err);
    assert_ok(dt_policies_apply(&passes, m->program, NULL, &err), &err);
    dt_policies_close(&passes);
    const dt_lower_opts lo = {.pool = dt_pool_find(pool), .policy = policy};
    assert_ok(dt_lower(&m->plan, m->program, &lo, &err), &err);
    assert_ok(dt_verify(m->plan, &err), &err);
}

static const dt_model_opts standard = {.dropout = -1};

/* Peak over bound at most 1.02 for every model, workspace included, at batches 8, 16 and 32. */
static void every_model_lies_within_a_fiftieth_of_the_bound(void **state)
{
    (void)state;
    size_t n;
    const dt_model_desc *const *all = dt_model_all(&n);
    double worst = 1;
    for (size_t i = 0; i < n; i++)
        for (int64_t batch = 8; batch <= 32 && !dt_left_out(all[i]->name); batch *= 2) {
            made m;
            if (!dt_picked(i + (uint64_t)batch / 16, 3, 3, 1))
                continue;
            make(&m, all[i], &standard, "keep_all", "greedy", batch);
            const double ratio = (double)m.plan->peak / (double)m.plan->bound;
            if (!(ratio >= 1 && ratio <= 1.02))
                fail_msg("%s batch %d: peak / bound = %.4f", all[i]->name, (int)batch, ratio);
            worst = ratio > worst ? ratio : worst;
            destroy(&m);
        }
    assert_true(n >= 20);
    print_message("%zu models, batches 8, 16, 32: peak / bound at most %.4f\n", n, worst);
}

static dt_graph *unet(void)
{
    dt_config *c;
    dt_graph *g;
    dt_err err = {0};
    const dt_model_opts o = {.image = 32, .dropout = -1};
    assert_ok(dt_config_load(&c, dt_source_path("configs/unet_small.ini"), &err), &err);
    assert_ok(dt_ini_network(c, &o, &g, &err), &err);
    dt_config_destroy(c);
    return g;
}

/* Bytes that come and go make holes; no more than a twentieth may be lost in them. */
static void offload_lies_within_a_twentieth_of_the_bound(void **state)
{
    (void)state;
    static const char *const moving[] = {"vdnn_conv", "vdnn_all", "cdma", "gist_lossless,vdnn_all"};
    double worst = 1;
    for (size_t i = 0; i < 2 * DT_COUNT(moving); i++)
        for (int64_t batch = 8; batch <= 32; batch *= 2) {
            dt_graph *g = i % 2 == 0 ? dt_standard("resnet152") : unet();
            dt_lowered m = dt_program_of(g, DT_PROGRAM_FIRST, batch);
            dt_rewrite(m.program, moving[i / 2]);
            m.plan = dt_planned_by(m.program, moving[i / 2], "greedy");
            const double ratio = (double)m.plan->peak / (double)m.plan->bound;
            if (!(ratio >= 1 && ratio <= 1.05))
                fail_msg("%s, %s, batch %d: peak / bound = %.4f", g->name, moving[i / 2],
                    (int)batch, ratio);
            worst = ratio > worst ? ratio : worst;
            assert_true(m.plan->out_bytes > 0);
            dt_lowered_close(&m);
        }
    print_message("resnet152 and unet_small under offload: peak / bound at most %.4f\n", worst);
}

/* vDNN's baseline for a plain chain, counted from the graph alone: M = parameters and what goes
 * with them
 * + every value once (activations that run in place take their input's bytes) + two gradient
 * buffers of the largest size + what is scratch here (derived weights and workspaces, each the
 * largest). */
static void network_wide_is_the_papers_formula_on_a_chain(void **state)
{
    (void)state;
    const int64_t n = 8;
    made m;
    make(&m, dt_model_find("vgg16"), &standard, "network_wide", "greedy", n);
    uint64_t values = 0, largest = 0;
    const dt_graph *g = m.graph;
    values += dt_align_up((size_t)(n * dt_shape_sample(&g->input)) * 4, DT_ALIGN); /* the image */
    values += dt_align_up((size_t)n * 4, DT_ALIGN);                                /* its labels */
    for (size_t i = 0; i < g->n_node; i++) {
        const dt_node *nd = &g->node[i];
        const size_t y = (size_t)(n * dt_shape_sample(&nd->info.y)) * 4;
        const bool in_place =
            strcmp(nd->desc->name, "relu") == 0 || strcmp(nd->desc->name, "dropout") == 0;
        if (nd->desc->loss) /* its probabilities */
            values += dt_align_up((size_t)(n * g->classes) * 4, DT_ALIGN);
        else if (!in_place)
            values += dt_align_up(y, DT_ALIGN);
        if (!nd->desc->loss)
            largest = dt_align_up(y, DT_ALIGN) > largest ? dt_align_up(y, DT_ALIGN) : largest;
    }
    uint64_t derived = 0, work = 0;
    for (size_t t = 0; t < m.program->n_tensor; t++) {
        const dt_tensor *x = &m.program->tensor[t];
        const uint64_t bytes = dt_align_up(x->bytes, DT_ALIGN);
        if (x->role == DT_ROLE_DERIVED)
            derived = bytes > derived ? bytes : derived;
        if (x->role == DT_ROLE_WORKSPACE)
            work = bytes > work ? bytes : work;
    }
    const uint64_t want = m.map->bytes + values + 2 * largest + derived + work;
    if (m.plan->peak != want)
        fail_msg("peak %llu, the formula gives %llu", (unsigned long long)m.plan->peak,
            (unsigned long long)want);
    destroy(&m);
}

/* Liveness can only lower what the 2016 frameworks took, and by at least the second gradient
 * buffer. */
static void keep_all_is_below_network_wide(void **state)
{
    (void)state;
    static const char *const nets[] = {"lenet5", "alexnet", "vgg16", "resnet50", "resnet110"};
    for (size_t i = 0; i < DT_COUNT(nets); i++) {
        made wide, keep;
        make(&wide, dt_model_find(nets[i]), &standard, "network_wide", "greedy", 8);
        make(&keep, dt_model_find(nets[i]), &standard, "keep_all", "greedy", 8);
        assert_true(keep.plan->peak < wide.plan->peak);
        destroy(&wide);
        destroy(&keep);
    }
}

/* The same network, the same plan, to the byte. */
static void planning_is_a_pure_function(void **state)
{
    (void)state;
    made a, b;
    make(&a, dt_model_find("resnet50"), &standard, "keep_all", "greedy", 16);
    make(&b, dt_model_find("resnet50"), &standard, "keep_all", "greedy", 16);
    assert_int_equal(a.plan->n_row, b.plan->n_row);
    assert_memory_equal(a.plan->row, b.plan->row, a.plan->n_row * sizeof *a.plan->row);
    assert_int_equal(a.plan->peak, b.plan->peak);
    destroy(&a);
    destroy(&b);
}

static void assert_zero_behind(const char *text, size_t bytes, const char *what)
{
    for (size_t i = strnlen(text, bytes); i < bytes; i++)
        if (text[i] != '\0')
            fail_msg("%s '%.40s' has byte %d behind its end", what, text, text[i]);
}

/* What a plan's texts hold behind their ends is no rest of anything. */
static void check_texts(const dt_plan *p)
{
    assert_zero_behind(p->net, sizeof p->net, "network");
    assert_zero_behind(p->policy, sizeof p->policy, "policy");
    assert_zero_behind(p->pool, sizeof p->pool, "pool");
    assert_zero_behind(p->device, sizeof p->device, "device");
    assert_zero_behind(p->program, sizeof p->program, "program");
    for (size_t i = 0; i < p->n_tensor; i++)
        assert_zero_behind(p->tensor[i].name, sizeof p->tensor[i].name, "tensor");
    for (size_t i = 0; i < p->n_node; i++)
        assert_zero_behind(p->node[i].name, sizeof p->node[i].name, "node");
    for (size_t i = 0; i < p->n_op; i++) {
        assert_zero_behind(p->op[i].name, sizeof p->op[i].name, "op");
        assert_zero_behind(p->op[i].layer, sizeof p->op[i].layer, "layer");
        assert_zero_behind(p->op[i].algorithm, sizeof p->op[i].algorithm, "algorithm");
    }
    for (size_t i = 0; i < p->n_reason; i++)
        assert_zero_behind(p->reason[i], sizeof p->reason[i], "reason");
}

/* Fill what calls leave below on the stack, which is what a buffer that nobody clears holds. */
static void litter(void)
{
    volatile char rest[1 << 15];
    for (size_t i = 0; i < sizeof rest; i++)
        rest[i] = 'x';
}

static void texts_of_plans_end_in_zeros(void **state)
{
    (void)state;
    static const char *const policies[] = {
        "keep_all", "vdnn_all", "chen_sqrt", "gist_lossless", "superneurons"};
    for (size_t i = 0; i < DT_COUNT(policies); i++) {
        made m;
        litter();
        make(&m, dt_model_find("resnet20"), &standard, policies[i], "greedy", 4);
        check_texts(m.plan);
        if (i > 0)
            assert_true(m.plan->n_reason > 1);
        destroy(&m);
    }
}

/* One entry more behind the metrics, of nobody. */
static dt_map *map_with_more(const dt_graph *g)
{
    dt_map *m;
    dt_err err = {0};
    assert_ok(dt_map_create(&m, g, NULL, 4, 1, &err), &err);
    assert_true(dt_grow(&m->home, &m->cap, m->n, sizeof *m->home));
    dt_home more = m->home[m->metrics];
    snprintf(more.name, sizeof more.name, "more");
    more.port = DT_Q;
    more.bytes = DT_ALIGN;
    more.off = more.next = m->bytes;
    m->bytes += DT_ALIGN;
    m->home[m->n++] = more;
    return m;
}

/* The metrics are what the map says they are, wherever they stand in it. */
static void metrics_need_not_be_the_last_of_the_map(void **state)
{
    (void)state;
    dt_graph *g = dt_standard("lenet5");
    dt_map *map = map_with_more(g);
    assert_true((size_t)map->metrics == map->n - 2);
    for (int k = 0; k < DT_PROGRAM_KINDS; k++) {
        if (k == DT_PROGRAM_UPDATE)
            continue;
        dt_program *p = dt_program_on(g, map, (dt_program_kind)k, 4);
        dt_plan *plan = dt_planned_by(p, "keep_all", "greedy");
        int counted = 0;
        for (size_t i = 0; i < plan->n_arg; i++)
            if (plan->arg[i].port == DT_METRICS) {
                assert_string_equal(plan->tensor[plan->arg[i].tensor].name, "metrics");
                assert_int_not_equal(plan->arg[i].mode, DT_READ);
                counted++;
            }
        assert_true(counted > 0);
        dt_plan_destroy(plan);
        dt_program_destroy(p);
    }
    dt_map_destroy(map);
    dt_graph_destroy(g);
}

/* More ops than any network of ours has: what is looked up by name or searched for each of them
 * would not end within the limits of a test. */
static void a_program_of_fifty_thousand_ops_is_planned(void **state)
{
    (void)state;
    enum { LAYERS = 25000 };
    dt_graph *g;
    dt_err err = {0};
    int32_t at = DT_GRAPH_INPUT;
    char name[32];
    const dt_fc first = {8, true}; /* whose gradient comes back through all */
    assert_ok(dt_graph_create(&g, "long", (dt_shape){1, 1, 1, 8}, 8, &err), &err);
    assert_ok(dt_graph_add(g, &dt_layer_fc, "fc", &first, &at, 1, &at, &err), &err);
    for (int i = 0; i < LAYERS; i++) {
        snprintf(name, sizeof name, "r%d", i);
        assert_ok(dt_graph_add(g, &dt_layer_relu, name, NULL, &at, 1, &at, &err), &err);
    }
    assert_ok(dt_graph_add(g, &dt_layer_cross_entropy, "loss", NULL, &at, 1, &at, &err), &err);
    assert_int_equal(dt_graph_find(g, "r24999"), LAYERS);
    dt_lowered m = dt_program_of(g, DT_PROGRAM_FIRST, 2);
    m.plan = dt_planned_by(m.program, "keep_all", "greedy");
    assert_true(m.plan->n_op >= 2 * (size_t)LAYERS);
    dt_lowered_close(&m);
}

/* Of unequal layers, whose tensors a pool may place in many ways. */
static dt_lowered uneven(int layers)
{
    dt_graph *g;
    dt_err err = {0};
    int32_t at = DT_GRAPH_INPUT;
    char name[32];
    assert_ok(dt_graph_create(&g, "uneven", (dt_shape){1, 1, 1, 8}, 8, &err), &err);
    for (int i = 0; i < layers; i++) {
        const dt_fc one = {8 + 24 * (i * 7 % 5), false}, last = {8, false};
        snprintf(name, sizeof name, "f%d", i);
        assert_ok(
            dt_graph_add(g, &dt_layer_fc, name, i + 1 < layers ? &one : &last, &at, 1, &at, &err),
            &err);
    }
    assert_ok(dt_graph_add(g, &dt_layer_cross_entropy, "loss", NULL, &at, 1, &at, &err), &err);
    return dt_program_of(g, DT_PROGRAM_FIRST, 3);
}

static dt_plan *placed(const dt_lowered *m, const char *pool, uint64_t enough)
{
    dt_plan *p;
    dt_err err = {0};
    const dt_lower_opts o = {.pool = dt_pool_find(pool), .policy = "keep_all", .enough = enough};
    assert_ok(dt_lower(&p, m->program, &o, &err), &err);
    assert_ok(dt_verify(p, &err), &err);
    return p;
}

static bool same_places(const dt_plan *a, const dt_plan *b)
{
    bool same = a->n_row == b->n_row && a->peak == b->peak;
    for (size_t i = 0; same && i < a->n_row; i++)
        same = a->row[i].off == b->row[i].off;
    return same;
}

/* Of more than 10,000 tensors, where a peak is there anyway, the pool that a run has unless it
 * names one gives way to a quick one; who names another gets that. */
static void a_pool_that_is_named_places_very_many_tensors_too(void **state)
{
    (void)state;
    enum { LAYERS = 6000 };
    dt_lowered m = uneven(LAYERS);
    dt_plan *quick = placed(&m, "best_fit", 0), *named = placed(&m, "two_ended", 0),
            *still = placed(&m, "two_ended", UINT64_MAX), *usual = placed(&m, "greedy", UINT64_MAX);
    assert_true(quick->n_tensor > 10000);
    assert_false(same_places(named, quick));
    assert_true(same_places(still, named));
    assert_true(same_places(usual, quick));
    dt_plan *const all[] = {quick, named, still, usual};
    for (size_t i = 0; i < DT_COUNT(all); i++)
        dt_plan_destroy(all[i]);
    dt_lowered_close(&m);
}

/* Whether a row is a decision: something offloaded, made again, packed or put over another. */
static bool decides(const dt_plan *p, const dt_row *r)
{
    if (r->kind == DT_ROW_PLACE)
        return r->over != DT_NONE;
    if (r->kind == DT_ROW_COPY_OUT || r->kind == DT_ROW_COPY_IN)
        return r->tier != DT_TIER_INPUT;
    if (r->kind != DT_ROW_COMPUTE)
        return false;
    const dt_op_kind kind = (dt_op_kind)p->op[r->op].kind;
    return kind == DT_OP_RECOMPUTE || kind == DT_OP_ENCODE || kind == DT_OP_DECODE;
}

/* How many decisions there are; each gives a reason that begins with the name of the policy or of
 * the rule. */
static int count_reasons(const dt_plan *p, const char *policy)
{
    int n = 0;
    for (size_t i = 0; i < p->n_row; i++) {
        const dt_row *r = &p->row[i];
        if (!decides(p, r))
            continue;
        const char *rule = r->kind == DT_ROW_PLACE ? "in place" : policy;
        if (r->reason < 0 || (size_t)r->reason >= p->n_reason)
            fail_msg("%s %s, row %zu: no reason", p->net, policy, i);
        const char *why = p->reason[r->reason];
        if (strncmp(why, rule, strlen(rule)) != 0 || strncmp(why + strlen(rule), ": ", 2) != 0 ||
            strlen(why) < strlen(rule) + 8)
            fail_msg("%s, row %zu: '%s' does not begin with '%s: '", p->net, i, why, rule);
        n += r->kind != DT_ROW_PLACE;
    }
    return n;
}

/* Printed and parsed, every row gives the reason that it gave. */
static void reasons_survive_the_text(const dt_plan *p)
{
    char *text = NULL;
    size_t bytes = 0;
    dt_plan *q;
    dt_err err = {0};
    FILE *f = open_memstream(&text, &bytes);
    assert_non_null(f);
    dt_plan_print(p, f);
    assert_int_equal(fclose(f), 0);
    assert_ok(dti_plan_parse(&q, "text", text, bytes, &err), &err);
    assert_int_equal(q->n_row, p->n_row);
    assert_int_equal(q->n_reason, p->n_reason);
    for (size_t i = 0; i < p->n_row; i++)
        assert_int_equal(q->row[i].reason, p->row[i].reason);
    for (size_t i = 0; i < p->n_reason; i++)
        assert_string_equal(q->reason[i], p->reason[i]);
    dt_plan_destroy(q);
    free(text);
}

static void every_decision_gives_its_reason(void **state)
{
    (void)state;
    const dt_model_opts small = {
        .dropout = -1, .layers = 2, .width = 96, .heads = 3, .vocab = 65, .context = 64};
    size_t n;
    dt_err err = {0};
    const dt_policy *const *all = dt_policy_all(&n);
    for (size_t i = 0; i < n; i++) {
        int decisions = 0;
        if (all[i]->searches) /* the policy that it takes says why */
            continue;
        for (int net = 0; net < 3; net++) {
            dt_graph *g = net == 0 ? dt_standard("resnet20") : unet();
            if (net == 2) {
                dt_graph_destroy(g);
                assert_ok(dt_model_build(dt_model_find("gpt2"), &small, &g, &err), &err);
            }
            dt_lowered m = dt_program_of(g, DT_PROGRAM_FIRST, 32);
            dt_rewrite(m.program, all[i]->name);
            m.plan = dt_planned_by(m.program, all[i]->name, "greedy");
            decisions += count_reasons(m.plan, all[i]->name);
            reasons_survive_the_text(m.plan);
            dt_lowered_close(&m);
        }
        /* Those of ZeRO give homes, which are the map's and not this program's; moDNN's moves
         * nothing without a budget. */
        const bool keeps =
            strcmp(all[i]->name, "keep_all") == 0 || strcmp(all[i]->name, "network_wide") == 0 ||
            strcmp(all[i]->name, "modnn") == 0 || strncmp(all[i]->name, "zero_", 5) == 0;
        if ((decisions == 0) != (keeps || strcmp(all[i]->name, "gist_lossless") == 0))
            fail_msg("%s: %d decisions", all[i]->name, decisions);
    }
}

/* What is chosen to be read, and codecs that count on zeros, give theirs too. */
static void choices_give_their_reasons(void **state)
{
    (void)state;
    dt_lowered m = dt_plan_model("resnet20", "gist_lossless", 8);
    int chosen = 0;
    for (size_t i = 0; i < m.plan->n_row; i++) {
        const dt_row *r = &m.plan->row[i];
        if (r->kind != DT_ROW_COMPUTE || m.plan->op[r->op].alt == 0)
            continue;
        assert_true(r->reason >= 0);
        assert_non_null(strstr(m.plan->reason[r->reason], "gist_lossless: backward of "));
        chosen++;
    }
    assert_true(chosen > 0);
    dt_lowered_close(&m);
}

DT_TEST_GROUP(plans)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_lies_within_a_fiftieth_of_the_bound),
        cmocka_unit_test(offload_lies_within_a_twentieth_of_the_bound),
        cmocka_unit_test(network_wide_is_the_papers_formula_on_a_chain),
        cmocka_unit_test(keep_all_is_below_network_wide),
        cmocka_unit_test(planning_is_a_pure_function),
        cmocka_unit_test(texts_of_plans_end_in_zeros),
        cmocka_unit_test(metrics_need_not_be_the_last_of_the_map),
        cmocka_unit_test(a_program_of_fifty_thousand_ops_is_planned),
        cmocka_unit_test(a_pool_that_is_named_places_very_many_tensors_too),
        cmocka_unit_test(every_decision_gives_its_reason),
        cmocka_unit_test(choices_give_their_reasons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
