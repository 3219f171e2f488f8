/* A network written in an INI file: which sections are layers, what each is connected to, and the
 * graph they make. */
#include "models/ini.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/graph_share.h"
#include "engine/base/alloc.h"
#include "engine/config/nearest.h"
#include "layers/registry.h"
#include "models/model.h"
#include "models/net.h"

enum { PLACE_BYTES = 136, AT_BYTES = PLACE_BYTES + 120 };

typedef struct ini_layer {
    dt_section s;
    char at[AT_BYTES]; /* "FILE:LINE: [KIND NAME]", how every message begins */
    const dt_layer_desc *desc;
    void *opts;
    int n_in;
    int32_t in[DT_MAX_IN]; /* layers above, or DT_GRAPH_INPUT */
    int32_t shares;        /* layer above whose weight it uses, or DT_SHARES_NONE */
    int64_t tiles;         /* that it is cut into */
    int32_t node;          /* of the graph, which gives its value */
    bool read;             /* by a layer below */
} ini_layer;

typedef struct ini_net {
    dt_config *c;
    size_t n;
    ini_layer *layer;
    dt_names names; /* of the layers, once all are collected */
    dt_err *err;
    dt_status status; /* of the first error */
} ini_net;

static void put_place(char *to, size_t bytes, const char *file, int line, const dt_section *s)
{
    char place[PLACE_BYTES];
    snprintf(to, bytes, "%s: [%.100s]", dt_config_place(place, sizeof place, file, line), s->text);
}

/* Where a key of a layer stands, or the layer itself. */
static void key_place(const ini_net *t, char *to, size_t bytes, const ini_layer *l, const char *key)
{
    const char *file = l->s.file;
    int line = l->s.line;
    if (dt_config_get(t->c, l->s.text, key, &file, &line) != NULL)
        put_place(to, bytes, file, line, &l->s);
    else
        snprintf(to, bytes, "%s", l->at);
}

/* Remember the first error; and say what is wrong with the file, and go on. */
static void note(ini_net *t, dt_status st)
{
    if (t->status == DT_OK)
        t->status = st;
}

#define WRONG(t, ...) note((t), DT_FAIL((t)->err, DT_E_CONFIG, __VA_ARGS__))

static dt_named names_of(const ini_net *t)
{
    return (dt_named){t->layer, sizeof *t->layer, offsetof(ini_layer, s.name), .refers = true};
}

/* The layer of this name, or t->n. */
static size_t find_layer(const ini_net *t, const char *name)
{
    const size_t found = dt_names_find(&t->names, names_of(t), name);
    return found > 0 ? found - 1 : t->n;
}

/* --- wiring --- */

typedef struct wiring {
    const char *input, *shares;
    int64_t tiles;
} wiring;

/* clang-format off */
const dt_opt dt_ini_wiring[] = {
    {"input", DT_OPT_LIST, offsetof(wiring, input), "", 0, 0, NULL, "layers", "layers above it whose values it takes, or image; not given: the section above"},
    {"shares", DT_OPT_STR, offsetof(wiring, shares), "", 0, 0, NULL, NULL, "an embedding above it, whose weight it uses instead of one of its own: of a linear layer without bias"},
    {"tiles", DT_OPT_I64, offsetof(wiring, tiles), "1", 1, DTI_MODEL_TILES, NULL, NULL, "number of tiles that the outputs of an fc or a linear layer are cut into; 1: none"},
    {0},
};
/* clang-format on */

/* @key: the list or name in which it stands. */
static void no_such_layer(
    ini_net *t, const ini_layer *l, const char *at, const char *name, const char *key)
{
    const bool input = strcmp(key, "input") == 0;
    const char **words = dt_alloc((size_t)(l - t->layer) + 2, sizeof *words);
    const char *near = NULL;
    if (words != NULL) {
        size_t n = 0;
        if (input)
            words[n++] = "image";
        for (const ini_layer *k = t->layer; k < l; k++)
            words[n++] = k->s.name;
        near = dt_nearest(name, words);
    }
    dt_free(words);
    if (near != NULL)
        WRONG(t, "%s: no layer is called '%.95s', did you mean '%s'?", at, name, near);
    else
        WRONG(t, "%s: no layer is called '%.95s'; %s names %s", at, name, key,
            input ? "layers above, or image" : "a layer above");
}

