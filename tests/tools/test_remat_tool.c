/* `dnntrain remat` from outside. Each answer is checked by a program that shares no code with it.
 */
#define _XOPEN_SOURCE 700 /* terminals */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "memory/remat/remat.h"
#include "tests/fixture/json_read.h"
#include "tests/fixture/run_cli.h"

/* Four ops forward, four backward, as a training step has them. */
static const char *chain(void)
{
    return cli_file("chain.txt", "8 12\n"
                                 "20 10 0\n30 20 0\n20 5 0\n10 40 0\n"
                                 "10 40 1\n20 10 1\n30 40 1\n20 20 1\n"
                                 "0 1\n1 2\n2 3\n3 4\n2 4\n4 5\n1 5\n2 5\n5 6\n1 6\n6 7\n0 7\n");
}

/* What remat_check.awk makes of a sequence; false when it breaks a rule or the budget. */
static bool checked(const char *graph, const char *sequence, uint64_t budget, double *cost,
    double *peak, char *says, size_t bytes)
{
    char line[4096];
    snprintf(line, sizeof line, "awk -f '%s' '%s' '%s' %" PRIu64,
        dt_source_path("tests/remat_check.awk"), graph, sequence, budget);
    FILE *f = popen(line, "r");
    assert_non_null(f);
    const bool numbers = fscanf(f, "%lf %lf\n", cost, peak) == 2;
    if (fgets(says, (int)bytes, f) == NULL)
        says[0] = '\0';
    const int status = pclose(f);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 && numbers;
}

static void an_answer_is_what_its_sequence_takes(void **state)
{
    NEED_BINARY();
    char words[512], says[256];
    const char *sequence = cli_file("sequence.txt", "");
    double cost, peak;
    snprintf(words, sizeof words, "remat FILE --budget 80%% --json --sequence %s", sequence);
    ran r = cli_run(words, chain());
    assert_code(&r, 0);
    cJSON *o = cJSON_Parse(r.out);
    assert_non_null(o);
    assert_true(json_number(o, "cost") > json_number(o, "base_cost"));
    assert_int_equal(json_number(o, "base_cost"), 185);
    assert_true(json_number(o, "lower_bound") <= json_number(o, "cost"));
    assert_true(json_number(o, "lower_bound") > json_number(o, "base_cost"));
    assert_true(json_number(o, "extra_percent") > 0);
    assert_true(json_number(o, "seconds") >= 0);
    const uint64_t budget = (uint64_t)json_number(o, "budget");
    assert_true(checked(chain(), sequence, budget, &cost, &peak, says, sizeof says));
    assert_int_equal(cost, json_number(o, "cost"));
    assert_int_equal(peak, json_number(o, "peak"));
    assert_true(peak <= (double)budget);
    cJSON_Delete(o);
    cli_done(&r);
}

/* What a placement has of it: no pool takes less than the peak, and one that searches takes that.
 */
static void its_values_can_be_placed(void **state)
{
    NEED_BINARY();
    char words[1200], file[1024], csv[1024];
    snprintf(file, sizeof file, "%s", chain());
    snprintf(csv, sizeof csv, "%s", cli_file("values.csv", ""));
    snprintf(words, sizeof words, "remat FILE --budget 80%% --json --intervals %s", csv);
    ran r = cli_run(words, file);
    assert_code(&r, 0);
    cJSON *o = cJSON_Parse(r.out);
    assert_non_null(o);
    const double peak = json_number(o, "peak"), runs = json_number(o, "runs");
    cJSON_Delete(o);
    cli_done(&r);
    r = cli_run("pool FILE --pool exact --json", csv);
    assert_code(&r, 0);
    o = cJSON_Parse(r.out);
    assert_non_null(o);
    assert_true(json_number(o, "bound") == peak);
    assert_true(json_number(o, "peak") >= peak);
    cJSON_Delete(o);
    cli_done(&r);
    char *text = cli_text(csv);
    double lines = -1; /* the first names columns */
    for (const char *c = text; *c != '\0'; c++)
        lines += *c == '\n';
    assert_true(lines == runs);
    dt_free(text);
    r = cli_run("remat FILE --budget 80% --sequence - --intervals -", file);
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "all go to stdout");
    cli_done(&r);
    r = cli_run("remat --revolve 9,3 --intervals values.csv", NULL);
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "--intervals does not go with --revolve");
    cli_done(&r);
}

