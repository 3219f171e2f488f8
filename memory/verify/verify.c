/* The verifier goes through the rows with a picture of its own (verify_state.h). A run that starts
 * and ends with everything transient released and nothing in flight can be followed by another: the
 * boundary orders them, so one pass over the rows proves two back to back. */
#include <inttypes.h>

#include "engine/base/alloc.h"
#include "memory/verify/verify_state.h"

static dt_status argument(dti_verifier *v, const dt_plan_arg *a, bool reads)
{
    DT_CHECK(dti_tensor_ok(v, a->tensor));
    if (!v->hold[a->tensor].live)
        return dti_refuse(v, "%s holds nothing", dti_named(v, a->tensor));
    if (a->from > a->to || a->to > v->p->tensor[a->tensor].bytes)
        return dti_refuse(v, "bytes outside %s", dti_named(v, a->tensor));
    if (reads)
        return (a->mode & DT_READ) ? dti_note_read(v, DT_COMPUTE_STREAM, a->tensor, a->to) : DT_OK;
    return (a->mode & DT_WRITE) ? dti_note_write(v, DT_COMPUTE_STREAM, a->tensor, a->from, a->to)
                                : DT_OK;
}

/* What the op writes is new, unless it unpacks what the tensor was. */
static void count_versions(dti_verifier *v, const dt_plan_op *op)
{
    for (int32_t a = op->first; a < op->first + op->n && op->kind != DT_OP_DECODE; a++)
        if ((v->p->arg[a].mode & DT_WRITE) != 0)
            v->hold[v->p->arg[a].tensor].version++;
}

static dt_status compute(dti_verifier *v, const dt_row *r)
{
    if (r->op < 0 || (size_t)r->op >= v->p->n_op)
        return dti_refuse(v, "no op %" PRId32, r->op);
    const dt_plan_op *op = &v->p->op[r->op];
    if (r->stream != DT_COMPUTE_STREAM)
        return dti_refuse(v, "%s is not on the compute stream", op->name);
    if (v->ran[r->op])
        return dti_refuse(v, "%s is run twice", op->name);
    v->ran[r->op] = true;
    for (int pass = 0; pass < 2; pass++) /* all reads, then all writes */
        for (int32_t a = op->first; a < op->first + op->n; a++)
            DT_CHECK(argument(v, &v->p->arg[a], pass == 0));
    count_versions(v, op);
    DT_CHECK(dti_note_signal(v, r));
    return dti_verify_settle(v, op);
}

static dt_status wait(dti_verifier *v, const dt_row *r)
{
    if (r->event < 0 || r->event >= v->p->n_event || !v->signalled[r->event])
        return dti_refuse(v, "event %" PRId32 " is never signalled before this wait", r->event);
    dti_merge(&v->known[r->stream], &v->event[r->event]);
    return DT_OK;
}

static dt_status one_row(dti_verifier *v, const dt_row *r)
{
    if (v->n_over > 0 && r->kind != DT_ROW_PLACE && r->kind != DT_ROW_COMPUTE &&
        r->stream == DT_COMPUTE_STREAM && r->kind != DT_ROW_WAIT)
        return dti_refuse(
            v, "%s shares bytes until the next compute", dti_named(v, v->over[0].tensor));
    if (r->stream >= v->p->n_stream)
        return dti_refuse(v, "no stream %d", r->stream);
    if (r->event >= 0 && (r->kind == DT_ROW_PLACE || r->kind == DT_ROW_RELEASE))
        return dti_refuse(v, "%s has an event", dt_row_name(r->kind));
    v->known[r->stream].at[r->stream] = v->row + 1; /* a stream runs its own rows in order */
    switch (r->kind) {
    case DT_ROW_PLACE:
        return dti_verify_place(v, r);
    case DT_ROW_RELEASE:
        return dti_verify_release(v, r);
    case DT_ROW_COMPUTE:
        return compute(v, r);
    case DT_ROW_COPY_OUT:
        return dti_verify_copy_out(v, r);
    case DT_ROW_COPY_IN:
        return dti_verify_copy_in(v, r);
    case DT_ROW_WAIT:
        return wait(v, r);
    default:
        return dti_refuse(v, "no row of kind %d", r->kind);
    }
}

/* Persistent tensors: inside their region, apart from each other, whole from the start. */
static dt_status homes(dti_verifier *v)
{
    const dt_plan *p = v->p;
    int32_t last = -1;
    for (size_t t = 0; t < p->n_tensor; t++) {
        const dt_plan_tensor *x = &p->tensor[t];
        uint64_t to;
        if (!x->persistent)
            continue;
        if (__builtin_add_overflow(x->home, x->bytes, &to) || to > p->persistent)
            return dti_refuse(v, "%s lies outside the persistent region", x->name);
        if (last >= 0 && x->home < p->tensor[last].home + p->tensor[last].bytes)
            return dti_refuse(v, "%s overlaps %s", x->name, p->tensor[last].name);
        last = (int32_t)t;
        v->hold[t] = (dti_holding){.live = true, .off = x->home, .filled = x->bytes};
    }
    return DT_OK;
}

