/* Networks by name: parameter counts, names and shapes as in torchvision, and what options do. */
#include "tests/fixture/check.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/checkpoint/safetensors.h"
#include "layers/elementwise/dropout.h"
#include "layers/plain.h"
#include "models/model.h"

static const dt_model_opts standard = {.dropout = -1};

static dt_graph *build(const char *name, dt_model_opts o)
{
    dt_graph *g = NULL;
    dt_err err = {0};
    const dt_model_desc *m = dt_model_find(name);
    assert_non_null(m);
    assert_ok(dt_model_build(m, &o, &g, &err), &err);
    return g;
}

static void refuse(const char *name, dt_model_opts o, const char *text)
{
    dt_graph *g = NULL;
    dt_err err = {0};
    const dt_model_desc *m = dt_model_find(name);
    assert_non_null(m);
    assert_fails(dt_model_build(m, &o, &g, &err), DT_E_CONFIG, &err, text);
    assert_null(g);
}

/* torchvision's counts; the others as their papers and reference code have them. */
static const struct {
    const char *name;
    int64_t parameters;
} counts[] = {
    {"alexnet", 61100840},
    {"vgg11", 132863336},
    {"vgg13", 133047848},
    {"vgg16", 138357544},
    {"vgg19", 143667240},
    {"vgg416", 583203880},
    {"vgg11_bn", 132868840},
    {"vgg13_bn", 133053736},
    {"vgg16_bn", 138365992},
    {"vgg19_bn", 143678248},
    {"resnet18", 11689512},
    {"resnet34", 21797672},
    {"resnet50", 25557032},
    {"resnet101", 44549160},
    {"resnet152", 60192808},
    {"resnet200", 64673832},
    {"resnet200_memonger", 64673832},
    {"resnext50_32x4d", 25028904},
    {"resnext101_32x8d", 88791336},
    {"wide_resnet50_2", 68883240},
    {"wide_resnet101_2", 126886696},
    {"resnet20", 269722},
    {"resnet32", 464154},
    {"resnet56", 853018},
    {"resnet110", 1727962},
    {"resnet1202", 19421274},
    {"resnet1001", 10327706},
    {"googlenet", 6624904},
    {"squeezenet1_0", 1248424},
    {"squeezenet1_1", 1235496},
    {"inception_v3", 23834568},
    {"inception_v4", 42679816},
    {"mobilenet_v1", 4231976},
    {"mobilenet_v2", 3504872},
    {"mobilenet_v3_large", 5483032},
    {"mobilenet_v3_small", 2542856},
    {"densenet264", 33337704},
    {"densenet121", 7978856},
    {"unet", 17263042},
    {"gpt2", 124439808},
    {"bert_base", 109482240},
    {"vit_small", 22049896},
    {"lstm_attention", 1331968},
    {"segnet", 29449355},
    {"fcn32s", 136152917},
    {"fcn8s", 134489759},
    {"fcn_resnet50", 32957013},
    {"fcn_resnet101", 32957013 + 44549160 - 25557032},
    {"dcgan_discriminator", 2765568 + 8192}, /* a second score */
    {"dcgan_generator", 3576704 + 2765568 + 8192},
    {"lenet5", 61706},
    {"mlp", 784 * 512 + 512 + 512 * 256 + 256 + 256 * 10 + 10},
};

static void parameter_counts_are_those_of_torchvision(void **state)
{
    (void)state;
    size_t n;
    dt_model_all(&n);
    assert_int_equal(n, DT_COUNT(counts)); /* a new model needs its count here */
    for (size_t i = 0; i < DT_COUNT(counts); i++) {
        dt_graph *g = build(counts[i].name, standard);
        if (dt_graph_parameters(g) != counts[i].parameters)
            fail_msg("%s has %" PRId64 " parameters, not %" PRId64, counts[i].name,
                dt_graph_parameters(g), counts[i].parameters);
        dt_graph_destroy(g);
    }
}

/* --- counts of networks that torchvision lacks, from the tables of their papers --- */

/* A convolution without bias, of so many pixels, and its batch norm. */
static int64_t unit(int64_t in, int64_t out, int64_t pixels)
{
    return in * out * pixels + 2 * out;
}

typedef struct stage {
    int64_t out, pixels;
} stage;

/* Units one after another. */
static int64_t chain(int64_t in, const stage *l, size_t n)
{
    int64_t sum = 0;
    for (size_t i = 0; i < n; in = l[i++].out)
        sum += unit(in, l[i].out, l[i].pixels);
    return sum;
}

#define CHAIN(in, ...)                                                                             \
    chain(in, (const stage[]){__VA_ARGS__}, sizeof((const stage[]){__VA_ARGS__}) / sizeof(stage))

/* Howard et al. 2017, table 1. */
static int64_t mobilenet_v1_count(void)
{
    const int64_t out[] = {64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024};
    int64_t in = 32, sum = unit(3, in, 9);
    for (size_t i = 0; i < DT_COUNT(out); in = out[i++])
        sum += unit(1, in, 9) + unit(in, out[i], 1);
    return sum + 1000 * (1024 + 1);
}

