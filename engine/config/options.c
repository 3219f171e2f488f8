/* Options as rows: values read from text and checked, defaults, and values written so that they are
 * read back. Numbers, and bytes with their units, come first. */
#include "engine/config/options.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/numbers_text.h"
#include "engine/base/text.h"
#include "engine/config/nearest.h"
#include "engine/shape.h"

/* ---- numbers as text ---- */

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

/* An optional sign and digits, nothing else: strtoll alone also takes blanks in front. The number
 * may be out of range. */
static bool looks_whole(const char *s)
{
    s += *s == '-' || *s == '+';
    return is_digit(*s) && *skip_digits(s) == '\0';
}

/* Likewise a decimal number: strtod alone also takes inf, nan, hexadecimal and blanks. */
static bool looks_real(const char *s)
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
    if (!looks_whole(text))
        return false;
    errno = 0;
    const long long v = strtoll(text, NULL, 10);
    *out = v;
    return errno == 0;
}

bool dt_parse_f64(const char *text, double *out)
{
    if (!looks_real(text))
        return false;
    errno = 0;
    const double v = dt_strtod(text, NULL);
    *out = v;
    return errno == 0 && isfinite(v); /* too small to be told from 0 is an error as well */
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

/* What 16G, 2gib and 64mb end in; NULL: nothing that is known. */
static const char *meant_unit(const char *name)
{
    const size_t n = strlen(name);
    for (size_t k = 0; n > 0 && k < DT_COUNT(units); k++) {
        const char *unit = units[k].name;
        if (n <= strlen(unit) && dt_begin_alike(name, unit, n) &&
            (n == strlen(unit) || unit[1] == 'i'))
            return unit;
    }
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

/* A number of bytes as messages print it, with commas between groups of three digits, and without a
 * unit: "1,639,726,592". */
static bool read_grouped(const char *text, uint64_t *out)
{
    const char *s = skip_digits(text);
    if (*s != ',' || s == text || s > text + 3)
        return false;
    uint64_t v = strtoull(text, NULL, 10);
    for (; *s == ','; s += 4) {
        if (skip_digits(s + 1) != s + 4 || __builtin_mul_overflow(v, 1000, &v) ||
            __builtin_add_overflow(v, strtoull(s + 1, NULL, 10), &v))
            return false;
    }
    *out = v;
    return *s == '\0';
}

dt_status dt_parse_bytes(const char *text, uint64_t *out, dt_err *err)
{
    if (read_grouped(text, out))
        return DT_OK;
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
    const char *meant = unit == NULL && whole_end > text ? meant_unit(s) : NULL;
    if (meant != NULL)
        return DT_FAIL(err, DT_E_CONFIG, "not a number of bytes; write %.*s%s",
            (int)(number_end - text), text, meant);
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

/* In the largest unit that leaves no fraction. */
static void print_bytes(char *text, size_t room, uint64_t v)
{
    size_t k = 0;
    while (v == 0 ? units[k].bytes != 1 : v % units[k].bytes != 0)
        k++;
    snprintf(text, room, "%" PRIu64 "%s", v / units[k].bytes, units[k].name);
}

/* ---- rows ---- */

static const double PAST_I64 = 0x1p63;

static bool ranged(const dt_opt *row)
{
    return row->min != 0 || row->max != 0;
}

static void print_limit(const dt_opt *row, double v, char *text, size_t room)
{
    if (row->type == DT_OPT_F64)
        dti_f64_text(text, room, 6, v);
    else if (row->type == DT_OPT_BYTES)
        print_bytes(text, room, v >= 0x1p64 ? UINT64_MAX : (uint64_t)v);
    else
        snprintf(text, room, "%" PRId64, v >= PAST_I64 ? INT64_MAX : (int64_t)v);
}

static void print_range(const dt_opt *row, char *text, size_t room)
{
    char min[40], max[40];
    print_limit(row, row->min, min, sizeof min);
    print_limit(row, row->max, max, sizeof max);
    snprintf(text, room, "%s..%s", min, max);
}

static void print_choices(const dt_opt *row, const char *between, char *text, size_t room)
{
    size_t n = 0;
    text[0] = '\0';
    for (size_t i = 0; row->choices[i] != NULL && n < room; i++)
        n += (size_t)snprintf(text + n, room - n, "%s%s", i > 0 ? between : "", row->choices[i]);
}

void dt_opt_allowed(const dt_opt *row, char *text, size_t room)
{
    static const char *const kinds[] = {[DT_OPT_I64] = "whole number",
        [DT_OPT_F64] = "number",
        [DT_OPT_BOOL] = "on or off",
        [DT_OPT_ENUM] = "",
        [DT_OPT_STR] = "text",
        [DT_OPT_PATH] = "path",
        [DT_OPT_BYTES] = "bytes",
        [DT_OPT_LIST] = "list, a,b,c",
        [DT_OPT_SIDES] = "whole number, or two as 1x7"};
    if (row->type == DT_OPT_ENUM)
        print_choices(row, ", ", text, room);
    else if (ranged(row))
        print_range(row, text, room);
    else if (row->type == DT_OPT_PATH && row->choices != NULL) {
        char words[64];
        print_choices(row, " or ", words, sizeof words);
        snprintf(text, room, "path, or %s", words);
    } else {
        snprintf(text, room, "%s", kinds[row->type]);
    }
}

/* "32x48", "32,48": two numbers, of which a comma makes one only before three digits. */
static bool are_two(const dt_opt *row, const char *text)
{
    const size_t n = strspn(text, "0123456789");
    if (row->type != DT_OPT_I64 || n == 0 || text[n] == '\0' || strchr("xX*,", text[n]) == NULL)
        return false;
    const char *second = text + n + 1;
    const size_t m = strspn(second, "0123456789");
    const bool same = m == n && strncmp(text, second, n) == 0;
    return m > 0 && second[m] == '\0' && (text[n] == ',' ? m != 3 : !same);
}

/* The number that was meant by what is written otherwise: 1e3, 64,000 and 64_000 for a whole one,
 * 224x224 for a side, 1e-3f, 1/1000, 8; and a comment of another language behind it. False: none
 * can be told. */
static bool meant_number(const dt_opt *row, const char *text, double *v)
{
    char digits[64];
    size_t n = 0;
    const char *end = strstr(text, "//");
    const size_t len = end != NULL ? (size_t)(end - text) : strlen(text);
    if (len >= sizeof digits)
        return false;
    for (size_t i = 0; i < len; i++)
        if (text[i] != '_' && text[i] != ' ' && (text[i] != ',' || row->type == DT_OPT_F64))
            digits[n++] = text[i];
    digits[n] = '\0';
    char *x = strpbrk(digits, "x*"), *slash = strchr(digits, '/');
    double over = 1;
    if (x != NULL && x - digits == (ptrdiff_t)strlen(x + 1) &&
        strncmp(digits, x + 1, strlen(x + 1)) == 0)
        *x = '\0';
    else if (slash != NULL && dt_parse_f64(slash + 1, &over) && over != 0)
        *slash = '\0';
    else if (n > 1 && strchr("fFdDlL;", digits[n - 1]) != NULL)
        digits[n - 1] = '\0';
    if (!dt_parse_f64(digits, v))
        return false;
    *v /= over;
    return !ranged(row) || (*v >= row->min && *v <= row->max);
}

/* "32X48", "32*48", "32,48", "32 x 48" for a height and a width; else false. */
static bool meant_sides(const char *text, int *h, int *w)
{
    char between;
    int end = 0;
    return sscanf(text, "%9d %c %9d%n", h, &between, w, &end) == 3 && text[end] == '\0' &&
           *h >= 0 && *w >= 0 && strchr("xX*,", between) != NULL;
}

/* "; write 1000", where that is known. */
static void print_meant(const dt_opt *row, const char *text, char *to, size_t room)
{
    double v;
    int h, w;
    to[0] = '\0';
    if (row->type == DT_OPT_SIDES && strpbrk(text, "xX,*") != NULL) {
        if (meant_sides(text, &h, &w))
            snprintf(to, room, "; write %dx%d", h, w);
        return;
    }
    if (are_two(row, text) || !meant_number(row, text, &v))
        return;
    if (row->type == DT_OPT_F64)
        dt_snprintf(to, room, "; write %g", v);
    else if (v >= -PAST_I64 && v < PAST_I64 && floor(v) >= v)
        snprintf(to, room, "; write %" PRId64, (int64_t)v);
}

static dt_status not_a(const dt_opt *row, const char *text, const char *what, dt_err *err)
{
    char range[96], meant[64];
    print_meant(row, text, meant, sizeof meant);
    if (!ranged(row))
        return DT_FAIL(err, DT_E_CONFIG, "not %s%s", what, meant);
    print_range(row, range, sizeof range);
    const int n = row->help != NULL && are_two(row, text) ? (int)strcspn(row->help, ";") : 0;
    return DT_FAIL(err, DT_E_CONFIG, "not %s%s; must be %s%s%s%s%.*s", what, meant, range,
        n > 0 ? "; " : "", n > 0 ? row->key : "", n > 0 ? ": " : "", n, n > 0 ? row->help : "");
}

/* Why a value cannot be is what the option is: the begin of its line of help. */
static dt_status check_range(const dt_opt *row, double v, dt_err *err)
{
    char range[96];
    if (!ranged(row) || (v >= row->min && v <= row->max))
        return DT_OK;
    print_range(row, range, sizeof range);
    const int n = row->help != NULL ? (int)strcspn(row->help, ";") : 0;
    if (n == 0)
        return DT_FAIL(err, DT_E_CONFIG, "must be %s", range);
    return DT_FAIL(err, DT_E_CONFIG, "must be %s; %s: %.*s", range, row->key, n, row->help);
}

static dt_status read_i64(const dt_opt *row, const char *text, void *to, dt_err *err)
{
    int64_t v = 0;
    if (!dt_parse_i64(text, &v)) {
        if (looks_whole(text) && ranged(row))
            return check_range(row, text[0] == '-' ? -HUGE_VAL : HUGE_VAL, err);
        return not_a(row, text, looks_whole(text) ? "a number of 64 bits" : "a whole number", err);
    }
    DT_CHECK(check_range(row, (double)v, err));
    memcpy(to, &v, sizeof v);
    return DT_OK;
}

/* A whole number of n characters. */
static bool read_side(const char *text, size_t n, int64_t *side)
{
    char digits[24];
    if (n >= sizeof digits)
        return false;
    memcpy(digits, text, n);
    digits[n] = '\0';
    return dt_parse_i64(digits, side);
}

static dt_status read_sides(const dt_opt *row, const char *text, void *to, dt_err *err)
{
    const char *x = strchr(text, 'x');
    int64_t h = 0, w = 0;
    if (x != NULL &&
        (!read_side(text, (size_t)(x - text), &h) || !read_side(x + 1, strlen(x + 1), &w)))
        return not_a(row, text, "height and width, as 1x7", err);
    if (x == NULL) {
        DT_CHECK(read_i64(row, text, &h, err));
        w = h;
    }
    DT_CHECK(check_range(row, (double)h, err));
    DT_CHECK(check_range(row, (double)w, err));
    if (h < 0 || w < 0 || h >= INT32_MAX || w >= INT32_MAX)
        return not_a(row, text, "a height and a width of 31 bits", err);
    const int64_t v = dt_sides(h, w);
    memcpy(to, &v, sizeof v);
    return DT_OK;
}

dt_sides_text dt_sides_print(int64_t sides)
{
    dt_sides_text t;
    if (dt_sides_square(sides))
        snprintf(t.s, sizeof t.s, "%" PRId64, sides);
    else
        snprintf(t.s, sizeof t.s, "%" PRId64 "x%" PRId64, dt_sides_h(sides), dt_sides_w(sides));
    return t;
}

static dt_status read_f64(const dt_opt *row, const char *text, void *to, dt_err *err)
{
    double v = 0;
    if (!dt_parse_f64(text, &v))
        return not_a(row, text,
            looks_real(text)            ? "within the range of doubles"
            : strchr(text, ',') != NULL ? "a number (the decimal sign is a point)"
                                        : "a finite decimal number",
            err);
    DT_CHECK(check_range(row, v, err));
    memcpy(to, &v, sizeof v);
    return DT_OK;
}

static dt_status read_bytes(const dt_opt *row, const char *text, void *to, dt_err *err)
{
    uint64_t v = 0;
    DT_CHECK(dt_parse_bytes(text, &v, err));
    DT_CHECK(check_range(row, (double)v, err));
    memcpy(to, &v, sizeof v);
    return DT_OK;
}

static dt_status read_bool(const char *text, void *to, dt_err *err)
{
    static const char *const words[] = {"false", "true", "off", "on", "no", "yes", "0", "1"};
    for (size_t i = 0; i < DT_COUNT(words); i++)
        if (dt_alike(words[i], text)) {
            const bool v = i % 2 != 0;
            memcpy(to, &v, sizeof v);
            return DT_OK;
        }
    return DT_FAIL(err, DT_E_CONFIG, "must be true or false, on or off, yes or no, 1 or 0");
}

static dt_status read_enum(const dt_opt *row, const char *text, void *to, dt_err *err)
{
    for (int i = 0; row->choices[i] != NULL; i++)
        if (strcmp(row->choices[i], text) == 0) {
            memcpy(to, &i, sizeof i);
            return DT_OK;
        }
    char all[512];
    print_choices(row, ", ", all, sizeof all);
    const char *near = dt_nearest(text, row->choices);
    if (near != NULL)
        return DT_FAIL(err, DT_E_CONFIG, "must be one of %s; did you mean '%s'?", all, near);
    return DT_FAIL(err, DT_E_CONFIG, "must be one of %s", all);
}

/* No item may be empty: "a,,b" is a slip of the finger. */
static dt_status check_list(const char *text, dt_err *err)
{
    for (const char *s = text;; s++) {
        s += strspn(s, " \t");
        const size_t n = strcspn(s, ",");
        if (n == 0)
            return DT_FAIL(err, DT_E_CONFIG, "an item of the list is empty; write a,b,c");
        s += n;
        if (*s == '\0')
            return DT_OK;
    }
}

dt_status dt_opt_read(const dt_opt *row, const char *text, void *target, dt_err *err)
{
    void *to = (char *)target + row->at;
    switch (row->type) {
    case DT_OPT_I64:
        return read_i64(row, text, to, err);
    case DT_OPT_F64:
        return read_f64(row, text, to, err);
    case DT_OPT_BOOL:
        return read_bool(text, to, err);
    case DT_OPT_ENUM:
        return read_enum(row, text, to, err);
    case DT_OPT_BYTES:
        return read_bytes(row, text, to, err);
    case DT_OPT_SIDES:
        return read_sides(row, text, to, err);
    case DT_OPT_LIST:
        if (*text != '\0')
            DT_CHECK(check_list(text, err));
        break;
    case DT_OPT_STR:
    case DT_OPT_PATH:
        break;
    }
    const char *v = *text != '\0' ? text : NULL;
    if (v == NULL && (row->fallback == NULL || row->fallback[0] != '\0'))
        return DT_FAIL(err, DT_E_CONFIG, "must not be empty");
    memcpy(to, &v, sizeof(char *));
    return DT_OK;
}

size_t dti_opt_bytes(dt_opt_type t)
{
    switch (t) {
    case DT_OPT_I64:
    case DT_OPT_SIDES:
        return sizeof(int64_t);
    case DT_OPT_F64:
        return sizeof(double);
    case DT_OPT_BOOL:
        return sizeof(bool);
    case DT_OPT_ENUM:
        return sizeof(int);
    case DT_OPT_BYTES:
        return sizeof(uint64_t);
    case DT_OPT_STR:
    case DT_OPT_PATH:
    case DT_OPT_LIST:
        return sizeof(const char *);
    }
    return 0;
}

void dt_opt_defaults(const dt_opt *rows, void *target)
{
    for (const dt_opt *row = rows; row->key != NULL; row++) {
        memset((char *)target + row->at, 0, dti_opt_bytes(row->type));
        if (row->fallback == NULL || row->fallback[0] == '\0')
            continue;
        const dt_status st = dt_opt_read(row, row->fallback, target, NULL);
        DT_ASSERT(st == DT_OK);
    }
}

void dt_opt_print(FILE *f, const dt_opt *row, const void *target)
{
    const void *at = (const char *)target + row->at;
    char text[40];
    switch (row->type) {
    case DT_OPT_I64:
        fprintf(f, "%" PRId64, *(const int64_t *)at);
        break;
    case DT_OPT_SIDES:
        fputs(dt_sides_print(*(const int64_t *)at).s, f);
        break;
    case DT_OPT_F64:
        dti_f64_text(text, sizeof text, 1, *(const double *)at);
        fputs(text, f);
        break;
    case DT_OPT_BOOL:
        fputs(*(const bool *)at ? "on" : "off", f);
        break;
    case DT_OPT_ENUM:
        fputs(row->choices[*(const int *)at], f);
        break;
    case DT_OPT_BYTES:
        print_bytes(text, sizeof text, *(const uint64_t *)at);
        fputs(text, f);
        break;
    case DT_OPT_STR:
    case DT_OPT_PATH:
    case DT_OPT_LIST:
        if (*(const char *const *)at != NULL)
            fputs(*(const char *const *)at, f);
        break;
    }
}
