/* What to change so that a run fits: other configurations are planned, as little of each as their
 * peaks need, and auto and the cheapest of each kind are told, as the lines to set, with their
 * peaks and their price. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/clock.h"
#include "engine/base/numbers_text.h"
#include "session/budget.h"
#include "session/feeds.h"
#include "session/human.h"
#include "session/plan_set.h"
#include "session/suggestion.h"

enum { WANTED = 3, MOST_DIVISORS = 256, MOST_PAIRS = 8, SMALL_OPS = 400 };

/* @all: every policy by itself at the configured batch, exact ones first, then by what they cost
 * @micro @batch: the largest parts and the largest batch that fit under the run's own policy, where
 * that does not search
 * @least: what takes the least of the device, as the run's own budget plans it
 * @below: the budget is below what any plan of these samples takes
 * @most_host: what may be on the host beside the disk: more would make no process smaller
 * @said: when something was last heard of the search
 * @seconds @until: of processor time, when it ends at the latest; @stopped: it did so */
typedef struct search {
    const dt_session *s;
    const dt_available *available;
    bool eval;
    dti_alternative own;
    size_t n_tried, cap_tried, n_all;
    dti_trial *tried, *all, micro, batch, least;
    int n_told;
    bool auto_fits, typed; /* how the first suggestion is typed was said */
    dti_alternative told[WANTED];
    double said, until;
    int seconds;
    bool below, stopped;
    uint64_t most_host;
    const char *host; /* what is to be said of values that move there; NULL: nothing */
    size_t n_pair;
    char pair[MOST_PAIRS][2 * DT_NAME_BYTES]; /* twice for each that says where tensors live */
} search;

/* ---- other configurations, planned to see whether they fit ---- */

/* Whether it takes bytes of the host where these make no process smaller. */
static bool wastes_host(const search *x, const dti_trial *t)
{
    return t->v.tier == DT_TO_DISK && t->need.tier[DT_TIER_HOST] > x->most_host;
}

/* Whether what is needed beside the device is there. */
static bool fits_tiers(const search *x, const dt_need *need)
{
    dt_available tiers = *x->available;
    tiers.device = tiers.memory = UINT64_MAX;
    return dt_need_fits(need, &tiers);
}

static dt_status judge(const search *x, dti_trial *t, const dt_plan_set *plans, dt_err *err)
{
    dt_prediction step;
    DT_CHECK(dt_plan_set_predict(plans, &step, err));
    t->can = dti_plan_set_check_statistics(plans, NULL) == DT_OK &&
             dti_plan_set_check_updates(plans, NULL) == DT_OK;
    t->exact = dt_plan_set_exact(plans);
    t->need = dt_plan_set_need(plans);
    t->score = dt_plan_set_score(plans);
    t->seconds = step.known ? step.seconds : 0;
    t->fits = t->can && dt_need_fits(&t->need, x->available) && !wastes_host(x, t);
    return DT_OK;
}

/* Peaks of a run like this one but for the variant, from plans alone. */
static dt_status plan_trial(const search *x, dti_trial *t, dt_err *err)
{
    dt_plan_request r = dt_session_request(x->s);
    dt_plan_set *plans = NULL;
    dt_policies policies;
    r.policies = &policies;
    r.batch = t->v.batch;
    r.micro_batch = t->v.micro;
    r.tier = t->v.tier;
    r.algorithms = t->v.algorithms;
    r.budgets.device = t->v.budget;
    r.given = NULL;
    r.quick = true;
    r.hasty = !t->v.at_length;
    dt_err why = {0};
    dt_status st = dt_policies_open(&policies, t->v.policy, x->s->config, &why);
    if (st == DT_OK)
        st = dt_plan_set_create(&plans, x->s, &r, &why);
    if (st == DT_OK)
        st = dti_plan_set_run(plans, x->eval, 0, 0, &why);
    if (st == DT_OK)
        st = judge(x, t, plans, &why);
    dt_plan_set_destroy(plans);
    dt_policies_close(&policies);
    if (st == DT_E_CONFIG) { /* it cannot be planned, and so is no way out */
        t->need.device = UINT64_MAX;
        return DT_OK;
    }
    return st == DT_OK ? st : dt_err_append(err, st, why.text);
}

