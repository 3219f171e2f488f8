/* From a program to its gaps, and from what was chosen of them to rewrites. */
#include "memory/gap/planner.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers_text.h"

/* So many plans that are no better than one before are the last. */
enum { FRUITLESS = 8, FEEDBACK_FRUITLESS = 3, LOWER = 4, LOWER_BY = 16 };
/* What a step may take longer without a budget, as a share of it. */
static const double longer = 1e-3;

/* ---- what a gap costs ---- */

/* Of a recompute: its form reads and writes no more than forward does. */
static double form_seconds(const dti_planner *x, int32_t op)
{
    dt_form_kind kind;
    const dt_op *of = &x->p->op[op];
    const int32_t row = x->curve.op[dt_pos(x->p, op)];
    DT_ASSERT(row >= 0);
    dt_plan_op recompute = x->curve.plan->op[row];
    (void)dti_recompute_form(of, &kind);
    recompute.form = (uint8_t)kind;
    return dti_costs_op(dti_pass_costs(x->env), x->curve.plan, &recompute).seconds;
}

/* ---- gaps ---- */

static bool considered(const dti_planner *x, int32_t t)
{
    return dti_may_free(&x->p->tensor[t], x->o.least);
}

static size_t count_gaps(const dti_planner *x)
{
    dti_gap g;
    size_t n = 0;
    for (size_t t = 0; t < x->p->n_tensor; t++)
        for (int32_t i = 0; considered(x, (int32_t)t) && dti_gap_next(x->p, (int32_t)t, &i, &g);)
            n++;
    return n;
}

static void collect(dti_planner *x)
{
    dti_gap g;
    for (size_t t = 0; t < x->p->n_tensor; t++)
        for (int32_t i = 0; considered(x, (int32_t)t) && dti_gap_next(x->p, (int32_t)t, &i, &g);)
            x->gaps.idle[x->gaps.n++] = (dti_idle){.gap = g,
                .bytes = x->p->tensor[t].bytes,
                .out = dti_copy_seconds(x->env, &x->p->tensor[t], DT_ROW_COPY_OUT),
                .in = dti_copy_seconds(x->env, &x->p->tensor[t], DT_ROW_COPY_IN)};
}

/* ---- what recomputing costs ---- */

/* @first: by tensor, its first gap; n_tensor + 1 of them. @seen: by tensor, for which gap it was
 * last come by. */
typedef struct chains {
    dti_planner *x;
    size_t *first;
    size_t *seen;
} chains;

/* The gap in which a tensor lies idle right before a place, or n. */
static size_t idle_before(const chains *c, int32_t tensor, int32_t pos)
{
    for (size_t i = c->first[tensor]; i < c->first[tensor + 1]; i++) {
        const dti_gap *g = &c->x->gaps.idle[i].gap;
        if (g->from_pos < pos && pos <= g->to_pos)
            return i;
    }
    return c->x->n_gap;
}

/* The producer runs again, and before it those of what it reads and is not there. */
static void follow(const chains *c, size_t gap, int32_t tensor)
{
    dti_planner *x = c->x;
    const dt_program *p = x->p;
    dti_recomputes_item *item = &x->recomputes.item[gap];
    const int32_t pos = x->gaps.idle[gap].gap.to_pos, id = dti_producer(p, tensor);
    const dt_op *op = &p->op[id];
    dt_form_kind kind;
    const dt_form *f = dti_recompute_form(op, &kind);
    item->seconds += form_seconds(x, id);
    for (int a = 0; a < op->n_arg; a++) {
        const int32_t t = op->arg[a].tensor;
        const bool reads = dti_recompute_reads(&op->arg[a], f);
        if (!reads || p->tensor[t].home != DT_NONE || c->seen[t] == gap + 1)
            continue;
        c->seen[t] = gap + 1;
        const size_t from = idle_before(c, t, pos);
        if (from < x->n_gap)
            dti_recomputes_source(&x->recomputes, gap, from);
        else if (!dti_resident(p, t, pos) && dti_repeatable(p, t))
            follow(c, gap, t);
        else if (!dti_resident(p, t, pos))
            item->seconds = HUGE_VAL; /* it would have to be kept for this */
    }
}

