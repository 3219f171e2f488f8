/* Chen's checkpoints against the paper (arXiv:1604.06174) and the notes on it, systems/b.md section
 * 1 of the reference data: algorithm 3 to the byte, memory that grows as the square root (and the
 * logarithm) of depth, one more forward at most, and the same bits as keep_all. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/cpu.h"
#include "layers/norm/batchnorm.h"
#include "layers/weighted/conv.h"
#include "layers/elementwise/dropout.h"
#include "layers/weighted/fc.h"
#include "layers/pool/maxpool.h"
#include "layers/plain.h"
#include "memory/lower/lower.h"
#include "memory/plan_text/plan_text.h"
#include "memory/policies/chen.h"
#include "memory/policy.h"
#include "models/model.h"
#include "session/open.h"
#include "session/rig.h"
#include "session/run_plans.h"
#include "tests/fixture/check.h"
#include "tests/fixture/parse_config.h"
#include "tests/fixture/planned.h"
#include "tests/fixture/toy.h"

static const char *const policies[] = {"chen_sqrt", "chen_cheap", "chen_budget", "chen_recursive"};

/* A program with its policy applied, lowered and proved. */
typedef struct made {
    dt_program *program;
    dt_plan *plan;
} made;

static void unmake(made *m)
{
    dt_plan_destroy(m->plan);
    dt_program_destroy(m->program);
}

static dt_policies passes(const char *policy, const char *ini, dt_config **c)
{
    dt_policies s;
    dt_err err = {0};
    *c = NULL;
    if (ini != NULL)
        assert_ok(parse_config(c, "test.ini", ini, strlen(ini), &err), &err);
    assert_ok(dt_policies_open(&s, policy, *c, &err), &err);
    return s;
}

static made make(const dt_graph *g, const dt_map *map, dt_program_kind kind, int64_t n,
    const char *policy, const char *ini)
{
    made m;
    dt_err err = {0};
    dt_config *c;
    m.program = dt_program_on(g, map, kind, n);
    dt_policies s = passes(policy, ini, &c);
    assert_ok(dt_policies_apply(&s, m.program, NULL, &err), &err);
    dt_policies_close(&s);
    dt_config_destroy(c);
    m.plan = dt_planned_by(m.program, policy, "greedy");
    return m;
}

static dt_map *map_of(const dt_graph *g, int64_t n)
{
    dt_map *map;
    dt_err err = {0};
    assert_ok(dt_map_create(&map, g, NULL, n, 1, &err), &err);
    return map;
}

static double flops(const dt_program *p, dt_op_kind kind)
{
    double sum = 0;
    for (size_t i = 0; i < p->n_order; i++)
        sum += p->op[p->order[i]].kind == kind ? p->op[p->order[i]].flops : 0;
    return sum;
}

static size_t count(const dt_program *p, dt_op_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_order; i++)
        n += p->op[p->order[i]].kind == kind;
    return n;
}

static uint64_t transient(const made *m)
{
    return m->plan->peak - m->plan->persistent;
}

/* Networks. */

static void add_nth(dt_graph *g, const dt_layer_desc *desc, int i, const void *opts)
{
    char name[64];
    snprintf(name, sizeof name, "%s%d", desc->name, i);
    dt_toy_add(g, desc, name, opts);
}

static dt_graph *begin(const char *name, dt_shape input)
{
    dt_graph *g;
    dt_err err = {0};
    assert_ok(dt_graph_create(&g, name, input, 10, &err), &err);
    return g;
}

static dt_graph *end(dt_graph *g)
{
    dt_err err = {0};
    dt_toy_add(g, &dt_layer_fc, "fc", &(dt_fc){10, true});
    dt_toy_add(g, &dt_layer_cross_entropy, "loss", NULL);
    assert_ok(dt_graph_check(g, &err), &err);
    return g;
}

static const dt_batchnorm norm = {.eps = 1e-5, .momentum = 0.1};
static const dt_conv three = {4, 3, 1, 1, 1, 1, false};

enum { SIDE = 16, CHANNELS = 4, BATCH = 8 };
static const dt_shape square = {1, SIDE, SIDE, CHANNELS};
static const uint64_t unit = SIDE * SIDE * CHANNELS * sizeof(float) * BATCH;

/* Nodes of one size, each of which backward reads: normalisations. */
static dt_graph *unit_chain(int n)
{
    dt_graph *g = begin("units", square);
    for (int i = 0; i < n; i++)
        add_nth(g, &dt_layer_batchnorm, i, &norm);
    return end(g);
}

/* The paper's 1000 layers: convolution, normalisation, activation. */
static dt_graph *deep(int layers)
{
    dt_graph *g = begin("deep", square);
    for (int i = 0; i < layers; i++) {
        add_nth(g, &dt_layer_conv, i, &three);
        add_nth(g, &dt_layer_batchnorm, i, &norm);
        add_nth(g, &dt_layer_relu, i, NULL);
    }
    return end(g);
}

static dt_graph *with_dropout(void)
{
    static const dt_dropout quarter = {0.25};
    static const dt_maxpool half = {2, 2, 0, false};
    dt_graph *g = begin("dropped", (dt_shape){1, 8, 8, 3});
    for (int i = 0; i < 3; i++) {
        add_nth(g, &dt_layer_conv, i, &three);
        if (i > 0)
            add_nth(g, &dt_layer_batchnorm, i, &norm);
        add_nth(g, &dt_layer_relu, i, NULL);
        add_nth(g, &dt_layer_dropout, i, &quarter);
        add_nth(g, &dt_layer_maxpool, i, &half);
    }
    return end(g);
}

