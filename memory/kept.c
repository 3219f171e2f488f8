/* What searches have found: a list, as there are few. */
#include "memory/kept.h"

#include <string.h>

#include "engine/base/alloc.h"

typedef struct entry {
    char key[DT_SHA256_TEXT];
    void *value;
    void (*destroy)(void *value);
} entry;

struct dt_kept {
    size_t n, cap;
    entry *entry;
};

dt_kept *dt_kept_create(void)
{
    return dt_alloc(1, sizeof(dt_kept));
}

void dt_kept_destroy(dt_kept *k)
{
    if (k == NULL)
        return;
    for (size_t i = 0; i < k->n; i++)
        k->entry[i].destroy(k->entry[i].value);
    dt_free(k->entry);
    dt_free(k);
}

const void *dti_kept_find(const dt_kept *k, const char key[DT_SHA256_TEXT])
{
    for (size_t i = 0; k != NULL && i < k->n; i++)
        if (strcmp(k->entry[i].key, key) == 0)
            return k->entry[i].value;
    return NULL;
}

void dti_kept_put(
    dt_kept *k, const char key[DT_SHA256_TEXT], void *value, void (*destroy)(void *value))
{
    if (k == NULL || !dt_grow((void **)&k->entry, &k->cap, k->n, sizeof *k->entry)) {
        destroy(value);
        return;
    }
    entry *e = &k->entry[k->n++];
    memcpy(e->key, key, sizeof e->key);
    e->value = value;
    e->destroy = destroy;
}

size_t dti_kept_count(const dt_kept *k)
{
    return k != NULL ? k->n : 0;
}
