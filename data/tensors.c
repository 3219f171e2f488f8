/* Samples from a safetensors file: x [N, C, H, W] F32 and y [N] I64, in PyTorch's layouts; for a
 * network that labels pixels y [N, H, W] I64. Without height and width x may be [N, C]. Of tokens x
 * is [N, T] I64, and y, where each has a label, likewise. A loss of values takes y [N, C, H, W] of
 * any type, or [N, C] or [N] where the network's output has no height and width, or is one number.
 * A label may be the one that does not count, and of values NaN.
 *
 * With a dimension more, [steps, N, ...], they are ready batches: step i trains on x[i], in the
 * order of the file. Values are taken as they are. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "data/escape.h"
#include "data/source.h"
#include "data/st_values.h"
#include "engine/base/alloc.h"
#include "engine/sample_check.h"

typedef struct tensors {
    dt_source base;
    dt_st_file *file;
    const dt_st_entry *x, *y; /* y NULL: nobody reads labels */
    bool ids;                 /* x holds tokens, and not values */
    int lead;                 /* dimensions before those of a sample: [N], or [steps, N] */
    int64_t count, each;
    int64_t left_out; /* labels that do not count */
    int64_t bare;     /* the first step, or sample, of which none counts; -1: there is none */
} tensors;

enum { BATCHES = 2 }; /* the lead of ready ones */

typedef struct want_text {
    char s[200];
} want_text;

/* A shape with and without steps: "[N, 3, 4] or [steps, N, 3, 4]", or of a file whose x tells
 * which, that one. @of: the dimensions of a sample, each behind a comma */
static want_text wanted(int lead, const char *of)
{
    want_text t;
    if (lead == 0)
        snprintf(t.s, sizeof t.s, "[N%s] or [steps, N%s]", of, of);
    else
        snprintf(t.s, sizeof t.s, lead == BATCHES ? "[steps, N%s]" : "[N%s]", of);
    return t;
}

/* A network of tokens may ask for several labels in a row, mostly one for each. */
static bool labels_tokens(const dt_source_opts *o)
{
    return o->label_kind == DT_LABEL_CLASS && o->labels > 1 && o->tokens;
}

/* Where no layer reads tokens as such they may be values as well, of one channel. */
static bool has_ids(const tensors *t)
{
    const dt_st_entry *x = dt_st_find(t->file, "x");
    return t->base.opts.tokens && (x == NULL || x->type != DT_ST_F32 || x->rank < 4);
}

static dt_status find(const dt_st_entry **out, const dt_st_file *f, const char *path,
    const char *name, dt_st_type type, dt_err *err)
{
    const dt_st_entry *e = dt_st_find(f, name);
    if (e == NULL)
        return DT_FAIL(err, DT_E_DATA, "%s: has no tensor '%s'", path, name);
    if (e->type != type)
        return DT_FAIL(err, DT_E_DATA, "%s: '%s' is %s %s, must be %s", path, name,
            dt_st_type_name(e->type), dt_dims_print(e->rank, e->d).s, dt_st_type_name(type));
    *out = e;
    return DT_OK;
}

/* What x is of, behind N. Values of one pixel may be a vector. */
static dt_status find_x(tensors *t, const char *path, dt_err *err)
{
    const dt_shape *s = &t->base.opts.shape;
    char of[80];
    DT_CHECK(find(&t->x, t->file, path, "x", t->ids ? DT_ST_I64 : DT_ST_F32, err));
    const dt_st_entry *x = t->x;
    const bool vector = !t->ids && s->h * s->w == 1 && x->rank < 4;
    const int64_t own[] = {t->ids ? s->h : s->c, s->h, s->w};
    const int n = t->ids || vector ? 1 : 3;
    t->lead = x->rank - n;
    bool fits = t->lead == 1 || t->lead == BATCHES;
    for (int k = 0; fits && k < n; k++)
        fits = x->d[t->lead + k] == own[k];
    if (fits)
        return DT_OK;
    if (n == 1)
        snprintf(of, sizeof of, ", %" PRId64, own[0]);
    else
        snprintf(of, sizeof of, ", %" PRId64 ", %" PRId64 ", %" PRId64, s->c, s->h, s->w);
    return DT_FAIL(err, DT_E_DATA, "%s: x is %s, the network takes %s", path,
        dt_dims_print(x->rank, x->d).s, wanted(0, of).s);
}

