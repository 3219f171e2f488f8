#include "tests/fake_driver.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/cpu.h"

enum { QUEUES = 8 };

typedef enum item_kind {
    COPY,
    FILL,
    PACK,
    UNPACK,
    LAUNCH,
    SIGNAL,
    WAIT,
    BARRIER,
    REPLAY
} item_kind;

/* One piece of work; which members count depends on its kind. */
typedef struct item {
    item_kind kind;
    int queue, byte;
    uint64_t order; /* in which it was put on */
    void *to;
    const void *from;
    uint64_t bytes;
    size_t count;
    const dt_codec *codec;
    int *overflow;
    dt_launch fn;
    void *arg;
    int32_t event;
    uint64_t number; /* of a signal, or of the one that is waited for; of a barrier */
} item;

typedef struct list {
    item *at;
    size_t n, cap, next; /* next: the first that is not done */
} list;

typedef struct device {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int queues, awaited; /* threads that wait for it */
    bool quit, eager;
    bool busy[QUEUES];
    uint64_t put, barriers, dice;
    int favourite; /* queue */
    list queue[QUEUES];
    uint64_t *put_event, *done_event;
    int32_t n_event;
    list *recording;
    uint64_t *recorded_event;
    dt_status status;
    dt_err err;
} device;

static dt_fake_opts options;
static dt_fake_counts counts;
static pthread_mutex_t counts_mutex = PTHREAD_MUTEX_INITIALIZER;

static uint64_t mixed(uint64_t z)
{
    z += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* Below n. */
static int roll(device *d, int n)
{
    d->dice = mixed(d->dice);
    return (int)(d->dice % (uint64_t)n);
}

static dt_status called(dt_err *err, const char *what)
{
    pthread_mutex_lock(&counts_mutex);
    const bool fails = ++counts.calls == options.fail_at;
    pthread_mutex_unlock(&counts_mutex);
    return fails ? DT_FAIL(err, DT_E_DEVICE, "fake: %s was asked to fail", what) : DT_OK;
}

static bool append(list *l, const item *i)
{
    if (!dt_grow((void **)&l->at, &l->cap, l->n, sizeof *l->at))
        return false;
    l->at[l->n++] = *i;
    return true;
}

/* Whether what stands at the head of a queue may begin. */
static bool may_begin(const device *d, const list *queue, int q, const uint64_t *done)
{
    const list *l = &queue[q];
    if (l->next == l->n)
        return false;
    const item *i = &l->at[l->next];
    if (i->kind == WAIT)
        return done[i->event] >= i->number;
    if (i->kind != BARRIER)
        return true;
    for (int other = 0; other < d->queues; other++) { /* all have come as far */
        const list *o = &queue[other];
        if (o->next < o->n && o->at[o->next].order < i->order)
            return false;
    }
    return true;
}

static int choose(device *d, const list *queue, const bool *busy, const uint64_t *done)
{
    int may[QUEUES], n = 0;
    if (roll(d, 16) == 0)
        d->favourite = roll(d, d->queues);
    for (int q = 0; q < d->queues; q++)
        if ((busy == NULL || !busy[q]) && may_begin(d, queue, q, done)) {
            if (q == d->favourite)
                return q;
            may[n++] = q;
        }
    return n > 0 ? may[roll(d, n)] : -1;
}

static dt_status replay_items(device *d, const list *kept, dt_err *err);

static dt_status work(device *d, const item *i, dt_err *err)
{
    switch (i->kind) {
    case COPY:
        memcpy(i->to, i->from, i->bytes);
        return DT_OK;
    case FILL:
        memset(i->to, i->byte, i->bytes);
        return DT_OK;
    case PACK:
        if (!dt_pack(i->codec, i->from, i->count, i->to, i->bytes))
            *i->overflow = 1;
        return DT_OK;
    case UNPACK:
        return dt_unpack(i->codec, i->from, i->bytes, i->to, i->count, err);
    case LAUNCH:
        counts.launched++;
        return i->fn(i->arg, d, err);
    case REPLAY:
        return replay_items(d, i->from, err);
    case SIGNAL:
    case WAIT:
    case BARRIER:
        break;
    }
    return DT_OK;
}

/* What was kept, in an order of its own, with events of its own. */
static dt_status replay_items(device *d, const list *kept, dt_err *err)
{
    list queue[QUEUES] = {0};
    uint64_t *done = dt_alloc((size_t)d->n_event, sizeof *done);
    dt_status st = done != NULL ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "fake: replay");
    for (size_t i = 0; i < kept->n && st == DT_OK; i++)
        if (!append(&queue[kept->at[i].queue], &kept->at[i]))
            st = DT_FAIL(err, DT_E_NOMEM, "fake: replay");
    for (int q; st == DT_OK && (q = choose(d, queue, NULL, done)) >= 0;) {
        const item *i = &queue[q].at[queue[q].next++];
        if (i->kind == SIGNAL)
            done[i->event] = i->number;
        st = work(d, i, err);
    }
    for (int q = 0; q < d->queues; q++) {
        if (st == DT_OK && queue[q].next != queue[q].n)
            st = DT_FAIL(err, DT_E_INTERNAL, "fake: queue %d waits for ever in a replay", q);
        dt_free(queue[q].at);
    }
    dt_free(done);
    return st;
}

