/* What codecs share whose packed bytes depend on which values are zero: masks, and the table of
 * chunks. */
#ifndef DT_MEMORY_CODECS_SPARSE_CUH
#define DT_MEMORY_CODECS_SPARSE_CUH

#include "memory/codecs/kernel.cuh"

DT_DEVICE uint64_t chunk_elements(const packed *p, uint64_t chunk)
{
    const uint64_t left = p->count - chunk * DTI_CHUNK;
    return left < DTI_CHUNK ? left : (uint64_t)DTI_CHUNK;
}

/* s[t] becomes the sum of s[0 .. t]. */
DT_DEVICE void add_up(uint32_t *s)
{
    const unsigned t = threadIdx.x;
    for (unsigned apart = 1; apart < TEAM; apart *= 2) {
        const uint32_t before = t >= apart ? s[t - apart] : 0;
        __syncthreads();
        s[t] += before;
        __syncthreads();
    }
}

/* The mask of a chunk, and in count[w] the elements that are not zero up to word w. */
DT_DEVICE void find_nonzero(const uint32_t *src, uint64_t n, uint32_t *mask, uint32_t *count)
{
    const unsigned lane = threadIdx.x % WARP;
    for (unsigned w = threadIdx.x / WARP; w < WORDS; w += WARPS) {
        const unsigned e = w * 32 + lane;
        const uint32_t m = __ballot_sync(0xFFFFFFFFu, e < n && src[e] != 0);
        if (lane == 0)
            mask[w] = m;
    }
    __syncthreads();
    count[threadIdx.x] = DT_POPULATION(mask[threadIdx.x]);
    __syncthreads();
    add_up(count);
}

/* Which of the chunk's elements that are not zero this one is, if it is one. */
DT_DEVICE bool find_rank(
    const uint32_t *mask, const uint32_t *count, unsigned w, unsigned lane, uint32_t *rank)
{
    const uint32_t m = mask[w];
    *rank = (w > 0 ? count[w - 1] : 0) + DT_POPULATION(m & ((1u << lane) - 1));
    return (m >> lane & 1) != 0;
}

/* From the words of every chunk to where it ends, by one block, and the header. */
DT_DEVICE void close_table(const packed *p, uint64_t *share)
{
    uint64_t *const table = (uint64_t *)(void *)p->at;
    const unsigned t = threadIdx.x;
    const uint64_t each = (p->chunks + TEAM - 1) / TEAM, first = t * each;
    const uint64_t last = first + each < p->chunks ? first + each : p->chunks;
    uint64_t sum = 0;
    for (uint64_t i = first; i < last; i++)
        sum += table[i];
    share[t] = sum;
    __syncthreads();
    for (unsigned apart = 1; apart < TEAM; apart *= 2) {
        const uint64_t before = t >= apart ? share[t - apart] : 0;
        __syncthreads();
        share[t] += before;
        __syncthreads();
    }
    uint64_t end = t > 0 ? share[t - 1] : 0;
    for (uint64_t i = first; i < last; i++) {
        end += table[i];
        table[i] = end;
    }
    if (t == 0) {
        const uint64_t used = p->fixed + 4 * share[TEAM - 1];
        const bool fits = used <= p->capacity;
        *p->header = fits ? used : OVERFLOWN;
        if (!fits)
            say(p->overflow);
    }
}

DT_KERNEL(close_packed, packed)
{
    __shared__ uint64_t share[TEAM];
    close_table(&given, share);
}

DT_DEVICE uint64_t chunk_begin(const packed *p, uint64_t chunk)
{
    return chunk > 0 ? ((const uint64_t *)(const void *)p->at)[chunk - 1] : 0;
}

DT_DEVICE uint64_t chunk_end(const packed *p, uint64_t chunk)
{
    return ((const uint64_t *)(const void *)p->at)[chunk];
}

