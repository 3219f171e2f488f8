/* Help on one thing: what the tables say of it, as wide as the terminal. */
#include "tools/help_topic.h"

#include <stdio.h>
#include <string.h>

#include "engine/config/nearest.h"
#include "engine/config/options.h"
#include "engine/config/run_options.h"
#include "layers/registry.h"
#include "memory/policy.h"
#include "models/ini.h"
#include "tools/help_policy.h"
#include "tools/terminal.h"

enum { INDENT = 4, TEXT_BYTES = 2048, MOST_NAMES = 256 };

static void print_key(const char *section, const dt_opt *o)
{
    char allowed[128], text[TEXT_BYTES];
    dt_opt_allowed(o, allowed, sizeof allowed);
    snprintf(text, sizeof text, "%s%s%s = %s%s%s", section, section[0] != '\0' ? "." : "", o->key,
        allowed, o->unit != NULL ? " " : "", o->unit != NULL ? o->unit : "");
    dti_term_wrap(stdout, 0, INDENT, text);
    const bool none = o->fallback != NULL && o->fallback[0] == '\0';
    snprintf(text, sizeof text, "%s%s%s", o->help,
        none                  ? ""
        : o->fallback != NULL ? "; default "
                              : "; required",
        o->fallback != NULL ? o->fallback : "");
    printf("%*s", INDENT, "");
    dti_term_wrap(stdout, INDENT, INDENT, text);
}

static void print_keys(const char *section, const dt_opt *rows)
{
    for (const dt_opt *o = rows; o != NULL && o->key != NULL; o++)
        print_key(section, o);
}

static const dt_opt *key_of(const dt_opt *rows, const char *key)
{
    for (const dt_opt *o = rows; o != NULL && o->key != NULL; o++)
        if (strcmp(o->key, key) == 0)
            return o;
    return NULL;
}

static void print_policy(const dt_policy *p)
{
    char text[TEXT_BYTES];
    const bool by_budget = dt_policy_goes_by_budget(p);
    snprintf(text, sizeof text, "%s: %s", p->name, p->summary);
    dti_term_wrap(stdout, 0, INDENT, text);
    snprintf(text, sizeof text, "A policy, %s.%s",
        !p->exact          ? "which changes results"
        : p->parts != NULL ? "exact for the parts in which it takes a batch"
                           : "exact: it changes no bit of what is trained",
        by_budget ? " It goes by memory.device_budget." : "");
    dti_term_wrap(stdout, 0, 0, text);
    printf("    --set memory.policy=%s\n\n", p->name);
    dti_help_idea(p->name);
    printf("\n");
    dti_help_papers(p->name);
    snprintf(text, sizeof text, "policy.%s", p->name);
    print_keys(text, p->opts);
    printf("\nWhat it does with a network, here the tutorial's:\n");
    printf("  dnntrain explain configs/chain.ini %s%s\n", p->name,
        by_budget ? " \\\n    --set memory.device_budget=6500KiB" : "");
}

static bool policy_topic(const char *word)
{
    const dt_policy *p = dt_policy_find(word);
    if (p != NULL)
        print_policy(p);
    return p != NULL;
}

/* "policy.gist", "policy.gist.dpr" */
static bool policy_key(const char *word)
{
    char name[64];
    if (strncmp(word, "policy.", 7) != 0)
        return false;
    const size_t n = strcspn(word + 7, ".");
    snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : 0), word + 7);
    const dt_policy *p = dt_policy_find(name);
    const dt_opt *o = p != NULL && word[7 + n] == '.' ? key_of(p->opts, word + 7 + n + 1) : NULL;
    if (p == NULL || (word[7 + n] == '.' && o == NULL))
        return false;
    snprintf(name, sizeof name, "policy.%s", p->name);
    if (o != NULL)
        print_key(name, o);
    else
        print_policy(p);
    return true;
}

static bool section_topic(const char *word)
{
    const size_t n = strlen(word);
    for (const dt_run_section *s = dt_run_sections; s->name != NULL; s++) {
        const bool bare = word[0] == '[' && strncmp(word + 1, s->name, strlen(s->name)) == 0 &&
                          n == strlen(s->name) + 2 && word[n - 1] == ']';
        if (strcmp(s->name, word) != 0 && !bare)
            continue;
        printf("[%s]\n", s->name);
        dti_term_wrap(stdout, 0, 0, s->help);
        print_keys(s->name, s->rows);
        return true;
    }
    return false;
}

/* A key with its section, or a word alone: then all keys of that name. */
static bool key_topic(const char *word)
{
    bool found = false;
    for (const dt_run_section *s = dt_run_sections; s->name != NULL; s++) {
        const size_t n = strlen(s->name);
        const bool dotted = strncmp(word, s->name, n) == 0 && word[n] == '.';
        const dt_opt *o = key_of(s->rows, dotted ? word + n + 1 : word);
        if (o != NULL)
            print_key(s->name, o);
        found = found || o != NULL;
    }
    return found;
}

