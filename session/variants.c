/* From keys and their values to configurations: which of them there are, opened and put into groups
 * that train the same. */
#include "session/variants.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "session/open.h"
#include "session/run.h"

static const char policy_section[] = "policy.";

static dt_status no_memory(dt_err *err)
{
    return DT_FAIL(err, DT_E_NOMEM, "no memory for variants");
}

/* ---- which keys matter to which list ---- */

/* Of a key in [policy.NAME] the policy; NULL: it is none's, or of one that is not known, which is
 * for the session to say. */
static const dt_policy *owner(const dt_varied *k)
{
    const size_t n = strlen(policy_section);
    return strncmp(k->section, policy_section, n) == 0 ? dt_policy_find(k->section + n) : NULL;
}

/* Whether planning a list may come to a policy: it names it, has it as a rung, or takes its homes.
 */
static bool comes_to(const dt_policies *list, const dt_policy *p)
{
    bool yes = p->home != NULL && !p->searches && dt_policies_take_homes(list);
    for (size_t i = 0; i < list->n && !yes; i++) {
        const dt_policy *one = list->pass[i].policy;
        yes = one == p;
        for (size_t k = 0; k < one->n_rung && !yes; k++)
            yes = strcmp(one->rung[k].policy, p->name) == 0;
    }
    return yes;
}

static dt_status find_matters(dt_variants *v, const dt_variants_of *of, dt_err *err)
{
    v->matters = dt_alloc(of->n_lists, sizeof *v->matters);
    if (v->matters == NULL)
        return no_memory(err);
    for (size_t l = 0; l < of->n_lists; l++) {
        dt_policies list;
        const dt_status st = dt_policies_open(&list, of->lists[l], NULL, err);
        for (size_t k = 0; k < v->keys->n && st == DT_OK; k++) {
            const dt_policy *p = owner(&v->keys->key[k]);
            if (p == NULL || comes_to(&list, p))
                v->matters[l] |= (uint32_t)1 << k;
        }
        dt_policies_close(&list);
        DT_CHECK(st);
    }
    return DT_OK;
}

static dt_status check_owners(const dt_variants *v, const dt_variants_of *of, dt_err *err)
{
    for (size_t k = 0; k < v->keys->n; k++) {
        bool any = false;
        for (size_t l = 0; l < of->n_lists; l++)
            any = any || (v->matters[l] >> k & 1) != 0;
        if (!any)
            return DT_FAIL(err, DT_E_CONFIG,
                "--vary %s: no list of --policies comes to %s; add it to one", v->keys->key[k].name,
                owner(&v->keys->key[k])->name);
    }
    return DT_OK;
}

/* ---- the product ---- */

static uint64_t product_of(const dt_vary *keys, uint32_t matters)
{
    uint64_t n = 1;
    for (size_t k = 0; k < keys->n; k++) {
        const uint64_t of_key = (matters >> k & 1) != 0 ? keys->key[k].n : 1;
        n = n > UINT64_MAX / of_key ? UINT64_MAX : n * of_key;
    }
    return n;
}

static dt_status check_count(const dt_variants *v, const dt_variants_of *of, dt_err *err)
{
    uint64_t rows = 0;
    for (size_t l = 0; l < of->n_lists; l++) {
        const uint64_t n = product_of(v->keys, v->matters[l]);
        rows = rows > UINT64_MAX - n ? UINT64_MAX : rows + n;
    }
    if (rows > DT_VARIANT_ROWS)
        return DT_FAIL(err, DT_E_CONFIG,
            "--vary: %s%" PRIu64 " rows, of %zu list%s of policies under their variants, are more "
            "than %d; name fewer values, or fewer policies (--policies)",
            rows == UINT64_MAX ? "more than " : "", rows, of->n_lists, of->n_lists == 1 ? "" : "s",
            DT_VARIANT_ROWS);
    return DT_OK;
}

static bool same_values(const dt_variants *v, const int *a, const int *b)
{
    return memcmp(a, b, v->keys->n * sizeof *a) == 0;
}

