/* The op that packs a value, and the one that unpacks it. */
#include "memory/codec_op.h"

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    const size_t count = (size_t)c->count, bytes = c->packed;
    if (c->form == DT_BACKWARD)
        return dt_unpack(c->codec, a->port[DT_X], bytes, a->port[DT_Y], count, err);
    const dt_rounding by = dti_rounding_of(c, a);
    if (!dt_pack_samples(c->codec, a->port[DT_X], count, &by, a->port[DT_Y], bytes))
        __atomic_store_n(a->overflow, 1, __ATOMIC_RELAXED);
    return DT_OK;
}

static const dt_kernels cpu = {.run = run};

const dt_layer_desc dt_codec_op = {
    .name = "codec",
    .summary = "packs a value and unpacks it",
    .form =
        {
            [DT_FORWARD] = {.suffix = "enc", .reads = DT_BIT(DT_X), .writes = DT_BIT(DT_Y)},
            [DT_BACKWARD] = {.suffix = "dec", .reads = DT_BIT(DT_X), .writes = DT_BIT(DT_Y)},
        },
    .cpu = &cpu,
};
