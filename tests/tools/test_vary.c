/* `dnntrain compare --vary` from outside: a variant's row is that of a `compare --set` of its own,
 * and what is refused is a row that says so. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "memory/time/cost_file.h"
#include "session/open.h"
#include "session/origin.h"
#include "session/profile_cache.h"
#include "tests/fixture/json_read.h"
#include "tests/fixture/run_cli.h"

static const char *lenet(void)
{
    return cli_file("lenet.ini", "[model]\nname = lenet5\n[train]\nbatch = 16\nsteps = 2\n");
}

static cJSON *object_of(const char *words)
{
    ran r = cli_run(words, lenet());
    cJSON *o = json_of(r.out, strlen(r.out));
    cli_done(&r);
    return o;
}

static size_t count(const char *in, const char *what)
{
    size_t n = 0;
    for (const char *at = in; (at = strstr(at, what)) != NULL; at++)
        n++;
    return n;
}

static bool is_same(const cJSON *a, const cJSON *b, const char *key)
{
    return cJSON_Compare(
        cJSON_GetObjectItemCaseSensitive(a, key), cJSON_GetObjectItemCaseSensitive(b, key), true);
}

/* All that `compare` says of a plan without --vary; "best" is of all that stand beside it. */
static void assert_same_plan(const cJSON *a, const cJSON *b, const char *words)
{
    static const char *const keys[] = {"policy", "budget", "fits", "device_peak", "host_peak",
        "disk_peak", "step_seconds", "images_per_second", "exact", "bound_seconds",
        "compute_seconds", "stall_seconds", "moved_out", "moved_in", "expected_out", "expected_in",
        "recompute_flops", "whole_batch", "costs"};
    for (size_t i = 0; i < DT_COUNT(keys); i++)
        if (cJSON_GetObjectItemCaseSensitive(b, keys[i]) == NULL || !is_same(a, b, keys[i]))
            fail_msg("%s: %s differs", words, keys[i]);
}

static const cJSON *find(const cJSON *all, const cJSON *like, const char *key, const char *value)
{
    const cJSON *o;
    cJSON_ArrayForEach(o, all)
    {
        const cJSON *has = cJSON_GetObjectItemCaseSensitive(o, key);
        if (is_same(o, like, "policy") && is_same(o, like, "budget") &&
            (cJSON_IsNull(has) || strcmp(has->valuestring, value) == 0))
            return o;
    }
    return NULL;
}

/* Each value by itself, and both in one table. */
static void a_row_is_that_of_a_compare_of_its_own(void **state)
{
    NEED_BINARY();
    static const struct {
        const char *key, *value[3];
    } keys[] = {
        {"train.precision", {"fp32", "auto"}},
        {"memory.algorithms", {"fast", "small", "fit"}},
        {"memory.pool", {"greedy", "pytorch", "two_ended"}},
        {"train.micro_batch", {"16", "8", "4"}},
        {"train.batch", {"16", "32"}},
        {"model.width", {"6", "12"}},
        {"policy.gist.dpr", {"fp16", "fp8"}},
        {"policy.vdnn_conv.join", {"reader", "layer"}},
        {"memory.simulate", {"p100", "v100"}},
        {"memory.tier", {"host", "disk"}},
        {"train.optimizer", {"sgd", "adam"}},
    };
    for (size_t k = 0; k < DT_COUNT(keys); k++) {
        static const char common[] = "--json --set memory.simulate=p100 --budgets 400KiB,1MiB "
                                     "--policies vdnn_conv;gist;chen_budget;vdnn_dyn";
        const bool three = keys[k].value[2] != NULL;
        char words[512];
        if (!dt_picked(k, 4, 4, 1))
            continue;
        snprintf(words, sizeof words, "compare FILE %s --vary %s=%s,%s%s%s", common, keys[k].key,
            keys[k].value[0], keys[k].value[1], three ? "," : "", three ? keys[k].value[2] : "");
        cJSON *all = object_of(words);
        for (int i = 0; i < (three ? 3 : 2); i++) {
            const cJSON *own;
            int n = 0;
            snprintf(words, sizeof words, "compare FILE %s --set %s=%s", common, keys[k].key,
                keys[k].value[i]);
            cJSON *alone = object_of(words);
            cJSON_ArrayForEach(own, alone)
            {
                const cJSON *o = find(all, own, keys[k].key, keys[k].value[i]);
                if (o == NULL)
                    fail_msg("%s: no row of %s", words, json_text(own, "policy"));
                assert_same_plan(o, own, words);
                n++;
            }
            assert_int_equal(n, 5 * 2);
            cJSON_Delete(alone);
        }
        cJSON_Delete(all);
    }
}

