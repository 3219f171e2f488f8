/* Plans taken at their word: three queues of rows that run in any order the events allow, over
 * memory that knows what was written into it. Shares nothing with lowering and the verifier. */
#ifndef DT_TESTS_INTERLEAVE_H
#define DT_TESTS_INTERLEAVE_H

#include "engine/plan.h"

enum { DT_INTERLEAVE_FINE = -1 };

/**
 * dt_interleave() - run a plan twice back to back, under several schedules.
 * @schedules: how many: the first runs copies as late as it may, the second as early, others at
 * random
 *
 * Every 64 bytes of arena, host slots and homes hold a mark that stands for how they came to be:
 * which run, which row, and for what an op reads as well. Each read must find the marks that the
 * rows, run one by one in their order over tensors that share no bytes, would give it. Returns
 * DT_INTERLEAVE_FINE, or the first row found that reads something else, lies outside the arena or
 * waits for ever.
 */
int32_t dt_interleave(const dt_plan *p, uint64_t seed, int schedules);

#endif
