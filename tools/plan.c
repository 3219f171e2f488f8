/* dnntrain plan: the memory a run takes, without running it. */
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/clock.h"
#include "engine/base/io.h"
#include "engine/base/memory_stream.h"
#include "engine/config/nearest.h"
#include "memory/plan_text/plan_text.h"
#include "session/human.h"
#include "session/feeds.h"
#include "session/open.h"
#include "session/run_plans.h"
#include "tools/args.h"
#include "tools/out_file.h"
#include "tools/page_plan.h"
#include "tools/plan_account.h"
#include "tools/plan_beside.h"
#include "tools/plan_intervals.h"
#include "tools/plan_map.h"
#include "tools/plan_report.h"
#include "tools/plan_time.h"
#include "tools/plan_why.h"
#include "tools/terminal.h"

typedef struct plan_flags {
    bool json, rows, kernels, diff;
    const char *text, *map, *beside, *html, *program, *timeline, *against, *intervals, *why,
        *differ[2];
} plan_flags;

/* Make all plans, and tell how long that took. */
static dt_status plan_timed(dt_session *s, double *seconds, dt_err *err)
{
    const double start = dt_seconds();
    DT_CHECK(dt_session_plan_run(s, true, 0, 0, err));
    *seconds = dt_seconds() - start;
    return DT_OK;
}

static dt_status parse_file(dt_plans *p, const char *path, dt_err *err)
{
    char *text = NULL;
    size_t bytes = 0;
    DT_CHECK(dti_cli_check_file(path, err));
    DT_CHECK(dt_read_file(&text, &bytes, path, DT_PLANS_TEXT_BYTES, DT_E_DATA, err));
    const dt_status st = dt_plans_parse(p, path, text, bytes, err);
    dt_free(text);
    return st;
}

/* The plan of a file that stands where this one stands in its own: the k-th of its program. */
static const dt_plan *counterpart(const dt_plans *of, size_t i, const dt_plans *in)
{
    const char *program = of->plan[i]->program;
    size_t before = 0;
    for (size_t k = 0; k < i; k++)
        before += strcmp(of->plan[k]->program, program) == 0;
    for (size_t k = 0; k < in->n; k++)
        if (strcmp(in->plan[k]->program, program) == 0 && before-- == 0)
            return in->plan[k];
    return NULL;
}

static void title(const char *mark, const dt_plan *p)
{
    printf("%s ", mark);
    dt_plan_print_title(p, stdout);
    putchar('\n');
}

/* What differs between two plans, under a title if there are several. */
static dt_status diff_two(
    const dt_plan *a, const dt_plan *b, bool several, bool *differ, dt_err *err)
{
    dt_memory_stream text;
    DT_CHECK(dt_memory_open(&text, "what differs between the plans", err));
    const bool other = dt_plan_diff(a, b, text.f);
    DT_CHECK(dt_memory_close(&text, DT_OK, err));
    if (other && several)
        title("#", a);
    fwrite(text.text, 1, text.n, stdout);
    dt_free(text.text);
    *differ = *differ || other;
    return DT_OK;
}

static dt_status diff_all(const dt_plans *a, const dt_plans *b, bool *differ, dt_err *err)
{
    if (a->n == 1 && b->n == 1)
        return diff_two(a->plan[0], b->plan[0], false, differ, err);
    for (size_t i = 0; i < a->n; i++) {
        const dt_plan *other = counterpart(a, i, b);
        if (other != NULL)
            DT_CHECK(diff_two(a->plan[i], other, true, differ, err));
        else
            title("-", a->plan[i]);
        *differ = *differ || other == NULL;
    }
    for (size_t i = 0; i < b->n; i++)
        if (counterpart(b, i, a) == NULL) {
            title("+", b->plan[i]);
            *differ = true;
        }
    return DT_OK;
}

/* Exit code 1 means an internal error, so this ends with 0 either way: the answer is whether
 * anything stands on stdout, and the last line. */
