/* From gaps and their fates to a program with copies and recomputes. */
#include "memory/gap/rewrite.h"

#include <stdlib.h>

#include "engine/base/alloc.h"

/* ---- copies ---- */

double dti_copy_seconds(const dt_pass_env *e, const dt_tensor *t, dt_row_kind kind)
{
    const bool input = t->role == DT_ROLE_INPUT;
    if (input && kind == DT_ROW_COPY_OUT)
        return 0;
    return dti_pass_copy_seconds(e, input ? DT_TIER_INPUT : dti_offload_tier(e), kind, t->bytes);
}

void dti_gaps_borrow(dti_gaps *g, const dti_load_curve *c, const dt_pass_env *e)
{
    g->n_place = c->n;
    g->begin = c->begin;
    g->end = c->end;
    g->load = c->load;
    g->inline_copies = dti_stands_between(e, dti_offload_tier(e));
}

size_t dti_gaps_there(const dt_program *p, const dt_pass_env *e, dti_idle *to)
{
    size_t n = 0;
    for (size_t k = 0; k < p->n_order; k++) {
        const dt_op *op = &p->op[p->order[k]];
        if (op->kind != DT_OP_IN && (op->kind != DT_OP_FETCH || k == 0))
            continue;
        const int32_t t = op->arg[0].tensor, pos = (int32_t)k;
        const int32_t out = op->kind == DT_OP_IN ? op->pair : p->order[k];
        const int32_t after = p->op[out].release_after != DT_NONE ? p->op[out].release_after : out;
        if (to != NULL)
            to[n] = (dti_idle){.gap = {.tensor = t,
                                   .from = out,
                                   .to = p->order[k],
                                   .from_pos = dt_pos(p, out),
                                   .to_pos = dti_next_access(p, t, pos)},
                .out =
                    op->kind == DT_OP_IN ? dti_copy_seconds(e, &p->tensor[t], DT_ROW_COPY_OUT) : 0,
                .in = dti_copy_seconds(e, &p->tensor[t], DT_ROW_COPY_IN),
                .fixed = true,
                .release = dt_pos(p, after),
                .fetch = pos};
        n++;
    }
    return n;
}

/* ---- rewriting ---- */

static bool find_gap(const dt_program *p, int32_t tensor, int32_t from, int32_t to, dti_gap *g)
{
    for (int32_t i = 0; dti_gap_next(p, tensor, &i, g);)
        if ((from == DT_NONE || g->from == from) && (to == DT_NONE || g->to == to))
            return true;
    return false;
}

static int by_end(const void *va, const void *vb)
{
    const dti_idle *a = *(const dti_idle *const *)va, *b = *(const dti_idle *const *)vb;
    if (a->gap.to_pos != b->gap.to_pos)
        return a->gap.to_pos < b->gap.to_pos ? -1 : 1;
    return (a > b) - (a < b);
}

/* All of a fate, in the order in which their gaps end. */
static size_t those(const dti_rewrite *r, dti_fate fate, const dti_idle **to)
{
    size_t n = 0;
    for (size_t k = 0; k < r->n; k++)
        if (r->of[k].fate == fate)
            to[n++] = &r->of[k];
    if (n > 0)
        qsort(to, n, sizeof *to, by_end);
    return n;
}

/* What is not to be kept for values recomputed at the end of @at: other recomputed values whose gap
 * contains that. @all: those whose gaps end there or later. */
static void find_dropped(const dti_idle *const *all, size_t n, const dti_gap *at, bool *dropped)
{
    for (size_t k = 0; k < n; k++)
        if (all[k]->gap.from_pos < at->to_pos)
            dropped[all[k]->gap.tensor] = true;
}

static void drop_none(const dti_idle *const *all, size_t n, bool *dropped)
{
    for (size_t k = 0; k < n; k++)
        dropped[all[k]->gap.tensor] = false;
}

