/* The largest batch of a policy. */
#ifndef DT_SESSION_SWEEP_H
#define DT_SESSION_SWEEP_H

#include "session/plan_set.h"

enum { DT_SWEEP_REFUSED = 512 };
typedef enum dt_sweep_check { DT_SWEEP_UNCHECKED, DT_SWEEP_HOLDS, DT_SWEEP_BROKEN } dt_sweep_check;

/**
 * struct dt_sweep_row - a policy and its largest batch.
 * @policy:   its name, or a list of names; borrowed
 * @unasked:  nobody named it: where planning refuses the configuration, so does the row, which has
 *            no plans then
 * @batch:    the largest that fits; 0: not even one sample does, or a run of it is refused
 * @refused:  why a run of it is, whatever its batch; "": none is
 * @capped:   larger ones were not tried
 * @peak:     of that batch; of one sample when none fits
 * @floor:    of that batch
 * @beyond:   a run of it takes more memory than this machine has, in its own part of it or on the
 *            host beside a card; @memory: that
 * @exact:    with the fates of [memory.layers]
 * @host_peak @disk_peak: of the tiers
 * @out_bytes @in_bytes: moved in a step, packed values as large as their room
 * @traffic: moved in a step, as expected
 * @recompute: flops of recomputes as a share of forward's and backward's
 * @step @rate: seconds of a step and samples a second, as predicted; 0 where no costs are known
 * @too_small: why it leaves all values alone, where they are too small for it; else ""
 * @measured: peak of the run that checked it; 0 unless @check is DT_SWEEP_HOLDS or it ran
 */
typedef struct dt_sweep_row {
    const char *policy;
    bool unasked, exact, capped, beyond;
    int64_t batch;
    uint64_t peak, host_peak, disk_peak, out_bytes, in_bytes, memory, measured;
    dt_traffic traffic;
    dt_floor floor;
    double recompute, step, rate;
    dt_sweep_check check;
    char refused[DT_SWEEP_REFUSED], too_small[DT_TOO_SMALL_TEXT];
} dt_sweep_row;

/* Batch sizes are tried up to this one. */
enum { DTI_SWEEP_MOST = 65536 };

/* Fill the row of its policy: @batch, by doubling and bisection, and what plans of that say. Of the
 * session's configuration with its budgets, taken at once; planned with an evaluation. What
 * planning fails with. */
dt_status dt_sweep_policy(const dt_session *s, dt_sweep_row *row, dt_err *err) DT_NODISCARD;
/* The same batch by the session's own policies, tried from @first on, and planned without. */
dt_status dti_largest_batch(
    const dt_session *s, int64_t first, int64_t *largest, dt_err *err) DT_NODISCARD;

#endif