/* Szegedy et al. 2017, figures 3 to 9. */
static int64_t inception_v4_count(void)
{
    const int64_t stem = CHAIN(3, {32, 9}, {32, 9}, {64, 9}) + unit(64, 96, 9) +
                         CHAIN(160, {64, 1}, {96, 9}) +
                         CHAIN(160, {64, 1}, {64, 7}, {64, 7}, {96, 9}) + unit(192, 192, 9);
    const int64_t a =
        2 * unit(384, 96, 1) + CHAIN(384, {64, 1}, {96, 9}) + CHAIN(384, {64, 1}, {96, 9}, {96, 9});
    const int64_t a_to_b = unit(384, 384, 9) + CHAIN(384, {192, 1}, {224, 9}, {256, 9});
    const int64_t b = unit(1024, 128, 1) + unit(1024, 384, 1) +
                      CHAIN(1024, {192, 1}, {224, 7}, {256, 7}) +
                      CHAIN(1024, {192, 1}, {192, 7}, {224, 7}, {224, 7}, {256, 7});
    const int64_t b_to_c =
        CHAIN(1024, {192, 1}, {192, 9}) + CHAIN(1024, {256, 1}, {256, 7}, {320, 7}, {320, 9});
    const int64_t c = 2 * unit(1536, 256, 1) + unit(1536, 384, 1) + 2 * unit(384, 256, 3) +
                      CHAIN(1536, {384, 1}, {448, 3}, {512, 3}) + 2 * unit(512, 256, 3);
    return stem + 4 * a + a_to_b + 7 * b + b_to_c + 3 * c + 1000 * (1536 + 1);
}

/* Devlin et al. 2019, with the head that tells masked words; one segment. */
static int64_t bert_base_count(void)
{
    const int64_t d = 768, inner = 4 * d, norm = 2 * d, linear = d * d + d;
    const int64_t layer = 4 * linear + 2 * norm + d * inner + inner + inner * d + d;
    return (30522 + 512) * d + norm + 12 * layer + linear + norm;
}

static void counts_follow_from_the_tables_of_papers(void **state)
{
    (void)state;
    const struct {
        const char *name;
        int64_t parameters;
    } papers[] = {
        {"mobilenet_v1", mobilenet_v1_count()},
        {"inception_v4", inception_v4_count()},
        {"bert_base", bert_base_count()},
    };
    for (size_t i = 0; i < DT_COUNT(papers); i++) {
        dt_graph *g = build(papers[i].name, standard);
        assert_int_equal(dt_graph_parameters(g), papers[i].parameters);
        dt_graph_destroy(g);
    }
}

static void every_model_is_found_by_its_name_and_ends_in_the_loss(void **state)
{
    (void)state;
    size_t n;
    const dt_model_desc *const *all = dt_model_all(&n);
    const char *const *names = dt_model_names();
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(names[i], all[i]->name);
        assert_ptr_equal(dt_model_find(names[i]), all[i]);
        assert_true(strlen(all[i]->summary) > 0);
        dt_graph *g = build(names[i], standard);
        const dt_node *last = &g->node[g->n_node - 1];
        assert_string_equal(g->name, names[i]);
        assert_string_equal(last->name, "loss");
        assert_ptr_equal(last->desc, &dt_layer_cross_entropy);
        assert_int_equal(g->classes, all[i]->classes);
        assert_true(dt_shape_same(&g->input, &all[i]->input));
        dt_graph_destroy(g);
    }
    assert_null(names[n]);
    assert_null(dt_model_find("resnet51"));
}

/* The parameter called NODE.PARAM, or NULL. */
static const dt_param_info *find_param(const dt_graph *g, const char *name)
{
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot != NULL && i < g->n_node; i++) {
        const dt_node *node = &g->node[i];
        const size_t len = (size_t)(dot - name);
        if (strlen(node->name) != len || strncmp(node->name, name, len) != 0)
            continue;
        for (int k = 0; k < node->info.n_param; k++)
            if (strcmp(node->info.param[k].name, dot + 1) == 0)
                return &node->info.param[k];
    }
    return NULL;
}

static void assert_param(const dt_graph *g, const char *name, int rank, const int64_t *d)
{
    const dt_param_info *p = find_param(g, name);
    if (p == NULL)
        fail_msg("%s has no parameter %s", g->name, name);
    bool same = p->rank == rank;
    for (int i = 0; i < rank && same; i++)
        same = p->d[i] == d[i];
    if (!same)
        fail_msg("%s: %s has rank %d and first size %" PRId64, g->name, name, p->rank, p->d[0]);
}

static void resnet18_has_the_names_and_shapes_of_the_reference_file(void **state)
{
    (void)state;
    const char *path = dt_shared("reference/models/resnet18_w8/init.safetensors");
    if (path == NULL)
        skip();
    dt_err err = {0};
    dt_st_file *f = NULL;
    assert_ok(dt_st_open(&f, path, &err), &err);
    dt_graph *g =
        build("resnet18", (dt_model_opts){.classes = 10, .image = 64, .width = 8, .dropout = -1});
    for (size_t i = 0; i < dti_st_count(f); i++) {
        const dt_st_entry *e = dti_st_at(f, i);
        assert_param(g, e->name, e->rank, e->d);
    }
    size_t ours = 0;
    for (size_t i = 0; i < g->n_node; i++)
        ours += (size_t)g->node[i].info.n_param;
    assert_true(ours > 0);
    assert_int_equal(
        ours, dti_st_count(f)); /* names are unique, so none of ours is missing there */
    dt_graph_destroy(g);
    dt_st_close(f);
}

typedef struct param_case {
    const char *name;
    int rank;
    int64_t d[4];
} param_case;

static void assert_params(const char *model, const param_case *want, size_t n)
{
    dt_graph *g = build(model, standard);
    for (size_t i = 0; i < n; i++)
        assert_param(g, want[i].name, want[i].rank, want[i].d);
    dt_graph_destroy(g);
}

