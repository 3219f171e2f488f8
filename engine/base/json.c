/* JSON from outside: checked as text, then read by cJSON. */
#include "engine/base/json.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers_text.h"
#include "engine/base/text.h"

/* cJSON keeps the place of its last error in a global. Its hooks are a global as well, which is the
 * host program's: it cannot be read, so what is set could not be put back. */
static pthread_mutex_t cjson_lock = PTHREAD_MUTEX_INITIALIZER;

static bool digit(const char *s, size_t n, size_t i)
{
    return i < n && s[i] >= '0' && s[i] <= '9';
}

static size_t digits(const char *s, size_t n, size_t i)
{
    while (digit(s, n, i))
        i++;
    return i;
}

/* End of the number that starts at i, or i when JSON has no such number. cJSON itself takes what
 * strtod takes. */
static size_t number_end(const char *s, size_t n, size_t i)
{
    size_t k = i + (s[i] == '-');
    if (!digit(s, n, k))
        return i;
    k = s[k] == '0' ? k + 1 : digits(s, n, k);
    if (k < n && s[k] == '.') {
        if (!digit(s, n, k + 1))
            return i;
        k = digits(s, n, k + 1);
    }
    if (k < n && (s[k] == 'e' || s[k] == 'E')) {
        k++;
        if (k < n && (s[k] == '+' || s[k] == '-'))
            k++;
        if (!digit(s, n, k))
            return i;
        k = digits(s, n, k);
    }
    return digit(s, n, k) ? i : k;
}

/* Where a text is wrong, and in which of its lines, where it has several. */
static dt_status DT_PRINTF(4, 5)
    bad_at(dt_err *err, const char *text, size_t at, const char *fmt, ...)
{
    char what[128];
    size_t line = 1;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < at; i++)
        line += text[i] == '\n';
    return line > 1 ? DT_FAIL(err, DT_E_DATA, "line %zu, offset %zu: %s", line, at, what)
                    : DT_FAIL(err, DT_E_DATA, "offset %zu: %s", at, what);
}

/* Offset behind the string whose opening quote is at i. */
static dt_status string_end(const char *s, size_t n, size_t i, size_t *end, dt_err *err)
{
    for (size_t k = i + 1; k < n; k++) {
        if (s[k] == '"') {
            *end = k + 1;
            return DT_OK;
        }
        if ((uint8_t)s[k] < 0x20)
            return bad_at(err, s, k, "control character in a string");
        if (s[k] == '\\') {
            if (n - k >= 6 && memcmp(s + k, "\\u0000", 6) == 0)
                return bad_at(err, s, k, "NUL in a string");
            k++;
        }
    }
    return bad_at(err, s, i, "string without an end");
}

