/* The CUDA device, for the files that are built into its module (libdnntrain_cuda.so): kernels of
 * layers and codecs, and the driver. Nothing here needs CUDA's own headers. Sources in C++ (.cu)
 * include engine/cuda/cuda.cuh, which brings this.
 *
 * layers/ defines `extern "C" const dt_kernels dt_NAME_cuda` for each NAME of layers.def and
 * ops.def that has kernels, and it is found by that name. */
#ifndef DT_ENGINE_CUDA_CUDA_H
#define DT_ENGINE_CUDA_CUDA_H

#include "engine/device.h"
#include "engine/driver.h"

extern const dt_driver dt_cuda_driver;

enum { DTI_CUDA_CARD = 0 }; /* CUDA's number of it: CUDA_VISIBLE_DEVICES says which that is */

/* Have what the calling thread asks of CUDA mean this card, whichever a host program meant. */
dt_status dt_cuda_enter(dt_err *err) DT_NODISCARD;

/* Whether a card that serves answers; if not, @why tells what is in the way and what to do. */
bool dt_cuda_answers(dt_err *why);
/* Where no card answered when something was planned: why it cannot be run. Never DT_OK. */
dt_status dt_cuda_absent(dt_err *why) DT_NODISCARD;

/* What a call of CUDA's runtime returned (a cudaError_t), as a status; @call is its text. Anything
 * but success is DT_E_DEVICE, or DT_E_NOMEM, with CUDA's name and text for it and what to do. */
dt_status dti_cuda_status(int error, const char *call, dt_err *err) DT_NODISCARD;

/* After a launch: whether it was accepted. @what: whose it was ("conv forward"). */
dt_status dt_cuda_launched(const char *what, dt_err *err) DT_NODISCARD;

/* Return when a call of CUDA's runtime fails. Only where nothing is held. */
#define DT_CUDA_TRY(err, call) DT_CHECK(dti_cuda_status((int)(call), #call, (err)))

/**
 * struct dt_cuda_codec - a codec's kernels. Packed bytes are those of dt_pack, header included, bit
 * for bit; both sides are device addresses, 8-byte aligned. Nothing waits.
 * @encode: overflow as in dt_driver.pack
 * @decode: *damaged, in reach of the device, becomes 1 when the bytes cannot have come from encode;
 * nothing is read or written outside the buffers even then
 * @encode_samples: encode of several samples, of a codec that draws; NULL for others
 */
typedef struct dt_cuda_codec {
    dt_status (*encode)(const void *src, size_t count, void *dst, size_t bytes, int *overflow,
        void *queue, dt_err *err);
    dt_status (*decode)(const void *src, size_t bytes, void *dst, size_t count, int *damaged,
        void *queue, dt_err *err);
    dt_status (*encode_samples)(const void *src, size_t count, const dt_rounding *by, void *dst,
        size_t bytes, int *overflow, void *queue, dt_err *err);
} dt_cuda_codec;

/* NULL: it has none. Defined beside the codecs. */
const dt_cuda_codec *dt_cuda_codec_find(const char *name);

#endif
