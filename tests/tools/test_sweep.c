/* `dnntrain sweep` from outside: its claims are checked with `dnntrain plan`. */
#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "engine/base/alloc.h"
#include "memory/policy.h"
#include "session/human.h"
#include "tests/fixture/json_read.h"
#include "tests/fixture/run_cli.h"

enum { COLUMNS = 21, ROWS = 32 };

static const char *lenet(void)
{
    return cli_file("lenet.ini", "[model]\nname = lenet5\n[train]\nbatch = 64\nsteps = 2\n");
}

/* A file of comma-separated values without quotes, cut into cells. */
typedef struct table {
    char *text;
    int n;
    char *cell[ROWS][COLUMNS];
} table;

static table read_csv(const char *path)
{
    table t = {.text = cli_text(path)};
    for (char *line = t.text; *line != '\0'; t.n++) {
        char *end = strchr(line, '\n');
        assert_non_null(end);
        assert_true(t.n < ROWS);
        *end = '\0';
        int c = 0;
        for (char *at = line; at != NULL; c++) {
            assert_true(c < COLUMNS);
            t.cell[t.n][c] = at;
            at = strchr(at, ',');
            if (at != NULL)
                *at++ = '\0';
        }
        assert_int_equal(c, COLUMNS);
        line = end + 1;
    }
    return t;
}

/* Sweeps with a table in a file; extra words as for cli_run. */
static ran sweep(const char *words, const char *file, table *t)
{
    char line[4096];
    const char *csv = dt_temp_path("sweep.csv");
    remove(csv);
    snprintf(line, sizeof line, "sweep FILE --csv %.2000s %s", csv, words);
    ran r = cli_run(line, file);
    *t = read_csv(csv);
    return r;
}

static void done(ran *r, table *t)
{
    cli_done(r);
    dt_free(t->text);
}

/* The sweep that several tests look at, made once. */
static struct {
    ran r;
    table t;
} usual;

static int sweep_all(void **state)
{
    (void)state;
    if (cli_binary() == NULL)
        return 0;
    usual.r = sweep("--set memory.device_budget=3MiB", lenet(), &usual.t);
    assert_code(&usual.r, 0);
    return 0;
}

static int forget_all(void **state)
{
    (void)state;
    done(&usual.r, &usual.t);
    return 0;
}

/* Peak by `dnntrain plan`. */
static uint64_t planned(const char *file, const char *policy, int64_t batch, uint64_t budget)
{
    char words[512];
    snprintf(words, sizeof words,
        "plan FILE --json --set memory.policy=%s --set train.batch=%" PRId64
        " --set train.micro_batch=%" PRId64 " --set memory.device_budget=%" PRIu64,
        policy, batch, batch, budget);
    ran r = cli_run(words, file);
    cJSON *o = json_of(r.out, strlen(r.out));
    const uint64_t peak = (uint64_t)json_number(json_object(o, "device"), "peak");
    const bool fits = json_flag(o, "fits");
    assert_code(&r, fits ? 0 : DT_E_BUDGET);
    assert_true(fits == (peak <= budget));
    cJSON_Delete(o);
    cli_done(&r);
    return peak;
}

static void largest_batches_fit_and_the_next_do_not(void **state)
{
    NEED_BINARY();
    const uint64_t budget = 3 << 20;
    const table *t = &usual.t;
    for (int i = 1; i < t->n; i++) {
        const int64_t batch = strtoll(t->cell[i][2], NULL, 10);
        assert_true(batch > 1);
        if (!dt_picked((uint64_t)i, 8, 4, 1))
            continue;
        const uint64_t peak = planned(lenet(), t->cell[i][0], batch, budget);
        assert_int_equal(peak, strtoull(t->cell[i][4], NULL, 10));
        assert_true(peak <= budget);
        assert_true(planned(lenet(), t->cell[i][0], batch + 1, budget) > budget);
    }
}

