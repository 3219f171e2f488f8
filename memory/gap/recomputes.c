/* Algorithm 2 of Capuchin: choosing a value changes what making others costs. */
#include "memory/gap/recomputes.h"

#include <math.h>

#include "engine/base/alloc.h"

enum { WORD = 64 };

dt_status dti_recomputes_open(dti_recomputes *a, size_t n, dt_err *err)
{
    *a = (dti_recomputes){.n = n, .words = (n + WORD - 1) / WORD};
    a->item = dt_alloc(n + 1, sizeof *a->item);
    a->source = dt_alloc(n + 1, a->words * sizeof *a->source);
    if (a->item == NULL || a->source == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a policy");
    return DT_OK;
}

void dti_recomputes_close(dti_recomputes *a)
{
    dt_free(a->item);
    dt_free(a->source);
    *a = (dti_recomputes){0};
}

void dti_recomputes_source(dti_recomputes *a, size_t item, size_t from)
{
    a->source[item * a->words + from / WORD] |= UINT64_C(1) << from % WORD;
}

bool dti_recomputes_from(const dti_recomputes *a, size_t item, size_t from)
{
    return (a->source[item * a->words + from / WORD] >> from % WORD & 1) != 0;
}

double dti_recomputes_score(const dti_recomputes *a, size_t item)
{
    const dti_recomputes_item *i = &a->item[item];
    return isfinite(i->seconds) ? (double)i->bytes / (i->seconds + i->extra) : 0;
}

/* src - t + t.src */
static void go_through(dti_recomputes *a, size_t item, size_t t)
{
    a->source[item * a->words + t / WORD] &= ~(UINT64_C(1) << t % WORD);
    for (size_t w = 0; w < a->words; w++)
        a->source[item * a->words + w] |= a->source[t * a->words + w];
}

/* What the chosen ones that are made from it would take longer. */
static double extra_of(const dti_recomputes *a, size_t c)
{
    double sum = 0;
    for (size_t i = 0; i < a->n; i++)
        if (a->item[i].chosen && dti_recomputes_from(a, i, c))
            sum += a->item[c].seconds;
    return sum;
}

void dti_recomputes_choose(dti_recomputes *a, size_t t)
{
    int times = 1; /* how often it will be made */
    for (size_t i = 0; i < a->n; i++)
        if (a->item[i].chosen && dti_recomputes_from(a, i, t)) {
            go_through(a, i, t);
            times++;
        }
    a->item[t].chosen = true;
    for (size_t c = 0; c < a->n; c++) {
        dti_recomputes_item *i = &a->item[c];
        if (i->chosen)
            continue;
        if (dti_recomputes_from(a, c, t)) {
            go_through(a, c, t);
            i->seconds += a->item[t].seconds;
            i->extra = extra_of(a, c);
        }
        if (dti_recomputes_from(a, t, c))
            i->extra = times * i->seconds;
    }
}
