/* What searches have found: a list, as there are few; and files, a text each under a line with a
 * name, the key and the sum of the text, so that a file that is cut or of something else is known.
 */
#include "memory/kept.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"

typedef struct entry {
    char key[DT_SHA256_TEXT];
    void *value;
    void (*destroy)(void *value);
} entry;

enum { MOST_PATH = 4096, MOST_BYTES = 1 << 26, HEAD = 2 * DT_SHA256_TEXT + 32 };
/* Of all builds in a folder: some megabytes. */
enum { MOST_FILES = 256 };

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
    if (k == NULL || !dt_grow(&k->entry, &k->cap, k->n, sizeof *k->entry)) {
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

/* Whether it begins as others' stems do, up to the first '-', and ends with a key and ".txt". */
static bool is_kept(const char *name, const char *word, size_t n_word)
{
    static const char end[] = ".txt";
    const size_t n = strlen(name), n_key = DT_SHA256_TEXT - 1, n_end = sizeof end - 1;
    if (n < n_word + n_key + n_end || strncmp(name, word, n_word) != 0)
        return false;
    const char *key = name + n - n_end - n_key;
    return strcmp(key + n_key, end) == 0 && strspn(key, "0123456789abcdef") == n_key;
}

/* How many files of searches there are in the folder, and which was written first. */
static size_t count_files(const char *stem, char oldest[MOST_PATH])
{
    const char *slash = strrchr(stem, '/'), *word = slash != NULL ? slash + 1 : stem;
    const size_t to_word = (size_t)(word - stem), n_word = strcspn(word, "-") + 1;
    char path[MOST_PATH];
    struct stat is, first = {0};
    size_t n = 0;
    snprintf(path, sizeof path, "%.*s", (int)to_word, to_word > 0 ? stem : ".");
    DIR *folder = opendir(to_word > 0 ? path : ".");
    for (const struct dirent *e; folder != NULL && (e = dt_io->readdir(folder)) != NULL;) {
        if (!is_kept(e->d_name, word, n_word) ||
            snprintf(path, sizeof path, "%.*s%s", (int)to_word, stem, e->d_name) >= MOST_PATH ||
            lstat(path, &is) != 0 || !S_ISREG(is.st_mode))
            continue;
        const bool older = is.st_mtim.tv_sec < first.st_mtim.tv_sec ||
                           (is.st_mtim.tv_sec == first.st_mtim.tv_sec &&
                               is.st_mtim.tv_nsec < first.st_mtim.tv_nsec);
        if (n++ == 0 || older) {
            first = is;
            memcpy(oldest, path, sizeof path);
        }
    }
    if (folder != NULL)
        closedir(folder);
    return n;
}

/* Nothing else removes what older builds have left. */
static void drop_oldest(const char *stem)
{
    char oldest[MOST_PATH];
    while (count_files(stem, oldest) > MOST_FILES && dt_io->unlink(oldest) == 0)
        ;
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
    if (dt_make_above(path, &why) == DT_OK && dt_write_file(path, all, at + n, &why) == DT_OK)
        drop_oldest(k->stem);
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
