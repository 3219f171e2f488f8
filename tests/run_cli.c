#include "tests/run_cli.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"

enum { WORDS = 24, LINE_BYTES = 8192, OUTPUT_BYTES = 8 << 20, LONGEST_SECONDS = 200 };

/* Tests run without a terminal and in plain ASCII unless they say otherwise. */
cli_env cli = {.program = "dnntrain", .locale = "C", .term = "xterm", .no_color = ""};

const char *cli_binary(void)
{
    static char path[8192];
    char here[4096] = "";
    const char *folder = getenv("DT_BINARY");
    if (folder == NULL)
        folder = ".";
    if (*folder != '/' && getcwd(here, sizeof here - 1) != NULL) /* children may run elsewhere */
        strcat(here, "/");
    snprintf(path, sizeof path, "%s%.3900s/%.100s", here, folder, cli.program);
    return access(path, X_OK) == 0 ? path : NULL;
}

static void in_child(char *const *arg, const char *out, const char *err)
{
    const int o = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int e = open(err, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (o < 0 || e < 0 || dup2(o, 1) < 0 || dup2(e, 2) < 0)
        _exit(126);
    setenv("LC_ALL", cli.locale, 1);
    setenv("TERM", cli.term, 1);
    setenv("NO_COLOR", cli.no_color, 1);
    unsetenv("COLUMNS");
    if (cli.threads != NULL)
        setenv("OMP_NUM_THREADS", cli.threads, 1);
    if (cli.folder != NULL && chdir(cli.folder) != 0)
        _exit(125);
    if (cli.child != NULL)
        cli.child();
    alarm(LONGEST_SECONDS); /* outlives exec: a program that hangs fails its test, not the whole run
                             */
    execv(arg[0], arg);
    _exit(127);
}

static pid_t start(const char *out, const char *words, const char *file)
{
    char line[LINE_BYTES], *arg[WORDS] = {NULL};
    int n = 0;
    arg[n++] = (char *)(uintptr_t)cli_binary();
    assert_true(strlen(words) < sizeof line);
    snprintf(line, sizeof line, "%s", words);
    for (char *w = strtok(line, " "); w != NULL; w = strtok(NULL, " ")) {
        assert_true(n < WORDS - 1);
        arg[n++] = strcmp(w, "FILE") == 0 ? (char *)(uintptr_t)file : w;
    }
    const char *err = dt_temp_path("stderr");
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        in_child(arg, out, err);
    return child;
}

static int wait_for(pid_t child)
{
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

ran cli_run_to(const char *out, const char *words, const char *file)
{
    const int code = wait_for(start(out, words, file));
    return (ran){code, NULL, cli_text(dt_temp_path("stderr"))};
}

pid_t cli_start(const char *words, const char *file)
{
    return start(dt_temp_path("stdout"), words, file);
}

ran cli_wait(pid_t child)
{
    const int code = wait_for(child);
    return (ran){code, cli_text(dt_temp_path("stdout")), cli_text(dt_temp_path("stderr"))};
}

ran cli_run(const char *words, const char *file)
{
    return cli_wait(cli_start(words, file));
}

void cli_done(ran *r)
{
    dt_free(r->out);
    dt_free(r->err);
}

char *cli_text(const char *path)
{
    char *text = NULL;
    size_t bytes;
    dt_err err = {0};
    assert_ok(dt_read_file(&text, &bytes, path, OUTPUT_BYTES, DT_E_IO, &err), &err);
    return text;
}

const char *cli_file(const char *name, const char *text)
{
    const char *path = dt_temp_path(name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
    return path;
}

/* cmocka cuts its messages at 1 KiB; the end of a text is where the error stands. */
static const char *tail(const char *text)
{
    const size_t n = strlen(text);
    return n > 700 ? text + n - 700 : text;
}

void assert_has(const char *text, const char *want)
{
    if (strstr(text, want) == NULL)
        fail_msg("'%s' is not in:\n%s", want, tail(text));
}

void assert_has_not(const char *text, const char *unwanted)
{
    if (strstr(text, unwanted) != NULL)
        fail_msg("'%s' is in:\n%s", unwanted, tail(text));
}

void assert_code(const ran *r, int code)
{
    if (r->code != code)
        fail_msg("exit code %d, not %d; stderr:\n%s", r->code, code, tail(r->err));
}
