/* The picture of a plan, read back: what it shows is what the plan says. */
#include "tests/fixture/run_cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/plan_text/plan_text.h"
#include "session/human.h"
#include "tools/plan_map.h"

typedef struct box {
    double x, y, w, h;
} box;

static double member(const char *at, const char *name)
{
    const char *v = strstr(at, name);
    assert_non_null(v);
    return strtod(v + strlen(name), NULL);
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        n++;
    return n;
}

/* The boxes of tensors that are placed and released: before their names. */
static box *boxes(const char *svg, size_t *n)
{
    const char *first = strstr(svg, "<g class=\"input\" data-of=\"tensor\">");
    const char *end = strstr(svg, "<g class=\"names\">");
    assert_non_null(first);
    assert_non_null(end);
    box *b = malloc((count(svg, "<rect") + 1) * sizeof *b);
    assert_non_null(b);
    *n = 0;
    for (const char *at = first; (at = strstr(at, "<rect ")) != NULL && at < end; at++)
        b[(*n)++] = (box){member(at, " x=\""), member(at, " y=\""), member(at, "width=\""),
            member(at, "height=\"")};
    return b;
}

static size_t rows_of(const dt_plan *p, dt_row_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_row; i++)
        n += p->row[i].kind == kind;
    return n;
}

/* Bytes that are placed, times the ops for which they are. */
static double area(const dt_plan *p)
{
    double live = 0, sum = 0;
    for (size_t i = 0; i < p->n_row; i++) {
        const dt_row *r = &p->row[i];
        if (r->kind == DT_ROW_PLACE)
            live += (double)r->bytes - (r->over >= 0 ? (double)p->tensor[r->over].bytes : 0);
        else if (r->kind == DT_ROW_RELEASE)
            live -= (double)r->bytes;
        else if (r->kind == DT_ROW_COMPUTE)
            sum += live;
    }
    return sum;
}

static void check_boxes(const dt_plan *p, const char *svg)
{
    enum { HEIGHT = 400, WIDTH = 900 };
    size_t n;
    box *b = boxes(svg, &n);
    const size_t ops = rows_of(p, DT_ROW_COMPUTE);
    const double round = 0.21; /* a tenth, and what is too thin to see is drawn 0.2 wide */
    double sum = 0, edges = 0;
    assert_int_equal(n, rows_of(p, DT_ROW_PLACE));
    for (size_t i = 0; i < n; i++) {
        sum += b[i].w * b[i].h;
        edges += b[i].w + b[i].h;
        for (size_t k = 0; k < i; k++)
            if (b[i].x + round < b[k].x + b[k].w && b[k].x + round < b[i].x + b[i].w &&
                b[i].y + round < b[k].y + b[k].h && b[k].y + round < b[i].y + b[i].h)
                fail_msg("boxes %zu and %zu overlap", k, i);
    }
    const double want = area(p) / (double)p->peak * HEIGHT / (double)ops * WIDTH;
    if (!(sum > want - edges * 0.2 && sum < want + edges * 0.2))
        fail_msg("the boxes cover %g, the tensors %g", sum, want);
    free(b);
}

/* What stays is drawn by role: all of its bytes, above each other. */
static void check_bands(const dt_plan *p, const char *svg)
{
    for (int role = 0; role < DT_ROLE_COUNT; role++) {
        uint64_t sum = 0;
        size_t n = 0;
        for (size_t i = 0; i < p->n_tensor; i++)
            if (dt_plan_resident(&p->tensor[i]) && p->tensor[i].role == role) {
                sum += p->tensor[i].bytes;
                n++;
            }
        char name[DT_HUMAN_BYTES], bytes[DT_HUMAN_BYTES], text[128];
        snprintf(text, sizeof text, "<title>%s, %s in %zu tensor%s<",
            dt_human_role(name, (dt_role)role), dt_human_bytes(bytes, sum), n, n == 1 ? "" : "s");
        if (n > 0)
            assert_has(svg, text);
    }
}

/* Copies are as tall as they have bytes, and the tallest of a lane are drawn first, so that none is
 * hidden. */
