/* Plans of policies for variants of a configuration, under budgets, and which of them none is ahead
 * of. */
#include "session/compare.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/clock.h"
#include "engine/base/mix.h"
#include "session/human.h"
#include "session/parts.h"

enum { USUAL = 6 }; /* budgets, where nobody says how many */

const dt_compare_row *dt_compare_kept(const dt_compare *c, const dt_compare_row *r)
{
    return &c->row[c->under[r->variant].kept];
}

bool dt_compare_fits(const dt_compare_row *r, uint64_t budget)
{
    return r->refused == NULL && r->can && r->need.device <= budget;
}

bool dt_compare_is_new(const dt_compare_row *r)
{
    return r->refused == NULL && !r->again && !r->missed;
}

static bool lives_elsewhere(const dt_compare_row *r)
{
    uint64_t bytes = 0;
    for (int t = DT_TIER_HOST; t < DT_TIERS; t++)
        bytes += r->lives[t];
    return bytes > 0;
}

double dt_compare_least(const dt_compare *c, const dt_compare_row *r, size_t b)
{
    const dt_compare_under *u = &c->under[r->variant];
    const bool fits = b < DT_COMPARE_BUDGETS && r->need.device <= u->budget[b];
    if (r->own_least)
        return r->least[!(fits && u->budget[b] == r->budget)];
    return u->least[fits ? b : DT_COMPARE_BUDGETS];
}

const dt_variant *dt_compare_variant(const dt_compare *c, const dt_compare_row *r)
{
    return &c->variants.variant[r->variant];
}

const char *dt_compare_costs(const dt_compare_row *r)
{
    return r->time.known ? dt_costs_word(&r->session->costs) : dt_costs_word(&dt_costs_default);
}

const char *dt_compare_why(const dt_compare_row *r, char *to, size_t bytes)
{
    size_t at = 0;
    to[0] = '\0';
    for (const char *line = r->refused; *line != '\0' && at < bytes;) {
        const size_t n = strcspn(line, "\n");
        at += (size_t)snprintf(to + at, bytes - at, "%s%.*s", at > 0 ? "; " : "", (int)n, line);
        line += n + (line[n] == '\n');
    }
    return to;
}

dt_compare_shared dt_compare_share(const dt_compare *c)
{
    const dt_session *s = c->session;
    dt_compare_shared all = {true, true, true, true, true, true};
    for (size_t v = 0; v < c->variants.n; v++) {
        const dt_session *x = c->variants.variant[v].session;
        if (x == NULL)
            continue;
        all.batch = all.batch && x->opts.train.batch == s->opts.train.batch;
        all.device = all.device && x->context.device == s->context.device &&
                     x->context.card == s->context.card;
        all.precision =
            all.precision && strcmp(dt_session_precision(x), dt_session_precision(s)) == 0;
        all.network = all.network && strcmp(x->graph->name, s->graph->name) == 0 &&
                      dt_graph_parameters(x->graph) == dt_graph_parameters(s->graph);
        all.costs = all.costs && strcmp(x->costs.name, s->costs.name) == 0;
        all.simulated = all.simulated && x->costs.simulated;
    }
    return all;
}

static dt_status no_memory(dt_err *err)
{
    return DT_FAIL(err, DT_E_NOMEM, "no memory to compare");
}

/* ---- which budgets ---- */

static dt_status check_listed(const dt_session *s, const dt_compare_budgets *asked, dt_err *err)
{
    char most[DT_HUMAN_EXACT], what[DT_HUMAN_EXACT + 16];
    if (asked->n == 0 || s->context.card == NULL)
        return DT_OK;
    const uint64_t largest = asked->budget[asked->n - 1];
    snprintf(what, sizeof what, "--budgets %s", dt_human_exact(most, largest));
    return dti_check_card_budget(s->context.card, largest, what, err);
}

