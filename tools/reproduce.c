/* dnntrain reproduce: published numbers beside ours, made by plans, solvers and simulation. */
#include "session/reproduce.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/isa.h"
#include "engine/config/nearest.h"
#include "session/environment.h"
#include "session/open.h"
#include "tools/args.h"
#include "tools/json_out.h"
#include "tools/terminal.h"

enum { MOST_PAPERS = 64, NUMBER_BYTES = 32, NOTE_BYTES = 1100 };
enum { TITLE = 24 }; /* column of a title */

static const char own_rows[] = "configs/papers/published.txt";

typedef enum verdict { WITHIN, BETTER, OUTSIDE } verdict;

typedef struct reproduced {
    const dt_published_row *of;
    const dt_published_paper *paper;
    double ours, ratio;
    verdict verdict;
} reproduced;

/* @rows: the file; NULL: ours */
typedef struct reproduce_flags {
    bool list, json, markdown;
    const char *rows;
} reproduce_flags;

/* What is not a number is within nothing. */
static void judge(reproduced *r)
{
    r->ratio = r->ours / r->of->published;
    const bool within = fabs(r->ratio - 1) <= dt_published_tolerance(r->of->kind);
    const bool better =
        (r->of->better == DT_HIGHER && r->ratio > 1) || (r->of->better == DT_LOWER && r->ratio < 1);
    r->verdict = within ? WITHIN : better ? BETTER : OUTSIDE;
}

static const char *word(verdict v)
{
    return v == WITHIN ? "ok" : v == BETTER ? "better" : "off";
}

/* ---- printing ---- */

/* A number; where a plan does not fit there is none. */
static const char *number(char to[NUMBER_BYTES], double value)
{
    snprintf(to, NUMBER_BYTES, "%.4g", value);
    return isnan(value) ? "-" : to;
}

static const char *ratio(char to[NUMBER_BYTES], double value)
{
    snprintf(to, NUMBER_BYTES, "%.3f", value);
    return isnan(value) ? "-" : to;
}

/* The first part of a row's note, with what parts it from the second. */
static const char *unfit(const reproduced *r)
{
    return !isnan(r->ours) ? "" : r->of->note[0] == '\0' ? "does not fit" : "does not fit; ";
}

static void row(const reproduced *r)
{
    char name[256], ours[NUMBER_BYTES], part[NUMBER_BYTES];
    snprintf(name, sizeof name, "%s: %s", r->of->where, r->of->what);
    printf("%-12s %-68s %-7s %9.4g %9s %6s %-6s\n", r->paper->name, name,
        dt_published_kind_name(r->of->kind), r->of->published, number(ours, r->ours),
        ratio(part, r->ratio), word(r->verdict));
    if (r->of->note[0] != '\0' || isnan(r->ours))
        printf("%-12s   %s%s\n", "", unfit(r), r->of->note);
    fflush(stdout);
}

static void table_head(void)
{
    printf("%-12s %-68s %-7s %9s %9s %6s\n", "paper", "row", "kind", "published", "ours", "ratio");
}

static void markdown(const reproduced *r)
{
    char ours[NUMBER_BYTES], part[NUMBER_BYTES];
    printf("| %s | %s | %s | %.4g | %s | %s | %s | %s%s |\n", r->of->where, r->of->what,
        dt_published_kind_name(r->of->kind), r->of->published, number(ours, r->ours),
        ratio(part, r->ratio), word(r->verdict), unfit(r), r->of->note);
}

static void markdown_paper(const dt_published_paper *p)
{
    printf("\n## %s\n\n%s%s%s\n\n"
           "| where | what | kind | published | ours | ratio | | assumed, or why |\n"
           "| --- | --- | --- | ---: | ---: | ---: | --- | --- |\n",
        p->name, p->title, p->note[0] != '\0' ? ". " : "", p->note);
}

static void markdown_head(void)
{
    char now[DT_FACT_BYTES];
    printf(
        "# Published numbers, made again\n\n"
        "Written by `dnntrain reproduce all --markdown` on %.10s. Nothing is trained: bytes are "
        "those of verified plans for the kernels of %s (`DT_ISA`),\n"
        "or of an account where a paper counts in its own way; times are simulated on the "
        "papers' cards, so the machine matters little, but for searches, which a few bytes turn. A "
        "row is `ok`\n"
        "where ours ÷ published is within 1 %% of 1 for stated bytes and formulas, 10 %% for "
        "bytes read from a figure, 15 %% for times, batches and\n"
        "memory of other implementations; `better` where it is farther off to the advantage of a "
        "system, the paper's own or a rival that it ran; `off` otherwise.\n"
        "Frameworks and what keeps all are never `better`, nor is what comes of an assumption, "
        "such as one density for all values or a network that the paper does not give, or of what "
        "the simulator leaves out.\n",
        dt_date(now), dt_isa_name());
}