/* The variant of these values; v->n: there is none yet. */
static size_t find(const dt_variants *v, const int *value)
{
    size_t i = 0;
    while (i < v->n && !same_values(v, v->variant[i].value, value))
        i++;
    return i;
}

static dt_status add_pair(dt_variants *v, size_t list, const int *value, dt_err *err)
{
    const size_t i = find(v, value);
    if (!dt_grow(&v->pair, &v->cap_pair, v->n_pair, sizeof *v->pair))
        return no_memory(err);
    v->pair[v->n_pair++] = (dt_variant_list){list, i};
    if (i < v->n)
        return DT_OK;
    if (!dt_grow(&v->variant, &v->cap, v->n, sizeof *v->variant))
        return no_memory(err);
    v->variant[v->n] = (dt_variant){.status = DT_OK};
    memcpy(v->variant[v->n++].value, value, sizeof v->variant->value);
    return DT_OK;
}

/* The next values of the keys that matter, the last key's first; false: there are no more. */
static bool next(const dt_vary *keys, int *value)
{
    for (size_t k = keys->n; k-- > 0;) {
        if (value[k] < 0)
            continue;
        if ((size_t)++value[k] < keys->key[k].n)
            return true;
        value[k] = 0;
    }
    return false;
}

static dt_status add_list(dt_variants *v, size_t list, dt_err *err)
{
    int value[DT_VARIED_KEYS] = {0};
    for (size_t k = 0; k < v->keys->n; k++)
        value[k] = (v->matters[list] >> k & 1) != 0 ? 0 : -1;
    do
        DT_CHECK(add_pair(v, list, value, err));
    while (next(v->keys, value));
    return DT_OK;
}

size_t dti_variants_for(const dt_variants *v, size_t variant, size_t list)
{
    int value[DT_VARIED_KEYS] = {0};
    for (size_t k = 0; k < v->keys->n; k++)
        value[k] = (v->matters[list] >> k & 1) != 0 ? v->variant[variant].value[k] : -1;
    return find(v, value);
}

/* ---- sessions ---- */

static char *assignment(const dt_varied *k, const char *value)
{
    const size_t n = strlen(k->name) + strlen(value) + 2;
    char *text = dt_alloc(n, 1);
    if (text != NULL)
        snprintf(text, n, "%s=%s", k->name, value);
    return text;
}

/* What --set says, then the values: the later counts. */
static dt_status open_with(
    dt_variant *x, const dt_vary *keys, const dt_variants_of *of, const char **sets, dt_err *err)
{
    char *own[DT_VARIED_KEYS] = {NULL};
    size_t n = 0;
    bool room = true;
    for (size_t i = 0; i < of->n_sets; i++)
        sets[n++] = of->sets[i];
    for (size_t k = 0; k < keys->n && room; k++) {
        if (x->value[k] < 0)
            continue;
        own[k] = assignment(&keys->key[k], keys->key[k].value[x->value[k]]);
        room = own[k] != NULL;
        sets[n++] = own[k];
    }
    const dti_session_also also = {of->lists, of->n_lists, n - of->n_sets, of->path};
    const dt_status st =
        room ? dti_session_open_for(&x->session, of->path, sets, n, &also, err) : no_memory(err);
    for (size_t k = 0; k < keys->n; k++)
        dt_free(own[k]);
    return st;
}

/* What it is refused for becomes @x's; an empty trail is left. */
static dt_status refuse(dt_variant *x, dt_status st, dt_err *why, dt_err *err)
{
    size_t n = strlen(why->text);
    while (n > 0 && why->text[n - 1] == '\n')
        why->text[--n] = '\0';
    x->status = st;
    x->refused = dt_strdup(why->text);
    dt_session_close(x->session);
    x->session = NULL;
    dt_err_clear(why);
    return x->refused != NULL ? DT_OK : no_memory(err);
}

