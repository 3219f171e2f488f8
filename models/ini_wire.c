/* What a layer is connected to: whose values it takes, and whose weight it uses. */
#include "models/ini_parts.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/config/nearest.h"

typedef struct wiring {
    const char *input, *shares;
} wiring;

/* clang-format off */
static const dt_opt wiring_rows[] = {
    {"input", DT_OPT_LIST, offsetof(wiring, input), "", 0, 0, NULL, "layers", "whose values it takes; default: the section above"},
    {"shares", DT_OPT_STR, offsetof(wiring, shares), "", 0, 0, NULL, NULL, "a layer whose weight it uses instead of one of its own"},
    {0},
};
/* clang-format on */

/* @key: the list or name in which it stands. */
static void no_such_layer(
    dti_ini_net *t, const dti_ini_layer *l, const char *at, const char *name, const char *key)
{
    const bool input = strcmp(key, "input") == 0;
    const char **words = dt_alloc((size_t)(l - t->layer) + 2, sizeof *words);
    const char *near = NULL;
    if (words != NULL) {
        size_t n = 0;
        if (input)
            words[n++] = "image";
        for (const dti_ini_layer *k = t->layer; k < l; k++)
            words[n++] = k->s.name;
        near = dt_nearest(name, words);
    }
    dt_free(words);
    if (near != NULL)
        DTI_INI_WRONG(t, "%s: no layer is called '%.95s', did you mean '%s'?", at, name, near);
    else
        DTI_INI_WRONG(t, "%s: no layer is called '%.95s'; %s names %s", at, name, key,
            input ? "layers above, or image" : "a layer above");
}

/* Resolve one name of the list; @at is the place of the key. */
static void connect(dti_ini_net *t, dti_ini_layer *l, const char *at, const char *name)
{
    if (strcmp(name, "image") == 0) {
        l->in[l->n_in++] = DT_GRAPH_INPUT;
        return;
    }
    const size_t self = (size_t)(l - t->layer), i = dti_ini_find(t, name);
    if (i == t->n)
        no_such_layer(t, l, at, name, "input");
    else if (i == self)
        DTI_INI_WRONG(t, "%s takes itself as input; a layer can use only layers above it", at);
    else if (i > self)
        DTI_INI_WRONG(t,
            "%s takes '%s', which stands below at %s; a layer can use only layers above it, "
            "so a network has no cycles",
            at, name, t->layer[i].at);
    else
        t->layer[i].read = true;
    l->in[l->n_in++] = i < self ? (int32_t)i : DT_GRAPH_INPUT;
}

static void connect_list(dti_ini_net *t, dti_ini_layer *l, const char *list)
{
    char at[256], name[DT_LINE_BYTES];
    dti_ini_key_place(t, at, sizeof at, l, "input");
    for (const char *p = list; p != NULL; p = *p == ',' ? p + 1 : NULL) {
        const size_t len = strcspn(p, ",");
        if (l->n_in == DT_MAX_IN) {
            DTI_INI_WRONG(t, "%s: a layer has at most %d inputs", at, DT_MAX_IN);
            return;
        }
        snprintf(name, sizeof name, "%.*s", (int)(len < sizeof name ? len : sizeof name - 1), p);
        connect(t, l, at, name);
        p += len;
    }
}

static void find_owner(dti_ini_net *t, dti_ini_layer *l, const char *name)
{
    char at[256];
    const size_t self = (size_t)(l - t->layer), i = dti_ini_find(t, name);
    dti_ini_key_place(t, at, sizeof at, l, "shares");
    if (i < self)
        l->shares = (int32_t)i;
    else if (i == t->n)
        no_such_layer(t, l, at, name, "shares");
    else
        DTI_INI_WRONG(t,
            "%s uses the weight of '%.95s', which %s; a layer can use only the weight of a "
            "layer above it",
            at, name, i == self ? "is itself" : "stands below");
}

void dti_ini_wire(dti_ini_net *t, size_t i)
{
    dti_ini_layer *l = &t->layer[i];
    wiring w = {NULL, NULL};
    const dt_status st = dt_config_bind(t->c, l->s.text, wiring_rows, &w, t->err);
    if (st != DT_OK) {
        dti_ini_note(t, st);
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
    const dt_layer_desc *d = l->desc;
    if (d == NULL || (l->n_in >= d->min_in && l->n_in <= d->max_in))
        return;
    DTI_INI_WRONG(t, "%s has %d inputs; %s takes %d to %d, as in input = NAME, NAME", l->at,
        l->n_in, d->name, d->min_in, d->max_in);
}
