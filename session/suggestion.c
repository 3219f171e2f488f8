/* What is said of a configuration that fits: the lines to set, its peaks and its price. */
#include "session/suggestion.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/numbers_text.h"
#include "session/human.h"
#include "session/parts.h"

static void DT_PRINTF(3, 0) vadd(char *to, size_t bytes, const char *fmt, va_list args)
{
    const size_t n = strlen(to);
    dt_vsnprintf(to + n, bytes - n, fmt, args);
}

static void DT_PRINTF(3, 4) add(char *to, size_t bytes, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vadd(to, bytes, fmt, args);
    va_end(args);
}

/* One more of a list: behind @first where nothing is yet, else behind a comma. */
static void DT_PRINTF(4, 5) list(char *to, size_t bytes, const char *first, const char *fmt, ...)
{
    va_list args;
    add(to, bytes, "%s", to[0] != '\0' ? ", " : first);
    va_start(args, fmt);
    vadd(to, bytes, fmt, args);
    va_end(args);
}

static void DT_PRINTF(4, 5)
    set(dti_change *c, const char *section, const char *key, const char *fmt, ...)
{
    char value[600] = "";
    va_list args;
    va_start(args, fmt);
    vadd(value, sizeof value, fmt, args);
    va_end(args);
    if (c->section == section)
        add(c->lines, sizeof c->lines, ", ");
    else
        add(c->lines, sizeof c->lines, "%s[%s] ", c->section != NULL ? " and " : "", section);
    c->section = section;
    add(c->lines, sizeof c->lines, "%s = %s", key, value);
    add(c->typed, sizeof c->typed, " --set %s.%s=%s", section, key, value);
}

dti_alternative dti_alternative_by(
    const dt_session *s, const dti_alternative *own, const char *policy)
{
    dti_alternative v = *own;
    v.policy = policy;
    if (strcmp(policy, own->policy) != 0)
        v.micro = s->opts.train.micro_batch;
    return v;
}

/* Samples of a part where no line says how many; 0: that is for the policy to choose. */
static int64_t usual_parts(const dt_session *s, const dti_alternative *own, const char *policy)
{
    const dt_policy *p = dt_policy_find(policy);
    const bool chooses = p != NULL && p->parts != NULL && strcmp(policy, own->policy) != 0;
    return chooses ? 0 : dti_alternative_by(s, own, policy).micro;
}

dti_change dti_change_to(const dt_session *s, const dti_alternative *own, const dti_alternative *v)
{
    static const char memory[] = "memory", train[] = "train";
    const int64_t usual = usual_parts(s, own, v->policy);
    dti_change c = {.lines = ""};
    if (strcmp(v->policy, own->policy) != 0)
        set(&c, memory, "policy", "%s", v->policy);
    if (v->tier != own->tier)
        set(&c, memory, "tier", "%s", v->tier == DT_TO_DISK ? "disk" : "host");
    if (v->algorithms != own->algorithms)
        set(&c, memory, "algorithms", "small");
    if (v->budget != own->budget)
        set(&c, memory, "device_budget", "%" PRIu64, v->budget);
    if (v->batch != own->batch)
        set(&c, train, "batch", "%" PRId64, v->batch);
    const bool stays_all = /* where a line names parts, it has to be said again of another batch */
        v->batch != own->batch && usual == own->batch && !dti_session_names_parts(s);
    if (!stays_all && (v->batch != own->batch || v->micro != usual))
        set(&c, train, "micro_batch", "%" PRId64, v->micro);
    return c;
}

static void peaks(const dt_need *n, char *to, size_t bytes)
{
    char size[DT_HUMAN_BYTES];
    snprintf(to, bytes, "%s", dt_human_bytes(size, n->device));
    for (int tier = 0; tier < DT_TIERS; tier++)
        if (n->tier[tier] > 0)
            add(to, bytes, " and %s on the %s", dt_human_bytes(size, n->tier[tier]),
                dt_tier_name(tier));
}

/* "; a step moves 1.29 GiB out and back, computes 12.3 GFLOP again (27.0 %)" */
static void price(const dti_alternative *own, const dti_trial *t, char *to, size_t bytes)
{
    const dt_score *c = &t->score;
    const bool small = t->v.algorithms != own->algorithms;
    char size[DT_HUMAN_BYTES], amount[DT_HUMAN_BYTES];
    to[0] = '\0';
    if (c->out > 0)
        list(to, bytes, "; a step ", "moves %s out and back", dt_human_bytes(size, c->out));
    if (c->recomputes > 0)
        list(to, bytes, "; a step ", "computes %s again (%.1f%%)",
            dt_human_flops(amount, c->recompute_flops),
            c->flops > 0 ? 100 * c->recompute_flops / c->flops : 0.0);
    if (c->packed > 0)
        list(to, bytes, "; a step ", "packs %s", dt_human_bytes(size, c->packed));
    if (small)
        list(to, bytes, "; a step ", "computes %s by slower algorithms",
            dt_human_flops(amount, c->limited_flops));
    if (!t->exact)
        add(to, bytes, "; changes results");
    else if (small)
        add(to, bytes, "; changes the last bits");
}

void dti_say_fits(const dti_change *c, const char *remark, const dti_alternative *own,
    const dti_trial *t, dt_err *err)
{
    char need[128], cost[256];
    peaks(&t->need, need, sizeof need);
    price(own, t, cost, sizeof cost);
    (void)DT_FAIL(
        err, DT_E_BUDGET, "  fits if: %s%s, which needs %s%s", c->lines, remark, need, cost);
}
