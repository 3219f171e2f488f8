/* A word for whoever waits at a terminal for work that says nothing while it lasts. */
#ifndef DT_TOOLS_PATIENCE_H
#define DT_TOOLS_PATIENCE_H

#include "engine/base/compiler.h"

/* "dnntrain: LINE" on stderr once two seconds have passed before dti_patience_end; only where that
 * is a terminal, as logs are read later. One at a time; until then SIGALRM is taken. */
void dti_patience_begin(const char *fmt, ...) DT_PRINTF(1, 2);
void dti_patience_end(void);

#endif
