/* Which program this is; dt_build_facts in include/dnntrain.h tells the rest. */
#ifndef DT_SESSION_VERSION_H
#define DT_SESSION_VERSION_H

/* "0.1.0", as CMakeLists.txt has it. */
const char *dt_version(void);

#endif
