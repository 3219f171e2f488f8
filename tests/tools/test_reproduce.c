/* Published numbers beside ours: what a row says holds together, the program's exit goes by it, and
 * a file of rows that is wrong is refused. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/accounts/superneurons.h"
#include "session/open.h"
#include "session/session.h"
#include "tests/fixture/json_read.h"
#include "tests/fixture/run_cli.h"
#include "session/reproduce.h"

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
    assert_true(strlen(json_text(row, "row")) > 5 && strlen(json_text(row, "where")) > 4);
    assert_true(strlen(json_text(row, "title")) > 10);
    assert_true(fabs(tolerance - tolerance_of(json_text(row, "kind"))) < 1e-9);
    assert_true(isfinite(ours) && published > 0);
    assert_true(fabs(ratio - ours / published) < 1e-4 * ratio);
    assert_true(json_flag(row, "ok") == (within || better));
    assert_false(within && better);
    if (!within)
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
        assert_has(r.err, "rows are off by more than allowed\n"); /* and no line of a source */
    cli_done(&r);
    return cJSON_GetArraySize(*rows);
}

static void rows_hold_together(void **state)
{
    (void)state;
    NEED_BINARY();
    static const char *const papers[] = {"chen", "gist"};
    for (size_t i = 0; i < DT_COUNT(papers); i++) {
        cJSON *rows;
        if (!dt_picked(i, 2, 2, 1))
            continue;
        assert_true(check_paper(papers[i], &rows) > 0);
        cJSON_Delete(rows);
    }
}

/* Our file with those rows alone that say so: others take longer. */
static const char *rows_that_say(const char *what)
{
    char *all = cli_text(dt_source_path("configs/papers/published.txt")), *to = all;
    for (char *line = all, *next; *line != '\0'; line = next) {
        next = line + strcspn(line, "\n");
        const bool last = *next == '\0';
        *next = '\0';
        const size_t n = (size_t)(next - line);
        if (strncmp(line, "row ", 4) != 0 || strstr(line, what) != NULL) {
            memmove(to, line, n);
            to += n;
            if (!last)
                *to++ = '\n';
        }
        next += !last;
    }
    *to = '\0';
    const char *path = cli_file("rows.txt", all);
    dt_free(all);
    return path;
}

/* Formulas and stated bytes come out, all of them. */
static void what_is_stated_comes_out(void **state)
{
    (void)state;
    NEED_BINARY();
    static const char *const papers[] = {"superneurons", "revolve"};
    const char *file = rows_that_say("| stated |");
    for (size_t i = 0; i < DT_COUNT(papers); i++) {
        char words[64];
        snprintf(words, sizeof words, "reproduce %s --rows FILE --json", papers[i]);
        ran r = cli_run(words, file);
        assert_code(&r, 0);
        cJSON *rows = json_of(r.out, strlen(r.out));
        assert_true(cJSON_GetArraySize(rows) >= 5);
        const cJSON *row;
        cJSON_ArrayForEach(row, rows)
        {
            assert_true(check_row(row, papers[i]) && !json_flag(row, "better"));
            assert_string_equal(json_text(row, "kind"), "stated");
        }
        cJSON_Delete(rows);
        cli_done(&r);
    }
}

/* ---- the file of rows ---- */

static void kinds_have_their_tolerances(void **state)
{
    (void)state;
    static const struct {
        dt_published_kind kind;
        const char *name;
        double tolerance;
    } all[] = {{DT_STATED, "stated", 0.01}, {DT_FIGURE, "figure", 0.10}, {DT_TIME, "time", 0.15},
        {DT_BATCH, "batch", 0.15}, {DT_MEMORY, "memory", 0.15}};
    assert_int_equal(DT_COUNT(all), DT_PUBLISHED_KINDS);
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        assert_string_equal(dt_published_kind_name(all[i].kind), all[i].name);
        assert_true(fabs(dt_published_tolerance(all[i].kind) - all[i].tolerance) < 1e-12);
    }
}

/* Nineteen papers have five rows or more; no two rows of a paper are made alike. */
static void our_rows_are_many_and_differ(void **state)
{
    (void)state;
    static dt_err err;
    dt_published p;
    size_t broad = 0;
    assert_ok(dt_published_read(&p, dt_source_path("configs/papers/published.txt"), &err), &err);
    assert_true(p.n_row >= 150);
    for (size_t i = 0; i < p.n_paper; i++) {
        size_t n = 0;
        for (size_t k = 0; k < p.n_row; k++)
            n += p.row[k].paper == i;
        broad += n >= 5 && strcmp(p.paper[i].name, "others") != 0;
    }
    assert_true(broad >= 19);
    for (size_t i = 0; i < p.n_row; i++)
        for (size_t k = 0; k < i; k++) {
            const dt_published_row *a = &p.row[i], *b = &p.row[k];
            const bool alike = a->paper == b->paper && a->form == b->form && a->most == b->most &&
                               memcmp(&a->quantity, &b->quantity, sizeof a->quantity) == 0 &&
                               strcmp(a->networks, b->networks) == 0 &&
                               strcmp(a->own, b->own) == 0 && strcmp(a->base, b->base) == 0;
            if (alike)
                fail_msg("made alike: %s and %s", a->what, b->what);
        }
    dt_published_deinit(&p);
}

#define HEAD "paper p | T | \nlet all = memory.policy=vdnn_all\n"
#define ROW(kind, number, better, making, net, own, base)                                          \
    "row table 1 | a thing | " kind " | " number " | " better " | " making " | " net " | " own     \
    " | " base " | \n"

static void a_good_file_is_read(void **state)
{
    (void)state;
    static const char text[] =
        "# of a test\n\n" HEAD "let both = $all memory.algorithms=small\n" ROW("time", "1.5",
            "higher", "more seconds most", "vgg16:8 alexnet:4", "$both",
            "memory.policy=keep_all") "row a | b | "
                                      "stated | 2e3 | neither | plain superneurons.tensors | "
                                      "alexnet:2 | model.fuse=off | | why";
    static dt_err err;
    dt_published p;
    assert_ok(dti_published_parse(&p, text, strlen(text), "t", &err), &err);
    assert_int_equal(p.n_paper, 1);
    assert_int_equal(p.n_row, 2);
    assert_string_equal(p.row[0].own, "memory.policy=vdnn_all memory.algorithms=small");
    assert_true(p.row[0].most && p.row[0].form == DTI_MORE && p.row[0].better == DT_HIGHER);
    assert_true(p.row[0].kind == DT_TIME && fabs(p.row[0].published - 1.5) < 1e-12);
    assert_true(p.row[1].quantity.account != NULL && !p.row[1].most);
    assert_string_equal(p.row[1].note, "why");
    dt_published_deinit(&p);
}

