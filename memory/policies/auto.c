/* All policies at once. A front of plans is made for the program: each exact policy by itself, each
 * pair of one that offloads or encodes with one that recomputes, and, at sixteen budgets evenly
 * from the least peak to keep_all's and at the run's own, those that go by a budget and what a
 * search makes of the best; all placed by the run's pool and timed by the simulator. A run takes
 * the fastest that fits. So no policy or pair is ahead of it, and of the sixteen budgets a lower
 * one never gives a higher peak nor a shorter step.
 *
 * Where no plan fits, a run tries the same with the homes of each policy that has some, those on
 * the host first (session/plan_set.c): what lives elsewhere is away for the whole step, so none of
 * this file's plans is better for it but by its bytes.
 *
 * The search gives each value one of three fates: kept, made again, or offloaded and fetched so far
 * ahead that its copy takes no longer. Which are made again is the abstract problem of
 * memory/remat, whose budget real plans correct; annealing then flips fates by real plans. It
 * counts moves, never seconds: the same program and costs give the same plan. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/mix.h"
#include "memory/lower/lower.h"
#include "memory/kept.h"
#include "memory/policies/auto_front.h"
#include "memory/policies/chen.h"
#include "memory/policy.h"
#include "memory/remat/of_program.h"

static const double slack = 1.5; /* of a copy: others may be before it */
enum { BUDGETS = 16, MOST_PLANS = DTI_MOST_FOUND, ROUNDS = 3, MOVES_AN_OP = 40 };

typedef struct options {
    bool lossy;
    int64_t moves;
} options;

#define AT(f) offsetof(options, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"lossy", DT_OPT_BOOL, AT(lossy), "off", 0, 0, NULL, NULL, "take policies that change results, too"},
    {"moves", DT_OPT_I64,  AT(moves), "40",  0, 100000, NULL, NULL, "of annealing at each of sixteen budgets; 0: none"},
    {NULL,    DT_OPT_I64,  0,         NULL,  0, 0, NULL, NULL, NULL},
};
/* clang-format on */

enum { KEEP, AGAIN, AWAY, FATES = DTI_FATES }; /* fates of a value */

typedef dti_found found;

typedef struct search {
    dt_program *p;
    const dt_pass_env *env;
    const options *o;
    size_t n;
    found plan[MOST_PLANS];
    uint64_t least, most; /* device peaks between which budgets lie */
    size_t n_op;          /* of the program as it came: it grows when the plan is taken */
    double *seconds, ops; /* by op of it, and of all */
    size_t n_value;
    int32_t *tensor; /* by value */
    struct value *value;
    uint64_t drawn;
} search;

/* A value that forward can make again: bytes, seconds in which it is made, and in which it goes to
 * the host; and its number. */
typedef struct value {
    double bytes, again, away;
    size_t number;
} value;

/* ---- one try ---- */

static bool better(
    const dt_pass_env *e, const dt_pass_cost *a, const dt_pass_cost *b, uint64_t most)
{
    const bool fits_a = a->device <= most && dti_pass_fits(e, a);
    const bool fits_b = b->device <= most && dti_pass_fits(e, b);
    if (fits_a != fits_b)
        return fits_a;
    if (!fits_a && a->device != b->device)
        return a->device < b->device;
    return a->seconds != b->seconds ? a->seconds < b->seconds : a->device < b->device;
}

static dt_status apply_list(
    const search *s, const char *list, uint64_t budget, dt_program *to, dt_err *err)
{
    dt_policies ps;
    dt_pass_env e = *s->env;
    e.budgets.device = budget;
    dt_status st = dt_policies_open(&ps, list, NULL, err);
    if (st == DT_OK)
        st = dt_policies_apply(&ps, to, &e, err);
    dt_policies_close(&ps);
    return st;
}

