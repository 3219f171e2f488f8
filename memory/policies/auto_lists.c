/* What auto makes of other policies: each by itself, two after one another, and, at a budget, those
 * that go by one and what becomes of plans above it when such a policy goes on. One that recomputes
 * for a higher budget leaves less to be moved than one for this budget would have to repeat, so
 * plans for higher budgets are gone on from, too. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers.h"
#include "memory/policies/auto_search.h"
#include "memory/remat/remat.h"
#include "memory/step_bound.h"

/* IN_VAIN: two of each policy that goes by a budget and recomputes. HASTY: all in all. */
enum { IN_VAIN = 4, HASTY = 6 };

static bool may_stand(const dti_auto *s, const dt_policy *p)
{
    return dti_auto_may_take(p) && !dti_policy_has_homes(p) && (p->exact || s->lossy) &&
           !(p->fp32 && s->p->graph->dtype != DT_F32);
}

static bool wanted(const dti_auto *s, const dt_policy *p)
{
    return may_stand(s, p) && !p->searches;
}

/* One that searches. Nobody writes to a disk unasked. */
static bool may_search(const dti_auto *s, const dt_policy *p)
{
    const bool to_disk = s->env->lower != NULL && s->env->lower->tier == DT_TIER_DISK;
    return may_stand(s, p) && p->searches && (to_disk || !p->to_disk) &&
           (!p->solver || dt_solver_name() != NULL);
}

static bool is_light(const dti_auto *s, const char *policy)
{
    for (size_t i = 0; i < s->n_light; i++)
        if (strcmp(s->light[i]->name, policy) == 0)
            return true;
    return false;
}

/* Takes less without running anything again: what backward reads instead counts as well. */
static bool moves(const dti_auto *s, const dti_found *f)
{
    return f->offloads || f->encodes || (f->fate == NULL && is_light(s, f->list));
}

static bool same(const dti_found *a, const dti_found *b)
{
    const dti_pass_cost *x = &a->cost, *y = &b->cost;
    return strcmp(a->list, b->list) == 0 && x->device == y->device &&
           memcmp(x->tier, y->tier, sizeof x->tier) == 0 && !(x->seconds < y->seconds) &&
           !(x->seconds > y->seconds);
}

/* What a policy has done in any plan so far. */
static dti_found does(const dti_auto *s, const char *policy)
{
    dti_found all = {.budget = 0};
    snprintf(all.list, sizeof all.list, "%s", policy);
    for (size_t i = 0; i < s->n_base; i++) {
        const dti_found *f = &s->base[i].of;
        if (strcmp(f->list, policy) != 0)
            continue;
        all.offloads = all.offloads || f->offloads;
        all.encodes = all.encodes || f->encodes;
        all.recomputes = all.recomputes || f->recomputes;
    }
    return all;
}

static void note_light(dti_auto *s, const dt_policy *policy, const dti_found *f)
{
    const bool other =
        f->offloads || f->recomputes || policy->by_budget || f->cost.device >= s->most;
    if (!other && !is_light(s, policy->name) && s->n_light < DTI_AUTO_MOST_LIGHT)
        s->light[s->n_light++] = policy;
}

dt_status dti_auto_add_base(dti_auto *s, const dti_auto_base *base, dt_err *err)
{
    if (dt_grow(&s->base, &s->room_base, s->n_base, sizeof *s->base)) {
        s->base[s->n_base++] = *base;
        return DT_OK;
    }
    dt_program_destroy(base->p);
    dt_free(base->of.fate);
    return dti_pass_no_memory(err);
}

/* A policy by itself, with a budget or without; others go on from what changes the program. */
static dt_status add_one(dti_auto *s, const dt_policy *policy, uint64_t budget, dt_err *err)
{
    dti_found f = {.aim = budget, .budget = budget};
    dt_program *made = NULL;
    snprintf(f.list, sizeof f.list, "%s", policy->name);
    DT_CHECK(dti_auto_add(s, &f, &made, err));
    note_light(s, policy, &f);
    const bool takes_less = policy->by_budget && f.cost.device < s->most;
    bool known = !moves(s, &f) && !f.recomputes && !takes_less;
    for (size_t i = 0; i < s->n_base; i++)
        if (same(&s->base[i].of, &f)) {
            known = true;
            s->base[i].down_to = budget;
        }
    if (!known)
        return dti_auto_add_base(s, &(dti_auto_base){f, made, budget, 0}, err);
    dt_program_destroy(made);
    return DT_OK;
}

/* One of the two recomputes, the other offloads or encodes. */
static bool suit(const dti_auto *s, const dti_found *first, const dt_policy *then)
{
    const dti_found second = does(s, then->name);
    return strcmp(first->list, then->name) != 0 &&
           ((first->recomputes && moves(s, &second)) || (moves(s, first) && second.recomputes));
}

static dt_status go_on(
    dti_auto *s, const dti_auto_base *from, const dt_policy *then, uint64_t budget, dt_err *err)
{
    dti_found f = {.aim = from->of.aim, .budget = budget};
    f.fate = from->of.fate; /* borrowed: what is kept of it is copied */
    snprintf(f.list, sizeof f.list, "%s", from->of.list);
    snprintf(f.then, sizeof f.then, "%s", then->name);
    return dti_auto_add_from(s, from->p, &f, err);
}

