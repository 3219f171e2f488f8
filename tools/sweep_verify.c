/* The sweep's claims put to the test: this program trains at the largest batch, and is refused one
 * sample more. */
#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data/source.h"
#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/json.h"
#include "session/human.h"
#include "session/plan_set.h"
#include "session/run_dir.h"
#include "tools/sweep.h"
#include "tools/terminal.h"

enum { PATH_ROOM = 1024, SETS = 20, TEXT_BYTES = 1 << 20 };

/* One run of the program in a folder of its own. */
typedef struct child {
    const char *folder;
    char *set[SETS]; /* section.key=value, after the configuration's own */
    size_t n_set;
    char **arg; /* NULL-terminated; strings are borrowed, from @set too */
} child;

/* Removes a folder and all that is in it. */
static void remove_tree(const char *path)
{
    DIR *d = opendir(path);
    if (d == NULL)
        return;
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        char inner[2 * PATH_ROOM];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        if (unlink(inner) != 0)
            remove_tree(inner);
    }
    closedir(d);
    (void)rmdir(path);
}

static dt_status make_folder(char folder[PATH_ROOM], dt_err *err)
{
    const char *tmp = getenv("TMPDIR");
    const int n = snprintf(
        folder, PATH_ROOM, "%s/dnntrain-sweep-XXXXXX", tmp != NULL && *tmp != '\0' ? tmp : "/tmp");
    if (n < 0 || n >= PATH_ROOM) {
        folder[0] = '\0';
        return DT_FAIL(err, DT_E_IO, "the path in TMPDIR is too long");
    }
    if (mkdtemp(folder) != NULL)
        return DT_OK;
    const dt_status st = DT_FAIL(
        err, DT_E_IO, "%s: %s; set TMPDIR to a folder to write in", folder, strerror(errno));
    folder[0] = '\0';
    return st;
}

static bool takes_text(const dt_graph *g)
{
    const dt_source_opts o = {.shape = g->input,
        .classes = g->classes,
        .labels = dt_graph_labels(g),
        .label_kind = dt_graph_label_kind(g)};
    return dt_source_check_sequence(&o, NULL) == DT_OK;
}

/* A file that holds @batch sequences to train on, beside the last tenth, which is held out. All are
 * of one character, 0, which any vocabulary has room for: the file is a hole and takes no disk. */
static dt_status make_text(const char *path, const dt_graph *g, int64_t batch, dt_err *err)
{
    const int64_t train = batch * g->input.h + 1;
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const bool made = fd >= 0 && ftruncate(fd, train + (train - 1) / 9) == 0;
    const int why = errno;
    if (fd >= 0)
        (void)close(fd);
    return made ? DT_OK : DT_FAIL(err, DT_E_IO, "%s: %s", path, strerror(why));
}

/* SECTION.KEY= and a value. */
static dt_status add_set(child *c, const char *key, const char *value, dt_err *err)
{
    const size_t room = strlen(key) + strlen(value) + 1;
    DT_ASSERT(c->n_set < SETS);
    char *set = dt_alloc(room, 1);
    if (set == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the settings of a run");
    snprintf(set, room, "%s%s", key, value);
    c->set[c->n_set++] = set;
    return DT_OK;
}

static dt_status add_number(child *c, const char *key, int64_t value, dt_err *err)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    return add_set(c, key, text, err);
}

/* Data that needs none of the configuration's files: memory does not depend on what is in it. */
static dt_status set_data(child *c, const dt_graph *g, int64_t batch, dt_err *err)
{
    char path[PATH_ROOM + 16] = "";
    const bool text = takes_text(g);
    if (text) {
        snprintf(path, sizeof path, "%s/text", c->folder);
        DT_CHECK(make_text(path, g, batch, err));
    }
    DT_CHECK(add_set(c, "data.source=", text ? "text" : "synthetic", err));
    DT_CHECK(add_set(c, "data.path=", path, err));
    DT_CHECK(add_set(c, "data.eval_path=", path, err));
    return add_number(c, "data.samples=", batch, err);
}

/* What the run is given after the configuration's own settings: two steps. */
static dt_status settings(
    child *c, const dt_graph *g, const char *policy, int64_t batch, dt_err *err)
{
    static const char *const fixed[] = {"train.steps=2", "train.drop_last=off",
        "train.dump_gradients=", "model.weights=", "model.fresh=", "data.augment=off"};
    char run[PATH_ROOM + 16];
    snprintf(run, sizeof run, "%s/run", c->folder);
    for (size_t i = 0; i < DTI_SHORT_RUN; i++)
        DT_CHECK(add_set(c, dti_short_run[i], "", err));
    for (size_t i = 0; i < DT_COUNT(fixed); i++)
        DT_CHECK(add_set(c, fixed[i], "", err));
    DT_CHECK(add_number(c, "train.batch=", batch, err));
    DT_CHECK(add_number(c, "train.micro_batch=", batch, err));
    DT_CHECK(add_set(c, "memory.policy=", policy, err));
    DT_CHECK(add_set(c, "run.dir=", run, err));
    return set_data(c, g, batch, err);
}

