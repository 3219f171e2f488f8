/* The program that changes state: one optimizer op a parameter, one commit a running statistic. */
#include "engine/program/builder.h"

static bool is_vector(const dti_builder *b, const dt_home *h)
{
    return b->g->node[h->node].info.param[h->param].rank < 2;
}

dt_status dti_build_update(dti_builder *b, dt_err *err)
{
    const dt_map *m = b->p->map;
    for (size_t i = 0; i < m->n; i++) {
        const dt_home *h = &m->home[i];
        if (h->port != DT_P)
            continue;
        const bool buffer = h->role == DT_ROLE_BUFFERS;
        const dt_layer_desc *desc = buffer ? b->o->ops.commit : b->o->ops.optimizer;
        dt_op op = dti_start_op(b, DT_OP_UPDATE, desc, DT_NONE, DT_UPDATE, "");
        dti_name(op.name, "%s.%s", h->name, desc->form[DT_UPDATE].suffix);
        op.count = (int64_t)(h->bytes / sizeof(float));
        op.flops = (double)op.count * (buffer ? 0 : 4);
        if (buffer) {
            dt_op_bind(&op, dt_map_find(m, h->node, h->param, DT_Q), DT_Q, DT_READ);
            dt_op_bind(&op, (int32_t)i, DT_P, DT_WRITE);
        } else {
            op.vector = is_vector(b, h);
            dt_op_bind(&op, dt_map_find(m, h->node, h->param, DT_DP), DT_DP, DT_READ);
            dt_op_bind(&op, (int32_t)i, DT_P, DT_UPDATES);
            for (int s = 0; s < 2; s++) {
                const int32_t state = dt_map_find(m, h->node, h->param, (dt_port)(DT_M + s));
                if (state != DT_NONE)
                    dt_op_bind(&op, state, DT_M + s, DT_UPDATES);
            }
        }
        DT_CHECK(dti_append(b, &op, err));
    }
    return DT_OK;
}
