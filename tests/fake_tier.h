/* A tier in memory that the processor is not shown, so that the runner must write and read; it
 * counts, and does as it is told: fails, is slow, spoils what is read. */
#ifndef DT_TESTS_FAKE_TIER_H
#define DT_TESTS_FAKE_TIER_H

#include <stdatomic.h>

#include "engine/tier.h"

/**
 * struct dt_fake - all fake tiers of the process; set it between runs.
 * @fail_write @fail_read: the n-th call from now on fails, counted from 1; 0: none
 * @spoil_read: the n-th read from now on brings other bits; 0: none
 * @slow: milliseconds a call
 * @writes @reads @written @read: calls so far, and their bytes
 * @reserved: what was asked for last, its path not included
 */
typedef struct dt_fake {
    long fail_write, fail_read, spoil_read;
    int slow;
    atomic_long writes, reads, written, read;
    dt_tier_opts reserved;
} dt_fake;

extern dt_fake dt_fake_state;
extern const dt_tier_desc dt_fake_tier;

#endif
