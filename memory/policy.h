/* A policy is a pass from program to program. One file each in memory/policies/, ending in a
 * descriptor; memory/policies/policies.def holds a line a policy. */
#ifndef DT_MEMORY_POLICY_H
#define DT_MEMORY_POLICY_H

#include "engine/config/config.h"
#include "engine/config/run_options.h"
#include "memory/density.h"
#include "memory/only_with.h"
#include "memory/pass.h"
#include "memory/score.h"
#include "memory/time/simulate.h"

/* Bytes that a run may take of the device and of each tier; 0: any. */
typedef struct dt_budgets {
    uint64_t device, tier[DT_TIERS];
} dt_budgets;

/**
 * struct dt_pass_env - what a pass knows besides the program.
 * @opts:          of its section [policy.NAME]
 * @budgets: of the run
 * @density: how many values are not zero, as measured; NULL: not known
 * @dense:   plan for the step whose packed values did not fit: nothing may depend on values
 * @hasty:   who searches looks at little, to see what would fit
 * @pool:    that will place the tensors; NULL: greedy
 * @costs:   of the machine; NULL: the default ones
 * @machine: how it runs plans; NULL: with a stream for each direction
 * @lower:   how the run's plans are made; NULL: by pool alone
 * @kept:    what searches have found before; NULL: nothing is kept
 * @score:   how dti_pass_score scores; NULL: by dti_score_program
 * @tries:   told, with @listener, before each plan that a policy tries; NULL: nobody
 */
typedef struct dt_pass_env {
    const void *opts;
    dt_budgets budgets;
    const dt_densities *density;
    bool dense, hasty;
    const dt_pool_desc *pool;
    const dt_costs *costs;
    const dt_simulate_opts *machine;
    const dt_lower_opts *lower;
    struct dt_kept *kept;
    dt_status (*score)(
        const struct dt_pass_env *e, dt_program *p, bool place, dt_score *out, dt_err *err);
    void (*tries)(void *listener);
    void *listener;
} dt_pass_env;

/* What a program comes to, for a pass that tries several: see dti_score_program. @place: by the
 * run's pool; else a bound. */
dt_status dti_pass_score(
    const dt_pass_env *e, dt_program *p, bool place, dt_score *out, dt_err *err) DT_NODISCARD;

/* Bytes of the device as the run's pool places it; or the bound, where that is above @most already
 * and a placement would only be higher. */
dt_status dti_pass_peak_within(
    const dt_pass_env *e, dt_program *p, uint64_t most, uint64_t *bytes, dt_err *err) DT_NODISCARD;

/* The machine's costs, how it runs plans, and how they are made; with what stands for NULL. */
const dt_costs *dti_pass_costs(const dt_pass_env *e);
dt_simulate_opts dti_pass_machine(const dt_pass_env *e);
dt_lower_opts dti_pass_lower_opts(const dt_pass_env *e);
/* The environment for trials that only have to be within a budget: very many tensors that the quick
 * pool places there are left so. @lower: room for its options, which it borrows. */
dt_pass_env dti_pass_within(const dt_pass_env *e, uint64_t budget, dt_lower_opts *lower);
/* Options by the quick pool: for who asks where tensors lie for a hint, or not at all. */
dt_lower_opts dti_pass_lower_quickly(const dt_pass_env *e);

/* Bytes of the device that a policy goes by: those that its own options name, or where they say 0
 * those of the run; 0: any. At most a quarter of what 64 bits count, so that they can be doubled
 * and added to. */
uint64_t dti_pass_budget(const dt_pass_env *e, uint64_t own);

/* What a program comes to when it is lowered and timed: peaks of the device and the tiers, and
 * seconds of a run; and what no placement takes less than of the device, and in seconds: its
 * busiest stream alone. */
typedef struct dti_pass_cost {
    uint64_t device, tier[DT_TIERS];
    double seconds;
    uint64_t bound;
    double alone;
} dti_pass_cost;
dt_status dti_pass_cost_of(
    const dt_pass_env *e, dt_program *p, dti_pass_cost *out, dt_err *err) DT_NODISCARD;
/* The same as the run places it, where another pool stands in for its own (dt_pool_desc.tries). */
dt_status dti_pass_cost_placed(
    const dt_pass_env *e, dt_program *p, dti_pass_cost *out, dt_err *err) DT_NODISCARD;
