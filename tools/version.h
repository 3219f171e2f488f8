#ifndef DT_TOOLS_VERSION_H
#define DT_TOOLS_VERSION_H

#define DT_VERSION "0.1.0"

#endif
