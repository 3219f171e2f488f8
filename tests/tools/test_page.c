/* Pages, read back: one file that fetches nothing, whose texts stay texts and whose numbers are the
 * plan's. page_browser opens them. */
#include "tests/fixture/run_cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers.h"
#include "memory/plan_text/plan_text.h"
#include "session/human.h"
#include "session/open.h"
#include "session/run_plans.h"
#include "tests/fixture/data_files.h"
#include "tests/fixture/json_read.h"
#include "tools/page_plan.h"
#include "tools/plan_report.h"
#include "tools/xml.h"

enum { MOST = 1000000 }; /* bytes of a page */

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        n++;
    return n;
}

/* What its script is given. */
static cJSON *data_of(const char *page)
{
    static const char mark[] = "<script type=\"application/json\" id=\"data\">";
    const char *at = strstr(page, mark);
    assert_non_null(at);
    at += strlen(mark);
    const char *end = strstr(at, "</script>");
    assert_non_null(end);
    return json_of(at, (size_t)(end - at));
}

/* True of every page. */
static void check_page(const char *page)
{
    assert_int_equal(strncmp(page, "<!DOCTYPE html>\n", 16), 0);
    assert_string_equal(page + strlen(page) - 8, "</html>\n");
    assert_in_range(strlen(page), 1000, MOST);
    assert_int_equal(count(page, "<script"), 2);
    assert_int_equal(count(page, "</script>"), 2);
    assert_int_equal(count(page, "<section"), count(page, "</section>"));
    assert_int_equal(count(page, "<svg"), count(page, "</svg>"));
    assert_int_equal(count(page, "<g>") + count(page, "<g "), count(page, "</g>"));
    assert_has(page, "default-src 'none'");
    assert_has_not(page, "=\"http://www.w3.org/1999"); /* the one address is a namespace */
    assert_int_equal(count(page, "http://"), count(page, "http://www.w3.org/2000/svg"));
    assert_has_not(page, "https://");
    assert_has_not(page, "\"nan\"");
    cJSON_Delete(data_of(page));
}

static const cJSON *list(const cJSON *o, const char *key)
{
    const cJSON *l = cJSON_GetObjectItemCaseSensitive(o, key);
    assert_true(cJSON_IsArray(l));
    return l;
}

static char *plan_page(const char *words, const char *config)
{
    char all[2048], path[512];
    snprintf(path, sizeof path, "%s", dt_temp_path("page.html"));
    snprintf(all, sizeof all, "plan FILE %s --html %s", words, path);
    ran r = cli_run(all, config);
    assert_code(&r, 0);
    cli_done(&r);
    return cli_text(path);
}

static dt_plan *plan_of(const char *words, const char *config)
{
    char all[2048], path[512];
    snprintf(path, sizeof path, "%s", dt_temp_path("page.txt"));
    snprintf(all, sizeof all, "plan FILE %s --program first --text %s", words, path);
    ran r = cli_run(all, config);
    assert_code(&r, 0);
    cli_done(&r);
    char *text = cli_text(path);
    dt_plan *p = NULL;
    dt_err err = {0};
    assert_ok(dti_plan_parse(&p, "page.txt", text, strlen(text), &err), &err);
    dt_free(text);
    return p;
}

/* Op by op, what is on the device: the first and the last op of each tensor. */
static void check_spans(const cJSON *tensor, const dt_plan *p)
{
    int *from = malloc(p->n_tensor * sizeof *from), *to = malloc(p->n_tensor * sizeof *to);
    bool *there = malloc(p->n_tensor);
    int op = 0, moved = 0;
    assert_true(from != NULL && to != NULL && there != NULL);
    for (size_t t = 0; t < p->n_tensor; t++) {
        there[t] = dt_plan_resident(&p->tensor[t]);
        from[t] = -1;
    }
    for (size_t i = 0; i < p->n_row; i++) {
        const dt_row *r = &p->row[i];
        if (r->kind == DT_ROW_PLACE || r->kind == DT_ROW_RELEASE)
            there[r->tensor] = r->kind == DT_ROW_PLACE;
        if (r->kind == DT_ROW_PLACE && r->over >= 0)
            there[r->over] = false;
        for (size_t t = 0; t < p->n_tensor && r->kind == DT_ROW_COMPUTE; t++)
            if (there[t]) {
                from[t] = from[t] < 0 ? op : from[t];
                to[t] = op;
            }
        op += r->kind == DT_ROW_COMPUTE;
    }
    for (size_t t = 0; t < p->n_tensor; t++) {
        const cJSON *a = cJSON_GetArrayItem(list(tensor, "from"), (int)t);
        const cJSON *b = cJSON_GetArrayItem(list(tensor, "to"), (int)t);
        if (from[t] < 0)
            continue;
        assert_int_equal(a->valuedouble, from[t]);
        assert_int_equal(b->valuedouble, to[t]);
        moved += from[t] > 0 && to[t] < op - 1;
    }
    assert_true(moved > 0);
    free(from);
    free(to);
    free(there);
}

