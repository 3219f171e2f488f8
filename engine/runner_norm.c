/* The norm of all gradients, in double precision. Sums are cut by size alone and added up in a
 * fixed order, so any number of threads gives the same bits. */
#include <math.h>

#include "engine/runner_parts.h"

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

static dt_status home_squares(dt_runner *r, const dt_home *h, double *sum, dt_err *err)
{
    const void *v = r->arena.base + h->off;
    const int64_t n = (int64_t)(h->bytes / sizeof(float));
    if (r->o.driver != NULL)
        return r->o.driver->squares(r->device.self, v, n, sum, err);
    *sum = tensor_squares(v, n);
    return DT_OK;
}

dt_status dt_runner_norm(dt_runner *r, dt_port port, double *norm, int32_t *bad, dt_err *err)
{
    const dt_map *m = r->o.map;
    double all = 0;
    *bad = -1;
    for (size_t i = 0; i < m->n; i++) {
        const dt_home *h = &m->home[i];
        double one;
        if (h->port != port)
            continue;
        DT_CHECK(home_squares(r, h, &one, err));
        if (!isfinite(one) && *bad < 0)
            *bad = (int32_t)i; /* squares of floats never overflow a double */
        all += one;
    }
    *norm = sqrt(all);
    return DT_OK;
}
