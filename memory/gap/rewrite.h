/* What was chosen for the gaps of a program, made: recomputes first, then, on the clock of what has
 * come of it, copies. */
#ifndef DT_MEMORY_GAP_REWRITE_H
#define DT_MEMORY_GAP_REWRITE_H

#include "memory/gap/curve.h"
#include "memory/gap/gaps.h"

/**
 * struct dti_rewrite - what is to be done to a program.
 * @q:        the program, or a copy of it, with its index
 * @n_tensor: of the program when the gaps were found
 * @of:       its n gaps
 * @limit:    of the load, UINT64_MAX: no op is to wait for a copy
 */
typedef struct dti_rewrite {
    dt_program *q;
    const dt_pass_env *env;
    size_t n, n_tensor;
    const dti_idle *of;
    uint64_t limit;
} dti_rewrite;

dt_status dti_gaps_rewrite(const dti_rewrite *r, dt_err *err) DT_NODISCARD;

/* Seconds of a tensor's copy to where it waits, or back. */
double dti_copy_seconds(const dt_pass_env *e, const dt_tensor *t, dt_row_kind kind);

/* Curve of the program that the gaps are of. */
void dti_gaps_borrow(dti_gaps *g, const dti_load_curve *c, const dt_pass_env *e);

/* The copies that a program has already, as gaps without bytes that keep the queues busy: how many.
 * @to: NULL: they are counted */
size_t dti_gaps_there(const dt_program *p, const dt_pass_env *e, dti_idle *to);

#endif