/* Seconds of an op; of one that recomputes those of what it repeats. */
static double seconds_of(const search *s, const dt_program *p, int32_t number)
{
    const dt_op *op = &p->op[number];
    const int32_t same = op->kind == DT_OP_RECOMPUTE ? op->recompute_of : number;
    return (size_t)same < s->n_op ? s->seconds[same] : 0;
}

/* The op before which a value must be asked for, that its copy be done when it is read. */
static int32_t ahead_of(const search *s, const dt_program *p, const dt_gap *g)
{
    const double wanted = slack * dti_pass_fetch_seconds(s->env, p->tensor[g->tensor].bytes);
    double have = 0;
    int32_t at = g->to_pos;
    const int32_t loss = dt_pos(p, p->loss), first = loss > g->from_pos ? loss : g->from_pos;
    while (at > first + 1 && have < wanted)
        have += seconds_of(s, p, p->order[--at]);
    return p->order[at];
}

/* The op behind which its copy out is done, and nobody has to wait for that. */
static int32_t behind(const search *s, const dt_program *p, const dt_gap *g)
{
    const double wanted = slack * dti_pass_fetch_seconds(s->env, p->tensor[g->tensor].bytes);
    double have = 0;
    int32_t at = g->from_pos;
    const int32_t loss = dt_pos(p, p->loss);
    while (at < loss && have < wanted)
        have += seconds_of(s, p, p->order[++at]);
    return p->order[at];
}

static dt_status offload(const search *s, dt_program *p, int32_t tensor, dt_err *err)
{
    dt_gap g;
    DT_CHECK(dt_program_index(p, err));
    for (int32_t i = 0; dt_gap_next(p, tensor, &i, &g);) {
        if (!g.crosses_loss)
            continue;
        const dt_offload_opt o = {.release_after = behind(s, p, &g),
            .fetch_before = ahead_of(s, p, &g),
            .tier = DT_TIER_INPUT};
        DT_CHECK(dt_reasons_add(&p->reasons, &g.reason, err,
            "auto: %.48s waits there, which takes least time", p->tensor[tensor].name));
        return dti_offload(p, &g, &o, err);
    }
    return DT_OK;
}

static dt_status apply_fates(const search *s, const uint8_t *fates, dt_program *to, dt_err *err)
{
    dt_chen c;
    to->policy = "auto";
    dt_status st = dti_chen_open(&c, to, err);
    for (size_t i = 0; st == DT_OK && i < c.n && i < s->n_value; i++)
        if (fates[i] == AGAIN) {
            c.dropped[c.value[i].tensor] = true;
            st = dt_reasons_add(&to->reasons, &c.reason[c.value[i].tensor], err,
                "auto: %.48s is made again, which takes least time",
                to->tensor[c.value[i].tensor].name);
        }
    if (st == DT_OK)
        st = dti_chen_rewrite(&c, err);
    for (size_t i = 0; st == DT_OK && i < c.n && i < s->n_value; i++)
        if (fates[i] == AWAY)
            st = offload(s, to, c.value[i].tensor, err);
    dti_chen_close(&c);
    return st == DT_OK && to->loss != DT_NONE ? dti_fetch_again(to, err) : st;
}

static dt_status make(const search *s, const found *f, dt_program *to, dt_err *err)
{
    return f->fate != NULL ? apply_fates(s, f->fate, to, err)
                           : apply_list(s, f->list, f->budget, to, err);
}

static void look(const dt_program *p, found *f)
{
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op_kind k = p->op[p->order[i]].kind;
        f->offloads = f->offloads || k == DT_OP_OUT;
        f->encodes = f->encodes || k == DT_OP_ENCODE;
        f->recomputes = f->recomputes || k == DT_OP_RECOMPUTE;
    }
}

static dt_status try_it(const search *s, found *f, dt_err *err)
{
    dt_program *copy = NULL;
    dt_status st = dt_program_copy(&copy, s->p, err);
    if (st == DT_OK)
        st = dt_program_index(copy, err);
    if (st == DT_OK)
        st = make(s, f, copy, err);
    if (st == DT_OK)
        st = dti_pass_cost_of(s->env, copy, &f->cost, err);
    if (st == DT_OK)
        look(copy, f);
    dt_program_destroy(copy);
    return st;
}

