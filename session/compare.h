/* Policies under budgets, and variants of a configuration, planned and held against each other. */
#ifndef DT_SESSION_COMPARE_H
#define DT_SESSION_COMPARE_H

#include "session/plan_set.h"
#include "session/policy_lists.h"
#include "session/variants.h"

/* How plans stand to others: one of these takes less; as much memory and time; no more of either,
 * and less of one. */
typedef enum dt_compare_standing {
    DT_COMPARE_BEHIND,
    DT_COMPARE_ALIKE,
    DT_COMPARE_AHEAD
} dt_compare_standing;

/**
 * struct dt_compare_row - the plans of a list of policies for a variant of the configuration,
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
 * @missed:  of a list that goes by no budget, planned closer to one and above it all the same: for
 * programs, which ask by budget, and nothing to show beside the list's other row
 * @front:   of auto, by a budget of its own front's and none of those compared under
 * @other_algorithms: than keep_all of the variant takes, as these are chosen plan by plan
 * @at_once: of the batch at once, though a run would leave train.micro_batch to a policy
 * @in_vain: no plan of the list for the variant takes less than keep_all, though a budget below
 * that was given, or none counts; @too_small: why, where its values are, else ""
 * @alone @alone_stands: of a list a policy that alone is as good or better, and how its plans stand
 * to these; NULL and DT_COMPARE_BEHIND: none is
 * @algorithms: a sum of those
 * @traffic: expected of a step
 * @lives:   bytes of what outlives steps, by the tier where it lives
 * @least:   where some does, or values are packed (@own_least), as dt_compare_under has it: of
 * plans that do so, within @budget and any
 * @bound:   what no placement of these plans is below
 * @floor:   what no plan of as many samples is below
 * @measured @spread: seconds of a step and the range of its middle half; 0: it was not run
 * @plans:   and what they are made by, kept where they are to be run; NULL otherwise
 */
typedef struct dt_compare_row {
    const char *policy;
    size_t list, variant;
    dt_session *session;
    char *refused;
    uint64_t budget, bound, algorithms, lives[DT_TIERS];
    bool exact, can, best, again, missed, front, other_algorithms, at_once, in_vain, own_least;
    char too_small[DT_TOO_SMALL_TEXT];
    const char *alone;
    dt_compare_standing alone_stands;
    dt_need need;
    dt_score score;
    dt_traffic traffic;
    dt_prediction time;
    dt_floor floor;
    double least[2], measured, spread;
    dt_plan_set *plans;
    dt_policies *policies; /* owned, of the plans, which point to them: rows move as more come */
} dt_compare_row;

enum { DT_COMPARE_BUDGETS = 64, DT_COMPARE_FRONT = 16 };

/**
 * struct dt_compare_under - the budgets of a variant.
 * @kept:   the row of its keep_all
 * @budget: ascending, of which there are @n
 * @least:  by budget, seconds that no plan's step is below within it; the last of any budget
 */
typedef struct dt_compare_under {
    size_t kept, n;
    uint64_t budget[DT_COMPARE_BUDGETS];
    double least[DT_COMPARE_BUDGETS + 1];
} dt_compare_under;

/**
 * struct dt_compare - all of them.
 * @lists:   of policies
 * @vary @variants: of the configuration; one if no key is varied
 * @session: of the first variant that was not refused
 * @under:   by variant
 * @of:      the row of pair p of @variants under budget b: row[of[p][b]]
 * @run:     they are to be run
 * @front:   auto is planned at DT_COMPARE_FRONT budgets more, evenly from the least that anything
 *           takes to what keep_all takes: rows behind the others of its lists, in no @of
 * @planned: told of a row that took @seconds, more than one; @round: before each of the rounds that
 *           dt_compare_run makes. NULL: nobody
 */
typedef struct dt_compare {
    dt_policy_lists lists;
    dt_vary vary;
    dt_variants variants;
    const dt_session *session;
    dt_compare_under *under;
    size_t n, cap;
    dt_compare_row *row;
    size_t (*of)[DT_COMPARE_BUDGETS];
    bool run, front;
    void (*planned)(
        const struct dt_compare *c, const dt_compare_row *r, const dt_variant *v, double seconds);
    void (*round)(int round, int rounds);
} dt_compare;

/* Budgets that are asked for: @evenly so many between the least and keep_all's peak, or those @n,
 * ascending; neither: the configuration's, or six evenly. */
typedef struct dt_compare_budgets {
    int64_t evenly;
    size_t n;
    uint64_t budget[DT_COMPARE_BUDGETS];
} dt_compare_budgets;

/* Plan all there is to plan under them. What is wrong with a plan, where there is but one variant
 * and the policy is named; otherwise that row is refused. */
dt_status dt_compare_plan(dt_compare *c, const dt_compare_budgets *asked, dt_err *err) DT_NODISCARD;

/* All that it holds, whatever of it there is. */
void dt_compare_close(dt_compare *c);

/* The row of keep_all under the same algorithms and precision. */
const dt_compare_row *dt_compare_kept(const dt_compare *c, const dt_compare_row *r);
const dt_variant *dt_compare_variant(const dt_compare *c, const dt_compare_row *r);
/* "measured" of a profile, "simulated" of a card, "defaults". */
const char *dt_compare_costs(const dt_compare_row *r);
bool dt_compare_fits(const dt_compare_row *r, uint64_t budget);
/* Whether it has plans that no other row has shown. */
bool dt_compare_is_new(const dt_compare_row *r);
/* Whether a list has auto in it, whose front can be shown. */
bool dt_compare_is_auto(const char *list);
/* What no plan is below under the b-th budget if the row fits it, else, or with @b
 * DT_COMPARE_BUDGETS, under any. */
double dt_compare_least(const dt_compare *c, const dt_compare_row *r, size_t b);
/* Of a row that was refused why, in one line. Returns @to. */
const char *dt_compare_why(const dt_compare_row *r, char *to, size_t bytes);
/* "capuchin saves nothing here: ..." of a row that is in vain, "a,b is no better here than a alone,
 * ..." of one where a policy alone is, "" of others. Returns @to. */
enum { DT_COMPARE_IN_VAIN = 2 * DT_POLICY_LIST + 512 + DT_TOO_SMALL_TEXT };
const char *dt_compare_in_vain(
    const dt_compare *c, const dt_compare_row *r, char to[DT_COMPARE_IN_VAIN]);
/* Find that of all rows. */
void dti_compare_mark_in_vain(dt_compare *c);
/* Whether all variants, of which some were not refused, have the same: samples of a step, device,
 * precision, network, where costs are from; and whether all of these are cards'. */
typedef struct dt_compare_shared {
    bool batch, device, precision, network, costs, simulated;
} dt_compare_shared;
dt_compare_shared dt_compare_share(const dt_compare *c);

/* Run some steps of each, in turns, on a made-up batch, and fill @measured and @spread. */
dt_status dt_compare_run(dt_compare *c, dt_err *err) DT_NODISCARD;

#endif
