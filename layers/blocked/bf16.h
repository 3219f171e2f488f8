/* How products of values of bf16 are made. */
#ifndef DT_LAYERS_BLOCKED_BF16_H
#define DT_LAYERS_BLOCKED_BF16_H

#include <stdbool.h>

/* Whether this processor multiplies pairs of bf16 (AMX, AVX512_BF16) faster than it does fp32, and
 * the library may. Where it does not, bf16 is what values are kept in: products are those of fp32,
 * of values that are widened on the way. */
bool dt_bf16_pays(void);

/* By what: "amx", "pairs", or "fp32" where it does not. */
const char *dt_bf16_by(void);

#endif
