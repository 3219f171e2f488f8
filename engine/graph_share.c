/* Whether a layer may have the weight of another. */
#include "engine/graph_share.h"

#include <inttypes.h>

#include "engine/kernels.h"

static bool same_param(const dt_param_info *a, const dt_param_info *b)
{
    bool same = a->rank == b->rank;
    for (int i = 0; i < a->rank && same; i++)
        same = a->d[i] == b->d[i];
    return same;
}

/* Kernels that give a parameter a layout of their own cannot lend it. */
static bool lends(const dt_node *owner)
{
    const dt_kernels *k = owner->desc->cpu;
    return owner->info.n_param > 0 && !owner->info.param[0].buffer &&
           (k == NULL || k->param_bytes == NULL);
}

dt_status dt_graph_share(dt_graph *g, int32_t node, int32_t owner, dt_err *err)
{
    DT_ASSERT(owner >= 0 && owner < node && node < (int32_t)g->n_node);
    dt_node *to = &g->node[node];
    const dt_node *from = &g->node[owner];
    if (!to->desc->may_share || to->info.n_param != 1 || !lends(from))
        return DT_FAIL(err, DT_E_CONFIG,
            "layer '%s' (%s) cannot share the weight of '%s' (%s); a layer that shares has one "
            "parameter, such as linear with bias = off, and takes it from an embedding",
            to->name, to->desc->name, from->name, from->desc->name);
    if (!same_param(&to->info.param[0], &from->info.param[0]))
        return DT_FAIL(err, DT_E_CONFIG,
            "layer '%s' wants a weight of %" PRId64 " values, but the one of '%s', which it is to "
            "share, has %" PRId64 " or another shape",
            to->name, dt_param_count(&to->info.param[0]), from->name,
            dt_param_count(&from->info.param[0]));
    to->shares = owner;
    to->info.n_param = 0;
    return DT_OK;
}
