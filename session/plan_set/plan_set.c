/* From a request to plans: which policies and algorithms it comes to, and the plans themselves. */
#include "session/plan_set/plan_set_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/clock.h"
#include "layers/registry.h"
#include "memory/codec.h"
#include "memory/fit.h"
#include "memory/verify/verify.h"
#include "session/human.h"

/* ---- one plan ---- */

dt_lower_opts dti_plan_set_lower_opts(const dt_plan_set *p, dt_memo *memo)
{
    const dt_memory_opts *m = &p->session->opts.memory;
    const bool hides = !dti_session_simulate_opts(p->session).inline_copies;
    const uint64_t ahead = p->asked.late ? 0 : m->ahead;
    return (dt_lower_opts){.pool = dt_pool_find(m->pool),
        .policy = p->list,
        .tier = p->asked.tier == DT_TO_DISK ? DT_TIER_DISK : DT_TIER_HOST,
        .spill = p->asked.tier == DT_TO_AUTO && p->asked.budgets.tier[DT_TIER_HOST] > 0 &&
                 m->disk_path != NULL,
        .host_budget = p->asked.budgets.tier[DT_TIER_HOST],
        .ahead = {[DT_TIER_HOST] = hides ? ahead : 0, [DT_TIER_DISK] = ahead},
        .keep_to = p->asked.budgets.device,
        .memo = memo};
}

/* Whether packed values of so many words might need more than these bytes. */
static bool may_need_more(int32_t number, uint64_t words, uint64_t bytes)
{
    const dt_codec *codec = dt_codec_numbered(number);
    return codec != NULL && codec->sparse && bytes < dt_packed_bytes(codec, words, 1);
}

/* Whether an encoder of the plan might run out of room. */
static bool may_overflow(const dt_plan *p)
{
    for (size_t i = 0; i < p->n_op; i++)
        if (may_need_more(p->op[i].codec, (uint64_t)p->op[i].count, p->op[i].packed))
            return true;
    for (size_t i = 0; i < p->n_row; i++)
        if (may_need_more(p->row[i].codec, p->row[i].bytes / sizeof(float), p->row[i].stored))
            return true;
    return false;
}

/* A policy's search for one program, for whoever waits for it. */
typedef struct long_search {
    const dt_plan_set *set;
    const dt_planned *of;
    double began;
    bool said;
} long_search;

static void tell_search(void *self)
{
    long_search *x = self;
    const dt_session *s = x->set->session;
    const uint64_t budget = x->set->asked.budgets.device;
    char line[128], bytes[DT_HUMAN_BYTES];
    if (x->said || dt_seconds() - x->began < s->patience)
        return;
    x->said = true;
    snprintf(line, sizeof line, "trying plans of '%s', %" PRId64 " samples%s%s; may take a minute",
        dt_program_kind_name(x->of->kind), x->of->n, budget > 0 ? ", " : "",
        budget > 0 ? dt_human_bytes(bytes, budget) : "");
    s->searching(line);
}

static dt_status rewrite(const dt_plan_set *p, const dt_policies *policies, const dt_planned *to,
    const dt_lower_opts *lower, dt_err *err)
{
    const dt_simulate_opts machine = dti_session_simulate_opts(p->session);
    long_search x = {.set = p, .of = to, .began = dt_seconds()};
    const dt_pass_env env = {.budgets = p->asked.budgets,
        .machine = &machine,
        .lower = lower,
        .kept = p->session->kept,
        .density = &p->session->densities,
        .dense = to->dense,
        .hasty = p->asked.hasty,
        .pool = dt_pool_find(p->session->opts.memory.pool),
        .costs = p->asked.costs,
        .tries = p->session->searching != NULL && !p->asked.hasty ? tell_search : NULL,
        .listener = &x};
    if (p->asked.fates != NULL)
        DT_CHECK(dt_layer_fates_apply(p->asked.fates, to->program, &env, NULL, err));
    return dt_policies_apply(policies, to->program, &env, err);
}

/* Whether updates go to what lives on the host, so that there is nothing to bring. */
static bool updates_at_home(const dt_plan_set *p)
{
    return dt_policies_host_updates(p->policies) &&
           (p->map->device == DT_CPU || (!p->map->loose && dt_map_all_on_host(p->map)));
}

