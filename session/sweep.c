/* The largest batch that a policy fits into the budgets, from plans alone. */
#include "session/sweep.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "session/budget.h"

/* Policies, and the plans of the batch tried last. */
typedef struct trial {
    const dt_session *s;
    const char *policy;
    const dt_policies *policies;
    bool eval;
    dt_plan_set *plans;
} trial;

/* The plans of a run with this batch, taken at once. */
static dt_status plan_batch(trial *t, int64_t batch, dt_err *err)
{
    dt_plan_request r = dt_session_request(t->s);
    r.policies = t->policies;
    r.batch = r.micro_batch = batch;
    dt_plan_set_destroy(t->plans);
    dt_status st = dt_plan_set_create(&t->plans, t->s, &r, err);
    if (st == DT_OK)
        st = dti_plan_set_run(t->plans, t->eval, 0, 0, err);
    return st == DT_OK ? st : DT_FAIL(err, st, "policy '%s' at batch %" PRId64, t->policy, batch);
}

/* A batch that is more than the library can count does not fit either; whatever else is wrong is
 * wrong with one sample, too. */
static dt_status fits(trial *t, int64_t batch, bool *yes, dt_err *err)
{
    dt_err why = {0};
    const dt_status st = plan_batch(t, batch, &why);
    *yes = false;
    if (st == DT_E_CONFIG && batch > 1)
        return DT_OK;
    if (st != DT_OK)
        return dt_err_append(err, st, why.text);
    const dt_need need = dt_plan_set_need(t->plans);
    const dt_available have = dt_plan_set_available(t->plans);
    *yes = dt_need_fits(&need, &have);
    return DT_OK;
}

/* Doubling until a size fails, then bisection. */
static dt_status search(trial *t, int64_t first, int64_t *largest, dt_err *err)
{
    int64_t good = 0, bad = first;
    bool yes = true;
    while (good < DTI_SWEEP_MOST) {
        DT_CHECK(fits(t, bad, &yes, err));
        if (!yes)
            break;
        good = bad;
        bad *= 2;
    }
    while (!yes && bad - good > 1) {
        const int64_t mid = good + (bad - good) / 2;
        bool fit;
        DT_CHECK(fits(t, mid, &fit, err));
        *(fit ? &good : &bad) = mid;
    }
    *largest = good;
    return DT_OK;
}

static void refuse(dt_sweep_row *row, const dt_err *why)
{
    snprintf(row->refused, sizeof row->refused, "%.*s", (int)strcspn(why->text, "\n"), why->text);
}

static dt_status describe(trial *t, dt_sweep_row *row, dt_err *err)
{
    DT_CHECK(plan_batch(t, row->batch > 0 ? row->batch : 1, err));
    if (row->batch == 1 && dti_plan_set_check_statistics(t->plans, NULL) != DT_OK)
        row->batch = 0; /* one sample fits but cannot be trained */
    dt_err why = {0};
    if (dti_plan_set_check_updates(t->plans, &why) != DT_OK) {
        row->batch = 0;
        row->capped = false;
        refuse(row, &why);
        DT_CHECK(plan_batch(t, 1, err));
    }
    const dt_need need = dt_plan_set_need(t->plans);
    const dt_score score = dt_plan_set_score(t->plans);
    dt_here here;
    dt_plan_set_here(t->plans, &here);
    row->beyond = !here.fits;
    row->memory = here.memory;
    row->peak = need.device;
    row->floor = dti_plan_set_floor(t->plans);
    row->host_peak = need.tier[DT_TIER_HOST];
    row->disk_peak = need.tier[DT_TIER_DISK];
    row->out_bytes = score.out;
    row->in_bytes = score.in;
    row->traffic = dt_plan_set_traffic(t->plans);
    row->recompute = score.flops > 0 ? score.recompute_flops / score.flops : 0;
    row->exact = dt_plan_set_exact(t->plans);
    dti_plan_set_too_small(row->too_small, t->plans);
    dt_prediction time;
    DT_CHECK(dt_plan_set_predict(t->plans, &time, err));
    row->step = time.known ? time.seconds : 0;
    row->rate = time.known ? time.rate : 0;
    return DT_OK;
}

static dt_status fill(trial *t, dt_sweep_row *row, dt_err *err)
{
    dt_err why = {0};
    const dt_status st = search(t, 1, &row->batch, &why);
    if (st == DT_E_CONFIG && row->unasked) {
        row->exact = dt_policies_exact(t->policies);
        refuse(row, &why);
        return DT_OK;
    }
    if (st != DT_OK)
        return dt_err_append(err, st, why.text);
    row->capped = row->batch >= DTI_SWEEP_MOST;
    return describe(t, row, err);
}

dt_status dt_sweep_policy(const dt_session *s, dt_sweep_row *row, dt_err *err)
{
    dt_policies policies;
    trial t = {.s = s, .policy = row->policy, .policies = &policies, .eval = true};
    dt_status st = dt_policies_open(&policies, row->policy, s->config, err);
    if (st == DT_OK)
        st = fill(&t, row, err);
    dt_plan_set_destroy(t.plans);
    dt_policies_close(&policies);
    return st;
}

dt_status dti_largest_batch(const dt_session *s, int64_t first, int64_t *largest, dt_err *err)
{
    trial t = {.s = s, .policy = s->opts.memory.policy, .policies = &s->policies};
    const dt_status st = search(&t, first, largest, err);
    dt_plan_set_destroy(t.plans);
    return st;
}
