/* The registry of policies; lists of them and what these come to; and what a pass asks of its
 * environment: what a program scores, takes and costs by the run's pool and machine. */
#include "memory/policy.h"

#include <dnntrain/policy.h>

#include <stdatomic.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/config/nearest.h"
#include "engine/config/outside.h"
#include "memory/least_room.h"
#include "memory/program_key.h"
#include "memory/remat/remat.h"

#define DT_POLICY(name) extern const dt_policy dt_policy_##name;
#include "memory/policies/policies.def"
#undef DT_POLICY

#define DT_POLICY(name) +1
enum {
    OURS = 0
#include "memory/policies/policies.def"
};
#undef DT_POLICY

/* ---- the registry ---- */

/* Ours, then those from outside: an entry is there before it is counted, and stays, so whoever
 * reads takes no lock. */
static const dt_policy *policies[OURS + DT_OUTSIDE_POLICIES] = {
#define DT_POLICY(name) &dt_policy_##name,
#include "memory/policies/policies.def"
#undef DT_POLICY
};
static atomic_size_t n_policies = OURS;

const dt_policy *const *dt_policy_all(size_t *n)
{
    *n = n_policies;
    return policies;
}

bool dti_policies_from_outside(void)
{
    return n_policies > OURS;
}

void dti_policy_add(const dt_policy *p)
{
    const size_t n = n_policies;
    DT_ASSERT(n < DT_COUNT(policies));
    policies[n] = p;
    n_policies = n + 1;
}

const dt_policy *dt_policy_find(const char *name)
{
    const size_t n = n_policies;
    for (size_t i = 0; i < n; i++)
        if (strcmp(policies[i]->name, name) == 0)
            return policies[i];
    return NULL;
}

dt_status dt_policy_unknown(const char *what, const char *name, dt_err *err)
{
    const char *names[DT_COUNT(policies) + 1] = {NULL};
    const size_t n = n_policies;
    for (size_t i = 0; i < n; i++)
        names[i] = policies[i]->name;
    return dt_unknown(what, name, names, err);
}

static dt_status unknown(const char *name, dt_err *err)
{
    char what[128];
    snprintf(what, sizeof what, "unknown policy '%s'", name);
    if (strpbrk(name, " +;|&/[](){}'") != NULL)
        return DT_FAIL(err, DT_E_CONFIG, "%s; several are separated by commas: NAME, NAME", what);
    return dt_policy_unknown(what, name, err);
}

/* ---- lists ---- */

const dt_policy *dt_policies_ladder(const dt_policies *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->pass[i].policy->rung != NULL)
            return s->pass[i].policy;
    return NULL;
}

const char *dt_policies_list(const dt_policies *s, char to[DT_POLICY_LIST])
{
    size_t n = 0;
    to[0] = '\0';
    for (size_t i = 0; i < s->n && n < DT_POLICY_LIST; i++)
        n += (size_t)snprintf(
            to + n, DT_POLICY_LIST - n, "%s%s", i > 0 ? "," : "", s->pass[i].policy->name);
    return to;
}

