/* What searches have found: a list, as there are few; and files, a text each under a line with a
 * name, the key and the sum of the text, so that a file that is cut or of something else is known.
 */
#include "memory/kept.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"

typedef struct entry {
    char key[DT_SHA256_TEXT];
    void *value;
    void (*destroy)(void *value);
} entry;

enum { MOST_PATH = 4096, MOST_BYTES = 1 << 26, HEAD = 2 * DT_SHA256_TEXT + 32 };

struct dt_kept {
    size_t n, cap;
    entry *entry;
    dt_kept_stem *ask; /* NULL: it was asked, or there is nobody to ask */
    const void *of;
    char stem[MOST_PATH], note[256];
};

dt_kept *dt_kept_create(dt_kept_stem *stem, const void *of)
{
    dt_kept *k = dt_alloc(1, sizeof(dt_kept));
    if (k != NULL)
        *k = (dt_kept){.ask = stem, .of = of};
    return k;
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

/* ---- files ---- */

static void ask(dt_kept *k)
{
    if (k->ask != NULL && !k->ask(k->of, k->stem, sizeof k->stem))
        k->stem[0] = '\0';
    k->ask = NULL;
}

static bool path_of(dt_kept *k, const char *key, char to[MOST_PATH])
{
    if (k != NULL)
        ask(k);
    const int n = k != NULL && k->stem[0] != '\0'
                      ? snprintf(to, MOST_PATH, "%s%s.txt", k->stem, key)
                      : MOST_PATH;
    return n < MOST_PATH;
}

static void head_of(const char *key, const char *text, size_t n, char to[HEAD])
{
    char sum[DT_SHA256_TEXT];
    dt_sha256 hash;
    dt_sha256_init(&hash);
    dt_sha256_add(&hash, text, n);
    dt_sha256_text(&hash, sum);
    snprintf(to, HEAD, "dnntrain kept %s %s\n", key, sum);
}

char *dti_kept_read(dt_kept *k, const char key[DT_SHA256_TEXT], size_t *bytes)
{
    char path[MOST_PATH], head[HEAD], *text;
    dt_err why = {0};
    size_t n;
    if (!path_of(k, key, path) || access(path, F_OK) != 0 ||
        dt_read_file(&text, &n, path, MOST_BYTES, DT_E_DATA, &why) != DT_OK)
        return NULL;
    const char *line = memchr(text, '\n', n);
    const size_t at = line != NULL ? (size_t)(line - text) + 1 : 0;
    head_of(key, text + at, n - at, head);
    if (at == 0 || strlen(head) != at || memcmp(head, text, at) != 0) {
        snprintf(k->note, sizeof k->note,
            "what was kept of a search is damaged and is not taken: %.150s", path);
        dt_free(text);
        return NULL;
    }
    memmove(text, text + at, n - at + 1);
    *bytes = n - at;
    return text;
}

void dti_kept_write(dt_kept *k, const char key[DT_SHA256_TEXT], const char *text, size_t n)
{
    char path[MOST_PATH], head[HEAD];
    dt_err why = {0};
    char *all = path_of(k, key, path) ? dt_alloc(n + HEAD, 1) : NULL;
    if (all == NULL)
        return;
    head_of(key, text, n, head);
    const size_t at = strlen(head);
    memcpy(all, head, at);
    memcpy(all + at, text, n);
    if (dt_make_above(path, &why) == DT_OK)
        (void)!dt_write_file(path, all, at + n, &why);
    dt_free(all);
}

const char *dt_kept_note(const dt_kept *k)
{
    return k != NULL ? k->note : "";
}

size_t dti_kept_count(const dt_kept *k)
{
    return k != NULL ? k->n : 0;
}
