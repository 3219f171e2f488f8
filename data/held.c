/* A part of a source: numbers of its samples in the whole, which does all else. */
#include "data/held.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "data/shuffle.h"
#include "engine/base/alloc.h"
#include "engine/base/numbers.h"

typedef struct part {
    dt_source base;
    dt_source_desc desc; /* of the whole, with functions of ours */
    dt_source *whole;
    double share;
    bool held;
    int64_t n;
    int64_t *at; /* numbers in the whole, rising */
} part;

static const dt_source *whole_of(const dt_source *s)
{
    return ((const part *)s)->whole;
}

static void close_part(dt_source *s)
{
    part *p = (part *)s;
    p->whole->desc->close(p->whole);
    dt_free(p->at);
    dt_free(p);
}

static int64_t count(const dt_source *s)
{
    return ((const part *)s)->n;
}

static dt_status read(
    const dt_source *s, int64_t i, uint64_t key, float *x, int32_t *label, dt_err *err)
{
    const part *p = (const part *)s;
    return p->whole->desc->read(p->whole, p->at[i], key, x, label, err);
}

/* In a fixed order what is learned from comes first. Of samples that are shuffled the whole asks
 * for each, also where it is held out. */
static dt_status check_learned(const dt_source *s, int64_t n, dt_err *err)
{
    return whole_of(s)->desc->check_learned(whole_of(s), n, err);
}

static int64_t classes(const dt_source *s)
{
    return whole_of(s)->desc->classes(whole_of(s));
}

static const char *class_name(const dt_source *s, int32_t label)
{
    return whole_of(s)->desc->class_name(whole_of(s), label);
}

static void describe(const dt_source *s, char *text, size_t n)
{
    const part *p = (const part *)s;
    char found[256] = "";
    if (p->whole->desc->describe != NULL)
        p->whole->desc->describe(p->whole, found, sizeof found);
    snprintf(text, n, "%s%s%" PRId64 " sample%s of them %s", found, found[0] != '\0' ? "; " : "",
        p->n, p->n == 1 ? "" : "s", p->held ? "held out" : "to learn from");
}

/* As the one whose desc this is. */
static dt_status open_part(
    const dt_source_desc *d, dt_source **out, const dt_source_opts *o, dt_err *err)
{
    const part *like = (const part *)((const char *)d - offsetof(part, desc));
    DT_CHECK(like->whole->desc->open(like->whole->desc, out, o, err));
    return dt_source_hold(out, like->share, like->held, err);
}

/* Of @all samples, or batches, so many are held out. */
static int64_t held_of(int64_t all, double share)
{
    const int64_t n = llround((double)all * share);
    return n < 1 ? 1 : dt_min_i64(n, all - 1);
}

/* Any sample is held out with the same chance, as samples may stand by class. */
static dt_status take_any(part *p, int64_t all, dt_err *err)
{
    const int64_t n_held = held_of(all, p->share);
    bool *is_held = dt_alloc((size_t)all, sizeof *is_held);
    p->n = p->held ? n_held : all - n_held;
    p->at = dt_alloc((size_t)p->n, sizeof *p->at);
    if (is_held == NULL || p->at == NULL) {
        dt_free(is_held);
        return DT_FAIL(err, DT_E_NOMEM, "no memory to hold samples out");
    }
    const dti_shuffle order = dti_shuffle_make(0, 0, all);
    for (int64_t i = 0; i < n_held; i++)
        is_held[dti_shuffle_at(&order, i)] = true;
    for (int64_t i = 0, k = 0; i < all; i++)
        if (is_held[i] == p->held)
            p->at[k++] = i;
    dt_free(is_held);
    return DT_OK;
}

static dt_status take_last(part *p, int64_t all, int64_t batch, dt_err *err)
{
    const int64_t n_held = held_of(all / batch, p->share) * batch;
    const int64_t first = p->held ? all - n_held : 0;
    p->n = p->held ? n_held : all - n_held;
    p->at = dt_alloc((size_t)p->n, sizeof *p->at);
    if (p->at == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to hold samples out");
    for (int64_t i = 0; i < p->n; i++)
        p->at[i] = first + i;
    return DT_OK;
}

static dt_status take(part *p, dt_err *err)
{
    const int64_t all = p->whole->desc->count(p->whole);
    const int64_t batch = p->base.fixed_order && p->base.opts.batch > 0 ? p->base.opts.batch : 1;
    if (all < 2 * batch)
        return DT_FAIL(err, DT_E_CONFIG,
            "%" PRId64 " %s%s: too few to hold some out and learn from others", all / batch,
            batch > 1 ? "batch" : "sample",
            all / batch == 1 ? ""
            : batch > 1      ? "es"
                             : "s");
    return p->base.fixed_order ? take_last(p, all, batch, err) : take_any(p, all, err);
}

dt_status dt_source_hold(dt_source **s, double share, bool held, dt_err *err)
{
    dt_source *whole = *s;
    *s = NULL;
    part *p = dt_alloc(1, sizeof *p);
    if (p == NULL) {
        whole->desc->close(whole);
        return DT_FAIL(err, DT_E_NOMEM, "no memory to hold samples out");
    }
    *p = (part){.desc = *whole->desc, .whole = whole, .share = share, .held = held};
    p->base = (dt_source){.desc = &p->desc, .opts = whole->opts, .fixed_order = whole->fixed_order};
    p->desc.open = open_part;
    p->desc.close = close_part;
    p->desc.count = count;
    p->desc.read = read;
    p->desc.check_learned = p->desc.check_learned != NULL ? check_learned : NULL;
    p->desc.has_eval = NULL;
    p->desc.classes = p->desc.classes != NULL ? classes : NULL;
    p->desc.class_name = p->desc.class_name != NULL ? class_name : NULL;
    p->desc.describe = describe;
    const dt_status st = take(p, err);
    if (st == DT_OK)
        *s = &p->base;
    else
        close_part(&p->base);
    return st;
}
