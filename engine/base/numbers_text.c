/* The C locale for one thread, and what is written and read in it. */
#include "engine/base/numbers_text.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

locale_t dt_c_locale_enter(void)
{
    const locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return c == (locale_t)0 ? c : uselocale(c);
}

void dt_c_locale_leave(locale_t before)
{
    if (before != (locale_t)0)
        freelocale(uselocale(before));
}

int dt_vsnprintf(char *to, size_t room, const char *fmt, va_list args)
{
    const locale_t before = dt_c_locale_enter();
    const int n = vsnprintf(to, room, fmt, args);
    dt_c_locale_leave(before);
    return n;
}

int dt_snprintf(char *to, size_t room, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int n = dt_vsnprintf(to, room, fmt, args);
    va_end(args);
    return n;
}

double dt_strtod(const char *text, char **end)
{
    const int was = errno;
    const locale_t before = dt_c_locale_enter();
    errno = was;
    const double v = strtod(text, end);
    const int problem = errno;
    dt_c_locale_leave(before);
    errno = problem;
    return v;
}

void dti_f64_text(char *to, size_t room, int least, double v)
{
    const locale_t before = dt_c_locale_enter();
    for (int digits = least; digits <= DBL_DECIMAL_DIG; digits++) {
        snprintf(to, room, "%.*g", digits, v);
        const double back = strtod(to, NULL);
        if (back >= v && back <= v)
            break;
    }
    dt_c_locale_leave(before);
}

const char *dt_human_count(char to[DT_HUMAN_BYTES], uint64_t n)
{
    char digits[DT_HUMAN_BYTES];
    const int len = snprintf(digits, sizeof digits, "%" PRIu64, n);
    int at = 0;
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            to[at++] = ',';
        to[at++] = digits[i];
    }
    to[at] = '\0';
    return to;
}
