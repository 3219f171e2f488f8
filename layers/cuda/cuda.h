/* The CUDA device's kernels, a table for each layer and each op of update; layers that are computed
 * alike share a file, and a file without kernels of its own is C. Flatten has none: it is no op.
 * They put their work on dt_args.queue and return; what a kernel does wrong on the device is told
 * by a later call. */
#ifndef DT_LAYERS_CUDA_CUDA_H
#define DT_LAYERS_CUDA_CUDA_H

#include "engine/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_LAYER(name) extern const dt_kernels dt_##name##_cuda;
#include "layers/layers.def"
#include "layers/ops.def"
#undef DT_LAYER

#ifdef __cplusplus
}
#endif

#endif
