/* CNTK's static allocator, by which Gist measures (Jain and others, ISCA 2018, section IV-C): the
 * largest first, each into a group in which nobody lives when it does, otherwise into a new one. A
 * group takes the bytes of its largest member; the groups lie one behind another. Of several such
 * groups it is the smallest, which the paper leaves open and CNTK's source tells (MatrixPool.h: a
 * new group goes to the front of the list that is searched).
 *
 * Where ours differs: of equal sizes the one listed first goes first. CNTK leaves that to its sort,
 * which keeps no order of equals, and much hangs on it: Gist's account (memory/accounts/gist.c)
 * lists what it has as that sort would. */
#include "engine/base/alloc.h"
#include "engine/base/numbers.h"
#include "memory/pools/pool_largest.h"

typedef struct groups {
    uint64_t *off; /* of each group, n of them; all its members lie there */
    size_t n;
    uint64_t end; /* of the last */
} groups;

static bool open_group(groups *g, const dt_interval *x, uint64_t *off)
{
    const uint64_t need = dti_interval_need(x);
    if (!dt_round_up(g->end, x->align, off) || *off > UINT64_MAX - need)
        return false;
    g->off[g->n++] = *off;
    g->end = *off + need;
    return true;
}

/* Those that live when x does come in the order of their groups, which is from the largest down. */
static bool join(void *self, const dti_shelf *s, const dt_interval *x, uint64_t *off)
{
    groups *g = self;
    dti_shelf_walk w;
    int64_t steps = 0;
    size_t free = g->n;
    dti_shelf_begin(&w, s, x);
    const dti_placed *p = dti_shelf_next(&w, &steps);
    for (size_t at = 0; at < g->n; at++) {
        const bool empty = p == NULL || p->off > g->off[at];
        if (empty && g->off[at] % x->align == 0)
            free = at;
        while (p != NULL && p->off == g->off[at])
            p = dti_shelf_next(&w, &steps);
    }
    if (free == g->n)
        return open_group(g, x, off);
    *off = g->off[free];
    return true;
}

static dt_status place(dt_interval *v, size_t n, uint64_t *peak, dt_err *err)
{
    groups g = {.off = dt_alloc(n, sizeof *g.off)};
    const dt_status st =
        g.off == NULL
            ? DT_FAIL(err, DT_E_NOMEM, "pool cntk_groups: out of memory for %zu intervals", n)
            : dti_largest_first("cntk_groups", v, n, DTI_EARLIER_LISTED, join, &g, peak, err);
    dt_free(g.off);
    return st;
}

const dt_pool_desc dt_pool_cntk_groups = {
    .name = "cntk_groups",
    .summary =
        "CNTK's static allocator (Gist): the largest first, into the smallest group that is free",
    .place = place,
};
