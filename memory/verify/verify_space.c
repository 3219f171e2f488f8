/* Where tensors lie: apart from each other, within the peak, and over another only where an op
 * allows it. */
#include <inttypes.h>

#include "memory/verify/verify_state.h"

dt_status dti_placed(dti_verifier *v, const dt_row *r)
{
    DT_CHECK(dti_tensor_ok(v, r->tensor));
    if (v->p->tensor[r->tensor].persistent)
        return dti_refuse(
            v, "%s is persistent: it is neither placed nor released", dti_named(v, r->tensor));
    const bool copy = r->kind == DT_ROW_COPY_OUT || r->kind == DT_ROW_COPY_IN;
    if (!copy && r->stream != DT_STREAM_COMPUTE)
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
    for (size_t i = 0; i < v->n_live; i++) {
        const int32_t t = v->live[i];
        if (t != r->over && v->hold[t].off < end &&
            r->off < v->hold[t].off + v->p->tensor[t].bytes && r->bytes > 0 &&
            v->p->tensor[t].bytes > 0)
            return dti_refuse(
                v, "%s overlaps %s, which is live", dti_named(v, r->tensor), dti_named(v, t));
    }
    for (size_t i = 0; i < v->n_past; i++)
        if (v->past[i].from < end && r->off < v->past[i].to)
            dti_merge(&h->before, &v->past[i].used);
    v->live[v->n_live++] = r->tensor;
    v->peak = end > v->peak ? end : v->peak;
    return DT_OK;
}

/* Bytes that were used and are free now. Uses that lie within them are part of this one, which has
 * waited for them: so few are kept. */
static void add_past(dti_verifier *v, const dti_past *x)
{
    size_t kept = 0;
    for (size_t i = 0; i < v->n_past; i++)
        if (v->past[i].from < x->from || v->past[i].to > x->to)
            v->past[kept++] = v->past[i];
    v->past[kept++] = *x;
    v->n_past = kept;
}

/* The tensor's bytes are free from here on: no copy of them may still be under way. */
static dt_status end(dti_verifier *v, int32_t t)
{
    dti_holding *h = &v->hold[t];
    dti_clock used = h->read;
    dti_merge(&used, &h->write);
    DT_CHECK(dti_must_know(v, DT_STREAM_COMPUTE, &used, "a copy", t));
    dti_merge(&used, &h->before);
    h->before = used;
    add_past(v, &(dti_past){h->off, h->off + v->p->tensor[t].bytes, used});
    h->live = false;
    for (size_t i = 0; i < v->n_live; i++)
        if (v->live[i] == t) {
            v->live[i] = v->live[--v->n_live];
            break;
        }
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
    }
    v->n_over = 0;
    return DT_OK;
}
