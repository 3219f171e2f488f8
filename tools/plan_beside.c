/* Plans of several policies, one below the other. */
#include "tools/plan_beside.h"

#include <string.h>

#include "tools/out_file.h"
#include "tools/plan_map.h"
#include "session/policy_lists.h"

/* @n: of all; those beyond the first have plans of their own */
typedef struct beside {
    const dt_session *s;
    const dt_planned *first;
    dt_policy_lists lists;
    size_t n;
    dt_policies policies[DT_POLICY_LISTS];
    dt_plan_set *plans[DT_POLICY_LISTS];
    dti_plan_picture picture[DT_POLICY_LISTS + 1];
} beside;

static dt_status add(beside *b, const char *list, dt_err *err)
{
    const size_t k = b->n - 1;
    const dt_planned *made = NULL;
    dt_plan_request r = dt_session_request(b->s);
    DT_CHECK(dt_policies_open(&b->policies[k], list, b->s->config, err));
    b->n++;
    r.policies = &b->policies[k];
    r.given = NULL;
    DT_TRY(err, dt_plan_set_create(&b->plans[k], b->s, &r, err), "policy '%s'", list);
    DT_TRY(err, dt_plan_set_add(b->plans[k], b->first->kind, b->first->n, &made, err),
        "policy '%s'", list);
    b->picture[k + 1] =
        (dti_plan_picture){.plan = made->plan, .budget = b->s->opts.memory.device_budget};
    return DT_OK;
}

static dt_status print(const void *of, FILE *f, dt_err *err)
{
    const beside *b = of;
    return dti_plan_map(b->picture, b->n, f, err);
}

static void close_all(beside *b)
{
    for (size_t k = 0; k + 1 < b->n; k++) {
        dt_plan_set_destroy(b->plans[k]);
        dt_policies_close(&b->policies[k]);
    }
    dt_policy_lists_close(&b->lists);
}

dt_status dti_plan_beside(
    const dt_session *s, const dt_planned *x, const char *lists, const char *path, dt_err *err)
{
    beside b = {.s = s, .first = x, .n = 1};
    b.picture[0] = (dti_plan_picture){.plan = x->plan, .budget = s->opts.memory.device_budget};
    dt_status st = dt_policy_lists_open(&b.lists, lists, DT_PARTS_NONE, s->config, err);
    if (st != DT_OK)
        (void)DT_FAIL(err, st, "--beside %s", lists);
    for (size_t i = 0; i < b.lists.n && st == DT_OK; i++)
        if (strcmp(b.lists.list[i], dt_session_policy(s)) != 0)
            st = add(&b, b.lists.list[i], err);
    if (st == DT_OK)
        st = dti_write_file(path, print, &b, err);
    close_all(&b);
    return st;
}
