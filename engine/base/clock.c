/* The clock by which durations are measured. */
#include "engine/base/clock.h"

#include <time.h>

double dt_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