static void json_row(dt_json *list, const reproduced *r)
{
    char note[NOTE_BYTES];
    dt_json j = dt_json_element(list);
    dt_json_text(&j, "paper", r->paper->name);
    dt_json_text(&j, "title", r->paper->title);
    dt_json_text(&j, "where", r->of->where);
    dt_json_text(&j, "row", r->of->what);
    dt_json_text(&j, "kind", dt_published_kind_name(r->of->kind));
    dt_json_real(&j, "published", r->of->published, 6);
    dt_json_real(&j, "ours", r->ours, 6);
    dt_json_real(&j, "ratio", r->ratio, 6);
    dt_json_real(&j, "tolerance", dt_published_tolerance(r->of->kind), 2);
    dt_json_flag(&j, "ok", r->verdict != OUTSIDE);
    dt_json_flag(&j, "better", r->verdict == BETTER);
    dt_json_flag(&j, "rival", r->of->rival);
    snprintf(note, sizeof note, "%s%s", unfit(r), r->of->note);
    dt_json_text(&j, "note", note);
    dt_json_leave(list, &j);
}

/* How many rows came out how; of those that are not better, how many are within NEAR; of the
 * better ones, how many are a rival's. Bytes and formulas apart from what is of other
 * implementations. */
typedef struct counted {
    size_t of[3], near, rivals;
} counted;
static const double NEAR = 0.3;

static bool of_others(dt_published_kind k)
{
    return k == DT_TIME || k == DT_BATCH || k == DT_MEMORY;
}

static void count(counted *c, const reproduced *r)
{
    c->of[r->verdict]++;
    c->near += r->verdict != BETTER && fabs(r->ratio - 1) <= NEAR;
    c->rivals += r->verdict == BETTER && r->of->rival;
}

/* Of the rows that are `ok` or `off`, and of so many that are better, so many in percent. */
static double share_of(const counted *c, size_t part, size_t better)
{
    const size_t n = c->of[WITHIN] + c->of[OUTSIDE] + better;
    return n > 0 ? 100 * (double)part / (double)n : 100;
}

static double share(const counted *c, size_t better)
{
    return share_of(c, c->of[WITHIN], better);
}

static double near(const counted *c, size_t better)
{
    return share_of(c, c->near, better);
}

static void line_of_shares(const char *what, const counted *c)
{
    if (c->of[WITHIN] + c->of[BETTER] + c->of[OUTSIDE] == 0)
        return;
    printf("| %s | %.1f %% | %.1f %% | %zu | %zu | %.1f %% | %.1f %% | %.1f %% | %.1f %% |\n", what,
        share(c, 0), near(c, 0), c->of[BETTER], c->rivals, share(c, c->rivals), near(c, c->rivals),
        share(c, c->of[BETTER]), near(c, c->of[BETTER]));
}

/* What numbers of other implementations are to reach over all papers, and by how much they miss. */
static const double WITHIN_BAR = 70, NEAR_BAR = 85;

static void told_of_bar(char to[NUMBER_BYTES], double share_of_rows, double bar)
{
    if (share_of_rows >= bar)
        snprintf(to, NUMBER_BYTES, "reached");
    else
        snprintf(to, NUMBER_BYTES, "missed by %.1f", bar - share_of_rows);
}

static void bars(const counted *others)
{
    char within[NUMBER_BYTES], within_near[NUMBER_BYTES];
    told_of_bar(within, share(others, 0), WITHIN_BAR);
    told_of_bar(within_near, near(others, 0), NEAR_BAR);
    printf("\nOf times, batches and memory that are not apart %.0f %% are to be within their "
           "tolerance over all papers: %s; and %.0f %% within %.0f %%: %s.\n",
        WITHIN_BAR, within, NEAR_BAR, 100 * NEAR, within_near);
}

static void shares(const counted *bytes, const counted *others)
{
    counted all = *bytes;
    for (int v = WITHIN; v <= OUTSIDE; v++)
        all.of[v] += others->of[v];
    all.near += others->near;
    all.rivals += others->rivals;
    printf("\nof the rows not apart as better %.1f %% are within their tolerance; %zu are apart, "
           "%zu of "
           "them of rivals: with these counted as off it is %.1f %%, with all of them %.1f %%\n\n",
        share(&all, 0), all.of[BETTER], all.rivals, share(&all, all.rivals),
        share(&all, all.of[BETTER]));
    printf(
        "| rows | within | within %.0f %% | better, apart | of rivals | rivals' as off: within | "
        "within %.0f %% | all better as off: within | within %.0f %% |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
        100 * NEAR, 100 * NEAR, 100 * NEAR);
    line_of_shares("bytes and formulas", bytes);
    line_of_shares("times, batches and memory", others);
    line_of_shares("all", &all);
}

