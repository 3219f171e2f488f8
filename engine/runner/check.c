/* What looks at a run: the checked run; a probe, which sees what ops write; and the probe that
 * finds out who made the first value that is not finite.
 *
 * The checked run. The arena is filled with a pattern, persistent tensors with zeros; bytes given
 * up get the pattern back. Around every op the bytes beside the tensors it writes are remembered
 * and compared, so that a write that strays is found at the op that made it; in the end the whole
 * arena outside the persistent tensors must hold the pattern. A tier that the processor reaches is
 * filled likewise, and what lies above the slots that were written must hold the pattern in the
 * end; of others it is noted how far slots were written. */
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers.h"
#include "engine/runner/runner_internal.h"

enum { PATTERN = 0xA5, MARGIN = 64, MOST = 2 * DT_MAX_ARGS };

/* Bytes beside a written tensor: [from, to) of the arena, and what they held. */
typedef struct margin {
    uint64_t from, to;
    int32_t tensor;
    unsigned char held[2 * MARGIN];
} margin;

typedef struct checker {
    dt_runner *r;
    dti_plan *p;
    dt_measure *m;
    margin margin[MOST];
    int n;
} checker;

/* ---- the checked run ---- */

static dt_status is_untouched(
    const checker *k, uint64_t from, uint64_t bytes, bool *yes, dt_err *err)
{
    *yes = true;
    return bytes == 0 ? DT_OK
                      : k->r->d->holds(k->r->device, k->r->base + from, bytes, PATTERN, yes, err);
}

static dt_status remember(checker *k, uint64_t from, uint64_t to, int32_t tensor, dt_err *err)
{
    if (from >= to || k->n == MOST)
        return DT_OK;
    margin *g = &k->margin[k->n++];
    *g = (margin){.from = from, .to = to, .tensor = tensor};
    return dti_read(k->r, g->held, from, to - from, err);
}

static dt_status before_op(checker *k, const dti_step *s, dt_err *err)
{
    k->n = 0;
    for (int32_t i = s->first; i < s->first + s->n; i++) {
        const dti_bytes *b = &k->p->touched[i];
        if (!b->written)
            continue;
        const uint64_t end = dt_align_up(b->to, DT_ALIGN) + MARGIN;
        DT_CHECK(remember(k, b->from > MARGIN ? b->from - MARGIN : 0, b->from, b->tensor, err));
        DT_CHECK(remember(
            k, b->to, end < k->r->o.arena_bytes ? end : k->r->o.arena_bytes, b->tensor, err));
    }
    return DT_OK;
}

static bool written_by(const checker *k, const dti_step *s, uint64_t at)
{
    for (int32_t i = s->first; i < s->first + s->n; i++) {
        const dti_bytes *b = &k->p->touched[i];
        if (b->written && at >= b->from && at < b->to)
            return true;
    }
    return false;
}

/* A layer from outside is the host program's mistake, any other op ours. */
static dt_status tell_strayed(const checker *k, const dti_step *s, int32_t tensor, dt_err *err)
{
    const dt_node *node = s->kind == DTI_COMPUTE ? s->compute.call.node : NULL;
    const char *past = k->p->tensor[tensor].name;
    if (node != NULL && node->desc->outside)
        return DT_FAIL(err, DT_E_CONFIG,
            "layer '%s' (%s), which the host program has registered, wrote outside %s in '%s'",
            node->name, node->desc->name, past, s->name);
    return DT_FAIL(err, DT_E_INTERNAL, "%s wrote outside %s", s->name, past);
}

static dt_status after_op(checker *k, const dti_step *s, dt_err *err)
{
    for (int g = 0; g < k->n; g++) {
        const margin *m = &k->margin[g];
        unsigned char now[2 * MARGIN];
        DT_CHECK(dti_read(k->r, now, m->from, m->to - m->from, err));
        for (uint64_t at = m->from; at < m->to; at++)
            if (now[at - m->from] != m->held[at - m->from] && !written_by(k, s, at))
                return tell_strayed(k, s, m->tensor, err);
    }
    return DT_OK;
}

/* Whether the tensor counts as used, before its bytes change hands. Scratch does: a library may ask
 * for some and then not touch it. */
