/* A language model of LSTMs with additive attention over what they have read: embedding, layers of
 * LSTM, attention (Bahdanau, Cho and Bengio, 2015), whose context goes into the output beside the
 * state as in Luong, Pham and Manning, Effective Approaches to Attention-based Neural Machine
 * Translation, EMNLP 2015, section 3: tanh(W [context, state]). The output head is the embedding,
 * transposed.
 *
 * Queries and keys are the states of one sequence, of which a position sees itself and those before
 * it, as it is to tell what comes next. */
#include "layers/elementwise/activations.h"
#include "layers/sequence/additive_attention.h"
#include "layers/shape/concat.h"
#include "layers/sequence/lstm.h"
#include "models/model.h"
#include "models/net.h"

static int32_t lstm_attention_layers(const dt_model_desc *m, dti_net *n)
{
    (void)m;
    const int64_t width = n->opts.width;
    const dt_embedding tokens = {.vocab = n->opts.vocab, .out = width, .sigma = 0.1};
    const dt_lstm lstm = {.out = width, .bias = true};
    const dt_additive_attention attention = {
        .hidden = width, .causal = true, .kind = n->opts.attention};
    const dt_linear combine = {.out = width, .bias = true}, head = {.out = n->opts.vocab};
    int32_t embedding, x = dti_add_tokens(n, &tokens, &embedding, "embedding");
    x = dti_add_dropout(n, x, "dropout");
    for (int i = 0; i < (int)n->opts.layers; i++) {
        x = dti_layer(n, &dt_layer_lstm, &lstm, &x, 1, "lstm.%d", i);
        x = dti_add_dropout(n, x, "lstm.%d.dropout", i);
    }
    const int32_t both[] = {x, x};
    const int32_t context =
        dti_layer(n, &dt_layer_additive_attention, &attention, both, 2, "attention");
    const int32_t parts[] = {context, x};
    x = dti_layer(n, &dt_layer_concat, NULL, parts, 2, "concat");
    x = dti_add_linear(n, x, &combine, "combine");
    x = dti_layer(n, &dt_layer_tanh, NULL, &x, 1, "combine.tanh");
    x = dti_add_dropout(n, x, "combine.dropout");
    return dti_add_head(n, x, &head, embedding, "head");
}

const dt_model_desc dt_model_lstm_attention = {
    .name = "lstm_attention",
    .summary = "2 LSTMs of 256 channels with causal additive attention, tied output head; any size "
               "on request",
    .input = {1, 128, 1, 1},
    .classes = 65,
    .dropout = 0,
    .tokens = true,
    .blocks = 2,
    .width = 256,
    .layers = lstm_attention_layers,
};