static dt_graph *model(const char *name, const dt_model_opts *o)
{
    dt_graph *g;
    dt_err err = {0};
    assert_ok(dt_model_build(dt_model_find(name), o, &g, &err), &err);
    return g;
}

static const dt_model_opts standard = {.dropout = -1};

/* Algorithm 3. */

typedef struct golden {
    uint64_t bytes[16];
    size_t n;
    const char *split; /* x: a split point; NULL: all */
    uint64_t budget, kept, segment;
    const char *keep; /* x: kept */
} golden;

#define UNITS {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 16
#define SIZES {64, 64, 64, 16, 32, 32, 8, 16, 16, 4, 8, 8}, 12

static void is_planned(const golden *t)
{
    bool split[16], keep[16];
    char got[17] = "";
    for (size_t i = 0; i < t->n; i++)
        split[i] = t->split == NULL || t->split[i] == 'x';
    const dti_chen_sums s = dti_chen_plan(t->bytes, split, t->n, t->budget, keep);
    for (size_t i = 0; i < t->n; i++)
        got[i] = keep[i] ? 'x' : '.';
    assert_string_equal(got, t->keep);
    assert_int_equal(s.kept, t->kept);
    assert_int_equal(s.segment, t->segment);
}

/* The first, second and third row of the notes' golden values (section 1b), then other budgets and
 * a set of split points, worked out by hand. */
static void algorithm_3_gives_the_golden_plans(void **state)
{
    (void)state;
    static const golden table[] = {
        {UNITS, NULL, 0, 16, 1, "xxxxxxxxxxxxxxxx"},
        {UNITS, NULL, 2, 5, 3, "..x..x..x..x..x."},
        {SIZES, NULL, 60, 224, 80, "xxx..x......"},
        {UNITS, NULL, 1, 8, 2, ".x.x.x.x.x.x.x.x"},
        {UNITS, NULL, 3, 4, 4, "...x...x...x...x"},
        {UNITS, NULL, 15, 1, 16, "...............x"},
        {UNITS, NULL, 16, 0, 0, "................"},
        {UNITS, "x.x.x.x.x.x.x.x.", 2, 4, 4, "..x...x...x...x."},
        {SIZES, NULL, 0, 332, 64, "xxxxxxxxxxxx"},
        {SIZES, NULL, 100, 96, 128, ".x..x......."},
        {SIZES, ".....x.....x", 60, 32, 272, ".....x......"},
    };
    for (size_t i = 0; i < DT_COUNT(table); i++)
        is_planned(&table[i]);
}

/* The lines these tests follow, as the notes' file has them now. */
static void the_notes_say_so(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "| 16 unit nodes, C=all, B=0 | 16 | 1 | all |",
        "| same, B=2 | 5 | 3 | 2,5,8,11,14 |",
        "| sizes 64,64,64,16,32,32,8,16,16,4,8,8, B=60 | 224 | 80 | 0,1,2,5 |",
        "| recursion g(1024) for k=1,3,7,15,31 | 10 | 15 | 23.3, 37.5, 62.0 |",
        "log-log slope of feature-map bytes < 0.6 for the plan, about 1 for sharing",
    };
    const char *path = dt_shared("systems/b.md");
    if (path == NULL)
        skip();
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
    assert_int_equal(fclose(f), 0);
    for (size_t i = 0; i < DT_COUNT(lines); i++)
        if (strstr(text, lines[i]) == NULL)
            fail_msg("the notes have changed: %s", lines[i]);
    free(text);
}

/* How memory and work grow. */

/* Notes, 1d.2: with k = sqrt(n) of n nodes kept, k + n/k of them are there at once, and forward
 * runs 2n ops at most. Statistics are kept for every node and taken off. */
static void a_unit_chain_takes_the_square_root(void **state)
{
    (void)state;
    for (int n = 100; n <= 900; n = n == 100 ? 400 : n + 500) {
        dt_graph *g = unit_chain(n);
        dt_map *map = map_of(g, BATCH);
        made m = make(g, map, DT_PROGRAM_FIRST, BATCH, "chen_sqrt", NULL);
        const int root = (int)sqrt((double)n);
        const uint64_t statistics = (uint64_t)n * 2 * DT_ALIGN;
        const double there = (double)(transient(&m) - statistics) / (double)unit;
        print_message("%d nodes: %.1f there at once, %zu run again\n", n, there,
            count(m.program, DT_OP_RECOMPUTE));
        assert_true(there >= root && there <= root + n / root + 4);
        assert_int_equal(count(m.program, DT_OP_RECOMPUTE), n - n / root);
        unmake(&m);
        dt_map_destroy(map);
        dt_graph_destroy(g);
    }
}

/* How many values forward drops, and the bytes that it takes. */
static size_t dropped_by(const dt_graph *g, const char *root, uint64_t *bytes)
{
    char ini[64];
    dt_map *map = map_of(g, BATCH);
    snprintf(ini, sizeof ini, "[policy.chen_sqrt]\nroot = %s\n", root);
    made m = make(g, map, DT_PROGRAM_FIRST, BATCH, "chen_sqrt", ini);
    const size_t n = count(m.program, DT_OP_RECOMPUTE);
    *bytes = transient(&m);
    unmake(&m);
    dt_map_destroy(map);
    return n;
}

/* Where every value may be kept both roots are the same. In residual networks fewer may be than
 * backward reads: by the root of the latter more are kept, and segments are shorter. */
