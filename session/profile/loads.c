/* Links of a machine: copies alone, and over and over beside the ops, which slow each other down;
 * and how long a thread that waits takes to go on. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/copy.h"
#include "engine/base/thread.h"
#include "memory/tier.h"
#include "session/budget.h"
#include "session/profile/profile_internal.h"

enum { SMALL = 128 << 10, LEAST = 512 << 10 }; /* bytes of a copy */
enum { MOST_OF_DISK = 512 << 20 };
enum { COPIES = 33 }; /* of each size */

static uint64_t slot_bytes(const dti_load *l)
{
    return ((uint64_t)l->size + 4095) / 4096 * 4096; /* blocks of a disk */
}

/* The i-th. From or to where tensors lie, not at the blocks of a disk; and over as much of the disk
 * as a step goes over: below it may be caches. */
static dt_status copy_once(dti_load *l, size_t bytes, int i, dt_err *err)
{
    const uint64_t at = (uint64_t)(i % DTI_SLOTS) * DTI_LARGE;
    if (l->device != NULL)
        return dti_device_rates_copy(l->device, l->direction == DT_FROM_TIER, at, bytes, err);
    if (l->desc == NULL) {
        memcpy(l->to + at, l->from + at, bytes);
        return DT_OK;
    }
    const uint64_t slot = (uint64_t)i % l->n_slot * slot_bytes(l);
    return l->direction == DT_TO_TIER
               ? l->desc->write(l->state, slot, l->from + at + DT_ALIGN, bytes, err)
               : l->desc->read(l->state, slot, l->to + at + DT_ALIGN, bytes, err);
}

static void *copy_on(void *self)
{
    dti_load *l = self;
    const double from = dt_seconds();
    dt_status got = copy_once(l, l->size, 0, l->why);
    atomic_store(&l->flows, true);
    for (int i = 1; got == DT_OK; i++) {
        l->bytes += (double)l->size;
        l->seconds = dt_seconds() - from;
        if (atomic_load(&l->stop))
            break;
        got = copy_once(l, l->size, i, l->why);
    }
    return NULL;
}

/* Steps that begin before the first copy is made may be over before it: beside nothing. */
static void wait_for_first(dti_load *l)
{
    const struct timespec nap = {.tv_nsec = 100000};
    while (!atomic_load(&l->flows))
        (void)nanosleep(&nap, NULL);
}

/* The lower quartile of some copies: what disturbs makes them longer. */
static dt_status time_copies(dti_load *l, size_t bytes, double *seconds, dt_err *err)
{
    double v[COPIES];
    for (int i = 0; i < COPIES; i++) {
        const double from = dt_seconds();
        DT_CHECK(copy_once(l, bytes, i, err));
        v[i] = dt_seconds() - from;
    }
    *seconds = dti_lower_quartile(v, COPIES);
    return DT_OK;
}

static size_t waiting_bytes(const dti_density_count *c)
{
    size_t all = 0;
    for (size_t i = 0; i < c->n; i++)
        all += c->of[i].bytes;
    return all;
}

/* The size of copy that this network's bytes most often travel in: half of them are in smaller
 * tensors. A link is the slower the smaller its copies, and no line goes through all sizes. */
static size_t usual_size(const dti_density_count *c)
{
    const size_t all = waiting_bytes(c);
    size_t size = DTI_LARGE;
    for (size_t i = 0; i < c->n; i++) {
        size_t below = 0; /* in tensors no larger than this */
        for (size_t k = 0; k < c->n; k++)
            below += c->of[k].bytes <= c->of[i].bytes ? c->of[k].bytes : 0;
        if (below >= all / 2 && c->of[i].bytes < size)
            size = c->of[i].bytes;
    }
    return size > LEAST ? size : LEAST;
}

static dt_link line_through(double small, double large, size_t size)
{
    const double per_large = large / (double)size;
    const double slope = large > small ? (large - small) / (double)(size - SMALL) : per_large;
    const double latency = small - slope * SMALL;
    return (dt_link){latency > 0 ? latency : 0, 1 / slope};
}

