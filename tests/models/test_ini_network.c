/* Networks written in the INI file: what they become, and what is refused with file and line. */
#include "tests/fixture/check.h"
#include "tests/fixture/parse_config.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "layers/weighted/conv.h"
#include "layers/plain.h"
#include "models/ini.h"

/* Line numbers in messages count from 1 at the start of the text. */
static dt_config *parse(const char *text)
{
    dt_config *c = NULL;
    dt_err err = {0};
    assert_ok(parse_config(&c, "net.ini", text, strlen(text), &err), &err);
    return c;
}

static const dt_model_opts small = {.image = 8, .channels = 3, .dropout = -1};

static dt_graph *build(const char *text, dt_model_opts o)
{
    dt_config *c = parse(text);
    dt_graph *g = NULL;
    dt_err err = {0};
    assert_ok(dt_ini_network(c, &o, &g, &err), &err);
    dt_config_destroy(c);
    return g;
}

static void refuse(const char *text, dt_model_opts o, const char *const *want)
{
    dt_config *c = parse(text);
    dt_graph *g = NULL;
    dt_err err = {0};
    assert_fails(dt_ini_network(c, &o, &g, &err), DT_E_CONFIG, &err, want[0]);
    assert_null(g);
    for (; *want != NULL; want++)
        if (strstr(err.text, *want) == NULL)
            fail_msg("'%s' is not in:\n%s", *want, err.text);
    dt_config_destroy(c);
}

static const char residual[] = "[conv c1]\n"
                               "out = 4\n"
                               "kernel = 3\n"
                               "pad = 1\n"
                               "bias = off\n"
                               "[relu r1]\n"
                               "[conv c2]\n"
                               "out = 4\n"
                               "kernel = 1\n"
                               "[add sum]\n"
                               "input = c2, r1\n"
                               "[global_avgpool pool]\n"
                               "[fc scores]\n"
                               "out = 5\n";

static void sections_become_layers_in_file_order(void **state)
{
    (void)state;
    dt_graph *g = build(residual, small);
    static const char *const names[] = {"c1", "r1", "c2", "sum", "pool", "scores", "loss"};
    assert_int_equal(g->n_node, DT_COUNT(names));
    for (size_t i = 0; i < DT_COUNT(names); i++)
        assert_string_equal(g->node[i].name, names[i]);
    const dt_conv *o = g->node[0].opts;
    assert_int_equal(o->out, 4);
    assert_int_equal(o->pad, 1);
    assert_int_equal(o->stride, 1); /* the layer's default */
    assert_false(o->bias);
    assert_int_equal(dt_graph_parameters(g), 3 * 4 * 9 + (4 * 4 + 4) + (4 * 5 + 5));
    dt_graph_destroy(g);
}

static void kernels_may_be_higher_than_wide(void **state)
{
    (void)state;
    dt_graph *g = build("[conv a]\nout = 4\nkernel = 1x7\npad = 0x3\n"
                        "[conv b]\nout = 6\nkernel = 7x1\npad = 3x0\nstride = 2x1\n"
                        "[maxpool p]\nkernel = 3x2\n[fc scores]\nout = 5\n",
        small);
    const dt_shape a = g->node[0].info.y, b = g->node[1].info.y, p = g->node[2].info.y;
    assert_true(a.h == 8 && a.w == 8 && b.h == 4 && b.w == 8 && p.h == 1 && p.w == 4);
    assert_int_equal(dt_param_count(&g->node[1].info.param[0]), 6 * 4 * 7);
    dt_graph_destroy(g);
}

static void a_layer_takes_the_section_above_unless_input_names_others(void **state)
{
    (void)state;
    dt_graph *g = build(residual, small);
    assert_int_equal(g->node[0].in[0], DT_GRAPH_INPUT);
    assert_int_equal(g->node[1].in[0], 0);
    assert_int_equal(g->node[2].in[0], 1);
    assert_int_equal(g->node[3].n_in, 2);
    assert_int_equal(g->node[3].in[0], 2);
    assert_int_equal(g->node[3].in[1], 1);
    dt_graph_destroy(g);
}

static void image_names_the_input_of_the_network(void **state)
{
    (void)state;
    dt_graph *g =
        build("[conv a]\nout = 3\nkernel = 1\n[add b]\ninput = a, image\n[fc c]\nout = 2\n",
            (dt_model_opts){.image = 6, .dropout = -1});
    assert_int_equal(g->node[1].in[1], DT_GRAPH_INPUT);
    assert_int_equal(g->input.h, 6);
    assert_int_equal(g->input.c, 3); /* when channels are not given */
    dt_graph_destroy(g);
}

