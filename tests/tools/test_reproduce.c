/* Published numbers beside ours: what a row says holds together, and the program's exit goes by it.
 */
#include <math.h>
#include <string.h>

#include "memory/accounts/superneurons.h"
#include "session/session.h"
#include "tests/fixture/json_read.h"
#include "tests/fixture/run_cli.h"

static double tolerance_of(const char *kind)
{
    return strcmp(kind, "stated") == 0 ? 0.01 : strcmp(kind, "figure") == 0 ? 0.10 : 0.15;
}

/* Every member is there, and `ok` follows from the others. Returns whether it is. */
static bool check_row(const cJSON *row, const char *paper)
{
    const double published = json_number(row, "published"), ours = json_number(row, "ours");
    const double ratio = json_number(row, "ratio"), tolerance = json_number(row, "tolerance");
    const bool within = fabs(ratio - 1) <= tolerance, better = json_flag(row, "better");
    assert_string_equal(json_text(row, "paper"), paper);
    assert_true(strlen(json_text(row, "row")) > 10);
    assert_true(fabs(tolerance - tolerance_of(json_text(row, "kind"))) < 1e-9);
    assert_true(isfinite(ours) && published > 0);
    assert_true(fabs(ratio - ours / published) < 1e-4 * ratio);
    assert_true(json_flag(row, "ok") == (within || better));
    assert_false(within && better);
    if (!json_flag(row, "ok"))
        assert_true(strlen(json_text(row, "note")) > 0);
    return json_flag(row, "ok");
}

/* How many rows a paper has; each is checked, and the exit goes by them. */
static int check_paper(const char *paper, cJSON **rows)
{
    char words[64];
    bool ok = true;
    snprintf(words, sizeof words, "reproduce %s --json", paper);
    ran r = cli_run(words, NULL);
    *rows = json_of(r.out, strlen(r.out));
    const cJSON *row;
    cJSON_ArrayForEach(row, *rows) ok = check_row(row, paper) && ok;
    assert_code(&r, ok ? 0 : 1);
    if (!ok)
        assert_has(r.err, "off by more than allowed");
    cli_done(&r);
    return cJSON_GetArraySize(*rows);
}

static void rows_hold_together(void **state)
{
    (void)state;
    NEED_BINARY();
    static const char *const papers[] = {"smartpool", "chen"};
    for (size_t i = 0; i < DT_COUNT(papers); i++) {
        cJSON *rows;
        assert_true(check_paper(papers[i], &rows) > 0);
        cJSON_Delete(rows);
    }
}

/* All inputs of convolutions and pools of VGG-16 at batch 256, out and back: twice 14,847 MiB. */
static void traffic_is_what_shapes_say(void **state)
{
    (void)state;
    NEED_BINARY();
    const double want = 2 * 14847 * 1048576.0 / 1e9;
    bool seen = false;
    cJSON *rows;
    (void)check_paper("modnn", &rows);
    const cJSON *row;
    cJSON_ArrayForEach(row, rows) if (strstr(json_text(row, "row"), "out and back") != NULL)
    {
        seen = true;
        assert_true(fabs(json_number(row, "ours") / want - 1) < 1e-3);
    }
    assert_true(seen);
    cJSON_Delete(rows);
}

static void count(dt_superneurons *out, const char *config, const char *fuse, dt_status want)
{
    static dt_err err;
    dt_session *s;
    memset(&err, 0, sizeof err);
    assert_ok(dt_session_open(&s, dt_source_path(config), &fuse, 1, &err), &err);
    assert_int_equal(dt_superneurons_count(out, s->graph, 200, &err), want);
    if (want != DT_OK)
        assert_has(err.text, "model] fuse = off");
    dt_session_close(s);
}

static void assert_mib(uint64_t bytes, double want)
{
    assert_true(fabs((double)bytes / 1048576 - want) < 0.0006);
}

/* Section 4.1 and table 1, to the last digit that is printed but for 1132.155, whose tensors come
 * to 1132.056. */
static void superneurons_counts_as_published(void **state)
{
    (void)state;
    dt_superneurons n;
    count(&n, "configs/papers/alexnet2012.ini", "model.fuse=off", DT_OK);
    assert_int_equal(n.tensors, 36);
    assert_mib(n.baseline, 2189.437);
    assert_mib(n.liveness, 1489.355);
    assert_mib(n.offloaded, 1132.056);
    assert_mib(n.speed, 993.018);
    assert_mib(n.memory, 886.230);
    assert_mib(n.aware, 886.230);
    assert_int_equal(n.speed_runs, 14);
    assert_int_equal(n.memory_runs, 23);
    assert_int_equal(n.aware_runs, 17);
    count(&n, "configs/resnet50.ini", "model.fuse=off", DT_E_CONFIG);
}

static void papers_are_named(void **state)
{
    (void)state;
    NEED_BINARY();
    ran r = cli_run("reproduce --list", NULL);
    assert_code(&r, 0);
    assert_has(r.out, "vdnn");
    assert_has(r.out, "rows");
    cli_done(&r);
    static const char *const refused[][2] = {{"reproduce vdn", "did you mean 'vdnn'?"},
        {"reproduce", "name a paper, or all"},
        {"reproduce chen --json --markdown", "exclude each other"}};
    for (size_t i = 0; i < DT_COUNT(refused); i++) {
        r = cli_run(refused[i][0], NULL);
        assert_code(&r, DT_E_CONFIG);
        assert_has(r.err, refused[i][1]);
        assert_string_equal(r.out, "");
        cli_done(&r);
    }
}

/* A table of Markdown has as many columns in every row. */
static void a_page_is_written(void **state)
{
    (void)state;
    NEED_BINARY();
    ran r = cli_run("reproduce smartpool --markdown", NULL);
    assert_has(r.out, "| paper | row | kind |");
    const char *row = strstr(r.out, "| smartpool |");
    assert_non_null(row);
    int bars = 0;
    for (; *row != '\n'; row++)
        bars += *row == '|';
    assert_int_equal(bars, 9);
    cli_done(&r);
}

DT_TEST_GROUP(reproduce)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_hold_together),
        cmocka_unit_test(traffic_is_what_shapes_say),
        cmocka_unit_test(superneurons_counts_as_published),
        cmocka_unit_test(papers_are_named),
        cmocka_unit_test(a_page_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
