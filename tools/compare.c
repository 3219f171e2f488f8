/* dnntrain compare: what policies take of memory and time, under budgets and for variants of a
 * configuration, from plans and costs. */
#include "tools/compare.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/config/options.h"
#include "session/human.h"
#include "tools/args.h"
#include "tools/out_file.h"
#include "tools/terminal.h"
#include "tools/vary.h"

const char *dti_compare_letter(size_t group, char to[DTI_COMPARE_BITS])
{
    size_t at = DTI_COMPARE_BITS - 1;
    to[at] = '\0';
    for (size_t n = group + 1; n > 0 && at > 0; n = (n - 1) / 26)
        to[--at] = (char)('a' + (n - 1) % 26);
    memmove(to, to + at, DTI_COMPARE_BITS - at);
    return to;
}

typedef struct compare_flags {
    bool json, run, front;
    const char *policies, *budgets, *csv, *svg, *html;
} compare_flags;

/* Times of defaults cannot be held against others. */
static void tell_defaults(const dt_compare *c)
{
    char text[512];
    const dt_variant *without = NULL;
    bool all = true;
    for (size_t v = 0; v < c->variants.n; v++) {
        const dt_compare_row *kept = &c->row[c->under[v].kept];
        if (kept->refused == NULL && !kept->time.known && without == NULL)
            without = &c->variants.variant[v];
        all = all && (kept->refused != NULL || !kept->time.known);
    }
    if (without != NULL && !all)
        dti_term_say("nothing was measured of %s, so its times are of defaults and cannot be held "
                     "against the others'",
            dt_variant_text(&c->vary, without, text, sizeof text));
    if (without != NULL && all) {
        dti_cli_notice("nothing was measured of this machine, so times are of defaults and only "
                       "their order counts;");
        dti_cli_notice("`dnntrain profile CONFIG --out FILE` measures, and memory.profile = FILE "
                       "or memory.simulate = CARD says by what to predict");
    }
}

static dt_status show(const dt_compare *c, const compare_flags *f, dt_err *err)
{
    const char *files[] = {f->csv, f->svg, f->html};
    bool quiet = false;
    for (size_t i = 0; i < DT_COUNT(files); i++)
        quiet = quiet || dti_is_stdout(files[i]);
    tell_defaults(c);
    if (f->csv != NULL)
        DT_CHECK(dti_write_file(f->csv, dti_compare_csv, c, err));
    if (f->svg != NULL)
        DT_CHECK(dti_write_file(f->svg, dti_compare_svg, c, err));
    if (f->html != NULL)
        DT_CHECK(dti_write_file(f->html, dti_compare_html, c, err));
    if (f->json)
        return dti_compare_json(c, err);
    return quiet ? DT_OK : dti_compare_table(c, err);
}

static dt_status check(const dti_cli *cli, const compare_flags *f, dt_err *err)
{
    const bool csv = dti_is_stdout(f->csv);
    const bool svg = dti_is_stdout(f->svg);
    const bool html = dti_is_stdout(f->html);
    if (cli->n_word == 0)
        return DT_FAIL(err, DT_E_CONFIG, "name a CONFIG; usage: %s", dt_command_compare.usage);
    if (csv + svg + html + f->json > 1)
        return DT_FAIL(err, DT_E_CONFIG,
            "--csv -, --svg -, --html - and --json all go to stdout; name files for all but one");
    DT_CHECK(dti_check_ending(f->svg, "--svg", ".svg", "SVG", err));
    DT_CHECK(dti_check_ending(f->html, "--html", ".html", "HTML", err));
    return dti_cli_check_file(cli->word[0], err);
}

/* The largest budget fits what any other does. */
static dt_status check_any(const dt_compare *c, dt_err *err)
{
    const dt_compare_row *least = NULL;
    char room[DT_HUMAN_EXACT], need[DT_HUMAN_EXACT];
    uint64_t most = 0;
    for (size_t i = 0; i < c->n; i++) {
        const dt_compare_row *r = &c->row[i];
        const dt_compare_under *u = &c->under[r->variant];
        if (r->refused != NULL || !r->can)
            continue;
        if (dt_compare_fits(r, u->budget[u->n - 1]))
            return DT_OK;
        most = u->budget[u->n - 1] > most ? u->budget[u->n - 1] : most;
        if (least == NULL || r->need.device < least->need.device)
            least = r;
    }
    if (least == NULL)
        return DT_FAIL(err, DT_E_BUDGET,
            "no policy trains in the budgets of the host and the disk, or its batch is too small");
    const dt_status st = DT_FAIL(err, DT_E_BUDGET,
        "nothing fits %s of the device, the largest of the budgets; %s takes the least, %s",
        dt_human_exact(room, most), least->policy, dt_human_exact(need, least->need.device));
    (void)dt_floor_tell(&least->floor, most, err);
    return st;
}

