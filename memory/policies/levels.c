/* Levels of a program's ops, and swaps that were found by them. */
#include "memory/policies/levels.h"

#include "engine/base/alloc.h"

/* Twice as far as the op before it if that is two jumps alike, else to that op. */
static void set_jump(dti_levels *l, int32_t id)
{
    const int32_t before = l->critical[id];
    l->jump[id] = before != DT_NONE ? before : id;
    if (before == DT_NONE)
        return;
    const int32_t far = l->jump[before];
    if (l->level[before] - l->level[far] == l->level[far] - l->level[l->jump[far]])
        l->jump[id] = l->jump[far];
}

/* An op stands a level behind the last of those whose results it reads. */
static void place(dti_levels *l, const dt_program *p, int32_t id, const int32_t *writer)
{
    const dt_op *op = &p->op[id];
    l->critical[id] = DT_NONE;
    for (int a = 0; a < op->n_arg; a++) {
        const int32_t from = writer[op->arg[a].tensor];
        if ((op->arg[a].mode & DT_READ) != 0 && from != DT_NONE &&
            l->level[from] + 1 > l->level[id]) {
            l->level[id] = l->level[from] + 1;
            l->critical[id] = from;
        }
    }
    l->n = l->level[id] >= l->n ? l->level[id] + 1 : l->n;
    set_jump(l, id);
}

static void find_higher(dti_levels *l, const dt_program *p)
{
    const int32_t n = (int32_t)p->n_order;
    for (int32_t k = n; k-- > 0;) {
        int32_t next = k + 1;
        while (next < n && l->level[p->order[next]] <= l->level[p->order[k]])
            next = l->higher[next];
        l->higher[k] = next;
    }
}

dt_status dti_levels_find(dti_levels *l, const dt_program *p, dt_err *err)
{
    int32_t *writer = dt_alloc(p->n_tensor + 1, sizeof *writer);
    *l = (dti_levels){.level = dt_alloc(p->n_op + 1, sizeof *l->level),
        .critical = dt_alloc(p->n_op + 1, sizeof *l->critical),
        .jump = dt_alloc(p->n_op + 1, sizeof *l->jump),
        .higher = dt_alloc(p->n_order + 1, sizeof *l->higher)};
    const bool ok = writer != NULL && l->level != NULL && l->critical != NULL && l->jump != NULL &&
                    l->higher != NULL;
    for (size_t t = 0; ok && t < p->n_tensor; t++)
        writer[t] = DT_NONE;
    for (size_t k = 0; ok && k < p->n_order; k++) {
        const dt_op *op = &p->op[p->order[k]];
        place(l, p, p->order[k], writer);
        for (int a = 0; a < op->n_arg; a++)
            if ((op->arg[a].mode & DT_WRITE) != 0)
                writer[op->arg[a].tensor] = p->order[k];
    }
    if (ok)
        find_higher(l, p);
    dt_free(writer);
    return ok ? DT_OK : dti_pass_no_memory(err);
}

void dti_levels_release(dti_levels *l)
{
    dt_free(l->level);
    dt_free(l->critical);
    dt_free(l->jump);
    dt_free(l->higher);
}

/* Whether an op stands behind a place and above a level. */
static bool is_past(
    const dti_levels *l, const dt_program *p, int32_t op, int64_t level, int32_t place)
{
    return l->level[op] > level && dt_pos(p, op) > place;
}

int32_t dti_levels_back(
    const dti_levels *l, const dt_program *p, int32_t op, int64_t steps, int32_t place)
{
    const int64_t least = l->level[op] - steps;
    while (op != DT_NONE && is_past(l, p, op, least, place)) {
        const int32_t far = l->jump[op];
        op = far != op && is_past(l, p, far, least, place) ? far : l->critical[op];
    }
    return op;
}

int32_t dti_levels_reach(
    const dti_levels *l, const dt_program *p, int32_t place, int32_t level, int32_t end)
{
    while (place < end && l->level[p->order[place]] < level)
        place = l->higher[place];
    return place < end ? place : end;
}

int32_t dti_levels_behind(const dti_levels *l, const dt_program *p, const dti_gap *g)
{
    return l->level[g->to] - l->level[dti_definition(p, g->tensor, g->from_pos)];
}

dti_level_swap *dti_level_swaps_room(const dt_program *p)
{
    return dt_alloc(p->n_op * DT_MAX_ARGS + 1, sizeof(dti_level_swap));
}

dt_status dti_level_swaps_make(dt_program *p, const dti_level_swap *swap, size_t n, dt_err *err)
{
    dti_offloads all = {0};
    dt_status st = DT_OK;
    for (size_t k = 0; k < n && st == DT_OK; k++) {
        dti_gap g = dti_gap_now(p, swap[k].gap);
        const dti_offload_opt o = {.release_after = swap[k].release, .fetch_before = swap[k].fetch};
        st = dt_reasons_add(&p->reasons, &g.reason, err,
            "%s: its reader is %d levels behind, fetched %d before it", p->policy, swap[k].far,
            swap[k].ahead);
        if (st == DT_OK)
            st = dti_offloads_add(&all, p, &g, &o, err);
    }
    return dti_offloads_end(&all, p, st, err);
}
