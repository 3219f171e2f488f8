/* Where tensors lie: apart from each other, within the peak, and over another only where an op
 * allows it. */
#include <inttypes.h>
#include <string.h>

#include "memory/verify/verify_state.h"

dt_status dti_placed(dti_verifier *v, const dt_row *r)
{
    DT_CHECK(dti_tensor_ok(v, r->tensor));
    if (v->p->tensor[r->tensor].persistent)
        return dti_refuse(
            v, "%s is persistent: it is neither placed nor released", dti_named(v, r->tensor));
    const bool copy = r->kind == DT_ROW_COPY_OUT || r->kind == DT_ROW_COPY_IN;
    if (!copy && r->stream != DT_COMPUTE_STREAM)
        return dti_refuse(
            v, "%s is placed or released off the compute stream", dti_named(v, r->tensor));
    return DT_OK;
}

bool dti_is_pending(const dti_verifier *v, int32_t t)
{
    for (int i = 0; i < v->n_over; i++)
        if (v->over[i].tensor == t || v->over[i].under == t)
            return true;
    return false;
}

static dt_status place_over(dti_verifier *v, const dt_row *r)
{
    const dti_holding *u = &v->hold[r->over];
    if (!u->live || dti_is_pending(v, r->over))
        return dti_refuse(v, "%s goes over %s, which holds nothing", dti_named(v, r->tensor),
            dti_named(v, r->over));
    if (u->off != r->off || r->bytes > v->p->tensor[r->over].bytes)
        return dti_refuse(v, "%s is larger than %s or lies elsewhere", dti_named(v, r->tensor),
            dti_named(v, r->over));
    if (v->n_over == DT_MAX_OVER)
        return dti_refuse(v, "too many tensors over others at once");
    v->over[v->n_over++] = (dti_pending){r->tensor, r->over};
    return DT_OK;
}

/* The first stretch, by address, that ends behind @at. */
static size_t first_behind(const dti_verifier *v, uint64_t at)
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
static void insert(dti_verifier *v, size_t at, const dti_stretch *x)
{
    const int32_t id = v->by_address[v->n_stretch];
    memmove(v->by_address + at + 1, v->by_address + at, (v->n_stretch++ - at) * sizeof id);
    v->by_address[at] = id;
    v->stretch[id] = *x;
}