static dt_status measure_link(dti_loads *all, dti_load *l, dt_err *err)
{
    double small, large;
    DT_CHECK(time_copies(l, DTI_LARGE, &large, err)); /* and touch all */
    DT_CHECK(time_copies(l, SMALL, &small, err));
    DT_CHECK(time_copies(l, l->size, &large, err));
    l->alone = large;
    const dt_link link = line_through(small, large, l->size);
    all->costs->thread_link[l->tier][l->direction] = link;
    if (l->desc != NULL || l->device != NULL) /* whatever copies to the host between ops */
        all->costs->link[l->tier][l->direction] = link;
    return DT_OK;
}

/* By the whole team, as copies to the host are made between ops. */
static void measure_team(dti_loads *all, const dti_load *l)
{
    double small[9], large[9];
    for (int i = 0; i < 9; i++) {
        const size_t at = (size_t)(i % DTI_SLOTS) * DTI_LARGE;
        double from = dt_seconds();
        dt_cpu_copy(l->to + at, l->from + at, l->size);
        large[i] = dt_seconds() - from;
        from = dt_seconds();
        dt_cpu_copy(l->to + at, l->from + (DTI_SLOTS - 1) * (size_t)DTI_LARGE - at, SMALL);
        small[i] = dt_seconds() - from;
    }
    const dt_link link =
        line_through(dti_lower_quartile(small, 9), dti_lower_quartile(large, 9), l->size);
    if (all->device != NULL) {
        all->costs->host = 2 * link.rate; /* it reads and writes */
        return;
    }
    all->costs->link[DT_TIER_HOST][DT_TO_TIER] = link;
    all->costs->link[DT_TIER_HOST][DT_FROM_TIER] = link;
}

static bool has_disk(const dt_session *s)
{
    return s->opts.memory.disk_path != NULL || dt_session_request(s).tier == DT_TO_DISK;
}

static dt_status open_disk(const dt_session *s, dti_load *l, dt_err *err)
{
    const char *note = NULL;
    const dt_tier_opts o = {.bytes = l->n_slot * slot_bytes(l) + DTI_LARGE,
        .path = dt_session_disk_path(s)}; /* no checksum: reads are of other sizes than writes */
    l->desc = dt_tier_standard(DT_TIER_DISK);
    return l->desc->reserve(&o, &l->state, &note, err);
}

/* What is read was written before. */
static dt_status fill_slots(dti_load *l, dt_err *err)
{
    for (uint64_t k = 0; k < l->n_slot; k++)
        DT_CHECK(l->desc->write(l->state, k * slot_bytes(l), l->from + DT_ALIGN, l->size, err));
    return DT_OK;
}