static void policies_stand_in_the_order_of_their_list(void **state)
{
    NEED_BINARY();
    size_t n;
    const dt_policy *const *all = dt_policy_all(&n);
    const table *t = &usual.t;
    const ran r = usual.r;
    const char *at = r.out;
    size_t row = 0;
    for (size_t i = 0; i < n; i++) {
        if (all[i]->searches)
            continue;
        row++;
        assert_string_equal(t->cell[row][0], all[i]->name);
        assert_string_equal(t->cell[row][1], all[i]->exact ? "yes" : "no");
        at = strstr(at, all[i]->name); /* in the table too */
        assert_non_null(at);
    }
    assert_int_equal(t->n, row + 1);
}

/* All but those that are named beside "all"; nothing where nobody has asked for all. */
static void what_is_left_out_is_told(void **state)
{
    NEED_BINARY();
    size_t n;
    const dt_policy *const *all = dt_policy_all(&n);
    const char *at = strstr(usual.r.out, "left out, as they search or write to a disk: ");
    assert_non_null(at);
    assert_has(at, "with --policies");
    for (size_t i = 0; i < n; i++)
        if (all[i]->searches)
            assert_has(at, all[i]->name);
        else
            assert_has_not(at, all[i]->name);
    ran r = cli_run("sweep FILE --set memory.device_budget=3MiB --policies all;revolve", lenet());
    assert_code(&r, 0);
    at = strstr(r.out, "left out, as they search or write to a disk: ");
    assert_non_null(at);
    assert_has(at, "checkmate");
    assert_has_not(at, "revolve");
    cli_done(&r);
    r = cli_run("sweep FILE --set memory.device_budget=3MiB --policies chen_sqrt", lenet());
    assert_has_not(r.out, "left out, as they search or write to a disk");
    cli_done(&r);
}

static void a_table_holds_the_numbers_and_what_they_mean(void **state)
{
    NEED_BINARY();
    const table *t = &usual.t;
    const ran r = usual.r;
    static const char *const names[COLUMNS] = {"policy", "exact", "largest_batch", "capped",
        "device_peak", "device_budget", "ratio_to_keep_all", "host_peak", "disk_peak", "moved_out",
        "moved_in", "recompute_share", "verified", "device_peak_measured", "fits_this_machine",
        "step_seconds", "images_per_second", "expected_out", "expected_in", "refused", "costs"};
    for (int c = 0; c < COLUMNS; c++)
        assert_string_equal(t->cell[0][c], names[c]);
    assert_string_equal(t->cell[1][0], "keep_all");
    assert_string_equal(t->cell[1][5], "3145728");
    assert_string_equal(t->cell[1][6], "1.000000");
    assert_string_equal(t->cell[1][9], "0");
    assert_string_equal(t->cell[1][12], "");
    assert_string_equal(t->cell[1][20], "defaults");
    assert_has(r.out, "lenet5   image 28x28x1");
    assert_has(r.out, "  batch        peak        host        disk   moved out  again\n");
    assert_has(r.out, "###");
    assert_has_not(r.out, "batch 0");
}

/* Bytes of a policy's row. */
static uint64_t bytes_of(const table *t, const char *policy, int column)
{
    for (int i = 1; i < t->n; i++)
        if (strcmp(t->cell[i][0], policy) == 0)
            return strtoull(t->cell[i][column], NULL, 10);
    fail_msg("no row of %s", policy);
    return 0;
}

