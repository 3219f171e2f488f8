/* Results as one JSON object. Every member is added even after one failed: only the whole counts.
 * Names and texts are copied. */
#ifndef DT_TOOLS_JSON_OUT_H
#define DT_TOOLS_JSON_OUT_H

#include <cjson/cJSON.h>

#include "engine/base/error.h"

/* An object or list being filled; @ok becomes false when memory is out. */
typedef struct dt_json {
    cJSON *o;
    bool ok;
} dt_json;

dt_json dti_json_begin(void);
dt_json dti_json_begin_list(void);
/* Print it on stdout and free it. DT_E_NOMEM when a member is missing. */
dt_status dti_json_end(dt_json *j, dt_err *err) DT_NODISCARD;
void dti_json_drop(dt_json *j); /* free it and print nothing */

void dti_json_text(dt_json *j, const char *key, const char *value);
void dti_json_whole(dt_json *j, const char *key, uint64_t value);
/* @decimals behind the point; null when @value is not finite. */
void dti_json_real(dt_json *j, const char *key, double value, int decimals);
void dti_json_flag(dt_json *j, const char *key, bool value);
void dti_json_null(dt_json *j, const char *key);

/* Members and elements that hold others: fill them, then dti_json_leave. */
dt_json dti_json_inner(dt_json *j, const char *key); /* an object */
dt_json dti_json_list(dt_json *j, const char *key);
dt_json dti_json_element(dt_json *list); /* an object */
dt_json dti_json_inner_list(dt_json *list);
void dti_json_leave(dt_json *j, const dt_json *in);
void dti_json_push(dt_json *list, uint64_t value); /* an element that is a whole number */
/* One that is not finite is null. */
void dti_json_push_real(dt_json *list, double value);
void dti_json_push_text(dt_json *list, const char *value);

#endif