static dt_status add_pairs(dti_auto *s, dt_err *err)
{
    size_t n;
    const dt_policy *const *all = dt_policy_all(&n);
    for (size_t i = 0; i < s->n_base; i++)
        for (size_t k = 0; k < n; k++)
            if (wanted(s, all[k]) && suit(s, &s->base[i].of, all[k]))
                DT_CHECK(go_on(s, &s->base[i], all[k], 0, err));
    return DT_OK;
}

dt_status dti_auto_add_policies(dti_auto *s, bool pairs, dt_err *err)
{
    size_t n;
    const dt_policy *const *all = dt_policy_all(&n);
    for (size_t i = 0; i < n; i++)
        if (wanted(s, all[i]))
            DT_CHECK(add_one(s, all[i], 0, err));
    return pairs ? add_pairs(s, err) : DT_OK;
}

/* Whether a policy made the same for a budget as for that of a base, or as without one. */
static bool made_for(const dti_auto_base *b, uint64_t budget)
{
    return b->down_to <= budget && (budget <= b->of.aim || (b->of.aim == 0 && b->down_to > 0));
}

/* Whether a base is what its policy makes for a budget. That it makes the same for a higher one
 * counts at the run's own alone: at all of the ladder it would take a sixth more time. */
static bool is_for(const dti_auto *s, const dti_auto_base *b, uint64_t budget)
{
    const bool same = b->of.fate == NULL && budget == s->own && made_for(b, budget);
    return b->of.aim == budget || same;
}

/* Whether a policy is to go on from a plan to a budget: of plans for a higher one only from those
 * that recompute, by one that chooses between moving and recomputing. */
static bool leads_on(
    const dti_auto *s, const dti_auto_base *base, const dt_policy *then, uint64_t budget)
{
    const dti_found *from = &base->of;
    const dti_found second = does(s, then->name);
    if (!wanted(s, then) || !suit(s, from, then))
        return false;
    if (from->aim == 0 || is_for(s, base, budget))
        return then->by_budget || from->aim > 0;
    return from->aim > budget && from->recomputes && !moves(s, from) && then->by_budget &&
           second.recomputes && moves(s, &second);
}

/* Seconds of the fastest that fits so far. */
static double least_seconds(const dti_auto *s, uint64_t budget)
{
    double least = HUGE_VAL;
    for (size_t i = 0; i < s->n; i++) {
        const dti_pass_cost *c = &s->plan[i].cost;
        if (c->device <= budget && dti_pass_fits(s->env, c))
            least = fmin(least, c->seconds);
    }
    return least;
}

/* What is light may make a plan faster that fits as it is, or fit. */
static dt_status add_lightened(dti_auto *s, size_t first, uint64_t budget, dt_err *err)
{
    for (size_t i = first; i < s->n_base; i++) {
        const dti_auto_base *from = &s->base[i];
        for (size_t k = 0; k < s->n_light && made_for(from, budget); k++)
            if (strcmp(from->of.list, s->light[k]->name) != 0)
                DT_CHECK(go_on(s, from, s->light[k], budget, err));
    }
    return DT_OK;
}

/* Everything at addresses of its own: no copy waits for another's bytes. */
static dt_status place_apart(dt_interval *v, size_t n, uint64_t *peak, dt_err *err)
{
    *peak = 0;
    DT_CHECK(dti_pool_check(v, n, err));
    for (size_t i = 0; i < n; i++) {
        const uint64_t need = dti_interval_need(&v[i]);
        v[i].off = 0;
        if (need == 0)
            continue;
        if (!dt_round_up(*peak, v[i].align, &v[i].off) || v[i].off > UINT64_MAX - need)
            return DT_FAIL(err, DT_E_BUDGET, "tensors are too large to be placed");
        *peak = v[i].off + need;
    }
    return DT_OK;
}

/* Seconds of a base however it is placed: what goes on from it may place it better, and takes away
 * nothing that it does. */
static dt_status find_floor(const dti_auto *s, dti_auto_base *base, dt_err *err)
{
    static const dt_pool_desc apart = {.name = "apart", .place = place_apart};
    dt_pass_env e = *s->env;
    dt_lower_opts o = dti_pass_lower_opts(&e);
    dti_pass_cost c;
    if (base->floor > 0)
        return DT_OK;
    o.pool = &apart;
    e.lower = &o;
    DT_CHECK(dti_pass_cost_of(&e, base->p, &c, err));
    base->floor = c.seconds;
    return DT_OK;
}

/* Whether going on from a base may come to less. Of plans for higher budgets there are many, and
 * who is in haste tries few: there the seconds of the base as it is placed tell. */
static dt_status may_gain(
    const dti_auto *s, dti_auto_base *from, bool higher, double least, bool *may, dt_err *err)
{
    *may = from->of.cost.seconds < least;
    if (*may || higher || s->env->hasty || !(from->of.cost.alone < least))
        return DT_OK;
    DT_CHECK(find_floor(s, from, err));
    *may = from->floor < least;
    return DT_OK;
}

