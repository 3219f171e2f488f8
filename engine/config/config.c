/* The text of a configuration: read, changed by --set, and asked for sections and keys. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "engine/config/config_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/text.h"

/* ---- sections and entries ---- */

dt_status dti_no_memory(const dt_config *c, dt_err *err)
{
    return DT_FAIL(err, DT_E_NOMEM, "%s: no memory for the configuration", c->shown);
}

/* Takes s over; NULL when s is, or when memory is out. */
char *dti_own(dt_config *c, char *s)
{
    if (s == NULL || !dt_grow(&c->owned, &c->owned_cap, c->n_owned, sizeof *c->owned)) {
        dt_free(s);
        return NULL;
    }
    return c->owned[c->n_owned++] = s;
}

void dt_config_destroy(dt_config *c)
{
    if (c == NULL)
        return;
    for (size_t i = 0; i < c->n; i++) {
        dt_free(c->at[i].key);
        dt_names_deinit(&c->at[i].by_key);
    }
    for (size_t i = 0; i < c->n_owned; i++)
        dt_free(c->owned[i]);
    dt_free(c->owned);
    dt_free(c->bound);
    dt_names_deinit(&c->by_section);
    dt_free(c->by_text);
    dt_free(c->at);
    dt_free(c->text);
    dt_free(c->folder);
    dt_free(c->file);
    dt_free(c);
}

const char *dt_config_path(const dt_config *c)
{
    return c->folder != NULL ? c->file : NULL;
}

/* A new section, of tidied text that lives as long as c. */
static section *add_section(dt_config *c, const char *text, int line, const char *set)
{
    if (!dt_grow(&c->at, &c->cap, c->n, sizeof *c->at))
        return NULL;
    const char *space = strchr(text, ' ');
    const char *kind = text;
    if (space != NULL) {
        char *copy = dti_own(c, dt_strdup(text));
        if (copy == NULL)
            return NULL;
        copy[space - text] = '\0';
        kind = copy;
    }
    c->at[c->n] = (section){.text = text,
        .kind = kind,
        .name = space != NULL ? space + 1 : "",
        .line = line,
        .set = set};
    return &c->at[c->n++];
}

static dt_named keys_of(const section *s)
{
    return (dt_named){s->key, sizeof *s->key, offsetof(entry, key), .refers = true};
}

static entry *add_entry(section *s, const char *key, const char *value, int line, const char *set)
{
    if (!dt_names_grow(&s->by_key, keys_of(s), s->n) ||
        !dt_grow(&s->key, &s->cap, s->n, sizeof *s->key))
        return NULL;
    entry *e = &s->key[s->n++];
    *e = (entry){.key = key, .value = value, .line = line, .set = set};
    dt_names_add(&s->by_key, keys_of(s), s->n - 1);
    return e;
}

/* qsort takes no context; a config is sorted by one thread at a time, each with its own. */
static _Thread_local const section *sorting;

static int by_text(const void *a, const void *b)
{
    const uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    const int order = strcmp(sorting[i].text, sorting[k].text);
    return order != 0 ? order : (i > k) - (i < k);
}

static dt_status sort_sections(dt_config *c, dt_err *err)
{
    uint32_t *order = dt_alloc(c->n, sizeof *order);
    if (order == NULL)
        return dti_no_memory(c, err);
    for (size_t i = 0; i < c->n; i++)
        order[i] = (uint32_t)i;
    sorting = c->at;
    qsort(order, c->n, sizeof *order, by_text);
    dt_free(c->by_text);
    c->by_text = order;
    return DT_OK;
}

