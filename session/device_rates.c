/* Copies and codecs of a device, timed. */
#include "session/device_rates.h"

#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/clock.h"
#include "engine/map.h"

struct dti_device_rates {
    const dt_driver *d;
    void *self;
    uint64_t bytes;
    unsigned char *there, *pinned;
};

static dt_status reserve(dti_device_rates *r, dt_err *err)
{
    void *there = NULL, *pinned = NULL;
    DT_CHECK(r->d->open(1, &r->self, err));
    DT_CHECK(r->d->reserve(r->self, r->bytes, &there, err));
    r->there = there;
    DT_CHECK(r->d->pin(r->self, r->bytes + DT_ALIGN, &pinned, err));
    r->pinned = pinned;
    memset(r->pinned, 1, (size_t)r->bytes);
    return r->d->copy(r->self, 0, r->there, r->pinned, r->bytes, err);
}

dt_status dti_device_rates_open(
    dti_device_rates **out, const dt_driver *d, uint64_t bytes, dt_err *err)
{
    dti_device_rates *r = *out = dt_alloc(1, sizeof *r);
    if (r == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to measure a device");
    r->d = d;
    r->bytes = bytes;
    DT_CHECK(reserve(r, err));
    return d->finish(r->self, err);
}

void dti_device_rates_close(dti_device_rates *r)
{
    if (r == NULL)
        return;
    if (r->pinned != NULL)
        r->d->unpin(r->self, r->pinned);
    if (r->there != NULL)
        r->d->release(r->self, r->there);
    if (r->self != NULL)
        r->d->close(r->self);
    dt_free(r);
}

dt_status dti_device_rates_copy(
    dti_device_rates *r, bool to, uint64_t at, size_t bytes, dt_err *err)
{
    DT_ASSERT(at <= r->bytes && bytes <= r->bytes - at);
    DT_CHECK(r->d->copy(r->self, 0, (to ? r->there : r->pinned) + at,
        (to ? r->pinned : r->there) + at, bytes, err));
    return r->d->finish_queue(r->self, 0, err);
}

dt_status dti_device_rates_own(dti_device_rates *r, double *bytes_a_second, dt_err *err)
{
    enum { TURNS = 3, COPIES = 8 };
    const uint64_t half = r->bytes / 2;
    *bytes_a_second = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        const double from = dt_seconds();
        for (int i = 0; i < COPIES; i++)
            DT_CHECK(r->d->copy(r->self, 0, r->there + half, r->there, half, err));
        DT_CHECK(r->d->finish_queue(r->self, 0, err));
        const double rate = 2.0 * COPIES * (double)half / (dt_seconds() - from);
        *bytes_a_second = rate > *bytes_a_second ? rate : *bytes_a_second;
    }
    return DT_OK;
}

dt_status dti_device_rates_codec(dti_device_rates *r, const dt_codec *codec, const float *values,
    size_t count, size_t packed, bool across, double *pack, double *unpack, dt_err *err)
{
    const size_t bytes = count * sizeof *values, quarter = (size_t)(r->bytes / 4);
    unsigned char *const to = (across ? r->pinned : r->there) + quarter;
    int *const overflow = (int *)(void *)(r->pinned + r->bytes);
    DT_ASSERT(bytes <= quarter && packed <= 2 * quarter);
    memcpy(r->pinned, values, bytes);
    DT_CHECK(dti_device_rates_copy(r, true, 0, bytes, err));
    *overflow = 0;
    const double from = dt_seconds();
    DT_CHECK(r->d->pack(r->self, 0, codec, r->there, count, to, packed, overflow, err));
    DT_CHECK(r->d->finish_queue(r->self, 0, err));
    const double then = dt_seconds();
    DT_CHECK(r->d->unpack(r->self, 0, codec, to, packed, r->there + 3 * quarter, count, err));
    DT_CHECK(r->d->finish_queue(r->self, 0, err));
    *pack = then - from;
    *unpack = dt_seconds() - then;
    return *overflow == 0 ? DT_OK
                          : DT_FAIL(err, DT_E_INTERNAL, "%s packs into no capacity", codec->name);
}
