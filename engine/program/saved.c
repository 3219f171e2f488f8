/* What a node's backward keeps of forward's values where it may choose: a value, or a bit for each.
 */
#include "engine/program/saved.h"

#include "engine/base/alloc.h"

static const dt_ports inputs = DT_BITS(DT_X, DT_MAX_IN);

int dt_value_free(const dt_layer_desc *d)
{
    for (int i = 0; i < d->n_alt; i++)
        if ((d->alt[i].reads & (inputs | DT_BIT(DT_Y))) == 0 && d->alt[i].reads != 0)
            return i;
    return -1;
}

int dt_sign_free(const dt_layer_desc *d)
{
    return d->masked > 0 ? d->masked : dt_value_free(d);
}

void dti_find_signs(const dt_graph *g, int32_t *sign)
{
    const int32_t none = -1, several = -2;
    for (size_t i = 0; i < g->n_node; i++) {
        sign[i] = none;
        for (int k = 0; k < g->node[i].n_in; k++) {
            const int32_t x = g->node[i].in[k];
            if (x != DT_GRAPH_INPUT)
                sign[x] = sign[x] == none ? (int32_t)i : several;
        }
    }
    for (size_t i = 0; i < g->n_node; i++) {
        const bool behind = sign[i] >= 0 && g->node[sign[i]].desc->keeps_sign;
        sign[i] = g->node[i].desc->reads_sign && behind ? sign[i] : (int32_t)i;
    }
}

/* By node: whether another one's value holds its own as well, and whether the backward of another
 * one reads its own. */
static void find_readers(const dt_graph *g, bool *copied, bool *saved)
{
    for (size_t i = 0; i < g->n_node; i++) {
        const dt_layer_desc *d = g->node[i].desc;
        for (int k = 0; k < g->node[i].n_in; k++) {
            const int32_t x = dt_graph_behind(g, g->node[i].in[k]);
            if (x == DT_GRAPH_INPUT)
                continue;
            copied[x] = copied[x] || d->holds_inputs;
            saved[x] = saved[x] || (d->n_alt > 0 && (d->alt[0].reads & inputs) != 0);
        }
    }
}

dt_status dti_choose_masks(const dt_graph *g, const int32_t *sign, uint8_t *alt, dt_err *err)
{
    bool *copied = dt_alloc(g->n_node, sizeof *copied), *saved = dt_alloc(g->n_node, sizeof *saved);
    const bool room = copied != NULL && saved != NULL;
    if (room)
        find_readers(g, copied, saved);
    for (size_t i = 0; room && i < g->n_node; i++) {
        const dt_layer_desc *d = g->node[i].desc;
        const int mask = dt_value_free(d);
        if (mask > 0 && (d->alt[0].reads & inputs) == 0 && copied[sign[i]] && !saved[sign[i]])
            alt[i] = (uint8_t)mask;
    }
    dt_free(copied);
    dt_free(saved);
    return room ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory for a program");
}
