/* What `dnntrain sweep` finds for each policy, and what it does with that. */
#ifndef DT_TOOLS_SWEEP_H
#define DT_TOOLS_SWEEP_H

#include "engine/checkpoint/checkpoint.h"
#include "tools/args.h"
#include "session/sweep.h"
#include "session/policy_lists.h"

typedef struct dti_sweep {
    const dt_session *session; /* borrowed */
    dt_policy_lists lists;
    size_t n;
    dt_sweep_row *row; /* in the order of the lists; keep_all is the first */
} dti_sweep;

/* Where all policies are asked for, those of them that are not swept: "left out, as they search or
 * write to a disk: revolve, ...; name them with --policies"; else "". Returns @to. */
enum { DTI_SWEEP_LEFT_OUT = 512 };
const char *dti_sweep_left_out(const dti_sweep *w, char to[DTI_SWEEP_LEFT_OUT]);
/* What is to be said of rows besides their numbers, a line each. */
void dti_sweep_notes(const dti_sweep *w, const dt_teller *to);
void dti_sweep_table(const dti_sweep *w);
/* A list of an object each. */
dt_status dti_sweep_json(const dti_sweep *w, dt_err *err) DT_NODISCARD;
dt_status dti_sweep_html(const void *sweep, FILE *f, dt_err *err) DT_NODISCARD; /* a page */
dt_status dti_sweep_csv(const dti_sweep *w, const char *path, dt_err *err) DT_NODISCARD;

/* Train two steps at each largest batch in a process of its own, compare what was planned with what
 * it measured, and see that the next size is refused. Prints a line a policy, and sets check and
 * measured, but of those that take more memory than this machine has. Goes on after a failure; the
 * status is that of the first. @cli: what this program was given. */
dt_status dti_sweep_verify(dti_sweep *w, const dti_cli *cli, dt_err *err) DT_NODISCARD;

#endif
