/* Inside the runner: plans as it keeps them. */
#ifndef DT_ENGINE_RUNNER_PARTS_H
#define DT_ENGINE_RUNNER_PARTS_H

#include "engine/arena.h"
#include "engine/runner.h"

/* Bytes of the arena that a step reads or writes, for the checked run. */
typedef struct dti_bytes {
    uint64_t from, to; /* of the tensor, without padding */
    int32_t tensor;
    bool written;
} dti_bytes;

typedef enum dti_step_kind {
    DTI_COMPUTE,
    DTI_COPY_OUT,
    DTI_COPY_IN,
    DTI_FETCH,
    DTI_END
} dti_step_kind;

/* One row that does something; DTI_END is where a tensor's bytes are given up. */
typedef struct dti_step {
    dti_step_kind kind;
    const dt_kernels *kernels;
    dt_call call;
    void *state; /* borrowed from the runner's states */
    dt_args args;
    char *name;                   /* borrowed from the plan kept here */
    unsigned char *device, *host; /* copies */
    uint64_t bytes;
    int fetch;        /* FETCH: 0 the image, 1 the labels */
    int32_t first, n; /* into touched */
} dti_step;

typedef struct dti_plan {
    size_t n_step, n_touched;
    dti_step *step;
    dti_bytes *touched;
    dt_plan_op *op;         /* copies, for names in messages */
    dt_plan_tensor *tensor; /* likewise */
    uint64_t peak;
    int64_t n;
    bool again;
} dti_plan;

typedef struct dti_state {
    const dt_layer_desc *desc;
    dt_call call;
    void *state;
} dti_state;

struct dt_runner {
    dt_runner_opts o;
    dt_arena arena;
    unsigned char *host;
    size_t n_plan, cap_plan, n_state, cap_state;
    dti_plan *plan;
    dti_state *state;
};

/* Execute one step. */
dt_status dti_step_run(
    const dt_runner *r, dti_step *s, const dt_run_args *a, bool again, dt_err *err);

#endif
