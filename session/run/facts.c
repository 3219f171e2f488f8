/* What a run is, in keys and values, so that another run is not gone on with by mistake: all of the
 * configuration but what is free to change, and what results depend on beside it. */
#define _GNU_SOURCE /* realpath */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/memory_stream.h"
#include "engine/base/sha256.h"
#include "engine/base/text.h"
#include "engine/algorithms.h"
#include "layers/blocked/bf16.h"
#include "layers/onednn/onednn.h"
#include "session/run/run_internal.h"
#include "session/version.h"

enum { KEY_BYTES = 160, SHOWN = 40, SUM_SHOWN = 16 };

/* Keys: the place of data, and what tells it apart. */
static const char data_path[] = "data.path", data_fingerprint[] = "data.fingerprint",
                  held_out_fingerprint[] = "data.eval_fingerprint";

typedef enum kind { FIXED, TOLD, ROUNDING, RESULTS, FREE } kind;

/* The first that matches counts; what is not listed is fixed. */
static const struct {
    const char *glob;
    kind kind;
} rules[] = {
    {"memory.*", FREE},
    {"card.*", FREE},
    {"checkpoint.*", FREE},
    {"run.*", FREE},
    {"data.ahead", FREE},
    {"data.on_error", FREE},
    {"data.max_skips", FREE},
    {"model.weights", FREE},
    {"model.fresh", FREE},
    {"train.dump_gradients", FREE},
    {"train.update", FREE},
    {"train.finite", FREE},
    {"train.report", FREE},
    {"device.kind", FREE},
    {"data.eval_path", TOLD},
    {"data.vocab", TOLD}, /* names of classes are compared as such */
    {"train.lr", TOLD},
    {"train.schedule", TOLD},
    {"train.milestones", TOLD},
    {"train.gamma", TOLD},
    {"train.warmup", TOLD},
    {"train.final_lr", TOLD},
    {"train.steps", TOLD},
    {"train.epochs", TOLD},
    {"train.eval_every", TOLD},
    {"train.patience", TOLD},
    {"program", TOLD},
    {"exact", RESULTS},
    {"device.threads", ROUNDING},
    {"isa", ROUNDING},
    {"library_isa", ROUNDING},
    {"bf16_by", ROUNDING},
    {"algorithms", ROUNDING},
    {"library", ROUNDING},
};

static kind kind_of(const char *key)
{
    for (size_t i = 0; i < DT_COUNT(rules); i++)
        if (dt_glob(rules[i].glob, key))
            return rules[i].kind;
    return FIXED;
}

/* ---- collecting ---- */

/* JSON must be UTF-8, paths need not be. */
static char *tidy_text(const char *value)
{
    char *text = dt_strdup(value);
    if (text != NULL)
        dt_utf8_mend(text);
    return text;
}

static dt_status add(dti_facts *f, const char *key, const char *value, dt_err *err)
{
    if (kind_of(key) == FREE)
        return DT_OK;
    char *k = tidy_text(key), *v = tidy_text(value);
    if (k == NULL || v == NULL || !dt_grow(&f->fact, &f->cap, f->n, sizeof *f->fact)) {
        dt_free(k);
        dt_free(v);
        return DT_FAIL(err, DT_E_NOMEM, "no memory to describe the run");
    }
    f->fact[f->n++] = (dt_fact){k, v};
    return DT_OK;
}

static dt_status add_number(dti_facts *f, const char *key, int64_t v, dt_err *err)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, v);
    return add(f, key, text, err);
}

/* A path as it is in the file system, so that another way to name it is no change. */
static dt_status add_path(dti_facts *f, const char *key, const char *path, dt_err *err)
{
    char *real = path != NULL ? realpath(path, NULL) : NULL;
    const dt_status st = add(f, key, real != NULL ? real : path != NULL ? path : "", err);
    free(real);
    return st;
}

static dt_status add_option(
    dti_facts *f, const char *key, const dt_opt *row, const void *from, dt_err *err)
{
    dt_memory_stream text;
    if (row->type == DT_OPT_PATH) {
        const char *path;
        memcpy(&path, (const char *)from + row->at, sizeof path);
        return add_path(f, key, path, err);
    }
    DT_CHECK(dt_memory_open(&text, key, err));
    dt_opt_print(text.f, row, from);
    DT_CHECK(dt_memory_close(&text, DT_OK, err));
    const dt_status st = add(f, key, text.text, err);
    dt_free(text.text);
    return st;
}

