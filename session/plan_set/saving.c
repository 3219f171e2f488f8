/* What the policies of a set save, and what that costs. */
#include "session/plan_set/plan_set_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "session/human.h"

/* "; it moves 1.10 GiB out, runs 12 ops again" */
static void tell_price(const dt_plan_set *p, dt_saving *to)
{
    const dt_score s = dt_plan_set_score(p);
    char size[DT_HUMAN_BYTES];
    size_t n = strlen(to->text);
    if (s.out > 0)
        n += (size_t)snprintf(to->text + n, sizeof to->text - n, "; it moves %s out a step",
            dt_human_bytes(size, s.out));
    if (s.recomputes > 0 && n < sizeof to->text)
        n += (size_t)snprintf(to->text + n, sizeof to->text - n, "; it runs %" PRId64 " op%s again",
            s.recomputes, s.recomputes == 1 ? "" : "s");
    if (s.packed > 0 && n < sizeof to->text)
        snprintf(
            to->text + n, sizeof to->text - n, "; it packs %s", dt_human_bytes(size, s.packed));
}

const char *dti_plan_set_too_small(char to[DT_TOO_SMALL_TEXT], const dt_plan_set *p)
{
    char least[DT_HUMAN_BYTES], most[DT_HUMAN_BYTES];
    uint64_t largest = 0;
    for (size_t i = 0; i < p->n; i++)
        for (size_t t = 0; t < p->planned[i]->plan->n_tensor; t++) {
            const dt_plan_tensor *of = &p->planned[i]->plan->tensor[t];
            if (of->role == DT_ROLE_ACTIVATIONS && !of->persistent && of->bytes > largest)
                largest = of->bytes;
        }
    const uint64_t own = p->policies->n == 1 ? dt_policies_least(p->policies, 0) : 0;
    to[0] = '\0';
    if (own > largest)
        snprintf(to, DT_TOO_SMALL_TEXT,
            "it leaves values below %s alone, policy.%.40s.least, and the largest takes %s",
            dt_human_bytes(least, own), p->policies->pass[0].policy->name,
            dt_human_bytes(most, largest));
    return to;
}

static void tell_least(const dt_plan_set *p, dt_saving *to)
{
    char why[DT_TOO_SMALL_TEXT];
    const size_t n = strlen(to->text);
    if (dti_plan_set_too_small(why, p)[0] != '\0' && n < sizeof to->text)
        snprintf(to->text + n, sizeof to->text - n, "; %s", why);
}

/* "; swapadvisor does nothing without memory.device_budget". False: no policy lacks one. */
static bool tell_no_budget(const dt_plan_set *p, dt_saving *to)
{
    for (size_t i = 0; i < p->policies->n && p->asked.budgets.device == 0; i++) {
        const dt_policy *of = p->policies->pass[i].policy;
        const size_t n = strlen(to->text);
        if (!of->wants_budget || dt_policies_own_budget(p->policies, i) > 0)
            continue;
        snprintf(to->text + n, sizeof to->text - n,
            "; %.40s does nothing without memory.device_budget", of->name);
        return true;
    }
    return false;
}

/* The same by other policies, made here even where the set's plans were given. */
static dt_plan_request request_alike(const dt_plan_set *p, const dt_policies *policies, bool fates)
{
    dt_plan_request r = p->asked;
    r.policies = policies;
    r.fates = fates ? r.fates : NULL;
    r.algorithms = p->algorithms;
    r.given = NULL;
    r.kept = false;
    return r;
}

/* The same programs and samples. */
static dt_status plan_alike(
    const dt_plan_set *p, const dt_policies *policies, bool late, dt_plan_set **out, dt_err *err)
{
    dt_plan_request r = request_alike(p, policies, true);
    r.late = late;
    dt_status st = dt_plan_set_create(out, p->session, &r, err);
    for (size_t i = 0; i < p->n && st == DT_OK; i++) {
        const dt_planned *one;
        st = dt_plan_set_add(*out, p->planned[i]->kind, p->planned[i]->n, &one, err);
    }
    return st;
}

/* Whether a policy takes the batch in parts, which keep_all would not. */
static bool in_parts(const dt_plan_set *p)
{
    return p->session->parts_by != NULL && p->asked.micro_batch < p->asked.batch;
}