/* Two policies for which precision counts, and options of one of them. */
static void programs_get_keys_bits_and_what_was_refused(void **state)
{
    NEED_BINARY();
    cJSON *all = object_of("compare FILE --json --budgets 1MiB --policies gist;vdnn_all "
                           "--set memory.simulate=p100 --vary policy.gist.dpr=fp16,fp8,fp99 "
                           "--vary train.micro_batch=16,8");
    const cJSON *o;
    int refused = 0, kept = 0, lossy = 0;
    assert_int_equal(cJSON_GetArraySize(all), 2 + 3 * 2 + 2);
    cJSON_ArrayForEach(o, all)
    {
        const cJSON *dpr = cJSON_GetObjectItemCaseSensitive(o, "policy.gist.dpr");
        const cJSON *bits = cJSON_GetObjectItemCaseSensitive(o, "bits");
        const char *micro = json_text(o, "train.micro_batch");
        const bool gist = strcmp(json_text(o, "policy"), "gist") == 0;
        assert_true(cJSON_IsNull(dpr) == !gist);
        if (cJSON_GetObjectItemCaseSensitive(o, "refused") != NULL) {
            assert_string_equal(dpr->valuestring, "fp99");
            assert_has(json_text(o, "refused"), "dpr = fp99: must be one of fp16, fp10, fp8");
            assert_true(!json_flag(o, "fits") && !json_flag(o, "best") && cJSON_IsNull(bits));
            assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(o, "device_peak")));
            refused++;
        } else if (json_flag(o, "exact")) {
            assert_string_equal(bits->valuestring, strcmp(micro, "16") == 0 ? "a" : "b");
            kept++;
        } else {
            assert_true(gist && cJSON_IsNull(bits));
            lossy++;
        }
    }
    assert_true(refused == 2 && kept == 4 && lossy == 4);
    cJSON_Delete(all);
}

/* Of plans that train the same bits, and of no others, one is ahead of another. */
static void the_front_is_of_those_that_train_the_same(void **state)
{
    NEED_BINARY();
    cJSON *all =
        object_of("compare FILE --json --budgets 2 --policies vdnn_all;chen_sqrt;vdnn_conv "
                  "--set memory.simulate=p100 --vary memory.algorithms=fast,small "
                  "--vary memory.pool=greedy,pytorch");
    const cJSON *a, *b;
    int marked = 0;
    cJSON_ArrayForEach(a, all)
    {
        bool ahead = false;
        cJSON_ArrayForEach(b, all)
        {
            const bool less = json_number(b, "device_peak") < json_number(a, "device_peak"),
                       faster = json_number(b, "step_seconds") < json_number(a, "step_seconds");
            ahead = ahead || (is_same(a, b, "bits") && (less || faster) &&
                                 json_number(b, "device_peak") <= json_number(a, "device_peak") &&
                                 json_number(b, "step_seconds") <= json_number(a, "step_seconds"));
        }
        assert_true(json_flag(a, "best") ? !ahead : true);
        marked += json_flag(a, "best");
    }
    assert_true(marked >= 2 * 2);
    cJSON_Delete(all);
}

/* Of "fit" each plan may have algorithms of its own, so its last bits may be its own. */
static void algorithms_of_a_plans_own_are_told(void **state)
{
    NEED_BINARY();
    static const char net[] =
        "[model]\nimage = 16\nclasses = 10\n[data]\nsource = synthetic\nsamples = 40\n[train]\n"
        "batch = 8\nsteps = 2\n[device]\nkind = cpu\n[conv a]\nout = 64\nkernel = 3\npad = "
        "1\n[conv "
        "b]\nout = 64\nkernel = 3\npad = 1\n[global_avgpool g]\n[fc h]\nout = 10\n[cross_entropy "
        "loss]\n";
    ran r = cli_run("compare FILE --json --policies vdnn_all --budgets 1MiB,64MiB --set "
                    "memory.simulate=p100 --vary memory.algorithms=fast,fit",
        cli_file("fit.ini", net));
    assert_code(&r, 0);
    cJSON *all = json_of(r.out, strlen(r.out));
    const cJSON *o;
    int own = 0;
    cJSON_ArrayForEach(o, all)
    {
        const bool fit = strcmp(json_text(o, "memory.algorithms"), "fit") == 0;
        own += json_flag(o, "own_algorithms");
        assert_true(fit || !json_flag(o, "own_algorithms"));
        assert_string_equal(json_text(o, "bits"), fit ? "b" : "a");
    }
    assert_true(own > 0);
    cJSON_Delete(all);
    cli_done(&r);
}

