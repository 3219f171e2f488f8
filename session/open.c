/* A session opened: configuration read, device and graph made ready. */
#include "session/open.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "data/source.h"
#include "engine/base/alloc.h"
#include "engine/base/cpu.h"
#include "engine/checkpoint/weights.h"
#include "engine/graph_freeze.h"
#include "engine/graph_rates.h"
#include "engine/graph_fuse.h"
#include "layers/onednn/onednn.h"
#include "memory/kept.h"
#include "memory/tier.h"
#include "memory/time/card_costs.h"
#include "models/ini.h"
#include "session/costs.h"
#include "session/parts.h"
#include "session/profile_cache.h"
#include "session/rig.h"
#include "session/run_dir.h"
#include "session/run_plans.h"

/* Of a card that is not here: what CUDA, its libraries and their kernels take is not known. */
static const uint64_t left_to_cuda = (uint64_t)1 << 30;

static dt_status first_of(dt_status a, dt_status b)
{
    return a != DT_OK ? a : b;
}

/* The network of the file's layer sections, or the model named. */
static dt_status build_graph(const dt_session *s, dt_graph **out, dt_err *err)
{
    const dt_model_section *m = &s->opts.model;
    const dt_model_opts o = {.classes = m->classes,
        .image = m->image,
        .channels = m->channels,
        .width = m->width,
        .dropout = m->dropout,
        .layers = m->layers,
        .heads = m->heads,
        .vocab = m->vocab,
        .context = m->context,
        .attention = m->attention,
        .tiles = m->tiles,
        .head_tiles = m->head_tiles,
        .counts = m->count,
        .n_counts = m->n_count};
    if (dt_ini_has_layers(s->config))
        return dt_ini_network(s->config, &o, out, err);
    const dt_model_desc *d = m->name != NULL ? dt_model_find(m->name) : NULL;
    if (m->name == NULL)
        return DT_FAIL(err, DT_E_CONFIG,
            "[model] name is missing; it names a model (dnntrain list models), or the file holds "
            "[KIND NAME] sections, one a layer");
    return d != NULL ? dt_model_build(d, &o, out, err)
                     : dti_session_unknown(s, "model", "name", "model", dt_model_names(), err);
}

/* As [model] fuse says; part of what is trained, so before anything is planned. */
static dt_status fuse(dt_session *s, dt_graph **g, dt_err *err)
{
    dt_graph *fused;
    if (!s->opts.model.fuse)
        return DT_OK;
    DT_CHECK(dt_graph_fuse(&fused, *g, err));
    dt_graph_destroy(*g);
    s->graph = *g = fused;
    return DT_OK;
}

/* What is said of a file of weights: where there is none, or of weights that there are not. */
static dt_status check_fresh(const dt_session *s, dt_err *err)
{
    char asked[DT_ASKED];
    if (s->opts.model.fresh != NULL && s->opts.model.weights == NULL)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: without model.weights all begin so; set that, or leave this out",
            dt_session_asked(asked, s, "model", "fresh"));
    DT_TRY(err, dt_weights_check_fresh(s->graph, dti_session_fresh(s), err), "%s",
        dt_session_asked(asked, s, "model", "fresh"));
    return DT_OK;
}

/* As [train] freeze says, by the names that nodes have when they are fused. */
static dt_status freeze(dt_session *s, dt_graph *g, dt_err *err)
{
    char asked[DT_ASKED];
    if (s->opts.train.freeze == NULL)
        return DT_OK;
    DT_TRY(err, dt_graph_freeze(g, s->opts.train.freeze, err), "%s",
        dt_session_asked(asked, s, "train", "freeze"));
    if (s->opts.model.weights == NULL && strcmp(s->opts.checkpoint.resume, "no") == 0)
        dti_session_note(s,
            "%.400s: without model.weights these layers stay as they are drawn at random",
            dt_session_asked(asked, s, "train", "freeze"));
    return DT_OK;
}

