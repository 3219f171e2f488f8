/* The one chooser among the implementations of an op. */
#include "engine/implementations.h"

#include <stdarg.h>
#include <stdio.h>

#include "engine/base/alloc.h"

bool dt_refuse(dt_why *why, const char *fmt, ...)
{
    va_list args;
    if (why == NULL)
        return false;
    va_start(args, fmt);
    vsnprintf(why->text, sizeof why->text, fmt, args);
    va_end(args);
    return false;
}

/* The op that a call is of, or that its layouts are made for. */
static dt_call served_by(const dt_call *c)
{
    dt_call served = *c;
    served.form = dti_direction_form(dt_form_direction(c->form));
    return served;
}

/* A walk along a list for one op. Most who choose do not ask for reasons, and planning chooses
 * often: they are written where @tell. */
typedef struct walk {
    dt_call served;
    dt_choice *choice;
    bool tell;
} walk;

static dt_why *why_of(walk *w)
{
    return w->tell ? &w->choice->refused[w->choice->n].why : NULL;
}

/* The first from @at on that accepts; NULL: none. */
static const dt_impl *next_of(walk *w, const dt_impl *at)
{
    for (; at->name != NULL; at++) {
        if (at->forms != 0 && (at->forms & DT_FORM_BIT(w->served.form)) == 0)
            continue;
        w->choice->refused[w->choice->n].impl = at;
        if (at->accepts == NULL || at->accepts(&w->served, why_of(w)))
            return at;
        w->choice->n++;
    }
    return NULL;
}

/* The first that accepts and, while they yield, those after it: their algorithms in @all, of which
 * i is by[i]. */
static dt_status all_of(walk *w, const dt_impl *first, dt_algorithms *all,
    const dt_impl *by[DT_MAX_ALGORITHMS], dt_err *err)
{
    all->n = 0;
    for (const dt_impl *at = first; at != NULL; at = next_of(w, at + 1)) {
        dt_facts f = {0};
        DT_CHECK(at->facts(&w->served, &f, err));
        dt_algorithms_add(all, f.impl, dt_facts_bytes(&f));
        if (by[all->n - 1] == NULL)
            by[all->n - 1] = at;
        if (!at->yields)
            break;
    }
    return DT_OK;
}

/* By the limit, from the first that accepts on. */
static dt_status yield(walk *w, dt_err *err)
{
    dt_choice *const c = w->choice;
    const dt_impl *by[DT_MAX_ALGORITHMS] = {NULL};
    dt_algorithms all;
    DT_CHECK(all_of(w, c->taken, &all, by, err));
    const int taken = dti_algorithms_within(&all, w->served.workspace_limit), refused = c->n;
    c->taken = by[taken];
    c->n = 0;
    for (int i = 0; i < refused; i++)
        if (c->refused[i].impl < c->taken)
            c->refused[c->n++] = c->refused[i];
    for (int i = 0; i < taken; i++) {
        c->refused[c->n].impl = by[i];
        dt_refuse(why_of(w), "takes %zu bytes of scratch, above the limit", all.algorithm[i].bytes);
        c->n++;
    }
    return DT_OK;
}

static dt_status choose(
    const dt_impl *list, const dt_call *c, bool tell, dt_choice *choice, dt_err *err)
{
    walk w = {served_by(c), choice, tell};
    choice->n = 0;
    choice->taken = next_of(&w, list);
    if (choice->taken == NULL && !tell)
        return choose(list, c, true, choice, err);
    if (choice->taken == NULL)
        return DT_FAIL(err, DT_E_INTERNAL, "no implementation computes form %d: %s",
            (int)w.served.form,
            choice->n > 0 ? choice->refused[choice->n - 1].why.text : "none is for it");
    return choice->taken->yields && c->workspace_limit != DT_LIMIT_ANY ? yield(&w, err) : DT_OK;
}

dt_status dti_impl_choose(const dt_impl *list, const dt_call *c, dt_choice *choice, dt_err *err)
{
    return choose(list, c, true, choice, err);
}

dt_status dti_impl_facts(const dt_impl *list, const dt_call *c, dt_facts *f, dt_err *err)
{
    dt_choice choice;
    DT_CHECK(choose(list, c, false, &choice, err));
    *f = (dt_facts){0};
    return choice.taken->facts(c, f, err);
}

/* Ops that make layouts have no choice of their own. */
dt_status dti_impl_algorithms(
    const dt_impl *list, const dt_call *c, dt_algorithms *all, dt_err *err)
{
    const bool alone = c->form != DT_DERIVE_F && c->form != DT_DERIVE_B && c->form != DT_RESTORE;
    const dt_impl *by[DT_MAX_ALGORITHMS] = {NULL};
    dt_choice choice;
    walk w = {served_by(c), &choice, false};
    choice.n = 0;
    all->n = 0;
    const dt_impl *first = alone ? next_of(&w, list) : NULL;
    if (first != NULL && first->algorithms != NULL)
        return first->algorithms(c, all, err);
    return first != NULL && first->yields ? all_of(&w, first, all, by, err) : DT_OK;
}

/* An op as it was created. */
typedef struct created {
    const dt_impl *impl;
    void *state;
} created;

void dti_impl_destroy(void *state)
{
    created *s = state;
    if (s != NULL && s->impl->destroy != NULL)
        s->impl->destroy(s->state);
    dt_free(s);
}

dt_status dti_impl_create(const dt_impl *list, const dt_call *c, void **state, dt_err *err)
{
    dt_choice choice;
    *state = NULL;
    DT_CHECK(choose(list, c, false, &choice, err));
    created *s = dt_alloc(1, sizeof *s);
    if (s == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to prepare an op");
    s->impl = choice.taken;
    const dt_status st = s->impl->create != NULL ? s->impl->create(c, &s->state, err) : DT_OK;
    if (st != DT_OK) {
        dt_free(s);
        return st;
    }
    *state = s;
    return DT_OK;
}

dt_status dti_impl_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    const created *s = state;
    return s->impl->run(c, s->state, a, err);
}