static void follow_all(const chains *c)
{
    dti_planner *x = c->x;
    const dt_program *p = x->p;
    for (size_t i = 0; i < x->n_gap; i++) {
        const int32_t t = x->gaps.idle[i].gap.tensor;
        x->recomputes.item[i].bytes = x->gaps.idle[i].bytes;
        if (p->tensor[t].of == DT_NONE && dti_repeatable(p, t))
            follow(c, i, t);
        else
            x->recomputes.item[i].seconds = HUGE_VAL;
    }
}

static dt_status find_chains(dti_planner *x, dt_err *err)
{
    const size_t n = x->p->n_tensor;
    chains c = {x, dt_alloc(n + 1, sizeof *c.first), dt_alloc(n + 1, sizeof *c.seen)};
    dt_status st = dti_recomputes_open(&x->recomputes, x->n_gap, err);
    if (st == DT_OK && (c.first == NULL || c.seen == NULL))
        st = dti_pass_no_memory(err);
    if (st == DT_OK) {
        size_t at = 0;
        for (size_t t = 0; t <= n; t++) {
            while (at < x->n_gap && x->gaps.idle[at].gap.tensor < (int32_t)t)
                at++;
            c.first[t] = at;
        }
        follow_all(&c);
    }
    dt_free(c.first);
    dt_free(c.seen);
    return st;
}

/* ---- opening ---- */

/* Bytes that the host has for more, where the disk does not take what is too much for it. What
 * lives there is in the plan's peak. */
static uint64_t room_of_host(const dti_planner *x)
{
    const uint64_t all = x->env->budgets.tier[DT_TIER_HOST];
    if (dti_offload_tier(x->env) != DT_TIER_HOST || all == 0 || dti_pass_lower_opts(x->env).spill)
        return UINT64_MAX;
    const uint64_t used = x->curve.plan->tier_peak[DT_TIER_HOST];
    return used < all ? all - used : 0;
}

dt_status dti_planner_open(
    dti_planner *x, dt_program *p, const dt_pass_env *e, const dti_planner_opts *o, dt_err *err)
{
    *x = (dti_planner){
        .p = p, .env = e, .o = *o, .n_tensor = p->n_tensor, .n_op = p->n_op, .peak = UINT64_MAX};
    DT_CHECK(dt_program_index(p, err));
    DT_CHECK(dti_load_curve_open(&x->curve, p, e, 0, err));
    x->room = room_of_host(x);
    x->n_gap = count_gaps(x);
    const size_t n = x->n_gap + dti_gaps_there(p, e, NULL);
    x->gaps.idle = dt_alloc(n + 1, sizeof *x->gaps.idle);
    x->chosen = dt_alloc(n + 1, sizeof *x->chosen);
    x->real = dt_alloc(x->curve.n + 1, sizeof *x->real);
    x->base = dt_alloc(x->curve.n + 1, sizeof *x->base);
    if (x->gaps.idle == NULL || x->chosen == NULL || x->real == NULL || x->base == NULL)
        return dti_pass_no_memory(err);
    memcpy(x->base, x->curve.load, x->curve.n * sizeof *x->base);
    dti_gaps_borrow(&x->gaps, &x->curve, e);
    x->gaps.limit = o->budget > 0 ? o->budget : UINT64_MAX;
    collect(x);
    x->gaps.n += dti_gaps_there(p, e, x->gaps.idle + x->n_gap);
    if (o->recompute)
        DT_CHECK(find_chains(x, err));
    return dti_gaps_open(&x->gaps, err);
}

void dti_planner_close(dti_planner *x)
{
    dt_free(x->gaps.idle);
    dt_free(x->chosen);
    dt_free(x->real);
    dt_free(x->base);
    dti_gaps_close(&x->gaps);
    dti_recomputes_close(&x->recomputes);
    dti_load_curve_close(&x->curve);
}

/* ---- choosing ---- */

DT_PRINTF(4, 0)
static dt_status explain(dti_planner *x, dti_idle *i, dt_err *err, const char *format, va_list args)
{
    char text[DT_REASON_BYTES];
    dt_vsnprintf(text, sizeof text, format, args);
    return dt_reasons_add(&x->p->reasons, &i->gap.reason, err, "%s: %s", x->p->policy, text);
}

/* Inputs are fetched again from where they are. */
static bool needs_room(const dti_planner *x, const dti_idle *i)
{
    return x->p->tensor[i->gap.tensor].role != DT_ROLE_INPUT;
}

/* What its slot there takes. */
static uint64_t slot_bytes(const dti_idle *i)
{
    return dt_align_up(i->bytes, dt_tier_align(DT_TIER_HOST));
}

