#include "memory/policy.h"

#include <stdio.h>
#include <string.h>

#define DT_POLICY(name) extern const dt_policy dt_policy_##name;
#include "memory/policies/policies.def"
#undef DT_POLICY

static const dt_policy *const policies[] = {
#define DT_POLICY(name) &dt_policy_##name,
#include "memory/policies/policies.def"
#undef DT_POLICY
};

const dt_policy *const *dt_policy_all(size_t *n)
{
    *n = DT_COUNT(policies);
    return policies;
}

const dt_policy *dt_policy_find(const char *name)
{
    for (size_t i = 0; i < DT_COUNT(policies); i++)
        if (strcmp(policies[i]->name, name) == 0)
            return policies[i];
    return NULL;
}

/* "unknown policy 'keep_al', did you mean 'keep_all'? there are: ..." */
static dt_status unknown(const char *name, dt_err *err)
{
    const char *names[DT_COUNT(policies) + 1] = {NULL};
    char all[512] = "";
    for (size_t i = 0; i < DT_COUNT(policies); i++) {
        names[i] = policies[i]->name;
        const size_t len = strlen(all);
        snprintf(all + len, sizeof all - len, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    const char *near = dt_nearest(name, names);
    return DT_FAIL(err, DT_E_CONFIG, "unknown policy '%s'%s%s%s; there are: %s", name,
        near != NULL ? ", did you mean '" : "", near != NULL ? near : "", near != NULL ? "'?" : "",
        all);
}

/* Calls back for every name of the list. */
static dt_status each(const char *list, dt_program *p, dt_err *err)
{
    for (const char *at = list; *at != '\0';) {
        const size_t len = strcspn(at, ",");
        char name[64];
        snprintf(
            name, sizeof name, "%.*s", len < sizeof name ? (int)len : (int)sizeof name - 1, at);
        const dt_policy *policy = dt_policy_find(name);
        if (policy == NULL)
            return unknown(name, err);
        if (p != NULL)
            DT_TRY(err, policy->pass(p, err), "policy '%s'", name);
        at += len + (at[len] == ',');
    }
    return DT_OK;
}

dt_status dt_policies_check(const char *list, dt_err *err)
{
    return each(list, NULL, err);
}

dt_status dt_policies_apply(dt_program *p, const char *list, dt_err *err)
{
    DT_CHECK(each(list, NULL, err)); /* nothing is changed for a list with a wrong name */
    return each(list, p, err);
}
