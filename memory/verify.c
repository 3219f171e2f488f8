/* The verifier keeps its own picture of the arena, the slots and what each stream knows, and shares
 * no code with lowering. A run that starts and ends with everything transient released and nothing
 * in flight can be followed by another: the boundary orders them, so one pass over the rows proves
 * two back to back. */
#include "memory/verify.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "engine/alloc.h"
#include "memory/codec.h"

typedef struct clock {
    int32_t at[DT_STREAMS]; /* rows of each stream known to be complete; row i counts as i + 1 */
} clock;

typedef struct holding {
    bool live, started; /* started: something has written here since it was placed */
    uint32_t version;   /* how often ops have changed the tensor so far, wherever it lay */
    uint64_t off, filled;
    clock read, write, before; /* last reads and writes; what used the bytes before it was placed */
} holding;

typedef struct past {
    uint64_t from, to;
    clock used;
} past;

typedef struct saved {
    uint64_t from, to;
    uint8_t tier;
    int32_t tensor, codec;
    uint32_t version; /* of the tensor, when it was copied out */
    clock used, written;
} saved;

typedef struct pending {
    int32_t tensor, under;
} pending;

typedef struct verifier {
    const dt_plan *p;
    dt_err *err;
    int32_t row;
    clock known[DT_STREAMS];
    holding *hold;
    past *past;
    saved *saved;
    clock *event;
    bool *signalled, *ran;
    pending over[DT_MAX_OVER];
    int32_t *live;
    size_t n_past, n_saved, n_live;
    int n_over;
    uint64_t peak, out, in;
} verifier;

static dt_status refuse(verifier *v, const char *fmt, ...) DT_PRINTF(2, 3);

static dt_status refuse(verifier *v, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (v->row < 0)
        return DT_FAIL(v->err, DT_E_INTERNAL, "plan: %s", text);
    return DT_FAIL(v->err, DT_E_INTERNAL, "row %" PRId32 ": %s", v->row, text);
}

static const char *name(const verifier *v, int32_t tensor)
{
    return v->p->tensor[tensor].name;
}

static bool knows(const clock *known, const clock *need)
{
    for (int s = 0; s < DT_STREAMS; s++)
        if (known->at[s] < need->at[s])
            return false;
    return true;
}

static void merge(clock *to, const clock *from)
{
    for (int s = 0; s < DT_STREAMS; s++)
        to->at[s] = from->at[s] > to->at[s] ? from->at[s] : to->at[s];
}

static dt_status must_know(verifier *v, int stream, const clock *need, const char *what, int32_t t)
{
    if (knows(&v->known[stream], need))
        return DT_OK;
    return refuse(v, "%s of %s is not waited for", what, name(v, t));
}

static dt_status tensor_ok(verifier *v, int32_t t)
{
    if (t < 0 || (size_t)t >= v->p->n_tensor)
        return refuse(v, "no tensor %" PRId32, t);
    return DT_OK;
}

static dt_status placed(verifier *v, const dt_row *r)
{
    DT_CHECK(tensor_ok(v, r->tensor));
    if (v->p->tensor[r->tensor].persistent)
        return refuse(v, "%s is persistent: it is neither placed nor released", name(v, r->tensor));
    const bool copy = r->kind == DT_ROW_COPY_OUT || r->kind == DT_ROW_COPY_IN;
    if (!copy && r->stream != DT_STREAM_COMPUTE)
        return refuse(v, "%s is placed or released off the compute stream", name(v, r->tensor));
    return DT_OK;
}

static bool is_pending(const verifier *v, int32_t t)
{
    for (int i = 0; i < v->n_over; i++)
        if (v->over[i].tensor == t || v->over[i].under == t)
            return true;
    return false;
}

