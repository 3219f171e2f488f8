/* BERT, Devlin et al. 2019: an encoder with normalisation behind each part and learned positions,
 * and the head that tells masked words. Names are those of Hugging Face's BertForMaskedLM below
 * "bert.", "encoder.layer.0.attention.self.query.weight". Sequences are one segment each, so there
 * is no embedding of segments: its row would be added to every position. The output head is the
 * embedding of tokens, transposed, and has no bias. Every position has a label. Probabilities of
 * attention are not dropped. */
#include "layers/elementwise/activations.h"
#include "layers/sequence/attention.h"
#include "layers/shape/concat.h"
#include "layers/norm/layernorm.h"
#include "models/model.h"
#include "models/net.h"

static const double sigma = 0.02;
static const dt_layernorm norm = {.eps = 1e-12};
static const dt_gelu gelu = {.approximate = DT_GELU_EXACT};

static int32_t linear(dti_net *n, int32_t x, int i, int64_t out, const char *name)
{
    const dt_linear o = {.out = out, .bias = true, .sigma = sigma};
    return dti_add_linear(n, x, &o, "encoder.layer.%d.%s", i, name);
}

/* A part's end: projected, dropped, added to what the part began with, normalised. */
static int32_t output(dti_net *n, int32_t x, int32_t y, int i, const char *part)
{
    const dt_linear o = {.out = n->opts.width, .bias = true, .sigma = sigma};
    y = dti_add_linear(n, y, &o, "encoder.layer.%d.%s.dense", i, part);
    y = dti_add_dropout(n, y, "encoder.layer.%d.%s.dropout", i, part);
    y = dti_add_sum(n, x, y, "encoder.layer.%d.%s.add", i, part);
    return dti_layer(
        n, &dt_layer_layernorm, &norm, &y, 1, "encoder.layer.%d.%s.LayerNorm", i, part);
}

static int32_t block(dti_net *n, int32_t x, int i)
{
    const int64_t width = n->opts.width;
    const dt_attention a = {.heads = n->opts.heads, .kind = n->opts.attention};
    const int32_t three[] = {linear(n, x, i, width, "attention.self.query"),
        linear(n, x, i, width, "attention.self.key"),
        linear(n, x, i, width, "attention.self.value")};
    int32_t y =
        dti_layer(n, &dt_layer_concat, NULL, three, 3, "encoder.layer.%d.attention.self.concat", i);
    y = dti_layer(n, &dt_layer_attention, &a, &y, 1, "encoder.layer.%d.attention.self", i);
    x = output(n, x, y, i, "attention.output");
    y = linear(n, x, i, 4 * width, "intermediate.dense");
    y = dti_layer(n, &dt_layer_gelu, &gelu, &y, 1, "encoder.layer.%d.intermediate.act", i);
    return output(n, x, y, i, "output");
}

static int32_t bert_layers(const dt_model_desc *m, dti_net *n)
{
    const dt_embedding tokens = {.vocab = n->opts.vocab, .out = n->opts.width, .sigma = sigma};
    const dt_position positions = {.sigma = sigma};
    const dt_linear transform = {.out = n->opts.width, .bias = true, .sigma = sigma};
    const dt_linear head = {.out = n->opts.vocab};
    (void)m;
    int32_t words, x = dti_add_tokens(n, &tokens, &words, "embeddings.word_embeddings");
    x = dti_layer(n, &dt_layer_position, &positions, &x, 1, "embeddings.position_embeddings");
    x = dti_layer(n, &dt_layer_layernorm, &norm, &x, 1, "embeddings.LayerNorm");
    x = dti_add_dropout(n, x, "embeddings.dropout");
    for (int i = 0; i < (int)n->opts.layers; i++)
        x = block(n, x, i);
    x = dti_add_linear(n, x, &transform, "cls.predictions.transform.dense");
    x = dti_layer(n, &dt_layer_gelu, &gelu, &x, 1, "cls.predictions.transform.act");
    x = dti_layer(n, &dt_layer_layernorm, &norm, &x, 1, "cls.predictions.transform.LayerNorm");
    return dti_add_head(n, x, &head, words, "cls.predictions.decoder");
}

const dt_model_desc dt_model_bert_base = {
    .name = "bert_base",
    .summary = "BERT with the head for masked words, 12 layers of 768 channels",
    .input = {1, 512, 1, 1},
    .classes = 30522,
    .dropout = 0.1,
    .tokens = true,
    .blocks = 12,
    .heads = 12,
    .width = 768,
    .layers = bert_layers,
};
