/* Runs put in and taken out, lives that follow, and the load curve as a tree. */
#include "memory/remat/runs.h"

#include <string.h>

#include "engine/base/alloc.h"

enum { LEAST_SLOTS = 64, SLOTS_A_RUN = 2 };

void dti_runs_deinit(dti_runs *r)
{
    dt_free(r->op);
    dt_free(r->before);
    dt_free(r->after);
    dt_free(r->end);
    dt_free(r->at);
    dt_free(r->run);
    dt_free(r->first);
    dt_free(r->last);
    dt_free(r->count);
    dt_free(r->load);
    dt_free(r->changed);
    dt_free(r->marked);
    *r = (dti_runs){0};
}

static void clear(dti_runs *r)
{
    memset(r->load, 0, 2 * (size_t)r->n_slot * sizeof *r->load);
    memset(r->op, 0xff, r->n_slot * sizeof *r->op);
    memset(r->first, 0xff, r->g->n_op * sizeof *r->first);
    memset(r->last, 0xff, r->g->n_op * sizeof *r->last);
    memset(r->count, 0, r->g->n_op * sizeof *r->count);
    memset(r->marked, 0, r->n_slot * sizeof *r->marked);
    r->n_changed = 0;
    r->n_run = 0;
    r->cost = 0;
}

dt_status dti_runs_init(dti_runs *out, const dt_remat_graph *g, size_t most, dt_err *err)
{
    *out = (dti_runs){0};
    size_t slots = LEAST_SLOTS;
    while (slots / SLOTS_A_RUN < most && slots < (size_t)UINT32_MAX / 4)
        slots *= 2;
    dti_runs r = {.g = g, .n_slot = (uint32_t)slots};
    uint32_t **const by_slot[] = {&r.op, &r.before, &r.after, &r.end, &r.at, &r.run, &r.changed};
    uint32_t **const by_op[] = {&r.first, &r.last, &r.count};
    bool ok = slots / SLOTS_A_RUN >= most;
    for (size_t i = 0; i < DT_COUNT(by_slot); i++)
        ok = ok && (*by_slot[i] = dt_alloc(slots, sizeof **by_slot[i])) != NULL;
    for (size_t i = 0; i < DT_COUNT(by_op); i++)
        ok = ok && (*by_op[i] = dt_alloc(g->n_op, sizeof **by_op[i])) != NULL;
    ok = ok && (r.load = dt_alloc(2 * slots, sizeof *r.load)) != NULL;
    ok = ok && (r.marked = dt_alloc(slots, sizeof *r.marked)) != NULL;
    if (!ok) {
        dti_runs_deinit(&r);
        return DT_FAIL(err, DT_E_NOMEM, "no memory for %zu runs", most);
    }
    clear(&r);
    *out = r;
    return DT_OK;
}

/* --- the load curve --- */

static void mark(dti_runs *r, uint32_t node)
{
    r->changed[r->n_changed] = node;
    r->n_changed += !r->marked[node];
    r->marked[node] = true;
}

/* From this slot on there are so many bytes more. */
static void change(dti_runs *r, uint32_t slot, int64_t bytes)
{
    if (slot >= r->n_slot)
        return;
    const uint32_t leaf = slot + r->n_slot;
    dti_live_sum *const t = &r->load[leaf];
    t->sum += bytes;
    t->max = t->sum;
    t->times = r->op[slot] != DTI_NO_RUN;
    mark(r, leaf / 2);
}

static void add_up(dti_live_sum *t, uint32_t node)
{
    const dti_live_sum *left = &t[2 * (size_t)node], *right = left + 1;
    const int64_t later = left->sum + right->max;
    t[node].sum = left->sum + right->sum;
    t[node].max = left->max > later ? left->max : later;
    t[node].times =
        (left->max >= later ? left->times : 0) + (later >= left->max ? right->times : 0);
}

/* Level by level, as most changes of a few runs have nodes above them in common. */
void dti_runs_settle(dti_runs *r)
{
    while (r->n_changed > 0) {
        const uint32_t n = r->n_changed;
        r->n_changed = 0;
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t node = r->changed[i];
            add_up(r->load, node);
            r->marked[node] = false;
            if (node > 1)
                mark(r, node / 2);
        }
    }
}

uint32_t dti_runs_before(const dti_runs *r, uint32_t op, uint32_t slot)
{
    uint32_t t = r->last[op];
    while (t != DTI_NO_RUN && t >= slot)
        t = r->before[t];
    return t;
}

/* The slot from which on no run below @stop reads @v, no lower than @least: what is passed over
 * costs at most as much as to look at @v's readers. */
static uint32_t pass_over(const dti_runs *r, uint32_t v, uint32_t least, uint32_t stop)
{
    const dt_remat_graph *g = r->g;
    uint32_t left = g->out_at[v + 1] - g->out_at[v];
    for (; stop > least; stop--) {
        const uint32_t op = r->op[stop - 1];
        const uint32_t looks = op != DTI_NO_RUN ? g->in_at[op + 1] - g->in_at[op] + 1 : 1;
        if (left < looks || (op != DTI_NO_RUN && dti_remat_reads(g, op, v)))
            break;
        left -= looks;
    }
    return stop;
}

