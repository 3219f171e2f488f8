/* The least of several steps is taken: what is beside a run only ever makes a row longer. */
#include "session/row_times.h"

#include "engine/base/alloc.h"

static void ran(void *self, const dt_trace_row *row)
{
    const dti_row_times *t = self;
    const double seconds = row->end - row->begin;
    for (size_t i = 0; i < t->n; i++) {
        dti_timed_plan *p = &t->of[i];
        if (p->id != row->plan || (p->seconds[row->row] >= 0 && p->seconds[row->row] <= seconds))
            continue;
        p->seconds[row->row] = seconds;
        p->moved[row->row] = row->bytes;
    }
}

dt_status dti_row_times_add(dti_row_times *t, int id, const dt_plan *p, dt_err *err)
{
    dti_timed_plan x = {.id = id, .plan = p};
    t->trace = (dt_trace){t, ran};
    x.seconds = dt_alloc(p->n_row + 1, sizeof *x.seconds);
    x.moved = dt_alloc(p->n_row + 1, sizeof *x.moved);
    if (x.seconds == NULL || x.moved == NULL || !dt_grow(&t->of, &t->cap, t->n, sizeof *t->of)) {
        dt_free(x.seconds);
        dt_free(x.moved);
        return DT_FAIL(err, DT_E_NOMEM, "no memory to time a plan's %zu rows", p->n_row);
    }
    for (size_t r = 0; r < p->n_row; r++)
        x.seconds[r] = -1;
    t->of[t->n++] = x;
    return DT_OK;
}

void dti_row_times_close(dti_row_times *t)
{
    for (size_t i = 0; i < t->n; i++) {
        dt_free(t->of[i].seconds);
        dt_free(t->of[i].moved);
    }
    dt_free(t->of);
    *t = (dti_row_times){0};
}

/* ---- from rows to costs ---- */

static dt_status add_ops(const dti_timed_plan *x, dt_costs *to, dt_err *err)
{
    for (size_t r = 0; r < x->plan->n_row; r++) {
        const dt_row *row = &x->plan->row[r];
        char signature[DT_SIGNATURE_BYTES];
        if (row->kind != DT_ROW_COMPUTE || x->seconds[r] < 0)
            continue;
        const dt_plan_op *op = &x->plan->op[row->op];
        dt_cost_entry e = {.signature = signature,
            .seconds = x->seconds[r] / to->scale,
            .floor = dt_costs_floor(to, x->plan, op)};
        dt_cost_signature(x->plan, op, signature, &e.samples);
        DT_CHECK(dt_costs_add(to, &e, err));
    }
    return DT_OK;
}

/* Values as they are, not packed: what packing takes is the codecs' affair. */
static bool is_copy(const dt_row *row, dt_tier tier, dt_direction d)
{
    const int kind = d == DT_TO_TIER ? DT_ROW_COPY_OUT : DT_ROW_COPY_IN;
    return row->kind == kind && row->tier == tier && row->codec == 0;
}

/* The rate at which all copies one way would have taken as long as they did. */
static void set_link(const dti_row_times *t, dt_tier tier, dt_direction d, dt_link *link)
{
    double bytes = 0, seconds = 0;
    for (size_t i = 0; i < t->n; i++)
        for (size_t r = 0; r < t->of[i].plan->n_row; r++) {
            if (t->of[i].seconds[r] < 0 || !is_copy(&t->of[i].plan->row[r], tier, d))
                continue;
            bytes += (double)t->of[i].moved[r];
            seconds += t->of[i].seconds[r] - link->latency;
        }
    if (bytes > 0 && seconds > 0)
        link->rate = bytes / seconds;
}

static void set_links(const dti_row_times *t, bool team, dt_costs *to)
{
    for (int tier = DT_TIER_HOST; tier < DT_TIERS; tier++)
        for (int d = DT_TO_TIER; d < DT_TIER_DIRECTIONS; d++) {
            dt_link *const link =
                team && tier == DT_TIER_HOST ? &to->link[tier][d] : &to->thread_link[tier][d];
            set_link(t, (dt_tier)tier, (dt_direction)d, link);
            if (tier == DT_TIER_DISK)
                to->link[tier][d] = *link;
        }
}

static dt_status fill(const dti_row_times *t, const dt_costs *old, dt_costs *to, dt_err *err)
{
    for (size_t i = 0; i < t->n; i++)
        DT_CHECK(add_ops(&t->of[i], to, err));
    for (size_t i = 0; i < old->n_rate; i++)
        DT_CHECK(dt_costs_add_rate(to, &old->rate[i], err));
    DT_CHECK(dt_costs_seal(to, err));
    return dt_costs_merge(to, old, err);
}

dt_status dti_row_times_keep(const dti_row_times *t, bool team, dt_costs *costs, dt_err *err)
{
    dt_costs to = *costs; /* the machine, without what is listed of it */
    to.entry = NULL;
    to.kind = NULL;
    to.rate = NULL;
    to.n_entry = to.cap_entry = to.n_kind = to.n_rate = to.cap_rate = 0;
    const dt_status st = fill(t, costs, &to, err);
    if (st != DT_OK) {
        dt_costs_deinit(&to);
        return st;
    }
    set_links(t, team, &to);
    dt_costs_deinit(costs);
    *costs = to;
    return DT_OK;
}
