/* A command's result as JSON on stdout. */
#ifndef DT_TOOLS_JSON_OUT_H
#define DT_TOOLS_JSON_OUT_H

#include "engine/base/json_write.h"

/* Print it, and free it. DT_E_NOMEM when a member is missing. */
dt_status dti_json_out(dt_json *j, dt_err *err) DT_NODISCARD;

#endif