static bool layer_topic(const char *word)
{
    size_t n;
    const dt_layer_desc *const *all = dt_layer_all(&n);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(all[i]->name, word) != 0)
            continue;
        char text[TEXT_BYTES];
        snprintf(text, sizeof text, "[%s NAME]: %s", all[i]->name, all[i]->summary);
        dti_term_wrap(stdout, 0, INDENT, text);
        print_keys("", all[i]->opts);
        return true;
    }
    return false;
}

/* "conv.kernel", "conv.input" */
static bool layer_key(const char *word)
{
    size_t n;
    const dt_layer_desc *const *all = dt_layer_all(&n);
    const char *dot = strchr(word, '.');
    for (size_t i = 0; dot != NULL && i < n; i++) {
        const char *name = all[i]->name;
        if (strlen(name) != (size_t)(dot - word) || strncmp(name, word, strlen(name)) != 0)
            continue;
        const dt_opt *o = key_of(all[i]->opts, dot + 1);
        o = o != NULL ? o : key_of(dt_ini_wiring, dot + 1);
        if (o != NULL)
            print_key(name, o);
        return o != NULL;
    }
    return false;
}

/* "shares", which any section of a layer may have. */
static bool wiring_key(const char *word)
{
    const dt_opt *o = key_of(dt_ini_wiring, word);
    if (o != NULL)
        print_key("[KIND NAME]", o);
    return o != NULL;
}

/* A word that is the value of keys: "adam", "bf16", "fp8". */
static bool value_in(const char *section, const dt_opt *rows, const char *word)
{
    bool found = false;
    for (const dt_opt *o = rows; o != NULL && o->key != NULL; o++)
        for (const char *const *c = o->choices; c != NULL && *c != NULL; c++)
            if (strcmp(*c, word) == 0) {
                print_key(section, o);
                found = true;
            }
    return found;
}

/* "own" of memory.simulate, beside the cards of a list, is what a section says. */
static bool own_card(const char *word)
{
    return strcmp(word, "own") == 0 && section_topic("card");
}

/* "loss" is a kind of layer to others, more than what checkpoint.best may be. */
static bool meant_layer(const char *word)
{
    const char *names[MOST_NAMES + 1] = {NULL};
    size_t n;
    const dt_layer_desc *const *layer = dt_layer_all(&n);
    for (size_t i = 0; i < n && i < MOST_NAMES; i++)
        names[i] = layer[i]->name;
    return dt_nearest(word, names) != NULL;
}

bool dti_help_value(const char *word)
{
    bool found = own_card(word);
    if (meant_layer(word))
        return found;
    for (const dt_run_section *s = dt_run_sections; s->name != NULL; s++)
        found = value_in(s->name, s->rows, word) || found;
    size_t n;
    const dt_policy *const *all = dt_policy_all(&n);
    for (size_t i = 0; i < n; i++) {
        char name[64];
        snprintf(name, sizeof name, "policy.%s", all[i]->name);
        found = value_in(name, all[i]->opts, word) || found;
    }
    return found;
}

/* "card" and "tiles" are several. */
static bool key_or_section(const char *word)
{
    const bool key = key_topic(word), wiring = wiring_key(word), section = section_topic(word);
    return key || wiring || section;
}

bool dti_help_topic(const char *word)
{
    return policy_topic(word) || policy_key(word) || layer_topic(word) || layer_key(word) ||
           key_or_section(word);
}

bool dti_help_named(const char *word)
{
    for (const dt_run_section *s = dt_run_sections; s->name != NULL; s++)
        if (strcmp(s->name, word) == 0 || key_of(s->rows, word) != NULL)
            return true;
    return false;
}

const char *dti_help_nearest(const char *word, char *to, size_t bytes)
{
    const char *names[MOST_NAMES + 1] = {"config"};
    size_t n = 1, n_policy, n_layer;
    const dt_policy *const *policy = dt_policy_all(&n_policy);
    const dt_layer_desc *const *layer = dt_layer_all(&n_layer);
    for (size_t i = 0; i < n_policy && n < MOST_NAMES; i++)
        names[n++] = policy[i]->name;
    for (size_t i = 0; i < n_layer && n < MOST_NAMES; i++)
        names[n++] = layer[i]->name;
    for (const dt_run_section *s = dt_run_sections; s->name != NULL && n < MOST_NAMES; s++)
        names[n++] = s->name;
    const char *near = dt_nearest(word, names);
    if (near == NULL) /* a word of its own section is no help */
        return dt_run_options_meant(word, to, bytes) != NULL && strcmp(to, word) != 0 ? to : NULL;
    snprintf(to, bytes, "%s", near);
    return to;
}
