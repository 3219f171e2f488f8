/* All policies at once. A front of plans is made for the program: each exact policy by itself, each
 * two of which one recomputes and the other offloads, encodes or has less to be read, and, at
 * a ladder of budgets evenly from the least peak to keep_all's and at the run's own, those that go
 * by a budget (auto_lists.c) and what a search makes of the values by itself (auto_fates.c); all
 * placed by the run's pool and timed by the simulator. At the run's own budget policies that search
 * are tried as well, unless a bound tells that they are in vain. A run takes the fastest that fits.
 * So no such policy or pair is ahead of it; and of the ladder's budgets a lower one never gives a
 * higher peak nor a shorter step, but by what those that search find. With searches = front they
 * search at all of the ladder's budgets, and a run takes what is found there and nothing else: then
 * it holds of any two budgets.
 *
 * Where no plan fits, or a quick plan with homes elsewhere is faster, a run tries the same with the
 * homes of each policy that has some, those on the host first (session/plan_set/choose.c).
 *
 * The search counts moves, never seconds: the same program and costs give the same plan. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/context.h"
#include "memory/codec.h"
#include "memory/kept.h"
#include "memory/policies/auto_search.h"
#include "memory/policy.h"
#include "memory/program_key.h"
#include "memory/remat/remat.h"

typedef struct options {
    bool lossy;
    int searches; /* a dti_auto_searches */
    int64_t moves;
} options;

static const char *const searches[] = {"off", "on", "front", NULL};

#define AT(f) offsetof(options, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"lossy", DT_OPT_BOOL, AT(lossy), "off", 0, 0, NULL, NULL, "also try policies that change results"},
    {"searches", DT_OPT_ENUM, AT(searches), "on", 0, 0, searches, NULL, "also try policies that search; on: at the run's own budget; front: only at the front's sixteen budgets, which takes many times as long"},
    {"moves", DT_OPT_I64,  AT(moves), "40",  0, 100000, NULL, NULL, "moves of annealing at each of sixteen budgets; 0: none"},
    {NULL,    DT_OPT_I64,  0,         NULL,  0, 0, NULL, NULL, NULL},
};
/* clang-format on */

static uint64_t step_of_ladder(const dti_auto *s, int i)
{
    return s->least + (uint64_t)((double)(s->most - s->least) * i / (DTI_AUTO_BUDGETS - 1));
}

dti_auto_ladder dti_auto_ladder_of(const dti_auto *s, uint64_t least, uint64_t most)
{
    dti_auto_ladder to = {.n = 0};
    for (int i = DTI_AUTO_BUDGETS; i-- > 0;) {
        const uint64_t budget = step_of_ladder(s, i);
        if (budget > least && budget <= most)
            to.budget[to.n++] = budget;
    }
    to.budget[to.n++] = least;
    return to;
}

/* ---- one plan ---- */

/* @quick: a policy that places what it tries does so quickly. */
static dt_status apply(
    const dti_auto *s, const char *policy, uint64_t budget, bool quick, dt_program *to, dt_err *err)
{
    dt_policies ps;
    dt_pass_env e = *s->env;
    dt_lower_opts lower = dti_pass_lower_quickly(s->env);
    e.budgets.device = budget;
    if (quick) {
        e.pool = lower.pool;
        e.lower = &lower;
    }
    dt_status st = dt_policies_open(&ps, policy, NULL, err);
    if (st == DT_OK)
        st = dt_policies_apply(&ps, to, &e, err);
    dt_policies_close(&ps);
    return st;
}

/* The policy that goes on, for its budget. */
static dt_status go_on(const dti_auto *s, const dti_found *f, dt_program *to, dt_err *err)
{
    if (f->then[0] == '\0')
        return DT_OK;
    DT_CHECK(dt_program_index(to, err));
    return apply(s, f->then, f->budget, f->aim > f->budget, to, err);
}

/* What comes behind a list or fates. */
static dt_status finish(const dti_auto *s, const dti_found *f, dt_program *to, dt_err *err)
{
    DT_CHECK(go_on(s, f, to, err));
    return f->early > 0 ? dti_auto_ask_earlier(s, f->early, to, err) : DT_OK;
}

