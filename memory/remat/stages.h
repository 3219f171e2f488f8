/* A sequence as Checkmate writes it (Jain et al., MLSys 2020, section 4): two matrices over stages
 * and ops. In stage t op t runs for the first time; others may run again before it, in the graph's
 * order. What a stage begins with is what the one before held or ran, and was told to hold. */
#ifndef DT_MEMORY_REMAT_STAGES_H
#define DT_MEMORY_REMAT_STAGES_H

#include "memory/remat/remat.h"

enum { DTI_STAGES_MOST_OPS = 4096 };

/**
 * struct dti_remat_stages - matrices of n rows, one a stage, and n columns, one an op.
 * @held: S: held from the stage before into this one
 * @run:  R: runs in this stage
 */
typedef struct dti_remat_stages {
    uint32_t n;
    uint8_t *held, *run;
} dti_remat_stages;

/* All zero. DT_E_CONFIG for more than DTI_STAGES_MOST_OPS, DT_E_NOMEM. Release with
 * dti_stages_deinit, even after a failure. */
dt_status dti_stages_init(dti_remat_stages *s, uint32_t n, dt_err *err) DT_NODISCARD;
void dti_stages_deinit(dti_remat_stages *s);

/* The fewest runs with which all that is to be held can be: each stage's own op, what the next one
 * holds and this one did not, and what those read, back to what is held. */
void dti_stages_least_runs(const dt_remat_graph *g, dti_remat_stages *s);

/* Fixed checkpoints, as Checkmate's experiments lay out their baselines (appendix B): what is
 * @kept stays to the very end. Between two kept ops the values of forward are held while forward is
 * there, and again while backward is; and so are, there, the gradients. Runs are the fewest. */
void dti_stages_of_kept(const dt_remat_graph *g, const uint8_t *kept, dti_remat_stages *s);

/* The runs in order, and the peak: a value goes right behind its last reader of a stage that the
 * next one does not hold. So what is held lives on though nobody reads it any more, unlike in
 * dti_remat_measure. @out may be NULL; DT_E_NOMEM. */
dt_status dti_stages_replay(const dt_remat_graph *g, const dti_remat_stages *s,
    dt_remat_sequence *out, dt_remat_taken *taken, dt_err *err) DT_NODISCARD;

#endif
