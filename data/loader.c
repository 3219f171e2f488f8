#include "data/loader_parts.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "engine/base/alloc.h"

enum { MAX_AHEAD = 4096, MAX_THREADS = 256 };

static dt_status check_opts(const dt_source *source, const dt_loader_opts *o, dt_err *err)
{
    const int64_t count = source->desc->count(source);
    if (o->batch < 1 || o->ahead < 1 || o->ahead > MAX_AHEAD || o->threads < 0 ||
        o->threads > MAX_THREADS)
        return DT_FAIL(err, DT_E_CONFIG,
            "batch %" PRId64 ", %d batches ahead, %d threads: must be at least 1, at most %d ahead "
            "and %d threads",
            o->batch, o->ahead, o->threads, MAX_AHEAD, MAX_THREADS);
    if (count < 1)
        return DT_FAIL(err, DT_E_DATA, "the data has no sample");
    if (o->drop_last && count < o->batch)
        return DT_FAIL(err, DT_E_DATA,
            "%" PRId64 " samples make no full batch of %" PRId64 ", and partial ones are dropped",
            count, o->batch);
    return DT_OK;
}

static dt_status alloc_ring(dt_loader *l, dt_err *err)
{
    size_t each, each_label, samples;
    l->slots = l->o.ahead + 1; /* one is the caller's */
    l->sample = (size_t)dt_shape_sample(&l->source->opts.shape);
    l->label = l->source->opts.labels > 0 ? (size_t)l->source->opts.labels : 1;
    l->ring = dt_alloc((size_t)l->slots, sizeof *l->ring);
    l->pieces = dt_alloc((size_t)l->o.batch, sizeof *l->pieces);
    if (dt_mul_bytes((size_t)l->o.batch, (size_t)l->slots, &samples) &&
        dt_mul_bytes(l->sample, sizeof *l->x, &each) &&
        dt_mul_bytes(l->label, sizeof *l->labels, &each_label)) {
        l->x = dt_alloc(samples, each);
        l->labels = dt_alloc(samples, each_label);
    }
    if (l->ring == NULL || l->pieces == NULL || l->x == NULL || l->labels == NULL)
        return DT_FAIL(err, DT_E_NOMEM,
            "no memory for %d decoded batches of %" PRId64 " samples of %zu values", l->slots,
            l->o.batch, l->sample);
    for (size_t i = 0; i < (size_t)l->slots; i++) {
        l->ring[i].x = l->x + i * (size_t)l->o.batch * l->sample;
        l->ring[i].labels = l->labels + i * (size_t)l->o.batch * l->label;
    }
    return DT_OK;
}

static void release(dt_loader *l)
{
    dt_team_destroy(l->team);
    dt_skips_free(&l->skips);
    dt_free(l->ring);
    dt_free(l->pieces);
    dt_free(l->x);
    dt_free(l->labels);
    pthread_cond_destroy(&l->freed);
    pthread_cond_destroy(&l->filled);
    pthread_mutex_destroy(&l->mutex);
    dt_free(l);
}

/* The threads take no signals: those are for the thread that trains. */
static dt_status start(dt_loader *l, dt_err *err)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    dt_status st = dt_team_create(&l->team, l->o.threads, err);
    const int error = st == DT_OK ? pthread_create(&l->thread, NULL, dti_loader_decode, l) : 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (error != 0)
        st = DT_FAIL(err, DT_E_NOMEM, "cannot start a decoding thread: %s" DT_THREADS_ADVICE,
            strerror(error));
    return st;
}

dt_status dt_loader_create(
    dt_loader **out, const dt_source *source, const dt_loader_opts *o, dt_err *err)
{
    DT_CHECK(check_opts(source, o, err));
    dt_loader *l = dt_alloc(1, sizeof *l);
    if (l == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the loader");
    l->source = source;
    l->o = *o;
    l->o.shuffle = o->shuffle && !source->desc->fixed_order;
    l->count = source->desc->count(source);
    l->per_epoch = l->count / o->batch + (!o->drop_last && l->count % o->batch != 0);
    dti_loader_set_feed(l);
    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->filled, NULL);
    pthread_cond_init(&l->freed, NULL);
    dt_status st = alloc_ring(l, err);
    if (st == DT_OK && source->opts.skip_bad)
        st = dt_skips_init(&l->skips, l->count, source->opts.max_skips, err);
    if (st == DT_OK)
        st = start(l, err);
    if (st != DT_OK) {
        release(l);
        return st;
    }
    *out = l;
    return DT_OK;
}

void dt_loader_destroy(dt_loader *l)
{
    if (l == NULL)
        return;
    pthread_mutex_lock(&l->mutex);
    l->stop = true;
    atomic_store(&l->in_vain, true);
    pthread_cond_signal(&l->freed);
    pthread_mutex_unlock(&l->mutex);
    pthread_join(l->thread, NULL);
    release(l);
}

dt_feed *dt_loader_feed(dt_loader *l)
{
    return &l->feed;
}

const char *dt_loader_skipped(dt_loader *l, size_t i)
{
    pthread_mutex_lock(&l->mutex);
    const char *text = i < l->skips.n ? l->skips.texts[i] : NULL;
    pthread_mutex_unlock(&l->mutex);
    return text;
}
