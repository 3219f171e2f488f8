/* dnntrain compare: what policies take of memory and time, under budgets, from plans and costs. */
#include "tools/compare.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/clock.h"
#include "engine/config/options.h"
#include "tools/args.h"
#include "tools/out_file.h"

typedef struct compare_flags {
    bool json, run;
    const char *policies, *budgets, *csv, *svg, *html;
} compare_flags;

const char *dti_compare_costs(const dt_compare *c)
{
    if (!c->row[c->kept].time.known)
        return "defaults";
    return c->session->costs.simulated ? "simulated" : "measured";
}

bool dti_compare_fits(const dt_compare_row *r, uint64_t budget)
{
    return r->can && r->need.device <= budget;
}

/* ---- which policies ---- */

static dt_status by_budget(const dt_compare *c, size_t list, bool *yes, dt_err *err)
{
    dt_policies p;
    *yes = c->session->opts.memory.algorithms == DT_ALGORITHMS_FIT;
    DT_CHECK(dt_policies_open(&p, c->lists.list[list], c->session->config, err));
    for (size_t i = 0; i < p.n; i++) {
        const dt_policy *one = p.pass[i].policy;
        *yes = *yes || one->by_budget || one->searches || one->rung != NULL;
    }
    dt_policies_close(&p);
    return DT_OK;
}

/* ---- which budgets ---- */

static dt_status wrong_budgets(const char *text, dt_err *err)
{
    return DT_FAIL(err, DT_E_CONFIG,
        "--budgets %s: say how many, 1..%d, or which, as in 1GiB,1.5GiB,2GiB", text,
        DT_COMPARE_BUDGETS);
}

static int ascending(const void *va, const void *vb)
{
    const uint64_t a = *(const uint64_t *)va, b = *(const uint64_t *)vb;
    return (a > b) - (a < b);
}

static dt_status list_budgets(dt_compare *c, const char *text, dt_err *err)
{
    for (const char *at = text; *at != '\0';) {
        char one[64];
        const size_t n = strcspn(at, ",");
        if (n >= sizeof one || c->n_budget == DT_COMPARE_BUDGETS)
            return wrong_budgets(text, err);
        snprintf(one, sizeof one, "%.*s", (int)n, at);
        const dt_status st = dt_parse_bytes(one, &c->budget[c->n_budget], err);
        if (st != DT_OK || c->budget[c->n_budget] == 0 || (at[n] == ',' && at[n + 1] == '\0'))
            return wrong_budgets(text, err);
        c->n_budget++;
        at += n + (at[n] == ',');
    }
    qsort(c->budget, c->n_budget, sizeof *c->budget, ascending);
    return c->n_budget > 0 ? DT_OK : wrong_budgets(text, err);
}

/* A single small number says how many; *evenly is 0 when they are named. */
static dt_status read_budgets(dt_compare *c, const char *text, int64_t *evenly, dt_err *err)
{
    const uint64_t own = c->session->opts.memory.device_budget;
    *evenly = 0;
    if (text == NULL && own > 0)
        c->budget[c->n_budget++] = own;
    else if (text == NULL)
        *evenly = 6;
    else if (!dt_parse_i64(text, evenly))
        return list_budgets(c, text, err);
    else if (*evenly < 1 || *evenly > DT_COMPARE_BUDGETS)
        return wrong_budgets(text, err);
    return DT_OK;
}

double dti_compare_least(const dt_compare *c, const dt_compare_row *r, size_t b)
{
    return c->least[r->need.device <= c->budget[b] ? b : DT_COMPARE_BUDGETS];
}

static dt_status find_least(dt_compare *c, dt_err *err)
{
    const dt_plan_request q = dt_session_request(c->session);
    dt_plan_set *p = NULL;
    dt_status st = dt_plan_set_create(&p, c->session, &q, err);
    for (size_t b = 0; st == DT_OK && b < c->n_budget; b++)
        st = dt_plan_set_bound(p, c->budget[b], &c->least[b], err);
    if (st == DT_OK)
        st = dt_plan_set_bound(p, 0, &c->least[DT_COMPARE_BUDGETS], err);
    dt_plan_set_destroy(p);
    return st;
}

/* From the least of any exact policy to what keep_all takes. */
static void even_budgets(dt_compare *c, int64_t n)
{
    const uint64_t most = c->row[c->kept].need.device;
    uint64_t least = most;
    for (size_t i = 0; i < c->n; i++)
        if (c->row[i].exact && c->row[i].can && c->row[i].need.device < least)
            least = c->row[i].need.device;
    for (int64_t i = 0; i < n; i++)
        c->budget[c->n_budget++] =
            n == 1 ? most
                   : least + (uint64_t)((double)(most - least) * (double)i / (double)(n - 1));
}

/* ---- plans ---- */

static bool in_other_tiers(const dt_plan_set *p)
{
    const dt_need need = dt_plan_set_need(p);
    dt_available have = dt_plan_set_available(p);
    have.device = UINT64_MAX;
    return dt_need_fits(&need, &have);
}

