/* Results as one JSON object. Every member is added even after one failed: only the whole counts.
 * Names and texts are copied. */
#ifndef DT_TOOLS_JSON_OUT_H
#define DT_TOOLS_JSON_OUT_H

#include <cjson/cJSON.h>

#include "engine/base/error.h"

/* An object or list being filled; @ok becomes false when memory is out. */
typedef struct dti_json {
    cJSON *o;
    bool ok;
} dti_json;

dti_json dti_json_begin(void);
dti_json dti_json_begin_list(void);
/* Print it on stdout and free it. DT_E_NOMEM when a member is missing. */
dt_status dti_json_end(dti_json *j, dt_err *err) DT_NODISCARD;
void dti_json_drop(dti_json *j); /* free it and print nothing */

void dti_json_text(dti_json *j, const char *key, const char *value);
void dti_json_whole(dti_json *j, const char *key, uint64_t value);
/* @decimals behind the point; null when @value is not finite. */
void dti_json_real(dti_json *j, const char *key, double value, int decimals);
void dti_json_flag(dti_json *j, const char *key, bool value);
void dti_json_null(dti_json *j, const char *key);

/* Members and elements that hold others: fill them, then dti_json_leave. */
dti_json dti_json_inner(dti_json *j, const char *key); /* an object */
dti_json dti_json_list(dti_json *j, const char *key);
dti_json dti_json_element(dti_json *list); /* an object */
dti_json dti_json_inner_list(dti_json *list);
void dti_json_leave(dti_json *j, const dti_json *in);
void dti_json_push(dti_json *list, uint64_t value); /* an element that is a whole number */
/* One that is not finite is null. */
void dti_json_push_real(dti_json *list, double value);
void dti_json_push_text(dti_json *list, const char *value);

#endif