static dt_status diff(const char *const path[2], dt_err *err)
{
    dt_plans p[2] = {{0}};
    bool differ = false;
    dt_status st = parse_file(&p[0], path[0], err);
    if (st == DT_OK)
        st = parse_file(&p[1], path[1], err);
    if (st == DT_OK)
        st = diff_all(&p[0], &p[1], &differ, err);
    if (st == DT_OK) {
        fflush(stdout); /* the lines before what they come to */
        dti_term_say("the plans %s", differ ? "differ" : "are the same");
    }
    dt_plans_deinit(&p[0]);
    dt_plans_deinit(&p[1]);
    return st;
}

static dt_status print_text(const void *plan, FILE *f, dt_err *err)
{
    (void)err;
    dt_plan_print(plan, f);
    return DT_OK;
}

static dt_status print_map(const void *picture, FILE *f, dt_err *err)
{
    return dti_plan_map(picture, 1, f, err);
}

/* ---- --rows: a line an op; on a terminal its reasons in words ---- */

static dt_status print_rows(const dt_plan *p, dt_err *err)
{
    dt_memory_stream text;
    DT_CHECK(dt_memory_open(&text, "the rows of a plan", err));
    dt_plan_print_short(p, text.f);
    fprintf(text.f,
        "# P place, C compute, R release, O copy out, I copy in, W wait for a copy; e1:\n"
        "# the end of a copy; over: in the same bytes; NAME': made again; #: why\n");
    DT_CHECK(dt_memory_close(&text, DT_OK, err));
    if (!dti_terminal_of(stdout).tty)
        fwrite(text.text, 1, text.n, stdout);
    else
        for (char *line = text.text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
            *end = '\0';
            dti_term_wrap(stdout, 0, 4, line);
        }
    dt_free(text.text);
    return DT_OK;
}

/* ---- --kernels: what computes each op, the workspace that it takes, by what else it could be, and
 * why implementations that would be preferred do not compute it ---- */

/* @name: how wide the names of ops are. On a terminal reasons go on below, in words. */
static void print_kernel(
    int name, const char *op, const char *flops, size_t bytes, const char *kernel, const char *why)
{
    char work[DT_HUMAN_BYTES] = "-";
    if (bytes > 0)
        dt_human_bytes(work, bytes);
    const int at = printf("%-*s %8s %11s  ", name, op, flops, work);
    if (!dti_terminal_of(stdout).tty) {
        printf(why[0] != '\0' ? "%-32s  %s\n" : "%s%s\n", kernel, why);
        return;
    }
    dti_term_wrap(stdout, at, at, kernel);
    if (why[0] != '\0')
        dti_term_wrap(stdout, printf("  not by "), 4, why);
}

/* Those that it could be computed by as well, the fastest first. */
static void print_others(int name, const dt_algorithms *all, const char *taken)
{
    const char *than = "faster";
    for (int i = 0; all->n > 1 && i < all->n; i++)
        if (strcmp(all->algorithm[i].impl, taken) == 0)
            than = "slower";
        else
            print_kernel(name, "", than, all->algorithm[i].bytes, all->algorithm[i].impl, "");
}

/* Ops that make layouts go by the op they serve. */
static bool serves(const dt_op *op)
{
    return op->form == DT_DERIVE_F || op->form == DT_DERIVE_B || op->form == DT_RESTORE;
}

/* "oneDNN brgconv:avx512_core", "winograd:4x4_3x3", "ours, fp32", "ours". */
static void name_kernel(
    char *to, size_t bytes, const dt_op *op, const dt_choice *c, const char *impl)
{
    const char *by = c->taken != NULL && !serves(op) ? c->taken->name : "";
    if (impl[0] == '\0')
        snprintf(to, bytes, by[0] != '\0' ? "ours, %s" : "ours%s", by);
    else if (by[0] == '\0' || strncmp(impl, by, strlen(by)) == 0)
        snprintf(to, bytes, "%s", impl);
    else
        snprintf(to, bytes, "%s %s", by, impl);
}

/* Those that come before the one that was taken: "winograd: bf16, needs fp32; amx: ...". */
static void list_refused(char *to, size_t bytes, const dt_op *op, const dt_choice *c)
{
    size_t at = 0;
    to[0] = '\0';
    for (int i = 0; i < c->n && !serves(op) && at < bytes; i++)
        at += (size_t)snprintf(to + at, bytes - at, "%s%s: %s", i > 0 ? "; " : "",
            c->refused[i].impl->name, c->refused[i].why.text);
}

