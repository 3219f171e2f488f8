/* A training run from inside: what include/dnntrain.h keeps to itself, for those who show a run.
 * Everything that can be refused is refused before the first byte of the arena is reserved, and
 * before anything in a run directory changes. */
#ifndef DT_SESSION_RUN_H
#define DT_SESSION_RUN_H

#include <dnntrain.h>

#include <sys/types.h>

#include "data/class_names.h"
#include "data/fingerprint.h"
#include "engine/base/sha256.h"
#include "engine/checkpoint/checkpoint.h"
#include "session/feeds.h"
#include "session/plan_set.h"
#include "session/rate.h"
#include "session/rig.h"
#include "session/run_dir.h"

enum { DT_RUN_LINE_BYTES = 8192 }; /* of what the observer's line is told, with its end */

typedef struct dti_run_trace dti_run_trace;
typedef struct dti_replan dti_replan;

/**
 * struct dt_run - a run.
 * @opener:   the process that opened it: a child of that may ask about it, and close it
 * @saving:   of its policies, against keep_all
 * @measured @measured_tier: the highest byte of the arena, and of each tier, that a checked run of
 * any plan changed
 * @replan: steps are planned anew while it goes on; NULL: they are not
 * @goes_on:  with the run that is in the run directory
 * @from:     and with this of its checkpoints; NULL: from the first step
 * @course:   of the whole run, resumed parts included
 * @point:    where the weights stand
 * @saved_step: of the newest checkpoint; -1: none
 * @rewritten: weights were written from outside since that
 * @began_seconds: of the course, when this process began to train; @trains: it does
 * @fingerprint: of the data to train on, once it is open; @eval_fingerprint: of what is held out
 * @weights_step: after which DT_RUN_WEIGHTS was written; -1: it is not there, or of no known step
 * @names:    of classes, where a run's folder had them; zero: ask the data
 * @asked:    plans were made for questions
 * @begun:    the observer's ready was called
 * @launches_told: that the device keeps no plans
 * @ready:    to train
 * @open:     its configuration is read and its network built
 * @turned:   the run that goes on has begun to change what is in its folder
 * @failed:   its begin did, so that it can only be closed
 * @goes_straight: the data stands where the weights do
 * @best_before @best_step_before: of the course, before @is_best, which is until it is saved
 * @saved @summarised: DT_RUN_WEIGHTS and summary.json are written
 * @process_peak @outside: in bytes, at the end: of the process, and what lies beside the arena
 */
struct dt_run {
    pid_t opener;
    dt_session *s;
    dt_feeds feeds;
    dt_run_dir *dir;
    dt_rig rig;
    dti_run_trace *trace; /* NULL: none */
    dti_replan *replan;
    dt_run_observer observer;
    dt_rate rate;
    dt_saving saving;
    uint64_t measured, measured_tier[DT_TIERS];
    bool goes_on;
    dt_checkpoint *from;
    dt_course course;
    dt_train_point point;
    int64_t saved_step;
    bool saved_evaluated, rewritten, is_best;
    double best_before;
    int64_t best_step_before, weights_step;
    double began_seconds;
    bool trains;
    int64_t began_step, began_skipped;
    char fingerprint[DT_FINGERPRINT], eval_fingerprint[DT_FINGERPRINT];
    dt_class_names names;
    size_t skips_told, eval_skips_told;
    bool open, asked, begun, ready, turned, failed, goes_straight, saved, summarised, launches_told;
    uint64_t process_peak, outside;
};

/* Have a line written to a file for each row that is executed (docs/commands.md, DT_TRACE), by
 * training and by evaluation: before either begins. @path: NULL or "": none. DT_E_IO when it cannot
 * be created, DT_E_CONFIG where it may not be written (may_write.h); what cannot be written later
 * is told, and the run goes on. */
dt_status dt_run_trace(dt_run *r, const char *path, dt_err *err) DT_NODISCARD;

/* How often training has left out a bad sample (data.on_error = skip), over the whole run. */
int64_t dt_run_skipped(const dt_run *r);
/* The best evaluation so far of which there is a checkpoint. */
dt_run_best dt_run_best_of(const dt_run *r);

