/* The subcommands: one file each, one line each in tools/tools.def. */
#ifndef DT_TOOLS_TOOLS_H
#define DT_TOOLS_TOOLS_H

#include "engine/base/error.h"

/* Arguments after the subcommand's name. */
typedef struct dti_command_args {
    int n;
    char **arg;
} dti_command_args;

/**
 * struct dti_command - a subcommand.
 * @name:    "" is training, the command without a name
 * @usage @summary: for help, one line each
 * @run:     results on stdout, talk on stderr; the status becomes the exit code
 */
typedef struct dti_command {
    const char *name, *usage, *summary;
    dt_status (*run)(const dti_command_args *a, dt_err *err);
} dti_command;

#define DT_COMMAND(name) extern const dti_command dt_command_##name;
#include "tools/tools.def"
#undef DT_COMMAND

#endif