/* Gives how many there are to be, evenly spread; 0: they are named. */
static int64_t take_budgets(
    dt_compare_under *u, const dt_session *s, const dt_compare_budgets *asked)
{
    const uint64_t own = s->opts.memory.device_budget;
    if (asked->evenly > 0)
        return asked->evenly;
    if (asked->n == 0 && own == 0)
        return USUAL;
    u->n = asked->n > 0 ? asked->n : 1;
    memcpy(u->budget, asked->n > 0 ? asked->budget : &own, u->n * sizeof *u->budget);
    return 0;
}

static dt_status take_all_budgets(
    dt_compare *c, const dt_compare_budgets *asked, int64_t *evenly, dt_err *err)
{
    for (size_t v = 0; v < c->variants.n; v++) {
        const dt_session *s = c->variants.variant[v].session;
        if (s == NULL)
            continue;
        DT_CHECK(check_listed(s, asked, err));
        const int64_t of_one = take_budgets(&c->under[v], s, asked);
        *evenly = of_one > 0 ? of_one : *evenly;
    }
    return DT_OK;
}

/* Budgets that are to be found end there: @most, or what the card has that plans are made for. */
static uint64_t end_of_budgets(const dt_compare *c, size_t variant, uint64_t most)
{
    const dt_session *s = c->variants.variant[variant].session;
    const uint64_t own = s->opts.memory.device_budget;
    return s->context.card != NULL && own < most ? own : most;
}

/* Options of a policy, by which variants of one keep_all may differ, do not matter to it. */
static dt_status find_least(const dt_compare *c, size_t variant, dt_err *err)
{
    dt_compare_under *u = &c->under[variant];
    const size_t of_kept = c->row[u->kept].variant;
    if (of_kept != variant) {
        memcpy(u->least, c->under[of_kept].least, sizeof u->least);
        return DT_OK;
    }
    const dt_session *s = c->variants.variant[variant].session;
    const dt_plan_request q = dt_session_request(s);
    dt_plan_set *p = NULL;
    dt_status st = dt_plan_set_create(&p, s, &q, err);
    for (size_t b = 0; st == DT_OK && b < u->n; b++)
        st = dt_plan_set_bound(p, u->budget[b], &u->least[b], err);
    if (st == DT_OK)
        st = dt_plan_set_bound(p, 0, &u->least[DT_COMPARE_BUDGETS], err);
    dt_plan_set_destroy(p);
    return st;
}

static dt_status find_all_least(const dt_compare *c, dt_err *err)
{
    for (size_t v = 0; v < c->variants.n; v++) {
        dt_session *s = c->variants.variant[v].session;
        if (s == NULL || c->row[c->under[v].kept].refused != NULL)
            continue;
        dti_session_enter(s);
        const dt_status st = find_least(c, v, err);
        dti_session_leave(s);
        DT_CHECK(st);
    }
    return DT_OK;
}

/* ---- plans ---- */

static bool in_other_tiers(const dt_plan_set *p)
{
    const dt_need need = dt_plan_set_need(p);
    dt_available have = dt_plan_set_available(p);
    have.device = UINT64_MAX;
    return dt_need_fits(&need, &have);
}

/* Of the limits that say which algorithm each op takes. */
static uint64_t sum_of(const dt_algorithm_table *t)
{
    return dt_fnv_add(DT_FNV, t->limit, t->n * sizeof *t->limit);
}

static dt_status describe(dt_compare_row *r, const dt_plan_set *p, dt_err *err)
{
    r->exact = dt_plan_set_exact(p);
    r->can = dti_plan_set_check_statistics(p, NULL) == DT_OK &&
             dti_plan_set_check_updates(p, NULL) == DT_OK && in_other_tiers(p) &&
             !(dt_policies_ladder(r->policies) != NULL &&
                 r->session->opts.memory.algorithms != DT_ALGORITHMS_FAST);
    r->algorithms = sum_of(&p->table);
    r->need = dt_plan_set_need(p);
    r->floor = dti_plan_set_floor(p);
    r->score = dt_plan_set_score(p);
    r->traffic = dt_plan_set_traffic(p);
    for (int t = DT_TIER_HOST; t < DT_TIERS; t++)
        r->lives[t] = p->map->tier_bytes[t];
    r->own_least = lives_elsewhere(r) || dti_plan_set_least_share(p) < 1;
    if (r->own_least) {
        DT_CHECK(dt_plan_set_bound(p, r->budget, &r->least[0], err));
        DT_CHECK(dt_plan_set_bound(p, 0, &r->least[1], err));
    }
    for (size_t i = 0; i < p->n; i++)
        r->bound = p->planned[i]->plan->bound > r->bound ? p->planned[i]->plan->bound : r->bound;
    dti_plan_set_too_small(r->too_small, p);
    return dt_plan_set_predict(p, &r->time, err);
}

