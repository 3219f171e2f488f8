/* Files that commands write when they are asked to: whole, or not there. */
#ifndef DT_TOOLS_OUT_FILE_H
#define DT_TOOLS_OUT_FILE_H

#include <stdio.h>

#include "session/session.h"

/* Prints @of as text. */
typedef dt_status dti_printer(const void *of, FILE *f, dt_err *err);

/* Have it printed into a file, beside which it is written first; "-" is stdout. DT_E_NOMEM, DT_E_IO
 * and what the printer fails with. */
dt_status dti_write_file(
    const char *path, dti_printer *print, const void *of, dt_err *err) DT_NODISCARD;

/* Whether a flag's file is "-": what goes to stdout is all that may go there. NULL is no file. */
bool dti_is_stdout(const char *path);

/* Before anything is planned, of @n files that are to be written: DT_E_IO when one could not be
 * made at its path, DT_E_CONFIG when it is one that @s reads (NULL: there is no session), or one
 * that is read besides, @input (NULL: none), or that of another flag. NULL and "-" are fine. */
dt_status dti_check_outputs(const dt_session *s, const char *const *path, size_t n,
    const char *input, dt_err *err) DT_NODISCARD;

/* DT_E_CONFIG when @path, which @flag was given, is neither - nor named so: ".svg", "SVG". NULL is
 * fine. */
dt_status dti_check_ending(const char *path, const char *flag, const char *ending, const char *what,
    dt_err *err) DT_NODISCARD;

/* A field of a table, in double quotes if it needs them. */
void dti_csv_text(FILE *f, const char *text);

#endif
