#include "data/jpeg.h"

#include <string.h>

enum { STUFFED = 0x00, TEM = 0x01, DHT = 0xC4, RST0 = 0xD0, SOI = 0xD8, EOI = 0xD9, SOS = 0xDA };
enum { MOST_CODES = 256, TABLE_HEAD = 17 }; /* class and number, then 16 counts */

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

dt_status dt_jpeg_check(const char *name, const uint8_t *bytes, size_t n, dt_err *err)
{
    int scans = 0;
    for (size_t at = 0;;) {
        const int marker = next_marker(bytes, n, &at);
        if (marker < 0 || marker == EOI)
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
    if (scans > DT_JPEG_SCANS)
        return DT_FAIL(err, DT_E_DATA, "%s: a JPEG of %d scans, at most %d are decoded", name,
            scans, DT_JPEG_SCANS);
    return DT_OK;
}