static void values_have_a_larger_root_than_cuts(void **state)
{
    (void)state;
    uint64_t cuts, values;
    dt_graph *g = unit_chain(400);
    assert_int_equal(dropped_by(g, "cuts", &cuts), dropped_by(g, "values", &values));
    assert_int_equal(cuts, values);
    dt_graph_destroy(g);
    g = model("resnet50", &standard);
    dt_map *map = map_of(g, BATCH);
    dt_program *p = dt_program_on(g, map, DT_PROGRAM_FIRST, BATCH);
    dti_chen c;
    dt_err err = {0};
    assert_ok(dti_chen_open(&c, p, &err), &err);
    size_t read = 0;
    for (size_t i = 0; i < c.n; i++)
        read += c.value[i].read_back;
    assert_true(c.n_split > 16 && read > 4 * c.n_split);
    dti_chen_close(&c);
    dt_program_destroy(p);
    dt_map_destroy(map);
    (void)dropped_by(g, "cuts", &cuts);
    (void)dropped_by(g, "values", &values);
    assert_true(values < cuts);
    dt_graph_destroy(g);
}

/* Notes, fourth row of the golden values: g(1024) = k log_{k+1}(1024); k = 2 and 5 are not there.
 * Statistics as above; besides what is kept there are a part's own values and two gradients. */
static void recursion_takes_the_logarithm(void **state)
{
    (void)state;
    enum { N = 1024 };
    static const int cuts[] = {1, 2, 3, 5, 7, 15, 31};
    static const double notes[] = {10, 0, 15, 0, 23.3, 37.5, 62.0};
    dt_graph *g = unit_chain(N);
    dt_map *map = map_of(g, BATCH);
    for (size_t i = 0; i < DT_COUNT(cuts); i++) {
        if (!dt_sampled(i, 3))
            continue;
        char ini[64];
        snprintf(ini, sizeof ini, "[policy.chen_recursive]\ncuts = %d\n", cuts[i]);
        made m = make(g, map, DT_PROGRAM_FIRST, BATCH, "chen_recursive", ini);
        const double k = cuts[i], levels = log(N) / log(k + 1), want = k * levels;
        const double there = (double)(transient(&m) - (uint64_t)N * 2 * DT_ALIGN) / (double)unit;
        const size_t recomputes = count(m.program, DT_OP_RECOMPUTE);
        print_message("k = %d: g = %.1f, %.1f there at once, %zu run again\n", cuts[i], want, there,
            recomputes);
        assert_true(notes[i] < 1 || fabs(want - notes[i]) < 0.05);
        assert_true(there <= want + 6 && (double)recomputes <= N * levels);
        unmake(&m);
    }
    dt_map_destroy(map);
    dt_graph_destroy(g);
}

/* Slope of log(bytes) over log(layers), least squares. */
static double slope(const char *policy)
{
    static const int layers[] = {100, 300, 1000};
    const size_t counts = dt_small_scale() ? 2 : DT_COUNT(layers);
    const double n = (double)counts;
    double sx = 0, sy = 0, sxx = 0, sxy = 0;
    for (size_t i = 0; i < counts; i++) {
        dt_graph *g = deep(layers[i]);
        dt_map *map = map_of(g, 32);
        made m = make(g, map, DT_PROGRAM_FIRST, 32, policy, NULL);
        const double x = log(layers[i]), y = log((double)transient(&m));
        sx += x, sy += y, sxx += x * x, sxy += x * y;
        unmake(&m);
        dt_map_destroy(map);
        dt_graph_destroy(g);
    }
    return (n * sxy - sx * sy) / (n * sxx - sx * sx);
}

/* Notes, 1d.4: batch 32, 100 to 1000 layers; below 0.6 for the plan, about 1 for sharing alone. */
static void depth_costs_its_square_root(void **state)
{
    (void)state;
    const double kept = slope("keep_all"), root = slope("chen_sqrt");
    const double recursive = slope("chen_recursive");
    print_message(
        "slopes: keep_all %.3f, chen_sqrt %.3f, chen_recursive %.3f\n", kept, root, recursive);
    assert_true(kept > 0.95 && kept < 1.05);
    assert_true(root > 0.4 && root < 0.6);
    assert_true(recursive < root);
}

/* All networks. */

enum { LARGE = 1000 };

/* Of a forward, what a policy may run again on any network: what is cheap is a thirtieth; more
 * where layers are narrow, most where convolutions of single channels are few operations
 * themselves. */
static double most_again(const char *policy, const char *network)
{
    if (strcmp(policy, "chen_recursive") == 0)
        return 10;
    if (strcmp(policy, "chen_cheap") != 0)
        return 1;
    return strncmp(network, "mobilenet", strlen("mobilenet")) == 0 ? 0.25 : 0.06;
}

