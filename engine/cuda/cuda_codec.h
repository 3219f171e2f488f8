/* What a codec is on the CUDA device. */
#ifndef DT_ENGINE_CUDA_CUDA_CODEC_H
#define DT_ENGINE_CUDA_CUDA_CODEC_H

#include "engine/base/error.h"

/**
 * struct dt_cuda_codec - a codec's kernels. Packed bytes are those of dt_pack, header included, bit
 * for bit; both sides are device addresses, 8-byte aligned. Nothing waits.
 * @encode: overflow as in dt_driver.pack
 * @decode: *damaged, in reach of the device, becomes 1 when the bytes cannot have come from encode;
 * nothing is read or written outside the buffers even then
 */
typedef struct dt_cuda_codec {
    dt_status (*encode)(const void *src, size_t count, void *dst, size_t bytes, int *overflow,
        void *queue, dt_err *err);
    dt_status (*decode)(const void *src, size_t bytes, void *dst, size_t count, int *damaged,
        void *queue, dt_err *err);
} dt_cuda_codec;

/* NULL: it has none. Defined beside the codecs. */
const dt_cuda_codec *dt_cuda_codec_find(const char *name);

#endif
