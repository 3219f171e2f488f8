/* Graphs: layers appended and checked, and questions about them. */
#include "engine/graph.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/memory_stream.h"

/* Largest batch the overflow checks promise room for. */
enum { MAX_BATCH = 1 << 20 };

static bool shape_fits(const dt_shape *s)
{
    if (s->n != 1 || s->h < 1 || s->w < 1 || s->c < 1)
        return false;
    const dt_shape most = {MAX_BATCH, s->h, s->w, s->c};
    size_t bytes;
    return dt_shape_bytes(&most, &bytes);
}

static bool param_fits(const dt_param_info *p)
{
    size_t bytes = sizeof(float);
    for (int i = 0; i < p->rank; i++)
        if (p->d[i] < 1 || !dt_mul_bytes(bytes, (size_t)p->d[i], &bytes) || bytes > INT64_MAX / 2)
            return false;
    return true;
}

/* Names are printed in plans and dumps, where blanks separate columns, and name tensors in files.
 */
static dt_status check_name(const char *what, const char *name, dt_err *err)
{
    const size_t n = strlen(name);
    if (n == 0)
        return DT_FAIL(err, DT_E_CONFIG, "a %s without a name", what);
    if (n >= DT_NAME_BYTES)
        return DT_FAIL(err, DT_E_CONFIG, "%s '%.40s...': a name has at most %d bytes, this has %zu",
            what, name, DT_NAME_BYTES - 1, n);
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && strchr("._-", name[i]) == NULL)
            return DT_FAIL(err, DT_E_CONFIG,
                "%s '%s': a name consists of letters, digits, '.', '_' and '-'", what, name);
    return DT_OK;
}

dt_status dt_graph_create(
    dt_graph **out, const char *name, dt_shape input, int64_t classes, dt_err *err)
{
    *out = NULL;
    DT_CHECK(check_name("network", name, err));
    if (!shape_fits(&input))
        return DT_FAIL(err, DT_E_CONFIG,
            "network '%s': an input of %" PRId64 "x%" PRId64 "x%" PRId64
            " (height, width, channels) is empty or too large",
            name, input.h, input.w, input.c);
    if (classes < 1)
        return DT_FAIL(
            err, DT_E_CONFIG, "network '%s': %" PRId64 " classes; at least 1", name, classes);
    dt_graph *g = dt_alloc(1, sizeof *g);
    if (g == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "network '%s': out of memory", name);
    snprintf(g->name, sizeof g->name, "%s", name);
    g->input = input;
    g->classes = classes;
    *out = g;
    return DT_OK;
}

static void free_opts(const dt_node *node)
{
    dt_free(node->opts);
    dt_free(node->opts_text);
}

void dt_graph_destroy(dt_graph *g)
{
    if (g == NULL)
        return;
    for (size_t i = 0; i < g->n_node; i++)
        free_opts(&g->node[i]);
    dt_names_deinit(&g->names);
    dt_free(g->node);
    dt_free(g);
}

bool dt_graph_batch_statistics(const dt_graph *g)
{
    for (size_t i = 0; i < g->n_node; i++)
        if (g->node[i].desc->batch_statistics && !g->node[i].frozen)
            return true;
    return false;
}

/* ---- names ---- */

static dt_named names_of(const dt_graph *g)
{
    return (dt_named){g->node, sizeof *g->node, offsetof(dt_node, name), .refers = false};
}

int32_t dt_graph_find(const dt_graph *g, const char *name)
{
    const size_t found = dt_names_find(&g->names, names_of(g), name);
    return found > 0 ? (int32_t)found - 1 : DT_GRAPH_INPUT - 1;
}

/* ---- layers ---- */

static const char *value_name(const dt_graph *g, int32_t value)
{
    return value == DT_GRAPH_INPUT ? "the input" : g->node[value].name;
}

/* Appends to the trail which shapes the layer met, so that its own note need not. */
static dt_status add_shapes(
    const dt_graph *g, const dt_node *node, const dt_shape *x, dt_status why, dt_err *err)
{
    char text[512] = "";
    size_t at = 0;
    for (int i = 0; i < node->n_in && at < sizeof text; i++)
        at += (size_t)snprintf(text + at, sizeof text - at,
            "%s%s (%" PRId64 "x%" PRId64 "x%" PRId64 ")", i > 0 ? ", " : "",
            value_name(g, node->in[i]), x[i].h, x[i].w, x[i].c);
    return DT_FAIL(err, why, "in layer '%s' (%s), whose inputs are %s, height x width x channels",
        node->name, node->desc->name, text);
}

