/* The registry of codecs. */
#include "memory/codec.h"

#include <math.h>
#include <string.h>

#include "memory/codec_op.h"

#define DT_CODEC(n) extern const dt_codec dt_codec_##n;
#include "memory/codecs/codecs.def"
#undef DT_CODEC

static const dt_codec *const all_codecs[] = {
#define DT_CODEC(n) &dt_codec_##n,
#include "memory/codecs/codecs.def"
#undef DT_CODEC
};

const dt_codec_set dt_codecs = {all_codecs, DT_COUNT(all_codecs), &dt_codec_op};

const dt_codec *const *dt_codec_all(size_t *n)
{
    *n = DT_COUNT(all_codecs);
    return all_codecs;
}

const dt_codec *dti_codec_find(const char *name)
{
    for (size_t i = 0; i < DT_COUNT(all_codecs); i++)
        if (strcmp(all_codecs[i]->name, name) == 0)
            return all_codecs[i];
    return NULL;
}

/* Each match of lz4 depends on the bytes before it. */
bool dti_codec_is_on(const char *name, dt_device_kind device)
{
    return device == DT_CPU || strcmp(name, "lz4") != 0;
}

const char *dt_codec_wants(const char *name)
{
    const bool lz4 = strcmp(name, "lz4") == 0 && dti_codec_find(name) == NULL;
    return lz4 ? "liblz4 (Debian: liblz4-dev)" : NULL;
}

int32_t dti_codec_number(const dt_codec *codec)
{
    for (size_t i = 0; i < DT_COUNT(all_codecs); i++)
        if (all_codecs[i] == codec)
            return (int32_t)i + 1;
    return 0;
}

const dt_codec *dt_codec_numbered(int32_t number)
{
    return number > 0 && (size_t)number <= DT_COUNT(all_codecs) ? all_codecs[number - 1] : NULL;
}

size_t dti_codec_nonzero(size_t count, double density)
{
    if (!(density >= 0.0 && density < 1.0))
        return count;
    const double most = ceil(density * (double)count); /* below 2^64, because density is below 1 */
    return most < (double)count ? (size_t)most : count;
}