static bool at_rest(const device *d, int q)
{
    return d->queue[q].next == d->queue[q].n;
}

/* Something earlier is still to begin on another queue. */
static bool overtakes(const device *d, int q, const item *i)
{
    for (int other = 0; other < d->queues; other++)
        if (other != q && !at_rest(d, other) &&
            d->queue[other].at[d->queue[other].next].order < i->order)
            return true;
    return false;
}

static void do_one(device *d, int q)
{
    const item i = d->queue[q].at[d->queue[q].next];
    dt_err err = {0};
    counts.work++;
    counts.peeked += overtakes(d, q, &i);
    d->busy[q] = true;
    pthread_mutex_unlock(&d->mutex);
    const dt_status st = d->status == DT_OK ? work(d, &i, &err) : DT_OK;
    pthread_mutex_lock(&d->mutex);
    d->busy[q] = false;
    if (i.kind == SIGNAL)
        d->done_event[i.event] = i.number;
    if (st != DT_OK && d->status == DT_OK) {
        d->status = st;
        d->err = err;
    }
    list *l = &d->queue[q];
    if (++l->next == l->n)
        l->next = l->n = 0;
}

static void *worker(void *arg)
{
    device *d = arg;
    dt_cpu_setup_alone();
    pthread_mutex_lock(&d->mutex);
    while (!d->quit) {
        const int q = d->eager || d->awaited > 0 ? choose(d, d->queue, d->busy, d->done_event) : -1;
        if (q < 0) {
            pthread_cond_wait(&d->changed, &d->mutex);
            continue;
        }
        do_one(d, q);
        if (roll(d, 8) == 0)
            d->eager = roll(d, 2) == 0;
        pthread_cond_broadcast(&d->changed);
    }
    pthread_mutex_unlock(&d->mutex);
    return NULL;
}

static dt_status fake_open(int queues, void **self, dt_err *err)
{
    *self = NULL;
    DT_CHECK(called(err, "open"));
    device *d = dt_alloc(1, sizeof *d);
    if (d == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "fake: open");
    d->queues = queues;
    d->dice = mixed(options.seed);
    d->eager = roll(d, 2) == 0;
    pthread_mutex_init(&d->mutex, NULL);
    pthread_cond_init(&d->changed, NULL);
    if (pthread_create(&d->thread, NULL, worker, d) != 0) {
        dt_free(d);
        return DT_FAIL(err, DT_E_NOMEM, "fake: no thread");
    }
    counts.live++;
    *self = d;
    return DT_OK;
}

static void fake_close(void *self)
{
    device *d = self;
    pthread_mutex_lock(&d->mutex);
    d->quit = true;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->mutex);
    pthread_join(d->thread, NULL);
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->mutex);
    for (int q = 0; q < QUEUES; q++)
        dt_free(d->queue[q].at);
    dt_free(d->put_event);
    dt_free(d->done_event);
    dt_free(d->recorded_event);
    dt_free(d);
    counts.live--;
}

static dt_status fake_facts(void *self, dt_driver_facts *f, dt_err *err)
{
    (void)self;
    *f = (dt_driver_facts){.bytes = 1U << 30, .free = 1U << 30};
    snprintf(f->about, sizeof f->about, "a thread that plays a device");
    return called(err, "facts");
}

static dt_status take(uint64_t bytes, void **base, const char *what, dt_err *err)
{
    *base = NULL;
    DT_CHECK(called(err, what));
    *base = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (*base == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "fake: %s", what);
    counts.live++;
    return DT_OK;
}

static dt_status fake_reserve(void *self, uint64_t bytes, void **base, dt_err *err)
{
    (void)self;
    return take(bytes, base, "reserve", err);
}

static dt_status fake_pin(void *self, uint64_t bytes, void **base, dt_err *err)
{
    (void)self;
    return take(bytes, base, "pin", err);
}

static void fake_release(void *self, void *base)
{
    (void)self;
    free(base);
    counts.live--;
}

static dt_status fake_reach(void *self, const void *base, uint64_t bytes, dt_err *err)
{
    (void)self;
    (void)base;
    (void)bytes;
    return called(err, "reach");
}

