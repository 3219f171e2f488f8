/* The runner: one arena, and the plans that are run in it. All memory is reserved and all kernels
 * are prepared before step 0; running a plan allocates nothing. It trusts plans: verify them first.
 */
#ifndef DT_ENGINE_RUNNER_H
#define DT_ENGINE_RUNNER_H

#include "engine/feed.h"
#include "engine/plan.h"

typedef struct dt_runner dt_runner;

typedef struct dt_runner_opts {
    const dt_graph *graph;
    const dt_map *map;
    dt_device_kind device;
    uint64_t arena_bytes; /* the largest peak of all plans */
    uint64_t host_bytes;  /* the largest host peak */
    uint64_t seed;
    int threads; /* 0: all cores */
} dt_runner_opts;

/* Reserve the arena, with a guard page behind it, and the host tier. DT_E_NOMEM when the machine
 * refuses. */
dt_status dt_runner_create(dt_runner **out, const dt_runner_opts *o, dt_err *err) DT_NODISCARD;
void dt_runner_destroy(dt_runner *r);

/* Prepare a plan and the program it was lowered from. Both may be destroyed afterwards. */
dt_status dt_runner_add(
    dt_runner *r, const dt_program *p, const dt_plan *plan, int *id, dt_err *err) DT_NODISCARD;

/* What a run of a plan is told. */
typedef struct dt_run_args {
    dt_batch batch;  /* n must be the plan's; unused by update */
    int64_t sample0; /* of this micro-batch in the step's batch */
    int64_t step, step_samples;
    dt_hyper hyper;
} dt_run_args;

dt_status dt_runner_run(dt_runner *r, int id, const dt_run_args *a, dt_err *err) DT_NODISCARD;

/* What a checked run found. */
typedef struct dt_measure {
    uint64_t peak;       /* end of the highest tensor any of whose bytes changed */
    int32_t peak_tensor; /* of the plan */
} dt_measure;

/* Run a plan once in an arena filled with a pattern, and look at every byte: what an op changes
 * must lie in the tensors it writes, padding included, and all the rest of the arena must keep the
 * pattern. The contents of persistent tensors are lost: initialise them afterwards. DT_E_INTERNAL
 * names the op and tensor beside which a byte changed. */
dt_status dt_runner_check(
    dt_runner *r, int id, const dt_run_args *a, dt_measure *m, dt_err *err) DT_NODISCARD;

int64_t dt_runner_sample(const dt_runner *r); /* floats of one image */

/* Bytes of a persistent tensor (entry of the map). */
void *dt_runner_home(dt_runner *r, int32_t home);

/* Fill parameters from their initialisers (keyed by seed and place), running statistics likewise,
 * zero the rest. */
dt_status dt_runner_init(dt_runner *r, dt_err *err) DT_NODISCARD;

/* The first persistent tensor of a port (DT_DP: gradients, DT_Q: running statistics to be) that
 * holds a value which is not finite; -1 when all values are. */
int32_t dt_runner_nonfinite(const dt_runner *r, dt_port port);

/* Between PyTorch's layout and the one a persistent tensor lives in. @plain holds dt_param_count
 * floats. */
dt_status dt_runner_put(dt_runner *r, int32_t home, const float *plain, dt_err *err) DT_NODISCARD;
dt_status dt_runner_get(dt_runner *r, int32_t home, float *plain, dt_err *err) DT_NODISCARD;

#endif
