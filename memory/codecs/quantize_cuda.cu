/* Quantized groups on a CUDA device: memory/codecs/quantize.c's bytes. A warp a group, eight values
 * a lane. */
#include "memory/codecs/kernel.cuh"

DT_C_HEADERS
#include "memory/codecs/quantize_bits.h"
DT_C_HEADERS_END

enum { EACH = DTI_GROUP / WARP }; /* values of a lane */

/* @row: values of a sample; @groups: of a sample; @all: of all; @bytes: that are packed. What is
 * drawn by: @now: NULL: step 0, and sample0 as it is */
typedef struct quantize_job {
    packed p;
    const uint32_t *src;
    uint32_t *dst;
    uint64_t row, groups, all, bytes, seed;
    int64_t value, sample0;
    const dt_now *now;
    uint32_t bits;
} quantize_job;

DT_DEVICE int32_t least_of(int32_t v)
{
    for (int apart = WARP / 2; apart > 0; apart /= 2) {
        const int32_t other = (int32_t)__shfl_xor_sync(0xFFFFFFFFu, v, apart);
        v = other < v ? other : v;
    }
    return v;
}

DT_DEVICE uint32_t any_of(uint32_t v)
{
    for (int apart = WARP / 2; apart > 0; apart /= 2)
        v |= (uint32_t)__shfl_xor_sync(0xFFFFFFFFu, v, apart);
    return v;
}

/* What the warp's group holds, of which this lane has @n values. */
DT_DEVICE dti_group_scan scan_group(const uint32_t *w, int n, uint32_t first)
{
    dti_group_scan s;
    uint32_t bad = 0;
    s.first = first;
    s.differs = 0;
    s.least = INT32_MAX;
    s.most = INT32_MIN;
    for (int k = 0; k < EACH; k++) {
        const int32_t order = dti_quantize_order(dti_quantize_seen(w[k]));
        s.least = k < n && order < s.least ? order : s.least;
        s.most = k < n && order > s.most ? order : s.most;
        s.differs |= k < n ? w[k] ^ first : 0;
        bad |= k < n && dti_quantize_bad(w[k]) ? 1u : 0u;
    }
    s.least = least_of(s.least);
    s.most = ~least_of(~s.most); /* the order backwards */
    s.differs = any_of(s.differs);
    s.bad = any_of(bad) != 0;
    return s;
}

/* This lane's codes, the first lowest. */
DT_DEVICE uint64_t lane_codes(
    const quantize_job *j, const dti_group *g, const uint32_t *w, int n, dti_group_levels l)
{
    const unsigned lane = threadIdx.x % WARP;
    const uint64_t sample0 =
        (uint64_t)j->sample0 + (j->now != NULL ? (uint64_t)j->now->sample0 : 0);
    const uint64_t step = j->now != NULL ? (uint64_t)j->now->step : 0;
    const uint64_t first =
        (sample0 + g->sample) * ((j->row + 3) / 4) + (g->value + lane * EACH) / 4;
    uint64_t codes = 0;
    for (int half = 0; half < EACH / 4; half++) {
        const dt_u32x4 u =
            dt_random(j->seed, DT_RANDOM_ROUND, (uint32_t)j->value, step, first + (uint64_t)half);
        for (int k = 0; k < 4; k++) {
            const float x = dti_quantize_float(dti_quantize_seen(w[4 * half + k]));
            const uint64_t code = dti_quantize_code(x, l.from, l.step, u.v[k] >> 8, j->bits);
            codes |= 4 * half + k < n ? code << ((uint32_t)(4 * half + k) * j->bits) : 0;
        }
    }
    return codes;
}

/* The lane's place among the codes, of which there are @room bytes. */
DT_DEVICE void put_codes(uint8_t *to, uint64_t codes, uint32_t bits, size_t room)
{
    const size_t at = (size_t)(threadIdx.x % WARP) * bits;
    if (bits >= 4) {
        for (uint32_t k = 0; k < bits; k += 4)
            if (at + k < room)
                *(uint32_t *)(void *)(to + at + k) = (uint32_t)(codes >> (8 * k));
    } else {
        for (uint32_t k = 0; k < bits; k++)
            if (at + k < room)
                to[at + k] = (uint8_t)(codes >> (8 * k));
    }
}

DT_DEVICE void pack_group(const quantize_job *j, uint64_t i)
{
    const dti_group g = dti_group_of(i, j->groups, j->row, j->bits);
    const uint32_t *const from = j->src + g.sample * j->row + g.value;
    const unsigned lane = threadIdx.x % WARP;
    const int left = (int)g.n - (int)(lane * EACH);
    const int n = left < 0 ? 0 : left < EACH ? left : EACH;
    uint32_t w[EACH];
    for (int k = 0; k < EACH; k++)
        w[k] = k < n ? from[lane * EACH + (unsigned)k] : from[0];
    const dti_group_scan s = scan_group(w, n, from[0]);
    const dti_group_levels l = dti_group_levels_of(&s, j->bits);
    uint8_t *const to = j->p.at + g.byte;
    const unsigned before = 8 * lane * j->bits; /* bits of other lanes */
    const uint64_t flat = before < 16 ? (uint64_t)(l.flat & 0xFFFFu) >> before : 0;
    if (lane == 0)
        *(uint32_t *)(void *)to = l.head;
    put_codes(to + 4, l.step == 0.0f ? flat : lane_codes(j, &g, w, n, l), j->bits,
        dti_group_bytes(g.n, j->bits) - 4);
}

DT_KERNEL(quantize_pack, quantize_job)
{
    const uint64_t warps = (uint64_t)gridDim.x * WARPS;
    for (uint64_t i = (uint64_t)blockIdx.x * WARPS + threadIdx.x / WARP; i < given.all; i += warps)
        pack_group(&given, i);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *given.p.header = given.bytes;
        if (given.all > 0)
            *(uint64_t *)(void *)given.p.at = given.row;
    }
}

