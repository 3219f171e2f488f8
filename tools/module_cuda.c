/* What libdnntrain_cuda.so exports. A layer or an op without a file NAME_cuda.cu has no kernels. */
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/cuda/cuda.h"
#include "engine/version.h"
#include "layers/cuda/libraries_cuda.h"

#define DT_LAYER(name) extern const dt_kernels dt_##name##_cuda __attribute__((weak));
#include "layers/layers.def"
#include "layers/ops.def"
#undef DT_LAYER
extern const dt_kernels dt_codec_cuda;

#define DT_LAYER(name) {#name, &dt_##name##_cuda},
static const struct entry {
    const char *name;
    const dt_kernels *kernels;
} table[] = {
#include "layers/layers.def"
#include "layers/ops.def"
    {"codec", &dt_codec_cuda},
};
#undef DT_LAYER

static const dt_kernels *kernels(const char *layer)
{
    for (size_t i = 0; i < DT_COUNT(table); i++)
        if (strcmp(table[i].name, layer) == 0)
            return table[i].kernels;
    return NULL;
}

DT_API extern const dt_device_module dt_device_module_cuda;
const dt_device_module dt_device_module_cuda = {
    .version = dt_engine_version,
    .driver = &dt_cuda_driver,
    .count_in = dt_alloc_count_in,
    .answers = dt_cuda_answers,
    .kernels = kernels,
    .open = dt_cuda_libraries_open,
    .close = dt_cuda_libraries_close,
};