enum { DT_SAMPLE_SIDE = 40, DT_SAMPLE_GUESSES = 3 };

/**
 * struct dt_sample - a picture that was held out, and what the network makes of it.
 * @h @w @rgb: the picture, made so small that no side is longer than DT_SAMPLE_SIDE; three bytes a
 *             pixel, row after row
 * @label:     its class
 * @guess @share: the likeliest classes, and how likely the network finds each, in [0, 1]
 */
typedef struct dt_sample {
    int h, w, n_guess;
    int32_t label, guess[DT_SAMPLE_GUESSES];
    double share[DT_SAMPLE_GUESSES];
    uint8_t rgb[DT_SAMPLE_SIDE * DT_SAMPLE_SIDE * 3];
} dt_sample;

/* Up to @most pictures, spread over the data that is held out and over its classes, with the
 * weights as they stand; *n: how many. None where samples are no pictures with a class each,
 * nothing is held out, or no weights are whole. For a run that has trained and goes on no more:
 * nothing of this is traced. DT_E_DATA, DT_E_NOMEM, DT_E_DEVICE. */
dt_status dt_run_samples(
    dt_run *r, dt_sample *to, size_t most, size_t *n, dt_err *err) DT_NODISCARD;
/* What a network that labels pixels makes of a picture: the class of each of its @h by @w pixels,
 * row after row, as the nearest that the network sees has it. */
typedef struct dt_mask {
    int64_t h, w;
    int32_t *class; /* dt_free it */
} dt_mask;

/* What the network makes of the picture of a file: @to has guesses alone. Where pixels are
 * labelled, its classes are those that most pixels have, with their shares of the pixels, and @mask
 * (NULL: not wanted) has all; elsewhere none is wanted. For a run that has not begun and will not,
 * with model.weights; the first call plans and reads those. DT_E_CONFIG where samples are no
 * pictures with a class each or one a pixel, or nothing tells how a picture becomes one; DT_E_DATA,
 * DT_E_BUDGET, DT_E_NOMEM, DT_E_NONFINITE, DT_E_DEVICE. */
dt_status dt_run_classify(
    dt_run *r, const char *path, dt_sample *to, dt_mask *mask, dt_err *err) DT_NODISCARD;
/* Behind an evaluation: write what the network gives for each sample that was held out, in the
 * order of the data, as y [samples, channels, height, width] of a safetensors file: of classes the
 * scores before softmax, of bce the outputs before the sigmoid. DT_E_IO, DT_E_DATA, DT_E_NOMEM,
 * DT_E_DEVICE. */
dt_status dt_run_write_outputs(dt_run *r, const char *path, dt_err *err) DT_NODISCARD;
/* From now on classes are called as the run in @folder has written down, if it has: its data may be
 * gone, or have other folders by now. Where it has not, they are called as before. DT_E_DATA with
 * file and line, DT_E_NOMEM. */
dt_status dt_run_take_classes(dt_run *r, const char *folder, dt_err *err) DT_NODISCARD;
/* What that, or the data, calls a class; NULL: nothing. Borrowed from the run. */
const char *dt_run_class(const dt_run *r, int32_t label);

/* Write a file of the run directory, whole or not at all: what @print writes, or nothing where it
 * fails. DT_E_IO, DT_E_NOMEM. */
dt_status dt_run_write(dt_run *r, const char *name,
    dt_status (*print)(const void *arg, FILE *f, dt_err *err), const void *arg,
    dt_err *err) DT_NODISCARD;

/* The plan with the highest peak. */
const dt_plan *dt_run_largest_plan(const dt_run *r);

/* Seconds of the steps that this process made: of a resumed run without those before. */
double dt_run_own_seconds(const dt_run *r);

/* A sum of all that results depend on, as far as the configuration tells: where two have the same,
 * exact plans of both train the same bits on one machine. DT_E_NOMEM. */
dt_status dti_session_results(
    const dt_session *s, char to[DT_SHA256_TEXT], dt_err *err) DT_NODISCARD;

#endif
