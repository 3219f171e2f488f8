/* The simulator: streams that take rows, from one end of a row to the next. */
#include "memory/time/simulate.h"

#include <string.h>

#include "engine/base/alloc.h"

/* A stream at work. Streams that share a worker share one queue. */
typedef struct worker {
    int32_t *queue; /* rows, in order */
    size_t n, next;
    bool busy, waiting;
    double
        left; /* seconds of the row at hand, or of going on behind a wait, if nothing slowed it */
} worker;

typedef struct simulation {
    const dt_plan *p;
    const dt_costs *c;
    dt_timeline *t;
    double *cost; /* by row */
    bool *happened;
    int32_t *queues; /* of all workers */
    worker worker[DT_MAX_STREAMS];
    double now;
} simulation;

static int worker_of(const dt_plan *p, const dt_row *r, const dt_simulate_opts *o)
{
    const dt_stream *s = &p->stream[r->stream];
    const bool copies = s->kind != DT_STREAM_COMPUTE && s->tier == DT_TIER_HOST;
    return copies && o->inline_copies ? DT_MAIN_STREAM : r->stream;
}

static double cost_of(simulation *s, size_t i, const dt_simulate_opts *o)
{
    const dt_row *r = &s->p->row[i];
    if (r->kind == DT_ROW_COMPUTE) {
        const dti_cost c = dti_costs_op(s->c, s->p, &s->p->op[r->op]);
        s->t->source[i] = (uint8_t)c.source;
        return c.seconds;
    }
    if (r->kind != DT_ROW_COPY_OUT && r->kind != DT_ROW_COPY_IN)
        return 0;
    const bool asks = r->codec != 0 && o->density != NULL;
    const double density = asks ? dt_densities_mean(o->density, s->p->tensor[r->tensor].name) : -1;
    const bool team = worker_of(s->p, r, o) == DT_MAIN_STREAM;
    const int tier = r->tier < DT_TIERS ? r->tier : DT_TIER_INPUT;
    const int direction = r->kind == DT_ROW_COPY_OUT ? DT_TO_TIER : DT_FROM_TIER;
    const bool known = dti_costs_has_link(s->c, tier, direction, team);
    s->t->source[i] = (uint8_t)(known ? DT_COST_MEASURED : DT_COST_FLOOR);
    return dti_costs_copy(s->c, r, density < 0 ? 1 : density, team);
}

