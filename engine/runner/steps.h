/* What bind makes of a plan: a step for each row that does something, with pointers where the row
 * has addresses and numbers, and the threads that take them. */
#ifndef DT_ENGINE_RUNNER_STEPS_H
#define DT_ENGINE_RUNNER_STEPS_H

#include "engine/codec.h"
#include "engine/kernels.h"
#include "engine/plan.h"

struct dt_runner;

/* Bytes [from, to) of the arena that a step reads or writes: a tensor, without padding. */
typedef struct dti_bytes {
    uint64_t from, to;
    int32_t tensor;
    bool written;
    dt_dtype type; /* of a value or its gradient */
} dti_bytes;

/* DTI_END is where a tensor's bytes are given up, which only a checked run looks at; a DTI_WAIT is
 * there only when what signals is not in order with it anyway. */
typedef enum dti_step_kind { DTI_COMPUTE, DTI_COPY, DTI_FETCH, DTI_WAIT, DTI_END } dti_step_kind;

/* An op. @fused: the next one of the same launch; @launched: how many that launch does, 0 where it
 * is another step's; @updates: entry of the map of the parameter that it updates; -1: none;
 * @gradient: of the gradient that it reads in its slot; -1: it reads none there; @gradients: how
 * many elements of the parameter's gradient lie where it begins to read it: all, for the first of
 * the ops that update a parameter, and 0 for the others; @host: the processor's kernels do it, for
 * a device that is none, on the host's memory */
typedef struct dti_compute {
    int32_t op; /* row of the plan's table */
    int32_t updates, gradient;
    int64_t gradients;
    const dt_kernels *kernels;
    dt_call call;
    void *state; /* borrowed from the runner's states */
    dt_args args;
    const struct dti_step *fused;
    int launched;
    bool host;
} dti_compute;

/* A copy to or from a slot. @codec: NULL: as they are; @used: out: bytes of the slot that the last
 * run wrote; @pair: in: the step that copied them out; -1: they come from home; @home: entry of the
 * map whose home the slot is; -1: it is no home */
typedef struct dti_copy {
    bool out;
    dt_tier tier;
    unsigned char *device;
    uint64_t slot, bytes, stored;
    const dt_codec *codec;
    uint64_t used;
    int32_t pair, home;
} dti_copy;

/* Images or labels of the batch. */
typedef struct dti_fetch {
    unsigned char *device;
    uint64_t bytes;
    bool labels;
} dti_fetch;

/**
 * struct dti_step - one row that does something.
 * @stream:  of the runner
 * @next:    step of the same thread; -1: none
 * @event:   WAIT: waited for; others: signalled when done, if anybody waits; -1
 * @crosses: others: another thread waits for its event
 * @first @n: into the plan's touched bytes
 * @name:    of the op or the tensor; borrowed from the plan kept here
 * @from:    WAIT: the thread that signals
 */
typedef struct dti_step {
    struct dt_runner *r;
    dti_step_kind kind;
    int stream;
    int32_t row, next, event, first, n;
    bool crosses;
    const char *name;
    union {
        dti_compute compute;
        dti_copy copy;
        dti_fetch fetch;
        int from;
    };
} dti_step;

/**
 * struct dti_plan - a plan as the runner keeps it, once it is bound.
 * @touched: what its steps read and write
 * @op @tensor: copies of the plan's tables, for names in messages
 * @begin:   first step by thread; -1: none
 * @threads: those that have steps: bit s for stream s
 * @team:    threads of the processor that its scratch is for
 * @again:   its gradients are added to those that are there
 * @ran:     once at least
 * @range @n_range: of graphs.c: what a device keeps of it; none: not yet
 * @plain:   it could not be kept
 * @span:    of trace.c: when each step was done; NULL: nobody asks
 */
typedef struct dti_plan {
    size_t n_step, n_touched, n_range;
    dti_step *step;
    dti_bytes *touched;
    dt_plan_op *op;
    dt_plan_tensor *tensor;
    int32_t begin[DT_MAX_STREAMS];
    unsigned threads;
    int32_t n_event;
    int64_t n;
    int team;
    bool again, ran, plain;
    struct dti_range *range;
    struct dti_traced *span;
} dti_plan;

/* Make a plan's steps, into a zeroed *to; free them, and kernels' states, of all plans. */
dt_status dti_bind(struct dt_runner *r, const dt_plan *plan, dti_plan *to, dt_err *err);
void dti_unbind(struct dt_runner *r);

#endif
