/* Run lengths on a CUDA device: memory/codecs/rle.c's bytes. */
#include "memory/codecs/sparse.cuh"

/* Runs of a chunk, at most: one a row, and one behind every second element. */
enum { RUN_ROW = 128, RUNS_MOST = DTI_CHUNK / RUN_ROW + DTI_CHUNK / 2 };

typedef struct rle_job {
    packed p;
    const uint32_t *src;
    uint32_t *dst;
} rle_job;

DT_DEVICE uint32_t *rle_runs(const packed *p, uint64_t chunk)
{
    return (uint32_t *)(void *)(p->at + 8 * p->chunks) + chunk;
}

DT_DEVICE uint32_t rle_run_words(uint32_t runs)
{
    return runs / 2 + runs % 2;
}

/* The bits of mask word w at whose elements a run begins. */
DT_DEVICE uint32_t rle_begins(const uint32_t *mask, unsigned w, uint64_t n)
{
    const uint32_t m = mask[w], before = w > 0 ? mask[w - 1] >> 31 : 0;
    const uint32_t row = w % (RUN_ROW / 32) == 0 ? 1 : 0;
    uint32_t there = ~0u;
    if (n < w * 32 + 32)
        there = n > w * 32 ? ~(~0u << (n - w * 32)) : 0;
    return ((~m & (m << 1 | before)) | row) & there;
}

/* In runs[w] those that begin up to word w. */
DT_DEVICE void rle_count(const uint32_t *mask, uint64_t n, uint32_t *runs)
{
    runs[threadIdx.x] = DT_POPULATION(rle_begins(mask, threadIdx.x, n));
    __syncthreads();
    add_up(runs);
}

DT_KERNEL(rle_scan, rle_job)
{
    __shared__ uint32_t mask[TEAM], count[TEAM], runs[TEAM];
    const packed *p = &given.p;
    const uint64_t chunk = blockIdx.x, n = chunk_elements(p, chunk);
    find_nonzero(given.src + chunk * DTI_CHUNK, n, mask, count);
    rle_count(mask, n, runs);
    if (threadIdx.x == TEAM - 1) {
        *rle_runs(p, chunk) = runs[TEAM - 1];
        ((uint64_t *)(void *)p->at)[chunk] = rle_run_words(runs[TEAM - 1]) + count[TEAM - 1];
    }
}

/* Where each run begins, and how many values are before it; and the same of the chunk's end. */
DT_DEVICE void rle_find(const uint32_t *mask, const uint32_t *count, const uint32_t *runs,
    uint64_t n, uint16_t *begin, uint16_t *values)
{
    const unsigned w = threadIdx.x;
    uint32_t r = w > 0 ? runs[w - 1] : 0;
    for (unsigned k = 0; k < 32; k++) {
        uint32_t rank;
        if ((rle_begins(mask, w, n) >> k & 1) == 0)
            continue;
        find_rank(mask, count, w, k, &rank);
        begin[r] = (uint16_t)(w * 32 + k);
        values[r++] = (uint16_t)rank;
    }
    if (w == TEAM - 1) {
        begin[runs[w]] = (uint16_t)n;
        values[runs[w]] = (uint16_t)count[w];
    }
}

DT_KERNEL(rle_pack, rle_job)
{
    __shared__ uint32_t mask[TEAM], count[TEAM], runs[TEAM];
    __shared__ uint16_t begin[RUNS_MOST + 1], values[RUNS_MOST + 1];
    const packed *p = &given.p;
    const uint64_t chunk = blockIdx.x, n = chunk_elements(p, chunk);
    const uint32_t *const src = given.src + chunk * DTI_CHUNK;
    const unsigned lane = threadIdx.x % WARP;
    if (*p->header == OVERFLOWN)
        return;
    uint32_t *const to = (uint32_t *)(void *)(p->at + p->fixed) + chunk_begin(p, chunk);
    find_nonzero(src, n, mask, count);
    rle_count(mask, n, runs);
    rle_find(mask, count, runs, n, begin, values);
    __syncthreads();
    const uint32_t all = runs[TEAM - 1], words = rle_run_words(all);
    uint8_t *const run = (uint8_t *)(void *)to;
    for (uint32_t i = threadIdx.x; i < 2 * words; i += TEAM) {
        const uint32_t v = i < all ? (uint32_t)(values[i + 1] - values[i]) : 0;
        run[2 * i] = (uint8_t)(i < all ? begin[i + 1] - begin[i] - v : 0);
        run[2 * i + 1] = (uint8_t)v;
    }
    for (unsigned w = threadIdx.x / WARP; w * 32 < n; w += WARPS) {
        uint32_t rank;
        if (find_rank(mask, count, w, lane, &rank))
            to[words + rank] = src[w * 32 + lane];
    }
}

