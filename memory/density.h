/* How many values of a tensor are not zero, as `dnntrain profile` measures it: entries of a
 * profile, or lines NAME = SHARE of the section [density] of a file. Names may be globs; the last
 * that matches holds. Planning makes room by the larger share, which a step hardly exceeds; one
 * with more values than there is room for is run again without. What a step moves and takes is told
 * by the mean. */
#ifndef DT_MEMORY_DENSITY_H
#define DT_MEMORY_DENSITY_H

#include "engine/base/error.h"
#include "engine/base/names.h"
#include "engine/base/sha256.h"

/**
 * struct dt_density - a line.
 * @share:  to make room for; below 0: not known
 * @mean:   of all steps that were seen
 * @last:   of the first line of a text, the last one of the same
 * @before: the last pattern before this line, counted from 1; 0: there is none
 */
typedef struct dt_density {
    char *glob;
    double share, mean;
    size_t last, before;
} dt_density;

/* A profile has a line for each of thousands of tensors, which are found by name. @names: lines by
 * their texts. @pattern: the last line with * or ?, counted from 1; 0: there is none */
typedef struct dt_densities {
    size_t n, cap, pattern;
    dt_density *line;
    dt_names names;
} dt_densities;

/* DT_E_CONFIG with FILE:LINE for a share outside [0, 1] and for other sections. Release with
 * dt_densities_close even after a failure. */
dt_status dti_densities_open(dt_densities *out, const char *path, dt_err *err) DT_NODISCARD;
void dt_densities_close(dt_densities *d);

/* One line more; the text is copied. DT_E_NOMEM. */
dt_status dt_densities_add(
    dt_densities *d, const char *glob, double share, double mean, dt_err *err) DT_NODISCARD;
/* The same of a tensor by its name, in place of what an earlier such line says. DT_E_NOMEM. */
dt_status dt_densities_put(
    dt_densities *d, const char *tensor, double share, double mean, dt_err *err) DT_NODISCARD;
/* Add all that it says to a sum. */
void dti_densities_sum(const dt_densities *d, dt_sha256 *sum);
/* The share to make room for, and the mean one; below 0: not known. */
double dt_densities_of(const dt_densities *d, const char *tensor);
double dt_densities_mean(const dt_densities *d, const char *tensor);

#endif
