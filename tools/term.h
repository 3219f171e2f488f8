/* Tables and pictures on stdout: how wide, and with which marks. */
#ifndef DT_TOOLS_TERM_H
#define DT_TOOLS_TERM_H

#include <stdio.h>

#include "engine/base/compiler.h"

/* Whether block characters may be used on stdout (dt_terminal's utf8). */
bool dt_term_unicode(void);

/* Columns of the terminal on stdout, between 64 and 100; 80 when it is none. */
int dt_term_width(void);

/* A horizontal bar of @part of @whole, up to @width columns wide, without blanks after it. */
void dt_term_bar(FILE *f, double part, double whole, int width);

/* The mark of a cell that is filled from below by @eighths, 0 to 8; @base: the cell belongs to the
 * part that never changes. One column. */
const char *dt_term_cell(int eighths, bool base);

#endif
