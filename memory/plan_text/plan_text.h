/* Plans as text: stable names, decimal bytes, no addresses of the process and no clock, so that two
 * can be compared line by line. One record a line, fields separated by blanks, "-" for none:
 *
 *     dt-plan 3 net=... device=... (the header, every field in a fixed order)
 *     refused POLICY ALGORITHMS WHY
 *     node NAME OPTIONS
 *     tensor NAME ROLE BYTES HOME
 *     op NAME KIND FLOPS do:LAYER/FORM of:NODE CALL... ARG... s:OUT/IN... k:ALGORITHM/WORK
 *     ROW STREAM KIND OP TENSOR OFF BYTES EVENT OVER TIER:SLOT REASON
 *
 * REFUSED are the rungs of a ladder that did not fit. The header lists the streams as
 * LETTER:KIND/TIER, by whose letters rows name them. HOME is the offset of a persistent tensor,
 * with TIER: before it where that is its home, "-" for others. CALL is what the kernel is told,
 * where it does not go without saying: alt:NUMBER, type:bf16, samples:FROM/TO, count:NUMBER,
 * codec:NAME/BYTES, limit:BYTES (of the algorithm), dx (there is a gradient to pass on), vector,
 * host (what lives on the host is reached there). ARG is r:, w: or u:, the port and a tensor, as
 * r:x0=conv1.y, with [from,to) behind it unless it is whole; ALGORITHM is what a device that has
 * several computes the op by, and WORK the scratch that it wants. A slot that holds packed bytes is
 * TIER:SLOT=CODEC/BYTES.
 *
 * Refusals come before nodes, these before tensors, these before ops, ops before rows; rows are
 * numbered from 0; options and why are the rest of their lines. Lines that
 * begin with # are comments. Bytes of a name that would be misread stand as \xNN, an empty name is
 * a lone backslash, and a name that two records share is followed by #NUMBER of the record.
 *
 * A file may hold several plans, each from its header on: all that a run takes. Of two of the same
 * program and batch the second is for steps whose packed values do not fit.
 *
 * Only this version of the format is read. An op that says no do: can be proved and compared, but
 * not run. docs/plan_text.md gives the grammar of each line. */
#ifndef DT_MEMORY_PLAN_TEXT_PLAN_TEXT_H
#define DT_MEMORY_PLAN_TEXT_PLAN_TEXT_H

#include <stdio.h>

#include "engine/plan.h"

enum { DTI_PLAN_TEXT_BYTES = 32 << 20, DTI_PLAN_LINE_BYTES = 64 << 10 };

/* The whole plan: header, tables, rows. parse(print(p)) equals p when arguments of ops stand in the
 * order of the ops, flops are finite, and the reasons are distinct and in the order in which rows
 * first use them; otherwise these come back so. An index out of range is printed as ?INDEX, for
 * those who look for the bug. */
void dt_plan_print(const dt_plan *p, FILE *f);

/* Only the rows as people read them: "P x; I x e0", one op a line (see docs/design.md). P place, R
 * release, C compute, O copy out, I copy in, W wait; a row on another stream than its kind's own
 * names it: "W(o) e3". What the rows of a line give as
 * their reasons stands behind it, after a #, with a bar between two. */
void dt_plan_print_short(const dt_plan *p, FILE *f);

/* "plan 'first' for 4 samples", without a newline: its program as the header has it. */
void dt_plan_print_title(const dt_plan *p, FILE *f);

/* Read a printed plan. @name stands for the file in messages; the caller owns *out, NULL on
 * failure. DT_E_DATA with "NAME:LINE: ..." and the value; sizes and counts are bounded by the size
 * of the text, which is at most DTI_PLAN_TEXT_BYTES. The plan is well-formed (indices in range,
 * rows with the fields of their kind) but not yet verified. */
dt_status dti_plan_parse(
    dt_plan **out, const char *name, const char *text, size_t bytes, dt_err *err) DT_NODISCARD;

/* Several plans, those of a run: texts of plans, one behind the other. */
typedef struct dt_plans {
    size_t n, cap;
    dt_plan **plan;
} dt_plans;

enum { DT_PLANS_TEXT_BYTES = 256 << 20 };

/* Read a text of one or more plans, each as dti_plan_parse does; at most DT_PLANS_TEXT_BYTES. What
 * was read before a failure is there, too: release with dt_plans_deinit. */
dt_status dt_plans_parse(
    dt_plans *to, const char *name, const char *text, size_t bytes, dt_err *err) DT_NODISCARD;
void dt_plans_deinit(dt_plans *p); /* a zeroed one is fine */

/* Print what differs between two plans, "- " before what only a has and "+ " before what only b
 * has: the fields of the header, then tensors, ops and rows by longest common subsequence (a row's
 * number is no difference). False when nothing differs. When memory is out, or too many lines are
 * alike, a section is printed whole, as if all of it differed. */
bool dt_plan_diff(const dt_plan *a, const dt_plan *b, FILE *f);

#endif
