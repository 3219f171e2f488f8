/* What tables of options make of a configuration: structs filled from it, values compared, and
 * sections and keys that no table knows. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "engine/config/config_internal.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/memory_stream.h"
#include "engine/config/nearest.h"

/* For the start of a message. */
static const char *place(const dt_config *c, const char *set, int line, char *text, size_t room)
{
    return dt_config_place(text, room, set != NULL ? set : c->shown, line);
}

enum { PLACE_BYTES = 1024 };

static char *join(dt_config *c, const char *folder, const char *between, const char *path)
{
    const size_t room = strlen(folder) + strlen(between) + strlen(path) + 1;
    char *joined = dti_own(c, dt_alloc(room, 1));
    if (joined != NULL)
        snprintf(joined, room, "%s%s%s", folder, between, path);
    return joined;
}

bool dti_is_choice(const dt_opt *row, const char *value)
{
    for (const char *const *w = row->choices; w != NULL && *w != NULL; w++)
        if (strcmp(*w, value) == 0)
            return true;
    return false;
}

/* A relative path in a file counts from the file's folder, one of --set or of text in memory from
 * the current one. */
static const char *resolve(dt_config *c, entry *e)
{
    if (e->value[0] == '/' || e->value[0] == '\0')
        return e->value;
    if (e->path != NULL)
        return e->path;
    if (e->set == NULL && c->folder != NULL)
        return e->path = join(c, c->folder, "", e->value);
    char *here = realpath(".", NULL);
    if (here == NULL)
        return e->value;
    e->path = join(c, here, "/", e->value);
    free(here);
    return e->path;
}

/* Drop the blanks around the commas of a list. */
static void tidy(char *list)
{
    char *to = list;
    for (const char *v = list; *v != '\0';) {
        const size_t gap = strspn(v, " \t");
        const bool drop = v[gap] == ',' || v[gap] == '\0' || to == list || to[-1] == ',';
        if (gap > 0 && drop)
            v += gap;
        else
            *to++ = *v++;
    }
    *to = '\0';
}

static const char *tidy_list(dt_config *c, entry *e)
{
    if (strpbrk(e->value, " \t") == NULL)
        return e->value;
    char *copy = dti_own(c, dt_strdup(e->value));
    if (copy != NULL)
        tidy(copy);
    return copy;
}

static dt_status bind_value(
    dt_config *c, const section *s, entry *e, const dt_opt *row, void *target, dt_err *err)
{
    const char *value = e->value;
    if (row->type == DT_OPT_PATH && !dti_is_choice(row, value))
        value = resolve(c, e);
    if (row->type == DT_OPT_LIST)
        value = tidy_list(c, e);
    if (value == NULL)
        return dti_no_memory(c, err);
    if (dt_opt_read(row, value, target, NULL) == DT_OK)
        return DT_OK;
    dt_err why = {0}; /* large, so only now */
    const dt_status st = dt_opt_read(row, value, target, &why);
    char at[PLACE_BYTES];
    return DT_FAIL(err, st, "%s: [%.100s] %.100s = %.200s: %.*s",
        place(c, e->set, e->line, at, sizeof at), s->text, e->key, e->value,
        (int)strcspn(why.text, "\n"), why.text);
}

/* Several tables may have a key, which is named once. */
static size_t add_word(const char **words, size_t n, const char *word)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(words[i], word) == 0)
            return n;
    words[n] = word;
    return n + 1;
}

/* The keys of a section, to suggest; NULL-terminated. */
static const char **known_keys(const dt_config *c, const char *text)
{
    size_t n = 0, room = 1;
    const binding *first = dti_first_bound(c, text);
    for (const binding *b = first; b != NULL; b = dti_next_bound(c, b))
        for (const dt_opt *row = b->rows; row->key != NULL; row++)
            room++;
    const char **words = dt_alloc(room, sizeof *words);
    for (const binding *b = first; words != NULL && b != NULL; b = dti_next_bound(c, b))
        for (const dt_opt *row = b->rows; row->key != NULL; row++)
            n = add_word(words, n, row->key);
    return words;
}