/* The program that a list has made before, or NULL: who searches takes long to make it again. */
static const dt_program *made_before(const dti_auto *s, const dti_found *f)
{
    for (size_t i = 0; i < s->n_base && f->fate == NULL; i++) {
        const dti_found *of = &s->base[i].of;
        if (of->fate == NULL && of->aim == f->aim && strcmp(of->list, f->list) == 0)
            return s->base[i].p;
    }
    return NULL;
}

static dt_status replace(dt_program *p, const dt_program *by, dt_err *err)
{
    dt_program *copy = NULL;
    DT_CHECK(dt_program_copy(&copy, by, err));
    dt_program_swap(p, copy);
    dt_program_destroy(copy);
    return DT_OK;
}

/* All of a plan. */
static dt_status make(const dti_auto *s, const dti_found *f, dt_program *to, dt_err *err)
{
    const dt_program *before = made_before(s, f);
    if (before != NULL)
        DT_CHECK(replace(to, before, err));
    else
        DT_CHECK(f->fate != NULL ? dti_auto_apply_fates(s, f->fate, to, err)
                                 : apply(s, f->list, f->aim, false, to, err));
    return finish(s, f, to, err);
}

static void look(const dt_program *p, dti_found *f)
{
    f->offloads = f->encodes = f->recomputes = false;
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op_kind k = p->op[p->order[i]].kind;
        f->offloads = f->offloads || k == DT_OP_OUT;
        f->encodes = f->encodes || k == DT_OP_ENCODE;
        f->recomputes = f->recomputes || k == DT_OP_RECOMPUTE;
    }
}

/* Whether the first is in nothing behind the second. */
static bool ahead(const dti_pass_cost *a, const dti_pass_cost *b)
{
    for (int tier = 0; tier < DT_TIERS; tier++)
        if (a->tier[tier] > b->tier[tier])
            return false;
    return a->device <= b->device && a->seconds <= b->seconds;
}

/* Whether a plan of the front is ahead of this one however it is placed. Where tensors lie decides
 * when copies may begin: mostly that is little, and a search may pass over the rest; but what a
 * list of policies comes to is not to be missed. */
static bool hopeless(const dti_auto *s, const dti_found *f, const dti_pass_cost *c)
{
    const bool own = f->fate == NULL && (f->aim == 0 || f->aim == f->budget);
    const double seconds = own ? c->alone : 0.995 * c->seconds;
    dti_pass_cost least = *c;
    least.device = c->bound;
    least.seconds = seconds;
    for (size_t i = 0; i < s->n; i++)
        if (ahead(&s->plan[i].cost, &least))
            return true;
    return false;
}

/* Whether a list that stands in for the run's pool places above the run's budget may be within it
 * by that pool itself, and would then be taken. Where that searches it would take too long. */
static bool may_fit(const dti_auto *s, const dti_found *f)
{
    const dti_pass_cost *c = &f->cost;
    bool may = f->fate == NULL && c->bound <= s->own && c->device > s->own &&
               dti_pass_pool(s->env)->tries != NULL && dti_pass_pool(s->env)->search == NULL;
    for (size_t i = 0; i < s->n && may; i++)
        may = s->plan[i].cost.device > s->own || !dti_pass_fits(s->env, &s->plan[i].cost) ||
              c->seconds < s->plan[i].cost.seconds;
    return may;
}

/* By what stands in for the run's pool, unless a quick one shows that this is in vain: then the
 * bytes are the bound. */
static dt_status cost_of(const dti_auto *s, dt_program *p, dti_found *f, dt_err *err)
{
    dti_pass_cost *out = &f->cost;
    dt_pass_env quick = *s->env;
    const dt_lower_opts lower = dti_pass_lower_quickly(s->env);
    quick.lower = &lower;
    DT_CHECK(dti_pass_cost_of(&quick, p, out, err));
    if (hopeless(s, f, out)) {
        out->device = out->bound;
        return DT_OK;
    }
    DT_CHECK(dti_pass_cost_of(s->env, p, out, err));
    return may_fit(s, f) ? dti_pass_cost_placed(s->env, p, out, err) : DT_OK;
}

/* On a copy of a program; *kept becomes that, unless it is NULL. */
static dt_status try_on(const dti_auto *s, const dt_program *from, bool made, dti_found *f,
    dt_program **kept, dt_err *err)
{
    dt_program *copy = NULL;
    dt_status st = dt_program_copy(&copy, from, err);
    if (st == DT_OK)
        st = made ? finish(s, f, copy, err) : make(s, f, copy, err);
    if (st == DT_OK)
        st = cost_of(s, copy, f, err);
    if (st == DT_OK)
        look(copy, f);
    if (st == DT_OK && kept != NULL)
        *kept = copy;
    else
        dt_program_destroy(copy);
    return st;
}