section *dti_find_section(const dt_config *c, const char *text)
{
    size_t lo = 0, hi = c->n;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        section *s = &c->at[c->by_text[mid]];
        const int order = strcmp(text, s->text);
        if (order == 0)
            return s;
        if (order < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return NULL;
}

entry *dti_find_entry(const section *s, const char *key)
{
    const size_t at = s != NULL ? dt_names_find(&s->by_key, keys_of(s), key) : 0;
    return at > 0 ? &s->key[at - 1] : NULL;
}

dt_named dti_bound_names(const dt_config *c)
{
    return (dt_named){c->bound, sizeof *c->bound, offsetof(binding, section), .refers = true};
}

const binding *dti_first_bound(const dt_config *c, const char *text)
{
    const size_t at = dt_names_find(&c->by_section, dti_bound_names(c), text);
    return at > 0 ? &c->bound[at - 1] : NULL;
}

const binding *dti_next_bound(const dt_config *c, const binding *b)
{
    return b->next > 0 ? &c->bound[b->next - 1] : NULL;
}

/* ---- text ---- */

bool dti_blank(char c)
{
    return c == ' ' || c == '\t';
}

static char *skip_blanks(char *s)
{
    while (dti_blank(*s))
        s++;
    return s;
}

static void cut_blanks(char *s)
{
    size_t n = strlen(s);
    while (n > 0 && dti_blank(s[n - 1]))
        s[--n] = '\0';
}

/* Of ASCII, or C1 of UTF-8, which terminals may take for the begin of a sequence. */
static bool is_control(const char *s, size_t n)
{
    const uint8_t c = (uint8_t)s[0];
    return (c < 0x20 && c != '\t') || c == 0x7F || (c == 0xC2 && n > 1 && (uint8_t)s[1] < 0xA0);
}

/* Offset of the first control character other than a tab, or n. */
size_t dti_control_at(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && !is_control(s + i, n - i))
        i++;
    return i;
}

/* "conv  c1" becomes "conv c1", of kind "conv" and name "c1". False when there are more words or
 * none. */
static bool tidy_section(char *text)
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

/* ---- reading ---- */

static bool comment_or_end(const char *s)
{
    return *s == '\0' || *s == ';' || *s == '#';
}

/* What is being read, and how much was wrong so far. Only DT_E_NOMEM ends it early. */
typedef struct reader {
    dt_config *c;
    dt_err *err;
    dt_status wrong;
    int line;
    size_t mistakes, again; /* those told; of them keys given twice */
} reader;

#define WRONG(r, fmt, ...)                                                                         \
    ((r)->mistakes++, (r)->wrong = DT_FAIL((r)->err, DT_E_CONFIG, "%s:%d: " fmt, (r)->c->shown,    \
                          (r)->line, __VA_ARGS__))

static dt_status read_section(reader *r, char *s)
{
    char *end = strchr(s, ']');
    if (end == NULL) {
        WRONG(r, "'%.80s' has no closing ]", s);
        return DT_OK;
    }
    *end = '\0';
    char *text = s + 1;
    if (!comment_or_end(skip_blanks(end + 1)))
        WRONG(r, "text after [%.80s]: '%.80s'", text, skip_blanks(end + 1));
    if (!tidy_section(text))
        WRONG(r, "[%.80s] is no section: write [section] or [kind name]", text);
    /* kept even when wrong, so that its keys are still looked at */
    return add_section(r->c, text, r->line, NULL) != NULL ? DT_OK : dti_no_memory(r->c, r->err);
}

/* Cut the comment off an unquoted value, and the blanks in front of it. */
static void cut_comment(char *value)
{
    for (char *s = value; *s != '\0'; s++)
        if ((*s == ';' || *s == '#') && (s == value || dti_blank(s[-1]))) {
            *s = '\0';
            break;
        }
    cut_blanks(value);
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
    const char *rest = skip_blanks(s + 1);
    *to = '\0';
    if (!comment_or_end(rest)) {
        WRONG(r, "text after the closing \": '%.80s'", rest);
        return false;
    }
    return true;
}

/* Whether it may stand for a section or a key, so that writing it so is worth an advice. */
static bool is_word(const char *s, const char *end)
{
    static const char marks[] = "_.-";
    const char *from = s;
    while (s < end && (isalnum((unsigned char)*s) || strchr(marks, *s) != NULL))
        s++;
    return s == end && s > from && isalnum((unsigned char)*from);
}

