/* A file of text as sequences of characters. The vocabulary is the file's distinct bytes in rising
 * order, so token 0 is the smallest byte. The first nine tenths are for training, the rest is held
 * out: by position, so that no held-out sentence is seen in training. A file of its own to evaluate
 * on is taken whole, in the vocabulary of the one for training. A vocabulary that was learned
 * before, which a run has written down, may stand for both.
 *
 * A sample is context + 1 characters in a row: the first context of them are the input, and each
 * one's label is the character after it. Evaluation goes through its part in steps of context, each
 * character being predicted once. Training has as many samples as there are whole contexts, and
 * takes each from a place near its own that the key draws, so that after many epochs all
 * alignments have been seen. */
#include "data/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "data/class_names.h"
#include "data/escape.h"
#include "data/file.h"
#include "data/source.h"
#include "engine/base/alloc.h"

enum { HELD_OUT = 10 }; /* one part of so many */
static const size_t most_bytes = (size_t)1 << 32;

typedef struct text {
    dt_source base;
    uint8_t *bytes; /* the whole file */
    dt_vocabulary v;
    char name[256][DTI_BYTE_NAME]; /* of tokens */
    int64_t first, length;         /* of this split, in bytes */
    int64_t count;
} text;

void dt_vocabulary_of(dt_vocabulary *v, const uint8_t *bytes, size_t n)
{
    bool seen[256] = {false};
    memset(v, 0, sizeof *v);
    for (size_t i = 0; i < n; i++)
        seen[bytes[i]] = true;
    for (int b = 0; b < 256; b++)
        if (seen[b]) {
            v->token[b] = (int16_t)v->n;
            v->byte[v->n++] = (uint8_t)b;
        } else {
            v->token[b] = -1;
        }
}

void dti_byte_name(char to[DTI_BYTE_NAME], uint8_t byte)
{
    if (byte > ' ' && byte < 0x7F && byte != '\\')
        snprintf(to, DTI_BYTE_NAME, "%c", byte);
    else
        snprintf(to, DTI_BYTE_NAME, "\\x%02X", byte);
}

/* As rising bytes have rising names but for those that are escaped, all 256 are looked through. */
static int byte_named(const char *name)
{
    char is[DTI_BYTE_NAME];
    for (int b = 0; b < 256; b++) {
        dti_byte_name(is, (uint8_t)b);
        if (strcmp(is, name) == 0)
            return b;
    }
    return -1;
}

dt_status dt_vocabulary_named(dt_vocabulary *v, const char *const *name, int64_t n, dt_err *err)
{
    memset(v, 0, sizeof *v);
    for (int b = 0; b < 256; b++)
        v->token[b] = -1;
    for (int64_t i = 0, last = -1; i < n && name[i][0] != '\0'; i++) {
        const int b = byte_named(name[i]);
        if (b <= last)
            return DT_FAIL(err, DT_E_DATA,
                "'%s', the name of class %" PRId64 ", is no byte of a text behind those before it",
                name[i], i);
        v->token[b] = (int16_t)v->n;
        v->byte[v->n++] = (uint8_t)b;
        last = b;
    }
    return DT_OK;
}

/* Counts the lines, none of which is longer than a token's: a file that is no such list is told as
 * one, and not by what its lines are not as classes. */
static dt_status count_tokens(
    int64_t *n, const char *name, const char *lines, size_t bytes, dt_err *err)
{
    const char *at = lines, *end = lines + bytes;
    for (*n = 0; at < end; ++*n) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((stop != NULL ? stop : end) - at);
        length -= stop != NULL && length > 0 && at[length - 1] == '\r'; /* as names are read */
        if (length >= DTI_BYTE_NAME)
            return DT_FAIL(err, DT_E_DATA,
                "%s:%" PRId64 ": a line of %zu bytes, and one that names a byte has at most %d: "
                "this is no vocabulary",
                name, *n + 1, length, DTI_BYTE_NAME - 1);
        if (stop == NULL)
            return DT_FAIL(err, DT_E_DATA,
                "%s:%" PRId64 ": this last line of the vocabulary does not end; put a newline "
                "behind it",
                name, *n + 1);
        at = stop + 1;
    }
    return DT_OK;
}

