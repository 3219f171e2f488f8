/* Host memory for tables and buffers: overflow-checked, and made to fail at the n-th call by tests.
 * Tensor bytes never come from here: those live in the arena. */
#ifndef DT_ENGINE_BASE_ALLOC_H
#define DT_ENGINE_BASE_ALLOC_H

#include "engine/base/compiler.h"

/* Zeroed memory for n objects; NULL when it cannot be had or n * each overflows. n = 0 gives a
 * valid pointer. Free with dt_free, which takes NULL. */
void *dt_alloc(size_t n, size_t each) DT_NODISCARD;
void *dt_realloc(void *p, size_t n, size_t each) DT_NODISCARD; /* new bytes are not zeroed */
char *dt_strdup(const char *s) DT_NODISCARD;
void dt_free(void *p);

/* From now on the process keeps the pages of what is freed, as far as the C library lets it choose:
 * a search takes and frees the same megabytes plan after plan. For a program that is ours: what the
 * C library is told so it does for the whole process, and for good. Until dt_alloc_trim, which
 * gives pages back to the system, and in a host program, where nothing was held, changes no
 * setting. */
void dt_alloc_hold(void);
void dt_alloc_trim(void);
/* Of a block that stays, the whole pages, as what they hold is not wanted; they come again as
 * zeros. */
void dt_alloc_forget(void *p, size_t n);

/* Make room for one more element behind the first n of a growing array, of whose pointer the
 * address is given: dt_grow(&x->v, &x->cap, x->n, sizeof *x->v). False when memory is out, with all
 * as it was. */
bool dt_grow(void *array, size_t *cap, size_t n, size_t each) DT_NODISCARD;

/* For tests, and one count for the process, as a block may be freed by another session, thread or
 * module than the one that asked for it. The k-th call from now on (1-based) fails once; 0 turns it
 * off. Returns how many calls the one before was away from failing: at most 0 if it has failed. */
long dti_alloc_fail_at(long k);
long dti_alloc_live(void);    /* blocks handed out and not yet freed */
long dt_alloc_calls(void);    /* blocks asked for so far, larger ones for old ones included */
size_t dti_alloc_bytes(void); /* of those live now */
size_t dti_alloc_most(void);  /* of those live at once, since this was asked last */

/* A module that has this code of its own counts where the program that loads it does, from before
 * its first block. */
typedef struct dti_alloc_counts dti_alloc_counts;
dti_alloc_counts *dti_alloc_counted(void);
void dt_alloc_count_in(dti_alloc_counts *of);

#endif
