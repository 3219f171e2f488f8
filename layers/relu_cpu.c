#include <string.h>

#include "layers/cpu.h"
#include "layers/team.h"

/* NaN goes through, as in PyTorch: a NaN output is not <= 0 and hands its gradient on. */

DT_CLONES static void relu(const float *x, float *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] <= 0.0f ? 0.0f : x[i];
}

DT_CLONES static void relu_gradient(const float *y, const float *dy, float *dx, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = y[i] <= 0.0f ? 0.0f : dy[i];
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "element 0 is the lowest byte of a word");

/* Eight bytes, each 0 or 1, to the bits of one byte: the product shifts byte k to bit 56 + k. */
DT_INLINE uint8_t pack(const uint8_t *on)
{
    uint64_t word;
    memcpy(&word, on, sizeof word);
    return (uint8_t)(word * 0x0102040810204080u >> 56);
}

/* Bit e % 8 of byte e / 8 says whether element e hands its gradient on. */
DT_CLONES static void relu_mask(const float *y, uint8_t *mask, int64_t n)
{
    enum { BLOCK = 64 };
    uint8_t on[BLOCK];
    int64_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK) {
#pragma omp simd
        for (int k = 0; k < BLOCK; k++)
            on[k] = y[i + k] <= 0.0f ? 0 : 1;
        for (int k = 0; k < BLOCK; k += 8)
            mask[(i + k) / 8] = pack(on + k);
    }
    for (; i < n; i += 8) {
        memset(on, 0, 8);
        for (int64_t k = i; k < n && k < i + 8; k++)
            on[k - i] = y[k] <= 0.0f ? 0 : 1;
        mask[i / 8] = pack(on);
    }
}

DT_CLONES static void relu_mask_gradient(const uint8_t *mask, const float *dy, float *dx, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const uint32_t bits = mask[i / 8];
#pragma omp simd
        for (uint32_t k = 0; k < 8; k++)
            dx[i + k] = (bits & 1u << k) != 0 ? dy[i + k] : 0.0f;
    }
    for (; i < n; i++)
        dx[i] = ((unsigned)mask[i / 8] & 1u << (i % 8)) != 0 ? dy[i] : 0.0f;
}

/* Tasks are pieces of one sample, because each sample's mask starts a byte. */
struct job {
    const dt_args *a;
    int64_t elements, pieces;
};

static void forward_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const int64_t sample = i / j->pieces;
    const dt_span s = dt_span_of(j->elements, DT_GRAIN, i % j->pieces);
    const int64_t at = sample * j->elements + s.begin, n = s.end - s.begin;
    float *y = (float *)j->a->port[DT_Y] + at;
    uint8_t *mask = j->a->port[DT_S];
    relu((const float *)j->a->port[DT_X] + at, y, n);
    if (mask != NULL)
        relu_mask(y, mask + sample * ((j->elements + 7) / 8) + s.begin / 8, n);
}

static void backward_task(const void *job, int64_t i)
{
    const struct job *j = job;
    const int64_t sample = i / j->pieces;
    const dt_span s = dt_span_of(j->elements, DT_GRAIN, i % j->pieces);
    const int64_t at = sample * j->elements + s.begin, n = s.end - s.begin;
    const float *dy = (const float *)j->a->port[DT_DY] + at;
    float *dx = (float *)j->a->port[DT_DX] + at;
    const uint8_t *mask = j->a->port[DT_S];
    if (mask != NULL)
        relu_mask_gradient(mask + sample * ((j->elements + 7) / 8) + s.begin / 8, dy, dx, n);
    else
        relu_gradient((const float *)j->a->port[DT_Y] + at, dy, dx, n);
}

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const dt_shape x = dt_call_x(c);
    struct job j = {.a = a, .elements = dt_shape_sample(&x)};
    j.pieces = dt_ceil_div(j.elements, DT_GRAIN);
    dt_team(a->n * j.pieces, c->form == DT_BACKWARD ? backward_task : forward_task, &j);
    return DT_OK;
}

const dt_kernels dt_relu_cpu = {.run = run};
