/* dnntrain help: the commands; one of them; every key of a configuration; one thing by its name. */
#include <stdio.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/config/nearest.h"
#include "engine/config/run_options.h"
#include "engine/tier.h"
#include "layers/registry.h"
#include "memory/policy.h"
#include "tools/args.h"
#include "tools/help_topic.h"
#include "tools/help_words.h"
#include "tools/list.h"
#include "tools/terminal.h"

enum { NAME_BYTES = 256 };

static void overview(void)
{
    size_t n;
    const dti_command *const *c = dti_command_all(&n);
    printf("dnntrain trains deep neural networks in less memory than all their values take.\n\n");
    for (size_t i = 0; i < n; i++) {
        printf("  ");
        dti_term_wrap(stdout, 2, 10, c[i]->usage);
        printf("      ");
        dti_term_wrap(stdout, 6, 6, c[i]->summary);
    }
    printf("\n"
           "CONFIG is an INI file; `dnntrain help config` documents its keys, configs/\n"
           "holds examples. --set section.key=value replaces what the file says and may be\n"
           "repeated. `dnntrain help COMMAND` shows the flags of a command, `dnntrain help`\n"
           "with a section, key, policy, kind of layer or word (gap, units) what that is;\n"
           "`dnntrain --version` the version. Results go to stdout, messages to stderr.\n"
           "\n"
           "Exit codes: 0 done, 1 internal error, 2 usage or configuration, 3 bad data or\n"
           "weights, 4 does not fit the budgets, 5 out of memory, 6 I/O, 7 not finite,\n"
           "8 device, 9 run directory busy, 75 stopped by a signal (what was trained\n"
           "is saved).\n");
}

/* ---- [memory.layers]: its keys are globs, so no table of options has them ---- */

static const char fates_text[] =
    "Fates of single layers, set before any policy. A key is a glob over the names of layers (`*` "
    "any text, `?` one character), its value a fate; the last line that matches a layer counts. A "
    "fate says what becomes of what forward leaves for backward: the layer's output, masks, "
    "statistics. Policies leave these values as they are.";

static const struct {
    const char *value, *meaning;
} fates[] = {
    {"keep", "it stays"},
    {"offload [TIER] [CODEC]",
        "it moves to a tier and back; without TIER where memory.tier says; packed on the way if a "
        "codec is named"},
    {"recompute", "forward runs again before backward; what cannot be recomputed stays"},
    {"encode [CODEC]",
        "it stays, packed; by zvc unless another codec is named. Codecs that pack by zeros "
        "need a profile that counted them"},
    {"home device, host, disk", "where parameters, gradients and moments live; the key then "
                                "matches their names, not those of layers"},
};

static const char homes_text[] =
    "Tensors that outlive a step are named as in files of weights, `conv1.weight`; the gradient is "
    "`conv1.weight.gradient`, the optimizer's state `conv1.weight.moments`, and running "
    "statistics that a step has made and not yet committed `bn1.running_mean.pending`. So "
    "`*.moments = home host` moves all of the optimizer's state, and `* = home disk` everything. "
    "What lives in a tier is on the device only while ops need it; bits never change. Homes count "
    "against `memory.host_budget` and `memory.disk_budget`; the disk's file is in "
    "`memory.disk_path`, else in /var/tmp.";

static void tiers_text(char *to, size_t bytes)
{
    snprintf(to, bytes,
        "Tiers: %s, %s. 'dnntrain list codecs' names the codecs; lossy ones need "
        "train.precision = fp32.",
        dt_tier_name(DT_TIER_HOST), dt_tier_name(DT_TIER_DISK));
}

static void layer_fates(void)
{
    char tiers[256];
    printf("\n## [memory.layers]\n\n%s\n\n| %-24s | meaning |\n| %-24s | --- |\n", fates_text,
        "value", "---");
    for (size_t i = 0; i < DT_COUNT(fates); i++)
        printf("| %-24s | %s |\n", fates[i].value, fates[i].meaning);
    tiers_text(tiers, sizeof tiers);
    printf("\n%s\n\n%s\n", tiers, homes_text);
}