/* Resolve one name of the list; @at is the place of the key. */
static void connect(ini_net *t, ini_layer *l, const char *at, const char *name)
{
    if (strcmp(name, "image") == 0) {
        l->in[l->n_in++] = DT_GRAPH_INPUT;
        return;
    }
    const size_t self = (size_t)(l - t->layer), i = find_layer(t, name);
    if (i == t->n)
        no_such_layer(t, l, at, name, "input");
    else if (i == self)
        WRONG(t, "%s takes itself as input; a layer can use only layers above it", at);
    else if (i > self)
        WRONG(t,
            "%s takes '%s', which stands below at %s; a layer can use only layers above it, "
            "so a network has no cycles",
            at, name, t->layer[i].at);
    else
        t->layer[i].read = true;
    l->in[l->n_in++] = i < self ? (int32_t)i : DT_GRAPH_INPUT;
}

static void connect_list(ini_net *t, ini_layer *l, const char *list)
{
    char at[AT_BYTES], name[DT_LINE_BYTES];
    key_place(t, at, sizeof at, l, "input");
    for (const char *p = list; p != NULL; p = *p == ',' ? p + 1 : NULL) {
        const size_t len = strcspn(p, ",");
        if (l->n_in == DT_MAX_IN) {
            WRONG(t, "%s: a layer has at most %d inputs", at, DT_MAX_IN);
            return;
        }
        snprintf(name, sizeof name, "%.*s", (int)(len < sizeof name ? len : sizeof name - 1), p);
        connect(t, l, at, name);
        p += len;
    }
}

static void find_owner(ini_net *t, ini_layer *l, const char *name)
{
    char at[AT_BYTES];
    const size_t self = (size_t)(l - t->layer), i = find_layer(t, name);
    key_place(t, at, sizeof at, l, "shares");
    if (i < self)
        l->shares = (int32_t)i;
    else if (i == t->n)
        no_such_layer(t, l, at, name, "shares");
    else
        WRONG(t,
            "%s uses the weight of '%.95s', which %s; a layer can use only the weight of a "
            "layer above it",
            at, name, i == self ? "is itself" : "stands below");
}

static void check_tiles(ini_net *t, const ini_layer *l, bool shares)
{
    char at[AT_BYTES];
    if (l->tiles < 2 || l->desc == NULL)
        return;
    key_place(t, at, sizeof at, l, "tiles");
    if (!dti_is_weighted(l->desc))
        WRONG(t, "%s: tiles are of linear layers, fc and linear; remove tiles = %" PRId64, at,
            l->tiles);
    else if (shares)
        WRONG(t,
            "%s: a layer that shares a weight is not cut; write an [embedding] and a [linear] for "
            "each tile, and [softmax_tile] sections behind them",
            at);
}

static void wrong_inputs(ini_net *t, const ini_layer *l)
{
    const dt_layer_desc *d = l->desc;
    const char *many = l->n_in == 1 ? "" : "s";
    if (d->max_in == 1)
        WRONG(t, "%s has %d input%s; %s takes one: join them by an [add NAME] or [concat NAME]",
            l->at, l->n_in, many, d->name);
    else if (d->min_in == d->max_in)
        WRONG(t, "%s has %d input%s; %s takes %d: input = NAME, NAME", l->at, l->n_in, many,
            d->name, d->min_in);
    else
        WRONG(t, "%s has %d input%s; %s takes %d to %d: input = NAME, NAME", l->at, l->n_in, many,
            d->name, d->min_in, d->max_in);
}

