/* The sources by name, ours and then those from outside, and the checks of options that several of
 * them share. */
#include "data/source.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#define DT_SOURCE(name) &dt_source_##name,
static const dt_source_desc *sources[DT_SOURCES] = {
#include "data/sources.def"
};
#undef DT_SOURCE
static atomic_size_t n_sources =
    DT_OUR_SOURCES; /* an entry is there before it is counted, and stays */

const dt_source_desc *const *dt_source_all(size_t *n)
{
    *n = n_sources;
    return sources;
}

void dti_source_add(const dt_source_desc *d)
{
    const size_t n = n_sources;
    DT_ASSERT(n < DT_COUNT(sources));
    sources[n] = d;
    n_sources = n + 1;
}

const dt_source_desc *dt_source_find(const char *name)
{
    const size_t n = n_sources;
    for (size_t i = 0; i < n; i++)
        if (strcmp(sources[i]->name, name) == 0)
            return sources[i];
    return NULL;
}

const dt_source_desc *dt_source_meant(const dt_source_desc *but, const char *path)
{
    for (size_t i = 0; path != NULL && i < DT_OUR_SOURCES; i++)
        if (sources[i] != but && sources[i]->looks != NULL && sources[i]->looks(path))
            return sources[i];
    return NULL;
}

const char *const *dt_source_names(const char *to[DT_SOURCES + 1])
{
    const size_t n = n_sources;
    for (size_t i = 0; i < n; i++)
        to[i] = sources[i]->name;
    to[n] = NULL;
    return to;
}

dt_status dti_source_check_classes(const dt_source_opts *o, dt_err *err)
{
    if (o->classes < 1 || o->classes > INT32_MAX)
        return DT_FAIL(
            err, DT_E_CONFIG, "%" PRId64 " classes: there must be at least one", o->classes);
    return DT_OK;
}

dt_status dt_source_check_sequence(const dt_source_opts *o, dt_err *err)
{
    const dt_shape *s = &o->shape;
    if (s->n != 1 || s->h < 1 || s->w != 1 || s->c != 1 || s->h > INT32_MAX || o->labels != s->h ||
        o->label_kind != DT_LABEL_CLASS)
        return DT_FAIL(err, DT_E_CONFIG,
            "the network takes %" PRId64 "x%" PRId64 "x%" PRId64 " values and %" PRId64
            " label%s a sample, no sequence of tokens with a label each: set data.source = %s, or "
            "use "
            "a model such as gpt2",
            s->h, s->w, s->c, o->labels > 0 ? o->labels : 1, o->labels > 1 ? "s" : "",
            o->labels > 1 || o->tokens ? "tensors" : "images");
    return dti_source_check_classes(o, err);
}

dt_status dti_source_check_path(
    const dt_source_opts *o, const char *source, const char *what, dt_err *err)
{
    if (o->path == NULL || *o->path == '\0')
        return DT_FAIL(err, DT_E_CONFIG,
            "data.path is missing: data.source = %s reads files; set data.path = %s", source, what);
    return DT_OK;
}

static dt_status check_picture(const dt_source_opts *o, dt_err *err)
{
    const dt_shape *s = &o->shape;
    size_t bytes;
    if (s->n != 1 || s->h < 1 || s->w < 1 || s->c < 1 || s->h > DTI_SOURCE_SIDE ||
        s->w > DTI_SOURCE_SIDE || !dt_shape_bytes(s, &bytes))
        return DT_FAIL(err, DT_E_CONFIG,
            "image %" PRId64 "x%" PRId64 " of %" PRId64 " channels: sides must be 1 to %d", s->h,
            s->w, s->c, DTI_SOURCE_SIDE);
    DT_CHECK(dti_source_check_classes(o, err));
    for (int64_t c = 0; c < s->c; c++) {
        if (o->mean != NULL && !isfinite(o->mean[c]))
            return DT_FAIL(err, DT_E_CONFIG, "data.mean of channel %" PRId64 " is not finite", c);
        if (o->std != NULL && !(o->std[c] > 0 && isfinite(o->std[c])))
            return DT_FAIL(err, DT_E_CONFIG, "data.std of channel %" PRId64 " must be above 0", c);
    }
    return DT_OK;
}

dt_status dti_source_check_scale(const dt_source_opts *o, dt_err *err)
{
    const struct {
        const char *key;
        const float *value;
    } given[] = {{"mean", o->mean}, {"std", o->std}};
    for (size_t i = 0; i < DT_COUNT(given); i++)
        for (int64_t c = 0; c < o->shape.c && given[i].value != NULL; c++)
            if ((double)given[i].value[c] > 1)
                return DT_FAIL(err, DT_E_CONFIG,
                    "data.%s = %g: pixels are scaled to 0..1 before it, so it is at most 1; if it "
                    "is "
                    "of bytes, 0 to 255, divide by 255: %.3g",
                    given[i].key, (double)given[i].value[c], (double)given[i].value[c] / 255);
    return DT_OK;
}

bool dti_source_of_pixels(const dt_source_opts *o)
{
    const dt_shape *s = &o->shape;
    return o->label_kind == DT_LABEL_CLASS && o->labels > 1 && !o->tokens &&
           s->h <= DTI_SOURCE_SIDE && s->w <= DTI_SOURCE_SIDE && o->labels == s->h * s->w;
}

dt_status dti_source_check(const dt_source_opts *o, dt_err *err)
{
    if (dti_source_of_pixels(o))
        return DT_FAIL(err, DT_E_CONFIG,
            "the network takes a label for each of %" PRId64 "x%" PRId64
            " pixels, and these pictures have one each; use data.source = tensors or synthetic",
            o->shape.h, o->shape.w);
    if (o->labels > 1 && o->label_kind == DT_LABEL_CLASS)
        return DT_FAIL(err, DT_E_CONFIG,
            "the network takes %" PRId64 " labels a sample, and a picture has one%s", o->labels,
            o->tokens ? "; use data.source = text or tensors" : "");
    return check_picture(o, err);
}

dt_status dti_source_check_pixels(const dt_source_opts *o, dt_err *err)
{
    return dti_source_of_pixels(o) ? check_picture(o, err) : dti_source_check(o, err);
}
