/* What was compared, run: each plan some steps, all of them in turns, so that what drifts hits all
 * alike. */
#include "session/compare.h"

#include <stdlib.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers.h"
#include "session/budget.h"
#include "session/made_up.h"
#include "session/rig.h"

enum { ROUNDS = 5, WARM = 2, STEPS = 5, ALL = ROUNDS * STEPS };

/* @batch: by variant; of those that take alike batches the first has it
 * @runs:  by row, whether it does
 * @seconds: by row, ALL of each; @now: those of the row whose turn it is; @done: steps of the turn
 */
typedef struct turns {
    dt_compare *c;
    bool *runs;
    dti_made_up *batch;
    double *seconds, *now;
    int64_t done;
} turns;

static dt_status after_step(void *self, const dt_step_report *r, dt_err *err)
{
    turns *t = self;
    (void)err;
    if (t->done >= WARM)
        t->now[t->done - WARM] = r->step_seconds;
    t->done++;
    return DT_OK;
}

static bool alike(const dt_session *a, const dt_session *b)
{
    const dt_graph *x = a->graph, *y = b->graph;
    return a->opts.train.batch == b->opts.train.batch &&
           dt_shape_sample(&x->input) == dt_shape_sample(&y->input) && x->classes == y->classes &&
           dt_graph_labels(x) == dt_graph_labels(y) &&
           dt_graph_label_kind(x) == dt_graph_label_kind(y) &&
           dt_graph_tokens(x) == dt_graph_tokens(y) &&
           dt_graph_vocabulary(x) == dt_graph_vocabulary(y);
}

/* Made up when it is first asked for. */
static dt_status batch_of(turns *t, const dt_session *s, dti_made_up **to, dt_err *err)
{
    const dt_variants *v = &t->c->variants;
    size_t i = 0;
    while (v->variant[i].session == NULL || !alike(v->variant[i].session, s))
        i++;
    *to = &t->batch[i];
    return (*to)->x != NULL ? DT_OK : dti_made_up_init(*to, s, err);
}

static dt_status train(turns *t, const dt_session *s, const dt_rig *g, dt_err *err)
{
    dti_made_up *batch = NULL;
    DT_CHECK(batch_of(t, s, &batch, err));
    const dt_train_opts opts = dti_made_up_opts(s);
    const dt_observer o = {.self = t, .step = after_step};
    const dt_train_job j = {.runner = g->runner,
        .map = s->plans->map,
        .opts = &opts,
        .micro_batch = s->micro_batch,
        .ready = g->ready,
        .n_ready = g->n,
        .feed = &batch->feed,
        .steps = WARM + STEPS,
        .steps_per_epoch = DTI_MADE_UP_STEPS,
        .observer = &o};
    t->done = 0;
    return dt_train(&j, err);
}

/* A turn reserves its memory anew, as a run of its own would. */
static dt_status turn(turns *t, size_t row, int round, dt_err *err)
{
    dt_session *s = t->c->row[row].session;
    dt_plan_set *own = s->plans;
    dt_rig g;
    t->now = t->seconds + row * ALL + (size_t)round * STEPS;
    dti_session_enter(s);
    s->plans = t->c->row[row].plans;
    dt_status st = dti_rig_open(&g, s, err);
    if (st == DT_OK)
        st = train(t, s, &g, err);
    dti_rig_close(&g);
    s->plans = own;
    dti_session_leave(s);
    return st == DT_OK ? st : DT_FAIL(err, st, "while running %s", t->c->row[row].policy);
}

/* Alike plans are run once, and those that this machine has room for, as it is when this is asked:
 * once, before the first round. */
static bool may_run(const dt_compare *c, size_t row)
{
    const dt_compare_row *r = &c->row[row];
    dt_here here;
    if (!r->can || !dt_compare_is_new(r) || r->plans == NULL)
        return false;
    dt_plan_set_here(r->plans, &here);
    return here.fits && here.disk_error == 0;
}

static void sum_up(turns *t)
{
    for (size_t i = 0; i < t->c->n; i++) {
        dt_compare_row *r = &t->c->row[i];
        double *s = t->seconds + i * ALL;
        if (r->again) { /* which was run as the row before */
            r->measured = r[-1].measured;
            r->spread = r[-1].spread;
        }
        if (!t->runs[i])
            continue;
        qsort(s, ALL, sizeof *s, dt_order_f64);
        r->measured = s[ALL / 2];
        r->spread = s[3 * ALL / 4] - s[ALL / 4];
    }
}

/* Every second round backwards. */
static dt_status take_turns(turns *t, dt_err *err)
{
    const size_t n = t->c->n;
    for (int round = 0; round < ROUNDS; round++) {
        if (t->c->round != NULL)
            t->c->round(round + 1, ROUNDS);
        for (size_t k = 0; k < n; k++) {
            const size_t row = round % 2 == 0 ? k : n - 1 - k;
            if (t->runs[row])
                DT_CHECK(turn(t, row, round, err));
        }
    }
    return DT_OK;
}

dt_status dt_compare_run(dt_compare *c, dt_err *err)
{
    turns t = {.c = c,
        .runs = dt_alloc(c->n + 1, sizeof *t.runs),
        .batch = dt_alloc(c->variants.n, sizeof *t.batch),
        .seconds = dt_alloc(c->n * ALL + 1, sizeof *t.seconds)};
    const bool room = t.runs != NULL && t.batch != NULL && t.seconds != NULL;
    dt_status st = room ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory to compare");
    for (size_t i = 0; i < c->n && st == DT_OK; i++)
        t.runs[i] = may_run(c, i);
    dti_rig_tell_threads(c->session);
    if (st == DT_OK)
        st = take_turns(&t, err);
    if (st == DT_OK)
        sum_up(&t);
    for (size_t v = 0; v < c->variants.n && t.batch != NULL; v++)
        dti_made_up_deinit(&t.batch[v]);
    dt_free(t.runs);
    dt_free(t.batch);
    dt_free(t.seconds);
    return st;
}