static bool same_variant(const dti_alternative *a, const dti_alternative *b)
{
    return a->batch == b->batch && a->micro == b->micro && a->tier == b->tier &&
           a->algorithms == b->algorithms && a->budget == b->budget &&
           a->at_length == b->at_length && strcmp(a->policy, b->policy) == 0;
}

/* Every five seconds, how many were tried. */
static void say_something(search *x)
{
    const double every = 5, now = dt_seconds();
    if (now - x->said < every)
        return;
    char line[96];
    snprintf(
        line, sizeof line, "it does not fit; looking for what would: %zu plans so far", x->n_tried);
    if (x->s->notice != NULL)
        x->s->notice(line);
    x->said = now;
}

/* The budget by which what comes ahead keeps to what is there, which plans do not know where that
 * is less than the budget they have; 0: no other. */
static uint64_t closer_budget(const search *x, const dt_need *n, uint64_t budget)
{
    const uint64_t room = dti_need_room(n, x->available);
    if (n->device <= room || (budget > 0 && budget <= room))
        return 0;
    return room > 0 ? room : 1;
}

/* By a closer budget, if that takes less. */
static dt_status try_closer(const search *x, dti_trial *t, dt_err *err)
{
    dti_trial within = *t;
    within.v.budget = t->can ? closer_budget(x, &t->need, t->v.budget) : 0;
    if (within.v.budget == 0)
        return DT_OK;
    DT_CHECK(plan_trial(x, &within, err));
    if (within.can && within.need.device < t->need.device)
        *t = within;
    return DT_OK;
}

static dt_status try_variant(search *x, dti_alternative v, dti_trial *out, dt_err *err)
{
    for (size_t i = 0; i < x->n_tried; i++)
        if (same_variant(&x->tried[i].asked, &v)) {
            *out = x->tried[i];
            return DT_OK;
        }
    if (!dt_grow(&x->tried, &x->cap_tried, x->n_tried, sizeof *x->tried))
        return DT_FAIL(err, DT_E_NOMEM, "no memory to look for what fits");
    if (dt_thread_seconds() >= x->until)
        return DT_E_STOPPED;
    *out = (dti_trial){.v = v, .asked = v};
    say_something(x);
    DT_CHECK(plan_trial(x, out, err));
    DT_CHECK(try_closer(x, out, err));
    x->tried[x->n_tried++] = *out;
    return DT_OK;
}

static dti_alternative by(const search *x, const char *policy)
{
    return dti_alternative_by(x->s, &x->own, policy);
}

static dt_status largest_batch(search *x, const char *policy, dti_trial *best, dt_err *err)
{
    int64_t fits = 0, fails = x->own.batch; /* one part of it may well fit, alone */
    *best = (dti_trial){0};
    if (dti_feeds_of_batches(x->s)) /* their size is the file's */
        return DT_OK;
    while (fails - fits > 1) {
        dti_trial t;
        const int64_t n = fits + (fails - fits) / 2;
        dti_alternative v = by(x, policy);
        v.batch = v.micro = n;
        DT_CHECK(try_variant(x, v, &t, err));
        if (t.fits) {
            fits = n;
            *best = t;
        } else if (t.can || n > 1) {
            fails = n;
        } else {
            break;
        }
    }
    return DT_OK;
}

/* Of the batch of @v as large parts as fit. */
static dt_status largest_micro(search *x, dti_alternative v, dti_trial *best, dt_err *err)
{
    int64_t divisor[MOST_DIVISORS];
    size_t n = 0, fits = 0;
    const int64_t whole = v.micro;
    *best = (dti_trial){0};
    for (int64_t d = 1; d < whole && n < MOST_DIVISORS; d++)
        if (x->own.batch % d == 0)
            divisor[n++] = d;
    for (size_t fails = n + 1; fails - fits > 1;) {
        dti_trial t;
        const size_t mid = fits + (fails - fits) / 2;
        v.micro = divisor[mid - 1];
        DT_CHECK(try_variant(x, v, &t, err));
        if (t.fits || !t.can) { /* too small to be trained: larger ones might be */
            fits = mid;
            *best = t.fits ? t : *best;
        } else {
            fails = mid;
        }
    }
    return DT_OK;
}

