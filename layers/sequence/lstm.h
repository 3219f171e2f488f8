/* Long short-term memory (Hochreiter and Schmidhuber, 1997, with the forget gate of Gers et al.,
 * 2000), one layer in one direction:
 *
 *     i, f, g, o = sigma, sigma, tanh, sigma of w_ih x_t + b_ih + w_hh h_(t-1) + b_hh
 *     c_t = f c_(t-1) + i g        h_t = o tanh(c_t)        h_(-1) = c_(-1) = 0 */
#ifndef DT_LAYERS_SEQUENCE_LSTM_H
#define DT_LAYERS_SEQUENCE_LSTM_H

#include "engine/layer.h"

typedef enum dti_lstm_keep { DTI_LSTM_KEEP_GATES, DTI_LSTM_KEEP_CELLS } dti_lstm_keep;

/**
 * struct dt_lstm - options.
 * @out:  channels of h and of c
 * @bias: whether there are b_ih and b_hh
 * @keep: dti_lstm_keep: what waits for backward of each position beside x and y. Of the cells, c,
 * backward makes the gates again, to the same bits and for all positions at once, which costs about
 * what forward does; with the gates it has five times as many values to read
 *
 * x {n, h, w, c}, a sequence of t = h * w positions, gives y {n, h, w, out}, the h of each.
 * Parameters as in PyTorch's LSTM, the four gates one after another, i, f, g, o: weight_ih_l0
 * [4 out, c], weight_hh_l0 [4 out, out], bias_ih_l0 and bias_hh_l0 [4 out].
 */
typedef struct dt_lstm {
    int64_t out;
    bool bias;
    int keep;
} dt_lstm;

/* Stashes, of fp32: c of each position, and its four gates, behind their curves. */
enum { DTI_LSTM_CELLS, DTI_LSTM_GATES };

extern const dt_layer_desc dt_layer_lstm;

#endif