/* The program that keep_all would have in the place of one; false: it would have none. */
static bool kept_instead(const dt_plan_set *p, const dt_planned *x, dt_planned *to)
{
    *to = (dt_planned){.kind = x->kind, .n = x->n, .kept = x->kept};
    if (x->dense || !in_parts(p))
        return !x->dense;
    to->kept = 0;
    to->n = x->n == p->asked.micro_batch ? p->asked.batch : x->n;
    return x->kind != DT_PROGRAM_AGAIN;
}

static dt_status keep_all_peak(
    const dt_plan_set *p, const dt_policies *keep_all, uint64_t *peak, dt_err *err)
{
    dt_plan_request r = request_alike(p, keep_all, false);
    r.quick = true; /* as fit raises no peak */
    dt_plan_set *all = NULL;
    dt_status st = DT_OK;
    *peak = 0;
    if (in_parts(p))
        r.micro_batch = r.batch;
    for (size_t i = 0; i < p->n && st == DT_OK; i++) {
        dt_planned x;
        if (!kept_instead(p, p->planned[i], &x))
            continue;
        *peak = x.kept > *peak ? x.kept : *peak;
        if (x.kept > 0)
            continue;
        if (all == NULL)
            st = dt_plan_set_create(&all, p->session, &r, err);
        if (st == DT_OK)
            st = dti_plan_set_peak_with(all, &x, peak, err);
    }
    dt_plan_set_destroy(all);
    return st;
}

/* What a set costs a step: seconds as predicted where costs are known, else by the counts alone. */
static dt_status cost_of(const dt_plan_set *p, bool *known, double *cost, dt_err *err)
{
    const dt_score s = dt_plan_set_score(p);
    dt_prediction time;
    DT_CHECK(dt_plan_set_predict(p, &time, err));
    *known = time.known;
    *cost = time.known ? time.seconds : dt_score_seconds(&s, p->asked.costs);
    return DT_OK;
}

typedef enum standing { BEHIND, ALIKE, AHEAD } standing;

/* How one of the list's policies alone stands to the list. Of less memory it is ahead, where costs
 * are known only if its step is no longer. */
static dt_status stand(const dt_plan_set *part, const dt_plan_set *all, standing *out, dt_err *err)
{
    const uint64_t less = dt_plan_set_peak(part), more = dt_plan_set_peak(all);
    bool known;
    double cost, other;
    DT_CHECK(cost_of(part, &known, &cost, err));
    DT_CHECK(cost_of(all, &known, &other, err));
    *out = BEHIND;
    if (less < more)
        *out = !known || cost <= other ? AHEAD : BEHIND;
    else if (less == more)
        *out = cost < other ? AHEAD : cost > other ? BEHIND : ALIKE;
    return DT_OK;
}

static void tell_alone(
    const dt_plan_set *p, const char *name, standing at, uint64_t peak, dt_saving *out)
{
    char size[DT_HUMAN_BYTES];
    dt_human_bytes(size, peak);
    if (at == ALIKE)
        snprintf(out->text, sizeof out->text,
            "%.200s is no better here than %.40s alone, which takes %s at the same cost", p->list,
            name, size);
    else
        snprintf(out->text, sizeof out->text,
            "%.200s is worse here than %.40s alone, which takes %s%s", p->list, name, size,
            peak == dt_plan_set_peak(p) ? " as well, and costs less" : "");
}

/* "vdnn_all saves nothing here: keep_all takes 1.53 GiB as well"; where the policies keep all,
 * fates do not. */
static void tell_none(const dt_plan_set *p, dt_saving *out)
{
    static const char fates[] = "[" DT_LAYER_FATES "]";
    const bool kept = dti_policies_keep_all(p);
    char size[DT_HUMAN_BYTES];
    snprintf(out->text, sizeof out->text, "%.200s%s%s saves nothing here: keep_all%s takes %s%s",
        kept ? "" : p->list, !kept && dti_has_fates(p) ? " with " : "",
        dti_has_fates(p) ? fates : "", dti_has_fates(p) ? " without it" : "",
        dt_human_bytes(size, out->kept),
        dt_plan_set_peak(p) > out->kept ? ", which is less" : " as well");
    tell_price(p, out);
    if (!tell_no_budget(p, out))
        tell_least(p, out);
}