static void wrong_files_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"", "holds no row"},
        {"row a | b\n", "t:1: a row before the first `paper`"},
        {"papers p | T | \n", "t:1: a line begins with paper, let, row or #"},
        {"paper p | T\n", "t:1: `paper NAME | TITLE | NOTE`"},
        {HEAD "paper p | U | \n", "t:3: the paper p stands above already"},
        {HEAD "row a | b | time\n", "t:3: a row has 10 fields with | between them, this one 3"},
        {HEAD "row a|b|c|d|e|f|g|h|i|j|k\n", "this one more than 10"},
        {HEAD "let = x\n", "t:3: here must be a name"},
        {HEAD "let x y\n", "t:3: `let NAME = TEXT`"},
        {HEAD "let x = $al\n", "t:3: $al is not named above"},
        {HEAD "let x = \001\n", "t:3: a control character (1)"},
        {HEAD ROW("tim", "1", "higher", "plain seconds", "vgg16:8", "$all", ""),
            "no kind 'tim'; did you mean 'time'?"},
        {HEAD ROW("time", "nan", "higher", "plain seconds", "vgg16:8", "$all", ""),
            "'nan' is no number above 0"},
        {HEAD ROW("time", "-1", "higher", "plain seconds", "vgg16:8", "$all", ""),
            "'-1' is no number above 0"},
        {HEAD ROW("time", "1e999", "higher", "plain seconds", "vgg16:8", "$all", ""),
            "is no number above 0"},
        {HEAD ROW("time", "1", "up", "plain seconds", "vgg16:8", "$all", ""), "no direction 'up'"},
        {HEAD ROW("time", "1", "rival up", "plain seconds", "vgg16:8", "$all", ""),
            "no direction 'up'"},
        {HEAD ROW("time", "1", "rival neither", "plain seconds", "vgg16:8", "$all", ""),
            "t:3: behind `rival` stands higher or lower"},
        {HEAD ROW("time", "1", "higher", "seconds", "vgg16:8", "$all", ""),
            "'seconds' is no FORM QUANTITY"},
        {HEAD ROW("time", "1", "higher", "ration seconds", "vgg16:8", "$all", "$all"),
            "no form 'ration'; did you mean 'ratio'?"},
        {HEAD ROW("time", "1", "higher", "plain second", "vgg16:8", "$all", ""),
            "no quantity 'second'; did you mean 'seconds'?"},
        {HEAD ROW("time", "1", "higher", "plain superneurons.x", "vgg16:8", "$all", ""),
            "no figure 'superneurons.x'"},
        {HEAD ROW("time", "1", "higher", "plain seconds least", "vgg16:8", "$all", ""),
            "stands `most`, or nothing"},
        {HEAD ROW("time", "1", "higher", "plain seconds", "vgg16:8", "$all", "$all"),
            "`plain` has no base"},
        {HEAD ROW("time", "1", "higher", "ratio seconds", "vgg16:8", "$all", ""),
            "no base to compare with"},
        {HEAD ROW("time", "1", "higher", "plain seconds", "", "$all", ""), "of which network"},
        {HEAD ROW("time", "1", "higher", "plain seconds", "a:1", "$all", "")
                ROW("time", "2", "higher", "plain rate", "a:2", "$all", ""),
            "t:4: this row stands above already"},
        {HEAD "row a|b|time|1|higher|plain seconds|vgg16:8|$all||{held}\n",
            "t:3: a note has blanks where a row is `plain largest_batch`"},
    };
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        static dt_err err;
        dt_published p;
        memset(&err, 0, sizeof err);
        assert_int_equal(
            dti_published_parse(&p, wrong[i][0], strlen(wrong[i][0]), "t", &err), DT_E_DATA);
        assert_has(err.text, wrong[i][1]);
        dt_published_deinit(&p);
    }
    static dt_err err;
    dt_published p;
    assert_int_equal(dti_published_parse(&p, "row\0", 5, "t", &err), DT_E_DATA);
    assert_has(err.text, "is no text");
}

/* A field that names of names would make longer than there is room for. */
static void long_fields_are_refused(void **state)
{
    (void)state;
    static dt_err err;
    char text[4096] = HEAD "let x0 = 0123456789\n";
    dt_published p;
    for (int i = 1; i < 9; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "let x%d = $x%d$x%d$x%d\n", i,
            i - 1, i - 1, i - 1);
    assert_int_equal(dti_published_parse(&p, text, strlen(text), "t", &err), DT_E_DATA);
    assert_has(err.text, "a field of more than 1023 bytes");
    dt_published_deinit(&p);
}

/* vgg16 keeps up to a budget, beside 1,660,290,720 bytes that stay, so many maps of 224 x 224 x 64
 * values of each image; what is no blank stays as it is. */
static void blanks_are_filled_in(void **state)
{
    (void)state;
    static const char text[] =
        HEAD "row a | b | batch | 10 | neither | plain largest_batch | vgg16 | "
             "memory.policy=keep_all memory.device_budget=4GB | | "
             "{room}, {held}, {where}, {x}\n";
    static dt_err err;
    dt_published p;
    char note[128], want[32];
    double ours, held;
    const double map = 224 * 224 * 64 * 4.0;
    assert_ok(dti_published_parse(&p, text, strlen(text), "t", &err), &err);
    assert_ok(dt_reproduce_measure(&p.row[0], &ours, &err), &err);
    assert_ok(dt_reproduce_note(note, sizeof note, &p.row[0], ours, &err), &err);
    snprintf(want, sizeof want, "%.1f, ", (4e9 - 1660290720) / 10 / map);
    assert_int_equal(strncmp(note, want, strlen(want)), 0);
    held = strtod(note + strlen(want), NULL);
    assert_true(held > 0 && held <= (4e9 - 1660290720) / ours / map + 0.05);
    assert_true(held > (4e9 - 1660290720) / (ours + 1) / map - 0.15);
    assert_has(note, "ward of ");
    assert_has(note, ", {x}");
    dt_published_deinit(&p);
}

/* Four rows of 55: within, better, better of a rival, and off. */
static void rivals_are_told_apart(void **state)
{
    (void)state;
    NEED_BINARY();
#define OF_55(what, number, better)                                                                \
    "row theorem | " what " | stated | " number " | " better                                       \
    " | plain revolve.extra_2 | chain:1 | model.fuse=off | | why\n"
    static const char text[] =
        "paper p | T | \n" OF_55("as told", "55", "higher") OF_55("own more", "30", "higher")
            OF_55("rival's more", "30", "rival higher") OF_55("baseline's more", "30", "neither");
    char path[1024];
    snprintf(path, sizeof path, "%s", cli_file("rows.txt", text)); /* which runs write over */
    ran r = cli_run("reproduce p --rows FILE", path);
    assert_code(&r, 1);
    assert_has(r.out, "1 of 4 rows of 1 paper within their tolerance, 2 better than published, 1 ");
    assert_has(r.out,
        "\n50.0 % of the rows that are not better are within their tolerance; 2 are better,\n1 of "
        "them rivals': counting these as off it is 33.3 %, counting all of them\n25.0 %\n");
    assert_has(
        r.out, "bytes and formulas            4   50.0 %        50.0 %       2          1\n");
    cli_done(&r);
    r = cli_run("reproduce p --rows FILE --markdown", path);
    assert_has(r.out,
        "\n50.0 % of the rows that are not better are within their tolerance; 2 are better, 1 of "
        "them rivals': counting these as off it is 33.3 %, counting all of them 25.0 %\n");
    assert_has(r.out,
        "| bytes and formulas | 50.0 % | 50.0 % | 2 | 1 | 33.3 % | 33.3 % | 25.0 % | 25.0 % |");
    cli_done(&r);
    r = cli_run("reproduce p --rows FILE --json", path);
    cJSON *rows = json_of(r.out, strlen(r.out));
    assert_int_equal(cJSON_GetArraySize(rows), 4);
    for (int i = 0; i < 4; i++) {
        const cJSON *row = cJSON_GetArrayItem(rows, i);
        assert_int_equal(json_flag(row, "better"), i == 1 || i == 2);
        assert_int_equal(json_flag(row, "rival"), i == 2);
    }
    cJSON_Delete(rows);
    cli_done(&r);
}

