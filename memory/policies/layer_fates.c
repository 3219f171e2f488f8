/* [memory.layers]: fates by layer and homes by tensor, parsed; fates set. */
#include "memory/policies/layer_fates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/text.h"
#include "engine/config/nearest.h"
#include "engine/graph_names.h"

static const char *const fates[] = {[DT_PIN_KEEP] = "keep",
    [DT_PIN_MOVE] = "offload",
    [DT_PIN_RECOMPUTE] = "recompute",
    [DT_PIN_ENCODE] = "encode"};

static const char home_word[] = "home";

/* One line of the section. @old: of a configuration that a run wrote, perhaps when offload was
 * called "move". */
typedef struct line {
    const char *glob, *value;
    bool old;
    char at[512]; /* "FILE:LINE" */
} line;

/* What globs may match. @tensors: made when the first line wants them */
typedef struct known {
    const dt_graph *graph;
    dt_device_kind device;
    dti_home_names tensors;
} known;

/* Whether what is said now is told: a section may have 60,000 mistakes, and a trail has room for
 * some 200, so the rest is counted and not thought about. */
static bool is_told(const dt_err *err)
{
    return err != NULL && err->lost == 0;
}

/* What may stand behind @after, NULL-terminated: fates and home at first; behind offload a tier or
 * a codec, behind encode a codec. NULL when memory is out. */
static const char **words_behind(dt_pin after)
{
    size_t n = 0, codecs;
    const dt_codec *const *codec = dt_codec_all(&codecs);
    const char **words = dt_alloc(DT_COUNT(fates) + DT_TIERS + codecs + 1, sizeof *words);
    if (words == NULL)
        return NULL;
    if (after == DT_PIN_NONE) {
        for (int k = DT_PIN_KEEP; k <= DT_PIN_ENCODE; k++)
            words[n++] = fates[k];
        words[n++] = home_word;
        return words;
    }
    if (after == DT_PIN_MOVE) {
        words[n++] = dt_tier_name(DT_TIER_HOST);
        words[n++] = dt_tier_name(DT_TIER_DISK);
    }
    for (size_t i = 0; i < codecs; i++)
        words[n++] = codec[i]->name;
    return words;
}

static dt_status unknown_word(const line *l, const char *word, dt_pin after, dt_err *err)
{
    if (!is_told(err))
        return DT_FAIL(err, DT_E_CONFIG, "%s: [" DT_LAYER_FATES "]", l->at);
    const char *wants = dt_codec_wants(word);
    if (after != DT_PIN_NONE && wants != NULL)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: [" DT_LAYER_FATES "] %.100s = %.100s: this program was built without %s", l->at,
            l->glob, l->value, wants);
    const char **words = words_behind(after);
    if (words == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the words of [" DT_LAYER_FATES "]");
    char all[1024];
    dt_list_words(all, sizeof all, words);
    const char *near = dt_nearest(word, words);
    dt_free(words);
    return DT_FAIL(err, DT_E_CONFIG,
        "%s: [" DT_LAYER_FATES "] %.100s = %.100s: '%.40s' must be one of %s%s%s%s", l->at, l->glob,
        l->value, word, all, near != NULL ? "; did you mean '" : "", near != NULL ? near : "",
        near != NULL ? "'?" : "");
}

/* The layer of which "r4.y" is a tensor; NULL: it is of none. */
static const char *layer_of_tensor(const char *name, const dt_graph *g)
{
    const char *dot = strrchr(name, '.');
    const size_t n = dot != NULL ? (size_t)(dot - name) : 0;
    for (size_t i = 0; i < g->n_node && n > 0; i++)
        if (strlen(g->node[i].name) == n && strncmp(g->node[i].name, name, n) == 0)
            return g->node[i].name;
    return NULL;
}

static dt_status no_layer(const line *l, const known *k, dt_err *err)
{
    char text[DT_NO_LAYER_BYTES];
    const char *near = is_told(err) ? dt_nearest_layer(k->graph, l->glob) : NULL;
    if (near == NULL)
        near = layer_of_tensor(l->glob, k->graph);
    return DT_FAIL(err, DT_E_CONFIG, "%s: [" DT_LAYER_FATES "] %s", l->at,
        dt_no_layer(k->graph, l->glob, near, text));
}