dt_status dti_auto_try(const dti_auto *s, dti_found *f, dt_program **kept, dt_err *err)
{
    return try_on(s, s->p, false, f, kept, err);
}

/* Those that others are ahead of are left out. */
static dt_status keep(dti_auto *s, const dti_found *f, dt_err *err)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        if (ahead(&s->plan[i].cost, &f->cost))
            return DT_OK;
    dti_found own;
    DT_CHECK(dti_found_copy(&own, f, s->n_value, err));
    for (size_t i = 0; i < s->n; i++)
        if (ahead(&f->cost, &s->plan[i].cost))
            dti_found_deinit(&s->plan[i]);
        else
            s->plan[n++] = s->plan[i];
    s->n = n;
    if (dt_grow(&s->plan, &s->room, s->n, sizeof *s->plan)) {
        s->plan[s->n++] = own;
        return DT_OK;
    }
    dti_found_deinit(&own);
    return dti_pass_no_memory(err);
}

dt_status dti_auto_add(dti_auto *s, dti_found *f, dt_program **kept, dt_err *err)
{
    DT_CHECK(dti_auto_try(s, f, kept, err));
    const dt_status st = keep(s, f, err);
    if (st != DT_OK && kept != NULL) {
        dt_program_destroy(*kept);
        *kept = NULL;
    }
    return st;
}

dt_status dti_auto_add_from(dti_auto *s, const dt_program *made, dti_found *f, dt_err *err)
{
    DT_CHECK(try_on(s, made, true, f, NULL, err));
    return keep(s, f, err);
}

/* ---- the front ---- */

/* Of plans without a budget. */
static void find_range(dti_auto *s)
{
    s->least = UINT64_MAX;
    for (size_t i = 0; i < s->n; i++)
        if (s->plan[i].cost.device < s->least)
            s->least = s->plan[i].cost.device;
}

static const dti_found *best_within(const dti_auto *s, uint64_t most)
{
    const dti_found *best = &s->plan[0];
    for (size_t i = 1; i < s->n; i++)
        if (dti_pass_is_better_in_all(s->env, &s->plan[i].cost, &best->cost, most))
            best = &s->plan[i];
    return best;
}

/* The fastest within a budget: with less to read, and with copies back earlier. */
static dt_status improve(dti_auto *s, uint64_t budget, dt_err *err)
{
    const dti_found *best = best_within(s, budget);
    if (best->cost.device > budget)
        return DT_OK;
    if (best->early == 0)
        DT_CHECK(dti_auto_lighten(s, best, err));
    dti_found f = *best_within(s, budget); /* its fates are borrowed: what is kept is copied */
    if (f.early > 0)
        return DT_OK;
    f.early = budget;
    return dti_auto_add(s, &f, NULL, err);
}

/* Up to @most, those for the higher budgets first: what is found there is gone on from. */
static dt_status find_at(dti_auto *s, uint64_t least, uint64_t most, dt_err *err)
{
    DT_CHECK(dti_auto_add_budgeted(s, least, err));
    DT_CHECK(dti_auto_go_on(s, 0, least, most, err));
    if (s->env->hasty)
        return DT_OK;
    const size_t searched = s->n_base;
    DT_CHECK(dti_auto_add_searched(s, least, most, err));
    DT_CHECK(dti_auto_go_on(s, searched, least, most, err));
    const dti_auto_ladder down = dti_auto_ladder_of(s, least, most);
    for (size_t i = 0; i < down.n; i++)
        DT_CHECK(improve(s, down.budget[i], err));
    return DT_OK;
}

/* At the run's own budget. */
static dt_status search(dti_auto *s, uint64_t own, dt_err *err)
{
    DT_CHECK(dti_auto_search(s, own, err));
    return improve(s, own, err);
}

/* At every budget of the ladder, the lowest first: what fits there fits the others. */
static dt_status search_front(dti_auto *s, dt_err *err)
{
    const dti_auto_ladder down = dti_auto_ladder_of(s, s->least, s->most);
    for (size_t i = down.n; i-- > 0;)
        DT_CHECK(search(s, down.budget[i], err));
    return DT_OK;
}

