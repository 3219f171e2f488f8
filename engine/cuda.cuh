/* What a .cu file includes before anything else of the engine's: CUDA's runtime, then headers of
 * ours that are C, with C's linkage. A file that needs more of them wraps those likewise. */
#ifndef DT_ENGINE_CUDA_CUH
#define DT_ENGINE_CUDA_CUH

#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

extern "C" {
#include "engine/cuda.h"
#include "engine/graph.h"
#include "engine/kernels.h"
}

#endif