/* Its tables are the plan's: tensors with their bytes, ops with what they touch, reasons. */
static void the_tables_are_the_plans(void **state)
{
    NEED_BINARY();
    char config[512];
    snprintf(config, sizeof config, "%s", dt_source_path("configs/tiny_ini_network.ini"));
    const char *words = "--set memory.policy=vdnn_all";
    char *page = plan_page(words, config);
    dt_plan *p = plan_of(words, config);
    check_page(page);
    cJSON *data = data_of(page);
    const cJSON *plan = json_object(data, "plan"), *tensor = json_object(plan, "tensor");
    const cJSON *op = json_object(plan, "op");
    assert_int_equal(json_number(plan, "peak"), p->peak);
    assert_int_equal(cJSON_GetArraySize(list(tensor, "name")), p->n_tensor);
    assert_int_equal(cJSON_GetArraySize(list(op, "name")), p->n_op);
    for (int i = 0; i < (int)p->n_tensor; i++) {
        assert_string_equal(
            cJSON_GetArrayItem(list(tensor, "name"), i)->valuestring, p->tensor[i].name);
        assert_int_equal(
            cJSON_GetArrayItem(list(tensor, "bytes"), i)->valuedouble, p->tensor[i].bytes);
    }
    for (int i = 0; i < (int)p->n_op; i++) {
        const int touched = cJSON_GetArraySize(cJSON_GetArrayItem(list(op, "reads"), i)) +
                            cJSON_GetArraySize(cJSON_GetArrayItem(list(op, "writes"), i));
        assert_int_equal(touched, p->op[i].n);
    }
    check_spans(tensor, p);
    assert_true(cJSON_GetArraySize(list(plan, "fate")) > 0);
    assert_has(page, "vdnn_all: input of convolution");
    size_t placed = 0;
    for (size_t i = 0; i < p->n_row; i++)
        placed += p->row[i].kind == DT_ROW_PLACE;
    const char *names = strstr(page, "<g class=\"names\">");
    const char *first = strstr(page, "data-of=\"tensor\"");
    assert_non_null(names);
    assert_non_null(first);
    size_t boxes = 0;
    for (const char *at = first; (at = strstr(at, "<rect ")) != NULL && at < names; at++)
        boxes++;
    assert_int_equal(boxes, placed);
    cJSON_Delete(data);
    dt_plan_destroy(p);
    dt_free(page);
}

/* The largest network, moved and simulated, so that all that a plan's page can hold is there. */
static void it_stays_small(void **state)
{
    NEED_BINARY();
    char *page = plan_page("--set model.name=resnet152 --set train.batch=16 --set "
                           "memory.policy=vdnn_all --set memory.simulate=p100",
        dt_source_path("configs/resnet50.ini"));
    check_page(page);
    dt_free(page);
}

static void one_op_is_no_ops(void **state)
{
    NEED_BINARY();
    char *page =
        plan_page("--set memory.layers.pool=recompute", dt_source_path("configs/chain.ini"));
    assert_has(page, ">1 op, ");
    dt_free(page);
}

/* Values that would end an element or a script, of the configuration that stands in the page. */
static void hostile_values_stay_text(void **state)
{
    NEED_BINARY();
    char *page = plan_page("--set run.dir=</pre></script><b/class=hostile>",
        dt_source_path("configs/tiny_ini_network.ini"));
    check_page(page);
    assert_has_not(page, "<b/class");
    assert_has(page, "&lt;/pre&gt;&lt;/script&gt;&lt;b/class=hostile&gt;");
    dt_free(page);
}

