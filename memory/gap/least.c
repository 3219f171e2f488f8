/* Bytes at least, by sums over the places of a curve. */
#include "memory/gap/least.h"

#include <string.h>

#include "engine/base/alloc.h"

dt_status dti_least_open(
    dti_least *out, const dti_load_curve *curve, dt_program *p, const dt_pass_env *env, dt_err *err)
{
    dt_score score = {0};
    *out = (dti_least){.curve = curve, .more = dt_alloc(curve->n + 1, sizeof *out->more)};
    if (out->more == NULL)
        return dti_pass_no_memory(err);
    DT_CHECK(dti_pass_score(env, p, false, &score, err));
    const uint64_t all = dti_least_bytes(out);
    out->less = all > score.device ? all - score.device : 0;
    return DT_OK;
}

void dti_least_close(dti_least *l)
{
    dt_free(l->more);
    *l = (dti_least){0};
}

void dti_least_clear(dti_least *l)
{
    memset(l->more, 0, (l->curve->n + 1) * sizeof *l->more);
}

void dti_least_away(dti_least *l, int32_t release, int32_t fetch, uint64_t bytes)
{
    l->more[release + 1] += (int64_t)bytes;
    l->more[fetch] -= (int64_t)bytes;
}

uint64_t dti_least_bytes(const dti_least *l)
{
    uint64_t most = 0;
    int64_t away = 0;
    for (size_t k = 0; k < l->curve->n; k++) {
        away += l->more[k];
        const uint64_t here = l->curve->load[k] - (uint64_t)away;
        most = here > most ? here : most;
    }
    return most - (l->less < most ? l->less : most);
}
