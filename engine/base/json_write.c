/* JSON being written, through cJSON; what fails is remembered to the end. */
#include "engine/base/json_write.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "engine/base/numbers_text.h"
#include "engine/base/text.h"

dt_json dt_json_begin(void)
{
    cJSON *o = cJSON_CreateObject();
    return (dt_json){o, o != NULL};
}

dt_json dt_json_begin_list(void)
{
    cJSON *o = cJSON_CreateArray();
    return (dt_json){o, o != NULL};
}

/* What cJSON prints of numbers goes by the locale. */
static dt_status end(
    dt_json *j, char *print(const cJSON *), char **text, const char *what, dt_err *err)
{
    const locale_t before = dt_c_locale_enter();
    *text = j->o != NULL && j->ok ? print(j->o) : NULL;
    dt_c_locale_leave(before);
    dt_json_drop(j);
    return *text != NULL ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory for %s", what);
}

dt_status dt_json_end(dt_json *j, char **text, const char *what, dt_err *err)
{
    return end(j, cJSON_Print, text, what, err);
}

dt_status dt_json_end_dense(dt_json *j, char **text, const char *what, dt_err *err)
{
    return end(j, cJSON_PrintUnformatted, text, what, err);
}

void dt_json_drop(dt_json *j)
{
    cJSON_Delete(j->o);
    *j = (dt_json){NULL, false};
}

static cJSON *text_of(const char *value)
{
    cJSON *t = cJSON_CreateString(value);
    if (t != NULL)
        dt_utf8_mend(t->valuestring);
    return t;
}

void dt_json_text(dt_json *j, const char *key, const char *value)
{
    cJSON *t = text_of(value);
    const bool ok = t != NULL && cJSON_AddItemToObject(j->o, key, t);
    if (!ok)
        cJSON_Delete(t);
    j->ok = ok && j->ok;
}

void dt_json_raw(dt_json *j, const char *key, const char *value)
{
    j->ok = cJSON_AddRawToObject(j->o, key, value) != NULL && j->ok;
}

/* cJSON keeps numbers as double: whole numbers are written as they are. */
void dt_json_whole(dt_json *j, const char *key, uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, value);
    dt_json_raw(j, key, digits);
}

void dt_json_real(dt_json *j, const char *key, double value, int decimals)
{
    char digits[352]; /* the largest double has 309 before the point */
    dt_snprintf(digits, sizeof digits, "%.*f", decimals, value);
    dt_json_raw(j, key, isfinite(value) ? digits : "null");
}

void dt_json_seconds(dt_json *j, const char *key, double value)
{
    char digits[32];
    dt_snprintf(digits, sizeof digits, "%.9g", value);
    dt_json_raw(j, key, isfinite(value) ? digits : "null");
}

void dt_json_number(dt_json *j, const char *key, double value)
{
    j->ok = cJSON_AddNumberToObject(j->o, key, value) != NULL && j->ok;
}

void dt_json_flag(dt_json *j, const char *key, bool value)
{
    j->ok = cJSON_AddBoolToObject(j->o, key, value) != NULL && j->ok;
}

void dt_json_null(dt_json *j, const char *key)
{
    j->ok = cJSON_AddNullToObject(j->o, key) != NULL && j->ok;
}

dt_json dt_json_inner(dt_json *j, const char *key)
{
    cJSON *o = cJSON_AddObjectToObject(j->o, key);
    return (dt_json){o, o != NULL};
}

dt_json dt_json_list(dt_json *j, const char *key)
{
    cJSON *o = cJSON_AddArrayToObject(j->o, key);
    return (dt_json){o, o != NULL};
}

static bool append(const dt_json *list, cJSON *o)
{
    if (o != NULL && cJSON_AddItemToArray(list->o, o))
        return true;
    cJSON_Delete(o);
    return false;
}

dt_json dt_json_element(dt_json *list)
{
    cJSON *o = cJSON_CreateObject();
    const bool ok = append(list, o);
    return (dt_json){ok ? o : NULL, ok};
}

dt_json dt_json_inner_list(dt_json *list)
{
    cJSON *o = cJSON_CreateArray();
    const bool ok = append(list, o);
    return (dt_json){ok ? o : NULL, ok};
}

void dt_json_leave(dt_json *j, const dt_json *in)
{
    j->ok = j->ok && in->ok;
}

void dt_json_push(dt_json *list, uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, value);
    list->ok = append(list, cJSON_CreateRaw(digits)) && list->ok;
}

void dt_json_push_real(dt_json *list, double value)
{
    char digits[32];
    dt_snprintf(digits, sizeof digits, "%.6g", value);
    list->ok = append(list, cJSON_CreateRaw(isfinite(value) ? digits : "null")) && list->ok;
}

void dt_json_push_text(dt_json *list, const char *value)
{
    list->ok = append(list, text_of(value)) && list->ok;
}
