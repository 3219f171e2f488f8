/* A plan in time from outside: its timeline, what a run was traced to do, and its intervals. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/sha256.h"
#include "tests/fixture/json_read.h"
#include "tests/fixture/profile_file.h"
#include "tests/fixture/run_cli.h"

static const char *lenet(void)
{
    return cli_file("lenet.ini",
        "[model]\nname = lenet5\n[data]\nsamples = 64\n[train]\nbatch = 16\nsteps = 3\n"
        "eval_every = 0\n[memory]\nsimulate = p100\npolicy = vdnn_all\n");
}

static const char *path_of(char to[1024], const char *name)
{
    snprintf(to, 1024, "%s", dt_temp_path(name));
    return to;
}

/* `plan FILE WORDS PATH` writes a file; its text. */
static char *written(const char *words, const char *name)
{
    char line[4096], path[1024];
    path_of(path, name);
    remove(path);
    snprintf(line, sizeof line, "plan FILE %s %s", words, path);
    ran r = cli_run(line, lenet());
    assert_code(&r, 0);
    cli_done(&r);
    return cli_text(path);
}

/* Seconds of a step of vdnn_all with what a card's keys are set to. */
static double on_card(const char *sets)
{
    char words[512];
    snprintf(words, sizeof words, "plan FILE --json %s", sets);
    ran r = cli_run(words, lenet());
    assert_code(&r, 0);
    cJSON *o = json_of(r.out, strlen(r.out));
    const cJSON *of = cJSON_GetObjectItemCaseSensitive(o, "predicted");
    assert_true(json_flag(of, "simulated"));
    const double seconds = json_number(of, "step_seconds");
    cJSON_Delete(o);
    cli_done(&r);
    return seconds;
}

/* By the numbers of a data sheet a card is the one of the list that has them; and one that is like
 * another differs in what is said. */
static void a_card_of_ones_own_goes_by_its_data_sheet(void **state)
{
    NEED_BINARY();
    const double v100 = on_card("--set memory.simulate=v100");
    const double sheet = on_card("--set memory.simulate=own --set card.fp32=15.7 --set "
                                 "card.half=125 --set card.bandwidth=900 --set card.link=15.75");
    const double like = on_card("--set memory.simulate=own --set card.like=v100");
    const double linked =
        on_card("--set memory.simulate=own --set card.like=v100 --set card.link=31.5");
    const double slow =
        on_card("--set memory.simulate=own --set card.like=v100 --set card.bandwidth=9");
    assert_true(fabs(sheet - v100) <= 1e-9 * v100 && fabs(like - v100) <= 1e-9 * v100);
    assert_true(linked < 0.9 * v100 && slow > 1.1 * v100);
    ran r = cli_run(
        "plan FILE --set memory.simulate=own --set card.like=v100 --set card.link=31.5", lenet());
    assert_has(r.out, "\nby           like Tesla V100 16GB, link 31.5, a card's constants\n");
    cli_done(&r);
    r = cli_run(
        "plan FILE --set memory.simulate=own --set card.like=v100 --set "
        "card.title=a\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
        "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9",
        lenet());
    assert_has(r.out, "\xc3\xa9, a card's constants\n"); /* 41 bytes, cut between letters */
    cli_done(&r);
    r = cli_run("help card", NULL); /* a key and a section */
    assert_has(r.out, "device.card = text\n");
    assert_has(r.out, "\n[card]\nA card of your own, ");
    cli_done(&r);
}

static void a_card_that_cannot_be_is_refused(void **state)
{
    NEED_BINARY();
    static const char *const bad[][2] = {
        {"memory.simulate=own", "[memory] simulate = own: [card] says no fp32; give its number"},
        {"memory.simulate=own --set card.fp32=3", "[card] says no bandwidth"},
        {"memory.simulate=own --set card.like=v10",
            "[card] like = v10: no such card; did you mean"},
        {"memory.simulate=own --set card.like=v100 --set card.link=1e-9",
            "[card] link = 1e-9: must be 0, or 0.001 and more"},
        {"memory.simulate=own --set card.like=v100 --set card.link=nan", "[card] link = nan"},
        {"memory.simulate=own --set card.like=v100 --set card.half=-1",
            "[card] half = -1: must be"},
        {"memory.simulate=owm", "did you mean 'own'?"},
        {"memory.simulate= --set card.fp32=3",
            "[card] fp32 = 3: no card is simulated; set memory."},
        {"card.fp32=3", "[card] fp32 = 3: memory.simulate = p100 takes nothing of [card]; set "
                        "memory.simulate = own and card.like = p100, or leave it out"},
    };
    for (size_t i = 0; i < DT_COUNT(bad); i++) {
        char words[256];
        snprintf(words, sizeof words, "plan FILE --set %s", bad[i][0]);
        ran r = cli_run(words, lenet());
        assert_code(&r, DT_E_CONFIG);
        assert_has(r.err, bad[i][1]);
        assert_string_equal(r.out, "");
        cli_done(&r);
    }
}

