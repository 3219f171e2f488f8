/* Sequences of runs, and what they take by the rules. */
#include <inttypes.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/remat/remat.h"

void dti_remat_sequence_deinit(dt_remat_sequence *s)
{
    dt_free(s->op);
    *s = (dt_remat_sequence){0};
}

dt_status dti_remat_push(dt_remat_sequence *s, uint32_t op, dt_err *err)
{
    if (!dt_grow(&s->op, &s->cap, s->n, sizeof *s->op))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a sequence of %zu runs", s->n + 1);
    s->op[s->n++] = op;
    return DT_OK;
}

dt_status dti_remat_push_lacking(dt_remat_sequence *s, const dt_remat_graph *g, uint32_t op,
    uint8_t *there, uint32_t *stack, dt_err *err)
{
    uint32_t *top = stack; /* an op and the next of its inputs; those below wait for those above */
    top[0] = op;
    top[1] = g->in_at[op];
    for (;;) {
        const uint32_t at = top[0];
        while (top[1] < g->in_at[at + 1] && there[g->in[top[1]]] != 0)
            top[1]++;
        if (top[1] < g->in_at[at + 1]) { /* it is below @at, so the stack is as deep as promised */
            const uint32_t lacks = g->in[top[1]];
            top += 2;
            top[0] = lacks;
            top[1] = g->in_at[lacks];
            continue;
        }
        there[at] = 1;
        DT_CHECK(dti_remat_push(s, at, err));
        if (top == stack)
            return DT_OK;
        top -= 2;
    }
}

dt_status dti_remat_in_order(dt_remat_sequence *out, const dt_remat_graph *g, dt_err *err)
{
    *out = (dt_remat_sequence){0};
    for (uint32_t v = 0; v < g->n_op; v++) {
        const dt_status st = dti_remat_push(out, v, err);
        if (st != DT_OK) {
            dti_remat_sequence_deinit(out);
            return st;
        }
    }
    return DT_OK;
}

/* The run that made each op's value last, and where each run's value is read last. */
typedef struct lives {
    size_t *made, *end;
    uint64_t *freed; /* bytes that go behind each run */
} lives;

static const size_t never = SIZE_MAX;

static dt_status trace(const dt_remat_graph *g, const dt_remat_sequence *s, lives *l, dt_err *err)
{
    for (uint32_t v = 0; v < g->n_op; v++)
        l->made[v] = never;
    for (size_t t = 0; t < s->n; t++) {
        const uint32_t v = s->op[t];
        if (v >= g->n_op)
            return DT_FAIL(err, DT_E_INTERNAL, "run %zu: there is no op %" PRIu32, t, v);
        for (uint32_t e = g->in_at[v]; e < g->in_at[v + 1]; e++) {
            if (l->made[g->in[e]] == never)
                return DT_FAIL(err, DT_E_INTERNAL,
                    "run %zu: op %" PRIu32 " comes before its input %" PRIu32, t, v, g->in[e]);
            l->end[l->made[g->in[e]]] = t;
        }
        l->made[v] = l->end[t] = t;
    }
    for (uint32_t v = 0; v < g->n_op; v++)
        if (l->made[v] == never)
            return DT_FAIL(err, DT_E_INTERNAL, "op %" PRIu32 " never runs", v);
    return DT_OK;
}

static dt_remat_taken add_up(const dt_remat_graph *g, const dt_remat_sequence *s, lives *l)
{
    dt_remat_taken sum = {0};
    uint64_t live = 0;
    for (size_t t = 0; t < s->n; t++)
        l->freed[l->end[t]] += g->bytes[s->op[t]];
    for (size_t t = 0; t < s->n; t++) {
        sum.cost += g->cost[s->op[t]];
        live += g->bytes[s->op[t]];
        sum.peak = live > sum.peak ? live : sum.peak;
        live -= l->freed[t];
    }
    return sum;
}

dt_status dti_remat_measure(
    const dt_remat_graph *g, const dt_remat_sequence *s, dt_remat_taken *out, dt_err *err)
{
    lives l = {.made = dt_alloc(g->n_op, sizeof *l.made),
        .end = dt_alloc(s->n, sizeof *l.end),
        .freed = dt_alloc(s->n, sizeof *l.freed)};
    dt_status st = l.made != NULL && l.end != NULL && l.freed != NULL
                       ? trace(g, s, &l, err)
                       : DT_FAIL(err, DT_E_NOMEM, "no memory for the lives of %zu runs", s->n);
    if (st == DT_OK)
        *out = add_up(g, s, &l);
    dt_free(l.made);
    dt_free(l.end);
    dt_free(l.freed);
    return st;
}

dt_status dt_remat_last_reads(
    const dt_remat_graph *g, const dt_remat_sequence *s, size_t *last, dt_err *err)
{
    lives l = {.made = dt_alloc(g->n_op, sizeof *l.made), .end = last};
    const dt_status st = l.made != NULL
                             ? trace(g, s, &l, err)
                             : DT_FAIL(err, DT_E_NOMEM, "no memory for the lives of ops");
    dt_free(l.made);
    return st;
}

dt_status dti_remat_prune(const dt_remat_graph *g, dt_remat_sequence *s, dt_err *err)
{
    size_t *first = dt_alloc((size_t)g->n_op + 1, sizeof *first), at = s->n;
    bool *read = dt_alloc((size_t)g->n_op + 1, sizeof *read);
    if (first == NULL || read == NULL) {
        dt_free(first);
        dt_free(read);
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a sequence of %zu runs", s->n);
    }
    for (size_t i = s->n; i-- > 0;)
        first[s->op[i]] = i;
    for (size_t i = s->n; i-- > 0;) {
        const uint32_t v = s->op[i];
        if (!read[v] && first[v] != i)
            continue;
        read[v] = false;
        for (uint32_t e = g->in_at[v]; e < g->in_at[v + 1]; e++)
            read[g->in[e]] = true;
        s->op[--at] = v;
    }
    s->n -= at;
    memmove(s->op, s->op + at, s->n * sizeof *s->op);
    dt_free(first);
    dt_free(read);
    return DT_OK;
}