/* Four digits without an exponent, and lines that fit a terminal of 80 columns. */
static void numbers_have_four_digits(void **state)
{
    (void)state;
    NEED_BINARY();
    static const char *const number[][2] = {{"16104", "   16,100 "}, {"999.96", "    1,000 "},
        {"0.0123456", "  0.01235 "}, {"1234567", "1,235,000 "}, {"55.5", "     55.5 "}};
    for (size_t i = 0; i < DT_COUNT(number); i++) {
        char text[512];
        snprintf(text, sizeof text,
            "paper p | T | \nrow theorem | a number of steps with a name as long as this | stated "
            "| "
            "%s | higher | plain revolve.extra_2 | chain:1 | model.fuse=off | | why that is so, in "
            "a "
            "sentence that does not end before the line does\n",
            number[i][0]);
        ran r = cli_run("reproduce p --rows FILE", cli_file("rows.txt", text));
        assert_has(r.out, number[i][1]);
        for (const char *line = r.out; *line != '\0'; line += strcspn(line, "\n") + 1)
            assert_true(strcspn(line, "\n") <= 80);
        cli_done(&r);
    }
}

/* Of a plan over its row's budget there is no number, which the note says before anything else. */
static void what_does_not_fit_says_so(void **state)
{
    (void)state;
    NEED_BINARY();
    char path[1024];
    const char *file = cli_file("rows.txt",
        "paper p | T | \nrow table 1 | a thing | memory | 1 | neither | plain device_mib | "
        "lenet5_mnist:8 | memory.device_budget=1000 memory.policy=keep_all | | why\n");
    snprintf(path, sizeof path, "%s", file); /* which runs write over */
    ran r = cli_run("reproduce p --rows FILE", path);
    assert_code(&r, 1);
    assert_has(r.out, "does not fit; why\n");
    assert_null(strstr(r.out, "nan"));
    cli_done(&r);
    r = cli_run("reproduce p --rows FILE --markdown", path);
    assert_has(r.out, "| - | - | off | does not fit; why |");
    cli_done(&r);
    r = cli_run("reproduce p --rows FILE --json", path);
    cJSON *rows = json_of(r.out, strlen(r.out));
    const cJSON *row = cJSON_GetArrayItem(rows, 0);
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(row, "ours")));
    assert_string_equal(json_text(row, "note"), "does not fit; why");
    cJSON_Delete(rows);
    cli_done(&r);
}

/* One network that does not fit leaves no largest, nor a mean, whichever of them it is. */
static void none_is_left_out_that_does_not_fit(void **state)
{
    (void)state;
    NEED_BINARY();
    static const char *const of[] = {"", " most"};
    static const char *const networks[] = {"lenet5_mnist:64", "lenet5_mnist:64 lenet5_mnist:8",
        "lenet5_mnist:8 lenet5_mnist:64", "lenet5_mnist:8 lenet5_mnist:64 lenet5_mnist:4"};
    for (size_t i = 0; i < DT_COUNT(of) * DT_COUNT(networks); i++) {
        char text[512];
        snprintf(text, sizeof text,
            "paper p | T | \nrow table 1 | a thing | memory | 100 | lower | plain device_mib%s | "
            "%s "
            "| memory.device_budget=1500KiB memory.policy=keep_all | | why\n",
            of[i % DT_COUNT(of)], networks[i / DT_COUNT(of)]);
        ran r = cli_run("reproduce p --rows FILE --json", cli_file("rows.txt", text));
        assert_code(&r, 1);
        cJSON *rows = json_of(r.out, strlen(r.out));
        const cJSON *row = cJSON_GetArrayItem(rows, 0);
        assert_true(cJSON_IsNull(cJSON_GetObjectItem(row, "ours")));
        assert_false(json_flag(row, "better"));
        cJSON_Delete(rows);
        cli_done(&r);
    }
    ran r = cli_run("reproduce p --rows FILE",
        cli_file("rows.txt", "paper p | T | \nrow table 1 | a thing | memory | 100 | lower | plain "
                             "device_mib most | "
                             "lenet5_mnist:8 lenet5_mnist:4 | memory.device_budget=1500KiB "
                             "memory.policy=keep_all | | "
                             "why\n"));
    assert_code(&r, 0); /* the two small ones fit */
    cli_done(&r);
}

/* What can only be seen when a row is made. */
static void wrong_rows_name_themselves(void **state)
{
    (void)state;
    NEED_BINARY();
    static const char *const wrong[][2] = {
        {"vgg61:8", "neither a model 'vgg61' nor configs/vgg61.ini"},
        {"vgg16:0", "a batch is 1 to"}, {"vgg16:8x", "a batch is 1 to"},
        {":8", "is no NETWORK:BATCH"}};
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        char text[256];
        snprintf(text, sizeof text,
            "paper p | T | \nrow table 7 | a thing | time | 1 | higher | plain seconds | %s | | "
            "|\n",
            wrong[i][0]);
        const char *path = cli_file("rows.txt", text);
        ran r = cli_run("reproduce p --rows FILE", path);
        assert_true(r.code == DT_E_CONFIG || r.code == DT_E_DATA);
        assert_has(r.err, wrong[i][1]);
        assert_has(r.err, "p, table 7: a thing");
        cli_done(&r);
    }
}

/* A policy that cuts the batch in parts does so in a row, too: at once 64 pictures do not fit. */
static void a_row_is_made_in_parts(void **state)
{
    (void)state;
    NEED_BINARY();
    const char *path = cli_file("rows.txt",
        "paper p | T | \n"
        "row a | whole | memory | 1 | neither | plain device_gb | vgg16:64 | memory.policy=modnn "
        "memory.device_budget=2GiB train.micro_batch=64 | |\n"
        "row a | parts | memory | 1 | neither | plain device_gb | vgg16:64 | memory.policy=modnn "
        "memory.device_budget=2GiB | |\n");
    ran r = cli_run("reproduce p --rows FILE --json", path);
    assert_code(&r, DT_E_INTERNAL);
    cJSON *rows = json_of(r.out, strlen(r.out));
    assert_false(cJSON_IsNumber(cJSON_GetObjectItem(cJSON_GetArrayItem(rows, 0), "ours")));
    const double gb = json_number(cJSON_GetArrayItem(rows, 1), "ours");
    assert_true(gb > 1.6 && gb <= 2.147483648);
    cJSON_Delete(rows);
    cli_done(&r);
}

/* ---- accounts ---- */