/* ---- telling ---- */

/* What @t sets that the run does not. */
static dti_change change_to(const search *x, const dti_trial *t)
{
    return dti_change_to(x->s, &x->own, &t->v);
}

/* Of the first that is suggested: those who start runs from a shell type it. */
static void tell_typed(search *x, const dti_change *c, dt_err *err)
{
    if (!x->typed && c->typed[0] != '\0')
        (void)DT_FAIL(err, DT_E_BUDGET, "  to type:%s", c->typed);
    x->typed = true;
}

static void tell(search *x, const dti_trial *t, const char *remark, dt_err *err)
{
    if (!t->fits || x->n_told == WANTED)
        return;
    for (int i = 0; i < x->n_told; i++)
        if (same_variant(&x->told[i], &t->v))
            return;
    x->told[x->n_told++] = t->v;
    if (x->host == NULL)
        x->host = dt_session_host_note(x->s, t->need.tier[DT_TIER_HOST]);
    const dti_change c = change_to(x, t);
    dti_say_fits(&c, remark, &x->own, t, err);
    tell_typed(x, &c, err);
}

/* In how many parts a batch is taken, and what that changes; "" where it is taken at once. */
static const char *parts_of(const search *x, const dti_trial *t, char to[128])
{
    to[0] = '\0';
    if (t->v.micro <= 0 || t->v.micro >= t->v.batch)
        return to;
    const int n =
        snprintf(to, 128, ", of the same batch in %" PRId64 " parts", t->v.batch / t->v.micro);
    if (dt_graph_batch_statistics(x->s->graph) && t->v.micro != x->own.micro)
        snprintf(to + n, 128 - (size_t)n,
            " (batch norm sees %" PRId64 " sample%s at a time: results change)", t->v.micro,
            t->v.micro == 1 ? "" : "s");
    return to;
}

static void tell_micro(search *x, const dti_trial *t, dt_err *err)
{
    char remark[128];
    tell(x, t, t->fits ? parts_of(x, t, remark) : "", err);
}

static void tell_batch(search *x, const dti_trial *t, dt_err *err)
{
    char remark[64];
    snprintf(remark, sizeof remark, " (%" PRId64 " does not fit)", t->v.batch + 1);
    tell(x, t, remark, err);
}

/* ---- the search ---- */

/* Only the order counts: the search knows no costs but the default ones. */
static double seconds(const dti_trial *t)
{
    return dt_score_seconds(&t->score, NULL);
}

static int cheapest_first(const void *va, const void *vb)
{
    const dti_trial *a = va, *b = vb;
    if (a->exact != b->exact)
        return a->exact ? -1 : 1;
    const double x = seconds(a), y = seconds(b);
    if (x < y || x > y)
        return x < y ? -1 : 1;
    return (a->order > b->order) - (a->order < b->order);
}

/* May stand behind one that says where tensors live: the one does what the other leaves. */
static bool stands_behind(const dti_trial *t)
{
    const dt_policy *p = dt_policy_find(t->v.policy);
    return t->exact && p != NULL && p->home == NULL && p->parts == NULL;
}

/* The i-th policy of those tried before the one that takes the least of the device for the values
 * that a step makes; NULL: it says nothing of where tensors live. */
static const char *pair_of(search *x, size_t i, const char *behind)
{
    const dt_policy *p = dt_policy_find(x->all[i].v.policy);
    if (p == NULL || p->home == NULL || !p->exact)
        return NULL;
    if (x->n_pair == MOST_PAIRS) /* as policies from outside may bring more */
        return NULL;
    char *pair = x->pair[x->n_pair++];
    snprintf(pair, sizeof *x->pair, "%s,%s", p->name, behind);
    return pair;
}

