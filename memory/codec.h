/* The codecs there are. */
#ifndef DT_MEMORY_CODEC_H
#define DT_MEMORY_CODEC_H

#include "engine/codec.h"
#include "engine/device.h"

/* memory/codecs/codecs.def holds a line a codec. */
const dt_codec *const *dt_codec_all(size_t *n);
const dt_codec *dti_codec_find(const char *name); /* NULL if unknown */

/* In a plan: from 1; 0 stands for NULL. A plan that was read may have any: those of no codec, too,
 * give NULL. */
int32_t dti_codec_number(const dt_codec *codec);
const dt_codec *dt_codec_numbered(int32_t number);

/* Whether a device has kernels for a codec, known without its module. */
bool dti_codec_is_on(const char *name, dt_device_kind device);

/* Of a codec that this build is without, what to install and build again: "liblz4 (Debian:
 * liblz4-dev)"; NULL for others. */
const char *dt_codec_wants(const char *name);

/* For codecs: values that are not zero among @count, at most, by a density as engine/codec.h has
 * it. */
size_t dti_codec_nonzero(size_t count, double density);

#endif
