/* What a wrong word may have meant: one of ours that is nearly the same, or what others call it. */
#ifndef DT_ENGINE_CONFIG_NEAREST_H
#define DT_ENGINE_CONFIG_NEAREST_H

#include "engine/base/error.h"

/* The word of @words (NULL-terminated) that @word may have meant, or NULL: what other programs call
 * so (foreign.def), the nearest in edit distance if it is close, the only one that has a
 * part which begins so ("vit" of "vit_small"), or, of words of two or three letters, the only one
 * that is one edit away. */
const char *dt_nearest(const char *word, const char *const *words);

/* What to do instead of what other programs call so and this one does not have (absent.def); NULL:
 * nothing is known of that word. */
const char *dt_absent(const char *word);

/* "a, b, c", or as many as there is room for and how many more there are. Returns @to. */
const char *dt_list_words(char *to, size_t bytes, const char *const *words);

/* DT_E_CONFIG: "WHAT; did you mean 'NEAREST'? There are: ALL", where @word is none of @words; of
 * what is absent, what to do instead, and ALL: the word may have meant something else. */
dt_status dt_unknown(
    const char *what, const char *word, const char *const *words, dt_err *err) DT_NODISCARD;

#endif
