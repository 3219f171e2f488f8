/* What cuDNN answers for cards that are not here: every convolution of our networks has engines on
 * every card we know, in every precision, and they keep the rules of conv's algorithms. Needs no
 * card. */
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/context.h"
#include "layers/weighted/conv.h"
#include "layers/weighted/fc.h"
#include "tests/fixture/gpu_check.h"
#include "tests/fixture/planned.h"

/* For a card by name, or NULL, for the one that answers. */
static dt_context *open_context(const char *card, bool tf32)
{
    dt_err err = {0};
    dt_context *to = dt_alloc(1, sizeof *to);
    assert_non_null(to);
    assert_true(card == NULL || dt_card_find(card) != NULL);
    assert_ok(
        dt_context_open(to, DT_CUDA, card != NULL ? dt_card_find(card) : NULL, tf32, &err), &err);
    return to;
}

static void close_context(dt_context *c)
{
    dt_context_close(c);
    dt_free(c);
}

#define NEED_LIBRARY()                                                                             \
    do {                                                                                           \
        (void)state;                                                                               \
        if (!dt_device_built(DT_CUDA))                                                             \
            skip();                                                                                \
    } while (0)

typedef struct precision {
    const char *name;
    dt_dtype dtype;
    bool tf32;
} precision;
static const precision precisions[] = {
    {"fp32", DT_F32, false}, {"tf32", DT_F32, true}, {"bf16", DT_BF16, false}};

static const dt_form_kind forms[] = {DT_FORWARD, DT_BACKWARD, DT_BACKWARD2};

static dt_call call_of(
    const dt_context *context, const dt_graph *g, size_t node, dt_form_kind form, int64_t n)
{
    return (dt_call){.context = context,
        .node = &g->node[node],
        .graph = g,
        .form = form,
        .dtype = g->dtype,
        .n = n,
        .home_n = n,
        .needs_dx = true};
}

/* The engine that is taken where no limit is set. */
static dt_facts taken(const dt_call *c)
{
    dt_facts f;
    dt_err err = {0};
    assert_ok(dti_call_facts(c, c->node->desc, &f, &err), &err);
    return f;
}

/* Everything about one op: an engine of the library's, and algorithms that begin with it. */
static void check_op(const dt_call *c, const char *where)
{
    dt_algorithms w;
    dt_err err = {0};
    const dt_facts f = taken(c);
    if (strncmp(f.impl, "cudnn engine ", 13) != 0)
        fail_msg("%s, %s: %s", where, c->node->name, f.impl);
    assert_ok(dti_call_algorithms(c, c->node->desc, &w, &err), &err);
    assert_in_range(w.n, 1, DT_MAX_ALGORITHMS);
    assert_string_equal(w.algorithm[0].impl, f.impl);
    assert_int_equal(w.algorithm[0].bytes, f.work_bytes + f.derived_bytes);
    for (int i = 1; i < w.n; i++)
        assert_true(w.algorithm[i].bytes < w.algorithm[i - 1].bytes);
}

static size_t check_network(const char *model, const precision *p, const char *card, int64_t n)
{
    dt_graph *g = dt_standard(model);
    size_t ops = 0;
    char where[128];
    snprintf(where, sizeof where, "%s in %s on %s", model, p->name, card);
    g->dtype = p->dtype;
    dt_context *context = open_context(card, p->tf32);
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < DT_COUNT(forms); k++)
            if (g->node[i].desc == &dt_layer_conv) {
                const dt_call c = call_of(context, g, i, forms[k], n);
                check_op(&c, where);
                ops++;
            }
    dt_graph_destroy(g);
    close_context(context);
    return ops;
}

static void every_convolution_has_an_engine_on_every_card(void **state)
{
    NEED_LIBRARY();
    static const char *const models[] = {"resnet50", "alexnet", "resnet20", "unet"};
    const char *const *cards = dt_card_names();
    for (size_t i = 0; cards[i] != NULL; i++)
        for (size_t p = 0; p < DT_COUNT(precisions); p++) {
            const char *model = models[(i + p) % DT_COUNT(models)];
            if (!dt_picked(i * DT_COUNT(precisions) + p, 12, 12, 1))
                continue;
            assert_true(check_network(model, &precisions[p], cards[i], 32) > 0);
        }
    for (size_t p = 0; p < DT_COUNT(precisions); p++)
        if (dt_picked(p, 3, 3, 1))
            assert_int_equal(check_network("vgg16", &precisions[p], "h200", 64), 3 * 13);
}

/* The library's answers are kept by context. */
static void cards_do_not_get_each_others_answers(void **state)
{
    NEED_LIBRARY();
    dt_graph *g = dt_standard("resnet50");
    dt_context *a100 = open_context("a100", false), *h200 = open_context("h200", false);
    dt_context *same = open_context("a100", false);
    size_t differ = 0;
    for (size_t i = 0; i < g->n_node; i++) {
        if (g->node[i].desc != &dt_layer_conv)
            continue;
        const dt_call one = call_of(a100, g, i, DT_FORWARD, 32);
        const dt_call two = call_of(h200, g, i, DT_FORWARD, 32);
        const dt_call three = call_of(same, g, i, DT_FORWARD, 32);
        const dt_facts first = taken(&one), other = taken(&two), again = taken(&three);
        assert_string_equal(first.impl, again.impl);
        assert_int_equal(first.work_bytes, again.work_bytes);
        differ += strcmp(first.impl, other.impl) != 0;
    }
    assert_true(differ > 0);
    close_context(a100);
    close_context(h200);
    close_context(same);
    dt_graph_destroy(g);
}

