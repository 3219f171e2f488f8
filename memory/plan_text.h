/* Plans as text: stable names, decimal bytes, no addresses and no clock, so that two can be compared line by
 * line. parse(print(p)) equals p. */
#ifndef DT_MEMORY_PLAN_TEXT_H
#define DT_MEMORY_PLAN_TEXT_H

#include <stdio.h>

#include "engine/plan.h"

/* The whole plan: header, tables, rows. */
void dt_plan_print(const dt_plan *p, FILE *f);
/* Only the rows as people read them: "P x; I x e0", one op a line (see docs/design.md). */
void dt_plan_print_short(const dt_plan *p, FILE *f);

/* Read a printed plan. @name stands for the file in messages. DT_E_DATA with "NAME:LINE: ..."; sizes and
 * counts are checked before anything is allocated. The plan is well-formed (indices in range) but not yet
 * verified. */
dt_status dt_plan_parse(
    dt_plan **out, const char *name, const char *text, size_t bytes, dt_err *err) DT_NODISCARD;

/* Print what differs between two plans, rows by longest common subsequence; false when nothing does. */
bool dt_plan_diff(const dt_plan *a, const dt_plan *b, FILE *f);

#endif