/* The pool of the run. */
const dt_pool_desc *dti_pass_pool(const dt_pass_env *e);
/* What @p would come to, and take of the device, if @rewrite, which is given @self, changed it: a
 * copy is changed. */
typedef dt_status dti_rewrite_of(void *self, dt_program *copy, dt_err *err);
dt_status dti_pass_cost_if(const dt_pass_env *e, const dt_program *p, dti_rewrite_of *rewrite,
    void *self, dti_pass_cost *out, dt_err *err) DT_NODISCARD;
dt_status dti_pass_peak_if(const dt_pass_env *e, const dt_program *p, dti_rewrite_of *rewrite,
    void *self, uint64_t *peak, dt_err *err) DT_NODISCARD;
/* Whether that is within a budget, which is found faster. */
dt_status dti_pass_fits_if(const dt_pass_env *e, const dt_program *p, dti_rewrite_of *rewrite,
    void *self, uint64_t budget, bool *fits, dt_err *err) DT_NODISCARD;
/* What no placement of that takes less of the device than, which is found faster. */
dt_status dti_pass_bound_if(const dt_pass_env *e, const dt_program *p, dti_rewrite_of *rewrite,
    void *self, uint64_t *bytes, dt_err *err) DT_NODISCARD;
/* Whether the budgets of the tiers hold. */
bool dti_pass_fits(const dt_pass_env *e, const dti_pass_cost *c);
/* Whether the first is to be taken of two, within so many bytes of the device: what fits before
 * what does not; of two that fit the faster, of two that do not that of fewer bytes. Equals are not
 * better. */
bool dti_pass_is_better(const dti_pass_cost *a, const dti_pass_cost *b, uint64_t budget);
/* The same where host and disk must hold as well, and seconds and bytes each decide where the other
 * is equal. */
bool dti_pass_is_better_in_all(
    const dt_pass_env *e, const dti_pass_cost *a, const dti_pass_cost *b, uint64_t budget);
/* Seconds of each op of a program, by its number; 0 of those that have no kernel. */
dt_status dti_pass_op_seconds(
    const dt_pass_env *e, dt_program *p, double *seconds, dt_err *err) DT_NODISCARD;
/* The same, of ops that may be split in whatever pieces take least. */
dt_status dti_pass_least_seconds(
    const dt_pass_env *e, dt_program *p, double *seconds, dt_err *err) DT_NODISCARD;
/* Where values that are offloaded wait: memory.tier, and by default the host. */
dt_tier dti_offload_tier(const dt_pass_env *e);
/* Whether copies to a tier and back, or of the batch, stand between the ops, by the whole team. A
 * disk has streams of its own everywhere. */
bool dti_stands_between(const dt_pass_env *e, dt_tier tier);
/* Seconds of a copy of so many bytes; and of one to the tier where values wait, and back. */
double dti_pass_copy_seconds(const dt_pass_env *e, dt_tier tier, dt_row_kind kind, uint64_t bytes);
double dti_pass_store_seconds(const dt_pass_env *e, uint64_t bytes);
double dti_pass_fetch_seconds(const dt_pass_env *e, uint64_t bytes);

/* The density to make room for: 1 for a dense plan, what was measured of the tensor, or @otherwise.
 */
double dti_pass_density(const dt_pass_env *e, const dt_tensor *t, double otherwise);

/* dti_encode with the room that the tensor's density, or @otherwise, asks for. In a dense plan what
 * would have been packed moves to the host instead: such a step is rare and may take its time, but
 * not more of the device. *packed is DT_NONE then. */
dt_status dti_pass_encode(dt_program *p, const dt_pass_env *e, const dti_gap *g,
    const dt_codec *codec, double otherwise, int32_t *packed, dt_err *err) DT_NODISCARD;

/* What a ladder may come to: other policies, and how the algorithms of ops are chosen. */
typedef struct dt_rung {
    const char *policy; /* its name */
    dt_algorithm_choice algorithms;
} dt_rung;

