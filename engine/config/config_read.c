#define _XOPEN_SOURCE 700 /* realpath */
#include "engine/config/config_parts.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/text.h"

bool dti_blank(char c)
{
    return c == ' ' || c == '\t';
}

char *dti_skip_blanks(char *s)
{
    while (dti_blank(*s))
        s++;
    return s;
}

void dti_cut_blanks(char *s)
{
    size_t n = strlen(s);
    while (n > 0 && dti_blank(s[n - 1]))
        s[--n] = '\0';
}

static bool comment_or_end(const char *s)
{
    return *s == '\0' || *s == ';' || *s == '#';
}

/* What is being read, and whether anything was wrong so far. Only DT_E_NOMEM ends it early. */
typedef struct reader {
    dt_config *c;
    dt_err *err;
    dt_status wrong;
    int line;
} reader;

#define WRONG(r, fmt, ...)                                                                         \
    ((r)->wrong =                                                                                  \
            DT_FAIL((r)->err, DT_E_CONFIG, "%s:%d: " fmt, (r)->c->shown, (r)->line, __VA_ARGS__))

/* "conv  c1" becomes "conv c1", of kind "conv" and name "c1". False when there are more words or
 * none. */
bool dti_tidy_section(char *text)
{
    int words = 0;
    char *to = text;
    for (const char *s = text; *s != '\0';) {
        s += strspn(s, " \t");
        const size_t n = strcspn(s, " \t");
        if (n == 0)
            break;
        if (words++ > 0)
            *to++ = ' ';
        memmove(to, s, n);
        to += n;
        s += n;
    }
    *to = '\0';
    return words == 1 || words == 2;
}

static dt_status read_section(reader *r, char *s)
{
    char *end = strchr(s, ']');
    if (end == NULL) {
        WRONG(r, "'%.80s' has no closing ]", s);
        return DT_OK;
    }
    *end = '\0';
    char *text = s + 1;
    if (!comment_or_end(dti_skip_blanks(end + 1)))
        WRONG(r, "text after [%.80s]: '%.80s'", text, dti_skip_blanks(end + 1));
    if (!dti_tidy_section(text))
        WRONG(r, "[%.80s] is no section: write [section] or [kind name]", text);
    /* kept even when wrong, so that its keys are still looked at */
    return dti_add_section(r->c, text, r->line, false) != NULL ? DT_OK
                                                               : dti_no_memory(r->c, r->err);
}

/* Cut the comment off an unquoted value, and the blanks in front of it. */
static void cut_comment(char *value)
{
    for (char *s = value; *s != '\0'; s++)
        if ((*s == ';' || *s == '#') && (s == value || dti_blank(s[-1]))) {
            *s = '\0';
            break;
        }
    dti_cut_blanks(value);
}

/* Undo the quotes of a value that starts with one, in place. */
static bool unquote(reader *r, char *value)
{
    char *to = value, *s = value + 1;
    for (; *s != '\0'; s++) {
        if (*s == '"' && s[1] != '"')
            break;
        s += *s == '"';
        *to++ = *s;
    }
    if (*s == '\0') {
        WRONG(r, "%s", "a value starts with \" and has no closing \"");
        return false;
    }
    const char *rest = dti_skip_blanks(s + 1);
    *to = '\0';
    if (!comment_or_end(rest)) {
        WRONG(r, "text after the closing \": '%.80s'", rest);
        return false;
    }
    return true;
}

static dt_status read_pair(reader *r, char *s)
{
    char *equals = strchr(s, '=');
    if (equals == NULL || equals == s) {
        WRONG(r, "'%.80s' is neither [section] nor key = value", s);
        return DT_OK;
    }
    *equals = '\0';
    dti_cut_blanks(s);
    char *value = dti_skip_blanks(equals + 1);
    if (strpbrk(s, " \t\"") != NULL) {
        WRONG(r, "'%.80s' is no key: it has blanks or quotes in it", s);
        return DT_OK;
    }
    if (*value != '"')
        cut_comment(value);
    else if (!unquote(r, value))
        return DT_OK;
    if (r->c->n == 0) {
        WRONG(r, "key '%.80s' stands before the first [section]", s);
        return DT_OK;
    }
    return dti_add_entry(&r->c->at[r->c->n - 1], s, value, r->line, false) != NULL
               ? DT_OK
               : dti_no_memory(r->c, r->err);
}

/* Offset of the first control character other than a tab, or n. */
size_t dti_control_at(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && ((uint8_t)s[i] >= 0x20 || s[i] == '\t') && s[i] != 0x7F)
        i++;
    return i;
}

/* One line, NUL-terminated in place, n bytes without its end. */
static dt_status read_line(reader *r, char *s, size_t n)
{
    if (n > DT_LINE_BYTES) {
        WRONG(r, "a line of %zu bytes; at most %d are read", n, DT_LINE_BYTES);
        return DT_OK;
    }
    const size_t control = dti_control_at(s, n), bad = dt_utf8_bad(s, n);
    if (control < n) {
        WRONG(
            r, "column %zu: control character 0x%02x", control + 1, (unsigned)(uint8_t)s[control]);
        return DT_OK;
    }
    if (bad < n) {
        WRONG(r, "column %zu: invalid UTF-8, byte 0x%02x", bad + 1, (unsigned)(uint8_t)s[bad]);
        return DT_OK;
    }
    s = dti_skip_blanks(s);
    if (comment_or_end(s))
        return DT_OK;
    return *s == '[' ? read_section(r, s) : read_pair(r, s);
}

