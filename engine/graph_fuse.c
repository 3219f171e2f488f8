/* Fusion: a layer and the ReLU behind it become one node. */
#include "engine/graph_fuse.h"

#include <string.h>

#include "engine/base/alloc.h"
#include "engine/graph_share.h"

/* By node of the old graph. */
typedef struct fuser {
    const dt_graph *from;
    dt_graph *to;
    int32_t *reader;  /* the last that reads its value */
    int32_t *readers; /* how often it is read */
    int32_t *now;     /* the new node that makes its value */
} fuser;

static void count_readers(const fuser *f)
{
    for (size_t i = 0; i < f->from->n_node; i++)
        for (int k = 0; k < f->from->node[i].n_in; k++)
            if (f->from->node[i].in[k] != DT_GRAPH_INPUT) {
                f->reader[f->from->node[i].in[k]] = (int32_t)i;
                f->readers[f->from->node[i].in[k]]++;
            }
}

static bool fuses(const fuser *f, int32_t node)
{
    const dt_layer_desc *desc = f->from->node[node].desc;
    return desc->fuse.as != NULL && f->readers[node] == 1 &&
           f->from->node[f->reader[node]].desc == desc->fuse.next &&
           f->from->node[f->reader[node]].n_in == 1;
}

static dt_status add_node(const fuser *f, int32_t i, dt_err *err)
{
    const dt_node *nd = &f->from->node[i];
    if (nd->n_in == 1 && nd->in[0] != DT_GRAPH_INPUT && fuses(f, nd->in[0])) {
        f->now[i] = f->now[nd->in[0]];
        return DT_OK;
    }
    int32_t in[DT_MAX_IN];
    for (int k = 0; k < nd->n_in; k++)
        in[k] = nd->in[k] == DT_GRAPH_INPUT ? DT_GRAPH_INPUT : f->now[nd->in[k]];
    const dt_layer_desc *desc = fuses(f, i) ? nd->desc->fuse.as : nd->desc;
    DT_ASSERT(desc->opts_bytes == nd->desc->opts_bytes);
    DT_CHECK(dt_graph_add(f->to, desc, nd->name, nd->opts, in, nd->n_in, &f->now[i], err));
    dt_node *made = &f->to->node[f->now[i]];
    made->key = nd->key;
    made->part = nd->part;
    if (fuses(f, i))
        memcpy(made->with, f->from->node[f->reader[i]].name, sizeof made->with);
    if (nd->shares == DT_SHARES_NONE)
        return DT_OK;
    return dt_graph_share(f->to, f->now[i], f->now[nd->shares], err);
}

static dt_status add_nodes(fuser *f, dt_err *err)
{
    const size_t n = f->from->n_node;
    f->reader = dt_alloc(n, sizeof *f->reader);
    f->readers = dt_alloc(n, sizeof *f->readers);
    f->now = dt_alloc(n, sizeof *f->now);
    if (f->reader == NULL || f->readers == NULL || f->now == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "network '%s': no memory to fuse layers", f->from->name);
    count_readers(f);
    for (size_t i = 0; i < n; i++)
        DT_CHECK(add_node(f, (int32_t)i, err));
    return DT_OK;
}

dt_status dt_graph_fuse(dt_graph **out, const dt_graph *g, dt_err *err)
{
    fuser f = {.from = g};
    *out = NULL;
    DT_CHECK(dt_graph_create(&f.to, g->name, g->input, g->classes, err));
    f.to->dtype = g->dtype;
    const dt_status st = add_nodes(&f, err);
    dt_free(f.reader);
    dt_free(f.readers);
    dt_free(f.now);
    if (st == DT_OK)
        *out = f.to;
    else
        dt_graph_destroy(f.to);
    return st;
}