static void the_loss_is_added_when_missing_and_kept_when_written(void **state)
{
    (void)state;
    const char *const texts[] = {
        "[relu r]\n[fc a]\nout = 5\n", "[relu r]\n[fc a]\nout = 5\n[cross_entropy loss]\n"};
    for (size_t i = 0; i < DT_COUNT(texts); i++) {
        dt_graph *g = build(texts[i], small);
        assert_int_equal(g->n_node, 3);
        assert_string_equal(g->node[2].name, "loss");
        assert_ptr_equal(g->node[2].desc, &dt_layer_cross_entropy);
        assert_int_equal(g->node[2].in[0], 1);
        assert_int_equal(g->classes, 5);
        dt_graph_destroy(g);
    }
}

static void the_name_comes_from_the_model_section_or_the_file(void **state)
{
    (void)state;
    dt_graph *g = build("[fc a]\nout = 5\n", small);
    assert_string_equal(g->name, "net");
    dt_graph_destroy(g);
    g = build("[model]\nname = mine\n[fc a]\nout = 5\n", small);
    assert_string_equal(g->name, "mine");
    dt_graph_destroy(g);
}

static void layer_sections_are_told_from_the_others(void **state)
{
    (void)state;
    const struct {
        const char *text;
        bool layers;
    } cases[] = {
        {"[model]\nname = vgg16\n[train]\nbatch = 2\n", false},
        {"[memory.layers]\nlayer1.* = recompute\n[policy.x]\nsegment = 2\n", false},
        {"[train]\nbatch = 2\n[relu r]\n", true},
        {"[relu]\n", true},   /* a layer that lacks its name */
        {"[covn c1]\n", true} /* only layers have names */
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        dt_config *c = parse(cases[i].text);
        assert_true(dt_ini_has_layers(c) == cases[i].layers);
        dt_config_destroy(c);
    }
}

/* Every key of a layer that was used counts as known, every other one does not. */
static void unknown_keys_of_a_layer_are_reported(void **state)
{
    (void)state;
    dt_err err = {0};
    dt_graph *g = NULL;
    dt_config *c = parse(residual);
    assert_ok(dt_ini_network(c, &small, &g, &err), &err);
    assert_ok(dt_config_check_known(c, &err), &err);
    dt_graph_destroy(g);
    dt_config_destroy(c);
    c = parse("[conv c1]\nout = 4\nkernel = 3\nkernal = 1\n");
    dt_status st = dt_ini_network(c, &small, &g, &err);
    if (st == DT_OK)
        dt_graph_destroy(g);
    assert_fails(dt_config_check_known(c, &err), DT_E_CONFIG, &err, "net.ini:4");
    assert_non_null(strstr(err.text, "'kernel'"));
    dt_config_destroy(c);
}

typedef struct refusal {
    const char *text;
    const char *want[5];
} refusal;

static void refuse_all(const refusal *r, size_t n)
{
    for (size_t i = 0; i < n; i++)
        refuse(r[i].text, small, r[i].want);
}

static void unknown_layers_are_refused_with_the_nearest_one(void **state)
{
    (void)state;
    const refusal r[] = {
        {"[train]\nbatch = 1\n[covn c1]\nout = 4\n", {"net.ini:3: [covn c1]", "mean 'conv'"}},
        {"[transformer t]\n", {"net.ini:1: [transformer t]", "unknown layer 'transformer'"}},
        {"[fc a]\nout = 2\n[sgd b]\n", {"net.ini:3: [sgd b]", "unknown layer"}},
    };
    refuse_all(r, DT_COUNT(r));
}

/* A slip of [train] in line 4 and one of a layer in line 1, in a file of a name of that many bytes
 * above its last. */
static void two_slips(size_t bytes)
{
    static const char text[] = "[covn c1]\nout = 4\n[train]\nlr = fast\n";
    static const dt_opt train[] = {
        {"lr", DT_OPT_F64, 0, "0.1", 0, 0, NULL, NULL, "learning rate"}, {0}};
    static char name[2048];
    double lr;
    dt_config *c = NULL;
    dt_err err = {0};
    memset(name, 'd', bytes);
    snprintf(name + bytes, sizeof name - bytes, "/the_net.ini");
    assert_ok(parse_config(&c, name, text, strlen(text), &err), &err);
    assert_int_equal(dt_config_bind(c, "train", train, &lr, &err), DT_E_CONFIG);
    assert_int_equal(dt_ini_check(c, &err), DT_E_CONFIG);
    dt_config_sort_mistakes(c, 0, &err);
    const char *layer = strstr(err.text, "d/the_net.ini:1: [covn c1]: unknown layer"),
               *value = strstr(err.text, "d/the_net.ini:4: [train] lr = fast");
    if (layer == NULL || value == NULL || layer > value)
        fail_msg("%zu bytes: %s", bytes, err.text);
    dt_config_destroy(c);
}