static dt_status take_vocabulary(
    dt_vocabulary *v, const char *name, const char *lines, size_t bytes, dt_err *err)
{
    dt_class_names names;
    int64_t n;
    DT_CHECK(count_tokens(&n, name, lines, bytes, err));
    DT_CHECK(dti_class_names_parse(&names, name, lines, bytes, n, err));
    const dt_status st = dt_vocabulary_named(v, names.name, names.n, err);
    dt_class_names_deinit(&names);
    DT_TRY(err, st, "%s", name);
    return v->n > 0 ? DT_OK : DT_FAIL(err, DT_E_DATA, "%s: names no byte", name);
}

dt_status dt_vocabulary_read(dt_vocabulary *v, const char *path, dt_err *err)
{
    const dti_escaped name = dti_escape(path);
    uint8_t *lines = NULL;
    size_t bytes = 0;
    dt_status st = dti_slurp(&lines, &bytes, path, most_bytes, NULL, err);
    if (st == DT_OK)
        st = take_vocabulary(v, name.text, (const char *)lines, bytes, err);
    dt_free(lines);
    if (st == DT_E_DATA)
        (void)DT_FAIL(err, st, "data.vocab takes the classes.txt of a run that learned a text");
    return st;
}

/* Cut to this split, and count its samples. */
static dt_status choose_split(text *t, int64_t n, const char *name, dt_err *err)
{
    const dt_source_opts *o = &t->base.opts;
    const int64_t context = o->shape.h, held = o->train_path != NULL ? n : n / HELD_OUT;
    t->first = o->eval ? n - held : 0;
    t->length = o->eval ? held : n - held;
    t->count = (t->length - 1) / context;
    if (t->count >= 1)
        return DT_OK;
    return DT_FAIL(err, DT_E_DATA,
        "%s: %" PRId64 " bytes leave %" PRId64 " %s, and a sample takes %" PRId64
        "; take a longer file%s",
        name, n, t->length, o->eval ? "to evaluate on" : "to train on", context + 1,
        t->length > 1 ? " or a smaller model.context" : "");
}

static dt_status check_vocabulary(const text *t, const char *name, dt_err *err)
{
    if (t->v.n > t->base.opts.classes)
        return DT_FAIL(err, DT_E_DATA,
            "%s: has %d different bytes, and the network a vocabulary of %" PRId64
            "; set model.vocab = %d or more",
            name, t->v.n, t->base.opts.classes, t->v.n);
    return DT_OK;
}

/* Every byte of a file must be a token, where it is another one that says what those are. */
static dt_status check_bytes(
    const text *t, size_t n, const char *name, const char *from, const char *remedy, dt_err *err)
{
    int64_t line = 1;
    for (size_t i = 0; i < n; i++) {
        const uint8_t b = t->bytes[i];
        if (t->v.token[b] < 0)
            return DT_FAIL(err, DT_E_DATA,
                "%s: line %" PRId64 ", offset %zu: byte 0x%02X does not occur in %s, whose bytes "
                "are the vocabulary; remove it here, or %s",
                name, line, i, (unsigned)b, from, remedy);
        line += b == '\n';
    }
    return DT_OK;
}

/* The vocabulary of the file for training, for another one to evaluate on. */
static dt_status borrow_vocabulary(text *t, size_t n, const char *name, dt_err *err)
{
    const char *path = t->base.opts.train_path;
    const dti_escaped train_name = dti_escape(path);
    uint8_t *bytes;
    size_t n_train;
    DT_CHECK(dti_slurp(&bytes, &n_train, path, most_bytes, NULL, err));
    dt_vocabulary_of(&t->v, bytes, n_train);
    dt_free(bytes);
    DT_CHECK(check_vocabulary(t, train_name.text, err));
    return check_bytes(t, n, name, train_name.text, "put it into that file and train on it", err);
}