static char *escaped(const char *text, size_t most)
{
    char *to = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&to, &n);
    assert_non_null(f);
    dti_xml_cut(f, text, most);
    assert_int_equal(fclose(f), 0);
    return to;
}

static void text_is_escaped(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
        size_t most;
    } cases[] = {
        {"a<b>&\"'", "a&lt;b&gt;&amp;&quot;'", 99},
        {"\x01\x1b[0m\x7f",
            "??"
            "[0m?",
            99},
        {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f", 4},
        {"gr\xc3\xbc\xc3\x9f"
         "e",
            "gr\xc3\xbc\xe2\x80\xa6", 4},
        {"bad \xff\xc3 end", "bad ?? end", 99},
        {"\xc3", "?", 1},
        {"a\xef\xbf\xbe\xef\xbf\xbf\xef\xbf\xbd b", "a??\xef\xbf\xbd b", 99},
        {"a\xef\xbf\xbe"
         "bcd",
            "a?\xe2\x80\xa6", 3},
        {"", "", 1},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        char *got = escaped(cases[i].text, cases[i].most);
        assert_string_equal(got, cases[i].want);
        free(got);
    }
}

/* Memory that runs out, wherever it does, leaves no times to draw, and no page. */
static void a_page_without_memory_is_refused(void **state)
{
    (void)state;
    static const char *const sets[] = {"memory.simulate=p100", "memory.policy=vdnn_all"};
    const dt_planned *first = NULL;
    dt_session *s = NULL;
    dt_err err = {0};
    assert_ok(dt_session_open(
                  &s, dt_source_path("configs/tiny_ini_network.ini"), sets, DT_COUNT(sets), &err),
        &err);
    assert_ok(dt_session_plan_run(s, false, 0, 0, &err), &err);
    assert_ok(dti_find_program(s, "first", &first, &err), &err);
    const dti_page_plan page = {.session = s, .plan = first->plan};
    dt_status st = DT_E_NOMEM;
    long k = 1;
    for (; st != DT_OK; k++) {
        FILE *f = fopen("/dev/null", "w");
        assert_non_null(f);
        err = (dt_err){0};
        dti_alloc_fail_at(k);
        st = dti_page_of_plan(&page, f, &err);
        const bool failed = dti_alloc_fail_at(0) <= 0;
        assert_int_equal(fclose(f), 0);
        assert_true(st == DT_E_NOMEM || (st == DT_OK && !failed));
    }
    assert_true(k > 10);
    dt_session_close(s);
}

/* Finite losses whose differences are not: those that a chart can show are there. */
static void a_chart_leaves_out_what_no_axis_has(void **state)
{
    (void)state;
    static const double x[] = {1, 2, 3, 4}, y[] = {1, 1e308, -1e308, 2};
    const dti_chart_line line = {"loss", "one", DT_COUNT(x), x, y, false};
    const dti_chart chart = {
        .id = "huge", .title = "huge", .tall = 200, .n = 1, .from = 1, .to = 4, .line = &line};
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    assert_non_null(f);
    dti_page_chart(&(dti_page){.f = f}, &chart);
    assert_int_equal(fclose(f), 0);
    assert_has(text, "<path class=\"curve one\" d=\"M62.0 ");
    assert_int_equal(count(text, "nan"), 0);
    assert_int_equal(count(text, "inf"), 0);
    free(text);
}

/* ---- of many plans ---- */

static char *page_of(const char *command, const char *words, const char *config)
{
    char all[1024], path[512];
    snprintf(path, sizeof path, "%s", dt_temp_path("many.html"));
    snprintf(all, sizeof all, "%s FILE %s --html %s", command, words, path);
    ran r = cli_run(all, dt_source_path(config));
    assert_code(&r, 0);
    assert_has(r.out, "keep_all"); /* the table stands there as well */
    cli_done(&r);
    return cli_text(path);
}

static size_t rows_of(const char *page)
{
    const char *body = strstr(page, "<tbody>");
    assert_non_null(body);
    return count(body, "<tr");
}

