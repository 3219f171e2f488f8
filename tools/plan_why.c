/* Why a tensor of a plan is where it is. A value is a tensor and the copies of it that are made
 * again, whose names have a mark behind them. */
#include "tools/plan_why.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/config/nearest.h"
#include "memory/codec.h"
#include "session/human.h"
#include "session/predict.h"

/* @value: by tensor, the first of its value; @there: by value, bytes of it are in the arena where
 * the wait ends; @seen: by value, made again already
 * @last @next: rows between which the value waits longest, and the ops in between; next 0: it never
 * waits */
typedef struct why {
    const dt_session *s;
    const dt_plan *p;
    const dt_timeline *t;
    int32_t tensor, *value;
    bool *there, *seen;
    size_t last, next;
    int64_t ops;
} why;

/* ---- names and values ---- */

static size_t plain_length(const char *name)
{
    size_t n = strlen(name);
    while (n > 0 && name[n - 1] == '\'')
        n--;
    return n;
}

static bool same_value(const char *a, const char *b)
{
    const size_t n = plain_length(a);
    return n == plain_length(b) && strncmp(a, b, n) == 0;
}

static int32_t find(const dt_plan *p, const char *name)
{
    for (size_t i = 0; i < p->n_tensor; i++)
        if (strcmp(p->tensor[i].name, name) == 0)
            return (int32_t)i;
    return -1;
}

