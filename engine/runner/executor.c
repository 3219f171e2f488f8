/* A run of a plan, row by row. The calling thread goes through the rows of compute and through the
 * copies that have no thread of their own, and puts them on the device's queues; between queues
 * there are the plan's events. What the host's processor computes beside the device, the disk, and
 * copies where they are given threads, have threads of the host: they wait until a device's event
 * has happened, and the calling thread waits for them where its rows do. On the processor what is
 * put on a queue is done at once.
 *
 * What is put there is the same in every run, as the numbers that differ are read from a block of
 * the device's memory: so a plan can be kept and done again as a whole (graphs.c). */
#include <inttypes.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/cpu.h"
#include "engine/base/mix.h"
#include "engine/runner/runner_internal.h"

enum { HOST = DT_MAIN_STREAM /* the calling thread */, MOST_DELAY = 150000 /* ns */ };

/* ---- one row ---- */

/* What a step's kernels are told, this time. */
static dt_args args_of(const dti_step *s, void *queue)
{
    const bool host = s->compute.host;
    dt_args a = s->compute.args;
    a.queue = queue;
    a.now = host ? &s->r->now : &s->r->there->now;
    a.overflow = host ? NULL : &s->r->there->overflow; /* what the host computes packs nothing */
    const int32_t g = s->compute.gradient;
    if (g != DT_NONE && s->r->turned[g])
        a.port[DT_DP] = dti_home_at(s->r, &s->r->o.map->home[g]);
    if (s->r->d->kernels_on_host || host) {
        a.sample0 += a.now->sample0;
        a.step = a.now->step;
        a.step_labels = a.now->step_labels;
        a.hyper = a.now->hyper;
    }
    return a;
}

/* What is asked of gradients before an update, of one that no one can ask for later. */
static dt_status watch(const dti_step *s, const dt_args *a, dt_err *err)
{
    const dti_compute *c = &s->compute;
    const dt_floats gradient = {a->port[DT_DP], c->gradients};
    return s->r->d->squares(s->r->device, &gradient, 1, &s->r->squares[c->updates], err);
}

static dt_status launch(void *step, void *queue, dt_err *err)
{
    const dti_step *s = step;
    const dti_compute *c = &s->compute;
    const dt_args a = args_of(s, queue);
    if (s->r->held && c->updates != DT_NONE && a.port[DT_DP] != NULL)
        return DT_OK;
    if (s->r->watched && c->updates != DT_NONE && c->gradients > 0)
        DT_TRY(err, watch(s, &a, err), "%s", s->name);
    DT_TRY(err, c->kernels->run(&c->call, c->state, &a, err), "%s", s->name);
    return DT_OK;
}

/* A step and those fused with it. */
static dt_status launch_fused(void *step, void *queue, dt_err *err)
{
    const dti_step *first = step;
    const dt_runner *r = first->r;
    int n = 0;
    for (const dti_step *s = first; s != NULL; s = s->compute.fused, n++) {
        r->fused.call[n] = &s->compute.call;
        r->fused.args[n] = args_of(s, queue);
    }
    if (first->compute.kernels->run_many != NULL) {
        DT_TRY(err, first->compute.kernels->run_many(r->fused.call, r->fused.args, n, err),
            "%s and %d more", first->name, n - 1);
        return DT_OK;
    }
    n = 0;
    for (const dti_step *s = first; s != NULL; s = s->compute.fused, n++)
        DT_TRY(err,
            s->compute.kernels->run(&s->compute.call, s->compute.state, &r->fused.args[n], err),
            "%s", s->name);
    return DT_OK;
}

/* To or from bytes that the device reaches, packed on the way or not. */
static dt_status put_copy(const dti_step *s, unsigned char *host, dt_err *err)
{
    const dti_copy *c = &s->copy;
    const dt_driver *d = s->r->d;
    void *self = s->r->device;
    const int q = s->stream;
    const size_t count = c->bytes / sizeof(float);
    if (c->codec == NULL)
        return c->out ? d->copy(self, q, host, c->device, c->bytes, err)
                      : d->copy(self, q, c->device, host, c->bytes, err);
    return c->out ? d->pack(self, q, c->codec, c->device, count, host, c->stored,
                        &s->r->there->overflow, err)
                  : d->unpack(self, q, c->codec, host, c->stored, c->device, count, err);
}

static uint64_t slot_of(const dt_runner *r, const dti_copy *c)
{
    return c->home != DT_NONE ? dti_home_slot(r, &r->o.map->home[c->home], c->slot) : c->slot;
}

/* Bytes of a slot that say something: what is packed says in its first ones how long it is. */
static uint64_t used_at(const dti_copy *c, const unsigned char *slot)
{
    return c->codec != NULL ? dti_packed_used(slot, c->stored) : c->bytes;
}

