/* What a network's classes are called, as text: a line a class in the order of their numbers, an
 * empty one where it has no name. A run keeps it, as its data may be gone when it is asked. */
#ifndef DT_DATA_CLASS_NAMES_H
#define DT_DATA_CLASS_NAMES_H

#include <stdio.h>

#include "data/source.h"

enum { DTI_CLASS_NAME_BYTES = 255 }; /* the longest that a folder may have */

/* Names of class numbers; zero: none. */
typedef struct dt_class_names {
    char *text;
    const char **name; /* "": none */
    int64_t n;
} dt_class_names;

/* Whether the source calls its classes anything. */
bool dt_class_names_known(const dt_source *s);

/* The lines of @classes classes. Bytes that are no printable UTF-8 become '?', and what is behind
 * DTI_CLASS_NAME_BYTES is left out. */
void dt_class_names_print(const dt_source *s, int64_t classes, FILE *f);

/* Take such lines from a text, which stays the caller's. DT_E_DATA with path and line where they
 * are not @classes, or a name is too long or not printable; DT_E_NOMEM. */
dt_status dti_class_names_parse(dt_class_names *out, const char *path, const char *text,
    size_t bytes, int64_t classes, dt_err *err) DT_NODISCARD;
/* Of a file. @text: they are the bytes of a text, which is said otherwise where it is wrong. */
dt_status dt_class_names_read(
    dt_class_names *out, const char *path, int64_t classes, bool text, dt_err *err) DT_NODISCARD;
void dt_class_names_deinit(dt_class_names *n);

/* Whether a source calls all classes so; one that calls them nothing does. DT_E_DATA names the
 * first class that it calls otherwise: its labels do not mean what was learned. */
dt_status dt_class_names_check(
    const dt_class_names *n, const dt_source *s, dt_err *err) DT_NODISCARD;

/* NULL: no name. Borrowed. */
const char *dt_class_names_of(const dt_class_names *n, int32_t label);

#endif