/* On a terminal: as wide as that. */
static void fates_for_people(void)
{
    char tiers[256];
    printf("[memory.layers]\n");
    dti_term_wrap(stdout, 0, 0, fates_text);
    for (size_t i = 0; i < DT_COUNT(fates); i++) {
        printf("%s\n    ", fates[i].value);
        dti_term_wrap(stdout, 4, 4, fates[i].meaning);
    }
    tiers_text(tiers, sizeof tiers);
    dti_term_wrap(stdout, 0, 0, tiers);
    dti_term_wrap(stdout, 0, 0, homes_text);
}

static bool fates_topic(const char *word)
{
    if (strcmp(word, "memory.layers") != 0 && strcmp(word, "[memory.layers]") != 0)
        return false;
    fates_for_people();
    return true;
}

/* On a terminal: the same tables, as wide as that. */
static void config_for_people(void)
{
    size_t n;
    for (const dt_run_section *s = dt_run_sections; s->name != NULL; s++) {
        (void)dti_help_topic(s->name);
        printf("\n");
    }
    fates_for_people();
    printf("\nOptions of policies\n");
    const dt_policy *const *policy = dt_policy_all(&n);
    for (size_t i = 0; i < n; i++)
        if (policy[i]->opts != NULL)
            (void)dti_help_topic(policy[i]->name);
    printf("\nLayers\n");
    const dt_layer_desc *const *layer = dt_layer_all(&n);
    for (size_t i = 0; i < n; i++)
        (void)dti_help_topic(layer[i]->name);
}

/* A line an option, below its section. */
static void options(const dt_opt *rows)
{
    for (const dt_opt *o = rows; o != NULL && o->key != NULL; o++) {
        char allowed[128];
        dt_opt_allowed(o, allowed, sizeof allowed);
        const bool none = o->fallback != NULL && o->fallback[0] == '\0';
        printf("    %-12s %s%s%s%s%s; %s\n", o->key, allowed, o->unit != NULL ? " " : "",
            o->unit != NULL ? o->unit : "",
            none                  ? ""
            : o->fallback != NULL ? "; default "
                                  : "; required",
            o->fallback != NULL ? o->fallback : "", o->help);
    }
}

static void policy_sections(void)
{
    size_t n;
    const dt_policy *const *all = dt_policy_all(&n);
    printf("\n## Policies\n\nOptions of a policy stand in a section [policy.NAME], or are "
           "given as --set policy.NAME.key=value;\nthose of policies that are not in use are "
           "refused.\n");
    for (size_t i = 0; i < n; i++) {
        if (all[i]->opts == NULL)
            continue;
        printf("\n[policy.%s]: %s\n", all[i]->name, all[i]->summary);
        options(all[i]->opts);
    }
}

/* The layers that [KIND NAME] sections may write, from the tables that read them. */
static void layer_sections(void)
{
    size_t n;
    const dt_layer_desc *const *all = dt_layer_all(&n);
    printf(
        "\n## Layers\n\nWithout model.name the network is written as one section [KIND NAME] "
        "per layer, in the order in which they run.\n`input = NAME, ...` names what a layer takes: "
        "layers above it, or image; without it, the section above.\n"
        "`shares = NAME` lets a linear layer without bias use the weight of an embedding above "
        "it; `tiles = N` cuts an fc or a linear layer by its outputs.\nThe input is an image of "
        "model.image pixels, or model.context tokens.\n");
    for (size_t i = 0; i < n; i++) {
        printf("\n[%s NAME]: %s\n", all[i]->name, all[i]->summary);
        options(all[i]->opts);
    }
}

static void config(void)
{
    if (dti_terminal_of(stdout).tty) {
        config_for_people();
        return;
    }
    dt_run_options_help(stdout);
    layer_fates();
    policy_sections();
    layer_sections();
}

static dt_status nothing(const char *word, dt_err *err)
{
    char topic[128];
    const char *near = dt_nearest(word, dti_command_names());
    near = near != NULL ? near : dti_help_nearest(word, topic, sizeof topic);
    if (near != NULL)
        return DT_FAIL(
            err, DT_E_CONFIG, "there is no help on '%s'; did you mean '%s'?", word, near);
    return DT_FAIL(err, DT_E_CONFIG,
        "there is no help on '%s'; `dnntrain help` lists the commands, `dnntrain help config` "
        "documents the configuration, `dnntrain help glossary` explains words, `dnntrain list "
        "policies` names the policies",
        word);
}