static void comparisons_and_sweeps_have_pages(void **state)
{
    NEED_BINARY();
    char *page = page_of("compare", "--policies vdnn_all;chen_sqrt;gist --set memory.simulate=p100",
        "configs/lenet5_mnist.ini");
    check_page(page);
    assert_int_equal(rows_of(page), 4);
    assert_has(page, "times are simulated: ");
    assert_has(page, "<td>change</td>"); /* gist */
    assert_has(page, "memory against time</text>");
    dt_free(page);
    page = page_of("sweep", "--policies vdnn_all;chen_sqrt --set memory.device_budget=8MiB",
        "configs/lenet5_mnist.ini");
    check_page(page);
    assert_int_equal(rows_of(page), 3);
    assert_has(page, "in 8.00 MiB of the device");
    assert_has_not(page, "left out, as they search or write to a disk");
    dt_free(page);
    page = page_of("sweep", "--set memory.device_budget=8MiB", "configs/lenet5_mnist.ini");
    check_page(page);
    assert_has(page, "left out, as they search or write to a disk: revolve, ");
    dt_free(page);
    page = page_of("sweep",
        "--policies chen_sqrt,vdnn_all --set memory.device_budget=16MiB --set model.name=resnet20 "
        "--set model.image=32",
        "configs/lenet5_mnist.ini");
    assert_has(page, ">chen_sqrt,vdnn_all is worse here than vdnn_all alone, whose batch is ");
    dt_free(page);
    page = page_of("compare", "--policies vdnn_all;network_wide --budgets 1MiB,12MiB",
        "configs/tiny_ini_network.ini");
    assert_has(page, "<td>vdnn_all</td><td>★</td>");
    assert_has(page, "<td>network_wide</td><td>above all budgets</td>");
    assert_has(page, "budgets of the device: 1.00 MiB, 12.00 MiB");
    assert_has(page, " data-v=\"1.0000\">100.0 %<i "); /* no longer than network_wide's bar */
    assert_has_not(page, " data-v=\"1.0000\">100.0 %<i style=\"width:100.0%");
    assert_has(page, " %<i style=\"width:100.0%\">");
    dt_free(page);
    static const struct {
        const char *words, *want;
    } wrong[] = {{"sweep FILE --html page.svg", "FILE.html"},
        {"compare FILE --html page", "FILE.html"}, {"plan FILE --html x.htm", "FILE.html"},
        {"compare FILE --html - --json", "stdout"}, {"sweep FILE --html - --json", "stdout"}};
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        ran r = cli_run(wrong[i].words, dt_source_path("configs/lenet5_mnist.ini"));
        assert_code(&r, 2);
        assert_has(r.err, wrong[i].want);
        cli_done(&r);
    }
}

/* ---- of a run ---- */

static ran train(const char *more, const char *dir)
{
    char words[2048];
    snprintf(words, sizeof words, "FILE --set train.steps=4 --set run.dir=%s %s", dir, more);
    return cli_run(words, dt_source_path("configs/tiny_ini_network.ini"));
}

