/* What every plan has: names of rows, and its end. */
#include "engine/plan.h"

#include <string.h>

#include "engine/base/alloc.h"

static const char *const row_names[] = {
#define NAME(id, text) #id,
    DT_PLAN_ROWS(NAME)
#undef NAME
};
_Static_assert(DT_COUNT(row_names) == DT_ROW_KINDS, "a name a kind");

const char *dt_row_name(int kind)
{
    return row_names[kind];
}

void dt_plan_destroy(dt_plan *p)
{
    if (p == NULL)
        return;
    dt_free(p->node);
    dt_free(p->text);
    dt_free(p->tensor);
    dt_free(p->op);
    dt_free(p->arg);
    dt_free(p->row);
    dt_free(p->reason);
    dt_free(p);
}

int dt_plan_kind(const dt_plan *p)
{
    for (int k = 0; k < DT_PROGRAM_KINDS; k++)
        if (strcmp(p->program, dt_program_kind_name((dt_program_kind)k)) == 0)
            return k;
    return -1;
}
