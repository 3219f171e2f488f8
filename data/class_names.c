/* What a network's classes are called, as text. */
#include "data/class_names.h"

#include <inttypes.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/text.h"

enum { MOST_BYTES = 1 << 28 };

static const char *name_of(const dt_source *s, int64_t label)
{
    return s->desc->class_name != NULL ? s->desc->class_name(s, (int32_t)label) : NULL;
}

bool dt_class_names_known(const dt_source *s)
{
    return name_of(s, 0) != NULL;
}

/* As it is written; "": no name. */
static const char *written_name(char to[DTI_CLASS_NAME_BYTES + 1], const dt_source *s, int64_t i)
{
    const char *name = name_of(s, i);
    size_t at = 0;
    while (name != NULL && *name != '\0') {
        const size_t n = dt_printable(name), bytes = n > 0 ? n : 1;
        if (at + bytes > DTI_CLASS_NAME_BYTES)
            break;
        memcpy(to + at, n > 0 ? name : "?", bytes);
        at += bytes;
        name += bytes;
    }
    to[at] = '\0';
    return to;
}

void dt_class_names_print(const dt_source *s, int64_t classes, FILE *f)
{
    char name[DTI_CLASS_NAME_BYTES + 1];
    for (int64_t i = 0; i < classes; i++)
        fprintf(f, "%s\n", written_name(name, s, i));
}

static const char *shown(const char *name)
{
    return name[0] != '\0' ? name : "(none)";
}

dt_status dt_class_names_check(const dt_class_names *n, const dt_source *s, dt_err *err)
{
    char now[DTI_CLASS_NAME_BYTES + 1];
    const char *told = s->desc == &dt_source_text
                           ? "the text has other bytes than the one it learned, so tokens would "
                             "mean others; take a text of the same bytes, or, where it has none "
                             "besides, set data.vocab to that classes.txt"
                           : "labels would mean other classes than those it learned; take data "
                             "that has these, or change the name there where only the name is "
                             "another now";
    if (!dt_class_names_known(s))
        return DT_OK;
    for (int64_t i = 0; i < n->n; i++)
        if (strcmp(written_name(now, s, i), n->name[i]) != 0)
            return DT_FAIL(err, DT_E_DATA,
                "class %" PRId64 " is called '%s' in the data, and '%s' in the run's classes.txt: "
                "%s",
                i, shown(now), shown(n->name[i]), told);
    return DT_OK;
}

static dt_status check_name(const char *path, int64_t line, const char *name, dt_err *err)
{
    const size_t bytes = strlen(name);
    if (bytes > DTI_CLASS_NAME_BYTES)
        return DT_FAIL(err, DT_E_DATA,
            "%s:%" PRId64 ": a class's name of %zu bytes; at most %d are read", path, line, bytes,
            DTI_CLASS_NAME_BYTES);
    for (const char *at = name; *at != '\0'; at += dt_printable(at))
        if (dt_printable(at) == 0)
            return DT_FAIL(err, DT_E_DATA,
                "%s:%" PRId64 ": byte %zu of a class's name, 0x%02X, is not printable UTF-8", path,
                line, (size_t)(at - name) + 1, (unsigned)(unsigned char)*at);
    return DT_OK;
}

/* Line after line; @text is cut into them. */
static dt_status take_lines(dt_class_names *to, const char *path, size_t bytes, dt_err *err)
{
    char *at = to->text, *end = to->text + bytes;
    for (int64_t i = 0; i < to->n; i++) {
        char *stop = memchr(at, '\n', (size_t)(end - at));
        if (stop == NULL)
            return DT_FAIL(err, DT_E_DATA,
                "%s:%" PRId64 ": no whole line, where the network has %" PRId64
                " classes and each has one",
                path, i + 1, to->n);
        const char *nul = memchr(at, '\0', (size_t)(stop - at));
        if (nul != NULL)
            return DT_FAIL(err, DT_E_DATA, "%s:%" PRId64 ": a NUL in a class's name", path, i + 1);
        *stop = '\0';
        if (stop > at && stop[-1] == '\r')
            stop[-1] = '\0';
        DT_CHECK(check_name(path, i + 1, at, err));
        to->name[i] = at;
        at = stop + 1;
    }
    return at == end ? DT_OK
                     : DT_FAIL(err, DT_E_DATA,
                           "%s:%" PRId64 ": a line more than the network has classes, %" PRId64,
                           path, to->n + 1, to->n);
}

dt_status dti_class_names_parse(dt_class_names *out, const char *path, const char *text,
    size_t bytes, int64_t classes, dt_err *err)
{
    *out = (dt_class_names){.text = dt_alloc(bytes + 1, 1),
        .name = dt_alloc((size_t)classes, sizeof *out->name),
        .n = classes};
    dt_status st = out->text != NULL && out->name != NULL
                       ? DT_OK
                       : DT_FAIL(err, DT_E_NOMEM, "no memory for the names of classes");
    if (st == DT_OK) {
        memcpy(out->text, text, bytes);
        st = take_lines(out, path, bytes, err);
    }
    if (st != DT_OK)
        dt_class_names_deinit(out);
    return st;
}

dt_status dt_class_names_read(
    dt_class_names *out, const char *path, int64_t classes, bool text, dt_err *err)
{
    char *lines;
    size_t bytes;
    *out = (dt_class_names){0};
    dt_status st = dt_read_file(&lines, &bytes, path, MOST_BYTES, DT_E_DATA, err);
    if (st == DT_OK) {
        st = dti_class_names_parse(out, path, lines, bytes, classes, err);
        dt_free(lines);
    }
    if (st == DT_E_DATA)
        (void)DT_FAIL(err, st, "%s",
            text ? "it says which bytes the tokens are: put the run's own back, and set "
                   "model.vocab as that run had it"
                 : "remove that file to have classes called by the folders of data.path, or by "
                   "numbers");
    return st;
}

void dt_class_names_deinit(dt_class_names *n)
{
    dt_free(n->text);
    dt_free(n->name);
    *n = (dt_class_names){0};
}

const char *dt_class_names_of(const dt_class_names *n, int32_t label)
{
    return label >= 0 && label < n->n && n->name[label][0] != '\0' ? n->name[label] : NULL;
}
