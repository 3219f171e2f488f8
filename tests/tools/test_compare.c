/* `dnntrain compare` from outside: what it says of a plan is what `dnntrain plan` says of it. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/policy.h"
#include "memory/remat/remat.h"
#include "session/human.h"
#include "tests/fixture/json_read.h"
#include "tests/fixture/run_cli.h"

static const char *lenet(void)
{
    return cli_file("lenet.ini", "[model]\nname = lenet5\n[train]\nbatch = 64\nsteps = 2\n");
}

/* Runs a line of the program whose output is JSON. */
static cJSON *object_of(const char *words)
{
    ran r = cli_run(words, lenet());
    cJSON *o = json_of(r.out, strlen(r.out));
    cli_done(&r);
    return o;
}

static bool equal(double a, double b)
{
    return fabs(a - b) <= 1e-6 * fabs(b);
}

/* Large layers, whose parameters and moments are as many bytes as the values. */
static const char *heavy(void)
{
    return cli_file("heavy.ini",
        "[model]\nimage = 16\nclasses = 10\n[data]\nsource = synthetic\n[train]\nbatch = 64\n"
        "micro_batch = 64\noptimizer = adam\nprecision = fp32\n[device]\nthreads = 2\n"
        "[conv a]\nout = 64\nkernel = 3\npad = 1\n[relu ar]\n"
        "[conv b]\nout = 64\nkernel = 3\npad = 1\n[relu br]\n"
        "[conv c]\nout = 64\nkernel = 3\npad = 1\n[relu cr]\n[maxpool p]\nkernel = 4\n"
        "[fc d]\nout = 1024\n[relu dr]\n[fc e]\nout = 10\n");
}

static const cJSON *row_of(const cJSON *all, const char *policy, double budget)
{
    const cJSON *o;
    cJSON_ArrayForEach(o, all) if (strcmp(json_text(o, "policy"), policy) == 0 &&
                                   equal(json_number(o, "budget"), budget) &&
                                   json_flag(o, "fits")) return o;
    return NULL;
}

/* No plan's step is shorter than its bound says; more than so many fit. */
static void assert_none_below_the_bound(const cJSON *all, int than)
{
    const cJSON *o;
    int fit = 0;
    cJSON_ArrayForEach(o, all) if (json_flag(o, "fits"))
    {
        assert_true(json_number(o, "bound_seconds") <= json_number(o, "step_seconds") * (1 + 1e-9));
        fit++;
    }
    assert_true(fit > than);
}

/* Homes of parameters are taken where a step is faster with them, and not only where nothing fits
 * without; and a bound gives the step the bytes that they leave. */
static void auto_is_not_behind_what_has_homes(void **state)
{
    NEED_BINARY();
    dt_take_turns(0, 4);
    ran r = cli_run("compare FILE --json --set memory.simulate=p100 --set memory.cache=none "
                    "--policies zero_offload;zero_offload,chen_cheap;auto "
                    "--budgets 26000000,33320000,33450000,33600000",
        heavy());
    assert_code(&r, 0);
    cJSON *all = json_of(r.out, strlen(r.out));
    const cJSON *o;
    int held = 0;
    assert_none_below_the_bound(all, 0);
    cJSON_ArrayForEach(o, all)
    {
        const cJSON *a = row_of(all, "auto", json_number(o, "budget"));
        if (a == NULL || a == o || !json_flag(o, "fits"))
            continue;
        assert_true(json_number(a, "step_seconds") <= json_number(o, "step_seconds") * (1 + 1e-9));
        held++;
    }
    assert_true(held > 4);
    cJSON_Delete(all);
    cli_done(&r);
}

/* What packs by an option of its own has a bound of its own, as plans beside it do not pack so. */
static void what_packs_is_not_below_the_bound(void **state)
{
    NEED_BINARY();
    ran r = cli_run("compare FILE --json --set memory.simulate=p100 --set memory.tier=disk "
                    "--policies cdma;vdnn_all --set policy.cdma.density=0.01 --budgets 4",
        heavy());
    assert_code(&r, 0);
    cJSON *all = json_of(r.out, strlen(r.out));
    assert_none_below_the_bound(all, 4);
    cJSON_Delete(all);
    cli_done(&r);
}

/* It may run a weight's copy into another layout before the input is there. */
static void what_has_another_order_is_not_below_the_bound(void **state)
{
    NEED_BINARY();
    dt_take_turns(1, 4);
    static const char *const policies[] = {"swapadvisor", "auto"};
    for (size_t i = 0; i < DT_COUNT(policies); i++) {
        char words[256];
        snprintf(words, sizeof words,
            "plan FILE --json --set memory.simulate=rtx3090 --set memory.device_budget=8938474 "
            "--set memory.policy=%s",
            policies[i]);
        ran r = cli_run(words, dt_source_path("configs/chain.ini"));
        assert_code(&r, 0);
        cJSON *o = json_of(r.out, strlen(r.out));
        const cJSON *of = cJSON_GetObjectItem(o, "predicted");
        assert_true(json_number(of, "bound_seconds") <= json_number(of, "step_seconds"));
        cJSON_Delete(o);
        cli_done(&r);
    }
}

static void each_plan_is_the_one_that_plan_makes(void **state)
{
    NEED_BINARY();
    dt_take_turns(2, 4);
    cJSON *all = object_of("compare FILE --json --budgets 2.5MiB,3MiB,4MiB "
                           "--policies all;chen_sqrt,vdnn_conv --set memory.simulate=p100");
    const cJSON *o;
    int n = 0, fit = 0;
    cJSON_ArrayForEach(o, all)
    {
        char words[512];
        const double budget = json_number(o, "budget");
        fit += json_flag(o, "fits");
        assert_true(
            json_flag(o, "whole_batch") == (strstr(json_text(o, "policy"), "modnn") != NULL));
        if (!dt_picked((uint64_t)n++, 12, 12, 1))
            continue;
        snprintf(words, sizeof words,
            "plan FILE --json --set memory.simulate=p100 --set train.micro_batch=64 --set "
            "memory.policy=%s "
            "--set memory.device_budget=%.0f",
            json_text(o, "policy"), budget);
        cJSON *plan = object_of(words);
        const cJSON *device = cJSON_GetObjectItemCaseSensitive(plan, "device");
        const cJSON *predicted = cJSON_GetObjectItemCaseSensitive(plan, "predicted");
        assert_true(equal(json_number(o, "device_peak"), json_number(device, "peak")));
        assert_true(equal(json_number(o, "step_seconds"), json_number(predicted, "step_seconds")));
        assert_true(
            equal(json_number(o, "bound_seconds"), json_number(predicted, "bound_seconds")));
        assert_true(equal(
            json_number(o, "images_per_second"), json_number(predicted, "samples_per_second")));
        assert_true(json_flag(o, "fits") == json_flag(plan, "fits"));
        assert_true(json_flag(o, "exact") == json_flag(plan, "exact"));
        assert_true(json_flag(o, "fits") == (json_number(o, "device_peak") <= budget));
        assert_true(json_number(o, "bound_seconds") <= json_number(o, "step_seconds"));
        assert_string_equal(json_text(o, "costs"), "simulated");
        cJSON_Delete(plan);
    }
    assert_true(n % 3 == 0 && n >= 30 && fit > 0 && fit < n);
    cJSON_Delete(all);
}

static void auto_is_behind_no_exact_plan_that_fits(void **state)
{
    NEED_BINARY();
    dt_take_turns(3, 4);
    cJSON *all = object_of("compare FILE --json --budgets 3 --set memory.simulate=p100");
    const cJSON *a, *b;
    int n = 0;
    cJSON_ArrayForEach(a, all)
    {
        if (strcmp(json_text(a, "policy"), "auto") != 0)
            continue;
        assert_true(json_flag(a, "fits"));
        cJSON_ArrayForEach(b, all)
        {
            if (json_flag(b, "fits") && json_flag(b, "exact") &&
                equal(json_number(b, "budget"), json_number(a, "budget")))
                assert_true(
                    json_number(a, "step_seconds") <= json_number(b, "step_seconds") * (1 + 1e-9));
        }
        n++;
    }
    assert_int_equal(n, 3); /* once a budget */
    cJSON_Delete(all);
}

