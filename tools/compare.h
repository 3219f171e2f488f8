/* What `dnntrain compare` shows. */
#ifndef DT_TOOLS_COMPARE_H
#define DT_TOOLS_COMPARE_H

#include <stdio.h>

#include "session/compare.h"
#include "session/human.h"

/* What is said of a plan that is marked as best, and of no other. */
#define DTI_COMPARE_BEST "no exact plan is as good in memory and time and better in one"
/* "a", "b", ... of a group of variants. Returns @to. */
enum { DTI_COMPARE_BITS = 8 };
const char *dti_compare_letter(size_t group, char to[DTI_COMPARE_BITS]);
/* Whether the i-th row is told: each plan once, and what was refused once for all budgets; a
 * variant that was refused with all of its lists has one row. */
bool dti_compare_is_shown(const dt_compare *c, size_t i);
/* Whose row it is, of one that was refused. */
const char *dti_compare_name_refused(const dt_compare_row *r);
/* "budgets of the device: 1.00 GiB, 2.00 GiB". Returns @to. */
enum { DTI_COMPARE_BUDGETS = 64 + DT_COMPARE_BUDGETS * (DT_HUMAN_BYTES + 2) };
const char *dti_compare_budgets(const dt_compare *c, char to[DTI_COMPARE_BUDGETS]);
/* Its plan is larger than what it was planned by; of one that goes by no budget, than all of them.
 */
bool dti_compare_exceeds(const dt_compare *c, const dt_compare_row *r);
dt_status dti_compare_table(const dt_compare *c, dt_err *err) DT_NODISCARD;
dt_status dti_compare_json(const dt_compare *c, dt_err *err) DT_NODISCARD;
dt_status dti_compare_csv(const void *compare, FILE *f, dt_err *err) DT_NODISCARD;
/* Peak against time. */
dt_status dti_compare_svg(const void *compare, FILE *f, dt_err *err) DT_NODISCARD;
/* That and the table, as a page. */
dt_status dti_compare_html(const void *compare, FILE *f, dt_err *err) DT_NODISCARD;

#endif
