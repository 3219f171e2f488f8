/* The plain loops, and which are the best here. */
#include "memory/codecs/lanes.h"
#include "engine/base/isa.h"

#include "memory/codecs/small_loops.h"

static size_t scan(const uint8_t *src, size_t n, uint8_t *mask)
{
    size_t total = 0;
    for (size_t e = 0; e < n; e += 32) {
        uint32_t m = 0;
        for (size_t k = 0; k < 32 && e + k < n; k++)
            m |= (uint32_t)(dti_word(src, e + k) != 0) << k;
        dti_set_word(mask, e / 32, m);
        total += dti_bits(m);
    }
    return total;
}

static size_t count(const uint8_t *mask, size_t words)
{
    size_t total = 0;
    for (size_t i = 0; i < words; i++)
        total += dti_bits(dti_word(mask, i));
    return total;
}

static void pack(const uint8_t *src, const uint8_t *mask, size_t n, uint8_t *to, size_t total)
{
    (void)total;
    for (size_t e = 0; e < n; e += 32)
        for (uint32_t m = dti_word(mask, e / 32); m != 0; m &= m - 1, to += 4)
            dti_set_word(to, 0, dti_word(src, e + (size_t)__builtin_ctz(m)));
}

static void unpack(const uint8_t *from, size_t total, const uint8_t *mask, size_t n, uint8_t *to)
{
    (void)total;
    memset(to, 0, 4 * n);
    for (size_t e = 0; e < n; e += 32)
        for (uint32_t m = dti_word(mask, e / 32); m != 0; m &= m - 1, from += 4)
            dti_set_word(to, e + (size_t)__builtin_ctz(m), dti_word(from, 0));
}

static void columns(const uint8_t *mask, size_t n, uint8_t *to, size_t room)
{
    (void)room;
    for (size_t e = 0; e < n; e += 32)
        for (uint32_t m = dti_word(mask, e / 32); m != 0; m &= m - 1)
            *to++ = (uint8_t)(e + (size_t)__builtin_ctz(m));
}

DT_SMALL_LOOPS()

const dti_lanes dt_lanes_plain = {
    .name = "plain",
    .scan = scan,
    .count = count,
    .pack = pack,
    .unpack = unpack,
    .columns = columns,
    .narrow = {narrow16, narrow10, narrow8},
    .widen = {widen16, widen10, widen8},
};

size_t dti_lanes_all(const dti_lanes *out[DTI_LANES_MOST])
{
    size_t n = 0;
    out[n++] = &dt_lanes_plain;
#if defined(__x86_64__)
    if (dt_isa_allowed(DT_ISA_AVX2) && __builtin_cpu_supports("avx2") &&
        __builtin_cpu_supports("bmi2"))
        out[n++] = &dt_lanes_avx2;
    if (dt_isa_allowed(DT_ISA_AVX512) && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq"))
        out[n++] = &dt_lanes_avx512;
#endif
    return n;
}

const dti_lanes *dti_lanes_best(void)
{
    const dti_lanes *all[DTI_LANES_MOST];
    return all[dti_lanes_all(all) - 1];
}