/* In table, CSV, JSON and picture; each is what a comparison under that budget says of auto. */
static void the_front_of_auto_is_shown_where_asked(void **state)
{
    NEED_BINARY();
    dt_take_turns(0, 4);
    enum { BUDGETS = 2, FRONT = 16 };
    char csv[1024], svg[1024], words[4096];
    snprintf(csv, sizeof csv, "%s", dt_temp_path("front.csv"));
    snprintf(svg, sizeof svg, "%s", dt_temp_path("front.svg"));
    snprintf(words, sizeof words,
        "compare FILE --json --policies auto;chen_sqrt --budgets %d --front --set "
        "memory.simulate=p100 --set policy.auto.searches=off --csv %s --svg %s",
        BUDGETS, csv, svg);
    cJSON *all = object_of(words);
    const cJSON *o, *middle = NULL;
    double last = 0;
    int autos = 0, others = 0;
    cJSON_ArrayForEach(o, all)
    {
        const bool is_auto = strcmp(json_text(o, "policy"), "auto") == 0;
        autos += is_auto;
        others += !is_auto;
        if (!is_auto || autos <= BUDGETS)
            continue;
        assert_true(json_flag(o, "fits") && json_number(o, "budget") > last);
        assert_true(json_number(o, "bound_seconds") <= json_number(o, "step_seconds"));
        last = json_number(o, "budget");
        middle = autos == BUDGETS + FRONT / 2 ? o : middle;
    }
    assert_int_equal(others, 2 * BUDGETS); /* keep_all and chen_sqrt, as without */
    assert_in_range(autos, BUDGETS + FRONT - 2, BUDGETS + FRONT);
    char *table = cli_text(csv), *picture = cli_text(svg);
    int lines = 0, marks = 0;
    for (const char *at = table; (at = strstr(at, "\nauto,")) != NULL; at++)
        lines++;
    for (const char *at = picture; (at = strstr(at, "<title>auto, planned by")) != NULL; at++)
        marks++;
    assert_int_equal(lines, autos);
    assert_true(marks > BUDGETS);
    dt_free(table);
    dt_free(picture);
    assert_non_null(middle);
    snprintf(words, sizeof words,
        "compare FILE --json --policies auto --budgets %.0f,%.0f --set memory.simulate=p100 --set "
        "policy.auto.searches=off",
        json_number(middle, "budget"), 2 * last);
    cJSON *one = object_of(words);
    cJSON_ArrayForEach(o, one) if (strcmp(json_text(o, "policy"), "auto") == 0 &&
                                   equal(json_number(o, "budget"), json_number(middle, "budget")))
        assert_true(equal(json_number(o, "step_seconds"), json_number(middle, "step_seconds")) &&
                    equal(json_number(o, "device_peak"), json_number(middle, "device_peak")));
    cJSON_Delete(one);
    cJSON_Delete(all);
    ran r = cli_run("compare FILE --policies chen_sqrt --front", lenet());
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "--front is auto's, and no list of --policies 'chen_sqrt' has it");
    cli_done(&r);
}

/* Under a larger budget no plan is refused, nor a step @most times what a smaller one has. */
static void assert_no_step_up(const cJSON *all, const char *policy, double most)
{
    const cJSON *o;
    double last = 0, least = HUGE_VAL;
    int fit = 0;
    cJSON_ArrayForEach(o, all) /* from the smallest budget on */
    {
        if (strcmp(json_text(o, "policy"), policy) != 0)
            continue;
        const double budget = json_number(o, "budget"), step = json_number(o, "step_seconds");
        assert_true(budget > last);
        last = budget;
        if (!json_flag(o, "fits")) {
            if (fit > 0)
                fail_msg("%s fits in less than %.0f bytes, and not in these", policy, budget);
            continue;
        }
        if (!(step <= most * least))
            fail_msg("%s: %g s in %.0f bytes, %g s in less", policy, step, budget, least);
        least = step < least ? step : least;
        fit++;
    }
    assert_true(fit >= 4); /* with more threads workspaces, and so the least budget, grow */
}

/* Budgets lie between keep_all and the least of others also where no policy without a budget is
 * named; and under a larger one no plan is refused, nor is it much slower. */
static void more_memory_is_no_worse(void **state)
{
    NEED_BINARY();
    dt_take_turns(1, 4);
    static const char *const named[] = {"tflms", "flashneuron", "sentinel", "autotm"};
    const size_t n = DT_COUNT(named) - (dt_solver_name() == NULL); /* which the last one needs */
    char words[256] = "compare FILE --json --budgets 12 --set memory.simulate=p100 --policies ";
    for (size_t i = 0; i < n; i++)
        snprintf(words + strlen(words), sizeof words - strlen(words), "%s%s", i > 0 ? ";" : "",
            named[i]);
    ran r = cli_run(
        words, cli_file("rn.ini", "[model]\nname = resnet50\nimage = 64\n[train]\nbatch = 16\n"));
    assert_code(&r, 0);
    cJSON *all = json_of(r.out, strlen(r.out));
    for (size_t i = 0; i < n; i++)
        assert_no_step_up(all, named[i], 1.25);
    cJSON_Delete(all);
    cli_done(&r);
}

/* Those that compare several plans for a budget, on networks where one plan alone took a fifth
 * longer in more memory. */
static void by_avx2(void)
{
    setenv("DT_ISA", "avx2", 1);
}

static void more_memory_is_hardly_slower(void **state)
{
    NEED_BINARY();
    dt_take_turns(2, 4);
    static const struct {
        const char *model, *policy;
    } all[] = {{"mobilenet_v2", "sentinel"}, {"googlenet", "flashneuron"},
        {"densenet121", "sentinel"}, {"densenet121", "flashneuron"}, {"resnet50", "sentinel"},
        {"resnet50", "flashneuron"}, {"googlenet", "sentinel"}, {"mobilenet_v2", "flashneuron"}};
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        char text[256], words[256];
        if (i >= 2 && !dt_picked(i, 8, 8, 1))
            continue;
        snprintf(text, sizeof text,
            "[model]\nname = %s\n[data]\nsource = synthetic\n[train]\nbatch = 16\nmomentum = "
            ".9\n[device]\nthreads = 2\n",
            all[i].model);
        snprintf(words, sizeof words,
            "compare FILE --json --budgets 16 --policies keep_all;vdnn_all;%s --set "
            "memory.simulate=p100",
            all[i].policy);
        cli.child = by_avx2; /* plans differ by instruction set, and budgets with them */
        ran r = cli_run(words, cli_file("step.ini", text));
        cli.child = NULL;
        cJSON *rows = json_of(r.out, strlen(r.out));
        assert_no_step_up(rows, all[i].policy, 1.04);
        cJSON_Delete(rows);
        cli_done(&r);
    }
}

/* Seconds of a policy's step in so many bytes, and whether it fits; false: it is not in the list.
 */
static bool step_of(
    const cJSON *all, const char *policy, double budget, double *seconds, bool *fits)
{
    const cJSON *o;
    cJSON_ArrayForEach(o, all)
    {
        if (strcmp(json_text(o, "policy"), policy) != 0 || !equal(json_number(o, "budget"), budget))
            continue;
        *seconds = json_number(o, "step_seconds");
        *fits = json_flag(o, "fits");
        return true;
    }
    return false;
}

static cJSON *searched(const char *model, int samples)
{
    char text[256], words[512];
    snprintf(text, sizeof text, "[model]\nname = %s\nimage = 96\n[train]\nbatch = 16\n", model);
    snprintf(words, sizeof words,
        "compare FILE --json --budgets 4 --policies vdnn_all;superneurons;swapadvisor "
        "--set memory.simulate=p100 --set policy.superneurons.recompute=off "
        "--set policy.swapadvisor.least=64KiB --set policy.swapadvisor.samples=%d",
        samples);
    ran r = cli_run(words, cli_file("searched.ini", text));
    cJSON *all = json_of(r.out, strlen(r.out));
    cli_done(&r);
    return all;
}

/* swapadvisor is no slower than the cache that swaps what was used least recently, and no slower
 * with more samples. */
static void a_search_is_no_slower_than_where_it_begins(void **state)
{
    NEED_BINARY();
    dt_take_turns(3, 4);
    static const char *const model[] = {"resnet18", "googlenet", "mobilenet_v2"};
    int compared = 0;
    for (size_t i = 0; i < DT_COUNT(model); i++) {
        cJSON *few = searched(model[i], 150), *many = searched(model[i], 600);
        const cJSON *o;
        cJSON_ArrayForEach(o, few)
        {
            const double budget = json_number(o, "budget"), step = json_number(o, "step_seconds");
            double lru = 0, more = 0;
            bool lru_fits = false, more_fits = false;
            if (strcmp(json_text(o, "policy"), "swapadvisor") != 0 || !json_flag(o, "fits"))
                continue;
            assert_true(step_of(few, "superneurons", budget, &lru, &lru_fits));
            assert_true(step_of(many, "swapadvisor", budget, &more, &more_fits));
            if (lru_fits && !(step <= 1.01 * lru))
                fail_msg("%s in %.0f bytes: %g s, %g s by age", model[i], budget, step, lru);
            if (!more_fits || !(more <= step))
                fail_msg("%s in %.0f bytes: %g s, %g s before", model[i], budget, more, step);
            compared += lru_fits;
        }
        cJSON_Delete(few);
        cJSON_Delete(many);
    }
    assert_true(compared >= 6);
}

