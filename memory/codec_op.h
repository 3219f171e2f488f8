/* The op that packs a value (form forward) and the one that unpacks it (form backward): X to Y, by
 * the codec of the call. */
#ifndef DT_MEMORY_CODEC_OP_H
#define DT_MEMORY_CODEC_OP_H

#include "engine/codec.h"
#include "engine/layer.h"

extern const dt_layer_desc dt_codec_op;

/* All codecs and this op, for a runner. */
extern const dt_codec_set dt_codecs;

#endif
