/* The program: finds the subcommand and runs it. A first argument that names none is a
 * configuration to train. Results go to stdout, everything else to stderr; the status is the exit
 * code. */
#include <dnntrain.h>

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/base/clock.h"
#include "engine/base/cpu.h"
#include "engine/config/nearest.h"
#include "engine/config/options.h"
#include "layers/onednn/onednn.h"
#include "memory/remat/solver.h"
#include "session/open.h"
#include "session/run_dir.h"
#include "tools/args.h"
#include "tools/terminal.h"

/* What others have a command for, and what does it here. */
static const struct {
    const char *theirs, *ours;
} habits[] = {
    {"resume", "a run goes on by `dnntrain CONFIG --resume [RUN]`"},
    {"generate", "`dnntrain eval CONFIG --set model.weights=FILE --generate N` writes text"},
    {"export", "a run leaves RUN/" DT_RUN_WEIGHTS ", with PyTorch's names and layouts; "
               "`tools/weights.py to-torch` makes a .pt file of it"},
    {"import", "`tools/weights.py from-torch FILE OUT.safetensors` takes PyTorch's weights"},
    {"download", "`tools/get_data NAME` fetches a data set"},
    {"version", "`dnntrain --version` says it"},
    {"-v", "`dnntrain --version` says the version"},
    {"-V", "`dnntrain --version` says the version"},
};

static dt_status habit(const char *word, dt_err *err)
{
    for (size_t i = 0; i < DT_COUNT(habits); i++)
        if (strcmp(word, habits[i].theirs) == 0)
            return DT_FAIL(err, DT_E_CONFIG, "there is no '%s'; %s", word, habits[i].ours);
    return DT_OK;
}

/* A word that neither a command nor a file has as its name: say what is nearest. */
static dt_status nothing_of_that_name(const char *word, dt_err *err)
{
    char config[256];
    if (strchr(word, '/') == NULL && dt_session_in_configs(word, config, sizeof config))
        return DT_FAIL(err, DT_E_CONFIG, "there is no file '%s'; did you mean '%s'?", word, config);
    const char *near = dt_nearest(word, dti_command_names());
    if (near != NULL)
        return DT_FAIL(
            err, DT_E_CONFIG, "there is no command or file '%s'; did you mean '%s'?", word, near);
    if (strchr(word, '/') != NULL || strchr(word, '.') != NULL)
        return dti_cli_check_file(word, err);
    return DT_FAIL(err, DT_E_CONFIG,
        "'%s' is neither a command nor a file; `dnntrain help` lists the commands, configs/ holds "
        "configurations",
        word);
}

/* DT_ISA=avx2 and the like: what is computed is what a lesser processor would, bit for bit. */
static dt_status limit_isa(dt_err *err)
{
    const char *name = getenv("DT_ISA");
    dt_isa limit;
    if (name == NULL || *name == '\0')
        return DT_OK;
    DT_TRY(err, dt_isa_limit(name, &limit, err), "DT_ISA");
    DT_TRY(err, dt_onednn_limit(limit, err), "DT_ISA = %s", name);
    return DT_OK;
}

/* KiB, or in the unit behind the number, as OpenMP reads it; UINT64_MAX: none is given. */
static uint64_t stack_given(const char *text)
{
    if (text == NULL)
        return UINT64_MAX;
    char *end;
    const unsigned long long n = strtoull(text, &end, 10);
    if (end == text)
        return UINT64_MAX;
    end += strspn(end, " \t");
    const int unit = *end | 0x20; /* as a small letter */
    const int shift = unit == 'b' ? 0 : unit == 'm' ? 20 : unit == 'g' ? 30 : 10;
    return n > UINT64_MAX >> shift ? UINT64_MAX : (uint64_t)n << shift;
}

/* A stack that overflows ends the program without a word; where threads of the library have too
 * small a one they are not even begun, and it ends the program. */
static dt_status check_stacks(dt_err *err)
{
    enum { LEAST = 1 << 20, LEAST_OF_THREADS = 256 << 10 };
    static const char *const given[] = {"OMP_STACKSIZE", "GOMP_STACKSIZE"};
    struct rlimit r;
    if (getrlimit(RLIMIT_STACK, &r) == 0 && r.rlim_cur < LEAST)
        return DT_FAIL(err, DT_E_BUDGET,
            "the stack may take %" PRIu64 " KiB alone: RLIMIT_STACK (ulimit -s); raise it to %d "
            "or more",
            (uint64_t)r.rlim_cur / 1024, LEAST / 1024);
    for (size_t i = 0; i < DT_COUNT(given); i++)
        if (stack_given(getenv(given[i])) < LEAST_OF_THREADS)
            return DT_FAIL(err, DT_E_CONFIG,
                "%s = %.40s: threads take %dK of stack; raise it, or leave it out", given[i],
                getenv(given[i]), LEAST_OF_THREADS / 1024);
    return DT_OK;
}

