#include "engine/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAIL_BYTES = 48 }; /* kept free for the line that counts what no longer fits */

/* The trail is full: count the lost note in the last line. */
static void count_lost(dt_err *err)
{
    int lost = 1;
    char *last = strstr(err->text, "... and ");
    if (last != NULL) {
        lost = (int)strtol(last + 8, NULL, 10) + 1;
        err->len = (size_t)(last - err->text);
    }
    const int n = snprintf(err->text + err->len, TAIL_BYTES, "... and %d more\n", lost);
    err->len += (size_t)n;
}

dt_status dt_err_push(dt_err *err, dt_status code, const char *src, int line, const char *fmt, ...)
{
    if (err == NULL)
        return code;
    if (err->n++ == 0)
        err->code = code;
    char note[2048];
    va_list ap;
    va_start(ap, fmt);
    int len = vsnprintf(note, sizeof note, fmt, ap);
    va_end(ap);
    if (len >= (int)sizeof note)
        len = (int)sizeof note - 1;
    if (code == DT_E_INTERNAL && len < (int)sizeof note - 1) {
        const int more = snprintf(note + len, sizeof note - (size_t)len, " [%s:%d]", src, line);
        len = len + more < (int)sizeof note ? len + more : (int)sizeof note - 1;
    }
    if (err->len + (size_t)len + 1 + TAIL_BYTES > sizeof err->text ||
        strstr(err->text, "... and ") != NULL) {
        count_lost(err);
        return code;
    }
    memcpy(err->text + err->len, note, (size_t)len);
    err->len += (size_t)len;
    err->text[err->len++] = '\n';
    err->text[err->len] = '\0';
    return code;
}

void dt_bug(const char *src, int line, const char *what)
{
    fprintf(stderr, "dnntrain: internal error: %s:%d: %s does not hold\n", src, line, what);
    abort();
}

const char *dt_status_name(dt_status s)
{
    switch (s) {
    case DT_OK:
        return "ok";
    case DT_E_INTERNAL:
        return "internal";
    case DT_E_CONFIG:
        return "config";
    case DT_E_DATA:
        return "data";
    case DT_E_BUDGET:
        return "budget";
    case DT_E_NOMEM:
        return "memory";
    case DT_E_IO:
        return "io";
    case DT_E_NONFINITE:
        return "nonfinite";
    case DT_E_DEVICE:
        return "device";
    case DT_E_BUSY:
        return "busy";
    case DT_E_STOPPED:
        return "stopped";
    }
    return "unknown";
}