/* One that a file describes is for when it is asked for. */
static void a_card_of_the_file_stands_beside_one_of_the_list(void **state)
{
    NEED_BINARY();
    const char *file = cli_file("card.ini",
        "[model]\nname = lenet5\n[memory]\nsimulate = p100\n[card]\nlike = v100\nlink = 63\n");
    ran r = cli_run("plan FILE", file);
    assert_code(&r, 0);
    assert_has(r.out, "Tesla P100 16GB, a card's constants");
    cli_done(&r);
    r = cli_run("plan FILE --set card.link=1", file);
    assert_code(&r, DT_E_CONFIG);
    cli_done(&r);
}

static double step_seconds(void)
{
    ran r = cli_run("plan FILE --json", lenet());
    cJSON *o = json_of(r.out, strlen(r.out));
    const double s = json_number(json_object(o, "predicted"), "step_seconds");
    cJSON_Delete(o);
    cli_done(&r);
    return s;
}

/* Of the plan that these words make: its peak, if the budget is 0, else whether no bound is above
 * its step. */
static double peak_or_bound_of(const char *file, const char *words, double budget)
{
    char line[512];
    snprintf(
        line, sizeof line, "plan FILE --json --set memory.device_budget=%.0f %s", budget, words);
    ran r = cli_run(line, file);
    assert_code(&r, 0);
    cJSON *o = json_of(r.out, strlen(r.out));
    const cJSON *predicted = json_object(o, "predicted");
    const double peak = json_number(json_object(o, "device"), "peak");
    if (!(json_number(predicted, "bound_seconds") <= json_number(predicted, "step_seconds")))
        fail_msg("%s, budget %.0f: bound %.9g, step %.9g", words, budget,
            json_number(predicted, "bound_seconds"), json_number(predicted, "step_seconds"));
    cJSON_Delete(o);
    cli_done(&r);
    return peak;
}

static double peak_or_bound(const char *words, double budget)
{
    return peak_or_bound_of(lenet(), words, budget);
}

/* What sums hand back to a value that several of them read is added up in one place, and counts
 * once. */
static void no_plan_is_below_its_bound_where_gradients_meet(void **state)
{
    NEED_BINARY();
    static const char *const words[] = {"--set memory.simulate=p100 --set memory.policy=capuchin",
        "--set memory.simulate=rtx3090 --set memory.policy=chen_budget",
        "--set memory.simulate=p100 --set memory.policy=autoswap"};
    static const char sums[] =
        "[model]\nimage = 32\nclasses = 10\n[train]\nbatch = 20\nlr = 0.01\n"
        "[conv c1]\nout = 40\nkernel = 3\npad = 1\n[conv c2]\nout = 40\nkernel = 5\npad = 2\n"
        "[add a]\ninput = c1, c2\n[add b]\ninput = c2, a\n[add d]\ninput = b, c2\n"
        "[fc f]\nout = 10\n";
    for (size_t i = 0; i < DT_COUNT(words); i++)
        for (double budget = 19e6; budget <= 22e6; budget += 1e6)
            (void)peak_or_bound_of(cli_file("sums.ini", sums), words[i], budget);
}

/* The sum lies over a pool's output, made long before, whose own input need not be there until
 * then.
 */
static void no_plan_is_below_its_bound_where_a_sum_lies_over_an_early_value(void **state)
{
    NEED_BINARY();
    static const char words[] =
        "--set memory.simulate=p100 --set memory.tier=disk --set device.threads=1";
    char ini[2048] = "[model]\nimage = 64\nclasses = 10\n[data]\nsource = synthetic\n[train]\n"
                     "batch = 32\nprecision = fp32\n[conv c]\nout = 32\nkernel = 3\npad = 1\n"
                     "[avgpool s]\nkernel = 2\ninput = c\n[avgpool m]\nkernel = 2\ninput = c\n";
    for (int i = 1; i <= 8; i++)
        snprintf(ini + strlen(ini), sizeof ini - strlen(ini),
            "[conv k%d]\nout = 32\nkernel = 3\npad = 1\n", i);
    strcat(ini, "[add z]\ninput = s, k8\n[global_avgpool g]\n[fc f]\nout = 10\n");
    char file[1024];
    snprintf(file, sizeof file, "%s", cli_file("early.ini", ini));
    const double peak = peak_or_bound_of(file, words, 0);
    (void)peak_or_bound_of(file, words, peak);
}