/* None of those marked is ahead of another, and one of them is of what is not marked. */
static void those_marked_are_the_best(void **state)
{
    NEED_BINARY();
    dt_take_turns(0, 4);
    cJSON *all = object_of("compare FILE --json --budgets 3 --policies all "
                           "--set memory.simulate=p100");
    const cJSON *a, *b;
    int marked = 0;
    cJSON_ArrayForEach(a, all)
    {
        bool ahead = false;
        cJSON_ArrayForEach(b, all)
        {
            const bool less = json_number(b, "device_peak") < json_number(a, "device_peak"),
                       faster = json_number(b, "step_seconds") < json_number(a, "step_seconds");
            ahead = ahead || (json_flag(b, "exact") && (less || faster) &&
                                 json_number(b, "device_peak") <= json_number(a, "device_peak") &&
                                 json_number(b, "step_seconds") <= json_number(a, "step_seconds"));
        }
        if (json_flag(a, "best"))
            assert_true(json_flag(a, "exact") && !ahead);
        marked += json_flag(a, "best");
    }
    assert_true(marked > 0);
    cJSON_Delete(all);
}

/* What a run would take in parts is said to be planned at once; a budget given twice is one. */
static void what_is_planned_at_once_is_told(void **state)
{
    NEED_BINARY();
    ran r = cli_run("compare FILE --policies modnn --budgets 2MiB,2MiB,3MiB "
                    "--set memory.simulate=p100",
        lenet());
    assert_has(r.out, "budgets of the device: 2.00 MiB, 3.00 MiB\n");
    assert_has(r.out, "modnn: of the batch at once; a run leaves train.micro_batch to it");
    cli_done(&r);
    r = cli_run("compare FILE --policies modnn --budgets 2MiB --set memory.simulate=p100 "
                "--set train.micro_batch=4",
        lenet());
    assert_has_not(r.out, "at once");
    cli_done(&r);
}

/* In the table, for programs and on the page: no plan of capuchin's is smaller than keep_all's, as
 * all values are too small for it. Under a budget that keep_all keeps to that is no fault. */
static void what_saves_nothing_is_told(void **state)
{
    NEED_BINARY();
    static const char says[] =
        "capuchin saves nothing here: it leaves values below 2.00 MiB alone, "
        "policy.capuchin.least, and the largest takes 1.00 MiB";
    char html[1024], chain[1024], words[2048];
    snprintf(chain, sizeof chain, "%s", dt_source_path("configs/chain.ini"));
    snprintf(html, sizeof html, "%s", dt_temp_path("vain.html"));
    snprintf(words, sizeof words,
        "compare FILE --policies network_wide;capuchin;sentinel --budgets 3 --json "
        "--set memory.simulate=p100 --html %.1000s",
        html);
    ran r = cli_run(words, chain);
    assert_code(&r, 0);
    cJSON *all = json_of(r.out, strlen(r.out));
    char *page = cli_text(html);
    const cJSON *o;
    int told = 0;
    cJSON_ArrayForEach(o, all)
    {
        const char *policy = json_text(o, "policy");
        const bool vain = strcmp(policy, "capuchin") == 0 || strcmp(policy, "network_wide") == 0;
        assert_true(vain == (cJSON_GetObjectItemCaseSensitive(o, "in_vain") != NULL));
        if (strcmp(policy, "capuchin") == 0)
            assert_string_equal(json_text(o, "in_vain"), says);
        told += vain;
    }
    assert_int_equal(told, 2 * 3);
    assert_has(page, says);
    dt_free(page);
    cJSON_Delete(all);
    cli_done(&r);
    r = cli_run(
        "compare FILE --policies capuchin;autoswap --budgets 1 --set memory.simulate=p100", chain);
    assert_has_not(r.out, "saves nothing");
    cli_done(&r);
    r = cli_run("sweep FILE --policies capuchin --set memory.device_budget=6MiB", chain);
    assert_has(r.out, "is no larger than keep_all's; it leaves\n  values below 2.00 MiB alone");
    cli_done(&r);
}

/* The line of a list that one of its policies alone is as good as, told in the table and for
 * programs; NULL: there is none. */
static void assert_told(const char *table, const cJSON *all, const char *list, const char *says)
{
    char begin[128];
    const cJSON *o;
    int rows = 0;
    snprintf(begin, sizeof begin, "\n%s is ", list);
    cJSON_ArrayForEach(o, all)
    {
        if (strcmp(json_text(o, "policy"), list) != 0)
            continue;
        rows++;
        if (says != NULL)
            assert_string_equal(json_text(o, "in_vain"), says);
        else
            assert_null(cJSON_GetObjectItemCaseSensitive(o, "in_vain"));
    }
    assert_true(rows > 0);
    if (says == NULL)
        assert_has_not(table, begin);
    else
        assert_has(table, begin);
}

/* Policies of a list are planned by themselves as well, and a list that adds nothing says so. */
static void a_list_that_is_no_better_than_a_part_is_told(void **state)
{
    NEED_BINARY();
    dt_take_turns(1, 4);
    static const char words[] =
        "compare FILE --policies vdnn_all,vdnn_conv;chen_sqrt,vdnn_all;cdma,chen_cheap;geeps,auto "
        "--budgets 2 --set memory.simulate=p100 --set memory.cache=none "
        "--set policy.auto.searches=off --set policy.auto.moves=0";
    char chain[1024], json[1024];
    snprintf(chain, sizeof chain, "%s", dt_source_path("configs/chain.ini"));
    snprintf(json, sizeof json, "%s --json", words);
    ran r = cli_run(words, chain), j = cli_run(json, chain);
    assert_code(&r, 0);
    assert_code(&j, 0);
    cJSON *all = json_of(j.out, strlen(j.out));
    static const char *const alone[] = {"vdnn_conv", "chen_sqrt", "cdma", "chen_cheap", "geeps"};
    for (size_t i = 0; i < DT_COUNT(alone); i++)
        assert_told(r.out, all, alone[i], NULL);
    const cJSON *o;
    cJSON_ArrayForEach(o, all) assert_string_not_equal(json_text(o, "policy"), "auto");
    assert_told(r.out, all, "chen_sqrt,vdnn_all", NULL);
    assert_told(r.out, all, "vdnn_all,vdnn_conv",
        "vdnn_all,vdnn_conv is no better here than vdnn_all alone, which takes as much memory and "
        "time");
    assert_told(r.out, all, "cdma,chen_cheap",
        "cdma,chen_cheap is worse here than cdma alone, which takes no more memory and time, and "
        "less of one");
    cJSON_Delete(all);
    cli_done(&r);
    cli_done(&j);
}

static size_t count(const char *in, const char *what)
{
    size_t n = 0;
    for (const char *at = in; (at = strstr(at, what)) != NULL; at++)
        n++;
    return n;
}

/* Of what lives elsewhere less comes ahead where a budget wants it. Where that is too much all the
 * same, it is no row more; programs are told what `plan` says under that budget. */
static void what_misses_its_budgets_has_one_row(void **state)
{
    NEED_BINARY();
    char svg[1024], words[2048];
    snprintf(svg, sizeof svg, "%s", dt_temp_path("missed.svg"));
    snprintf(words, sizeof words,
        "compare FILE --set memory.simulate=p100 --policies zero_offload --budgets "
        "1MiB,2MiB,3MiB,1GiB --svg %.1000s",
        svg);
    ran r = cli_run(words, lenet());
    assert_code(&r, 0);
    assert_int_equal(count(r.out, "zero_offload "), 1);
    assert_has_not(r.out, "is above that budget");
    char *picture = cli_text(svg);
    assert_int_equal(count(picture, "<title>zero_offload"), 1 + 1); /* and in the column */
    dt_free(picture);
    cli_done(&r);
    cJSON *all = object_of("compare FILE --json --set memory.simulate=p100 --policies zero_offload "
                           "--budgets 1MiB,2MiB,3MiB,1GiB");
    assert_int_equal(cJSON_GetArraySize(all), 2 * 4);
    const cJSON *least = cJSON_GetArrayItem(all, 4), *most = cJSON_GetArrayItem(all, 7);
    assert_string_equal(json_text(least, "policy"), "zero_offload");
    assert_true(!json_flag(least, "fits") && json_flag(most, "fits"));
    assert_true(json_number(least, "device_peak") < json_number(most, "device_peak"));
    cJSON_Delete(all);
}

