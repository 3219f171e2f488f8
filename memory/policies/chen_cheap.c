/* Chen et al., Training Deep Nets with Sublinear Memory Cost, arXiv:1604.06174, section 4.2: keep
 * the outputs of convolutions and of fully connected layers, which are dear, and run normalisation,
 * activation, pooling and the rest again, which are cheap.
 *
 * Dear is a layer whose weight is a matrix or more, or that computes as much for each value without
 * one (attention); that is read off the layer's facts. Ours differs from the paper in three things.
 * A cheap value stays where dropping it would only keep another in its place: ReLU right after a
 * convolution lies in its bytes, and an average pool's output is smaller than the input that nobody
 * else would need. A value that several layers read stays: in a residual network each of those is
 * made from the one before, so the first reader in backward would bring all of them back at once,
 * and lower no peak. And the input is not kept but fetched again. */
#include "engine/base/alloc.h"
#include "memory/policies/chen.h"
#include "memory/policy.h"

/* Bytes that would have to stay only so that the op can run again. */
static uint64_t kept_for(const dti_chen *c, const dt_op *op)
{
    const dt_program *p = c->p;
    uint64_t bytes = 0;
    for (int i = 0; i < op->n_arg; i++) {
        const int32_t t = op->arg[i].tensor;
        int32_t n;
        const dt_access *a = dt_accesses(p, t, &n);
        const bool value = p->tensor[t].role == DT_ROLE_ACTIVATIONS && op->arg[i].mode == DT_READ;
        if (value && !c->dropped[t] && dt_pos(p, a[n - 1].op) <= dt_pos(p, p->loss))
            bytes += p->tensor[t].bytes;
    }
    return bytes;
}

static bool cheap(const dti_chen *c, const dti_chen_value *v)
{
    return !dti_chen_dear(c->p, v->op) && dti_chen_readers(c->p, v->tensor) == 1 &&
           kept_for(c, &c->p->op[v->op]) < c->p->tensor[v->tensor].bytes;
}

static dt_status drop(dti_chen *c, const dti_chen_value *v, dt_err *err)
{
    c->dropped[v->tensor] = true;
    return dt_reasons_add(&c->p->reasons, &c->reason[v->tensor], err,
        "%s: for %.48s, cheap: at most %d operations a value", c->p->policy,
        c->p->tensor[v->tensor].name, DTI_CHEN_DEAR);
}

static dt_status chen_cheap(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    (void)env;
    dti_chen c;
    dt_status st = dti_chen_open(&c, p, err);
    for (size_t i = 0; st == DT_OK && i < c.n; i++) {
        const dti_chen_value *v = &c.value[i];
        if (cheap(&c, v))
            st = drop(&c, v, err);
    }
    if (st == DT_OK)
        st = dti_chen_rewrite(&c, err);
    dti_chen_close(&c);
    return st != DT_OK || p->loss == DT_NONE ? st : dti_fetch_again(p, err);
}

const dt_policy dt_policy_chen_cheap = {
    .name = "chen_cheap",
    .summary = "keep what convolutions and fc make, run the cheap layers again (Chen 2016)",
    .exact = true,
    .pass = chen_cheap,
};