static void check_copies(const dt_plan *p, const char *svg)
{
    enum { TALL = 26, LEAST = 2 };
    uint64_t largest = 1;
    size_t n = 0;
    for (size_t i = 0; i < p->n_row; i++)
        if ((p->row[i].kind == DT_ROW_COPY_OUT || p->row[i].kind == DT_ROW_COPY_IN) &&
            p->row[i].bytes > largest)
            largest = p->row[i].bytes;
    for (const char *lane = svg; (lane = strstr(lane, "<g class=\"copies\"")) != NULL; lane++) {
        const char *end = strstr(lane, "</svg>");
        double before = TALL + 1;
        for (const char *at = lane; (at = strstr(at, "<rect")) != NULL && at < end; at++, n++) {
            const double tall = member(at, "height=\"");
            const char *name = strstr(at, "<title>") + strlen("<title>");
            double want = -1;
            for (size_t i = 0; i < p->n_tensor; i++)
                if (strncmp(name, p->tensor[i].name, strlen(p->tensor[i].name)) == 0 &&
                    name[strlen(p->tensor[i].name)] == ',')
                    want = (double)p->tensor[i].bytes * TALL / (double)largest;
            want = want < LEAST ? LEAST : want;
            if (!(fabs(tall - want) <= 0.06) || !(tall <= before + 0.06))
                fail_msg(
                    "a copy is %g tall, not %g; before it %g: %.80s", tall, want, before, name);
            before = tall;
        }
    }
    assert_int_equal(n, rows_of(p, DT_ROW_COPY_OUT) + rows_of(p, DT_ROW_COPY_IN));
}

static void check_policy(const char *policy, const char *lane)
{
    char words[2048];
    char text_path[512], map_path[512];
    snprintf(text_path, sizeof text_path, "%s", dt_temp_path("plan.txt"));
    snprintf(map_path, sizeof map_path, "%s", dt_temp_path("plan.svg"));
    snprintf(words, sizeof words,
        "plan FILE --set memory.policy=%s --set memory.device_budget=1GiB --text %s --map %s "
        "--program first",
        policy, text_path, map_path);
    ran r = cli_run(words, dt_source_path("configs/tiny_ini_network.ini"));
    assert_code(&r, 0);
    cli_done(&r);
    char *plan = cli_text(text_path), *svg = cli_text(map_path);
    dt_plan *p = NULL;
    dt_err err = {0};
    assert_ok(dti_plan_parse(&p, "plan.txt", plan, strlen(plan), &err), &err);
    assert_int_equal(strncmp(svg, "<svg ", 5), 0);
    assert_string_equal(svg + strlen(svg) - 7, "</svg>\n");
    assert_int_equal(count(svg, "<title>"), count(svg, "</title></rect>"));
    assert_int_equal(count(svg, "<text"), count(svg, "</text>"));
    assert_has_not(svg, "nan");
    assert_has_not(svg, "inf");
    for (size_t i = 0; i < p->n_op; i++)
        assert_has(svg, p->op[i].name);
    if (lane != NULL)
        assert_has(svg, lane);
    assert_has(svg, "budget 1.00 GiB");
    assert_has(svg, ">peak: ");
    check_bands(p, svg);
    check_boxes(p, svg);
    check_copies(p, svg);
    dt_plan_destroy(p);
    dt_free(plan);
    dt_free(svg);
}

static void shows_what_the_plan_says(void **state)
{
    NEED_BINARY();
    check_policy("keep_all", ">forward<");
    check_policy("vdnn_all", ">to host<");
    check_policy("chen_sqrt", ">recompute<");
    check_policy("gist", ">encode<");
}

/* The lane of the host's ops, the first one from @svg on, has these and nothing else but waits. */
static void check_host_lane(const dt_plan *p, const char *svg)
{
    const char *lane = strstr(svg, ">ops, host<");
    assert_non_null(lane);
    const char *end = strstr(lane, "</svg>");
    size_t ops = 0, titles = 0;
    for (size_t i = 0; i < p->n_row; i++) {
        char title[DT_TENSOR_NAME_BYTES + 32];
        if (p->row[i].kind != DT_ROW_COMPUTE || p->row[i].stream != DT_USUAL_HOST)
            continue;
        snprintf(title, sizeof title, "<title>%s, ", p->op[p->row[i].op].name);
        assert_true(strstr(lane, title) != NULL && strstr(lane, title) < end);
        ops++;
    }
    for (const char *at = lane; (at = strstr(at, "<title>")) != NULL && at < end; at++)
        titles += strncmp(at, "<title>waits", 12) != 0;
    assert_true(ops > 0);
    assert_int_equal(titles, ops);
}

