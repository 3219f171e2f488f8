/* JSON that strangers hand in: cJSON behind checks of size, depth, duplicate keys and UTF-8. */
#ifndef DT_ENGINE_JSON_H
#define DT_ENGINE_JSON_H

#include <cjson/cJSON.h>

#include "engine/error.h"

/* Parse exactly n bytes of one JSON value (white space around it is fine). DT_E_DATA with the offset for
 * bad UTF-8, NUL bytes, nesting over max_depth, more than max_keys keys in all, or two keys of one name in
 * an object. Free *out with cJSON_Delete. */
dt_status dt_json_parse(cJSON **out, const char *text, size_t n, int max_depth, size_t max_keys,
    dt_err *err) DT_NODISCARD;

#endif
