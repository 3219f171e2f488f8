/* auto's own search: which values are kept, made again, or offloaded and fetched so early that the
 * copy is done when they are read. Which are made again is the abstract problem of memory/remat,
 * whose budget real plans correct; annealing then flips fates by real plans. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/mix.h"
#include "memory/lower/lower.h"
#include "memory/policies/auto_search.h"
#include "memory/policies/chen.h"
#include "memory/remat/of_program.h"

static const double slack = 1.5; /* of a copy: others may be before it */
enum { ROUNDS = 3, MOVES_AN_OP = 40 };

/* ---- from fates to programs ---- */

double dti_auto_seconds_of(const dti_auto *s, const dt_program *p, int32_t number)
{
    const dt_op *op = &p->op[number];
    const int32_t same = op->kind == DT_OP_RECOMPUTE ? op->recompute_of : number;
    return (size_t)same < s->n_op ? s->seconds[same] : 0;
}

/* The op before which a value must be asked for, that its copy be done when it is read. */
static int32_t ahead_of(const dti_auto *s, const dt_program *p, const dti_gap *g)
{
    const double wanted = slack * dti_pass_fetch_seconds(s->env, p->tensor[g->tensor].bytes);
    double have = 0;
    int32_t at = g->to_pos;
    const int32_t loss = dt_pos(p, p->loss), first = loss > g->from_pos ? loss : g->from_pos;
    while (at > first + 1 && have < wanted)
        have += dti_auto_seconds_of(s, p, p->order[--at]);
    return p->order[at];
}

/* The op behind which its copy out is done, and nobody has to wait for that. */
static int32_t behind(const dti_auto *s, const dt_program *p, const dti_gap *g)
{
    const double wanted = slack * dti_pass_store_seconds(s->env, p->tensor[g->tensor].bytes);
    double have = 0;
    int32_t at = g->from_pos;
    const int32_t loss = dt_pos(p, p->loss);
    while (at < loss && have < wanted)
        have += dti_auto_seconds_of(s, p, p->order[++at]);
    return p->order[at];
}

static dt_status offload(const dti_auto *s, dt_program *p, int32_t tensor, dt_err *err)
{
    dti_gap g;
    DT_CHECK(dt_program_index(p, err));
    if (!dti_gap_crossing(p, tensor, &g))
        return DT_OK;
    const dti_offload_opt o = {.release_after = behind(s, p, &g),
        .fetch_before = ahead_of(s, p, &g),
        .tier = DT_TIER_INPUT};
    DT_CHECK(dt_reasons_add(&p->reasons, &g.reason, err,
        "auto: %.48s is offloaded, which takes least time", p->tensor[tensor].name));
    return dti_offload(p, &g, &o, err);
}

dt_status dti_auto_apply_fates(const dti_auto *s, const uint8_t *fates, dt_program *to, dt_err *err)
{
    dti_chen c;
    to->policy = "auto";
    dt_status st = dti_chen_open(&c, to, err);
    for (size_t i = 0; st == DT_OK && i < c.n && i < s->n_value; i++)
        if (fates[i] == DTI_RECOMPUTE) {
            c.dropped[c.value[i].tensor] = true;
            st = dt_reasons_add(&to->reasons, &c.reason[c.value[i].tensor], err,
                "auto: %.48s is made again, which takes least time",
                to->tensor[c.value[i].tensor].name);
        }
    if (st == DT_OK)
        st = dti_chen_rewrite(&c, err);
    for (size_t i = 0; st == DT_OK && i < c.n && i < s->n_value; i++)
        if (fates[i] == DTI_OFFLOAD)
            st = offload(s, to, c.value[i].tensor, err);
    dti_chen_close(&c);
    return st == DT_OK && to->loss != DT_NONE ? dti_fetch_again(to, err) : st;
}

/* ---- annealing ---- */

/* In [0, n). */
static size_t draw(dti_auto *s, size_t n)
{
    return (size_t)(dt_mix_next(&s->drawn) % n);
}

/* What a plan is worth at a budget: its seconds, and many more for bytes that do not fit. */
static double worth(const dti_auto *s, const dti_pass_cost *c, uint64_t budget)
{
    const double over = c->device > budget ? (double)(c->device - budget) / (double)budget : 0;
    return c->seconds * (1 + 20 * over) * (dti_pass_fits(s->env, c) ? 1 : 100);
}

/* Another fate for one to three values. */
static void flip(dti_auto *s, uint8_t *to, const uint8_t *from)
{
    memcpy(to, from, s->n_value);
    for (size_t n = 1 + draw(s, 3); n > 0; n--) {
        const size_t i = draw(s, s->n_value);
        to[i] = (uint8_t)((to[i] + 1 + draw(s, DTI_FATES - 1)) % DTI_FATES);
    }
}