static dt_status place_over(verifier *v, const dt_row *r)
{
    const holding *u = &v->hold[r->over];
    if (!u->live || is_pending(v, r->over))
        return refuse(
            v, "%s goes over %s, which holds nothing", name(v, r->tensor), name(v, r->over));
    if (u->off != r->off || r->bytes > v->p->tensor[r->over].bytes)
        return refuse(
            v, "%s is larger than %s or lies elsewhere", name(v, r->tensor), name(v, r->over));
    if (v->n_over == DT_MAX_OVER)
        return refuse(v, "too many tensors over others at once");
    v->over[v->n_over++] = (pending){r->tensor, r->over};
    return DT_OK;
}

static dt_status place(verifier *v, const dt_row *r)
{
    DT_CHECK(placed(v, r));
    holding *h = &v->hold[r->tensor];
    uint64_t end;
    if (h->live)
        return refuse(v, "%s is placed twice", name(v, r->tensor));
    if (r->bytes != v->p->tensor[r->tensor].bytes)
        return refuse(
            v, "%s has %" PRIu64 " bytes", name(v, r->tensor), v->p->tensor[r->tensor].bytes);
    if (r->off % DT_ALIGN != 0)
        return refuse(v, "%s is not aligned to %d", name(v, r->tensor), DT_ALIGN);
    if (r->off < v->p->persistent)
        return refuse(v, "%s lies inside the persistent region", name(v, r->tensor));
    if (__builtin_add_overflow(r->off, r->bytes + DT_ALIGN - 1, &end) || r->bytes > v->p->peak ||
        (end = end / DT_ALIGN * DT_ALIGN) > v->p->peak)
        return refuse(v, "%s ends past the peak", name(v, r->tensor));
    *h = (holding){.live = true, .version = h->version, .off = r->off};
    if (r->over >= 0) {
        DT_CHECK(tensor_ok(v, r->over));
        DT_CHECK(place_over(v, r));
    }
    for (size_t i = 0; i < v->n_live; i++) {
        const int32_t t = v->live[i];
        if (t != r->over && v->hold[t].off < end &&
            r->off < v->hold[t].off + v->p->tensor[t].bytes && r->bytes > 0 &&
            v->p->tensor[t].bytes > 0)
            return refuse(v, "%s overlaps %s, which is live", name(v, r->tensor), name(v, t));
    }
    for (size_t i = 0; i < v->n_past; i++)
        if (v->past[i].from < end && r->off < v->past[i].to)
            merge(&h->before, &v->past[i].used);
    v->live[v->n_live++] = r->tensor;
    v->peak = end > v->peak ? end : v->peak;
    return DT_OK;
}

/* Bytes that were used and are free now. Uses that lie within them are part of this one, which has
 * waited for them: so few are kept. */
static void add_past(verifier *v, const past *x)
{
    size_t kept = 0;
    for (size_t i = 0; i < v->n_past; i++)
        if (v->past[i].from < x->from || v->past[i].to > x->to)
            v->past[kept++] = v->past[i];
    v->past[kept++] = *x;
    v->n_past = kept;
}

/* The tensor's bytes are free from here on: no copy of them may still be under way. */
static dt_status end(verifier *v, int32_t t)
{
    holding *h = &v->hold[t];
    clock used = h->read;
    merge(&used, &h->write);
    DT_CHECK(must_know(v, DT_STREAM_COMPUTE, &used, "a copy", t));
    merge(&used, &h->before);
    h->before = used;
    add_past(v, &(past){h->off, h->off + v->p->tensor[t].bytes, used});
    h->live = false;
    for (size_t i = 0; i < v->n_live; i++)
        if (v->live[i] == t) {
            v->live[i] = v->live[--v->n_live];
            break;
        }
    return DT_OK;
}

static dt_status release(verifier *v, const dt_row *r)
{
    DT_CHECK(placed(v, r));
    if (!v->hold[r->tensor].live)
        return refuse(v, "%s is released but holds nothing", name(v, r->tensor));
    if (is_pending(v, r->tensor))
        return refuse(v, "%s shares bytes until the next compute", name(v, r->tensor));
    if (v->hold[r->tensor].off != r->off)
        return refuse(v, "%s lies elsewhere", name(v, r->tensor));
    return end(v, r->tensor);
}