/* Of plans that keep states elsewhere, pack better than is known, or choose algorithms. */
static void no_plan_is_below_its_bound(void **state)
{
    NEED_BINARY();
    static const char *const words[] = {"--set memory.policy=zero_offload,vdnn_all",
        "--set memory.policy=zero_infinity,chen_sqrt --set memory.tier=disk",
        "--set memory.policy=cdma --set policy.cdma.density=0.01",
        "--set memory.policy=cdma --set policy.cdma.density=0.01 --set memory.tier=disk",
        "--set memory.policy=gist_lossless --set policy.gist_lossless.density=0.01",
        "--set memory.policy=chen_sqrt --set memory.algorithms=fit"};
    for (size_t i = 0; i < DT_COUNT(words); i++)
        (void)peak_or_bound(words[i], peak_or_bound(words[i], 0));
}

/* Rows of a stream follow each other; returns when the last ends. */
static double check_timeline(char *csv)
{
    static const char *const kinds[] = {"compute", "copy_out", "copy_in", "fetch", "wait"};
    static const char *const streams[] = {"compute", "out", "in", "write", "read"};
    double until[DT_COUNT(streams)] = {0}, last = 0;
    int of_kind[DT_COUNT(kinds)] = {0};
    char *line = strchr(csv, '\n') + 1;
    for (char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        char stream[16], name[64], kind[16], source[32] = "";
        double begin, to;
        size_t row, bytes, s = 0, k = 0;
        *end = '\0';
        assert_int_equal(sscanf(line, "%zu,%15[^,],%63[^,],%15[^,],%zu,%lf,%lf,%31s", &row, stream,
                             name, kind, &bytes, &begin, &to, source),
            8);
        while (s < DT_COUNT(streams) && strcmp(streams[s], stream) != 0)
            s++;
        while (k < DT_COUNT(kinds) && strcmp(kinds[k], kind) != 0)
            k++;
        assert_true(s < DT_COUNT(streams) && k < DT_COUNT(kinds));
        assert_true(begin >= until[s] - 1e-9 && to >= begin);
        assert_true((source[0] == ',') == (k == 4)); /* a wait has none */
        assert_has(source, ",simulated");
        until[s] = to;
        of_kind[k]++;
        last = to > last ? to : last;
    }
    for (size_t k = 0; k < DT_COUNT(kinds); k++)
        assert_true(of_kind[k] > 0);
    return last;
}

static void timelines_of_its_programs_make_the_step(void **state)
{
    NEED_BINARY();
    char *first = written("--timeline", "first.csv");
    char *update = written("--program update --timeline", "update.csv");
    static const char head[] = "row,stream,name,kind,bytes,begin,end,source,costs\n";
    assert_int_equal(strncmp(first, head, strlen(head)), 0);
    const double both = check_timeline(first);
    const char *at = update + strlen(update);
    for (int commas = 0; commas < 3; commas += *at == ',') /* before end, source and costs */
        at--;
    const double end = strtod(at + 1, NULL);
    const double step = step_seconds(), rest = step - both - end;
    if (!(fabs(rest) < 1e-6))
        fail_msg("the step takes %g s, its programs %g and %g", step, both, end);
    dt_free(first);
    dt_free(update);
}

static void the_map_has_lanes_in_seconds_where_costs_are_known(void **state)
{
    NEED_BINARY();
    char *with = written("--map", "with.svg");
    char *without = written("--set memory.simulate= --map", "without.svg");
    assert_has(with, "in time, as simulated: ");
    assert_has(with, "<g data-seconds=\"simulated\">");
    assert_has_not(with, "predicted");
    assert_has(with, "<g class=\"waits\"");
    assert_has(with, "waits, ");
    assert_has_not(with, "nan");
    assert_has(with + strlen(with) - 7, "</svg>\n");
    assert_has_not(without, "in time");
    dt_free(with);
    dt_free(without);
}

