/* The verifier goes through the rows with a picture of its own: the arena, the slots, and what each
 * stream knows to be complete. It shares no code with lowering. A run that starts and ends with
 * everything transient released and nothing in flight can be followed by another: the boundary
 * orders them, so one pass over the rows proves two back to back. */
#include "memory/verify/verify.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers_text.h"
#include "memory/codec.h"

typedef struct clock {
    int32_t
        at[DT_MAX_STREAMS]; /* rows of each stream known to be complete; row i counts as i + 1 */
} clock;

typedef struct holding {
    bool live, started; /* started: something has written here since it was placed */
    bool part, cut;     /* it is a part of another; others are parts of it, and stand for it */
    uint64_t parted;    /* where the last of them ends */
    uint32_t version;   /* how often ops have changed the tensor so far, wherever it lay */
    uint64_t off, filled;
    clock read, write; /* the last of each */
    clock before;      /* what used the bytes before it was placed */
} holding;

/* Bytes of the arena: whose they are now, and all uses of them before that. */
typedef struct stretch {
    uint64_t from, to;
    int32_t owner; /* -1: nobody's */
    clock used;
} stretch;

static const uint32_t NOTHING = UINT32_MAX; /* a version that no tensor reaches */

typedef struct saved {
    uint64_t from, to;
    uint8_t tier;
    int32_t tensor, codec;
    uint32_t version; /* of the tensor, when it was copied out; NOTHING: it never was */
    clock used, written;
} saved;

typedef struct pending {
    int32_t tensor, under;
} pending;

typedef struct verifier {
    const dt_plan *p;
    dt_err *err;
    int32_t row;
    clock known[DT_MAX_STREAMS];
    holding *hold;
    stretch *stretch;    /* apart from each other; bytes of none were never used */
    int32_t *by_address; /* stretches, the lowest first; behind them those not in use */
    saved *saved;        /* apart from each other in their tiers */
    int32_t *by_slot;    /* those in use, by tier and slot; behind them those not in use */
    clock *event;
    bool *signalled, *ran;
    pending over[DT_MAX_OVER];
    int32_t *wholes;          /* at home in a tier and no part, tier after tier */
    int32_t *whole[DT_TIERS]; /* those of a tier in there, the lowest first */
    size_t n_whole[DT_TIERS];
    size_t n_stretch, n_saved;
    int n_over;
    uint64_t peak, tier_peak[DT_TIERS], out, in;
} verifier;

static inline const char *named(const verifier *v, int32_t tensor)
{
    return v->p->tensor[tensor].name;
}

/* ---- what a row needs and does ---- */

/* DT_E_DATA with the number of the row and, of a plan that was read, its line. */
DT_PRINTF(2, 3) static dt_status refuse(verifier *v, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    dt_vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (v->row < 0)
        return DT_FAIL(v->err, DT_E_DATA, "plan: %s", text);
    if (v->p->line != NULL)
        return DT_FAIL(v->err, DT_E_DATA, "row %" PRId32 ", on line %zu: %s", v->row,
            v->p->line[v->row], text);
    return DT_FAIL(v->err, DT_E_DATA, "row %" PRId32 ": %s", v->row, text);
}

static bool knows(const clock *known, const clock *need)
{
    for (int s = 0; s < DT_MAX_STREAMS; s++)
        if (known->at[s] < need->at[s])
            return false;
    return true;
}

static void merge(clock *to, const clock *from)
{
    for (int s = 0; s < DT_MAX_STREAMS; s++)
        to->at[s] = from->at[s] > to->at[s] ? from->at[s] : to->at[s];
}

/* Refuse the row unless its stream knows that @what of the tensor is complete. */
static dt_status must_know(verifier *v, int stream, const clock *need, const char *what, int32_t t)
{
    if (knows(&v->known[stream], need))
        return DT_OK;
    return refuse(v, "%s of %s is not waited for", what, named(v, t));
}

static dt_status tensor_ok(verifier *v, int32_t t)
{
    if (t < 0 || (size_t)t >= v->p->n_tensor)
        return refuse(v, "no tensor %" PRId32, t);
    return DT_OK;
}

static dt_status note_signal(verifier *v, const dt_row *r)
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
static dt_status note_write(verifier *v, int stream, int32_t t, uint64_t from, uint64_t to)
{
    holding *h = &v->hold[t];
    if (!h->started && !dt_plan_resident(&v->p->tensor[t])) {
        DT_CHECK(must_know(v, stream, &h->before, "the earlier use of the bytes", t));
        h->started = true;
    }
    DT_CHECK(must_know(v, stream, &h->write, "the writing", t));
    DT_CHECK(must_know(v, stream, &h->read, "the reading", t));
    if (from > h->filled)
        return refuse(v, "%s is written behind a hole", named(v, t));
    h->filled = to > h->filled ? to : h->filled;
    h->write.at[stream] = v->row + 1;
    return DT_OK;
}

