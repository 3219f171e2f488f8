/* JSON being written: objects and lists through cJSON. Every member is added even after one failed:
 * only the whole counts. Names and texts are copied. */
#ifndef DT_ENGINE_BASE_JSON_WRITE_H
#define DT_ENGINE_BASE_JSON_WRITE_H

#include <cjson/cJSON.h>

#include "engine/base/error.h"

/* An object or list being filled; @ok becomes false when memory is out. */
typedef struct dt_json {
    cJSON *o;
    bool ok;
} dt_json;

dt_json dt_json_begin(void);
dt_json dt_json_begin_list(void);
/* Print it, and free it: *text is what cJSON_free frees, indented and without a line's end at its
 * end. DT_E_NOMEM "no memory for WHAT" when a member is missing. */
dt_status dt_json_end(dt_json *j, char **text, const char *what, dt_err *err) DT_NODISCARD;
/* The same on one line, without a space. */
dt_status dt_json_end_dense(dt_json *j, char **text, const char *what, dt_err *err) DT_NODISCARD;
void dt_json_drop(dt_json *j); /* free it and print nothing */

/* Bytes that are not UTF-8 become '?': names of files need not be, JSON must. */
void dt_json_text(dt_json *j, const char *key, const char *value);
void dt_json_whole(dt_json *j, const char *key, uint64_t value);
/* @decimals behind the point; null when @value is not finite. */
void dt_json_real(dt_json *j, const char *key, double value, int decimals);
/* Nine digits that count, however short: a step of microseconds has as many as one of minutes. */
void dt_json_seconds(dt_json *j, const char *key, double value);
/* With as many digits as read back to the same number. */
void dt_json_number(dt_json *j, const char *key, double value);
void dt_json_flag(dt_json *j, const char *key, bool value);
void dt_json_null(dt_json *j, const char *key);
/* A value that is JSON already. */
void dt_json_raw(dt_json *j, const char *key, const char *value);

/* Members and elements that hold others: fill them, then dt_json_leave. */
dt_json dt_json_inner(dt_json *j, const char *key); /* an object */
dt_json dt_json_list(dt_json *j, const char *key);
dt_json dt_json_element(dt_json *list); /* an object */
dt_json dt_json_inner_list(dt_json *list);
void dt_json_leave(dt_json *j, const dt_json *in);
void dt_json_push(dt_json *list, uint64_t value); /* an element that is a whole number */
/* One that is not finite is null. */
void dt_json_push_real(dt_json *list, double value);
void dt_json_push_text(dt_json *list, const char *value);

#endif
