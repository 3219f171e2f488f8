/* dnntrain list: what there is, by name. */
#include <stdio.h>
#include <string.h>

#include "data/source.h"
#include "engine/config/nearest.h"
#include "engine/device.h"
#include "layers/registry.h"
#include "memory/accounts/account.h"
#include "memory/codec.h"
#include "memory/time/card_costs.h"
#include "memory/policy.h"
#include "memory/pools/pool.h"
#include "memory/tier.h"
#include "models/model.h"
#include "tools/args.h"
#include "tools/json_out.h"
#include "tools/list.h"
#include "tools/terminal.h"

/* One thing; exact is only said of policies and codecs. @summary NULL: what @ask says, which takes
 * long: a card's libraries are 100 MB. */
typedef struct item {
    const char *name, *summary;
    bool exact;
    const char *(*ask)(void);
} item;

static const char *summary_of(const item *it)
{
    return it->summary != NULL ? it->summary : it->ask();
}

/* Member i; false past the last. */
typedef bool (*member)(size_t i, item *to);

#define FROM_TABLE(all, Desc)                                                                      \
    size_t n;                                                                                      \
    const Desc *const *table = all(&n);                                                            \
    if (i >= n)                                                                                    \
        return false;                                                                              \
    *to = (item){table[i]->name, table[i]->summary, false, NULL};                                  \
    return true

static bool model(size_t i, item *to)
{
    FROM_TABLE(dt_model_all, dt_model_desc);
}

static bool layer(size_t i, item *to)
{
    FROM_TABLE(dt_layer_all, dt_layer_desc);
}

static bool source(size_t i, item *to)
{
    FROM_TABLE(dt_source_all, dt_source_desc);
}

static bool pool(size_t i, item *to)
{
    FROM_TABLE(dt_pool_all, dt_pool_desc);
}

static bool account(size_t i, item *to)
{
    FROM_TABLE(dt_account_all, dt_account_desc);
}

static bool policy(size_t i, item *to)
{
    size_t n;
    const dt_policy *const *table = dt_policy_all(&n);
    if (i >= n)
        return false;
    *to = (item){table[i]->name, table[i]->summary, table[i]->exact, NULL};
    return true;
}

static bool codec(size_t i, item *to)
{
    size_t n;
    const dt_codec *const *table = dt_codec_all(&n);
    if (i >= n)
        return false;
    *to = (item){table[i]->name, table[i]->summary, table[i]->exact, NULL};
    return true;
}

static bool tier(size_t i, item *to)
{
    FROM_TABLE(dt_tier_all, dt_tier_desc);
}

/* What the card is, or why there is none. */
static const char *card(void)
{
    static char text[512];
    dt_err why = {0};
    dt_driver_facts f;
    if (dt_device_answers(DT_CUDA, &why) && dt_device_facts(DT_CUDA, &f, &why) == DT_OK)
        snprintf(text, sizeof text, "%s", f.about);
    else
        snprintf(
            text, sizeof text, "not to be used here: %.*s", (int)strcspn(why.text, "\n"), why.text);
    return text;
}

/* What is known of a kind of card: what training reaches there, which is less than [card] asks for,
 * and for device.card more. */
static bool known_card(size_t i, item *to)
{
    static char text[192];
    size_t n;
    const dt_card_speed *v = dt_card_speed_all(&n) + i;
    if (i >= n)
        return false;
    const dt_card *c = dt_card_find(v->name);
    int at = snprintf(text, sizeof text, "%s: %.1f GiB; reaches %.1f TFLOP/s", v->title,
        (double)v->mib / 1024, v->conv);
    if (v->half > 0)
        at += snprintf(text + at, sizeof text - (size_t)at, " (16 bits: %.0f)", v->half);
    at += snprintf(
        text + at, sizeof text - (size_t)at, ", %.0f GB/s, link %.0f GB/s", v->memory, v->in);
    if (c != NULL)
        snprintf(
            text + at, sizeof text - (size_t)at, "; compute capability %d.%d", c->major, c->minor);
    else
        snprintf(text + at, sizeof text - (size_t)at, "; simulated alone");
    *to = (item){v->name, text, false, NULL};
    return true;
}

static bool device(size_t i, item *to)
{
    const dt_device_kind k = i == 0 ? DT_CPU : DT_CUDA;
    if (i > 1 || !dt_device_built(k))
        return false;
    *to = (item){dt_device_name(k),
        k == DT_CPU ? "this machine's processor: oneDNN and kernels of our own" : NULL, false,
        card};
    return true;
}