/* What a file has, stdout has where the file is -, and nothing else: no table. */
static void assert_alone(const char *words, const char *graph)
{
    char to[600], line[2048]; /* paths are lent */
    snprintf(to, sizeof to, "%s", cli_file("alone.txt", ""));
    snprintf(line, sizeof line, "%s %s", words, to);
    ran r = cli_run(line, graph);
    assert_code(&r, 0);
    assert_true(r.out[0] != '\0');
    cli_done(&r);
    char *text = cli_text(to);
    snprintf(line, sizeof line, "%s -", words);
    r = cli_run(line, graph);
    assert_code(&r, 0);
    assert_string_equal(r.out, text);
    cli_done(&r);
    dt_free(text);
}

static void a_sequence_goes_to_stdout_alone(void **state)
{
    NEED_BINARY();
    char words[1024];
    assert_alone("remat FILE --budget 80% --sequence", chain());
    assert_alone("remat FILE --budget 80% --intervals", chain());
    assert_alone("remat FILE --max-batch --device 1000 --sequence", chain());
    snprintf(words, sizeof words, "remat --chain %s --budget 24 --sequence",
        cli_file("stages.txt", "3 4\n2 4 4 8 1 2\n2 4 4 8 1 2\n1 1 0 0 0 0\n"));
    assert_alone(words, NULL);
}

static void the_checker_finds_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *runs, *says;
        uint64_t budget;
    } bad[] = {
        {"0\n1\n2\n3\n4\n5\n6\n7\n", "its peak is over 99", 99},
        {"0\n1\n2\n3\n5\n4\n6\n7\n", "op 5 comes before its input 4", 1000},
        {"0\n1\n2\n3\n4\n5\n6\n", "op 7 never runs", 1000},
        {"0\n1\n2\n3\n4\n5\n6\n8\n", "there is no op '8'", 1000},
    };
    double cost, peak;
    char says[256], all[300];
    for (size_t i = 0; i < DT_COUNT(bad); i++) {
        const char *sequence = cli_file("bad.txt", bad[i].runs);
        assert_false(checked(chain(), sequence, bad[i].budget, &cost, &peak, says, sizeof says));
        snprintf(all, sizeof all, "%s", says);
        assert_has(all, bad[i].says);
    }
    const char *good = cli_file("good.txt", bad[0].runs);
    assert_true(checked(chain(), good, 100, &cost, &peak, says, sizeof says));
    assert_true(cost == 185 && peak == 100);
}

static void the_same_seed_gives_the_same_sequence(void **state)
{
    NEED_BINARY();
    ran a = cli_run("remat FILE --budget 85 --seed 7 --moves 5000 --sequence /dev/null", chain());
    assert_code(&a, 6); /* a device is left alone */
    cli_done(&a);
    a = cli_run("remat FILE --budget 85 --seed 7 --moves 5000 --json", chain());
    ran b = cli_run("remat FILE --budget 85 --seed 7 --moves 5000 --json", chain());
    assert_code(&a, 0);
    *strstr(a.out, "\"seconds\"") = '\0';
    *strstr(b.out, "\"seconds\"") = '\0';
    assert_string_equal(a.out, b.out);
    cli_done(&a);
    cli_done(&b);
}

