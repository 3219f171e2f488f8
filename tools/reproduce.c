/* dnntrain reproduce: published numbers beside ours, made by plans, solvers and simulation. */
#include "tools/reproduce.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/config/nearest.h"
#include "session/open.h"
#include "tools/args.h"
#include "tools/terminal.h"

enum { MOST_PAPERS = 64 };
enum { TITLE = 24 }; /* column of a title */

static const char own_rows[] = "configs/papers/published.txt";

/* @rows: the file; NULL: ours */
typedef struct reproduce_flags {
    bool list, json, markdown;
    const char *rows;
} reproduce_flags;

/* What is not a number is within nothing. */
static void judge(dti_reproduced *r)
{
    r->ratio = r->ours / r->of->published;
    const bool within = fabs(r->ratio - 1) <= dt_published_tolerance(r->of->kind);
    const bool better =
        (r->of->better == DT_HIGHER && r->ratio > 1) || (r->of->better == DT_LOWER && r->ratio < 1);
    r->verdict = within ? DTI_WITHIN : better ? DTI_BETTER : DTI_OFF;
}

static dt_status make(dti_reproduced *r, size_t n, const reproduce_flags *f, dt_err *err)
{
    const bool text = !f->json && !f->markdown;
    for (size_t i = 0; i < n; i++) {
        DT_TRY(err, dt_reproduce_measure(r[i].of, &r[i].ours, err), "%s, %s: %s", r[i].paper->name,
            r[i].of->where, r[i].of->what);
        DT_TRY(err, dt_reproduce_note(r[i].note, sizeof r[i].note, r[i].of, r[i].ours, err),
            "%s, %s: %s", r[i].paper->name, r[i].of->where, r[i].of->what);
        judge(&r[i]);
        if (text)
            dti_reproduce_row(r, i);
    }
    if (f->json)
        return dti_reproduce_json(r, n, err);
    if (text)
        dti_reproduce_summary(r, n);
    else
        dti_reproduce_markdown(r, n);
    return DT_OK;
}

/* A miss is no fault of the program, so no line of its source is named. */
static dt_status any_off(const dti_reproduced *r, size_t n, dt_err *err)
{
    char text[96];
    size_t off = 0;
    for (size_t i = 0; i < n; i++)
        off += r[i].verdict == DTI_OFF;
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
    dti_reproduced *r = dt_alloc(p->n_row, sizeof *r);
    if (r == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the rows");
    size_t n = 0;
    for (size_t i = 0; i < p->n_row; i++) {
        const dt_published_paper *of = &p->paper[p->row[i].paper];
        if (strcmp(paper, "all") == 0 || strcmp(paper, of->name) == 0)
            r[n++] = (dti_reproduced){.of = &p->row[i], .paper = of};
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
    DT_CHECK(dti_cli_check_data(path, "a list of rows", err));
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
