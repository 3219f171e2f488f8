/* What a step does: a kernel, or a copy, packed on the way or not. */
#include <inttypes.h>

#include "engine/base/alloc.h"
#include "engine/base/cpu.h"
#include "engine/runner/runner_parts.h"

dt_status dti_step_show(const dti_run *u, const dti_step *s, dt_err *err)
{
    const dt_probe *probe = u->r->probe;
    u->r->shown = s;
    for (int32_t i = s->first; i < s->first + s->n && s->args.n == u->p->n; i++) {
        const dti_bytes *b = &u->p->touched[i];
        const void *bytes = u->r->arena.base + b->from;
        void *copy = NULL;
        if (!b->written)
            continue;
        if (u->r->o.driver != NULL) {
            bytes = copy = dt_alloc(b->to - b->from, 1);
            if (copy == NULL)
                return DT_FAIL(err, DT_E_NOMEM, "no memory to look at %s", s->name);
            const dt_status st = dti_read(u->r, copy, b->from, b->to - b->from, err);
            if (st != DT_OK) {
                dt_free(copy);
                return st;
            }
        }
        probe->wrote(probe->self, &u->p->tensor[b->tensor], bytes);
        dt_free(copy);
    }
    return DT_OK;
}

static dt_status compute(const dti_run *u, const dti_step *s, dt_err *err)
{
    dt_args args = s->args;
    args.sample0 += u->a->sample0;
    args.step = u->a->step;
    args.step_samples = u->a->step_samples;
    args.hyper = u->a->hyper;
    DT_TRY(err, s->kernels->run(&s->call, s->state, &args, err), "%s", s->name);
    return u->r->probe != NULL ? dti_step_show(u, s, err) : DT_OK;
}

/* Where packed bytes lie: in the slot itself, or on the way to it. */
static unsigned char *packed_at(const dt_runner *r, const dti_step *s)
{
    const dti_tier *t = &r->tier[s->tier];
    return t->map != NULL ? t->map + s->slot : r->stage[s->stream].base;
}

static dt_status copy_out(dt_runner *r, dti_step *s, dt_err *err)
{
    const dti_tier *t = &r->tier[s->tier];
    const void *from = s->device;
    s->used = s->bytes;
    if (s->codec != NULL) {
        unsigned char *packed = packed_at(r, s);
        if (!dt_pack(s->codec, s->device, s->bytes / sizeof(float), packed, s->stored))
            __atomic_store_n(&r->overflow, 1, __ATOMIC_RELAXED);
        s->used = dt_packed_used(packed, s->stored);
        from = packed;
    } else if (t->map != NULL) {
        dt_cpu_copy(t->map + s->slot, s->device, s->bytes);
    }
    return t->map != NULL ? DT_OK : t->desc->write(t->state, s->slot, from, s->used, err);
}

static dt_status copy_in(dt_runner *r, const dti_step *s, uint64_t used, dt_err *err)
{
    const dti_tier *t = &r->tier[s->tier];
    unsigned char *packed = s->codec != NULL ? packed_at(r, s) : NULL;
    if (t->map == NULL)
        DT_CHECK(t->desc->read(t->state, s->slot, packed != NULL ? packed : s->device, used, err));
    else if (packed == NULL)
        dt_cpu_copy(s->device, t->map + s->slot, used);
    if (packed == NULL)
        return DT_OK;
    return dt_unpack(s->codec, packed, used, s->device, s->bytes / sizeof(float), err);
}

/* The batch holds floats; values of a network may be narrower. */
static void fetch(const dti_run *u, const dti_step *s)
{
    const dt_batch *b = &u->a->batch;
    if (s->slot != 0)
        dt_cpu_copy(s->device, b->labels, s->bytes);
    else if (dt_graph_input_dtype(u->r->o.graph) == DT_BF16)
        dt_cpu_narrow((dt_bf16 *)(void *)s->device, b->x, (int64_t)(s->bytes / sizeof(dt_bf16)));
    else
        dt_cpu_copy(s->device, b->x, s->bytes);
}

static dt_status move(const dti_run *u, dti_step *s, int thread, dt_err *err)
{
    dt_runner *r = u->r;
    dti_moved *moved = &r->moved[thread];
    const char *tier = dt_tier_name((int)s->tier);
    if (s->kind == DTI_FETCH) {
        fetch(u, s);
        moved->in[s->tier] += s->bytes;
    } else if (s->kind == DTI_COPY_OUT) {
        DT_TRY(err, copy_out(r, s, err),
            "copy %s out to the %s tier: slot at byte %" PRIu64 ", %" PRIu64 " bytes", s->name,
            tier, s->slot, s->used);
        moved->out[s->tier] += s->used;
    } else {
        const uint64_t used = u->p->step[s->pair].used;
        DT_TRY(err, copy_in(r, s, used, err),
            "copy %s in from the %s tier: slot at byte %" PRIu64 ", %" PRIu64 " bytes", s->name,
            tier, s->slot, used);
        moved->in[s->tier] += used;
    }
    return DT_OK;
}

dt_status dti_step_run(const dti_run *u, dti_step *s, int thread, dt_err *err)
{
    dt_runner *r = u->r;
    if (r->o.driver != NULL)
        return dti_queue_step(u, s, thread, err);
    const bool op = s->kind == DTI_COMPUTE;
    if (op && r->clock == NULL)
        return compute(u, s, err);
    const double from = dt_cpu_seconds();
    const dt_status st = op ? compute(u, s, err) : move(u, s, thread, err);
    const double took = dt_cpu_seconds() - from;
    if (!op)
        r->moved[thread].seconds += took;
    if (r->clock != NULL && thread == DT_STREAM_COMPUTE)
        r->clock->ran(r->clock->self, (int)(u->p - r->plan), s->op, s->bytes, took);
    return st;
}
