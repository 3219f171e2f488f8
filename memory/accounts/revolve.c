/* Revolve's count (Griewank and Walther, ACM TOMS 2000): a chain of steps that are all alike is
 * reversed with few states kept. Here a network's layers, unfused, are the steps; what is counted
 * is the sequence that our solver writes, forward steps beyond one each. The paper's theorem says
 * how many those are: r n - C(s + r, s + 1), r the least with C(s + r, s) >= n. */
#include "memory/accounts/account.h"
#include "memory/remat/chain.h"

/* @states: of each figure */
static const dt_account_figure figures[] = {
    {"steps", "", "layers, the loss left out"},
    {"extra_2", "steps", "forward again with 2 states kept, the input among them"},
    {"extra_3", "steps", "with 3"},
    {"extra_4", "steps", "with 4"},
    {"extra_6", "steps", "with 6"},
    {"extra_10", "steps", "with 10"},
};
static const uint64_t states[DT_COUNT(figures)] = {0, 2, 3, 4, 6, 10};

static dt_status extra(uint32_t n, uint64_t s, double *value, dt_err *err)
{
    dt_chain_plan p;
    size_t forward = 0;
    DT_CHECK(dti_revolve_steps(&p, n, s, err));
    for (size_t i = 0; i < p.n; i++)
        forward += p.step[i].act != DT_CHAIN_BACKWARD;
    *value = (double)forward - (double)n;
    dt_chain_plan_deinit(&p);
    return DT_OK;
}

static dt_status count(const dt_graph *g, const dt_account_ask *ask, double *value, dt_err *err)
{
    uint32_t n = 0;
    for (size_t i = 0; i < g->n_node; i++) {
        if (g->node[i].with[0] != '\0')
            return dti_account_fused(&g->node[i], err);
        n += !g->node[i].desc->identity && !g->node[i].desc->loss;
    }
    if (n == 0 || n > DT_CHAIN_MOST_STAGES)
        return DT_FAIL(err, DT_E_CONFIG, "revolve: a chain has 1 to %d layers, not %u",
            DT_CHAIN_MOST_STAGES, n);
    value[0] = n;
    for (size_t i = 1; i < DT_COUNT(figures); i++)
        if (ask->figure == DT_ACCOUNT_ALL || ask->figure == (int)i)
            DT_CHECK(extra(n, states[i], &value[i], err));
    return DT_OK;
}

const dt_account_desc dt_account_revolve = {
    .name = "revolve",
    .summary = "Revolve's forward steps for the layers as a chain of equal ones (2000)",
    .n = DT_COUNT(figures),
    .figure = figures,
    .count = count,
};