/* What must hold before anything is allocated. The grammar itself is left to cJSON. */
static dt_status scan(const char *s, size_t n, int max_depth, size_t max_values, dt_err *err)
{
    const size_t bad = dt_utf8_bad(s, n);
    if (bad < n)
        return bad_at(err, s, bad, "invalid UTF-8");
    int depth = 0;
    size_t values = 1; /* at most: one more for each comma and each container */
    for (size_t i = 0; i < n;) {
        const char c = s[i];
        if (c == '"') {
            DT_CHECK(string_end(s, n, i, &i, err));
            continue;
        }
        if (c == '-' || c == '+' || digit(s, n, i)) {
            const size_t end = number_end(s, n, i);
            if (end == i)
                return bad_at(err, s, i, "not a JSON number");
            i = end;
            continue;
        }
        if (c == '[' || c == '{')
            depth++;
        if (c == ']' || c == '}')
            depth--;
        if (c == '[' || c == '{' || c == ',')
            values++;
        if (depth > max_depth)
            return bad_at(err, s, i, "nested deeper than %d", max_depth);
        if (values > max_values)
            return bad_at(err, s, i, "more than %zu values", max_values);
        if ((uint8_t)c < 0x20 && c != '\n' && c != '\r' && c != '\t')
            return bad_at(err, s, i, "byte 0x%02x", (unsigned)c);
        i++;
    }
    return DT_OK;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static dt_status unique_keys(const cJSON *object, dt_err *err)
{
    const size_t n = (size_t)cJSON_GetArraySize(object);
    const char **keys = dt_alloc(n, sizeof *keys);
    if (keys == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for %zu keys", n);
    size_t k = 0;
    for (const cJSON *v = object->child; v != NULL; v = v->next)
        keys[k++] = v->string;
    qsort(keys, n, sizeof *keys, by_text);
    dt_status st = DT_OK;
    for (k = 1; k < n && st == DT_OK; k++)
        if (strcmp(keys[k - 1], keys[k]) == 0)
            st = DT_FAIL(err, DT_E_DATA, "two keys are named '%.600s'", keys[k]);
    dt_free(keys);
    return st;
}

/* Depth is bounded by the scan, so the recursion is. */
static dt_status check_values(const cJSON *v, dt_err *err)
{
    if (cJSON_IsObject(v))
        DT_CHECK(unique_keys(v, err));
    if (cJSON_IsNumber(v) && !isfinite(v->valuedouble))
        return DT_FAIL(err, DT_E_DATA, "the number '%.600s' is too large",
            v->string != NULL ? v->string : "of a list");
    for (const cJSON *child = v->child; child != NULL; child = child->next)
        DT_CHECK(check_values(child, err));
    return DT_OK;
}

/* Where the value ends, or where cJSON gave up. It does not say why; malloc says when it was that.
 */
static cJSON *parse(const char *text, size_t n, size_t *end, bool *no_memory)
{
    pthread_mutex_lock(&cjson_lock);
    const char *stop = text;
    const int before = errno;
    const locale_t locale = dt_c_locale_enter();
    errno = 0;
    cJSON *v = cJSON_ParseWithLengthOpts(text, n, &stop, 0);
    *no_memory = errno == ENOMEM;
    dt_c_locale_leave(locale);
    errno = before;
    pthread_mutex_unlock(&cjson_lock);
    *end = stop >= text && stop <= text + n ? (size_t)(stop - text) : n;
    return v;
}

/* What stands there, as far as it can be shown: "NaN". */
enum { SHOWN = 24 };
static const char *shown(const char *text, size_t n, size_t at, char to[SHOWN])
{
    size_t k = 0;
    for (; at + k < n && k + 1 < SHOWN && text[at + k] > ' ' && text[at + k] < 0x7f; k++)
        to[k] = text[at + k];
    to[k] = '\0';
    return to;
}

dt_status dt_json_parse(
    cJSON **out, const char *text, size_t n, int max_depth, size_t max_values, dt_err *err)
{
    *out = NULL;
    DT_CHECK(scan(text, n, max_depth, max_values, err));
    size_t end;
    bool no_memory;
    cJSON *v = parse(text, n, &end, &no_memory);
    if (v == NULL && no_memory)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for %zu bytes of JSON", n);
    char here[SHOWN];
    if (v == NULL)
        return bad_at(
            err, text, end, "not JSON: %s", end < n ? shown(text, n, end, here) : "it ends there");
    while (end < n && memchr(" \t\r\n", text[end], 4) != NULL)
        end++;
    dt_status st = DT_OK;
    if (end < n)
        st = bad_at(err, text, end, "text behind the value");
    else
        st = check_values(v, err);
    if (st != DT_OK) {
        cJSON_Delete(v);
        return st;
    }
    *out = v;
    return DT_OK;
}

bool dt_json_natural(const cJSON *v, uint64_t *out)
{
    const double d = cJSON_IsNumber(v) ? v->valuedouble : -1;
    if (!(d >= 0 && d <= 0x1p53) || d < floor(d) || d > floor(d))
        return false;
    *out = (uint64_t)d;
    return true;
}

void dti_json_put(FILE *f, const char *s)
{
    fputc('"', f);
    for (; *s != '\0'; s++) {
        if ((unsigned char)*s < 0x20)
            fprintf(f, "\\u%04x", (unsigned)*s);
        else
            fprintf(f, *s == '"' || *s == '\\' ? "\\%c" : "%c", *s);
    }
    fputc('"', f);
}
