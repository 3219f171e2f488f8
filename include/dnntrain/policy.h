/* A policy from outside: what becomes of the values that forward saves for backward. It is
 * registered once, before a run that names it is opened, and is then a name like any other in
 * [memory] policy. */
#ifndef DNNTRAIN_POLICY_H
#define DNNTRAIN_POLICY_H

#include <dnntrain/error.h>
#include <dnntrain/options.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dt_program dt_program;   /* a step or an evaluation, which a policy rewrites */
typedef struct dt_pass_env dt_pass_env; /* what a policy knows beside it */

/**
 * struct dt_saved - a value that waits from forward to backward. Set it to {0} to begin.
 * @next:       where dt_saved_next goes on
 * @tensor:     its number in the program; it stays when the program is rewritten
 * @name:       of its tensor: "r1.y", "bn1.mean", the input "x"; borrowed until the program is
 * rewritten
 * @layer:      of the layer that made it, "conv"; "" for the input
 * @bytes:      of the whole batch
 * @flops:      of making it, for the whole batch
 * @repeatable: forward may be run again to make it
 * @reason:     why the policy does with it what it does, for the plan; yours to set, NULL: not said
 */
typedef struct dt_saved {
    int32_t next, tensor;
    const char *name, *layer;
    uint64_t bytes;
    double flops;
    bool repeatable;
    const char *reason;
} dt_saved;

/* The next saved value, in the order in which forward makes them; false when there are no more.
 * What an earlier policy or [memory.layers] has dealt with is left out. None of them need be dealt
 * with: what a policy leaves alone stays where it is. */
DT_API bool dt_saved_next(const dt_program *p, dt_saved *s);

/* OFFLOAD: copied to the host or the disk ([memory] tier) after its last reader of forward, and
 * back before its first of backward. Of the input nothing is copied: it is fetched again. */
DT_API dt_status dt_saved_offload(dt_program *p, const dt_saved *s, dt_err *err) DT_NODISCARD;

/* RECOMPUTE: dropped, and made again before its first reader of backward from what is there.
 * DT_E_CONFIG when it is not repeatable. */
DT_API dt_status dt_saved_recompute(dt_program *p, const dt_saved *s, dt_err *err) DT_NODISCARD;

/* ENCODE: packed in between by a codec, "zvc" (dnntrain list codecs), with room for the share
 * @density of its values, in (0, 1], to be other than zero; a step that needs more is run again
 * by plans in which it is offloaded instead. Nothing is done, and DT_OK returned, where that would
 * save nothing, and with a value that is no activation: the input, statistics as "bn1.mean", masks.
 * DT_E_CONFIG for an unknown codec, and for a lossy one where values are bf16. */
DT_API dt_status dt_saved_encode(
    dt_program *p, const dt_saved *s, const char *codec, double density, dt_err *err) DT_NODISCARD;

/* Seconds that a fate takes, by the costs of the machine: those of memory.profile or
 * memory.simulate, else defaults, which are good for an order alone. OFFLOAD: the copy to where
 * values wait ([memory] tier) and the one back, hidden or not, by the links; of the input the one
 * back. RECOMPUTE: what the ops that would run again take: the one that makes the value, and with
 * it all back to what is there before its first reader of backward, as things stand; infinity where
 * it cannot be. Each answer lowers a copy of the program. */
DT_API double dt_saved_offload_seconds(const dt_pass_env *e, const dt_saved *s);
DT_API double dt_saved_recompute_seconds(
    const dt_program *p, const dt_pass_env *e, const dt_saved *s);

DT_API const void *dt_policy_options(const dt_pass_env *e); /* the struct that the rows fill */
DT_API uint64_t dt_policy_budget(const dt_pass_env *e); /* memory.device_budget in bytes; 0: none */

enum { DT_OUTSIDE_POLICIES = 16, DT_OUTSIDE_OPTIONS = 16 }; /* at most, in all; of each */

/**
 * struct dt_policy_spec - a policy.
 * @name:    a-z, 0-9 and _; none that there is
 * @summary: one line, for people
 * @exact:   changes no bit of what is trained, as offloading and recomputing do not
 * @options: @n_options rows of its section [policy.NAME]; NULL and 0 for none
 * @options_bytes: of the struct that they fill
 * @pass:    rewrites a program; called for each that trains or evaluates, from any thread that
 * plans
 */
typedef struct dt_policy_spec {
    const char *name, *summary;
    bool exact;
    const dt_opt *options;
    size_t n_options, options_bytes;
    dt_status (*pass)(dt_program *p, const dt_pass_env *e, dt_err *err);
} dt_policy_spec;

/* For the life of the process; texts and rows that @s names must live as long. From any thread,
 * also while runs are open: it is there for those that are opened afterwards. DT_E_CONFIG for a
 * name that is taken or none, a row without a key, beyond the struct, misaligned or with a default
 * that it refuses itself, and for one policy or option too many. */
DT_API dt_status dt_register_policy(const dt_policy_spec *s, dt_err *err) DT_NODISCARD;

#ifdef __cplusplus
}
#endif

#endif