static void what_cannot_be_is_refused(void **state)
{
    NEED_BINARY();
    static const struct {
        const char *words;
        int code;
        const char *says;
    } bad[] = {
        {"remat FILE", 2, "name a budget"},
        {"remat --budget 5", 2, "name one file of ops"},
        {"remat FILE --budget 0", 2, "dnntrain: --budget 0: must be 1..8192TiB\n"},
        {"remat FILE --budget -5%", 2, "a share is a number above 0"},
        {"remat FILE --budget nan%", 2, "a share is a number above 0"},
        {"remat FILE --budget 50% --seed x", 2, "dnntrain: --seed x: not a whole number"},
        {"remat FILE --budget 50% --moves -1", 2, "--moves -1"},
        {"remat FILE --budget 1", 4, "no sequence fits 1 byte: an op with its inputs takes 80"},
        {"remat FILE --budget 10%", 4, "no sequence fits 10 bytes: an op with its inputs takes 80"},
        {"remat absent.txt --budget 10%", 2, "there is no file 'absent.txt'"},
        {"remat FILE --budgte 10%", 2, "did you mean '--budget'?"},
    };
    for (size_t i = 0; i < DT_COUNT(bad); i++) {
        ran r = cli_run(bad[i].words, chain());
        assert_code(&r, bad[i].code);
        assert_has(r.err, bad[i].says);
        cli_done(&r);
    }
    ran r =
        cli_run("remat FILE --budget 10%", cli_file("cycle.txt", "2 2\n1 1 0\n1 1 0\n0 1\n1 0\n"));
    assert_code(&r, 3);
    assert_has(r.err, "cycle.txt:5: edge 1 to 0 runs against the order");
    cli_done(&r);
    r = cli_run("remat FILE --budget 10%", cli_file("seconds.txt", "1 0\n5 0.25 0\n"));
    assert_code(&r, 3);
    assert_has(r.err, "seconds.txt:2: '5 0.25 0' is not 'BYTES COST BACKWARD', whole numbers");
    cli_done(&r);
    r = cli_run("remat FILE --budget 100%", cli_file("one.txt", "1 0\n1 5 0\n"));
    assert_code(&r, 0);
    assert_has(r.out, "1 op, 0 edges, budget 1 byte\n");
    assert_has(r.out, "\n1 run, 0 of them again;");
    cli_done(&r);
}

/* What would be read by nobody. */
static void flags_that_do_not_go_together_are_refused(void **state)
{
    NEED_BINARY();
    static const struct {
        const char *words, *says;
    } bad[] = {
        {"remat --revolve 5,2 --budget 7", "--budget does not go with --revolve"},
        {"remat --revolve 5,2 --chain f", "--chain does not go with --revolve"},
        {"remat --chain f --budget 13 --policy rotor", "--policy does not go with --chain"},
        {"remat --chain f --budget 13 --seed 2", "--seed does not go with --chain"},
        {"remat FILE --max-batch --device 1000 --budget 9", "--budget does not go with"},
        {"remat FILE --budget 90 --device 1000", "--device is for --max-batch alone"},
        {"remat FILE --budget 90 --nodes 5", "--nodes is for --policy checkmate alone"},
        {"remat FILE --policy keep_all --seed 3", "--seed is of a search, and --policy keep_all"},
        {"remat FILE --budget 90 --policy rotor --moves 3", "--moves is of a search, and --policy"},
    };
    for (size_t i = 0; i < DT_COUNT(bad); i++) {
        ran r = cli_run(bad[i].words, chain());
        assert_code(&r, 2);
        assert_has(r.err, bad[i].says);
        cli_done(&r);
    }
    ran r = cli_run("remat . --budget 5", chain());
    assert_code(&r, 2);
    assert_has(r.err, "'.' is a folder; name a graph of ops");
    cli_done(&r);
}