/* Policies whose names begin with the word: "vdnn". */
static bool family(const char *word)
{
    enum { SHORTEST = 3 };
    size_t n, found = 0;
    const dt_policy *const *all = dt_policy_all(&n);
    for (size_t i = 0; i < n && strlen(word) >= SHORTEST; i++)
        if (strncmp(all[i]->name, word, strlen(word)) == 0 && strcmp(all[i]->name, word) != 0)
            printf("%s%s", found++ == 0 ? "policies: " : ", ", all[i]->name);
    printf("%s", found > 0 ? "\n" : "");
    return found > 0;
}

/* All that has the name: a command, a section or a key, a layer, a policy, a word. */
static dt_status tell_named(const char *word, bool *any, dt_err *err)
{
    const dti_command *c = strcmp(word, "train") == 0 ? &dt_command_train : dti_command_find(word);
    bool found = c != NULL;
    if (c != NULL) {
        char flag[] = "--help";
        char *arg[] = {flag};
        const dti_command_args a = {1, arg};
        DT_CHECK(c->run(&a, err));
    }
    if (c != NULL && dti_help_named(word))
        printf("\n");
    found = dti_help_topic(word) || fates_topic(word) || found;
    *any = dti_help_word(word, found) || found;
    return DT_OK;
}

/* Where nothing has the name: what papers call so, else what is listed, else values of keys. */
static bool tell_others(const char *word)
{
    if (dti_help_papers_word(word))
        return true;
    const bool listed = dti_list_says(word);
    return family(word) || listed || dti_help_value(word);
}

/* What other programs have: what to do here instead. */
static bool tell_absent(const char *word)
{
    enum { INDENT = 4 };
    char text[1024];
    const char *instead = dt_absent(word);
    if (instead != NULL) {
        snprintf(text, sizeof text, "%s: there is none; %s", word, instead);
        dti_term_wrap(stdout, 0, INDENT, text);
    }
    return instead != NULL;
}

/* Words are written in small letters, but for some units and variables: "GIST", "Gap". */
static dt_status about(const char *word, dt_err *err)
{
    char small[NAME_BYTES];
    bool any;
    DT_CHECK(tell_named(word, &any, err));
    snprintf(small, sizeof small, "%s", word);
    for (char *c = small; *c != '\0'; c++)
        *c = dt_small(*c);
    const bool capitals = strcmp(small, word) != 0;
    if (!any && capitals)
        DT_CHECK(tell_named(small, &any, err));
    any = any || tell_others(word) || (capitals && tell_others(small));
    return any || tell_absent(word) ? DT_OK : nothing(word, err);
}

/* Several arguments are one name of several words: "lower bound". */
static dt_status about_words(const dti_cli *cli, dt_err *err)
{
    char name[NAME_BYTES];
    size_t at = 0;
    for (size_t i = 0; i < cli->n_word && at < sizeof name; i++)
        at += (size_t)snprintf(name + at, sizeof name - at, "%s%s", i > 0 ? " " : "", cli->word[i]);
    if (strcmp(name, "config") == 0)
        config();
    else if (strcmp(name, "glossary") == 0)
        dti_help_glossary();
    else
        return about(name, err);
    return DT_OK;
}

static dt_status help(const dti_command_args *a, dt_err *err)
{
    enum { MOST_WORDS = 3 };
    dti_cli cli;
    dt_status st = dti_cli_init(&cli, &dt_command_help, a, NULL, false, MOST_WORDS, err);
    if (st == DT_OK && !cli.help) {
        if (cli.n_word == 0)
            overview();
        else
            st = about_words(&cli, err);
    }
    dti_cli_deinit(&cli);
    return st;
}

const dti_command dt_command_help = {
    .name = "help",
    .usage = "dnntrain help [config|glossary|COMMAND|SECTION|KEY|POLICY|LAYER|WORD]",
    .summary = "this page; all keys of a configuration; all words; a command's flags; or one of "
               "these",
    .run = help,
};
