/* A few samples of a data set, summed up. */
#include "data/fingerprint.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers_text.h"

enum { SAMPLES = 4 };

static int64_t labels_of(const dt_source_opts *o)
{
    return o->labels > 0 ? o->labels : 1;
}

static double mean_of(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i];
    return sum / (double)n;
}

/* Beside what stands there. */
static dt_status add_sample(
    char to[DT_FINGERPRINT], const dt_source *s, int64_t i, float *x, int32_t *label, dt_err *err)
{
    const dt_source_opts *o = &s->opts;
    const size_t at = strlen(to), left = DT_FINGERPRINT - at;
    const char *gap = at > 0 ? " " : "";
    uint32_t sum = 0;
    dt_err why = {0};
    const dt_status st = s->desc->read(s, i, 0, x, label, &why);
    if (st == DT_E_DATA) {
        snprintf(to + at, left, "%sbad", gap);
        return DT_OK;
    }
    if (st != DT_OK)
        return dt_err_append(err, st, why.text);
    for (int64_t k = 0; k < labels_of(o) && o->label_kind == DT_LABEL_CLASS; k++)
        sum += (uint32_t)label[k];
    dt_snprintf(to + at, left, "%s%.6g:%" PRIu32, gap,
        mean_of(x, o->shape.h * o->shape.w * o->shape.c), sum);
    return DT_OK;
}

dt_status dt_source_fingerprint(char to[DT_FINGERPRINT], const dt_source *s, dt_err *err)
{
    const dt_shape *x = &s->opts.shape;
    const int64_t n = s->desc->count(s);
    to[0] = '\0';
    if (s->desc->made_up)
        return DT_OK;
    float *values = dt_alloc((size_t)(x->h * x->w * x->c), sizeof *values);
    int32_t *label = dt_alloc((size_t)labels_of(&s->opts), sizeof *label);
    dt_status st = DT_OK;
    if (values == NULL || label == NULL)
        st = DT_FAIL(err, DT_E_NOMEM, "no memory to look at samples");
    for (int64_t i = 0; i < SAMPLES && st == DT_OK; i++)
        st = add_sample(to, s, i * (n - 1) / (SAMPLES - 1), values, label, err);
    dt_free(values);
    dt_free(label);
    return st;
}

/* Of one sample; behind it. */
static bool sample_agrees(const char **a, const char **b)
{
    enum { WITHIN = 10000 };
    char *end[2];
    const double x = dt_strtod(*a, &end[0]), y = dt_strtod(*b, &end[1]);
    const size_t n[] = {strcspn(end[0], " "), strcspn(end[1], " ")};
    const bool near = x == y || (isnan(x) && isnan(y)) ||
                      (isfinite(x) && isfinite(y) && fabs(x - y) * WITHIN <= 1 + fabs(x));
    const bool same = near && n[0] == n[1] && memcmp(end[0], end[1], n[0]) == 0;
    *a = end[0] + n[0] + strspn(end[0] + n[0], " ");
    *b = end[1] + n[1] + strspn(end[1] + n[1], " ");
    return same;
}

bool dt_fingerprints_agree(const char *a, const char *b)
{
    while (*a != '\0' && *b != '\0')
        if (!sample_agrees(&a, &b))
            return false;
    return *a == *b;
}
