/* The contract of the reader of graphs: a whole graph or none, no failure without a message, no
 * block left behind, edges that run forwards, sums that are exact. */
#include "engine/base/alloc.h"
#include "memory/remat/remat.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const long before = dti_alloc_live();
    dt_err err = {0};
    dt_remat_graph g;
    const dt_status st = dti_remat_parse(&g, (const char *)data, size, "graph", &err);
    DT_ASSERT((st == DT_OK) == (err.n == 0));
    DT_ASSERT(st == DT_OK || st == DT_E_DATA);
    if (st == DT_OK) {
        uint64_t bytes = 0, cost = 0;
        DT_ASSERT(g.n_op > 0 && g.n_op <= size && g.n_edge <= size);
        for (uint32_t v = 0; v < g.n_op; v++) {
            bytes += g.bytes[v];
            cost += g.cost[v];
            for (uint32_t i = g.in_at[v]; i < g.in_at[v + 1]; i++)
                DT_ASSERT(g.in[i] < v);
            for (uint32_t i = g.out_at[v]; i < g.out_at[v + 1]; i++)
                DT_ASSERT(g.out[i] > v && g.out[i] < g.n_op);
        }
        DT_ASSERT(bytes <= DT_REMAT_MOST_SUM && cost <= DT_REMAT_MOST_SUM);
    }
    dt_remat_graph_deinit(&g);
    DT_ASSERT(dti_alloc_live() == before);
    return 0;
}