static void names_and_shapes_are_those_of_torchvision(void **state)
{
    (void)state;
    const param_case vgg16_bn[] = {
        {"features.0.weight", 4, {64, 3, 3, 3}},
        {"features.0.bias", 1, {64}},
        {"features.1.weight", 1, {64}},
        {"features.1.running_var", 1, {64}},
        {"features.3.weight", 4, {64, 64, 3, 3}},
        {"features.7.weight", 4, {128, 64, 3, 3}},
        {"features.40.weight", 4, {512, 512, 3, 3}},
        {"features.41.running_mean", 1, {512}},
        {"classifier.0.weight", 2, {4096, 25088}},
        {"classifier.3.weight", 2, {4096, 4096}},
        {"classifier.6.bias", 1, {1000}},
    };
    assert_params("vgg16_bn", vgg16_bn, DT_COUNT(vgg16_bn));
    const param_case vgg19[] = {
        {"features.2.weight", 4, {64, 64, 3, 3}},
        {"features.34.weight", 4, {512, 512, 3, 3}},
    };
    assert_params("vgg19", vgg19, DT_COUNT(vgg19));
    const param_case alexnet[] = {
        {"features.0.weight", 4, {64, 3, 11, 11}},
        {"features.3.weight", 4, {192, 64, 5, 5}},
        {"features.6.weight", 4, {384, 192, 3, 3}},
        {"features.8.bias", 1, {256}},
        {"features.10.weight", 4, {256, 256, 3, 3}},
        {"classifier.1.weight", 2, {4096, 9216}},
        {"classifier.4.weight", 2, {4096, 4096}},
        {"classifier.6.weight", 2, {1000, 4096}},
    };
    assert_params("alexnet", alexnet, DT_COUNT(alexnet));
    const param_case resnet50[] = {
        {"conv1.weight", 4, {64, 3, 7, 7}},
        {"bn1.running_mean", 1, {64}},
        {"layer1.0.conv1.weight", 4, {64, 64, 1, 1}},
        {"layer1.0.conv3.weight", 4, {256, 64, 1, 1}},
        {"layer1.0.downsample.0.weight", 4, {256, 64, 1, 1}},
        {"layer1.0.downsample.1.bias", 1, {256}},
        {"layer4.2.conv2.weight", 4, {512, 512, 3, 3}},
        {"layer4.2.bn3.running_var", 1, {2048}},
        {"fc.weight", 2, {1000, 2048}},
    };
    assert_params("resnet50", resnet50, DT_COUNT(resnet50));
    const param_case resnext50[] = {
        {"layer1.0.conv1.weight", 4, {128, 64, 1, 1}},
        {"layer1.0.conv2.weight", 4, {128, 4, 3, 3}},
        {"layer4.2.conv2.weight", 4, {1024, 32, 3, 3}},
        {"layer4.2.conv3.weight", 4, {2048, 1024, 1, 1}},
    };
    assert_params("resnext50_32x4d", resnext50, DT_COUNT(resnext50));
    const param_case wide_resnet50[] = {
        {"layer1.0.conv2.weight", 4, {128, 128, 3, 3}},
        {"layer1.0.downsample.0.weight", 4, {256, 64, 1, 1}},
        {"layer4.2.conv2.weight", 4, {1024, 1024, 3, 3}},
    };
    assert_params("wide_resnet50_2", wide_resnet50, DT_COUNT(wide_resnet50));
    const param_case squeezenet1_0[] = {
        {"features.0.weight", 4, {96, 3, 7, 7}},
        {"features.3.squeeze.weight", 4, {16, 96, 1, 1}},
        {"features.5.expand3x3.bias", 1, {128}},
        {"features.12.expand1x1.weight", 4, {256, 64, 1, 1}},
        {"classifier.1.weight", 4, {1000, 512, 1, 1}},
    };
    assert_params("squeezenet1_0", squeezenet1_0, DT_COUNT(squeezenet1_0));
    const param_case squeezenet1_1[] = {
        {"features.0.weight", 4, {64, 3, 3, 3}},
        {"features.4.squeeze.weight", 4, {16, 128, 1, 1}},
        {"features.12.expand3x3.weight", 4, {256, 64, 3, 3}},
    };
    assert_params("squeezenet1_1", squeezenet1_1, DT_COUNT(squeezenet1_1));
    const param_case inception_v3[] = {
        {"Conv2d_1a_3x3.conv.weight", 4, {32, 3, 3, 3}},
        {"Conv2d_4a_3x3.bn.running_mean", 1, {192}},
        {"Mixed_5b.branch5x5_2.conv.weight", 4, {64, 48, 5, 5}},
        {"Mixed_5b.branch_pool.conv.weight", 4, {32, 192, 1, 1}},
        {"Mixed_6a.branch3x3.conv.weight", 4, {384, 288, 3, 3}},
        {"Mixed_6c.branch7x7_2.conv.weight", 4, {160, 160, 1, 7}},
        {"Mixed_6e.branch7x7dbl_5.conv.weight", 4, {192, 192, 1, 7}},
        {"Mixed_7a.branch7x7x3_3.conv.weight", 4, {192, 192, 7, 1}},
        {"Mixed_7c.branch3x3dbl_3b.conv.weight", 4, {384, 384, 3, 1}},
        {"Mixed_7c.branch_pool.bn.weight", 1, {192}},
        {"fc.weight", 2, {1000, 2048}},
    };
    assert_params("inception_v3", inception_v3, DT_COUNT(inception_v3));
    const param_case inception_v4[] = {
        {"features.0.conv.weight", 4, {32, 3, 3, 3}},
        {"features.3.conv.conv.weight", 4, {96, 64, 3, 3}},
        {"features.4.branch1.1.conv.weight", 4, {64, 64, 1, 7}},
        {"features.6.branch3.1.conv.weight", 4, {96, 384, 1, 1}},
        {"features.10.branch1.2.bn.bias", 1, {256}},
        {"features.17.branch2.4.conv.weight", 4, {256, 224, 1, 7}},
        {"features.18.branch1.3.conv.weight", 4, {320, 320, 3, 3}},
        {"features.21.branch2_3b.conv.weight", 4, {256, 512, 3, 1}},
        {"last_linear.weight", 2, {1000, 1536}},
    };
    assert_params("inception_v4", inception_v4, DT_COUNT(inception_v4));
    const param_case mobilenet_v1[] = {
        {"features.0.0.weight", 4, {32, 3, 3, 3}},
        {"features.2.0.0.weight", 4, {64, 1, 3, 3}},
        {"features.2.1.0.weight", 4, {128, 64, 1, 1}},
        {"features.13.1.1.running_var", 1, {1024}},
        {"classifier.weight", 2, {1000, 1024}},
    };
    assert_params("mobilenet_v1", mobilenet_v1, DT_COUNT(mobilenet_v1));
    const param_case mobilenet_v2[] = {
        {"features.0.0.weight", 4, {32, 3, 3, 3}},
        {"features.1.conv.0.0.weight", 4, {32, 1, 3, 3}},
        {"features.1.conv.1.weight", 4, {16, 32, 1, 1}},
        {"features.1.conv.2.running_mean", 1, {16}},
        {"features.2.conv.0.0.weight", 4, {96, 16, 1, 1}},
        {"features.2.conv.1.1.bias", 1, {96}},
        {"features.17.conv.2.weight", 4, {320, 960, 1, 1}},
        {"features.17.conv.3.running_var", 1, {320}},
        {"features.18.0.weight", 4, {1280, 320, 1, 1}},
        {"classifier.1.weight", 2, {1000, 1280}},
    };
    assert_params("mobilenet_v2", mobilenet_v2, DT_COUNT(mobilenet_v2));
    const param_case bert_base[] = {
        {"embeddings.word_embeddings.weight", 2, {30522, 768}},
        {"embeddings.position_embeddings.weight", 2, {512, 768}},
        {"embeddings.LayerNorm.bias", 1, {768}},
        {"encoder.layer.0.attention.self.query.weight", 2, {768, 768}},
        {"encoder.layer.11.attention.output.LayerNorm.weight", 1, {768}},
        {"encoder.layer.11.intermediate.dense.weight", 2, {3072, 768}},
        {"encoder.layer.11.output.dense.weight", 2, {768, 3072}},
        {"cls.predictions.transform.dense.bias", 1, {768}},
    };
    assert_params("bert_base", bert_base, DT_COUNT(bert_base));
    const param_case lstm_attention[] = {
        {"embedding.weight", 2, {65, 256}},
        {"lstm.0.weight_ih_l0", 2, {1024, 256}},
        {"lstm.1.bias_hh_l0", 1, {1024}},
        {"attention.key_weight", 2, {256, 256}},
        {"attention.score_weight", 1, {256}},
        {"combine.weight", 2, {256, 512}},
    };
    assert_params("lstm_attention", lstm_attention, DT_COUNT(lstm_attention));
    const param_case resnet20[] = {
        {"conv1.weight", 4, {16, 3, 3, 3}},
        {"layer2.0.conv1.weight", 4, {32, 16, 3, 3}},
        {"layer3.2.bn2.weight", 1, {64}},
        {"linear.weight", 2, {10, 64}},
    };
    assert_params("resnet20", resnet20, DT_COUNT(resnet20));
    const param_case googlenet[] = {
        {"conv1.conv.weight", 4, {64, 3, 7, 7}},
        {"conv3.bn.running_mean", 1, {192}},
        {"inception3a.branch1.conv.weight", 4, {64, 192, 1, 1}},
        {"inception3a.branch1.bn.weight", 1, {64}},
        {"inception3a.branch2.0.conv.weight", 4, {96, 192, 1, 1}},
        {"inception3a.branch3.1.conv.weight", 4, {32, 16, 3, 3}}, /* not 5x5 */
        {"inception4e.branch4.1.conv.weight", 4, {128, 528, 1, 1}},
        {"inception5b.branch2.1.conv.weight", 4, {384, 192, 3, 3}},
        {"fc.weight", 2, {1000, 1024}},
    };
    assert_params("googlenet", googlenet, DT_COUNT(googlenet));
    const param_case densenet121[] = {
        {"features.conv0.weight", 4, {64, 3, 7, 7}},
        {"features.norm0.weight", 1, {64}},
        {"features.denseblock1.denselayer1.norm1.weight", 1, {64}},
        {"features.denseblock1.denselayer1.conv1.weight", 4, {128, 64, 1, 1}},
        {"features.denseblock1.denselayer2.norm1.running_var", 1, {96}},
        {"features.denseblock3.denselayer24.conv1.weight", 4, {128, 992, 1, 1}},
        {"features.denseblock4.denselayer16.conv2.weight", 4, {32, 128, 3, 3}},
        {"features.transition1.conv.weight", 4, {128, 256, 1, 1}},
        {"features.norm5.bias", 1, {1024}},
        {"classifier.weight", 2, {1000, 1024}},
    };
    assert_params("densenet121", densenet121, DT_COUNT(densenet121));
    const param_case resnet1001[] = {
        {"layer1.0.bn1.weight", 1, {16}},
        {"layer1.0.shortcut.weight", 4, {64, 16, 1, 1}},
        {"layer2.0.conv1.weight", 4, {32, 64, 1, 1}},
        {"layer3.110.conv3.weight", 4, {256, 64, 1, 1}},
        {"bn.weight", 1, {256}},
    };
    assert_params("resnet1001", resnet1001, DT_COUNT(resnet1001));
}

