/* The rows of `dnntrain reproduce`: as text, as a page and as JSON. */
#include "tools/reproduce.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/isa.h"
#include "session/environment.h"
#include "session/human.h"
#include "tools/json_out.h"
#include "tools/terminal.h"

enum { NUMBER_BYTES = 48, NOTE_BYTES = DTI_NOTE_BYTES + 16, SHARES_BYTES = 256 };

static const char *word(dti_verdict v)
{
    return v == DTI_WITHIN ? "ok" : v == DTI_BETTER ? "better" : "off";
}

/* Four digits: "0.8981", "4,857", "16,100"; "-" where a plan does not fit. */
static const char *number(char to[NUMBER_BYTES], double value)
{
    char digits[NUMBER_BYTES], count[DT_HUMAN_BYTES];
    if (isnan(value))
        return "-";
    snprintf(digits, sizeof digits, "%.3e", value);
    const double rounded = strtod(digits, NULL);
    if (fabs(rounded) >= 1e3 && fabs(rounded) < 1e15)
        snprintf(to, NUMBER_BYTES, "%s%s", rounded < 0 ? "-" : "",
            dt_human_count(count, (uint64_t)(fabs(rounded) + 0.5)));
    else
        snprintf(to, NUMBER_BYTES, "%.4g", value);
    return to;
}

static const char *ratio(char to[NUMBER_BYTES], double value)
{
    snprintf(to, NUMBER_BYTES, "%.3f", value);
    return isnan(value) ? "-" : to;
}

/* What is assumed, or why; before all else that the plan does not fit. */
static void note_of(char to[NOTE_BYTES], const dti_reproduced *r)
{
    const bool fits = !isnan(r->ours);
    snprintf(to, NOTE_BYTES, "%s%s%s", fits ? "" : "does not fit",
        fits || r->note[0] == '\0' ? "" : "; ", r->note);
}

static bool first_of_paper(const dti_reproduced *all, size_t i)
{
    return i == 0 || all[i].paper != all[i - 1].paper;
}

/* ---- counts ---- */

/* How many rows came out how, and how many of them are within NEAR; of the better ones, how many of
 * either are a rival's. Bytes and formulas apart from what is of other implementations. */
typedef struct counted {
    size_t of[3], near[3], rivals, near_rivals;
} counted;
static const double NEAR = 0.3;

static bool of_others(dt_published_kind k)
{
    return k == DT_TIME || k == DT_BATCH || k == DT_MEMORY;
}

static void count(counted *c, const dti_reproduced *r)
{
    const bool is_near = fabs(r->ratio - 1) <= NEAR;
    const bool rival = r->verdict == DTI_BETTER && r->of->rival;
    c->of[r->verdict]++;
    c->near[r->verdict] += is_near;
    c->rivals += rival;
    c->near_rivals += rival && is_near;
}

/* Which of the better rows are counted as off. */
typedef enum taken { TAKEN_NONE, TAKEN_RIVALS, TAKEN_ALL } taken;

/* Of the rows that are `ok` or `off`, and of the better ones that are taken, so many in percent. */
static double share_of(const counted *c, size_t part, taken better)
{
    const size_t more = better == TAKEN_ALL      ? c->of[DTI_BETTER]
                        : better == TAKEN_RIVALS ? c->rivals
                                                 : 0;
    const size_t n = c->of[DTI_WITHIN] + c->of[DTI_OFF] + more;
    return n > 0 ? 100 * (double)part / (double)n : 100;
}

static double share(const counted *c, taken better)
{
    return share_of(c, c->of[DTI_WITHIN], better);
}

/* What is off may be near. */
static double near(const counted *c, taken better)
{
    const size_t more = better == TAKEN_ALL      ? c->near[DTI_BETTER]
                        : better == TAKEN_RIVALS ? c->near_rivals
                                                 : 0;
    return share_of(c, c->near[DTI_WITHIN] + c->near[DTI_OFF] + more, better);
}

/* All rows, by kind and by whether the number is another implementation's. */
typedef struct tally {
    counted of[DT_PUBLISHED_KINDS], bytes, others, all;
} tally;

static void take(tally *t, const dti_reproduced *r)
{
    count(&t->of[r->of->kind], r);
    count(of_others(r->of->kind) ? &t->others : &t->bytes, r);
    count(&t->all, r);
}

static tally tally_of(const dti_reproduced *r, size_t n)
{
    tally t = {0};
    for (size_t i = 0; i < n; i++)
        take(&t, &r[i]);
    return t;
}