/* That of a run. */
static dt_status go_on_with_vocabulary(text *t, size_t n, const char *name, dt_err *err)
{
    const char *path = t->base.opts.vocab;
    const dti_escaped from = dti_escape(path);
    DT_CHECK(dt_vocabulary_read(&t->v, path, err));
    DT_CHECK(check_vocabulary(t, from.text, err));
    return check_bytes(
        t, n, name, from.text, "leave out data.vocab and learn without that run's weights", err);
}

static dt_status load(text *t, dt_err *err)
{
    const dt_source_opts *o = &t->base.opts;
    const dti_escaped name = dti_escape(o->path);
    size_t n;
    DT_CHECK(dti_slurp(&t->bytes, &n, o->path, most_bytes, NULL, err));
    if (o->vocab != NULL) {
        DT_CHECK(go_on_with_vocabulary(t, n, name.text, err));
    } else if (o->train_path != NULL) {
        DT_CHECK(borrow_vocabulary(t, n, name.text, err));
    } else {
        dt_vocabulary_of(&t->v, t->bytes, n);
        DT_CHECK(check_vocabulary(t, name.text, err));
    }
    for (int i = 0; i < t->v.n; i++)
        dti_byte_name(t->name[i], t->v.byte[i]);
    return choose_split(t, (int64_t)n, name.text, err);
}

static void close_text(dt_source *base)
{
    text *t = (text *)base;
    if (t == NULL)
        return;
    dt_free(t->bytes);
    dt_free(t);
}

static dt_status open_text(
    const dt_source_desc *d, dt_source **out, const dt_source_opts *o, dt_err *err)
{
    DT_CHECK(dt_source_check_sequence(o, err));
    DT_CHECK(dti_source_check_path(o, "text", "FILE", err));
    if (o->train_path != NULL && *o->train_path == '\0' && o->vocab == NULL)
        return DT_FAIL(err, DT_E_CONFIG,
            "data.path is missing: text takes its vocabulary from the file for training; set "
            "data.path = FILE");
    text *t = dt_alloc(1, sizeof *t);
    if (t == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the text source");
    t->base = (dt_source){.desc = d, .opts = *o};
    const dt_status st = load(t, err);
    if (st != DT_OK) {
        close_text(&t->base);
        return st;
    }
    *out = &t->base;
    return DT_OK;
}

static int64_t count_text(const dt_source *base)
{
    return ((const text *)base)->count;
}

/* Where sample i begins. */
static int64_t place(const text *t, int64_t i, uint64_t key)
{
    const int64_t context = t->base.opts.shape.h, last = t->length - context - 1;
    if (t->base.opts.eval)
        return t->first + i * context;
    const int64_t at = i * context + (int64_t)(key % (uint64_t)context);
    return t->first + (at < last ? at : last);
}

static dt_status read_text(
    const dt_source *base, int64_t i, uint64_t key, float *x, int32_t *label, dt_err *err)
{
    (void)err;
    const text *t = (const text *)base;
    const uint8_t *p = t->bytes + place(t, i, key);
    for (int64_t k = 0; k < base->opts.shape.h; k++) {
        x[k] = (float)t->v.token[p[k]];
        label[k] = t->v.token[p[k + 1]];
    }
    return DT_OK;
}

static bool always(const dt_source_desc *d, const dt_source_opts *o)
{
    (void)d, (void)o;
    return true;
}

static const char *class_of_text(const dt_source *base, int32_t label)
{
    const text *t = (const text *)base;
    return label >= 0 && label < t->v.n ? t->name[label] : NULL;
}

static void describe_text(const dt_source *base, char *to, size_t n)
{
    const text *t = (const text *)base;
    snprintf(to, n, "%" PRId64 " characters %s %d%s, %" PRId64 " sequences of %" PRId64, t->length,
        base->opts.vocab != NULL ? "in a vocabulary of" : "of", t->v.n,
        base->opts.vocab != NULL ? "" : " kinds", t->count, base->opts.shape.h);
}

const dt_source_desc dt_source_text = {
    .name = "text",
    .summary = "a file of characters; the last tenth is held out",
    .fetched = "tinyshakespeare",
    .open = open_text,
    .close = close_text,
    .count = count_text,
    .read = read_text,
    .has_eval = always,
    .class_name = class_of_text,
    .describe = describe_text,
};
