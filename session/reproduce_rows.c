/* Rows of published numbers, read from a file of text. */
#include <math.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/config/nearest.h"
#include "engine/config/options.h"
#include "session/reproduce.h"

enum { FILE_BYTES = 1 << 20, FIELD_BYTES = 1024, FIELDS = 10, NAMED = 128, NAME_BYTES = 32 };

static const char *const kind_names[] = {[DT_STATED] = "stated",
    [DT_FIGURE] = "figure",
    [DT_TIME] = "time",
    [DT_BATCH] = "batch",
    [DT_MEMORY] = "memory",
    [DT_PUBLISHED_KINDS] = NULL};
static const double tolerances[] = {[DT_STATED] = 0.01,
    [DT_FIGURE] = 0.10,
    [DT_TIME] = 0.15,
    [DT_BATCH] = 0.15,
    [DT_MEMORY] = 0.15};
static const char *const form_names[] = {[DTI_PLAIN] = "plain",
    [DTI_RATIO] = "ratio",
    [DTI_LESS] = "less",
    [DTI_MORE] = "more",
    [DTI_EXTRA] = "extra",
    [DTI_ADDED] = "added",
    [DTI_PUBLISHED_FORMS] = NULL};
static const char *const better_names[] = {
    [DT_NEITHER] = "neither", [DT_HIGHER] = "higher", [DT_LOWER] = "lower", NULL};

const char *dt_published_kind_name(dt_published_kind k)
{
    return kind_names[k];
}

double dt_published_tolerance(dt_published_kind k)
{
    return tolerances[k];
}

/**
 * struct reader - a file being read.
 * @line:  number of the line that is read
 * @named: of `let`, the latest of a name last
 */
typedef struct reader {
    dt_published *to;
    const char *path;
    int line;
    size_t n_named;
    struct {
        char name[NAME_BYTES], text[FIELD_BYTES];
    } named[NAMED];
    dt_err *err;
} reader;

#define WRONG(r, ...) DT_FAIL((r)->err, DT_E_DATA, __VA_ARGS__)
#define AT(r) (r)->path, (r)->line

/* ---- fields ---- */

static char *trim(char *text)
{
    text += strspn(text, " ");
    size_t n = strlen(text);
    while (n > 0 && text[n - 1] == ' ')
        text[--n] = '\0';
    return text;
}

/* The fields of a line, cut at bars; how many there are, at most one too many. */
static size_t cut(char *line, char *field[FIELDS + 1])
{
    size_t n = 0;
    for (char *at = line; at != NULL && n <= FIELDS;) {
        char *bar = strchr(at, '|');
        if (bar != NULL)
            *bar++ = '\0';
        field[n++] = trim(at);
        at = bar;
    }
    return n;
}

static dt_status copy(reader *r, char **to, const char *text)
{
    *to = dt_strdup(text);
    return *to != NULL ? DT_OK : DT_FAIL(r->err, DT_E_NOMEM, "%s: no memory for a row", r->path);
}

static bool name_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

static dt_status name_of(reader *r, const char *at, char name[NAME_BYTES], size_t *bytes)
{
    *bytes = 0;
    while (name_letter(at[*bytes]))
        ++*bytes;
    if (*bytes == 0 || *bytes >= NAME_BYTES)
        return WRONG(
            r, "%s:%d: here must be a name of 1 to %d of a-z, 0-9 and _", AT(r), NAME_BYTES - 1);
    memcpy(name, at, *bytes);
    name[*bytes] = '\0';
    return DT_OK;
}

/* What a `let` above has named. */
static dt_status look_up(reader *r, const char *name, const char **text)
{
    for (size_t i = r->n_named; i-- > 0;)
        if (strcmp(r->named[i].name, name) == 0) {
            *text = r->named[i].text;
            return DT_OK;
        }
    return WRONG(r, "%s:%d: $%s is not named above; write `let %s = TEXT`", AT(r), name, name);
}

/* Put names of `let` in their places. */
static dt_status expand(reader *r, const char *from, char to[FIELD_BYTES])
{
    size_t n = 0;
    while (*from != '\0') {
        char name[NAME_BYTES];
        size_t bytes = 1, skip = 1;
        const char *put = from;
        if (*from == '$') {
            DT_CHECK(name_of(r, from + 1, name, &skip));
            DT_CHECK(look_up(r, name, &put));
            bytes = strlen(put);
            skip++;
        }
        if (n + bytes >= FIELD_BYTES)
            return WRONG(r, "%s:%d: a field of more than %d bytes", AT(r), FIELD_BYTES - 1);
        memcpy(to + n, put, bytes);
        n += bytes;
        from += skip;
    }
    to[n] = '\0';
    return DT_OK;
}

static dt_status copy_expanded(reader *r, char **to, const char *from)
{
    char text[FIELD_BYTES];
    DT_CHECK(expand(r, from, text));
    return copy(r, to, text);
}