static dt_status measure(checker *k, const dti_bytes *b, dt_err *err)
{
    bool untouched = false;
    if (dt_align_up(b->to, DT_ALIGN) <= k->m->peak)
        return DT_OK;
    if (k->p->tensor[b->tensor].role != DT_ROLE_WORKSPACE)
        DT_CHECK(is_untouched(k, b->from, b->to - b->from, &untouched, err));
    if (!untouched)
        k->m->peak = dt_align_up(b->to, DT_ALIGN);
    return DT_OK;
}

static bool holds_pattern(const unsigned char *at, uint64_t bytes)
{
    return bytes == 0 || (*at == PATTERN && memcmp(at, at + 1, bytes - 1) == 0);
}

/* How far a tier is used, behind a copy out. */
static void measure_slot(checker *k, const dti_copy *c)
{
    const unsigned char *map = k->r->tier[c->tier].map;
    const uint64_t end = dt_align_up(c->slot + c->stored, dt_tier_align(c->tier));
    if (c->out && end > k->m->tier[c->tier] &&
        (map == NULL || !holds_pattern(map + c->slot, c->stored)))
        k->m->tier[c->tier] = end;
}

/* What has a map is the processor's memory. */
static void fill_tiers(checker *k)
{
    const dt_runner *r = k->r;
    for (int t = 0; t < DT_TIERS; t++) {
        k->m->tier[t] = r->o.map->tier_bytes[t];
        if (r->tier[t].map != NULL)
            memset(r->tier[t].map, PATTERN, r->o.tier_bytes[t]);
    }
}

/* Persistent tensors are zero, or what is computed from them could be the pattern. */
static dt_status zero_homes(const checker *k, bool on_device, dt_err *err)
{
    const dt_map *m = k->r->o.map;
    for (size_t i = 0; i < m->n; i++)
        if ((m->home[i].tier == DT_AT_DEVICE) == on_device)
            DT_CHECK(dti_home_zero(k->r, &m->home[i], err));
    return DT_OK;
}

static dt_status check_tiers(const checker *k, dt_err *err)
{
    const dt_runner *r = k->r;
    for (int t = 0; t < DT_TIERS; t++) {
        const uint64_t from = k->m->tier[t], all = r->o.tier_bytes[t];
        if (r->tier[t].map != NULL && from < all &&
            !holds_pattern(r->tier[t].map + from, all - from))
            return DT_FAIL(err, DT_E_INTERNAL,
                "a byte of the %s tier changed behind byte %llu, where no slot lies",
                dt_tier_name(t), (unsigned long long)from);
    }
    return DT_OK;
}

static dt_status check_untouched(const checker *k, uint64_t from, uint64_t to, dt_err *err)
{
    bool same = true;
    if (from >= to)
        return DT_OK;
    DT_CHECK(is_untouched(k, from, to - from, &same, err));
    if (same)
        return DT_OK;
    for (unsigned char at = PATTERN; at == PATTERN; from++)
        DT_CHECK(dti_read(k->r, &at, from, 1, err));
    return DT_FAIL(err, DT_E_INTERNAL, "byte %llu of the arena changed, where no tensor lies",
        (unsigned long long)(from - 1));
}

static dt_status run_rows(checker *k, const dti_run *u, dt_err *err)
{
    for (size_t i = 0; i < k->p->n_step; i++) {
        dti_step *s = &k->p->step[i];
        if (s->kind == DTI_WAIT)
            continue;
        if (s->kind == DTI_END) {
            const dti_bytes *b = &k->p->touched[s->first];
            DT_CHECK(measure(k, b, err));
            DT_CHECK(dti_fill(k->r, b->from, PATTERN, b->to - b->from, err));
            continue;
        }
        DT_CHECK(before_op(k, s, err));
        DT_CHECK(dti_step_alone(u, s, DT_MAIN_STREAM, err));
        DT_CHECK(after_op(k, s, err));
        if (s->kind == DTI_COPY)
            measure_slot(k, &s->copy);
        for (int32_t t = s->first; t < s->first + s->n; t++)
            DT_CHECK(measure(k, &k->p->touched[t], err));
    }
    return DT_OK;
}

