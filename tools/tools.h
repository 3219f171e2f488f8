/* The subcommands: one file each, one line each in tools/tools.def. */
#ifndef DT_TOOLS_TOOLS_H
#define DT_TOOLS_TOOLS_H

#include "engine/base/error.h"

/* Arguments after the subcommand's name. */
typedef struct dt_command_args {
    int n;
    char **arg;
} dt_command_args;

/**
 * struct dt_command - a subcommand.
 * @name:    "" is training, the command without a name
 * @usage @summary: for help, one line each
 * @run:     results on stdout, talk on stderr; the status becomes the exit code
 */
typedef struct dt_command {
    const char *name, *usage, *summary;
    dt_status (*run)(const dt_command_args *a, dt_err *err);
} dt_command;

#define DT_COMMAND(name) extern const dt_command dt_command_##name;
#include "tools/tools.def"
#undef DT_COMMAND

#endif
