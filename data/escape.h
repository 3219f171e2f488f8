/* File names are bytes a stranger chose; messages and logs are lines of UTF-8. */
#ifndef DT_DATA_ESCAPE_H
#define DT_DATA_ESCAPE_H

#include "engine/base/compiler.h"

enum { DTI_ESCAPED_BYTES = 512 };

/* A name made fit for one line of a message: \n, \t, \r, \\, \" and \xHH for what is not printable
 * UTF-8. A long name keeps its head and its tail around "...". */
typedef struct dti_escaped {
    char text[DTI_ESCAPED_BYTES];
} dti_escaped;

dti_escaped dti_escape(const char *name);

#endif
