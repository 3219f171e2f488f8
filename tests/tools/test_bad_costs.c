/* What predicts or is searched, made wrong: profiles, cards, budgets and foreign graphs, as the
 * program meets them. A message names file, place and value, and what to do. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "session/open.h"
#include "session/origin.h"
#include "tests/fixture/profile_file.h"
#include "tests/fixture/run_cli.h"

static const char *lenet(void)
{
    return cli_file("lenet.ini", "[model]\nname = lenet5\n[train]\nbatch = 16\nsteps = 2\n");
}

/* A line of the program ends with this code and says these. */
static void refused(const char *words, const char *file, int code, const char *const says[])
{
    ran r = cli_run(words, file);
    if (r.code != code)
        fail_msg("%s: ends with %d, not %d:\n%s", words, r.code, code, r.err);
    for (size_t i = 0; says[i] != NULL; i++)
        assert_has(r.err, says[i]);
    cli_done(&r);
}
#define SAYS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* The origin that a profile of this machine would have. */
static dt_origin origin_here(void)
{
    dt_session *s = NULL;
    dt_err err = {0};
    dt_origin o;
    assert_ok(dt_session_open(&s, lenet(), NULL, 0, &err), &err);
    dti_session_origin(s, &o);
    dt_session_close(s);
    return o;
}