static dt_status print_op(int name, const dt_program *p, const dt_op *op, dt_err *err)
{
    dt_facts f;
    dt_algorithms all;
    dt_choice c;
    char flops[32] = "-", kernel[128], refused[DT_MAX_IMPLS * (DT_WHY_BYTES + 32)];
    DT_TRY(err, dt_op_facts(p, op, &f, err), "%s", op->name);
    DT_TRY(err, dt_op_algorithms(p, op, &all, err), "%s", op->name);
    DT_TRY(err, dt_op_choice(p, op, &c, err), "%s", op->name);
    if (op->flops >= 5e5)
        snprintf(flops, sizeof flops, "%.3f", op->flops / 1e9);
    name_kernel(kernel, sizeof kernel, op, &c, f.impl);
    list_refused(refused, sizeof refused, op, &c);
    print_kernel(name, op->name, flops, dt_facts_bytes(&f), kernel, refused);
    print_others(name, &all, f.impl);
    return DT_OK;
}

static dt_status print_kernels(const dt_program *p, dt_err *err)
{
    size_t name = 0;
    for (size_t i = 0; i < p->n_op; i++)
        if (p->op[i].desc != NULL && strlen(p->op[i].name) > name)
            name = strlen(p->op[i].name);
    printf("%-*s %8s %11s  ", (int)name, "op", "GFLOP", "workspace");
    if (dti_terminal_of(stdout).tty)
        printf("kernel\n");
    else
        printf("%-32s  not by\n", "kernel");
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op *op = &p->op[p->order[i]];
        if (op->desc != NULL)
            DT_CHECK(print_op((int)name, p, op, err));
    }
    return DT_OK;
}

/* ---- the command ---- */

/* The last partial batches have plans of their own, and only the data tells how large these are. */
static dt_status add_partial(dt_session *s, dt_err *err)
{
    dt_feeds f = {0};
    dt_err ignored = {0};
    dt_status st = DT_OK;
    if (dt_feeds_open(&f, s, &ignored) == DT_OK)
        st = dt_session_plan_run(s, f.eval_loader != NULL, f.last, f.eval_last, err);
    else
        dti_cli_notice("the data cannot be read, so plans of last partial batches are left out");
    dt_feeds_close(&f);
    return st;
}

/* Without a program's name, all plans that a run takes. */
static dt_status write_text(dt_session *s, const plan_flags *f, dt_err *err)
{
    const dt_planned *chosen = NULL;
    if (f->program == NULL) {
        DT_CHECK(add_partial(s, err));
        return dti_write_file(f->text, dt_plan_set_print, s->plans, err);
    }
    DT_CHECK(dti_find_program(s, f->program, &chosen, err));
    return dti_write_file(f->text, print_text, chosen->plan, err);
}

/* As it is predicted: the map, which shows no seconds that are of defaults, and the timeline. */
static dt_status show_in_time(
    const dt_session *s, const plan_flags *f, const dt_planned *x, dt_err *err)
{
    dt_prediction known;
    dt_timeline time;
    DT_CHECK(dt_plan_set_predict(s->plans, &known, err));
    dt_status st = dt_session_simulate(s, x->plan, &time, err);
    const dti_plan_time all = {x->plan, &time, &s->costs};
    const dti_plan_picture map = {
        x->plan, known.known ? &time : NULL, NULL, s->opts.memory.device_budget, &s->costs};
    if (st == DT_OK && f->map != NULL && f->beside != NULL)
        st = dti_plan_beside(s, x, f->beside, f->map, err);
    else if (st == DT_OK && f->map != NULL)
        st = dti_write_file(f->map, print_map, &map, err);
    if (st == DT_OK && f->timeline != NULL)
        st = dti_write_file(f->timeline, dti_plan_timeline, &all, err);
    if (st == DT_OK && f->against != NULL)
        st = dti_plan_against(&all, x->n, f->against, err);
    if (st == DT_OK && f->why != NULL)
        st = dti_plan_why(s, x->plan, &time, f->why, err);
    if (st == DT_OK && !known.known &&
        (f->timeline != NULL || f->against != NULL || f->why != NULL))
        dti_cli_notice("nothing was measured of this machine, so the seconds are of defaults; "
                       "memory.profile = FILE or memory.simulate = CARD says by what to predict");
    dt_timeline_deinit(&time);
    return st;
}

