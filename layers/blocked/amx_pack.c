#include "layers/blocked/amx_pack.h"

#include "layers/cpu/team.h"

enum { TILE = DT_AMX_TILE, STEP = DT_AMX_STEP };

dt_amx_layout dt_amx_layout_of(const dt_amx_weights *a)
{
    const int64_t past = (a->kernel - 1) / a->stride;
    dt_amx_layout l = {.across = dt_ceil_div(a->w + 2 * a->pad, a->stride),
        .down = dt_ceil_div(a->h + 2 * a->pad, a->stride),
        .side = a->kernel < a->stride ? a->kernel : a->stride};
    l.phases = l.side * l.side;
    l.steps = dt_ceil_div(a->p * l.across, STEP);
    l.pitch = (dt_ceil_div(l.down * l.across + past + STEP, STEP) | 1) * STEP;
    l.x = l.phases * a->c * l.pitch;
    l.dy = a->out * l.steps * STEP;
    return l;
}

#ifdef DT_AMX
#define AVX512 __attribute__((target("avx512f")))

/* 16 channels of two pixels, side by side; a pixel outside is 0. */
AVX512 DT_INLINE __m512i pair_of(const dt_bf16 *even, const dt_bf16 *odd)
{
    __m512i low = _mm512_setzero_si512(), high = low;
    if (even != NULL)
        low = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)even));
    if (odd != NULL)
        high = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)odd));
    return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

/* Goes through the pixels of an image, counted with @across to a row. */
typedef struct walk {
    const dt_bf16 *image;
    int64_t h, w, c;        /* of the image */
    int64_t r0, q0, stride; /* where pixel 0 lies in it, and how far on the next */
    int64_t across, row, col;
} walk;

/* The next pixel; NULL outside the image. */
static const dt_bf16 *next_pixel(walk *w)
{
    const int64_t r = w->r0 + w->row * w->stride, q = w->q0 + w->col * w->stride;
    if (++w->col == w->across) {
        w->col = 0;
        w->row++;
    }
    return r < 0 || r >= w->h || q < 0 || q >= w->w ? NULL : w->image + (r * w->w + q) * w->c;
}

static const dt_bf16 *moved(const dt_bf16 *p, int64_t by)
{
    return p == NULL ? NULL : p + by;
}

AVX512 static void pack_phase(const dt_amx_weights *a, const dt_amx_layout *l, walk w, dt_bf16 *to)
{
    for (int64_t i = 0; i < l->pitch; i += STEP) {
        const dt_bf16 *from[STEP];
        for (int k = 0; k < STEP; k++)
            from[k] = next_pixel(&w);
        for (int64_t c = 0; c < a->c; c += TILE) {
            __m512i v[16];
            for (int k = 0; k < 16; k++)
                v[k] = pair_of(moved(from[2 * k], c), moved(from[2 * k + 1], c));
            dt_amx_turn(v);
            for (int k = 0; k < 16; k++)
                _mm512_storeu_si512(to + (c + k) * l->pitch + i, v[k]);
        }
    }
}

void dt_amx_pack_x(const dt_amx_weights *a, const dt_amx_layout *l, const dt_bf16 *x, dt_bf16 *to)
{
    for (int64_t phase = 0; phase < l->phases; phase++) {
        const walk w = {.image = x,
            .h = a->h,
            .w = a->w,
            .c = a->c,
            .r0 = phase / l->side - a->pad,
            .q0 = phase % l->side - a->pad,
            .stride = a->stride,
            .across = l->across};
        pack_phase(a, l, w, to + phase * a->c * l->pitch);
    }
}

AVX512 void dt_amx_pack_dy(
    const dt_amx_weights *a, const dt_amx_layout *l, const dt_bf16 *dy, dt_bf16 *to)
{
    const int64_t pixels = l->steps * STEP;
    walk w = {.image = dy, .h = a->p, .w = a->q, .c = a->out, .stride = 1, .across = l->across};
    for (int64_t i = 0; i < pixels; i += 2) {
        const dt_bf16 *even = next_pixel(&w), *odd = next_pixel(&w);
        for (int64_t c = 0; c < a->out; c += TILE)
            _mm512_storeu_si512(to + c * pixels + i * TILE, pair_of(moved(even, c), moved(odd, c)));
    }
}
#endif
