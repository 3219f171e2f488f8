/* Values of a plan, and their waits. */
#include "tools/plan_value.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"

static size_t plain_length(const char *name)
{
    size_t n = strlen(name);
    while (n > 0 && name[n - 1] == '\'')
        n--;
    return n;
}

int32_t dti_value_find(const dt_plan *p, const char *name)
{
    for (size_t i = 0; i < p->n_tensor; i++)
        if (strcmp(p->tensor[i].name, name) == 0)
            return (int32_t)i;
    return -1;
}

bool dti_value_told_fused(const dt_graph *g, const char *word, char now[DTI_NOW_BYTES])
{
    const size_t n = strlen(word), end = n > 2 && strcmp(word + n - 2, ".y") == 0 ? n - 2 : n;
    for (size_t i = 0; i < g->n_node; i++) {
        const dt_node *into = &g->node[i];
        if (strlen(into->with) != end || end == 0 || strncmp(into->with, word, end) != 0)
            continue;
        printf("%s is computed with %s (model.fuse = on), as %s\n", into->with, into->name,
            into->desc->name);
        snprintf(now, DTI_NOW_BYTES, "%s%s", into->name, word + end);
        return true;
    }
    return false;
}

const char **dti_value_names(const dt_graph *g, const dt_plan *p, size_t more, size_t *n)
{
    const char **names = dt_alloc(2 * g->n_node + p->n_tensor + more + 1, sizeof *names);
    *n = 0;
    for (size_t i = 0; names != NULL && i < g->n_node; i++) {
        names[(*n)++] = g->node[i].name;
        if (g->node[i].with[0] != '\0')
            names[(*n)++] = g->node[i].with;
    }
    for (size_t i = 0; names != NULL && i < p->n_tensor; i++)
        names[(*n)++] = p->tensor[i].name;
    return names;
}

/* Only those made again have another first. */
static void find_values(dti_value_view *w)
{
    for (size_t i = 0; i < w->p->n_tensor; i++) {
        const char *name = w->p->tensor[i].name;
        const size_t n = plain_length(name);
        w->value[i] = (int32_t)i;
        for (size_t k = 0; name[n] != '\0' && k < i; k++) {
            const char *first = w->p->tensor[k].name;
            if (strncmp(name, first, n) == 0 && plain_length(first) == n) {
                w->value[i] = (int32_t)k;
                break;
            }
        }
    }
}

int dti_value_touches(const dti_value_view *w, size_t row, int32_t value)
{
    int mode = -1;
    if (w->p->row[row].kind != DT_ROW_COMPUTE)
        return -1;
    const dt_plan_op *op = &w->p->op[w->p->row[row].op];
    for (int32_t i = op->first; i < op->first + op->n; i++)
        if (w->value[w->p->arg[i].tensor] == value && (mode < 0 || w->p->arg[i].mode != DT_READ))
            mode = w->p->arg[i].mode;
    return mode;
}

const dt_plan_op *dti_value_op(const dti_value_view *w, size_t row)
{
    return &w->p->op[w->p->row[row].op];
}

size_t dti_value_maker(const dti_value_view *w, int32_t value)
{
    size_t i = 0;
    while (i < w->p->n_row && dti_value_touches(w, i, value) != DT_WRITE)
        i++;
    return i;
}

/* What makes it again is no use of it. */
bool dti_value_uses(const dti_value_view *w, size_t row)
{
    const int mode = dti_value_touches(w, row, w->value[w->tensor]);
    const int kind = mode >= 0 ? dti_value_op(w, row)->kind : DT_OP_KINDS;
    return mode >= 0 && !(mode == DT_WRITE && (kind == DT_OP_RECOMPUTE || kind == DT_OP_DECODE)) &&
           kind != DT_OP_ENCODE;
}

static void find_wait(dti_value_view *w)
{
    size_t last = w->p->n_row;
    double longest = -1;
    int64_t ops = 0;
    w->next = 0;
    for (size_t i = 0; i < w->p->n_row; i++) {
        if (w->p->row[i].kind == DT_ROW_COMPUTE)
            ops++;
        if (!dti_value_uses(w, i))
            continue;
        const double idle = last < w->p->n_row ? w->t->begin[i] - w->t->end[last] : -1;
        if (idle > longest && ops > 1) {
            longest = idle;
            w->last = last;
            w->next = i;
            w->ops = ops - 1;
        }
        last = i;
        ops = 0;
    }
    for (size_t i = 0; i < w->p->n_tensor; i++)
        w->there[i] = w->seen[i] = false;
    for (size_t i = 0; i < w->p->n_tensor; i++)
        w->there[w->value[i]] = w->there[w->value[i]] || dt_plan_resident(&w->p->tensor[i]);
    for (size_t i = 0; i < w->next; i++) {
        const dt_row *r = &w->p->row[i];
        if (r->kind == DT_ROW_PLACE && r->over >= 0)
            w->there[w->value[r->over]] = false;
        if (r->kind == DT_ROW_PLACE || r->kind == DT_ROW_RELEASE)
            w->there[w->value[r->tensor]] = r->kind == DT_ROW_PLACE;
    }
}

void dti_value_look(dti_value_view *w, int32_t tensor)
{
    w->tensor = tensor;
    find_wait(w);
}

const char *dti_value_fate(const dti_value_view *w, const dt_row *r)
{
    const int32_t value = w->value[w->tensor];
    if (r->kind == DT_ROW_PLACE && r->over >= 0 && w->value[r->tensor] == value)
        return "in place";
    if (r->kind == DT_ROW_COPY_OUT && w->value[r->tensor] == value)
        return "offloaded";
    if (r->kind == DT_ROW_COPY_IN && r->tier == DT_TIER_INPUT && w->value[r->tensor] == value)
        return r->reason >= 0 ? "fetched again" : NULL;
    if (r->kind != DT_ROW_COMPUTE)
        return NULL;
    const int mode = dti_value_touches(w, (size_t)(r - w->p->row), value);
    const int kind = w->p->op[r->op].kind;
    if (mode == DT_WRITE && kind == DT_OP_RECOMPUTE)
        return "made again";
    return mode == DT_READ && kind == DT_OP_ENCODE ? "packed" : NULL;
}

dt_status dti_value_init(
    dti_value_view *out, const dt_session *s, const dt_plan *p, const dt_timeline *t, dt_err *err)
{
    *out = (dti_value_view){.s = s,
        .p = p,
        .t = t,
        .value = dt_alloc(p->n_tensor + 1, sizeof *out->value),
        .there = dt_alloc(p->n_tensor + 1, sizeof *out->there),
        .seen = dt_alloc(p->n_tensor + 1, sizeof *out->seen)};
    if (out->value == NULL || out->there == NULL || out->seen == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to look at %zu tensors", p->n_tensor);
    find_values(out);
    return DT_OK;
}

void dti_value_deinit(dti_value_view *w)
{
    dt_free(w->value);
    dt_free(w->there);
    dt_free(w->seen);
}