/**
 * struct dt_parts - the rule of a policy that takes a batch in parts, where the configuration does
 * not say in which. Both are pure.
 * @fit:   whether the samples of a program that trains, as its author wrote it, may be taken at
 * once; if more may, fewer may as well
 * @round: the number to take where so many may be, at most that and at least 1
 */
typedef struct dt_parts {
    dt_status (*fit)(dt_program *p, const dt_pass_env *env, bool *yes, dt_err *err);
    int64_t (*round)(int64_t samples);
} dt_parts;

/* What plans of a policy have none of: copies but of inputs, or ops that run again. */
typedef enum dt_leaves_out { DT_LEAVES_NOTHING, DT_LEAVES_COPIES, DT_LEAVES_RUNS } dt_leaves_out;

/**
 * struct dt_policy - a policy.
 * @name @summary: as in the INI file and in `dnntrain list policies`
 * @exact: moves, repeats or encodes without changing a bit of what is trained
 * @fp32: it is for values of fp32 alone, and refuses others
 * @by_budget: what it does goes by the device's budget
 * @wants_budget: and without one it does nothing, unless its options say more
 * @searches: it takes seconds to plan, or writes to a disk, so that only who names it gets it
 * @leaves: what one that searches leaves out, so that a bound may tell that it is in vain
 * (dti_step_bounds)
 * @solver: it wants a solver of integer programs, which a build may be without (dt_solver_name); it
 * is refused there
 * @takes_homes: where nothing that it finds fits, it is tried again with each policy that has homes
 * @to_disk: what it moves goes to a disk unless its options say otherwise, so that only who names
 * it writes there
 * @changes: whether with these options it changes results all the same; NULL: never
 * @opts @opts_bytes: its own options, section [policy.NAME]; NULL and 0 for none
 * @only_with: of its options, those that go unused beside others; NULL: none do
 * @pass:  rewrites a program that trains or evaluates; never called for update programs
 * @home: where a persistent tensor lives under it on such a device, which it is asked of weights
 * first, then of gradients, then of optimizer state; *host is what the host still has for them, of
 * which it takes away what it uses. NULL: on the device
 * @says_home: whether, with these options, it says so at all. NULL: always
 * @home_choices: in how many ways it can say so with these options; way 0 is to give no homes.
 * @choose_home sets the options to way number @choice; @worth has, for the ways before that, the
 * seconds of their runs, infinity where one did not fit. A run under a budget takes the first of
 * the fastest that fit. NULL: one way
 * @fills_host: whether, with these options, that depends on *host. NULL: never
 * @host_updates: updates run on the host, where what they need lives
 * @delay: from which step on an update takes the gradients of the step before, which live on the
 * host; below 0: from none. NULL: likewise
 * @replan: after how many epochs a run measures densities and plans its steps anew; 0: never. NULL:
 * likewise
 * @timed: and what ops and copies take
 * @outside: a host program's (dt_register_policy)
 * @parts: takes a batch in parts; NULL: at once
 * @rung @n_rung: of a ladder: a run takes the first that fits its budgets; pass is then the last
 * one's
 */
typedef struct dt_policy {
    const char *name, *summary;
    bool exact, fp32, by_budget, wants_budget, searches, solver, takes_homes, host_updates, to_disk,
        timed, outside;
    dt_leaves_out leaves;
    bool (*changes)(const void *opts);
    const dt_opt *opts;
    size_t opts_bytes;
    const dti_only_with *only_with;
    dt_status (*pass)(dt_program *p, const dt_pass_env *env, dt_err *err);
    dt_tier (*home)(const void *opts, dt_device_kind device, const dt_home *h, uint64_t *host);
    bool (*says_home)(const void *opts);
    size_t (*home_choices)(const void *opts);
    void (*choose_home)(void *opts, const double *worth, size_t choice);
    bool (*fills_host)(const void *opts);
    int64_t (*delay)(const void *opts);
    int64_t (*replan)(const void *opts);
    const dt_parts *parts;
    const dt_rung *rung;
    size_t n_rung;
} dt_policy;

const dt_policy *const *dt_policy_all(size_t *n);
const dt_policy *dt_policy_find(const char *name); /* NULL if unknown */
/* DT_E_CONFIG: @what, the policy nearest to @name, and all that there are. */
dt_status dt_policy_unknown(const char *what, const char *name, dt_err *err) DT_NODISCARD;
void dti_policy_add(const dt_policy *p); /* from outside; it has room */
bool dti_policies_from_outside(void);    /* some are: their names do not tell what they do */

