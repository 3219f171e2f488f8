/* The clocks by which durations are measured. */
#ifndef DT_ENGINE_BASE_CLOCK_H
#define DT_ENGINE_BASE_CLOCK_H

/* Seconds of a clock that only goes forward, from some moment on. */
double dt_seconds(void);

/* Of processor time that this thread has taken: what else the machine does counts for nothing. */
double dt_thread_seconds(void);

#endif