/* The inputs of layer i, the owner of its weight, and its tiles. */
static void wire(ini_net *t, size_t i)
{
    ini_layer *l = &t->layer[i];
    wiring w = {NULL, NULL, 1};
    const dt_status st = dt_config_bind(t->c, l->s.text, dt_ini_wiring, &w, t->err);
    if (st != DT_OK) {
        note(t, st);
        return;
    }
    if (w.input != NULL) {
        connect_list(t, l, w.input);
    } else {
        l->in[l->n_in++] = i > 0 ? (int32_t)i - 1 : DT_GRAPH_INPUT;
        if (i > 0)
            t->layer[i - 1].read = true;
    }
    if (w.shares != NULL)
        find_owner(t, l, w.shares);
    l->tiles = w.tiles;
    check_tiles(t, l, w.shares != NULL);
    const dt_layer_desc *d = l->desc;
    if (d == NULL || (l->n_in >= d->min_in && l->n_in <= d->max_in))
        return;
    wrong_inputs(t, l);
}

/* --- sections --- */

/* Only what a network may name: dt_layer_find knows the ops of optimizers as well. */
static const dt_layer_desc *find_kind(const char *kind)
{
    size_t n;
    const dt_layer_desc *const *all = dt_layer_all(&n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(all[i]->name, kind) == 0)
            return all[i];
    return NULL;
}

static bool is_layer(const dt_section *s)
{
    return s->name[0] != '\0' || find_kind(s->kind) != NULL;
}

bool dt_ini_has_layers(const dt_config *c)
{
    for (size_t i = 0; i < dt_config_section_count(c); i++) {
        const dt_section s = dt_config_section(c, i);
        if (is_layer(&s))
            return true;
    }
    return false;
}

static dt_status collect(ini_net *t)
{
    const size_t sections = dt_config_section_count(t->c);
    const size_t most = sections <= DTI_INI_LAYERS ? sections : DTI_INI_LAYERS + 1;
    t->layer = dt_alloc(most, sizeof *t->layer);
    if (t->layer == NULL)
        return DT_FAIL(t->err, DT_E_NOMEM, "out of memory for %zu layers", most);
    for (size_t i = 0; i < sections; i++) {
        const dt_section s = dt_config_section(t->c, i);
        if (!is_layer(&s))
            continue;
        ini_layer *l = &t->layer[t->n];
        l->s = s;
        l->shares = DT_SHARES_NONE;
        put_place(l->at, sizeof l->at, s.file, s.line, &s);
        if (++t->n > DTI_INI_LAYERS)
            return DT_FAIL(t->err, DT_E_CONFIG,
                "%s is one layer too many; a network has at most %d", l->at, DTI_INI_LAYERS);
    }
    if (t->n == 0)
        return DT_FAIL(t->err, DT_E_CONFIG,
            "no layers; a layer is a section with a kind and a name, such as [conv c1]");
    if (!dt_names_fill(&t->names, names_of(t), t->n))
        return DT_FAIL(t->err, DT_E_NOMEM, "out of memory for the names of %zu layers", t->n);
    return DT_OK;
}

static void check_kind(ini_net *t, ini_layer *l)
{
    l->desc = find_kind(l->s.kind);
    if (l->desc != NULL)
        return;
    size_t n;
    const dt_layer_desc *const *all = dt_layer_all(&n);
    const char *words[64] = {NULL};
    for (size_t i = 0; i < n && i + 1 < DT_COUNT(words); i++)
        words[i] = all[i]->name;
    const char *near = dt_nearest(l->s.kind, words), *instead = dt_absent(l->s.kind);
    if (instead != NULL)
        WRONG(t, "%s: unknown layer '%s': %s", l->at, l->s.kind, instead);
    else if (near != NULL)
        WRONG(t, "%s: unknown layer '%s', did you mean '%s'?", l->at, l->s.kind, near);
    else
        WRONG(t, "%s: unknown layer '%s'; `dnntrain list layers` shows them all", l->at, l->s.kind);
}