/* With one sample the weights in other layouts are as large as the values. */
static void no_model_takes_more_than_under_keep_all(void **state)
{
    (void)state;
    size_t models;
    const dt_model_desc *const *all = dt_model_all(&models);
    for (size_t i = 0; i < 2 * models; i++) {
        const int64_t n = i % 2 == 0 ? 1 : 8;
        if (!dt_picked(i / 2 + i % 2 * 3, 6, 12, 1))
            continue; /* a sixth of the models, one batch each */
        const char *name = all[i / 2]->name;
        dt_graph *g = model(name, &standard);
        if (g->n_node > LARGE && (n == 1 || dt_small_scale())) {
            dt_graph_destroy(g);
            continue; /* it takes longer than all others together */
        }
        dt_map *map = map_of(g, n);
        made keep = make(g, map, DT_PROGRAM_FIRST, n, "keep_all", NULL);
        const double forward = flops(keep.program, DT_OP_FORWARD);
        for (size_t k = 0; k < DT_COUNT(policies); k++) {
            made m = make(g, map, DT_PROGRAM_FIRST, n, policies[k], NULL);
            if (m.plan->peak > keep.plan->peak)
                fail_msg("%s %s: %llu bytes, keep_all %llu", name, policies[k],
                    (unsigned long long)transient(&m), (unsigned long long)transient(&keep));
            const double again = flops(m.program, DT_OP_RECOMPUTE) / forward;
            if (!(again <= most_again(policies[k], name)))
                fail_msg("%s %s: %g of a forward again", name, policies[k], again);
            unmake(&m);
        }
        unmake(&keep);
        dt_map_destroy(map);
        dt_graph_destroy(g);
    }
}

static uint64_t peak_within(const dt_graph *g, const dt_map *map, uint64_t budget)
{
    char ini[96];
    snprintf(ini, sizeof ini, "[policy.chen_budget]\nbudget = %llu\n", (unsigned long long)budget);
    made m = make(g, map, DT_PROGRAM_FIRST, 8, "chen_budget", ini);
    const uint64_t peak = m.plan->peak;
    unmake(&m);
    return peak;
}

/* Whatever the ladder, a budget that can be held is held, and more budget never takes less. */
static void a_lower_budget_never_gives_a_higher_peak(void **state)
{
    (void)state;
    static const char *const nets[] = {"lenet5", "vgg16", "resnet56", "resnet50"};
    for (size_t i = 0; i < (dt_small_scale() ? 3 : DT_COUNT(nets)); i++) {
        if (!dt_picked(i, 2, 2, 1))
            continue;
        dt_graph *g = model(nets[i], &standard);
        dt_map *map = map_of(g, 8);
        made keep = make(g, map, DT_PROGRAM_FIRST, 8, "keep_all", NULL);
        const uint64_t most = keep.plan->peak, least = peak_within(g, map, 0);
        unmake(&keep);
        uint64_t before = 0;
        int steps = 0;
        for (uint64_t b = least - (most - least) / 8 - 64; b <= most + 64;
             b += (most - least) / 16 + 64) {
            const uint64_t peak = peak_within(g, map, b);
            assert_true(peak >= before && (peak <= b || peak == least));
            steps += peak > before;
            before = peak;
        }
        assert_int_equal(peak_within(g, map, most), most); /* the fastest keeps everything */
        print_message("%s: %d steps of the ladder\n", nets[i], steps);
        assert_true(steps >= (i == 0 ? 1 : 2));
        dt_map_destroy(map);
        dt_graph_destroy(g);
    }
}

/* Between the smallest plan and the one that keeps everything there are many, and the more may be
 * taken, the less runs again: ResNet-50 at batch 190, 5.1 to 15.5 thousand MiB. */
static void budgets_between_have_plans_of_their_own(void **state)
{
    (void)state;
    enum { N = 190, STEPS = 14 };
    dt_graph *g = model("resnet50", &standard);
    dt_map *map = map_of(g, N);
    double before = 0;
    int distinct = 0;
    for (int i = 0; i < STEPS; i++) {
        const uint64_t budget = ((uint64_t)5100 + (uint64_t)i * 10400 / (STEPS - 1)) << 20;
        char ini[96];
        snprintf(
            ini, sizeof ini, "[policy.chen_budget]\nbudget = %llu\n", (unsigned long long)budget);
        made m = make(g, map, DT_PROGRAM_FIRST, N, "chen_budget", ini);
        const double again = flops(m.program, DT_OP_RECOMPUTE) / flops(m.program, DT_OP_FORWARD);
        print_message("%llu MiB: %llu, %.3f of a forward again\n", (unsigned long long)budget >> 20,
            (unsigned long long)m.plan->peak >> 20, again);
        assert_true(m.plan->peak <= budget);
        if (!(i == 0 || again <= before))
            fail_msg("%g of a forward again with more bytes than for %g", again, before);
        distinct += i == 0 || again < before;
        /* Half of the way up, what is dear is kept. */
        assert_true(i < STEPS / 2 || again < 0.25);
        before = again;
        unmake(&m);
    }
    assert_true(distinct >= 8);
    dt_map_destroy(map);
    dt_graph_destroy(g);
}

static bool made_again(const dt_program *p, const char *layer)
{
    char name[DT_TENSOR_NAME_BYTES];
    snprintf(name, sizeof name, "%s.y'", layer);
    for (size_t t = 0; t < p->n_tensor; t++)
        if (strcmp(p->tensor[t].name, name) == 0)
            return true;
    return false;
}

/* ReLUs of as many bytes in VGG-16, over convolutions of which the first takes half as long. All
 * ReLUs take as long themselves, and lie over what they read, which is made on the way. */
static const char *const pairs[][3] = {{"features.6", "features.8", "features.7.f"},
    {"features.11", "features.13", "features.12.f"},
    {"features.11", "features.15", "features.14.f"},
    {"features.18", "features.20", "features.19.f"},
    {"features.18", "features.22", "features.21.f"}};
enum { VGG_BATCH = 8 };