/* *opts: room for its options, to be filled in. */
static dt_status append(dt_policies *s, const dt_policy *policy, void **opts, dt_err *err)
{
    *opts = dt_alloc(1, policy->opts_bytes);
    if (*opts == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the options of '%s'", policy->name);
    s->pass[s->n].policy = policy;
    s->pass[s->n++].opts = *opts;
    return DT_OK;
}

static dt_status add(dt_policies *s, const char *name, dt_config *c, dt_err *err)
{
    const dt_policy *policy = dt_policy_find(name);
    if (policy == NULL)
        return unknown(name, err);
    if (policy->solver)
        DT_TRY(err, dti_solver_check(err), "policy '%s' solves integer programs", name);
    for (size_t i = 0; i < s->n; i++)
        if (policy->rung != NULL && s->pass[i].policy->rung != NULL)
            return DT_FAIL(err, DT_E_CONFIG, "policy '%s' cannot stand beside '%s' in a list", name,
                s->pass[i].policy->name);
    if (s->n == DT_MAX_POLICIES)
        return DT_FAIL(err, DT_E_CONFIG, "more than %d policies", DT_MAX_POLICIES);
    void *opts;
    DT_CHECK(append(s, policy, &opts, err));
    if (policy->opts == NULL)
        return DT_OK;
    dt_opt_defaults(policy->opts, opts);
    char section[80];
    snprintf(section, sizeof section, "policy.%s", name);
    if (c == NULL)
        return DT_OK;
    DT_CHECK(dt_config_bind(c, section, policy->opts, opts, err));
    return dti_only_with_check(c, name, policy->opts, policy->only_with, err);
}

dt_status dt_policies_open(dt_policies *out, const char *list, dt_config *c, dt_err *err)
{
    dt_status st = DT_OK;
    memset(out, 0, sizeof *out);
    for (const char *at = list; *at != '\0' && st != DT_E_NOMEM;) {
        const size_t len = strcspn(at, ",");
        char name[64];
        snprintf(
            name, sizeof name, "%.*s", len < sizeof name ? (int)len : (int)sizeof name - 1, at);
        const dt_status one = add(out, name, c, err);
        st = st == DT_OK ? one : st;
        at += len + (at[len] == ',');
    }
    return st;
}

void dt_policies_close(dt_policies *s)
{
    for (size_t i = 0; i < s->n; i++)
        dt_free(s->pass[i].opts);
    memset(s, 0, sizeof *s);
}

/* The same, with the options that it has. */
static dt_status add_copy(dt_policies *s, const dt_policy *policy, const void *opts, dt_err *err)
{
    void *own;
    DT_CHECK(append(s, policy, &own, err));
    if (policy->opts_bytes > 0)
        memcpy(own, opts, policy->opts_bytes);
    return DT_OK;
}

dt_status dt_policies_take(
    dt_policies *out, const dt_policies *from, const dt_rung *rung, dt_config *c, dt_err *err)
{
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < from->n; i++)
        if (from->pass[i].policy->rung != NULL)
            DT_CHECK(add(out, rung->policy, c, err));
        else
            DT_CHECK(add_copy(out, from->pass[i].policy, from->pass[i].opts, err));
    return DT_OK;
}

dt_status dt_policies_with(
    dt_policies *out, const dt_policies *from, const char *more, dt_config *c, dt_err *err)
{
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < from->n; i++)
        DT_CHECK(add_copy(out, from->pass[i].policy, from->pass[i].opts, err));
    return more != NULL ? add(out, more, c, err) : DT_OK;
}

/* ---- homes ---- */

static bool says_home(const dt_policies *s, size_t i)
{
    const dt_policy *p = s->pass[i].policy;
    return p->home != NULL && (p->says_home == NULL || p->says_home(s->pass[i].opts));
}

size_t dt_policies_home_choices(const dt_policies *s)
{
    size_t most = 1;
    for (size_t i = 0; i < s->n; i++) {
        const dt_policy *p = s->pass[i].policy;
        const size_t n = p->home_choices != NULL ? p->home_choices(s->pass[i].opts) : 1;
        most = n > most ? n : most;
    }
    return most;
}

/* An option of a policy that is in bytes; 0: it has none of that name. */
static uint64_t bytes_of(const dt_policies *s, size_t i, const char *key)
{
    uint64_t bytes = 0;
    for (const dt_opt *o = s->pass[i].policy->opts; o != NULL && o->key != NULL; o++)
        if (o->type == DT_OPT_BYTES && strcmp(o->key, key) == 0)
            memcpy(&bytes, (const char *)s->pass[i].opts + o->at, sizeof bytes);
    return bytes;
}

uint64_t dt_policies_own_budget(const dt_policies *s, size_t i)
{
    return s->pass[i].policy->by_budget ? bytes_of(s, i, "budget") : 0;
}

uint64_t dt_policies_least(const dt_policies *s, size_t i)
{
    return bytes_of(s, i, "least");
}

uint64_t dt_policies_home_budget(const dt_policies *s, uint64_t device)
{
    for (size_t i = 0; i < s->n; i++) {
        const dt_policy *p = s->pass[i].policy;
        const uint64_t own = dt_policies_own_budget(s, i);
        if (p->home_choices != NULL && own > 0 && (device == 0 || own < device))
            device = own;
    }
    return device;
}

void dt_policies_choose_home(dt_policies *s, const double *worth, size_t choice)
{
    for (size_t i = 0; i < s->n; i++) {
        const dt_policy *p = s->pass[i].policy;
        if (p->home_choices != NULL && choice < p->home_choices(s->pass[i].opts))
            p->choose_home(s->pass[i].opts, worth, choice);
    }
}

