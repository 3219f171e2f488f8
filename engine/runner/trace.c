/* When each row of a run was executed: by the host's clock where work is done in the call, else by
 * stamps on the device's queues. Told when the run is over, so that nobody waits for it. */
#include "engine/base/alloc.h"
#include "engine/base/clock.h"
#include "engine/runner/runner_internal.h"

typedef struct dti_traced {
    double begin, end;
} dti_traced;

/* Stamp 0 is of the run's beginning. */
static int32_t stamp_of(const dti_run *u, const dti_step *s, bool end)
{
    return 2 * (int32_t)(s - u->p->step) + 1 + (int32_t)end;
}

static dt_status reserve(dt_runner *r, dti_plan *p, dt_err *err)
{
    if (p->span == NULL)
        p->span = dt_alloc(p->n_step + 1, sizeof *p->span);
    if (p->span == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to trace a plan");
    return r->d->stamps != NULL ? r->d->stamps(r->device, 2 * (int32_t)p->n_step + 1, err) : DT_OK;
}

dt_status dt_runner_set_trace(dt_runner *r, const dt_trace *t, dt_err *err)
{
    for (size_t i = 0; t != NULL && i < r->n_plan; i++)
        DT_CHECK(reserve(r, &r->plan[i], err));
    r->trace = t;
    return DT_OK;
}

dt_status dti_trace_begin(const dti_run *u, dt_err *err)
{
    dt_runner *r = u->r;
    r->traced_from = dt_seconds();
    if (r->d->stamp == NULL)
        return DT_OK;
    DT_CHECK(r->d->stamp(r->device, DT_MAIN_STREAM, 0, err));
    return r->d->finish_queue(r->device, DT_MAIN_STREAM, err);
}

/* Rows that the host does by itself, its ops and those for the disk, are stamped on their queue,
 * too, so that all times are of one clock; who is told of their end must find it stamped. */
dt_status dti_trace_stamp(const dti_run *u, const dti_step *s, bool end, dt_err *err)
{
    dt_runner *r = u->r;
    dti_traced *at = &u->p->span[s - u->p->step];
    if (r->d->stamp == NULL) {
        *(end ? &at->end : &at->begin) = dt_seconds();
        return DT_OK;
    }
    DT_CHECK(r->d->stamp(r->device, s->stream, stamp_of(u, s, end), err));
    const bool by_host = s->kind == DTI_COMPUTE
                             ? s->compute.host
                             : s->kind == DTI_COPY && r->tier[s->copy.tier].map == NULL;
    return by_host ? r->d->finish_queue(r->device, s->stream, err) : DT_OK;
}

static dt_status read_span(const dti_run *u, const dti_step *s, dti_traced *to, dt_err *err)
{
    dt_runner *r = u->r;
    *to = u->p->span[s - u->p->step];
    if (r->d->stamp == NULL)
        return DT_OK;
    DT_CHECK(r->d->elapsed(r->device, 0, stamp_of(u, s, false), &to->begin, err));
    DT_CHECK(r->d->elapsed(r->device, 0, stamp_of(u, s, true), &to->end, err));
    to->begin += r->traced_from;
    to->end += r->traced_from;
    return DT_OK;
}

static uint64_t bytes_of(const dti_run *u, const dti_step *s)
{
    uint64_t all = 0;
    if (s->kind == DTI_FETCH)
        return s->fetch.bytes;
    if (s->kind == DTI_COPY)
        return dti_copy_used(u->p, &s->copy);
    for (int32_t i = s->first; i < s->first + s->n; i++)
        all += u->p->touched[i].to - u->p->touched[i].from;
    return all;
}

static dt_row_kind kind_of(const dti_step *s)
{
    return s->kind == DTI_COMPUTE               ? DT_ROW_COMPUTE
           : s->kind == DTI_COPY && s->copy.out ? DT_ROW_COPY_OUT
                                                : DT_ROW_COPY_IN;
}

dt_status dti_trace_tell(const dti_run *u, dt_err *err)
{
    const dt_runner *r = u->r;
    for (size_t i = 0; i < u->p->n_step; i++) {
        const dti_step *s = &u->p->step[i];
        dti_traced at;
        if (s->kind == DTI_WAIT || s->kind == DTI_END)
            continue;
        DT_CHECK(read_span(u, s, &at, err));
        const int stream = s->stream;
        const dt_trace_row row = {.plan = (int)(u->p - r->plan),
            .row = s->row,
            .op = s->kind == DTI_COMPUTE ? s->compute.op : -1,
            .step = u->a->step,
            .kind = kind_of(s),
            .stream = s->stream,
            .worker = r->d->immediate && !dti_streams_threaded(r->streams, stream) ? 0 : stream,
            .tier = s->kind == DTI_COPY ? s->copy.tier : DT_TIER_INPUT,
            .name = s->name,
            .bytes = bytes_of(u, s),
            .begin = at.begin,
            .end = at.end};
        r->trace->ran(r->trace->self, &row);
    }
    return DT_OK;
}
