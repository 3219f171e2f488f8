/* Published numbers, and how ours are made. */
#ifndef DT_TOOLS_REPRODUCE_H
#define DT_TOOLS_REPRODUCE_H

#include "engine/base/error.h"

/* What a number was read from. */
typedef enum dt_published_kind {
    DT_STATED, /* stated bytes and formulas */
    DT_FIGURE, /* bytes read from a figure */
    DT_TIME,   /* times of another implementation, */
    DT_BATCH,  /* its batches, */
    DT_MEMORY  /* and its memory */
} dt_published_kind;

typedef enum dt_quantity {
    DT_DEVICE_MIB,
    DT_STATELESS_MIB, /* without the optimizer's state */
    DT_WEIGHTS_MIB,   /* without that and the gradients of parameters */
    DT_FEATURES_MIB,  /* without that, and of parameters only convolutions' with their gradients */
    DT_TRANSIENT_MIB, /* without what outlives a step */
    DT_TRANSIENT_GIB,
    DT_HOST_GIB,
    DT_MOVED_MIB,   /* out of the device, a step */
    DT_TRAFFIC_GB,  /* out and back, in 10^9 bytes */
    DT_AVERAGE_MIB, /* in use, weighted by time, without what outlives a step */
    DT_SECONDS,     /* of a step, simulated */
    DT_RATE,        /* samples a second, simulated */
    DT_LARGEST_BATCH,
    DT_SUPERNEURONS_TENSORS, /* in that paper's own count (memory/accounts/superneurons.h) */
    DT_SUPERNEURONS_BASELINE,
    DT_SUPERNEURONS_LIVENESS,
    DT_SUPERNEURONS_OFFLOADED,
    DT_SUPERNEURONS_SPEED,
    DT_SUPERNEURONS_MEMORY,
    DT_SUPERNEURONS_SPEED_RUNS,
    DT_SUPERNEURONS_MEMORY_RUNS,
    DT_SUPERNEURONS_AWARE,
    DT_SUPERNEURONS_AWARE_RUNS
} dt_quantity;

typedef enum dt_published_form { DT_PLAIN, DT_RATIO, DT_LESS, DT_MORE } dt_published_form;
typedef enum dt_better { DT_NEITHER, DT_HIGHER, DT_LOWER } dt_better;

/* See tools/published.def. */
typedef struct dt_published {
    const char *paper, *row;
    dt_published_kind kind;
    double published;
    dt_quantity quantity;
    dt_published_form form;
    dt_better better;
    const char *networks, *own, *base, *assumed;
} dt_published;

/* Our number for a row, by plans and the simulator; nothing is run. DT_E_CONFIG when a network or a
 * setting is unknown, and what planning may fail with. */
dt_status dti_reproduce_measure(const dt_published *p, double *ours, dt_err *err) DT_NODISCARD;

#endif