static void files_hold_the_same(void **state)
{
    NEED_BINARY();
    char csv[1024], svg[1024], words[4096];
    snprintf(csv, sizeof csv, "%s", dt_temp_path("compare.csv"));
    snprintf(svg, sizeof svg, "%s", dt_temp_path("compare.svg"));
    snprintf(words, sizeof words,
        "compare FILE --budgets 9MiB,2MiB --policies vdnn_all;chen_cheap,vdnn_conv "
        "--set memory.simulate=p100 --csv %.1000s --svg %.1000s",
        csv, svg);
    ran r = cli_run(words, lenet());
    assert_code(&r, 0);
    assert_has(r.out, "times are simulated: Tesla P100");
    assert_has(r.out, "chen_cheap,vdnn_conv");
    cli_done(&r);
    char *table = cli_text(csv), *picture = cli_text(svg);
    assert_int_equal(count(table, "\n"), 1 + 5 * 2); /* keep_all and parts are always there */
    assert_has(table, "policy,budget,fits,device_peak,");
    assert_has(table, "\n\"chen_cheap,vdnn_conv\",2097152,"); /* the smaller budget first */
    assert_has_not(table, "nan");
    assert_int_equal(strncmp(picture, "<svg ", 5), 0);
    assert_has(picture, "prefers-color-scheme:dark");
    assert_has(picture, "ops alone");
    assert_has(picture, "<title>vdnn_all: ");
    assert_int_equal(count(picture, "<title>"), 5 + 5); /* in the plot, and in the column */
    assert_has_not(picture, "nan");
    assert_has_not(picture, "inf ");
    assert_has(picture + strlen(picture) - 7, "</svg>\n");
    dt_free(table);
    dt_free(picture);
}

/* One that is named ends the command; with those that "all" brings the others are compared. */
static void only_a_policy_that_is_named_must_be_planned(void **state)
{
    NEED_BINARY();
    char csv[1024], svg[1024], words[4096];
    snprintf(csv, sizeof csv, "%s", dt_temp_path("refused.csv"));
    snprintf(svg, sizeof svg, "%s", dt_temp_path("refused.svg"));
    snprintf(words, sizeof words,
        "compare FILE --set train.precision=bf16 --policies all --budgets 1 --csv %.1000s "
        "--svg %.1000s",
        csv, svg);
    ran r = cli_run(words, lenet());
    assert_code(&r, 0);
    assert_has(r.out, "\n  actnn          refused\n");
    assert_has(r.out, "\nrefused: actnn: actnn packs values of 32 bits, but");
    cli_done(&r);
    char *table = cli_text(csv), *picture = cli_text(svg);
    assert_has(table, ",in_vain,refused\n");
    assert_has(table, "\nactnn,,no,,,");
    assert_has(table, ",\"actnn packs values of 32 bits, but");
    assert_has(picture, ">actnn (refused)<");
    dt_free(table);
    dt_free(picture);
    r = cli_run("compare FILE --set train.precision=bf16 --policies vdnn_dyn --json", lenet());
    assert_code(&r, 0); /* where the least is sought among all policies */
    cli_done(&r);
    r = cli_run("compare FILE --set train.precision=bf16 --policies all;actnn", lenet());
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "actnn packs values of 32 bits");
    cli_done(&r);
}

/* What the column beside the plot says, line by line, each within the picture: letters are some 7
 * pixels wide. @to: all of it, without breaks. */
static void read_column(const char *picture, char *to, size_t bytes)
{
    enum { WIDE = 1000 };
    to[0] = '\0';
    for (const char *at = picture; (at = strstr(at, "<text x=\"808.0\"")) != NULL; at++) {
        const char *from = strchr(at, '>') + 1;
        const size_t n = strcspn(from, "<"), had = strlen(to);
        assert_true(808 + 7 * n < WIDE);
        assert_true(had + n + 1 < bytes);
        snprintf(to + had, bytes - had, "%.*s", (int)n, from);
    }
}

static void long_names_stay_in_the_picture(void **state)
{
    NEED_BINARY();
    char svg[1024], words[2048], said[2048];
    snprintf(svg, sizeof svg, "%s", dt_temp_path("long.svg"));
    snprintf(words, sizeof words,
        "compare FILE --budgets 1 --set memory.simulate=p100 --policies "
        "vdnn_all,chen_budget,gist_lossless;vdnn_conv,gist --svg %.1000s",
        svg);
    ran r = cli_run(words, lenet());
    assert_code(&r, 0);
    char *picture = cli_text(svg);
    read_column(picture, said, sizeof said);
    assert_has(said, "gist_losslessvdnn_all,chen_budget,gist_losslessvdnn_conv");
    assert_has(said, "gist (changes results)vdnn_conv,gist (changes results)");
    dt_free(picture);
    cli_done(&r);
}

/* A panel of a picture: marks in its cell of two columns, and a line of what auto comes to, whose
 * points are counted. @at: where it begins. Returns its end. */
static const char *check_panel(const char *at, size_t i, size_t *points)
{
    enum { WIDE = 500, HIGH = 410, TOP = 72 };
    const double left = (double)(i % 2) * WIDE, top = TOP + (double)(i / 2) * HIGH;
    const char *end = strstr(at, "</g>\n"), *line = strstr(at, "<path class=\"x\" d=\"M");
    size_t marks = 0;
    assert_non_null(end);
    for (; (at = strstr(at, "<path transform=\"translate(")) != NULL && at < end; at++, marks++) {
        double x, y;
        assert_int_equal(sscanf(at, "<path transform=\"translate(%lf %lf)", &x, &y), 2);
        assert_true(x > left && x < left + WIDE && y > top && y < top + HIGH);
    }
    assert_true(marks > 3);
    *points = 0;
    if (line != NULL && line < end)
        for (*points = 1; *line != '/'; line++)
            *points += *line == 'L';
    return end;
}

/* Variants that differ by the machine alone: each has a panel with its name, its own bounds and its
 * own best plans; what marks mean stands behind the last one, once. */
static void a_card_is_a_panel(void **state)
{
    NEED_BINARY();
    dt_take_turns(2, 4);
    static const char *const cards[] = {"Tesla K40", "Tesla P100 16GB", "Tesla V100 16GB"};
    char svg[1024], words[4096];
    snprintf(svg, sizeof svg, "%s", dt_temp_path("panels.svg"));
    snprintf(words, sizeof words,
        "compare FILE --budgets 3MiB,4MiB --policies vdnn_all;chen_sqrt;auto "
        "--vary memory.simulate=k40,p100,v100 --svg %.1000s",
        svg);
    ran r = cli_run(words, lenet());
    assert_code(&r, 0);
    cli_done(&r);
    char *picture = cli_text(svg);
    const char *at = picture;
    assert_int_equal(count(picture, "<g class=\"panel\">"), DT_COUNT(cards));
    assert_int_equal(count(picture, ">ops alone<"), DT_COUNT(cards));
    assert_int_equal(count(picture, "<clipPath id=\"plot"), DT_COUNT(cards));
    assert_int_equal(count(picture, "<path class=\"f\""), DT_COUNT(cards)); /* the best of each */
    for (size_t i = 0; i < DT_COUNT(cards); i++) {
        size_t points;
        char name[64];
        at = strstr(at, "<g class=\"panel\">");
        assert_non_null(at);
        snprintf(name, sizeof name, ">%s</text>", cards[i]);
        assert_true(strstr(at, name) != NULL && strstr(at, name) < strstr(at, "</g>\n"));
        at = check_panel(at, i, &points);
        assert_true(points >= 2);
    }
    assert_has(at, ">vdnn_all</text>");
    assert_has(at, ">auto, by budgets</text>");
    assert_has_not(picture, "nan");
    assert_has_not(picture, "inf ");
    dt_free(picture);
}

/* Cards of one's own that differ in a key are machines as well, told apart by what they are called.
 */
static void a_key_of_a_card_is_a_panel(void **state)
{
    NEED_BINARY();
    char svg[1024], words[2048];
    snprintf(svg, sizeof svg, "%s", dt_temp_path("own.svg"));
    snprintf(words, sizeof words,
        "compare FILE --budgets 1 --policies vdnn_all --set memory.simulate=own --set "
        "card.like=p100 --vary card.link=8,31.5 --svg %.1000s",
        svg);
    ran r = cli_run(words, lenet());
    assert_code(&r, 0);
    assert_has(r.out, "times are simulated, of each variant's card\n");
    char *picture = cli_text(svg);
    assert_int_equal(count(picture, "<g class=\"panel\">"), 2);
    assert_has(picture, ">like Tesla P100 16GB, link 8</text>");
    assert_has(picture, ">like Tesla P100 16GB, link 31.5</text>");
    dt_free(picture);
    cli_done(&r);
}