/* From fates at which *now is the best that was found. */
static dt_status anneal(dti_auto *s, uint8_t *now, uint64_t budget, dt_err *err)
{
    dti_found f = {.aim = budget, .budget = budget, .fate = dt_alloc(s->n_value + 1, 1)};
    uint8_t *best = dt_alloc(s->n_value + 1, 1);
    double at = 0, least = 0;
    dt_status st = f.fate != NULL && best != NULL ? DT_OK : dti_pass_no_memory(err);
    for (int64_t i = 0; st == DT_OK && i <= s->moves; i++) {
        const double heat = 0.01 * at * (1 - (double)i / (double)s->moves);
        if (i > 0)
            flip(s, f.fate, now);
        else
            memcpy(f.fate, now, s->n_value);
        st = dti_auto_add(s, &f, NULL, err);
        const double is = worth(s, &f.cost, budget);
        if (st != DT_OK || (i > 0 && !(is < at + heat)))
            continue;
        memcpy(now, f.fate, s->n_value);
        at = is;
        if (i == 0 || is < least)
            memcpy(best, f.fate, s->n_value);
        least = i == 0 || is < least ? is : least;
    }
    if (st == DT_OK)
        memcpy(now, best, s->n_value);
    dti_found_deinit(&f);
    dt_free(best);
    return st;
}

/* Another's fates and costs; the memory of its own. */
static void take(const dti_auto *s, dti_found *to, const dti_found *from)
{
    uint8_t *fate = to->fate;
    memcpy(fate, from->fate, s->n_value);
    *to = *from;
    to->fate = fate;
}

/* ---- which values are away, and which are made again ---- */

/* Shares of the ops' seconds in which the link out may be busy. */
static const double busy[] = {0, 0.15, 0.3, 0.45};

