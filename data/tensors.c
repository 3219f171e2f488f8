/* Ready batches from a safetensors file: x [steps, N, C, H, W] F32 and y [steps, N] I64, in
 * PyTorch's layouts; for a network that labels pixels y [steps, N, H, W] I64. Of tokens x is
 * [steps, N, T] I64, and y, where each has a label, likewise. A loss of values takes y [steps, N,
 * C, H, W] of any type, or [steps, N, C] or [steps, N] where the network's output has no height and
 * width, or is one number. Step i trains on x[i], in the order of the file; values are taken as
 * they are. A label may be the one that does not count, and of values NaN. */
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
    int64_t count, each;
    int64_t left_out; /* labels that do not count */
    int64_t bare;     /* the first step of which none counts; -1: there is none */
} tensors;

/* A network of tokens may ask for several labels in a row, mostly one for each. */
static bool labels_tokens(const dt_source_opts *o)
{
    return o->label_kind == DT_LABEL_CLASS && o->labels > 1 && o->tokens;
}

/* Where no layer reads tokens as such they may be values as well, of one channel. */
static bool has_ids(const tensors *t)
{
    const dt_st_entry *x = dt_st_find(t->file, "x");
    return t->base.opts.tokens && (x == NULL || x->type != DT_ST_F32 || x->rank != 5);
}

static dt_status find(const dt_st_entry **out, const dt_st_file *f, const char *path,
    const char *name, dt_st_type type, int rank, dt_err *err)
{
    const dt_st_entry *e = dt_st_find(f, name);
    if (e == NULL)
        return DT_FAIL(err, DT_E_DATA, "%s: has no tensor '%s'", path, name);
    if (e->type != type || e->rank != rank)
        return DT_FAIL(err, DT_E_DATA, "%s: '%s' is %s %s, must be %s of %d dimensions", path, name,
            dt_st_type_name(e->type), dt_dims_print(e->rank, e->d).s, dt_st_type_name(type), rank);
    *out = e;
    return DT_OK;
}

/* Whether the dimensions behind the first two are those of the values a sample is to have, with or
 * without sides of 1. */
static bool has_values(const dt_st_entry *y, const dt_shape *v)
{
    if (y->rank == 5)
        return y->d[2] == v->c && y->d[3] == v->h && y->d[4] == v->w;
    return v->h * v->w == 1 && (y->rank == 3 ? y->d[2] == v->c : y->rank == 2 && v->c == 1);
}

static dt_status find_values(tensors *t, const dt_source_opts *o, const char *path, dt_err *err)
{
    const dt_shape *v = &o->values;
    char want[80], vector[40] = "";
    t->y = dt_st_find(t->file, "y");
    if (t->y == NULL)
        return DT_FAIL(err, DT_E_DATA, "%s: has no tensor 'y'", path);
    if (has_values(t->y, v))
        return DT_OK;
    if (v->h * v->w == 1)
        snprintf(vector, sizeof vector, "[steps, N, %" PRId64 "] or ", v->c);
    snprintf(
        want, sizeof want, "[steps, N, %" PRId64 ", %" PRId64 ", %" PRId64 "]", v->c, v->h, v->w);
    return DT_FAIL(err, DT_E_DATA,
        "%s: y is %s, the loss takes a value for each that the network gives, %s%s", path,
        dt_dims_print(t->y->rank, t->y->d).s, vector, want);
}

static dt_status check_y(const dt_st_entry *x, const dt_st_entry *y, const char *path,
    const dt_source_opts *o, dt_err *err)
{
    const dt_shape *s = &o->shape;
    if (y->d[0] != x->d[0] || y->d[1] != x->d[1])
        return DT_FAIL(err, DT_E_DATA, "%s: x is %s and y is %s: steps and samples must agree",
            path, dt_dims_print(x->rank, x->d).s, dt_dims_print(y->rank, y->d).s);
    if (labels_tokens(o) && y->d[2] != o->labels)
        return DT_FAIL(err, DT_E_DATA, "%s: y is %s, the network takes [steps, N, %" PRId64 "]",
            path, dt_dims_print(y->rank, y->d).s, o->labels);
    if (dti_source_of_pixels(o) && (y->d[2] != s->h || y->d[3] != s->w))
        return DT_FAIL(err, DT_E_DATA,
            "%s: y is %s, the network takes a label a pixel, [steps, N, %" PRId64 ", %" PRId64 "]",
            path, dt_dims_print(y->rank, y->d).s, s->h, s->w);
    return DT_OK;
}