static size_t rows_of(const counted *c)
{
    return c->of[DTI_WITHIN] + c->of[DTI_BETTER] + c->of[DTI_OFF];
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

/* "41 of 50 rows of 9 papers within their tolerance, 4 better than published, 5 off". */
static void line_of_counts(const dti_reproduced *r, size_t n, const counted *all)
{
    char of_whom[64];
    size_t papers = 0;
    bool few = false; /* rows of papers of which there are fewer than five */
    for (size_t i = 0; i < n; i++) {
        if (!first_of_paper(r, i))
            continue;
        const bool one = strcmp(r[i].paper->name, "others") != 0;
        papers += one;
        few = few || !one;
    }
    whose(of_whom, sizeof of_whom, papers, few);
    printf("\n%zu of %zu rows of %s within their tolerance, %zu better than published, %zu off\n\n",
        all->of[DTI_WITHIN], n, of_whom, all->of[DTI_BETTER], all->of[DTI_OFF]);
}

static void words_of_shares(char to[SHARES_BYTES], const counted *all)
{
    snprintf(to, SHARES_BYTES,
        "%.1f %% of the rows that are not better are within their tolerance; %zu are better, "
        "%zu of them rivals': counting these as off it is %.1f %%, counting all of them %.1f %%",
        share(all, TAKEN_NONE), all->of[DTI_BETTER], all->rivals, share(all, TAKEN_RIVALS),
        share(all, TAKEN_ALL));
}

/* ---- as text ---- */

enum { WHAT = 43, NOTE = 4 }; /* the columns in which a row's text and its note begin */

static void text_paper(const dt_published_paper *p)
{
    char title[NOTE_BYTES];
    snprintf(title, sizeof title, "%s: %s%s%s", p->name, p->title, p->note[0] != '\0' ? ". " : "",
        p->note);
    dti_term_wrap(stdout, 0, 0, title);
    printf("\n%-6s %9s %9s %6s\n", "kind", "published", "ours", "ratio");
}

void dti_reproduce_row(const dti_reproduced *all, size_t i)
{
    const dti_reproduced *r = &all[i];
    char what[NOTE_BYTES], published[NUMBER_BYTES], ours[NUMBER_BYTES], part[NUMBER_BYTES];
    if (i > 0 && first_of_paper(all, i))
        putchar('\n');
    if (first_of_paper(all, i))
        text_paper(r->paper);
    printf("%-6s %9s %9s %6s  %-6s  ", dt_published_kind_name(r->of->kind),
        number(published, r->of->published), number(ours, r->ours), ratio(part, r->ratio),
        word(r->verdict));
    snprintf(what, sizeof what, "%s: %s", r->of->where, r->of->what);
    dti_term_wrap(stdout, WHAT, WHAT, what);
    note_of(what, r);
    if (what[0] != '\0') {
        printf("%*s", NOTE, "");
        dti_term_wrap(stdout, NOTE, NOTE, what);
    }
    fflush(stdout);
}

static void text_shares(const char *what, const counted *c)
{
    if (rows_of(c) > 0)
        printf("%-25s %5zu %6.1f %% %11.1f %% %7zu %10zu\n", what, rows_of(c), share(c, TAKEN_NONE),
            near(c, TAKEN_NONE), c->of[DTI_BETTER], c->rivals);
}

static void text_kinds(const counted of[DT_PUBLISHED_KINDS])
{
    printf("\n%-25s %5s %8s %6s %11s\n", "kind", "ok", "better", "off", "tolerance");
    for (int k = 0; k < DT_PUBLISHED_KINDS; k++)
        if (rows_of(&of[k]) > 0)
            printf("%-25s %5zu %8zu %6zu %9.0f %%\n", dt_published_kind_name((dt_published_kind)k),
                of[k].of[DTI_WITHIN], of[k].of[DTI_BETTER], of[k].of[DTI_OFF],
                100 * dt_published_tolerance((dt_published_kind)k));
}

void dti_reproduce_summary(const dti_reproduced *r, size_t n)
{
    char words[SHARES_BYTES];
    const tally t = tally_of(r, n);
    line_of_counts(r, n, &t.all);
    words_of_shares(words, &t.all);
    if (t.all.of[DTI_BETTER] > 0) {
        dti_term_wrap(stdout, 0, 0, words);
        putchar('\n');
    }
    printf("%-25s %5s %8s %7s %2.0f %% %7s %10s\n", "", "rows", "within", "within", 100 * NEAR,
        "better", "of rivals");
    text_shares("bytes and formulas", &t.bytes);
    text_shares("times, batches and memory", &t.others);
    text_shares("all", &t.all);
    text_kinds(t.of);
}

/* ---- as a page ---- */

static void markdown_head(void)
{
    char now[DT_FACT_BYTES];
    printf(
        "# Published numbers, made again\n\n"
        "Written by `dnntrain reproduce all --markdown` on %.10s, for the kernels of %s "
        "(`DT_ISA`). "
        "Nothing is trained.\n\n"
        "- Bytes are those of verified plans, or of an account where a paper counts in its own way "
        "([commands.md](commands.md#accounts)).\n"
        "- Times are simulated on the papers' cards, so the machine matters little, but for "
        "searches, which a few bytes change.\n"
        "- A row is `ok` where ours ÷ published is within 1 %% of 1 for stated bytes and formulas, "
        "10 %% for bytes read from a figure,\n"
        "  15 %% for times, batches and memory of other implementations. It is `better` where it "
        "is "
        "farther off to the advantage of a system,\n"
        "  the paper's own or a rival that it ran, and `off` otherwise.\n"
        "- Frameworks and what keeps all are never `better`; nor is what comes of an assumption, "
        "such as one density for all values or a network\n"
        "  that the paper does not give, or of what the simulator leaves out.\n",
        dt_date(now), dt_isa_name());
}

/* How many rows of each paper came out how. @r is sorted by paper. */
static void markdown_papers(const dti_reproduced *r, size_t n)
{
    printf("| paper | rows | ok | better | off |\n| --- | ---: | ---: | ---: | ---: |\n");
    for (size_t i = 0, end; i < n; i = end) {
        counted c = {0};
        for (end = i; end < n && r[end].paper == r[i].paper; end++)
            count(&c, &r[end]);
        printf("| [%s](#%s) | %zu | %zu | %zu | %zu |\n", r[i].paper->name, r[i].paper->name,
            rows_of(&c), c.of[DTI_WITHIN], c.of[DTI_BETTER], c.of[DTI_OFF]);
    }
}

static void markdown_paper(const dt_published_paper *p)
{
    printf("\n## %s\n\n%s%s%s\n\n"
           "| where | what | kind | published | ours | ratio | | assumed, or why |\n"
           "| --- | --- | --- | ---: | ---: | ---: | --- | --- |\n",
        p->name, p->title, p->note[0] != '\0' ? ". " : "", p->note);
}

static void markdown_row(const dti_reproduced *all, size_t i)
{
    const dti_reproduced *r = &all[i];
    char note[NOTE_BYTES], published[NUMBER_BYTES], ours[NUMBER_BYTES], part[NUMBER_BYTES];
    if (first_of_paper(all, i))
        markdown_paper(r->paper);
    note_of(note, r);
    printf("| %s | %s | %s | %s | %s | %s | %s | %s |\n", r->of->where, r->of->what,
        dt_published_kind_name(r->of->kind), number(published, r->of->published),
        number(ours, r->ours), ratio(part, r->ratio), word(r->verdict), note);
}

static void markdown_shares(const char *what, const counted *c)
{
    if (rows_of(c) == 0)
        return;
    printf("| %s | %.1f %% | %.1f %% | %zu | %zu | %.1f %% | %.1f %% | %.1f %% | %.1f %% |\n", what,
        share(c, TAKEN_NONE), near(c, TAKEN_NONE), c->of[DTI_BETTER], c->rivals,
        share(c, TAKEN_RIVALS), near(c, TAKEN_RIVALS), share(c, TAKEN_ALL), near(c, TAKEN_ALL));
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
    if (rows_of(others) == 0)
        return;
    told_of_bar(within, share(others, TAKEN_NONE), WITHIN_BAR);
    told_of_bar(within_near, near(others, TAKEN_NONE), NEAR_BAR);
    printf("\nOf times, batches and memory that are not better %.0f %% are to be within their "
           "tolerance over all papers: %s; and %.0f %% within %.0f %%: %s.\n",
        WITHIN_BAR, within, NEAR_BAR, 100 * NEAR, within_near);
}

static void markdown_kinds(const counted of[DT_PUBLISHED_KINDS])
{
    printf("\n| kind | tolerance | ok | better | off |\n| --- | ---: | ---: | ---: | ---: |\n");
    for (int k = 0; k < DT_PUBLISHED_KINDS; k++)
        if (rows_of(&of[k]) > 0)
            printf("| %s | %.0f %% | %zu | %zu | %zu |\n",
                dt_published_kind_name((dt_published_kind)k),
                100 * dt_published_tolerance((dt_published_kind)k), of[k].of[DTI_WITHIN],
                of[k].of[DTI_BETTER], of[k].of[DTI_OFF]);
}

static void markdown_summary(const dti_reproduced *r, size_t n)
{
    char words[SHARES_BYTES];
    const tally t = tally_of(r, n);
    line_of_counts(r, n, &t.all);
    markdown_papers(r, n);
    words_of_shares(words, &t.all);
    printf(
        "\n%s\n\n"
        "| rows | within | within %.0f %% | better, left out | of these rivals' | rivals' as off: "
        "within | within %.0f %% | all better as off: within | within %.0f %% |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
        words, 100 * NEAR, 100 * NEAR, 100 * NEAR);
    markdown_shares("bytes and formulas", &t.bytes);
    markdown_shares("times, batches and memory", &t.others);
    markdown_shares("all", &t.all);
    bars(&t.others);
    markdown_kinds(t.of);
}

void dti_reproduce_markdown(const dti_reproduced *r, size_t n)
{
    markdown_head();
    markdown_summary(r, n);
    for (size_t i = 0; i < n; i++)
        markdown_row(r, i);
}

/* ---- as JSON ---- */

static void json_row(dt_json *list, const dti_reproduced *r)
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
    dt_json_flag(&j, "ok", r->verdict != DTI_OFF);
    dt_json_flag(&j, "better", r->verdict == DTI_BETTER);
    dt_json_flag(&j, "rival", r->of->rival);
    note_of(note, r);
    dt_json_text(&j, "note", note);
    dt_json_leave(list, &j);
}

dt_status dti_reproduce_json(const dti_reproduced *r, size_t n, dt_err *err)
{
    dt_json list = dt_json_begin_list();
    for (size_t i = 0; i < n; i++)
        json_row(&list, &r[i]);
    return dti_json_out(&list, err);
}
