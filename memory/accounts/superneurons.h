/* SuperNeurons' way of counting memory (Wang and others, PPoPP 2018, sections 3.2 to 3.4): what its
 * table 1 and section 4.1 report, which no plan of ours comes to, as ours works in place and reads
 * less in backward. Such a count is never run. */
#ifndef DT_MEMORY_ACCOUNTS_SUPERNEURONS_H
#define DT_MEMORY_ACCOUNTS_SUPERNEURONS_H

#include "engine/graph.h"

/**
 * struct dti_superneurons - a step of a network, in its authors' count.
 * @tensors @baseline: outputs and gradients of values, and the bytes of all of them
 * @liveness: peak where each lives from its first use to its last
 * @offloaded: and outputs of convolutions but the last wait on the host
 * @speed @memory @aware: peaks where cheap layers are computed again as well: a segment once for
 *            its whole backward; anew for each of its layers; or anew only where once would exceed
 *            the largest layer
 * @speed_runs @memory_runs @aware_runs: how many layers run again
 * @largest: the most that backward of one layer uses, as the authors add it up
 * @liveness_step @offloaded_step: where these peak, of the steps of forward and backward, from 1
 * @input: bytes of the input batch
 * @states: bytes of parameters, their gradients and momentum
 *
 * Bytes are of fp32 values; parameters, workspaces and the input batch are left out of the others,
 * as there.
 */
typedef struct dti_superneurons {
    uint64_t tensors, baseline, liveness, offloaded, speed, memory, aware;
    uint64_t speed_runs, memory_runs, aware_runs;
    uint64_t largest, liveness_step, offloaded_step, input, states;
} dti_superneurons;

/* Of layers in the paper's table, not fused: DT_E_CONFIG names the first other one. */
dt_status dti_superneurons_count(
    dti_superneurons *out, const dt_graph *g, int64_t batch, dt_err *err) DT_NODISCARD;

#endif