static dt_status signal(verifier *v, const dt_row *r)
{
    if (r->event < 0)
        return DT_OK;
    if (r->event >= v->p->n_event)
        return refuse(v, "no event %" PRId32, r->event);
    if (v->signalled[r->event])
        return refuse(v, "event %" PRId32 " is signalled twice", r->event);
    v->signalled[r->event] = true;
    v->event[r->event] = v->known[r->stream];
    return DT_OK;
}

/* Bytes [from, to) of a tensor are written on a stream. */
static dt_status written(verifier *v, int stream, int32_t t, uint64_t from, uint64_t to)
{
    holding *h = &v->hold[t];
    if (!h->started && !v->p->tensor[t].persistent) {
        DT_CHECK(must_know(v, stream, &h->before, "the earlier use of the bytes", t));
        h->started = true;
    }
    DT_CHECK(must_know(v, stream, &h->write, "the writing", t));
    DT_CHECK(must_know(v, stream, &h->read, "the reading", t));
    if (from > h->filled)
        return refuse(v, "%s is written behind a hole", name(v, t));
    h->filled = to > h->filled ? to : h->filled;
    h->write.at[stream] = v->row + 1;
    return DT_OK;
}

static dt_status read(verifier *v, int stream, int32_t t, uint64_t to)
{
    holding *h = &v->hold[t];
    if (to > h->filled)
        return refuse(v, "%s is read but not whole", name(v, t));
    DT_CHECK(must_know(v, stream, &h->write, "the writing", t));
    h->read.at[stream] = v->row + 1;
    return DT_OK;
}

static dt_status argument(verifier *v, const dt_plan_arg *a, bool reads)
{
    DT_CHECK(tensor_ok(v, a->tensor));
    if (!v->hold[a->tensor].live)
        return refuse(v, "%s holds nothing", name(v, a->tensor));
    if (a->from > a->to || a->to > v->p->tensor[a->tensor].bytes)
        return refuse(v, "bytes outside %s", name(v, a->tensor));
    if (reads)
        return (a->mode & DT_READ) ? read(v, DT_STREAM_COMPUTE, a->tensor, a->to) : DT_OK;
    return (a->mode & DT_WRITE) ? written(v, DT_STREAM_COMPUTE, a->tensor, a->from, a->to) : DT_OK;
}

/* What the op writes is new, unless it unpacks what the tensor was. */
static void count_versions(verifier *v, const dt_plan_op *op)
{
    for (int32_t a = op->first; a < op->first + op->n && op->kind != DT_OP_DECODE; a++)
        if ((v->p->arg[a].mode & DT_WRITE) != 0)
            v->hold[v->p->arg[a].tensor].version++;
}

static int mode_of(const verifier *v, const dt_plan_op *op, int32_t t)
{
    int mode = 0;
    for (int32_t a = op->first; a < op->first + op->n; a++)
        if (v->p->arg[a].tensor == t)
            mode |= v->p->arg[a].mode;
    return mode;
}

/* Tensors placed over others since the last compute: this op must be the one that makes it right.
 */
static dt_status settle(verifier *v, const dt_plan_op *op)
{
    for (int i = 0; i < v->n_over; i++) {
        const int32_t t = v->over[i].tensor, u = v->over[i].under;
        bool safe = false;
        for (int k = 0; k < op->n_safe; k++)
            safe = safe || (op->safe[k].out == t && op->safe[k].in == u);
        if (mode_of(v, op, u) != DT_READ || mode_of(v, op, t) != DT_WRITE)
            return refuse(
                v, "%s does not read %s and write %s over it", op->name, name(v, u), name(v, t));
        if (!safe)
            return refuse(
                v, "%s is not safe to write %s over %s", op->name, name(v, t), name(v, u));
        DT_CHECK(end(v, u));
        merge(&v->hold[t].before, &v->hold[u].before); /* the bytes are the same */
    }
    v->n_over = 0;
    return DT_OK;
}

