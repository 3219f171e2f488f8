/* Decoding ahead: what the decoding thread and the one that trains share, each of them, and how
 * they are started and stopped. */
#include "data/loader.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "data/decoders.h"
#include "data/shuffle.h"
#include "engine/base/alloc.h"
#include "engine/base/clock.h"
#include "engine/base/philox.h"
#include "engine/base/thread.h"
#include "engine/sample_check.h"

/* --- bad samples: a bit each, and a line on each of the first to be met --- */

typedef struct skips {
    uint8_t *bad; /* a bit a sample; NULL when nothing is skipped */
    int64_t most; /* different samples that may be bad */
    char **texts; /* [n] in the order they were met */
    size_t n, cap;
} skips;

static dt_status skips_init(skips *s, int64_t samples, int64_t most, dt_err *err)
{
    *s = (skips){.most = most};
    s->bad = dt_alloc((size_t)(samples / 8 + 1), 1);
    return s->bad != NULL
               ? DT_OK
               : DT_FAIL(err, DT_E_NOMEM, "no memory to note bad samples of %" PRId64, samples);
}

static void skips_free(skips *s)
{
    for (size_t i = 0; i < s->n; i++)
        dt_free(s->texts[i]);
    dt_free(s->texts);
    dt_free(s->bad);
    *s = (skips){0};
}

static bool skips_has(const skips *s, int64_t sample)
{
    return s->bad != NULL && (s->bad[sample / 8] >> (sample % 8) & 1) != 0;
}

/* DT_E_DATA when there are more than may be. */
static dt_status skips_allowed(const skips *s, dt_err *err)
{
    if (s->n == 0 || (uint64_t)s->n <= (uint64_t)s->most)
        return DT_OK;
    return DT_FAIL(err, DT_E_DATA,
        "%zu bad sample%s, at most %" PRId64 " may be skipped (data.max_skips); the last one: %s",
        s->n, s->n == 1 ? "" : "s", s->most, s->texts[s->n - 1]);
}

/* The innermost note says what is wrong and where. */
static char *first_line(const dt_err *why)
{
    char *text = dt_strdup(why->text);
    if (text != NULL)
        text[strcspn(text, "\n")] = '\0';
    return text;
}

/* Remember one, if it is new; DT_E_DATA when that is one too many. */
static dt_status skips_add(skips *s, int64_t sample, const dt_err *why, dt_err *err)
{
    const uint8_t bit = (uint8_t)(1u << (sample % 8));
    if ((s->bad[sample / 8] & bit) != 0)
        return DT_OK;
    char *text = first_line(why);
    if (text == NULL || !dt_grow(&s->texts, &s->cap, s->n, sizeof *s->texts)) {
        dt_free(text);
        return DT_FAIL(err, DT_E_NOMEM, "no memory to note a bad sample");
    }
    s->texts[s->n++] = text;
    s->bad[sample / 8] |= bit;
    return skips_allowed(s, err);
}

/* One batch of the ring. */
typedef struct slot {
    float *x;
    int32_t *labels;
    int64_t n, skipped; /* samples; bad ones left out on the way to them */
    int64_t end;        /* place in the epoch's order after them; 0 after the last batch */
    uint64_t id;
} slot;

/* The next batch to decode. */
typedef struct cursor {
    int64_t epoch, batch; /* batch within the epoch */
    int64_t at;           /* position in the epoch's order; goes on past its end after skips */
    dti_shuffle order;
} cursor;

typedef struct piece {
    int64_t sample;
    bool again; /* the epoch has had it */
    dt_status st;
} piece;

struct dt_loader {
    dt_feed feed;
    const dt_source *source;
    dt_loader_opts o;
    int64_t count, per_epoch; /* samples of the source; batches of an epoch */
    size_t sample, label;     /* floats and labels of one */
    slot *ring;               /* [slots], pointing into x and labels */
    float *x;
    int32_t *labels;
    int slots;

    /* the decoding thread's own */
    cursor cur;
    dti_decoders *decoders;
    piece *pieces; /* [batch] */
    slot *making;
    int64_t have; /* good samples in it */

    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t filled, freed;
    atomic_bool in_vain; /* the batch being made will not be wanted */

    /* under the mutex */
    bool stop, sought, failed; /* failed: err holds, nothing is decoded until seek */
    bool rests, rested;        /* nothing is until seek; and the ring's pages are given back */
    cursor goal;               /* of the seek: epoch, batch and place */
    int first, ready;          /* next slot to hand out; how many are decoded */
    bool lent;                 /* the slot before first is the caller's */
    dt_err err;
    skips skips;

    /* the feed's thread's own */
    cursor sought_at; /* last sought */
    int64_t taken;    /* batches handed out since */
};

/* ---- the decoding thread: it fills the ring ---- */

static atomic_uint_fast64_t batches; /* made so far, by all loaders: their ids */