static dt_status check_info(const dt_node *node, dt_err *err)
{
    const dt_layer_info *info = &node->info;
    DT_ASSERT(info->n_param >= 0 && info->n_param <= DT_MAX_PARAM);
    DT_ASSERT(info->n_stash >= 0 && info->n_stash <= DT_MAX_STASH);
    if (!shape_fits(&info->y))
        return DT_FAIL(err, DT_E_CONFIG,
            "an output of %" PRId64 "x%" PRId64 "x%" PRId64 " is empty or too large", info->y.h,
            info->y.w, info->y.c);
    for (int i = 0; i < info->n_param; i++)
        if (!param_fits(&info->param[i]))
            return DT_FAIL(err, DT_E_CONFIG, "its %s is too large", info->param[i].name);
    return DT_OK;
}

static dt_status wrong_inputs(const dt_node *node, int n_in, dt_err *err)
{
    const dt_layer_desc *desc = node->desc;
    char takes[48], to[24] = "";
    if (desc->max_in > desc->min_in)
        snprintf(to, sizeof to, " to %d", desc->max_in);
    snprintf(takes, sizeof takes, "%d%s", desc->min_in, to);
    return DT_FAIL(err, DT_E_CONFIG, "layer '%s' (%s) has %d input%s; it takes %s", node->name,
        desc->name, n_in, n_in == 1 ? "" : "s", takes);
}

/* Everything but the memory of the node. */
static dt_status fill_node(dt_graph *g, dt_node *node, const int32_t *in, int n_in, dt_err *err)
{
    const dt_layer_desc *desc = node->desc;
    if (n_in < desc->min_in || n_in > desc->max_in || n_in > DT_MAX_IN)
        return wrong_inputs(node, n_in, err);
    if (dt_graph_find(g, node->name) >= 0)
        return DT_FAIL(
            err, DT_E_CONFIG, "two layers are called '%s'; give one another name", node->name);
    dt_shape x[DT_MAX_IN];
    node->n_in = n_in;
    for (int i = 0; i < n_in; i++) {
        if (in[i] < DT_GRAPH_INPUT || in[i] >= (int32_t)g->n_node)
            return DT_FAIL(err, DT_E_CONFIG,
                "layer '%s' reads value %" PRId32 ", which no earlier layer makes", node->name,
                in[i]);
        node->in[i] = in[i];
        x[i] = dt_graph_shape(g, in[i]);
    }
    dt_status st = desc->infer(node->opts, x, n_in, &node->info, err);
    if (desc->loss && (desc->fp32 & DT_BIT(DT_X)) == 0)
        node->info.scores = x[0].c;
    if (st == DT_OK)
        st = check_info(node, err);
    return st == DT_OK ? DT_OK : add_shapes(g, node, x, st, err);
}

static void print_options(const dt_node *node, FILE *f)
{
    const dt_opt *row = node->desc->opts;
    for (size_t i = 0; row != NULL && row[i].key != NULL; i++) {
        fprintf(f, i > 0 ? " %s=" : "%s=", row[i].key);
        dt_opt_print(f, &row[i], node->opts);
    }
}

/* NULL: no memory. */
static char *options_text(const dt_node *node)
{
    dt_memory_stream text;
    if (dt_memory_open(&text, "", NULL) != DT_OK)
        return NULL;
    print_options(node, text.f);
    return dt_memory_close(&text, DT_OK, NULL) == DT_OK ? text.text : NULL;
}

static dt_status fill_opts(dt_node *node, const void *opts, dt_err *err)
{
    const dt_layer_desc *d = node->desc;
    if (d->opts_bytes > 0)
        node->opts = dt_alloc(1, d->opts_bytes);
    if (node->opts != NULL && opts != NULL)
        memcpy(node->opts, opts, d->opts_bytes);
    else if (node->opts != NULL)
        dt_opt_defaults(d->opts, node->opts);
    if (node->opts != NULL || d->opts_bytes == 0)
        node->opts_text = options_text(node);
    return node->opts_text != NULL
               ? DT_OK
               : DT_FAIL(err, DT_E_NOMEM, "layer '%s': out of memory", node->name);
}