static void budgets_of_all_tiers_hold(void **state)
{
    NEED_BINARY();
    const uint64_t most = 256 << 10;
    table t, u;
    assert_true(bytes_of(&usual.t, "vdnn_all", 7) > most);
    ran r = sweep("--set memory.device_budget=3MiB --set memory.host_budget=256KiB", lenet(), &t);
    assert_code(&r, 0);
    assert_has(r.out, "and a host budget of 256.00 KiB (262,144 bytes)");
    for (int i = 1; i < t.n; i++)
        assert_true(
            strtoll(t.cell[i][2], NULL, 10) == 0 || strtoull(t.cell[i][7], NULL, 10) <= most);
    cli_done(&r);
    r = sweep("--set memory.device_budget=3MiB --set memory.tier=disk "
              "--set memory.disk_budget=256KiB",
        lenet(), &u);
    assert_has(r.out, " disk ");
    assert_int_equal(bytes_of(&u, "vdnn_all", 7), 0);
    assert_true(bytes_of(&u, "vdnn_all", 8) > 0 && bytes_of(&u, "vdnn_all", 8) <= most);
    dt_free(t.text);
    done(&r, &u);
}

static void policies_that_change_results_are_marked(void **state)
{
    NEED_BINARY();
    const char *row = strstr(usual.r.out, "\ngist  ");
    assert_non_null(row);
    assert_true(strcspn(row + 1, "~") < strcspn(row + 1, "\n"));
    assert_has(usual.r.out,
        "~: results change: values are packed with fewer bits, or updates are delayed");
}

/* Fates by layer hold for every policy: what is computed again shows. */
static void shares_of_what_is_done_again_are_told(void **state)
{
    NEED_BINARY();
    table t;
    ran r = sweep("--set memory.device_budget=3MiB --set memory.layers.*=recompute "
                  "--policies keep_all;network_wide",
        lenet(), &t);
    assert_code(&r, 0);
    const double share = strtod(t.cell[1][11], NULL);
    assert_true(share > 0.05 && share < 1);
    done(&r, &t);
}

static void a_combination_has_a_line_of_its_own(void **state)
{
    NEED_BINARY();
    ran r = cli_run("sweep FILE --set memory.device_budget=3MiB "
                    "--set memory.policy=keep_all,network_wide",
        lenet());
    assert_code(&r, 0);
    assert_has(r.out, "\nkeep_all,network_wide ");
    cli_done(&r);
}

static void only_what_is_named_is_swept(void **state)
{
    NEED_BINARY();
    static const char *const cases[][5] = {
        {"chen_sqrt", "keep_all", "chen_sqrt"},
        {"vdnn_dyn", "keep_all", "vdnn_dyn"},
        {"chen_cheap,vdnn_conv", "keep_all", "chen_cheap", "vdnn_conv", "\"chen_cheap"},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        char words[512];
        const char *csv = dt_temp_path("named.csv");
        snprintf(words, sizeof words,
            "sweep FILE --csv %.200s --set memory.device_budget=3MiB --set memory.policy=%s", csv,
            cases[i][0]);
        ran r = cli_run(words, lenet());
        assert_code(&r, 0);
        cli_done(&r);
        char *text = cli_text(csv), *at = strchr(text, '\n');
        for (size_t k = 1; k < 5 && cases[i][k] != NULL; k++) {
            const size_t n = strlen(cases[i][k]);
            assert_non_null(at);
            if (strncmp(at + 1, cases[i][k], n) != 0 || at[1 + n] != ',')
                fail_msg("%s: line %zu is not of %s in:\n%s", cases[i][0], k, cases[i][k], text);
            at = strchr(at + 1, '\n');
        }
        assert_true(at != NULL && at[1] == '\0');
        dt_free(text);
    }
}