static void go_to(dt_loader *l, int64_t epoch)
{
    l->cur = (cursor){.epoch = epoch, .order = dti_shuffle_make(l->o.seed, epoch, l->count)};
}

static int64_t sample_at(const dt_loader *l, int64_t at)
{
    return l->o.shuffle ? dti_shuffle_at(&l->cur.order, at % l->count) : at % l->count;
}

static dt_status put_own_labels(
    const dt_loader *l, int64_t sample, const float *x, int32_t *label, dt_err *err)
{
    const dt_shape *s = &l->source->opts.shape;
    const size_t c = l->o.by_channel ? (size_t)s->c : 1, places = l->label / c;
    for (size_t i = 0; i < l->label; i++) {
        if (!dt_is_value(l->o.label_kind, x[i]))
            return DT_FAIL(err, DT_E_DATA,
                "data.target = input: value %zu of sample %" PRId64 " is %g, but the loss takes %s",
                i, sample, (double)x[i],
                l->o.label_kind == DT_LABEL_PROBABILITY
                    ? "values from 0 to 1: for those of pictures set data.mean = 0 and data.std = 1"
                    : "finite values");
        label[i % c * places + i / c] = dt_label_of_value(x[i]);
    }
    return DT_OK;
}

static dt_status read_into(const dt_loader *l, int64_t sample, int64_t place, dt_err *err)
{
    const dt_u32x4 u =
        dt_random(l->o.seed, DT_RANDOM_AUGMENT, 0, (uint64_t)l->cur.epoch, (uint64_t)sample);
    const uint64_t key = (uint64_t)u.v[0] << 32 | u.v[1];
    float *x = l->making->x + (size_t)place * l->sample;
    int32_t *label = l->making->labels + (size_t)place * l->label;
    DT_CHECK(l->source->desc->read(l->source, sample, key, x, label, err));
    return l->o.own_labels ? put_own_labels(l, sample, x, label, err) : DT_OK;
}

/* By any thread. The text of an error is fetched later, by reading again. */
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
        return DT_FAIL(err, DT_E_DATA, "all %" PRId64 " samples are bad; the first one: %s",
            l->count, l->skips.texts[0]);
    DT_CHECK(skips_allowed(&l->skips, err));
    for (int64_t i = 0; i < n;) {
        const bool again = l->cur.at >= l->count;
        const int64_t sample = sample_at(l, l->cur.at++);
        if (skips_has(&l->skips, sample))
            l->making->skipped++;
        else
            l->pieces[i++] = (piece){.sample = sample, .again = again};
    }
    return DT_OK;
}

/* A sample that failed is read again, for the text and in case it was passing. */
static dt_status look_again(dt_loader *l, int64_t sample, int64_t place, bool *good, dt_err *err)
{
    dt_err why = {0};
    dt_status st = read_into(l, sample, place, &why);
    *good = st == DT_OK;
    if (st == DT_OK)
        return DT_OK;
    if (st != DT_E_DATA || l->skips.bad == NULL)
        return dt_err_append(err, st, why.text);
    pthread_mutex_lock(&l->mutex);
    st = skips_add(&l->skips, sample, &why, err);
    pthread_mutex_unlock(&l->mutex);
    l->making->skipped++;
    return st;
}

static void let_not_count(const dt_loader *l, int64_t place)
{
    int32_t *label = l->making->labels + (size_t)place * l->label;
    for (size_t i = 0; i < l->label; i++)
        label[i] = DT_LABEL_NONE;
}

/* Keep the good ones of @n pieces, closing the gaps of bad ones. */
static dt_status keep_good(dt_loader *l, int64_t n, dt_err *err)
{
    slot *s = l->making;
    for (int64_t i = 0, from = l->have; i < n; i++, from++) {
        bool good = true;
        if (l->pieces[i].st != DT_OK)
            DT_CHECK(look_again(l, l->pieces[i].sample, from, &good, err));
        if (!good)
            continue;
        if (l->o.once && l->pieces[i].again)
            let_not_count(l, from);
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

static dt_status make_batch(dt_loader *l, slot *s, dt_err *err)
{
    const int64_t left = l->count - l->cur.batch * l->o.batch;
    s->n = left < l->o.batch ? left : l->o.batch;
    s->skipped = 0;
    l->making = s;
    l->have = 0;
    while (l->have < s->n && !atomic_load(&l->in_vain)) {
        const int64_t n = s->n - l->have;
        DT_CHECK(choose(l, n, err));
        dti_decoders_run(l->decoders, n, decode_piece, l);
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
    slot *s = &l->ring[(l->first + l->ready) % l->slots];
    dt_err err = {0};
    pthread_mutex_unlock(&l->mutex);
    const dt_status st = make_batch(l, s, &err);
    pthread_mutex_lock(&l->mutex);
    if (l->stop || l->sought || l->rests)
        return;
    if (st != DT_OK) {
        l->failed = true;
        l->err = err;
    } else {
        l->ready++;
    }
    pthread_cond_signal(&l->filled);
}

static void give_back(dt_loader *l)
{
    const size_t samples = (size_t)l->o.batch * (size_t)l->slots;
    dt_alloc_forget(l->x, samples * l->sample * sizeof *l->x);
    dt_alloc_forget(l->labels, samples * l->label * sizeof *l->labels);
    l->rested = true;
    pthread_cond_signal(&l->filled);
}

static void *decode_thread(void *arg)
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
        } else if (l->rests && !l->rested) {
            give_back(l);
        } else if (l->rests || l->failed || l->ready + l->lent >= l->slots) {
            pthread_cond_wait(&l->freed, &l->mutex);
        } else {
            fill_one(l);
        }
    }
    pthread_mutex_unlock(&l->mutex);
    return NULL;
}

