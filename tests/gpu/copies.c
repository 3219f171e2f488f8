/* How fast the driver copies between pinned memory and the card: out, in, and both at once. Prints
 * a line of JSON. Built with the tests, run by tests/gpu/bench. */
#include <stdio.h>

#include "engine/base/clock.h"
#include "engine/device.h"

enum { TIMES = 20 };
static const uint64_t block = (uint64_t)256 << 20;

typedef struct copies {
    const dt_driver *d;
    void *self;
    void *there, *out, *in;
} copies;

static dt_status put(const copies *c, bool out, bool in, dt_err *err)
{
    unsigned char *const there = c->there;
    if (out)
        DT_CHECK(c->d->copy(c->self, 1, c->out, there, block, err));
    return in ? c->d->copy(c->self, 2, there + block, c->in, block, err) : DT_OK;
}

/* Bytes a second, each way counted, in the best of three. */
static dt_status time_copies(const copies *c, bool out, bool in, double *rate, dt_err *err)
{
    *rate = 0;
    for (int turn = 0; turn < 3; turn++) {
        DT_CHECK(put(c, out, in, err));
        DT_CHECK(c->d->finish(c->self, err));
        const double from = dt_seconds();
        for (int i = 0; i < TIMES; i++)
            DT_CHECK(put(c, out, in, err));
        DT_CHECK(c->d->finish(c->self, err));
        const double bytes = (double)block * TIMES * ((out ? 1 : 0) + (in ? 1 : 0));
        const double now = bytes / (dt_seconds() - from);
        *rate = now > *rate ? now : *rate;
    }
    return DT_OK;
}

static dt_status measure(copies *c, dt_err *err)
{
    double out, in, both;
    dt_driver_facts f;
    DT_CHECK(c->d->reserve(c->self, 2 * block, &c->there, err));
    DT_CHECK(c->d->pin(c->self, block, &c->out, err));
    DT_CHECK(c->d->pin(c->self, block, &c->in, err));
    DT_CHECK(c->d->facts(c->self, &f, err));
    DT_CHECK(time_copies(c, true, false, &out, err));
    DT_CHECK(time_copies(c, false, true, &in, err));
    DT_CHECK(time_copies(c, true, true, &both, err));
    printf("{\"device\": \"%s\", \"out_gb_s\": %.2f, \"in_gb_s\": %.2f, \"both_gb_s\": %.2f}\n",
        f.about, out / 1e9, in / 1e9, both / 1e9);
    return DT_OK;
}

int main(void)
{
    static dt_err err;
    copies c = {0};
    dt_status st = dti_device_load(DT_CUDA, &err);
    if (st == DT_OK) {
        c.d = dt_device_driver(DT_CUDA);
        st = c.d->open(3, &c.self, &err);
    }
    if (st == DT_OK)
        st = measure(&c, &err);
    if (c.in != NULL)
        c.d->unpin(c.self, c.in);
    if (c.out != NULL)
        c.d->unpin(c.self, c.out);
    if (c.there != NULL)
        c.d->release(c.self, c.there);
    if (c.self != NULL)
        c.d->close(c.self);
    fputs(err.text, stderr);
    return (int)st;
}