static void print_version(void)
{
    const dt_build b = dt_build_facts();
    printf("dnntrain %s%s%s%s\n%s\n%s io_uring\n%s CUDA\n%s CBC\n%s LZ4\n", b.version,
        b.git[0] != '\0' ? " (" : "", b.git, b.git[0] != '\0' ? ")" : "", b.library,
        b.io_uring ? "with" : "without", b.cuda ? "with" : "without", b.solver ? "with" : "without",
        b.lz4 ? "with" : "without");
}

static dt_status run(int argc, char **argv, dt_err *err)
{
    dti_command_args a = {argc - 1, argv + 1};
    const dti_command_args none = {0, NULL};
    DT_CHECK(check_stacks(err));
    DT_CHECK(limit_isa(err));
    if (a.n == 0) {
        DT_CHECK(dt_command_help.run(&none, err));
        return DT_FAIL(err, DT_E_CONFIG, "nothing to do: name a configuration or a command");
    }
    if (strcmp(a.arg[0], "-h") == 0 || strcmp(a.arg[0], "--help") == 0)
        return dt_command_help.run(&none, err);
    if (strcmp(a.arg[0], "--version") == 0) {
        print_version();
        return DT_OK;
    }
    const dti_command *c = a.arg[0][0] != '\0' ? dti_command_find(a.arg[0]) : NULL;
    if (c == NULL && strcmp(a.arg[0], "train") == 0) /* what is tried first */
        c = &dt_command_train;
    if (c != NULL) {
        a.n--;
        a.arg++;
        return c->run(&a, err);
    }
    struct stat st;
    const bool there = stat(a.arg[0], &st) == 0;
    if (!there)
        DT_CHECK(habit(a.arg[0], err));
    if (a.arg[0][0] != '-' && !there)
        return nothing_of_that_name(a.arg[0], err);
    return dt_command_train.run(&a, err);
}

static void print_trail(const dt_err *err)
{
    for (const char *line = err->text; *line != '\0';) {
        const size_t n = strcspn(line, "\n");
        dti_term_say("%.*s", (int)n, line);
        line += n + (line[n] == '\n');
    }
}

/* A stream that the caller has closed is full instead: else the next file opened, weights maybe,
 * would have its number, and get what is said there. */
static void keep_streams(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/full", O_RDWR) < 0)
            (void)open("/dev/null", O_RDWR);
}

/* How often a thread that waits looks in 100 microseconds. A pause takes 10 cycles of some
 * processors and 140 of others. */
static int looks(void)
{
    enum { LEAST = 500, MOST = 40000, PAUSES = 200, TURNS = 5 };
    double least = 1;
    for (int i = 0; i < TURNS; i++) {
        const double began = dt_seconds();
        for (int k = 0; k < PAUSES; k++)
            dt_pause();
        const double took = dt_seconds() - began;
        least = took < least ? took : least;
    }
    const double n = 100e-6 * PAUSES / least;
    return n < LEAST ? LEAST : n > MOST ? MOST : (int)n;
}

/* The program anew, under its own name: by /proc/self/exe it would be called exe. Where it cannot,
 * it goes on as it is. */
static void begin_anew(char **argv)
{
    char self[4096];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return;
    self[n] = '\0';
    (void)execv(self, argv);
    (void)execv("/proc/self/exe", argv); /* another file may have taken its place */
}

/* Threads of the library's that wait for work spin for milliseconds, unless told otherwise when the
 * program is loaded, on cores that ours, or other programs, want meanwhile. So the program begins
 * anew with less: longer than it takes to wake one, and shorter than most ops. Not where threads
 * are bound to processors: the first is bound by now, and all would have its processor. */
static void spin_less(char **argv)
{
    static const char *const given[] = {
        "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"};
    char count[16];
    for (size_t i = 0; i < DT_COUNT(given); i++)
        if (getenv(given[i]) != NULL)
            return;
    snprintf(count, sizeof count, "%d", looks());
    if (setenv("GOMP_SPINCOUNT", count, 0) == 0)
        begin_anew(argv);
}

/* An assertion that fails within the solver ends its search alone; whatever else aborts, or is sent
 * from outside, ends the program. */
static void on_abort(int number, siginfo_t *from, void *context)
{
    (void)context;
    if (from->si_code == SI_TKILL) /* raised by this thread */
        dt_solver_escape();
    (void)signal(number, SIG_DFL);
    (void)raise(number); /* once this returns */
}

static void catch_aborts(void)
{
    const struct sigaction act = {.sa_sigaction = on_abort, .sa_flags = SA_SIGINFO};
    (void)sigaction(SIGABRT, &act, NULL);
}

int main(int argc, char **argv)
{
    spin_less(argv);
    catch_aborts();
    keep_streams();
    dt_alloc_hold();          /* what is planned; a run gives it back */
    signal(SIGXFSZ, SIG_IGN); /* a file at its limit (ulimit -f) is an error of that write */
    static dt_err err;
    dt_status st = run(argc, argv, &err);
    if ((fflush(stdout) != 0 || ferror(stdout)) && st == DT_OK)
        st = DT_FAIL(&err, DT_E_IO, "the results could not be written: stdout is closed or full");
    if (st != DT_OK && err.n == 0)
        st = DT_FAIL(&err, st, "failed: %s", dt_status_name(st));
    if (st != DT_OK)
        print_trail(&err);
    return (int)st;
}
