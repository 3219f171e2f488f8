/* What to change so that a run fits: other configurations are planned, as little of each as their
 * peaks need, and the cheapest of each kind are told. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/alloc.h"
#include "tools/budget.h"
#include "tools/human.h"

enum { WANTED = 3, MOST_DIVISORS = 256 };

/* What a run may change to fit. */
typedef struct variant {
    int64_t batch, micro;
    const char *policy;
    int tier, algorithms;
} variant;

/* What came of one. @can: it can be trained at all; @order: of its policy among all. */
typedef struct trial {
    variant v;
    size_t order;
    bool can, fits, exact;
    dt_need need;
    dt_cost cost;
} trial;

/* @all: every policy by itself at the configured batch, exact ones first, then by what they cost */
typedef struct search {
    const dt_session *s;
    const dt_room *room;
    bool eval;
    variant own;
    size_t n_tried, cap_tried, n_all;
    trial *tried, *all;
    int n_told;
    variant told[WANTED];
} search;

static bool evaluates(const dt_session *s)
{
    for (size_t i = 0; i < s->n_planned; i++)
        if (s->planned[i].kind == DT_PROGRAM_EVAL)
            return true;
    return false;
}

/* Peaks of a run like this one but for the variant, from plans alone. */
static dt_status plan_trial(const search *x, trial *t, dt_err *err)
{
    dt_session other = *x->s;
    other.map = NULL;
    other.planned = NULL;
    other.n_planned = other.cap_planned = 0;
    other.ways_chosen = false;
    other.opts.train.batch = t->v.batch;
    other.opts.train.micro_batch = t->v.micro;
    other.opts.memory.tier = t->v.tier;
    other.opts.memory.algorithms = t->v.algorithms;
    dt_status st = dt_session_set_policy(&other, t->v.policy, err);
    if (st == DT_OK)
        st = dt_session_plan_run(&other, x->eval, 0, 0, err);
    if (st == DT_OK) {
        t->can = dt_session_check_statistics(&other, NULL) == DT_OK;
        t->exact = dt_session_exact(&other);
        t->need = dt_session_need(&other);
        t->cost = dt_session_cost(&other);
        t->fits = t->can && dt_need_fits(&t->need, x->room);
    }
    dt_session_forget(&other);
    dt_policies_close(&other.policies);
    return st;
}

static bool same(const variant *a, const variant *b)
{
    return a->batch == b->batch && a->micro == b->micro && a->tier == b->tier &&
           a->algorithms == b->algorithms && strcmp(a->policy, b->policy) == 0;
}

/* Each is planned once. */
static dt_status try(search *x, variant v, trial *out, dt_err *err)
{
    for (size_t i = 0; i < x->n_tried; i++)
        if (same(&x->tried[i].v, &v)) {
            *out = x->tried[i];
            return DT_OK;
        }
    if (!dt_grow((void **)&x->tried, &x->cap_tried, x->n_tried, sizeof *x->tried))
        return DT_FAIL(err, DT_E_NOMEM, "no memory to look for what fits");
    *out = (trial){.v = v};
    DT_CHECK(plan_trial(x, out, err));
    x->tried[x->n_tried++] = *out;
    return DT_OK;
}

/* The largest batch, taken at once, below the configured micro-batch that fits, by bisection; its
 * batch is 0 when not even 1 does. */
static dt_status largest_batch(search *x, const char *policy, trial *best, dt_err *err)
{
    int64_t fits = 0, fails = x->own.micro;
    *best = (trial){0};
    while (fails - fits > 1) {
        trial t;
        const int64_t n = fits + (fails - fits) / 2;
        DT_CHECK(try(x, (variant){n, n, policy, x->own.tier, x->own.algorithms}, &t, err));
        if (t.fits) {
            fits = n;
            *best = t;
        } else if (t.can || n > 1) {
            fails = n;
        } else {
            break;
        }
    }
    return DT_OK;
}

/* The same for micro-batches that divide the batch. */
static dt_status largest_micro(search *x, const char *policy, trial *best, dt_err *err)
{
    int64_t divisor[MOST_DIVISORS];
    size_t n = 0, fits = 0;
    *best = (trial){0};
    for (int64_t d = 1; d < x->own.micro && n < MOST_DIVISORS; d++)
        if (x->own.batch % d == 0)
            divisor[n++] = d;
    for (size_t fails = n + 1; fails - fits > 1;) {
        trial t;
        const size_t mid = fits + (fails - fits) / 2;
        const variant v = {x->own.batch, divisor[mid - 1], policy, x->own.tier, x->own.algorithms};
        DT_CHECK(try(x, v, &t, err));
        if (t.fits || !t.can) { /* too small to be trained: larger ones might be */
            fits = mid;
            *best = t.fits ? t : *best;
        } else {
            fails = mid;
        }
    }
    return DT_OK;
}