/* A step of @half layers whose values take a byte each and whose runs cost one, and its loss. */
static const char *mirror(int half)
{
    char text[8192];
    const int n = 2 * half + 1;
    size_t at = (size_t)snprintf(text, sizeof text, "%d %d\n", n, n - 1 + half - 1);
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "1 1 %d\n", i > half);
    for (int i = 1; i < n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%d %d\n", i - 1, i);
    for (int i = 0; i + 1 < half; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%d %d\n", i, n - 1 - i);
    assert_true(at < sizeof text);
    return cli_file("mirror.txt", text);
}

static double told(const char *words, const char *file, const char *key)
{
    ran r = cli_run(words, file);
    assert_code(&r, 0);
    cJSON *o = cJSON_Parse(r.out);
    const cJSON *v = cJSON_GetObjectItem(o, key);
    const double value = cJSON_IsBool(v) ? cJSON_IsTrue(v) : json_number(o, key);
    cJSON_Delete(o);
    cli_done(&r);
    return value;
}

/* Where ops have one order, the optimum in the file's order is that of all. */
static void an_optimum_in_the_only_order_is_the_bound(void **state)
{
    NEED_BINARY();
    static const char words[] = "remat FILE --budget 4 --json";
    const double cost = told(words, mirror(8), "cost");
    assert_true(cost > 17);
    assert_int_equal(told(words, mirror(8), "lower_bound"), cost);
    /* beside a chain of three, an op that could run first: this order is not the only one */
    const char *two = cli_file("two.txt", "4 2\n1 1 0\n3 1 0\n1 1 0\n9 1 0\n0 1\n1 2\n");
    assert_true(told("remat FILE --budget 9 --json", two, "lower_bound") <= 4);
}

/* Without a budget it is as much as the policy takes, and so is that of the bound beside it. */
static void the_bound_is_of_the_peak_beside_it(void **state)
{
    NEED_BINARY();
    char words[128];
    const char *free = "remat FILE --policy chen_sqrt --json";
    const double peak = told(free, mirror(8), "peak"), bound = told(free, mirror(8), "lower_bound");
    assert_int_equal(told(free, mirror(8), "budget"), peak);
    snprintf(words, sizeof words, "%s --budget %.0f", free, peak);
    assert_int_equal(told(words, mirror(8), "lower_bound"), bound);
    assert_true(bound > told(free, mirror(8), "base_cost"));
    /* one that was named stays what it was, also the largest that can be */
    snprintf(words, sizeof words, "%s --budget 9007199254740991", free);
    assert_true(told(words, mirror(8), "budget") == 9007199254740991.0);
    snprintf(words, sizeof words, "%s --budget 9007199254740992", free);
    assert_true(told(words, mirror(8), "budget") == 9007199254740992.0);
}

/* Of more than 63 ops the integer program takes minutes; who wants that says for how many nodes. */
static void what_checkmate_does_not_prove_is_said(void **state)
{
    NEED_BINARY();
    const char *words = "remat FILE --budget 7 --policy checkmate --moves 50000";
    ran r = cli_run(words, mirror(32));
    assert_code(&r, 0);
    assert_has(r.out, "annealed, and not proved the least");
    cli_done(&r);
    words = "remat FILE --budget 7 --policy checkmate --moves 50000 --json";
    assert_int_equal(told(words, mirror(32), "annealed"), 1);
    assert_int_equal(told(words, mirror(8), "annealed"), 0);
    assert_int_equal(told(words, mirror(8), "proved"), 1);
    /* of branch and bound there is no relaxation: none was solved */
    r = cli_run(words, mirror(8));
    assert_code(&r, 0);
    cJSON *o = cJSON_Parse(r.out);
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(o, "relaxation")));
    cJSON_Delete(o);
    cli_done(&r);
}

static const char *twice(void)
{
    return cli_file("twice.txt", "7 5\n5 100 0\n5 1 0\n5 1 0\n5 1 0\n10 1 0\n0 1 1\n"
                                 "0 1 1\n1 2\n2 3\n1 5\n3 5\n0 6\n");
}

/* Before op 4 runs, ops 1 and 2 run twice in the cheapest sequence, and in none that the integer
 * program knows. */
static void the_optimum_of_the_program_is_not_that_of_the_order(void **state)
{
    NEED_BINARY();
    if (dt_solver_name() == NULL)
        skip();
    const char *words = "remat FILE --budget 15 --policy checkmate --json";
    assert_int_equal(told(words, twice(), "cost"), 110);
    assert_int_equal(told(words, twice(), "proved"), 1);
    assert_int_equal(told(words, twice(), "optimum"), 1);
    words = "remat FILE --budget 15 --policy checkmate --nodes 100000 --json";
    assert_int_equal(told(words, twice(), "cost"), 207);
    assert_int_equal(told(words, twice(), "proved"), 0);
    assert_int_equal(told(words, twice(), "optimum"), 1);
    ran r = cli_run("remat FILE --budget 15 --policy checkmate --nodes 100000", twice());
    assert_code(&r, 0);
    assert_has(r.out, "in which each op runs at most once before every first run");
    cli_done(&r);
}