/* Lists have a row each behind those of their policies, and none stands twice. */
static void lists_are_swept_by_name(void **state)
{
    NEED_BINARY();
    static const struct {
        const char *lists, *rows[8];
    } cases[] = {
        {"chen_sqrt", {"keep_all", "chen_sqrt"}},
        {"chen_cheap,vdnn_conv;vdnn_conv;gist_lossless,vdnn_conv",
            {"keep_all", "chen_cheap", "vdnn_conv", "chen_cheap,vdnn_conv", "gist_lossless",
                "gist_lossless,vdnn_conv"}},
        {"keep_all;keep_all", {"keep_all"}},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        char words[512];
        const cJSON *o;
        size_t n = 0;
        snprintf(words, sizeof words,
            "sweep FILE --json --set memory.device_budget=3MiB --set memory.policy=gist "
            "--policies %s",
            cases[i].lists);
        ran r = cli_run(words, lenet());
        assert_code(&r, 0);
        cJSON *all = json_of(r.out, strlen(r.out));
        cJSON_ArrayForEach(o, all)
        {
            assert_non_null(cases[i].rows[n]);
            assert_string_equal(json_text(o, "policy"), cases[i].rows[n++]);
        }
        assert_null(cases[i].rows[n]);
        cJSON_Delete(all);
        cli_done(&r);
    }
    static const char *const wrong[][2] = {
        {"chen_sqr", "did you mean 'chen_sqrt'"},
        {"chen_sqrt;", "nothing stands between two semicolons"},
        {"chen_sqrt;;vdnn_all", "nothing stands between two semicolons"},
        {"vdnn_dyn,vdnn_dyn", "cannot stand beside"},
    };
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        char words[256];
        snprintf(words, sizeof words, "sweep FILE --set memory.device_budget=3MiB --policies %s",
            wrong[i][0]);
        ran r = cli_run(words, lenet());
        assert_code(&r, DT_E_CONFIG);
        assert_has(r.err, "--policies");
        assert_has(r.err, wrong[i][1]);
        assert_string_equal(r.out, "");
        cli_done(&r);
    }
}

/* In the table and for programs: what has keep_all's batch, and only that. */
static void what_saves_nothing_is_told(void **state)
{
    NEED_BINARY();
    ran r = cli_run("sweep FILE --json --set memory.device_budget=3MiB", lenet());
    assert_code(&r, 0);
    cJSON *all = json_of(r.out, strlen(r.out));
    const double kept = json_number(cJSON_GetArrayItem(all, 0), "largest_batch");
    const cJSON *o;
    int vain = 0, n = 0;
    cJSON_ArrayForEach(o, all)
    {
        char line[256];
        const bool keeps = strcmp(json_text(o, "policy"), "keep_all") == 0;
        const bool none = !keeps && json_number(o, "largest_batch") <= kept;
        const cJSON *told = cJSON_GetObjectItemCaseSensitive(o, "in_vain");
        snprintf(line, sizeof line, "\n%s saves nothing here: ", json_text(o, "policy"));
        (none ? assert_has : assert_has_not)(usual.r.out, line);
        assert_true(none == (told != NULL));
        vain += none;
        n++;
    }
    assert_true(vain > 0 && vain < n - 1);
    cJSON_Delete(all);
    cli_done(&r);
}

/* Moving all that waits makes room on the device for what no host can hold. */
static void what_this_machine_cannot_hold_is_marked(void **state)
{
    NEED_BINARY();
    table t;
    assert_has_not(usual.r.out, "!");
    for (int i = 1; i < usual.t.n; i++)
        assert_string_equal(usual.t.cell[i][14], "yes");
    ran r = sweep("--set memory.device_budget=100GiB --set memory.policy=vdnn_all",
        cli_file("large.ini", "[model]\nname = vgg11\n"), &t);
    assert_has(r.out, "! ");
    assert_has(r.out, "\n!: a run takes more memory than this machine has, ");
    assert_string_equal(t.cell[2][14], "no");
    assert_string_equal(t.cell[2][14], "no");
    done(&r, &t);
}

