/* What a step of a run takes, by the simulator. The costs are those of memory.profile or of the
 * card that memory.simulate names, else defaults, by which nothing is predicted in seconds. */
#ifndef DT_SESSION_PREDICT_H
#define DT_SESSION_PREDICT_H

#include "memory/time/cost_file.h"
#include "memory/time/simulate.h"
#include "session/session.h"

/**
 * struct dt_prediction - a step: its micro-batches and the update, one after the other.
 * @known:     the costs are of a machine, and not the defaults
 * @seconds:   of the step
 * @compute:   of its ops alone
 * @stalled:   in which they waited for copies
 * @bound:     below which no order of these rows comes: ops alone, or one stream of copies alone
 * @rate:      samples a second
 * @average:   bytes of the device in use, weighted by time
 * @share:     of the ops' seconds, by dt_cost_source
 */
typedef struct dt_prediction {
    bool known;
    double seconds, compute, stalled, bound, rate, average;
    double share[DT_COST_SOURCES];
} dt_prediction;

/**
 * struct dt_traffic - bytes that a step is expected to move.
 * @out @in:  packed values by the mean share of memory.profile, but no more than their room; by
 *            their room where it knows none
 * @room:     of @out, what packed values may take at most
 * @unknown:  of @room, that of values of which no share is known
 */
typedef struct dt_traffic {
    uint64_t out, in, room, unknown;
} dt_traffic;
dt_traffic dt_plan_set_traffic(const dt_plan_set *p);

/* Of a plan set that has the plans of a training step. DT_E_NOMEM. */
dt_status dt_plan_set_predict(const dt_plan_set *p, dt_prediction *out, dt_err *err) DT_NODISCARD;

/* What no plan of the set's step takes less than within @budget bytes of the device, whatever exact
 * policy makes it, by the algorithms that were asked for (memory/step_bound.h); 0: any budget.
 * DT_E_NOMEM.
 */
dt_status dt_plan_set_bound(
    const dt_plan_set *p, uint64_t budget, double *seconds, dt_err *err) DT_NODISCARD;

/* A verified plan on the clock of the session's costs; release it with dt_timeline_deinit, even
 * after a failure. DT_E_NOMEM. */
dt_status dt_session_simulate(
    const dt_session *s, const dt_plan *p, dt_timeline *out, dt_err *err) DT_NODISCARD;

/* Seconds of a step whose ops take so many when bytes have to leave the device and come back: no
 * step that does is faster, by its links alone. */
double dt_predict_moving(const dt_session *s, double ops, double bytes);

/* How this session's device runs plans. */
dt_simulate_opts dti_session_simulate_opts(const dt_session *s);

/* What numbers measured by this session hold for. */
void dti_session_origin(const dt_session *s, dt_origin *to);

/* Read what the configuration says of costs into s->costs, and scale them by memory.calibrate, for
 * which a step that keeps all is planned; DT_E_CONFIG, DT_E_DATA. A part of
 * dt_session_open. */
dt_status dti_session_read_costs(dt_session *s, dt_err *err) DT_NODISCARD;

#endif
