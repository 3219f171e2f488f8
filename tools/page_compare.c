/* What was compared, as a page: peak against time as a picture, and all plans as a table. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "session/human.h"
#include "tools/compare.h"
#include "tools/page_plan.h"
#include "tools/vary.h"

static void put_seconds(const dti_page *p, double seconds)
{
    char text[DT_HUMAN_BYTES];
    dti_page_number(p, seconds, seconds > 0 ? dt_human_step(text, seconds) : "–");
}

/* The columns of the policy and of the variant. */
static void names(const dti_page *p, const dt_compare *c, const dt_compare_row *r)
{
    dti_page_cell(p, r->refused != NULL ? dti_compare_name_refused(r) : r->policy);
    for (size_t k = 0; k < c->vary.n; k++)
        dti_page_cell(p, dti_vary_value(&c->vary, dt_compare_variant(c, r), k, "–"));
}

/* With the letter of those whose bits they are, where there are several. */
static const char *results(const dt_compare *c, const dt_compare_row *r, char *to, size_t bytes)
{
    char letter[DTI_COMPARE_BITS];
    const bool several = c->variants.n_group > 1;
    if (!r->exact)
        snprintf(to, bytes, "change");
    else
        snprintf(to, bytes, "the same bits%s%s%s", several ? ", " : "",
            several ? dti_compare_letter(dt_compare_variant(c, r)->group, letter) : "",
            several && r->other_algorithms ? ", but for algorithms" : "");
    return to;
}

/* Columns that have something in them, and the largest share of keep_all's peak. */
typedef struct filled {
    bool budget, away, ran;
    double most;
} filled;

static double share(const dt_compare *c, const dt_compare_row *r)
{
    const uint64_t kept = dt_compare_kept(c, r)->need.device;
    return kept > 0 ? (double)r->need.device / (double)kept : 0;
}

static bool in_table(const dt_compare_row *r)
{
    return dt_compare_is_new(r);
}

static uint64_t away(const dt_compare_row *r)
{
    return r->need.tier[DT_TIER_HOST] + r->need.tier[DT_TIER_DISK];
}

static filled filled_of(const dt_compare *c)
{
    filled f = {.most = 0};
    for (size_t i = 0; i < c->n; i++) {
        const dt_compare_row *r = &c->row[i];
        f.budget = f.budget || (in_table(r) && r->budget > 0);
        f.away = f.away || (in_table(r) && away(r) > 0);
        f.ran = f.ran || r->measured > 0;
        f.most = in_table(r) ? fmax(f.most, share(c, r)) : f.most;
    }
    return f;
}

static void one(const dti_page *p, const dt_compare *c, const dt_compare_row *r, filled has)
{
    char text[64];
    const char *note = !r->can                      ? "cannot be run"
                       : !dti_compare_exceeds(c, r) ? ""
                       : r->budget > 0              ? "above its budget"
                                                    : "above all budgets";
    dti_page_row(p, r->best ? "best" : NULL);
    names(p, c, r);
    snprintf(text, sizeof text, "%s%s%s", r->best ? "★" : "", r->best && note[0] != '\0' ? " " : "",
        note);
    dti_page_cell(p, text);
    if (has.budget)
        dti_page_bytes(p, r->budget);
    dti_page_bytes(p, r->need.device);
    dti_page_share(p, share(c, r), has.most);
    if (has.away)
        dti_page_bytes(p, away(r));
    put_seconds(p, r->time.seconds);
    put_seconds(p, r->time.stalled);
    if (has.ran)
        put_seconds(p, r->measured);
    const double again = r->score.flops > 0 ? r->score.recompute_flops / r->score.flops : 0;
    snprintf(text, sizeof text, "%.1f %%", 100 * again);
    dti_page_number(p, again, text);
    dti_page_cell(p, results(c, r, text, sizeof text));
    dti_page_row_end(p);
}

enum { OWN = 10, COLUMNS = 1 + OWN + DT_VARIED_KEYS };

/* A column of the policy, and one of each key that is varied. Returns how many. */
static size_t name_columns(const dt_compare *c, dti_page_column *to)
{
    to[0] = (dti_page_column){"policy", false};
    for (size_t k = 0; k < c->vary.n; k++)
        to[k + 1] = (dti_page_column){c->vary.key[k].name, false};
    return c->vary.n + 1;
}

