/* Made-up intervals, as many as one likes: to measure pools by. */
#ifndef DT_MEMORY_POOLS_POOL_RANDOM_H
#define DT_MEMORY_POOLS_POOL_RANDOM_H

#include "memory/pools/pool.h"

/* n intervals that begin anywhere in [0, n), live for 1 to n / 10 instants and take 1 to 65,536
 * times 512 bytes, both spread evenly over orders of magnitude; align 1, ids from 0. The same seed
 * gives the same intervals everywhere. The caller frees *v with dt_free. */
dt_status dt_pool_random(dt_interval **v, size_t n, uint64_t seed, dt_err *err) DT_NODISCARD;

#endif
