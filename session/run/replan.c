/* Planning anew while a run goes on, for policies that go by what values hold: in the last step of
 * an epoch the values are counted, and behind it the step is planned by that, within the memory
 * that the run has reserved; for those that go by times as well, what ops and copies take is kept
 * in all steps before. Plans are verified, and run once in the patterned arena, before a step
 * takes them; what lives on waits beside the arena meanwhile. No bit of what is trained changes. */
#include <inttypes.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "session/density_count.h"
#include "session/human.h"
#include "session/row_times.h"
#include "session/run_plans.h"
#include "session/run/run_internal.h"

/* Of 1, added to the largest share that was seen: the next epoch's may be larger. */
static const double margin = 0.02;

/**
 * struct dti_replan - a run that plans anew.
 * @steps: from one time to the next: whole epochs
 * @set:   of the plans that steps take; NULL: those of the session
 * @timed: by times as well, which are kept in @times
 */
struct dti_replan {
    int64_t steps;
    dti_density_count count;
    dt_plan_set *set;
    bool timed;
    dti_row_times times;
};

void dti_run_replan_close(dt_run *r)
{
    if (r->replan == NULL)
        return;
    dt_plan_set_destroy(r->replan->set);
    dti_density_count_close(&r->replan->count);
    dti_row_times_close(&r->replan->times);
    dt_free(r->replan);
    r->replan = NULL;
}

/* ---- whether a run does ---- */

static const char *obstacle(const dt_run *r)
{
    const dt_map *m = r->s->plans->map;
    if (r->s->given.n > 0)
        return "plans are given";
    if (r->s->costs.simulated && dt_policies_timed(r->s->plans->policies))
        return "memory.simulate names another machine than the one that is timed";
    if (r->s->context.device != DT_CPU)
        return "a card's values are not counted while it works";
    if (r->trace != NULL)
        return "a trace is of the plans that were there when it began";
    for (size_t i = 0; i < m->n; i++)
        if (m->home[i].tier != DT_AT_DEVICE)
            return "what lives on does so away from the device";
    return NULL;
}

static dt_status begin_timing(dt_run *r, dt_err *err);

