/* The inside of the runner, which its files share: what bind makes of a plan, what a runner keeps,
 * and a run under way. */
#ifndef DT_ENGINE_RUNNER_RUNNER_INTERNAL_H
#define DT_ENGINE_RUNNER_RUNNER_INTERNAL_H

#include "engine/codec.h"
#include "engine/context.h"
#include "engine/kernels.h"
#include "engine/plan.h"
#include "engine/runner/runner.h"
#include "engine/runner/streams.h"

/* ---- a plan, bound: a step for each row that does something, with pointers where the row has
 * addresses and numbers, and the threads that take them ---- */

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
 * run wrote; @reused: out: another copy writes to the slot, later in the same run; @pair: in: the
 * step that copied them out; -1: they come from home; @home: entry of the map whose home the slot
 * is; -1: it is no home */
typedef struct dti_copy {
    bool out, reused;
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
    bool ran, plain;
    struct dti_range *range;
    struct dti_traced *span;
} dti_plan;

/* ---- what a runner keeps: memory of the device and of the tiers, queues and threads, plans ----
 */

/* What differs from run to run, for kernels that read it, and what they answer. */
typedef struct dti_control {
    dt_now now;
    int overflow;
} dti_control;

/* Batches on their way to a device that works later than it is told to: while its queues read one
 * block of pinned memory, the host fills the other. @holds: what was copied there last (id 0: it
 * may be anything); @now: the block of this run, or of the last one that had a batch */
typedef struct dti_input {
    unsigned char *base[2];
    dt_batch holds[2];
    int now;
    uint64_t image_bytes, label_bytes; /* room in a block for each */
} dti_input;

typedef struct dti_tier {
    const dt_tier_desc *desc;
    void *state;
    unsigned char *map; /* NULL: by write and read */
    const char *note;
} dti_tier;

/* Bytes on their way to or from a tier that has no map, by stream. */
typedef struct dti_stage {
    void *block;
    unsigned char *base;
    uint64_t bytes;
} dti_stage;

struct dt_runner {
    dt_runner_opts o;
    const dt_driver *d;
    void *device; /* what the driver opened */
    void *reserved;
    unsigned char *base;       /* of the arena, behind the numbers of a run */
    dti_control *here, *there; /* pinned; in the device's memory */
    dt_now now;                /* of the run under way, for what the host computes */
    dti_input input;
    struct { /* room for what one launch of several updates is told */
        int cap;
        const dt_call **call;
        dt_args *args;
    } fused;
    dti_tier tier[DT_TIERS];
    int n_stream;
    dt_stream stream[DT_MAX_STREAMS]; /* queues of the device, and threads for some */
    dti_stage stage[DT_MAX_STREAMS];
    dt_runner_stats stats;
    dt_streams *streams;
    const dt_probe *probe; /* borrowed; NULL: none */
    const dt_trace *trace; /* likewise */
    double traced_from;    /* the host's time at stamp 0 */
    dt_probe blame;
    const dti_step *shown;                 /* while the probe looks: what has run */
    dt_dtype shown_type;                   /* and of what type the values are that it is shown */
    char blamed[3 * DT_TENSOR_NAME_BYTES]; /* "": nobody */
    char plain[512];                       /* why some plan is not kept; "" */
    uint64_t delay_seed;
    unsigned char *turned; /* by entry of the map: its two slots have changed places */
    unsigned char *beside; /* likewise: its next generation was written since the last settling */
    double *squares;       /* likewise, of parameters: of the gradient of its last early update */
    bool watched;          /* those are made */
    bool held;             /* updates of parameters are left out of this run */
    size_t n_plan, cap_plan, n_state, cap_state;
    dti_plan *plan;
    struct dti_state *state; /* of bind.c: prepared kernels */
    int32_t *first_state;    /* by node of the graph, then for ops of none: into state; -1 */
};

/* What drives the device of such a runner; NULL: its module is not loaded. */
static inline const dt_driver *dti_runner_driver(const dt_runner_opts *o)
{
    return o->driver != NULL ? o->driver : dt_device_driver(dt_context_device(o->context));
}

/* For tests: in runs with threads every copy and every op is late by a random time of up to 0.15
 * ms, on some threads less than on others; 0: none. */
void dti_runner_set_delay(dt_runner *r, uint64_t seed);

/* state.c: bytes of the arena, when all queues are at rest, and they are when these return. */
dt_status dti_read(dt_runner *r, void *to, uint64_t off, uint64_t bytes, dt_err *err) DT_NODISCARD;
dt_status dti_fill(dt_runner *r, uint64_t off, int byte, uint64_t bytes, dt_err *err) DT_NODISCARD;

/* runner.c: room for bytes on their way to a tier. */
dt_status dti_stage_reserve(dt_runner *r, int stream, uint64_t bytes, dt_err *err) DT_NODISCARD;