/* A layer from outside may have any keys, and these would be read as its wiring as well. */
static void check_keys(ini_net *t, const ini_layer *l)
{
    const dt_opt *own = l->desc != NULL ? l->desc->opts : NULL;
    for (; own != NULL && own->key != NULL; own++)
        for (const dt_opt *all = dt_ini_wiring; all->key != NULL; all++)
            if (strcmp(own->key, all->key) == 0)
                WRONG(t, "%s: layer '%s' has an option '%s', a key that every layer has: %s", l->at,
                    l->desc->name, own->key, all->help);
}

static void check_name(ini_net *t, size_t i)
{
    const ini_layer *l = &t->layer[i];
    const char *name = l->s.name;
    const size_t first = find_layer(t, name);
    if (name[0] == '\0')
        WRONG(t, "%s: a layer needs a name, such as [%s %s1]", l->at, l->s.kind, l->s.kind);
    else if (strcmp(name, "image") == 0)
        WRONG(t, "%s: 'image' is the name of the network's input; choose another", l->at);
    else if (first < i)
        WRONG(t, "%s: the name '%s' is taken by %s", l->at, name, t->layer[first].at);
}

/* One loss, last, called "loss"; nothing else is called that. */
static void check_loss(ini_net *t, size_t i)
{
    const ini_layer *l = &t->layer[i];
    if (l->desc == NULL)
        return;
    const bool called = strcmp(l->s.name, "loss") == 0;
    if (l->desc->loss && i + 1 < t->n)
        WRONG(t, "%s is a loss and must be the last layer; %s follows", l->at, t->layer[i + 1].at);
    else if (l->desc->loss && !called)
        WRONG(t, "%s: the loss is called 'loss': write [%s loss]", l->at, l->s.kind);
    else if (!l->desc->loss && called)
        WRONG(t, "%s: 'loss' is the name of the last layer, a loss; choose another", l->at);
}

static void bind_options(ini_net *t, ini_layer *l)
{
    if (l->desc == NULL || l->desc->opts_bytes == 0)
        return;
    l->opts = dt_alloc(1, l->desc->opts_bytes);
    if (l->opts == NULL)
        note(t, DT_FAIL(t->err, DT_E_NOMEM, "%s: out of memory", l->at));
    else
        note(t, dt_config_bind(t->c, l->s.text, l->desc->opts, l->opts, t->err));
}

/* What the layers say themselves, with what takes the place of [model]'s key. */
static const struct {
    const char *key, *instead;
} of_named_models[] = {
    {"width", "each layer states its channels, as out"},
    {"counts", "write a section for each layer"},
    {"layers", "write a section for each layer"},
    {"heads", "[attention NAME] has heads"},
    {"vocab", "[embedding NAME] has vocab, and the output layer out"},
    {"tiles", "[linear NAME] and [fc NAME] have tiles"},
    {"head_tiles", "write [softmax_tile NAME] sections and [tiled_cross_entropy loss]"},
    {"attention", "[attention NAME] has kind"},
    {"dropout", "write a [dropout NAME] section"},
};

/* A key that would change nothing. Of a run's own configuration, in which all stand, defaults are
 * let pass. */
static void check_model_keys(ini_net *t)
{
    for (size_t i = 0; i < DT_COUNT(of_named_models); i++) {
        const char *key = of_named_models[i].key, *file;
        int line;
        char place[PLACE_BYTES];
        bool same = false;
        const char *value = dt_config_get(t->c, "model", key, &file, &line);
        if (value == NULL)
            continue;
        if (!dt_config_typed(t->c, "model", key))
            note(t, dt_config_same(t->c, "model", key, value, NULL, &same, t->err));
        if (!same)
            WRONG(t, "%s: [model] %s = %.80s is for models with a name; here %s",
                dt_config_place(place, sizeof place, file, line), key, value,
                of_named_models[i].instead);
    }
}

