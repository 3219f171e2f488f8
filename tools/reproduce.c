/* dnntrain reproduce: published numbers beside ours, made by plans and simulation. */
#include "tools/reproduce.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/config/nearest.h"
#include "session/environment.h"
#include "tools/args.h"
#include "tools/json_out.h"

enum { MOST_PAPERS = 64 };

static const dt_published all_rows[] = {
#define DT_PUBLISHED(                                                                              \
    paper, row, kind, published, quantity, form, better, networks, own, base, assumed)             \
    {paper, row, DT_##kind, published, DT_##quantity, DT_##form, DT_##better, networks, own, base, \
        assumed},
#include "tools/published.def"
#undef DT_PUBLISHED
};

static const struct {
    const char *name;
    double tolerance; /* of ours ÷ published from 1; fixed, whatever comes out */
} kinds[] = {[DT_STATED] = {"stated", 0.01},
    [DT_FIGURE] = {"figure", 0.10},
    [DT_TIME] = {"time", 0.15},
    [DT_BATCH] = {"batch", 0.15},
    [DT_MEMORY] = {"memory", 0.15}};

typedef enum verdict { WITHIN, BETTER, OUTSIDE } verdict;

typedef struct reproduced {
    const dt_published *of;
    double ours, ratio;
    verdict verdict;
} reproduced;

typedef struct reproduce_flags {
    bool list, json, markdown;
} reproduce_flags;

/* What is not a number is within nothing. */
static void judge(reproduced *r)
{
    r->ratio = r->ours / r->of->published;
    const bool within = fabs(r->ratio - 1) <= kinds[r->of->kind].tolerance;
    const bool better =
        (r->of->better == DT_HIGHER && r->ratio > 1) || (r->of->better == DT_LOWER && r->ratio < 1);
    r->verdict = within ? WITHIN : better ? BETTER : OUTSIDE;
}

static const char *word(verdict v)
{
    return v == WITHIN ? "ok" : v == BETTER ? "better" : "off";
}

/* ---- printing ---- */

static void row(const reproduced *r)
{
    printf("%-12s %-68s %-7s %9.4g %9.4g %6.3f %-6s\n", r->of->paper, r->of->row,
        kinds[r->of->kind].name, r->of->published, r->ours, r->ratio, word(r->verdict));
    if (r->of->assumed[0] != '\0')
        printf("%-12s   %s\n", "", r->of->assumed);
    fflush(stdout);
}

static void table_head(void)
{
    printf("%-12s %-68s %-7s %9s %9s %6s\n", "paper", "row", "kind", "published", "ours", "ratio");
}

static void markdown(const reproduced *r)
{
    printf("| %s | %s | %s | %.4g | %.4g | %.3f | %s | %s |\n", r->of->paper, r->of->row,
        kinds[r->of->kind].name, r->of->published, r->ours, r->ratio, word(r->verdict),
        r->of->assumed);
}

static void markdown_head(void)
{
    char now[DT_FACT_BYTES];
    printf("# Published numbers, made again\n\n"
           "Written by `dnntrain reproduce all --markdown` on %.10s. Nothing is trained: bytes are "
           "those of verified plans for the processor's kernels,\n"
           "times are simulated on the papers' cards, so the machine matters little. A row is `ok` "
           "where ours ÷ published is within 1 %% of 1 for stated\n"
           "bytes and formulas, 10 %% for bytes read from a figure, 15 %% for times, batches and "
           "memory of other implementations; `better` where it is\n"
           "farther off to a system's advantage; `off` otherwise.\n\n"
           "| paper | row | kind | published | ours | ratio | | assumed, or why |\n"
           "| --- | --- | --- | ---: | ---: | ---: | --- | --- |\n",
        dt_date(now));
}

static void json_row(dt_json *list, const reproduced *r)
{
    dt_json j = dti_json_element(list);
    dti_json_text(&j, "paper", r->of->paper);
    dti_json_text(&j, "row", r->of->row);
    dti_json_text(&j, "kind", kinds[r->of->kind].name);
    dti_json_real(&j, "published", r->of->published, 6);
    dti_json_real(&j, "ours", r->ours, 6);
    dti_json_real(&j, "ratio", r->ratio, 6);
    dti_json_real(&j, "tolerance", kinds[r->of->kind].tolerance, 2);
    dti_json_flag(&j, "ok", r->verdict != OUTSIDE);
    dti_json_flag(&j, "better", r->verdict == BETTER);
    dti_json_text(&j, "note", r->of->assumed);
    dti_json_leave(list, &j);
}