/* Backward of a relu reads a mask in place of values under gist_lossless, and is faster by that
 * than under keep_all: such a plan is not below the floor either. */
static void no_exact_plan_is_below_the_floor(void **state)
{
    NEED_BINARY();
    enum { RELUS = 20 };
    char ini[1024], svg[1024], words[2048];
    size_t at = (size_t)snprintf(ini, sizeof ini,
        "[model]\nimage = 32\nchannels = 1\nfuse = off\n[data]\nsamples = 64\n[train]\n"
        "batch = 64\n[conv c]\nout = 16\nkernel = 1\n");
    for (int i = 0; i < RELUS; i++)
        at += (size_t)snprintf(ini + at, sizeof ini - at, "[relu r%d]\n", i);
    snprintf(ini + at, sizeof ini - at, "[global_avgpool g]\n[fc f]\nout = 10\n");
    snprintf(svg, sizeof svg, "%s", dt_temp_path("floor.svg"));
    snprintf(words, sizeof words,
        "compare FILE --policies gist_lossless --set memory.simulate=p100 --svg %s", svg);
    ran r = cli_run(words, cli_file("relus.ini", ini));
    assert_code(&r, 0);
    cli_done(&r);
    char *picture = cli_text(svg);
    double floor_y, y;
    const char *floor_at = strstr(picture, "<rect class=\"n\"");
    assert_non_null(floor_at);
    assert_int_equal(sscanf(strstr(floor_at, " y="), " y=\"%lf", &floor_y), 1);
    const char *title = strstr(picture, "<title>gist_lossless: ");
    assert_non_null(title);
    while (strncmp(title, "translate(", strlen("translate(")) != 0)
        title--;
    assert_int_equal(sscanf(title, "translate(%*f %lf", &y), 1);
    assert_true(y <= floor_y);
    dt_free(picture);
}

/* tests/long pictures draws it again, which takes minutes; that a policy came since is seen here.
 */
static void the_survey_shows_every_policy(void **state)
{
    (void)state;
    enum { CARDS = 5, FRONT = 8 };
    char *picture = cli_text(dt_source_path("docs/pictures/survey.svg"));
    const char *at = picture;
    for (size_t i = 0, points = 0; i < CARDS; i++) {
        at = strstr(at, "<g class=\"panel\">");
        assert_non_null(at);
        at = check_panel(at, i, &points);
        if (points < FRONT)
            fail_msg("auto's line in panel %zu has %zu points", i, points);
    }
    size_t n;
    const dt_policy *const *all = dt_policy_all(&n);
    for (size_t i = 0; i < n; i++) {
        char exact[64], lossy[64];
        snprintf(exact, sizeof exact, ">%s<", all[i]->name);
        snprintf(lossy, sizeof lossy, ">%s (", all[i]->name);
        if (strstr(picture, exact) == NULL && strstr(picture, lossy) == NULL)
            fail_msg("docs/pictures/survey.svg has no plan of %s; `tests/long pictures` draws it "
                     "again",
                all[i]->name);
    }
    dt_free(picture);
}

/* Marks stand in the plot, those too that take many times as long as the others. */
static void what_is_far_slower_stands_at_the_end_of_the_axis(void **state)
{
    NEED_BINARY();
    dt_take_turns(3, 4);
    char path[1024], words[2048];
    snprintf(path, sizeof path, "%s", dt_temp_path("slow.svg"));
    snprintf(words, sizeof words,
        "compare %s --set memory.simulate=v100 --policies all --budgets 8MiB "
        "--svg %.1000s",
        dt_source_path("configs/chain.ini"), path);
    ran r = cli_run(words, NULL);
    assert_code(&r, 0);
    cli_done(&r);
    char *svg = cli_text(path);
    assert_has(svg, "at the top: longer, up to ");
    double x, y, least = 1e9;
    size_t n = 0;
    for (const char *at = svg; (at = strstr(at, "translate(")) != NULL; at++)
        if (sscanf(at, "translate(%lf %lf)", &x, &y) == 2) {
            least = y < least ? y : least;
            n++;
        }
    assert_true(n > 20);
    assert_in_range((int)least, 72, 90);
    dt_free(svg);
}

/* Over a slow link, or to a slow disk. */
static char *slow_picture(const char *how)
{
    char path[1024], words[2048];
    snprintf(path, sizeof path, "%s", dt_temp_path("slow.svg"));
    snprintf(words, sizeof words,
        "compare %s --set memory.simulate=own --set card.like=v100 %s --svg %.1000s",
        dt_source_path("configs/chain.ini"), how, path);
    ran r = cli_run(words, NULL);
    assert_code(&r, 0);
    cli_done(&r);
    return cli_text(path);
}

