/* `dnntrain CONFIG`: plan, check, train, save. Everything that can be refused is refused before the
 * first byte of the arena is reserved, and before anything in a run directory changes. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "engine/base/alloc.h"
#include "tools/args.h"
#include "session/budget.h"
#include "tools/train_parts.h"

static volatile sig_atomic_t stop_asked;

/* The first signal asks for an orderly end, the second one ends the program. */
static void on_signal(int number)
{
    if (stop_asked)
        signal(number, SIG_DFL), raise(number);
    stop_asked = 1;
}

/* One that the caller had ignored (nohup) stays so. */
static void catch_one(int number)
{
    struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
    sigemptyset(&a.sa_mask);
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(number, &a, NULL);
}

static void catch_signals(void)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    stop_asked = 0;
    catch_one(SIGINT);
    catch_one(SIGTERM);
    catch_one(SIGHUP);
    catch_one(SIGUSR1);                /* as batch systems warn of the end of a job's time ... */
    catch_one(SIGXCPU);                /* ... and the system of the end of its own */
    sigaction(SIGPIPE, &ignore, NULL); /* a closed terminal or pipe never ends a run */
}

bool dti_train_asked_to_stop(void)
{
    return stop_asked != 0;
}

static bool asked_to_stop(void *self)
{
    (void)self;
    return stop_asked != 0;
}

double dti_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the run ---- */

/* A step that failed was discarded whole, so the weights are good, unless the failure is ours or
 * the device's. */
static dt_status save(dti_training *t, dt_status st, dt_err *err)
{
    if (st == DT_E_INTERNAL || st == DT_E_DEVICE)
        return st;
    const dt_status saved = dti_train_save_last(t, err);
    if (st == DT_E_STOPPED && saved == DT_OK)
        (void)DT_FAIL(err, st,
            "saved; the same command with --resume '%s' goes on from step %" PRId64,
            dt_run_dir_path(t->dir), t->point.step);
    return st == DT_OK || (st == DT_E_STOPPED && saved != DT_OK) ? saved : st;
}

static dt_status train(dti_training *t, dt_err *err)
{
    dt_observer o = dti_train_observer;
    o.self = t;
    o.stop = asked_to_stop;
    const dt_train_job j = {.runner = t->runner,
        .map = t->s->map,
        .opts = &t->s->opts.train,
        .ready = t->ready,
        .n_ready = t->s->n_planned,
        .feed = dt_loader_feed(t->feeds.train_loader),
        .eval_feed = t->feeds.eval_loader != NULL ? dt_loader_feed(t->feeds.eval_loader) : NULL,
        .steps = t->feeds.steps,
        .steps_per_epoch = t->feeds.steps_per_epoch,
        .point = &t->point,
        .observer = &o};
    const double began = dti_now();
    t->began_seconds = began - t->course.seconds;
    const dt_status st = dt_train(&j, err);
    t->course.seconds = dti_now() - t->began_seconds;
    dt_progress_clear(t->progress);
    dti_train_tell_skips(t);
    if (st == DT_E_DATA && t->s->opts.data.on_error == DT_ON_ERROR_FAIL)
        (void)DT_FAIL(
            err, st, "data.on_error = skip leaves out bad samples, data.max_skips of them");
    return save(t, st, err);
}

/* With the run directory open: what goes wrong now is written to its summary. */
static dt_status begin(dti_training *t, dt_err *err)
{
    DT_CHECK(dti_train_describe(t, err));
    dti_train_foresee_space(t);
    DT_CHECK(dti_train_prepare(t, err));
    return train(t, err);
}

