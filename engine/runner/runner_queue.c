/* A plan on a device that works on its own. The calling thread goes through the rows of compute and
 * of copies to and from the host, and puts them on the device's queues without waiting; between
 * queues there are the plan's events. The disk has threads of the host: they wait until a device's
 * event has happened, and the calling thread waits for them before it puts on more.
 *
 * What is put there is the same in every run, as the numbers that differ are read by the kernels
 * from a block of memory. So at the second run a plan's stretches are kept, and from then on done
 * again as a whole: on CUDA these are its graphs. Batches come from one of two blocks, so what
 * fetches them is kept twice. */
#include <inttypes.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/cpu.h"
#include "engine/runner/runner_parts.h"

enum { HOST = DT_STREAM_COMPUTE }; /* the calling thread */

dt_status dti_queue_begin(const dti_run *u, dt_err *err)
{
    dt_runner *r = u->r;
    const dt_run_args *a = u->a;
    dti_device *v = &r->device;
    DT_CHECK(dti_input_begin(u, err));
    *v->here = (dti_control){.now = {a->sample0, a->step, a->step_samples, a->hyper}};
    return r->o.driver->copy(v->self, DT_STREAM_COMPUTE, v->there, v->here, sizeof *v->here, err);
}

dt_args dti_queue_args(const dti_step *s, void *queue)
{
    dti_control *there = s->r->device.there;
    dt_args a = s->args;
    a.queue = queue;
    a.now = &there->now;
    a.overflow = &there->overflow;
    if (s->r->o.driver->kernels_on_host) {
        a.sample0 += a.now->sample0;
        a.step = a.now->step;
        a.step_samples = a.now->step_samples;
        a.hyper = a.now->hyper;
    }
    return a;
}

static dt_status launch(void *step, void *queue, dt_err *err)
{
    const dti_step *s = step;
    const dt_args a = dti_queue_args(s, queue);
    DT_TRY(err, s->kernels->run(&s->call, s->state, &a, err), "%s", s->name);
    return DT_OK;
}

/* To or from bytes that the device reaches, packed on the way or not. */
static dt_status put_copy(const dti_step *s, unsigned char *host, dt_err *err)
{
    const dt_driver *d = s->r->o.driver;
    void *self = s->r->device.self;
    const int q = (int)s->stream;
    const size_t count = s->bytes / sizeof(float);
    if (s->codec == NULL)
        return s->kind == DTI_COPY_OUT ? d->copy(self, q, host, s->device, s->bytes, err)
                                       : d->copy(self, q, s->device, host, s->bytes, err);
    return s->kind == DTI_COPY_OUT
               ? d->pack(self, q, s->codec, s->device, count, host, s->stored,
                     &s->r->device.there->overflow, err)
               : d->unpack(self, q, s->codec, host, s->stored, s->device, count, err);
}

/* By way of pinned memory, on a thread that waits. */
static dt_status copy_disk(dt_runner *r, dti_step *s, uint64_t used, dt_err *err)
{
    const dti_tier *t = &r->tier[s->tier];
    unsigned char *stage = r->stage[s->stream].base;
    if (s->kind == DTI_COPY_IN)
        DT_CHECK(t->desc->read(t->state, s->slot, stage, used, err));
    DT_CHECK(put_copy(s, stage, err));
    DT_CHECK(r->o.driver->finish_queue(r->device.self, (int)s->stream, err));
    if (s->kind == DTI_COPY_IN)
        return DT_OK;
    s->used = s->codec != NULL ? dt_packed_used(stage, s->stored) : s->bytes;
    return t->desc->write(t->state, s->slot, stage, s->used, err);
}

/* An op, or all those that are one launch with it. */
static dt_status put_op(dt_runner *r, dti_step *s, dt_err *err)
{
    if (s->together == 0)
        return DT_OK; /* it is there already */
    return r->o.driver->launch(
        r->device.self, s->together > 1 ? dti_gather_launch : launch, s, err);
}

/* A step that is no wait. Those of the disk are done when it returns. */
static dt_status put(const dti_run *u, dti_step *s, dt_err *err)
{
    dt_runner *r = u->r;
    const dti_device *v = &r->device;
    const char *tier = dt_tier_name((int)s->tier), *way = s->kind == DTI_COPY_OUT ? "out" : "in";
    if (s->kind == DTI_COMPUTE)
        return put_op(r, s, err);
    if (s->kind == DTI_FETCH)
        return r->o.driver->copy(v->self, (int)s->stream, s->device,
            v->block[v->now].base + (s->slot == 0 ? 0 : v->image_bytes), s->bytes, err);
    const uint64_t used = s->kind == DTI_COPY_IN ? u->p->step[s->pair].used : s->bytes;
    DT_TRY(err,
        r->tier[s->tier].map != NULL ? put_copy(s, r->tier[s->tier].map + s->slot, err)
                                     : copy_disk(r, s, used, err),
        "copy %s %s, %s tier: slot at byte %" PRIu64 ", %" PRIu64 " bytes", s->name, way, tier,
        s->slot, s->bytes);
    return DT_OK;
}

