/* A profile is one run of training in stages: steps whose values are counted, steps whose rows are
 * timed, and steps beside a thread that does nothing but copy. */
#include "session/profile.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers.h"
#include "engine/base/numbers_text.h"
#include "session/budget.h"
#include "session/machine.h"
#include "session/origin.h"
#include "session/profile/profile_internal.h"
#include "session/run_plans.h"

enum { WARM = 2, QUIET = 5 };                   /* steps that are looked at, at the least */
static const double quiet = 0.25, alike = 0.03; /* the share of steps; what they may differ by */

static void tell(const dti_profiling *p, const char *text)
{
    if (p->o->line != NULL)
        p->o->line(p->o->self, text);
}

double dti_quantile(double *v, int64_t n, double share)
{
    qsort(v, (size_t)n, sizeof *v, dt_order_f64);
    const double at = share * (double)(n - 1);
    const int64_t below = (int64_t)at;
    const double next = v[below + 1 < n ? below + 1 : below];
    return v[below] + (at - (double)below) * (next - v[below]);
}

/* ---- how many values are not zero ---- */

static dt_status list_waiting(dti_profiling *p, dt_err *err)
{
    const dt_planned *first;
    DT_CHECK(dt_plan_set_add(p->s->plans, DT_PROGRAM_FIRST, p->s->micro_batch, &first, err));
    return dti_density_count_open(&p->count, first->program, err);
}

/* ---- stages of the run ---- */

/* What lies before a row: between programs the host sums the squares of the gradients and reads the
 * loss; between rows it comes from one to the next in no more than this, and else does not run. */
static const double from_row_to_row = 5e-6;

static double gap_before(const dti_profiling *p, const dt_trace_row *r)
{
    const double gap = p->last.step == p->in_stage ? r->begin - p->last.end : 0;
    const bool begins = (size_t)r->plan != p->last.plan || r->row <= p->last.row;
    return begins ? fmax(gap, 0) : fmin(fmax(gap, 0), from_row_to_row);
}

/* The row's seconds in this step, beside those of the steps before. */
static void ran(void *self, const dt_trace_row *r)
{
    dti_profiling *p = self;
    if (p->in_stage >= dti_most_timed(p))
        return;
    p->row[r->plan][(int64_t)r->row * dti_most_timed(p) + p->in_stage] += r->end - r->begin;
    p->between[p->in_stage] += gap_before(p, r);
    p->first = p->last.step == p->in_stage ? p->first : r->begin;
    p->last.step = p->in_stage;
    p->last.plan = (size_t)r->plan;
    p->last.row = r->row;
    p->last.end = r->end;
}

static dt_status make_rows(dti_profiling *p, dt_err *err)
{
    const dt_plan_set *set = p->s->plans;
    const size_t most = (size_t)dti_most_timed(p);
    p->step = dt_alloc(most + DTI_BESIDE, sizeof *p->step);
    p->row = dt_alloc(set->n, sizeof *p->row);
    p->quiet = dt_alloc(most, sizeof *p->quiet);
    p->between = dt_alloc(most, sizeof *p->between);
    bool ok = p->step != NULL && p->row != NULL && p->quiet != NULL && p->between != NULL;
    for (size_t i = 0; ok && i < set->n; i++) {
        p->row[i] = dt_alloc(set->planned[i]->plan->n_row * most, sizeof(double));
        ok = p->row[i] != NULL;
    }
    return ok ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory for a profile");
}

double dti_mean_of_quiet(const dti_profiling *p, const double *v)
{
    double sum = 0;
    int64_t taken = 0;
    for (int64_t i = 0; i < p->timed; i++) {
        taken += p->quiet[i];
        sum += p->quiet[i] ? v[i] : 0;
    }
    return sum / (double)taken;
}

/* The quarter of the timed steps that took least: others were disturbed, or more than these. What
 * always takes its share, the loader's threads for one, meets other rows in every step: the rows'
 * own least would leave it out, their means over the same steps add up to the step. */
