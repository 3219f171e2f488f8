/* Statuses by name, and the trail of an error. */
#include "engine/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/numbers_text.h"
#include "engine/base/text.h"

enum {
    NOTE_BYTES = 2048,
    TAIL_BYTES = 48 /* kept free for the line that counts what no longer fits */
};

/* The trail is full: count the lost note in the last line. */
static void count_lost(dt_err *err)
{
    if (err->lost++ > 0) /* the last line is an earlier count */
        do
            err->len--;
        while (err->len > 0 && err->text[err->len - 1] != '\n');
    const int n = snprintf(err->text + err->len, TAIL_BYTES, "... and %d more\n", err->lost);
    err->len += (size_t)n;
}

/* Copy a note as one line of printable UTF-8: names in it may hold any byte, and a newline or an
 * escape sequence would speak for the program. @room includes the NUL; false: it does not fit. */
static bool put_line(char *to, size_t room, const char *note)
{
    static const char plain[] = "\n\t\r", letters[] = "ntr";
    while (*note != '\0') {
        char piece[8];
        const char *special = strchr(plain, *note);
        size_t used = dt_printable(note), n = used;
        if (used > 0) {
            memcpy(piece, note, used);
        } else {
            n = (size_t)(special != NULL
                             ? snprintf(piece, sizeof piece, "\\%c", letters[special - plain])
                             : snprintf(piece, sizeof piece, "\\x%02X", (unsigned char)*note));
            used = 1;
        }
        if (n >= room)
            return false;
        memcpy(to, piece, n);
        to += n;
        room -= n;
        note += used;
    }
    *to = '\0';
    return true;
}

static void add_line(dt_err *err, dt_status code, const char *note)
{
    if (err->n++ == 0)
        err->code = code;
    const size_t room = sizeof err->text - TAIL_BYTES - err->len;
    char *end = err->text + err->len;
    if (err->lost > 0 || err->len + TAIL_BYTES >= sizeof err->text || !put_line(end, room, note)) {
        *end = '\0';
        count_lost(err);
        return;
    }
    err->len += strlen(end);
    err->text[err->len++] = '\n';
    err->text[err->len] = '\0';
}

dt_status dt_err_push(dt_err *err, dt_status code, const char *src, int line, const char *fmt, ...)
{
    if (err == NULL)
        return code;
    char note[NOTE_BYTES];
    va_list ap;
    va_start(ap, fmt);
    (void)dt_vsnprintf(note, sizeof note, fmt, ap);
    va_end(ap);
    const size_t len = strlen(note);
    if (code == DT_E_INTERNAL)
        (void)snprintf(note + len, sizeof note - len, " [%s:%d]", src, line);
    add_line(err, code, note);
    return code;
}

dt_status dt_err_append(dt_err *err, dt_status code, const char *trail)
{
    char note[NOTE_BYTES];
    for (const char *line = trail; err != NULL && *line != '\0';) {
        const size_t n = strcspn(line, "\n");
        snprintf(note, sizeof note, "%.*s", (int)n, line);
        add_line(err, code, note);
        line += n + (line[n] == '\n');
    }
    return code;
}

void dti_err_cut(dt_err *err, size_t end)
{
    DT_ASSERT(end <= err->len && (end == 0 || err->text[end - 1] == '\n'));
    err->len = end;
    err->text[end] = '\0';
    err->n = err->lost = 0;
    for (size_t i = 0; i < end; i++)
        err->n += err->text[i] == '\n';
    if (err->n == 0)
        err->code = DT_OK;
}

void dti_err_reorder(dt_err *err, size_t from, const char *text)
{
    const size_t n = strlen(text);
    DT_ASSERT(from + n == err->len);
    memcpy(err->text + from, text, n);
}

void dti_bug(const char *src, int line, const char *what)
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