/* From here on @x stands for its bytes, in place of whatever has stood for them. */
static void set_bytes(dti_verifier *v, const dti_stretch *x)
{
    size_t at = first_behind(v, x->from), end = at;
    if (x->from == x->to)
        return;
    if (at < v->n_stretch && v->stretch[v->by_address[at]].from < x->from) {
        dti_stretch *cut = &v->stretch[v->by_address[at]];
        const dti_stretch rest = {x->from, cut->to, cut->owner, cut->used};
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

static void own_bytes(dti_verifier *v, int32_t t)
{
    const dti_holding *h = &v->hold[t];
    set_bytes(v, &(dti_stretch){h->off, h->off + v->p->tensor[t].bytes, t, h->before});
}

/* The bytes up to @end become the tensor's, if nobody has them but the one that it goes over, whose
 * they stay until the next compute. What used them before is noted. */
static dt_status take_bytes(dti_verifier *v, const dt_row *r, uint64_t end)
{
    for (size_t i = first_behind(v, r->off); i < v->n_stretch; i++) {
        const dti_stretch *x = &v->stretch[v->by_address[i]];
        if (x->from >= end)
            break;
        if (x->owner >= 0 && x->owner != r->over && r->bytes > 0)
            return dti_refuse(v, "%s overlaps %s, which is live", dti_named(v, r->tensor),
                dti_named(v, x->owner));
        dti_merge(&v->hold[r->tensor].before, &x->used);
    }
    if (r->over < 0)
        own_bytes(v, r->tensor);
    return DT_OK;
}

dt_status dti_verify_place(dti_verifier *v, const dt_row *r)
{
    DT_CHECK(dti_placed(v, r));
    dti_holding *h = &v->hold[r->tensor];
    uint64_t end;
    if (h->live)
        return dti_refuse(v, "%s is placed twice", dti_named(v, r->tensor));
    if (r->bytes != v->p->tensor[r->tensor].bytes)
        return dti_refuse(
            v, "%s has %" PRIu64 " bytes", dti_named(v, r->tensor), v->p->tensor[r->tensor].bytes);
    if (r->off % DT_ALIGN != 0)
        return dti_refuse(v, "%s is not aligned to %d", dti_named(v, r->tensor), DT_ALIGN);
    if (r->off < v->p->persistent)
        return dti_refuse(v, "%s lies inside the persistent region", dti_named(v, r->tensor));
    if (__builtin_add_overflow(r->off, r->bytes + DT_ALIGN - 1, &end) || r->bytes > v->p->peak ||
        (end = end / DT_ALIGN * DT_ALIGN) > v->p->peak)
        return dti_refuse(v, "%s ends past the peak", dti_named(v, r->tensor));
    *h = (dti_holding){.live = true, .version = h->version, .off = r->off};
    if (r->over >= 0) {
        DT_CHECK(dti_tensor_ok(v, r->over));
        DT_CHECK(place_over(v, r));
    }
    DT_CHECK(take_bytes(v, r, end));
    v->peak = end > v->peak ? end : v->peak;
    return DT_OK;
}

/* The tensor's bytes are free from here on: no copy of them may still be under way. */
static dt_status end(dti_verifier *v, int32_t t)
{
    dti_holding *h = &v->hold[t];
    dti_clock used = h->read;
    dti_merge(&used, &h->write);
    DT_CHECK(dti_must_know(v, DT_COMPUTE_STREAM, &used, "a copy", t));
    dti_merge(&used, &h->before);
    h->before = used;
    set_bytes(v, &(dti_stretch){h->off, h->off + v->p->tensor[t].bytes, DT_NONE, used});
    h->live = false;
    return DT_OK;
}

dt_status dti_verify_release(dti_verifier *v, const dt_row *r)
{
    DT_CHECK(dti_placed(v, r));
    if (!v->hold[r->tensor].live)
        return dti_refuse(v, "%s is released but holds nothing", dti_named(v, r->tensor));
    if (dti_is_pending(v, r->tensor))
        return dti_refuse(v, "%s shares bytes until the next compute", dti_named(v, r->tensor));
    if (v->hold[r->tensor].off != r->off)
        return dti_refuse(v, "%s lies elsewhere", dti_named(v, r->tensor));
    return end(v, r->tensor);
}

static int mode_of(const dti_verifier *v, const dt_plan_op *op, int32_t t)
{
    int mode = 0;
    for (int32_t a = op->first; a < op->first + op->n; a++)
        if (v->p->arg[a].tensor == t)
            mode |= v->p->arg[a].mode;
    return mode;
}

/* Tensors placed over others since the last compute: this op must be the one that makes it right.
 */
dt_status dti_verify_settle(dti_verifier *v, const dt_plan_op *op)
{
    for (int i = 0; i < v->n_over; i++) {
        const int32_t t = v->over[i].tensor, u = v->over[i].under;
        bool safe = false;
        for (int k = 0; k < op->n_safe; k++)
            safe = safe || (op->safe[k].out == t && op->safe[k].in == u);
        if (mode_of(v, op, u) != DT_READ || mode_of(v, op, t) != DT_WRITE)
            return dti_refuse(v, "%s does not read %s and write %s over it", op->name,
                dti_named(v, u), dti_named(v, t));
        if (!safe)
            return dti_refuse(v, "%s is not safe to write %s over %s", op->name, dti_named(v, t),
                dti_named(v, u));
        DT_CHECK(end(v, u));
        dti_merge(&v->hold[t].before, &v->hold[u].before); /* the bytes are the same */
        own_bytes(v, t);
    }
    v->n_over = 0;
    return DT_OK;
}
