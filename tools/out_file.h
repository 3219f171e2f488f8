/* Files that commands write when they are asked to: whole, or not there. */
#ifndef DT_TOOLS_OUT_FILE_H
#define DT_TOOLS_OUT_FILE_H

#include <stdio.h>

#include "engine/base/error.h"

/* Prints @of as text. */
typedef dt_status dti_printer(const void *of, FILE *f, dt_err *err);

/* Have it printed into a file, beside which it is written first; "-" is stdout. DT_E_NOMEM, DT_E_IO
 * and what the printer fails with. */
dt_status dti_write_file(
    const char *path, dti_printer *print, const void *of, dt_err *err) DT_NODISCARD;

/* Whether a flag's file is "-": what goes to stdout is all that may go there. NULL is no file. */
bool dti_is_stdout(const char *path);

/* Before work that takes long: DT_E_IO when a file could not be made at @path. NULL and "-" are
 * fine.
 */
dt_status dti_check_writable(const char *path, dt_err *err) DT_NODISCARD;

/* DT_E_CONFIG when @path, which @flag was given, is neither - nor named so: ".svg", "SVG". NULL is
 * fine. */
dt_status dti_check_ending(const char *path, const char *flag, const char *ending, const char *what,
    dt_err *err) DT_NODISCARD;

/* A field of a table, in double quotes if it needs them. */
void dti_csv_text(FILE *f, const char *text);

#endif
