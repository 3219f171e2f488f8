/* Numbers as text: whole, real, and of bytes with units. */
#include "engine/config/options_parts.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *skip_digits(const char *s)
{
    while (is_digit(*s))
        s++;
    return s;
}

/* strtoll alone also takes blanks in front. */
bool dti_looks_whole(const char *s)
{
    s += *s == '-' || *s == '+';
    return is_digit(*s) && *skip_digits(s) == '\0';
}

/* strtod alone also takes inf, nan, hexadecimal and blanks. */
bool dti_looks_real(const char *s)
{
    s += *s == '-' || *s == '+';
    const char *whole = s;
    s = skip_digits(s);
    size_t n = (size_t)(s - whole);
    if (*s == '.') {
        const char *fraction = ++s;
        s = skip_digits(s);
        n += (size_t)(s - fraction);
    }
    if (n > 0 && (*s == 'e' || *s == 'E')) {
        s++;
        s += *s == '-' || *s == '+';
        n = is_digit(*s);
        s = skip_digits(s);
    }
    return n > 0 && *s == '\0';
}

bool dt_parse_i64(const char *text, int64_t *out)
{
    if (!dti_looks_whole(text))
        return false;
    errno = 0;
    const long long v = strtoll(text, NULL, 10);
    *out = v;
    return errno == 0;
}

/* Numbers are read and written with a point wherever the program runs. */
static locale_t enter_c_locale(void)
{
    const locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return c == (locale_t)0 ? c : uselocale(c);
}

static void leave_c_locale(locale_t before)
{
    if (before != (locale_t)0)
        freelocale(uselocale(before));
}

bool dt_parse_f64(const char *text, double *out)
{
    if (!dti_looks_real(text))
        return false;
    const locale_t before = enter_c_locale();
    errno = 0;
    const double v = strtod(text, NULL);
    const int problem = errno;
    leave_c_locale(before);
    *out = v;
    return problem == 0 && isfinite(v); /* too small to be told from 0 is an error as well */
}

static const struct unit {
    const char *name;
    uint64_t bytes;
} units[] = {
    {"TiB", UINT64_C(1) << 40},
    {"TB", UINT64_C(1000000000000)},
    {"GiB", UINT64_C(1) << 30},
    {"GB", UINT64_C(1000000000)},
    {"MiB", UINT64_C(1) << 20},
    {"MB", UINT64_C(1000000)},
    {"KiB", UINT64_C(1) << 10},
    {"KB", UINT64_C(1000)},
    {"", 1},
};

/* NULL: there is none of this name. */
static const struct unit *find_unit(const char *name)
{
    for (size_t k = 0; k < DT_COUNT(units); k++)
        if (strcmp(name, units[k].name) == 0)
            return &units[k];
    return NULL;
}

/* floor(0.DIGITS * unit), exactly */
static bool read_fraction(const char *digits, size_t n, uint64_t unit, uint64_t *out)
{
    uint64_t value = 0, scale = 1;
    if (n == 0 || n > 6 || unit == 1) /* 10^6 times a TB still fits */
        return false;
    for (size_t i = 0; i < n; i++) {
        value = value * 10 + (uint64_t)(digits[i] - '0');
        scale *= 10;
    }
    *out = value * unit / scale;
    return true;
}

dt_status dti_parse_bytes(const char *text, uint64_t *out, dt_err *err)
{
    const char *whole_end = skip_digits(text), *s = whole_end, *fraction = NULL;
    if (*s == '.') {
        fraction = s + 1;
        s = skip_digits(fraction);
    }
    const char *number_end = s;
    if (*s == ' ' || *s == '\t') {
        s += strspn(s, " \t");
        if (whole_end > text && find_unit(s) != NULL)
            return DT_FAIL(err, DT_E_CONFIG, "no blank before the unit: write %.*s%s",
                (int)(number_end - text), text, s);
    }
    const struct unit *unit = find_unit(s);
    uint64_t more = 0;
    if (whole_end == text || unit == NULL ||
        (fraction != NULL &&
            !read_fraction(fraction, (size_t)(number_end - fraction), unit->bytes, &more)))
        return DT_FAIL(err, DT_E_CONFIG,
            "not a number of bytes; write bytes as 512, 64KiB, 1.5GiB "
            "(KiB MiB GiB TiB KB MB GB TB)");
    errno = 0;
    uint64_t v = strtoull(text, NULL, 10);
    if (errno != 0 || __builtin_mul_overflow(v, unit->bytes, &v) ||
        __builtin_add_overflow(v, more, &v))
        return DT_FAIL(err, DT_E_CONFIG, "more bytes than 64 bits can count");
    *out = v;
    return DT_OK;
}

void dti_print_bytes(char *text, size_t room, uint64_t v)
{
    size_t k = 0;
    while (v == 0 ? units[k].bytes != 1 : v % units[k].bytes != 0)
        k++;
    snprintf(text, room, "%" PRIu64 "%s", v / units[k].bytes, units[k].name);
}

void dti_print_f64(FILE *f, double v)
{
    char text[40];
    const locale_t before = enter_c_locale();
    for (int digits = 1; digits <= DBL_DECIMAL_DIG; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        const double back = strtod(text, NULL);
        if (back >= v && back <= v)
            break;
    }
    leave_c_locale(before);
    fputs(text, f);
}
