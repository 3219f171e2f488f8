/* A graph that trains as a chain of stages, and a chain's plan as runs of its ops.
 *
 * Forward, in its order, is cut behind some ops. The input of a stage is what was made before it
 * and is read by forward in it or behind it; its tape is what it makes and backward reads, or
 * another stage. Gradients across a cut take what the values there take. */
#include <inttypes.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers.h"
#include "memory/remat/chain.h"

/**
 * struct making - a graph being cut.
 * @n_forward: ops of forward, which come first
 * @last:      by op of forward, the last op of forward that reads it
 * @bytes:     by op of forward, of the values that cross the cut behind it
 * @point:     by op of forward, whether it is an articulation point
 */
typedef struct making {
    const dt_remat_graph *g;
    uint32_t n_forward, *last;
    uint64_t *bytes;
    uint8_t *point;
    bool *cut, *back; /* behind an op; of an op: backward reads its value */
} making;

static void look(making *m)
{
    const dt_remat_graph *g = m->g;
    for (uint32_t v = 0; v < m->n_forward; v++) {
        m->last[v] = v;
        for (uint32_t i = g->out_at[v]; i < g->out_at[v + 1]; i++)
            if (g->out[i] >= m->n_forward)
                m->back[v] = true;
            else if (g->out[i] > m->last[v])
                m->last[v] = g->out[i];
        m->bytes[v] += g->bytes[v]; /* from here on, up to there; it wraps round where it falls */
        m->bytes[m->last[v]] -= g->bytes[v];
    }
    for (uint32_t v = 1; v < m->n_forward; v++)
        m->bytes[v] += m->bytes[v - 1];
    dti_remat_articulations(g, m->n_forward, m->point);
}

static bool far_apart(const making *m)
{
    uint64_t stage = 0, largest = 0, all = 0;
    for (uint32_t v = 0; v < m->n_forward; v++) {
        stage += m->g->bytes[v];
        all += m->g->bytes[v];
        largest = dt_max_u64(largest, stage);
        stage = m->cut[v] ? 0 : stage;
    }
    return largest > all / 2;
}

/* Where to cut; how many stages that makes, of which the last is the loss and what is right before
 * it. */
static uint32_t cut(making *m, dti_chain_cuts cuts, bool *points)
{
    uint32_t n = 1;
    *points = true;
    for (uint32_t v = 0; v + 1 < m->n_forward; v++)
        m->cut[v] = m->point[v] != 0 && m->last[v] > v;
    if (cuts == DTI_CHAIN_LINEAR || (cuts == DTI_CHAIN_AUTO && far_apart(m)))
        for (uint32_t v = 0; v + 1 < m->n_forward; v++) {
            *points = *points && m->cut[v];
            m->cut[v] = m->bytes[v] > 0;
        }
    for (uint32_t v = 0; v < m->n_forward; v++)
        n += m->cut[v];
    return n;
}

/* A cut, and the bytes of the two stages beside it, as they were when it was put in. */
typedef struct beside {
    uint64_t bytes;
    uint32_t at;
} beside;

/**
 * struct merging - cuts that are given up.
 * @heap:   n of them, the least bytes at the top, of equal ones the first
 * @before @after: by op behind which a stage ends, where its neighbours end; none: UINT32_MAX
 * @stage:  by the same, its bytes
 */
typedef struct merging {
    beside *heap;
    uint32_t n, *before, *after;
    uint64_t *stage;
} merging;

static bool is_less(beside a, beside b)
{
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.at < b.at;
}

/* In place of entry @i, with all below it in order. */
static void sift(merging *x, uint32_t i, beside e)
{
    for (uint32_t k = 2 * i + 1; k < x->n; k = 2 * i + 1) {
        k += k + 1 < x->n && is_less(x->heap[k + 1], x->heap[k]);
        if (!is_less(x->heap[k], e))
            break;
        x->heap[i] = x->heap[k];
        i = k;
    }
    x->heap[i] = e;
}

static uint64_t bytes_beside(const merging *x, uint32_t at)
{
    return x->stage[at] + x->stage[x->after[at]];
}