/* The library counts pixels of a batch in 32 bits. */
static void what_cannot_be_counted_does_not_fit(void **state)
{
    NEED_BINARY();
    table t;
    ran r = sweep("--set memory.device_budget=1000TiB --set memory.policy=keep_all",
        cli_file("wide.ini", "[model]\nimage = 256\nclasses = 2\n[conv c]\nout = 1\nkernel = 3\n"
                             "[global_avgpool g]\n[fc f]\nout = 2\n[device]\nthreads = 1\n"),
        &t);
    assert_code(&r, 0);
    assert_string_equal(t.cell[1][0], "keep_all");
    assert_string_equal(t.cell[1][2], "32767");
    done(&r, &t);
}

static void only_a_policy_that_is_named_must_be_planned(void **state)
{
    NEED_BINARY();
    char words[2048];
    const char *page = dt_temp_path("refused.html");
    snprintf(words, sizeof words,
        "sweep FILE --set memory.device_budget=3MiB --set train.precision=bf16 --html %.1000s",
        page);
    ran r = cli_run(words, lenet());
    assert_code(&r, 0);
    assert_has(r.out, "\nactnn is refused by a run: actnn packs values of 32 bits, but");
    cli_done(&r);
    char *text = cli_text(page);
    assert_has(text, ">actnn is refused by a run: actnn packs values of 32 bits, but");
    dt_free(text);
    r = cli_run("sweep FILE --set memory.device_budget=3MiB --set train.precision=bf16 "
                "--policies actnn",
        lenet());
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "actnn packs values of 32 bits");
    cli_done(&r);
}

static void a_missing_budget_is_an_error_that_shows_how_to_give_one(void **state)
{
    NEED_BINARY();
    ran r = cli_run("sweep FILE", lenet());
    assert_code(&r, DT_E_CONFIG);
    assert_string_equal(r.out, "");
    assert_has(r.err, "device_budget is missing");
    assert_has(r.err, "--set memory.device_budget=2GiB");
    cli_done(&r);
    r = cli_run("sweep", NULL);
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "name a CONFIG");
    cli_done(&r);
}

/* Known before anything is planned, which may take minutes: also where no budget is given, which is
 * asked for later. */
static void files_that_cannot_be_written_are_refused_first(void **state)
{
    NEED_BINARY();
    static const char *const flags[] = {
        "--csv /nowhere/at/all/a.csv", "--html /nowhere/at/all/a.html"};
    static const char *const budgets[] = {"", "--set memory.device_budget=3MiB"};
    for (size_t i = 0; i < 2 * DT_COUNT(flags); i++) {
        char words[256];
        snprintf(words, sizeof words, "sweep FILE %s %s", flags[i / 2], budgets[i % 2]);
        ran r = cli_run(words, lenet());
        assert_code(&r, DT_E_IO);
        assert_has(r.err, strchr(flags[i / 2], '/'));
        assert_has(r.err, "No such file or directory; name a file in a folder that is there");
        assert_string_equal(r.out, "");
        cli_done(&r);
    }
}

static void a_budget_too_small_for_anything_is_refused(void **state)
{
    NEED_BINARY();
    table t;
    char words[512];
    snprintf(words, sizeof words, "--verify --set memory.device_budget=300KiB --html %.300s",
        dt_temp_path("none.html"));
    ran r = sweep(words, lenet(), &t);
    assert_code(&r, DT_E_BUDGET);
    assert_has(r.err, "memory.device_budget is 300.00 KiB (--set");
    assert_has(r.err, " needs the least, ");
    assert_has(r.out, "batch 0: not even one sample trains");
    char *page = cli_text(dt_temp_path("none.html"));
    assert_has(page, "batch 0: not even one sample trains");
    dt_free(page);
    for (int i = 1; i < t.n; i++) {
        assert_string_equal(t.cell[i][2], "0");
        assert_string_equal(t.cell[i][6], ""); /* no ratio to nothing */
        assert_string_equal(t.cell[i][12], "");
        assert_true(strtoull(t.cell[i][4], NULL, 10) > 300 * 1024);
    }
    done(&r, &t);
}