static dt_status fake_events(void *self, int32_t n, dt_err *err)
{
    device *d = self;
    dt_status st = called(err, "events");
    pthread_mutex_lock(&d->mutex);
    uint64_t **all[] = {&d->put_event, &d->done_event, &d->recorded_event};
    for (size_t i = 0; i < DT_COUNT(all) && st == DT_OK && n > d->n_event; i++) {
        dt_free(*all[i]);
        *all[i] = dt_alloc((size_t)n, sizeof **all[i]);
        if (*all[i] == NULL)
            st = DT_FAIL(err, DT_E_NOMEM, "fake: events");
    }
    if (st == DT_OK && n > d->n_event)
        d->n_event = n;
    pthread_mutex_unlock(&d->mutex);
    return st;
}

static dt_status put(device *d, item i, const char *what, dt_err *err)
{
    DT_CHECK(called(err, what));
    dt_status st = DT_OK;
    pthread_mutex_lock(&d->mutex);
    i.order = d->put++;
    uint64_t *event = d->recording != NULL ? d->recorded_event : d->put_event;
    if (i.kind == SIGNAL)
        i.number = ++event[i.event];
    if (i.kind == WAIT) {
        i.number = event[i.event];
        if (i.number == 0 && d->recording != NULL)
            st = DT_FAIL(err, DT_E_INTERNAL,
                "fake: what is recorded waits for event %d, which is not", (int)i.event);
    }
    if (st == DT_OK && !append(d->recording != NULL ? d->recording : &d->queue[i.queue], &i))
        st = DT_FAIL(err, DT_E_NOMEM, "fake: %s", what);
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->mutex);
    return st;
}

static dt_status fake_copy(
    void *self, int q, void *to, const void *from, uint64_t bytes, dt_err *err)
{
    return put(self, (item){.kind = COPY, .queue = q, .to = to, .from = from, .bytes = bytes},
        "copy", err);
}

static dt_status fake_fill(void *self, int q, void *to, int byte, uint64_t bytes, dt_err *err)
{
    return put(self, (item){.kind = FILL, .queue = q, .to = to, .byte = byte, .bytes = bytes},
        "fill", err);
}

static bool fake_can_pack(const dt_codec *codec)
{
    (void)codec;
    return true;
}

static dt_status fake_pack(void *self, int q, const dt_codec *codec, const void *from, size_t count,
    void *to, size_t bytes, int *overflow, dt_err *err)
{
    const item i = {.kind = PACK,
        .queue = q,
        .codec = codec,
        .from = from,
        .count = count,
        .to = to,
        .bytes = bytes,
        .overflow = overflow};
    return put(self, i, "pack", err);
}

static dt_status fake_unpack(void *self, int q, const dt_codec *codec, const void *from,
    size_t bytes, void *to, size_t count, dt_err *err)
{
    const item i = {.kind = UNPACK,
        .queue = q,
        .codec = codec,
        .from = from,
        .bytes = bytes,
        .to = to,
        .count = count};
    return put(self, i, "unpack", err);
}

static dt_status fake_launch(void *self, dt_launch fn, void *arg, dt_err *err)
{
    return put(self, (item){.kind = LAUNCH, .fn = fn, .arg = arg}, "launch", err);
}

static dt_status fake_signal(void *self, int q, int32_t event, dt_err *err)
{
    return put(self, (item){.kind = SIGNAL, .queue = q, .event = event}, "signal", err);
}

static dt_status fake_wait(void *self, int q, int32_t event, dt_err *err)
{
    return put(self, (item){.kind = WAIT, .queue = q, .event = event}, "wait", err);
}

static dt_status fake_join(void *self, dt_err *err)
{
    device *d = self;
    DT_CHECK(called(err, "join"));
    dt_status st = DT_OK;
    pthread_mutex_lock(&d->mutex);
    const item i = {.kind = BARRIER, .number = ++d->barriers, .order = d->put++};
    for (int q = 0; q < d->queues && st == DT_OK; q++)
        if (!append(&d->queue[q], &i))
            st = DT_FAIL(err, DT_E_NOMEM, "fake: join");
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->mutex);
    return st;
}

/* With the mutex held: until the queue is at rest, or all are for -1; or until the event is done.
 */
static dt_status await(device *d, int q, int32_t event, dt_err *err)
{
    const uint64_t number = event >= 0 ? d->put_event[event] : 0;
    d->awaited++;
    pthread_cond_broadcast(&d->changed);
    for (bool done = false; !done;) {
        done = true;
        for (int i = 0; i < d->queues && event < 0; i++)
            if ((q < 0 || q == i) && !at_rest(d, i))
                done = false;
        if (event >= 0)
            done = d->done_event[event] >= number;
        if (!done)
            pthread_cond_wait(&d->changed, &d->mutex);
    }
    d->awaited--;
    if (d->status == DT_OK)
        return DT_OK;
    return DT_FAIL(err, d->status, "%s", d->err.text);
}