static dt_status run(dti_training *t, dt_err *err)
{
    dt_session *s = t->s;
    DT_CHECK(dt_session_plan_run(s, false, 0, 0, err));
    DT_CHECK(dt_session_check_run(s, false, err)); /* before any data is read */
    DT_CHECK(dt_feeds_open(&t->feeds, s, err));
    DT_CHECK(dt_session_plan_run(
        s, t->feeds.eval_loader != NULL, t->feeds.last, t->feeds.eval_last, err));
    DT_CHECK(dt_session_check_statistics(s, err));
    DT_CHECK(dt_session_check_run(s, true, err));
    DT_CHECK(dti_facts_check(t, err));
    DT_CHECK(dti_train_reserve(t, err)); /* a run that is refused leaves no folder */
    if (dti_train_asked_to_stop())
        return DT_FAIL(err, DT_E_STOPPED, "stopped before the run began");
    DT_CHECK(dti_train_open(t, err));
    return dti_train_finish(t, begin(t, err), err);
}

static dt_status train_config(const char *path, const char *const *sets, size_t n_sets, dt_err *err)
{
    dti_training t = {.saved_step = -1, .point = {.evaluated = true}};
    dt_status st = dt_session_open(&t.s, path, sets, n_sets, err);
    if (st == DT_OK) {
        catch_signals();
        st = run(&t, err);
    }
    dt_progress_destroy(t.progress);
    dt_runner_destroy(t.runner);
    dt_free(t.ready);
    dt_free(t.note);
    dt_checkpoint_close(t.from);
    dt_run_dir_close(t.dir);
    dt_feeds_close(&t.feeds);
    dt_session_close(t.s);
    return st;
}

/* ---- the command ---- */

/* --resume is checkpoint.resume, said shorter: with a folder, in either order, or "auto". */
typedef struct request {
    const char *config, *folder;
    bool resume;
} request;

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static dt_status read_words(request *r, const dt_cli *cli, dt_err *err)
{
    if (cli->n_word == 0)
        return DT_FAIL(err, DT_E_CONFIG, "which configuration? configs/ holds some");
    if (cli->n_word == 2 && !r->resume)
        return DT_FAIL(err, DT_E_CONFIG, "'%s' is one argument too many; usage: %s", cli->word[1],
            dt_command_train.usage);
    const bool swapped = cli->n_word == 2 && is_folder(cli->word[0]);
    r->config = cli->word[swapped];
    r->folder = cli->n_word == 2 ? cli->word[!swapped] : NULL;
    return dt_cli_check_file(r->config, err);
}

static dt_status train_request(const request *r, const dt_cli *cli, dt_err *err)
{
    enum { SET_BYTES = 4200 };
    char set[SET_BYTES];
    const char **sets = dt_alloc(cli->n_set + 1, sizeof *sets);
    if (sets == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the arguments");
    size_t n = 0;
    for (; n < cli->n_set; n++)
        sets[n] = cli->set[n];
    const char *what = r->folder != NULL ? r->folder : "auto";
    dt_status st = DT_OK;
    if (r->resume && snprintf(set, sizeof set, "checkpoint.resume=%s", what) >= SET_BYTES)
        st = DT_FAIL(err, DT_E_CONFIG, "--resume %s: too long for a folder's name", what);
    if (r->resume)
        sets[n++] = set;
    if (st == DT_OK)
        st = train_config(r->config, sets, n, err);
    dt_free(sets);
    return st;
}

static dt_status train_command(const dt_command_args *a, dt_err *err)
{
    request r = {0};
    const dt_flag flags[] = {
        {.name = "--resume",
            .help = "go on with the run in run.dir; with DIR, with that run or "
                    "checkpoint",
            .given = &r.resume},
        {0}};
    dt_cli cli;
    dt_status st = dt_cli_init(&cli, &dt_command_train, a, flags, true, 2, err);
    if (st == DT_OK && !cli.help) {
        st = read_words(&r, &cli, err);
        if (st == DT_OK)
            st = train_request(&r, &cli, err);
    }
    dt_cli_deinit(&cli);
    return st;
}

const dt_command dt_command_train = {
    .name = "",
    .usage = "dnntrain CONFIG [--resume [DIR]] [--set SECTION.KEY=VALUE]...",
    .summary = "train the network a configuration describes",
    .run = train_command,
};