static dt_status check_x(const tensors *t, const char *path, dt_err *err)
{
    const dt_shape *s = &t->base.opts.shape;
    const dt_st_entry *x = t->x;
    if (t->ids && x->d[2] != s->h)
        return DT_FAIL(err, DT_E_DATA, "%s: x is %s, the network takes [steps, N, %" PRId64 "]",
            path, dt_dims_print(x->rank, x->d).s, s->h);
    if (!t->ids && (x->d[2] != s->c || x->d[3] != s->h || x->d[4] != s->w))
        return DT_FAIL(err, DT_E_DATA,
            "%s: x is %s, the network takes [steps, N, %" PRId64 ", %" PRId64 ", %" PRId64 "]",
            path, dt_dims_print(x->rank, x->d).s, s->c, s->h, s->w);
    return DT_OK;
}

static dt_status check_shapes(const tensors *t, const char *path, dt_err *err)
{
    const dt_source_opts *o = &t->base.opts;
    const dt_st_entry *x = t->x;
    if (x->d[0] < 1 || x->d[1] < 1)
        return DT_FAIL(err, DT_E_DATA, "%s: x is %s, which holds no sample", path,
            dt_dims_print(x->rank, x->d).s);
    DT_CHECK(check_x(t, path, err));
    if (t->y != NULL)
        DT_CHECK(check_y(x, t->y, path, o, err));
    if (x->d[1] != o->batch)
        return DT_FAIL(err, DT_E_DATA,
            "%s: x has %" PRId64 " samples a step, train.batch is %" PRId64
            ": set train.batch = %" PRId64,
            path, x->d[1], o->batch, x->d[1]);
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

/* Labels stay in the file; what is wrong with one is told before a run begins all the same. */
static dt_status check_labels(tensors *t, const char *path, dt_err *err)
{
    int32_t some[DTI_ST_SOME];
    const int64_t count = t->count * t->each, of_step = t->y->d[1] * t->each;
    int64_t counted = 0;
    for (int64_t i = 0; i < count; i++) {
        if (i % DTI_ST_SOME == 0)
            DT_CHECK(some_labels(t, i, count, some, err));
        const bool counts = some[i % DTI_ST_SOME] != DT_LABEL_NONE;
        counted += counts;
        t->left_out += !counts;
        if ((i + 1) % of_step != 0)
            continue;
        if (counted == 0 && t->bare < 0)
            t->bare = i / of_step;
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
    if (t->bare < 0 || t->bare * t->x->d[1] >= n)
        return DT_OK;
    return DT_FAIL(err, DT_E_DATA,
        "%s: each value of y[%" PRId64 "] is %s, so nothing of that step counts; leave it out of x "
        "and y",
        dti_escape(base->opts.path).text, t->bare, ignored_in(t).s);
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
    const int rank = labels_tokens(o) ? 3 : dti_source_of_pixels(o) ? 4 : 2;
    const dti_escaped name = dti_escape(o->path);
    DT_CHECK(dt_st_open(&t->file, o->path, err));
    t->ids = has_ids(t);
    DT_CHECK(
        find(&t->x, t->file, name.text, "x", t->ids ? DT_ST_I64 : DT_ST_F32, t->ids ? 3 : 5, err));
    if (has_values_for_labels(t))
        DT_CHECK(find_values(t, o, name.text, err));
    else if (!o->unlabelled)
        DT_CHECK(find(&t->y, t->file, name.text, "y", DT_ST_I64, rank, err));
    DT_CHECK(check_shapes(t, name.text, err));
    t->count = t->x->d[0] * t->x->d[1]; /* x lies in the file, so its size fits */
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
    t->base = (dt_source){d, *o};
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
    const int at = snprintf(text, n, "%" PRId64 " step%s of %" PRId64 " sample%s, in order",
        t->x->d[0], t->x->d[0] == 1 ? "" : "s", t->x->d[1], t->x->d[1] == 1 ? "" : "s");
    if (t->left_out > 0 && has_values_for_labels(t) && (size_t)at < n)
        snprintf(text + at, n - (size_t)at,
            "; of %" PRId64 " values of y %" PRId64 " are NaN and do not count", t->count * t->each,
            t->left_out);
}

const dt_source_desc dt_source_tensors = {
    .name = "tensors",
    .summary = "batches from a safetensors file, in order: x [steps, N, C, H, W] and y [steps, N], "
               "or y [steps, N, H, W], or values in y, or tokens x [steps, N, T] and y [steps, N] "
               "or [steps, N, T]",
    .fixed_order = true,
    .gives_values = true,
    .open = open_tensors,
    .close = close_tensors,
    .count = count_tensors,
    .read = read_tensors,
    .check_learned = check_learned,
    .describe = describe_tensors,
};
