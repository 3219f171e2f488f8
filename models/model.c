/* The registry of networks, and the check of what is asked of one. */
#include "models/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/config/options.h"
#include "models/net.h"

#define DT_MODEL(name) &dt_model_##name,
static const dt_model_desc *const all[] = {
#include "models/models.def"
};
#undef DT_MODEL

#define DT_MODEL(name) #name,
static const char *const names[] = {
#include "models/models.def"
    NULL};
#undef DT_MODEL

const dt_model_desc *const *dt_model_all(size_t *n)
{
    *n = DT_COUNT(all);
    return all;
}

const dt_model_desc *dt_model_find(const char *name)
{
    for (size_t i = 0; i < DT_COUNT(all); i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}

const char *const *dt_model_names(void)
{
    return names;
}

/* The standard when not given; an error past @most, which keeps products of these numbers in range.
 */
static dt_status pick(const dt_model_desc *m, const char *key, int64_t given, int64_t standard,
    int64_t most, int64_t *out, dt_err *err)
{
    if (given > most)
        return DT_FAIL(err, DT_E_CONFIG, "%s: %s = %" PRId64 " is too large; at most %" PRId64,
            m->name, key, given, most);
    *out = given > 0 ? given : standard;
    return DT_OK;
}

static dt_status pick_image(
    const dt_model_desc *m, const dt_model_opts *o, dt_model_opts *r, dt_err *err)
{
    enum { MOST = 1 << 16 };
    if (o->image > 0 && !dt_sides_within(o->image, 1, MOST))
        return DT_FAIL(err, DT_E_CONFIG, "%s: image = %s; each side is from 1 to %d", m->name,
            dt_sides_print(o->image).s, (int)MOST);
    r->image = o->image > 0 ? o->image : m->input.h;
    return DT_OK;
}

static dt_status pick_dropout(const dt_model_desc *m, double given, double *out, dt_err *err)
{
    if (!(given < 1)) /* NaN as well */
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: dropout = %g; the rate of values dropped is at least 0 and below 1", m->name,
            given);
    if (given > 0 && m->dropout < 0)
        return DT_FAIL(
            err, DT_E_CONFIG, "%s has no dropout; remove [model] dropout = %g", m->name, given);
    *out = given >= 0 ? given : m->dropout > 0 ? m->dropout : 0;
    return DT_OK;
}

/* Options that only some models know. */
static dt_status refuse(const dt_model_desc *m, const char *key, int64_t given, dt_err *err)
{
    if (given > 0)
        return DT_FAIL(err, DT_E_CONFIG, "%s has no %s; remove [model] %s = %" PRId64, m->name, key,
            key, given);
    return DT_OK;
}

static dt_status pick_blocks(
    const dt_model_desc *m, const dt_model_opts *o, dt_model_opts *r, dt_err *err)
{
    if (m->blocks == 0) {
        DT_CHECK(refuse(m, "layers", o->layers, err));
        DT_CHECK(refuse(m, "heads", o->heads, err));
        if (o->attention != 0)
            return DT_FAIL(
                err, DT_E_CONFIG, "%s has no attention; remove [model] attention", m->name);
        return DT_OK;
    }
    r->attention = o->attention;
    DT_CHECK(pick(m, "layers", o->layers, m->blocks, 1 << 12, &r->layers, err));
    if (m->heads == 0)
        return refuse(m, "heads", o->heads, err);
    DT_CHECK(pick(m, "heads", o->heads, m->heads, 1 << 12, &r->heads, err));
    if (r->width % r->heads != 0)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: width = %" PRId64 " is no multiple of heads = %" PRId64 "; make it one", m->name,
            r->width, r->heads);
    return DT_OK;
}

/* "3,4,6,3". Returns @to. */
enum { LIST_BYTES = 256 };
static const char *list(char to[LIST_BYTES], const int64_t *counts, int n)
{
    size_t at = 0;
    to[0] = '\0';
    for (int i = 0; i < n && at < LIST_BYTES; i++)
        at += (size_t)snprintf(to + at, LIST_BYTES - at, "%s%" PRId64, i > 0 ? "," : "", counts[i]);
    return to;
}

static dt_status no_counts(const dt_model_desc *m, const dt_model_opts *o, dt_err *err)
{
    char given[LIST_BYTES];
    if (o->n_counts > 0)
        return DT_FAIL(err, DT_E_CONFIG, "%s has no counts; remove [model] counts = %s", m->name,
            list(given, o->counts, o->n_counts));
    return DT_OK;
}

static dt_status wrong_counts(const dt_model_desc *m, const char *what, dt_err *err)
{
    char standard[LIST_BYTES];
    return DT_FAIL(err, DT_E_CONFIG, "%s: [model] counts: %s; its own are counts = %s", m->name,
        what, list(standard, m->counts, m->n_counts));
}

