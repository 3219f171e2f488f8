/* What the thread that trains takes from the ring. */
#include "data/loader_parts.h"
#include "engine/base/clock.h"

#include <inttypes.h>
#include <string.h>

/* Hand a kept trail on, line by line. */
static dt_status pass_on(const dt_err *from, dt_err *err)
{
    for (const char *s = from->text; *s != '\0';) {
        const size_t n = strcspn(s, "\n");
        (void)DT_FAIL(err, from->code, "%.*s", (int)n, s);
        s += n + (s[n] == '\n');
    }
    return from->code;
}

static dt_batch batch_of(const dti_loader_slot *s)
{
    return (dt_batch){.x = s->x, .labels = s->labels, .n = s->n, .id = s->id};
}

static dt_status next(void *self, dt_batch *out, dt_err *err)
{
    dt_loader *l = self;
    dt_status st = DT_OK;
    pthread_mutex_lock(&l->mutex);
    if (l->lent) {
        l->lent = false;
        pthread_cond_signal(&l->freed);
    }
    if (l->ready == 0 && !l->failed) {
        const double from = dt_seconds();
        while (l->ready == 0 && !l->failed)
            pthread_cond_wait(&l->filled, &l->mutex);
        l->feed.wait_seconds += dt_seconds() - from;
    }
    if (l->ready > 0) {
        const dti_loader_slot *s = &l->ring[l->first];
        *out = batch_of(s);
        l->feed.skipped += s->skipped;
        l->feed.at = s->end;
        l->first = (l->first + 1) % l->slots;
        l->ready--;
        l->taken++;
        l->lent = true;
    } else {
        st = pass_on(&l->err, err);
    }
    pthread_mutex_unlock(&l->mutex);
    return st;
}

static dt_batch peek(void *self)
{
    dt_loader *l = self;
    pthread_mutex_lock(&l->mutex);
    const dt_batch b = l->ready > 0 ? batch_of(&l->ring[l->first]) : (dt_batch){0};
    pthread_mutex_unlock(&l->mutex);
    return b;
}

static dt_status seek_to(void *self, int64_t epoch, int64_t batch, int64_t at, dt_err *err)
{
    dt_loader *l = self;
    if (epoch < 0)
        return DT_FAIL(err, DT_E_CONFIG, "epoch %" PRId64 ": the first is 0", epoch);
    if (batch < 0 || batch >= l->per_epoch || at < 0)
        return DT_FAIL(err, DT_E_DATA,
            "batch %" PRId64 " of an epoch, at place %" PRId64 ": the data has %" PRId64
            " batches an epoch",
            batch, at, l->per_epoch);
    const dti_loader_cursor goal = {.epoch = epoch, .batch = batch, .at = at};
    const dti_loader_cursor *last = &l->sought_at;
    pthread_mutex_lock(&l->mutex);
    if (epoch != last->epoch || batch != last->batch || at != last->at || l->taken > 0 ||
        l->failed) {
        l->sought_at = l->goal = goal;
        l->taken = 0;
        l->ready = 0;
        l->failed = false;
        l->sought = true;
        l->feed.at = at;
        atomic_store(&l->in_vain, true);
        pthread_cond_signal(&l->freed);
    }
    pthread_mutex_unlock(&l->mutex);
    return DT_OK;
}

static dt_status seek(void *self, int64_t epoch, dt_err *err)
{
    return seek_to(self, epoch, 0, 0, err);
}

void dti_loader_set_feed(dt_loader *l)
{
    l->feed = (dt_feed){.self = l,
        .next = next,
        .peek = peek,
        .seek = seek,
        .seek_to = seek_to,
        .batch = l->o.batch,
        .samples = l->o.drop_last ? l->per_epoch * l->o.batch : l->count};
}