/* How many were led on, and how many of those for higher budgets in turn were of no use. */
typedef struct tries {
    int all, in_vain;
} tries;

/* What one policy makes of a base, where that may be of use. */
static dt_status lead_on(
    dti_auto *s, dti_auto_base *from, const dt_policy *then, uint64_t budget, tries *t, dt_err *err)
{
    const bool higher = from->of.aim > budget && !is_for(s, from, budget);
    const bool enough = (higher && t->in_vain == IN_VAIN) || (s->env->hasty && t->all == HASTY);
    const double least = least_seconds(s, budget);
    bool may = false;
    if (enough || !leads_on(s, from, then, budget))
        return DT_OK;
    DT_CHECK(may_gain(s, from, higher, least, &may, err));
    if (!may)
        return DT_OK;
    DT_CHECK(go_on(s, from, then, budget, err));
    t->all++;
    if (higher)
        t->in_vain = least_seconds(s, budget) < least ? 0 : t->in_vain + 1;
    return DT_OK;
}

/* What else goes on from a plan takes no less than that plan, but where it lies. Plans for higher
 * budgets come in the order of these, until several in turn are of no use. */
static dt_status add_led_on(dti_auto *s, size_t first, uint64_t budget, dt_err *err)
{
    size_t n;
    tries t = {0};
    const dt_policy *const *all = dt_policy_all(&n);
    for (size_t i = s->n_base; i-- > first;) {
        dti_auto_base *from = &s->base[i];
        if (from->of.cost.device <= budget && dti_pass_fits(s->env, &from->of.cost))
            continue;
        for (size_t k = 0; k < n; k++)
            DT_CHECK(lead_on(s, from, all[k], budget, &t, err));
    }
    return DT_OK;
}

static dt_status add_going_by(dti_auto *s, uint64_t budget, dt_err *err)
{
    size_t n;
    const dt_policy *const *all = dt_policy_all(&n);
    for (size_t i = 0; i < n; i++)
        if (wanted(s, all[i]) && all[i]->by_budget)
            DT_CHECK(add_one(s, all[i], budget, err));
    return DT_OK;
}

dt_status dti_auto_add_budgeted(dti_auto *s, uint64_t least, dt_err *err)
{
    const dti_auto_ladder down = dti_auto_ladder_of(s, least, s->env->hasty ? least : UINT64_MAX);
    for (size_t i = 0; i < down.n; i++)
        DT_CHECK(add_going_by(s, down.budget[i], err));
    return DT_OK;
}

dt_status dti_auto_go_on(dti_auto *s, size_t from, uint64_t least, uint64_t most, dt_err *err)
{
    const dti_auto_ladder down = dti_auto_ladder_of(s, least, most);
    for (size_t i = 0; i < down.n; i++)
        DT_CHECK(add_led_on(s, from, down.budget[i], err));
    return add_lightened(s, from, least, err);
}

/* ---- policies that search ---- */

/* A program as it was built, which bounds are of. */
static bool is_plain(const dt_program *p)
{
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op_kind k = p->op[p->order[i]].kind;
        if (k == DT_OP_OUT || k == DT_OP_IN || k == DT_OP_ENCODE || k == DT_OP_RECOMPUTE)
            return false;
    }
    return true;
}

static double least_of(const dt_policy *p, const dti_step_bounds *b)
{
    return p->leaves == DT_LEAVES_COPIES ? b->still : p->leaves == DT_LEAVES_RUNS ? b->once : 0;
}

dt_status dti_auto_search(dti_auto *s, uint64_t budget, dt_err *err)
{
    size_t n;
    const size_t first = s->n_base;
    const dt_policy *const *all = dt_policy_all(&n);
    dti_step_bounds b = {0};
    if (is_plain(s->p))
        DT_CHECK(dti_step_bounds_of(s->p, s->env, budget, &b, err));
    for (size_t i = 0; i < n; i++)
        if (may_search(s, all[i]) && least_of(all[i], &b) < least_seconds(s, budget))
            DT_CHECK(add_one(s, all[i], budget, err));
    return dti_auto_go_on(s, first, budget, budget, err);
}

dt_status dti_auto_lighten(dti_auto *s, const dti_found *from, dt_err *err)
{
    dti_found f;
    if (from->then[0] != '\0')
        return DT_OK;
    /* a copy, as the front moves meanwhile, and fates with it */
    dt_status st = dti_found_copy(&f, from, s->n_value, err);
    for (size_t i = 0; st == DT_OK && i < s->n_light; i++) {
        snprintf(f.then, sizeof f.then, "%s", s->light[i]->name);
        if (f.fate != NULL || strcmp(f.list, f.then) != 0)
            st = dti_auto_add(s, &f, NULL, err);
    }
    dti_found_deinit(&f);
    return st;
}

void dti_auto_drop_bases(dti_auto *s)
{
    for (size_t i = 0; i < s->n_base; i++) {
        dt_program_destroy(s->base[i].p);
        dti_found_deinit(&s->base[i].of);
    }
    s->n_base = 0;
}
