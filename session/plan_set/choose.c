/* The rung of a ladder that fits, and homes where nothing fits without them. */
#include "session/plan_set/plan_set_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "session/human.h"

/* ---- the rung of a ladder ---- */

/* "the host needs 1.21 GiB, 1.00 GiB are allowed" */
static void tell_why(dt_refused_rung *to, const dt_need *n, const dt_available *a)
{
    char needs[DT_HUMAN_BYTES], most[DT_HUMAN_BYTES];
    size_t at = 0;
    for (int place = DT_AT_DEVICE; place < DT_TIERS; place++) {
        const uint64_t need = place == DT_AT_DEVICE ? n->device : n->tier[place];
        const uint64_t has = place == DT_AT_DEVICE ? a->device : a->tier[place];
        if (need > has && at < sizeof to->why)
            at += (size_t)snprintf(to->why + at, sizeof to->why - at,
                "%sthe %s needs %s, %s are allowed", at > 0 ? "; " : "", dt_place_name(place),
                dt_human_bytes(needs, need), dt_human_bytes(most, has));
    }
}

static dt_status open_rung(dt_plan_set **out, const dt_session *s, const dt_plan_request *r,
    const dt_rung *rung, bool quick, dt_err *err)
{
    dt_plan_set *p = *out = dt_alloc(1, sizeof *p);
    if (p == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for plans");
    *p = (dt_plan_set){.session = s, .asked = *r, .algorithms = rung->algorithms};
    p->policies = &p->rung;
    p->asked.quick = quick;
    p->asked.kept = r->kept && !quick; /* what is tried may not be taken */
    DT_CHECK(dt_policies_take(&p->rung, r->policies, rung, s->config, err));
    return dti_plan_set_open(p, err);
}

/* The plans of a run by a rung. Fit takes no more than small does where small fits, so small is
 * what is tried of it. */
static dt_status try_rung(dt_plan_set **out, const dt_session *s, const dt_plan_request *r,
    const dt_rung *rung, dt_err *err)
{
    DT_CHECK(open_rung(out, s, r, rung, true, err));
    return dti_plan_set_run(*out, true, 0, 0, err);
}

/* A search for the first rung that fits.
 * @set: of the rung tried last */
typedef struct search {
    const dt_session *session;
    const dt_plan_request *r;
    dt_plan_set *set;
    dt_refused_rung *refused;
    size_t n_refused, made;
} search;

static dt_status find_rung(search *x, const dt_policy *ladder, const dt_rung **taken, dt_err *err)
{
    for (size_t i = 0; i < ladder->n_rung; i++) {
        *taken = &ladder->rung[i];
        dt_plan_set_destroy(x->set);
        DT_TRY(err, try_rung(&x->set, x->session, x->r, *taken, err), "policy '%s' as %s",
            ladder->name, (*taken)->policy);
        const dt_need need = dt_plan_set_need(x->set);
        const dt_available all = dt_plan_set_available(x->set);
        x->made += x->set->made;
        if (dt_need_fits(&need, &all))
            return DT_OK;
        dt_refused_rung *no = &x->refused[x->n_refused++];
        memcpy(no->policy, x->set->list, sizeof no->policy);
        no->algorithms = (*taken)->algorithms;
        tell_why(no, &need, &all);
    }
    return DT_OK;
}

/* Plans that were made to choose wait until they are asked for. */
static void set_aside(search *x)
{
    dt_plan_set *p = x->set;
    p->made = x->made;
    p->spare = p->planned;
    p->n_spare = p->n;
    p->planned = NULL;
    p->n = p->cap = 0;
}

/* What was tried of the rung is what is taken, but for algorithms that are still to be fitted. */
static dt_status take_rung(search *x, const dt_rung *rung, dt_err *err)
{
    dt_plan_set *p = x->set;
    if (rung->algorithms == DT_ALGORITHMS_FIT && !x->r->quick) {
        dt_plan_set_destroy(p);
        DT_CHECK(open_rung(&x->set, x->session, x->r, rung, false, err));
        x->set->made += x->made;
        return DT_OK;
    }
    p->asked.quick = x->r->quick;
    set_aside(x);
    return DT_OK;
}

static dt_status climb(search *x, const dt_policy *ladder, dt_err *err)
{
    const dt_rung *rung = NULL;
    char asked[DT_ASKED];
    if (x->r->budgets.device == 0)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s takes the first of several plans that fits a budget: set one, as in "
            "memory.device_budget = 2GiB%s",
            dt_session_asked(asked, x->session, "memory", "policy"),
            dt_device_built(DT_CUDA) ? ", or for plans alone device.card = rtx3090" : "");
    x->refused = dt_alloc(ladder->n_rung, sizeof *x->refused);
    if (x->refused == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for plans");
    DT_CHECK(find_rung(x, ladder, &rung, err));
    return take_rung(x, rung, err);
}

dt_status dti_plan_set_by_ladder(
    dt_plan_set **out, const dt_session *s, const dt_plan_request *r, dt_err *err)
{
    search x = {.session = s, .r = r};
    const dt_status st = climb(&x, dt_policies_ladder(r->policies), err);
    if (st != DT_OK) {
        dt_plan_set_destroy(x.set);
        dt_free(x.refused);
        return st;
    }
    x.set->refused = x.refused;
    x.set->n_refused = x.n_refused;
    *out = x.set;
    return DT_OK;
}

/* ---- homes, for a policy that takes them where nothing else fits ---- */

/* On the disk only where something was said of it, as it is nobody's memory; and on the host not
 * where that would make no process smaller, which is what the disk was named for. */
static bool may_use(const dt_plan_set *p, dt_tier tier)
{
    const dt_memory_opts *m = &p->session->opts.memory;
    const bool disk = m->disk_path != NULL || m->disk_budget > 0 || p->asked.tier == DT_TO_DISK;
    const bool may = tier == DT_TIER_HOST ? !dti_session_spares_host(p->session) : disk;
    return p->map->tier_bytes[tier] == 0 || may;
}

/* Whether the plans are within what the search is for: all budgets, and with a choice of homes that
 * of the policy which has it. */
static bool is_within(const search *x, const dt_plan_set *p, bool choice)
{
    const dt_need need = dt_plan_set_need(p);
    dt_available all = dt_plan_set_available(p);
    if (choice)
        all.device = dt_policies_home_budget(x->r->policies, all.device);
    return dt_need_fits(&need, &all);
}

/* With the homes of one more policy (NULL: none), and by one of the choices that a policy has of
 * them, of which those before came to @worth. Nothing is planned yet. @may: so it may be taken.
 * @quick: as a search for what fits plans. */
static dt_status open_homes(search *x, const char *more, const double *worth, size_t choice,
    bool quick, bool *may, dt_err *err)
{
    const dt_session *s = x->session;
    dt_plan_set *p = x->set = dt_alloc(1, sizeof *p);
    *may = false;
    if (p == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for plans");
    *p = (dt_plan_set){.session = s, .asked = *x->r, .algorithms = x->r->algorithms};
    p->policies = &p->rung;
    p->asked.quick = x->r->quick || quick;
    p->asked.kept = x->r->kept && !p->asked.quick;
    DT_CHECK(dt_policies_with(&p->rung, x->r->policies, more, s->config, err));
    dt_policies_choose_home(&p->rung, worth, choice);
    DT_CHECK(dti_plan_set_open(p, err));
    const bool asked_for = more == NULL && worth == NULL; /* by the user */
    *may = asked_for || (may_use(p, DT_TIER_HOST) && may_use(p, DT_TIER_DISK));
    return DT_OK;
}

static dt_status plan_homes(search *x, bool choice, bool *fits, dt_err *err)
{
    DT_CHECK(dti_plan_set_run(x->set, true, 0, 0, err));
    x->made += x->set->made;
    *fits = is_within(x, x->set, choice);
    return DT_OK;
}

/* The same, planned. @fits: so it may be taken, and is within the budgets. */
static dt_status try_homes(
    search *x, const char *more, const double *worth, size_t choice, bool *fits, dt_err *err)
{
    bool may = false;
    *fits = false;
    DT_CHECK(open_homes(x, more, worth, choice, false, &may, err));
    return may ? plan_homes(x, worth != NULL, fits, err) : DT_OK;
}

static void drop(search *x)
{
    dt_plan_set_destroy(x->set);
    x->set = NULL;
}

/* Whether a step by that policy's homes may take less: no plan with them is below the bound, which
 * is asked of one policy alone, as in a list others may pack values by options of their own; and a
 * quick plan, by which no policy alone is left out, is faster. */
static dt_status is_promising(search *x, const char *more, double seconds, bool *yes, dt_err *err)
{
    bool may = false;
    double least = 0;
    dt_prediction of = {0};
    *yes = false;
    DT_CHECK(open_homes(x, more, NULL, 0, true, &may, err));
    if (may && x->r->policies->n == 1)
        DT_CHECK(dt_plan_set_bound(x->set, x->r->budgets.device, &least, err));
    if (may && least < seconds)
        DT_CHECK(plan_homes(x, false, yes, err));
    if (*yes)
        DT_CHECK(dt_plan_set_predict(x->set, &of, err));
    *yes = *yes && of.seconds < seconds;
    return DT_OK;
}

/* What fits so far, and its seconds where costs are known. */
typedef struct fitting {
    dt_plan_set *set;
    dt_prediction of;
} fitting;

/* x->set, which fits, where it is faster than what does; the first where no costs are known. */
static dt_status take_faster(search *x, fitting *best, dt_err *err)
{
    dt_prediction of = {0};
    DT_CHECK(dt_plan_set_predict(x->set, &of, err));
    if (best->set != NULL && !(of.seconds < best->of.seconds))
        return DT_OK;
    dt_plan_set_destroy(best->set);
    *best = (fitting){x->set, of};
    x->set = NULL;
    return DT_OK;
}

/* Homes by one more policy: where nothing fits yet, or within a budget the step may take less. */
static dt_status look_at_homes(search *x, const char *more, fitting *best, dt_err *err)
{
    bool fits = false, yes = best->set == NULL;
    if (!yes && best->of.known && x->r->budgets.device > 0) {
        DT_CHECK(is_promising(x, more, best->of.seconds, &yes, err));
        drop(x);
    }
    if (!yes)
        return DT_OK;
    DT_CHECK(try_homes(x, more, NULL, 0, &fits, err));
    return fits ? take_faster(x, best, err) : DT_OK;
}

/* The fastest that fits: without homes, or by one of the registry's; where costs are not known the
 * first; where none fits, that without. */
static dt_status find_homes(search *x, const char *const *more, size_t n, dt_err *err)
{
    fitting best = {0};
    dt_plan_set *without = NULL;
    dt_status st = DT_OK;
    for (size_t i = 0; i < n && st == DT_OK; i++) {
        st = look_at_homes(x, more[i], &best, err);
        if (st == DT_OK && i == 0) {
            without = x->set; /* NULL where it fits */
            x->set = NULL;
        } else if (st == DT_OK) {
            drop(x);
        }
    }
    if (st != DT_OK) {
        dt_plan_set_destroy(best.set);
        dt_plan_set_destroy(without);
        return st;
    }
    x->set = best.set != NULL ? best.set : without;
    if (best.set != NULL)
        dt_plan_set_destroy(without);
    return DT_OK;
}

dt_status dti_plan_set_with_homes(
    dt_plan_set **out, const dt_session *s, const dt_plan_request *r, dt_err *err)
{
    const char *more[DT_MAX_POLICIES] = {NULL};
    size_t n, n_more = 1;
    search x = {.session = s, .r = r};
    const dt_policy *const *all = dt_policy_all(&n);
    for (size_t i = 0; i < n && n_more < DT_COUNT(more); i++)
        if (all[i]->home != NULL && all[i]->exact && !all[i]->searches)
            more[n_more++] = all[i]->name;
    const dt_status st = find_homes(&x, more, n_more, err);
    if (st != DT_OK) {
        dt_plan_set_destroy(x.set);
        return st;
    }
    set_aside(&x);
    *out = x.set;
    return DT_OK;
}

/* The fastest choice that fits, the first of several; where none does, that of the fewest bytes of
 * the device. @x->set: what was tried last, or what was taken; @all: room for n. */
static dt_status find_choice(search *x, double *all, size_t n, dt_err *err)
{
    dt_plan_set *best = NULL;
    double least = 0;
    bool any = false;
    dt_status st = DT_OK;
    for (size_t k = 0; k < n && st == DT_OK; k++) {
        bool fits = false;
        dt_prediction of = {0};
        x->set = NULL;
        st = try_homes(x, NULL, all, k, &fits, err);
        if (st == DT_OK && fits)
            st = dt_plan_set_predict(x->set, &of, err);
        const double bytes = /* of one that may not be used there are no plans */
            x->set != NULL && x->set->n > 0 ? (double)dt_plan_set_need(x->set).device : HUGE_VAL;
        const double worth = fits || st != DT_OK ? of.seconds : bytes;
        const bool better = best == NULL || (fits && !any) || (fits == any && worth < least);
        all[k] = fits ? worth : HUGE_VAL;
        if (st == DT_OK && better) {
            dt_plan_set_destroy(best);
            best = x->set;
            least = worth;
            any = fits;
        } else {
            dt_plan_set_destroy(x->set);
        }
        x->set = NULL;
    }
    x->set = best;
    return st;
}

dt_status dti_plan_set_by_choice(
    dt_plan_set **out, const dt_session *s, const dt_plan_request *r, dt_err *err)
{
    search x = {.session = s, .r = r};
    const size_t n = dt_policies_home_choices(r->policies);
    double *worth = dt_alloc(n, sizeof *worth);
    const dt_status st = worth != NULL ? find_choice(&x, worth, n, err)
                                       : DT_FAIL(err, DT_E_NOMEM, "no memory for plans");
    dt_free(worth);
    if (st != DT_OK) {
        dt_plan_set_destroy(x.set);
        return st;
    }
    set_aside(&x);
    *out = x.set;
    return DT_OK;
}

/* Of plans that fit a budget without them, homes are none of auto's business. */
bool dti_takes_homes(const dt_plan_request *r)
{
    return r->budgets.device > 0 && !r->hasty && dt_policies_take_homes(r->policies) &&
           (r->fates == NULL || r->fates->homes.n == 0);
}
