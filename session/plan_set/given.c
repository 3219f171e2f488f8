/* Plans that were given, by a file or by who calls the library: each is verified, and suits the
 * session, before it is taken. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/verify/verify.h"
#include "session/plan_set/plan_set_internal.h"

/* All that a file has: "first/8, update/8". */
static void list_given(const dt_plans *g, char *to, size_t bytes)
{
    size_t at = 0;
    to[0] = '\0';
    for (size_t i = 0; i < g->n && at < bytes; i++)
        at += (size_t)snprintf(to + at, bytes - at, "%s%s/%" PRId64, i > 0 ? ", " : "",
            g->plan[i]->program, g->plan[i]->batch);
}

/* The first of a kind and size, or the second, which is for packed values that do not fit. */
static dt_plan *find_given(const dt_plans *g, dt_program_kind kind, int64_t n, bool dense)
{
    bool skip = dense;
    for (size_t i = 0; i < g->n; i++) {
        if (dt_plan_kind(g->plan[i]) != (int)kind || g->plan[i]->batch != n)
            continue;
        if (!skip)
            return g->plan[i];
        skip = false;
    }
    return NULL;
}

static dt_status differs(
    const char *by, const char *key, const char *then, const char *now, dt_err *err)
{
    return DT_FAIL(err, DT_E_CONFIG,
        "%s: planned for train.%s = %s, but this run has %s: plan again", by, key, then, now);
}

/* Updates go by the configuration's optimizer. */
static dt_status check_optimizer(const dt_plan_set *p, const dt_plan_op *op, dt_err *err)
{
    const dt_train_opts *t = &p->session->opts.train;
    const char *now = dt_optimizer_name(t);
    bool packed;
    const char *then = dt_optimizer_of(op->layer, &packed);
    if (strcmp(op->layer, "commit") == 0)
        return DT_OK;
    if (then == NULL || strcmp(then, now) != 0)
        return differs(op->name, "optimizer", then != NULL ? then : op->layer, now, err);
    return packed && t->states != DT_STATES_8BIT ? differs(op->name, "states", "8bit", "fp32", err)
                                                 : DT_OK;
}

/* What the updates of a file's plans say of options that they were made for; without it the next
 * that differs would be the bytes of parameters with their states. */
static dt_status check_updates(const dt_plan_set *p, dt_err *err)
{
    const dt_plans *g = p->asked.given;
    bool within = false, any = false;
    for (size_t i = 0; i < g->n; i++)
        for (size_t k = 0; k < g->plan[i]->n_op; k++) {
            if (g->plan[i]->op[k].kind != DT_OP_UPDATE)
                continue;
            DT_CHECK(check_optimizer(p, &g->plan[i]->op[k], err));
            any = true;
            within = within || dt_plan_kind(g->plan[i]) == DT_PROGRAM_FIRST;
        }
    if (!any || within == p->map->early)
        return DT_OK;
    return differs(
        p->asked.given_by, "update", within ? "early" : "step", within ? "step" : "early", err);
}

dt_status dti_plan_set_given(const dt_plan_set *p, dt_program_kind kind, int64_t n, bool dense,
    dt_planned **out, dt_err *err)
{
    char have[512];
    const dt_session *s = p->session;
    dt_plan *plan = find_given(p->asked.given, kind, n, dense);
    if (plan == NULL) {
        list_given(p->asked.given, have, sizeof have);
        return DT_FAIL(err, DT_E_CONFIG,
            "%s has no plan '%s' for %" PRId64 " samples%s, but %s; all that a run takes is "
            "written by `dnntrain plan CONFIG --text FILE`",
            p->asked.given_by, dt_program_kind_name(kind), n,
            dense ? " for packed values that do not fit" : "", have);
    }
    DT_CHECK(check_updates(p, err));
    DT_TRY(err, dt_verify(plan, err), "%s: plan '%s' for %" PRId64 " samples", p->asked.given_by,
        plan->program, n);
    DT_TRY(err, dt_plan_suits(plan, s->graph, p->map, &s->context, s->threads, err),
        "%s: plan '%s' for %" PRId64 " samples", p->asked.given_by, plan->program, n);
    dt_planned *to = dt_alloc(1, sizeof *to);
    if (to == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for plans");
    *to = (dt_planned){.kind = kind, .n = n, .dense = dense, .plan = plan};
    *out = to;
    return DT_OK;
}
