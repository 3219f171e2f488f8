/* Which sections are layers, and what can be said of them without shapes. */
#include "models/ini_parts.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/config/nearest.h"
#include "layers/registry.h"

static void put_place(char *to, size_t bytes, const char *file, int line, const dt_section *s)
{
    if (line > 0)
        snprintf(to, bytes, "%.120s:%d: [%.100s]", file, line, s->text);
    else
        snprintf(to, bytes, "%.120s: [%.100s]", file, s->text);
}

void dti_ini_key_place(
    const dti_ini_net *t, char *to, size_t bytes, const dti_ini_layer *l, const char *key)
{
    const char *file = l->s.file;
    int line = l->s.line;
    if (dt_config_get(t->c, l->s.text, key, &file, &line) != NULL)
        put_place(to, bytes, file, line, &l->s);
    else
        snprintf(to, bytes, "%s", l->at);
}

void dti_ini_note(dti_ini_net *t, dt_status st)
{
    if (t->status == DT_OK)
        t->status = st;
}

size_t dti_ini_find(const dti_ini_net *t, const char *name)
{
    size_t i = 0;
    while (i < t->n && strcmp(t->layer[i].s.name, name) != 0)
        i++;
    return i;
}

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

static dt_status collect(dti_ini_net *t)
{
    const size_t sections = dt_config_section_count(t->c);
    const size_t most = sections <= DT_INI_LAYERS ? sections : DT_INI_LAYERS + 1;
    t->layer = dt_alloc(most, sizeof *t->layer);
    if (t->layer == NULL)
        return DT_FAIL(t->err, DT_E_NOMEM, "out of memory for %zu layers", most);
    for (size_t i = 0; i < sections; i++) {
        const dt_section s = dt_config_section(t->c, i);
        if (!is_layer(&s))
            continue;
        dti_ini_layer *l = &t->layer[t->n];
        l->s = s;
        l->shares = DT_SHARES_NONE;
        put_place(l->at, sizeof l->at, s.file, s.line, &s);
        if (++t->n > DT_INI_LAYERS)
            return DT_FAIL(t->err, DT_E_CONFIG,
                "%s is one layer too many; a network has at most %d", l->at, DT_INI_LAYERS);
    }
    if (t->n == 0)
        return DT_FAIL(t->err, DT_E_CONFIG,
            "no layers; a layer is a section with a kind and a name, such as [conv c1]");
    return DT_OK;
}

static void check_kind(dti_ini_net *t, dti_ini_layer *l)
{
    l->desc = find_kind(l->s.kind);
    if (l->desc != NULL)
        return;
    size_t n;
    const dt_layer_desc *const *all = dt_layer_all(&n);
    const char *words[64] = {NULL};
    for (size_t i = 0; i < n && i + 1 < DT_COUNT(words); i++)
        words[i] = all[i]->name;
    const char *near = dt_nearest(l->s.kind, words);
    if (near != NULL)
        DTI_INI_WRONG(t, "%s: unknown layer '%s', did you mean '%s'?", l->at, l->s.kind, near);
    else
        DTI_INI_WRONG(
            t, "%s: unknown layer '%s'; `dnntrain list layers` shows them all", l->at, l->s.kind);
}

static void check_name(dti_ini_net *t, size_t i)
{
    const dti_ini_layer *l = &t->layer[i];
    const char *name = l->s.name;
    const size_t first = dti_ini_find(t, name);
    if (name[0] == '\0')
        DTI_INI_WRONG(t, "%s: a layer needs a name, such as [%s %s1]", l->at, l->s.kind, l->s.kind);
    else if (strcmp(name, "image") == 0)
        DTI_INI_WRONG(t, "%s: 'image' is the name of the network's input; choose another", l->at);
    else if (first < i)
        DTI_INI_WRONG(t, "%s: the name '%s' is taken by %s", l->at, name, t->layer[first].at);
}

/* One loss, last, called "loss"; nothing else is called that. */
static void check_loss(dti_ini_net *t, size_t i)
{
    const dti_ini_layer *l = &t->layer[i];
    if (l->desc == NULL)
        return;
    const bool called = strcmp(l->s.name, "loss") == 0;
    if (l->desc->loss && i + 1 < t->n)
        DTI_INI_WRONG(
            t, "%s is a loss and must be the last layer; %s follows", l->at, t->layer[i + 1].at);
    else if (l->desc->loss && !called)
        DTI_INI_WRONG(t, "%s: the loss is called 'loss': write [%s loss]", l->at, l->s.kind);
    else if (!l->desc->loss && called)
        DTI_INI_WRONG(t, "%s: 'loss' is the name of the last layer, a loss; choose another", l->at);
}

static void bind_options(dti_ini_net *t, dti_ini_layer *l)
{
    if (l->desc == NULL || l->desc->opts_bytes == 0)
        return;
    l->opts = dt_alloc(1, l->desc->opts_bytes);
    if (l->opts == NULL)
        dti_ini_note(t, DT_FAIL(t->err, DT_E_NOMEM, "%s: out of memory", l->at));
    else
        dti_ini_note(t, dt_config_bind(t->c, l->s.text, l->desc->opts, l->opts, t->err));
}

/* Everything that can be said without shapes. */
static dt_status read_layers(dti_ini_net *t)
{
    for (size_t i = 0; i < t->n; i++) {
        check_kind(t, &t->layer[i]);
        check_name(t, i);
        check_loss(t, i);
        dti_ini_wire(t, i);
        bind_options(t, &t->layer[i]);
    }
    for (size_t i = 0; i + 1 < t->n && t->status == DT_OK; i++)
        if (!t->layer[i].read)
            DTI_INI_WRONG(t, "%s: no layer takes its value", t->layer[i].at);
    return t->status;
}

static void end(dti_ini_net *t)
{
    for (size_t i = 0; i < t->n; i++)
        dt_free(t->layer[i].opts);
    dt_free(t->layer);
}

/* Sections of layers whose keys nobody knows are not complained of key by key. */
static void mark_unread(const dti_ini_net *t)
{
    for (size_t i = 0; i < dt_config_section_count(t->c); i++) {
        const dt_section s = dt_config_section(t->c, i);
        if (is_layer(&s) && (t->n == 0 || t->n > DT_INI_LAYERS || find_kind(s.kind) == NULL))
            dt_config_mark_known(t->c, s.text);
    }
}

dt_status dt_ini_check(dt_config *c, dt_err *err)
{
    dti_ini_net t = {.c = c, .err = err};
    dt_status st = collect(&t);
    if (st == DT_OK)
        st = read_layers(&t);
    if (st != DT_OK)
        mark_unread(&t);
    end(&t);
    return st;
}

static dt_status build(dti_ini_net *t, const dt_model_opts *o, dt_graph **g)
{
    DT_CHECK(collect(t));
    DT_CHECK(read_layers(t));
    return dti_ini_graph(t, o, g);
}

dt_status dt_ini_network(dt_config *c, const dt_model_opts *o, dt_graph **out, dt_err *err)
{
    dt_graph *g = NULL;
    dti_ini_net t = {.c = c, .err = err};
    *out = NULL;
    const dt_status st = build(&t, o, &g);
    if (st == DT_OK)
        *out = g;
    else
        dt_graph_destroy(g);
    end(&t);
    return st;
}
