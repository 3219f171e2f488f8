/* Samples a second: a ring of the latest rates, sorted when it is asked about. */
#include "session/rate.h"

#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers.h"

bool dt_rate_init(dt_rate *r)
{
    *r = (dt_rate){.kept = dt_alloc(2 * DTI_RATE_STEPS, sizeof *r->kept)};
    return r->kept != NULL;
}

void dt_rate_deinit(dt_rate *r)
{
    dt_free(r->kept);
    *r = (dt_rate){0};
}

void dt_rate_add(dt_rate *r, double per_second)
{
    if (!isfinite(per_second))
        return;
    const int64_t place = r->n > 0 ? r->n - 1 : 0;
    r->kept[place % DTI_RATE_STEPS] = per_second;
    r->n++;
}

double dt_rate_median(const dt_rate *r)
{
    if (r->n == 0)
        return (double)NAN;
    const int64_t rates = r->n > 1 ? r->n - 1 : 1;
    const int64_t n = rates < DTI_RATE_STEPS ? rates : DTI_RATE_STEPS;
    double *sorted = r->kept + DTI_RATE_STEPS;
    memcpy(sorted, r->kept, (size_t)n * sizeof *sorted);
    return dt_median(sorted, (size_t)n);
}
