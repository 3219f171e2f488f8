/* What was compared, run: each plan some steps, all of them in turns, so that what drifts hits all
 * alike. */
#include <stdlib.h>

#include "engine/base/alloc.h"
#include "session/budget.h"
#include "session/rig.h"
#include "tools/compare.h"
#include "tools/made_up.h"

enum { ROUNDS = 5, WARM = 2, STEPS = 5, ALL = ROUNDS * STEPS };

/* @seconds: by row, ALL of each; @now: those of the row whose turn it is; @done: steps of the turn
 */
typedef struct turns {
    dt_compare *c;
    dt_made_up batch;
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

static dt_status train(turns *t, const dt_rig *g, dt_err *err)
{
    const dt_session *s = t->c->session;
    const dt_train_opts opts = dti_made_up_opts(s);
    const dt_observer o = {.self = t, .step = after_step};
    const dt_train_job j = {.runner = g->runner,
        .map = s->plans->map,
        .opts = &opts,
        .ready = g->ready,
        .n_ready = g->n,
        .feed = &t->batch.feed,
        .steps = WARM + STEPS,
        .steps_per_epoch = DT_MADE_UP_STEPS,
        .observer = &o};
    t->done = 0;
    return dt_train(&j, err);
}

/* A turn reserves its memory anew, as a run of its own would. */
static dt_status turn(turns *t, size_t row, int round, dt_err *err)
{
    dt_session *s = t->c->session;
    dt_plan_set *own = s->plans;
    dt_rig g;
    t->now = t->seconds + row * ALL + (size_t)round * STEPS;
    s->plans = t->c->row[row].plans;
    dt_status st = dt_rig_open(&g, s, err);
    if (st == DT_OK)
        st = train(t, &g, err);
    dt_rig_close(&g);
    s->plans = own;
    return st == DT_OK ? st : DT_FAIL(err, st, "while running %s", t->c->row[row].policy);
}

/* Alike plans are run once, and those that this machine has room for. */
static bool runs(const dt_compare *c, size_t row)
{
    const dt_compare_row *r = &c->row[row];
    dt_here here;
    if (!r->can || r->again || r->plans == NULL)
        return false;
    dt_plan_set_here(r->plans, &here);
    return here.fits && here.disk_error == 0;
}

static int ascending(const void *va, const void *vb)
{
    const double a = *(const double *)va, b = *(const double *)vb;
    return (a > b) - (a < b);
}

static void sum_up(turns *t)
{
    for (size_t i = 0; i < t->c->n; i++) {
        dt_compare_row *r = &t->c->row[i];
        double *s = t->seconds + i * ALL;
        if (!runs(t->c, i))
            continue;
        qsort(s, ALL, sizeof *s, ascending);
        r->measured = s[ALL / 2];
        r->spread = s[3 * ALL / 4] - s[ALL / 4];
    }
}

/* Every second round backwards. */
static dt_status take_turns(turns *t, dt_err *err)
{
    const size_t n = t->c->n;
    for (int round = 0; round < ROUNDS; round++) {
        fprintf(stderr, "dnntrain: round %d of %d\n", round + 1, ROUNDS);
        for (size_t k = 0; k < n; k++) {
            const size_t row = round % 2 == 0 ? k : n - 1 - k;
            if (runs(t->c, row))
                DT_CHECK(turn(t, row, round, err));
        }
    }
    return DT_OK;
}

dt_status dti_compare_run(dt_compare *c, dt_err *err)
{
    turns t = {.c = c, .seconds = dt_alloc(c->n * ALL + 1, sizeof *t.seconds)};
    dt_status st = t.seconds != NULL ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory to compare");
    if (st == DT_OK)
        st = dti_made_up_init(&t.batch, c->session, err);
    if (st == DT_OK)
        st = take_turns(&t, err);
    if (st == DT_OK)
        sum_up(&t);
    dti_made_up_deinit(&t.batch);
    dt_free(t.seconds);
    return st;
}