/* By a budget, 0 for none. @split: the dear convolutions run a sample at a time. */
static made vgg16_within(const dt_graph *g, const dt_map *map, uint64_t budget, bool split)
{
    made m;
    dt_err err = {0};
    dt_config *c;
    char ini[96];
    snprintf(ini, sizeof ini, "[policy.chen_budget]\nbudget = %llu\n", (unsigned long long)budget);
    m.program = dt_program_on(g, map, DT_PROGRAM_FIRST, VGG_BATCH);
    assert_ok(dt_program_index(m.program, &err), &err);
    for (size_t k = 0; split && k < DT_COUNT(pairs); k++)
        assert_ok(dti_split(m.program, dt_toy_op(m.program, pairs[k][2]), VGG_BATCH, &err), &err);
    dt_policies s = passes("chen_budget", ini, &c);
    assert_ok(dt_policies_apply(&s, m.program, NULL, &err), &err);
    dt_policies_close(&s);
    dt_config_destroy(c);
    m.plan = dt_planned_by(m.program, "chen_budget", "greedy");
    return m;
}

/* How often the dear one of a pair is kept and the cheap one is not. */
static int dear_is_kept_first(const dt_graph *g, const dt_map *map, bool split)
{
    enum { STEPS = 16 };
    made low = vgg16_within(g, map, 0, split);
    made keep = make(g, map, DT_PROGRAM_FIRST, VGG_BATCH, "keep_all", NULL);
    int differ = 0;
    for (int i = 1; i < STEPS; i++) {
        const uint64_t more = (keep.plan->peak - low.plan->peak) * (uint64_t)i / STEPS;
        made m = vgg16_within(g, map, low.plan->peak + more, split);
        for (size_t k = 0; k < DT_COUNT(pairs); k++) {
            const bool cheap = made_again(m.program, pairs[k][0]);
            const bool dear = made_again(m.program, pairs[k][1]);
            differ += cheap && !dear;
            if (dear && !cheap && made_again(low.program, pairs[k][0]))
                fail_msg("%s is kept before %s", pairs[k][0], pairs[k][1]);
        }
        unmake(&m);
    }
    unmake(&keep);
    unmake(&low);
    return differ;
}

static void what_is_made_on_the_way_counts_for_what_is_kept(void **state)
{
    (void)state;
    dt_graph *g = model("vgg16", &standard);
    dt_map *map = map_of(g, VGG_BATCH);
    assert_true(dear_is_kept_first(g, map, false) > 0);
    assert_true(dear_is_kept_first(g, map, true) > 0);
    dt_map_destroy(map);
    dt_graph_destroy(g);
}

static bool unet_fits(const char *policy, int64_t n, uint64_t device)
{
    dt_model_opts o = standard;
    o.image = 512;
    dt_graph *g = model("unet", &o);
    dt_map *map = map_of(g, n);
    char ini[96];
    snprintf(ini, sizeof ini, "[policy.chen_budget]\nbudget = %llu\n", (unsigned long long)device);
    made m = make(g, map, DT_PROGRAM_FIRST, n, policy, ini);
    assert_true(flops(m.program, DT_OP_RECOMPUTE) <= flops(m.program, DT_OP_FORWARD));
    const bool fits = m.plan->peak <= device;
    unmake(&m);
    dt_map_destroy(map);
    dt_graph_destroy(g);
    return fits;
}

/* Checkmate's linearised candidates make U-Net (512 by 512, 16e9 bytes) take 2.19 times the batch
 * of keeping everything, with at most one more forward; between split points alone it was 1.42. */
static void a_network_without_points_is_cut_like_a_line(void **state)
{
    (void)state;
    const uint64_t device = 16000000000;
    int64_t keeps = 10;
    while (unet_fits("keep_all", keeps + 1, device))
        keeps++;
    const int64_t want = (219 * keeps + 99) / 100;
    print_message("keep_all %d, so %d\n", (int)keeps, (int)want);
    assert_true(unet_fits("chen_budget", want, device));
    assert_true(unet_fits("chen_sqrt", 2 * keeps, device));
}

/* Counts what it is asked to place. */
static int placed;

static dt_status place_counted(dt_interval *v, size_t n, uint64_t *peak, dt_err *e)
{
    placed++;
    return dt_pool_find("best_fit")->place(v, n, peak, e);
}

static void the_search_places_by_the_pool_of_the_run(void **state)
{
    (void)state;
    static const dt_pool_desc counting = {
        .name = "counting", .summary = "", .place = place_counted};
    dt_graph *g = model("resnet18", &standard);
    dt_map *map = map_of(g, BATCH);
    dt_err err = {0};
    dt_config *c;
    dt_program *p = dt_program_on(g, map, DT_PROGRAM_FIRST, BATCH);
    dt_policies s = passes("chen_budget", "[policy.chen_budget]\nsegment = auto\n", &c);
    const dt_pass_env env = {.pool = &counting};
    placed = 0;
    assert_ok(dt_policies_apply(&s, p, &env, &err), &err);
    assert_true(placed > 0);
    dt_policies_close(&s);
    dt_config_destroy(c);
    dt_program_destroy(p);
    dt_map_destroy(map);
    dt_graph_destroy(g);
}

