/* What a runner keeps: memory of the device and of the tiers, queues and threads, plans; and what
 * its files do with that. */
#ifndef DT_ENGINE_RUNNER_RUNNER_INTERNAL_H
#define DT_ENGINE_RUNNER_RUNNER_INTERNAL_H

#include "engine/runner/runner.h"
#include "engine/runner/streams.h"

struct dti_fetch;
struct dti_plan;
struct dti_step;

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
    const struct dti_step *shown;          /* while the probe looks: what has run */
    dt_dtype shown_type;                   /* and of what type the values are that it is shown */
    char blamed[3 * DT_TENSOR_NAME_BYTES]; /* "": nobody */
    char plain[512];                       /* why some plan is not kept; "" */
    uint64_t delay_seed;
    int overflow;
    unsigned char *turned; /* by entry of the map: its two slots have changed places */
    unsigned char *beside; /* likewise: its next generation was written since the last settling */
    double *squares;       /* likewise, of parameters: of the gradient of its last early update */
    bool watched;          /* those are made */
    bool held;             /* updates of parameters are left out of this run */
    size_t n_plan, cap_plan, n_state, cap_state;
    struct dti_plan *plan;
    struct dti_state *state; /* of bind.c: prepared kernels */
    int32_t *first_state;    /* by node of the graph, then for ops of none: into state; -1 */
};

/* state.c: bytes of the arena, when all queues are at rest, and they are when these return. */
dt_status dti_read(dt_runner *r, void *to, uint64_t off, uint64_t bytes, dt_err *err);
dt_status dti_fill(dt_runner *r, uint64_t off, int byte, uint64_t bytes, dt_err *err);

/* runner.c: room for bytes on their way to a tier. */
dt_status dti_stage_reserve(dt_runner *r, int stream, uint64_t bytes, dt_err *err);

/* input.c: room for the largest batch. */
dt_status dti_input_reserve(dt_runner *r, const struct dti_fetch *f, dt_err *err);

/* graphs.c: give back what the device keeps of a plan. */
void dti_graphs_forget(dt_runner *r, struct dti_plan *p);

/* home.c: persistent tensors, when all queues are at rest, and they are when these return. Where
 * one lies, in reach of the device; NULL: in a tier that has no map. Whether the processor reaches
 * it there. Some of its bytes, which in a tier without a map are a part as it wants them
 * (engine/tier.h); zeros for all; and all of them, in reach of the device: until the next call for
 * those that are not. */
uint64_t dti_home_slot(const dt_runner *r, const dt_home *h); /* of its tier */
unsigned char *dti_home_at(const dt_runner *r, const dt_home *h);
bool dti_home_on_host(const dt_runner *r, const dt_home *h);
dt_status dti_home_read(
    dt_runner *r, const dt_home *h, uint64_t at, void *to, uint64_t bytes, dt_err *err);
dt_status dti_home_write(
    dt_runner *r, const dt_home *h, uint64_t at, const void *from, uint64_t bytes, dt_err *err);
dt_status dti_home_zero(dt_runner *r, const dt_home *h, dt_err *err);
dt_status dti_home_bring(dt_runner *r, const dt_home *h, unsigned char **at, dt_err *err);

#endif