/* The key of a section that nothing knows and that was meant for a row; NULL: there is none. */
static entry *misspelt(const dt_config *c, const section *s, const dt_opt *row)
{
    const char **words = s != NULL ? known_keys(c, s->text) : NULL;
    entry *found = NULL;
    for (size_t i = 0; words != NULL && i < s->n && found == NULL; i++) {
        const char *near = s->key[i].known ? NULL : dt_nearest(s->key[i].key, words);
        if (near != NULL && strcmp(near, row->key) == 0)
            found = &s->key[i];
    }
    dt_free(words);
    return found;
}

/* Whether what is pushed from now on is counted, and not told: of thousands, advice that nobody
 * sees takes seconds. */
static bool untold(const dt_err *err)
{
    return err == NULL || err->lost > 0;
}

static dt_status tell_unknown(
    const dt_config *c, const section *s, const entry *e, const char *advice, dt_err *err)
{
    char at[PLACE_BYTES];
    return DT_FAIL(err, DT_E_CONFIG, "%s: [%.100s] unknown key '%.100s', %s",
        place(c, e->set, e->line, at, sizeof at), s->text, e->key, advice);
}

static dt_status tell_absent(
    const dt_config *c, const section *s, const entry *e, const char *instead, dt_err *err)
{
    char at[PLACE_BYTES];
    return DT_FAIL(err, DT_E_CONFIG, "%s: [%.100s] unknown key '%.100s': %s",
        place(c, e->set, e->line, at, sizeof at), s->text, e->key, instead);
}

/* One mistake is told once: what was misspelt is not missing as well. */
static dt_status missing_key(
    const dt_config *c, const section *s, const char *text, const dt_opt *row, dt_err *err)
{
    char allowed[256], advice[128];
    entry *e = misspelt(c, s, row);
    if (e != NULL) {
        e->told = err != NULL;
        snprintf(advice, sizeof advice, "did you mean '%s'?", row->key);
        return tell_unknown(c, s, e, advice, err);
    }
    dt_opt_allowed(row, allowed, sizeof allowed);
    if (s != NULL && s->set == NULL)
        return DT_FAIL(err, DT_E_CONFIG, "%s:%d: [%.100s] %s is required (%s: %s)", c->shown,
            s->line, text, row->key, allowed, row->help);
    return DT_FAIL(err, DT_E_CONFIG, "%s: [%.100s] %s is required (%s: %s)", c->shown, text,
        row->key, allowed, row->help);
}

static dt_status note_binding(dt_config *c, const char *text, const dt_opt *rows, dt_err *err)
{
    const binding *last = NULL;
    for (const binding *b = dti_first_bound(c, text); b != NULL; b = dti_next_bound(c, b)) {
        if (b->rows == rows)
            return DT_OK;
        last = b;
    }
    const size_t before = last != NULL ? (size_t)(last - c->bound) : 0;
    const char *name = last != NULL ? last->section : dti_own(c, dt_strdup(text));
    if (name == NULL || !dt_names_grow(&c->by_section, dti_bound_names(c), c->n_bound) ||
        !dt_grow(&c->bound, &c->bound_cap, c->n_bound, sizeof *c->bound))
        return dti_no_memory(c, err);
    c->bound[c->n_bound++] = (binding){name, rows, .first = last == NULL};
    if (last != NULL)
        c->bound[before].next = (uint32_t)c->n_bound;
    else
        dt_names_add(&c->by_section, dti_bound_names(c), c->n_bound - 1);
    return DT_OK;
}

dt_status dt_config_bind(
    dt_config *c, const char *text, const dt_opt *rows, void *target, dt_err *err)
{
    dt_opt_defaults(rows, target);
    DT_CHECK(note_binding(c, text, rows, err));
    section *s = dti_find_section(c, text);
    if (s != NULL)
        s->known = true;
    dt_status first = DT_OK;
    for (const dt_opt *row = rows; row->key != NULL; row++) {
        entry *e = dti_find_entry(s, row->key);
        dt_status st = DT_OK;
        if (e != NULL) {
            e->known = true;
            st = bind_value(c, s, e, row, target, err);
        } else if (row->fallback == NULL) {
            st = missing_key(c, s, text, row, err);
        }
        if (st == DT_E_NOMEM)
            return st;
        if (first == DT_OK)
            first = st;
    }
    return first;
}

