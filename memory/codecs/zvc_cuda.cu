/* Zero-value compression on a CUDA device: memory/codecs/zvc.c's bytes. */
#include "memory/codecs/sparse.cuh"

typedef struct zvc_job {
    packed p;
    const uint32_t *src;
    uint32_t *dst;
} zvc_job;

DT_DEVICE uint32_t *zvc_masks(const packed *p, uint64_t chunk)
{
    return (uint32_t *)(void *)(p->at + 8 * p->chunks) + chunk * WORDS;
}

DT_KERNEL(zvc_scan, zvc_job)
{
    __shared__ uint32_t mask[TEAM], count[TEAM];
    const packed *p = &given.p;
    const uint64_t chunk = blockIdx.x, n = chunk_elements(p, chunk);
    find_nonzero(given.src + chunk * DTI_CHUNK, n, mask, count);
    if (threadIdx.x * 32 < n)
        zvc_masks(p, chunk)[threadIdx.x] = mask[threadIdx.x];
    if (threadIdx.x == TEAM - 1)
        ((uint64_t *)(void *)p->at)[chunk] = count[TEAM - 1];
}

/* The mask that was written, and its counts. */
DT_DEVICE void zvc_load(
    const packed *p, uint64_t chunk, uint64_t n, uint32_t *mask, uint32_t *count)
{
    const unsigned t = threadIdx.x;
    mask[t] = t * 32 < n ? zvc_masks(p, chunk)[t] : 0;
    count[t] = DT_POPULATION(mask[t]);
    __syncthreads();
    add_up(count);
}

DT_KERNEL(zvc_pack, zvc_job)
{
    __shared__ uint32_t mask[TEAM], count[TEAM];
    const packed *p = &given.p;
    const uint64_t chunk = blockIdx.x, n = chunk_elements(p, chunk);
    const uint32_t *const src = given.src + chunk * DTI_CHUNK;
    const unsigned lane = threadIdx.x % WARP;
    if (*p->header == OVERFLOWN)
        return;
    uint32_t *const to = (uint32_t *)(void *)(p->at + p->fixed) + chunk_begin(p, chunk);
    zvc_load(p, chunk, n, mask, count);
    for (unsigned w = threadIdx.x / WARP; w * 32 < n; w += WARPS) {
        uint32_t rank;
        if (find_rank(mask, count, w, lane, &rank))
            to[rank] = src[w * 32 + lane];
    }
}

/* Whether the mask belongs to n elements, so many of which are not zero. */
DT_DEVICE bool zvc_fits(const uint32_t *mask, const uint32_t *count, uint64_t n, uint64_t nonzero)
{
    const uint32_t past = n % 32 != 0 ? ~0u << (n % 32) : 0;
    return count[TEAM - 1] == nonzero && (mask[(n - 1) / 32] & past) == 0;
}

DT_KERNEL(zvc_unpack, zvc_job)
{
    __shared__ uint32_t mask[TEAM], count[TEAM];
    const packed *p = &given.p;
    const uint64_t chunk = blockIdx.x, n = chunk_elements(p, chunk);
    uint32_t *const dst = given.dst + chunk * DTI_CHUNK;
    const unsigned lane = threadIdx.x % WARP;
    if (!chunk_may_be_unpacked(p, chunk, dst, n))
        return;
    const uint64_t begin = chunk_begin(p, chunk);
    const uint32_t *const from = (const uint32_t *)(const void *)(p->at + p->fixed) + begin;
    zvc_load(p, chunk, n, mask, count);
    if (!zvc_fits(mask, count, n, chunk_end(p, chunk) - begin)) {
        say(p->damaged);
        return;
    }
    for (unsigned w = threadIdx.x / WARP; w * 32 < n; w += WARPS) {
        uint32_t rank;
        const bool there = find_rank(mask, count, w, lane, &rank);
        if (w * 32 + lane < n)
            dst[w * 32 + lane] = there ? from[rank] : 0;
    }
}

static dt_status zvc_job_of(zvc_job *j, const void *bytes, size_t room, size_t count, dt_err *err)
{
    const size_t fixed = 8 * dti_parts(count, DTI_CHUNK) + 4 * dti_parts(count, 32);
    memset(j, 0, sizeof *j);
    return packed_of(&j->p, bytes, room, count, fixed, err);
}

DT_SPARSE_LAUNCHES(zvc)
DT_SPARSE_CUDA_CODEC(zvc, zvc)
