/* What a user sees of a run: on stderr a block of facts, then on a terminal one line that is
 * redrawn, elsewhere a plain line every few seconds; on stdout the block of results. Failing writes
 * (a closed terminal, a broken pipe, with SIGPIPE ignored) end the show, never the run. The cursor
 * is never hidden and no mode of the terminal changed, so there is nothing to restore when a run is
 * killed. */
#ifndef DT_TOOLS_PROGRESS_H
#define DT_TOOLS_PROGRESS_H

#include "engine/map.h"
#include "engine/train.h"
#include "tools/terminal.h"

typedef struct dti_progress dti_progress;

enum { DTI_PROGRESS_WINDOW = 32 }; /* latest steps, by which the line tells rate and time left */

/**
 * struct dti_progress_facts - what is known before step 0. Texts may be NULL: then nothing is said;
 * they are borrowed during the call only.
 * @image:       n = 1
 * @tokens:      of a sample, which is then a sequence; 0: samples are images
 * @pixels:      every pixel has a class
 * @values:      of a sample, that a loss of values compares; 0: it tells classes
 * @chosen_by:   NULL, or the policies asked for, which came to this one
 * @exact:       the policy changes no result; @exact_for: of what, as dt_session_exact_for has it
 * @planned:     peak of device memory in bytes; @budget: 0 for none
 * @role_bytes:  what makes up the peak, by role; all 0: not told
 * @arena_other: of the peak, in none of the roles (gaps between tensors)
 * @data @eval:  one line each on where samples come from; @eval NULL: no evaluation
 * @run_dir @moved: as in session/run_dir.h
 * @done @done_samples @done_seconds: steps done by the run before it was resumed, and what they
 * took; @first_loss: that of its first step
 * @epochs:      to do in all; 0 or 1: the line counts steps, not epochs
 */
typedef struct dti_progress_facts {
    const char *model, *policy, *chosen_by, *precision, *device, *isa, *data, *eval, *run_dir,
        *moved, *exact_for;
    dt_shape image;
    int64_t tokens, classes, values, parameters, frozen, batch, micro_batch, epochs, done, steps,
        steps_per_epoch;
    int64_t done_samples;
    double done_seconds, first_loss;
    bool pixels, exact;
    int threads;
    uint64_t planned, budget, host_planned, disk_planned, role_bytes[DT_ROLE_COUNT], arena_other;
    bool host_is_device;
} dti_progress_facts;

/* Where and when; for tests. A NULL clock is the monotonic one, in seconds. */
typedef struct dti_progress_view {
    FILE *out;
    dti_terminal terminal;
    double (*clock)(void);
} dti_progress_view;

/* Show the facts and begin. @view NULL: stderr, and stdout for the results. Allocates all it will
 * need. */
dt_status dti_progress_create(dti_progress **out, const dti_progress_facts *f,
    const dti_progress_view *view, dt_err *err) DT_NODISCARD;
void dti_progress_destroy(dti_progress *p); /* ends an unfinished line */

/* A step that the run made before it was gone on with, in their order: before any other. */
void dti_progress_past(dti_progress *p, double loss, double per_second);
void dti_progress_step(dti_progress *p, const dt_step_report *r);
void dti_progress_eval(dti_progress *p, const dt_eval_report *r);

/* A line of its own, above the one that is redrawn. Others who write to the same terminal first
 * call dti_progress_clear, which takes the redrawn line away until the next step. */
void dti_progress_note(dti_progress *p, const char *fmt, ...) DT_PRINTF(2, 3);
void dti_progress_clear(dti_progress *p);

/* Samples a second, the median of the latest steps (4096 at most) without the first; NaN before any
 * step. */
double dti_progress_rate(const dti_progress *p);

/**
 * struct dti_progress_result - what is known at the end.
 * @status:   DT_OK, DT_E_STOPPED or a failure, whose trail the caller prints
 * @measured: bytes; 0: not measured
 * @process_peak @outside: of the whole process; what of it is not in the arena; 0: not known
 * @card:     the arena is a card's, and @outside what else of its memory is in use
 * @best:     what the best evaluation was, and where its weights are; NULL: none are kept
 * @dir:      the run directory as it is called now; NULL: as at first
 * @files:    names written there, for the last line; "": the folder is gone
 * @lost:     lines of metrics that could not be written, and @why
 */
typedef struct dti_progress_result {
    dt_status status;
    uint64_t measured, process_peak, outside, lost;
    bool card;
    const char *best, *dir, *files, *why;
} dti_progress_result;
void dti_progress_finish(dti_progress *p, const dti_progress_result *r);

#endif
