/* How many bytes the device holds at least while some values are away, told by the curve of the
 * program that has them all, in microseconds where making and scoring a program takes
 * milliseconds. */
#ifndef DT_MEMORY_GAP_LEAST_H
#define DT_MEMORY_GAP_LEAST_H

#include "memory/gap/curve.h"

/**
 * struct dti_least - of the curve's program.
 * @more: by place, bytes that go there, less those that come back
 * @less: of the curve's bytes, what the program does not need at its least: states that are
 * fetched ahead
 */
typedef struct dti_least {
    const dti_load_curve *curve;
    int64_t *more;
    uint64_t less;
} dti_least;

/* @p: the program of the curve, which stays the caller's. Release with dti_least_close even after a
 * failure. DT_E_NOMEM. */
dt_status dti_least_open(dti_least *out, const dti_load_curve *curve, dt_program *p,
    const dt_pass_env *env, dt_err *err) DT_NODISCARD;
void dti_least_close(dti_least *l);

void dti_least_clear(dti_least *l); /* nothing is away */

/* So many bytes are gone behind place @release and there again before place @fetch. */
void dti_least_away(dti_least *l, int32_t release, int32_t fetch, uint64_t bytes);

/* A bound: where states live on the device, no program with these values away scores below. */
uint64_t dti_least_bytes(const dti_least *l);

#endif
