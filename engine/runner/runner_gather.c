/* Updates on a device that works on its own. A network has hundreds of them, one a parameter, and
 * most are so small that putting them there takes longer than doing them. So those that stand in a
 * row, with no copy, wait or signal between them, go there together, one launch for each kind. No
 * two of a row touch what one of them writes, so their order means nothing. */
#include "engine/base/alloc.h"
#include "engine/runner/runner_parts.h"

enum { MOST = 1024 /* of a row: each is compared with those before it */ };

static bool may_gather(const dti_step *s)
{
    return s->kind == DTI_COMPUTE && s->call.form == DT_UPDATE && s->kernels->create == NULL;
}

/* Whether one of them writes what the other touches. */
static bool meet(const dti_plan *p, const dti_step *a, const dti_step *b)
{
    for (int32_t i = a->first; i < a->first + a->n; i++)
        for (int32_t k = b->first; k < b->first + b->n; k++) {
            const dti_bytes *x = &p->touched[i], *y = &p->touched[k];
            if ((x->written || y->written) && x->from < y->to && y->from < x->to)
                return true;
        }
    return false;
}

/* The step behind a row's last, -1 where the plan ends; @first itself, if it is in no row. */
static int32_t end_of_row(const dti_plan *p, int32_t first)
{
    int32_t i = first;
    for (int n = 0; i >= 0 && n < MOST && may_gather(&p->step[i]); n++) {
        for (int32_t k = first; k != i; k = p->step[k].next)
            if (meet(p, &p->step[k], &p->step[i]))
                return i;
        const dti_step *s = &p->step[i];
        i = s->next;
        if (s->event >= 0)
            return i;
    }
    return i;
}

/* All of a row that are of this one's kind become one launch with it; how many. */
static int join(dti_plan *p, dti_step *leader, int32_t end)
{
    dti_step *last = leader;
    for (int32_t i = leader->next; i != end; i = p->step[i].next) {
        dti_step *s = &p->step[i];
        if (s->kernels != leader->kernels)
            continue;
        s->together = 0;
        leader->together++;
        last->mate = s;
        last = s;
    }
    return leader->together;
}

static dt_status make_room(dti_many *m, int n, dt_err *err)
{
    if (n <= m->cap)
        return DT_OK;
    dt_free(m->call);
    dt_free(m->args);
    m->call = dt_alloc((size_t)n, sizeof *m->call);
    m->args = dt_alloc((size_t)n, sizeof *m->args);
    m->cap = n;
    if (m->call == NULL || m->args == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to bind a plan");
    return DT_OK;
}

dt_status dti_gather(dt_runner *r, dti_plan *p, dt_err *err)
{
    for (int32_t first = p->begin[DT_STREAM_COMPUTE]; first >= 0;) {
        const int32_t end = end_of_row(p, first);
        for (int32_t i = first; i != end; i = p->step[i].next)
            if (p->step[i].together == 1)
                DT_CHECK(make_room(&r->many, join(p, &p->step[i], end), err));
        first = end != first ? end : p->step[first].next;
    }
    return DT_OK;
}

dt_status dti_gather_launch(void *step, void *queue, dt_err *err)
{
    const dti_step *first = step;
    const dti_many *m = &first->r->many;
    int n = 0;
    for (const dti_step *s = first; s != NULL; s = s->mate, n++) {
        m->call[n] = &s->call;
        m->args[n] = dti_queue_args(s, queue);
    }
    if (first->kernels->run_many != NULL) {
        DT_TRY(err, first->kernels->run_many(m->call, m->args, n, err), "%s and %d more",
            first->name, n - 1);
        return DT_OK;
    }
    n = 0;
    for (const dti_step *s = first; s != NULL; s = s->mate, n++)
        DT_TRY(err, s->kernels->run(&s->call, s->state, &m->args[n], err), "%s", s->name);
    return DT_OK;
}

void dti_gather_free(dt_runner *r)
{
    dt_free(r->many.call);
    dt_free(r->many.args);
}
