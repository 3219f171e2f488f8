/* The end of a run: what moving cost, and the summary. */
#include <math.h>

#include "layers/onednn/onednn.h"
#include "session/environment.h"
#include "session/run/run_internal.h"

#define STALL_SHARE 0.1 /* of the time: more of it spent on copies is worth a line */

double dt_run_own_seconds(const dt_run *r)
{
    const double before = r->from != NULL ? dt_checkpoint_course(r->from)->seconds : 0;
    return r->course.seconds - before;
}

/* What moving cost, when it cost much: a slow run should say why. */
static void tell_moves(dt_run *r, const dt_runner_stats *m)
{
    const double copies = m->copy_seconds + m->stall_seconds;
    const double seconds = dt_run_own_seconds(r);
    const bool disk = m->out[DT_TIER_DISK] > 0;
    if (!r->begun || !(seconds > 0))
        return;
    if (copies > STALL_SHARE * seconds)
        dti_run_tell(r, "copies", "%.0f %% of the time went into %s%s", 100 * copies / seconds,
            disk ? "waiting for the disk" : "copies",
            disk ? "; memory.tier = host, or a policy that moves less, is faster" : "");
    if (r->course.reruns > 0)
        dti_run_tell(r, "packed",
            "%lld step%s run again, as packed values did not fit, and steps behind such packed "
            "none; 'dnntrain profile' measures what they take",
            (long long)r->course.reruns, r->course.reruns == 1 ? " was" : "s were");
}

/* What lies beside the plan's bytes: in this process, whose are those of the host, too; or, where
 * they are a card's, in use there, by CUDA, its libraries and other programs. 0: not known. */
static uint64_t outside(const dt_session *s, uint64_t process)
{
    const uint64_t planned =
        dt_plan_set_peak(s->plans) +
        (s->context.device == DT_CPU ? dt_plan_set_tier_peak(s->plans, DT_TIER_HOST) : 0);
    dt_driver_facts f = {.bytes = process};
    dt_err ignored = {0};
    if (s->context.device != DT_CPU && dt_device_facts(s->context.device, &f, &ignored) != DT_OK)
        return 0;
    const uint64_t used = f.bytes - f.free;
    return used > planned ? used - planned : 0;
}

/* So that the summary says that it failed, and why. */
static dt_status check_peak(const char *what, uint64_t planned, uint64_t measured, dt_err *err)
{
    if (planned == measured)
        return DT_OK;
    return DT_FAIL(err, DT_E_INTERNAL, "%s: %llu bytes were planned, %llu measured", what,
        (unsigned long long)planned, (unsigned long long)measured);
}

static dt_status check_peaks(const dt_run *r, dt_err *err)
{
    const dt_plan_set *p = r->s->plans;
    DT_CHECK(check_peak("device", dt_plan_set_peak(p), r->measured, err));
    for (int t = DT_TIER_HOST; t < DT_TIERS; t++)
        DT_CHECK(check_peak(
            dt_tier_name(t), dt_plan_set_tier_peak(p, (dt_tier)t), r->measured_tier[t], err));
    return DT_OK;
}

dt_status dti_run_summarise(dt_run *r, dt_status st, dt_err *err)
{
    const dt_session *s = r->s;
    const dt_course *c = &r->course;
    dt_eval_report eval = c->eval;
    eval.pixels = dt_graph_counted(s->graph) > 0; /* a checkpoint does not say what is told */
    eval.values = dt_graph_label_kind(s->graph) != DT_LABEL_CLASS;
    eval.probabilities = dt_graph_label_kind(s->graph) == DT_LABEL_PROBABILITY;
    const bool trained = r->begun && c->step > r->began_step;
    const uint64_t arena = dt_plan_set_peak(s->plans);
    const dt_runner_stats moved = dt_runner_get_stats(r->rig.runner);
    r->process_peak = dti_process_peak();
    r->outside = outside(s, r->process_peak);
    tell_moves(r, &moved);
    if (st == DT_OK)
        st = check_peaks(r, err);
    const dti_run_summary sum = {.status = st,
        .error = err != NULL && err->n > 0 ? err->text : NULL,
        .model = s->graph->name,
        .policy = dt_session_policy(s),
        .chosen_by = dt_session_chosen_by(s),
        .device = dt_device_name(s->context.device),
        .precision = dt_session_precision(s),
        .pool = s->opts.memory.pool,
        .isa = dt_session_isa(s),
        .library_isa = s->context.device == DT_CPU ? dt_onednn_isa() : NULL,
        .exact = dt_plan_set_exact(s->plans),
        .batch = s->opts.train.batch,
        .micro_batch = s->micro_batch,
        .threads = s->threads,
        .parameters = dt_graph_parameters(s->graph),
        .steps = c->step,
        .steps_planned = r->feeds.steps,
        .weights_step = r->weights_step,
        .epochs = c->step / r->feeds.steps_per_epoch,
        .samples = c->samples,
        .skipped = dt_run_skipped(r),
        .seconds = c->seconds,
        .images_per_second = trained ? dt_rate_median(&r->rate) : (double)NAN,
        .first_loss = c->first_loss,
        .final_loss = c->last_loss,
        .device_budget = s->opts.memory.device_budget,
        .device_peak_planned = arena,
        .device_peak_measured = r->measured,
        .host_peak_planned = dt_plan_set_tier_peak(s->plans, DT_TIER_HOST),
        .disk_peak_planned = dt_plan_set_tier_peak(s->plans, DT_TIER_DISK),
        .moved = &moved,
        .reruns = c->reruns,
        .process_peak = r->process_peak,
        .outside_arena_bytes = r->outside,
        .eval = eval.step > 0 ? &eval : NULL,
        .best = dt_run_best_of(r)};
    const dt_status written = dti_run_dir_summary(r->dir, &sum, err);
    r->summarised = written == DT_OK;
    return st != DT_OK ? st : written;
}
