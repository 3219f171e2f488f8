/* Tokens into vectors: y = weight[x]. */
#ifndef DT_LAYERS_SEQUENCE_EMBEDDING_H
#define DT_LAYERS_SEQUENCE_EMBEDDING_H

#include "engine/layer.h"

/**
 * struct dt_embedding - options.
 * @vocab: tokens there are
 * @out:   channels of a token's vector
 * @sigma: standard deviation of the first weights
 * @first @rows: of a tile of the vocabulary: the first of its tokens, and how many; 0: all behind
 *
 * x {n, h, w, 1} of whole numbers in [0, vocab) as floats gives y {n, h, w, out}; 0 for tokens of
 * other tiles, so that the sum of all tiles is the whole. Parameter: weight [rows, out], in that
 * layout, so that an output head may share it.
 */
typedef struct dt_embedding {
    int64_t vocab, out;
    double sigma;
    int64_t first, rows;
} dt_embedding;

/* Learned positions: y = x + weight, one vector for each position of a sequence or image. x {n, h,
 * w, c} gives y of that shape. Parameter: weight [h * w, c]. */
typedef struct dt_position {
    double sigma;
} dt_position;

/* Tokens of which it has vectors. */
static inline int64_t dti_embedding_rows(const dt_embedding *o)
{
    return o->rows > 0 ? o->rows : o->vocab - o->first;
}

extern const dt_layer_desc dt_layer_embedding, dt_layer_position;

#endif
