/* tools/table.py: rows of a CSV file become tensors that a network learns from. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "engine/base/alloc.h"
#include "tests/fixture/run_cli.h"

static bool has_python(void)
{
    return system("python3 -c '' 2>/dev/null") == 0;
}

#define NEED_PYTHON()                                                                              \
    do {                                                                                           \
        NEED_BINARY();                                                                             \
        if (!has_python())                                                                         \
            skip();                                                                                \
    } while (0)

/* Of such a file, beside which its tensors come to lie as rows-train and rows-val. */
static ran table(const char *csv, const char *words)
{
    char script[4096], out[1024], err[1024], file[1024], to[1024], line[16384];
    snprintf(script, sizeof script, "%s", dt_source_path("tools/table.py"));
    snprintf(out, sizeof out, "%s", dt_temp_path("table.out"));
    snprintf(err, sizeof err, "%s", dt_temp_path("table.err"));
    snprintf(to, sizeof to, "%s", dt_temp_path("rows"));
    snprintf(file, sizeof file, "%s", cli_file("rows.csv", csv));
    snprintf(line, sizeof line, "python3 '%s' '%s' '%s' %s >'%s' 2>'%s'", script, file, to, words,
        out, err);
    const int status = system(line);
    assert_true(WIFEXITED(status));
    return (ran){WEXITSTATUS(status), cli_text(out), cli_text(err)};
}

/* What it prints is a configuration but for the network. */
static ran train(const char *printed, const char *rest)
{
    char ini[8192];
    snprintf(ini, sizeof ini, "%s%s[device]\nthreads = 1\n[run]\ndir = %s\noverwrite = on\n",
        printed, rest, dt_temp_path("table_run"));
    return cli_run("FILE", cli_file("table.ini", ini));
}

/* The class is the sign of a number; what else there is says nothing of it. Of 40 rows 30 are
 * trained on, four a step and two in the last. */
static void a_file_of_rows_is_learned(void **state)
{
    NEED_PYTHON();
    char csv[8192] = "\xEF\xBB\xBFname,\"width, m\",size\r\n";
    for (int i = 0; i < 40; i++) {
        char row[64];
        snprintf(row, sizeof row, "\"%s\"\"x\",%s%d,%s\r\n", i % 3 == 0 ? "a," : "b",
            i % 2 == 0 ? "-" : "", 10 + i, i % 2 == 0 ? "small" : "gro\xC3\x9F");
        strcat(csv, row);
    }
    ran r = table(csv, "--label size --batch 4 --held 0.25");
    assert_code(&r, 0);
    assert_string_equal(r.err, "");
    assert_has(r.out, "; 3 columns: name = a,\"x, name = b\"x, width, m\n");
    assert_has(r.out, "; 2 classes of 'size': 0 gro\xC3\x9F, 1 small\n");
    ran t = train(r.out, "steps = 60\neval_every = 0\n[fc f]\nout = 2\n");
    assert_code(&t, 0);
    assert_has(t.err, "image 1x1x3, 2 classes");
    assert_has(t.err, "tensors: 30 samples");
    assert_has(t.err, "(10 samples, ");
    assert_has(t.out, "top-1 100.00 %");
    cli_done(&t);
    cli_done(&r);
}

static void numbers_are_learned_by_their_ranges(void **state)
{
    NEED_PYTHON();
    char csv[8192] = "a;b;y\n";
    for (int i = 0; i < 30; i++) {
        char row[64];
        snprintf(row, sizeof row, "%d;;%d.5\n", i, i);
        strcat(csv, row);
    }
    ran r = table(csv, "--label y --ranges 3 --batch 10 --held 0");
    assert_code(&r, DT_E_DATA); /* b has nothing */
    assert_has(r.err, "column 'b' has no value at all");
    cli_done(&r);
    strcpy(csv, "a;y\n");
    for (int i = 0; i < 30; i++) {
        char row[64];
        snprintf(row, sizeof row, "%d;%d.5\n", i, i);
        strcat(csv, row);
    }
    r = table(csv, "--label y --ranges 3 --batch 10 --held 0");
    assert_code(&r, 0);
    assert_has(r.out, "; 3 classes of 'y': 0 below 10.5, 1 10.5 to 20.5, 2 20.5 and above\n");
    assert_has_not(r.out, "eval_path");
    ran t = train(r.out, "epochs = 3\n[fc f]\nout = 3\n");
    assert_code(&t, 0);
    cli_done(&t);
    cli_done(&r);
}

/* y is three times a. */
static void numbers_are_learned_as_they_are(void **state)
{
    NEED_PYTHON();
    char csv[8192] = "a,y\n";
    for (int i = 0; i < 30; i++) {
        char row[64];
        snprintf(row, sizeof row, "%d,%d\n", i, 3 * i + 100);
        strcat(csv, row);
    }
    ran r = table(csv, "--label y --number --batch 4 --held 0.2");
    assert_code(&r, 0);
    assert_has(r.out, "; 'y' is learned as (y - ");
    assert_has_not(r.out, "classes");
    ran t = train(r.out, "epochs = 20\nlr = 0.1\neval_every = 0\n[fc f]\nout = 1\n[mse loss]\n");
    assert_code(&t, 0);
    assert_has(t.err, "image 1x1x1, gives 1 value\n");
    assert_has(t.err, "(6 samples, ");
    const char *loss = strstr(t.out, "eval      loss ");
    assert_non_null(loss);
    assert_true(strtod(loss + strlen("eval      loss "), NULL) < 1e-3);
    cli_done(&t);
    cli_done(&r);
}