static dt_status arguments(child *c, const dti_cli *cli, dt_err *err)
{
    static char name[] = "dnntrain", set[] = "--set";
    c->arg = dt_alloc(2 * (cli->n_set + c->n_set) + 3, sizeof *c->arg);
    if (c->arg == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the arguments of a run");
    size_t n = 0;
    c->arg[n++] = name;
    c->arg[n++] = (char *)(uintptr_t)cli->word[0];
    for (size_t i = 0; i < cli->n_set; i++) {
        c->arg[n++] = set;
        c->arg[n++] = (char *)(uintptr_t)cli->set[i];
    }
    for (size_t i = 0; i < c->n_set; i++) {
        c->arg[n++] = set;
        c->arg[n++] = c->set[i];
    }
    return DT_OK;
}

/* Signals end the run under way, which saves and says so; then we clean up and end as well. One
 * that the caller had ignored (nohup) stays so, for the run as well. */
static const int caught[] = {SIGINT, SIGTERM, SIGHUP};
enum { CAUGHT = DT_COUNT(caught) };
static volatile sig_atomic_t stop_asked;
static volatile pid_t running; /* 0: none */

static void on_signal(int number)
{
    stop_asked = 1;
    if (running > 0)
        (void)kill(running, number);
}

static void catch_signals(struct sigaction before[CAUGHT])
{
    struct sigaction a = {.sa_handler = on_signal};
    sigemptyset(&a.sa_mask);
    stop_asked = 0;
    for (size_t i = 0; i < CAUGHT; i++)
        if (sigaction(caught[i], NULL, &before[i]) == 0 && before[i].sa_handler != SIG_IGN)
            (void)sigaction(caught[i], &a, NULL);
}

static void release_signals(const struct sigaction before[CAUGHT])
{
    for (size_t i = 0; i < CAUGHT; i++)
        (void)sigaction(caught[i], &before[i], NULL);
}

static dt_status stopped(dt_err *err)
{
    return DT_FAIL(err, DT_E_STOPPED, "stopped by a signal");
}

static void become(const child *c, const char *out, const sigset_t *mask)
{
    const int fd = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int nothing = open("/dev/null", O_RDONLY);
    for (size_t i = 0; i < CAUGHT; i++) {
        struct sigaction a;
        if (sigaction(caught[i], NULL, &a) == 0 && a.sa_handler == on_signal)
            (void)signal(caught[i], SIG_DFL);
    }
    (void)sigprocmask(SIG_SETMASK, mask, NULL);
    if (fd >= 0 && nothing >= 0 && dup2(nothing, 0) >= 0 && dup2(fd, 1) >= 0 && dup2(fd, 2) >= 0)
        execv("/proc/self/exe", c->arg);
    _exit(DT_E_INTERNAL);
}

/* Runs it to its end; *code is its exit code, or 128 and the signal that ended it. Signals wait
 * from before the fork until we know whom to send them on to. */
static dt_status run_child(const child *c, int *code, dt_err *err)
{
    char out[PATH_ROOM + 16];
    int status = 0;
    sigset_t block, mask;
    snprintf(out, sizeof out, "%s/output", c->folder);
    fflush(NULL);
    sigemptyset(&block);
    for (size_t i = 0; i < CAUGHT; i++)
        sigaddset(&block, caught[i]);
    (void)sigprocmask(SIG_BLOCK, &block, &mask);
    const bool stop = stop_asked; /* which a signal to another thread may change at any time */
    const pid_t pid = stop ? 0 : fork();
    if (pid == 0 && !stop)
        become(c, out, &mask);
    running = pid;
    if (pid > 0 && stop_asked)
        (void)kill(pid, SIGTERM);
    (void)sigprocmask(SIG_SETMASK, &mask, NULL);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    running = 0;
    if (pid < 0)
        return DT_FAIL(err, DT_E_NOMEM, "no process to train in: %s", strerror(errno));
    if (stop_asked)
        return stopped(err);
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return DT_OK;
}

/* The last lines of what the run said. */
static void last_words(const child *c, dt_status st, dt_err *err)
{
    char path[PATH_ROOM + 16], *text = NULL;
    size_t bytes = 0;
    snprintf(path, sizeof path, "%s/output", c->folder);
    if (dt_read_file(&text, &bytes, path, TEXT_BYTES, DT_E_IO, NULL) != DT_OK)
        return;
    const char *at = bytes > 600 ? text + bytes - 600 : text;
    for (const char *line = at; *line != '\0';) {
        const size_t n = strcspn(line, "\n");
        if (n > 0)
            (void)DT_FAIL(err, st, "  %.*s", (int)n, line);
        line += n + (line[n] == '\n');
    }
    dt_free(text);
}

static dt_status read_summary(const child *c, uint64_t *planned, uint64_t *measured, dt_err *err)
{
    char path[PATH_ROOM + 32], *text = NULL;
    size_t bytes = 0;
    cJSON *o = NULL;
    snprintf(path, sizeof path, "%s/run/" DT_RUN_SUMMARY, c->folder);
    DT_CHECK(dt_read_file(&text, &bytes, path, TEXT_BYTES, DT_E_IO, err));
    const dt_status st = dt_json_parse(&o, text, bytes, 8, 1024, err);
    const cJSON *p = cJSON_GetObjectItemCaseSensitive(o, "device_peak_planned");
    const cJSON *m = cJSON_GetObjectItemCaseSensitive(o, "device_peak_measured");
    *planned = cJSON_IsNumber(p) ? (uint64_t)p->valuedouble : 0;
    *measured = cJSON_IsNumber(m) ? (uint64_t)m->valuedouble : 0;
    cJSON_Delete(o);
    dt_free(text);
    return st;
}

/* Two steps at @batch; the exit code has to be @want. */
static dt_status try_batch(const dti_cli *cli, const dt_graph *g, dt_sweep_row *row, int64_t batch,
    dt_status want, dt_err *err)
{
    char folder[PATH_ROOM];
    child c = {.folder = folder};
    int code = 0;
    dt_status st = make_folder(folder, err);
    if (st == DT_OK)
        st = settings(&c, g, row->policy, batch, err);
    if (st == DT_OK)
        st = arguments(&c, cli, err);
    if (st == DT_OK)
        st = run_child(&c, &code, err);
    if (st == DT_OK && code != (int)want) {
        st = code == DT_E_STOPPED || code == DT_E_NOMEM ? (dt_status)code : DT_E_INTERNAL;
        last_words(&c, st, err);
        (void)DT_FAIL(err, st, "%s at batch %" PRId64 ": exit code %d, not %d", row->policy, batch,
            code, (int)want);
    } else if (st == DT_OK && want == DT_OK) {
        uint64_t planned = 0;
        st = read_summary(&c, &planned, &row->measured, err);
        if (st == DT_OK && (planned != row->peak || row->measured != row->peak))
            st = DT_FAIL(err, DT_E_INTERNAL,
                "%s at batch %" PRId64 ": the sweep planned %" PRIu64 " bytes, the run %" PRIu64
                " and measured %" PRIu64,
                row->policy, batch, row->peak, planned, row->measured);
    }
    if (folder[0] != '\0')
        remove_tree(folder);
    for (size_t i = 0; i < c.n_set; i++)
        dt_free(c.set[i]);
    dt_free(c.arg);
    return st;
}

static dt_status verify_row(const dti_cli *cli, const dt_graph *g, dt_sweep_row *row, dt_err *err)
{
    DT_CHECK(try_batch(cli, g, row, row->batch, DT_OK, err));
    if (!row->capped)
        DT_CHECK(try_batch(cli, g, row, row->batch + 1, DT_E_BUDGET, err));
    return DT_OK;
}

/* What this machine has no memory for would be refused, and says nothing of the plan. */
static void tell_beyond(const dt_sweep_row *row)
{
    char text[DT_POLICY_LIST + 160];
    snprintf(text, sizeof text,
        "%s: batch %" PRId64 " takes more memory than this machine has: not tried", row->policy,
        row->batch);
    printf("  ");
    dti_term_wrap(stdout, 2, 4, text);
    fflush(stdout);
}

static void tell(const dt_sweep_row *row)
{
    char text[DT_POLICY_LIST + 160], count[DT_HUMAN_BYTES], refused[48] = "";
    if (!row->capped)
        snprintf(refused, sizeof refused, "; %" PRId64 " is refused", row->batch + 1);
    if (row->check == DT_SWEEP_BROKEN)
        snprintf(text, sizeof text, "%s: batch %" PRId64 " does NOT hold", row->policy, row->batch);
    else
        snprintf(text, sizeof text, "%s: batch %" PRId64 " trains, planned = measured = %s bytes%s",
            row->policy, row->batch, dt_human_count(count, row->measured), refused);
    printf("  ");
    dti_term_wrap(stdout, 2, 4, text);
    fflush(stdout);
}

dt_status dti_sweep_verify(dti_sweep *w, const dti_cli *cli, dt_err *err)
{
    dt_status first = DT_OK;
    struct sigaction before[CAUGHT];
    catch_signals(before);
    printf("\ntwo steps at each, in a process of its own:\n");
    fflush(stdout);
    for (size_t i = 0; i < w->n; i++) {
        dt_sweep_row *row = &w->row[i];
        if (row->batch == 0)
            continue;
        if (row->beyond) {
            tell_beyond(row);
            continue;
        }
        dti_term_say("training %s at batch %" PRId64, row->policy, row->batch);
        const dt_status st = verify_row(cli, w->session->graph, row, err);
        if (st == DT_E_STOPPED) {
            first = st;
            break;
        }
        row->check = st == DT_OK ? DT_SWEEP_HOLDS : DT_SWEEP_BROKEN;
        tell(row);
        first = first == DT_OK ? st : first;
    }
    release_signals(before);
    return first;
}
