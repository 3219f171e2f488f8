/* The choice of algorithms by plans made with them. */
#include "memory/fit.h"

#include "engine/base/alloc.h"
#include "memory/usage.h"

/* One direction of a node that has a choice.
 * @limit: its place in the table
 * @now @want: index of its algorithm, and of the next to try
 * @slack:     least bytes below the ceiling, of all ops that go by it */
typedef struct choice {
    size_t *limit;
    int32_t node;
    int direction, now, want;
    uint64_t slack;
    dt_algorithms all;
} choice;

typedef struct fitting {
    const dt_fit_env *e;
    dt_algorithm_table *table;
    uint64_t ceiling;
    double seconds; /* by what is taken so far */
    size_t n, cap;
    choice *choice; /* in the order in which they first run */
} fitting;

static uint64_t peak_of(const dt_fitted *all, size_t n)
{
    uint64_t peak = 0;
    for (size_t i = 0; i < n; i++)
        peak = all[i].plan->peak > peak ? all[i].plan->peak : peak;
    return peak;
}

static choice *find(fitting *f, int32_t node, int direction)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->choice[i].node == node && f->choice[i].direction == direction)
            return &f->choice[i];
    return NULL;
}

/* An op with the bytes that are alive while it runs. */
static dt_status meet(fitting *f, const dt_program *p, const dt_op *op, uint64_t live, dt_err *err)
{
    dt_algorithms all;
    const int direction = dt_form_direction(op->form);
    DT_CHECK(dt_op_algorithms(p, op, &all, err));
    if (all.n < 2)
        return DT_OK;
    choice *c = find(f, op->node, direction);
    if (c == NULL) {
        if (!dt_grow(&f->choice, &f->cap, f->n, sizeof *f->choice))
            return DT_FAIL(err, DT_E_NOMEM, "no memory to choose algorithms");
        c = &f->choice[f->n++];
        *c = (choice){.limit = &f->table->limit[op->node][direction],
            .node = op->node,
            .direction = direction,
            .now = all.n - 1,
            .slack = UINT64_MAX,
            .all = all};
    }
    const uint64_t free = f->ceiling > live ? f->ceiling - live : 0;
    c->slack = free < c->slack ? free : c->slack;
    return DT_OK;
}

/* The op of a COMPUTE row is the one with this number among the program's ops with kernels. */
static dt_status survey(fitting *f, const dt_fitted *x, dt_err *err)
{
    dt_usage u;
    dt_status st = dt_plan_usage(x->plan, &u, err);
    for (size_t i = 0, at = 0; i < x->program->n_order && st == DT_OK; i++) {
        const dt_op *op = &x->program->op[x->program->order[i]];
        if (op->desc == NULL)
            continue;
        while (x->plan->row[u.instant[at].row].kind != DT_ROW_COMPUTE)
            at++;
        st = op->node != DT_NONE ? meet(f, x->program, op, u.instant[at].bytes, err) : DT_OK;
        at++;
    }
    dt_usage_deinit(&u);
    return st;
}

/* The fastest one whose bytes might fit: more than are free at some op are too many wherever they
 * lie. */
static void aim(choice *c)
{
    const size_t now = c->all.algorithm[c->now].bytes;
    for (c->want = 0; c->want < c->now; c->want++)
        if (c->all.algorithm[c->want].bytes - now <= c->slack)
            return;
}

/* The fastest and the smallest by the limits that say so: costs go by the one, and by the other the
 * op is the one that a profile of the fastest has measured. */
static void take(const choice *c, int i)
{
    const size_t bytes = c->all.algorithm[i].bytes;
    *c->limit = i + 1 < c->all.n && bytes > DT_LIMIT_LEAST ? bytes : DT_LIMIT_LEAST;
    if (i == 0)
        *c->limit = DT_LIMIT_ANY;
}

/* Whether the plans made last take too much, or longer than those before them. */
static dt_status is_worse(
    fitting *f, const dt_fitted *all, size_t n, bool *worse, double *seconds, dt_err *err)
{
    *seconds = f->seconds;
    *worse = peak_of(all, n) > f->ceiling;
    if (*worse || f->e->seconds == NULL)
        return DT_OK;
    DT_CHECK(f->e->seconds(f->e->self, seconds, err));
    *worse = !(*seconds <= f->seconds);
    return DT_OK;
}

/* Take what choices [from, to) aim at. If that is too much, halves of them, and in the end one at a
 * time its next slower one. */
static dt_status settle(fitting *f, size_t from, size_t to, dt_err *err)
{
    size_t n;
    const dt_fitted *all;
    bool any = false, over;
    double seconds;
    for (size_t i = from; i < to; i++) {
        take(&f->choice[i], f->choice[i].want);
        any = any || f->choice[i].want != f->choice[i].now;
    }
    if (!any)
        return DT_OK;
    DT_CHECK(f->e->plan(f->e->self, f->table, &all, &n, err));
    DT_CHECK(is_worse(f, all, n, &over, &seconds, err));
    f->seconds = over ? f->seconds : seconds;
    for (size_t i = from; i < to; i++)
        if (over)
            take(&f->choice[i], f->choice[i].now);
        else
            f->choice[i].now = f->choice[i].want;
    if (!over)
        return DT_OK;
    if (to - from == 1) {
        f->choice[from].want++;
        return settle(f, from, to, err);
    }
    const size_t half = from + (to - from) / 2;
    DT_CHECK(settle(f, from, half, err));
    return settle(f, half, to, err);
}

/* An op without a choice takes what there is, whose speed is that of the fastest: a limit would
 * say that it takes what is slow and small. */
static void lift_others(fitting *f)
{
    dt_algorithm_table_set(f->table, DT_LIMIT_ANY);
    for (size_t i = 0; i < f->n; i++)
        *f->choice[i].limit = DT_LIMIT_LEAST;
}

/* Plans of the fewest bytes that algorithms can take, and what they tell. */
static dt_status begin(fitting *f, dt_err *err)
{
    size_t n;
    const dt_fitted *all;
    dt_algorithm_table_set(f->table, DT_LIMIT_LEAST);
    DT_CHECK(f->e->plan(f->e->self, f->table, &all, &n, err));
    for (size_t i = 0; i < n; i++)
        DT_CHECK(survey(f, &all[i], err));
    lift_others(f);
    DT_CHECK(f->e->plan(f->e->self, f->table, &all, &n, err));
    f->ceiling = peak_of(all, n);
    f->ceiling = f->e->budget > f->ceiling ? f->e->budget : f->ceiling;
    f->n = 0;
    for (size_t i = 0; i < n; i++)
        DT_CHECK(survey(f, &all[i], err));
    return f->e->seconds != NULL ? f->e->seconds(f->e->self, &f->seconds, err) : DT_OK;
}

static dt_status fit(fitting *f, dt_err *err)
{
    DT_CHECK(begin(f, err));
    for (size_t i = 0; i < f->n; i++)
        aim(&f->choice[i]);
    return f->n > 0 ? settle(f, 0, f->n, err) : DT_OK;
}

dt_status dt_fit_algorithms(const dt_fit_env *e, dt_algorithm_table *table, dt_err *err)
{
    fitting f = {.e = e, .table = table};
    const dt_status st = fit(&f, err);
    dt_free(f.choice);
    return st;
}
