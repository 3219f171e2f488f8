/* Copies by the team of the thread that asks for them. */
#ifndef DT_ENGINE_BASE_COPY_H
#define DT_ENGINE_BASE_COPY_H

#include <stddef.h>

#include "engine/dtype.h"

/* Copy by the whole team. */
void dt_cpu_copy(void *to, const void *from, size_t bytes);
void dti_cpu_to_bf16(dt_bf16 *to, const float *from, int64_t count); /* rounding to the nearest */

#endif
