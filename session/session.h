/* A configuration and the network it describes: what every module here starts from. */
#ifndef DT_SESSION_SESSION_H
#define DT_SESSION_SESSION_H

#include "engine/base/cpu.h"
#include "engine/context.h"
#include "engine/config/run_options.h"
#include "engine/train.h"
#include "memory/accounts/account.h"
#include "memory/plan_text/plan_text.h"
#include "memory/policies/layer_fates.h"
#include "memory/policy.h"
#include "memory/time/simulate.h"

struct dt_plan_set;

/**
 * struct dt_plan_request - what is asked for; pointers are borrowed for as long as the set lives.
 * @batch @micro_batch: samples of a step, and of what is taken at once
 * @policies:   one of them may be a ladder
 * @fates:      of [memory.layers], before all policies; NULL: none
 * @algorithms: how each op's algorithm is chosen; a ladder chooses itself
 * @tier:       dt_tier_choice, where moved tensors wait
 * @budgets:    of the run; a ladder needs one of the device
 * @costs:      of the machine, by which policies plan; NULL: the default ones
 * @given:      plans to be taken, and none is made; NULL: none
 * @given_by:   the file that they are of
 * @kept:       what programs would take with all kept is noted as they are made, for
 *              dt_plan_set_saving
 * @quick:      algorithms = fit is planned as small, which needs no less: to see what fits
 * @hasty:      policies that search look at little, for the same purpose
 * @late:       nothing comes ahead of the op that needs it, whatever memory.ahead says
 */
typedef struct dt_plan_request {
    int64_t batch, micro_batch;
    const dt_policies *policies;
    const dt_layer_fates *fates;
    dt_algorithm_choice algorithms;
    int tier;
    dt_budgets budgets;
    const dt_costs *costs;
    const dt_plans *given;
    const char *given_by;
    bool kept, quick, hasty, late;
} dt_plan_request;

/**
 * struct dt_session - a configuration and the network it describes. Once it is open nothing changes
 * but @plans and what they are taken from, @given and @given_by; @card; @host, @meant and @inside;
 * @notice,
 * @searching and @patience; and, where steps are planned anew, @costs and @densities, by what they
 * took.
 * @opts:      as the configuration says them
 * @micro_batch: samples taken at once: train.micro_batch, or, where that says nothing, what the
 * rule of a policy chose (session/parts.h)
 * @parts_by:  that policy, where it takes a batch in parts; NULL: none does
 * @policies:  of memory.policy, one of which may be a ladder
 * @fates:     of [memory.layers], before all policies
 * @densities: of memory.profile
 * @kept:      what searches have found for its programs
 * @costs:     of memory.profile or memory.simulate, calibrated; the default ones otherwise.
 * Requests and sets of plans borrow them
 * @context:   its device, and the card of device.card: plans are for that one, and none is run
 * @card:      facts of the device, as dt_session_meet found it; 0 bytes: not asked yet
 * @threads:   of the team; plans hold for this number
 * @host @meant @inside: what the calling thread had set before, of OpenMP's team and of which card
 * it means, and calls of dti_session_enter not yet left
 * @notice:    told that planning takes long, or does without what was kept; NULL: nobody
 * @searching: told, once a search, of one for a program that takes more than @patience seconds;
 * NULL: nobody
 * @note:      what is to be said of the configuration besides, a line each (dti_session_note); "":
 * nothing
 * @of_run:    folder of the run that wrote the configuration; NULL: none did
 * @own_vocab: the vocabulary in that folder, where it stands for the one that the configuration
 * names; NULL: it does not
 * @given:     plans that a file gave, to be taken; none: they are made
 * @given_by:  that file
 * @plans:     those of the run that the configuration describes; NULL before the first of them
 */
