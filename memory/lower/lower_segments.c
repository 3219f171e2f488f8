/* Live intervals of tensors, and which of them may lie in another's bytes. */
#include "engine/base/alloc.h"
#include "memory/lower/lowering.h"

int32_t dti_segment_at(const dti_lowering *l, int32_t tensor, int32_t pos)
{
    for (int32_t s = l->first[tensor]; s < l->first[tensor + 1]; s++)
        if (l->segment[s].first <= pos && pos <= l->segment[s].last)
            return s;
    return -1;
}

/* What brings bytes back begins a new interval. */
static bool begins(const dt_program *p, const dt_access *a, int32_t i)
{
    const dt_op_kind k = p->op[a->op].kind;
    return i == 0 || k == DT_OP_FETCH || k == DT_OP_IN ||
           (k == DT_OP_DECODE && a->mode == DT_WRITE);
}

static void tensor_segments(dti_lowering *l, int32_t tensor)
{
    const dt_program *p = l->p;
    int32_t n;
    const dt_access *a = dt_accesses(p, tensor, &n);
    dti_segment *s = NULL;
    for (int32_t i = 0; i < n; i++) {
        if (begins(p, &a[i], i)) {
            if (s != NULL && s->last >= a[i].pos)
                s->last = a[i].pos - 1; /* it was to be released later, but is brought back now */
            s = &l->segment[l->n_segment++];
            *s = (dti_segment){.tensor = tensor, .first = a[i].pos, .over = -1, .under = -1};
        }
        const dt_op *op = &p->op[a[i].op];
        int32_t last = a[i].pos;
        if (op->kind == DT_OP_OUT && op->release_after != DT_NONE &&
            dt_pos(p, op->release_after) > last)
            last = dt_pos(p, op->release_after);
        if (last > s->last)
            s->last = last;
    }
}

/* Whether segment out, written by the op, may lie over segment in, which the op reads last. */
static bool may_lie_over(const dti_lowering *l, const dt_op *op, int32_t pos, int32_t o, int32_t i)
{
    if (o < 0 || i < 0 || o == i)
        return false;
    const dti_segment *out = &l->segment[o], *in = &l->segment[i];
    const dt_tensor *to = &l->p->tensor[out->tensor], *ti = &l->p->tensor[in->tensor];
    const bool whole = op->count > 0 || op->n1 - op->n0 == l->p->n;
    return whole && out->first == pos && in->last == pos && in->first < pos && out->over < 0 &&
           in->under < 0 && to->bytes == ti->bytes && to->slot == ti->slot;
}

static void in_place(dti_lowering *l)
{
    for (int32_t pos = 0; pos < (int32_t)l->p->n_order; pos++) {
        const dt_op *op = &l->p->op[l->p->order[pos]];
        const dt_form *f = op->desc != NULL ? &op->desc->form[op->form] : NULL;
        for (int k = 0; f != NULL && k < f->n_over; k++) {
            const int32_t out = dt_op_tensor(op, f->over[k].out);
            const int32_t in = dt_op_tensor(op, f->over[k].in);
            if (out == DT_NONE || in == DT_NONE)
                continue;
            const int32_t o = dti_segment_at(l, out, pos), i = dti_segment_at(l, in, pos);
            if (may_lie_over(l, op, pos, o, i)) {
                l->segment[o].over = i;
                l->segment[i].under = o;
            }
        }
    }
}

dt_status dti_segments(dti_lowering *l, dt_err *err)
{
    const dt_program *p = l->p;
    size_t most = 0;
    for (size_t t = 0; t < p->n_tensor; t++) {
        int32_t n;
        dt_accesses(p, (int32_t)t, &n);
        most += p->tensor[t].home == DT_NONE ? (size_t)n : 0;
    }
    l->segment = dt_alloc(most, sizeof *l->segment);
    l->first = dt_alloc(p->n_tensor + 1, sizeof *l->first);
    if (l->segment == NULL || l->first == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for lowering");
    for (size_t t = 0; t < p->n_tensor; t++) {
        l->first[t] = (int32_t)l->n_segment;
        if (p->tensor[t].home == DT_NONE)
            tensor_segments(l, (int32_t)t);
    }
    l->first[p->n_tensor] = (int32_t)l->n_segment;
    in_place(l);
    return DT_OK;
}