/* Tensor cores round fp32, so plain fp32 never has an engine that TF32 has to be allowed for. */
static void plain_fp32_takes_no_engine_of_tf32(void **state)
{
    NEED_LIBRARY();
    dt_graph *g = dt_standard("vgg16");
    dt_context *fp32 = open_context("h200", false), *tf32 = open_context("h200", true);
    size_t differ = 0;
    for (size_t i = 0; i < g->n_node; i++)
        if (g->node[i].desc == &dt_layer_conv) {
            const dt_call one = call_of(fp32, g, i, DT_FORWARD, 64);
            const dt_call two = call_of(tf32, g, i, DT_FORWARD, 64);
            const dt_facts a = taken(&one), b = taken(&two);
            differ += strcmp(a.impl, b.impl) != 0;
        }
    assert_true(differ >= 12);
    close_context(fp32);
    close_context(tf32);
    dt_graph_destroy(g);
}

/* What cannot be prepared on a card that is not here. */
static void what_is_planned_for_a_card_by_name_is_not_run(void **state)
{
    NEED_LIBRARY();
    dt_graph *g = dt_standard("alexnet");
    dt_context *context = open_context("h200", false);
    size_t refused = 0;
    for (size_t i = 0; i < g->n_node; i++) {
        const dt_layer_desc *desc = g->node[i].desc;
        if (desc != &dt_layer_conv && desc != &dt_layer_fc)
            continue;
        dt_err err = {0};
        void *op;
        const dt_call c = call_of(context, g, i, DT_FORWARD, 8);
        assert_fails(dti_kernels_of(desc, context)->create(&c, &op, &err), DT_E_CONFIG, &err,
            "leave out device.card");
        refused++;
    }
    assert_int_equal(refused, 5 + 3);
    close_context(context);
    dt_graph_destroy(g);
}

/* Where the limit is below what the fastest wants, another is taken, which keeps to it. */
static void an_engine_is_chosen_within_its_limit(void **state)
{
    NEED_LIBRARY();
    dt_err err = {0};
    dt_graph *g = dt_standard("resnet50");
    dt_algorithms w;
    size_t several = 0;
    dt_context *context = open_context("h200", false);
    g->dtype = DT_BF16;
    for (size_t i = 0; i < g->n_node; i++) {
        const dt_node *node = &g->node[i];
        if (node->desc != &dt_layer_conv)
            continue;
        dt_call c = call_of(context, g, i, DT_BACKWARD, 64);
        assert_ok(dti_call_algorithms(&c, node->desc, &w, &err), &err);
        for (int k = 0; k < w.n; k++) {
            c.workspace_limit = w.algorithm[k].bytes;
            assert_string_equal(taken(&c).impl, w.algorithm[k].impl);
            assert_int_equal(taken(&c).work_bytes, w.algorithm[k].bytes);
        }
        several += w.n > 1;
    }
    assert_true(several > 10);
    close_context(context);
    dt_graph_destroy(g);
}

/* The card in this machine, if it is one of the table, by its compute capability and bytes, as CUDA
 * has several names for a kind; NULL: there is none such. */
static const dt_card *card_here(dt_driver_facts *f)
{
    dt_err err = {0};
    const dt_card *found = NULL;
    assert_ok(dt_device_facts(DT_CUDA, f, &err), &err);
    for (const char *const *card = dt_card_names(); *card != NULL; card++) {
        const dt_card *c = dt_card_find(*card);
        const uint64_t bytes = dt_card_bytes(c);
        char capability[32];
        snprintf(capability, sizeof capability, "capability %d.%d,", c->major, c->minor);
        if (strstr(f->about, capability) != NULL && f->bytes >= bytes &&
            f->bytes <= bytes / 50 * 51)
            found = c;
    }
    return found;
}

/* What is planned elsewhere is what is planned here. */
static void the_card_itself_gets_the_same_answers(void **state)
{
    NEED_GPU();
    dt_driver_facts f;
    const dt_card *card = card_here(&f);
    if (card == NULL) /* not one of the table: nothing to compare with */
        skip();
    for (size_t p = 0; p < DT_COUNT(precisions); p++) {
        dt_graph *g = dt_standard("resnet50");
        g->dtype = precisions[p].dtype;
        dt_context *one = open_context(NULL, precisions[p].tf32);
        dt_context *two = open_context(card->name, precisions[p].tf32);
        for (size_t i = 0; i < g->n_node * DT_COUNT(forms); i++) {
            dt_call c = call_of(one, g, i / DT_COUNT(forms), forms[i % DT_COUNT(forms)], 32);
            if (c.node->desc != &dt_layer_conv)
                continue;
            const dt_facts here = taken(&c);
            c.context = two;
            const dt_facts there = taken(&c);
            assert_string_equal(here.impl, there.impl);
            assert_int_equal(here.work_bytes, there.work_bytes);
        }
        close_context(one);
        close_context(two);
        dt_graph_destroy(g);
    }
}

DT_TEST_GROUP(cuda_engines)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_convolution_has_an_engine_on_every_card),
        cmocka_unit_test(cards_do_not_get_each_others_answers),
        cmocka_unit_test(what_is_planned_for_a_card_by_name_is_not_run),
        cmocka_unit_test(plain_fp32_takes_no_engine_of_tf32),
        cmocka_unit_test(an_engine_is_chosen_within_its_limit),
        cmocka_unit_test(the_card_itself_gets_the_same_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