static void long_paths_keep_their_ends_and_mistakes_their_order(void **state)
{
    (void)state;
    static const size_t bytes[] = {1, 90, 110, 121, 300, 790, 801, 1500};
    for (size_t i = 0; i < DT_COUNT(bytes); i++)
        two_slips(bytes[i]);
}

static void inputs_that_do_not_exist_are_refused(void **state)
{
    (void)state;
    const refusal r[] = {
        {"[conv conv1]\nout = 4\nkernel = 1\n[relu r]\ninput = covn1\n[fc f]\nout = 2\n",
            {"net.ini:5: [relu r]", "'covn1'", "mean 'conv1'"}},
        {"[relu r]\ninput = elsewhere\n", {"net.ini:2: [relu r]", "'elsewhere'"}},
    };
    refuse_all(r, DT_COUNT(r));
}

static void cycles_and_layers_below_are_refused(void **state)
{
    (void)state;
    const refusal r[] = {
        {"[add a]\ninput = image, b\n[relu b]\n[fc f]\nout = 2\n",
            {"net.ini:2: [add a]", "takes 'b'", "net.ini:3: [relu b]",
                "can use only layers above"}},
        {"[relu a]\ninput = a\n[fc f]\nout = 2\n", {"net.ini:2: [relu a]", "takes itself"}},
    };
    refuse_all(r, DT_COUNT(r));
}

static void wrong_numbers_of_inputs_are_refused(void **state)
{
    (void)state;
    const refusal r[] = {
        {"[relu a]\n[add b]\n[fc f]\nout = 2\n",
            {"net.ini:2: [add b]", "has 1 input;", "takes 2 to 16"}},
        {"[relu a]\n[relu b]\ninput = a, image\n[fc f]\nout = 2\n",
            {"net.ini:2: [relu b]", "has 2 inputs; relu takes one: join them by an [add NAME]"}},
        {"[relu a]\n[mul b]\n[fc f]\nout = 2\n",
            {"net.ini:2: [mul b]", "has 1 input; mul takes 2: input = NAME, NAME"}},
        {"[relu a]\n[add b]\ninput = a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a\n[fc f]\nout = 2\n",
            {"net.ini:3: [add b]", "at most 16"}},
    };
    refuse_all(r, DT_COUNT(r));
}

static void shapes_that_do_not_fit_name_both_layers_and_their_shapes(void **state)
{
    (void)state;
    const refusal r[] = {
        {"[conv a]\nout = 4\nkernel = 1\n[conv b]\nout = 6\nkernel = 1\n[add s]\ninput = a, b\n"
         "[fc f]\nout = 2\n",
            {"net.ini:7: [add s]", "a (8x8x4)", "b (8x8x6)"}},
        {"[maxpool p]\nkernel = 2\n[add s]\ninput = p, image\n[fc f]\nout = 2\n",
            {"net.ini:3: [add s]", "p (4x4x3)", "8x8x3"}},
        {"[conv a]\nout = 4\nkernel = 3\ngroups = 2\n[fc f]\nout = 2\n",
            {"net.ini:1: [conv a]", "groups"}},
    };
    refuse_all(r, DT_COUNT(r));
}

static void maps_that_a_flatten_made_vectors_are_read_as_vectors(void **state)
{
    (void)state;
    static const refusal cases[] = {
        {"[flatten v]\n[linear l]\nout = 4\n[fc f]\nout = 2\n",
            {"'l' (linear) reads 'v' as a map", "fc is the layer that reads one"}},
        {"[flatten v]\n[relu r]\n[add s]\ninput = r, image\n[layernorm n]\n[fc f]\nout = 2\n",
            {"'n' (layernorm) reads 's' as a map"}},
    };
    refuse_all(cases, DT_COUNT(cases));
}

