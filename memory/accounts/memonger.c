/* The sum of memonger (dmlc/mxnet-memonger, the release of Chen and others, 2016): of the outputs
 * of layers, each with a place of its own, bytes of those that are kept and of the largest stretch
 * between two of them. The marked stages are a residual network's sums, as in the release's
 * example; the threshold is the one of those that the release tries whose sum is the least. Where
 * gradients live is left out, as there. */
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/accounts/account.h"
#include "memory/policies/memonger_search.h"

static const dt_account_figure figures[] = {
    {"kept_all", "GiB", "outputs of all layers"},
    {"sum", "GiB", "of what is kept and the largest stretch between"},
};

/* Outputs of n layers. */
typedef struct outputs {
    size_t n;
    uint64_t *bytes;
    int32_t *stage;
    bool *keep;
} outputs;

static dt_status try_threshold(
    void *ctx, uint64_t mib, uint64_t *cost, dti_memonger_sums *s, dt_err *err)
{
    const outputs *o = ctx;
    (void)err;
    *s = dti_memonger_plan(o->bytes, o->stage, o->n, mib << 20, o->keep);
    *cost = s->kept + s->largest;
    return DT_OK;
}

/* False where the network has no sum. */
static bool list(outputs *o, const dt_graph *g, int64_t batch, double *all)
{
    bool sums = false;
    *all = 0;
    for (size_t i = 0; i < g->n_node; i++) {
        const dt_node *nd = &g->node[i];
        if (nd->desc->identity || nd->desc->loss)
            continue;
        const bool sum = strcmp(nd->desc->name, "add") == 0;
        o->bytes[o->n] = (uint64_t)(dt_shape_sample(&nd->info.y) * batch) * sizeof(float);
        o->stage[o->n] = sum ? DTI_STAGE_ALONE : DTI_STAGE_NONE;
        *all += (double)o->bytes[o->n++];
        sums = sums || sum;
    }
    return sums;
}

static dt_status search(outputs *o, const dt_graph *g, int64_t batch, double *value, dt_err *err)
{
    dti_memonger_found found;
    double all;
    if (!list(o, g, batch, &all))
        return DT_FAIL(err, DT_E_CONFIG,
            "%s has no sums, which are the stages of memonger's example; take a residual network "
            "with [model] fuse = off",
            g->name);
    DT_CHECK(dti_memonger_search(try_threshold, o, &found, err));
    value[0] = all / (1 << 30);
    value[1] = (double)found.cost / (1 << 30);
    return DT_OK;
}

static dt_status count(const dt_graph *g, const dt_account_ask *ask, double *value, dt_err *err)
{
    outputs o = {.bytes = dt_alloc(g->n_node + 1, sizeof *o.bytes),
        .stage = dt_alloc(g->n_node + 1, sizeof *o.stage),
        .keep = dt_alloc(g->n_node + 1, sizeof *o.keep)};
    const bool there = o.bytes != NULL && o.stage != NULL && o.keep != NULL;
    const dt_status st = there
                             ? search(&o, g, ask->batch, value, err)
                             : DT_FAIL(err, DT_E_NOMEM, "no memory to count %zu layers", g->n_node);
    dt_free(o.bytes);
    dt_free(o.stage);
    dt_free(o.keep);
    return st;
}

const dt_account_desc dt_account_memonger = {
    .name = "memonger",
    .summary = "what is kept and the largest stretch between, by memonger's sum (2016)",
    .n = DT_COUNT(figures),
    .figure = figures,
    .count = count,
};
