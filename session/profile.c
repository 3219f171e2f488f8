/* A profile is one run of training in stages: steps whose values are counted, steps whose rows are
 * timed, and steps beside a thread that does nothing but copy. */
#include "session/profile.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/clock.h"
#include "engine/base/copy.h"
#include "engine/base/cpu.h"
#include "engine/base/philox.h"
#include "engine/base/thread.h"
#include "memory/codec.h"
#include "memory/tier.h"
#include "session/budget.h"
#include "session/density_count.h"
#include "session/device_rates.h"
#include "session/feeds.h"
#include "session/machine.h"
#include "session/origin.h"
#include "session/rig.h"
#include "session/run_plans.h"

enum { WARM = 2, BESIDE = 9, SLOTS = 4, SEED = 7 };
enum {
    ROUNDS = 4,
    QUIET = 5
}; /* of timed steps, at the most; steps that are looked at, at the least */
static const double quiet = 0.25, alike = 0.03; /* the share of steps; what they may differ by */
enum { SMALL = 128 << 10, LEAST = 512 << 10, LARGE = 16 << 20 }; /* bytes of a copy */
enum { MOST_OF_DISK = 512 << 20 };
enum { COPIES = 33 }; /* of each size */

/* What a thread copies, over and over, beside the ops.
 * @idle:   nothing: steps are made as they are in training, which on a device are not those that
 * are timed, row after row
 * @device: between its memory and pinned one; NULL: memory to memory, or a tier */
typedef struct load {
    const char *name;
    bool idle;
    dti_device_rates *device;
    dt_tier tier;
    dt_direction direction;
    dt_usual_stream stream;
    const dt_tier_desc *desc; /* NULL: of no tier with files */
    void *state;
    unsigned char *from, *to;
    atomic_bool stop;
    double bytes, seconds; /* done while it was on */
    size_t size;           /* of one copy */
    uint64_t n_slot;       /* of the disk, one behind the other */
    double alone;          /* its seconds without ops beside it */
    double step;           /* of the steps beside it: lower quartile */
    dt_status st;
} load;

enum { MOST_LOADS = 5 };

/* How long who waits for an event takes to go on. @asked: one has been told and not answered */
typedef struct relay {
    pthread_mutex_t lock;
    pthread_cond_t turned;
    bool asked, stop;
    pthread_t thread[2];
    int n_thread;
    double seconds;
    int64_t turns;
} relay;

typedef struct profiling {
    dt_session *s;
    const dt_profile_opts *o;
    dt_profile *out;
    dt_policies keep_all;
    dt_feeds feeds;
    dt_rig rig;
    dti_density_count count;
    dt_trace trace;
    double **row;    /* by plan: of each row the seconds of each timed step */
    double *step;    /* of the stage's steps */
    bool *quiet;     /* of the timed steps the quarter that took least */
    double spread;   /* what those lie apart */
    double *between; /* of each timed step, from the end of a program to the start of the next */
    struct {
        int64_t step;
        size_t plan;
        int32_t row;
        double end;
    } last;                  /* row that ran */
    int64_t in_stage, timed; /* steps */
    int64_t beside;          /* the step before which the first copies begin; 0: not known yet */
    bool done;
    load load[MOST_LOADS];
    int n_load;
    dti_device_rates *device; /* NULL: the device is the processor */
    pthread_t thread;
    bool running;
    relay relay;
} profiling;

static void tell(const profiling *p, const char *text)
{
    if (p->o->line != NULL)
        p->o->line(p->o->self, text);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double at_share(double *v, int64_t n, double share)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    const double at = share * (double)(n - 1);
    const int64_t below = (int64_t)at;
    const double next = v[below + 1 < n ? below + 1 : below];
    return v[below] + (at - (double)below) * (next - v[below]);
}

static int64_t most_timed(const profiling *p)
{
    return ROUNDS * p->o->steps;
}

/* ---- how many values are not zero ---- */

static dt_status list_waiting(profiling *p, dt_err *err)
{
    const dt_planned *first;
    DT_CHECK(dt_plan_set_add(p->s->plans, DT_PROGRAM_FIRST, p->s->micro_batch, &first, err));
    return dti_density_count_open(&p->count, first->program, err);
}

/* ---- what is copied beside the ops ---- */

static uint64_t slot_bytes(const load *l)
{
    return ((uint64_t)l->size + 4095) / 4096 * 4096; /* blocks of a disk */
}

/* The i-th. From or to where tensors lie, not at the blocks of a disk; and over as much of the disk
 * as a step goes over: below it may be caches. */