/* The next word of the value; empty at its end. */
static const char *next_word(const char *at, char word[64])
{
    at += strspn(at, " \t");
    const size_t n = strcspn(at, " \t");
    snprintf(word, 64, "%.*s", n < 64 ? (int)n : 63, at);
    return at + n;
}

/* Takes the word if it names a tier. */
static const char *read_tier(dt_layer_fate *f, const char *at, char word[64])
{
    const int tier = dt_tier_find(word);
    if (tier <= DT_TIER_INPUT)
        return at;
    f->tier = (dt_tier)tier;
    return next_word(at, word);
}

static bool is_fate(const line *l, dt_pin fate, const char *word)
{
    return strcmp(fates[fate], word) == 0 ||
           (fate == DT_PIN_MOVE && l->old && strcmp(word, "move") == 0);
}

/* "offload host zvc" */
static dt_status read_fate(const line *l, dt_layer_fate *f, dt_err *err)
{
    char word[64];
    const char *at = next_word(l->value, word);
    *f = (dt_layer_fate){.pin = DT_PIN_NONE};
    for (int k = DT_PIN_KEEP; k <= DT_PIN_ENCODE; k++)
        if (is_fate(l, (dt_pin)k, word))
            f->pin = (dt_pin)k;
    if (f->pin == DT_PIN_NONE)
        return unknown_word(l, word, DT_PIN_NONE, err);
    at = next_word(at, word);
    if (f->pin == DT_PIN_MOVE)
        at = read_tier(f, at, word);
    const bool packs = f->pin == DT_PIN_MOVE || f->pin == DT_PIN_ENCODE;
    if (word[0] != '\0' && packs) {
        f->codec = dti_codec_find(word);
        if (f->codec == NULL)
            return unknown_word(l, word, f->pin, err);
        at = next_word(at, word);
    }
    if (f->pin == DT_PIN_ENCODE && is_fate(l, DT_PIN_MOVE, word)) {
        f->moves = true;
        at = next_word(at, word);
        at = read_tier(f, at, word);
    }
    if (word[0] != '\0')
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: [" DT_LAYER_FATES "] %.100s = %.100s: '%.40s' is too much", l->at, l->glob,
            l->value, word);
    if (f->pin == DT_PIN_ENCODE && f->codec == NULL)
        f->codec = dti_codec_find("zvc");
    return DT_OK;
}

/* What packs has kernels where it does. What draws does so on the device, and lossy codecs round
 * values of 32 bits. A run that was begun with one and has others is gone on with as it was:
 * nothing is packed. */
static dt_status check_codec(
    const line *l, const dt_layer_fate *fate, const known *all, dt_err *err)
{
    const dt_codec *codec = fate->codec;
    const dt_dtype values = all->graph->dtype;
    if (codec != NULL && !dti_codec_is_on(codec->name, all->device))
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: [" DT_LAYER_FATES "] %.100s = %.100s: %s has no %s kernels; name another codec, "
            "as zvc",
            l->at, l->glob, l->value, codec->name, dt_device_name(all->device));
    if (codec != NULL && codec->drawn.encode != NULL && fate->pin == DT_PIN_MOVE)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: [" DT_LAYER_FATES "] %.100s = %.100s: a copy does not round at random, as %s "
            "does; write encode %s offload",
            l->at, l->glob, l->value, codec->name, codec->name);
    if (codec == NULL || codec->exact || values == DT_F32 || l->old)
        return DT_OK;
    return DT_FAIL(err, DT_E_CONFIG,
        "%s: [" DT_LAYER_FATES "] %.100s = %.100s: %s rounds values of 32 bits, but "
        "train.precision is %s here; name a codec that is exact, as zvc, or set train.precision = "
        "fp32",
        l->at, l->glob, l->value, codec->name, dt_dtype_name(values));
}

