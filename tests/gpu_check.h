/* Tests of a device that is not on every machine: skipped where there is none, unless
 * DT_GPU=required. */
#ifndef DT_TESTS_GPU_CHECK_H
#define DT_TESTS_GPU_CHECK_H

#include "engine/device.h"
#include "tests/check.h"

/* Whether a card answers. Without one: fails when DT_GPU=required, which says why there is none. */
bool dt_gpu_there(void);

#define NEED_GPU()                                                                                 \
    do {                                                                                           \
        (void)state;                                                                               \
        if (!dt_gpu_there())                                                                       \
            skip();                                                                                \
    } while (0)

#endif
