/* Lines, words and numbers of a text that may be anything. */
#include "memory/plan_text/plan_scan.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory/plan_text/plan_text.h"

dt_status dti_scan_bad(const dti_scan *s, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return DT_FAIL(s->err, DT_E_DATA, "%s:%zu: %s", s->name, s->line, text);
}

dt_status dti_scan_no_memory(const dti_scan *s)
{
    return DT_FAIL(s->err, DT_E_NOMEM, "%s: no memory for the plan", s->name);
}

static dt_status check_line(const dti_scan *s)
{
    const size_t n = (size_t)(s->end - s->at);
    if (n > DT_PLAN_LINE_BYTES)
        return dti_scan_bad(
            s, "the line has %zu bytes, at most %d are allowed", n, DT_PLAN_LINE_BYTES);
    for (const char *p = s->at; p < s->end; p++)
        if (*p < ' ' || *p > '~')
            return dti_scan_bad(s, "byte 0x%02x in column %td; write \\x%02x", (unsigned char)*p,
                p - s->at + 1, (unsigned char)*p);
    return DT_OK;
}

dt_status dti_scan_line(dti_scan *s, bool *more)
{
    while (s->next < s->stop) {
        const char *end = memchr(s->next, '\n', (size_t)(s->stop - s->next));
        s->line++;
        s->at = s->next;
        s->end = end != NULL ? end : s->stop;
        s->next = end != NULL ? end + 1 : s->stop;
        while (s->at < s->end && *s->at == ' ')
            s->at++;
        *more = s->at < s->end && *s->at != '#';
        if (*more)
            return check_line(s);
    }
    *more = false;
    return DT_OK;
}

dti_word dti_scan_word(dti_scan *s)
{
    while (s->at < s->end && *s->at == ' ')
        s->at++;
    dti_word w = {s->at, 0};
    while (s->at < s->end && *s->at != ' ')
        s->at++;
    w.n = (size_t)(s->at - w.p);
    return w;
}

dti_word dti_scan_rest(dti_scan *s)
{
    while (s->at < s->end && *s->at == ' ')
        s->at++;
    const char *end = s->end;
    while (end > s->at && end[-1] == ' ')
        end--;
    const dti_word w = {s->at, (size_t)(end - s->at)};
    s->at = s->end;
    return w;
}

bool dti_word_is(dti_word w, const char *text)
{
    return w.n == strlen(text) && memcmp(w.p, text, w.n) == 0;
}

bool dti_word_take(dti_word *w, const char *text)
{
    const size_t n = strlen(text);
    if (w->n < n || memcmp(w->p, text, n) != 0)
        return false;
    *w = (dti_word){w->p + n, w->n - n};
    return true;
}

bool dti_word_cut(dti_word w, char c, dti_word *before, dti_word *after)
{
    for (size_t i = w.n; i-- > 0;)
        if (w.p[i] == c) {
            *before = (dti_word){w.p, i};
            *after = (dti_word){w.p + i + 1, w.n - i - 1};
            return true;
        }
    return false;
}

dt_status dti_scan_number(
    const dti_scan *s, const char *what, dti_word w, uint64_t most, uint64_t *out)
{
    uint64_t v = 0;
    bool good = w.n > 0 && (w.n == 1 || w.p[0] != '0');
    for (size_t i = 0; good && i < w.n; i++) {
        good = w.p[i] >= '0' && w.p[i] <= '9';
        const uint64_t digit = good ? (uint64_t)(w.p[i] - '0') : 0;
        if (good && (v > UINT64_MAX / 10 || v * 10 > UINT64_MAX - digit))
            return dti_scan_bad(s, "%s %.*s is larger than %" PRIu64, what, DTI_SHOW(w), most);
        v = v * 10 + digit;
    }
    if (!good)
        return dti_scan_bad(s, "%s '%.*s' is not a decimal number", what, DTI_SHOW(w));
    if (v > most)
        return dti_scan_bad(s, "%s %.*s is larger than %" PRIu64, what, DTI_SHOW(w), most);
    *out = v;
    return DT_OK;
}

dt_status dti_scan_real(const dti_scan *s, const char *what, dti_word w, double *out)
{
    char text[64], *end = text;
    double v = 0;
    if (w.n > 0 && w.n < sizeof text && w.p[0] >= '0' && w.p[0] <= '9') {
        memcpy(text, w.p, w.n);
        text[w.n] = '\0';
        if (strspn(text, "0123456789.e+-") == w.n)
            v = strtod(text, &end);
    }
    if (end == text || *end != '\0' || !isfinite(v))
        return dti_scan_bad(s, "%s '%.*s' is not a finite decimal number", what, DTI_SHOW(w));
    *out = v;
    return DT_OK;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

dt_status dti_scan_escaped(const dti_scan *s, const char *what, dti_word w, char *to, size_t bytes)
{
    size_t k = 0;
    if (w.n == 0)
        return dti_scan_bad(s, "%s is missing", what);
    if (!dti_word_is(w, "\\"))
        for (size_t i = 0; i < w.n; k++) {
            char c = w.p[i++];
            if (c == '\\') {
                const int high = w.n - i >= 3 ? hex_digit(w.p[i + 1]) : -1;
                const int low = high >= 0 ? hex_digit(w.p[i + 2]) : -1;
                if (low < 0 || w.p[i] != 'x' || high + low == 0)
                    return dti_scan_bad(s,
                        "%s '%.*s': \\ is not followed by x and two of 0-9a-f, not 00", what,
                        DTI_SHOW(w));
                c = (char)(high * 16 + low);
                i += 3;
            }
            if (k + 1 >= bytes)
                return dti_scan_bad(
                    s, "%s '%.*s' is longer than %zu bytes", what, DTI_SHOW(w), bytes - 1);
            to[k] = c;
        }
    to[k] = '\0';
    return DT_OK;
}
