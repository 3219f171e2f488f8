/* How much memory this process may have: that of the machine, less where a control group (version 1
 * or 2, its own or one above it) or a limit of the process itself says so; and of how many
 * processors such a group gives it the time. Read by a table of calls; a context may name another
 * (engine/context.h). */
#ifndef DT_ENGINE_BASE_LIMITS_H
#define DT_ENGINE_BASE_LIMITS_H

#include <stdio.h>

#include "engine/base/compiler.h"

/**
 * struct dti_limit_ops - where limits are read.
 * @open:     a text file below /proc and /sys for reading; NULL when there is none
 * @resource: the soft limit RLIMIT_..., UINT64_MAX: none
 */
typedef struct dti_limit_ops {
    FILE *(*open)(const char *path);
    uint64_t (*resource)(int which);
} dti_limit_ops;
extern const dti_limit_ops dt_limit_system;

/**
 * struct dt_limit - one that holds for this process.
 * @bytes: never to be passed
 * @used:  of them, by this process, as of now; what a control group's other processes use is not
 * known beforehand
 * @thread: bytes that a thread takes of it: its stack and its heap, as reserved or as used
 * @from:  where it comes from, for messages
 */
enum { DT_LIMIT_FROM = 512 };
typedef struct dt_limit {
    uint64_t bytes, used, thread;
    char from[DT_LIMIT_FROM];
} dt_limit;

/* All that are set: the machine's memory, the tightest control group, RLIMIT_AS and RLIMIT_DATA.
 * None where the system tells nothing. */
enum { DT_MOST_LIMITS = 4 };
typedef struct dt_limits {
    int n;
    dt_limit limit[DT_MOST_LIMITS];
} dt_limits;

void dt_limits_read(const dti_limit_ops *from, dt_limits *out); /* NULL: dt_limit_system */
const dt_limit *dt_limits_least(const dt_limits *l); /* of the fewest bytes; NULL: no limit */
/* What is left of it when so many threads more have been started. */
uint64_t dt_limit_rest(const dt_limit *l, int threads);
/* The first of them that leaves less than @bytes; NULL: there is room. */
const dt_limit *dt_limits_passed(const dt_limits *l, uint64_t bytes, int threads);

/* Processors whose time control groups give this process, rounded up; INT_MAX: no limit. */
int dti_limit_processors(const dti_limit_ops *from); /* NULL: dt_limit_system */

#endif
