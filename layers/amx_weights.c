#define _GNU_SOURCE /* syscall() */
#include "layers/amx_weights.h"

#include "layers/team.h"

#if defined(__x86_64__) && defined(__linux__) && !defined(__SANITIZE_THREAD__)
#include <immintrin.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define AVX512 __attribute__((target("avx512f")))
#define AMX __attribute__((target("amx-tile,amx-bf16")))

enum {
    SIDE = 32,      /* channels of a task, of x and of dy: two tiles each */
    TILE = 16,      /* rows of a tile; channels of a packed group */
    STEP = 32,      /* pixels that one product of tiles adds up */
    VISIT = 8,      /* steps for one tap before the next: what they read stays near */
    MOST_KERNEL = 3 /* sums of all taps fit the cache */
};

/* Pixels are counted through an image padded on all sides, of which each of stride * stride phases
 * has its own copy: then a tap's pixels follow each other as dy's do, from an offset on. dy has
 * zeros where x has what is no part of it.
 *   x: [sample][phase][channel][pitch], dy: [sample][group of 16 channels][pair of pixels][16][2]
 */
struct job {
    dt_amx_weights a;
    const dt_bf16 *x, *dy;
    float *dw;
    bool add;
    dt_bf16 *packed_x, *packed_dy;
    int64_t across, down; /* pixels of a phase */
    int64_t pitch; /* of a channel: an odd number of cache lines, or rows would meet in few */
    int64_t steps; /* of a sample */
    int64_t phases;
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static struct job job_of(const dt_amx_weights *a)
{
    struct job j = {.a = *a};
    const int64_t past = (a->kernel - 1) / a->stride, side = least(a->kernel, a->stride);
    j.across = dt_ceil_div(a->w + 2 * a->pad, a->stride);
    j.down = dt_ceil_div(a->h + 2 * a->pad, a->stride);
    j.steps = dt_ceil_div(a->p * j.across, STEP);
    j.pitch = (dt_ceil_div(j.down * j.across + past + STEP, STEP) | 1) * STEP;
    j.phases = side * side;
    return j;
}

static size_t x_values(const struct job *j)
{
    return (size_t)(j->a.n * j->phases * j->a.c * j->pitch);
}

static size_t dy_values(const struct job *j)
{
    return (size_t)(j->a.n * j->a.out * j->steps * STEP);
}

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

/* 16 rows of 16 become columns. */
AVX512 DT_INLINE void turn(__m512i v[16])
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

/* One phase of one sample. */
AVX512 static void pack_x(const void *job, int64_t task)
{
    const struct job *j = job;
    const int64_t sample = task / j->phases, phase = task % j->phases;
    const int64_t side = least(j->a.kernel, j->a.stride);
    walk w = {.image = j->x + sample * j->a.h * j->a.w * j->a.c,
        .h = j->a.h,
        .w = j->a.w,
        .c = j->a.c,
        .r0 = phase / side - j->a.pad,
        .q0 = phase % side - j->a.pad,
        .stride = j->a.stride,
        .across = j->across};
    dt_bf16 *to = j->packed_x + task * j->a.c * j->pitch;
    for (int64_t i = 0; i < j->pitch; i += STEP) {
        const dt_bf16 *from[STEP];
        for (int k = 0; k < STEP; k++)
            from[k] = next_pixel(&w);
        for (int64_t c = 0; c < j->a.c; c += TILE) {
            __m512i v[16];
            for (int k = 0; k < 16; k++)
                v[k] = pair_of(moved(from[2 * k], c), moved(from[2 * k + 1], c));
            turn(v);
            for (int k = 0; k < 16; k++)
                _mm512_storeu_si512(to + (c + k) * j->pitch + i, v[k]);
        }
    }
}

/* One sample. */
AVX512 static void pack_dy(const void *job, int64_t sample)
{
    const struct job *j = job;
    const int64_t pixels = j->steps * STEP;
    walk w = {.image = j->dy + sample * j->a.p * j->a.q * j->a.out,
        .h = j->a.p,
        .w = j->a.q,
        .c = j->a.out,
        .stride = 1,
        .across = j->across};
    dt_bf16 *to = j->packed_dy + sample * j->a.out * pixels;
    for (int64_t i = 0; i < pixels; i += 2) {
        const dt_bf16 *even = next_pixel(&w), *odd = next_pixel(&w);
        for (int64_t c = 0; c < j->a.out; c += TILE)
            _mm512_storeu_si512(to + c * pixels + i * TILE, pair_of(moved(even, c), moved(odd, c)));
    }
}

/* Four tiles of sums for one tap, of steps [begin, end) counted through all samples. */
AMX DT_INLINE void add_steps(
    const struct job *j, const dt_bf16 *x, const dt_bf16 *dy, int64_t begin, int64_t end)
{
    const size_t row = (size_t)j->pitch * sizeof *x, lines = 64;
    const int64_t next_x = j->phases * j->a.c * j->pitch, group = j->steps * STEP * TILE;
    const int64_t next_dy = j->a.out * j->steps * STEP;
    int64_t sample = begin / j->steps, step = begin % j->steps;
    for (int64_t s = begin; s < end; s++) {
        const dt_bf16 *a = x + sample * next_x + step * STEP;
        const dt_bf16 *b = dy + sample * next_dy + step * STEP * TILE;
        if (++step == j->steps) {
            step = 0;
            sample++;
        }
        _tile_loadd(4, a, row);
        _tile_loadd(6, b, lines);
        _tile_loadd(7, b + group, lines);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, a + TILE * j->pitch, row);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
}

AMX DT_INLINE void load_sums(const float *from, int64_t row)
{
    const size_t bytes = (size_t)row * sizeof *from;
    _tile_loadd(0, from, bytes);
    _tile_loadd(1, from + TILE, bytes);
    _tile_loadd(2, from + TILE * row, bytes);
    _tile_loadd(3, from + TILE * row + TILE, bytes);
}

AMX DT_INLINE void clear_sums(void)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

AMX DT_INLINE void store_sums(float *to, int64_t row)
{
    const size_t bytes = (size_t)row * sizeof *to;
    _tile_stored(0, to, bytes);
    _tile_stored(1, to + TILE, bytes);
    _tile_stored(2, to + TILE * row, bytes);
    _tile_stored(3, to + TILE * row + TILE, bytes);
}

struct tiles {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
};

/* 32 channels of x with 32 of dy. */
AMX static void multiply(const void *job, int64_t task)
{
    const struct job *j = job;
    static const struct tiles tiles = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64},
        {TILE, TILE, TILE, TILE, TILE, TILE, TILE, TILE}};
    _Alignas(64) float sums[MOST_KERNEL * MOST_KERNEL][SIDE * SIDE];
    const int64_t c = task / (j->a.out / SIDE) * SIDE, o = task % (j->a.out / SIDE) * SIDE;
    const int64_t all = j->a.n * j->steps, side = least(j->a.kernel, j->a.stride);
    const int64_t visit = j->a.kernel == 1 ? all : VISIT;
    _tile_loadconfig(&tiles);
    for (int64_t s = 0; s < all; s += visit)
        for (int64_t tap = 0; tap < j->a.kernel * j->a.kernel; tap++) {
            const int64_t r = tap / j->a.kernel, q = tap % j->a.kernel, stride = j->a.stride;
            const int64_t phase = r % stride * side + q % stride;
            const int64_t offset = r / stride * j->across + q / stride;
            float *dw = j->dw + (tap * j->a.c + c) * j->a.out + o;
            if (s > 0)
                load_sums(sums[tap], SIDE);
            else if (j->add)
                load_sums(dw, j->a.out);
            else
                clear_sums();
            add_steps(j, j->packed_x + (phase * j->a.c + c) * j->pitch + offset,
                j->packed_dy + o * j->steps * STEP, s, least(s + visit, all));
            if (s + visit < all)
                store_sums(sums[tap], SIDE);
            else
                store_sums(dw, j->a.out);
        }
    _tile_release();
}

