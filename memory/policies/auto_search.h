/* What the parts of auto share: the search, plans as they are tried and kept, and who finds them.
 */
#ifndef DT_MEMORY_POLICIES_AUTO_SEARCH_H
#define DT_MEMORY_POLICIES_AUTO_SEARCH_H

#include "memory/policies/auto_front.h"

enum { DTI_AUTO_BUDGETS = 16, DTI_AUTO_MOST_LIGHT = 4 };

/* A value that forward can make again: bytes, seconds in which it is made, and in which it goes
 * to where values wait; and its number. */
typedef struct dti_auto_value {
    double bytes, again, away;
    size_t number;
} dti_auto_value;

/* A plan that others begin with, and its program. Down to budget @down_to the policy makes the
 * same. @floor: its seconds however it is placed; 0: not known yet. */
typedef struct dti_auto_base {
    dti_found of;
    dt_program *p;
    uint64_t down_to;
    double floor;
} dti_auto_base;

/* Where policies that search are tried: nowhere, at the run's own budget, or at all of the
 * ladder's, which then are all that a run takes its plan from. */
typedef enum dti_auto_searches {
    DTI_AUTO_SEARCH_OFF,
    DTI_AUTO_SEARCH_ON,
    DTI_AUTO_SEARCH_FRONT
} dti_auto_searches;

/**
 * struct dti_auto - a search.
 * @plan:  n plans, of which none is ahead of another in everything; it moves when one is added
 * @least @most: device peaks between which budgets lie
 * @own:   the run's budget while plans are sought for that; 0: for all runs
 * @reach: where no policy alone, nor two, come within so many bytes, nothing else is tried;
 * UINT64_MAX: it always is
 * @seconds: by op of the program as it came, n_op of them, and of all (@ops)
 * @tensor @value: by value, and the values the cheapest to make again first
 * @base:  n_base programs that one policy has made; it moves when one is added
 * @light: n_light policies that neither move nor make again, and take less than keep_all
 */
typedef struct dti_auto {
    dt_program *p;
    const dt_pass_env *env;
    bool lossy;
    dti_auto_searches searches;
    int64_t moves;
    size_t n, room;
    dti_found *plan;
    uint64_t least, most, own, reach;
    size_t n_op;
    double *seconds, ops;
    size_t n_value;
    int32_t *tensor;
    dti_auto_value *value;
    uint64_t drawn;
    size_t n_base, room_base;
    dti_auto_base *base;
    size_t n_light;
    const dt_policy *light[DTI_AUTO_MOST_LIGHT];
} dti_auto;

/* The budgets of the ladder, which is for all runs, above @least and up to @most, the highest
 * first; and @least last. The ladder has its steps evenly from the least peak to keep_all's. */
typedef struct dti_auto_ladder {
    uint64_t budget[DTI_AUTO_BUDGETS + 1];
    size_t n;
} dti_auto_ladder;
dti_auto_ladder dti_auto_ladder_of(const dti_auto *s, uint64_t least, uint64_t most);

/* Make, place and time a plan. *kept becomes its program, to be destroyed; NULL: that is not
 * wanted. */
dt_status dti_auto_try(
    const dti_auto *s, dti_found *f, dt_program **kept, dt_err *err) DT_NODISCARD;
/* The same, and keep it where no other is ahead. */
dt_status dti_auto_add(dti_auto *s, dti_found *f, dt_program **kept, dt_err *err) DT_NODISCARD;
/* The same of a program in which all but the policy that goes on has been done. */
dt_status dti_auto_add_from(
    dti_auto *s, const dt_program *made, dti_found *f, dt_err *err) DT_NODISCARD;

/* --- lists of policies --- */

/* A program that policies go on from, and what it is of, whose fates it does not copy: both are the
 * search's from now on, even after a failure. DT_E_NOMEM. */
dt_status dti_auto_add_base(dti_auto *s, const dti_auto_base *base, dt_err *err) DT_NODISCARD;

/* Each policy without a budget, and each two, one after the other. */
dt_status dti_auto_add_policies(dti_auto *s, bool pairs, dt_err *err) DT_NODISCARD;
/* At @least bytes and the budgets of the ladder above it, those that go by one. */
dt_status dti_auto_add_budgeted(dti_auto *s, uint64_t least, dt_err *err) DT_NODISCARD;
/* At @least bytes and the budgets of the ladder above it up to @most: what comes of plans above
 * the budget when another policy goes on from them. @from: the first base to be gone on from. */
dt_status dti_auto_go_on(
    dti_auto *s, size_t from, uint64_t least, uint64_t most, dt_err *err) DT_NODISCARD;
/* At a budget those that search, where no bound tells that what is found already is ahead of them;
 * and what comes of their plans when others go on. */
dt_status dti_auto_search(dti_auto *s, uint64_t budget, dt_err *err) DT_NODISCARD;
/* What comes of a plan when those that neither move nor make again go on from it. */
dt_status dti_auto_lighten(dti_auto *s, const dti_found *from, dt_err *err) DT_NODISCARD;
void dti_auto_drop_bases(dti_auto *s);

/* --- copies back --- */

/* Of a program that is made: copies back that ops wait for begin earlier, where it stays within
 * the budget and gets faster. */
dt_status dti_auto_ask_earlier(
    const dti_auto *s, uint64_t budget, dt_program *p, dt_err *err) DT_NODISCARD;

/* --- fates of values --- */

/* Seconds of ops and values, from the program as it stands, once a search, whose owner frees them.
 */
dt_status dti_auto_time_values(dti_auto *s, dt_err *err) DT_NODISCARD;
/* Seconds of an op; of one that recomputes those of what it repeats. */
double dti_auto_seconds_of(const dti_auto *s, const dt_program *p, int32_t number);
dt_status dti_auto_apply_fates(
    const dti_auto *s, const uint8_t *fates, dt_program *to, dt_err *err) DT_NODISCARD;
/* At @least bytes and the budgets of the ladder above it up to @most, the highest first. What
 * only makes values again becomes a base. */
dt_status dti_auto_add_searched(
    dti_auto *s, uint64_t least, uint64_t most, dt_err *err) DT_NODISCARD;

#endif