static void accounts_are_shown_and_never_run(void **state)
{
    (void)state;
    NEED_BINARY();
    ran r =
        cli_run("plan configs/papers/alexnet2012.ini --set train.batch=200 --set model.fuse=off "
                "--set memory.account=superneurons",
            NULL);
    assert_code(&r, 0);
    assert_has(r.out, "1489.355 MiB");
    cli_done(&r);
    static const char *const refused[][2] = {
        {"configs/mlp.ini --set memory.account=superneurons", "which nothing can run"},
        {"sweep configs/mlp.ini --set memory.device_budget=1GiB --set memory.account=superneurons",
            "which nothing can run"},
        {"sweep configs/mlp.ini --set memory.account=superneurons", "which nothing can run"},
        {"plan configs/gpt2_shakespeare.ini --set memory.account=vdnn",
            "gpt2 has no convolution, and vDNN's count is of"},
        {"plan configs/mlp.ini --set memory.account=korthikanti",
            "mlp has no attention, and this count is of transformers"},
        {"plan configs/mlp.ini --set memory.account=memonger",
            "mlp has no sums, which are the stages of memonger's example"},
        {"plan configs/mlp.ini --set memory.account=zero",
            "mlp has no attention, and ZeRO's count is of transformers"},
        {"plan configs/mlp.ini --set memory.account=superneuron", "superneurons"},
        {"plan configs/mlp.ini --set memory.account=checkmate", "memory.device_budget"},
        {"plan configs/mlp.ini --rows --set memory.account=revolve", "--json alone"},
        {"plan configs/resnet50.ini --set memory.account=revolve", "write [model] fuse = off"},
        {"plan configs/resnet50.ini --set memory.account=checkmate --set memory.device_budget=16GB",
            "write [model] fuse = off"},
        {"plan configs/resnet50.ini --set model.name=resnet1001 --set model.fuse=off "
         "--set memory.account=checkmate --set memory.device_budget=16GB",
            "checkmate: a network of 6677 ops"}};
    for (size_t i = 0; i < DT_COUNT(refused); i++) {
        r = cli_run(refused[i][0], NULL);
        assert_code(&r, DT_E_CONFIG);
        assert_has(r.err, refused[i][1]);
        cli_done(&r);
    }
}

/* Without a budget no trial fits one, and none is refused. */
static void a_trial_wants_a_budget(void **state)
{
    (void)state;
    NEED_BINARY();
    for (int given = 0; given < 2; given++) {
        char words[256];
        snprintf(words, sizeof words,
            "plan configs/vgg16.ini --set memory.account=vdnn --set memory.device_budget=%s",
            given ? "1MiB" : "0");
        ran r = cli_run(words, NULL);
        assert_code(&r, 0);
        assert_has(r.out, given ? "trial             0 " : "trial             - ");
        cli_done(&r);
    }
}

/* The published batches of VGG-19, one by one, as the paper's code counts them. */
static void checkmate_counts_as_published(void **state)
{
    (void)state;
    NEED_BINARY();
    ran r = cli_run("plan configs/vgg16.ini --json --set model.name=vgg19 --set model.classes=1000 "
                    "--set model.fuse=off --set memory.account=checkmate "
                    "--set memory.device_budget=16000000000",
        NULL);
    assert_code(&r, 0);
    cJSON *all = json_of(r.out, strlen(r.out));
    static const double want[] = {167, 197, 197, 266, 266, 289};
    const cJSON *figure;
    size_t i = 0;
    cJSON_ArrayForEach(figure, cJSON_GetObjectItem(all, "figures"))
        assert_true(fabs(json_number(figure, "value") - want[i++]) < 0.5);
    assert_int_equal(i, DT_COUNT(want));
    cJSON_Delete(all);
    cli_done(&r);
}

/* Bytes of networks of some layers, by figure: all, selective, full. */
static void transformer_keeps(int layers, double mib[3])
{
    char words[512];
    snprintf(words, sizeof words,
        "plan configs/gpt2_shakespeare.ini --json --set model.fuse=off --set train.batch=3 "
        "--set model.heads=4 --set model.width=64 --set model.context=32 --set model.layers=%d "
        "--set model.dropout=0.1 --set memory.account=korthikanti",
        layers);
    ran r = cli_run(words, NULL);
    assert_code(&r, 0);
    cJSON *all = json_of(r.out, strlen(r.out));
    const cJSON *figure;
    size_t i = 0;
    cJSON_ArrayForEach(figure, cJSON_GetObjectItem(all, "figures")) mib[i++] =
        json_number(figure, "value");
    assert_int_equal(i, 3);
    cJSON_Delete(all);
    cli_done(&r);
}

/* The paper's equations, of one layer more: s b h (34 + 5 a s / h), 34 s b h, 2 s b h. */
static void korthikanti_counts_by_the_equations(void **state)
{
    (void)state;
    NEED_BINARY();
    const double s = 32, b = 3, h = 64, a = 4, mib = 1 << 20;
    const double want[] = {s * b * h * (34 + 5 * a * s / h), 34 * s * b * h, 2 * s * b * h};
    double two[3], five[3];
    transformer_keeps(2, two);
    transformer_keeps(5, five);
    for (size_t i = 0; i < DT_COUNT(want); i++)
        assert_true(fabs(five[i] - two[i] - 3 * want[i] / mib) < 2e-6); /* six decimals of MiB */
}

/* 12 values of 2 bytes of each of 32 tokens, 64 channels and 5 layers, of 3 samples. */
static void zero_counts_by_its_formula(void **state)
{
    (void)state;
    static const char text[] = "[model]\nname = gpt2\nwidth = 64\nheads = 4\nlayers = 5\n"
                               "context = 32\nclasses = 100\n[data]\nsource = synthetic\n";
    static dt_err err;
    dt_session *s;
    double v[DT_ACCOUNT_FIGURES];
    const dt_account_ask ask = {.batch = 3, .figure = DT_ACCOUNT_ALL};
    assert_ok(dti_session_open_text(&s, "gpt", text, strlen(text), NULL, 0, &err), &err);
    assert_ok(dt_account_find("zero")->count(s->graph, &ask, v, &err), &err);
    assert_true(fabs(v[0] * 1e9 - 12.0 * 2 * 32 * 64 * 5 * 3) < 1e-3);
    dt_session_close(s);
}

/* Two maps, their sum, which is kept, and 48 scores, which no stage follows: the stretch up to the
 * sum is all three maps. */
static void memonger_sums_as_by_hand(void **state)
{
    (void)state;
    static const char text[] =
        "[model]\nimage = 8\nclasses = 48\nfuse = off\n[data]\nsource = synthetic\n"
        "[conv a]\nout = 3\nkernel = 3\npad = 1\n[conv b]\nout = 3\nkernel = 3\npad = 1\n"
        "[add s]\ninput = a, b\n[fc f]\nout = 48\n";
    static dt_err err;
    dt_session *s;
    double v[DT_ACCOUNT_FIGURES];
    const double gib = 1 << 30, map = 8 * 8 * 3 * 4;
    const dt_account_ask ask = {.batch = 7, .figure = DT_ACCOUNT_ALL};
    assert_ok(dti_session_open_text(&s, "hand", text, strlen(text), NULL, 0, &err), &err);
    assert_ok(dt_account_find("memonger")->count(s->graph, &ask, v, &err), &err);
    assert_true(fabs(v[0] * gib - 7 * (3 * map + 48 * 4)) < 1e-3);
    assert_true(fabs(v[1] * gib - 7 * (map + 3 * map)) < 1e-3);
    dt_session_close(s);
}

static size_t figure_named(const dt_account_desc *a, const char *name)
{
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(a->figure[i].name, name) == 0)
            return i;
    fail_msg("no figure %s", name);
    return 0;
}

/* Every √n-th value of ResNet-50, as if it were a line, computes more than one forward again. */
static void a_rule_that_leads_nowhere_has_no_number(void **state)
{
    (void)state;
    static const char text[] = "[model]\nname = resnet50\nclasses = 1000\nfuse = off\n"
                               "[data]\nsource = synthetic\n";
    static dt_err err;
    const dt_account_desc *a = dt_account_find("checkmate");
    dt_session *s;
    double v[DT_ACCOUNT_FIGURES] = {0};
    const int sqrt_rule = (int)figure_named(a, "sqrt");
    const dt_account_ask ask = {.batch = 1, .budget = 16000000000, .figure = sqrt_rule};
    assert_ok(dti_session_open_text(&s, "nowhere", text, strlen(text), NULL, 0, &err), &err);
    assert_ok(a->count(s->graph, &ask, v, &err), &err);
    assert_true(isnan(v[sqrt_rule]));
    dt_session_close(s);
}

