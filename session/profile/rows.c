/* From the rows of the timed steps to costs: ops of one signature, fetches of inputs, what lies
 * between the rows, and what copies and ops do to each other. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "session/plan_set.h"
#include "session/profile/profile_internal.h"

static bool is_timed(const dt_row *row)
{
    return row->kind == DT_ROW_COMPUTE || row->kind == DT_ROW_COPY_IN;
}

static size_t timed_rows(const dt_plan *plan)
{
    size_t n = 0;
    for (size_t r = 0; r < plan->n_row; r++)
        n += is_timed(&plan->row[r]);
    return n;
}

static dt_status add_rows(dti_profiling *p, size_t i, dt_cost_entry *to, size_t *n, double *fetched,
    double *fetch_seconds)
{
    const dt_planned *x = p->s->plans->planned[i];
    const int64_t most = dti_most_timed(p), times = dti_plan_set_times(p->s->plans, x);
    for (size_t r = 0; times > 0 && r < x->plan->n_row; r++) {
        const dt_row *row = &x->plan->row[r];
        double *v = p->row[i] + (int64_t)r * most;
        if (!is_timed(row))
            continue;
        const double seconds = dti_mean_of_quiet(p, v);
        const double spread = dti_quantile(v, p->timed, 0.75) - dti_quantile(v, p->timed, 0.25);
        p->out->rows += seconds;
        if (row->kind == DT_ROW_COPY_IN) {
            *fetched += (double)(times * (int64_t)row->bytes);
            *fetch_seconds += seconds;
            continue;
        }
        char signature[DT_SIGNATURE_BYTES];
        dt_cost_entry *e = &to[*n];
        *e = (dt_cost_entry){.seconds = fmax(seconds / (double)times, 1e-9), /* of a clock's step */
            .spread = seconds > 0 ? spread / seconds : 0,
            .floor = dt_costs_floor(&p->out->costs, x->plan, &x->plan->op[row->op])};
        dt_cost_signature(x->plan, &x->plan->op[row->op], signature, &e->samples);
        e->signature = dt_strdup(signature);
        if (e->signature == NULL)
            return DT_E_NOMEM;
        ++*n;
    }
    return DT_OK;
}

/* Ops of one signature become one entry, their mean. */
static dt_status add_means(dti_profiling *p, dt_cost_entry *e, size_t n, dt_err *err)
{
    if (n > 0)
        qsort(e, n, sizeof *e, dt_cost_order);
    for (size_t i = 0, next; i < n; i = next) {
        dt_cost_entry mean = e[i];
        for (next = i + 1; next < n && dt_cost_order(&e[i], &e[next]) == 0; next++) {
            mean.seconds += e[next].seconds;
            mean.spread += e[next].spread;
        }
        mean.seconds /= (double)(next - i);
        mean.spread /= (double)(next - i);
        DT_CHECK(dt_costs_add(&p->out->costs, &mean, err));
    }
    return DT_OK;
}

/* The most operations a second that any op of a device reaches, in place of a roof that is not
 * known. */
static void roof_of_ops(dti_profiling *p)
{
    const dt_plan_set *set = p->s->plans;
    double best = 0;
    for (size_t i = 0; i < set->n; i++) {
        const dt_planned *x = set->planned[i];
        const double times = (double)dti_plan_set_times(set, x);
        for (size_t r = 0; times > 0 && r < x->plan->n_row; r++) {
            const dt_row *row = &x->plan->row[r];
            if (row->kind != DT_ROW_COMPUTE)
                continue;
            const double seconds =
                dti_mean_of_quiet(p, p->row[i] + (int64_t)r * dti_most_timed(p)) / times;
            const double rate = seconds > 0 ? x->plan->op[row->op].flops / seconds : 0;
            best = rate > best ? rate : best;
        }
    }
    for (int w = 0; w < DT_WORKS && best > 0; w++)
        for (int t = 0; t < DT_DTYPES; t++)
            p->out->costs.flops[w][t] = best;
}

