/* Plans as values: a request says what is to be planned and under which limits, a plan set holds
 * what came of it. Planning reads a session and changes nothing of it, so any number of requests
 * can be answered for one session, in any order. */
#ifndef DT_SESSION_PLAN_SET_H
#define DT_SESSION_PLAN_SET_H

#include <stdio.h>

#include "engine/plan.h"
#include "session/session.h"

/* A plan, and the program it was made from; NULL of one that was given. @kept: what the plan of the
 * program would take on the device before fates and policies; 0: that was not noted. */
typedef struct dt_planned {
    dt_program_kind kind;
    int64_t n;
    bool dense; /* runs a step again whose packed values did not fit */
    dt_program *program;
    dt_plan *plan;
    uint64_t kept;
} dt_planned;

static inline bool dti_planned_is(const dt_planned *p, dt_program_kind kind, int64_t n, bool dense)
{
    return p->kind == kind && p->n == n && p->dense == dense;
}

/* A rung of a ladder that does not fit, and why. */
typedef struct dt_refused_rung {
    char policy[DT_POLICY_LIST];
    dt_algorithm_choice algorithms;
    char why[DT_REFUSAL_BYTES];
} dt_refused_rung;

/**
 * struct dt_plan_set - the plans of one request.
 * @session:    borrowed
 * @asked:      the request
 * @policies @algorithms: what was taken: those asked for, or of the rung
 * @list:       the policies taken, as a configuration says it
 * @table:      the algorithm of each op
 * @refused:    rungs before the one that was taken, or all of them
 * @map:        the persistent tensors
 * @host_homes: bytes that the host has for those that live there as far as it has room
 * @planned:    plans in the order in which they were first asked for; each stays where it is
 * @spare:      plans that the choice of a rung has made, until they are asked for
 * @made:       how many plans were made for the set, those of the choice included
 */
typedef struct dt_plan_set {
    const dt_session *session;
    dt_plan_request asked;
    const dt_policies *policies;
    dt_algorithm_choice algorithms;
    char list[DT_POLICY_LIST];
    dt_algorithm_table table;
    size_t n_refused;
    dt_refused_rung *refused;
    dt_map *map;
    uint64_t host_homes;
    size_t n, cap, n_spare, made;
    dt_planned **planned, **spare;
    dt_policies rung; /* owned; what @policies points to where one of those asked is a ladder */
} dt_plan_set;

/* DT_E_CONFIG where memory.account asks for a paper's way of counting, which is no plan. */
dt_status dt_session_check_no_account(const dt_session *s, dt_err *err) DT_NODISCARD;

/* Choose policies and algorithms, which may take many plans, and lay out the persistent map.
 * Nothing fails for budgets: of a ladder none of whose rungs fits the last one is taken. NULL in
 * *out after a failure. */
dt_status dt_plan_set_create(
    dt_plan_set **out, const dt_session *s, const dt_plan_request *r, dt_err *err) DT_NODISCARD;
void dt_plan_set_destroy(dt_plan_set *p);

/* The same choice of policies and the same algorithms once more, without plans: for planning by
 * what the session has learned since, with what those plans take as budgets. Borrows from @of,
 * which must outlive it. Not of given plans. DT_E_NOMEM; NULL in *out after a failure. */
dt_status dti_plan_set_again(dt_plan_set **out, const dt_plan_set *of, dt_err *err) DT_NODISCARD;

/* A verified plan. Of those given the one of that kind and size, which must suit the session:
 * DT_E_CONFIG otherwise. Else it is made: build, fates, policies, lower, verify; and, where packed
 * values might not fit, the plan for that case behind it. One of the same kind and size is made
 * once. @n: of an update it does not matter. */
dt_status dt_plan_set_add(dt_plan_set *p, dt_program_kind kind, int64_t n, const dt_planned **out,
    dt_err *err) DT_NODISCARD;

/* A program as the set's policies make it, without its plan; the caller destroys it, after a
 * failure as well. */
dt_status dti_plan_set_program(const dt_plan_set *p, dt_program_kind kind, int64_t n,
    dt_program **out, dt_err *err) DT_NODISCARD;

/* All plans of a run: first, again when a step has several micro-batches, update, and evaluation;
 * @last and @eval_last are the sizes of last partial batches, 0 for none. */
dt_status dti_plan_set_run(
    dt_plan_set *p, bool eval, int64_t last, int64_t eval_last, dt_err *err) DT_NODISCARD;

/* The plan of a kind, size and purpose; NULL: there is none yet. */
const dt_planned *dti_plan_set_find(
    const dt_plan_set *p, dt_program_kind kind, int64_t n, bool dense);

uint64_t dt_plan_set_peak(const dt_plan_set *p); /* largest of all plans */
uint64_t dt_plan_set_tier_peak(const dt_plan_set *p, dt_tier tier);
const dt_plan *dti_plan_set_largest(const dt_plan_set *p); /* NULL: there is no plan yet */
/* All of a dt_plan_set as text, to be given again; what whole files are printed by. DT_OK. */
dt_status dt_plan_set_print(const void *set, FILE *f, dt_err *err) DT_NODISCARD;
bool dt_plan_set_exact(const dt_plan_set *p); /* no bit changes for memory's sake */

/**
 * struct dt_floor - below what no plan fits (memory/least_room.h).
 * @bytes:   of the device; 0: the set has no plan whose program it knows
 * @samples: at once, of the plan that needs them
 * @op:      of its program, which needs them
 */
