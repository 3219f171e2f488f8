/* Weights in files: which a network has, how a file differs from them, and how they are loaded and
 * saved. */
#include "engine/checkpoint/weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/alloc.h"
#include "engine/base/text.h"
#include "engine/checkpoint/files.h"
#include "engine/checkpoint/safetensors.h"

/* ---- which there are, and what differs ---- */

enum { MOST_LINES = 20, SHOWN_BYTES = 120, PATH_BYTES = 4096 };

static void name_whole(dti_weight *row, const dt_node *nd)
{
    const char *number = strrchr(nd->name, '.');
    if (row->part.of > 0 && number != NULL)
        snprintf(row->whole, sizeof row->whole, "%.*s.%s", (int)(number - nd->name), nd->name,
            row->info->name);
}

static size_t count_weights(const dt_graph *g)
{
    size_t n = 0;
    for (size_t i = 0; i < g->n_node; i++)
        n += (size_t)g->node[i].info.n_param;
    return n;
}

dt_status dti_weights_init(dti_weights *w, const dt_graph *g, bool all, dt_err *err)
{
    *w = (dti_weights){0};
    const size_t n = count_weights(g);
    w->row = dt_alloc(n, sizeof *w->row);
    if (w->row == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the names of %zu weights", n);
    for (size_t i = 0; i < g->n_node; i++) {
        const dt_node *nd = &g->node[i];
        for (int k = 0; k < nd->info.n_param; k++) {
            const dt_param_info *p = &nd->info.param[k];
            if (!all && (p->buffer || nd->frozen))
                continue;
            dti_weight *row = &w->row[w->n++];
            *row = (dti_weight){.info = p, .node = (int32_t)i, .param = k, .part = nd->part};
            snprintf(row->name, sizeof row->name, "%s.%s", nd->name, p->name);
            name_whole(row, nd);
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

/* Where a file has a weight, if it has it: by itself, or, of a tile, within the whole. */
static const dt_st_entry *entry_of(const dt_st_file *f, const dti_weight *row, bool *within)
{
    const dt_st_entry *e = dt_st_find(f, row->name);
    *within = e == NULL && row->whole[0] != '\0';
    return *within ? dt_st_find(f, row->whole) : e;
}

static bool same_shape(const dt_st_entry *e, const dti_weight *row, bool within)
{
    const dt_param_info *p = row->info;
    if (e->rank != p->rank)
        return false;
    for (int i = 0; i < p->rank; i++)
        if (e->d[i] != (within && i == p->along ? row->part.of : p->d[i]))
            return false;
    return true;
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

/* @own @whole: of the network's rows, by their names and by those that they are parts of
 * @fresh: what is not asked of the file */
typedef struct comparison {
    const dti_weights *w;
    const dt_st_file *f;
    const char *fresh;
    dt_err *err;
    dt_names own, whole;
} comparison;

static dt_named own_names(const dti_weights *w)
{
    return (dt_named){w->row, sizeof *w->row, offsetof(dti_weight, name), .refers = false};
}

static dt_named whole_names(const dti_weights *w)
{
    return (dt_named){w->row, sizeof *w->row, offsetof(dti_weight, whole), .refers = false};
}

/* Whether the network asks for it, or passes over it. */
static bool asked_for(const comparison *c, const char *name)
{
    return dti_glob_any(c->fresh, name) || dt_names_find(&c->own, own_names(c->w), name) > 0 ||
           dt_names_find(&c->whole, whole_names(c->w), name) > 0;
}

static void say_shape(const comparison *c, const dti_weight *row, const dt_st_entry *e)
{
    (void)DT_FAIL(c->err, DT_E_DATA, "  shape    %s: file %s, network %s", row->name,
        dt_dims_print(e->rank, e->d).s, dt_dims_print(row->info->rank, row->info->d).s);
}

static void say_missing(const comparison *c, const dti_weight *row)
{
    (void)DT_FAIL(c->err, DT_E_DATA, "  missing  %s %s", row->name,
        dt_dims_print(row->info->rank, row->info->d).s);
}

static void say_extra(const comparison *c, const dt_st_entry *e)
{
    char name[SHOWN_BYTES + 4];
    (void)DT_FAIL(c->err, DT_E_DATA, "  unknown  %s %s", shown(name, e->name),
        dt_dims_print(e->rank, e->d).s);
}

/* Tensors of the file that nothing asks for. The first @lines are told. */
static size_t extras(const comparison *c, size_t lines)
{
    size_t n = 0;
    for (size_t i = 0; i < dti_st_count(c->f); i++) {
        const dt_st_entry *e = dti_st_at(c->f, i);
        if (asked_for(c, e->name) || dt_ends_with(e->name, ".num_batches_tracked"))
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
        bool within;
        const dt_st_entry *e = entry_of(c->f, row, &within);
        const bool is = k == MISSING ? e == NULL
                        : k == SHAPE ? e != NULL && !same_shape(e, row, within)
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
    const dt_node *last = NULL;
    size_t turned = 0, others = 0;
    for (size_t i = 0; i < c->w->n; i++) {
        const dti_weight *row = &c->w->row[i];
        bool within;
        const dt_st_entry *e = entry_of(c->f, row, &within);
        if (e == NULL || same_shape(e, row, within))
            continue;
        bool head = e->rank == row->info->rank && e->rank > 0 && row->info->d[0] == g->classes &&
                    e->d[0] != g->classes;
        for (int k = 1; head && k < e->rank; k++)
            head = e->d[k] == row->info->d[k];
        if (head) {
            classes = e->d[0];
            last = &g->node[row->node];
        } else if (is_turned(e, row->info))
            turned++;
        else
            others++;
    }
    const bool tokens = reads_tokens(g);
    if (last != NULL)
        (void)DT_FAIL(c->err, DT_E_DATA,
            "the file is for %" PRId64 " %s, the network has %" PRId64 ": set model.%s = %" PRId64
            ", or in a network of layers [%s %s] %s = %" PRId64
            "; to begin with another head, name its weights in model.fresh, as in %s.*: they are "
            "not taken from the file",
            classes, tokens ? "kinds of tokens" : "classes", g->classes,
            tokens ? "vocab" : "classes", classes, last->desc->name, last->name,
            last->desc->reads_ids ? "vocab" : "out", classes, last->name);
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
    for (size_t i = 0; i < dti_st_count(c->f); i++) {
        const char *name = dti_st_at(c->f, i)->name, *dot = strchr(name, '.');
        if (dot == NULL || asked_for(c, name) || !asked_for(c, dot + 1))
            continue;
        char cut[SHOWN_BYTES + 4];
        const char *text = shown(cut, name);
        (void)DT_FAIL(c->err, DT_E_DATA,
            "the file's names have a prefix ('%s' for '%s'): write it without", text, dot + 1);
        return true;
    }
    return false;
}

/* How many tiles of a weight a file has: "wte.0.weight", "wte.1.weight" ... of "wte.weight". */
static int64_t tiles_of(const dt_st_file *f, const char *whole)
{
    const char *dot = strrchr(whole, '.');
    char name[DT_WEIGHT_NAME_BYTES + 24];
    for (int64_t n = 0;; n++) {
        snprintf(name, sizeof name, "%.*s.%" PRId64 "%s", (int)(dot - whole), whole, n, dot);
        if (dt_st_find(f, name) == NULL)
            return n;
    }
}

/* Of a layer that is in other numbers of tiles in network and file, by its first weight. False: it
 * is in as many, or whole in the file. */
static bool hint_tiled(const comparison *c, const dt_graph *g, const dti_weight *row, bool head)
{
    const bool cut = row->part.of > 0;
    const char *whole = cut ? row->whole : row->name;
    const int64_t outputs = row->info->d[row->info->along];
    const int64_t here = cut ? row->part.of / outputs : 1, there = tiles_of(c->f, whole);
    const dt_layer_desc *layer = g->node[row->node].desc;
    const bool of_head = reads_tokens(g) && (cut ? row->part.of : outputs) == g->classes;
    if (there == 0 || there == here || of_head != head || dt_st_find(c->f, whole) != NULL)
        return false;
    const int length = (int)(strrchr(whole, '.') - whole);
    char network[32] = "whole", section[2 * DT_WEIGHT_NAME_BYTES] = "";
    if (cut)
        snprintf(network, sizeof network, "in %" PRId64, here);
    if (!layer->reads_ids)
        snprintf(section, sizeof section, ", or in a network of layers [%s %.*s] tiles = %" PRId64,
            layer->name, length, whole, there);
    (void)DT_FAIL(c->err, DT_E_DATA,
        "the file has '%.*s' in %" PRId64 " tiles, the network %s: set model.%s = %" PRId64 "%s",
        length, whole, there, network, head ? "head_tiles" : "tiles", there, section);
    return true;
}

/* Once for the layers of a vocabulary, and once for the others. */
static bool hint_tiles(const comparison *c, const dt_graph *g)
{
    bool any = false;
    for (int head = 0; head < 2; head++)
        for (size_t i = 0; i < c->w->n; i++)
            if (c->w->row[i].info->rank > 0 && c->w->row[i].part.first == 0 &&
                hint_tiled(c, g, &c->w->row[i], head != 0)) {
                any = true;
                break;
            }
    return any;
}

/* "h.11.ln_1.weight" as one of a series: its number 11, which ends at @behind.
 * @head: bytes before the number */
typedef struct numbered {
    const char *name, *behind;
    int head;
    int64_t number;
} numbered;

/* Whether the file, or the network, has the same with number @k. */
static bool has_number(const comparison *c, const numbered *s, int64_t k, bool file)
{
    char name[DT_ST_NAME_BYTES + 24];
    snprintf(name, sizeof name, "%.*s%" PRId64 "%s", s->head, s->name, k, s->behind);
    return file ? dt_st_find(c->f, name) != NULL
                : dt_names_find(&c->own, own_names(c->w), name) > 0 ||
                      dt_names_find(&c->whole, whole_names(c->w), name) > 0;
}

/* Whether anything of the file, or of the network, begins as it does up to its number. */
static bool has_any(const comparison *c, const numbered *s, bool file)
{
    const size_t length = (size_t)(s->behind - s->name) + 1,
                 n = file ? dti_st_count(c->f) : c->w->n;
    for (size_t i = 0; i < n; i++)
        if (strncmp(file ? dti_st_at(c->f, i)->name : c->w->row[i].name, s->name, length) == 0)
            return true;
    return false;
}

/* Whether file and network both have all of a series before it, and one of them, @file, goes on
 * from it while the other has nothing of that number. Then how many both have. */
static bool hint_series(const comparison *c, const numbered *s, bool file)
{
    int64_t n = s->number;
    if (n == 0 || !has_number(c, s, n - 1, !file) || has_any(c, s, !file))
        return false;
    for (int64_t k = 0; k < n; k++)
        if (!has_number(c, s, k, true) || !has_number(c, s, k, false))
            return false;
    while (has_number(c, s, n, file))
        n++;
    const int64_t there = file ? n : s->number, here = file ? s->number : n;
    char name[DT_ST_NAME_BYTES + 8], cut[SHOWN_BYTES + 4];
    snprintf(name, sizeof name, "%.*sN%s", s->head, s->name, s->behind);
    (void)DT_FAIL(c->err, DT_E_DATA,
        "the file has %" PRId64 " of '%s', the network %" PRId64 ": set model.layers = %" PRId64
        ", or in a network without that key compare model.name",
        there, shown(cut, name), here, there);
    return true;
}

/* Of a name that only the file has, or only the network. */
static bool hint_numbers(const comparison *c, const char *name, bool file)
{
    for (const char *at = name, *dot; (dot = strchr(at, '.')) != NULL; at = dot + 1) {
        const char *end = at;
        uint64_t number;
        if (!dt_scan_u64(&end, dot, &number) || end == at || end != dot || number > INT32_MAX)
            continue;
        const numbered s = {name, dot, (int)(at - name), (int64_t)number};
        if (hint_series(c, &s, file))
            return true;
    }
    return false;
}

/* A network of more blocks, or of fewer. */
static bool hint_layers(const comparison *c)
{
    bool within;
    for (size_t i = 0; i < dti_st_count(c->f); i++) {
        const char *name = dti_st_at(c->f, i)->name;
        if (!asked_for(c, name) && hint_numbers(c, name, true))
            return true;
    }
    for (size_t i = 0; i < c->w->n; i++)
        if (entry_of(c->f, &c->w->row[i], &within) == NULL &&
            hint_numbers(c, c->w->row[i].name, false))
            return true;
    return false;
}

static void hints(const comparison *c, const dt_graph *g, const size_t n[KINDS])
{
    const bool tiles = hint_tiles(c, g);
    if (n[SHAPE] > 0 && !tiles)
        hint_shapes(c, g);
    if (n[TYPE] > 0)
        (void)DT_FAIL(c->err, DT_E_DATA,
            "tools/weights.py from-torch FILE OUT.safetensors makes F32 of them; or in PyTorch: "
            "save_file({k: v.float() for k, v in model.state_dict().items()}, path)");
    if (tiles || (n[MISSING] > 0 && n[EXTRA] > 0 && hint_prefix(c)) || hint_layers(c))
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

/* DT_E_DATA with the table of differences. */
static dt_status tell_differences(const comparison *c, const dt_graph *g, const char *path)
{
    size_t n[KINDS], all = 0;
    char counts[256] = "";
    for (int k = 0; k < KINDS; k++) {
        n[k] = differing(c, (kind)k, 0);
        if (n[k] == 0)
            continue;
        const size_t at = strlen(counts);
        snprintf(
            counts + at, sizeof counts - at, "%s%zu %s", all > 0 ? ", " : "", n[k], kind_names[k]);
        all += n[k];
    }
    if (all == 0)
        return DT_OK;
    (void)DT_FAIL(c->err, DT_E_DATA, "weights '%s' do not fit network '%s' (%zu tensors): %s", path,
        g->name, c->w->n, counts);
    for (int k = 0; k < KINDS; k++) {
        (void)differing(c, (kind)k, MOST_LINES);
        if (n[k] > MOST_LINES)
            (void)DT_FAIL(c->err, DT_E_DATA, "  and %zu more %s", n[k] - MOST_LINES, kind_names[k]);
    }
    hints(c, g, n);
    return DT_E_DATA;
}

/* Names, shapes and types of a file against those of a network. */
static dt_status compare(const dti_weights *w, const dt_graph *g, const dt_st_file *f,
    const char *path, const char *fresh, dt_err *err)
{
    comparison c = {.w = w, .f = f, .fresh = fresh, .err = err};
    const bool made =
        dt_names_fill(&c.own, own_names(w), w->n) && dt_names_fill(&c.whole, whole_names(w), w->n);
    const dt_status st =
        made ? tell_differences(&c, g, path)
             : DT_FAIL(err, DT_E_NOMEM, "no memory for the names of %zu weights", w->n);
    dt_names_deinit(&c.own);
    dt_names_deinit(&c.whole);
    return st;
}

/* ---- loading ---- */

enum { PIECE = 1 << 16 }; /* floats checked at a time */

static size_t count_of(const dti_weight *row)
{
    return (size_t)dt_param_count(row->info);
}

/* Row-major place of element @i: "[3, 0, 1, 2]". */
static dt_dims_text index_text(const dt_param_info *p, size_t i)
{
    int64_t at[DT_COUNT(p->d)] = {0};
    for (int k = p->rank - 1; k >= 0; k--) {
        at[k] = (int64_t)(i % (size_t)p->d[k]);
        i /= (size_t)p->d[k];
    }
    return dt_dims_print(p->rank, at);
}

/* @path: of the file; NULL: none */
static dt_status check_finite(
    const dti_weight *row, const float *v, size_t from, size_t n, const char *path, dt_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(v[i]))
            return DT_FAIL(err, DT_E_DATA, "%s%s%s%s%s is %g; weights must be finite",
                path != NULL ? "weights '" : "", path != NULL ? path : "",
                path != NULL ? "': " : "", row->name, index_text(row->info, from + i).s,
                (double)v[i]);
    return DT_OK;
}

/* Values [at, at + n) of a weight: of a tile within the whole, run by run. */
static dt_status read_values(
    const dt_st_file *f, const dti_weight *row, size_t at, float *to, size_t n, dt_err *err)
{
    bool within;
    const dt_st_entry *e = entry_of(f, row, &within);
    if (!within)
        return dt_st_read(f, e, at * sizeof *to, to, n * sizeof *to, err);
    while (n > 0) {
        int64_t run;
        const size_t from = (size_t)dti_part_place(row->info, row->part, (int64_t)at, &run);
        const size_t some = n < (size_t)run ? n : (size_t)run;
        DT_CHECK(dt_st_read(f, e, from * sizeof *to, to, some * sizeof *to, err));
        to += some;
        at += some;
        n -= some;
    }
    return DT_OK;
}

static dt_status check_values(
    const dt_st_file *f, const dti_weight *row, float *piece, const char *path, dt_err *err)
{
    const size_t count = count_of(row);
    for (size_t at = 0; at < count; at += PIECE) {
        const size_t n = count - at < PIECE ? count - at : PIECE;
        DT_CHECK(read_values(f, row, at, piece, n, err));
        DT_CHECK(check_finite(row, piece, at, n, path, err));
    }
    return DT_OK;
}

static dt_status check_all(const dti_weights *w, dt_st_file *f, const char *path, dt_err *err)
{
    float *piece = dt_alloc(PIECE, sizeof *piece);
    if (piece == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to check '%s'", path);
    dt_status st = DT_OK;
    dti_st_stream(f);
    for (size_t i = 0; i < w->n && st == DT_OK; i++)
        st = check_values(f, &w->row[i], piece, path, err);
    dt_free(piece);
    return st;
}

static dt_status find_home(
    int32_t *home, const dti_weight *row, const dt_map *m, dt_port port, dt_err *err)
{
    *home = dti_map_find(m, row->node, row->param, port);
    if (*home < 0)
        return DT_FAIL(err, DT_E_INTERNAL, "'%s' is not in the map (port %d)", row->name, port);
    return DT_OK;
}

static dt_status put_one(dt_runner *r, const dt_map *m, const dt_st_file *f, const dti_weight *row,
    const char *path, dt_err *err)
{
    int32_t home;
    dti_passage w;
    DT_CHECK(find_home(&home, row, m, DT_P, err));
    DT_CHECK(dti_passage_open(&w, r, home, err));
    dt_status st = DT_OK;
    while (st == DT_OK && dti_passage_next(&w)) {
        st = read_values(f, row, w.at, w.piece, w.n, err);
        if (st == DT_OK) /* the file may have changed since */
            st = check_finite(row, w.piece, w.at, w.n, path, err);
        if (st == DT_OK)
            st = dti_passage_put(&w, err);
    }
    dti_passage_close(&w);
    return st;
}

static dt_status put_all(dt_runner *r, const dt_map *m, dt_st_file *f, const dti_weights *w,
    const char *path, dt_err *err)
{
    dti_st_stream(f);
    for (size_t i = 0; i < w->n; i++)
        DT_CHECK(put_one(r, m, f, &w->row[i], path, err));
    return DT_OK;
}

/* After a failure to open it: a folder that is a run's, or a checkpoint's, has weights in it. */
static void hint_folder(const char *path, dt_err *err)
{
    static const char *const inside[] = {
        DT_CHECKPOINTS "/" DT_CHECKPOINT_MODEL, DT_CHECKPOINT_MODEL};
    char file[PATH_BYTES];
    struct stat st;
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    for (size_t i = 0; i < DT_COUNT(inside) && n < sizeof file; i++)
        if (snprintf(file, sizeof file, "%.*s/%s", (int)n, path, inside[i]) < (int)sizeof file &&
            stat(file, &st) == 0 && S_ISREG(st.st_mode)) {
            (void)DT_FAIL(err, DT_E_DATA, "the weights in it are %s", file);
            return;
        }
}

static dt_status check_fresh(const dti_weights *w, const char *fresh, dt_err *err)
{
    size_t n;
    for (const char *glob; (glob = dt_next_glob(&fresh, &n)) != NULL;) {
        bool any = false;
        for (size_t i = 0; i < w->n && !any; i++)
            any = dti_glob_n(glob, n, w->row[i].name);
        if (!any)
            return DT_FAIL(err, DT_E_CONFIG,
                "the network has no weight '%.*s'; they are called as in a file of weights, "
                "LAYER.weight, and * stands for any letters",
                (int)n, glob);
    }
    return DT_OK;
}

dt_status dt_weights_check_fresh(const dt_graph *g, const char *fresh, dt_err *err)
{
    dti_weights w;
    DT_CHECK(dti_weights_init(&w, g, true, err));
    const dt_status st = check_fresh(&w, fresh, err);
    dti_weights_deinit(&w);
    return st;
}

/* Leave out what is not asked of the file. */
static void leave_out(dti_weights *w, const char *fresh)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n; i++)
        if (!dti_glob_any(fresh, w->row[i].name))
            w->row[n++] = w->row[i];
    w->n = n;
}

static bool has_side(const dt_param_info *p, dt_part part, int64_t n)
{
    bool has = part.of == n;
    for (int i = 0; i < p->rank; i++)
        has = has || p->d[i] == n;
    return has;
}

bool dt_weights_name_anew(const dt_graph *g, const char *fresh)
{
    char name[DT_WEIGHT_NAME_BYTES];
    bool anew = false;
    for (size_t i = 0; fresh != NULL && i < g->n_node; i++) {
        const dt_node *nd = &g->node[i];
        bool any = false, all = true; /* of its weights for classes */
        for (int k = 0; k < nd->info.n_param; k++) {
            const dt_param_info *p = &nd->info.param[k];
            snprintf(name, sizeof name, "%s.%s", nd->name, p->name);
            const bool is = dti_glob_any(fresh, name);
            if (nd->desc->reads_ids && !is)
                return false;
            if (has_side(p, nd->part, g->classes)) {
                any = true;
                all = all && is;
            }
        }
        anew = any ? all : anew;
    }
    return anew;
}

/* How much of a file is looked at before anything is put. */
typedef enum look { NAMES, VALUES } look;

/* @r NULL: only check. */
static dt_status load(dt_runner *r, const dt_graph *g, const dt_map *m, const char *path,
    const char *fresh, look at, dt_err *err)
{
    dti_weights w;
    DT_CHECK(dti_weights_init(&w, g, true, err));
    dt_st_file *f = NULL;
    leave_out(&w, fresh);
    dt_status st = dt_st_open(&f, path, err);
    if (st == DT_E_DATA && f == NULL)
        hint_folder(path, err);
    if (st == DT_OK)
        st = compare(&w, g, f, path, fresh, err);
    if (st == DT_OK && at == VALUES)
        st = check_all(&w, f, path, err);
    if (st == DT_OK && r != NULL)
        st = put_all(r, m, f, &w, path, err);
    dt_st_close(f);
    dti_weights_deinit(&w);
    return st;
}

dt_status dt_weights_check(const dt_graph *g, const char *path, const char *fresh, dt_err *err)
{
    return load(NULL, g, NULL, path, fresh, VALUES, err);
}

dt_status dt_weights_load(dt_runner *r, const dt_graph *g, const dt_map *m, const char *path,
    const char *fresh, dt_err *err)
{
    return load(r, g, m, path, fresh, VALUES, err);
}

dt_status dti_weights_check_names(const dt_graph *g, const char *path, dt_err *err)
{
    return load(NULL, g, NULL, path, NULL, NAMES, err);
}

dt_status dti_weights_load_verified(
    dt_runner *r, const dt_graph *g, const dt_map *m, const char *path, dt_err *err)
{
    return load(r, g, m, path, NULL, NAMES, err);
}

/* ---- one in memory ---- */

bool dt_weight_at(const dt_graph *g, size_t i, dt_weight_place *to)
{
    size_t k = 0;
    for (; k < g->n_node && i >= (size_t)g->node[k].info.n_param; k++)
        i -= (size_t)g->node[k].info.n_param;
    if (k == g->n_node)
        return false;
    const dt_node *nd = &g->node[k];
    to->info = &nd->info.param[i];
    to->trained = !to->info->buffer && !nd->frozen;
    snprintf(to->name, sizeof to->name, "%s.%s", nd->name, to->info->name);
    return true;
}

static dt_status read_whole(dt_runner *r, int32_t home, float *to, dt_err *err)
{
    dti_passage w;
    DT_CHECK(dti_passage_open(&w, r, home, err));
    dt_status st = DT_OK;
    while (st == DT_OK && dti_passage_next(&w)) {
        st = dti_passage_get(&w, err);
        if (st == DT_OK)
            memcpy(to + w.at, w.piece, w.n * sizeof *to);
    }
    dti_passage_close(&w);
    return st;
}

/* The row of a weight: a parameter's own name has no dot, so its layer's ends at the last one. */
static bool find_row(dti_weight *row, const dt_graph *g, const char *name)
{
    char layer[DT_NAME_BYTES];
    const char *dot = strrchr(name, '.');
    if (dot == NULL || (size_t)(dot - name) >= sizeof layer)
        return false;
    snprintf(layer, sizeof layer, "%.*s", (int)(dot - name), name);
    const int32_t node = dt_graph_find(g, layer);
    for (int i = 0; node >= 0 && i < g->node[node].info.n_param; i++) {
        const dt_param_info *p = &g->node[node].info.param[i];
        if (strcmp(p->name, dot + 1) != 0)
            continue;
        *row = (dti_weight){.info = p, .node = node, .param = i};
        snprintf(row->name, sizeof row->name, "%s", name);
        return true;
    }
    return false;
}

/* The row and the home of a weight, asked for by its name and count. */
static dt_status find_weight(dti_weight *row, int32_t *home, const dt_graph *g, const dt_map *m,
    const char *name, size_t count, dt_err *err)
{
    if (!find_row(row, g, name))
        return DT_FAIL(err, DT_E_CONFIG,
            "network '%s' has no weight '%s'; it has %zu, and dt_run_weight tells their names",
            g->name, name, count_weights(g));
    if (count != count_of(row))
        return DT_FAIL(
            err, DT_E_CONFIG, "weight '%s' has %zu values, not %zu", name, count_of(row), count);
    return find_home(home, row, m, DT_P, err);
}

dt_status dt_weight_read(dt_runner *r, const dt_graph *g, const dt_map *m, const char *name,
    float *to, size_t count, dt_err *err)
{
    dti_weight row;
    int32_t home;
    DT_CHECK(find_weight(&row, &home, g, m, name, count, err));
    return read_whole(r, home, to, err);
}

static dt_status write_whole(
    dt_runner *r, int32_t home, const float *from, bool *begun, dt_err *err)
{
    dti_passage w;
    DT_CHECK(dti_passage_open(&w, r, home, err));
    dt_status st = DT_OK;
    while (st == DT_OK && dti_passage_next(&w)) {
        memcpy(w.piece, from + w.at, w.n * sizeof *from);
        *begun = true;
        st = dti_passage_put(&w, err);
    }
    dti_passage_close(&w);
    return st;
}

dt_status dt_weight_write(dt_runner *r, const dt_graph *g, const dt_map *m, const char *name,
    const float *from, size_t count, bool *begun, dt_err *err)
{
    dti_weight row;
    int32_t home;
    *begun = false;
    DT_CHECK(find_weight(&row, &home, g, m, name, count, err));
    DT_CHECK(check_finite(&row, from, 0, count, NULL, err));
    return write_whole(r, home, from, begun, err);
}

/* ---- saving ---- */

typedef struct saving {
    dt_runner *runner;
    const dt_map *map;
    dt_port port;
    const dti_weights *w;
    dti_passage passage; /* of the tensor at hand */
} saving;

static dt_status next_piece(
    void *arg, size_t i, size_t at, const void **bytes, size_t *n, dt_err *err)
{
    saving *s = arg;
    int32_t home;
    DT_CHECK(find_home(&home, &s->w->row[i], s->map, s->port, err));
    return dti_passage_give(&s->passage, s->runner, home, at, bytes, n, err);
}

static const dti_st_meta meta = {"format", "pt"};

/* NULL: no memory. */
static dt_st_out *entries_of(const dti_weights *w)
{
    dt_st_out *out = dt_alloc(w->n, sizeof *out);
    for (size_t i = 0; i < w->n && out != NULL; i++) {
        const dti_weight *row = &w->row[i];
        out[i] = (dt_st_out){.name = row->name, .type = DT_ST_F32, .rank = row->info->rank};
        memcpy(out[i].d, row->info->d, sizeof row->info->d);
    }
    return out;
}

static dt_status save(dt_runner *r, const dt_graph *g, const dt_map *m, dt_port port,
    const char *path, dt_sha256 *sum, dt_err *err)
{
    dti_weights w;
    DT_CHECK(dti_weights_init(&w, g, port == DT_P, err));
    saving s = {.runner = r, .map = m, .port = port, .w = &w};
    dt_st_out *out = entries_of(&w);
    const dt_status st = out != NULL
                             ? dt_st_write(path, out, w.n, &meta, 1, next_piece, &s, sum, err)
                             : DT_FAIL(err, DT_E_NOMEM, "no memory to write '%s'", path);
    dti_passage_close(&s.passage);
    dt_free(out);
    dti_weights_deinit(&w);
    return st;
}

dt_status dti_weights_check(const char *path, const dt_graph *g, dt_err *err)
{
    dti_weights w;
    DT_CHECK(dti_weights_init(&w, g, true, err));
    dt_st_out *out = entries_of(&w);
    const dt_status st = out != NULL ? dti_st_check(path, out, w.n, &meta, 1, err)
                                     : DT_FAIL(err, DT_E_NOMEM, "no memory for '%s'", path);
    dt_free(out);
    dti_weights_deinit(&w);
    return st;
}

dt_status dt_weights_save(
    dt_runner *r, const dt_graph *g, const dt_map *m, const char *path, dt_err *err)
{
    return save(r, g, m, DT_P, path, NULL, err);
}

dt_status dti_weights_save_sum(
    dt_runner *r, const dt_graph *g, const dt_map *m, const char *path, dt_sha256 *sum, dt_err *err)
{
    return save(r, g, m, DT_P, path, sum, err);
}

dt_status dt_gradients_save(
    dt_runner *r, const dt_graph *g, const dt_map *m, const char *path, dt_err *err)
{
    return save(r, g, m, DT_DP, path, NULL, err);
}