/* Trains three steps and leaves a trace; its text. */
static char *trace(char path[1024])
{
    static int runs;
    char words[2048], run[1024];
    path_of(path, "trace.csv");
    path_of(run, "traced");
    snprintf(words, sizeof words, "FILE --set memory.simulate= --set run.dir=%s%d", run, runs++);
    assert_int_equal(setenv("DT_TRACE", path, 1), 0);
    ran r = cli_run(words, lenet());
    assert_int_equal(unsetenv("DT_TRACE"), 0);
    assert_code(&r, 0);
    cli_done(&r);
    return cli_text(path);
}

static ran against(const char *path, const char *more)
{
    char words[2048];
    snprintf(words, sizeof words, "plan FILE --against %s %s", path, more);
    return cli_run(words, lenet());
}

/* A rate that no scale of the card's arithmetic gives was taken for the nearest. */
static void a_rate_out_of_reach_is_refused(void **state)
{
    NEED_BINARY();
    static const char *const rates[] = {"1e9", "1e-9"};
    for (size_t i = 0; i < DT_COUNT(rates); i++) {
        char words[256];
        snprintf(words, sizeof words,
            "plan FILE --set memory.simulate=p100 --set memory.calibrate=%s", rates[i]);
        ran r = cli_run(words, lenet());
        assert_code(&r, DT_E_CONFIG);
        assert_has(r.err, "[memory] calibrate = ");
        assert_has(r.err, "p100's constants");
        cli_done(&r);
    }
}

static void a_trace_stands_beside_the_prediction(void **state)
{
    NEED_BINARY();
    char path[1024];
    char *text = trace(path);
    ran r = against(path, "");
    assert_code(&r, 0);
    assert_has(r.out, "program 'first', 16 samples, run 3 times in ");
    assert_has(r.out, "simulated s   measured s");
    assert_has_not(r.out, "predicted");
    assert_has(r.out, "\ncompute ");
    assert_has(r.out, "\ncopy_out ");
    assert_has(r.out, "\nall, from begin to end");
    assert_has(r.out, "those that differ most");
    assert_has_not(r.out, "not in the trace");
    cli_done(&r);
    r = against(path, "--program update");
    assert_code(&r, 0);
    assert_has(r.out, "program 'update'");
    cli_done(&r);
    dt_free(text);
}

/* A trace that went through an editor: a byte order mark before it, and other ends of lines. */
static void an_edited_trace_is_the_same_trace(void **state)
{
    NEED_BINARY();
    char path[1024], *text = trace(path);
    ran plain = against(path, "");
    assert_code(&plain, 0);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("\xef\xbb\xbf", f);
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '\n')
            putc('\r', f);
        putc(*at, f);
    }
    assert_int_equal(fclose(f), 0);
    ran edited = against(path, "");
    assert_code(&edited, 0);
    assert_string_equal(edited.out, plain.out);
    cli_done(&edited);
    cli_done(&plain);
    dt_free(text);
}

/* A trace of the first row alone, run so many times: 2, 30 and 4 seconds, in any order. */
static void write_runs(const char *path, const char *text, int times)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    const char *row = strstr(text, ",conv1.f,compute,");
    assert_non_null(row);
    while (row > text && row[-1] != '\n')
        row--;
    long step, samples, number, bytes;
    assert_int_equal(sscanf(row, "%ld,first,%ld,%ld,compute,conv1.f,compute,%ld", &step, &samples,
                         &number, &bytes),
        4);
    fprintf(f, "step,program,samples,row,stream,name,kind,bytes,begin,end\n");
    for (int i = 0; i < times; i++)
        fprintf(f, "%d,first,%ld,%ld,compute,conv1.f,compute,%ld,%d,%d\n", i + 1, samples, number,
            bytes, 100 * i, 100 * i + (i == 1 ? 30 : 2 + i));
    assert_int_equal(fclose(f), 0);
}

/* Medians are those of the numbers in the file. */
static void what_is_printed_are_medians(void **state)
{
    NEED_BINARY();
    char path[1024], *text = trace(path);
    write_runs(path, text, 3);
    ran r = against(path, "");
    assert_code(&r, 0);
    assert_has(r.out, "     4.000000");
    assert_has(r.out, "samples, run 3 times in ");
    assert_has(r.out, "rows are not in the trace");
    assert_has_not(r.out, "12.000000");
    cli_done(&r);
    write_runs(path, text, 1);
    r = against(path, "");
    assert_code(&r, 0);
    assert_has(r.out, "samples, run 1 time in ");
    cli_done(&r);
    dt_free(text);
}

