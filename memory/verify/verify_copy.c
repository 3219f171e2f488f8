/* Copies: on their streams, of what is whole, to slots that nobody uses and from those that hold
 * what the tensor still is. */
#include <inttypes.h>

#include "memory/codec.h"
#include "memory/verify/verify_state.h"

/* Whether the row's stream takes such copies; what comes from the batch comes from the host. */
static bool takes(const dt_stream *s, const dt_row *r)
{
    const int tier = r->tier == DT_TIER_INPUT ? DT_TIER_HOST : r->tier;
    return s->kind == (r->kind == DT_ROW_COPY_OUT ? DT_STREAM_OUT : DT_STREAM_IN) &&
           s->tier == tier;
}

/* What a slot holds, and how much of it. */
static dt_status slot_checks(dti_verifier *v, const dt_row *r)
{
    size_t codecs;
    const dt_codec *const *codec = dt_codec_all(&codecs);
    if (r->codec < 0 || (size_t)r->codec > codecs)
        return dti_refuse(v, "no codec %" PRId32, r->codec);
    const bool fits = r->codec == 0 ? r->stored == r->bytes
                                    : r->stored >= dt_packed_bytes(codec[r->codec - 1], 0, 0);
    if (!fits)
        return dti_refuse(
            v, "the slot of %s has %" PRIu64 " bytes", dti_named(v, r->tensor), r->stored);
    uint64_t to;
    const uint64_t peak = r->tier == DT_TIER_HOST ? v->p->host_peak : v->p->disk_peak;
    if (__builtin_add_overflow(r->slot, r->stored, &to) || to > peak)
        return dti_refuse(v, "the slot of %s ends past the %s's peak", dti_named(v, r->tensor),
            dt_tier_name(r->tier));
    if (r->slot % dt_tier_align((dt_tier)r->tier) != 0)
        return dti_refuse(v, "the slot of %s is not aligned", dti_named(v, r->tensor));
    return DT_OK;
}

static dt_status copy_checks(dti_verifier *v, const dt_row *r)
{
    DT_CHECK(dti_placed(v, r));
    const dti_holding *h = &v->hold[r->tensor];
    if (!takes(&v->p->stream[r->stream], r))
        return dti_refuse(v, "a copy on the wrong stream");
    if (!h->live || dti_is_pending(v, r->tensor))
        return dti_refuse(v, "%s is copied but holds nothing", dti_named(v, r->tensor));
    if (h->off != r->off || r->bytes != v->p->tensor[r->tensor].bytes)
        return dti_refuse(v, "%s lies elsewhere", dti_named(v, r->tensor));
    if (r->tier == DT_TIER_INPUT && r->kind == DT_ROW_COPY_IN)
        return v->p->tensor[r->tensor].role == DT_ROLE_INPUT && r->slot <= 1
                   ? DT_OK
                   : dti_refuse(v, "%s is no part of the batch", dti_named(v, r->tensor));
    if (r->tier != DT_TIER_HOST && r->tier != DT_TIER_DISK)
        return dti_refuse(v, "no tier %d for this copy", r->tier);
    return slot_checks(v, r);
}

dt_status dti_verify_copy_out(dti_verifier *v, const dt_row *r)
{
    DT_CHECK(copy_checks(v, r));
    DT_CHECK(dti_note_read(v, r->stream, r->tensor, r->bytes));
    const uint64_t to = r->slot + r->stored;
    for (size_t i = 0; i < v->n_saved; i++) {
        dti_saved *s = &v->saved[i];
        if (s->tier != r->tier || s->from >= to || r->slot >= s->to)
            continue;
        DT_CHECK(dti_must_know(v, r->stream, &s->used, "the earlier use of the slot", s->tensor));
        *s = v->saved[--v->n_saved];
        i--;
    }
    DT_CHECK(dti_note_signal(v, r));
    dti_saved made = {
        r->slot, to, r->tier, r->tensor, r->codec, v->hold[r->tensor].version, {{0}}, {{0}}};
    made.used.at[r->stream] = made.written.at[r->stream] = v->row + 1;
    v->saved[v->n_saved++] = made;
    v->out += r->stored;
    return DT_OK;
}

dt_status dti_verify_copy_in(dti_verifier *v, const dt_row *r)
{
    DT_CHECK(copy_checks(v, r));
    if (r->tier != DT_TIER_INPUT) {
        dti_saved *s = NULL;
        for (size_t i = 0; i < v->n_saved; i++)
            if (v->saved[i].tensor == r->tensor && v->saved[i].tier == r->tier &&
                v->saved[i].from == r->slot && v->saved[i].to == r->slot + r->stored)
                s = &v->saved[i];
        if (s == NULL || s->codec != r->codec)
            return dti_refuse(v, "the slot of %s holds nothing of it", dti_named(v, r->tensor));
        if (s->version != v->hold[r->tensor].version)
            return dti_refuse(
                v, "%s was written to since it was copied out", dti_named(v, r->tensor));
        DT_CHECK(dti_must_know(v, r->stream, &s->written, "the copy out", r->tensor));
        s->used.at[r->stream] = v->row + 1;
    }
    DT_CHECK(dti_note_write(v, r->stream, r->tensor, 0, r->bytes));
    v->in += r->tier == DT_TIER_INPUT ? r->bytes : r->stored;
    return dti_note_signal(v, r);
}