static void kernels_larger_than_the_padded_input_are_refused(void **state)
{
    (void)state;
    const refusal r[] = {
        {"[relu r]\n[conv a]\nout = 4\nkernel = 11\npad = 1\n[fc f]\nout = 2\n",
            {"net.ini:2: [conv a]", "r (8x8x3)", "11", "kernel"}},
        {"[maxpool p]\nkernel = 9\n[fc f]\nout = 2\n",
            {"net.ini:1: [maxpool p]", "kernel 9", "8x8"}},
    };
    refuse_all(r, DT_COUNT(r));
}

static void sizes_that_are_zero_or_overflow_are_refused(void **state)
{
    (void)state;
    const refusal r[] = {
        {"[conv a]\nout = 0\nkernel = 3\n[fc f]\nout = 2\n", {"net.ini:2", "out"}},
        {"[conv a]\nout = 4\nkernel = 3\nstride = 0\n[fc f]\nout = 2\n", {"net.ini:4", "stride"}},
        {"[conv a]\nout = 99999999999999999999\nkernel = 3\n", {"net.ini:2", "out"}},
        {"[fc f]\n", {"out"}}, /* required */
    };
    refuse_all(r, DT_COUNT(r));
    const char *const huge[] = {"net.ini:1: [conv a]", "too large", NULL};
    refuse("[conv a]\nout = 1048576\nkernel = 1\n[fc f]\nout = 2\n",
        (dt_model_opts){.image = 4096, .dropout = -1}, huge);
}

static void values_nobody_takes_are_refused(void **state)
{
    (void)state;
    const refusal r[] = {
        {"[relu a]\n[relu b]\ninput = image\n[fc f]\nout = 2\n",
            {"net.ini:1: [relu a]", "no layer takes its value"}},
    };
    refuse_all(r, DT_COUNT(r));
}

static void bad_names_are_refused(void **state)
{
    (void)state;
    const refusal r[] = {
        {"[relu]\n[fc f]\nout = 2\n", {"net.ini:1: [relu]", "needs a name"}},
        {"[relu a]\n[conv a]\nout = 2\nkernel = 1\n[fc f]\nout = 2\n",
            {"net.ini:2: [conv a]", "taken by net.ini:1: [relu a]"}},
        {"[relu image]\n[fc f]\nout = 2\n", {"net.ini:1: [relu image]"}},
        {"[relu a/b]\n[fc f]\nout = 2\n", {"net.ini:1: [relu a/b]", "letters"}},
        {"[fc loss]\nout = 2\n", {"net.ini:1: [fc loss]", "name of the last layer"}},
        {"[fc a]\nout = 2\n[cross_entropy l]\n",
            {"net.ini:3: [cross_entropy l]", "write [cross_entropy loss]"}},
    };
    refuse_all(r, DT_COUNT(r));
}

static void a_loss_before_the_end_is_refused(void **state)
{
    (void)state;
    const refusal r[] = {
        {"[fc a]\nout = 2\n[cross_entropy loss]\n[relu r]\n",
            {"net.ini:3: [cross_entropy loss]", "must be the last", "net.ini:4: [relu r]"}},
        {"[conv a]\nout = 2\nkernel = 3\n",
            {"net.ini:1: [conv a]", "scores of 6x6 places", "the input has 8x8", "global_avgpool"}},
    };
    refuse_all(r, DT_COUNT(r));
}

/* An encoder and a decoder that looks at all of it. */
static void a_file_may_have_lstms_that_attend(void **state)
{
    (void)state;
    dt_graph *g = build("[embedding e]\nvocab = 12\nout = 8\n[lstm there]\nout = 6\n"
                        "[lstm back]\nout = 5\nkeep = cells\n[additive_attention look]\n"
                        "input = there, back\nhidden = 7\nkind = naive\n[concat both]\n"
                        "input = look, back\n[linear scores]\nout = 12\n",
        (dt_model_opts){.context = 10, .dropout = -1});
    assert_int_equal(g->n_node, 7);
    const dt_shape y = g->node[3].info.y;
    assert_int_equal(y.h * y.w, 10);
    assert_int_equal(y.c, 6);
    assert_int_equal(dt_graph_parameters(g),
        12 * 8 + 24 * (8 + 6 + 2) + 20 * (6 + 5 + 2) + 7 * (6 + 5 + 1) + 12 * (6 + 5 + 1));
    dt_graph_destroy(g);
}

static const dt_model_opts tokens = {.context = 6, .dropout = -1};

/* A language model whose output uses the weight of its embedding. */
#define TIED(weight)                                                                               \
    "[embedding wte]\nvocab = 9\nout = 4\n[linear head]\nout = 9\nbias = off\n" weight

