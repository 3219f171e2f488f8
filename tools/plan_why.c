/* Why a tensor of a plan is where it is. */
#include "tools/plan_why.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/config/nearest.h"
#include "memory/codec.h"
#include "session/human.h"
#include "tools/plan_value.h"
#include "tools/terminal.h"

static dt_status unknown(const dt_graph *g, const dt_plan *p, const char *name, dt_err *err)
{
    size_t n;
    const char **names = dti_value_names(g, p, 0, &n);
    const char *near = NULL;
    if (names != NULL) /* tensors, which come last, before layers */
        near = dt_nearest(name, names + (n - p->n_tensor));
    if (names != NULL && near == NULL)
        near = dt_nearest(name, names);
    const dt_status st =
        near != NULL
            ? DT_FAIL(err, DT_E_CONFIG,
                  "program '%s' has no tensor '%s'; did you mean '%s'? --rows names them all",
                  p->program, name, near)
            : DT_FAIL(err, DT_E_CONFIG, "program '%s' has no tensor '%s'; --rows names them all",
                  p->program, name);
    dt_free(names);
    return st;
}

enum { LABEL = 10, FATE = 13, TEXT = 768 }; /* what stands behind a label, and behind a fate */

/* A line that begins with what it is of, in words as wide as the terminal. */
static void DT_PRINTF(2, 3) say(int indent, const char *fmt, ...)
{
    char text[TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    dti_term_wrap(stdout, 0, indent, text);
}

/* Whose all seconds below are. */
static void print_costs(const dt_costs *c)
{
    if (dt_costs_known(c))
        say(LABEL, "seconds   %s, by %s", dt_costs_said(c), c->name);
    else
        say(LABEL, "seconds   of defaults, as nothing was measured of this machine");
}

static void print_uses(const dti_value_view *w)
{
    const size_t made = dti_value_maker(w, w->value[w->tensor]);
    if (made < w->p->n_row)
        say(LABEL, "made      by %s, at %.6f s", dti_value_op(w, made)->name, w->t->end[made]);
    else
        say(LABEL, "made      by no op: it is fetched");
    for (size_t i = 0, n = 0; i < w->p->n_row; i++)
        if (i != made && dti_value_uses(w, i))
            say(LABEL, "%s  by %s, at %.6f s", n++ == 0 ? "read    " : "        ",
                dti_value_op(w, i)->name, w->t->begin[i]);
    if (w->next > 0)
        say(LABEL, "idle      for %" PRId64 " op%s and %.6f s, between %s and %s", w->ops,
            w->ops == 1 ? "" : "s", w->t->begin[w->next] - w->t->end[w->last],
            dti_value_op(w, w->last)->name, dti_value_op(w, w->next)->name);
    else
        say(LABEL, "idle      never: op follows op");
}

/* ---- what fates would cost ---- */

/* Where a copy back comes from: that of an input from the batch. */
static dt_tier comes_from(const dti_value_view *w)
{
    if (w->p->tensor[w->tensor].role == DT_ROLE_INPUT)
        return DT_TIER_INPUT;
    return dt_session_request(w->s).tier == DT_TO_DISK ? DT_TIER_DISK : DT_TIER_HOST;
}

/* Out and back, by the link to where tensors that move wait; an input is not copied out. */
static void offload(const dti_value_view *w, double idle)
{
    const dt_tier tier = comes_from(w);
    const bool input = tier == DT_TIER_INPUT;
    const double bytes = (double)w->p->tensor[w->tensor].bytes;
    const bool among = dt_predict_moving(w->s, 1, 1) > 1; /* a byte is hidden behind a second */
    const dt_link *l = among ? w->s->costs.link[tier] : w->s->costs.thread_link[tier];
    const double out = input ? 0 : l[DT_TO_TIER].latency + bytes / l[DT_TO_TIER].rate;
    const double in = l[DT_FROM_TIER].latency + bytes / l[DT_FROM_TIER].rate;
    char hidden[64] = "none of it hidden, as copies stand among the ops";
    if (!among && out + in <= idle)
        snprintf(hidden, sizeof hidden, "hidden, where the link is free");
    else if (!among)
        snprintf(hidden, sizeof hidden, "%.6f s of it not hidden", out + in - idle);
    if (input)
        say(FATE, "  offload    it is fetched again from the batch, %.6f s; %s", in, hidden);
    else
        say(FATE, "  offload    %.6f s to the %s and %.6f s back; %s", out, dt_tier_name((int)tier),
            in, hidden);
}

/* Adds what has to be run that a value is there again. False: not all of it can be. */
static bool again(dti_value_view *w, int32_t value, int64_t *ops, double *seconds)
{
    if (w->seen[value] || (w->there[value] && value != w->value[w->tensor]))
        return true;
    const size_t row = dti_value_maker(w, value);
    w->seen[value] = true;
    if (row == w->p->n_row) /* an input, which is fetched */
        return w->p->tensor[value].role == DT_ROLE_INPUT;
    const dt_plan_op *op = dti_value_op(w, row);
    if (op->kind != DT_OP_FORWARD && op->kind != DT_OP_REORDER)
        return false;
    bool can = true;
    ++*ops;
    *seconds += w->t->end[row] - w->t->begin[row];
    for (int32_t i = op->first; i < op->first + op->n && can; i++)
        if (w->p->arg[i].mode == DT_READ)
            can = again(w, w->value[w->p->arg[i].tensor], ops, seconds);
    return can;
}

static void recompute(dti_value_view *w)
{
    int64_t ops = 0;
    double seconds = 0;
    if (w->p->tensor[w->tensor].role == DT_ROLE_INPUT)
        say(FATE, "  recompute  no op makes it: it can be fetched again");
    else if (again(w, w->value[w->tensor], &ops, &seconds))
        say(FATE, "  recompute  %" PRId64 " op%s, %.6f s, from what is there before %s", ops,
            ops == 1 ? "" : "s", seconds, dti_value_op(w, w->next)->name);
    else
        say(FATE, "  recompute  it cannot be: backward makes it, or what it is made from");
}

static void encode(const dti_value_view *w)
{
    const dt_plan_tensor *t = &w->p->tensor[w->tensor];
    const double known = dt_densities_of(&w->s->densities, t->name), share = known < 0 ? 1 : known;
    const double bytes = (double)t->bytes;
    size_t n;
    const dt_codec *const *all = dt_codec_all(&n);
    if (t->role != DT_ROLE_ACTIVATIONS) {
        say(FATE, "  encode     it is left as it is: codecs pack activations alone");
        return;
    }
    for (size_t i = 0; i < n && t->bytes % sizeof(float) == 0; i++) {
        char size[DT_HUMAN_BYTES];
        const dt_costs *c = &w->s->costs;
        const size_t packed =
            dt_packed_samples(all[i], t->bytes / sizeof(float), w->p->batch, share);
        say(FATE, "  encode     %s: %s stay%s%s, %.6f + %.6f s", all[i]->name,
            dt_human_bytes(size, packed), packed >= t->bytes ? ", which saves nothing" : "",
            all[i]->exact ? "" : ", changes results",
            bytes / dt_costs_rate(c, all[i]->name, share, true),
            bytes / dt_costs_rate(c, all[i]->name, share, false));
    }
    if (known < 0)
        say(FATE, "%*sas if no value were zero, since nobody has counted them (profile)", FATE, "");
}

/* ---- what was done ---- */

/* Only what is done about the wait is instead of keeping. */
static void print_taken(const dti_value_view *w)
{
    bool kept = true;
    for (size_t i = 0; i < w->p->n_row; i++) {
        const dt_row *r = &w->p->row[i];
        const char *fate = dti_value_fate(w, r);
        if (fate == NULL)
            continue;
        kept = kept && r->kind == DT_ROW_PLACE;
        say(LABEL, "taken     %s, row %zu: %s", fate, i,
            r->reason >= 0 ? w->p->reason[r->reason] : "no reason is given");
    }
    if (kept)
        say(LABEL, "taken     kept: %s does nothing else with it", w->p->policy);
}

static void print(dti_value_view *w)
{
    const dt_plan_tensor *t = &w->p->tensor[w->tensor];
    char role[DT_HUMAN_BYTES], size[DT_HUMAN_EXACT];
    say(2, "%s   %s, %s, program '%s'", t->name, dt_human_role(role, (dt_role)t->role),
        dt_human_exact(size, t->bytes), w->p->program);
    if (dt_plan_resident(t)) {
        printf("it stays for the whole run, at byte %" PRIu64 ": no fate is set\n", t->home);
        return;
    }
    if (t->persistent)
        printf("it lives on the %s, at byte %" PRIu64 ", and comes to the device for its ops\n",
            dt_tier_name(t->tier), t->home);
    print_costs(&w->s->costs);
    print_uses(w);
    if (w->next > 0) {
        const double idle = w->t->begin[w->next] - w->t->end[w->last];
        printf("what each fate would cost while it is idle\n  keep       %s for %.6f s\n",
            dt_human_bytes(size, t->bytes), idle);
        offload(w, idle);
        recompute(w);
        encode(w);
    }
    print_taken(w);
}

dt_status dti_plan_why(
    const dt_session *s, const dt_plan *p, const dt_timeline *t, const char *tensor, dt_err *err)
{
    dti_value_view w;
    char now[DTI_NOW_BYTES];
    const char *name = dti_value_told_fused(s->graph, tensor, now) ? now : tensor;
    int32_t found = dti_value_find(p, name);
    if (found < 0) { /* of a layer, what it makes */
        char made[DT_TENSOR_NAME_BYTES];
        snprintf(made, sizeof made, "%.100s.y", name);
        found = dti_value_find(p, made);
    }
    if (found < 0)
        return unknown(s->graph, p, tensor, err);
    dt_status st = dti_value_init(&w, s, p, t, err);
    if (st == DT_OK) {
        dti_value_look(&w, found);
        print(&w);
    }
    dti_value_deinit(&w);
    return st;
}