bool dti_planner_has_room(const dti_planner *x, const dti_idle *i)
{
    return !needs_room(x, i) || slot_bytes(i) <= x->room;
}

dt_status dti_planner_offload(dti_planner *x, dti_idle *i, dt_err *err, const char *format, ...)
{
    va_list args;
    if (!dti_planner_has_room(x, i)) {
        i->late_to = INT32_MAX; /* room gets only less: at no peak is there more */
        dti_gaps_refuse(&x->gaps, i);
        return DT_OK;
    }
    if (needs_room(x, i) && x->room != UINT64_MAX)
        x->room -= slot_bytes(i);
    va_start(args, format);
    const dt_status st = explain(x, i, err, format, args);
    va_end(args);
    dti_gaps_choose(&x->gaps, i, DTI_OFFLOAD);
    return st;
}

dt_status dti_planner_recompute(dti_planner *x, dti_idle *i, dt_err *err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const dt_status st = explain(x, i, err, format, args);
    va_end(args);
    dti_recomputes_choose(&x->recomputes, (size_t)(i - x->gaps.idle));
    dti_gaps_choose(&x->gaps, i, DTI_RECOMPUTE);
    return st;
}

/* Of what is recomputed and the host has room for, the one that saves the fewest bytes a second. */
static dti_idle *worst(dti_planner *x)
{
    dti_idle *found = NULL;
    double least = 0;
    for (size_t n = 0; n < x->n_gap; n++) {
        dti_idle *i = &x->gaps.idle[n];
        if (i->fate != DTI_RECOMPUTE || !dti_planner_has_room(x, i))
            continue;
        const double score = dti_recomputes_score(&x->recomputes, n);
        if (found == NULL || score < least) {
            found = i;
            least = score;
        }
    }
    return found;
}

static size_t count_recomputed(const dti_planner *x)
{
    size_t count = 0;
    for (size_t n = 0; n < x->n_gap; n++)
        count += x->gaps.idle[n].fate == DTI_RECOMPUTE;
    return count;
}

dt_status dti_planner_offload_instead(dti_planner *x, uint64_t bytes, dt_err *err)
{
    const size_t quarter = x->bold ? (count_recomputed(x) + 3) / 4 : 0;
    uint64_t done = 0;
    for (size_t n = 0; n < quarter || (!x->bold && done < bytes); n++) {
        dti_idle *i = worst(x);
        if (i == NULL)
            break;
        done += i->bytes;
        DT_CHECK(dti_planner_offload(
            x, i, err, "to recompute it, values would have to stay that do not fit"));
    }
    x->exchanged = true;
    return DT_OK;
}

double dti_planner_recompute_seconds(const dti_planner *x, const dti_idle *i)
{
    const size_t n = (size_t)(i - x->gaps.idle);
    if (n >= x->recomputes.n)
        return HUGE_VAL;
    return x->recomputes.item[n].seconds + x->recomputes.item[n].extra;
}

/* ---- trying ---- */

/* The load of a rewritten program at the places of its own: what comes before an op counts there.
 */
static void read_load(dti_planner *x, const dt_program *q, const dti_load_curve *c)
{
    uint64_t most = 0;
    for (size_t k = 0; k < q->n_order; k++) {
        const int32_t id = q->order[k];
        most = c->load[k] > most ? c->load[k] : most;
        if (id >= (int32_t)x->n_op)
            continue;
        x->real[dt_pos(x->p, id)] = most;
        most = 0;
    }
}

static dt_status rewrite(
    const dti_planner *x, const dti_idle *of, uint64_t limit, dt_program *q, dt_err *err)
{
    const dti_rewrite r = {
        .q = q, .env = x->env, .n = x->n_gap, .n_tensor = x->n_tensor, .of = of, .limit = limit};
    return dti_gaps_rewrite(&r, err);
}

/* @curve: of what comes of it, placed by the run's pool if it may fit; to be closed. */
static dt_status plan(
    dti_planner *x, const dti_idle *of, uint64_t limit, dti_load_curve *curve, dt_err *err)
{
    dt_program *q = NULL;
    *curve = (dti_load_curve){0};
    dt_status st = dt_program_copy(&q, x->p, err);
    if (st == DT_OK)
        st = rewrite(x, of, limit, q, err);
    if (st == DT_OK)
        st = dti_load_curve_open(curve, q, x->env, x->o.budget > 0 ? x->o.budget : UINT64_MAX, err);
    if (st == DT_OK)
        read_load(x, q, curve);
    dt_program_destroy(q);
    return st;
}