DT_DEVICE void unpack_group(const quantize_job *j, uint64_t i)
{
    const dti_group g = dti_group_of(i, j->groups, j->row, j->bits);
    const uint32_t *const from = (const uint32_t *)(const void *)(j->p.at + g.byte);
    uint32_t *const to = j->dst + g.sample * j->row + g.value;
    const dti_group_levels l = dti_group_levels_read(from[0], from[1]);
    const uint32_t per = 32 / j->bits;
    for (size_t e = threadIdx.x % WARP; e < g.n; e += WARP) {
        const uint32_t w = from[1 + e / per] >> ((uint32_t)(e % per) * j->bits);
        to[e] = dti_quantize_value(l, w & ((1u << j->bits) - 1));
    }
}

/* Whether an encoder wrote so many bytes, of samples of so many values. */
DT_DEVICE bool is_whole(const quantize_job *j, uint64_t used, uint64_t row)
{
    const uint64_t count = j->p.count;
    return row > 0 && row <= count && count % row == 0 &&
           used == dti_quantized_all(row, count / row, j->bits);
}

DT_KERNEL(quantize_unpack, quantize_job)
{
    quantize_job j = given;
    const uint64_t used = *given.p.header, warps = (uint64_t)gridDim.x * WARPS;
    if (used == OVERFLOWN) {
        for (uint64_t e = (uint64_t)blockIdx.x * TEAM + threadIdx.x; e < given.p.count;
             e += (uint64_t)gridDim.x * TEAM)
            given.dst[e] = 0;
        return;
    }
    const bool has_row = used >= DTI_QUANTIZED_HEAD && used <= given.p.capacity;
    j.row = has_row ? *(const uint64_t *)(const void *)given.p.at : 0;
    if (given.p.count == 0 ? used != 0 : !is_whole(&j, used, j.row)) {
        say(given.p.damaged);
        return;
    }
    j.groups = (j.row + DTI_GROUP - 1) / DTI_GROUP;
    j.all = given.p.count > 0 ? given.p.count / j.row * j.groups : 0;
    for (uint64_t i = (uint64_t)blockIdx.x * WARPS + threadIdx.x / WARP; i < j.all; i += warps)
        unpack_group(&j, i);
}

static dt_status quantize_encode(uint32_t bits, const void *src, size_t count,
    const dt_rounding *by, void *dst, size_t bytes, int *overflow, void *queue, dt_err *err)
{
    quantize_job j;
    memset(&j, 0, sizeof j);
    DT_CHECK(packed_of(&j.p, dst, bytes, count, 0, err));
    if (by->samples <= 0 || count % (size_t)by->samples != 0)
        return DT_FAIL(err, DT_E_INTERNAL, "packed values are not of whole samples");
    j.p.overflow = overflow;
    j.src = (const uint32_t *)src;
    j.row = count / (size_t)by->samples;
    j.groups = (j.row + DTI_GROUP - 1) / DTI_GROUP;
    j.all = (uint64_t)by->samples * j.groups;
    j.bytes = dti_quantized_all(j.row, (size_t)by->samples, bits);
    j.seed = by->seed;
    j.value = by->value;
    j.sample0 = by->sample0;
    j.now = by->now;
    j.bits = bits;
    if (j.bytes > j.p.capacity)
        DT_LAUNCH(refuse_packed, one_block(), TEAM, queue, j.p);
    else
        DT_LAUNCH(quantize_pack, blocks_for(j.all, WARPS), TEAM, queue, j);
    return dt_cuda_launched("packing in levels", err);
}

static dt_status quantize_decode(uint32_t bits, const void *src, size_t bytes, void *dst,
    size_t count, int *damaged, void *queue, dt_err *err)
{
    quantize_job j;
    memset(&j, 0, sizeof j);
    DT_CHECK(packed_of(&j.p, src, bytes, count, 0, err));
    j.p.damaged = damaged;
    j.dst = (uint32_t *)dst;
    j.bits = bits;
    DT_LAUNCH(quantize_unpack, blocks_for(count / DTI_GROUP, WARPS), TEAM, queue, j);
    return dt_cuda_launched("unpacking of levels", err);
}

#define QUANTIZED(codec, bits)                                                                     \
    static dt_status codec##_samples(const void *src, size_t count, const dt_rounding *by,         \
        void *dst, size_t bytes, int *overflow, void *queue, dt_err *err)                          \
    {                                                                                              \
        return quantize_encode(bits, src, count, by, dst, bytes, overflow, queue, err);            \
    }                                                                                              \
    static dt_status codec##_encode(const void *src, size_t count, void *dst, size_t bytes,        \
        int *overflow, void *queue, dt_err *err)                                                   \
    {                                                                                              \
        dt_rounding by;                                                                            \
        memset(&by, 0, sizeof by);                                                                 \
        by.samples = 1;                                                                            \
        return quantize_encode(bits, src, count, &by, dst, bytes, overflow, queue, err);           \
    }                                                                                              \
    static dt_status codec##_decode(const void *src, size_t bytes, void *dst, size_t count,        \
        int *damaged, void *queue, dt_err *err)                                                    \
    {                                                                                              \
        return quantize_decode(bits, src, bytes, dst, count, damaged, queue, err);                 \
    }                                                                                              \
    DT_CUDA_CODEC(codec) = {codec##_encode, codec##_decode, codec##_samples};

QUANTIZED(int8, 8)
QUANTIZED(int4, 4)
QUANTIZED(int2, 2)
QUANTIZED(int1, 1)