/* Whether the words of a chunk lie in the packed bytes. */
DT_DEVICE bool chunk_lies(const packed *p, uint64_t chunk)
{
    const uint64_t used = *p->header;
    if (used < p->fixed || used > p->capacity || (used - p->fixed) % 4 != 0)
        return false;
    const uint64_t total = (used - p->fixed) / 4;
    return chunk_begin(p, chunk) <= chunk_end(p, chunk) && chunk_end(p, chunk) <= total &&
           chunk_end(p, p->chunks - 1) == total;
}

/* Whether there is something to unpack, the same for the whole block. Where the encoder found no
 * room there are zeros; words that lie elsewhere are said to be damaged. */
DT_DEVICE bool chunk_may_be_unpacked(const packed *p, uint64_t chunk, uint32_t *dst, uint64_t n)
{
    const bool none = *p->header == OVERFLOWN, lies = !none && chunk_lies(p, chunk);
    if (none)
        put_zeros(dst, n);
    else if (!lies)
        say(p->damaged);
    return lies;
}

/* NAME_put and NAME_take: the launches of a codec whose kernels are NAME_scan, which puts each
 * chunk's words into the table, NAME_pack and NAME_unpack, a block a chunk, for a NAME_job of which
 * all is there but where the values are. */
#define DT_SPARSE_LAUNCHES(name)                                                                   \
    static dt_status name##_put(                                                                   \
        name##_job *j, const void *src, int *overflow, void *queue, dt_err *err)                   \
    {                                                                                              \
        j->p.overflow = overflow;                                                                  \
        j->src = (const uint32_t *)src;                                                            \
        if (j->p.fixed > j->p.capacity) {                                                          \
            DT_LAUNCH(refuse_packed, one_block(), TEAM, queue, j->p);                              \
            return dt_cuda_launched(#name " packing", err);                                        \
        }                                                                                          \
        if (j->p.count > 0)                                                                        \
            DT_LAUNCH(name##_scan, a_block_each(j->p.chunks), TEAM, queue, *j);                    \
        DT_LAUNCH(close_packed, one_block(), TEAM, queue, j->p);                                   \
        if (j->p.count > 0)                                                                        \
            DT_LAUNCH(name##_pack, a_block_each(j->p.chunks), TEAM, queue, *j);                    \
        return dt_cuda_launched(#name " packing", err);                                            \
    }                                                                                              \
    static dt_status name##_take(name##_job *j, void *dst, int *damaged, void *queue, dt_err *err) \
    {                                                                                              \
        j->p.damaged = damaged;                                                                    \
        j->dst = (uint32_t *)dst;                                                                  \
        if (j->p.count > 0)                                                                        \
            DT_LAUNCH(name##_unpack, a_block_each(j->p.chunks), TEAM, queue, *j);                  \
        return dt_cuda_launched(#name " unpacking", err);                                          \
    }

/* A codec by these launches. What else its job says, and where the packed bytes are, CODEC_job_of
 * fills in. */
#define DT_SPARSE_CUDA_CODEC(codec, name)                                                          \
    static dt_status codec##_encode(const void *src, size_t count, void *dst, size_t bytes,        \
        int *overflow, void *queue, dt_err *err)                                                   \
    {                                                                                              \
        name##_job j;                                                                              \
        DT_CHECK(codec##_job_of(&j, dst, bytes, count, err));                                      \
        return name##_put(&j, src, overflow, queue, err);                                          \
    }                                                                                              \
    static dt_status codec##_decode(const void *src, size_t bytes, void *dst, size_t count,        \
        int *damaged, void *queue, dt_err *err)                                                    \
    {                                                                                              \
        name##_job j;                                                                              \
        DT_CHECK(codec##_job_of(&j, src, bytes, count, err));                                      \
        return name##_take(&j, dst, damaged, queue, err);                                          \
    }                                                                                              \
    DT_CUDA_CODEC(codec) = {codec##_encode, codec##_decode, NULL};

#endif
