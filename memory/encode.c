/* ENCODE: a packed tensor lies where the value would have lain. */
#include <stdio.h>

#include "memory/codec_op.h"
#include "memory/pass.h"

bool dt_packs(const dt_tensor *t)
{
    return t->role == DT_ROLE_ACTIVATIONS && t->home == DT_NONE && t->bytes > 0 &&
           t->bytes % sizeof(uint32_t) == 0;
}

static dt_op codec_op(const dt_program *p, const dti_gap *g, const dt_codec *codec, dt_op_kind kind)
{
    const dt_tensor *t = &p->tensor[g->tensor];
    dt_op op = {.kind = kind,
        .desc = &dt_codec_op,
        .node = DT_NONE,
        .form = kind == DT_OP_ENCODE ? DT_FORWARD : DT_BACKWARD,
        .codec = codec,
        .pair = DT_NONE,
        .release_after = DT_NONE,
        .recompute_of = DT_NONE,
        .reason = g->reason,
        .n1 = p->n,
        .count = (int64_t)(t->bytes / sizeof(uint32_t))};
    snprintf(op.name, sizeof op.name, "%.100s.%s", t->name, dt_codec_op.form[op.form].suffix);
    return op;
}

static dt_status packed_tensor(
    dt_program *p, int32_t of, const dt_codec *codec, size_t bytes, int32_t *id, dt_err *err)
{
    dt_tensor e = dt_transient(DT_ROLE_STASH, bytes, p->tensor[of].node);
    snprintf(e.name, sizeof e.name, "%.100s.%s", p->tensor[of].name, codec->name);
    return dt_program_tensor(p, &e, id, err);
}

dt_status dti_encode(dt_program *p, const dti_gap *g, const dt_codec *codec, double density,
    int32_t *packed, dt_err *err)
{
    const dt_tensor *t = &p->tensor[g->tensor];
    *packed = DT_NONE;
    if (t->pin != DT_PIN_NONE)
        return DT_OK;
    if (!dt_packs(t))
        return DT_FAIL(err, DT_E_CONFIG, "'%s' is no array of whole words, which '%s' packs",
            t->name, codec->name);
    if (!codec->exact && p->graph->dtype != DT_F32)
        return DT_OK;
    const size_t bytes = dt_packed_samples(codec, t->bytes / sizeof(uint32_t), p->n, density);
    if (bytes >= t->bytes)
        return DT_OK;
    dt_op dec = codec_op(p, g, codec, DT_OP_DECODE);
    dt_op enc = codec_op(p, g, codec, DT_OP_ENCODE);
    int32_t id;
    DT_CHECK(packed_tensor(p, g->tensor, codec, bytes, packed, err));
    enc.stored = dec.stored = bytes;
    dt_op_bind(&dec, *packed, DT_X, DT_READ);
    dt_op_bind(&dec, g->tensor, DT_Y, DT_WRITE);
    dt_op_bind(&enc, g->tensor, DT_X, DT_READ);
    dt_op_bind(&enc, *packed, DT_Y, DT_WRITE);
    DT_CHECK(dt_program_insert(p, &dec, (size_t)g->to_pos, &id, err));
    DT_CHECK(dt_program_insert(p, &enc, (size_t)g->from_pos + 1, &id, err));
    return dt_program_index(p, err);
}