/* Everything that can be said without shapes. */
static dt_status read_layers(ini_net *t)
{
    check_model_keys(t);
    for (size_t i = 0; i < t->n; i++) {
        check_kind(t, &t->layer[i]);
        check_keys(t, &t->layer[i]);
        check_name(t, i);
        check_loss(t, i);
        wire(t, i);
        bind_options(t, &t->layer[i]);
    }
    for (size_t i = 0; i + 1 < t->n && t->status == DT_OK; i++)
        if (!t->layer[i].read)
            WRONG(t,
                "%s: no layer takes its value; name it in the input of one below, or remove it",
                t->layer[i].at);
    return t->status;
}

static void end(ini_net *t)
{
    for (size_t i = 0; i < t->n; i++)
        dt_free(t->layer[i].opts);
    dt_free(t->layer);
    dt_names_deinit(&t->names);
}

/* Sections of layers whose keys nobody knows are not complained of key by key. */
static void mark_unread(const ini_net *t)
{
    for (size_t i = 0; i < dt_config_section_count(t->c); i++) {
        const dt_section s = dt_config_section(t->c, i);
        if (is_layer(&s) && (t->n == 0 || t->n > DTI_INI_LAYERS || find_kind(s.kind) == NULL))
            dt_config_mark_known(t->c, s.text);
    }
}

dt_status dt_ini_check(dt_config *c, dt_err *err)
{
    ini_net t = {.c = c, .err = err};
    dt_status st = collect(&t);
    if (st == DT_OK)
        st = read_layers(&t);
    if (st != DT_OK)
        mark_unread(&t);
    end(&t);
    return st;
}

/* --- the graph --- */

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

static dt_status check_opts(const ini_net *t, const dt_model_opts *o)
{
    if ((o->image < 1) == (o->context < 1))
        return DT_FAIL(t->err, DT_E_CONFIG,
            "%s: a network of layers needs [model] image, its height and width in pixels, or "
            "[model] context, the length of a sequence of tokens%s",
            t->layer[0].s.file, o->image > 0 ? "; not both" : "");
    if (o->context > 0 && o->channels > 0)
        return DT_FAIL(t->err, DT_E_CONFIG,
            "[model] channels = %" PRId64 " is of images, and %s reads tokens; remove it",
            o->channels, t->layer[0].s.file);
    return DT_OK;
}

static dt_status create(const ini_net *t, const dt_model_opts *o, dt_graph **out)
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
    const dt_shape image = {
        1, dt_sides_h(o->image), dt_sides_w(o->image), o->channels > 0 ? o->channels : 3};
    const dt_shape tokens = {1, o->context, 1, 1};
    return dt_graph_create(out, given != NULL && *given != '\0' ? given : name,
        o->context > 0 ? tokens : image, o->classes > 0 ? o->classes : 1, t->err);
}

static int32_t node_of(const ini_net *t, int32_t layer)
{
    return layer == DT_GRAPH_INPUT ? DT_GRAPH_INPUT : t->layer[layer].node;
}

static dt_status add_layer(const ini_net *t, ini_layer *l, dt_graph *g)
{
    int32_t in[DT_MAX_IN];
    for (int k = 0; k < l->n_in; k++)
        in[k] = node_of(t, l->in[k]);
    if (l->tiles < 2)
        return dt_graph_add(g, l->desc, l->s.name, l->opts, in, l->n_in, &l->node, t->err);
    dti_net n = {.g = g, .opts = {.tiles = l->tiles}, .err = t->err};
    l->node = dti_add_weighted(&n, l->desc, l->opts, in[0], l->s.name);
    return n.status;
}

static dt_status add_layers(const ini_net *t, dt_graph *g)
{
    for (size_t i = 0; i < t->n; i++) {
        ini_layer *l = &t->layer[i];
        DT_TRY(t->err, add_layer(t, l, g), "%s cannot be built", l->at);
        if (l->shares == DT_SHARES_NONE)
            continue;
        char at[AT_BYTES];
        key_place(t, at, sizeof at, l, "shares");
        DT_TRY(t->err, dt_graph_share(g, l->node, node_of(t, l->shares), t->err), "%s cannot share",
            at);
    }
    return DT_OK;
}

