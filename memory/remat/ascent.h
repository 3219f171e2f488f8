/* Bounds of linear programs from below, without a solver: whatever multipliers the search ends
 * with, what they prove holds. */
#ifndef DT_MEMORY_REMAT_ASCENT_H
#define DT_MEMORY_REMAT_ASCENT_H

#include "memory/remat/solver.h"

/* No solution of the relaxation of @p costs less than *out. Columns are bounded, rows have a lower
 * bound and no upper one. Applegate et al., "Practical large-scale linear programming using
 * primal-dual hybrid gradient" (NeurIPS 2021): steps of both problems at once, averaged and begun
 * again. It ends after @steps, or where the two agree to @near. DT_E_NOMEM. */
dt_status dti_lp_bound(
    const dti_lp *p, int steps, double near, double *out, dt_err *err) DT_NODISCARD;

#endif
