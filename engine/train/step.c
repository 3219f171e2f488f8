/* A step: gradients of its micro-batches, whether they and the loss are numbers, and the update.
 *
 * Messages count steps from 1, as progress and metrics do: behind "after 9 of 30 steps" it is step
 * 10 that fails. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/train/train_internal.h"

static dt_status read_metrics(const dt_train_job *j, dt_metrics *m, dt_err *err)
{
    return dti_runner_read(j->runner, j->map->metrics, m, sizeof *m, err);
}

/* Of a batch, the micro-batch that begins at a sample. */
static dt_batch part(const dt_train_job *j, const dt_batch *b, int64_t from)
{
    const int64_t left = b->n - from, micro = j->micro_batch;
    return (dt_batch){b->x + from * dti_runner_sample(j->runner),
        b->labels + from * dti_runner_labels(j->runner), left < micro ? left : micro, b->id};
}

/* What is run after the micro-batch before @from. */
static dt_batch coming(const dt_train_job *j, const dt_batch *b, int64_t from)
{
    if (from < b->n)
        return part(j, b, from);
    const dt_batch next = dti_train_peek(j->feed);
    return next.x != NULL ? part(j, &next, 0) : next;
}

static double learning_rate(const dt_train_job *j, int64_t step)
{
    return dti_learning_rate(j->opts, step, j->steps, j->steps_per_epoch);
}

/* What kernels of layers and of the optimizer are told. @norm: of all gradients; below 0: they are
 * not clipped. */
static dt_hyper hyper_of(const dt_train_opts *o, double lr, double norm)
{
    return (dt_hyper){.lr = (float)lr,
        .momentum = (float)o->momentum,
        .weight_decay = (float)o->weight_decay,
        .beta1 = o->beta1,
        .beta2 = o->beta2,
        .eps = (float)o->eps,
        .clip = norm < 0 ? 1.0f : (float)dti_clip_factor(norm, o->clip),
        .clipped = norm >= 0,
        .nesterov = o->nesterov,
        .no_decay = o->no_decay,
        .label_smoothing = (float)o->label_smoothing};
}

/* A step under way: its batch, the norm to clip by where updates are early (below 0: they are not
 * clipped), whether it is run by the dense plans, and whether that is because its packed values did
 * not fit. */
typedef struct under_way {
    dt_batch batch;
    int64_t step;
    double norm;
    bool dense, again, pending; /* gradients of the step before wait for their update */
    int64_t labels;             /* of the batch, that count */
} under_way;

/* Forward and backward of all micro-batches of a step's batch. *overflowed becomes true, and the
 * rest is left out, when packed values did not fit. */
static dt_status gradients(const dt_train_job *j, const under_way *s, bool *overflowed, dt_err *err)
{
    const dt_batch *b = &s->batch;
    const int64_t step = s->step;
    const int64_t micro = j->micro_batch;
    for (int64_t from = 0; from < b->n; from += micro) {
        int id;
        const dt_run_args a = {.batch = part(j, b, from),
            .coming = coming(j, b, from + micro),
            .sample0 = from,
            .step = step,
            .step_labels = s->labels,
            .hyper = hyper_of(j->opts, learning_rate(j, step), s->norm)};
        DT_CHECK(dti_train_ready(
            j, from == 0 ? DT_PROGRAM_FIRST : DT_PROGRAM_AGAIN, a.batch.n, s->dense, &id, err));
        if (dti_train_stops(j))
            return DT_FAIL(
                err, DT_E_STOPPED, "stopped in step %" PRId64 ", which is discarded", step + 1);
        DT_TRY(err, dt_runner_run(j->runner, id, &a, err), "step %" PRId64, step + 1);
        *overflowed = dti_runner_overflowed(j->runner);
        if (*overflowed)
            return s->dense
                       ? DT_FAIL(err, DT_E_INTERNAL,
                             "step %" PRId64 ": packed values do not fit a plan with room for all",
                             step + 1)
                       : DT_OK;
    }
    return DT_OK;
}

/* @hold: of no parameter, as no gradient is there that has not been taken yet */
static dt_status update(const dt_train_job *j, int64_t step, double norm, bool hold, dt_err *err)
{
    int id;
    DT_CHECK(dti_train_ready(j, DT_PROGRAM_UPDATE, 0, false, &id, err));
    const dt_run_args a = {
        .step = step, .hyper = hyper_of(j->opts, learning_rate(j, step), norm), .hold = hold};
    DT_TRY(err, dt_runner_run(j->runner, id, &a, err), "step %" PRId64, step + 1);
    return DT_OK;
}