/* Whether the dimensions behind the lead are those of the values a sample is to have, with or
 * without sides of 1. */
static bool has_values(const dt_st_entry *y, int lead, const dt_shape *v)
{
    const int64_t *d = y->d + lead;
    if (y->rank == lead + 3)
        return d[0] == v->c && d[1] == v->h && d[2] == v->w;
    return v->h * v->w == 1 && (y->rank == lead + 1 ? d[0] == v->c : y->rank == lead && v->c == 1);
}

static dt_status find_values(tensors *t, const char *path, dt_err *err)
{
    const dt_shape *v = &t->base.opts.values;
    char of[80], vector[210] = "";
    t->y = dt_st_find(t->file, "y");
    if (t->y == NULL)
        return DT_FAIL(err, DT_E_DATA, "%s: has no tensor 'y'", path);
    if (has_values(t->y, t->lead, v))
        return DT_OK;
    snprintf(of, sizeof of, ", %" PRId64, v->c);
    if (v->h * v->w == 1)
        snprintf(vector, sizeof vector, "%s or ", wanted(t->lead, of).s);
    snprintf(of, sizeof of, ", %" PRId64 ", %" PRId64 ", %" PRId64, v->c, v->h, v->w);
    return DT_FAIL(err, DT_E_DATA,
        "%s: y is %s, the loss takes a value for each that the network gives, %s%s", path,
        dt_dims_print(t->y->rank, t->y->d).s, vector, wanted(t->lead, of).s);
}

/* A label a sample, a token or a pixel. */
static dt_status find_classes(tensors *t, const char *path, dt_err *err)
{
    const dt_source_opts *o = &t->base.opts;
    const bool pixels = dti_source_of_pixels(o);
    const int n = labels_tokens(o) ? 1 : pixels ? 2 : 0;
    const int64_t own[] = {pixels ? o->shape.h : o->labels, o->shape.w};
    char of[80] = "";
    DT_CHECK(find(&t->y, t->file, path, "y", DT_ST_I64, err));
    bool fits = t->y->rank == t->lead + n;
    for (int k = 0; k < n; k++) {
        fits = fits && t->y->d[t->lead + k] == own[k];
        snprintf(of + strlen(of), sizeof of - strlen(of), ", %" PRId64, own[k]);
    }
    if (fits)
        return DT_OK;
    return DT_FAIL(err, DT_E_DATA, "%s: y is %s, the network takes %s%s", path,
        dt_dims_print(t->y->rank, t->y->d).s, pixels ? "a label a pixel, " : "",
        wanted(t->lead, of).s);
}

static dt_status check_counts(const tensors *t, const char *path, dt_err *err)
{
    const dt_st_entry *x = t->x, *y = t->y;
    const int64_t batch = t->base.opts.batch;
    bool same = true;
    for (int k = 0; k < t->lead; k++) {
        same = same && (y == NULL || y->d[k] == x->d[k]);
        if (x->d[k] < 1)
            return DT_FAIL(err, DT_E_DATA, "%s: x is %s, which holds no sample", path,
                dt_dims_print(x->rank, x->d).s);
    }
    if (!same)
        return DT_FAIL(err, DT_E_DATA, "%s: x is %s and y is %s: %ssamples must agree", path,
            dt_dims_print(x->rank, x->d).s, dt_dims_print(y->rank, y->d).s,
            t->lead == BATCHES ? "steps and " : "");
    if (t->lead == BATCHES && x->d[1] != batch)
        return DT_FAIL(err, DT_E_DATA,
            "%s: x has %" PRId64 " samples a step, train.batch is %" PRId64
            ": set train.batch = %" PRId64 ", or write x and y without the dimension of steps",
            path, x->d[1], batch, x->d[1]);
    return DT_OK;
}

