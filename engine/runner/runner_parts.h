/* Inside the runner: plans as it keeps them. */
#ifndef DT_ENGINE_RUNNER_RUNNER_PARTS_H
#define DT_ENGINE_RUNNER_RUNNER_PARTS_H

#include "engine/runner/arena.h"
#include "engine/runner/runner.h"
#include "engine/runner/streams.h"

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
    DTI_WAIT,
    DTI_END
} dti_step_kind;

/* One row that does something. DTI_END is where a tensor's bytes are given up, which only a checked
 * run looks at; a DTI_WAIT is there only when what signals is not in order with it anyway: of
 * another thread, or of another queue of a device that has them. */
typedef struct dti_step {
    struct dt_runner *r;
    dti_step_kind kind;
    int32_t next;  /* step of that thread; -1: none */
    int32_t op;    /* COMPUTE: row of the plan's table; otherwise -1 */
    int32_t event; /* WAIT: waited for; others: signalled when done; -1 */
    int thread;    /* WAIT: of the step that signals */
    bool abroad;   /* others: another thread waits for its event */
    const dt_kernels *kernels;
    dt_call call;
    void *state; /* borrowed from the runner's states */
    dt_args args;
    char *name; /* borrowed from the plan kept here */

    dt_stream stream;

    /* copies */
    unsigned char *device;
    dt_tier tier;
    uint64_t slot, bytes, stored; /* slot of the input tier: 0 the image, 1 the labels */
    const dt_codec *codec;        /* NULL: as they are */
    uint64_t used;                /* COPY_OUT: bytes of the slot that the last run wrote */
    int32_t pair;                 /* COPY_IN: the step that copied them out */

    int32_t first, n; /* into touched */

    /* updates of a device that works on its own */
    struct dti_step *mate; /* the next one of the same launch; NULL: this is the last */
    int together;          /* how many that launch does; 0: one that stands before this does it */
} dti_step;

/* Steps of the calling thread, one after the other, which a device keeps as a whole; they end where
 * another thread is waited for, which is a stretch by itself, or has to be told. */
typedef struct dti_stretch {
    int32_t first, last; /* steps, the last one included */
    bool fetches;        /* so it is kept once for each block of input; else kept[1] is NULL */
    void *kept[2];       /* both NULL: a wait for another thread */
} dti_stretch;

typedef struct dti_plan {
    size_t n_step, n_touched, n_stretch;
    dti_step *step;
    dti_stretch *stretch; /* NULL: not kept yet */
    bool ran;
    int32_t n_event;
    dti_bytes *touched;
    dt_plan_op *op;            /* copies, for names in messages */
    dt_plan_tensor *tensor;    /* likewise */
    int32_t begin[DT_STREAMS]; /* first step by thread; -1: none */
    unsigned threads;          /* those that have steps: bit s for stream s */
    uint64_t peak;
    int64_t n;
    bool again;
} dti_plan;

typedef struct dti_state {
    const dt_layer_desc *desc;
    dt_call call;
    void *state;
} dti_state;

typedef struct dti_tier {
    const dt_tier_desc *desc;
    void *state;
    unsigned char *map; /* NULL: by write and read */
    const char *note;
} dti_tier;

/* Packed bytes on their way to or from a tier that has no map, by stream. */
typedef struct dti_stage {
    void *block;
    unsigned char *base;
    uint64_t bytes;
} dti_stage;

/* What a thread has moved. */
typedef struct dti_moved {
    uint64_t out[DT_TIERS], in[DT_TIERS];
    double seconds;
} dti_moved;

/* What differs from run to run, for the kernels of a device that works on its own, and what they
 * answer. */
typedef struct dti_control {
    dt_now now;
    int overflow;
} dti_control;

/* Pinned memory that batches go through: the image, then the labels. */
typedef struct dti_block {
    unsigned char *base;
    dt_batch holds; /* what was copied there last; id 0: it may be anything */
} dti_block;

/* Such a device. Of the two blocks its queues read one, while the host fills the other. */
typedef struct dti_device {
    void *self;
    dti_control *here, *there; /* pinned; behind the arena */
    dti_block block[2];        /* halves of one reservation */
    int now;                   /* the block of this run, or of the last one that had a batch */
    uint64_t image_bytes, label_bytes; /* room in a block for each */
} dti_device;