/* Stages by where they end, and all cuts. */
static void list_cuts(const making *m, merging *x)
{
    uint32_t before = UINT32_MAX;
    uint64_t here = 0;
    for (uint32_t v = 0; v < m->n_forward; v++) {
        here += m->g->bytes[v];
        if (!m->cut[v] && v + 1 < m->n_forward)
            continue;
        x->stage[v] = here;
        x->before[v] = before;
        x->after[v] = UINT32_MAX;
        if (before != UINT32_MAX) {
            x->after[before] = v;
            x->heap[x->n++] = (beside){bytes_beside(x, before), before};
        }
        before = v;
        here = 0;
    }
    for (uint32_t i = x->n / 2; i-- > 0;)
        sift(x, i, x->heap[i]);
}

/* Give up the cut between the two neighbours that make the least bytes together. Stages only grow,
 * so an entry that is out of date is too high up, and is put in anew. */
static void merge_least(making *m, merging *x)
{
    while (x->heap[0].bytes != bytes_beside(x, x->heap[0].at))
        sift(x, 0, (beside){bytes_beside(x, x->heap[0].at), x->heap[0].at});
    const uint32_t at = x->heap[0].at, before = x->before[at], after = x->after[at];
    m->cut[at] = false;
    x->stage[after] += x->stage[at];
    x->before[after] = before;
    if (before != UINT32_MAX)
        x->after[before] = after;
    x->n--;
    sift(x, 0, x->heap[x->n]);
}

static dt_status merge(making *m, uint32_t stages, uint32_t most, dt_err *err)
{
    const size_t n = m->n_forward;
    merging x = {.heap = dt_alloc(n, sizeof *x.heap),
        .before = dt_alloc(n, sizeof *x.before),
        .after = dt_alloc(n, sizeof *x.after),
        .stage = dt_alloc(n, sizeof *x.stage)};
    const bool ok = x.heap != NULL && x.before != NULL && x.after != NULL && x.stage != NULL;
    if (ok)
        list_cuts(m, &x);
    for (; ok && stages > most; stages--)
        merge_least(m, &x);
    dt_free(x.heap);
    dt_free(x.before);
    dt_free(x.after);
    dt_free(x.stage);
    return ok ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory to merge %" PRIu32 " stages", stages);
}

/* --- stages --- */

static void number_backward(const making *m, dti_chain_stages *out, const uint32_t *mirror)
{
    const dt_remat_graph *g = m->g;
    const uint32_t n_back = g->n_op - m->n_forward;
    uint32_t *of = out->stage, stage = 0;
    for (uint32_t v = 0; v < m->n_forward; v++) { /* first of forward, then read by backward */
        of[v] = stage;
        stage += m->cut[v];
    }
    uint32_t least = stage;
    for (uint32_t v = m->n_forward; v < g->n_op; v++) {
        uint32_t like = mirror != NULL ? mirror[v] : UINT32_MAX;
        if (mirror == NULL)
            like = (uint32_t)((uint64_t)(g->n_op - 1 - v) * m->n_forward / n_back);
        if (like < m->n_forward && of[like] < least)
            least = of[like];
        of[v] = least;
    }
}

/* Bytes beside input and output while ops of a stage run: of forward what the stage has made and
 * still reads, of backward the gradients that an op reads and makes. */
static void measure_extra(const making *m, dti_chain_stages *out)
{
    const dt_remat_graph *g = m->g;
    for (uint32_t v = 0; v < g->n_op; v++) {
        dt_chain_stage *s = &out->chain.stage[out->stage[v]];
        const bool forward = v < m->n_forward;
        const uint32_t from = forward ? out->first[out->stage[v]] : m->n_forward;
        const uint32_t to = forward ? out->first[out->stage[v] + 1] : g->n_op;
        uint64_t live = g->bytes[v];
        for (uint32_t i = g->in_at[v]; i < g->in_at[v + 1]; i++)
            live += g->in[i] >= from && g->in[i] < to ? g->bytes[g->in[i]] : 0;
        live -= live < s->bytes ? live : s->bytes;
        uint64_t *extra = forward ? &s->forward_extra : &s->backward_extra;
        *extra = dt_max_u64(*extra, live);
    }
}

