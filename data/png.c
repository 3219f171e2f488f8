#include "data/png.h"

#include <inttypes.h>
#include <string.h>
#define ZLIB_CONST /* input is const */
#include <zlib.h>

#include "engine/base/alloc.h"

static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

enum { CHUNK_EXTRA = 12, IHDR_BYTES = 13 }; /* length, type and checksum around a chunk's data */

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

bool dt_png_is(const uint8_t *bytes, size_t n)
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

static voidpf zip_alloc(voidpf self, uInt n, uInt each)
{
    (void)self;
    return dt_alloc(n, each);
}

static void zip_free(voidpf self, voidpf p)
{
    (void)self;
    dt_free(p);
}

/* Inflate the IDAT chunks into nothing, up to @most bytes. */
static dt_status count_raw(
    const char *name, const uint8_t *bytes, size_t n, uint64_t most, dt_err *err)
{
    uint8_t sink[16384];
    z_stream z = {.zalloc = zip_alloc, .zfree = zip_free};
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
    return DT_OK; /* whatever else is wrong with the data, decoding will say */
}

dt_status dt_png_check(const char *name, const uint8_t *bytes, size_t n, dt_err *err)
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