/* "home host" */
static dt_status read_home(
    dt_layer_fates *f, const line *l, known *all, const char *at, dt_err *err)
{
    char word[64], rest[64];
    at = next_word(at, word);
    (void)next_word(at, rest);
    const int tier = dt_place_find(word);
    if (tier < 0 || rest[0] != '\0')
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: [" DT_LAYER_FATES "] %.100s = %.100s: write home device, home host or home disk",
            l->at, l->glob, l->value);
    if (all->tensors.of == NULL)
        DT_CHECK(dti_home_names_of(all->graph, &all->tensors, err));
    if (!dti_home_known(&all->tensors, l->glob))
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: [" DT_LAYER_FATES
            "] '%.100s' matches no parameter, gradient or moments, which are "
            "called as in conv1.weight, conv1.weight.gradient and conv1.weight.moments",
            l->at, l->glob);
    return dti_home_rules_add(&f->homes, l->glob, (dt_tier)tier, err);
}

static dt_status add_line(dt_layer_fates *f, const line *l, const dt_layer_fate *fate, dt_err *err)
{
    if (!dt_grow(&f->line, &f->cap_line, f->n_line, sizeof *f->line))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the lines of [" DT_LAYER_FATES "]");
    dt_fate_line *to = &f->line[f->n_line++];
    *to = (dt_fate_line){.glob = l->glob, .pin = fate->pin, .codec = fate->codec};
    snprintf(to->text, sizeof to->text, "%.40s = %.36s", l->glob, l->value);
    return DT_OK;
}

static dt_status read_line(dt_layer_fates *f, const line *l, known *all, dt_err *err)
{
    const dt_graph *g = all->graph;
    bool any = false;
    char first[64];
    const char *rest = next_word(l->value, first);
    if (strcmp(first, home_word) == 0)
        return read_home(f, l, all, rest, err);
    dt_layer_fate fate;
    dt_status st = read_fate(l, &fate, err);
    if (st == DT_OK)
        st = check_codec(l, &fate, all, err);
    fate.line = f->n_line;
    DT_CHECK(add_line(f, l, &fate, err));
    for (size_t i = 0; i < g->n_node; i++)
        if (dt_layer_meant(l->glob, strlen(l->glob), &g->node[i])) {
            f->node[i] = fate;
            any = true;
        }
    const dt_status match = any ? DT_OK : no_layer(l, all, err);
    return st != DT_OK ? st : match;
}

static dt_status read_lines(
    dt_layer_fates *f, const dt_config *c, size_t section, known *all, bool old, dt_err *err)
{
    dt_status first = DT_OK;
    for (size_t i = 0; i < dt_config_key_count(c, section); i++) {
        line l = {.old = old};
        const char *file = NULL;
        int number;
        dt_config_key(c, section, i, &l.glob, &l.value, &number);
        (void)dt_config_get(c, DT_LAYER_FATES, l.glob, &file, &number);
        dt_config_place(l.at, sizeof l.at, file, number);
        const dt_status st = read_line(f, &l, all, err);
        first = first != DT_OK ? first : st;
    }
    return first;
}

static dt_status read_section(
    dt_layer_fates *f, const dt_config *c, size_t section, known all, bool old, dt_err *err)
{
    const dt_graph *g = all.graph;
    f->node = dt_alloc(g->n_node, sizeof *f->node);
    if (f->node == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the fates of %zu layers", g->n_node);
    f->n = g->n_node;
    const dt_status st = read_lines(f, c, section, &all, old, err);
    for (size_t i = 0; i < f->n; i++)
        if (f->node[i].pin != DT_PIN_NONE)
            f->line[f->node[i].line].holds = true;
    dt_free(all.tensors.of);
    return st;
}

dt_status dt_layer_fates_open(dt_layer_fates *out, const dt_config *c, const dt_graph *g,
    dt_device_kind device, bool old, dt_err *err)
{
    const known all = {.graph = g, .device = device};
    *out = (dt_layer_fates){0};
    for (size_t i = 0; i < dt_config_section_count(c); i++)
        if (strcmp(dt_config_section(c, i).text, DT_LAYER_FATES) == 0 &&
            dt_config_key_count(c, i) > 0)
            return read_section(out, c, i, all, old, err);
    return DT_OK;
}

void dt_layer_fates_close(dt_layer_fates *f)
{
    dt_free(f->node);
    dt_free(f->line);
    dti_home_rules_deinit(&f->homes);
    *f = (dt_layer_fates){0};
}

bool dt_layer_fates_exact(const dt_layer_fates *f)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->node[i].codec != NULL && !f->node[i].codec->exact)
            return false;
    return true;
}