static void forget(dt_compare_row *r)
{
    dt_plan_set_destroy(r->plans);
    if (r->policies != NULL)
        dt_policies_close(r->policies);
    dt_free(r->policies);
    r->plans = NULL;
    r->policies = NULL;
}

static dt_status plan_row(dt_compare_row *r, bool keep, dt_err *err)
{
    dt_plan_request q = dt_session_request(r->session);
    r->policies = dt_alloc(1, sizeof *r->policies);
    if (r->policies == NULL)
        return no_memory(err);
    q.policies = r->policies;
    q.budgets.device = r->budget;
    dt_status st = dt_policies_open(r->policies, r->policy, r->session->config, err);
    r->at_once = st == DT_OK && dti_session_leaves_parts_to(r->session, r->policies);
    if (st == DT_OK)
        st = dt_plan_set_create(&r->plans, r->session, &q, err);
    if (st == DT_OK)
        st = dti_plan_set_run(r->plans, true, 0, 0, err);
    if (st == DT_OK)
        st = describe(r, r->plans, err);
    if (st != DT_OK || !keep)
        forget(r);
    return st == DT_OK ? st : DT_FAIL(err, st, "while planning %s", r->policy);
}

static dt_status refuse(dt_compare_row *r, const char *why, dt_err *err)
{
    r->refused = dt_strdup(why);
    return r->refused != NULL ? DT_OK : no_memory(err);
}

/* Of several variants one that cannot be planned is a row that says so, and so is a policy that
 * nobody named. */
static dt_status plan_or_refuse(const dt_compare *c, dt_compare_row *r, bool named, dt_err *err)
{
    if (c->variants.n == 1 && named)
        return plan_row(r, c->run, err);
    dt_err *why = dt_alloc(1, sizeof *why);
    if (why == NULL)
        return no_memory(err);
    dt_status st = plan_row(r, c->run, why);
    if (st == DT_E_NOMEM)
        (void)no_memory(err);
    else if (st != DT_OK)
        st = refuse(r, why->text, err);
    dt_free(why);
    return st;
}

static dt_compare_row row_of(const dt_compare *c, const dt_variant_list *pair, uint64_t budget)
{
    return (dt_compare_row){.policy = c->lists.list[pair->list],
        .list = pair->list,
        .variant = pair->variant,
        .session = c->variants.variant[pair->variant].session,
        .budget = budget};
}

static dt_status fill_row(const dt_compare *c, dt_compare_row *r, bool named, dt_err *err)
{
    const dt_variant *v = &c->variants.variant[r->variant];
    const double began = dt_seconds();
    if (v->session == NULL)
        return refuse(r, v->refused, err);
    if (r->list > 0 && dt_compare_kept(c, r)->refused != NULL)
        return refuse(r, dt_compare_kept(c, r)->refused, err);
    dti_session_enter(v->session);
    const dt_status st = plan_or_refuse(c, r, named, err);
    dti_session_leave(v->session);
    if (c->planned != NULL && dt_seconds() - began > 1)
        c->planned(c, r, v, dt_seconds() - began);
    return st;
}

static bool same_plans(const dt_compare_row *a, const dt_compare_row *b)
{
    return a->need.device == b->need.device &&
           memcmp(a->need.tier, b->need.tier, sizeof a->need.tier) == 0 &&
           !(a->time.seconds < b->time.seconds) && !(a->time.seconds > b->time.seconds);
}

