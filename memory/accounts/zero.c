/* ZeRO's count (Rajbhandari and others, SC 2020, section 3.2) of what a transformer keeps of
 * forward for backward: 12 values of 16 bits of each token, channel and layer, whatever a layer's
 * kernels keep in fact. An attention stands for a layer. */
#include <string.h>

#include "memory/accounts/account.h"

enum { VALUE = 2, VALUES = 12 }; /* bytes; of a token and channel */

static const dt_account_figure figures[] = {
    {"activations", "GB", "kept for backward by the layers of a transformer"},
};

static dt_status count(const dt_graph *g, const dt_account_ask *ask, double *value, dt_err *err)
{
    double inputs = 0; /* of layers, of a sample */
    for (size_t i = 0; i < g->n_node; i++)
        if (strcmp(g->node[i].desc->name, "attention") == 0)
            inputs += (double)dt_shape_sample(&g->node[i].info.y);
    if (inputs <= 0)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s has no attention, and ZeRO's count is of transformers (gpt2, bert_base, vit_small)",
            g->name);
    value[0] = VALUE * VALUES * inputs * (double)ask->batch / 1e9;
    return DT_OK;
}

const dt_account_desc dt_account_zero = {
    .name = "zero",
    .summary = "what a transformer keeps, by ZeRO's formula (2020)",
    .n = DT_COUNT(figures),
    .figure = figures,
    .count = count,
};
