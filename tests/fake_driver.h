/* A device that works on its own, played by a thread: queues in the processor's memory, of which it
 * takes work in any order that events allow, now eagerly, now only when somebody waits. */
#ifndef DT_TESTS_FAKE_DRIVER_H
#define DT_TESTS_FAKE_DRIVER_H

#include "engine/driver.h"

/**
 * struct dt_fake_opts - of the devices opened from now on.
 * @seed:    of the order in which it works
 * @fail_at: the k-th call from now on that may fail does, 1-based; 0: none
 * @finishing: told when finish is called, before it waits; may be NULL
 */
typedef struct dt_fake_opts {
    uint64_t seed;
    long fail_at;
    void (*finishing)(void *arg);
    void *arg;
} dt_fake_opts;

const dt_driver *dt_fake_driver(const dt_fake_opts *o);

/* Since dt_fake_driver was called. @launched: kernels' work done, replayed or not. @peeked: pieces
 * of work that began while others that were put on before them, on other queues, had not; without
 * such an order means nothing */
typedef struct dt_fake_counts {
    long calls, work, launched, peeked, recorded, replayed, live;
} dt_fake_counts;

dt_fake_counts dt_fake_count(void);

#endif
