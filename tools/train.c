/* `dnntrain CONFIG`: plan, check, train, save. Everything that can be refused is refused before the
 * first byte of the arena is reserved. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/alloc.h"
#include "engine/cpu.h"
#include "engine/weights.h"
#include "layers/onednn.h"
#include "memory/plan_text.h"
#include "memory/profile.h"
#include "memory/tier.h"
#include "tools/args.h"
#include "tools/budget.h"
#include "tools/environment.h"
#include "tools/feeds.h"
#include "tools/human.h"
#include "tools/progress.h"
#include "tools/run_dir.h"
#include "tools/version.h"

#define STALL_SHARE 0.1 /* of the time: more of it spent on copies is worth a line */

typedef struct training {
    dt_session *s;
    dt_feeds feeds;
    dt_run_dir *dir;
    dt_runner *runner;
    dt_progress *progress;
    dt_ready *ready;
    uint64_t measured;
    int64_t steps, samples, reruns;
    double first_loss, last_loss, seconds;
    size_t skips_told;
    bool evaluated, saved;
    dt_eval_report eval;
    dt_err *err; /* of the run, for the summary */
} training;

static volatile sig_atomic_t stop_asked;

/* The first signal asks for an orderly end, the second one ends the program. */
static void on_signal(int number)
{
    if (stop_asked)
        signal(number, SIG_DFL), raise(number);
    stop_asked = 1;
}

static void catch_signals(void)
{
    struct sigaction a = {.sa_handler = on_signal};
    sigemptyset(&a.sa_mask);
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
    a.sa_handler = SIG_IGN; /* a closed terminal or pipe never ends a run */
    sigaction(SIGPIPE, &a, NULL);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- what the loop reports ---- */

static bool asked_to_stop(void *self)
{
    (void)self;
    return stop_asked != 0;
}

/* Samples left out by data.on_error = skip, each once. */
static void tell_skips(training *t)
{
    const char *text;
    while ((text = dt_loader_skipped(t->feeds.train_loader, t->skips_told)) != NULL) {
        dt_progress_note(t->progress, "skipped   %s", text);
        t->skips_told++;
    }
}

static dt_status after_step(void *self, const dt_step_report *r, dt_err *err)
{
    (void)err;
    training *t = self;
    if (t->steps++ == 0)
        t->first_loss = r->loss;
    t->last_loss = r->loss;
    t->samples += r->samples;
    t->reruns += r->again;
    tell_skips(t);
    dt_progress_step(t->progress, r);
    dt_run_dir_step(t->dir, r);
    return DT_OK;
}

static dt_status after_eval(void *self, const dt_eval_report *r, dt_err *err)
{
    (void)err;
    training *t = self;
    t->evaluated = true;
    t->eval = *r;
    dt_progress_eval(t->progress, r);
    dt_run_dir_eval(t->dir, r);
    return DT_OK;
}

static dt_status dump_gradients(void *self, dt_err *err)
{
    const training *t = self;
    const char *path = t->s->opts.train.dump_gradients;
    return path == NULL ? DT_OK : dt_gradients_save(t->runner, t->s->graph, t->s->map, path, err);
}

/* ---- before step 0 ---- */

static const dt_plan *largest_plan(const dt_session *s)
{
    const dt_plan *p = s->planned[0].plan;
    for (size_t i = 1; i < s->n_planned; i++)
        if (s->planned[i].plan->peak > p->peak)
            p = s->planned[i].plan;
    return p;
}

static dt_status reserve(training *t, dt_err *err)
{
    const dt_session *s = t->s;
    const dt_runner_opts o = {.graph = s->graph,
        .map = s->map,
        .device = s->device,
        .arena_bytes = dt_session_peak(s),
        .tier = {[DT_TIER_HOST] = dt_tier_desc_find("host"),
            [DT_TIER_DISK] = dt_tier_desc_find("disk")},
        .tier_bytes = {[DT_TIER_HOST] = dt_session_tier_peak(s, DT_TIER_HOST),
            [DT_TIER_DISK] = dt_session_tier_peak(s, DT_TIER_DISK)},
        .disk_path = dt_session_disk_path(s),
        .checksum = s->opts.memory.checksum,
        .copy_threads = s->opts.memory.copy_threads,
        .seed = (uint64_t)s->opts.train.seed,
        .threads = s->threads};
    char need[DT_HUMAN_BYTES];
    DT_TRY(err, dt_runner_create(&t->runner, &o, err),
        "the run needs %s, which this machine does not give; lower train.batch or "
        "train.micro_batch, or set memory.device_budget to what there is, to be told what fits",
        dt_human_bytes(need, o.arena_bytes + o.tier_bytes[DT_TIER_HOST]));
    return DT_OK;
}

/* Prepare, run each plan once in the patterned arena, then set the first weights. */
static dt_status prepare(training *t, dt_err *err)
{
    const double began = now();
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
        const dt_planned *p = &s->planned[i];
        t->ready[i] = (dt_ready){.kind = p->kind, .n = p->n, .dense = p->dense};
        st = dt_runner_add(t->runner, p->program, p->plan, &t->ready[i].id, err);
        const dt_run_args a = {
            .batch = {x, labels, p->n}, .step_samples = p->n, .hyper = {0.1f, 0.9f, 0.0f}};
        dt_measure m;
        if (st == DT_OK)
            st = dt_runner_check(t->runner, t->ready[i].id, &a, &m, err);
        if (st == DT_OK && m.peak > t->measured)
            t->measured = m.peak;
    }
    dt_free(x);
    dt_free(labels);
    DT_CHECK(st);
    dt_progress_note(t->progress,
        "checked   %zu plans, each run once: no byte outside its tensors changed (%.1f s)",
        s->n_planned, now() - began);
    for (int tier = DT_TIER_HOST; tier < DT_TIERS; tier++)
        if (dt_runner_note(t->runner, (dt_tier)tier) != NULL)
            dt_progress_note(t->progress, "%-9s %s", dt_tier_name(tier),
                dt_runner_note(t->runner, (dt_tier)tier));
    dt_runner_reset_stats(t->runner);
    DT_CHECK(dt_runner_init(t->runner, err));
    if (s->opts.model.weights == NULL)
        return DT_OK;
    return dt_weights_load(t->runner, s->graph, s->map, s->opts.model.weights, err);
}