static bool better(const dti_planner *x, uint64_t peak, double seconds)
{
    const uint64_t budget = x->o.budget > 0 ? x->o.budget : UINT64_MAX;
    const dti_pass_cost this = {.device = peak, .seconds = seconds};
    const dti_pass_cost best = {.device = x->peak, .seconds = x->seconds};
    return x->peak == UINT64_MAX || dti_pass_is_better(&this, &best, budget);
}

/* What does not fit wherever it lies is not placed. */
static uint64_t peak_of(const dti_planner *x, const dt_plan *p)
{
    return x->o.budget > 0 && p->bound > x->o.budget ? p->bound : p->peak;
}

static bool keep_if_better(
    dti_planner *x, const dti_idle *of, uint64_t limit, const dti_load_curve *c)
{
    if (!better(x, peak_of(x, c->plan), c->time.seconds))
        return false;
    if (x->gaps.n > 0)
        memcpy(x->chosen, of, x->gaps.n * sizeof *of);
    x->limit = limit;
    x->peak = peak_of(x, c->plan);
    x->seconds = c->time.seconds;
    return true;
}

/* Recomputed values are there for a while before they are read, and so is what they are made from:
 * where the plan tried is above the limit for that, so much is added to the load. */
static bool learn(dti_planner *x)
{
    bool any = false;
    for (size_t k = 0; k < x->gaps.n_place; k++) {
        const uint64_t thought = x->gaps.left[k], known = x->gaps.load[k] - x->base[k];
        const uint64_t without = thought > known ? thought - known : 0;
        const uint64_t more = x->real[k] > without ? x->real[k] - without : 0;
        if (x->real[k] > x->gaps.limit || more < known)
            x->gaps.load[k] = x->base[k] + more;
        any = any || (x->real[k] > x->gaps.limit && more > 0);
    }
    return any;
}

/* Plan what was chosen. *more: it is above the budget, and there is more to choose from. */
static dt_status try_chosen(dti_planner *x, bool *more, dt_err *err)
{
    dti_load_curve c;
    const dt_status st = plan(x, x->gaps.idle, x->gaps.limit, &c, err);
    *more = false;
    if (st == DT_OK) {
        const bool is_better = keep_if_better(x, x->gaps.idle, x->gaps.limit, &c);
        x->fruitless = is_better ? 0 : x->fruitless + 1;
        const uint64_t peak = peak_of(x, c.plan);
        const uint64_t over = peak > x->o.budget ? peak - x->o.budget : 0;
        const uint64_t at = c.plan->bound < x->gaps.limit ? c.plan->bound : x->gaps.limit;
        const uint64_t less = at > over ? at - over : at / 2;
        *more = x->o.budget > 0 && over > 0 && x->fruitless < FRUITLESS;
        if (*more)
            dti_gaps_limit(&x->gaps, learn(x) ? x->gaps.limit : less);
    }
    dti_load_curve_close(&c);
    return st;
}

/* ---- feedback ---- */

/* What the ops of a plan wait for copies of a tensor: how often for one back, how long for any. */
typedef struct tensor_wait {
    int back;
    double seconds;
} tensor_wait;

/* By tensor, from one pass over the rows in their order. */
static void add_waits(const dt_plan *p, const dt_timeline *t, const int32_t *by, tensor_wait *of)
{
    for (size_t k = 0; k < t->n; k++) {
        const dt_row *w = &p->row[k];
        if (w->kind != DT_ROW_WAIT || w->stream != DT_MAIN_STREAM || t->end[k] <= t->begin[k] ||
            by[w->event] == DT_NONE)
            continue;
        const dt_row *copy = &p->row[by[w->event]];
        if (copy->tensor == DT_NONE)
            continue;
        of[copy->tensor].seconds += t->end[k] - t->begin[k];
        of[copy->tensor].back += copy->kind == DT_ROW_COPY_IN;
    }
}

/* Of the plan's tensors; the caller frees *out, after a failure as well. */
static dt_status find_waits(const dti_load_curve *c, tensor_wait **out, dt_err *err)
{
    const dt_plan *p = c->plan;
    int32_t *by = dt_alloc((size_t)p->n_event + 1, sizeof *by);
    *out = dt_alloc(p->n_tensor + 1, sizeof **out);
    const bool enough = by != NULL && *out != NULL;
    if (enough) {
        dt_timeline_signals(p, by);
        add_waits(p, &c->time, by, *out);
    }
    dt_free(by);
    return enough ? DT_OK : dti_pass_no_memory(err);
}

