/* Learning rates by layer: "discriminative fine-tuning" (Howard and Ruder, "Universal Language
 * Model Fine-tuning for Text Classification", ACL 2018, section 3.2), with rates of one's own. */
#include "engine/graph_rates.h"

#include <string.h>

#include "engine/base/numbers_text.h"
#include "engine/base/text.h"
#include "engine/graph_names.h"

/* What one item of the list says: "layer1.*" and 0.1. */
typedef struct rate {
    char glob[DT_GLOB_BYTES];
    double times;
} rate;

static dt_status read_rate(rate *r, dt_err *err)
{
    char *colon = strrchr(r->glob, ':');
    double times;
    if (colon == NULL || !dt_parse_f64(colon + 1 + strspn(colon + 1, " "), &times) ||
        !(times >= 1e-6) || !(times <= 1e6))
        return DT_FAIL(err, DT_E_CONFIG,
            "'%.100s': write a layer, a colon and what its rate is multiplied by, from 1e-6 to "
            "1e6, as in fc:10%s",
            r->glob, colon != NULL ? "; train.freeze keeps layers as they are" : "");
    while (colon > r->glob && colon[-1] == ' ')
        colon--;
    *colon = '\0';
    r->times = times;
    return DT_OK;
}

static bool has_parameters(const dt_node *nd)
{
    for (int k = 0; k < nd->info.n_param; k++)
        if (!nd->info.param[k].buffer)
            return true;
    return false;
}

/* Why none of the layers that a glob means learns. */
static dt_status nothing_learns(const dt_graph *g, const char *glob, int32_t last, dt_err *err)
{
    char text[DT_NO_LAYER_BYTES];
    if (last < 0)
        return DT_FAIL(
            err, DT_E_CONFIG, "%s", dt_no_layer(g, glob, dt_nearest_layer(g, glob), text));
    const int32_t owner = dti_graph_owner(g, last);
    if (owner != last)
        return DT_FAIL(err, DT_E_CONFIG, "layer '%s' has the weight of '%s'; name that",
            g->node[last].name, g->node[owner].name);
    return DT_FAIL(err, DT_E_CONFIG, "'%s' matches no layer that has parameters", glob);
}

static dt_status set_rate(dt_graph *g, const rate *r, dt_err *err)
{
    bool any = false;
    int32_t last = -1; /* that is meant */
    for (size_t i = 0; i < g->n_node; i++) {
        dt_node *nd = &g->node[i];
        if (!dt_layer_meant(r->glob, nd))
            continue;
        last = (int32_t)i;
        if (has_parameters(nd) && dt_glob(r->glob, nd->name)) {
            nd->rate = (float)r->times;
            any = true;
        }
    }
    return any ? DT_OK : nothing_learns(g, r->glob, last, err);
}

dt_status dt_graph_rates(dt_graph *g, const char *rates, dt_err *err)
{
    rate r;
    for (const char *at = rates; *at != '\0';) {
        at = dt_next_glob(at, r.glob, sizeof r.glob);
        if (r.glob[0] == '\0')
            continue;
        DT_CHECK(read_rate(&r, err));
        DT_CHECK(set_rate(g, &r, err));
    }
    return DT_OK;
}
