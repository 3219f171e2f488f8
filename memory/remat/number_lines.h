/* Lines of whole numbers in decimal, with blanks between them: what files of graphs and chains are
 * made of. */
#ifndef DT_MEMORY_REMAT_NUMBER_LINES_H
#define DT_MEMORY_REMAT_NUMBER_LINES_H

#include "engine/base/error.h"

/* What is left of a text; @line is that of the last line read. */
typedef struct dti_number_lines {
    const char *at, *end, *path;
    size_t line;
    dt_err *err;
} dti_number_lines;

/* The next line's numbers, exactly so many. DT_E_DATA with FILE:LINE, and @form, which says what
 * the line should be. */
dt_status dti_number_line(
    dti_number_lines *r, uint64_t *to, size_t n, const char *form) DT_NODISCARD;

/* DT_E_DATA when anything but blanks and empty lines is left. */
dt_status dti_number_end(dti_number_lines *r) DT_NODISCARD;

#endif
