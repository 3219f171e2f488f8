/* Other configurations, planned to see whether they fit. */
#include "session/budget_parts.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/clock.h"

enum { MOST_DIVISORS = 256 };

/* Peaks of a run like this one but for the variant, from plans alone. */
static dt_status plan_trial(const dti_search *x, dti_trial *t, dt_err *err)
{
    dt_session other = *x->s;
    other.map = NULL;
    other.planned = NULL;
    other.n_planned = other.cap_planned = 0;
    other.algorithms = (dt_algorithm_table){0};
    other.rough = true;
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

bool dti_same_variant(const dti_variant *a, const dti_variant *b)
{
    return a->batch == b->batch && a->micro == b->micro && a->tier == b->tier &&
           a->algorithms == b->algorithms && strcmp(a->policy, b->policy) == 0;
}

/* Plans of deep networks under a search of their own take seconds each. */
static void say_something(dti_search *x)
{
    const double every = 5, now = dt_seconds();
    if (now - x->said < every)
        return;
    if (x->s->notice != NULL) {
        char line[96];
        snprintf(line, sizeof line, "it does not fit; looking for what would: %zu plans so far",
            x->n_tried);
        x->s->notice(line);
    }
    x->said = now;
}

dt_status dti_try_variant(dti_search *x, dti_variant v, dti_trial *out, dt_err *err)
{
    for (size_t i = 0; i < x->n_tried; i++)
        if (dti_same_variant(&x->tried[i].v, &v)) {
            *out = x->tried[i];
            return DT_OK;
        }
    if (!dt_grow((void **)&x->tried, &x->cap_tried, x->n_tried, sizeof *x->tried))
        return DT_FAIL(err, DT_E_NOMEM, "no memory to look for what fits");
    if (dt_seconds() > x->until)
        return DT_E_STOPPED;
    *out = (dti_trial){.v = v};
    say_something(x);
    DT_CHECK(plan_trial(x, out, err));
    x->tried[x->n_tried++] = *out;
    return DT_OK;
}

dt_status dti_largest_batch(dti_search *x, const char *policy, dti_trial *best, dt_err *err)
{
    int64_t fits = 0, fails = x->own.micro;
    *best = (dti_trial){0};
    while (fails - fits > 1) {
        dti_trial t;
        const int64_t n = fits + (fails - fits) / 2;
        DT_CHECK(dti_try_variant(
            x, (dti_variant){n, n, policy, x->own.tier, x->own.algorithms}, &t, err));
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

dt_status dti_largest_micro(dti_search *x, const char *policy, dti_trial *best, dt_err *err)
{
    int64_t divisor[MOST_DIVISORS];
    size_t n = 0, fits = 0;
    *best = (dti_trial){0};
    for (int64_t d = 1; d < x->own.micro && n < MOST_DIVISORS; d++)
        if (x->own.batch % d == 0)
            divisor[n++] = d;
    for (size_t fails = n + 1; fails - fits > 1;) {
        dti_trial t;
        const size_t mid = fits + (fails - fits) / 2;
        const dti_variant v = {
            x->own.batch, divisor[mid - 1], policy, x->own.tier, x->own.algorithms};
        DT_CHECK(dti_try_variant(x, v, &t, err));
        if (t.fits || !t.can) { /* too small to be trained: larger ones might be */
            fits = mid;
            *best = t.fits ? t : *best;
        } else {
            fails = mid;
        }
    }
    return DT_OK;
}
