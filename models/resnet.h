/* Inside models: a residual network up to its last map, for networks that go on from there. */
#ifndef DT_MODELS_RESNET_H
#define DT_MODELS_RESNET_H

#include "models/model.h"
#include "models/net.h"

/**
 * struct dti_resnet - a family, whose depth is in the net's counts.
 * @bottleneck: blocks of three convolutions, of two otherwise
 * @groups: of a bottleneck's 3x3 convolution
 * @inner:  its channels at 64 planes
 * @dilated: bottlenecks of the last two stages have no stride; what follows there has kernels with
 *           gaps in its place (torchvision's replace_stride_with_dilation): an eighth of the image
 * @plain_sum: bottlenecks have a ReLU behind every norm, that of the shortcut too, and none behind
 *           their sum, as in the example of mxnet-memonger
 */
typedef struct dti_resnet {
    bool bottleneck;
    int64_t groups, inner;
    bool dilated, plain_sum;
} dti_resnet;

/* From the image on; @in: before every layer's name, "" or as in "backbone.". */
int32_t dti_add_resnet(dti_net *n, const dti_resnet *r, const char *in);

#endif