/* Notes A1, A3 and A4: the baseline and the host's bytes of figures 11 and 12, 4.8 GB, and what the
 * dynamic policy takes on a card of 12 GB by the workspaces of figure 11. */
static void vdnn_counts_as_published(void **state)
{
    (void)state;
    static const struct {
        int64_t batch;
        uint64_t workspace;
        double all, trial;
    } want[] = {{64, 2500, 2504.8, 2}, {128, 2100, 4856.8, 3}, {256, 5000, 9560.8, 5}};
    static const char text[] = "[model]\nname = vgg19\nclasses = 1000\nfuse = off\n"
                               "[data]\nsource = synthetic\n";
    static dt_err err;
    dt_session *s;
    double v[DT_ACCOUNT_FIGURES];
    const dt_account_desc *a = dt_account_find("vdnn");
    assert_ok(dti_session_open_text(&s, "vgg", text, strlen(text), NULL, 0, &err), &err);
    for (size_t i = 0; i < DT_COUNT(want); i++) {
        const dt_account_ask ask = {.batch = want[i].batch,
            .budget = (uint64_t)12 << 30,
            .workspace = want[i].workspace << 20,
            .figure = DT_ACCOUNT_ALL};
        assert_ok(a->count(s->graph, &ask, v, &err), &err);
        assert_true(fabs(v[1] - want[i].all) < 0.1);
        assert_true(fabs(v[5] - want[i].trial) < 0.1);
    }
    assert_true(fabs(v[0] - 22974.5) < 0.1); /* of batch 256 */
    assert_true(fabs(v[3] - 16121) < 0.1);
    assert_true(fabs(v[6] - v[0] - 548.05 - 5000) < 0.1); /* 143,667,240 parameters */
    const dt_account_ask none = {.batch = 256, .budget = (uint64_t)8 << 30};
    assert_ok(a->count(s->graph, &none, v, &err), &err);
    assert_true(fabs(v[5]) < 0.1); /* nothing fits 8 GB */
    dt_session_close(s);
}

/* Figures 11 and 14: the dynamic policy moves nothing of the smaller networks, which run as fast as
 * their baseline, even with the largest workspace that figure 11 has. With one that is a MiB more
 * than a card has beside the baseline, vDNN_conv is the first that fits. */
static void vdnn_moves_nothing_of_small_networks(void **state)
{
    (void)state;
    static const char *const configs[] = {"alexnet2012.ini", "overfeat.ini", "googlenet2014.ini"};
    static const char *const set[] = {"model.fuse=off"};
    static dt_err err;
    const dt_account_desc *a = dt_account_find("vdnn");
    for (size_t i = 0; i < DT_COUNT(configs); i++) {
        char path[64];
        double v[DT_ACCOUNT_FIGURES];
        dt_session *s;
        snprintf(path, sizeof path, "configs/papers/%s", configs[i]);
        assert_ok(dt_session_open(&s, dt_source_path(path), set, 1, &err), &err);
        dt_account_ask ask = {.batch = 128,
            .budget = (uint64_t)12 << 30,
            .workspace = (uint64_t)5000 << 20,
            .figure = DT_ACCOUNT_ALL};
        assert_ok(a->count(s->graph, &ask, v, &err), &err);
        assert_true(fabs(v[5] - 2) < 0.1);
        ask.workspace = ask.budget - (uint64_t)(v[0] * 1048576) + ((uint64_t)1 << 20);
        assert_ok(a->count(s->graph, &ask, v, &err), &err);
        assert_true(fabs(v[5] - 3) < 0.1);
        dt_session_close(s);
    }
}

/* All inputs of convolutions and pools of VGG-16 at batch 256, out and back: twice 14,847 MiB. */
static void traffic_is_what_shapes_say(void **state)
{
    (void)state;
    NEED_BINARY();
    const double want = 2 * 14847 * 1048576.0 / 1e9;
    ran r = cli_run("reproduce modnn --rows FILE --json",
        rows_that_say("| VGG-16 256, vDNN_all, GB out and back |"));
    cJSON *rows = json_of(r.out, strlen(r.out));
    assert_int_equal(cJSON_GetArraySize(rows), 1);
    assert_true(fabs(json_number(cJSON_GetArrayItem(rows, 0), "ours") / want - 1) < 1e-3);
    cJSON_Delete(rows);
    cli_done(&r);
}

static void count(dti_superneurons *out, const char *config, const char *fuse, dt_status want)
{
    static dt_err err;
    dt_session *s;
    memset(&err, 0, sizeof err);
    assert_ok(dt_session_open(&s, dt_source_path(config), &fuse, 1, &err), &err);
    assert_int_equal(dti_superneurons_count(out, s->graph, 200, &err), want);
    if (want == DT_OK)
        assert_string_equal(err.text, "");
    else if (strcmp(fuse, "model.fuse=off") == 0) /* which is not to be asked for again */
        assert_true(strstr(err.text, "fuse") == NULL && strstr(err.text, "not known") != NULL);
    else
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
    dti_superneurons n;
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
    count(&n, "configs/resnet50.ini", "model.fuse=off", DT_OK);
    assert_int_equal(n.speed_runs, 84);
    assert_int_equal(n.memory_runs, 118);
    assert_int_equal(n.aware_runs, 85);
    count(&n, "configs/gpt2_shakespeare.ini", "model.fuse=off", DT_E_CONFIG);
    count(&n, "configs/resnet50.ini", "model.fuse=on", DT_E_CONFIG);
}

/* By the account's figures of @batch. */
static void batch_figures(double *value, const dt_session *s, dt_account_ask ask, int64_t batch)
{
    static dt_err err;
    ask.batch = batch;
    assert_ok(dt_account_find("superneurons")->count(s->graph, &ask, value, &err), &err);
}

/* The largest batch fits both budgets as counted at that batch, and one sample more does not; which
 * of them binds, they do in turn. */
static void superneurons_batches_are_what_fits(void **state)
{
    (void)state;
    static const struct {
        const char *net;
        uint64_t device, host;
    } cases[] = {{"vgg16", 12000000000, (uint64_t)128 << 30}, {"vgg16", 0, (uint64_t)16 << 30},
        {"resnet50", 12000000000, (uint64_t)128 << 30}, {"resnet50", 12000000000, 0},
        {"resnet152", 12000000000, (uint64_t)128 << 30}, {"resnet50", 1000000, 1000000}};
    const dt_account_desc *a = dt_account_find("superneurons");
    const size_t largest = figure_named(a, "largest_layer"), all = figure_named(a, "baseline"),
                 mirror = figure_named(a, "mirror"), most = figure_named(a, "batch"),
                 most_16 = figure_named(a, "batch_16");
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        static dt_err err;
        char text[256];
        double v[DT_ACCOUNT_FIGURES];
        dt_session *s;
        snprintf(text, sizeof text,
            "[model]\nname = %s\nclasses = 1000\nfuse = off\n[data]\nsource = synthetic\n",
            cases[i].net);
        assert_ok(dti_session_open_text(&s, "net", text, strlen(text), NULL, 0, &err), &err);
        const dt_account_ask ask = {
            .budget = cases[i].device, .host = cases[i].host, .figure = DT_ACCOUNT_ALL};
        const double states = 12.0 * (double)dt_graph_parameters(s->graph);
        const double image = 3.0 * 224 * 224 * 4, mib = 1 << 20;
        batch_figures(v, s, ask, 7);
        const int64_t batch = (int64_t)v[most];
        assert_true(v[most_16] == (double)(batch / 16 * 16));
        for (int64_t b = batch; b <= batch + 1 && batch > 0; b++) {
            batch_figures(v, s, ask, b);
            const double there = v[all] * mib + (double)b * image + states;
            const double here = v[largest] * mib + (double)b * image + states;
            const bool fits = (ask.host == 0 || there <= (double)ask.host) &&
                              (ask.budget == 0 || here <= (double)ask.budget);
            assert_true(fabs(v[mirror] * mib / there - 1) < 1e-12);
            assert_true(fits == (b == batch));
        }
        assert_true(cases[i].device == 1000000 ? batch == 0 : batch > 50);
        dt_session_close(s);
    }
}

