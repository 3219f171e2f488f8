/* A convolution from its definition, a thread an output: for shapes that the library has nothing
 * for. All sums run in one order, in single precision. */
#ifndef DT_LAYERS_CUDA_CONV_DIRECT_H
#define DT_LAYERS_CUDA_CONV_DIRECT_H

#include "engine/base/error.h"
#include "engine/shape.h"
#include "layers/cudnn/cudnn_cuda.h"
#include "layers/value.h"

DT_BOTH static inline dt_dtype dti_direct_type(const dti_cudnn_problem *o)
{
    return o->bf16 != 0 ? DT_BF16 : DT_F32;
}

/* The taps along one side, and the sizes of both images. */
typedef struct dti_direct_side {
    int64_t kernel, stride, pad, dilation, in, out;
} dti_direct_side;

DT_BOTH static inline dti_direct_side dti_direct_down(const dti_cudnn_problem *o)
{
    const dti_direct_side s = {
        dt_sides_h(o->kernel), dt_sides_h(o->stride), dt_sides_h(o->pad), o->dilation, o->h, o->p};
    return s;
}

DT_BOTH static inline dti_direct_side dti_direct_right(const dti_cudnn_problem *o)
{
    const dti_direct_side s = {
        dt_sides_w(o->kernel), dt_sides_w(o->stride), dt_sides_w(o->pad), o->dilation, o->w, o->q};
    return s;
}

/* Where tap @r of output @p reads, and whether that is in the image. */
DT_BOTH static inline bool dti_direct_at(
    const dti_direct_side *o, int64_t p, int64_t r, int64_t *at)
{
    *at = p * o->stride - o->pad + r * o->dilation;
    return *at >= 0 && *at < o->in;
}

/* The output that reads @at by tap @r, if there is one. */
DT_BOTH static inline bool dti_direct_reader(
    const dti_direct_side *o, int64_t at, int64_t r, int64_t *p)
{
    const int64_t from = at + o->pad - r * o->dilation;
    *p = from / o->stride;
    return from >= 0 && from % o->stride == 0 && *p < o->out;
}

/* Element i of y {n, p, q, out}. */
DT_BOTH static inline float dti_direct_y(
    const dti_cudnn_problem *o, const void *x, const void *weight, int64_t i)
{
    const int64_t k = i % o->out, q = i / o->out % o->q, p = i / o->out / o->q % o->p;
    const int64_t n = i / o->out / o->q / o->p, depth = o->c / o->groups;
    const int64_t first = k / (o->out / o->groups) * depth;
    const dti_direct_side down = dti_direct_down(o), right = dti_direct_right(o);
    float sum = 0;
    for (int64_t r = 0; r < down.kernel; r++)
        for (int64_t s = 0; s < right.kernel; s++) {
            int64_t h, w;
            if (!dti_direct_at(&down, p, r, &h) || !dti_direct_at(&right, q, s, &w))
                continue;
            const int64_t from = ((n * o->h + h) * o->w + w) * o->c + first;
            const int64_t tap = ((k * down.kernel + r) * right.kernel + s) * depth;
            for (int64_t c = 0; c < depth; c++)
                sum += dti_load(x, from + c, dti_direct_type(o)) *
                       dti_load(weight, tap + c, dti_direct_type(o));
        }
    return sum;
}

/* Element i of dx {n, h, w, c}. */
DT_BOTH static inline float dti_direct_dx(
    const dti_cudnn_problem *o, const void *dy, const void *weight, int64_t i)
{
    const int64_t c = i % o->c, w = i / o->c % o->w, h = i / o->c / o->w % o->h;
    const int64_t n = i / o->c / o->w / o->h, depth = o->c / o->groups, wide = o->out / o->groups;
    const int64_t first = c / depth * wide;
    const dti_direct_side down = dti_direct_down(o), right = dti_direct_right(o);
    float sum = 0;
    for (int64_t r = 0; r < down.kernel; r++)
        for (int64_t s = 0; s < right.kernel; s++) {
            int64_t p, q;
            if (!dti_direct_reader(&down, h, r, &p) || !dti_direct_reader(&right, w, s, &q))
                continue;
            const int64_t from = ((n * o->p + p) * o->q + q) * o->out;
            for (int64_t k = first; k < first + wide; k++)
                sum +=
                    dti_load(dy, from + k, dti_direct_type(o)) *
                    dti_load(weight, ((k * down.kernel + r) * right.kernel + s) * depth + c % depth,
                        dti_direct_type(o));
        }
    return sum;
}

/* Element i of dweight {out, height, width, c / groups}. */
DT_BOTH static inline float dti_direct_dw(
    const dti_cudnn_problem *o, const void *x, const void *dy, int64_t i)
{
    const dti_direct_side down = dti_direct_down(o), right = dti_direct_right(o);
    const int64_t depth = o->c / o->groups, s = i / depth % right.kernel;
    const int64_t r = i / depth / right.kernel % down.kernel;
    const int64_t k = i / depth / right.kernel / down.kernel;
    const int64_t c = k / (o->out / o->groups) * depth + i % depth;
    float sum = 0;
    for (int64_t n = 0; n < o->n; n++)
        for (int64_t p = 0; p < o->p; p++) {
            int64_t h, w;
            if (!dti_direct_at(&down, p, r, &h))
                continue;
            float row = 0; /* sums of sums lose fewer digits */
            for (int64_t q = 0; q < o->q; q++)
                if (dti_direct_at(&right, q, s, &w))
                    row +=
                        dti_load(x, ((n * o->h + h) * o->w + w) * o->c + c, dti_direct_type(o)) *
                        dti_load(dy, ((n * o->p + p) * o->q + q) * o->out + k, dti_direct_type(o));
            sum += row;
        }
    return sum;
}

/* The same as dti_cudnn_run(), without scratch: defined for the device alone. */
dt_status dti_conv_direct(const dti_cudnn_problem *p, void *queue, const dti_cudnn_bytes *bytes,
    dt_err *err) DT_NODISCARD;

#endif