dt_status dt_graph_add(dt_graph *g, const dt_layer_desc *desc, const char *name, const void *opts,
    const int32_t *in, int n_in, int32_t *id, dt_err *err)
{
    DT_CHECK(check_name("layer", name, err));
    if (g->n_node >= INT32_MAX / 2 || !dt_grow(&g->node, &g->cap, g->n_node, sizeof *g->node) ||
        !dt_names_grow(&g->names, names_of(g), g->n_node))
        return DT_FAIL(err, DT_E_NOMEM, "layer '%s': out of memory", name);
    dt_node *node = &g->node[g->n_node];
    *node = (dt_node){.desc = desc, .shares = DT_SHARES_NONE, .key = g->next_key};
    snprintf(node->name, sizeof node->name, "%s", name);
    dt_status st = fill_opts(node, opts, err);
    if (st == DT_OK)
        st = fill_node(g, node, in, n_in, err);
    if (st != DT_OK) {
        free_opts(node);
        return st;
    }
    g->next_key++;
    *id = (int32_t)g->n_node++;
    dt_names_add(&g->names, names_of(g), (size_t)*id);
    return DT_OK;
}

void dt_graph_join(dt_graph *g, int32_t node, int32_t with, dt_part part)
{
    DT_ASSERT(node == (int32_t)g->n_node - 1 && with >= 0 && with <= node);
    g->node[node].part = part;
    g->node[node].key = g->node[with].key;
    g->next_key = g->node[with].key + 1;
}

void dti_graph_sharing(const dt_graph *g, int32_t *last, int32_t *n)
{
    for (size_t i = 0; i < g->n_node; i++) {
        const int32_t owner = g->node[i].shares;
        last[i] = DT_SHARES_NONE;
        if (n != NULL)
            n[i] = 0;
        if (owner == DT_SHARES_NONE)
            continue;
        last[owner] = (int32_t)i; /* it comes before those that share with it */
        if (n != NULL)
            n[owner]++;
    }
}

size_t dti_graph_value_bytes(const dt_graph *g, int32_t value)
{
    const dt_shape s = dt_graph_shape(g, value);
    return (size_t)dt_shape_sample(&s) * dt_dtype_bytes(dt_graph_dtype(g, value));
}

/* The first layer that takes the input for ids, or for values; NULL: there is none. */
static const dt_node *input_reader(const dt_graph *g, bool ids)
{
    for (size_t i = 0; i < g->n_node; i++)
        for (int k = 0; k < g->node[i].n_in && !g->node[i].desc->identity; k++)
            if (g->node[i].desc->reads_ids == ids &&
                dt_graph_behind(g, g->node[i].in[k]) == DT_GRAPH_INPUT)
                return &g->node[i];
    return NULL;
}

dt_dtype dt_graph_dtype(const dt_graph *g, int32_t value)
{
    value = dt_graph_behind(g, value);
    if (value == DT_GRAPH_INPUT)
        return dti_graph_input_dtype(g);
    return (g->node[value].desc->fp32 & DT_BIT(DT_Y)) != 0 ? DT_F32 : g->dtype;
}

dt_dtype dti_graph_input_dtype(const dt_graph *g)
{
    return g->dtype == DT_F32 || input_reader(g, true) != NULL ? DT_F32 : g->dtype;
}

int64_t dt_graph_tokens(const dt_graph *g)
{
    return input_reader(g, true) != NULL ? dt_shape_sample(&g->input) : 0;
}

int64_t dt_graph_vocabulary(const dt_graph *g)
{
    int64_t least = 0;
    for (size_t i = 0; i < g->n_node; i++) {
        const dt_node *nd = &g->node[i];
        if (nd->desc->reads_ids && dt_graph_behind(g, nd->in[0]) == DT_GRAPH_INPUT &&
            (least == 0 || nd->info.ids < least))
            least = nd->info.ids;
    }
    return least;
}

bool dt_graph_scores(const dt_graph *g, size_t *at, dt_scores *s)
{
    while (*at < g->n_node && g->node[*at].info.scores == 0)
        ++*at;
    if (*at == g->n_node)
        return false;
    const dt_node *nd = &g->node[(*at)++];
    *s = (dt_scores){nd->in[0], nd->info.first_score, nd->info.scores};
    return true;
}

dt_shape dt_graph_output(const dt_graph *g)
{
    size_t at = 0;
    dt_scores s = {.value = g->node[g->n_node - 1].in[0]};
    (void)dt_graph_scores(g, &at, &s);
    return dt_graph_shape(g, s.value);
}

int64_t dt_graph_score_rows(const dt_graph *g)
{
    const dt_shape output = dt_graph_output(g);
    return output.h * output.w;
}

dt_label_kind dt_graph_label_kind(const dt_graph *g)
{
    return g->node[g->n_node - 1].desc->labels;
}

int64_t dt_graph_labels(const dt_graph *g)
{
    const dt_shape output = dt_graph_output(g);
    const bool classes = dt_graph_label_kind(g) == DT_LABEL_CLASS;
    return classes ? output.h * output.w : dt_shape_sample(&output);
}