/* By a tier's write and read, which wait: from and to the arena itself, or by way of a stage. */
static dt_status copy_by_stage(dti_step *s, uint64_t slot, uint64_t used, dt_err *err)
{
    dt_runner *r = s->r;
    dti_copy *c = &s->copy;
    const dti_tier *t = &r->tier[c->tier];
    const bool direct = c->codec == NULL && r->d->host_memory;
    unsigned char *via = direct ? c->device : r->stage[s->stream].base;
    if (!c->out)
        DT_CHECK(t->desc->read(t->state, slot, via, used, err));
    if (!direct) {
        DT_CHECK(put_copy(s, via, err));
        DT_CHECK(r->d->finish_queue(r->device, s->stream, err));
    }
    if (!c->out)
        return DT_OK;
    c->used = used_at(c, via);
    return t->desc->write(t->state, slot, via, c->used, err);
}

uint64_t dti_copy_used(const dti_plan *p, const dti_copy *c)
{
    return c->out ? c->used : c->pair >= 0 ? p->step[c->pair].copy.used : c->bytes;
}

static dt_status copy(const dti_run *u, dti_step *s, dt_err *err)
{
    dti_copy *c = &s->copy;
    const dti_tier *t = &u->r->tier[c->tier];
    const uint64_t used = c->out ? c->bytes : dti_copy_used(u->p, c), slot = slot_of(u->r, c);
    if (c->out && c->home != DT_NONE)
        u->r->beside[c->home] = u->r->o.map->home[c->home].next != u->r->o.map->home[c->home].off;
    const dt_status st =
        t->map != NULL ? put_copy(s, t->map + slot, err) : copy_by_stage(s, slot, used, err);
    if (c->out && t->map != NULL && u->r->d->immediate)
        c->used = used_at(c, t->map + slot); /* now: the slot may be another tensor's next */
    DT_TRY(err, st, "copy %s %s the %s tier: slot at byte %" PRIu64 ", %" PRIu64 " bytes", s->name,
        c->out ? "out to" : "in from", dt_tier_name((int)c->tier), slot,
        c->out && t->map == NULL ? c->used : used);
    return DT_OK;
}

static dt_status copy_or_fetch(const dti_run *u, dti_step *s, int thread, dt_err *err)
{
    const double from = thread == HOST ? dt_seconds() : 0;
    const dt_status st = s->kind == DTI_FETCH ? dti_input_fetch(u, s, err) : copy(u, s, err);
    if (thread == HOST)
        u->r->stats.copy_seconds += dt_seconds() - from;
    return st;
}

/* @by: launch, or launch_fused. */
static dt_status put(const dti_run *u, dti_step *s, dt_launch by, int thread, dt_err *err)
{
    if (s->kind != DTI_COMPUTE)
        return copy_or_fetch(u, s, thread, err);
    return s->compute.host ? launch(s, NULL, err) : u->r->d->launch(u->r->device, by, s, err);
}

dt_status dti_step_put(const dti_run *u, dti_step *s, int thread, dt_err *err)
{
    const int launched = s->kind == DTI_COMPUTE ? s->compute.launched : 1;
    return launched == 0 ? DT_OK /* it is there already */
                         : put(u, s, launched > 1 ? launch_fused : launch, thread, err);
}

static dt_status put_alone(const dti_run *u, dti_step *s, int thread, dt_err *err)
{
    return put(u, s, launch, thread, err);
}

dt_status dti_step_alone(const dti_run *u, dti_step *s, int thread, dt_err *err)
{
    DT_CHECK(put_alone(u, s, thread, err));
    DT_CHECK(u->r->d->finish(u->r->device, err));
    return u->r->probe != NULL && s->kind == DTI_COMPUTE ? dti_show(u, s, err) : DT_OK;
}

static dt_status traced(const dti_run *u, dti_step *s, int thread, dt_err *err)
{
    DT_CHECK(dti_trace_stamp(u, s, false, err));
    DT_CHECK(put_alone(u, s, thread, err));
    return dti_trace_stamp(u, s, true, err);
}

dt_status dti_step_wait(const dti_run *u, const dti_step *s, int thread, dt_err *err)
{
    dt_runner *r = u->r;
    if (thread == HOST && s->from == HOST)
        return r->d->wait(r->device, s->stream, s->event, err);
    dti_stream_wait(r->streams, thread, s->event);
    return s->from == HOST && !dti_streams_stopped(r->streams)
               ? r->d->finish_event(r->device, s->event, err)
               : DT_OK;
}

/* ---- all rows ---- */

/* In each run some threads are later than others, so that they come far apart. */
static void delay(const dti_run *u, int thread, int32_t step)
{
    const uint64_t run = dti_mix(u->r->delay_seed + dti_mix(dti_streams_runs(u->r->streams)));
    const uint64_t most = MOST_DELAY >> dti_mix(run + (uint64_t)thread) % 8;
    const uint64_t late = dti_mix(run + DT_MAX_STREAMS + (uint64_t)step) % (most + 1);
    (void)nanosleep(&(struct timespec){.tv_nsec = (long)late}, NULL);
}

