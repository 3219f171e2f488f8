/* What was compared, as a table for people. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "session/human.h"
#include "tools/args.h"
#include "tools/columns.h"
#include "tools/compare.h"
#include "tools/terminal.h"
#include "tools/vary.h"

enum { NAME = 14, MARKS = 2, KEYS_MOST = 36, WHY_BYTES = 1024 };

/* The columns that say which variant it is.
 * @numbered: for want of width by a number that is told below
 * @bits:     of a column; 0: there is none
 * @width:    of each key's
 * @used:     of all that is never left out */
typedef struct left {
    bool numbered;
    int bits, width[DT_VARIED_KEYS], used;
} left;

static int at_least(int a, size_t b)
{
    return a > (int)b ? a : (int)b;
}

static left left_columns(const dt_compare *c)
{
    const dt_vary *keys = &c->vary;
    left l = {.bits = c->variants.n_group > 1 ? 4 : 0};
    int all = 0;
    for (size_t k = 0; k < keys->n; k++) {
        l.width[k] = at_least(0, strlen(dti_vary_title(keys, k)));
        for (size_t i = 0; i < keys->key[k].n; i++)
            l.width[k] = at_least(l.width[k], strlen(keys->key[k].value[i]));
        all = at_least(all, (size_t)(all + 1 + l.width[k]));
    }
    l.numbered = all > KEYS_MOST;
    l.used = MARKS + NAME + (l.numbered ? 1 + (int)strlen("variant") : all) +
             (l.bits > 0 ? 1 + l.bits : 0);
    return l;
}

static void left_titles(const dt_compare *c, const left *l)
{
    printf("%-*s", MARKS + NAME, "  policy");
    if (l->numbered)
        printf(" variant");
    for (size_t k = 0; k < c->vary.n && !l->numbered; k++)
        printf(" %-*s", l->width[k], dti_vary_title(&c->vary, k));
    if (l->bits > 0)
        printf(" %-*s", l->bits, "bits");
}

/* A letter, behind which ' says that the plan has algorithms of its own. */
static void print_bits(const dt_compare *c, const dt_compare_row *r, int width)
{
    char letter[DTI_COMPARE_BITS], text[DTI_COMPARE_BITS + 1];
    snprintf(text, sizeof text, "%s%s", dti_compare_letter(dt_compare_variant(c, r)->group, letter),
        r->other_algorithms ? "'" : "");
    printf(" %-*s", width, r->refused != NULL ? "" : r->exact ? text : "~");
}

static void left_cells(
    const dt_compare *c, const dt_compare_row *r, const char *name, const left *l)
{
    dti_column_name(name, MARKS, NAME);
    if (l->numbered)
        printf(" %7zu", r->variant + 1);
    for (size_t k = 0; k < c->vary.n && !l->numbered; k++)
        printf(" %-*s", l->width[k], dti_vary_value(&c->vary, dt_compare_variant(c, r), k, "-"));
    if (l->bits > 0)
        print_bits(c, r, l->bits);
}

static int fastest_first(const void *va, const void *vb)
{
    const dt_compare_row *a = *(const dt_compare_row *const *)va;
    const dt_compare_row *b = *(const dt_compare_row *const *)vb;
    if (a->time.seconds < b->time.seconds || a->time.seconds > b->time.seconds)
        return a->time.seconds < b->time.seconds ? -1 : 1;
    if (a->need.device != b->need.device)
        return a->need.device < b->need.device ? -1 : 1;
    return a < b ? -1 : a > b;
}

static bool same_budgets(const dt_compare *c, const dt_compare_under **of)
{
    *of = NULL;
    for (size_t v = 0; v < c->variants.n; v++) {
        const dt_compare_under *u = &c->under[v];
        if (c->variants.variant[v].session == NULL)
            continue;
        if (*of != NULL &&
            (u->n != (*of)->n || memcmp(u->budget, (*of)->budget, u->n * sizeof *u->budget) != 0))
            return false;
        *of = u;
    }
    return true;
}