/* Whether what is looked for is too small for policies alone and for two. */
static bool is_out_of_reach(const dti_auto *s)
{
    return s->least > s->reach;
}

/* Whether plans are for the run's own budget alone, as less comes ahead there. */
static bool is_for_own(const dti_auto *s)
{
    return s->env->lower->keep_to > 0 && s->searches != DTI_AUTO_SEARCH_FRONT;
}

/* Whether of the front only the beginning is found: policies alone, and two. */
static bool is_begun(const dti_auto *s)
{
    return s->env->hasty || is_out_of_reach(s) || is_for_own(s);
}

/* The front of all runs. */
static dt_status find_front(dti_auto *s, dt_err *err)
{
    dti_found all = {.list = "keep_all"};
    DT_CHECK(dti_auto_try(s, &all, NULL, err));
    s->most = all.cost.device;
    DT_CHECK(dti_auto_add_policies(s, !s->env->hasty, err));
    find_range(s);
    if (is_begun(s))
        return DT_OK;
    DT_CHECK(find_at(s, s->least, s->most, err));
    return s->searches == DTI_AUTO_SEARCH_FRONT ? search_front(s, err) : DT_OK;
}

/* What cannot be kept is searched for again. */
static void keep_front(dti_auto *s, const char key[DT_SHA256_TEXT])
{
    const dti_front now = {s->n, s->n_value, s->least, s->most, s->plan};
    size_t bytes;
    dti_front *f = dti_front_copy(&now);
    char *text = dti_policies_from_outside() ? NULL : dti_front_text(&now, &bytes);
    if (f != NULL)
        dti_kept_put(s->env->kept, key, f, dti_front_destroy);
    if (text != NULL)
        dti_kept_write(s->env->kept, key, text, bytes);
    dt_free(text);
}

static void drop_plans(dti_auto *s)
{
    for (size_t i = 0; i < s->n; i++)
        dti_found_deinit(&s->plan[i]);
    dt_free(s->plan);
    s->plan = NULL;
    s->n = s->room = 0;
}

/* From this session, or the file of one before. */
static bool take_front(dti_auto *s, const char key[DT_SHA256_TEXT])
{
    const dti_front *kept = dti_kept_find(s->env->kept, key);
    size_t bytes;
    dti_front *f = kept != NULL ? dti_front_copy(kept) : NULL;
    char *text =
        f == NULL && !dti_policies_from_outside() ? dti_kept_read(s->env->kept, key, &bytes) : NULL;
    if (text != NULL)
        f = dti_front_parse(text, s->n_value);
    dt_free(text);
    if (f == NULL)
        return false;
    drop_plans(s);
    s->plan = f->plan; /* with their fates */
    s->n = s->room = f->n;
    s->least = f->least;
    s->most = f->most;
    f->plan = NULL;
    dti_front_destroy(f);
    return true;
}

#define ADD(sum, value) dt_sha256_add(&(sum), &(value), sizeof(value))

/* Where what persists lives, which an op's stays in memory go by. */
static void add_homes(const dt_map *m, dt_sha256 *sum)
{
    const uint64_t of[] = {m->bytes, m->early, m->loose, m->two, m->slice, dt_map_delays(m)};
    dt_sha256_add(sum, of, sizeof of);
    dt_sha256_add(sum, m->tier_bytes, sizeof m->tier_bytes);
    for (size_t i = 0; i < m->n; i++) {
        const uint64_t at[] = {m->home[i].tier, m->home[i].off, m->home[i].next};
        dt_sha256_add(sum, at, sizeof at);
    }
}

/* What it is searched with: every policy, the codecs that they choose among, of which builds and
 * devices have some or all, and who solves integer programs. */
static void add_means(const dt_context *on, dt_sha256 *sum)
{
    size_t n, n_codec;
    const dt_policy *const *all = dt_policy_all(&n);
    const dt_codec *const *codec = dt_codec_all(&n_codec);
    const dt_device_kind device = dt_context_device(on);
    for (size_t i = 0; i < n; i++)
        dt_sha256_add_text(sum, all[i]->name);
    for (size_t i = 0; i < n_codec; i++)
        dt_sha256_add_text(sum, codec[i]->name);
    ADD(*sum, device);
    dt_sha256_add_text(sum, dt_solver_name() != NULL ? dt_solver_name() : "");
}

