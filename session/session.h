/* What every subcommand that looks at a network does first: read the configuration, build the
 * graph, and make plans for it. */
#ifndef DT_SESSION_SESSION_H
#define DT_SESSION_SESSION_H

#include "engine/card.h"
#include "engine/config/run_options.h"
#include "engine/train.h"
#include "memory/policies/layers.h"
#include "memory/policy.h"
#include "models/model.h"

typedef struct dt_planned {
    dt_program_kind kind;
    int64_t n;
    bool dense; /* runs a step again whose packed values did not fit */
    dt_program *program;
    dt_plan *plan;
} dt_planned;

typedef struct dt_session {
    dt_config *config;
    dt_run_options opts;
    dt_policies policies;
    const char *ladder; /* the policies asked for, if one is a ladder: then opts.memory.policy and
                           algorithms are those of the rung taken, once a plan was made */
    char rung[512];
    dt_layer_fates fates;   /* of [memory.layers], before all policies */
    dt_densities densities; /* of memory.profile */
    const dt_graph *graph;
    dt_map *map;
    dt_device_kind device;
    const dt_card *elsewhere; /* device.card: plans are for it, and none is run; NULL: not given */
    dt_driver_facts card; /* of the device, as dt_session_meet found it; 0 bytes: not asked yet */
    int threads;          /* of the team; plans hold for this number */
    size_t n_planned, cap_planned;
    dt_planned *planned;
    bool rough; /* algorithms = fit are planned as small, which need no more: to look around */
    void (*notice)(const char *line); /* told that planning takes long; NULL: nobody */
    dt_algorithm_table algorithms;    /* of the plans; n = 0 before the first of them */
} dt_session;

/* Read, bind and check everything: @sets are "--set" assignments. Afterwards s->graph is built. The
 * caller owns *out even on failure, when it may be NULL. */
dt_status dt_session_open(dt_session **out, const char *path, const char *const *sets,
    size_t n_sets, dt_err *err) DT_NODISCARD;
/* The same from text in memory, which messages call @name; relative paths in it count from the
 * current folder. */
dt_status dt_session_open_text(dt_session **out, const char *name, const char *text, size_t bytes,
    const char *const *sets, size_t n_sets, dt_err *err) DT_NODISCARD;
void dt_session_close(dt_session *s);
/* What [memory] policy says; the options are the configuration's. Before plans are made, and with
 * no policies open. */
dt_status dt_session_set_policy(dt_session *s, const char *list, dt_err *err) DT_NODISCARD;
/* The list as it was asked for, which a run is called by. */
static inline const char *dt_session_policy_asked(const dt_session *s)
{
    return s->ladder != NULL ? s->ladder : s->opts.memory.policy;
}

/* Forget the plans, the map and the choice of algorithms, so that others can be made. */
void dt_session_forget(dt_session *s);

/* Before a run: DT_E_DEVICE when the device does not answer, which planning does not ask;
 * DT_E_CONFIG when plans are for a card that is elsewhere. */
dt_status dt_session_meet(dt_session *s, dt_err *err) DT_NODISCARD;
/* What results depend on: the card by name and versions, or the processor's instruction set. */
const char *dt_session_isa(const dt_session *s);
const char *dt_session_precision(const dt_session *s); /* "fp32", "tf32" or "bf16" */

/* "FILE:LINE: [SECTION] KEY = VALUE", for a last note on what the configuration asked for. Returns
 * @to, which holds DT_ASKED bytes. */
enum { DT_ASKED = 1024 };
const char *dt_session_asked(
    char to[DT_ASKED], const dt_session *s, const char *section, const char *key);

/* The value of a key names no @kind of @names: DT_E_CONFIG with the nearest and all of them. */
dt_status dt_session_unknown(const dt_session *s, const char *section, const char *key,
    const char *kind, const char *const *names, dt_err *err) DT_NODISCARD;

/* Lay out the persistent map and make a verified plan: build, policies, lower, verify; and, where
 * packed values might not fit, the plan for that case beside it. The same kind and size is made
 * once. Never fails for budgets. */
dt_status dt_session_plan(dt_session *s, dt_program_kind kind, int64_t n, const dt_planned **out,
    dt_err *err) DT_NODISCARD;

/* All plans of a run: first, again when a step has several micro-batches, update, and evaluation;
 * @last and
 * @eval_last are the sizes of last partial batches, 0 for none. */
dt_status dt_session_plan_run(
    dt_session *s, bool eval, int64_t last, int64_t eval_last, dt_err *err) DT_NODISCARD;

/* DT_E_CONFIG when a planned micro-batch is so small that a layer would normalise a single value,
 * which gives 0 for every picture: names the layer and what to change. */
dt_status dt_session_check_statistics(const dt_session *s, dt_err *err) DT_NODISCARD;

uint64_t dt_session_peak(const dt_session *s); /* largest of all plans made so far */
uint64_t dt_session_tier_peak(const dt_session *s, dt_tier tier);
bool dt_session_exact(
    const dt_session *s); /* no bit of what is trained changes for memory's sake */

/* DT_E_BUDGET when the peak of a tier exceeds its budget: which, the largest tensors there, the
 * least that was found to be possible, and configurations that would fit. */
dt_status dt_session_check_budget(dt_session *s, dt_err *err) DT_NODISCARD;

#endif