static bool machine;
static pthread_once_t asked = PTHREAD_ONCE_INIT;

/* The kernel hands out the tiles' state on request only. Both questions are slow. */
static void ask_machine(void)
{
    enum { REQUEST = 0x1023, TILE_DATA = 18 };
    unsigned eax, ebx, ecx, edx;
    if (!__builtin_cpu_supports("avx512f"))
        return;
    __asm__("cpuid" : "=a"(eax), "=b"(ebx), "=c"(ecx), "=d"(edx) : "a"(7), "c"(0));
    const unsigned bf16 = 1u << 22, tile = 1u << 24;
    machine =
        (edx & bf16) != 0 && (edx & tile) != 0 && syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}

bool dt_amx_weights_can(const dt_amx_weights *a)
{
    pthread_once(&asked, ask_machine);
    return a->kernel <= MOST_KERNEL && a->c % SIDE == 0 && a->out % SIDE == 0 && machine;
}

size_t dt_amx_weights_work(const dt_amx_weights *a)
{
    const struct job j = job_of(a);
    return (x_values(&j) + dy_values(&j)) * sizeof(dt_bf16);
}

void dt_amx_weights_run(
    const dt_amx_weights *a, const dt_bf16 *x, const dt_bf16 *dy, float *dw, bool add, void *work)
{
    struct job j = job_of(a);
    j.x = x;
    j.dy = dy;
    j.dw = dw;
    j.add = add;
    j.packed_x = work;
    j.packed_dy = j.packed_x + x_values(&j);
    dt_team(a->n * j.phases, pack_x, &j);
    dt_team(a->n, pack_dy, &j);
    dt_team(a->c / SIDE * (a->out / SIDE), multiply, &j);
}

#else

bool dt_amx_weights_can(const dt_amx_weights *a)
{
    (void)a;
    return false;
}

size_t dt_amx_weights_work(const dt_amx_weights *a)
{
    (void)a;
    return 0;
}

void dt_amx_weights_run(
    const dt_amx_weights *a, const dt_bf16 *x, const dt_bf16 *dy, float *dw, bool add, void *work)
{
    (void)a, (void)x, (void)dy, (void)dw, (void)add, (void)work;
}

#endif
