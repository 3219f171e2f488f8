/* Sources from outside: include/dnntrain/source.h as descriptors of data/source.h. */
#include <dnntrain/source.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "data/source.h"
#include "engine/base/alloc.h"
#include "engine/config/outside.h"
#include "engine/sample_check.h"

_Static_assert((int)DT_NO_LABEL == (int)DT_LABEL_NONE, "what does not count");
_Static_assert((int)DT_LEARNS_VALUES == (int)DT_LABEL_VALUE, "values");
_Static_assert((int)DT_LEARNS_PROBABILITIES == (int)DT_LABEL_PROBABILITY, "values from 0 to 1");

typedef struct registered {
    dt_source_desc desc; /* first: what is opened is told this alone */
    dt_source_spec spec;
} registered;
static registered outside[DT_OUTSIDE_SOURCES];
static size_t n_outside;
static pthread_mutex_t registering = PTHREAD_MUTEX_INITIALIZER; /* of both */

typedef struct source {
    dt_source base;
    const dt_source_spec *spec;
    dt_samples asked;
    int64_t count;
} source;

static const dt_source_spec *spec_of(const dt_source_desc *d)
{
    return &((const registered *)d)->spec;
}

static dt_samples asked_of(const dt_source_opts *o)
{
    return (dt_samples){.h = o->shape.h,
        .w = o->shape.w,
        .c = o->shape.c,
        .classes = o->classes,
        .labels = o->labels > 0 ? o->labels : 1,
        .held_out = o->eval,
        .path = o->path,
        .learns = (dt_learned)o->label_kind};
}

/* Of a function of the source: what it gave. @notes: as there were before it; @what it was asked
 * for. All in one line where the host program has left out why. */
static dt_status told(const dt_source_spec *s, dt_status given, dt_status instead, int notes,
    const char *what, dt_err *err)
{
    char where[160];
    if (given == DT_OK)
        return DT_OK;
    snprintf(where, sizeof where, "data.source = %s: %s", s->name, what);
    const bool says = dt_err_notes(err) != notes;
    const dt_status st = dt_outside_status(given, instead, where, notes, err);
    return !says ? st : DT_FAIL(err, st, "%s", where);
}

static dt_status open_source(
    const dt_source_desc *d, dt_source **out, const dt_source_opts *o, dt_err *err)
{
    const dt_source_spec *s = spec_of(d);
    int64_t n = 0;
    const dt_samples asked = asked_of(o);
    const int notes = dt_err_notes(err);
    const dt_status st = s->count(s->self, &asked, &n, err);
    DT_CHECK(told(s, st, DT_E_CONFIG, notes, "asked how many samples it has, it refuses", err));
    if (n < 1 || n > DT_MOST_SAMPLES)
        return DT_FAIL(err, DT_E_DATA,
            "data.source = %s: it has %" PRId64 " samples%s; 1 to %" PRId64 " are taken", s->name,
            n, o->eval ? " to evaluate on" : "", DT_MOST_SAMPLES);
    source *to = dt_alloc(1, sizeof *to);
    if (to == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for source '%s'", s->name);
    *to = (source){.base = {d, *o}, .spec = s, .asked = asked, .count = n};
    *out = &to->base;
    return DT_OK;
}

static void close_source(dt_source *s)
{
    dt_free(s);
}

static int64_t count_source(const dt_source *s)
{
    return ((const source *)s)->count;
}

/* Also brings every NaN to the one that does not count. */
static dt_status check_values(const source *s, int64_t i, int32_t *label, dt_err *err)
{
    const dt_label_kind kind = s->base.opts.label_kind;
    for (int64_t k = 0; k < s->asked.labels; k++) {
        float v;
        memcpy(&v, &label[k], sizeof v); /* it was put there as one */
        if (!dt_is_value(kind, v))
            return DT_FAIL(err, DT_E_DATA,
                "data.source = %s: value %" PRId64 " of sample %" PRId64
                " is %g, but the loss takes %s, or NaN for what does not count",
                s->spec->name, k, i, (double)v,
                kind == DT_LABEL_PROBABILITY ? "values from 0 to 1" : "finite values");
        label[k] = dt_label_of_value(v);
    }
    return DT_OK;
}

static dt_status read_source(
    const dt_source *base, int64_t i, uint64_t key, float *x, int32_t *label, dt_err *err)
{
    (void)key; /* nothing is drawn */
    const source *s = (const source *)base;
    char what[64];
    snprintf(what, sizeof what, "sample %" PRId64, i);
    const int notes = dt_err_notes(err);
    const dt_status st = s->spec->read(s->spec->self, &s->asked, i, x, label, err);
    DT_CHECK(told(s->spec, st, DT_E_DATA, notes, what, err));
    if (base->opts.label_kind != DT_LABEL_CLASS)
        return check_values(s, i, label, err);
    for (int64_t k = 0; k < s->asked.labels; k++)
        if ((label[k] < 0 || label[k] >= s->asked.classes) && label[k] != DT_LABEL_NONE)
            return DT_FAIL(err, DT_E_DATA,
                "data.source = %s: label %" PRId64 " of sample %" PRId64 " is %" PRId32
                ", must be in [0, %" PRId64 ") or DT_NO_LABEL",
                s->spec->name, k, i, label[k], s->asked.classes);
    return DT_OK;
}

/* What cannot be counted is opened, which tells why. */
static bool has_eval(const dt_source_desc *d, const dt_source_opts *o)
{
    const dt_source_spec *s = spec_of(d);
    int64_t n = 0;
    const dt_samples asked = asked_of(o);
    return s->count(s->self, &asked, &n, NULL) != DT_OK || n > 0;
}

static void describe(const dt_source *s, char *text, size_t n)
{
    snprintf(text, n, "%" PRId64 " samples of the host program", ((const source *)s)->count);
}

/* The caller holds the lock. */
static dt_status add(const dt_source_spec *s, dt_err *err)
{
    const size_t n = n_outside;
    if (dt_source_find(s->name) != NULL)
        return DT_FAIL(err, DT_E_CONFIG, "source '%s': there is one of that name", s->name);
    if (n == DT_OUTSIDE_SOURCES)
        return DT_FAIL(err, DT_E_CONFIG, "source '%s': %d are registered already", s->name, (int)n);
    outside[n].spec = *s;
    outside[n].desc = (dt_source_desc){.name = s->name,
        .summary = s->summary,
        .path_optional = true,
        .gives_values = s->values,
        .open = open_source,
        .close = close_source,
        .count = count_source,
        .read = read_source,
        .has_eval = has_eval,
        .describe = describe};
    n_outside = n + 1;
    dti_source_add(&outside[n].desc);
    return DT_OK;
}

dt_status dt_register_source(const dt_source_spec *s, dt_err *err)
{
    if (s == NULL)
        return DT_FAIL(err, DT_E_CONFIG, "a source's dt_source_spec is NULL");
    DT_CHECK(dt_outside_check("source", s->name, NULL, 0, 0, err));
    if (s->summary == NULL || s->count == NULL || s->read == NULL)
        return DT_FAIL(
            err, DT_E_CONFIG, "source '%s': it needs a summary, count and read", s->name);
    pthread_mutex_lock(&registering);
    const dt_status st = add(s, err);
    pthread_mutex_unlock(&registering);
    return st;
}