/* Other formats have their words for it. */
static void not_a_pair(reader *r, char *s)
{
    char *colon = strchr(s, ':');
    const char *value = colon != NULL ? skip_blanks(colon + 1) : "";
    if (colon != NULL && !is_word(s, colon))
        colon = NULL;
    if (*s == '{' || *s == '"') {
        WRONG(r,
            "'%.80s' is neither [section] nor key = value: this is JSON, and a configuration is "
            "INI",
            s);
    } else if (colon != NULL && *value == '\0') {
        *colon = '\0';
        WRONG(r, "'%.80s:' is neither [section] nor key = value; write [%.80s]", s, s);
    } else if (colon != NULL && colon[1] == ' ') {
        *colon = '\0';
        WRONG(r, "'%.80s: %.80s' is neither [section] nor key = value; write %.80s = %.80s", s,
            value, s, value);
    } else {
        char *blank = s + strcspn(s, " \t");
        const char *rest = skip_blanks(blank);
        const bool two = is_word(s, blank) && *rest != '\0' && rest[strcspn(rest, " \t")] == '\0';
        if (two)
            WRONG(r, "'%.80s' is neither [section] nor key = value; write %.*s = %.80s", s,
                (int)(blank - s), s, rest);
        else
            WRONG(r, "'%.80s' is neither [section] nor key = value", s);
    }
}

static dt_status read_pair(reader *r, char *s)
{
    char *equals = strchr(s, '=');
    if (equals == NULL || equals == s) {
        not_a_pair(r, s);
        return DT_OK;
    }
    *equals = '\0';
    cut_blanks(s);
    char *value = skip_blanks(equals + 1);
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
    return add_entry(&r->c->at[r->c->n - 1], s, value, r->line, NULL) != NULL
               ? DT_OK
               : dti_no_memory(r->c, r->err);
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
    s = skip_blanks(s);
    if (comment_or_end(s))
        return DT_OK;
    return *s == '[' ? read_section(r, s) : read_pair(r, s);
}

/* Some editors of Windows write it: every other byte of a plain text is NUL. */
static bool is_utf16(const char *s, size_t n)
{
    return n >= 2 && (memcmp(s, "\xFF\xFE", 2) == 0 || memcmp(s, "\xFE\xFF", 2) == 0 ||
                         (s[0] == '\0') != (s[1] == '\0'));
}

static dt_status read_lines(reader *r, size_t n)
{
    char *s = r->c->text, *end = s + n;
    if (is_utf16(s, n)) {
        r->line = 1;
        WRONG(r, "%s", "this text is UTF-16; save it as UTF-8");
        return DT_OK;
    }
    s += dt_behind_mark(s, n) - s;
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
        r->again++;
        WRONG(r, "[%.80s] key '%.80s' is given again; first at line %d", s->text, sorted[i]->key,
            sorted[first]->line);
    }
    dt_free(sorted);
    return DT_OK;
}

