/* What this machine can do at most, by short measurements. */
#ifndef DT_SESSION_MACHINE_H
#define DT_SESSION_MACHINE_H

#include "engine/dtype.h"
#include "engine/base/error.h"

/**
 * struct dt_machine - the roof over every op.
 * @flops: operations a second in the best of two convolutions by the library, by type of values; 0
 * where it was not measured
 * @bytes: bytes read and written a second when the whole team copies a block larger than any cache
 * @answer: seconds from when one thread of the team writes until it reads what another wrote when
 *          it saw that: how near the caches of two cores are; 0: there is one thread, or one
 *          processor
 */
typedef struct dt_machine {
    double flops[DT_DTYPES], bytes, answer;
} dt_machine;

/* Measure for values of fp32 and of @also, with the team as dt_cpu_setup made it. Takes about a
 * second. */
dt_status dti_machine_measure(dt_machine *m, dt_dtype also, dt_err *err) DT_NODISCARD;

/* Seconds in which so many operations on values of a type, and bytes, cannot but pass: the larger
 * of operations over the peak and bytes over the bandwidth. */
double dti_machine_floor(const dt_machine *m, dt_dtype t, double flops, double bytes);

#endif