static dt_status wait_locked(device *d, int q, int32_t event, const char *what, dt_err *err)
{
    const dt_status asked = called(err, what);
    dt_err ignored = {0};
    pthread_mutex_lock(&d->mutex);
    const dt_status st = await(d, q, event, asked == DT_OK ? err : &ignored);
    pthread_mutex_unlock(&d->mutex);
    return asked != DT_OK ? asked : st;
}

static dt_status fake_finish(void *self, dt_err *err)
{
    if (options.finishing != NULL)
        options.finishing(options.arg);
    return wait_locked(self, -1, -1, "finish", err);
}

static dt_status fake_finish_queue(void *self, int q, dt_err *err)
{
    return wait_locked(self, q, -1, "finish_queue", err);
}

static dt_status fake_finish_event(void *self, int32_t event, dt_err *err)
{
    return wait_locked(self, -1, event, "finish_event", err);
}

static dt_status fake_holds(
    void *self, const void *from, uint64_t bytes, int byte, bool *yes, dt_err *err)
{
    const unsigned char *p = from;
    *yes = true;
    DT_CHECK(wait_locked(self, -1, -1, "holds", err));
    for (uint64_t i = 0; i < bytes && *yes; i++)
        *yes = p[i] == byte;
    return DT_OK;
}

static dt_status fake_squares(void *self, const dt_floats *of, size_t n, double *sum, dt_err *err)
{
    DT_ASSERT(n <= DT_SQUARES);
    DT_CHECK(wait_locked(self, -1, -1, "squares", err));
    for (size_t k = 0; k < n; k++) {
        sum[k] = 0;
        for (int64_t i = 0; i < of[k].count; i++)
            sum[k] += (double)of[k].at[i] * (double)of[k].at[i];
    }
    return DT_OK;
}

static dt_status fake_record(void *self, dt_err *err)
{
    device *d = self;
    DT_CHECK(called(err, "record"));
    list *kept = dt_alloc(1, sizeof *kept);
    if (kept == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "fake: record");
    pthread_mutex_lock(&d->mutex);
    d->recording = kept;
    memset(d->recorded_event, 0, (size_t)d->n_event * sizeof *d->recorded_event);
    pthread_mutex_unlock(&d->mutex);
    return DT_OK;
}

static void fake_forget(void *self, void *kept)
{
    (void)self;
    list *l = kept;
    dt_free(l->at);
    dt_free(l);
}

static dt_status fake_recorded(void *self, void **kept, dt_err *err)
{
    device *d = self;
    pthread_mutex_lock(&d->mutex);
    *kept = d->recording;
    d->recording = NULL;
    counts.recorded++;
    pthread_mutex_unlock(&d->mutex);
    const dt_status st = called(err, "recorded");
    if (st != DT_OK) {
        fake_forget(self, *kept);
        *kept = NULL;
    }
    return st;
}

static dt_status fake_replay(void *self, void *kept, dt_err *err)
{
    device *d = self;
    counts.replayed++;
    dt_status st = fake_join(d, err); /* on all queues, so that no other work is beside it */
    if (st == DT_OK)
        st = put(d, (item){.kind = REPLAY, .from = kept}, "replay", err);
    return st == DT_OK ? fake_join(d, err) : st;
}

static const dt_driver fake = {
    .name = "fake",
    .kernels_on_host = true,
    .open = fake_open,
    .close = fake_close,
    .facts = fake_facts,
    .reserve = fake_reserve,
    .release = fake_release,
    .pin = fake_pin,
    .unpin = fake_release,
    .reach = fake_reach,
    .events = fake_events,
    .copy = fake_copy,
    .fill = fake_fill,
    .can_pack = fake_can_pack,
    .pack = fake_pack,
    .unpack = fake_unpack,
    .launch = fake_launch,
    .signal = fake_signal,
    .wait = fake_wait,
    .join = fake_join,
    .finish = fake_finish,
    .finish_queue = fake_finish_queue,
    .finish_event = fake_finish_event,
    .holds = fake_holds,
    .squares = fake_squares,
    .record = fake_record,
    .recorded = fake_recorded,
    .replay = fake_replay,
    .forget = fake_forget,
};

const dt_driver *dt_fake_driver(const dt_fake_opts *o)
{
    options = *o;
    counts = (dt_fake_counts){0};
    return &fake;
}

dt_fake_counts dt_fake_count(void)
{
    return counts;
}
