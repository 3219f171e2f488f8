/* What codecs share whose packed bytes depend on which values are zero. Behind the table of chunks
 * comes what they keep of a fixed size, their heads: a word for so many elements. Behind these come
 * the chunks, each packed to whole words. */
#ifndef DT_MEMORY_CODECS_SPARSE_H
#define DT_MEMORY_CODECS_SPARSE_H

#include "memory/codec.h"
#include "memory/codecs/chunks.h"
#include "memory/codecs/lanes.h"

/* A chunk of @n elements. @how: the codec's. @words: what it is packed to, once that is known. */
typedef struct dti_chunk {
    const dti_lanes *lanes;
    const void *how;
    size_t n, words;
} dti_chunk;

/**
 * struct dti_sparse - one of these codecs.
 * @packed: for errors, "by zvc"
 * @each:    elements for which there is a word of heads, a part of DTI_CHUNK
 * @measure: the words that the chunk at @from is packed to; writes its head, unless that is NULL:
 * there is no room
 * @pack:    the chunk to @to
 * @unpack:  the inverse; false when no chunk was packed to this. Words lie where the table says,
 * and that is inside the packed bytes; nothing else is certain
 */
typedef struct dti_sparse {
    const char *packed;
    const void *how;
    size_t each;
    size_t (*measure)(const dti_chunk *c, const uint8_t *from, uint8_t *head);
    void (*pack)(const dti_chunk *c, const uint8_t *from, const uint8_t *head, uint8_t *to);
    bool (*unpack)(const dti_chunk *c, const uint8_t *from, const uint8_t *head, uint8_t *to);
} dti_sparse;

/* Bytes of the table and the heads. */
static inline size_t dti_sparse_fixed(const dti_sparse *s, size_t count)
{
    return 8 * dti_parts(count, DTI_CHUNK) + 4 * dti_parts(count, s->each);
}

/* As dt_codec has them; chunks are shared out to the team. */
bool dti_sparse_encode(
    const dti_sparse *s, const void *src, size_t count, void *dst, size_t capacity, size_t *used);
dt_status dti_sparse_decode(const dti_sparse *s, const void *src, size_t used, void *dst,
    size_t count, dt_err *err) DT_NODISCARD;

/* NAME_encode and NAME_decode, by a dti_sparse called NAME_sparse. */
#define DT_SPARSE_CODEC(name)                                                                      \
    static bool name##_encode(                                                                     \
        const void *src, size_t count, void *dst, size_t capacity, size_t *used)                   \
    {                                                                                              \
        return dti_sparse_encode(&name##_sparse, src, count, dst, capacity, used);                 \
    }                                                                                              \
    static dt_status name##_decode(                                                                \
        const void *src, size_t used, void *dst, size_t count, dt_err *err)                        \
    {                                                                                              \
        return dti_sparse_decode(&name##_sparse, src, used, dst, count, err);                      \
    }

#endif
