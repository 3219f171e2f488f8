/* From plans to a runner with weights in it. */
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/cpu.h"
#include "engine/checkpoint/weights.h"
#include "layers/onednn/onednn.h"
#include "memory/plan_text/plan_text.h"
#include "memory/profile.h"
#include "session/budget.h"
#include "session/human.h"
#include "session/rig.h"
#include "tools/train_parts.h"
#include "tools/version.h"

static const dt_plan *largest_plan(const dt_session *s)
{
    const dt_plan *p = s->planned[0].plan;
    for (size_t i = 1; i < s->n_planned; i++)
        if (s->planned[i].plan->peak > p->peak)
            p = s->planned[i].plan;
    return p;
}

dt_status dti_train_reserve(dti_training *t, dt_err *err)
{
    const dt_runner_opts o = dt_rig_opts(t->s);
    char need[DT_HUMAN_BYTES];
    const dt_status st = dt_runner_create(&t->runner, &o, err);
    if (st == DT_E_NOMEM)
        (void)DT_FAIL(err, st,
            "the run needs %s, which this machine does not give; lower train.batch or "
            "train.micro_batch, or set memory.device_budget to what there is, to be told what fits",
            dt_human_bytes(need, o.arena_bytes + o.tier_bytes[DT_TIER_HOST]));
    return st;
}

/* ---- what the run is ---- */

static dt_status show_facts(dti_training *t, dt_err *err)
{
    const dt_session *s = t->s;
    dt_usage u;
    const dt_status st = dt_plan_usage(largest_plan(s), &u, err);
    dt_progress_facts f = {.model = s->graph->name,
        .policy = s->opts.memory.policy,
        .chosen_by = s->ladder,
        .precision = dt_session_precision(s),
        .device = dt_device_name(s->device),
        .isa = dt_session_isa(s),
        .data = t->feeds.note,
        .run_dir = dt_run_dir_path(t->dir),
        .moved = dt_run_dir_moved(t->dir),
        .image = s->graph->input,
        .tokens = dt_graph_tokens(s->graph),
        .classes = s->graph->classes,
        .pixels = dt_graph_counted(s->graph) > 0,
        .parameters = dt_graph_parameters(s->graph),
        .batch = s->opts.train.batch,
        .micro_batch = s->opts.train.micro_batch,
        .epochs = t->feeds.whole_epochs ? s->opts.train.epochs : 0,
        .done = t->from != NULL ? dt_checkpoint_step(t->from) : 0,
        .steps = t->feeds.steps,
        .steps_per_epoch = t->feeds.steps_per_epoch,
        .exact = dt_session_exact(s),
        .threads = s->threads,
        .planned = dt_session_peak(s),
        .budget = s->opts.memory.device_budget,
        .host_planned = dt_session_tier_peak(s, DT_TIER_HOST),
        .disk_planned = dt_session_tier_peak(s, DT_TIER_DISK),
        .eval = t->feeds.eval_note[0] != '\0' ? t->feeds.eval_note : NULL};
    if (st == DT_OK) {
        memcpy(f.role_bytes, u.bytes, sizeof f.role_bytes);
        f.arena_other = u.unused;
    }
    dt_usage_deinit(&u);
    DT_CHECK(st);
    return dt_progress_create(&t->progress, &f, NULL, err);
}

static void print_plan(const void *arg, FILE *f)
{
    dt_plan_print(arg, f);
}

static dt_status write_facts(dti_training *t, dt_err *err)
{
    const dt_session *s = t->s;
    const dt_run_facts f = {.version = DT_VERSION,
        .library = dt_onednn_version(),
        .library_isa = s->device == DT_CPU ? dt_onednn_isa() : NULL,
        .device = dt_device_name(s->device),
        .isa = dt_session_isa(s),
        .threads = s->threads,
        .seed = (uint64_t)s->opts.train.seed};
    DT_CHECK(dt_run_dir_config(t->dir, s->config, err));
    DT_CHECK(dt_run_dir_facts(t->dir, &f, err));
    return dt_run_dir_write(t->dir, "plan.txt", print_plan, largest_plan(s), err);
}

dt_status dti_train_describe(dti_training *t, dt_err *err)
{
    DT_CHECK(write_facts(t, err));
    DT_CHECK(show_facts(t, err));
    if (t->note != NULL) /* what was told before */
        for (char *line = t->note, *end; (end = strchr(line, '\n')) != NULL; line = end + 1)
            dt_progress_note(t->progress, "%.*s", (int)(end - line), line);
    return DT_OK;
}

/* ---- before step 0 ---- */

static dt_status check_one(
    dti_training *t, size_t i, float *x, int32_t *labels, dt_measure *m, dt_err *err)
{
    const dt_planned *p = &t->s->planned[i];
    t->ready[i] = (dt_ready){.kind = p->kind, .n = p->n, .dense = p->dense};
    DT_CHECK(dt_runner_add(t->runner, p->program, p->plan, &t->ready[i].id, err));
    const dt_run_args a = {
        .batch = {x, labels, p->n}, .step_samples = p->n, .hyper = {0.1f, 0.9f, 0.0f}};
    if (dti_train_asked_to_stop())
        return DT_FAIL(err, DT_E_STOPPED, "stopped before the first step");
    return dt_runner_check(t->runner, t->ready[i].id, &a, m, err);
}

/* Run each plan once in the patterned arena. */
static dt_status check_plans(dti_training *t, dt_err *err)
{
    const double began = dti_now();
    const dt_session *s = t->s;
    t->ready = dt_alloc(s->n_planned, sizeof *t->ready);
    const size_t sample = (size_t)dt_shape_sample(&s->graph->input);
    const size_t most = (size_t)s->opts.train.batch;
    float *x = dt_alloc(most * sample, sizeof *x);
    int32_t *labels = dt_alloc(most * (size_t)dt_graph_labels(s->graph), sizeof *labels);
    dt_status st = t->ready == NULL || x == NULL || labels == NULL
                       ? DT_FAIL(err, DT_E_NOMEM, "no memory to prepare the plans")
                       : DT_OK;
    for (size_t i = 0; i < s->n_planned && st == DT_OK; i++) {
        dt_measure m;
        st = check_one(t, i, x, labels, &m, err);
        if (st == DT_OK && m.peak > t->measured)
            t->measured = m.peak;
    }
    dt_free(x);
    dt_free(labels);
    DT_CHECK(st);
    dt_progress_note(t->progress,
        "checked   %zu plans, each run once: no byte outside its tensors changed (%.1f s)",
        s->n_planned, dti_now() - began);
    return DT_OK;
}

dt_status dti_train_prepare(dti_training *t, dt_err *err)
{
    const dt_session *s = t->s;
    DT_CHECK(check_plans(t, err));
    for (int tier = DT_TIER_HOST; tier < DT_TIERS; tier++)
        if (dt_runner_note(t->runner, (dt_tier)tier) != NULL)
            dt_progress_note(t->progress, "%-9s %s", dt_tier_name(tier),
                dt_runner_note(t->runner, (dt_tier)tier));
    dt_runner_reset_stats(t->runner);
    DT_CHECK(dt_runner_init(t->runner, err));
    if (t->from == NULL && s->opts.model.weights != NULL)
        DT_CHECK(dt_weights_load(t->runner, s->graph, s->map, s->opts.model.weights, err));
    return t->goes_on ? dti_train_go_on(t, err) : DT_OK;
}