/* Who made the first value that is not finite, as a part of a sentence; found by running the step
 * again, which is discarded anyway. */
static const char *blame(const dt_train_job *j, const under_way *s, char text[512])
{
    dt_err ignored = {0};
    bool overflowed;
    dti_runner_blame(j->runner, true);
    const dt_status st = gradients(j, s, &overflowed, &ignored);
    dti_runner_blame(j->runner, false);
    const char *who = dti_runner_blamed(j->runner);
    text[0] = '\0';
    if (st == DT_OK && who != NULL)
        snprintf(text, 512, ", and the first value that is not was made by %s", who);
    return text;
}

/* What has a loss of its own, of which a sample may have many. */
static const char *judged(const dt_train_job *j)
{
    if (dti_runner_label_kind(j->runner) != DT_LABEL_CLASS)
        return "values";
    if (dti_runner_labels(j->runner) == 1)
        return "samples";
    return j->map->home[j->map->metrics].bytes > sizeof(dt_metrics) ? "pixels" : "positions";
}

#define DISCARDED                                                                                  \
    "the step is discarded, the weights are those before it. A lower train.lr often helps"

/* Those that the step made, which a delayed update takes a step later; and the norm of those that
 * this step's takes. */
static dt_status check_gradients(
    const dt_train_job *j, const under_way *s, double *norm, int32_t *bad, dt_err *err)
{
    const bool late = dt_map_delays(j->map) && s->step >= j->map->delayed_from;
    if (late && (j->opts->finite || j->opts->clip > 0)) {
        dti_runner_turn(j->runner);
        const dt_status st = dti_runner_nonfinite(j->runner, DT_DP, bad, err);
        dti_runner_turn(j->runner);
        DT_TRY(err, st, "gradients of step %" PRId64, s->step + 1);
    }
    if (*bad >= 0 || (late && !s->pending)) /* no update is made of any */
        return DT_OK;
    if (j->opts->clip > 0)
        DT_TRY(err, dti_runner_norm(j->runner, DT_DP, norm, bad, err), "gradients of step %" PRId64,
            s->step + 1);
    else if (j->opts->finite)
        DT_TRY(err, dti_runner_nonfinite(j->runner, DT_DP, bad, err), "gradients of step %" PRId64,
            s->step + 1);
    return DT_OK;
}

/* Whether a step that fails has changed weights already. */
static bool spoils(const dt_train_job *j)
{
    return j->map->early && !dt_map_undoes(j->map, NULL);
}

/* No rate of learning helps where the data is at fault. */
static dt_status check_batch(const dt_train_job *j, const under_way *s, dt_err *err)
{
    const int64_t bad = dti_train_bad_sample(j, &s->batch);
    if (bad < 0)
        return DT_OK;
    return DT_FAIL(err, DT_E_NONFINITE,
        "step %" PRId64 ": sample %" PRId64
        " of the batch, from 0, has a value that is not finite, so the data is at fault; %s",
        s->step + 1, bad,
        spoils(j) ? "the updates of the step were made early"
                  : "the step is discarded, the weights are those before it");
}

/* Where entry @bad of the map, if that is one, is @what of a parameter or a buffer. */
static dt_status refuse(
    const dt_train_job *j, const under_way *s, const char *what, int32_t bad, dt_err *err)
{
    char who[512];
    if (bad < 0)
        return DT_OK;
    DT_CHECK(check_batch(j, s, err));
    const dt_home *h = &j->map->home[bad];
    return DT_FAIL(err, DT_E_NONFINITE,
        "step %" PRId64 ": the %s of %s is not finite%s; " DISCARDED, s->step + 1, what,
        h->port == DT_P ? h->name : strchr(h->name, '.') + 1, blame(j, s, who));
}

/* Before anything changes that cannot be taken back: is every number of the step one? *norm is that
 * of the gradients if they are to be clipped, else -1. */
