/* A device that works on its own, as the runner holds it: one reservation with the numbers of a run
 * behind the arena, and pinned memory for what goes in and out. */
#include <inttypes.h>
#include <string.h>

#include "engine/runner/runner_parts.h"

dt_status dti_device_open(dt_runner *r, dt_err *err)
{
    const dt_driver *d = r->o.driver;
    dti_device *v = &r->device;
    const uint64_t arena = (r->o.arena_bytes + DT_ALIGN - 1) / DT_ALIGN * DT_ALIGN;
    void *base, *here;
    DT_TRY(err, d->open(DT_STREAMS, &v->self, err), "open the %s device", d->name);
    DT_TRY(err, d->reserve(v->self, arena + sizeof *v->there, &base, err),
        "reserve %" PRIu64 " bytes of %s memory", arena, d->name);
    r->arena = (dt_arena){.base = base, .bytes = r->o.arena_bytes};
    v->there = (dti_control *)(void *)(r->arena.base + arena);
    DT_CHECK(d->pin(v->self, sizeof *v->here, &here, err));
    v->here = here;
    memset(v->here, 0, sizeof *v->here);
    for (int t = 0; t < DT_TIERS; t++)
        if (r->tier[t].map != NULL)
            DT_TRY(err, d->reach(v->self, r->tier[t].map, r->o.tier_bytes[t], err),
                "pin %" PRIu64 " bytes of the %s tier", r->o.tier_bytes[t], dt_tier_name(t));
    return DT_OK;
}

void dti_device_forget(dt_runner *r, dti_plan *p)
{
    for (size_t i = 0; i < p->n_stretch; i++)
        for (int k = 0; k < 2; k++)
            if (p->stretch[i].kept[k] != NULL)
                r->o.driver->forget(r->device.self, p->stretch[i].kept[k]);
    p->n_stretch = 0;
}

void dti_device_close(dt_runner *r)
{
    const dt_driver *d = r->o.driver;
    dti_device *v = &r->device;
    if (d == NULL || v->self == NULL)
        return;
    if (v->block[0].base != NULL)
        d->unpin(v->self, v->block[0].base);
    if (v->here != NULL)
        d->unpin(v->self, v->here);
    for (int s = 0; s < DT_STREAMS; s++)
        if (r->stage[s].block != NULL)
            d->unpin(v->self, r->stage[s].block);
    if (r->arena.base != NULL)
        d->release(v->self, r->arena.base);
    d->close(v->self);
    memset(r->stage, 0, sizeof r->stage);
    r->arena = (dt_arena){0};
    *v = (dti_device){0};
}

/* Room for the largest batch, twice. What was kept knows the old addresses. */
dt_status dti_device_input(dt_runner *r, uint64_t image, uint64_t labels, dt_err *err)
{
    const dt_driver *d = r->o.driver;
    dti_device *v = &r->device;
    if (image <= v->image_bytes && labels <= v->label_bytes)
        return DT_OK;
    const uint64_t most_image = image > v->image_bytes ? image : v->image_bytes;
    const uint64_t most_labels = labels > v->label_bytes ? labels : v->label_bytes;
    const uint64_t each = (most_image + most_labels + DT_ALIGN - 1) / DT_ALIGN * DT_ALIGN;
    void *base;
    DT_TRY(
        err, d->pin(v->self, 2 * each, &base, err), "pin %" PRIu64 " bytes for batches", 2 * each);
    for (size_t i = 0; i < r->n_plan; i++)
        dti_device_forget(r, &r->plan[i]);
    if (v->block[0].base != NULL)
        d->unpin(v->self, v->block[0].base);
    for (int k = 0; k < 2; k++)
        v->block[k] = (dti_block){.base = (unsigned char *)base + (uint64_t)k * each};
    v->image_bytes = most_image;
    v->label_bytes = most_labels;
    return DT_OK;
}
