/* What all codecs share: headers and checks. */
#include "engine/codec.h"

#include <string.h>

enum { HEADER = sizeof(uint64_t) };
static const uint64_t overflown = UINT64_MAX;

static size_t with_header(size_t room)
{
    return room > SIZE_MAX - HEADER ? SIZE_MAX : room + HEADER;
}

size_t dt_packed_bytes(const dt_codec *codec, size_t count, double density)
{
    return with_header(codec->capacity(count, density));
}

size_t dt_packed_samples(const dt_codec *codec, size_t count, int64_t samples, double density)
{
    if (codec->drawn.capacity == NULL)
        return dt_packed_bytes(codec, count, density);
    return with_header(codec->drawn.capacity(count, samples));
}

size_t dt_packed_least(const dt_codec *codec, size_t count, int64_t samples)
{
    return codec->sparse ? dt_packed_bytes(codec, 0, 0)
                         : dt_packed_samples(codec, count, samples, 1);
}

static bool write_header(void *dst, bool fits, size_t used)
{
    const uint64_t header = fits ? used : overflown;
    memcpy(dst, &header, sizeof header);
    return fits;
}

bool dt_pack(const dt_codec *codec, const void *src, size_t count, void *dst, size_t bytes)
{
    size_t used = 0;
    const bool fits = codec->encode(src, count, (char *)dst + HEADER, bytes - HEADER, &used);
    return write_header(dst, fits, used);
}

bool dt_pack_samples(const dt_codec *codec, const void *src, size_t count, const dt_rounding *by,
    void *dst, size_t bytes)
{
    size_t used = 0;
    if (codec->drawn.encode == NULL)
        return dt_pack(codec, src, count, dst, bytes);
    const bool fits =
        codec->drawn.encode(src, count, by, (char *)dst + HEADER, bytes - HEADER, &used);
    return write_header(dst, fits, used);
}

size_t dti_packed_used(const void *packed, size_t bytes)
{
    uint64_t header;
    memcpy(&header, packed, sizeof header);
    return header <= bytes - HEADER ? (size_t)header + HEADER : HEADER;
}

dt_status dt_unpack(
    const dt_codec *codec, const void *src, size_t bytes, void *dst, size_t count, dt_err *err)
{
    uint64_t header;
    memcpy(&header, src, sizeof header);
    if (header == overflown) {
        memset(dst, 0, count * sizeof(float));
        return DT_OK;
    }
    if (header > bytes - HEADER)
        return DT_FAIL(
            err, DT_E_DATA, "%s: the packed bytes are not what encode wrote", codec->name);
    return codec->decode((const char *)src + HEADER, (size_t)header, dst, count, err);
}