/* @one: one of them; @ask: how it is asked for, its name behind that; NULL: see its own help. */
static const struct kind {
    const char *name;
    member member;
    const char *one, *ask;
} kinds[] = {
    {"policies", policy, NULL, NULL},
    {"models", model, "a model", "--set model.name="},
    {"layers", layer, NULL, NULL},
    {"codecs", codec, "a codec", "--set memory.layers.LAYER=encode "},
    {"tiers", tier, "a tier", "--set memory.tier="},
    {"pools", pool, "a pool", "--set memory.pool="},
    {"accounts", account, "an account", "--set memory.account="},
    {"devices", device, "a device", "--set device.kind="},
    {"cards", known_card, "a card", "--set memory.simulate="},
    {"sources", source, "a source", "--set data.source="},
};

static bool says_exact(const struct kind *k)
{
    return k->member == policy || k->member == codec;
}

/* On a terminal as wide as that; for programs a line each. */
static void print_item(const struct kind *k, const item *it, int width)
{
    char text[512];
    snprintf(text, sizeof text, "%.400s%s", summary_of(it),
        says_exact(k) && !it->exact ? " (changes results)" : "");
    printf("%-*s  ", width, it->name);
    if (dti_terminal_of(stdout).tty)
        dti_term_wrap(stdout, width + 2, width + 2, text);
    else
        printf("%s\n", text);
}

static void print_table(const struct kind *k)
{
    item it;
    size_t widest = 0, n = 0;
    for (; k->member(n, &it); n++)
        widest = strlen(it.name) > widest ? strlen(it.name) : widest;
    for (size_t i = 0; k->member(i, &it); i++)
        print_item(k, &it, (int)widest);
    if (n == 0)
        dti_term_say("there are no %s in this version", k->name);
}

static void print_one(const struct kind *k, const item *it)
{
    enum { INDENT = 4 };
    char text[512];
    snprintf(text, sizeof text, "%s: %.400s", it->name, summary_of(it));
    dti_term_wrap(stdout, 0, INDENT, text);
    printf("%*s%s: %s%s\n", INDENT, "", k->one, k->ask, it->name);
    if (k->member == known_card && dt_card_find(it->name) != NULL)
        printf("%*sto plan for: --set device.card=%s\n", INDENT, "", it->name);
}

bool dti_list_says(const char *name)
{
    bool found = false;
    for (const struct kind *k = kinds; k < kinds + DT_COUNT(kinds); k++) {
        item it;
        if (strcmp(k->name, name) == 0) {
            print_table(k);
            return true;
        }
        for (size_t i = 0; k->one != NULL && k->member(i, &it); i++) {
            if (strcmp(it.name, name) != 0)
                continue;
            print_one(k, &it);
            found = true;
        }
    }
    return found;
}

static dt_status print_json(const struct kind *k, dt_err *err)
{
    item it;
    dt_json list = dt_json_begin_list();
    for (size_t i = 0; k->member(i, &it); i++) {
        dt_json o = dt_json_element(&list);
        dt_json_text(&o, "name", it.name);
        dt_json_text(&o, "summary", summary_of(&it));
        if (says_exact(k))
            dt_json_flag(&o, "exact", it.exact);
        dt_json_leave(&list, &o);
    }
    return dti_json_out(&list, err);
}

static dt_status find(const char *word, const struct kind **out, dt_err *err)
{
    const char *names[DT_COUNT(kinds) + 1] = {NULL};
    char all[128] = "";
    size_t at = 0;
    for (size_t i = 0; i < DT_COUNT(kinds); i++) {
        names[i] = kinds[i].name;
        at += (size_t)snprintf(all + at, sizeof all - at, "%s%s", i > 0 ? ", " : "", names[i]);
        if (word != NULL && strcmp(word, names[i]) == 0) {
            *out = &kinds[i];
            return DT_OK;
        }
    }
    if (word == NULL)
        return DT_FAIL(err, DT_E_CONFIG, "list what? Name one of %s", all);
    const char *near = dt_nearest(word, names);
    if (near != NULL)
        return DT_FAIL(
            err, DT_E_CONFIG, "there is no list of '%s'; did you mean '%s'?", word, near);
    return DT_FAIL(err, DT_E_CONFIG, "there is no list of '%s'; name one of %s", word, all);
}

static dt_status list(const dti_command_args *a, dt_err *err)
{
    bool json = false;
    const struct kind *k = NULL;
    const dti_flag flags[] = {
        {"--json", NULL, "an array of objects: name, summary and, for policies and codecs, exact",
            &json, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    dti_cli cli;
    dt_status st = dti_cli_init(&cli, &dt_command_list, a, flags, false, 1, err);
    if (st == DT_OK && !cli.help) {
        st = find(cli.word[0], &k, err);
        if (st == DT_OK && json)
            st = print_json(k, err);
        else if (st == DT_OK)
            print_table(k);
    }
    dti_cli_deinit(&cli);
    return st;
}

const dti_command dt_command_list = {
    .name = "list",
    .usage = "dnntrain list WHAT [--json]",
    .summary = "policies, models, layers, codecs, tiers, pools, accounts, devices, cards or "
               "sources, a line each",
    .run = list,
};