bool dt_policies_take_homes(const dt_policies *s)
{
    bool takes = false;
    for (size_t i = 0; i < s->n; i++) {
        takes = takes || s->pass[i].policy->takes_homes;
        if (says_home(s, i))
            return false;
    }
    return takes;
}

/* Those of a role: weights come first in the enum, then gradients, then optimizer state. */
static void homes_of(const struct dt_policy *p, const void *opts, dt_role role, const dt_map *m,
    uint64_t *host, dt_tier *tier)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->home[i].role == role)
            tier[i] = p->home(opts, m->device, &m->home[i], host);
}

void dt_policies_homes(const dt_policies *s, const dt_map *m, uint64_t host, dt_tier *tier)
{
    for (size_t k = 0; k < s->n; k++) {
        uint64_t left = host;
        for (int role = 0; role < DT_ROLE_COUNT && says_home(s, k); role++)
            homes_of(s->pass[k].policy, s->pass[k].opts, (dt_role)role, m, &left, tier);
    }
}

bool dt_policies_fill_host(const dt_policies *s)
{
    for (size_t k = 0; k < s->n; k++)
        if (s->pass[k].policy->fills_host != NULL && s->pass[k].policy->fills_host(s->pass[k].opts))
            return true;
    return false;
}

/* ---- what a run goes by ---- */

bool dt_policies_exact(const dt_policies *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (!s->pass[i].policy->exact ||
            (s->pass[i].policy->changes != NULL && s->pass[i].policy->changes(s->pass[i].opts)))
            return false;
    return true;
}

int64_t dt_policies_delay(const dt_policies *s, const char **by)
{
    int64_t from = -1;
    *by = NULL;
    for (size_t i = 0; i < s->n; i++) {
        const dt_policy *p = s->pass[i].policy;
        const int64_t own = p->delay != NULL ? p->delay(s->pass[i].opts) : -1;
        if (own >= 0) {
            from = own;
            *by = p->name;
        }
    }
    return from;
}

int64_t dt_policies_replan(const dt_policies *s)
{
    int64_t least = 0;
    for (size_t i = 0; i < s->n; i++) {
        const dt_policy *p = s->pass[i].policy;
        const int64_t every = p->replan != NULL ? p->replan(s->pass[i].opts) : 0;
        least = every > 0 && (least == 0 || every < least) ? every : least;
    }
    return least;
}

bool dt_policies_timed(const dt_policies *s)
{
    for (size_t i = 0; i < s->n; i++) {
        const dt_policy *p = s->pass[i].policy;
        if (p->timed && p->replan != NULL && p->replan(s->pass[i].opts) > 0)
            return true;
    }
    return false;
}

bool dt_policies_host_updates(const dt_policies *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->pass[i].policy->host_updates)
            return true;
    return false;
}

/* ---- a pass's environment: the pool, the machine, scores and costs ---- */

static const dt_pool_desc *or_default(const dt_pool_desc *pool)
{
    return pool != NULL ? pool : dt_pool_find("greedy");
}

const dt_pool_desc *dti_pass_pool(const dt_pass_env *e)
{
    return or_default(e->pool);
}

/* What places a plan that is only compared. */
static const dt_pool_desc *tried_by(const dt_pool_desc *pool)
{
    pool = or_default(pool);
    while (pool->tries != NULL)
        pool = pool->tries;
    return pool;
}

static void tell(const dt_pass_env *e)
{
    if (e->tries != NULL)
        e->tries(e->listener);
}

dt_status dti_pass_score(
    const dt_pass_env *e, dt_program *p, bool place, dt_score *out, dt_err *err)
{
    tell(e);
    const dt_pool_desc *pool = tried_by(e->pool);
    dt_memo *memo = e->lower != NULL ? e->lower->memo : NULL;
    return e->score != NULL ? e->score(e, p, place, out, err)
                            : dti_score_program(out, p, place ? pool : NULL, memo, err);
}

dt_status dti_pass_peak_within(
    const dt_pass_env *e, dt_program *p, uint64_t most, uint64_t *bytes, dt_err *err)
{
    dt_score s = {0};
    DT_CHECK(dti_pass_score(e, p, false, &s, err));
    if (s.device <= most)
        DT_CHECK(dti_pass_score(e, p, true, &s, err));
    *bytes = s.device;
    return DT_OK;
}