static void assert_shape(const dt_graph *g, const char *node, int64_t side, int64_t c)
{
    const int32_t id = dt_graph_find(g, node);
    if (id < 0)
        fail_msg("%s has no layer %s", g->name, node);
    const dt_shape s = dt_graph_shape(g, id);
    if (s.h != side || s.w != side || s.c != c)
        fail_msg("%s: %s makes %" PRId64 "x%" PRId64 "x%" PRId64, g->name, node, s.h, s.w, s.c);
}

static void the_stride_of_a_bottleneck_is_on_its_3x3_convolution(void **state)
{
    (void)state;
    dt_graph *g = build("resnet50", standard);
    assert_shape(g, "maxpool", 56, 64);
    assert_shape(g, "layer2.0.conv1", 56, 128);
    assert_shape(g, "layer2.0.conv2", 28, 128);
    assert_shape(g, "layer4.2.relu3", 7, 2048);
    assert_shape(g, "avgpool", 1, 2048);
    dt_graph_destroy(g);
}

static void identity_shortcuts_have_no_layer(void **state)
{
    (void)state;
    dt_graph *g = build("resnet18", standard);
    assert_true(dt_graph_find(g, "layer1.0.downsample.0") < 0);
    assert_true(dt_graph_find(g, "layer2.0.downsample.0") >= 0);
    assert_true(dt_graph_find(g, "layer2.1.downsample.0") < 0);
    dt_graph_destroy(g);
    g = build("resnet20", standard);
    assert_true(dt_graph_find(g, "layer1.0.shortcut") < 0);
    assert_shape(g, "layer2.0.shortcut", 16, 32);
    assert_shape(g, "layer3.0.add", 8, 64);
    dt_graph_destroy(g);
}

