/* What policies share that solve recomputation as an abstract problem (memory/remat): the problem
 * of a program, sequences tried on it by real plans, and the one that is taken. */
#ifndef DT_MEMORY_POLICIES_REMAT_PASS_H
#define DT_MEMORY_POLICIES_REMAT_PASS_H

#include "memory/policy.h"
#include "memory/remat/chain.h"
#include "memory/remat/of_program.h"

/**
 * struct dti_problem - a program that trains, and the best sequence for it so far.
 * @budget: bytes of the device; 0: none, and the lowest peak is the best
 * @r:      the problem; runs of what other passes have touched are forbidden
 * @mirror: by op of the graph of backward, the op of forward of the same layer, or UINT32_MAX
 * @offset: the peak of the plan that keeps all, less that of the problem
 * @best @cost: the best so far, and what its plan takes; valid when @found
 * @made:   the program as the best has it, without a reason; NULL: as it is
 */
typedef struct dti_problem {
    dt_program *p;          /* borrowed */
    const dt_pass_env *env; /* borrowed */
    uint64_t budget;
    dti_remat_program r;
    uint32_t *mirror;
    int64_t offset;
    dt_remat_sequence best;
    dti_pass_cost cost;
    dt_program *made;
    bool found;
} dti_problem;

/* Release with dti_problem_close, even after a failure. DT_E_NOMEM. */
dt_status dti_problem_open(
    dti_problem *x, dt_program *p, const dt_pass_env *env, dt_err *err) DT_NODISCARD;
void dti_problem_close(dti_problem *x);

/* The device's bytes that a sequence's plan takes; it becomes the best where it is better: faster
 * among those that fit, else of a lower peak. @runs is taken over, and zeroed, or left. */
dt_status dti_problem_try(
    dti_problem *x, dt_remat_sequence *runs, uint64_t *peak, dt_err *err) DT_NODISCARD;

/* Where stages end, as options say it: dti_chain_cuts by number. */
extern const char *const dti_chain_cuts_names[];

/* Rotor's sequences for what is aimed at, moved by how far real plans are off: the problem as a
 * chain of at most so many stages. @spaced: where none of them fits, aims from the most down to the
 * least are tried as well, and with DTI_CHAIN_AUTO stages that end after any value. *points: the
 * best has them where one value alone crosses. DT_E_NOMEM. */
dt_status dti_problem_try_chain(dti_problem *x, dti_chain_cuts where, uint32_t stages, bool spaced,
    bool *points, dt_err *err) DT_NODISCARD;

/* Rewrite the program as the best has it, saying why: @why is a text without formats. Where none
 * was found, or the one that keeps all is better, nothing is done. */
dt_status dti_problem_take(dti_problem *x, const char *why, dt_err *err) DT_NODISCARD;

#endif
