/* The live intervals of a plan, from its rows. */
#include "tools/plan_intervals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers.h"
#include "memory/pools/pool_file.h"

/* @of: by tensor, the interval that it is in, -1 where it has no bytes */
typedef struct walk {
    dt_interval *v;
    size_t n;
    int64_t *of, now;
} walk;

static void place(walk *w, const dt_row *r)
{
    if (r->over >= 0 && w->of[r->over] >= 0) {
        w->of[r->tensor] = w->of[r->over];
        w->of[r->over] = -1;
        return;
    }
    w->of[r->tensor] = (int64_t)w->n;
    w->v[w->n++] = (dt_interval){.lower = w->now,
        .upper = w->now + 1,
        .bytes = dt_align_up(r->bytes, DT_ALIGN),
        .align = DT_ALIGN,
        .id = r->tensor};
}

static void release(walk *w, int32_t tensor)
{
    if (w->of[tensor] < 0)
        return;
    dt_interval *x = &w->v[w->of[tensor]];
    x->upper = w->now > x->lower ? w->now : x->lower + 1;
    w->of[tensor] = -1;
}

static void collect(walk *w, const dt_plan *p)
{
    for (size_t i = 0; i < p->n_tensor; i++)
        w->of[i] = -1;
    for (size_t i = 0; i < p->n_row; i++) {
        const dt_row *r = &p->row[i];
        if (r->kind == DT_ROW_PLACE)
            place(w, r);
        else if (r->kind == DT_ROW_RELEASE)
            release(w, r->tensor);
        else
            w->now += r->kind != DT_ROW_WAIT;
    }
    for (size_t i = 0; i < p->n_tensor; i++)
        release(w, (int32_t)i);
}

/* As plans are placed: by tensor, which is what id is here, then in time. */
static int by_tensor(const void *va, const void *vb)
{
    const dt_interval *a = va, *b = vb;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    return (a->lower > b->lower) - (a->lower < b->lower);
}

dt_status dti_plan_find_intervals(const dt_plan *p, dt_interval **v, size_t *n, dt_err *err)
{
    walk w = {
        .v = dt_alloc(p->n_row + 1, sizeof *w.v), .of = dt_alloc(p->n_tensor + 1, sizeof *w.of)};
    if (w.v == NULL || w.of == NULL) {
        dt_free(w.v);
        dt_free(w.of);
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the intervals of a plan");
    }
    collect(&w, p);
    qsort(w.v, w.n, sizeof *w.v, by_tensor);
    for (size_t i = 0; i < w.n; i++)
        w.v[i].id = (int64_t)i;
    dt_free(w.of);
    *v = w.v;
    *n = w.n;
    return DT_OK;
}

dt_status dti_plan_intervals(const dt_plan *p, const char *path, dt_err *err)
{
    dt_interval *v = NULL;
    size_t n = 0;
    DT_CHECK(dti_plan_find_intervals(p, &v, &n, err));
    const dt_status st = strcmp(path, "-") == 0 ? dt_pool_file_print(v, n, stdout, err)
                                                : dt_pool_file_write(v, n, path, err);
    dt_free(v);
    return st;
}