static void hostile_traces_are_refused(void **state)
{
    NEED_BINARY();
    static const char head[] = "step,program,samples,row,stream,name,kind,bytes,begin,end\n";
    static const struct {
        const char *text, *said;
        bool headless;
    } wrong[] = {
        {"", "no row of it is of program 'first' for 16 samples", false},
        {"", "no row of it", true},
        {"1,2\n", ":1: not the first line of a trace", true},
        {"1,first,16,1,in,x,fetch,1,0,1", ":2: the line has no end: the trace is cut", false},
        {"1,first,16,1,in,x,fetch,1,0\n", ":2: 9 fields, not the 10", false},
        {"1,first,16,1,in,x,fetch,1,0,1,2\n", ":2: 11 fields", false},
        {"1,first,16,1,in,x,fetch,1,nan,1\n", ":2: begin 'nan'", false},
        {"1,first,16,1,in,x,fetch,1,0,inf\n", ":2: begin '0' and end 'inf'", false},
        {"1,first,16,1,in,x,fetch,1,2,1\n", ":2: begin '2' and end '1'", false},
        {"1,first,16,1,in,x,fetch,1,-2,1\n", ":2: begin '-2'", false},
        {"1,first,x,1,in,x,fetch,1,0,1\n", ":2: samples 'x'", false},
        {"1,first,16,1e9,in,x,fetch,1,0,1\n", "row '1e9'", false},
        {"1,first,16,-1,in,x,fetch,1,0,1\n", ":2: row -1 is 'x'", false},
        {"1,first,16,99999999999,in,x,fetch,1,0,1\n", "the trace is of another plan", false},
        {"1,first,16,1,in,y,fetch,1,0,1\n", ":2: row 1 is 'y', in this plan 'x'", false},
        {"1,first,16,1,in,x,copy_out,1,0,1\n", "the trace is of another plan", false},
        {"1,first,32,1,in,x,fetch,1,0,1\n", "no row of it", false},
    };
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        char text[512], path[1024];
        snprintf(text, sizeof text, "%s%s", wrong[i].headless ? "" : head, wrong[i].text);
        snprintf(path, sizeof path, "%s", cli_file("hostile.csv", text));
        ran r = against(path, "");
        assert_code(&r, DT_E_DATA);
        assert_has(r.err, wrong[i].said);
        cli_done(&r);
    }
    ran r = against("nosuch.csv", "");
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "there is no file 'nosuch.csv'");
    cli_done(&r);
}

static uint64_t number_behind(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    assert_non_null(at);
    return strtoull(at + strlen(name), NULL, 10);
}

static void pool_comes_to_the_plans_transient_peak(void **state)
{
    NEED_BINARY();
    static const char *const policies[] = {"keep_all", "vdnn_all", "chen_sqrt", "gist_lossless"};
    for (size_t i = 0; i < DT_COUNT(policies); i++) {
        char words[2048], path[1024];
        path_of(path, "intervals.csv");
        snprintf(
            words, sizeof words, "--set memory.policy=%s --intervals %s --text", policies[i], path);
        char *plan = written(words, "plan.txt");
        const uint64_t want = number_behind(plan, " peak=") - number_behind(plan, " persistent=");
        snprintf(words, sizeof words, "pool %s --pool greedy --csv", path);
        ran r = cli_run(words, NULL);
        assert_code(&r, 0);
        uint64_t peak = 0;
        for (const char *line = strchr(r.out, '\n') + 1; *line != '\0';
             line = strchr(line, '\n') + 1) {
            uint64_t size, off;
            assert_int_equal(sscanf(line, "%*d,%*d,%*d,%" SCNu64 ",%" SCNu64, &size, &off), 2);
            peak = size + off > peak ? size + off : peak;
        }
        assert_int_equal(peak, want);
        cli_done(&r);
        dt_free(plan);
    }
}

static void intervals_go_to_stdout_alone(void **state)
{
    NEED_BINARY();
    char path[1024], words[2048];
    path_of(path, "intervals.csv");
    snprintf(words, sizeof words, "plan FILE --intervals %s", path);
    ran r = cli_run(words, lenet());
    assert_code(&r, 0);
    cli_done(&r);
    char *text = cli_text(path);
    r = cli_run("plan FILE --intervals -", lenet());
    assert_code(&r, 0);
    assert_string_equal(r.out, text);
    cli_done(&r);
    dt_free(text);
}