/* All of it that there is to look at, in one page. */
static dt_status write_page(
    const dt_session *s, const plan_flags *f, const dt_planned *x, dt_err *err)
{
    dt_saving saving;
    DT_CHECK(dt_plan_set_saving(s->plans, &saving, err));
    const dti_page_plan page = {.session = s, .plan = x->plan, .saving = &saving};
    return dti_write_file(f->html, dti_page_of_plan, &page, err);
}

/* How much of what is asked for goes to stdout; nothing: the table does. */
static int on_stdout(const plan_flags *f)
{
    const char *files[] = {f->text, f->map, f->html, f->timeline, f->intervals};
    int n = f->json + f->rows + f->kernels + (f->against != NULL) + (f->why != NULL);
    for (size_t i = 0; i < DT_COUNT(files); i++)
        n += dti_is_stdout(files[i]);
    return n;
}

static dt_status show(const dt_session *s, const plan_flags *f, double seconds, dt_err *err)
{
    dti_report r = {0};
    const dt_planned *chosen = NULL;
    DT_CHECK(dti_find_program(s, f->program != NULL ? f->program : "first", &chosen, err));
    if (f->map != NULL || f->timeline != NULL || f->against != NULL || f->why != NULL)
        DT_CHECK(show_in_time(s, f, chosen, err));
    if (f->html != NULL)
        DT_CHECK(write_page(s, f, chosen, err));
    if (f->intervals != NULL)
        DT_CHECK(dti_plan_intervals(chosen->plan, f->intervals, err));
    if (on_stdout(f) > 0 && !f->rows && !f->kernels && !f->json)
        return DT_OK;
    if (f->rows)
        return print_rows(chosen->plan, err);
    if (f->kernels)
        return print_kernels(chosen->program, err);
    const double start = dt_seconds(); /* the bound takes as long as many a plan */
    dt_status st = dti_report_init(&r, s, err);
    r.seconds = seconds + (dt_seconds() - start);
    if (st == DT_OK && f->json)
        st = dti_report_json(&r, err);
    else if (st == DT_OK)
        dti_report_table(&r);
    dti_report_deinit(&r);
    return st;
}

static dt_status plan_session(dt_session *s, const plan_flags *f, dt_err *err)
{
    const char *files[] = {f->text, f->map, f->html, f->timeline, f->intervals};
    double seconds = 0;
    DT_CHECK(dti_check_outputs(s, files, DT_COUNT(files), f->against, err));
    DT_CHECK(plan_timed(s, &seconds, err));
    if (s->context.card == NULL && s->context.device != DT_CPU &&
        dt_device_answers(s->context.device, NULL))
        DT_CHECK(dt_session_meet(s, err)); /* so that the card's memory is known */
    DT_CHECK(dti_cli_idle_fates(s, err));
    DT_CHECK(show(s, f, seconds, err));
    if (f->text != NULL)
        DT_CHECK(write_text(s, f, err));
    fflush(stdout); /* the plan before what is wrong with it */
    return dt_session_check_budget(s, err);
}

/* Beside --json, --diff and --beside. */
static bool has_other_flags(const plan_flags *f)
{
    return f->rows || f->kernels || f->text != NULL || f->map != NULL || f->timeline != NULL ||
           f->against != NULL || f->intervals != NULL || f->why != NULL || f->program != NULL ||
           f->html != NULL;
}

/* An account has figures, and no rows, ops or addresses. */
static dt_status count_session(const dt_session *s, const plan_flags *f, dt_err *err)
{
    if (has_other_flags(f))
        return DT_FAIL(err, DT_E_CONFIG,
            "memory.account = %s gives figures and no plan; of the flags it knows --json alone",
            s->opts.memory.account);
    return dti_plan_account(s, f->json, err);
}