/* Where the i-th element of a tensor is: "[2][7][0]". */
static dt_dims_text place_in(const dt_st_entry *e, int64_t i)
{
    dt_dims_text p;
    int64_t at[DT_ST_RANK];
    size_t n = 0;
    for (int k = e->rank; k-- > 0; i /= e->d[k])
        at[k] = i % e->d[k];
    for (int k = 0; k < e->rank; k++)
        n += (size_t)snprintf(p.s + n, sizeof p.s - n, "[%" PRId64 "]", at[k]);
    return p;
}

static bool has_values_for_labels(const tensors *t)
{
    return t->base.opts.label_kind != DT_LABEL_CLASS;
}

/* Labels [at, at + n) of the file, n at most DTI_ST_SOME, that are values. */
static dt_status some_values(const tensors *t, int64_t at, int64_t n, int32_t *to, dt_err *err)
{
    float some[DTI_ST_SOME];
    const dt_label_kind kind = t->base.opts.label_kind;
    DT_CHECK(dti_st_values(t->file, t->y, at, n, some, err));
    for (int64_t k = 0; k < n; k++) {
        if (!dt_is_value(kind, some[k]))
            return DT_FAIL(err, DT_E_DATA, "%s: y%s is %g, but the loss takes %s",
                dti_escape(t->base.opts.path).text, place_in(t->y, at + k).s, (double)some[k],
                kind == DT_LABEL_PROBABILITY ? "values from 0 to 1" : "finite values");
        to[k] = dt_label_of_value(some[k]);
    }
    return DT_OK;
}

/* Likewise, that are classes. */
static dt_status some_classes(const tensors *t, int64_t at, int64_t n, int32_t *to, dt_err *err)
{
    int64_t some[DTI_ST_SOME];
    const int64_t classes = t->base.opts.classes, ignored = t->base.opts.ignore_label;
    DT_CHECK(dt_st_read(
        t->file, t->y, (uint64_t)at * sizeof *some, some, (size_t)n * sizeof *some, err));
    for (int64_t k = 0; k < n; k++) {
        const bool counts = some[k] != ignored;
        if (counts && (some[k] < 0 || some[k] >= classes))
            return DT_FAIL(err, DT_E_DATA,
                "%s: y%s is %" PRId64 ", must be in [0, %" PRId64
                ") or data.ignore_label, %" PRId64,
                dti_escape(t->base.opts.path).text, place_in(t->y, at + k).s, some[k], classes,
                ignored);
        to[k] = counts ? (int32_t)some[k] : DT_LABEL_NONE;
    }
    return DT_OK;
}

static dt_status some_labels(const tensors *t, int64_t at, int64_t end, int32_t *to, dt_err *err)
{
    const int64_t n = end - at < DTI_ST_SOME ? end - at : DTI_ST_SOME;
    return has_values_for_labels(t) ? some_values(t, at, n, to, err)
                                    : some_classes(t, at, n, to, err);
}

typedef struct ignored_text {
    char s[64];
} ignored_text;

/* What y holds where it does not count. */
static ignored_text ignored_in(const tensors *t)
{
    ignored_text text = {"NaN"};
    if (!has_values_for_labels(t))
        snprintf(text.s, sizeof text.s, "data.ignore_label, %" PRId64, t->base.opts.ignore_label);
    return text;
}

/* Samples of which one has to count at least: those of a step, and where a step may be of any,
 * each.
 */
static int64_t at_once(const tensors *t)
{
    return t->lead == BATCHES ? t->x->d[1] : 1;
}