/* The row that a key is bound by, or NULL. */
static const dt_opt *find_row(const dt_config *c, const char *text, const char *key)
{
    for (const binding *b = dti_first_bound(c, text); b != NULL; b = dti_next_bound(c, b))
        for (const dt_opt *row = b->rows; row->key != NULL; row++)
            if (strcmp(row->key, key) == 0)
                return row;
    return NULL;
}

/* A value as its row would write it; one that it refuses, as it is. NULL: no memory. */
static char *plainly(const dt_opt *row, const char *value)
{
    union {
        int64_t whole;
        uint64_t bytes;
        double real;
        bool yes;
        int word;
        const char *text;
    } to = {0};
    dt_opt alone = *row;
    alone.at = 0;
    dt_memory_stream text = {0};
    char *copy = dt_strdup(value);
    if (copy != NULL && dt_memory_open(&text, "", NULL) == DT_OK) {
        if (row->type == DT_OPT_LIST)
            tidy(copy);
        if (dt_opt_read(&alone, copy, &to, NULL) == DT_OK)
            dt_opt_print(text.f, &alone, &to);
        else
            fputs(copy, text.f);
        (void)!dt_memory_close(&text, DT_OK, NULL);
    }
    dt_free(copy);
    return text.text;
}

dt_status dt_config_same(const dt_config *c, const char *text, const char *key, const char *a,
    const char *b, bool *same, dt_err *err)
{
    const dt_opt *row = find_row(c, text, key);
    if (row != NULL) {
        a = a != NULL ? a : row->fallback;
        b = b != NULL ? b : row->fallback;
    }
    *same = a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
    if (*same || row == NULL || a == NULL || b == NULL)
        return DT_OK;
    char *one = plainly(row, a), *other = plainly(row, b);
    const dt_status st = one != NULL && other != NULL ? DT_OK : dti_no_memory(c, err);
    *same = st == DT_OK && strcmp(one, other) == 0;
    dt_free(one);
    dt_free(other);
    return st;
}

void dti_config_mark_passing(dt_config *c, const char *text, const char *key)
{
    entry *e = dti_find_entry(dti_find_section(c, text), key);
    if (e != NULL)
        e->passing = true;
}

void dt_config_mark_known(dt_config *c, const char *text)
{
    section *s = dti_find_section(c, text);
    if (s == NULL)
        return;
    s->known = s->free_keys = true;
    for (size_t i = 0; i < s->n; i++)
        s->key[i].known = true;
}

void dt_config_leave_out(dt_config *c, const char *text)
{
    section *s = dti_find_section(c, text);
    if (s != NULL)
        s->free_keys = false;
}

/* The sections to suggest, which are those without a name: what has one is a layer of the user's.
 */
static const char **known_sections(const dt_config *c)
{
    size_t n = 0;
    const char **words = dt_alloc(c->n_bound + 1, sizeof *words);
    for (size_t i = 0; words != NULL && i < c->n_bound; i++)
        if (c->bound[i].first && strchr(c->bound[i].section, ' ') == NULL)
            words[n++] = c->bound[i].section;
    return words;
}

/* The key of a section that is or may have been meant; NULL: none. */
static const char *key_of(const dt_config *c, const char *text, const char *word)
{
    if (find_row(c, text, word) != NULL)
        return word;
    const char **words = known_keys(c, text);
    const char *near = words != NULL ? dt_nearest(word, words) : NULL;
    dt_free(words);
    return near;
}

/* The first of @sections that binds this very word. */
static const char *elsewhere(
    const dt_config *c, const char *const *sections, const char *text, const char *word)
{
    for (; *sections != NULL; sections++)
        if (strcmp(*sections, text) != 0 && find_row(c, *sections, word) != NULL)
            return *sections;
    return NULL;
}