/* Without a budget there is no largest batch. */
static void superneurons_batches_need_a_budget(void **state)
{
    (void)state;
    static const char text[] = "[model]\nname = resnet50\nclasses = 1000\nfuse = off\n"
                               "[data]\nsource = synthetic\n";
    static dt_err err;
    double v[DT_ACCOUNT_FIGURES];
    dt_session *s;
    assert_ok(dti_session_open_text(&s, "net", text, strlen(text), NULL, 0, &err), &err);
    batch_figures(v, s, (dt_account_ask){.figure = DT_ACCOUNT_ALL}, 16);
    assert_true(isnan(v[figure_named(dt_account_find("superneurons"), "batch")]));
    assert_true(isnan(v[figure_named(dt_account_find("superneurons"), "batch_16")]));
    dt_session_close(s);
}

/* A convolution, a norm and a ReLU, whose value goes through another convolution and norm and past
 * them into @end; a ReLU behind that. By hand: eleven tensors are outputs, of which two are a
 * fork's copies; gradients of their own have the inputs of the convolutions, the norms and the
 * fully connected layer, all inputs of a concatenation, and of a sum all but the first. The first
 * norm and ReLU run again for the ReLU's backward, which reads both; the second norm never does;
 * the last ReLU does, for the layer behind it. */
static void branches_are_counted_by_hand(void **state)
{
    (void)state;
    static const struct {
        const char *end;
        uint64_t tensors, maps;
    } nets[] = {{"add", 17, 14}, {"concat", 18, 18}};
    for (size_t i = 0; i < DT_COUNT(nets); i++) {
        char text[1024];
        static dt_err err;
        dt_session *s;
        dti_superneurons n;
        snprintf(text, sizeof text,
            "[model]\nclasses = 10\nimage = 12\nfuse = off\n"
            "[conv a]\nout = 4\nkernel = 3\npad = 1\n[batchnorm b]\n[relu c]\n"
            "[conv d]\nout = 4\nkernel = 3\npad = 1\n[batchnorm e]\n[%s f]\ninput = c, e\n"
            "[relu g]\n[fc h]\nout = 10\n[data]\nsource = synthetic\n",
            nets[i].end);
        assert_ok(dti_session_open_text(&s, "net", text, strlen(text), NULL, 0, &err), &err);
        assert_ok(dti_superneurons_count(&n, s->graph, 2, &err), &err);
        const uint64_t map = 2 * 4 * 12 * 12 * 4, image = 2 * 3 * 12 * 12 * 4, scores = 2 * 10 * 4;
        assert_int_equal(n.tensors, nets[i].tensors);
        assert_int_equal(n.baseline, nets[i].maps * map + image + 2 * scores);
        assert_int_equal(n.speed_runs, 3);
        assert_int_equal(n.memory_runs, 3);
        dt_session_close(s);
    }
}

/* ---- Gist's account ---- */

static double figure_of(const dt_account_desc *a, const double *value, const char *name)
{
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(a->figure[i].name, name) == 0)
            return value[i];
    fail_msg("there is no figure %s", name);
    return 0;
}

static void count_gist(double *value, const char *config, int64_t batch, double density)
{
    static const char *const sets[] = {"model.fuse=off", "model.classes=1000"};
    static dt_err err;
    dt_session *s;
    const dt_account_ask ask = {.batch = batch, .density = density, .figure = DT_ACCOUNT_ALL};
    assert_ok(dt_session_open(&s, dt_source_path(config), sets, DT_COUNT(sets), &err), &err);
    assert_ok(dt_account_find("gist")->count(s->graph, &ask, value, &err), &err);
    dt_session_close(s);
}

/* Figure 10 within a twentieth; figure 17, and of figure 8 what is lossless, within a tenth. @full:
 * figure 17 with as few bits as the network bears. */
static void gist_counts_as_published(void **state)
{
    (void)state;
    enum { FIGURE_10 = 4 };
    static const char *const names[] = {
        "sparse", "binary", "both", "lossless", "shared_lossless", "dynamic", "dynamic_lossless"};
    static const struct {
        const char *config;
        int64_t batch;
        double density, published[DT_COUNT(names)];
        const char *bits;
        double full;
    } nets[] = {{"configs/papers/alexnet_cntk.ini", 256, .178,
                    {1.06, 1.26, 1.35, 1.56, 1.52, 1.32, 1.85}, "dynamic_full8", 3.13},
        {"configs/papers/nin.ini", 256, .348, {1.14, 1.24, 1.47, 1.47, 1.38, 1.25, 1.65},
            "dynamic_full8", 2.27},
        {"configs/papers/overfeat.ini", 256, .113, {1.10, 1.30, 1.46, 1.55, 1.45, 1.1, 1.6},
            "dynamic_full8", 2.78},
        {"configs/vgg16.ini", 64, .136, {1.16, 1.34, 1.65, 1.65, 1.6, 1.4, 1.95}, "dynamic_full16",
            1.95},
        {"configs/papers/googlenet2014.ini", 64, .121, {1.04, 1.09, 1.14, 1.17, 1.17, 1.1, 1.3},
            "dynamic_full10", 3.22}};
    const dt_account_desc *a = dt_account_find("gist");
    double v[DT_ACCOUNT_FIGURES];
    for (size_t i = 0; i < DT_COUNT(nets); i++) {
        count_gist(v, nets[i].config, nets[i].batch, nets[i].density);
        for (size_t k = 0; k < DT_COUNT(names); k++) {
            const double off = figure_of(a, v, names[k]) / nets[i].published[k] - 1;
            if (!(fabs(off) <= (k < FIGURE_10 ? 0.05 : 0.1)))
                fail_msg("%s, %s: %+.1f %%", nets[i].config, names[k], 100 * off);
        }
        const double off = figure_of(a, v, nets[i].bits) / nets[i].full - 1;
        if (!(fabs(off) <= 0.1))
            fail_msg("%s, %s: %+.1f %%", nets[i].config, nets[i].bits, 100 * off);
    }
}

/* An image, a convolution and its ReLU of 768 bytes each, a pool and scores of a quarter of that.
 * By hand: stashed are the image as read, the image less its mean, ReLU and pool, 3.25 maps. Short
 * lives the convolution, whose bytes its gradient takes later, and beside that the pool's gradient:
 * 1.25. */
