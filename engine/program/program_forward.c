/* The forward half of a program: one op a layer, in the order of the graph. */
#include "engine/program/builder.h"

dt_status dti_fetch(
    dti_builder *b, const char *name, size_t sample, int port, int32_t *id, dt_err *err)
{
    DT_CHECK(dti_add_tensor(b, name, DT_ROLE_INPUT, 0, sample, DT_NONE, id, err));
    dt_op op = dti_start_op(b, DT_OP_FETCH, NULL, DT_NONE, DT_FORWARD, "");
    dti_name(op.name, "fetch.%s", name);
    dt_op_bind(&op, *id, port, DT_WRITE);
    return dti_append(b, &op, err);
}

static dt_status bind_stash(dti_builder *b, dt_op *op, dt_ports set, int32_t node, dt_err *err)
{
    const dt_node *nd = &b->g->node[node];
    for (int i = 0; i < nd->info.n_stash; i++)
        if (set & DT_BIT(DT_S + i)) {
            const dt_stash_info *s = &nd->info.stash[i];
            char name[DT_TENSOR_NAME_BYTES];
            dti_name(name, "%s.%s", nd->name, s->name);
            DT_CHECK(dti_add_tensor(b, name, DT_ROLE_STASH, s->fixed_bytes, s->sample_bytes, node,
                &b->stash[node][i], err));
            dt_op_bind(op, b->stash[node][i], DT_S + i, DT_WRITE);
        }
    return DT_OK;
}

dt_status dti_forward_node(dti_builder *b, int32_t node, dt_err *err)
{
    const dt_node *nd = &b->g->node[node];
    const bool eval = b->p->kind == DT_PROGRAM_EVAL;
    if (nd->desc->identity) {
        b->value[node] = dti_value_tensor(b, nd->in[0]);
        return DT_OK;
    }
    if (nd->desc->loss)
        DT_CHECK(dti_fetch(b, "labels", sizeof(int32_t) * (size_t)dt_graph_labels(b->g), DT_LABELS,
            &b->labels, err));
    const dt_form_kind kind = eval && nd->desc->form[DT_EVAL].suffix != NULL ? DT_EVAL : DT_FORWARD;
    const dt_form *f = &nd->desc->form[kind];
    dt_op op = dti_start_op(b, DT_OP_FORWARD, nd->desc, node, kind, f->suffix);
    op.flops = nd->info.forward_flops * (double)b->p->n;
    if (f->reads & DT_BIT(DT_D))
        DT_CHECK(dti_bind_derived(b, &op, 0, DT_DERIVE_F, node, err));
    if (f->reads & DT_BIT(DT_X))
        for (int i = 0; i < nd->n_in; i++)
            dt_op_bind(&op, dti_value_tensor(b, nd->in[i]), DT_X + i, DT_READ);
    dti_bind_params(b, &op, f->reads, node, DT_P, DT_READ);
    if (f->reads & DT_BIT(DT_LABELS))
        dt_op_bind(&op, b->labels, DT_LABELS, DT_READ);
    if (f->updates & DT_BIT(DT_METRICS))
        dt_op_bind(&op, b->p->map->metrics, DT_METRICS,
            b->p->kind == DT_PROGRAM_AGAIN ? DT_UPDATES : DT_WRITE);
    if (f->writes & DT_BIT(DT_Y)) {
        char name[DT_TENSOR_NAME_BYTES];
        dti_name(name, "%s.y", nd->name);
        DT_CHECK(dti_add_tensor(
            b, name, DT_ROLE_ACTIVATIONS, 0, dti_value_bytes(b, node), node, &b->value[node], err));
        dt_op_bind(&op, b->value[node], DT_Y, DT_WRITE);
    }
    if (!eval) {
        const dt_ports saved = nd->desc->n_alt > 0 ? nd->desc->alt[b->p->alt[node]].reads : 0;
        DT_CHECK(bind_stash(b, &op, saved, node, err));
        dti_bind_params(
            b, &op, f->writes, node, DT_Q, b->p->kind == DT_PROGRAM_AGAIN ? DT_UPDATES : DT_WRITE);
    }
    DT_CHECK(dti_append_work(b, &op, err));
    if (nd->desc->loss)
        b->p->loss = (int32_t)b->p->n_op - 1;
    return DT_OK;
}
