/* Results as one JSON object, through cJSON; what fails is remembered to the end. */
#include "tools/json_out.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "engine/base/text.h"

dti_json dti_json_begin(void)
{
    cJSON *o = cJSON_CreateObject();
    return (dti_json){o, o != NULL};
}

dti_json dti_json_begin_list(void)
{
    cJSON *o = cJSON_CreateArray();
    return (dti_json){o, o != NULL};
}

dt_status dti_json_end(dti_json *j, dt_err *err)
{
    char *printed = j->o != NULL && j->ok ? cJSON_Print(j->o) : NULL;
    cJSON_Delete(j->o);
    *j = (dti_json){NULL, false};
    if (printed == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the report");
    puts(printed);
    cJSON_free(printed);
    return DT_OK;
}

void dti_json_drop(dti_json *j)
{
    cJSON_Delete(j->o);
    *j = (dti_json){NULL, false};
}

/* Names of files need not be UTF-8, JSON must be. */
static cJSON *text_of(const char *value)
{
    cJSON *t = cJSON_CreateString(value);
    if (t != NULL)
        dt_utf8_mend(t->valuestring);
    return t;
}

void dti_json_text(dti_json *j, const char *key, const char *value)
{
    cJSON *t = text_of(value);
    const bool ok = t != NULL && cJSON_AddItemToObject(j->o, key, t);
    if (!ok)
        cJSON_Delete(t);
    j->ok = ok && j->ok;
}

/* cJSON keeps numbers as double: whole numbers are written as they are. */
void dti_json_whole(dti_json *j, const char *key, uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, value);
    j->ok = cJSON_AddRawToObject(j->o, key, digits) != NULL && j->ok;
}

void dti_json_real(dti_json *j, const char *key, double value, int decimals)
{
    char digits[352]; /* the largest double has 309 before the point */
    snprintf(digits, sizeof digits, "%.*f", decimals, value);
    j->ok = cJSON_AddRawToObject(j->o, key, isfinite(value) ? digits : "null") != NULL && j->ok;
}

void dti_json_flag(dti_json *j, const char *key, bool value)
{
    j->ok = cJSON_AddBoolToObject(j->o, key, value) != NULL && j->ok;
}

void dti_json_null(dti_json *j, const char *key)
{
    j->ok = cJSON_AddNullToObject(j->o, key) != NULL && j->ok;
}

dti_json dti_json_inner(dti_json *j, const char *key)
{
    cJSON *o = cJSON_AddObjectToObject(j->o, key);
    return (dti_json){o, o != NULL};
}

dti_json dti_json_list(dti_json *j, const char *key)
{
    cJSON *o = cJSON_AddArrayToObject(j->o, key);
    return (dti_json){o, o != NULL};
}

static bool append(const dti_json *list, cJSON *o)
{
    if (o != NULL && cJSON_AddItemToArray(list->o, o))
        return true;
    cJSON_Delete(o);
    return false;
}

dti_json dti_json_element(dti_json *list)
{
    cJSON *o = cJSON_CreateObject();
    const bool ok = append(list, o);
    return (dti_json){ok ? o : NULL, ok};
}

dti_json dti_json_inner_list(dti_json *list)
{
    cJSON *o = cJSON_CreateArray();
    const bool ok = append(list, o);
    return (dti_json){ok ? o : NULL, ok};
}

void dti_json_leave(dti_json *j, const dti_json *in)
{
    j->ok = j->ok && in->ok;
}

void dti_json_push(dti_json *list, uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, value);
    list->ok = append(list, cJSON_CreateRaw(digits)) && list->ok;
}

void dti_json_push_real(dti_json *list, double value)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%.6g", value);
    list->ok = append(list, cJSON_CreateRaw(isfinite(value) ? digits : "null")) && list->ok;
}

void dti_json_push_text(dti_json *list, const char *value)
{
    list->ok = append(list, text_of(value)) && list->ok;
}