dt_status dti_run_replan_open(dt_run *r, dt_err *err)
{
    const dt_session *s = r->s;
    const int64_t every = dt_policies_replan(s->plans->policies);
    const dt_planned *first;
    if (every == 0)
        return DT_OK;
    if (obstacle(r) != NULL) {
        dti_run_tell(r, "planned", "once and not every epoch: %s", obstacle(r));
        return DT_OK;
    }
    r->replan = dt_alloc(1, sizeof *r->replan);
    if (r->replan == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to plan anew");
    if (__builtin_mul_overflow(every, r->feeds.steps_per_epoch, &r->replan->steps))
        r->replan->steps = INT64_MAX;
    DT_CHECK(dti_session_plan(r->s, DT_PROGRAM_FIRST, s->micro_batch, &first, err));
    DT_CHECK(dti_density_count_open(&r->replan->count, first->program, err));
    r->replan->timed = dt_policies_timed(s->plans->policies);
    return begin_timing(r, err);
}

/* ---- what lives on, while plans are tried ---- */

static dt_status set_aside(dt_run *r, unsigned char **kept, dt_err *err)
{
    const dt_map *m = r->s->plans->map;
    *kept = dt_alloc(m->bytes, 1);
    if (*kept == NULL)
        return DT_FAIL(
            err, DT_E_NOMEM, "no memory to keep %zu bytes while plans are tried", m->bytes);
    for (size_t i = 0; i < m->n; i++)
        memcpy(*kept + m->home[i].off, dt_runner_home(r->rig.runner, (int32_t)i), m->home[i].bytes);
    return DT_OK;
}

static void put_back(dt_run *r, const unsigned char *kept)
{
    const dt_map *m = r->s->plans->map;
    for (size_t i = 0; i < m->n; i++)
        memcpy(dt_runner_home(r->rig.runner, (int32_t)i), kept + m->home[i].off, m->home[i].bytes);
}

/* ---- times ---- */

/* Of the plans that steps take. */
static dt_status begin_timing(dt_run *r, dt_err *err)
{
    dti_replan *p = r->replan;
    dti_row_times_close(&p->times);
    for (size_t i = 0; i < r->rig.n && p->timed; i++) {
        const dt_ready *g = &r->rig.ready[i];
        const dt_planned *x =
            p->set != NULL ? dti_plan_set_find(p->set, g->kind, g->n, g->dense) : NULL;
        x = x != NULL ? x : dti_plan_set_find(r->s->plans, g->kind, g->n, g->dense);
        if (x != NULL && x->kind != DT_PROGRAM_EVAL)
            DT_CHECK(dti_row_times_add(&p->times, g->id, x->plan, err));
    }
    return p->timed ? dt_runner_set_trace(r->rig.runner, &p->times.trace, err) : DT_OK;
}

static dt_status end_timing(dt_run *r, dt_err *err)
{
    const dti_replan *p = r->replan;
    if (!p->timed)
        return DT_OK;
    DT_CHECK(dt_runner_set_trace(r->rig.runner, NULL, err));
    return dti_row_times_keep(
        &p->times, dti_session_simulate_opts(r->s).inline_copies, &r->s->costs, err);
}

/* ---- what is new ---- */

static bool is_new(const dt_plan_set *before, const dt_planned *x)
{
    const dt_planned *old = dti_plan_set_find(before, x->kind, x->n, x->dense);
    return old == NULL || !dt_plan_same_rows(old->plan, x->plan);
}

/* Steps of whole batches: smaller ones go by the plans that they have. */
static dt_status plan(dt_run *r, dt_plan_set **out, dt_err *err)
{
    const dt_planned *x;
    const dt_train_opts *t = &r->s->opts.train;
    DT_CHECK(dti_plan_set_again(out, r->s->plans, err));
    DT_CHECK(dt_plan_set_add(*out, DT_PROGRAM_FIRST, r->s->micro_batch, &x, err));
    return r->s->micro_batch < t->batch
               ? dt_plan_set_add(*out, DT_PROGRAM_AGAIN, r->s->micro_batch, &x, err)
               : DT_OK;
}

static uint64_t peak_of(const dt_plan_set *set, int tier)
{
    return tier == DT_AT_DEVICE ? dt_plan_set_peak(set) : dt_plan_set_tier_peak(set, (dt_tier)tier);
}

/* Within what the run has reserved, or told where it is not. */
static bool fits(dt_run *r, const dt_plan_set *set)
{
    for (int tier = DT_AT_DEVICE; tier < DT_TIERS; tier++) {
        const uint64_t needs = peak_of(set, tier), has = peak_of(r->s->plans, tier);
        char a[DT_HUMAN_EXACT], b[DT_HUMAN_EXACT];
        if (needs <= has)
            continue;
        dti_run_tell(r, "planned",
            "as before after step %" PRId64 ": anew it takes %s %s the %s, and %s are reserved",
            r->point.step, dt_human_exact(a, needs), tier == DT_AT_DEVICE ? "of" : "on",
            dt_place_name(tier), dt_human_exact(b, has));
        return false;
    }
    return true;
}

/* The place of a plan among those that are ready; one more where there is none of its kind. */
static dt_status place_of(dt_run *r, const dt_planned *x, size_t *at, dt_err *err)
{
    dt_rig *g = &r->rig;
    for (*at = 0; *at < g->n; ++*at)
        if (dti_planned_is(x, g->ready[*at].kind, g->ready[*at].n, g->ready[*at].dense))
            return DT_OK;
    dt_ready *more = dt_alloc(g->n + 1, sizeof *more);
    if (more == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for plans");
    memcpy(more, g->ready, g->n * sizeof *more);
    more[g->n] = (dt_ready){.kind = x->kind, .n = x->n, .dense = x->dense, .id = -1};
    dt_free(g->ready);
    g->ready = more;
    g->n++;
    return DT_OK;
}

/* Each new plan is tried, and then takes the place of the one before it. */
static dt_status try_all(dt_run *r, const dt_plan_set *set, dt_err *err)
{
    const dt_plan_set *before = r->replan->set != NULL ? r->replan->set : r->s->plans;
    dti_tried with;
    size_t at = 0;
    dt_status st = dti_run_tried_open(&with, r, err);
    for (size_t i = 0; i < set->n && st == DT_OK; i++) {
        dt_ready to;
        if (!is_new(before, set->planned[i]))
            continue;
        st = dti_run_try(r, set->planned[i], &with, &to, err);
        if (st == DT_OK)
            st = place_of(r, set->planned[i], &at, err);
        if (st != DT_OK)
            break;
        if (r->rig.ready[at].id >= 0)
            dt_runner_drop(r->rig.runner, r->rig.ready[at].id);
        r->rig.ready[at] = to;
    }
    dti_run_tried_close(&with);
    return st;
}

static dt_status take(dt_run *r, const dt_plan_set *set, dt_err *err)
{
    unsigned char *kept = NULL;
    const dt_runner_stats moved = dt_runner_get_stats(r->rig.runner);
    DT_CHECK(set_aside(r, &kept, err));
    const dt_status st = try_all(r, set, err);
    put_back(r, kept);
    dt_free(kept);
    dt_runner_put_stats(r->rig.runner, &moved);
    return st;
}

/* ---- the report ---- */

static void tell(dt_run *r, const dt_plan_set *set)
{
    const dt_plan *p = set->planned[0]->plan;
    int moves = 0, packed = 0;
    for (size_t i = 0; i < p->n_row; i++) {
        const bool out = p->row[i].kind == DT_ROW_COPY_OUT;
        moves += out;
        packed += out && p->row[i].codec > 0;
    }
    dti_run_tell(r, "planned",
        "anew after step %" PRId64 "%s: of %d values that move %d are packed", r->point.step,
        r->replan->timed ? " by what it took" : "", moves, packed);
}

/* Some rows that are timed are of plans that go, and some plans that run were never compared. */
static void end_all_timing(dt_run *r)
{
    dt_err why = {0}; /* no row is timed any more, for which nothing is needed */
    if (r->replan->timed && dt_runner_set_trace(r->rig.runner, NULL, &why) != DT_OK)
        return;
    dti_row_times_close(&r->replan->times);
    r->replan->timed = false;
}

static dt_status plan_and_take(dt_run *r, dt_err *err)
{
    dti_replan *p = r->replan;
    dt_plan_set *set = NULL;
    bool any = false;
    DT_CHECK(dti_density_count_keep(&p->count, margin, false, &r->s->densities, err));
    dt_status st = plan(r, &set, err);
    const dt_plan_set *before = p->set != NULL ? p->set : r->s->plans;
    for (size_t i = 0; st == DT_OK && i < set->n; i++)
        any = any || is_new(before, set->planned[i]);
    if (st == DT_OK && any && dti_plan_set_check_updates(set, NULL) != DT_OK) {
        dti_run_tell(r, "planned",
            "as before after step %" PRId64 ": a step whose packed values do not fit is run again, "
            "which early updates cannot be",
            r->point.step);
    } else if (st == DT_OK && any && fits(r, set)) {
        st = take(r, set, err);
        r->point.packing = (dt_packing){0}; /* of the plans before */
        if (st == DT_OK)
            tell(r, set);
        else
            end_all_timing(r);
        dt_plan_set_destroy(p->set);
        p->set = set;
        return st;
    }
    dt_plan_set_destroy(set);
    return st;
}

static dt_status replan(dt_run *r, dt_err *err)
{
    DT_CHECK(end_timing(r, err));
    DT_CHECK(plan_and_take(r, err));
    return begin_timing(r, err);
}

/* ---- the course ---- */

int64_t dti_run_replan_until(dt_run *r, int64_t until)
{
    dti_replan *p = r->replan;
    if (p == NULL)
        return until;
    const int64_t left = p->steps - r->point.step % p->steps; /* steps to the end of the epoch */
    if (left == 1) {
        dti_density_count_begin(&p->count);
        dt_runner_set_probe(r->rig.runner, &p->count.probe);
    }
    const int64_t next = left > 1 ? left - 1 : 1;
    return until - r->point.step > next ? r->point.step + next : until;
}

void dti_run_replan_seen(dt_run *r)
{
    if (r->replan != NULL)
        dt_runner_set_probe(r->rig.runner, NULL);
}

dt_status dti_run_replan(dt_run *r, dt_err *err)
{
    const dti_replan *p = r->replan;
    if (p == NULL || r->point.step % p->steps != 0 || r->point.step >= r->feeds.steps ||
        r->point.step == 0)
        return DT_OK;
    return replan(r, err);
}