/* Room for what one launch of several updates is told; those of a runner come one after another. */
typedef struct dti_many {
    int cap;
    const dt_call **call;
    dt_args *args;
} dti_many;

struct dt_runner {
    dt_runner_opts o;
    dt_arena arena;
    dti_device device;
    dti_many many;
    dti_tier tier[DT_TIERS];
    dti_stage stage[DT_STREAMS];
    dti_moved moved[DT_STREAMS]; /* by thread */
    dt_streams *streams;
    const dt_probe *probe; /* borrowed; NULL: none */
    const dti_step *shown; /* while the probe looks: what has run */
    dt_probe blame;
    char blamed[3 * DT_TENSOR_NAME_BYTES]; /* "": nobody */
    const dt_clock *clock;                 /* likewise */
    int overflow;
    size_t n_plan, cap_plan, n_state, cap_state;
    dti_plan *plan;
    dti_state *state;
};

/* A run of a plan. */
typedef struct dti_run {
    dt_runner *r;
    dti_plan *p;
    const dt_run_args *a;
} dti_run;

/* Execute one step, but for waits and ends; @thread is the one that calls. On a device that works
 * on its own, wait for it. */
dt_status dti_step_run(const dti_run *u, dti_step *s, int thread, dt_err *err);

/* Tell the probe what a step wrote, where all of it is there. */
dt_status dti_step_show(const dti_run *u, const dti_step *s, dt_err *err);

/* Bytes of the arena, wherever it is, when all queues are at rest; and they are when these return.
 */
dt_status dti_read(dt_runner *r, void *to, uint64_t off, uint64_t bytes, dt_err *err);
dt_status dti_write(dt_runner *r, uint64_t off, const void *from, uint64_t bytes, dt_err *err);
dt_status dti_fill(dt_runner *r, uint64_t off, int byte, uint64_t bytes, dt_err *err);
dt_status dti_holds(dt_runner *r, uint64_t off, int byte, uint64_t bytes, bool *yes, dt_err *err);

/* A device that works on its own: reserve what the options say, give all back, bring the numbers
 * and the batch of a run within its reach, put one step on its queues, run a plan. */
dt_status dti_device_open(dt_runner *r, dt_err *err);
void dti_device_close(dt_runner *r);
dt_status dti_device_input(dt_runner *r, uint64_t image, uint64_t labels, dt_err *err);
void dti_device_forget(dt_runner *r, dti_plan *p);
dt_status dti_queue_begin(const dti_run *u, dt_err *err);
dt_status dti_queue_step(const dti_run *u, dti_step *s, int thread, dt_err *err);
dt_status dti_queue_run(dti_run *u, dt_err *err);

/* What a step's kernels are told there, this time. */
dt_args dti_queue_args(const dti_step *s, void *queue);

/* Of such a device: find out which updates of a plan's steps are one launch; that launch, of a step
 * and its mates. */
dt_status dti_gather(dt_runner *r, dti_plan *p, dt_err *err);
dt_status dti_gather_launch(void *step, void *queue, dt_err *err);
void dti_gather_free(dt_runner *r);

/* A batch that goes to such a device, whose kernels can refuse nothing. Before a run's queues
 * begin: its own is in a block afterwards; DT_E_DATA names the first label that is no class, or
 * token that is none, and its sample. While they work: the coming one, if it may have an id and
 * nothing is wrong with it. */
dt_status dti_input_begin(const dti_run *u, dt_err *err);
void dti_input_coming(const dti_run *u);

/* Reserve what the options say, and give it back. */
dt_status dti_tiers_reserve(dt_runner *r, dt_err *err);
void dti_tiers_release(dt_runner *r);
/* Room for packed bytes of a stream. */
dt_status dti_stage_reserve(dt_runner *r, dt_stream stream, uint64_t bytes, dt_err *err);

/* Make a plan's steps, into a zeroed *to. */
dt_status dti_bind(
    dt_runner *r, const dt_program *p, const dt_plan *plan, dti_plan *to, dt_err *err);

#endif