/* A plan that is written by hand, whose host updates as soon as the gradients are there. */
static void ops_of_the_host_have_a_lane(void **state)
{
    (void)state;
    enum { MOST_ROWS = 64 };
    char *text = cli_text(dt_source_path("tests/plans/good/host_stream.plan")), *svg = NULL;
    double begin[MOST_ROWS], end[MOST_ROWS];
    size_t bytes = 0;
    dt_plan *p = NULL;
    dt_err err = {0};
    assert_ok(dti_plan_parse(&p, "host_stream.plan", text, strlen(text), &err), &err);
    assert_true(p->n_row <= MOST_ROWS);
    for (size_t i = 0; i < p->n_row; i++) {
        begin[i] = (double)i;
        end[i] = (double)i + 1;
    }
    const dt_timeline time = {
        .n = p->n_row, .begin = begin, .end = end, .seconds = (double)p->n_row};
    const dti_plan_picture picture = {.plan = p, .measured = &time};
    FILE *f = open_memstream(&svg, &bytes);
    assert_non_null(f);
    assert_ok(dti_plan_map(&picture, 1, f, &err), &err);
    assert_int_equal(fclose(f), 0);
    check_host_lane(p, svg);
    const char *in_time = strstr(svg, "data-seconds=\"measured\"");
    assert_non_null(in_time);
    check_host_lane(p, in_time);
    assert_true(count(svg, "<g class=\"copies\"") > 0);
    free(svg);
    dt_plan_destroy(p);
    dt_free(text);
}

/* Heights of the bands of a role, a plan each. */
static size_t bands(const char *svg, const char *role, double *tall, size_t most)
{
    char mark[64];
    size_t n = 0;
    snprintf(mark, sizeof mark, "<rect class=\"%s\"", role);
    for (const char *at = svg; (at = strstr(at, mark)) != NULL; at++) {
        const char *end = strstr(at, ">");
        if (n < most && strncmp(end, "><title>", 8) == 0)
            tall[n++] = member(at, "height=\"");
    }
    return n;
}

/* What takes the same bytes in each of them is as tall; every list stands there once. */
static void several_plans_are_on_one_scale(void **state)
{
    NEED_BINARY();
    enum { PLANS = 3 };
    char words[1024], path[512];
    double weights[PLANS + 1], optimizer[PLANS + 1];
    snprintf(path, sizeof path, "%s", dt_temp_path("beside.svg"));
    snprintf(words, sizeof words,
        "plan FILE --set memory.policy=vdnn_all --map %s --beside vdnn_all;chen_sqrt", path);
    ran r = cli_run(words, dt_source_path("configs/lenet5_mnist.ini"));
    assert_code(&r, 0);
    cli_done(&r);
    char *svg = cli_text(path);
    const char *first = strstr(svg, ">vdnn_all: "), *second = strstr(svg, ">keep_all: ");
    const char *third = strstr(svg, ">chen_sqrt: ");
    assert_non_null(first);
    assert_true(second > first);
    assert_true(third > second);
    assert_int_equal(count(svg, " at the peak, of which "), PLANS);
    assert_int_equal(bands(svg, "weights", weights, PLANS + 1), PLANS);
    assert_int_equal(bands(svg, "optimizer", optimizer, PLANS + 1), PLANS);
    for (int i = 1; i < PLANS; i++) {
        assert_true(fabs(weights[i] - weights[0]) <= 0.1);
        assert_true(fabs(optimizer[i] - optimizer[0]) <= 0.1);
    }
    assert_true(weights[0] > 1);
    assert_int_equal(count(svg, "<svg") - 1, count(svg, "</svg>") - 1);
    dt_free(svg);
    static const struct {
        const char *flags, *want;
    } wrong[] = {{"--beside chen_sqrt", "--map FILE.svg"},
        {"--map x.svg --beside chen_sqr", "chen_sqrt"},
        {"--map x.svg --beside chen_sqrt;;cdma", "semicolons"}};
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        snprintf(words, sizeof words, "plan FILE %s", wrong[i].flags);
        r = cli_run(words, dt_source_path("configs/lenet5_mnist.ini"));
        assert_code(&r, 2);
        assert_has(r.err, wrong[i].want);
        cli_done(&r);
    }
}

/* VGG is one part but for its end, so spans of that bear names; ResNet's stages have room for
 * theirs. */
/* Plans differ by instruction set, and so does what fits into a picture. */
static void as_by_avx2(void)
{
    assert_int_equal(setenv("DT_ISA", "avx2", 1), 0);
}

/* A text of a picture, as wide as its letters at the most. */
typedef struct label {
    double from, to, y;
} label;