/* Whether a program is that of keep_all before policies see it: tensors live where they would then,
 * and algorithms are what they would be. */
static bool is_kept_first(const dt_plan_set *p)
{
    return p->map->tier_bytes[DT_TIER_HOST] == 0 && p->map->tier_bytes[DT_TIER_DISK] == 0 &&
           !dti_keeps_all(p) && !dt_policies_host_updates(p->policies) &&
           p->algorithms != DT_ALGORITHMS_FIT;
}

static dt_status make_program(const dt_plan_set *p, const dt_policies *policies,
    const dt_lower_opts *lower, dt_planned *to, dt_err *err)
{
    const dt_session *s = p->session;
    const char *packed = dt_optimizer_packed(&s->opts.train);
    const dt_program_opts o = {.graph = s->graph,
        .map = p->map,
        .context = &s->context,
        .kind = to->kind,
        .n = to->n,
        .algorithms = &p->table,
        .masks = s->opts.memory.masks,
        .ops = {.sum = dt_layer_find("sum"),
            .commit = dt_layer_find("commit"),
            .optimizer = dt_layer_find(dt_optimizer_name(&s->opts.train)),
            .packed = packed != NULL ? dt_layer_find(packed) : NULL}};
    DT_CHECK(dt_program_create(&to->program, &o, err));
    if (p->asked.kept && !to->dense && is_kept_first(p))
        DT_CHECK(dt_lower_peak(&to->kept, to->program, lower->pool, NULL, err));
    if (to->kind != DT_PROGRAM_UPDATE)
        DT_CHECK(rewrite(p, policies, to, lower, err));
    if (updates_at_home(p))
        dt_program_update_on_host(to->program);
    return DT_OK;
}

static dt_status make(
    const dt_plan_set *p, const dt_policies *policies, dt_planned *to, dt_err *err)
{
    dt_memo *memo = dt_memo_create();
    dt_lower_opts lower = dti_plan_set_lower_opts(p, memo);
    dt_status st = make_program(p, policies, &lower, to, err);
    lower.enough = dt_plan_set_peak(p);
    if (st == DT_OK)
        st = dt_lower(&to->plan, to->program, &lower, err);
    dt_memo_destroy(memo);
    if (st != DT_OK)
        return st;
    st = dt_verify(to->plan, err);
    return st == DT_E_DATA ? DT_FAIL(err, DT_E_INTERNAL, "a plan of our own is not sound") : st;
}

/* Which plan failed. */
static dt_status tell_which(
    const dt_plan_set *p, dt_program_kind kind, int64_t n, dt_status st, dt_err *err)
{
    return DT_FAIL(err, st, "plan '%s' for %" PRId64 " samples of %s", dt_program_kind_name(kind),
        n, p->session->graph->name);
}

dt_status dti_plan_set_program(
    const dt_plan_set *p, dt_program_kind kind, int64_t n, dt_program **out, dt_err *err)
{
    dt_planned one = {.kind = kind, .n = n};
    const dt_lower_opts lower = dti_plan_set_lower_opts(p, NULL);
    const dt_status st = make_program(p, p->policies, &lower, &one, err);
    *out = one.program;
    return st == DT_OK ? DT_OK : tell_which(p, kind, n, st, err);
}

dt_status dti_plan_set_peak_with(
    const dt_plan_set *p, const dt_planned *like, uint64_t *peak, dt_err *err)
{
    dt_planned one = {.kind = like->kind, .n = like->n};
    const dt_lower_opts lower = dti_plan_set_lower_opts(p, NULL);
    uint64_t of_one = 0;
    dt_status st = make_program(p, p->policies, &lower, &one, err);
    if (st == DT_OK)
        st = dt_lower_peak(&of_one, one.program, lower.pool, NULL, err);
    *peak = of_one > *peak ? of_one : *peak;
    dt_program_destroy(one.program);
    return st;
}

static void free_planned(dt_planned *p)
{
    if (p == NULL)
        return;
    if (p->program != NULL)
        dt_plan_destroy(p->plan); /* one that was given is not ours */
    dt_program_destroy(p->program);
    dt_free(p);
}

/* ---- what lives on ---- */

static bool early(const dt_plan_set *p)
{
    return p->session->opts.train.update == DT_UPDATE_EARLY &&
           p->asked.batch == p->asked.micro_batch;
}