/* As [train] rates says, by the same names. */
static dt_status set_rates(const dt_session *s, dt_graph *g, dt_err *err)
{
    char asked[DT_ASKED];
    if (s->opts.train.rates != NULL)
        DT_TRY(err, dt_graph_rates(g, s->opts.train.rates, err), "%s",
            dt_session_asked(asked, s, "train", "rates"));
    return DT_OK;
}

/* What names layers or weights: its mistakes are told together. */
static dt_status name_layers(dt_session *s, dt_graph *g, dt_err *err)
{
    dt_status st = freeze(s, g, err);
    st = first_of(st, set_rates(s, g, err));
    return first_of(st, check_fresh(s, err));
}

/* A layer that would be trained, and of which nobody knows how: told at its section, where the
 * network has sections. */
static dt_status check_taught(const dt_session *s, const dt_graph *g, dt_err *err)
{
    char at[512], place[256];
    int32_t node, reader;
    DT_CHECK(dt_graph_untaught(g, &node, &reader, err));
    if (node == DT_GRAPH_INPUT)
        return DT_OK;
    const dt_node *nd = &g->node[node], *by = &g->node[reader];
    snprintf(at, sizeof at, "network '%.200s'", g->name);
    for (size_t i = 0; i < dt_config_section_count(s->config); i++) {
        const dt_section l = dt_config_section(s->config, i);
        if (strcmp(l.name, nd->name) == 0)
            snprintf(at, sizeof at, "%s: [%.120s]",
                dt_config_place(place, sizeof place, l.file, l.line), l.text);
    }
    return DT_FAIL(err, DT_E_CONFIG,
        "%s: no gradient reaches '%s': '%s' (%s) reads it and gives none, nor does another layer; "
        "freeze it and those before it by train.freeze, or let a layer that gives one read it too",
        at, nd->name, by->name, by->desc->name);
}

/* What is said of classes, where the loss has values, and of values where it has classes. */
static dt_status check_loss(const dt_session *s, const dt_graph *g, dt_err *err)
{
    char asked[DT_ASKED];
    const char *loss = g->node[g->n_node - 1].desc->name;
    const dt_shape output = dt_graph_output(g);
    const bool values = dt_graph_label_kind(g) != DT_LABEL_CLASS;
    if (values && s->opts.train.label_smoothing > 0)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: it is for labels that are classes, and %s compares with values; leave it out",
            dt_session_asked(asked, s, "train", "label_smoothing"), loss);
    if (values && s->opts.checkpoint.best == DT_BEST_TOP1)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: %s has no classes to tell; set checkpoint.best = loss",
            dt_session_asked(asked, s, "checkpoint", "best"), loss);
    if (s->opts.data.target != DT_TARGET_INPUT)
        return DT_OK;
    if (!values)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: the loss, %s, learns classes; end the network in one of values, as [mse loss]",
            dt_session_asked(asked, s, "data", "target"), loss);
    if (dt_shape_sample(&output) != dt_shape_sample(&g->input) ||
        (output.h * output.w > 1 && (output.h != g->input.h || output.w != g->input.w)))
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: the network takes %" PRId64 "x%" PRId64 "x%" PRId64 " values and gives %" PRId64
            "x%" PRId64 "x%" PRId64 "; make these alike, or a vector of as many",
            dt_session_asked(asked, s, "data", "target"), g->input.h, g->input.w, g->input.c,
            output.h, output.w, output.c);
    return DT_OK;
}

/* The type of values that train.precision asks for, on this machine. All cards that CUDA kernels
 * are built for multiply bf16. */
static dt_status set_precision(const dt_session *s, dt_graph *g, dt_err *err)
{
    char asked[DT_ASKED];
    const int wanted = s->opts.train.precision;
    if (s->context.device == DT_CUDA) {
        g->dtype = wanted == DT_PRECISION_FP32 || s->context.tf32 ? DT_F32 : DT_BF16;
        return DT_OK;
    }
    if (wanted == DT_PRECISION_TF32)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: tf32 is of cuda devices; set train.precision = fp32, bf16 or auto",
            dt_session_asked(asked, s, "train", "precision"));
    if (wanted == DT_PRECISION_FP32 || (wanted == DT_PRECISION_AUTO && !dt_onednn_bf16()))
        return DT_OK;
    g->dtype = DT_BF16;
    return DT_OK;
}