/* One of them was left out, without a word. */
static void two_outputs_on_stdout_are_refused(void **state)
{
    NEED_BINARY();
    static const char *const words[] = {"--json --why relu1.y", "--json --timeline -",
        "--json --intervals -", "--rows --intervals -", "--kernels --why relu1.y",
        "--timeline - --why relu1.y", "--text - --map -", "--json --html -"};
    for (size_t i = 0; i < DT_COUNT(words); i++) {
        char line[128];
        snprintf(line, sizeof line, "plan FILE %s", words[i]);
        ran r = cli_run(line, lenet());
        assert_code(&r, DT_E_CONFIG);
        assert_string_equal(r.out, "");
        assert_has(r.err, "all go to stdout; ask for one of them");
        cli_done(&r);
    }
    char path[1024], line[2048];
    snprintf(line, sizeof line, "plan FILE --json --timeline %s", path_of(path, "beside.csv"));
    ran r = cli_run(line, lenet());
    assert_code(&r, 0);
    assert_has(r.out, "\"predicted\":");
    cli_done(&r);
}

/* Of a card that is not here, of a machine that was measured, or of neither. */
static void seconds_say_whose_they_are(void **state)
{
    NEED_BINARY();
    char own[PROFILE_WORDS], by[PROFILE_WORDS + 64];
    char *text = profile_text(NULL, NULL);
    snprintf(by, sizeof by, "--set memory.simulate= %s", profile_words("said.json", text, own));
    dt_free(text);
    const struct {
        const char *words, *said, *why, *costs;
    } rows[] = {{"", "simulated", "seconds   simulated, by ", ",simulated\n"},
        {by, "predicted", "seconds   predicted, by a machine\n", ",measured\n"},
        {"--set memory.simulate=", NULL, "seconds   of defaults, ", ",defaults\n"}};
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        char line[4096], said[64];
        snprintf(line, sizeof line, "plan FILE %s --why relu1.y", rows[i].words);
        ran r = cli_run(line, lenet());
        assert_code(&r, 0);
        assert_has(r.out, rows[i].why);
        cli_done(&r);
        snprintf(line, sizeof line, "plan FILE %s --timeline -", rows[i].words);
        r = cli_run(line, lenet());
        assert_code(&r, 0);
        assert_has(r.out, rows[i].costs);
        cli_done(&r);
        snprintf(line, sizeof line, "plan FILE %s --map -", rows[i].words);
        r = cli_run(line, lenet());
        assert_code(&r, 0);
        snprintf(said, sizeof said, "in time, as %s: ", rows[i].said != NULL ? rows[i].said : "");
        if (rows[i].said != NULL)
            assert_has(r.out, said);
        else
            assert_has_not(r.out, "in time");
        cli_done(&r);
    }
}

static void the_curve_and_the_intervals_are_the_plans(void **state)
{
    NEED_BINARY();
    ran r = cli_run("plan FILE --json", lenet());
    cJSON *o = json_of(r.out, strlen(r.out));
    const cJSON *live = cJSON_GetObjectItemCaseSensitive(o, "live"), *x;
    const cJSON *curve = cJSON_GetObjectItemCaseSensitive(o, "curve");
    const double peak = json_number(json_object(o, "device"), "peak");
    double most = 0;
    int i = 0;
    cJSON_ArrayForEach(x, curve)
    {
        const double bytes = cJSON_GetObjectItemCaseSensitive(x, "bytes")->valuedouble;
        assert_true(fabs(bytes - cJSON_GetArrayItem(live, i++)->valuedouble) < 0.5);
        assert_true(cJSON_IsString(cJSON_GetObjectItemCaseSensitive(x, "name")));
        assert_true(cJSON_GetObjectItemCaseSensitive(x, "begin")->valuedouble >= 0);
        most = bytes > most ? bytes : most;
    }
    assert_true(i > 20 && i == cJSON_GetArraySize(live));
    assert_true(most <= peak && most > 0.9 * peak);
    i = 0;
    cJSON_ArrayForEach(x, cJSON_GetObjectItemCaseSensitive(o, "intervals"))
    {
        assert_true(cJSON_GetObjectItemCaseSensitive(x, "lower")->valuedouble <
                    cJSON_GetObjectItemCaseSensitive(x, "upper")->valuedouble);
        assert_true(cJSON_GetObjectItemCaseSensitive(x, "size")->valuedouble <= peak);
        i++;
    }
    assert_true(i > 20);
    cJSON_Delete(o);
    cli_done(&r);
}

