/* Counting, while a run goes on, which share of the values that wait for backward is not zero. */
#ifndef DT_SESSION_DENSITY_COUNT_H
#define DT_SESSION_DENSITY_COUNT_H

#include "engine/base/names.h"
#include "engine/program/program.h"
#include "engine/runner/runner.h"
#include "memory/density.h"

/* A value: the largest share seen, below 0 before any, and the sum of those seen. */
typedef struct dti_counted {
    char name[DT_TENSOR_NAME_BYTES];
    size_t bytes;
    double share, sum;
    int64_t seen;
} dti_counted;

/**
 * struct dti_density_count - a count.
 * @of:    n values, by the order of the program's tensors
 * @probe: for dt_runner_set_probe, as long as it counts; the count stays where it is
 */
typedef struct dti_density_count {
    size_t n;
    dti_counted *of;
    dt_names names;
    dt_probe probe;
} dti_density_count;

/* Of the activations of a program that trains, as policies have left it, that backward reads again
 * and that codecs pack. Release with dti_density_count_close even after a failure. DT_E_NOMEM. */
dt_status dti_density_count_open(dti_density_count *c, dt_program *p, dt_err *err) DT_NODISCARD;
void dti_density_count_close(dti_density_count *c);

/* Forget what was seen. */
void dti_density_count_begin(dti_density_count *c);

/* Put a line a value into @to: the largest share seen and @margin, rounded up, as room, and the
 * mean one; both below 0 of what was not seen, which is left out unless @all. DT_E_NOMEM. */
dt_status dti_density_count_keep(const dti_density_count *c, double margin, bool all,
    dt_densities *to, dt_err *err) DT_NODISCARD;

#endif
