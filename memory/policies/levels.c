/* Levels of a program's ops, and swaps that were found by them. */
#include "memory/policies/levels.h"

#include "engine/base/alloc.h"

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
}

dt_status dti_levels_find(dti_levels *l, const dt_program *p, dt_err *err)
{
    int32_t *writer = dt_alloc(p->n_tensor + 1, sizeof *writer);
    *l = (dti_levels){.level = dt_alloc(p->n_op + 1, sizeof *l->level),
        .critical = dt_alloc(p->n_op + 1, sizeof *l->critical)};
    const bool ok = writer != NULL && l->level != NULL && l->critical != NULL;
    for (size_t t = 0; ok && t < p->n_tensor; t++)
        writer[t] = DT_NONE;
    for (size_t k = 0; ok && k < p->n_order; k++) {
        const dt_op *op = &p->op[p->order[k]];
        place(l, p, p->order[k], writer);
        for (int a = 0; a < op->n_arg; a++)
            if ((op->arg[a].mode & DT_WRITE) != 0)
                writer[op->arg[a].tensor] = p->order[k];
    }
    dt_free(writer);
    return ok ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory for a policy");
}

void dti_levels_release(dti_levels *l)
{
    dt_free(l->level);
    dt_free(l->critical);
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
        dti_gap g = swap[k].gap;
        const dti_offload_opt o = {.release_after = swap[k].release, .fetch_before = swap[k].fetch};
        g.from_pos = dt_pos(p, g.from);
        g.to_pos = dt_pos(p, g.to);
        st = dt_reasons_add(&p->reasons, &g.reason, err,
            "%s: its reader is %d levels behind, fetched %d before it", p->policy, swap[k].far,
            swap[k].ahead);
        if (st == DT_OK)
            st = dti_offloads_add(&all, p, &g, &o, err);
    }
    return dti_offloads_end(&all, p, st, err);
}
