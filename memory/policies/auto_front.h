/* The plans that auto has found for a program, as they are kept: in memory for a session, and as
 * text for later runs. */
#ifndef DT_MEMORY_POLICIES_AUTO_FRONT_H
#define DT_MEMORY_POLICIES_AUTO_FRONT_H

#include "memory/policy.h"

extern const dt_policy dt_policy_auto;

/* Whether auto may have a policy in its plans: not itself, nor a ladder, whose rungs are policies.
 */
bool dti_auto_may_take(const dt_policy *p);

/**
 * struct dti_found - a plan of the front, as it is made again; and what it comes to.
 * @list: a policy; @fate: or fates of values, by value, each a dti_fate; NULL: the list
 * @aim:  the budget that the list goes by; 0: none
 * @then: a policy that goes on from there, by @budget; "": none does
 * @early: at last copies back that are waited for are asked for earlier, within so many bytes; 0:
 * they are not
 */
typedef struct dti_found {
    char list[64], then[64];
    uint64_t aim, budget, early;
    uint8_t *fate;
    bool offloads, encodes, recomputes;
    dti_pass_cost cost;
} dti_found;

/* A plan with fates of its own; after DT_E_NOMEM it has none. */
dt_status dti_found_copy(
    dti_found *to, const dti_found *from, size_t n_value, dt_err *err) DT_NODISCARD;
void dti_found_deinit(dti_found *f);

/* @least @most: device peaks between which budgets lie */
typedef struct dti_front {
    size_t n, n_value;
    uint64_t least, most;
    dti_found *plan;
} dti_front;

/* NULL without memory. Takes a void pointer, as dti_kept_put wants it. */
dti_front *dti_front_copy(const dti_front *from);
void dti_front_destroy(void *front);

/* As text of *bytes; NULL without memory. The caller frees it. */
char *dti_front_text(const dti_front *f, size_t *bytes);
/* NULL when it is none of so many values, or without memory. */
dti_front *dti_front_parse(const char *text, size_t n_value);

#endif