/* Labels stay in the file; what is wrong with one is told before a run begins all the same. */
static dt_status check_labels(tensors *t, const char *path, dt_err *err)
{
    int32_t some[DTI_ST_SOME];
    const int64_t count = t->count * t->each, of_one = at_once(t) * t->each;
    int64_t counted = 0;
    for (int64_t i = 0; i < count; i++) {
        if (i % DTI_ST_SOME == 0)
            DT_CHECK(some_labels(t, i, count, some, err));
        const bool counts = some[i % DTI_ST_SOME] != DT_LABEL_NONE;
        counted += counts;
        t->left_out += !counts;
        if ((i + 1) % of_one != 0)
            continue;
        if (counted == 0 && t->bare < 0)
            t->bare = i / of_one;
        counted = 0;
    }
    if (t->left_out < count)
        return DT_OK;
    return DT_FAIL(
        err, DT_E_DATA, "%s: each value of y is %s, and none counts", path, ignored_in(t).s);
}

/* A step of which nothing counts has no mean loss; an evaluation takes all together. */
static dt_status check_learned(const dt_source *base, int64_t n, dt_err *err)
{
    const tensors *t = (const tensors *)base;
    const bool steps = t->lead == BATCHES;
    if (t->bare < 0 || (steps && t->bare * at_once(t) >= n))
        return DT_OK;
    return DT_FAIL(err, DT_E_DATA,
        "%s: each value of y[%" PRId64 "] is %s, so nothing of that %s counts; leave it out of x "
        "and y",
        dti_escape(base->opts.path).text, t->bare, ignored_in(t).s, steps ? "step" : "sample");
}

/* Tokens likewise, as places in a table. */
static dt_status check_tokens(const tensors *t, const char *path, dt_err *err)
{
    int64_t some[DTI_ST_SOME];
    const int64_t known = t->base.opts.vocabulary, count = t->count * t->base.opts.shape.h;
    for (int64_t i = 0; i < count && known > 0; i++) {
        const int64_t left = count - i, k = i % DTI_ST_SOME;
        if (k == 0)
            DT_CHECK(dt_st_read(t->file, t->x, (uint64_t)i * sizeof *some, some,
                (size_t)(left < DTI_ST_SOME ? left : DTI_ST_SOME) * sizeof *some, err));
        if (some[k] < 0 || some[k] >= known)
            return DT_FAIL(err, DT_E_DATA,
                "%s: x%s is %" PRId64 ", must be in [0, %" PRId64 "): the network knows so many "
                "tokens",
                path, place_in(t->x, i).s, some[k], known);
    }
    return DT_OK;
}

static void close_tensors(dt_source *base)
{
    tensors *t = (tensors *)base;
    if (t == NULL)
        return;
    dt_st_close(t->file);
    dt_free(t);
}

static dt_status load(tensors *t, dt_err *err)
{
    const dt_source_opts *o = &t->base.opts;
    const dti_escaped name = dti_escape(o->path);
    DT_CHECK(dt_st_open(&t->file, o->path, err));
    t->ids = has_ids(t);
    DT_CHECK(find_x(t, name.text, err));
    if (has_values_for_labels(t))
        DT_CHECK(find_values(t, name.text, err));
    else if (!o->unlabelled)
        DT_CHECK(find_classes(t, name.text, err));
    DT_CHECK(check_counts(t, name.text, err));
    t->base.fixed_order = t->lead == BATCHES;
    t->count = t->x->d[0] * at_once(t); /* x lies in the file, so its size fits */
    t->each = o->labels > 1 ? o->labels : 1;
    if (t->ids)
        DT_CHECK(check_tokens(t, name.text, err));
    return t->y != NULL ? check_labels(t, name.text, err) : DT_OK;
}