static dt_status compute(verifier *v, const dt_row *r)
{
    if (r->op < 0 || (size_t)r->op >= v->p->n_op)
        return refuse(v, "no op %" PRId32, r->op);
    const dt_plan_op *op = &v->p->op[r->op];
    if (r->stream != DT_STREAM_COMPUTE)
        return refuse(v, "%s is not on the compute stream", op->name);
    if (v->ran[r->op])
        return refuse(v, "%s is run twice", op->name);
    v->ran[r->op] = true;
    for (int pass = 0; pass < 2; pass++) /* all reads, then all writes */
        for (int32_t a = op->first; a < op->first + op->n; a++)
            DT_CHECK(argument(v, &v->p->arg[a], pass == 0));
    count_versions(v, op);
    DT_CHECK(signal(v, r));
    return settle(v, op);
}

/* The stream of a copy, by its kind and tier. */
static int stream_of(const dt_row *r)
{
    const bool disk = r->tier == DT_TIER_DISK;
    if (r->kind == DT_ROW_COPY_OUT)
        return disk ? DT_STREAM_WRITE : DT_STREAM_OUT;
    return disk ? DT_STREAM_READ : DT_STREAM_IN;
}

/* What a slot holds, and how much of it. */
static dt_status slot_checks(verifier *v, const dt_row *r)
{
    size_t codecs;
    const dt_codec *const *codec = dt_codec_all(&codecs);
    if (r->codec < 0 || (size_t)r->codec > codecs)
        return refuse(v, "no codec %" PRId32, r->codec);
    const bool fits = r->codec == 0 ? r->stored == r->bytes
                                    : r->stored >= dt_packed_bytes(codec[r->codec - 1], 0, 0);
    if (!fits)
        return refuse(v, "the slot of %s has %" PRIu64 " bytes", name(v, r->tensor), r->stored);
    uint64_t to;
    const uint64_t peak = r->tier == DT_TIER_HOST ? v->p->host_peak : v->p->disk_peak;
    if (__builtin_add_overflow(r->slot, r->stored, &to) || to > peak)
        return refuse(
            v, "the slot of %s ends past the %s's peak", name(v, r->tensor), dt_tier_name(r->tier));
    if (r->slot % dt_tier_align((dt_tier)r->tier) != 0)
        return refuse(v, "the slot of %s is not aligned", name(v, r->tensor));
    return DT_OK;
}

static dt_status copy_checks(verifier *v, const dt_row *r)
{
    DT_CHECK(placed(v, r));
    const holding *h = &v->hold[r->tensor];
    if (r->stream != stream_of(r))
        return refuse(v, "a copy on the wrong stream");
    if (!h->live || is_pending(v, r->tensor))
        return refuse(v, "%s is copied but holds nothing", name(v, r->tensor));
    if (h->off != r->off || r->bytes != v->p->tensor[r->tensor].bytes)
        return refuse(v, "%s lies elsewhere", name(v, r->tensor));
    if (r->tier == DT_TIER_INPUT && r->kind == DT_ROW_COPY_IN)
        return v->p->tensor[r->tensor].role == DT_ROLE_INPUT && r->slot <= 1
                   ? DT_OK
                   : refuse(v, "%s is no part of the batch", name(v, r->tensor));
    if (r->tier != DT_TIER_HOST && r->tier != DT_TIER_DISK)
        return refuse(v, "no tier %d for this copy", r->tier);
    return slot_checks(v, r);
}