/* Names of the list that change nothing where they stand: one that is there already, and keep_all
 * beside others. */
static void note_idle_names(dt_session *s)
{
    const dt_policies *p = &s->policies;
    for (size_t i = 0; i < p->n && p->n > 1; i++) {
        const char *name = p->pass[i].policy->name;
        size_t before = 0;
        for (size_t k = 0; k < i; k++)
            before += strcmp(p->pass[k].policy->name, name) == 0;
        if (before == 1)
            dti_session_note(s,
                "memory.policy = %.200s: '%s' stands there twice, and once is enough",
                s->opts.memory.policy, name);
        if (before == 0 && strcmp(name, "keep_all") == 0)
            dti_session_note(s,
                "memory.policy = %.200s: keep_all changes nothing beside others; leave it out",
                s->opts.memory.policy);
    }
}

bool dti_session_idle(const dt_session *s, const char *section, const char *key, const char *of)
{
    const char *file;
    int line;
    bool same = true;
    const char *value = dt_config_get(s->config, section, key, &file, &line);
    if (value == NULL || dt_config_typed(s->config, section, key))
        return value != NULL;
    if (dt_config_typed(s->config, section, of))
        return false;
    return dt_config_same(s->config, section, key, value, NULL, &same, NULL) == DT_OK && !same;
}

/* Whether a word stands in a text, whole: "adam" does not in "adamw or lion". */
static bool names_word(const char *text, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += n)
        if ((at == text || at[-1] == ' ') && (at[n] == '\0' || at[n] == ' ' || at[n] == ','))
            return true;
    return false;
}

/* Options of another optimizer or schedule than the run's. */
static void note_idle_options(dt_session *s)
{
    static const struct {
        const char *key, *of, *count_for; /* names of these, as they are told */
    } all[] = {{"momentum", "optimizer", "sgd"}, {"beta1", "optimizer", "adam, adamw or lion"},
        {"beta2", "optimizer", "adam, adamw or lion"}, {"eps", "optimizer", "adam or adamw"},
        {"gamma", "schedule", "step"}};
    const dt_train_opts *t = &s->opts.train;
    char asked[DT_ASKED];
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        const bool counts = strcmp(all[i].of, "schedule") == 0
                                ? t->schedule == DT_SCHEDULE_STEP
                                : names_word(all[i].count_for, dt_optimizer_name(t));
        if (counts || !dti_session_idle(s, "train", all[i].key, all[i].of))
            continue;
        dti_session_note(s, "%.400s: counts for %s = %s alone",
            dt_session_asked(asked, s, "train", all[i].key), all[i].of, all[i].count_for);
    }
}

/* Of older ones no more than speeds are known, by which steps are simulated. */
static dt_status unknown_card(const dt_session *s, dt_err *err)
{
    char asked[DT_ASKED];
    const char *name = s->opts.device.card;
    if (dt_card_speed_find(name) == NULL)
        return dti_session_unknown(s, "device", "card", "card", dt_card_names(), err);
    return DT_FAIL(err, DT_E_CONFIG,
        "%s: of this card nothing but its speed is known, which is for memory.simulate = %s",
        dt_session_asked(asked, s, "device", "card"), name);
}

/* Whether all that memory.policy names was taken: what is wrong then is an option of one. */
static bool all_taken(const dt_session *s)
{
    size_t n = 0;
    for (const char *at = s->opts.memory.policy; *at != '\0'; n++) {
        at += strcspn(at, ",");
        at += *at == ',';
    }
    return s->policies.n == n;
}