static dt_status add_row(dt_compare *c, const dt_variant_list *pair, uint64_t budget, dt_err *err)
{
    if (!dt_grow(&c->row, &c->cap, c->n, sizeof *c->row))
        return no_memory(err);
    dt_compare_row *r = &c->row[c->n];
    *r = row_of(c, pair, budget);
    DT_CHECK(fill_row(c, r, !c->lists.unasked[r->list], err));
    r->other_algorithms = r->refused == NULL && r->algorithms != dt_compare_kept(c, r)->algorithms;
    r->again = c->n > 0 && r->refused == NULL && r[-1].refused == NULL && r[-1].list == r->list &&
               r[-1].variant == r->variant && !r[-1].missed && same_plans(r, &r[-1]);
    c->n++;
    return DT_OK;
}

/* ---- in which order ---- */

/* Whether a list goes by budgets. keep_all does not, so that the others can be held against it. */
static dt_status by_budget(const dt_compare *c, const dt_variant_list *pair, bool *yes, dt_err *err)
{
    const dt_session *s = c->variants.variant[pair->variant].session;
    dt_policies p;
    *yes = false;
    if (pair->list == 0 || s == NULL)
        return DT_OK;
    *yes = s->opts.memory.algorithms == DT_ALGORITHMS_FIT;
    const dt_status st = dt_policies_open(&p, c->lists.list[pair->list], s->config, err);
    for (size_t i = 0; i < p.n && st == DT_OK; i++) {
        const dt_policy *one = p.pass[i].policy;
        *yes = *yes || dt_policy_goes_by_budget(one);
    }
    dt_policies_close(&p);
    return st;
}

/* The pairs of keep_all, the first list, come first, each with a variant more and one row. */
static void find_kept(dt_compare *c)
{
    for (size_t v = 0; v < c->variants.n; v++) {
        const size_t kept = dti_variants_for(&c->variants, v, 0);
        DT_ASSERT(c->variants.pair[kept].list == 0 && c->variants.pair[kept].variant == kept);
        c->under[v].kept = kept;
    }
}

/* First those that go by no budget, as what they take may say which budgets there are. */
static dt_status plan_unbudgeted(dt_compare *c, bool *by, dt_err *err)
{
    for (size_t p = 0; p < c->variants.n_pair; p++) {
        const dt_variant_list *pair = &c->variants.pair[p];
        DT_CHECK(by_budget(c, pair, &by[p], err));
        if (by[p])
            continue;
        for (size_t b = 0; b < DT_COMPARE_BUDGETS; b++)
            c->of[p][b] = c->n;
        DT_CHECK(add_row(c, pair, 0, err));
    }
    return DT_OK;
}

/* The least that an exact policy takes where budgets are to be found. */
static void take_less(const dt_compare *c, const dt_compare_row *r, uint64_t *least)
{
    if (r->refused == NULL && c->under[r->variant].n == 0 && r->exact && r->can &&
        r->need.device < *least)
        *least = r->need.device;
}

/* Where all lists go by budgets, what those policies take that do not. */
static dt_status find_least_of_all(
    const dt_compare *c, size_t variant, uint64_t *least, dt_err *err)
{
    size_t n;
    const dt_policy *const *all = dt_policy_all(&n);
    const dt_variant_list first = {.variant = variant};
    for (size_t i = 0; i < n; i++) {
        dt_compare_row r = row_of(c, &first, 0);
        if (dt_policy_goes_by_budget(all[i]) || r.session == NULL)
            continue;
        r.policy = all[i]->name;
        const dt_status st = fill_row(c, &r, false, err);
        if (st == DT_OK)
            take_less(c, &r, least);
        forget(&r);
        dt_free(r.refused);
        DT_CHECK(st);
    }
    return DT_OK;
}

/* From the least of any exact policy to what keep_all takes, over all variants, so that they can be
 * held against each other; on a card that is named to what it has. */