const char *dti_compare_budgets(const dt_compare *c, char to[DTI_COMPARE_BUDGETS])
{
    char size[DT_HUMAN_BYTES];
    const dt_compare_under *u;
    size_t at = (size_t)snprintf(to, DTI_COMPARE_BUDGETS, "budgets of the device:");
    if (!same_budgets(c, &u))
        snprintf(to + at, DTI_COMPARE_BUDGETS - at, " each variant's own");
    else
        for (size_t b = 0; b < u->n; b++)
            at += (size_t)snprintf(to + at, DTI_COMPARE_BUDGETS - at, "%s %s", b > 0 ? "," : "",
                dt_human_bytes(size, u->budget[b]));
    return to;
}

/* @costs: of one of the variants */
static void whose_times(const dt_costs *costs, const dt_compare_shared *all)
{
    char text[sizeof costs->name + 32];
    if (!all->costs)
        printf("times are %s\n",
            all->simulated ? "simulated, of each variant's card" : "each variant's own");
    else if (dt_costs_known(costs)) {
        snprintf(text, sizeof text, "times are %s: %s", dt_costs_said(costs), costs->name);
        dti_term_wrap(stdout, 0, 2, text);
    }
}

/* What all variants share, by one of them, and what they do not. */
static void header(const dt_compare *c)
{
    const dt_session *s = c->session;
    const dt_compare_shared all = dt_compare_share(c);
    char input[DT_HUMAN_BYTES], count[DT_HUMAN_BYTES], text[1024] = "varied:";
    char budgets[DTI_COMPARE_BUDGETS];
    size_t at = strlen(text);
    if (all.network)
        printf("%s   %s, %s parameters", s->graph->name,
            dt_human_input(input, &s->graph->input, dt_graph_tokens(s->graph)),
            dt_human_count(count, (uint64_t)dt_graph_parameters(s->graph)));
    if (all.batch)
        printf("%sbatch %" PRId64, all.network ? "   " : "", s->opts.train.batch);
    if (all.network || all.batch)
        putchar('\n');
    dti_cli_print_device(s, all.device, all.precision);
    whose_times(&s->costs, &all);
    for (size_t k = 0; k < c->vary.n && at < sizeof text; k++)
        at += (size_t)snprintf(
            text + at, sizeof text - at, "%s %s", k > 0 ? "," : "", c->vary.key[k].name);
    if (c->vary.n > 0)
        dti_term_wrap(stdout, 0, 2, text);
    dti_term_wrap(stdout, 0, 2, dti_compare_budgets(c, budgets));
    putchar('\n');
}

static bool was_run(const dt_compare *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->row[i].measured > 0)
            return true;
    return false;
}

enum { BUDGET, PEAK, SHARE, STEP, RATE, AGAIN, OUT, MEASURED, SPREAD, RATIO, COLUMNS };

/* Variants take width, and where none is planned by a budget that column says nothing. */
static bool shows_budgets(const dt_compare *c)
{
    bool any = c->vary.n == 0;
    for (size_t i = 0; i < c->n; i++)
        any = any || c->row[i].budget > 0;
    return any;
}

static void columns(const dt_compare *c, int width, dti_table_column to[COLUMNS])
{
    const bool ran = was_run(c);
    const dti_table_column all[COLUMNS] = {[BUDGET] = {"planned by", 11, shows_budgets(c) ? 1 : -1,
                                               "the budget, where plans go by one", false},
        [PEAK] = {"peak", 11, 0, NULL, false},
        [SHARE] = {"of all", 6, 8, NULL, false},
        [STEP] = {"step s", 9, 0, NULL, false},
        [RATE] = {"samples/s", 9, 5, NULL, false},
        [AGAIN] = {"again", 6, 7, "computed again, of forward and backward", false},
        [OUT] = {"moved out", 11, 6, "in a step", false},
        [MEASURED] = {"measured", 9, ran ? 2 : -1, NULL, false},
        [SPREAD] = {"spread", 6, ran ? 3 : -1, "of the middle half of the steps", false},
        [RATIO] = {"ratio", 6, ran ? 4 : -1, "predicted / measured", false}};
    memcpy(to, all, sizeof all);
    dti_columns_fit(to, COLUMNS, width);
}

