/* The graph of the layers that were read. */
#include "models/ini_parts.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "layers/plain.h"

/* "configs/tiny.ini" gives "tiny". */
static void name_from_file(char *to, const char *file)
{
    const char *slash = strrchr(file, '/');
    const char *base = slash != NULL ? slash + 1 : file;
    const char *dot = strrchr(base, '.');
    const size_t stem = dot != NULL && dot > base ? (size_t)(dot - base) : strlen(base);
    const int n = (int)(stem < DT_NAME_BYTES ? stem : DT_NAME_BYTES - 1);
    if (n > 0)
        snprintf(to, DT_NAME_BYTES, "%.*s", n, base);
    else
        snprintf(to, DT_NAME_BYTES, "network");
    for (char *p = to; *p != '\0'; p++)
        if (!isalnum((unsigned char)*p) && strchr("._-", *p) == NULL)
            *p = '_';
}

/* What the layers say themselves. */
static dt_status refuse(const dti_ini_net *t, const char *key, int64_t given)
{
    if (given > 0)
        return DT_FAIL(t->err, DT_E_CONFIG,
            "[model] %s = %" PRId64 " is for models with a name; the layers in %s state theirs",
            key, given, t->layer[0].s.file);
    return DT_OK;
}

static dt_status check_opts(const dti_ini_net *t, const dt_model_opts *o)
{
    if (o->width > 0 && o->width != 64)
        return DT_FAIL(t->err, DT_E_CONFIG,
            "[model] width = %" PRId64
            " scales models with a name; in %s the layers state their channels",
            o->width, t->layer[0].s.file);
    if (o->dropout > 0)
        return DT_FAIL(t->err, DT_E_CONFIG,
            "[model] dropout = %g is for models with a name; write a [dropout NAME] section in %s",
            o->dropout, t->layer[0].s.file);
    DT_CHECK(refuse(t, "layers", o->layers));
    DT_CHECK(refuse(t, "heads", o->heads));
    DT_CHECK(refuse(t, "vocab", o->vocab));
    if ((o->image < 1) == (o->context < 1))
        return DT_FAIL(t->err, DT_E_CONFIG,
            "%s: a network of layers needs [model] image, its height and width in pixels, or "
            "[model] context, the length of a sequence of tokens%s",
            t->layer[0].s.file, o->image > 0 ? "; not both" : "");
    return DT_OK;
}

static dt_status create(const dti_ini_net *t, const dt_model_opts *o, dt_graph **out)
{
    DT_CHECK(check_opts(t, o));
    char name[DT_NAME_BYTES];
    name_from_file(name, t->layer[0].s.file);
    const char *file;
    int line;
    const char *given = dt_config_get(t->c, "model", "name", &file, &line);
    if (given != NULL && dt_model_find(given) != NULL)
        return DT_FAIL(t->err, DT_E_CONFIG,
            "%s:%d: [model] name = %s asks for a model, and %s writes a network; remove one of "
            "them",
            file, line, given, t->layer[0].at);
    const dt_shape image = {1, o->image, o->image, o->channels > 0 ? o->channels : 3};
    const dt_shape tokens = {1, o->context, 1, 1};
    return dt_graph_create(out, given != NULL && *given != '\0' ? given : name,
        o->context > 0 ? tokens : image, o->classes > 0 ? o->classes : 1, t->err);
}

/* Layer i becomes node i: both stand in file order. */
static dt_status add_layers(const dti_ini_net *t, dt_graph *g)
{
    for (size_t i = 0; i < t->n; i++) {
        const dti_ini_layer *l = &t->layer[i];
        int32_t id;
        DT_TRY(t->err, dt_graph_add(g, l->desc, l->s.name, l->opts, l->in, l->n_in, &id, t->err),
            "%s cannot be built", l->at);
        if (l->shares == DT_SHARES_NONE)
            continue;
        char at[256];
        dti_ini_key_place(t, at, sizeof at, l, "shares");
        DT_TRY(t->err, dt_graph_share(g, id, l->shares, t->err), "%s cannot share", at);
    }
    return DT_OK;
}

/* A label a sample, a position of a sequence, or a pixel of the image. */
static dt_status check_scores(
    const dti_ini_net *t, const dti_ini_layer *l, dt_shape scores, dt_shape image)
{
    if (scores.w == image.w && scores.h == image.h)
        return DT_OK;
    if (scores.h * scores.w == 1)
        return DT_OK;
    return DT_FAIL(t->err, DT_E_CONFIG,
        "%s makes scores of %" PRId64 "x%" PRId64 " places, and the input has %" PRId64 "x%" PRId64
        "; put fc or global_avgpool before the loss for a label a sample, or upsample for one a "
        "pixel",
        l->at, scores.h, scores.w, image.h, image.w);
}

static dt_status add_loss(const dti_ini_net *t, const dt_model_opts *o, dt_graph *g)
{
    const dti_ini_layer *last = &t->layer[t->n - 1];
    int32_t scores = (int32_t)t->n - 1, id;
    if (last->desc->loss)
        scores = last->in[0];
    else
        DT_TRY(t->err,
            dt_graph_add(g, &dt_layer_cross_entropy, "loss", NULL, &scores, 1, &id, t->err),
            "%s cannot be the last layer", last->at);
    const dti_ini_layer *l = scores == DT_GRAPH_INPUT ? last : &t->layer[scores];
    DT_CHECK(check_scores(t, l, dt_graph_shape(g, scores), g->input));
    const int64_t made = dt_graph_shape(g, scores).c;
    if (o->classes < 1)
        g->classes = made;
    else if (made != o->classes)
        return DT_FAIL(t->err, DT_E_CONFIG,
            "%s makes %" PRId64 " scores, and there are %" PRId64 " classes; make them equal",
            l->at, made, o->classes);
    return DT_OK;
}

dt_status dti_ini_graph(const dti_ini_net *t, const dt_model_opts *o, dt_graph **g)
{
    DT_CHECK(create(t, o, g));
    DT_CHECK(add_layers(t, *g));
    DT_CHECK(add_loss(t, o, *g));
    DT_TRY(t->err, dt_graph_check(*g, t->err), "in %s", t->layer[0].s.file);
    return DT_OK;
}