static void one_sample_that_cannot_be_normalised_is_none(void **state)
{
    NEED_BINARY();
    static const char flat[] = "[model]\nimage = 4\n[train]\nbatch = 2\n"
                               "[conv c]\nout = 64\nkernel = 4\n[batchnorm b]\n"
                               "[relu r]\n[fc out]\nout = 4\n";
    const uint64_t two = planned(cli_file("flat.ini", flat), "keep_all", 2, UINT64_C(1) << 30);
    char words[96];
    table t;
    snprintf(words, sizeof words, "--set memory.device_budget=%" PRIu64, two - 1);
    ran r = sweep(words, cli_file("flat.ini", flat), &t);
    assert_string_equal(t.cell[1][2], "0");
    assert_true(strtoull(t.cell[1][4], NULL, 10) < two); /* its bytes would fit */
    done(&r, &t);
}

/* Entries of a folder beside . and .. */
static int entries(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n - 2;
}

/* Lines that went on in the next one, with four blanks before them, are one again. */
static void join_lines(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; from++) {
        const bool goes_on = strncmp(from, "\n    ", 5) == 0;
        *to++ = goes_on ? ' ' : *from;
        from += goes_on ? 4 : 0;
    }
    *to = '\0';
}

static void verified_batches_train_and_the_next_are_refused(void **state)
{
    NEED_BINARY();
    static const char *const of_commits[] = {
        "keep_all;vdnn_all;gist", "keep_all;chen_sqrt;capuchin"};
    char words[256];
    table t;
    const char *tmp = dt_temp_path("tmp");
    snprintf(words, sizeof words, "--verify --set memory.device_budget=2MiB --policies %s",
        dt_whole_scale() ? "keep_all;vdnn_all;chen_sqrt;gist;capuchin"
                         : of_commits[dt_test_seed() % DT_COUNT(of_commits)]);
    assert_int_equal(mkdir(tmp, 0700), 0);
    const char *before = getenv("TMPDIR");
    char *kept = before != NULL ? dt_strdup(before) : NULL;
    setenv("TMPDIR", tmp, 1);
    ran r = sweep(words, lenet(), &t);
    if (kept != NULL)
        setenv("TMPDIR", kept, 1);
    else
        unsetenv("TMPDIR");
    dt_free(kept);
    assert_code(&r, 0);
    join_lines(r.out);
    for (int i = 1; i < t.n; i++) {
        char want[256], count[DT_HUMAN_BYTES];
        const int64_t batch = strtoll(t.cell[i][2], NULL, 10);
        snprintf(want, sizeof want,
            "  %s: batch %" PRId64 " trains, planned = measured = %s bytes; %" PRId64
            " is refused\n",
            t.cell[i][0], batch, dt_human_count(count, strtoull(t.cell[i][4], NULL, 10)),
            batch + 1);
        assert_has(r.out, want);
        assert_string_equal(t.cell[i][12], "yes");
        assert_string_equal(t.cell[i][13], t.cell[i][4]);
    }
    assert_int_equal(entries(tmp), 0); /* nothing is left */
    done(&r, &t);
}

/* They take no pictures, and the file that the configuration names need not be there. */
static void batches_of_sequences_are_verified(void **state)
{
    NEED_BINARY();
    static const char words[] = "[model]\nname = gpt2\nlayers = 1\nheads = 2\nwidth = 16\n"
                                "context = 8\nvocab = 11\n[data]\nsource = text\n"
                                "path = nowhere.txt\n[train]\nbatch = 2\nsteps = 2\n";
    table t;
    ran r = sweep("--verify --set memory.device_budget=300KiB --policies keep_all;chen_sqrt",
        cli_file("words.ini", words), &t);
    assert_code(&r, 0);
    assert_int_equal(t.n, 3);
    for (int i = 1; i < t.n; i++) {
        assert_string_equal(t.cell[i][12], "yes");
        assert_string_equal(t.cell[i][13], t.cell[i][4]);
    }
    done(&r, &t);
}