static void table(const dti_page *p, const dt_compare *c)
{
    const filled has = filled_of(c);
    const struct {
        dti_page_column column;
        bool shown;
    } own[OWN] = {{{"note", false}, true}, {{"planned by", true}, has.budget},
        {{"peak", true}, true}, {{"of keep_all", false}, true}, {{"host, disk", true}, has.away},
        {{"step, s", true}, true}, {{"of it waits", true}, true}, {{"measured", true}, has.ran},
        {{"again", true}, true}, {{"results", false}, true}};
    dti_page_column shown[COLUMNS];
    char vain[DT_COMPARE_IN_VAIN], budgets[DTI_COMPARE_BUDGETS];
    size_t n = name_columns(c, shown);
    for (size_t i = 0; i < OWN; i++)
        if (own[i].shown)
            shown[n++] = own[i].column;
    dti_page_section(p, "plans", "The plans");
    dti_page_table(p, shown, n);
    for (size_t i = 0; i < c->n; i++)
        if (in_table(&c->row[i]))
            one(p, c, &c->row[i], has);
    dti_page_table_end(p);
    dti_page_hint(p, dti_compare_budgets(c, budgets));
    fprintf(p->f,
        "<p class=\"hint\">★ " DTI_COMPARE_BEST "%s; of equal plans the first.%s Again: "
        "operations computed again, of those of forward and backward.%s</p>\n",
        c->variants.n_group > 1 ? ", of those that train the same bits" : "",
        has.budget ? " Planned by: the budget, where plans go by one." : "",
        c->variants.n_group > 1 ? " Results: plans of one letter train the same bits, those of "
                                  "keep_all under the same algorithms and precision."
                                : "");
    for (size_t i = 0; i < c->variants.n_pair; i++)
        if (dt_compare_in_vain(c, &c->row[c->of[i][0]], vain)[0] != '\0')
            dti_page_hint(p, vain);
    dti_page_section_end(p);
}

static bool is_refused(const dt_compare *c, size_t i)
{
    return c->row[i].refused != NULL && dti_compare_is_shown(c, i);
}

static void refused(const dti_page *p, const dt_compare *c)
{
    dti_page_column shown[COLUMNS];
    char why[1024];
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++)
        n += is_refused(c, i);
    if (n == 0)
        return;
    n = name_columns(c, shown);
    shown[n++] = (dti_page_column){"why", false};
    dti_page_section(p, "refused", "What was refused");
    dti_page_table(p, shown, n);
    for (size_t i = 0; i < c->n; i++) {
        if (!is_refused(c, i))
            continue;
        dti_page_row(p, NULL);
        names(p, c, &c->row[i]);
        dti_page_cell(p, dt_compare_why(&c->row[i], why, sizeof why));
        dti_page_row_end(p);
    }
    dti_page_table_end(p);
    dti_page_section_end(p);
}

static dt_status fill(dti_page *p, const dt_compare *c, dt_err *err)
{
    dti_page_section(p, "front", "Memory against time");
    fputs("<div class=\"wide\">\n", p->f);
    const dt_status st = dti_compare_svg(c, p->f, err);
    fputs("</div>\n", p->f);
    dti_page_section_end(p);
    DT_CHECK(st);
    table(p, c);
    refused(p, c);
    return dti_page_machine(p, c->session, err);
}

dt_status dti_compare_html(const void *compare, FILE *f, dt_err *err)
{
    const dt_compare *c = compare;
    const dt_session *s = c->session;
    const dt_compare_shared all = dt_compare_share(c);
    char title[192], about[512] = "";
    dti_page p;
    snprintf(title, sizeof title, "%s%s compared", all.network ? s->graph->name : "networks",
        c->vary.n > 0 ? ": variants" : ": policies");
    if (all.batch)
        snprintf(about, sizeof about, "%" PRId64 " samples a step; ", s->opts.train.batch);
    const size_t at = strlen(about);
    if (!all.costs)
        snprintf(about + at, sizeof about - at, "times are each variant's own");
    else if (dt_costs_known(&s->costs))
        snprintf(about + at, sizeof about - at, "times are %s: %.200s", dt_costs_said(&s->costs),
            s->costs.name);
    else
        snprintf(about + at, sizeof about - at,
            "nothing was measured of this machine, so only the order of times counts");
    dti_page_begin(&p, f, title, about);
    const dt_status st = fill(&p, c, err);
    const dt_status ended = dti_page_end(&p, st == DT_OK ? err : NULL);
    return st != DT_OK ? st : ended;
}
