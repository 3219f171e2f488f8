/* What `dnntrain sweep` finds for each policy, and what it does with that. */
#ifndef DT_TOOLS_SWEEP_H
#define DT_TOOLS_SWEEP_H

#include "tools/args.h"
#include "session/plan_set.h"
#include "session/session.h"
#include "tools/policy_lists.h"

typedef enum dti_sweep_check {
    DTI_SWEEP_UNCHECKED,
    DTI_SWEEP_HOLDS,
    DTI_SWEEP_BROKEN
} dti_sweep_check;

/**
 * struct dti_sweep_row - a policy and its largest batch.
 * @policy:   its name, or a list of names; borrowed
 * @batch:    the largest that fits; 0: not even one sample does
 * @capped:   larger ones were not tried
 * @peak:     of that batch; of one sample when none fits
 * @beyond:   a run of it takes more memory than this machine has, in its own part of it or on the
 *            host beside a card; @memory: that
 * @exact:    with the fates of [memory.layers]
 * @host_peak @disk_peak: of the tiers
 * @out_bytes @in_bytes: moved in a step, packed values as large as their room
 * @traffic: moved in a step, as expected
 * @recompute: flops of recomputes as a share of forward's and backward's
 * @step @rate: seconds of a step and samples a second, as predicted; 0 where no costs are known
 * @measured: peak of the run that checked it; 0 unless @check is DTI_SWEEP_HOLDS or it ran
 */
typedef struct dti_sweep_row {
    const char *policy;
    bool exact, capped, beyond;
    int64_t batch;
    uint64_t peak, host_peak, disk_peak, out_bytes, in_bytes, memory, measured;
    dt_traffic traffic;
    double recompute, step, rate;
    dti_sweep_check check;
} dti_sweep_row;

typedef struct dti_sweep {
    const dt_session *session; /* borrowed */
    dti_policy_lists lists;
    size_t n;
    dti_sweep_row *row; /* in the order of the lists; keep_all is the first */
} dti_sweep;

/* Batch sizes are tried up to this one. */
enum { DTI_SWEEP_MOST = 65536 };

/* The largest batch under keep_all, which the others are compared with. */
int64_t dti_sweep_baseline(const dti_sweep *w);
/* Where a row is no better than what costs less: "saves nothing here: its batch is no larger than
 * keep_all's", "is worse here than vdnn_all alone, whose batch is 9"; "" elsewhere. Returns @to. */
enum { DTI_SWEEP_REMARK = 128 };
const char *dti_sweep_remark(const dti_sweep *w, const dti_sweep_row *r, char to[DTI_SWEEP_REMARK]);
void dti_sweep_table(const dti_sweep *w);
/* A list of an object each. */
dt_status dti_sweep_json(const dti_sweep *w, dt_err *err) DT_NODISCARD;
dt_status dti_sweep_html(const void *sweep, FILE *f, dt_err *err) DT_NODISCARD; /* a page */
dt_status dti_sweep_csv(const dti_sweep *w, const char *path, dt_err *err) DT_NODISCARD;

/* Train two steps at each largest batch in a process of its own, compare what was planned with what
 * it measured, and see that the next size is refused. Prints a line a policy, and sets check and
 * measured. Goes on after a failure; the status is that of the first. @cli: what this program was
 * given. */
dt_status dti_sweep_verify(dti_sweep *w, const dti_cli *cli, dt_err *err) DT_NODISCARD;

#endif
