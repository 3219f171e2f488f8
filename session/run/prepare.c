/* From plans to a runner with weights in it. */
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/clock.h"
#include "layers/onednn/onednn.h"
#include "session/plan_set.h"
#include "session/rig.h"
#include "session/version.h"
#include "session/run/run_internal.h"

const dt_plan *dt_run_largest_plan(const dt_run *r)
{
    return dti_plan_set_largest(r->s->plans);
}

/* ---- what the run is ---- */

static dt_status print_classes(const void *arg, FILE *f, dt_err *err)
{
    const dt_run *r = arg;
    (void)err;
    dt_class_names_print(r->feeds.train, r->s->graph->classes, f);
    return DT_OK;
}

dt_status dt_run_write(dt_run *r, const char *name,
    dt_status (*print)(const void *arg, FILE *f, dt_err *err), const void *arg, dt_err *err)
{
    return dti_run_dir_write(r->dir, name, print, arg, err);
}

dt_status dti_run_describe(dt_run *r, dt_err *err)
{
    const dt_session *s = r->s;
    const dti_run_facts f = {.network = s->graph->name,
        .version = dt_version(),
        .library = dt_onednn_version(),
        .library_isa = s->context.device == DT_CPU ? dt_onednn_isa() : NULL,
        .device = dt_device_name(s->context.device),
        .isa = dt_session_isa(s),
        .threads = s->threads,
        .seed = (uint64_t)s->opts.train.seed};
    DT_CHECK(dti_run_dir_config(r->dir, s->config, err));
    DT_CHECK(dti_run_dir_facts(r->dir, &f, err));
    DT_CHECK(dti_run_dir_write(r->dir, DT_RUN_PLAN, dt_plan_set_print, s->plans, err));
    return dt_class_names_known(r->feeds.train) && dt_graph_label_kind(s->graph) == DT_LABEL_CLASS
               ? dti_run_dir_write(r->dir, DT_RUN_CLASSES, print_classes, r, err)
               : DT_OK;
}

/* ---- before step 0 ---- */

dt_status dti_run_tried_open(dti_tried *t, const dt_run *r, dt_err *err)
{
    const dt_session *s = r->s;
    const size_t most = (size_t)s->opts.train.batch;
    t->x = dt_alloc(most * (size_t)dt_shape_sample(&s->graph->input), sizeof *t->x);
    t->labels = dt_alloc(most * (size_t)dt_graph_labels(s->graph), sizeof *t->labels);
    return t->x != NULL && t->labels != NULL
               ? DT_OK
               : DT_FAIL(err, DT_E_NOMEM, "no memory to prepare the plans");
}

void dti_run_tried_close(dti_tried *t)
{
    dt_free(t->x);
    dt_free(t->labels);
}

dt_status dti_run_try(
    dt_run *r, const dt_planned *p, const dti_tried *with, dt_ready *to, dt_err *err)
{
    dt_measure m;
    *to = (dt_ready){.kind = p->kind, .n = p->n, .dense = p->dense};
    DT_CHECK(dt_runner_add(r->rig.runner, p->plan, &to->id, err));
    const dt_run_args a = {.batch = {with->x, with->labels, p->n},
        .step_labels = p->n * dt_graph_labels(r->s->graph),
        .hyper = {0.1f, 0.9f, 0.0f}};
    if (dti_run_stop(r))
        return DT_FAIL(err, DT_E_STOPPED, "stopped while plans were checked");
    DT_CHECK(dt_runner_check(r->rig.runner, to->id, &a, &m, err));
    if (m.peak > r->measured)
        r->measured = m.peak;
    for (int tier = 0; tier < DT_TIERS; tier++)
        if (m.tier[tier] > r->measured_tier[tier])
            r->measured_tier[tier] = m.tier[tier];
    return DT_OK;
}

/* Run each plan once in the patterned arena. */
static dt_status check_plans(dt_run *r, dt_err *err)
{
    const double began = dt_seconds();
    const dt_session *s = r->s;
    dti_tried with;
    dt_status st = dti_run_tried_open(&with, r, err);
    r->rig.ready = dt_alloc(s->plans->n, sizeof *r->rig.ready);
    if (st == DT_OK && r->rig.ready == NULL)
        st = DT_FAIL(err, DT_E_NOMEM, "no memory to prepare the plans");
    for (; r->rig.n < s->plans->n && st == DT_OK; r->rig.n++)
        st = dti_run_try(r, s->plans->planned[r->rig.n], &with, &r->rig.ready[r->rig.n], err);
    dti_run_tried_close(&with);
    DT_CHECK(st);
    dti_run_tell(r, "checked",
        "%zu plans, each run once: no byte outside its tensors changed (%.1f s)", s->plans->n,
        dt_seconds() - began);
    return DT_OK;
}

/* Where the run begins; those of a checkpoint come by themselves. */
static dt_status first_values(const dt_run *r, dt_err *err)
{
    return r->from != NULL ? dt_runner_clear(r->rig.runner, err)
                           : dti_rig_first_values(&r->rig, r->s, err);
}

dt_status dti_run_prepare(dt_run *r, dt_err *err)
{
    DT_CHECK(check_plans(r, err));
    for (int tier = DT_TIER_HOST; tier < DT_TIERS; tier++)
        if (dt_runner_note(r->rig.runner, (dt_tier)tier) != NULL)
            dti_run_tell(r, dt_tier_name(tier), "%s", dt_runner_note(r->rig.runner, (dt_tier)tier));
    DT_CHECK(dti_run_trace_begin(r, err));
    DT_CHECK(dti_run_replan_open(r, err));
    dt_runner_reset_stats(r->rig.runner);
    DT_CHECK(first_values(r, err));
    return r->goes_on ? dti_run_go_on(r, err) : DT_OK;
}