/* Which is cheaper. A rough machine stands for all: 8 GB/s to the host, 1.6 to a disk, 5 through a
 * codec, 200 GFLOP/s, and two thirds of that by the ways of fewest bytes. Only the order counts. */
static double seconds(const trial *t)
{
    const dt_cost *c = &t->cost;
    return 2 * (double)(c->out - c->to_disk) / 8e9 + 2 * (double)c->to_disk / 1.6e9 +
           2 * (double)c->packed / 5e9 + c->clone_flops / 2e11 + 0.5 * c->limited_flops / 2e11;
}

static int cheapest_first(const void *va, const void *vb)
{
    const trial *a = va, *b = vb;
    if (a->exact != b->exact)
        return a->exact ? -1 : 1;
    const double x = seconds(a), y = seconds(b);
    if (x < y || x > y)
        return x < y ? -1 : 1;
    return (a->order > b->order) - (a->order < b->order);
}

static dt_status try_policies(search *x, dt_err *err)
{
    size_t n;
    const dt_policy *const *all = dt_policy_all(&n);
    x->all = dt_alloc(n + 1, sizeof *x->all);
    if (x->all == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to look for what fits");
    for (size_t i = 0; i < n; i++) {
        variant v = x->own;
        v.policy = all[i]->name;
        if (all[i]->rung != NULL) /* its rungs are tried by their own names */
            continue;
        DT_CHECK(try(x, v, &x->all[x->n_all], err));
        x->all[x->n_all].order = x->n_all;
        x->n_all++;
    }
    qsort(x->all, x->n_all, sizeof *x->all, cheapest_first);
    return DT_OK;
}

/* ---- what is said ---- */

static void append(char *to, size_t bytes, const char *more)
{
    const size_t n = strlen(to);
    snprintf(to + n, bytes - n, "%s", more);
}

/* The lines to set: those in which it differs. */
static void lines_to_set(const search *x, const trial *t, char *to, size_t bytes)
{
    const variant *v = &t->v, *own = &x->own;
    char part[96];
    const char *before = "[memory] ";
    to[0] = '\0';
    if (strcmp(v->policy, own->policy) != 0) {
        append(to, bytes, before);
        append(to, bytes, "policy = ");
        append(to, bytes, v->policy);
        before = ", ";
    }
    if (v->tier != own->tier) {
        append(to, bytes, before);
        append(to, bytes, v->tier == DT_TO_DISK ? "tier = disk" : "tier = host");
        before = ", ";
    }
    if (v->algorithms != own->algorithms) {
        append(to, bytes, before);
        append(to, bytes, "algorithms = small");
    }
    if (v->batch == own->batch && v->micro == own->micro)
        return;
    append(to, bytes, to[0] != '\0' ? " and [train] " : "[train] ");
    if (v->batch != own->batch) {
        snprintf(part, sizeof part, "batch = %" PRId64, v->batch);
        append(to, bytes, part);
    }
    if (v->batch != own->batch && own->batch == own->micro)
        return; /* the micro-batch is all of it, as it was */
    snprintf(part, sizeof part, "%smicro_batch = %" PRId64, v->batch != own->batch ? ", " : "",
        v->micro);
    append(to, bytes, part);
}

static void peaks(const dt_need *n, char *to, size_t bytes)
{
    char size[DT_HUMAN_BYTES], more[96];
    snprintf(to, bytes, "%s", dt_human_bytes(size, n->device));
    if (n->host > 0) {
        snprintf(more, sizeof more, " and %s on the host", dt_human_bytes(size, n->host));
        append(to, bytes, more);
    }
    if (n->disk > 0) {
        snprintf(more, sizeof more, " and %s on the disk", dt_human_bytes(size, n->disk));
        append(to, bytes, more);
    }
}

/* "; a step moves 1.29 GiB out and back, computes 12.3 GFLOP again (27.0 %)" */
static void price(const search *x, const trial *t, char *to, size_t bytes)
{
    const dt_cost *c = &t->cost;
    char size[DT_HUMAN_BYTES], more[96];
    const char *before = "; a step ";
    to[0] = '\0';
    if (c->out > 0) {
        snprintf(
            more, sizeof more, "%smoves %s out and back", before, dt_human_bytes(size, c->out));
        append(to, bytes, more);
        before = ", ";
    }
    if (c->clones > 0) {
        snprintf(more, sizeof more, "%scomputes %.3g GFLOP again (%.1f%%)", before,
            c->clone_flops / 1e9, c->flops > 0 ? 100 * c->clone_flops / c->flops : 0.0);
        append(to, bytes, more);
        before = ", ";
    }
    if (c->packed > 0) {
        snprintf(more, sizeof more, "%spacks %s", before, dt_human_bytes(size, c->packed));
        append(to, bytes, more);
        before = ", ";
    }
    if (t->v.algorithms != x->own.algorithms) {
        snprintf(more, sizeof more, "%scomputes %.3g GFLOP by slower algorithms", before,
            c->limited_flops / 1e9);
        append(to, bytes, more);
    }
    if (!t->exact)
        append(to, bytes, "; changes results");
    else if (t->v.algorithms != x->own.algorithms)
        append(to, bytes, "; changes the last bits");
}

static void tell(search *x, const trial *t, const char *remark, dt_err *err)
{
    char lines[1200], need[128], cost[256];
    if (!t->fits || x->n_told == WANTED)
        return;
    for (int i = 0; i < x->n_told; i++)
        if (same(&x->told[i], &t->v))
            return;
    x->told[x->n_told++] = t->v;
    lines_to_set(x, t, lines, sizeof lines);
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

static void tell_micro(search *x, const trial *t, dt_err *err)
{
    char remark[96];
    snprintf(remark, sizeof remark, ", of the same batch in %" PRId64 " parts%s",
        t->fits ? t->v.batch / t->v.micro : 0,
        normalises(x->s->graph) ? " normalised each by itself" : "");
    tell(x, t, remark, err);
}

static void tell_batch(search *x, const trial *t, dt_err *err)
{
    char remark[64];
    snprintf(remark, sizeof remark, " (%" PRId64 " does not fit)", t->v.batch + 1);
    tell(x, t, remark, err);
}

/* ---- the search ---- */

/* What moved tensors may wait in instead. */
static dt_status suggest_tier(search *x, dt_err *err)
{
    const dt_need own = dt_session_need(x->s);
    variant v = x->own;
    trial t;
    if (own.host == 0 && own.disk == 0)
        return DT_OK;
    v.tier = v.tier == DT_TO_DISK || (own.disk > x->room->disk && own.host == 0) ? DT_TO_HOST
                                                                                 : DT_TO_DISK;
    DT_CHECK(try(x, v, &t, err));
    tell(x, &t, "", err);
    return DT_OK;
}

/* The same by the ways of fewest bytes; nothing that fits where they are not what would be new. */
static dt_status try_small(search *x, variant v, trial *t, dt_err *err)
{
    *t = (trial){0};
    if (v.algorithms != DT_ALGORITHMS_FAST) /* fit needs no more than small does */
        return DT_OK;
    v.algorithms = DT_ALGORITHMS_SMALL;
    return try(x, v, t, err);
}

/* One change, of each kind the best. */
static dt_status suggest_one_change(search *x, dt_err *err)
{
    size_t first = 0;
    trial micro, batch, small;
    while (first < x->n_all && !(x->all[first].fits && x->all[first].exact))
        first++;
    DT_CHECK(try_small(x, x->own, &small, err));
    if (first < x->n_all && seconds(&x->all[first]) <= seconds(&small))
        tell(x, &x->all[first], "", err);
    tell(x, &small, "", err);
    if (first < x->n_all)
        tell(x, &x->all[first], "", err);
    DT_CHECK(suggest_tier(x, err));
    DT_CHECK(largest_micro(x, x->own.policy, &micro, err));
    tell_micro(x, &micro, err);
    DT_CHECK(largest_batch(x, x->own.policy, &batch, err));
    tell_batch(x, &batch, err);
    for (size_t i = first + 1; i < x->n_all; i++)
        tell(x, &x->all[i], "", err);
    for (size_t i = 0; i < first && i < x->n_all; i++) /* no exact one fits: the others */
        tell(x, &x->all[i], "", err);
    if (!micro.fits && !batch.fits && !small.fits)
        (void)DT_FAIL(
            err, DT_E_BUDGET, "  not even one sample fits under policy %s", x->own.policy);
    return DT_OK;
}

/* A policy and the ways of fewest bytes, where neither is enough. */
static dt_status suggest_small_policies(search *x, dt_err *err)
{
    trial own, t;
    DT_CHECK(try_small(x, x->own, &own, err));
    for (size_t i = 0; i < x->n_all && x->n_told < WANTED && !own.fits; i++) {
        if (x->all[i].fits)
            continue;
        DT_CHECK(try_small(x, x->all[i].v, &t, err));
        tell(x, &t, "", err);
    }
    return DT_OK;
}

/* A policy and a smaller batch, where that is more than @micro and @batch. */
static dt_status suggest_two_changes(search *x, int64_t micro, int64_t batch, dt_err *err)
{
    for (size_t i = 0; i < x->n_all && x->n_told < WANTED; i++) {
        trial t;
        if (x->all[i].fits || strcmp(x->all[i].v.policy, x->own.policy) == 0)
            continue;
        DT_CHECK(largest_micro(x, x->all[i].v.policy, &t, err));
        if (t.fits && t.v.micro > micro)
            tell_micro(x, &t, err);
        if (t.fits)
            continue;
        DT_CHECK(largest_batch(x, x->all[i].v.policy, &t, err));
        if (t.fits && t.v.batch > batch)
            tell_batch(x, &t, err);
    }
    return DT_OK;
}

static void lower(trial *least, const trial *t)
{
    if (t->can && t->need.device < least->need.device)
        *least = *t;
}

/* The least of the device that any policy needs for this batch, and for it in the smallest parts
 * that can be trained; by the ways of fewest bytes as well. */
static dt_status tell_least(search *x, dt_err *err)
{
    char size[DT_HUMAN_BYTES], lines[1200];
    trial least = x->all[0];
    bool any = false;
    for (size_t i = 0; i < x->n_all; i++) {
        any = any || x->all[i].fits;
        least = x->all[i].need.device < least.need.device ? x->all[i] : least;
    }
    if (!any)
        (void)DT_FAIL(err, DT_E_BUDGET,
            "  at this batch no policy fits; %s needs the least, %s (%" PRIu64 " bytes)",
            least.v.policy, dt_human_bytes(size, least.need.device), least.need.device);
    for (size_t i = 0; i < x->n_all; i++)
        for (int64_t micro = 1; micro <= 2 && micro < x->own.micro; micro++) {
            trial t;
            variant v = x->all[i].v;
            v.micro = micro;
            if (v.batch % micro != 0)
                continue;
            DT_CHECK(try(x, v, &t, err));
            lower(&least, &t);
            if (t.can)
                break;
        }
    trial small;
    const variant found = least.v;
    for (size_t i = 0; i <= x->n_all; i++) {
        DT_CHECK(try_small(x, i < x->n_all ? x->all[i].v : found, &small, err));
        lower(&least, &small);
    }
    lines_to_set(x, &least, lines, sizeof lines);
    (void)DT_FAIL(err, DT_E_BUDGET,
        "  the least found for this batch is %s (%" PRIu64 " bytes)%s%s",
        dt_human_bytes(size, least.need.device), least.need.device, lines[0] != '\0' ? ": " : "",
        lines);
    return DT_OK;
}

static dt_status suggest(search *x, const dt_plan *p, dt_err *err)
{
    char size[DT_HUMAN_BYTES];
    DT_CHECK(try_policies(x, err));
    DT_CHECK(tell_least(x, err));
    DT_CHECK(suggest_one_change(x, err));
    DT_CHECK(suggest_small_policies(x, err));
    if (x->n_told < WANTED) { /* first those that make the parts larger than one change does */
        trial micro, batch;
        DT_CHECK(largest_micro(x, x->own.policy, &micro, err));
        DT_CHECK(largest_batch(x, x->own.policy, &batch, err));
        DT_CHECK(suggest_two_changes(x, micro.v.micro, batch.v.batch, err));
        DT_CHECK(suggest_two_changes(x, 0, 0, err));
    }
    if (x->n_told == 0)
        (void)DT_FAIL(err, DT_E_BUDGET,
            "  nothing was found that fits; parameters with gradients and optimizer state take %s "
            "(%" PRIu64 " bytes)",
            dt_human_bytes(size, p->persistent), p->persistent);
    else if (x->n_told < WANTED)
        (void)DT_FAIL(err, DT_E_BUDGET, "  no more than %d such configuration%s found", x->n_told,
            x->n_told > 1 ? "s were" : " was");
    return DT_OK;
}

dt_status dt_suggest(const dt_session *s, const dt_room *r, const dt_plan *p, dt_err *err)
{
    search x = {.s = s,
        .room = r,
        .eval = evaluates(s),
        .own = {s->opts.train.batch, s->opts.train.micro_batch, s->opts.memory.policy,
            s->opts.memory.tier, s->opts.memory.algorithms}};
    const dt_status st = suggest(&x, p, err);
    dt_free(x.tried);
    dt_free(x.all);
    return st;
}
