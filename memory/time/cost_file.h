/* A profile: what `dnntrain profile` measured of a machine with one network, as JSON, sorted, with
 * what it depends on. docs/time.md describes it. */
#ifndef DT_MEMORY_TIME_COST_FILE_H
#define DT_MEMORY_TIME_COST_FILE_H

#include "memory/time/costs.h"

enum { DT_ORIGIN_BYTES = 256 };

/* What numbers hold for: another machine, number of threads, instruction set, precision or library
 * gives others. @build: the commit that the program was built from; "": not known */
typedef struct dt_origin {
    char machine[DT_ORIGIN_BYTES], isa[DT_ORIGIN_BYTES], precision[DT_ORIGIN_BYTES];
    char library[DT_ORIGIN_BYTES], version[DT_ORIGIN_BYTES], network[DT_ORIGIN_BYTES];
    char build[DT_ORIGIN_BYTES];
    int64_t threads;
} dt_origin;

/* Read a profile: @costs sealed, @densities added to those there are. A file that does not begin
 * with a brace is one of densities alone (memory/density.h), and *measured is false. DT_E_CONFIG
 * where there is no such file, or it is none; DT_E_DATA with the file and the entry for what cannot
 * be: not JSON, another format, a number below 0 or beyond what can be (seconds of a year and
 * more). The caller releases @costs even after a failure.
 */
dt_status dt_profile_read(dt_costs *costs, dt_densities *densities, dt_origin *origin,
    bool *measured, const char *path, dt_err *err) DT_NODISCARD;

/* The same of the text of a profile; @path names it in messages. */
dt_status dti_profile_parse(dt_costs *costs, dt_densities *densities, dt_origin *origin,
    const char *text, size_t bytes, const char *path, dt_err *err) DT_NODISCARD;

/* The text of a profile; free it with dt_free. DT_E_NOMEM. */
dt_status dt_profile_text(char **text, size_t *bytes, const dt_costs *costs,
    const dt_densities *densities, const dt_origin *origin, dt_err *err) DT_NODISCARD;

/* Whether both are of one version, and of builds that are known and not the same: ops may take
 * another time, or not. */
bool dt_origin_other_build(const dt_origin *file, const dt_origin *here);

/* Everything in which two origins differ, network and build apart, as text; false: nothing. */
enum { DT_ORIGIN_DIFFERS = 1024 };
bool dt_origin_differs(const dt_origin *file, const dt_origin *here, char what[DT_ORIGIN_DIFFERS]);

/* DT_E_CONFIG that names everything in which two origins differ, network and build apart. */
dt_status dt_origin_same(
    const dt_origin *file, const dt_origin *here, const char *path, dt_err *err) DT_NODISCARD;

#endif
