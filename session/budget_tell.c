/* What is said of a configuration that fits: the lines to set, its peaks and its price. */
#include "session/budget_parts.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "session/human.h"

static void DT_PRINTF(3, 0) vadd(char *to, size_t bytes, const char *fmt, va_list args)
{
    const size_t n = strlen(to);
    vsnprintf(to + n, bytes - n, fmt, args);
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

void dti_lines_to_set(const dti_search *x, const dti_trial *t, char *to, size_t bytes)
{
    const dti_variant *v = &t->v, *own = &x->own;
    char train[96] = "";
    to[0] = '\0';
    if (strcmp(v->policy, own->policy) != 0)
        list(to, bytes, "[memory] ", "policy = %s", v->policy);
    if (v->tier != own->tier)
        list(to, bytes, "[memory] ", "tier = %s", v->tier == DT_TO_DISK ? "disk" : "host");
    if (v->algorithms != own->algorithms)
        list(to, bytes, "[memory] ", "algorithms = small");
    if (v->batch != own->batch)
        list(train, sizeof train, "[train] ", "batch = %" PRId64, v->batch);
    const bool stays_all = v->batch != own->batch && own->micro == own->batch;
    if (!stays_all && (v->batch != own->batch || v->micro != own->micro))
        list(train, sizeof train, "[train] ", "micro_batch = %" PRId64, v->micro);
    add(to, bytes, "%s%s", to[0] != '\0' && train[0] != '\0' ? " and " : "", train);
}

static void peaks(const dt_need *n, char *to, size_t bytes)
{
    char size[DT_HUMAN_BYTES];
    snprintf(to, bytes, "%s", dt_human_bytes(size, n->device));
    if (n->host > 0)
        add(to, bytes, " and %s on the host", dt_human_bytes(size, n->host));
    if (n->disk > 0)
        add(to, bytes, " and %s on the disk", dt_human_bytes(size, n->disk));
}

enum { AMOUNT = 32 };
static const char *work(char to[AMOUNT], double flops)
{
    const bool tera = flops >= 1e12;
    snprintf(to, AMOUNT, "%.3g %s", flops / (tera ? 1e12 : 1e9), tera ? "TFLOP" : "GFLOP");
    return to;
}

/* "; a step moves 1.29 GiB out and back, computes 12.3 GFLOP again (27.0 %)" */
static void price(const dti_search *x, const dti_trial *t, char *to, size_t bytes)
{
    const dt_cost *c = &t->cost;
    const bool small = t->v.algorithms != x->own.algorithms;
    char size[DT_HUMAN_BYTES], amount[AMOUNT];
    to[0] = '\0';
    if (c->out > 0)
        list(to, bytes, "; a step ", "moves %s out and back", dt_human_bytes(size, c->out));
    if (c->clones > 0)
        list(to, bytes, "; a step ", "computes %s again (%.1f%%)", work(amount, c->clone_flops),
            c->flops > 0 ? 100 * c->clone_flops / c->flops : 0.0);
    if (c->packed > 0)
        list(to, bytes, "; a step ", "packs %s", dt_human_bytes(size, c->packed));
    if (small)
        list(to, bytes, "; a step ", "computes %s by slower algorithms",
            work(amount, c->limited_flops));
    if (!t->exact)
        add(to, bytes, "; changes results");
    else if (small)
        add(to, bytes, "; changes the last bits");
}

void dti_tell(dti_search *x, const dti_trial *t, const char *remark, dt_err *err)
{
    char lines[1200], need[128], cost[256];
    if (!t->fits || x->n_told == DTI_WANTED)
        return;
    for (int i = 0; i < x->n_told; i++)
        if (dti_same_variant(&x->told[i], &t->v))
            return;
    x->told[x->n_told++] = t->v;
    dti_lines_to_set(x, t, lines, sizeof lines);
    peaks(&t->need, need, sizeof need);
    price(x, t, cost, sizeof cost);
    (void)DT_FAIL(err, DT_E_BUDGET, "  fits if: %s%s, which needs %s%s", lines, remark, need, cost);
}

/* Whether smaller parts of a batch give other results. */
static bool normalises(const dt_graph *g)
{
    for (size_t i = 0; i < g->n_node; i++)
        if (g->node[i].desc->batch_statistics)
            return true;
    return false;
}

void dti_tell_micro(dti_search *x, const dti_trial *t, dt_err *err)
{
    char remark[96];
    snprintf(remark, sizeof remark, ", of the same batch in %" PRId64 " parts%s",
        t->fits ? t->v.batch / t->v.micro : 0,
        normalises(x->s->graph) ? " normalised each by itself" : "");
    dti_tell(x, t, remark, err);
}

void dti_tell_batch(dti_search *x, const dti_trial *t, dt_err *err)
{
    char remark[64];
    snprintf(remark, sizeof remark, " (%" PRId64 " does not fit)", t->v.batch + 1);
    dti_tell(x, t, remark, err);
}