/* An assertion that fails within the solver's library ends its search, as if it had found nothing,
 * and not the program. */
static void a_solver_that_aborts_takes_nothing_down(void **state)
{
    NEED_BINARY();
    char folder[4096];
    const char *build = getenv("DT_BINARY"), *had = getenv("LD_LIBRARY_PATH");
    snprintf(folder, sizeof folder, "%s/tests/failing_cbc", build != NULL ? build : ".");
    if (dt_solver_name() == NULL || access(folder, F_OK) != 0)
        skip();
    char *before = had != NULL ? dt_strdup(had) : NULL;
    static const char words[] = "remat FILE --budget 7 --policy checkmate --nodes 1000 --json";
    assert_int_equal(told(words, mirror(8), "optimum"), 1);
    setenv("LD_LIBRARY_PATH", folder, 1);
    ran r = cli_run(words, mirror(8));
    assert_code(&r, DT_E_BUDGET);
    assert_has(r.err, "no sequence in the graph's order");
    cli_done(&r);
    r = cli_run("plan FILE --set memory.policy=checkmate --set memory.device_budget=300KiB",
        cli_file("lenet.ini", "[model]\nname = lenet5\n[train]\nbatch = 4\n"));
    assert_true(r.code == DT_OK || r.code == DT_E_BUDGET);
    assert_has(r.out, "policy checkmate");
    cli_done(&r);
    if (before != NULL)
        setenv("LD_LIBRARY_PATH", before, 1);
    else
        unsetenv("LD_LIBRARY_PATH");
    dt_free(before);
}

static int terminal;

static void show_on_terminal(void)
{
    const int fd = open(ptsname(terminal), O_WRONLY | O_NOCTTY);
    dup2(fd, STDERR_FILENO);
}

/* Who sits at a terminal is told that a search is long; then it is ended. */
static void a_long_search_says_so_on_a_terminal(void **state)
{
    NEED_BINARY();
    char said[256] = "";
    terminal = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0)
        skip();
    cli.child = show_on_terminal;
    const pid_t child = cli_start("remat FILE --budget 7 --moves 1000000000", mirror(32));
    cli.child = NULL;
    const ssize_t n = read(terminal, said, sizeof said - 1);
    kill(child, SIGTERM);
    ran r = cli_wait(child);
    assert_true(n > 0);
    assert_has(said, "dnntrain: trying sequences of 65 ops: this may take a minute");
    cli_done(&r);
    close(terminal);
}

static double batch_of(const char *flags, const char *file)
{
    char words[512];
    snprintf(words, sizeof words, "remat FILE --max-batch --json %s", flags);
    ran r = cli_run(words, file);
    assert_code(&r, 0);
    cJSON *o = cJSON_Parse(r.out);
    const double batch = json_number(o, "batch");
    assert_true(json_number(o, "cost") <= json_number(o, "cost_limit"));
    const cJSON *bound = cJSON_GetObjectItem(o, "lower_bound");
    if (strcmp(json_text(o, "accounting"), "published") == 0) /* of other bytes than a bound's */
        assert_true(cJSON_IsNull(bound));
    else
        assert_true(json_number(o, "lower_bound") >= json_number(o, "base_cost") &&
                    json_number(o, "lower_bound") <= json_number(o, "cost"));
    cJSON_Delete(o);
    cli_done(&r);
    return batch;
}

static void a_larger_batch_fits_where_more_runs_again(void **state)
{
    NEED_BINARY();
    /* peaks: 100 as written; 80 is the least, for one forward of 75 more at most */
    assert_int_equal(
        batch_of("--device 1100 --fixed 100 --policy keep_all --accounting rules", chain()), 10);
    assert_int_equal(batch_of("--device 1100 --fixed 100", chain()), 12);
    assert_int_equal(
        batch_of(
            "--device 1100 --fixed 100 --batch 3 --policy keep_all --accounting rules", chain()),
        30);
    assert_true(batch_of("--device 1100 --fixed 100 --policy chen_budget --accounting rules",
                    chain()) >= 10);
    ran r = cli_run("remat FILE --max-batch --device 120 --fixed 100", chain());
    assert_code(&r, 4);
    assert_has(r.err, "not one sample fits");
    cli_done(&r);
}