static void a_linear_layer_can_share_the_weight_of_an_embedding(void **state)
{
    (void)state;
    dt_graph *apart = build(TIED(""), tokens), *tied = build(TIED("shares = wte\n"), tokens);
    assert_int_equal(apart->node[1].shares, DT_SHARES_NONE);
    assert_int_equal(tied->node[1].shares, 0);
    assert_int_equal(dt_graph_parameters(apart), 2 * 9 * 4);
    assert_int_equal(dt_graph_parameters(tied), 9 * 4);
    assert_true(dt_shape_same(&tied->input, &(dt_shape){1, 6, 1, 1}));
    assert_int_equal(dt_graph_labels(tied), 6);
    assert_int_equal(tied->classes, 9);
    dt_graph_destroy(tied);
    dt_graph_destroy(apart);
}

static void weights_that_cannot_be_shared_are_refused(void **state)
{
    (void)state;
    const refusal r[] = {
        {TIED("shares = wet\n"),
            {"net.ini:7: [linear head]", "no layer is called 'wet'", "did you mean 'wte'"}},
        {TIED("shares = image\n"), {"net.ini:7: [linear head]", "no layer is called 'image'",
                                       "shares names a layer above"}},
        {TIED("shares = head\n"), {"net.ini:7: [linear head]", "is itself", "a layer above"}},
        {TIED("shares = last\n[relu last]\n"), {"net.ini:7", "stands below", "a layer above"}},
        {"[embedding wte]\nvocab = 9\nout = 4\n[linear head]\nout = 7\nbias = off\nshares = wte\n",
            {"net.ini:7: [linear head] cannot share", "28 values", "has 36 or another shape"}},
        {"[embedding wte]\nvocab = 9\nout = 4\n[linear head]\nout = 9\nshares = wte\n",
            {"net.ini:6: [linear head] cannot share", "bias = off"}},
        {"[embedding wte]\nvocab = 9\nout = 4\n[layernorm n]\nshares = wte\n",
            {"net.ini:5: [layernorm n] cannot share", "'n' (layernorm)"}},
    };
    for (size_t i = 0; i < DT_COUNT(r); i++)
        refuse(r[i].text, tokens, r[i].want);
}

static void the_input_is_an_image_or_a_sequence(void **state)
{
    (void)state;
    const char *const neither[] = {"[model] image", "[model] context", NULL};
    const char *const both[] = {"[model] image", "not both", NULL};
    const char *const heads[] = {"net.ini:2: [model] heads = 2", NULL};
    const char *const channels[] = {"[model] channels = 3 is of images", "net.ini", NULL};
    refuse(TIED(""), (dt_model_opts){.dropout = -1}, neither);
    refuse(TIED(""), (dt_model_opts){.image = 8, .context = 8, .dropout = -1}, both);
    refuse("[model]\nheads = 2\n" TIED(""), (dt_model_opts){.context = 8, .dropout = -1}, heads);
    refuse(TIED(""), (dt_model_opts){.context = 8, .channels = 3, .dropout = -1}, channels);
}

static void scores_as_large_as_the_image_take_a_label_a_pixel(void **state)
{
    (void)state;
    dt_graph *g = build("[conv a]\nout = 2\nkernel = 3\npad = 1\n", small);
    assert_int_equal(dt_graph_labels(g), 8 * 8);
    assert_int_equal(g->classes, 2);
    dt_graph_destroy(g);
}

static void all_problems_are_reported_in_one_pass(void **state)
{
    (void)state;
    const refusal r[] = {
        {"[covn a]\n[relu b]\ninput = nowhere\n[conv c]\nout = x\nkernel = 3\n[add d]\n",
            {"net.ini:1: [covn a]", "net.ini:3: [relu b]", "net.ini:5", "net.ini:7: [add d]"}},
    };
    refuse_all(r, DT_COUNT(r));
}

