/* AMX, the matrix unit of newer x86 processors: eight tiles of 16 rows of 64 bytes. */
#ifndef DT_LAYERS_BLOCKED_AMX_H
#define DT_LAYERS_BLOCKED_AMX_H

#include "engine/base/compiler.h"

#if defined(__x86_64__) && defined(__linux__) && !defined(__SANITIZE_THREAD__)
#define DT_AMX __attribute__((target("amx-tile,amx-bf16")))
#endif

/* Rows of a tile; with values of bf16 a row is 32 of them, 16 pairs. */
enum { DTI_AMX_TILE = 16, DTI_AMX_STEP = 2 * DTI_AMX_TILE };

/* Whether this processor multiplies tiles of bf16 and the kernel lets it. */
bool dti_amx_here(void);

#ifdef DT_AMX
#include <immintrin.h>

typedef struct dti_amx_tiles {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} dti_amx_tiles;

/* Before and after a thread's use of tiles, all of which have their full size. */
DT_AMX static inline void dti_amx_begin(void)
{
    static const dti_amx_tiles tiles = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64},
        {DTI_AMX_TILE, DTI_AMX_TILE, DTI_AMX_TILE, DTI_AMX_TILE, DTI_AMX_TILE, DTI_AMX_TILE,
            DTI_AMX_TILE, DTI_AMX_TILE}};
    _tile_loadconfig(&tiles);
}

DT_AMX static inline void dti_amx_end(void)
{
    _tile_release();
}

/* 16 rows of 16 words become columns: of pairs of bf16, what one factor of a product wants
 * transposed.
 */
__attribute__((target("avx512f"))) static inline void dti_amx_transpose(__m512i v[16])
{
    __m512i t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        v[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        v[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        v[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        v[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int k = 0; k < 4; k++) {
        const __m512i a = _mm512_shuffle_i32x4(v[k], v[4 + k], 0x88);
        const __m512i b = _mm512_shuffle_i32x4(v[8 + k], v[12 + k], 0x88);
        const __m512i c = _mm512_shuffle_i32x4(v[k], v[4 + k], 0xDD);
        const __m512i d = _mm512_shuffle_i32x4(v[8 + k], v[12 + k], 0xDD);
        t[k] = _mm512_shuffle_i32x4(a, b, 0x88);
        t[4 + k] = _mm512_shuffle_i32x4(c, d, 0x88);
        t[8 + k] = _mm512_shuffle_i32x4(a, b, 0xDD);
        t[12 + k] = _mm512_shuffle_i32x4(c, d, 0xDD);
    }
    for (int i = 0; i < 16; i++)
        v[i] = t[i];
}
#endif

#endif