static void a_run_leaves_one(void **state)
{
    NEED_BINARY();
    char dir[512], path[600];
    snprintf(dir, sizeof dir, "%s", dt_temp_path("paged"));
    snprintf(path, sizeof path, "%s/report.html", dir);
    ran r = train("", dir);
    assert_code(&r, 0);
    assert_has(r.out, "summary.json, report.html");
    cli_done(&r);
    char *page = cli_text(path);
    check_page(page);
    assert_has_not(page, "<p class=\"failed\"");
    assert_has(page, "planned, and measured to the byte");
    assert_has(page, "done after 4 of 4 steps");
    cJSON *data = data_of(page);
    const cJSON *course = json_object(data, "course");
    assert_int_equal(cJSON_GetArraySize(list(course, "loss")), 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(cJSON_GetArrayItem(list(course, "step"), i)->valuedouble, i + 1);
    cJSON_Delete(data);
    dt_free(page);
}

/* What the program has said of a failure stands in the page, as text. */
static void a_run_that_failed_says_why(void **state)
{
    NEED_BINARY();
    char dir[512], path[600], line[256];
    snprintf(dir, sizeof dir, "%s", dt_temp_path("failed"));
    snprintf(path, sizeof path, "%s/report.html", dir);
    ran r = train("--set train.lr=1e6", dir);
    assert_code(&r, 7);
    const char *said = strstr(r.err, "dnntrain: step ");
    assert_non_null(said);
    said += strlen("dnntrain: ");
    snprintf(line, sizeof line, "<p class=\"failed\">%.*s", (int)strcspn(said, "'\n"), said);
    char *page = cli_text(path);
    check_page(page);
    assert_has(page, line);
    cli_done(&r);
    dt_free(page);
}

static double median_but_first(const cJSON *of)
{
    double v[16];
    const int n = cJSON_GetArraySize(of) - 1;
    assert_in_range(n, 1, 16);
    for (int i = 0; i < n; i++)
        v[i] = cJSON_GetArrayItem(of, i + 1)->valuedouble;
    return dt_median(v, (size_t)n);
}

/* Of numbers that stand there in six digits the median may be on the other side of a half. */
static bool shows_rate(const char *page, double rate)
{
    char tile[128], text[DT_HUMAN_BYTES];
    snprintf(tile, sizeof tile, "<dt>samples a second</dt><dd class=\"value\">%s</dd>",
        dt_human_rate(text, rate));
    return strstr(page, tile) != NULL;
}

/* A run that goes on shows its whole course, and in its tiles says what came of all of it. */
static void a_run_that_goes_on_shows_all_of_it(void **state)
{
    NEED_BINARY();
    char dir[512], path[600], more[700], tile[256], rate[DT_HUMAN_BYTES];
    snprintf(dir, sizeof dir, "%s", dt_temp_path("resumed"));
    snprintf(path, sizeof path, "%s/report.html", dir);
    ran r = train("", dir);
    assert_code(&r, 0);
    cli_done(&r);
    snprintf(more, sizeof more, "--set train.steps=7 --resume %s", dir);
    r = train(more, dir);
    assert_code(&r, 0);
    char *page = cli_text(path);
    cJSON *data = data_of(page);
    const cJSON *loss = list(json_object(data, "course"), "loss"),
                *even = list(json_object(data, "course"), "smoothed");
    assert_int_equal(cJSON_GetArraySize(loss), 7);
    assert_has(r.out, "\ndone      after 7 of 7 steps\n");
    snprintf(tile, sizeof tile, "\nloss      %s at first, ",
        dt_human_number(rate, cJSON_GetArrayItem(loss, 0)->valuedouble));
    assert_has(r.out, tile);
    cli_done(&r);
    double sum = 0, weight = 0;
    for (int i = 0; i < 7; i++) {
        sum = 0.9 * sum + 0.1 * cJSON_GetArrayItem(loss, i)->valuedouble;
        weight = 0.9 * weight + 0.1;
        assert_true(fabs(cJSON_GetArrayItem(even, i)->valuedouble - sum / weight) < 1e-5);
    }
    snprintf(tile, sizeof tile,
        "<dt>loss at the end, smoothed</dt><dd class=\"value\">%.4g</dd><dd>%.4g in the first "
        "step<",
        sum / weight, cJSON_GetArrayItem(loss, 0)->valuedouble);
    assert_has(page, tile);
    const double median = median_but_first(list(json_object(data, "course"), "rate"));
    assert_true(shows_rate(page, median * (1 - 5e-6)) || shows_rate(page, median * (1 + 5e-6)));
    cJSON_Delete(data);
    dt_free(page);
}

/* More lines than a page has points for, and than are read one by one: fewer points, all
 * evaluations. */
static void long_runs_have_few_points(void **state)
{
    NEED_BINARY();
    enum { COPIES = 70000, POINTS = 400 };
    char dir[512], path[600], more[700];
    snprintf(dir, sizeof dir, "%s", dt_temp_path("long"));
    ran r = train("", dir);
    assert_code(&r, 0);
    cli_done(&r);
    snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
    char *lines = cli_text(path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (const char *at = lines; *at != '\0';) {
        const char *end = strchr(at, '\n') + 1;
        const bool eval = memcmp(at, "{\"step\": 4", 10) == 0 && strstr(at, "\"eval\"") < end &&
                          strstr(at, "\"eval\"") != NULL;
        for (int i = 0; i < (eval ? 2 : COPIES); i++)
            fwrite(at, 1, (size_t)(end - at), f);
        at = end;
    }
    fputs("no line\n", f);
    assert_true(ftell(f) > 34 << 20);
    assert_int_equal(fclose(f), 0);
    snprintf(more, sizeof more, "--set train.steps=5 --resume %s", dir);
    r = train(more, dir);
    assert_code(&r, 0);
    cli_done(&r);
    snprintf(path, sizeof path, "%s/report.html", dir);
    char *page = cli_text(path);
    check_page(page);
    cJSON *data = data_of(page);
    const cJSON *loss = list(json_object(data, "course"), "loss");
    assert_in_range(cJSON_GetArraySize(loss), POINTS / 2, POINTS);
    assert_int_equal(count(page, "<circle class=\"dot"), 3 + 1); /* and that of the legend */
    cJSON_Delete(data);
    dt_free(page);
    dt_free(lines);
}

static void none_where_it_is_not_wanted(void **state)
{
    NEED_BINARY();
    char dir[512], path[600];
    snprintf(dir, sizeof dir, "%s", dt_temp_path("unpaged"));
    snprintf(path, sizeof path, "%s/report.html", dir);
    ran r = train("--set train.report=off", dir);
    assert_code(&r, 0);
    assert_has_not(r.err, "report.html");
    cli_done(&r);
    assert_int_not_equal(access(path, F_OK), 0);
}

/* A folder in its place: the run says so and is done all the same. */
static void a_run_goes_on_without(void **state)
{
    NEED_BINARY();
    char dir[512], path[600], more[700];
    snprintf(dir, sizeof dir, "%s", dt_temp_path("stubborn"));
    snprintf(path, sizeof path, "%s/report.html", dir);
    ran r = train("", dir);
    assert_code(&r, 0);
    cli_done(&r);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(more, sizeof more, "--set train.steps=6 --resume %s", dir);
    r = train(more, dir);
    assert_code(&r, 0);
    assert_has(r.err, "no report.html");
    assert_has_not(r.out, "summary.json, report.html");
    cli_done(&r);
}

/* What is at @at, up to @end, in @to. */
static void cut(char *to, size_t room, const char *at, const char *end)
{
    assert_true(end > at && (size_t)(end - at) < room);
    memcpy(to, at, (size_t)(end - at));
    to[end - at] = '\0';
}

/* Of @n pictures in a page, how many classes stand below them. */
static size_t classes_in(const char *page, size_t n)
{
    enum { MOST_PICTURES = 16, NAME = 32 };
    static const char before[] = "<img alt=\"";
    char name[MOST_PICTURES][NAME];
    size_t pictures = 0, classes = 0;
    for (const char *at = page; (at = strstr(at, before)) != NULL; pictures++) {
        assert_true(pictures < MOST_PICTURES);
        at += strlen(before);
        cut(name[pictures], NAME, at, strchr(at, '"'));
        bool seen = false;
        for (size_t i = 0; i < pictures; i++)
            seen = seen || strcmp(name[i], name[pictures]) == 0;
        classes += !seen;
    }
    assert_int_equal(pictures, n);
    return classes;
}

/* Classes take turns in made-up data, of as many samples as are shown times a number that classes
 * divide, or that they do not. */
static void pictures_are_of_as_many_classes_as_can_be(void **state)
{
    NEED_BINARY();
    static const size_t classes[] = {2, 4, 7, 8, 10};
    for (size_t i = 0; i < DT_COUNT(classes); i++) {
        char words[1024], path[600];
        snprintf(words, sizeof words,
            "FILE --set model.classes=%zu --set data.samples=2048 --set train.steps=1 --set "
            "train.batch=8 --set run.dir=%.500s%zu",
            classes[i], dt_temp_path("classed"), i);
        ran r = cli_run(words, cli_file("classed.ini", "[model]\nname = lenet5\nimage = 28\n"));
        assert_code(&r, 0);
        cli_done(&r);
        snprintf(path, sizeof path, "%.500s%zu/report.html", dt_temp_path("classed"), i);
        char *page = cli_text(path);
        assert_int_equal(classes_in(page, 8), classes[i] < 8 ? classes[i] : 8);
        dt_free(page);
    }
}

/* Classes whose names would be elements: they stand below the pictures, as text. */
static void hostile_classes_stay_text(void **state)
{
    NEED_BINARY();
    static const char *const classes[] = {"<b class=hostile>&\"", "plain"};
    enum { SIDE = 16, EACH = 3 };
    char root[512], path[700], words[1200];
    uint8_t px[SIDE * SIDE * 3];
    snprintf(root, sizeof root, "%s", dt_temp_path("classes"));
    put_folder(root);
    for (int c = 0; c < 2; c++) {
        snprintf(path, sizeof path, "%s/%s", root, classes[c]);
        put_folder(path);
        for (int i = 0; i < EACH; i++) {
            memset(px, c * 200 + i, sizeof px);
            blob b = make_rgb_png(px, SIDE, SIDE);
            snprintf(path, sizeof path, "%s/%s/%d.png", root, classes[c], i);
            put_file(path, b.p, b.n);
            blob_free(&b);
        }
    }
    const char *config = cli_file("pictures.ini",
        "[model]\nimage = 16\n[conv c]\nout = 4\nkernel = 3\npad = 1\n[global_avgpool p]\n[fc f]\n"
        "out = 2\n[train]\nbatch = 3\nsteps = 2\n[data]\nsource = images\n");
    snprintf(words, sizeof words,
        "FILE --set data.path=%s --set data.eval_path=%s --set run.dir=%s/run", root, root,
        dt_temp_path(""));
    ran r = cli_run(words, config);
    assert_code(&r, 0);
    cli_done(&r);
    snprintf(path, sizeof path, "%s", dt_temp_path("run/report.html"));
    char *page = cli_text(path);
    check_page(page);
    assert_has_not(page, "<b class");
    assert_has(page, "&lt;b class=hostile&gt;&amp;&quot;");
    assert_has(page, "alt=\"plain\"");
    assert_int_equal(count(page, "<figure"), 3); /* as many as a batch has */
    assert_int_equal(count(page, "src=\"data:image/bmp;base64,Qk"), 3);
    assert_has(page, "copies took ");
    assert_has_not(page, "0.00 s");
    assert_int_equal(count(page, "<span>right, ") + count(page, "<span>taken for "), 3);
    dt_free(page);
}

static int by_value(const void *va, const void *vb)
{
    const double a = *(const double *)va, b = *(const double *)vb;
    return (a > b) - (a < b);
}

/* Of a trace, the seconds of the time that program 'first' took as the median. */
static double usual_seconds(const char *trace)
{
    enum { TIMES = 16 };
    double whole[TIMES], begin = 0, end = 0;
    size_t n = 0;
    char before[32] = "";
    for (const char *at = strchr(trace, '\n') + 1; *at != '\0'; at = strchr(at, '\n') + 1) {
        char step[32], program[32];
        const char *last = strchr(at, '\n');
        assert_int_equal(sscanf(at, "%31[^,],%31[^,]", step, program), 2);
        if (strcmp(program, "first") != 0)
            continue;
        while (last[-1] != ',')
            last--;
        const char *first = last - 1;
        while (first[-1] != ',')
            first--;
        if (strcmp(step, before) != 0) {
            assert_true(n < TIMES);
            n++;
            begin = strtod(first, NULL);
            end = 0;
            snprintf(before, sizeof before, "%s", step);
        }
        begin = strtod(first, NULL) < begin ? strtod(first, NULL) : begin;
        end = strtod(last, NULL) > end ? strtod(last, NULL) : end;
        whole[n - 1] = end - begin;
    }
    assert_true(n > 0);
    qsort(whole, n, sizeof *whole, by_value);
    return whole[(n - 1) / 2];
}

/* What was traced stands below what was predicted, row by row. */
static void measured_rows_stand_beside_the_predicted(void **state)
{
    NEED_BINARY();
    char dir[512], trace[512], path[600], want[64];
    snprintf(dir, sizeof dir, "%s", dt_temp_path("traced"));
    snprintf(trace, sizeof trace, "%s", dt_temp_path("traced.csv"));
    snprintf(path, sizeof path, "%s/report.html", dir);
    assert_int_equal(setenv("DT_TRACE", trace, 1), 0);
    ran r = train("--set memory.policy=vdnn_all --set memory.simulate=p100", dir);
    assert_int_equal(unsetenv("DT_TRACE"), 0);
    assert_code(&r, 0);
    cli_done(&r);
    char *page = cli_text(path), *rows = cli_text(trace);
    check_page(page);
    snprintf(want, sizeof want, "in time, as measured: %.6f s<", usual_seconds(rows));
    assert_has(page, "in time, as simulated: ");
    assert_has(page, want);
    const char *measured = strstr(page, "data-seconds=\"measured\"");
    assert_non_null(measured);
    const char *end = strstr(measured, "</svg></div>");
    size_t boxes = 0;
    for (const char *at = measured;
         (at = strstr(at, "<rect ")) != NULL && (end == NULL || at < end); at++)
        boxes++;
    cJSON *data = data_of(page);
    const int ops = cJSON_GetArraySize(list(json_object(json_object(data, "plan"), "op"), "name"));
    assert_in_range(boxes, ops / 2, 3 * ops); /* but for those too short for the clock */
    cJSON_Delete(data);
    dt_free(page);
    dt_free(rows);
}

static bool has_row(const char *timeline, double from, double took)
{
    for (const char *at = strchr(timeline, '\n') + 1; *at != '\0'; at = strchr(at, '\n') + 1) {
        double begin, end;
        assert_int_equal(sscanf(at, "%*[^,],%*[^,],%*[^,],%*[^,],%*[^,],%lf,%lf", &begin, &end), 2);
        if (fabs(begin - from) < 2e-9 && fabs(end - begin - took) < 2e-9)
            return true;
    }
    return false;
}

/* However narrow the rectangle that stands for a row, its seconds are those of the timeline. */
static void lanes_tell_the_seconds_of_the_timeline(void **state)
{
    NEED_BINARY();
    char words[700], timeline[512], config[512];
    snprintf(config, sizeof config, "%s", dt_source_path("configs/tiny_ini_network.ini"));
    snprintf(timeline, sizeof timeline, "%s", dt_temp_path("lanes.csv"));
    snprintf(words, sizeof words,
        "--set memory.policy=vdnn_all --set memory.simulate=p100 --timeline %s", timeline);
    char *page = plan_page(words, config), *rows = cli_text(timeline);
    size_t told = 0;
    for (const char *at = page; (at = strstr(at, " data-i=\"")) != NULL; at++) {
        double from, took;
        if (sscanf(at, " data-i=\"%*d\" data-from=\"%lf\" data-took=\"%lf\"", &from, &took) != 2)
            continue; /* in no lane of seconds */
        told++;
        if (!has_row(rows, from, took))
            fail_msg("no row takes %.9f s from %.9f s on", took, from);
    }
    assert_true(told > 20);
    dt_free(page);
    dt_free(rows);
}

DT_TEST_GROUP(page)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(the_tables_are_the_plans),
        cmocka_unit_test(it_stays_small), cmocka_unit_test(one_op_is_no_ops),
        cmocka_unit_test(hostile_values_stay_text), cmocka_unit_test(text_is_escaped),
        cmocka_unit_test(a_chart_leaves_out_what_no_axis_has),
        cmocka_unit_test(a_page_without_memory_is_refused),
        cmocka_unit_test(comparisons_and_sweeps_have_pages), cmocka_unit_test(a_run_leaves_one),
        cmocka_unit_test(a_run_that_failed_says_why),
        cmocka_unit_test(a_run_that_goes_on_shows_all_of_it),
        cmocka_unit_test(pictures_are_of_as_many_classes_as_can_be),
        cmocka_unit_test(hostile_classes_stay_text), cmocka_unit_test(long_runs_have_few_points),
        cmocka_unit_test(measured_rows_stand_beside_the_predicted),
        cmocka_unit_test(lanes_tell_the_seconds_of_the_timeline),
        cmocka_unit_test(none_where_it_is_not_wanted), cmocka_unit_test(a_run_goes_on_without)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