static dt_status open_tensors(
    const dt_source_desc *d, dt_source **out, const dt_source_opts *o, dt_err *err)
{
    DT_CHECK(o->tokens ? dti_source_check_classes(o, err) : dti_source_check_pixels(o, err));
    DT_CHECK(dti_source_check_path(o, "tensors", "FILE.safetensors", err));
    tensors *t = dt_alloc(1, sizeof *t);
    if (t == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the tensors source");
    t->base = (dt_source){.desc = d, .opts = *o};
    t->bare = -1;
    const dt_status st = load(t, err);
    if (st != DT_OK) {
        close_tensors(&t->base);
        return st;
    }
    *out = &t->base;
    return DT_OK;
}

static int64_t count_tensors(const dt_source *base)
{
    return ((const tensors *)base)->count;
}

/* Ids are whole numbers; those that a float cannot hold are far beyond any vocabulary. */
static dt_status read_tokens(const tensors *t, int64_t i, float *x, dt_err *err)
{
    const size_t n = (size_t)t->base.opts.shape.h;
    int64_t *wide = dt_alloc(n, sizeof *wide);
    if (wide == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a sample");
    const size_t bytes = n * sizeof *wide;
    const dt_status st = dt_st_read(t->file, t->x, (uint64_t)i * bytes, wide, bytes, err);
    for (size_t k = 0; st == DT_OK && k < n; k++)
        x[k] = (float)wide[k];
    dt_free(wide);
    return st;
}

/* To our layout, from PyTorch's. */
static dt_status read_picture(const tensors *t, int64_t i, float *x, dt_err *err)
{
    const dt_shape *s = &t->base.opts.shape;
    const int64_t n = dt_shape_sample(s), plane = s->h * s->w;
    float *chw = dt_alloc((size_t)n, sizeof *chw);
    if (chw == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a sample");
    const uint64_t bytes = (uint64_t)n * sizeof *chw;
    const dt_status st = dt_st_read(t->file, t->x, (uint64_t)i * bytes, chw, bytes, err);
    for (int64_t p = 0; st == DT_OK && p < plane; p++)
        for (int64_t c = 0; c < s->c; c++)
            x[p * s->c + c] = chw[c * plane + p];
    dt_free(chw);
    return st;
}

/* Values to our layout, from PyTorch's; classes stay as they are. */
static dt_status read_labels(const tensors *t, int64_t i, int32_t *label, dt_err *err)
{
    int32_t some[DTI_ST_SOME];
    const dt_shape *v = &t->base.opts.values;
    const bool values = has_values_for_labels(t);
    const int64_t plane = values ? v->h * v->w : t->each, c = values ? v->c : 1;
    for (int64_t k = 0; k < t->each; k++) {
        if (k % DTI_ST_SOME == 0)
            DT_CHECK(some_labels(t, i * t->each + k, (i + 1) * t->each, some, err));
        label[k % plane * c + k / plane] = some[k % DTI_ST_SOME];
    }
    return DT_OK;
}

static dt_status read_tensors(
    const dt_source *base, int64_t i, uint64_t key, float *x, int32_t *label, dt_err *err)
{
    (void)key;
    const tensors *t = (const tensors *)base;
    DT_CHECK(t->ids ? read_tokens(t, i, x, err) : read_picture(t, i, x, err));
    if (t->y != NULL)
        return read_labels(t, i, label, err);
    *label = 0;
    return DT_OK;
}

static void describe_tensors(const dt_source *base, char *text, size_t n)
{
    const tensors *t = (const tensors *)base;
    const int64_t first = t->x->d[0], each = at_once(t);
    const char *plural = first == 1 ? "" : "s";
    const int at = t->lead == BATCHES
                       ? snprintf(text, n, "%" PRId64 " step%s of %" PRId64 " sample%s, in order",
                             first, plural, each, each == 1 ? "" : "s")
                       : snprintf(text, n, "%" PRId64 " sample%s", first, plural);
    if (t->left_out > 0 && has_values_for_labels(t) && (size_t)at < n)
        snprintf(text + at, n - (size_t)at,
            "; of %" PRId64 " values of y %" PRId64 " are NaN and do not count", t->count * t->each,
            t->left_out);
}

const dt_source_desc dt_source_tensors = {
    .name = "tensors",
    .summary =
        "samples from a safetensors file: x [N, C, H, W] and y [N], or y [N, H, W], or values "
        "in y, or tokens x [N, T] and y [N] or [N, T]; batches in order: [steps, N, ...]",
    .gives_values = true,
    .open = open_tensors,
    .close = close_tensors,
    .count = count_tensors,
    .read = read_tensors,
    .check_learned = check_learned,
    .describe = describe_tensors,
};