static dt_status even_budgets(dt_compare *c, int64_t n, dt_err *err)
{
    uint64_t least = UINT64_MAX, most = 0;
    for (size_t i = 0; i < c->n; i++) {
        const dt_compare_row *r = &c->row[i];
        if (r->refused != NULL || c->under[r->variant].n > 0)
            continue;
        const uint64_t kept = dt_compare_kept(c, r)->need.device;
        most = kept > most ? kept : most;
        take_less(c, r, &least);
    }
    const bool none = least >= most;
    for (size_t v = 0; v < c->variants.n && none; v++)
        DT_CHECK(find_least_of_all(c, v, &least, err));
    for (size_t v = 0; v < c->variants.n; v++) {
        dt_compare_under *u = &c->under[v];
        if (c->variants.variant[v].session == NULL || u->n > 0)
            continue;
        const uint64_t end = end_of_budgets(c, v, most), begin = least < end ? least : end;
        for (; u->n < (size_t)n; u->n++) {
            const double share = n == 1 ? 1 : (double)u->n / (double)(n - 1);
            u->budget[u->n] = begin + (uint64_t)((double)(end - begin) * share);
        }
    }
    return DT_OK;
}

/* Without keep_all there is nothing to compare with. */
static dt_status check_kept(const dt_compare *c, dt_err *err)
{
    char why[1024];
    const dt_compare_row *first = NULL;
    for (size_t i = 0; i < c->n && c->row[i].list == 0; i++) {
        if (c->row[i].refused == NULL)
            return DT_OK;
        first = first == NULL ? &c->row[i] : first;
    }
    DT_ASSERT(first != NULL);
    return DT_FAIL(err, DT_E_CONFIG, "%s", dt_compare_why(first, why, sizeof why));
}

/* Of what lives elsewhere less comes ahead where the budget wants it: then a list that goes by none
 * takes less, too. */
static dt_status plan_closer(dt_compare *c, size_t p, size_t b, uint64_t budget, dt_err *err)
{
    const dt_compare_row *r = &c->row[c->of[p][b]];
    if (r->refused != NULL || !lives_elsewhere(r) || r->need.device <= budget)
        return DT_OK;
    c->of[p][b] = c->n;
    DT_CHECK(add_row(c, &c->variants.pair[p], budget, err));
    dt_compare_row *closer = &c->row[c->n - 1];
    closer->missed = closer->refused == NULL && closer->need.device > budget;
    return DT_OK;
}

static dt_status plan_budgeted(dt_compare *c, const bool *by, dt_err *err)
{
    for (size_t p = 0; p < c->variants.n_pair; p++) {
        const dt_variant_list *pair = &c->variants.pair[p];
        const dt_compare_under *u = &c->under[pair->variant];
        for (size_t b = 0; b < u->n; b++) {
            if (!by[p]) {
                DT_CHECK(plan_closer(c, p, b, u->budget[b], err));
                continue;
            }
            c->of[p][b] = c->n;
            DT_CHECK(add_row(c, pair, u->budget[b], err));
        }
    }
    return DT_OK;
}

/* ---- the front of auto ---- */

bool dt_compare_is_auto(const char *list)
{
    static const char name[] = "auto";
    for (const char *at = list; *at != '\0'; at += strcspn(at, ","), at += *at == ',') {
        at += strspn(at, " \t");
        if (strncmp(at, name, strlen(name)) == 0 && strchr(", \t", at[strlen(name)]) != NULL)
            return true;
    }
    return false;
}

/* What the front lies between: the least that an exact row takes, and keep_all. */
static uint64_t least_exact(const dt_compare *c, size_t variant)
{
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < c->n; i++) {
        const dt_compare_row *r = &c->row[i];
        if (r->variant == variant && r->refused == NULL && r->exact && r->can &&
            r->need.device < least)
            least = r->need.device;
    }
    return least;
}

