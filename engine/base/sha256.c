/* SHA-256, plain and by the processor's instructions. */
#include "engine/base/sha256.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include "engine/base/read_ahead.h"

enum { BLOCK = 64 };

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

static void plain_block(uint32_t sum[8], const uint8_t *p)
{
    uint32_t w[64], h[8];
    for (int i = 0; i < 16; i++, p += 4)
        w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    for (int i = 16; i < 64; i++) {
        const uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) +
               (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
    memcpy(h, sum, sizeof h);
    for (int i = 0; i < 64; i += 8)
#pragma GCC unroll 8
        for (int r = 0; r < 8; r++)
            one_round(h, r, k[i + r] + w[i + r]);
    for (int i = 0; i < 8; i++)
        sum[i] += h[i];
}

static void plain_blocks(uint32_t sum[8], const uint8_t *p, size_t n)
{
    for (; n > 0; n--, p += BLOCK)
        plain_block(sum, p);
}

#if defined(__x86_64__)

/* Ahead of the block at hand: what it needs is a memory's latency away, and no processor looks past
 * a page by itself, so that without it bytes from memory take almost twice as long as from a cache.
 */
enum { AHEAD = 1024 };

/* The same by the processor's own instructions. They keep the words in two registers, from the top
 * a b e f and c d g h, and do two rounds at a time. */
__attribute__((target("sha,sse4.1,ssse3"))) static void fast_blocks(
    uint32_t sum[8], const uint8_t *p, size_t n)
{
    const __m128i big_endian = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
    __m128i *const to = (__m128i *)(void *)sum;
    const __m128i low = _mm_shuffle_epi32(_mm_loadu_si128(to), 0xB1);      /* c d a b */
    const __m128i high = _mm_shuffle_epi32(_mm_loadu_si128(to + 1), 0x1B); /* e f g h */
    __m128i abef = _mm_alignr_epi8(low, high, 8), cdgh = _mm_blend_epi16(high, low, 0xF0);
    for (; n > 0; n--, p += BLOCK) {
        _mm_prefetch((const char *)p + AHEAD, _MM_HINT_T0); /* of no bytes at the end: harmless */
        const __m128i a = abef, c = cdgh;
        __m128i w[4]; /* the last 16 words of the schedule, in turn */
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            __m128i *now = &w[i & 3];
            const __m128i before = w[(i + 3) & 3];
            if (i < 4) {
                const __m128i *from = (const __m128i *)(const void *)p + i;
                *now = _mm_shuffle_epi8(_mm_loadu_si128(from), big_endian);
            } else {
                *now = _mm_sha256msg1_epu32(*now, w[(i + 1) & 3]);
                *now = _mm_add_epi32(*now, _mm_alignr_epi8(before, w[(i + 2) & 3], 4));
                *now = _mm_sha256msg2_epu32(*now, before);
            }
            const __m128i *constants = (const __m128i *)(const void *)k + i;
            const __m128i more = _mm_add_epi32(*now, _mm_loadu_si128(constants));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, more);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(more, 0x0E));
        }
        abef = _mm_add_epi32(abef, a);
        cdgh = _mm_add_epi32(cdgh, c);
    }
    const __m128i first = _mm_shuffle_epi32(abef, 0x1B), last = _mm_shuffle_epi32(cdgh, 0xB1);
    _mm_storeu_si128(to, _mm_blend_epi16(first, last, 0xF0));
    _mm_storeu_si128(to + 1, _mm_alignr_epi8(last, first, 8));
}

static bool has_fast(void)
{
    unsigned a, b, c, d, more;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !__get_cpuid_count(7, 0, &a, &more, &b, &d))
        return false;
    return (c & bit_SSSE3) != 0 && (c & bit_SSE4_1) != 0 && (more & bit_SHA) != 0;
}

#else

static void fast_blocks(uint32_t sum[8], const uint8_t *p, size_t n)
{
    plain_blocks(sum, p, n);
}

static bool has_fast(void)
{
    return false;
}

#endif

static atomic_bool not_fast; /* set by tests only */

bool dti_sha256_fast(bool allowed)
{
    not_fast = !allowed;
    return allowed && has_fast();
}

/* Asking the processor takes longer than a few blocks, so the answer is kept. Threads that ask at
 * the same time find the same. */
static void take_blocks(dt_sha256 *s, const uint8_t *p, size_t n)
{
    static atomic_int known;
    int fast = atomic_load_explicit(&known, memory_order_relaxed);
    if (fast == 0) {
        fast = has_fast() ? 1 : -1;
        atomic_store_explicit(&known, fast, memory_order_relaxed);
    }
    (fast > 0 && !not_fast ? fast_blocks : plain_blocks)(s->h, p, n);
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
        const size_t room = sizeof s->block - held;
        size_t m = n < room ? n : room;
        if (m == sizeof s->block) {
            m = n - n % BLOCK;
            take_blocks(s, p, m / BLOCK);
        } else {
            memcpy(s->block + held, p, m);
            if (m == room)
                take_blocks(s, s->block, 1);
        }
        s->bytes += m;
        p += m;
        n -= m;
    }
}

void dt_sha256_add_text(dt_sha256 *s, const char *text)
{
    dt_sha256_add(s, text, strlen(text) + 1);
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

dt_status dti_sha256_file(
    const char *path, char to[DT_SHA256_TEXT], uint64_t *bytes, dt_status wrong, dt_err *err)
{
    dti_ahead *a;
    const void *p;
    size_t n;
    dt_sha256 s;
    DT_CHECK(dti_ahead_open(&a, path, wrong, err));
    dt_sha256_init(&s);
    dt_status st = dti_ahead_next(a, &p, &n, err);
    while (st == DT_OK && n > 0) {
        dt_sha256_add(&s, p, n);
        st = dti_ahead_next(a, &p, &n, err);
    }
    *bytes = (uint64_t)dti_ahead_bytes(a);
    dti_ahead_close(a);
    if (st == DT_OK)
        dt_sha256_text(&s, to);
    return st;
}