static dt_status show_facts(training *t, dt_err *err)
{
    const dt_session *s = t->s;
    dt_usage u;
    const dt_status st = dt_plan_usage(largest_plan(s), &u, err);
    dt_progress_facts f = {.model = s->graph->name,
        .policy = s->opts.memory.policy,
        .precision = "fp32",
        .device = dt_device_name(s->device),
        .isa = dt_cpu_isa(),
        .data = t->feeds.note,
        .run_dir = dt_run_dir_path(t->dir),
        .moved = dt_run_dir_moved(t->dir),
        .image = s->graph->input,
        .classes = s->graph->classes,
        .parameters = dt_graph_parameters(s->graph),
        .batch = s->opts.train.batch,
        .micro_batch = s->opts.train.micro_batch,
        .epochs = t->feeds.whole_epochs ? s->opts.train.epochs : 0,
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

static dt_status describe_run(training *t, dt_err *err)
{
    const dt_session *s = t->s;
    const dt_run_facts f = {.version = DT_VERSION,
        .library = dt_onednn_version(),
        .device = dt_device_name(s->device),
        .isa = dt_cpu_isa(),
        .threads = s->threads,
        .seed = (uint64_t)s->opts.train.seed};
    DT_CHECK(dt_run_dir_config(t->dir, s->config, err));
    DT_CHECK(dt_run_dir_facts(t->dir, &f, err));
    return dt_run_dir_write(t->dir, "plan.txt", print_plan, largest_plan(s), err);
}

/* ---- the run ---- */

/* A step that failed was discarded whole, so the weights are good, unless the failure is ours or
 * the device's. */
static dt_status save(training *t, dt_status st, dt_err *err)
{
    if (st == DT_E_INTERNAL || st == DT_E_DEVICE)
        return st;
    const dt_status saved = dt_weights_save(
        t->runner, t->s->graph, t->s->map, dt_run_dir_file(t->dir, DT_RUN_WEIGHTS), err);
    t->saved = saved == DT_OK;
    return st == DT_OK || (st == DT_E_STOPPED && !t->saved) ? saved : st;
}

static dt_status train(training *t, dt_err *err)
{
    const dt_observer o = {.self = t,
        .step = after_step,
        .eval = after_eval,
        .gradients = dump_gradients,
        .stop = asked_to_stop};
    const dt_train_job j = {.runner = t->runner,
        .map = t->s->map,
        .opts = &t->s->opts.train,
        .ready = t->ready,
        .n_ready = t->s->n_planned,
        .feed = dt_loader_feed(t->feeds.train_loader),
        .eval_feed = t->feeds.eval_loader != NULL ? dt_loader_feed(t->feeds.eval_loader) : NULL,
        .steps = t->feeds.steps,
        .steps_per_epoch = t->feeds.steps_per_epoch,
        .observer = &o};
    const double began = now();
    const dt_status st = dt_train(&j, err);
    t->seconds = now() - began;
    dt_progress_clear(t->progress);
    tell_skips(t);
    if (st == DT_E_DATA && t->s->opts.data.on_error == DT_ON_ERROR_FAIL)
        (void)DT_FAIL(
            err, st, "data.on_error = skip leaves out bad samples, data.max_skips of them");
    return save(t, st, err);
}

/* What moving cost, when it cost much: a slow run should say why. */
static void tell_moves(training *t, const dt_runner_stats *m)
{
    const double copies = m->copy_seconds + m->stall_seconds;
    const bool disk = m->out[DT_TIER_DISK] > 0;
    if (t->progress == NULL || !(t->seconds > 0))
        return;
    if (copies > STALL_SHARE * t->seconds)
        dt_progress_note(t->progress, "copies    %.0f %% of the time went into %s%s",
            100 * copies / t->seconds, disk ? "waiting for the disk" : "copies",
            disk ? "; memory.tier = host, or a policy that moves less, is faster" : "");
    if (t->reruns > 0)
        dt_progress_note(t->progress,
            "packed    %lld steps were run again, as packed values did not fit; 'dnntrain profile' "
            "measures what they take",
            (long long)t->reruns);
}

static dt_status finish(training *t, dt_status st, dt_err *err)
{
    const dt_session *s = t->s;
    const uint64_t process = dt_process_peak(), arena = dt_session_peak(s);
    const dt_runner_stats moved = dt_runner_get_stats(t->runner);
    tell_moves(t, &moved);
    const dt_run_summary sum = {.status = st,
        .error = err != NULL && err->n > 0 ? err->text : NULL,
        .model = s->graph->name,
        .policy = s->opts.memory.policy,
        .device = dt_device_name(s->device),
        .precision = "fp32",
        .pool = s->opts.memory.pool,
        .isa = dt_cpu_isa(),
        .exact = dt_session_exact(s),
        .batch = s->opts.train.batch,
        .micro_batch = s->opts.train.micro_batch,
        .threads = s->threads,
        .parameters = dt_graph_parameters(s->graph),
        .steps = t->steps,
        .steps_planned = t->feeds.steps,
        .epochs = t->steps / t->feeds.steps_per_epoch,
        .samples = t->samples,
        .seconds = t->seconds,
        .images_per_second = t->progress != NULL ? dt_progress_rate(t->progress) : 0,
        .first_loss = t->first_loss,
        .final_loss = t->last_loss,
        .device_budget = s->opts.memory.device_budget,
        .device_peak_planned = arena,
        .device_peak_measured = t->measured,
        .host_peak_planned = dt_session_tier_peak(s, DT_TIER_HOST),
        .disk_peak_planned = dt_session_tier_peak(s, DT_TIER_DISK),
        .moved = &moved,
        .reruns = t->reruns,
        .process_peak = process,
        .outside_arena_bytes = process > arena ? process - arena : 0,
        .eval = t->evaluated ? &t->eval : NULL};
    const dt_status written = dt_run_dir_summary(t->dir, &sum, err);
    dt_progress_result r = {.status = st,
        .measured = t->measured,
        .process_peak = process,
        .outside = sum.outside_arena_bytes,
        .files = t->saved ? DT_RUN_WEIGHTS ", metrics.jsonl, summary.json"
                          : "metrics.jsonl, summary.json"};
    r.lost = dt_run_dir_lost(t->dir, &r.why);
    if (t->progress != NULL)
        dt_progress_finish(t->progress, &r);
    if (st == DT_OK && t->measured != arena)
        st = DT_FAIL(err, DT_E_INTERNAL, "%llu bytes were planned, %llu measured",
            (unsigned long long)arena, (unsigned long long)t->measured);
    return st != DT_OK ? st : written;
}

static dt_status run(training *t, dt_err *err)
{
    dt_session *s = t->s;
    DT_CHECK(dt_session_plan_run(s, false, 0, 0, err));
    DT_CHECK(dt_session_check_run(s, false, err)); /* before any data is read */
    DT_CHECK(dt_feeds_open(&t->feeds, s, err));
    DT_CHECK(dt_session_plan_run(
        s, t->feeds.eval_loader != NULL, t->feeds.last, t->feeds.eval_last, err));
    DT_CHECK(dt_session_check_statistics(s, err));
    DT_CHECK(dt_session_check_run(s, true, err));
    char asked[DT_ASKED];
    if (s->opts.model.weights != NULL)
        DT_TRY(err, dt_weights_check(s->graph, s->opts.model.weights, err), "%s",
            dt_session_asked(asked, s, "model", "weights"));
    DT_CHECK(reserve(t, err)); /* a run that is refused leaves no folder */
    DT_CHECK(dt_run_dir_open(&t->dir, &s->opts.run, s->graph->name, s->opts.memory.policy, err));
    dt_status st = describe_run(t, err);
    if (st == DT_OK)
        st = show_facts(t, err);
    if (st == DT_OK)
        st = prepare(t, err);
    if (st == DT_OK)
        st = train(t, err);
    return finish(t, st, err);
}

static dt_status train_config(const char *path, const char *const *sets, size_t n_sets, dt_err *err)
{
    training t = {.err = err};
    dt_status st = dt_session_open(&t.s, path, sets, n_sets, err);
    if (st == DT_OK) {
        catch_signals();
        st = run(&t, err);
    }
    dt_progress_destroy(t.progress);
    dt_runner_destroy(t.runner);
    dt_free(t.ready);
    dt_run_dir_close(t.dir);
    dt_feeds_close(&t.feeds);
    dt_session_close(t.s);
    return st;
}

static dt_status train_command(const dt_command_args *a, dt_err *err)
{
    static const dt_flag none[] = {{0}};
    dt_cli cli;
    dt_status st = dt_cli_init(&cli, &dt_command_train, a, none, true, 1, err);
    if (st == DT_OK && !cli.help) {
        if (cli.n_word == 0)
            st = DT_FAIL(err, DT_E_CONFIG, "which configuration? configs/ holds some");
        else
            st = dt_cli_check_file(cli.word[0], err);
        if (st == DT_OK)
            st = train_config(cli.word[0], (const char *const *)cli.set, cli.n_set, err);
    }
    dt_cli_deinit(&cli);
    return st;
}

const dt_command dt_command_train = {
    .name = "",
    .usage = "dnntrain CONFIG [--set SECTION.KEY=VALUE]...",
    .summary = "train the network a configuration describes",
    .run = train_command,
};