static void gist_counts_as_by_hand(void **state)
{
    (void)state;
    static const char text[] =
        "[model]\nimage = 8\nclasses = 48\nfuse = off\n"
        "[data]\nsource = synthetic\n[conv c]\nout = 3\nkernel = 3\npad = 1\n"
        "[relu r]\n[maxpool p]\nkernel = 2\nstride = 2\n[fc f]\nout = 48\n";
    const double map = 768.0 / (1 << 20);
    const struct {
        const char *figure;
        double want;
    } all[] = {{"stashed", 3.25 * map}, {"short_lived", 1.25 * map}, {"shared", 4.5 * map},
        {"sparse", 1},
        /* images, pool, a bit a value and four a maximum; two maps, as the ReLU is short-lived now
         */
        {"binary", 4.5 / (2 + 0.25 + 2.0 / 32 + 2)}, {"both", 4.5 / (2 + 0.25 + 2.0 / 32 + 2)},
        {"lossless", 4.5 / (2 + 0.25 + 2.0 / 32 + 1.25)},
        /* at backward of the pool: both its values, decoded, and both gradients; of what waits, no
         * images as read, which nothing reads again */
        {"dpr16", 4.5 / (2.25 / 2 + 2.5)}, {"dpr10", 4.5 / (2.25 / 3 + 2.5)},
        {"dpr8", 4.5 / (2.25 / 4 + 2.5)},
        /* at once, at backward of the pool: all that is stashed and two gradients; lossless the
         * images, a bit a value, four a maximum and the gradients; in 8 bits at backward of the
         * convolution: the images less their mean, once so and once decoded, and a gradient */
        {"dynamic", 1}, {"dynamic_lossless", 4.5 / (2 + 1.25 + 2.0 / 32)},
        {"dynamic_full8", 4.5 / (1.0 / 4 + 2)}};
    static dt_err err;
    dt_session *s;
    double v[DT_ACCOUNT_FIGURES];
    const dt_account_desc *a = dt_account_find("gist");
    const dt_account_ask ask = {.batch = 1, .density = 0.5, .figure = DT_ACCOUNT_ALL};
    assert_ok(dti_session_open_text(&s, "hand", text, strlen(text), NULL, 0, &err), &err);
    assert_ok(a->count(s->graph, &ask, v, &err), &err);
    for (size_t i = 0; i < DT_COUNT(all); i++)
        if (!(fabs(figure_of(a, v, all[i].figure) / all[i].want - 1) < 1e-3))
            fail_msg("%s: %g, not %g", all[i].figure, figure_of(a, v, all[i].figure), all[i].want);
    dt_session_close(s);
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
        {"reproduce chen --json --markdown", "exclude each other"},
        {"reproduce --list --json", "--list prints text alone; leave out --json"},
        {"reproduce --list --markdown", "--list prints text alone; leave out --markdown"},
        {"reproduce --list all", "leave out 'all', or --list"},
        {"reproduce chen --rows configs",
            "'configs' is a folder; name a list of rows, which is a file"}};
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
    ran r = cli_run("reproduce chen --markdown --rows FILE",
        rows_that_say("| time more by one forward again, % |"));
    assert_has(r.out, "| where | what | kind |");
    assert_has(r.out, "## chen");
    const char *row = strstr(r.out, "| section 5.4 |");
    assert_non_null(row);
    int bars = 0;
    for (; *row != '\n'; row++)
        bars += *row == '|';
    assert_int_equal(bars, 9); /* between eight columns and around them */
    cli_done(&r);
}

/* The same kernels everywhere, so the same bytes and times, whatever the processor. */
static void by_avx2(void)
{
    setenv("DT_ISA", "avx2", 1);
}

/* What stands of one paper, from its title to the last of its rows; ends the text there. NULL: it
 * has none. */
static char *section_of(char *page, const char *paper)
{
    char title[64];
    snprintf(title, sizeof title, "\n## %s\n", paper);
    char *begin = strstr(page, title), *row = begin != NULL ? strstr(begin, "\n| --- |") : NULL;
    if (row == NULL)
        return NULL;
    while (strncmp(row, "\n| ", 3) == 0)
        row = row + 1 + strcspn(row + 1, "\n");
    *row = '\0';
    return begin + 1;
}

/* Line by line, so that the one that differs is told. */
static void assert_same_lines(char *a, char *b)
{
    char *rest_a = NULL, *rest_b = NULL;
    const char *x = strtok_r(a, "\n", &rest_a), *y = strtok_r(b, "\n", &rest_b);
    for (; x != NULL && y != NULL;
         x = strtok_r(NULL, "\n", &rest_a), y = strtok_r(NULL, "\n", &rest_b))
        assert_string_equal(x, y);
    assert_true(x == NULL && y == NULL);
}

/* Rows come out as they stand on the page, letter by letter: of one paper a run, and another with
 * each seed, of those that take up to 20 s of a processor; `tests/long reproduce` makes all. */
static void the_page_is_what_comes_out(void **state)
{
    NEED_BINARY();
    static const char *const papers[] = {"vdnn", "capuchin", "cdma", "cswap", "modnn", "gist",
        "others", "sentinel", "swapadvisor", "chen", "memonger", "checkmate", "revolve", "zero",
        "korthikanti"};
    for (size_t i = 0; i < DT_COUNT(papers); i++) {
        if (!dt_picked(i, DT_COUNT(papers), DT_COUNT(papers), 1))
            continue;
        char words[64];
        snprintf(words, sizeof words, "reproduce %s --markdown", papers[i]);
        cli.child = by_avx2;
        ran r = cli_run(words, NULL);
        cli.child = NULL;
        assert_true(r.code == 0 || r.code == 1);
        char *page = cli_text(dt_source_path("docs/reproduced.md"));
        char *written = section_of(page, papers[i]), *made = section_of(r.out, papers[i]);
        assert_true(written != NULL && made != NULL);
        assert_same_lines(written, made);
        dt_free(page);
        cli_done(&r);
    }
}

/* The library's scratch is for each thread, so rows are planned for as many of them everywhere. */
static void threads_change_no_row(void **state)
{
    NEED_BINARY();
    char path[1024];
    snprintf(path, sizeof path, "%s", rows_that_say("| VGG 64, baseline, small algorithms, MiB |"));
    cli.child = by_avx2;
    cli.threads = "1";
    ran one = cli_run("reproduce vdnn --rows FILE", path);
    cli.threads = "3";
    ran three = cli_run("reproduce vdnn --rows FILE", path);
    cli.threads = NULL;
    cli.child = NULL;
    assert_code(&one, 0);
    assert_has(one.out, "1 of 1 rows");
    assert_string_equal(one.out, three.out);
    cli_done(&one);
    cli_done(&three);
}

/* Of a line of the page that is a row: its kind, ratio and verdict. */
static bool row_of(char *line, char kind[16], double *ratio, char verdict[16])
{
    char *field[16], *rest = NULL;
    size_t n = 0;
    for (char *at = strtok_r(line, "|", &rest); at != NULL && n < 16;
         at = strtok_r(NULL, "|", &rest))
        field[n++] = at;
    if (n < 7 || sscanf(field[5], "%lf", ratio) != 1)
        return false;
    return sscanf(field[2], "%15s", kind) == 1 && sscanf(field[6], "%15s", verdict) == 1;
}

/* What the page says of a bar: reached, or missed by so many percent. */
static void assert_told(const char *page, const char *bar, double percent, double least)
{
    char told[96];
    if (percent >= least)
        snprintf(told, sizeof told, "%s: reached", bar);
    else
        snprintf(told, sizeof told, "%s: missed by %.1f", bar, least - percent);
    if (strstr(page, told) == NULL)
        fail_msg("docs/reproduced.md does not say '%s'", told);
}

