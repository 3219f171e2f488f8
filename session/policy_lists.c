/* Lists of policies between semicolons. */
#include "session/policy_lists.h"

#include <string.h>

#include "engine/base/alloc.h"

static dt_status add(dt_policy_lists *p, const char *list, bool asked, dt_err *err)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->list[i], list) == 0) {
            p->unasked[i] = p->unasked[i] && !asked;
            return DT_OK;
        }
    if (p->n == DT_POLICY_LISTS)
        return DT_FAIL(err, DT_E_CONFIG, "no more than %d lists of policies", DT_POLICY_LISTS);
    p->list[p->n] = dt_strdup(list);
    if (p->list[p->n] == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for lists of policies");
    p->unasked[p->n++] = !asked;
    return DT_OK;
}

static dt_status add_all(dt_policy_lists *p, dt_err *err)
{
    size_t n;
    const dt_policy *const *all = dt_policy_all(&n);
    p->all = true;
    for (size_t i = 0; i < n; i++)
        if (!all[i]->searches)
            DT_CHECK(add(p, all[i]->name, false, err));
    return DT_OK;
}

static dt_status add_list(
    dt_policy_lists *p, const dt_policies *of, dt_list_parts parts, dt_err *err)
{
    char list[DT_POLICY_LIST];
    for (size_t i = 0; parts != DT_PARTS_NONE && i < of->n; i++) {
        const dt_policy *one = of->pass[i].policy;
        if (parts == DT_PARTS_ALL || !one->searches)
            DT_CHECK(add(p, one->name, true, err));
    }
    return add(p, dt_policies_list(of, list), true, err);
}

/* One of those between semicolons. */
static dt_status read_list(
    dt_policy_lists *p, const char *text, dt_list_parts parts, dt_config *c, dt_err *err)
{
    if (*text == '\0')
        return DT_FAIL(err, DT_E_CONFIG,
            "nothing stands between two semicolons; it takes lists of policies, as in "
            "'all;chen_sqrt;chen_cheap,vdnn_conv'");
    if (strcmp(text, "all") == 0)
        return add_all(p, err);
    dt_policies of;
    dt_status st = dt_policies_open(&of, text, c, err);
    if (st == DT_OK)
        st = add_list(p, &of, parts, err);
    dt_policies_close(&of);
    return st;
}

dt_status dt_policy_lists_open(
    dt_policy_lists *out, const char *text, dt_list_parts parts, dt_config *c, dt_err *err)
{
    *out = (dt_policy_lists){.n = 0};
    DT_CHECK(add(out, "keep_all", true, err));
    char *own = dt_strdup(text);
    if (own == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for lists of policies");
    dt_status st = DT_OK;
    for (char *at = own, *end; at != NULL && st == DT_OK; at = end) {
        end = strchr(at, ';');
        if (end != NULL)
            *end++ = '\0';
        st = read_list(out, at, parts, c, err);
    }
    dt_free(own);
    return st;
}

void dt_policy_lists_close(dt_policy_lists *p)
{
    for (size_t i = 0; i < p->n; i++)
        dt_free(p->list[i]);
    p->n = 0;
}

bool dt_policy_list_names(const char *list, const char *policy)
{
    const size_t n = strlen(policy);
    if (strchr(list, ',') == NULL)
        return false;
    for (const char *at = list; (at = strstr(at, policy)) != NULL; at += n)
        if ((at == list || at[-1] == ',') && (at[n] == ',' || at[n] == '\0'))
            return true;
    return false;
}
