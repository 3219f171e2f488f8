/* Checks of text that came from outside. */
#include "engine/base/text.h"

#include <string.h>

/* Bytes that follow @lead, and the range of the first of them; 0 for a byte that cannot lead. */
static int utf8_tail(uint8_t lead, uint8_t *lo, uint8_t *hi)
{
    *lo = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    *hi = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (lead >= 0xC2 && lead <= 0xDF)
        return 1;
    if (lead >= 0xE0 && lead <= 0xEF)
        return 2;
    return lead >= 0xF0 && lead <= 0xF4 ? 3 : 0;
}

size_t dt_utf8_bad(const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        const uint8_t lead = (uint8_t)text[i];
        uint8_t lo, hi;
        size_t tail = 0;
        if (lead >= 0x80) {
            tail = (size_t)utf8_tail(lead, &lo, &hi);
            if (tail == 0 || n - i <= tail)
                return i;
            for (size_t k = 1; k <= tail; k++) {
                const uint8_t b = (uint8_t)text[i + k];
                if (b < lo || b > hi)
                    return i;
                lo = 0x80;
                hi = 0xBF;
            }
        }
        i += tail + 1;
    }
    return n;
}

const char *dt_behind_mark(const char *text, size_t n)
{
    static const char mark[] = "\xEF\xBB\xBF";
    const size_t bytes = sizeof mark - 1;
    return n >= bytes && memcmp(text, mark, bytes) == 0 ? text + bytes : text;
}

void dt_utf8_mend(char *text)
{
    const size_t n = strlen(text);
    for (size_t at = 0; (at += dt_utf8_bad(text + at, n - at)) < n;)
        text[at] = '?';
}

size_t dt_printable(const char *text)
{
    const uint8_t lead = (uint8_t)text[0];
    if (lead < 0x80)
        return lead >= 0x20 && lead != 0x7F;
    const size_t n = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    const bool control = lead == 0xC2 && (uint8_t)text[1] < 0xA0;
    return !control && strnlen(text, n) == n && dt_utf8_bad(text, n) == n ? n : 0;
}

void dt_text_clean(char *text)
{
    while (*text != '\0') {
        const size_t n = dt_printable(text);
        if (n == 0)
            *text = '?';
        text += n > 0 ? n : 1;
    }
}

bool dt_scan_u64(const char **at, const char *end, uint64_t *out)
{
    uint64_t value = 0;
    for (; *at < end && **at >= '0' && **at <= '9'; ++*at) {
        const uint64_t digit = (uint64_t)(**at - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *out = value;
    return true;
}

bool dt_alike(const char *a, const char *b)
{
    return dt_begin_alike(a, b, SIZE_MAX);
}

bool dt_begin_alike(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (dt_small(a[i]) != dt_small(b[i]))
            return false;
        if (a[i] == '\0')
            return true;
    }
    return true;
}

bool dt_alike_but_digits(const char *a, const char *b)
{
    for (;; a++, b++) {
        a += strspn(a, "0123456789");
        b += strspn(b, "0123456789");
        if (*a != *b || *a == '\0')
            return *a == *b;
    }
}

bool dt_ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

bool dt_glob(const char *glob, const char *name)
{
    return dti_glob_n(glob, strlen(glob), name);
}

bool dti_glob_n(const char *glob, size_t n, const char *name)
{
    const char *end = glob + n;
    const char *star = NULL, *from = NULL; /* the last star, and where what it covers ends */
    while (*name != '\0') {
        const char c = glob < end ? *glob : '\0';
        if (c == '*') {
            star = glob++;
            from = name;
        } else if (c == '?' || c == *name) {
            glob++;
            name++;
        } else if (star != NULL) {
            glob = star + 1;
            name = ++from;
        } else {
            return false;
        }
    }
    while (glob < end && *glob == '*')
        glob++;
    return glob == end;
}

const char *dt_next_glob(const char **globs, size_t *n)
{
    if (*globs == NULL)
        return NULL;
    const char *glob = *globs + strspn(*globs, ", \t");
    *n = strcspn(glob, ",");
    *globs = glob + *n;
    while (*n > 0 && (glob[*n - 1] == ' ' || glob[*n - 1] == '\t'))
        --*n;
    return *n > 0 ? glob : NULL;
}

bool dti_glob_any(const char *globs, const char *name)
{
    size_t n;
    for (const char *glob; (glob = dt_next_glob(&globs, &n)) != NULL;)
        if (dti_glob_n(glob, n, name))
            return true;
    return false;
}