/* Jain et al., MLSys 2020, figure 6. */
static void the_batches_of_checkmates_figure_are_found(void **state)
{
    NEED_BINARY();
    static const struct {
        const char *flags;
        int batch;
    } published[] = {{"--policy keep_all", 167}, {"--policy chen_sqrt", 197},
        {"--policy chen_budget", 266}, {"--moves 100000", 289}};
    char words[256];
    if (dt_shared("") == NULL)
        skip();
    for (size_t i = 0; i < DT_COUNT(published); i++) {
        snprintf(
            words, sizeof words, "--device 16000000000 --fixed 1149337920 %s", published[i].flags);
        assert_int_equal(
            batch_of(words, dt_shared("data/graphs/vgg19_macs.txt")), published[i].batch);
    }
    ran r = cli_run("remat FILE --max-batch --device 150 --fixed 80 --policy keep_all", chain());
    assert_code(&r, 4);
    assert_has(r.err, "counted twice as published");
    cli_done(&r);
    r = cli_run("remat FILE --max-batch --device 16000000000 --fixed 205093696 --batch 256 "
                "--policy chen_sqrt",
        dt_shared("data/graphs/resnet50.txt"));
    assert_code(&r, 4);
    assert_has(r.err, "chen_sqrt computes more than one forward again, whatever the batch: its "
                      "least cost is 725,475, and --max-batch allows 486,725");
    cli_done(&r);
    r = cli_run("remat FILE --max-batch --device 150 --accounting ruls --policy keep_all", chain());
    assert_code(&r, 2);
    assert_has(r.err, "did you mean 'rules'?");
    cli_done(&r);
    r = cli_run("remat FILE --budget 100% --accounting rules", chain());
    assert_code(&r, 2);
    cli_done(&r);
}

static void policies_run_on_graphs(void **state)
{
    NEED_BINARY();
    static const char *const names[] = {
        "keep_all", "chen_sqrt", "chen_sqrt_ap", "chen_budget", "chen_budget_ap"};
    char words[512], says[256], sequence[128];
    double cost, peak;
    snprintf(sequence, sizeof sequence, "%s", cli_file("policy.txt", "")); /* paths are lent */
    for (size_t i = 0; i < DT_COUNT(names); i++) {
        snprintf(
            words, sizeof words, "remat FILE --policy %s --json --sequence %s", names[i], sequence);
        ran r = cli_run(words, chain());
        assert_code(&r, 0);
        cJSON *o = cJSON_Parse(r.out);
        assert_true(checked(chain(), sequence, (uint64_t)json_number(o, "budget"), &cost, &peak,
            says, sizeof says));
        assert_int_equal(cost, json_number(o, "cost"));
        assert_int_equal(peak, json_number(o, "peak"));
        cJSON_Delete(o);
        cli_done(&r);
    }
    ran r = cli_run("remat FILE --budget 80% --policy checkmate", chain());
    assert_code(&r, 0);
    assert_has(r.out, "195"); /* one value of cost 10 again */
    cli_done(&r);
    /* A rule tries no changes, of which more would help. */
    r = cli_run("remat FILE --budget 90% --policy keep_all", chain());
    assert_code(&r, 4);
    assert_has(r.err, "raise --budget, or leave out --policy");
    assert_has_not(r.err, "--moves");
    cli_done(&r);
    r = cli_run("remat FILE --budget 90% --policy chen_sqr", chain());
    assert_code(&r, 2);
    assert_has(r.err, "did you mean 'chen_sqrt'?");
    cli_done(&r);
    r = cli_run("remat FILE --budget 90% --policy nothing_like_it", chain());
    assert_code(&r, 2);
    assert_has(r.err,
        "there are: auto, checkmate, rotor, revolve, keep_all, chen_sqrt, chen_sqrt_ap, "
        "chen_budget, chen_budget_ap");
    cli_done(&r);
    r = cli_run("remat FILE --max-batch --device 1100 --policy rotor", chain());
    assert_code(&r, 2);
    assert_has(r.err, "it is for auto, keep_all, chen_sqrt, chen_sqrt_ap, chen_budget");
    cli_done(&r);
}

