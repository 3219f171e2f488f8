/* Two-dimensional convolution (cross-correlation, as PyTorch's Conv2d) with zero padding. */
#ifndef DT_LAYERS_WEIGHTED_CONV_H
#define DT_LAYERS_WEIGHTED_CONV_H

#include "engine/layer.h"

/**
 * struct dt_conv - options.
 * @out:      output channels; a multiple of groups
 * @kernel @stride @pad: pixels, as sides (engine/shape.h): 3, or dt_sides(1, 7)
 * @dilation: distance of neighbouring elements of the kernel; 1 is a dense kernel (PyTorch's
 * meaning)
 * @groups:   divides input and output channels; as many as channels: depthwise
 * @bias:     whether a value is added to each output channel
 *
 * x {n, h, w, c} gives y {n, p, q, out} with p = (h + 2 pad - dilation (kernel - 1) - 1) / stride +
 * 1, rounded down, and q likewise. Parameters: weight [out, c / groups, height, width of the
 * kernel], bias [out].
 */
typedef struct dt_conv {
    int64_t out, kernel, stride, pad, dilation, groups;
    bool bias;
} dt_conv;

extern const dt_layer_desc dt_layer_conv;

/* What kind of arithmetic one is, transposed or not. */
dt_work dti_conv_work(int64_t kernel, int64_t groups, int64_t out);

/* The shape of a convolution of options @o from @x to @y, as libraries are told it: members of
 * dt_dnnl_problem and of dti_cudnn_problem. */
#define DTI_CONV_SHAPE(o, x, y)                                                                    \
    .groups = (o)->groups, .c = (x).c, .h = (x).h, .w = (x).w, .out = (y).c, .p = (y).h,           \
    .q = (y).w, .kernel = (o)->kernel, .stride = (o)->stride, .pad = (o)->pad,                     \
    .dilation = (o)->dilation

#endif