/* A wrong name in one of the registries, before anything is built. */
static dt_status check_names(dt_session *s, dt_err *err)
{
    char asked[DT_ASKED];
    const char *sources[DT_SOURCES + 1];
    dt_status st = dt_policies_open(&s->policies, s->opts.memory.policy, s->config, err);
    const dt_policy *ladder = dt_policies_ladder(&s->policies);
    if (st != DT_OK && !all_taken(s)) /* options are told with their own places */
        (void)DT_FAIL(err, st, "%s", dt_session_asked(asked, s, "memory", "policy"));
    if (st == DT_OK)
        note_idle_names(s);
    note_idle_options(s);
    if (ladder != NULL && s->opts.memory.algorithms != DT_ALGORITHMS_FAST)
        st = first_of(st,
            DT_FAIL(err, DT_E_CONFIG, "%s: policy %s chooses the algorithms itself; leave it out",
                dt_session_asked(asked, s, "memory", "algorithms"), ladder->name));
    if (s->opts.device.kind == DT_DEVICE_CUDA && !dt_device_built(DT_CUDA))
        st = first_of(st,
            DT_FAIL(err, DT_E_CONFIG,
                "%s: this program was built without CUDA; device.kind = cpu, or auto, which takes "
                "what there is",
                dt_session_asked(asked, s, "device", "kind")));
    if (dt_pool_find(s->opts.memory.pool) == NULL)
        st = first_of(st, dti_session_unknown(s, "memory", "pool", "pool", dt_pool_names(), err));
    if (dt_source_find(s->opts.data.source) == NULL) /* its files are looked at by who opens it */
        st = first_of(
            st, dti_session_unknown(s, "data", "source", "source", dt_source_names(sources), err));
    if (s->opts.memory.account != NULL && dt_account_find(s->opts.memory.account) == NULL)
        st = first_of(
            st, dti_session_unknown(s, "memory", "account", "account", dt_account_names(), err));
    if (strcmp(s->opts.memory.tier, "auto") != 0 && dt_tier_desc_find(s->opts.memory.tier) == NULL)
        st = first_of(st, dti_session_unknown(s, "memory", "tier", "tier", dt_tier_choices(), err));
    if (s->opts.device.card != NULL && dt_card_find(s->opts.device.card) == NULL)
        st = first_of(st, unknown_card(s, err));
    return st;
}

/* Of "batch=4": what it may have meant. */
static dt_status set_one(dt_session *s, const char *assignment, bool varied, dt_err *err)
{
    char word[64], meant[128];
    const size_t n = strcspn(assignment, "=");
    const dt_status st = varied ? dt_config_vary(s->config, assignment, err)
                                : dt_config_set(s->config, assignment, err);
    snprintf(word, sizeof word, "%.*s", n < sizeof word ? (int)n : 0, assignment);
    if (st != DT_E_CONFIG || strchr(word, '.') != NULL || assignment[n] == '\0' ||
        dt_run_options_meant(word, meant, sizeof meant) == NULL)
        return st;
    return DT_FAIL(err, st, "did you mean --set %s%.100s?", meant, assignment + n);
}

/* The rung by which a policy may come to be the one of that name, or NULL. */
static const dt_rung *rung_of(const dt_policy *p, const char *name)
{
    for (size_t i = 0; i < p->n_rung; i++)
        if (strcmp(p->rung[i].policy, name) == 0)
            return &p->rung[i];
    return NULL;
}

static bool is_named(const dti_session_also *a, const char *name)
{
    const size_t len = strlen(name);
    for (size_t i = 0; i < a->n; i++)
        for (const char *at = a->list[i]; *at != '\0'; at += strcspn(at, ","), at += *at == ',')
            if (strcspn(at, ",") == len && strncmp(at, name, len) == 0)
                return true;
    return false;
}

static bool holds(const dt_policies *p, const char *name)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->pass[i].policy->name, name) == 0)
            return true;
    return false;
}

/* Read the options of the rung by which a ladder of @p may come to be that policy, as they will be
 * then; false: there is none. */
