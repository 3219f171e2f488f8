/* Policies that are a ladder: which rung a run takes. Every rung is tried by the plans of a run, so
 * what is said to fit does fit. */
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "session/budget.h"
#include "session/session_parts.h"

dt_status dt_session_set_policy(dt_session *s, const char *list, dt_err *err)
{
    s->opts.memory.policy = list;
    s->ladder = dt_policies_ladder(list) != NULL ? list : NULL;
    return dt_policies_open(&s->policies, list, s->config, err);
}

/* The list that was asked for with the rung in the place of the ladder. */
static void name_rung(dt_session *s, const char *list, const dt_policy *ladder, const dt_rung *r)
{
    size_t n = 0;
    for (const char *at = list; *at != '\0' && n < sizeof s->rung;) {
        const size_t len = strcspn(at, ",");
        const bool here = strlen(ladder->name) == len && strncmp(at, ladder->name, len) == 0;
        n += (size_t)snprintf(s->rung + n, sizeof s->rung - n, "%s%.*s", n > 0 ? "," : "",
            here ? (int)strlen(r->policy) : (int)len, here ? r->policy : at);
        at += len + (at[len] == ',');
    }
    DT_ASSERT(n < sizeof s->rung);
}

/* From here on the session's policies are those of the rung. */
static dt_status take(dt_session *s, const char *list, const dt_rung *r, dt_err *err)
{
    name_rung(s, list, dt_policies_ladder(list), r);
    s->opts.memory.policy = s->rung;
    s->opts.memory.algorithms = (int)r->algorithms;
    return dt_policies_open(&s->policies, s->rung, s->config, err);
}

/* Fit takes no more than small does where small fits, so small is what is tried of it. */
static dt_status try_rung(const dt_session *s, const dt_rung *r, bool *fits, dt_err *err)
{
    dt_session t = *s;
    t.map = NULL;
    t.planned = NULL;
    t.n_planned = t.cap_planned = 0;
    t.ladder = NULL;
    dt_status st = dt_algorithm_table_init(&t.algorithms, s->graph->n_node,
        r->algorithms == DT_ALGORITHMS_FAST ? DT_LIMIT_ANY : DT_LIMIT_LEAST, err);
    if (st == DT_OK)
        st = take(&t, s->ladder, r, err);
    if (st == DT_OK)
        st = dti_session_plan_all(&t, err);
    const dt_need need = dt_session_need(&t);
    const dt_room room = dt_session_room(s);
    *fits = st == DT_OK && dt_need_fits(&need, &room);
    dt_session_forget(&t);
    dt_policies_close(&t.policies);
    return st;
}

dt_status dti_session_climb(dt_session *s, dt_err *err)
{
    if (s->ladder == NULL)
        return DT_OK;
    char asked[DT_ASKED];
    if (s->opts.memory.device_budget == 0)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s takes the first of several plans that fits: say what, as in "
            "memory.device_budget = 2GiB, or for plans alone device.card = rtx3090",
            dt_session_asked(asked, s, "memory", "policy"));
    const dt_policy *by = dt_policies_ladder(s->ladder);
    size_t i = 0;
    for (bool fits = false; i < by->n_rung; i++) {
        DT_TRY(err, try_rung(s, &by->rung[i], &fits, err), "policy '%s' as %s", by->name,
            by->rung[i].policy);
        if (fits)
            break;
    }
    dt_policies_close(&s->policies);
    return take(s, s->ladder, &by->rung[i < by->n_rung ? i : i - 1], err);
}
