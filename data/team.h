/* A few threads that share out the pieces of one job. */
#ifndef DT_DATA_TEAM_H
#define DT_DATA_TEAM_H

#include "engine/base/error.h"

typedef struct dti_team dti_team;

/* @threads counts the caller, who works too: 1 starts none. DT_E_NOMEM, also when the
 * system has no more threads. */
dt_status dti_team_create(dti_team **out, int threads, dt_err *err) DT_NODISCARD;
void dti_team_destroy(dti_team *t);

/* piece(arg, i) once for each i in [0, n), by any thread in any order; returns when all are done.
 */
void dti_team_run(dti_team *t, int64_t n, void (*piece)(void *arg, int64_t i), void *arg);

#endif