static bool read_rung(
    dt_session *s, const dt_policies *p, const char *name, dt_status *st, dt_err *err)
{
    const dt_rung *rung = NULL;
    dt_policies taken;
    for (size_t i = 0; i < p->n && rung == NULL; i++)
        rung = rung_of(p->pass[i].policy, name);
    if (rung == NULL)
        return false;
    *st = first_of(*st, dt_policies_take(&taken, p, rung, s->config, err));
    dt_policies_close(&taken);
    return true;
}

/* Read the options of a policy that a command names, and those of the rung called @rung. */
static bool read_also(dt_session *s, const dti_session_also *a, const dt_policy *policy,
    const char *rung, dt_status *st, dt_err *err)
{
    dt_policies one;
    if (!is_named(a, policy->name) || holds(&s->policies, policy->name))
        return false;
    *st = first_of(*st, dt_policies_open(&one, policy->name, s->config, err));
    const bool found = strcmp(policy->name, rung) == 0 || read_rung(s, &one, rung, st, err);
    dt_policies_close(&one);
    return found;
}

/* Whether the section of a policy is read by somebody. */
static bool is_read(
    dt_session *s, const dti_session_also *a, const char *name, dt_status *st, dt_err *err)
{
    size_t n;
    const dt_policy *const *all = dt_policy_all(&n);
    const dt_policy *own = dt_policy_find(name);
    if (holds(&s->policies, name) || read_also(s, a, own, name, st, err) ||
        read_rung(s, &s->policies, name, st, err))
        return true;
    for (size_t i = 0; i < n; i++)
        if (all[i]->n_rung > 0 && read_also(s, a, all[i], name, st, err))
            return true;
    return false;
}

/* A section of options for a policy that there is not. */
static dt_status no_such_policy(
    const dt_session *s, const dt_section *at, const char *name, dt_err *err)
{
    char place[512], what[700];
    snprintf(what, sizeof what, "%s: [%.100s]: no such policy",
        dt_config_place(place, sizeof place, at->file, at->line), at->text);
    const dt_status st = dt_policy_unknown(what, name, err);
    dt_config_mark_known(s->config, at->text);
    return st;
}

/* Whether a section stands in a file for a policy that gives way to what is typed, or that a run
 * had before it went on with another. */
static bool waits_for_its_policy(const dt_session *s, size_t section)
{
    bool waits = s->of_run != NULL || dt_config_typed(s->config, "memory", "policy");
    for (size_t k = 0; waits && k < dt_config_key_count(s->config, section); k++) {
        const char *key, *value;
        int line;
        dt_config_key(s->config, section, k, &key, &value, &line);
        waits = !dt_config_typed(s->config, dt_config_section(s->config, section).text, key);
    }
    return waits;
}

/* Options of policies that are not asked for, which nobody reads; where a wrong name was, it may
 * have meant theirs. */
static dt_status check_policy_sections(dt_session *s, const dti_session_also *a, dt_err *err)
{
    dt_status st = DT_OK;
    static const char prefix[] = "policy.";
    for (size_t i = 0; i < dt_config_section_count(s->config); i++) {
        const dt_section at = dt_config_section(s->config, i);
        char place[512];
        if (strncmp(at.text, prefix, strlen(prefix)) != 0)
            continue;
        const char *name = at.text + strlen(prefix);
        if (dt_policy_find(name) == NULL) {
            st = no_such_policy(s, &at, name, err);
            continue;
        }
        if (is_read(s, a, name, &st, err))
            continue;
        if (!all_taken(s)) {
            dt_config_mark_known(s->config, at.text);
            continue;
        }
        const bool waits = waits_for_its_policy(s, i);
        dt_config_mark_known(s->config, at.text);
        if (waits) {
            dt_config_leave_out(s->config, at.text);
            continue;
        }
        st = DT_FAIL(err, DT_E_CONFIG,
            "%s: [%s] is of a policy that is not in memory.policy (%s); leave it out, or name the "
            "policy there, also for `sweep --policies`; `compare` takes those of its --policies",
            dt_config_place(place, sizeof place, at.file, at.line), at.text, s->opts.memory.policy);
    }
    return st;
}

