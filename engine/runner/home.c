/* Persistent tensors where they live, between runs of plans: in the arena, or in a slot of a tier.
 */
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers.h"
#include "engine/runner/runner_internal.h"

uint64_t dti_home_slot(const dt_runner *r, const dt_home *h, uint64_t slot)
{
    const uint64_t apart = h->next - h->off;
    if (!r->turned[h - r->o.map->home])
        return slot;
    return slot < h->next ? slot + apart : slot - apart;
}

static uint64_t slot_of(const dt_runner *r, const dt_home *h)
{
    return dti_home_slot(r, h, h->off);
}

unsigned char *dti_home_at(const dt_runner *r, const dt_home *h)
{
    if (h->tier == DT_AT_DEVICE)
        return r->base + h->off;
    return r->tier[h->tier].map != NULL ? r->tier[h->tier].map + slot_of(r, h) : NULL;
}

bool dti_home_on_host(const dt_runner *r, const dt_home *h)
{
    return h->tier == DT_AT_DEVICE ? r->d->host_memory : r->tier[h->tier].map != NULL;
}

static dt_status copy(dt_runner *r, void *to, const void *from, uint64_t bytes, dt_err *err)
{
    DT_CHECK(r->d->copy(r->device, DT_MAIN_STREAM, to, from, bytes, err));
    return r->d->finish_queue(r->device, DT_MAIN_STREAM, err);
}

/* By a tier's read and write. */
static dt_status move(dt_runner *r, const dt_home *h, uint64_t at, void *to, const void *from,
    uint64_t bytes, dt_err *err)
{
    const dti_tier *t = &r->tier[h->tier];
    const uint64_t slot = slot_of(r, h) + at;
    const dt_status st = from != NULL ? t->desc->write(t->state, slot, from, bytes, err)
                                      : t->desc->read(t->state, slot, to, bytes, err);
    DT_TRY(err, st, "%s %s, whose home is the %s", from != NULL ? "write" : "read", h->name,
        dt_tier_name((int)h->tier));
    return DT_OK;
}

dt_status dti_home_read(
    dt_runner *r, const dt_home *h, uint64_t at, void *to, uint64_t bytes, dt_err *err)
{
    const unsigned char *home = dti_home_at(r, h);
    return home != NULL ? copy(r, to, home + at, bytes, err) : move(r, h, at, to, NULL, bytes, err);
}

dt_status dti_home_write(
    dt_runner *r, const dt_home *h, uint64_t at, const void *from, uint64_t bytes, dt_err *err)
{
    unsigned char *home = dti_home_at(r, h);
    return home != NULL ? copy(r, home + at, from, bytes, err)
                        : move(r, h, at, NULL, from, bytes, err);
}

static dt_status write_zeros(dt_runner *r, const dt_home *h, dt_err *err)
{
    const uint64_t most = h->bytes < DTI_PIECE ? h->bytes : DTI_PIECE;
    void *zeros = dt_alloc(most, 1);
    if (zeros == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to clear %s", h->name);
    dt_status st = DT_OK;
    for (uint64_t at = 0; at < h->bytes && st == DT_OK; at += most)
        st = move(r, h, at, NULL, zeros, h->bytes - at < most ? h->bytes - at : most, err);
    dt_free(zeros);
    return st;
}

dt_status dti_home_zero(dt_runner *r, const dt_home *h, dt_err *err)
{
    unsigned char *at = dti_home_at(r, h);
    if (at == NULL)
        return write_zeros(r, h, err);
    if (h->tier == DT_AT_DEVICE)
        return dti_fill(r, h->off, 0, h->bytes, err);
    memset(at, 0, h->bytes);
    return DT_OK;
}

void dti_runner_turn(dt_runner *r)
{
    for (size_t i = 0; i < r->o.map->n; i++)
        r->turned[i] ^= r->beside[i];
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
    *at = r->base + dt_align_up(r->o.map->bytes, DT_ALIGN);
    if (dt_align_up(r->o.map->bytes, DT_ALIGN) + h->bytes > r->o.arena_bytes)
        return DT_FAIL(err, DT_E_INTERNAL, "no room on the device for %s", h->name);
    if (r->d->host_memory)
        return move(r, h, 0, *at, NULL, h->bytes, err);
    const uint64_t most = h->bytes < DTI_PIECE ? h->bytes : DTI_PIECE;
    void *via = dt_alloc(most, 1);
    dt_status st = via != NULL ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory to bring %s", h->name);
    for (uint64_t done = 0; done < h->bytes && st == DT_OK; done += most) {
        const uint64_t n = h->bytes - done < most ? h->bytes - done : most;
        st = move(r, h, done, via, NULL, n, err);
        if (st == DT_OK)
            st = copy(r, *at + done, via, n, err);
    }
    dt_free(via);
    return st;
}
