#include "data/decode.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "data/jpeg.h"
#include "data/png.h"
#include "data/stb.h"
#include "engine/base/alloc.h"

enum { MAX_SIDE = 32768, MAX_PIXELS = 64 << 20, FREE_PIXELS = 1 << 20, PIXELS_A_BYTE = 2000 };

static dt_status check_size(const char *name, int64_t w, int64_t h, size_t n, dt_err *err)
{
    if (w < 1 || h < 1)
        return DT_FAIL(
            err, DT_E_DATA, "%s: a picture of %" PRId64 "x%" PRId64 " pixels", name, w, h);
    if (w > MAX_SIDE || h > MAX_SIDE || w * h > MAX_PIXELS)
        return DT_FAIL(err, DT_E_DATA,
            "%s: its header says %" PRId64 "x%" PRId64
            " pixels; at most %d a side and %d in all are decoded",
            name, w, h, MAX_SIDE, MAX_PIXELS);
    if (w * h > FREE_PIXELS && (uint64_t)(w * h) / n > PIXELS_A_BYTE)
        return DT_FAIL(err, DT_E_DATA,
            "%s: its header says %" PRId64 "x%" PRId64 " pixels, its %zu bytes cannot hold them",
            name, w, h, n);
    return DT_OK;
}

static uint32_t little_endian(const uint8_t *p, int n)
{
    uint32_t v = 0;
    while (n-- > 0)
        v = v << 8 | p[n];
    return v;
}

/* The decoder reads zeros past the end of a BMP, so its length is checked here; rows are padded
 * to 4. */
static dt_status check_bmp(
    const char *name, const uint8_t *bytes, size_t n, int64_t w, int64_t h, dt_err *err)
{
    if (n < 30)
        return DT_FAIL(err, DT_E_DATA, "%s: BMP ends early, it has %zu bytes", name, n);
    const uint64_t offset = little_endian(bytes + 10, 4);
    const bool old = little_endian(bytes + 14, 4) == 12;
    const uint64_t bits = little_endian(bytes + (old ? 24 : 28), 2);
    const uint64_t row = ((uint64_t)w * bits + 31) / 32 * 4, last = ((uint64_t)w * bits + 7) / 8;
    const uint64_t need = offset + row * (uint64_t)(h - 1) + last;
    if (need > n)
        return DT_FAIL(err, DT_E_DATA,
            "%s: BMP ends early: it has %zu bytes, its header needs %" PRIu64, name, n, need);
    return DT_OK;
}

static dt_status no_picture(const char *name, dt_err *err)
{
    if (dt_stb_out_of_memory())
        return DT_FAIL(err, DT_E_NOMEM, "%s: no memory to decode it", name);
    return DT_FAIL(err, DT_E_DATA, "%s: cannot be decoded (%s)", name, dt_stb_reason());
}

static dt_status check(const char *name, const uint8_t *bytes, size_t n, int *channels, dt_err *err)
{
    int w = 0, h = 0;
    if (n == 0 || n > DT_IMAGE_FILE_BYTES)
        return DT_FAIL(err, DT_E_DATA, "%s: a file of %zu bytes, 1 to %d are read", name, n,
            DT_IMAGE_FILE_BYTES);
    const bool png = dt_png_is(bytes, n), bmp = n > 2 && bytes[0] == 'B' && bytes[1] == 'M';
    const bool jpeg = n > 2 && bytes[0] == 0xFF && bytes[1] == 0xD8;
    if (!png && !bmp && !jpeg)
        return DT_FAIL(err, DT_E_DATA, "%s: not a JPEG, PNG or BMP picture", name);
    if (jpeg)
        DT_CHECK(dt_jpeg_check(name, bytes, n, err));
    if (!dt_stb_info(bytes, (int)n, &w, &h, channels))
        return no_picture(name, err);
    /* the sign of a BMP's height says which row comes first */
    const int64_t rows = bmp && h < 0 ? -(int64_t)h : h;
    DT_CHECK(check_size(name, w, rows, n, err));
    if (png)
        return dt_png_check(name, bytes, n, err);
    return bmp ? check_bmp(name, bytes, n, w, rows, err) : DT_OK;
}

dt_status dt_decode(dt_picture *p, const char *name, const uint8_t *bytes, size_t n, dt_err *err)
{
    int w, h, channels;
    *p = (dt_picture){0};
    DT_CHECK(check(name, bytes, n, &channels, err));
    channels = channels <= 2 ? 1 : 3;
    uint8_t *px = dt_stb_decode(bytes, (int)n, &w, &h, channels);
    if (px == NULL)
        return no_picture(name, err);
    *p = (dt_picture){px, h, w, channels};
    return DT_OK;
}
