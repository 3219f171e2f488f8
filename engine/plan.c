#include "engine/plan.h"

#include "engine/alloc.h"

static const char *const row_names[] = {
#define NAME(id, text) #id,
    DT_PLAN_ROWS(NAME)
#undef NAME
};
static const char *const tier_names[] = {"input", "host"};
_Static_assert(DT_COUNT(row_names) == DT_ROW_KINDS, "a name a kind");
_Static_assert(DT_COUNT(tier_names) == DT_TIERS, "a name a tier");

const char *dt_row_name(int kind)
{
    return row_names[kind];
}

const char *dt_tier_name(int tier)
{
    return tier_names[tier];
}

void dt_plan_destroy(dt_plan *p)
{
    if (p == NULL)
        return;
    dt_free(p->tensor);
    dt_free(p->op);
    dt_free(p->arg);
    dt_free(p->row);
    dt_free(p->reason);
    dt_free(p);
}
