/* What searches have found for a session, so that they need not look again when the same program is
 * planned once more. Whoever searches has a key for all that the answer depends on. Of one thread
 * at a time, as the session is. */
#ifndef DT_MEMORY_KEPT_H
#define DT_MEMORY_KEPT_H

#include "engine/base/error.h"
#include "engine/base/sha256.h"

typedef struct dt_kept dt_kept;

/* Writes what a key and ".txt" make the name of a file; false: there is no place for files. */
typedef bool dt_kept_stem(const void *of, char *to, size_t bytes);

/* NULL when there is no memory, which costs searches and nothing else. @stem: where what is found
 * stays for later runs, asked with @of once, when the first search begins; NULL: in no file. */
dt_kept *dt_kept_create(dt_kept_stem *stem, const void *of);
void dt_kept_destroy(dt_kept *k);

/* What was put there by that key, borrowed; NULL: nothing was, or @k is NULL. */
const void *dti_kept_find(const dt_kept *k, const char key[DT_SHA256_TEXT]);

/* Keep @value, which @destroy gives back, from here on or at once when it cannot be kept. The key
 * is a new one. */
void dti_kept_put(
    dt_kept *k, const char key[DT_SHA256_TEXT], void *value, void (*destroy)(void *value));

/* A file's text, with one line ahead of it that names key and sum; NULL: there is none, or what is
 * there is none such, of which dt_kept_note speaks. The caller frees it. */
char *dti_kept_read(dt_kept *k, const char key[DT_SHA256_TEXT], size_t *bytes);
/* Write one; without a stem, or where it cannot be written, nothing is done. */
void dti_kept_write(dt_kept *k, const char key[DT_SHA256_TEXT], const char *text, size_t n);
/* What is to be said of files that were not taken, a line; "": nothing. */
const char *dt_kept_note(const dt_kept *k);

/* How many are kept; for tests. */
size_t dti_kept_count(const dt_kept *k);

#endif