static dt_status unknown(const dt_plan *p, const char *name, dt_err *err)
{
    const char **names = dt_alloc(p->n_tensor + 1, sizeof *names);
    const char *near = NULL;
    for (size_t i = 0; names != NULL && i < p->n_tensor; i++)
        names[i] = p->tensor[i].name;
    if (names != NULL)
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

/* Only those made again have another first. */
static void find_values(why *w)
{
    for (size_t i = 0; i < w->p->n_tensor; i++) {
        const char *name = w->p->tensor[i].name;
        w->value[i] = (int32_t)i;
        for (size_t k = 0; name[plain_length(name)] != '\0' && k < i; k++)
            if (same_value(name, w->p->tensor[k].name)) {
                w->value[i] = (int32_t)k;
                break;
            }
    }
}

/* How a COMPUTE row touches a value: DT_READ, DT_WRITE, DT_UPDATES; -1: not at all. */
static int touches(const why *w, size_t row, int32_t value)
{
    int mode = -1;
    if (w->p->row[row].kind != DT_ROW_COMPUTE)
        return -1;
    const dt_plan_op *op = &w->p->op[w->p->row[row].op];
    for (int32_t i = op->first; i < op->first + op->n; i++)
        if (w->value[w->p->arg[i].tensor] == value && (mode < 0 || w->p->arg[i].mode != DT_READ))
            mode = w->p->arg[i].mode;
    return mode;
}

static const dt_plan_op *op_at(const why *w, size_t row)
{
    return &w->p->op[w->p->row[row].op];
}

/* The row that makes a value first; n_row: no op does. */
static size_t maker(const why *w, int32_t value)
{
    size_t i = 0;
    while (i < w->p->n_row && touches(w, i, value) != DT_WRITE)
        i++;
    return i;
}

/* ---- where it waits ---- */

/* What makes it again is no use of it. */
static bool uses(const why *w, size_t row)
{
    const int mode = touches(w, row, w->value[w->tensor]);
    const int kind = mode >= 0 ? op_at(w, row)->kind : DT_OP_KINDS;
    return mode >= 0 && !(mode == DT_WRITE && (kind == DT_OP_RECOMPUTE || kind == DT_OP_DECODE)) &&
           kind != DT_OP_ENCODE;
}

static void find_wait(why *w)
{
    size_t last = w->p->n_row;
    double longest = -1;
    int64_t ops = 0;
    for (size_t i = 0; i < w->p->n_row; i++) {
        if (w->p->row[i].kind == DT_ROW_COMPUTE)
            ops++;
        if (!uses(w, i))
            continue;
        const double idle = last < w->p->n_row ? w->t->begin[i] - w->t->end[last] : -1;
        if (idle > longest && ops > 1) {
            longest = idle;
            w->last = last;
            w->next = i;
            w->ops = ops - 1;
        }
        last = i;
        ops = 0;
    }
    for (size_t i = 0; i < w->p->n_tensor; i++)
        w->there[w->value[i]] = w->there[w->value[i]] || dt_plan_resident(&w->p->tensor[i]);
    for (size_t i = 0; i < w->next; i++) {
        const dt_row *r = &w->p->row[i];
        if (r->kind == DT_ROW_PLACE && r->over >= 0)
            w->there[w->value[r->over]] = false;
        if (r->kind == DT_ROW_PLACE || r->kind == DT_ROW_RELEASE)
            w->there[w->value[r->tensor]] = r->kind == DT_ROW_PLACE;
    }
}

static void print_uses(const why *w)
{
    const size_t made = maker(w, w->value[w->tensor]);
    if (made < w->p->n_row)
        printf("made      by %s, at %.6f s\n", op_at(w, made)->name, w->t->end[made]);
    else
        printf("made      by no op: it is fetched\n");
    for (size_t i = 0, n = 0; i < w->p->n_row; i++)
        if (i != made && uses(w, i))
            printf("%s  by %s, at %.6f s\n", n++ == 0 ? "read    " : "        ", op_at(w, i)->name,
                w->t->begin[i]);
    if (w->next > 0)
        printf("idle      for %" PRId64 " ops and %.6f s, between %s and %s\n", w->ops,
            w->t->begin[w->next] - w->t->end[w->last], op_at(w, w->last)->name,
            op_at(w, w->next)->name);
    else
        printf("idle      never: op follows op\n");
}

/* ---- what fates would cost ---- */

/* Out and back, by the link to where tensors that move wait. */
static void offload(const why *w, double idle)
{
    const dt_tier tier = dt_session_request(w->s).tier == DT_TO_DISK ? DT_TIER_DISK : DT_TIER_HOST;
    const double bytes = (double)w->p->tensor[w->tensor].bytes;
    const bool among = dt_predict_moving(w->s, 1, 1) > 1; /* a byte is hidden behind a second */
    const dt_link *l = among ? w->s->costs.link[tier] : w->s->costs.thread_link[tier];
    const double out = l[DT_TO_TIER].latency + bytes / l[DT_TO_TIER].rate;
    const double in = l[DT_FROM_TIER].latency + bytes / l[DT_FROM_TIER].rate;
    printf("  offload    %.6f s to the %s and %.6f s back; ", out, dt_tier_name((int)tier), in);
    if (among)
        printf("none of it hidden, as copies stand among the ops\n");
    else if (out + in <= idle)
        printf("hidden, where the link is free\n");
    else
        printf("%.6f s of it not hidden\n", out + in - idle);
}

/* Adds what has to be run that a value is there again. False: not all of it can be. */
static bool again(why *w, int32_t value, int64_t *ops, double *seconds)
{
    if (w->seen[value] || (w->there[value] && value != w->value[w->tensor]))
        return true;
    const size_t row = maker(w, value);
    w->seen[value] = true;
    if (row == w->p->n_row) /* an input, which is fetched */
        return w->p->tensor[value].role == DT_ROLE_INPUT;
    const dt_plan_op *op = op_at(w, row);
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

static void recompute(why *w)
{
    int64_t ops = 0;
    double seconds = 0;
    if (w->p->tensor[w->tensor].role == DT_ROLE_INPUT)
        printf("  recompute  no op makes it: it can be fetched again\n");
    else if (again(w, w->value[w->tensor], &ops, &seconds))
        printf("  recompute  %" PRId64 " op%s, %.6f s, from what is there before %s\n", ops,
            ops == 1 ? "" : "s", seconds, op_at(w, w->next)->name);
    else
        printf("  recompute  it cannot be: backward makes it, or what it is made from\n");
}

static void encode(const why *w)
{
    const dt_plan_tensor *t = &w->p->tensor[w->tensor];
    const double known = dt_densities_of(&w->s->densities, t->name), share = known < 0 ? 1 : known;
    const double bytes = (double)t->bytes;
    size_t n;
    const dt_codec *const *all = dt_codec_all(&n);
    for (size_t i = 0; i < n && t->bytes % sizeof(float) == 0; i++) {
        char size[DT_HUMAN_BYTES];
        const dt_costs *c = &w->s->costs;
        const size_t packed = dt_packed_bytes(all[i], t->bytes / sizeof(float), share);
        printf("  encode     %s: %s stay%s%s, %.6f s to pack and %.6f s to unpack\n", all[i]->name,
            dt_human_bytes(size, packed), packed >= t->bytes ? ", which saves nothing" : "",
            all[i]->exact ? "" : ", changes results",
            bytes / dt_costs_rate(c, all[i]->name, share, true),
            bytes / dt_costs_rate(c, all[i]->name, share, false));
    }
    if (known < 0)
        printf("             as if no value were zero: how many are, nobody has counted (dnntrain "
               "profile)\n");
}

/* ---- what was done ---- */

static const char *fate_of(const why *w, const dt_row *r)
{
    const int32_t value = w->value[w->tensor];
    if (r->kind == DT_ROW_PLACE && r->over >= 0 && w->value[r->tensor] == value)
        return "in place";
    if (r->kind == DT_ROW_COPY_OUT && w->value[r->tensor] == value)
        return "offloaded";
    if (r->kind == DT_ROW_COPY_IN && r->tier == DT_TIER_INPUT && w->value[r->tensor] == value)
        return r->reason >= 0 ? "fetched again" : NULL;
    if (r->kind != DT_ROW_COMPUTE)
        return NULL;
    const int mode = touches(w, (size_t)(r - w->p->row), value);
    const int kind = w->p->op[r->op].kind;
    if (mode == DT_WRITE && kind == DT_OP_RECOMPUTE)
        return "made again";
    return mode == DT_READ && kind == DT_OP_ENCODE ? "packed" : NULL;
}

/* Only what is done about the wait is instead of keeping. */
static void print_taken(const why *w)
{
    bool kept = true;
    for (size_t i = 0; i < w->p->n_row; i++) {
        const dt_row *r = &w->p->row[i];
        const char *fate = fate_of(w, r);
        if (fate == NULL)
            continue;
        kept = kept && r->kind == DT_ROW_PLACE;
        printf("taken     %s, row %zu: %s\n", fate, i,
            r->reason >= 0 ? w->p->reason[r->reason] : "no reason is given");
    }
    if (kept)
        printf("taken     kept: %s does nothing else with it\n", w->p->policy);
}

static void print(why *w)
{
    const dt_plan_tensor *t = &w->p->tensor[w->tensor];
    char role[DT_HUMAN_BYTES], size[DT_HUMAN_BYTES];
    printf("%s   %s, %s (%" PRIu64 " bytes), program '%s'\n", t->name,
        dt_human_role(role, (dt_role)t->role), dt_human_bytes(size, t->bytes), t->bytes,
        w->p->program);
    if (dt_plan_resident(t)) {
        printf("it stays for the whole run, at byte %" PRIu64 ": no fate is set\n", t->home);
        return;
    }
    if (t->persistent)
        printf("it lives on the %s, at byte %" PRIu64 ", and comes to the device for its ops\n",
            dt_tier_name(t->tier), t->home);
    find_wait(w);
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
    why w = {.s = s, .p = p, .t = t, .tensor = find(p, tensor)};
    if (w.tensor < 0)
        return unknown(p, tensor, err);
    w.value = dt_alloc(p->n_tensor + 1, sizeof *w.value);
    w.there = dt_alloc(p->n_tensor + 1, sizeof *w.there);
    w.seen = dt_alloc(p->n_tensor + 1, sizeof *w.seen);
    const bool room = w.value != NULL && w.there != NULL && w.seen != NULL;
    if (room) {
        find_values(&w);
        print(&w);
    }
    dt_free(w.value);
    dt_free(w.there);
    dt_free(w.seen);
    return room ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory to look for '%s'", tensor);
}