static dt_status try_pairs(search *x, dt_err *err)
{
    const dti_trial *least = NULL;
    const size_t n = x->n_all;
    for (size_t i = 0; i < n; i++)
        if (stands_behind(&x->all[i]) &&
            (least == NULL || x->all[i].need.device < least->need.device))
            least = &x->all[i];
    for (size_t i = 0; i < n && least != NULL; i++) {
        if (x->all[i].need.device == least->need.device)
            continue;
        const char *pair = pair_of(x, i, least->v.policy);
        if (pair == NULL)
            continue;
        dti_trial *t = &x->all[x->n_all];
        DT_CHECK(try_variant(x, by(x, pair), t, err));
        t->order = x->n_all;
        x->n_all += t->need.device < x->all[i].need.device; /* or the second does nothing there */
    }
    return DT_OK;
}

static dt_status try_policies(search *x, dt_err *err)
{
    size_t n;
    const dt_policy *const *all = dt_policy_all(&n);
    x->all = dt_alloc(n + MOST_PAIRS + 1, sizeof *x->all);
    if (x->all == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to look for what fits");
    for (size_t i = 0; i < n; i++) {
        if (all[i]->rung != NULL || all[i]->searches) /* rungs are tried by their own names */
            continue;
        DT_CHECK(try_variant(x, by(x, all[i]->name), &x->all[x->n_all], err));
        x->all[x->n_all].order = x->n_all;
        x->n_all++;
    }
    DT_CHECK(try_pairs(x, err));
    qsort(x->all, x->n_all, sizeof *x->all, cheapest_first);
    return DT_OK;
}

/* ---- auto ---- */

/* keep_all as the run is configured; NULL: it was not tried. */
static const dti_trial *kept_of(const search *x)
{
    for (size_t i = 0; i < x->n_all; i++)
        if (strcmp(x->all[i].v.policy, "keep_all") == 0)
            return &x->all[i];
    return NULL;
}

/* No exact policy that fits is ahead of auto, unless it says where tensors live. */
static double most_seconds(const search *x, const dti_trial *searched)
{
    double most = searched->seconds;
    for (size_t i = 0; i < x->n_all; i++) {
        const dti_trial *t = &x->all[i];
        const dt_policy *alone = dt_policy_find(t->v.policy); /* NULL: a pair */
        if (t->fits && t->exact && alone != NULL && alone->home == NULL && t->seconds < most)
            most = t->seconds;
    }
    return most;
}

/* "0.3 % less than", "as much as", "4.1 % more than", of a number beside another. */
static const char *beside(char to[32], double a, double b)
{
    const double percent = 100 * (a / b - 1);
    if (fabs(percent) < 0.05)
        snprintf(to, 32, "as much as");
    else
        dt_snprintf(to, 32, "%.1f %% %s than", fabs(percent), percent < 0 ? "less" : "more");
    return to;
}

/* What a run under auto searches at length was looked at briefly here, so what is said is what it
 * takes at the most. */
static void tell_auto(search *x, const dti_trial *t, dt_err *err)
{
    char size[DT_HUMAN_BYTES], time[128], than[32];
    const dti_change c = change_to(x, t);
    const dti_trial *all = kept_of(x);
    const double most = most_seconds(x, t), kept = all != NULL ? all->seconds : 0;
    const uint64_t bytes = t->v.budget > 0 || all == NULL ? t->v.budget : all->need.device;
    if (t->seconds > 0 && kept > 0)
        dt_snprintf(time, sizeof time, "a step takes no more than %.4g s as %s, %s with all kept",
            most, x->s->costs.simulated ? "simulated" : "predicted", beside(than, most, kept));
    else
        snprintf(time, sizeof time,
            "what a step takes is predicted with memory.profile or memory.simulate");
    (void)DT_FAIL(err, DT_E_BUDGET, "  fits if: %s, which needs no more than %s; %s", c.lines,
        dt_human_bytes(size, bytes), time);
    tell_typed(x, &c, err);
}

/* Few enough that a search at length takes seconds. */
static bool is_small(const search *x)
{
    for (size_t i = 0; i < x->s->plans->n; i++)
        if (x->s->plans->planned[i]->plan->n_op > SMALL_OPS)
            return false;
    return true;
}

/* Briefly, and at length where that is not enough and does not take long. */
static dt_status try_at_length(search *x, dti_alternative v, dti_trial *t, dt_err *err)
{
    DT_CHECK(try_variant(x, v, t, err));
    if (t->fits || !is_small(x))
        return DT_OK;
    v.at_length = true;
    return try_variant(x, v, t, err);
}

/* The fastest of what fits, where a budget says what that is: of the device, or else of where
 * values move to, and then it takes no more than keep_all. A brief look may miss it; what one at
 * length finds is kept for the run. */
static dt_status suggest_auto(search *x, dt_err *err)
{
    dti_trial t;
    dti_alternative v = by(x, "auto");
    const dt_need own = dt_plan_set_need(x->s->plans);
    const bool device = x->available->device != UINT64_MAX;
    v.budget = device ? x->available->device : 0;
    if (strcmp(x->own.policy, "auto") == 0 || x->below || (!device && fits_tiers(x, &own)))
        return DT_OK;
    DT_CHECK(try_at_length(x, v, &t, err));
    x->auto_fits = t.fits;
    if (t.fits)
        tell_auto(x, &t, err);
    return DT_OK;
}

/* What moved tensors may wait in instead. */
static dt_status suggest_tier(search *x, dt_err *err)
{
    const dt_need own = dt_plan_set_need(x->s->plans);
    dti_alternative v = x->own;
    dti_trial t;
    const uint64_t host = own.tier[DT_TIER_HOST], disk = own.tier[DT_TIER_DISK];
    if (host == 0 && disk == 0)
        return DT_OK;
    const bool full = disk > x->available->tier[DT_TIER_DISK];
    v.tier = v.tier == DT_TO_DISK || (full && host == 0) ? DT_TO_HOST : DT_TO_DISK;
    DT_CHECK(try_variant(x, v, &t, err));
    if (t.need.tier[DT_TIER_HOST] != host || t.need.tier[DT_TIER_DISK] != disk) /* homes stay */
        tell(x, &t, "", err);
    return DT_OK;
}

/* The same by the algorithms of fewest bytes; nothing that fits where they are not what would be
 * new. */
static dt_status try_small(search *x, dti_alternative v, dti_trial *t, dt_err *err)
{
    *t = (dti_trial){0};
    if (v.algorithms != DT_ALGORITHMS_FAST) /* fit needs no more than small does */
        return DT_OK;
    v.algorithms = DT_ALGORITHMS_SMALL;
    return try_variant(x, v, t, err);
}

/* The run's own policy where neither parts nor algorithms are enough. */
static dt_status suggest_small_parts(search *x, dt_err *err)
{
    dti_trial micro = {0};
    dti_alternative v = x->own;
    v.algorithms = DT_ALGORITHMS_SMALL;
    if (x->own.algorithms == DT_ALGORITHMS_FAST)
        DT_CHECK(largest_micro(x, v, &micro, err));
    tell_micro(x, &micro, err);
    if (!micro.fits)
        (void)DT_FAIL(
            err, DT_E_BUDGET, "  not even one sample fits under policy %s", x->own.policy);
    return DT_OK;
}

/* Whether a policy takes no less than keep_all does: what fits beside it fits without. */
static bool saves_nothing(const search *x, const dti_trial *t)
{
    const dti_trial *all = kept_of(x);
    return all != NULL && t != all && t->need.device >= all->need.device;
}

/* The run itself, with less ahead or whatever else its policy has for a budget. */
static dt_status suggest_budget(search *x, dti_trial *own, dt_err *err)
{
    const dt_need need = dt_plan_set_need(x->s->plans);
    *own = (dti_trial){0};
    if (closer_budget(x, &need, x->own.budget) == 0)
        return DT_OK;
    DT_CHECK(try_at_length(x, x->own, own, err));
    tell(x, own, "", err);
    return DT_OK;
}

/* One change, of each kind the best. */
static dt_status suggest_one_change(search *x, dt_err *err)
{
    size_t first = 0;
    const dti_trial *all = kept_of(x);
    dti_trial own, micro, batch, small = {0};
    DT_CHECK(suggest_budget(x, &own, err));
    while (first < x->n_all && !(x->all[first].fits && x->all[first].exact))
        first++;
    if (!own.fits)
        DT_CHECK(try_small(x, x->own, &small, err));
    if (first < x->n_all && seconds(&x->all[first]) <= seconds(&small))
        tell(x, &x->all[first], "", err);
    tell(x, &small, "", err);
    if (first < x->n_all)
        tell(x, &x->all[first], "", err);
    DT_CHECK(suggest_tier(x, err));
    DT_CHECK(largest_micro(x, x->own, &micro, err));
    tell_micro(x, &micro, err);
    DT_CHECK(largest_batch(x, x->own.policy, &batch, err));
    tell_batch(x, &batch, err);
    for (size_t i = first + 1; i < x->n_all; i++)
        if (all == NULL || !all->fits || !saves_nothing(x, &x->all[i]))
            tell(x, &x->all[i], "", err);
    for (size_t i = 0; i < first && i < x->n_all; i++) /* no exact one fits: the others */
        tell(x, &x->all[i], "", err);
    if (own.fits || micro.fits || batch.fits || small.fits)
        return DT_OK;
    return suggest_small_parts(x, err);
}

/* A policy and the algorithms of fewest bytes, where neither is enough. */
static dt_status suggest_small_policies(search *x, dt_err *err)
{
    dti_trial own, t;
    DT_CHECK(try_small(x, x->own, &own, err));
    for (size_t i = 0; i < x->n_all && x->n_told < WANTED && !own.fits; i++) {
        if (x->all[i].fits)
            continue;
        DT_CHECK(try_small(x, x->all[i].v, &t, err));
        tell(x, &t, "", err);
    }
    return DT_OK;
}

/* A policy and a smaller batch, where that is more than @micro and @batch. */
static dt_status suggest_two_changes(search *x, int64_t micro, int64_t batch, dt_err *err)
{
    for (size_t i = 0; i < x->n_all && x->n_told < WANTED; i++) {
        dti_trial t;
        if (x->all[i].fits || strcmp(x->all[i].v.policy, x->own.policy) == 0 ||
            saves_nothing(x, &x->all[i]))
            continue;
        DT_CHECK(largest_micro(x, by(x, x->all[i].v.policy), &t, err));
        if (t.fits && t.v.micro > micro)
            tell_micro(x, &t, err);
        if (t.fits)
            continue;
        DT_CHECK(largest_batch(x, x->all[i].v.policy, &t, err));
        if (t.fits && t.v.batch > batch)
            tell_batch(x, &t, err);
    }
    return DT_OK;
}

/* Of a budget that no plan of these samples keeps to. */
static void tell_bound(search *x, dt_err *err)
{
    const dt_floor floor = dti_plan_set_floor(x->s->plans);
    x->below = dt_floor_tell(&floor, x->available->device, err);
}

/* Told if no policy fits as the run is configured. */
static void tell_whole(const search *x, dt_err *err)
{
    char size[DT_HUMAN_EXACT];
    const char *how =
        x->own.algorithms == DT_ALGORITHMS_FAST ? " and by the fastest algorithms" : "";
    const dti_trial *least = NULL;
    bool any = false;
    for (size_t i = 0; i < x->n_all; i++) {
        const dti_trial *t = &x->all[i];
        any = any || t->fits;
        const bool less = least == NULL || t->need.device < least->need.device;
        if (t->can && less && fits_tiers(x, &t->need) && !wastes_host(x, t))
            least = t;
    }
    if (!any && !x->auto_fits && least == NULL)
        (void)DT_FAIL(err, DT_E_BUDGET,
            "  taken at once%s, this batch fits under no policy that was tried; each needs more "
            "than "
            "there is of the host or the disk",
            how);
    else if (!any && !x->auto_fits)
        (void)DT_FAIL(err, DT_E_BUDGET,
            "  taken at once%s, this batch fits under no policy that was tried; "
            "%s needs the least, %s",
            how, least->v.policy, dt_human_exact(size, least->need.device));
    if (!any && x->s->fates.n_line > 0)
        (void)DT_FAIL(err, DT_E_BUDGET,
            "  policies leave alone what [" DT_LAYER_FATES "] says of layers; without its lines "
            "more may fit");
}

static void lower(const search *x, dti_trial *least, const dti_trial *t)
{
    const bool less = !least->can || t->need.device < least->need.device;
    if (t->can && less && fits_tiers(x, &t->need) && !wastes_host(x, t))
        *least = *t;
}

/* Whether one of a list goes by a budget, as what comes ahead of parameters does, too. */
static bool goes_by_budget(const char *list)
{
    char name[DT_NAME_BYTES];
    for (const char *at = list; *at != '\0'; at += strcspn(at, ","), at += *at == ',') {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
        const dt_policy *p = dt_policy_find(name);
        if (p != NULL && (p->by_budget || p->home != NULL))
            return true;
    }
    return false;
}

/* Such a list takes the least under the least: a byte, whatever was asked for. */
static uint64_t least_budget(const search *x, const char *policy)
{
    return x->own.budget > 0 && goes_by_budget(policy) ? 1 : x->own.budget;
}

/* The least that a policy takes: of the smallest parts that can be trained, and of the whole where
 * that was planned for any budget. */
static dt_status least_of(search *x, const char *policy, dti_trial *least, dt_err *err)
{
    dti_alternative v = by(x, policy);
    const int64_t whole = v.micro;
    *least = (dti_trial){0};
    v.budget = least_budget(x, policy);
    for (v.micro = 1; v.micro <= 2 && v.micro < whole && !least->can; v.micro++)
        if (v.batch % v.micro == 0)
            DT_CHECK(try_variant(x, v, least, err));
    v.micro = whole;
    if (least->can && v.budget != x->own.budget)
        return DT_OK;
    dti_trial t;
    DT_CHECK(try_variant(x, v, &t, err));
    lower(x, least, &t);
    return DT_OK;
}

/* The same by the algorithms of fewest bytes as well. */
static dt_status lower_by(
    search *x, const char *policy, dti_trial *least, dti_trial *behind, dt_err *err)
{
    dti_trial t, small;
    DT_CHECK(least_of(x, policy, &t, err));
    if (!t.can)
        return DT_OK;
    if (stands_behind(&t))
        lower(x, behind, &t);
    lower(x, least, &t);
    DT_CHECK(try_small(x, t.v, &small, err));
    lower(x, least, &small);
    return DT_OK;
}

/* As a run is planned in what was found. */
static dt_status settle(const search *x, dti_trial *least, dt_err *err)
{
    if (least->v.budget == x->own.budget)
        return DT_OK;
    if (x->own.budget == 0) { /* what is there may have room for some that comes ahead */
        least->v.budget = 1;
        DT_CHECK(plan_trial(x, least, err));
    }
    least->v.budget = least->need.device;
    DT_CHECK(plan_trial(x, least, err));
    if (x->own.budget > 0) /* which the user sets as before, or to what it needs */
        least->v.budget = x->own.budget;
    return DT_OK;
}

/* The least of the device that any policy needs for this batch, whatever was asked for but of where
 * values move to: each by itself, and those that say where tensors live before the one that takes
 * the least. */
static dt_status tell_least(search *x, dt_err *err)
{
    char size[DT_HUMAN_EXACT], parts[128];
    dti_trial least = {0}, behind = {0};
    const size_t n = x->n_all;
    tell_whole(x, err);
    if (dt_plan_set_need(x->s->plans).device <= x->available->device &&
        x->available->memory == UINT64_MAX) /* it is not the device that lacks */
        return DT_OK;
    for (size_t i = 0; i < n; i++)
        if (dt_policy_find(x->all[i].v.policy) != NULL) /* no pair */
            DT_CHECK(lower_by(x, x->all[i].v.policy, &least, &behind, err));
    for (size_t i = 0; i < n && behind.can; i++) {
        const char *pair = pair_of(x, i, behind.v.policy);
        if (pair != NULL)
            DT_CHECK(lower_by(x, pair, &least, &behind, err));
    }
    if (!least.can)
        return DT_OK;
    DT_CHECK(settle(x, &least, err));
    const dti_change c = change_to(x, &least);
    (void)DT_FAIL(err, DT_E_BUDGET, "  the least found for this batch is %s%s%s%s",
        dt_human_exact(size, least.need.device), c.lines[0] != '\0' ? ": " : "", c.lines,
        parts_of(x, &least, parts));
    return try_variant(x, least.v, &x->least, err);
}

/* Planned before what takes long, so that it is told whenever the search ends. */
static dt_status try_smaller(search *x, dt_err *err)
{
    const dt_policies *own = x->s->plans->policies;
    for (size_t i = 0; i < own->n; i++)
        if (own->pass[i].policy->searches)
            return DT_OK;
    DT_CHECK(largest_micro(x, x->own, &x->micro, err));
    return largest_batch(x, x->own.policy, &x->batch, err);
}

static dt_status search_all(search *x, dt_err *err)
{
    tell_bound(x, err);
    DT_CHECK(try_policies(x, err));
    DT_CHECK(try_smaller(x, err));
    DT_CHECK(suggest_auto(x, err));
    DT_CHECK(tell_least(x, err));
    DT_CHECK(suggest_one_change(x, err));
    DT_CHECK(suggest_small_policies(x, err));
    if (x->n_told < WANTED) { /* first those that make the parts larger than one change does */
        dti_trial micro, batch;
        DT_CHECK(largest_micro(x, x->own, &micro, err));
        DT_CHECK(largest_batch(x, x->own.policy, &batch, err));
        DT_CHECK(suggest_two_changes(x, micro.v.micro, batch.v.batch, err));
        DT_CHECK(suggest_two_changes(x, 0, 0, err));
    }
    if (x->n_told == 0 && !x->auto_fits)
        tell_micro(x, &x->least, err);
    return DT_OK;
}

/* The cheapest of what was planned before the search ended. */
static void tell_found(search *x, dt_err *err)
{
    (void)DT_FAIL(err, DT_E_BUDGET,
        "  the search for what fits ended after %d seconds of processor time; more may fit",
        x->seconds);
    qsort(x->all, x->n_all, sizeof *x->all, cheapest_first);
    for (size_t i = 0; i < x->n_all; i++)
        tell(x, &x->all[i], "", err);
    tell_micro(x, &x->micro, err);
    tell_batch(x, &x->batch, err);
    if (x->n_told == 0 && !x->auto_fits)
        tell_micro(x, &x->least, err);
}

static void tell_end(const search *x, const dt_plan *p, dt_err *err)
{
    char size[DT_HUMAN_EXACT];
    const bool many = p->persistent > p->peak / 10; /* of those that live there */
    if (x->host != NULL)
        (void)DT_FAIL(err, DT_E_BUDGET, "  %s", x->host);
    if (x->stopped)
        return;
    if (x->n_told == 0 && !x->auto_fits && many)
        (void)DT_FAIL(err, DT_E_BUDGET,
            "  nothing was found that fits; parameters with gradients and optimizer state take %s",
            dt_human_exact(size, p->persistent));
    else if (x->n_told == 0 && !x->auto_fits)
        (void)DT_FAIL(err, DT_E_BUDGET, "  nothing was found that fits");
    else if (x->n_told < WANTED)
        (void)DT_FAIL(err, DT_E_BUDGET, "  no more than %d such configuration%s found",
            x->n_told + x->auto_fits, x->n_told + x->auto_fits > 1 ? "s were" : " was");
}

static bool evaluates(const dt_plan_set *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->planned[i]->kind == DT_PROGRAM_EVAL)
            return true;
    return false;
}

dt_status dti_suggest(const dt_session *s, const dt_available *a, int seconds, dt_err *err)
{
    const dt_plan_request *asked = &s->plans->asked;
    search x = {.s = s,
        .available = a,
        .eval = evaluates(s->plans),
        .said = dt_seconds(),
        .seconds = seconds,
        .until = dt_thread_seconds() + seconds,
        .most_host =
            dti_session_spares_host(s) ? dt_plan_set_need(s->plans).tier[DT_TIER_HOST] : UINT64_MAX,
        .own = {asked->batch, asked->micro_batch, s->opts.memory.policy, asked->tier,
            asked->algorithms, asked->budgets.device}};
    dt_status st = search_all(&x, err);
    x.stopped = st == DT_E_STOPPED;
    if (x.stopped) {
        tell_found(&x, err);
        st = DT_OK;
    }
    if (st == DT_OK)
        tell_end(&x, dti_plan_set_largest(s->plans), err);
    dt_free(x.tried);
    dt_free(x.all);
    return st;
}