static void why_says_what_was_done_and_by_which_rule(void **state)
{
    NEED_BINARY();
    static const char *const rows[][3] = {
        {"vdnn_all", "relu1.y", "taken     offloaded, row "},
        {"vdnn_all", "relu1.y", "for backward of"},
        {"vdnn_all", "relu1.y", "pool1, idle for "},
        {"vdnn_all", "relu1.y", "made      by relu1.f, at 0."},
        {"vdnn_all", "relu1.y", "between pool1.f and pool1.b\n"},
        {"keep_all", "relu1.y", "taken     kept: keep_all does nothing else with it"},
        {"keep_all", "relu1.y", "\n  recompute  "},
        {"keep_all", "relu1.y", " ops, 0."}, /* some processors copy a weight first */
        {"keep_all", "relu1.y", "\n  keep       294.00 KiB for 0."},
        {"keep_all", "relu1.y", "\n  encode     zvc: "},
        {"keep_all", "x", "it can be fetched again"},
        {"keep_all", "x", "\n  offload    it is fetched again from the batch, 0."},
        {"keep_all", "d.conv1", "idle      never"},
        {"chen_sqrt", "relu1.y", "chen_sqrt: between checkpoints input and pool1"},
        {"chen_sqrt", "relu1.y", "taken     made again, row "},
        {"keep_all", "conv1.weight", "it stays for the whole run"},
    };
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        char words[512];
        snprintf(words, sizeof words, "plan FILE --set memory.policy=%s --why %s", rows[i][0],
            rows[i][1]);
        ran r = cli_run(words, lenet());
        assert_code(&r, 0);
        assert_has(r.out, rows[i][2]);
        assert_has_not(r.out, "nan");
        cli_done(&r);
    }
    ran r = cli_run("plan FILE --why relu1y", lenet());
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "has no tensor 'relu1y'; did you mean 'relu1.y'?");
    cli_done(&r);
    /* Of a layer that is fused, which has no tensor of its own, and is known all the same. */
    r = cli_run("plan FILE --set model.name=resnet20 --why layer3.1.relu.y", lenet());
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "did you mean 'layer3.1.relu1'?");
    cli_done(&r);
}

/* Digits of the first number behind a text, leading zeros not counted. */
static int digits_behind(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    int n = 0;
    assert_non_null(at);
    for (at += strlen(key); *at == ' ' || *at == '\t' || *at == ':'; at++)
        ;
    for (; (*at >= '0' && *at <= '9') || *at == '.'; at++)
        n += *at != '.' && (n > 0 || *at != '0');
    return n;
}

/* Of plan, compare and sweep alike. */
static void steps_of_microseconds_keep_their_digits(void **state)
{
    NEED_BINARY();
    static const char *const words[] = {"plan FILE --json --set memory.simulate=p100",
        "compare FILE --json --policies vdnn_all --budgets 1 --set memory.simulate=p100",
        "sweep FILE --json --set memory.device_budget=50KiB --set memory.simulate=p100"};
    static const char ini[] = "[model]\nimage = 9\nclasses = 7\n[fc f]\nout = 7\n"
                              "[train]\nbatch = 7\nsteps = 1\n";
    for (size_t i = 0; i < DT_COUNT(words); i++) {
        ran r = cli_run(words[i], cli_file("short.ini", ini));
        assert_code(&r, 0);
        assert_in_range(digits_behind(r.out, "\"step_seconds\""), 8, 9);
        cli_done(&r);
    }
}

