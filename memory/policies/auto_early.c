/* Copies back that the ops wait for are asked for earlier: the one that is waited for longest
 * first, as long as the plan stays within its budget and gets faster. What moves values puts a copy
 * at a distance that is chosen before the others are known, and inputs are fetched again right
 * before they are read; the bytes for more are often there. */
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/lower/lower.h"
#include "memory/policies/auto_search.h"
#include "memory/time/simulate.h"

enum { TRIES = 10 };

/* A copy back that the ops wait for: its tensor, the how manieth of that, and how long. */
typedef struct stall {
    int32_t tensor, nth;
    double seconds;
} stall;

/* The longest wait for a copy of a tensor that was not tried. @signal: by event, who signals it. */
static stall longest(
    const dt_plan *p, const dt_timeline *t, const int32_t *signal, const bool *tried)
{
    stall most = {.tensor = DT_NONE};
    for (size_t i = 0; i < p->n_row; i++) {
        const dt_row *w = &p->row[i];
        const double seconds = t->end[i] - t->begin[i];
        if (w->kind != DT_ROW_WAIT || w->stream != DT_MAIN_STREAM || seconds <= most.seconds)
            continue;
        const int32_t by = signal[w->event];
        if (by < 0 || p->row[by].kind != DT_ROW_COPY_IN || tried[p->row[by].tensor])
            continue;
        most = (stall){p->row[by].tensor, 0, seconds};
        for (int32_t k = 0; k < by; k++)
            most.nth += p->row[k].kind == DT_ROW_COPY_IN && p->row[k].tensor == most.tensor;
    }
    return most;
}

/* Where in the order the copy stands; n_order: it is none of the program's, but a home's. */
static size_t place_of(const dt_program *p, stall most)
{
    size_t i = 0;
    for (; i < p->n_order; i++) {
        const dt_op *op = &p->op[p->order[i]];
        if ((op->kind == DT_OP_IN || op->kind == DT_OP_FETCH) && op->arg[0].tensor == most.tensor &&
            most.nth-- == 0)
            break;
    }
    return i;
}

/* Behind what was done with the tensor last, and behind where its bytes are given back. */
static size_t earliest(const dt_program *p, size_t at)
{
    const dt_op *op = &p->op[p->order[at]];
    int32_t n, last = -1;
    const dt_access *a = dt_accesses(p, op->arg[0].tensor, &n);
    for (int32_t i = 0; i < n && dt_pos(p, a[i].op) < (int32_t)at; i++) {
        const int32_t release = p->op[a[i].op].release_after;
        last = dt_pos(p, a[i].op);
        if (p->op[a[i].op].kind == DT_OP_OUT && release != DT_NONE && dt_pos(p, release) > last)
            last = dt_pos(p, release);
    }
    return (size_t)(last + 1);
}

/* The place from which ops take so long until here. */
static size_t place_before(const dti_auto *s, const dt_program *p, size_t at, double seconds)
{
    const size_t first = earliest(p, at);
    while (at > first && seconds > 0)
        seconds -= dti_auto_seconds_of(s, p, p->order[--at]);
    return at;
}

/* An op comes to an earlier place of the order. */
typedef struct move {
    size_t from, to;
} move;

static dt_status make_move(void *self, dt_program *p, dt_err *err)
{
    const move *m = self;
    const int32_t op = p->order[m->from];
    memmove(&p->order[m->to + 1], &p->order[m->to], (m->from - m->to) * sizeof *p->order);
    p->order[m->to] = op;
    p->stale = true;
    return dt_program_index(p, err);
}

/* Find what is waited for. A plan has its program's tensors. */
static dt_status look(const dti_auto *s, dt_program *p, const bool *tried, stall *most, dt_err *err)
{
    const dt_lower_opts o = dti_pass_lower_opts(s->env);
    const dt_simulate_opts machine = dti_pass_machine(s->env);
    dt_plan *plan = NULL;
    dt_timeline t = {0};
    dt_status st = dt_lower(&plan, p, &o, err);
    if (st == DT_OK)
        st = dt_simulate(&t, plan, dti_pass_costs(s->env), &machine, err);
    int32_t *signal = st == DT_OK ? dt_alloc((size_t)plan->n_event + 1, sizeof *signal) : NULL;
    if (st == DT_OK && signal == NULL)
        st = dti_pass_no_memory(err);
    if (st == DT_OK) {
        dt_timeline_signals(plan, signal);
        *most = longest(plan, &t, signal, tried);
    }
    dt_free(signal);
    dt_timeline_deinit(&t);
    dt_plan_destroy(plan);
    return st;
}

/* Asked for earlier by so many seconds, if that is better. */
static dt_status try_earlier(const dti_auto *s, uint64_t budget, size_t at, double seconds,
    dt_program *p, dti_pass_cost *cost, bool *better, dt_err *err)
{
    dti_pass_cost c = {0};
    move m = {.from = at, .to = place_before(s, p, at, seconds)};
    *better = false;
    if (m.to == at)
        return DT_OK;
    DT_CHECK(dti_pass_cost_if(s->env, p, make_move, &m, &c, err));
    *better = c.device <= budget && dti_pass_fits(s->env, &c) && c.seconds < cost->seconds;
    if (!*better)
        return DT_OK;
    *cost = c;
    return make_move(&m, p, err);
}

/* One copy; *done: none is waited for. */
static dt_status one(const dti_auto *s, uint64_t budget, dt_program *p, dti_pass_cost *cost,
    bool *tried, bool *done, dt_err *err)
{
    stall most = {.tensor = DT_NONE};
    bool better = false;
    DT_CHECK(look(s, p, tried, &most, err));
    *done = most.tensor == DT_NONE;
    if (*done)
        return DT_OK;
    const size_t at = place_of(p, most);
    const bool moves = at < p->n_order && p->op[p->order[at]].join_before <= 0;
    for (int part = 1; moves && part <= 2 && !better; part++)
        DT_CHECK(try_earlier(s, budget, at, most.seconds / part, p, cost, &better, err));
    tried[most.tensor] = !better;
    return DT_OK;
}

dt_status dti_auto_ask_earlier(const dti_auto *s, uint64_t budget, dt_program *p, dt_err *err)
{
    bool *tried = dt_alloc(p->n_tensor + 1, sizeof *tried), done = false;
    dti_pass_cost cost = {0};
    if (tried == NULL)
        return dti_pass_no_memory(err);
    dt_status st = dti_pass_cost_of(s->env, p, &cost, err);
    for (int i = 0; st == DT_OK && i < TRIES && !done; i++)
        st = one(s, budget, p, &cost, tried, &done, err);
    dt_free(tried);
    return st;
}