dt_status dti_queue_step(const dti_run *u, dti_step *s, int thread, dt_err *err)
{
    dt_runner *r = u->r;
    const double from = r->clock != NULL ? dt_cpu_seconds() : 0;
    DT_CHECK(s->kind == DTI_COMPUTE ? r->o.driver->launch(r->device.self, launch, s, err)
                                    : put(u, s, err));
    DT_CHECK(r->o.driver->finish(r->device.self, err));
    if (r->clock != NULL && thread == HOST)
        r->clock->ran(
            r->clock->self, (int)(u->p - r->plan), s->op, s->bytes, dt_cpu_seconds() - from);
    return r->probe != NULL && s->kind == DTI_COMPUTE ? dti_step_show(u, s, err) : DT_OK;
}

static dt_status wait_for(const dti_run *u, const dti_step *s, int thread, dt_err *err)
{
    dt_runner *r = u->r;
    const dt_driver *d = r->o.driver;
    if (thread == HOST && s->thread == HOST)
        return d->wait(r->device.self, (int)s->stream, s->event, err);
    dt_stream_wait(r->streams, thread, s->event);
    return s->thread == HOST && !dt_streams_stopped(r->streams)
               ? d->finish_event(r->device.self, s->event, err)
               : DT_OK;
}

/* The steps of one thread, as they stand in the plan. */
static dt_status run_steps(const dti_run *u, int thread, dt_err *err)
{
    dt_runner *r = u->r;
    const bool watched = thread == HOST && (r->probe != NULL || r->clock != NULL);
    for (int32_t i = u->p->begin[thread]; i >= 0; i = u->p->step[i].next) {
        dti_step *s = &u->p->step[i];
        if (dt_streams_stopped(r->streams))
            break;
        if (s->kind == DTI_WAIT) {
            DT_CHECK(wait_for(u, s, thread, err));
            continue;
        }
        DT_CHECK(watched ? dti_queue_step(u, s, thread, err) : put(u, s, err));
        if (s->event >= 0 && thread == HOST)
            DT_CHECK(r->o.driver->signal(r->device.self, (int)s->stream, s->event, err));
        if (s->abroad)
            dt_stream_signal(r->streams, s->event);
    }
    return DT_OK;
}

static bool is_host_wait(const dti_step *s)
{
    return s->kind == DTI_WAIT && s->thread != HOST;
}