bool dti_compare_exceeds(const dt_compare *c, const dt_compare_row *r)
{
    const dt_compare_under *u = &c->under[r->variant];
    const uint64_t most = r->budget > 0 ? r->budget : u->n > 0 ? u->budget[u->n - 1] : UINT64_MAX;
    return dt_compare_is_new(r) && r->need.device > most;
}

static void line(
    const dt_compare *c, const dt_compare_row *r, const left *l, const dti_table_column *column)
{
    const double kept = (double)dt_compare_kept(c, r)->need.device;
    const double again = r->score.flops > 0 ? 100 * r->score.recompute_flops / r->score.flops : 0;
    char cell[COLUMNS][DT_HUMAN_BYTES + 1], budget[DT_HUMAN_BYTES];
    snprintf(cell[BUDGET], sizeof cell[BUDGET], "%s%s", dti_compare_exceeds(c, r) ? ">" : "",
        r->budget > 0 ? dt_human_bytes(budget, r->budget) : "any");
    dt_human_bytes(cell[PEAK], r->need.device);
    dti_column_bytes(cell[OUT], r->traffic.out);
    dt_human_rate(cell[RATE], r->time.rate);
    snprintf(cell[SHARE], DT_HUMAN_BYTES, "%.1f%%", 100 * (double)r->need.device / kept);
    snprintf(cell[STEP], DT_HUMAN_BYTES, "%.4g", r->time.seconds);
    snprintf(cell[AGAIN], DT_HUMAN_BYTES, "%.1f%%", again);
    for (int i = MEASURED; i <= RATIO; i++)
        snprintf(cell[i], DT_HUMAN_BYTES, "-");
    if (r->measured > 0) {
        snprintf(cell[MEASURED], DT_HUMAN_BYTES, "%.4g", r->measured);
        snprintf(cell[SPREAD], DT_HUMAN_BYTES, "%.1f%%", 100 * r->spread / r->measured);
        snprintf(cell[RATIO], DT_HUMAN_BYTES, "%.3f", r->time.seconds / r->measured);
    }
    printf("%s%s", r->best ? "*" : !r->exact ? "~" : " ", r->can ? " " : "!");
    left_cells(c, r, r->policy, l);
    for (int i = 0; i < COLUMNS; i++)
        dti_column(&column[i], cell[i]);
    putchar('\n');
    for (int t = DT_TIER_HOST; t < DT_TIERS; t++)
        if (r->lives[t] > 0)
            printf("%*s%s live on the %s\n", MARKS + 1, "", dt_human_bytes(cell[PEAK], r->lives[t]),
                dt_tier_name(t));
}

bool dti_compare_is_shown(const dt_compare *c, size_t i)
{
    const dt_compare_row *r = &c->row[i];
    for (size_t k = 0; k < i && r->refused != NULL; k++)
        if (c->row[k].variant == r->variant && c->row[k].refused != NULL &&
            (r->session == NULL || c->row[k].list == r->list))
            return false;
    return r->refused != NULL || dt_compare_is_new(r);
}

const char *dti_compare_name_refused(const dt_compare_row *r)
{
    return r->session != NULL ? r->policy : "(each list)";
}

static void refused_lines(const dt_compare *c, const left *l)
{
    for (size_t i = 0; i < c->n; i++) {
        if (c->row[i].refused == NULL || !dti_compare_is_shown(c, i))
            continue;
        printf("%*s", MARKS, "");
        left_cells(c, &c->row[i], dti_compare_name_refused(&c->row[i]), l);
        printf(" refused\n");
    }
}

static void reasons(const dt_compare *c)
{
    char what[512], why[WHY_BYTES], text[sizeof what + WHY_BYTES + DT_POLICY_LIST];
    for (size_t i = 0; i < c->n; i++) {
        const dt_compare_row *r = &c->row[i];
        if (r->refused == NULL || !dti_compare_is_shown(c, i))
            continue;
        dt_variant_text(&c->vary, dt_compare_variant(c, r), what, sizeof what);
        snprintf(text, sizeof text, "refused: %s%s%s: %s", r->session != NULL ? r->policy : "",
            r->session != NULL && what[0] != '\0' ? ", " : "", what,
            dt_compare_why(r, why, sizeof why));
        dti_term_wrap(stdout, 0, 2, text);
    }
}

