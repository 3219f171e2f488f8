/* Multi-head attention over a sequence: y = softmax(q k' / sqrt(width of a head)) v. */
#ifndef DT_LAYERS_SEQUENCE_ATTENTION_H
#define DT_LAYERS_SEQUENCE_ATTENTION_H

#include "engine/layer.h"

typedef enum dti_attention_kind { DTI_ATTENTION_EFFICIENT, DTI_ATTENTION_NAIVE } dti_attention_kind;

/**
 * struct dt_attention - options.
 * @heads:  must divide the channels
 * @causal: a position sees itself and those before it
 * @kind:   dti_attention_kind. naive keeps every probability for backward, heads * t * t of a
 * sample; efficient keeps heads * t sums and computes tiles of probabilities again
 *
 * x {n, h, w, 3c}, the q, k and v of each of t = h * w positions one after another, gives y {n, h,
 * w, c}.
 */
typedef struct dt_attention {
    int64_t heads;
    bool causal;
    int kind;
} dt_attention;

extern const dt_layer_desc dt_layer_attention;

#endif