static dt_status choose_quiet(dti_profiling *p, dt_err *err)
{
    const int64_t n = p->timed, part = (int64_t)(quiet * (double)n);
    const int64_t most = part > QUIET ? part : n < QUIET ? n : QUIET;
    double *sorted = dt_alloc((size_t)n, sizeof *sorted);
    if (sorted == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a profile");
    memcpy(sorted, p->step, (size_t)n * sizeof *sorted);
    const double low = dti_quantile(sorted, n, 0), high = sorted[most - 1];
    dt_free(sorted);
    for (int64_t i = 0; i < n; i++)
        p->quiet[i] = p->step[i] <= high;
    p->spread = high - low;
    p->out->step = dti_mean_of_quiet(p, p->step);
    return DT_OK;
}

int64_t dt_profile_steps(const dt_profile_opts *o)
{
    return o->steps + (o->timed ? WARM + DTI_ROUNDS * o->steps + DTI_MOST_LOADS * DTI_BESIDE : 0);
}

dti_quiet dti_profile_quiet(double step, double spread)
{
    if (!(spread <= 0.25 * step + 1e-3))
        return DTI_DISTURBED;
    return spread <= 0.1 * step + 1e-3 ? DTI_QUIET : DTI_RESTLESS;
}

/* On a machine that others share too, steps always differ, by memory more than by arithmetic; the
 * mean of the quietest is still worth more than the defaults, as long as it is no accident. */
static dt_status check_quiet(const dti_profiling *p, dt_err *err)
{
    char text[128];
    const dti_quiet is = dti_profile_quiet(p->out->step, p->spread);
    if (is == DTI_DISTURBED)
        return DT_FAIL(err, DT_E_DEVICE,
            "of %" PRId64
            " steps even the quietest differ by %.4f s of %.4f s: something else is at work "
            "here, and such a profile would not hold; profile again when the machine is quiet, or "
            "with more --steps",
            p->timed, p->spread, p->out->step);
    if (is == DTI_RESTLESS) {
        dt_snprintf(text, sizeof text,
            "even the quietest steps differ by %.1f %%: expect no less of what is predicted",
            100 * p->spread / p->out->step);
        tell(p, text);
    }
    return DT_OK;
}

/* A round of timed steps is done: another one follows where they differ. */
static dt_status next_round(dti_profiling *p, int64_t done, dt_err *err)
{
    char text[96];
    p->timed = p->in_stage;
    DT_CHECK(choose_quiet(p, err));
    if (p->spread <= alike * p->out->step + 1e-4 || p->timed == dti_most_timed(p)) {
        p->beside = done;
        DT_CHECK(check_quiet(p, err));
        return dt_runner_set_trace(p->rig.runner, NULL, err);
    }
    dt_snprintf(text, sizeof text,
        "timing more: the quietest %.0f %% of the steps differ by %.1f %%", 100 * quiet,
        100 * p->spread / p->out->step);
    tell(p, text);
    return DT_OK;
}

static dt_status start_load(dti_profiling *p, int i, dt_err *err)
{
    char text[96];
    const dti_load *l = &p->loads.load[i];
    snprintf(text, sizeof text,
        l->idle ? "%d steps as they are in training" : "%d steps beside copies %s", DTI_BESIDE,
        l->name);
    tell(p, text);
    return dti_load_start(&p->loads, i, err);
}

/* The steps beside a load are done. */
static dt_status next_load(dti_profiling *p, int64_t done, dt_err *err)
{
    const int64_t next = (done - p->beside) / DTI_BESIDE;
    if (next > 0) {
        DT_CHECK(dti_load_stop(&p->loads, err));
        p->loads.load[next - 1].step = dti_lower_quartile(p->step, DTI_BESIDE);
    }
    p->in_stage = 0;
    p->done = next == p->loads.n;
    return p->done ? DT_OK : start_load(p, (int)next, err);
}

/* Steps that warm up are told with those that are counted, and timed ones by their rounds. */
static void tell_step(const dti_profiling *p, int64_t done)
{
    const int64_t timed = p->o->timed ? p->o->steps + WARM : p->o->steps;
    if (p->o->begins == NULL || p->done || done == dt_profile_steps(p->o))
        return;
    if (done < timed)
        p->o->begins(p->o->self, done + 1, timed);
    else if (p->beside == 0)
        p->o->begins(p->o->self, p->in_stage % p->o->steps + 1, p->o->steps);
    else
        p->o->begins(p->o->self, p->in_stage + 1, DTI_BESIDE);
}

/* Begins the stage that the next step is of. Stages: counted, warm, timed, one beside each load. */
static dt_status next_stage(dti_profiling *p, int64_t done, dt_err *err)
{
    const int64_t timed = p->o->steps + WARM;
    p->in_stage++;
    if (done == 0) {
        dt_runner_set_probe(p->rig.runner, &p->count.probe);
        if (p->o->timed)
            dti_relay_start(&p->relay);
    } else if (done == p->o->steps) {
        dt_runner_set_probe(p->rig.runner, NULL);
        p->out->costs.wake = dti_relay_stop(&p->relay);
    } else if (done == timed) {
        p->in_stage = 0;
        tell(p, "timing rows");
        return dt_runner_set_trace(p->rig.runner, &p->trace, err);
    } else if (done > timed && p->beside == 0 && p->in_stage % p->o->steps == 0) {
        DT_CHECK(next_round(p, done, err));
    }
    if (p->beside == 0 || (done - p->beside) % DTI_BESIDE != 0)
        return DT_OK;
    return next_load(p, done, err);
}

static bool is_done(void *self)
{
    const dti_profiling *p = self;
    return p->done;
}

/* What a step takes before its first row and behind its last: the batch is looked through and
 * handed over, numbers are read. */
static double around_rows(const dti_profiling *p, double step)
{
    return fmax(step - (p->last.end - p->first), 0);
}

static dt_status step_done(void *self, const dt_step_report *r, dt_err *err)
{
    dti_profiling *p = self;
    if (p->step != NULL && p->in_stage < dti_most_timed(p) + DTI_BESIDE)
        p->step[p->in_stage] = r->step_seconds - r->wait_seconds;
    const bool timed = p->beside == 0 && p->last.step == p->in_stage; /* of each row */
    if (timed && p->in_stage < dti_most_timed(p))
        p->between[p->in_stage] += around_rows(p, r->step_seconds - r->wait_seconds);
    if (!p->o->timed && r->step == p->o->steps)
        return DT_OK;
    DT_CHECK(next_stage(p, r->step, err));
    tell_step(p, r->step);
    return DT_OK;
}

static dt_status run_steps(dti_profiling *p, dt_err *err)
{
    const dt_observer o = {.self = p, .step = step_done, .stop = is_done};
    const dt_train_job j = {.runner = p->rig.runner,
        .map = p->s->plans->map,
        .opts = &p->s->opts.train,
        .micro_batch = p->s->micro_batch,
        .ready = p->rig.ready,
        .n_ready = p->rig.n,
        .feed = dt_loader_feed(p->feeds.train_loader),
        .steps = dt_profile_steps(p->o),
        .steps_per_epoch = p->feeds.steps_per_epoch,
        .observer = &o};
    tell(p, "counting values");
    p->trace = (dt_trace){p, ran};
    p->in_stage = -1;
    DT_CHECK(next_stage(p, 0, err));
    tell_step(p, 0);
    dt_status st = dt_train(&j, err);
    if (st == DT_E_STOPPED && p->done) {
        dt_err_clear(err);
        st = DT_OK;
    }
    const dt_status copied = dti_load_stop(&p->loads, st == DT_OK ? err : NULL);
    st = st == DT_OK ? copied : st;
    (void)dti_relay_stop(&p->relay);
    dt_runner_set_probe(p->rig.runner, NULL);
    return st;
}

/* ---- the whole ---- */

static dt_status measure_processor(dt_costs *c, dt_dtype t, dt_err *err)
{
    dt_machine m;
    DT_CHECK(dti_machine_measure(&m, t, err));
    for (int w = 0; w < DT_WORKS; w++)
        for (int k = 0; k < DT_DTYPES; k++)
            c->flops[w][k] = m.flops[k] > 0 ? m.flops[k] : m.flops[DT_F32];
    c->bytes = m.bytes;
    return DT_OK;
}

/* The roof is what floors are taken from, so it comes first; a device's arithmetic is what its best
 * op shows (roof_of_ops). */
static dt_status measure_machine(dti_profiling *p, dt_err *err)
{
    const dt_driver *d = dt_device_driver(p->s->context.device);
    dt_costs *c = &p->out->costs;
    tell(p, "measuring the machine, its links and codecs");
    if (d != NULL && !d->immediate) {
        DT_CHECK(dti_device_rates_open(&p->device, d, (uint64_t)DTI_SLOTS * DTI_LARGE, err));
        DT_CHECK(dti_device_rates_own(p->device, &c->bytes, err));
    } else {
        DT_CHECK(measure_processor(c, p->s->graph->dtype, err));
    }
    DT_CHECK(dti_profile_codecs(c, d, p->device, err));
    p->loads = (dti_loads){.s = p->s, .device = p->device, .costs = c};
    return dti_loads_open(&p->loads, &p->count, err);
}

/* Plans that keep all, in the place of the session's. */
static dt_status plan_to_keep(dti_profiling *p, dt_err *err)
{
    dt_plan_request r;
    dti_session_forget(p->s);
    DT_CHECK(dt_policies_open(&p->keep_all, "keep_all", NULL, err));
    r = dt_session_request(p->s);
    r.policies = &p->keep_all;
    r.fates = NULL;
    DT_CHECK(dt_plan_set_create(&p->s->plans, p->s, &r, err));
    return dti_plan_set_run(p->s->plans, false, 0, 0, err);
}

static dt_status measure(dti_profiling *p, dt_err *err)
{
    dt_session *s = p->s;
    DT_CHECK(plan_to_keep(p, err));
    DT_CHECK(dti_session_check_run(s, false, err)); /* before any data is read */
    DT_CHECK(dt_feeds_open(&p->feeds, s, err));
    DT_CHECK(dti_plan_set_run(s->plans, false, p->feeds.last, 0, err));
    DT_CHECK(dti_plan_set_check_statistics(s->plans, err));
    DT_CHECK(dti_session_check_run(s, true, err));
    dti_rig_tell_threads(s);
    DT_CHECK(list_waiting(p, err));
    if (p->o->timed)
        DT_CHECK(measure_machine(p, err));
    DT_CHECK(dti_rig_open(&p->rig, s, err));
    if (p->o->timed)
        DT_CHECK(make_rows(p, err));
    DT_CHECK(run_steps(p, err));
    DT_CHECK(dti_density_count_keep(&p->count, p->o->margin, true, &p->out->densities, err));
    if (!p->o->timed)
        return DT_OK;
    DT_CHECK(dti_profile_rows(p, err));
    return dt_costs_seal(&p->out->costs, err);
}

dt_status dt_profile_measure(dt_session *s, const dt_profile_opts *o, dt_profile *out, dt_err *err)
{
    dti_profiling p = {.s = s, .o = o, .out = out, .last.step = -1};
    *out = (dt_profile){.costs = dt_costs_default};
    dti_session_origin(s, &out->origin);
    const dt_status st = measure(&p, err);
    dti_loads_close(&p.loads);
    dti_device_rates_close(p.device);
    for (size_t i = 0; p.row != NULL && i < s->plans->n; i++)
        dt_free(p.row[i]);
    dt_free(p.row);
    dt_free(p.step);
    dt_free(p.quiet);
    dt_free(p.between);
    dti_rig_close(&p.rig);
    dt_feeds_close(&p.feeds);
    dti_density_count_close(&p.count);
    dti_session_forget(s); /* they borrow the policies */
    dt_policies_close(&p.keep_all);
    return st;
}

void dt_profile_deinit(dt_profile *p)
{
    dt_costs_deinit(&p->costs);
    dt_densities_close(&p->densities);
}