/* As the plans that were given have it, whatever policies say now; whether these suit, in all else
 * as well, is looked at when they are taken. */
static void given_homes(const dt_plan *p, size_t n, dt_tier *tier)
{
    for (size_t i = 0; i < n && i < p->n_tensor; i++)
        if (p->tensor[i].persistent)
            tier[i] = (dt_tier)p->tensor[i].tier;
}

/* The persistent tensors, at their homes. @loose: early updates leave no gradient a home. */
static dt_status lay_out_so(dt_plan_set *p, bool loose, dt_err *err)
{
    const dt_session *s = p->session;
    DT_CHECK(dt_map_create(&p->map, s->graph, &s->context, p->asked.micro_batch,
        dt_optimizer_state(&s->opts.train), err));
    if (s->opts.train.states == DT_STATES_8BIT)
        DT_CHECK(dt_map_pack_moments(p->map, s->graph, err));
    if (early(p))
        DT_CHECK(dt_map_update_early(p->map, loose, err));
    dt_tier *tier = dt_alloc(p->map->n, sizeof *tier);
    if (tier == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the homes of tensors");
    dt_policies_homes(p->policies, p->map, p->host_homes, tier);
    if (p->asked.given != NULL)
        given_homes(p->asked.given->plan[0], p->map->n, tier);
    else if (p->asked.fates != NULL)
        dt_home_rules_apply(&p->asked.fates->homes, p->map, tier);
    const char *by;
    p->map->delayed_from = dt_policies_delay(p->policies, &by);
    const dt_status st = dt_map_settle(p->map, tier, s->opts.memory.generations == 2, err);
    p->map->slice = updates_at_home(p) ? 0 : s->opts.memory.slice;
    dt_free(tier);
    return st;
}

/* A gradient goes through the host where its processor makes the early updates of a device whose
 * memory it does not reach, and else dies where it was made. */
static dt_status lay_out(dt_plan_set *p, dt_err *err)
{
    const bool through_host =
        dt_policies_host_updates(p->policies) && dt_context_device(&p->session->context) != DT_CPU;
    DT_CHECK(lay_out_so(p, !through_host, err));
    if (!early(p) || !through_host || updates_at_home(p))
        return DT_OK;
    dt_map_destroy(p->map);
    p->map = NULL;
    return lay_out_so(p, true, err);
}

static void forget(dt_plan_set *p)
{
    while (p->n > 0)
        free_planned(p->planned[--p->n]);
}

/* What the host's budget has left beside what moves there within a step is for homes. So the plans
 * are made twice: what moves does not depend on where tensors live. */
static dt_status fill_host(dt_plan_set *p, dt_err *err)
{
    const uint64_t all = p->asked.budgets.tier[DT_TIER_HOST];
    if (all == 0 || !dt_policies_fill_host(p->policies))
        return DT_OK;
    DT_CHECK(dti_plan_set_run(p, true, 0, 0, err));
    const uint64_t used = dt_plan_set_tier_peak(p, DT_TIER_HOST);
    p->host_homes = used < all ? all - used : 0;
    forget(p);
    dt_map_destroy(p->map);
    p->map = NULL;
    return lay_out(p, err);
}

/* Before any is fitted. */
static dt_status first_table(dt_plan_set *p, dt_err *err)
{
    const bool fast = p->algorithms == DT_ALGORITHMS_FAST;
    return dt_algorithm_table_init(
        &p->table, p->session->graph->n_node, fast ? DT_LIMIT_ANY : DT_LIMIT_LEAST, err);
}

/* What is there is a set like any other, but that it names its algorithms itself. */
static dt_status open_given(dt_plan_set *p, dt_err *err)
{
    snprintf(p->list, sizeof p->list, "%s", p->asked.given->plan[0]->policy);
    dt_status st = first_table(p, err);
    if (st == DT_OK)
        st = lay_out(p, err);
    dt_algorithm_table_deinit(&p->table);
    return st;
}

static dt_status make_by(const dt_plan_set *p, const dt_policies *policies, const dt_planned *like,
    dt_planned **out, dt_err *err)
{
    dt_planned *to = dt_alloc(1, sizeof *to);
    if (to == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for plans");
    *to = (dt_planned){.kind = like->kind, .n = like->n, .dense = like->dense};
    const dt_status st = make(p, policies, to, err);
    if (st != DT_OK) {
        free_planned(to);
        to = NULL;
    }
    *out = to;
    return st;
}

/* ---- the plan by which a step is run again whose packed values do not fit ---- */

/* That step must not make a run take more than its others do, or than its budgets. What was packed
 * moves as it is, where the host has room for that; else, as values on the way back may be had by
 * computing them again as well, nothing moves. */
static const char *const instead[] = {"chen_sqrt", "chen_recursive"};

static bool within(const dt_plan_set *p, const dt_plan *usual, const dt_plan *again)
{
    const dt_budgets *b = &p->asked.budgets;
    const uint64_t host = b->tier[DT_TIER_HOST], disk = b->tier[DT_TIER_DISK];
    const uint64_t device = b->device > 0 ? b->device : host > 0 ? UINT64_MAX : usual->peak;
    return again->peak <= device &&
           again->tier_peak[DT_TIER_HOST] <= (host > 0 ? host : usual->tier_peak[DT_TIER_HOST]) &&
           (disk == 0 || again->tier_peak[DT_TIER_DISK] <= disk);
}

/* Takes the place of *out if it is within bounds. */
static dt_status try_instead(
    const dt_plan_set *p, const char *policy, const dt_plan *usual, dt_planned **out, dt_err *err)
{
    dt_policies by = {0};
    dt_planned *other = NULL;
    dt_status st = dt_policies_open(&by, policy, NULL, err);
    if (st == DT_OK)
        st = make_by(p, &by, *out, &other, err);
    dt_policies_close(&by);
    if (st == DT_OK && within(p, usual, other->plan)) {
        free_planned(*out);
        *out = other;
        return DT_OK;
    }
    free_planned(other);
    return st;
}

/* Only where no policy changes values, or the step would have other bits. */
static dt_status fit_again(const dt_plan_set *p, dt_planned **out, dt_err *err)
{
    const dt_planned *usual = dti_plan_set_find(p, (*out)->kind, (*out)->n, false);
    if (usual == NULL || !dti_asked_exactly(p))
        return DT_OK;
    for (size_t i = 0; i < DT_COUNT(instead) && !within(p, usual->plan, (*out)->plan); i++)
        DT_CHECK(try_instead(p, instead[i], usual->plan, out, err));
    return DT_OK;
}

/* ---- one plan more ---- */

static dt_status make_new(
    dt_plan_set *p, dt_program_kind kind, int64_t n, bool dense, dt_planned **out, dt_err *err)
{
    const dt_planned like = {.kind = kind, .n = n, .dense = dense};
    dt_planned *to = NULL;
    dt_status st = make_by(p, p->policies, &like, &to, err);
    if (st == DT_OK && dense)
        st = fit_again(p, &to, err);
    if (st != DT_OK) {
        free_planned(to);
        return tell_which(p, kind, n, st, err);
    }
    p->made++;
    *out = to;
    return DT_OK;
}

/* What was refused before the rung that the plan is of. */
static dt_status tell_refused(const dt_plan_set *p, dt_plan *plan, dt_err *err)
{
    if (p->n_refused == 0 || plan->n_refused > 0)
        return DT_OK;
    plan->refused = dt_alloc(p->n_refused, sizeof *plan->refused);
    if (plan->refused == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for plans");
    for (size_t i = 0; i < p->n_refused; i++) {
        const dt_refused_rung *no = &p->refused[i];
        dt_plan_refusal *to = &plan->refused[plan->n_refused++];
        snprintf(to->policy, sizeof to->policy, "%.*s", (int)sizeof to->policy - 1, no->policy);
        snprintf(
            to->algorithms, sizeof to->algorithms, "%s", dt_algorithms_name((int)no->algorithms));
        snprintf(to->why, sizeof to->why, "%s", no->why);
    }
    return DT_OK;
}

static dt_status get(dt_plan_set *p, dt_program_kind kind, int64_t n, bool dense,
    const dt_planned **out, dt_err *err)
{
    dt_planned *to = NULL;
    *out = dti_plan_set_find(p, kind, n, dense);
    if (*out != NULL)
        return DT_OK;
    if (!dt_grow(&p->planned, &p->cap, p->n, sizeof(dt_planned *)))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for plans");
    for (size_t i = 0; i < p->n_spare && to == NULL; i++)
        if (p->spare[i] != NULL && dti_planned_is(p->spare[i], kind, n, dense)) {
            to = p->spare[i];
            p->spare[i] = NULL;
        }
    if (to == NULL && p->asked.given != NULL)
        DT_CHECK(dti_plan_set_given(p, kind, n, dense, &to, err));
    else if (to == NULL)
        DT_CHECK(make_new(p, kind, n, dense, &to, err));
    p->planned[p->n++] = to;
    *out = to;
    return tell_refused(p, to->plan, err);
}

dt_status dt_plan_set_add(
    dt_plan_set *p, dt_program_kind kind, int64_t n, const dt_planned **out, dt_err *err)
{
    const dt_planned *dense;
    if (kind == DT_PROGRAM_UPDATE)
        n = p->asked.micro_batch;
    DT_CHECK(get(p, kind, n, false, out, err));
    if (!may_overflow((*out)->plan))
        return DT_OK;
    return get(p, kind, n, true, &dense, err);
}

/* ---- the plans of a run ---- */

/* First and further micro-batches of a step of @samples. */
static dt_status add_step(dt_plan_set *p, int64_t samples, dt_err *err)
{
    const dt_planned *x;
    const int64_t micro = p->asked.micro_batch;
    const dt_batches parts = dt_batches_of(samples, micro);
    DT_CHECK(dt_plan_set_add(p, DT_PROGRAM_FIRST, parts.n > 1 ? micro : parts.last, &x, err));
    if (parts.n > 2)
        DT_CHECK(dt_plan_set_add(p, DT_PROGRAM_AGAIN, micro, &x, err));
    if (parts.n > 1)
        DT_CHECK(dt_plan_set_add(p, DT_PROGRAM_AGAIN, parts.last, &x, err));
    return DT_OK;
}

dt_status dti_plan_set_run(dt_plan_set *p, bool eval, int64_t last, int64_t eval_last, dt_err *err)
{
    const dt_planned *x;
    DT_CHECK(add_step(p, p->asked.batch, err));
    if (last > 0)
        DT_CHECK(add_step(p, last, err));
    DT_CHECK(dt_plan_set_add(p, DT_PROGRAM_UPDATE, 0, &x, err));
    if (eval)
        DT_CHECK(dt_plan_set_add(p, DT_PROGRAM_EVAL, p->asked.micro_batch, &x, err));
    if (eval && eval_last > 0)
        DT_CHECK(dt_plan_set_add(p, DT_PROGRAM_EVAL, eval_last, &x, err));
    return DT_OK;
}

/* ---- the algorithms ---- */

/* A choice under way. */
typedef struct fitting {
    dt_plan_set *set;
    dt_fitted *all;
    size_t cap;
} fitting;

/* The set's programs go by its own table, which is the one that is tried. */
static dt_status try_table(
    void *self, const dt_algorithm_table *by, const dt_fitted **all, size_t *n, dt_err *err)
{
    fitting *f = self;
    dt_plan_set *p = f->set;
    DT_ASSERT(by == &p->table);
    forget(p);
    DT_CHECK(dti_plan_set_run(p, true, 0, 0, err));
    for (*n = 0; *n < p->n; (*n)++) {
        if (!dt_grow(&f->all, &f->cap, *n, sizeof *f->all))
            return DT_FAIL(err, DT_E_NOMEM, "no memory to choose algorithms");
        f->all[*n] = (dt_fitted){p->planned[*n]->program, p->planned[*n]->plan};
    }
    *all = f->all;
    return DT_OK;
}

static dt_status step_seconds(void *self, double *out, dt_err *err)
{
    const fitting *f = self;
    dt_prediction of;
    DT_CHECK(dt_plan_set_predict(f->set, &of, err));
    *out = of.seconds;
    return DT_OK;
}

static dt_status fit(dt_plan_set *p, dt_err *err)
{
    fitting f = {.set = p};
    const dt_fit_env e = {
        .budget = p->asked.budgets.device, .plan = try_table, .self = &f, .seconds = step_seconds};
    const dt_status st = dt_fit_algorithms(&e, &p->table, err);
    forget(p);
    dt_free(f.all);
    return st;
}

/* Policies and the choice of algorithms are there, and none of the policies is a ladder. */
dt_status dti_plan_set_open(dt_plan_set *p, dt_err *err)
{
    dt_policies_list(p->policies, p->list);
    DT_CHECK(first_table(p, err));
    DT_CHECK(lay_out(p, err));
    DT_CHECK(fill_host(p, err));
    return p->algorithms == DT_ALGORITHMS_FIT && !p->asked.quick ? fit(p, err) : DT_OK;
}

/* What a paper's way of counting comes to is no plan. */
dt_status dt_session_check_no_account(const dt_session *s, dt_err *err)
{
    char asked[DT_ASKED];
    if (s->opts.memory.account == NULL)
        return DT_OK;
    return DT_FAIL(err, DT_E_CONFIG,
        "%s: an account is a paper's way of counting, which nothing can run; `dnntrain plan` shows "
        "its figures, and for all else leave it out",
        dt_session_asked(asked, s, "memory", "account"));
}

dt_status dt_plan_set_create(
    dt_plan_set **out, const dt_session *s, const dt_plan_request *r, dt_err *err)
{
    *out = NULL;
    DT_CHECK(dt_session_check_no_account(s, err));
    if (r->given == NULL && dt_policies_ladder(r->policies) != NULL)
        return dti_plan_set_by_ladder(out, s, r, err);
    if (r->given == NULL && dt_policies_home_choices(r->policies) > 1 &&
        dt_policies_home_budget(r->policies, r->budgets.device) > 0)
        return dti_plan_set_by_choice(out, s, r, err);
    if (r->given == NULL && dti_takes_homes(r))
        return dti_plan_set_with_homes(out, s, r, err);
    dt_plan_set *p = dt_alloc(1, sizeof *p);
    if (p == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for plans");
    *p = (dt_plan_set){
        .session = s, .asked = *r, .policies = r->policies, .algorithms = r->algorithms};
    const dt_status st = r->given != NULL ? open_given(p, err) : dti_plan_set_open(p, err);
    if (st != DT_OK) {
        dt_plan_set_destroy(p);
        return st;
    }
    *out = p;
    return DT_OK;
}

/* What plans take, as budgets, of which 0 would be any. */
static dt_budgets taken_by(const dt_plan_set *of)
{
    const uint64_t device = dt_plan_set_peak(of);
    dt_budgets b = {.device = device > 0 ? device : 1};
    for (int tier = 0; tier < DT_TIERS; tier++) {
        const uint64_t bytes = dt_plan_set_tier_peak(of, (dt_tier)tier);
        b.tier[tier] = bytes > 0 ? bytes : 1;
    }
    return b;
}

dt_status dti_plan_set_again(dt_plan_set **out, const dt_plan_set *of, dt_err *err)
{
    *out = NULL;
    dt_plan_set *p = dt_alloc(1, sizeof *p);
    if (p == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for plans");
    *p = (dt_plan_set){.session = of->session,
        .asked = of->asked,
        .policies = of->policies,
        .algorithms = of->algorithms,
        .host_homes = of->host_homes};
    p->asked.kept = false;
    p->asked.budgets = taken_by(of);
    memcpy(p->list, of->list, sizeof p->list);
    dt_status st = dt_algorithm_table_init(&p->table, of->table.n, DT_LIMIT_ANY, err);
    if (st == DT_OK) {
        memcpy(p->table.limit, of->table.limit, of->table.n * sizeof *of->table.limit);
        st = lay_out(p, err);
    }
    if (st != DT_OK) {
        dt_plan_set_destroy(p);
        return st;
    }
    *out = p;
    return DT_OK;
}

void dt_plan_set_destroy(dt_plan_set *p)
{
    if (p == NULL)
        return;
    forget(p);
    for (size_t i = 0; i < p->n_spare; i++)
        free_planned(p->spare[i]);
    dt_free(p->spare);
    dt_free(p->planned);
    dt_free(p->refused);
    dt_map_destroy(p->map);
    dt_algorithm_table_deinit(&p->table);
    dt_policies_close(&p->rung);
    dt_free(p);
}

const dt_planned *dti_plan_set_find(
    const dt_plan_set *p, dt_program_kind kind, int64_t n, bool dense)
{
    for (size_t i = 0; i < p->n; i++)
        if (dti_planned_is(p->planned[i], kind, n, dense))
            return p->planned[i];
    return NULL;
}
