/* Measuring what memory/time/costs.h wants to know of this machine with one network: in real steps
 * that keep all, so that caches are as they are in training; links and codecs alone; and how copies
 * and ops slow each other. */
#ifndef DT_SESSION_PROFILE_H
#define DT_SESSION_PROFILE_H

#include "memory/time/cost_file.h"
#include "session/session.h"

/**
 * struct dt_profile_opts - what to measure.
 * @steps:  of training, in which values are counted, and as many that are timed, again and again,
 * up to four times, while the quietest differ
 * @margin: added to the largest share of values that were not zero
 * @timed:  seconds too, and not shares alone
 * @line:   told how it goes, a line at a time, as a stage begins; NULL: nobody is
 * @begins: told before each step which of how many of its stage it is; NULL: nobody is
 */
typedef struct dt_profile_opts {
    int64_t steps;
    double margin;
    bool timed;
    void (*line)(void *self, const char *text);
    void (*begins)(void *self, int64_t step, int64_t of);
    void *self;
} dt_profile_opts;

/**
 * struct dt_profile - what was found.
 * @densities: of every activation that waits for backward, in the order of forward; below 0: it was
 * never written as a whole
 * @step @rows: seconds of a step and of its rows, over the steps that took least
 */
typedef struct dt_profile {
    dt_costs costs;
    dt_densities densities;
    dt_origin origin;
    double step, rows;
} dt_profile;

/* The session's plans, if it has any, are replaced by those that keep all. Its run must have
 * so many steps: dt_profile_steps. DT_E_DEVICE when rows and the gaps between programs are off a
 * step of the processor's by more than 2 % and 50 microseconds, or its quietest steps differ by
 * more than 25 %: something else was at work, and the profile would not hold. What a run's
 * beginning is refused for, is this, too. Release with dt_profile_deinit even after a failure. */
dt_status dt_profile_measure(
    dt_session *s, const dt_profile_opts *o, dt_profile *out, dt_err *err) DT_NODISCARD;
void dt_profile_deinit(dt_profile *p);

/* Steps that a profile takes at the most. */
int64_t dt_profile_steps(const dt_profile_opts *o);

#endif