static dt_status copy_once(load *l, size_t bytes, int i, dt_err *err)
{
    const uint64_t at = (uint64_t)(i % SLOTS) * LARGE;
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
    load *l = self;
    const double from = dt_seconds();
    for (int i = 0; !atomic_load(&l->stop) && l->st == DT_OK; i++) {
        l->st = copy_once(l, l->size, i, NULL);
        l->bytes += (double)l->size;
        l->seconds = dt_seconds() - from;
    }
    return NULL;
}

/* The lower quartile of some copies: what disturbs makes them longer. */
static dt_status time_copies(load *l, size_t bytes, double *seconds, dt_err *err)
{
    double v[COPIES];
    for (int i = 0; i < COPIES; i++) {
        const double from = dt_seconds();
        DT_CHECK(copy_once(l, bytes, i, err));
        v[i] = dt_seconds() - from;
    }
    *seconds = at_share(v, COPIES, quiet);
    return DT_OK;
}

static size_t waiting_bytes(const profiling *p)
{
    size_t all = 0;
    for (size_t i = 0; i < p->count.n; i++)
        all += p->count.of[i].bytes;
    return all;
}

/* The size of copy that this network's bytes most often travel in: half of them are in smaller
 * tensors. A link is the slower the smaller its copies, and no line goes through all sizes. */