/* Tries it, and keeps it if there is room. */
static dt_status add(search *s, const found *f, dt_err *err)
{
    if (s->n == MOST_PLANS)
        return DT_OK;
    s->plan[s->n] = *f;
    DT_CHECK(try_it(s, &s->plan[s->n], err));
    s->n++;
    return DT_OK;
}

/* ---- policies, pairs and those that go by a budget ---- */

static bool wanted(const search *s, const dt_policy *p)
{
    return p->rung == NULL && !p->searches && p->home == NULL && (p->exact || s->o->lossy);
}

static dt_status add_policies(search *s, dt_err *err)
{
    size_t n;
    const dt_policy *const *all = dt_policy_all(&n);
    for (size_t i = 0; i < n; i++) {
        found f = {.budget = 0};
        snprintf(f.list, sizeof f.list, "%s", all[i]->name);
        if (wanted(s, all[i]))
            DT_CHECK(add(s, &f, err));
    }
    return DT_OK;
}

/* Recomputation first: what it does not keep needs not be moved. */
static dt_status add_pairs(search *s, dt_err *err)
{
    const size_t n = s->n;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++) {
            const found *a = &s->plan[i], *b = &s->plan[k];
            found f = {.budget = 0};
            const int fits = snprintf(f.list, sizeof f.list, "%s,%s", a->list, b->list);
            if (fits < (int)sizeof f.list && a->recomputes && !a->offloads && !b->recomputes &&
                (b->offloads || b->encodes))
                DT_CHECK(add(s, &f, err));
        }
    return DT_OK;
}

/* Sixteen for all runs, and the run's own behind them. */
static uint64_t budget_at(const search *s, int i)
{
    if (i == BUDGETS)
        return s->env->budgets.device;
    return s->least + (uint64_t)((double)(s->most - s->least) * i / (BUDGETS - 1));
}

static void find_range(search *s)
{
    s->most = s->plan[0].cost.device; /* keep_all is the first */
    s->least = s->most;
    for (size_t i = 0; i < s->n; i++)
        if (s->plan[i].cost.device < s->least)
            s->least = s->plan[i].cost.device;
}

static dt_status add_budgeted(search *s, int from, int to, dt_err *err)
{
    size_t n;
    const dt_policy *const *all = dt_policy_all(&n);
    for (size_t i = 0; i < n; i++)
        for (int k = from; k <= to && wanted(s, all[i]) && all[i]->by_budget; k++) {
            found f = {.budget = budget_at(s, k)};
            snprintf(f.list, sizeof f.list, "%s", all[i]->name);
            DT_CHECK(add(s, &f, err));
        }
    return DT_OK;
}

/* ---- annealing ---- */

/* In [0, n). */
static size_t draw(search *s, size_t n)
{
    return (size_t)(dt_mix_next(&s->drawn) % n);
}

/* What a plan is worth at a budget: its seconds, and many more for bytes that do not fit. */
static double worth(const search *s, const dt_pass_cost *c, uint64_t budget)
{
    const double over = c->device > budget ? (double)(c->device - budget) / (double)budget : 0;
    return c->seconds * (1 + 20 * over) * (dti_pass_fits(s->env, c) ? 1 : 100);
}

/* Another fate for a value or two. */
static void flip(search *s, uint8_t *to, const uint8_t *from)
{
    memcpy(to, from, s->n_value);
    for (size_t n = 1 + draw(s, 3); n > 0; n--) {
        const size_t i = draw(s, s->n_value);
        to[i] = (uint8_t)((to[i] + 1 + draw(s, FATES - 1)) % FATES);
    }
}

