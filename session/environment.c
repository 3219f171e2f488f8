/* Facts of this machine and process: processor, system, date, memory. */
#include "session/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

/* The value of the first "key ... : value" line of a file under /proc. */
static bool proc_value(const char *path, const char *key, char to[DT_FACT_BYTES])
{
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return false;
    char line[4096]; /* flags of a processor are longer: pieces of them match no key */
    bool found = false;
    while (!found && fgets(line, sizeof line, f) != NULL) {
        const char *colon = strchr(line, ':');
        if (colon == NULL || strncmp(line, key, strlen(key)) != 0)
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(to, DT_FACT_BYTES, "%.*s", (int)strcspn(colon, "\n"), colon);
        found = true;
    }
    fclose(f);
    return found;
}

const char *dt_cpu_name(char to[DT_FACT_BYTES])
{
    struct utsname u;
    if (!proc_value("/proc/cpuinfo", "model name", to))
        snprintf(to, DT_FACT_BYTES, "%s", uname(&u) == 0 ? u.machine : "unknown");
    return to;
}

const char *dt_system_name(char to[DT_FACT_BYTES])
{
    struct utsname u;
    if (uname(&u) != 0)
        snprintf(to, DT_FACT_BYTES, "unknown");
    else
        snprintf(to, DT_FACT_BYTES, "%.60s %.100s %.60s", u.sysname, u.release, u.machine);
    return to;
}

const char *dt_date(char to[DT_FACT_BYTES])
{
    const time_t now = time(NULL);
    struct tm tm;
    if (localtime_r(&now, &tm) == NULL ||
        strftime(to, DT_FACT_BYTES, "%Y-%m-%dT%H:%M:%S%z", &tm) == 0)
        snprintf(to, DT_FACT_BYTES, "unknown");
    return to;
}

/* Not getrusage: its peak includes that of the program which started us. */
uint64_t dti_process_peak(void)
{
    char text[DT_FACT_BYTES];
    if (!proc_value("/proc/self/status", "VmHWM", text))
        return 0;
    return (uint64_t)strtoull(text, NULL, 10) * 1024;
}