typedef struct dt_floor {
    uint64_t bytes;
    int64_t samples;
    char op[DT_TENSOR_NAME_BYTES];
} dt_floor;
dt_floor dti_plan_set_floor(const dt_plan_set *p);
/* The least share of its bytes that a value has where plans pack it, by the policy's own option or
 * by what was counted; 1: none is packed. */
double dti_plan_set_least_share(const dt_plan_set *p);
/* Adds a line to @err where a budget of the device is below it. Returns whether it is. */
bool dt_floor_tell(const dt_floor *f, uint64_t budget, dt_err *err);

/* How often a step runs a plan; 0: it is of a partial batch, of evaluation, or of a step run again.
 */
int64_t dti_plan_set_times(const dt_plan_set *p, const dt_planned *x);

/* What saving memory costs a step, all its micro-batches together. Steps run again because packed
 * values did not fit are not counted. The peaks are those of its plans alone. */
dt_score dt_plan_set_score(const dt_plan_set *p);

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
 * @by_default: of each tier, copies that go by a default because the costs have no such link
 */
typedef struct dt_prediction {
    bool known, by_default[DT_TIERS];
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

/* The same by other costs. */
dt_status dti_plan_set_predict_by(
    const dt_plan_set *p, const dt_costs *c, dt_prediction *out, dt_err *err) DT_NODISCARD;

/* What no plan of the set's step takes less than within @budget bytes of the device, whatever exact
 * policy makes it, by the algorithms that were asked for (memory/step_bound.h), of what lives where
 * the set's does, and of values that pack no better than in its plans or as was counted; 0: any
 * budget. Of DT_ALGORITHMS_FIT the lower of what the fastest give and those of fewest bytes: where
 * each are faster for some ops, a plan that mixes them may be below. DT_E_NOMEM. */
dt_status dt_plan_set_bound(
    const dt_plan_set *p, uint64_t budget, double *seconds, dt_err *err) DT_NODISCARD;

/**
 * struct dt_saving - what the policies of a set and the fates of [memory.layers] save.
 * @kept: device peak with all kept of the same programs and samples, or of whole batches where a
 * policy chose to take them in parts
 * @none: the set's own is no less, so that what it costs is in vain
 * @text: says so, with what it costs; or that of several policies one alone, with the fates, takes
 *        less, or as much for no more cost (where costs are known, that is the predicted step);
 * else ""
 */
typedef struct dt_saving {
    uint64_t kept;
    bool none;
    char text[512];
} dt_saving;

/* Plans all of it again, under keep_all, and a list of up to four by each of its policies. Of a set
 * that keeps all nothing is planned or said. */
dt_status dt_plan_set_saving(const dt_plan_set *p, dt_saving *out, dt_err *err) DT_NODISCARD;

/* "it leaves values below 2.00 MiB alone, policy.capuchin.least, and the largest takes 512 KiB": of
 * one policy alone, for which all values are too small; else "". Returns @to. */
enum { DT_TOO_SMALL_TEXT = 160 };
const char *dti_plan_set_too_small(char to[DT_TOO_SMALL_TEXT], const dt_plan_set *p);

/* "takes 1.21 MiB (1,268,736 bytes) more than policy.autotm.budget": what a policy with a budget of
 * its own did not keep to, the first of several; "" where all did. Steps run again because packed
 * values did not fit are not counted. Returns @to. */
enum { DT_ABOVE_TEXT = 160 };
const char *dt_plan_set_above(char to[DT_ABOVE_TEXT], const dt_plan_set *p);

/* DT_E_CONFIG when a planned micro-batch is so small that a layer would normalise a single value,
 * which gives 0 for every picture: names the layer and what to change. */
dt_status dti_plan_set_check_statistics(const dt_plan_set *p, dt_err *err) DT_NODISCARD;

/* DT_E_CONFIG when train.update = early, or updates that policies delay, cannot be with the parts,
 * the homes or the device of a set, or a step by its plans may have to be run again, as packed
 * values may not fit, when updates are made: says what to change. Planned or not. */
dt_status dti_plan_set_check_updates(const dt_plan_set *p, dt_err *err) DT_NODISCARD;

/* Peaks of a run, and what it takes of the machine's memory besides arena and host tier: batches
 * decoded ahead, and weights while they are read and saved. */
typedef struct dt_need {
    uint64_t device, tier[DT_TIERS], batches, weights;
} dt_need;

/* What there is; UINT64_MAX: no limit. @memory is for all but the disk together, and but the device
 * where that has memory of its own (@apart). */
typedef struct dt_available {
    uint64_t device, tier[DT_TIERS], memory;
    bool apart;
} dt_available;

dt_need dt_plan_set_need(const dt_plan_set *p);
dt_available dt_plan_set_available(const dt_plan_set *p); /* the budgets; of memory any amount */
bool dt_need_fits(const dt_need *n, const dt_available *a);
/* What the device may take beside the rest of @n; UINT64_MAX: no limit. */
uint64_t dti_need_room(const dt_need *n, const dt_available *a);

/* Batches in memory: those decoded ahead and the one in use, for training and for evaluation, and
 * one to try out the plans with. */
uint64_t dti_batches_held(const dt_session *s);

/* The policies that were taken for the run's plans: those asked for, or with a ladder its rung. */
static inline const char *dt_session_policy(const dt_session *s)
{
    return s->plans != NULL ? s->plans->list : s->opts.memory.policy;
}
/* The list that a ladder in it has chosen from; NULL: none of the policies is one. */
static inline const char *dt_session_chosen_by(const dt_session *s)
{
    return dt_policies_ladder(&s->policies) != NULL ? s->opts.memory.policy : NULL;
}

#endif
