/* Queues of copies with one more in them. */
#include "memory/gap/turns.h"

#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers.h"
#include "memory/pass.h"

/* Those asked for have few sizes, and rounding makes few more of them. */
enum { SEEN = 4 };

dt_status dti_turns_open(dti_turns *t, size_t room, dt_err *err)
{
    t->turn = dt_alloc(room + 1, sizeof *t->turn);
    t->seen = dt_alloc(room + 1, SEEN * sizeof *t->seen);
    t->shifted = dt_alloc(room + 1, sizeof *t->shifted);
    t->own = dt_alloc(room + 1, sizeof *t->own);
    t->own_without = dt_alloc(room + 1, sizeof *t->own_without);
    if (t->turn == NULL || t->seen == NULL || t->shifted == NULL || t->own == NULL ||
        t->own_without == NULL)
        return dti_pass_no_memory(err);
    return DT_OK;
}

void dti_turns_close(dti_turns *t)
{
    dt_free(t->turn);
    dt_free(t->seen);
    dt_free(t->shifted);
    dt_free(t->own);
    dt_free(t->own_without);
    *t = (dti_turns){0};
}

static double done(const dti_turn *x, double free)
{
    return dt_max_f64(free, x->ready) + x->early + x->takes;
}

void dti_turns_run(dti_turns *t, size_t n, size_t n_own, double free)
{
    double before = 0;
    t->n = n;
    t->n_own = n_own;
    for (size_t q = 0; q < n; q++) {
        dti_turn *x = &t->turn[q];
        x->free = free;
        x->before = before;
        x->seen = 0;
        free = done(x, free);
        if (x->own != 0)
            t->own_without[x->own] = dt_max_f64(0, free - x->by);
        else
            before = dt_max_f64(before, free - x->by);
    }
    t->turn[n] = (dti_turn){.free = free, .before = before, .next = n};
    for (size_t q = n; q-- > 0;) {
        dti_turn *x = &t->turn[q], *then = &t->turn[q + 1];
        x->next = x->own != 0 ? q : then->next;
        x->behind = x->own != 0 ? then->behind : dt_max_f64(then->behind, then->free - x->by);
    }
}

/* ---- one more ---- */

static bool is_known(const dti_turns *t, size_t q, double free, dti_turn_seen *what)
{
    const dti_turn *x = &t->turn[q];
    const dti_turn_seen *seen = &t->seen[q * SEEN];
    if (x->free == free)
        *what = (dti_turn_seen){free, x->behind, t->turn[x->next].free};
    else if (x->next == q)
        *what = (dti_turn_seen){free, 0, free};
    if (x->free == free || x->next == q)
        return true;
    for (size_t s = 0; s < SEEN && s < x->seen; s++)
        if (seen[s].free == free) {
            *what = seen[s];
            return true;
        }
    return false;
}

/* What becomes of a turn and those behind it: forward until that is known, as it is where it makes
 * no difference any more, and back with what is found. */
static dti_turn_seen find(dti_turns *t, size_t at, double free)
{
    dti_turn_seen what;
    size_t q = at;
    for (t->shifted[q] = free; !is_known(t, q, t->shifted[q], &what); q++)
        t->shifted[q + 1] = done(&t->turn[q], t->shifted[q]);
    while (q-- > at) {
        dti_turn *x = &t->turn[q];
        what.free = t->shifted[q];
        what.behind = dt_max_f64(what.behind, t->shifted[q + 1] - x->by);
        t->seen[q * SEEN + x->seen++ % SEEN] = what;
    }
    return what;
}

double dti_turns_wait_with(dti_turns *t, size_t at, const dti_turn *more)
{
    double free = done(more, t->turn[at].free);
    double wait = dt_max_f64(t->turn[at].before, free - more->by);
    memcpy(t->own, t->own_without, (t->n_own + 1) * sizeof *t->own);
    for (size_t q = at; q <= t->n; q++) {
        const dti_turn_seen what = find(t, q, free);
        wait = dt_max_f64(wait, what.behind);
        q = t->turn[q].next;
        const dti_turn *x = &t->turn[q];
        if (q == t->n || what.next == x->free)
            return dt_max_f64(wait, x->behind);
        free = done(x, what.next);
        t->own[x->own] = dt_max_f64(0, free - x->by);
    }
    return wait;
}