/* The only one of memory besides [memory] itself is that of layers. */
static dt_status check_memory_sections(dt_session *s, dt_err *err)
{
    dt_status st = DT_OK;
    static const char prefix[] = "memory.";
    for (size_t i = 0; i < dt_config_section_count(s->config); i++) {
        const dt_section at = dt_config_section(s->config, i);
        char place[512];
        if (strncmp(at.text, prefix, strlen(prefix)) != 0 || strcmp(at.text, DT_LAYER_FATES) == 0)
            continue;
        dt_config_mark_known(s->config, at.text);
        st = DT_FAIL(err, DT_E_CONFIG,
            "%s: unknown section [%.100s], did you mean '" DT_LAYER_FATES "'?",
            dt_config_place(place, sizeof place, at.file, at.line), at.text);
    }
    return st;
}

/* Everything that can be said without shapes, in one pass, once the text is read. */
static dt_status read_config(
    dt_session *s, const char *const *sets, size_t n_sets, const dti_session_also *a, dt_err *err)
{
    dt_status st = DT_OK;
    for (size_t i = 0; i < n_sets; i++)
        st = first_of(st, set_one(s, sets[i], i + a->n_varied >= n_sets, err));
    DT_CHECK(st);
    st = dt_run_options_bind(s->config, &s->opts, err);
    if (st == DT_E_NOMEM)
        return st;
    st = first_of(st, check_names(s, err));
    st = first_of(st, check_policy_sections(s, a, err));
    if (dt_ini_has_layers(s->config))
        st = first_of(st, dt_ini_check(s->config, err));
    dt_config_mark_known(s->config, DT_LAYER_FATES); /* its keys are globs, read with the graph */
    st = first_of(st, check_memory_sections(s, err));
    return first_of(st, dt_config_check_known(s->config, err));
}

/* What device.card says: a card to plan for, with all of its memory but what CUDA needs, unless a
 * budget is given. */
static dt_status choose_card(dt_session *s, const dt_card **out, dt_err *err)
{
    char asked[DT_ASKED];
    uint64_t *budget = &s->opts.memory.device_budget;
    if (s->opts.device.card == NULL)
        return DT_OK;
    const dt_card *card = *out = dt_card_find(s->opts.device.card);
    DT_ASSERT(card != NULL);
    if (s->opts.device.kind == DT_DEVICE_CPU)
        return DT_FAIL(err, DT_E_CONFIG, "%s: device.kind = cpu excludes it; leave one of them out",
            dt_session_asked(asked, s, "device", "card"));
    DT_CHECK(dti_check_card_budget(
        card, *budget, dt_session_asked(asked, s, "memory", "device_budget"), err));
    if (*budget == 0)
        *budget = dt_card_bytes(card) - left_to_cuda;
    return DT_OK;
}

/* What device.kind and device.card say. Planning needs no card, so whether there is one is asked
 * later. */
static dt_status choose_device(dt_session *s, dt_err *err)
{
    char asked[DT_ASKED];
    const int kind = s->opts.device.kind;
    const dt_card *card = NULL;
    DT_CHECK(choose_card(s, &card, err));
    const bool cuda = kind == DT_DEVICE_CUDA || card != NULL ||
                      (kind == DT_DEVICE_AUTO && dt_device_likely(DT_CUDA));
    const bool tf32 = cuda && s->opts.train.precision == DT_PRECISION_TF32;
    DT_TRY(err, dt_context_open(&s->context, cuda ? DT_CUDA : DT_CPU, card, tf32, err), "%s",
        dt_session_asked(asked, s, "device", card != NULL ? "card" : "kind"));
    return DT_OK;
}

