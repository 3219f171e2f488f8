#include "tests/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
#error "not with -ffast-math: the NaN checks would vanish"
#endif

double dt_relative_error(const float *got, const float *want, size_t n)
{
    double diff = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)got[i] - (double)want[i];
        diff += d * d;
        norm += (double)want[i] * (double)want[i];
    }
    if (!(n > 0) || !isfinite(diff) || !isfinite(norm))
        return HUGE_VAL;
    return diff == 0.0 ? 0.0 : sqrt(diff) / (norm > 0 ? sqrt(norm) : 1.0);
}

void dt_assert_status(dt_status got, dt_status want, const dt_err *err, const char *text,
    const char *expr, const char *file, int line)
{
    const char *trail = err != NULL ? err->text : "";
    if (got == want && (text == NULL || strstr(trail, text) != NULL))
        return;
    print_error("%s gave '%s', expected '%s'%s%s\ntrail: %s\n", expr, dt_status_name(got),
        dt_status_name(want), text != NULL ? " with " : "", text != NULL ? text : "", trail);
    _fail(file, line);
}

bool dt_small_scale(void)
{
    const char *scale = getenv("DT_TEST_SCALE");
    return scale != NULL && strcmp(scale, "small") == 0;
}

/* A few buffers in turn, so that two paths can stand in one call. */
static char *slot(void)
{
    static char buffers[8][4096];
    static unsigned next;
    return buffers[next++ % 8];
}

static const char *join(const char *base, const char *below)
{
    char *p = slot();
    if (snprintf(p, 4096, "%s/%s", base, below) >= 4096)
        abort();
    return p;
}

const char *dt_source_path(const char *below)
{
    const char *base = getenv("DT_SOURCE");
    return join(base != NULL ? base : ".", below);
}

const char *dt_shared(const char *below)
{
    const char *base = getenv("DT_SHARED");
    struct stat st;
    const char *root = base != NULL && *base != '\0' ? base : dt_source_path("../shared");
    return stat(root, &st) == 0 ? join(root, below) : NULL;
}

static char temp_root[64];

static void remove_temp(void)
{
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", temp_root);
    if (system(cmd) != 0)
        perror(temp_root);
}

const char *dt_temp_path(const char *below)
{
    if (temp_root[0] == '\0') {
        strcpy(temp_root, "/tmp/dt-test-XXXXXX");
        if (mkdtemp(temp_root) == NULL)
            abort();
        atexit(remove_temp);
    }
    return join(temp_root, below);
}