static void what_belongs_to_named_models_is_refused(void **state)
{
    (void)state;
    const char *const text = "[fc a]\nout = 5\n";
    const char *const keys[] = {"net.ini:2: [model] width = 64 ", "net.ini:3: [model] dropout = 0 ",
        "[dropout NAME]", "net.ini:4: [model] attention = naive ", "has kind", NULL};
    const char *const image[] = {"[model] image", "net.ini", NULL};
    const char *const classes[] = {
        "net.ini:1: [fc a]", "5 scores", "6 classes", "[fc NAME] out = 6", NULL};
    const char *const pixels[] = {"5 scores", "so many, [conv NAME] out = 6, kernel = 1", NULL};
    const char *const positions[] = {"so many, [linear NAME] out = 6", NULL};
    const char *const both[] = {"net.ini:2", "name = vgg16", "net.ini:3: [fc a]", NULL};
    refuse("[model]\nwidth = 64\ndropout = 0\nattention = naive\n[fc a]\nout = 5\n", small, keys);
    refuse(text, (dt_model_opts){.dropout = -1}, image);
    refuse(text, (dt_model_opts){.image = 8, .classes = 6, .dropout = -1}, classes);
    refuse("[conv a]\nout = 5\nkernel = 1\n",
        (dt_model_opts){.image = 8, .classes = 6, .dropout = -1}, pixels);
    refuse("[embedding e]\nvocab = 9\nout = 4\n[linear l]\nout = 5\n",
        (dt_model_opts){.context = 8, .classes = 6, .dropout = -1}, positions);
    refuse("[model]\nname = vgg16\n[fc a]\nout = 5\n", small, both);
}

static void a_configuration_without_layers_is_refused(void **state)
{
    (void)state;
    const char *const want[] = {"no layers", NULL};
    refuse("[train]\nbatch = 2\n", small, want);
}

static void too_many_layers_are_refused(void **state)
{
    (void)state;
    static char text[(DTI_INI_LAYERS + 2) * 16];
    size_t at = 0;
    for (int i = 0; i <= DTI_INI_LAYERS; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "[relu r%d]\n", i);
    const char *const want[] = {"net.ini:4097: [relu r4096]", "at most 4096", NULL};
    refuse(text, small, want);
}

static void a_failed_allocation_leaves_nothing_behind(void **state)
{
    (void)state;
    dt_status st = DT_E_NOMEM;
    long k = 0;
    while (st != DT_OK) {
        dt_config *c = parse(residual);
        const long live = dti_alloc_live();
        dt_graph *g = NULL;
        dt_err err = {0};
        dti_alloc_fail_at(++k);
        st = dt_ini_network(c, &small, &g, &err);
        dti_alloc_fail_at(0);
        assert_true(st == DT_OK || (st == DT_E_NOMEM && g == NULL && err.n > 0));
        dt_graph_destroy(g);
        assert_true(dti_alloc_live() >= live); /* the configuration may keep what was bound */
        dt_config_destroy(c);
        assert_int_equal(dti_alloc_live(), 0);
    }
    assert_true(k > 3);
}

/* What a run directory keeps: every option with its default written out. */
static void the_effective_configuration_gives_the_same_network(void **state)
{
    (void)state;
    dt_err err = {0};
    dt_graph *a = NULL;
    dt_config *c = parse(residual);
    char *text = NULL;
    size_t bytes;
    assert_ok(dt_ini_network(c, &small, &a, &err), &err);
    FILE *f = open_memstream(&text, &bytes);
    assert_non_null(f);
    dt_config_dump(c, f);
    fclose(f);
    dt_graph *b = build(text, small);
    assert_int_equal(a->n_node, b->n_node);
    for (size_t i = 0; i < a->n_node; i++) {
        const dt_node *x = &a->node[i], *y = &b->node[i];
        assert_string_equal(x->name, y->name);
        assert_ptr_equal(x->desc, y->desc);
        assert_int_equal(x->n_in, y->n_in);
        assert_memory_equal(x->in, y->in, sizeof x->in);
        assert_true(dt_shape_same(&x->info.y, &y->info.y));
    }
    dt_graph_destroy(b);
    dt_graph_destroy(a);
    dt_config_destroy(c);
    free(text);
}

static void the_networks_among_the_example_configurations_build(void **state)
{
    (void)state;
    static const char *const names[] = {"tiny_ini_network", "densenet_small", "unet_small"};
    for (size_t i = 0; i < DT_COUNT(names); i++) {
        dt_err err = {0};
        dt_config *c = NULL;
        dt_graph *g = NULL;
        char path[64];
        snprintf(path, sizeof path, "configs/%s.ini", names[i]);
        assert_ok(dt_config_load(&c, dt_source_path(path), &err), &err);
        assert_true(dt_ini_has_layers(c));
        const dt_model_opts o = {.classes = 10, .image = 32, .dropout = -1};
        assert_ok(dt_ini_network(c, &o, &g, &err), &err);
        assert_string_equal(g->name, names[i]);
        dt_graph_destroy(g);
        dt_config_destroy(c);
    }
}