typedef struct dt_session {
    dt_config *config;
    dt_run_options opts;
    int64_t micro_batch;
    const char *parts_by;
    dt_policies policies;
    dt_layer_fates fates;
    dt_densities densities;
    dt_costs costs;
    struct dt_kept *kept;
    dt_graph *graph;
    dt_context context;
    dt_driver_facts card;
    int threads, inside;
    dt_cpu_host host;
    int meant;
    void (*notice)(const char *line), (*searching)(const char *line);
    double patience;
    char note[4096];
    char *of_run, *own_vocab;
    dt_plans given;
    char *given_by;
    struct dt_plan_set *plans;
} dt_session;

/* A session that opens leaves the calling thread with as many OpenMP threads as it is for, and with
 * denormals flushed, until it is closed. Whoever has several leaves each, and enters it for what
 * plans, runs or saves: the thread's settings are between the two. Pairs may be nested. */
void dti_session_enter(dt_session *s);
void dti_session_leave(dt_session *s);

/* What the configuration asks for, to be planned as it is or with changes. */
dt_plan_request dt_session_request(const dt_session *s);
/* What memory.account is to count, of a step of @batch samples. */
dt_account_ask dt_session_account_ask(const dt_session *s, int64_t batch);
/* Before a run: DT_E_DEVICE when the device does not answer, which planning does not ask;
 * DT_E_CONFIG when plans are for a card that is elsewhere. */
dt_status dt_session_meet(dt_session *s, dt_err *err) DT_NODISCARD;
/* Whether the host's memory is the device's, as the processor computes and no card is simulated:
 * then what moves there makes no process smaller. */
bool dt_session_host_is_device(const dt_session *s);
/* Whether the host is not to be used for that reason: values move to the disk, and nothing is said
 * of how much the host may take. */
bool dti_session_spares_host(const dt_session *s);
/* DT_E_CONFIG where @card, of device.card, has less than the budget that @what asks for. */
dt_status dti_check_card_budget(
    const dt_card *card, uint64_t budget, const char *what, dt_err *err) DT_NODISCARD;
/* What is to be said of a plan that takes so many bytes of the host: that they make no process
 * smaller, where it is the device's memory; NULL: nothing. */
const char *dt_session_host_note(const dt_session *s, uint64_t bytes);
/* What is to be said of plans for a card where none is named and none answers, whose libraries
 * nobody can ask then: that their scratch is missing; NULL: nothing. */
const char *dt_session_no_card(const dt_session *s);
/* What results depend on: the card by name and versions, or the processor's instruction set. */
const char *dt_session_isa(const dt_session *s);
const char *dt_session_precision(const dt_session *s); /* "fp32", "tf32" or "bf16" */

/* One more line of @note. What that has no room for is left out. */
void dti_session_note(dt_session *s, const char *fmt, ...) DT_PRINTF(2, 3);

/* "FILE:LINE: [SECTION] KEY = VALUE", for a last note on what the configuration asked for. Returns
 * @to, which holds DT_ASKED bytes. */
enum { DT_ASKED = 1024 };
const char *dt_session_asked(
    char to[DT_ASKED], const dt_session *s, const char *section, const char *key);

/* The value of a key is none of @names (NULL-terminated), each of which names a @kind: DT_E_CONFIG
 * with the nearest and all of them. */
dt_status dti_session_unknown(const dt_session *s, const char *section, const char *key,
    const char *kind, const char *const *names, dt_err *err) DT_NODISCARD;

/* Whether a key is given that the run has no use for, as the key @of of that section has another
 * value: typed, or in the file that names that value. Where that is typed the file may hold keys
 * for several, and what is so unless it is given may be there because a run wrote it. */
bool dti_session_idle(const dt_session *s, const char *section, const char *key, const char *of);

/* How this session's device runs plans. */
dt_simulate_opts dti_session_simulate_opts(const dt_session *s);

/* A verified plan on the clock of the session's costs; release it with dt_timeline_deinit, even
 * after a failure. DT_E_NOMEM. */
dt_status dt_session_simulate(
    const dt_session *s, const dt_plan *p, dt_timeline *out, dt_err *err) DT_NODISCARD;

/* Seconds of a step whose ops take so many when bytes have to leave the device and come back: no
 * step that does is faster, by its links alone. */
double dt_predict_moving(const dt_session *s, double ops, double bytes);

#endif