/**
 * struct applying - fates on their way into a program.
 * @moves: copies that are listed and not put in yet
 * @done: by line, what it comes to; NULL: nobody asks
 */
typedef struct applying {
    const dt_layer_fates *fates;
    dt_program *p;
    const dt_pass_env *env;
    dti_remakes remakes;
    dti_offloads moves;
    dt_fate_done *done;
} applying;

/* A value of the layers named, and what is to become of it. @fetch: the op beside which its copy
 * back begins; DT_NONE: that of its reader */
typedef struct value {
    int32_t tensor, fetch;
    const dt_layer_fate *to;
} value;

static dt_status move_packed(
    dt_program *p, int32_t packed, const value *v, int32_t reason, dt_err *err)
{
    dti_gap g;
    const dti_offload_opt o = {
        .release_after = DT_NONE, .fetch_before = v->fetch, .tier = v->to->tier};
    dt_status st = DT_OK;
    if (dti_gap_crossing(p, packed, &g)) {
        g.reason = reason;
        st = dti_offload(p, &g, &o, err);
    }
    p->tensor[packed].pin = DT_PIN_ENCODE;
    return st;
}

/* A line comes to the most that it does with one of its values. */
static void note(applying *a, const value *v, dt_fate_done done)
{
    if (a->done != NULL && a->done[v->to->line] < done)
        a->done[v->to->line] = done;
}

static dt_status encode(applying *a, const dti_gap *g, const value *v, dt_err *err)
{
    const size_t ops = a->p->n_op;
    int32_t packed;
    DT_CHECK(dti_pass_encode(a->p, a->env, g, v->to->codec, 1, &packed, err));
    note(a, v, a->p->n_op > ops ? DT_FATE_DONE : DT_FATE_NO_SMALLER);
    return packed != DT_NONE && v->to->moves ? move_packed(a->p, packed, v, g->reason, err) : DT_OK;
}

/* What packs a value; NULL: it is left as it is. */
static const dt_codec *codec_of(const dt_pass_env *env, const dt_layer_fate *to, const dt_tensor *t)
{
    const bool packs = to->codec != NULL && dt_packs(t) && !(env->dense && to->codec->sparse);
    return packs ? to->codec : NULL;
}

/* What cannot be packed moves as it is, and stays where encode asks for it. */
static dt_status set_gap(applying *a, dti_gap *g, const value *v, dt_err *err)
{
    dt_program *p = a->p;
    const dt_pass_env *env = a->env;
    const dt_layer_fate *to = v->to;
    const dt_tensor *t = &p->tensor[g->tensor];
    if ((to->pin == DT_PIN_ENCODE && !dt_packs(t)) ||
        (to->pin == DT_PIN_RECOMPUTE && !dti_repeatable(p, g->tensor)))
        return DT_OK;
    DT_CHECK(dt_reasons_add(
        &p->reasons, &g->reason, err, "[" DT_LAYER_FATES "] %s", a->fates->line[to->line].text));
    if (to->pin == DT_PIN_ENCODE)
        return encode(a, g, v, err);
    note(a, v, DT_FATE_DONE);
    if (to->pin == DT_PIN_RECOMPUTE)
        return dti_remakes_before(&a->remakes, g->to, &g->tensor, 1, g->reason, err);
    const dti_offload_opt o = {.release_after = DT_NONE,
        .fetch_before = v->fetch,
        .tier = to->tier,
        .codec = codec_of(env, to, t),
        .density = dti_pass_density(env, t, 1)};
    return dti_offloads_add(&a->moves, p, g, &o, err);
}

