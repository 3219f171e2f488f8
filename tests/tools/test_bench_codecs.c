/* `dnntrain bench codecs`: what it measures, and what it refuses. */
#include <math.h>
#include <string.h>

#include "memory/codec.h"
#include "tests/fixture/json_read.h"
#include "tests/fixture/run_cli.h"

/* Ten densities for codecs that depend on them, one for the others and for ReLU's mask. */
static void every_codec_is_measured(void **state)
{
    NEED_BINARY();
    ran r = cli_run("bench-codecs --mib 1 --json", NULL);
    assert_code(&r, 0);
    cJSON *rows = json_of(r.out, strlen(r.out));
    const cJSON *row;
    size_t n;
    const dt_codec *const *all = dt_codec_all(&n);
    for (size_t i = 0; i <= n; i++) {
        const char *name = i < n ? all[i]->name : "relu_mask";
        int seen = 0;
        cJSON_ArrayForEach(row, rows)
        {
            if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, "codec")),
                    name) != 0)
                continue;
            seen++;
            assert_true(json_number(row, "ratio") > 0.7 && json_number(row, "copy_gb_s") > 0);
            assert_true(json_number(row, "encode_gb_s") > 0 && json_number(row, "decode_gb_s") > 0);
            assert_true(
                json_number(row, "encode_share") > 0 && json_number(row, "decode_share") > 0);
        }
        assert_int_equal(seen, i < n && all[i]->sparse ? 10 : 1);
    }
    cJSON_Delete(rows);
    cli_done(&r);
}

static void the_table_says_what_it_is(void **state)
{
    NEED_BINARY();
    ran r = cli_run("bench-codecs --mib 1", NULL);
    assert_code(&r, 0);
    assert_has(r.out, "1 MiB of values");
    assert_has(r.out, "zvc            0.1");
    assert_has(r.out, "relu_mask");
    cli_done(&r);
}

/* Of each exact codec that depends on the density two numbers each way, none less than 0. */
static void errors_of_predictions_are_told(void **state)
{
    NEED_BINARY();
    static const char *const keys[] = {
        "encode_error", "decode_error", "encode_error_of_one_line", "decode_error_of_one_line"};
    ran r = cli_run("bench-codecs --mib 1 --errors --json", NULL);
    assert_code(&r, 0);
    cJSON *rows = json_of(r.out, strlen(r.out));
    const cJSON *row;
    size_t n;
    int sparse = 0;
    const dt_codec *const *all = dt_codec_all(&n);
    for (size_t i = 0; i < n; i++)
        sparse += all[i]->sparse && all[i]->exact;
    assert_int_equal(cJSON_GetArraySize(rows), sparse);
    cJSON_ArrayForEach(row, rows) for (size_t k = 0; k < DT_COUNT(keys); k++)
        assert_true(isfinite(json_number(row, keys[k])) && json_number(row, keys[k]) >= 0);
    cJSON_Delete(rows);
    cli_done(&r);
}

static void sizes_that_cannot_be_are_refused(void **state)
{
    NEED_BINARY();
    static const char *const wrong[] = {"0", "-1", "x", "1.5", "99999999999999999999", "16385"};
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        char words[64];
        snprintf(words, sizeof words, "bench-codecs --mib %s", wrong[i]);
        ran r = cli_run(words, NULL);
        assert_code(&r, DT_E_CONFIG);
        assert_has(r.err, "give a whole number from 1 to 16384");
        cli_done(&r);
    }
}

DT_TEST_GROUP(bench_codecs)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_codec_is_measured),
        cmocka_unit_test(the_table_says_what_it_is),
        cmocka_unit_test(errors_of_predictions_are_told),
        cmocka_unit_test(sizes_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