static bool is_found_out(const char *key) /* said by add_session as it turned out */
{
    return strcmp(key, "train.precision") == 0 || strcmp(key, "train.micro_batch") == 0 ||
           strcmp(key, "device.threads") == 0;
}

static dt_status add_sections(dti_facts *f, const dt_session *s, dt_err *err)
{
    char key[KEY_BYTES];
    for (const dt_run_section *p = dt_run_sections; p->name != NULL; p++)
        for (const dt_opt *row = p->rows; row->key != NULL; row++) {
            snprintf(key, sizeof key, "%s.%s", p->name, row->key);
            if (kind_of(key) != FREE && !is_found_out(key))
                DT_CHECK(add_option(f, key, row, (const char *)&s->opts + p->offset, err));
        }
    return DT_OK;
}

/* Sections with names, "conv c1", make a network. */
static dt_status add_layers(dti_facts *f, const dt_config *c, dt_err *err)
{
    char key[DT_LINE_BYTES];
    for (size_t i = 0; i < dt_config_section_count(c); i++) {
        const dt_section s = dt_config_section(c, i);
        for (size_t k = 0; s.name[0] != '\0' && k < dt_config_key_count(c, i); k++) {
            const char *name, *value;
            int line;
            dt_config_key(c, i, k, &name, &value, &line);
            snprintf(key, sizeof key, "%s.%s", s.text, name);
            f->full = f->n >= DT_CHECKPOINT_FACTS - 64; /* the network's sum tells of the rest */
            if (!f->full)
                DT_CHECK(add(f, key, value, err));
        }
    }
    return DT_OK;
}

static void sum_node(dt_sha256 *sum, const dt_graph *g, const dt_node *node, bool options)
{
    char text[256];
    dt_sha256_add_text(sum, node->name);
    dt_sha256_add_text(sum, node->desc->name);
    if (options)
        dt_sha256_add_text(sum, node->opts_text);
    for (int i = 0; i < node->n_in; i++) {
        const dt_shape x = dt_graph_shape(g, node->in[i]);
        const int n = snprintf(text, sizeof text, "%" PRId64 ":%" PRId64 "x%" PRId64 "x%" PRId64,
            (int64_t)node->in[i], x.h, x.w, x.c);
        dt_sha256_add(sum, text, (size_t)n + 1);
    }
}

/* Layers, how they hang together, and shapes; and options, where their keys found no room. */
static dt_status add_network(dti_facts *f, const dt_graph *g, dt_err *err)
{
    dt_sha256 sum;
    char text[DT_SHA256_TEXT];
    dt_sha256_init(&sum);
    for (size_t i = 0; i < g->n_node; i++)
        sum_node(&sum, g, &g->node[i], f->full);
    dt_sha256_text(&sum, text);
    text[SUM_SHOWN] = '\0';
    return add(f, "network", text, err);
}

/* The table of algorithms, however it was chosen: bits depend on nothing else of [memory]. */
static dt_status add_algorithms(dti_facts *f, const dt_algorithm_table *t, dt_err *err)
{
    bool any = true, least = true;
    dt_sha256 sum;
    char text[DT_SHA256_TEXT];
    dt_sha256_init(&sum);
    for (size_t i = 0; i < t->n; i++)
        for (int k = 0; k < DT_DIRECTIONS; k++) {
            const uint64_t limit = t->limit[i][k];
            any = any && limit == DT_LIMIT_ANY;
            least = least && limit == DT_LIMIT_LEAST;
            dt_sha256_add(&sum, &limit, sizeof limit);
        }
    dt_sha256_text(&sum, text);
    text[SUM_SHOWN] = '\0';
    return add(f, "algorithms", any ? "fast" : least ? "small" : text, err);
}

/* What a configuration alone decides. */
static dt_status add_session(dti_facts *f, const dt_session *s, dt_err *err)
{
    DT_CHECK(add_sections(f, s, err));
    DT_CHECK(add_layers(f, s->config, err));
    DT_CHECK(add_network(f, s->graph, err));
    DT_CHECK(add(f, "train.precision", dt_session_precision(s), err));
    DT_CHECK(add_number(f, "train.micro_batch", s->micro_batch, err));
    DT_CHECK(add_number(f, "parameters", dt_graph_parameters(s->graph), err));
    return add_number(f, "device.threads", s->threads, err);
}

