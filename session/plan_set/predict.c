/* What a set's plans take by a session's costs, what they move, and what no plan is below. */
#include "session/plan_set/plan_set_internal.h"

#include <math.h>
#include <string.h>

#include "memory/codec.h"
#include "memory/step_bound.h"

/* ---- a step ---- */

static void add(dt_prediction *to, const dt_planned *x, const dt_timeline *t, double times)
{
    double longest = 0;
    for (int k = 0; k < DT_MAX_STREAMS; k++)
        longest = t->alone[k] > longest ? t->alone[k] : longest;
    to->seconds += times * t->seconds;
    to->compute += times * t->alone[DT_MAIN_STREAM];
    to->stalled += times * t->stalled;
    to->bound += times * longest;
    to->average += times * t->average * t->seconds;
    for (size_t i = 0; i < t->n; i++) {
        const dt_row *row = &x->plan->row[i];
        const bool copy = row->kind == DT_ROW_COPY_OUT || row->kind == DT_ROW_COPY_IN;
        if (row->kind == DT_ROW_COMPUTE)
            to->share[t->source[i]] += times * (t->end[i] - t->begin[i]);
        else if (copy && row->tier < DT_TIERS && t->source[i] == DT_COST_FLOOR)
            to->by_default[row->tier] = true;
    }
}

dt_status dti_plan_set_predict_by(
    const dt_plan_set *p, const dt_costs *c, dt_prediction *out, dt_err *err)
{
    const dt_simulate_opts o = dti_session_simulate_opts(p->session);
    double parts = 0;
    *out = (dt_prediction){.known = dt_costs_known(c)};
    for (size_t i = 0; i < p->n; i++) {
        const dt_planned *x = p->planned[i];
        const double times = (double)dti_plan_set_times(p, x);
        dt_timeline t;
        if (times <= 0)
            continue;
        const dt_status st = dt_simulate(&t, x->plan, c, &o, err);
        if (st == DT_OK)
            add(out, x, &t, times);
        dt_timeline_deinit(&t);
        DT_CHECK(st);
    }
    out->average = out->seconds > 0 ? out->average / out->seconds : 0;
    for (int k = 0; k < DT_COST_SOURCES; k++)
        parts += out->share[k];
    for (int k = 0; k < DT_COST_SOURCES && parts > 0; k++)
        out->share[k] /= parts;
    out->seconds += c->rest;
    out->bound += c->rest;
    out->rate = out->seconds > 0 ? (double)p->asked.batch / out->seconds : 0;
    return DT_OK;
}

/* ---- what it moves ---- */

/* The codec of a copied value whose size goes by its zeros; NULL: it has another, or none. */
static const dt_codec *sparse_codec(const dt_row *r)
{
    const dt_codec *codec = dt_codec_numbered(r->codec);
    return codec != NULL && codec->sparse ? codec : NULL;
}

static void add_copy(
    dt_traffic *to, const dt_session *s, const dt_plan *p, const dt_row *r, uint64_t times)
{
    const dt_codec *codec = sparse_codec(r);
    const bool out = r->kind == DT_ROW_COPY_OUT;
    uint64_t bytes = r->tier == DT_TIER_INPUT ? r->bytes : r->stored;
    if (codec != NULL) {
        const double mean = dt_densities_mean(&s->densities, p->tensor[r->tensor].name);
        const uint64_t packed = dt_packed_bytes(codec, r->bytes / sizeof(float), mean);
        bytes = mean >= 0 && packed < bytes ? packed : bytes;
        to->room += out ? times * r->stored : 0;
        to->unknown += out && mean < 0 ? times * r->stored : 0;
    }
    *(out ? &to->out : &to->in) += times * bytes;
}

dt_traffic dt_plan_set_traffic(const dt_plan_set *p)
{
    dt_traffic sum = {0};
    for (size_t i = 0; i < p->n; i++) {
        const dt_plan *x = p->planned[i]->plan;
        const int64_t times = dti_plan_set_times(p, p->planned[i]);
        for (size_t k = 0; times > 0 && k < x->n_row; k++)
            if (x->row[k].kind == DT_ROW_COPY_OUT || x->row[k].kind == DT_ROW_COPY_IN)
                add_copy(&sum, p->session, x, &x->row[k], (uint64_t)times);
    }
    return sum;
}

/* ---- what no plan is below ---- */