static dt_status copy_out(verifier *v, const dt_row *r)
{
    DT_CHECK(copy_checks(v, r));
    DT_CHECK(read(v, r->stream, r->tensor, r->bytes));
    const uint64_t to = r->slot + r->stored;
    for (size_t i = 0; i < v->n_saved; i++) {
        saved *s = &v->saved[i];
        if (s->tier != r->tier || s->from >= to || r->slot >= s->to)
            continue;
        DT_CHECK(must_know(v, r->stream, &s->used, "the earlier use of the slot", s->tensor));
        *s = v->saved[--v->n_saved];
        i--;
    }
    DT_CHECK(signal(v, r));
    saved made = {
        r->slot, to, r->tier, r->tensor, r->codec, v->hold[r->tensor].version, {{0}}, {{0}}};
    made.used.at[r->stream] = made.written.at[r->stream] = v->row + 1;
    v->saved[v->n_saved++] = made;
    v->out += r->stored;
    return DT_OK;
}

static dt_status copy_in(verifier *v, const dt_row *r)
{
    DT_CHECK(copy_checks(v, r));
    if (r->tier != DT_TIER_INPUT) {
        saved *s = NULL;
        for (size_t i = 0; i < v->n_saved; i++)
            if (v->saved[i].tensor == r->tensor && v->saved[i].tier == r->tier &&
                v->saved[i].from == r->slot && v->saved[i].to == r->slot + r->stored)
                s = &v->saved[i];
        if (s == NULL || s->codec != r->codec)
            return refuse(v, "the slot of %s holds nothing of it", name(v, r->tensor));
        if (s->version != v->hold[r->tensor].version)
            return refuse(v, "%s was written to since it was copied out", name(v, r->tensor));
        DT_CHECK(must_know(v, r->stream, &s->written, "the copy out", r->tensor));
        s->used.at[r->stream] = v->row + 1;
    }
    DT_CHECK(written(v, r->stream, r->tensor, 0, r->bytes));
    v->in += r->tier == DT_TIER_INPUT ? r->bytes : r->stored;
    return signal(v, r);
}

static dt_status wait(verifier *v, const dt_row *r)
{
    if (r->event < 0 || r->event >= v->p->n_event || !v->signalled[r->event])
        return refuse(v, "event %" PRId32 " is never signalled before this wait", r->event);
    merge(&v->known[r->stream], &v->event[r->event]);
    return DT_OK;
}

static dt_status one_row(verifier *v, const dt_row *r)
{
    if (v->n_over > 0 && r->kind != DT_ROW_PLACE && r->kind != DT_ROW_COMPUTE &&
        r->stream == DT_STREAM_COMPUTE && r->kind != DT_ROW_WAIT)
        return refuse(v, "%s shares bytes until the next compute", name(v, v->over[0].tensor));
    if (r->stream >= DT_STREAMS)
        return refuse(v, "no stream %d", r->stream);
    v->known[r->stream].at[r->stream] = v->row + 1; /* a stream runs its own rows in order */
    switch (r->kind) {
    case DT_ROW_PLACE:
        return place(v, r);
    case DT_ROW_RELEASE:
        return release(v, r);
    case DT_ROW_COMPUTE:
        return compute(v, r);
    case DT_ROW_COPY_OUT:
        return copy_out(v, r);
    case DT_ROW_COPY_IN:
        return copy_in(v, r);
    case DT_ROW_WAIT:
        return wait(v, r);
    default:
        return refuse(v, "no row of kind %d", r->kind);
    }
}

/* Persistent tensors: inside their region, apart from each other, whole from the start. */
static dt_status homes(verifier *v)
{
    const dt_plan *p = v->p;
    int32_t last = -1;
    for (size_t t = 0; t < p->n_tensor; t++) {
        const dt_plan_tensor *x = &p->tensor[t];
        uint64_t to;
        if (!x->persistent)
            continue;
        if (__builtin_add_overflow(x->home, x->bytes, &to) || to > p->persistent)
            return refuse(v, "%s lies outside the persistent region", x->name);
        if (last >= 0 && x->home < p->tensor[last].home + p->tensor[last].bytes)
            return refuse(v, "%s overlaps %s", x->name, p->tensor[last].name);
        last = (int32_t)t;
        v->hold[t] = (holding){.live = true, .off = x->home, .filled = x->bytes};
    }
    return DT_OK;
}