static dt_status anneal(search *s, uint8_t *now, uint64_t budget, dt_err *err)
{
    found f = {.fate = dt_alloc(s->n_value + 1, 1)}, best = {.fate = dt_alloc(s->n_value + 1, 1)};
    dt_status st = f.fate != NULL && best.fate != NULL
                       ? DT_OK
                       : DT_FAIL(err, DT_E_NOMEM, "no memory for a search");
    double at = 0;
    if (st == DT_OK) {
        memcpy(f.fate, now, s->n_value);
        st = try_it(s, &f, err);
        at = worth(s, &f.cost, budget);
        memcpy(best.fate, now, s->n_value);
        best.cost = f.cost;
    }
    for (int64_t i = 0; st == DT_OK && i < s->o->moves; i++) {
        const double heat = 0.01 * at * (1 - (double)i / (double)s->o->moves);
        flip(s, f.fate, now);
        st = try_it(s, &f, err);
        if (st != DT_OK || !(worth(s, &f.cost, budget) < at + heat))
            continue;
        memcpy(now, f.fate, s->n_value);
        at = worth(s, &f.cost, budget);
        if (at < worth(s, &best.cost, budget)) {
            memcpy(best.fate, f.fate, s->n_value);
            best.cost = f.cost;
        }
    }
    if (st == DT_OK && s->n < MOST_PLANS) {
        memcpy(now, best.fate, s->n_value);
        s->plan[s->n++] = best;
        best.fate = NULL;
    }
    dt_free(f.fate);
    dt_free(best.fate);
    return st;
}

/* ---- which values are away, and which are made again ---- */

/* Shares of the ops' seconds in which the link out may be busy. */
static const double busy[] = {0, 0.15, 0.3, 0.45};