static bool is_budget(const dt_compare_under *u, uint64_t budget)
{
    for (size_t b = 0; b < u->n; b++)
        if (u->budget[b] == budget)
            return true;
    return false;
}

static dt_status add_front(dt_compare *c, const dt_variant_list *pair, dt_err *err)
{
    const dt_compare_row *kept = &c->row[c->under[pair->variant].kept];
    if (kept->refused != NULL)
        return DT_OK;
    const uint64_t least = least_exact(c, pair->variant);
    const uint64_t most = end_of_budgets(c, pair->variant, kept->need.device);
    if (least > most)
        return DT_OK;
    for (int i = 0; i < DT_COMPARE_FRONT; i++) {
        const double share = (double)i / (DT_COMPARE_FRONT - 1);
        const uint64_t budget = least + (uint64_t)((double)(most - least) * share);
        if (is_budget(&c->under[pair->variant], budget))
            continue;
        DT_CHECK(add_row(c, pair, budget, err));
        c->row[c->n - 1].front = true;
    }
    return DT_OK;
}

static dt_status plan_front(dt_compare *c, dt_err *err)
{
    for (size_t p = 0; p < c->variants.n_pair && c->front; p++)
        if (dt_compare_is_auto(c->lists.list[c->variants.pair[p].list]))
            DT_CHECK(add_front(c, &c->variants.pair[p], err));
    return DT_OK;
}

/* ---- which are ahead ---- */

static size_t group_of(const dt_compare *c, const dt_compare_row *r)
{
    return c->variants.variant[r->variant].group;
}

static bool ahead_of(const dt_compare *c, const dt_compare_row *a, const dt_compare_row *b)
{
    return a->refused == NULL && group_of(c, a) == group_of(c, b) && a->exact && a->can &&
           a->need.device <= b->need.device && a->time.seconds <= b->time.seconds &&
           (a->need.device < b->need.device || a->time.seconds < b->time.seconds);
}

static void mark_best(dt_compare *c)
{
    for (size_t i = 0; i < c->n; i++) {
        dt_compare_row *r = &c->row[i];
        r->best = dt_compare_is_new(r) && r->exact && r->can;
        for (size_t k = 0; k < c->n && r->best; k++)
            r->best = !ahead_of(c, &c->row[k], r);
        for (size_t k = 0; k < i && r->best; k++) /* of several that are alike the first */
            r->best = !(c->row[k].best && group_of(c, &c->row[k]) == group_of(c, r) &&
                        same_plans(&c->row[k], r));
    }
}

dt_status dt_compare_plan(dt_compare *c, const dt_compare_budgets *asked, dt_err *err)
{
    int64_t evenly = 0;
    c->under = dt_alloc(c->variants.n, sizeof *c->under);
    c->of = dt_alloc(c->variants.n_pair, sizeof *c->of);
    bool *by = dt_alloc(c->variants.n_pair, sizeof *by);
    dt_status st = c->under != NULL && c->of != NULL && by != NULL ? DT_OK : no_memory(err);
    if (st == DT_OK) {
        find_kept(c);
        st = take_all_budgets(c, asked, &evenly, err);
    }
    if (st == DT_OK)
        st = plan_unbudgeted(c, by, err);
    if (st == DT_OK)
        st = check_kept(c, err);
    if (st == DT_OK && evenly > 0)
        st = even_budgets(c, evenly, err);
    if (st == DT_OK)
        st = plan_budgeted(c, by, err);
    if (st == DT_OK)
        st = plan_front(c, err);
    if (st == DT_OK)
        st = find_all_least(c, err);
    if (st == DT_OK) {
        mark_best(c);
        dti_compare_mark_in_vain(c);
    }
    dt_free(by);
    return st;
}

void dt_compare_close(dt_compare *c)
{
    for (size_t i = 0; i < c->n; i++) {
        forget(&c->row[i]);
        dt_free(c->row[i].refused);
    }
    dt_free(c->row);
    dt_free(c->under);
    dt_free(c->of);
    dti_variants_close(&c->variants);
    dt_policy_lists_close(&c->lists);
}