/* Rows of a page's table of what was refused. */
static size_t rows_refused(const char *page)
{
    char table[8192];
    const char *at = strstr(page, "What was refused");
    assert_non_null(at);
    at = strstr(at, "<tbody>");
    assert_non_null(at);
    const size_t n = (size_t)(strstr(at, "</tbody>") - at);
    assert_true(n < sizeof table);
    snprintf(table, sizeof table, "%.*s", (int)n, at);
    return count(table, "<tr");
}

static void files_name_the_variants(void **state)
{
    NEED_BINARY();
    char csv[1024], svg[1024], html[1024], words[4096];
    snprintf(csv, sizeof csv, "%s", dt_temp_path("vary.csv"));
    snprintf(svg, sizeof svg, "%s", dt_temp_path("vary.svg"));
    snprintf(html, sizeof html, "%s", dt_temp_path("vary.html"));
    snprintf(words, sizeof words,
        "compare FILE --budgets 1MiB,2MiB --policies vdnn_all --vary train.batch=16,32,-1 "
        "--set memory.simulate=p100 --csv %.1000s --svg %.1000s --html %.1000s",
        csv, svg, html);
    ran r = cli_run(words, lenet());
    assert_code(&r, 0);
    assert_has(r.out, "varied: train.batch\n");
    assert_has(r.out, "  policy         batch bits ");
    assert_has(r.out, "\n  (each list)    -1         refused\n");
    assert_has(r.out, "\nrefused: train.batch = -1: --vary: [train] batch = -1: ");
    assert_has_not(r.out, "batch 16");
    cli_done(&r);
    char *table = cli_text(csv), *picture = cli_text(svg), *page = cli_text(html);
    assert_has(table, ",expected_in,whole_batch,compute_seconds,stall_seconds,in_vain,"
                      "train.batch,bits,own_algorithms,refused\n");
    assert_int_equal(count(table, "\n"), 1 + 2 * 2 * 2 + 2);
    assert_has(table, ",16,a,no,\n");
    assert_has(table, ",32,b,no,\n");
    assert_has(table, "\nvdnn_all,,no,,");
    for (const char *at = table; (at = strchr(at, '\n')) != NULL && at[1] != '\0';) {
        const size_t n = strcspn(++at, "\n");
        size_t commas = 0;
        bool inside = false;
        for (size_t i = 0; i < n; i++) {
            inside = inside != (at[i] == '"');
            commas += at[i] == ',' && !inside;
        }
        assert_int_equal(commas, 22 + 4); /* every line has every column */
    }
    assert_has(picture, ">a sample, ");
    assert_has(picture, ">vdnn_all 16<");
    assert_has(picture, ">vdnn_all 32<");
    assert_has(picture, "<title>vdnn_all, train.batch = 32: ");
    assert_int_equal(count(picture, "stroke-dasharray=\"none\""), 1);
    assert_int_equal(count(picture, "stroke-dasharray=\"9 4\""), 1);
    assert_has_not(picture, "nan");
    assert_has(page, "<td>(each list)</td>");
    assert_int_equal(rows_refused(page), 1); /* as in the table, once for all lists and budgets */
    assert_has(page, ">train.<wbr>batch</button>");
    assert_has(page, "the same bits, b<");
    dt_free(table);
    dt_free(picture);
    dt_free(page);
}

