/* Live bytes at each row of a plan, and what is alive at the peak. */
#include "memory/usage.h"

#include <stdlib.h>

#include "engine/base/alloc.h"

/* Where a walk through the rows stands. */
typedef struct walk {
    const dt_plan *p;
    bool *live;
    uint64_t *off;
    uint64_t bytes, top; /* alive now; highest end of any tensor */
    int32_t at_top;      /* tensors alive now that end there */
} walk;

static uint64_t end_of(const walk *w, int32_t tensor)
{
    return w->off[tensor] + w->p->tensor[tensor].bytes;
}

static void begin(walk *w, int32_t tensor, uint64_t off)
{
    w->live[tensor] = true;
    w->off[tensor] = off;
    w->bytes += w->p->tensor[tensor].bytes;
    w->at_top += end_of(w, tensor) == w->top;
}

static void end(walk *w, int32_t tensor)
{
    if (!w->live[tensor])
        return;
    w->live[tensor] = false;
    w->bytes -= w->p->tensor[tensor].bytes;
    w->at_top -= end_of(w, tensor) == w->top;
}

static void start(walk *w)
{
    w->bytes = 0;
    w->at_top = 0;
    for (size_t t = 0; t < w->p->n_tensor; t++) {
        w->live[t] = false;
        if (dt_plan_resident(&w->p->tensor[t]))
            begin(w, (int32_t)t, w->p->tensor[t].home);
    }
}

/* True when something runs in this row. */
static bool step(walk *w, const dt_row *r)
{
    if (r->kind == DT_ROW_PLACE) {
        if (r->over >= 0)
            end(w, r->over);
        begin(w, r->tensor, r->off);
    } else if (r->kind == DT_ROW_RELEASE) {
        end(w, r->tensor);
    }
    return r->kind == DT_ROW_COMPUTE || r->kind == DT_ROW_COPY_OUT || r->kind == DT_ROW_COPY_IN;
}

static uint64_t highest_end(const dt_plan *p)
{
    uint64_t top = 0;
    for (size_t t = 0; t < p->n_tensor; t++)
        if (dt_plan_resident(&p->tensor[t]) && p->tensor[t].home + p->tensor[t].bytes > top)
            top = p->tensor[t].home + p->tensor[t].bytes;
    for (size_t i = 0; i < p->n_row; i++)
        if (p->row[i].kind == DT_ROW_PLACE && p->row[i].off + p->row[i].bytes > top)
            top = p->row[i].off + p->row[i].bytes;
    return top;
}

static void find_peak(walk *w, dt_usage *u)
{
    uint64_t most = 0;
    bool found = false;
    start(w);
    for (size_t i = 0; i < w->p->n_row; i++) {
        if (!step(w, &w->p->row[i]))
            continue;
        if (w->at_top > 0 && (!found || w->bytes > most)) {
            u->peak = u->n_instant;
            most = w->bytes;
            found = true;
        }
        u->instant[u->n_instant++] = (dt_instant){(int32_t)i, w->bytes};
    }
    if (!found)
        u->peak = u->n_instant;
}

typedef struct sized {
    uint64_t bytes;
    int32_t tensor;
} sized;

static int larger_first(const void *a, const void *b)
{
    const sized *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->tensor < y->tensor ? -1 : x->tensor > y->tensor;
}

/* Walk to the instant of the peak again, and take down what is alive. */
static bool snapshot(walk *w, dt_usage *u)
{
    const dt_plan *p = w->p;
    const int32_t last = u->peak < u->n_instant ? u->instant[u->peak].row : -1;
    sized *all = dt_alloc(p->n_tensor, sizeof *all);
    if (all == NULL)
        return false;
    start(w);
    for (int32_t i = 0; i <= last; i++)
        (void)step(w, &p->row[i]);
    u->unused = p->peak - w->bytes;
    for (size_t t = 0; t < p->n_tensor; t++)
        if (w->live[t]) {
            u->bytes[p->tensor[t].role] += p->tensor[t].bytes;
            all[u->n_live++] = (sized){p->tensor[t].bytes, (int32_t)t};
        }
    qsort(all, u->n_live, sizeof *all, larger_first);
    for (size_t i = 0; i < u->n_live; i++)
        u->live[i] = all[i].tensor;
    dt_free(all);
    return true;
}

dt_status dt_plan_usage(const dt_plan *p, dt_usage *out, dt_err *err)
{
    walk w = {.p = p,
        .live = dt_alloc(p->n_tensor, sizeof *w.live),
        .off = dt_alloc(p->n_tensor, sizeof *w.off),
        .top = highest_end(p)};
    *out = (dt_usage){.instant = dt_alloc(p->n_row, sizeof *out->instant),
        .live = dt_alloc(p->n_tensor, sizeof *out->live)};
    bool ok = w.live != NULL && w.off != NULL && out->instant != NULL && out->live != NULL;
    if (ok) {
        find_peak(&w, out);
        ok = snapshot(&w, out);
    }
    dt_free(w.live);
    dt_free(w.off);
    return ok ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory to sum up a plan");
}

void dt_usage_deinit(dt_usage *u)
{
    dt_free(u->instant);
    dt_free(u->live);
    *u = (dt_usage){0};
}
