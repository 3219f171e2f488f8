/* The threads that decode a batch: they share out the pieces of one job. Not those that compute,
 * which are engine/base/team.h. */
#ifndef DT_DATA_DECODERS_H
#define DT_DATA_DECODERS_H

#include "engine/base/error.h"

typedef struct dti_decoders dti_decoders;

/* @threads counts the caller, who works too: 1 starts none. DT_E_NOMEM, also when the
 * system has no more threads. */
dt_status dti_decoders_create(dti_decoders **out, int threads, dt_err *err) DT_NODISCARD;
void dti_decoders_destroy(dti_decoders *t);

/* piece(arg, i) once for each i in [0, n), by any thread in any order; returns when all are done.
 */
void dti_decoders_run(dti_decoders *t, int64_t n, void (*piece)(void *arg, int64_t i), void *arg);

#endif