static dt_status check_threads(const dt_session *s, dt_err *err)
{
    char asked[DT_ASKED];
    const int threads = (int)s->opts.device.threads;
    const dt_status st = dt_cpu_check(threads, err);
    return st == DT_OK || threads == 0
               ? st
               : DT_FAIL(err, st, "%s", dt_session_asked(asked, s, "device", "threads"));
}

/* Where a configuration is the one that a run wrote, config.ini beside its env.json: @s->of_run. */
static dt_status find_run(dt_session *s, const char *path, dt_err *err)
{
    static const char name[] = DT_RUN_CONFIG;
    char beside[4096];
    struct stat st;
    const size_t n = strlen(path), stem = n >= strlen(name) ? n - strlen(name) : n;
    if (strcmp(path + stem, name) != 0 || (stem > 0 && path[stem - 1] != '/'))
        return DT_OK;
    if (snprintf(beside, sizeof beside, "%.*s" DT_RUN_ENV, (int)stem, path) >= (int)sizeof beside ||
        stat(beside, &st) != 0)
        return DT_OK;
    beside[stem] = '\0';
    s->of_run = dt_strdup(stem > 0 ? beside : "./");
    return s->of_run != NULL ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory for a session");
}

/* A run has the vocabulary of its text beside its configuration, and needs no other run's. */
static dt_status take_own_vocabulary(dt_session *s, dt_err *err)
{
    char own[4096];
    struct stat st;
    if (s->of_run == NULL || s->opts.data.vocab == NULL ||
        dt_config_typed(s->config, "data", "vocab") ||
        snprintf(own, sizeof own, "%s" DT_RUN_CLASSES, s->of_run) >= (int)sizeof own ||
        stat(own, &st) != 0)
        return DT_OK;
    s->opts.data.vocab = s->own_vocab = dt_strdup(own);
    return s->own_vocab != NULL ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory for a session");
}

/* What a program registers is not here, and the configuration of its run names it all the same. */
static void tell_of_outside(const dt_session *s, dt_err *err)
{
    const char *source = s->opts.data.source;
    if (s->of_run != NULL && source != NULL && dt_source_find(source) == NULL &&
        !dt_config_typed(s->config, "data", "source"))
        (void)DT_FAIL(err, DT_E_CONFIG,
            "a run wrote this: '%s' is a source of the program that trained it "
            "(dt_register_source), and only that program reads it; `eval` takes the samples of a "
            "file instead by --set data.source=tensors --set data.eval_path=FILE",
            source);
}

/* What memory.calibrate says is the rate of the configuration without what is varied, and the scale
 * that this gives is all variants'; 0: of none, or of one that varies the rate. */
static dt_status plain_scale(const dt_session *s, const char *const *sets, size_t n_sets,
    const dti_session_also *a, double *scale, dt_err *err)
{
    const double rate = s->opts.memory.calibrate;
    const dti_session_also same = {.list = a->list, .n = a->n};
    dt_session *plain = NULL;
    *scale = 0;
    if (a->n_varied == 0 || !(rate > 0))
        return DT_OK;
    dt_status st = dti_session_open_for(&plain, a->path, sets, n_sets - a->n_varied, &same, err);
    if (st != DT_OK)
        st = DT_FAIL(err, st, "memory.calibrate is the rate of what --vary leaves as it is");
    else if (!(plain->opts.memory.calibrate < rate) && !(plain->opts.memory.calibrate > rate))
        *scale = plain->costs.scale;
    dt_session_close(plain);
    return st;
}

/* With the configuration's text read; @text: what was wrong with that. All mistakes are told
 * together, in the order of its lines. */