/* The best of those alone: one that is ahead before one that is alike. */
typedef struct best_alone {
    standing at;
    uint64_t peak;
    dt_plan_set *late; /* the list with nothing ahead, once it is asked for */
} best_alone;

/* Whether the run's other options allow a part's plans as well. */
static bool can_be_run(const dt_plan_set *part)
{
    return dti_plan_set_check_statistics(part, NULL) == DT_OK &&
           dti_plan_set_check_updates(part, NULL) == DT_OK;
}

static bool comes_ahead(const dt_plan_set *p)
{
    bool any = false;
    for (int tier = 0; tier < DT_TIERS; tier++)
        any = any || p->map->tier_bytes[tier] > 0;
    return any && p->session->opts.memory.ahead > 0;
}

/* A list whose parameters come ahead takes more for it, which a part may have nothing of and which
 * memory.ahead = 0 ends. */
static dt_status stand_fairly(
    const dt_plan_set *part, const dt_plan_set *all, dt_plan_set **late, standing *out, dt_err *err)
{
    DT_CHECK(stand(part, all, out, err));
    if (*out == BEHIND || !comes_ahead(all))
        return DT_OK;
    if (*late == NULL)
        DT_CHECK(plan_alike(all, all->policies, true, late, err));
    return stand(part, *late, out, err);
}

static dt_status compare_part(
    const dt_plan_set *p, size_t i, best_alone *best, dt_saving *out, dt_err *err)
{
    const dt_policies part = {.n = 1, .pass = {p->policies->pass[i]}};
    dt_plan_set *alone = NULL;
    standing at = BEHIND;
    dt_status st = plan_alike(p, &part, false, &alone, err);
    if (st == DT_OK && can_be_run(alone))
        st = stand_fairly(alone, p, &best->late, &at, err);
    const uint64_t peak = st == DT_OK ? dt_plan_set_peak(alone) : 0;
    if (st == DT_OK && (at > best->at || (at == best->at && at == AHEAD && peak < best->peak))) {
        *best = (best_alone){at, peak, best->late};
        tell_alone(p, part.pass[0].policy->name, at, peak, out);
    }
    dt_plan_set_destroy(alone);
    return st;
}

/* A list is planned policy by policy, and none of them knows what comes behind it. */
static dt_status compare_parts(const dt_plan_set *p, dt_saving *out, dt_err *err)
{
    best_alone best = {.at = BEHIND};
    if (p->asked.given != NULL || p->policies->n < 2)
        return DT_OK;
    dt_status st = DT_OK;
    for (size_t i = 0; i < p->policies->n && st == DT_OK; i++)
        if (!p->policies->pass[i].policy->searches)
            st = compare_part(p, i, &best, out, err);
    dt_plan_set_destroy(best.late);
    return st;
}

dt_status dt_plan_set_saving(const dt_plan_set *p, dt_saving *out, dt_err *err)
{
    const uint64_t peak = dt_plan_set_peak(p);
    *out = (dt_saving){.kept = peak};
    if (dti_keeps_all(p))
        return DT_OK;
    dt_policies keep_all = {0};
    dt_status st = dt_policies_open(&keep_all, "keep_all", NULL, err);
    if (st == DT_OK)
        st = keep_all_peak(p, &keep_all, &out->kept, err);
    dt_policies_close(&keep_all);
    out->none = st == DT_OK && peak >= out->kept;
    if (st == DT_OK && !out->none)
        return compare_parts(p, out, err);
    if (st == DT_OK)
        tell_none(p, out);
    return st;
}

const char *dt_plan_set_above(char to[DT_ABOVE_TEXT], const dt_plan_set *p)
{
    char more[DT_HUMAN_EXACT];
    uint64_t peak = 0;
    to[0] = '\0';
    for (size_t i = 0; i < p->n; i++)
        if (!p->planned[i]->dense && p->planned[i]->plan->peak > peak)
            peak = p->planned[i]->plan->peak;
    for (size_t i = 0; i < p->policies->n && to[0] == '\0'; i++) {
        const uint64_t own = dt_policies_own_budget(p->policies, i);
        if (own > 0 && peak > own && p->asked.given == NULL)
            snprintf(to, DT_ABOVE_TEXT, "takes %s more than policy.%.40s.budget",
                dt_human_exact(more, peak - own), p->policies->pass[i].policy->name);
    }
    return to;
}