/* "41 of 50 rows within their tolerance, 4 better than published, 5 off". */
static void summary(FILE *to, const reproduced *r, size_t n)
{
    size_t of[3] = {0};
    for (size_t i = 0; i < n; i++)
        of[r[i].verdict]++;
    fprintf(to, "\n%zu of %zu rows within their tolerance, %zu better than published, %zu off\n",
        of[WITHIN], n, of[BETTER], of[OUTSIDE]);
}

/* ---- rows ---- */

static dt_status make(reproduced *r, size_t n, const reproduce_flags *f, dt_err *err)
{
    if (!f->json)
        f->markdown ? markdown_head() : table_head();
    for (size_t i = 0; i < n; i++) {
        DT_TRY(err, dti_reproduce_measure(r[i].of, &r[i].ours, err), "%s, %s", r[i].of->paper,
            r[i].of->row);
        judge(&r[i]);
        if (f->markdown)
            markdown(&r[i]);
        else if (!f->json)
            row(&r[i]);
    }
    if (!f->json) {
        summary(stdout, r, n);
        return DT_OK;
    }
    dt_json list = dti_json_begin_list();
    for (size_t i = 0; i < n; i++)
        json_row(&list, &r[i]);
    return dti_json_end(&list, err);
}

static dt_status any_off(const reproduced *r, size_t n, dt_err *err)
{
    size_t off = 0;
    for (size_t i = 0; i < n; i++)
        off += r[i].verdict == OUTSIDE;
    return off == 0 ? DT_OK
                    : DT_FAIL(err, DT_E_INTERNAL, "%zu of %zu rows are off by more than allowed",
                          off, n);
}

static dt_status list_papers(void)
{
    for (size_t i = 0; i < DT_COUNT(all_rows);) {
        size_t n = 1;
        while (i + n < DT_COUNT(all_rows) && strcmp(all_rows[i].paper, all_rows[i + n].paper) == 0)
            n++;
        printf("%-12s %3zu row%s\n", all_rows[i].paper, n, n > 1 ? "s" : "");
        i += n;
    }
    return DT_OK;
}

static dt_status unknown(const char *name, dt_err *err)
{
    const char *names[MOST_PAPERS + 2] = {"all"};
    size_t n = 1;
    for (size_t i = 0; i < DT_COUNT(all_rows) && n <= MOST_PAPERS; i++)
        if (i == 0 || strcmp(all_rows[i].paper, all_rows[i - 1].paper) != 0)
            names[n++] = all_rows[i].paper;
    const char *near = dt_nearest(name, names);
    if (near != NULL)
        return DT_FAIL(err, DT_E_CONFIG, "there is no paper '%s'; did you mean '%s'?", name, near);
    return DT_FAIL(
        err, DT_E_CONFIG, "there is no paper '%s'; `dnntrain reproduce --list` names them", name);
}

static dt_status run_on(const char *paper, const reproduce_flags *f, dt_err *err)
{
    reproduced *r = dt_alloc(DT_COUNT(all_rows), sizeof *r);
    if (r == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the rows");
    size_t n = 0;
    for (size_t i = 0; i < DT_COUNT(all_rows); i++)
        if (strcmp(paper, "all") == 0 || strcmp(paper, all_rows[i].paper) == 0)
            r[n++].of = &all_rows[i];
    dt_status st = n > 0 ? make(r, n, f, err) : unknown(paper, err);
    if (st == DT_OK)
        st = any_off(r, n, err);
    dt_free(r);
    return st;
}

static dt_status reproduce(const dt_command_args *a, dt_err *err)
{
    reproduce_flags f = {0};
    const dt_flag flags[] = {
        {"--list", NULL, "the papers, and how many rows of each there are", &f.list, NULL},
        {"--json", NULL, "the rows as a list of objects", &f.json, NULL},
        {"--markdown", NULL, "the rows as docs/reproduced.md has them", &f.markdown, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    dt_cli cli;
    dt_status st = dti_cli_init(&cli, &dt_command_reproduce, a, flags, false, 1, err);
    if (st == DT_OK && !cli.help) {
        if (f.json && f.markdown)
            st = DT_FAIL(err, DT_E_CONFIG, "--json and --markdown exclude each other");
        else if (f.list)
            st = list_papers();
        else if (cli.n_word == 0)
            st = DT_FAIL(err, DT_E_CONFIG,
                "name a paper, or all; `dnntrain reproduce --list` "
                "names them");
        else
            st = run_on(cli.word[0], &f, err);
    }
    dti_cli_deinit(&cli);
    return st;
}

const dt_command dt_command_reproduce = {
    .name = "reproduce",
    .usage = "dnntrain reproduce --list|PAPER|all [--json|--markdown]",
    .summary = "numbers that papers report, made again by plans and simulation, beside them",
    .run = reproduce,
};