static void numbers(const dt_compare *c)
{
    char what[512], text[sizeof what + 32];
    for (size_t v = 0; v < c->variants.n; v++) {
        dt_variant_text(&c->vary, &c->variants.variant[v], what, sizeof what);
        snprintf(text, sizeof text, "variant %zu: %s", v + 1,
            what[0] != '\0' ? what : "as the configuration says");
        dti_term_wrap(stdout, 0, 2, text);
    }
}

/* Of each list and variant once. */
static void in_vain(const dt_compare *c)
{
    char text[DT_COMPARE_IN_VAIN];
    for (size_t p = 0; p < c->variants.n_pair; p++) {
        if (dt_compare_in_vain(c, &c->row[c->of[p][0]], text)[0] != '\0')
            dti_term_wrap(stdout, 0, 2, text);
    }
}

/* What the results of variants have to do with each other. */
static void bits_legend(const dt_compare *c)
{
    bool other = false;
    for (size_t i = 0; i < c->n; i++)
        other = other || c->row[i].other_algorithms;
    dti_term_wrap(stdout, 0, 2,
        "bits: plans of one letter train the same bits, those of keep_all under the same "
        "precision, "
        "algorithms and all else that results depend on; * is among them");
    if (other)
        dti_term_wrap(stdout, 0, 2,
            "': but for algorithms that were chosen for this plan, and differ in the last bits");
}

/* What marks and titles mean, as far as they occur. */
static void legend(const dt_compare *c, const left *l, const dti_table_column *column)
{
    bool lossy = false, never = false, above = false, above_all = false;
    const char *host = NULL;
    const dt_compare_row *at_once = NULL;
    char text[256];
    for (size_t i = 0; i < c->n; i++) {
        const dt_compare_row *r = &c->row[i];
        lossy = lossy || (r->refused == NULL && !r->exact);
        never = never || (r->refused == NULL && !r->can);
        if (host == NULL && r->refused == NULL)
            host = dt_session_host_note(r->session, r->need.tier[DT_TIER_HOST]);
        at_once = at_once == NULL && r->at_once ? r : at_once;
        above = above || dti_compare_exceeds(c, r);
        above_all = above_all || (r->budget == 0 && dti_compare_exceeds(c, r));
    }
    putchar('\n');
    dti_columns_legend(column, COLUMNS, "*: " DTI_COMPARE_BEST "; of equal plans the first");
    if (l->bits > 0)
        bits_legend(c);
    if (lossy)
        printf("~: changes results\n");
    if (above)
        printf(
            ">: its peak is above that budget%s\n", above_all ? "; >any: above all of them" : "");
    if (never)
        printf("!: cannot be run\n");
    if (at_once != NULL) {
        snprintf(text, sizeof text,
            "%.100s: of the batch at once; a run leaves train.micro_batch to it, as plan shows",
            at_once->policy);
        dti_term_wrap(stdout, 0, 2, text);
    }
    if (host != NULL)
        dti_term_wrap(stdout, 0, 2, host);
    in_vain(c);
    dti_columns_left_out(column, COLUMNS, l->used);
    if (l->numbered)
        numbers(c);
    reasons(c);
}

dt_status dti_compare_table(const dt_compare *c, dt_err *err)
{
    const left l = left_columns(c);
    dti_table_column column[COLUMNS];
    size_t n = 0;
    const dt_compare_row **all = dt_alloc(c->n + 1, sizeof *all);
    if (all == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to compare");
    for (size_t i = 0; i < c->n; i++)
        if (c->row[i].refused == NULL && dti_compare_is_shown(c, i))
            all[n++] = &c->row[i];
    qsort(all, n, sizeof(dt_compare_row *), fastest_first);
    header(c);
    columns(c, l.used, column);
    left_titles(c, &l);
    dti_columns_head(column, COLUMNS);
    for (size_t i = 0; i < n; i++)
        line(c, all[i], &l, column);
    refused_lines(c, &l);
    legend(c, &l, column);
    dt_free(all);
    return DT_OK;
}
