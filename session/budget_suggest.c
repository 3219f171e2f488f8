/* What to change so that a run fits: other configurations are planned, as little of each as their
 * peaks need, and the cheapest of each kind are told. */
#include "session/budget_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/clock.h"
#include "session/human.h"

enum { MOST_SECONDS = 30 }; /* of a search */

/* Which is cheaper. A rough machine stands for all: 8 GB/s to the host, 1.6 to a disk, 5 through a
 * codec, 200 GFLOP/s, and two thirds of that by the ways of fewest bytes. Only the order counts. */
static double seconds(const dti_trial *t)
{
    const dt_cost *c = &t->cost;
    return 2 * (double)(c->out - c->to_disk) / 8e9 + 2 * (double)c->to_disk / 1.6e9 +
           2 * (double)c->packed / 5e9 + c->clone_flops / 2e11 + 0.5 * c->limited_flops / 2e11;
}

static int cheapest_first(const void *va, const void *vb)
{
    const dti_trial *a = va, *b = vb;
    if (a->exact != b->exact)
        return a->exact ? -1 : 1;
    const double x = seconds(a), y = seconds(b);
    if (x < y || x > y)
        return x < y ? -1 : 1;
    return (a->order > b->order) - (a->order < b->order);
}

static dt_status try_policies(dti_search *x, dt_err *err)
{
    size_t n;
    const dt_policy *const *all = dt_policy_all(&n);
    x->all = dt_alloc(n + 1, sizeof *x->all);
    if (x->all == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to look for what fits");
    for (size_t i = 0; i < n; i++) {
        dti_variant v = x->own;
        v.policy = all[i]->name;
        if (all[i]->rung != NULL) /* its rungs are tried by their own names */
            continue;
        DT_CHECK(dti_try_variant(x, v, &x->all[x->n_all], err));
        x->all[x->n_all].order = x->n_all;
        x->n_all++;
    }
    qsort(x->all, x->n_all, sizeof *x->all, cheapest_first);
    return DT_OK;
}

/* What moved tensors may wait in instead. */
static dt_status suggest_tier(dti_search *x, dt_err *err)
{
    const dt_need own = dt_session_need(x->s);
    dti_variant v = x->own;
    dti_trial t;
    if (own.host == 0 && own.disk == 0)
        return DT_OK;
    v.tier = v.tier == DT_TO_DISK || (own.disk > x->room->disk && own.host == 0) ? DT_TO_HOST
                                                                                 : DT_TO_DISK;
    DT_CHECK(dti_try_variant(x, v, &t, err));
    dti_tell(x, &t, "", err);
    return DT_OK;
}

/* The same by the ways of fewest bytes; nothing that fits where they are not what would be new. */
static dt_status try_small(dti_search *x, dti_variant v, dti_trial *t, dt_err *err)
{
    *t = (dti_trial){0};
    if (v.algorithms != DT_ALGORITHMS_FAST) /* fit needs no more than small does */
        return DT_OK;
    v.algorithms = DT_ALGORITHMS_SMALL;
    return dti_try_variant(x, v, t, err);
}

/* One change, of each kind the best. */
static dt_status suggest_one_change(dti_search *x, dt_err *err)
{
    size_t first = 0;
    dti_trial micro, batch, small;
    while (first < x->n_all && !(x->all[first].fits && x->all[first].exact))
        first++;
    DT_CHECK(try_small(x, x->own, &small, err));
    if (first < x->n_all && seconds(&x->all[first]) <= seconds(&small))
        dti_tell(x, &x->all[first], "", err);
    dti_tell(x, &small, "", err);
    if (first < x->n_all)
        dti_tell(x, &x->all[first], "", err);
    DT_CHECK(suggest_tier(x, err));
    DT_CHECK(dti_largest_micro(x, x->own.policy, &micro, err));
    dti_tell_micro(x, &micro, err);
    DT_CHECK(dti_largest_batch(x, x->own.policy, &batch, err));
    dti_tell_batch(x, &batch, err);
    for (size_t i = first + 1; i < x->n_all; i++)
        dti_tell(x, &x->all[i], "", err);
    for (size_t i = 0; i < first && i < x->n_all; i++) /* no exact one fits: the others */
        dti_tell(x, &x->all[i], "", err);
    if (!micro.fits && !batch.fits && !small.fits)
        (void)DT_FAIL(
            err, DT_E_BUDGET, "  not even one sample fits under policy %s", x->own.policy);
    return DT_OK;
}

/* A policy and the ways of fewest bytes, where neither is enough. */
static dt_status suggest_small_policies(dti_search *x, dt_err *err)
{
    dti_trial own, t;
    DT_CHECK(try_small(x, x->own, &own, err));
    for (size_t i = 0; i < x->n_all && x->n_told < DTI_WANTED && !own.fits; i++) {
        if (x->all[i].fits)
            continue;
        DT_CHECK(try_small(x, x->all[i].v, &t, err));
        dti_tell(x, &t, "", err);
    }
    return DT_OK;
}

/* A policy and a smaller batch, where that is more than @micro and @batch. */
static dt_status suggest_two_changes(dti_search *x, int64_t micro, int64_t batch, dt_err *err)
{
    for (size_t i = 0; i < x->n_all && x->n_told < DTI_WANTED; i++) {
        dti_trial t;
        if (x->all[i].fits || strcmp(x->all[i].v.policy, x->own.policy) == 0)
            continue;
        DT_CHECK(dti_largest_micro(x, x->all[i].v.policy, &t, err));
        if (t.fits && t.v.micro > micro)
            dti_tell_micro(x, &t, err);
        if (t.fits)
            continue;
        DT_CHECK(dti_largest_batch(x, x->all[i].v.policy, &t, err));
        if (t.fits && t.v.batch > batch)
            dti_tell_batch(x, &t, err);
    }
    return DT_OK;
}

static void lower(dti_trial *least, const dti_trial *t)
{
    if (t->can && t->need.device < least->need.device)
        *least = *t;
}

/* Of all policies as the run is configured; told if none of them fits. */
static dti_trial least_policy(const dti_search *x, dt_err *err)
{
    char size[DT_HUMAN_BYTES];
    dti_trial least = x->all[0];
    bool any = false;
    for (size_t i = 0; i < x->n_all; i++) {
        any = any || x->all[i].fits;
        least = x->all[i].need.device < least.need.device ? x->all[i] : least;
    }
    if (!any)
        (void)DT_FAIL(err, DT_E_BUDGET,
            "  taken at once, this batch fits under no policy; %s needs the least, %s (%" PRIu64
            " bytes)",
            least.v.policy, dt_human_bytes(size, least.need.device), least.need.device);
    return least;
}

/* A policy in the smallest parts that can be trained. */
static dt_status lower_by_parts(dti_search *x, dti_variant v, dti_trial *least, dt_err *err)
{
    for (v.micro = 1; v.micro <= 2 && v.micro < x->own.micro; v.micro++) {
        dti_trial t;
        if (v.batch % v.micro != 0)
            continue;
        DT_CHECK(dti_try_variant(x, v, &t, err));
        lower(least, &t);
        if (t.can)
            break;
    }
    return DT_OK;
}

/* Every policy, and what was found, by the ways of fewest bytes. */
static dt_status lower_by_small(dti_search *x, dti_trial *least, dt_err *err)
{
    const dti_variant found = least->v;
    for (size_t i = 0; i <= x->n_all; i++) {
        dti_trial t;
        DT_CHECK(try_small(x, i < x->n_all ? x->all[i].v : found, &t, err));
        lower(least, &t);
    }
    return DT_OK;
}

/* The least of the device that any policy needs for this batch. */
static dt_status tell_least(dti_search *x, dt_err *err)
{
    char size[DT_HUMAN_BYTES], lines[1200];
    dti_trial least = least_policy(x, err);
    for (size_t i = 0; i < x->n_all; i++)
        DT_CHECK(lower_by_parts(x, x->all[i].v, &least, err));
    DT_CHECK(lower_by_small(x, &least, err));
    dti_lines_to_set(x, &least, lines, sizeof lines);
    (void)DT_FAIL(err, DT_E_BUDGET,
        "  the least found for this batch is %s (%" PRIu64 " bytes)%s%s",
        dt_human_bytes(size, least.need.device), least.need.device, lines[0] != '\0' ? ": " : "",
        lines);
    return DT_OK;
}

static dt_status search_all(dti_search *x, dt_err *err)
{
    DT_CHECK(try_policies(x, err));
    DT_CHECK(tell_least(x, err));
    DT_CHECK(suggest_one_change(x, err));
    DT_CHECK(suggest_small_policies(x, err));
    if (x->n_told < DTI_WANTED) { /* first those that make the parts larger than one change does */
        dti_trial micro, batch;
        DT_CHECK(dti_largest_micro(x, x->own.policy, &micro, err));
        DT_CHECK(dti_largest_batch(x, x->own.policy, &batch, err));
        DT_CHECK(suggest_two_changes(x, micro.v.micro, batch.v.batch, err));
        DT_CHECK(suggest_two_changes(x, 0, 0, err));
    }
    return DT_OK;
}

static void tell_end(const dti_search *x, const dt_plan *p, dt_err *err)
{
    char size[DT_HUMAN_BYTES];
    if (x->n_told == 0)
        (void)DT_FAIL(err, DT_E_BUDGET,
            "  nothing was found that fits; parameters with gradients and optimizer state take %s "
            "(%" PRIu64 " bytes)",
            dt_human_bytes(size, p->persistent), p->persistent);
    else if (x->n_told < DTI_WANTED)
        (void)DT_FAIL(err, DT_E_BUDGET, "  no more than %d such configuration%s found", x->n_told,
            x->n_told > 1 ? "s were" : " was");
}

static bool evaluates(const dt_session *s)
{
    for (size_t i = 0; i < s->n_planned; i++)
        if (s->planned[i].kind == DT_PROGRAM_EVAL)
            return true;
    return false;
}

dt_status dt_suggest(const dt_session *s, const dt_room *r, const dt_plan *p, dt_err *err)
{
    dti_search x = {.s = s,
        .room = r,
        .eval = evaluates(s),
        .said = dt_seconds(),
        .until = dt_seconds() + MOST_SECONDS,
        .own = {s->opts.train.batch, s->opts.train.micro_batch, dt_session_policy_asked(s),
            s->opts.memory.tier,
            s->ladder != NULL ? DT_ALGORITHMS_FAST : s->opts.memory.algorithms}};
    dt_status st = search_all(&x, err);
    if (st == DT_E_STOPPED) {
        (void)DT_FAIL(
            err, DT_E_BUDGET, "  the search for what fits ended after %d seconds", MOST_SECONDS);
        st = DT_OK;
    }
    if (st == DT_OK)
        tell_end(&x, p, err);
    dt_free(x.tried);
    dt_free(x.all);
    return st;
}
