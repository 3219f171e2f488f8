/* Persistent tensors where they live, between runs of plans: in the arena, or in a slot of a tier.
 */
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/runner/runner_internal.h"

/* What generation is the current one, the runner knows: a plan's slots are those of a run in which
 * none has changed. */
uint64_t dti_home_slot(const dt_runner *r, const dt_home *h)
{
    return r->turned[h - r->o.map->home] ? h->next : h->off;
}

unsigned char *dti_home_at(const dt_runner *r, const dt_home *h)
{
    if (h->tier == DT_AT_DEVICE)
        return r->base + h->off;
    return r->tier[h->tier].map != NULL ? r->tier[h->tier].map + dti_home_slot(r, h) : NULL;
}

bool dti_home_on_host(const dt_runner *r, const dt_home *h)
{
    return h->tier == DT_AT_DEVICE ? r->d->host_memory : r->tier[h->tier].map != NULL;
}

static dt_status copy(dt_runner *r, void *to, const void *from, uint64_t bytes, dt_err *err)
{
    DT_CHECK(r->d->copy(r->device, DT_COMPUTE_STREAM, to, from, bytes, err));
    return r->d->finish_queue(r->device, DT_COMPUTE_STREAM, err);
}

/* By a tier's read and write, which take whole slots. */
static dt_status move(dt_runner *r, const dt_home *h, void *to, const void *from, dt_err *err)
{
    const dti_tier *t = &r->tier[h->tier];
    const uint64_t slot = dti_home_slot(r, h);
    const dt_status st = from != NULL ? t->desc->write(t->state, slot, from, h->bytes, err)
                                      : t->desc->read(t->state, slot, to, h->bytes, err);
    DT_TRY(err, st, "%s %s, whose home is the %s", from != NULL ? "write" : "read", h->name,
        dt_tier_name((int)h->tier));
    return DT_OK;
}

dt_status dti_home_read(dt_runner *r, const dt_home *h, void *to, dt_err *err)
{
    const unsigned char *at = dti_home_at(r, h);
    return at != NULL ? copy(r, to, at, h->bytes, err) : move(r, h, to, NULL, err);
}

dt_status dti_home_write(dt_runner *r, const dt_home *h, const void *from, dt_err *err)
{
    unsigned char *at = dti_home_at(r, h);
    return at != NULL ? copy(r, at, from, h->bytes, err) : move(r, h, NULL, from, err);
}

dt_status dti_home_zero(dt_runner *r, const dt_home *h, dt_err *err)
{
    unsigned char *at = dti_home_at(r, h);
    dt_staging zeros;
    if (at != NULL && h->tier != DT_AT_DEVICE) {
        memset(at, 0, h->bytes);
        return DT_OK;
    }
    if (at != NULL)
        return dti_fill(r, h->off, 0, h->bytes, err);
    DT_CHECK(dti_staging_take(&zeros, r, (h->bytes + sizeof(float) - 1) / sizeof(float), err));
    memset(zeros.p, 0, h->bytes);
    const dt_status st = move(r, h, NULL, zeros.p, err);
    dti_staging_give(&zeros);
    return st;
}

void dti_runner_settle(dt_runner *r, bool keep)
{
    for (size_t i = 0; i < r->o.map->n; i++) {
        r->turned[i] ^= keep && r->beside[i];
        r->beside[i] = 0;
    }
}

/* To the arena behind what lives there, as all stays of it are. */
dt_status dti_home_bring(dt_runner *r, const dt_home *h, unsigned char **at, dt_err *err)
{
    *at = dti_home_at(r, h);
    if (*at != NULL)
        return DT_OK;
    *at = r->base + dti_align_up(r->o.map->bytes);
    if (dti_align_up(r->o.map->bytes) + h->bytes > r->o.arena_bytes)
        return DT_FAIL(err, DT_E_INTERNAL, "no room on the device for %s", h->name);
    if (r->d->host_memory)
        return move(r, h, *at, NULL, err);
    dt_staging via;
    DT_CHECK(dti_staging_take(&via, r, (h->bytes + sizeof(float) - 1) / sizeof(float), err));
    dt_status st = move(r, h, via.p, NULL, err);
    if (st == DT_OK)
        st = copy(r, *at, via.p, h->bytes, err);
    dti_staging_give(&via);
    return st;
}
