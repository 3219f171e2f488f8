/* Small floats on a CUDA device: memory/codecs/small.c's bytes. */
#include "memory/codecs/kernel.cuh"

DT_C_HEADERS
#include "memory/codecs/small_bits.h"
DT_C_HEADERS_END

typedef struct small_job {
    packed p;
    dti_small_format f;
    const uint32_t *src;
    uint32_t *dst;
    uint64_t bytes; /* that are packed */
} small_job;

/* A thread a word. */
DT_KERNEL(small_pack, small_job)
{
    const uint32_t per = dti_small_per_word(given.f), bits = dti_small_bits(given.f);
    const uint64_t words = given.bytes / 4;
    uint32_t *const to = (uint32_t *)(void *)given.p.at;
    for (uint64_t i = (uint64_t)blockIdx.x * TEAM + threadIdx.x; i < words;
         i += (uint64_t)gridDim.x * TEAM) {
        uint32_t w = 0;
        for (uint32_t k = 0; k < per; k++)
            if (i * per + k < given.p.count)
                w |= dti_small_of(given.src[i * per + k], given.f) << (k * bits);
        to[i] = w;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0)
        *given.p.header = given.bytes;
}

/* A thread a value. */
DT_KERNEL(small_unpack, small_job)
{
    const uint32_t per = dti_small_per_word(given.f), bits = dti_small_bits(given.f);
    const uint32_t *const from = (const uint32_t *)(const void *)given.p.at;
    const bool overflown = *given.p.header == OVERFLOWN;
    const uint64_t first = (uint64_t)blockIdx.x * TEAM + threadIdx.x;
    if (!overflown && (*given.p.header != given.bytes || given.bytes > given.p.capacity)) {
        say(given.p.damaged);
        return;
    }
    for (uint64_t e = first; e < given.p.count; e += (uint64_t)gridDim.x * TEAM) {
        const uint32_t code = overflown ? 0 : from[e / per] >> ((uint32_t)(e % per) * bits);
        given.dst[e] = overflown ? 0 : dti_small_to(code & ((1u << bits) - 1), given.f);
    }
}

static dt_status small_job_of(
    small_job *j, dti_small_format f, const void *bytes, size_t room, size_t count, dt_err *err)
{
    memset(j, 0, sizeof *j);
    j->f = f;
    j->bytes = 4 * dti_parts(count, dti_small_per_word(f));
    return packed_of(&j->p, bytes, room, count, 0, err);
}

static dt_status small_encode(dti_small_format f, const void *src, size_t count, void *dst,
    size_t bytes, int *overflow, void *queue, dt_err *err)
{
    small_job j;
    DT_CHECK(small_job_of(&j, f, dst, bytes, count, err));
    j.p.overflow = overflow;
    j.src = (const uint32_t *)src;
    if (j.bytes > j.p.capacity)
        DT_LAUNCH(refuse_packed, one_block(), TEAM, queue, j.p);
    else
        DT_LAUNCH(small_pack, blocks_for(j.bytes / 4, TEAM), TEAM, queue, j);
    return dt_cuda_launched("packing of small floats", err);
}

static dt_status small_decode(dti_small_format f, const void *src, size_t bytes, void *dst,
    size_t count, int *damaged, void *queue, dt_err *err)
{
    small_job j;
    DT_CHECK(small_job_of(&j, f, src, bytes, count, err));
    j.p.damaged = damaged;
    j.dst = (uint32_t *)dst;
    DT_LAUNCH(small_unpack, blocks_for(count, TEAM), TEAM, queue, j);
    return dt_cuda_launched("unpacking of small floats", err);
}

#define SMALL(codec, exponent, mantissa)                                                           \
    static dt_status codec##_encode(const void *src, size_t count, void *dst, size_t bytes,        \
        int *overflow, void *queue, dt_err *err)                                                   \
    {                                                                                              \
        const dti_small_format f = {exponent, mantissa};                                           \
        return small_encode(f, src, count, dst, bytes, overflow, queue, err);                      \
    }                                                                                              \
    static dt_status codec##_decode(const void *src, size_t bytes, void *dst, size_t count,        \
        int *damaged, void *queue, dt_err *err)                                                    \
    {                                                                                              \
        const dti_small_format f = {exponent, mantissa};                                           \
        return small_decode(f, src, bytes, dst, count, damaged, queue, err);                       \
    }                                                                                              \
    DT_CUDA_CODEC(codec) = {codec##_encode, codec##_decode, NULL};

SMALL(fp16, 5, 10)
SMALL(fp10, 5, 4)
SMALL(fp8, 4, 3)
