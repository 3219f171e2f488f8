/* How codecs share out work: chunks of a fixed number of elements, packed one after another. Where
 * a chunk starts among the packed bytes depends on those before it, so a table says where each
 * ends.
 */
#ifndef DT_MEMORY_CODECS_CHUNKS_H
#define DT_MEMORY_CODECS_CHUNKS_H

#include <string.h>

#include "engine/base/compiler.h"

/* Elements of a chunk: what a thread reads twice stays in its cache. A multiple of a CSR row and of
 * what small floats need to fill words. */
enum { DTI_CHUNK = 1 << 14, DTI_CHUNK_MASK = DTI_CHUNK / 8 };

/* Tensors above this are refused, so that sums of sizes do not overflow. */
#define DT_CODEC_MOST (SIZE_MAX / 16)

static inline size_t dti_parts(size_t count, size_t each)
{
    return count / each + (count % each != 0);
}

static inline size_t dti_chunk_count(size_t count, size_t i)
{
    return count - i * DTI_CHUNK < DTI_CHUNK ? count - i * DTI_CHUNK : DTI_CHUNK;
}

/* The table: the end of chunk i, in words behind whatever has a fixed place, 8 bytes a chunk. */
static inline uint64_t dti_chunk_end(const uint8_t *table, size_t i)
{
    uint64_t end;
    memcpy(&end, table + 8 * i, 8);
    return end;
}

static inline uint64_t dti_chunk_begin(const uint8_t *table, size_t i)
{
    return i > 0 ? dti_chunk_end(table, i - 1) : 0;
}

static inline void dti_set_chunk_end(uint8_t *table, size_t i, uint64_t end)
{
    memcpy(table + 8 * i, &end, 8);
}

/* From the length of every chunk to its end. */
static inline void dti_sum_chunks(uint8_t *table, size_t n)
{
    for (size_t i = 1; i < n; i++)
        dti_set_chunk_end(table, i, dti_chunk_end(table, i - 1) + dti_chunk_end(table, i));
}

#endif
