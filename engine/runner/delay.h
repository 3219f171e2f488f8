/* For tests: threads that come late. */
#ifndef DT_ENGINE_RUNNER_DELAY_H
#define DT_ENGINE_RUNNER_DELAY_H

#include <stdint.h>

struct dt_runner;

/* In runs with threads every copy and every op is late by a random time of up to 0.15 ms, on some
 * threads less than on others; 0: none. */
void dti_runner_set_delay(struct dt_runner *r, uint64_t seed);

#endif
