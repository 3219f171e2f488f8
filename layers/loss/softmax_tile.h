/* Softmax and its loss over scores that come in tiles of the classes, so that no more than one tile
 * of them need be there at a time: of an output layer that is cut into tiles (ZeRO-Infinity,
 * Rajbhandari et al. 2021, section 5.1.3), by the way softmax is summed up while scores pass by
 * (Milakov and Gimelshein 2018, algorithm 3). */
#ifndef DT_LAYERS_LOSS_SOFTMAX_TILE_H
#define DT_LAYERS_LOSS_SOFTMAX_TILE_H

#include "engine/layer.h"

/* What is known of a position's scores so far, by channel of the state. Of sums the first number is
 * the sum as a float and the second one what that leaves. */
enum {
    DTI_TILE_MOST,       /* the greatest */
    DTI_TILE_SUM,        /* sum of the exponentials of scores less the greatest: two */
    DTI_TILE_OWN = 3,    /* the label's, once that has come; 0 before */
    DTI_TILE_TOTAL,      /* sum of the scores: two */
    DTI_TILE_BEST = 6,   /* the greatest in order, of equal ones the lower class first */
    DTI_TILE_BEST_N = 5, /* ... how many */
    DTI_TILE_CLASS = 11, /* their classes; DTI_TILE_NO_CLASS where there is none yet */
    DTI_TILE_STATE = 16, /* channels in all */
    DTI_TILE_NO_CLASS = 1 << 24
};

/**
 * struct dt_softmax_tile - options.
 * @first: class of the first score
 *
 * x0 {n, h, 1, c}, scores of classes [first, first + c), and x1 {n, h, 1, DTI_TILE_STATE}, what is
 * known of those before, absent for the first tile, give y {n, h, 1, DTI_TILE_STATE}. The state and
 * its gradient are fp32 in every precision. In the gradient, channel DTI_TILE_MOST is that of the
 * logarithm of the sum of all exponentials, DTI_TILE_OWN and DTI_TILE_TOTAL are those of what they
 * say, and the others are 0. tiled_cross_entropy makes the loss of the last state.
 */
typedef struct dt_softmax_tile {
    int64_t first;
} dt_softmax_tile;

extern const dt_layer_desc dt_layer_softmax_tile, dt_layer_tiled_cross_entropy;

#endif