/* Names of layers are the file's. */
static void hostile_values_stay_text(void **state)
{
    NEED_BINARY();
    char svg[1024], html[1024], csv[1024], words[4096];
    snprintf(svg, sizeof svg, "%s", dt_temp_path("hostile.svg"));
    snprintf(html, sizeof html, "%s", dt_temp_path("hostile.html"));
    snprintf(csv, sizeof csv, "%s", dt_temp_path("hostile.csv"));
    snprintf(words, sizeof words,
        "compare FILE --budgets 1 --policies vdnn_all --vary data.path=</title><script>,\"x\"&'y' "
        "--set memory.simulate=p100 --svg %.1000s --html %.1000s --csv %.1000s",
        svg, html, csv);
    ran r = cli_run(words, lenet());
    assert_code(&r, 0);
    cli_done(&r);
    char *picture = cli_text(svg), *page = cli_text(html), *table = cli_text(csv);
    assert_has_not(picture, "</title><script>");
    assert_has_not(page, "</title><script>");
    assert_has(picture, "&lt;/title&gt;&lt;script&gt;");
    assert_has(table, ",\"\"\"x\"\"&'y'\",");
    dt_free(picture);
    dt_free(page);
    dt_free(table);
}

static void many_keys_get_numbers_for_want_of_width(void **state)
{
    NEED_BINARY();
    ran r = cli_run("compare FILE --budgets 1 --policies vdnn_all --set memory.simulate=p100 "
                    "--vary train.micro_batch=16,8 --vary memory.algorithms=fast,small "
                    "--vary memory.pool=greedy,best_fit --vary policy.vdnn_all.join=reader,layer",
        lenet());
    assert_code(&r, 0);
    assert_has(r.out, "  policy         variant bits");
    assert_has(
        r.out, "\nvariant 1: train.micro_batch = 16, memory.algorithms = fast, memory.pool =\n");
    assert_has(r.out, "\nvariant 24: train.micro_batch = 8, ");
    for (const char *at = r.out; *at != '\0'; at += strcspn(at, "\n"), at += *at == '\n')
        assert_true(strcspn(at, "\n") <= 80);
    cli_done(&r);
}

static void variants_are_run_beside_each_other(void **state)
{
    NEED_BINARY();
    cJSON *all = object_of("compare FILE --run --json --budgets 1 --policies vdnn_all "
                           "--vary train.batch=4,8");
    const cJSON *o;
    int n = 0;
    cJSON_ArrayForEach(o, all)
    {
        assert_true(
            json_number(o, "measured_seconds") > 0 && json_number(o, "measured_seconds") < 60);
        n++;
    }
    assert_int_equal(n, 4);
    cJSON_Delete(all);
}

static void a_variant_that_is_refused_leaves_a_table(void **state)
{
    NEED_BINARY();
    ran r = cli_run("compare FILE --budgets 1 --policies vdnn_all --set memory.simulate=p100 "
                    "--vary train.precision=fp32,tf32",
        lenet());
    assert_code(&r, 0);
    assert_has(r.out, "\n  (each list)    tf32      refused\n");
    assert_has(r.out, "refused: train.precision = tf32: --vary: [train] precision = tf32: tf32");
    assert_has(r.out, "vdnn_all       fp32 ");
    cli_done(&r);
}

/* What is wrong with an option may turn up in planning; and with keep_all refused there is nothing
 * to compare with. */
static void a_plan_that_is_refused_is_a_row(void **state)
{
    NEED_BINARY();
    cJSON *all = object_of("compare FILE --json --budgets 400KiB,1MiB --policies chen_budget --set "
                           "memory.simulate=p100 --vary policy.chen_budget.segment=100KiB,some");
    const cJSON *o;
    int refused = 0;
    cJSON_ArrayForEach(o, all)
    {
        if (cJSON_GetObjectItemCaseSensitive(o, "refused") == NULL)
            continue;
        assert_string_equal(json_text(o, "policy.chen_budget.segment"), "some");
        assert_has(json_text(o, "refused"), "; while planning chen_budget");
        assert_true(json_number(o, "budget") > 0);
        refused++;
    }
    assert_int_equal(refused, 2);
    assert_int_equal(cJSON_GetArraySize(all), 2 + 2 * 2);
    cJSON_Delete(all);
    char words[1024], path[512];
    snprintf(path, sizeof path, "%s", dt_temp_path("refused.html"));
    snprintf(words, sizeof words,
        "compare FILE --budgets 2MiB,3MiB --policies chen_budget --set memory.simulate=p100 "
        "--vary policy.chen_budget.segment=100KiB,some --html %s",
        path);
    ran r = cli_run(words, lenet());
    assert_code(&r, 0);
    cli_done(&r);
    char *page = cli_text(path);
    assert_int_equal(rows_refused(page), 1); /* once for both budgets */
    dt_free(page);
    r = cli_run("compare FILE --budgets 1 --policies vdnn_all --set memory.simulate=p100 "
                "--vary memory.account=revolve,gist",
        lenet());
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "an account is a paper's way of counting");
    assert_string_equal(r.out, "");
    cli_done(&r);
    r = cli_run("compare FILE --budgets 1 --policies gist --vary policy.gist.dpr=fp8",
        cli_file("wrong.ini", "[model]\nname = lenet5\n[train]\nsteps = 2\n[policy.gist]\n"
                              "dpr = no\n"));
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "wrong.ini:6: [policy.gist] dpr = no: must be one of");
    cli_done(&r);
}

