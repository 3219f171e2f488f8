/* Image files: each format is checked for what stb_image leaves out, then decoded by it. */
#include "data/decode.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "data/stb.h"
#include "data/unzip.h"
#include "engine/base/alloc.h"

/* ---- JPEG ---- */

/* stb_image trusts the counts of Huffman tables (a table of more than 256 codes is written past its
 * end) and decodes as many scans as there are. */

enum { STUFFED = 0x00, TEM = 0x01, DHT = 0xC4, RST0 = 0xD0, SOI = 0xD8, EOI = 0xD9, SOS = 0xDA };
enum { JPEG_SCANS = 500, MOST_CODES = 256, TABLE_HEAD = 17 }; /* class and number, then 16 counts */

static dt_status check_tables(const char *name, const uint8_t *p, size_t n, size_t at, dt_err *err)
{
    while (n > 0) {
        size_t codes = 0;
        for (size_t i = 1; i < TABLE_HEAD && n >= TABLE_HEAD; i++)
            codes += p[i];
        if (n < TABLE_HEAD || codes > MOST_CODES || codes > n - TABLE_HEAD)
            return DT_FAIL(err, DT_E_DATA,
                "%s: cannot be decoded: bad Huffman table in the JPEG segment at byte %zu", name,
                at);
        p += TABLE_HEAD + codes;
        n -= TABLE_HEAD + codes;
    }
    return DT_OK;
}

/* Moves *at behind the next marker, FF and any number of further FF before it; -1 when there is
 * none. */
static int next_marker(const uint8_t *bytes, size_t n, size_t *at)
{
    const uint8_t *p = memchr(bytes + *at, 0xFF, n - *at);
    if (p == NULL)
        return -1;
    for (*at = (size_t)(p - bytes); *at < n && bytes[*at] == 0xFF;)
        ++*at;
    return *at < n ? bytes[(*at)++] : -1;
}

/* Within entropy-coded data FF is followed by 00 or a restart, so a scan needs no length to be
 * passed over. */
static bool stands_alone(int marker)
{
    return marker <= TEM || (marker >= RST0 && marker <= SOI);
}

/* Walks the segments as the decoder does: each lies in the file, Huffman tables have at most 256
 * codes and lie in their segment, there are at most JPEG_SCANS scans. DT_E_DATA names what is
 * wrong. Whatever else may be wrong the decoder sees. */
static dt_status check_jpeg(const char *name, const uint8_t *bytes, size_t n, dt_err *err)
{
    int scans = 0;
    for (size_t at = 0;;) {
        const int marker = next_marker(bytes, n, &at);
        if (marker < 0)
            return DT_FAIL(err, DT_E_DATA,
                "%s: cannot be decoded: JPEG ends early, at byte %zu, without its last marker",
                name, n);
        if (marker == EOI)
            break;
        if (stands_alone(marker))
            continue;
        const size_t length = n - at >= 2 ? (size_t)bytes[at] << 8 | bytes[at + 1] : 0;
        if (length < 2 || length > n - at)
            return DT_FAIL(err, DT_E_DATA,
                "%s: cannot be decoded: JPEG ends within the segment at byte %zu", name, at);
        if (marker == DHT)
            DT_CHECK(check_tables(name, bytes + at + 2, length - 2, at, err));
        scans += marker == SOS;
        at += length;
    }
    if (scans > JPEG_SCANS)
        return DT_FAIL(err, DT_E_DATA, "%s: a JPEG of %d scans, at most %d are decoded", name,
            scans, JPEG_SCANS);
    return DT_OK;
}

/* ---- PNG ---- */

/* stb_image verifies no checksum, and inflates whatever the data holds. */

static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

enum { CHUNK_EXTRA = 12, IHDR_BYTES = 13 }; /* length, type and checksum around a chunk's data */

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static bool is_png(const uint8_t *bytes, size_t n)
{
    return n >= sizeof signature && memcmp(bytes, signature, sizeof signature) == 0;
}

/* One chunk; data is NULL at the end of the file. */
typedef struct chunk {
    const uint8_t *type, *data;
    uint32_t n;
} chunk;

static bool next_chunk(chunk *c, const uint8_t *bytes, size_t n, size_t *at)
{
    if (n - *at < CHUNK_EXTRA)
        return false;
    const uint32_t length = big_endian(bytes + *at);
    if (length > n - *at - CHUNK_EXTRA)
        return false;
    *c = (chunk){.type = bytes + *at + 4, .data = bytes + *at + 8, .n = length};
    *at += (size_t)length + CHUNK_EXTRA;
    return true;
}

static bool is(const chunk *c, const char type[5])
{
    return memcmp(c->type, type, 4) == 0;
}

/* Bytes that the rows of a picture can take: twice what a plain one has, so that interlaced ones
 * fit. */
static uint64_t most_raw(const uint8_t ihdr[IHDR_BYTES])
{
    const uint64_t w = big_endian(ihdr), h = big_endian(ihdr + 4);
    const uint64_t bits = w * ihdr[8] * 4; /* at most four channels */
    return w < UINT32_MAX >> 8 && h < UINT32_MAX >> 8 ? 2 * h * (bits / 8 + 3) + 1024 : 0;
}