/* The policies of a run with their options, in the order of their passes. */
enum { DT_MAX_POLICIES = 16 };
typedef struct dt_policies {
    size_t n;
    struct {
        const dt_policy *policy;
        void *opts;
    } pass[DT_MAX_POLICIES];
} dt_policies;

/* Look up a comma-separated list and bind [policy.NAME] of @c (NULL: defaults). DT_E_CONFIG names
 * an unknown policy, the nearest, and all; or a wrong option. Release with dt_policies_close even
 * after a failure. */
dt_status dt_policies_open(
    dt_policies *out, const char *list, dt_config *c, dt_err *err) DT_NODISCARD;
void dt_policies_close(dt_policies *s);

/* All passes in turn; of @env (NULL: nothing known) each gets its own opts. */
dt_status dt_policies_apply(
    const dt_policies *s, dt_program *p, const dt_pass_env *env, dt_err *err) DT_NODISCARD;
/* The one that is a ladder; NULL: none is. */
const dt_policy *dt_policies_ladder(const dt_policies *s);
/* @from with a rung's policy in the place of its ladder; the same failures and release as of
 * dt_policies_open. */
dt_status dt_policies_take(dt_policies *out, const dt_policies *from, const dt_rung *rung,
    dt_config *c, dt_err *err) DT_NODISCARD;
/* @from with one more at the end (NULL: none), likewise. */
dt_status dt_policies_with(dt_policies *out, const dt_policies *from, const char *more,
    dt_config *c, dt_err *err) DT_NODISCARD;
/* Whether what it does goes by the device's budget: its own rule, its search, or the rung that it
 * takes. */
static inline bool dt_policy_goes_by_budget(const dt_policy *p)
{
    return p->by_budget || p->searches || p->n_rung > 0;
}
/* Whether tensors have homes under a policy with its options as they are unless set. */
static inline bool dti_policy_has_homes(const dt_policy *p)
{
    return p->home != NULL && p->says_home == NULL;
}
/* The most choices of homes that one of them has, at least 1; and take one of them. */
size_t dt_policies_home_choices(const dt_policies *s);
void dt_policies_choose_home(dt_policies *s, const double *worth, size_t choice);
/* What policy @i, which goes by a budget, is given as its own, policy.NAME.budget in bytes; 0: it
 * goes by the run's. */
uint64_t dt_policies_own_budget(const dt_policies *s, size_t i);
/* Below so many bytes policy @i leaves values alone, policy.NAME.least; 0: it looks at all. */
uint64_t dt_policies_least(const dt_policies *s, size_t i);
/* The budget by which a choice of homes is taken: the run's (@device, 0: none), or a smaller one
 * that the policy which has the choice is given as its own. */
uint64_t dt_policies_home_budget(const dt_policies *s, uint64_t device);
/* Whether one of them may be tried with homes, and none has any. */
bool dt_policies_take_homes(const dt_policies *s);
/* The list, as it is written in a configuration. Returns @to, of DT_POLICY_LIST bytes. */
enum { DT_POLICY_LIST = 1024 };
const char *dt_policies_list(const dt_policies *s, char to[DT_POLICY_LIST]);
bool dt_policies_exact(const dt_policies *s); /* all of them */
/* Where the tensors of a map live under the list, in @tier, by entry: of several policies that say
 * so the last. @host: bytes that the host has for them. Whether that matters; and whether updates
 * run on the host. */
void dt_policies_homes(const dt_policies *s, const dt_map *m, uint64_t host, dt_tier *tier);
bool dt_policies_fill_host(const dt_policies *s);
bool dt_policies_host_updates(const dt_policies *s);
/* From which step on updates are delayed, and in *by the name of the policy that says so, whose
 * option policy.NAME.delay asks for it; below 0 and NULL: never. */
int64_t dt_policies_delay(const dt_policies *s, const char **by);
/* After how many epochs steps are planned anew; 0: never. */
int64_t dt_policies_replan(const dt_policies *s);
bool dt_policies_timed(const dt_policies *s); /* by what ops and copies took */

#endif