/* The shares that the page tells are those of its rows, and so is what it says of the bars. */
static void the_page_counts_its_rows(void **state)
{
    (void)state;
    char *page = cli_text(dt_source_path("docs/reproduced.md")), *rest = NULL, told[128];
    char *whole = cli_text(dt_source_path("docs/reproduced.md"));
    size_t n = 0, within = 0, near = 0, better = 0;
    for (char *line = strtok_r(page, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char kind[16], verdict[16];
        double ratio;
        if (line[0] != '|' || !row_of(line, kind, &ratio, verdict) ||
            (strcmp(kind, "time") != 0 && strcmp(kind, "batch") != 0 &&
                strcmp(kind, "memory") != 0))
            continue;
        const bool apart = strcmp(verdict, "better") == 0;
        const bool ok = strcmp(verdict, "ok") == 0;
        assert_true(apart || ok || strcmp(verdict, "off") == 0);
        /* three digits are printed, so that at the limit itself a row may be either */
        assert_true(!ok || fabs(ratio - 1) < 0.1505);
        assert_true(ok || !(fabs(ratio - 1) < 0.1495));
        better += apart;
        n += !apart;
        within += ok;
        near += !apart && fabs(ratio - 1) <= 0.3;
    }
    assert_true(n > 150);
    const double a = 100 * (double)within / (double)n, b = 100 * (double)near / (double)n;
    snprintf(told, sizeof told, "\n| times, batches and memory | %.1f %% | %.1f %% | %zu |", a, b,
        better);
    if (strstr(whole, told) == NULL)
        fail_msg("docs/reproduced.md does not have%s", told);
    assert_told(whole, "70 % are to be within their tolerance over all papers", a, 70);
    assert_told(whole, "85 % within 30 %", b, 85);
    assert_true(a >= 70 && b >= 85);
    dt_free(page);
    dt_free(whole);
}

/* Counted as off a better row may yet be within 30 %: of 45 beside our 55 it is, of 30 it is not.
 */
static void better_rows_counted_as_off_may_be_near(void **state)
{
    (void)state;
    NEED_BINARY();
    static const char text[] = "paper p | T | \n" OF_55("as told", "55", "higher")
        OF_55("own more", "45", "higher") OF_55("rival's more", "45", "rival higher")
            OF_55("rival's much more", "30", "rival higher")
                OF_55("baseline's more", "30", "neither");
    char path[1024];
    snprintf(path, sizeof path, "%s", cli_file("rows.txt", text));
    ran r = cli_run("reproduce p --rows FILE --markdown", path);
    assert_has(r.out,
        "| bytes and formulas | 50.0 % | 50.0 % | 3 | 2 | 25.0 % | 50.0 % | 20.0 % | 60.0 % |");
    cli_done(&r);
}

/* Papers of which there are too few rows are no papers by name. */
static void others_are_told_as_others(void **state)
{
    NEED_BINARY();
    char path[1024];
    snprintf(path, sizeof path, "%s",
        cli_file("rows.txt", "paper others | T | \n" OF_55("as told", "55",
                                 "higher") "paper p | T | \n" OF_55("once more", "55", "higher")));
    ran r = cli_run("reproduce others --rows FILE", path);
    assert_code(&r, 0);
    assert_has(r.out, "\n1 of 1 rows of other papers within their tolerance, 0 better ");
    cli_done(&r);
    r = cli_run("reproduce all --rows FILE", path);
    assert_has(r.out, "\n2 of 2 rows of 1 paper and of others within their tolerance, 0 better ");
    cli_done(&r);
}

/* The page has a line of every row of the file, and says of what is better or off by what or why:
 * none of these has an empty note. */
static void the_page_says_why(void **state)
{
    (void)state;
    static dt_err err;
    dt_published p;
    size_t lines = 0, apart = 0;
    char *page = cli_text(dt_source_path("docs/reproduced.md"));
    assert_ok(dt_published_read(&p, dt_source_path("configs/papers/published.txt"), &err), &err);
    for (size_t i = 0; i < p.n_row; i++) {
        char head[256];
        snprintf(head, sizeof head, "\n| %s | %s | %s |", p.row[i].where, p.row[i].what,
            dt_published_kind_name(p.row[i].kind));
        if (strstr(page, head) == NULL)
            fail_msg("docs/reproduced.md lacks %s", head + 1);
    }
    for (char *rest = NULL, *line = strtok_r(page, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        const bool off = strstr(line, " | off |") != NULL;
        const bool row = off || strstr(line, " | better |") != NULL || strstr(line, " | ok |");
        if (strncmp(line, "| kind |", 8) == 0 || strncmp(line, "| paper |", 9) == 0 || !row)
            continue;
        lines++;
        if (strstr(line, " | ok |") != NULL)
            continue;
        apart++;
        if (strstr(line, off ? " | off |  |" : " | better |  |") != NULL)
            fail_msg("no word why: %s", line);
    }
    assert_int_equal(lines, p.n_row);
    assert_true(apart > 0);
    dt_published_deinit(&p);
    dt_free(page);
}

DT_TEST_GROUP(reproduce)
{
    static char root[1024];
    snprintf(root, sizeof root, "%s", dt_source_path("."));
    cli.folder = root; /* where the rows and their networks are */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_hold_together),
        cmocka_unit_test(what_is_stated_comes_out),
        cmocka_unit_test(kinds_have_their_tolerances),
        cmocka_unit_test(our_rows_are_many_and_differ),
        cmocka_unit_test(a_good_file_is_read),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(long_fields_are_refused),
        cmocka_unit_test(blanks_are_filled_in),
        cmocka_unit_test(rivals_are_told_apart),
        cmocka_unit_test(better_rows_counted_as_off_may_be_near),
        cmocka_unit_test(numbers_have_four_digits),
        cmocka_unit_test(what_does_not_fit_says_so),
        cmocka_unit_test(none_is_left_out_that_does_not_fit),
        cmocka_unit_test(wrong_rows_name_themselves),
        cmocka_unit_test(a_row_is_made_in_parts),
        cmocka_unit_test(accounts_are_shown_and_never_run),
        cmocka_unit_test(a_trial_wants_a_budget),
        cmocka_unit_test(checkmate_counts_as_published),
        cmocka_unit_test(korthikanti_counts_by_the_equations),
        cmocka_unit_test(zero_counts_by_its_formula),
        cmocka_unit_test(memonger_sums_as_by_hand),
        cmocka_unit_test(a_rule_that_leads_nowhere_has_no_number),
        cmocka_unit_test(vdnn_counts_as_published),
        cmocka_unit_test(vdnn_moves_nothing_of_small_networks),
        cmocka_unit_test(traffic_is_what_shapes_say),
        cmocka_unit_test(superneurons_counts_as_published),
        cmocka_unit_test(superneurons_batches_are_what_fits),
        cmocka_unit_test(superneurons_batches_need_a_budget),
        cmocka_unit_test(branches_are_counted_by_hand),
        cmocka_unit_test(gist_counts_as_published),
        cmocka_unit_test(gist_counts_as_by_hand),
        cmocka_unit_test(papers_are_named),
        cmocka_unit_test(a_page_is_written),
        cmocka_unit_test(the_page_is_what_comes_out),
        cmocka_unit_test(threads_change_no_row),
        cmocka_unit_test(the_page_counts_its_rows),
        cmocka_unit_test(others_are_told_as_others),
        cmocka_unit_test(the_page_says_why),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    cli.folder = NULL;
    return failed;
}