/* The one that begins so. */
static label label_of(const char *svg, const char *words)
{
    enum { LETTER = 6 };
    const char *said = strstr(svg, words), *at = said;
    assert_non_null(said);
    while (strncmp(at, "<text", 5) != 0)
        at--;
    const double x = member(at, " x=\""), wide = LETTER * (double)strcspn(said + 1, "<");
    const char *end = strstr(at, "end\"");
    const bool ends = end != NULL && end < said;
    return (label){ends ? x - wide : x, ends ? x : x + wide, member(at, " y=\"")};
}

/* The picture of a plan, and the MiB of its peak. */
static char *picture_under(const char *policy, const char *budget, double *mib)
{
    char words[1024], path[512];
    snprintf(path, sizeof path, "%s", dt_temp_path("budget.svg"));
    snprintf(words, sizeof words,
        "plan FILE --set memory.policy=%s --set memory.device_budget=%s --map %s", policy, budget,
        path);
    ran r = cli_run(words, dt_source_path("configs/resnet50.ini"));
    assert_code(&r, 0);
    cli_done(&r);
    char *svg = cli_text(path);
    *mib = member(strstr(svg, "class=\"caption\""), ": ");
    assert_has(svg, " MiB at the peak");
    return svg;
}

/* However far above the peak a budget is: the peak's mark points at its bytes, and its name does
 * not lie over the budget's. */
static void the_peak_and_a_budget_are_both_read(void **state)
{
    NEED_BINARY();
    static const int percent[] = {100, 101, 105, 130, 190, 400};
    static const char *const policy[] = {"vdnn_all", "chen_sqrt"};
    for (size_t i = 0; i < DT_COUNT(percent) * DT_COUNT(policy); i++) {
        const char *of = policy[i % DT_COUNT(policy)];
        char budget[64], tick[64];
        double mib, x, y;
        dt_free(picture_under(of, "0", &mib));
        snprintf(budget, sizeof budget, "%.0fKiB",
            (mib + 0.01) * 1024 * percent[i / DT_COUNT(policy)] / 100);
        char *svg = picture_under(of, budget, &mib);
        const char *mark = strstr(svg, "<path class=\"peak\"");
        assert_non_null(mark);
        assert_int_equal(sscanf(mark, "<path class=\"peak\" d=\"M%lf %lf", &x, &y), 2);
        snprintf(tick, sizeof tick, ">%.2f MiB</text><path class=\"line\"", mib);
        assert_true(fabs(label_of(svg, tick).y - 4 - y) < 0.2);
        const label a = label_of(svg, ">budget "), b = label_of(svg, ">peak: ");
        const char *line = strstr(svg, "<path class=\"budget\"");
        double at = 0;
        if (line != NULL)
            assert_int_equal(sscanf(line, "<path class=\"budget\" d=\"M%*d %lf", &at), 1);
        if (at > b.y - 9 && at < b.y + 2)
            fail_msg("budget %s: its line goes through the peak's name", budget);
        if (fabs(a.y - b.y) < 11 && a.from < fmax(b.to, x + 4) && a.to > fmin(b.from, x - 4))
            fail_msg("budget %s: from %g to %g, over the peak's from %g to %g", budget, a.from,
                a.to, b.from, b.to);
        dt_free(svg);
    }
}

static void stages_have_names_that_fit(void **state)
{
    NEED_BINARY();
    static const struct {
        const char *config, *has[2], *not ;
    } all[] = {{"vgg16", {">features.0\xe2\x86\x92", ">classifier.6\xe2\x86\x92"}, ">features.0<"},
        {"resnet50", {">layer1<", ">layer4<"}, "layer1-"},
        {"vit_small", {">blocks.0\xe2\x86\x92", ">blocks.11\xe2\x86\x92"}, ">blocks<"}};
    as_by_avx2();
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        char words[1024], path[512], config[64];
        snprintf(path, sizeof path, "%s", dt_temp_path("stages.svg"));
        snprintf(words, sizeof words, "plan FILE --set memory.device_budget=0 --map %s", path);
        snprintf(config, sizeof config, "configs/%s.ini", all[i].config);
        ran r = cli_run(words, dt_source_path(config));
        assert_code(&r, 0);
        cli_done(&r);
        char *svg = cli_text(path);
        assert_has(svg, all[i].has[0]);
        assert_has(svg, all[i].has[1]);
        assert_has_not(svg, all[i].not );
        dt_free(svg);
    }
}

/* Of a long chain: between two names of stages there is room, whatever letters they have; and the
 * title of a long name ends. */