static dt_status prepare(simulation *s, const dt_simulate_opts *o, dt_err *err)
{
    const size_t n = s->p->n_row;
    dt_timeline *t = s->t;
    t->n = n;
    t->begin = dt_alloc(n + 1, sizeof *t->begin);
    t->end = dt_alloc(n + 1, sizeof *t->end);
    t->source = dt_alloc(n + 1, sizeof *t->source);
    s->cost = dt_alloc(n + 1, sizeof *s->cost);
    s->queues = dt_alloc(n + 1, sizeof *s->queues);
    s->happened = dt_alloc((size_t)s->p->n_event + 1, sizeof *s->happened);
    if (t->begin == NULL || t->end == NULL || t->source == NULL || s->cost == NULL ||
        s->queues == NULL || s->happened == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to simulate a plan");
    for (size_t i = 0; i < n; i++) {
        s->cost[i] = cost_of(s, i, o);
        t->alone[s->p->row[i].stream] += s->cost[i];
        s->worker[worker_of(s->p, &s->p->row[i], o)].n++;
    }
    int32_t *queue = s->queues;
    for (int w = 0; w < s->p->n_stream; w++) {
        s->worker[w].queue = queue;
        queue += s->worker[w].n;
        s->worker[w].n = 0;
    }
    for (size_t i = 0; i < n; i++) {
        worker *w = &s->worker[worker_of(s->p, &s->p->row[i], o)];
        w->queue[w->n++] = (int32_t)i;
    }
    return DT_OK;
}

static void signal_event(simulation *s, const dt_row *r)
{
    if (r->kind != DT_ROW_WAIT && r->event >= 0)
        s->happened[r->event] = true;
}

static void finish(simulation *s, worker *w)
{
    const int32_t i = w->queue[w->next++];
    const dt_row *r = &s->p->row[i];
    const double seconds = s->now - s->t->begin[i];
    s->t->end[i] = s->now;
    w->busy = false;
    if (r->kind != DT_ROW_WAIT)
        s->t->busy[r->stream] += seconds;
    else if (w == &s->worker[DT_MAIN_STREAM])
        s->t->stalled += seconds;
    signal_event(s, r);
}

/* Take up the next row. False: there is none, or it waits. */
static bool take(simulation *s, worker *w)
{
    if (w->busy || w->next == w->n)
        return false;
    const int32_t i = w->queue[w->next];
    const dt_row *r = &s->p->row[i];
    if (!w->waiting)
        s->t->begin[i] = s->now;
    if (r->kind == DT_ROW_WAIT && !s->happened[r->event]) {
        w->waiting = true;
        return false;
    }
    w->left = w->waiting && s->now > s->t->begin[i] ? s->c->wake : s->cost[i];
    w->waiting = false;
    w->busy = w->left > 0;
    if (!w->busy)
        finish(s, w);
    return true;
}

/* What the costs know the stream of the row at hand as. */
static int usual_of(const simulation *s, const worker *w)
{
    const int usual = dt_usual_stream_of(&s->p->stream[s->p->row[w->queue[w->next]].stream]);
    return usual >= 0 ? usual : DT_USUAL_COMPUTE;
}

/* Not who goes on behind a wait, which takes nothing from others. */
static bool works(const simulation *s, const worker *w)
{
    return w->busy && s->p->row[w->queue[w->next]].kind != DT_ROW_WAIT;
}

/* How many times as long the row at hand takes, beside the others at work. */
static double slowed(const simulation *s, const worker *w)
{
    const int mine = usual_of(s, w);
    double by = 1;
    for (int k = 0; k < s->p->n_stream && works(s, w); k++) {
        const worker *other = &s->worker[k];
        if (other != w && works(s, other))
            by *= s->c->slow[mine][usual_of(s, other)];
    }
    return by;
}

/* Go on to the next end of a row. False when nothing is at work. */
static bool advance(simulation *s)
{
    double slow[DT_MAX_STREAMS], first = -1;
    for (int k = 0; k < s->p->n_stream; k++) {
        const worker *w = &s->worker[k];
        if (!w->busy)
            continue;
        slow[k] = slowed(s, w);
        if (first < 0 || w->left * slow[k] < first)
            first = w->left * slow[k];
    }
    if (first < 0)
        return false;
    s->now += first;
    bool ends[DT_MAX_STREAMS] = {false};
    for (int k = 0; k < s->p->n_stream; k++)
        if (s->worker[k].busy) {
            ends[k] = s->worker[k].left * slow[k] <= first;
            s->worker[k].left -= first / slow[k];
        }
    for (int k = 0; k < s->p->n_stream; k++)
        if (ends[k])
            finish(s, &s->worker[k]);
    return true;
}

static dt_status run(simulation *s, dt_err *err)
{
    bool more = true;
    while (more) {
        for (bool moved = true; moved;) {
            moved = false;
            for (int k = 0; k < s->p->n_stream; k++)
                while (take(s, &s->worker[k]))
                    moved = true;
        }
        more = advance(s);
    }
    for (int k = 0; k < s->p->n_stream; k++)
        if (s->worker[k].next < s->worker[k].n)
            return DT_FAIL(err, DT_E_DATA,
                "row %d of the plan waits for an event that never happens",
                s->worker[k].queue[s->worker[k].next]);
    s->t->seconds = s->now;
    return DT_OK;
}

/* Bytes in use, by when the stream of the ops comes to what binds and releases them. */
static void weigh(simulation *s)
{
    double bytes = 0, since = 0, sum = 0;
    const dt_plan *p = s->p;
    for (size_t i = 0; i < p->n_tensor; i++)
        bytes += dt_plan_resident(&p->tensor[i]) ? (double)p->tensor[i].bytes : 0;
    for (size_t i = 0; i < p->n_row; i++) {
        const dt_row *r = &p->row[i];
        if (r->kind != DT_ROW_PLACE && r->kind != DT_ROW_RELEASE)
            continue;
        sum += bytes * (s->t->begin[i] - since);
        since = s->t->begin[i];
        bytes += r->kind == DT_ROW_PLACE ? (double)r->bytes : -(double)r->bytes;
        if (r->kind == DT_ROW_PLACE && r->over >= 0)
            bytes -= (double)p->tensor[r->over].bytes;
    }
    sum += bytes * (s->now - since);
    s->t->average = s->now > 0 ? sum / s->now : bytes;
}

dt_status dt_simulate(
    dt_timeline *out, const dt_plan *p, const dt_costs *c, const dt_simulate_opts *o, dt_err *err)
{
    *out = (dt_timeline){0};
    simulation s = {.p = p, .c = c, .t = out};
    dt_status st = prepare(&s, o, err);
    if (st == DT_OK)
        st = run(&s, err);
    if (st == DT_OK)
        weigh(&s);
    dt_free(s.cost);
    dt_free(s.queues);
    dt_free(s.happened);
    return st;
}

void dt_timeline_deinit(dt_timeline *t)
{
    dt_free(t->begin);
    dt_free(t->end);
    dt_free(t->source);
    *t = (dt_timeline){0};
}

void dt_timeline_signals(const dt_plan *p, int32_t *by)
{
    for (int32_t e = 0; e < p->n_event; e++)
        by[e] = DT_NONE;
    for (size_t i = p->n_row; i-- > 0;)
        if (p->row[i].kind != DT_ROW_WAIT && p->row[i].event != DT_NONE)
            by[p->row[i].event] = (int32_t)i;
}