/* Copies back for which ops of the plan wait begin earlier, by a twentieth of what they take for
 * each such wait. */
static dt_status hasten(const dti_planner *x, const dti_load_curve *c, dti_idle *of, dt_err *err)
{
    tensor_wait *waits;
    const dt_status st = find_waits(c, &waits, err);
    for (size_t n = 0; st == DT_OK && n < x->n_gap; n++)
        for (int k = 0; of[n].fate == DTI_OFFLOAD && k < waits[of[n].gap.tensor].back; k++)
            of[n].early += of[n].in / 20; /* one by one, as sums of reals round */
    dt_free(waits);
    return st;
}

static dt_status feed_back(dti_planner *x, dti_idle *of, dt_err *err)
{
    dti_load_curve c;
    dt_status st = plan(x, of, x->limit, &c, err);
    int fruitless = 0;
    for (int k = 0; k < x->o.feedback && fruitless < FEEDBACK_FRUITLESS; k++) {
        if (st != DT_OK || c.time.stalled <= 0)
            break;
        st = hasten(x, &c, of, err);
        dti_load_curve_close(&c);
        if (st == DT_OK)
            st = plan(x, of, x->limit, &c, err);
        if (st == DT_OK)
            fruitless = keep_if_better(x, of, x->limit, &c) ? 0 : fruitless + 1;
    }
    dti_load_curve_close(&c);
    return st;
}

/* ---- taking back ---- */

/* How long the ops of a plan wait for the copies of each gap; no less than nothing. */
static dt_status seconds_waited(
    const dti_planner *x, const dti_load_curve *c, const dti_idle *of, double *waits, dt_err *err)
{
    tensor_wait *by;
    const dt_status st = find_waits(c, &by, err);
    for (size_t n = 0; n < x->n_gap; n++)
        waits[n] = st == DT_OK && of[n].fate == DTI_OFFLOAD ? by[of[n].gap.tensor].seconds : 0;
    dt_free(by);
    return st;
}

/* The one that is waited for longest; where none is, as copies also slow the ops beside them, the
 * one whose copies take longest. */
static dti_idle *costliest(const dti_planner *x, dti_idle *of, const double *waits)
{
    dti_idle *found = NULL;
    for (size_t n = 0; n < x->n_gap; n++) {
        const size_t f = found != NULL ? (size_t)(found - of) : n;
        const bool more = waits[n] > waits[f] ||
                          (waits[n] >= waits[f] && of[n].out + of[n].in > of[f].out + of[f].in);
        if (of[n].fate == DTI_OFFLOAD && (found == NULL || more))
            found = &of[n];
    }
    return found;
}

/* Seconds of the program with nothing moved, placed as what is planned is. */
static dt_status seconds_before(dti_planner *x, dti_idle *of, double *seconds, dt_err *err)
{
    dti_load_curve c;
    if (x->gaps.n > 0)
        memcpy(of, x->chosen, x->gaps.n * sizeof *of);
    for (size_t n = 0; n < x->n_gap; n++)
        of[n].fate = DTI_KEEP;
    const dt_status st = plan(x, of, x->limit, &c, err);
    *seconds = c.time.seconds;
    dti_load_curve_close(&c);
    return st;
}

/* Without a budget a step is to take no longer than before. What the queues do not tell, such as
 * where addresses make a copy wait, the plan does: swaps are taken back, each time twice as many,
 * until it does. */
static dt_status take_back(dti_planner *x, dti_idle *of, dt_err *err)
{
    double most = 0, *waits = dt_alloc(x->n_gap + 1, sizeof *waits);
    dt_status st = waits != NULL ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory to take swaps back");
    if (st == DT_OK)
        st = seconds_before(x, of, &most, err);
    most *= 1 + longer;
    if (x->gaps.n > 0)
        memcpy(of, x->chosen, x->gaps.n * sizeof *of);
    for (size_t n = 1; st == DT_OK && x->seconds > most; n *= 2) {
        dti_load_curve c;
        dti_idle *i = NULL;
        st = plan(x, of, x->limit, &c, err);
        if (st == DT_OK)
            st = seconds_waited(x, &c, of, waits, err);
        dti_load_curve_close(&c);
        for (size_t k = 0; st == DT_OK && k < n && (i = costliest(x, of, waits)) != NULL; k++)
            i->fate = DTI_KEEP;
        if (st == DT_OK)
            st = plan(x, of, x->limit, &c, err);
        if (st == DT_OK) {
            x->seconds = c.time.seconds;
            memcpy(x->chosen, of, x->gaps.n * sizeof *of);
        }
        dti_load_curve_close(&c);
        if (i == NULL)
            break;
    }
    dt_free(waits);
    return st;
}