static void kinds(const counted of[DT_PUBLISHED_KINDS])
{
    printf("\n| kind | tolerance | ok | better | off |\n| --- | ---: | ---: | ---: | ---: |\n");
    for (int k = 0; k < DT_PUBLISHED_KINDS; k++)
        if (of[k].of[WITHIN] + of[k].of[BETTER] + of[k].of[OUTSIDE] > 0)
            printf("| %s | %.0f %% | %zu | %zu | %zu |\n",
                dt_published_kind_name((dt_published_kind)k),
                100 * dt_published_tolerance((dt_published_kind)k), of[k].of[WITHIN],
                of[k].of[BETTER], of[k].of[OUTSIDE]);
}

/* Whose rows: "9 papers", "9 papers and of others", or "other papers" where there are no more. */
static void whose(char *to, size_t bytes, size_t papers, bool few)
{
    if (papers == 0)
        snprintf(to, bytes, "other papers");
    else
        snprintf(to, bytes, "%zu paper%s%s", papers, papers == 1 ? "" : "s",
            few ? " and of others" : "");
}

/* "41 of 50 rows of 9 papers within their tolerance, 4 better than published, 5 off", the shares,
 * and a line a kind. */
static void summary(const reproduced *r, size_t n, bool page)
{
    counted of[DT_PUBLISHED_KINDS] = {{{0}, 0, 0}}, bytes = {0}, others = {0};
    char of_whom[64];
    size_t papers = 0;
    bool few = false; /* rows of papers of which there are fewer than five */
    for (size_t i = 0; i < n; i++) {
        count(&of[r[i].of->kind], &r[i]);
        count(of_others(r[i].of->kind) ? &others : &bytes, &r[i]);
        if (i > 0 && r[i].paper == r[i - 1].paper)
            continue;
        const bool one = strcmp(r[i].paper->name, "others") != 0;
        papers += one;
        few = few || !one;
    }
    whose(of_whom, sizeof of_whom, papers, few);
    printf("\n%zu of %zu rows of %s within their tolerance, %zu better than published, %zu off\n",
        bytes.of[WITHIN] + others.of[WITHIN], n, of_whom, bytes.of[BETTER] + others.of[BETTER],
        bytes.of[OUTSIDE] + others.of[OUTSIDE]);
    shares(&bytes, &others);
    if (page)
        bars(&others);
    kinds(of);
}

/* ---- rows ---- */

static void show(const reproduced *r, bool first, const reproduce_flags *f)
{
    if (f->json)
        return;
    if (!f->markdown) {
        row(r);
        return;
    }
    if (first)
        markdown_paper(r->paper);
    markdown(r);
}

static dt_status make(reproduced *r, size_t n, const reproduce_flags *f, dt_err *err)
{
    if (!f->json)
        f->markdown ? markdown_head() : table_head();
    for (size_t i = 0; i < n; i++) {
        DT_TRY(err, dt_reproduce_measure(r[i].of, &r[i].ours, err), "%s, %s: %s", r[i].paper->name,
            r[i].of->where, r[i].of->what);
        judge(&r[i]);
        show(&r[i], i == 0 || r[i].paper != r[i - 1].paper, f);
    }
    if (!f->json) {
        summary(r, n, f->markdown);
        return DT_OK;
    }
    dt_json list = dt_json_begin_list();
    for (size_t i = 0; i < n; i++)
        json_row(&list, &r[i]);
    return dti_json_out(&list, err);
}

/* A miss is no fault of the program, so no line of its source is named. */
static dt_status any_off(const reproduced *r, size_t n, dt_err *err)
{
    char text[96];
    size_t off = 0;
    for (size_t i = 0; i < n; i++)
        off += r[i].verdict == OUTSIDE;
    snprintf(text, sizeof text, "%zu of %zu rows are off by more than allowed", off, n);
    return off == 0 ? DT_OK : dt_err_append(err, DT_E_INTERNAL, text);
}

