/* What searches have found for a session, so that they need not look again when the same program is
 * planned once more. Whoever searches has a key for all that the answer depends on. Of one thread
 * at a time, as the session is. */
#ifndef DT_MEMORY_KEPT_H
#define DT_MEMORY_KEPT_H

#include "engine/base/error.h"
#include "engine/base/sha256.h"

typedef struct dt_kept dt_kept;

/* NULL when there is no memory, which costs searches and nothing else. */
dt_kept *dt_kept_create(void);
void dt_kept_destroy(dt_kept *k);

/* What was put there by that key, borrowed; NULL: nothing was, or @k is NULL. */
const void *dti_kept_find(const dt_kept *k, const char key[DT_SHA256_TEXT]);

/* Keep @value, which @destroy gives back, from here on or at once when it cannot be kept. The key
 * is a new one. */
void dti_kept_put(
    dt_kept *k, const char key[DT_SHA256_TEXT], void *value, void (*destroy)(void *value));

/* How many are kept; for tests. */
size_t dti_kept_count(const dt_kept *k);

#endif