/* The steps of one thread, as they stand in the plan. */
static dt_status run_rows(const dti_run *u, int thread, dt_err *err)
{
    dt_runner *r = u->r;
    const bool late = r->delay_seed != 0 && u->p->threads != 0;
    const bool probed = r->probe != NULL && thread == HOST;
    for (int32_t i = u->p->begin[thread]; i >= 0; i = u->p->step[i].next) {
        dti_step *s = &u->p->step[i];
        if (dti_streams_stopped(r->streams))
            break;
        if (s->kind == DTI_WAIT) {
            DT_CHECK(dti_step_wait(u, s, thread, err));
            continue;
        }
        if (late)
            delay(u, thread, i);
        DT_CHECK(probed             ? dti_step_alone(u, s, thread, err)
                 : r->trace != NULL ? traced(u, s, thread, err)
                                    : dti_step_put(u, s, thread, err));
        if (s->event >= 0 && thread == HOST)
            DT_CHECK(r->d->signal(r->device, s->stream, s->event, err));
        if (s->crosses)
            dti_stream_signal(r->streams, s->event);
    }
    return DT_OK;
}

dt_status dti_check_team(const dt_runner *r, int team, const char *what, dt_err *err)
{
    const int now = dt_cpu_threads();
    if (!r->d->kernels_on_host || now == team)
        return DT_OK;
    return DT_FAIL(err, DT_E_CONFIG,
        "the plan's %s for %d threads, but the thread that runs it has %d: call it from "
        "where it was planned, or set OMP_NUM_THREADS=%d",
        what, team, now, team);
}

dt_status dti_run_begin(const dti_run *u, dt_err *err)
{
    dt_runner *r = u->r;
    const dt_run_args *a = u->a;
    DT_CHECK(dti_check_team(r, u->p->team, "scratch is", err));
    r->held = a->hold;
    DT_CHECK(dti_input_begin(u, err));
    r->now = (dt_now){a->sample0, a->step, a->step_labels, a->hyper};
    dti_hyper_correct(&r->now.hyper, a->step);
    *r->here = (dti_control){.now = r->now};
    return r->d->copy(r->device, HOST, r->there, r->here, sizeof *r->here, err);
}

dt_status dti_run_end(const dti_run *u, dt_err *err)
{
    dt_runner *r = u->r;
    DT_CHECK(r->d->join(r->device, err));
    return r->d->copy(r->device, HOST, r->here, r->there, sizeof *r->here, err);
}

static dt_status body(void *arg, int thread, dt_err *err)
{
    const dti_run *u = arg;
    if (thread != HOST)
        return run_rows(u, thread, err);
    const bool watched = u->r->probe != NULL || u->r->trace != NULL;
    DT_CHECK(u->p->n_range > 0 && !watched ? dti_graphs_run(u, err) : run_rows(u, thread, err));
    DT_CHECK(dti_run_end(u, err));
    dti_input_coming(u); /* all is on the queues: the host has nothing else to do */
    return DT_OK;
}

/* A copy that a device which works later made, when all is done: where the slot is another tensor's
 * by then, nobody knows how long it was, and all of it counts. */
static uint64_t used_later(const dt_runner *r, const dti_copy *c)
{
    return c->codec != NULL && c->reused ? c->stored
                                         : used_at(c, r->tier[c->tier].map + slot_of(r, c));
}

/* Of a run that was made. */
static void count_copies(dt_runner *r, dti_plan *p)
{
    dt_runner_stats *to = &r->stats;
    for (size_t i = 0; i < p->n_step; i++) {
        dti_step *s = &p->step[i];
        if (s->kind == DTI_FETCH)
            to->in[DT_TIER_INPUT] += s->fetch.bytes;
        if (s->kind != DTI_COPY)
            continue;
        dti_copy *c = &s->copy;
        if (c->out && r->tier[c->tier].map != NULL && !r->d->immediate)
            c->used = used_later(r, c);
        *(c->out ? &to->out[c->tier] : &to->in[c->tier]) += dti_copy_used(p, c);
    }
}

void dti_run_done(const dti_run *u)
{
    u->p->ran = true;
    count_copies(u->r, u->p);
}

dt_status dt_runner_run(dt_runner *r, int id, const dt_run_args *a, dt_err *err)
{
    dti_run u = {r, &r->plan[id], a};
    if (r->o.replay && u.p->ran && !u.p->plain && u.p->n_range == 0 && r->probe == NULL &&
        r->trace == NULL)
        dti_graphs_keep(&u);
    dt_status st = dti_run_begin(&u, err);
    if (st == DT_OK) /* numbers and batch are there before any queue begins */
        st = r->d->join(r->device, err);
    if (st == DT_OK && r->trace != NULL)
        st = dti_trace_begin(&u, err);
    if (st == DT_OK)
        st = dti_streams_run(r->streams, u.p->threads, body, &u, err);
    const dt_status end = r->d->finish(r->device, st == DT_OK ? err : NULL);
    DT_CHECK(st != DT_OK ? st : end);
    dti_run_done(&u);
    return r->trace != NULL ? dti_trace_tell(&u, err) : DT_OK;
}