static dt_status collect(dti_profiling *p, dt_err *err)
{
    const dt_plan_set *set = p->s->plans;
    size_t most = 0, n = 0;
    double fetched = 0, fetch_seconds = 0;
    if (p->device != NULL)
        roof_of_ops(p);
    for (size_t i = 0; i < set->n; i++)
        most += set->planned[i]->plan->n_row;
    dt_cost_entry *e = dt_alloc(most, sizeof *e);
    dt_status st = e != NULL ? DT_OK : DT_E_NOMEM;
    for (size_t i = 0; st == DT_OK && i < set->n; i++)
        st = add_rows(p, i, e, &n, &fetched, &fetch_seconds);
    st =
        st == DT_OK ? add_means(p, e, n, err) : DT_FAIL(err, DT_E_NOMEM, "no memory for a profile");
    for (size_t i = 0; i < n; i++)
        dt_free(e[i].signature);
    dt_free(e);
    dt_costs *c = &p->out->costs;
    if (fetch_seconds > 0 && fetched > 0) {
        const dt_link link = {0, fetched / fetch_seconds};
        c->link[DT_TIER_INPUT][DT_FROM_TIER] = link;
        c->thread_link[DT_TIER_INPUT][DT_FROM_TIER] = link;
    }
    c->rest = p->out->step > p->out->rows ? p->out->step - p->out->rows : 0;
    return st;
}

/* What copies and ops do to each other, never less than nothing. */
static void slow_each_other(dti_profiling *p)
{
    const double step = p->loads.load[0].idle ? p->loads.load[0].step : p->out->step;
    for (int i = 0; i < p->loads.n; i++) {
        const dti_load *l = &p->loads.load[i];
        dt_costs *c = &p->out->costs;
        if (l->idle)
            continue;
        const double ops = step > 0 ? l->step / step : 1;
        const double copies = l->seconds / l->bytes * (double)l->size / l->alone;
        c->slow[DT_USUAL_COMPUTE][l->stream] = ops > 1 ? ops : 1;
        c->slow[l->stream][DT_USUAL_COMPUTE] = copies > 1 ? copies : 1;
    }
}

/* The loop around the rows takes as long whatever they do: a short step is allowed more of itself.
 */
bool dti_profile_adds_up(double step, double told)
{
    return fabs(step - told) <= 0.02 * step + 50e-6;
}

/* Of a device nothing follows from it: it rests while the host sees to each row, which it does not
 * in training. */
static dt_status check_sum(const dti_profiling *p, dt_err *err)
{
    if (p->device != NULL)
        return DT_OK;
    const double told = p->out->rows + dti_mean_of_quiet(p, p->between);
    if (dti_profile_adds_up(p->out->step, told))
        return DT_OK;
    return DT_FAIL(err, DT_E_DEVICE,
        "of a step of %.6f s its rows and what lies between them take %.6f s: something else "
        "was at work here, and such a "
        "profile would not hold; profile again when the machine is quiet, or with more --steps",
        p->out->step, told);
}

/* A device that is waited for after each row takes longer for all of them than for a step that it
 * is told of as a whole: each row less, by the same. */
static void as_in_training(dti_profiling *p)
{
    const dt_plan_set *set = p->s->plans;
    dt_costs *c = &p->out->costs;
    double rows = 0;
    if (p->device == NULL || !(p->loads.load[0].step > 0 && p->loads.load[0].step < p->out->step))
        return;
    for (size_t i = 0; i < set->n; i++)
        rows += (double)timed_rows(set->planned[i]->plan) *
                (double)dti_plan_set_times(set, set->planned[i]);
    const double more = p->out->rows - p->loads.load[0].step;
    const double each = more > 0 && rows > 0 ? more / rows : 0;
    for (size_t i = 0; i < c->n_entry; i++) {
        dt_cost_entry *e = &c->entry[i];
        e->seconds = e->seconds > 2 * each ? e->seconds - each : e->seconds / 2;
    }
    p->out->step = p->loads.load[0].step;
    p->out->rows = more > 0 ? p->out->step : p->out->rows;
    c->rest = p->out->step - p->out->rows;
}

dt_status dti_profile_rows(dti_profiling *p, dt_err *err)
{
    DT_CHECK(collect(p, err));
    slow_each_other(p);
    DT_CHECK(check_sum(p, err));
    as_in_training(p);
    return DT_OK;
}