static void what_is_no_table_is_refused(void **state)
{
    NEED_PYTHON();
    static const struct {
        const char *csv, *words, *told;
    } all[] = {
        {"", "--label y", "no rows below the names"},
        {"a,y\n", "--label y", "no rows below the names"},
        {"a,y\n1,b\n1,b,c\n", "--label y", "rows.csv:3: 3 values, and 2 columns have a name"},
        {"a,y\n1,b\n", "--label z", "no column is called 'z'; there are: a, y"},
        {"a,a\n1,b\n", "--label a", "two columns are called 'a'"},
        {"a,y\n1,b\n2,NA\n", "--label y --batch 1 --held 0", "row 2 below the names has no 'y'"},
        {"a,y\n1,b\n2,b\nx,b\n", "--label y --batch 1 --held 0",
            "column 'a' has numbers, but 'x' in row 3 below the names"},
        {"a,y\n1,b\n", "--label y --held 0.9", "no row is left to train on"},
        {"a,y\n1,b\n", "--label y --ranges 2 --batch 1 --held 0", "--ranges wants numbers"},
        {"a,y\n1,b\n", "--label y --number --batch 1 --held 0", "--number wants numbers"},
        {"a,y\n1,2\n2,\n", "--label y --number --batch 1 --held 0", "row 2 below the names has no"},
        {"y\nb\n", "--label y --batch 1 --held 0", "no column beside 'y'"},
        {"a,y\n1,b\ncaf\xE9,b\n", "--label y --batch 1 --held 0",
            "rows.csv:3: column 4: 0xe9 is not UTF-8"},
    };
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        ran r = table(all[i].csv, all[i].words);
        assert_code(&r, DT_E_DATA);
        assert_has(r.err, "table.py: ");
        assert_has(r.err, all[i].told);
        cli_done(&r);
    }
}

/* A quote that is not closed makes one value of all that follows. */
static void a_value_without_end_is_told_with_its_place(void **state)
{
    NEED_PYTHON();
    enum { BYTES = 140000 };
    char *csv = dt_alloc(BYTES + 64, 1);
    assert_non_null(csv);
    const int n = sprintf(csv, "a,y\n1,b\n\"");
    memset(csv + n, 'x', BYTES);
    strcpy(csv + n + BYTES, ",b\n");
    ran r = table(csv, "--label y --batch 1 --held 0");
    assert_code(&r, DT_E_DATA);
    assert_has(r.err, "rows.csv:3: field larger than field limit");
    cli_done(&r);
    dt_free(csv);
}

/* Of any names of columns the configuration can be read: many, long ones, and others that a
 * configuration may not hold. */
static void what_it_prints_can_be_read(void **state)
{
    NEED_PYTHON();
    enum { BYTES = 60000, LONGEST = 50000 };
    static const struct {
        int columns, letters;
        const char *behind;
    } all[] = {{300, 30, ""}, {1, LONGEST, ""}, {3, 9000, ""}, {1, 1, "\x01\x1B"}};
    char *csv = dt_alloc(BYTES, 1);
    assert_non_null(csv);
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        int n = 0;
        for (int c = 0; c < all[i].columns; c++)
            n += sprintf(csv + n, "%0*d%s,", all[i].letters, c, all[i].behind);
        n += sprintf(csv + n, "y\n");
        for (int row = 0; row < 4; row++) {
            for (int c = 0; c < all[i].columns; c++)
                n += sprintf(csv + n, "%d,", row);
            n += sprintf(csv + n, "%c\n", "ab"[row % 2]);
        }
        ran r = table(csv, "--label y --batch 1 --held 0");
        assert_code(&r, 0);
        static const char rest[] = "steps = 1\n[fc f]\nout = 2\n";
        char *ini = dt_alloc(strlen(r.out) + sizeof rest, 1);
        assert_non_null(ini);
        sprintf(ini, "%s%s", r.out, rest);
        ran p = cli_run("plan FILE --set device.kind=cpu", cli_file("table.ini", ini));
        assert_code(&p, 0);
        cli_done(&p);
        dt_free(ini);
        cli_done(&r);
    }
    dt_free(csv);
}

DT_TEST_GROUP(table_tool)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_of_rows_is_learned),
        cmocka_unit_test(numbers_are_learned_by_their_ranges),
        cmocka_unit_test(numbers_are_learned_as_they_are),
        cmocka_unit_test(what_is_no_table_is_refused),
        cmocka_unit_test(a_value_without_end_is_told_with_its_place),
        cmocka_unit_test(what_it_prints_can_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
