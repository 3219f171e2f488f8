/* How fast codecs pack and unpack made-up values, by how many of them are not zero. */
#include <stdio.h>

#include "engine/base/alloc.h"
#include "engine/base/clock.h"
#include "engine/base/philox.h"
#include "memory/codec.h"
#include "session/profile/profile_internal.h"

enum { SEED = 7 };

/* @device: NULL: the processor packs */
typedef struct packing {
    dt_costs *to;
    const dt_driver *driver;
    dti_device_rates *device;
    float *values, *back;
    unsigned char *packed;
    size_t count, bytes;
} packing;

static void fill(packing *k, double density)
{
    for (size_t i = 0; i < k->count; i += 2) {
        const dt_u32x4 r = dt_random(SEED, DT_RANDOM_TEST, 0, 0, (uint64_t)i);
        for (size_t j = 0; j < 2; j++)
            k->values[i + j] =
                (double)dt_unit(r.v[2 * j]) < density ? dt_unit(r.v[2 * j + 1]) + 0.5f : 0.0f;
    }
}

/* @n values once, by the processor. */
static dt_status pack_here(
    packing *k, const dt_codec *codec, size_t n, double *pack, double *unpack, dt_err *err)
{
    const double from = dt_seconds();
    if (!dt_pack(codec, k->values, n, k->packed, k->bytes))
        return DT_FAIL(err, DT_E_INTERNAL, "%s packs into no capacity", codec->name);
    const double then = dt_seconds();
    DT_CHECK(dt_unpack(codec, k->packed, k->bytes, k->back, n, err));
    *pack = then - from;
    *unpack = dt_seconds() - then;
    return DT_OK;
}

static dt_status pack_once(packing *k, const dt_codec *codec, size_t n, bool across, double *pack,
    double *unpack, dt_err *err)
{
    return k->device != NULL ? dti_device_rates_codec(k->device, codec, k->values, n,
                                   dt_packed_bytes(codec, n, 1), across, pack, unpack, err)
                             : pack_here(k, codec, n, pack, unpack, err);
}

/* By few values where many would take too long. */
static dt_status time_codec(
    packing *k, const dt_codec *codec, double density, bool across, dt_err *err)
{
    enum { TURNS = 5, FEW = 256 }; /* the few are so small a share */
    static const double patience = 0.5;
    double pack[TURNS], unpack[TURNS];
    dt_codec_rate rate = {.density = density, .across = across};
    snprintf(rate.codec, sizeof rate.codec, "%s", codec->name);
    size_t n = k->count / FEW;
    DT_CHECK(pack_once(k, codec, n, across, pack, unpack, err));
    n = (pack[0] + unpack[0]) * FEW > patience ? n : k->count;
    for (int i = 0; i < TURNS; i++)
        DT_CHECK(pack_once(k, codec, n, across, &pack[i], &unpack[i], err));
    const double bytes = (double)(n * sizeof(float));
    rate.pack = bytes / dti_lower_quartile(pack, TURNS);
    rate.unpack = bytes / dti_lower_quartile(unpack, TURNS);
    return dt_costs_add_rate(k->to, &rate, err);
}

/* On a device beside the values and across the link, if it has the codec. */
static dt_status time_near_and_far(packing *k, const dt_codec *codec, double density, dt_err *err)
{
    if (k->device != NULL && !k->driver->can_pack(codec))
        return DT_OK;
    DT_CHECK(time_codec(k, codec, density, false, err));
    return k->device != NULL ? time_codec(k, codec, density, true, err) : DT_OK;
}

static dt_status time_codecs(packing *k, dt_err *err)
{
    static const double densities[] = {0.05, 0.35, 0.65, 1};
    size_t n;
    const dt_codec *const *all = dt_codec_all(&n);
    for (size_t d = 0; d < DT_COUNT(densities); d++) {
        fill(k, densities[d]);
        for (size_t i = 0; i < n; i++)
            if (all[i]->sparse || d + 1 == DT_COUNT(densities))
                DT_CHECK(time_near_and_far(k, all[i], densities[d], err));
    }
    return DT_OK;
}

dt_status dti_profile_codecs(
    dt_costs *to, const dt_driver *driver, dti_device_rates *device, dt_err *err)
{
    packing k = {.to = to, .driver = driver, .device = device, .count = DTI_LARGE / sizeof(float)};
    size_t n;
    const dt_codec *const *all = dt_codec_all(&n);
    for (size_t i = 0; i < n; i++) {
        const size_t bytes = dt_packed_bytes(all[i], k.count, 1);
        k.bytes = bytes > k.bytes ? bytes : k.bytes;
    }
    k.values = dt_alloc(k.count, sizeof *k.values);
    k.back = dt_alloc(k.count, sizeof *k.back);
    k.packed = dt_alloc(k.bytes, 1);
    dt_status st = k.values != NULL && k.back != NULL && k.packed != NULL
                       ? time_codecs(&k, err)
                       : DT_FAIL(err, DT_E_NOMEM, "no memory to measure codecs");
    dt_free(k.values);
    dt_free(k.back);
    dt_free(k.packed);
    return st;
}
