/* What a stream can show; text in words, and messages; and for tables and pictures on stdout, how
 * wide and with which marks. */
#ifndef DT_TOOLS_TERMINAL_H
#define DT_TOOLS_TERMINAL_H

#include <stdio.h>

#include "engine/base/compiler.h"

/**
 * struct dti_terminal - a stream's abilities.
 * @tty:    a terminal that understands carriage return and escapes; TERM=dumb and files are none
 * @utf8:   characters beyond ASCII may be drawn, in files as well: the environment's encoding is
 * UTF-8, and TERM is not dumb. NO_COLOR does not bear on it
 * @colour: a terminal, and NO_COLOR is not set
 * @width:  columns; 0: ask the system each time
 */
typedef struct dti_terminal {
    bool tty, utf8, colour;
    int width;
} dti_terminal;

dti_terminal dti_terminal_of(FILE *f);

/* Columns now: windows change. 80 where nobody knows. */
int dti_terminal_width(const dti_terminal *t, FILE *f);

/* Whether block characters may be used on stdout (dti_terminal's utf8). */
bool dti_term_unicode(void);

enum { DTI_TERM_WIDEST = 100 };

/* Columns of the terminal on stdout, between 64 and DTI_TERM_WIDEST; 80 when it is none. */
int dti_term_width(void);

/* Print @text from column @at on, in words, in lines no wider than @width where its words allow;
 * further lines begin at column @indent. Ends the line. */
void dti_term_flow(FILE *f, int width, int at, int indent, const char *text);

/* The same in lines of dti_term_width(). */
void dti_term_wrap(FILE *f, int at, int indent, const char *text);

/* A message on stderr behind the program's name: on a terminal in words, as wide as that is;
 * elsewhere one line, which scripts can read. */
void dti_term_say(const char *fmt, ...) DT_PRINTF(1, 2);

/* A horizontal bar of @part of @whole, up to @width columns wide, without blanks after it. */
void dti_term_bar(FILE *f, double part, double whole, int width);

/* The mark of a cell that is filled from below by @eighths, 0 to 8; @base: the cell belongs to the
 * part that never changes. One column. */
const char *dti_term_cell(int eighths, bool base);

#endif
