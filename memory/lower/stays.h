/* When tensors whose home is a tier are on the device. Every program fetches them before the ops
 * that need them and, if these have changed them, sends them home. */
#ifndef DT_MEMORY_LOWER_STAYS_H
#define DT_MEMORY_LOWER_STAYS_H

#include "engine/program/program.h"

/**
 * struct dti_stay - a time on the device.
 * @from @last: places of the ops before which it comes, and after which its bytes are given back
 * @use:        place of the first op that needs it
 * @home:       place of the op after which it is copied home; -1: none has changed it
 * @fetch:      it is copied in; otherwise the first op writes all of it
 */
typedef struct dti_stay {
    int32_t tensor, from, use, last, home;
    bool fetch;
} dti_stay;

typedef struct dti_stays {
    size_t n;
    dti_stay *stay; /* by tensor, then by place */
} dti_stays;

/* All stays of a program, whose index is fresh. Ops of one layer that stand together share a stay.
 * @ahead: by tier, see dt_lower_opts; 0: each stay is as short as can be. Free with
 * dti_stays_deinit, even after a failure. */
dt_status dti_stays_find(
    dti_stays *to, const dt_program *p, const uint64_t *ahead, dt_err *err) DT_NODISCARD;
void dti_stays_deinit(dti_stays *s); /* a zeroed one is fine */

#endif
