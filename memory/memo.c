/* A table by the first digits of the key: of two that want one place the later one has it. */
#include "memory/memo.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"

enum { DIGITS = 4, PLACES = 1 << 13 };

typedef struct entry {
    char key[DT_SHA256_TEXT];
    void *value; /* NULL: there is none */
    size_t bytes;
} entry;

struct dt_memo {
    size_t bytes, hits;
    entry entry[PLACES];
};

dt_memo *dt_memo_create(void)
{
    return dt_alloc(1, sizeof(dt_memo));
}

static void drop(dt_memo *m, entry *e)
{
    if (e->value != NULL)
        m->bytes -= e->bytes;
    dt_free(e->value);
    e->value = NULL;
}

void dt_memo_destroy(dt_memo *m)
{
    if (m == NULL)
        return;
    for (size_t i = 0; i < PLACES; i++)
        drop(m, &m->entry[i]);
    dt_free(m);
}

static entry *place_of(dt_memo *m, const char key[DT_SHA256_TEXT])
{
    char digits[DIGITS + 1] = "";
    memcpy(digits, key, DIGITS);
    return &m->entry[strtoul(digits, NULL, 16) % PLACES];
}

const void *dti_memo_find(dt_memo *m, const char key[DT_SHA256_TEXT], size_t bytes)
{
    if (m == NULL)
        return NULL;
    const entry *e = place_of(m, key);
    if (e->value == NULL || e->bytes != bytes || strcmp(e->key, key) != 0)
        return NULL;
    m->hits++;
    return e->value;
}

void dti_memo_put(dt_memo *m, const char key[DT_SHA256_TEXT], const void *value, size_t bytes)
{
    if (m == NULL)
        return;
    entry *e = place_of(m, key);
    drop(m, e);
    if (bytes > DTI_MEMO_BYTES - m->bytes)
        return;
    e->value = dt_alloc(bytes, 1);
    if (e->value == NULL)
        return;
    memcpy(e->value, value, bytes);
    memcpy(e->key, key, sizeof e->key);
    e->bytes = bytes;
    m->bytes += bytes;
}

size_t dti_memo_hits(const dt_memo *m)
{
    return m != NULL ? m->hits : 0;
}
