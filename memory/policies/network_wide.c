/* The allocation of 2016's frameworks, which papers compare with (vDNN, Rhu et al., MICRO 2016,
 * section II-B and figure 2): every value of forward for the whole run; activation gradients in as
 * many shared buffers of the largest size as are live at once (two on a chain); activation layers
 * and dropout in place; one buffer for the largest scratch. Weights and gradients are persistent
 * under every policy.
 *
 * Said with groups: tensors of one group share an interval that lasts the whole run. */
#include "engine/base/alloc.h"
#include "memory/policy.h"

/* The group whose bytes the tensor takes because its op may run in place on one that nobody needs
 * later. */
static int32_t group_below(const dt_program *p, int32_t tensor, int32_t pos)
{
    const dt_op *op = &p->op[p->order[pos]];
    const dt_form *f = op->desc != NULL ? &op->desc->form[op->form] : NULL;
    for (int k = 0; f != NULL && k < f->n_over; k++) {
        const int32_t in = dt_op_tensor(op, f->over[k].in);
        if (dt_op_tensor(op, f->over[k].out) != tensor || in == DT_NONE ||
            p->tensor[in].group < 0 || p->tensor[in].bytes != p->tensor[tensor].bytes)
            continue;
        int32_t n;
        const dt_access *a = dt_accesses(p, in, &n);
        if (dt_pos(p, a[n - 1].op) == pos)
            return p->tensor[in].group;
    }
    return DT_NONE;
}

/* Values of forward, and what forward leaves for backward: a group each, or that of the value they
 * overwrite. The probabilities of the loss are no activation layer's: the gradient over them has
 * buffers of its own. */
static void keep_for_ever(dt_program *p)
{
    for (size_t t = 0; t < p->n_tensor; t++) {
        dt_tensor *x = &p->tensor[t];
        int32_t n;
        const dt_access *a = dt_accesses(p, (int32_t)t, &n);
        if (x->home != DT_NONE || n == 0 ||
            (x->role != DT_ROLE_ACTIVATIONS && x->role != DT_ROLE_STASH &&
                x->role != DT_ROLE_INPUT))
            continue;
        const int32_t below = group_below(p, (int32_t)t, dt_pos(p, a[0].op));
        x->group = below != DT_NONE ? below : p->n_group++;
    }
}

/* Tensors of one role share buffers: each takes one that is free, a new one when none is. In order
 * of first access this takes as few as are live at once. */
static dt_status share(dt_program *p, dt_role role, dt_err *err)
{
    int32_t *busy_until = dt_alloc(p->n_tensor + 1, sizeof *busy_until);
    if (busy_until == NULL)
        return dti_pass_no_memory(err);
    const int32_t first = p->n_group;
    int32_t made = 0;
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op *op = &p->op[p->order[i]];
        for (int a = 0; a < op->n_arg; a++) {
            dt_tensor *x = &p->tensor[op->arg[a].tensor];
            if (x->role != role || x->home != DT_NONE || x->group != DT_NONE)
                continue;
            int32_t n;
            const dt_access *use = dt_accesses(p, op->arg[a].tensor, &n);
            int32_t s = 0;
            while (s < made && busy_until[s] >= (int32_t)i)
                s++;
            made += s == made;
            busy_until[s] = dt_pos(p, use[n - 1].op);
            x->group = first + s;
        }
    }
    p->n_group += made;
    dt_free(busy_until);
    return DT_OK;
}

static dt_status network_wide(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    (void)env;
    keep_for_ever(p);
    DT_CHECK(share(p, DT_ROLE_ACTIVATION_GRADIENTS, err));
    DT_CHECK(share(p, DT_ROLE_GRADIENTS, err)); /* of a further micro-batch, until they are added */
    DT_CHECK(share(p, DT_ROLE_DERIVED, err));
    return share(p, DT_ROLE_WORKSPACE, err);
}

const dt_policy dt_policy_network_wide = {
    .name = "network_wide",
    .summary = "2016's frameworks: every value for the whole run, shared gradient buffers",
    .exact = true,
    .pass = network_wide,
};