double dti_plan_set_least_share(const dt_plan_set *p)
{
    double least = 1;
    for (size_t i = 0; i < p->n; i++) {
        const dt_program *q = p->planned[i]->program;
        for (size_t k = 0; q != NULL && k < q->n_order; k++) {
            const dt_op *op = &q->op[q->order[k]];
            if (op->codec == NULL || op->n_arg == 0 || op->stored == 0)
                continue;
            const double bytes = (double)q->tensor[op->arg[0].tensor].bytes;
            least = fmin(least, (double)op->stored / fmax(bytes, (double)op->stored));
        }
    }
    const dt_densities *d = &p->session->densities;
    for (size_t i = 0; i < d->n && least < 1; i++)
        if (d->line[i].mean >= 0)
            least = fmin(least, d->line[i].mean);
    return least;
}

/* @by_host: updates are made there, beside the device. */
static dt_status bound_of(const dt_plan_set *kept, const dt_densities *d, bool by_host,
    uint64_t budget, double *seconds, dt_err *err)
{
    const dt_session *s = kept->session;
    const dt_simulate_opts o = dti_session_simulate_opts(s);
    const dt_lower_opts lower = dti_plan_set_lower_opts(kept, NULL);
    const dt_pass_env env = {.machine = &o,
        .lower = &lower,
        .density = d->n > 0 ? d : NULL,
        .pool = dt_pool_find(s->opts.memory.pool),
        .costs = kept->asked.costs};
    *seconds = s->costs.rest;
    for (size_t i = 0; i < kept->n; i++) {
        const dt_planned *x = kept->planned[i];
        const double times = (double)dti_plan_set_times(kept, x);
        dt_timeline t = {0};
        double least = 0;
        if (times <= 0 || (x->kind == DT_PROGRAM_UPDATE && by_host))
            continue;
        dt_status st = x->kind == DT_PROGRAM_UPDATE
                           ? dt_simulate(&t, x->plan, &s->costs, &o, err)
                           : dt_step_bound(x->program, &env, budget, &least, err);
        *seconds += times * (x->kind == DT_PROGRAM_UPDATE ? t.alone[DT_MAIN_STREAM] : least);
        dt_timeline_deinit(&t);
        DT_CHECK(st);
    }
    return DT_OK;
}

/* What lives elsewhere leaves its bytes to the step. */
static uint64_t with_homes(const dt_plan_set *p, const dt_plan_set *kept, uint64_t budget)
{
    const uint64_t away = kept->map->bytes > p->map->bytes ? kept->map->bytes - p->map->bytes : 0;
    return budget == 0 || budget > UINT64_MAX - away ? UINT64_MAX : budget + away;
}

static dt_status bound_by(const dt_plan_set *p, dt_algorithm_choice algorithms, uint64_t budget,
    double *seconds, dt_err *err)
{
    dt_policies keep_all;
    dt_plan_set *kept = NULL;
    dt_densities own = {0};
    const double share = dti_plan_set_least_share(p);
    const bool by_host =
        p->session->context.device != DT_CPU && dt_policies_host_updates(p->policies);
    dt_plan_request r = p->asked;
    r.policies = &keep_all;
    r.fates = NULL;
    r.given = NULL;
    r.algorithms = algorithms;
    dt_status st = dt_policies_open(&keep_all, "keep_all", NULL, err);
    if (st == DT_OK)
        st = dt_plan_set_create(&kept, p->session, &r, err);
    if (st == DT_OK)
        st = dti_plan_set_run(kept, false, 0, 0, err);
    if (st == DT_OK && share < 1)
        st = dt_densities_add(&own, "*", share, share, err);
    if (st == DT_OK)
        st = bound_of(kept, share < 1 ? &own : &p->session->densities, by_host,
            with_homes(p, kept, budget), seconds, err);
    dt_densities_close(&own);
    dt_plan_set_destroy(kept);
    dt_policies_close(&keep_all);
    return st;
}

/* Which algorithms fit hangs on the plan, and those of fewest bytes may well be the faster ones by
 * what was measured. */
dt_status dt_plan_set_bound(const dt_plan_set *p, uint64_t budget, double *seconds, dt_err *err)
{
    double small = 0;
    if (p->algorithms != DT_ALGORITHMS_FIT) /* of a ladder's, those of its rung */
        return bound_by(p, p->algorithms, budget, seconds, err);
    DT_CHECK(bound_by(p, DT_ALGORITHMS_FAST, budget, seconds, err));
    DT_CHECK(bound_by(p, DT_ALGORITHMS_SMALL, budget, &small, err));
    *seconds = fmin(*seconds, small);
    return DT_OK;
}

dt_status dt_plan_set_predict(const dt_plan_set *p, dt_prediction *out, dt_err *err)
{
    return dti_plan_set_predict_by(p, &p->session->costs, out, err);
}
