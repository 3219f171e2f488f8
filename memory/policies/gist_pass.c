/* Gist (Jain et al., ISCA 2018, section IV and table I): what backward reads of an activation
 * decides how it waits for backward.
 *   Binarize: of a ReLU's output that only the ReLU itself and max-pools read again, one bit a
 *   value stays, and of the pool the place of each maximum; values are not kept at all.
 *   SSDC: a ReLU's or a pool's output whose values are needed again (by a convolution) is stored as
 *   a sparse matrix of 256 columns, with one byte a column number.
 *   DPR: every other value is stored in fewer bits, after the last layer of forward has read it, so
 *   that forward sees no loss.
 *
 * Ours differs:
 * - Binarize is a choice among what a layer says its backward can read, so it holds for any layer
 *   with such a choice, and where ReLU alone reads its output again too.
 * - The bytes of a sparse matrix depend on the values. Room is made by what was measured
 *   (memory.profile, or density); without, SSDC would save nothing and is left out. A step with
 *   too many values is run again, and moves them to the host.
 * - The input of the network is not kept but fetched again from the batch.
 * - Decoded values lie in full in backward, as in the paper; ReLU is in place under every policy.
 */
#include "memory/policies/gist_pass.h"

/* Whether everyone who reads the value in backward can do without it. */
static bool only_free_readers(const dt_program *p, int32_t tensor, const dti_gap *g)
{
    int32_t n;
    const dt_access *a = dt_accesses(p, tensor, &n);
    for (int32_t i = 0; i < n; i++) {
        const dt_op *op = &p->op[a[i].op];
        if (dt_pos(p, a[i].op) < g->to_pos)
            continue;
        if (op->kind != DT_OP_BACKWARD || op->node == DT_NONE ||
            dt_value_free(p->graph->node[op->node].desc) < 0)
            return false;
    }
    return true;
}

/* What the alternative reads in the place of values. */
static const char *first_stash(const dt_node *nd, int alt)
{
    for (int i = 0; i < nd->info.n_stash; i++)
        if (nd->desc->alt[alt].reads & DT_BIT(DT_S + i))
            return nd->info.stash[i].name;
    return "gradient";
}

/* Let every reader in backward of the value do without it. Choosing changes accesses, so they are
 * looked up again after each. */
static dt_status binarize(dti_choices *c, int32_t tensor, dt_err *err)
{
    dti_gap g;
    dt_program *p = c->p;
    while (dti_gap_crossing(p, tensor, &g)) {
        const int32_t node = p->op[g.to].node;
        const int before = p->alt[node];
        const dt_node *nd = &p->graph->node[node];
        const int alt = dt_value_free(nd->desc);
        int32_t reason;
        DT_CHECK(dt_reasons_add(&p->reasons, &reason, err,
            "%s: backward of %.40s reads its %.24s and no values", p->policy, nd->name,
            first_stash(nd, alt)));
        DT_CHECK(dti_choices_take(c, node, alt, reason, err));
        if (p->alt[node] == before)
            break; /* the configuration holds it */
    }
    return DT_OK;
}

static dt_status encode(dt_program *p, int32_t tensor, const dti_gist_opts *o, dt_err *err)
{
    dti_gap g;
    const dt_tensor *t = &p->tensor[tensor];
    if (!dt_packs(t) || t->node == DT_NONE || !dti_gap_crossing(p, tensor, &g))
        return DT_OK;
    int32_t packed;
    const size_t count = t->bytes / sizeof(float);
    dt_pass_env known = *o->env; /* the rerun of a step must decide as the step did */
    known.dense = false;
    const size_t sparse =
        dt_packed_bytes(o->sparse, count, dti_pass_density(&known, t, o->density));
    const bool smaller = o->dense == NULL || sparse < dt_packed_bytes(o->dense, count, 1);
    if (dti_often_zero(p, t->node) && smaller) {
        DT_CHECK(dt_reasons_add(&p->reasons, &g.reason, err,
            "%s: %.40s is often zero, %s takes %zu of %zu bytes", p->policy, t->name,
            o->sparse->name, sparse, t->bytes));
        return dti_pass_encode(p, o->env, &g, o->sparse, o->density, &packed, err);
    }
    if (o->dense == NULL)
        return DT_OK;
    DT_CHECK(dt_reasons_add(&p->reasons, &g.reason, err, "%s: %.48s waits for backward in %s",
        p->policy, t->name, o->dense->name));
    return dti_encode(p, &g, o->dense, 1, &packed, err);
}

static dt_status binarize_all(dti_choices *c, size_t n, dt_err *err)
{
    dti_gap g;
    const dt_program *p = c->p;
    for (size_t t = 0; t < n; t++)
        if (p->tensor[t].role == DT_ROLE_ACTIVATIONS && dti_gap_crossing(p, (int32_t)t, &g) &&
            only_free_readers(p, (int32_t)t, &g))
            DT_CHECK(binarize(c, (int32_t)t, err));
    return DT_OK;
}

dt_status dti_gist_pass(dt_program *p, const dti_gist_opts *o, dt_err *err)
{
    if (p->loss == DT_NONE)
        return DT_OK;
    DT_CHECK(dt_program_index(p, err));
    const size_t n = p->n_tensor;
    dti_choices c;
    dt_status st = dti_choices_open(&c, p, err);
    if (st == DT_OK)
        st = binarize_all(&c, n, err);
    dti_choices_close(&c);
    for (size_t t = 0; st == DT_OK && t < n; t++)
        st = encode(p, (int32_t)t, o, err);
    return st == DT_OK ? dti_fetch_again(p, err) : st;
}