/* All that a front depends on; what a struct leaves unused is not summed up. @own: the budget that
 * it was searched for besides, or 0. */
static void key_of(const dti_auto *s, uint64_t own, char key[DT_SHA256_TEXT])
{
    const dt_pass_env *e = s->env;
    const dt_program *p = s->p;
    const bool front = s->searches == DTI_AUTO_SEARCH_FRONT;
    const dti_auto_searches searched = own > 0 || front ? s->searches : DTI_AUTO_SEARCH_OFF;
    dt_sha256 sum;
    dt_sha256_init(&sum);
    ADD(sum, own);
    ADD(sum, s->moves);
    ADD(sum, s->lossy);
    ADD(sum, searched);
    ADD(sum, e->budgets.tier[DT_TIER_HOST]);
    ADD(sum, e->budgets.tier[DT_TIER_DISK]);
    ADD(sum, e->dense);
    dti_program_key(p, &sum); /* with what policies before have written into it */
    for (size_t i = 0; i < p->n_order; i++) {
        dt_sha256_add_text(&sum, p->op[p->order[i]].name);
        ADD(sum, s->seconds[p->order[i]]);
    }
    for (size_t i = 0; i < p->n_tensor; i++)
        ADD(sum, p->tensor[i].pin);
    const bool team = dti_pass_machine(e).inline_copies;
    if (p->map != NULL)
        add_homes(p->map, &sum);
    ADD(sum, team);
    dti_costs_sum(dti_pass_costs(e), &sum);
    if (e->density != NULL)
        dti_densities_sum(e->density, &sum);
    if (e->lower != NULL) {
        ADD(sum, e->lower->tier);
        ADD(sum, e->lower->spill);
        ADD(sum, e->lower->ahead);
        ADD(sum, e->lower->keep_to);
    }
    dt_sha256_add_text(&sum, e->pool != NULL ? e->pool->name : "");
    add_means(p->context, &sum);
    dt_sha256_text(&sum, key);
}

/* The front, found or kept. */
static dt_status find_or_take(dti_auto *s, dt_err *err)
{
    char key[DT_SHA256_TEXT];
    key_of(s, 0, key);
    if (take_front(s, key))
        return DT_OK;
    DT_CHECK(find_front(s, err));
    if (!s->env->hasty && !is_out_of_reach(s))
        keep_front(s, key);
    return DT_OK;
}

static bool is_of_all_runs(const dti_auto *s, uint64_t budget)
{
    const dti_auto_ladder all = dti_auto_ladder_of(s, s->least, s->most);
    for (size_t i = 0; i < all.n; i++)
        if (all.budget[i] == budget)
            return true;
    return false;
}

/* Beside the front what is found for the run's own budget, the same whether the front was kept: who
 * goes by a budget may reach what nobody else does. */
static dt_status find_own(dti_auto *s, uint64_t own, dt_err *err)
{
    dti_auto_drop_bases(s);
    s->own = own;
    DT_CHECK(dti_auto_add_policies(s, false, err));
    DT_CHECK(find_at(s, own, own, err));
    return s->env->hasty || s->searches == DTI_AUTO_SEARCH_OFF ? DT_OK : search(s, own, err);
}

static dt_status find_all(dti_auto *s, dt_err *err)
{
    char key[DT_SHA256_TEXT];
    const uint64_t own = s->env->budgets.device;
    key_of(s, own, key);
    if (own > 0 && take_front(s, key))
        return DT_OK;
    DT_CHECK(find_or_take(s, err));
    const bool on_ladder =
        s->searches == DTI_AUTO_SEARCH_OFF && !is_for_own(s) && is_of_all_runs(s, own);
    const bool front = s->searches == DTI_AUTO_SEARCH_FRONT && own >= s->least;
    if (own == 0 || own >= s->most || on_ladder || front || is_out_of_reach(s))
        return DT_OK;
    DT_CHECK(find_own(s, own, err));
    if (!s->env->hasty)
        keep_front(s, key);
    return DT_OK;
}

/* Whether what persists lives elsewhere and may come ahead, so that plans are smaller where less
 * does. */
static bool may_come_later(const dt_map *m, const dt_lower_opts *o)
{
    for (int t = 0; m != NULL && t < DT_TIERS; t++)
        if (m->tier_bytes[t] > 0 && o->ahead[t] > 0)
            return true;
    return false;
}

