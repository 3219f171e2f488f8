#include "memory/policies/layers.h"

#include <string.h>

#include "engine/alloc.h"

static const char *const fates[] = {
    [DT_PIN_KEEP] = "keep", [DT_PIN_MOVE] = "move", [DT_PIN_RECOMPUTE] = "recompute"};

bool dt_glob(const char *glob, const char *name)
{
    const char *star = NULL, *from = NULL; /* the last star, and where what it covers ends */
    while (*name != '\0') {
        if (*glob == '*') {
            star = glob++;
            from = name;
        } else if (*glob == '?' || *glob == *name) {
            glob++;
            name++;
        } else if (star != NULL) {
            glob = star + 1;
            name = ++from;
        } else {
            return false;
        }
    }
    return glob[strspn(glob, "*")] == '\0';
}

/* One line of the section. */
typedef struct line {
    const char *glob, *value;
    char at[512]; /* "FILE:LINE" */
} line;

static dt_status unknown_fate(const line *l, dt_err *err)
{
    const char *const words[] = {
        fates[DT_PIN_KEEP], fates[DT_PIN_MOVE], fates[DT_PIN_RECOMPUTE], NULL};
    const char *near = dt_nearest(l->value, words);
    return DT_FAIL(err, DT_E_CONFIG,
        "%s: [" DT_LAYER_FATES "] %.100s = %.100s: must be one of keep, move, recompute%s%s%s",
        l->at, l->glob, l->value, near != NULL ? "; did you mean '" : "", near != NULL ? near : "",
        near != NULL ? "'?" : "");
}

static dt_status no_layer(const line *l, const dt_graph *g, dt_err *err)
{
    const char **names = dt_alloc(g->n_node + 1, sizeof *names);
    if (names == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the names of %zu layers", g->n_node);
    for (size_t i = 0; i < g->n_node; i++)
        names[i] = g->node[i].name;
    const char *near = dt_nearest(l->glob, names);
    dt_free(names);
    if (near != NULL)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: [" DT_LAYER_FATES "] '%.100s' matches no layer, did you mean '%s'?", l->at,
            l->glob, near);
    return DT_FAIL(err, DT_E_CONFIG,
        "%s: [" DT_LAYER_FATES "] '%.100s' matches no layer; the %zu layers are '%s' to '%s'",
        l->at, l->glob, g->n_node, g->node[0].name, g->node[g->n_node - 1].name);
}

static dt_status read_line(dt_layer_fates *f, const line *l, const dt_graph *g, dt_err *err)
{
    bool any = false;
    dt_pin pin = DT_PIN_NONE;
    for (int k = DT_PIN_KEEP; k <= DT_PIN_RECOMPUTE; k++)
        if (strcmp(fates[k], l->value) == 0)
            pin = (dt_pin)k;
    for (size_t i = 0; i < g->n_node; i++)
        if (dt_glob(l->glob, g->node[i].name)) {
            f->node[i] = pin;
            any = true;
        }
    const dt_status st = pin == DT_PIN_NONE ? unknown_fate(l, err) : DT_OK;
    const dt_status match = any ? DT_OK : no_layer(l, g, err);
    return st != DT_OK ? st : match;
}