static dt_status open_session(dt_session *s, const char *const *sets, size_t n_sets,
    const dti_session_also *a, dt_status text, size_t before, dt_err *err)
{
    dt_graph *g = NULL;
    double scale;
    s->kept = dt_kept_create(dti_fronts_kept, s);
    const dt_status read = first_of(text, read_config(s, sets, n_sets, a, err));
    if (read != DT_OK) {
        dt_config_sort_mistakes(s->config, before, err);
        tell_of_outside(s, err);
    }
    DT_CHECK(read);
    DT_CHECK(take_own_vocabulary(s, err));
    s->micro_batch = s->opts.train.micro_batch;
    DT_CHECK(choose_device(s, err));
    DT_CHECK(check_threads(s, err));
    s->threads = (int)s->opts.device.threads;
    dti_session_enter(s); /* facts depend on it */
    s->threads = s->host.team;
    const dt_status built = build_graph(s, &g, err);
    s->graph = g; /* close destroys what there is */
    DT_CHECK(built);
    if (s->of_run != NULL && dt_ini_has_layers(s->config)) /* not "config", by the file */
        (void)dti_run_dir_network(s->of_run, g->name, sizeof g->name);
    DT_CHECK(dt_config_check_dump(s->config, err));
    DT_CHECK(set_precision(s, g, err));
    DT_CHECK(dt_graph_check(s->graph, err));
    DT_CHECK(check_loss(s, g, err));
    DT_CHECK(fuse(s, &g, err));
    DT_CHECK(name_layers(s, g, err));
    DT_CHECK(check_taught(s, g, err));
    DT_CHECK(dt_layer_fates_open(
        &s->fates, s->config, s->graph, s->context.device, s->of_run != NULL, err));
    DT_CHECK(plain_scale(s, sets, n_sets, a, &scale, err));
    DT_CHECK(dti_session_read_costs(s, scale, err));
    return dti_session_choose_parts(s, err);
}

bool dt_session_in_configs(const char *base, char *to, size_t bytes)
{
    static const char *const ends[] = {"", ".ini"};
    struct stat st;
    for (size_t i = 0; i < DT_COUNT(ends); i++)
        if (snprintf(to, bytes, "configs/%s%s", base, ends[i]) < (int)bytes && stat(to, &st) == 0 &&
            S_ISREG(st.st_mode))
            return true;
    return false;
}

enum { PATIENCE = 2 }; /* seconds, after which one wonders */

dt_status dti_session_open_for(dt_session **out, const char *path, const char *const *sets,
    size_t n_sets, const dti_session_also *a, dt_err *err)
{
    dt_session *s = *out = dt_alloc(1, sizeof *s);
    if (s == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a session");
    s->patience = PATIENCE;
    const size_t before = dt_err_end(err);
    const dt_status text = dt_config_load_further(&s->config, path, err);
    if (s->config == NULL)
        return text;
    DT_CHECK(find_run(s, path, err));
    return open_session(s, sets, n_sets, a, text, before, err);
}

dt_status dt_session_open(
    dt_session **out, const char *path, const char *const *sets, size_t n_sets, dt_err *err)
{
    return dti_session_open_for(out, path, sets, n_sets, &(dti_session_also){0}, err);
}

dt_status dti_session_open_text(dt_session **out, const char *name, const char *text, size_t bytes,
    const char *const *sets, size_t n_sets, dt_err *err)
{
    const dti_session_also none = {0};
    dt_session *s = *out = dt_alloc(1, sizeof *s);
    if (s == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a session");
    s->patience = PATIENCE;
    const size_t before = dt_err_end(err);
    const dt_status read = dt_config_parse_further(&s->config, name, text, bytes, err);
    if (s->config == NULL)
        return read;
    return open_session(s, sets, n_sets, &none, read, before, err);
}

void dt_session_close(dt_session *s)
{
    if (s == NULL)
        return;
    while (s->inside > 0)
        dti_session_leave(s);
    dti_session_forget(s);
    dt_plans_deinit(&s->given);
    dt_free(s->of_run);
    dt_free(s->own_vocab);
    dt_free(s->given_by);
    dt_layer_fates_close(&s->fates);
    dt_costs_deinit(&s->costs);
    dt_kept_destroy(s->kept);
    dt_densities_close(&s->densities);
    dt_policies_close(&s->policies);
    dt_graph_destroy(s->graph);
    dt_config_destroy(s->config);
    dt_context_close(&s->context);
    dt_free(s);
}