static dt_status open_all(dt_variants *v, const dt_variants_of *of, dt_err *why, dt_err *err)
{
    const char **sets = dt_alloc(of->n_sets + DT_VARIED_KEYS, sizeof *sets);
    dt_status st = sets != NULL ? DT_OK : no_memory(err);
    for (size_t i = 0; i < v->n && st == DT_OK; i++) {
        dt_variant *x = &v->variant[i];
        const dt_status opened = open_with(x, v->keys, of, sets, why);
        if (x->session != NULL && x->session->inside > 0)
            dti_session_leave(x->session);
        if (opened == DT_E_NOMEM)
            st = no_memory(err);
        else if (opened != DT_OK)
            st = refuse(x, opened, why, err);
    }
    dt_free(sets);
    return st;
}

/* Where all that have a key are refused, or all there are, the mistake is in what they share. */
static dt_status check_refused(const dt_variants *v, int key, dt_err *err)
{
    const dt_variant *first = NULL;
    for (size_t i = 0; i < v->n; i++) {
        const dt_variant *x = &v->variant[i];
        if (key >= 0 && x->value[key] < 0)
            continue;
        if (x->session != NULL)
            return DT_OK;
        first = first == NULL ? x : first;
    }
    return first != NULL ? dt_err_append(err, first->status, first->refused) : DT_OK;
}

/* ---- groups ---- */

static bool same_costs(const dt_costs *a, const dt_costs *b)
{
    return a->simulated == b->simulated && strcmp(a->name, b->name) == 0 &&
           strcmp(a->hash, b->hash) == 0 && !(a->scale < b->scale) && !(a->scale > b->scale);
}

static dt_status find_groups(dt_variants *v, dt_err *err)
{
    char(*sum)[DT_SHA256_TEXT] = dt_alloc(v->n, sizeof *sum);
    dt_status st = sum != NULL ? DT_OK : no_memory(err);
    for (size_t i = 0; i < v->n && st == DT_OK; i++) {
        dt_variant *x = &v->variant[i];
        if (x->session == NULL)
            continue;
        st = dti_session_results(x->session, sum[i], err);
        x->group = v->n_group;
        for (size_t k = 0; k < i && x->group == v->n_group; k++)
            if (v->variant[k].session != NULL && strcmp(sum[k], sum[i]) == 0 &&
                same_costs(&v->variant[k].session->costs, &x->session->costs))
                x->group = v->variant[k].group;
        v->n_group += x->group == v->n_group;
    }
    dt_free(sum);
    return st;
}

/* ---- all of it ---- */

dt_status dt_variants_open(
    dt_variants *out, const dt_vary *keys, const dt_variants_of *of, dt_err *err)
{
    *out = (dt_variants){.keys = keys};
    DT_CHECK(find_matters(out, of, err));
    DT_CHECK(check_owners(out, of, err));
    DT_CHECK(check_count(out, of, err));
    for (size_t l = 0; l < of->n_lists; l++)
        DT_CHECK(add_list(out, l, err));
    dt_err *why = dt_alloc(1, sizeof *why);
    const dt_status st = why != NULL ? open_all(out, of, why, err) : no_memory(err);
    dt_free(why);
    DT_CHECK(st);
    for (int k = -1; k < (int)keys->n; k++)
        DT_CHECK(check_refused(out, k, err));
    return find_groups(out, err);
}

void dti_variants_close(dt_variants *v)
{
    for (size_t i = 0; i < v->n; i++) {
        dt_session_close(v->variant[i].session);
        dt_free(v->variant[i].refused);
    }
    dt_free(v->variant);
    dt_free(v->pair);
    dt_free(v->matters);
    *v = (dt_variants){0};
}

const char *dt_variant_text(const dt_vary *keys, const dt_variant *v, char *to, size_t bytes)
{
    size_t at = 0;
    to[0] = '\0';
    for (size_t k = 0; k < keys->n && at < bytes; k++)
        if (v->value[k] >= 0)
            at += (size_t)snprintf(to + at, bytes - at, "%s%s = %s", at > 0 ? ", " : "",
                keys->key[k].name, keys->key[k].value[v->value[k]]);
    return to;
}
