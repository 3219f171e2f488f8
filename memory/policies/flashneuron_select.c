/* The two phases. */
#include "memory/policies/flashneuron_select.h"

static bool packs(const dti_flash_value *v)
{
    return v->ratio > 1;
}

static double seconds(const dti_flash_value *v, size_t n, bool packed)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        if (v[i].chosen)
            sum += packed && packs(&v[i]) ? v[i].seconds / v[i].ratio : v[i].seconds;
    return sum;
}

/* Of what stays and can be packed the one whose ratio is best; NULL: there is none. */
static dti_flash_value *best(dti_flash_value *v, size_t n)
{
    dti_flash_value *found = NULL;
    for (size_t i = 0; i < n; i++)
        if (!v[i].chosen && packs(&v[i]) && (found == NULL || v[i].ratio > found->ratio))
            found = &v[i];
    return found;
}

static dti_flash_value *last_that_does_not_pack(dti_flash_value *v, size_t n)
{
    while (n > 0 && (!v[n - 1].chosen || packs(&v[n - 1])))
        n--;
    return n > 0 ? &v[n - 1] : NULL;
}

/* Whether enough was there to take its place. */
static bool exchange(dti_flash_value *v, size_t n, dti_flash_value *out, uint64_t spill)
{
    uint64_t there = 0, go = 0;
    for (size_t i = 0; i < n; i++) {
        go += v[i].chosen ? v[i].bytes : 0;
        there += !v[i].chosen && packs(&v[i]) ? v[i].bytes : 0;
    }
    if (go - out->bytes + there < spill)
        return false;
    out->chosen = false;
    for (go -= out->bytes; go < spill;) {
        dti_flash_value *in = best(v, n);
        in->chosen = true;
        go += in->bytes;
    }
    return true;
}

bool dti_flash_select(dti_flash_value *v, size_t n, uint64_t spill, double forward)
{
    uint64_t go = 0;
    for (size_t i = 0; i < n; i++) {
        v[i].chosen = go < spill;
        go += v[i].chosen ? v[i].bytes : 0;
    }
    if (seconds(v, n, false) <= forward)
        return false;
    do {
        dti_flash_value *out = last_that_does_not_pack(v, n);
        if (out == NULL || !exchange(v, n, out, spill))
            break;
    } while (seconds(v, n, true) > forward);
    return true;
}
