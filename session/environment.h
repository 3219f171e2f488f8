/* Facts of this machine and process that results and reports depend on. */
#ifndef DT_SESSION_ENVIRONMENT_H
#define DT_SESSION_ENVIRONMENT_H

#include "engine/base/compiler.h"

enum { DT_FACT_BYTES = 256 };

/* "Intel(R) Xeon(R) ..."; the architecture where the system tells no more. */
const char *dt_cpu_name(char to[DT_FACT_BYTES]);

/* "Linux 6.1.0 x86_64" */
const char *dt_system_name(char to[DT_FACT_BYTES]);

/* Local date and time with zone: "2024-05-01T12:00:00+0200". */
const char *dt_date(char to[DT_FACT_BYTES]);

/* Most memory this process has had resident, in bytes; 0 when the system does not tell. */
uint64_t dti_process_peak(void);

#endif
