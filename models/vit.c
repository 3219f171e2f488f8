/* Vision transformers, Dosovitskiy et al. 2021, in timm's names and sizes: patches of 16x16 pixels,
 * blocks with normalisation before each part. Ours averages over the patches before the classifier
 * (timm's global_pool = avg) and has no class token. */
#include "layers/elementwise/activations.h"
#include "layers/sequence/attention.h"
#include "layers/norm/layernorm.h"
#include "models/model.h"
#include "models/net.h"

enum { PATCH = 16 };

static const dt_layernorm norm = {.eps = 1e-6};

static int32_t linear(dti_net *n, int32_t x, int i, int64_t out, const char *name)
{
    const dt_linear o = {.out = out, .bias = true, .sigma = 0.02};
    return dti_add_linear(n, x, &o, "blocks.%d.%s", i, name);
}

static int32_t block(dti_net *n, int32_t x, int i)
{
    const int64_t width = n->opts.width;
    const dt_attention a = {.heads = n->opts.heads, .kind = n->opts.attention};
    const dt_gelu g = {.approximate = DT_GELU_EXACT};
    int32_t y = dti_layer(n, &dt_layer_layernorm, &norm, &x, 1, "blocks.%d.norm1", i);
    y = linear(n, y, i, 3 * width, "attn.qkv");
    y = dti_layer(n, &dt_layer_attention, &a, &y, 1, "blocks.%d.attn", i);
    y = linear(n, y, i, width, "attn.proj");
    y = dti_add_dropout(n, y, "blocks.%d.attn.proj_drop", i);
    x = dti_add_sum(n, x, y, "blocks.%d.add1", i);
    y = dti_layer(n, &dt_layer_layernorm, &norm, &x, 1, "blocks.%d.norm2", i);
    y = linear(n, y, i, 4 * width, "mlp.fc1");
    y = dti_layer(n, &dt_layer_gelu, &g, &y, 1, "blocks.%d.mlp.act", i);
    y = linear(n, y, i, width, "mlp.fc2");
    y = dti_add_dropout(n, y, "blocks.%d.mlp.drop", i);
    return dti_add_sum(n, x, y, "blocks.%d.add2", i);
}

static int32_t vit_layers(const dt_model_desc *m, dti_net *n)
{
    (void)m;
    const dti_conv patches = {n->opts.width, PATCH, PATCH, 0, true};
    const dt_position positions = {.sigma = 0.02};
    dti_check_image(n, PATCH);
    int32_t x = dti_add_conv(n, DT_GRAPH_INPUT, patches, "patch_embed.proj");
    x = dti_layer(n, &dt_layer_position, &positions, &x, 1, "pos_embed");
    for (int i = 0; i < (int)n->opts.layers; i++)
        x = block(n, x, i);
    x = dti_add_global_avgpool(n, x);
    x = dti_layer(n, &dt_layer_layernorm, &norm, &x, 1, "fc_norm");
    return dti_add_fc(n, x, n->opts.classes, "head");
}

const dt_model_desc dt_model_vit_small = {
    .name = "vit_small",
    .summary = "vision transformer, 12 layers of 384 channels, patches of 16x16",
    .input = {1, 224, 224, 3},
    .classes = 1000,
    .dropout = 0,
    .blocks = 12,
    .heads = 6,
    .width = 384,
    .layers = vit_layers,
};