static void names_of_a_chain_stand_apart(void **state)
{
    NEED_BINARY();
    static char ini[16384] = "[model]\nimage = 8\nclasses = 2\n";
    char name[96], words[1024], path[512];
    size_t n = 0;
    for (int i = 0; i < 200; i++)
        snprintf(ini + strlen(ini), sizeof ini - strlen(ini),
            "[conv c%d]\nout = 2\nkernel = 3\npad = 1\n[relu r%d]\n", i, i);
    snprintf(ini + strlen(ini), sizeof ini - strlen(ini), "[fc f]\nout = 2\n[train]\nbatch = 4\n");
    memset(name, 'n', sizeof name - 1);
    memcpy(name + sizeof name - 5, ".ini", 5);
    snprintf(path, sizeof path, "%s", dt_temp_path("apart.svg"));
    snprintf(words, sizeof words, "plan FILE --map %s", path);
    ran r = cli_run(words, cli_file(name, ini));
    assert_code(&r, 0);
    cli_done(&r);
    char *svg = cli_text(path);
    assert_has(svg, "nnnn\xe2\x80\xa6, batch 4, program 'first'<");
    for (const char *at = svg; (at = strstr(at, "data-room=\"")) != NULL; at++, n++) {
        const char *text = strchr(at, '>') + 1;
        size_t letters = 0;
        for (const char *c = text; *c != '<'; c++)
            letters += (*c & 0xc0) != 0x80;
        assert_true(strtod(at + 11, NULL) >= 6.6 * (double)letters + 2.5);
    }
    assert_true(n > 10);
    dt_free(svg);
}

/* The pictures that the pages show, drawn by the algorithms of AVX2, as the tutorial has them.
 * Threads decide about scratch: the chain's configuration says how many, and the others take two.
 */
static void the_pages_show_what_is_drawn_now(void **state)
{
    NEED_BINARY();
    static const char big[] = "configs/resnet50.ini", small[] = "configs/chain.ini",
                      tower[] = "configs/tower.ini";
    static const struct {
        const char *name, *config, *flags;
    } pictures[] = {{"resnet50-vdnn_all", big,
                        "--set device.threads=2 --set train.batch=16 --set memory.policy=vdnn_all"},
        {"resnet50-beside", big,
            "--set device.threads=2 --set train.batch=16 --beside chen_sqrt;vdnn_all"},
        {"chain", small, ""},
        {"chain-vdnn_all", small, "--set memory.policy=vdnn_all --beside keep_all"},
        {"chain-chen_sqrt", small, "--set memory.policy=chen_sqrt --beside keep_all"},
        {"chain-gist", small, "--set memory.policy=gist --beside keep_all"},
        {"tower-zero_infinity", tower,
            "--set memory.policy=zero_infinity --set memory.ahead=0 --beside keep_all"},
        {"chain-time", small, "--set memory.policy=vdnn_all --set memory.simulate=p100"}};
    as_by_avx2();
    for (size_t i = 0; i < DT_COUNT(pictures); i++) {
        char words[1024], below[256], path[512];
        snprintf(path, sizeof path, "%s", dt_temp_path("page.svg"));
        snprintf(below, sizeof below, "docs/pictures/%s.svg", pictures[i].name);
        snprintf(words, sizeof words, "plan FILE %s --map %s", pictures[i].flags, path);
        ran r = cli_run(words, dt_source_path(pictures[i].config));
        assert_code(&r, 0);
        cli_done(&r);
        char *now = cli_text(path), *then = cli_text(dt_source_path(below));
        if (strcmp(now, then) != 0)
            fail_msg("%s is not what is drawn now: DT_ISA=avx2 ./dnntrain plan %s %s --map %s",
                below, pictures[i].config, pictures[i].flags, below);
        dt_free(now);
        dt_free(then);
    }
}

/* What the style of a picture fills a class with, "#009e73" or "url(#again)". */
static void fill_of(const char *svg, const char *class, char *fill, size_t most)
{
    static const char mark[] = "{ fill: ";
    char rule[64];
    snprintf(rule, sizeof rule, ".map .%s", class);
    for (const char *at = svg; (at = strstr(at, rule)) != NULL; at++) {
        const char after = at[strlen(rule)];
        if (after != ' ' && after != ',')
            continue;
        at = strstr(at, mark);
        assert_non_null(at);
        at += strlen(mark);
        snprintf(fill, most, "%.*s", (int)strcspn(at, " ;"), at);
        return;
    }
    fail_msg("no colour of %s", class);
}