static dt_status pick_counts(
    const dt_model_desc *m, const dt_model_opts *o, dt_model_opts *r, dt_err *err)
{
    char what[96];
    if (m->n_counts == 0)
        return no_counts(m, o, err);
    r->counts = o->n_counts > 0 ? o->counts : m->counts;
    r->n_counts = m->n_counts;
    snprintf(what, sizeof what, "%d given, and it has %d stages", o->n_counts, m->n_counts);
    if (o->n_counts > 0 && o->n_counts != m->n_counts)
        return wrong_counts(m, what, err);
    snprintf(what, sizeof what, "each is a whole number from 1 to %d", (int)DTI_MODEL_COUNT);
    for (int i = 0; i < r->n_counts; i++)
        if (r->counts[i] < 1 || r->counts[i] > DTI_MODEL_COUNT)
            return wrong_counts(m, what, err);
    return DT_OK;
}

/* The vocabulary is what there is to predict. */
static dt_status pick_tokens(
    const dt_model_desc *m, const dt_model_opts *o, dt_model_opts *r, dt_err *err)
{
    if (!m->tokens) {
        DT_CHECK(refuse(m, "vocab", o->vocab, err));
        return refuse(m, "context", o->context, err);
    }
    if (o->image > 0)
        return DT_FAIL(err, DT_E_CONFIG, "%s has no image; remove [model] image = %s", m->name,
            dt_sides_print(o->image).s);
    DT_CHECK(refuse(m, "channels", o->channels, err));
    if (o->vocab > 0 && o->classes > 0 && o->vocab != o->classes)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: [model] vocab = %" PRId64
            " is how many classes there are; remove classes = %" PRId64,
            m->name, o->vocab, o->classes);
    const int64_t given = o->vocab > 0 ? o->vocab : o->classes;
    DT_CHECK(pick(m, "vocab", given, m->classes, 1 << 20, &r->vocab, err));
    DT_CHECK(pick(m, "context", o->context, m->input.h, 1 << 20, &r->context, err));
    r->classes = r->vocab;
    return DT_OK;
}

static dt_status pick_tiles(
    const dt_model_desc *m, const dt_model_opts *o, dt_model_opts *r, dt_err *err)
{
    DT_CHECK(pick(m, "tiles", o->tiles, 1, DTI_MODEL_TILES, &r->tiles, err));
    return pick(m, "head_tiles", o->head_tiles, 1, DTI_MODEL_HEAD_TILES, &r->head_tiles, err);
}

/* Tiles that no layer was cut into. */
static dt_status check_tiles(const dti_net *n)
{
    if (n->opts.tiles > 1 && !n->cut)
        return DT_FAIL(n->err, DT_E_CONFIG,
            "%s has no linear layers to cut; remove [model] tiles = %" PRId64, n->g->name,
            n->opts.tiles);
    if (n->opts.head_tiles > 1 && !n->cut_head)
        return DT_FAIL(n->err, DT_E_CONFIG,
            "%s has no vocabulary to cut; remove [model] head_tiles = %" PRId64
            ", or cut its linear layers by tiles",
            n->g->name, n->opts.head_tiles);
    return DT_OK;
}

static dt_status resolve(
    const dt_model_desc *m, const dt_model_opts *o, dt_model_opts *r, dt_err *err)
{
    const int64_t width = m->width > 0 ? m->width : 64;
    DT_CHECK(pick(m, "classes", o->classes, m->classes, 1 << 20, &r->classes, err));
    DT_CHECK(pick_image(m, o, r, err));
    DT_CHECK(pick(m, "channels", o->channels, m->input.c, 1 << 16, &r->channels, err));
    DT_CHECK(pick(m, "width", o->width, width, 1 << 16, &r->width, err));
    DT_CHECK(pick_blocks(m, o, r, err));
    DT_CHECK(pick_tokens(m, o, r, err));
    DT_CHECK(pick_counts(m, o, r, err));
    DT_CHECK(pick_tiles(m, o, r, err));
    return pick_dropout(m, o->dropout, &r->dropout, err);
}

dt_status dt_model_build(
    const dt_model_desc *m, const dt_model_opts *o, dt_graph **out, dt_err *err)
{
    *out = NULL;
    dti_net n = {.err = err};
    DT_CHECK(resolve(m, o, &n.opts, err));
    const dt_shape image = m->tokens ? (dt_shape){1, n.opts.context, 1, 1}
                                     : (dt_shape){1, dt_sides_h(n.opts.image),
                                           dt_sides_w(n.opts.image), n.opts.channels};
    DT_CHECK(dt_graph_create(&n.g, m->name, image, n.opts.classes, err));
    const int32_t scores = m->layers(m, &n);
    dti_layer(&n, dti_loss_of(n.g, scores), NULL, &scores, 1, "loss");
    if (n.status == DT_OK)
        n.status = check_tiles(&n);
    if (n.status == DT_OK)
        n.status = dt_graph_check(n.g, err);
    if (n.status == DT_OK)
        *out = n.g;
    else
        dt_graph_destroy(n.g);
    return n.status;
}
