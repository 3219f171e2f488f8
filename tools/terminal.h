/* What a stream can show. */
#ifndef DT_TOOLS_TERMINAL_H
#define DT_TOOLS_TERMINAL_H

#include <stdio.h>

#include "engine/base/compiler.h"

/**
 * struct dt_terminal - a stream's abilities.
 * @tty:    a terminal that understands carriage return and escapes; TERM=dumb and files are none
 * @utf8:   characters beyond ASCII may be drawn, in files as well: the environment's encoding is
 * UTF-8, and TERM is not dumb. NO_COLOR does not bear on it
 * @colour: a terminal, and NO_COLOR is not set
 * @width:  columns; 0: ask the system each time
 */
typedef struct dt_terminal {
    bool tty, utf8, colour;
    int width;
} dt_terminal;

dt_terminal dt_terminal_of(FILE *f);

/* Columns now: windows change. 80 where nobody knows. */
int dt_terminal_width(const dt_terminal *t, FILE *f);

#endif
