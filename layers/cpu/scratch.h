/* A call's scratch, given out piece by piece: by one function that counts and takes. */
#ifndef DT_LAYERS_CPU_SCRATCH_H
#define DT_LAYERS_CPU_SCRATCH_H

#include "engine/kernels.h"

/* Space for @n floats at *@at, which counts them, in whole cache lines; NULL where there is no
 * scratch yet. */
static inline float *dti_scratch_take(const dt_args *a, int64_t *at, int64_t n)
{
    enum { LINE = 16 };
    float *p = a == NULL ? NULL : (float *)a->port[DT_WORK] + *at;
    *at += (n + LINE - 1) / LINE * LINE;
    return p;
}

#endif