static dt_status describe(dt_compare_row *r, const dt_plan_set *p, dt_err *err)
{
    r->exact = dt_plan_set_exact(p);
    r->can = dt_plan_set_check_statistics(p, NULL) == DT_OK && in_other_tiers(p);
    r->need = dt_plan_set_need(p);
    r->score = dt_plan_set_score(p);
    r->traffic = dt_plan_set_traffic(p);
    for (int t = DT_TIER_HOST; t < DT_TIERS; t++)
        r->lives[t] = p->map->tier_bytes[t];
    for (size_t i = 0; i < p->n; i++)
        r->bound = p->planned[i]->plan->bound > r->bound ? p->planned[i]->plan->bound : r->bound;
    return dt_plan_set_predict(p, &r->time, err);
}

static void forget(dt_compare_row *r)
{
    dt_plan_set_destroy(r->plans);
    dt_policies_close(&r->policies);
    r->plans = NULL;
}

static dt_status plan_row(const dt_compare *c, dt_compare_row *r, dt_err *err)
{
    dt_plan_request q = dt_session_request(c->session);
    q.policies = &r->policies;
    q.budgets.device = r->budget;
    dt_status st = dt_policies_open(&r->policies, r->policy, c->session->config, err);
    if (st == DT_OK)
        st = dt_plan_set_create(&r->plans, c->session, &q, err);
    if (st == DT_OK)
        st = dt_plan_set_run(r->plans, true, 0, 0, err);
    if (st == DT_OK)
        st = describe(r, r->plans, err);
    if (st != DT_OK || !c->run)
        forget(r);
    return st == DT_OK ? st : DT_FAIL(err, st, "while planning %s", r->policy);
}

static bool same_plans(const dt_compare_row *a, const dt_compare_row *b)
{
    return a->need.device == b->need.device && a->need.host == b->need.host &&
           a->need.disk == b->need.disk && !(a->time.seconds < b->time.seconds) &&
           !(a->time.seconds > b->time.seconds);
}

static dt_status add_row(dt_compare *c, size_t list, uint64_t budget, dt_err *err)
{
    const double began = dt_seconds();
    dt_compare_row *r = &c->row[c->n];
    *r = (dt_compare_row){.policy = c->lists.list[list], .budget = budget};
    DT_CHECK(plan_row(c, r, err));
    r->again = c->n > 0 && r[-1].policy == r->policy && same_plans(r, &r[-1]);
    c->n++;
    if (dt_seconds() - began > 1)
        fprintf(stderr, "dnntrain: %s planned in %.1f s\n", r->policy, dt_seconds() - began);
    return DT_OK;
}