static void a_block_of_mobilenet_v2_is_added_to_what_it_reads_where_that_fits(void **state)
{
    (void)state;
    dt_graph *g = build("mobilenet_v2", standard);
    assert_true(dt_graph_find(g, "features.2.add") < 0); /* stride 2 */
    assert_shape(g, "features.3.add", 56, 24);
    assert_true(dt_graph_find(g, "features.11.add") < 0); /* 64 to 96 channels */
    assert_shape(g, "features.17.conv.3", 7, 320);
    assert_true(dt_graph_find(g, "features.17.add") < 0);
    assert_shape(g, "features.18.2", 7, 1280);
    dt_graph_destroy(g);
    g = build("mobilenet_v1", standard);
    assert_shape(g, "features.1.1.2", 112, 64);
    assert_shape(g, "features.13.1.2", 7, 1024);
    dt_graph_destroy(g);
}

static void pooling_of_googlenet_rounds_up(void **state)
{
    (void)state;
    dt_graph *g = build("googlenet", standard);
    assert_shape(g, "maxpool1", 56, 64);
    assert_shape(g, "maxpool2", 28, 192);
    assert_shape(g, "inception3b.concat", 28, 480);
    assert_shape(g, "maxpool3", 14, 480);
    assert_shape(g, "inception4e.branch4.0", 14, 528);
    assert_shape(g, "maxpool4", 7, 832);
    assert_shape(g, "inception5b.concat", 7, 1024);
    dt_graph_destroy(g);
}

static void modules_of_inception_join_what_none_of_their_units_reads(void **state)
{
    (void)state;
    dt_graph *g = build("inception_v3", standard);
    assert_shape(g, "Mixed_5b.concat", 35, 256);
    assert_shape(g, "Mixed_6a.concat", 17, 768);
    assert_shape(g, "Mixed_6e.branch7x7_2.relu", 17, 192);
    assert_shape(g, "Mixed_7b.concat", 8, 2048);
    assert_int_equal(g->node[dt_graph_find(g, "Mixed_7b.concat")].n_in, 6);
    dt_graph_destroy(g);
    g = build("inception_v4", standard);
    assert_shape(g, "features.2.relu", 147, 64);
    assert_shape(g, "features.5.concat", 35, 384);
    assert_shape(g, "features.10.concat", 17, 1024);
    assert_shape(g, "features.21.concat", 8, 1536);
    dt_graph_destroy(g);
}

/* torchvision 0.29.2 has these shapes. */
static void factors_of_mobilenet_v3_are_a_quarter_in_eights(void **state)
{
    (void)state;
    const param_case large[] = {
        {"features.1.block.0.0.weight", 4, {16, 1, 3, 3}},
        {"features.4.block.2.fc1.weight", 4, {24, 72, 1, 1}},
        {"features.4.block.2.fc2.bias", 1, {72}},
        {"features.12.block.2.fc1.weight", 4, {168, 672, 1, 1}},
        {"features.16.1.running_var", 1, {960}},
        {"classifier.3.weight", 2, {1000, 1280}},
    };
    const param_case small[] = {
        {"features.1.block.1.fc1.weight", 4, {8, 16, 1, 1}},
        {"features.4.block.1.0.weight", 4, {96, 1, 5, 5}},
        {"features.11.block.2.fc1.bias", 1, {144}},
        {"features.12.0.weight", 4, {576, 96, 1, 1}},
        {"classifier.0.weight", 2, {1024, 576}},
    };
    assert_params("mobilenet_v3_large", large, DT_COUNT(large));
    assert_params("mobilenet_v3_small", small, DT_COUNT(small));
}

