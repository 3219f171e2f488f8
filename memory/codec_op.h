/* The op that packs a value (form forward) and the one that unpacks it (form backward): X to Y, by
 * the codec of the call. */
#ifndef DT_MEMORY_CODEC_OP_H
#define DT_MEMORY_CODEC_OP_H

#include "engine/codec.h"
#include "engine/kernels.h"

extern const dt_layer_desc dt_codec_op;

/* What it draws by, where the codec rounds by random numbers. */
static inline dt_rounding dti_rounding_of(const dt_call *c, const dt_args *a)
{
    return (dt_rounding){.seed = a->seed,
        .step = a->step,
        .value = a->layer,
        .samples = c->n,
        .sample0 = a->sample0,
        .now = a->now};
}

/* All codecs and this op, for a runner. */
extern const dt_codec_set dt_codecs;

#endif