/* An op that is for one of several algorithms has the scratch of that one. */
static dt_status algorithm_work(dti_verifier *v, const dt_plan_op *op)
{
    uint64_t bytes = 0;
    for (int32_t a = op->first; a < op->first + op->n; a++) {
        const int32_t t = v->p->arg[a].tensor;
        DT_CHECK(dti_tensor_ok(v, t));
        if (v->p->tensor[t].role == DT_ROLE_WORKSPACE)
            bytes = v->p->tensor[t].bytes;
    }
    if (op->algorithm[0] != '\0' && bytes != op->work)
        return dti_refuse(v,
            "%s has %" PRIu64 " bytes of scratch, but its algorithm '%s' wants %" PRIu64, op->name,
            bytes, op->algorithm, op->work);
    return DT_OK;
}

/* The first stream computes, and the others copy to or from a tier. */
static dt_status streams(dti_verifier *v)
{
    const dt_plan *p = v->p;
    if (p->n_stream < 1 || p->n_stream > DT_MAX_STREAMS)
        return dti_refuse(v, "%" PRId32 " streams", p->n_stream);
    for (int s = 0; s < p->n_stream; s++) {
        const dt_stream *x = &p->stream[s];
        const bool copies = (x->kind == DT_STREAM_OUT || x->kind == DT_STREAM_IN) &&
                            (x->tier == DT_TIER_HOST || x->tier == DT_TIER_DISK);
        if (s == DT_COMPUTE_STREAM ? x->kind != DT_STREAM_COMPUTE : !copies)
            return dti_refuse(v, "stream %d is of kind %d and tier %d", s, x->kind, x->tier);
    }
    return DT_OK;
}

static dt_status op_tables(dti_verifier *v)
{
    for (size_t i = 0; i < v->p->n_op; i++) {
        const dt_plan_op *op = &v->p->op[i];
        if (op->first < 0 || op->n < 0 || (size_t)op->first + (size_t)op->n > v->p->n_arg)
            return dti_refuse(v, "%s has arguments outside the table", op->name);
        if (op->n_safe < 0 || op->n_safe > DT_MAX_OVER)
            return dti_refuse(v, "%s has %" PRId32 " safe pairs", op->name, op->n_safe);
        DT_CHECK(algorithm_work(v, op));
    }
    return DT_OK;
}

static dt_status at_end(dti_verifier *v)
{
    v->row = -1;
    for (size_t t = 0; t < v->p->n_tensor; t++)
        if (v->hold[t].live && !v->p->tensor[t].persistent)
            return dti_refuse(v, "%s is never released", v->p->tensor[t].name);
    for (size_t i = 0; i < v->p->n_op; i++)
        if (!v->ran[i])
            return dti_refuse(v, "%s is never run", v->p->op[i].name);
    if (v->peak != v->p->peak)
        return dti_refuse(v, "the peak is %" PRIu64 ", not %" PRIu64, v->peak, v->p->peak);
    if (v->out != v->p->out_bytes || v->in != v->p->in_bytes)
        return dti_refuse(v,
            "%" PRIu64 " bytes are moved out and %" PRIu64 " in, not %" PRIu64 " and %" PRIu64,
            v->out, v->in, v->p->out_bytes, v->p->in_bytes);
    return DT_OK;
}

static dt_status run(dti_verifier *v)
{
    const dt_plan *p = v->p;
    v->row = -1;
    if (p->budget > 0 && p->peak > p->budget)
        return dti_refuse(v, "peak %" PRIu64 " is over budget %" PRIu64, p->peak, p->budget);
    if (p->bound > p->peak)
        return dti_refuse(v, "peak %" PRIu64 " is below its bound %" PRIu64, p->peak, p->bound);
    DT_CHECK(streams(v));
    DT_CHECK(homes(v));
    DT_CHECK(op_tables(v));
    v->peak = p->persistent;
    for (size_t i = 0; i < p->n_row; i++) {
        v->row = (int32_t)i;
        DT_CHECK(one_row(v, &p->row[i]));
    }
    return at_end(v);
}

dt_status dt_verify(const dt_plan *p, dt_err *err)
{
    dti_verifier v = {.p = p, .err = err};
    const size_t most =
        4 * p->n_row + 1; /* a row begins and ends a tensor at most, two cuts each */
    if (p->n_row > INT32_MAX / 4 - 1 || p->n_tensor > INT32_MAX || p->n_event < 0)
        return DT_FAIL(err, DT_E_INTERNAL, "plan: too large");
    v.hold = dt_alloc(p->n_tensor, sizeof *v.hold);
    v.stretch = dt_alloc(most, sizeof *v.stretch);
    v.by_address = dt_alloc(most, sizeof *v.by_address);
    v.saved = dt_alloc(p->n_row, sizeof *v.saved);
    v.event = dt_alloc((size_t)p->n_event, sizeof *v.event);
    v.signalled = dt_alloc((size_t)p->n_event, sizeof *v.signalled);
    v.ran = dt_alloc(p->n_op, sizeof *v.ran);
    for (size_t i = 0; v.by_address != NULL && i < most; i++)
        v.by_address[i] = (int32_t)i;
    dt_status st;
    if (v.hold == NULL || v.stretch == NULL || v.by_address == NULL || v.saved == NULL ||
        v.event == NULL || v.signalled == NULL || v.ran == NULL)
        st = DT_FAIL(err, DT_E_NOMEM, "no memory to verify a plan");
    else
        st = run(&v);
    dt_free(v.hold);
    dt_free(v.stretch);
    dt_free(v.by_address);
    dt_free(v.saved);
    dt_free(v.event);
    dt_free(v.signalled);
    dt_free(v.ran);
    return st;
}