/* That a machine is too small for a batch tells nothing of its plan. */
static void what_this_machine_cannot_hold_is_not_verified(void **state)
{
    NEED_BINARY();
    table t;
    ran r = sweep("--verify --set memory.device_budget=1000GiB --policies keep_all",
        cli_file("large.ini", "[model]\nname = vgg11\n"), &t);
    assert_code(&r, 0);
    join_lines(r.out);
    assert_has(r.out, " takes more memory than this machine has: not tried\n");
    assert_has_not(r.out, "does NOT hold");
    assert_string_equal(t.cell[1][12], "");
    assert_string_equal(t.cell[1][13], "");
    done(&r, &t);
}

/* While one of its runs trains, the sweep is told to end. */
static void a_signal_leaves_nothing_behind(int number)
{
    const char *tmp = dt_temp_path("stop"), *before = getenv("TMPDIR");
    char *kept = before != NULL ? dt_strdup(before) : NULL;
    (void)mkdir(tmp, 0700);
    setenv("TMPDIR", tmp, 1);
    const pid_t child = cli_start("sweep FILE --verify --set memory.device_budget=100MiB "
                                  "--policies keep_all;chen_sqrt",
        lenet());
    for (int i = 0; i < 2000 && entries(tmp) == 0; i++)
        (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    assert_int_equal(entries(tmp), 1);
    (void)nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    assert_int_equal(kill(child, number), 0);
    ran r = cli_wait(child);
    if (kept != NULL)
        setenv("TMPDIR", kept, 1);
    else
        unsetenv("TMPDIR");
    dt_free(kept);
    assert_code(&r, DT_E_STOPPED);
    assert_has(r.err, "stopped by a signal");
    assert_has_not(r.out, "NOT hold");
    assert_int_equal(entries(tmp), 0);
    cli_done(&r);
}

static void an_interrupt_leaves_nothing_behind(void **state)
{
    NEED_BINARY();
    a_signal_leaves_nothing_behind(SIGINT);
}

static void termination_leaves_nothing_behind(void **state)
{
    NEED_BINARY();
    a_signal_leaves_nothing_behind(SIGTERM);
}

static void a_folder_that_cannot_be_written_to_fails_the_check(void **state)
{
    NEED_BINARY();
    const char *before = getenv("TMPDIR");
    char *kept = before != NULL ? dt_strdup(before) : NULL;
    setenv("TMPDIR", "/nowhere/at/all", 1);
    table t;
    ran r =
        sweep("--verify --set memory.device_budget=2MiB --policies keep_all;vdnn_all", lenet(), &t);
    if (kept != NULL)
        setenv("TMPDIR", kept, 1);
    else
        unsetenv("TMPDIR");
    dt_free(kept);
    assert_code(&r, DT_E_IO);
    assert_has(r.err, "set TMPDIR to a folder to write in");
    assert_has(r.out, "does NOT hold");
    assert_string_equal(t.cell[1][12], "no");
    done(&r, &t);
}

/* The rate at the largest batch is what `dnntrain plan` says of it. */
static void rates_are_those_of_plan(void **state)
{
    NEED_BINARY();
    const cJSON *o;
    int n = 0;
    ran r = cli_run("sweep FILE --json --set memory.device_budget=3MiB --set memory.simulate=p100 "
                    "--policies keep_all;vdnn_all;chen_sqrt;gist",
        lenet());
    assert_code(&r, 0);
    cJSON *all = json_of(r.out, strlen(r.out));
    cli_done(&r);
    cJSON_ArrayForEach(o, all)
    {
        char words[512];
        n++;
        snprintf(words, sizeof words,
            "plan FILE --json --set memory.device_budget=3MiB --set memory.simulate=p100 "
            "--set memory.policy=%s --set train.batch=%.0f",
            json_text(o, "policy"), json_number(o, "largest_batch"));
        r = cli_run(words, lenet());
        cJSON *plan = json_of(r.out, strlen(r.out));
        const double want = json_number(json_object(plan, "predicted"), "samples_per_second");
        const double got = json_number(o, "images_per_second");
        assert_true(got > want * (1 - 1e-6) && got < want * (1 + 1e-6));
        assert_string_equal(json_text(o, "costs"), "simulated");
        cJSON_Delete(plan);
        cli_done(&r);
    }
    cJSON_Delete(all);
    assert_int_equal(n, 4);
    r = cli_run("sweep FILE --set memory.device_budget=3MiB --set memory.simulate=p100 --set "
                "memory.calibrate=9000 --policies keep_all",
        lenet());
    assert_has(r.out, "simulated, Tesla P100 16GB, calibrated at batch 64\n");
    cli_done(&r);
    assert_has_not(usual.r.out, "samples/s");
    r = cli_run("sweep FILE --json --verify --set memory.device_budget=3MiB", lenet());
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "leave out --json");
    cli_done(&r);
    r = cli_run("sweep FILE --csv - --verify --set memory.device_budget=3MiB", lenet());
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "leave out --json, and name files for --csv and --html");
    assert_string_equal(r.out, "");
    cli_done(&r);
}

