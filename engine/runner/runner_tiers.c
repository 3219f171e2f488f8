/* The runner's tiers, and room for packed bytes on their way to them. */
#include <inttypes.h>

#include "engine/base/alloc.h"
#include "engine/runner/runner_parts.h"

static dt_status reserve(dt_runner *r, dt_tier tier, dt_err *err)
{
    dti_tier *t = &r->tier[tier];
    const dt_tier_opts o = {r->o.tier_bytes[tier], r->o.disk_path, r->o.checksum};
    if (o.bytes == 0)
        return DT_OK;
    if (r->o.tier[tier] == NULL)
        return DT_FAIL(err, DT_E_INTERNAL, "%" PRIu64 " bytes of the %s tier, and no such tier",
            o.bytes, dt_tier_name((int)tier));
    DT_TRY(err, r->o.tier[tier]->reserve(&o, &t->state, &t->note, err),
        "reserve %" PRIu64 " bytes of the %s tier", o.bytes, dt_tier_name((int)tier));
    t->desc = r->o.tier[tier];
    t->map = t->desc->map != NULL ? t->desc->map(t->state) : NULL;
    return DT_OK;
}

dt_status dti_tiers_reserve(dt_runner *r, dt_err *err)
{
    for (int t = 0; t < DT_TIERS; t++)
        DT_CHECK(reserve(r, (dt_tier)t, err));
    return DT_OK;
}

void dti_tiers_release(dt_runner *r)
{
    for (int t = 0; t < DT_TIERS; t++)
        if (r->tier[t].desc != NULL)
            r->tier[t].desc->release(r->tier[t].state);
    for (int s = 0; s < DT_STREAMS; s++)
        dt_free(r->stage[s].block);
}

/* It begins where slots of the disk do, which unbuffered files want of memory too. */
dt_status dti_stage_reserve(dt_runner *r, dt_stream stream, uint64_t bytes, dt_err *err)
{
    dti_stage *g = &r->stage[stream];
    const uint64_t align = dt_tier_align(DT_TIER_DISK);
    size_t all;
    if (bytes <= g->bytes)
        return DT_OK;
    void *block = NULL;
    const dt_driver *d = r->o.driver;
    if (!dt_add_bytes(bytes, align, &all))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for %" PRIu64 " bytes on their way", bytes);
    if (d != NULL)
        DT_TRY(err, d->pin(r->device.self, all, &block, err), "pin %zu bytes for the disk", all);
    else if ((block = dt_alloc(all, 1)) == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for %" PRIu64 " packed bytes", bytes);
    if (d != NULL && g->block != NULL)
        d->unpin(r->device.self, g->block);
    else
        dt_free(g->block);
    g->block = block;
    g->base = (unsigned char *)block + (align - (uintptr_t)block % align) % align;
    g->bytes = bytes;
    return DT_OK;
}

const char *dt_runner_note(const dt_runner *r, dt_tier tier)
{
    return r->tier[tier].note;
}