/* "did you mean [train] lr?": what may have been meant in the first section that has it. */
static bool meant_elsewhere(const dt_config *c, const char *const *sections, const char *text,
    const char *word, char *to, size_t room)
{
    for (; *sections != NULL; sections++) {
        const char *key = strcmp(*sections, text) != 0 ? key_of(c, *sections, word) : NULL;
        if (key != NULL)
            return snprintf(to, room, "did you mean [%s] %s?", *sections, key) > 0;
    }
    return false;
}

/* What there is to choose from. */
static void enumerate(const char *const *words, char *text, size_t room)
{
    size_t n = (size_t)snprintf(text, room, "known:");
    for (; *words != NULL && n < room; words++)
        n += (size_t)snprintf(text + n, room - n, " %s%s", *words, words[1] != NULL ? "," : "");
}

/* The layer's section of that name, [KIND NAME], whose kind was left out; NULL: there is none. */
static const char *layer_called(const dt_config *c, const char *name)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->at[i].known && c->at[i].name != NULL && strcmp(c->at[i].name, name) == 0)
            return c->at[i].text;
    return NULL;
}

static dt_status unknown_section(
    const dt_config *c, const section *s, const char *const *sections, dt_err *err)
{
    char at[PLACE_BYTES], advice[512];
    const char *near = untold(err) ? NULL : dt_nearest(s->text, sections);
    const char *key = near != NULL && s->n > 0 ? key_of(c, near, s->key[0].key) : NULL;
    const char *layer = s->set != NULL ? layer_called(c, s->text) : NULL; /* these are few */
    if (layer != NULL)
        snprintf(advice, sizeof advice, "did you mean '%.200s'? As in \"%.200s.%.40s\"", layer,
            layer, s->n > 0 ? s->key[0].key : "KEY");
    else if (key != NULL)
        snprintf(advice, sizeof advice, "did you mean '%s'? As in %s.%s", near, near, key);
    else if (near != NULL)
        snprintf(advice, sizeof advice, "did you mean '%s'?", near);
    else
        enumerate(sections, advice, sizeof advice);
    return DT_FAIL(err, DT_E_CONFIG, "%s: unknown section [%.100s], %s",
        place(c, s->set, s->line, at, sizeof at), s->text, advice);
}

static dt_status unknown_keys(
    const dt_config *c, const section *s, const char *const *sections, dt_err *err)
{
    const char **words = NULL;
    dt_status st = DT_OK;
    for (size_t i = 0; i < s->n; i++) {
        const entry *e = &s->key[i];
        if (e->known || e->told || dti_find_entry(s, e->key) != e) /* given again, which was told */
            continue;
        if (untold(err)) {
            st = tell_unknown(c, s, e, "", err);
            continue;
        }
        if (words == NULL && (words = known_keys(c, s->text)) == NULL)
            return dti_no_memory(c, err);
        char advice[512];
        const char *near = dt_nearest(e->key, words);
        const char *other = elsewhere(c, sections, s->text, e->key);
        const char *instead = other == NULL ? dt_absent(e->key) : NULL;
        if (instead != NULL) {
            st = tell_absent(c, s, e, instead, err);
            continue;
        }
        if (other != NULL)
            snprintf(advice, sizeof advice, "it is one of [%s]", other);
        else if (near != NULL)
            snprintf(advice, sizeof advice, "did you mean '%s'?", near);
        else if (!meant_elsewhere(c, sections, s->text, e->key, advice, sizeof advice))
            enumerate(words, advice, sizeof advice);
        st = tell_unknown(c, s, e, advice, err);
    }
    dt_free(words);
    return st;
}

dt_status dt_config_check_known(const dt_config *c, dt_err *err)
{
    const char **sections = known_sections(c);
    if (sections == NULL)
        return dti_no_memory(c, err);
    dt_status first = DT_OK, st = DT_OK;
    for (size_t i = 0; i < c->n && st != DT_E_NOMEM; i++) {
        const section *s = &c->at[i];
        st = s->known ? unknown_keys(c, s, sections, err) : unknown_section(c, s, sections, err);
        if (first == DT_OK || st == DT_E_NOMEM)
            first = st;
    }
    dt_free(sections);
    return first;
}
