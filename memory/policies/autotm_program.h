/* AutoTM's placement of values (Hildebrand et al., ASPLOS 2020, section 3) as an integer program,
 * in numbers alone: which values are away from the device between two of their accesses, and beside
 * which ops their copies are made. */
#ifndef DT_MEMORY_POLICIES_AUTOTM_PROGRAM_H
#define DT_MEMORY_POLICIES_AUTOTM_PROGRAM_H

#include "engine/base/error.h"

/**
 * struct dti_absence_of - a value between two accesses.
 * @tensor:   which, for placements that tie its absences
 * @from @to: places of the accesses, from + 1 < to
 * @bytes @out @in: of the value; seconds of its copies
 * @away:     it leaves: it is gone behind place @release and back before place @fetch. A copy out
 * whose release is @from is made between the ops, else beside that op; one back likewise with @to
 * and @fetch
 */
typedef struct dti_absence_of {
    int32_t tensor, from, to;
    uint64_t bytes;
    double out, in;
    bool away;
    int32_t release, fetch;
} dti_absence_of;

enum { DTI_PLACEMENT_BRANCHED = 1000 };

/**
 * struct dti_placement - what is asked, and what was found.
 * @n_place @hidden @load: by place: seconds that copies take there without being noticed; bytes
 * with nothing away
 * @n @of:  absences, of which the results are @away, @release and @fetch
 * @limit:  of the load
 * @reach:  places from an access, beside whose ops a copy may be; 0: copies stand between the ops
 * @tied:   a tensor is away in all of its absences, or in none; wants @reach 0
 * @nodes:  of branch and bound; 0: the relaxation is rounded, and no more
 * @cost @bound: results: seconds that are noticed, and a thousandth of the others, of what was
 * found; below which none is
 * @proved: result: none has a cost that is lower by a hundredth
 * @too_wide: result: it was not, and the program has too many columns for branch and bound, more
 * than DTI_PLACEMENT_BRANCHED; @nodes went unused
 */
typedef struct dti_placement {
    size_t n_place, n;
    const double *hidden;
    const uint64_t *load;
    dti_absence_of *of;
    uint64_t limit;
    int32_t reach;
    bool tied;
    int nodes;
    double cost, bound;
    bool proved, too_wide;
} dti_placement;

/* The least limit that can be kept: with all away. */
uint64_t dti_placement_least(const dti_placement *x);

/* Find a placement within the limit, which is at least the least one. DT_E_CONFIG in a build
 * without a solver; DT_E_NOMEM. */
dt_status dti_placement_solve(dti_placement *x, dt_err *err) DT_NODISCARD;

/* What a placement costs, and whether it keeps to the limit. */
double dti_placement_cost(const dti_placement *x);
bool dti_placement_keeps(const dti_placement *x);

#endif