static dt_status check_run(dt_session *s, dt_err *err)
{
    char asked[DT_ASKED];
    if (s->opts.memory.simulate != NULL)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: --run measures this machine, and that card's times would stand beside it; leave "
            "one of them out",
            dt_session_asked(asked, s, "memory", "simulate"));
    return dt_session_meet(s, err);
}

static void tell_planned(
    const dt_compare *c, const dt_compare_row *r, const dt_variant *v, double seconds)
{
    char text[512], took[DT_HUMAN_BYTES];
    dti_term_say("%s%s%s planned in %s", r->policy, c->vary.n > 0 ? ", " : "",
        dt_variant_text(&c->vary, v, text, sizeof text), dt_human_seconds(took, seconds));
}

static void tell_round(int round, int rounds)
{
    dti_term_say("round %d of %d", round, rounds);
}

static bool same_line(const char *a, const char *b)
{
    const size_t n = strcspn(a, "\n");
    return n == strcspn(b, "\n") && strncmp(a, b, n) == 0;
}

static bool has_said(const dt_session *s, const char *line)
{
    const char *at = s != NULL ? s->note : "";
    while (*at != '\0' && !same_line(at, line))
        at = dti_cli_next_line(at);
    return *at != '\0';
}

/* What several variants have to say alike is said once. */
static void listen(const dt_variants *all, size_t v)
{
    dt_session *s = all->variant[v].session;
    dti_cli_watch(s);
    for (const char *line = s->note; *line != '\0'; line = dti_cli_next_line(line)) {
        size_t i = 0;
        while (i < v && !has_said(all->variant[i].session, line))
            i++;
        if (i == v)
            dti_cli_notice_line(line);
    }
}

static dt_status open_variants(
    dt_compare *c, const dti_cli *cli, const compare_flags *f, dt_err *err)
{
    const dt_variants_of of = {.path = cli->word[0],
        .sets = cli->set,
        .n_sets = cli->n_set,
        .lists = (const char *const *)c->lists.list,
        .n_lists = c->lists.n};
    const char *files[] = {f->csv, f->svg, f->html};
    DT_CHECK(dt_variants_open(&c->variants, &c->vary, &of, err));
    for (size_t v = 0; v < c->variants.n; v++) {
        dt_session *s = c->variants.variant[v].session;
        if (s == NULL)
            continue;
        listen(&c->variants, v);
        dti_cli_no_card(s);
        DT_CHECK(dti_check_outputs(s, files, DT_COUNT(files), NULL, err));
        c->session = c->session != NULL ? c->session : s;
        if (f->run)
            DT_CHECK(check_run(s, err));
    }
    return DT_OK;
}

static dt_status wrong_budgets(const char *text, dt_err *err)
{
    return DT_FAIL(err, DT_E_CONFIG,
        "--budgets %.200s: say how many, 1..%d, or which, as in 1GiB,1.5GiB,2GiB", text,
        DT_COMPARE_BUDGETS);
}

static int ascending(const void *va, const void *vb)
{
    const uint64_t a = *(const uint64_t *)va, b = *(const uint64_t *)vb;
    return (a > b) - (a < b);
}

static void drop_repeats(dt_compare_budgets *u)
{
    size_t n = 0;
    for (size_t i = 0; i < u->n; i++)
        if (i == 0 || u->budget[i] != u->budget[n - 1])
            u->budget[n++] = u->budget[i];
    u->n = n;
}

static dt_status list_budgets(dt_compare_budgets *u, const char *text, dt_err *err)
{
    for (const char *at = text; *at != '\0';) {
        char one[64];
        const size_t n = strcspn(at, ",");
        if (n >= sizeof one || u->n == DT_COMPARE_BUDGETS)
            return wrong_budgets(text, err);
        snprintf(one, sizeof one, "%.*s", (int)n, at);
        const dt_status st = dt_parse_bytes(one, &u->budget[u->n], NULL);
        if (st != DT_OK || u->budget[u->n] == 0 || (at[n] == ',' && at[n + 1] == '\0'))
            return wrong_budgets(text, err);
        u->n++;
        at += n + (at[n] == ',');
    }
    qsort(u->budget, u->n, sizeof *u->budget, ascending);
    drop_repeats(u);
    return u->n > 0 ? DT_OK : wrong_budgets(text, err);
}