static dt_status list_papers(const dt_published *p)
{
    for (size_t i = 0; i < p->n_paper; i++) {
        size_t n = 0;
        for (size_t k = 0; k < p->n_row; k++)
            n += p->row[k].paper == i;
        printf("%-13s %3zu row%s  ", p->paper[i].name, n, n == 1 ? " " : "s");
        dti_term_wrap(stdout, TITLE, TITLE, p->paper[i].title);
    }
    return DT_OK;
}

static dt_status unknown(const dt_published *p, const char *name, dt_err *err)
{
    const char *names[MOST_PAPERS + 2] = {"all"};
    for (size_t i = 0; i < p->n_paper && i < MOST_PAPERS; i++)
        names[i + 1] = p->paper[i].name;
    const char *near = dt_nearest(name, names);
    if (near != NULL)
        return DT_FAIL(err, DT_E_CONFIG, "there is no paper '%s'; did you mean '%s'?", name, near);
    return DT_FAIL(
        err, DT_E_CONFIG, "there is no paper '%s'; `dnntrain reproduce --list` names them", name);
}

static dt_status run_on(
    const dt_published *p, const char *paper, const reproduce_flags *f, dt_err *err)
{
    reproduced *r = dt_alloc(p->n_row, sizeof *r);
    if (r == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the rows");
    size_t n = 0;
    for (size_t i = 0; i < p->n_row; i++) {
        const dt_published_paper *of = &p->paper[p->row[i].paper];
        if (strcmp(paper, "all") == 0 || strcmp(paper, of->name) == 0)
            r[n++] = (reproduced){.of = &p->row[i], .paper = of};
    }
    dt_status st = n > 0 ? make(r, n, f, err) : unknown(p, paper, err);
    if (st == DT_OK)
        st = any_off(r, n, err);
    dt_free(r);
    return st;
}

static dt_status run_rows(const dti_cli *cli, const reproduce_flags *f, dt_err *err)
{
    dt_published p = {0};
    const char *path = f->rows != NULL ? f->rows : own_rows;
    if (f->rows == NULL && !dt_session_in_configs(own_rows + strlen("configs/"), (char[64]){0}, 64))
        return DT_FAIL(err, DT_E_CONFIG,
            "there is no %s here; start in the project's folder, or name a file: --rows FILE",
            own_rows);
    DT_CHECK(dti_cli_check_file(path, err));
    dt_status st = dt_published_read(&p, path, err);
    if (st == DT_OK)
        st = f->list ? list_papers(&p) : run_on(&p, cli->word[0], f, err);
    dt_published_deinit(&p);
    return st;
}

/* Which rows, and how they are told. */
static dt_status check_asked(const dti_cli *cli, const reproduce_flags *f, dt_err *err)
{
    if (f->json && f->markdown)
        return DT_FAIL(err, DT_E_CONFIG, "--json and --markdown exclude each other");
    if (f->list && cli->n_word > 0)
        return DT_FAIL(err, DT_E_CONFIG,
            "--list names the papers and makes no rows; leave out '%s', or --list for its rows",
            cli->word[0]);
    if (f->list && (f->json || f->markdown))
        return DT_FAIL(err, DT_E_CONFIG,
            "--list prints text alone; leave out %s, or name a paper, or all, in place of --list",
            f->json ? "--json" : "--markdown");
    if (!f->list && cli->n_word == 0)
        return DT_FAIL(err, DT_E_CONFIG,
            "name a paper, or all; `dnntrain reproduce --list` "
            "names them");
    return DT_OK;
}

static dt_status reproduce(const dti_command_args *a, dt_err *err)
{
    reproduce_flags f = {0};
    const dti_flag flags[] = {
        {"--list", NULL, "the papers, and how many rows of each there are", &f.list, NULL},
        {"--json", NULL, "the rows as a list of objects", &f.json, NULL},
        {"--markdown", NULL, "the rows as docs/reproduced.md has them", &f.markdown, NULL},
        {"--rows", "FILE", "rows of this file in place of configs/papers/published.txt", NULL,
            &f.rows},
        {NULL, NULL, NULL, NULL, NULL},
    };
    dti_cli cli;
    dt_status st = dti_cli_init(&cli, &dt_command_reproduce, a, flags, false, 1, err);
    if (st == DT_OK && !cli.help) {
        st = check_asked(&cli, &f, err);
        if (st == DT_OK)
            st = run_rows(&cli, &f, err);
    }
    dti_cli_deinit(&cli);
    return st;
}

const dti_command dt_command_reproduce = {
    .name = "reproduce",
    .usage = "dnntrain reproduce --list|PAPER|all [--rows FILE] [--json|--markdown]",
    .summary = "numbers that papers report, made again by plans and simulation, beside them",
    .run = reproduce,
};