/* Set one fate. */
static dt_status set(applying *a, const value *v, dt_err *err)
{
    dti_gap g;
    DT_CHECK(dti_remakes_pin(&a->remakes, v->tensor, DT_PIN_NONE, err));
    if (dti_gap_crossing(a->p, v->tensor, &g))
        DT_CHECK(set_gap(a, &g, v, err));
    return dti_remakes_pin(&a->remakes, v->tensor, v->to->pin, err);
}

/* What forward leaves of the layers named, in the order of the layers. */
static size_t collect(const dt_layer_fates *f, const dt_program *p, value *v)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op *op = &p->op[p->order[i]];
        if (op->kind != DT_OP_FORWARD || op->node == DT_NONE ||
            f->node[op->node].pin == DT_PIN_NONE)
            continue;
        for (int a = 0; a < op->n_arg; a++) {
            const dt_tensor *t = &p->tensor[op->arg[a].tensor];
            if (op->arg[a].mode == DT_WRITE && t->home == DT_NONE &&
                (t->role == DT_ROLE_ACTIVATIONS || t->role == DT_ROLE_STASH) &&
                t->pin == DT_PIN_NONE)
                v[n++] = (value){op->arg[a].tensor, DT_NONE, &f->node[op->node]};
        }
    }
    return n;
}

/* ---- when what was moved comes back ---- */

/* A copy back: of which value, the place of its reader, and its seconds on the link. */
typedef struct arrival {
    value *v;
    int32_t to_pos;
    double seconds;
} arrival;

static int last_needed_first(const void *a, const void *b)
{
    const arrival *x = a, *y = b;
    if (x->to_pos != y->to_pos)
        return x->to_pos > y->to_pos ? -1 : 1;
    return x->v->tensor > y->v->tensor ? -1 : x->v->tensor < y->v->tensor;
}

/* Of what travels, which may be packed. */
static double link_seconds(const dt_pass_env *env, const dt_layer_fate *f, const dt_tensor *t)
{
    const dt_tier tier = f->tier == DT_TIER_INPUT ? dti_offload_tier(env) : f->tier;
    const dt_codec *codec = codec_of(env, f, t);
    const size_t count = t->bytes / sizeof(uint32_t);
    const uint64_t bytes =
        codec != NULL ? dt_packed_bytes(codec, count, dti_pass_density(env, t, 1)) : t->bytes;
    return dti_pass_copy_seconds(env, tier, DT_ROW_COPY_IN, bytes);
}

static size_t find_arrivals(value *v, size_t n, dt_program *p, const dt_pass_env *env, arrival *to)
{
    size_t k = 0;
    dti_gap g;
    for (size_t i = 0; i < n; i++) {
        const dt_layer_fate *f = v[i].to;
        if (f->pin != DT_PIN_MOVE && !f->moves)
            continue;
        const dt_pin pinned = p->tensor[v[i].tensor].pin;
        p->tensor[v[i].tensor].pin = DT_PIN_NONE; /* which shows its gaps */
        if (dti_gap_crossing(p, v[i].tensor, &g))
            to[k++] = (arrival){&v[i], g.to_pos, link_seconds(env, f, &p->tensor[v[i].tensor])};
        p->tensor[v[i].tensor].pin = pinned;
    }
    return k;
}

static dt_status no_memory(dt_err *err)
{
    return DT_FAIL(err, DT_E_NOMEM, "no memory for the fates of layers");
}

/* By place, when its op begins if none waits; the caller frees *begin, after a failure as well. */
static dt_status find_begins(dt_program *p, const dt_pass_env *env, double **begin, dt_err *err)
{
    double *takes = dt_alloc(p->n_op + 1, sizeof *takes);
    *begin = dt_alloc(p->n_order + 1, sizeof **begin);
    const bool enough = takes != NULL && *begin != NULL;
    const dt_status st = enough ? dti_pass_op_seconds(env, p, takes, err) : no_memory(err);
    for (size_t i = 0; st == DT_OK && i < p->n_order; i++)
        (*begin)[i + 1] = (*begin)[i] + takes[p->order[i]];
    dt_free(takes);
    return st;
}

