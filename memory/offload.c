/* OFFLOAD: a copy out after the gap begins and one back before it ends; inputs are fetched again
 * instead. */
#include <stdio.h>

#include "memory/pass.h"

static dt_op copy_op(const dt_program *p, dt_op_kind kind, const dt_gap *g, int mode)
{
    dt_op op = {.kind = kind,
        .node = DT_NONE,
        .pair = DT_NONE,
        .release_after = DT_NONE,
        .recompute_of = DT_NONE,
        .reason = g->reason,
        .n1 = p->n};
    snprintf(
        op.name, sizeof op.name, "%s.%.100s", dt_op_kind_name(kind), p->tensor[g->tensor].name);
    dt_op_bind(&op, g->tensor, DT_X, mode);
    return op;
}

/* What the slot holds. */
static dt_status pack(
    const dt_program *p, dt_op *out, const dt_tensor *t, const dt_offload_opt *o, dt_err *err)
{
    out->tier = o->tier;
    out->stored = t->bytes;
    if (o->codec == NULL || (!o->codec->exact && p->graph->dtype != DT_F32))
        return DT_OK;
    out->codec = o->codec;
    out->count = (int64_t)(t->bytes / sizeof(uint32_t));
    out->stored = dt_packed_bytes(o->codec, (size_t)out->count, o->density);
    if (o->most > 0 && out->stored > o->most)
        out->stored = o->most;
    if (!dt_packs(t) || out->stored > SIZE_MAX - DT_ALIGN)
        return DT_FAIL(err, DT_E_CONFIG, "'%s' is no array of whole words, which '%s' packs",
            t->name, o->codec->name);
    return DT_OK;
}

dt_status dti_offload(dt_program *p, const dt_gap *g, const dt_offload_opt *o, dt_err *err)
{
    const dt_offload_opt none = {.release_after = DT_NONE, .fetch_before = DT_NONE};
    if (o == NULL)
        o = &none;
    const dt_tensor *t = &p->tensor[g->tensor];
    if (t->pin != DT_PIN_NONE)
        return DT_OK;
    const int32_t release = o->release_after == DT_NONE ? g->from : o->release_after;
    const int32_t before = o->fetch_before == DT_NONE ? g->to : o->fetch_before;
    if (t->home != DT_NONE)
        return DT_FAIL(err, DT_E_CONFIG, "'%s' is persistent; it has no gap to move", t->name);
    if (dt_pos(p, release) < g->from_pos || dt_pos(p, before) <= dt_pos(p, release) ||
        dt_pos(p, before) > g->to_pos)
        return DT_FAIL(err, DT_E_CONFIG, "'%s' cannot leave after %s and be back before %s",
            t->name, p->op[release].name, p->op[before].name);
    int32_t out = DT_NONE, in;
    const bool input = t->role == DT_ROLE_INPUT;
    dt_op back = copy_op(p, input ? DT_OP_FETCH : DT_OP_IN, g, DT_WRITE);
    back.join_before = o->join_before;
    if (input)
        back.arg[0].port = p->op[dti_producer(p, g->tensor)].arg[0].port;
    DT_CHECK(dt_program_insert(p, &back, (size_t)dt_pos(p, before), &in, err));
    if (!input) {
        dt_op away = copy_op(p, DT_OP_OUT, g, DT_READ);
        away.release_after = o->release_after;
        DT_CHECK(pack(p, &away, t, o, err));
        p->op[in].tier = away.tier;
        p->op[in].codec = away.codec;
        p->op[in].stored = away.stored;
        p->op[in].count = away.count;
        DT_CHECK(dt_program_insert(p, &away, (size_t)g->from_pos + 1, &out, err));
        p->op[in].pair = out;
    }
    return dt_program_index(p, err);
}

dt_status dti_fetch_again(dt_program *p, dt_err *err)
{
    const size_t n = p->n_tensor;
    dt_gap g;
    for (size_t t = 0; t < n; t++) {
        if (p->tensor[t].role != DT_ROLE_INPUT)
            continue;
        for (int32_t i = 0; dti_gap_next(p, (int32_t)t, &i, &g);)
            if (g.crosses_loss) {
                DT_CHECK(dt_reasons_add(&p->reasons, &g.reason, err,
                    "%s: the input waits in the decoded batch", p->policy));
                DT_CHECK(dti_offload(p, &g, NULL, err));
                break;
            }
    }
    return DT_OK;
}
