/* Layers that are not trained: which they are, and whether they can be. */
#include "engine/graph_freeze.h"

#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/text.h"
#include "engine/graph_names.h"

static bool mark(dt_graph *g, const char *glob, size_t n)
{
    bool any = false;
    for (size_t i = 0; i < g->n_node; i++) {
        dt_node *nd = &g->node[i];
        const bool matches = !nd->desc->loss && dti_glob_n(glob, n, nd->name);
        nd->frozen = nd->frozen || matches;
        any = any || (!nd->desc->loss && dt_layer_meant(glob, n, nd));
    }
    return any;
}

/* A layer on the way to @node that is trained, and before which none is. */
static const char *trained_before(const dt_graph *g, const bool *trained, int32_t node)
{
    for (int32_t next = node; next != DT_GRAPH_INPUT;) {
        const dt_node *nd = &g->node[node = next];
        next = DT_GRAPH_INPUT;
        for (int k = 0; k < nd->n_in; k++)
            if (nd->in[k] != DT_GRAPH_INPUT && trained[nd->in[k]])
                next = nd->in[k];
    }
    return g->node[node].name;
}

static dt_status check(const dt_graph *g, const bool *before, const bool *trained, dt_err *err)
{
    bool any = false;
    for (size_t i = 0; i < g->n_node; i++) {
        const dt_node *nd = &g->node[i];
        any = any || trained[i];
        if (nd->frozen && before[i])
            return DT_FAIL(err, DT_E_CONFIG,
                "layer '%s' is behind '%s', which is trained, so that its gradients are needed all "
                "the same; freeze that as well",
                nd->name, trained_before(g, trained, (int32_t)i));
        if (nd->frozen && !dti_graph_kept(g, (int32_t)i))
            return DT_FAIL(err, DT_E_CONFIG,
                "layer '%s' has the weight of '%s', which is trained; freeze that as well",
                nd->name, g->node[dti_graph_owner(g, (int32_t)i)].name);
    }
    return any ? DT_OK : DT_FAIL(err, DT_E_CONFIG, "no layer is left to train");
}

static dt_status mark_all(dt_graph *g, const char *globs, dt_err *err)
{
    char text[DT_NO_LAYER_BYTES];
    size_t n;
    for (const char *glob; (glob = dt_next_glob(&globs, &n)) != NULL;)
        if (!mark(g, glob, n))
            return DT_FAIL(err, DT_E_CONFIG, "%s", dt_no_layer_of(g, glob, n, text));
    return DT_OK;
}

dt_status dt_graph_freeze(dt_graph *g, const char *globs, dt_err *err)
{
    DT_CHECK(mark_all(g, globs, err));
    bool *before = dt_alloc(g->n_node, sizeof *before);
    bool *trained = dt_alloc(g->n_node, sizeof *trained);
    dt_status st = DT_E_NOMEM;
    if (before != NULL && trained != NULL) {
        dti_graph_trained(g, before, trained);
        st = check(g, before, trained, err);
    } else {
        (void)DT_FAIL(err, st, "no memory for marks of %zu layers", g->n_node);
    }
    dt_free(before);
    dt_free(trained);
    return st;
}

/* Whether backward writes a gradient for the values that it reads, or passes its own on. */
static bool gives_gradient(const dt_layer_desc *d)
{
    const dt_ports writes = d->form[DT_BACKWARD].writes | d->form[DT_BACKWARD2].writes;
    return !d->identity && (d->shares_dy || (writes & DT_BIT(DT_DX)) != 0);
}

/* Mark the nodes that a gradient reaches. */
static void mark_taught(const dt_graph *g, const bool *trained, bool *taught)
{
    for (size_t i = 0; i < g->n_node; i++) {
        const dt_node *nd = &g->node[i];
        for (int k = 0; k < nd->n_in && trained[i] && gives_gradient(nd->desc); k++)
            if (dt_graph_behind(g, nd->in[k]) != DT_GRAPH_INPUT)
                taught[dt_graph_behind(g, nd->in[k])] = true;
    }
}

/* One that reads a value and is more than a view of it. */
static int32_t reader_of(const dt_graph *g, int32_t node)
{
    for (size_t i = (size_t)node + 1; i < g->n_node; i++)
        for (int k = 0; k < g->node[i].n_in && !g->node[i].desc->identity; k++)
            if (dt_graph_behind(g, g->node[i].in[k]) == node)
                return (int32_t)i;
    return DT_GRAPH_INPUT;
}

dt_status dt_graph_untaught(const dt_graph *g, int32_t *node, int32_t *reader, dt_err *err)
{
    bool *before = dt_alloc(g->n_node, sizeof *before);
    bool *trained = dt_alloc(g->n_node, sizeof *trained);
    bool *taught = dt_alloc(g->n_node, sizeof *taught);
    dt_status st = DT_OK;
    *node = *reader = DT_GRAPH_INPUT;
    if (before == NULL || trained == NULL || taught == NULL) {
        st = DT_FAIL(err, DT_E_NOMEM, "no memory for marks of %zu layers", g->n_node);
    } else {
        dti_graph_trained(g, before, trained);
        mark_taught(g, trained, taught);
        for (size_t i = 0; i < g->n_node && *node == DT_GRAPH_INPUT; i++)
            if (trained[i] && !taught[i] && !g->node[i].desc->identity && !g->node[i].desc->loss)
                *node = (int32_t)i;
        if (*node != DT_GRAPH_INPUT)
            *reader = reader_of(g, *node);
    }
    dt_free(before);
    dt_free(trained);
    dt_free(taught);
    return st;
}

int64_t dt_graph_frozen(const dt_graph *g)
{
    int64_t n = 0;
    for (size_t i = 0; i < g->n_node; i++)
        for (int k = 0; g->node[i].frozen && k < g->node[i].info.n_param; k++)
            if (!g->node[i].info.param[k].buffer)
                n += dt_param_count(&g->node[i].info.param[k]);
    return n;
}
