/* How the bytes of a tensor are packed while nobody needs its values. A codec is pure functions
 * over buffers, whose work the calling thread's team shares (engine/base/team.h); it is cut into
 * chunks by size alone, so the bytes are the same on any number of threads and with any instruction
 * set.
 *
 * Values are 32-bit words of which only the bits count: zero is the word with no bit set, so -0.0,
 * denormal numbers and the bits of a NaN come back from an exact codec as they were, whatever the
 * processor does with denormals. Packed bytes are little-endian. Buffers need no alignment; source
 * and destination do not overlap. */
#ifndef DT_ENGINE_CODEC_H
#define DT_ENGINE_CODEC_H

#include "engine/base/error.h"

/**
 * struct dt_rounding - what a codec that rounds by random numbers draws them by.
 * @seed @step: of the run
 * @value:   which of the network's values is packed
 * @samples: of which it is, as many values of each
 * @sample0: global index in the step's batch of the first of them
 * @now:     of a device that works on its own: step, and what sample0 counts from, are read there
 */
typedef struct dt_rounding {
    uint64_t seed;
    int64_t step, value, samples, sample0;
    const struct dt_now *now;
} dt_rounding;

/**
 * struct dt_codec - a way to pack.
 * @name @summary: as in the INI file and in `dnntrain list codecs`
 * @exact:    decode gives the bits that encode read
 * @sparse:   the packed bytes depend on how many values are zero
 * @capacity: bytes that are enough for @count values of which at most the share @density is not
 *            zero, wherever those lie; lz4's are enough for nearly all such values. A density
 *            outside [0, 1], or NaN, counts as 1, and for that they are. SIZE_MAX when it overflows
 * @encode:   pack @count values. *used becomes the bytes that they need, whether they fit or not:
 *            false when that is more than @capacity, and then dst holds nothing of use. Nothing is
 *            ever written past dst + capacity
 * @decode:   unpack @used bytes that encode wrote for @count values. DT_E_DATA when they cannot
 *            have come from it, and then dst holds anything; nothing is read or written outside the
 *            buffers, whatever the bytes
 * @drawn:    of a codec that rounds by random numbers, and packs each sample by itself, so that
 *            what a sample becomes is the same beside any others: capacity for so many samples, and
 *            encode of those that @by tells. capacity and encode above are then of one sample, and
 *            draw by zeros. NULL for others. Such a codec packs what stays on the device alone
 */
typedef struct dt_codec {
    const char *name, *summary;
    bool exact, sparse;
    size_t (*capacity)(size_t count, double density);
    bool (*encode)(const void *src, size_t count, void *dst, size_t capacity, size_t *used);
    dt_status (*decode)(const void *src, size_t used, void *dst, size_t count, dt_err *err);
    struct {
        size_t (*capacity)(size_t count, int64_t samples);
        bool (*encode)(const void *src, size_t count, const dt_rounding *by, void *dst,
            size_t capacity, size_t *used);
    } drawn;
} dt_codec;

/* The codecs that plans name by number, from 1 on, and the op that packs what stays on the device.
 */
typedef struct dt_codec_set {
    const dt_codec *const *codec;
    size_t n;
    const struct dt_layer_desc *op;
} dt_codec_set;

/* Packed bytes with their number before them, as a packed tensor and a tier's slot hold them. When
 * they do not fit, the number says so instead, and unpacking gives zeros: the step that reads them
 * is discarded. */
size_t dt_packed_bytes(
    const dt_codec *codec, size_t count, double density); /* SIZE_MAX: overflow */
bool dt_pack(const dt_codec *codec, const void *src, size_t count, void *dst, size_t bytes);
/* The same of values of several samples, by a codec that draws or any other. */
size_t dt_packed_samples(const dt_codec *codec, size_t count, int64_t samples, double density);
/* The least room that is right: where the bytes depend on the values, any with a header will do, as
 * a step whose values do not fit is run again; else all that they take. */
size_t dt_packed_least(const dt_codec *codec, size_t count, int64_t samples);
bool dt_pack_samples(const dt_codec *codec, const void *src, size_t count, const dt_rounding *by,
    void *dst, size_t bytes);
size_t dti_packed_used(const void *packed, size_t bytes); /* of them, those that say something */
dt_status dt_unpack(const dt_codec *codec, const void *src, size_t bytes, void *dst, size_t count,
    dt_err *err) DT_NODISCARD;

#endif