/* So many values may be back before they are read. */
enum { AHEAD = 4 };

/* The link brings one value after the other, each as late as can be: done when its reader begins,
 * or when the one needed next must begin. The copy is put before the op that runs at that time, but
 * not before backward, and where backward waits for the link anyway, not before AHEAD values were
 * read: they would only lie there. */
static dt_status prefetch(value *v, size_t n, dt_program *p, const dt_pass_env *env, dt_err *err)
{
    double *begin = NULL; /* by place, seconds */
    arrival *a = dt_alloc(n + 1, sizeof *a);
    const dt_status st = a != NULL ? find_begins(p, env, &begin, err) : no_memory(err);
    if (st != DT_OK) {
        dt_free(begin);
        dt_free(a);
        return st;
    }
    const size_t k = find_arrivals(v, n, p, env, a);
    qsort(a, k, sizeof *a, last_needed_first);
    const int32_t backward = dt_pos(p, p->loss) + 1;
    double free_until = begin[p->n_order];
    int32_t pos = (int32_t)p->n_order;
    for (size_t i = 0; i < k; i++) {
        const double end = free_until < begin[a[i].to_pos] ? free_until : begin[a[i].to_pos];
        free_until = end - a[i].seconds;
        pos = pos < a[i].to_pos ? pos : a[i].to_pos;
        const int32_t first = i + AHEAD < k ? a[i + AHEAD].to_pos : backward;
        while (pos > first && begin[pos] > free_until)
            pos--;
        a[i].v->fetch = p->order[pos];
    }
    dt_free(begin);
    dt_free(a);
    return DT_OK;
}

/* Recomputes come first, from the last layer to the first, so that what a recompute needs is
 * recomputed after it and only once. They may read what is to be kept or moved, and lengthen its
 * life; what is moved or packed is so when all its readers are there. */
static dt_status apply_all(applying *a, value *v, size_t n, dt_err *err)
{
    DT_CHECK(dti_remakes_open(&a->remakes, a->p, NULL, false, err));
    for (size_t i = 0; i < n; i++)
        if (v[i].to->pin != DT_PIN_RECOMPUTE)
            DT_CHECK(dti_remakes_pin(&a->remakes, v[i].tensor, DT_PIN_KEEP, err));
    for (size_t i = n; i-- > 0;)
        if (v[i].to->pin == DT_PIN_RECOMPUTE)
            DT_CHECK(set(a, &v[i], err));
    DT_CHECK(prefetch(v, n, a->p, a->env, err));
    for (size_t i = 0; i < n; i++) {
        if (v[i].to->pin == DT_PIN_ENCODE) /* which finds the program as it is by then */
            DT_CHECK(dti_offloads_end(&a->moves, a->p, DT_OK, err));
        if (v[i].to->pin == DT_PIN_MOVE || v[i].to->pin == DT_PIN_ENCODE)
            DT_CHECK(set(a, &v[i], err));
    }
    return DT_OK;
}

static dt_status apply(const dt_layer_fates *f, value *v, size_t n, dt_program *p,
    const dt_pass_env *env, dt_fate_done *done, dt_err *err)
{
    applying a = {.fates = f, .p = p, .env = env, .done = done};
    const dt_status st = apply_all(&a, v, n, err);
    dti_remakes_close(&a.remakes);
    return dti_offloads_end(&a.moves, p, st, err);
}

dt_status dt_layer_fates_apply(
    const dt_layer_fates *f, dt_program *p, const dt_pass_env *env, dt_fate_done *done, dt_err *err)
{
    if (f->n == 0 || p->loss == DT_NONE)
        return DT_OK;
    DT_CHECK(dt_program_index(p, err));
    value *v = dt_alloc(p->n_tensor, sizeof *v);
    if (v == NULL)
        return no_memory(err);
    const dt_status st = apply(f, v, collect(f, p, v), p, env, done, err);
    dt_free(v);
    if (st != DT_OK)
        return DT_FAIL(err, st, "[" DT_LAYER_FATES "]");
    return DT_OK;
}