static dt_status read_lines(reader *r, size_t n)
{
    char *s = r->c->text, *end = s + n;
    if (n >= 3 && memcmp(s, "\xEF\xBB\xBF", 3) == 0)
        s += 3;
    while (s < end) {
        char *eol = memchr(s, '\n', (size_t)(end - s));
        if (eol == NULL)
            eol = end;
        size_t length = (size_t)(eol - s);
        if (length > 0 && s[length - 1] == '\r')
            length--;
        s[length] = '\0';
        r->line++;
        DT_CHECK(read_line(r, s, length));
        s = eol + 1;
    }
    return DT_OK;
}

static int by_key(const void *a, const void *b)
{
    const entry *const *p = a, *const *q = b;
    const int order = strcmp((*p)->key, (*q)->key);
    return order != 0 ? order : ((*p)->line > (*q)->line) - ((*p)->line < (*q)->line);
}

static dt_status unique_entries(reader *r, const section *s)
{
    const entry **sorted = dt_alloc(s->n, sizeof *sorted);
    if (sorted == NULL)
        return dti_no_memory(r->c, r->err);
    for (size_t i = 0; i < s->n; i++)
        sorted[i] = &s->key[i];
    qsort(sorted, s->n, sizeof *sorted, by_key);
    size_t first = 0;
    for (size_t i = 1; i < s->n; i++) {
        if (strcmp(sorted[first]->key, sorted[i]->key) != 0) {
            first = i;
            continue;
        }
        r->line = sorted[i]->line;
        WRONG(r, "[%.80s] key '%.80s' is given again; first at line %d", s->text, sorted[i]->key,
            sorted[first]->line);
    }
    dt_free(sorted);
    return DT_OK;
}

static dt_status check_unique(reader *r)
{
    dt_config *c = r->c;
    DT_CHECK(dti_sort(c, r->err));
    size_t first = 0;
    for (size_t i = 1; i < c->n; i++) {
        const section *a = &c->at[c->by_text[first]], *b = &c->at[c->by_text[i]];
        if (strcmp(a->text, b->text) != 0) {
            first = i;
            continue;
        }
        r->line = b->line;
        WRONG(r, "section [%.80s] is given again; first at line %d", b->text, a->line);
    }
    for (size_t i = 0; i < c->n; i++)
        DT_CHECK(unique_entries(r, &c->at[i]));
    return DT_OK;
}

static dt_status parse(dt_config *c, size_t n, dt_err *err)
{
    reader r = {.c = c, .err = err};
    DT_CHECK(read_lines(&r, n));
    DT_CHECK(check_unique(&r));
    if (r.wrong == DT_OK && c->n == 0)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: no section in it; a configuration needs at least one, such as [model]", c->shown);
    return r.wrong;
}

enum { SHOWN_BYTES = 800 };

/* Takes text (NUL-terminated behind n bytes) over, whatever happens. */
static dt_status create(
    dt_config **out, const char *name, char *text, size_t n, bool is_file, dt_err *err)
{
    dt_config *c = dt_alloc(1, sizeof *c);
    if (c == NULL || (c->file = dt_strdup(name)) == NULL) {
        dt_free(c);
        dt_free(text);
        return DT_FAIL(err, DT_E_NOMEM, "%s: no memory for the configuration", name);
    }
    c->text = text;
    c->shown = c->file + (strlen(name) > SHOWN_BYTES ? strlen(name) - SHOWN_BYTES : 0);
    dt_status st = DT_OK;
    if (is_file) {
        char *absolute = realpath(name, NULL);
        if (absolute != NULL) {
            *(strrchr(absolute, '/') + 1) = '\0';
            c->folder = dt_strdup(absolute);
            free(absolute);
        }
        if (c->folder == NULL)
            st = dti_no_memory(c, err);
    }
    if (st == DT_OK)
        st = parse(c, n, err);
    if (st != DT_OK)
        dt_config_destroy(c);
    else
        *out = c;
    return st;
}

dt_status dt_config_load(dt_config **out, const char *path, dt_err *err)
{
    *out = NULL;
    char *text;
    size_t n;
    DT_CHECK(dt_read_file(&text, &n, path, DT_CONFIG_BYTES, DT_E_CONFIG, err));
    return create(out, path, text, n, true, err);
}

dt_status dt_config_parse(
    dt_config **out, const char *name, const char *text, size_t bytes, dt_err *err)
{
    *out = NULL;
    if (bytes > DT_CONFIG_BYTES)
        return DT_FAIL(
            err, DT_E_CONFIG, "%s: %zu bytes; at most %d are read", name, bytes, DT_CONFIG_BYTES);
    char *copy = dt_alloc(bytes + 1, 1);
    if (copy == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "%s: no memory for the configuration", name);
    if (bytes > 0)
        memcpy(copy, text, bytes);
    return create(out, name, copy, bytes, false, err);
}
