/* `dnntrain show`: its sums are those of the papers and of PyTorch, its table can be read. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "tests/fixture/json_read.h"
#include "tests/fixture/run_cli.h"
#include "tools/show.h"

static const char *resnet50(void)
{
    return cli_file("resnet50.ini", "[model]\nname = resnet50\n[train]\nbatch = 4\nsteps = 1\n");
}

static cJSON *shown(const char *words, const char *file)
{
    ran r = cli_run(words, file);
    assert_code(&r, 0);
    cJSON *o = json_of(r.out, strlen(r.out));
    cli_done(&r);
    return o;
}

static double total(const cJSON *o, const char *key)
{
    return json_number(cJSON_GetObjectItemCaseSensitive(o, "total"), key);
}

static const cJSON *layer(const cJSON *o, const char *name)
{
    const cJSON *row;
    cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(o, "layers"))
    {
        const cJSON *text = cJSON_GetObjectItemCaseSensitive(row, "name");
        if (strcmp(cJSON_GetStringValue(text), name) == 0)
            return row;
    }
    fail_msg("no layer '%s'", name);
    return NULL;
}

static void resnet50_has_its_known_sums(void **state)
{
    NEED_BINARY();
    cJSON *o = shown("show FILE --json", resnet50());
    assert_true(fabs(total(o, "parameters") - 25557032) < 0.5);
    /* 4.09 billion multiply-adds in convolutions and fc, and what the other layers add */
    assert_in_range((long)(total(o, "forward_flops") / 1e6), 8178, 8400);
    assert_in_range((long)(total(o, "backward_flops") / 1e6), 15900, 16600);
    const cJSON *conv1 = layer(o, "conv1");
    assert_true(fabs(json_number(conv1, "parameters") - 64 * 3 * 49) < 0.5);
    assert_true(fabs(json_number(conv1, "forward_flops") - 2.0 * 64 * 3 * 49 * 112 * 112) < 0.5);
    assert_true(fabs(json_number(conv1, "backward_flops") - 2.0 * 64 * 3 * 49 * 112 * 112) < 0.5);
    assert_true(fabs(json_number(conv1, "activation_bytes") - 4.0 * 4 * 64 * 112 * 112) < 0.5);
    const cJSON *y = cJSON_GetObjectItemCaseSensitive(conv1, "output");
    assert_int_equal(cJSON_GetArrayItem(y, 0)->valueint, 112);
    assert_int_equal(cJSON_GetArrayItem(y, 2)->valueint, 64);
    cJSON_Delete(o);
}

static void totals_are_the_sums_of_the_layers(void **state)
{
    NEED_BINARY();
    static const char *const keys[] = {
        "parameters", "forward_flops", "backward_flops", "activation_bytes", "stash_bytes"};
    cJSON *o = shown("show FILE --json", resnet50());
    for (size_t i = 0; i < DT_COUNT(keys); i++) {
        double sum = 0;
        const cJSON *row;
        cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(o, "layers"))
        {
            sum += json_number(row, keys[i]);
        }
        assert_true(sum > 0 && fabs(sum - total(o, keys[i])) < 1e-9 * sum + 100);
    }
    cJSON_Delete(o);
}

static void bytes_are_those_of_a_micro_batch_under_any_policy(void **state)
{
    NEED_BINARY();
    cJSON *four = shown("show FILE --json", resnet50());
    cJSON *two = shown("show FILE --json --set train.micro_batch=2 --set memory.policy=chen_sqrt "
                       "--set memory.device_budget=1MiB",
        resnet50());
    assert_true(fabs(total(four, "activation_bytes") - 2 * total(two, "activation_bytes")) < 0.5);
    assert_true(fabs(total(four, "forward_flops") - total(two, "forward_flops")) < 0.5);
    cJSON_Delete(four);
    cJSON_Delete(two);
}

static void a_tied_head_counts_once(void **state)
{
    NEED_BINARY();
    const char *gpt = cli_file("gpt.ini", "[model]\nname = gpt2\nlayers = 2\nheads = 4\n"
                                          "width = 32\ncontext = 16\nvocab = 65\n"
                                          "[train]\nbatch = 2\nsteps = 1\n");
    cJSON *o = shown("show FILE --json", gpt);
    assert_true(json_number(layer(o, "lm_head"), "parameters") < 0.5);
    /* wte, wpe, two blocks of 12 w^2 + 13 w, ln_f */
    assert_true(fabs(total(o, "parameters") -
                     (65 * 32 + 16 * 32 + 2 * (12 * 32 * 32 + 13 * 32) + 2 * 32)) < 0.5);
    cJSON_Delete(o);
}

