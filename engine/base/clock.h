/* The clock by which durations are measured. */
#ifndef DT_ENGINE_BASE_CLOCK_H
#define DT_ENGINE_BASE_CLOCK_H

/* Seconds of a clock that only goes forward, from some moment on. */
double dt_seconds(void);

#endif
