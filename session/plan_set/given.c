/* Plans that were given, by a file or by who calls the library: each is verified, and suits the
 * session, before it is taken. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "layers/registry.h"
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

/* Updates go by the configuration's optimizer. */
static dt_status check_optimizer(const dt_plan_set *p, const dt_plan *plan, dt_err *err)
{
    const char *name = dt_optimizer_name(&p->session->opts.train);
    const char *packed = dt_optimizer_packed(&p->session->opts.train);
    for (size_t i = 0; i < plan->n_op; i++) {
        const char *op = plan->op[i].layer;
        if (plan->op[i].kind == DT_OP_UPDATE && strcmp(op, name) != 0 &&
            (packed == NULL || strcmp(op, packed) != 0) && strcmp(op, "commit") != 0)
            return DT_FAIL(err, DT_E_CONFIG,
                "%s: planned for train.optimizer = %s, but this run has %s: plan again",
                plan->op[i].name, op, name);
    }
    return DT_OK;
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
    DT_TRY(err, dt_verify(plan, err), "%s: plan '%s' for %" PRId64 " samples", p->asked.given_by,
        plan->program, n);
    DT_TRY(err, dt_plan_suits(plan, s->graph, p->map, &s->context, s->threads, err),
        "%s: plan '%s' for %" PRId64 " samples", p->asked.given_by, plan->program, n);
    DT_CHECK(check_optimizer(p, plan, err));
    dt_planned *to = dt_alloc(1, sizeof *to);
    if (to == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for plans");
    *to = (dt_planned){.kind = kind, .n = n, .dense = dense, .plan = plan};
    *out = to;
    return DT_OK;
}