/* A copy is planned as the original, and is rewritten without it. */
static void a_copy_of_a_program_is_like_it_and_apart(void **state)
{
    (void)state;
    dt_graph *g = model("resnet18", &standard);
    dt_map *map = map_of(g, BATCH);
    made m = make(g, map, DT_PROGRAM_FIRST, BATCH, "vdnn_all", NULL);
    dt_program *copy;
    uint64_t was, is;
    dt_err err = {0};
    const size_t n_op = m.program->n_op;
    assert_ok(dt_program_copy(&copy, m.program, &err), &err);
    assert_ok(dt_lower_peak(&is, copy, dt_pool_find("greedy"), NULL, &err), &err);
    assert_ok(dt_lower_peak(&was, m.program, dt_pool_find("greedy"), NULL, &err), &err);
    assert_int_equal(is, was);
    copy->order[0] = copy->order[--copy->n_order];
    copy->tensor[0].bytes++;
    assert_int_equal(m.program->n_op, n_op);
    assert_ok(dt_lower_peak(&is, m.program, dt_pool_find("greedy"), NULL, &err), &err);
    assert_int_equal(is, was);
    dt_program_destroy(copy);
    const long live = dti_alloc_live();
    for (long k = 1;; k++) { /* every allocation fails once, and nothing is left */
        dti_alloc_fail_at(k);
        const dt_status st = dt_program_copy(&copy, m.program, &err);
        dti_alloc_fail_at(0);
        if (st == DT_OK)
            break;
        assert_null(copy);
        assert_int_equal(dti_alloc_live(), live);
    }
    dt_program_destroy(copy);
    unmake(&m);
    dt_map_destroy(map);
    dt_graph_destroy(g);
}

static void a_segment_may_be_given_in_bytes(void **state)
{
    (void)state;
    dt_graph *g = unit_chain(16);
    dt_map *map = map_of(g, BATCH);
    /* Two units: cuts at every third node, 5 kept, the last is not closed (table above). */
    char ini[96];
    snprintf(
        ini, sizeof ini, "[policy.chen_budget]\nsegment = %llu\n", (unsigned long long)(2 * unit));
    made m = make(g, map, DT_PROGRAM_FIRST, BATCH, "chen_budget", ini);
    assert_int_equal(count(m.program, DT_OP_RECOMPUTE), 10);
    unmake(&m);
    dt_config *c;
    dt_err err = {0};
    dt_program *p = dt_program_on(g, map, DT_PROGRAM_FIRST, BATCH);
    dt_policies s = passes("chen_budget", "[policy.chen_budget]\nsegment = some\n", &c);
    assert_fails(
        dt_policies_apply(&s, p, NULL, &err), DT_E_CONFIG, &err, "segment = some (or auto)");
    dt_policies_close(&s);
    dt_config_destroy(c);
    dt_program_destroy(p);
    dt_map_destroy(map);
    dt_graph_destroy(g);
}

/* The toy's plan under chen_cheap, by hand from the rules in docs/design.md: the two convolutions'
 * outputs stay, bn1 and relu1 run again before conv2.bw, the first to read relu1.y. bn1.f' reads
 * conv1.y, which bn1.b reads later, so it takes bytes of its own; relu1.f' lies over it. x is
 * fetched again; what lay in its bytes meanwhile, labels and statistics, is waited for. */
static void the_toys_plan_under_chen_cheap(void **state)
{
    (void)state;
    static const char want[] =
        "P x; I x e0; P conv1.y; W e0; C conv1.f e1; R x\n"
        "P bn1.y bn1.mean bn1.istd; C bn1.f\n"
        "P relu1.y over bn1.y; C relu1.f"
        "  # in place: the last reader of bn1.y\n"
        "P conv2.y; C conv2.f; R relu1.y\n"
        "P labels; W(i) e1; I labels e2; P loss.prob; W e2; C loss.f; R conv2.y\n"
        "P d.conv2 over loss.prob; C loss.b; R labels"
        "  # in place: the last reader of loss.prob\n"
        "P bn1.y'; C bn1.f'"
        "  # chen_cheap: for relu1.y, cheap: at most 64 operations a value\n"
        "P relu1.y' over bn1.y'; C relu1.f'"
        "  # in place: the last reader of bn1.y' | chen_cheap: for relu1.y, cheap: at most 64 "
        "operations a value\n"
        "C conv2.bw\n"
        "P d.relu1; C conv2.bd; R d.conv2\n"
        "P d.bn1 over d.relu1; C relu1.b; R relu1.y'"
        "  # in place: the last reader of d.relu1\n"
        "P d.conv1 over d.bn1; C bn1.b e3; R conv1.y bn1.mean bn1.istd"
        "  # in place: the last reader of d.bn1\n"
        "P x; W(i) e3; I x e4; W e4; C conv1.bw; R x d.conv1"
        "  # chen_cheap: the input waits in the decoded batch\n";
    dt_toy t = dt_toy_open(false);
    dt_err err = {0};
    dt_config *c;
    dt_policies s = passes("chen_cheap", NULL, &c);
    assert_ok(dt_policies_apply(&s, t.first, NULL, &err), &err);
    dt_policies_close(&s);
    dt_plan *plan = dt_planned_by(t.first, "chen_cheap", "best_fit");
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    assert_non_null(f);
    dt_plan_print_short(plan, f);
    assert_int_equal(fclose(f), 0);
    assert_string_equal(text, want);
    /* x and, in its bytes, statistics, conv2.y, labels and prob; conv1.y; relu1.y'; d.relu1 */
    assert_int_equal(plan->peak - plan->persistent, 1536 + 2048 + 2048 + 2048);
    free(text);
    dt_plan_destroy(plan);
    dt_toy_close(&t);
}

/* Training. */

enum { STEPS = 3, N = 4 };

/* A session of a network, and its plans in a runner. */
typedef struct trainee {
    dt_session *s;
    dt_rig rig;
} trainee;