/* The networks of papers that are written as files, and the examples: of Caffe's zoo, as its files
 * of weights have them; torchvision's; of the tables of OverFeat (145 million) and MobileNet; and
 * by hand, layer by layer. A file more needs its count here. */
static const struct {
    const char *file;
    int64_t image_h, image_w, classes, parameters; /* of tokens no height, and their number */
} files[] = {
    {"papers/alexnet2012", 227, 227, 1000, 60965224},
    {"papers/alexnet_cntk", 224, 224, 1000, 61100840},
    {"papers/googlenet2014", 224, 224, 1000, 6998552},
    {"papers/mobilenet", 224, 224, 1000, 4231976},
    {"papers/mobilenet_v2", 224, 224, 1000, 3504872},
    {"papers/nin", 227, 227, 1000, 7595176},
    {"papers/overfeat", 231, 231, 1000, 145920872},
    {"papers/squeezenet", 224, 224, 1000, 1248424},
    /* Of Keras' summaries what trains; then VGG-16's features but for its last stage, or a plain
     * encoder, and convolutions with bias, and norms */
    {"papers/keras_mobilenet", 224, 224, 1000, 4231976},
    {"papers/keras_resnet50", 224, 224, 1000, 25583592},
    {"papers/keras_unet", 416, 608, 19,
        7635264 + 512 * 512 * 9 + 768 * 256 * 9 + 384 * 128 * 9 + 192 * 64 * 9 + 64 * 19 * 9 +
            3 * (512 + 256 + 128 + 64) + 19},
    {"papers/keras_segnet", 416, 608, 19,
        9 * (3 * 64 + 64 * 128 + 128 * 256 + 256 * 256 + 256 * 512 + 512 * 256 + 256 * 128 +
                128 * 64 + 64 * 19) +
            3 * (64 + 128 + 256 + 256 + 512 + 256 + 128 + 64) + 19},
    /* vectors of words; of each LSTM four gates of inputs and state, with two biases; scores */
    {"papers/lstm_ptb", 0, 35, 10000,
        10000 * 1500 + 2 * 4 * (1500 * 3000 + 2 * 1500) + 1500 * 10000 + 10000},
    {"chain", 32, 32, 10, 9 * (3 * 16 + 7 * 16 * 16) + 170},
    {"tower", 1, 1, 512, 8 * (512 * 512 + 512)},
    {"tiny_ini_network", 32, 32, 10,
        9 * (3 * 16 + 2 * 16 * 16 + 16 * 32 + 32 * 32) + 16 * 32 + 2 * (3 * 16 + 3 * 32) + 330},
    {"densenet_small", 32, 32, 10,
        432 + 74 * (16 + 24 + 32 + 20 + 28 + 36 + 22 + 30 + 38) + 40 * (2 + 20) + 44 * (2 + 22) +
            92 + 470},
    {"unet_small", 32, 32, 10,
        9 * (3 * 8 + 8 * 8 + 8 * 16 + 16 * 16 + 16 * 32 + 32 * 32) +
            9 * (32 * 16 + 16 * 16 + 16 * 8 + 8 * 8) + 33 * 16 + 17 * 8 +
            2 * (4 * 8 + 4 * 16 + 2 * 32) + 90},
    {"autoencoder_small", 32, 32, 3,
        16 * (3 * 16 + 16 * 32 + 6 * 16 + 16 * 3) + 6 * 32 + 16 + 32 + 6 + 16 + 3},
};

/* Of networks that are written layer by layer. */
static int files_below(const char *folder)
{
    int n = 0;
    char path[512];
    snprintf(path, sizeof path, "%s", dt_source_path(folder));
    DIR *d = opendir(path);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        dt_config *c = NULL;
        dt_err err = {0};
        const size_t len = strlen(e->d_name);
        if (len < 4 || strcmp(e->d_name + len - 4, ".ini") != 0)
            continue;
        char file[1024];
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        assert_ok(dt_config_load(&c, file, &err), &err);
        n += dt_ini_has_layers(c);
        dt_config_destroy(c);
    }
    closedir(d);
    return n;
}

