#include "layers/blocked/winograd_tiles.h"

void dti_winograd_multiply(dt_tile t, dt_tile_fn *tile, int64_t depth)
{
    const bool add = t.add;
    for (int64_t k = 0; k < depth; k += DEPTH) {
        t.depth = least(DEPTH, depth - k);
        t.add = add || k > 0;
        tile(&t);
        t.a += DEPTH * t.step;
        t.b += DEPTH * t.b_row;
    }
}

/* Where a tile lies: its sample, first row and first column of results. */
typedef struct place {
    int64_t n, p, q;
} place;

static place place_of(const dt_winograd *s, int64_t tile)
{
    const int64_t wide = across(s), high = dt_ceil_div(s->p, 2);
    return (place){tile / (wide * high), 2 * (tile / wide % high), 2 * (tile % wide)};
}

/* The 4 x 4 pixels under a tile; @zero stands for those outside of the image. */
static void find_pixels(
    const dt_winograd *s, int64_t tile, const float *x, const float *zero, const float *pixel[TAPS])
{
    const place at = place_of(s, tile);
    for (int64_t i = 0; i < 4; i++)
        for (int64_t j = 0; j < 4; j++) {
            const int64_t h = at.p - s->pad + i, w = at.q - s->pad + j;
            const bool in = h >= 0 && h < s->h && w >= 0 && w < s->w;
            pixel[4 * i + j] = in ? x + ((at.n * s->h + h) * s->w + w) * s->c : zero;
        }
}

void dti_winograd_results(const dt_winograd *s, int64_t tile, int64_t at[4])
{
    const place t = place_of(s, tile);
    for (int64_t i = 0; i < 4; i++) {
        const int64_t p = t.p + i / 2, q = t.q + i % 2;
        at[i] = p < s->p && q < s->q ? (t.n * s->p + p) * s->q + q : -1;
    }
}

dti_winograd_call dti_winograd_new(const dt_winograd *s, float *work)
{
    return (dti_winograd_call){
        .s = s, .on = dti_transforms_best(), .tile = dt_tile_best(), .work = work, .each = TILES};
}

void dti_winograd_pixels(
    const dti_winograd_call *j, dt_span of, const float *zero, float *to, int64_t step)
{
    const float *pixel[TAPS];
    for (int64_t i = of.begin; i < of.end; i++, to += j->s->c + PAD) {
        find_pixels(j->s, i, j->x, zero, pixel);
        j->on->pixels(pixel, j->s->c, to, step);
    }
}
