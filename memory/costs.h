/* What a machine takes for what a plan does: seconds of its ops, and how fast bytes move and are
 * packed. Policies, ladders and suggestions compare by it; a plan never reads a clock. */
#ifndef DT_MEMORY_COSTS_H
#define DT_MEMORY_COSTS_H

#include "engine/map.h"
#include "engine/tier.h"

typedef enum dt_direction { DT_TO_TIER, DT_FROM_TIER, DT_TIER_DIRECTIONS } dt_direction;

/* An op as it was measured, by the name that it has in programs. */
typedef struct dt_op_cost {
    char name[DT_TENSOR_NAME_BYTES];
    double seconds;
} dt_op_cost;

/**
 * struct dt_costs - a machine.
 * @n_op @op: ops that were measured; all others take their flops at @flops a second
 * @slower:   what an op loses by an algorithm that the workspace limits, as a share of its time
 * @tier:     bytes a second, by tier and direction
 * @codec:    bytes a second that are packed, or unpacked
 */
typedef struct dt_costs {
    size_t n_op;
    const dt_op_cost *op;
    double flops, slower;
    double tier[DT_TIERS][DT_TIER_DIRECTIONS];
    double codec;
} dt_costs;

/* Where nothing was measured: 200 GFLOP/s, half as long again by the algorithms of fewest bytes,
 * 8 GB/s to the host, 1.6 to a disk, and 5 through a codec. Good for an order, not for seconds. */
extern const dt_costs dt_costs_default;

/* Seconds of an op; below 0: it was not measured. */
double dti_costs_op(const dt_costs *c, const char *name);

#endif
