/* `dnntrain CONFIG`: the command, its signals, and a run that is shown. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "tools/of_run.h"
#include "tools/page_run.h"
#include "tools/profile_make.h"
#include "tools/train_show.h"

static atomic_bool stop_asked, looks; /* the run does, at @stop_asked */

/* While plans are made nothing is written, and a search may take half a minute. */
static _Noreturn void stop_before_it_looks(void)
{
    static const char says[] = "dnntrain: stopped before the run began: nothing is written\n";
    if (write(STDERR_FILENO, says, sizeof says - 1) < 0) /* then nobody reads it */
        _exit(DT_E_STOPPED);
    _exit(DT_E_STOPPED);
}

/* The first signal asks for an orderly end. After it one that a person sends ends the program, also
 * when two threads get them at once; the others come again by themselves: SIGXCPU each second of
 * processor time, SIGHUP from the shell and from the system as a window closes. */
static void on_signal(int number)
{
    if (!atomic_load(&looks))
        stop_before_it_looks();
    if (atomic_exchange(&stop_asked, true) && (number == SIGINT || number == SIGTERM))
        signal(number, SIG_DFL), raise(number);
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
    atomic_store(&stop_asked, false);
    atomic_store(&looks, false);
    catch_one(SIGINT);
    catch_one(SIGTERM);
    catch_one(SIGHUP);
    catch_one(SIGUSR1);                /* as batch systems warn of the end of a job's time ... */
    catch_one(SIGXCPU);                /* ... and the system of the end of its own */
    sigaction(SIGPIPE, &ignore, NULL); /* a closed terminal or pipe never ends a run */
}

static bool asked_to_stop(void *self)
{
    (void)self;
    atomic_store(&looks, true);
    return atomic_load(&stop_asked);
}

/* ---- the run ---- */

/* A run is what it is without its page. */
static void leave_report(dt_run *r, dti_train_show *show, dt_status st, const char *ended)
{
    dt_err why = {0};
    if (dti_page_run(r, st, ended, getenv("DT_TRACE"), &show->reported, &why) != DT_OK &&
        show->progress != NULL)
        dti_progress_note(show->progress, "%-9s no " DT_RUN_REPORT ": %.*s", "report",
            (int)strcspn(why.text, "\n"), why.text);
}

static dt_status run(dt_run *r, dti_train_show *show, dt_err *err)
{
    dt_run_observer o = dti_train_show_observer(show);
    o.stop = asked_to_stop;
    dt_status st = dt_run_begin(r, &o, err);
    if (st == DT_OK) {
        st = dt_run_train(r, 0, err);
        dti_progress_clear(show->progress);
        st = dt_run_end(r, st, err);
        leave_report(r, show, st, err->text);
    }
    dti_train_show_end(show, r, st);
    return st;
}

static dt_status train_config(
    const char *path, const char *plans, const char *const *sets, size_t n_sets, dt_err *err)
{
    dt_run *r = NULL;
    dti_train_show show = {0};
    catch_signals();
    dt_status st = dt_run_open(&r, path, sets, n_sets, err);
    if (st == DT_OK && plans == NULL && dti_profile_is_missing(r->s)) {
        dt_run_close(r);
        r = NULL;
        dti_profile_missing(path, sets, n_sets);
        st = dt_run_open(&r, path, sets, n_sets, err);
    }
    if (st == DT_OK && plans != NULL)
        st = dt_run_take_plans(r, plans, err);
    if (st == DT_OK)
        st = dt_run_trace(r, getenv("DT_TRACE"), err);
    if (st == DT_OK) {
        dti_cli_listen(r->s);
        st = run(r, &show, err);
    }
    dti_train_show_deinit(&show);
    dt_run_close(r);
    return st;
}

/* ---- the command ---- */

/* --resume is checkpoint.resume, said shorter: with a folder, in either order, or "auto". The
 * folder of a run, or of one of its checkpoints, stands for the run's own configuration, kept in
 * @own. */
typedef struct request {
    const char *config, *folder, *plans;
    bool resume;
    char own[DTI_RUN_PATH];
} request;

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static void resumed(request *r, const dti_cli *cli)
{
    const bool both = cli->n_word == 2;
    const bool runs = dti_config_of_run(cli->word[0], r->own);
    const bool swapped = both && is_folder(cli->word[0]) && !(runs && is_folder(cli->word[1]));
    r->config = cli->word[swapped];
    r->folder = both ? cli->word[!swapped] : NULL;
    if (dti_config_of_run(r->config, r->own)) {
        r->config = r->own;
    } else if (!both && dti_config_of_checkpoint(r->config, r->own)) {
        r->folder = r->config;
        r->config = r->own;
    }
}

static dt_status read_words(request *r, const dti_cli *cli, dt_err *err)
{
    if (cli->n_word == 0)
        return DT_FAIL(err, DT_E_CONFIG, "which configuration? configs/ holds some");
    if (cli->n_word == 2 && !r->resume)
        return dti_cli_too_many(&dt_command_train, cli, cli->word[1], err);
    r->config = cli->word[0];
    if (r->resume)
        resumed(r, cli);
    DT_CHECK(dti_cli_check_file(r->config, err));
    return r->plans != NULL ? dti_cli_check_file(r->plans, err) : DT_OK;
}

static dt_status train_request(const request *r, const dti_cli *cli, dt_err *err)
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
        st = train_config(r->config, r->plans, sets, n, err);
    dt_free(sets);
    return st;
}

static dt_status train_command(const dti_command_args *a, dt_err *err)
{
    request r = {0};
    const dti_flag flags[] = {
        {.name = "--resume",
            .help = "go on with the run in run.dir, or whose folder or config.ini CONFIG is; "
                    "with DIR, with that run or checkpoint",
            .given = &r.resume},
        {.name = "--plan",
            .values = "FILE",
            .help = "run the plans that plan CONFIG --text FILE wrote",
            .value = &r.plans},
        {0}};
    dti_cli cli;
    dt_status st = dti_cli_init(&cli, &dt_command_train, a, flags, true, 2, err);
    if (st == DT_OK && !cli.help) {
        st = read_words(&r, &cli, err);
        if (st == DT_OK)
            st = train_request(&r, &cli, err);
    }
    dti_cli_deinit(&cli);
    return st;
}

const dti_command dt_command_train = {
    .name = "",
    .usage = "dnntrain CONFIG [--resume [DIR]] [--plan FILE] [--set SECTION.KEY=VALUE]...",
    .summary = "train the network a configuration describes",
    .run = train_command,
};
