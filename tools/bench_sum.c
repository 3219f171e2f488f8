/* From the steps to one table: medians and means. */
#include "tools/bench_parts.h"

#include <stdlib.h>

/* An insertion sort: there are few steps, and they come in no order. */
static void sort_steps(dti_bench *b)
{
    for (int i = 0; i < (int)b->steps; i++) {
        int at = i;
        for (; at > 0 && b->seconds[b->order[at - 1]] > b->seconds[i]; at--)
            b->order[at] = b->order[at - 1];
        b->order[at] = i;
    }
}

static int by_time(const void *a, const void *b)
{
    const dt_bench_row *x = a, *y = b;
    return x->seconds < y->seconds ? 1 : x->seconds > y->seconds ? -1 : 0;
}

static int by_count(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Means over the middle half of the steps: so parts add up to a step, and odd ones do not count. */
static void sum_rows(dti_bench *b, dt_bench_result *r)
{
    const int64_t from = b->steps / 4, to = b->steps - from;
    const double n = (double)(to - from);
    for (int64_t i = from; i < to; i++) {
        r->step += b->seconds[b->order[i]] / n;
        for (int k = 0; k < b->n_row; k++) {
            const dti_cell *c = &b->cell[b->order[i] * b->n_row + k];
            b->row[k].seconds += c->seconds / n;
            b->row[k].floor += c->floor / n;
            b->row[k].ops += (double)c->ops / n;
        }
    }
    qsort(b->row, (size_t)b->n_row, sizeof *b->row, by_time);
    r->rest = r->step;
    for (int k = 0; k < b->n_row && b->row[k].seconds > 0; k++) {
        r->n_row++;
        r->rest -= b->row[k].seconds;
        r->floor += b->row[k].floor;
    }
}

dt_bench_result dti_bench_sum(dti_bench *b)
{
    const int64_t mid = b->steps / 2, last = b->steps - 1;
    dt_bench_result r = {.session = b->s, .machine = b->machine, .steps = b->steps, .row = b->row};
    sort_steps(b);
    r.least = b->seconds[b->order[0]];
    r.most = b->seconds[b->order[last]];
    r.median = (b->seconds[b->order[mid]] + b->seconds[b->order[last - mid]]) / 2;
    sum_rows(b, &r);
    qsort(b->faults, (size_t)b->steps, sizeof *b->faults, by_count);
    r.faults = b->faults[mid];
    r.faults_most = b->faults[last];
    r.allocations = b->allocated;
    r.grown = b->heap;
    return r;
}