static size_t usual_size(const profiling *p)
{
    const size_t all = waiting_bytes(p);
    size_t size = LARGE;
    for (size_t i = 0; i < p->count.n; i++) {
        size_t below = 0; /* in tensors no larger than this */
        for (size_t k = 0; k < p->count.n; k++)
            below += p->count.of[k].bytes <= p->count.of[i].bytes ? p->count.of[k].bytes : 0;
        if (below >= all / 2 && p->count.of[i].bytes < size)
            size = p->count.of[i].bytes;
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

/* Two threads that wake each other, one now and then, as a stream is told of a copy and tells that
 * it is done: while the ops run, which have the processors. */
static void *ask(void *self)
{
    relay *r = self;
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
    relay *r = self;
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

/* Where no thread can be had nothing is known, and nothing is measured. */
static void start_relay(relay *r)
{
    static void *(*const half[])(void *) = {answer, ask};
    *r = (relay){.lock = PTHREAD_MUTEX_INITIALIZER, .turned = PTHREAD_COND_INITIALIZER};
    while (
        r->n_thread < 2 && dt_thread_start(&r->thread[r->n_thread], 0, half[r->n_thread], r) == 0)
        r->n_thread++;
}

/* Seconds until a thread that is told goes on. */
static double stop_relay(relay *r)
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

static dt_status measure_link(profiling *p, load *l, dt_err *err)
{
    double small, large;
    DT_CHECK(time_copies(l, LARGE, &large, err)); /* and touch all */
    DT_CHECK(time_copies(l, SMALL, &small, err));
    DT_CHECK(time_copies(l, l->size, &large, err));
    l->alone = large;
    const dt_link link = line_through(small, large, l->size);
    p->out->costs.thread_link[l->tier][l->direction] = link;
    if (l->desc != NULL || l->device != NULL) /* whatever copies to the host between ops */
        p->out->costs.link[l->tier][l->direction] = link;
    return DT_OK;
}

/* By the whole team, as copies to the host are made between ops. */
static void measure_team(profiling *p, const load *l)
{
    double small[9], large[9];
    for (int i = 0; i < 9; i++) {
        const size_t at = (size_t)(i % SLOTS) * LARGE;
        double from = dt_seconds();
        dt_cpu_copy(l->to + at, l->from + at, l->size);
        large[i] = dt_seconds() - from;
        from = dt_seconds();
        dt_cpu_copy(l->to + at, l->from + (SLOTS - 1) * (size_t)LARGE - at, SMALL);
        small[i] = dt_seconds() - from;
    }
    const dt_link link =
        line_through(at_share(small, 9, quiet), at_share(large, 9, quiet), l->size);
    if (p->device != NULL) {
        p->out->costs.host = 2 * link.rate; /* it reads and writes */
        return;
    }
    p->out->costs.link[DT_TIER_HOST][DT_TO_TIER] = link;
    p->out->costs.link[DT_TIER_HOST][DT_FROM_TIER] = link;
}

static bool has_disk(const dt_session *s)
{
    return s->opts.memory.disk_path != NULL || dt_session_request(s).tier == DT_TO_DISK;
}

static dt_status open_disk(profiling *p, load *l, dt_err *err)
{
    const char *note = NULL;
    const dt_tier_opts o = {.bytes = l->n_slot * slot_bytes(l) + LARGE,
        .path = dt_session_disk_path(p->s),
        .checksum = p->s->opts.memory.checksum};
    l->desc = dt_tier_standard(DT_TIER_DISK);
    return l->desc->reserve(&o, &l->state, &note, err);
}

/* What is read was written before. */
static dt_status fill_slots(load *l, dt_err *err)
{
    for (uint64_t k = 0; k < l->n_slot; k++)
        DT_CHECK(l->desc->write(l->state, k * slot_bytes(l), l->from + DT_ALIGN, l->size, err));
    return DT_OK;
}

static dt_status open_loads(profiling *p, dt_err *err)
{
    static const load kinds[MOST_LOADS] = {
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
    const size_t size = usual_size(p), all = waiting_bytes(p);
    const size_t slots = (all < MOST_OF_DISK ? all : MOST_OF_DISK) / size;
    const int first = p->device != NULL ? 0 : 1, end = has_disk(p->s) ? MOST_LOADS : MOST_LOADS - 2;
    for (int i = first; i < end; i++) {
        load *l = &p->load[p->n_load++];
        memcpy(l, &kinds[i], sizeof *l);
        if (l->idle)
            continue;
        l->device = l->tier == DT_TIER_HOST ? p->device : NULL;
        l->size = size;
        l->n_slot = slots > SLOTS ? slots : SLOTS;
        l->from = aligned_alloc(4096, (size_t)SLOTS * LARGE + 4096);
        l->to = aligned_alloc(4096, (size_t)SLOTS * LARGE + 4096);
        if (l->from == NULL || l->to == NULL)
            return DT_FAIL(err, DT_E_NOMEM, "no memory to measure links");
        memset(l->from, 1, (size_t)SLOTS * LARGE);
        memset(l->to, 2, (size_t)SLOTS * LARGE);
        if (l->tier == DT_TIER_DISK)
            DT_CHECK(open_disk(p, l, err));
        if (l->tier == DT_TIER_DISK && l->direction == DT_FROM_TIER)
            DT_CHECK(fill_slots(l, err));
        DT_CHECK(measure_link(p, l, err));
        if (l->tier == DT_TIER_HOST)
            measure_team(p, l);
    }
    return DT_OK;
}

static void close_loads(profiling *p)
{
    for (int i = 0; i < p->n_load; i++) {
        if (p->load[i].desc != NULL)
            p->load[i].desc->release(p->load[i].state);
        free(p->load[i].from);
        free(p->load[i].to);
    }
}

static dt_status start_load(profiling *p, load *l, dt_err *err)
{
    char text[96];
    snprintf(text, sizeof text,
        l->idle ? "%d steps as they are in training" : "%d steps beside copies %s", BESIDE,
        l->name);
    tell(p, text);
    if (l->idle)
        return DT_OK;
    atomic_store(&l->stop, false);
    l->bytes = l->seconds = 0;
    p->running = dt_thread_start(&p->thread, 0, copy_on, l) == 0;
    return p->running ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no thread to copy beside the ops");
}

static void stop_load(profiling *p, load *l)
{
    if (!p->running)
        return;
    atomic_store(&l->stop, true);
    (void)pthread_join(p->thread, NULL);
    p->running = false;
}

/* ---- stages of the run ---- */

/* The row's seconds in this step, beside those of the steps before. Between programs the host sums
 * the squares of the gradients and reads the loss. */
static void ran(void *self, const dt_trace_row *r)
{
    profiling *p = self;
    if (p->in_stage >= most_timed(p))
        return;
    p->row[r->plan][(int64_t)r->row * most_timed(p) + p->in_stage] += r->end - r->begin;
    const bool begins = p->last.step == p->in_stage && p->last.end < r->begin &&
                        ((size_t)r->plan != p->last.plan || r->row <= p->last.row);
    p->between[p->in_stage] += begins ? r->begin - p->last.end : 0;
    p->last.step = p->in_stage;
    p->last.plan = (size_t)r->plan;
    p->last.row = r->row;
    p->last.end = r->end;
}

static dt_status make_rows(profiling *p, dt_err *err)
{
    const dt_plan_set *set = p->s->plans;
    const size_t most = (size_t)most_timed(p);
    p->step = dt_alloc(most + BESIDE, sizeof *p->step);
    p->row = dt_alloc(set->n, sizeof *p->row);
    p->quiet = dt_alloc(most, sizeof *p->quiet);
    p->between = dt_alloc(most, sizeof *p->between);
    bool ok = p->step != NULL && p->row != NULL && p->quiet != NULL && p->between != NULL;
    for (size_t i = 0; ok && i < set->n; i++) {
        p->row[i] = dt_alloc(set->planned[i]->plan->n_row * most, sizeof(double));
        ok = p->row[i] != NULL;
    }
    return ok ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory for a profile");
}

static double mean_of_quiet(const profiling *p, const double *v)
{
    double sum = 0;
    int64_t taken = 0;
    for (int64_t i = 0; i < p->timed; i++) {
        taken += p->quiet[i];
        sum += p->quiet[i] ? v[i] : 0;
    }
    return sum / (double)taken;
}

/* The quarter of the timed steps that took least: others were disturbed, or more than these. What
 * always takes its share, the loader's threads for one, meets other rows in every step: the rows'
 * own least would leave it out, their means over the same steps add up to the step. */
static dt_status choose_quiet(profiling *p, dt_err *err)
{
    const int64_t n = p->timed, part = (int64_t)(quiet * (double)n);
    const int64_t most = part > QUIET ? part : n < QUIET ? n : QUIET;
    double *sorted = dt_alloc((size_t)n, sizeof *sorted);
    if (sorted == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a profile");
    memcpy(sorted, p->step, (size_t)n * sizeof *sorted);
    const double low = at_share(sorted, n, 0), high = sorted[most - 1];
    dt_free(sorted);
    for (int64_t i = 0; i < n; i++)
        p->quiet[i] = p->step[i] <= high;
    p->spread = high - low;
    p->out->step = mean_of_quiet(p, p->step);
    return DT_OK;
}

int64_t dt_profile_steps(const dt_profile_opts *o)
{
    return o->steps + (o->timed ? WARM + ROUNDS * o->steps + MOST_LOADS * BESIDE : 0);
}

static dt_status check_quiet(const profiling *p, dt_err *err)
{
    if (p->spread <= 0.1 * p->out->step + 1e-3)
        return DT_OK;
    return DT_FAIL(err, DT_E_DEVICE,
        "of %" PRId64
        " steps even the quietest differ by %.4f s of %.4f s: something else is at work "
        "here, and such a profile would not hold; profile again when the machine is quiet, or with "
        "more --steps",
        p->timed, p->spread, p->out->step);
}

/* A round of timed steps is done: another one follows where they differ. */
static dt_status next_round(profiling *p, int64_t done, dt_err *err)
{
    char text[96];
    p->timed = p->in_stage;
    DT_CHECK(choose_quiet(p, err));
    if (p->spread <= alike * p->out->step + 1e-4 || p->timed == most_timed(p)) {
        p->beside = done;
        DT_CHECK(check_quiet(p, err));
        return dt_runner_set_trace(p->rig.runner, NULL, err);
    }
    snprintf(text, sizeof text, "timing more: the quietest %.0f %% of the steps differ by %.1f %%",
        100 * quiet, 100 * p->spread / p->out->step);
    tell(p, text);
    return DT_OK;
}

/* The steps beside a load are done. */
static dt_status next_load(profiling *p, int64_t done, dt_err *err)
{
    const int64_t next = (done - p->beside) / BESIDE;
    if (next > 0) {
        stop_load(p, &p->load[next - 1]);
        p->load[next - 1].step = at_share(p->step, BESIDE, quiet);
    }
    p->in_stage = 0;
    p->done = next == p->n_load;
    return p->done ? DT_OK : start_load(p, &p->load[next], err);
}

/* Begins the stage that the next step is of. Stages: counted, warm, timed, one beside each load. */
static dt_status next_stage(profiling *p, int64_t done, dt_err *err)
{
    const int64_t timed = p->o->steps + WARM;
    p->in_stage++;
    if (done == 0) {
        dt_runner_set_probe(p->rig.runner, &p->count.probe);
        if (p->o->timed)
            start_relay(&p->relay);
    } else if (done == p->o->steps) {
        dt_runner_set_probe(p->rig.runner, NULL);
        p->out->costs.wake = stop_relay(&p->relay);
    } else if (done == timed) {
        p->in_stage = 0;
        tell(p, "timing rows");
        return dt_runner_set_trace(p->rig.runner, &p->trace, err);
    } else if (done > timed && p->beside == 0 && p->in_stage % p->o->steps == 0) {
        DT_CHECK(next_round(p, done, err));
    }
    if (p->beside == 0 || (done - p->beside) % BESIDE != 0)
        return DT_OK;
    return next_load(p, done, err);
}

static bool is_done(void *self)
{
    const profiling *p = self;
    return p->done;
}

static dt_status step_done(void *self, const dt_step_report *r, dt_err *err)
{
    profiling *p = self;
    if (p->step != NULL && p->in_stage < most_timed(p) + BESIDE)
        p->step[p->in_stage] = r->step_seconds - r->wait_seconds;
    return p->o->timed || r->step < p->o->steps ? next_stage(p, r->step, err) : DT_OK;
}

static dt_status run_steps(profiling *p, dt_err *err)
{
    const dt_observer o = {.self = p, .step = step_done, .stop = is_done};
    const dt_train_job j = {.runner = p->rig.runner,
        .map = p->s->plans->map,
        .opts = &p->s->opts.train,
        .micro_batch = p->s->micro_batch,
        .ready = p->rig.ready,
        .n_ready = p->rig.n,
        .feed = dt_loader_feed(p->feeds.train_loader),
        .steps = dt_profile_steps(p->o),
        .steps_per_epoch = p->feeds.steps_per_epoch,
        .observer = &o};
    tell(p, "counting values");
    p->trace = (dt_trace){p, ran};
    p->in_stage = -1;
    DT_CHECK(next_stage(p, 0, err));
    dt_status st = dt_train(&j, err);
    if (st == DT_E_STOPPED && p->done) {
        dt_err_clear(err);
        st = DT_OK;
    }
    for (int i = 0; i < p->n_load; i++)
        stop_load(p, &p->load[i]);
    (void)stop_relay(&p->relay);
    dt_runner_set_probe(p->rig.runner, NULL);
    return st;
}

/* ---- from rows to costs ---- */

static bool is_timed(const dt_row *row)
{
    return row->kind == DT_ROW_COMPUTE || row->kind == DT_ROW_COPY_IN;
}

static size_t timed_rows(const dt_plan *plan)
{
    size_t n = 0;
    for (size_t r = 0; r < plan->n_row; r++)
        n += is_timed(&plan->row[r]);
    return n;
}

static dt_status add_rows(
    profiling *p, size_t i, dt_cost_entry *to, size_t *n, double *fetched, double *fetch_seconds)
{
    const dt_planned *x = p->s->plans->planned[i];
    const int64_t most = most_timed(p), times = dti_plan_set_times(p->s->plans, x);
    for (size_t r = 0; times > 0 && r < x->plan->n_row; r++) {
        const dt_row *row = &x->plan->row[r];
        double *v = p->row[i] + (int64_t)r * most;
        if (!is_timed(row))
            continue;
        const double seconds = mean_of_quiet(p, v);
        const double spread = at_share(v, p->timed, 0.75) - at_share(v, p->timed, 0.25);
        p->out->rows += seconds;
        if (row->kind == DT_ROW_COPY_IN) {
            *fetched += (double)(times * (int64_t)row->bytes);
            *fetch_seconds += seconds;
            continue;
        }
        char signature[DT_SIGNATURE_BYTES];
        dt_cost_entry *e = &to[*n];
        *e = (dt_cost_entry){.seconds = seconds / (double)times,
            .spread = seconds > 0 ? spread / seconds : 0,
            .floor = dt_costs_floor(&p->out->costs, x->plan, &x->plan->op[row->op])};
        dt_cost_signature(x->plan, &x->plan->op[row->op], signature, &e->samples);
        e->signature = dt_strdup(signature);
        if (e->signature == NULL)
            return DT_E_NOMEM;
        ++*n;
    }
    return DT_OK;
}

static int by_signature(const void *a, const void *b)
{
    const dt_cost_entry *x = a, *y = b;
    const int order = strcmp(x->signature, y->signature);
    return order != 0 ? order : (x->samples > y->samples) - (x->samples < y->samples);
}

/* Ops of one signature become one entry, their mean. */
static dt_status add_means(profiling *p, dt_cost_entry *e, size_t n, dt_err *err)
{
    if (n > 0)
        qsort(e, n, sizeof *e, by_signature);
    for (size_t i = 0, next; i < n; i = next) {
        dt_cost_entry mean = e[i];
        for (next = i + 1; next < n && by_signature(&e[i], &e[next]) == 0; next++) {
            mean.seconds += e[next].seconds;
            mean.spread += e[next].spread;
        }
        mean.seconds /= (double)(next - i);
        mean.spread /= (double)(next - i);
        DT_CHECK(dt_costs_add(&p->out->costs, &mean, err));
    }
    return DT_OK;
}

/* The most operations a second that any op of a device reaches, in place of a roof that is not
 * known. */
static void roof_of_ops(profiling *p)
{
    const dt_plan_set *set = p->s->plans;
    double best = 0;
    for (size_t i = 0; i < set->n; i++) {
        const dt_planned *x = set->planned[i];
        const double times = (double)dti_plan_set_times(set, x);
        for (size_t r = 0; times > 0 && r < x->plan->n_row; r++) {
            const dt_row *row = &x->plan->row[r];
            if (row->kind != DT_ROW_COMPUTE)
                continue;
            const double seconds = mean_of_quiet(p, p->row[i] + (int64_t)r * most_timed(p)) / times;
            const double rate = seconds > 0 ? x->plan->op[row->op].flops / seconds : 0;
            best = rate > best ? rate : best;
        }
    }
    for (int w = 0; w < DT_WORKS && best > 0; w++)
        for (int t = 0; t < DT_DTYPES; t++)
            p->out->costs.flops[w][t] = best;
}

static dt_status collect(profiling *p, dt_err *err)
{
    const dt_plan_set *set = p->s->plans;
    size_t most = 0, n = 0;
    double fetched = 0, fetch_seconds = 0;
    if (p->device != NULL)
        roof_of_ops(p);
    for (size_t i = 0; i < set->n; i++)
        most += set->planned[i]->plan->n_row;
    dt_cost_entry *e = dt_alloc(most, sizeof *e);
    dt_status st = e != NULL ? DT_OK : DT_E_NOMEM;
    for (size_t i = 0; st == DT_OK && i < set->n; i++)
        st = add_rows(p, i, e, &n, &fetched, &fetch_seconds);
    st =
        st == DT_OK ? add_means(p, e, n, err) : DT_FAIL(err, DT_E_NOMEM, "no memory for a profile");
    for (size_t i = 0; i < n; i++)
        dt_free(e[i].signature);
    dt_free(e);
    dt_costs *c = &p->out->costs;
    if (fetch_seconds > 0 && fetched > 0) {
        const dt_link link = {0, fetched / fetch_seconds};
        c->link[DT_TIER_INPUT][DT_FROM_TIER] = link;
        c->thread_link[DT_TIER_INPUT][DT_FROM_TIER] = link;
    }
    c->rest = p->out->step > p->out->rows ? p->out->step - p->out->rows : 0;
    return st;
}

/* What copies and ops do to each other, never less than nothing. */
static void slow_each_other(profiling *p)
{
    const double step = p->load[0].idle ? p->load[0].step : p->out->step;
    for (int i = 0; i < p->n_load; i++) {
        const load *l = &p->load[i];
        dt_costs *c = &p->out->costs;
        if (l->idle)
            continue;
        const double ops = step > 0 ? l->step / step : 1;
        const double copies = l->bytes > 0 ? l->seconds / l->bytes * (double)l->size / l->alone : 1;
        c->slow[DT_USUAL_COMPUTE][l->stream] = ops > 1 ? ops : 1;
        c->slow[l->stream][DT_USUAL_COMPUTE] = copies > 1 ? copies : 1;
    }
}

/* More than rounding, clocks and the loop around the rows. Of a device nothing follows from it: it
 * rests while the host sees to each row, which it does not in training. */
static dt_status check_sum(const profiling *p, dt_err *err)
{
    if (p->device != NULL)
        return DT_OK;
    const double told = p->out->rows + mean_of_quiet(p, p->between);
    const double rest = fabs(p->out->step - told), allowed = 0.02 * p->out->step + 1e-3;
    if (rest <= allowed)
        return DT_OK;
    return DT_FAIL(err, DT_E_DEVICE,
        "of a step of %.4f s its rows and what lies between programs take %.4f s: something else "
        "was at work here, and such a "
        "profile would not hold; profile again when the machine is quiet, or with more --steps",
        p->out->step, told);
}

/* A device that is waited for after each row takes longer for all of them than for a step that it
 * is told of as a whole: each row less, by the same. */
static void as_in_training(profiling *p)
{
    const dt_plan_set *set = p->s->plans;
    dt_costs *c = &p->out->costs;
    double rows = 0;
    if (p->device == NULL || !(p->load[0].step > 0 && p->load[0].step < p->out->step))
        return;
    for (size_t i = 0; i < set->n; i++)
        rows += (double)timed_rows(set->planned[i]->plan) *
                (double)dti_plan_set_times(set, set->planned[i]);
    const double more = p->out->rows - p->load[0].step;
    const double each = more > 0 && rows > 0 ? more / rows : 0;
    for (size_t i = 0; i < c->n_entry; i++) {
        dt_cost_entry *e = &c->entry[i];
        e->seconds = e->seconds > 2 * each ? e->seconds - each : e->seconds / 2;
    }
    p->out->step = p->load[0].step;
    p->out->rows = more > 0 ? p->out->step : p->out->rows;
    c->rest = p->out->step - p->out->rows;
}

/* ---- codecs ---- */

typedef struct packing {
    float *values, *back;
    unsigned char *packed;
    size_t count, bytes;
} packing;

static void fill(packing *k, double density)
{
    for (size_t i = 0; i < k->count; i += 2) {
        const dt_u32x4 r = dt_random(SEED, DT_RANDOM_TEST, 0, 0, (uint64_t)i);
        for (size_t j = 0; j < 2; j++)
            k->values[i + j] =
                (double)dt_unit(r.v[2 * j]) < density ? dt_unit(r.v[2 * j + 1]) + 0.5f : 0.0f;
    }
}

/* @n values once, by the processor. */
static dt_status pack_here(
    packing *k, const dt_codec *codec, size_t n, double *pack, double *unpack, dt_err *err)
{
    const double from = dt_seconds();
    if (!dt_pack(codec, k->values, n, k->packed, k->bytes))
        return DT_FAIL(err, DT_E_INTERNAL, "%s packs into no capacity", codec->name);
    const double then = dt_seconds();
    DT_CHECK(dt_unpack(codec, k->packed, k->bytes, k->back, n, err));
    *pack = then - from;
    *unpack = dt_seconds() - then;
    return DT_OK;
}

static dt_status pack_once(const profiling *p, packing *k, const dt_codec *codec, size_t n,
    bool across, double *pack, double *unpack, dt_err *err)
{
    return p->device != NULL ? dti_device_rates_codec(p->device, codec, k->values, n,
                                   dt_packed_bytes(codec, n, 1), across, pack, unpack, err)
                             : pack_here(k, codec, n, pack, unpack, err);
}

/* By few values where many would take too long. */
static dt_status time_codec(
    profiling *p, packing *k, const dt_codec *codec, double density, bool across, dt_err *err)
{
    enum { TURNS = 5, FEW = 256 }; /* the few are so small a share */
    static const double patience = 0.5;
    double pack[TURNS], unpack[TURNS];
    dt_codec_rate rate = {.density = density, .across = across};
    snprintf(rate.codec, sizeof rate.codec, "%s", codec->name);
    size_t n = k->count / FEW;
    DT_CHECK(pack_once(p, k, codec, n, across, pack, unpack, err));
    n = (pack[0] + unpack[0]) * FEW > patience ? n : k->count;
    for (int i = 0; i < TURNS; i++)
        DT_CHECK(pack_once(p, k, codec, n, across, &pack[i], &unpack[i], err));
    const double bytes = (double)(n * sizeof(float));
    rate.pack = bytes / at_share(pack, TURNS, quiet);
    rate.unpack = bytes / at_share(unpack, TURNS, quiet);
    return dt_costs_add_rate(&p->out->costs, &rate, err);
}

/* On a device beside the values and across the link, if it has the codec. */
static dt_status time_near_and_far(
    profiling *p, packing *k, const dt_codec *codec, double density, dt_err *err)
{
    if (p->device != NULL && !dt_device_driver(p->s->context.device)->can_pack(codec))
        return DT_OK;
    DT_CHECK(time_codec(p, k, codec, density, false, err));
    return p->device != NULL ? time_codec(p, k, codec, density, true, err) : DT_OK;
}

static dt_status time_codecs(profiling *p, packing *k, dt_err *err)
{
    static const double densities[] = {0.05, 0.35, 0.65, 1};
    size_t n;
    const dt_codec *const *all = dt_codec_all(&n);
    for (size_t d = 0; d < DT_COUNT(densities); d++) {
        fill(k, densities[d]);
        for (size_t i = 0; i < n; i++)
            if (all[i]->sparse || d + 1 == DT_COUNT(densities))
                DT_CHECK(time_near_and_far(p, k, all[i], densities[d], err));
    }
    return DT_OK;
}

static dt_status measure_codecs(profiling *p, dt_err *err)
{
    packing k = {.count = LARGE / sizeof(float)};
    size_t n;
    const dt_codec *const *all = dt_codec_all(&n);
    for (size_t i = 0; i < n; i++) {
        const size_t bytes = dt_packed_bytes(all[i], k.count, 1);
        k.bytes = bytes > k.bytes ? bytes : k.bytes;
    }
    k.values = dt_alloc(k.count, sizeof *k.values);
    k.back = dt_alloc(k.count, sizeof *k.back);
    k.packed = dt_alloc(k.bytes, 1);
    dt_status st = k.values != NULL && k.back != NULL && k.packed != NULL
                       ? time_codecs(p, &k, err)
                       : DT_FAIL(err, DT_E_NOMEM, "no memory to measure codecs");
    dt_free(k.values);
    dt_free(k.back);
    dt_free(k.packed);
    return st;
}

/* ---- the whole ---- */

static dt_status measure_processor(dt_costs *c, dt_dtype t, dt_err *err)
{
    dt_machine m;
    DT_CHECK(dti_machine_measure(&m, t, err));
    for (int w = 0; w < DT_WORKS; w++)
        for (int k = 0; k < DT_DTYPES; k++)
            c->flops[w][k] = m.flops[k] > 0 ? m.flops[k] : m.flops[DT_F32];
    c->bytes = m.bytes;
    return DT_OK;
}

/* The roof is what floors are taken from, so it comes first; a device's arithmetic is what its best
 * op shows (roof_of_ops). */
static dt_status measure_machine(profiling *p, dt_err *err)
{
    const dt_driver *d = dt_device_driver(p->s->context.device);
    dt_costs *c = &p->out->costs;
    tell(p, "measuring the machine, its links and codecs");
    if (d != NULL && !d->immediate) {
        DT_CHECK(dti_device_rates_open(&p->device, d, (uint64_t)SLOTS * LARGE, err));
        DT_CHECK(dti_device_rates_own(p->device, &c->bytes, err));
    } else {
        DT_CHECK(measure_processor(c, p->s->graph->dtype, err));
    }
    DT_CHECK(measure_codecs(p, err));
    return open_loads(p, err);
}

/* Plans that keep all, in the place of the session's. */
static dt_status plan_to_keep(profiling *p, dt_err *err)
{
    dt_plan_request r;
    dti_session_forget(p->s);
    DT_CHECK(dt_policies_open(&p->keep_all, "keep_all", NULL, err));
    r = dt_session_request(p->s);
    r.policies = &p->keep_all;
    r.fates = NULL;
    DT_CHECK(dt_plan_set_create(&p->s->plans, p->s, &r, err));
    return dti_plan_set_run(p->s->plans, false, 0, 0, err);
}

static dt_status measure(profiling *p, dt_err *err)
{
    dt_session *s = p->s;
    DT_CHECK(plan_to_keep(p, err));
    DT_CHECK(dti_session_check_run(s, false, err)); /* before any data is read */
    DT_CHECK(dt_feeds_open(&p->feeds, s, err));
    DT_CHECK(dti_plan_set_run(s->plans, false, p->feeds.last, 0, err));
    DT_CHECK(dti_plan_set_check_statistics(s->plans, err));
    DT_CHECK(dti_session_check_run(s, true, err));
    DT_CHECK(list_waiting(p, err));
    if (p->o->timed)
        DT_CHECK(measure_machine(p, err));
    DT_CHECK(dti_rig_open(&p->rig, s, err));
    if (p->o->timed)
        DT_CHECK(make_rows(p, err));
    DT_CHECK(run_steps(p, err));
    DT_CHECK(dti_density_count_keep(&p->count, p->o->margin, true, &p->out->densities, err));
    if (!p->o->timed)
        return DT_OK;
    DT_CHECK(collect(p, err));
    slow_each_other(p);
    DT_CHECK(check_sum(p, err));
    as_in_training(p);
    return dt_costs_seal(&p->out->costs, err);
}

dt_status dt_profile_measure(dt_session *s, const dt_profile_opts *o, dt_profile *out, dt_err *err)
{
    profiling p = {.s = s, .o = o, .out = out, .last.step = -1};
    *out = (dt_profile){.costs = dt_costs_default};
    dti_session_origin(s, &out->origin);
    const dt_status st = measure(&p, err);
    close_loads(&p);
    dti_device_rates_close(p.device);
    for (size_t i = 0; p.row != NULL && i < s->plans->n; i++)
        dt_free(p.row[i]);
    dt_free(p.row);
    dt_free(p.step);
    dt_free(p.quiet);
    dt_free(p.between);
    dti_rig_close(&p.rig);
    dt_feeds_close(&p.feeds);
    dti_density_count_close(&p.count);
    dti_session_forget(s); /* they borrow the policies */
    dt_policies_close(&p.keep_all);
    return st;
}

void dt_profile_deinit(dt_profile *p)
{
    dt_costs_deinit(&p->costs);
    dt_densities_close(&p->densities);
}
