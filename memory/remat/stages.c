/* Stages: the fewest runs, fixed checkpoints, and the replay that tells bytes. */
#include "memory/remat/stages.h"

#include <inttypes.h>

#include "engine/base/alloc.h"

static uint8_t *row(uint8_t *of, const dti_remat_stages *s, uint32_t stage)
{
    return of + (size_t)stage * s->n;
}

dt_status dti_stages_init(dti_remat_stages *s, uint32_t n, dt_err *err)
{
    const size_t cells = (size_t)n * n;
    *s = (dti_remat_stages){.n = n};
    if (n > DTI_STAGES_MOST_OPS)
        return DT_FAIL(err, DT_E_CONFIG, "stages are for at most %d ops, and there are %" PRIu32,
            DTI_STAGES_MOST_OPS, n);
    s->held = dt_alloc(cells, 1);
    s->run = dt_alloc(cells, 1);
    return s->held != NULL && s->run != NULL
               ? DT_OK
               : DT_FAIL(err, DT_E_NOMEM, "no memory for the stages of %" PRIu32 " ops", n);
}

void dti_stages_deinit(dti_remat_stages *s)
{
    dt_free(s->held);
    dt_free(s->run);
    *s = (dti_remat_stages){0};
}

void dti_stages_least_runs(const dt_remat_graph *g, dti_remat_stages *s)
{
    for (uint32_t t = 0; t < s->n; t++) {
        uint8_t *run = row(s->run, s, t);
        const uint8_t *held = row(s->held, s, t), *next = t + 1 < s->n ? held + s->n : NULL;
        for (uint32_t i = 0; i < s->n; i++)
            run[i] = i == t || (next != NULL && next[i] > held[i]);
        for (uint32_t v = t + 1; v-- > 0;)
            for (uint32_t i = g->in_at[v]; run[v] != 0 && i < g->in_at[v + 1]; i++)
                run[g->in[i]] |= held[g->in[i]] == 0;
    }
}

/* --- fixed checkpoints --- */

static void hold(dti_remat_stages *s, uint32_t stage, uint32_t op)
{
    if (stage < s->n && op < stage)
        row(s->held, s, stage)[op] = 1;
}

/* What every stage's own op reads, and gradients from the one that makes them to the last reader.
 */
static void hold_inputs(const dt_remat_graph *g, uint32_t layers, dti_remat_stages *s)
{
    for (uint32_t v = 0; v < g->n_op; v++)
        for (uint32_t i = g->in_at[v]; i < g->in_at[v + 1]; i++) {
            const uint32_t u = g->in[i];
            for (uint32_t t = u >= layers ? u + 1 : v; t <= v; t++)
                hold(s, t, u);
        }
}

/* Ops [from, to) of forward, in the stages of forward there and in those that mirror them. */
static void hold_segment(dti_remat_stages *s, uint32_t from, uint32_t to, uint32_t layers)
{
    const uint32_t last = s->n - 1;
    for (uint32_t i = from; i < to; i++) {
        for (uint32_t t = from; t <= to; t++)
            hold(s, t, i);
        for (uint32_t x = from; x < to && x <= last; x++)
            hold(s, last - x, i);
        for (uint32_t x = from; x <= to && x <= last && i < layers; x++)
            hold(s, last - x, last - i); /* the gradient of i */
    }
}

void dti_stages_of_kept(const dt_remat_graph *g, const uint8_t *kept, dti_remat_stages *s)
{
    uint32_t forward = 0, from = 0;
    while (forward < g->n_op && g->backward[forward] == 0)
        forward++;
    const uint32_t layers = forward > 0 ? forward - 1 : 0; /* the loss is none */
    hold_inputs(g, layers, s);
    for (uint32_t i = 0; i < layers; i++) {
        if (kept[i] == 0)
            continue;
        for (uint32_t t = i + 1; t < s->n; t++)
            hold(s, t, i);
        hold_segment(s, from, i, layers);
        from = i;
    }
    hold_segment(s, from, layers + 1, layers);
    dti_stages_least_runs(g, s);
}

/* --- replay --- */

typedef struct replay {
    const dt_remat_graph *g;
    const dti_remat_stages *s;
    uint8_t *there;
    uint64_t live;
} replay;

/* Whether the stage reads @u behind op @i, or the next one holds it. */
static bool needed(const replay *r, uint32_t t, uint32_t u, uint32_t i)
{
    const dt_remat_graph *g = r->g;
    if (t + 1 < r->s->n && row(r->s->held, r->s, t + 1)[u] != 0)
        return true;
    for (uint32_t k = g->out_at[u]; k < g->out_at[u + 1]; k++)
        if (g->out[k] > i && row(r->s->run, r->s, t)[g->out[k]] != 0)
            return true;
    return false;
}

static void leave(replay *r, uint32_t t, uint32_t u, uint32_t i)
{
    if (r->there[u] == 0 || needed(r, t, u, i))
        return;
    r->there[u] = 0;
    r->live -= r->g->bytes[u];
}

static dt_status replay_op(
    replay *r, uint32_t t, uint32_t i, dt_remat_sequence *out, dt_remat_taken *taken, dt_err *err)
{
    const dt_remat_graph *g = r->g;
    if (r->there[i] == 0)
        r->live += g->bytes[i];
    r->there[i] = 1;
    taken->cost += g->cost[i];
    taken->peak = r->live > taken->peak ? r->live : taken->peak;
    for (uint32_t k = g->in_at[i]; k < g->in_at[i + 1]; k++)
        leave(r, t, g->in[k], i);
    leave(r, t, i, i);
    return out != NULL ? dti_remat_push(out, i, err) : DT_OK;
}

dt_status dti_stages_replay(const dt_remat_graph *g, const dti_remat_stages *s,
    dt_remat_sequence *out, dt_remat_taken *taken, dt_err *err)
{
    replay r = {.g = g, .s = s, .there = dt_alloc((size_t)s->n + 1, 1)};
    dt_status st =
        r.there != NULL ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory to replay %" PRIu32, s->n);
    *taken = (dt_remat_taken){0};
    for (uint32_t t = 0; st == DT_OK && t < s->n; t++) {
        for (uint32_t i = 0; i < t; i++)
            leave(&r, t, i, i);
        for (uint32_t i = 0; st == DT_OK && i <= t; i++)
            if (row(s->run, s, t)[i] != 0)
                st = replay_op(&r, t, i, out, taken, err);
    }
    dt_free(r.there);
    return st;
}