/* The last reader below @stop of the value that the run in @slot makes. Of a value that very many
 * ops read one is mostly near. */
static uint32_t find_end(const dti_runs *r, uint32_t slot, uint32_t stop)
{
    enum { MANY = 32 };
    const dt_remat_graph *g = r->g;
    const uint32_t v = r->op[slot], *out = g->out + g->out_at[v];
    const uint32_t n = g->out_at[v + 1] - g->out_at[v];
    uint32_t end = slot;
    if (n > MANY) {
        stop = pass_over(r, v, slot + 1, stop);
        if (stop == slot + 1)
            return slot;
        if (r->op[stop - 1] != DTI_NO_RUN && dti_remat_reads(g, r->op[stop - 1], v))
            return stop - 1;
    }
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t t = dti_runs_before(r, out[i], stop);
        end = t != DTI_NO_RUN && t > end ? t : end;
    }
    return end;
}

static void set_end(dti_runs *r, uint32_t slot, uint32_t end)
{
    if (r->end[slot] == end)
        return;
    const int64_t bytes = (int64_t)r->g->bytes[r->op[slot]];
    change(r, r->end[slot] + 1, bytes);
    change(r, end + 1, -bytes);
    r->end[slot] = end;
}

/* --- runs --- */

static void link_in(dti_runs *r, uint32_t slot, uint32_t v)
{
    const uint32_t before = dti_runs_before(r, v, slot);
    const uint32_t after = before != DTI_NO_RUN ? r->after[before] : r->first[v];
    r->op[slot] = v;
    r->before[slot] = before;
    r->after[slot] = after;
    *(before != DTI_NO_RUN ? &r->after[before] : &r->first[v]) = slot;
    *(after != DTI_NO_RUN ? &r->before[after] : &r->last[v]) = slot;
    r->count[v]++;
    r->cost += r->g->cost[v];
    r->at[slot] = r->n_run;
    r->run[r->n_run++] = slot;
}

void dti_runs_put(dti_runs *r, uint32_t slot, uint32_t v)
{
    const dt_remat_graph *g = r->g;
    const int64_t bytes = (int64_t)g->bytes[v];
    for (uint32_t i = g->in_at[v]; i < g->in_at[v + 1]; i++) {
        const uint32_t made = dti_runs_before(r, g->in[i], slot);
        if (r->end[made] < slot)
            set_end(r, made, slot);
    }
    link_in(r, slot, v);
    change(r, slot, bytes);
    const uint32_t before = r->before[slot];
    if (before != DTI_NO_RUN && r->end[before] > slot) { /* the later readers are now this run's */
        r->end[slot] = r->end[before];
        r->end[before] = find_end(r, before, slot);
        change(r, r->end[before] + 1, -bytes);
    } else {
        r->end[slot] = slot;
        change(r, slot + 1, -bytes);
    }
}

static void unlink_out(dti_runs *r, uint32_t slot, uint32_t v)
{
    const uint32_t before = r->before[slot], after = r->after[slot];
    *(before != DTI_NO_RUN ? &r->after[before] : &r->first[v]) = after;
    *(after != DTI_NO_RUN ? &r->before[after] : &r->last[v]) = before;
    r->count[v]--;
    r->cost -= r->g->cost[v];
    const uint32_t moved = r->run[--r->n_run];
    r->run[r->at[slot]] = moved;
    r->at[moved] = r->at[slot];
}

void dti_runs_take(dti_runs *r, uint32_t slot)
{
    const dt_remat_graph *g = r->g;
    const uint32_t v = r->op[slot], before = r->before[slot];
    const int64_t bytes = (int64_t)g->bytes[v];
    r->op[slot] = DTI_NO_RUN;
    change(r, slot, -bytes);
    if (r->end[slot] > slot) { /* its readers are now those of the run before */
        change(r, r->end[before] + 1, bytes);
        r->end[before] = r->end[slot];
    } else {
        change(r, slot + 1, bytes);
    }
    unlink_out(r, slot, v);
    for (uint32_t i = g->in_at[v]; i < g->in_at[v + 1]; i++) {
        const uint32_t made = dti_runs_before(r, g->in[i], slot);
        if (r->end[made] == slot)
            set_end(r, made, find_end(r, made, slot));
    }
}

void dti_runs_load(dti_runs *r, const uint32_t *op, size_t n)
{
    clear(r);
    for (size_t i = 0; i < n; i++)
        dti_runs_put(r, (uint32_t)((2 * i + 1) * r->n_slot / (2 * n)), op[i]);
    dti_runs_settle(r);
}

size_t dti_runs_store(const dti_runs *r, uint32_t *op)
{
    size_t n = 0;
    for (uint32_t i = 0; i < r->n_slot; i++)
        if (r->op[i] != DTI_NO_RUN)
            op[n++] = r->op[i];
    return n;
}