static void what_takes_long_is_told_without_exponents_and_zeros(void **state)
{
    NEED_BINARY();
    double seconds = 0, ms = 0;
    char *svg = slow_picture("--set card.disk_out=0.001 --set card.disk_in=0.001 --policies all "
                             "--budgets 8MiB");
    const char *at = strstr(svg, "at the top: longer, up to ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "at the top: longer, up to %lf", &ms), 1);
    char told[DT_HUMAN_BYTES + 32], human[DT_HUMAN_BYTES];
    snprintf(told, sizeof told, "up to %s</text>", dt_human_seconds(human, ms / 1e3));
    assert_true(ms >= 100);
    assert_has(at, told);
    dt_free(svg);
    svg = slow_picture("--set card.link=0.001 --set model.image=256 --policies vdnn_all");
    at = strstr(svg, "<title>vdnn_all: ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "<title>vdnn_all: %*[^,], %lf s", &seconds), 1);
    snprintf(told, sizeof told, "s, %s samples a second<", dt_human_rate(human, 16 / seconds));
    assert_has(at, told);
    assert_true(strtod(human, NULL) > 0 && strtod(human, NULL) < 0.05);
    dt_free(svg);
}

/* ---- heights of marks ---- */

enum { MOST_MARKS = 128, TITLE = 512 };

/* @front: it is larger, as no exact plan is ahead of it */
typedef struct mark {
    double x, y, seconds;
    bool front;
} mark;

static size_t marks_of(const char *svg, mark *all)
{
    char title[TITLE];
    size_t n = 0;
    for (const char *at = svg; (at = strstr(at, "<path transform=")) != NULL; at++) {
        mark m = {.front = false};
        const char *words = strstr(at, "<title>"), *end = strstr(at, "</title>");
        assert_int_equal(sscanf(at, "<path transform=\"translate(%lf %lf)", &m.x, &m.y), 2);
        assert_true(words != NULL && end != NULL && end - words < TITLE);
        snprintf(title, sizeof title, "%.*s", (int)(end - words), words);
        const char *larger = strstr(at, " scale(");
        m.front = larger != NULL && larger < words;
        const char *seconds = strstr(title, " MiB, "); /* in the key there are none */
        if (seconds == NULL || sscanf(seconds, " MiB, %lf s", &m.seconds) != 1)
            continue;
        assert_true(n < MOST_MARKS);
        all[n++] = m;
    }
    return n;
}

/* A number of the axis of times. */
typedef struct tick {
    double y, value;
} tick;

static tick tick_at(const char *at)
{
    tick t;
    double x;
    assert_int_equal(
        sscanf(at, "<text class=\"r\" x=\"%lf\" y=\"%lf\">%lf<", &x, &t.y, &t.value), 3);
    t.y -= 4; /* of the line beside it */
    return t;
}

/* A mark's height by its seconds, where the logarithm is the axis. */
static double height_of(const char *svg, double seconds)
{
    const char *first = strstr(svg, "<text class=\"r\""), *last = first;
    assert_non_null(first);
    for (const char *at = first; at != NULL; at = strstr(at + 1, "<text class=\"r\""))
        last = at;
    const double unit = strstr(svg, ", milliseconds<") != NULL   ? 1e-3
                        : strstr(svg, ", microseconds<") != NULL ? 1e-6
                                                                 : 1;
    const tick a = tick_at(first), b = tick_at(last);
    assert_true(a.value < b.value);
    return a.y + (b.y - a.y) * log(seconds / unit / a.value) / log(b.value / a.value);
}

static char *picture_of(const char *words)
{
    char path[1024], all[4096];
    snprintf(path, sizeof path, "%s", dt_temp_path("heights.svg"));
    snprintf(all, sizeof all, "compare %.2000s --svg %.1000s", words, path);
    ran r = cli_run(all, NULL);
    assert_code(&r, 0);
    cli_done(&r);
    return cli_text(path);
}

/* Of few plans all stand where their time is, and of many those of the front: also one of them that
 * takes many times as long as all others. */
static void a_mark_stands_where_its_time_is(void **state)
{
    NEED_BINARY();
    dt_take_turns(0, 4);
    static const struct {
        const char *policies;
        bool few;
    } asked[] = {
        {"vdnn_all", true},
        {"chen_sqrt;vdnn_all", true},
        {"chen_sqrt;vdnn_all;zero_infinity", true},
        {"chen_sqrt;chen_cheap;chen_recursive;memonger;gist_lossless;network_wide;gist;"
         "zero_offload;chen_budget;vdnn_all",
            false},
        {"all", false},
    };
    for (size_t k = 0; k < DT_COUNT(asked); k++) {
        char words[2048];
        mark all[MOST_MARKS];
        snprintf(words, sizeof words, "%s --budgets 2 --set memory.simulate=p100 --policies %s",
            dt_source_path("configs/chain.ini"), asked[k].policies);
        char *svg = picture_of(words);
        const size_t n = marks_of(svg, all);
        assert_true(n >= 2);
        assert_true(!asked[k].few || strstr(svg, "at the top") == NULL);
        for (size_t i = 1; i < n; i++)
            assert_true(all[i].front || !all[i - 1].front); /* these lie over the others */
        for (size_t i = 0; i < n; i++)
            if ((asked[k].few || all[i].front) &&
                !(fabs(all[i].y - height_of(svg, all[i].seconds)) < 1.5))
                fail_msg("%s: a mark of %g s stands at %g, which is not %g", asked[k].policies,
                    all[i].seconds, all[i].y, height_of(svg, all[i].seconds));
        dt_free(svg);
    }
}

/* The lines that a picture tells of are those in it. */
static void lines_are_told_where_they_are_drawn(void **state)
{
    NEED_BINARY();
    dt_take_turns(1, 4);
    static const struct {
        const char *words;
        bool dots, of_auto;
    } asked[] = {
        {"--policies chen_sqrt;vdnn_all", false, false},
        {"--policies geeps", true, false},
        {"--policies chen_sqrt;vdnn_all --vary memory.simulate=p100,v100", false, false},
        {"--policies geeps --vary memory.simulate=p100,v100", true, false},
        {"--policies vdnn_all;auto --vary memory.simulate=p100,v100", false, true},
    };
    for (size_t k = 0; k < DT_COUNT(asked); k++) {
        char words[2048];
        snprintf(words, sizeof words, "%s --budgets 4MiB,8MiB %s%s",
            dt_source_path("configs/chain.ini"), asked[k].words,
            strstr(asked[k].words, "--vary") != NULL ? "" : " --set memory.simulate=p100");
        char *svg = picture_of(words);
        if ((strstr(svg, ">one policy, by budgets<") != NULL) != asked[k].dots ||
            (strstr(svg, ">auto, by budgets<") != NULL) != asked[k].of_auto)
            fail_msg("%s: lines in the key that are not there, or none for those that are",
                asked[k].words);
        dt_free(svg);
    }
}

/* As many variants as there are shapes have one each, whatever else was refused. */
static void variants_have_shapes_of_their_own(void **state)
{
    NEED_BINARY();
    enum { VARIANTS = 6, SHAPE = 128 };
    char words[2048], shape[VARIANTS][SHAPE];
    size_t n = 0;
    snprintf(words, sizeof words,
        "%s --policies gist --vary policy.gist.dpr=no,never,fp16,off,fp8 "
        "--vary memory.algorithms=fast,small --budgets 1",
        dt_source_path("configs/chain.ini"));
    char *svg = picture_of(words);
    for (const char *at = svg; (at = strstr(at, "<g class=\"v\">")) != NULL; at++, n++) {
        assert_true(n < VARIANTS);
        const char *d = strstr(at, " d=\"");
        assert_non_null(d);
        snprintf(shape[n], SHAPE, "%.*s", (int)strcspn(d + 4, "\""), d + 4);
        for (size_t i = 0; i < n; i++)
            assert_string_not_equal(shape[i], shape[n]);
    }
    assert_int_equal(n, VARIANTS);
    dt_free(svg);
}

/* A mark: what of its drawing tells it from others, and whose it is. */
typedef struct look {
    char drawn[256], of[128];
} look;

/* Of the plot, or of the lists in the key, which says no numbers; variants are grey there. */
static size_t looks_of(const char *svg, bool plot, look *all, size_t most)
{
    size_t n = 0;
    for (const char *at = svg; (at = strstr(at, "<path transform=")) != NULL; at++) {
        const char *d = strstr(at, " d=\""), *title = strstr(at, "<title>") + strlen("<title>");
        const size_t bytes = strcspn(d, ">"), name = strcspn(title, ":<");
        if ((title[name] == ':') != plot || strncmp(at - 13, "<g class=\"v\">", 13) == 0)
            continue;
        assert_true(n < most && bytes < sizeof all->drawn && name < sizeof all->of);
        snprintf(all[n].drawn, sizeof all->drawn, "%.*s", (int)bytes, d);
        char *pale = strstr(all[n].drawn, " fill-opacity=");
        if (pale != NULL)
            *pale = '\0';
        snprintf(all[n].of, sizeof all->of, "%.*s", (int)name, title);
        char *planned = strstr(all[n].of, ", planned by");
        if (planned != NULL)
            *planned = '\0';
        n++;
    }
    return n;
}

/* Of all policies for a few variants, and of some for as many as the key has. */
static void marks_tell_series_apart(void **state)
{
    NEED_BINARY();
    dt_take_turns(2, 4);
    enum { MOST = 1024 };
    static const char *const asked[] = {"--policies all --vary memory.algorithms=fast,small",
        "--policies gist;chen_sqrt --vary "
        "train.batch=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24"};
    static const size_t least[] = {40, 48};
    look *all = malloc(MOST * sizeof *all);
    assert_non_null(all);
    for (size_t k = 0; k < DT_COUNT(asked); k++) {
        char words[2048];
        snprintf(words, sizeof words, "%s %s --budgets 1 --set memory.simulate=p100",
            dt_source_path("configs/chain.ini"), asked[k]);
        char *svg = picture_of(words);
        for (int plot = 0; plot < 2; plot++) {
            const size_t n = looks_of(svg, plot == 1, all, MOST);
            assert_true(n >= (plot == 1 ? least[k] : 3));
            for (size_t i = 0; i < n; i++)
                for (size_t j = 0; j < i; j++)
                    if (strcmp(all[i].drawn, all[j].drawn) == 0 &&
                        strcmp(all[i].of, all[j].of) != 0)
                        fail_msg("'%s' and '%s' are%s", all[i].of, all[j].of, all[i].drawn);
        }
        dt_free(svg);
    }
    free(all);
}

/* Where the key has a row of its own it is no taller than what stands in it. */
static void a_picture_ends_where_its_key_does(void **state)
{
    NEED_BINARY();
    char words[2048];
    double tall, x, y, last = 0;
    snprintf(words, sizeof words, "%s --policies chen_sqrt --vary memory.simulate=p100,v100",
        dt_source_path("configs/chain.ini"));
    char *svg = picture_of(words);
    assert_int_equal(
        sscanf(strstr(svg, "viewBox=\"0 0 1000 "), "viewBox=\"0 0 1000 %lf", &tall), 1);
    for (const char *at = svg; (at = strstr(at, "<text x=\"")) != NULL; at++)
        if (sscanf(at, "<text x=\"%lf\" y=\"%lf\"", &x, &y) == 2)
            last = fmax(last, y);
    assert_true(last < tall && tall < last + 40);
    dt_free(svg);
}

/* Lines of the key stand below each other however many there are, and in the picture. */
static void a_long_key_is_read_line_by_line(void **state)
{
    NEED_BINARY();
    dt_take_turns(3, 4);
    double tall = 0, last = 0, y;
    int lines = 0;
    char words[2048];
    snprintf(words, sizeof words,
        "%s --budgets 1 --set memory.simulate=p100 --policies all;vdnn_all,gist;vdnn_conv,gist;"
        "gist,chen_sqrt;capuchin,gist;autoswap,gist;chen_cheap,gist;vdnnpp,gist",
        lenet());
    char *svg = picture_of(words);
    assert_int_equal(sscanf(strstr(svg, "viewBox"), "viewBox=\"0 0 1000 %lf", &tall), 1);
    for (const char *at = svg; (at = strstr(at, "<text x=\"808.0\"")) != NULL; at++, last = y) {
        assert_int_equal(sscanf(at, "<text x=\"808.0\" y=\"%lf\"", &y), 1);
        assert_true(lines++ == 0 || y - last >= 14.9);
    }
    assert_true(lines > 35 && last < tall);
    dt_free(svg);
}

/* Bytes and seconds of a network that has few of them keep their digits. */
static void a_small_network_has_numbers(void **state)
{
    NEED_BINARY();
    static const char how[] = "--budgets 1 --set memory.simulate=p100 --policies vdnn_all";
    char small[1024], html[1024], words[4096];
    snprintf(small, sizeof small, "%s",
        cli_file("small.ini", "[model]\nimage = 8\nclasses = 2\n[conv c]\nout = 2\nkernel = 3\n"
                              "[fc f]\nout = 2\n[data]\nsamples = 64\n[train]\nbatch = 4\n"));
    snprintf(words, sizeof words, "%s %s", small, how);
    char *svg = picture_of(words);
    assert_has(svg, ">peak of the device, KiB<");
    assert_has(svg, " KiB, ");
    assert_has(svg, "e-05 s, ");
    dt_free(svg);
    snprintf(html, sizeof html, "%s", dt_temp_path("small.html"));
    snprintf(words, sizeof words, "compare %s %s --html %s", small, how, html);
    ran r = cli_run(words, NULL);
    assert_code(&r, 0);
    cli_done(&r);
    char *page = cli_text(html);
    assert_has_not(page, ">0.0000");
    dt_free(page);
}

/* A configuration's name may be as long as a file's. */
static void a_long_title_ends_before_the_picture(void **state)
{
    NEED_BINARY();
    char name[96], words[2048];
    memset(name, 'n', sizeof name - 1);
    memcpy(name + sizeof name - 5, ".ini", 5);
    snprintf(words, sizeof words, "%s --budgets 1 --set memory.simulate=p100 --policies vdnn_all",
        cli_file(name, "[model]\nimage = 8\nclasses = 2\n[fc f]\nout = 2\n[train]\nbatch = 4\n"));
    char *svg = picture_of(words);
    assert_has(svg, "nnnn\xe2\x80\xa6, batch 4: memory against time<");
    dt_free(svg);
}

/* A name in the plot: where it begins, its baseline, and a width that its letters do not exceed by
 * far. */
typedef struct name {
    double x, y, wide;
} name;

static size_t names_of(const char *svg, name *all, size_t most)
{
    size_t n = 0;
    for (const char *at = svg; (at = strstr(at, "<text class=\"s\" x=\"")) != NULL; at++, n++) {
        assert_true(n < most);
        assert_int_equal(
            sscanf(at, "<text class=\"s\" x=\"%lf\" y=\"%lf\">", &all[n].x, &all[n].y), 2);
        const char *text = strchr(at, '>') + 1;
        const char *anchor = strstr(at, "text-anchor=\"");
        all[n].wide = 7 * (double)strcspn(text, "<");
        if (anchor != NULL && anchor < text)
            all[n].x -= strstr(anchor, "\"end\"") == anchor + 12 ? all[n].wide : all[n].wide / 2;
    }
    return n;
}

/* What says that marks stand at the edge is read whole, and such a mark has its name. */
static void no_name_lies_over_the_line_at_the_top(void **state)
{
    NEED_BINARY();
    enum { MOST = 64 };
    char words[2048], path[1024];
    name all[MOST];
    snprintf(path, sizeof path, "%s", dt_temp_path("top.svg"));
    snprintf(words, sizeof words,
        "compare %s --set memory.simulate=p100 --set memory.cache=none --budgets 2 --svg %.1000s",
        dt_source_path("configs/tiny_ini_network.ini"), path);
    ran r = cli_run(words, NULL);
    assert_code(&r, 0);
    cli_done(&r);
    char *svg = cli_text(path);
    const char *top = strstr(svg, "<text class=\"r q s\"");
    double x, y;
    assert_non_null(top);
    assert_int_equal(sscanf(top, "<text class=\"r q s\" x=\"%lf\" y=\"%lf\">", &x, &y), 2);
    const double wide = 7 * (double)strcspn(strchr(top, '>') + 1, "<");
    const size_t n = names_of(svg, all, MOST);
    for (size_t i = 0; i < n; i++)
        if (fabs(all[i].y - y) < 13 && all[i].x + all[i].wide > x - wide && all[i].x < x)
            fail_msg("a name at %g, %g lies over the line at the top", all[i].x, all[i].y);
    assert_has(svg, "\">zero_infinity</text>");
    dt_free(svg);
}

static double beyond(double at, double from, double to)
{
    return at < from ? from - at : at > to ? at - to : 0;
}

/* A name's letters have a border, which covers what they touch. */
static void assert_no_name_touches_a_mark(const char *svg, const name *all, size_t n)
{
    enum { ABOVE = 10, BELOW = 3, BORDER = 1 };
    mark marks[MOST_MARKS];
    const size_t n_mark = marks_of(svg, marks);
    assert_true(n_mark > 20);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n_mark; k++) {
            const double x = beyond(marks[k].x, all[i].x, all[i].x + all[i].wide);
            const double y = beyond(marks[k].y, all[i].y - ABOVE, all[i].y + BELOW);
            if (!(hypot(x, y) > (marks[k].front ? 8 : 6) + BORDER))
                fail_msg("a name at %.0f %.0f touches the mark at %.0f %.0f", all[i].x, all[i].y,
                    marks[k].x, marks[k].y);
        }
}

/* Some thirty policies, of which many take the same: each is named once, and no name lies over
 * another. */
static void every_policy_is_named_where_its_plan_is(void **state)
{
    NEED_BINARY();
    dt_take_turns(0, 4);
    enum { MOST = 64, LINE = 12 };
    char path[1024], words[2048];
    name all[MOST];
    snprintf(path, sizeof path, "%s", dt_temp_path("names.svg"));
    snprintf(words, sizeof words,
        "compare FILE --budgets 3 --policies all --set memory.simulate=p100 --svg %.1000s", path);
    ran r = cli_run(words, dt_source_path("configs/chain.ini"));
    assert_code(&r, 0);
    cli_done(&r);
    char *svg = cli_text(path);
    const size_t n = names_of(svg, all, MOST), lists = count(svg, "<text x=\"") - 5;
    assert_true(n > 20);
    assert_int_equal(n, lists);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            if (fabs(all[i].y - all[k].y) < LINE && all[i].x < all[k].x + all[k].wide &&
                all[k].x < all[i].x + all[i].wide)
                fail_msg("names at %.0f %.0f and %.0f %.0f lie over each other", all[i].x, all[i].y,
                    all[k].x, all[k].y);
    assert_no_name_touches_a_mark(svg, all, n);
    dt_free(svg);
}

/* Lines that go on below are one line. */
static void unfold(char *text)
{
    char *to = text;
    for (const char *s = text; *s != '\0'; s++)
        if (strncmp(s, "\n  ", 3) == 0 && s[3] != ' ') {
            *to++ = ' ';
            s += 2;
        } else {
            *to++ = *s;
        }
    *to = '\0';
}

static bool line_has(const char *text, const char *line, const char *word)
{
    const char *at = strstr(text, line), *found = at != NULL ? strstr(at, word) : NULL;
    return found != NULL && found < at + strcspn(at, "\n");
}

static void all_budgets_are_told(void **state)
{
    NEED_BINARY();
    ran r = cli_run("compare FILE --policies chen_sqrt --budgets 64", lenet());
    assert_code(&r, 0);
    unfold(r.out);
    const char *at = strstr(r.out, "budgets of the device: ");
    assert_non_null(at);
    int n = 1;
    for (; *at != '\n'; at++)
        n += *at == ',';
    assert_int_equal(n, 64);
    cli_done(&r);
}

/* Either in the head of the table, and explained below, or named as hidden. */
static void titles_are_explained_where_they_are_shown(void **state)
{
    NEED_BINARY();
    static const char *const words[] = {
        "compare FILE --set memory.simulate=p100 --policies chen_sqrt --budgets 2",
        "sweep FILE --set memory.simulate=p100 --policies chen_sqrt --set "
        "memory.device_budget=3MiB",
    };
    static const struct {
        int of;
        const char *title, *means;
    } columns[] = {{0, " planned by", "planned by: the budget"}, {0, " again", "again: computed"},
        {0, " moved out", "moved out: in a step"}, {1, " again", "again: computed"},
        {1, " moved out", "moved out: in a step"}, {1, " ratio", "ratio: to the batch"},
        {1, " samples/s", "samples/s: simulated"}};
    static const char *const widths[] = {"64", "80", "100"};
    int hidden = 0;
    for (size_t w = 0; w < DT_COUNT(widths); w++) {
        cli.columns = widths[w];
        for (int k = 0; k < (int)DT_COUNT(words); k++) {
            ran r = cli_run(words[k], lenet());
            char *head = strstr(r.out, "policy ");
            assert_code(&r, 0);
            assert_non_null(head);
            unfold(strstr(head, "\n\n"));
            for (size_t i = 0; i < DT_COUNT(columns); i++) {
                if (columns[i].of != k)
                    continue;
                const bool shown = line_has(head, "policy ", columns[i].title);
                assert_int_equal(strstr(head, columns[i].means) != NULL, shown);
                assert_int_equal(
                    line_has(head, "hidden for lack of width:", columns[i].title), !shown);
                hidden += !shown;
            }
            cli_done(&r);
        }
    }
    cli.columns = NULL;
    assert_true(hidden > 2);
}

static void times_of_defaults_say_so(void **state)
{
    NEED_BINARY();
    ran r = cli_run("compare FILE --budgets 1 --policies chen_sqrt --json", lenet());
    assert_code(&r, 0);
    assert_has(r.err, "only their order counts");
    assert_has(r.err, "dnntrain profile CONFIG --out FILE");
    assert_has(r.out, "\"costs\":\t\"defaults\"");
    cli_done(&r);
}

static void what_is_run_stands_beside_it(void **state)
{
    NEED_BINARY();
    cJSON *all = object_of("compare FILE --run --json --budgets 1 --set train.batch=8 "
                           "--policies gist_lossless,vdnn_conv");
    const cJSON *o;
    int n = 0;
    cJSON_ArrayForEach(o, all)
    {
        assert_true(
            json_number(o, "measured_seconds") > 0 && json_number(o, "measured_seconds") < 60);
        assert_true(json_number(o, "measured_spread") >= 0);
        n++;
    }
    assert_int_equal(n, 4);
    cJSON_Delete(all);
    ran r =
        cli_run("compare FILE --run --budgets 1 --policies keep_all --set train.batch=8", lenet());
    assert_code(&r, 0);
    assert_has(r.out, " measured spread  ratio");
    assert_has(r.err, "round 5 of 5");
    cli_done(&r);
}

/* More rows than there was room for at first. */
static void many_rows_are_run(void **state)
{
    NEED_BINARY();
    cJSON *all = object_of("compare FILE --run --json --budgets 4 --set train.batch=8 "
                           "--policies chen_budget;rotor;tflms;modnn;sentinel;superneurons");
    const cJSON *o;
    int n = 0, measured = 0;
    cJSON_ArrayForEach(o, all)
    {
        const cJSON *seconds = cJSON_GetObjectItemCaseSensitive(o, "measured_seconds");
        measured +=
            cJSON_IsNumber(seconds) && seconds->valuedouble > 0; /* alike plans, run once, too */
        n++;
    }
    assert_true(n > 16 && measured == n);
    cJSON_Delete(all);
}

static void wrong_arguments_are_refused(void **state)
{
    NEED_BINARY();
    static const char *const wrong[][2] = {
        {"compare", "name a CONFIG"},
        {"compare nosuch.ini", "nosuch.ini"},
        {"compare FILE --policies chen_sqr", "did you mean 'chen_sqrt'"},
        {"compare FILE --policies all;;auto", "nothing stands between two semicolons"},
        {"compare FILE --policies vdnn_all;", "nothing stands between two semicolons"},
        {"compare FILE --budgets 0", "--budgets 0: say how many, 1..64, or which"},
        {"compare FILE --budgets 65", "--budgets 65: say how many"},
        {"compare FILE --budgets 1023", "--budgets 1023: say how many"},
        {"compare FILE --budgets -1", "--budgets -1: say how many"},
        {"compare FILE --budgets 1GiB,", "--budgets 1GiB,: say how many"},
        {"compare FILE --budgets 1GiB,,2GiB", "say how many"},
        {"compare FILE --budgets 1GiB,0", "say how many"},
        {"compare FILE --budgets nan", "--budgets nan: say how many"},
        {"compare FILE --budgets 9999999999999GiB", "say how many"},
        {"compare FILE --svg picture.png", "--svg picture.png: what is written is SVG"},
        {"compare FILE --run --set memory.simulate=p100", "--run measures this machine"},
        {"compare FILE --svg - --json", "all go to stdout"},
    };
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        ran r = cli_run(wrong[i][0], lenet());
        assert_code(&r, DT_E_CONFIG);
        assert_has(r.err, wrong[i][1]);
        assert_has_not(
            r.err, "not a number of bytes"); /* of a budget what may stand is said once */
        assert_string_equal(r.out, "");
        cli_done(&r);
    }
}