/* Where neither a list nor its parts train a sample, none is worse than another. */
static void what_trains_nothing_is_not_held_against_its_parts(void **state)
{
    NEED_BINARY();
    ran r = cli_run("sweep FILE --set memory.device_budget=64KiB "
                    "--policies vdnn_all,chen_sqrt;zero_infinity,vdnn_all",
        lenet());
    assert_code(&r, DT_E_BUDGET);
    assert_has(r.out, "batch 0: not even one sample trains");
    assert_has_not(r.out, "worse here");
    assert_has_not(r.out, "no better here");
    cli_done(&r);
}

DT_TEST_GROUP(sweep)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(largest_batches_fit_and_the_next_do_not),
        cmocka_unit_test(policies_stand_in_the_order_of_their_list),
        cmocka_unit_test(what_is_left_out_is_told),
        cmocka_unit_test(a_table_holds_the_numbers_and_what_they_mean),
        cmocka_unit_test(budgets_of_all_tiers_hold),
        cmocka_unit_test(policies_that_change_results_are_marked),
        cmocka_unit_test(shares_of_what_is_done_again_are_told),
        cmocka_unit_test(a_combination_has_a_line_of_its_own),
        cmocka_unit_test(only_what_is_named_is_swept),
        cmocka_unit_test(lists_are_swept_by_name),
        cmocka_unit_test(what_saves_nothing_is_told),
        cmocka_unit_test(what_this_machine_cannot_hold_is_marked),
        cmocka_unit_test(what_cannot_be_counted_does_not_fit),
        cmocka_unit_test(only_a_policy_that_is_named_must_be_planned),
        cmocka_unit_test(a_missing_budget_is_an_error_that_shows_how_to_give_one),
        cmocka_unit_test(files_that_cannot_be_written_are_refused_first),
        cmocka_unit_test(a_budget_too_small_for_anything_is_refused),
        cmocka_unit_test(one_sample_that_cannot_be_normalised_is_none),
        cmocka_unit_test(verified_batches_train_and_the_next_are_refused),
        cmocka_unit_test(batches_of_sequences_are_verified),
        cmocka_unit_test(what_this_machine_cannot_hold_is_not_verified),
        cmocka_unit_test(an_interrupt_leaves_nothing_behind),
        cmocka_unit_test(termination_leaves_nothing_behind),
        cmocka_unit_test(a_folder_that_cannot_be_written_to_fails_the_check),
        cmocka_unit_test(rates_are_those_of_plan),
        cmocka_unit_test(what_trains_nothing_is_not_held_against_its_parts),
    };
    return cmocka_run_group_tests(tests, sweep_all, forget_all);
}
