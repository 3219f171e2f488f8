/* The loader's own thread: it fills the ring. */
#include "data/loader_parts.h"

#include <inttypes.h>
#include <string.h>

#include "engine/base/philox.h"

static atomic_uint_fast64_t batches; /* made so far, by all loaders: their ids */

static void go_to(dt_loader *l, int64_t epoch)
{
    l->cur =
        (dti_loader_cursor){.epoch = epoch, .order = dt_shuffle_make(l->o.seed, epoch, l->count)};
}

static int64_t sample_at(const dt_loader *l, int64_t at)
{
    return l->o.shuffle ? dt_shuffle_at(&l->cur.order, at % l->count) : at % l->count;
}

static dt_status read_into(const dt_loader *l, int64_t sample, int64_t place, dt_err *err)
{
    const dt_u32x4 u =
        dt_random(l->o.seed, DT_RANDOM_AUGMENT, 0, (uint32_t)l->cur.epoch, (uint64_t)sample);
    const uint64_t key = (uint64_t)u.v[0] << 32 | u.v[1];
    return l->source->desc->read(l->source, sample, key, l->making->x + (size_t)place * l->sample,
        l->making->labels + (size_t)place * l->label, err);
}

/* Of the team, any thread. The text of an error is fetched later, by reading again. */
static void decode_piece(void *arg, int64_t i)
{
    dt_loader *l = arg;
    if (!atomic_load(&l->in_vain))
        l->pieces[i].st = read_into(l, l->pieces[i].sample, l->have + i, NULL);
}

/* The next samples in order that are not known as bad. */
static dt_status choose(dt_loader *l, int64_t n, dt_err *err)
{
    if ((int64_t)l->skips.n >= l->count)
        return DT_FAIL(err, DT_E_DATA, "all %" PRId64 " samples are bad", l->count);
    DT_CHECK(dt_skips_allowed(&l->skips, err));
    for (int64_t i = 0; i < n;) {
        const int64_t sample = sample_at(l, l->cur.at++);
        if (dt_skips_has(&l->skips, sample))
            l->making->skipped++;
        else
            l->pieces[i++] = (dti_loader_piece){.sample = sample};
    }
    return DT_OK;
}

/* A sample that failed is read again, for the text and in case it was passing. */
static dt_status look_again(dt_loader *l, int64_t sample, int64_t place, bool *good, dt_err *err)
{
    dt_err why = {0};
    dt_status st = read_into(l, sample, place, &why);
    *good = st == DT_OK;
    if (st != DT_E_DATA || l->skips.bad == NULL) {
        if (st != DT_OK)
            *err = why;
        return st;
    }
    pthread_mutex_lock(&l->mutex);
    st = dt_skips_add(&l->skips, sample, &why, err);
    pthread_mutex_unlock(&l->mutex);
    l->making->skipped++;
    return st;
}

/* Keep the good ones of @n pieces, closing the gaps of bad ones. */
static dt_status keep_good(dt_loader *l, int64_t n, dt_err *err)
{
    dti_loader_slot *s = l->making;
    for (int64_t i = 0, from = l->have; i < n; i++, from++) {
        bool good = true;
        if (l->pieces[i].st != DT_OK)
            DT_CHECK(look_again(l, l->pieces[i].sample, from, &good, err));
        if (!good)
            continue;
        if (from != l->have) {
            memcpy(s->x + (size_t)l->have * l->sample, s->x + (size_t)from * l->sample,
                l->sample * sizeof *s->x);
            memcpy(s->labels + (size_t)l->have * l->label, s->labels + (size_t)from * l->label,
                l->label * sizeof *s->labels);
        }
        l->have++;
    }
    return DT_OK;
}

static dt_status make_batch(dt_loader *l, dti_loader_slot *s, dt_err *err)
{
    const int64_t left = l->count - l->cur.batch * l->o.batch;
    s->n = left < l->o.batch ? left : l->o.batch;
    s->skipped = 0;
    l->making = s;
    l->have = 0;
    while (l->have < s->n && !atomic_load(&l->in_vain)) {
        const int64_t n = s->n - l->have;
        DT_CHECK(choose(l, n, err));
        dt_team_run(l->team, n, decode_piece, l);
        if (!atomic_load(&l->in_vain))
            DT_CHECK(keep_good(l, n, err));
    }
    if (++l->cur.batch == l->per_epoch)
        go_to(l, l->cur.epoch + 1);
    s->end = l->cur.at;
    s->id = atomic_fetch_add(&batches, 1) + 1;
    return DT_OK;
}

/* Decode the next batch into a free slot; called and left with the mutex held. */
static void fill_one(dt_loader *l)
{
    dti_loader_slot *s = &l->ring[(l->first + l->ready) % l->slots];
    dt_err err = {0};
    pthread_mutex_unlock(&l->mutex);
    const dt_status st = make_batch(l, s, &err);
    pthread_mutex_lock(&l->mutex);
    if (l->stop || l->sought)
        return;
    if (st != DT_OK) {
        l->failed = true;
        l->err = err;
    } else {
        l->ready++;
    }
    pthread_cond_signal(&l->filled);
}

void *dti_loader_decode(void *arg)
{
    dt_loader *l = arg;
    go_to(l, 0);
    pthread_mutex_lock(&l->mutex);
    while (!l->stop) {
        if (l->sought) {
            l->sought = false;
            atomic_store(&l->in_vain, false);
            go_to(l, l->goal.epoch);
            l->cur.batch = l->goal.batch;
            l->cur.at = l->goal.at;
        } else if (l->failed || l->ready + l->lent >= l->slots) {
            pthread_cond_wait(&l->freed, &l->mutex);
        } else {
            fill_one(l);
        }
    }
    pthread_mutex_unlock(&l->mutex);
    return NULL;
}
