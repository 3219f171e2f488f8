/* GPT-2, Radford et al. 2019: a decoder with normalisation before each part, learned positions and
 * an output head that is the embedding of tokens, transposed. Names and layouts are those of
 * Hugging Face's GPT2Model, "h.0.attn.c_attn.weight", whose weights are [in, out]. Its output head
 * has no weight of its own and no name in files. */
#include "layers/elementwise/activations.h"
#include "layers/sequence/attention.h"
#include "layers/norm/layernorm.h"
#include "models/model.h"
#include "models/net.h"

#include <math.h>

static const double sigma = 0.02;

static int32_t norm(dti_net *n, int32_t x, const char *name)
{
    const dt_layernorm o = {.eps = 1e-5};
    return dti_layer(n, &dt_layer_layernorm, &o, &x, 1, "%s", name);
}

static int32_t block_norm(dti_net *n, int32_t x, int i, const char *name)
{
    const dt_layernorm o = {.eps = 1e-5};
    return dti_layer(n, &dt_layer_layernorm, &o, &x, 1, "h.%d.%s", i, name);
}

/* The two layers of a block that write to the residual stream start smaller, so that its size does
 * not depend on the number of blocks. */
static int32_t linear(dti_net *n, int32_t x, int i, int64_t out, bool to_residual, const char *name)
{
    const double scale = to_residual ? 1 / sqrt(2 * (double)n->opts.layers) : 1;
    const dt_linear o = {.out = out, .bias = true, .in_out = true, .sigma = sigma * scale};
    return dti_add_linear(n, x, &o, "h.%d.%s", i, name);
}

static int32_t block_dropout(dti_net *n, int32_t x, int i, const char *name)
{
    return dti_add_dropout(n, x, "h.%d.%s", i, name);
}

static int32_t block(dti_net *n, int32_t x, int i)
{
    const int64_t width = n->opts.width;
    const dt_attention a = {.heads = n->opts.heads, .causal = true, .kind = n->opts.attention};
    const dt_gelu g = {.approximate = DT_GELU_TANH};
    int32_t y = block_norm(n, x, i, "ln_1");
    y = linear(n, y, i, 3 * width, false, "attn.c_attn");
    y = dti_layer(n, &dt_layer_attention, &a, &y, 1, "h.%d.attn", i);
    y = linear(n, y, i, width, true, "attn.c_proj");
    y = block_dropout(n, y, i, "attn.resid_dropout");
    x = dti_add_sum(n, x, y, "h.%d.add_1", i);
    y = block_norm(n, x, i, "ln_2");
    y = linear(n, y, i, 4 * width, false, "mlp.c_fc");
    y = dti_layer(n, &dt_layer_gelu, &g, &y, 1, "h.%d.mlp.act", i);
    y = linear(n, y, i, width, true, "mlp.c_proj");
    y = block_dropout(n, y, i, "mlp.dropout");
    return dti_add_sum(n, x, y, "h.%d.add_2", i);
}

static int32_t gpt2_layers(const dt_model_desc *m, dti_net *n)
{
    (void)m;
    const dt_embedding tokens = {.vocab = n->opts.vocab, .out = n->opts.width, .sigma = sigma};
    const dt_position positions = {.sigma = sigma};
    const dt_linear head = {.out = n->opts.vocab};
    int32_t wte, x = dti_add_tokens(n, &tokens, &wte, "wte");
    x = dti_layer(n, &dt_layer_position, &positions, &x, 1, "wpe");
    x = dti_add_dropout(n, x, "drop");
    for (int i = 0; i < (int)n->opts.layers; i++)
        x = block(n, x, i);
    return dti_add_head(n, norm(n, x, "ln_f"), &head, wte, "lm_head");
}

const dt_model_desc dt_model_gpt2 = {
    .name = "gpt2",
    .summary = "GPT-2, 12 layers of 768 channels, tied output head; smaller on request",
    .input = {1, 1024, 1, 1},
    .classes = 50257,
    .dropout = 0,
    .tokens = true,
    .blocks = 12,
    .heads = 12,
    .width = 768,
    .layers = gpt2_layers,
};
