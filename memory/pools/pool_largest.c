/* Intervals placed one by one, the largest first. */
#include "memory/pools/pool_largest.h"

#include <stdlib.h>

#include "engine/base/alloc.h"

typedef struct key {
    uint64_t need;
    int64_t lower;
    size_t who;
} key;

static int larger_first(const void *a, const void *b)
{
    const key *p = a, *q = b;
    if (p->need != q->need)
        return p->need > q->need ? -1 : 1;
    if (p->lower != q->lower)
        return p->lower < q->lower ? -1 : 1;
    return (p->who > q->who) - (p->who < q->who);
}

/* Those that have bytes, in order. */
static size_t sort(dt_interval *v, size_t n, dti_largest_equals equals, key *order)
{
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        v[i].off = 0;
        if (v[i].bytes > 0)
            order[m++] =
                (key){dti_interval_need(&v[i]), equals == DTI_EARLIER_BORN ? v[i].lower : 0, i};
    }
    qsort(order, m, sizeof *order, larger_first);
    return m;
}

dt_status dti_largest_first(const char *name, dt_interval *v, size_t n, dti_largest_equals equals,
    dti_largest_choose *choose, void *self, uint64_t *peak, dt_err *err)
{
    DT_CHECK(dti_pool_check(v, n, err));
    dti_shelf shelf;
    key *order = dt_alloc(n, sizeof *order);
    dt_status st = DT_OK;
    *peak = 0;
    if (!dti_shelf_init(&shelf, v, n) || order == NULL)
        st = DT_FAIL(err, DT_E_NOMEM, "pool %s: out of memory for %zu intervals", name, n);
    const size_t m = st == DT_OK ? sort(v, n, equals, order) : 0;
    for (size_t i = 0; i < m && st == DT_OK; i++) {
        dt_interval *x = &v[order[i].who];
        if (!choose(self, &shelf, x, &x->off) || x->off > UINT64_MAX - order[i].need) {
            st = DT_FAIL(err, DT_E_BUDGET, "pool %s: interval %zu would end beyond 2^64 bytes",
                name, order[i].who);
            break;
        }
        dti_shelf_put(&shelf, x, x->off);
        *peak = x->off + order[i].need > *peak ? x->off + order[i].need : *peak;
    }
    dti_shelf_deinit(&shelf);
    dt_free(order);
    return st;
}