uint64_t dti_pass_budget(const dt_pass_env *e, uint64_t own)
{
    const uint64_t most = UINT64_MAX / 4, budget = own > 0 ? own : e->budgets.device;
    return budget < most ? budget : most;
}

const dt_costs *dti_pass_costs(const dt_pass_env *e)
{
    return e->costs != NULL ? e->costs : &dt_costs_default;
}

dt_simulate_opts dti_pass_machine(const dt_pass_env *e)
{
    return e->machine != NULL ? *e->machine : (dt_simulate_opts){.density = e->density};
}

dt_lower_opts dti_pass_lower_opts(const dt_pass_env *e)
{
    dt_lower_opts o = e->lower != NULL ? *e->lower : (dt_lower_opts){.pool = e->pool, .policy = ""};
    o.pool = tried_by(o.pool);
    return o;
}

dt_pass_env dti_pass_within(const dt_pass_env *e, uint64_t budget, dt_lower_opts *lower)
{
    dt_pass_env within = *e;
    *lower = dti_pass_lower_opts(e);
    lower->enough = budget;
    within.lower = lower;
    return within;
}

dt_lower_opts dti_pass_lower_quickly(const dt_pass_env *e)
{
    dt_lower_opts o = dti_pass_lower_opts(e);
    o.pool = dti_pool_quick();
    return o;
}

static dt_status time_plan(const dt_pass_env *e, const dt_plan *plan, dt_timeline *t, dt_err *err)
{
    const dt_simulate_opts o = dti_pass_machine(e);
    return dt_simulate(t, plan, dti_pass_costs(e), &o, err);
}

/* Of a memo, which is of one search: besides the program only the pool changes there, what is
 * enough for a quick one, and where a search begins anew the bytes that plans keep to. */
static void cost_key(const dt_program *p, const dt_lower_opts *o, char key[DT_SHA256_TEXT])
{
    dt_sha256 sum;
    dt_sha256_init(&sum);
    dt_sha256_add_text(&sum, o->pool->name);
    dt_sha256_add(&sum, &o->enough, sizeof o->enough);
    dt_sha256_add(&sum, &o->keep_to, sizeof o->keep_to);
    dti_program_key(p, &sum);
    dt_sha256_text(&sum, key);
}

static double busiest(const dt_timeline *t)
{
    double most = 0;
    for (int k = 0; k < DT_MAX_STREAMS; k++)
        most = t->alone[k] > most ? t->alone[k] : most;
    return most;
}

static dt_status lower_and_time(
    const dt_pass_env *e, dt_program *p, const dt_lower_opts *o, dti_pass_cost *out, dt_err *err)
{
    dt_plan *plan = NULL;
    dt_timeline t = {0};
    dt_status st = dt_lower(&plan, p, o, err);
    if (st == DT_OK)
        st = time_plan(e, plan, &t, err);
    if (st == DT_OK) {
        *out = (dti_pass_cost){
            .device = plan->peak, .seconds = t.seconds, .bound = plan->bound, .alone = busiest(&t)};
        memcpy(out->tier, plan->tier_peak, sizeof out->tier);
    }
    dt_timeline_deinit(&t);
    dt_plan_destroy(plan);
    return st;
}

static dt_status cost_by(
    const dt_pass_env *e, dt_program *p, const dt_lower_opts *o, dti_pass_cost *out, dt_err *err)
{
    char key[DT_SHA256_TEXT];
    tell(e);
    if (o->memo == NULL)
        return lower_and_time(e, p, o, out, err);
    DT_CHECK(dt_program_index(p, err)); /* as lowering does */
    cost_key(p, o, key);
    const dti_pass_cost *known = dti_memo_find(o->memo, key, sizeof *known);
    if (known == NULL) {
        DT_CHECK(lower_and_time(e, p, o, out, err));
        dti_memo_put(o->memo, key, out, sizeof *out);
        return DT_OK;
    }
    *out = *known;
    return DT_OK;
}

dt_status dti_pass_cost_of(const dt_pass_env *e, dt_program *p, dti_pass_cost *out, dt_err *err)
{
    const dt_lower_opts o = dti_pass_lower_opts(e);
    return cost_by(e, p, &o, out, err);
}