/* A single small number says how many, one of 1,024 or more is bytes, as each is in a list. */
static dt_status read_budgets(dt_compare_budgets *to, const char *text, dt_err *err)
{
    enum { LEAST_BYTES = 1024 };
    int64_t n = 0;
    if (text == NULL)
        return DT_OK;
    if (!dt_parse_i64(text, &n) || n >= LEAST_BYTES)
        return list_budgets(to, text, err);
    to->evenly = n;
    return to->evenly >= 1 && to->evenly <= DT_COMPARE_BUDGETS ? DT_OK : wrong_budgets(text, err);
}

static dt_status check_front(const dt_compare *c, const compare_flags *f, dt_err *err)
{
    bool any = !f->front;
    for (size_t i = 0; i < c->lists.n && !any; i++)
        any = dt_compare_is_auto(c->lists.list[i]);
    return any ? DT_OK
               : DT_FAIL(err, DT_E_CONFIG,
                     "--front is auto's, and no list of --policies '%s' has it; add ';auto'",
                     f->policies);
}

static dt_status compare_all(dt_compare *c, const dti_cli *cli, const compare_flags *f, dt_err *err)
{
    dt_compare_budgets budgets = {0};
    c->run = f->run;
    c->front = f->front;
    c->planned = tell_planned;
    c->round = tell_round;
    DT_CHECK(dti_vary_open(&c->vary, cli->again, cli->n_again, err));
    DT_TRY(err, dt_policy_lists_open(&c->lists, f->policies, DT_PARTS_QUICK, NULL, err),
        "--policies '%s'", f->policies);
    DT_CHECK(check_front(c, f, err));
    DT_CHECK(read_budgets(&budgets, f->budgets, err));
    DT_CHECK(open_variants(c, cli, f, err));
    DT_CHECK(dt_compare_plan(c, &budgets, err));
    if (c->run)
        DT_CHECK(dt_compare_run(c, err));
    DT_CHECK(show(c, f, err));
    fflush(stdout);
    return check_any(c, err);
}

static dt_status compare_config(const dti_cli *cli, const compare_flags *f, dt_err *err)
{
    dt_compare *c = dt_alloc(1, sizeof *c);
    if (c == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to compare");
    const dt_status st = compare_all(c, cli, f, err);
    dt_compare_close(c);
    dti_vary_close(&c->vary);
    dt_free(c);
    return st;
}

static dt_status compare(const dti_command_args *a, dt_err *err)
{
    compare_flags f = {.policies = "all;auto"};
    const dti_flag flags[] = {
        {"--policies", "A,B;C",
            "lists between semicolons, and what policies of them do alone; 'all': each that does "
            "not search",
            NULL, &f.policies},
        {"--vary", "S.KEY=A,B,C",
            "a variant of the configuration for each value, and for each combination where it is "
            "repeated; with semicolons between values commas are part of them",
            NULL, NULL},
        {"--budgets", "N|LIST", "so many, evenly spread, or these, as in 1GiB,2GiB", NULL,
            &f.budgets},
        {"--front", NULL, "auto's front: auto at sixteen budgets more, which its line joins",
            &f.front, NULL},
        {"--json", NULL, "as a list of objects", &f.json, NULL},
        {"--csv", "FILE", "write the same as comma-separated values", NULL, &f.csv},
        {"--svg", "FILE.svg", "draw peaks against time", NULL, &f.svg},
        {"--html", "FILE.html", "that picture and the table as a page", NULL, &f.html},
        {"--run", NULL,
            "run them in turns, on a disk where they move to one, and show what steps take", &f.run,
            NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    dti_cli cli;
    dt_status st = dti_cli_init(&cli, &dt_command_compare, a, flags, true, 1, err);
    if (st == DT_OK && !cli.help) {
        st = check(&cli, &f, err);
        if (st == DT_OK)
            st = compare_config(&cli, &f, err);
    }
    dti_cli_deinit(&cli);
    return st;
}

const dti_command dt_command_compare = {
    .name = "compare",
    .usage = "dnntrain compare CONFIG [--set s.k=v]... [--vary s.k=a,b,c]... [--policies A,B;C] "
             "[--budgets N|LIST]",
    .summary =
        "policies under budgets, and variants of a configuration: bytes, predicted seconds, and "
        "which of them are Pareto-optimal",
    .run = compare,
};