static void scores_are_as_large_as_the_image(void **state)
{
    (void)state;
    dt_graph *g = build("segnet", standard);
    assert_shape(g, "pool5", 7, 512);
    assert_shape(g, "decoder3.3.relu", 56, 128);
    assert_shape(g, "scores", 224, 11);
    dt_graph_destroy(g);
    g = build("fcn32s", standard);
    assert_shape(g, "score_fr", 7, 21);
    assert_shape(g, "upscore", 224, 21);
    dt_graph_destroy(g);
    g = build("fcn8s", standard);
    assert_shape(g, "fuse_pool3", 28, 21);
    assert_shape(g, "upscore8", 224, 21);
    dt_graph_destroy(g);
    g = build("fcn_resnet50", standard);
    assert_shape(g, "backbone.layer2.3.relu3", 28, 512);
    assert_shape(g, "backbone.layer4.2.relu3", 28, 2048);
    assert_shape(g, "classifier.0", 28, 512);
    assert_shape(g, "upsample", 224, 21);
    dt_graph_destroy(g);
}

static void noise_becomes_an_image_that_is_told_from_real_ones(void **state)
{
    (void)state;
    dt_graph *g = build("dcgan_generator", standard);
    assert_shape(g, "main.0", 4, 512);
    assert_shape(g, "main.13", 64, 3);
    assert_shape(g, "discriminator.main.11", 1, 2);
    dt_graph_destroy(g);
    g = build("dcgan_discriminator", standard);
    assert_shape(g, "main.0", 32, 64);
    assert_shape(g, "main.11", 1, 2);
    dt_graph_destroy(g);
}

static void every_dense_layer_adds_its_growth_and_transitions_halve(void **state)
{
    (void)state;
    dt_graph *g = build("densenet121", standard);
    assert_shape(g, "features.denseblock1.denselayer1.concat", 56, 96);
    assert_shape(g, "features.denseblock1.denselayer6.concat", 56, 256);
    assert_shape(g, "features.transition1.pool", 28, 128);
    assert_shape(g, "features.denseblock4.denselayer16.concat", 7, 1024);
    dt_graph_destroy(g);
}

static void width_scales_all_channels(void **state)
{
    (void)state;
    dt_graph *g = build("resnet50", (dt_model_opts){.width = 16, .dropout = -1});
    assert_param(g, "conv1.weight", 4, (const int64_t[]){16, 3, 7, 7});
    assert_param(g, "layer4.0.conv3.weight", 4, (const int64_t[]){512, 128, 1, 1});
    assert_param(g, "fc.weight", 2, (const int64_t[]){1000, 512});
    dt_graph_destroy(g);
    g = build("vgg11", (dt_model_opts){.width = 8, .dropout = -1});
    assert_param(g, "features.3.weight", 4, (const int64_t[]){16, 8, 3, 3});
    assert_param(g, "classifier.3.weight", 2, (const int64_t[]){512, 512});
    dt_graph_destroy(g);
    g = build("resnet20", (dt_model_opts){.width = 1, .dropout = -1}); /* 0.25, 0.5 and 1 channel */
    assert_param(g, "layer1.0.conv1.weight", 4, (const int64_t[]){1, 1, 3, 3});
    dt_graph_destroy(g);
}

/* The members of a family are one another with other counts. */
static void counts_are_the_depth_of_a_family(void **state)
{
    (void)state;
    const struct {
        const char *model, *like;
        int n;
        int64_t counts[5];
    } cases[] = {
        {"resnet50", "resnet101", 4, {3, 4, 23, 3}},
        {"resnet18", "resnet34", 4, {3, 4, 6, 3}},
        {"resnet20", "resnet1202", 1, {200}},
        {"vgg11_bn", "vgg19_bn", 5, {2, 2, 4, 4, 4}},
        {"vgg19", "vgg416", 5, {82, 82, 84, 84, 84}},
        {"densenet121", "densenet264", 4, {6, 12, 64, 48}},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        const dt_model_opts o = {.dropout = -1, .counts = cases[i].counts, .n_counts = cases[i].n};
        dt_graph *g = build(cases[i].model, o), *like = build(cases[i].like, standard);
        assert_int_equal(g->n_node, like->n_node);
        for (size_t k = 0; k < g->n_node; k++)
            assert_string_equal(g->node[k].name, like->node[k].name);
        assert_int_equal(dt_graph_parameters(g), dt_graph_parameters(like));
        dt_graph_destroy(like);
        dt_graph_destroy(g);
    }
}

static void counts_that_a_family_does_not_have_are_refused(void **state)
{
    (void)state;
    const int64_t given[] = {3, 4, 0, 3, DTI_MODEL_COUNT + 1};
    dt_model_opts o = {.dropout = -1, .counts = given, .n_counts = 3};
    refuse("resnet50", o, "3 given, and it has 4 stages; its own are counts = 3,4,6,3");
    o.n_counts = 4;
    refuse("resnet50", o, "each is a whole number from 1 to 4096");
    o.n_counts = 1;
    refuse("googlenet", o, "googlenet has no counts");
    o.counts = &given[4];
    refuse("resnet20", o, "from 1 to 4096");
}