/* A label a sample, a position of a sequence, or a pixel of the image. */
static dt_status check_scores(const ini_net *t, const ini_layer *l, dt_shape scores, dt_shape image)
{
    const ini_layer *last = &t->layer[t->n - 1];
    if (last->desc->labels != DT_LABEL_CLASS) /* as many labels as there are values */
        return DT_OK;
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

/* What ends a network in so many scores: a sample, a pixel or a position. */
static const char *end_of(char to[96], const dt_graph *g, dt_shape scores, int64_t classes)
{
    const bool many = scores.h * scores.w > 1, tokens = dt_graph_tokens(g) > 0;
    snprintf(to, 96, "[%s NAME] out = %" PRId64 "%s",
        !many    ? "fc"
        : tokens ? "linear"
                 : "conv",
        classes, many && !tokens ? ", kernel = 1" : "");
    return to;
}

static dt_status add_loss(const ini_net *t, const dt_model_opts *o, dt_graph *g)
{
    const ini_layer *last = &t->layer[t->n - 1];
    const int32_t from = last->desc->loss ? last->in[0] : (int32_t)t->n - 1;
    const int32_t scores = node_of(t, from);
    int32_t id;
    if (!last->desc->loss)
        DT_TRY(t->err,
            dt_graph_add(g, dti_loss_of(g, scores), "loss", NULL, &scores, 1, &id, t->err),
            "%s cannot be the last layer", last->at);
    const ini_layer *l = from == DT_GRAPH_INPUT ? last : &t->layer[from];
    DT_CHECK(check_scores(t, l, dt_graph_shape(g, scores), g->input));
    char end[96];
    int64_t made = 0;
    size_t at = 0;
    DT_CHECK(dt_graph_check_types(g, t->err));
    for (dt_scores s; dt_graph_scores(g, &at, &s);)
        made += s.n;
    if (o->classes < 1)
        g->classes = made;
    else if (made != o->classes && last->desc->labels != DT_LABEL_CLASS)
        return DT_FAIL(t->err, DT_E_CONFIG,
            "%s makes %" PRId64 " values for %s, and [model] classes = %" PRId64
            "; leave that out, or end with a layer that makes so many",
            l->at, made, last->desc->name, o->classes);
    else if (made != o->classes)
        return DT_FAIL(t->err, DT_E_CONFIG,
            "%s makes %" PRId64 " scores, and there are %" PRId64
            " classes; make them equal, or end with a layer that makes so many, %s",
            l->at, made, o->classes, end_of(end, g, dt_graph_shape(g, scores), o->classes));
    return DT_OK;
}

/* *g belongs to the caller after a failure too. */
static dt_status make_graph(const ini_net *t, const dt_model_opts *o, dt_graph **g)
{
    DT_CHECK(create(t, o, g));
    DT_CHECK(add_layers(t, *g));
    DT_CHECK(add_loss(t, o, *g));
    DT_TRY(t->err, dt_graph_check(*g, t->err), "in %s", t->layer[0].s.file);
    return DT_OK;
}

static dt_status build(ini_net *t, const dt_model_opts *o, dt_graph **g)
{
    DT_CHECK(collect(t));
    DT_CHECK(read_layers(t));
    return make_graph(t, o, g);
}

dt_status dt_ini_network(dt_config *c, const dt_model_opts *o, dt_graph **out, dt_err *err)
{
    dt_graph *g = NULL;
    ini_net t = {.c = c, .err = err};
    *out = NULL;
    const dt_status st = build(&t, o, &g);
    if (st == DT_OK)
        *out = g;
    else
        dt_graph_destroy(g);
    end(&t);
    return st;
}
