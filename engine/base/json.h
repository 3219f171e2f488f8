/* JSON that strangers hand in: cJSON behind checks of size, depth, duplicate keys, numbers and
 * UTF-8. */
#ifndef DT_ENGINE_BASE_JSON_H
#define DT_ENGINE_BASE_JSON_H

#include <stdio.h>

#include <cjson/cJSON.h>

#include "engine/base/error.h"

/* Parse exactly n bytes of one JSON value (white space around it is fine). DT_E_DATA with the
 * offset for bad UTF-8, NUL bytes (escaped ones too), control characters in strings, numbers JSON
 * does not know (01, +1), nesting over max_depth, or more than max_values values in all (what cJSON
 * allocates for); with the key for a number beyond a double's range, or two keys of one name in an
 * object. Free *out with cJSON_Delete.
 *
 * cJSON allocates as the host program has told it to (cJSON_InitHooks): by malloc, unless it has.
 * Finding a key in a cJSON object is linear: iterate over large objects. */
dt_status dt_json_parse(cJSON **out, const char *text, size_t n, int max_depth, size_t max_values,
    dt_err *err) DT_NODISCARD;

/* Whether it is a whole number that a double holds exactly: 0 to 2^53. */
bool dt_json_natural(const cJSON *v, uint64_t *out) DT_NODISCARD;

/* Write a string, in its quotes and with what must not stand in one escaped. */
void dti_json_put(FILE *f, const char *s);

#endif
