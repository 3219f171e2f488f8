/* From a decoded picture to the network's input: resize, crop, flip, normalise.
 *
 * A picture of the network's size is used as it is; with augment it is shifted by up to 4 pixels
 * within a border of zeros, as is usual for CIFAR. Any other is resized so that it just covers the
 * network's size times 256/224 (the short side of a square image becomes image*256/224, rounded;
 * the long side is cut to whole pixels as torchvision does), by bilinear interpolation that
 * averages when shrinking (the triangle filter of PIL, scaled; values are not rounded in between),
 * and its middle is cut out. With augment, a part of 8 to 100 % of its area, of an aspect ratio of
 * 3/4 to 4/3, is resized to the network's size instead, as torchvision's RandomResizedCrop does.
 * Last, with augment, a square is cut out: its centre lies anywhere in the picture, and what of it
 * lies within becomes 0: the mean, where one is taken off (cutout; DeVries and Taylor 2017,
 * section 3.2). What is drawn depends on the key alone. */
#ifndef DT_DATA_TRANSFORM_H
#define DT_DATA_TRANSFORM_H

#include "data/source.h"

/* 8-bit pixels, [h][w][c], c = 1 or 3. */
typedef struct dti_picture {
    uint8_t *px;
    int64_t h, w, c;
} dti_picture;

/**
 * struct dti_recipe - what is done to every picture of a source.
 * @h @w @c: what the network takes; c = 1 or 3: grey is repeated, colour becomes luma (Rec. 601)
 * @augment: random crops
 * @flip:    with augment, mirror left and right half of the time
 * @cutout:  with augment, side of the square that is cut out, in pixels of the network; 0: none
 * @stretch: another size is resized to the network's, height and width each by themselves, and
 * nothing of the picture is lost
 * @centre:  a picture smaller than the network's size is not resized but centred in zeros; a larger
 * one is an error (digits, whose size carries meaning)
 * @mean @std: x = (value/255 - mean) / std, per channel of the network
 */
typedef struct dti_recipe {
    int64_t h, w, c, cutout;
    bool augment, flip, stretch, centre;
    float mean[3], std[3];
} dti_recipe;

/* ImageNet's mean and standard deviation, or none; those of the options win. DT_E_CONFIG unless the
 * network takes 1 or 3 channels. */
dt_status dti_recipe_make(
    dti_recipe *r, const dt_source_opts *o, bool imagenet, dt_err *err) DT_NODISCARD;

/* x: h*w*c floats. The same picture and key give the same bits. DT_E_NOMEM; DT_E_DATA when a
 * picture is too large for @centre. */
dt_status dti_transform(
    const dti_recipe *r, const dti_picture *p, uint64_t key, float *x, dt_err *err) DT_NODISCARD;

#endif