/* input.c: room for the largest batch. */
dt_status dti_input_reserve(dt_runner *r, const dti_fetch *f, dt_err *err) DT_NODISCARD;

/* graphs.c: give back what the device keeps of a plan. */
void dti_graphs_forget(dt_runner *r, dti_plan *p);

/* home.c: where a slot of a home is in this run. What generation is the current one, the runner
 * knows: a plan's slots are those of a run in which none has changed, so where they have changed
 * places it is the other one. */
uint64_t dti_home_slot(const dt_runner *r, const dt_home *h, uint64_t slot);

/* home.c: persistent tensors, when all queues are at rest, and they are when these return. Where
 * one lies, in reach of the device; NULL: in a tier that has no map. Whether the processor reaches
 * it there. Some of its bytes, which in a tier without a map are a part as it wants them
 * (engine/tier.h); zeros for all; and all of them, in reach of the device: until the next call for
 * those that are not. */
unsigned char *dti_home_at(const dt_runner *r, const dt_home *h);
bool dti_home_on_host(const dt_runner *r, const dt_home *h);
dt_status dti_home_read(dt_runner *r, const dt_home *h, uint64_t at, void *to, uint64_t bytes,
    dt_err *err) DT_NODISCARD;
dt_status dti_home_write(dt_runner *r, const dt_home *h, uint64_t at, const void *from,
    uint64_t bytes, dt_err *err) DT_NODISCARD;
dt_status dti_home_zero(dt_runner *r, const dt_home *h, dt_err *err) DT_NODISCARD;
dt_status dti_home_bring(
    dt_runner *r, const dt_home *h, unsigned char **at, dt_err *err) DT_NODISCARD;

/* bind.c: make a plan's steps, into a zeroed *to; free them, and kernels' states, of all plans. */
dt_status dti_bind(dt_runner *r, const dt_plan *plan, dti_plan *to, dt_err *err) DT_NODISCARD;
void dti_unbind_plan(dti_plan *p);
void dti_unbind(dt_runner *r);

/* ---- a run under way: what the executor does with a step, for those who take steps by themselves,
 * and what it asks of those who stand beside it ---- */

/* A run of a plan. */
typedef struct dti_run {
    dt_runner *r;
    dti_plan *p;
    const dt_run_args *a;
} dti_run;

/* executor.c: kernels use as many parts of their scratch as the calling thread's team has threads,
 * and how weights lie goes by that, too. @what: "scratch is". DT_E_CONFIG unless it has @team. */
dt_status dti_check_team(const dt_runner *r, int team, const char *what, dt_err *err) DT_NODISCARD;

/* executor.c: before a run, the numbers and the batch come within the device's reach; when it is
 * over, what kernels answered is taken. One step alone, which is done when it returns; a step, put
 * on its queue by a thread, and a wait of one. */
dt_status dti_run_begin(const dti_run *u, dt_err *err) DT_NODISCARD;
dt_status dti_run_end(const dti_run *u, dt_err *err) DT_NODISCARD;
void dti_run_done(const dti_run *u);
dt_status dti_step_alone(const dti_run *u, dti_step *s, int thread, dt_err *err) DT_NODISCARD;
dt_status dti_step_put(const dti_run *u, dti_step *s, int thread, dt_err *err) DT_NODISCARD;
dt_status dti_step_wait(const dti_run *u, const dti_step *s, int thread, dt_err *err) DT_NODISCARD;
/* Bytes that a copy moves: in: as many as were written there. */
uint64_t dti_copy_used(const dti_plan *p, const dti_copy *c);

/* graphs.c: keep a plan, if it can be; run it as kept. */
void dti_graphs_keep(const dti_run *u);
dt_status dti_graphs_run(const dti_run *u, dt_err *err) DT_NODISCARD;

/* input.c: a run's own batch, before its queues begin; its copy to the arena, on a queue; the one
 * that comes next, while queues work, if it may have an id and nothing is wrong with it. DT_E_DATA
 * names the first label that is no class, or token that is none. */
dt_status dti_input_begin(const dti_run *u, dt_err *err) DT_NODISCARD;
dt_status dti_input_fetch(const dti_run *u, const dti_step *s, dt_err *err) DT_NODISCARD;
void dti_input_coming(const dti_run *u);

/* check.c: tell the probe what an op wrote, where all of it is there. */
dt_status dti_show(const dti_run *u, const dti_step *s, dt_err *err) DT_NODISCARD;

/* trace.c: when a run begins; around each step; when it is over, tell them. */
dt_status dti_trace_begin(const dti_run *u, dt_err *err) DT_NODISCARD;
dt_status dti_trace_stamp(const dti_run *u, const dti_step *s, bool end, dt_err *err) DT_NODISCARD;
dt_status dti_trace_tell(const dti_run *u, dt_err *err) DT_NODISCARD;

#endif