/* Of policies that change results their options as well, as these say how. */
static dt_status add_exact(dti_facts *f, const dt_session *s, dt_err *err)
{
    dt_memory_stream text;
    if (dt_plan_set_exact(s->plans))
        return add(f, "exact", "on", err);
    DT_CHECK(dt_memory_open(&text, "what a policy changes", err));
    fputs(dt_session_policy(s), text.f);
    for (size_t i = 0; i < s->policies.n; i++) {
        const dt_policy *p = s->policies.pass[i].policy;
        const void *opts = s->policies.pass[i].opts;
        const bool delays = p->delay != NULL && p->delay(opts) >= 0;
        if (p->exact && !delays && (p->changes == NULL || !p->changes(opts)))
            continue;
        for (const dt_opt *row = p->opts; row != NULL && row->key != NULL; row++) {
            fprintf(text.f, " %s=", row->key);
            dt_opt_print(text.f, row, opts);
        }
    }
    DT_CHECK(dt_memory_close(&text, DT_OK, err));
    const dt_status st = add(f, "exact", text.text, err);
    dt_free(text.text);
    return st;
}

static dt_status add_results(dti_facts *f, const dt_run *r, dt_err *err)
{
    const dt_session *s = r->s;
    DT_CHECK(add_number(f, "samples", r->feeds.train->desc->count(r->feeds.train), err));
    if (r->fingerprint[0] != '\0')
        DT_CHECK(add(f, data_fingerprint, r->fingerprint, err));
    if (r->eval_fingerprint[0] != '\0')
        DT_CHECK(add(f, held_out_fingerprint, r->eval_fingerprint, err));
    DT_CHECK(add(f, "isa", dt_session_isa(s), err));
    DT_CHECK(add(f, "library", dt_onednn_version(), err));
    if (r->s->context.device == DT_CPU)
        DT_CHECK(add(f, "library_isa", dt_onednn_isa(), err));
    if (r->s->context.device == DT_CPU && s->graph->dtype == DT_BF16)
        DT_CHECK(add(f, "bf16_by", dt_bf16_by(), err));
    DT_CHECK(add_algorithms(f, &s->plans->table, err));
    DT_CHECK(add(f, "program", dt_version(), err));
    return add_exact(f, s, err);
}

dt_status dti_facts_init(dti_facts *f, const dt_run *r, dt_err *err)
{
    *f = (dti_facts){0};
    dt_status st = add_session(f, r->s, err);
    if (st == DT_OK)
        st = add_results(f, r, err);
    if (st != DT_OK)
        dti_facts_deinit(f);
    return st;
}

static void free_text(const char *text)
{
    dt_free((void *)(uintptr_t)text);
}

void dti_facts_deinit(dti_facts *f)
{
    for (size_t i = 0; i < f->n; i++) {
        free_text(f->fact[i].key);
        free_text(f->fact[i].value);
    }
    dt_free(f->fact);
    *f = (dti_facts){0};
}

dt_status dti_facts_check(const dt_run *r, dt_err *err)
{
    dti_facts f;
    DT_CHECK(dti_facts_init(&f, r, err));
    const dt_status st = dt_checkpoint_check_facts(f.fact, f.n, err);
    dti_facts_deinit(&f);
    return st;
}

/* ---- comparing ---- */

static const char *shown(const char *value)
{
    return value == NULL ? "(not given)" : *value == '\0' ? "(none)" : value;
}

/* Whether two values of "SECTION.KEY" mean the same: layers tell of their options as they are
 * written, or not at all, which a run's own config.ini writes out. */
static bool mean_the_same(const dt_config *c, const char *key, const char *a, const char *b)
{
    char section[DT_LINE_BYTES];
    const char *dot = strrchr(key, '.');
    bool same = false;
    if (a != NULL && b != NULL && strcmp(a, b) == 0)
        return true;
    if (dot == NULL || (size_t)(dot - key) >= sizeof section)
        return false;
    snprintf(section, sizeof section, "%.*s", (int)(dot - key), key);
    return dt_config_same(c, section, dot + 1, a, b, &same, NULL) == DT_OK && same;
}

static bool data_agrees(const char *then, const char *now)
{
    return then != NULL && now != NULL && dt_fingerprints_agree(then, now);
}

