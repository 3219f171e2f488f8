/* Compressed sparse rows on a CUDA device: memory/codecs/csr.c's bytes. */
#include "memory/codecs/sparse.cuh"

DT_C_HEADERS
#include "memory/codecs/small_bits.h"
DT_C_HEADERS_END

enum { ROW = 256, ROW_WORDS = ROW / 32, CHUNK_ROWS = DTI_CHUNK / ROW };

/* @per: values a word; 1: as they are, and the format says nothing */
typedef struct csr_job {
    packed p;
    const uint32_t *src;
    uint32_t *dst;
    uint32_t per;
    dti_small_format f;
} csr_job;

DT_DEVICE uint32_t csr_parts(uint32_t n, uint32_t each)
{
    return (n + each - 1) / each;
}

DT_DEVICE uint32_t csr_words(uint32_t nonzero, uint32_t per)
{
    return csr_parts(nonzero, per) + csr_parts(nonzero, 4);
}

DT_DEVICE uint32_t *csr_row_ends(const packed *p, uint64_t chunk)
{
    return (uint32_t *)(void *)(p->at + 8 * p->chunks) + chunk * CHUNK_ROWS;
}

/* Row ends, and the words of the chunk. */
DT_KERNEL(csr_scan, csr_job)
{
    __shared__ uint32_t mask[TEAM], count[TEAM];
    const packed *p = &given.p;
    const uint64_t chunk = blockIdx.x, n = chunk_elements(p, chunk);
    const unsigned t = threadIdx.x;
    find_nonzero(given.src + chunk * DTI_CHUNK, n, mask, count);
    if (t < CHUNK_ROWS && t * ROW < n)
        csr_row_ends(p, chunk)[t] = count[t * ROW_WORDS + ROW_WORDS - 1];
    if (t == TEAM - 1)
        ((uint64_t *)(void *)p->at)[chunk] = csr_words(count[TEAM - 1], given.per);
}

/* Columns are gathered first, so that whole words are written. */
DT_DEVICE void csr_put_columns(
    uint64_t n, const uint32_t *mask, const uint32_t *count, uint8_t *column, uint32_t *to)
{
    const uint32_t nonzero = count[TEAM - 1];
    const unsigned lane = threadIdx.x % WARP;
    for (unsigned w = threadIdx.x / WARP; w * 32 < n; w += WARPS) {
        uint32_t rank;
        if (find_rank(mask, count, w, lane, &rank))
            column[rank] = (uint8_t)((w * 32 + lane) % ROW);
    }
    if (threadIdx.x < 4 * csr_parts(nonzero, 4) - nonzero)
        column[nonzero + threadIdx.x] = 0;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < csr_parts(nonzero, 4); i += TEAM)
        to[i] = (uint32_t)column[4 * i] | (uint32_t)column[4 * i + 1] << 8 |
                (uint32_t)column[4 * i + 2] << 16 | (uint32_t)column[4 * i + 3] << 24;
}

DT_DEVICE void csr_put_values(const csr_job *j, const uint32_t *src, uint64_t n,
    const uint32_t *mask, const uint32_t *count, uint16_t *code, uint32_t *to)
{
    const uint32_t nonzero = count[TEAM - 1], bits = dti_small_bits(j->f);
    const unsigned lane = threadIdx.x % WARP;
    for (unsigned w = threadIdx.x / WARP; w * 32 < n; w += WARPS) {
        uint32_t rank;
        if (!find_rank(mask, count, w, lane, &rank))
            continue;
        if (j->per == 1)
            to[rank] = src[w * 32 + lane];
        else
            code[rank] = (uint16_t)dti_small_of(src[w * 32 + lane], j->f);
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; j->per > 1 && i < csr_parts(nonzero, j->per); i += TEAM) {
        uint32_t w = 0;
        for (uint32_t k = 0; k < j->per && i * j->per + k < nonzero; k++)
            w |= (uint32_t)code[i * j->per + k] << (k * bits);
        to[i] = w;
    }
}

DT_KERNEL(csr_pack, csr_job)
{
    __shared__ uint32_t mask[TEAM], count[TEAM];
    __shared__ uint16_t room[DTI_CHUNK]; /* of columns, then of codes */
    const packed *p = &given.p;
    const uint64_t chunk = blockIdx.x, n = chunk_elements(p, chunk);
    const uint32_t *const src = given.src + chunk * DTI_CHUNK;
    if (*p->header == OVERFLOWN)
        return;
    uint32_t *const to = (uint32_t *)(void *)(p->at + p->fixed) + chunk_begin(p, chunk);
    find_nonzero(src, n, mask, count);
    csr_put_columns(
        n, mask, count, (uint8_t *)(void *)room, to + csr_parts(count[TEAM - 1], given.per));
    __syncthreads();
    csr_put_values(&given, src, n, mask, count, room, to);
}