static int cheapest_first(const void *a, const void *b)
{
    const value *x = a, *y = b;
    const double p = x->again * y->bytes, q = y->again * x->bytes;
    if (p < q || p > q)
        return p < q ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* What is dear to make again goes away, the dearest a byte first, as long as the link has time. */
static void send_away(const search *s, double seconds, uint8_t *to)
{
    memset(to, KEEP, s->n_value);
    for (size_t i = s->n_value; i-- > 0;)
        if (s->value[i].away <= seconds && s->value[i].again > 0) {
            seconds -= s->value[i].away;
            to[s->value[i].number] = AWAY;
        }
}

/* What runs more than once in a sequence is made again. */
static void take_over(const search *s, const dt_remat_program *r, const dt_remat_sequence *runs,
    uint32_t *count, uint8_t *to)
{
    memset(count, 0, r->graph.n_op * sizeof *count);
    for (size_t i = 0; i < runs->n; i++)
        count[runs->op[i]]++;
    for (size_t i = 0; i < s->n_value; i++) {
        const uint32_t op = r->op_of[s->tensor[i]];
        if (to[i] != AWAY)
            to[i] = op != UINT32_MAX && count[op] > 1 ? AGAIN : KEEP;
    }
}

/* The abstract problem's answer at a budget, as fates. */
static dt_status solve(
    search *s, const dt_remat_program *r, uint64_t budget, uint8_t *to, dt_err *err)
{
    const dt_remat_search how = {
        .budget = budget, .seed = 1, .moves = MOVES_AN_OP * r->graph.n_op, .once = r->once};
    dt_remat_sequence runs = {0};
    dt_remat_taken taken;
    uint32_t *count = dt_alloc(r->graph.n_op + 1, sizeof *count);
    dt_status st = count != NULL ? dt_remat_in_order(&runs, &r->graph, err)
                                 : DT_FAIL(err, DT_E_NOMEM, "no memory for a search");
    if (st == DT_OK)
        st = dt_remat_anneal(&r->graph, &how, &runs, &taken, err);
    if (st == DT_OK)
        take_over(s, r, &runs, count, to);
    dt_remat_sequence_deinit(&runs);
    dt_free(count);
    return st;
}

/* What the problem leaves out of a real plan is learned from the plans that come of it: its budget
 * is set anew by how far they are off. */
static dt_status fit_by(
    search *s, const dt_remat_program *r, uint64_t budget, found *f, dt_err *err)
{
    dt_remat_sequence in_order = {0};
    dt_remat_taken whole;
    DT_CHECK(dt_remat_in_order(&in_order, &r->graph, err));
    dt_status st = dt_remat_measure(&r->graph, &in_order, &whole, err);
    dt_remat_sequence_deinit(&in_order);
    DT_CHECK(st);
    DT_CHECK(try_it(s, f, err)); /* with nothing made again */
    double aim = (double)budget - (double)f->cost.device + (double)whole.peak;
    const double least = (double)dt_remat_least_peak(&r->graph);
    uint8_t *best = dt_alloc(s->n_value + 1, 1);
    double at = worth(s, &f->cost, budget);
    if (best == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a search");
    memcpy(best, f->fate, s->n_value);
    for (int i = 0; st == DT_OK && i < ROUNDS && f->cost.device != budget; i++) {
        aim = aim > least ? aim : least;
        st = solve(s, r, (uint64_t)aim, f->fate, err);
        if (st == DT_OK)
            st = try_it(s, f, err);
        if (st == DT_OK && worth(s, &f->cost, budget) < at) {
            at = worth(s, &f->cost, budget);
            memcpy(best, f->fate, s->n_value);
        }
        aim += (double)budget - (double)f->cost.device;
    }
    memcpy(f->fate, best, s->n_value);
    dt_free(best);
    return st;
}

/* The problem with what is away left out of the device between forward and backward. */
static dt_status with_away(search *s, uint64_t budget, found *f, dt_err *err)
{
    const dt_lower_opts o = {
        .pool = s->env->pool != NULL ? s->env->pool : dt_pool_find("greedy"), .policy = ""};
    dt_remat_program r = {0};
    dt_plan *plan = NULL;
    bool *away = dt_alloc(s->p->n_tensor + 1, sizeof *away);
    for (size_t i = 0; away != NULL && i < s->n_value; i++)
        away[s->tensor[i]] = f->fate[i] == AWAY;
    dt_status st = away != NULL ? dt_lower(&plan, s->p, &o, err)
                                : DT_FAIL(err, DT_E_NOMEM, "no memory for a search");
    if (st == DT_OK)
        st = dti_remat_of_program(&r, s->p, plan, s->seconds, away, err);
    if (st == DT_OK)
        st = fit_by(s, &r, budget, f, err);
    dti_remat_program_deinit(&r);
    dt_plan_destroy(plan);
    dt_free(away);
    return st;
}

/* Of shares of the link the best; *now becomes it. */
static dt_status divide(search *s, uint64_t budget, uint8_t *now, dt_err *err)
{
    found f = {.fate = dt_alloc(s->n_value + 1, 1)};
    double best = -1;
    dt_status st = f.fate != NULL ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory for a search");
    for (size_t i = 0; st == DT_OK && i < DT_COUNT(busy); i++) {
        send_away(s, busy[i] * s->ops, f.fate);
        st = with_away(s, budget, &f, err);
        if (st == DT_OK)
            st = try_it(s, &f, err);
        if (st == DT_OK && (best < 0 || worth(s, &f.cost, budget) < best)) {
            best = worth(s, &f.cost, budget);
            memcpy(now, f.fate, s->n_value);
        }
    }
    dt_free(f.fate);
    return st;
}

/* Seconds by op and value, from the program as it stands. */
static dt_status time_values(search *s, dt_err *err)
{
    dt_chen c;
    s->n_op = s->p->n_op;
    s->seconds = dt_alloc(s->n_op + 1, sizeof *s->seconds);
    if (s->seconds == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a search");
    DT_CHECK(dti_pass_op_seconds(s->env, s->p, s->seconds, err));
    for (size_t i = 0; i < s->p->n_op; i++)
        s->ops += s->seconds[i];
    dt_status st = dti_chen_open(&c, s->p, err);
    if (st == DT_OK)
        s->value = dt_alloc(c.n + 1, sizeof *s->value);
    if (st == DT_OK)
        s->tensor = dt_alloc(c.n + 1, sizeof *s->tensor);
    if (st == DT_OK && (s->value == NULL || s->tensor == NULL))
        st = DT_FAIL(err, DT_E_NOMEM, "no memory for a search");
    for (size_t i = 0; st == DT_OK && i < c.n; i++) {
        const uint64_t bytes = s->p->tensor[c.value[i].tensor].bytes;
        s->tensor[i] = c.value[i].tensor;
        s->value[i] = (value){
            (double)bytes, s->seconds[c.value[i].op], dti_pass_fetch_seconds(s->env, bytes), i};
    }
    s->n_value = st == DT_OK ? c.n : 0;
    dti_chen_close(&c);
    if (s->n_value > 0)
        qsort(s->value, s->n_value, sizeof *s->value, cheapest_first);
    return st;
}

/* At budgets from the higher number down; all is kept at the last of the sixteen. */
static dt_status add_searched(search *s, int from, int to, dt_err *err)
{
    if (s->n_value == 0 || s->o->moves == 0)
        return DT_OK;
    uint8_t *now = dt_alloc(s->n_value, 1);
    if (now == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a search");
    dt_status st = DT_OK;
    s->drawn = (uint64_t)from; /* the same whatever was searched before */
    for (int i = to; st == DT_OK && i >= from; i--) {
        st = divide(s, budget_at(s, i), now, err);
        if (st == DT_OK)
            st = anneal(s, now, budget_at(s, i), err);
    }
    dt_free(now);
    return st;
}

/* ---- the pass ---- */

/* The front of all runs. */
static dt_status find_front(search *s, dt_err *err)
{
    DT_CHECK(add_policies(s, err));
    DT_CHECK(add_pairs(s, err));
    find_range(s);
    DT_CHECK(add_budgeted(s, 0, BUDGETS - 1, err));
    find_range(s);
    return add_searched(s, 0, BUDGETS - 2, err);
}

/* What cannot be kept is searched for again. */
static void keep_front(search *s, const char key[DT_SHA256_TEXT])
{
    const dti_front now = {s->n, s->n_value, s->least, s->most, s->plan};
    size_t bytes;
    dti_front *f = dti_front_copy(&now);
    char *text = dti_front_text(&now, &bytes);
    if (f != NULL)
        dti_kept_put(s->env->kept, key, f, dti_front_destroy);
    if (text != NULL)
        dti_kept_write(s->env->kept, key, text, bytes);
    dt_free(text);
}

/* From this session, or the file of one before. */
static bool take_front(search *s, const char key[DT_SHA256_TEXT])
{
    const dti_front *kept = dti_kept_find(s->env->kept, key);
    size_t bytes;
    dti_front *f = kept != NULL ? dti_front_copy(kept) : NULL;
    char *text = f == NULL ? dti_kept_read(s->env->kept, key, &bytes) : NULL;
    if (text != NULL)
        f = dti_front_parse(text, s->n_value);
    dt_free(text);
    if (f == NULL)
        return false;
    s->n = f->n;
    s->least = f->least;
    s->most = f->most;
    memcpy(s->plan, f->plan, f->n * sizeof *s->plan); /* with their fates */
    f->n = 0;
    dti_front_destroy(f);
    return true;
}

#define ADD(sum, value) dt_sha256_add(&(sum), &(value), sizeof(value))

/* All that a front depends on; what a struct leaves unused is not summed up. @own: the budget that
 * it was searched for besides, or 0. */
static void key_of(const search *s, uint64_t own, char key[DT_SHA256_TEXT])
{
    const dt_pass_env *e = s->env;
    const dt_program *p = s->p;
    dt_sha256 sum;
    dt_sha256_init(&sum);
    ADD(sum, own);
    ADD(sum, s->o->moves);
    ADD(sum, s->o->lossy);
    ADD(sum, e->budgets.host);
    ADD(sum, e->budgets.disk);
    ADD(sum, e->dense);
    ADD(sum, p->kind);
    ADD(sum, p->n);
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op *op = &p->op[p->order[i]];
        dt_sha256_add(&sum, op->name, strlen(op->name) + 1);
        ADD(sum, op->flops);
        ADD(sum, s->seconds[p->order[i]]);
        for (int k = 0; k < op->n_arg; k++) {
            const dt_tensor *t = &p->tensor[op->arg[k].tensor];
            dt_sha256_add(&sum, t->name, strlen(t->name) + 1);
            ADD(sum, t->bytes);
            ADD(sum, t->pin);
        }
    }
    const double byte = dti_pass_fetch_seconds(e, 1 << 20);
    const bool team = e->machine != NULL && e->machine->inline_copies;
    ADD(sum, byte);
    ADD(sum, team);
    if (e->lower != NULL) {
        ADD(sum, e->lower->tier);
        ADD(sum, e->lower->spill);
    }
    const char *pool = e->pool != NULL ? e->pool->name : "";
    dt_sha256_add(&sum, pool, strlen(pool) + 1);
    dt_sha256_text(&sum, key);
}

/* The front, found or kept. */
static dt_status find_or_take(search *s, dt_err *err)
{
    char key[DT_SHA256_TEXT];
    key_of(s, 0, key);
    if (take_front(s, key))
        return DT_OK;
    DT_CHECK(find_front(s, err));
    keep_front(s, key);
    return DT_OK;
}

/* And what is found for the run's own budget. */
static dt_status find_all(search *s, dt_err *err)
{
    char key[DT_SHA256_TEXT];
    const uint64_t own = s->env->budgets.device;
    DT_CHECK(time_values(s, err));
    key_of(s, own, key);
    if (own > 0 && take_front(s, key))
        return DT_OK;
    DT_CHECK(find_or_take(s, err));
    if (own == 0 || own >= s->most)
        return DT_OK;
    DT_CHECK(
        add_budgeted(s, BUDGETS, BUDGETS, err)); /* who goes by it may reach what none else does */
    if (own > s->least)
        DT_CHECK(add_searched(s, BUDGETS, BUDGETS, err));
    keep_front(s, key);
    return DT_OK;
}

static const found *choose(const search *s)
{
    const uint64_t most = s->env->budgets.device > 0 ? s->env->budgets.device : UINT64_MAX;
    const found *best = &s->plan[0];
    for (size_t i = 1; i < s->n; i++)
        if (better(s->env, &s->plan[i].cost, &best->cost, most))
            best = &s->plan[i];
    return best;
}

static dt_status run_auto(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    if (p->loss == DT_NONE)
        return DT_OK;
    search *s = dt_alloc(1, sizeof *s);
    if (s == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a search");
    *s = (search){.p = p, .env = env, .o = env->opts};
    dt_status st = find_all(s, err);
    if (st == DT_OK)
        st = make(s, choose(s), p, err);
    for (size_t i = 0; i < s->n; i++)
        dt_free(s->plan[i].fate);
    dt_free(s->seconds);
    dt_free(s->value);
    dt_free(s->tensor);
    dt_free(s);
    return st;
}

static bool changes(const void *given)
{
    const options *o = given;
    return o->lossy;
}

const dt_policy dt_policy_auto = {
    .name = "auto",
    .summary = "the fastest of all policies, pairs of them and what annealing finds, that fits",
    .exact = true,
    .searches = true,
    .takes_homes = true,
    .changes = changes,
    .opts = opts,
    .opts_bytes = sizeof(options),
    .pass = run_auto,
};