dt_status dti_pass_cost_placed(const dt_pass_env *e, dt_program *p, dti_pass_cost *out, dt_err *err)
{
    dt_lower_opts o = dti_pass_lower_opts(e);
    o.pool = dti_pass_pool(e);
    return cost_by(e, p, &o, out, err);
}

/* To be destroyed even after a failure. */
static dt_status copy_rewritten(
    dt_program **q, const dt_program *p, dti_rewrite_of *rewrite, void *self, dt_err *err)
{
    *q = NULL;
    DT_CHECK(dt_program_copy(q, p, err));
    return rewrite(self, *q, err);
}

dt_status dti_pass_cost_if(const dt_pass_env *e, const dt_program *p, dti_rewrite_of *rewrite,
    void *self, dti_pass_cost *out, dt_err *err)
{
    dt_program *q;
    dt_status st = copy_rewritten(&q, p, rewrite, self, err);
    if (st == DT_OK)
        st = dti_pass_cost_of(e, q, out, err);
    dt_program_destroy(q);
    return st;
}

dt_status dti_pass_peak_if(const dt_pass_env *e, const dt_program *p, dti_rewrite_of *rewrite,
    void *self, uint64_t *peak, dt_err *err)
{
    dti_pass_cost cost = {0};
    const dt_status st = dti_pass_cost_if(e, p, rewrite, self, &cost, err);
    *peak = cost.device;
    return st;
}

/* Without rows and their times. What no placement brings within is placed by whichever is fast. */
dt_status dti_pass_fits_if(const dt_pass_env *e, const dt_program *p, dti_rewrite_of *rewrite,
    void *self, uint64_t budget, bool *fits, dt_err *err)
{
    dt_program *q;
    uint64_t peak = UINT64_MAX;
    dt_lower_opts o = dti_pass_lower_opts(e);
    o.above = budget;
    o.pool_above = dti_pool_quick();
    dt_status st = copy_rewritten(&q, p, rewrite, self, err);
    tell(e);
    if (st == DT_OK)
        st = dti_lower_peak_by(&peak, q, &o, err);
    dt_program_destroy(q);
    *fits = peak <= budget;
    return st;
}

dt_status dti_pass_bound_if(const dt_pass_env *e, const dt_program *p, dti_rewrite_of *rewrite,
    void *self, uint64_t *bytes, dt_err *err)
{
    dt_program *q;
    dt_score score = {0};
    dt_status st = copy_rewritten(&q, p, rewrite, self, err);
    if (st == DT_OK)
        st = dti_pass_score(e, q, false, &score, err);
    dt_program_destroy(q);
    *bytes = score.device;
    return st;
}

bool dti_pass_fits(const dt_pass_env *e, const dti_pass_cost *c)
{
    for (int tier = 0; tier < DT_TIERS; tier++)
        if (e->budgets.tier[tier] > 0 && c->tier[tier] > e->budgets.tier[tier])
            return false;
    return true;
}

bool dti_pass_is_better(const dti_pass_cost *a, const dti_pass_cost *b, uint64_t budget)
{
    const bool fits_a = a->device <= budget, fits_b = b->device <= budget;
    if (fits_a != fits_b)
        return fits_a;
    return fits_a ? a->seconds < b->seconds : a->device < b->device;
}

bool dti_pass_is_better_in_all(
    const dt_pass_env *e, const dti_pass_cost *a, const dti_pass_cost *b, uint64_t budget)
{
    const bool fits_a = a->device <= budget && dti_pass_fits(e, a);
    const bool fits_b = b->device <= budget && dti_pass_fits(e, b);
    if (fits_a != fits_b)
        return fits_a;
    if (!fits_a && a->device != b->device)
        return a->device < b->device;
    return a->seconds != b->seconds ? a->seconds < b->seconds : a->device < b->device;
}