/* ---- the feed: what the thread that trains takes from the ring ---- */

static dt_batch batch_of(const slot *s)
{
    return (dt_batch){.x = s->x, .labels = s->labels, .n = s->n, .id = s->id};
}

static dt_status next(void *self, dt_batch *out, dt_err *err)
{
    dt_loader *l = self;
    dt_status st = DT_OK;
    if (l->rests) /* set by this thread alone */
        return DT_FAIL(err, DT_E_INTERNAL, "a feed that rests is sought before its next batch");
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
        const slot *s = &l->ring[l->first];
        *out = batch_of(s);
        l->feed.skipped += s->skipped;
        l->feed.at = s->end;
        l->first = (l->first + 1) % l->slots;
        l->ready--;
        l->taken++;
        l->lent = true;
    } else {
        st = dt_err_append(err, l->err.code, l->err.text);
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
    const cursor goal = {.epoch = epoch, .batch = batch, .at = at};
    const cursor *last = &l->sought_at;
    pthread_mutex_lock(&l->mutex);
    if (l->rests || epoch != last->epoch || batch != last->batch || at != last->at ||
        l->taken > 0 || l->failed) {
        l->sought_at = l->goal = goal;
        l->taken = 0;
        l->ready = 0;
        l->failed = false;
        l->rests = l->rested = false;
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

/* What is being made is left, so this takes no longer than a sample. */
static void rest(void *self)
{
    dt_loader *l = self;
    pthread_mutex_lock(&l->mutex);
    l->rests = true;
    l->ready = 0;
    l->lent = false;
    l->sought = false;
    atomic_store(&l->in_vain, true);
    pthread_cond_signal(&l->freed);
    while (!l->rested)
        pthread_cond_wait(&l->filled, &l->mutex);
    pthread_mutex_unlock(&l->mutex);
}

/* Once the sizes are known. */
static void set_feed(dt_loader *l)
{
    l->feed = (dt_feed){.self = l,
        .next = next,
        .peek = peek,
        .seek = seek,
        .seek_to = seek_to,
        .rest = rest,
        .batch = l->o.batch,
        .samples = l->o.drop_last ? l->per_epoch * l->o.batch : l->count};
}

/* ---- from start to end ---- */

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
    l->label = l->o.own_labels ? l->sample : l->label; /* where the source has put one */
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
    dti_decoders_destroy(l->decoders);
    skips_free(&l->skips);
    dt_free(l->ring);
    dt_free(l->pieces);
    dt_free(l->x);
    dt_free(l->labels);
    pthread_cond_destroy(&l->freed);
    pthread_cond_destroy(&l->filled);
    pthread_mutex_destroy(&l->mutex);
    dt_free(l);
}

static dt_status start(dt_loader *l, dt_err *err)
{
    DT_CHECK(dti_decoders_create(&l->decoders, l->o.threads, err));
    const int error = dt_thread_start(&l->thread, 0, decode_thread, l);
    if (error != 0)
        return DT_FAIL(err, DT_E_NOMEM, "cannot start a decoding thread: %s" DT_THREADS_ADVICE,
            strerror(error));
    return DT_OK;
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
    l->o.shuffle = o->shuffle && !source->fixed_order;
    l->count = source->desc->count(source);
    l->per_epoch = l->count / o->batch + (!o->drop_last && l->count % o->batch != 0);
    l->rests = o->rests; /* and what the ring was given as zeros is given back */
    set_feed(l);
    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->filled, NULL);
    pthread_cond_init(&l->freed, NULL);
    dt_status st = alloc_ring(l, err);
    if (st == DT_OK && source->opts.skip_bad)
        st = skips_init(&l->skips, l->count, source->opts.max_skips, err);
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

bool dt_loader_failed(dt_loader *l)
{
    if (l == NULL)
        return false;
    pthread_mutex_lock(&l->mutex);
    const bool failed = l->failed;
    pthread_mutex_unlock(&l->mutex);
    return failed;
}

const char *dt_loader_skipped(dt_loader *l, size_t i)
{
    pthread_mutex_lock(&l->mutex);
    const char *text = i < l->skips.n ? l->skips.texts[i] : NULL;
    pthread_mutex_unlock(&l->mutex);
    return text;
}
