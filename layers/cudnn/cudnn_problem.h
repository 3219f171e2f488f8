/* A convolution that cuDNN is asked about. */
#ifndef DT_LAYERS_CUDNN_CUDNN_PROBLEM_H
#define DT_LAYERS_CUDNN_CUDNN_PROBLEM_H

#include "engine/shape.h"

typedef enum dti_cudnn_direction {
    DTI_CUDNN_FORWARD, /* x, weight -> y */
    DTI_CUDNN_DATA,    /* dy, weight -> dx */
    DTI_CUDNN_WEIGHTS  /* x, dy -> dweight */
} dti_cudnn_direction;

/* Bytes of scratch that an engine may want in any case. Beyond them as many as everything it reads
 * and writes takes in fp32: what bringing all of it into another layout takes. */
enum { DTI_CUDNN_WORK = 256 << 20 };

/* One direction of a layer. Eight-byte members only, so that a problem can be compared as bytes.
 * @tf32: 1: fp32 may be rounded to TF32
 * @many: 1: all algorithms are prepared, which takes longer; 0: the fastest alone, whatever the
 * limit
 * @p @q: output height and width
 * @kernel @stride @pad: sides (engine/shape.h)
 * @dilation: 1 is a dense kernel */
typedef struct dti_cudnn_problem {
    int64_t direction, n, bf16, tf32, many, groups, c, h, w, out, p, q, kernel, stride, pad,
        dilation;
} dti_cudnn_problem;

/* Values of the weight. */
static inline int64_t dti_cudnn_weights(const dti_cudnn_problem *p)
{
    return p->out * (p->c / p->groups) * dt_sides_h(p->kernel) * dt_sides_w(p->kernel);
}

#endif
