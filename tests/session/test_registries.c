/* Lists of what there is by name: each name is found, is a word, is there once and is named where a
 * wrong one is refused, however many there are; options of each are what is asked of those from
 * outside. Every list ends where tests/structure/tables.sh says that it does. */
#include <dnntrain.h>
#include <dnntrain/layer.h>
#include <dnntrain/policy.h>

#include <stdio.h>
#include <string.h>

#include "data/source.h"
#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/card.h"
#include "engine/config/outside.h"
#include "layers/registry.h"
#include "memory/accounts/account.h"
#include "memory/codec.h"
#include "memory/policy.h"
#include "memory/pools/pool.h"
#include "memory/tier.h"
#include "memory/time/card_costs.h"
#include "models/model.h"
#include "tests/fixture/check.h"

enum { MOST = 128 };

/* The names of a list. @setting: the key whose wrong value names them all; NULL: none */
typedef struct list {
    const char *what, *setting;
    size_t n;
    const char *name[MOST];
} list;

#define COLLECT(to, label, key, all_of, type, find)                                                \
    do {                                                                                           \
        size_t n_all;                                                                              \
        const type *const *all = all_of(&n_all);                                                   \
        *(to) = (list){.what = (label), .setting = (key), .n = n_all};                             \
        assert_in_range(n_all, 1, MOST);                                                           \
        for (size_t i = 0; i < n_all; i++) {                                                       \
            (to)->name[i] = all[i]->name;                                                          \
            assert_ptr_equal(find(all[i]->name), all[i]);                                          \
        }                                                                                          \
    } while (0)

static void assert_names(const list *l, const char *characters)
{
    for (size_t i = 0; i < l->n; i++) {
        if (l->name[i][0] == '\0' || l->name[i][strspn(l->name[i], characters)] != '\0')
            fail_msg("%s: '%s' is no word", l->what, l->name[i]);
        for (size_t k = 0; k < i; k++)
            if (strcmp(l->name[i], l->name[k]) == 0)
                fail_msg("%s: '%s' is there twice", l->what, l->name[i]);
    }
}

/* A name in a message, not as a part of another. */
static bool tells(const char *text, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = strstr(text, name); at != NULL; at = strstr(at + 1, name))
        if (strchr(" '", at[-1]) != NULL && strchr(",'\n", at[n]) != NULL)
            return true;
    return false;
}

static void assert_all_told(const list *l)
{
    static const char text[] = "[model]\nname = lenet5\n[data]\nsource = synthetic\n";
    char set[64];
    dt_run *run = NULL;
    dt_err err = {0};
    snprintf(set, sizeof set, "%s=nothing_like_it", l->setting);
    const char *sets[] = {set};
    assert_int_equal(dt_run_open_text(&run, "net", text, strlen(text), sets, 1, &err), DT_E_CONFIG);
    dt_run_close(run);
    for (size_t i = 0; i < l->n; i++)
        if (!tells(err.text, l->name[i]))
            fail_msg("%s does not name '%s':\n%s", set, l->name[i], err.text);
}

static void every_name_is_found_once_and_told(void **state)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    static const char and_line[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";
    static list l[7];
    (void)state;
    COLLECT(&l[0], "policies", "memory.policy", dt_policy_all, dt_policy, dt_policy_find);
    COLLECT(&l[1], "pools", "memory.pool", dt_pool_all, dt_pool_desc, dt_pool_find);
    COLLECT(&l[2], "models", "model.name", dt_model_all, dt_model_desc, dt_model_find);
    COLLECT(&l[3], "layers", NULL, dt_layer_all, dt_layer_desc, dt_layer_find);
    COLLECT(&l[4], "sources", "data.source", dt_source_all, dt_source_desc, dt_source_find);
    COLLECT(&l[5], "tiers", NULL, dt_tier_all, dt_tier_desc, dt_tier_desc_find);
    l[6] = (list){.what = "cards", .setting = "device.card"};
    for (const char *const *card = dt_card_names(); *card != NULL; card++) {
        assert_string_equal(dt_card_find(*card)->name, *card);
        l[6].name[l[6].n++] = *card;
    }
    for (size_t i = 0; i < DT_COUNT(l); i++) {
        assert_names(&l[i], i == 6 ? and_line : letters);
        if (l[i].setting != NULL)
            assert_all_told(&l[i]);
    }
}

static void assert_listed(const list *l, const char *const *names)
{
    for (size_t i = 0; i < l->n; i++)
        assert_string_equal(names[i], l->name[i]);
    assert_null(names[l->n]);
}

static void registries_list_their_names(void **state)
{
    static list l[4];
    list cards = {.what = "cards"};
    const char *names[DT_SOURCES + 1];
    (void)state;
    COLLECT(&l[0], "pools", NULL, dt_pool_all, dt_pool_desc, dt_pool_find);
    COLLECT(&l[1], "sources", NULL, dt_source_all, dt_source_desc, dt_source_find);
    COLLECT(&l[2], "accounts", NULL, dt_account_all, dt_account_desc, dt_account_find);
    COLLECT(&l[3], "tiers", NULL, dt_tier_all, dt_tier_desc, dt_tier_desc_find);
    assert_listed(&l[0], dt_pool_names());
    assert_listed(&l[1], dt_source_names(names));
    assert_listed(&l[2], dt_account_names());
    assert_string_equal(dt_tier_choices()[0], "auto");
    assert_listed(&l[3], dt_tier_choices() + 1);
    const dt_card_speed *speed = dt_card_speed_all(&cards.n);
    for (size_t i = 0; i < cards.n; i++)
        cards.name[i] = speed[i].name;
    assert_listed(&cards, dt_card_speed_names());
}