static void classes_image_and_channels_change_what_they_name(void **state)
{
    (void)state;
    dt_graph *g =
        build("resnet18", (dt_model_opts){.classes = 7, .image = 65, .channels = 1, .dropout = -1});
    assert_int_equal(g->classes, 7);
    assert_int_equal(g->input.h, 65);
    assert_int_equal(g->input.w, 65);
    assert_param(g, "conv1.weight", 4, (const int64_t[]){64, 1, 7, 7});
    assert_param(g, "fc.bias", 1, (const int64_t[]){7});
    dt_graph_destroy(g);
}

static int count_kind(const dt_graph *g, const dt_layer_desc *desc)
{
    int n = 0;
    for (size_t i = 0; i < g->n_node; i++)
        n += g->node[i].desc == desc;
    return n;
}

static void dropout_is_the_standard_the_given_rate_or_none(void **state)
{
    (void)state;
    const struct {
        const char *model;
        double given, rate;
        int layers;
    } cases[] = {
        {"alexnet", -1, 0.5, 2},
        {"alexnet", 0.25, 0.25, 2},
        {"alexnet", 0, 0, 0},
        {"vgg16", -1, 0.5, 2},
        {"googlenet", -1, 0.2, 1},
        {"mlp", -1, 0, 0},
        {"mlp", 0.1, 0.1, 2},
        {"squeezenet1_1", -1, 0.5, 1},
        {"mobilenet_v2", -1, 0.2, 1},
        {"mobilenet_v3_small", -1, 0.2, 1},
        {"fcn8s", -1, 0.5, 2},
        {"bert_base", -1, 0.1, 25},
        {"lstm_attention", 0.2, 0.2, 4},
        {"resnet50", 0, 0, 0},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        dt_graph *g = build(cases[i].model, (dt_model_opts){.dropout = cases[i].given});
        assert_int_equal(count_kind(g, &dt_layer_dropout), cases[i].layers);
        for (size_t k = 0; k < g->n_node; k++)
            if (g->node[k].desc == &dt_layer_dropout) {
                const dt_dropout *o = g->node[k].opts;
                assert_true(o->rate == cases[i].rate);
            }
        dt_graph_destroy(g);
    }
    dt_graph *g = build("alexnet", (dt_model_opts){.dropout = 0});
    assert_param(g, "classifier.4.weight", 2, (const int64_t[]){4096, 4096});
    dt_graph_destroy(g);
}

static void dropout_is_refused_where_there_is_none(void **state)
{
    (void)state;
    refuse("resnet50", (dt_model_opts){.dropout = 0.5}, "resnet50 has no dropout");
    refuse("lenet5", (dt_model_opts){.dropout = 0.5}, "lenet5 has no dropout");
    refuse("vgg16", (dt_model_opts){.dropout = 1}, "below 1");
    refuse("vgg16", (dt_model_opts){.dropout = (double)NAN}, "dropout");
}

static void image_sizes_that_no_pooling_can_serve_are_refused_with_those_that_can(void **state)
{
    (void)state;
    const struct {
        const char *model;
        int64_t image;
        bool fits;
    } cases[] = {
        {"vgg11", 223, false},
        {"vgg11", 224, true},
        {"vgg11", 255, true},
        {"vgg11", 256, false},
        {"vgg11", 447, false},
        {"vgg11", 448, true},
        {"vgg11", 479, true},
        {"vgg11", 480, false},
        {"vgg11", 672, true},
        {"vgg11", 703, true},
        {"vgg11", 704, false},
        {"alexnet", 222, false},
        {"alexnet", 223, true},
        {"alexnet", 254, true},
        {"alexnet", 255, false},
        {"alexnet", 414, false},
        {"alexnet", 415, true},
        {"alexnet", 446, true},
        {"alexnet", 447, false},
        {"lenet5", 28, true},
        {"lenet5", 32, true},
        {"lenet5", 30, false},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        const dt_model_opts o = {.image = cases[i].image, .dropout = -1};
        if (cases[i].fits)
            dt_graph_destroy(build(cases[i].model, o));
        else
            refuse(cases[i].model, o, "image");
    }
    refuse("segnet", (dt_model_opts){.image = 40, .dropout = -1}, "multiples of 32");
    refuse("fcn8s", (dt_model_opts){.image = 16, .dropout = -1}, "multiples of 32");
    refuse("fcn_resnet50", (dt_model_opts){.image = 36, .dropout = -1}, "multiples of 8");
    refuse("dcgan_discriminator", (dt_model_opts){.image = 32, .dropout = -1}, "may be 64");
    refuse("dcgan_generator", (dt_model_opts){.image = 64, .dropout = -1}, "may be 1");
    refuse("vgg16", (dt_model_opts){.image = 32, .dropout = -1}, "224 to 255, 448 to 479");
    refuse("alexnet", (dt_model_opts){.image = 64, .dropout = -1}, "223 to 254 or 415 to 446");
    refuse("lenet5", (dt_model_opts){.image = 30, .dropout = -1}, "28 or 32 pixels, not 30");
}