/* A value that an earlier one was made from is there already. */
static dt_status recompute_all(
    const dti_rewrite *r, const dti_idle *const *all, size_t n, bool *dropped, dt_err *err)
{
    dti_remakes remakes;
    dt_status st = dti_remakes_open(&remakes, r->q, dropped, true, err);
    for (size_t k = 0; st == DT_OK && k < n; k++) {
        dti_gap g;
        const dti_gap *at = &all[k]->gap;
        if (!find_gap(r->q, at->tensor, DT_NONE, at->to, &g))
            continue;
        find_dropped(all + k, n - k, at, dropped);
        st = dti_remakes_before(&remakes, g.to, &g.tensor, 1, at->reason, err);
        drop_none(all + k, n - k, dropped);
    }
    dti_remakes_close(&remakes);
    return st;
}

/* The gaps that are offloaded, in the program as recomputes have left it. */
static size_t find_offloads(
    const dti_rewrite *r, const dti_idle *const *all, size_t n, dti_idle *to)
{
    size_t found = 0;
    for (size_t k = 0; k < n; k++) {
        to[found] = *all[k];
        if (find_gap(r->q, all[k]->gap.tensor, all[k]->gap.from, DT_NONE, &to[found].gap)) {
            to[found].gap.reason = all[k]->gap.reason;
            found++;
        }
    }
    return found;
}

/* Places become ops before the first copy comes between them. @n: the gaps that were chosen, which
 * come first. */
static dt_status offload_all(dt_program *q, dti_gaps *g, size_t n, dt_err *err)
{
    for (size_t k = 0; k < n; k++) {
        dti_idle *i = &g->idle[k];
        const bool gone = i->fetch > i->release + 1;
        i->release = gone ? q->order[i->release] : DT_NONE;
        i->fetch = q->order[i->fetch];
    }
    dti_offloads all = {0};
    dt_status st = DT_OK;
    for (size_t k = 0; k < n && st == DT_OK; k++) {
        dti_idle *i = &g->idle[k];
        const dti_offload_opt o = {.release_after = i->release, .fetch_before = i->fetch};
        if (i->release == DT_NONE)
            continue;
        i->gap = dti_gap_now(q, i->gap);
        st = dti_offloads_add(&all, q, &i->gap, &o, err);
    }
    return dti_offloads_end(&all, q, st, err);
}

static dt_status schedule(const dti_rewrite *r, dti_gaps *g, dt_err *err)
{
    dti_load_curve c;
    const size_t chosen = g->n;
    g->n += dti_gaps_there(r->q, r->env, g->idle + chosen);
    dt_status st = dti_load_curve_open(&c, r->q, r->env, 0, err);
    if (st == DT_OK) {
        dti_gaps_borrow(g, &c, r->env);
        g->limit = r->limit;
        st = dti_gaps_open(g, err);
    }
    for (size_t k = 0; st == DT_OK && k < chosen; k++)
        dti_gaps_enqueue(g, &g->idle[k]);
    if (st == DT_OK) {
        dti_gaps_schedule(g);
        st = offload_all(r->q, g, chosen, err);
    }
    dti_gaps_close(g);
    dti_load_curve_close(&c);
    return st;
}

dt_status dti_gaps_rewrite(const dti_rewrite *r, dt_err *err)
{
    const size_t n = r->n, room = n + dti_gaps_there(r->q, r->env, NULL);
    const dti_idle **all = dt_alloc(n + 1, sizeof(dti_idle *));
    bool *dropped = dt_alloc(r->n_tensor + 1, sizeof *dropped);
    dti_idle *away = dt_alloc(room + 1, sizeof *away);
    dti_gaps g = {.idle = away};
    dt_status st = DT_OK;
    if (all == NULL || dropped == NULL || away == NULL)
        st = dti_pass_no_memory(err);
    if (st == DT_OK)
        st = recompute_all(r, all, those(r, DTI_RECOMPUTE, all), dropped, err);
    if (st == DT_OK)
        g.n = find_offloads(r, all, those(r, DTI_OFFLOAD, all), away);
    for (size_t k = 0; k < g.n; k++)
        away[k].fate = DTI_KEEP;
    if (st == DT_OK && g.n > 0)
        st = schedule(r, &g, err);
    dt_free(all);
    dt_free(dropped);
    dt_free(away);
    return st;
}