/* First those that go by no budget, as what they take may say which budgets there are. */
static dt_status plan_all(dt_compare *c, int64_t evenly, dt_err *err)
{
    bool by[DT_POLICY_LISTS];
    c->row = dt_alloc(c->lists.n * (DT_COMPARE_BUDGETS + 1), sizeof *c->row);
    if (c->row == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to compare");
    for (size_t l = 0; l < c->lists.n; l++)
        DT_CHECK(by_budget(c, l, &by[l], err));
    for (size_t l = 0; l < c->lists.n; l++) {
        if (by[l] && l > 0)
            continue;
        for (size_t b = 0; b < DT_COMPARE_BUDGETS; b++)
            c->of[l][b] = c->n;
        DT_CHECK(add_row(c, l, 0, err));
    }
    if (evenly > 0)
        even_budgets(c, evenly);
    for (size_t l = 1; l < c->lists.n; l++)
        for (size_t b = 0; b < c->n_budget && by[l]; b++) {
            c->of[l][b] = c->n;
            DT_CHECK(add_row(c, l, c->budget[b], err));
        }
    return find_least(c, err);
}

static bool ahead_of(const dt_compare_row *a, const dt_compare_row *b)
{
    return a->exact && a->can && a->need.device <= b->need.device &&
           a->time.seconds <= b->time.seconds &&
           (a->need.device < b->need.device || a->time.seconds < b->time.seconds);
}

static void mark_best(dt_compare *c)
{
    for (size_t i = 0; i < c->n; i++) {
        dt_compare_row *r = &c->row[i];
        r->best = r->exact && r->can && !r->again;
        for (size_t k = 0; k < c->n && r->best; k++)
            r->best = !ahead_of(&c->row[k], r);
        for (size_t k = 0; k < i && r->best; k++) /* of several that are alike the first */
            r->best = !(c->row[k].best && same_plans(&c->row[k], r));
    }
}

/* ---- the command ---- */

static void tell_defaults(const dt_compare *c)
{
    if (!c->row[c->kept].time.known)
        fprintf(stderr,
            "dnntrain: nothing was measured of this machine, so times are of defaults and only "
            "their order counts;\ndnntrain: `dnntrain profile CONFIG --out FILE` measures, and "
            "memory.profile = FILE or memory.simulate = CARD says by what to predict\n");
}

static dt_status show(const dt_compare *c, const compare_flags *f, dt_err *err)
{
    const char *files[] = {f->csv, f->svg, f->html};
    bool quiet = false;
    for (size_t i = 0; i < DT_COUNT(files); i++)
        quiet = quiet || (files[i] != NULL && strcmp(files[i], "-") == 0);
    tell_defaults(c);
    if (f->csv != NULL)
        DT_CHECK(dti_write_file(f->csv, dti_compare_csv, c, err));
    if (f->svg != NULL)
        DT_CHECK(dti_write_file(f->svg, dti_compare_svg, c, err));
    if (f->html != NULL)
        DT_CHECK(dti_write_file(f->html, dti_compare_html, c, err));
    if (f->json)
        return dti_compare_json(c, err);
    if (!quiet)
        dti_compare_table(c);
    return DT_OK;
}

static dt_status check(const dt_cli *cli, const compare_flags *f, dt_err *err)
{
    const bool csv = f->csv != NULL && strcmp(f->csv, "-") == 0;
    const bool svg = f->svg != NULL && strcmp(f->svg, "-") == 0;
    const bool html = f->html != NULL && strcmp(f->html, "-") == 0;
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
    const uint64_t most = c->budget[c->n_budget - 1];
    for (size_t i = 0; i < c->n; i++) {
        const dt_compare_row *r = &c->row[i];
        if (dti_compare_fits(r, most))
            return DT_OK;
        if (r->can && (least == NULL || r->need.device < least->need.device))
            least = r;
    }
    if (least == NULL)
        return DT_FAIL(err, DT_E_BUDGET,
            "no policy trains in the budgets of the host and the disk, or its batch is too small");
    return DT_FAIL(err, DT_E_BUDGET,
        "nothing fits %" PRIu64 " bytes of the device, the largest of the budgets; %s takes the "
        "least, %" PRIu64 " bytes",
        most, least->policy, least->need.device);
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

static dt_status compare_session(dt_compare *c, const compare_flags *f, dt_err *err)
{
    int64_t evenly;
    c->run = f->run;
    if (c->run)
        DT_CHECK(check_run(c->session, err));
    DT_TRY(err, dti_policy_lists_open(&c->lists, f->policies, false, c->session->config, err),
        "--policies");
    DT_CHECK(read_budgets(c, f->budgets, &evenly, err));
    DT_CHECK(plan_all(c, evenly, err));
    mark_best(c);
    if (c->run)
        DT_CHECK(dti_compare_run(c, err));
    DT_CHECK(show(c, f, err));
    fflush(stdout);
    return check_any(c, err);
}

static dt_status compare_config(const dt_cli *cli, const compare_flags *f, dt_err *err)
{
    dt_compare *c = dt_alloc(1, sizeof *c);
    dt_status st = c != NULL ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory to compare");
    if (st == DT_OK)
        st = dti_cli_session(&c->session, cli->word[0], cli->set, cli->n_set, err);
    if (st == DT_OK)
        st = compare_session(c, f, err);
    if (c != NULL) {
        for (size_t i = 0; i < c->n; i++)
            forget(&c->row[i]);
        dt_free(c->row);
        dti_policy_lists_close(&c->lists);
        dt_session_close(c->session);
    }
    dt_free(c);
    return st;
}

static dt_status compare(const dt_command_args *a, dt_err *err)
{
    compare_flags f = {.policies = "all;auto"};
    const dt_flag flags[] = {
        {"--policies", "A,B;C",
            "lists between semicolons; 'all': each that neither searches nor writes to a disk "
            "unasked",
            NULL, &f.policies},
        {"--budgets", "N|LIST", "so many, evenly spread, or these, as in 1GiB,2GiB", NULL,
            &f.budgets},
        {"--json", NULL, "as a list of objects", &f.json, NULL},
        {"--csv", "FILE", "write the same as comma-separated values", NULL, &f.csv},
        {"--svg", "FILE.svg", "draw peaks against time", NULL, &f.svg},
        {"--html", "FILE.html", "that picture and the table as a page", NULL, &f.html},
        {"--run", NULL, "run them in turns, and show what steps take", &f.run, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    dt_cli cli;
    dt_status st = dti_cli_init(&cli, &dt_command_compare, a, flags, true, 1, err);
    if (st == DT_OK && !cli.help) {
        st = check(&cli, &f, err);
        if (st == DT_OK)
            st = compare_config(&cli, &f, err);
    }
    dti_cli_deinit(&cli);
    return st;
}

const dt_command dt_command_compare = {
    .name = "compare",
    .usage = "dnntrain compare CONFIG [--set s.k=v]... [--policies A,B;C] [--budgets N|LIST]",
    .summary =
        "policies under budgets: bytes, predicted seconds, and which of them none is ahead of",
    .run = compare,
};