static dt_status note_read(verifier *v, int stream, int32_t t, uint64_t to)
{
    holding *h = &v->hold[t];
    if (to > h->filled)
        return refuse(v, "%s is read but not whole", named(v, t));
    DT_CHECK(must_know(v, stream, &h->write, "the writing", t));
    h->read.at[stream] = v->row + 1;
    return DT_OK;
}

/* What stands in the plan by its parts does not stand there whole as well. */
static dt_status not_cut(verifier *v, int32_t t)
{
    return v->hold[t].cut ? refuse(v, "%s stands in this plan by its parts", named(v, t)) : DT_OK;
}

/* ---- where tensors lie: apart, within the peak, and over another only where an op allows it ----
 */

/* A row that places, releases or copies names a tensor that may be, on a stream that may. */
static dt_status placed(verifier *v, const dt_row *r)
{
    DT_CHECK(tensor_ok(v, r->tensor));
    if (dt_plan_resident(&v->p->tensor[r->tensor]))
        return refuse(
            v, "%s is persistent: it is neither placed nor released", named(v, r->tensor));
    DT_CHECK(not_cut(v, r->tensor));
    const bool copy = r->kind == DT_ROW_COPY_OUT || r->kind == DT_ROW_COPY_IN;
    if (!copy && r->stream != DT_MAIN_STREAM)
        return refuse(v, "%s is placed or released off the compute stream", named(v, r->tensor));
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
            v, "%s goes over %s, which holds nothing", named(v, r->tensor), named(v, r->over));
    if (u->off != r->off || r->bytes > v->p->tensor[r->over].bytes)
        return refuse(
            v, "%s is larger than %s or lies elsewhere", named(v, r->tensor), named(v, r->over));
    if (v->n_over == DT_MAX_OVER)
        return refuse(v, "too many tensors over others at once");
    v->over[v->n_over++] = (pending){r->tensor, r->over};
    return DT_OK;
}