/* Known before anything is planned, which may take minutes: nothing is said of plans. */
static void files_that_cannot_be_written_are_refused_first(void **state)
{
    NEED_BINARY();
    static const char *const flags[] = {"--csv /nowhere/at/all/a.csv",
        "--svg /nowhere/at/all/a.svg", "--html /nowhere/at/all/a.html"};
    for (size_t i = 0; i < DT_COUNT(flags); i++) {
        char words[256];
        snprintf(words, sizeof words, "compare FILE --budgets 1 --policies keep_all %s", flags[i]);
        ran r = cli_run(words, lenet());
        assert_code(&r, DT_E_IO);
        assert_has(r.err, strchr(flags[i], '/'));
        assert_has(r.err, "No such file or directory; name a file in a folder that is there");
        assert_has_not(r.err, "times are of defaults");
        assert_string_equal(r.out, "");
        cli_done(&r);
    }
}

DT_TEST_GROUP(compare)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auto_is_not_behind_what_has_homes),
        cmocka_unit_test(what_packs_is_not_below_the_bound),
        cmocka_unit_test(what_has_another_order_is_not_below_the_bound),
        cmocka_unit_test(each_plan_is_the_one_that_plan_makes),
        cmocka_unit_test(auto_is_behind_no_exact_plan_that_fits),
        cmocka_unit_test(the_front_of_auto_is_shown_where_asked),
        cmocka_unit_test(more_memory_is_no_worse),
        cmocka_unit_test(more_memory_is_hardly_slower),
        cmocka_unit_test(a_search_is_no_slower_than_where_it_begins),
        cmocka_unit_test(those_marked_are_the_best),
        cmocka_unit_test(files_hold_the_same),
        cmocka_unit_test(long_names_stay_in_the_picture),
        cmocka_unit_test(what_is_planned_at_once_is_told),
        cmocka_unit_test(what_saves_nothing_is_told),
        cmocka_unit_test(a_list_that_is_no_better_than_a_part_is_told),
        cmocka_unit_test(what_misses_its_budgets_has_one_row),
        cmocka_unit_test(only_a_policy_that_is_named_must_be_planned),
        cmocka_unit_test(a_card_is_a_panel),
        cmocka_unit_test(a_key_of_a_card_is_a_panel),
        cmocka_unit_test(no_exact_plan_is_below_the_floor),
        cmocka_unit_test(the_survey_shows_every_policy),
        cmocka_unit_test(what_is_far_slower_stands_at_the_end_of_the_axis),
        cmocka_unit_test(what_takes_long_is_told_without_exponents_and_zeros),
        cmocka_unit_test(a_mark_stands_where_its_time_is),
        cmocka_unit_test(lines_are_told_where_they_are_drawn),
        cmocka_unit_test(variants_have_shapes_of_their_own),
        cmocka_unit_test(marks_tell_series_apart),
        cmocka_unit_test(a_picture_ends_where_its_key_does),
        cmocka_unit_test(a_long_key_is_read_line_by_line),
        cmocka_unit_test(a_small_network_has_numbers),
        cmocka_unit_test(a_long_title_ends_before_the_picture),
        cmocka_unit_test(no_name_lies_over_the_line_at_the_top),
        cmocka_unit_test(every_policy_is_named_where_its_plan_is),
        cmocka_unit_test(all_budgets_are_told),
        cmocka_unit_test(titles_are_explained_where_they_are_shown),
        cmocka_unit_test(times_of_defaults_say_so),
        cmocka_unit_test(what_is_run_stands_beside_it),
        cmocka_unit_test(many_rows_are_run),
        cmocka_unit_test(files_that_cannot_be_written_are_refused_first),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
