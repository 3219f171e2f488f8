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
#endif

#endif