static dt_status check_finite(
    const dt_train_job *j, const under_way *s, const dt_metrics *m, double *norm, dt_err *err)
{
    char who[512];
    const int64_t step = s->step;
    const bool lost = m->nonfinite > 0 || !isfinite(m->loss_sum);
    *norm = -1;
    if (lost)
        DT_CHECK(check_batch(j, s, err));
    if (lost && spoils(j))
        return DT_FAIL(err, DT_E_NONFINITE,
            "step %" PRId64 ": the loss of %" PRId64 " of %" PRId64
            " %s is not finite, and its updates were made early. A lower train.lr often helps",
            step + 1, m->nonfinite, m->count, judged(j));
    if (lost)
        return DT_FAIL(err, DT_E_NONFINITE,
            "step %" PRId64 ": the loss of %" PRId64 " of %" PRId64
            " %s is not finite%s; " DISCARDED,
            step + 1, m->nonfinite, m->count, judged(j), blame(j, s, who));
    int32_t bad = -1;
    DT_CHECK(check_gradients(j, s, norm, &bad, err));
    DT_CHECK(refuse(j, s, "gradient", bad, err));
    if (j->opts->finite)
        DT_TRY(err, dti_runner_nonfinite(j->runner, DT_Q, &bad, err), "new values of step %" PRId64,
            step + 1);
    return refuse(j, s, "new value", bad, err);
}

/* Gradients, with packed values that fit, and with early updates clipped by the norm, which is
 * known only when these have been made: then they are made again, beside those, which nobody reads.
 * *norm is that of the gradients, -1 where they are not clipped. */
static dt_status whole_gradients(
    const dt_train_job *j, under_way *s, dt_metrics *m, double *norm, dt_err *err)
{
    const bool early = j->map->early && j->opts->clip > 0;
    bool overflowed;
    s->norm = early ? 0 : -1;
    DT_CHECK(gradients(j, s, &overflowed, err));
    if (overflowed) {
        s->dense = s->again = true; /* nothing has changed yet but gradients, written anew */
        DT_CHECK(gradients(j, s, &overflowed, err));
    }
    if (dt_map_delays(j->map) && s->step < j->map->delayed_from)
        dti_runner_settle(j->runner, true); /* the update takes what was just computed */
    DT_TRY(err, read_metrics(j, m, err), "the loss of step %" PRId64, s->step + 1);
    DT_CHECK(check_finite(j, s, m, norm, err));
    if (!early || !(hyper_of(j->opts, 0, *norm).clip < 1))
        return DT_OK;
    s->norm = *norm;
    return gradients(j, s, &overflowed, err);
}

dt_status dti_train_step(
    const dt_train_job *j, const dt_train_point *p, dt_step_report *r, bool *begun, dt_err *err)
{
    const int64_t step = p->step;
    const double began = dt_seconds(), waited = j->feed->wait_seconds;
    under_way s = {.step = step, .dense = p->packing.rest > 0, .pending = p->pending};
    dt_metrics m;
    double norm;
    DT_TRY(err, j->feed->next(j->feed->self, &s.batch, err), "step %" PRId64, step + 1);
    s.labels = dti_train_labels(j, &s.batch);
    if (s.labels == 0)
        return DT_FAIL(err, DT_E_DATA,
            "step %" PRId64 ": no sample of the batch has a label that counts (" DTI_NO_LABEL
            "), so there is nothing to learn from; take a larger train.batch, or data without such "
            "batches",
            step + 1);
    *begun = j->map->early;
    const dt_status ran = whole_gradients(j, &s, &m, &norm, err);
    *begun = *begun && ran != DT_E_STOPPED; /* which is asked before a program begins */
    DT_CHECK(ran);
    if (step == 0 && j->observer->gradients != NULL)
        DT_CHECK(j->observer->gradients(j->observer->self, err));
    *begun = true;
    const bool late = dt_map_delays(j->map) && step >= j->map->delayed_from;
    const int64_t taken = late && p->pending ? step - 1 : step; /* whose gradients */
    DT_CHECK(update(j, taken, norm, late && !p->pending, err));
    *r = (dt_step_report){.step = step + 1,
        .steps = j->steps,
        .epoch = step / j->steps_per_epoch,
        .samples = s.batch.n,
        .loss = m.loss_sum / (double)m.count,
        .lr = learning_rate(j, taken),
        .clips = norm >= 0,
        .grad_norm = norm >= 0 ? norm : 0,
        .step_seconds = dt_seconds() - began,
        .wait_seconds = j->feed->wait_seconds - waited,
        .again = s.again};
    return DT_OK;
}