/* Where the calling thread's steps are cut. */
static dt_status find_stretches(dti_plan *p, dt_err *err)
{
    dt_free(p->stretch);
    p->n_stretch = 0;
    p->stretch = dt_alloc(p->n_step, sizeof *p->stretch);
    if (p->stretch == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to keep a plan");
    bool open = false;
    for (int32_t i = p->begin[HOST]; i >= 0; i = p->step[i].next) {
        const dti_step *s = &p->step[i];
        if (!open || is_host_wait(s))
            p->stretch[p->n_stretch++] = (dti_stretch){.first = i};
        p->stretch[p->n_stretch - 1].last = i;
        p->stretch[p->n_stretch - 1].fetches |= s->kind == DTI_FETCH;
        open = !is_host_wait(s) && !s->abroad;
    }
    return DT_OK;
}

/* Put a stretch on the queues; @signalled says by event in which stretch that was. What earlier
 * ones did is done before this one begins, so only its own events are waited for. */
static dt_status put_stretch(
    const dti_run *u, const dti_stretch *x, int32_t number, int32_t *signalled, dt_err *err)
{
    const dt_driver *d = u->r->o.driver;
    void *self = u->r->device.self;
    for (int32_t i = x->first;; i = u->p->step[i].next) {
        dti_step *s = &u->p->step[i];
        if (s->kind != DTI_WAIT) {
            DT_CHECK(put(u, s, err));
        } else if (signalled[s->event] == number) {
            DT_CHECK(d->wait(self, (int)s->stream, s->event, err));
        }
        if (s->kind != DTI_WAIT && s->event >= 0) {
            DT_CHECK(d->signal(self, (int)s->stream, s->event, err));
            signalled[s->event] = number;
        }
        if (i == x->last)
            return DT_OK;
    }
}

static dt_status keep_stretch(const dti_run *u, const dti_stretch *x, int32_t number,
    int32_t *signalled, void **kept, dt_err *err)
{
    const dt_driver *d = u->r->o.driver;
    dt_err ignored = {0};
    DT_CHECK(d->record(u->r->device.self, err));
    const dt_status st = put_stretch(u, x, number, signalled, err);
    const dt_status end = d->recorded(u->r->device.self, kept, st == DT_OK ? err : &ignored);
    return st != DT_OK ? st : end;
}

/* Those of one block of input; what fetches nothing belongs to the first. */
static dt_status keep_stretches(const dti_run *u, int block, int32_t *signalled, dt_err *err)
{
    for (size_t i = 0; i < u->p->n_stretch; i++) {
        dti_stretch *x = &u->p->stretch[i];
        if (!is_host_wait(&u->p->step[x->first]) && (block == 0 || x->fetches))
            DT_CHECK(
                keep_stretch(u, x, (int32_t)(2 * i) + block + 1, signalled, &x->kept[block], err));
    }
    return DT_OK;
}

static dt_status keep(const dti_run *u, dt_err *err)
{
    dti_device *v = &u->r->device;
    const int now = v->now;
    DT_CHECK(find_stretches(u->p, err));
    int32_t *signalled = dt_alloc((size_t)u->p->n_event, sizeof *signalled);
    if (signalled == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to keep a plan");
    dt_status st = DT_OK;
    for (v->now = 0; v->now < 2 && st == DT_OK; v->now++)
        st = keep_stretches(u, v->now, signalled, err);
    v->now = now;
    dt_free(signalled);
    if (st != DT_OK)
        dti_device_forget(u->r, u->p);
    return st;
}

static dt_status run_kept(const dti_run *u, dt_err *err)
{
    dt_runner *r = u->r;
    const dt_driver *d = r->o.driver;
    for (size_t i = 0; i < u->p->n_stretch && !dt_streams_stopped(r->streams); i++) {
        const dti_stretch *x = &u->p->stretch[i];
        const dti_step *last = &u->p->step[x->last];
        void *kept = x->kept[x->fetches ? r->device.now : 0];
        if (kept == NULL) {
            DT_CHECK(wait_for(u, last, HOST, err));
            continue;
        }
        DT_CHECK(d->replay(r->device.self, kept, err));
        if (last->kind != DTI_WAIT && last->abroad) {
            DT_CHECK(d->signal(r->device.self, DT_STREAM_COMPUTE, last->event, err));
            dt_stream_signal(r->streams, last->event);
        }
    }
    return DT_OK;
}

static dt_status body(void *arg, int thread, dt_err *err)
{
    const dti_run *u = arg;
    const dt_driver *d = u->r->o.driver;
    dti_device *v = &u->r->device;
    if (thread != HOST)
        return run_steps(u, thread, err);
    DT_CHECK(u->p->n_stretch > 0 && u->r->probe == NULL && u->r->clock == NULL
                 ? run_kept(u, err)
                 : run_steps(u, thread, err));
    DT_CHECK(d->join(v->self, err));
    DT_CHECK(d->copy(v->self, DT_STREAM_COMPUTE, v->here, v->there, sizeof *v->here, err));
    dti_input_coming(u); /* all is on the queues: the host has nothing else to do */
    return DT_OK;
}

/* Of a run that was made: packed copies say in their first bytes how long they are. */
static void count_moves(dt_runner *r, dti_plan *p)
{
    for (size_t i = 0; i < p->n_step; i++) {
        dti_step *s = &p->step[i];
        dti_moved *m = &r->moved[s->stream];
        const bool host = s->kind == DTI_COPY_OUT && r->tier[s->tier].map != NULL;
        if (host)
            s->used = s->codec != NULL ? dt_packed_used(r->tier[s->tier].map + s->slot, s->stored)
                                       : s->bytes;
        if (s->kind == DTI_COPY_OUT)
            m->out[s->tier] += s->used;
        else if (s->kind == DTI_COPY_IN)
            m->in[s->tier] += p->step[s->pair].used;
        else if (s->kind == DTI_FETCH)
            m->in[s->tier] += s->bytes;
    }
}

dt_status dti_queue_run(dti_run *u, dt_err *err)
{
    dt_runner *r = u->r;
    const dt_driver *d = r->o.driver;
    dt_err ignored = {0};
    dt_status st = DT_OK;
    if (r->o.replay && u->p->ran && u->p->n_stretch == 0 && r->probe == NULL && r->clock == NULL)
        st = keep(u, err);
    if (st == DT_OK)
        st = dti_queue_begin(u, err);
    if (st == DT_OK) /* numbers and batch are there before any queue begins */
        st = d->join(r->device.self, err);
    if (st == DT_OK)
        st = dt_streams_run(r->streams, u->p->threads, body, u, err);
    const dt_status end = d->finish(r->device.self, st == DT_OK ? err : &ignored);
    DT_CHECK(st != DT_OK ? st : end);
    r->overflow = r->device.here->overflow;
    u->p->ran = true;
    count_moves(r, u->p);
    return DT_OK;
}