/* An op that is for one of several ways has the scratch of that way. */
static dt_status way_work(verifier *v, const dt_plan_op *op)
{
    uint64_t bytes = 0;
    for (int32_t a = op->first; a < op->first + op->n; a++) {
        const int32_t t = v->p->arg[a].tensor;
        DT_CHECK(tensor_ok(v, t));
        if (v->p->tensor[t].role == DT_ROLE_WORKSPACE)
            bytes = v->p->tensor[t].bytes;
    }
    if (op->way[0] != '\0' && bytes != op->work)
        return refuse(v, "%s has %" PRIu64 " bytes of scratch, but its way '%s' wants %" PRIu64,
            op->name, bytes, op->way, op->work);
    return DT_OK;
}

static dt_status op_tables(verifier *v)
{
    for (size_t i = 0; i < v->p->n_op; i++) {
        const dt_plan_op *op = &v->p->op[i];
        if (op->first < 0 || op->n < 0 || (size_t)op->first + (size_t)op->n > v->p->n_arg)
            return refuse(v, "%s has arguments outside the table", op->name);
        if (op->n_safe < 0 || op->n_safe > DT_MAX_OVER)
            return refuse(v, "%s has %" PRId32 " safe pairs", op->name, op->n_safe);
        DT_CHECK(way_work(v, op));
    }
    return DT_OK;
}

static dt_status at_end(verifier *v)
{
    v->row = -1;
    for (size_t i = 0; i < v->n_live; i++)
        return refuse(v, "%s is never released", name(v, v->live[i]));
    for (size_t i = 0; i < v->p->n_op; i++)
        if (!v->ran[i])
            return refuse(v, "%s is never run", v->p->op[i].name);
    if (v->peak != v->p->peak)
        return refuse(v, "the peak is %" PRIu64 ", not %" PRIu64, v->peak, v->p->peak);
    if (v->out != v->p->out_bytes || v->in != v->p->in_bytes)
        return refuse(v,
            "%" PRIu64 " bytes are moved out and %" PRIu64 " in, not %" PRIu64 " and %" PRIu64,
            v->out, v->in, v->p->out_bytes, v->p->in_bytes);
    return DT_OK;
}

static dt_status run(verifier *v)
{
    const dt_plan *p = v->p;
    v->row = -1;
    if (p->budget > 0 && p->peak > p->budget)
        return refuse(v, "peak %" PRIu64 " is over budget %" PRIu64, p->peak, p->budget);
    if (p->bound > p->peak)
        return refuse(v, "peak %" PRIu64 " is below its bound %" PRIu64, p->peak, p->bound);
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
    verifier v = {.p = p, .err = err};
    if (p->n_row > INT32_MAX - 1 || p->n_tensor > INT32_MAX || p->n_event < 0)
        return DT_FAIL(err, DT_E_INTERNAL, "plan: too large");
    v.hold = dt_alloc(p->n_tensor, sizeof *v.hold);
    v.past = dt_alloc(p->n_row, sizeof *v.past);
    v.saved = dt_alloc(p->n_row, sizeof *v.saved);
    v.event = dt_alloc((size_t)p->n_event, sizeof *v.event);
    v.signalled = dt_alloc((size_t)p->n_event, sizeof *v.signalled);
    v.ran = dt_alloc(p->n_op, sizeof *v.ran);
    v.live = dt_alloc(p->n_tensor, sizeof *v.live);
    dt_status st;
    if (v.hold == NULL || v.past == NULL || v.saved == NULL || v.event == NULL ||
        v.signalled == NULL || v.ran == NULL || v.live == NULL)
        st = DT_FAIL(err, DT_E_NOMEM, "no memory to verify a plan");
    else
        st = run(&v);
    dt_free(v.hold);
    dt_free(v.past);
    dt_free(v.saved);
    dt_free(v.event);
    dt_free(v.signalled);
    dt_free(v.ran);
    dt_free(v.live);
    return st;
}
