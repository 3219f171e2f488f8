/* Additive attention (Bahdanau, Cho and Bengio, Neural Machine Translation by Jointly Learning to
 * Align and Translate, ICLR 2015, section 3.1 and appendix A.1.2): query q_j looks at keys h_i,
 *
 *     s_ij = v . tanh(W h_i + U q_j)     p_ij = softmax over i of s_ij     y_j = sum of p_ij h_i */
#ifndef DT_LAYERS_SEQUENCE_ADDITIVE_ATTENTION_H
#define DT_LAYERS_SEQUENCE_ADDITIVE_ATTENTION_H

#include "layers/sequence/attention.h"

/**
 * struct dt_additive_attention - options.
 * @hidden: values that W h_i and U q_j have
 * @causal: query j sees the keys up to j, and no later ones
 * @kind:   dti_attention_kind. naive keeps every tanh for backward, queries * keys * hidden of a
 * sample; efficient makes them again (Meng et al., Training Deeper Models by GPU Memory
 * Optimization on TensorFlow, ML Systems at NIPS 2017). Both give the same bits
 *
 * Two inputs, keys {n, h, w, c} and queries {n, h', w', c'}, sequences of h * w and h' * w'
 * positions, give y {n, h', w', c}. Parameters: key_weight W [hidden, c], query_weight U
 * [hidden, c'], score_weight v [hidden].
 */
typedef struct dt_additive_attention {
    int64_t hidden;
    bool causal;
    int kind;
} dt_additive_attention;

/* Stashes, of fp32: p_ij, by query; and of naive tanh(W h_i + U q_j). */
enum { DTI_ADDITIVE_PROB, DTI_ADDITIVE_TANH };

extern const dt_layer_desc dt_layer_additive_attention;

#endif
