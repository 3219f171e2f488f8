/* The verifier's picture of a run: the arena, the slots, what each stream knows. */
#include "memory/verify/verify_state.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

dt_status dti_refuse(dti_verifier *v, const char *fmt, ...)
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

static bool knows(const dti_clock *known, const dti_clock *need)
{
    for (int s = 0; s < DT_MAX_STREAMS; s++)
        if (known->at[s] < need->at[s])
            return false;
    return true;
}

void dti_merge(dti_clock *to, const dti_clock *from)
{
    for (int s = 0; s < DT_MAX_STREAMS; s++)
        to->at[s] = from->at[s] > to->at[s] ? from->at[s] : to->at[s];
}

dt_status dti_must_know(
    dti_verifier *v, int stream, const dti_clock *need, const char *what, int32_t t)
{
    if (knows(&v->known[stream], need))
        return DT_OK;
    return dti_refuse(v, "%s of %s is not waited for", what, dti_named(v, t));
}

dt_status dti_tensor_ok(dti_verifier *v, int32_t t)
{
    if (t < 0 || (size_t)t >= v->p->n_tensor)
        return dti_refuse(v, "no tensor %" PRId32, t);
    return DT_OK;
}

dt_status dti_note_signal(dti_verifier *v, const dt_row *r)
{
    if (r->event < 0)
        return DT_OK;
    if (r->event >= v->p->n_event)
        return dti_refuse(v, "no event %" PRId32, r->event);
    if (v->signalled[r->event])
        return dti_refuse(v, "event %" PRId32 " is signalled twice", r->event);
    v->signalled[r->event] = true;
    v->event[r->event] = v->known[r->stream];
    return DT_OK;
}

/* Bytes [from, to) of a tensor are written on a stream. */
dt_status dti_note_write(dti_verifier *v, int stream, int32_t t, uint64_t from, uint64_t to)
{
    dti_holding *h = &v->hold[t];
    if (!h->started && !v->p->tensor[t].persistent) {
        DT_CHECK(dti_must_know(v, stream, &h->before, "the earlier use of the bytes", t));
        h->started = true;
    }
    DT_CHECK(dti_must_know(v, stream, &h->write, "the writing", t));
    DT_CHECK(dti_must_know(v, stream, &h->read, "the reading", t));
    if (from > h->filled)
        return dti_refuse(v, "%s is written behind a hole", dti_named(v, t));
    h->filled = to > h->filled ? to : h->filled;
    h->write.at[stream] = v->row + 1;
    return DT_OK;
}

dt_status dti_note_read(dti_verifier *v, int stream, int32_t t, uint64_t to)
{
    dti_holding *h = &v->hold[t];
    if (to > h->filled)
        return dti_refuse(v, "%s is read but not whole", dti_named(v, t));
    DT_CHECK(dti_must_know(v, stream, &h->write, "the writing", t));
    h->read.at[stream] = v->row + 1;
    return DT_OK;
}