/* An op has the colour of a role only where it is what writes that. */
static void a_colour_means_one_thing(void **state)
{
    NEED_BINARY();
    static const char *const same[][2] = {{"fetch", "input"}, {"update", "gradients"},
        {"forward", "activations"}, {"backward", "activation_gradients"}};
    char words[1024], path[512], role[32], kind[32];
    snprintf(path, sizeof path, "%s", dt_temp_path("colours.svg"));
    snprintf(words, sizeof words, "plan FILE --map %s", path);
    ran r = cli_run(words, dt_source_path("configs/chain.ini"));
    assert_code(&r, 0);
    cli_done(&r);
    char *svg = cli_text(path);
    for (int k = 0; k < DT_OP_KINDS; k++)
        for (int i = 0; i < DT_ROLE_COUNT; i++) {
            const char *op = dt_op_kind_name((dt_op_kind)k), *of = dt_role_name((dt_role)i);
            bool may = false;
            for (size_t s = 0; s < DT_COUNT(same); s++)
                may |= strcmp(op, same[s][0]) == 0 && strcmp(of, same[s][1]) == 0;
            fill_of(svg, op, kind, sizeof kind);
            fill_of(svg, of, role, sizeof role);
            if ((strcmp(kind, role) == 0) != may)
                fail_msg("%s is %s, and %s is %s", op, kind, of, role);
        }
    dt_free(svg);
}

/* A colour, of 1 each, as eyes without a kind of cone see it: by the matrices of Machado, Oliveira
 * and Fernandes, A Physiologically-based Model for Simulation of Color Vision Deficiency, table 1.
 */
static void seen(const char *fill, const double eye[3][3], double to[3])
{
    double linear[3];
    const long all = strtol(fill + 1, NULL, 16);
    assert_int_equal(strlen(fill), 7);
    for (int i = 0; i < 3; i++) {
        const double v = (double)(all >> (16 - 8 * i) & 0xff) / 255;
        linear[i] = v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4);
    }
    for (int i = 0; i < 3; i++) {
        double v = 0;
        for (int k = 0; k < 3; k++)
            v += eye[i][k] * linear[k];
        v = fmin(1, fmax(0, v));
        to[i] = v <= 0.0031308 ? 12.92 * v : 1.055 * pow(v, 1 / 2.4) - 0.055;
    }
}

/* Waits stand between ops, which are of these colours, some with hatching. */
static void waits_are_told_from_ops_by_all_eyes(void **state)
{
    NEED_BINARY();
    static const double eyes[][3][3] = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
        {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216},
            {-0.003882, -0.048116, 1.051998}},
        {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413},
            {-0.011820, 0.042940, 0.968881}}};
    static const char *const ops[] = {
        "forward", "orange", "update", "navy", "reorder", "pink", "decode"};
    char words[1024], path[512], fill[32];
    snprintf(path, sizeof path, "%s", dt_temp_path("eyes.svg"));
    snprintf(words, sizeof words, "plan FILE --map %s", path);
    ran r = cli_run(words, dt_source_path("configs/chain.ini"));
    assert_code(&r, 0);
    cli_done(&r);
    char *svg = cli_text(path);
    for (size_t e = 0; e < DT_COUNT(eyes); e++)
        for (size_t i = 0; i < DT_COUNT(ops); i++) {
            double a[3], b[3];
            fill_of(svg, "waits", fill, sizeof fill);
            seen(fill, eyes[e], a);
            fill_of(svg, ops[i], fill, sizeof fill);
            if (fill[4] == '\0')
                snprintf(fill, sizeof fill, "#cccccc");
            seen(fill, eyes[e], b);
            const double apart =
                sqrt(pow(a[0] - b[0], 2) + pow(a[1] - b[1], 2) + pow(a[2] - b[2], 2));
            if (!(apart > 0.2))
                fail_msg("to eyes %zu waits and %s are %.2f apart", e, ops[i], apart);
        }
    dt_free(svg);
}

DT_TEST_GROUP(plan_map)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(shows_what_the_plan_says),
        cmocka_unit_test(ops_of_the_host_have_a_lane),

        cmocka_unit_test(several_plans_are_on_one_scale),
        cmocka_unit_test(the_peak_and_a_budget_are_both_read),
        cmocka_unit_test(stages_have_names_that_fit),
        cmocka_unit_test(names_of_a_chain_stand_apart), cmocka_unit_test(a_colour_means_one_thing),
        cmocka_unit_test(waits_are_told_from_ops_by_all_eyes),
        cmocka_unit_test(the_pages_show_what_is_drawn_now)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