/* Inflate the IDAT chunks into nothing, up to @most bytes. */
static dt_status count_raw(
    const char *name, const uint8_t *bytes, size_t n, uint64_t most, dt_err *err)
{
    uint8_t sink[16384];
    z_stream z = {.zalloc = dt_zip_alloc, .zfree = dt_zip_free};
    if (inflateInit(&z) != Z_OK)
        return DT_FAIL(err, DT_E_NOMEM, "%s: no memory to inflate it", name);
    chunk c;
    int r = Z_OK;
    uint64_t raw = 0;
    for (size_t at = sizeof signature; raw <= most && next_chunk(&c, bytes, n, &at);) {
        if (!is(&c, "IDAT"))
            continue;
        z.next_in = c.data;
        z.avail_in = c.n;
        while (r == Z_OK && raw <= most && (z.avail_in > 0 || z.avail_out == 0)) {
            z.next_out = sink;
            z.avail_out = sizeof sink;
            r = inflate(&z, Z_NO_FLUSH);
            raw += sizeof sink - z.avail_out;
        }
        r = r == Z_BUF_ERROR ? Z_OK : r; /* this chunk is used up */
    }
    inflateEnd(&z);
    if (raw > most)
        return DT_FAIL(err, DT_E_DATA,
            "%s: its data inflates past the %" PRIu64 " bytes its size allows", name, most);
    if (r == Z_MEM_ERROR)
        return DT_FAIL(err, DT_E_NOMEM, "%s: no memory to inflate it", name);
    /* The decoder takes some of what zlib refuses, and then without a bound. */
    if (r != Z_OK && r != Z_STREAM_END)
        return DT_FAIL(err, DT_E_DATA, "%s: its data cannot be inflated: %s", name,
            z.msg != NULL ? z.msg : zError(r));
    return DT_OK; /* whatever else is wrong with the data, decoding will say */
}

/* Every chunk whole and with the right checksum, up to IEND; and the pixel data, where inflating it
 * could take more than 256 MiB, no longer than width and height allow. DT_E_DATA names what is
 * wrong. */
static dt_status check_png(const char *name, const uint8_t *bytes, size_t n, dt_err *err)
{
    chunk c, ihdr = {0};
    uint64_t packed = 0;
    for (size_t at = sizeof signature;;) {
        const size_t start = at;
        if (!next_chunk(&c, bytes, n, &at))
            return DT_FAIL(err, DT_E_DATA, "%s: PNG ends early, in a chunk at byte %zu of %zu",
                name, start, n);
        if (crc32(crc32(0, Z_NULL, 0), c.type, c.n + 4) != big_endian(c.data + c.n))
            return DT_FAIL(
                err, DT_E_DATA, "%s: wrong checksum of the PNG chunk at byte %zu", name, start);
        if (ihdr.data == NULL && (!is(&c, "IHDR") || c.n != IHDR_BYTES))
            return DT_FAIL(err, DT_E_DATA, "%s: PNG without a header", name);
        if (ihdr.data == NULL)
            ihdr = c;
        packed += is(&c, "IDAT") ? c.n : 0;
        if (is(&c, "IEND"))
            break;
    }
    /* Deflate yields at most 1032 bytes from one. */
    const uint64_t freely = (uint64_t)256 << 20;
    return packed * 1032 > freely ? count_raw(name, bytes, n, most_raw(ihdr.data), err) : DT_OK;
}

/* ---- BMP ---- */

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

/* ---- all of them ---- */

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

static dt_status no_picture(const char *name, dt_err *err)
{
    if (dti_stb_out_of_memory())
        return DT_FAIL(err, DT_E_NOMEM, "%s: no memory to decode it", name);
    return DT_FAIL(err, DT_E_DATA, "%s: cannot be decoded (%s)", name, dti_stb_reason());
}

static dt_status check(const char *name, const uint8_t *bytes, size_t n, int *channels, dt_err *err)
{
    int w = 0, h = 0;
    if (n == 0 || n > DTI_IMAGE_FILE_BYTES)
        return DT_FAIL(err, DT_E_DATA, "%s: a file of %zu bytes, 1 to %d are read", name, n,
            DTI_IMAGE_FILE_BYTES);
    const bool png = is_png(bytes, n), bmp = n > 2 && bytes[0] == 'B' && bytes[1] == 'M';
    const bool jpeg = n > 2 && bytes[0] == 0xFF && bytes[1] == 0xD8;
    if (!png && !bmp && !jpeg)
        return DT_FAIL(err, DT_E_DATA, "%s: not a JPEG, PNG or BMP picture", name);
    if (jpeg)
        DT_CHECK(check_jpeg(name, bytes, n, err));
    if (!dti_stb_info(bytes, (int)n, &w, &h, channels))
        return no_picture(name, err);
    /* the sign of a BMP's height says which row comes first */
    const int64_t rows = bmp && h < 0 ? -(int64_t)h : h;
    DT_CHECK(check_size(name, w, rows, n, err));
    if (png)
        return check_png(name, bytes, n, err);
    return bmp ? check_bmp(name, bytes, n, w, rows, err) : DT_OK;
}

dt_status dti_decode(dti_picture *p, const char *name, const uint8_t *bytes, size_t n, dt_err *err)
{
    int w, h, channels;
    *p = (dti_picture){0};
    DT_CHECK(check(name, bytes, n, &channels, err));
    channels = channels <= 2 ? 1 : 3;
    uint8_t *px = dti_stb_decode(bytes, (int)n, &w, &h, channels);
    if (px == NULL)
        return no_picture(name, err);
    *p = (dti_picture){px, h, w, channels};
    return DT_OK;
}
