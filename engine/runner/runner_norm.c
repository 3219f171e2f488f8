/* The norm of all gradients, in double precision. Sums are cut by size alone and added up in a
 * fixed order, so any number of threads gives the same bits. */
#include <math.h>

#include "engine/runner/runner_parts.h"

enum { LANES = 16, PIECES = 256, GRAIN = 1 << 14 };

static double squares(const float *v, int64_t n)
{
    double sum[LANES] = {0}, all = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
#pragma omp simd
        for (int k = 0; k < LANES; k++)
            sum[k] += (double)v[i + k] * (double)v[i + k];
    for (; i < n; i++)
        sum[0] += (double)v[i] * (double)v[i];
    for (int k = 0; k < LANES; k++)
        all += sum[k];
    return all;
}

static double tensor_squares(const float *v, int64_t n)
{
    double sum[PIECES], all = 0;
    const int64_t even = (n + PIECES - 1) / PIECES, each = even > GRAIN ? even : GRAIN;
    const int64_t pieces = (n + each - 1) / each;
#pragma omp parallel for schedule(static) if (pieces > 1)
    for (int64_t i = 0; i < pieces; i++)
        sum[i] = squares(v + i * each, (i + 1) * each < n ? each : n - i * each);
    for (int64_t i = 0; i < pieces; i++)
        all += sum[i];
    return all;
}

static dt_status squares_of(dt_runner *r, const dt_floats *of, size_t n, double *sum, dt_err *err)
{
    if (r->o.driver != NULL)
        return r->o.driver->squares(r->device.self, of, n, sum, err);
    for (size_t i = 0; i < n; i++)
        sum[i] = tensor_squares(of[i].at, of[i].count);
    return DT_OK;
}

/* Up to DT_SQUARES tensors of the map, from *at on, for which a device is waited for once. */
static dt_status some(
    dt_runner *r, dt_port port, size_t *at, double *all, int32_t *bad, dt_err *err)
{
    const dt_map *m = r->o.map;
    dt_floats of[DT_SQUARES];
    double sum[DT_SQUARES];
    int32_t home[DT_SQUARES];
    size_t n = 0;
    for (; *at < m->n && n < DT_SQUARES; ++*at) {
        const dt_home *h = &m->home[*at];
        if (h->port != port)
            continue;
        home[n] = (int32_t)*at;
        of[n++] = (dt_floats){(const float *)(const void *)(r->arena.base + h->off),
            (int64_t)(h->bytes / sizeof(float))};
    }
    DT_CHECK(squares_of(r, of, n, sum, err));
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(sum[i]) && *bad < 0)
            *bad = home[i]; /* squares of floats never overflow a double */
        *all += sum[i];
    }
    return DT_OK;
}

dt_status dt_runner_norm(dt_runner *r, dt_port port, double *norm, int32_t *bad, dt_err *err)
{
    double all = 0;
    *bad = -1;
    for (size_t at = 0; at < r->o.map->n;)
        DT_CHECK(some(r, port, &at, &all, bad, err));
    *norm = sqrt(all);
    return DT_OK;
}