/* Of a lone policy and keep_all the samples a second of keep_all, of that value. */
static double rate_of(const char *sets, const char *key, const char *value)
{
    char words[512];
    snprintf(words, sizeof words, "compare FILE --json --policies vdnn_all --budgets 1 %s", sets);
    cJSON *all = object_of(words);
    const cJSON *o;
    double rate = 0;
    cJSON_ArrayForEach(o, all)
    {
        const cJSON *of = cJSON_GetObjectItemCaseSensitive(o, key);
        if (strcmp(json_text(o, "policy"), "keep_all") == 0 && cJSON_IsString(of) &&
            strcmp(of->valuestring, value) == 0)
            rate = json_number(o, "images_per_second");
    }
    cJSON_Delete(all);
    return rate;
}

/* Each was scaled to the rate by itself, so all had it. */
static void one_scale_is_all_variants(void **state)
{
    NEED_BINARY();
    static const struct {
        const char *key, *value[2];
    } all[] = {{"train.precision", {"fp32", "bf16"}}, {"memory.simulate", {"v100", "k40"}},
        {"train.batch", {"256", "16"}}};
    static const char common[] = "--set memory.simulate=v100 --set train.precision=fp32 "
                                 "--set train.batch=256 --set memory.calibrate=200000";
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        char sets[256];
        snprintf(sets, sizeof sets, "%s --vary %s=%s,%s", common, all[i].key, all[i].value[0],
            all[i].value[1]);
        const double same = rate_of(sets, all[i].key, all[i].value[0]);
        const double other = rate_of(sets, all[i].key, all[i].value[1]);
        if (!(fabs(same - 2e5) < 200) || !(fabs(other - 2e5) > 2e3))
            fail_msg("%s: %.1f, %.1f", all[i].key, same, other);
    }
    const double own = rate_of(
        "--set memory.simulate=v100 --vary memory.calibrate=100,200", "memory.calibrate", "200");
    assert_true(fabs(own - 200) < 1);
    ran r = cli_run("compare FILE --budgets 1 --policies vdnn_all --set memory.calibrate=700 "
                    "--vary memory.simulate=v100,k40",
        lenet());
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "memory.calibrate is the rate of what --vary leaves as it is");
    cli_done(&r);
}

static void it_is_said_whose_the_times_are(void **state)
{
    NEED_BINARY();
    static const char *const of[][3] = {
        {"--vary memory.simulate=p100,v100", "\ndevice cpu   precision fp32\n",
            "\ntimes are simulated, of each variant's card\n"},
        {"--set memory.simulate=own --set card.like=p100 --vary card.link=1,63",
            "\ndevice cpu   precision fp32\n", "\ntimes are simulated, of each variant's card\n"},
        {"--set memory.simulate=p100 --vary train.precision=fp32,bf16", "\ndevice cpu\n",
            "\ntimes are simulated: Tesla P100 16GB\n"},
    };
    for (size_t i = 0; i < DT_COUNT(of); i++) {
        char words[512];
        snprintf(words, sizeof words,
            "compare FILE --budgets 1 --policies vdnn_all --set device.kind=cpu %s", of[i][0]);
        ran r = cli_run(words, lenet());
        assert_code(&r, 0);
        assert_has(r.out, of[i][1]);
        assert_has(r.out, of[i][2]);
        cli_done(&r);
    }
}

