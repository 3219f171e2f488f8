#include "engine/checkpoint/weights_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"

enum { MOST_LINES = 20, SHOWN_BYTES = 120, SHAPE_BYTES = DT_ST_RANK * 22 + 8 };

dt_status dti_weights_init(dti_weights *w, const dt_graph *g, bool buffers, dt_err *err)
{
    *w = (dti_weights){0};
    size_t n = 0;
    for (size_t i = 0; i < g->n_node; i++)
        n += (size_t)g->node[i].info.n_param;
    w->row = dt_alloc(n, sizeof *w->row);
    if (w->row == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the names of %zu weights", n);
    for (size_t i = 0; i < g->n_node; i++) {
        const dt_node *nd = &g->node[i];
        for (int k = 0; k < nd->info.n_param; k++) {
            const dt_param_info *p = &nd->info.param[k];
            if (p->buffer && !buffers)
                continue;
            dti_weight *row = &w->row[w->n++];
            *row = (dti_weight){.info = p, .node = (int32_t)i, .param = k};
            snprintf(row->name, sizeof row->name, "%s.%s", nd->name, p->name);
        }
    }
    return DT_OK;
}

void dti_weights_deinit(dti_weights *w)
{
    dt_free(w->row);
    *w = (dti_weights){0};
}

/* The ways in which a tensor can differ. */
typedef enum kind { SHAPE, TYPE, MISSING, EXTRA, KINDS } kind;
static const char *const kind_names[] = {"of another shape", "of another type",
    "missing from the file", "that the network does not have"};
_Static_assert(DT_COUNT(kind_names) == KINDS, "a name a kind");

static bool same_shape(const dt_st_entry *e, const dt_param_info *p)
{
    if (e->rank != p->rank)
        return false;
    for (int i = 0; i < p->rank; i++)
        if (e->d[i] != p->d[i])
            return false;
    return true;
}

static bool ends_with(const char *s, const char *end)
{
    const size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

static const dti_weight *find(const dti_weights *w, const char *name)
{
    for (size_t i = 0; i < w->n; i++)
        if (strcmp(w->row[i].name, name) == 0)
            return &w->row[i];
    return NULL;
}

/* "[64, 3, 7, 7]" */
static const char *shape_text(char to[SHAPE_BYTES], int rank, const int64_t *d)
{
    size_t at = (size_t)snprintf(to, SHAPE_BYTES, "[");
    for (int i = 0; i < rank; i++)
        at += (size_t)snprintf(to + at, SHAPE_BYTES - at, "%s%" PRId64, i > 0 ? ", " : "", d[i]);
    snprintf(to + at, SHAPE_BYTES - at, "]");
    return to;
}

/* Names of a file may have 512 bytes; a cut one loses whole characters. */
static const char *shown(char to[SHOWN_BYTES + 4], const char *name)
{
    size_t n = strlen(name);
    if (n <= SHOWN_BYTES) {
        memcpy(to, name, n + 1);
        return to;
    }
    for (n = SHOWN_BYTES; n > 0 && ((uint8_t)name[n] & 0xC0) == 0x80;)
        n--;
    memcpy(to, name, n);
    memcpy(to + n, "...", 4);
    return to;
}

typedef struct comparison {
    const dti_weights *w;
    const dt_st_file *f;
    dt_err *err;
} comparison;

static void say_shape(const comparison *c, const dti_weight *row, const dt_st_entry *e)
{
    char file[SHAPE_BYTES], net[SHAPE_BYTES];
    (void)DT_FAIL(c->err, DT_E_DATA, "  shape    %s: file %s, network %s", row->name,
        shape_text(file, e->rank, e->d), shape_text(net, row->info->rank, row->info->d));
}

static void say_missing(const comparison *c, const dti_weight *row)
{
    char net[SHAPE_BYTES];
    (void)DT_FAIL(c->err, DT_E_DATA, "  missing  %s %s", row->name,
        shape_text(net, row->info->rank, row->info->d));
}

static void say_extra(const comparison *c, const dt_st_entry *e)
{
    char name[SHOWN_BYTES + 4], file[SHAPE_BYTES];
    (void)DT_FAIL(c->err, DT_E_DATA, "  unknown  %s %s", shown(name, e->name),
        shape_text(file, e->rank, e->d));
}

/* Tensors of the file that nothing asks for. The first @lines are told. */
static size_t extras(const comparison *c, size_t lines)
{
    size_t n = 0;
    for (size_t i = 0; i < dt_st_count(c->f); i++) {
        const dt_st_entry *e = dt_st_at(c->f, i);
        if (find(c->w, e->name) != NULL || ends_with(e->name, ".num_batches_tracked"))
            continue;
        if (n++ < lines)
            say_extra(c, e);
    }
    return n;
}

/* How many differ in this way. The first @lines are told. */
static size_t differing(const comparison *c, kind k, size_t lines)
{
    if (k == EXTRA)
        return extras(c, lines);
    size_t n = 0;
    for (size_t i = 0; i < c->w->n; i++) {
        const dti_weight *row = &c->w->row[i];
        const dt_st_entry *e = dt_st_find(c->f, row->name);
        const bool is = k == MISSING ? e == NULL
                        : k == SHAPE ? e != NULL && !same_shape(e, row->info)
                                     : e != NULL && e->type != DT_ST_F32;
        if (!is || n++ >= lines)
            continue;
        if (k == MISSING)
            say_missing(c, row);
        else if (k == SHAPE)
            say_shape(c, row, e);
        else
            (void)DT_FAIL(c->err, DT_E_DATA, "  type     %s: %s, must be F32", row->name,
                dt_st_type_name(e->type));
    }
    return n;
}

static bool reads_tokens(const dt_graph *g)
{
    for (size_t i = 0; i < g->n_node; i++)
        if (g->node[i].desc->reads_ids)
            return true;
    return false;
}

static bool is_turned(const dt_st_entry *e, const dt_param_info *p)
{
    return e->rank == 2 && p->rank == 2 && e->d[0] == p->d[1] && e->d[1] == p->d[0];
}

/* Other numbers of classes, or of kinds of tokens, other widths, and matrices of the other
 * direction show in the shapes. */
static void hint_shapes(const comparison *c, const dt_graph *g)
{
    int64_t classes = 0;
    size_t turned = 0, others = 0;
    for (size_t i = 0; i < c->w->n; i++) {
        const dti_weight *row = &c->w->row[i];
        const dt_st_entry *e = dt_st_find(c->f, row->name);
        if (e == NULL || same_shape(e, row->info))
            continue;
        bool head = e->rank == row->info->rank && e->rank > 0 && row->info->d[0] == g->classes &&
                    e->d[0] != g->classes;
        for (int k = 1; head && k < e->rank; k++)
            head = e->d[k] == row->info->d[k];
        if (head)
            classes = e->d[0];
        else if (is_turned(e, row->info))
            turned++;
        else
            others++;
    }
    const bool tokens = reads_tokens(g);
    if (classes > 0)
        (void)DT_FAIL(c->err, DT_E_DATA,
            "the file is for %" PRId64 " %s, the network has %" PRId64 ": set model.%s = %" PRId64,
            classes, tokens ? "kinds of tokens" : "classes", g->classes,
            tokens ? "vocab" : "classes", classes);
    if (turned > 0)
        (void)DT_FAIL(c->err, DT_E_DATA,
            "%zu of them %s turned: write v.t().contiguous() for v, as linear layers of GPT-2 "
            "have [in, out] and others [out, in]",
            turned, turned == 1 ? "is" : "are");
    if (others > 0)
        (void)DT_FAIL(c->err, DT_E_DATA,
            "compare model.name, model.width and model.%s with what the file was made for",
            tokens ? "context" : "image");
}

/* DataParallel and its like put a word before every name. */
static bool hint_prefix(const comparison *c)
{
    for (size_t i = 0; i < dt_st_count(c->f); i++) {
        const char *name = dt_st_at(c->f, i)->name, *dot = strchr(name, '.');
        if (dot == NULL || find(c->w, name) != NULL || find(c->w, dot + 1) == NULL)
            continue;
        char cut[SHOWN_BYTES + 4];
        const char *text = shown(cut, name);
        (void)DT_FAIL(c->err, DT_E_DATA,
            "the file's names have a prefix ('%s' for '%s'): write it without", text, dot + 1);
        return true;
    }
    return false;
}

static void hints(const comparison *c, const dt_graph *g, const size_t n[KINDS])
{
    if (n[SHAPE] > 0)
        hint_shapes(c, g);
    if (n[TYPE] > 0)
        (void)DT_FAIL(c->err, DT_E_DATA,
            "in PyTorch: save_file({k: v.float() for k, v in model.state_dict().items()}, path)");
    const bool prefix = n[MISSING] > 0 && n[EXTRA] > 0 && hint_prefix(c);
    if (prefix)
        return;
    if (n[MISSING] == c->w->n && c->w->n > 0)
        (void)DT_FAIL(c->err, DT_E_DATA,
            "not one name is the network's: is the file for another model than '%s'?", g->name);
    else if (n[MISSING] > 0)
        (void)DT_FAIL(c->err, DT_E_DATA,
            "save all of model.state_dict(), or compare model.name%s with what the file was made "
            "for",
            reads_tokens(g) ? ", model.layers" : "");
    else if (n[EXTRA] > 0)
        (void)DT_FAIL(c->err, DT_E_DATA,
            "if the file is for this network, write the file without %s; tools/weights.py leaves "
            "out what PyTorch's networks keep beside their weights",
            n[EXTRA] == 1 ? "it" : "them");
}

dt_status dti_weights_compare(
    const dti_weights *w, const dt_graph *g, const dt_st_file *f, const char *path, dt_err *err)
{
    const comparison c = {w, f, err};
    size_t n[KINDS], all = 0;
    char counts[256] = "";
    for (int k = 0; k < KINDS; k++) {
        n[k] = differing(&c, (kind)k, 0);
        if (n[k] == 0)
            continue;
        const size_t at = strlen(counts);
        snprintf(
            counts + at, sizeof counts - at, "%s%zu %s", all > 0 ? ", " : "", n[k], kind_names[k]);
        all += n[k];
    }
    if (all == 0)
        return DT_OK;
    (void)DT_FAIL(err, DT_E_DATA, "weights '%s' do not fit network '%s' (%zu tensors): %s", path,
        g->name, w->n, counts);
    for (int k = 0; k < KINDS; k++) {
        (void)differing(&c, (kind)k, MOST_LINES);
        if (n[k] > MOST_LINES)
            (void)DT_FAIL(err, DT_E_DATA, "  and %zu more %s", n[k] - MOST_LINES, kind_names[k]);
    }
    hints(&c, g, n);
    return DT_E_DATA;
}