static void files_have_the_parameters_of_their_papers(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(files); i++) {
        dt_err err = {0};
        dt_config *c = NULL;
        dt_graph *g = NULL;
        char path[64];
        snprintf(path, sizeof path, "configs/%s.ini", files[i].file);
        assert_ok(dt_config_load(&c, dt_source_path(path), &err), &err);
        const char *at;
        int line;
        const char *channels = dt_config_get(c, "model", "channels", &at, &line);
        const bool words = files[i].image_h == 0;
        const dt_model_opts o = {.classes = files[i].classes,
            .image = words ? 0 : dt_sides(files[i].image_h, files[i].image_w),
            .channels = channels != NULL ? strtol(channels, NULL, 10) : 0,
            .context = words ? files[i].image_w : 0,
            .dropout = -1};
        assert_ok(dt_ini_network(c, &o, &g, &err), &err);
        if (dt_graph_parameters(g) != files[i].parameters)
            fail_msg("%s has %" PRId64 " parameters, not %" PRId64, files[i].file,
                dt_graph_parameters(g), files[i].parameters);
        dt_graph_destroy(g);
        dt_config_destroy(c);
    }
    assert_int_equal(files_below("configs") + files_below("configs/papers"), DT_COUNT(files));
}

static void the_other_example_configurations_name_models(void **state)
{
    (void)state;
    static const char *const all[] = {"configs/resnet50.ini", "configs/resnet20_cifar10.ini",
        "configs/lenet5_mnist.ini", "configs/vgg16.ini", "configs/alexnet.ini", "configs/mlp.ini",
        "configs/unet.ini", "configs/vit_small.ini", "configs/googlenet.ini",
        "configs/densenet121.ini", "configs/gpt2_shakespeare.ini", "configs/lstm_shakespeare.ini"};
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        dt_err err = {0};
        dt_config *c = NULL;
        const char *file;
        int line;
        assert_ok(dt_config_load(&c, dt_source_path(all[i]), &err), &err);
        assert_false(dt_ini_has_layers(c));
        const char *name = dt_config_get(c, "model", "name", &file, &line);
        assert_non_null(name);
        assert_non_null(dt_model_find(name));
        dt_config_destroy(c);
    }
}

DT_TEST_GROUP(ini_network)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sections_become_layers_in_file_order),
        cmocka_unit_test(files_have_the_parameters_of_their_papers),
        cmocka_unit_test(a_file_may_have_lstms_that_attend),
        cmocka_unit_test(kernels_may_be_higher_than_wide),
        cmocka_unit_test(a_layer_takes_the_section_above_unless_input_names_others),
        cmocka_unit_test(image_names_the_input_of_the_network),
        cmocka_unit_test(the_loss_is_added_when_missing_and_kept_when_written),
        cmocka_unit_test(the_name_comes_from_the_model_section_or_the_file),
        cmocka_unit_test(layer_sections_are_told_from_the_others),
        cmocka_unit_test(unknown_keys_of_a_layer_are_reported),
        cmocka_unit_test(unknown_layers_are_refused_with_the_nearest_one),
        cmocka_unit_test(long_paths_keep_their_ends_and_mistakes_their_order),
        cmocka_unit_test(inputs_that_do_not_exist_are_refused),
        cmocka_unit_test(cycles_and_layers_below_are_refused),
        cmocka_unit_test(wrong_numbers_of_inputs_are_refused),
        cmocka_unit_test(shapes_that_do_not_fit_name_both_layers_and_their_shapes),
        cmocka_unit_test(maps_that_a_flatten_made_vectors_are_read_as_vectors),
        cmocka_unit_test(kernels_larger_than_the_padded_input_are_refused),
        cmocka_unit_test(sizes_that_are_zero_or_overflow_are_refused),
        cmocka_unit_test(values_nobody_takes_are_refused),
        cmocka_unit_test(bad_names_are_refused),
        cmocka_unit_test(a_loss_before_the_end_is_refused),
        cmocka_unit_test(a_linear_layer_can_share_the_weight_of_an_embedding),
        cmocka_unit_test(weights_that_cannot_be_shared_are_refused),
        cmocka_unit_test(the_input_is_an_image_or_a_sequence),
        cmocka_unit_test(scores_as_large_as_the_image_take_a_label_a_pixel),
        cmocka_unit_test(all_problems_are_reported_in_one_pass),
        cmocka_unit_test(what_belongs_to_named_models_is_refused),
        cmocka_unit_test(a_configuration_without_layers_is_refused),
        cmocka_unit_test(too_many_layers_are_refused),
        cmocka_unit_test(a_failed_allocation_leaves_nothing_behind),
        cmocka_unit_test(the_effective_configuration_gives_the_same_network),
        cmocka_unit_test(the_networks_among_the_example_configurations_build),
        cmocka_unit_test(the_other_example_configurations_name_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