/* Rewrite the program by the best that was tried. */
static dt_status take_best(dti_planner *x, dt_err *err)
{
    dti_idle *of = dt_alloc(x->gaps.n + 1, sizeof *of);
    if (of == NULL)
        return dti_pass_no_memory(err);
    dt_status st = DT_OK;
    if (x->gaps.n > 0)
        memcpy(of, x->chosen, x->gaps.n * sizeof *of);
    if (x->o.feedback > 0 && !x->gaps.inline_copies)
        st = feed_back(x, of, err);
    if (st == DT_OK && x->o.budget == 0 && !x->gaps.inline_copies)
        st = take_back(x, of, err);
    dt_free(of);
    return st == DT_OK ? rewrite(x, x->chosen, x->limit, x->p, err) : st;
}

/* Opens @x, whatever comes of it. */
static dt_status search(dti_planner *x, dt_program *p, const dt_pass_env *e,
    const dti_planner_opts *o, uint64_t limit, bool bold, dti_planner_choose *choose, dt_err *err)
{
    bool more = true;
    dt_status st = dti_planner_open(x, p, e, o, err);
    x->bold = bold;
    if (st == DT_OK && limit != x->gaps.limit)
        dti_gaps_limit(&x->gaps, limit);
    while (st == DT_OK && more) {
        st = choose(x, e->opts, err);
        if (st == DT_OK)
            st = try_chosen(x, &more, err);
    }
    return st;
}

static dt_status search_again(dti_planner *x, const dti_planner_opts *o, uint64_t limit, bool bold,
    dti_planner_choose *choose, dt_err *err)
{
    dti_planner y;
    dt_status st = search(&y, x->p, x->env, o, limit, bold, choose, err);
    if (st == DT_OK && better(x, y.peak, y.seconds)) {
        const dti_planner swap = *x;
        *x = y;
        y = swap;
    }
    dti_planner_close(&y);
    return st;
}

/* Choices made for more bytes may come to what no more can be taken from, where those for fewer
 * would fit: what misses the budget by little is begun anew with lower limits. */
static dt_status search_lower(
    dti_planner *x, const dti_planner_opts *o, dti_planner_choose *choose, dt_err *err)
{
    const uint64_t by = o->budget / LOWER_BY;
    dt_status st = DT_OK;
    for (uint64_t k = 1; k <= LOWER && st == DT_OK; k++)
        if (x->peak > o->budget && x->peak - o->budget < LOWER * by)
            st = search_again(x, o, o->budget - k * by, x->bold, choose, err);
    return st;
}

/* What is recomputed is recomputed from what has to stay. */
static dt_status search_without_recomputing(
    dti_planner *x, const dti_planner_opts *o, dti_planner_choose *choose, dt_err *err)
{
    dti_planner_opts swaps = *o;
    swaps.recompute = false;
    return search_again(x, &swaps, o->budget, false, choose, err);
}

dt_status dti_planner_run(dt_program *p, const dt_pass_env *e, const dti_planner_opts *o,
    dti_planner_choose *choose, dt_err *err)
{
    dti_planner x;
    const uint64_t limit = o->budget > 0 ? o->budget : UINT64_MAX;
    if (p->loss == DT_NONE)
        return DT_OK;
    dt_status st = search(&x, p, e, o, limit, false, choose, err);
    /* few at a time leave more to be recomputed, where the plans that may be tried are enough */
    if (st == DT_OK && x.exchanged && x.peak > o->budget)
        st = search_again(&x, o, limit, true, choose, err);
    if (st == DT_OK && o->budget > 0)
        st = search_lower(&x, o, choose, err);
    if (st == DT_OK && o->recompute && x.peak > o->budget && o->budget > 0)
        st = search_without_recomputing(&x, o, choose, err);
    if (st == DT_OK)
        st = take_best(&x, err);
    dti_planner_close(&x);
    return st;
}
