/* What a search has worked out before. It tries many plans, and most come out as one that was tried
 * before, so what takes its time is looked up by a hash of all that it depends on. */
#ifndef DT_MEMORY_MEMO_H
#define DT_MEMORY_MEMO_H

#include "engine/base/error.h"
#include "engine/base/sha256.h"

typedef struct dt_memo dt_memo;

/* Bytes of values at the most; the table takes some more. */
enum { DTI_MEMO_BYTES = 64 << 20 };

/* NULL when there is no memory, which costs time and nothing else. */
dt_memo *dt_memo_create(void);
void dt_memo_destroy(dt_memo *m);

/* The value of so many bytes that was put by that key, borrowed until the next one is put; NULL:
 * there is none any more, or @m is NULL. */
const void *dti_memo_find(dt_memo *m, const char key[DT_SHA256_TEXT], size_t bytes);
/* Keep a copy, where there is room; @m may be NULL. */
void dti_memo_put(dt_memo *m, const char key[DT_SHA256_TEXT], const void *value, size_t bytes);

/* How many were found; for tests. */
size_t dti_memo_hits(const dt_memo *m);

#endif