DT_DEVICE uint32_t csr_length(uint64_t n, uint32_t row)
{
    return n - row * ROW < ROW ? (uint32_t)(n - row * ROW) : (uint32_t)ROW;
}

DT_DEVICE uint32_t csr_value(const csr_job *j, const uint32_t *from, uint32_t k)
{
    const uint32_t bits = dti_small_bits(j->f);
    if (j->per == 1)
        return from[k];
    return dti_small_to(from[k / j->per] >> (k % j->per * bits) & ((1u << bits) - 1), j->f);
}

/* The elements [begin, end) of a row, by a warp. False when a column lies past its end. */
DT_DEVICE bool csr_spread(const csr_job *j, const uint32_t *from, const uint8_t *column,
    uint32_t begin, uint32_t end, uint32_t length, uint32_t *row, uint32_t *to)
{
    const unsigned lane = threadIdx.x % WARP;
    bool good = true;
    for (uint32_t c = lane; c < ROW; c += WARP)
        row[c] = 0;
    DT_WARP_MEETS();
    for (uint32_t k = begin + lane; k < end; k += WARP) {
        const uint32_t c = column[k];
        good = good && c < length;
        row[c] = csr_value(j, from, k);
    }
    DT_WARP_MEETS();
    for (uint32_t c = lane; c < length; c += WARP)
        to[c] = row[c];
    DT_WARP_MEETS();
    return good;
}

/* Whether the chunk's words and row ends can be; @good is shared. */
DT_DEVICE bool csr_fits(const csr_job *j, uint64_t chunk, uint64_t n, int *good)
{
    const uint32_t *const ends = csr_row_ends(&j->p, chunk);
    const uint32_t rows = csr_parts((uint32_t)n, ROW), r = threadIdx.x;
    if (r == 0)
        *good = csr_words(ends[rows - 1] <= DTI_CHUNK ? ends[rows - 1] : 0, j->per) ==
                chunk_end(&j->p, chunk) - chunk_begin(&j->p, chunk);
    __syncthreads();
    if (r < rows) {
        const uint32_t before = r > 0 ? ends[r - 1] : 0;
        if (ends[r] < before || ends[r] - before > csr_length(n, r))
            *(volatile int *)good = 0;
    }
    __syncthreads();
    return *good != 0;
}

DT_KERNEL(csr_unpack, csr_job)
{
    __shared__ uint32_t row[WARPS][ROW];
    __shared__ int good;
    const packed *p = &given.p;
    const uint64_t chunk = blockIdx.x, n = chunk_elements(p, chunk);
    uint32_t *const dst = given.dst + chunk * DTI_CHUNK;
    const unsigned warp = threadIdx.x / WARP;
    if (!chunk_may_be_unpacked(p, chunk, dst, n))
        return;
    if (!csr_fits(&given, chunk, n, &good)) {
        say(p->damaged);
        return;
    }
    const uint32_t *const ends = csr_row_ends(p, chunk);
    const uint32_t rows = csr_parts((uint32_t)n, ROW);
    const uint32_t *const from =
        (const uint32_t *)(const void *)(p->at + p->fixed) + chunk_begin(p, chunk);
    const uint8_t *const column =
        (const uint8_t *)(const void *)(from + csr_parts(ends[rows - 1], given.per));
    for (uint32_t r = warp; r < rows; r += WARPS)
        if (!csr_spread(&given, from, column, r > 0 ? ends[r - 1] : 0, ends[r], csr_length(n, r),
                row[warp], dst + r * ROW))
            say(p->damaged);
}

static dt_status csr_job_with(csr_job *j, uint32_t per, dti_small_format f, const void *bytes,
    size_t room, size_t count, dt_err *err)
{
    const size_t fixed = 8 * dti_parts(count, DTI_CHUNK) + 4 * dti_parts(count, ROW);
    memset(j, 0, sizeof *j);
    j->per = per;
    j->f = f;
    return packed_of(&j->p, bytes, room, count, fixed, err);
}

DT_SPARSE_LAUNCHES(csr)

#define CSR(codec, per, exponent, mantissa)                                                        \
    static dt_status codec##_job_of(                                                               \
        csr_job *j, const void *bytes, size_t room, size_t count, dt_err *err)                     \
    {                                                                                              \
        const dti_small_format f = {exponent, mantissa};                                           \
        return csr_job_with(j, per, f, bytes, room, count, err);                                   \
    }                                                                                              \
    DT_SPARSE_CUDA_CODEC(codec, csr)

CSR(csr, 1, 5, 10)
CSR(csr_fp16, 2, 5, 10)
CSR(csr_fp10, 3, 5, 4)
CSR(csr_fp8, 4, 4, 3)