/* The longest line, in bytes: the table is ASCII. */
static size_t longest(const char *text)
{
    size_t most = 0;
    for (const char *line = text; *line != '\0';) {
        const size_t n = strcspn(line, "\n");
        most = n > most ? n : most;
        line += n + (line[n] == '\n');
    }
    return most;
}

static void the_table_is_short_and_narrow(void **state)
{
    NEED_BINARY();
    ran r = cli_run("show FILE", resnet50());
    assert_code(&r, 0);
    assert_string_equal(r.err, "");
    assert_has(r.out, "25,557,032");
    assert_has(r.out, "| 5 times these 7 layers, to layer3.5.add\n");
    assert_has(r.out, "| layer3.1.conv1 ");
    assert_has_not(r.out, "layer3.2.conv1");
    assert_in_range(longest(r.out), 60, 100);
    cli_done(&r);
    r = cli_run("show FILE --all", resnet50());
    assert_has(r.out, "\nlayer3.2.conv1 ");
    assert_has_not(r.out, "times these");
    assert_in_range(longest(r.out), 60, 100);
    cli_done(&r);
}

static void a_short_network_is_shown_whole(void **state)
{
    NEED_BINARY();
    ran r =
        cli_run("show FILE --set train.batch=8", dt_source_path("configs/tiny_ini_network.ini"));
    assert_code(&r, 0);
    assert_has(r.out, "\nblock2.down ");
    assert_has_not(r.out, "times these");
    cli_done(&r);
}

static void wrong_arguments_are_refused(void **state)
{
    NEED_BINARY();
    static const char *const wrong[][2] = {{"show", "name a CONFIG"},
        {"show nosuch.ini", "nosuch.ini"}, {"show FILE --jsn", "--json"},
        {"show FILE --set model.nam=x", "name"}};
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        ran r = cli_run(wrong[i][0], resnet50());
        assert_code(&r, DT_E_CONFIG);
        assert_has(r.err, wrong[i][1]);
        assert_string_equal(r.out, "");
        cli_done(&r);
    }
}

/* --- folding --- */

/* Rows from letters: equal letters are equal layers, numbered as they come. */
static size_t fold(const char *letters, dti_show_part *part)
{
    static dti_show_row row[256];
    static char name[256][24];
    const size_t n = strlen(letters);
    for (size_t i = 0; i < n; i++) {
        snprintf(name[i], sizeof name[i], "%c%zu", letters[i], i);
        row[i] = (dti_show_row){.name = name[i], .kind = "k", .parameters = letters[i]};
    }
    return dti_show_fold(row, n, part);
}

static void check_fold(const char *letters, const char *want)
{
    dti_show_part part[256];
    char got[1024] = "";
    const size_t n = fold(letters, part);
    for (size_t i = 0; i < n; i++) {
        char one[64];
        snprintf(one, sizeof one, "%zu+%zux%zu ", part[i].first, part[i].period, part[i].times);
        strcat(got, one);
    }
    assert_string_equal(got, want);
}

static void blocks_that_repeat_become_one(void **state)
{
    (void)state;
    check_fold("", "");
    check_fold("a", "0+1x1 ");
    check_fold("abc", "0+1x1 1+1x1 2+1x1 ");
    check_fold("abab", "0+2x2 ");
    check_fold("xabcabcabcy", "0+1x1 1+3x3 10+1x1 ");
    check_fold("abababx", "0+2x3 6+1x1 ");
    /* a start one row later leaves out more */
    check_fold("pabcpabcpabcp", "0+4x3 12+1x1 ");
    check_fold("bcxabcabcabc", "0+1x1 1+1x1 2+1x1 3+3x3 ");
}

static void layers_of_other_names_do_not_repeat(void **state)
{
    (void)state;
    const dti_show_row row[] = {{.name = "one.0.a", .kind = "k"}, {.name = "one.0.b", .kind = "k"},
        {.name = "two.1.a", .kind = "k"}, {.name = "two.1.b", .kind = "k"}};
    dti_show_part part[4];
    assert_int_equal(dti_show_fold(row, 4, part), 4);
}

DT_TEST_GROUP(show)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resnet50_has_its_known_sums),
        cmocka_unit_test(totals_are_the_sums_of_the_layers),
        cmocka_unit_test(bytes_are_those_of_a_micro_batch_under_any_policy),
        cmocka_unit_test(a_tied_head_counts_once),
        cmocka_unit_test(the_table_is_short_and_narrow),
        cmocka_unit_test(a_short_network_is_shown_whole),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(blocks_that_repeat_become_one),
        cmocka_unit_test(layers_of_other_names_do_not_repeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