static dt_status check_unique(reader *r)
{
    dt_config *c = r->c;
    DT_CHECK(sort_sections(c, r->err));
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

/* *further: nothing is wrong but keys given twice, whose first values are there. */
static dt_status parse(dt_config *c, size_t n, bool *further, dt_err *err)
{
    const size_t before = dt_err_end(err);
    reader r = {.c = c, .err = err};
    DT_CHECK(read_lines(&r, n));
    DT_CHECK(check_unique(&r));
    if (r.wrong == DT_OK && c->n == 0)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: no section in it; a configuration needs at least one, such as [model]", c->shown);
    *further = r.mistakes == r.again;
    dt_config_sort_mistakes(c, before, err);
    if (!*further)
        dti_config_cut_mistakes(before, r.mistakes, c->n > 0, err);
    return r.wrong;
}

enum { SHOWN_BYTES = 800 };

/* The folder of a file, with a slash behind it; as it is named where one above may not be looked
 * at. NULL: no memory. */
static char *folder_of(const char *name)
{
    char *absolute = realpath(name, NULL);
    char *folder = dt_strdup(absolute != NULL ? absolute : name);
    char *slash = folder != NULL ? strrchr(folder, '/') : NULL;
    free(absolute);
    if (slash != NULL) {
        slash[1] = '\0';
        return folder;
    }
    const bool none = folder == NULL;
    dt_free(folder);
    return none ? NULL : dt_strdup("./");
}

/* Takes text (NUL-terminated behind n bytes) over, whatever happens. */
static dt_status create(dt_config **out, const char *name, char *text, size_t n, bool is_file,
    bool *further, dt_err *err)
{
    *further = false;
    dt_config *c = dt_alloc(1, sizeof *c);
    if (c == NULL || (c->file = dt_strdup(name)) == NULL) {
        dt_free(c);
        dt_free(text);
        return DT_FAIL(err, DT_E_NOMEM, "%s: no memory for the configuration", name);
    }
    c->text = text;
    c->shown = c->file + (strlen(name) > SHOWN_BYTES ? strlen(name) - SHOWN_BYTES : 0);
    dt_status st = DT_OK;
    if (is_file && (c->folder = folder_of(name)) == NULL)
        st = dti_no_memory(c, err);
    if (st == DT_OK)
        st = parse(c, n, further, err);
    if (st != DT_OK && !*further)
        dt_config_destroy(c);
    else
        *out = c;
    return st;
}

enum { FIRST_BYTES = 9 };

/* What is named in place of a configuration, and what to do with it; NULL: nothing that is known.
 */
static const char *other_kind(const char first[FIRST_BYTES])
{
    static const struct {
        const char *bytes, *what;
        size_t n;
    } kinds[] = {
        {"PK\3\4",
            "weights of PyTorch's: tools/weights.py from-torch makes a file of them for "
            "--set model.weights=FILE",
            4},
        {"\x80\2",
            "weights of PyTorch's: tools/weights.py from-torch makes a file of them for "
            "--set model.weights=FILE",
            2},
        {"\x89PNG", "a picture: --set data.path=FOLDER takes folders of them, one a class", 4},
        {"\xFF\xD8\xFF", "a picture: --set data.path=FOLDER takes folders of them, one a class", 3},
        {"\x1F\x8B", "packed by gzip: unpack it", 2},
    };
    for (size_t i = 0; i < DT_COUNT(kinds); i++)
        if (memcmp(first, kinds[i].bytes, kinds[i].n) == 0)
            return kinds[i].what;
    if (first[8] == '{' && first[7] == '\0') /* the length of a header, and JSON */
        return "weights (safetensors): name them by --set model.weights=FILE";
    return NULL;
}

static dt_status check_kind(const char *path, dt_err *err)
{
    char first[FIRST_BYTES];
    int fd;
    off_t bytes;
    DT_CHECK(dt_open_regular(&fd, &bytes, path, DT_E_CONFIG, err));
    dt_status st = DT_OK;
    if (bytes >= FIRST_BYTES && dt_read_at(fd, path, first, sizeof first, 0, NULL) == DT_OK &&
        other_kind(first) != NULL)
        st = DT_FAIL(err, DT_E_CONFIG, "'%s' is no configuration but %s", path, other_kind(first));
    (void)dt_close(fd);
    return st;
}

/* Only a configuration with nothing wrong in it. */
static dt_status strictly(dt_config **out, dt_status st)
{
    if (st != DT_OK) {
        dt_config_destroy(*out);
        *out = NULL;
    }
    return st;
}

dt_status dt_config_load_further(dt_config **out, const char *path, dt_err *err)
{
    *out = NULL;
    char *text;
    bool further;
    size_t n;
    DT_CHECK(check_kind(path, err));
    DT_CHECK(dt_read_file(&text, &n, path, DT_CONFIG_BYTES, DT_E_CONFIG, err));
    return create(out, path, text, n, true, &further, err);
}

dt_status dt_config_load(dt_config **out, const char *path, dt_err *err)
{
    return strictly(out, dt_config_load_further(out, path, err));
}

dt_status dt_config_parse_further(
    dt_config **out, const char *name, const char *text, size_t bytes, dt_err *err)
{
    *out = NULL;
    bool further;
    if (bytes > DT_CONFIG_BYTES)
        return DT_FAIL(
            err, DT_E_CONFIG, "%s: %zu bytes; at most %d are read", name, bytes, DT_CONFIG_BYTES);
    char *copy = dt_alloc(bytes + 1, 1);
    if (copy == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "%s: no memory for the configuration", name);
    if (bytes > 0)
        memcpy(copy, text, bytes);
    return create(out, name, copy, bytes, false, &further, err);
}

/* ---- --set ---- */

/* Cut a copy of "section.key=value" into its parts. */
static bool cut_assignment(char *s, char **key, char **value)
{
    char *equals = strchr(s, '=');
    if (equals == NULL)
        return false;
    *equals = '\0';
    const size_t globs = strlen(DT_CONFIG_GLOBS);
    const bool glob = strncmp(s, DT_CONFIG_GLOBS ".", globs + 1) == 0;
    char *dot = glob ? s + globs : strrchr(s, '.');
    if (dot == NULL)
        return false;
    *dot = '\0';
    *key = skip_blanks(dot + 1);
    *value = skip_blanks(equals + 1);
    cut_blanks(*key);
    cut_blanks(*value);
    return **key != '\0' && strpbrk(*key, " \t\"") == NULL && strpbrk(s, "[]") == NULL &&
           tidy_section(s);
}

static dt_status assign(dt_config *c, const char *flag, const char *assignment, dt_err *err)
{
    char *text = dti_own(c, dt_strdup(assignment)), *key, *value;
    if (text == NULL)
        return dti_no_memory(c, err);
    const size_t n = strlen(text), control = dti_control_at(text, n), wrong = dt_utf8_bad(text, n);
    const size_t bad = control < wrong ? control : wrong;
    if (bad < n)
        return DT_FAIL(err, DT_E_CONFIG, "%s '%.200s': byte %zu, 0x%02X, is %s", flag, assignment,
            bad + 1, (unsigned)(uint8_t)text[bad],
            control < wrong ? "a control character" : "not UTF-8");
    if (!cut_assignment(text, &key, &value))
        return DT_FAIL(err, DT_E_CONFIG, "%s '%.200s': write section.key=value", flag, assignment);
    section *s = dti_find_section(c, text);
    if (s == NULL) {
        s = add_section(c, text, 0, flag);
        if (s == NULL)
            return dti_no_memory(c, err);
        const dt_status st = sort_sections(c, err);
        if (st != DT_OK) {
            c->n--; /* or a search would look behind the old order */
            return st;
        }
    }
    entry *e = dti_find_entry(s, key);
    if (e == NULL)
        e = add_entry(s, key, value, 0, flag);
    if (e == NULL)
        return dti_no_memory(c, err);
    *e = (entry){.key = e->key, .value = value, .set = flag};
    return DT_OK;
}

dt_status dt_config_set(dt_config *c, const char *assignment, dt_err *err)
{
    return assign(c, DTI_SET, assignment, err);
}

dt_status dt_config_vary(dt_config *c, const char *assignment, dt_err *err)
{
    return assign(c, DTI_VARY, assignment, err);
}

/* ---- asking ---- */

size_t dt_config_section_count(const dt_config *c)
{
    return c->n;
}

dt_section dt_config_section(const dt_config *c, size_t i)
{
    const section *s = &c->at[i];
    return (dt_section){s->text, s->kind, s->name, s->set != NULL ? s->set : c->file, s->line};
}

size_t dt_config_key_count(const dt_config *c, size_t i)
{
    return c->at[i].n;
}

void dt_config_key(
    const dt_config *c, size_t at, size_t i, const char **key, const char **value, int *line)
{
    const entry *e = &c->at[at].key[i];
    *key = e->key;
    *value = e->value;
    *line = e->line;
}

const char *dt_config_get(
    const dt_config *c, const char *text, const char *key, const char **file, int *line)
{
    const entry *e = dti_find_entry(dti_find_section(c, text), key);
    if (e == NULL)
        return NULL;
    *file = e->set != NULL ? e->set : c->file;
    *line = e->line;
    return e->value;
}

bool dt_config_typed(const dt_config *c, const char *text, const char *key)
{
    const entry *e = dti_find_entry(dti_find_section(c, text), key);
    return e != NULL && e->set != NULL;
}

const char *dt_config_place(char *to, size_t bytes, const char *file, int line)
{
    char end[16] = "";
    if (file == NULL)
        file = "default";
    else if (line > 0)
        snprintf(end, sizeof end, ":%d", line);
    const size_t n = strlen(file), most = bytes - 1 - strlen(end);
    for (file += n > most ? n - most : 0; ((unsigned char)*file & 0xC0) == 0x80;)
        file++; /* no part of a character */
    snprintf(to, bytes, "%s%s", file, end);
    return to;
}