/* What is said of a key that differs. The same data may lie somewhere else. */
static kind kind_now(const dt_run *r, const char *key)
{
    const char *then = dt_checkpoint_fact(r->from, data_fingerprint);
    return strcmp(key, data_path) == 0 && data_agrees(then, r->fingerprint) ? TOLD : kind_of(key);
}

bool dti_facts_same_held_out(const dt_run *r)
{
    const char *then = dt_checkpoint_fact(r->from, held_out_fingerprint);
    return then == NULL || r->feeds.eval == NULL || data_agrees(then, r->eval_fingerprint);
}

/* One key that may differ; a value that is not given is NULL. */
static void compare_one(
    dt_run *r, const char *key, const char *then, const char *now, size_t *differ, dt_err *err)
{
    if (mean_the_same(r->s->config, key, then, now))
        return;
    const kind k = kind_now(r, key);
    const bool data = strcmp(key, data_fingerprint) == 0;
    if (strcmp(key, held_out_fingerprint) == 0)
        return; /* no step depends on it, and what does asks for it */
    const bool later = data || strcmp(key, "library_isa") == 0 || strcmp(key, "bf16_by") == 0;
    if (then == NULL && later)
        return; /* by a run before it was told */
    if (data && data_agrees(then, now))
        return;
    if (k == TOLD)
        dti_run_tell(r, "resume", "%s was %s, now %s", key, shown(then), shown(now));
    if (k == ROUNDING || k == RESULTS)
        dti_run_tell(r, "resume",
            "%s was %s, now %s: results will differ%s from those of a run that was not stopped",
            key, shown(then), shown(now), k == ROUNDING ? " in rounding" : "");
    if (k != FIXED)
        return;
    if ((*differ)++ == 0)
        (void)DT_FAIL(err, DT_E_CONFIG, "  %-24s %-*s %s", "key", SHOWN, "then", "now");
    (void)DT_FAIL(err, DT_E_CONFIG, "  %-24s %-*s %s", key, SHOWN, shown(then), shown(now));
}

dt_status dti_facts_compare(dt_run *r, dt_err *err)
{
    const dt_checkpoint *c = r->from;
    dti_facts now;
    size_t differ = 0;
    DT_CHECK(dti_facts_init(&now, r, err));
    dt_err table = {0};
    for (size_t i = 0; i < now.n; i++)
        compare_one(r, now.fact[i].key, dt_checkpoint_fact(c, now.fact[i].key), now.fact[i].value,
            &differ, &table);
    for (size_t i = 0; i < dt_checkpoint_facts(c); i++) {
        const dt_fact then = dt_checkpoint_fact_at(c, i);
        if (dt_fact_find(now.fact, now.n, then.key) == NULL)
            compare_one(r, then.key, then.value, NULL, &differ, &table);
    }
    dti_facts_deinit(&now);
    if (differ == 0)
        return DT_OK;
    (void)DT_FAIL(err, DT_E_CONFIG,
        "'%s' is of a run with another configuration; what it was and now is:",
        dt_checkpoint_path(c));
    (void)dt_err_append(err, DT_E_CONFIG, table.text);
    return DT_FAIL(err, DT_E_CONFIG,
        "set that back to go on; to begin a new run from its weights, set run.dir to another "
        "folder and model.weights = %s/" DT_CHECKPOINT_MODEL,
        dt_checkpoint_path(c));
}

/* ---- a configuration without a run ---- */

dt_status dti_session_results(const dt_session *s, char to[DT_SHA256_TEXT], dt_err *err)
{
    dti_facts f = {0};
    dt_sha256 sum;
    dt_status st = add_session(&f, s, err);
    if (st == DT_OK)
        st = add(&f, "algorithms", dt_algorithms_name(s->opts.memory.algorithms), err);
    if (st == DT_OK)
        st = add(&f, "device", dt_device_name(s->context.device), err);
    if (st == DT_OK && s->context.card != NULL)
        st = add(&f, "card", s->context.card->name, err);
    dt_sha256_init(&sum);
    for (size_t i = 0; i < f.n; i++) {
        dt_sha256_add_text(&sum, f.fact[i].key);
        dt_sha256_add_text(&sum, f.fact[i].value);
    }
    dt_sha256_text(&sum, to);
    dti_facts_deinit(&f);
    return st;
}