/* @text with what stands there once replaced; dt_free it. */
static char *changed(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    if (at == NULL)
        fail_msg("the profile has no %s", from);
    const size_t n = strlen(text) + strlen(to) + 1;
    char *out = dt_alloc(n, 1);
    assert_non_null(out);
    snprintf(out, n, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return out;
}

/* Without links none was measured; lz4 is a codec also where this build is without it. */
static void profiles_of_other_builds_are_taken(void **state)
{
    NEED_BINARY();
    char words[PROFILE_WORDS], line[2048];
    char *whole = profile_text(NULL, NULL);
    char *lz4 = changed(whole, "\"codec\":\t\"zvc\"", "\"codec\":\t\"lz4\"");
    char *from = strstr(lz4, "\"links\":"), *to = strstr(lz4, "\"slowed\":");
    assert_true(from != NULL && to > from);
    memset(from, ' ', (size_t)(to - from));
    memcpy(from, "\"links\":[],", strlen("\"links\":[],"));
    snprintf(line, sizeof line, "plan FILE --set memory.policy=vdnn_all %s",
        profile_words("other.json", lz4, words));
    ran r = cli_run(line, lenet());
    assert_code(&r, 0);
    assert_has(r.out, "\nthe host     is not in the profile");
    cli_done(&r);
    dt_free(lz4);
    dt_free(whole);
}

/* A machine's name is the file's, and no part of a picture. */
static void names_of_machines_stay_text(void **state)
{
    NEED_BINARY();
    static const char name[] = "</text><script>alert(1)</script>";
    char words[PROFILE_WORDS], line[3000], svg[1024];
    dt_origin o = origin_here();
    snprintf(o.machine, sizeof o.machine, "%s", name);
    char *text = profile_text(&o, NULL);
    snprintf(svg, sizeof svg, "%s", dt_temp_path("named.svg"));
    snprintf(line, sizeof line,
        "compare FILE --budgets 1 --policies vdnn_all --svg %.1000s %s --set memory.any_profile=on",
        svg, profile_words("named.json", text, words));
    ran r = cli_run(line, lenet());
    assert_code(&r, 0);
    cli_done(&r);
    char *picture = cli_text(svg);
    assert_has_not(picture, "<script>");
    assert_has(picture, "&lt;script&gt;alert(1)");
    dt_free(picture);
    dt_free(text);
}

/* Ops that take nothing beside copies are below a picture's axis, and nothing is drawn there. */
static void ops_of_no_time_stay_in_the_picture(void **state)
{
    NEED_BINARY();
    static const char none[] =
        "\"roof\":{\"fp32\":1e20,\"bf16\":1e20,\"bytes\":1e20,\"rest\":0,\"wake\":0}";
    char words[PROFILE_WORDS], line[3000], svg[1024];
    char *text = profile_text(NULL, NULL);
    char *roof = strstr(text, "\"roof\":"), *end = strchr(roof, '}') + 1;
    assert_true(end - roof >= (ptrdiff_t)strlen(none));
    memset(roof, ' ', (size_t)(end - roof));
    memcpy(roof, none, strlen(none));
    snprintf(svg, sizeof svg, "%s", dt_temp_path("nothing.svg"));
    snprintf(line, sizeof line, "compare FILE --budgets 1 --policies vdnn_all --svg %.1000s %s",
        svg, profile_words("nothing.json", text, words));
    ran r = cli_run(line, lenet());
    assert_code(&r, 0);
    cli_done(&r);
    char *picture = cli_text(svg);
    assert_has(picture, ">vdnn_all<");
    assert_has_not(picture, ">ops alone<");
    assert_has_not(picture, "=\"-");
    assert_has_not(picture, "inf");
    dt_free(picture);
    dt_free(text);
}

static void profiles_of_elsewhere_are_refused_unless_allowed(void **state)
{
    NEED_BINARY();
    const dt_origin here = origin_here();
    dt_origin other[7];
    static const char *const what[] = {NULL, "the machine is 'X'", "the instruction set is 'X'",
        "the precision is 'X'", "the library is 'X'", "the version is 'X'",
        "the number of threads is '77'"};
    for (size_t i = 0; i < DT_COUNT(other); i++)
        other[i] = here;
    strcpy(other[1].machine, "X");
    strcpy(other[2].isa, "X");
    strcpy(other[3].precision, "X");
    strcpy(other[4].library, "X");
    strcpy(other[5].version, "X");
    other[6].threads = 77;
    for (size_t i = 0; i < DT_COUNT(other); i++) {
        char words[PROFILE_WORDS], line[2048];
        char *text = profile_text(&other[i], NULL);
        const char *set = profile_words("elsewhere.json", text, words);
        dt_free(text);
        snprintf(line, sizeof line, "plan FILE %s", set);
        ran r = cli_run(line, lenet());
        assert_code(&r, 0); /* memory.any_profile is on */
        cli_done(&r);
        snprintf(line, sizeof line, "plan FILE %s --set memory.any_profile=off", set);
        if (what[i] != NULL)
            refused(line, lenet(), DT_E_CONFIG,
                SAYS("elsewhere.json: measured elsewhere: ", what[i], "'dnntrain profile'",
                    "memory.any_profile = on"));
        else {
            r = cli_run(line, lenet());
            assert_code(&r, 0);
            cli_done(&r);
        }
    }
}

static void refuse_profile(const char *text, int code, const char *const says[])
{
    char words[PROFILE_WORDS], line[2048];
    snprintf(line, sizeof line, "plan FILE %s", profile_words("damaged.json", text, words));
    refused(line, lenet(), code, says);
}

/* One more measurement of the op that the profile has. */
#define ENTRY(samples)                                                                             \
    "{\"op\": \"conv.forward of a test\", \"samples\": " #samples                                  \
    ", \"seconds\": 1, \"spread\": 0, \"floor\": 0}"

/* Of what the profile has, once more. */
#define LINK(rate)                                                                                 \
    "{\"tier\": \"host\", \"direction\": \"out\", \"by\": \"team\", \"latency\": 0, "              \
    "\"rate\": " #rate "}"
#define CODEC(name) "{\"codec\": \"" name "\", \"density\": 0.5, \"pack\": 5, \"unpack\": 6}"
#define PAIR(times) "{\"stream\": \"compute\", \"beside\": \"out\", \"times\": " #times "}"

static void damaged_profiles_are_refused(void **state)
{
    NEED_BINARY();
    static const char *const edits[][4] = {
        {"\"seconds\":\t0.5", "\"seconds\":\t-1", "'seconds' is -1, must be from 0 to 1e+07",
            "entry 1 of 'ops'"},
        {"\"seconds\":\t0.5", "\"seconds\":\t1e308", "'seconds' is 1e+308, must be from 0 to 1e+07",
            "entry 1 of 'ops'"},
        {"\"floor\":\t0.25", "\"floor\":\t1e-300", "'floor'", "a billionth of the seconds"},
        {"\"samples\":\t8", "\"samples\":\t2e9", "'samples' is 2e+09, must be from 0 to 1e+09",
            "entry 1 of 'ops'"},
        {"\"rate\":\t9000000000", "\"rate\":\t0.5", "'rate' is 0.5, must be from 1 to 1e+21",
            "entry 1 of 'links'"},
        {"\"rate\":\t9000000000", "\"rate\":\t1e30", "'rate' is 1e+30, must be from 1 to 1e+21",
            "entry 1 of 'links'"},
        {"\"latency\":\t0.001", "\"latency\":\t1e9", "'latency' is 1e+09, must be from 0 to 1e+07",
            "entry 1 of 'links'"},
        {"\"density\":\t0.5", "\"density\":\t1.5", "'density' is 1.5, must be from 0 to 1",
            "entry 1 of 'codecs'"},
        {"\"seconds\":\t0.5", "\"seconds\":\tNaN", "not JSON: NaN",
            "'dnntrain profile CONFIG --out FILE' makes one"},
        {"\"seconds\":\t0.5", "\"seconds\":\t1e999", "'seconds' is too large", "damaged.json: "},
        {"\"seconds\":\t0.5", "\"seconds\":\t\"long\"", "'seconds' must be a number",
            "entry 1 of 'ops'"},
        {"\"pack\":\t1000000000", "\"pack\":\t0", "'pack' is 0, must be from 1 to 1e+21",
            "entry 1 of 'codecs'"},
        {"\"tier\":\t\"host\"", "\"tier\":\t\"hots\"", "'tier' must be input, host or disk",
            "of 'links'"},
        {"\"seconds\":\t0.5", "\"seconds\":\t0", "'seconds' is 0, and every op takes some",
            "entry 1 of 'ops'"},
        {"\"samples\":\t8", "\"samples\":\t1.5", "'samples' is 1.5, must be a whole number",
            "entry 1 of 'ops'"},
        {"\"ops\":\t[{", "\"ops\":\t[" ENTRY(8) ", {",
            "entries 1 and 2 of 'ops' are of the same op and samples, 8", "damaged.json: "},
        {"\"ops\":\t[{", "\"ops\":\t[" ENTRY(0) ", {",
            "entry 1 of 'ops': 'samples' is 0, for ops that do not depend on them, and entry 2",
            "damaged.json: "},
        {"\"threads\":\t3", "\"threads\":\t2.5", "'threads' is 2.5, must be a whole number",
            "damaged.json: "},
        {"\"threads\":\t3", "\"threads\":\t1e7", "'threads' is 1e+07, must be from 0 to 1e+06",
            "damaged.json: "},
        {"\"links\":\t[{", "\"links\":\t[" LINK(1e9) ", {", /* a second time at another rate */
            "the link of tier 'host', direction 'out', by 'team' is entry 1 already; leave one out",
            "entry 2 of 'links'"},
        {"\"slowed\":\t[", "\"slowed\":\t[" PAIR(2) ", " PAIR(3),
            "stream 'compute' beside 'out' is entry 1 already; leave one out",
            "entry 2 of 'slowed'"},
        {"\"codecs\":\t[{", "\"codecs\":\t[" CODEC("zvc") ", {",
            "two entries of 'codecs' are of 'zvc' at density 0.5; leave one out", "damaged.json: "},
        {"\"codecs\":\t[{", "\"codecs\":\t[" CODEC("zvcc") ", {",
            "'zvcc' is nothing that the table of codecs has; did you mean 'zvc'? There are: zvc, ",
            "entry 1 of 'codecs'"},
        {"\"latency\":\t0.001", "\"latncy\":\t0.001",
            "'latncy' is nothing that a link has; did you mean 'latency'? There are: tier, ",
            "entry 1 of 'links'"},
        {"\"latency\":\t0.001", "\"latency\":\t0.001, \"latency\":\t0.1",
            "two keys are named 'latency'", "damaged.json: "},
        {"\"spread\":\t", "\"spred\":\t0, \"spread\":\t",
            "'spred' is nothing that an op has; did you mean 'spread'?", "entry 1 of 'ops'"},
        {"\"unpack\":\t", "\"acros\":\ttrue, \"unpack\":\t",
            "'acros' is nothing that a codec has; did you mean 'across'?", "entry 1 of 'codecs'"},
        {"\"unpack\":\t", "\"across\":\t1, \"unpack\":\t", "'across' must be true or false",
            "entry 1 of 'codecs'"},
        {"\"wake\":\t", "\"wakes\":\t0, \"wake\":\t",
            "'wakes' is nothing that 'roof' has; did you mean 'wake'?", "damaged.json: "},
        {"\"isa\":\t", "\"iso\":\t\"x\", \"isa\":\t", "'iso' is nothing that 'origin' has; did",
            "damaged.json: "},
        {"\"slowed\":\t", "\"slow\":\t[], \"slowed\":\t",
            "'slow' is nothing that a profile has; did you mean 'slowed'?", "damaged.json: "},
        {"dnntrain-profile 3\"", "dnntrain-profile 9\", \"other\":\t1",
            "its format is 'dnntrain-profile 9'", "profile anew"},
        {"dnntrain-profile 3", "dnntrain-profile 9", "its format is 'dnntrain-profile 9'",
            "profile anew"},
    };
    char *whole = profile_text(NULL, NULL);
    for (size_t i = 0; i < DT_COUNT(edits); i++) {
        char *text = changed(whole, edits[i][0], edits[i][1]);
        refuse_profile(text, DT_E_DATA,
            SAYS("damaged.json: ", edits[i][2], edits[i][3], "[memory] profile = "));
        dt_free(text);
    }
    char *none = changed(whole, "\"ops\":\t[{", "\"ops\":\t[]}"); /* what follows is no more read */
    *(strstr(none, "\"ops\":\t[]}") + strlen("\"ops\":\t[]}")) = '\0';
    refuse_profile(none, DT_E_DATA, SAYS("damaged.json: 'ops' is empty", "profile anew"));
    dt_free(none);
    *strstr(whole, "chine\"") = '\0'; /* within a string of the fourth line */
    refuse_profile(whole, DT_E_DATA,
        SAYS("damaged.json: no profile, or damaged: line 4, offset ", "string without an end"));
    dt_free(whole);
    refuse_profile("{", DT_E_DATA, SAYS("not JSON", "no profile, or damaged"));
    refuse_profile("", DT_E_DATA, SAYS("damaged.json: it is empty, and neither a profile"));
    refuse_profile("\x01\x02nonsense", DT_E_DATA, SAYS("neither a profile", "[density]"));
    refuse_profile(
        "[density]\na.y = 1.5\n", DT_E_DATA, SAYS("damaged.json:2: [density] a.y = 1.5"));
    refuse_profile("[densty]\na.y = 0.5\n", DT_E_DATA, SAYS("has only a section [density]"));
    char *deep = dt_alloc(100001, 1);
    assert_non_null(deep);
    memset(deep, '[', 100000);
    deep[0] = '{';
    refuse_profile(deep, DT_E_DATA, SAYS("nested deeper than"));
    dt_free(deep);
    refused("plan FILE --set memory.profile=nosuch.json", lenet(), DT_E_CONFIG,
        SAYS("nosuch.json", "No such file"));
    refused("plan FILE --set memory.profile=.", lenet(), DT_E_CONFIG, SAYS("is a folder"));
}

static void unknown_names_come_with_the_nearest_and_all(void **state)
{
    NEED_BINARY();
    refused("plan FILE --set memory.simulate=p10", lenet(), DT_E_CONFIG,
        SAYS("[memory] simulate = p10: no such card; did you mean 'p100'? There are: ", "titanx",
            "rtx3090"));
    refused("plan FILE --set memory.simulate=zzzzzz", lenet(), DT_E_CONFIG,
        SAYS("no such card; there are: ", "p100"));
    refused("plan FILE --set memory.simulate=v100-16", lenet(), DT_E_CONFIG,
        SAYS("no such card; did you mean 'v100'? There are: "));
    refused("plan FILE --set device.card=rtx309", lenet(), DT_E_CONFIG,
        SAYS("[device] card = rtx309: no such card; did you mean 'rtx3090'?"));
    refused("plan FILE --set device.card=p100", lenet(), DT_E_CONFIG,
        SAYS("[device] card = p100: ",
            "nothing but its speed is known, which is for memory.simulate = p100"));
    refused("plan FILE --set memory.policy=autoo", lenet(), DT_E_CONFIG,
        SAYS("did you mean 'auto'? There are: keep_all"));
    refused("plan FILE --set memory.calibrate=100", lenet(), DT_E_CONFIG, SAYS("memory.simulate"));
    const char *file = cli_file("intervals.csv", "id,lower,upper,size\n1,0,4,9\n");
    refused("pool FILE --pool exac", file, DT_E_CONFIG,
        SAYS("there is no pool 'exac'; did you mean 'exact'? There are: ", "greedy"));
    refused("pool FILE --pool zzzzzz", file, DT_E_CONFIG, SAYS("there are: ", "greedy"));
}

static void budgets_below_the_least_say_what_that_is(void **state)
{
    NEED_BINARY();
    static const char *const lines[][2] = {
        {"plan FILE --set memory.device_budget=1KiB", "needs the least, "},
        {"FILE --set memory.device_budget=1KiB", "needs the least, "},
        {"sweep FILE --set memory.device_budget=1KiB", "needs the least, "},
        {"sweep FILE --set memory.device_budget=1KiB", "no plan of 1 sample at once takes less "},
        {"compare FILE --budgets 1KiB,2KiB --policies chen_sqrt;vdnn_all",
            "nothing fits 2.00 KiB (2,048 bytes) of the device, the largest of the budgets; "},
        {"compare FILE --budgets 1KiB,2KiB --policies chen_sqrt;vdnn_all",
            " samples at once takes less than "},
    };
    for (size_t i = 0; i < DT_COUNT(lines); i++)
        refused(lines[i][0], lenet(), DT_E_BUDGET, SAYS(lines[i][1]));
    ran r = cli_run("plan FILE --set memory.device_budget=1KiB", lenet());
    assert_has(r.out, "DOES NOT FIT the budget of 1.00 KiB: ");
    assert_has(r.out, "\nlower bound ");
    cli_done(&r);
    r = cli_run("compare FILE --budgets 1KiB,1GiB --policies chen_sqrt", lenet());
    assert_code(&r, 0); /* one of them is enough */
    cli_done(&r);
    const char *graph = cli_file("graph.txt", "3 2\n100 1 0\n50 1 0\n10 1 1\n0 1\n1 2\n");
    refused("remat FILE --budget 149", graph, DT_E_BUDGET,
        SAYS("no sequence fits 149 bytes: an op with its inputs takes 150; raise --budget"));
}

static void graphs_that_cannot_be_are_refused(void **state)
{
    NEED_BINARY();
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"3 3\n10 1 0\n10 1 0\n10 1 1\n0 1\n1 2\n2 0\n",
            "graph.txt:7: edge 2 to 0 runs against the order"},
        {"3 3\n10 1 0\n10 1 0\n10 1 1\n0 1\n1 2\n1 1\n", "graph.txt:7: edge 1 to 1 runs against"},
        {"2 0\n9007199254740992 1 0\n1 1 0\n", "graph.txt:3: the bytes add up to more than 2^53"},
        {"2 0\n1 9007199254740992 0\n1 1 0\n", "graph.txt:3: the costs add up to more than 2^53"},
        {"2 0\n99999999999999999999 1 0\n1 1 0\n", "graph.txt:2: "},
        {"2 0\n-1 1 0\n1 1 0\n", "graph.txt:2: '-1 1 0' is not 'BYTES COST BACKWARD'"},
        {"2 0\nnan 1 0\n1 1 0\n", "graph.txt:2: 'nan 1 0' is not"},
        {"10000000 0\n1 1 0\n", "there may be 1 to 1048576 ops"},
        {"1000000 9\n1 1 0\n", "are more than the file can hold"},
        {"3 1\n10 1 0\n10 1 0\n", "are more than the file can hold"},
        {"2 1\n10 1 0\n10 1 0\n0 5\n", "graph.txt:4: there is no op 5; they are 0 to 1"},
        {"", "graph.txt:1: the file ends"},
    };
    for (size_t i = 0; i < DT_COUNT(wrong); i++)
        refused("remat FILE --budget 90%", cli_file("graph.txt", wrong[i].text), DT_E_DATA,
            SAYS(wrong[i].says));
}

DT_TEST_GROUP(bad_costs)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_machines_stay_text),
        cmocka_unit_test(ops_of_no_time_stay_in_the_picture),
        cmocka_unit_test(profiles_of_elsewhere_are_refused_unless_allowed),
        cmocka_unit_test(profiles_of_other_builds_are_taken),
        cmocka_unit_test(damaged_profiles_are_refused),
        cmocka_unit_test(unknown_names_come_with_the_nearest_and_all),
        cmocka_unit_test(budgets_below_the_least_say_what_that_is),
        cmocka_unit_test(graphs_that_cannot_be_are_refused),
    };
    cli_threads_here();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