/* Whether a policy alone, or two, are faster with less ahead than all that fit as much as comes
 * ahead for any budget: where copies are what a step waits for, those that come early hold up
 * others. What answers is kept as a front is. */
static dt_status is_faster_with_less(
    const dti_auto *s, dt_lower_opts *lower, bool *faster, dt_err *err)
{
    const uint64_t own = s->env->budgets.device;
    dti_auto less = *s; /* of seconds and values, which it borrows */
    less.plan = NULL;
    less.base = NULL;
    less.n = less.room = less.n_base = less.room_base = less.n_light = 0;
    less.own = 0;
    less.reach = UINT64_MAX;
    less.searches = DTI_AUTO_SEARCH_OFF; /* with less ahead: the beginning alone */
    lower->keep_to = own;
    const dt_status st = find_or_take(&less, err);
    if (st == DT_OK) {
        const dti_pass_cost *of = &best_within(&less, own)->cost;
        *faster = of->device <= own && dti_pass_fits(s->env, of) &&
                  of->seconds < best_within(s, own)->cost.seconds;
    }
    lower->keep_to = 0;
    drop_plans(&less);
    dti_auto_drop_bases(&less);
    dt_free(less.base);
    return st;
}

/* Whether plans are to be made for the run's own budget: where none fits as much as comes ahead for
 * any, or less of it is faster. What keeps all and fits has no less ahead. */
static dt_status wants_less(const dti_auto *s, dt_lower_opts *lower, bool *less, dt_err *err)
{
    const uint64_t own = s->env->budgets.device;
    *less = best_within(s, own)->cost.device > own;
    return *less || own >= s->most ? DT_OK : is_faster_with_less(s, lower, less, err);
}

/* With as much ahead as for any budget, then, where that is too much, all for the run's own: what
 * would fit as it is comes to the same there. So the first search ends as soon as it looks so. */
static dt_status find_within(dti_auto *s, dt_lower_opts *lower, dt_err *err)
{
    const uint64_t own = s->env->budgets.device;
    const bool later = own > 0 && may_come_later(s->p->map, lower);
    bool less = false;
    lower->keep_to = 0;
    s->reach = later ? own : UINT64_MAX;
    DT_CHECK(dti_auto_time_values(s, err));
    DT_CHECK(find_all(s, err));
    if (later)
        DT_CHECK(wants_less(s, lower, &less, err));
    if (!less)
        return DT_OK;
    lower->keep_to = own;
    s->reach = UINT64_MAX;
    drop_plans(s);
    dti_auto_drop_bases(s);
    s->own = 0; /* as where the first search came from a file */
    s->n_light = 0;
    return find_all(s, err);
}

/* Without a budget as much as keep_all takes, never more. */
static const dti_found *choose(const dti_auto *s)
{
    return best_within(s, s->env->budgets.device > 0 ? s->env->budgets.device : s->most);
}

static dt_status run_auto(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    const options *o = env->opts;
    dt_pass_env own = *env;
    dt_lower_opts lower = dti_pass_lower_opts(env);
    if (p->loss == DT_NONE)
        return DT_OK;
    dti_auto *s = dt_alloc(1, sizeof *s);
    if (s == NULL)
        return dti_pass_no_memory(err);
    lower.memo = dt_memo_create(); /* of what is tried most was tried before */
    own.lower = &lower;
    *s = (dti_auto){.p = p,
        .env = &own,
        .lossy = o->lossy,
        .searches = (dti_auto_searches)o->searches,
        .moves = o->moves};
    dt_status st = find_within(s, &lower, err);
    if (st == DT_OK)
        st = make(s, choose(s), p, err);
    drop_plans(s);
    dti_auto_drop_bases(s);
    dt_free(s->base);
    dt_free(s->seconds);
    dt_free(s->value);
    dt_free(s->tensor);
    dt_free(s);
    dt_memo_destroy(lower.memo);
    return st;
}

static bool changes(const void *given)
{
    const options *o = given;
    return o->lossy;
}

const dt_policy dt_policy_auto = {
    .name = "auto",
    .summary = "the fastest of all policies, pairs of them and what annealing finds, that fits; "
               "lossy = on changes results",
    .exact = true,
    .searches = true,
    .takes_homes = true,
    .changes = changes,
    .opts = opts,
    .opts_bytes = sizeof(options),
    .pass = run_auto,
};