static void chains_are_solved(void **state)
{
    NEED_BINARY();
    char words[256], file[128]; /* paths are lent */
    const char *lent = cli_file(
        "stages.txt", "5 2\n4 8 3 6 0 1\n1 2 1 3 1 0\n3 6 2 5 0 2\n2 4 1 2 1 0\n0 0 0 0 0 0\n");
    snprintf(file, sizeof file, "%s", lent);
    snprintf(words, sizeof words, "remat --chain %s --budget 12", file);
    ran r = cli_run(words, file);
    assert_code(&r, 0);
    assert_has(r.out, "cost 39");
    assert_has(r.out, "Fck1 Fn2 Fall3 Fall4 Loss B4 B3 Fck1 Fall2 B2 Fall1 B1");
    cli_done(&r);
    snprintf(words, sizeof words, "remat --chain %s --budget 14 --json", file);
    r = cli_run(words, file);
    assert_code(&r, 0);
    cJSON *o = cJSON_Parse(r.out);
    assert_int_equal(json_number(o, "cost"), 35);
    assert_int_equal(json_number(o, "lower_bound"), 35);
    assert_int_equal(json_number(o, "peak"), 13);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(o, "steps")), 11);
    cJSON_Delete(o);
    cli_done(&r);
    snprintf(words, sizeof words, "remat --chain %s --budget 11", file);
    r = cli_run(words, file);
    assert_code(&r, 4);
    assert_has(r.err, "stages.txt: no sequence fits 11 bytes: the least is 12; raise --budget");
    cli_done(&r);
    snprintf(words, sizeof words, "remat --chain %s --budget 1", file);
    r = cli_run(words, file);
    assert_code(&r, 4);
    assert_has(r.err, "stages.txt: no sequence fits 1 byte: the least is 12; raise --budget");
    cli_done(&r);
    snprintf(words, sizeof words, "remat --chain %s --budget 50%%", file);
    r = cli_run(words, file);
    assert_code(&r, 2);
    assert_has(r.err, "--budget 50%: shares are for graphs");
    cli_done(&r);
    r = cli_run("remat --revolve 16,3", file);
    assert_code(&r, 0);
    assert_has(r.out, "16 steps, 3 states kept: 33 extra forward steps");
    cli_done(&r);
    r = cli_run("remat --revolve 2,1", file);
    assert_code(&r, 0);
    assert_has(r.out, "2 steps, 1 state kept: 1 extra forward step\n");
    cli_done(&r);
    r = cli_run("remat --revolve 16,0", file);
    assert_code(&r, 2);
    cli_done(&r);
}

DT_TEST_GROUP(remat_tool)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_is_what_its_sequence_takes),
        cmocka_unit_test(a_sequence_goes_to_stdout_alone),
        cmocka_unit_test(the_checker_finds_what_is_wrong),
        cmocka_unit_test(its_values_can_be_placed),
        cmocka_unit_test(the_same_seed_gives_the_same_sequence),
        cmocka_unit_test(a_larger_batch_fits_where_more_runs_again),
        cmocka_unit_test(the_batches_of_checkmates_figure_are_found),
        cmocka_unit_test(policies_run_on_graphs),
        cmocka_unit_test(chains_are_solved),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(flags_that_do_not_go_together_are_refused),
        cmocka_unit_test(an_optimum_in_the_only_order_is_the_bound),
        cmocka_unit_test(the_bound_is_of_the_peak_beside_it),
        cmocka_unit_test(what_checkmate_does_not_prove_is_said),
        cmocka_unit_test(the_optimum_of_the_program_is_not_that_of_the_order),
        cmocka_unit_test(a_solver_that_aborts_takes_nothing_down),
        cmocka_unit_test(a_long_search_says_so_on_a_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
