/* The count of Korthikanti and others (Reducing Activation Recomputation in Large Transformer
 * Models, MLSys 2023, section 4): what Megatron-LM's transformer keeps of forward for backward, in
 * values of 16 bits and masks of one byte. A linear layer, a norm and a GELU keep what they read; a
 * dropout keeps its mask; attention keeps q, k and v and, of every score, a probability, a mask and
 * the probability behind the mask, 5 bytes. Sums keep nothing. That makes s b h (34 + 5 a s / h) of
 * a layer (equation 2), with s positions, b samples, h channels and a heads.
 *
 * Selective recomputation makes what there is of every score again (equation 6: 34 s b h of a
 * layer); full recomputation keeps what each layer reads (2 s b h). Embeddings and the scores of
 * words are left out, as there: the figures are of all layers with the last norm, so one layer is
 * the difference of two networks. */
#include <string.h>

#include "memory/accounts/account.h"

enum { VALUE = 2, MASK = 1, SCORE = 2 * VALUE + MASK }; /* bytes */
enum { ALL, SELECTIVE, FULL };

static const dt_account_figure figures[] = {
    [ALL] = {"all", "MiB", "kept for backward by the layers of a transformer"},
    [SELECTIVE] = {"selective", "MiB", "where attention makes its probabilities again"},
    [FULL] = {"full", "MiB", "where each layer runs again from what it reads"},
};

/* Bytes of a sample: what a node keeps, and what of that there is of every score; and the width of
 * a layer's input, which each attention stands for. */
typedef struct kept {
    double values, scores, input;
} kept;

/* By its option of that name: accounts know layers by what the INI file calls them. */
static double heads_of(const dt_node *nd)
{
    int64_t heads = 1;
    for (const dt_opt *o = nd->desc->opts; o->key != NULL; o++)
        if (strcmp(o->key, "heads") == 0)
            memcpy(&heads, (const char *)nd->opts + o->at, sizeof heads);
    return (double)heads;
}

static kept of_attention(const dt_node *nd, dt_shape x)
{
    const double positions = (double)(x.h * x.w);
    return (kept){.values = VALUE * (double)dt_shape_sample(&x),
        .scores = SCORE * heads_of(nd) * positions * positions,
        .input = VALUE * (double)dt_shape_sample(&nd->info.y)};
}

static kept of_node(const dt_graph *g, const dt_node *nd)
{
    static const char *const keeps_input[] = {"linear", "layernorm", "gelu"};
    const dt_shape x = dt_graph_shape(g, nd->in[0]);
    if (strcmp(nd->desc->name, "attention") == 0)
        return of_attention(nd, x);
    if (strcmp(nd->desc->name, "dropout") == 0)
        return (kept){.values = MASK * (double)dt_shape_sample(&x)};
    for (size_t i = 0; i < DT_COUNT(keeps_input); i++)
        if (strcmp(nd->desc->name, keeps_input[i]) == 0)
            return (kept){.values = VALUE * (double)dt_shape_sample(&x)};
    return (kept){0};
}

static dt_status count(const dt_graph *g, const dt_account_ask *ask, double *value, dt_err *err)
{
    const double batch = (double)ask->batch, mib = 1 << 20;
    kept sum = {0};
    for (size_t i = 0; i < g->n_node; i++) {
        if (g->node[i].with[0] != '\0')
            return dti_account_fused(&g->node[i], err);
        const kept k = of_node(g, &g->node[i]);
        sum.values += k.values;
        sum.scores += k.scores;
        sum.input += k.input;
    }
    if (sum.input <= 0)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s has no attention, and this count is of transformers (gpt2, bert_base, vit_small)",
            g->name);
    value[ALL] = batch * (sum.values + sum.scores) / mib;
    value[SELECTIVE] = batch * sum.values / mib;
    value[FULL] = batch * sum.input / mib;
    return DT_OK;
}

const dt_account_desc dt_account_korthikanti = {
    .name = "korthikanti",
    .summary = "what Megatron-LM's transformer keeps, by the paper's sums (Korthikanti, 2023)",
    .n = DT_COUNT(figures),
    .figure = figures,
    .count = count,
};