static dt_status open_load(dti_loads *all, dti_load *l, dt_err *err)
{
    l->device = l->tier == DT_TIER_HOST ? all->device : NULL;
    l->from = aligned_alloc(4096, (size_t)DTI_SLOTS * DTI_LARGE + 4096);
    l->to = aligned_alloc(4096, (size_t)DTI_SLOTS * DTI_LARGE + 4096);
    if (l->from == NULL || l->to == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to measure links");
    memset(l->from, 1, (size_t)DTI_SLOTS * DTI_LARGE);
    memset(l->to, 2, (size_t)DTI_SLOTS * DTI_LARGE);
    if (l->tier == DT_TIER_DISK)
        DT_CHECK(open_disk(all->s, l, err));
    if (l->tier == DT_TIER_DISK && l->direction == DT_FROM_TIER)
        DT_CHECK(fill_slots(l, err));
    DT_CHECK(measure_link(all, l, err));
    if (l->tier == DT_TIER_HOST)
        measure_team(all, l);
    return DT_OK;
}

dt_status dti_loads_open(dti_loads *l, const dti_density_count *count, dt_err *err)
{
    static const dti_load kinds[DTI_MOST_LOADS] = {
        {.name = "nothing", .idle = true},
        {.name = "to the host",
            .tier = DT_TIER_HOST,
            .direction = DT_TO_TIER,
            .stream = DT_USUAL_OUT},
        {.name = "from the host",
            .tier = DT_TIER_HOST,
            .direction = DT_FROM_TIER,
            .stream = DT_USUAL_IN},
        {.name = "to the disk",
            .tier = DT_TIER_DISK,
            .direction = DT_TO_TIER,
            .stream = DT_USUAL_WRITE},
        {.name = "from the disk",
            .tier = DT_TIER_DISK,
            .direction = DT_FROM_TIER,
            .stream = DT_USUAL_READ},
    };
    const size_t size = usual_size(count), all = waiting_bytes(count);
    const size_t slots = (all < MOST_OF_DISK ? all : MOST_OF_DISK) / size;
    const int first = l->device != NULL ? 0 : 1,
              end = has_disk(l->s) ? DTI_MOST_LOADS : DTI_MOST_LOADS - 2;
    for (int i = first; i < end; i++) {
        dti_load *x = &l->load[l->n++];
        memcpy(x, &kinds[i], sizeof *x);
        x->size = size;
        x->n_slot = slots > DTI_SLOTS ? slots : DTI_SLOTS;
        if (!x->idle)
            DT_CHECK(open_load(l, x, err));
    }
    return DT_OK;
}

void dti_loads_close(dti_loads *l)
{
    for (int i = 0; i < l->n; i++) {
        if (l->load[i].desc != NULL)
            l->load[i].desc->release(l->load[i].state);
        free(l->load[i].from);
        free(l->load[i].to);
    }
}

dt_status dti_load_start(dti_loads *l, int i, dt_err *err)
{
    dti_load *x = &l->load[i];
    if (x->idle)
        return DT_OK;
    atomic_store(&x->stop, false);
    atomic_store(&x->flows, false);
    x->bytes = x->seconds = 0;
    x->why = &l->why;
    dt_err_clear(x->why);
    l->on = i;
    l->running = dt_thread_start(&l->thread, 0, copy_on, x) == 0;
    if (!l->running)
        return DT_FAIL(err, DT_E_NOMEM, "no thread to copy beside the ops");
    wait_for_first(x);
    return DT_OK;
}

dt_status dti_load_stop(dti_loads *l, dt_err *err)
{
    if (!l->running)
        return DT_OK;
    atomic_store(&l->load[l->on].stop, true);
    (void)pthread_join(l->thread, NULL);
    l->running = false;
    if (l->why.code == DT_OK)
        return DT_OK;
    (void)dt_err_append(err, l->why.code, l->why.text);
    return DT_FAIL(
        err, l->why.code, "copies %s, beside the steps of a profile", l->load[l->on].name);
}

/* ---- threads that wake each other ---- */

/* Two threads that wake each other, one now and then, as a stream is told of a copy and tells that
 * it is done: while the ops run, which have the processors. */
static void *ask(void *self)
{
    dti_relay *r = self;
    const struct timespec nap = {.tv_nsec = 1000000};
    pthread_mutex_lock(&r->lock);
    while (!r->stop) {
        const double from = dt_seconds();
        r->asked = true;
        pthread_cond_signal(&r->turned);
        while (r->asked && !r->stop)
            pthread_cond_wait(&r->turned, &r->lock);
        r->seconds += r->asked ? 0 : dt_seconds() - from;
        r->turns += !r->asked;
        pthread_mutex_unlock(&r->lock);
        (void)nanosleep(&nap, NULL);
        pthread_mutex_lock(&r->lock);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

static void *answer(void *self)
{
    dti_relay *r = self;
    pthread_mutex_lock(&r->lock);
    while (!r->stop) {
        if (r->asked) {
            r->asked = false;
            pthread_cond_signal(&r->turned);
        }
        pthread_cond_wait(&r->turned, &r->lock);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

void dti_relay_start(dti_relay *r)
{
    static void *(*const half[])(void *) = {answer, ask};
    *r = (dti_relay){.lock = PTHREAD_MUTEX_INITIALIZER, .turned = PTHREAD_COND_INITIALIZER};
    while (
        r->n_thread < 2 && dt_thread_start(&r->thread[r->n_thread], 0, half[r->n_thread], r) == 0)
        r->n_thread++;
}

double dti_relay_stop(dti_relay *r)
{
    if (r->n_thread == 0)
        return 0;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_broadcast(&r->turned);
    pthread_mutex_unlock(&r->lock);
    while (r->n_thread > 0)
        (void)pthread_join(r->thread[--r->n_thread], NULL);
    return r->turns > 0 ? r->seconds / (double)(2 * r->turns) : 0;
}