static size_t rows_of(const char *what, const dt_opt *rows)
{
    size_t n = 0;
    while (rows != NULL && rows[n].key != NULL && n <= DTI_OUTSIDE_ROWS)
        n++;
    if (n > DTI_OUTSIDE_ROWS)
        fail_msg("%s: its table of options has no end", what);
    return n;
}

static void options_of_ours_hold_to_what_is_asked_of_others(void **state)
{
    size_t n, checked = 0;
    dt_err err = {0};
    (void)state;
    const dt_layer_desc *const *layers = dt_layer_all(&n);
    for (size_t i = 0; i < n; i++) {
        const dt_layer_desc *d = layers[i];
        const size_t rows = rows_of(d->name, d->opts);
        assert_ok(dt_outside_check("layer", d->name, d->opts, rows, d->opts_bytes, &err), &err);
        checked += rows > 0;
    }
    const dt_policy *const *policies = dt_policy_all(&n);
    for (size_t i = 0; i < n; i++) {
        const dt_policy *p = policies[i];
        const size_t rows = rows_of(p->name, p->opts);
        assert_ok(dt_outside_check("policy", p->name, p->opts, rows, p->opts_bytes, &err), &err);
        checked += rows > 0;
    }
    assert_in_range(checked, 15, MOST);
}

static dt_status keep_it(dt_program *p, const dt_pass_env *e, dt_err *err)
{
    (void)p, (void)e, (void)err;
    return DT_OK;
}

/* The last in a process of its own: the lists are full afterwards, and all names are told still. */
static void a_full_list_refuses_and_tells_all(void **state)
{
    static char name[DT_OUTSIDE_POLICIES + 1][64];
    dt_err err = {0};
    list l;
    (void)state;
    for (int i = 0; i <= DT_OUTSIDE_POLICIES; i++) {
        memset(name[i], 'a' + i, sizeof name[i] - 1);
        const dt_policy_spec s = {.name = name[i], .summary = "-", .exact = true, .pass = keep_it};
        if (i < DT_OUTSIDE_POLICIES)
            assert_ok(dt_register_policy(&s, &err), &err);
        else
            assert_fails(
                dt_register_policy(&s, &err), DT_E_CONFIG, &err, "16 are registered already");
    }
    COLLECT(&l, "policies", "memory.policy", dt_policy_all, dt_policy, dt_policy_find);
    assert_all_told(&l);
}

/* The text of the n-th cell of a row of a table, from 1 on, without spaces around it. */
static const char *cell(const char *row, int n, size_t *bytes)
{
    for (; n > 0; n--)
        row = strchr(row, '|') + 1;
    row += strspn(row, " ");
    *bytes = strcspn(row, "|\n");
    while (*bytes > 0 && row[*bytes - 1] == ' ')
        --*bytes;
    return row;
}

static void assert_cell(const char *name, const char *row, int n, const char *want)
{
    size_t bytes;
    const char *is = cell(row, n, &bytes);
    if (bytes != strlen(want) || memcmp(is, want, bytes) != 0)
        fail_msg("docs/policies.md: row of %s has '%.*s', not '%s'", name, (int)bytes, is, want);
}

/* Its row, with what it is and its options, and a part of its own. */
static void assert_page_has(const char *page, const dt_policy *p)
{
    char row[80], part[80], options[512] = "";
    snprintf(row, sizeof row, "\n| `%s` |", p->name);
    snprintf(part, sizeof part, "\n### %s\n\n", p->name);
    const char *at = strstr(page, row);
    if (at == NULL || strstr(page, part) == NULL)
        fail_msg("docs/policies.md lacks the row or the part of %s", p->name);
    size_t n = 0;
    for (size_t i = 0; p->opts != NULL && p->opts[i].key != NULL; i++)
        n += (size_t)snprintf(
            options + n, sizeof options - n, "%s`%s`", i > 0 ? ", " : "", p->opts[i].key);
    assert_cell(p->name, at + 1, 5, p->exact ? "yes" : "no");
    assert_cell(p->name, at + 1, 6,
        p->by_budget || p->rung != NULL || strcmp(p->name, "auto") == 0 ? "yes" : "no");
    assert_cell(p->name, at + 1, 7, n > 0 ? options : "\u2013");
}

static void every_policy_has_its_part_of_the_page(void **state)
{
    (void)state;
    size_t n, bytes;
    char *page;
    dt_err err = {0};
    assert_ok(
        dt_read_file(&page, &bytes, dt_source_path("docs/policies.md"), 1 << 20, DT_E_DATA, &err),
        &err);
    const dt_policy *const *all = dt_policy_all(&n);
    for (size_t i = 0; i < n; i++)
        assert_page_has(page, all[i]);
    dt_free(page);
}

DT_TEST_GROUP(registries)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_is_found_once_and_told),
        cmocka_unit_test(registries_list_their_names),
        cmocka_unit_test(options_of_ours_hold_to_what_is_asked_of_others),
        cmocka_unit_test(every_policy_has_its_part_of_the_page),
        cmocka_unit_test(a_full_list_refuses_and_tells_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