int64_t dt_graph_counted(const dt_graph *g)
{
    return dt_graph_label_kind(g) == DT_LABEL_CLASS ? dt_counted_classes(dt_graph_output(g)) : 0;
}

dt_shape dt_graph_shape(const dt_graph *g, int32_t value)
{
    return value == DT_GRAPH_INPUT ? g->input : g->node[value].info.y;
}

int64_t dt_param_count(const dt_param_info *p)
{
    int64_t n = 1;
    for (int i = 0; i < p->rank; i++)
        n *= p->d[i];
    return n;
}

int64_t dti_part_place(const dt_param_info *p, dt_part part, int64_t at, int64_t *run)
{
    int64_t inner = 1;
    for (int i = p->along + 1; i < p->rank; i++)
        inner *= p->d[i];
    const int64_t each = p->d[p->along] * inner;
    *run = each - at % each;
    return (at / each * part.of + part.first) * inner + at % each;
}

int32_t dt_graph_behind(const dt_graph *g, int32_t value)
{
    while (value != DT_GRAPH_INPUT && g->node[value].desc->identity)
        value = g->node[value].in[0];
    return value;
}

/* Where a maximum lies is a number without a gradient: such a layer has no backward op, and no
 * gradient goes through it. */
static bool has_gradient(const dt_layer_desc *d)
{
    return d->identity || d->shares_dy || d->form[DT_BACKWARD].suffix != NULL;
}

bool dti_graph_kept(const dt_graph *g, int32_t node)
{
    return g->node[dti_graph_owner(g, node)].frozen;
}

void dti_graph_trained(const dt_graph *g, bool *before, bool *trained)
{
    for (size_t i = 0; i < g->n_node; i++) {
        const dt_node *nd = &g->node[i];
        before[i] = false;
        for (int k = 0; k < nd->n_in; k++)
            before[i] = before[i] || (nd->in[k] != DT_GRAPH_INPUT && trained[nd->in[k]]);
        trained[i] = before[i] && has_gradient(nd->desc);
        for (int k = 0; k < dti_graph_params(nd) && !dti_graph_kept(g, (int32_t)i); k++)
            trained[i] = trained[i] || !nd->info.param[k].buffer;
    }
}

int64_t dt_graph_parameters(const dt_graph *g)
{
    int64_t n = 0;
    for (size_t i = 0; i < g->n_node; i++)
        for (int k = 0; k < g->node[i].info.n_param; k++)
            if (!g->node[i].info.param[k].buffer)
                n += dt_param_count(&g->node[i].info.param[k]);
    return n;
}

static bool value_is_read(const dt_graph *g, int32_t value)
{
    for (size_t i = (size_t)(value + 1); i < g->n_node; i++)
        for (int k = 0; k < g->node[i].n_in; k++)
            if (g->node[i].in[k] == value)
                return true;
    return false;
}

/* Of each class once, in order. */
static dt_status check_scores(const dt_graph *g, dt_err *err)
{
    int64_t next = 0;
    size_t at = 0;
    dt_scores s = {.value = DT_GRAPH_INPUT};
    while (dt_graph_scores(g, &at, &s)) {
        if (s.first != next)
            return DT_FAIL(err, DT_E_CONFIG,
                "network '%s': the scores of '%s' begin with class %" PRId64
                ", but those before end at %" PRId64 "; set first = %" PRId64,
                g->name, value_name(g, s.value), s.first, next, next);
        next += s.n;
    }
    if (next != g->classes)
        return DT_FAIL(err, DT_E_CONFIG,
            "network '%s': '%s' gives the loss %" PRId64 " scores for %" PRId64
            " classes; make them equal",
            g->name, value_name(g, s.value), next, g->classes);
    return DT_OK;
}

static dt_status check_loss(const dt_graph *g, dt_err *err)
{
    for (size_t i = 0; i + 1 < g->n_node; i++)
        if (g->node[i].desc->loss)
            return DT_FAIL(err, DT_E_CONFIG,
                "network '%s': '%s' is a loss but not the last layer; a network has one loss, last",
                g->name, g->node[i].name);
    const dt_node *last = &g->node[g->n_node - 1];
    if (!last->desc->loss)
        return DT_FAIL(err, DT_E_CONFIG,
            "network '%s': the last layer, '%s' (%s), is no loss; add one, such as cross_entropy",
            g->name, last->name, last->desc->name);
    return check_scores(g, err);
}