/* Which of @names a word is. */
static dt_status one_of(
    reader *r, const char *what, const char *word, const char *const *names, int *out)
{
    for (*out = 0; names[*out] != NULL; ++*out)
        if (strcmp(names[*out], word) == 0)
            return DT_OK;
    const char *near = dt_nearest(word, names);
    return near != NULL ? WRONG(r, "%s:%d: there is no %s '%.40s'; did you mean '%s'?", AT(r), what,
                              word, near)
                        : WRONG(r, "%s:%d: there is no %s '%.40s'", AT(r), what, word);
}

/* ---- lines ---- */

static dt_status read_let(reader *r, char *text)
{
    char name[NAME_BYTES];
    size_t bytes;
    DT_CHECK(name_of(r, text, name, &bytes));
    text = trim(text + bytes);
    if (*text != '=')
        return WRONG(r, "%s:%d: `let NAME = TEXT`", AT(r));
    if (r->n_named == NAMED)
        return WRONG(r, "%s:%d: more than %d names", AT(r), NAMED);
    DT_CHECK(expand(r, trim(text + 1), r->named[r->n_named].text));
    memcpy(r->named[r->n_named++].name, name, sizeof name);
    return DT_OK;
}

static dt_status read_paper(reader *r, char *text)
{
    char *field[FIELDS + 1];
    dt_published *p = r->to;
    if (cut(text, field) != 3 || *field[0] == '\0' || *field[1] == '\0')
        return WRONG(r, "%s:%d: `paper NAME | TITLE | NOTE`", AT(r));
    for (size_t i = 0; i < p->n_paper; i++)
        if (strcmp(p->paper[i].name, field[0]) == 0)
            return WRONG(r, "%s:%d: the paper %.40s stands above already", AT(r), field[0]);
    if (!dt_grow(&p->paper, &p->cap_paper, p->n_paper, sizeof *p->paper))
        return DT_FAIL(r->err, DT_E_NOMEM, "%s: no memory for a paper", r->path);
    dt_published_paper *to = &p->paper[p->n_paper++];
    *to = (dt_published_paper){0};
    DT_CHECK(copy(r, &to->name, field[0]));
    DT_CHECK(copy(r, &to->title, field[1]));
    return copy(r, &to->note, field[2]);
}

/* "FORM QUANTITY", or "FORM QUANTITY most". */
static dt_status read_making(reader *r, dt_published_row *to, char *text)
{
    int form;
    char *quantity = strchr(text, ' '), *most = NULL;
    if (quantity == NULL)
        return WRONG(r, "%s:%d: '%.40s' is no FORM QUANTITY", AT(r), text);
    *quantity++ = '\0';
    quantity = trim(quantity);
    most = strchr(quantity, ' ');
    if (most != NULL) {
        *most++ = '\0';
        to->most = strcmp(trim(most), "most") == 0;
        if (!to->most)
            return WRONG(r, "%s:%d: behind a quantity stands `most`, or nothing", AT(r));
    }
    DT_CHECK(one_of(r, "form", text, form_names, &form));
    to->form = (dti_published_form)form;
    DT_TRY(r->err, dti_quantity_find(&to->quantity, quantity, r->err), "%s:%d", AT(r));
    return DT_OK;
}

/* "DIRECTION", or "rival DIRECTION". */
static dt_status read_better(reader *r, dt_published_row *to, char *text)
{
    int better;
    to->rival = strncmp(text, "rival ", 6) == 0;
    DT_CHECK(one_of(r, "direction", trim(text + (to->rival ? 6 : 0)), better_names, &better));
    to->better = (dt_better)better;
    if (to->rival && to->better == DT_NEITHER)
        return WRONG(r, "%s:%d: behind `rival` stands higher or lower", AT(r));
    return DT_OK;
}

static dt_status check_row(reader *r, const dt_published_row *row)
{
    const dt_published *p = r->to;
    if (*row->where == '\0' || *row->what == '\0' || *row->networks == '\0')
        return WRONG(r,
            "%s:%d: a row says where its number stands, what it is, and of which network", AT(r));
    if ((row->form == DTI_PLAIN) != (*row->base == '\0'))
        return WRONG(r, "%s:%d: %s", AT(r),
            row->form == DTI_PLAIN ? "`plain` has no base" : "there is no base to compare with");
    if (strchr(row->note, '{') != NULL &&
        (row->form != DTI_PLAIN || row->most || !dti_quantity_is_batch(&row->quantity)))
        return WRONG(r, "%s:%d: a note has blanks where a row is `plain largest_batch`", AT(r));
    for (size_t i = 0; i + 1 < p->n_row; i++)
        if (p->row[i].paper == row->paper && strcmp(p->row[i].where, row->where) == 0 &&
            strcmp(p->row[i].what, row->what) == 0)
            return WRONG(r, "%s:%d: this row stands above already", AT(r));
    return DT_OK;
}

