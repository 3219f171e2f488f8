/* Random numbers of many counters in a row. */
#ifndef DT_ENGINE_BASE_DRAW_H
#define DT_ENGINE_BASE_DRAW_H

#include "engine/base/philox.h"

enum { DT_DRAW_LANES = 8 };

/* dt_random(seed, purpose, a, b, counter + i) to u[4 i] and after, for i in [0, n), n rounded up to
 * a multiple of DT_DRAW_LANES. */
typedef void dt_draw_fn(uint64_t seed, dt_purpose purpose, uint32_t a, uint64_t b, uint64_t counter,
    uint32_t *u, int64_t n);

/* The fastest this machine has: with AVX-512, with AVX2, or plain. All give the same numbers. */
dt_draw_fn *dt_draw_best(void);

#endif