static void wrong_arguments_are_refused(void **state)
{
    NEED_BINARY();
    static const char *const wrong[][2] = {
        {"--vary", "--vary needs S.KEY=A,B,C after it"},
        {"--vary pool=greedy,bfc", "did you mean --vary memory.pool=greedy,bfc?"},
        {"--vary memory.pool", "write SECTION.KEY=A,B,C"},
        {"--vary =a", "write SECTION.KEY=A,B,C"},
        {"--vary .pool=a", "write SECTION.KEY=A,B,C"},
        {"--vary memory.=a", "write SECTION.KEY=A,B,C"},
        {"--vary memory.pool=", "--vary memory.pool: nothing stands between"},
        {"--vary memory.pool=greedy,,bfc", "--vary memory.pool: nothing stands between"},
        {"--vary memory.pool=greedy,", "--vary memory.pool: nothing stands between"},
        {"--vary memory.pool=;", "--vary memory.pool: nothing stands between"},
        {"--vary memory.pool=bfc --vary memory.pool=greedy", "stands there twice"},
        {"--vary memory.policy=vdnn_all;gist", "that is what --policies 'A;B,C' is for"},
        {"--vary memory.device_budget=1MiB,2MiB", "that is what --budgets 1GiB,2GiB is for"},
        {"--vary memory.pool=gr\001dy", "byte 15, 0x01, is a control character or not UTF-8"},
        {"--vary memory.pool=gr\377dy", "byte 15, 0xFF, is a control character or not UTF-8"},
        {"--vary train.batch=none", "dnntrain: --vary: [train] batch = none: not a whole number"},
        {"--vary memory.pool=greedy,bfc --set train.batch=none",
            "dnntrain: --set: [train] batch = none: not a whole number"},
        {"--vary memory.pol=greedy",
            "dnntrain: --vary: [memory] unknown key 'pol', did you mean 'pool'?"},
        {"--vary memry.pool=greedy", "[memry]"},
        {"--vary memory.pool=gredy,bcf", "no such pool; did you mean 'greedy'?"},
        {"--vary policy.gist.dpr=fp8,fp16", "no list of --policies comes to gist"},
        {"--vary policy.gits.dpr=fp8", "[policy.gits]"},
        {"--run --vary memory.simulate=p100,v100", "--run measures this machine"},
        {"--set memory.simulate=p100 --vary card.link=1,63",
            "[card] link = 1: memory.simulate = p100 takes nothing of [card]"},
    };
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        char words[512];
        snprintf(words, sizeof words, "compare FILE --policies vdnn_all %s", wrong[i][0]);
        ran r = cli_run(words, lenet());
        assert_code(&r, DT_E_CONFIG);
        assert_has(r.err, wrong[i][1]);
        assert_string_equal(r.out, "");
        cli_done(&r);
    }
}

/* "KEY=1,2,...,N" */
static void add_numbers(char *to, const char *key, int n)
{
    to += sprintf(to, " --vary %s=1", key);
    for (int i = 2; i <= n; i++)
        to += sprintf(to, ",%d", i);
}

static void too_many_variants_are_counted_and_refused(void **state)
{
    NEED_BINARY();
    static char words[8192];
    strcpy(words, "compare FILE --policies vdnn_all");
    add_numbers(words + strlen(words), "train.seed", 100);
    add_numbers(words + strlen(words), "train.steps", 100);
    add_numbers(words + strlen(words), "train.eval_every", 100);
    ran r = cli_run(words, lenet());
    assert_code(&r, DT_E_CONFIG);
    assert_has(
        r.err, "2000000 rows, of 2 lists of policies under their variants, are more than 512");
    cli_done(&r);
    strcpy(words, "compare FILE --policies vdnn_all");
    add_numbers(words + strlen(words), "train.seed", 600);
    r = cli_run(words, lenet());
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "--vary train.seed: 600 values are more than 512");
    cli_done(&r);
}

/* Where a value has commas itself; and one that stands twice counts once. */
static void semicolons_stand_between_values_with_commas(void **state)
{
    NEED_BINARY();
    cJSON *all = object_of("compare FILE --json --budgets 1 --policies vdnn_all --set "
                           "memory.simulate=p100 --vary train.schedule=step --vary "
                           "train.milestones=1,2;3,4;1,2");
    assert_int_equal(cJSON_GetArraySize(all), 2 * 2);
    assert_string_equal(json_text(cJSON_GetArrayItem(all, 0), "train.milestones"), "1,2");
    cJSON_Delete(all);
}

