/* What the files of a plan set share. */
#ifndef DT_SESSION_PLAN_SET_PLAN_SET_INTERNAL_H
#define DT_SESSION_PLAN_SET_PLAN_SET_INTERNAL_H

#include <string.h>

#include "session/plan_set.h"

/* Lay out the persistent map and choose algorithms. Policies and the choice of algorithms are
 * there, and none of the policies is a ladder. */
dt_status dti_plan_set_open(dt_plan_set *p, dt_err *err) DT_NODISCARD;

/* By the request's ladder, by the choices of homes that a policy of it has, and with homes of one
 * policy more where nothing fits without: what dt_plan_set_create is for those. dti_takes_homes:
 * whether the last is to be tried. */
dt_status dti_plan_set_by_ladder(
    dt_plan_set **out, const dt_session *s, const dt_plan_request *r, dt_err *err) DT_NODISCARD;
dt_status dti_plan_set_with_homes(
    dt_plan_set **out, const dt_session *s, const dt_plan_request *r, dt_err *err) DT_NODISCARD;
dt_status dti_plan_set_by_choice(
    dt_plan_set **out, const dt_session *s, const dt_plan_request *r, dt_err *err) DT_NODISCARD;
bool dti_takes_homes(const dt_plan_request *r);

/* How its plans are lowered: where tensors that move wait, by the request. What the team copies
 * itself hides nowhere, so that it comes from its home when it is needed and no earlier. What a
 * pass tries is often tried again, and what it settles for is the plan, so @memo knows what was
 * placed; NULL: nothing is remembered. */
dt_lower_opts dti_plan_set_lower_opts(const dt_plan_set *p, dt_memo *memo);

/* Whether the policies keep all; whether there are fates, which may change that; and whether
 * neither changes what is kept. */
static inline bool dti_policies_keep_all(const dt_plan_set *p)
{
    bool all = true;
    for (size_t i = 0; i < p->policies->n; i++)
        all = all && strcmp(p->policies->pass[i].policy->name, "keep_all") == 0;
    return all;
}

static inline bool dti_has_fates(const dt_plan_set *p)
{
    return p->asked.fates != NULL && p->asked.fates->n > 0;
}

static inline bool dti_keeps_all(const dt_plan_set *p)
{
    return dti_policies_keep_all(p) && !dti_has_fates(p);
}

/* By policies and fates, whatever the plans hold. */
static inline bool dti_asked_exactly(const dt_plan_set *p)
{
    return dt_policies_exact(p->policies) &&
           (p->asked.fates == NULL || dt_layer_fates_exact(p->asked.fates));
}

/* Of the plans given the one of a kind, size and purpose, verified. DT_E_CONFIG where there is none
 * or it does not suit the session. */
dt_status dti_plan_set_given(const dt_plan_set *p, dt_program_kind kind, int64_t n, bool dense,
    dt_planned **out, dt_err *err) DT_NODISCARD;

/* What the plan of one more program like @like would take: it is placed, and no rows are made of
 * it; *peak where that is more. */
dt_status dti_plan_set_peak_with(
    const dt_plan_set *p, const dt_planned *like, uint64_t *peak, dt_err *err) DT_NODISCARD;

#endif