dt_status dt_graph_check_types(const dt_graph *g, dt_err *err)
{
    for (size_t i = 0; i < g->n_node; i++) {
        const dt_node *nd = &g->node[i];
        for (int k = 0; k < nd->n_in; k++) {
            const bool wants = (nd->desc->fp32 & DT_BIT(DT_X + k)) != 0;
            const bool is =
                nd->in[k] != DT_GRAPH_INPUT && (g->node[nd->in[k]].desc->fp32 & DT_BIT(DT_Y)) != 0;
            if (wants != is)
                return DT_FAIL(err, DT_E_CONFIG,
                    "network '%s': input %d of '%s' (%s) is '%s', which %s what that wants; "
                    "softmax_tile goes to softmax_tile, as its second input, and to "
                    "tiled_cross_entropy",
                    g->name, k + 1, nd->name, nd->desc->name, value_name(g, nd->in[k]),
                    wants ? "is not" : "tells of scores and is not");
        }
    }
    return DT_OK;
}

/* Whether node @i gives a map that a flatten marks as a vector, or that is still one behind layers
 * that leave it so; @flat: of the nodes before it. */
static bool is_flat(const dt_graph *g, size_t i, const bool *flat)
{
    const dt_node *nd = &g->node[i];
    const dt_shape y = dt_graph_shape(g, (int32_t)i);
    bool any = nd->desc->identity;
    for (int k = 0; k < nd->n_in; k++)
        any = any || (nd->in[k] != DT_GRAPH_INPUT && flat[nd->in[k]]);
    return any && nd->desc->reads_flat && y.h * y.w > 1;
}

/* A flatten computes nothing: who reads the map behind it place by place would not see it. */
static dt_status check_flat(const dt_graph *g, dt_err *err)
{
    bool *flat = dt_alloc(g->n_node, sizeof *flat);
    dt_status st = DT_OK;
    if (flat == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to check network '%s'", g->name);
    for (size_t i = 0; i < g->n_node && st == DT_OK; i++) {
        const dt_node *nd = &g->node[i];
        flat[i] = is_flat(g, i, flat);
        for (int k = 0; k < nd->n_in && !nd->desc->reads_flat && !nd->desc->outside; k++)
            if (st == DT_OK && nd->in[k] != DT_GRAPH_INPUT && flat[nd->in[k]])
                st = DT_FAIL(err, DT_E_CONFIG,
                    "network '%s': '%s' (%s) reads '%s' as a map, though a flatten makes it a "
                    "vector: fc is the layer that reads one; without flatten it is a map",
                    g->name, nd->name, nd->desc->name, value_name(g, nd->in[k]));
    }
    dt_free(flat);
    return st;
}

/* Tokens are whole numbers up to 2^24, which the input alone keeps in another type. */
static dt_status check_ids(const dt_graph *g, dt_err *err)
{
    for (size_t i = 0; i < g->n_node && g->dtype != DT_F32; i++) {
        const dt_node *nd = &g->node[i];
        if (nd->desc->reads_ids && dt_graph_behind(g, nd->in[0]) != DT_GRAPH_INPUT)
            return DT_FAIL(err, DT_E_CONFIG,
                "network '%s': '%s' (%s) reads '%s' as tokens, which do not fit into %s; set "
                "train.precision = fp32",
                g->name, nd->name, nd->desc->name, value_name(g, nd->in[0]),
                dt_dtype_name(g->dtype));
    }
    return DT_OK;
}

dt_status dt_graph_check(const dt_graph *g, dt_err *err)
{
    if (g->n_node == 0)
        return DT_FAIL(err, DT_E_CONFIG, "network '%s' has no layers", g->name);
    DT_CHECK(check_loss(g, err));
    DT_CHECK(dt_graph_check_types(g, err));
    DT_CHECK(check_flat(g, err));
    DT_CHECK(check_ids(g, err));
    for (int32_t v = DT_GRAPH_INPUT; v + 1 < (int32_t)g->n_node; v++)
        if (!value_is_read(g, v))
            return DT_FAIL(err, DT_E_CONFIG,
                "network '%s': no layer reads %s; remove it or name it as an input", g->name,
                value_name(g, v));
    const dt_node *ids = input_reader(g, true), *values = input_reader(g, false);
    if (g->dtype != DT_F32 && ids != NULL && values != NULL)
        return DT_FAIL(err, DT_E_CONFIG,
            "network '%s': '%s' (%s) reads the input as tokens, which do not fit into %s, but '%s' "
            "(%s) as values; set train.precision = fp32",
            g->name, ids->name, ids->desc->name, dt_dtype_name(g->dtype), values->name,
            values->desc->name);
    return DT_OK;
}