/* By a profile nothing in `predicted` is null, and it says by which; without one all is. */
static void a_prediction_names_its_profile(void **state)
{
    NEED_BINARY();
    static const char *const numbers[] = {"step_seconds", "compute_seconds", "stall_seconds",
        "bound_seconds", "rows_bound_seconds", "samples_per_second", "average_bytes"};
    char by[PROFILE_WORDS], words[2048], hash[DT_SHA256_TEXT];
    char *text = profile_text(NULL, NULL);
    dt_sha256 sum;
    dt_sha256_init(&sum);
    dt_sha256_add(&sum, text, strlen(text));
    dt_sha256_text(&sum, hash);
    snprintf(words, sizeof words, "plan FILE --json --set memory.simulate= %s",
        profile_words("machine.json", text, by));
    dt_free(text);
    ran r = cli_run(words, lenet());
    assert_code(&r, 0);
    cJSON *o = json_of(r.out, strlen(r.out));
    const cJSON *predicted = json_object(o, "predicted");
    for (size_t i = 0; i < DT_COUNT(numbers); i++)
        assert_true(isfinite(json_number(predicted, numbers[i])));
    assert_true(json_number(predicted, "step_seconds") > 0);
    assert_string_equal(json_text(predicted, "profile"), hash);
    assert_string_equal(json_text(predicted, "machine"), "a machine");
    assert_true(!json_flag(predicted, "simulated"));
    const cJSON *tiers = cJSON_GetObjectItemCaseSensitive(predicted, "by_default");
    assert_int_equal(cJSON_GetArraySize(tiers), 1);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetArrayItem(tiers, 0)), "input");
    cJSON_Delete(o);
    cli_done(&r);
    char line[128];
    snprintf(line, sizeof line, "profile      %.12s ", hash);
    snprintf(words, sizeof words, "plan FILE --set memory.simulate= %s", by);
    r = cli_run(words, lenet());
    assert_code(&r, 0);
    assert_has(r.out, line);
    assert_has(r.err, "machine.json: measured elsewhere, and memory.any_profile = on: the machine "
                      "is 'a machine' there");
    assert_has(r.out,
        "\nthe input    is not in the profile: its copies go by the default, 8.0 GB/s;\n"
        "             to measure it: dnntrain profile\n");
    assert_has_not(r.out, "the host     is not");
    assert_has_not(r.out, "the disk     is not"); /* it is not used either */
    cli_done(&r);
    snprintf(words, sizeof words, "plan FILE --set memory.simulate= --set memory.tier=disk %s", by);
    r = cli_run(words, lenet());
    assert_code(&r, 0);
    assert_has(r.out,
        "\nthe disk     is not in the profile: its copies go by the default, 1.6 GB/s;\n"
        "             to measure it: dnntrain profile with memory.tier = disk\n");
    assert_has_not(r.out, "the host     is not");
    cli_done(&r);
    r = cli_run("plan FILE --set memory.tier=disk", lenet());
    assert_has_not(r.out, "is not in the profile"); /* a card's constants */
    cli_done(&r);
    r = cli_run("plan FILE --json --set memory.simulate=p100", lenet());
    o = json_of(r.out, strlen(r.out));
    assert_true(
        cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(json_object(o, "predicted"), "profile")));
    cJSON_Delete(o);
    cli_done(&r);
    r = cli_run("plan FILE --json --set memory.simulate=", lenet());
    o = json_of(r.out, strlen(r.out));
    for (size_t i = 0; i < DT_COUNT(numbers); i++)
        assert_true(cJSON_IsNull(
            cJSON_GetObjectItemCaseSensitive(json_object(o, "predicted"), numbers[i])));
    assert_true(
        cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(json_object(o, "predicted"), "profile")));
    cJSON_Delete(o);
    cli_done(&r);
}

DT_TEST_GROUP(plan_time)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_card_of_ones_own_goes_by_its_data_sheet),
        cmocka_unit_test(a_card_that_cannot_be_is_refused),
        cmocka_unit_test(a_card_of_the_file_stands_beside_one_of_the_list),
        cmocka_unit_test(no_plan_is_below_its_bound),
        cmocka_unit_test(no_plan_is_below_its_bound_where_gradients_meet),
        cmocka_unit_test(no_plan_is_below_its_bound_where_a_sum_lies_over_an_early_value),
        cmocka_unit_test(timelines_of_its_programs_make_the_step),
        cmocka_unit_test(the_map_has_lanes_in_seconds_where_costs_are_known),
        cmocka_unit_test(a_rate_out_of_reach_is_refused),
        cmocka_unit_test(a_trace_stands_beside_the_prediction),
        cmocka_unit_test(an_edited_trace_is_the_same_trace),
        cmocka_unit_test(what_is_printed_are_medians),
        cmocka_unit_test(hostile_traces_are_refused),
        cmocka_unit_test(intervals_go_to_stdout_alone),
        cmocka_unit_test(two_outputs_on_stdout_are_refused),
        cmocka_unit_test(seconds_say_whose_they_are),
        cmocka_unit_test(the_curve_and_the_intervals_are_the_plans),
        cmocka_unit_test(a_prediction_names_its_profile),
        cmocka_unit_test(steps_of_microseconds_keep_their_digits),
        cmocka_unit_test(why_says_what_was_done_and_by_which_rule),
        cmocka_unit_test(pool_comes_to_the_plans_transient_peak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
