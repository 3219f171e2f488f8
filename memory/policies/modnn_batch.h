/* How many samples moDNN takes at once (Chen et al., IEEE TPDS 2019, section 5.1). */
#ifndef DT_MEMORY_POLICIES_MODNN_BATCH_H
#define DT_MEMORY_POLICIES_MODNN_BATCH_H

#include "engine/program/program.h"

/* Equation 8: bytes of what lives on the device for the whole run, and the most of any run of
 * neighbouring ops, @share of all (at least one): what they read and write, each value once and
 * what is written in place not again, and the largest scratch of one of them. With a share of 0
 * and the algorithms of least scratch it is the lower bound of equation 7. @p: as its author wrote
 * it. DT_E_NOMEM. */
dt_status dti_modnn_need(dt_program *p, double share, uint64_t *bytes, dt_err *err) DT_NODISCARD;

/* Down to a multiple of 64 above 64, of 32 from there to 32, of 16 to 16, and so on. @samples: at
 * least 1. */
int64_t dti_modnn_round(int64_t samples);

#endif