/* What pools over a whole map, or scores each pixel, takes images that are no squares. */
static void images_may_be_of_any_two_sides(void **state)
{
    (void)state;
    static const struct {
        const char *model, *layer; /* which makes a map of h x w */
        int64_t image_h, image_w, h, w;
    } cases[] = {{"unet", "outc.conv", 32, 48, 32, 48},
        {"resnet18", "layer4.1.relu2", 64, 96, 2, 3}, {"vit_small", "blocks.11.add2", 32, 48, 2, 3},
        {"segnet", "scores", 64, 32, 64, 32}, {"fcn8s", "upscore8", 32, 64, 32, 64},
        {"vgg16", "avgpool", 224, 448, 7, 7}};
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        const int64_t sides = dt_sides(cases[i].image_h, cases[i].image_w);
        dt_graph *g = build(cases[i].model, (dt_model_opts){.image = sides, .dropout = -1});
        const dt_shape y = dt_graph_shape(g, dt_graph_find(g, cases[i].layer));
        assert_int_equal(y.h, cases[i].h);
        assert_int_equal(y.w, cases[i].w);
        dt_graph_destroy(g);
    }
    const int64_t tall = dt_sides(32, 40), wide = dt_sides(70000, 64);
    refuse("unet", (dt_model_opts){.image = tall, .dropout = -1}, "32x40 pixels; height and width");
    refuse("lenet5", (dt_model_opts){.image = dt_sides(28, 32), .dropout = -1}, "not 28x32");
    refuse("dcgan_discriminator", (dt_model_opts){.image = tall, .dropout = -1}, "may be 64");
    refuse("resnet18", (dt_model_opts){.image = wide, .dropout = -1}, "each side is from 1 to");
    refuse("gpt2", (dt_model_opts){.image = tall, .dropout = -1}, "remove [model] image = 32x40");
}

static void parameters_do_not_depend_on_an_image_that_fits(void **state)
{
    (void)state;
    dt_graph *g = build("vgg16", (dt_model_opts){.image = 448, .dropout = -1});
    assert_shape(g, "avgpool", 7, 512);
    assert_int_equal(dt_graph_parameters(g), 138357544);
    dt_graph_destroy(g);
    g = build("vgg16", standard);
    assert_true(dt_graph_find(g, "avgpool") < 0);
    dt_graph_destroy(g);
    g = build("lenet5", (dt_model_opts){.image = 32, .dropout = -1});
    assert_int_equal(dt_graph_parameters(g), 61706);
    dt_graph_destroy(g);
}

static void options_out_of_range_are_refused(void **state)
{
    (void)state;
    refuse("mlp", (dt_model_opts){.classes = INT64_MAX}, "classes");
    refuse("resnet50", (dt_model_opts){.image = INT64_MAX}, "image");
    refuse("resnet50", (dt_model_opts){.width = INT64_MAX}, "width");
    refuse("resnet50", (dt_model_opts){.channels = INT64_MAX}, "channels");
    refuse("mlp", (dt_model_opts){.image = 1 << 16, .width = 1 << 16, .channels = 1 << 16}, "mlp");
}

static void a_failed_allocation_leaves_nothing_behind(void **state)
{
    (void)state;
    const char *const models[] = {
        "resnet20", "vgg11_bn", "mlp", "googlenet", "densenet121", "squeezenet1_0"};
    for (size_t i = 0; i < DT_COUNT(models); i++) {
        const long live = dti_alloc_live();
        dt_status st = DT_E_NOMEM;
        long k = 0;
        while (st != DT_OK) {
            dt_graph *g = NULL;
            dt_err err = {0};
            dti_alloc_fail_at(++k);
            st = dt_model_build(dt_model_find(models[i]), &standard, &g, &err);
            dti_alloc_fail_at(0);
            assert_true(st == DT_OK || (st == DT_E_NOMEM && g == NULL && err.n > 0));
            dt_graph_destroy(g);
            assert_int_equal(dti_alloc_live(), live);
        }
        assert_true(k > 3);
    }
}

DT_TEST_GROUP(models)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameter_counts_are_those_of_torchvision),
        cmocka_unit_test(counts_follow_from_the_tables_of_papers),
        cmocka_unit_test(every_model_is_found_by_its_name_and_ends_in_the_loss),
        cmocka_unit_test(resnet18_has_the_names_and_shapes_of_the_reference_file),
        cmocka_unit_test(names_and_shapes_are_those_of_torchvision),
        cmocka_unit_test(the_stride_of_a_bottleneck_is_on_its_3x3_convolution),
        cmocka_unit_test(identity_shortcuts_have_no_layer),
        cmocka_unit_test(a_block_of_mobilenet_v2_is_added_to_what_it_reads_where_that_fits),
        cmocka_unit_test(pooling_of_googlenet_rounds_up),
        cmocka_unit_test(modules_of_inception_join_what_none_of_their_units_reads),
        cmocka_unit_test(factors_of_mobilenet_v3_are_a_quarter_in_eights),
        cmocka_unit_test(scores_are_as_large_as_the_image),
        cmocka_unit_test(noise_becomes_an_image_that_is_told_from_real_ones),
        cmocka_unit_test(every_dense_layer_adds_its_growth_and_transitions_halve),
        cmocka_unit_test(width_scales_all_channels),
        cmocka_unit_test(counts_are_the_depth_of_a_family),
        cmocka_unit_test(counts_that_a_family_does_not_have_are_refused),
        cmocka_unit_test(classes_image_and_channels_change_what_they_name),
        cmocka_unit_test(dropout_is_the_standard_the_given_rate_or_none),
        cmocka_unit_test(dropout_is_refused_where_there_is_none),
        cmocka_unit_test(image_sizes_that_no_pooling_can_serve_are_refused_with_those_that_can),
        cmocka_unit_test(images_may_be_of_any_two_sides),
        cmocka_unit_test(parameters_do_not_depend_on_an_image_that_fits),
        cmocka_unit_test(options_out_of_range_are_refused),
        cmocka_unit_test(a_failed_allocation_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
