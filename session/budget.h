/* Whether a run fits: what its plans need of each tier, what there is, and what would fit instead.
 * Nothing is allocated for a run to find out. */
#ifndef DT_SESSION_BUDGET_H
#define DT_SESSION_BUDGET_H

#include "engine/base/limits.h"
#include "session/plan_set.h"

/* Append to @err the least that was found to be possible and up to three configurations that fit
 * what is available, as the lines to set, each with its peaks and its cost, of different kinds if
 * there are. DT_OK when that is done, whatever was found. The session's own plans stay. @seconds of
 * processor time are looked, and the try under way is ended: plans of deep networks under a search
 * of their own take seconds each. */
enum { DTI_SUGGEST_SECONDS = 30 };
dt_status dti_suggest(
    const dt_session *s, const dt_available *a, int seconds, dt_err *err) DT_NODISCARD;

/* DT_E_BUDGET when the peak of a tier exceeds its budget: which, the largest tensors there, the
 * least that was found to be possible, and configurations that would fit. */
dt_status dt_session_check_budget(const dt_session *s, dt_err *err) DT_NODISCARD;

/* Everything that can be known before a run about where its bytes go. In this order: DT_E_DEVICE
 * when the device does not answer, and DT_E_CONFIG when plans are for a card that is elsewhere
 * (dt_session_meet); DT_E_CONFIG for a budget beyond what this machine has or allows this process
 * (its memory, control groups, RLIMIT_AS and RLIMIT_DATA; for the disk, the file system of its
 * folder), with the limit and where it comes from; what dt_session_check_budget says; DT_E_BUDGET,
 * with suggestions, when the plans need more than the device's card has free, or more memory than
 * that limit; DT_E_IO when the disk has less free than they need. @loaded: the batches decoded
 * ahead are allocated already. */
dt_status dti_session_check_run(dt_session *s, bool loaded, dt_err *err) DT_NODISCARD;

/**
 * struct dt_here - plans against this machine, whatever the budgets say.
 * @need @memory: what a run takes of its memory, batches, weights and libraries included, and the
 *                limit that this passes or, where it passes none, the least; UINT64_MAX: none is
 * known
 * @from:         where the limit comes from
 * @fits:         no limit is passed, nor the card's memory where one answered
 * @disk_error:   why the disk tier's file cannot be made in its folder, an errno; 0 where it can,
 * or where nothing is moved to the disk
 * @disk_free:    what is free there; UINT64_MAX: it is not known, or not asked for
 */
typedef struct dt_here {
    uint64_t need, memory;
    char from[DT_LIMIT_FROM];
    bool fits;
    int disk_error;
    uint64_t disk_free;
} dt_here;
void dt_plan_set_here(const dt_plan_set *p, dt_here *out);

/* Where a budget of [memory] comes from: "FILE:LINE", or the card whose memory it is. Returns @at.
 */
enum { DT_BUDGET_PLACE = 512 };
const char *dt_session_budget_place(const dt_session *s, const char *key, char at[DT_BUDGET_PLACE]);

/* Folder of the disk tier's file. */
const char *dt_session_disk_path(const dt_session *s);

#endif