static int cheapest_first(const void *a, const void *b)
{
    const dti_auto_value *x = a, *y = b;
    const double p = x->again * y->bytes, q = y->again * x->bytes;
    if (p < q || p > q)
        return p < q ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* What is dear to make again goes away, the dearest a byte first, as long as the link has time. */
static void send_away(const dti_auto *s, double seconds, uint8_t *to)
{
    memset(to, DTI_KEEP, s->n_value);
    for (size_t i = s->n_value; i-- > 0;)
        if (s->value[i].away <= seconds && s->value[i].again > 0) {
            seconds -= s->value[i].away;
            to[s->value[i].number] = DTI_OFFLOAD;
        }
}

/* What runs more than once in a sequence is made again. */
static void take_over(const dti_auto *s, const dti_remat_program *r, const dt_remat_sequence *runs,
    uint32_t *count, uint8_t *to)
{
    memset(count, 0, r->graph.n_op * sizeof *count);
    for (size_t i = 0; i < runs->n; i++)
        count[runs->op[i]]++;
    for (size_t i = 0; i < s->n_value; i++) {
        const uint32_t op = r->op_of[s->tensor[i]];
        if (to[i] != DTI_OFFLOAD)
            to[i] = op != UINT32_MAX && count[op] > 1 ? DTI_RECOMPUTE : DTI_KEEP;
    }
}

/* The abstract problem's answer at a budget, as fates. */
static dt_status solve(
    dti_auto *s, const dti_remat_program *r, uint64_t budget, uint8_t *to, dt_err *err)
{
    const dti_remat_search how = {.budget = budget,
        .seed = 1,
        .moves = MOVES_AN_OP * r->graph.n_op,
        .once = r->once,
        .in_order = true};
    dt_remat_sequence runs = {0};
    dt_remat_taken taken;
    uint32_t *count = dt_alloc(r->graph.n_op + 1, sizeof *count);
    dt_status st =
        count != NULL ? dti_remat_in_order(&runs, &r->graph, err) : dti_pass_no_memory(err);
    if (st == DT_OK)
        st = dti_remat_anneal(&r->graph, &how, &runs, &taken, err);
    if (st == DT_OK)
        take_over(s, r, &runs, count, to);
    dti_remat_sequence_deinit(&runs);
    dt_free(count);
    return st;
}

/* What the problem leaves out of a real plan is learned from the plans that come of it: its budget
 * is set anew by how far they are off. */
static dt_status fit_by(
    dti_auto *s, const dti_remat_program *r, uint64_t budget, dti_found *f, dt_err *err)
{
    dt_remat_sequence in_order = {0};
    dt_remat_taken whole;
    DT_CHECK(dti_remat_in_order(&in_order, &r->graph, err));
    dt_status st = dti_remat_measure(&r->graph, &in_order, &whole, err);
    dti_remat_sequence_deinit(&in_order);
    DT_CHECK(st);
    DT_CHECK(dti_auto_add(s, f, NULL, err)); /* with nothing made again */
    double aim = (double)budget - (double)f->cost.device + (double)whole.peak;
    const double least = (double)dt_remat_least_peak(&r->graph);
    dti_found best;
    DT_CHECK(dti_found_copy(&best, f, s->n_value, err));
    for (int i = 0; st == DT_OK && i < ROUNDS && f->cost.device != budget; i++) {
        aim = aim > least ? aim : least;
        st = solve(s, r, (uint64_t)aim, f->fate, err);
        if (st == DT_OK)
            st = dti_auto_add(s, f, NULL, err);
        if (st == DT_OK && worth(s, &f->cost, budget) < worth(s, &best.cost, budget))
            take(s, &best, f);
        aim += (double)budget - (double)f->cost.device;
    }
    take(s, f, &best);
    dti_found_deinit(&best);
    return st;
}

/* The problem with what is away left out of the device between forward and backward. @plan: of the
 * program as it came. */
static dt_status with_away(
    dti_auto *s, const dt_plan *plan, uint64_t budget, dti_found *f, dt_err *err)
{
    dti_remat_program r = {0};
    bool *away = dt_alloc(s->p->n_tensor + 1, sizeof *away);
    for (size_t i = 0; away != NULL && i < s->n_value; i++)
        away[s->tensor[i]] = f->fate[i] == DTI_OFFLOAD;
    dt_status st = away != NULL ? DT_OK : dti_pass_no_memory(err);
    if (st == DT_OK)
        st = dti_remat_of_program(&r, s->p, plan, s->seconds, away, err);
    if (st == DT_OK)
        st = fit_by(s, &r, budget, f, err);
    dti_remat_program_deinit(&r);
    dt_free(away);
    return st;
}

/* A program that policies go on from. */
static dt_status add_base(dti_auto *s, const dti_found *f, dt_err *err)
{
    dti_auto_base base = {.p = NULL};
    DT_CHECK(dti_found_copy(&base.of, f, s->n_value, err));
    const dt_status st = dti_auto_try(s, &base.of, &base.p, err);
    if (st == DT_OK)
        return dti_auto_add_base(s, &base, err);
    dti_found_deinit(&base.of);
    return st;
}

/* Of shares of the link the best; *now becomes it. What only makes values again is gone on from. */
static dt_status divide(
    dti_auto *s, const dt_plan *plan, uint64_t budget, uint8_t *now, dt_err *err)
{
    dti_found f = {.aim = budget, .budget = budget, .fate = dt_alloc(s->n_value + 1, 1)};
    double best = -1;
    dt_status st = f.fate != NULL ? DT_OK : dti_pass_no_memory(err);
    for (size_t i = 0; st == DT_OK && i < DT_COUNT(busy); i++) {
        send_away(s, busy[i] * s->ops, f.fate);
        st = with_away(s, plan, budget, &f, err);
        if (st == DT_OK && i == 0)
            st = add_base(s, &f, err);
        if (st == DT_OK && (best < 0 || worth(s, &f.cost, budget) < best)) {
            best = worth(s, &f.cost, budget);
            memcpy(now, f.fate, s->n_value);
        }
    }
    dti_found_deinit(&f);
    return st;
}

/* Seconds by op and value, from the program as it stands. */
dt_status dti_auto_time_values(dti_auto *s, dt_err *err)
{
    dti_chen c;
    s->n_op = s->p->n_op;
    s->seconds = dt_alloc(s->n_op + 1, sizeof *s->seconds);
    if (s->seconds == NULL)
        return dti_pass_no_memory(err);
    DT_CHECK(dti_pass_op_seconds(s->env, s->p, s->seconds, err));
    for (size_t i = 0; i < s->p->n_op; i++)
        s->ops += s->seconds[i];
    dt_status st = dti_chen_open(&c, s->p, err);
    if (st == DT_OK)
        s->value = dt_alloc(c.n + 1, sizeof *s->value);
    if (st == DT_OK)
        s->tensor = dt_alloc(c.n + 1, sizeof *s->tensor);
    if (st == DT_OK && (s->value == NULL || s->tensor == NULL))
        st = dti_pass_no_memory(err);
    for (size_t i = 0; st == DT_OK && i < c.n; i++) {
        const uint64_t bytes = s->p->tensor[c.value[i].tensor].bytes;
        s->tensor[i] = c.value[i].tensor;
        s->value[i] = (dti_auto_value){
            (double)bytes, s->seconds[c.value[i].op], dti_pass_store_seconds(s->env, bytes), i};
    }
    s->n_value = st == DT_OK ? c.n : 0;
    dti_chen_close(&c);
    if (s->n_value > 0)
        qsort(s->value, s->n_value, sizeof *s->value, cheapest_first);
    return st;
}

dt_status dti_auto_add_searched(dti_auto *s, uint64_t least, uint64_t most, dt_err *err)
{
    if (s->n_value == 0 || s->moves == 0)
        return DT_OK;
    dt_plan *plan = NULL; /* the problem asks for its rows, not where they lie */
    const dt_lower_opts o = dti_pass_lower_quickly(s->env);
    uint8_t *now = dt_alloc(s->n_value, 1);
    dt_status st = now != NULL ? dt_lower(&plan, s->p, &o, err) : dti_pass_no_memory(err);
    s->drawn = 0; /* the same whatever was searched before */
    const dti_auto_ladder down = dti_auto_ladder_of(s, least, most);
    for (size_t i = 0; st == DT_OK && i < down.n; i++) {
        st = divide(s, plan, down.budget[i], now, err);
        if (st == DT_OK)
            st = anneal(s, now, down.budget[i], err);
    }
    dt_plan_destroy(plan);
    dt_free(now);
    return st;
}
