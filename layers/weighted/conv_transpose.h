/* Transposed convolution, as PyTorch's ConvTranspose2d: what backward-data of a convolution from y
 * to x computes. Every pixel of x adds its values, times the kernel, to the pixels of y that the
 * convolution would have made it of. */
#ifndef DT_LAYERS_WEIGHTED_CONV_TRANSPOSE_H
#define DT_LAYERS_WEIGHTED_CONV_TRANSPOSE_H

#include "engine/layer.h"

/**
 * struct dt_conv_transpose - options.
 * @out:      output channels; a multiple of groups
 * @kernel @stride @pad: pixels, as sides (engine/shape.h); pad is cut from each side of the output
 * @more:     rows below and columns to the right that the stride leaves undecided, as sides; each
 * less than the stride (PyTorch's output_padding)
 * @groups:   divides input and output channels
 * @bias:     whether a value is added to each output channel
 *
 * x {n, h, w, c} gives y {n, p, q, out} with p = (h - 1) stride - 2 pad + kernel + more, and q
 * likewise. Parameters: weight [c, out / groups, height, width of the kernel], bias [out].
 */
typedef struct dt_conv_transpose {
    int64_t out, kernel, stride, pad, more, groups;
    bool bias;
} dt_conv_transpose;

extern const dt_layer_desc dt_layer_conv_transpose;

/* The convolution from y {h, w, out} to x whose backward-data this is: members of dt_dnnl_problem
 * and of dti_cudnn_problem, whose x is our @y and whose y is our @x. */
#define DTI_CONV_TRANSPOSE_SHAPE(o, x, y)                                                          \
    .groups = (o)->groups, .c = (y).c, .h = (y).h, .w = (y).w, .out = (x).c, .p = (x).h,           \
    .q = (x).w, .kernel = (o)->kernel, .stride = (o)->stride, .pad = (o)->pad, .dilation = 1

#endif
