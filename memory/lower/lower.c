/* From a program to a plan: the steps of lowering in order. */
#include "memory/lower/lower.h"

#include "engine/base/alloc.h"
#include "memory/lower/lowering.h"

/* Everything but addresses. */
static dt_status lay_out(dti_lowering *l, dt_err *err)
{
    DT_CHECK(dt_program_index(l->p, err));
    DT_CHECK(dti_segments(l, err));
    return dti_blocks(l, err);
}

static dt_status lower(dti_lowering *l, dt_err *err)
{
    DT_CHECK(lay_out(l, err));
    DT_CHECK(dti_place(l, err));
    DT_CHECK(dti_tiers(l, err));
    DT_CHECK(dti_lower_rows(l, err));
    return dti_sync(l->plan, err);
}

static void deinit(dti_lowering *l)
{
    dt_free(l->segment);
    dt_free(l->first);
    dt_free(l->block);
    dt_free(l->slot);
    dt_free(l->slot_of);
    dt_reasons_deinit(&l->reasons);
}

dt_status dt_lower(dt_plan **out, dt_program *p, const dt_lower_opts *o, dt_err *err)
{
    *out = NULL;
    dti_lowering l = {.p = p, .o = o, .plan = dt_alloc(1, sizeof(dt_plan))};
    dt_status st =
        l.plan != NULL ? lower(&l, err) : DT_FAIL(err, DT_E_NOMEM, "no memory for a plan");
    if (st == DT_OK) {
        *out = l.plan;
        l.plan = NULL;
    }
    dt_plan_destroy(l.plan);
    deinit(&l);
    return st;
}

dt_status dti_lower_peak(uint64_t *peak, dt_program *p, const dt_pool_desc *pool, dt_err *err)
{
    const dt_lower_opts o = {.pool = pool};
    dt_plan plan = {.peak = 0};
    dti_lowering l = {.p = p, .o = &o, .plan = &plan};
    dt_status st = lay_out(&l, err);
    if (st == DT_OK)
        st = dti_place(&l, err);
    *peak = plan.peak;
    deinit(&l);
    return st;
}

dt_status dti_lower_bound(uint64_t *bound, dt_program *p, dt_err *err)
{
    dti_lowering l = {.p = p};
    const dt_status st = lay_out(&l, err);
    if (st == DT_OK)
        *bound = p->map->bytes + dt_pool_lower_bound(l.block, l.n_block);
    deinit(&l);
    return st;
}
