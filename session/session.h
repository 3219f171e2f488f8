/* What every subcommand that looks at a network does first: read the configuration, build the
 * graph, and make plans for it. */
#ifndef DT_SESSION_SESSION_H
#define DT_SESSION_SESSION_H

#include "engine/base/cpu.h"
#include "engine/base/sha256.h"
#include "engine/context.h"
#include "engine/config/run_options.h"
#include "engine/train.h"
#include "memory/accounts/account.h"
#include "memory/policies/layer_fates.h"
#include "memory/policy.h"
#include "models/model.h"
#include "session/plan_set.h"

/**
 * struct dt_session - a configuration and the network it describes. Nothing changes once it is
 * open but @plans, @card, @notice, @searching and @patience.
 * @opts:      as the configuration says them
 * @policies:  of memory.policy, one of which may be a ladder
 * @fates:     of [memory.layers], before all policies
 * @densities: of memory.profile
 * @kept:      what searches have found for its programs
 * @costs:     of memory.profile or memory.simulate, calibrated; the default ones otherwise
 * @context:   its device, and the card of device.card: plans are for that one, and none is run
 * @card:      facts of the device, as dt_session_meet found it; 0 bytes: not asked yet
 * @threads:   of the team; plans hold for this number
 * @host @inside: what the calling thread had set before, and calls of dt_session_enter not yet
 * left
 * @notice:    told that planning takes long, or does without what was kept; NULL: nobody
 * @searching: told, once a program, of a search that takes more than @patience seconds; NULL:
 * nobody
 * @note:      what is to be said of the configuration besides, a line; "": nothing
 * @of_run:    folder of the run that wrote the configuration; NULL: none did
 * @given:     plans that a file gave, to be taken; none: they are made
 * @given_by:  that file
 * @plans:     those of the run that the configuration describes; NULL before the first of them
 */
typedef struct dt_session {
    dt_config *config;
    dt_run_options opts;
    dt_policies policies;
    dt_layer_fates fates;
    dt_densities densities;
    dt_costs costs;
    struct dt_kept *kept;
    const dt_graph *graph;
    dt_context context;
    dt_driver_facts card;
    int threads, inside;
    dt_cpu_host host;
    void (*notice)(const char *line), (*searching)(const char *line);
    double patience;
    char note[512];
    char *of_run;
    dt_plans given;
    char *given_by;
    dt_plan_set *plans;
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

/* The same for a command that plans other policies than memory.policy says: @lists, of which each
 * is written as that key is. Their sections [policy.NAME] count, too, and must hold what they may.
 */
dt_status dti_session_open_for(dt_session **out, const char *path, const char *const *sets,
    size_t n_sets, const char *const *lists, size_t n_lists, dt_err *err) DT_NODISCARD;

/* A sum of all that results depend on, as far as the configuration tells: where two have the same,
 * exact plans of both train the same bits on one machine. DT_E_NOMEM. */
dt_status dti_session_results(
    const dt_session *s, char to[DT_SHA256_TEXT], dt_err *err) DT_NODISCARD;

/* A session that opens leaves the calling thread with as many OpenMP threads as it is for, and with
 * denormals flushed, until it is closed. Whoever has several leaves each, and enters it for what
 * plans, runs or saves: the thread's settings are between the two. Pairs may be nested. */
void dt_session_enter(dt_session *s);
void dt_session_leave(dt_session *s);

/* What the configuration asks for, to be planned as it is or with changes. */
dt_plan_request dt_session_request(const dt_session *s);
/* What memory.account is to count, of a step of @batch samples. */
dt_account_ask dt_session_account_ask(const dt_session *s, int64_t batch);
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

/* The value of a key names no @kind, of which there are @n: DT_E_CONFIG with the nearest and all of
 * them. */
dt_status dti_session_unknown(const dt_session *s, const char *section, const char *key,
    const char *kind, size_t n, const char *(*name)(size_t i), dt_err *err) DT_NODISCARD;

/* Plans of the run, made once each: see dt_plan_set_add and dt_plan_set_run. */
dt_status dti_session_plan(dt_session *s, dt_program_kind kind, int64_t n, const dt_planned **out,
    dt_err *err) DT_NODISCARD;
dt_status dt_session_plan_run(
    dt_session *s, bool eval, int64_t last, int64_t eval_last, dt_err *err) DT_NODISCARD;
void dti_session_forget(dt_session *s); /* those plans */

/* Take the plans of a file from here on, and make none; before the first plan. */
dt_status dti_session_take_plans(dt_session *s, const char *path, dt_err *err) DT_NODISCARD;

/* DT_E_BUDGET when the peak of a tier exceeds its budget: which, the largest tensors there, the
 * least that was found to be possible, and configurations that would fit. */
dt_status dt_session_check_budget(const dt_session *s, dt_err *err) DT_NODISCARD;

#endif