/* The first stretch, by address, that ends behind @at. */
static size_t first_behind(const verifier *v, uint64_t at)
{
    size_t low = 0, high = v->n_stretch;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (v->stretch[v->by_address[mid]].to > at)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

/* Make room for one more stretch at a place of the order. */
static void insert(verifier *v, size_t at, const stretch *x)
{
    const int32_t id = v->by_address[v->n_stretch];
    memmove(v->by_address + at + 1, v->by_address + at, (v->n_stretch++ - at) * sizeof id);
    v->by_address[at] = id;
    v->stretch[id] = *x;
}

/* From here on @x stands for its bytes, in place of whatever has stood for them. */
static void set_bytes(verifier *v, const stretch *x)
{
    size_t at = first_behind(v, x->from), end = at;
    if (x->from == x->to)
        return;
    if (at < v->n_stretch && v->stretch[v->by_address[at]].from < x->from) {
        stretch *cut = &v->stretch[v->by_address[at]];
        const stretch rest = {x->from, cut->to, cut->owner, cut->used};
        cut->to = x->from;
        insert(v, ++at, &rest);
    }
    for (end = at; end < v->n_stretch && v->stretch[v->by_address[end]].to <= x->to; end++)
        ;
    if (end < v->n_stretch && v->stretch[v->by_address[end]].from < x->to)
        v->stretch[v->by_address[end]].from = x->to;
    if (end == at) {
        insert(v, at, x);
        return;
    }
    /* One of those within it becomes it; the others are not in use any more. */
    const size_t gone = end - at - 1;
    v->stretch[v->by_address[at]] = *x;
    for (size_t i = at + 1; gone > 0 && i + gone < v->n_stretch; i++) {
        const int32_t id = v->by_address[i];
        v->by_address[i] = v->by_address[i + gone];
        v->by_address[i + gone] = id;
    }
    v->n_stretch -= gone;
}

static void own_bytes(verifier *v, int32_t t)
{
    const holding *h = &v->hold[t];
    set_bytes(v, &(stretch){h->off, h->off + v->p->tensor[t].bytes, t, h->before});
}

/* The bytes up to @end become the tensor's, if nobody has them but the one that it goes over, whose
 * they stay until the next compute. What used them before is noted. */
static dt_status take_bytes(verifier *v, const dt_row *r, uint64_t end)
{
    for (size_t i = first_behind(v, r->off); i < v->n_stretch; i++) {
        const stretch *x = &v->stretch[v->by_address[i]];
        if (x->from >= end)
            break;
        if (x->owner >= 0 && x->owner != r->over && r->bytes > 0)
            return refuse(
                v, "%s overlaps %s, which is live", named(v, r->tensor), named(v, x->owner));
        merge(&v->hold[r->tensor].before, &x->used);
    }
    if (r->over < 0)
        own_bytes(v, r->tensor);
    return DT_OK;
}

static dt_status wrong_bytes(verifier *v, const dt_row *r)
{
    return refuse(v, "%s has %" PRIu64 " bytes, not the row's %" PRIu64, named(v, r->tensor),
        v->p->tensor[r->tensor].bytes, r->bytes);
}

static dt_status verify_place(verifier *v, const dt_row *r)
{
    DT_CHECK(placed(v, r));
    holding *h = &v->hold[r->tensor];
    uint64_t end;
    if (h->live)
        return refuse(v, "%s is placed twice", named(v, r->tensor));
    if (r->bytes != v->p->tensor[r->tensor].bytes)
        return wrong_bytes(v, r);
    if (r->off % DT_ALIGN != 0)
        return refuse(
            v, "%s lies at %" PRIu64 ", no multiple of %d", named(v, r->tensor), r->off, DT_ALIGN);
    if (r->off < v->p->persistent)
        return refuse(v, "%s lies inside the persistent region", named(v, r->tensor));
    if (__builtin_add_overflow(r->off, r->bytes + DT_ALIGN - 1, &end) || r->bytes > v->p->peak ||
        (end = end / DT_ALIGN * DT_ALIGN) > v->p->peak)
        return refuse(v, "%s, of %" PRIu64 " bytes at %" PRIu64 ", ends past the peak of %" PRIu64,
            named(v, r->tensor), r->bytes, r->off, v->p->peak);
    *h = (holding){.live = true, .part = h->part, .version = h->version, .off = r->off};
    if (r->over >= 0) {
        DT_CHECK(tensor_ok(v, r->over));
        DT_CHECK(place_over(v, r));
    }
    DT_CHECK(take_bytes(v, r, end));
    v->peak = end > v->peak ? end : v->peak;
    return DT_OK;
}

/* The tensor's bytes are free from here on: no copy of them may still be under way. */
static dt_status end(verifier *v, int32_t t)
{
    holding *h = &v->hold[t];
    clock used = h->read;
    merge(&used, &h->write);
    DT_CHECK(must_know(v, DT_MAIN_STREAM, &used, "a copy", t));
    merge(&used, &h->before);
    h->before = used;
    set_bytes(v, &(stretch){h->off, h->off + v->p->tensor[t].bytes, DT_NONE, used});
    h->live = false;
    return DT_OK;
}

static dt_status verify_release(verifier *v, const dt_row *r)
{
    DT_CHECK(placed(v, r));
    if (!v->hold[r->tensor].live)
        return refuse(v, "%s is released but holds nothing", named(v, r->tensor));
    if (is_pending(v, r->tensor))
        return refuse(v, "%s shares bytes until the next compute", named(v, r->tensor));
    if (v->hold[r->tensor].off != r->off)
        return refuse(
            v, "%s lies elsewhere, at %" PRIu64, named(v, r->tensor), v->hold[r->tensor].off);
    return end(v, r->tensor);
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
static dt_status verify_settle(verifier *v, const dt_plan_op *op)
{
    for (int i = 0; i < v->n_over; i++) {
        const int32_t t = v->over[i].tensor, u = v->over[i].under;
        bool safe = false;
        for (int k = 0; k < op->n_safe; k++)
            safe = safe || (op->safe[k].out == t && op->safe[k].in == u);
        if (mode_of(v, op, u) != DT_READ || mode_of(v, op, t) != DT_WRITE)
            return refuse(
                v, "%s does not read %s and write %s over it", op->name, named(v, u), named(v, t));
        if (!safe)
            return refuse(
                v, "%s is not safe to write %s over %s", op->name, named(v, t), named(v, u));
        DT_CHECK(end(v, u));
        merge(&v->hold[t].before, &v->hold[u].before); /* the bytes are the same */
        own_bytes(v, t);
    }
    v->n_over = 0;
    return DT_OK;
}

/* ---- what slots hold ---- */

static saved *saved_at(const verifier *v, size_t at)
{
    return &v->saved[v->by_slot[at]];
}

/* The first that begins at a slot of a tier or behind it. */
static size_t first_from(const verifier *v, uint8_t tier, uint64_t slot)
{
    size_t low = 0, high = v->n_saved;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        const saved *s = saved_at(v, mid);
        if (s->tier > tier || (s->tier == tier && s->from >= slot))
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

/* Nothing else begins at its place by now. */
static void add_saved(verifier *v, const saved *x)
{
    const int32_t id = v->by_slot[v->n_saved];
    const uint64_t align = dt_tier_align((dt_tier)x->tier);
    const uint64_t end = (x->to + align - 1) / align * align;
    v->tier_peak[x->tier] = end > v->tier_peak[x->tier] ? end : v->tier_peak[x->tier];
    const size_t at = first_from(v, x->tier, x->from);
    memmove(v->by_slot + at + 1, v->by_slot + at, (v->n_saved++ - at) * sizeof id);
    v->by_slot[at] = id;
    v->saved[id] = *x;
}

static void drop_saved(verifier *v, size_t at)
{
    const int32_t id = v->by_slot[at];
    memmove(v->by_slot + at, v->by_slot + at + 1, (--v->n_saved - at) * sizeof id);
    v->by_slot[v->n_saved] = id;
}

/* Where what was saved of a tensor at a slot stands; n_saved: nothing is. */
static size_t place_saved(const verifier *v, uint8_t tier, uint64_t slot, int32_t tensor)
{
    const size_t at = first_from(v, tier, slot);
    const saved *s = at < v->n_saved ? saved_at(v, at) : NULL;
    return s != NULL && s->tier == tier && s->from == slot && s->tensor == tensor ? at : v->n_saved;
}

/* NULL: nothing is. */
static saved *find_saved(const verifier *v, uint8_t tier, uint64_t slot, int32_t tensor)
{
    const size_t at = place_saved(v, tier, slot, tensor);
    return at < v->n_saved ? saved_at(v, at) : NULL;
}

/* ---- copies: of what is whole, to slots that nobody uses, from those that hold it still ---- */

/* Whether the row's stream takes such copies; what comes from the batch comes from the host. */
static bool takes(const dt_stream *s, const dt_row *r)
{
    const int tier = r->tier == DT_TIER_INPUT ? DT_TIER_HOST : r->tier;
    return s->kind == (r->kind == DT_ROW_COPY_OUT ? DT_STREAM_OUT : DT_STREAM_IN) &&
           s->tier == tier;
}

/* What a slot holds, and how much of it. */
static dt_status slot_checks(verifier *v, const dt_row *r)
{
    const dt_codec *codec = dt_codec_numbered(r->codec);
    if (codec == NULL && r->codec != 0)
        return refuse(v, "no codec %" PRId32, r->codec);
    const uint64_t words = r->bytes / sizeof(uint32_t);
    const bool fits = codec == NULL ? r->stored == r->bytes
                                    : r->stored >= dt_packed_least(codec, words, v->p->batch);
    if (!fits || r->stored == 0)
        return refuse(v, "the slot of %s has %" PRIu64 " bytes", named(v, r->tensor), r->stored);
    uint64_t to;
    const uint64_t peak = v->p->tier_peak[r->tier];
    if (__builtin_add_overflow(r->slot, r->stored, &to) || to > peak)
        return refuse(v,
            "the slot of %s, of %" PRIu64 " bytes at %" PRIu64
            ", ends past the %s's peak of %" PRIu64,
            named(v, r->tensor), r->stored, r->slot, dt_tier_name(r->tier), peak);
    if (r->slot % dt_tier_align((dt_tier)r->tier) != 0)
        return refuse(v, "the slot of %s is at %" PRIu64 ", no multiple of %" PRIu64,
            named(v, r->tensor), r->slot, (uint64_t)dt_tier_align((dt_tier)r->tier));
    const dt_plan_tensor *t = &v->p->tensor[r->tensor];
    const bool home =
        r->kind == DT_ROW_COPY_OUT ? r->slot == t->next : r->slot == t->home || r->slot == t->next;
    if (t->persistent && (r->tier != t->tier || !home || r->codec != 0))
        return refuse(v, "%s is copied elsewhere than home", named(v, r->tensor));
    return DT_OK;
}

static dt_status copy_checks(verifier *v, const dt_row *r)
{
    DT_CHECK(placed(v, r));
    const holding *h = &v->hold[r->tensor];
    if (!takes(&v->p->stream[r->stream], r))
        return refuse(v, "a copy on the wrong stream");
    if (!h->live || is_pending(v, r->tensor))
        return refuse(v, "%s is copied but holds nothing", named(v, r->tensor));
    if (h->off != r->off)
        return refuse(v, "%s lies elsewhere, at %" PRIu64, named(v, r->tensor), h->off);
    if (r->bytes != v->p->tensor[r->tensor].bytes)
        return wrong_bytes(v, r);
    if (r->tier == DT_TIER_INPUT && r->kind == DT_ROW_COPY_IN)
        return v->p->tensor[r->tensor].role == DT_ROLE_INPUT &&
                       !v->p->tensor[r->tensor].persistent && r->slot <= 1
                   ? DT_OK
                   : refuse(v, "%s is no part of the batch", named(v, r->tensor));
    if (r->tier != DT_TIER_HOST && r->tier != DT_TIER_DISK)
        return refuse(v, "no tier %d for this copy", r->tier);
    return slot_checks(v, r);
}

static dt_status verify_copy_out(verifier *v, const dt_row *r)
{
    DT_CHECK(copy_checks(v, r));
    DT_CHECK(note_read(v, r->stream, r->tensor, r->bytes));
    const uint64_t to = r->slot + r->stored;
    for (size_t at = first_from(v, r->tier, to); at-- > 0;) {
        const saved *s = saved_at(v, at);
        if (s->tier != r->tier)
            break;
        if (s->to <= r->slot)
            break;
        if (v->p->tensor[s->tensor].persistent && s->tensor != r->tensor)
            return refuse(v, "the slot of %s overlaps the home of %s", named(v, r->tensor),
                named(v, s->tensor));
        DT_CHECK(must_know(v, r->stream, &s->used, "the earlier use of the slot", s->tensor));
        drop_saved(v, at);
    }
    DT_CHECK(note_signal(v, r));
    saved made = {
        r->slot, to, r->tier, r->tensor, r->codec, v->hold[r->tensor].version, {{0}}, {{0}}};
    made.used.at[r->stream] = made.written.at[r->stream] = v->row + 1;
    add_saved(v, &made);
    v->out += r->stored;
    return DT_OK;
}

static dt_status verify_copy_in(verifier *v, const dt_row *r)
{
    DT_CHECK(copy_checks(v, r));
    if (r->tier != DT_TIER_INPUT) {
        saved *s = find_saved(v, r->tier, r->slot, r->tensor);
        if (s == NULL || s->to != r->slot + r->stored || s->codec != r->codec)
            return refuse(v, "the slot of %s holds nothing of it", named(v, r->tensor));
        if (s->version != v->hold[r->tensor].version)
            return refuse(v, "%s was written to since it was copied out", named(v, r->tensor));
        DT_CHECK(must_know(v, r->stream, &s->written, "the copy out", r->tensor));
        s->used.at[r->stream] = v->row + 1;
    }
    DT_CHECK(note_write(v, r->stream, r->tensor, 0, r->bytes));
    v->in += r->tier == DT_TIER_INPUT ? r->bytes : r->stored;
    return note_signal(v, r);
}

/* ---- tables and rows ---- */

/* An op reaches a tensor where that lives in a tier: nothing of it is elsewhere, and no copy of it
 * is under way. */
static dt_status argument_at_home(verifier *v, int stream, const dt_plan_arg *a, bool reads)
{
    const int32_t t = a->tensor;
    DT_CHECK(not_cut(v, t));
    saved *s = find_saved(v, v->p->tensor[t].tier, v->p->tensor[t].home, t);
    DT_ASSERT(s != NULL); /* what lives there is saved from the start */
    if (v->hold[t].live && (a->mode & DT_WRITE) != 0)
        return refuse(v, "%s is on the device while an op works on it at home", named(v, t));
    if (a->from != 0 || a->to != v->p->tensor[t].bytes)
        return refuse(v, "bytes outside %s", named(v, t));
    if (s->version != v->hold[t].version)
        return refuse(v, "%s is changed and not brought home", named(v, t));
    if ((a->mode & (reads ? DT_READ : DT_WRITE)) == 0)
        return DT_OK;
    DT_CHECK(must_know(v, stream, reads ? &s->written : &s->used,
        reads ? "the copy out" : "the earlier use of the slot", t));
    s->used.at[stream] = v->row + 1;
    if (!reads)
        s->written.at[stream] = v->row + 1;
    return DT_OK;
}

/* What ops write at home is of a new version there, too. */
static void renew_homes(verifier *v, const dt_plan_op *op)
{
    for (int32_t a = op->first; a < op->first + op->n; a++) {
        const int32_t t = v->p->arg[a].tensor;
        const dt_plan_tensor *x = &v->p->tensor[t];
        saved *s[] = {NULL, NULL};
        if (dt_plan_in_slot(op, x)) {
            s[0] = find_saved(v, x->tier, x->home, t);
            s[1] = find_saved(v, x->tier, x->next, t);
        }
        for (size_t i = 0; i < DT_COUNT(s); i++)
            if (s[i] != NULL)
                s[i]->version = v->hold[t].version;
    }
}

static dt_status argument(
    verifier *v, int stream, const dt_plan_op *op, const dt_plan_arg *a, bool reads)
{
    DT_CHECK(tensor_ok(v, a->tensor));
    if (dt_plan_in_slot(op, &v->p->tensor[a->tensor]))
        return argument_at_home(v, stream, a, reads);
    if (stream != DT_MAIN_STREAM)
        return refuse(v, "%s works on the host, where %s is not", op->name, named(v, a->tensor));
    if (!v->hold[a->tensor].live)
        return refuse(v, "%s holds nothing", named(v, a->tensor));
    if (a->from > a->to || a->to > v->p->tensor[a->tensor].bytes)
        return refuse(v, "bytes outside %s", named(v, a->tensor));
    if (reads)
        return (a->mode & DT_READ) ? note_read(v, DT_MAIN_STREAM, a->tensor, a->to) : DT_OK;
    return (a->mode & DT_WRITE) ? note_write(v, DT_MAIN_STREAM, a->tensor, a->from, a->to) : DT_OK;
}

/* What the op writes is new, unless it unpacks what the tensor was. */
static void count_versions(verifier *v, const dt_plan_op *op)
{
    for (int32_t a = op->first; a < op->first + op->n && op->kind != DT_OP_DECODE; a++)
        if ((v->p->arg[a].mode & DT_WRITE) != 0)
            v->hold[v->p->arg[a].tensor].version++;
}

static dt_status compute(verifier *v, const dt_row *r)
{
    if (r->op < 0 || (size_t)r->op >= v->p->n_op)
        return refuse(v, "no op %" PRId32, r->op);
    const dt_plan_op *op = &v->p->op[r->op];
    if (v->p->stream[r->stream].kind != DT_STREAM_COMPUTE)
        return refuse(v, "%s is not on a stream that computes", op->name);
    if (r->stream != DT_MAIN_STREAM && v->n_over > 0)
        return refuse(
            v, "%s shares bytes until the next compute of the device", named(v, v->over[0].tensor));
    if (v->ran[r->op])
        return refuse(v, "%s is run twice", op->name);
    v->ran[r->op] = true;
    for (int pass = 0; pass < 2; pass++) /* all reads, then all writes */
        for (int32_t a = op->first; a < op->first + op->n; a++)
            DT_CHECK(argument(v, r->stream, op, &v->p->arg[a], pass == 0));
    count_versions(v, op);
    renew_homes(v, op);
    DT_CHECK(note_signal(v, r));
    return verify_settle(v, op);
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
        r->stream == DT_MAIN_STREAM && r->kind != DT_ROW_WAIT)
        return refuse(v, "%s shares bytes until the next compute", named(v, v->over[0].tensor));
    if (r->stream >= v->p->n_stream)
        return refuse(v, "no stream %d", r->stream);
    if (r->event >= 0 && (r->kind == DT_ROW_PLACE || r->kind == DT_ROW_RELEASE))
        return refuse(v, "%s has an event", dt_row_name(r->kind));
    v->known[r->stream].at[r->stream] = v->row + 1; /* a stream runs its own rows in order */
    switch (r->kind) {
    case DT_ROW_PLACE:
        return verify_place(v, r);
    case DT_ROW_RELEASE:
        return verify_release(v, r);
    case DT_ROW_COMPUTE:
        return compute(v, r);
    case DT_ROW_COPY_OUT:
        return verify_copy_out(v, r);
    case DT_ROW_COPY_IN:
        return verify_copy_in(v, r);
    case DT_ROW_WAIT:
        return wait(v, r);
    default:
        return refuse(v, "no row of kind %d", r->kind);
    }
}

/* Persistent tensors: inside their region, apart from each other, whole from the start; @last is
 * the one before it in the same place. */
static dt_status home_on_device(verifier *v, int32_t t, int32_t last)
{
    const dt_plan *p = v->p;
    const dt_plan_tensor *x = &p->tensor[t];
    uint64_t to;
    if (__builtin_add_overflow(x->home, x->bytes, &to) || to > p->persistent)
        return refuse(v, "%s lies outside the persistent region", x->name);
    if (last >= 0 && x->home < p->tensor[last].home + p->tensor[last].bytes)
        return refuse(v, "%s overlaps %s", x->name, p->tensor[last].name);
    v->hold[t] = (holding){.live = true, .off = x->home, .filled = x->bytes};
    return DT_OK;
}

/* Whether the slots of a tensor lie within those of another, and in the same places there. */
static bool lies_within(const dt_plan_tensor *x, const dt_plan_tensor *whole)
{
    return whole->persistent && whole->tier == x->tier && x->home >= whole->home &&
           x->bytes < whole->bytes && x->home + x->bytes <= whole->home + whole->bytes &&
           x->next - x->home == whole->next - whole->home;
}

/* The last of them that begins at a place of its tier or before it; -1: none does. */
static int32_t whole_before(const verifier *v, dt_tier tier, uint64_t home)
{
    size_t low = 0, high = v->n_whole[tier];
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (v->p->tensor[v->whole[tier][mid]].home > home)
            high = mid;
        else
            low = mid + 1;
    }
    return low > 0 ? v->whole[tier][low - 1] : -1;
}

/* Nothing is held for it as a whole, whose parts come. */
static void forget_whole(verifier *v, int32_t whole)
{
    const dt_plan_tensor *x = &v->p->tensor[whole];
    const uint64_t slots[] = {x->home, x->next};
    for (size_t i = 0; i < DT_COUNT(slots); i++) {
        const size_t at = place_saved(v, x->tier, slots[i], whole);
        if (at < v->n_saved)
            drop_saved(v, at);
    }
}

/* A tensor whose home begins below the end of the last one in its tier: a part of one of those
 * before it, behind that one's other parts. */
static dt_status part_of(verifier *v, int32_t t, int32_t last)
{
    const dt_plan_tensor *x = &v->p->tensor[t];
    const int32_t whole = whole_before(v, x->tier, x->home);
    if (whole < 0 || !lies_within(x, &v->p->tensor[whole]) || x->home < v->hold[whole].parted)
        return refuse(v, "the home of %s overlaps that of %s", x->name, named(v, last));
    const holding *of = &v->hold[whole];
    if (x->home != (of->cut ? of->parted : v->p->tensor[whole].home))
        return refuse(v, "%s is no next part of %s", x->name, named(v, whole));
    if (!of->cut)
        forget_whole(v, whole);
    v->hold[whole].cut = v->hold[t].part = true;
    v->hold[whole].parted = x->home + x->bytes;
    return DT_OK;
}

static dt_status home_in_tier(verifier *v, int32_t t, int32_t last)
{
    const dt_plan *p = v->p;
    const dt_plan_tensor *x = &p->tensor[t];
    const bool two = x->next != x->home;
    uint64_t to, end;
    if (x->tier != DT_TIER_HOST && x->tier != DT_TIER_DISK)
        return refuse(v, "%s is at home in no tier %d", x->name, x->tier);
    const uint64_t peak = p->tier_peak[x->tier];
    const uint64_t align = dt_tier_align((dt_tier)x->tier);
    if (x->bytes == 0)
        return refuse(v, "the home of %s has no bytes", x->name);
    if (__builtin_add_overflow(x->home, x->bytes, &to) ||
        __builtin_add_overflow(x->next, x->bytes, &end) || end > peak)
        return refuse(v, "the home of %s ends past the %s's peak", x->name, dt_tier_name(x->tier));
    if (x->home % align != 0 || x->next % align != 0)
        return refuse(v, "the home of %s is no multiple of %" PRIu64, x->name, align);
    if (two && x->next < to)
        return refuse(v, "the two generations of %s lie in each other", x->name);
    if (last >= 0 && x->home < p->tensor[last].next + p->tensor[last].bytes)
        DT_CHECK(part_of(v, t, last));
    else
        v->whole[x->tier][v->n_whole[x->tier]++] = t;
    add_saved(v, &(saved){x->home, to, x->tier, t, 0, 0, {{0}}, {{0}}});
    if (two)
        add_saved(v, &(saved){x->next, end, x->tier, t, 0, NOTHING, {{0}}, {{0}}});
    return DT_OK;
}

/* Each tier has room for all that live there. */
static void part_wholes(verifier *v)
{
    size_t lives[DT_TIERS] = {0}, from = 0;
    for (size_t t = 0; t < v->p->n_tensor; t++)
        if (v->p->tensor[t].persistent && v->p->tensor[t].tier < DT_TIERS)
            lives[v->p->tensor[t].tier]++;
    for (int tier = 0; tier < DT_TIERS; tier++) {
        v->whole[tier] = v->wholes + from;
        from += lives[tier];
    }
}

static dt_status homes(verifier *v)
{
    int32_t last[DT_TIERS];
    for (int tier = 0; tier < DT_TIERS; tier++)
        last[tier] = -1;
    part_wholes(v);
    for (int32_t t = 0; (size_t)t < v->p->n_tensor; t++) {
        const dt_plan_tensor *x = &v->p->tensor[t];
        if (!x->persistent)
            continue;
        if (x->tier == DT_AT_DEVICE)
            DT_CHECK(home_on_device(v, t, last[DT_AT_DEVICE]));
        else
            DT_CHECK(home_in_tier(v, t, x->tier < DT_TIERS ? last[x->tier] : -1));
        last[x->tier] = v->hold[t].part ? last[x->tier] : t;
    }
    for (int32_t t = 0; (size_t)t < v->p->n_tensor; t++) /* else some of it is nobody's */
        if (v->hold[t].cut && v->hold[t].parted != v->p->tensor[t].home + v->p->tensor[t].bytes)
            return refuse(v, "the parts of %s leave some of it out", named(v, t));
    return DT_OK;
}

/* What ops have changed elsewhere was brought home: to the slot of the next generation, where there
 * is one, as the other keeps what it held before the first change. */
static dt_status brought_home(verifier *v)
{
    for (size_t i = 0; i < v->n_saved; i++) {
        const saved *s = saved_at(v, i);
        const dt_plan_tensor *t = &v->p->tensor[s->tensor];
        const uint32_t version = v->hold[s->tensor].version;
        const bool right = t->next == t->home ? s->version == version
                           : s->from == t->home
                               ? s->version == 0
                               : s->version == version || (s->version == NOTHING && version == 0);
        if (t->persistent && !right)
            return refuse(v, "%s is changed and not brought home", t->name);
    }
    return DT_OK;
}

/* An op that is for one of several algorithms has the scratch of that one. */
static dt_status algorithm_work(verifier *v, const dt_plan_op *op)
{
    uint64_t bytes = 0;
    for (int32_t a = op->first; a < op->first + op->n; a++) {
        const int32_t t = v->p->arg[a].tensor;
        DT_CHECK(tensor_ok(v, t));
        if (v->p->tensor[t].role == DT_ROLE_WORKSPACE)
            bytes = v->p->tensor[t].bytes;
    }
    if (op->algorithm[0] != '\0' && bytes != op->work)
        return refuse(v,
            "%s has %" PRIu64 " bytes of scratch, but its algorithm '%s' wants %" PRIu64, op->name,
            bytes, op->algorithm, op->work);
    return DT_OK;
}

/* The first stream computes; the others copy to or from a tier, or are the host's that computes. */
static dt_status streams(verifier *v)
{
    const dt_plan *p = v->p;
    if (p->n_stream < 1 || p->n_stream > DT_MAX_STREAMS)
        return refuse(v, "%" PRId32 " streams", p->n_stream);
    for (int s = 0; s < p->n_stream; s++) {
        const dt_stream *x = &p->stream[s];
        const bool copies = (x->kind == DT_STREAM_OUT || x->kind == DT_STREAM_IN) &&
                            (x->tier == DT_TIER_HOST || x->tier == DT_TIER_DISK);
        const bool computes =
            x->kind == DT_STREAM_COMPUTE && x->tier == (s == DT_MAIN_STREAM ? 0 : DT_TIER_HOST);
        if (s == DT_MAIN_STREAM && !computes)
            return refuse(v, "the first stream does not compute on the device");
        if (!computes && !copies)
            return refuse(v,
                "stream %d neither computes on the host nor copies to or from the host or the disk",
                s);
    }
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
        DT_CHECK(algorithm_work(v, op));
    }
    return DT_OK;
}

