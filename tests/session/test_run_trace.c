/* DT_TRACE from outside: a line for each row, in order; a file that cannot be made ends the
 * command, a disk that is full ends the trace. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "tests/fixture/run_cli.h"

#define LENET                                                                                      \
    "[model]\nname = lenet5\n[data]\nsource = synthetic\nsamples = 16\n[train]\nbatch = 4\n"       \
    "micro_batch = 2\nsteps = 3\n[memory]\npolicy = vdnn_all\n"
#define HEADER "step,program,samples,row,stream,name,kind,bytes,begin,end\n"

static ran trained(const char *trace, const char *sets)
{
    char words[700], dir[256];
    snprintf(dir, sizeof dir, "%s", dt_temp_path("trace-run"));
    snprintf(words, sizeof words, "FILE --set run.dir=%s --set run.overwrite=on %s", dir, sets);
    setenv("DT_TRACE", trace, 1);
    const ran r = cli_run(words, cli_file("trace.ini", LENET));
    unsetenv("DT_TRACE");
    return r;
}

typedef struct seen {
    int first, again, update, eval, out, in, fetch, other;
    double until[5]; /* by stream */
} seen;

static void read_line(seen *s, const char *line)
{
    static const char *const streams[] = {"compute", "out", "in", "write", "read"};
    long step, samples, row;
    unsigned long long bytes;
    char program[32], stream[16], name[96], kind[16];
    double begin, end;
    const int n = sscanf(line, "%ld,%31[^,],%ld,%ld,%15[^,],%95[^,],%15[^,],%llu,%lf,%lf", &step,
        program, &samples, &row, stream, name, kind, &bytes, &begin, &end);
    if (n != 10)
        fail_msg("%d words in '%.120s'", n, line);
    assert_in_range(step, 1, 3);
    assert_true(begin > 0 && end >= begin && bytes > 0);
    for (int i = 0; i < 5; i++)
        if (strcmp(stream, streams[i]) == 0) {
            assert_true(begin >= s->until[i]);
            s->until[i] = end;
        }
    s->first += strcmp(program, "first") == 0;
    s->again += strcmp(program, "again") == 0;
    s->update += strcmp(program, "update") == 0;
    s->eval += strcmp(program, "eval") == 0;
    s->fetch += strcmp(kind, "fetch") == 0;
    s->out += strcmp(kind, "copy_out") == 0;
    s->in += strcmp(kind, "copy_in") == 0;
}

static seen read_trace(const char *path)
{
    seen s = {0};
    char *text = cli_text(path);
    assert_int_equal(strncmp(text, HEADER, strlen(HEADER)), 0);
    for (const char *at = text + strlen(HEADER); *at != '\0'; at = strchr(at, '\n') + 1)
        read_line(&s, at);
    dt_free(text);
    return s;
}

static void a_run_writes_a_line_a_row(void **state)
{
    NEED_BINARY();
    char path[256];
    snprintf(path, sizeof path, "%s", dt_temp_path("rows.csv"));
    static const char *const tiers[] = {
        "", "--set memory.tier=disk", "--set memory.copy_threads=on"};
    for (size_t i = 0; i < DT_COUNT(tiers); i++) {
        ran r = trained(path, tiers[i]);
        assert_code(&r, 0);
        const seen s = read_trace(path);
        assert_true(s.first > 60 && s.first % 3 == 0 && s.again > 60 && s.again % 3 == 0);
        assert_true(s.update > 10 && s.update % 3 == 0 && s.eval > 0);
        assert_true(s.out >= 6 && s.in == s.out && s.fetch >= 12);
        cli_done(&r);
    }
}

static void what_cannot_be_written_is_said(void **state)
{
    NEED_BINARY();
    ran r = trained("/dev/null/rows.csv", "");
    assert_code(&r, DT_E_IO);
    assert_has(r.err, "create the trace '/dev/null/rows.csv'");
    cli_done(&r);
    r = trained("/dev/full", "");
    assert_code(&r, 0);
    assert_has(r.err, "No space left on device");
    assert_has(r.err, "goes on without a trace");
    cli_done(&r);
    r = trained("", "");
    assert_code(&r, 0);
    assert_has_not(r.err, "a trace");
    cli_done(&r);
}

/* What was traced before is lost only when there is something in its place. */
static void a_trace_that_is_there_is_replaced_when_the_run_begins(void **state)
{
    NEED_BINARY();
    static char old[1 << 20]; /* longer than the new one */
    static const struct {
        const char *sets;
        int code;
    } refusals[] = {
        {"--set run.overwrite=off", DT_E_BUSY}, {"--set memory.device_budget=4KiB", DT_E_BUDGET}};
    char path[256];
    ran r = trained("", ""); /* so that there is a run */
    assert_code(&r, 0);
    cli_done(&r);
    memset(old, 'x', sizeof old - 1);
    snprintf(path, sizeof path, "%s", cli_file("old.csv", old));
    for (size_t i = 0; i < DT_COUNT(refusals); i++) {
        r = trained(path, refusals[i].sets);
        assert_code(&r, refusals[i].code);
        cli_done(&r);
        char *text = cli_text(path);
        assert_true(strcmp(text, old) == 0);
        dt_free(text);
    }
    r = trained(path, "");
    assert_code(&r, 0);
    cli_done(&r);
    assert_true(read_trace(path).first > 0);
}

DT_TEST_GROUP(run_trace)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_writes_a_line_a_row),
        cmocka_unit_test(what_cannot_be_written_is_said),
        cmocka_unit_test(a_trace_that_is_there_is_replaced_when_the_run_begins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