static trainee open_trainee(const char *network, const char *policy, const char *options)
{
    trainee t = {0};
    dt_err err = {0};
    char ini[2048];
    const int n = snprintf(ini, sizeof ini,
        "%s[train]\nbatch = %d\nmicro_batch = %d\nseed = 5\nprecision = fp32\n[device]\nkind = "
        "cpu\n"
        "threads = 1\n[memory]\npolicy = %s\n%s",
        network, 2 * N, N, policy, options != NULL ? options : "");
    assert_true(n < (int)sizeof ini);
    assert_ok(dti_session_open_text(&t.s, "chen", ini, (size_t)n, NULL, 0, &err), &err);
    assert_ok(dt_session_plan_run(t.s, false, 0, 0, &err), &err);
    assert_ok(dti_rig_open(&t.rig, t.s, &err), &err);
    return t;
}

static void close_trainee(trainee *t)
{
    dti_rig_close(&t->rig);
    dt_session_close(t->s);
}

static int plan_of(const trainee *t, dt_program_kind kind)
{
    for (size_t i = 0; i < t->rig.n; i++)
        if (t->rig.ready[i].kind == kind)
            return t->rig.ready[i].id;
    fail_msg("no plan '%s'", dt_program_kind_name(kind));
    return 0;
}

/* Two micro-batches. */
typedef struct batch {
    float *x;
    int32_t labels[2 * N];
} batch;

static batch made_up(const dt_graph *g)
{
    const size_t values = 2 * N * (size_t)dt_shape_sample(&g->input);
    batch b = {.x = dt_alloc(values, sizeof *b.x)};
    assert_non_null(b.x);
    for (size_t i = 0; i < values; i++)
        b.x[i] = (float)((i * 2654435761U) % 2001) / 1000.0F - 1.0F;
    for (int i = 0; i < 2 * N; i++)
        b.labels[i] = i % 10;
    return b;
}

/* Every plan that reads a batch takes what it says. */
static void measure(const trainee *t, const dt_run_args *a)
{
    for (size_t i = 0; i < t->rig.n; i++) {
        dt_measure measured;
        dt_err err = {0};
        if (t->rig.ready[i].kind == DT_PROGRAM_UPDATE)
            continue;
        assert_ok(dt_runner_check(t->rig.runner, t->rig.ready[i].id, a, &measured, &err), &err);
        assert_int_equal(measured.peak, t->s->plans->planned[i]->plan->peak);
    }
}

/* Everything that outlives a step, after some; before that every plan is measured. */
static unsigned char *state_after(trainee *t)
{
    dt_err err = {0};
    dt_runner *r = t->rig.runner;
    const dt_map *map = t->s->plans->map;
    batch b = made_up(t->s->graph);
    dt_run_args a = {
        .batch = {b.x, b.labels, N}, .step_labels = 2 * N, .hyper = {0.05F, 0.9F, 0.001F}};
    measure(t, &a);
    assert_ok(dt_runner_init(r, &err), &err);
    for (a.step = 0; a.step < STEPS; a.step++) {
        for (int micro = 0; micro < 2; micro++) {
            a.batch.x = b.x + micro * N * dti_runner_sample(r);
            a.batch.labels = b.labels + micro * N;
            a.sample0 = micro * N;
            const int id = plan_of(t, micro == 0 ? DT_PROGRAM_FIRST : DT_PROGRAM_AGAIN);
            assert_ok(dt_runner_run(r, id, &a, &err), &err);
        }
        assert_ok(dt_runner_run(r, plan_of(t, DT_PROGRAM_UPDATE), &a, &err), &err);
    }
    dt_free(b.x);
    unsigned char *copy = dt_alloc(map->bytes, 1);
    assert_non_null(copy);
    return memcpy(copy, dt_runner_home(r, 0), map->bytes);
}

static void same_bits(
    const char *network, const unsigned char *kept, const char *policy, const char *options)
{
    trainee t = open_trainee(network, policy, options);
    const dt_map *map = t.s->plans->map;
    unsigned char *again = state_after(&t);
    for (size_t h = 0; h < map->n; h++)
        if (memcmp(kept + map->home[h].off, again + map->home[h].off, map->home[h].bytes) != 0)
            fail_msg("%s %s: %s differs", t.s->graph->name, policy, map->home[h].name);
    dt_free(again);
    close_trainee(&t);
}

static unsigned char *keep_all_leaves(const char *network)
{
    trainee t = open_trainee(network, "keep_all", NULL);
    const dt_map *map = t.s->plans->map;
    unsigned char *kept = state_after(&t);
    bool trained = false; /* some momentum is not zero */
    for (size_t i = 0; i < map->n; i++)
        for (size_t k = 0; map->home[i].role == DT_ROLE_OPTIMIZER && k < map->home[i].bytes; k++)
            trained = trained || kept[map->home[i].off + k] != 0;
    assert_true(trained);
    close_trainee(&t);
    return kept;
}

static void repeats(const char *network, const dt_layer_desc *layer)
{
    trainee t = open_trainee(network, "chen_sqrt", NULL);
    const dt_program *p = t.s->plans->planned[0]->program;
    bool found = false;
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op *op = &p->op[p->order[i]];
        found = found || (op->kind == DT_OP_RECOMPUTE && op->desc == layer);
    }
    assert_true(found);
    close_trainee(&t);
}

/* Under every policy as under keep_all; of a layer that must be among those repeated. */
static void trains_the_same_bits(const char *network, const dt_layer_desc *recomputes_of)
{
    unsigned char *kept = keep_all_leaves(network);
    /* The search keeps networks as small as these whole: a segment is given too. */
    static const char *const ini[] = {NULL, "[policy.chen_budget]\nsegment = 0\n",
        "[policy.chen_recursive]\ncuts = 2\n", "[policy.chen_budget]\nsegment = 16KiB\n"};
    for (size_t i = 0; i < DT_COUNT(policies) * DT_COUNT(ini); i++) {
        const char *policy = policies[i / DT_COUNT(ini)], *options = ini[i % DT_COUNT(ini)];
        if (options == NULL || strstr(options, policy) != NULL)
            same_bits(network, kept, policy, options);
    }
    repeats(network, recomputes_of);
    dt_free(kept);
}

