/* Tokens into vectors: y = weight[x]. */
#ifndef DT_LAYERS_EMBEDDING_H
#define DT_LAYERS_EMBEDDING_H

#include "engine/layer.h"

/**
 * struct dt_embedding - options.
 * @vocab: tokens there are
 * @out:   channels of a token's vector
 * @sigma: standard deviation of the first weights
 *
 * x {n, h, w, 1} of whole numbers in [0, vocab) as floats gives y {n, h, w, out}. Parameter: weight
 * [vocab, out], in that layout, so that an output head may share it.
 */
typedef struct dt_embedding {
    int64_t vocab, out;
    double sigma;
} dt_embedding;

/* Learned positions: y = x + weight, one vector for each position of a sequence or image. x {n, h,
 * w, c} gives y of that shape. Parameter: weight [h * w, c]. */
typedef struct dt_position {
    double sigma;
} dt_position;

extern const dt_layer_desc dt_layer_embedding, dt_layer_position;

#endif
