/* Learning rates by layer: "discriminative fine-tuning" (Howard and Ruder, "Universal Language
 * Model Fine-tuning for Text Classification", ACL 2018, section 3.2), with rates of one's own. */
#include "engine/graph_rates.h"

#include <string.h>

#include "engine/base/text.h"
#include "engine/graph_names.h"

enum { RATE_BYTES = 64 };

/* What one item of the list says: "layer1.*", of so many bytes, and 0.1. */
typedef struct rate {
    const char *glob;
    size_t n;
    double times;
} rate;

/* "layer1.*: 0.1", of @n bytes. */
static dt_status read_rate(rate *r, const char *item, size_t n, dt_err *err)
{
    char text[RATE_BYTES] = "";
    size_t colon = n;
    while (colon > 0 && item[colon - 1] != ':')
        colon--;
    const char *rest = item + colon + strspn(item + colon, " ");
    const size_t bytes = (size_t)(item + n - rest);
    if (colon > 0 && bytes < sizeof text)
        memcpy(text, rest, bytes);
    if (!dt_parse_f64(text, &r->times) || !(r->times >= 1e-6) || !(r->times <= 1e6))
        return DT_FAIL(err, DT_E_CONFIG,
            "'%.*s': write a layer, a colon and what its rate is multiplied by, from 1e-6 to "
            "1e6, as in fc:10%s",
            n < 100 ? (int)n : 100, item,
            colon > 0 ? "; train.freeze keeps layers as they are" : "");
    r->glob = item;
    r->n = colon - 1;
    while (r->n > 0 && item[r->n - 1] == ' ')
        r->n--;
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
static dt_status nothing_learns(const dt_graph *g, const rate *r, int32_t last, dt_err *err)
{
    char text[DT_NO_LAYER_BYTES];
    if (last < 0)
        return DT_FAIL(err, DT_E_CONFIG, "%s", dt_no_layer_of(g, r->glob, r->n, text));
    const int32_t owner = dti_graph_owner(g, last);
    if (owner != last)
        return DT_FAIL(err, DT_E_CONFIG, "layer '%s' has the weight of '%s'; name that",
            g->node[last].name, g->node[owner].name);
    if (has_parameters(&g->node[last])) /* and is frozen */
        return DT_FAIL(err, DT_E_CONFIG,
            "layer '%s' stays as it is, by train.freeze, and has no rate; take it out of one of "
            "the two",
            g->node[last].name);
    return DT_FAIL(
        err, DT_E_CONFIG, "'%.*s' matches no layer that has parameters", (int)r->n, r->glob);
}

static dt_status set_rate(dt_graph *g, const rate *r, dt_err *err)
{
    bool any = false;
    int32_t last = -1, frozen = -1; /* that is meant; and has parameters that stay as they are */
    for (size_t i = 0; i < g->n_node; i++) {
        dt_node *nd = &g->node[i];
        if (!dt_layer_meant(r->glob, r->n, nd))
            continue;
        last = (int32_t)i;
        if (!has_parameters(nd) || !dti_glob_n(r->glob, r->n, nd->name))
            continue;
        if (nd->frozen) {
            frozen = (int32_t)i;
            continue;
        }
        nd->rate = (float)r->times;
        any = true;
    }
    return any ? DT_OK : nothing_learns(g, r, frozen >= 0 ? frozen : last, err);
}

dt_status dt_graph_rates(dt_graph *g, const char *rates, dt_err *err)
{
    rate r;
    size_t n;
    for (const char *item; (item = dt_next_glob(&rates, &n)) != NULL;) {
        DT_CHECK(read_rate(&r, item, n, err));
        DT_CHECK(set_rate(g, &r, err));
    }
    return DT_OK;
}