/* Every thread has some of the runs, one after another. */
DT_DEVICE uint32_t rle_first(uint32_t runs, unsigned thread)
{
    const uint32_t each = (runs + TEAM - 1) / TEAM;
    return each * thread < runs ? each * thread : runs;
}

/* Whether so many runs, in so many words with their values, are those of n elements. In length[t]
 * the elements of the runs up to those of thread t. */
DT_DEVICE bool rle_fits(const uint8_t *run, uint32_t runs, uint64_t words, uint64_t n,
    uint32_t *length, uint32_t *values)
{
    const unsigned t = threadIdx.x;
    length[t] = values[t] = 0;
    for (uint32_t i = rle_first(runs, t); i < rle_first(runs, t + 1); i++) {
        length[t] += run[2 * i] + run[2 * i + 1];
        values[t] += run[2 * i + 1];
    }
    __syncthreads();
    add_up(length);
    add_up(values);
    return length[TEAM - 1] == n && rle_run_words(runs) + (uint64_t)values[TEAM - 1] == words;
}

/* The mask of a chunk whose runs fit. */
DT_DEVICE void rle_mask(const uint8_t *run, uint32_t runs, const uint32_t *length, uint64_t n,
    uint8_t *there, uint32_t *mask)
{
    const unsigned t = threadIdx.x, lane = t % WARP;
    uint32_t e = t > 0 ? length[t - 1] : 0;
    for (uint32_t i = rle_first(runs, t); i < rle_first(runs, t + 1); i++) {
        for (uint32_t k = 0; k < (uint32_t)run[2 * i] + run[2 * i + 1]; k++)
            there[e + k] = k >= run[2 * i] ? 1 : 0;
        e += (uint32_t)run[2 * i] + run[2 * i + 1];
    }
    __syncthreads();
    for (unsigned w = t / WARP; w < WORDS; w += WARPS) {
        const unsigned at = w * 32 + lane;
        const uint32_t m = __ballot_sync(0xFFFFFFFFu, at < n && there[at] != 0);
        if (lane == 0)
            mask[w] = m;
    }
    __syncthreads();
}

DT_KERNEL(rle_unpack, rle_job)
{
    __shared__ uint32_t mask[TEAM], count[TEAM], length[TEAM];
    __shared__ uint8_t there[DTI_CHUNK];
    const packed *p = &given.p;
    const uint64_t chunk = blockIdx.x, n = chunk_elements(p, chunk);
    uint32_t *const dst = given.dst + chunk * DTI_CHUNK;
    const unsigned lane = threadIdx.x % WARP;
    if (!chunk_may_be_unpacked(p, chunk, dst, n))
        return;
    const uint64_t begin = chunk_begin(p, chunk), words = chunk_end(p, chunk) - begin;
    const uint32_t *const from = (const uint32_t *)(const void *)(p->at + p->fixed) + begin;
    const uint8_t *const run = (const uint8_t *)(const void *)from;
    const uint32_t runs = *rle_runs(p, chunk);
    if (rle_run_words(runs) > words || runs > DTI_CHUNK ||
        !rle_fits(run, runs, words, n, length, count)) {
        say(p->damaged);
        return;
    }
    rle_mask(run, runs, length, n, there, mask);
    count[threadIdx.x] = DT_POPULATION(mask[threadIdx.x]);
    __syncthreads();
    add_up(count);
    for (unsigned w = threadIdx.x / WARP; w * 32 < n; w += WARPS) {
        uint32_t rank;
        const bool value = find_rank(mask, count, w, lane, &rank);
        if (w * 32 + lane < n)
            dst[w * 32 + lane] = value ? from[rle_run_words(runs) + rank] : 0;
    }
}

static dt_status rle_job_of(rle_job *j, const void *bytes, size_t room, size_t count, dt_err *err)
{
    memset(j, 0, sizeof *j);
    return packed_of(&j->p, bytes, room, count, 12 * dti_parts(count, DTI_CHUNK), err);
}

DT_SPARSE_LAUNCHES(rle)
DT_SPARSE_CUDA_CODEC(rle, rle)