dt_status dt_runner_check(dt_runner *r, int id, const dt_run_args *a, dt_measure *m, dt_err *err)
{
    *m = (dt_measure){0};
    checker k = {.r = r, .p = &r->plan[id], .m = m};
    const dti_run u = {r, k.p, a};
    const dt_map *map = r->o.map;
    DT_CHECK(r->d->finish(r->device, err));
    fill_tiers(&k);
    DT_CHECK(zero_homes(&k, false, err)); /* which may go by way of the arena */
    DT_CHECK(dti_fill(r, 0, PATTERN, r->o.arena_bytes, err));
    DT_CHECK(zero_homes(&k, true, err));
    DT_CHECK(dti_run_begin(&u, err));
    DT_CHECK(run_rows(&k, &u, err));
    DT_CHECK(dti_run_end(&u, err));
    DT_CHECK(r->d->finish(r->device, err));
    dti_run_done(&u);
    dti_runner_settle(r, false);
    uint64_t at = 0;
    for (size_t i = 0; i < map->n; i++) { /* between persistent tensors, then all the rest */
        if (map->home[i].tier != DT_AT_DEVICE)
            continue;
        DT_CHECK(check_untouched(&k, at, map->home[i].off, err));
        at = map->home[i].off + map->home[i].bytes;
    }
    DT_CHECK(check_untouched(&k, at, r->o.arena_bytes, err));
    return check_tiers(&k, err);
}

/* ---- probes ---- */

void dt_runner_set_probe(dt_runner *r, const dt_probe *p)
{
    r->probe = p;
}

/* Where the processor does not reach them, a copy is shown. */
static dt_status show_bytes(dt_runner *r, const dti_bytes *b, const dt_plan_tensor *t, dt_err *err)
{
    const uint64_t n = b->to - b->from;
    if (r->d->host_memory) {
        r->probe->wrote(r->probe->self, t, r->base + b->from);
        return DT_OK;
    }
    void *copy = dt_alloc(n, 1);
    if (copy == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to look at %s", t->name);
    const dt_status st = dti_read(r, copy, b->from, n, err);
    if (st == DT_OK)
        r->probe->wrote(r->probe->self, t, copy);
    dt_free(copy);
    return st;
}

dt_status dti_show(const dti_run *u, const dti_step *s, dt_err *err)
{
    u->r->shown = s;
    for (int32_t i = s->first; i < s->first + s->n && s->compute.args.n == u->p->n; i++) {
        const dti_bytes *b = &u->p->touched[i];
        u->r->shown_type = b->type;
        if (b->written)
            DT_CHECK(show_bytes(u->r, b, &u->p->tensor[b->tensor], err));
    }
    return DT_OK;
}

/* Infinities and NaNs are the numbers whose exponent is all ones, and a bf16 is half a float. */
static bool all_finite(const void *bytes, size_t n, dt_dtype t)
{
    const uint16_t *half = bytes;
    const size_t each = dt_dtype_bytes(t) / sizeof *half, count = n / sizeof *half;
    for (size_t i = each - 1; i < count; i += each)
        if ((half[i] & 0x7F80u) == 0x7F80u)
            return false;
    return true;
}

static void look(void *self, const dt_plan_tensor *t, const void *bytes)
{
    dt_runner *r = self;
    const bool value = t->role == DT_ROLE_ACTIVATIONS || t->role == DT_ROLE_ACTIVATION_GRADIENTS;
    if (r->blamed[0] != '\0' || (!value && t->role != DT_ROLE_GRADIENTS) ||
        all_finite(bytes, t->bytes, value ? r->shown_type : DT_F32))
        return;
    const dt_call *c = &r->shown->compute.call;
    const bool back = c->form == DT_BACKWARD || c->form == DT_BACKWARD2;
    if (c->node == NULL)
        snprintf(r->blamed, sizeof r->blamed, "'%s', which %s", r->shown->name,
            c->codec != NULL ? "unpacks what a policy packed" : "adds gradients up");
    else
        snprintf(r->blamed, sizeof r->blamed, "layer '%s' (%s), %s, in '%s'", c->node->name,
            c->node->desc->name, back ? "backward" : "forward", t->name);
}

void dti_runner_blame(dt_runner *r, bool on)
{
    r->blame = (dt_probe){r, look};
    r->probe = on ? &r->blame : NULL;
    if (on)
        r->blamed[0] = '\0';
}

const char *dti_runner_blamed(const dt_runner *r)
{
    return r->blamed[0] != '\0' ? r->blamed : NULL;
}
