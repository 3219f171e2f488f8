/* Whether a run fits: what its plans need of each tier, what there is, and what would fit instead.
 * Nothing is allocated for a run to find out. */
#ifndef DT_SESSION_BUDGET_H
#define DT_SESSION_BUDGET_H

#include "engine/base/limits.h"
#include "session/session.h"

/* Peaks of a run, and what it takes of the machine's memory besides arena and host tier: batches
 * decoded ahead, and weights while they are read and saved. */
typedef struct dt_need {
    uint64_t device, host, disk, batches, weights;
} dt_need;

/* What there is; UINT64_MAX: no limit. @memory is for all but the disk together, and but the device
 * where that has memory of its own (@apart). */
typedef struct dt_room {
    uint64_t device, host, disk, memory;
    bool apart;
} dt_room;

dt_need dt_session_need(const dt_session *s);
/* Batches in memory: those decoded ahead and the one in use, for training and for evaluation, and
 * one to try out the plans with. */
uint64_t dt_batches_held(const dt_session *s);
dt_room dt_session_room(const dt_session *s); /* the budgets; of memory any amount */
bool dt_need_fits(const dt_need *n, const dt_room *r);

/**
 * struct dt_cost - what saving memory costs a step, all its micro-batches together.
 * @out @in:  bytes moved; in counts inputs that are fetched
 * @to_disk:  of out
 * @packed:   bytes of the values that are packed
 * @clones @clone_flops: ops that run forward again
 * @flops:    of forward and backward
 * @limited_flops: of all ops whose way memory.algorithms limits
 */
typedef struct dt_cost {
    uint64_t out, in, to_disk, packed;
    int64_t clones;
    double clone_flops, flops, limited_flops;
} dt_cost;

dt_cost dt_session_cost(const dt_session *s);

/* Append to @err the least that was found to be possible and up to three configurations that fit
 * the room, as the lines to set, each with its peaks and its cost, of different kinds if there are.
 * @p: the plan with the highest peak. DT_OK when that is done, whatever was found. */
dt_status dt_suggest(
    const dt_session *s, const dt_room *r, const dt_plan *p, dt_err *err) DT_NODISCARD;

/* Everything that can be known before a run about where its bytes go. In this order: DT_E_CONFIG
 * for a budget beyond what this machine has or allows this process (its memory, control groups,
 * RLIMIT_AS and RLIMIT_DATA; for the disk, the file system of its folder), with the limit and where
 * it comes from; what dt_session_check_budget says; DT_E_BUDGET, with suggestions, when the plans
 * need more memory than that, or more than the device's card has free; DT_E_DEVICE when it
 * does not answer; DT_E_IO when the disk has less free than they need. @loaded: the
 * batches decoded ahead are allocated already. */
dt_status dt_session_check_run(dt_session *s, bool loaded, dt_err *err) DT_NODISCARD;

/**
 * struct dt_here - the plans made so far against this machine, whatever the budgets say.
 * @need @memory: what a run takes of its memory, batches, weights and libraries included, and the
 *                limit that this passes or, where it passes none, the least; UINT64_MAX: none is
 * known
 * @from:         where the limit comes from
 * @fits:         no limit is passed, nor the card's memory where one answered
 * @disk_error:   why the disk tier's file cannot be made in its folder, an errno; 0 where it can,
 * or where nothing is moved to the disk
 */
typedef struct dt_here {
    uint64_t need, memory;
    char from[DT_LIMIT_FROM];
    bool fits;
    int disk_error;
} dt_here;
void dt_session_here(const dt_session *s, dt_here *out);

/* Folder of the disk tier's file. */
const char *dt_session_disk_path(const dt_session *s);

#endif
