/* Writing a configuration so that it can be read back. */
#include "engine/config/config_internal.h"

#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/memory_stream.h"
#include "engine/base/text.h"

enum { PLACE_BYTES = 1024, LINE_DIGITS = 11 };

static const char *written_value(const entry *e)
{
    return e->path != NULL ? e->path : e->value;
}

/* Whether a value needs no quotes. */
static bool is_plain(const char *v)
{
    const size_t n = strlen(v);
    return n == 0 ||
           (v[0] != '"' && strpbrk(v, ";#") == NULL && !dti_blank(v[0]) && !dti_blank(v[n - 1]));
}

/* Bytes of its line without the note of where it comes from. */
static size_t line_bytes(const entry *e)
{
    const char *v = written_value(e);
    size_t n = strlen(e->key) + strlen(" = ") + strlen(v);
    if (is_plain(v))
        return n;
    for (n += strlen("\"\""); *v != '\0'; v++)
        n += *v == '"';
    return n;
}

/* What the reader would not take, or take for something else. */
static dt_status check_line(const dt_config *c, const section *s, const entry *e, dt_err *err)
{
    char text[PLACE_BYTES];
    const char *v = written_value(e), *at = dt_config_place(text, sizeof text,
                                          e->set != NULL ? e->set : c->shown, e->line);
    const size_t n = strlen(v), control = dti_control_at(v, n), wrong = dt_utf8_bad(v, n);
    const size_t bad = control < wrong ? control : wrong, bytes = line_bytes(e);
    if (bad < n)
        return DT_FAIL(err, DT_E_CONFIG, "%s: [%.100s] %.100s = %.200s: byte %zu, 0x%02X, is %s",
            at, s->text, e->key, v, bad + 1, (unsigned)(uint8_t)v[bad],
            control < wrong ? "a control character" : "not UTF-8");
    if (strchr("[;#", e->key[0]) != NULL)
        return DT_FAIL(err, DT_E_CONFIG, "%s: [%.100s] %.100s: no key begins with '%c'", at,
            s->text, e->key, e->key[0]);
    if (bytes > DT_LINE_BYTES)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: [%.100s] %.100s: it is %zu bytes long, and %zu as a line of a configuration, of "
            "which at most %d are read",
            at, s->text, e->key, n, bytes, DT_LINE_BYTES);
    return DT_OK;
}

static dt_status check_size(const dt_config *c, dt_err *err)
{
    dt_memory_stream text;
    if (dt_memory_open(&text, "", NULL) != DT_OK)
        return dti_no_memory(c, err);
    dt_config_dump(c, text.f);
    if (dt_memory_close(&text, DT_OK, NULL) != DT_OK)
        return dti_no_memory(c, err);
    dt_free(text.text);
    if (text.n > DT_CONFIG_BYTES)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: %zu bytes with all defaults and notes; at most %d are read", c->shown, text.n,
            DT_CONFIG_BYTES);
    return DT_OK;
}

dt_status dt_config_check_dump(const dt_config *c, dt_err *err)
{
    dt_status first = DT_OK;
    for (size_t i = 0; i < c->n; i++) {
        const section *s = &c->at[i];
        if (strlen(s->text) + strlen("[]") > DT_LINE_BYTES)
            first = DT_FAIL(err, DT_E_CONFIG,
                DTI_SET ": the name of section [%.100s...] is %zu bytes long; at most %zu are read",
                s->text, strlen(s->text), DT_LINE_BYTES - strlen("[]"));
        for (size_t k = 0; k < s->n; k++) {
            const dt_status st = s->key[k].passing ? DT_OK : check_line(c, s, &s->key[k], err);
            first = first != DT_OK ? first : st;
        }
    }
    return first != DT_OK ? first : check_size(c, err);
}

static void print_value(FILE *f, const char *v)
{
    if (is_plain(v)) {
        fputs(v, f);
        return;
    }
    fputc('"', f);
    for (; *v != '\0'; v++)
        fprintf(f, "%s%c", *v == '"' ? "\"" : "", *v);
    fputc('"', f);
}

/* The note is left out where the line would be too long with it. */
static void print_entry(const dt_config *c, const entry *e, FILE *f)
{
    const size_t note =
        strlen(" ; :") + (e->set != NULL ? strlen(e->set) : strlen(c->file) + LINE_DIGITS);
    fprintf(f, "%s = ", e->key);
    print_value(f, written_value(e));
    if (line_bytes(e) + note > DT_LINE_BYTES) {
        fputc('\n', f);
        return;
    }
    if (e->set != NULL) {
        fprintf(f, " ; %s\n", e->set);
        return;
    }
    fputs(" ; ", f);
    for (const char *s = c->file; *s != '\0';) { /* a name may hold what no line may */
        const size_t n = dt_printable(s);
        fprintf(f, "%.*s", n > 0 ? (int)n : 1, n > 0 ? s : "?");
        s += n > 0 ? n : 1;
    }
    fprintf(f, ":%d\n", e->line);
}

static bool is_text(const dt_opt *row)
{
    return row->type == DT_OPT_STR || row->type == DT_OPT_PATH || row->type == DT_OPT_LIST;
}

static void print_row(const dt_config *c, const section *s, const dt_opt *row, FILE *f)
{
    const entry *e = dti_find_entry(s, row->key);
    if (e != NULL && !e->passing)
        print_entry(c, e, f);
    else if (row->fallback != NULL && (row->fallback[0] != '\0' || is_text(row)))
        fprintf(f, "%s = %s ; default\n", row->key, row->fallback);
}

void dt_config_dump(const dt_config *c, FILE *f)
{
    for (size_t i = 0; i < c->n_bound; i++) {
        const binding *b = &c->bound[i];
        if (!b->first)
            continue;
        const section *s = dti_find_section(c, b->section);
        fprintf(f, "%s[%s]\n", i > 0 ? "\n" : "", b->section);
        for (; b != NULL; b = dti_next_bound(c, b))
            for (const dt_opt *row = b->rows; row->key != NULL; row++)
                print_row(c, s, row, f);
    }
    for (size_t i = 0; i < c->n; i++) {
        if (!c->at[i].free_keys)
            continue;
        fprintf(f, "\n[%s]\n", c->at[i].text);
        for (size_t k = 0; k < c->at[i].n; k++)
            print_entry(c, &c->at[i].key[k], f);
    }
}
