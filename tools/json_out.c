/* A command's result as JSON on stdout. */
#include "tools/json_out.h"

#include <stdio.h>

dt_status dti_json_out(dt_json *j, dt_err *err)
{
    char *text;
    DT_CHECK(dt_json_end(j, &text, "the report", err));
    puts(text);
    cJSON_free(text);
    return DT_OK;
}