/* Op i of a plan is the i-th op with a kernel in the program's order. */
static dt_status op_seconds(
    const dt_pass_env *e, dt_program *p, bool pieces, double *seconds, dt_err *err)
{
    const dt_lower_opts o = dti_pass_lower_quickly(e); /* where tensors lie counts for no op */
    const dt_costs *c = dti_pass_costs(e);
    dt_plan *plan = NULL;
    size_t at = 0;
    DT_CHECK(dt_lower(&plan, p, &o, err));
    for (size_t i = 0; i < p->n_op; i++)
        seconds[i] = 0;
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op *op = &p->op[p->order[i]];
        if (op->desc == NULL || at >= plan->n_op)
            continue;
        const dt_plan_op *row = &plan->op[at++];
        seconds[p->order[i]] = pieces && op->desc->form[op->form].split
                                   ? dti_costs_op_in_pieces(c, plan, row)
                                   : dti_costs_op(c, plan, row).seconds;
    }
    dt_plan_destroy(plan);
    return DT_OK;
}

dt_status dti_pass_op_seconds(const dt_pass_env *e, dt_program *p, double *seconds, dt_err *err)
{
    return op_seconds(e, p, false, seconds, err);
}

dt_status dti_pass_least_seconds(const dt_pass_env *e, dt_program *p, double *seconds, dt_err *err)
{
    return op_seconds(e, p, true, seconds, err);
}

/* ---- copies and packing ---- */

dt_tier dti_offload_tier(const dt_pass_env *e)
{
    return dti_pass_lower_opts(e).tier == DT_TIER_DISK ? DT_TIER_DISK : DT_TIER_HOST;
}

bool dti_stands_between(const dt_pass_env *e, dt_tier tier)
{
    return tier != DT_TIER_DISK && dti_pass_machine(e).inline_copies;
}

double dti_pass_copy_seconds(const dt_pass_env *e, dt_tier tier, dt_row_kind kind, uint64_t bytes)
{
    const dt_row r = {
        .kind = (uint16_t)kind, .tier = (uint8_t)tier, .bytes = bytes, .stored = bytes};
    return dti_costs_copy(dti_pass_costs(e), &r, 1, dti_stands_between(e, tier));
}

double dti_pass_store_seconds(const dt_pass_env *e, uint64_t bytes)
{
    return dti_pass_copy_seconds(e, dti_offload_tier(e), DT_ROW_COPY_OUT, bytes);
}

double dti_pass_fetch_seconds(const dt_pass_env *e, uint64_t bytes)
{
    return dti_pass_copy_seconds(e, dti_offload_tier(e), DT_ROW_COPY_IN, bytes);
}

double dti_pass_density(const dt_pass_env *e, const dt_tensor *t, double otherwise)
{
    if (e->dense)
        return 1;
    const double d = e->density != NULL ? dt_densities_of(e->density, t->name) : -1;
    return d >= 0 ? d : otherwise;
}

dt_status dti_pass_encode(dt_program *p, const dt_pass_env *e, const dti_gap *g,
    const dt_codec *codec, double otherwise, int32_t *packed, dt_err *err)
{
    const dt_tensor *t = &p->tensor[g->tensor];
    dt_pass_env measured = *e;
    measured.dense = false;
    const double density = codec->sparse ? dti_pass_density(&measured, t, otherwise) : 1;
    *packed = DT_NONE;
    if (!e->dense || !codec->sparse || !dt_packs(t))
        return dti_encode(p, g, codec, density, packed, err);
    const bool shrinks = dt_packed_bytes(codec, t->bytes / sizeof(float), density) < t->bytes;
    return shrinks ? dti_offload(p, g, NULL, err) : DT_OK;
}

/* ---- the passes of a list ---- */

/* Whether no plan of the program fits, so that no search finds one. */
static bool is_in_vain(const dt_program *p, uint64_t budget)
{
    int32_t op;
    return budget > 0 && dt_least_room(p, &op) > budget;
}

dt_status dt_policies_apply(
    const dt_policies *s, dt_program *p, const dt_pass_env *env, dt_err *err)
{
    for (size_t i = 0; i < s->n; i++) {
        const dt_policy *policy = s->pass[i].policy;
        dt_pass_env e = env != NULL ? *env : (dt_pass_env){0};
        p->policy = policy->name;
        p->dense = e.dense;
        e.opts = s->pass[i].opts;
        e.hasty = e.hasty || (policy->searches && is_in_vain(p, e.budgets.device));
        const int notes = dt_err_notes(err);
        dt_status st = policy->pass(p, &e, err);
        if (policy->outside)
            st = dt_outside_status(st, DT_E_CONFIG, "its pass", notes, err);
        DT_TRY(err, st, "policy '%s'", policy->name);
    }
    return DT_OK;
}
