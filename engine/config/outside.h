/* What is asked of a policy, layer or source from outside before it is registered, and what becomes
 * of a status that one of its functions gives. */
#ifndef DT_ENGINE_CONFIG_OUTSIDE_H
#define DT_ENGINE_CONFIG_OUTSIDE_H

#include "engine/config/options.h"

enum { DTI_OUTSIDE_ROWS = 16, DTI_OUTSIDE_BYTES = 1 << 20 }; /* at most: options, their struct */

/* A word of a-z, 0-9 and _, of at most 63; NULL is none. */
bool dt_is_word(const char *s);

/* Its name is such a word, and every row has a key of its own, lies within the struct
 * of @bytes bytes and at a place for its type, and takes its own default. DT_E_CONFIG says what
 * does not hold; @what is "policy", "layer" or "source". */
dt_status dt_outside_check(const char *what, const char *name, const dt_opt *rows, size_t n,
    size_t bytes, dt_err *err) DT_NODISCARD;

bool dt_is_status(int n); /* a dt_status has that value */

/* What a function of the host program gave, or @instead where that is no dt_status, or
 * DT_E_INTERNAL, which is ours alone. Where it failed and left no note behind the @notes that there
 * were, one says so; @what: "its pass". */
dt_status dt_outside_status(
    dt_status given, dt_status instead, const char *what, int notes, dt_err *err) DT_NODISCARD;

#endif