/* No memory.policy names it: --policies does. */
static void options_count_of_policies_that_are_compared(void **state)
{
    NEED_BINARY();
    cJSON *named = object_of("compare FILE --json --budgets 1 --policies gist --set "
                             "memory.simulate=p100 --set policy.gist.dpr=fp8");
    cJSON *also = object_of("compare FILE --json --budgets 1 --policies gist --set "
                            "memory.simulate=p100 --set policy.gist.dpr=fp8 --set "
                            "memory.policy=gist");
    assert_true(cJSON_Compare(named, also, true));
    cJSON_Delete(named);
    cJSON_Delete(also);
    ran r = cli_run("compare FILE --budgets 1 --policies gist --set policy.gist.dpq=fp8", lenet());
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "unknown key 'dpq'");
    cli_done(&r);
    r = cli_run("compare FILE --budgets 1 --policies chen_sqrt --set policy.gist.dpr=fp8", lenet());
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "[policy.gist] is of a policy that is not in memory.policy");
    cli_done(&r);
}

/* A profile that this machine would have kept of that precision: a step has so many seconds that
 * are no op's. False: the processor has no such precision. */
static bool keep_profile(const char *set, double rest)
{
    dt_session *s = NULL;
    dt_err err = {0};
    dt_costs c = dt_costs_default;
    dt_origin o;
    char path[DT_CACHE_PATH], *text = NULL;
    size_t n = 0;
    if (dt_session_open(&s, lenet(), &set, 1, &err) != DT_OK) {
        dt_session_close(s);
        return false;
    }
    dti_session_origin(s, &o);
    assert_ok(dt_profile_kept(s, path, &err), &err);
    c.rest = rest;
    char signature[] = "an op of no network"; /* there is no profile of none */
    const dt_cost_entry op = {.signature = signature, .samples = 1, .seconds = 1e-6};
    assert_ok(dt_costs_add(&c, &op, &err), &err);
    assert_ok(dt_profile_text(&text, &n, &c, &(dt_densities){0}, &o, &err), &err);
    assert_ok(dt_make_above(path, &err), &err);
    assert_ok(dt_write_file(path, text, n, &err), &err);
    dt_free(text);
    dt_costs_deinit(&c);
    dt_session_close(s);
    return true;
}

/* Each variant goes by what was kept of its own precision, and one that has none is told of. */
static void each_precision_goes_by_its_own_profile(void **state)
{
    NEED_BINARY();
    static const char words[] =
        "compare FILE --json --set memory.profile=auto --budgets 1 --policies chen_sqrt";
    char line[256];
    setenv("XDG_CACHE_HOME", dt_temp_path("kept"), 1);
    if (!keep_profile("train.precision=bf16", 40)) {
        unsetenv("XDG_CACHE_HOME");
        skip();
    }
    snprintf(line, sizeof line, "%s --vary train.precision=fp32,bf16", words);
    ran r = cli_run(line, lenet());
    assert_code(&r, 0);
    assert_has(r.err, "memory.profile = auto: there is none of this machine and network");
    cli_done(&r);
    assert_true(keep_profile("train.precision=fp32", 20));
    cJSON *all = object_of(line);
    int n = 0;
    const cJSON *o;
    cJSON_ArrayForEach(o, all)
    {
        const char *precision = json_text(o, "train.precision");
        const double least = strcmp(precision, "bf16") == 0 ? 40 : 20,
                     got = json_number(o, "step_seconds");
        assert_true(got > least && got < least + 10);
        n++;
    }
    assert_int_equal(n, 4);
    cJSON_Delete(all);
    unsetenv("XDG_CACHE_HOME");
}

DT_TEST_GROUP(vary)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_that_of_a_compare_of_its_own),
        cmocka_unit_test(programs_get_keys_bits_and_what_was_refused),
        cmocka_unit_test(the_front_is_of_those_that_train_the_same),
        cmocka_unit_test(algorithms_of_a_plans_own_are_told),
        cmocka_unit_test(files_name_the_variants),
        cmocka_unit_test(hostile_values_stay_text),
        cmocka_unit_test(many_keys_get_numbers_for_want_of_width),
        cmocka_unit_test(variants_are_run_beside_each_other),
        cmocka_unit_test(a_variant_that_is_refused_leaves_a_table),
        cmocka_unit_test(a_plan_that_is_refused_is_a_row),
        cmocka_unit_test(one_scale_is_all_variants),
        cmocka_unit_test(it_is_said_whose_the_times_are),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(too_many_variants_are_counted_and_refused),
        cmocka_unit_test(semicolons_stand_between_values_with_commas),
        cmocka_unit_test(options_count_of_policies_that_are_compared),
        cmocka_unit_test(each_precision_goes_by_its_own_profile),
    };
    cli_threads_here();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
