#include "engine/sha256.h"

#include <stdio.h>
#include <string.h>

#include "engine/alloc.h"
#include "engine/io.h"

enum { PIECE = 1 << 20 };

/* Fractional parts of the cube roots of the first 64 primes. */
static const uint32_t k[64] = {0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b,
    0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74,
    0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
    0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3,
    0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354,
    0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819,
    0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3,
    0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa,
    0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static inline uint32_t turn(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

/* Round @r of eight: the word called a in the standard is h[-r], and so on. */
static inline void one_round(uint32_t h[8], int r, uint32_t more)
{
    const uint32_t a = h[(8 - r) & 7], b = h[(9 - r) & 7], c = h[(10 - r) & 7];
    const uint32_t e = h[(12 - r) & 7], f = h[(13 - r) & 7], g = h[(14 - r) & 7];
    const uint32_t t =
        h[(15 - r) & 7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + more;
    h[(11 - r) & 7] += t;
    h[(15 - r) & 7] = t + (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
}

static void take_block(dt_sha256 *s, const uint8_t *p)
{
    uint32_t w[64], h[8];
    for (int i = 0; i < 16; i++, p += 4)
        w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    for (int i = 16; i < 64; i++) {
        const uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) +
               (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
    memcpy(h, s->h, sizeof h);
    for (int i = 0; i < 64; i += 8)
#pragma GCC unroll 8
        for (int r = 0; r < 8; r++)
            one_round(h, r, k[i + r] + w[i + r]);
    for (int i = 0; i < 8; i++)
        s->h[i] += h[i];
}

void dt_sha256_init(dt_sha256 *s)
{
    *s = (dt_sha256){.h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                         0x1f83d9ab, 0x5be0cd19}};
}

void dt_sha256_add(dt_sha256 *s, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    while (n > 0) {
        const size_t held = (size_t)(s->bytes % sizeof s->block);
        const size_t room = sizeof s->block - held, m = n < room ? n : room;
        if (m == sizeof s->block) {
            take_block(s, p);
        } else {
            memcpy(s->block + held, p, m);
            if (m == room)
                take_block(s, s->block);
        }
        s->bytes += m;
        p += m;
        n -= m;
    }
}

void dt_sha256_text(dt_sha256 *s, char to[DT_SHA256_TEXT])
{
    static const uint8_t pad[64] = {0x80};
    const uint64_t bits = s->bytes * 8;
    const size_t held = (size_t)(s->bytes % sizeof s->block);
    uint8_t length[8];
    dt_sha256_add(s, pad, (held < 56 ? 56 : 120) - held);
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    dt_sha256_add(s, length, sizeof length);
    for (int i = 0; i < 8; i++)
        snprintf(to + (ptrdiff_t)8 * i, 9, "%08x", (unsigned)s->h[i]);
}

dt_status dt_sha256_file(
    const char *path, char to[DT_SHA256_TEXT], uint64_t *bytes, dt_status wrong, dt_err *err)
{
    int fd;
    off_t size;
    DT_CHECK(dt_open_regular(&fd, &size, path, wrong, err));
    uint8_t *piece = dt_alloc(PIECE, 1);
    dt_status st = piece != NULL ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory to read '%s'", path);
    dt_sha256 s;
    dt_sha256_init(&s);
    for (off_t at = 0; at < size && st == DT_OK;) {
        const size_t n = size - at < PIECE ? (size_t)(size - at) : PIECE;
        st = dt_read_at(fd, path, piece, n, at, err);
        if (st == DT_OK)
            dt_sha256_add(&s, piece, n);
        at += (off_t)n;
    }
    dt_free(piece);
    (void)dt_close(fd); /* nothing was written */
    if (st == DT_OK)
        dt_sha256_text(&s, to);
    *bytes = (uint64_t)size;
    return st;
}