static void lenet_trains_the_same_bits(void **state)
{
    (void)state;
    trains_the_same_bits("[model]\nname = lenet5\nfuse = off\n", &dt_layer_conv);
}

static void a_residual_network_trains_the_same_bits(void **state)
{
    (void)state;
    trains_the_same_bits("[model]\nname = resnet18\nclasses = 10\nimage = 32\nwidth = 8\n"
                         "fuse = off\n",
        &dt_layer_batchnorm);
}

/* A recompute of dropout draws the mask of the first run again. */
static void dropout_trains_the_same_bits(void **state)
{
    (void)state;
#define PART(i, norm)                                                                              \
    "[conv c" i "]\nout = 4\nkernel = 3\npad = 1\nbias = off\n" norm "[relu r" i "]\n[dropout d" i \
    "]\nrate = 0.25\n[maxpool p" i "]\nkernel = 2\nstride = 2\n"
    trains_the_same_bits(
        "[model]\nimage = 8\nclasses = 10\nfuse = off\n" PART("0", "") PART("1", "[batchnorm n1]\n")
            PART("2", "[batchnorm n2]\n") "[fc f]\nout = 10\n[cross_entropy loss]\n",
        &dt_layer_dropout);
#undef PART
}

/* Two passes in a row: the second leaves alone what the first has set. */
static void policies_compose(void **state)
{
    (void)state;
    dt_graph *g = model("resnet18", &standard);
    dt_map *map = map_of(g, N);
    for (size_t i = 0; i < DT_COUNT(policies); i++)
        for (size_t k = 0; k < DT_COUNT(policies); k++) {
            char list[64];
            snprintf(list, sizeof list, "%s,%s", policies[i], policies[k]);
            made m = make(g, map, DT_PROGRAM_FIRST, N, list, NULL);
            assert_true(count(m.program, DT_OP_RECOMPUTE) > 0);
            unmake(&m);
        }
    made m = make(g, map, DT_PROGRAM_FIRST, N, "network_wide,chen_sqrt", NULL);
    assert_int_equal(count(m.program, DT_OP_RECOMPUTE), 0); /* slots last for the whole run */
    unmake(&m);
    m = make(g, map, DT_PROGRAM_EVAL, N, "chen_sqrt,chen_budget", NULL);
    assert_int_equal(count(m.program, DT_OP_RECOMPUTE), 0); /* nothing comes back to these values */
    unmake(&m);
    dt_map_destroy(map);
    dt_graph_destroy(g);
}

static void out_of_memory_is_said_and_leaks_nothing(void **state)
{
    (void)state;
    dt_graph *g = with_dropout();
    dt_map *map = map_of(g, N);
    for (size_t i = 0; i < DT_COUNT(policies); i++) {
        dt_config *c;
        dt_policies s = passes(policies[i], NULL, &c);
        dt_status st = DT_E_NOMEM;
        long k = 0;
        while (st != DT_OK) {
            dt_err err = {0};
            const long live = dti_alloc_live();
            dt_program *p = dt_program_on(g, map, DT_PROGRAM_FIRST, N);
            dti_alloc_fail_at(++k);
            st = dt_policies_apply(&s, p, NULL, &err);
            dti_alloc_fail_at(0);
            dt_program_destroy(p);
            assert_true(st == DT_OK || st == DT_E_NOMEM);
            assert_int_equal(dti_alloc_live(), live);
        }
        assert_true(k > 3);
        dt_policies_close(&s);
    }
    dt_map_destroy(map);
    dt_graph_destroy(g);
}

static int one_thread(void **state)
{
    (void)state;
    return dt_cpu_setup(1) == 1 ? 0 : -1;
}

DT_TEST_GROUP(chen)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(algorithm_3_gives_the_golden_plans),
        cmocka_unit_test(the_notes_say_so),
        cmocka_unit_test(a_unit_chain_takes_the_square_root),
        cmocka_unit_test(values_have_a_larger_root_than_cuts),
        cmocka_unit_test(recursion_takes_the_logarithm),
        cmocka_unit_test(depth_costs_its_square_root),
        cmocka_unit_test(no_model_takes_more_than_under_keep_all),
        cmocka_unit_test(a_lower_budget_never_gives_a_higher_peak),
        cmocka_unit_test(budgets_between_have_plans_of_their_own),
        cmocka_unit_test(what_is_made_on_the_way_counts_for_what_is_kept),
        cmocka_unit_test(a_network_without_points_is_cut_like_a_line),
        cmocka_unit_test(the_search_places_by_the_pool_of_the_run),
        cmocka_unit_test(a_copy_of_a_program_is_like_it_and_apart),
        cmocka_unit_test(a_segment_may_be_given_in_bytes),
        cmocka_unit_test(the_toys_plan_under_chen_cheap),
        cmocka_unit_test(lenet_trains_the_same_bits),
        cmocka_unit_test(a_residual_network_trains_the_same_bits),
        cmocka_unit_test(dropout_trains_the_same_bits),
        cmocka_unit_test(policies_compose),
        cmocka_unit_test(out_of_memory_is_said_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, one_thread, NULL);
}
