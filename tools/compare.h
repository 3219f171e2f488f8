/* What `dnntrain compare` finds of policies under budgets, and what it does with that. */
#ifndef DT_TOOLS_COMPARE_H
#define DT_TOOLS_COMPARE_H

#include <stdio.h>

#include "session/plan_set.h"
#include "session/variants.h"
#include "tools/policy_lists.h"

/**
 * struct dti_compare_row - the plans of a list of policies for a variant of the configuration,
 * under a budget if they go by one.
 * @policy @list:  the list, borrowed, and its number
 * @variant: its number
 * @session: of the variant
 * @refused: why there are no plans, and nothing below holds; NULL: there are. Owned
 * @budget:  of the device, by which they are planned; 0: they are the same for all budgets
 * @exact:   with the bits of keep_all of the same variant
 * @can:     a run of them can be trained, in the budgets of host and disk
 * @best:    none of the exact rows of its group that can takes neither more bytes nor more time,
 * and less of one
 * @again:   they are those of the row before
 * @other_algorithms: than keep_all of the variant takes, as these are chosen plan by plan
 * @algorithms: a sum of those
 * @traffic: expected of a step
 * @lives:   bytes of what outlives steps, by the tier where it lives
 * @bound:   what no placement of these plans is below
 * @measured @spread: seconds of a step and the range of its middle half; 0: it was not run
 * @plans:   and what they are made by, kept where they are to be run; NULL otherwise
 */
typedef struct dti_compare_row {
    const char *policy;
    size_t list, variant;
    dt_session *session;
    char *refused;
    uint64_t budget, bound, algorithms, lives[DT_TIERS];
    bool exact, can, best, again, other_algorithms;
    dt_need need;
    dt_score score;
    dt_traffic traffic;
    dt_prediction time;
    double measured, spread;
    dt_plan_set *plans;
    dt_policies policies;
} dti_compare_row;

enum { DTI_COMPARE_BUDGETS = 64 };

/**
 * struct dti_compare_under - the budgets of a variant.
 * @kept:   the row of its keep_all
 * @budget: ascending, of which there are @n
 * @least:  by budget, seconds that no plan's step is below within it; the last of any budget
 */
typedef struct dti_compare_under {
    size_t kept, n;
    uint64_t budget[DTI_COMPARE_BUDGETS];
    double least[DTI_COMPARE_BUDGETS + 1];
} dti_compare_under;

/**
 * struct dti_compare - all of them.
 * @lists:   of policies
 * @vary @variants: of the configuration; one if no key is varied
 * @session: of the first variant that was not refused
 * @under:   by variant
 * @of:      the row of pair p of @variants under budget b: row[of[p][b]]
 * @run:     they are to be run
 */
typedef struct dti_compare {
    dti_policy_lists lists;
    dt_vary vary;
    dt_variants variants;
    const dt_session *session;
    dti_compare_under *under;
    size_t n, cap;
    dti_compare_row *row;
    size_t (*of)[DTI_COMPARE_BUDGETS];
    bool run;
} dti_compare;

/* Plan all there is to plan under budgets as --budgets says them (NULL: the configuration's, or six
 * of them). DT_E_CONFIG for a wrong text; what is wrong with a plan, where there is but one
 * variant; of several that row is refused. */
dt_status dti_compare_plan(dti_compare *c, const char *budgets, dt_err *err) DT_NODISCARD;

/* All that it holds, whatever of it there is. */
void dti_compare_close(dti_compare *c);

/* The row of keep_all under the same algorithms and precision. */
const dti_compare_row *dti_compare_kept(const dti_compare *c, const dti_compare_row *r);
const dt_variant *dti_compare_variant(const dti_compare *c, const dti_compare_row *r);
/* "measured" of a profile, "simulated" of a card, "defaults". */
const char *dti_compare_costs(const dti_compare_row *r);
bool dti_compare_fits(const dti_compare_row *r, uint64_t budget);
/* What no plan is below under the b-th budget if the row fits it, else under any. */
double dti_compare_least(const dti_compare *c, const dti_compare_row *r, size_t b);
/* "a", "b", ... of a group of variants. Returns @to. */
enum { DTI_COMPARE_BITS = 8 };
const char *dti_compare_letter(size_t group, char to[DTI_COMPARE_BITS]);
/* Of a row that was refused why, in one line. Returns @to. */
const char *dti_compare_why(const dti_compare_row *r, char *to, size_t bytes);
/* Whether all variants, of which some were not refused, have the same: samples of a step, precision
 * and device, network, where costs are from. */
typedef struct dti_compare_shared {
    bool batch, device, network, costs;
} dti_compare_shared;
dti_compare_shared dti_compare_share(const dti_compare *c);

/* Run some steps of each, in turns, on a made-up batch, and fill @measured and @spread. */
dt_status dti_compare_run(dti_compare *c, dt_err *err) DT_NODISCARD;

dt_status dti_compare_table(const dti_compare *c, dt_err *err) DT_NODISCARD;
dt_status dti_compare_json(const dti_compare *c, dt_err *err) DT_NODISCARD;
dt_status dti_compare_csv(const void *compare, FILE *f, dt_err *err) DT_NODISCARD;
/* Peak against time. */
dt_status dti_compare_svg(const void *compare, FILE *f, dt_err *err) DT_NODISCARD;
/* That and the table, as a page. */
dt_status dti_compare_html(const void *compare, FILE *f, dt_err *err) DT_NODISCARD;

#endif