static dt_status at_end(verifier *v)
{
    v->row = -1;
    for (size_t t = 0; t < v->p->n_tensor; t++)
        if (v->hold[t].live && !dt_plan_resident(&v->p->tensor[t]))
            return refuse(v, "%s is never released", v->p->tensor[t].name);
    DT_CHECK(brought_home(v));
    for (size_t i = 0; i < v->p->n_op; i++)
        if (!v->ran[i])
            return refuse(v, "%s is never run", v->p->op[i].name);
    if (v->peak != v->p->peak)
        return refuse(v, "the peak is %" PRIu64 ", not %" PRIu64, v->peak, v->p->peak);
    for (int tier = DT_TIER_HOST; tier < DT_TIERS; tier++)
        if (v->tier_peak[tier] != v->p->tier_peak[tier])
            return refuse(v, "the %s's peak is %" PRIu64 ", not %" PRIu64, dt_tier_name(tier),
                v->tier_peak[tier], v->p->tier_peak[tier]);
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

/* Whoever reserves memory may add some of such numbers up. */
static const uint64_t MOST_BYTES = (uint64_t)1 << 60;

static uint64_t largest_peak(const dt_plan *p)
{
    uint64_t most = p->peak;
    for (int tier = 0; tier < DT_TIERS; tier++)
        most = p->tier_peak[tier] > most ? p->tier_peak[tier] : most;
    return most;
}

dt_status dt_verify(const dt_plan *p, dt_err *err)
{
    verifier v = {.p = p, .err = err};
    const size_t most =
        4 * p->n_row + 1; /* a row begins and ends a tensor at most, two cuts each */
    if (p->n_row > INT32_MAX / 4 - 1 || p->n_tensor > INT32_MAX / 4 || p->n_event < 0 ||
        largest_peak(p) > MOST_BYTES)
        return DT_FAIL(err, DT_E_DATA, "plan: too large");
    v.hold = dt_alloc(p->n_tensor, sizeof *v.hold);
    v.stretch = dt_alloc(most, sizeof *v.stretch);
    v.by_address = dt_alloc(most, sizeof *v.by_address);
    const size_t most_saved = p->n_row + 2 * p->n_tensor;
    v.saved = dt_alloc(most_saved + 1, sizeof *v.saved);
    v.by_slot = dt_alloc(most_saved + 1, sizeof *v.by_slot);
    v.event = dt_alloc((size_t)p->n_event, sizeof *v.event);
    v.signalled = dt_alloc((size_t)p->n_event, sizeof *v.signalled);
    v.ran = dt_alloc(p->n_op, sizeof *v.ran);
    v.wholes = dt_alloc(p->n_tensor, sizeof *v.wholes);
    for (size_t i = 0; v.by_address != NULL && i < most; i++)
        v.by_address[i] = (int32_t)i;
    for (size_t i = 0; v.by_slot != NULL && i < most_saved; i++)
        v.by_slot[i] = (int32_t)i;
    dt_status st;
    if (v.hold == NULL || v.stretch == NULL || v.by_address == NULL || v.saved == NULL ||
        v.by_slot == NULL || v.event == NULL || v.signalled == NULL || v.ran == NULL ||
        v.wholes == NULL)
        st = DT_FAIL(err, DT_E_NOMEM, "no memory to verify a plan");
    else
        st = run(&v);
    dt_free(v.hold);
    dt_free(v.stretch);
    dt_free(v.by_address);
    dt_free(v.saved);
    dt_free(v.by_slot);
    dt_free(v.event);
    dt_free(v.signalled);
    dt_free(v.ran);
    dt_free(v.wholes);
    return st;
}