static dt_status read_section(
    dt_layer_fates *f, const dt_config *c, size_t section, const dt_graph *g, dt_err *err)
{
    dt_status first = DT_OK;
    f->node = dt_alloc(g->n_node, sizeof *f->node);
    if (f->node == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the fates of %zu layers", g->n_node);
    f->n = g->n_node;
    for (size_t i = 0; i < dt_config_key_count(c, section); i++) {
        line l;
        const char *file = NULL;
        int number;
        dt_config_key(c, section, i, &l.glob, &l.value, &number);
        (void)dt_config_get(c, DT_LAYER_FATES, l.glob, &file, &number);
        dt_config_place(l.at, sizeof l.at, file, number);
        const dt_status st = read_line(f, &l, g, err);
        first = first != DT_OK ? first : st;
    }
    return first;
}

dt_status dt_layer_fates_open(
    dt_layer_fates *out, const dt_config *c, const dt_graph *g, dt_err *err)
{
    *out = (dt_layer_fates){0};
    for (size_t i = 0; i < dt_config_section_count(c); i++)
        if (strcmp(dt_config_section(c, i).text, DT_LAYER_FATES) == 0)
            return read_section(out, c, i, g, err);
    return DT_OK;
}

void dt_layer_fates_close(dt_layer_fates *f)
{
    dt_free(f->node);
    *f = (dt_layer_fates){0};
}

/* All versions of a value: it and its clones. */
static void pin(dt_program *p, int32_t root, dt_pin to)
{
    for (size_t t = 0; t < p->n_tensor; t++)
        if (dt_root(p, (int32_t)t) == root)
            p->tensor[t].pin = to;
}

/* Set one fate: a value has one gap from forward to backward, or none. */
static dt_status set(dt_program *p, int32_t tensor, dt_pin to, dt_err *err)
{
    dt_gap g;
    dt_status st = DT_OK;
    pin(p, tensor, DT_PIN_NONE);
    for (int32_t i = 0; dt_gap_next(p, tensor, &i, &g);)
        if (g.crosses_loss) {
            if (to == DT_PIN_MOVE)
                st = dt_move(p, &g, NULL, err);
            else if (dt_repeatable(p, tensor))
                st = dt_recompute(p, &g, NULL, err);
            break;
        }
    pin(p, tensor, to);
    return st;
}

typedef struct value {
    int32_t tensor;
    dt_pin to;
} value;

/* What forward leaves of the layers named, in the order of the layers. */
static size_t collect(const dt_layer_fates *f, const dt_program *p, value *v)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op *op = &p->op[p->order[i]];
        if (op->kind != DT_OP_FORWARD || op->node == DT_NONE || f->node[op->node] == DT_PIN_NONE)
            continue;
        for (int a = 0; a < op->n_arg; a++) {
            const dt_tensor *t = &p->tensor[op->arg[a].tensor];
            if (op->arg[a].mode == DT_WRITE && t->home == DT_NONE &&
                (t->role == DT_ROLE_ACTIVATIONS || t->role == DT_ROLE_STASH) &&
                t->pin == DT_PIN_NONE)
                v[n++] = (value){op->arg[a].tensor, f->node[op->node]};
        }
    }
    return n;
}

/* Clones come first, from the last layer to the first, so that what a clone needs is cloned after
 * it and only once. They may read what is to be kept or moved, and lengthen its life; what is moved
 * is moved when all its readers are there. */
static dt_status apply(const value *v, size_t n, dt_program *p, dt_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (v[i].to != DT_PIN_RECOMPUTE)
            pin(p, v[i].tensor, DT_PIN_KEEP);
    for (size_t i = n; i-- > 0;)
        if (v[i].to == DT_PIN_RECOMPUTE)
            DT_CHECK(set(p, v[i].tensor, v[i].to, err));
    for (size_t i = 0; i < n; i++)
        if (v[i].to == DT_PIN_MOVE)
            DT_CHECK(set(p, v[i].tensor, v[i].to, err));
    return DT_OK;
}

dt_status dt_layer_fates_apply(const dt_layer_fates *f, dt_program *p, dt_err *err)
{
    if (f->n == 0 || p->loss == DT_NONE)
        return DT_OK;
    DT_CHECK(dt_program_index(p, err));
    value *v = dt_alloc(p->n_tensor, sizeof *v);
    if (v == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the fates of layers");
    const dt_status st = apply(v, collect(f, p, v), p, err);
    dt_free(v);
    if (st != DT_OK)
        return DT_FAIL(err, st, "[" DT_LAYER_FATES "]");
    return DT_OK;
}