static void fill(const making *m, dti_chain_stages *out)
{
    const dt_remat_graph *g = m->g;
    dt_chain_stage *s = out->chain.stage;
    out->chain.input = 0;
    for (uint32_t v = 0; v < g->n_op; v++) {
        dt_chain_stage *of = &s[out->stage[v]];
        if (v >= m->n_forward) {
            of->backward += g->cost[v];
            continue;
        }
        of->forward += g->cost[v];
        if (m->cut[v])
            of->bytes = m->bytes[v];
        if (m->back[v] || m->last[v] >= out->first[out->stage[v] + 1])
            of->tape += g->bytes[v];
    }
    for (uint32_t i = 0; i + 1 < out->chain.n; i++)
        s[i].tape = dt_max_u64(s[i].tape, s[i].bytes);
    measure_extra(m, out);
    dt_chain_stage *loss = &s[out->chain.n - 1]; /* what it keeps is there while it runs */
    loss->backward_extra = dt_max_u64(loss->forward_extra, loss->backward_extra) + loss->tape;
    loss->bytes = loss->tape = 0;
}

static dt_status make(
    making *m, dti_chain_stages *out, dti_chain_cuts cuts, uint32_t most, dt_err *err)
{
    const size_t n = (size_t)m->g->n_op + 1;
    out->first = dt_alloc(n + 1, sizeof *out->first);
    out->stage = dt_alloc(n, sizeof *out->stage);
    m->last = dt_alloc(n, sizeof *m->last);
    m->bytes = dt_alloc(n, sizeof *m->bytes);
    m->point = dt_alloc(n, sizeof *m->point);
    m->cut = dt_alloc(n, sizeof *m->cut);
    m->back = dt_alloc(n, sizeof *m->back);
    if (out->first == NULL || out->stage == NULL || m->last == NULL || m->bytes == NULL ||
        m->point == NULL || m->cut == NULL || m->back == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to cut %" PRIu32 " ops", m->g->n_op);
    look(m);
    uint32_t stages = cut(m, cuts, &out->points);
    if (stages > most) {
        DT_CHECK(merge(m, stages, most, err));
        stages = most;
    }
    out->chain.n = stages;
    out->chain.stage = dt_alloc(stages, sizeof *out->chain.stage);
    if (out->chain.stage == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for %" PRIu32 " stages", stages);
    for (uint32_t v = 0, k = 1; v < m->n_forward; v++)
        if (m->cut[v])
            out->first[k++] = v + 1;
    out->first[stages] = m->n_forward;
    return DT_OK;
}

dt_status dti_chain_of_graph(dti_chain_stages *out, const dt_remat_graph *g, dti_chain_cuts cuts,
    uint32_t most, const uint32_t *mirror, dt_err *err)
{
    making m = {.g = g};
    *out = (dti_chain_stages){0};
    while (m.n_forward < g->n_op && g->backward[m.n_forward] == 0)
        m.n_forward++;
    if (m.n_forward == 0 || m.n_forward == g->n_op)
        return DT_FAIL(err, DT_E_CONFIG,
            "a chain has ops of forward, and then ops of backward, which no op of the graph is");
    dt_status st = make(&m, out, cuts, most, err);
    if (st == DT_OK) {
        number_backward(&m, out, mirror);
        fill(&m, out);
    }
    dt_free(m.last);
    dt_free(m.bytes);
    dt_free(m.point);
    dt_free(m.cut);
    dt_free(m.back);
    return st;
}

void dti_chain_stages_deinit(dti_chain_stages *s)
{
    dt_chain_deinit(&s->chain);
    dt_free(s->first);
    dt_free(s->stage);
    *s = (dti_chain_stages){0};
}

/* --- a plan as runs --- */

/**
 * struct writing - runs being written.
 * @there: by op, whether its value can be read
 * @held:  by op, by how many it is kept
 * @input: by stage, whether its input is kept for its backward; @tape: and what it makes
 */
typedef struct writing {
    const dt_remat_graph *g;
    const dti_chain_stages *s;
    const uint8_t *once;
    dt_remat_sequence *out;
    uint8_t *there;
    uint32_t *held, *stack, next; /* @next: the first op of backward that has not run */
    bool *input, *tape;
} writing;

/* Run @v, and before it what it reads and is not there. */
static dt_status run(writing *w, uint32_t v, dt_err *err)
{
    return dti_remat_push_lacking(w->out, w->g, v, w->there, w->stack, err);
}

static void drop(writing *w, uint32_t v)
{
    const bool fixed = w->once != NULL && w->once[v] != 0;
    w->there[v] = w->there[v] != 0 && (fixed || w->held[v] > 0);
}

/* Whether @v is of the input of stage @i: made before it, and read by forward in it or later. */
static bool crosses(const writing *w, uint32_t v, uint32_t i)
{
    const dt_remat_graph *g = w->g;
    const uint32_t from = w->s->first[i], to = w->s->first[w->s->chain.n];
    for (uint32_t k = g->out_at[v]; v < from && k < g->out_at[v + 1]; k++)
        if (g->out[k] >= from && g->out[k] < to)
            return true;
    return false;
}

static void hold_input(writing *w, uint32_t i, bool hold)
{
    if (w->input[i] == hold)
        return;
    w->input[i] = hold;
    for (uint32_t v = 0; v < w->s->first[i]; v++)
        if (crosses(w, v, i))
            w->held[v] += hold ? 1 : UINT32_MAX;
}

static void hold_tape(writing *w, uint32_t i, bool hold)
{
    if (w->tape[i] == hold)
        return;
    w->tape[i] = hold;
    for (uint32_t v = w->s->first[i]; v < w->s->first[i + 1]; v++)
        w->held[v] += hold ? 1 : UINT32_MAX;
}

static dt_status forward(writing *w, uint32_t i, dt_chain_act act, dt_err *err)
{
    if (act == DT_CHAIN_FORWARD_KEEP_INPUT)
        hold_input(w, i, true);
    for (uint32_t v = w->s->first[i]; v < w->s->first[i + 1]; v++)
        if (w->there[v] == 0)
            DT_CHECK(run(w, v, err));
    if (act == DT_CHAIN_FORWARD_KEEP_TAPE) {
        hold_tape(w, i, true);
        return DT_OK;
    }
    for (uint32_t v = 0; v < w->s->first[i + 1]; v++)
        if (!crosses(w, v, i + 1))
            drop(w, v);
    return DT_OK;
}

/* All of backward up to what belongs to earlier stages. */
static dt_status backward(writing *w, uint32_t i, dt_err *err)
{
    for (; w->next < w->g->n_op && w->s->stage[w->next] >= i; w->next++)
        DT_CHECK(run(w, w->next, err));
    hold_tape(w, i, false);
    hold_input(w, i, false);
    for (uint32_t v = 0; v < w->s->first[w->s->chain.n]; v++)
        if (v >= w->s->first[i])
            drop(w, v);
    return DT_OK;
}

static dt_status write_runs(writing *w, const dt_chain_plan *plan, dt_err *err)
{
    for (size_t k = 0; k < plan->n; k++) {
        const dt_chain_step x = plan->step[k];
        DT_CHECK(x.act == DT_CHAIN_BACKWARD ? backward(w, x.stage, err)
                                            : forward(w, x.stage, x.act, err));
    }
    for (; w->next < w->g->n_op; w->next++)
        DT_CHECK(run(w, w->next, err));
    return dti_remat_prune(w->g, w->out, err);
}

dt_status dti_chain_runs(dt_remat_sequence *out, const dt_remat_graph *g, const dti_chain_stages *s,
    const dt_chain_plan *plan, const uint8_t *once, dt_err *err)
{
    const size_t n = (size_t)g->n_op + 1;
    *out = (dt_remat_sequence){0};
    writing w = {.g = g,
        .s = s,
        .once = once,
        .out = out,
        .there = dt_alloc(n, 1),
        .held = dt_alloc(n, sizeof *w.held),
        .stack = dt_alloc(2 * n, sizeof *w.stack),
        .next = s->first[s->chain.n],
        .input = dt_alloc((size_t)s->chain.n + 1, sizeof *w.input),
        .tape = dt_alloc((size_t)s->chain.n + 1, sizeof *w.tape)};
    const bool ok =
        w.there != NULL && w.held != NULL && w.stack != NULL && w.input != NULL && w.tape != NULL;
    const dt_status st = ok ? write_runs(&w, plan, err)
                            : DT_FAIL(err, DT_E_NOMEM, "no memory for runs of %zu ops", n - 1);
    dt_free(w.there);
    dt_free(w.held);
    dt_free(w.stack);
    dt_free(w.input);
    dt_free(w.tape);
    return st;
}