static dt_status fill_row(reader *r, dt_published_row *to, char *const field[FIELDS])
{
    int kind;
    DT_CHECK(copy(r, &to->where, field[0]));
    DT_CHECK(copy_expanded(r, &to->what, field[1]));
    DT_CHECK(one_of(r, "kind", field[2], kind_names, &kind));
    DT_CHECK(read_better(r, to, field[4]));
    to->kind = (dt_published_kind)kind;
    if (!dt_parse_f64(field[3], &to->published) || !isfinite(to->published) || !(to->published > 0))
        return WRONG(r, "%s:%d: '%.40s' is no number above 0", AT(r), field[3]);
    DT_CHECK(read_making(r, to, field[5]));
    DT_CHECK(copy_expanded(r, &to->networks, field[6]));
    DT_CHECK(copy_expanded(r, &to->own, field[7]));
    DT_CHECK(copy_expanded(r, &to->base, field[8]));
    DT_CHECK(copy_expanded(r, &to->note, field[9]));
    return check_row(r, to);
}

static dt_status read_row(reader *r, char *text)
{
    char *field[FIELDS + 1];
    dt_published *p = r->to;
    if (p->n_paper == 0)
        return WRONG(r, "%s:%d: a row before the first `paper`", AT(r));
    const size_t n = cut(text, field);
    if (n != FIELDS)
        return WRONG(r, "%s:%d: a row has %d fields with | between them, this one %s%zu", AT(r),
            FIELDS, n > FIELDS ? "more than " : "", n > FIELDS ? (size_t)FIELDS : n);
    if (!dt_grow(&p->row, &p->cap_row, p->n_row, sizeof *p->row))
        return DT_FAIL(r->err, DT_E_NOMEM, "%s: no memory for a row", r->path);
    dt_published_row *to = &p->row[p->n_row++];
    *to = (dt_published_row){.paper = p->n_paper - 1};
    return fill_row(r, to, field);
}

static dt_status read_line(reader *r, char *line)
{
    static const struct {
        const char *word;
        dt_status (*read)(reader *r, char *text);
    } lines[] = {{"let ", read_let}, {"paper ", read_paper}, {"row ", read_row}};
    for (const char *c = line; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 127 || (*c == '\xC2' && (unsigned char)c[1] < 0xA0))
            return WRONG(r, "%s:%d: a control character (%d)", AT(r), (unsigned char)*c);
    if (dt_utf8_bad(line, strlen(line)) < strlen(line))
        return WRONG(r, "%s:%d: no UTF-8 at byte %zu", AT(r), dt_utf8_bad(line, strlen(line)) + 1);
    line = trim(line);
    if (*line == '\0' || *line == '#')
        return DT_OK;
    for (size_t i = 0; i < DT_COUNT(lines); i++)
        if (strncmp(line, lines[i].word, strlen(lines[i].word)) == 0)
            return lines[i].read(r, line + strlen(lines[i].word));
    return WRONG(r, "%s:%d: a line begins with paper, let, row or #", AT(r));
}

static dt_status read_lines(reader *r, char *text)
{
    for (char *next; text != NULL; text = next) {
        r->line++;
        next = strchr(text, '\n');
        if (next != NULL)
            *next++ = '\0';
        DT_CHECK(read_line(r, text));
    }
    return r->to->n_row > 0 ? DT_OK : WRONG(r, "%s: holds no row", r->path);
}

dt_status dti_published_parse(
    dt_published *out, const char *text, size_t bytes, const char *path, dt_err *err)
{
    *out = (dt_published){0};
    if (memchr(text, '\0', bytes) != NULL)
        return DT_FAIL(err, DT_E_DATA, "%s: is no text", path);
    reader *r = dt_alloc(1, sizeof *r);
    char *own = dt_alloc(bytes + 1, 1);
    dt_status st = r != NULL && own != NULL
                       ? DT_OK
                       : DT_FAIL(err, DT_E_NOMEM, "%s: no memory for %zu bytes", path, bytes);
    if (st == DT_OK) {
        memcpy(own, text, bytes);
        r->to = out;
        r->path = path;
        r->err = err;
        st = read_lines(r, own);
    }
    dt_free(own);
    dt_free(r);
    return st;
}

dt_status dt_published_read(dt_published *out, const char *path, dt_err *err)
{
    char *text = NULL;
    size_t bytes = 0;
    *out = (dt_published){0};
    DT_CHECK(dt_read_file(&text, &bytes, path, FILE_BYTES, DT_E_DATA, err));
    const dt_status st = dti_published_parse(out, text, bytes, path, err);
    dt_free(text);
    return st;
}

void dt_published_deinit(dt_published *p)
{
    for (size_t i = 0; i < p->n_row; i++) {
        dt_published_row *r = &p->row[i];
        char *const own[] = {r->where, r->what, r->networks, r->own, r->base, r->note};
        for (size_t k = 0; k < DT_COUNT(own); k++)
            dt_free(own[k]);
    }
    for (size_t i = 0; i < p->n_paper; i++) {
        dt_free(p->paper[i].name);
        dt_free(p->paper[i].title);
        dt_free(p->paper[i].note);
    }
    dt_free(p->row);
    dt_free(p->paper);
    *p = (dt_published){0};
}
