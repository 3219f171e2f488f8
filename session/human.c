/* Numbers as people read them. */
#include "session/human.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *dt_human_bytes(char to[DT_HUMAN_BYTES], uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        snprintf(to, DT_HUMAN_BYTES, "%d B", (int)bytes);
        return to;
    }
    double v = (double)bytes / 1024;
    size_t unit = 0;
    for (; v >= 1023.995 && unit + 1 < DT_COUNT(units); unit++)
        v /= 1024;
    dt_snprintf(to, DT_HUMAN_BYTES, "%.2f %s", v, units[unit]);
    return to;
}

const char *dt_human_exact(char to[DT_HUMAN_EXACT], uint64_t bytes)
{
    char size[DT_HUMAN_BYTES], count[DT_HUMAN_BYTES];
    snprintf(to, DT_HUMAN_EXACT, "%s (%s byte%s)", dt_human_bytes(size, bytes),
        dt_human_count(count, bytes), bytes == 1 ? "" : "s");
    return to;
}

const char *dt_human_time(char to[DT_HUMAN_BYTES], double seconds)
{
    if (!(seconds >= 0 && seconds < 1e9)) {
        memcpy(to, "--:--", 6);
        return to;
    }
    const int64_t s = (int64_t)(seconds + 0.5);
    const int d = (int)(s / 86400), h = (int)(s / 3600), m = (int)(s / 60 % 60);
    if (h >= 100)
        snprintf(to, DT_HUMAN_BYTES, "%d d %02d h", d, h % 24);
    else if (h > 0)
        snprintf(to, DT_HUMAN_BYTES, "%d:%02d:%02d", h, m, (int)(s % 60));
    else
        snprintf(to, DT_HUMAN_BYTES, "%d:%02d", m, (int)(s % 60));
    return to;
}

const char *dt_human_seconds(char to[DT_HUMAN_BYTES], double seconds)
{
    if (!(seconds < 59.95))
        return dt_human_time(to, seconds);
    if (seconds > 0 && seconds < 0.99995e-4)
        dt_snprintf(to, DT_HUMAN_BYTES, "%.3g ms", 1e3 * seconds);
    else if (seconds < 0.99995)
        dt_snprintf(to, DT_HUMAN_BYTES, "%.1f ms", 1e3 * seconds);
    else
        dt_snprintf(to, DT_HUMAN_BYTES, "%.1f s", seconds);
    return to;
}

const char *dt_human_step(char to[DT_HUMAN_BYTES], double seconds)
{
    dt_snprintf(to, DT_HUMAN_BYTES, seconds > 0 && seconds < 1e-3 ? "%.4g" : "%.6f", seconds);
    return to;
}

const char *dt_human_number(char to[DT_HUMAN_BYTES], double v)
{
    const double a = fabs(v);
    if (!isfinite(v))
        snprintf(to, DT_HUMAN_BYTES, "%s", isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
    else if (a != 0 && (a < 1e-3 || a >= 1e6))
        dt_snprintf(to, DT_HUMAN_BYTES, "%.3e", v);
    else
        dt_snprintf(to, DT_HUMAN_BYTES, "%.*f", a < 0.1 ? 5 : a < 100 ? 3 : a < 1e4 ? 1 : 0, v);
    return to;
}

const char *dt_human_flops(char to[DT_HUMAN_BYTES], double flops)
{
    static const char *const unit[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"};
    size_t i = 0;
    for (; flops >= 999.5 && i + 1 < DT_COUNT(unit); i++)
        flops /= 1e3;
    dt_snprintf(to, DT_HUMAN_BYTES, "%.3g %s", flops, unit[i]);
    return to;
}

const char *dt_human_rate(char to[DT_HUMAN_BYTES], double v)
{
    if (!isfinite(v) || v < 0)
        snprintf(to, DT_HUMAN_BYTES, "-");
    else if (v >= 99.95)
        dt_human_count(to, (uint64_t)fmin(v + 0.5, 1e15));
    else if (v > 0 && v < 0.0995)
        dt_snprintf(to, DT_HUMAN_BYTES, "%.2g", v);
    else
        dt_snprintf(to, DT_HUMAN_BYTES, "%.*f", v < 9.995 ? 2 : 1, v);
    return to;
}

const char *dt_human_role(char to[DT_HUMAN_BYTES], dt_role role)
{
    snprintf(to, DT_HUMAN_BYTES, "%s", dt_role_name(role));
    for (char *c = to; *c != '\0'; c++)
        *c = *c == '_' ? ' ' : *c;
    return to;
}

const char *dt_human_input(char to[DT_HUMAN_BYTES], const dt_shape *image, int64_t tokens)
{
    if (tokens > 0)
        snprintf(to, DT_HUMAN_BYTES, "%" PRId64 " tokens", tokens);
    else
        snprintf(to, DT_HUMAN_BYTES, "image %" PRId64 "x%" PRId64 "x%" PRId64, image->h, image->w,
            image->c);
    return to;
}

const char *dt_human_samples(const dt_shape *image, int64_t tokens)
{
    return tokens > 0 ? "sequences" : image->h * image->w > 1 ? "images" : "samples";
}