static dt_status plan_config(const dti_cli *cli, const plan_flags *f, dt_err *err)
{
    dt_session *s = NULL;
    DT_CHECK(dti_cli_check_file(cli->word[0], err));
    dt_status st = dti_cli_session(&s, cli->word[0], cli->set, cli->n_set, err);
    if (st == DT_OK && s->opts.memory.account != NULL)
        st = count_session(s, f, err);
    else if (st == DT_OK)
        st = plan_session(s, f, err);
    dt_session_close(s);
    return st;
}

static dt_status check(const dti_cli *a, const plan_flags *f, dt_err *err)
{
    DT_CHECK(dti_check_ending(f->map, "--map", ".svg", "SVG", err));
    DT_CHECK(dti_check_ending(f->html, "--html", ".html", "HTML", err));
    if (f->json + f->rows + f->kernels > 1)
        return DT_FAIL(
            err, DT_E_CONFIG, "--json, --rows and --kernels exclude each other; give one of them");
    if (on_stdout(f) > 1)
        return DT_FAIL(err, DT_E_CONFIG,
            "--json, --rows, --kernels, --against, --why and what is named - all go to stdout; ask "
            "for one of them, and name files for the others");
    if (f->beside != NULL && f->map == NULL)
        return DT_FAIL(err, DT_E_CONFIG,
            "--beside %s draws plans into the file of --map; give --map FILE.svg too", f->beside);
    if (f->against != NULL)
        DT_CHECK(dti_cli_check_file(f->against, err));
    if (f->diff && (a->n_word > 0 || a->n_set > 0 || f->json || has_other_flags(f)))
        return DT_FAIL(err, DT_E_CONFIG,
            "--diff takes two files written by --text, and neither CONFIG nor other flags");
    if (!f->diff && a->n_word == 0)
        return DT_FAIL(err, DT_E_CONFIG, "name a CONFIG; usage: %s", dt_command_plan.usage);
    return DT_OK;
}

static dt_status plan(const dti_command_args *a, dt_err *err)
{
    plan_flags f = {0};
    const dti_flag flags[] = {
        {"--json", NULL, "the plan's numbers as one object", &f.json, NULL},
        {"--rows", NULL, "the plan's rows: P place, C compute, R release, O out, I in, W wait",
            &f.rows, NULL},
        {"--kernels", NULL, "what computes each op, its workspace, what else could, and why not",
            &f.kernels, NULL},
        {"--text", "FILE", "write all plans of a run, for --diff and CONFIG --plan FILE", NULL,
            &f.text},
        {"--map", "FILE.svg", "draw the plan: addresses over ops, and what is copied", NULL,
            &f.map},
        {"--beside", "A,B;C", "with --map: plans of these policies as well, on one scale", NULL,
            &f.beside},
        {"--html", "FILE.html", "all of that as a page: the map to zoom in on, and its tensors",
            NULL, &f.html},
        {"--timeline", "FILE.csv", "write when each row begins and ends, as it is predicted", NULL,
            &f.timeline},
        {"--against", "TRACE.csv", "hold that against what DT_TRACE=TRACE.csv wrote of a run", NULL,
            &f.against},
        {"--intervals", "FILE.csv", "write what is placed, and for how long, for dnntrain pool",
            NULL, &f.intervals},
        {"--why", "TENSOR", "where it is made and read, what each fate costs, and which was taken",
            NULL, &f.why},
        {"--program", "NAME", "first (default; --text: all), again, update or eval", NULL,
            &f.program},
        {"--diff", "A B", "what differs between two files written by --text", &f.diff, f.differ},
        {NULL, NULL, NULL, NULL, NULL},
    };
    dti_cli cli;
    dt_status st = dti_cli_init(&cli, &dt_command_plan, a, flags, true, 1, err);
    if (st == DT_OK && !cli.help) {
        st = check(&cli, &f, err);
        if (st == DT_OK)
            st = f.diff ? diff(f.differ, err) : plan_config(&cli, &f, err);
    }
    dti_cli_deinit(&cli);
    return st;
}

const dti_command dt_command_plan = {
    .name = "plan",
    .usage = "dnntrain plan CONFIG|--diff A B [--set s.k=v]... [--json|--rows|--kernels] "
             "[--text|--map FILE]",
    .summary = "the memory a run takes and what for, without running it",
    .run = plan,
};
