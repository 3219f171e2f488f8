/* The list of an op's algorithms, and the table that says which of them a run takes. */
#include "engine/algorithms.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"

void dt_algorithms_add(dt_algorithms *a, const char *impl, size_t bytes)
{
    if (a->n > 0 && bytes >= a->algorithm[a->n - 1].bytes)
        return;
    const int i = a->n < DT_MAX_ALGORITHMS ? a->n++ : DT_MAX_ALGORITHMS - 1;
    snprintf(a->algorithm[i].impl, sizeof a->algorithm[i].impl, "%s", impl);
    a->algorithm[i].bytes = bytes;
}

int dti_algorithms_within(const dt_algorithms *a, size_t limit)
{
    int i = 0;
    while (limit != DT_LIMIT_ANY && i + 1 < a->n && a->algorithm[i].bytes > limit)
        i++;
    return i;
}

int dt_form_direction(dt_form_kind form)
{
    switch (form) {
    case DT_BACKWARD:
    case DT_RESTORE:
        return 1;
    case DT_BACKWARD2:
    case DT_DERIVE_B:
        return 2;
    case DT_FORWARD:
    case DT_RECOMPUTE:
    case DT_EVAL:
    case DT_DERIVE_F:
    case DT_UPDATE:
    case DT_FORMS:
        break;
    }
    return 0;
}

dt_form_kind dti_direction_form(int direction)
{
    static const dt_form_kind forms[DT_DIRECTIONS] = {DT_FORWARD, DT_BACKWARD, DT_BACKWARD2};
    return forms[direction];
}

dt_status dt_algorithm_table_init(dt_algorithm_table *t, size_t n_node, size_t limit, dt_err *err)
{
    *t = (dt_algorithm_table){.n = n_node, .limit = dt_alloc(n_node, sizeof *t->limit)};
    if (t->limit == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a table of algorithms");
    dt_algorithm_table_set(t, limit);
    return DT_OK;
}

void dt_algorithm_table_set(dt_algorithm_table *t, size_t limit)
{
    for (size_t i = 0; i < t->n; i++)
        for (int k = 0; k < DT_DIRECTIONS; k++)
            t->limit[i][k] = limit;
}

void dt_algorithm_table_deinit(dt_algorithm_table *t)
{
    dt_free(t->limit);
    *t = (dt_algorithm_table){0};
}
